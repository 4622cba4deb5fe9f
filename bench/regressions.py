#!/usr/bin/env python3
"""Regressions and tests beside SQLite's own walk, statsmodels and SciPy: `bench/regressions.py [--groups 1000000] [--rows 1000000] [--stored 10000000]`.

- 10^6 groups of 10 rows: gx_lm of eight columns beside nine sums, in seconds and as rates; gx_t_test beside two sums;
- 10^6 rows of 20 columns from a table to its terms, beside statsmodels' OLS (pinv, its default, and QR) from a NumPy array;
- logistic regression of the same, beside statsmodels' GLM;
- a stored matrix of 20 columns: gx_lm_fit beside its scan, gx_norm, out of the system's cache and, its file evicted before each call, from the disk.
"""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np

from timing import median, report

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "sql"))
from conftest import gx_connect, q  # noqa: E402


def table(db, name, columns, rows, seed):
    """A column g, whole numbers that rise every ten rows, and columns of normal numbers."""
    rng = np.random.default_rng(seed)
    db.execute(f"CREATE TABLE {name}(g INTEGER, {', '.join(f'{c} REAL' for c in columns)})")
    db.execute("BEGIN")
    for begin in range(0, rows, 100_000):
        block = rng.normal(size=(min(100_000, rows - begin), len(columns)))
        db.executemany(f"INSERT INTO {name} VALUES({', '.join('?' * (len(columns) + 1))})",
                       ((i // 10, *row) for i, row in enumerate(block.tolist(), begin)))
    db.execute("COMMIT")


def groups(db, count, rounds):
    columns = ["y"] + [f"x{k}" for k in range(1, 9)]
    table(db, "grouped", columns, 10 * count, 0)
    listed = ", ".join(columns)

    def walk(expression):
        return lambda: db.execute(f"SELECT count(s) FROM (SELECT {expression} AS s FROM grouped GROUP BY g)").fetchall()
    sums = median(walk(" + ".join(f"sum({c})" for c in columns)), rounds)
    seconds = median(walk(f"gx_lm({listed})"), rounds)
    report(f"{count} groups of 10 rows: gx_lm of 8 columns", seconds, nine_sums=sums)
    print(f"    rows a second: gx_lm {10 * count / seconds / 1e6:.2f} million, nine sums {10 * count / sums / 1e6:.2f}; gx_lm / sums {sums / seconds:.2f}")
    report(f"{count} groups of 10 rows: gx_lm_terms' slope of x1", median(walk(f"gx_coef(gx_lm({listed}), 'x1')"), rounds), nine_sums=sums)
    report(f"{count} groups of 10 rows: gx_t_test(y)", median(walk("gx_t_test(y)"), rounds), sums=median(walk("sum(y) + sum(y * y)"), rounds))
    db.execute("DROP TABLE grouped")


def long(db, rows, rounds):
    import statsmodels.api as sm
    columns = ["y"] + [f"x{k}" for k in range(1, 21)]
    table(db, "long", columns, rows, 1)
    listed = ", ".join(columns)
    array = np.array(db.execute(f"SELECT {listed} FROM long").fetchall())
    y, X = array[:, 0].copy(), sm.add_constant(array[:, 1:])
    terms = lambda fit: [fit.params, fit.bse, fit.pvalues, fit.conf_int()]
    seconds = median(lambda: db.execute(f"SELECT t.* FROM (SELECT gx_lm({listed}) AS m FROM long), gx_lm_terms(m) AS t").fetchall(), rounds)
    walk = median(lambda: db.execute(f"SELECT {', '.join(f'sum({c})' for c in columns)} FROM long").fetchall(), rounds)
    report(f"{rows} x 20, table to terms", seconds, pinv=median(lambda: terms(sm.OLS(y, X).fit()), rounds),
           qr=median(lambda: terms(sm.OLS(y, X).fit(method="qr")), rounds), sums=walk)
    b = (y > 0) * 1.0
    seconds = median(lambda: db.execute(f"SELECT gx_coef(gx_glm(y > 0, {', '.join(columns[1:])})) FROM long").fetchall(), 1)
    report(f"{rows} x 20, logistic regression from a table", seconds, statsmodels=median(lambda: sm.GLM(b, X, family=sm.families.Binomial()).fit(), 1))
    db.execute("DROP TABLE long")


def evict(path):
    """The file's pages leave the system's cache: what is read next comes from the disk."""
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def from_disk(folder, rows, rounds):
    """The scan and the fit in turn, each on a connection of its own, after the file was evicted."""
    path, taken = os.path.join(folder, "stored.db"), {"scan": [], "fit": []}
    asked = {"scan": "SELECT gx_norm('X')", "fit": "SELECT gx_coef(gx_lm_fit('X', 'y'), 'x1')"}
    for _ in range(rounds):
        for name, sql in asked.items():
            evict(path)
            db = gx_connect(path)
            start = time.perf_counter()
            q(db, sql)
            taken[name].append(time.perf_counter() - start)
            db.close()
    report(f"{rows} x 20 from the disk, gx_lm_fit", statistics.median(taken["fit"]), scan=statistics.median(taken["scan"]))


def stored(folder, rows, rounds):
    db = gx_connect(os.path.join(folder, "stored.db"))
    db.execute("PRAGMA journal_mode = wal").fetchall()
    q(db, "SELECT gx_randn(?, 20, 'X')", rows)
    q(db, "SELECT gx_eval('y := X @ ones(20, 1) + randn(rows(X), 1, 7)')")
    db.execute("PRAGMA wal_checkpoint(truncate)").fetchall()
    scan = median(lambda: q(db, "SELECT gx_norm('X')"), rounds)
    bytes_read = rows * 160
    report(f"{rows} x 20 stored, gx_lm_fit", median(lambda: q(db, "SELECT gx_coef(gx_lm_fit('X', 'y'), 'x1')"), rounds), scan=scan)
    print(f"    the scan reads {bytes_read / scan / 1e9:.2f} GB/s")
    report(f"{rows} x 20 stored, HC1", median(lambda: q(db, "SELECT gx_coef(gx_lm_fit('X', 'y', '{\"robust\":\"HC1\"}'), 'x1')"), 1), scan=scan)
    db.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--groups", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--stored", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("GX_BENCH_DIR")) as folder:
        db = gx_connect(os.path.join(folder, "bench.db"))
        if args.groups:
            groups(db, args.groups, args.rounds)
        if args.rows:
            long(db, args.rows, args.rounds)
        db.close()
        if args.stored:
            stored(folder, args.stored, args.rounds)
            from_disk(folder, args.stored, args.rounds)


if __name__ == "__main__":
    main()
