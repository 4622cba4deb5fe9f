#!/usr/bin/env python3
"""Several processes at random work on one database with volumes, in WAL mode: nothing torn, nothing lost.

    soak.py [--seconds 60] [--processes 4] [--volumes 2] [--kills 0] [--seed 1] [--dir DIR]

Plan: each element of every matrix is base + factor * (i j mod 251), so that whoever reads one can tell whether it is whole.
- Each process owns some names, knows what stands there, and stores, copies (also what others own), transposes, scales, adds,
  multiplies, changes in place and drops them, one by one or in transactions that are committed, rolled back or rolled back in
  part; what it finds at its names must be what it left there.
- A second connection of each process looks at the database in a snapshot for some seconds: what it saw first it must see
  again, whole, whatever the others replace, drop and collect meanwhile.  For a part of the time nobody has a snapshot, so
  that space is used again and cut off.
- All share a table of vectors with an index: each process inserts, replaces, changes, moves and deletes rows of its own, in
  the same transactions, settles, and searches among its rows alone: the distances must be those of what it left.
- Between, anybody runs gx_vacuum, gx_backup (the copy is one state, and whole), gx_volumes with another number, and 0.
- --kills processes are killed with SIGKILL on the way, and replaced.
At the end gx_check, integrity_check, what each process says that it left, and no tile without an owner.
GX_SO names the extension; the interpreter's sqlite3 must load extensions.
"""
import argparse
import collections
import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import numpy as np

OWN = 4            # names of a process
PERIOD = 4         # seconds, of which
QUIET = 1.5        # nobody has a snapshot
MOST = 1 << 30     # bytes in volumes, from which on a process waits until nobody has one
LIMIT = 1 << 40    # bases and factors stay exact
DIMS, ROWS = 8, 300  # numbers of a vector, rows of a process at most


class Torn(Exception):
    """What must not be was seen."""


def connect(path, seconds=600):
    db = sqlite3.connect(path, isolation_level=None, timeout=seconds)
    db.enable_load_extension(True)
    db.load_extension(os.environ["GX_SO"])
    db.execute("PRAGMA synchronous=off")
    for setting in ("'tile_bytes', 32768", "'threads', 2", "'memory_limit', 200000000"):
        db.execute(f"SELECT gx_config({setting})").fetchall()
    return db


def value(db, sql, *params):
    return db.execute(sql, params).fetchone()[0]


def content(rows, cols, base, factor):
    return base + factor * (np.arange(rows, dtype=float)[:, None] * np.arange(cols, dtype=float) % 251)


def look(db, name, shape):
    """(rows, cols, base, factor) of a matrix whose elements are all what they must be."""
    rows, cols = shape
    array = np.frombuffer(value(db, "SELECT gx_to_bytes(?)", name), "<f8")
    if array.size != rows * cols:
        raise Torn(f"{name} has {array.size} elements, and the catalog says {rows}x{cols}")
    array = array.reshape(rows, cols)
    base, factor = array[0, 0], array[1, 1] - array[0, 0]
    wrong = np.argwhere(array != content(rows, cols, base, factor))
    if len(wrong):
        raise Torn(f"{name}, {rows}x{cols}: {len(wrong)} elements are wrong, the first at {wrong[0]}: "
                   f"{array[tuple(wrong[0])]}, but base {base} and factor {factor}")
    if value(db, "SELECT gx_sum(?)", name) != array.sum():
        raise Torn(f"gx_sum of {name} is not the sum of its elements")
    return rows, cols, base, factor


def catalog(db):
    return {name: (rows, cols) for name, rows, cols in db.execute("SELECT name, rows, cols FROM gx WHERE name GLOB 'm*' ORDER BY name")}


def vectors_of(db, owner):
    """{rowid: (numbers, tag)} of an owner's rows in the table of vectors."""
    rows = db.execute("SELECT rowid, x, tag FROM v WHERE owner = ?", (owner,))
    return {rowid: (tuple(np.frombuffer(x, "<f4").tolist()), tag) for rowid, x, tag in rows}


