#!/usr/bin/env python3
"""Every driver past 2 GiB in one operand and past 2^31 elements, against known answers and residuals.

    large.py [--small] [--dir DIR] [--memory 6] [CASE...]        make test-large

Plan: matrices whose every element is known.  A is the outer product of two vectors of small whole numbers, so that its sums,
products and transpose are known exactly; `tall` and `long` have their answer behind element 2^31; systems of equations are
judged by their residuals.  Each case is a process with a database of its own, removed afterwards; --memory GiB is its
`memory_limit`, and the most it may have resident is said.  --small: the same code on small matrices, and what passes 2^31
elements without storing them (this is in `make test`).

The whole takes 24 GiB of memory, 30 GB of disk, under an hour on two cores.
"""
import argparse
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

import numpy as np


class Case:
    """A connection, and what is said of its answers."""

    def __init__(self, folder, args):
        self.folder, self.small, self.memory, self.failures = folder, args.small, args.memory, 0
        self.open()

    def open(self):
        self.db = sqlite3.connect(os.path.join(self.folder, "large.db"), isolation_level=None)
        self.db.enable_load_extension(True)
        self.db.load_extension(os.environ["GX_SO"])
        self.db.execute("PRAGMA synchronous=off")
        self.run("SELECT gx_config('memory_limit', ?)", self.memory << 30)
        if self.small:
            self.run("SELECT gx_config('tile_bytes', 32768)")
        self.latest = time.time()

    def run(self, sql, *params):
        return self.db.execute(sql, params).fetchall()

    def value(self, sql, *params):
        return self.run(sql, *params)[0][0]

    def array(self, sql, *params):
        """A matrix value as an array of f64; one column or row is flat."""
        rows, cols, data = self.run("SELECT gx_rows_count(v), gx_cols_count(v), gx_to_bytes(v, 'f64') "
                                    f"FROM (SELECT {sql} AS v LIMIT 1)", *params)[0]  # LIMIT: made once
        flat = np.frombuffer(data, "<f8")
        return flat if 1 in (rows, cols) else flat.reshape(rows, cols)

    def store(self, name, array, dtype="f32"):
        array = np.asarray(array, float)
        cols = 1 if array.ndim == 1 else array.shape[1]
        self.run("SELECT gx_cast(gx_from_bytes(?, 'f64', ?), ?, ?)", array.tobytes(), cols, dtype, name)

    def say(self, what, fine, detail=""):
        now = time.time()
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
        print(f"    {'ok  ' if fine else 'FAIL'} {what:46} {now - self.latest:7.1f} s, {resident:5.1f} GiB {'' if fine else detail}",
              flush=True)
        self.latest = now
        self.failures += not fine

    def same(self, what, found, expected, rtol=0.0):
        found, expected = np.asarray(found, float), np.asarray(expected, float)
        fine = found.shape == expected.shape and np.allclose(found, expected, rtol=rtol, atol=0)
        self.say(what, fine, f"found {found.ravel()[:4]}, expected {expected.ravel()[:4]}")

    def refused(self, what, expected, sql, *params):
        try:
            self.run(sql, *params)
        except sqlite3.Error as problem:
            return self.say(what, expected in str(problem), str(problem))
        return self.say(what, False, "no error")

    def drop(self, *names):
        for name in names:
            self.run("SELECT gx_drop(?)", name)

    def outer(self, name="A", volumes=0):
        """u v^T, f32, of more than 2^31 elements; returns u and v."""
        n = 400 if self.small else 46400
        u, v = np.arange(n) * 5 % 7 + 1.0, np.arange(n) * 4 % 9 + 1.0
        self.run("SELECT gx_volumes(?)", volumes)
        self.store("u", u)
        self.store("v", v)
        self.run("SELECT gx_matmul('u', 'v', ?, '{\"transb\":true}')", name)
        self.same("a product of more than 2^31 elements, its sum", self.value("SELECT gx_sum(?)", name), u.sum() * v.sum())
        return u, v

    def long(self, name, volumes=0):
        """A column of ones, f32, of n > 2^31 rows, with 3 and 2 near its end; returns n."""
        n = 70000 if self.small else (1 << 31) + 5000
        self.run("SELECT gx_volumes(?)", volumes)
        self.run("SELECT gx_ones(?, 1, ?, '{\"dtype\":\"f32\"}')", n, name)
        self.run("SELECT gx_set(?1, ?2, 0, 3), gx_set(?1, ?3, 0, 2)", name, n - 2, n - 5)
        self.same("a column of more than 2^31 rows, its sum", self.value("SELECT gx_sum(?)", name), n + 3)
        return n


