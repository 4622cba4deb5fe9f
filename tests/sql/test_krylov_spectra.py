"""gx_eig by the dense and the Krylov method: known spectra, LAPACK's ratios, multiplicities, left vectors, options.

Plan:
  1  rosser, wilkinson, clement, poisson, minij, tridiag: closed forms (or known digits) by both methods and at both ends.
  2  frank and grcar, whose values are ill-conditioned: backward errors below LAPACK's 20.
  3  ||A x - value x|| / (n ||A|| eps) below 60 (symmetric) and 20 (general): dtypes x sizes x budgets x methods.
  4  Multiplicity 5 with blocks of 1, 2, 3: all copies, and no value missed by the inertia of A - s I.
  5  Values of A and A^H of a part: left vectors, all dtypes, every which, shift-invert; what does not match is said.
  6  Options of the Krylov method, each wrong once: the exact text.
"""
import json

import numpy as np
import pytest

from conftest import error, q, to_numpy
from krylovkit import NUMPY, configure, eig, matrix, store

EPS = {"f64": 2.0**-53, "c128": 2.0**-53, "f32": 2.0**-24, "c64": 2.0**-24}


def closed_form(kind, n):
    i = np.arange(1.0, n + 1)
    if kind == "clement":
        return np.arange(1.0 - n, n, 2)
    if kind == "minij":
        return 1 / (4 * np.sin((2 * i - 1) * np.pi / (4 * n + 2)) ** 2)
    if kind == "tridiag":
        return 2 - 2 * np.cos(i * np.pi / (n + 1))
    if kind == "poisson":
        side = int(round(n**0.5))
        s = 4 * np.sin(np.arange(1, side + 1) * np.pi / (2 * side + 2)) ** 2
        return (s[:, None] + s[None, :]).ravel()
    if kind == "rosser":  # Rosser, Lanczos, Hestenes & Karush 1951
        root = 10 * 10405**0.5
        return np.array([-root, 0, 510 - 100 * 26**0.5, 1000, 1000, 510 + 100 * 26**0.5, 1020, root])
    half = (n - 1) // 2  # wilkinson: the largest two agree to 14 digits
    d = np.abs(np.arange(-half, half + 1.0))
    return np.linalg.eigvalsh(np.diag(d) + np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1))


@pytest.mark.parametrize("kind,n", [("rosser", 8), ("wilkinson", 21), ("clement", 20), ("clement", 40), ("poisson", 100),
                                    ("minij", 130), ("tridiag", 99)])
def test_closed_forms(db, kind, n):
    q(db, "SELECT gx_matrix_gallery(?, ?, 'A')", kind, n)
    want = np.sort(closed_form(kind, n))
    a = to_numpy(q(db, "SELECT gx_copy('A')"))
    size = n * EPS["f64"] * np.linalg.norm(a, 2)
    if kind == "clement":  # not symmetric: values have conditions, the inverse of the cosines of left and right vectors
        _, right = np.linalg.eig(a)
        size *= np.linalg.norm(np.linalg.inv(right), axis=1).max()
    k = min(7, n // 2)
    for which, part in (("LA", want[::-1][:k]), ("SA", want[:k])):
        for method in ("dense", "krylov"):
            if kind == "minij" and which == "SA" and method == "krylov":
                continue  # far inside rounding of ||A||: below, by "SM"
            values, residuals, _ = eig(db, k=k, which=which, method=method, block=2)
            assert np.abs(values - part).max() <= 60 * size, (which, method)
            assert residuals.max() <= 60 * size, (which, method)
    values, _, _ = eig(db, k=3, which="SM" if kind != "rosser" else "LM", block=2)
    best = want[np.argsort(np.abs(want) if kind != "rosser" else -np.abs(want), kind="stable")][:3]
    assert np.abs(np.sort(np.abs(values)) - np.sort(np.abs(best))).max() <= 60 * size
    values, _, _ = eig(db, k=n, which="LA", method="dense")
    assert np.abs(values - want[::-1]).max() <= 60 * size


@pytest.mark.parametrize("kind,n,which", [("frank", 12, "LM"), ("frank", 60, "LR"), ("grcar", 60, "LR"), ("grcar", 100, "LI")])
def test_ill_conditioned_values(db, kind, n, which):
    q(db, "SELECT gx_matrix_gallery(?, ?, 'A')", kind, n)
    a = to_numpy(q(db, "SELECT gx_copy('A')"))
    size = n * EPS["f64"] * np.linalg.norm(a, 2)
    for method in ("dense", "krylov"):
        values, residuals, x = eig(db, k=5, which=which, method=method)
        backward = np.linalg.norm(a @ x - x * values, axis=0)
        assert backward.max() <= 20 * size, method
        assert np.abs(residuals - backward).max() <= size and np.abs(np.linalg.norm(x, axis=0) - 1).max() < 1e-13


@pytest.mark.parametrize("is_hermitian", [True, False])
@pytest.mark.parametrize("dtype", list(EPS))
def test_ratios(filedb, dtype, is_hermitian):
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=32768)
    side = {"f64": 64, "f32": 88, "c128": 44, "c64": 64}[dtype]  # of a tile, or near it
    accepted = 0
    for n in (1, 2, 3, 5, 10, 50, side - 1, side + 1, 2 * side + 1):
        a = matrix(np.random.default_rng(n), n, dtype, is_hermitian)
        store(filedb, "A", a)
        wide = a.astype(np.complex128)
        size = n * EPS[dtype] * np.linalg.norm(wide, 2)
        bound = 60 if is_hermitian else 20
        want = np.linalg.eigvals(wide)
        want = -np.sort(-np.abs(want))
        k = min(n, 4)
        for limit in ("64MiB", "4MiB", "1300KiB"):
            configure(filedb, memory_limit=limit)
            options = {"k": k, "method": "krylov", "ncv": min(n, 40), "block": 3}
            if "need" in error_or_empty(filedb, options):
                continue
            values, residuals, x = eig(filedb, **options)
            accepted += 1
            backward = np.linalg.norm(wide @ x - x.astype(np.complex128) * values, axis=0)
            assert backward.max() <= bound * size, (n, limit)
            assert residuals.max() <= bound * size, (n, limit)
            assert np.abs(np.abs(values) - want[:k]).max() <= 1e3 * size, (n, limit)
            if is_hermitian:
                assert np.linalg.norm(x.conj().T @ x - np.eye(k)) <= bound * n * EPS[dtype], (n, limit)
        configure(filedb, memory_limit="64MiB")
    assert accepted >= 20


