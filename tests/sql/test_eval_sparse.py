"""Programs over sparse matrices beside NumPy.

Plan:
- products with dense matrices on either side, transposed and conjugated, of every dtype; in loops; beside elementwise functions;
  stored; with both products of one matrix; the same program again after the matrix has become another;
- sums, means, extremes, norms, trace; sizes;
- all else is refused in words, nothing becomes dense: elementwise functions, slices, two sparse factors, results, spectra.
"""
import numpy as np
import pytest
from conftest import error, from_numpy, q, to_numpy

TYPES = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}


def matrix(rng, shape, dtype, density=1.0):
    A = rng.standard_normal(shape) * (rng.random(shape) < density)
    if dtype[0] == "c":
        A = A + 1j * rng.standard_normal(shape) * (A != 0)
    return A.astype(TYPES[dtype])


@pytest.fixture(params=TYPES)
def given(db, request):
    rng = np.random.default_rng(1)
    S, X, Y = (matrix(rng, shape, request.param, d) for shape, d in (((60, 40), 0.1), ((40, 5), 1), ((60, 5), 1)))
    for sql, array in [("gx_sparse(?, 'S')", S), ("gx_store('X', ?)", X), ("gx_store('Y', ?)", Y)]:
        q(db, f"SELECT {sql}", from_numpy(array))
    return db, S, X, Y


def close(got, want):
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= (1e-12 if want.dtype in (np.float64, np.complex128) else 1e-4) * max(1, np.abs(want).max())


def test_products(given):
    db, S, X, Y = given
    for program, want in [("S @ X", S @ X), ("S.T @ Y", S.T @ Y), ("S.H @ Y", S.conj().T @ Y), ("X.T @ S.T", X.T @ S.T),
                          ("Y.T @ S", Y.T @ S), ("Y.H @ S", Y.conj().T @ S), ("2 * (S @ X) + Y", 2 * (S @ X) + Y),
                          ("S.H @ (S @ X)", S.conj().T @ (S @ X)), ("S.T @ (S @ X)", S.T @ (S @ X)),
                          ("S.T @ S @ eye(40)", S.T @ S), ("eye(60) @ S @ S.T", S @ S.T),
                          ("x = X; repeat 3 { x = S.H @ (S @ x) / 10 } x", None)]:
        if want is None:
            want = X
            for _ in range(3):
                want = S.conj().T @ (S @ want) / 10
        close(to_numpy(q(db, f"SELECT gx_eval('{program}')")), want)
    close(to_numpy(q(db, "SELECT gx_eval('S @ X', '{\"optimize\":false}')")), S @ X)
    q(db, "SELECT gx_eval('R := S @ X')")
    close(to_numpy(q(db, "SELECT gx_copy('R')")), S @ X)
    q(db, "SELECT gx_dense('S', 'T')")
    close(to_numpy(q(db, "SELECT gx_eval('S @ X - T @ X')")), 0 * (S @ X))


def test_reductions(given):
    db, S, X, Y = given
    for program, want in [("sum(S, 0)", S.sum(0, keepdims=True)), ("sum(S, 1)", S.sum(1, keepdims=True)),
                          ("mean(S, 1)", S.mean(1, keepdims=True))]:
        close(to_numpy(q(db, f"SELECT gx_eval('{program}')")), want)
    for program, want in [("abs(sum(S))", abs(S.sum())), ("norm(S)", np.linalg.norm(S)), ("rows(S) + cols(S)", 100)]:
        assert q(db, f"SELECT gx_eval('{program}')") == pytest.approx(want, rel=1e-4)
    if S.dtype.kind == "f":
        assert q(db, "SELECT gx_eval('max(S) - min(S)')") == pytest.approx(S.max() - S.min(), rel=1e-6)
        for name in ("min", "max", "argmin", "argmax"):
            assert q(db, f"SELECT gx_eval('{name}(S)')") == pytest.approx(getattr(S, name)(), rel=1e-6)
            for axis in (0, 1):
                want = np.expand_dims(getattr(S, name)(axis), axis)
                assert np.array_equal(to_numpy(q(db, f"SELECT gx_eval('{name}(S, {axis})')")), want), (name, axis)
        assert q(db, "SELECT gx_eval('norm(S, 1)')") == pytest.approx(np.abs(S).sum(0).max(), rel=1e-4)


def test_another_matrix(given):
    """A program that has been compiled, over a matrix that was sparse, is dense, is sparse again."""
    db, S, X, Y = given
    for store in ["gx_dense('S', 'S', '{\"replace\":true}')", "gx_sparse('S', 0, 'S', '{\"replace\":true}')"] * 2:
        close(to_numpy(q(db, "SELECT gx_eval('S @ X')")), S @ X)
        q(db, f"SELECT {store}")
    close(to_numpy(q(db, "SELECT gx_eval('S @ X')")), S @ X)


def test_refused(given):
    db, S, X, Y = given
    words = "S is sparse (60x40) and is needed dense here: gx_dense makes it so, "
    for program in ["S", "R := S", "S + 1", "exp(S)", "S[0:2, :]", "S.T", "sum(S.T)", "S @ S.T", "S.T @ S", "svd(S)", "var(S, 0)",
                    "norm(S, 2)", "x = S; repeat 2 { x = x * 2 } x", "S * S", "det(S @ S.T)", "median(S)"]:
        got = error(db, f"SELECT gx_eval('{program}')")
        has_no_order = S.dtype.kind == "c" and program == "median(S)"
        assert words in got or "is sparse (" in got or has_no_order, (program, got)
    assert "S is 60x40 but" in error(db, "SELECT gx_eval('S @ Y')")
