#!/usr/bin/env python3
"""What gx_plan foretells, beside what the statement takes: fifty-six statements, families by sizes.

    python bench/predictions.py [--so gx.so] [--backend cpu|auto] [--dir DIR] [--only WORDS] [--save FILE]

The machine is measured first (`gx_benchmark(1)`, into a profile of this run's own).  Each statement then has a connection of its
own, which has learned nothing, in a file in which another has run it once (so its pages are there to be used again): gx_plan's `seconds` of the
place it chooses are the forecast, the median of the second to fourth call is the measurement (`first` is the first one, `learned`
what gx_plan says after the second).  A row is marked when forecast
and measurement are more than 1.5 apart.  What the issue of predictions asks: 45 of 60 within 1.5, none beyond 4.
The database is in the page cache, in WAL mode; with --backend auto the device is open before the forecast.
"""
import argparse
import math
import os
import pathlib
import sqlite3
import statistics
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
NEAR, FAR, CALLS = 1.5, 4.0, 4

# name: the statement that makes it.
OPERANDS = {
    "A{n}": "gx_randn({n},{n},'A{n}')",
    "B{n}": "gx_randn({n},{n},'B{n}','{{\"seed\":2}}')",
    "F{n}": "gx_randn({n},{n},'F{n}','{{\"dtype\":\"f32\"}}')",
    "C{n}": "gx_randn({n},{n},'C{n}','{{\"dtype\":\"c128\"}}')",
    "P{n}": "gx_matrix_gallery('lehmer',{n},'P{n}')",
    "M{n}": "gx_add(gx_randn({n},{n},'R{n}'),gx_transpose('R{n}'),'M{n}')",
    "X{n}": "gx_randn({n},64,'X{n}')",
    "W{n}": "gx_randn({n},200,'W{n}')",
    "Y{n}": "gx_randn({n},1,'Y{n}')",
    "E{n}": "gx_randn({n},128,'E{n}','{{\"dtype\":\"f32\"}}')",
    "Q{n}": "gx_randn({n},128,'Q{n}','{{\"dtype\":\"f32\"}}')",
    "S{n}": "gx_random({n},{n},'S{n}','{{\"density\":0.0001}}')",
    "L{n}": "gx_matrix_gallery('poisson',{n},'L{n}','{{\"sparse\":true}}')",
    "V{n}": "gx_randn({n},8,'V{n}')",
}
TERMS = "start_s, read_s, up_s, compute_s, down_s, write_s, commit_s"
STORED = ",'Z')"
# family, the expression of gx_plan, its options, the statement, the operands
LIST = [
    *[("product", f"A{n} @ B{n}", None, f"SELECT gx_matmul('A{n}','B{n}'{STORED}", (f"A{n}", f"B{n}")) for n in (256, 512, 1000, 2000, 4000)],
    *[("product f32", f"F{n} @ F{n}", None, f"SELECT gx_matmul('F{n}','F{n}'{STORED}", (f"F{n}",)) for n in (1000, 3000)],
    ("product c128", "C1000 @ C1000", None, f"SELECT gx_matmul('C1000','C1000'{STORED}", ("C1000",)),
    *[("Gram", f"{x}.T @ {x}", None, f"SELECT gx_matmul('{x}','{x}','Z','{{\"transa\":true}}')", (x,))
      for x in ("A2000", "X100000", "W20000")],
    *[("narrow product", f"A{n} @ V{n}", None, f"SELECT gx_matmul('A{n}','V{n}'{STORED}", (f"A{n}", f"V{n}")) for n in (1000, 4000)],
    *[("add", f"A{n} + B{n}", None, f"SELECT gx_add('A{n}','B{n}'{STORED}", (f"A{n}", f"B{n}")) for n in (256, 1000, 4000)],
    *[("transpose", f"A{n}.T", None, f"SELECT gx_transpose('A{n}'{STORED}", (f"A{n}",)) for n in (4000,)],
    *[("norm", f"norm(A{n})", None, f"SELECT gx_norm('A{n}')", (f"A{n}",)) for n in (256, 1000, 4000)],
    *[("cholesky", f"cholesky(P{n})", None, f"SELECT gx_cholesky('P{n}'{STORED}", (f"P{n}",)) for n in (500, 1500, 4000)],
    *[("lu", f"lu(A{n})", None, f"SELECT gx_lu('A{n}'{STORED}", (f"A{n}",)) for n in (500, 4000)],
    *[("qr", f"qr({x})", None, f"SELECT gx_qr('{x}'{STORED}", (x,)) for x in ("A2000", "W20000")],
    *[("solve", f"solve({a}, Y{n})", None, f"SELECT gx_solve('{a}','Y{n}'{STORED}", (a, f"Y{n}"))
      for a, n in (("A1000", 1000), ("A4000", 4000), ("P1500", 1500))],
    *[("lstsq", f"lstsq({x}, Y{n})", None, f"SELECT gx_lstsq('{x}','Y{n}'{STORED}", (x, f"Y{n}")) for x, n in (("X100000", 100000), ("W20000", 20000))],
    *[("inverse", f"inverse(A{n})", None, f"SELECT gx_inverse('A{n}'{STORED}", (f"A{n}",)) for n in (2000,)],
    ("det", "det(A1000)", None, "SELECT gx_det('A1000')", ("A1000",)),
    *[("svd", f"svd({x})", None, f"SELECT count(u), count(v) FROM gx_svd('{x}')", (x,)) for x in ("A256", "A1000", "W20000")],
    *[("svd, 5", f"svd({x}, 5)", None, f"SELECT count(u), count(v) FROM gx_svd('{x}','{{\"k\":5}}')", (x,)) for x in ("A1000", "A4000")],
    *[("eig, symmetric", f"eig(M{n})", None, f"SELECT count(vector) FROM gx_eig('M{n}')", (f"M{n}",)) for n in (256, 1000, 2000)],
    *[("eig, general", f"eig(A{n})", None, f"SELECT count(vector) FROM gx_eig('A{n}')", (f"A{n}",)) for n in (256, 1000)],
    *[("eig, 10", f"eig({x}, 10)", None, f"SELECT count(vector) FROM gx_eig('{x}','{{\"k\":10}}')", (x,)) for x in ("M2000", "P4000")],
    *[("covariance", f"cov({x})", None, f"SELECT gx_cov('{x}'{STORED}", (x,)) for x in ("X100000", "W20000")],
    *[("pca", f"pca({x}, 3)", None, f"SELECT count(vector) FROM gx_pca('{x}', 3)", (x,)) for x in ("X100000", "W20000")],
    ("topk", "topk(A4000, 10)", None, "SELECT sum(value) FROM gx_topk('A4000', 10)", ("A4000",)),
    *[("knn", f"knn(Q{q}, E{e}, 10)", None, f"SELECT sum(id) FROM gx_knn('Q{q}','E{e}',10)", (f"Q{q}", f"E{e}"))
      for q, e in ((1, 100000), (1000, 20000), (1000, 100000))],
    *[("sparse product", f"S{n} @ V{n}", None, f"SELECT gx_matmul('S{n}','V{n}'{STORED}", (f"S{n}", f"V{n}")) for n in (20000, 100000)],
]


