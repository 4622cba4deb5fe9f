#!/usr/bin/env python3
"""Products with sparse matrices beside SciPy: `bench/sparse.py [--rounds N] [--small]`; beside CuPy: `bench/sparse.py --gpu`.

gx reads both operands from a database file that is in the page cache and makes a value of SQL, with as many threads as the
process may have; SciPy has arrays in memory and one thread.  In each round both are timed one after the other,
so that a busy machine slows both; the medians of the rounds and of their ratios are printed.

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
from conftest import from_numpy, gx_connect, q, to_numpy  # noqa: E402


def csr_of(db, name):
    """A stored f64 matrix as SciPy's, by its panels (docs/format.md)."""
    id_, rows, cols = db.execute("SELECT id, rows, cols FROM gx_meta WHERE name = ?", (name,)).fetchone()
    aux = np.frombuffer(db.execute("SELECT aux FROM gx_meta WHERE id = ?", (id_,)).fetchone()[0], "<i8")[4:].reshape(-1, 2)
    parts, first = [], 0
    for (end, count), (data,) in zip(aux, db.execute("SELECT data FROM gx_tile WHERE id >> 32 = ? ORDER BY id", (id_,))):
        h = end - first
        at = -(-(h + 1) // 2) * 8
        parts.append(sp.csr_matrix((np.frombuffer(data, "<f8", count, at + -(-count // 2) * 8),
                                    np.frombuffer(data, "<i4", count, at),
                                    np.frombuffer(data, "<u4", h + 1).astype(np.int32)), shape=(h, cols)))
        first = end
    return sp.vstack(parts, format="csr")


def timed(fn):
    start = time.perf_counter()
    out = fn()
    return time.perf_counter() - start, out


def compare(db, name, rounds, product, scipy):
    mine, theirs = [], []
    for _ in range(rounds):
        t, _ = timed(lambda: q(db, f"SELECT length({product})"))
        mine.append(t)
        t, want = timed(scipy)
        theirs.append(t)
    got = to_numpy(q(db, f"SELECT {product}"))
    error = np.abs(got - want).max() / np.abs(want).max()
    assert got.shape == want.shape and error < 1e-12, error
    ratio = statistics.median(a / b for a, b in zip(mine, theirs))
    print(f"{name:44} gx {statistics.median(mine):8.3f} s   SciPy {statistics.median(theirs):8.3f} s   ratio {ratio:6.3f}",
          flush=True)


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
                    text += f"   CuPy {1e3 * t:9.4f} ms   gx / CuPy {row['seconds'] / t:6.3f}"
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
        scan = timed(lambda: q(db, f"SELECT gx_norm('random{k}', 'fro'), gx_sum('D')"))[0]
        after = told(db)
        assert after["device_calls"] > before["device_calls"], db.execute("SELECT * FROM gx_stats WHERE name = 'note'").fetchall()
        if k > 0:  # the first allocates
            first.append((t, scan))
    t, scan = min(first)
    print(f"random {n} @ {w} columns from the file            {1e3 * t:9.1f} ms   scan of both {1e3 * scan:9.1f} ms   ratio {t / scan:6.3f}")
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
    """One statement, 5 steps over 10 000 nodes and 200 000 edges, on the device, the CPU, and where the planner wants it."""
    path = os.path.join(folder, "graph.db")
    db = gx_connect(path)
    q(db, "SELECT gx_random(10000, 10000, 'G', '{\"density\":0.002,\"low\":0}')")
    db.close()
    for title, sql in (("ten rows", "SELECT * FROM gx_spread('G', '[[17]]', '{\"steps\":5}') LIMIT 10"),
                       ("all summed", "SELECT count(*), sum(activation) FROM gx_spread('G', '[[17]]', '{\"steps\":5}')")):
        seconds, found, calls = {}, {}, {}
        for backend in ("cuda", "cpu", "auto"):
            db = gx_connect(path)
            db.execute("SELECT gx_config('backend', ?)", (backend,)).fetchall()
            found[backend] = db.execute(sql).fetchall()
            for _ in range(20):
                db.execute(sql).fetchall()
            before = told(db)["device_calls"]
            seconds[backend] = statistics.median(timed(lambda: db.execute(sql).fetchall())[0] for _ in range(20 * rounds))
            calls[backend] = told(db)["device_calls"] - before
            db.close()
        np.testing.assert_allclose(np.array(found["cuda"], float), np.array(found["cpu"], float), rtol=1e-9)
        print(f"spread, {title}: {1e3 * seconds['cuda']:.3f} ms (<= 0.45); CPU {1e3 * seconds['cpu']:.3f} ms = "
              f"{seconds['cpu'] / seconds['cuda']:.1f} x; auto {1e3 * seconds['auto']:.3f} ms, {calls['auto']} of {20 * rounds} on the device", flush=True)


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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="order 10^4 instead of 10^6")
    parser.add_argument("--gpu", action="store_true", help="beside CuPy")
    options = parser.parse_args()
    if options.gpu:
        on_gpu(options.rounds, options.small)
        return
    n = 10000 if options.small else 1000000
    with tempfile.TemporaryDirectory(dir=os.environ.get("GX_BENCH_DIR")) as folder:
        db = gx_connect(os.path.join(folder, "sparse.db"))
        q(db, "SELECT gx_config('memory_limit', '4GiB')")
        q(db, f"SELECT gx_matrix_gallery('poisson', {n}, 'poisson', '{{\"sparse\":true}}')")
        q(db, f"SELECT gx_random({n}, {n}, 'random', '{{\"density\":{20 / n},\"low\":-1}}')")
        rng = np.random.default_rng(1)
        for name in ["poisson", "random"]:
            S = csr_of(db, name)
            for w in [1, 8, 32]:
                D = rng.standard_normal((n, w))
                rows = np.ascontiguousarray(D)
                q(db, "SELECT gx_store('D', ?, '{\"replace\":true}')", from_numpy(D))
                compare(db, f"{name} {n} @ {w} columns", options.rounds, f"gx_matmul('{name}', 'D')", lambda: S @ rows)
                if w in (1, 32):
                    compare(db, f"{name} {n} transposed @ {w} columns", options.rounds,
                            f"gx_matmul('{name}', 'D', '{{\"transa\":true}}')", lambda: S.T @ rows)
                    q(db, "SELECT gx_transpose('D', 'T', '{\"replace\":true}')")
                    compare(db, f"{w} rows @ {name} {n}", options.rounds, f"gx_matmul('T', '{name}')",
                            lambda: (S.T @ rows).T)
        db.close()


if __name__ == "__main__":
    main()
