"""gx.store and gx.fetch beside np.save and np.load: seconds, processor seconds, and what SQLite itself takes.

    bench/arrays.py [--dir FOLDER] [--mb 1024] [--rounds 5] [--sync] [--volumes 2]

One array of float64, by rows and by columns, into the same folder in turn: np.save and np.load; a database's own pages; a
database with volumes; INSERTs of its bytes in pieces of 8 MiB by sqlite3 alone, which is what pages cost whoever writes
them.  --sync waits for the disk in all of them (np.save with os.fsync, PRAGMA synchronous=full), else none does.
Medians; files are removed after each.
"""
import argparse
import os
import pathlib
import resource
import sqlite3
import statistics
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "ext/python"))
os.environ.setdefault("GX_SO", str(ROOT / "gx.so"))
import gx_sqlite as gx  # noqa: E402

PIECE = 8 << 20


def connect(args, volumes):
    db = sqlite3.connect(f"{args.dir}/gxarrays.db", isolation_level=None)
    gx.load(db)
    db.execute(f"PRAGMA synchronous={'full' if args.sync else 'off'}")
    if volumes:
        db.execute("SELECT gx_volumes(?)", (volumes,)).fetchall()
    return db


def save(args, a):
    with open(f"{args.dir}/gxarrays.npy", "wb") as file:
        np.save(file, a)
        if args.sync:
            file.flush()
            os.fsync(file.fileno())


def insert(args, a):
    db = sqlite3.connect(f"{args.dir}/gxarrays.db", isolation_level=None)
    db.execute(f"PRAGMA synchronous={'full' if args.sync else 'off'}")
    db.execute("CREATE TABLE piece(id INTEGER PRIMARY KEY, data BLOB)")
    bytes_ = memoryview(a.ravel("K")).cast("B")
    db.execute("BEGIN")
    for at in range(0, len(bytes_), PIECE):
        db.execute("INSERT INTO piece(data) VALUES(?)", (bytes_[at:at + PIECE],))
    db.execute("COMMIT")
    db.close()


def timed(times, name, work):
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    result = work()
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    times.setdefault(name, []).append((wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return result


def clean(args):
    for path in pathlib.Path(args.dir).glob("gxarrays*"):
        path.unlink()


def rounds(args, a, order):
    times = {}
    for _ in range(args.rounds):
        clean(args)
        timed(times, "save", lambda: save(args, a))
        timed(times, "load", lambda: np.load(f"{args.dir}/gxarrays.npy"))
        clean(args)
        for volumes, name in ((0, "pages"), (args.volumes, f"{args.volumes} volumes")):
            db = connect(args, volumes)
            timed(times, f"{name} store", lambda: gx.store(db, "A", a))
            timed(times, f"{name} fetch", lambda: gx.fetch(db, "A"))
            db.close()
            clean(args)
        timed(times, "INSERT", lambda: insert(args, a))
        clean(args)
    for name, pairs in times.items():
        wall, cpu = (statistics.median(column) for column in zip(*pairs))
        peer = statistics.median(pair[0] for pair in times["load" if name.endswith(("fetch", "load")) else "save"])
        print(f"{order}  {name:18}{wall:8.2f} s {wall / peer:6.2f} x {cpu:8.2f} s of processor", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", default="/tmp")
    parser.add_argument("--mb", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--volumes", type=int, default=2)
    parser.add_argument("--sync", action="store_true")
    args = parser.parse_args()
    n = int((args.mb * 1e6 / 8) ** 0.5)
    a = np.random.default_rng(0).random((n, n))
    rounds(args, a, "by rows   ")
    a = np.asfortranarray(a)
    rounds(args, a, "by columns")


if __name__ == "__main__":
    main()
