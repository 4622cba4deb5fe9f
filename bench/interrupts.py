#!/usr/bin/env python3
"""How soon an interrupt ends a statement: each family of tests/sql/interruptkit.py, interrupted at random moments.

    python bench/interrupts.py [--times 10] [--only PART OF A NAME] [--from NAME] [--threads 0] [--dir DIR]

A line for each family, the slowest first: the longest and the median wait from sqlite3_interrupt() to the end of the statement, the
longest in time of this process's processors (what other processes take does not count there), and how long the whole statement takes (3000: or longer).
The aim is less than 100 ms on a quiet machine.
"""
import argparse
import os
import pathlib
import sqlite3
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "sql"))
import interruptkit as kit  # noqa: E402
from conftest import gx_connect  # noqa: E402


MOST_SECONDS = 3  # a longer statement is interrupted within its first seconds


def measure(db, name, times):
    sql, before, after = kit.parts(name)
    if before:
        db.execute(before).fetchall()
    try:
        seconds = kit.whole(db, sql, MOST_SECONDS)
        waits, processor, wrong = [], [], ""
        for delay in kit.delays(seconds, times, name):
            problem, wait, spent = kit.interrupt(db, sql, delay)
            if problem is not None:
                waits.append(wait)
                processor.append(spent)
                wrong = wrong or ("" if "interrupted" in problem else problem)
    finally:
        if after:
            db.execute(after).fetchall()
    return (max(waits, default=0), statistics.median(waits or [0]), max(processor, default=0), seconds, len(waits), name, wrong)


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
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        os.chdir(folder)
        db = gx_connect("interrupts.db")
        if args.threads:
            db.execute("SELECT gx_config('threads', ?)", (args.threads,))
        kit.prepare(db)
        lines = []
        names = list(kit.FAMILIES)
        for name in names[names.index(args.first):]:
            if args.only in name:
                try:
                    lines.append(measure(db, name, args.times))
                    print(text_of(lines[-1]), file=sys.stderr, flush=True)
                except sqlite3.Error as problem:
                    print(f"{name}: {problem}", file=sys.stderr, flush=True)
        db.close()
        os.chdir("/")
    print("longest ms  median ms  processor ms   whole ms  times  statement")
    for line in sorted(lines, reverse=True):
        print(text_of(line))


if __name__ == "__main__":
    main()
