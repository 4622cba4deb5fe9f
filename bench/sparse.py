#!/usr/bin/env python3
"""Products with sparse matrices beside SciPy: `bench/sparse.py [--rounds N] [--small]`.

gx reads both operands from a database file that is in the page cache and makes a value of SQL, with as many threads as the
process may have; SciPy has arrays in memory and one thread.  In each round both are timed one after the other,
so that a busy machine slows both; the medians of the rounds and of their ratios are printed.
"""
import argparse
import os
import pathlib
import statistics
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="order 10^4 instead of 10^6")
    options = parser.parse_args()
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
