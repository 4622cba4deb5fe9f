#!/usr/bin/env python3
"""Vector tables beside sqlite-vec: `bench/vectors.py [--rows N] [--cols D] [--rounds R] [--old SO]`, `--bits N [--cols D]`.

A bulk INSERT ... SELECT into an empty table, in both journals, from a table of BLOBs and from a SELECT that makes them; then searches for one query
with conditions that leave ever fewer rows, beside the search without.  Processor seconds are of the process; --old: another gx.so, in turn.

--bits: N rows of D bits, in turn with sqlite-vec: one INSERT of all, and the ten nearest of a row by hamming.
"""
import argparse
import array
import os
import pathlib
import random
import sqlite3
import statistics
import tempfile
import time

try:
    import sqlite_vec
except ImportError:
    sqlite_vec = None

POOL = 1 << 18  # numbers, of which generated vectors are windows
GIVEN = "INSERT INTO v(rowid, e) SELECT id, e FROM s.note"
MADE = """WITH RECURSIVE i(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM i WHERE k < :rows)
          INSERT INTO v(rowid, e) SELECT k, substr(:pool, 1 + 4 * (k * 7919 % :windows), 4 * :cols) FROM i"""
FILTERS = {"all": "", "50 %": " AND a < 5000", "10 %": " AND a < 1000", "3 %": " AND a < 300", "1 %": " AND a < 100", "0.01 %": " AND a = 7", "none": " AND a < 0"}