# A square matrix of 46400^2 elements ---------------------------------------------------------------


def products(case):
    u, v = case.outer(volumes=2)
    n = len(u)
    some = np.random.default_rng(1).integers(-3, 4, (n, 70)).astype(float)
    case.store("x", some[:, 0])
    case.store("X", some)
    case.same("A x", case.array("gx_matmul('A', 'x')"), u * (v @ some[:, 0]))
    case.same("A^T x", case.array("gx_matmul('A', 'x', '{\"transa\":true}')"), v * (u @ some[:, 0]))
    case.same("x^T A", case.array("gx_matmul('x', 'A', '{\"transa\":true}')"), v * (u @ some[:, 0]))
    case.same("A X, 70 columns", case.array("gx_matmul('A', 'X')"), np.outer(u, v @ some))
    case.same("A^T X, 70 columns", case.array("gx_matmul('A', 'X', '{\"transa\":true}')"), np.outer(v, u @ some))
    case.same("a program: x @ A @ X", case.array("gx_eval('x.T @ A @ X')"), (some[:, 0] @ u) * (v @ some), rtol=1e-6)
    case.same("the largest singular value", case.value("SELECT gx_norm('A', 2)"), np.linalg.norm(u) * np.linalg.norm(v), rtol=1e-5)


def places(case):
    """Transposed, copied, sliced, stacked: elements come where they belong."""
    u, v = case.outer(volumes=2)
    n = len(u)
    case.run("SELECT gx_transpose('A', 'T')")
    case.same("the transpose, by rows", case.array("gx_row('T', ?1)", n - 1), v[-1] * u)
    case.same("the transpose times u", case.array("gx_matmul('T', 'u')"), v * (u @ u))
    case.drop("A")
    case.run("SELECT gx_vacuum()")
    case.run("SELECT gx_copy('T', 'C')")
    case.same("a copy is equal", case.value("SELECT gx_eval('sum(abs(T - C))')"), 0)
    case.same("the last column", case.array("gx_col('C', ?1)", n - 1), v * u[-1])
    case.same("the last rows", case.array("gx_slice('C', ?1, NULL, ?2, NULL)", n - 3, 1), np.outer(v[-3:], u[1:]))
    case.drop("C")
    case.run("SELECT gx_vacuum()")
    case.run("SELECT gx_slice('T', 1, NULL, 0, ?, 'S')", n - 1)
    case.same("a stored slice", case.array("gx_matmul('S', gx_slice('u', 0, ?1, 0, 1))", n - 1), v[1:] * (u[:-1] @ u[:-1]))
    case.drop("S")
    case.run("SELECT gx_vacuum()")
    half = n // 2 // 8 * 8
    case.run("SELECT gx_slice('T', 0, ?, NULL, NULL, 'top')", half)
    case.run("SELECT gx_slice('T', ?, NULL, NULL, NULL, 'low')", half)
    case.drop("T")
    case.run("SELECT gx_vacuum()")
    case.run("SELECT gx_vstack('top', 'low', '{\"destination\":\"T\"}')")
    case.same("two halves stacked", case.array("gx_matmul('T', 'u')"), v * (u @ u))
    case.same("gx_check", case.value("SELECT gx_check() = 'ok'"), 1)


