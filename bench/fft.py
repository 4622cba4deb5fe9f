#!/usr/bin/env python3
"""Fourier transforms beside scipy.fft with one and two workers: `bench/fft.py [--threads 2] [--rounds 5]`; on a GPU beside
cupy.fft: `bench/fft.py --device [--rounds 7] [--log 26] [--dir /dev/shm]`; on one GPU beside several: `bench/fft.py --devices 0,1`;
of a stored matrix along both axes, in a quarter of its memory: `bench/fft.py --both-axes [--side 20000] [--rounds 3] [--dir /tmp]`.

Each line has gx's median and, as ratios, those of the peers, taken by turns: one column of 2^24 complex numbers, 4096 columns
of 4096 and the transform along both axes, 1000 columns of 1009 and 100 of 10007, primes; real columns, cosines.  Matrices are
bound as values, which Python copies: `copy` is gx_copy(?), what that and a result of the size take without a transform.

On a GPU: a column of 2^26 numbers, complex and real, f32 and f64; 2^13 columns of 2^13, its rows and both axes; a length that is
a prime.  `resident`: the operand is kept in device memory, one number of the result is looked at; CuPy's is on the device, too.
`stored`: another connection has written to the file, so that the operand is read and copied up each time; `copy` is the same of
Z + 1, `link` the operand's bytes at the rate of copies that gx has measured, CuPy's operand lies in RAM.  Both sides' device memory
is given back between the cases.  Each line ends with what gx's result is off by, by Parseval's theorem or from CuPy.

Along both axes: norms of the transforms of a stored f64 matrix, pages of 64 KiB, `memory_limit` a quarter of it, and the transforms
stored, by turns with SciPy's in memory, whose first call is left out as gx's is.  `blobs`: bytes as many as a stored result has,
inserted by SQLite, 2 MiB a row; `file`: as many as the norm's intermediate has, written to a file and read.  The load is what the
system says at the end.

On several: batches of columns and of rows, by a connection that may use one and by one that is to use all, by turns.  `resident`
and `stored` as above; `value`: the result comes to the host, the operand is there.
"""
import argparse
import os
import pathlib
import sqlite3
import sys
import tempfile
import time

import numpy as np
from scipy import fft

from timing import report

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "sql"))
from conftest import from_numpy, gx_connect, q, to_numpy  # noqa: E402


