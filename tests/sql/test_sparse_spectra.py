"""Few eigenvalues and singular values of sparse matrices.  LAPACK through NumPy is the oracle.

Plan:
- gx_eig, gx_eigvals, gx_svd, their tables: stored and as values, every dtype, symmetric and not, every end of the spectrum; vectors by
  their residuals; the copy in memory and the stream of panels under a small memory_limit give the same values;
- sigma and the smallest: by a sparse factorisation, also where sigma is an eigenvalue; skipped without SuiteSparse, refused in words
  where it is not installed;
- what needs a dense matrix is refused in words; NaN is named; an interrupt is heard.
"""
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import error, from_numpy, q, to_numpy
from test_sparse_solve import bare, convection, poisson, suite  # noqa: F401 (fixtures)


def numbers(db, sql, *params):
    return to_numpy(q(db, sql, *params)).ravel()


def store(db, A, name="S", dtype="f64"):
    q(db, "SELECT gx_sparse(?, 0, ?, ?)", from_numpy(np.asarray(A.toarray())), name, f'{{"dtype":"{dtype}","replace":true}}')


def weighted(side):
    """Symmetric, with simple and well parted values."""
    n = side * side
    return (poisson(side) + sp.diags(np.linspace(0, 40, n) ** 1.2)).tocsr()


@pytest.mark.parametrize("which,pick", [("LM", lambda w: w[::-1]), ("LA", lambda w: w[::-1]), ("SA", lambda w: w)])
def test_symmetric(bare, which, pick):  # noqa: F811
    A = weighted(15)
    store(bare, A)
    got = numbers(bare, "SELECT gx_eigvals('S', ?)", f'{{"k":5,"which":"{which}"}}')
    assert np.allclose(got, pick(np.linalg.eigvalsh(A.toarray()))[:5], rtol=1e-10)
    q(bare, "SELECT gx_eig('S', 'w', 'V', ?)", f'{{"k":5,"which":"{which}"}}')
    w, V = numbers(bare, "SELECT gx_copy('w')"), to_numpy(q(bare, "SELECT gx_copy('V')"))
    assert np.allclose(A @ V, V * w, atol=1e-9 * abs(w).max()) and np.allclose(V.T @ V, np.eye(5), atol=1e-10)
    rows = bare.execute("SELECT value FROM gx_eig('S', ?)", (f'{{"k":5,"which":"{which}"}}',)).fetchall()
    assert np.allclose([row[0] for row in rows], w)


def test_general(bare):  # noqa: F811
    rng = np.random.default_rng(3)
    A = (sp.random(300, 300, 0.02, random_state=3) + sp.diags(np.linspace(0, 50, 300) ** 1.3)).tocsr()
    store(bare, A)
    want = np.linalg.eigvals(A.toarray())
    got = numbers(bare, "SELECT gx_eigvals('S', '{\"k\":4}')")
    assert np.allclose(abs(got), sorted(abs(want))[::-1][:4], rtol=1e-8)
    assert "not symmetric: its left eigenvectors" in error(bare, "SELECT gx_eig('S', 'w', 'V', '{\"k\":4,\"left\":\"L\"}')")
    C = A.toarray() * np.exp(1j * rng.random((300, 300)))
    q(bare, "SELECT gx_sparse(?, 0, 'C')", from_numpy(C))
    got = numbers(bare, "SELECT gx_eigvals('C', '{\"k\":3}')")
    assert np.allclose(abs(got), sorted(abs(np.linalg.eigvals(C)))[::-1][:3], rtol=1e-8)


@pytest.mark.parametrize("dtype", ["f64", "f32", "c128", "c64"])
def test_svd(bare, dtype):  # noqa: F811
    A = (sp.random(180, 90, 0.1, random_state=4) + sp.diags(np.linspace(1, 30, 90), 0, (180, 90))).toarray()
    A = A * np.exp(2j * A) if dtype[0] == "c" else A
    q(bare, "SELECT gx_sparse(?, 0, 'S', ?)", from_numpy(A), f'{{"dtype":"{dtype}"}}')
    q(bare, "SELECT gx_svd('S', 's', 'U', 'V', '{\"k\":4,\"method\":\"krylov\"}')")
    s, U, V = (to_numpy(q(bare, "SELECT gx_copy(?)", name)) for name in "sUV")
    close = 1e-10 if dtype in ("f64", "c128") else 1e-4
    assert np.allclose(s.ravel(), np.linalg.svd(A)[1][:4], rtol=close)
    assert np.allclose(A @ V.conj().T, U * s.ravel(), atol=10 * close * s.max())
    value = q(bare, "SELECT gx_copy('S')")
    assert np.allclose(numbers(bare, "SELECT gx_svd(?, '{\"k\":4}')", value), s.ravel(), rtol=close)


