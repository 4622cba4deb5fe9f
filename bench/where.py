#!/usr/bin/env python3
"""Where the time of a call goes: seconds of the statement, and what gx_stats accounts for, beside NumPy and CuPy.

    bench/where.py [--scale 0.5] [--dir /dev/shm] [--backend cuda] [name...]

For each function: the median of three calls after one that is not counted, as its user waits for them; the terms of
gx_stats that grew during the median call (each *_ns), the share of the time that the largest sum of disjoint terms explains
(read, compute, copy, write and wait of the caller's thread), and the peer's time for the same from arrays in memory, in the
same run; where results are stored, also the time in which one INSERT statement puts as many bytes into free pages of the
same file, as gx does, and gx by CuPy (NumPy where there is no device) and that together.
"""
import argparse
import datetime
import json
import os
import pathlib
import sqlite3
import statistics
import tempfile
import time

import numpy as np

try:
    import cupy
except ImportError:
    cupy = None

# Terms that speak of the whole call.
OVERALL = {"measured_ns", "predicted_ns"}

ROOT = pathlib.Path(__file__).resolve().parent.parent
SO = os.environ.get("GX_SO", str(ROOT / "gx.so"))


def on_device(function):
    """A CuPy function between two copies."""
    def call(*arrays):
        out = function(*(cupy.asarray(a) for a in arrays))
        return [cupy.asnumpy(o) for o in (out if isinstance(out, tuple) else (out,))]
    return call


def symmetric(n):
    r = np.random.default_rng(1).standard_normal((n, n))
    return r + r.T


def square(n):
    return np.random.default_rng(1).standard_normal((n, n))


# name: (order, what makes the operands in NumPy, the statement, NumPy's peer, CuPy's peer)
CASES = {
    "eig, all vectors, stored": (8192, (symmetric,), "SELECT gx_eig('A','w','V','{{\"replace\":true}}')",
                                 np.linalg.eigh, lambda: cupy.linalg.eigh),
    "eigvals": (8192, (symmetric,), "SELECT length(gx_eigvals('A'))", np.linalg.eigvalsh, lambda: cupy.linalg.eigvalsh),
    "svd, stored": (4096, (square,), "SELECT gx_svd('A','s','U','Vt','{{\"replace\":true}}')",
                    np.linalg.svd, lambda: cupy.linalg.svd),
    "solve, 8 columns": (16384, (square, lambda n: np.ones((n, 8))), "SELECT gx_solve('A','B','X','{{\"replace\":true}}')",
                         np.linalg.solve, lambda: cupy.linalg.solve),
    "inverse, stored": (8192, (square,), "SELECT gx_inverse('A','X','{{\"replace\":true}}')",
                        np.linalg.inv, lambda: cupy.linalg.inv),
    "product, stored": (8192, (square, square), "SELECT gx_matmul('A','B','C','{{\"replace\":true}}')",
                        np.matmul, lambda: cupy.matmul),
    "product, values": (2048, (square, square), "SELECT length(gx_matmul(a,b)) FROM v", np.matmul, lambda: cupy.matmul),
    "copy, value": (2048, (square,), "SELECT length(gx_copy(a)) FROM v", np.copy, None),
}


def connect(path, backend):
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA page_size=65536")
    db.enable_load_extension(True)
    db.execute("SELECT load_extension(?, 'sqlite3_gx_init')", (SO,))
    if backend:
        db.execute("SELECT gx_config('backend', ?)", (backend,))
    return db


def counters(db):
    return dict(db.execute("SELECT name, value FROM gx_stats WHERE name LIKE '%_ns'"))


def store(db, folder, name, array):
    path = os.path.join(folder, "array.npy")
    np.save(path, array)
    db.execute("SELECT gx_import(?, ?)", (name, path))
    os.unlink(path)


def timed(function, *args):
    start = time.perf_counter()
    result = function(*args)
    del result
    return time.perf_counter() - start