def connect(so, path, backend):
    db = sqlite3.connect(path, isolation_level=None)
    db.enable_load_extension(True)
    db.execute("SELECT load_extension(?, 'sqlite3_gx_init')", (os.path.abspath(so),))
    db.execute("PRAGMA cache_size = -65536")
    if backend == "cpu":
        db.execute("SELECT gx_config('backend', 'cpu')")
    return db


def make(db, name, made):
    """The operand, unless it is there."""
    if name not in made:
        made.add(name)
        rows = name[1:]
        if name[0] == "M" and f"R{rows}" not in made:
            made.add(f"R{rows}")
            db.execute(f"SELECT gx_randn({rows},{rows},'R{rows}')").fetchall()
        db.execute("SELECT " + OPERANDS[name[0] + "{n}"].format(n=rows).replace(f"gx_randn({rows},{rows},'R{rows}')", f"'R{rows}'")).fetchall()


def seconds_of(db, sql):
    """Its result, where it is stored, is dropped before: the same elements once more would not be written (SQLite compares)."""
    if "'Z'" in sql:
        db.execute("DELETE FROM gx WHERE name = 'Z'")
    start = time.perf_counter()
    db.execute(sql).fetchall()
    return time.perf_counter() - start


def plan(db, expression):
    """What gx_plan would choose: seconds, place, driver, terms."""
    seconds, device, driver, *terms = db.execute(f"SELECT seconds, device, driver, {TERMS} FROM gx_plan(?)", (expression,)).fetchone()
    return seconds, device, driver, " ".join(f"{name[:-2]} {1e3 * term:.1f}" for name, term in zip(TERMS.split(", "), terms) if term >= 5e-5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--so", default=str(ROOT / "gx.so"))
    parser.add_argument("--backend", default="auto", choices=("cpu", "auto"))
    parser.add_argument("--dir")
    parser.add_argument("--only", default="")
    parser.add_argument("--terms", action="store_true", help="what the forecasts are made of")
    parser.add_argument("--save")
    args = parser.parse_args()
    lines = []

    def say(text):
        print(text, flush=True)
        lines.append(text)

    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        path = os.path.join(folder, "p.db")
        db = connect(args.so, path, args.backend)
        db.execute("PRAGMA page_size = 65536")
        db.execute("PRAGMA journal_mode = wal").fetchall()
        say(f"gx_benchmark(1): {seconds_of(db, 'SELECT gx_benchmark(1)'):.1f} s; {os.cpu_count()} processors, "
            f"{len(os.sched_getaffinity(0))} of them used")
        made = set()
        chosen = [row for row in LIST if args.only in row[0]]
        for row in chosen:
            for name in row[4]:
                make(db, name, made)
        db.execute("PRAGMA wal_checkpoint").fetchall()
        db.close()
        near = far = 0
        say(f"{'':<16} {'statement':<36} {'where':<12} {'foretold':>9} {'measured':>9} {'ratio':>6} {'first':>9} {'learned':>9}")
        for family, expression, _, sql, _ in chosen:
            db = connect(args.so, path, args.backend)
            seconds_of(db, sql)
            db.close()
            db = connect(args.so, path, args.backend)
            if args.backend == "auto":
                db.execute("SELECT * FROM gx_devices").fetchall()
            foretold, device, driver, terms = plan(db, expression)
            times = [seconds_of(db, sql) for _ in range(2)]
            learned = plan(db, expression)[0]
            while len(times) < CALLS and sum(times) < 8:
                times.append(seconds_of(db, sql))
            measured = statistics.median(times[1:])
            ratio = foretold / measured
            apart = math.exp(abs(math.log(max(ratio, 1e-9))))
            near, far = near + (apart <= NEAR), far + (apart > FAR)
            say(f"{family:<16} {expression:<36} {device + ' ' + driver:<12.24} {foretold:9.4f} {measured:9.4f} {ratio:6.2f} {times[0]:9.4f} {learned:9.4f}"
                + ("" if apart <= NEAR else " *" if apart <= FAR else " **"))
            if args.terms:
                print(" " * 20 + "ms: " + terms)
            db.close()
        say(f"{near} of {len(chosen)} within {NEAR}, {far} beyond {FAR}")
    if args.save:
        pathlib.Path(args.save).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
