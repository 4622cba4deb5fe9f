#!/usr/bin/env python3
"""How soon an interrupt ends a statement: each family of tests/sql/interruptkit.py, interrupted at random moments.

    python bench/interrupts.py [--times 10] [--only PART OF A NAME] [--from NAME] [--threads 0] [--dir DIR] [--control-c]

A line for each family, the slowest first: the longest and the median wait from sqlite3_interrupt() to the end of the statement, the
longest in time of this process's processors (what other processes take does not count there), and how long the whole statement takes (3000: or longer).
The aim is less than 100 ms on a quiet machine.

--control-c: the same by a real SIGINT to this process, whose main thread is in the statement of a connection of gx_sqlite's; beside the families,
expressions of matrix objects and plain SQL.  The wait ends with KeyboardInterrupt.  The last lines are what a small statement takes with that and without.
"""
import argparse
import os
import pathlib
import signal
import sqlite3
import statistics
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "sql"), str(ROOT / "ext" / "python")]
import interruptkit as kit  # noqa: E402
from conftest import gx_connect, gx_path  # noqa: E402

MOST_SECONDS = 3  # a longer statement is interrupted within its first seconds


def measure(db, name, times, strike=None):
    sql, before, after = kit.parts(name)
    if before:
        db.execute(before).fetchall()
    try:
        seconds = kit.whole(db, sql, MOST_SECONDS, strike)
        waits, processor, wrong = [], [], ""
        for delay in kit.delays(seconds, times, name):
            problem, wait, spent = kit.interrupt(db, sql, delay, strike)
            if problem is not None:
                waits.append(wait)
                processor.append(spent)
                wrong = wrong or ("" if "interrupted" in problem else problem)
    finally:
        if after:
            db.execute(after).fetchall()
    return (max(waits, default=0), statistics.median(waits or [0]), max(processor, default=0), seconds, len(waits), name, wrong)


def press():
    os.kill(os.getpid(), signal.SIGINT)


PLAIN_SQL = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c"
OBJECTS = {
    "expression of objects": lambda gx, db: (gx.matrix(db, "A") @ gx.matrix(db, "P") @ gx.matrix(db, "A")).inverse().fetch(),
    "fetch": lambda gx, db: [gx.fetch(db, "A") for _ in range(10000)],
    "plain SQL": lambda gx, db: db.execute(PLAIN_SQL),
    "plain SQL, rows": lambda gx, db: list(db.execute(PLAIN_SQL.replace("max(x) FROM c", "x FROM c WHERE x % 1000000 = 0"))),
}


def measure_objects(gx, db, name, times):
    """Python's calls, each long: interrupted within the first second."""
    waits, processor, wrong = [], [], ""
    for delay in kit.delays(1, times, name):
        at = []

        def strike():
            at[:] = [time.perf_counter(), time.process_time()]
            press()

        timer = threading.Timer(delay, strike)
        try:
            timer.start()
            OBJECTS[name](gx, db)
            timer.join()
            wrong = "the call ended by itself"
        except KeyboardInterrupt:
            waits.append(time.perf_counter() - at[0])
            processor.append(time.process_time() - at[1])
    return max(waits, default=0), statistics.median(waits or [0]), max(processor, default=0), MOST_SECONDS, len(waits), name, wrong


def small_statements(gx):
    """Microseconds of a small statement with and without, in turn."""
    with_, without = gx.connect(":memory:", isolation_level=None), gx_connect()
    sums = [[], []]
    for sql in ("SELECT 1", "SELECT gx_sum('[[1,2],[3,4]]')"):
        for _ in range(15):
            for db, taken in ((with_, sums[0]), (without, sums[1])):
                begin = time.perf_counter()
                for _ in range(10000):
                    db.execute(sql).fetchall()
                taken.append((time.perf_counter() - begin) * 100)
        print(f"{sql}: {min(sums[0]):.2f} us, without Control-C {min(sums[1]):.2f} us")
        sums = [[], []]


def text_of(line):
    most, middle, processor, seconds, hits, name, wrong = line
    return f"{1e3 * most:10.1f} {1e3 * middle:10.1f} {1e3 * processor:13.1f} {1e3 * seconds:10.0f} {hits:6}  {name}  {wrong}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--only", default="")
    parser.add_argument("--from", dest="first", default=next(iter(kit.FAMILIES)))
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--dir")
    parser.add_argument("--control-c", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        os.chdir(folder)
        gx, strike = None, None
        if args.control_c:
            os.environ["GX_SO"] = gx_path()
            import gx_sqlite as gx
            strike = press
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background may ignore it
        db = gx.connect("interrupts.db", isolation_level=None) if gx else gx_connect("interrupts.db")
        if args.threads:
            db.execute("SELECT gx_config('threads', ?)", (args.threads,))
        kit.prepare(db)
        lines = []
        names = list(kit.FAMILIES)
        for name in names[names.index(args.first):]:
            if args.only in name:
                try:
                    lines.append(measure(db, name, args.times, strike))
                    print(text_of(lines[-1]), file=sys.stderr, flush=True)
                except sqlite3.Error as problem:
                    print(f"{name}: {problem}", file=sys.stderr, flush=True)
        for name in OBJECTS if gx else ():
            if args.only in name:
                lines.append(measure_objects(gx, db, name, args.times))
        db.close()
        os.chdir("/")
    print("longest ms  median ms  processor ms   whole ms  times  statement")
    for line in sorted(lines, reverse=True):
        print(text_of(line))
    if gx:
        small_statements(gx)


if __name__ == "__main__":
    main()