def insert_seconds(db, rounds):
    """Of as many bytes as the results have, as blobs of the size of a tile: the limit of what stores through SQLite."""
    elements = db.execute("SELECT total(rows * cols) FROM gx_meta WHERE name NOT IN ('A', 'B')").fetchone()[0]
    left = int(elements) * 8
    blobs, seconds = [(bytes(4 << 20),)] * (left >> 22) + [(bytes(left % (4 << 20)),)], []
    for _ in range(rounds if left else 0):
        db.execute("CREATE TABLE raw(id INTEGER PRIMARY KEY, data BLOB)")
        start = time.perf_counter()
        db.execute("BEGIN")
        db.executemany("INSERT INTO raw(data) VALUES(?)", blobs)
        db.execute("COMMIT")
        seconds.append(time.perf_counter() - start)
        db.execute("DROP TABLE raw")
    return statistics.median(seconds) if seconds else None


def row(name, options):
    order, makes, sql, numpy_peer, cupy_peer = CASES[name]
    n = max(8, int(order * options.scale))
    arrays = [make(n) for make in makes]
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        db = connect(os.path.join(folder, "where.db"), options.backend)
        for label, array in zip("AB", arrays):
            store(db, folder, label, array)
        if " v" in sql:
            db.execute("CREATE TABLE v AS SELECT gx_copy('A') AS a" + (", gx_copy('B') AS b" if len(arrays) > 1 else ""))
        calls = []
        for _ in range(options.rounds + 1):
            db.execute("SELECT gx_drop(name) FROM (SELECT name FROM gx_meta WHERE name NOT IN ('A', 'B'))").fetchall()
            before = counters(db)
            seconds = timed(lambda: db.execute(sql.format(n=n)).fetchall())
            calls.append((seconds, {k: (v - before[k]) / 1e9 for k, v in counters(db).items() if v != before[k] and k not in OVERALL}))
        inserted = insert_seconds(db, options.rounds)
        db.close()
    first, calls = calls[0][0], sorted(calls[1:], key=lambda c: c[0])
    seconds, terms = calls[len(calls) // 2]
    out = {"name": name, "n": n, "first_s": first, "gx_s": seconds, "terms": terms}
    if not options.no_peers:
        if not options.no_numpy:
            out["numpy_s"] = statistics.median(timed(numpy_peer, *arrays) for _ in range(1 if n > 2048 else 3))
        if cupy and cupy_peer:
            peer = on_device(cupy_peer())
            peer(*arrays)
            out["cupy_s"] = statistics.median(timed(peer, *arrays) for _ in range(3))
    if inserted is not None:
        out["insert_s"] = inserted
        if peer_s := out.get("cupy_s", out.get("numpy_s")):
            out["by_peer_and_insert"] = seconds / (peer_s + inserted)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir")
    parser.add_argument("--backend")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--no-numpy", action="store_true")
    parser.add_argument("--label", default="where")
    parser.add_argument("--out", default=str(ROOT / "bench/results"))
    options = parser.parse_args()
    rows = []
    for name in CASES:
        if not options.names or any(part in name for part in options.names):
            try:
                r = row(name, options)
            except (sqlite3.Error, MemoryError) as error:
                r = {"name": name, "error": str(error)}
            rows.append(r)
            peers = "  ".join(f"{k[:-2]} {r[k]:.3f}" for k in ("numpy_s", "cupy_s", "insert_s") if k in r)
            peers += f"  gx / (peer + insert) {r['by_peer_and_insert']:.3f}" if "by_peer_and_insert" in r else ""
            terms = "  ".join(f"{k[:-3]} {v:.3f}" for k, v in sorted(r.get("terms", {}).items()))
            print(f"{name:26s} {r['error']}" if "error" in r else
                  f"{name:26s} {r['n']:6d}  first {r['first_s']:.3f}  gx {r['gx_s']:.3f} s  {peers}\n    {terms}", flush=True)
    day = datetime.date.today().isoformat()
    path = pathlib.Path(options.out) / f"{day}-{options.label}.json"
    path.write_text(json.dumps({"date": day, "cpus": len(os.sched_getaffinity(0)), "backend": options.backend,
                                "rows": rows}, indent=1) + "\n")
    print(f"written: {path}")


if __name__ == "__main__":
    main()