def elements(case):
    """Reductions, functions of elements, programs."""
    u, v = case.outer(volumes=2)
    total = u.sum() * v.sum()
    case.same("sums down the columns", case.array("gx_sum('A', 0)"), u.sum() * v)
    case.same("sums along the rows", case.array("gx_sum('A', 1)"), v.sum() * u)
    case.same("mean", case.value("SELECT gx_mean('A')"), total / len(u) ** 2, rtol=1e-12)
    case.same("norms", [case.value(f"SELECT gx_norm('A', '{kind}')") for kind in ("fro", "1", "inf", "max")],
              [np.sqrt((u @ u) * (v @ v)), u.sum() * v.max(), v.sum() * u.max(), 63], rtol=1e-10)
    case.same("least, largest, trace", case.run("SELECT gx_min('A'), gx_max('A'), gx_trace('A')")[0], [1, 63, u @ v])
    counts = np.zeros(63)
    for x in range(1, 8):
        np.add.at(counts, x * np.arange(1, 10) - 1, (u == x).sum() * np.bincount(v.astype(int), minlength=10)[1:])
    found = case.run("SELECT count FROM gx_histogram('A', 63, '{\"low\":0.5,\"high\":63.5}')")
    case.same("a histogram", found, counts[:, None])
    case.same("a program that stores nothing", case.value("SELECT gx_eval('sum(A * A + 2 * sqrt(A * A)) / 2')"),
              ((u @ u) * (v @ v) + 2 * total) / 2, rtol=1e-7)
    case.run("SELECT gx_eval('B := 3 * A - A * A')")
    case.same("a program that stores", case.array("gx_matmul('B', 'v')"), 3 * u * (v @ v) - u * u * (v**2 @ v), rtol=1e-6)
    case.drop("B")
    case.run("SELECT gx_vacuum()")
    case.run("SELECT gx_add('A', 'A', 'B')")
    case.same("a sum of two", case.value("SELECT gx_sum('B')"), 2 * total)


def within(case):
    """Functions that take all of their operand into memory, 16 bytes an element: refused in words where it does not fit."""
    u, v = case.outer(volumes=2)
    if not case.small:
        for call in ("gx_argmax('A')", "gx_std('A')", "gx_all('A')", "gx_cumsum('A', 1, 'B')"):
            case.refused(f"{call} does not fit", "memory_limit leaves", f"SELECT {call}")
        return
    case.same("the first of the largest", case.value("SELECT gx_argmax('A')"), u.argmax() * len(u) + v.argmax())
    case.same("the largest in each column", case.array("gx_argmax('A', 0)"), np.full(len(v), u.argmax()))
    case.same("standard deviation", case.value("SELECT gx_std('A')"),
              np.sqrt((u @ u) * (v @ v) / len(u) ** 2 - (u.sum() * v.sum() / len(u) ** 2) ** 2), rtol=1e-5)
    case.same("any and all", case.run("SELECT gx_any('A'), gx_all('A')")[0], [1, 1])


def home(case):
    """Volumes: a copy of the whole, and home into one file."""
    u, v = case.outer(volumes=3)
    copy = os.path.join(case.folder, "copy.db")
    case.run("SELECT gx_backup(?)", copy)
    case.run("ATTACH ? AS copy", copy)
    case.same("gx_backup", case.value("SELECT gx_sum('copy.A')"), u.sum() * v.sum())
    case.run("DETACH copy")
    for name in os.listdir(case.folder):
        if name.startswith("copy.db"):
            os.unlink(os.path.join(case.folder, name))
    case.run("SELECT gx_volumes(0)")
    case.same("all at home", case.array("gx_matmul('A', 'v')"), u * (v @ v))
    case.same("gx_check", case.value("SELECT gx_check() = 'ok'"), 1)
    case.run("SELECT gx_volumes(1)")
    case.run("SELECT gx_scale('A', 2, 'A', '{\"replace\":true}')")
    case.same("replaced, into a volume", case.value("SELECT gx_sum('A')"), 2 * u.sum() * v.sum())