def error_or_empty(db, options):
    try:
        db.execute("SELECT value FROM gx_eig('A', ?)", (json.dumps(options),)).fetchall()
    except Exception as problem:
        return str(problem)
    return ""


def count_above(a, s):
    """Eigenvalues above s, by Sylvester's law: positive ones of D in A - s I = L D L^H."""
    linalg = pytest.importorskip("scipy.linalg")
    _, d, _ = linalg.ldl(a - s * np.eye(len(a)), hermitian=True)
    return int((np.linalg.eigvalsh(d) > 0).sum())


@pytest.mark.parametrize("dtype", ["f64", "c128"])
@pytest.mark.parametrize("block", [1, 2, 3])
def test_no_value_is_missed(db, dtype, block):
    rng = np.random.default_rng(11)
    x = rng.standard_normal((160, 160))
    basis, _ = np.linalg.qr(x if dtype == "f64" else x + 1j * rng.standard_normal((160, 160)))
    d = np.concatenate([[9.0], [7.0] * 5, [6.999] * 2, [5.0] * 5, rng.uniform(-4, 4.5, 147)])
    a = (basis * d) @ basis.conj().T
    a = (a + a.conj().T) / 2
    store(db, "A", a)
    for k in (3, 6, 8, 10, 13, 15):
        values, residuals, v = eig(db, k=k, which="LA", block=block)
        values = values.real
        assert np.abs(values - np.sort(d)[::-1][:k]).max() < 1e-11 and residuals.max() < 1e-11
        assert np.abs(v.conj().T @ v - np.eye(k)).max() < 1e-12
        step = 1e-8
        assert count_above(a, values[-1] + step) == (values > values[-1] + step).sum()
        assert count_above(a, values[-1] - step) >= k
    values, _, _ = eig(db, k=6, sigma=6.9994, block=block)  # 2 and then 4 of 5
    assert np.abs(np.sort(values.real) - [6.999, 6.999, 7, 7, 7, 7]).max() < 1e-9


def test_a_multiple_value_of_a_general_matrix(db):
    rng = np.random.default_rng(12)
    d = np.diag(np.concatenate([[6.0] * 5, rng.uniform(-3, 3, 95)]))
    d[10:12, 10:12] = d[12:14, 12:14] = [[4, 3], [-3, 4]]  # 4 +- 3i twice
    basis = np.linalg.qr(rng.standard_normal((100, 100)))[0] + 0.05 * rng.standard_normal((100, 100))
    a = basis @ d @ np.linalg.inv(basis)
    store(db, "A", a)
    for block in (1, 2, 4):
        values, residuals, x = eig(db, k=9, which="LR", block=block)
        want = np.array([6] * 5 + [4 + 3j, 4 - 3j] * 2)
        assert np.abs(values - want).max() < 1e-9 and residuals.max() < 1e-11
        assert np.linalg.matrix_rank(x) == 9


@pytest.mark.parametrize("options", [{"k": 5}, {"k": 4, "which": "LR"}, {"k": 3, "which": "SR"}, {"k": 1, "which": "LI"},
                                     {"k": 3, "sigma": 1.0}, {"k": 3, "sigma": [1.0, 2.0]}])
