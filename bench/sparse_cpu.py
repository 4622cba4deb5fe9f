#!/usr/bin/env python3
"""Sparse matrices beside SciPy, GraphBLAS and CHOLMOD: `bench/sparse_cpu.py [PART ...] [--rounds N] [--small] [--mmap]`.

Parts: products, where (poisson times 32: what each way of it takes), powerlaw (5 x 10^7 entries), cg, eig, direct, spread, random; all of them without a name.

gx reads both operands from a database file that is in the page cache and makes a value of SQL, with as many threads as the
process may have; --mmap lets SQLite map the file.  The peers have arrays in memory: SciPy one thread, GraphBLAS (python-graphblas,
where it is installed) as many as gx.  In each round all are timed one after the other, so that a busy machine slows all; the
medians of the rounds and of their ratios are printed, and the seconds of processors that the medians took, which a busy machine
changes less: p.  CHOLMOD is called from C (cholmod.c, compiled here) where its header is installed.
"""
import argparse
import inspect
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla

try:
    import graphblas as gb
    gb.init("suitesparse", blocking=True)
except ImportError:
    gb = None

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "sql"))
sys.path.insert(0, str(ROOT / "ext" / "python"))
from conftest import from_numpy, gx_connect, q, to_numpy  # noqa: E402
from gx_sqlite._sparse import pack_sparse  # noqa: E402


