#!/usr/bin/env python3
"""A vector table with an index beside the search without and FAISS: `bench/ivf.py [--rows N] [--cols D] [--lists L] [--spread S]`.

Vectors of length 1 around centres, as f32; queries around the same centres, none of them a row.  gx from its file, one statement a query;
FAISS from RAM: IVF with 8 bits a number (SQ8), refined from the vectors in full (IndexRefineFlat, four times k), with as many lists.  Each
looks at the fewest lists with which its recall@10 is 0.95, found by trying; gx besides at as many as it chooses.  One thread unless --threads says otherwise;
lists are made with all processors.  Then conditions that leave a half and a tenth, and a fifth of the rows deleted and as many new.

--sentences FOLDER ... takes real vectors instead: the different sentences of the manual pages and texts in these folders, embedded by the model
that wordllama's package holds (256 numbers); queries are sentences that are no rows.
"""
import argparse
import gzip
import os
import pathlib
import re
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

TRIED = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


def around(rng, centre, n, spread):
    parts = []
    for first in range(0, n, 50000):
        count = min(50000, n - first)
        part = centre[rng.integers(0, len(centre), count)] + spread * rng.standard_normal((count, centre.shape[1]), dtype="f4")
        parts.append(part / np.linalg.norm(part, axis=1, keepdims=True))
    return np.vstack(parts)


def sentences(folders, most):
    """Different sentences of five words or more, in the order of their files."""
    found = {}
    for file in sorted(f for folder in folders for f in pathlib.Path(folder).rglob("*") if f.is_file() and not f.is_symlink()):
        try:
            raw = gzip.open(file).read() if file.suffix == ".gz" else file.read_bytes()
        except (OSError, EOFError, gzip.zlib.error):
            continue
        if b"\0" in raw:
            continue
        text = re.sub(r"^[.'].*$|<[^>]*>|\\f.|\\[-&]", " ", raw.decode("utf-8", "replace"), flags=re.M)
        for sentence in re.split(r"(?<=[.!?])\s+|\n\s*\n", text):
            words = sentence.split()
            if 5 <= len(words) <= 60 and sum(w.isalpha() for w in words) * 2 > len(words):
                found[" ".join(words)] = None
        if len(found) >= most:
            break
    return list(found)[:most]


def embedded(folders, most):
    import wordllama
    model = wordllama.WordLlama.load(cache_dir=pathlib.Path(wordllama.__file__).parent, disable_download=True)
    texts = sentences(folders, most)
    return np.vstack([model.embed(texts[i:i + 10000], norm=True) for i in range(0, len(texts), 10000)]).astype("f4")


