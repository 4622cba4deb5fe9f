"""Sparse systems: gx_solve of a sparse A, direct and iterative.  SciPy is the oracle.

Plan:
- direct: Poisson (CHOLMOD), convection-diffusion and indefinite matrices (UMFPACK), every dtype, trans, many columns, stored
  and values, singular and not definite ones; the residual check; skipped where SuiteSparse is not installed;
- iterative: each method with each of its preconditioners, least squares, first guesses, blocks of right-hand sides; what does not
  converge says how far it came; what a method is not for is refused;
- the choice: by properties, by a look; an empty folder as GX_SUITESPARSE_PATH is a machine without SuiteSparse, and says so;
- the same bits for every number of threads; memory limits; interrupts leave at once; options that do not go together.
"""
import sqlite3

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sl
from conftest import error, from_numpy, gx_connect, q, to_numpy


def poisson(side):
    return convection(side, 0)


def convection(side, c):
    D, eye = sp.diags([-1 - c, 2, -1 + c], [-1, 0, 1], (side, side)), sp.eye(side)
    return (sp.kron(D, eye) + sp.kron(eye, D)).tocsr()


def indefinite(side):
    return (poisson(side) - 1.5 * sp.eye(side * side)).tocsr()


def value(db, A):
    """A SciPy matrix as a sparse value."""
    return q(db, "SELECT gx_sparse(?)", from_numpy(A.toarray()))


def rhs(n, cols=1, dtype=np.float64, seed=5):
    rng = np.random.default_rng(seed)
    b = rng.standard_normal((n, cols))
    if np.issubdtype(dtype, np.complexfloating):
        b = b + 1j * rng.standard_normal((n, cols))
    return b.astype(dtype)


def solve(db, A, b, options="{}"):
    return to_numpy(q(db, "SELECT gx_solve(?, ?, ?)", A, from_numpy(b), options))


def residual(A, x, b):
    return np.linalg.norm(b - A @ x) / np.linalg.norm(b)


def stat(db, name):
    return q(db, "SELECT value FROM gx_stats WHERE name = ?", name)


def notes(db):
    return [row[0] for row in db.execute("SELECT meaning FROM gx_stats WHERE name = 'note'")]


