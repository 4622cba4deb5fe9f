#!/usr/bin/env python3
"""Every function that passes over a matrix, beside gx_norm's scan of the same matrix in the same run.

    bench/passes.py                                 order 60 000 f32 (14.4 GB), 10 000 000 x 64 f32, in /dev/shm
    bench/passes.py --order 8000 --rows 1000000     on a small machine
    bench/passes.py --dtype f64 --order 40000 ...
    bench/passes.py --dir /big --so path/gx.so --backend cpu --label before ...

A row is a call: its time (the best of --rounds), bytes of the matrix per second, time / the scan's, and time / limit,
where the limit is the larger of the scan's time and the call's flops at the rate of a product of order 4096 of the
dtype that it computes in; what is stored comes on top, at the rate of INSERTs of blobs of 8 MiB into new pages by one
connection.  `x its cpu` is processor time / the scan's, which a busy machine blurs less.  Tile reads / tiles and bytes
read / bytes of the matrix come from gx_stats; "on the device" where a device did it.  What stores is written with
`replace`.  Rows above twice their limit are listed at the end, each with its reason.  Values come out of a table, as
SQLite hands them over; its own share of the time is measured apart.  The last table repeats some with 1, 2, 4 ...
threads.  Results go to bench/results/ as a dated file.  Needs python3 and numpy, and nothing else of gx.
"""
import argparse
import datetime
import mmap
import os
import pathlib
import platform
import sqlite3
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPUS = len(os.sched_getaffinity(0))
BYTES = {"f32": 4, "f64": 8}
STATS = ("bytes_read", "bytes_written", "tiles_read", "helper_reads", "device_calls")

# Why a row may take more than twice its limit.
REASONS = {
    "topk": "a heap is looked at for each element, by scalar code where it is better than the root",
    "stored": "one connection writes: what is replaced goes to the journal, or the log, once more",
    "lstsq": "a chain of small triangles a tile; single-threaded products of 64 columns run at a third of the full rate",
    "rank": "as lstsq",
    "T.T @ T": "single-threaded products of 64 columns run at a third of the full rate",
    "cov": "f32 is computed in f64: converted in the cache, and products of 65 columns at a third of the full rate",
    "corr": "as cov", "pca": "as cov",
}


