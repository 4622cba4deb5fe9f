#!/usr/bin/env python3
"""What the planner predicts, beside what happens: products and Cholesky factorisations from SQL.

    GX_SO=/folder/with/gx.so tests/gpu/predict.py                     64 ... 16384, on CPU and GPU
    GX_SO=... tests/gpu/predict.py --sizes 512,1024 --repeat 5        other sizes; so many later calls of each
    GX_SO=... tests/gpu/predict.py --sizes 32768 --cpu-most 8192 --dir /dev/shm --out predict.json

Needs a Python whose sqlite3 loads extensions, gx.so and gx_cuda.so in one folder, and nothing else.  One database of
64 KiB pages, written ahead (--journal delete for the other), in the page cache; every result is stored, under a new
name, and dropped.  For each size, operation and backend (cpu, cuda; auto up to --auto-most) a connection of its own is
opened: it loads the profile that gx_benchmark(1) has saved, opens the device by a product of 1 x 1, and has learnt
nothing.  Another one stays open all the time, as in an application, so the log stays, too.  Printed and written:

- first: seconds of its first call of that size, and measured / predicted of that call: the model alone; 'plan' is the
  same beside what gx_plan said before it, whose terms are printed below;
- later: the median of --repeat more calls, and the last one's measured / predicted: what the ledger makes of it.

Then

- first use: seconds until a new process has seen the device, its first product and its second one, with no saved
  profile and with one;
- the crossover: where CPU and GPU take the same time in later calls, as measured (bracketed by the sizes, and refined
  between them) and as predicted;
- products of 64 x 64 values: microseconds a call with 'auto' and with 'cpu', in turn.

All of it up to 16384 takes a minute or two on an H200; 32768 as much again, and 60 GB where the file is.

Limits that it reports against: predicted within 1.3 x of measured; crossover within 20 %; n = 64 within 5 %; first use
under 2 s.  The exit status is 0 whether they hold or not: it measures, the reader judges.
"""
import argparse
import json
import math
import os
import pathlib
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

FLOPS = {"product": lambda n: 2 * n**3, "cholesky": lambda n: n**3 / 3}
CALL = {"product": "gx_matmul('A{n}', 'B{n}', 'C')", "cholesky": "gx_cholesky('P{n}', 'C')"}
TERMS = ("start_s", "read_s", "up_s", "compute_s", "down_s", "write_s", "commit_s")
PLAN = {"product": "A{n} @ B{n}", "cholesky": "cholesky(P{n})"}


