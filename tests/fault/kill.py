#!/usr/bin/env python3
"""Kill -9 in the middle of a storing call: afterwards the old state or the new one, never between.

    kill.py [--times 50] [--seed 1]

Plan: for rollback journal and WAL in turn, a child opens the database and replaces the stored matrix C by A B (or a copy,
a transpose, a factor, a solution), makes D and drops it, and collects what is free, over and over; the parent kills it at a
random moment, opens the database itself
(SQLite rolls back or recovers), and looks: PRAGMA integrity_check, gx_check of every matrix, no half-stored matrix, no
orphan tile, C's elements are exactly those of one of the states that the child went through, and D, where it is, is B.  The
same with one volume and with four: gx_vacuum leaves no byte in them that no matrix has, and all is as it was after it.
GX_SO names the extension; the interpreter's sqlite3 must load extensions.
"""
import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

N = 192
CHILD_STEPS = (
    "SELECT gx_matmul('A', 'B', 'C', '{\"replace\":true}')",
    "SELECT gx_store('D', 'B')",
    "SELECT gx_store('C', 'A', '{\"replace\":true}')",
    "SELECT gx_vacuum()",
    "SELECT gx_transpose('B', 'C', '{\"replace\":true}')",
    f"SELECT gx_cholesky(gx_matrix_gallery('minij', {N}), 'C', '{{\"replace\":true}}')",
    "SELECT gx_drop('D')",
    "SELECT gx_trsm('C', 'B', 'C', '{\"replace\":true}')",
    "SELECT gx_vacuum()",
)


def connect(path):
    db = sqlite3.connect(path, isolation_level=None, timeout=20)
    db.enable_load_extension(True)
    db.load_extension(os.environ["GX_SO"])
    db.execute("SELECT gx_config('tile_bytes', 32768)")
    return db


def value(db, sql):
    return db.execute(sql).fetchone()[0]


def child(path):
    db = connect(path)
    db.execute("SELECT gx_drop('D', '{\"if_exists\":true}')").fetchall()
    print("ready", flush=True)
    while True:
        for step in CHILD_STEPS:
            db.execute(step).fetchall()


def prepare(path, journal, volumes):
    """The database before the first kill; returns the checksum of each state that C may have."""
    db = connect(path)
    db.execute(f"PRAGMA journal_mode={journal}").fetchall()
    db.execute(f"SELECT gx_volumes({volumes})").fetchall()
    db.execute(f"SELECT gx_randn({N}, {N}, 'A', '{{\"seed\":1}}'), "
               f"gx_randn({N}, {N}, 'B', '{{\"seed\":2}}')").fetchall()
    states = {}
    for step in CHILD_STEPS:
        db.execute(step).fetchall()
        if value(db, "SELECT count(*) FROM gx WHERE name = 'C'") == 1:
            states[fingerprint(db, "C")] = step
    db.close()
    return states


def fingerprint(db, name):
    return hash(value(db, f"SELECT gx_to_bytes('{name}')"))


def volume_problem(db):
    """Bytes behind the last extent after gx_vacuum, or an extent without a matrix; None where there are no volumes."""
    if value(db, "SELECT count(*) FROM gx_volume") == 0:
        return None
    value(db, "SELECT gx_vacuum()")
    if value(db, "SELECT count(*) FROM gx_extent WHERE (id >> 32) NOT IN (SELECT id FROM gx_meta)") != 0:
        return "orphan extents"
    end = value(db, "SELECT max(offset + length) FROM gx_extent")
    return None if value(db, "SELECT max(bytes) FROM gx_volume") == end else "bytes that no extent has"


def matrix_problem(db, states):
    bad = db.execute("SELECT name, gx_check(name) FROM gx WHERE gx_check(name) <> 'ok'").fetchall()
    if bad:
        return f"gx_check: {bad}"
    names = [row[0] for row in db.execute("SELECT name FROM gx ORDER BY name")]
    if names not in (["A", "B", "C"], ["A", "B", "C", "D"]):
        return f"the catalog is {names}"
    if fingerprint(db, "C") not in states:
        return "C is in none of the states the child went through"
    return "D is not B" if "D" in names and fingerprint(db, "D") != fingerprint(db, "B") else None


def look(path, states):
    """What is wrong with the database after a kill, or None."""
    db = connect(path)
    try:
        if value(db, "PRAGMA integrity_check") != "ok":
            return "integrity_check: " + value(db, "PRAGMA integrity_check")
        if value(db, "SELECT count(*) FROM gx_meta WHERE name IS NULL") != 0:
            return "a half-stored matrix"
        if value(db, "SELECT count(*) FROM gx_tile WHERE (id >> 32) NOT IN (SELECT id FROM gx_meta)") != 0:
            return "orphan tiles"
        return matrix_problem(db, states) or volume_problem(db) or matrix_problem(db, states)
    finally:
        db.close()


def kill_once(path, moment):
    process = subprocess.Popen([sys.executable, __file__, "--child", path], stdout=subprocess.PIPE)
    process.stdout.readline()
    time.sleep(moment)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--child")
    args = parser.parse_args()
    if args.child:
        child(args.child)
    rng = random.Random(args.seed)
    failures = in_flight = 0
    modes = [(journal, volumes) for journal in ("delete", "wal") for volumes in (0, 1, 4)]
    for journal, volumes in modes:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "kill.db")
            states = prepare(path, journal, volumes)
            for _ in range(args.times // len(modes)):
                kill_once(path, rng.random() * 0.2)
                in_flight += os.path.exists(path + "-journal") or os.path.exists(path + "-wal")
                problem = look(path, states)
                if problem:
                    failures += 1
                    print(f"{journal}, {volumes} volumes: {problem}")
    print(f"{args.times} kills (seed {args.seed}), {in_flight} left a journal, {failures} left a damaged state")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
