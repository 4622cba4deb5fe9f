"""gx_cov, gx_corr, gx_pca, gx_pca_project against NumPy.

Plan:
  1  Covariance and correlation: dtypes x shapes (tall, wide, narrow, more columns than the one pass takes) x
     stored and values; ddof, rows; columns with a large mean and a small deviation keep their digits.
  2  Components of the digits and of random matrices against NumPy's SVD to 1e-10; standardised too; budgets.
  3  The model: mean, scale, components; projection equals NumPy's.
  4  One pass over the rows: bytes read.
  5  deterministic: the same bits for every budget and thread count.
  6  Errors: k, ddof, shapes, NaN, options; nothing stored.
  7  Wide matrices larger than the memory: NumPy's SVD again; methods and their options; moments of the one pass; what an SVD of as
     many values makes do with; a refusal reads nothing, gx_plan refuses the same, and its advice works.
"""
import gzip
import json
import re

import numpy as np
import pytest

from conftest import ROOT, error, from_numpy, q, to_numpy

NUMPY = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}
TOL = {"f64": 1e-12, "f32": 1e-5, "c128": 1e-12, "c64": 1e-5}


def configure(db, **settings):
    for key, value in settings.items():
        db.execute("SELECT gx_config(?, ?)", (key, value))


def sample(rng, rows, cols, dtype):
    x = rng.standard_normal((rows, cols)) * (1 + np.arange(cols)) + 10 * np.arange(cols)
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal((rows, cols)) + 3j
    return x.astype(NUMPY[dtype])


def store(db, name, x):
    db.execute("SELECT gx_store(?, ?, '{\"replace\":true}')", (name, from_numpy(x)))


def digits():
    with gzip.open(ROOT / "sql/data/digits.csv.gz", "rt") as file:
        return np.loadtxt(file, delimiter=",")[:, :64]


SHAPES = [(2, 1), (5, 3), (3, 5), (200, 17), (64, 64), (65, 64), (70, 90), (300, 260)]


@pytest.mark.parametrize("dtype", list(NUMPY))
@pytest.mark.parametrize("rows,cols", SHAPES)
def test_covariance(db, dtype, rows, cols):
    x = sample(np.random.default_rng(rows * cols), rows, cols, dtype)
    wide = x.astype(np.complex128 if dtype.startswith("c") else np.float64)
    configure(db, tile_bytes=8192)
    store(db, "A", x)
    for options, want in [("{}", np.cov(wide, rowvar=False)), ('{"ddof":0}', np.cov(wide, rowvar=False, ddof=0)),
                          ('{"rows":true}', np.cov(wide, rowvar=True) if cols > 1 else None)]:
        if want is None:
            continue
        want = np.atleast_2d(want)
        got = to_numpy(q(db, "SELECT gx_cov('A', ?)", options))
        assert got.dtype == NUMPY[dtype] and got.shape == want.shape
        assert np.abs(got - want).max() <= TOL[dtype] * np.abs(want).max(), options
        assert (got == got.conj().T).all()
    if rows > 2:
        got = to_numpy(q(db, "SELECT gx_corr('A')"))
        want = np.atleast_2d(np.corrcoef(wide, rowvar=False))
        assert np.abs(got - want).max() <= 10 * TOL[dtype]


def test_covariance_is_stored_and_symmetric(filedb):
    store(filedb, "A", sample(np.random.default_rng(1), 50, 4, "f64"))
    assert q(filedb, "SELECT gx_cov('A', 'C')") == "C"
    assert q(filedb, "SELECT properties FROM gx WHERE name = 'C'") == "symmetric,hermitian"
    assert error(filedb, "SELECT gx_cov('A', 'C')").startswith("gx_cov: ")
    assert q(filedb, "SELECT gx_corr('A', 'C', '{\"replace\":true}')") == "C"


@pytest.mark.parametrize("cols", [5, 300])
def test_large_means_lose_no_digits(db, cols):
    rng = np.random.default_rng(3)
    x = rng.integers(-8, 9, (1000, cols)) / 16 + 2.0**26
    store(db, "A", x)
    want = np.cov(x - 2.0**26, rowvar=False)
    got = to_numpy(q(db, "SELECT gx_cov('A')"))
    assert np.abs(got - want).max() < (1e-8 if cols == 300 else 1e-12)


