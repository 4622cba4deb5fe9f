#!/usr/bin/env python3
"""Host or GPU: what `auto` chooses, beside both by order, and the size from which on a GPU is faster, measured and foretold.

    python bench/breakeven.py [--seconds 60] [--only WORDS] [--dir DIR]      # with a GPU
    python bench/breakeven.py --opening [--dir DIR]                          # what the first calls of a process take

Three connections to one database, `backend` = cpu, cuda and auto (its device open), take turns; medians, and for auto how often
its calls went to the device.  Operands are `kept` in device memory from call to call, or another connection has written to the
file, so that they come from the page `cache` each time.  In brackets what the connection expected of its latest call, with what
it has learned from earlier ones.  A row is marked when auto took more than 1.2 times the better of both.  Where the two places
cross, measured and foretold, is interpolated between the two sizes around it.
"""
import argparse
import math
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

from knn import connect

WORSE, ROUNDS_MOST = 1.2, 31


def seconds_of(db, sql):
    start = time.perf_counter()
    db.execute(sql).fetchall()
    return time.perf_counter() - start


def crossing(sizes, cpu, gpu):
    """Where gpu gets below cpu for good; None: not within these sizes."""
    over = [math.log(g / c) for c, g in zip(cpu, gpu)]
    last = max((k for k, x in enumerate(over) if x >= 0), default=None)
    if last is None or last + 1 == len(sizes):
        return None
    along = over[last] / (over[last] - over[last + 1])
    return math.exp(math.log(sizes[last]) + along * math.log(sizes[last + 1] / sizes[last]))


# Statements that make the operands of order {n}, each for whom it is missing.
MADE = {
    "A": "SELECT gx_randn({n}, {n}, 'A{n}')",
    "B": "SELECT gx_randn({n}, {n}, 'B{n}', '{{\"seed\":2}}')",
    "F": "SELECT gx_randn({n}, {n}, 'F{n}', '{{\"dtype\":\"f32\"}}')",
    "P": "SELECT gx_matrix_gallery('lehmer', {n}, 'P{n}')",
    "E": "SELECT gx_randn({n}, 256, 'E{n}', '{{\"dtype\":\"f32\"}}')",
    "Q": "SELECT gx_randn(100, 256, 'Q{n}', '{{\"dtype\":\"f32\"}}')",
    "S": "SELECT gx_random({n}, {n}, 'S{n}', '{{\"density\":{density}}}')",
    "D": "SELECT gx_randn({n}, 32, 'D{n}')",
}
ORDERS, MORE = (256, 512, 1024, 2048), (64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096)
# name: (operands, the statement, sizes)
CASES = {
    "product f64": ("AB", "SELECT length(gx_matmul('A{n}', 'B{n}'))", MORE),
    "product f64, stored": ("AB", "SELECT gx_matmul('A{n}', 'B{n}', 'C', '{{\"replace\":true}}')", ORDERS),
    "product f32": ("F", "SELECT length(gx_matmul('F{n}', 'F{n}'))", ORDERS),
    "gram f64": ("A", "SELECT length(gx_matmul('A{n}', 'A{n}', NULL, '{{\"transa\":true}}'))", ORDERS),
    "cholesky f64": ("P", "SELECT length(gx_cholesky('P{n}'))", ORDERS),
    "lu f64, stored": ("A", "SELECT gx_lu('A{n}', 'C', '{{\"replace\":true}}')", ORDERS),
    "solve f64": ("AD", "SELECT length(gx_solve('A{n}', 'D{n}'))", ORDERS),
    "eigenvalues f64": ("P", "SELECT sum(value) FROM gx_eig('P{n}')", ORDERS[:3]),
    "eigenvectors f64": ("P", "SELECT sum(length(vector)) FROM gx_eig('P{n}')", ORDERS[:3]),
    "elementwise": ("AB", "SELECT length(gx_eval('sqrt(A{n} * A{n} + B{n} * B{n})'))", ORDERS),
    "sum of squares": ("A", "SELECT gx_eval('sum(A{n} * A{n})')", ORDERS),
    "sum, A + B": ("AB", "SELECT length(gx_add('A{n}', 'B{n}'))", ORDERS),
    "program": ("AB", "SELECT length(gx_eval('X = A{n} @ B{n} + A{n}; X * 2 + X.T'))", ORDERS),
    "100 queries against rows": ("QE", "SELECT sum(score) FROM gx_knn('Q{n}', 'E{n}', 10)",
                                 (100, 300, 1000, 3000, 10000, 30000)),
    "sparse, 20 a row, times 32": ("SD", "SELECT gx_matmul('S{n}', 'D{n}', 'C', '{{\"replace\":true}}')",
                                   (300, 1000, 3000, 10000, 30000, 100000)),
}


