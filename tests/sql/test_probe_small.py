"""The residual check on small and extreme matrices: a right result is never refused.

Plan:
  1  With 'probe' on, thousands of random matrices (integers, few digits, ranges from 1e-323 to 1e150, rows and columns
     scaled apart) through every function with a check: no result is refused, nothing fails to converge.
  2  Named cases: correlations of two rows, squares that underflow, subnormal pivots, subnormal singular values.
  3  Subnormal pivots of what else factorises in memory: negative powers, shift-invert.
  4  Correlations: exactly 1 on the diagonal, none above 1.
"""
import sqlite3

import numpy as np
import pytest
import scipy.linalg

from conftest import from_numpy, q, to_numpy

DTYPES = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}
REFUSED = ("residual check", "failed its check", "are not those of", "did not converge")

ANY = ["gx_corr(?1)", "gx_cov(?1)", "gx_matmul(?1, ?1, '{\"transb\":true}')", "gx_matmul(?1, ?1, '{\"transa\":true}')",
       "gx_matmul(?1, ?3)", "gx_rank(?1)", "gx_pinv(?1)", "gx_nullspace(?1)", "gx_lstsq(?1, ?2)", "gx_norm(?1, '2')",
       "count(*) FROM gx_qr(?1)", "count(*) FROM gx_svd(?1)", "count(*) FROM gx_pca(?1)"]
SQUARE = ["gx_solve(?1, ?2)", "gx_solve(?4, ?2)", "gx_solve(?1, ?2, '{\"assume\":\"general\"}')", "gx_inverse(?1)",
          "gx_det(?1)", "gx_rcond(?1)", "gx_cholesky(?4)", "gx_expm(?1)", "gx_trsm(?1, ?2, '{\"uplo\":\"lower\"}')",
          "count(*) FROM gx_eig(?1)", "count(*) FROM gx_eig(?5)", "count(*) FROM gx_lu(?1)"]