class Worker:
    def __init__(self, path, number, processes, seed):
        self.db, self.old = connect(path), connect(path)
        self.path, self.number, self.rng = path, number, random.Random(seed)
        self.names = [f"m{number}_{k}" for k in range(OWN)]
        self.others = [f"m{p}_{k}" for p in range(processes) for k in range(OWN) if p != number]
        there = catalog(self.db)
        self.own = {name: look(self.db, name, there[name]) for name in self.names if name in there}
        self.rows = vectors_of(self.db, number)
        self.seen = None  # of the snapshot: what each name has
        self.until = 0
        self.count = collections.Counter()

    # One matrix ------------------------------------------------------------------------------------

    def replace(self):
        """A call that stores at one of the own names, and what is there afterwards."""
        rng, name = self.rng, self.rng.choice(self.names)
        kind = rng.choice(("store", "store", "full", "copy", "copy", "transpose", "scale", "add", "multiply", "borrow"))
        if kind in ("store", "full") or not self.own:
            large = rng.random() < 0.02
            rows, cols = (rng.randint(700, 1100) if large else rng.randint(20, 400) for _ in range(2))
            base, factor = rng.randint(-9999, 9999), rng.randint(-99, 99)
            if kind == "full":
                self.call(f"SELECT gx_full({rows}, {cols}, {base}, ?, '{{\"replace\":true}}')", name)
                factor = 0
            else:
                self.call("SELECT gx_from_bytes(?, 'f64', ?, ?, '{\"replace\":true}')",
                          content(rows, cols, base, factor).tobytes(), cols, name)
            self.own[name] = (rows, cols, base, factor)
            return "store"
        source = rng.choice(sorted(self.own))
        rows, cols, base, factor = self.own[source]
        if kind == "borrow":
            return self.borrow(name)
        if kind == "copy":
            self.call("SELECT gx_copy(?, ?, '{\"replace\":true}')", source, name)
        elif kind == "transpose":
            self.call("SELECT gx_transpose(?, ?, '{\"replace\":true}')", source, name)
            rows, cols = cols, rows
        elif kind == "multiply":
            self.call("SELECT gx_matmul(?, gx_eye(?), ?, '{\"replace\":true}')", source, cols, name)
        else:
            by = -1 if max(abs(base), abs(factor)) > LIMIT else 2
            text = f"gx_scale(?1, {by}, ?2" if kind == "scale" or by < 0 else "gx_add(?1, ?1, ?2"
            self.call(f"SELECT {text}, '{{\"replace\":true}}')", source, name)
            base, factor = by * base, by * factor
        self.own[name] = (rows, cols, base, factor)
        return kind

    def borrow(self, name):
        """What another process owns may go at any moment."""
        try:
            self.call("SELECT gx_copy(?, ?, '{\"replace\":true}')", self.rng.choice(self.others), name)
        except sqlite3.Error as problem:
            if "no matrix named" not in str(problem):
                raise
            return "borrow-none"
        self.own[name] = look(self.db, name, catalog(self.db)[name])
        return "borrow"

    def drop(self):
        name = self.rng.choice(self.names)
        self.call("SELECT gx_drop(?, '{\"if_exists\":true}')", name)
        self.own.pop(name, None)
        return "drop"

    def change(self):
        """An element in place, to what it is: its tile goes home."""
        if not self.own:
            return "change-none"
        name = self.rng.choice(sorted(self.own))
        rows, cols, base, factor = self.own[name]
        i, j = self.rng.randrange(rows), self.rng.randrange(cols)
        self.call("SELECT gx_set(?, ?, ?, ?)", name, i, j, base + factor * (i * j % 251))
        return "change"

    def read(self):
        there = catalog(self.db)
        if not self.db.in_transaction and set(self.own) != {name for name in there if name in self.names}:
            raise Torn(f"{self.names[0]} and so on: {sorted(self.own)} were left, there are {sorted(there)}")
        for name in self.rng.sample(sorted(self.own), min(2, len(self.own))):
            found = look(self.db, name, there[name])
            if found != self.own[name]:
                raise Torn(f"{name} is {found}, and was left as {self.own[name]}")
        return "read"

    def call(self, sql, *params):
        self.db.execute(sql, params).fetchall()

    # Rows of vectors -------------------------------------------------------------------------------

    def change_rows(self):
        """A statement that writes rows of vectors."""
        rng, kind = self.rng, self.rng.choice(("insert", "insert", "many", "replace", "x", "tag", "delete", "settle"))
        new = lambda: (tuple(float(rng.randint(-9, 9)) for _ in range(DIMS)), rng.randint(0, 9))
        blob = lambda row: np.array(row[0], "<f4").tobytes()
        at = rng.choice(sorted(self.rows)) if self.rows else 1000000 * self.number + 1
        if kind == "settle":
            self.call("SELECT gx_settle('v')")
        elif kind in ("insert", "many") and len(self.rows) < ROWS:
            first = 1000000 * self.number + rng.randint(1, 900000)
            made = {first + k: new() for k in range(1 if kind == "insert" else 40) if first + k not in self.rows}
            texts = json.dumps([[rowid, list(row[0]), row[1]] for rowid, row in made.items()])
            self.call("INSERT INTO v(rowid, x, tag, owner) SELECT value ->> 0, value ->> 1, value ->> 2, ? FROM json_each(?)",
                      self.number, texts)
            self.rows.update(made)
        elif kind == "replace":
            self.rows[at] = new()
            self.call("INSERT OR REPLACE INTO v(rowid, x, tag, owner) VALUES (?, ?, ?, ?)", at, blob(self.rows[at]), self.rows[at][1],
                      self.number)
        elif kind == "x" and self.rows:
            self.rows[at] = (new()[0], self.rows[at][1])
            self.call("UPDATE v SET x = ? WHERE rowid = ?", blob(self.rows[at]), at)
        elif kind == "tag":
            tag = rng.randint(0, 9)
            self.call("UPDATE v SET tag = ? WHERE owner = ? AND tag = ?", tag, self.number, (tag + 1) % 10)
            self.rows = {rowid: (x, tag if t == (tag + 1) % 10 else t) for rowid, (x, t) in self.rows.items()}
        elif kind == "delete":
            tag = rng.randint(0, 9)
            self.call("DELETE FROM v WHERE owner = ? AND tag = ?", self.number, tag)
            self.rows = {rowid: row for rowid, row in self.rows.items() if row[1] != tag}
        return f"rows-{kind}"

    def search(self):
        """The nearest of the own rows, by all rows or, where that finds them all anyway, by the index."""
        query, most = [self.rng.randint(-9, 9) for _ in range(DIMS)], self.rng.randint(0, 9)
        found = self.db.execute("SELECT rowid, distance FROM v WHERE x MATCH ? AND k = 5 AND owner = ? AND tag <= ? AND probe = ?",
                                (json.dumps(query), self.number, most, self.rng.choice((0, 1000)))).fetchall()
        far = {rowid: float(np.sqrt(((np.array(x) - query) ** 2).sum())) for rowid, (x, tag) in self.rows.items() if tag <= most}
        want = sorted(far.values())[:5]
        if not np.allclose([d for _, d in found], want) or not np.allclose([far.get(rowid, -1) for rowid, _ in found], want):
            raise Torn(f"the nearest of process {self.number} are {found}, and should be at {want}")
        if self.rng.random() < 0.1 and vectors_of(self.db, self.number) != self.rows:
            raise Torn(f"rows of process {self.number} are not what was left")
        return "search"

    # Several, and the whole ------------------------------------------------------------------------

    def step(self):
        return self.rng.choices((self.replace, self.drop, self.change, self.read, self.change_rows, self.search), (10, 2, 2, 6, 8, 8))[0]()

    def transaction(self):
        before, rows = dict(self.own), dict(self.rows)
        self.db.execute("BEGIN IMMEDIATE")
        for _ in range(self.rng.randint(1, 3)):
            self.step()
        if self.rng.random() < 0.5:
            inner, inner_rows = dict(self.own), dict(self.rows)
            self.db.execute("SAVEPOINT s")
            self.step()
            if self.rng.random() < 0.5:
                self.db.execute("ROLLBACK TO s")
                self.own, self.rows = inner, inner_rows
        if self.rng.random() < 0.5:
            self.db.execute("ROLLBACK")
            self.own, self.rows = before, rows
            return "rollback"
        self.db.execute("COMMIT")
        return "commit"

    def vacuum(self):
        return "vacuum" if value(self.db, "SELECT gx_vacuum()") > 0 else "vacuum-nothing"

    def backup(self):
        copy = f"{self.path}-copy{os.getpid()}-{self.count['backup']}"  # a killed one leaves its own
        value(self.db, "SELECT gx_backup(?)", copy)
        with contextlib.closing(connect(copy)) as db:
            if value(db, "SELECT gx_check()") != "ok":
                raise Torn(f"a backup: {value(db, 'SELECT gx_check()')}")
            for name, shape in catalog(db).items():
                look(db, name, shape)
        remove(copy)
        return "backup"

    def volumes(self):
        value(self.db, "SELECT gx_volumes(?)", self.rng.choice((0, 1, 1, 2, 3, 4)))
        return "volumes"

    # The snapshot ----------------------------------------------------------------------------------

    def snapshot(self):
        """Opened, looked at again, or given up at its time."""
        if self.seen is None:
            if time.time() % PERIOD > PERIOD - QUIET - 1:
                return "snapshot-none"
            self.old.execute("BEGIN")
            there = catalog(self.old)
            self.seen = {name: look(self.old, name, shape) for name, shape in there.items()}
            self.until = time.time() + PERIOD - QUIET - time.time() % PERIOD
            return "snapshot"
        there = catalog(self.old)
        if there != {name: found[:2] for name, found in self.seen.items()}:
            raise Torn(f"a snapshot had {self.seen} and has {there}")
        for name in self.rng.sample(sorted(there), min(4, len(there))):
            found = look(self.old, name, there[name])
            if found != self.seen[name]:
                raise Torn(f"{name} in a snapshot was {self.seen[name]} and is {found}")
        if time.time() > self.until:
            self.old.execute("COMMIT")
            self.seen = None
        return "snapshot-read"

    def run(self, end):
        steps = (self.step, self.transaction, self.vacuum, self.backup, self.volumes, self.snapshot)
        while time.time() < end:
            kind = self.rng.choices(steps, (60, 12, 4, 0.5, 0.5, 25))[0]()
            self.count[kind] += 1
            if self.seen is not None and time.time() > self.until:
                self.snapshot()
            if value(self.db, "SELECT total(bytes) FROM gx_volume") > MOST:
                while self.seen is not None or time.time() % PERIOD < PERIOD - QUIET:
                    if self.seen is not None:
                        self.snapshot()
                    time.sleep(0.05)
                self.vacuum()
                self.count["waited"] += 1
        return {"own": self.own, "rows": {self.number: sorted(self.rows.items())}, "count": self.count}


