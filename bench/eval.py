#!/usr/bin/env python3
"""gx_eval beside NumPy, numexpr, CuPy and JAX: loops of products, elementwise chains, small matrices.

    bench/eval.py [--case NAME ...] [--backend auto|cpu|cuda] [--repeats N] [--side N] [--dir DIR]

Each case is one program and the same thing in each peer that is installed; the median of the repeats after one call that
is not counted (the device is opened, kernels are compiled).  gx reads its operands from a database file in the page
cache, or has kept them on the device from the call before; peers have theirs in RAM or on the device, as the column says.
Columns: case, who, milliseconds, by gx's, and what was counted.  Lines that are no peer's:

    the stream   what has to be: gx_norm of each operand reads them, and a blob of the result's size that is there already
                 is fetched by the same Python (a bound parameter, row after row: SQLite copies nothing, Python does once);
                 beside it stands the call whose operands come from the file
    HBM          operands are kept on the device and the result stays there, or is a number: their bytes by the rate at
                 which CuPy copies on the device, and 0.15 ms for the statement
    kernels      of the cases small: as many launches of the same two functions, timed on the device while CuPy's host is
                 ahead; then the time beyond them, with graphs (small) by without (small-apart)
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


def again(np_, rounds, step, X):
    """A loop, which JAX compiles as one."""
    if jax is not None and np_ is jax.numpy:
        return jax.lax.fori_loop(0, rounds, lambda _, X: step(X), X)
    for _ in range(rounds):
        X = step(X)
    return X


def loop(np_, A, X):
    return again(np_, 100, lambda X: A @ X, X)


def mixed(np_, A, X):
    return again(np_, 600, lambda X: np_.tanh(A @ X) * 0.5 + X * 0.25, X)


def mixed_product(np_, A, X):
    return again(np_, 600, lambda X: A @ X, X)


def mixed_map(np_, A, X):
    return again(np_, 600, lambda X: np_.tanh(X) * 0.5 + X * 0.25, X)


def small(np_, A, X):
    def step(X):
        for _ in range(10):
            X = np_.tanh(A @ X)
        return X

    return again(np_, 1000, step, X)


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
    "mixed-product": ({"A": 1024, "X": 1024}, "repeat 600 { X = A @ X } X", mixed_product, None),
    "mixed-map": ({"A": 1024, "X": 1024}, "repeat 600 { X = tanh(X) * 0.5 + X * 0.25 } X", mixed_map, None),
    "six": ({"A": 4096, "B": 4096}, SIX, six, "sqrt(A * A + B * B) * 0.5 + A / (B * B + 1)"),
    "six-sum": ({"A": 4096, "B": 4096}, f"sum({SIX})", lambda n, A, B: six(n, A, B).sum(),
                "sum(sqrt(A * A + B * B) * 0.5 + A / (B * B + 1))"),
    "six-stays": ({"A": 4096, "B": 4096}, f"Y = {SIX}; Y[0, 0]", lambda n, A, B: six(n, A, B)[0, 0], None),
    "six-10": ({"A": 4096, "B": 4096}, "repeat 10 { A = " + SIX + " } sum(A)", lambda n, A, B: ten(six, n, A, B), None),
    "chain-10": ({"A": 4096, "B": 4096}, "repeat 10 { A = " + CHAIN + " } sum(A)", lambda n, A, B: ten(chain, n, A, B), None),
    "chain": ({"A": 4096, "B": 4096}, CHAIN, chain, None),
    "chain-max": ({"A": 4096, "B": 4096}, f"max({CHAIN})", lambda n, A, B: chain(n, A, B).max(), None),
    "small": ({"A": 64, "X": 64}, SMALL, small, None),
    "small-apart": ({"A": 64, "X": 64}, APART, small, None),
}


# Calls before the timed ones: the device's groups are compiled when they have run for long.
WARM = {"mixed": 8, "mixed-map": 8, "six-sum": 100, "six-stays": 100, "chain-max": 100}


def counters(db):
    return dict(db.execute("SELECT name, value FROM gx_stats WHERE name IN ('uploaded', 'downloaded', 'gpu_ops', 'cpu_ops', "
                           "'transfers', 'graph_replays', 'fused_groups', 'nodes', 'device_hits', 'device_fallbacks')").fetchall())


def line(case, who, seconds, ours, rest=""):
    print(f"{case:10} {who:28} {seconds * 1e3:12.3f} ms  {seconds / ours:8.2f} x  {rest}", flush=True)


def handing_over(db, size, repeats):
    """Python's fetch of a blob that SQLite has already."""
    rows = db.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT ? FROM n",
                      (repeats + 3, bytes(size)))
    kept = []  # the one before goes when the next one is there, as ours() has it

    def fetch():
        kept[:] = rows.fetchone()

    seconds = median(repeats, fetch)
    rows.close()
    return seconds


