"""gx_eig and gx_svd by Krylov methods against NumPy and SciPy's ARPACK.

Plan:
  1  Symmetric, Hermitian, general: dtypes x sizes x k (1, some, all), residuals and values.
  2  Gallery: poisson, clement, minij, wilkinson; multiplicities larger than the block; identity, zero, low rank.
  3  bcsstk13 largest and smallest 10, olm1000 rightmost 6 and nearest to a sigma: ARPACK, 1e-8 relative to ||A||.
  4  Generalised problem; shift-invert on an eigenvalue.
  5  Budgets: A larger than the memory, streamed; deterministic: the same bits for every budget.
  6  Not converged: the error, partial; a start; refusals with their exact texts.
"""
import json

import numpy as np
import pytest

from conftest import ROOT, error, q, to_numpy
from krylovkit import NUMPY, configure, eig, matrix, nearest_distances, store

TOL = {"f64": 1e-10, "f32": 2e-4, "c128": 1e-10, "c64": 2e-4}


@pytest.mark.parametrize("is_hermitian", [True, False])
@pytest.mark.parametrize("dtype", list(NUMPY))
@pytest.mark.parametrize("n,k", [(1, 1), (2, 1), (3, 3), (10, 4), (50, 6), (50, 50), (130, 1)])
def test_against_numpy(db, dtype, is_hermitian, n, k):
    configure(db, tile_bytes=8192)
    a = matrix(np.random.default_rng(n + k), n, dtype, is_hermitian)
    store(db, "A", a)
    wide = a.astype(np.complex128)
    want = np.linalg.eigvals(wide)
    want = want[np.argsort(-abs(want), kind="stable")]
    values, residuals, x = eig(db, k=k)
    norm = np.linalg.norm(wide, 2)
    assert len(values) == k
    assert np.abs(np.abs(values) - np.abs(want[:k])).max() <= 10 * TOL[dtype] * norm
    assert max(np.abs(want - v).min() for v in values) <= 10 * TOL[dtype] * norm
    assert residuals.max() <= TOL[dtype] * norm
    assert np.linalg.norm(wide @ x - x * values, axis=0).max() <= 2 * TOL[dtype] * norm
    assert np.abs(np.linalg.norm(x, axis=0) - 1).max() < 1e-5
    if is_hermitian:
        assert (values.imag == 0).all() and x.dtype == NUMPY[dtype]
        assert np.abs(x.conj().T @ x - np.eye(k)).max() < 1e-4


@pytest.mark.parametrize("which,key", [("LR", lambda w: -w.real), ("SR", lambda w: w.real), ("LM", lambda w: -abs(w)),
                                       ("SM", abs)])
def test_which(db, which, key):
    for is_hermitian in (True, False):
        a = matrix(np.random.default_rng(4), 90, "f64", is_hermitian)
        store(db, "A", a)
        want = np.linalg.eigvals(a)
        values, _, _ = eig(db, k=5, which=which)
        assert np.abs(key(values) - np.sort(key(want))[:5]).max() < 1e-8


@pytest.mark.parametrize("kind,n", [("poisson", 144), ("clement", 120), ("minij", 150), ("wilkinson", 101)])
def test_gallery(db, kind, n):
    db.execute("SELECT gx_matrix_gallery(?, ?, 'A')", (kind, n))
    a = to_numpy(q(db, "SELECT gx_copy('A')"))
    want = np.sort(np.linalg.eigvals(a).real)
    values, residuals, _ = eig(db, k=8, which="LA", block=2)
    norm = np.abs(want).max()
    assert np.abs(values.real - want[::-1][:8]).max() <= 1e-9 * norm, kind
    assert residuals.max() <= 1e-9 * norm


@pytest.mark.parametrize("block", [1, 2, 3])
def test_multiplicities_larger_than_the_block(db, block):
    rng = np.random.default_rng(8)
    basis, _ = np.linalg.qr(rng.standard_normal((120, 120)))
    d = np.concatenate([[7.0] * 6, [5.0] * 3, rng.uniform(-1, 1, 111)])
    a = (basis * d) @ basis.T
    store(db, "A", (a + a.T) / 2)
    values, _, x = eig(db, k=9, block=block)
    assert np.abs(values - d[:9]).max() < 1e-9
    assert np.abs(x.T @ x - np.eye(9)).max() < 1e-8


