#!/usr/bin/env python3
"""A sparse matrix far larger than memory_limit: `bench/sparse_large.py [--gb 10] [--limit 256] [--dir FOLDER]`.

A is symmetric, of order 500 000, with a band of 1661 small entries a row and a few large diagonal elements, so that its product with a
vector, its norm and its largest eigenvalues are known without it.  Its panels are written as docs/format.md has them, gx_check looks
at them; then each of product, norm and five eigenvalues runs in a process of its own with that memory_limit, which says its seconds
and the most it had resident (VmHWM, Python with it; a process that only loads gx is shown first).  All is removed afterwards.
"""
import argparse
import os
import pathlib
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
N, HALF, LARGE, PANEL = 500000, 830, 12, 8 << 20
CASES = {"nothing": "SELECT 0",
         "norm": "SELECT gx_norm('A')",
         "product": "SELECT gx_norm(gx_matmul('A', 'x'))",
         "eigenvalues": "SELECT group_concat(value) FROM gx_eig('A', '{\"k\":5,\"which\":\"LA\",\"ncv\":16}')"}


def open_database(folder):
    db = sqlite3.connect(os.path.join(folder, "large.db"), isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(os.environ.get("GX_SO") or str(ROOT / "gx.so"))
    return db


def resident():
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) >> 10


def child(folder, case, limit):
    db = open_database(folder)
    db.execute("SELECT gx_config('memory_limit', ?)", (limit << 20,)).fetchall()
    start = time.perf_counter()
    answer = db.execute(CASES[case]).fetchone()[0]
    print(f"{case:12} {time.perf_counter() - start:8.1f} s   at most {resident()} MiB resident   {answer}", flush=True)


def band(np, first, rows):
    """Rows of A as starts, indexes and values; and the sums of squares and of elements."""
    at = np.arange(first, first + rows)[:, None]
    j = at + np.arange(-HALF, HALF + 1)[None, :]
    inside = (j >= 0) & (j < N)
    value = np.broadcast_to(1e-6 / (1 + np.abs(np.arange(-HALF, HALF + 1))), j.shape)
    value = np.where((j == at) & (at < LARGE), 10 * 0.5 ** np.minimum(at, 60), value)
    starts = np.concatenate([[0], np.cumsum(inside.sum(axis=1))]).astype("<u4")
    return starts, j[inside].astype("<i4"), value[inside].astype("<f8"), (value * inside).sum(axis=1)


def padded(array):
    data = array.tobytes()
    return data + bytes(-len(data) % 8)


def make(folder):
    """A by its panels; says what its norm and its product with ones are."""
    import numpy as np
    db = open_database(folder)
    db.execute("PRAGMA synchronous = off")
    db.execute("PRAGMA journal_mode = off").fetchall()
    db.execute(f"SELECT gx_matrix_gallery('tridiag', {N}, 'A', '{{\"sparse\":true}}'), gx_ones({N}, 1, 'x')").fetchall()
    id_, head = db.execute("SELECT id, aux FROM gx_meta WHERE name = 'A'").fetchone()
    db.execute("BEGIN")
    db.execute("DELETE FROM gx_tile WHERE id >> 32 = ?", (id_,))
    places, squares, sums, first, height = b"", 0.0, 0.0, 0, PANEL // ((2 * HALF + 1) * 12 + 4)
    total = panels = 0
    while first < N:
        h = min(height, N - first)
        starts, index, value, row_sums = band(np, first, h)
        db.execute("INSERT INTO gx_tile VALUES(?, ?)", (id_ << 32 | panels, padded(starts) + padded(index) + padded(value)))
        squares, sums = squares + float(value @ value), sums + float(row_sums @ row_sums)
        first, total, panels = first + h, total + len(index), panels + 1
        places += struct.pack("<qq", first, len(index))
    db.execute("UPDATE gx_meta SET aux = ?, properties = properties & ~4 WHERE id = ?",
               (head[:8] + struct.pack("<qqq", panels, total, 0) + places, id_))
    db.execute("COMMIT")
    print(f"A: {N} x {N}, {total} entries in {panels} panels, {os.path.getsize(os.path.join(folder, 'large.db')) / 1e9:.1f} GB; "
          f"norm {squares ** 0.5:.12g}, of A x {sums ** 0.5:.12g}", flush=True)


def main():
    global N
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gb", type=float, default=10)
    parser.add_argument("--limit", type=int, default=256, help="memory_limit in MiB")
    parser.add_argument("--dir")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(*args.child, args.limit)
        return
    N = max(2 * HALF, int(args.gb * 1e9 / ((2 * HALF + 1) * 12 + 4)))
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        make(folder)
        print("gx_check:", open_database(folder).execute("SELECT gx_check('A')").fetchone()[0], flush=True)
        for case in CASES:
            subprocess.run([sys.executable, __file__, "--limit", str(args.limit), "--child", folder, case], check=True)


if __name__ == "__main__":
    main()