def remove(path):
    folder, name = os.path.split(path)
    for file in os.listdir(folder):
        if file == name or file.startswith(name + "-"):
            os.unlink(os.path.join(folder, file))


def work(args):
    worker = None
    try:
        worker = Worker(args.work, args.number, args.processes, args.seed)
        report = worker.run(args.end)
    except (Torn, sqlite3.Error, AssertionError) as problem:
        report = {"failed": f"{type(problem).__name__}: {problem}", "count": worker.count if worker else {}}
    print(json.dumps(report))
    return 1 if "failed" in report else 0


def last_look(path, left, rows):
    """What is wrong with the database that everybody has left, or None."""
    with contextlib.closing(connect(path)) as db:
        if value(db, "PRAGMA integrity_check") != "ok" or value(db, "SELECT gx_check()") != "ok":
            return f"{value(db, 'PRAGMA integrity_check')}; {value(db, 'SELECT gx_check()')}"
        there = {name: look(db, name, shape) for name, shape in catalog(db).items()}
        if there != left:
            return f"there is {there}, and {left} was left"
        if any(vectors_of(db, owner) != found for owner, found in rows.items()) or value(db, "SELECT count(*) FROM v WHERE owner >= 0") != sum(map(len, rows.values())):
            return "rows of vectors are not those that were left"
        value(db, "SELECT gx_vacuum()")
        for table in ("gx_tile", "gx_extent") if value(db, "SELECT count(*) FROM gx_volume") else ("gx_tile",):
            if value(db, f"SELECT count(*) FROM {table} WHERE (id >> 32) NOT IN (SELECT id FROM gx_meta)") != 0:
                return f"{table} has tiles without an owner"
        extents = "SELECT coalesce(max(offset + length), 4096) FROM gx_extent WHERE set_id = v.set_id"
        sets = db.execute(f"SELECT bytes, ({extents}) FROM gx_volume JOIN gx_volumes v USING (id)"
                          if value(db, "SELECT count(*) FROM gx_volume") else "SELECT 1, 1")
        if any(size > end for size, end in sets):
            return "volumes have bytes that no tile has"
        return None if value(db, "SELECT gx_check()") == "ok" else "gx_check after gx_vacuum"


