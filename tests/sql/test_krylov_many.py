"""Many eigenvalues at an end of a symmetric spectrum, by the Krylov method.

Plan:
  1  Random symmetric and Hermitian matrices, dtypes x ends x 5 and 12 %, and closed-form spectra (poisson, tridiag):
     none missed, vectors orthonormal, residuals.
  2  A value of multiplicity 20 at the end; a value on both sides (+-, "LM"); spectra with few values (minij, low rank),
     or one (the identity, zeros).
  3  Streamed, with the same bits; a generalised problem; chosen where the dense method does not fit.
  4  A method that there is not, an ncv out of range, not converged and partial: the exact texts.
"""
import json

import numpy as np
import pytest

from conftest import error
from krylovkit import configure, eig, matrix, store

EPS = {"f64": 2.0**-52, "c128": 2.0**-52, "f32": 2.0**-23, "c64": 2.0**-23}


def wanted(w, which):
    key = {"LM": -abs(w), "LA": -w, "SA": w}[which]
    return w[np.argsort(key, kind="stable")]


def check(db, a, which, k, dtype="f64", **options):
    n = len(a)
    want = wanted(np.linalg.eigvalsh(a.astype(np.complex128)), which)[:k]
    values, residuals, x = eig(db, k=k, which=which, method="krylov", **options)
    scale = n * EPS[dtype] * np.abs(np.linalg.eigvalsh(a)).max()
    bound = 60 if dtype.startswith("f64") or dtype == "c128" else 400 / n * 60
    assert len(values) == k and (values.imag == 0).all()
    assert np.abs(np.abs(values) - np.abs(want)).max() <= bound * scale
    if which != "LM":
        assert (np.diff(values.real) * (1 if which == "SA" else -1) >= 0).all()
    assert residuals.max() <= bound * scale
    assert np.linalg.norm(x.conj().T @ x - np.eye(k)) <= bound * n * EPS[dtype]


@pytest.mark.parametrize("which", ["LM", "LA", "SA"])
@pytest.mark.parametrize("dtype", list(EPS))
def test_random(db, dtype, which):
    configure(db, tile_bytes=65536)
    a = matrix(np.random.default_rng(3), 260, dtype, True)
    store(db, "A", a)
    for k in (13, 31):
        check(db, a, which, k, dtype)


@pytest.mark.parametrize("which", ["LM", "LA", "SA"])
def test_closed_forms(db, which):
    db.execute("SELECT gx_matrix_gallery('tridiag', 300, 'A')")
    tridiag = 2 - 2 * np.cos(np.arange(1, 301) * np.pi / 301)
    side = 4 * np.sin(np.arange(1, 19) * np.pi / 38) ** 2
    poisson = np.sort((side[:, None] + side[None, :]).ravel())
    for want, k in ((tridiag, 15), (tridiag, 50), (poisson, 40)):
        if len(want) == 324:
            db.execute("SELECT gx_matrix_gallery('poisson', 324, 'A', '{\"replace\":true}')")
        values, residuals, _ = eig(db, k=k, which=which, method="krylov")
        assert np.abs(values.real - wanted(want, which)[:k]).max() < 1e-12
        assert residuals.max() < 1e-11


def test_multiple_values(db):
    rng = np.random.default_rng(8)
    basis, _ = np.linalg.qr(rng.standard_normal((250, 250)))
    d = np.concatenate([[5.0] * 20, [-5.0] * 3, rng.uniform(-1, 4, 227)])
    a = (basis * d) @ basis.T
    a = (a + a.T) / 2
    store(db, "A", a)
    for which, k in (("LA", 25), ("LA", 18), ("LM", 25), ("SA", 13)):
        check(db, a, which, k)
        check(db, a, which, k, block=4)