def test_a_column_that_does_not_vary(db):
    x = np.random.default_rng(5).standard_normal((40, 3))
    x[:, 1] = 0.1
    store(db, "A", x)
    cov, corr = to_numpy(q(db, "SELECT gx_cov('A')")), to_numpy(q(db, "SELECT gx_corr('A')"))
    assert (cov[1] == 0).all() and (cov[:, 1] == 0).all()
    assert np.isnan(corr[1]).all() and np.isnan(corr[:, 1]).all()
    assert abs(corr[0, 2] - np.corrcoef(x, rowvar=False)[0, 2]) < 1e-14
    model = to_numpy(q(db, "SELECT gx_pca('A', '{\"standardize\":true}')"))
    assert model[1, 1] == 1 and np.isfinite(model).all()


def reference(x, standardize=False):
    x = x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)
    mean = x.mean(0)
    scale = x.std(0, ddof=1) if standardize else np.ones(x.shape[1])
    u, s, vh = np.linalg.svd((x - mean) / scale, full_matrices=False)
    v = vh.conj().T
    at = [np.argmax(np.abs(v[:, j]) >= np.abs(v[:, j]).max() * (1 - 2.0**-10)) for j in range(v.shape[1])]
    phase = np.array([v[at[j], j] / abs(v[at[j], j]) for j in range(v.shape[1])])
    return mean, scale, s**2 / (len(x) - 1), v / phase


def check_components(db, x, k, standardize, tol):
    mean, scale, variance, v = reference(x, standardize)
    rows = db.execute("SELECT component, variance, ratio, vector FROM gx_pca('A', ?, ?)",
                      (k, '{"standardize":%s}' % ("true" if standardize else "false"))).fetchall()
    k = k or min(x.shape)
    assert [r[0] for r in rows] == list(range(k))
    assert np.abs(np.array([r[1] for r in rows]) - variance[:k]).max() <= tol * variance[0]
    assert np.abs(np.array([r[2] for r in rows]) - variance[:k] / variance.sum()).max() <= tol
    got = np.hstack([to_numpy(r[3]) for r in rows])
    gaps = [min([abs(variance[i] - variance[j]) for j in range(len(variance)) if j != i] or [1]) / variance[0]
            for i in range(k)]
    for i in range(k):
        if gaps[i] > 1e-3 and variance[i] > 1e-9 * variance[0]:
            assert np.abs(got[:, i] - v[:, i]).max() <= 10 * tol / gaps[i], i
    return mean, scale, v[:, :k]


@pytest.mark.parametrize("standardize", [False, True])
def test_digits_equal_numpys_svd(filedb, standardize):
    x = digits()
    if standardize:
        x = x[:, x.std(0) > 0]
    store(filedb, "A", x)
    for limit in ("64MiB", "4MiB"):
        configure(filedb, tile_bytes=65536, memory_limit=limit)
        mean, scale, v = check_components(filedb, x, 10, standardize, 1e-10 / 16)
        model = to_numpy(q(filedb, "SELECT gx_pca('A', 10, ?)", '{"standardize":%d}' % standardize))
        assert np.abs(model[:, 0] - mean).max() < 1e-12 and np.abs(model[:, 1] - scale).max() < 1e-12
        assert np.abs(model[:, 2:] - v).max() < 1e-10
        q(filedb, "SELECT gx_pca('A', 10, 'M', ?)", '{"standardize":%d,"replace":true}' % standardize)
        scores = to_numpy(q(filedb, "SELECT gx_pca_project('A', 'M')"))
        assert np.abs(scores - (x - mean) / scale @ v).max() < 1e-10


@pytest.mark.parametrize("dtype", list(NUMPY))
@pytest.mark.parametrize("rows,cols,k", [(200, 17, 5), (17, 40, None), (40, 40, 3), (3, 2, None), (90, 8, 8)])
def test_components(db, dtype, rows, cols, k):
    x = sample(np.random.default_rng(rows + cols), rows, cols, dtype)
    configure(db, tile_bytes=8192)
    store(db, "A", x)
    for standardize in (False, True):
        check_components(db, x, k, standardize, {"f": 1e-12, "c": 1e-12}[dtype[0]] if dtype in ("f64", "c128") else 1e-4)


def test_one_pass(filedb):
    x = np.random.default_rng(2).standard_normal((20000, 16))
    configure(filedb, tile_bytes=65536, memory_limit="32MB")  # nothing is kept
    store(filedb, "A", x)
    filedb.execute("PRAGMA synchronous=off")
    for sql in ("SELECT gx_pca('A', 3)", "SELECT gx_cov('A')"):
        before = q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_read'")
        q(filedb, sql)
        read = q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_read'") - before
        assert x.nbytes <= read <= 1.1 * x.nbytes, sql