class Passes:
    def __init__(self, options, path):
        self.options, self.lines, self.scans, self.processor, self.rates = options, [], {}, {}, {}
        self.element, self.made, self.slow, self.insert_rate = BYTES[options.dtype], 0, [], 0
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA page_size=65536")
        self.db.execute("PRAGMA synchronous=off")
        self.db.execute("PRAGMA temp_store=memory")
        self.db.enable_load_extension(True)
        self.db.load_extension(options.so)
        if options.backend:
            self.one("SELECT gx_config('backend', ?)", options.backend)

    def one(self, sql, *params):
        return self.db.execute(sql, params).fetchone()[0]

    def stats(self):
        rows = dict(self.db.execute("SELECT name, value FROM gx_stats"))
        return {name: rows.get(name, 0) for name in STATS}

    def say(self, text=""):
        print(text, flush=True)
        self.lines.append(text)

    def timed(self, sql, rounds=None):
        """Seconds of the best round, and what its counters say."""
        best, counters, processor = float("inf"), {}, float("inf")
        for _ in range(rounds or self.options.rounds):
            before, start, used = self.stats(), time.perf_counter(), time.process_time()
            self.db.execute(sql).fetchall()
            seconds = time.perf_counter() - start
            processor = min(processor, time.process_time() - used)
            if seconds < best:
                after = self.stats()
                best, counters = seconds, {name: after[name] - before[name] for name in STATS}
        return best, counters | {"processor": processor}

    def bytes_of(self, matrix):
        return self.one("SELECT rows * cols FROM gx_meta WHERE name = ?", matrix) * self.element

    def tiles_of(self, matrix):
        return self.one("SELECT ((rows + tile_rows - 1) / tile_rows) * ((cols + tile_cols - 1) / tile_cols) "
                        "FROM gx_meta WHERE name = ?", matrix)

    def row(self, label, matrix, sql, flops=0, dtype=None, rounds=None):
        try:
            seconds, counters = self.timed(sql, rounds)
        except sqlite3.Error as problem:
            self.say(f"{label:34s} {problem}")
            return
        size, scan = self.bytes_of(matrix), self.scans[matrix]
        written = counters["bytes_written"]
        limit = max(scan, flops / self.rates[dtype or self.options.dtype])
        limit += written / self.insert_rate if written > 1 << 20 else 0
        note = f"  writes {written / seconds / 1e9:6.2f} GB/s" if written > 1 << 20 else ""
        note += "  on the device" if counters["device_calls"] else ""
        if seconds > 2 * limit and counters["processor"] > 2 * self.processor[matrix]:
            self.slow.append((matrix, label, seconds / limit))
        self.say(f"{label:34s} {seconds:9.4f} s {size / seconds / 1e9:7.2f} GB/s {seconds / scan:7.2f} x scan "
                 f"{seconds / limit:7.2f} x limit {counters['processor'] / self.processor[matrix]:7.2f} x its cpu  reads/tiles {counters['tiles_read'] / self.tiles_of(matrix):6.2f}  "
                 f"read/bytes {counters['bytes_read'] / size:6.3f}{note}")

    def scan(self, matrix):
        self.scans[matrix], counters = self.timed(f"SELECT gx_norm('{matrix}')", 2 * self.options.rounds + 1)
        self.processor[matrix] = counters["processor"]

    def make(self, name, rows, cols):
        """Numbers of its own: with one seed, the columns of all matrices would be the same."""
        start, seed = time.perf_counter(), self.made
        self.one(f"SELECT gx_random({rows}, {cols}, '{name}', '{{\"dtype\":\"{self.options.dtype}\",\"seed\":{seed}}}')")
        seconds = time.perf_counter() - start
        self.made += 1
        if rows * cols > 1 << 24:
            self.say(f"# {name}: {rows} x {cols}, made and stored in {seconds:.1f} s")

    def measure_inserts(self):
        """What one connection stores: blobs of 8 MiB into new pages."""
        blob, count = os.urandom(8 << 20), 32
        self.db.execute("CREATE TABLE raw(id INTEGER PRIMARY KEY, data BLOB)")
        start = time.perf_counter()
        self.db.execute("BEGIN")
        for _ in range(count):
            self.db.execute("INSERT INTO raw(data) VALUES(?)", (blob,))
        self.db.execute("COMMIT")
        self.insert_rate = count * len(blob) / (time.perf_counter() - start)
        self.db.execute("DROP TABLE raw")
        self.say(f"# INSERT of blobs: {self.insert_rate / 1e9:.2f} GB/s")

    def measure_flops(self):
        """Products of order 4096 of values: what the processors compute."""
        for dtype in ("f32", "f64"):
            n = 4096 if CPUS > 4 else 2048
            sql = (f"WITH v AS MATERIALIZED (SELECT gx_random({n}, {n}, NULL, '{{\"dtype\":\"{dtype}\"}}') AS a) "
                   "SELECT CALLS FROM v")
            call = "length(gx_matmul(a, a))"
            once, _ = self.timed(sql.replace("CALLS", call), 3)
            more, _ = self.timed(sql.replace("CALLS", ", ".join([call] * 5)), 3)
            self.rates[dtype] = 4 * 2 * n**3 / max(more - once, 1e-9)
            self.say(f"# product of order {n} {dtype}: {self.rates[dtype] / 1e9:.0f} GFLOP/s")

    # The tables --------------------------------------------------------------------------------------------------

    def square(self):
        n = self.options.order
        self.make("A", n, n)
        for k in (1, 8, 64):
            self.make(f"X{k}", n, k)
        self.scan("A")
        self.say(f"\nA: {n} x {n} {self.options.dtype}, {self.bytes_of('A') / 1e9:.2f} GB, {self.tiles_of('A')} tiles; "
                 f"scan {self.scans['A']:.4f} s")
        for kind in ("fro", "1", "inf", "max"):
            self.row(f"norm {kind}", "A", f"SELECT gx_norm('A', '{kind}')")
        for axis in (0, 1):
            self.row(f"sum axis {axis}", "A", f"SELECT length(gx_sum('A', {axis}))")
        for name in ("min", "max", "sum", "mean"):
            self.row(name, "A", f"SELECT gx_{name}('A')")
        self.row("slice of a tenth of the rows", "A", f"SELECT length(gx_slice('A', 0, {n // 10}, NULL, NULL))")
        for k in (1, 8, 64):
            for options, text in (("{}", f"A @ X{k}"), ('{"transa":true}', f"A.T @ X{k}")):
                self.row(text, "A", f"SELECT length(gx_matmul('A', 'X{k}', NULL, '{options}'))", 2 * n * n * k)
            self.row(f"X{k}.T @ A", "A", f"SELECT length(gx_matmul('X{k}', 'A', NULL, '{{\"transa\":true}}'))", 2 * n * n * k)

    def long(self):
        m, n = self.options.rows, 64
        self.make("T", m, n)
        self.make("b", m, 1)
        self.make("W", n, n)
        self.make("w", n, 3)
        self.scan("T")
        self.say(f"\nT: {m} x {n} {self.options.dtype}, {self.bytes_of('T') / 1e9:.2f} GB, {self.tiles_of('T')} tiles; "
                 f"scan {self.scans['T']:.4f} s")
        for axis in (0, 1):
            self.row(f"sum axis {axis}", "T", f"SELECT length(gx_sum('T', {axis}))")
        self.row("mean axis 1", "T", "SELECT length(gx_mean('T', 1))")
        self.row("slice of a tenth of the rows", "T", f"SELECT length(gx_slice('T', {m // 10}, {m // 5}, NULL, NULL))")
        self.row("T.T @ T", "T", "SELECT length(gx_matmul('T', 'T', NULL, '{\"transa\":true}'))", m * n * n)
        self.row("T.T @ b", "T", "SELECT length(gx_matmul('T', 'b', NULL, '{\"transa\":true}'))", 2 * m * n)
        self.row("cov", "T", "SELECT length(gx_cov('T'))", m * n * n, "f64")
        self.row("corr", "T", "SELECT length(gx_corr('T'))", m * n * n, "f64")
        self.row("pca, all", "T", "SELECT length(gx_pca('T'))", m * n * n, "f64")
        self.row("pca, 3", "T", "SELECT gx_pca('T', 3, 'model', '{\"replace\":true}')", m * n * n, "f64")
        self.row("lstsq", "T", "SELECT length(gx_lstsq('T', 'b'))", m * n * n)
        self.row("rank", "T", "SELECT gx_rank('T')", m * n * n)
        self.row("pca_project, 3", "T", "SELECT gx_pca_project('T', 'model', 'P', '{\"replace\":true}')", 6 * m * n)
        self.row("T @ w (64 x 3)", "T", "SELECT gx_matmul('T', 'w', 'P', '{\"replace\":true}')", 6 * m * n)
        self.row("T @ W (64 x 64), stored", "T", "SELECT gx_matmul('T', 'W', 'S', '{\"replace\":true}')", 2 * m * n * n,
                 rounds=1)
        self.row("topk 5, axis 0", "T", "SELECT count(*) FROM gx_topk('T', 5, '{\"axis\":0}')", rounds=1)
        for call, text in (("gx_scale('T', 2, 'S', '{\"replace\":true}')", "scale, stored"),
                           ("gx_copy('T', 'S', '{\"replace\":true}')", "copy, stored"),
                           ("gx_transpose('T', 'S', '{\"replace\":true}')", "transpose, stored")):
            self.row(text, "T", f"SELECT {call}", rounds=1)

    def wide(self):
        """Scores of 1000 queries: the best of each row."""
        n = max(2000, self.options.rows // 50)
        self.make("Q", 1000, n)
        self.scan("Q")
        self.say(f"\nQ: 1000 x {n} {self.options.dtype}, {self.bytes_of('Q') / 1e9:.2f} GB; scan {self.scans['Q']:.4f} s")
        self.row("topk 10 of each row", "Q", "SELECT count(*) FROM gx_topk('Q', 10)")

    def value_row(self, label, sql, size, own=0.0, beside=""):
        """A statement over the table v, as often as rounds + 2 say; own: what SQLite took of it to hand operands over."""
        try:
            seconds, counters = self.timed(sql, self.options.rounds + 2)
        except sqlite3.Error as problem:
            self.say(f"{label:34s} {problem}")
            return 0.0
        note = "  on the device" if counters["device_calls"] else ""
        self.say(f"{label:34s} {seconds:9.4f} s {size / seconds / 1e9:7.2f} GB/s, without SQLite's share "
                 f"{max(seconds - own, 0):9.4f} s{beside}{note}")
        return seconds

    def values(self):
        """Values out of a table: SQLite copies each one that is looked at, once a statement."""
        n = min(self.options.order, 14000 if self.options.dtype == "f32" else 10000)
        size, key = n * n * self.element, f'\'{{"dtype":"{self.options.dtype}"}}\''
        narrow = ", ".join(f"gx_random({n}, {k}, NULL, {key}) AS x{k}" for k in (1, 8, 64))
        self.db.execute(f"CREATE TEMP TABLE v AS SELECT {narrow}, gx_random({n}, {n}, NULL, {key}) AS a")
        self.say(f"\nV: {n} x {n} {self.options.dtype}, a value of {size / 1e9:.2f} GB in a table")
        share = self.value_row("handed over by SQLite", "SELECT gx_get(a, 0, 0) FROM v", size)
        self.value_row("norm", "SELECT gx_norm(a) FROM v", size, share)
        self.value_row("sum axis 1", "SELECT length(gx_sum(a, 1)) FROM v", size, share)
        for k in (1, 8, 64):
            self.value_row(f"V @ X{k}", f"SELECT length(gx_matmul(a, x{k})) FROM v", size, share)
            self.value_row(f"V.T @ X{k}", f"SELECT length(gx_matmul(a, x{k}, NULL, '{{\"transa\":true}}')) FROM v", size, share)
        for call in ("gx_copy(a)", "gx_scale(a, 2)", "gx_transpose(a)"):
            self.value_row(call, f"SELECT length({call}) FROM v", size, share)
        self.db.execute("DROP TABLE v")
        self.products()

    def products(self):
        """Two values of order 2048 in, one out, beside NumPy's product and its copy into fresh memory."""
        n, dtype = 2048, np.dtype(self.options.dtype.replace("f", "float"))
        size, rng = n * n * self.element, np.random.default_rng(1)
        a, b = rng.random((n, n)).astype(dtype), rng.random((n, n)).astype(dtype)
        key = f'\'{{"dtype":"{self.options.dtype}"}}\''
        self.db.execute(f"CREATE TEMP TABLE v AS SELECT gx_random({n}, {n}, NULL, {key}) AS a, gx_random({n}, {n}, NULL, {key}) AS b")

        self.say(f"\nvalues of order {n} {self.options.dtype}, {size / 1e6:.0f} MB each, all in turn, {2 * self.options.rounds + 1} rounds")
        flat = a.reshape(-1)

        def fresh_copy():
            memory = mmap.mmap(-1, size)
            np.frombuffer(memory, dtype)[:] = flat
            return memory

        calls = {"NumPy: a @ b": lambda: a @ b, "one memcpy into fresh memory": fresh_copy}
        for label, sql in (("one handed over by SQLite", "gx_get(a, 0, 0)"), ("two handed over by SQLite", "gx_get(a, 0, 0) + gx_get(b, 0, 0)"),
                           ("product", "length(gx_matmul(a, b))"), ("copy", "length(gx_copy(a))"), ("add", "length(gx_add(a, b))"),
                           ("transpose", "length(gx_transpose(a))")):
            calls[label] = lambda sql=sql: self.one(f"SELECT {sql} FROM v")
        took = {label: [] for label in calls}
        for _ in range(2 * self.options.rounds + 2):
            for label, call in calls.items():
                start = time.perf_counter()
                result = call()
                took[label].append(time.perf_counter() - start)
                del result
        took = {label: np.array(seconds[1:]) for label, seconds in took.items()}
        for label, peer, own in (("product", "NumPy: a @ b", "two"), ("copy", "one memcpy into fresh memory", "one"),
                                 ("add", "one memcpy into fresh memory", "two"), ("transpose", "one memcpy into fresh memory", "one")):
            share = took[f"{own} handed over by SQLite"]
            self.say(f"{label:12s} {np.median(took[label]):8.4f} s, SQLite's share {np.median(share):8.4f} s; {peer} {np.median(took[peer]):8.4f} s: "
                     f"{np.median(took[label] / took[peer]):6.2f} x with it, {np.median((took[label] - share) / took[peer]):6.2f} x without")
        self.db.execute("DROP TABLE v")

    def reasons(self):
        self.say("\nabove twice the limit")
        for matrix, label, ratio in self.slow:
            reason = next((text for start, text in REASONS.items() if label.startswith(start) or label.endswith(start)), "")
            self.say(f"{matrix} {label:32s} {ratio:7.2f} x limit: {reason}")

    def scaling(self):
        counts = [1]
        while counts[-1] * 2 <= CPUS:
            counts.append(counts[-1] * 2)
        calls = {"norm A": "SELECT gx_norm('A')", "A @ X1": "SELECT length(gx_matmul('A', 'X1'))",
                 "A.T @ X8": "SELECT length(gx_matmul('A', 'X8', NULL, '{\"transa\":true}'))",
                 "A @ X64": "SELECT length(gx_matmul('A', 'X64'))",
                 "norm T": "SELECT gx_norm('T')",
                 "T.T @ T": "SELECT length(gx_matmul('T', 'T', NULL, '{\"transa\":true}'))",
                 "cov T": "SELECT length(gx_cov('T'))", "lstsq T b": "SELECT length(gx_lstsq('T', 'b'))",
                 "sum T axis 1": "SELECT length(gx_sum('T', 1))", "topk Q": "SELECT count(*) FROM gx_topk('Q', 10)"}
        self.say("\nseconds by threads (and readers)" + "".join(f"{count:>10d}" for count in counts))
        for label, sql in calls.items():
            cells = []
            for count in counts:
                for key in ("threads", "readers"):
                    self.one("SELECT gx_config(?, ?)", key, count)
                cells.append(self.timed(sql, 1 if count < CPUS else 2)[0])
            self.say(f"{label:32s}" + "".join(f"{cell:10.4f}" for cell in cells))
        for key in ("threads", "readers"):
            self.one("SELECT gx_config(?, 'default')", key)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--order", type=int, default=60000)
    parser.add_argument("--rows", type=int, default=10000000)
    parser.add_argument("--dtype", choices=BYTES, default="f32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", default="/dev/shm" if os.path.isdir("/dev/shm") else None)
    parser.add_argument("--so", default=str(ROOT / "gx"))
    parser.add_argument("--backend", help="cpu or cuda, where a device is there too")
    parser.add_argument("--label", default="passes")
    parser.add_argument("--skip", nargs="*", default=[], help="tables: square long wide values scaling")
    parser.add_argument("--out", default=str(ROOT / "bench/results"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        bench = Passes(options, os.path.join(folder, "passes.db"))
        bench.say(f"# {platform.node()}, {platform.machine()}, {CPUS} processors; SQLite {sqlite3.sqlite_version}, "
                  f"Python {platform.python_version()}, NumPy {np.__version__}; {datetime.date.today()}")
        bench.say(f"# {' '.join(f'{key}={value}' for key, value in vars(options).items() if key not in ('so', 'out'))}")
        bench.say(f"# gx {bench.one('SELECT gx_version()')}")
        bench.measure_inserts()
        bench.measure_flops()
        for table in ("square", "long", "wide", "values", "reasons", "scaling"):
            if table not in options.skip:
                getattr(bench, table)()
        bench.db.close()
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{datetime.date.today()}-{options.label}-{options.dtype}.txt"
    path.write_text("\n".join(bench.lines) + "\n")
    print(path)


if __name__ == "__main__":
    main()