def test_breakdown(db):
    store(db, "A", np.eye(60))
    values, residuals, x = eig(db, k=5)
    assert np.abs(values - 1).max() < 1e-14 and residuals.max() < 1e-13
    assert np.abs(x.T @ x - np.eye(5)).max() < 1e-13
    store(db, "A", np.zeros((60, 60)))
    values, residuals, _ = eig(db, k=5)
    assert (values == 0).all() and (residuals == 0).all()
    u = np.random.default_rng(0).standard_normal((200, 3))
    store(db, "A", u @ u.T)
    values, _, _ = eig(db, k=6)
    want = np.linalg.eigvalsh(u @ u.T)[::-1][:6]
    assert np.abs(values - want).max() < 1e-11 * want[0]


def imported(db, name):
    db.execute("SELECT gx_import(?, ?)", (name, str(ROOT / f"tests/data/{name}.mtx")))
    return to_numpy(q(db, "SELECT gx_copy(?)", name))


def test_bcsstk13(db):
    sl = pytest.importorskip("scipy.sparse.linalg")
    a = imported(db, "bcsstk13")
    norm = np.linalg.norm(a, 1)
    largest = np.sort(sl.eigsh(a, 10, which="LA", return_eigenvectors=False))[::-1]
    values, residuals, _ = eig(db, "bcsstk13", k=10)
    assert np.abs(values - largest).max() <= 1e-8 * norm and residuals.max() <= 1e-8 * norm
    smallest = np.sort(sl.eigsh(a, 10, sigma=0, return_eigenvectors=False))
    values, residuals, _ = eig(db, "bcsstk13", k=10, which="SM")
    assert np.abs(values - smallest).max() <= 1e-8 * norm and residuals.max() <= 1e-8 * norm
    assert np.abs(values / smallest - 1).max() < 1e-5


def test_olm1000(db):
    """Stiff and non-normal: ||A|| is 9e4, the rightmost values are below 5.  Also beside the norm of the values."""
    sl = pytest.importorskip("scipy.sparse.linalg")
    sparse = pytest.importorskip("scipy.sparse")
    a = imported(db, "olm1000")
    norm = np.linalg.norm(a, 2)
    want = np.linalg.eigvals(a)
    right = want[np.argsort(-want.real, kind="stable")][:6]
    arpack = sl.eigs(sparse.csr_matrix(a), 6, which="LR", ncv=60, maxiter=3000, return_eigenvectors=False)
    for options in ({"sigma": 5.0}, {"which": "LR", "method": "auto"}):
        values, residuals, x = eig(db, "olm1000", k=6, **options)
        for reference in (right, arpack):
            assert nearest_distances(values, reference).max() <= 1e-8 * np.abs(right).max(), options
        assert residuals.max() <= 1e-13 * norm
        assert np.abs(a @ x - x * values).max() <= 1e-13 * norm
    assert np.abs(values.real - right.real).max() < 1e-8
    assert values[3].imag > 0 and values[4] == values[3].conj()  # rightmost first, a pair its positive part first
    assert error(db, "SELECT * FROM gx_eig('olm1000', '{\"k\":6,\"which\":\"LR\",\"maxiter\":5}')").startswith(
        "gx_eig: 0 of 6 eigenvalues of olm1000 converged in 5 restarts (largest residual ")
    values, residuals, _ = eig(db, "olm1000", k=4, sigma=-10.0)
    near = want[np.argsort(abs(want + 10))][:4]
    assert np.abs(abs(values + 10) - abs(near + 10)).max() <= 1e-13 * norm and residuals.max() <= 1e-13 * norm