def start(args, path, number, seed):
    command = [sys.executable, __file__, "--work", path, "--number", number, "--end", args.end, "--seed", seed,
               "--processes", args.processes]
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)


def soak(args, path):
    with contextlib.closing(connect(path)) as db:
        value(db, "PRAGMA journal_mode=wal")
        value(db, "SELECT gx_volumes(?)", args.volumes)
        db.execute(f"CREATE VIRTUAL TABLE v USING gx_vectors(x f32[{DIMS}], tag INTEGER, owner INTEGER, metric=l2)")
        db.execute("INSERT INTO v(x, tag, owner) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 64) "
                   "SELECT json_array(i, 1, 2, 3, 4, 5, 6, 7), 0, -1 FROM n")
        value(db, "SELECT gx_index('v')")
    rng = random.Random(args.seed)
    workers = [start(args, path, k, args.seed * 1000 + k) for k in range(args.processes)]
    moments = sorted(args.end - args.seconds * rng.uniform(0.05, 0.95) for _ in range(args.kills))
    killed = 0
    while time.time() < args.end and all(w.poll() in (None, 0) for w in workers):
        time.sleep(0.1)
        if moments and time.time() > moments[0]:
            victim = rng.randrange(args.processes)
            workers[victim].send_signal(signal.SIGKILL)
            workers[victim].communicate()
            killed += 1
            workers[victim] = start(args, path, victim, args.seed * 1000 + args.processes + len(moments) + 7 * killed)
            moments.pop(0)
    if time.time() < args.end:
        for worker in workers:
            worker.terminate()
    count, left, rows, failed = collections.Counter(), {}, {}, []
    for worker in workers:
        text = worker.communicate()[0]
        is_stopped = worker.returncode == -signal.SIGTERM  # because another one has failed
        report = json.loads(text) if text else {"failed": f"a process ended with {worker.returncode}", "count": {}}
        count.update(report["count"])
        left.update({name: tuple(found) for name, found in report.get("own", {}).items()})
        for owner, found in report.get("rows", {}).items():
            rows[int(owner)] = {rowid: (tuple(x), tag) for rowid, (x, tag) in found}
        failed += [report["failed"]] if "failed" in report and not is_stopped else []
    if not failed:
        problem = last_look(path, left, rows)
        failed = [problem] if problem else []
    print(f"{args.processes} processes, {args.seconds} s, seed {args.seed}, {killed} killed: "
          + ", ".join(f"{kind} {n}" for kind, n in sorted(count.items())))
    print("\n".join(failed) if failed else "nothing torn, nothing lost")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("seconds", 60), ("processes", 4), ("volumes", 2), ("kills", 0), ("seed", 1), ("number", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dir")
    parser.add_argument("--work")
    parser.add_argument("--end", type=float)
    args = parser.parse_args()
    if args.work:
        return work(args)
    args.end = time.time() + args.seconds
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        return soak(args, os.path.join(folder, "soak.db"))


if __name__ == "__main__":
    sys.exit(main())
