#!/usr/bin/env python3
"""Matrices made of matrices (gx_block, gx_lazy) beside NumPy, PyLops and CoLA: `bench/structured.py [--device] [--small]`.

Statements on stored matrices, each beside the same with NumPy from RAM and, where they are installed, with the operators of
PyLops and CoLA; medians of several calls in one run.  --device: parts that the devices keep, on the first one and on all
(GX_BACKEND=cuda).
"""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "sql"))
from conftest import from_numpy, gx_connect, q, to_numpy  # noqa: E402

ROUNDS = 9
COLUMNS = (4, 64)  # of what devices multiply with


def timed(call, rounds=ROUNDS):
    """The first call and the median of the others; what ran before has stopped spinning."""
    time.sleep(0.5)
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times[0], statistics.median(times[1:])


def report(what, db, sql, peers, scan=None):
    """A line: gx's first and later calls, and each peer's with the ratio."""
    first, later = timed(lambda: q(db, sql))
    beside = f"  its scan {scan:.4f} ({later / scan:.2f})" if scan else ""
    for name, call in peers.items():
        _, t = timed(call)
        beside += f"  {name} {t:.4f} ({later / t:.2f})"
    print(f"{what:42s} first {first:8.4f}  later {later:8.4f}{beside}", flush=True)


def put(db, name, array):
    q(db, "SELECT gx_store(?, ?)", name, from_numpy(array))


def positive(rng, n):
    a = rng.standard_normal((n, n))
    return a @ a.T / n + np.eye(n)


def operators(build):
    """name -> function, of the libraries that are there."""
    found = {}
    for name, make in build.items():
        try:
            found[name] = make()
        except ImportError:
            print(f"({name} is not installed)")
    return found


def kronecker(db, rng, n):
    a, b, x = positive(rng, n), positive(rng, n), rng.standard_normal((n * n, 1))
    for name, array in {"A": a, "B": b, "x": x, "X": x.reshape(n, n)}.items():
        put(db, name, array)
    q(db, "SELECT gx_lazy('K', 'kron(A, B)')")
    q(db, "SELECT gx_lazy('K1', 'kron(A, B) + 0.1 * eye(' || gx_rows_count('x') || ')')")
    flat = x.ravel()

    def by_pylops():
        import pylops
        op = pylops.Kronecker(pylops.MatrixMult(a), pylops.MatrixMult(b))
        return lambda: op @ flat

    def by_cola():
        import cola
        import torch
        op = cola.ops.Kronecker(cola.ops.Dense(torch.from_numpy(a)), cola.ops.Dense(torch.from_numpy(b)))
        vector = torch.from_numpy(x)
        return lambda: op @ vector

    peers = {"two products": lambda: q(db, "SELECT gx_matmul(gx_matmul('X', 'B'), 'A')"), "numpy B X A'": lambda: b @ x.reshape(n, n) @ a.T} | operators({"pylops": by_pylops, "cola": by_cola})
    report(f"kron({n}, {n}) @ x", db, "SELECT gx_matmul('K', 'x')", peers)
    report("gx_eval: kron(A, B) @ x", db, "SELECT gx_eval('kron(A, B) @ x')", {})
    report("solve(kron, x)", db, "SELECT gx_solve('K', 'x')",
           {"numpy": lambda: np.linalg.solve(a, np.linalg.solve(b, x.reshape(n, n)).T)})
    report("solve(kron + 0.1 I, x)", db, "SELECT gx_solve('K1', 'x')", {})
    report("logdet(kron + 0.1 I)", db, "SELECT gx_logdet('K1')", {})


def low_rank(db, rng, n, k):
    u, d, x = rng.standard_normal((n, k)), rng.random((n, 1)) + 0.5, rng.standard_normal((n, 1))
    for name, array in {"U": u, "d": d, "y": x}.items():
        put(db, name, array)
    q(db, "SELECT gx_lazy('W', 'U @ U.T + diag(d)')")
    _, scan = timed(lambda: q(db, "SELECT gx_norm('U') + gx_norm('d')"))

    def by_numpy():
        scaled = u / d
        return x / d - scaled @ np.linalg.solve(np.eye(k) + u.T @ scaled, scaled.T @ x)

    def by_cola():
        import cola
        import torch
        left, diagonal, vector = torch.from_numpy(u), torch.from_numpy(d.ravel()), torch.from_numpy(x)
        op = cola.PSD(cola.ops.Sum(cola.ops.Product(cola.ops.Dense(left), cola.ops.Dense(left.T)), cola.ops.Diagonal(diagonal)))
        return lambda: cola.linalg.solve(op, vector, cola.linalg.CG(tol=1e-8))

    def by_pylops():
        import pylops
        left = pylops.MatrixMult(u)
        op = left @ left.T + pylops.Diagonal(d.ravel())
        flat = x.ravel()
        return lambda: op @ flat

    report(f"(U U' + D) @ x, {n} x {k}", db, "SELECT gx_matmul('W', 'y')",
           {"numpy": lambda: u @ (u.T @ x) + d * x} | operators({"pylops": by_pylops}), scan)
    report("solve(U U' + D, x)", db, "SELECT gx_solve('W', 'y')", {"numpy": by_numpy} | operators({"cola, CG": by_cola}), scan)
    put(db, "V", rng.standard_normal((n, k)))
    q(db, "SELECT gx_lazy('UV', 'U @ V.T + diag(d)')")
    _, both = timed(lambda: q(db, "SELECT gx_norm('U') + gx_norm('V') + gx_norm('d')"))
    report("solve(U V' + D, x)", db, "SELECT gx_solve('UV', 'y')", {}, both)
    z = to_numpy(q(db, "SELECT gx_solve('W', 'y')"))
    print(f"    residual {np.linalg.norm(u @ (u.T @ z) + d * z - x) / np.linalg.norm(x):.1e}")


