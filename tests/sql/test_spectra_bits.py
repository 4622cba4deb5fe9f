"""With `deterministic` on and the same seed: the same bits for every budget and number of threads.

Plan:
  1  gx_eig: dense, Krylov, shift-invert, generalised, symmetric and general.
  2  gx_svd: all, the k largest by Krylov and randomized, values of a tall and of a wide matrix.
  3  gx_pca, gx_cov, gx_corr, tall and wide.
  4  PCA of 20000 x 64 in one pass over the rows, to 1e-10 against NumPy's SVD of the centred matrix.

Three budgets: all in memory; tight, where some of it is; tiny, near the least that the call is done in.
"""
import numpy as np
import pytest

from conftest import from_numpy, q, to_numpy


def configure(db, **settings):
    for key, value in settings.items():
        db.execute("SELECT gx_config(?, ?)", (key, value))


def store(db, name, x):
    db.execute("SELECT gx_store(?, ?, '{\"replace\":true}')", (name, from_numpy(x)))


@pytest.fixture
def spectra(filedb):
    """A symmetric, G general, B positive definite, T tall, W wide; deterministic."""
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=32768, deterministic="on")
    rng = np.random.default_rng(21)
    n = 300
    a = rng.standard_normal((n, n)) + 3 * np.diag(np.arange(float(n)))
    store(filedb, "A", (a + a.T) / 2)
    store(filedb, "G", a)
    b = rng.standard_normal((n, n))
    store(filedb, "B", b @ b.T / n + np.eye(n))
    store(filedb, "T", rng.standard_normal((3000, 40)) + 2)
    store(filedb, "W", rng.standard_normal((120, 900)) + 1)
    return filedb


def assert_same_bits(db, sql, tight, tiny):
    results = set()
    for limit, threads in (("64MiB", 2), (tight, 1), (tiny, 2)):
        configure(db, memory_limit=limit, threads=threads)
        results.add(tuple(db.execute(sql).fetchall()))
        peak, most = (q(db, "SELECT value FROM gx_stats WHERE name = ?", name) for name in ("memory_peak", "memory_limit"))
        assert limit == "64MiB" or peak <= most
        db.execute("SELECT gx_stats_reset()")
    assert len(results) == 1, sql


KRYLOV = '"method":"krylov","k":3,"ncv":24,"block":3'


@pytest.mark.parametrize("a,options,tight,tiny", [
    ("A", '{}', "8MiB", "4MiB"),
    ("G", '{}', "8MiB", "6MiB"),
    ("A", '{"b":"B"}', "8MiB", "5MiB"),
    ("A", '{' + KRYLOV + '}', "1MiB", "700KiB"),
    ("G", '{' + KRYLOV + '}', "1MiB", "700KiB"),
    ("A", '{' + KRYLOV + ',"sigma":100.2}', "4MiB", "2800KiB"),
    ("G", '{' + KRYLOV + ',"sigma":100.2}', "4MiB", "2800KiB"),
    ("G", '{' + KRYLOV + ',"sigma":[100,2]}', "8MiB", "6MiB"),
    ("A", '{' + KRYLOV + ',"which":"LA","b":"B"}', "3MiB", "2500KiB"),
    ("A", '{' + KRYLOV + ',"sigma":100.2,"b":"B"}', "4MiB", "3MiB"),
])
def test_eig(spectra, a, options, tight, tiny):
    assert_same_bits(spectra, f"SELECT value, imag, residual, vector FROM gx_eig('{a}', '{options}')", tight, tiny)


@pytest.mark.parametrize("sql,tight,tiny", [
    ("SELECT sigma, u, v FROM gx_svd('A')", "12MiB", "6MiB"),
    ("SELECT sigma, u, v FROM gx_svd('T')", "12MiB", "5MiB"),
    ("SELECT sigma, u, v FROM gx_svd('A', '{\"k\":3,\"method\":\"krylov\"}')", "2MiB", "1500KiB"),
    ("SELECT sigma, u, v FROM gx_svd('T', '{\"k\":3,\"method\":\"krylov\"}')", "4MiB", "3MiB"),
    ("SELECT sigma, u, v FROM gx_svd('A', '{\"k\":3,\"method\":\"randomized\",\"seed\":7}')", "1MiB", "700KiB"),
    ("SELECT gx_svd('T')", "2MiB", "1500KiB"),
    ("SELECT gx_svd('W')", "4MiB", "3MiB"),
])
def test_svd(spectra, sql, tight, tiny):
    assert_same_bits(spectra, sql, tight, tiny)


@pytest.mark.parametrize("sql,tight,tiny", [
    ("SELECT component, variance, ratio, vector FROM gx_pca('T', 5)", "1MiB", "700KiB"),
    ("SELECT component, variance, ratio, vector FROM gx_pca('W', 5)", "12MiB", "8MiB"),
    ("SELECT gx_cov('T'), gx_corr('T')", "1MiB", "700KiB"),
    ("SELECT gx_cov('W')", "12MiB", "9MiB"),
])
def test_statistics(spectra, sql, tight, tiny):
    assert_same_bits(spectra, sql, tight, tiny)


@pytest.mark.parametrize("deterministic", ["on", "off"])
def test_one_pass_over_the_rows(filedb, deterministic):
    filedb.execute("PRAGMA synchronous=off")
    m, n = 20000, 64
    rng = np.random.default_rng(22)
    x = rng.standard_normal((m, n)) @ np.diag(np.logspace(0, -6, n)) + 1000 * rng.standard_normal(n)
    configure(filedb, tile_bytes="1MiB", deterministic=deterministic)
    store(filedb, "A", x)
    configure(filedb, memory_limit="9MiB")
    centred = x - x.mean(axis=0)
    _, s, vt = np.linalg.svd(centred, full_matrices=False)
    for sql in ("SELECT gx_cov('A')", "SELECT variance, vector FROM gx_pca('A', 8)"):
        filedb.execute("SELECT gx_stats_reset()")
        rows = filedb.execute(sql).fetchall()
        seen = dict(filedb.execute("SELECT name, value FROM gx_stats"))
        assert x.nbytes <= seen["bytes_read"] <= 1.05 * x.nbytes, sql
        assert seen["memory_peak"] <= seen["memory_limit"]
        if sql.startswith("SELECT gx_cov"):
            want = centred.T @ centred / (m - 1)
            assert np.abs(to_numpy(rows[0][0]) - want).max() <= 1e-10 * np.abs(want).max()
            continue
        want = s[:8] ** 2 / (m - 1)
        assert np.abs(np.array([r[0] for r in rows]) - want).max() <= 1e-10 * want[0]
        vectors = np.hstack([to_numpy(r[1]) for r in rows])
        assert np.abs(np.abs((vectors * vt[:8].T).sum(axis=0)) - 1).max() < 1e-10