class Turns:
    """Connections to one file that take turns, and one that ends what they have kept."""

    def __init__(self, path):
        self.writer = sqlite3.connect(path, isolation_level=None)
        self.writer.executescript("PRAGMA page_size=65536; PRAGMA journal_mode=WAL; CREATE TABLE t(x); INSERT INTO t VALUES (0)")
        self.db = {backend: connect(path, memory_limit=8 << 30) for backend in ("cpu", "cuda", "auto")}
        for name, db in self.db.items():
            db.isolation_level = None
            db.execute("SELECT gx_config('backend', 'cuda')").fetchall()
            db.execute("SELECT gx_norm(gx_matmul(gx_ones(512, 512), gx_ones(512, 512)))").fetchall()  # opens it
            db.execute("SELECT gx_config('backend', ?)", (name,)).fetchall()

    def calls(self):
        return self.db["auto"].execute("SELECT value FROM gx_stats WHERE name = 'device_calls'").fetchone()[0]

    def take(self, sql, is_kept, budget):
        """{backend: median seconds}, and the share of auto's calls on the device; the first two rounds are not counted."""
        taken = {name: [] for name in self.db}
        names, on_device, rounds = list(self.db), 0, 0
        start = time.perf_counter()
        while rounds < 5 or (rounds < ROUNDS_MOST and time.perf_counter() - start < budget):
            for name in names[rounds % 3:] + names[:rounds % 3]:
                db = self.db[name]
                if not is_kept:
                    self.writer.execute("UPDATE t SET x = x + 1")
                before = self.calls() if name == "auto" else 0
                taken[name].append(seconds_of(db, sql))
                on_device += name == "auto" and rounds > 1 and self.calls() > before
            rounds += 1
        return {name: statistics.median(values[2:]) for name, values in taken.items()}, on_device / (rounds - 2)

    def foretold(self):
        """Seconds on the host and on the device, as the two who know them expected of their latest call."""
        sql = "SELECT value FROM gx_stats WHERE name = 'predicted_ns'"
        return [1e-9 * self.db[name].execute(sql).fetchone()[0] for name in ("cpu", "cuda")]

    def close(self):
        for db in (*self.db.values(), self.writer):
            db.close()


def one_case(turns, name, made, is_kept, budget):
    operands, sql, sizes = CASES[name]
    seen, foretold = {"cpu": [], "cuda": []}, ([], [])
    title = f"{name}, {'kept' if is_kept else 'page cache'}"
    for n in sizes:
        for letter in operands:
            if (letter, n) not in made:
                turns.db["cpu"].execute(MADE[letter].format(n=n, density=min(1, 20 / n))).fetchall()
                made.add((letter, n))
        try:
            seconds, share = turns.take(sql.format(n=n), is_kept, budget)
            plan = turns.foretold()
        except sqlite3.Error as error:
            print(f"{title} {n}: {error}", flush=True)
            return
        for place, backend in enumerate(seen):
            seen[backend].append(seconds[backend])
            foretold[place].append(plan[place])
        ratio = seconds["auto"] / min(seconds["cpu"], seconds["cuda"])
        print(f"{title:38s} {n:7d}: host {1e3 * seconds['cpu']:9.3f} ms ({1e3 * plan[0]:9.3f})  device {1e3 * seconds['cuda']:9.3f} ms "
              f"({1e3 * plan[1]:9.3f})  auto {1e3 * seconds['auto']:9.3f} ms = {ratio:5.2f} x better, {share:4.0%} there"
              f"{'   <==' if ratio > WORSE else ''}", flush=True)
    if any(x == 0 for place in foretold for x in place):  # programs of several steps are not foretold as a whole
        return
    measured, expected = crossing(sizes, seen["cpu"], seen["cuda"]), crossing(sizes, *foretold)
    words = [f"{x:.0f}" if x else "not within these" for x in (measured, expected)]
    ratio = f"{expected / measured:.2f}   (0.8 .. 1.2)" if measured and expected else "-"
    print(f"    {title}: break-even measured {words[0]}, foretold {words[1]}, ratio {ratio}", flush=True)