def connect(path, journal="wal", backend=None):
    db = sqlite3.connect(path, isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(str(pathlib.Path(os.environ["GX_SO"]) / "gx"))
    db.execute("PRAGMA page_size = 65536")
    db.execute(f"PRAGMA journal_mode = {journal}").fetchall()
    if backend:
        db.execute("SELECT gx_config('backend', ?)", (backend,)).fetchall()
    return db


def counters(db):
    return dict(db.execute("SELECT name, value FROM gx_stats WHERE name <> 'note'"))


def notes(db):
    return [text for (text,) in db.execute("SELECT meaning FROM gx_stats WHERE name = 'note'")]


def rows(db, sql):
    cursor = db.execute(sql)
    return [dict(zip([column[0] for column in cursor.description], row)) for row in cursor]


def drop(db):
    db.execute("DELETE FROM gx WHERE name = 'C'").fetchall()


def operands(db, n, operation):
    """What an operation of size n needs, stored when it is not there yet."""
    there = {name for (name,) in db.execute("SELECT name FROM gx")}
    makers = {
        "product": {f"A{n}": f"gx_randn({n}, {n}, 'A{n}', '{{\"seed\":1}}')",
                    f"B{n}": f"gx_randn({n}, {n}, 'B{n}', '{{\"seed\":2}}')"},
        "cholesky": {f"P{n}": f"gx_matrix_gallery('minij', {n}, 'P{n}')"},
    }
    for name, call in makers[operation].items():
        if name not in there:
            db.execute("SELECT " + call).fetchall()


def fresh(path, journal, backend):
    """A connection that has learnt nothing; a device that it may use is open, its libraries are loaded."""
    db = connect(path, journal, backend)
    if backend != "cpu":
        db.execute("SELECT gx_config('backend', 'cuda')").fetchall()
        for call in ("gx_matmul('[[2]]', '[[3]]')", "gx_cholesky('[[4]]')"):
            db.execute("SELECT " + call).fetchall()
        db.execute("SELECT gx_config('backend', ?)", (backend,)).fetchall()
    return db


def timed_call(db, sql):
    """Seconds of the call, and the counters of it alone."""
    db.execute("SELECT gx_stats_reset()").fetchall()
    began = time.perf_counter()
    db.execute(sql).fetchall()
    return time.perf_counter() - began, counters(db)


def ratio(measured, predicted):
    return measured / predicted if predicted > 0 else None


KEPT = ("bytes_read bytes_written read_ns write_ns compute_ns wait_ns device_calls device_hits uploaded pinned_hits "
        "pinned_misses pinned_denied device_fallbacks").split()


def measure(open_fresh, backend, operation, n, repeat):
    """The first call of a fresh connection, then some more: seconds, and what was predicted for each."""
    db = open_fresh(backend)
    call = "SELECT " + CALL[operation].format(n=n)
    plan = rows(db, f"SELECT * FROM gx_plan('{PLAN[operation].format(n=n)}') WHERE chosen")[0]
    first, last = timed_call(db, call)
    first_predicted, first_counters = last["predicted_ns"] * 1e-9, last
    drop(db)
    times, predicted = [], []
    for _ in range(1 if first > 15 else repeat):
        seconds, last = timed_call(db, call)
        times.append(seconds)
        predicted.append(last["predicted_ns"] * 1e-9)
        drop(db)
    out = {
        "operation": operation, "n": n, "backend": backend, "on_device": last["device_calls"] > 0,
        "first_seconds": first, "first_predicted": first_predicted, "first_ratio": ratio(first, first_predicted),
        "plan": plan, "plan_ratio": ratio(first, plan["seconds"]),
        "seconds": statistics.median(times), "predicted": predicted[-1], "ratio": ratio(times[-1], predicted[-1]),
        "gflops": FLOPS[operation](n) / statistics.median(times) / 1e9,
        "first_counters": {key: first_counters[key] for key in KEPT if first_counters.get(key)},
        "counters": {key: last[key] for key in KEPT if last.get(key)},
        "predictions": rows(db, "SELECT * FROM gx_predictions"), "notes": notes(db),
    }
    db.close()
    return out


def crossing(points):
    """n where seconds on the CPU and on the GPU are equal: between two sizes, straight in logarithms."""
    points = sorted(points)
    if points and points[0][1] >= points[0][2]:
        return points[0][0], "at most"
    for (n0, cpu0, gpu0), (n1, cpu1, gpu1) in zip(points, points[1:]):
        if cpu0 < gpu0 and cpu1 >= gpu1:
            d0, d1 = math.log(cpu0 / gpu0), math.log(cpu1 / gpu1)
            share = -d0 / (d1 - d0)
            return math.exp(math.log(n0) + share * (math.log(n1) - math.log(n0))), ""
    return (points[-1][0], "more than") if points else (None, "no points")


def predicted_both(db, operation, n):
    """Seconds that gx_plan predicts, for the CPU and for the GPU (None: no such row)."""
    found = {}
    for row in rows(db, f"SELECT * FROM gx_plan('{PLAN[operation].format(n=n)}')"):
        found["gpu" if row["device"].startswith("cuda") else "cpu"] = row
    return found


def show(backend, m):
    place = "gpu" if m["on_device"] else "cpu"
    first, plan, later = (f"{m[key]:.2f}" if m[key] else "-" for key in ("first_ratio", "plan_ratio", "ratio"))
    print(f"{m['operation']:9} {m['n']:6} {backend:5} on {place}  first {m['first_seconds']:10.5f} s, predicted "
          f"{m['first_predicted']:10.5f} s, measured/predicted {first:>5} (plan {plan})   later {m['seconds']:10.5f} s, "
          f"{later:>5}  {m['gflops']:9.1f} GFLOP/s")
    print("          plan ms:", " ".join(f"{key[:-2]} {1e3 * m['plan'][key]:.3f}" for key in TERMS if m["plan"][key] > 0),
          f"factor {m['plan']['factor']:.2f}; first call:",
          " ".join(f"{key[:-3]} {1e-6 * m['first_counters'].get(key, 0):.3f}" for key in ("read_ns", "write_ns", "wait_ns")),
          flush=True)
    for text in m["notes"]:
        print("          note:", text)


def find_crossover(db, open_fresh, operation, results, args):
    """Sizes between the last one where the CPU wins and the first where the GPU does."""
    def points(key):
        cpu = {m["n"]: m[key] for m in results["cpu"] if m["operation"] == operation}
        gpu = {m["n"]: m[key] for m in results["cuda"] if m["operation"] == operation and m["on_device"]}
        return [(n, cpu[n], gpu[n]) for n in cpu if n in gpu and cpu[n] > 0 and gpu[n] > 0]

    coarse = crossing(points("seconds"))
    if coarse[0] and not coarse[1]:
        sizes = sorted({int(round(coarse[0] * 1.19**k)) for k in (-2, -1, 0, 1, 2)})
        for n in sizes:
            operands(db, n, operation)
            for backend in ("cpu", "cuda"):
                results[backend].append(measure(open_fresh, backend, operation, n, max(5, args.repeat)))
                show(backend, results[backend][-1])
    measured, predicted = crossing(points("seconds")), crossing(points("predicted"))
    out = {"operation": operation, "measured": measured, "predicted": predicted}
    if measured[0] and predicted[0] and not measured[1] and not predicted[1]:
        out["predicted_over_measured"] = predicted[0] / measured[0]
    print(f"crossover of {operation}: measured {measured[1]} {measured[0] and round(measured[0])}, "
          f"predicted {predicted[1]} {predicted[0] and round(predicted[0])}")
    return out


def small_products(args):
    """Microseconds of a product of 64 x 64 values, 'auto' and 'cpu' in turn."""
    dbs = {}
    for backend in ("auto", "cpu"):
        dbs[backend] = connect(":memory:", "memory", backend)
        dbs[backend].execute("CREATE TABLE t(a BLOB, b BLOB)")
        dbs[backend].execute("INSERT INTO t WITH RECURSIVE c(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM c WHERE i < ?) "
                             "SELECT gx_randn(64, 64, '{\"seed\":1}'), gx_randn(64, 64, '{\"seed\":2}') FROM c",
                             (args.small,))
    times = {"auto": [], "cpu": []}
    for _ in range(12):
        for backend, db in dbs.items():
            began = time.perf_counter()
            db.execute("SELECT sum(length(gx_matmul(a, b))) FROM t").fetchall()
            times[backend].append((time.perf_counter() - began) / args.small * 1e6)
    out = {backend: statistics.median(of[2:]) for backend, of in times.items()}
    out["ratio"] = out["auto"] / out["cpu"]
    print(f"64 x 64 values: auto {out['auto']:.2f} us, cpu {out['cpu']:.2f} us, ratio {out['ratio']:.3f}")
    return out


FIRST = """
import json, os, sqlite3, time
db = sqlite3.connect(":memory:", isolation_level=None)
db.enable_load_extension(True); db.load_extension(os.path.join(os.environ["GX_SO"], "gx"))
def timed(sql):
    began = time.perf_counter(); db.execute(sql).fetchall(); return time.perf_counter() - began
out = {"devices": timed("SELECT * FROM gx_devices"), "backend": timed("SELECT gx_config('backend', 'cuda')")}
db.execute("CREATE TEMP TABLE v AS SELECT gx_randn(64, 64) AS a")
for name in ("first", "second", "third"):
    out[name] = timed("SELECT gx_matmul(a, a) FROM v")
print(json.dumps(out))
"""


def first_use(cache):
    """A process that opens the device: without a saved profile, then with one."""
    out = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=False,
                              env=os.environ | {"XDG_CACHE_HOME": cache})
        out.append(json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr[-400:]})
        print("first use", "with a profile" if len(out) == 2 else "without one", out[-1])
    return out


