#!/usr/bin/env python3
"""Sparse matrices on the CPU: `bench/sparse.py [PART ...]` (sparse_cpu.py says which); beside CuPy: `bench/sparse.py --gpu`.

--gpu, in less than a minute, with build/gpu/gpu_tests (make gpu) beside: the kernel alone on arrays in the device's memory, and
cuSPARSE through CuPy on the same arrays; statements of SQL on a matrix in a file, the first and later ones; spreading
activation as one statement.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import scipy.sparse as sp

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "sql"))
import sparse_cpu  # noqa: E402
from conftest import gx_connect, q  # noqa: E402


def timed(fn):
    start = time.perf_counter()
    out = fn()
    return time.perf_counter() - start, out


# ---- on a GPU, beside CuPy -------------------------------------------------------------------------------------------


def power_law(rng, n, entries):
    """A graph whose degrees fall off as a power of the rank, on both sides; f64."""
    weight = np.arange(1, n + 1) ** -0.6
    degree = np.minimum(n // 4, np.ceil(weight * (entries / weight.sum())).astype(np.int64))
    rng.shuffle(degree)
    rows = np.repeat(np.arange(n, dtype=np.int64), degree)
    key = rows * n + (n * rng.random(len(rows)) ** 2.5).astype(np.int64)
    key.sort()
    starts = np.concatenate([[0], np.cumsum(degree)])
    return sp.csr_matrix((rng.standard_normal(len(key)), (key % n).astype(np.int32), starts.astype(np.int32)), shape=(n, n))


def random(rng, n, each):
    index = np.sort(rng.integers(0, n, (n, each), np.int32), axis=1)
    return sp.csr_matrix((rng.standard_normal(n * each), index.ravel(), np.arange(0, n * each + 1, each, np.int32)), shape=(n, n))


def poisson(n):
    side = int(round(n ** 0.5))
    line = sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(side, side))
    return sp.csr_matrix(sp.kron(sp.identity(side), line) + sp.kron(line, sp.identity(side)))


def write_raw(path, S):
    with open(path, "wb") as file:
        np.array([*S.shape, S.nnz], "<i8").tofile(file)
        for part, kind in ((S.indptr, "<u4"), (S.indices, "<i4"), (S.data, "<f8")):
            part.astype(kind).tofile(file)


def on_device(cupy, work):
    """Seconds of one call, the least of five rounds of several."""
    work()
    cupy.cuda.Device().synchronize()
    best = 1e9
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(10):
            work()
        cupy.cuda.Device().synchronize()
        best = min(best, (time.perf_counter() - start) / 10)
    return best


def kernels_alone(cupy, folder, name, S, lines=(1, 32)):
    """gx's kernel in a process of its own, cuSPARSE through CuPy here: the same matrix, resident."""
    path = os.path.join(folder, "matrix.raw")
    write_raw(path, S)
    program = ROOT / "build" / "gpu" / "gpu_tests"
    env = os.environ | {"GX_CUDA_SO": os.environ.get("GX_CUDA_SO", str(ROOT / "build" / "gpu" / "gx_cuda.so"))}
    out = subprocess.run([program, "bench_sparse", path, *map(str, lines)], env=env, capture_output=True, text=True, check=False)
    if out.returncode != 0:
        print(f"{name}: {out.stdout} {out.stderr}")
    for row in map(json.loads, filter(lambda x: x.startswith("{\"dtype"), out.stdout.splitlines())):
        title = f"{name}{' transposed' if row['transposed'] else ''}, {row['lines']} columns, {row['dtype']}"
        text = f"{title:48} gx {1e3 * row['seconds']:9.4f} ms"
        if cupy is not None:
            kind = {"f64": np.float64, "f32": np.float32}[row["dtype"]]
            A = cupy.sparse.csr_matrix(S.astype(kind))
            A = A.T if row["transposed"] else A
            peers = {"F": cupy.asfortranarray(cupy.ones((A.shape[1], row["lines"]), kind))}
            if row["lines"] == 1:
                peers = {"vector": cupy.ones(A.shape[1], kind)}
            for order, D in peers.items():
                try:
                    t = on_device(cupy, lambda: A @ D)
                    text += f"   CuPy {1e3 * t:9.4f} ms   gx / CuPy {row['seconds'] / t:6.3f}{'   (<= 1.15)' if row['lines'] == 32 else ''}"
                except Exception as problem:  # memory, mostly
                    text += f"   CuPy: {str(problem)[:60]}"
        print(text, flush=True)


def told(db):
    return dict(db.execute("SELECT name, value FROM gx_stats WHERE name <> 'note'").fetchall())