def test_deterministic(filedb):
    configure(filedb, tile_bytes=16384, deterministic="on")
    store(filedb, "A", np.random.default_rng(2).standard_normal((3000, 24)) + 5)
    results = set()
    for limit, threads in [("64MiB", 1), ("64MiB", 2), ("1MiB", 2), ("700KiB", 1)]:
        configure(filedb, memory_limit=limit, threads=threads)
        results.add((q(filedb, "SELECT gx_pca('A', 5)"), q(filedb, "SELECT gx_cov('A')"),
                     q(filedb, "SELECT gx_corr('A')")))
    assert len(results) == 1


def test_errors(db):
    store(db, "A", np.arange(12.0).reshape(4, 3))
    cases = {
        "SELECT gx_pca('A', 4)": "gx_pca: k is 4 but A is 4x3: it has 3 components",
        "SELECT gx_pca('A', 0)": "gx_pca: k must be at least 1, not 0",
        "SELECT * FROM gx_pca('A', 4)": "gx_pca: k is 4 but A is 4x3: it has 3 components",
        "SELECT gx_pca('A', 2, 'M', '{\"ddof\":-1}')": "gx_pca: ddof must not be negative, not -1",
        "SELECT gx_cov('A', '{\"ddof\":4}')": "gx_cov: A has 4 rows: ddof 4 needs more",
        "SELECT gx_cov('[[1,2]]')": "gx_cov: A has 1 row: ddof 1 needs more",
        "SELECT gx_pca_project('A', '[[1,2],[3,4]]')":
            "gx_pca_project: model is 2x2 but a model of A (4x3) has 3 rows: mean, scale, components",
        "SELECT gx_corr('A', '{\"ddof\":1}')": 'gx_corr: unknown option "ddof": the known ones are "rows", "dtype", "saturate" and "replace"',
        "SELECT gx_pca('nothing')": "gx_pca: no matrix named 'nothing'",
    }
    for sql, text in cases.items():
        assert error(db, sql) == text, sql
    x = np.ones((9, 3))
    x[4, 1] = np.nan
    for rows in (9, 2):
        store(db, "N", x[3:3 + rows])
        assert error(db, "SELECT gx_pca('N', 1, 'M')") == "gx_pca: N has NaN or Inf"
    assert db.execute("SELECT count(*) FROM gx WHERE name = 'M'").fetchone()[0] == 0
    cov = to_numpy(q(db, "SELECT gx_cov('N')"))
    assert np.isnan(cov[1]).all()


def wide_sample(rows, cols, dtype, seed=9):
    """Few strong directions, noise, and means far from zero."""
    rng = np.random.default_rng(seed)
    strong = rng.standard_normal((rows, 6)) * np.array([40.0, 30, 22, 16, 11, 7])
    basis = rng.standard_normal((6, cols))
    x = strong @ basis / np.sqrt(cols) + 0.05 * rng.standard_normal((rows, cols))
    if dtype.startswith("c"):
        x = x + 1j * 0.03 * rng.standard_normal((rows, cols))
    return (x + 100 + np.arange(cols) % 7).astype(NUMPY[dtype])


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("dtype,tol", [("f64", 1e-11), ("c128", 1e-11), ("f32", 1e-6)])
def test_wide_in_little_memory(filedb, dtype, tol, standardize):
    """Columns are centred where blocks are read, in every pass of the Krylov method: equal to NumPy's SVD."""
    filedb.execute("PRAGMA synchronous=off")
    x = wide_sample(210, 900, dtype)
    configure(filedb, tile_bytes=64 * 64 * 8)
    store(filedb, "A", x)
    used = "SELECT value FROM gx_stats WHERE name = 'memory_used'"
    configure(filedb, memory_limit="2600KiB" if dtype == "c128" else "1800KiB")
    before = q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_read'"), q(filedb, used)
    check_components(filedb, x, 4, standardize, tol)
    read = q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_read'") - before[0]
    assert read > 3 * x.nbytes and q(filedb, used) == before[1]
    model = to_numpy(q(filedb, "SELECT gx_pca('A', 4, ?)", '{"standardize":%d}' % standardize))
    configure(filedb, memory_limit="64MiB")
    ample = to_numpy(q(filedb, "SELECT gx_pca('A', 4, ?)", '{"standardize":%d}' % standardize))
    assert np.abs(model - ample).max() <= 100 * tol * np.abs(ample).max()
    assert q(filedb, "SELECT count(*) FROM gx") == 1


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("dtype,tol", [("f64", 1e-11), ("f32", 1e-6)])
def test_wide_in_three_passes(filedb, dtype, tol, standardize):
    """60 rows and 3000 numbers of memory for each of its five components: moments, a QR by panels, a pass for the vectors."""
    filedb.execute("PRAGMA synchronous=off")
    x = wide_sample(60, 6000, dtype)
    configure(filedb, tile_bytes=64 * 64 * 8)
    store(filedb, "A", x)
    configure(filedb, memory_limit="2MiB")
    filedb.execute("SELECT gx_stats_reset()")
    check_components(filedb, x, 5, standardize, tol)
    seen = dict(filedb.execute("SELECT name, value FROM gx_stats"))
    assert 2 * x.nbytes < seen["bytes_read"] < 3.1 * x.nbytes
    assert "3 passes" in q(filedb, "SELECT detail FROM gx_plan('pca(A, 5)') WHERE device = 'cpu'")