def test_generalised(db):
    scipy_linalg = pytest.importorskip("scipy.linalg")
    rng = np.random.default_rng(6)
    for dtype in ("f64", "c128"):
        a = matrix(rng, 80, dtype, True)
        m = matrix(rng, 80, dtype, False)
        b = m @ m.conj().T + 80 * np.eye(80)
        store(db, "A", a)
        store(db, "B", b)
        want = scipy_linalg.eigh(a, b, eigvals_only=True)
        values, residuals, x = eig(db, k=4, which="LA", b="B")
        assert np.abs(values - want[::-1][:4]).max() < 1e-11 and residuals.max() < 1e-9
        assert np.abs(x.conj().T @ b @ x - np.eye(4)).max() < 1e-9
        values, residuals, _ = eig(db, k=3, sigma=0.02, b="B")
        assert np.abs(values - want[np.argsort(abs(want - 0.02))][:3]).max() < 1e-10
    store(db, "B", -np.eye(80))
    assert error(db, "SELECT * FROM gx_eig('A', '{\"k\":2,\"method\":\"krylov\",\"b\":\"B\"}')") == \
        "gx_eig: B is not positive definite (leading minor of order 1)"


def test_shift_on_an_eigenvalue(db):
    store(db, "A", np.diag(np.arange(1.0, 61)))
    values, _, _ = eig(db, k=3, sigma=7)
    assert np.abs(np.sort(values.real) - [6, 7, 8]).max() < 1e-9
    values, residuals, _ = eig(db, k=1, sigma=[7.2, 0.5])
    assert abs(values[0] - 7) < 1e-12


@pytest.mark.parametrize("is_hermitian", [True, False])
def test_streamed_with_the_same_bits(filedb, is_hermitian):
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=32768, deterministic="on")
    n = 400
    a = matrix(np.random.default_rng(5), n, "f64", is_hermitian)
    a[np.arange(n), np.arange(n)] += np.linspace(0, 60, n)
    store(filedb, "A", a)
    results = set()
    options = json.dumps({"k": 3, "method": "krylov", "ncv": 40, "block": 4, "symmetric": is_hermitian})
    for limit, threads in [("64MiB", 2), ("1200KiB", 2), ("900KiB", 1)]:
        configure(filedb, memory_limit=limit, threads=threads)
        rows = filedb.execute("SELECT value, imag, residual, vector FROM gx_eig('A', ?)", (options,)).fetchall()
        results.add(tuple(rows))
    assert len(results) == 1
    want = np.linalg.eigvals(a)
    assert abs(rows[0][0] - want[np.argmax(abs(want))].real) < 1e-9


def test_partial_and_start(db):
    a = matrix(np.random.default_rng(9), 300, "f64", True)
    store(db, "A", a)
    text = error(db, "SELECT * FROM gx_eig('A', '{\"k\":10,\"method\":\"krylov\",\"ncv\":22,\"maxiter\":2}')")
    assert text.startswith("gx_eig: ") and " of 10 eigenvalues of A converged in 2 restarts (largest residual " in text
    values, _, _ = eig(db, k=10, ncv=24, maxiter=6, partial=True)
    assert len(values) < 10
    w, v = np.linalg.eigh(a)
    store(db, "S", v[:, -2:])
    values, _, _ = eig(db, k=2, which="LA", start="S")
    assert np.abs(values - w[::-1][:2]).max() < 1e-10


def test_refusals(db):
    store(db, "A", np.ones((30, 30)))
    cases = {
        '{"method":"krylov"}': "method \"krylov\" needs k, the number of eigenvalues",
        '{"method":"krylov","k":31}': "k is 31 but A is 30x30: it has 30 eigenvalues",
        '{"method":"krylov","k":3,"ncv":6}': "ncv must be from 7 to 30 for k = 3, not 6",
        '{"method":"krylov","k":3,"ncv":31}': "ncv must be from 7 to 30 for k = 3, not 31",
        '{"method":"krylov","k":3,"block":65}': "block must be from 1 to 64, not 65",
    }
    for options, text in cases.items():
        assert error(db, "SELECT * FROM gx_eig('A', ?)", options) == "gx_eig: " + text
    x = np.ones((30, 30))
    x[3, 4] = np.nan
    store(db, "N", x)
    assert "NaN" in error(db, "SELECT * FROM gx_eig('N', '{\"method\":\"krylov\",\"k\":2}')")