def statements(folder, rounds):
    """A matrix in a file: the first product, later ones, the scan of its panels."""
    db = gx_connect(os.path.join(folder, "sparse.db"))
    n, w = 1000000, 32
    for setting, value in (("memory_limit", 16 << 30), ("backend", "cuda")):
        db.execute("SELECT gx_config(?, ?)", (setting, value)).fetchall()
    q(db, f"SELECT gx_random({n}, {w}, 'D')")
    q(db, f"SELECT gx_matrix_gallery('poisson', {n}, 'poisson', '{{\"sparse\":true}}')")
    for k in range(3):
        q(db, f"SELECT gx_random({n}, {n}, 'random{k}', '{{\"density\":{20 / n},\"low\":-1,\"seed\":{k + 1}}}')")
    first = []
    for k in range(3):
        before = told(db)
        t, _ = timed(lambda: q(db, f"SELECT length(gx_matmul('random{k}', 'D'))"))
        scan = timed(lambda: q(db, f"SELECT gx_norm('random{k}', 'fro') + gx_sum('D')"))[0]
        after = told(db)
        assert after["device_calls"] > before["device_calls"], db.execute("SELECT * FROM gx_stats WHERE name = 'note'").fetchall()
        if k > 0:  # the first allocates
            first.append((t, scan))
    t, scan = min(first)
    print(f"random {n} @ {w} columns from the file            {1e3 * t:9.1f} ms   scan of both {1e3 * scan:9.1f} ms   ratio {t / scan:6.3f}   (<= 1.2)")
    for name in ("random2", "poisson"):
        q(db, f"SELECT length(gx_matmul('{name}', 'D'))")
        before = told(db)
        later = statistics.median(timed(lambda: q(db, f"SELECT length(gx_matmul('{name}', 'D'))"))[0] for _ in range(rounds))
        after = told(db)
        print(f"{name} {n} @ {w} columns, kept                {1e3 * later:9.1f} ms   hits {after['device_hits'] - before['device_hits']}, "
              f"read {(after['bytes_read'] - before['bytes_read']) / rounds / 1e6:.0f} MB, up {(after['uploaded'] - before['uploaded']) / rounds / 1e6:.0f} MB each")
    for note in db.execute("SELECT meaning FROM gx_stats WHERE name = 'note'"):
        print("note:", note[0])
    db.close()


def spreading(folder, rounds):
    """One statement, 5 steps over 10 000 nodes and 200 000 edges, on the device, the CPU, and where the planner wants it: some rows,
    the ten best, those above a threshold, and all of them, which SQLite counts and sums up; beside that, in an ordinary table."""
    path = os.path.join(folder, "graph.db")
    db = gx_connect(path)
    q(db, "SELECT gx_random(10000, 10000, 'G', '{\"density\":0.002,\"low\":0}')")
    db.close()
    table = "FROM gx_spread('G', '[[17]]', '{\"steps\":5}')"
    for title, sql in (("ten rows", f"SELECT * {table} LIMIT 10"), ("the ten best", f"SELECT * {table} ORDER BY activation DESC LIMIT 10"),
                       ("above 0.6, counted", f"SELECT count(*), sum(activation) {table} WHERE activation > 0.6"),
                       ("all rows, summed", f"SELECT count(*), sum(activation) {table}")):
        seconds, found, calls = {}, {}, {}
        for backend in ("cuda", "cpu", "auto"):
            db = gx_connect(path)
            db.execute("SELECT gx_config('backend', ?)", (backend,)).fetchall()
            found[backend] = db.execute(sql).fetchall()
            warm = time.perf_counter() + (3 if backend == "auto" else 0.1)  # until opening the device has been saved
            while time.perf_counter() < warm:
                db.execute(sql).fetchall()
            before = told(db)["device_calls"]
            seconds[backend] = statistics.median(timed(lambda: db.execute(sql).fetchall())[0] for _ in range(20 * rounds))
            calls[backend] = told(db)["device_calls"] - before
            db.close()
        np.testing.assert_allclose(np.array(found["cuda"], float), np.array(found["cpu"], float), rtol=1e-9)
        print(f"spread, {title}: {1e3 * seconds['cuda']:.3f} ms (<= 0.45); CPU {1e3 * seconds['cpu']:.3f} ms = {seconds['cpu'] / seconds['cuda']:.1f} x (>= 3); "
              f"auto {1e3 * seconds['auto']:.3f} ms, {calls['auto']} of {20 * rounds} on the device", flush=True)
    db = gx_connect(path)
    db.execute(f"CREATE TEMP TABLE spread AS SELECT * {table}")
    alone = statistics.median(timed(lambda: db.execute("SELECT count(*), sum(activation) FROM spread").fetchall())[0] for _ in range(20 * rounds))
    print(f"spread, all rows, summed in an ordinary table: {1e3 * alone:.3f} ms")
    db.close()


def on_gpu(rounds, small):
    try:
        import cupy
        import cupyx.scipy.sparse

        cupy.sparse = cupyx.scipy.sparse
    except ImportError:
        cupy = None
        print("no CuPy here: gx alone")
    rng = np.random.default_rng(1)
    n, entries = (10000, 500000) if small else (1000000, 50000000)
    with tempfile.TemporaryDirectory(dir=os.environ.get("GX_BENCH_DIR")) as folder:
        spreading(folder, rounds)
        statements(folder, rounds)
        kernels_alone(cupy, folder, f"poisson {n}", poisson(n))
        kernels_alone(cupy, folder, f"random {n}", random(rng, n, 20))
        graph = power_law(rng, 2 * n, entries)
        kernels_alone(cupy, folder, f"power law {2 * n}, {graph.nnz} entries", graph, (32,))


def main():
    if "--gpu" not in sys.argv:
        sparse_cpu.main()
        return
    parser = argparse.ArgumentParser(description="bench/sparse.py --gpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="order 10^4 instead of 10^6")
    parser.add_argument("--gpu", action="store_true", help="beside CuPy")
    options = parser.parse_args()
    on_gpu(options.rounds, options.small)


if __name__ == "__main__":
    main()