@pytest.mark.parametrize("limit", ["7MiB", "8MiB", "10MiB"])
def test_large_tiles_in_little_memory(filedb, limit):
    """Passes go by chunks: four tiles in doubles, 12 MB, are not what they take."""
    filedb.execute("PRAGMA synchronous=off")
    x = wide_sample(600, 600, "f32")
    configure(filedb, tile_bytes=2000000)
    store(filedb, "A", x)
    configure(filedb, memory_limit=limit)
    for options in ('{"method":"krylov"}', '{"method":"krylov","ncv":9}', '{"method":"randomized","power":6}', "{}"):
        q(filedb, "SELECT gx_pca('A', 4, 'model', json_patch(?, '{\"replace\":true}'))", options)
    mean, scale, variance, v = reference(x)
    configure(filedb, memory_limit="64MiB")
    assert np.abs(to_numpy(q(filedb, "SELECT gx_copy('model')"))[:, 2:] - v[:, :4]).max() < 1e-6


def test_a_refusal_reads_nothing(filedb):
    filedb.execute("PRAGMA synchronous=off")
    x = wide_sample(60, 6000, "f64")
    configure(filedb, tile_bytes=64 * 64 * 8)
    store(filedb, "A", x)
    configure(filedb, memory_limit="2MiB")
    for options, k in (({}, 13), ({}, 8), ({"method": "krylov"}, 6), ({"method": "randomized"}, 6)):
        filedb.execute("SELECT gx_stats_reset()")
        text = error(filedb, "SELECT gx_pca('A', ?, ?)", k, json.dumps(options))
        assert q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_read'") == 0
        needed, left = map(int, re.findall(r"\((\d+) bytes\)", text))
        configure(filedb, memory_limit=2**21 + needed - left)
        assert q(filedb, "SELECT length(gx_pca('A', ?, ?))", k, json.dumps(options)) > 0
        configure(filedb, memory_limit="2MiB")
        advice = re.search(r'ask for (\d+)(?: with (\{.*\})|, with method "(auto)"|), or raise it with', text)
        options |= json.loads(advice[2] or "{}") | ({"method": "auto"} if advice[3] else {})
        assert 1 <= int(advice[1]) <= k
        model = to_numpy(q(filedb, "SELECT gx_pca('A', ?, ?)", int(advice[1]), json.dumps(options)))
        assert model.shape == (6000, 2 + int(advice[1]))
    assert error(filedb, "SELECT * FROM gx_plan('pca(A, 13)')")[9:].split(" but ")[0] == \
        error(filedb, "SELECT gx_pca('A', 13)")[8:].split(" but ")[0]


@pytest.mark.parametrize("rows,cols", [(210, 900), (900, 210)])
def test_the_same_bits_of_what_is_streamed(filedb, rows, cols):
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=64 * 64 * 8, deterministic="on")
    store(filedb, "A", wide_sample(rows, cols, "f64"))
    seen = set()
    for limit, threads in [("1800KiB", 2), ("1500KiB", 1), ("1800KiB", 1)]:
        configure(filedb, memory_limit=limit, threads=threads)
        seen.add(tuple(filedb.execute("SELECT variance, ratio, vector FROM gx_pca('A', 3)").fetchall()))
    assert len(seen) == 1


