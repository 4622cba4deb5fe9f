"""Covariance, least squares and rank of long tables: one streamed pass, a triangle for each tile (core/alg/alg_stack.c).

Plan:
  1  Columns of many kinds (scales, large means, trends, nearly dependent, constant, zeros in half of the rows, sorted,
     walks), enough rows that units multiply instead of factoring, and kinds that make them factor after all, in large
     and in small tiles: the covariance against one in long double, each element beside the deviations; the least-squares residual orthogonal to A.
  2  Complex and f32; right-hand sides and their residuals.
  3  The same bits for every number of threads and readers, and memory for one thread or for all.
  4  Variances of f32 columns, as correlated as may be squared and more: those of doubles.
  5  Counters: each tile once, by helpers; the rank reads once too.
  6  With a column of ones, as regressions have it: columns that are nearly orthogonal only without their means, and others.
"""
import itertools

import numpy as np
import pytest

from conftest import from_numpy, q, to_numpy

ROWS, COLS = 60000, 20


def columns(kind):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((ROWS, COLS))
    if kind == "scales":
        x *= 10.0 ** np.arange(-10, 10)
    elif kind == "mean":
        x += 1e8
    elif kind == "trend":
        x *= 1e-3 + np.linspace(0, 1, ROWS)[:, None] ** 6 * 1e3
    elif kind.startswith("dependent"):
        x[:, 10] = x[:, 0] + float(kind.split()[1]) * x[:, 11]
    elif kind == "constant":
        x[:, 3] = 7
    elif kind == "halves":
        x[:ROWS // 2, 4], x[ROWS // 2:, 5] = 0, 0
    elif kind == "sorted":
        x.sort(axis=0)
    elif kind == "walk":
        x = x.cumsum(axis=0)
    return x


def configure(db, **settings):
    for key, value in settings.items():
        db.execute("SELECT gx_config(?, ?)", (key, value))


def stat(db, name):
    return q(db, "SELECT value FROM gx_stats WHERE name = ?", name)


KINDS = ["random", "scales", "mean", "trend", "dependent 1e-5", "dependent 1e-9", "constant", "halves", "sorted", "walk"]


@pytest.mark.parametrize("kind, tile", [(kind, "8MiB") for kind in KINDS] + [(kind, "512KiB") for kind in ("random", "dependent 1e-9", "halves", "sorted")])
def test_accuracy(filedb, kind, tile):
    x = columns(kind)
    configure(filedb, tile_bytes=tile)
    filedb.execute("PRAGMA synchronous=off")
    filedb.execute("SELECT gx_store('A', ?)", (from_numpy(x),))
    wide = x.astype(np.longdouble)
    wide -= wide.mean(axis=0)
    want = wide.T @ wide / (ROWS - 1)
    deviation = np.sqrt(np.diag(want))
    deviation[deviation == 0] = 1
    error = np.abs((to_numpy(q(filedb, "SELECT gx_cov('A')")) - want) / np.outer(deviation, deviation)).max()
    assert error < 100 * 2.0**-53
    if kind in ("scales", "mean"):  # x's own rounding decides how orthogonal a residual can be
        return
    b = x.sum(axis=1, keepdims=True) + np.random.default_rng(6).standard_normal((ROWS, 1))
    filedb.execute("SELECT gx_store('b', ?)", (from_numpy(b),))
    rest = b - x @ to_numpy(q(filedb, "SELECT gx_lstsq('A', 'b')"))
    lengths = np.linalg.norm(x, axis=0)
    cosine = np.abs(x.T @ rest)[:, 0] / (lengths * np.linalg.norm(rest) + (lengths == 0))
    assert cosine.max() < 1e-11


@pytest.mark.parametrize("dtype", ["c128", "f32", "c64"])
def test_dtypes(filedb, dtype):
    rng = np.random.default_rng(7)
    numpy_dtype = {"c128": np.complex128, "c64": np.complex64, "f32": np.float32}[dtype]
    eps = 2.0**-53 if dtype == "c128" else 2.0**-24
    a = rng.standard_normal((30000, 12)) + (1j * rng.standard_normal((30000, 12)) if dtype[0] == "c" else 0)
    a, b = a.astype(numpy_dtype), (a[:, :3] ** 2).astype(numpy_dtype)
    filedb.execute("SELECT gx_store('A', ?)", (from_numpy(a),))
    filedb.execute("SELECT gx_store('B', ?)", (from_numpy(b),))
    x = to_numpy(q(filedb, "SELECT gx_lstsq('A', 'B')"))
    want = np.linalg.lstsq(a.astype(np.complex128), b.astype(np.complex128), rcond=None)[0]
    assert np.abs(x - want).max() < 1000 * eps
    wide = a.astype(np.complex128) - a.astype(np.complex128).mean(axis=0)
    got = to_numpy(q(filedb, "SELECT gx_cov('A')"))
    assert np.abs(got - wide.T @ wide.conj() / (30000 - 1)).max() < 100 * eps


@pytest.mark.parametrize("share", [0.0, 0.9, 0.995, 0.99999])
def test_variances_of_floats_have_the_digits_of_doubles(filedb, share):
    rng = np.random.default_rng(8)
    x = rng.standard_normal((40000, 10)) * np.sqrt(1 - share) + rng.standard_normal((40000, 1)) * np.sqrt(share)
    x = (x * 10.0 ** np.arange(-5, 5) + 3).astype(np.float32)
    filedb.execute("SELECT gx_store('A', ?)", (from_numpy(x),))
    wide = x.astype(np.float64)
    wide -= wide.mean(axis=0)
    for options in ("{}", '{"standardize":true}'):
        scaled = wide if options == "{}" else wide / wide.std(axis=0, ddof=1)
        want = np.linalg.svd(scaled, compute_uv=False) ** 2 / 39999
        got = np.array(filedb.execute(f"SELECT variance FROM gx_pca('A', 10, '{options}')").fetchall())[:, 0]
        few = 3 if options == "{}" else 10  # lengths that are 10^9 apart leave no digits of the shortest one's
        assert np.abs(got - want)[:few].max() < 1e-12 * want[0] and (np.abs(got / want - 1) < 1e-9)[:few].all()


def test_same_bits(filedb):
    filedb.execute("PRAGMA synchronous=off")
    filedb.execute("SELECT gx_store('A', ?)", (from_numpy(columns("random")),))
    filedb.execute("SELECT gx_store('b', ?)", (from_numpy(columns("walk")[:, :2]),))
    for call in ("gx_cov('A')", "gx_lstsq('A', 'b')"):
        seen = set()
        for threads, readers, limit in itertools.product((1, 2, 3), (0, 2), ("96MB", "256MB")):
            configure(filedb, threads=threads, readers=readers, memory_limit=limit, deterministic="on")
            seen.add(bytes(q(filedb, f"SELECT {call}")))
        assert len(seen) == 1, call


def test_reads(filedb):
    configure(filedb, readers=2, threads=2, tile_bytes="256kB", memory_limit="64MB")  # nothing is kept
    filedb.execute("SELECT gx_random(100000, 16, 'A', '{\"dtype\":\"f32\"}')")
    tiles = q(filedb, "SELECT (rows + tile_rows - 1) / tile_rows FROM gx_meta WHERE name = 'A'")
    for call in ("gx_cov('A')", "gx_rank('A')"):
        filedb.execute("SELECT gx_stats_reset()")
        q(filedb, f"SELECT {call}")
        assert stat(filedb, "tiles_read") <= tiles + 1  # the first rows' means are looked at before
        assert stat(filedb, "bytes_read") <= 1.01 * 100000 * 16 * 4
        assert stat(filedb, "helper_reads") >= tiles - 1


@pytest.mark.parametrize("kind", ["random", "mean 5", "mean 1000", "near", "trend", "walk", "late"])
def test_with_a_column_of_ones(filedb, kind):
    rng = np.random.default_rng(8)
    x = columns(kind)
    if kind.startswith("mean "):
        x += float(kind.split()[1])
    elif kind == "near":
        x[:, 10] = x[:, 0] + 1e-3 * rng.standard_normal(ROWS) + 3
    elif kind == "late":  # the first rows of each tile tell nothing of the others
        x[np.arange(ROWS) % 3000 > 700] += 40
    b = x @ np.arange(1.0, COLS + 1) + 50 * rng.standard_normal(ROWS)  # which is not nearly dependent on x
    filedb.execute("SELECT gx_store('A', ?), gx_store('b', ?)", (from_numpy(x), from_numpy(b[:, None])))
    rows = filedb.execute("SELECT estimate, std_error FROM gx_lm_terms(gx_lm_fit('A', 'b'))").fetchall()
    got, errors = np.array(rows).T
    wide = x.astype(np.longdouble)
    means = wide.mean(axis=0)
    centred, rest = wide - means, (b.astype(np.longdouble) - b.mean()).astype(np.longdouble)
    gram = (centred.T @ centred).astype(float)
    want = np.linalg.solve(gram, (centred.T @ rest).astype(float))
    for _ in range(3):  # of a residual in long double
        want += np.linalg.solve(gram, (centred.T @ (rest - centred @ want)).astype(float))
    e = (rest - centred @ want).astype(float)
    assert np.abs(got[1:] / want - 1).max() < 1e-11
    assert abs(got[0] - float(b.astype(np.longdouble).mean() - means @ want)) < 1e-11 * (1 + np.abs(x).max()) * np.abs(want).sum()
    assert np.allclose(errors[1:], np.sqrt(e @ e / (ROWS - COLS - 1) * np.diag(np.linalg.inv(gram))), rtol=1e-7)