def connect(path, who):
    db = sqlite3.connect(path, isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(sqlite_vec.loadable_path() if who == "sqlite-vec" else who)
    return db


def timed(fn):
    wall, processor = time.perf_counter(), time.process_time()
    rows = fn()
    return time.perf_counter() - wall, time.process_time() - processor, rows


def insert(folder, who, journal, sql, values, rows, cols):
    path = folder / "out.db"
    for file in folder.glob("out.db*"):
        file.unlink()
    db = connect(path, who)
    db.execute(f"PRAGMA journal_mode = {journal}")
    db.execute("ATTACH ? AS s", (str(folder / "source.db"),))
    db.execute(f"CREATE VIRTUAL TABLE v USING vec0(e float[{cols}])" if who == "sqlite-vec" else f"CREATE VIRTUAL TABLE v USING gx_vectors(e f32[{cols}])")
    os.sync()
    took = timed(lambda: db.execute(sql, values))
    assert db.execute("SELECT count(*) FROM v").fetchone() == (rows,)
    db.close()
    return took


def bits(folder, gx, rows, cols, rounds):
    """Each round asks both; the first is left out of the medians."""
    rng, out = random.Random(2), {}
    data = [rng.randbytes(cols // 8) for _ in range(rows)]
    for who, table, value in ((gx, "gx_vectors", "?"), ("sqlite-vec", "vec0", "vec_bit(?)")):
        db = connect(folder / f"{table}.db", who)
        db.execute("PRAGMA journal_mode = wal")
        db.execute(f"CREATE VIRTUAL TABLE v USING {table}(e bit[{cols}])")
        db.execute("BEGIN")
        wall, processor, _ = timed(lambda: db.executemany(f"INSERT INTO v(rowid, e) VALUES (?, {value})", enumerate(data, 1)))
        db.execute("COMMIT")
        print(f"INSERT bits {table:12}{rows / wall:9.0f} rows/s, {rows / processor:9.0f} a processor second", flush=True)
        out[table] = db, f"SELECT distance FROM v WHERE e MATCH {value} AND k = 10", []
    for r in range(rounds + 1):
        query, far = data[rng.randrange(rows)], set()
        for db, sql, took in out.values():
            took.append(timed(lambda: db.execute(sql, (query,)).fetchall()))
            far.add(str([int(d) for d, in took[-1][2]]))
        assert len(far) == 1  # ties apart
    for table, (_, _, took) in out.items():
        wall, processor = (statistics.median(t[k] for t in took[1:]) * 1e3 for k in (0, 1))
        print(f"search bits {table:12}{wall:7.1f} ms, processor {processor:7.1f}", flush=True)


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("rows", 1000000), ("cols", 384), ("rounds", 5)):
        a.add_argument(f"--{name}", type=int, default=default)
    a.add_argument("--old")
    a.add_argument("--bits", type=int)
    a.add_argument("--journals", default="wal,delete")
    a.add_argument("--folder")
    a = a.parse_args()
    gx = os.environ.get("GX_SO", str(pathlib.Path(__file__).resolve().parents[1] / "gx.so"))
    rng = random.Random(1)
    pool = array.array("f", [rng.gauss(0, 1) for _ in range(POOL)]).tobytes()
    with tempfile.TemporaryDirectory(dir=a.folder) as folder:
        folder = pathlib.Path(folder)
        if a.bits:
            return bits(folder, gx, a.bits, a.cols, a.rounds)
        s = connect(folder / "source.db", gx)
        s.execute("CREATE TABLE note(id INTEGER PRIMARY KEY, e BLOB)")
        s.execute("BEGIN")
        windows = POOL - a.cols
        s.executemany("INSERT INTO note VALUES (?, ?)", ((k, pool[(at := 4 * rng.randrange(windows)):at + 4 * a.cols]) for k in range(1, a.rows + 1)))
        s.execute("COMMIT")
        s.close()
        who = [w for w in (gx, a.old, "sqlite-vec" if sqlite_vec else None) if w]
        for journal in a.journals.split(","):
            for name, sql, values in (("table", GIVEN, {}), ("generated", MADE, {"rows": a.rows, "pool": pool, "windows": windows, "cols": a.cols})):
                for w in who:
                    wall, processor, _ = insert(folder, w, journal, sql, values, a.rows, a.cols)
                    print(f"INSERT {journal:7}{name:10}{w[-24:]:25}{a.rows / wall:9.0f} rows/s, {a.rows / processor:9.0f} a processor second", flush=True)
        db = connect(folder / "search.db", gx)
        db.execute("ATTACH ? AS s", (str(folder / "source.db"),))
        db.execute(f"CREATE VIRTUAL TABLE v USING gx_vectors(e f32[{a.cols}], a INTEGER)")
        db.execute("INSERT INTO v(rowid, e, a) SELECT id, e, id * 2654435761 % 4294967296 % 10000 FROM s.note")
        db.execute("SELECT gx_settle('v')").fetchall()
        left = {f: db.execute(f"SELECT count(*) FROM v_row WHERE 1{where}").fetchone()[0] for f, where in FILTERS.items()}
        db.close()
        for w in [w for w in (a.old, gx) if w]:
            db = connect(folder / "search.db", w)
            took, first = {f: [] for f in FILTERS}, {}
            for r in range(a.rounds + 1):
                query = array.array("f", [rng.gauss(0, 1) for _ in range(a.cols)]).tobytes()
                for f, where in FILTERS.items():
                    wall, processor, rows = timed(lambda: db.execute(f"SELECT rowid FROM v WHERE e MATCH ? AND k = 10{where}", (query,)).fetchall())
                    assert len(rows) == min(10, left[f])
                    first.setdefault(f, wall)
                    if r > 0:
                        took[f].append((wall, processor))
            for f in FILTERS:  # beside the search of all of the same round
                ratio = statistics.median(x[0] / y[0] for x, y in zip(took[f], took["all"]))
                wall, processor = (statistics.median(x[k] for x in took[f]) * 1e3 for k in (0, 1))
                print(f"search {w[-24:]:25}{f:7}{wall:7.1f} ms, processor {processor:7.1f}, {ratio:.3f} of the search of all; the first {first[f] * 1e3:.1f}", flush=True)
            db.close()


if __name__ == "__main__":
    main()