def by_turns(calls, rounds):
    """The median seconds of each."""
    taken = [[] for _ in calls]
    for _ in range(rounds + 1):  # the first is for memory to be there
        for call, seconds in zip(calls, taken):
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
    return [sorted(seconds[1:])[rounds // 2] for seconds in taken]


def case(db, rounds, name, a, function, peer):
    value = from_numpy(a)
    got, want = to_numpy(q(db, f"SELECT gx_{function}(?)", value)), peer(1)
    same = "equal" if np.linalg.norm(got - want) <= 1e-14 * np.linalg.norm(want) else "DIFFERENT"
    del got, want
    gx, one, two, copy = by_turns([lambda: q(db, f"SELECT length(gx_{function}(?))", value), lambda: peer(1), lambda: peer(2),
                                   lambda: q(db, "SELECT length(gx_copy(?))", value)], rounds)
    report(f"{name}: {same}", gx, scipy=one, scipy_2=two, copy=copy)


# Name, square or a column, its rows where they are no power of 2, dtype, gx's expression, CuPy's: its rows are gx's columns.
ON_DEVICE = (
    ("fft, one column", False, None, "c64", "fft(Z)", lambda cp, z: cp.fft.fft(z)),
    ("fft, one column", False, None, "c128", "fft(Z)", lambda cp, z: cp.fft.fft(z)),
    ("ifft, one column", False, None, "c64", "ifft(Z)", lambda cp, z: cp.fft.ifft(z)),
    ("rfft, one column", False, None, "f32", "rfft(Z)", lambda cp, z: cp.fft.rfft(z)),
    ("irfft, one column", False, None, "c64", "irfft(Z, size(Z))", lambda cp, z: cp.fft.irfft(z, z.size)),
    ("fft, columns", True, None, "c64", "fft(Z)", lambda cp, z: cp.fft.fft(z)),
    ("fft, columns", True, None, "c128", "fft(Z)", lambda cp, z: cp.fft.fft(z)),
    ("fft, rows", True, None, "c64", "fft(Z, 'all', 1)", lambda cp, z: cp.fft.fft(z, axis=0)),
    ("fft2", True, None, "c64", "fft2(Z)", lambda cp, z: cp.fft.fft2(z)),
    ("fft, a prime", False, 10000019, "c64", "fft(Z)", lambda cp, z: cp.fft.fft(z)),
)


def looked_at(db, text):
    """One number of what the program makes."""
    return q(db, f"SELECT gx_eval('F = {text}; F[1, 0]')".replace("'all'", "''all''"))


def roomy(folder, bytes):
    """The folder, where it has room for so many, else the usual one for temporary files."""
    about = os.statvfs(folder) if folder and os.path.isdir(folder) else None
    return folder if about and about.f_bavail * about.f_frsize >= bytes else None


def device_case(db, writer, cp, args, name, is_square, rows, dtype, text, peer):
    side = 1 << args.log // 2
    shape = (side, side) if is_square else (rows or 1 << args.log, 1)
    bytes = shape[0] * shape[1] * {"f32": 4, "c64": 8, "c128": 16}[dtype]
    q(db, f"SELECT gx_randn({shape[0]}, {shape[1]}, 'Z', '{{\"dtype\":\"{dtype}\",\"replace\":true}}')")
    todo = [lambda: looked_at(db, text)]
    if cp is not None:
        numpy_type = {"f32": np.float32, "c64": np.complex64, "c128": np.complex128}[dtype]
        shape_there = shape[::-1] if is_square else shape[:1]
        host = np.random.default_rng(1).standard_normal(shape_there, np.float32).astype(numpy_type)
        z = cp.asarray(host)
        first = (0,) * (z.ndim - 1) + (1,)
        todo.append(lambda: peer(cp, z)[first].get())
    before, first_time = q(db, "SELECT value FROM gx_stats WHERE name = 'gpu_ops'"), looked_at(db, text)
    seconds = by_turns(todo, args.rounds)
    where = "" if q(db, "SELECT value FROM gx_stats WHERE name = 'gpu_ops'") > before else " ON THE HOST"
    where += "" if looked_at(db, text) == first_time else " DIFFERENT BITS"  # the operand that is kept is as it was
    title = f"{name} {shape[0]} x {shape[1]} {dtype}{where}"
    report(f"{title}, resident", seconds[0], **({"cupy": seconds[1]} if cp else {}))
    link = db.execute("SELECT upload FROM gx_devices WHERE backend = 'cuda'").fetchone()[0]

    def stored(what):
        writer.execute("UPDATE t SET x = x + 1")
        looked_at(db, what)

    todo = [lambda: stored(text), lambda: stored("Z + 1")]
    if cp is not None:
        todo.append(lambda: peer(cp, cp.asarray(host))[first].get())
    seconds = by_turns(todo, 3)
    report(f"{title}, stored", seconds[0], copy=seconds[1], **({"link": bytes / link} if link else {}),
           **({"cupy": seconds[2]} if cp else {}))
    if text in ("fft(Z)", "fft2(Z)", "fft(Z, 'all', 1)"):  # Parseval
        lines = shape[0] * shape[1] if text == "fft2(Z)" else shape[1] if "all" in text else shape[0]
        off = q(db, f"SELECT gx_eval('norm({text}) / norm(Z) / sqrt({lines})')".replace("'all'", "''all''")) - 1
        print(f"    off by {abs(off):.1e}", flush=True)


# Name, rows, columns, dtype, gx's expression.
BATCHES = (
    ("fft, columns", 8192, 8192, "c64", "fft(Z)"),
    ("fft, columns", 8192, 16384, "c64", "fft(Z)"),
    ("fft, columns", 1 << 20, 128, "c64", "fft(Z)"),
    ("fft, columns", 8192, 65536, "c64", "fft(Z)"),
    ("fft, columns", 8192, 16384, "c128", "fft(Z)"),
    ("rfft, columns", 8192, 32768, "f32", "rfft(Z)"),
    ("fft, rows", 16384, 8192, "c64", "fft(Z, 'all', 1)"),
    ("filter, columns", 8192, 16384, "c64", "ifft(fft(Z) * 2)"),
)


def batch_case(one, all_of_them, writer, rounds, name, rows, columns, dtype, text):
    q(one, f"SELECT gx_randn({rows}, {columns}, 'Z', '{{\"dtype\":\"{dtype}\",\"replace\":true}}')")
    spread = q(all_of_them, "SELECT value FROM gx_stats WHERE name = 'spread_calls'")
    want, got = looked_at(one, text), looked_at(all_of_them, text)
    where = "" if q(all_of_them, "SELECT value FROM gx_stats WHERE name = 'spread_calls'") > spread else " ON ONE"
    where += "" if want == got else " DIFFERENT BITS"
    title = f"{name} {rows} x {columns} {dtype}{where}"

    def stored(db):
        writer.execute("UPDATE t SET x = x + 1")
        looked_at(db, text)

    def value(db):
        db.execute("SELECT length(gx_eval(?))", (text,)).fetchone()

    todo = [("resident", rounds, lambda db: looked_at(db, text)), ("stored", 3, stored)]
    if rows * columns * 8 < 9e8:  # SQLite's longest value
        todo.append(("value", 3, value))
    for kind, times, call in todo:
        single, several = by_turns([lambda: call(one), lambda: call(all_of_them)], times)  # pylint: disable=cell-var-from-loop
        report(f"{title}, {kind}", several, one=single)


def on_several(args):
    with tempfile.TemporaryDirectory(dir=roomy(args.dir, 16 << 30)) as folder:
        path = os.path.join(folder, "fft.db")
        one, all_of_them = (gx_connect(path, page_size=65536, journal_mode="WAL") for _ in range(2))
        writer = gx_connect(path)
        writer.executescript("CREATE TABLE t(x); INSERT INTO t VALUES (0)")
        for db, devices in ((one, 1), (all_of_them, args.devices)):
            db.execute("SELECT gx_config('memory_limit', ?), gx_config('backend', 'cuda')", (16 << 30,)).fetchall()
            q(db, "SELECT gx_config('devices', ?)", devices)
            q(db, "SELECT gx_norm(gx_matmul(gx_ones(512, 512), gx_ones(512, 512)))")  # opens it
        print(all_of_them.execute("SELECT device, reason FROM gx_devices WHERE backend = 'cuda'").fetchall(), flush=True)
        for case in BATCHES:
            try:
                batch_case(one, all_of_them, writer, args.rounds, *case)
            except Exception as error:  # pylint: disable=broad-except
                print(f"{case}: {error}", flush=True)
        for db in (one, all_of_them):
            print([row[0] for row in db.execute("SELECT meaning FROM gx_stats WHERE name = 'note'")])
            db.close()
        writer.close()


def on_device(args):
    try:
        import cupy as cp
        cp.zeros(1)
    except Exception as error:  # pylint: disable=broad-except
        print(f"no CuPy: {error}")
        cp = None
    with tempfile.TemporaryDirectory(dir=roomy(args.dir, 64 << args.log)) as folder:
        path = os.path.join(folder, "fft.db")
        db, writer = gx_connect(path, page_size=65536, journal_mode="WAL"), gx_connect(path)
        writer.executescript("CREATE TABLE t(x); INSERT INTO t VALUES (0)")
        q(db, "SELECT gx_config('memory_limit', ?)", 16 << 30)
        q(db, "SELECT gx_config('backend', 'cuda')")
        q(db, "SELECT gx_norm(gx_matmul(gx_ones(512, 512), gx_ones(512, 512)))")  # opens it
        print(db.execute("SELECT device, reason FROM gx_devices WHERE backend = 'cuda'").fetchall(), flush=True)
        a = np.random.default_rng(2).standard_normal((1000, 3)) + 0j
        got = to_numpy(q(db, "SELECT gx_fft(?)", from_numpy(a)))
        print("1000 x 3:", "equal" if np.allclose(got, np.fft.fft(a, axis=0)) else "DIFFERENT", flush=True)
        for case in ON_DEVICE:
            try:
                device_case(db, writer, cp, args, *case)
            except Exception as error:  # pylint: disable=broad-except
                print(f"{case[0]} {case[3]}: {error}", flush=True)
            q(db, "SELECT gx_config('device', 0)")  # closes it, and its memory with it
            if cp is not None:
                cp.fft.config.get_plan_cache().clear()
                cp.get_default_memory_pool().free_all_blocks()
        for row in db.execute("SELECT meaning FROM gx_stats WHERE name = 'note'"):
            print(row[0])
        db.close()
        writer.close()


def plain_copies(folder, side):
    """Seconds of SQLite for a result's bytes, of a file for an intermediate's."""
    piece, taken = bytes(2 << 20), []
    path = os.path.join(folder, "plain.db")
    start = time.perf_counter()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA page_size = 65536")
        db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, data BLOB)")
        db.executemany("INSERT INTO t(data) VALUES(?)", ((piece,) for _ in range(16 * side * side // len(piece))))
    db.close()
    taken.append(time.perf_counter() - start)
    os.remove(path)
    start, path = time.perf_counter(), os.path.join(folder, "plain")
    with open(path, "w+b", buffering=0) as file:
        for _ in range(8 * side * side // len(piece)):
            file.write(piece)
        file.seek(0)
        while file.readinto(into := bytearray(len(piece))):
            del into
    taken.append(time.perf_counter() - start)
    os.remove(path)
    return taken


def along_both(args):
    side, bytes_there = args.side, 8 * args.side**2
    folder = roomy(args.dir, 8 * bytes_there)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        db = gx_connect(os.path.join(place, "a.db"), page_size=65536)
        q(db, "SELECT gx_config('threads', ?)", args.threads)
        q(db, f"SELECT gx_randn({side}, {side}, 'A')")
        q(db, "SELECT gx_config('memory_limit', ?)", bytes_there // 4)
        a = np.random.default_rng(1).standard_normal((side, side))
        for name in ("fft2", "rfft2"):
            peer = getattr(fft, name)
            gx, scipy = by_turns([lambda: q(db, f"SELECT gx_eval('norm({name}(A))')"), lambda: peer(a, workers=args.threads)], args.rounds)
            report(f"norm({name}(A)) {side} x {side}", gx, scipy=scipy)

            def stored():
                q(db, f"SELECT gx_eval('B := {name}(A)', '{{\"replace\":true}}')")

            report(f"B := {name}(A)", by_turns([stored], 1)[0], scipy=scipy)
        del a
        blobs, file = plain_copies(place, side)
        print(f"    blobs {blobs:.1f} s, file {file:.1f} s; load {os.getloadavg()[0]:.1f}", flush=True)
        db.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", action="store_true")
    parser.add_argument("--log", type=int, default=26, help="of how many numbers a matrix has on a GPU")
    parser.add_argument("--dir", default="/dev/shm")
    parser.add_argument("--devices", help="several, by number: 0,1")
    parser.add_argument("--both-axes", action="store_true")
    parser.add_argument("--side", type=int, default=20000)
    args = parser.parse_args()
    if args.both_axes:
        along_both(args)
        return
    if args.devices:
        on_several(args)
        return
    if args.device:
        on_device(args)
        return
    db, rng = gx_connect(), np.random.default_rng(1)
    q(db, "SELECT gx_config('threads', ?)", args.threads)

    def draw(*shape):
        return np.asfortranarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape))

    for rows, columns in ((1 << 24, 1), (4096, 4096), (1009, 1000), (10007, 100)):
        a = draw(rows, columns)
        case(db, args.rounds, f"fft {rows} x {columns}", a, "fft", lambda w: fft.fft(a, axis=0, workers=w))
        if rows == columns:
            case(db, args.rounds, f"fft2 {rows} x {columns}", a, "fft2", lambda w: fft.fft2(a, workers=w))
    a = np.asfortranarray(rng.standard_normal((4096, 2000)))
    case(db, args.rounds, "rfft 4096 x 2000", a, "rfft", lambda w: fft.rfft(a, axis=0, workers=w))
    case(db, args.rounds, "dct 4096 x 2000", a, "dct", lambda w: fft.dct(a, axis=0, workers=w))


if __name__ == "__main__":
    main()