def test_streamed(bare):  # noqa: F811
    """A matrix that does not fit is read in every pass; so it is in memory, to rounding."""
    q(bare, "SELECT gx_config('tile_bytes', 65536)")
    q(bare, "SELECT gx_config('threads', 2)")
    q(bare, "SELECT gx_randn(1500, 1500, 'S', '{\"density\":0.1,\"seed\":1}')")
    bytes_ = q(bare, "SELECT bytes FROM gx WHERE name = 'S'")
    whole = numbers(bare, "SELECT gx_svd('S', '{\"k\":1,\"tol\":1e-6,\"ncv\":12,\"block\":2}')")
    q(bare, "SELECT gx_config('memory_limit', ?)", bytes_ // 2)
    streamed = numbers(bare, "SELECT gx_svd('S', '{\"k\":1,\"tol\":1e-6,\"ncv\":12,\"block\":2}')")
    assert np.allclose(whole, streamed, rtol=1e-8)


@pytest.mark.parametrize("sigma", [0, 3.3, -1, 4, 100])
@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_sigma(suite, sigma, dtype):  # noqa: F811
    """4 is an eigenvalue, thirty times, and 100 is far from all."""
    A = poisson(30)
    q(suite, "SELECT gx_matrix_gallery('poisson', 900, 'P', ?)", f'{{"sparse":true,"dtype":"{dtype}"}}')
    w = np.linalg.eigvalsh(A.toarray())
    got = numbers(suite, "SELECT gx_eigvals('P', ?)", f'{{"k":4,"sigma":{sigma}}}')
    assert np.allclose(abs(got - sigma), sorted(abs(w - sigma))[:4], atol=1e-10 if dtype == "f64" else 2e-3)


def test_smallest_of_a_singular_matrix(suite):  # noqa: F811
    """A path's Laplacian: 0 is an eigenvalue."""
    n = 200
    A = sp.diags([-1, 2, -1], [-1, 0, 1], (n, n)).tolil()
    A[0, 0] = A[n - 1, n - 1] = 1
    store(suite, A)
    got = numbers(suite, "SELECT gx_eigvals('S', '{\"k\":3,\"which\":\"SM\"}')")
    assert np.allclose(got, np.linalg.eigvalsh(A.toarray())[:3], atol=1e-9)
    store(suite, sp.csr_array(np.roll(np.diag(np.arange(1.0, 41)), 1, 0)))  # no entry on the diagonal
    general = np.roll(np.diag(np.arange(1.0, 41)), 1, 0)
    got = numbers(suite, "SELECT gx_eigvals('S', '{\"k\":2,\"sigma\":20}')")
    assert np.allclose(sorted(abs(got - 20)), sorted(abs(np.linalg.eigvals(general) - 20))[:2], rtol=1e-6)


def test_refusals(bare):  # noqa: F811
    store(bare, convection(8, 0.5))
    for sql in ("gx_eig('S')", "gx_eigvals('S')", "gx_eig('S', '{\"k\":3,\"method\":\"dense\"}')"):
        assert "is needed dense here: gx_dense makes it so, 32768 bytes; k of its eigenvalues are found as it is" in error(bare, f"SELECT {sql}")
    for sql in ("gx_svd('S')", "gx_svd('S', '{\"k\":2,\"which\":\"SM\"}')", "gx_svd('S', '{\"k\":2,\"method\":\"dense\"}')"):
        assert "32768 bytes; its k largest singular values are found as it is" in error(bare, f"SELECT {sql}")
    assert "a \"b\" is for dense matrices" in error(bare, "SELECT gx_eig('S', '{\"k\":2,\"b\":\"[[1]]\"}')") or \
        "is 1x1" in error(bare, "SELECT gx_eig('S', '{\"k\":2,\"b\":\"[[1]]\"}')")
    assert "so must \"sigma\" be" in error(bare, "SELECT gx_eig('S', '{\"k\":2,\"sigma\":[1,1]}')")
    assert "SuiteSparse" in error(bare, "SELECT gx_eig('S', '{\"k\":2,\"sigma\":1}')")
    assert "is needed dense" in error(bare, "SELECT gx_nullspace('S')")
    A = convection(8, 0.5).toarray()
    A[3, 2] = np.nan
    q(bare, "SELECT gx_sparse(?, 0, 'N')", from_numpy(A))
    assert error(bare, "SELECT gx_eig('N', '{\"k\":2}')") == "gx_eig: N[3,2] is NaN"
    assert "NaN" in error(bare, "SELECT gx_svd('N', '{\"k\":2}')")


def test_interrupts(bare):  # noqa: F811
    q(bare, "SELECT gx_matrix_gallery('poisson', 10000, 'P', '{\"sparse\":true}')")
    bare.create_function("stopped", 1, lambda text: bare.interrupt() or text)
    for name in ("gx_eig", "gx_svd"):
        assert "interrupted" in error(bare, f"SELECT {name}('P', stopped('{{\"k\":3}}'))")
