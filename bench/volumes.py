#!/usr/bin/env python3
"""Storing at the disks' speed: what volumes change, beside plain files, INSERTs and NumPy.

    bench/volumes.py --dir /dev/shm --gib 2 --volumes 8 --order 8192 --rounds 5 [--backend cuda] [--journal wal]

The limits of the same run: plain files written by one thread and by N; INSERTs of tiles by one connection and by N
connections of N databases side by side.  Then gx: a matrix of that many GiB stored and read with no volumes, one, N;
a stored product of stored operands, ten times over; and NumPy: load, load, multiply (with CuPy where there is a device),
save.  --sync waits for the disk in all of them.  They take turns, so that what else the machine does disturbs all alike.
Seconds and ratios are medians of --rounds rounds after a first one; a dated file goes to --out or bench/results/.
"""
import argparse
import concurrent.futures
import datetime
import os
import pathlib
import sqlite3
import statistics
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
TILE = 8 << 20


def connect(args, path, volumes=None):
    db = sqlite3.connect(path, isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(os.environ.get("GX_SO", str(ROOT / "gx.so")))
    db.execute("PRAGMA page_size=65536")
    db.execute(f"PRAGMA journal_mode={args.journal}")
    db.execute(f"PRAGMA synchronous={'full' if args.sync else 'off'}")
    db.execute("SELECT gx_config('backend', ?)", (args.backend,)).fetchall()
    if volumes:
        db.execute("SELECT gx_volumes(?)", (volumes,)).fetchall()
    return db


def remove(args):
    for path in pathlib.Path(args.dir).glob("gxbench-*"):
        path.unlink()


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def write_plain(args, number, tiles, data):
    fd = os.open(f"{args.dir}/gxbench-plain{number}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for _ in range(tiles):
        os.write(fd, data)
    if args.sync:
        os.fsync(fd)
    os.close(fd)


def insert(args, number, tiles, data):
    db = sqlite3.connect(f"{args.dir}/gxbench-insert{number}.db", isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA page_size=65536")
    db.execute(f"PRAGMA journal_mode={args.journal}")
    db.execute(f"PRAGMA synchronous={'full' if args.sync else 'off'}")
    db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, data)")
    db.execute("BEGIN")
    for k in range(tiles):
        db.execute("INSERT INTO t VALUES(?, ?)", (k, data))
    db.execute("COMMIT")
    db.close()


def side_by_side(args, work, count):
    """GB/s of count threads that share the tiles; SQLite and the system calls let go of Python's lock."""
    data = os.urandom(TILE)
    tiles = max(1, (args.gib << 30) // TILE // count)
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        took = seconds(lambda: list(pool.map(lambda k: work(args, k, tiles, data), range(count))))
    remove(args)
    return tiles * count * TILE / took / 1e9


def store_and_scan(args, compare):
    """Of each number of volumes: seconds of storing a new matrix and of reading it, once a round, one after the other."""
    dbs = {v: connect(args, f"{args.dir}/gxbench-store{v}.db", v) for v in compare}
    n = int((args.gib << 30) / 8 / 8192) // 1024 * 1024
    stored, read = ({v: [] for v in compare} for _ in range(2))
    for k in range(args.rounds + 1):
        for v, db in dbs.items():
            stored[v].append(seconds(lambda: db.execute(f"SELECT gx_full({n}, 8192, {k + 1}, 'A')").fetchall()))
            read[v].append(seconds(lambda: db.execute("SELECT gx_norm('A')").fetchall()))
            db.execute("SELECT gx_drop('A')").fetchall()
    for db in dbs.values():
        db.close()
    remove(args)
    return n * 8192 * 8 / 1e9, stored, read


def numpy_product(args, a, b, c):
    """np.load twice, multiply, np.save; on the device where that is asked."""
    if args.backend == "cuda":
        import cupy
        result = cupy.asnumpy(cupy.asarray(np.load(a)) @ cupy.asarray(np.load(b)))
    else:
        result = np.load(a) @ np.load(b)
    with open(c, "wb") as out:
        np.save(out, result)
        if args.sync:
            out.flush()
            os.fsync(out.fileno())


def product(args, compare):
    """Seconds of a stored product, operands in the page cache: NumPy's (None) and gx's, once a round, one after the other."""
    paths = [f"{args.dir}/gxbench-{x}.npy" for x in "abc"]
    rng = np.random.default_rng(1)
    for path in paths[:2]:
        np.save(path, rng.random((args.order, args.order)))
    dbs = {v: connect(args, f"{args.dir}/gxbench-product{v}.db", v) for v in compare}
    for db in dbs.values():
        db.execute(f"SELECT gx_random({args.order}, {args.order}, 'A'), gx_random({args.order}, {args.order}, 'B')").fetchall()
    times = {v: [] for v in (None, *compare)}
    for _ in range(args.rounds + 1):
        times[None].append(seconds(lambda: numpy_product(args, *paths)))
        for v, db in dbs.items():
            times[v].append(seconds(lambda: db.execute("SELECT gx_matmul('A', 'B', 'C', '{\"replace\":true}')").fetchall()))
    for db in dbs.values():
        db.close()
    remove(args)
    return times


def ratio(one, other):
    """The median of the rounds' ratios, without the first round."""
    return statistics.median(a / b for a, b in zip(one[1:], other[1:]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", default="/dev/shm")
    parser.add_argument("--gib", type=int, default=1)
    parser.add_argument("--volumes", type=int, default=8)
    parser.add_argument("--compare", default=None, help="numbers of volumes, such as 0,1,8 (which it is)")
    parser.add_argument("--order", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--journal", default="wal")
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--out", default=str(ROOT / "bench" / "results"))
    args = parser.parse_args()
    lines = [f"# bench/volumes.py {' '.join(sys.argv[1:])}; {os.cpu_count()} processors, {datetime.date.today()}"]

    def say(text):
        lines.append(text)
        print(text, flush=True)

    compare = [int(n) for n in args.compare.split(",")] if args.compare else [0, 1, args.volumes]
    remove(args)
    for name, work in (("plain files", write_plain), ("INSERT", insert)):
        one, many = side_by_side(args, work, 1), side_by_side(args, work, args.volumes)
        say(f"{name:12} one {one:6.2f} GB/s, {args.volumes} side by side {many:6.2f} GB/s")
    gb, stored, read = store_and_scan(args, compare)
    for v in compare:
        say(f"gx, {v} volumes: stores {gb / statistics.median(stored[v][1:]):6.2f} GB/s, "
            f"reads {gb / statistics.median(read[v][1:]):6.2f} GB/s"
            + (f"; {ratio(stored[compare[0]], stored[v]):.2f} x the speed of {compare[0]} volumes" if v != compare[0] else ""))
    times = product(args, compare)
    peer = times.pop(None)
    say(f"load, load, multiply, save of {args.order}: {statistics.median(peer[1:]):.3f} s")
    for v, t in times.items():
        say(f"gx product {args.order}, {v} volumes: first {t[0]:.3f}, second {t[1]:.3f}, last {t[-1]:.3f}, "
            f"median {statistics.median(t[1:]):.3f} s = {ratio(t, peer):.2f} x load, multiply, save")
    path = pathlib.Path(args.out) / f"{datetime.date.today()}-volumes.txt"
    with open(path, "a") as out:
        out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
