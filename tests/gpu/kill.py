#!/usr/bin/env python3
"""A process that computes on several devices is ended by SIGKILL; another one's connection on the same devices goes on.

    kill.py [--n 4096] [--kills 4] [--devices 0,1] [--seed 1] [--dir /dev/shm]

Plan: a file with two matrices and a positive definite one.  A child opens it and stores their product and a Cholesky factor
over and over, spread over the devices.  When it has done each once, and the parent is in the midst of the same calls, it is
killed at a random moment of its own.  The parent's call that was under way, and the next ones, are right; no device was lost to
it, no call fell back; what the child had of the devices' memory is given back; and what is in the file is whole: gx_check, and
what the child had stored is absent or right.

Prints a line; exit status 1 when something is wrong, 77: fewer than two devices here.  GX_SO names gx.so (gx_cuda.so lies
beside it); nothing but Python's own library is needed, with a sqlite3 that loads extensions.
"""
import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

CALLS = {"K": "gx_matmul('A', 'B'{})", "L": "gx_cholesky('P'{})"}
# Other programs may take device memory between two looks at the driver's figure; more than this is ours.
SLACK = 256 << 20


def connect(path, devices):
    db = sqlite3.connect(path, isolation_level=None, timeout=60)
    db.enable_load_extension(True)
    db.load_extension(os.environ.get("GX_SO", "./gx.so"))
    for name, value in (("backend", "cuda"), ("devices", devices), ("probe", "off")):
        db.execute("SELECT gx_config(?, ?)", (name, value)).fetchall()
    return db


def value(db, sql, *params):
    return db.execute(sql, params).fetchone()[0]


def stats(db):
    return dict(db.execute("SELECT name, value FROM gx_stats WHERE name <> 'note'").fetchall())


def not_taken(db):
    """Device memory that is free or in this connection's own pools, of all devices used, and their number."""
    free = [row[0] for row in db.execute("SELECT memory_free FROM gx_devices WHERE backend = 'cuda' AND status = 'used'")]
    return sum(free) + stats(db)["device_used"], len(free)


def child(path, devices):
    db = connect(path, devices)
    while True:
        for name, call in CALLS.items():
            start = time.monotonic()
            db.execute("SELECT " + call.format(f", '{name}', '{{\"replace\":true}}'")).fetchall()
            print(time.monotonic() - start, flush=True)


def prepare(db, n):
    """A, B and P, and what is right: R of K, M of L."""
    db.execute("PRAGMA journal_mode = WAL").fetchall()
    for sql in (
        f"SELECT gx_randn({n}, {n}, 'A'), gx_randn({n}, {n}, 'B', '{{\"seed\":2}}')",
        f"SELECT gx_add(gx_matmul('A', 'A', '{{\"transa\":true,\"alpha\":{1 / n}}}'), gx_eye({n}), 'P')",
        "SELECT " + CALLS["K"].format(", 'R'"),
        "SELECT " + CALLS["L"].format(", 'M'"),
    ):
        db.execute(sql).fetchall()


def is_right(db, matrix, right):
    sql = f"SELECT gx_norm(gx_sub({matrix}, '{right}')) / gx_norm('{right}')"
    return value(db, sql) < 1e-11


def wrong_answers(db):
    """Calls of this connection whose results are not right."""
    return [name for name, right in (("K", "R"), ("L", "M")) if not is_right(db, CALLS[name].format(""), right)]


def look(db):
    """What is wrong with the file; None: nothing is."""
    try:
        db.execute("SELECT gx_check()").fetchall()
    except sqlite3.Error as failure:
        return str(failure)
    there = {row[0] for row in db.execute("SELECT name FROM gx")}
    for name, right in (("K", "R"), ("L", "M")):
        if name in there and not is_right(db, f"'{name}'", right):
            return f"{name}, which the child stored, is neither absent nor right"
    return None


def kill_once(db, path, args, rng):
    """What is wrong after one kill; None: nothing is."""
    before = stats(db)
    other = subprocess.Popen(
        [sys.executable, __file__, "--child", path, "--devices", args.devices], stdout=subprocess.PIPE, text=True
    )
    took = [float(other.stdout.readline()) for _ in CALLS]
    moment = threading.Timer(rng.random() * sum(took), os.kill, (other.pid, signal.SIGKILL))
    moment.start()
    wrong = wrong_answers(db)
    moment.join()
    other.wait()
    other.stdout.close()
    wrong += wrong_answers(db)
    after = stats(db)
    changed = [name for name in ("devices_lost", "device_fallbacks", "device_faults") if after[name] != before[name]]
    if wrong or changed or after["spread_calls"] < before["spread_calls"] + 4:
        return f"wrong {wrong}, counted {changed}, {after['spread_calls'] - before['spread_calls']} calls on several devices"
    return look(db)


def is_given_back(db, before, seconds=30):
    """The driver takes a moment to clear up after a process."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not_taken(db)[0] >= before - SLACK:
            return True
        time.sleep(0.2)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=4096)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--devices", default="0,1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir", default=None)
    parser.add_argument("--child")
    args = parser.parse_args()
    if args.child:
        child(args.child, args.devices)
    rng = random.Random(args.seed)
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        path = os.path.join(folder, "kill.db")
        db = connect(path, args.devices)
        prepare(db, args.n)
        if stats(db)["spread_calls"] == 0:
            print("SKIPPED: nothing runs on several devices here")
            return 77
        problems = [f"before the first kill: {name}" for name in wrong_answers(db)]
        before, devices = not_taken(db)
        for _ in range(args.kills):
            problem = kill_once(db, path, args, rng)
            print(f"killed: {problem or 'nothing wrong'}", flush=True)
            problems += [problem] if problem else []
        if not is_given_back(db, before):
            problems.append(f"device memory that nobody else has: {before} before, {not_taken(db)[0]} after")
        db.close()
    print(f"{args.kills} kills (seed {args.seed}) beside a connection on {devices} devices: {problems or 'nothing wrong'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
