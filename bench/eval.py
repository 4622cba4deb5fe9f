#!/usr/bin/env python3
"""gx_eval beside NumPy, numexpr, CuPy and JAX: loops of products, elementwise chains, small matrices.

    bench/eval.py [--case NAME ...] [--backend auto|cpu|cuda] [--repeats N] [--side N]

Each case is one program and the same thing in each peer that is installed; the median of the repeats after one call that
is not counted (the device is opened, kernels are compiled).  gx reads its operands from a database file in the page
cache, or has kept them on the device from the call before; peers have theirs in RAM or on the device, as the column says.
Columns: case, who, seconds, by gx's seconds, bytes up, bytes down, and what was counted.
"""
import argparse
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "sql"))
from conftest import from_numpy, gx_connect, to_numpy  # noqa: E402


def peer(name):
    try:
        return __import__(name)
    except Exception:  # not there, or no device
        return None


numexpr, cupy, jax = peer("numexpr"), peer("cupy"), peer("jax")
if cupy is not None:
    try:
        cupy.zeros(1)
    except Exception:
        cupy = None
if jax is not None:
    jax.config.update("jax_enable_x64", True)


def erf_of(x):
    import scipy.special

    return scipy.special.erf(x)


def median(repeats, run, sync=lambda: None):
    run()
    sync()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        sync()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


# name: matrices, program, the same of an array module, of numexpr, times the repeats
SIX = "sqrt(A * A + B * B) * 0.5 + A / (B * B + 1)"
CHAIN = "where(A > 0, exp(-A) * tanh(B), erf(A * 0.5) + B)"


def loop(np_, A, X, rounds=100):
    for _ in range(rounds):
        X = A @ X
    return X


def mixed(np_, A, X, rounds=600):
    for _ in range(rounds):
        X = np_.tanh(A @ X) * 0.5 + X * 0.25
    return X


def small(np_, A, X, rounds=1000):
    for _ in range(rounds):
        for _ in range(10):
            X = A @ X
            X = np_.tanh(X)
    return X


def six(np_, A, B):
    return np_.sqrt(A * A + B * B) * 0.5 + A / (B * B + 1)


def chain(np_, A, B):
    erf = erf_of
    if np_ is cupy:
        import cupyx.scipy.special

        erf = cupyx.scipy.special.erf
    elif jax is not None and np_ is jax.numpy:
        erf = jax.scipy.special.erf
    return np_.where(A > 0, np_.exp(-A) * np_.tanh(B), erf(A * 0.5) + B)


def ten(fn, np_, A, B):
    for _ in range(10):
        A = fn(np_, A, B)
    return A.sum()


def ten_of_numexpr(expression, arrays):
    names = dict(arrays)
    for _ in range(10):
        names["A"] = numexpr.evaluate(expression, names)


TWENTY = "X = A @ X; X = tanh(X); " * 10
SMALL = "repeat 1000 { " + TWENTY + "} X"
APART = "repeat 100 { repeat 10 { " + TWENTY + "} } X"  # too short to be recorded
FIFTY = "x = ?1; " + "x = x * 0.5 + ?1; y = x @ ?1; x = tanh(y) + x.T; " * 10 + "x"
CASES = {
    "loop": ({"A": 2048, "X": 2048}, "repeat 100 { X = A @ X } X", loop, None),
    "mixed": ({"A": 1024, "X": 1024}, "repeat 600 { X = tanh(A @ X) * 0.5 + X * 0.25 } X", mixed, None),
    "six": ({"A": 4096, "B": 4096}, SIX, six, "sqrt(A * A + B * B) * 0.5 + A / (B * B + 1)"),
    "six-sum": ({"A": 4096, "B": 4096}, f"sum({SIX})", lambda n, A, B: six(n, A, B).sum(),
                "sum(sqrt(A * A + B * B) * 0.5 + A / (B * B + 1))"),
    "six-10": ({"A": 4096, "B": 4096}, "repeat 10 { A = " + SIX + " } sum(A)", lambda n, A, B: ten(six, n, A, B), None),
    "chain-10": ({"A": 4096, "B": 4096}, "repeat 10 { A = " + CHAIN + " } sum(A)", lambda n, A, B: ten(chain, n, A, B), None),
    "chain": ({"A": 4096, "B": 4096}, CHAIN, chain, None),
    "chain-max": ({"A": 4096, "B": 4096}, f"max({CHAIN})", lambda n, A, B: chain(n, A, B).max(), None),
    "small": ({"A": 64, "X": 64}, SMALL, small, None),
    "small-apart": ({"A": 64, "X": 64}, APART, small, None),
}


def counters(db):
    return dict(db.execute("SELECT name, value FROM gx_stats WHERE name IN ('uploaded', 'downloaded', 'gpu_ops', 'cpu_ops', "
                           "'transfers', 'graph_replays', 'fused_groups', 'nodes', 'device_hits', 'device_fallbacks')").fetchall())


def line(case, who, seconds, ours, rest=""):
    print(f"{case:10} {who:28} {seconds * 1e3:12.3f} ms  {seconds / ours:8.2f} x  {rest}", flush=True)


