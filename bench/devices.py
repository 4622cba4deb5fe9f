#!/usr/bin/env python3
"""One statement on 1, 2, 4, ... devices, in one run: seconds, and ratios to one device and to cublasXt on as many.

    bench/devices.py [--n 32768] [--cholesky 49152] [--narrow 60000] [--dir /dev/shm] [--devices 1,2,4] [name...]

Names, all by default: product (f64, the result dropped, beside cublasXt from page-locked arrays), stream (one matrix, once
through all devices), cholesky, narrow (a kept f32 matrix times 1, 8 and 64 columns, plain and transposed), small (a product
below the crossover with 'devices' = all).  Product, stream and cholesky are parts of tests/gpu/bench_core.c, made by `make
test-gpu` or `make programs` into build/gpu; operands are in the page cache.  JSON lines of the parts are printed as they come.
"""
import argparse
import json
import os
import pathlib
import sqlite3
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SO = os.environ.get("GX_SO", str(ROOT / "gx.so"))


def parts(args, devices, n, *names):
    """{what: seconds} of bench_core's parts on so many devices, which are all used."""
    program = ROOT / "build" / "gpu" / "gpu_tests"
    listed = ",".join(str(d) for d in range(devices)) if devices > 1 else "1"
    env = os.environ | {"GX_DEVICES": listed, "GX_BACKEND": "cuda"}
    out = {}
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        done = subprocess.run([program, "bench_core", str(n), folder, *names], env=env, stdout=subprocess.PIPE, text=True,
                              check=False)
    for line in done.stdout.splitlines():
        print(f"    [{devices}] {line}")
        if line.startswith("{"):
            row = json.loads(line)
            if "seconds" in row:
                out[row["what"]] = min(row["seconds"], out.get(row["what"], 1e99))
    if done.returncode != 0:
        print(f"    [{devices}] bench_core ended with {done.returncode}")
    return out


def show(what, seconds, beside=None):
    """Seconds by number of devices, how many times faster than one, and beside a peer."""
    one = seconds.get(1)
    for devices, value in seconds.items():
        text = f"{what:42s} {devices} devices {value:9.4f} s"
        if one is not None and devices > 1:
            text += f"  {one / value:6.3f} x one"
        if beside and devices in beside:
            text += f"  {beside[devices] / value:6.3f} x cublasXt ({beside[devices]:.3f} s)"
        print(text, flush=True)


def product(args):
    found = {d: parts(args, d, args.n, "product", "xt_pinned") for d in args.devices}
    peer = {d: f["cublasXtDgemm, pinned"] for d, f in found.items() if "cublasXtDgemm, pinned" in f}
    show(f"product f64 {args.n}, dropped", {d: f["product, result dropped"] for d, f in found.items()}, peer)


def stream(args):
    found = {d: parts(args, d, args.n, "limits", "stream") for d in args.devices}
    show(f"stream f64 {args.n}, once", {d: f["stream one matrix"] for d, f in found.items()})


def cholesky(args):
    found = {d: parts(args, d, args.cholesky, "cholesky") for d in args.devices}
    show(f"cholesky f64 {args.cholesky}, dropped", {d: f["cholesky, result dropped"] for d, f in found.items()})


def connect(path):
    db = sqlite3.connect(path, isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(SO.removesuffix(".so"))
    db.execute("SELECT gx_config('backend', 'cuda')").fetchall()
    db.execute("SELECT gx_config('probe', 'off')").fetchall()
    return db


def times(db, sql, rounds=7):
    """The median of calls after two that are not counted."""
    taken = []
    for _ in range(rounds + 2):
        start = time.perf_counter()
        db.execute(sql).fetchall()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[2:])


def counters(db):
    names = ("device_hits", "uploaded", "peer_bytes", "tiles_read", "spread_calls", "device_fallbacks", "devices_lost")
    values = dict(db.execute("SELECT name, value FROM gx_stats WHERE name <> 'note'").fetchall())
    return {name: values[name] for name in names} | {
        "notes": [row[0] for row in db.execute("SELECT meaning FROM gx_stats WHERE name = 'note'")]
    }


def narrow(args):
    n = args.narrow
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        db = connect(os.path.join(folder, "a.db"))
        db.execute("PRAGMA journal_mode = OFF")
        db.execute(f"SELECT gx_randn({n}, {n}, 'A', '{{\"dtype\":\"f32\"}}')").fetchall()
        for cols in (1, 8, 64):
            db.execute(f"SELECT gx_randn({n}, {cols}, 'x{cols}', '{{\"dtype\":\"f32\"}}')").fetchall()
        for cols in (1, 8, 64):
            for options in ("", ", '{\"transa\":true}'"):
                seconds = {}
                for devices in args.devices:
                    listed = ",".join(str(d) for d in range(devices)) if devices > 1 else "1"
                    db.execute("SELECT gx_config('devices', ?)", (listed,)).fetchall()
                    db.execute("SELECT gx_stats_reset()").fetchall()
                    seconds[devices] = times(db, f"SELECT length(gx_matmul('A', 'x{cols}'{options}))")
                    print(f"    [{devices}] {json.dumps(counters(db))}")
                show(f"kept f32 {n} times {cols} columns{', transposed' if options else ''}", seconds)
        print("    links: " + str(db.execute("SELECT device, links, upload FROM gx_devices").fetchall()))
        db.close()


def small(args):
    db = connect(":memory:")
    db.execute("SELECT gx_config('backend', 'auto')").fetchall()
    for n in (512, 1024, 2048):
        db.execute(f"SELECT gx_randn({n}, {n}, 'S{n}')").fetchall()
        seconds = {}
        for devices in ("1", "all", "1", "all"):
            db.execute("SELECT gx_config('devices', ?)", (devices,)).fetchall()
            taken = times(db, f"SELECT length(gx_matmul('S{n}', 'S{n}'))", 15)
            seconds[devices] = min(taken, seconds.get(devices, 1e99))
        print(f"{f'product f64 {n}':42s} all / one device {seconds['all'] / seconds['1']:6.3f}  ({seconds['1']:.4f} s)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=32768)
    parser.add_argument("--cholesky", type=int, default=49152)
    parser.add_argument("--narrow", type=int, default=60000)
    parser.add_argument("--dir", default="/dev/shm")
    parser.add_argument("--devices", type=lambda text: [int(d) for d in text.split(",")], default=[1, 2, 4])
    parser.add_argument("name", nargs="*")
    args = parser.parse_args()
    for part in (product, stream, cholesky, narrow, small):
        if not args.name or part.__name__ in args.name:
            try:
                part(args)
            except (KeyError, sqlite3.Error, subprocess.SubprocessError) as failure:
                print(f"{part.__name__}: {failure!r}", flush=True)


if __name__ == "__main__":
    main()
