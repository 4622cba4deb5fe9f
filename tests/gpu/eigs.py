#!/usr/bin/env python3
"""The ten largest eigenpairs of a large symmetric matrix with the matrix on the GPU: what a pass costs.

    GX_SO=/path/gx.so python3 tests/gpu/eigs.py [--n 32768] [--k 10] [--dtype f64] [--form minij] [--limit BYTES] [--folder /dev/shm]
                                                [--cpu]

Stores a matrix of the gallery once (64 KiB pages), then asks for its k largest eigenpairs three times: with the device
opened and the matrix copied there, with the matrix found there, and, with --limit, with so much device memory. Prints,
one line of JSON a call: seconds, passes, seconds per pass, bytes per second of the passes beside what the device copies
in its own memory (--copy-rate, from the benchmark's "copy" line) and beside the rate of the upload, the residuals
relative to the largest value, and the remarks of gx_stats. --cpu: the same on the CPU at the end.
"""
import argparse
import json
import os
import sqlite3
import sys
import time


def connect(path):
    db = sqlite3.connect(path)
    db.enable_load_extension(True)
    db.load_extension(os.environ["GX_SO"].removesuffix(".so"))
    return db


def one(db, sql, *params):
    return db.execute(sql, params).fetchone()[0]


def store(path, n, form, dtype):
    db = connect(path)
    db.execute("PRAGMA page_size = 65536")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = OFF")
    start = time.perf_counter()
    one(db, "SELECT gx_matrix_gallery(?, ?, 'S', ?)", form, n, json.dumps({"dtype": dtype, "replace": True}))
    db.commit()
    seconds = time.perf_counter() - start
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.close()
    return seconds


def stats(db):
    return dict(db.execute("SELECT name, value FROM gx_stats WHERE name <> 'note'").fetchall())


def call(db, what, args, copy_rate):
    one(db, "SELECT gx_stats_reset()")
    options = {"k": args.k, "method": "krylov", "symmetric": True}
    start = time.perf_counter()
    rows = db.execute("SELECT value, residual FROM gx_eig('S', ?)", (json.dumps(options),)).fetchall()
    seconds = time.perf_counter() - start
    s = stats(db)
    passes, pass_s = s["passes"], s["pass_ns"] * 1e-9
    rate = s["pass_bytes"] / pass_s if pass_s else 0
    out = {
        "call": what,
        "seconds": round(seconds, 4),
        "passes": passes,
        "seconds_per_pass": pass_s / passes if passes else None,
        "bytes_per_pass": s["pass_bytes"] / passes if passes else None,
        "gb_per_s": rate / 1e9,
        "of_copy_rate": rate / copy_rate if copy_rate else None,
        "bytes_read": s["bytes_read"],
        "uploaded": s["uploaded"],
        "device_calls": s["device_calls"],
        "device_hits": s["device_hits"],
        "fallbacks": s["device_fallbacks"],
        "predicted_s": s["predicted_ns"] * 1e-9,
        "largest": rows[0][0],
        "worst_residual": max(row[1] for row in rows) / abs(rows[0][0]),
        "notes": [row[0] for row in db.execute("SELECT meaning FROM gx_stats WHERE name = 'note'")],
    }
    print(json.dumps(out), flush=True)
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=32768)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--dtype", default="f64")
    parser.add_argument("--form", default="minij")
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--copy-rate", type=float, default=0, help="GB/s read and written by a copy in device memory")
    parser.add_argument("--memory-limit", type=int, default=0)
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    copy_rate = args.copy_rate * 1e9
    path = os.path.join(args.folder, f"gx_eigs_{os.getpid()}.db")
    try:
        made = store(path, args.n, args.form, args.dtype)
        size = {"f64": 8, "f32": 4, "c128": 16, "c64": 8}[args.dtype] * args.n**2
        print(json.dumps({"form": args.form, "n": args.n, "dtype": args.dtype, "bytes": size, "stored_s": round(made, 2)}))
        db = connect(path)
        if args.memory_limit:
            one(db, "SELECT gx_config('memory_limit', ?)", args.memory_limit)
        one(db, "SELECT gx_config('backend', 'cuda')")
        cursor = db.execute("SELECT * FROM gx_devices")
        names = [column[0] for column in cursor.description]
        for row in cursor.fetchall():
            print(json.dumps(dict(zip(names, row))), flush=True)
        start = time.perf_counter()
        norm = one(db, "SELECT gx_norm('S')")
        print(json.dumps({"call": "norm: a scan of the database", "seconds": time.perf_counter() - start,
                          "gb_per_s": size / (time.perf_counter() - start) / 1e9, "norm": norm}), flush=True)
        call(db, "first: the device opened, the matrix copied", args, copy_rate)
        call(db, "second: the matrix is there", args, copy_rate)
        call(db, "third", args, copy_rate)
        one(db, "SELECT gx_config('backend', 'auto')")
        call(db, "the planner's choice", args, copy_rate)
        one(db, "SELECT gx_config('backend', 'cuda')")
        if args.limit:
            one(db, "SELECT gx_config('device_memory_limit', ?)", args.limit)
            call(db, f"device_memory_limit {args.limit}", args, copy_rate)
            call(db, f"device_memory_limit {args.limit}, again", args, copy_rate)
        if args.cpu:
            one(db, "SELECT gx_config('backend', 'cpu')")
            call(db, "cpu", args, 0)
        db.close()
    finally:
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(path + suffix):
                os.remove(path + suffix)
    return 0


if __name__ == "__main__":
    sys.exit(main())