# A column of more than 2^31 rows -------------------------------------------------------------------


def column(case):
    n = case.long("L")
    case.same("gx_topk", case.run("SELECT i, j, value FROM gx_topk('L', 3)"), [[n - 2, 0, 3], [n - 5, 0, 2], [0, 0, 1]])
    case.same("gx_cells, from the end", case.run("SELECT i, value FROM gx_cells('L') WHERE i >= ?", n - 6),
              [[n - 6, 1], [n - 5, 2], [n - 4, 1], [n - 3, 1], [n - 2, 3], [n - 1, 1]])
    case.same("gx_rows, one", case.value("SELECT gx_get(row, 0, 0) FROM gx_rows('L') WHERE i = ?", n - 2), 3)
    case.same("gx_slice", case.array("gx_slice('L', ?1, NULL, 0, 1)", n - 6), [1, 2, 1, 1, 3, 1])
    case.same("gx_knn", case.run("SELECT id, score FROM gx_knn('[[2.9]]', 'L', 2, '{\"metric\":\"l2\"}')"),
              [[n - 2, 0.1], [n - 5, 0.9]], rtol=1e-5)
    case.same("a product of two", case.value("SELECT gx_get(gx_matmul('L', 'L', '{\"transa\":true}'), 0, 0)"), n + 11, rtol=1e-6)
    case.run("SELECT gx_transpose('L', 'W')")
    case.drop("L")
    case.same("a row of more than 2^31 columns", case.run("SELECT gx_cols_count('W'), gx_get('W', 0, ?)", n - 5)[0], [n, 2])
    case.same("gx_topk of the row", case.run("SELECT j, value FROM gx_topk('W', 2)"), [[n - 2, 3], [n - 5, 2]])
    case.same("gx_cells of the row", case.run("SELECT j, value FROM gx_cells('W') WHERE j > ?", n - 4), [[n - 3, 1], [n - 2, 3], [n - 1, 1]])


def cells(case):
    """Cells in and files of coordinates: rows behind 2^31."""
    n = 70000 if case.small else (1 << 31) + 5000
    case.run("SELECT gx_volumes(1)")
    case.run("CREATE TABLE cell(i, value)")
    case.db.executemany("INSERT INTO cell VALUES(?, ?)", [(n - 1, 5), (7, 2), (n - 3, -4)])
    case.run("SELECT gx_store_cells('S', i, 0, value, '{\"dtype\":\"f32\"}') FROM cell")
    case.same("gx_store_cells", case.run("SELECT gx_rows_count('S'), gx_sum('S'), gx_get('S', ?, 0)", n - 3)[0], [n, 3, -4])
    path = os.path.join(case.folder, "s.mtx")
    case.run("SELECT gx_export('S', ?, '{\"format\":\"coordinate\"}')", path)
    case.drop("S")
    case.run("SELECT gx_import('S', ?, '{\"dtype\":\"f32\"}')", path)
    case.same(".mtx there and back", case.run("SELECT gx_rows_count('S'), gx_sum('S'), gx_get('S', ?, 0)", n - 1)[0], [n, 3, 5])