def make(db, n):
    """Poisson's matrix P of order n, and a right-hand side b."""
    q(db, "SELECT gx_matrix_gallery('poisson', ?, 'P', '{\"sparse\":true}')", n)
    q(db, "SELECT gx_randn(?, 1, 'b', '{\"seed\":2}')", n)


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine without SuiteSparse: it is looked for in an empty folder."""
    monkeypatch.setenv("GX_SUITESPARSE_PATH", str(tmp_path))
    db = gx_connect()
    yield db
    db.close()


@pytest.fixture
def suite(db):
    try:
        solve(db, value(db, convection(2, 0.5)), rhs(4), '{"method":"direct"}')
    except sqlite3.OperationalError as e:
        if "SuiteSparse" not in str(e):
            raise
        pytest.skip(str(e))
    return db


# Direct ---------------------------------------------------------------------------------------------

@pytest.mark.parametrize("matrix", [poisson, indefinite, lambda side: convection(side, 0.7)], ids="spd indefinite general".split())
@pytest.mark.parametrize("trans", ["N", "T", "H"])
def test_direct(suite, matrix, trans):
    A, b = matrix(15), rhs(225, 20)
    x = solve(suite, value(suite, A), b, f'{{"method":"direct","trans":"{trans}"}}')
    assert residual(A if trans == "N" else A.T, x, b) < 1e-12
    assert stat(suite, "probes") > 0 and stat(suite, "probe_ratio") < 100_000


@pytest.mark.parametrize("a", [np.float64, np.float32, np.complex128, np.complex64])
@pytest.mark.parametrize("b", [np.float64, np.float32, np.complex128])
def test_direct_dtypes(suite, a, b):
    rng = np.random.default_rng(1)
    A = (convection(9, 0.4).toarray() * (1 + 1j * rng.random((81, 81)))).astype(a, copy=False) \
        if np.issubdtype(a, np.complexfloating) else convection(9, 0.4).toarray().astype(a)
    right = rhs(81, 2, b)
    for trans, op in (("N", A), ("T", A.T), ("H", A.conj().T)):
        x = solve(suite, q(suite, "SELECT gx_sparse(?)", from_numpy(A)), right, f'{{"trans":"{trans}"}}')
        assert x.dtype == np.result_type(a, b)
        assert residual(op, x, right) < (1e-12 if x.dtype in (np.float64, np.complex128) else 1e-5)


def test_direct_of_stored_panels(suite):
    q(suite, "SELECT gx_config('tile_bytes', 4096)")
    q(suite, "SELECT gx_matrix_gallery('poisson', 900, 'P', '{\"sparse\":true}')")
    assert q(suite, "SELECT count(*) FROM gx_tile") > 5
    q(suite, "SELECT gx_randn(900, 3, 'B', '{\"seed\":1}')")
    assert q(suite, "SELECT gx_solve('P', 'B', 'X', '{\"method\":\"direct\"}')") == "X"
    b, x = (to_numpy(q(suite, f"SELECT gx_copy('{name}')")) for name in "BX")
    assert residual(poisson(30), x, b) < 1e-13
    assert q(suite, "SELECT count(*) FROM gx WHERE name = 'X' AND format = 'sparse'") == 0


def test_direct_refusals(suite):
    singular = value(suite, sp.diags([1.0, 0, 2, 3]).tocsr())
    zero_row = value(suite, sp.csr_array(np.array([[1.0, 2], [2, 4]])))
    for A, n in ((singular, 4), (zero_row, 2)):
        assert "A is singular" in error(suite, "SELECT gx_solve(?, ?)", A, from_numpy(rhs(n)))
    assert error(suite, "SELECT gx_solve(?, ?, '{\"assume\":\"positive\"}')", value(suite, indefinite(5)),
                 from_numpy(rhs(25))) == "gx_solve: A is not positive definite"
    assert error(suite, "SELECT gx_solve(?, ?, '{\"assume\":\"positive\"}')", value(suite, convection(5, 0.5)),
                 from_numpy(rhs(25))) == "gx_solve: A is said to be positive definite but is not symmetric"
    A = poisson(4).toarray()
    A[3, 2] = np.inf
    assert error(suite, "SELECT gx_solve(?, ?)", q(suite, "SELECT gx_sparse(?)", from_numpy(A)),
                 from_numpy(rhs(16))) == "gx_solve: A[3,2] is Inf"


def test_without_suitesparse(bare):
    A, b = value(bare, poisson(8)), rhs(64)
    text = error(bare, "SELECT gx_solve(?, ?, '{\"method\":\"direct\"}')", A, from_numpy(b))
    assert text.startswith("gx_solve: a sparse direct solve needs UMFPACK of SuiteSparse, and libumfpack.so")
    assert "install libumfpack" in text and "\n" not in text
    for matrix, method in ((poisson, "cg"), (indefinite, "minres"), (lambda side: convection(side, 0.5), "gmres")):
        q(bare, "SELECT gx_stats_reset()")
        x = solve(bare, value(bare, matrix(8)), b)
        assert residual(matrix(8), x, b) <= 1e-8
        assert stat(bare, "iterations") > 0
        assert any(f"sparse systems: {method}, since" in note for note in notes(bare))


# Iterative ------------------------------------------------------------------------------------------

METHODS = [(m, p) for m, ps in {"cg": "none jacobi ic0", "minres": "none jacobi ic0", "gmres": "none jacobi ilu0",
                                "lsqr": "none jacobi"}.items() for p in ps.split()]


@pytest.mark.parametrize("method,precond", METHODS)
def test_iterative(bare, method, precond):
    scale = sp.diags(np.exp(np.linspace(0, 2, 144)))
    A = (scale @ poisson(12) @ scale).tocsr()
    b = rhs(144, 3)
    x = solve(bare, value(bare, A), b, f'{{"method":"{method}","precond":"{precond}","tol":1e-10}}')
    for j in range(3):
        assert residual(A, x[:, j], b[:, j]) <= (1e-10 if method != "lsqr" else 1e-7)
    assert stat(bare, "iterations") > 0


@pytest.mark.parametrize("precond", ["none", "jacobi", "ilu0"])
@pytest.mark.parametrize("trans", ["N", "T"])
def test_gmres_of_a_general_matrix(bare, precond, trans):
    A, b = convection(12, 0.6), rhs(144)
    x = solve(bare, value(bare, A), b, f'{{"method":"gmres","precond":"{precond}","restart":40,"trans":"{trans}"}}')
    assert residual(A if trans == "N" else A.T, x, b) <= 1e-8


def test_minres_of_an_indefinite_matrix(bare):
    A, b = indefinite(12), rhs(144, 2)
    x = solve(bare, value(bare, A), b, '{"method":"minres","tol":1e-9}')
    assert np.allclose(x, sl.spsolve(A.tocsc(), b), rtol=0, atol=1e-6 * abs(x).max())


@pytest.mark.parametrize("precond", ["none", "jacobi"])
@pytest.mark.parametrize("shape", [(60, 25), (25, 60), (7, 7)])
def test_lsqr(bare, precond, shape):
    A = sp.random(*shape, 0.5, random_state=2).tocsr()
    b = rhs(shape[0], 2)
    x = solve(bare, value(bare, A), b, f'{{"method":"lsqr","precond":"{precond}","tol":1e-11}}')
    r = b - A @ x
    assert np.linalg.norm(A.T @ r) <= 1e-9 * sl.norm(A) * max(np.linalg.norm(r), 1e-2)
    if shape[0] > shape[1] or precond == "none":  # the least squares solution, or the shortest one
        assert np.allclose(x, np.linalg.lstsq(A.toarray(), b, rcond=None)[0], rtol=0, atol=1e-7)


def test_lstsq(bare):
    A = sp.random(60, 25, 0.5, random_state=2).tocsr()
    S, b = value(bare, A), from_numpy(rhs(60, 2))
    x = to_numpy(q(bare, "SELECT gx_lstsq(?, ?, '{\"tol\":1e-12}')", S, b))
    assert np.allclose(x, np.linalg.lstsq(A.toarray(), rhs(60, 2), rcond=None)[0], rtol=0, atol=1e-9)
    assert np.array_equal(x, solve(bare, S, rhs(60, 2), '{"method":"lsqr","tol":1e-12}'))
    assert q(bare, "SELECT gx_lstsq(?, ?, 'X', '{\"precond\":\"jacobi\"}')", S, b) == "X"
    assert '"rcond" is for dense matrices' in error(bare, "SELECT gx_lstsq(?, ?, '{\"rcond\":0.1}')", S, b)
    assert "must be one of auto, none, jacobi, not" in error(bare, "SELECT gx_lstsq(?, ?, '{\"precond\":\"amg\"}')", S, b)
    assert 'must be one of auto, none, jacobi, not "ilu0"' in error(bare, "SELECT gx_lstsq(?, ?, '{\"precond\":\"ilu0\"}')", S, b)
    assert "above 0 and below 1" in error(bare, "SELECT gx_lstsq(?, ?, '{\"tol\":2}')", S, b)
    assert "are for sparse matrices" in error(bare, "SELECT gx_lstsq('[[1],[2]]', '[1,2]', '{\"tol\":0.1}')")
    assert "is needed dense here" in error(bare, "SELECT x FROM gx_lstsq(?, ?)", S, b)
    assert 'unknown option "tol"' in error(bare, "SELECT gx_pinv('[[1]]', '{\"tol\":0.1}')") or \
        '"tol"' in error(bare, "SELECT gx_pinv('[[1]]', '{\"tol\":0.1}')")


def test_first_guess(bare):
    A, b = poisson(10), rhs(100)
    x = sl.spsolve(A.tocsc(), b)
    q(bare, "SELECT gx_store('guess', ?)", from_numpy(x.reshape(-1, 1)))
    P = value(bare, A)
    assert np.allclose(solve(bare, P, b, '{"method":"cg","x0":"guess"}').ravel(), x)
    assert stat(bare, "iterations") == 0
    assert np.array_equal(solve(bare, P, 0 * b, '{"method":"cg","x0":"guess"}'), 0 * b)
    assert error(bare, "SELECT gx_solve(?, ?, '{\"method\":\"cg\",\"x0\":[1,2]}')", P, from_numpy(b)) == \
        'gx_solve: "x0" is 2x1 f64 but X is 100x1 and real'
    q(bare, "SELECT gx_lu('[[1,2],[3,4]]', 'F')")
    assert error(bare, "SELECT gx_solve(?, ?, '{\"method\":\"cg\",\"x0\":\"F\"}')", P, from_numpy(b)) == \
        "gx_solve: F is a stored LU factorisation: gx_part('F', 'L') gives its factor"


def test_no_convergence(bare):
    A, b = poisson(20), from_numpy(rhs(400))
    P = value(bare, A)
    for method in ("cg", "minres", "gmres", "lsqr"):
        text = error(bare, f"SELECT gx_solve(?, ?, '{{\"method\":\"{method}\",\"maxiter\":3}}')", P, b)
        assert text.startswith(f"gx_solve: no convergence: {method} has a residual of 0.") and text.endswith(
            '|b| after 3 iterations ("tol" is 1e-08)')
    text = error(bare, "SELECT gx_solve(?, ?, '{\"method\":\"cg\",\"tol\":1e-30}')", P, b)
    assert text.startswith("gx_solve: no convergence: cg does not get below a residual of ")
    zero = q(bare, "SELECT gx_sparse('[[1,0],[0,0]]')")
    assert "no convergence: gmres does not get below" in error(
        bare, "SELECT gx_solve(?, '[1,1]', '{\"method\":\"gmres\",\"precond\":\"none\"}')", zero)


def test_what_methods_are_not_for(bare):
    b = from_numpy(rhs(25))

    def refusal(A, options):
        return error(bare, "SELECT gx_solve(?, ?, ?)", value(bare, A), b, options)

    assert "is not positive definite (p^T A p = -" in refusal(indefinite(5), '{"method":"cg"}')
    for method in ("cg", "minres"):
        assert refusal(convection(5, 0.5), f'{{"method":"{method}"}}') == \
            f"gx_solve: A is not symmetric, and {method} is for symmetric matrices"
    assert "ic0 of A breaks down at row" in refusal(indefinite(5), '{"method":"minres","precond":"ic0"}')
    hollow = sp.csr_array(np.roll(np.eye(25), 1, 0))
    assert refusal(hollow, '{"method":"gmres","precond":"ilu0"}') == \
        'gx_solve: ilu0 of A breaks down at row 0: take another "precond"'
    x = to_numpy(q(bare, "SELECT gx_solve(?, ?)", value(bare, hollow), b))
    assert np.allclose(hollow @ x, rhs(25))


# Options, memory, threads ---------------------------------------------------------------------------

@pytest.mark.parametrize("options,text", [
    ('{"method":"qmr"}', 'option "method" must be one of auto, direct, cg, minres, gmres, lsqr, not "qmr"'),
    ('{"precond":"amg"}', 'option "precond" must be one of auto, none, jacobi, ilu0, ic0, not "amg"'),
    ('{"method":"cg","precond":"ilu0"}', '"precond":"ilu0" is not for "method":"cg"'),
    ('{"precond":"jacobi"}', '"precond":"jacobi" is not for "method":"auto"'),
    ('{"tol":1e-5}', '"tol", "maxiter" and "x0" are for iterative methods: name one by "method"'),
    ('{"method":"cg","tol":0}', 'option "tol" must be above 0 and below 1, not 0'),
    ('{"method":"cg","maxiter":0}', 'option "maxiter" must be at least 1, not 0'),
    ('{"method":"gmres","restart":0}', '"restart" must be 1 to 1000, not 0'),
    ('{"method":"cg","restart":5}', '"restart" is for "method":"gmres"'),
    ('{"refine":true}', '"factor", "precision" and "refine" are for dense matrices, and A is sparse'),
    ('{"assume":"lower"}', '"assume" of a sparse matrix must be one of auto, general, positive'),
])
def test_options(db, options, text):
    assert error(db, "SELECT gx_solve(gx_sparse('[[2,1],[1,3]]'), '[1,2]', ?)", options) == "gx_solve: " + text


def test_shapes(db):
    A = "gx_sparse('[[2,1,0],[1,3,1]]')"
    assert error(db, f"SELECT gx_solve({A}, '[1,2]')") == \
        'gx_solve: A is 2x3, not square: gx_lstsq and "method":"lsqr" solve by least squares'
    assert error(db, f"SELECT gx_solve({A}, '[1,2,3]', '{{\"method\":\"lsqr\"}}')") == "gx_solve: A is 2x3 but B is 3x1"
    assert "are for sparse matrices and iterative methods, and A is dense" in \
        error(db, "SELECT gx_solve('[[2,1],[1,3]]', '[1,2]', '{\"tol\":0.1}')")
    assert "A is c128" in error(db, "SELECT gx_solve(gx_sparse('[[\"1i\"]]'), '[1]', '{\"method\":\"cg\"}')")
    for m, n in ((0, 0), (0, 3), (3, 0)):
        empty = q(db, "SELECT gx_sparse(gx_zeros(?, ?))", m, n)
        x = to_numpy(q(db, "SELECT gx_solve(?, gx_zeros(?, 2), '{\"method\":\"lsqr\"}')", empty, m))
        assert x.shape == (n, 2) and not x.any()
    assert "B has an element that is not finite" in \
        error(db, "SELECT gx_solve(gx_sparse('[[2]]'), '[\"inf\"]', '{\"method\":\"cg\"}')")


@pytest.mark.parametrize("method,precond", METHODS)
def test_bits_do_not_depend_on_threads(bare, method, precond):
    make(bare, 40000)
    seen = set()
    for threads in (1, 2, 5):
        q(bare, "SELECT gx_config('threads', ?)", threads)
        seen.add(q(bare, "SELECT gx_solve('P', 'b', ?)",
                   f'{{"method":"{method}","precond":"{precond}","tol":0.3}}'))
    assert len(seen) == 1


def test_memory_is_counted(db):
    q(db, "SELECT gx_config('tile_bytes', 65536)")
    make(db, 40000)
    q(db, "SELECT gx_config('memory_limit', 1000000)")
    for method in ("direct", "cg", "gmres", "auto"):
        text = error(db, f"SELECT gx_solve('P', 'b', 'X', '{{\"method\":\"{method}\"}}')")
        assert "memory_limit" in text or "SuiteSparse" in text
    assert q(db, "SELECT count(*) FROM gx WHERE name = 'X'") == 0


def test_auto_gives_way_where_memory_is_short(suite):
    q(suite, "SELECT gx_config('tile_bytes', 65536)")
    make(suite, 10000)
    q(suite, "SELECT gx_config('memory_limit', '3MiB')")
    q(suite, "SELECT gx_solve('P', 'b', 'X')")
    assert any("cg" in note and "memory_limit" in note for note in notes(suite))
    b, x = (to_numpy(q(suite, f"SELECT gx_copy('{name}')")) for name in "bX")
    assert residual(poisson(100), x, b) <= 1e-8


@pytest.mark.parametrize("method", ["direct", "cg", "minres", "gmres", "lsqr"])
def test_interrupts(db, method):
    make(db, 10000)
    if method == "direct":
        try:
            solve(db, value(db, poisson(2)), rhs(4), '{"method":"direct","assume":"general"}')
        except sqlite3.OperationalError as e:
            pytest.skip(str(e))
    db.create_function("stopped", 1, lambda text: db.interrupt() or text)
    assert "interrupted" in error(db, "SELECT gx_solve('P', 'b', stopped(?))", f'{{"method":"{method}"}}')
    assert q(db, "SELECT gx_nnz('P')") == 49600