def rate(ask, queries, rounds=5):
    """Queries a second, the median of some rounds; what came last."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        found = [ask(x) for x in queries]
        times.append(time.perf_counter() - start)
    return len(queries) / statistics.median(times), found


def recall(want, got):
    return float(np.mean([len(set(a) & set(b)) / max(1, len(a)) for a, b in zip(want, got)]))


def fill(db, A, first=0):
    db.execute("BEGIN")
    db.executemany("INSERT INTO v(rowid, x, tag) VALUES (?, ?, ?)", ((first + i, x.tobytes(), i % 10) for i, x in enumerate(A)))
    db.execute("COMMIT")


def with_faiss(A, queries, want, lists, threads):
    faiss.omp_set_num_threads(os.cpu_count())
    coarse = faiss.IndexFlatL2(A.shape[1])
    codes = faiss.IndexIVFScalarQuantizer(coarse, A.shape[1], lists, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_L2)
    start = time.perf_counter()
    codes.train(A[np.random.default_rng(2).permutation(len(A))[:32 * lists]])
    codes.add(A)
    print(f"faiss: made in {time.perf_counter() - start:.1f} s", flush=True)
    whole = faiss.IndexFlatL2(A.shape[1])
    whole.add(A)
    index = faiss.IndexRefine(codes, whole)
    index.k_factor = 4
    faiss.omp_set_num_threads(threads)
    for probe in TRIED:
        codes.nprobe = probe
        both = index.search(queries, 10)[1].tolist()
        if recall(want, both) >= 0.95 or probe == TRIED[-1]:
            break
    return index, probe


def in_turn(asks, queries, rounds=9):
    """Queries a second of each, one round of each after the other, medians; what came last."""
    speeds, found = [[] for _ in asks], [None] * len(asks)
    for _ in range(rounds):
        for k, ask in enumerate(asks):
            speed, found[k] = rate(ask, queries, 1)
            speeds[k].append(speed)
    return [statistics.median(s) for s in speeds], found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200000)
    parser.add_argument("--cols", type=int, default=384)
    parser.add_argument("--lists", type=int, default=0)
    parser.add_argument("--spread", type=float, default=0.7)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory", default="")
    parser.add_argument("--sentences", nargs="+")
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    if args.sentences:
        real = embedded(args.sentences, args.rows + args.rows // 5 + args.queries)
        real = real[rng.permutation(len(real))]
        queries, args.rows, args.cols = real[:args.queries], (len(real) - args.queries) * 5 // 6, real.shape[1]
        A, fresh = np.split(real[args.queries:], [args.rows])
        print(f"{len(real)} different sentences", flush=True)
    else:
        centre = rng.standard_normal((max(10, args.rows // 200), args.cols), dtype="f4")
        A, fresh = around(rng, centre, args.rows, args.spread), None
        queries = around(rng, centre, args.queries, args.spread)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        db = gx_connect(f"{folder}/a.db", journal_mode="wal")
        db.execute("PRAGMA synchronous = normal")
        if args.memory:
            q(db, "SELECT gx_config('memory_limit', ?)", args.memory)
        print(f"{args.rows} x {args.cols} f32, {'sentences' if args.sentences else f'spread {args.spread}'}, {args.threads} thread(s), memory_limit {q(db, 'SELECT gx_config(?)', 'memory_limit')}", flush=True)
        db.execute(f"CREATE VIRTUAL TABLE v USING gx_vectors(x f32[{args.cols}], tag INTEGER, metric=l2)")
        start = time.perf_counter()
        fill(db, A)
        print(f"gx: inserted in {time.perf_counter() - start:.1f} s", flush=True)
        start = time.perf_counter()
        made = q(db, "SELECT gx_index('v', ?)", '{"lists":%d}' % args.lists if args.lists else "{}")
        print(f"gx: index {made} in {time.perf_counter() - start:.1f} s, {os.path.getsize(f'{folder}/a.db') / 2**20:.0f} MiB", flush=True)
        lists, chosen = q(db, "SELECT ? ->> 'lists'", made), q(db, "SELECT ? ->> 'probe'", made)
        q(db, "SELECT gx_config('threads', ?)", args.threads)

        def ask(x, more=""):
            return [i for (i,) in db.execute(f"SELECT rowid FROM v WHERE x MATCH ? AND k = 10 {more}", (x.tobytes(),))]

        def line(name, more, want, rounds=5):
            [ask(x, more) for x in queries]  # lists come into memory
            speed, found = rate(lambda x: ask(x, more), queries, rounds)
            print(f"gx {name}: recall {recall(want, found):.3f}, {speed:.0f} queries/s", flush=True)
            return speed

        flat, some = rate(lambda x: ask(x, "AND probe = 0"), queries[:20], 1)
        want = [ask(x, "AND probe = 0") for x in queries]
        print(f"gx without the index: {flat:.1f} queries/s", flush=True)
        speed = line(f"probe {chosen} (its own)", "", want)
        for probe in TRIED:
            if recall(want, [ask(x, f"AND probe = {probe}") for x in queries]) >= 0.95 or probe == TRIED[-1]:
                break
        if faiss is not None:
            index, theirs = with_faiss(A, queries, want, lists, args.threads)
            (least, one), found = in_turn([lambda x: ask(x, f"AND probe = {probe}"), lambda x: index.search(x[None], 10)[1][0].tolist()], queries)
            print(f"in turn: gx probe {probe}, recall {recall(want, found[0]):.3f}, {least:.0f} queries/s; faiss IVF{lists},SQ8,refine: probe {theirs}, "
                  f"recall {recall(want, found[1]):.3f}, {one:.0f} queries/s; gx / faiss {least / one:.2f}", flush=True)
            del index
        print(f"gx with its own probe / gx without the index: {speed / flat:.1f}", flush=True)
        for words, more in (("a half passes", "AND tag < 5"), ("a tenth passes", "AND tag = 3")):
            line(words, more, [ask(x, f"{more} AND probe = 0") for x in queries], 1)
        fifth = args.rows // 5
        start = time.perf_counter()
        db.execute("DELETE FROM v WHERE rowid % 5 = 1")
        gone = time.perf_counter()
        fill(db, around(rng, centre, fifth, args.spread) if fresh is None else fresh[:fifth], args.rows)
        print(f"gx: {fifth} deleted in {gone - start:.1f} s, as many inserted in {time.perf_counter() - gone:.1f} s", flush=True)
        line("then", "", [ask(x, "AND probe = 0") for x in queries])


if __name__ == "__main__":
    main()
