#!/usr/bin/env python3
"""Elementwise expressions in one pass: gx_eval beside NumPy and numexpr on the host, beside CuPy on a GPU.

    bench/fused.py [--order 4096] [--times 5] [--dtype f64,f32] [--backend cpu|cuda] [--kept] [name...]

Operands are matrix values in memory, bound once; a call's time is that of a statement which calls several times, less one
which calls once, so that binding is in neither.  NumPy and numexpr (all processors) start from arrays in memory and make an
array; the contenders take turns, and the median of each is told.  --kept: the operands are stored matrices of a file, as a
device keeps them from the call before, and the result is the sum of the expression's elements; CuPy's operands are on the
device, and it makes the same number.  Answers are compared before anything is timed.  Behind the ratios of the times on the
host stand those of the time on processors, gx's by the processors that it uses: what the ratios are where nobody else
keeps them busy.
"""
import argparse
import os
import pathlib
import resource
import sqlite3
import struct
import tempfile
import time

import numpy as np

try:
    import numexpr
except ImportError:
    numexpr = None
try:
    import cupy
    import cupyx.scipy.special
except ImportError:
    cupy = None
try:
    from scipy import special
except ImportError:
    special = None

ROOT = pathlib.Path(__file__).resolve().parent.parent
THREADS = len(os.sched_getaffinity(0))
SO = os.environ.get("GX_SO", str(ROOT / "gx.so"))

# name: (gx, numexpr, NumPy and CuPy: a function of the module, of erf, and of a, b, c)
CASES = {
    "six operations": ("(A + B) * C - A / (B * B + 2)", "(a + b) * c - a / (b * b + 2)",
                       lambda m, erf, a, b, c: (a + b) * c - a / (b * b + 2)),
    "exp": ("exp(-A * A / 2) * B + C", "exp(-a * a / 2) * b + c", lambda m, erf, a, b, c: m.exp(-a * a / 2) * b + c),
    "tanh": ("tanh(A * B + C)", "tanh(a * b + c)", lambda m, erf, a, b, c: m.tanh(a * b + c)),
    "erf": ("0.5 * A * (1 + erf(B)) + C", None, lambda m, erf, a, b, c: 0.5 * a * (1 + erf(b)) + c),
    "where": ("where(A > B, A - B, B * C)", "where(a > b, a - b, b * c)",
              lambda m, erf, a, b, c: m.where(a > b, a - b, b * c)),
    "distance": ("sqrt(sum((A - B) * (A - B) * C))", "sum((a - b) * (a - b) * c)",
                 lambda m, erf, a, b, c: m.sqrt(((a - b) * (a - b) * c).sum())),
}
DTYPES = {"f64": (np.float64, 0), "f32": (np.float32, 1)}


def value_of(x):
    """A matrix value, as docs/reference/values.md has it."""
    head = b"gxmv" + bytes([1, DTYPES["f64" if x.dtype == np.float64 else "f32"][1], 0, 0])
    return head + struct.pack("<qqq", *x.shape, 0) + x.tobytes(order="F")


def array_of(blob, dtype):
    if not isinstance(blob, bytes):
        return np.float64(blob)
    rows, cols = struct.unpack_from("<qq", blob, 8)
    return np.frombuffer(blob, dtype, offset=32).reshape((rows, cols), order="F")


def connect(path, backend):
    db = sqlite3.connect(path)
    db.enable_load_extension(True)
    db.load_extension(SO.removesuffix(".so"))
    if backend:
        db.execute("SELECT gx_config('backend', ?)", (backend,)).fetchall()
    return db


def busy():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def seconds(call):
    """By the clock, and on processors."""
    start = np.array([time.perf_counter(), busy()])
    call()
    return np.array([time.perf_counter(), busy()]) - start


