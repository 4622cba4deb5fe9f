#!/usr/bin/env python3
"""Nearest neighbours beside FAISS and sqlite-vec: ratios of medians of alternating rounds, within one run.

    python bench/knn.py [--rows 200000] [--cols 768] [--queries 1000] [--k 10] [--rounds 5] [--only NAME] [--dir DIR]
    python bench/knn.py --gpu [--rounds 5] [--dir DIR]          # beside CuPy, in less than a minute

Peers come from PyPI (faiss-cpu, sqlite-vec); one that is not installed is left out.  The stored matrix lies in the page
cache, FAISS's in memory; both have THREADS threads.  Results are compared with products in double precision before any clock runs.
"""
import argparse
import os
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
THREADS = len(os.sched_getaffinity(0))


def optional(name):
    try:
        return __import__(name)
    except ImportError:
        return None


def connect(path, **settings):
    db = sqlite3.connect(path)
    db.enable_load_extension(True)
    db.load_extension(os.environ.get("GX_SO") or os.path.join(HERE, "gx"))
    for key, value in {"threads": THREADS, "readers": THREADS, **settings}.items():
        db.execute("SELECT gx_config(?, ?)", (key, value))
    return db


def store(db, name, a):
    db.execute("SELECT gx_from_bytes(?, 'f32', ?, ?)", (a.tobytes(), a.shape[1], name))
    db.commit()


def rounds(count, **todo):
    """Seconds of each, in turns; the first round warms up and is dropped."""
    seconds = {name: [] for name in todo}
    for turn in range(count + 1):
        for name, work in todo.items():
            start = time.perf_counter()
            work()
            if turn > 0:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(s) for name, s in seconds.items()}


def show(title, seconds, most=""):
    for name, s in seconds.items():
        ratio = "" if name == "gx" else f"   gx / {name} = {seconds['gx'] / s:.3f}   {most}"
        print(f"{title:34s} {name:12s} {1e3 * s:10.3f} ms{ratio}", flush=True)


def knn(db, q, e, k, metric):
    return db.execute("SELECT query, id, score FROM gx_knn(?, ?, ?, ?)", (q, e, k, f'{{"metric":"{metric}","dtype":"f32"}}')).fetchall()


