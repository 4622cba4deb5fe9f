#!/usr/bin/env python3
"""Benchmarks of gx against its peers and limits, measured in the same run.

    bench/bench.py                 all of them, results into bench/results/
    bench/bench.py product scan    some of them
    bench/bench.py --rounds 5 ...  rounds to take the median of (default 3)
    bench/bench.py --order 2048 cholesky
                                   smaller matrices to factor (default 8192)
    bench/bench.py --dir /big ...  where the databases go (default: a temporary folder)

Every benchmark alternates gx and its peer round by round, and reports medians and the median of
the ratios, so that a machine that drifts drifts for both.  The files are in the page cache.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

from spectra import Spectra

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPUS = len(os.sched_getaffinity(0))

# Factorisations, stored to stored: the peer's name, how A is made, the call, flops and, with S words of memory, the
# words that are read of A and of what has been computed (docs/reference and the planner say why).
FACTORISATIONS = {
    "cholesky": {
        "peer": "potrf",
        "make": "SELECT gx_matrix_gallery('minij', {n}, 'A')",
        "call": "SELECT gx_cholesky('A', 'F')",
        "flops": lambda n: n**3 / 3,
        "words": lambda n, S: n**2 / 2 + n**3 / (3 * S**0.5),
    },
    "lu": {
        "peer": "getrf",
        "make": "SELECT gx_randn({n}, {n}, 'A')",
        "call": "SELECT gx_lu('A', 'F')",
        "flops": lambda n: 2 * n**3 / 3,
        "words": lambda n, S: n**2 + n**4 / (3 * S),
    },
    "qr": {
        "peer": "geqrf",
        "make": "SELECT gx_randn({n}, {n}, 'A', '{{\"seed\":1}}')",
        "call": "SELECT gx_qr('A', 'F')",
        "flops": lambda n: 4 * n**3 / 3,
        "words": lambda n, S: n**2 + n**4 / (2 * S),
    },
}


def connect(path, page_size=65536, **settings):
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.execute(f"PRAGMA page_size={page_size}")
    db.enable_load_extension(True)
    db.load_extension(str(ROOT / "gx"))
    for key, value in settings.items():
        db.execute("SELECT gx_config(?, ?)", (key, value))
    return db


def timed(function, *args):
    start = time.perf_counter()
    function(*args)
    return time.perf_counter() - start


def peer(*args):
    out = subprocess.run([ROOT / "build/bench/peer", *map(str, args)], check=True, capture_output=True)
    return float(out.stdout)


def stat(db, name):
    return db.execute("SELECT value FROM gx_stats WHERE name = ?", (name,)).fetchone()[0]


def warm(path):
    with open(path, "rb") as file:
        while file.read(1 << 24):
            pass


def median(values):
    return statistics.median(values)


def bytes_written():
    """By write() calls of this process."""
    return next(int(line.split()[1]) for line in open("/proc/self/io") if line.startswith("wchar"))


def peak_rss_kib():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1])


class Bench(Spectra):
    connect = staticmethod(connect)
    peer = staticmethod(peer)

    def __init__(self, folder, rounds, order=8192):
        self.folder, self.rounds, self.rows, self.order = pathlib.Path(folder), rounds, [], order

    def path(self, name):
        return str(self.folder / name)

    def report(self, name, figure, unit, target=None, **detail):
        """One line: what, how much, what was wanted."""
        row = {"name": name, "figure": figure, "unit": unit, "target": target, **detail}
        self.rows.append(row)
        extra = "  ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in detail.items())
        print(f"{name:34s} {figure:12.4g} {unit:10s} {('want ' + target) if target else '':18s} {extra}",
              flush=True)

    def matrices(self, name, n, *, seed=1):
        """A database with A and B, n x n f64, in a file; and NumPy's copies of them as .npy files."""
        path = self.path(name)
        if not os.path.exists(path):
            db = connect(path)
            db.execute(f"SELECT gx_random({n}, {n}, 'A', '{{\"seed\":{seed}}}')")
            db.execute(f"SELECT gx_random({n}, {n}, 'B', '{{\"seed\":{seed + 1}}}')")
            db.close()
        return path

    # ---- the product, in memory ------------------------------------------------------------------

    def product(self):
        """Stored product n = 4096 into a stored result, against dgemm in RAM + raw INSERT; and NumPy."""
        n = 4096
        base = self.matrices("product.db", n)
        db = connect(base)
        for name in "AB":
            db.execute(f"SELECT gx_export('{name}', '{self.path(name + '.npy')}', '{{\"overwrite\":true}}')")
        db.close()
        rows = []
        for _ in range(self.rounds):
            gx_s = self.stored_product(base, "full")
            dgemm_s = peer("dgemm", n, CPUS)
            insert_s = peer("insert", self.path("insert.db"), n * n * 8, 8 << 20, 65536)
            numpy_s = timed(self.numpy_product)
            unsynced_s = self.stored_product(base, "off")  # np.save does not wait for the disk either
            numpy_synced_s = timed(self.numpy_product, True)
            rows.append((gx_s, dgemm_s, insert_s, numpy_s, unsynced_s, numpy_synced_s))
        gx_s, dgemm_s, insert_s, numpy_s, unsynced_s, numpy_synced_s = (median(column) for column in zip(*rows))
        self.report("product 4096 / (dgemm + insert)", median([r[0] / (r[1] + r[2]) for r in rows]), "ratio",
                    "<= 1.15", gx_s=gx_s, dgemm_s=dgemm_s, insert_s=insert_s)
        self.report("product 4096, unsynced / numpy", median([r[4] / r[3] for r in rows]), "ratio",
                    "<= 1", gx_unsynced_s=unsynced_s, numpy_s=numpy_s)
        self.report("product 4096, synced / numpy, synced", median([r[0] / r[5] for r in rows]), "ratio",
                    "<= 1", gx_s=gx_s, numpy_synced_s=numpy_synced_s)
        self.report("product 4096, synced / numpy, unsynced", median([r[0] / r[3] for r in rows]), "ratio", "")

    def stored_product(self, base, synchronous):
        """Seconds of C = A B in a fresh, warm copy of the database."""
        work = self.path("work.db")
        shutil.copyfile(base, work)
        warm(work)
        db = connect(work)
        db.execute(f"PRAGMA synchronous={synchronous}")
        seconds = timed(db.execute, "SELECT gx_matmul('A', 'B', 'C')")
        db.close()
        os.unlink(work)
        return seconds

    def numpy_product(self, is_synced=False):
        a, b = np.load(self.path("A.npy")), np.load(self.path("B.npy"))
        with open(self.path("C.npy"), "wb") as file:
            np.save(file, a @ b)
            if is_synced:
                file.flush()
                os.fsync(file.fileno())

    def file_size(self):
        n = 4096
        path = self.path("size.db")
        db = connect(path)
        db.execute(f"SELECT gx_random({n}, {n}, 'A')")
        db.close()
        size = os.path.getsize(path)
        self.report("file bytes / element bytes, 4096", size / (8 * n * n), "ratio", "<= 1.02", bytes=size)
        os.unlink(path)

    def replace(self):
        """What replacing a stored matrix writes, under the settings of secure_delete; ON is Debian's default."""
        n = 2048
        for mode in ("delete", "wal"):
            written, seconds = {}, {}
            for secure in ("ON", "FAST"):
                db = connect(self.path(f"replace-{mode}-{secure}.db"))
                db.execute(f"PRAGMA journal_mode={mode}").fetchone()
                db.execute(f"PRAGMA secure_delete={secure}").fetchone()
                sql = "SELECT gx_scale('A', {}, 'B', '{{\"replace\":true}}')"
                db.execute(f"SELECT gx_random({n}, {n}, 'A')")
                for k in (2, 3):  # the file has all the room that it needs from now on
                    db.execute(sql.format(k))
                before = bytes_written()
                seconds[secure] = median([timed(db.execute, sql.format(k + 4)) for k in range(self.rounds)])
                written[secure] = (bytes_written() - before) / self.rounds / (8 * n * n)
                db.close()
            self.report(f"replacing writes, {mode}: ON / FAST", written["ON"] / written["FAST"], "ratio",
                        on_bytes=written["ON"], fast_bytes=written["FAST"], on_s=seconds["ON"], fast_s=seconds["FAST"])

    # ---- larger than memory ----------------------------------------------------------------------

    def out_of_core(self):
        """n = 8192 with a limit of 256 MiB, against the same with enough memory."""
        n = 8192
        base = self.matrices("large.db", n)
        rows = []
        for _ in range(self.rounds):
            for mode in ("delete", "wal"):
                rows.append((mode, self.product_in_process(base, n, "16GiB", mode),
                             self.product_in_process(base, n, "256MiB", mode)))
        flops = 2.0 * n**3
        words = (256 << 20) / 8
        for mode in ("delete", "wal"):
            ample = [r[1] for r in rows if r[0] == mode]
            tight = [r[2] for r in rows if r[0] == mode]
            self.report(f"product 8192 in 256 MiB, {mode}",
                        median([a["seconds"] / t["seconds"] for a, t in zip(ample, tight)]), "of in-mem",
                        ">= 0.85", gflops=flops / median([t["seconds"] for t in tight]) / 1e9,
                        in_memory_gflops=flops / median([a["seconds"] for a in ample]) / 1e9)
            self.report(f"  peak RSS growth, {mode}", max(t["rss"] for t in tight) / 2**20, "MiB", "<= 384")
            self.report(f"  bytes read / (2mnk/sqrt(S)), {mode}",
                        max(t["read"] for t in tight) / (8 * 2 * n**3 / words**0.5), "ratio", "<= 1.25")

    def product_in_process(self, base, n, limit, mode):
        """One product in a process of its own: seconds, growth of the peak resident set, bytes read."""
        work = self.path("work.db")
        shutil.copyfile(base, work)
        warm(work)
        out = subprocess.run([sys.executable, __file__, "--one-product", work, limit, mode], check=True,
                             capture_output=True)
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(work + suffix):
                os.unlink(work + suffix)
        return json.loads(out.stdout)

    def interrupt(self):
        """From sqlite3_interrupt() to the return of the call, during the n = 8192 product."""
        path = self.matrices("large.db", 8192)
        latencies = []
        rng = random.Random(7)
        for k in range(max(10, 3 * self.rounds)):
            db = connect(path, memory_limit="256MiB")
            asked = []

            def ask(db=db, asked=asked):
                asked.append(time.perf_counter())
                db.interrupt()

            timer = threading.Timer(0.2 + 4 * rng.random(), ask)
            timer.start()
            try:
                db.execute("SELECT gx_matmul('A', 'B', 'C')")
                raise SystemExit("the product ended before the interrupt")
            except sqlite3.OperationalError as error:
                latencies.append(time.perf_counter() - asked[0])
                assert "interrupt" in str(error), error
            assert db.execute("SELECT count(*) FROM gx WHERE name = 'C'").fetchone()[0] == 0
            db.close()
        self.report("interrupt to return, 8192", 1e3 * max(latencies), "ms (max)", "< 200",
                    median_ms=1e3 * median(latencies), calls=len(latencies))

    # ---- factorisations --------------------------------------------------------------------------

    def cholesky(self):
        self.factorisation("cholesky")

    def lu(self):
        self.factorisation("lu")

    def qr(self):
        self.factorisation("qr")

    def factorisation(self, name):
        """Stored to stored in memory, beside LAPACK in RAM + raw INSERT of the result; then in a quarter of that."""
        what, n = FACTORISATIONS[name], self.order
        base = self.path(f"{name}.db")
        tile = 8 * n * n // 64  # the default one at n = 8192
        db = connect(base, tile_bytes=tile)
        db.execute(what["make"].format(n=n))
        db.close()
        quarter, rows = 8 * n * n // 4, []
        for _ in range(self.rounds):
            lapack_s = peer(what["peer"], n, CPUS)
            insert_s = peer("insert", self.path("insert.db"), n * n * 8, tile, 65536)
            rows.append((lapack_s, insert_s, self.call_in_process(base, what["call"], "16GiB", tile),
                         self.call_in_process(base, what["call"], quarter, tile)))
        rate = what["flops"](n) / 1e9
        self.report(f"{name} {n} / ({what['peer']} + insert)",
                    median([ample["seconds"] / (lapack + insert) for lapack, insert, ample, _ in rows]), "ratio",
                    "<= 1.2", gx_s=median([r[2]["seconds"] for r in rows]), lapack_s=median([r[0] for r in rows]),
                    insert_s=median([r[1] for r in rows]), gflops=rate / median([r[2]["seconds"] for r in rows]))
        self.report(f"{name} {n} in a quarter of its size",
                    median([ample["seconds"] / tight["seconds"] for _, _, ample, tight in rows]), "of in-mem",
                    ">= 0.7", gflops=rate / median([r[3]["seconds"] for r in rows]),
                    peak_rss_mib=max(r[3]["rss"] for r in rows) / 2**20)
        self.report("  bytes read / formula", max(r[3]["bytes_read"] for r in rows) /
                    (8 * what["words"](n, quarter / 8)), "ratio", "<= 1.25")
        self.report("  tiles written / tiles of the result", max(r[3]["tiles_written"] / r[3]["tiles"] for r in rows),
                    "ratio", "= 1", tiles=rows[0][3]["tiles"], spills=max(r[3]["spills"] for r in rows))

    def call_in_process(self, base, sql, limit, tile):
        """One call in a process of its own, on a fresh, warm copy of the database: seconds and counters."""
        work = self.path("work.db")
        shutil.copyfile(base, work)
        warm(work)
        out = subprocess.run([sys.executable, __file__, "--one-call", work, str(limit), str(tile), sql],
                             check=True, capture_output=True)
        os.unlink(work)
        return json.loads(out.stdout)

    # ---- scans and rows --------------------------------------------------------------------------

    def scan(self):
        """gx_norm of 2 GiB against sqlite3_blob_read with the same number of connections."""
        n = 16384
        path = self.path("scan.db")
        db = connect(path)
        if not db.execute("SELECT count(*) FROM gx").fetchone()[0]:
            db.execute(f"SELECT gx_random({n}, {n}, 'A')")
        ident = db.execute("SELECT id FROM gx_meta WHERE name = 'A'").fetchone()[0]
        warm(path)
        rows = []
        for _ in range(max(5, self.rounds)):
            peer_s = peer("scan", path, ident, CPUS)
            db.execute("SELECT gx_config('readers', ?)", (CPUS,))
            gx_s = timed(db.execute, "SELECT gx_norm('A')")
            rows.append((peer_s, gx_s))
        db.close()
        gigabytes = 8 * n * n / 1e9
        self.report("scan 2 GiB: rate / blob_read rate", median([p / g for p, g in rows]), "ratio",
                    ">= 0.85", gx_gb_s=gigabytes / median([g for _, g in rows]),
                    blob_read_gb_s=gigabytes / median([p for p, _ in rows]), connections=CPUS)

    def cells(self):
        """4 million shuffled (i, j, value) rows in, and out again."""
        n, count = 2000, 4_000_000
        path = self.path("cells.db")
        db = connect(path)
        if not db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'r'").fetchone()[0]:
            order = np.random.default_rng(3).permutation(count)
            values = np.random.default_rng(4).random(count)
            db.execute("CREATE TABLE r(i INTEGER, j INTEGER, v REAL)")
            db.execute("BEGIN")
            db.executemany("INSERT INTO r VALUES(?, ?, ?)",
                           zip((order // n).tolist(), (order % n).tolist(), values.tolist()))
            db.execute("COMMIT")
        rows = []
        limit = 256 << 20
        db.execute("SELECT gx_config('memory_limit', ?)", (limit,))
        for _ in range(self.rounds):
            gx_s = timed(db.execute, "SELECT gx_store_cells('S', i, j, v) FROM r")
            db.execute("SELECT gx_drop('S')")
            plain_s = timed(db.execute, "CREATE TABLE p(i INTEGER, j INTEGER, v REAL, PRIMARY KEY(i, j)) WITHOUT ROWID")
            plain_s += timed(db.execute, "INSERT INTO p SELECT i, j, v FROM r")
            db.execute("DROP TABLE p")
            rows.append((plain_s, gx_s))
        self.report("store_cells: plain table / gx", median([p / g for p, g in rows]), "ratio", ">= 3",
                    plain_s=median([p for p, _ in rows]), gx_s=median([g for _, g in rows]),
                    peak_memory_mib=stat(db, "memory_peak") / 2**20, limit_mib=limit / 2**20)
        db.execute("SELECT gx_store_cells('S', i, j, v) FROM r")
        seconds = [timed(lambda: db.execute("SELECT sum(value) FROM gx_cells('S')").fetchone())
                   for _ in range(max(5, self.rounds))]
        self.report("SELECT sum(value) FROM gx_cells", count / median(seconds) / 1e6, "M rows/s", ">= 5")
        before = stat(db, "tiles_read")
        db.execute("SELECT value FROM gx_cells('S') WHERE i = 1234 AND j = 567").fetchone()
        self.report("tiles read by a point query", stat(db, "tiles_read") - before, "tiles", "= 1")
        db.close()

    def small(self):
        """4 x 4 products of values, one SQL statement."""
        count = 400_000
        db = connect(":memory:")
        db.execute("CREATE TABLE t(a BLOB, b BLOB)")
        header = b"gxmv\x01\0\0\0" + (4).to_bytes(8, "little") * 2 + bytes(8)
        rng = np.random.default_rng(5)
        rows = [(header + rng.random(16).tobytes(), header + rng.random(16).tobytes()) for _ in range(1000)]
        db.executemany("INSERT INTO t VALUES(?, ?)", rows * (count // 1000))
        sql = "SELECT sum(length(gx_matmul(a, b))) FROM t"
        seconds = [timed(lambda: db.execute(sql).fetchone()) for _ in range(max(5, self.rounds))]
        self.report("4 x 4 products", count / median(seconds) / 1e3, "k calls/s", ">= 200")
        db.close()


def one_product(path, limit, mode):
    """Child process of out_of_core."""
    db = connect(path)
    db.execute(f"PRAGMA journal_mode={mode}").fetchone()
    db.execute("SELECT gx_config('memory_limit', ?)", (limit,))
    db.execute("SELECT gx_norm(gx_matmul('[[1,2],[3,4]]', '[[1,2],[3,4]]'))")
    before, read = peak_rss_kib(), stat(db, "bytes_read")
    seconds = timed(db.execute, "SELECT gx_matmul('A', 'B', 'C')")
    print(json.dumps({"seconds": seconds, "rss": (peak_rss_kib() - before) * 1024,
                      "read": stat(db, "bytes_read") - read}))


def one_call(path, limit, tile, sql):
    """Child process of a factorisation."""
    db = connect(path, tile_bytes=tile, memory_limit=limit)
    db.execute("SELECT gx_norm(gx_matmul('[[1,2],[3,4]]', '[[1,2],[3,4]]'))")
    names = ("bytes_read", "tiles_written", "spills")
    rss, before = peak_rss_kib(), {name: stat(db, name) for name in names}
    seconds = timed(db.execute, sql)
    counted = {name: stat(db, name) - before[name] for name in names}
    tiles = db.execute("SELECT count(*) FROM gx_tile WHERE id >> 32 = (SELECT id FROM gx_meta WHERE name = 'F')")
    print(json.dumps({"seconds": seconds, "rss": (peak_rss_kib() - rss) * 1024, "tiles": tiles.fetchone()[0],
                      **counted}))


def machine():
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "?")
    return {"cpu": cpu, "cpus": CPUS, "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
            "system": platform.platform(), "sqlite": sqlite3.sqlite_version, "numpy": np.__version__}


ALL = ["product", "file_size", "replace", "out_of_core", "interrupt", "scan", "syev", "eigs", "big_eigs", "pca", "cells", "small", *FACTORISATIONS]


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "--one-product":
        return one_product(*sys.argv[2:])
    if len(sys.argv) == 6 and sys.argv[1] == "--one-call":
        return one_call(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join(ALL))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--order", type=int, default=8192, help="of the matrices that are factored (default 8192)")
    parser.add_argument("--dir")
    parser.add_argument("--label", default="cpu", help="goes into the name of the result file")
    options = parser.parse_args()
    unknown = set(options.names) - set(ALL)
    if unknown:
        parser.error(f"unknown benchmark: {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        bench = Bench(folder, options.rounds, options.order)
        for name in options.names or ALL:
            getattr(bench, name)()
    day = datetime.date.today().isoformat()
    names = "all" if not options.names else "-".join(options.names)
    result = ROOT / "bench/results" / f"{day}-{options.label}-{names}.json"
    result.parent.mkdir(exist_ok=True)
    result.write_text(json.dumps({"date": day, "machine": machine(), "rounds": options.rounds,
                                  "results": bench.rows}, indent=1) + "\n")
    print(f"written: {result.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
