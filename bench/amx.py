#!/usr/bin/env python3
"""f32 products with and without the processor's matrix unit (AMX), whole statements in turn.

    bench/amx.py [--threads 16 4 1] [--orders 2048 4096] [--rounds 7] [--dir /dev/shm]

Each way runs in a process of its own (GX_CPU_AMX=off in one of them), on a database of its own.  A round is one call of each,
the first of them changing from round to round; a row is the median time of either and the median of the rounds' ratios.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WAYS = {"off": {"GX_CPU_AMX": "off"}, "on": {}}
CHILD = """
import json, os, sqlite3, sys, time
db = sqlite3.connect(sys.argv[1])
db.enable_load_extension(True)
db.load_extension(os.environ["GX_SO"])
for line in sys.stdin:
    start = time.perf_counter()
    found = [db.execute(sql).fetchall() for sql in json.loads(line)]
    print(json.dumps([time.perf_counter() - start, found[-1]]), flush=True)
"""
RANDOM = "SELECT gx_randn({n}, {n}, '{name}', '{{\"dtype\":\"f32\",\"replace\":true}}')"
REPLACE = "'{\"replace\":true}'"
GRAM = "SELECT gx_matmul('A', 'A', 'S', '{\"replace\":true,\"transa\":true}')"
# name: (what is made before, the statement, flops by the order)
ROWS = {
    "product, stored": ([], f"SELECT gx_matmul('A', 'B', 'C', {REPLACE})", lambda n: 2 * n**3),
    "A'A, stored": ([], GRAM, lambda n: n**3),
    "product of values": (["CREATE TABLE v AS SELECT gx_randn({n}, {n}, '{{\"dtype\":\"f32\"}}') AS a"],
                          "SELECT length(gx_matmul(a, a)) FROM v", lambda n: 2 * n**3),
    "Cholesky": ([GRAM.replace("{", "{{").replace("}", "}}"), "SELECT gx_add('S', gx_mul({n}, gx_eye({n})), 'S', '{{\"replace\":true}}')"],
                 f"SELECT gx_cholesky('S', 'F', {REPLACE})", lambda n: n**3 / 3),
}


class Way:
    def __init__(self, name, folder, threads):
        env = {**os.environ, "GX_BACKEND": "cpu", "GX_THREADS": str(threads), **WAYS[name]}
        env.setdefault("GX_SO", str(ROOT / "gx.so"))
        self.child = subprocess.Popen([sys.executable, "-c", CHILD, f"{folder}/{name}.db"], env=env, text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, *statements):
        self.child.stdin.write(json.dumps(statements) + "\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())

    def end(self):
        self.child.stdin.close()
        self.child.wait()


def measure(ways, statement, rounds):
    """Seconds of each in each round but the first."""
    seconds = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name in sorted(ways, reverse=turn % 2 == 1):
            found = ways[name].run(statement)[0]
            if turn > 0:
                seconds[name].append(found)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[len(os.sched_getaffinity(0))])
    parser.add_argument("--orders", type=int, nargs="+", default=[2048, 4096])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dir")
    args = parser.parse_args()
    for threads in args.threads:
        for n in args.orders:
            with tempfile.TemporaryDirectory(dir=args.dir) as folder:
                ways = {name: Way(name, folder, threads) for name in WAYS}
                for way in ways.values():
                    way.run(*(RANDOM.format(n=n, name=name) for name in "AB"))
                for title, (before, statement, flops) in ROWS.items():
                    for way in ways.values():
                        way.run(*(sql.format(n=n) for sql in before), "SELECT 1")
                    seconds = measure(ways, statement, args.rounds)
                    off, on = (statistics.median(seconds[name]) for name in ("off", "on"))
                    ratio = statistics.median(b / a for a, b in zip(seconds["off"], seconds["on"]))
                    print(f"{threads:3d} threads  {title:18s} {n:5d}  without {1e3 * off:9.2f} ms {flops(n) / off * 1e-9:6.0f} Gflop/s"
                          f"  with {1e3 * on:9.2f} ms {flops(n) / on * 1e-9:6.0f}  ratio {ratio:.3f}", flush=True)
                state = ways["on"].run("SELECT gx_matmul('A', 'B', 'C', '{\"replace\":true}')",
                                       "SELECT json_extract(gx_debug(), '$.machine.amx')")[1][0][0]
                print(f"{threads:3d} threads  order {n}: AMX {state}", flush=True)
                for way in ways.values():
                    way.end()


if __name__ == "__main__":
    main()