def machine():
    about = {"cpus": len(os.sched_getaffinity(0)), "python": platform.python_version(),
             "sqlite": sqlite3.sqlite_version, "node": platform.platform()}
    for key, path in (("cpu_max", "/sys/fs/cgroup/cpu.max"), ("cpuinfo", "/proc/cpuinfo")):
        try:
            text = pathlib.Path(path).read_text(encoding="utf-8")
        except OSError:
            continue
        names = [line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name")]
        about[key] = names[0] if names else text.strip()[:80]
    return about


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="64,256,512,1024,2048,4096,8192,16384")
    parser.add_argument("--operations", default="product,cholesky")
    parser.add_argument("--repeat", type=int, default=2, help="later calls of each size")
    parser.add_argument("--cpu-most", type=int, default=8192,
                        help="larger products, and factorisations from four times as large, are not run on the CPU")
    parser.add_argument("--auto-most", type=int, default=2048, help="larger ones are not run with auto")
    parser.add_argument("--small", type=int, default=500, help="64 x 64 products in a row")
    parser.add_argument("--journal", default="wal", choices=["wal", "delete"])
    parser.add_argument("--dir", default=None)
    parser.add_argument("--out", default=os.path.join(os.environ.get("OUT", "."), "predict.json"))
    args = parser.parse_args()
    sizes = [int(n) for n in args.sizes.split(",")]
    report = {"machine": machine(), "arguments": vars(args)}
    print(report["machine"])
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
        report["first_use"] = first_use(os.path.join(folder, "cache"))
        path = os.path.join(folder, "predict.db")
        keeper = connect(path, args.journal, "cuda")
        keeper.execute("CREATE TABLE IF NOT EXISTS begun(x)")  # a log and a database beside which to measure
        began = time.perf_counter()
        report["benchmark"] = json.loads(keeper.execute("SELECT gx_benchmark(1)").fetchone()[0])
        report["benchmark_s"] = time.perf_counter() - began
        print(f"gx_benchmark(1) {report['benchmark_s']:.2f} s", json.dumps(report["benchmark"]))
        most = {"cpu": {"product": args.cpu_most, "cholesky": 4 * args.cpu_most - 1},
                "cuda": dict.fromkeys(FLOPS, math.inf), "auto": dict.fromkeys(FLOPS, args.auto_most)}
        results = {backend: [] for backend in most}

        def open_fresh(backend):
            return fresh(path, args.journal, backend)

        for n in sizes:  # both operations, so that the database is as large for both
            for operation in args.operations.split(","):
                operands(keeper, n, operation)
                for backend, of in results.items():
                    if n <= most[backend][operation]:
                        of.append(measure(open_fresh, backend, operation, n, args.repeat))
                        show(backend, of[-1])
                report.setdefault("plans", []).append(
                    {"operation": operation, "n": n, "rows": predicted_both(keeper, operation, n)})
        report["crossover"] = [find_crossover(keeper, open_fresh, operation, results, args)
                               for operation in args.operations.split(",")]
        report["results"] = results
        report["devices"] = rows(keeper, "SELECT * FROM gx_devices")
        keeper.close()
        report["small"] = small_products(args)
        report["all_s"] = time.perf_counter() - began
    judged = [m for backend in ("cpu", "cuda") for m in results[backend] if m["n"] >= 512 and m["first_ratio"]]
    print(f"{report['all_s']:.0f} s after gx_benchmark(1) began")
    for key, of in (("plan_ratio", "first calls beside gx_plan"), ("first_ratio", "first calls: the model alone"),
                    ("ratio", "later calls: what is learnt")):
        within = [m for m in judged if 1 / 1.3 <= m[key] <= 1.3]
        print(f"{of}: {len(within)} of {len(judged)} within 1.3 x",
              [(m["operation"], m["n"], "gpu" if m["on_device"] else "cpu", round(m[key], 2))
               for m in judged if m not in within])
    pathlib.Path(args.out).write_text(json.dumps(report, indent=1, default=str), encoding="utf-8")
    print("written to", args.out)


if __name__ == "__main__":
    main()