def all_cases(args):
    names = [name for name in CASES if args.only is None or any(word in name for word in args.only.split(","))]
    states = [state == "kept" for state in args.states.split(",")]
    budget = args.seconds / len(states) / sum(len(CASES[name][2]) for name in names)
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        turns, made = Turns(os.path.join(folder, "even.db")), set()
        for name in names:
            for is_kept in states:
                one_case(turns, name, made, is_kept, budget)
        turns.close()


def first_calls(path, n, most):
    """A process' first products of order n: what each took, until the device has been used five times."""
    start = time.perf_counter()
    db = connect(path)
    loaded = time.perf_counter() - start
    taken, used = [], []
    for _ in range(most):
        taken.append(seconds_of(db, f"SELECT length(gx_matmul('A{n}', 'B{n}'))"))
        used.append(db.execute("SELECT value FROM gx_stats WHERE name = 'device_calls'").fetchone()[0])
        if used[-1] >= 5:
            break
    first = next((k for k, count in enumerate(used) if count > 0), None)
    text = "never on the device" if first is None else (
        f"call {first + 1} after {1e3 * sum(taken[:first]):.0f} ms opened it: {1e3 * taken[first]:.1f} ms, then "
        + " ".join(f"{1e3 * s:.1f}" for s in taken[first + 1:]))
    print(f"products of order {n}: load {1e3 * loaded:.1f} ms, first {1e3 * taken[0]:.1f}, median before "
          f"{1e3 * statistics.median(taken[:first] or taken):.1f}; {text}", flush=True)
    print("    ", db.execute("SELECT group_concat(function || ' ' || device || ' ' || size || ' ' || calls || ' ' || predicted || ' '"
                             " || measured || ' ' || factor, '; ') FROM gx_predictions").fetchone()[0], flush=True)
    db.close()


def opening(args):
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        path = os.path.join(folder, "first.db")
        db = connect(path)
        for n in (512, 1024, 2048, 4096):
            for letter in "AB":
                db.execute(MADE[letter].format(n=n)).fetchall()
        db.commit()
        db.close()
        for what in ("nothing known of the machine", "known"):
            for n in (2048, 1024, 512, 4096):
                home = os.path.join(folder, f"cache{n}" if what != "known" else "cache2048")
                os.makedirs(home, exist_ok=True)
                print(f"{what}: ", end="", flush=True)
                subprocess.run([sys.executable, __file__, "--child", path, str(n)], env=os.environ | {"XDG_CACHE_HOME": home}, check=False)
        with open(os.path.join(folder, "cache2048", "gx", "hardware.json"), encoding="utf-8") as file:
            print(" ".join(file.read().split()), flush=True)


def main():
    if len(sys.argv) > 3 and sys.argv[1] == "--child":
        first_calls(sys.argv[2], int(sys.argv[3]), 400)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--dir", default=None)
    parser.add_argument("--only", default=None, help="parts of the cases' names, with commas")
    parser.add_argument("--states", default="cache,kept")
    parser.add_argument("--opening", action="store_true")
    args = parser.parse_args()
    if args.opening:
        opening(args)
    else:
        all_cases(args)


if __name__ == "__main__":
    main()
