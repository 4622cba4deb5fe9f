#!/usr/bin/env python3
"""From which size on a GPU is faster: as measured, and as the planner foretells it.

    python bench/breakeven.py [--rounds 7] [--dir DIR]          # with a GPU, less than a minute

Operands are kept on the device.  Each size is timed on both places, least of the rounds; gx_plan tells what it expects of both,
with what it has learned from these calls.  Both curves cross at a size that is interpolated between the two sizes around it.
"""
import argparse
import math
import os
import tempfile
import time

from knn import connect


def once(db, sql):
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


def product(n):
    make = f"SELECT gx_randn({n}, {n}, 'A{n}'), gx_randn({n}, {n}, 'B{n}')"
    return make, f"SELECT gx_norm(gx_matmul('A{n}', 'B{n}', 'C', '{{\"replace\":true}}'))", f"A{n} @ B{n}"


def neighbours(n):
    make = f"SELECT gx_randn({n}, 256, 'E{n}', '{{\"dtype\":\"f32\"}}'), gx_randn(100, 256, 'Q{n}', '{{\"dtype\":\"f32\"}}')"
    return make, f"SELECT sum(score) FROM gx_knn('Q{n}', 'E{n}', 10)", f"knn(Q{n}, E{n}, 10)"


def sparse(n):
    make = f"SELECT gx_random({n}, {n}, 'S{n}', '{{\"density\":{min(1, 20 / n)}}}'), gx_randn({n}, 32, 'D{n}')"
    return make, f"SELECT gx_matmul('S{n}', 'D{n}', 'C', '{{\"replace\":true}}')", f"S{n} @ D{n}"


CASES = {"product of order": (product, [64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536]),
         "100 queries against rows": (neighbours, [100, 300, 1000, 3000, 10000, 30000, 100000]),
         "sparse, 20 a row, times 32, of order": (sparse, [300, 1000, 3000, 10000, 30000, 100000, 300000])}


def planned(db, text):
    rows = db.execute("SELECT device LIKE 'cuda%', seconds FROM gx_plan(?)", (text,)).fetchall()
    return dict(rows)


def one_case(db, name, rounds):
    statements, sizes = CASES[name]
    seconds, foretold = {0: [], 1: []}, {0: [], 1: []}
    for n in sizes:
        make, run, text = statements(n)
        db.execute(make).fetchall()
        for place, backend in enumerate(("cpu", "cuda")):
            db.execute("SELECT gx_config('backend', ?)", (backend,)).fetchall()
            once(db, run)
            seconds[place].append(min(once(db, run) for _ in range(rounds)))
        db.execute("SELECT gx_config('backend', 'auto')").fetchall()
        once(db, run)
        plan = planned(db, text)
        for place in (0, 1):
            foretold[place].append(plan.get(place, math.inf))
        print(f"    {name} {n:7d}: CPU {1e3 * seconds[0][-1]:9.3f} ms, foretold {1e3 * foretold[0][-1]:9.3f};"
              f"  GPU {1e3 * seconds[1][-1]:9.3f} ms, foretold {1e3 * foretold[1][-1]:9.3f}", flush=True)
    measured, expected = crossing(sizes, seconds[0], seconds[1]), crossing(sizes, foretold[0], foretold[1])
    ratio = f"{expected / measured:.2f}" if measured and expected else "-"
    text = [f"{x:.0f}" if x else "not within these" for x in (measured, expected)]
    print(f"{name}: break-even measured {text[0]}, foretold {text[1]}, ratio {ratio}   (0.8 .. 1.2)", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dir", default=None)
    parser.add_argument("--only", default=None, help="words of the cases' names")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        db = connect(os.path.join(folder, "even.db"))
        db.execute("SELECT gx_config('memory_limit', ?)", (8 << 30,)).fetchall()
        for name in CASES:
            if args.only is None or args.only in name:
                one_case(db, name, args.rounds)
        db.close()


if __name__ == "__main__":
    main()