def blocks(db, rng, n):
    for name in "PQRS":
        put(db, name, rng.standard_normal((n, n)))
    put(db, "four", rng.standard_normal((2 * n, 4)))
    q(db, "SELECT gx_block('M', '[[\"P\",\"Q\"],[\"R\",\"S\"]]')")
    q(db, "SELECT gx_block('D', '[[\"P\",0],[0,\"S\"]]')")
    q(db, "SELECT gx_block('T', '[[\"P\",0],[\"R\",\"S\"]]')")
    q(db, "SELECT gx_copy('M', 'MC')")
    q(db, "SELECT gx_copy('T', 'TC')")
    copy, tri = to_numpy(q(db, "SELECT gx_copy('M')")), to_numpy(q(db, "SELECT gx_copy('T')"))
    right = rng.standard_normal((2 * n, 4))
    put(db, "half", rng.standard_normal((n, 4)))
    report("P @ 4 columns", db, "SELECT gx_matmul('P', 'half')", {})
    report(f"[[P, Q], [R, S]] of {n} @ 4 columns", db, "SELECT gx_matmul('M', 'four')",
           {"its copy": lambda: q(db, "SELECT gx_matmul('MC', 'four')"), "numpy": lambda: copy @ right})
    report("[[P, 0], [0, S]] @ 4 columns", db, "SELECT gx_matmul('D', 'four')", {"the full copy": lambda: q(db, "SELECT gx_matmul('MC', 'four')")})
    report("solve([[P, 0], [R, S]], 4 columns)", db, "SELECT gx_solve('T', 'four')",
           {"its copy": lambda: q(db, "SELECT gx_solve('TC', 'four')"), "numpy": lambda: np.linalg.solve(tri, right)})
    report("det([[P, 0], [0, S]])", db, "SELECT gx_logdet('D')", {"the full copy": lambda: q(db, "SELECT gx_logdet('MC')")})


def on_devices(path, rng, n):
    """Parts that the devices keep, and what goes there in later calls."""
    with gx_connect(path) as db:
        for name in "PS":
            q(db, "SELECT gx_randn(?, ?, ?)", n, n, name)
        for columns in COLUMNS:
            put(db, f"x{columns}", rng.standard_normal((2 * n, columns)))
        q(db, "SELECT gx_block('D', '[[\"P\",0],[0,\"S\"]]')")
        if n <= 20000:
            q(db, "SELECT gx_copy('D', 'DC')")
    count = int(os.environ.get("GX_BENCH_DEVICES", "1"))
    for devices in ["1"] + (["all"] if count > 1 else []):
        db = gx_connect(path)
        q(db, "SELECT gx_config('backend', 'cuda')")
        q(db, "SELECT gx_config('devices', ?)", devices)

        def uploaded(db=db):
            return q(db, "SELECT value FROM gx_stats WHERE name = 'uploaded'")

        for name in ("D", "DC") if n <= 20000 else ("D",):
            asked = [(f"@ {columns} columns", f"SELECT length(gx_matmul('{name}', 'x{columns}'))") for columns in COLUMNS]
            asked += [("norm", f"SELECT gx_norm('{name}')"), ("norm(@ 4 columns)", f"SELECT gx_eval('norm({name} @ x4)')"),
                      ("ten singular values", f"SELECT count(*) FROM gx_svd('{name}', '{{\"k\":10,\"tol\":0.01}}')")]
            for what, sql in asked:
                few = what[0] == "t"
                for _ in range(1 if few else 3):
                    q(db, sql)
                before = uploaded()
                rounds = 3 if few else 21
                _, later = timed(lambda sql=sql, db=db: q(db, sql), rounds)
                print(f"devices {devices}: {name} ({2 * n} x {2 * n}) {what} later {later:.5f}, up {(uploaded() - before) / rounds:.0f} bytes a call", flush=True)
        db.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", action="store_true")
    parser.add_argument("--order", type=int, default=16384, help="of each part, with --device")
    parser.add_argument("--small", action="store_true", help="sizes that take a second: to see that it runs")
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory(dir=os.environ.get("GX_BENCH_DIR")) as folder:
        path = str(pathlib.Path(folder) / "b.db")
        if options.device:
            on_devices(path, rng, 300 if options.small else options.order)
            return
        db = gx_connect(path)
        db.execute("PRAGMA synchronous = off")
        kronecker(db, rng, 50 if options.small else 1000)
        low_rank(db, rng, 5000 if options.small else 10**6, 8 if options.small else 32)
        blocks(db, rng, 200 if options.small else 3000)


if __name__ == "__main__":
    main()