def small_matrix(rng, dtype):
    is_complex, is_double = dtype[0] == "c", dtype in ("f64", "c128")
    n = int(rng.integers(1, 6))
    m = int(rng.integers(1, 6)) if rng.random() < 0.5 else n
    a = rng.standard_normal((m, n)) + (1j * rng.standard_normal((m, n)) if is_complex else 0)
    kind = rng.integers(0, 7)
    if kind == 0:
        a = np.round(2 * a)
    elif kind == 1:
        a = np.round(a, 2)
    elif kind == 2:
        a = np.round(a) * rng.integers(0, 2, (m, n))
    elif kind == 3:
        a = a * 10.0 ** (rng.integers(-180, 150) if is_double else rng.integers(-22, 18))
    elif kind == 4:
        a = a * 10.0 ** (rng.integers(-20, 20, (m, n)) if is_double else rng.integers(-6, 6, (m, n)))
    elif kind == 5:
        a = a * 10.0 ** (rng.integers(-323, -300) if is_double else rng.integers(-45, -35))
    return a.astype(DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_is_refused(db, dtype):
    rng = np.random.default_rng(20)
    q(db, "SELECT gx_config('probe', 'on')")
    for _ in range(400):
        a = small_matrix(rng, dtype)
        m, n = a.shape
        b, w = (rng.standard_normal(shape).astype(DTYPES[dtype]) for shape in ((m, 2), (n, 3)))
        with np.errstate(all="ignore"):
            given = [from_numpy(x) for x in (a, b, w, a @ a.conj().T, a + a.conj().T if m == n else a)]
        for call in ANY + (SQUARE if m == n else []):
            try:
                most = max(int(part[0]) for part in call.split("?")[1:])
                db.execute(f"SELECT {call}", given[:most]).fetchall()
            except sqlite3.Error as problem:
                assert not any(words in str(problem) for words in REFUSED), (call, a.tolist(), str(problem))


def solve(db, a, b, options="{}"):
    return to_numpy(q(db, "SELECT gx_solve(?, ?, ?)", from_numpy(np.array(a)), from_numpy(np.array(b)), options))[:, 0]


def test_named_cases(db):
    q(db, "SELECT gx_config('probe', 'on')")
    assert to_numpy(q(db, "SELECT gx_corr('[[0.61,-0.4],[0.01,0.95]]')")).tolist() == [[1, -1], [-1, 1]]
    assert np.allclose(solve(db, [[1e-180, 2e-180], [3e-180, 5e-180]], [1.0, 2.0]) * 1e-180, [-1, 1])
    for scale in (1e-308, 1e-310, 1e-315):  # pivots whose reciprocals are infinite
        a, b = np.array([[1, 2, 0], [3, 5, 1], [2, 1, 7]]) * scale, np.array([3.0, 9.0, 10.0]) * scale
        assert np.allclose(solve(db, a, b), 1, rtol=1e-6), scale
        assert np.allclose(solve(db, np.tril(a), a[:, 0], '{"assume":"lower"}'), [1, 0, 0], atol=1e-6)
        sigma = [row[0] for row in db.execute("SELECT sigma FROM gx_svd(?)", [from_numpy(a)])]
        assert np.allclose(np.array(sigma) / scale, np.linalg.svd(a / scale, compute_uv=False), rtol=1e-6)
    graded = np.diag([1, 1e-310, 1e-310]) + np.diag([0, 1e-311], -1)
    assert np.allclose(solve(db, graded, graded.sum(axis=1)), 1)
    assert np.isclose(q(db, "SELECT gx_det(?)", from_numpy(np.diag([1e-310, 1e-310, 1e300, 1e300])[::-1])), 1e-20)


@pytest.mark.parametrize("dtype", DTYPES)
def test_subnormal_pivots_in_blocks(filedb, dtype):
    """A factorisation of several panels meets one on its way and is done again by division."""
    n = 200
    scale = np.where(np.arange(n) < 90, 1, np.finfo(DTYPES[dtype]).tiny / 64)
    a = (np.tril(np.ones((n, n)), -1) / 4 + np.eye(n)) * scale
    q(filedb, "SELECT gx_config('tile_bytes', 32768)")
    q(filedb, "SELECT gx_store('A', ?)", from_numpy(a.astype(DTYPES[dtype])))
    q(filedb, "SELECT gx_lu('A', 'F')")
    lower = to_numpy(q(filedb, "SELECT gx_part('F', 'L')"))
    assert np.allclose(lower, a / scale)


@pytest.mark.parametrize("dtype", ["f64", "c128"])
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_subnormal_pivots_in_functions(db, dtype, backend):
    """The rows of an inverse that are representable are right, whatever the others overflow to; exp(A) = I + A."""
    q(db, "SELECT gx_config('backend', ?)", backend)
    n = 7
    a = np.tril(np.ones((n, n)), -1) / 4 + np.eye(n)
    want = np.linalg.inv(a)
    a[:, n - 2] *= 2.0**-1030
    for call in ("gx_inverse(?)", "gx_powm(?, -1)"):
        got = to_numpy(q(db, f"SELECT {call}", from_numpy(a.astype(DTYPES[dtype]))))
        assert np.allclose(got[n - 1], want[n - 1]), call
    tiny = (np.arange(9.0).reshape(3, 3) * 2.0**-1060).astype(DTYPES[dtype])
    assert (to_numpy(q(db, "SELECT gx_expm(?)", from_numpy(tiny))) == np.eye(3) + tiny).all()
    square = np.diag([4.0, 9.0, 16.0]) * 2.0**-1060
    root = to_numpy(q(db, "SELECT gx_sqrtm(?)", from_numpy(square.astype(DTYPES[dtype]))))
    assert np.allclose(root * 2.0**530, np.diag([2, 3, 4]))


@pytest.mark.parametrize("budget", ["64MiB", "deterministic"])
@pytest.mark.parametrize("dtype", ["f64", "c128"])
def test_shift_invert_of_subnormal_matrices(filedb, dtype, budget):
    """The eigenvalues of A x = value B x are those of 2^-1032 A, 2^-1032 B, whose pivots are subnormal."""
    if budget == "deterministic":
        q(filedb, "SELECT gx_config('deterministic', 'on')")
    n = 40
    a = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    b = np.eye(n) + np.diag(np.arange(float(n))) / n
    q(filedb, "SELECT gx_store('B', ?)", from_numpy((b * 2.0**-1032).astype(DTYPES[dtype])))
    options = '{"k":3,"sigma":0.3,"method":"krylov","b":"B"}'
    tiny = from_numpy((a * 2.0**-1032).astype(DTYPES[dtype]))
    got = [row[0] for row in filedb.execute("SELECT value FROM gx_eig(?, ?)", (tiny, options))]
    values = scipy.linalg.eigh(a, b, eigvals_only=True)
    assert np.allclose(got, values[np.argsort(np.abs(values - 0.3))][:3], rtol=1e-7)


@pytest.mark.parametrize("shape", [(2, 2), (5, 4), (4, 9), (300, 6), (40, 300)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_correlations_within_one(db, dtype, shape):
    rng = np.random.default_rng(7)
    for trial in range(20):
        a = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype[0] == "c" else 0)
        a[:, -1] = -3 * a[:, 0]
        c = to_numpy(q(db, "SELECT gx_corr(?)", from_numpy(a.astype(DTYPES[dtype]))))
        assert (np.diagonal(c) == 1).all() and (np.abs(c) <= 1).all(), trial
        assert (c == c.conj().T).all()
    q(db, "SELECT gx_config('tile_bytes', 4096)")
    q(db, "SELECT gx_corr(?, 'C')", from_numpy(a.astype(DTYPES[dtype])))
    assert (to_numpy(q(db, "SELECT gx_copy('C')")) == c).all()