def hbm_rate():
    """Bytes read and written a second by a copy on the device."""
    a = cupy.zeros(1 << 27)
    b, times = cupy.empty_like(a), []
    for _ in range(6):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        cupy.copyto(b, a)
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
    return 2 * a.nbytes / statistics.median(times[1:])


def kernels_alone(arrays, launches=400):
    """Seconds of a launch, product and tanh by turns, when none of them waits for the host."""
    spin = cupy.RawKernel("""extern "C" __global__ void spin(long long ticks) {
        long long start = clock64();
        while (clock64() - start < ticks) { }
    }""", "spin")
    A, X = (cupy.asarray(a) for a in arrays.values())
    P, times = cupy.empty_like(X), []
    for _ in range(6):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        spin((1,), (1,), (100_000_000,))  # some 50 ms, in which all of these are enqueued
        start.record()
        for _ in range(launches // 2):
            cupy.matmul(A, X, out=P)
            cupy.tanh(P, out=X)
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end) / 1e3 / launches)
    return statistics.median(times[1:])


def run_cold(name, args, db, text, arrays, ours):
    """Operands from the file's page cache: stored again before each call, so that no device has kept them.  Seconds, and
    seconds of a call whose value stays in SQLite."""
    times, within, moved = [], [], set()
    operands = {k: from_numpy(a) for k, a in arrays.items()}
    for k in range(2 * args.repeats + 2):
        for operand in operands.items():
            db.execute("SELECT gx_store(?, ?, '{\"replace\":true}')", operand).fetchall()
        if k % 2 == 1 and isinstance(value, bytes):
            start = time.perf_counter()
            db.execute("SELECT length(gx_eval(?))", (text,)).fetchone()
            within.append(time.perf_counter() - start)
            continue
        before, start = counters(db), time.perf_counter()
        value = db.execute("SELECT gx_eval(?)", (text,)).fetchone()[0]
        times.append(time.perf_counter() - start)
        after = counters(db)
        moved.add((after["uploaded"] - before["uploaded"], after["downloaded"] - before["downloaded"]))
    result = len(value) - 32 if isinstance(value, bytes) else 8  # behind the header
    cold = statistics.median(times[1:])
    line(name, "gx, from the page cache", cold, ours,
         f"bytes up, down {sorted(moved)}; of operands {sum(a.nbytes for a in arrays.values())}, of the result {result}")
    return cold, statistics.median(within[1:]) if len(within) > 1 else 0.0