def run_case(name, args, folder):
    sides, text, fn, expression = CASES[name]
    rng = np.random.default_rng(7)
    arrays = {k: rng.standard_normal((n, n)) / np.sqrt(n) for k, n in sides.items()}
    db = gx_connect(str(folder / f"{name}.db"), page_size=65536, journal_mode="WAL")
    db.execute("SELECT gx_config('backend', ?)", (args.backend,)).fetchall()
    for k, a in arrays.items():
        db.execute("SELECT gx_store(?, ?, '{\"replace\":true}')", (k, from_numpy(a))).fetchall()
    value = []

    def ours():
        value[:] = db.execute("SELECT gx_eval(?)", (text,)).fetchone()

    ours()
    before = counters(db)
    seconds = median(args.repeats, ours)
    after = counters(db)
    calls = args.repeats + 1
    used = " ".join(f"{k}={(after[k] - before[k]) // calls}" for k in sorted(after) if after[k] != before[k])
    line(name, f"gx {args.backend}", seconds, seconds, used)
    want = fn(np, *arrays.values())
    got = to_numpy(value[0]) if isinstance(value[0], bytes) else value[0]
    print(f"{'':10} largest difference from NumPy {np.max(np.abs(got - want)):.2e} of {np.max(np.abs(want)):.2e}")
    line(name, "NumPy, in RAM", median(max(1, args.repeats // 2), lambda: fn(np, *arrays.values())), seconds)
    if numexpr is not None and expression is not None:
        line(name, "numexpr, in RAM", median(args.repeats, lambda: numexpr.evaluate(expression, arrays)), seconds)
    if numexpr is not None and name == "six-10":
        seconds_of = median(args.repeats, lambda: ten_of_numexpr(CASES["six"][3], arrays))
        line(name, "numexpr, in RAM", seconds_of, seconds)
    if sides.keys() == {"A", "B"}:
        scan = median(args.repeats, lambda: db.execute("SELECT gx_norm('A', 'max') + gx_norm('B', 'max')").fetchall())
        line(name, "gx_norm of both: the scan", scan, seconds)
    if cupy is not None:
        there = [cupy.asarray(a) for a in arrays.values()]
        sync = cupy.cuda.Stream.null.synchronize
        line(name, "CuPy, on the device", median(args.repeats, lambda: fn(cupy, *there), sync), seconds)
        line(name, "CuPy, from RAM and back",
             median(args.repeats, lambda: cupy.asnumpy(fn(cupy, *[cupy.asarray(a) for a in arrays.values()])), sync), seconds)
    if jax is not None:
        there = [jax.numpy.asarray(a) for a in arrays.values()]
        compiled = jax.jit(lambda *m: fn(jax.numpy, *m))
        if name not in ("small", "small-apart"):  # unrolled: minutes of compiling
            line(name, "JAX, jit", median(args.repeats, lambda: compiled(*there).block_until_ready()), seconds)
    db.close()


def run_fifty(args):
    db = gx_connect()
    a = from_numpy(np.random.default_rng(1).standard_normal((4, 4)) * 0.3)
    db.execute("SELECT gx_config('backend', ?)", (args.backend,)).fetchall()
    times = {}
    for text in (FIFTY, "?1"):
        db.execute("SELECT gx_eval(?, ?)", (text, a)).fetchall()
        best = []
        for _ in range(9):
            start = time.perf_counter()
            for _ in range(500):
                db.execute("SELECT gx_eval(?, ?)", (text, a)).fetchall()
            best.append((time.perf_counter() - start) / 500)
        times[text] = statistics.median(best)
    print(f"{'fifty':10} 50 operations on 4 x 4: {times[FIFTY] * 1e6:.1f} us a call, of which statement and Python "
          f"{times['?1'] * 1e6:.1f} us")
    db.close()


def run_finish(args, folder):
    """(A @ B + C) * D beside A @ B, each matrix four times memory_limit."""
    n, limit = args.side, args.side ** 2 * 2
    db = gx_connect(str(folder / "finish.db"), page_size=65536, journal_mode="WAL")
    db.execute("SELECT gx_config('backend', ?)", (args.backend,)).fetchall()
    db.execute("SELECT gx_config('tile_bytes', 1048576)").fetchall()
    for k in "ABCD":
        db.execute(f"SELECT gx_randn({n}, {n}, '{k}', '{{\"seed\":{ord(k)}}}')").fetchall()
    db.execute("SELECT gx_config('memory_limit', ?)", (limit,)).fetchall()
    names = ("bytes_read", "bytes_written", "spills", "device_calls")
    times = {"P := A @ B": [], "R := (A @ B + C) * D": []}
    for _ in range(args.repeats + 1):
        for text, taken in times.items():
            before = [db.execute("SELECT value FROM gx_stats WHERE name = ?", (k,)).fetchone()[0] for k in names]
            start = time.perf_counter()
            db.execute("SELECT gx_eval(?, '{\"replace\":true}')", (text,)).fetchall()
            taken.append(time.perf_counter() - start)
            after = [db.execute("SELECT value FROM gx_stats WHERE name = ?", (k,)).fetchone()[0] for k in names]
            counted = " ".join(f"{k}={b - a}" for k, a, b in zip(names, before, after))
            line("finish", text, taken[-1], times["P := A @ B"][-1], counted)
    product, finished = (statistics.median(t[1:]) for t in times.values())
    line("finish", f"medians, side {n}", finished, product, f"of the product's {product * 1e3:.0f} ms")
    db.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", nargs="*", default=[*CASES, "fifty"], choices=[*CASES, "fifty", "finish"])
    parser.add_argument("--side", type=int, default=8192, help="of the matrices of the case finish")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in args.case:
            if name == "fifty":
                run_fifty(args)
            elif name == "finish":
                run_finish(args, pathlib.Path(folder))
            else:
                run_case(name, args, pathlib.Path(folder))


if __name__ == "__main__":
    main()
