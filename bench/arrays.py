"""gx.store and gx.fetch beside np.save and np.load: seconds, processor seconds, and what SQLite itself takes.

    bench/arrays.py [--dir FOLDER] [--mb 1024] [--rounds 5] [--sync] [--volumes 2] [--layouts rows,columns,f32,vector,narrow,row,wide]
                    [--ways gx,wal,volumes,insert,fsync]

One array, by rows and by columns, of float32, a vector, a narrow one, one row, three, into the same folder, in random order in each round: np.save and np.load; a
database as it is ("pages"), one in WAL mode, one with volumes; INSERTs of its bytes in pieces of 8 MiB by sqlite3
alone, into pages of 64 KiB, which is what they cost whoever writes them so.  --sync waits for the disk in all of them (np.save with os.fsync, PRAGMA synchronous=full), else none does, but "save,
fsync", which says what the disk itself takes.  Medians, then the least, ratios to the medians and the least of the peer, and the most memory that was resident beside the array, in MB.  Files are removed after each; before each, as much
memory as two arrays is touched and given back, since a virtual machine's first touch of a page can cost more than all else.
"""
import argparse
import ctypes
import functools
import os
import pathlib
import random
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


def connect(args, volumes, kind):
    path = f"{args.dir}/gxarrays.db"
    db = gx.connect(path, isolation_level=None)
    if kind == "wal":
        db.execute("PRAGMA page_size=65536")
        db.execute("PRAGMA journal_mode=wal")
    db.execute(f"PRAGMA synchronous={'full' if args.sync else 'off'}")
    if volumes:
        db.execute("SELECT gx_volumes(?)", (volumes,)).fetchall()
    return db


def save(args, a, is_synced):
    with open(f"{args.dir}/gxarrays.npy", "wb") as file:
        np.save(file, a)
        if is_synced:
            file.flush()
            os.fsync(file.fileno())


def insert(args, a):
    db = sqlite3.connect(f"{args.dir}/gxarrays.db", isolation_level=None)
    db.execute("PRAGMA page_size=65536")
    db.execute("PRAGMA cache_size=8")
    db.execute(f"PRAGMA synchronous={'full' if args.sync else 'off'}")
    db.execute("CREATE TABLE piece(id INTEGER PRIMARY KEY, data BLOB)")
    bytes_ = memoryview(a.ravel("K")).cast("B")
    db.execute("BEGIN")
    for at in range(0, len(bytes_), PIECE):
        db.execute("INSERT INTO piece(data) VALUES(?)", (bytes_[at:at + PIECE],))
    db.execute("COMMIT")
    db.close()


def resident(kind):
    """MB of this process: VmRSS now, VmHWM at most."""
    line = next(line for line in pathlib.Path("/proc/self/status").read_text().splitlines() if line.startswith(kind))
    return int(line.split()[1]) * 1024 / 1e6


def timed(args, times, name, work):
    np.ones(2 * args.mb * 10 ** 6, np.uint8)
    ctypes.CDLL(None).malloc_trim(0)
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins again
    memory = resident("VmRSS")
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    result = work()
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    made = result.nbytes / 1e6 if isinstance(result, np.ndarray) else 0
    times.setdefault(name, []).append((wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
                                       resident("VmHWM") - memory - made))


def clean(args):
    for path in pathlib.Path(args.dir).glob("gxarrays*"):
        path.unlink()


def by_numpy(args, times, a):
    timed(args, times, "save", lambda: save(args, a, args.sync))
    timed(args, times, "load", lambda: np.load(f"{args.dir}/gxarrays.npy"))


def by_gx(args, times, a, volumes, kind, name):
    db = connect(args, volumes, kind)
    timed(args, times, f"{name} store", lambda: gx.store(db, "A", a))
    timed(args, times, f"{name} fetch", lambda: gx.fetch(db, "A"))
    db.close()


def rounds(args, a, order):
    """In random order: what a virtual machine gives back after one takes time of the next."""
    times = {}
    todo = {"save": lambda: by_numpy(args, times, a)}
    for volumes, kind, name in ((0, "gx", "pages"), (0, "wal", "WAL"), (args.volumes, "volumes", f"{args.volumes} volumes")):
        if kind in args.ways:
            todo[name] = functools.partial(by_gx, args, times, a, volumes, kind, name)
    if "insert" in args.ways:
        todo["INSERT"] = lambda: timed(args, times, "INSERT", lambda: insert(args, a))
    if not args.sync and "fsync" in args.ways:
        todo["save, fsync"] = lambda: timed(args, times, "save, fsync", lambda: save(args, a, True))
    for _ in range(args.rounds):
        for name in random.sample(list(todo), len(todo)):
            clean(args)
            todo[name]()
        clean(args)
    for name, pairs in times.items():
        wall, cpu, _ = (statistics.median(column) for column in zip(*pairs))
        most = max(pair[2] for pair in pairs)
        peers = [pair[0] for pair in times["load" if name.endswith(("fetch", "load")) else "save"]]
        least = min(pair[0] for pair in pairs)
        print(f"{order}  {name:18}{wall:8.3f} s {wall / statistics.median(peers):6.2f} x  least{least:7.3f} s {least / min(peers):6.2f} x "
              f"{cpu:8.2f} s of processor{most:8.0f} MB beside", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", default="/tmp")
    parser.add_argument("--mb", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--volumes", type=int, default=2)
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--ways", default="gx,wal,volumes,insert,fsync", help="beside np.save and np.load")
    parser.add_argument("--layouts", default="rows,columns")
    args = parser.parse_args()
    args.ways = args.ways.split(",")
    n = int((args.mb * 1e6 / 8) ** 0.5)
    uniform = np.random.default_rng(0).random
    makers = {"rows": lambda: uniform((n, n)), "columns": lambda: np.asfortranarray(uniform((n, n))),
              "f32": lambda: uniform((n, 2 * n), np.float32), "vector": lambda: uniform(n * n), "narrow": lambda: uniform((n * n // 64, 64)),
              "row": lambda: uniform((1, n * n)), "wide": lambda: uniform((3, n * n // 3))}
    for layout in args.layouts.split(","):
        rounds(args, makers[layout](), f"{'' if layout not in ('rows', 'columns') else 'by '}{layout}".ljust(10))


if __name__ == "__main__":
    main()
