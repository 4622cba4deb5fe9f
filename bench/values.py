#!/usr/bin/env python3
"""Products of values as an application that embeds SQLite calls them, beside pinned copies and the device's own product.

    bench/values.py [--backend auto|cpu|cuda] [--rounds 25] [ORDER...]        2048 4096

Two f64 matrices are bound without a copy (sqlite3_bind_blob64, static), and the statement is stepped, and finalised: the
result stays in SQLite, as it does when it is an argument or goes into a table.  Nothing of Python's is in between: SQLite is
called through ctypes.  Beside it, NumPy's product, and where CuPy is: both operands up from page-locked memory, the product,
the result down into page-locked memory.  Each by itself (NumPy's threads keep the processors for a while after a product, so
they come last), medians after three calls that are not counted.
"""
import argparse
import ctypes
import os
import pathlib
import statistics
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
SO = os.environ.get("GX_SO", str(ROOT / "gx.so"))
LOAD_EXTENSION, ROW = 1005, 100  # SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, SQLITE_ROW
lib = ctypes.CDLL("libsqlite3.so.0")
P = ctypes.c_void_p
lib.sqlite3_errmsg.restype = ctypes.c_char_p
lib.sqlite3_column_blob.restype = P
lib.sqlite3_bind_blob64.argtypes = [P, ctypes.c_int, P, ctypes.c_uint64, P]


class Connection:
    def __init__(self):
        self.db = P()
        self.must(lib.sqlite3_open(b":memory:", ctypes.byref(self.db)))
        lib.sqlite3_db_config(self.db, ctypes.c_int(LOAD_EXTENSION), ctypes.c_int(1), P())
        self.must(lib.sqlite3_load_extension(self.db, SO.encode(), b"sqlite3_gx_init", P()))

    def must(self, status):
        if status not in (0, ROW, 101):
            raise SystemExit(lib.sqlite3_errmsg(self.db).decode())

    def run(self, sql, *values, look=None):
        """Seconds from the first step to the statement's end; `look` at the result's bytes in between is not counted."""
        statement = P()
        self.must(lib.sqlite3_prepare_v2(self.db, sql.encode(), -1, ctypes.byref(statement), P()))
        for k, value in enumerate(values):
            self.must(lib.sqlite3_bind_blob64(statement, k + 1, value, len(value), P()))
        start = time.perf_counter()
        status = lib.sqlite3_step(statement)
        stepped = time.perf_counter()
        self.must(status)
        if look is not None:
            look(ctypes.string_at(lib.sqlite3_column_blob(statement, 0), lib.sqlite3_column_bytes(statement, 0)))
        seconds, again = stepped - start, time.perf_counter()
        lib.sqlite3_finalize(statement)
        return seconds + time.perf_counter() - again


def pinned_product(a, b):
    """A function that copies, multiplies and copies back; None without CuPy or a device."""
    try:
        import cupy

        def pinned(array):
            memory = np.frombuffer(cupy.cuda.alloc_pinned_memory(array.nbytes), array.dtype, array.size).reshape(array.shape)
            memory[:] = array
            return memory

        up, down = [pinned(a), pinned(b)], pinned(np.empty_like(a))
        there = [cupy.empty(a.shape) for _ in up]
    except Exception:  # not there, or no device
        return None

    def run():
        start = time.perf_counter()
        for device, host in zip(there, up):
            device.set(host)
        (there[0] @ there[1]).get(out=down)
        cupy.cuda.Device().synchronize()
        return time.perf_counter() - start

    return run


def measure(db, n, rounds):
    made = []
    for seed in (1, 2):
        db.run(f"SELECT gx_randn({n}, {n}, NULL, '{{\"seed\":{seed}}}')", look=made.append)
    header = len(made[0]) - 8 * n * n
    a, b = (np.frombuffer(value, "<f8", offset=header).reshape(n, n).T for value in made)
    got = []
    db.run("SELECT gx_matmul(?1, ?2)", *made, look=got.append)
    want = a @ b
    error = np.abs(np.frombuffer(got[0], "<f8", offset=header).reshape(n, n).T - want).max() / np.abs(want).max()
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)

    def by_numpy():
        start = time.perf_counter()
        a @ b
        return time.perf_counter() - start

    calls = {"gx": lambda: db.run("SELECT gx_matmul(?1, ?2)", *made), "pinned copies + gemm": pinned_product(a, b), "NumPy": by_numpy}
    time.sleep(0.2)  # the check above was a product of NumPy's
    taken = {name: [call() for _ in range(rounds + 3)] for name, call in calls.items() if call is not None}
    medians = {name: statistics.median(times[3:]) for name, times in taken.items()}
    text = "  ".join(f"{name} {1e3 * seconds:.2f} ms ({medians['gx'] / seconds:.2f} x)" for name, seconds in medians.items())
    print(f"product of values, f64 {n}: {text}  relative error {error:.1e}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("order", nargs="*", type=int, default=[2048, 4096])
    args = parser.parse_args()
    db = Connection()
    db.run(f"SELECT gx_config('backend', '{args.backend}')")
    for n in args.order:
        measure(db, n, args.rounds)


if __name__ == "__main__":
    main()