def test_wide_moments_keep_their_digits(db):
    """Means and deviations of the one pass: large means, a column that does not vary, one row of tiles and many."""
    rng = np.random.default_rng(11)
    x = rng.integers(-8, 9, (70, 300)) / 16 + 2.0**26
    x[:, 5] = 0.1
    configure(db, tile_bytes=8192)
    store(db, "A", x)
    model = to_numpy(q(db, "SELECT gx_pca('A', 3, '{\"standardize\":true}')"))
    want = (x - 2.0**26).std(0, ddof=1)
    want[5] = 1
    assert np.abs(model[:, 1] / want - 1).max() < 1e-14 and model[5, 0] == 0.1
    corr = to_numpy(q(db, "SELECT gx_corr('A')"))
    keep = np.arange(300) != 5
    assert np.isnan(corr[5]).all() and np.isnan(corr[:, 5]).all()
    exact = np.corrcoef(x[:, keep] - 2.0**26, rowvar=False)
    assert np.abs(corr[np.ix_(keep, keep)] - exact).max() < 1e-13


@pytest.mark.parametrize("rows,cols", [(120, 300), (300, 120)])
def test_methods(db, rows, cols):
    configure(db, tile_bytes=8192)
    x = wide_sample(rows, cols, "f64")
    store(db, "A", x)
    _, _, variance, v = reference(x)
    for options in ('{"method":"dense"}', '{"method":"krylov","block":3,"ncv":40,"seed":4}',
                    '{"method":"randomized","power":6,"oversample":20}'):
        got = db.execute("SELECT variance, vector FROM gx_pca('A', 4, ?)", (options,)).fetchall()
        assert np.abs(np.array([r[0] for r in got]) / variance[:4] - 1).max() < 1e-11
        assert np.abs(np.hstack([to_numpy(r[1]) for r in got]) - v[:, :4]).max() < 1e-9
    cases = {
        '{"method":"qr"}':
            'option "method" must be one of auto, dense, krylov, randomized, not "qr"',
        '{"method":"krylov","ncv":5}': "ncv must be from 9 to 120 for k = 4, not 5",
        '{"tol":-1}': 'option "tol" must be at least 0 and below 1, not -1',
        '{"seed":true}': 'option "seed" must be an integer',
    }
    for options, text in cases.items():
        assert error(db, "SELECT gx_pca('A', 4, ?)", options).startswith("gx_pca: " + text), options


@pytest.mark.parametrize("standardize", ["false", "true"])
def test_weak_components_keep_their_digits(db, standardize):
    """By the product of the centred columns with themselves where that is as good; else by their triangle."""
    rng = np.random.default_rng(12)
    u, _ = np.linalg.qr(rng.standard_normal((40000, 12)))
    v, _ = np.linalg.qr(rng.standard_normal((12, 12)))
    for strengths in (np.linspace(9, 3, 12), 10.0 ** -np.arange(12)):
        x = (u - u.mean(0)) * strengths @ v.T + 7
        centred = x - x.mean(0)
        centred = centred / centred.std(0, ddof=1) if standardize == "true" else centred
        want = np.linalg.svd(centred, compute_uv=False)[:5]
        for order in (slice(None), np.argsort(x[:, 0])):  # sorted: the first rows' means are far from those of all
            got = [row[0] for row in db.execute(
                f"SELECT variance FROM gx_pca(?, 5, '{{\"standardize\":{standardize}}}')", (from_numpy(x[order]),))]
            assert np.allclose(np.sqrt(np.array(got) * 39999), want, rtol=1e-9, atol=1e-14 * want[0])
            cov = to_numpy(q(db, "SELECT gx_cov(?)", from_numpy(x[order])))
            deviation = x.std(0, ddof=1)
            assert (np.abs(cov - np.cov(x.T)) / np.outer(deviation, deviation)).max() < 1e-13


@pytest.mark.parametrize("size", [1e-170, 1e160])
def test_columns_that_cannot_be_squared(db, size):
    """A correlation does not depend on units."""
    x = np.random.default_rng(13).standard_normal((90000, 6)) @ np.random.default_rng(14).standard_normal((6, 6)) + 3
    value = from_numpy(x * np.array([1, size, size, 1, 1, 1]))
    want = np.corrcoef(x.T)
    assert np.allclose(to_numpy(q(db, "SELECT gx_corr(?)", value)), want, rtol=0, atol=1e-12)
    got = [row[0] for row in db.execute("SELECT variance FROM gx_pca(?, 3, '{\"standardize\":true}')", (value,))]
    assert np.allclose(got, np.sort(np.linalg.eigvalsh(want))[:2:-1], rtol=1e-10)