def compare(found, Q, E, k, metric):
    """Against products in double: the ids, but for ties."""
    found = np.array(found)
    for q in range(0, len(Q), max(1, len(Q) // 8)):
        exact = E.astype(np.float64) @ Q[q].astype(np.float64)
        if metric == "l2":
            exact = -np.sqrt(np.sum((E.astype(np.float64) - Q[q].astype(np.float64)) ** 2, axis=1))
        best = np.sort(exact)[::-1][:k]
        mine = found[found[:, 0] == q]
        assert np.allclose(exact[mine[:, 1].astype(int)], best, rtol=1e-12, atol=1e-12), (metric, q)


def against_faiss(args, db, E, Q):
    faiss = optional("faiss")
    for metric in ("dot", "l2", "cosine"):
        todo = {"gx": lambda: knn(db, "Q", "E", args.k, metric)}
        if metric != "cosine":
            compare(todo["gx"](), Q, E, args.k, metric)
        if faiss:
            faiss.omp_set_num_threads(THREADS)
            index = (faiss.IndexFlatL2 if metric == "l2" else faiss.IndexFlatIP)(E.shape[1])
            index.add(E / np.linalg.norm(E, axis=1, keepdims=True) if metric == "cosine" else E)
            todo["faiss"] = lambda: index.search(Q, args.k)
        show(f"{len(Q)} queries, {metric}", rounds(args.rounds, **todo), "(<= 1.1)")


def one_query(args, db, E, Q):
    q = Q[0].tobytes()
    for metric in ("cosine", "dot", "l2"):
        show(f"one query, {metric}", rounds(2 * args.rounds, gx=lambda: knn(db, q, "E", args.k, metric),
                                          scan=lambda: db.execute("SELECT gx_norm('E')").fetchall()), "(<= 1.2)")


def against_sqlite_vec(args, db, E, Q):
    vec = optional("sqlite_vec")
    if not vec:
        return
    few = 3
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        other = sqlite3.connect(os.path.join(folder, "vec.db"))
        other.enable_load_extension(True)
        vec.load(other)
        other.execute(f"CREATE VIRTUAL TABLE v USING vec0(e float[{E.shape[1]}] distance_metric=cosine)")
        other.executemany("INSERT INTO v(rowid, e) VALUES (?, ?)", ((i, row.tobytes()) for i, row in enumerate(E)))
        other.commit()

        def scan():
            for q in Q[:few]:
                other.execute("SELECT rowid, distance FROM v WHERE e MATCH ? AND k = ?", (q.tobytes(), args.k)).fetchall()

        seconds = rounds(2, gx=lambda: knn(db, "Q", "E", args.k, "cosine"), vec=scan)
        seconds = {"gx": seconds["gx"] / len(Q), "sqlite-vec": seconds["vec"] / few}
        show(f"a batch of {len(Q)}, seconds a query", seconds)
        print(f"{'':34s} sqlite-vec / gx = {seconds['sqlite-vec'] / seconds['gx']:.1f}   (>= 20)")
        q = Q[0].tobytes()
        show("one query in turn, cosine",
             rounds(10 * args.rounds, gx=lambda: knn(db, q, "E", args.k, "cosine"), **{"sqlite-vec": lambda: other.execute(
                 "SELECT rowid, distance FROM v WHERE e MATCH ? AND k = ?", (q, args.k)).fetchall()}))


def all_pairs(args, folder):
    faiss = optional("faiss")
    A = np.random.default_rng(3).standard_normal((20000, 256)).astype(np.float32)
    db = connect(os.path.join(folder, "pairs.db"))
    store(db, "A", A)
    todo = {"gx": lambda: knn(db, "A", "A", args.k, "dot")}
    if faiss:
        faiss.omp_set_num_threads(THREADS)
        index = faiss.IndexFlatIP(256)
        index.add(A)
        todo["faiss"] = lambda: index.search(A, args.k)
    show("all pairs of 20000 x 256", rounds(args.rounds, **todo), "(<= 1.1)")


def latency(args, folder):
    """What one statement costs beside its work."""
    E = np.random.default_rng(4).standard_normal((10000, 768)).astype(np.float32)
    db = connect(os.path.join(folder, "small.db"))
    store(db, "E", E)
    store(db, "S", E[:10])
    q = E[0].tobytes()
    seconds = rounds(50, gx=lambda: knn(db, q, "E", 10, "cosine"), scan=lambda: db.execute("SELECT gx_norm('E')").fetchall(),
                     ten_rows=lambda: knn(db, q, "S", 10, "cosine"))
    show("one query, 10000 x 768", seconds)


# ---- on a GPU, beside CuPy -------------------------------------------------------------------------------------------

def told(db):
    return dict(db.execute("SELECT name, value FROM gx_stats WHERE name <> 'note'").fetchall())


def summed(db, q, e, k, metric="dot"):
    """All rows of the result are made, and none is turned into Python's objects."""
    return db.execute("SELECT count(*), sum(score), sum(id) FROM gx_knn(?, ?, ?, ?)", (q, e, k, f'{{"metric":"{metric}"}}')).fetchone()


def once(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class DeviceStream:
    """What as many bytes take from a plain file in the page cache to the device at least (stream.cu), THREADS threads, one round at a time."""

    def __init__(self, folder, E):
        path, program = os.path.join(folder, "E.bin"), os.path.join(folder, "stream")
        E.tofile(path)
        made = subprocess.run(["nvcc", "-O2", "-std=c++17", os.path.join(HERE, "bench/stream.cu"), "-o", program], capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        self.program = subprocess.Popen([program, path, str(THREADS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.ways = self.program.stdout.readline().strip("; \n").split(";")
        self.seconds = []  # a row a round
        os.unlink(path)

    def round(self):
        self.program.stdin.write("\n")
        self.seconds.append([float(s) for s in self.program.stdout.readline().split()])

    def median(self):
        """Of the way that is the fastest; the rounds are forgotten."""
        medians = [statistics.median(way) for way in zip(*self.seconds)]
        print("stream to the device:", "; ".join(f"{way}: {1e3 * s:.2f} ms" for way, s in zip(self.ways, medians)), flush=True)
        self.seconds = []
        return min(medians)


def first_calls(folder, products, up):
    """From the page cache: E read, copied and searched once, in turns with its stream to the device without a database (up: a
    DeviceStream or None), its scan by the CPU (a norm) and the search of a kept E, beside the product of resident arrays (seconds by
    number of queries, where CuPy is there).  The device is open and its staging buffers are there: another matrix has been through it."""
    db = connect(os.path.join(folder, "knn.db"), backend="cuda")
    db.execute("SELECT gx_sum('warm')").fetchall()
    for queries in (1000, 10000):
        seconds = {"gx": [], "scan": [], "kept": []}
        for turn in range(61):  # one call varies by a tenth, and so does one scan
            db.execute("SELECT gx_config('backend', 'cpu')").fetchall()  # closes the device: nothing is kept
            if up is not None:
                up.round()
            seconds["scan"].append(once(lambda: db.execute("SELECT gx_norm('E')").fetchall()))
            db.execute("SELECT gx_config('backend', 'cuda')").fetchall()
            summed(db, "Q1000", "warm", 10)
            seconds["gx"].append(once(lambda: summed(db, f"Q{queries}", "E", 10)))
            seconds["kept"].append(once(lambda: summed(db, f"Q{queries}", "E", 10)))
        median = {name: statistics.median(s) for name, s in seconds.items()} | ({} if up is None else {"stream": up.median()})
        if queries in products:
            median["product"] = products[queries]
        ratios = ", ".join(f"max({way}, {bound}) = {median['gx'] / max(median[way], median[bound]):.3f}"
                           for way in ("stream", "scan") for bound in ("product", "kept") if way in median and bound in median)
        print(f"first call, {queries} queries: {', '.join(f'{name} {1e3 * s:.1f} ms' for name, s in median.items())};"
              f"   gx / {ratios}   (stream, product: <= 1.3)", flush=True)


def first_calls_by_readers(args, folder):
    """The first call of 1000 queries with fewer helpers, whose buffers stay in the cache; what the load alone takes."""
    db = connect(os.path.join(folder, "knn.db"), backend="cuda")
    for readers in (4, 6, 8, 12, THREADS):
        db.execute("SELECT gx_config('readers', ?)", (readers,)).fetchall()
        seconds = {"gx": [], "scan": []}
        for turn in range(4):
            db.execute("SELECT gx_config('backend', 'cpu')").fetchall()
            seconds["scan"].append(once(lambda: db.execute("SELECT gx_norm('E')").fetchall()))
            db.execute("SELECT gx_config('backend', 'cuda')").fetchall()
            summed(db, "Q1000", "warm", 10)
            before = told(db)
            seconds["gx"].append(once(lambda: summed(db, "Q1000", "E", 10)))
            after = told(db)
        times = " ".join(f"{name} {(after[name] - before[name]) / 1e6:.1f}" for name in after
                         if name.endswith("_ns") and name not in ("predicted_ns", "measured_ns") and after[name] != before[name])
        print(f"first call, 1000 queries, {readers:2d} readers: {1e3 * statistics.median(seconds['gx'][1:]):.1f} ms; "
              f"scan {1e3 * statistics.median(seconds['scan'][1:]):.1f}   (ms of the last: {times})", flush=True)


def later_calls(args, db, cupy, E, Q):
    """E kept: beside a product and argpartition of arrays in the device's memory.  Seconds of the product alone, by queries."""
    e = cupy.asarray(E)
    products = {}
    for queries in (1000, 10000):
        q = cupy.asarray(Q[:queries])

        def product(k=None):
            step = 1000  # argpartition of all at once takes 3 x 8 GB
            for at in range(0, queries, step):
                scores = q[at:at + step] @ e.T
                if k is not None:
                    cupy.argpartition(scores, E.shape[0] - k, axis=1)[:, -k:]
            cupy.cuda.Device().synchronize()

        products[queries] = rounds(args.rounds, product=product)["product"]
        for k in (10, 100):
            before = told(db)
            seconds = rounds(2 if queries > 1000 else args.rounds, gx=lambda: summed(db, f"Q{queries}", "E", k), cupy=lambda: product(k))
            after = told(db)
            moved = after["bytes_read"] - before["bytes_read"] >= E.nbytes or after["uploaded"] - before["uploaded"] >= 3 * E.nbytes
            show(f"{queries} queries, k = {k}, E kept", seconds, "(<= 1.3)")
            assert not moved, "E was read or copied again"
    return products


def one_statement(args, folder, rng):
    """Small searches on the device and on the CPU."""
    E = rng.standard_normal((100000, 768), dtype=np.float32)
    path = os.path.join(folder, "small.db")
    stored = connect(path)
    stored.execute("SELECT gx_config('memory_limit', ?)", (4 << 30,))
    store(stored, "S", E[:10000])
    store(stored, "L", E)
    q, listed = E[5].tobytes(), ",".join(str(int(x)) for x in rng.integers(0, len(E), 1000))
    candidates = f'{{"candidates":[{listed}]}}'
    for title, target, matrix, options in (("one query, 10000 x 768", 0.8, "S", "{}"), ("1000 candidates of 100000", 0.85, "L", candidates)):
        found, seconds = {}, {}
        for backend in ("cuda", "auto", "cpu"):
            db = connect(path, backend=backend)
            work = lambda: db.execute("SELECT id, score FROM gx_knn(?, ?, 10, ?)", (q, matrix, options)).fetchall()
            found[backend] = work()
            before = told(db)["device_calls"]
            seconds[backend] = rounds(50 if backend != "cpu" else 10, gx=work)["gx"]
            seconds[backend + " calls"] = told(db)["device_calls"] - before
        assert found["cuda"] == found["cpu"] == found["auto"]
        print(f"{title}: {1e3 * seconds['cuda']:.3f} ms (<= {target}); CPU {1e3 * seconds['cpu']:.3f} ms = {seconds['cpu'] / seconds['cuda']:.1f} x (>= 3); "
              f"auto {1e3 * seconds['auto']:.3f} ms, of 51 calls {seconds['auto calls']} on the device", flush=True)


def metrics_agree(db, rng):
    """Every metric before any clock runs: the CPU's rows, to the bit."""
    A = rng.standard_normal((5000, 100), dtype=np.float32)
    A[17] = A[4000]
    store(db, "A", A)
    found = {}
    for backend in ("cpu", "cuda"):
        db.execute("SELECT gx_config('backend', ?)", (backend,)).fetchall()
        found[backend] = [knn(db, A[:n].tobytes(), "A", k, metric)
                          for metric in ("cosine", "dot", "l2", "l1") for n, k in ((1, 10), (3, 100), (50, 7), (300, 1000))]
    assert found["cpu"] == found["cuda"]
    assert told(db)["device_calls"] > 0, db.execute("SELECT meaning FROM gx_stats WHERE name = 'note'").fetchall()


def on_gpu(args, folder):
    cupy = optional("cupy")
    rng = np.random.default_rng(1)
    db = connect(os.path.join(folder, "knn.db"))
    db.execute("SELECT gx_config('memory_limit', ?)", (16 << 30,))
    metrics_agree(db, rng)
    db.execute("SELECT gx_config('backend', 'cpu')").fetchall()
    one_statement(args, folder, rng)
    E = rng.standard_normal((args.rows, args.cols), dtype=np.float32)
    Q = rng.standard_normal((10000, args.cols), dtype=np.float32)
    store(db, "E", E)
    store(db, "warm", E[:50000])
    store(db, "Q1000", Q[:1000])
    store(db, "Q10000", Q)
    db.execute("SELECT gx_config('backend', 'cuda')").fetchall()
    for metric in ("dot", "l2"):
        compare(knn(db, "Q1000", "E", args.k, metric), Q[:2], E, args.k, metric)
    products = later_calls(args, db, cupy, E, Q) if cupy is not None else {}
    for metric in ("cosine", "l2", "l1"):
        show(f"1000 queries, {metric}, E kept", rounds(args.rounds, gx=lambda: summed(db, "Q1000", "E", args.k, metric)))
    show("one query, E kept", rounds(20, gx=lambda: knn(db, Q[0].tobytes(), "E", args.k, "cosine")))
    first_calls(folder, products, DeviceStream(folder, E) if shutil.which("nvcc") else None)
    first_calls_by_readers(args, folder)
    for note in db.execute("SELECT meaning FROM gx_stats WHERE name = 'note'"):
        print("note:", note[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200000)
    parser.add_argument("--cols", type=int, default=768)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="faiss,one,pairs,latency,vec")
    parser.add_argument("--dir", default=None)
    parser.add_argument("--gpu", action="store_true")
    args = parser.parse_args()
    if args.gpu:
        with tempfile.TemporaryDirectory(dir=args.dir) as folder:
            on_gpu(args, folder)
        return
    chosen = args.only.split(",")
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        if "latency" in chosen:
            latency(args, folder)
        if "pairs" in chosen:
            all_pairs(args, folder)
        if {"faiss", "one", "vec"} & set(chosen):
            E = rng.standard_normal((args.rows, args.cols), dtype=np.float32)
            Q = rng.standard_normal((args.queries, args.cols), dtype=np.float32)
            db = connect(os.path.join(folder, "knn.db"), memory_limit=512 << 20)
            db.execute("SELECT gx_config('memory_limit', ?)", (4 << 30,))
            store(db, "E", E)
            store(db, "Q", Q)
            db.execute("SELECT gx_config('memory_limit', ?)", (512 << 20,))
            if "one" in chosen:
                one_query(args, db, E, Q)
            if "faiss" in chosen:
                against_faiss(args, db, E, Q)
            if "vec" in chosen:
                against_sqlite_vec(args, db, E, Q)


if __name__ == "__main__":
    main()
