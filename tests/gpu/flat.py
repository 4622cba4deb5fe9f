#!/usr/bin/env python3
"""A thousand products of mixed sizes on a GPU: device and page-locked memory stay flat.

    flat.py [--calls 1000] [--largest 3000] [--seed 1]

Plan: five pairs of stored matrices of sizes drawn at random, and one more pair that is stored anew every tenth call, so that
blocks in device memory go out of date; each call multiplies one of them on the device ('backend' = cuda) and replaces the
result.  After every call: what gx's pools hold (gx_stats); after call 10, 100, 200, ... also what is taken on the device, as its
driver says (gx_devices), and the resident memory of the process.  Calls 10, 100 and 1000 are printed, all with --verbose.

Exit status 1: the most that the pools hold in the second half of the calls is more than a quarter above the most that they hold in
the first half; or the driver shows more after the last call than the pools account for; or a product was not computed on the
device, or is wrong.  77: no device here.

GX_SO names gx.so (gx_cuda.so lies beside it); nothing but Python's own library is needed, with a sqlite3 that loads
extensions.
"""
import argparse
import os
import random
import sqlite3
import sys
import tempfile

# Other programs may take device memory between two looks at the driver's figure; more than this is ours.
SLACK = 64 << 20
DEVICE_CALLS = "SELECT value FROM gx_stats WHERE name = 'device_calls'"


def value(db, sql, *params):
    return db.execute(sql, params).fetchone()[0]


def connect(path):
    db = sqlite3.connect(path, isolation_level=None)
    if not hasattr(db, "enable_load_extension"):
        sys.exit("this Python's sqlite3 cannot load extensions: use another one (/usr/bin/python3)")
    db.enable_load_extension(True)
    db.load_extension(os.environ.get("GX_SO", "./gx.so"))
    return db


def resident():
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def pools(db):
    return dict(db.execute("SELECT name, value FROM gx_stats WHERE name IN ('device_used', 'pinned_used')").fetchall())


def look(db):
    """Pools, driver, process; bytes."""
    taken = value(db, "SELECT memory - memory_free FROM gx_devices WHERE backend = 'cuda' AND status = 'used'")
    return pools(db) | {"device_taken": taken, "resident": resident()}


def store(db, rng, pair, largest):
    """Stored A<pair>, B<pair> whose shapes fit."""
    m, k, n = (rng.randint(max(1, largest // 15), largest) for _ in range(3))
    for name, rows, cols in ((f"A{pair}", m, k), (f"B{pair}", k, n)):
        db.execute("SELECT gx_randn(?, ?, ?, ?)",
                   (rows, cols, name, f'{{"seed":{rng.randrange(1 << 30)},"replace":true}}')).fetchall()


def is_right(db, pair):
    """C x = A (B x) for a vector x; db is another connection, that computes on the CPU."""
    x = f"gx_randn((SELECT cols FROM gx WHERE name = 'B{pair}'), 1, '{{\"seed\":5}}')"
    difference = value(db, f"SELECT gx_norm(gx_sub(gx_matmul('C', {x}), gx_matmul('A{pair}', gx_matmul('B{pair}', {x}))))")
    size = value(db, f"SELECT gx_norm('A{pair}') * gx_norm('B{pair}') * gx_norm({x})")
    return difference <= 1e-13 * size


def run(db, checker, args):
    rng = random.Random(args.seed)
    for pair in range(6):
        store(db, rng, pair, args.largest)
    held, seen, faults = [], {}, []
    for call in range(1, args.calls + 1):
        pair = rng.randrange(6)
        if call % 10 == 0:
            store(db, rng, 5, args.largest)
        before = value(db, DEVICE_CALLS)
        value(db, f"SELECT gx_matmul('A{pair}', 'B{pair}', 'C', '{{\"replace\":true}}')")
        if value(db, DEVICE_CALLS) == before:
            faults.append(f"call {call} was computed on the CPU")
        held.append(pools(db))
        if call in (10, args.calls) or call % 100 == 0:
            seen[call] = look(db)
            if call in (10, 100, args.calls) or args.verbose:
                print(f"call {call}: " + ", ".join(f"{name} {count / 1e6:.1f} MB" for name, count in seen[call].items()))
        if call in (1, 10, 100, args.calls) and not is_right(checker, pair):
            faults.append(f"call {call}: C is not A{pair} B{pair}")
    return held, seen, faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=1000, help="20 or more")
    parser.add_argument("--largest", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "flat.db")
        db = connect(path)
        reason = db.execute("SELECT reason FROM gx_devices WHERE backend = 'cuda' AND status = 'off'").fetchone()
        if reason is not None:
            print(f"SKIPPED: {reason[0]}")
            return 77
        value(db, "SELECT gx_config('backend', 'cuda')")
        db.execute("PRAGMA synchronous=OFF").fetchall()
        checker = connect(path)
        value(checker, "SELECT gx_config('backend', 'cpu')")
        held, seen, faults = run(db, checker, args)
        faults += [f"note: {row[0]}" for row in db.execute("SELECT meaning FROM gx_stats WHERE name = 'note'")]
        db.close()
        checker.close()
    half = args.calls // 2
    for name in ("device_used", "pinned_used"):
        before, after = (max(pool[name] for pool in part) for part in (held[:half], held[half:]))
        print(f"{name}: at most {before / 1e6:.1f} MB in the first {half} calls, {after / 1e6:.1f} MB after them")
        if after > before * 1.25:
            faults.append(f"{name} has grown")
    first, last = seen[10], seen[args.calls]
    if last["device_taken"] - first["device_taken"] > last["device_used"] - first["device_used"] + SLACK:
        faults.append("device memory has gone that the pools do not hold")
    print("\n".join(faults[:20] or ["flat"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
