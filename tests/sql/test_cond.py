"""gx_cond, gx_rcond against NumPy and SciPy.

Plan:
  1  Norms 1, inf, 2 over dtypes, sizes, structures; the estimate is within [1/3, 1] of the truth.
  2  Files, the gallery; bcsstk13 within a factor 3 of the true one.
  3  Singular, empty, badly scaled, not finite.
  4  Factors: the norm told, remembered, missing.  Stored larger than memory; nothing left in temp.
  5  Refusals in words.
"""
import numpy as np
import pytest
import scipy.io
from conftest import ROOT, error, from_numpy, q
from test_solve import NUMPY, PROPERTY, config, nothing_in_temp, random, store, structured

DATA = ROOT / "tests" / "data"


def is_estimate(got, want, slack=1e-3):
    return want / 3.01 <= got <= want * (1 + slack)


@pytest.mark.parametrize("dtype", list(NUMPY))
def test_norms(db, dtype):
    rng = np.random.default_rng(1)
    slack = 1e-3 if dtype in ("f64", "c128") else 0.05
    for n in (1, 2, 3, 10, 60):
        for kind in PROPERTY:
            a = structured(rng, n, dtype, kind)
            wide = a.astype(np.complex128)
            for norm, order in ((1, 1), ("inf", np.inf)):
                got = q(db, "SELECT gx_cond(?, ?)", from_numpy(a), norm)
                assert is_estimate(got, np.linalg.cond(wide, order), slack), (n, kind, norm)
                assert q(db, "SELECT gx_rcond(?, ?)", from_numpy(a), norm) == pytest.approx(1 / got)
            assert q(db, "SELECT gx_cond(?, 2)", from_numpy(a)) == pytest.approx(np.linalg.cond(wide, 2), rel=slack)
    tall = random(rng, 40, 7, dtype)
    assert q(db, "SELECT gx_cond(?, '2')", from_numpy(tall)) == pytest.approx(np.linalg.cond(tall), rel=slack)


def test_files(filedb):
    for name, properties in (("bcsstk13", "positive"), ("west0067", None), ("olm1000", None)):
        a = scipy.io.mmread(DATA / f"{name}.mtx").toarray()
        filedb.execute("SELECT gx_import(?, ?)", (name, str(DATA / f"{name}.mtx")))
        want = np.linalg.norm(a, 1) * np.linalg.norm(np.linalg.inv(a), 1)
        assert is_estimate(q(filedb, "SELECT gx_cond(?)", name), want, 0.01), name
        if properties:
            filedb.execute("SELECT gx_set_property(?, ?)", (name, properties))
            assert is_estimate(q(filedb, "SELECT gx_cond(?)", name), want, 0.01), name


@pytest.mark.parametrize("kind", ["hilb", "minij", "lehmer", "moler", "frank", "kahan", "clement"])
def test_gallery(db, kind):
    db.execute("SELECT gx_matrix_gallery(?, 8, 'A')", (kind,))
    a = np.array([[q(db, "SELECT gx_get('A', ?, ?)", i, j) for j in range(8)] for i in range(8)])
    assert is_estimate(q(db, "SELECT gx_cond('A')"), np.linalg.cond(a, 1), 0.01)


def test_special(db):
    assert q(db, "SELECT gx_cond('[[1,2],[2,4]]')") == float("inf")
    assert q(db, "SELECT gx_rcond('[[1,2],[2,4]]', 'inf')") == 0
    assert q(db, "SELECT gx_rcond('[[1,2],[2,4]]', 2)") < 1e-15
    assert q(db, "SELECT gx_cond('[[0,0],[0,0]]', 2)") == float("inf")
    assert q(db, "SELECT gx_cond('[[1,0],[0,0]]')") == float("inf")
    empty = from_numpy(np.zeros((0, 0)))
    assert [q(db, "SELECT gx_cond(?, ?)", empty, kind) for kind in (1, 2, "inf")] == [0, 0, 0]
    assert q(db, "SELECT gx_rcond(?)", empty) == float("inf")
    assert q(db, "SELECT gx_cond('[[1e-300,0],[0,1e300]]')") == float("inf")
    assert q(db, "SELECT gx_cond('[[1e-150,0],[0,1e150]]')") == pytest.approx(1e300)
    assert error(db, "SELECT gx_cond(?)", from_numpy(np.array([[1, np.nan], [0, 1]]))) == \
        "gx_cond: A has elements that are not finite"


def test_factors(filedb):
    rng = np.random.default_rng(2)
    config(filedb, tile_bytes=8192)
    for dtype in ("f64", "c64"):
        a = structured(rng, 80, dtype, "positive")
        norm, want = np.linalg.norm(a, 1), np.linalg.cond(a, 1)
        store(filedb, "L", np.linalg.cholesky(a), "lower")
        assert is_estimate(q(filedb, "SELECT gx_cond('L', 1, ?)", f'{{"factor":"cholesky","norm":{norm}}}'), want, 0.05)
        store(filedb, "A", a)
        filedb.execute("SELECT gx_lu('A', 'F', '{\"replace\":true}')")
        assert is_estimate(q(filedb, "SELECT gx_cond('F')"), want, 0.05)
        assert error(filedb, "SELECT gx_cond('F', 'inf')") == \
            "gx_cond: F is a factor: give the norm of the matrix it is the factor of, '{\"norm\":...}'"
        filedb.execute("SELECT gx_qr('A', 'Q', '{\"replace\":true}')")
        assert is_estimate(q(filedb, "SELECT gx_cond('Q', 1, ?)", f'{{"norm":{norm}}}'), want, 0.05)
    assert error(filedb, "SELECT gx_cond('L', 1, '{\"factor\":\"cholesky\"}')") == \
        "gx_cond: L is a factor: give the norm of the matrix it is the factor of, '{\"norm\":...}'"


def test_larger_than_memory(filedb):
    rng = np.random.default_rng(3)
    config(filedb, tile_bytes=8192)
    for kind in PROPERTY:
        a = structured(rng, 260, "f64", kind)
        store(filedb, "A", a, PROPERTY[kind])
        config(filedb, memory_limit="900KB")
        assert is_estimate(q(filedb, "SELECT gx_cond('A')"), np.linalg.cond(a, 1)), kind
        config(filedb, memory_limit="64MiB")
    assert nothing_in_temp(filedb)


@pytest.mark.parametrize("sql,text", [
    ("SELECT gx_cond('[[1,2]]')",
     "gx_cond: A is 1x2, but only a square matrix has a condition number of this kind (kind 2: any)"),
    ("SELECT gx_cond('[[1]]', 'fro')", "gx_cond: kind must be one of 1, inf, 2, not 'fro'"),
    ("SELECT gx_rcond('[[1]]', 1, '{\"norm\":-1}')", "gx_rcond: option \"norm\" must be at least 0 and finite, not -1"),
    ("SELECT gx_cond('[[1]]', 2, '{\"norm\":1}')",
     "gx_cond: kind 2 is by singular values: it takes the matrix itself and no options"),
    ("SELECT gx_cond('[[1,2],[2,1]]', 1, '{\"assume\":\"positive\"}')",
     "gx_cond: A is not positive definite (leading minor of order 2)"),
    ("SELECT gx_cond('A')", "gx_cond: no matrix named 'A'"),
])
def test_refused(db, sql, text):
    assert error(db, sql) == text