def tall(case):
    """More than 2^31 elements in eight columns: moments, least squares, neighbours."""
    m = 9000 if case.small else (1 << 28) + 1000
    case.run("SELECT gx_volumes(1)")
    case.run("SELECT gx_randn(?, 8, 'X', '{\"dtype\":\"f32\",\"seed\":4}')", m)
    near = 5 / np.sqrt(m)
    gram = case.array("gx_matmul('X', 'X', '{\"transa\":true}')") / m
    case.say("X^T X / m is the identity", np.abs(gram - np.eye(8)).max() < near, str(gram))
    mean = case.array("gx_mean('X', 0)")
    cov = case.array("gx_cov('X')")
    case.same("gx_cov, from the moments", cov + 0.0, (gram - np.outer(mean, mean)) * m / (m - 1) + 0.0, rtol=1e-3 if case.small else 2e-2)
    case.say("gx_cov is the identity", np.abs(cov - np.eye(8)).max() < near, str(cov))
    variances = [row[0] for row in case.run("SELECT variance FROM gx_pca('X')")]
    case.say("gx_pca has its eigenvalues", np.allclose(variances, np.linalg.eigvalsh(cov)[::-1], rtol=1e-5), str(variances))
    sigma = case.array("gx_svd('X', '{\"mode\":\"values\"}')")
    case.same("gx_svd, values", sigma**2 / m, np.linalg.eigvalsh(gram)[::-1], rtol=1e-4)
    w = np.array([1.0, -2, 3, 0, 0.5, -1, 2, -3])
    case.store("w", w)
    case.run("SELECT gx_matmul('X', 'w', 'y')")
    case.say("gx_lstsq", np.allclose(case.array("gx_lstsq('X', 'y')"), w, atol=1e-4), "")
    last = case.array("gx_row('X', ?1)", m - 1)
    case.store("q", last[None, :])
    found = case.run("SELECT id, score FROM gx_knn('q', 'X', 1, '{\"metric\":\"l2\"}')")
    case.say("gx_knn finds the last row", found[0][0] == m - 1 and found[0][1] < 1e-3, str(found))


# Files ---------------------------------------------------------------------------------------------


def files(case):
    u, v = case.outer()
    path = os.path.join(case.folder, "a.npy")
    case.run("SELECT gx_export('A', ?)", path)
    mapped = np.load(path, mmap_mode="r")
    case.same(".npy as NumPy reads it", mapped[-1, :], u[-1] * v)
    del mapped
    case.db.close()
    os.unlink(os.path.join(case.folder, "large.db"))
    case.open()
    case.run("SELECT gx_import('B', ?)", path)
    case.store("v", v)
    case.same(".npy imported", case.array("gx_matmul('B', 'v')"), u * (v @ v))


def text(case):
    """A text of more than 2^31 lines."""
    n = 70000 if case.small else (1 << 31) + 5000
    path = os.path.join(case.folder, "l.csv")
    with open(path, "wb") as out:
        block = b"1\n" * (1 << 22)
        for at in range(0, n - 6, 1 << 22):
            out.write(block[:2 * min(1 << 22, n - 6 - at)])
        out.write(b"1\n2\n1\n1\n3\n1\n")
    case.run("SELECT gx_volumes(1)")
    case.run("SELECT gx_import('L', ?, '{\"dtype\":\"f32\"}')", path)
    case.same(".csv of more than 2^31 lines", case.run("SELECT gx_rows_count('L'), gx_sum('L'), gx_get('L', ?, 0)", n - 2)[0], [n, n + 3, 3])


# Systems of equations ------------------------------------------------------------------------------


def judge(case, what, matrix, n):
    """||A x - b|| / (||A|| ||x|| n eps) within what LAPACK's tests allow."""
    residual = case.value(f"SELECT gx_norm(gx_sub(gx_matmul('{matrix}', 'x'), 'b'), 1)")
    ratio = residual / (case.value("SELECT gx_norm(?, 1) * gx_norm('x', 1)", matrix) * n * 2.0**-53)
    case.say(what, ratio < 30, f"residual {ratio}")
    case.drop("x")


