#!/usr/bin/env python3
"""Nearest neighbours beside FAISS and sqlite-vec: ratios of medians of alternating rounds, within one run.

    python bench/knn.py [--rows 200000] [--cols 768] [--queries 1000] [--k 10] [--rounds 5] [--only NAME] [--dir DIR]

Peers come from PyPI (faiss-cpu, sqlite-vec); one that is not installed is left out.  The stored matrix lies in the page
cache, FAISS's in memory; both have THREADS threads.  Results are compared with products in double precision before any clock runs.
"""
import argparse
import os
import sqlite3
import statistics
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
    db.load_extension(os.path.join(HERE, "gx"))
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


def show(title, seconds, base="gx"):
    for name, s in seconds.items():
        ratio = "" if name == base else f"   gx / {name} = {seconds[base] / s:.3f}"
        print(f"{title:34s} {name:12s} {1e3 * s:10.3f} ms{ratio}", flush=True)


def knn(db, q, e, k, metric):
    return db.execute("SELECT query, id, score FROM gx_knn(?, ?, ?, ?)", (q, e, k, f'{{"metric":"{metric}"}}')).fetchall()


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
    todo = {"gx": lambda: knn(db, "Q", "E", args.k, "dot")}
    if faiss:
        faiss.omp_set_num_threads(THREADS)
        index = faiss.IndexFlatIP(E.shape[1])
        index.add(E)
        todo["faiss"] = lambda: index.search(Q, args.k)
    compare(knn(db, "Q", "E", args.k, "dot"), Q, E, args.k, "dot")
    compare(knn(db, "Q", "E", args.k, "l2"), Q, E, args.k, "l2")
    show(f"{len(Q)} queries, dot", rounds(args.rounds, **todo))
    if faiss:
        flat = faiss.IndexFlatL2(E.shape[1])
        flat.add(E)
        show(f"{len(Q)} queries, l2", rounds(args.rounds, gx=lambda: knn(db, "Q", "E", args.k, "l2"), faiss=lambda: flat.search(Q, args.k)))


def one_query(args, db, E, Q):
    q = Q[0].tobytes()
    for metric in ("cosine", "dot", "l2"):
        show(f"one query, {metric}", rounds(2 * args.rounds, gx=lambda: knn(db, q, "E", args.k, metric),
                                          scan=lambda: db.execute("SELECT gx_norm('E')").fetchall()))


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
        show("cosine, seconds a query", seconds)
        print(f"{'':34s} sqlite-vec / gx = {seconds['sqlite-vec'] / seconds['gx']:.1f}")


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
    show("all pairs of 20000 x 256", rounds(args.rounds, **todo))


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200000)
    parser.add_argument("--cols", type=int, default=768)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="faiss,one,pairs,latency,vec")
    parser.add_argument("--dir", default=None)
    args = parser.parse_args()
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