def csr_of(db, name):
    """A stored f64 matrix as SciPy's, by its panels (docs/format.md)."""
    id_, rows, cols = db.execute("SELECT id, rows, cols FROM gx_meta WHERE name = ?", (name,)).fetchone()
    aux = np.frombuffer(db.execute("SELECT aux FROM gx_meta WHERE id = ?", (id_,)).fetchone()[0], "<i8")[4:].reshape(-1, 2)
    parts, first = [], 0
    for (end, count), (data,) in zip(aux, db.execute("SELECT data FROM gx_tile WHERE id >> 32 = ? ORDER BY id", (id_,))):
        h = end - first
        at = -(-(h + 1) // 2) * 8
        parts.append(sp.csr_matrix((np.frombuffer(data, "<f8", count, at + -(-count // 2) * 8),
                                    np.frombuffer(data, "<i4", count, at),
                                    np.frombuffer(data, "<u4", h + 1).astype(np.int32)), shape=(h, cols)))
        first = end
    return sp.vstack(parts, format="csr")


def timed(fn):
    """Seconds, seconds of processors, what it gave."""
    start, cpu = time.perf_counter(), time.process_time()
    out = fn()
    return time.perf_counter() - start, time.process_time() - cpu, out


def beside(name, rounds, mine, peers, most):
    """mine and peers ({name: function}) in turn; the medians, ratios and what they should be at most, and what all gave last."""
    times, out = {"gx": []}, {}
    for _ in range(rounds):
        for who, fn in {"gx": mine, **peers}.items():
            out.pop(who, None)
            *took, out[who] = timed(fn)
            times.setdefault(who, []).append(took)
    line = f"{name:44}"
    for who, took in times.items():
        line += f" {who} {statistics.median(t for t, _ in took):8.3f} s p {statistics.median(p for _, p in took):8.3f}"
        if who != "gx":
            line += f" ratio {statistics.median(a[0] / b[0] for a, b in zip(times['gx'], took)):6.4f}   (<= {most[who]})"
    print(line, flush=True)
    return out


def compare(db, name, rounds, product, scipy, graphblas=None):
    peers = {"SciPy": scipy}
    if gb is not None and graphblas is not None:
        peers["GraphBLAS"] = graphblas
    want = beside(name, rounds, lambda: q(db, f"SELECT length({product})"), peers, {"SciPy": 0.7, "GraphBLAS": 1.1})["SciPy"]
    got = to_numpy(q(db, f"SELECT {product}"))
    error = np.abs(got - want).max() / np.abs(want).max()
    assert got.shape == want.shape and error < 1e-12, error


def product_lines(db, name, rounds, widths, both):
    S = csr_of(db, name)
    n = S.shape[0]
    A = None if gb is None else gb.io.from_scipy_sparse(S)
    for w in widths:
        D = np.random.default_rng(1).standard_normal((n, w))
        G = None if gb is None else gb.Matrix.from_dense(D)
        q(db, "SELECT gx_store('D', ?, '{\"replace\":true}')", from_numpy(D))
        compare(db, f"{name} {n} @ {w} columns", rounds, f"gx_matmul('{name}', 'D')", lambda: S @ D,
                lambda: A.mxm(G, gb.semiring.plus_times).new())
        if both and w in (1, 32):
            compare(db, f"{name} {n} transposed @ {w} columns", rounds,
                    f"gx_matmul('{name}', 'D', '{{\"transa\":true}}')", lambda: S.T @ D,
                    lambda: A.T.mxm(G, gb.semiring.plus_times).new())
            q(db, "SELECT gx_transpose('D', 'T', '{\"replace\":true}')")
            compare(db, f"{w} rows @ {name} {n}", rounds, f"gx_matmul('T', '{name}')", lambda: (S.T @ D).T)


def poisson(db, n):
    if db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'gx_meta'").fetchone()[0] == 0 or \
            q(db, "SELECT count(*) FROM gx_meta WHERE name = 'poisson'") == 0:
        q(db, f"SELECT gx_matrix_gallery('poisson', {n}, 'poisson', '{{\"sparse\":true}}')")
    return csr_of(db, "poisson")


def products(db, n, rounds):
    poisson(db, n)
    q(db, f"SELECT gx_random({n}, {n}, 'random', '{{\"density\":{20 / n},\"low\":-1}}')")
    for name in ["poisson", "random"]:
        product_lines(db, name, rounds, [1, 8, 32], True)
    q(db, "SELECT gx_drop('random')")


def where(db, n, rounds):
    """One product in all its ways: seconds, those of processors, bytes read, page faults; medians."""
    poisson(db, n)
    D = np.random.default_rng(1).standard_normal((n, 32))
    q(db, "SELECT gx_store('D', ?, '{\"replace\":true}')", from_numpy(D))

    def read():
        return q(db, "SELECT value FROM gx_stats WHERE name = 'bytes_read'")

    def line(title, fn, before=lambda: None, rounds=rounds):
        rows = []
        for _ in range(rounds):
            before()
            start, faults = read(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            t, p, _ = timed(fn)
            rows.append((1e3 * t, 1e3 * p, (read() - start) / 1e6, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults))
        t, p, mb, faults = (statistics.median(column) for column in zip(*rows))
        print(f"poisson {n} @ 32: {title:42} {t:8.1f} ms  p {p:8.1f} ms  read {mb:6.1f} MB  faults {faults:8.0f}", flush=True)

    value = from_numpy(D)
    scan = "SELECT gx_norm('poisson', 'fro') + gx_sum('D')"
    db.execute("BEGIN")  # nothing is kept from within a transaction
    line("the scan of both operands", lambda: q(db, scan))
    line("read each time (in a transaction)", lambda: q(db, "SELECT length(gx_matmul('poisson', 'D'))"))
    line("read each time, D a value", lambda: q(db, "SELECT length(gx_matmul('poisson', ?))", value))
    db.execute("COMMIT")
    line("first call", lambda: q(db, "SELECT length(gx_matmul('poisson', 'D'))"), rounds=1)
    line("kept", lambda: q(db, "SELECT length(gx_matmul('poisson', 'D'))"))
    line("S kept, D a value", lambda: q(db, "SELECT length(gx_matmul('poisson', ?))", value))
    for title, D_ in (("S and D kept", "D"), ("S kept, D a value", value)):
        line(f"{title}, result stored", lambda: q(db, "SELECT gx_matmul('poisson', ?, 'C')", D_),
             lambda: q(db, "SELECT gx_drop('C')") if q(db, "SELECT count(*) FROM gx WHERE name = 'C'") else None)
    Y = to_numpy(q(db, "SELECT gx_copy('C')"))
    q(db, "SELECT gx_drop('C')")
    y = from_numpy(Y)
    line("storing as many bytes", lambda: q(db, "SELECT gx_store('C', ?)", y),
         lambda: q(db, "SELECT gx_drop('C')") if q(db, "SELECT count(*) FROM gx WHERE name = 'C'") else None)
    q(db, "SELECT gx_drop('C')")
    S = csr_of(db, "poisson")
    assert np.abs(Y - S @ D).max() < 1e-11
    line("SciPy, arrays", lambda: S @ D)


def powerlaw(db, n, rounds):
    """Columns by a power law, as many rows of few entries as a graph has: 50 a row on the average."""
    rng, entries = np.random.default_rng(2), 54 * n
    rows, cols = (np.minimum(n - 1, (n * rng.random(entries) ** power)).astype(np.int64) for power in (1.5, 3))
    key = np.unique(rows * n + cols)
    del rows, cols
    place = rng.permutation(n)
    S = sp.csr_matrix((rng.random(len(key)), (place[key // n], place[key % n])), shape=(n, n))
    S.sort_indices()
    print(f"power law: {S.nnz} entries, the longest row has {np.diff(S.indptr).max()}", flush=True)
    q(db, "SELECT gx_store('powerlaw', ?)", pack_sparse(S))
    product_lines(db, "powerlaw", rounds, [1, 32], False)
    q(db, "SELECT gx_drop('powerlaw')")


def cg(db, n, rounds):
    """Both to |b - A x| <= 1e-8 |b|, without a preconditioner."""
    S = poisson(db, n)
    b = np.random.default_rng(3).standard_normal((n, 1))
    q(db, "SELECT gx_store('b', ?, '{\"replace\":true}')", from_numpy(b))
    sql = "SELECT gx_solve('poisson', 'b', '{\"method\":\"cg\",\"precond\":\"none\",\"tol\":1e-8,\"maxiter\":20000}')"
    rtol = "rtol" if "rtol" in inspect.signature(sla.cg).parameters else "tol"
    out = beside(f"cg, poisson {n}, 1e-8", rounds, lambda: to_numpy(q(db, sql)),
                 {"SciPy": lambda: sla.cg(S, b, atol=0, **{rtol: 1e-8})[0][:, None]}, {"SciPy": 0.7})
    for who, x in out.items():
        print(f"    {who}: |b - A x| / |b| = {np.linalg.norm(b - S @ x) / np.linalg.norm(b):.2e}")


def eig(db, n, rounds):
    """The ten smallest, by shift-and-invert at 0 in both; SciPy factors by SuperLU."""
    S = poisson(db, n)

    def mine():
        q(db, "SELECT gx_eig('poisson', 'w', 'V', '{\"k\":10,\"sigma\":0,\"replace\":true}')")
        return to_numpy(q(db, "SELECT gx_copy('w')")).ravel(), to_numpy(q(db, "SELECT gx_copy('V')"))
    out = beside(f"ten eigenvalues, poisson {n}, sigma 0", rounds, mine, {"SciPy": lambda: sla.eigsh(S.tocsc(), 10, sigma=0)}, {"SciPy": 1.0})
    for who, (w, V) in out.items():
        print(f"    {who}: largest |A v - w v| = {np.abs(np.linalg.norm(S @ V - V * w, axis=0)).max():.2e}")


def direct(db, n, rounds):
    poisson(db, n)
    side = round(n ** 0.5)
    q(db, "SELECT gx_store('b', ?, '{\"replace\":true}')", from_numpy(np.ones((n, 1))))
    with tempfile.TemporaryDirectory() as folder:
        peer = os.path.join(folder, "cholmod")
        made = subprocess.run(["cc", "-O2", str(ROOT / "bench/cholmod.c"), "-lcholmod", "-lm", "-o", peer], capture_output=True)
        if made.returncode != 0:
            print("direct: no CHOLMOD to compile with")
            return
        times = []
        for _ in range(rounds):
            t, p, _ = timed(lambda: q(db, "SELECT length(gx_solve('poisson', 'b', '{\"method\":\"direct\"}'))"))
            theirs = float(subprocess.run([peer, str(side), "1"], capture_output=True, check=True, text=True).stdout.split()[0])
            times.append((t, theirs, t / theirs, p))
    gx, theirs, ratio, p = (statistics.median(column) for column in zip(*times))
    print(f"{f'direct solve, poisson {n}':44} gx {gx:8.3f} s p {p:8.3f} CHOLMOD from C {theirs:8.3f} s ratio {ratio:6.3f}   (<= 1.2)", flush=True)


def spread(db, n, rounds):
    """20 edges a node; all paths of 5 steps from one seed, summed by a recursive query, with an index on the edges."""
    nodes = n // 20
    q(db, f"SELECT gx_random({nodes}, {nodes}, 'graph', '{{\"density\":{20 / nodes},\"seed\":3,\"replace\":true}}')")
    db.execute("CREATE TABLE edge(i, j, value, PRIMARY KEY(i, j)) WITHOUT ROWID")
    db.execute("INSERT INTO edge SELECT i, j, value FROM gx_cells('graph')")
    mine = "SELECT node, activation FROM gx_spread('graph', '[7]', '{\"steps\":5,\"decay\":0.6}')"
    theirs = """WITH RECURSIVE s(step, node, a) AS (VALUES(0, 7, 1.0)
        UNION ALL SELECT step + 1, j, a * value * 0.6 FROM s JOIN edge ON i = node WHERE step < 5)
        SELECT node, sum(a) AS activation FROM s GROUP BY node"""
    edges = q(db, "SELECT count(*) FROM edge")
    total = "SELECT count(*), sum(activation) FROM ({})"
    beside(f"spreading, {nodes} nodes, {edges} edges, 5 steps", rounds, lambda: db.execute(total.format(mine)).fetchall(),
           {"recursive query": lambda: db.execute(total.format(theirs)).fetchall()}, {"recursive query": 0.01})
    a, b = (dict(db.execute(sql).fetchall()) for sql in (mine, theirs))
    assert set(a) == set(b) and max(abs(a[k] - b[k]) / b[k] for k in b) < 1e-10
    db.execute("DROP TABLE edge")


def random(db, n, rounds):
    times = [timed(lambda: q(db, f"SELECT gx_random({n}, {n}, 'made', '{{\"density\":{20 / n},\"replace\":true}}')"))
             for _ in range(rounds)]
    t, p = (statistics.median(column) for column in list(zip(*times))[:2])
    print(f"{f'gx_random of {20 * n} entries, stored':44} gx {t:8.3f} s p {p:8.3f}, {t / (20 * n) * 1e9:.0f} ns an entry", flush=True)
    q(db, "SELECT gx_drop('made')")


PARTS = {fn.__name__: fn for fn in (products, where, powerlaw, cg, eig, direct, spread, random)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=" ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="order 10^4 instead of 10^6")
    parser.add_argument("--mmap", action="store_true", help="PRAGMA mmap_size")
    options = parser.parse_args()
    n = 10000 if options.small else 1000000
    with tempfile.TemporaryDirectory(dir=os.environ.get("GX_BENCH_DIR")) as folder:
        db = gx_connect(os.path.join(folder, "sparse.db"))
        if options.mmap:
            db.execute("PRAGMA mmap_size = 4000000000").fetchall()
        q(db, "SELECT gx_config('memory_limit', '8GiB')")
        for part in options.parts or PARTS:
            PARTS[part](db, n, options.rounds)
        db.close()


if __name__ == "__main__":
    main()
