#!/usr/bin/env python3
"""Searches with a quantised filter beside the search without and FAISS: `bench/quantize.py [--rows N] [--cols D] [--page BYTES] [--many Q]`.

Vectors of length 1 around centres, as f32, stored; queries near some of them.  gx from its file, whose pages the system has cached;
FAISS from RAM, flat, with as many threads: f32, 8 bits (SQ8), f16, and bits.  Each is called in turn with the others of its line, and
medians are compared.  A line says what share of the exact rows is found, and how many rows were scored again.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "sql"))
from conftest import gx_connect, q  # noqa: E402

try:
    import faiss
except ImportError:
    faiss = None


def vectors(rng, n, d, centres):
    centre = rng.standard_normal((centres, d), dtype="f4")
    parts = []
    for first in range(0, n, 50000):
        count = min(50000, n - first)
        part = centre[rng.integers(0, centres, count)] + 0.7 * rng.standard_normal((count, d), dtype="f4")
        parts.append(part / np.linalg.norm(part, axis=1, keepdims=True))
    return np.vstack(parts)


def in_turn(calls, rounds):
    """Seconds of each call, medians; what each returned last."""
    times, last = {name: [] for name in calls}, {}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            last[name] = call()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(t) for name, t in times.items()}, last


def scored(db):
    notes = [m for m, in db.execute("SELECT meaning FROM gx_stats WHERE name = 'note'")]
    return next((m for m in reversed(notes) if m.startswith("neighbours")), "")


def peers(A, threads, bits):
    if faiss is None:
        return {}
    faiss.omp_set_num_threads(threads)
    d, found = A.shape[1], {"faiss f32": faiss.IndexFlatIP(A.shape[1])}
    for name, kind in (("faiss SQ8", faiss.ScalarQuantizer.QT_8bit), ("faiss f16", faiss.ScalarQuantizer.QT_fp16)):
        found[name] = faiss.IndexScalarQuantizer(d, kind, faiss.METRIC_INNER_PRODUCT)
        found[name].train(A[:20000])
    for index in found.values():
        index.add(A)
    if bits:
        found["faiss bits"] = faiss.IndexBinaryFlat(d)
        found["faiss bits"].add(np.packbits(A > 0, axis=1))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200000)
    parser.add_argument("--cols", type=int, default=768)
    parser.add_argument("--page", type=int, default=4096)
    parser.add_argument("--many", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    A = vectors(rng, args.rows, args.cols, max(10, args.rows // 200))
    queries = A[rng.integers(0, args.rows, max(args.many, 1))] + rng.standard_normal((max(args.many, 1), args.cols), dtype="f4") * 0.01
    queries = np.ascontiguousarray(queries, "f4")
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        np.save(f"{folder}/a.npy", A)
        db = gx_connect(f"{folder}/a.db", page_size=args.page)
        q(db, "SELECT gx_config('threads', ?)", args.threads)
        q(db, "SELECT gx_import('E', ?)", f"{folder}/a.npy")
        os.unlink(f"{folder}/a.npy")
        print(f"{args.rows} x {args.cols} f32, pages of {args.page} bytes, {args.threads} threads", flush=True)
        for kind in ("i8", "i4", "bit"):
            start = time.perf_counter()
            q(db, "SELECT gx_quantize('E', ?, ?)", kind, kind)
            bytes_ = q(db, "SELECT bytes FROM gx WHERE name = ?", kind)
            print(f"quantize {kind:4s} {time.perf_counter() - start:8.2f} s  {bytes_ / 2**20:8.0f} MiB", flush=True)
        index = peers(A, args.threads, True)

        def gx(n, k, **options):
            options = json.dumps({"metric": "dot", "dtype": "f32", **options})
            return db.execute("SELECT query, id FROM gx_knn(?, 'E', ?, ?)", (queries[:n].tobytes(), k, options)).fetchall()

        def peer(name, n, k):
            asked = np.packbits(queries[:n] > 0, axis=1) if name == "faiss bits" else queries[:n]
            return [(i, int(j)) for i, row in enumerate(index[name].search(asked, k)[1]) for j in row]

        for n, k, rounds in [(1, 10, 25), (1, 100, 15)] + [(args.many, 10, 3), (args.many, 100, 3)] * (args.many > 1):
            calls = {"gx f32": lambda: gx(n, k)}
            kinds = ("i8", "i4", "bit") if n == 1 else ("i8", "i4")
            for kind in kinds:
                calls[f"gx {kind}"] = lambda kind=kind: gx(n, k, filter=kind)
            if n == 1:
                calls["gx bit 20k"] = lambda: gx(n, k, filter="bit", rescore=20 * k)
            for name in index:
                if n == 1 or name != "faiss f16":
                    calls[name] = lambda name=name: peer(name, n, k)
            for name, call in list(calls.items())[1:1 + len(kinds)]:
                q(db, "SELECT gx_stats_reset()")
                call()
                print(f"    {name}: {scored(db)}", flush=True)
            times, last = in_turn(calls, rounds)
            exact = set(last["gx f32"])
            for name, seconds in times.items():
                found = len(exact & set(last[name])) / len(exact)
                beside = "".join(f"  / {other} {seconds / times[other]:6.3f}" for other in ("gx f32", "faiss f32", "faiss SQ8") if other in times)
                print(f"{n:5d} queries, k {k:3d}  {name:10s} {1e3 * seconds:10.1f} ms{beside}  found {found:.3f}", flush=True)


if __name__ == "__main__":
    main()