def gx_call(db, text, values, count):
    """count calls in one statement."""
    for name, at in (("A", 1), ("B", 2), ("C", 3)):
        text = text.replace(name, f"?{at}") if values else text
    rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?4) "
    sql = rows + "SELECT sum(length(gx_eval(?5, ?1, ?2, ?3))) FROM n" if values else rows + "SELECT sum(gx_eval(?5)) FROM n"
    arguments = dict(zip("12345", [*values, count, text])) if values else {"4": count, "5": text}
    return db.execute(sql.replace("?", ":"), arguments).fetchone()


def medians(contenders, times):
    taken = {name: [] for name in contenders}
    for _ in range(times):
        for name, contender in contenders.items():
            taken[name].append(contender())
    return {name: np.median(t, axis=0) for name, t in taken.items()}


def on_host(name, n, dtype, times, backend):
    text, expression, function = CASES[name]
    rng = np.random.default_rng(1)
    a, b, c = (np.asfortranarray(rng.random((n, n)).astype(DTYPES[dtype][0])) for _ in range(3))
    values = [value_of(x) for x in (a, b, c)]
    erf = special.erf if special else None
    db = connect(":memory:", backend)
    want = function(np, erf, a, b, c)
    renamed = text.replace("A", "?1").replace("B", "?2").replace("C", "?3")
    got = array_of(db.execute("SELECT gx_eval(?, ?, ?, ?)", (renamed, *values)).fetchone()[0], DTYPES[dtype][0])
    assert np.allclose(got, want, rtol=1e-5 if dtype == "f32" else 1e-12), name
    many = 3
    contenders = {
        "gx": lambda: (seconds(lambda: gx_call(db, text, values, 1 + many)) - seconds(lambda: gx_call(db, text, values, 1))) / many,
        "numpy": lambda: seconds(lambda: function(np, erf, a, b, c)),
    }
    if numexpr and expression:
        contenders["numexpr"] = lambda: seconds(lambda: numexpr.evaluate(expression, {"a": a, "b": b, "c": c}))
    return medians(contenders, times)


def on_device(name, n, dtype, times, backend):
    text, _, function = CASES[name]
    number = text if text.startswith("sqrt(sum") else f"sum({text})"
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        db = connect(folder + "/a.db", backend)
        rng = np.random.default_rng(1)
        arrays = [rng.random((n, n)).astype(DTYPES[dtype][0]) for _ in range(3)]
        for letter, x in zip("ABC", arrays):
            db.execute("SELECT gx_store(?, ?)", (letter, value_of(x))).fetchall()
        db.commit()
        contenders = {"gx": lambda: (seconds(lambda: gx_call(db, number, [], 401)) - seconds(lambda: gx_call(db, number, [], 1))) / 400}
        if cupy:
            there = [cupy.asarray(x) for x in arrays]
            erf = cupyx.scipy.special.erf

            def peer():
                for _ in range(20):
                    float(function(cupy, erf, *there).sum())
            peer()
            contenders["cupy"] = lambda: seconds(peer) / 20
        gx_call(db, number, [], 100)
        return medians(contenders, times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--order", type=int, default=4096)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--dtype", default="f64,f32")
    parser.add_argument("--backend", default="")
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    for dtype in args.dtype.split(","):
        for name in args.names or CASES:
            run = on_device if args.kept else on_host
            taken = run(name, args.order, dtype, args.times, args.backend)
            ratios = "  ".join(f"gx/{peer} {taken['gx'][0] / t[0]:.2f}" for peer, t in taken.items() if peer != "gx")
            times = "  ".join(f"{who} {1e3 * t[0]:.2f} ms" for who, t in taken.items())
            shares = {"gx": THREADS, "numexpr": THREADS, "numpy": 1}
            alone = "  ".join(f"{taken['gx'][1] / THREADS / (t[1] / shares[peer]):.2f}" for peer, t in taken.items()
                              if peer != "gx" and not args.kept)
            print(f"{dtype} {args.order} {name:16s} {times}  {ratios}  {'undisturbed ' + alone if alone else ''}", flush=True)


if __name__ == "__main__":
    main()