@pytest.mark.parametrize("dtype", list(NUMPY))
def test_left_vectors(db, dtype, options):
    a = matrix(np.random.default_rng(7), 120, dtype, False)
    store(db, "A", a)
    rows = db.execute("SELECT value, imag, vector, left_vector FROM gx_eig('A', ?)",
                      (json.dumps({"method": "krylov", "left": True, **options}),)).fetchall()
    values = np.array([r[0] + 1j * r[1] for r in rows])
    x, y = (np.hstack([to_numpy(r[i]) for r in rows]).astype(np.complex128) for i in (2, 3))
    wide = a.astype(np.complex128)
    bound = (1e-12 if EPS[dtype] < 1e-10 else 2e-4) * np.linalg.norm(wide, 2)
    assert len(values) == options["k"]
    assert np.abs(wide @ x - x * values).max() <= bound
    assert np.abs(y.conj().T @ wide - values[:, None] * y.conj().T).max() <= bound
    assert np.abs(np.linalg.norm(y, axis=0) - 1).max() < 1e-5
    off = np.abs(y.conj().T @ x) * (np.abs(values[:, None] - values[None, :]) > 1e-3)  # biorthogonal
    assert off.max() <= bound


def test_left_vectors_stored(db):
    a = matrix(np.random.default_rng(8), 60, "f64", False)
    store(db, "A", a)
    q(db, "SELECT gx_eig('A', 'w', 'X', '{\"k\":3,\"method\":\"krylov\",\"which\":\"LR\",\"left\":\"Y\"}')")
    w, y = (to_numpy(q(db, "SELECT gx_copy(?)", name)) for name in ("w", "Y"))
    assert np.abs(y.conj().T @ a - w.ravel()[:, None] * y.conj().T).max() < 1e-11
    store(db, "S", (a + a.T) / 2)  # symmetric: the same
    rows = db.execute("SELECT vector = left_vector FROM gx_eig('S', '{\"k\":2,\"method\":\"krylov\",\"left\":true}')").fetchall()
    assert rows == [(1,), (1,)]


def test_options_refused(db):
    a = matrix(np.random.default_rng(1), 40, "f64", False)
    store(db, "A", a)
    store(db, "short", a[:39, :2].copy())
    store(db, "complex", a[:, :2] + 1j)
    bad = a[:, :2].copy()
    bad[3, 1] = np.nan
    store(db, "bad", bad)
    cases = {
        '"tol":-1': 'option "tol" must be at least 0 and below 1, not -1',
        '"tol":1': 'option "tol" must be at least 0 and below 1, not 1',
        '"tol":"x"': 'option "tol" must be a number, not "x"',
        '"maxiter":0': 'option "maxiter" must be at least 1, not 0',
        '"maxiter":1.5': 'option "maxiter" must be an integer, not 1.5',
        '"ncv":-3': 'option "ncv" must be at least 1, not -3',
        '"ncv":6': "ncv must be from 7 to 40 for k = 3, not 6",
        '"block":0': 'option "block" must be at least 1, not 0',
        '"block":"a"': 'option "block" must be an integer, not "a"',
        '"block":65': "block must be from 1 to 64, not 65",
        '"seed":"x"': 'option "seed" must be an integer, not "x"',
        '"partial":"yes"': 'option "partial" must be true or false, not "yes"',
        '"start":"none"': "no matrix named 'none'",
        '"start":"short"': "the start is 39x2 but A is 40x40: it must have 40 rows",
        '"start":"complex"': "the start is complex but A is real",
        '"start":"bad"': "the start has NaN at (3, 1)",
        '"start":7': 'option "start" must be a name, not 7',
        '"sigma":1,"which":"LR"': '"sigma" asks for the eigenvalues nearest to it, "which" for others: give one of them',
    }
    before = db.execute("SELECT count(*), sum(bytes) FROM gx").fetchall()
    for option, text in cases.items():
        assert error(db, "SELECT gx_eig('A', 'w', '{\"k\":3,\"method\":\"krylov\",%s}')" % option) == "gx_eig: " + text
    assert db.execute("SELECT count(*), sum(bytes) FROM gx").fetchall() == before


def test_seeds(db):
    a = matrix(np.random.default_rng(1), 90, "f64", False)
    store(db, "A", a)
    results = [eig(db, k=4, seed=seed)[0] for seed in (0, 1, -5, 2**40, 1)]
    assert all(np.abs(r - results[0]).max() < 1e-11 for r in results)
    assert (results[1] == results[4]).all()


def test_a_check_that_is_cut_short(db):
    """The k values have converged, but there was no time to look for others."""
    a = np.diag(np.arange(1.0, 401))
    store(db, "A", a)
    texts = [error_or_empty(db, {"k": 2, "method": "krylov", "which": "LA", "maxiter": m}) for m in range(7, 17)]
    assert texts[0].startswith("gx_eig: 0 of 2 eigenvalues of A converged in 7 restarts (largest residual ")
    assert texts[-1] == ""
    assert any(text == f"gx_eig: 2 eigenvalues of A converged in {m} restarts, but whether others were missed is not "
               "known: raise maxiter or ncv, or take what there is with {\"partial\":true}"
               for m, text in enumerate(texts, 7))
