#!/usr/bin/env python3
"""Two builds of gx, statement by statement, in turn: is the new one as fast as the old one?

    bench/paired.py OLD/gx.so NEW/gx.so [set...]      sets: cpu gpu large (default: cpu)
    bench/paired.py --rounds 9 --dir /dev/shm --scale 0.5 OLD/gx.so NEW/gx.so cpu

Each build runs in a process of its own, on a database of its own that is in the page cache.  A round is one call of each
build, the first of them changing from round to round; a row is the median time of either and the median of the rounds'
ratios new / old.  The first round is not counted.  Rows outside 0.95 .. 1.05 are marked.  A dated file goes to
bench/results/.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# name: (statements that make the operands, the statement that is timed, what is undone after it); {n} is the order.
SETS = {
    "cpu": {
        "product, stored": (4096, ["SELECT gx_random({n},{n},'A')", "SELECT gx_random({n},{n},'B','{{\"seed\":2}}')"],
                            "SELECT gx_matmul('A','B','C','{{\"replace\":true}}')"),
        "product, in a quarter of a matrix": (
            4096, ["SELECT gx_config('tile_bytes', {n}*{n}/8)", "SELECT gx_config('memory_limit', {n}*{n}*2)", "SELECT gx_random({n},{n},'A')",
                   "SELECT gx_random({n},{n},'B')"], "SELECT gx_matmul('A','B','C','{{\"replace\":true}}')"),
        "product, values of 512": (512, ["CREATE TABLE v AS SELECT gx_random({n},{n}) AS a"],
                                   "SELECT length(gx_matmul(a, a)) FROM v"),
        "scan": (8192, ["SELECT gx_random({n},{n},'A')"], "SELECT gx_norm('A')"),
        "add, stored": (4096, ["SELECT gx_random({n},{n},'A')"], "SELECT gx_add('A','A','C','{{\"replace\":true}}')"),
        "elementwise values": (1024, ["CREATE TABLE v AS SELECT gx_random({n},{n}) AS a"],
                               "SELECT length(gx_div(gx_mul(a, a), gx_add(a, 1))) FROM v"),
        "cholesky": (4096, ["SELECT gx_matrix_gallery('minij',{n},'A')"],
                     "SELECT gx_cholesky('A','F','{{\"replace\":true}}')"),
        "lu": (3072, ["SELECT gx_randn({n},{n},'A')"], "SELECT gx_lu('A','F','{{\"replace\":true}}')"),
        "qr": (2048, ["SELECT gx_randn({n},{n},'A')"], "SELECT gx_qr('A','F','{{\"replace\":true}}')"),
        "solve": (3072, ["SELECT gx_randn({n},{n},'A')"], "SELECT length(gx_solve('A', gx_ones({n},2)))"),
        "lstsq": (2048, ["SELECT gx_randn({n}*50,64,'A')"], "SELECT length(gx_lstsq('A', gx_ones({n}*50,1)))"),
        "eig, all": (1024, ["SELECT gx_randn({n},{n},'R')", "SELECT gx_matmul('R','R','A','{{\"transa\":true}}')"],
                     "SELECT sum(value) FROM gx_eig('A')"),
        "eig, ten largest": (4096, ["SELECT gx_matrix_gallery('lehmer',{n},'A')"],
                             "SELECT sum(value) FROM gx_eig('A','{{\"k\":10}}')"),
        "svd, ten largest": (2048, ["SELECT gx_randn({n},{n},'A')"], "SELECT sum(sigma) FROM gx_svd('A','{{\"k\":10}}')"),
        "pca": (2000, ["SELECT gx_randn({n}*100,64,'A')"], "SELECT sum(variance) FROM gx_pca('A',3)"),
        "cells in": (1000, ["CREATE TABLE r AS WITH RECURSIVE k(x) AS (SELECT 0 UNION ALL SELECT x+1 FROM k WHERE "
                            "x+1<{n}*{n}) SELECT x/{n} AS i, (x*7919)%{n} AS j, x*0.5 AS v FROM k"],
                     "SELECT length(gx_from_cells(i,j,v)) FROM r"),
        "cells out": (2000, ["SELECT gx_random({n},{n},'A')"], "SELECT sum(value) FROM gx_cells('A')"),
        "import .csv": (1000, ["SELECT gx_export(gx_random({n},{n}), '{dir}/a.csv', '{{\"overwrite\":true}}')"],
                        "SELECT gx_import('C','{dir}/a.csv','{{\"replace\":true}}')"),
        "export .csv": (1000, ["SELECT gx_random({n},{n},'A')"],
                        "SELECT gx_export('A','{dir}/b.csv','{{\"overwrite\":true}}')"),
        "small products": (4, ["CREATE TABLE t AS WITH RECURSIVE k(x) AS (SELECT 0 UNION ALL SELECT x+1 FROM k WHERE "
                               "x<50000) SELECT gx_random({n},{n}) AS a FROM k"],
                           "SELECT sum(length(gx_matmul(a,a))) FROM t"),
        "small sums": (4, ["CREATE TABLE t AS WITH RECURSIVE k(x) AS (SELECT 0 UNION ALL SELECT x+1 FROM k WHERE "
                           "x<50000) SELECT gx_random({n},{n}) AS a FROM k"],
                       "SELECT sum(length(gx_exp(gx_add(a,1)))) FROM t"),
        "knn, one query": (100000, ["SELECT gx_randn({n},128,'E','{{\"dtype\":\"f32\"}}')", "CREATE TABLE q AS SELECT gx_randn(1,128) AS a"],
                           "SELECT sum(n.id) FROM q, gx_knn(q.a,'E',10) n"),
        "knn, 1000 queries": (50000, ["SELECT gx_randn({n},128,'E','{{\"dtype\":\"f32\"}}')", "SELECT gx_randn(1000,128,'Q')"],
                              "SELECT sum(id) FROM gx_knn('Q','E',10)"),
        "sparse product": (200000, ["SELECT gx_random({n},{n},'S','{{\"density\":0.00005}}')", "SELECT gx_randn({n},8,'X')"],
                           "SELECT length(gx_matmul('S','X'))"),
        "sparse solve": (90000, ["SELECT gx_matrix_gallery('poisson',{n},'S','{{\"sparse\":true}}')"],
                         "SELECT length(gx_solve('S', gx_ones({n},1)))"),
        "program": (2000, ["SELECT gx_randn({n}*20,100,'X')", "SELECT gx_randn({n}*20,1,'y')"],
                    "SELECT length(gx_eval('w = solve(X.T @ X + 0.1 * eye(100), X.T @ y); sum((X @ w - y) ** 2)'))"),
    },
    "gpu": {
        "product, stored": (8192, ["SELECT gx_config('backend','cuda')", "SELECT gx_random({n},{n},'A')"],
                            "SELECT gx_matmul('A','A','C','{{\"replace\":true}}')"),
        "product, dropped": (8192, ["SELECT gx_config('backend','cuda')", "SELECT gx_random({n},{n},'A')"],
                             "SELECT gx_norm(gx_matmul('A','A'))"),
        "cholesky": (8192, ["SELECT gx_config('backend','cuda')", "SELECT gx_matrix_gallery('minij',{n},'A')"],
                     "SELECT gx_cholesky('A','F','{{\"replace\":true}}')"),
        "lu": (8192, ["SELECT gx_config('backend','cuda')", "SELECT gx_randn({n},{n},'A')"],
               "SELECT gx_lu('A','F','{{\"replace\":true}}')"),
        "qr": (4096, ["SELECT gx_config('backend','cuda')", "SELECT gx_randn({n},{n},'A')"],
               "SELECT gx_qr('A','F','{{\"replace\":true}}')"),
        "product in 1 GiB": (8192, ["SELECT gx_config('backend','cuda')", "SELECT gx_config('device_memory_limit','1GiB')",
                                    "SELECT gx_random({n},{n},'A')"],
                             "SELECT gx_matmul('A','A','C','{{\"replace\":true}}')"),
        "eig, all": (4096, ["SELECT gx_config('backend','cuda')", "SELECT gx_matrix_gallery('lehmer',{n},'A')"],
                     "SELECT length(gx_eigvals('A'))"),
        "eig, ten largest": (8192, ["SELECT gx_config('backend','cuda')", "SELECT gx_randn({n},{n},'R')",
                                    "SELECT gx_add('R',gx_transpose('R'),'A')"],
                             "SELECT sum(value) FROM gx_eig('A','{{\"k\":10}}')"),
        "svd, ten largest": (8192, ["SELECT gx_config('backend','cuda')", "SELECT gx_randn({n},{n},'A')"],
                             "SELECT sum(sigma) FROM gx_svd('A','{{\"k\":10}}')"),
        "elementwise": (4096, ["SELECT gx_config('backend','cuda')", "SELECT gx_random({n},{n},'A')"],
                        "SELECT gx_add('A','A','C','{{\"replace\":true}}')"),
        "knn, 1000 queries": (500000, ["SELECT gx_config('backend','cuda')", "SELECT gx_randn({n},128,'E','{{\"dtype\":\"f32\"}}')", "SELECT gx_randn(1000,128,'Q')"],
                              "SELECT sum(id) FROM gx_knn('Q','E',10)"),
        "sparse product": (400000, ["SELECT gx_config('backend','cuda')", "SELECT gx_random({n},{n},'S','{{\"density\":0.00005}}')", "SELECT gx_randn({n},8,'X')"],
                           "SELECT length(gx_matmul('S','X'))"),
        "program": (10000, ["SELECT gx_config('backend','cuda')", "SELECT gx_randn({n}*20,100,'X')", "SELECT gx_randn({n}*20,1,'y')"],
                    "SELECT length(gx_eval('w = solve(X.T @ X + 0.1 * eye(100), X.T @ y); sum((X @ w - y) ** 2)'))"),
    },
}
SETS["large"] = {name: (8192, what[1], what[2]) for name, what in SETS["cpu"].items()
                 if name in ("product, stored", "cholesky", "lu", "qr", "scan")}


def child():
    """Runs statements that come as JSON lines: a list of them, the seconds they took back."""
    import sqlite3  # pylint: disable=import-outside-toplevel
    import time  # pylint: disable=import-outside-toplevel
    db = sqlite3.connect(sys.argv[3], isolation_level=None)
    db.execute("PRAGMA page_size=65536")
    db.enable_load_extension(True)
    db.execute("SELECT load_extension(?, 'sqlite3_gx_init')", (sys.argv[2],))
    for line in sys.stdin:
        start = time.perf_counter()
        try:
            for sql in json.loads(line):
                db.execute(sql).fetchall()
            print(json.dumps(time.perf_counter() - start), flush=True)
        except sqlite3.Error as error:
            print(json.dumps(str(error)), flush=True)


class Build:
    """One build of gx in a process, on a fresh database."""

    def __init__(self, library, folder, name):
        self.path = os.path.join(folder, name + ".db")
        self.process = subprocess.Popen([sys.executable, __file__, "--child", os.path.abspath(library), self.path],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, statements):
        self.process.stdin.write(json.dumps(statements) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return json.loads(line) if line else "the process died"

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        for suffix in ("", "-wal", "-shm", "-journal"):
            if os.path.exists(self.path + suffix):
                os.unlink(self.path + suffix)


def row(options, name, order, makes, call):
    n = max(4, int(order * options.scale)) if order > 16 else order
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        builds = [Build(options.old, folder, "old"), Build(options.new, folder, "new")]
        text = {"n": n, "dir": folder}
        for build in builds:
            made = build.run([sql.format(**text) for sql in makes])
            if isinstance(made, str):
                return {"name": name, "n": n, "error": made}
        times = []
        for number in range(options.rounds + 1):
            pair = [0.0, 0.0]
            for k in ((0, 1) if number % 2 else (1, 0)):
                pair[k] = builds[k].run([call.format(**text)])
                if isinstance(pair[k], str):
                    return {"name": name, "n": n, "error": ("old: ", "new: ")[k] + pair[k]}
            times.append(pair)
        for build in builds:
            build.close()
    times = times[1:]
    return {"name": name, "n": n, "old_s": statistics.median(t[0] for t in times),
            "new_s": statistics.median(t[1] for t in times),
            "ratio": statistics.median(t[1] / t[0] for t in times)}


def main():
    if sys.argv[1:2] == ["--child"]:
        return child()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("sets", nargs="*", default=["cpu"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the orders")
    parser.add_argument("--only", default="", help="names that contain this text")
    parser.add_argument("--label", default="paired")
    parser.add_argument("--out", default=str(ROOT / "bench/results"))
    options = parser.parse_args()
    rows = []
    for chosen in options.sets:
        for name, (order, makes, call) in SETS[chosen].items():
            if options.only in name:
                rows.append(row(options, name, order, makes, call) | {"set": chosen})
                r = rows[-1]
                mark = "" if "error" in r or 0.95 <= r["ratio"] <= 1.05 else "  <--"
                print(f"{chosen:6s} {name:36s} {r['n']:6d}  " +
                      (r["error"] if "error" in r else
                       f"old {r['old_s']:9.4f} s  new {r['new_s']:9.4f} s  new/old {r['ratio']:.3f}{mark}"), flush=True)
    day = datetime.date.today().isoformat()
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "?")
    path = pathlib.Path(options.out) / f"{day}-{options.label}-{'-'.join(options.sets)}.json"
    path.write_text(json.dumps({"date": day, "machine": {"cpu": cpu, "cpus": len(os.sched_getaffinity(0))},
                                "rounds": options.rounds, "rows": rows}, indent=1) + "\n")
    print(f"written: {path}")


if __name__ == "__main__":
    main()