def test_few_different_values(db):
    i = np.arange(1.0, 121)
    rank = np.random.default_rng(0).standard_normal((220, 5))
    for a, which in ((np.minimum.outer(i, i), "LA"), (np.eye(100), "LM"), (np.zeros((80, 80)), "SA"),
                     (rank @ rank.T, "LM"), (np.diag([1.0, 2, 3]), "LA")):
        store(db, "A", a)
        k = max(1, len(a) // 10)
        values, residuals, _ = eig(db, k=k, which=which, method="krylov")
        size = max(1.0, np.abs(a).sum(0).max())
        assert np.abs(values.real - wanted(np.linalg.eigvalsh(a), which)[:k]).max() < 1e-12 * size
        assert residuals.max() < 1e-11 * size


def test_streamed_with_the_same_bits(filedb):
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=32768, deterministic="on")
    a = matrix(np.random.default_rng(5), 400, "f64", True)
    store(filedb, "A", a)
    results = set()
    options = json.dumps({"k": 30, "method": "krylov", "which": "LA", "symmetric": True})
    for limit, threads in (("64MiB", 2), ("5MiB", 2), ("4500KiB", 1)):
        configure(filedb, memory_limit=limit, threads=threads)
        rows = filedb.execute("SELECT value, imag, residual, vector FROM gx_eig('A', ?)", (options,)).fetchall()
        results.add(tuple(rows))
    assert len(results) == 1
    assert np.abs(np.array([r[0] for r in rows]) - np.linalg.eigvalsh(a)[::-1][:30]).max() < 1e-11


def test_generalised(db):
    scipy_linalg = pytest.importorskip("scipy.linalg")
    rng = np.random.default_rng(6)
    a, m = matrix(rng, 300, "f64", True), matrix(rng, 300, "f64", False)
    b = m @ m.T + 300 * np.eye(300)
    store(db, "A", a)
    store(db, "B", b)
    want = scipy_linalg.eigh(a, b, eigvals_only=True)
    values, residuals, x = eig(db, k=25, which="LA", b="B", method="krylov")
    assert np.abs(values - want[::-1][:25]).max() < 1e-11 and residuals.max() < 1e-9
    assert np.abs(x.T @ b @ x - np.eye(25)).max() < 1e-10


def test_chosen_where_dense_does_not_fit(filedb):
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=32768)
    a = matrix(np.random.default_rng(6), 500, "f64", True)
    store(filedb, "A", a)
    configure(filedb, memory_limit="5MiB")
    assert "need" in error(filedb, "SELECT * FROM gx_eig('A', '{\"k\":30,\"which\":\"SA\",\"method\":\"dense\"}')")
    values, _, _ = eig(filedb, k=30, which="SA", method="auto")
    assert np.abs(values - np.linalg.eigvalsh(a)[:30]).max() < 1e-11


def test_refusals(db):
    store(db, "A", matrix(np.random.default_rng(1), 60, "f64", True))
    methods = 'option "method" must be one of auto, dense, krylov, not "chebyshev"'
    cases = [({"k": 6, "method": "chebyshev"}, methods), ({}, "method \"krylov\" needs k, the number of eigenvalues"),
             ({"k": 25, "ncv": 50}, "ncv must be from 51 to 60 for k = 25, not 50"),
             ({"k": 25, "ncv": 61}, "ncv must be from 51 to 60 for k = 25, not 61")]
    for options, text in cases:
        options = json.dumps({"method": "krylov", **options})
        assert error(db, "SELECT * FROM gx_eig(?, ?)", "A", options) == "gx_eig: " + text


def test_not_converged(db):
    a = matrix(np.random.default_rng(9), 300, "f64", True)
    store(db, "A", a)
    options = {"k": 30, "which": "LA", "method": "krylov", "ncv": 64, "block": 4, "maxiter": 9}
    text = error(db, "SELECT * FROM gx_eig('A', ?)", json.dumps(options))
    assert text.startswith("gx_eig: ") and " of 30 eigenvalues of A converged in 9 restarts (largest residual " in text
    values, residuals, _ = eig(db, partial=True, **options)
    assert 0 < len(values) < 30
    assert max(np.abs(np.linalg.eigvalsh(a) - v).min() for v in values.real) < 1e-10 and residuals.max() < 1e-9