def solve(case):
    """Factorisations of 2 GiB, A x = 1."""
    n = 300 if case.small else 16384
    case.run("SELECT gx_randn(?1, ?1, 'A', '{\"seed\":6}'), gx_ones(?1, 1, 'b')", n)
    case.run("SELECT gx_lu('A', 'F')")
    case.run("SELECT gx_solve('F', 'b', 'x')")
    judge(case, "gx_lu, gx_solve", "A", n)
    case.drop("F")
    case.run("SELECT gx_syrk('A', 'G')")
    case.run("SELECT gx_eval('P := G + ?1 * eye(?2)', ?, ?)", float(n), n)
    case.drop("G")
    case.run("SELECT gx_cholesky('P', 'L')")
    case.run("SELECT gx_trsm('L', 'b', 'z')")
    case.run("SELECT gx_trsm('L', 'z', 'x', '{\"trans\":true}')")
    judge(case, "gx_cholesky, gx_trsm", "P", n)
    case.drop("L", "P", "z")
    case.run("SELECT gx_qr('A', 'Q')")
    case.run("SELECT gx_lstsq('Q', 'b', 'x')")
    judge(case, "gx_qr, gx_lstsq", "A", n)


def system(case):
    """In one call, and the right-hand side is a value."""
    n = 420 if case.small else 20000
    case.run("SELECT gx_randn(?1, ?1, 'A', '{\"seed\":7}'), gx_ones(?1, 1, 'b')", n)
    case.run(f"SELECT gx_solve('A', gx_ones({n}, 1), 'x')")
    judge(case, f"gx_solve, {n}", "A", n)


# Limits --------------------------------------------------------------------------------------------


def values(case):
    """SQLite's values end at its length limit: what is near works, what is past is refused in words."""
    if not hasattr(case.db, "getlimit"):
        return case.say("Python before 3.11 knows no limits", True)
    limit = case.db.getlimit(sqlite3.SQLITE_LIMIT_LENGTH)
    if case.small:
        limit = case.db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1 << 20) and 1 << 20
    n = int((limit / 8) ** 0.5) - 8
    case.same("a value just below the limit", case.value("SELECT gx_sum(gx_ones(?1, ?1))", n), n * n)
    case.same("a sum of two values", case.value("SELECT gx_sum(gx_add(gx_ones(?1, ?1), gx_ones(?1, ?1)))", n), 2 * n * n)
    case.refused("a value just above", "", "SELECT gx_ones(?1, ?1)", n + 16)
    case.run("SELECT gx_full(?1, ?1, ?2, 'Z')", n + 16, 2.0**-20)
    case.refused("a copy as a value", "gx_copy", "SELECT gx_copy('Z')")
    case.refused("bytes", "gx_to_bytes", "SELECT gx_to_bytes('Z')")
    case.refused("a text", "gx_json", "SELECT gx_json('Z')")
    case.same("what is stored goes on", case.value("SELECT gx_sum('Z')"), (n + 16) ** 2 / 2**20)


def unstored(case):
    """Programs over more than 2^31 elements that nobody stores; small enough for every machine."""
    n = 46400
    case.run("SELECT gx_config('tile_bytes', 1000000)")
    case.same("a fused sum", case.value(f"SELECT gx_eval('sum(2 * ones({n}, 1) * ones(1, {n}) + 1)')"), 3 * n * n)
    case.same("a fused largest", case.value(f"SELECT gx_eval('max(arange(0, {n}) + arange(0, {n}).T)')"), 2 * n - 2)


CASES = (products, places, elements, within, home, column, cells, tall, files, text, solve, system, values, unstored)


def one(args):
    folder = tempfile.mkdtemp(prefix="gx-large-", dir=args.dir)
    try:
        case = Case(folder, args)
        globals()[args.only](case)
        case.db.close()
        return 1 if case.failures else 0
    finally:
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--dir")
    parser.add_argument("--memory", type=int, default=6)
    parser.add_argument("--only")
    args = parser.parse_args()
    if args.only:
        return one(args)
    failed = []
    for name in args.cases or [case.__name__ for case in CASES]:
        start = time.time()
        print(name, flush=True)
        words = [sys.executable, __file__, "--only", name, "--memory", str(args.memory)]
        words += ["--small"] * args.small + (["--dir", args.dir] if args.dir else [])
        if subprocess.run(words).returncode != 0:
            failed.append(name)
        print(f"    {time.time() - start:.0f} s", flush=True)
    print(f"failed: {' '.join(failed)}" if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