def run_peers(name, args, arrays, ours, cold):
    """NumPy, numexpr, CuPy, JAX; NumPy's answer."""
    _, _, fn, expression = CASES[name]
    want = []

    def by_numpy():
        want[:] = [fn(np, *arrays.values())]

    is_long = name.split("-")[0] in ("loop", "mixed")
    start = time.perf_counter()
    by_numpy()
    seconds = time.perf_counter() - start
    line(name, "NumPy, in RAM", seconds if is_long else median(max(1, args.repeats // 2), by_numpy), ours)
    if numexpr is not None and expression is not None:
        line(name, "numexpr, in RAM", median(args.repeats, lambda: numexpr.evaluate(expression, arrays)), ours)
    if numexpr is not None and name == "six-10":
        line(name, "numexpr, in RAM", median(args.repeats, lambda: ten_of_numexpr(CASES["six"][3], arrays)), ours)
    if cupy is not None:
        there = [cupy.asarray(a) for a in arrays.values()]
        sync = cupy.cuda.Stream.null.synchronize
        on_device = median(args.repeats, lambda: fn(cupy, *there), sync)
        line(name, "CuPy, on the device", on_device, ours)
        around = median(args.repeats, lambda: cupy.asnumpy(fn(cupy, *[cupy.asarray(a) for a in arrays.values()])), sync)
        line(name, "CuPy, from RAM and back", around, ours, f"gx / CuPy = {ours / around:.3f}, from the page cache {cold / around:.3f}")
    if jax is not None:
        there = [jax.numpy.asarray(a) for a in arrays.values()]
        compiled = jax.jit(lambda *m: fn(jax.numpy, *m))
        line(name, "JAX, jit", median(args.repeats, lambda: compiled(*there).block_until_ready()), ours)
        around = median(args.repeats, lambda: np.asarray(compiled(*[jax.numpy.asarray(a) for a in arrays.values()])))
        line(name, "JAX, jit, from RAM and back", around, ours, f"gx / JAX = {ours / around:.3f}, from the page cache {cold / around:.3f}   (<= 1.1)")
    return want[0]


def run_limits(name, args, db, arrays, ours, cold, stays, value, hits):
    """What the work cannot take less than."""
    if arrays.keys() != {"A", "B"} or name.endswith("-10"):
        return
    scan = median(args.repeats, lambda: db.execute("SELECT gx_norm('A', 'max') + gx_norm('B', 'max')").fetchall())
    line(name, "gx_norm of both: the scan", scan, ours)
    over = handing_over(db, len(value), args.repeats) if isinstance(value, bytes) else 0.0
    if over > 0:
        within = median(args.repeats, lambda: db.execute("SELECT length(gx_eval(?))", (CASES[name][1],)).fetchone())
        line(name, "gx, SELECT length(...)", within, ours, "what of it is not Python's fetch")
        line(name, "the result's bytes handed over", over, ours)
        both = median(args.repeats, lambda: db.execute("SELECT gx_norm('A', 'max') + gx_norm('B', 'max') + gx_norm('A', 'max')").fetchall())
        line(name, "a scan of the result's too", both, ours)
        line(name, "SELECT length(...), cold", stays, ours,
             f"{stays / scan:.3f} of the operands' scan   (<= 1.15), {stays / both:.3f} of operands' and result's")
    line(name, "the stream", scan + over, ours, f"from the page cache / stream = {cold / (scan + over):.3f}   (<= 1.15)")
    if cupy is not None and hits > 0 and over == 0:
        rate = hbm_rate()
        moved = sum(a.nbytes for a in arrays.values()) + (arrays["A"].nbytes if name == "six-stays" else 0)
        limit = 1.3 * moved / rate + 0.15e-3
        line(name, f"HBM, {rate / 1e12:.2f} TB/s", limit, ours, f"gx / (1.3 bytes / rate + 0.15 ms) = {ours / limit:.3f}   (<= 1)")


def run_case(name, args, folder):
    sides, text, _, _ = CASES[name]
    rng = np.random.default_rng(7)
    arrays = {k: rng.standard_normal((n, n)) / np.sqrt(n) for k, n in sides.items()}
    db = gx_connect(str(folder / f"{name}.db"), page_size=65536, journal_mode="WAL")
    db.execute("SELECT gx_config('backend', ?)", (args.backend,)).fetchall()
    for k, a in arrays.items():
        db.execute("SELECT gx_store(?, ?, '{\"replace\":true}')", (k, from_numpy(a))).fetchall()
    value = []

    def ours():
        value[:] = db.execute("SELECT gx_eval(?)", (text,)).fetchone()

    for _ in range(WARM.get(name, 1) if args.backend != "cpu" else 1):
        ours()
    before = counters(db)
    seconds = median(args.repeats, ours)
    after = counters(db)
    calls = args.repeats + 1
    counted = {k: (after[k] - before[k]) // calls for k in sorted(after) if after[k] != before[k]}
    line(name, f"gx {args.backend}", seconds, seconds, " ".join(f"{k}={n}" for k, n in counted.items()))
    cold, stays = run_cold(name, args, db, text, arrays, seconds)
    run_limits(name, args, db, arrays, seconds, cold, stays, value[0], counted.get("device_hits", 0))
    want = run_peers(name, args, arrays, seconds, cold)
    got = to_numpy(value[0]) if isinstance(value[0], bytes) else value[0]
    print(f"{'':10} largest difference from NumPy {np.max(np.abs(got - want)):.2e} of {np.max(np.abs(want)):.2e}")
    db.close()
    return seconds, arrays


def tell_graphs(taken):
    """With graphs and without, less the kernels themselves."""
    (replayed, arrays), (apart, _) = taken["small"], taken["small-apart"]
    alone = 20000 * kernels_alone(arrays)
    line("small", "kernels, none waiting", alone, replayed)
    line("small", "beyond them, with graphs", replayed - alone, replayed, f"{replayed / 20000 * 1e6:.2f} us an operation   (<= 6)")
    line("small", "beyond them, without", apart - alone, replayed,
         f"with / without = {(replayed - alone) / (apart - alone):.3f}   (<= 0.4)")


def run_fifty(args):
    db = gx_connect()
    a = from_numpy(np.random.default_rng(1).standard_normal((4, 4)) * 0.3)
    db.execute("SELECT gx_config('backend', ?)", (args.backend,)).fetchall()
    times = {}
    for text in (FIFTY, "?1"):
        db.execute("SELECT gx_eval(?, ?)", (text, a)).fetchall()
        best = []
        for _ in range(9):
            start = np.array([time.perf_counter(), time.process_time()])
            for _ in range(500):
                db.execute("SELECT gx_eval(?, ?)", (text, a)).fetchall()
            best.append((np.array([time.perf_counter(), time.process_time()]) - start) / 500 * 1e6)
        times[text] = np.median(best, axis=0)
    print(f"{'fifty':10} 50 operations on 4 x 4: {times[FIFTY][0]:.1f} us a call (<= 40), on a processor {times[FIFTY][1]:.1f}, "
          f"of which statement and Python {times['?1'][0]:.1f}")
    db.close()


def run_finish(args, folder):
    """(A @ B + C) * D beside A @ B, each matrix four times memory_limit, in turn; by the clock and on processors."""
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
            start = np.array([time.perf_counter(), time.process_time()])
            db.execute("SELECT gx_eval(?, '{\"replace\":true}')", (text,)).fetchall()
            taken.append(np.array([time.perf_counter(), time.process_time()]) - start)
            after = [db.execute("SELECT value FROM gx_stats WHERE name = ?", (k,)).fetchone()[0] for k in names]
            counted = " ".join(f"{k}={b - a}" for k, a, b in zip(names, before, after))
            line("finish", text, taken[-1][0], times["P := A @ B"][-1][0], f"on processors {taken[-1][1] * 1e3:.0f} ms {counted}")
    product, finished = (np.median(t[1:], axis=0) for t in times.values())
    for what, k in (("by the clock", 0), ("on processors", 1)):
        line("finish", f"{what}, side {n}", finished[k], product[k],
             f"of the product's {product[k] * 1e3:.0f} ms: {product[k] / finished[k] * 100:.1f} % of its speed   (>= 90)")
    db.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", nargs="*", default=[*CASES, "fifty"], choices=[*CASES, "fifty", "finish"])
    parser.add_argument("--side", type=int, default=8192, help="of the matrices of the case finish")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--dir", help="where the database files are: /dev/shm")
    args = parser.parse_args()
    taken = {}
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        for name in args.case:
            if name == "fifty":
                run_fifty(args)
            elif name == "finish":
                run_finish(args, pathlib.Path(folder))
            else:
                taken[name] = run_case(name, args, pathlib.Path(folder))
    if cupy is not None and args.backend == "cuda" and {"small", "small-apart"} <= taken.keys():
        tell_graphs(taken)


if __name__ == "__main__":
    main()
