"""gx_sqrtm, gx_expm, gx_logm, gx_powm against SciPy, closed forms and their own inverses.

Plan:
  1  dtypes x sizes (0, 1, 2, 3, 5, 10, 50), general and Hermitian: ||X^2 - A||, exp(log A) = A, equal to SciPy's
  2  which results are real: positive eigenvalues, conjugate pairs, negative ones, semidefinite with rounding
  3  exponential: norms from 1e-8 to 1e4, nilpotent, triangular and far from normal, rotations, huge and tiny numbers
  4  powers: whole ones of either sign exactly, fractions against SciPy, (A^p)(A^q) = A^(p+q)
  5  roots and logarithms of triangles, of defective matrices, near the unit matrix
     eigenvalues of opposite directions (the branches of the scalar functions), and of any size: 1e-300 to 1e300
  6  destinations and properties; the reference backend; deterministic; memory; errors to the letter
"""
import numpy as np
import pytest
import scipy.linalg

from conftest import error, from_numpy, q, to_numpy

EPS = {"f64": 2.0**-53, "f32": 2.0**-24, "c128": 2.0**-53, "c64": 2.0**-24}
NUMPY = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}
SIZES = [0, 1, 2, 3, 5, 10, 50]


def random_matrix(rng, n, dtype):
    x = rng.standard_normal((n, n))
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal((n, n))
    return x.astype(NUMPY[dtype])


def tame(rng, n, dtype):
    """Eigenvalues in the right half plane: f(A) of a real A is real."""
    x = random_matrix(rng, n, dtype)
    return (x / (2 * max(n, 1) ** 0.5) + 2 * np.eye(n)).astype(NUMPY[dtype])


def positive(rng, n, dtype):
    x = random_matrix(rng, n, dtype)
    y = x @ x.conj().T / max(n, 1) + np.eye(n)
    return ((y + y.conj().T) / 2).astype(NUMPY[dtype])


def call(db, function, a, *more):
    marks = ", ?" * len(more)
    return to_numpy(q(db, f"SELECT {function}(?{marks})", from_numpy(a), *more))


def wide(x):
    return x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)


def distance(x, y):
    return np.linalg.norm(wide(x) - y) / max(np.linalg.norm(y), 1e-300) if x.size else 0.0


# 1 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [tame, positive])
@pytest.mark.parametrize("dtype", list(NUMPY))
def test_against_scipy(db, dtype, make):
    rng = np.random.default_rng(71)
    for n in SIZES:
        a = make(rng, n, dtype)
        root, log, exp = (call(db, f"gx_{name}m", a) for name in ("sqrt", "log", "exp"))
        for x in (root, log, exp):
            assert x.shape == a.shape and x.dtype == a.dtype
        limit = 100 * max(n, 1) * EPS[dtype]
        assert distance(wide(root) @ root, a) < limit
        assert distance(scipy.linalg.expm(wide(log)), wide(a)) < limit * 10
        if n > 0:
            assert distance(exp, scipy.linalg.expm(wide(a))) < limit * 10
            assert distance(log, scipy.linalg.logm(wide(a))) < limit * 10
            assert distance(root, scipy.linalg.sqrtm(wide(a))) < limit * 10
        assert distance(call(db, "gx_powm", a, 0.3), scipy.linalg.fractional_matrix_power(wide(a), 0.3)
                        if n > 0 else a) < limit * 10


# 2 ------------------------------------------------------------------------------------------------


def test_real_or_complex(db):
    rotation = np.array([[0.0, -1.0], [1.0, 0.0]])
    assert call(db, "gx_sqrtm", rotation).dtype == np.float64  # eigenvalues +-i
    assert np.allclose(call(db, "gx_logm", rotation), [[0, -np.pi / 2], [np.pi / 2, 0]])
    minus = call(db, "gx_sqrtm", -4 * np.eye(2))
    assert minus.dtype == np.complex128 and np.allclose(minus, 2j * np.eye(2))
    general = np.array([[-1.0, 1.0], [0.0, 2.0]])
    for function in ("gx_sqrtm", "gx_logm"):
        assert call(db, function, general).dtype == np.complex128
    root = call(db, "gx_sqrtm", general)
    assert distance(root @ root, general) < 1e-14
    assert np.allclose(call(db, "gx_logm", general), scipy.linalg.logm(general))
    assert call(db, "gx_logm", np.array([[-2.0]])).item() == pytest.approx(np.log(2) + np.pi * 1j)
    ones = np.ones((4, 4))  # semidefinite: eigenvalues 4 and, but for rounding, 0
    root = call(db, "gx_sqrtm", ones)
    assert root.dtype == np.float64 and np.allclose(root, ones / 2)
    assert np.allclose(call(db, "gx_powm", ones, 1.5), ones * 2)
    single = call(db, "gx_sqrtm", np.array([[-1, 1], [0, 2]], np.float32))
    assert single.dtype == np.complex64


# 3 ------------------------------------------------------------------------------------------------


def test_negative_eigenvalues_of_a_real_matrix(db):
    """All on the same side of the cut, whichever way rounding has moved them."""
    rng = np.random.default_rng(73)
    pairs = np.array([1 + 2j, -2 + 1j, 3 + 0.5j, -1 + 4j])  # their noise moves the others
    values = np.concatenate([-np.arange(1.0, 11), pairs, pairs.conj()])
    real, half = rng.standard_normal((18, 10)), rng.standard_normal((18, 4)) + 1j * rng.standard_normal((18, 4))
    v = np.hstack([real, half, half.conj()])
    a = (v @ np.diag(values) @ np.linalg.inv(v)).real
    for name, right in (("gx_sqrtm(?)", np.sqrt(values)), ("gx_logm(?)", np.log(values)), ("gx_powm(?, 0.3)", values**0.3)):
        got = to_numpy(q(db, f"SELECT {name}", from_numpy(a)))
        assert distance(got, v @ np.diag(right) @ np.linalg.inv(v)) < 1e-9, name


def test_exponential(db):
    rng = np.random.default_rng(72)
    for n in (2, 7, 30):
        for scale in (1e-8, 1e-3, 0.1, 0.5, 1, 3, 10, 100):
            a = rng.standard_normal((n, n)) * scale / n**0.5
            assert distance(call(db, "gx_expm", a), scipy.linalg.expm(a)) < 1e-12 * max(1, scale)
    nilpotent = np.triu(rng.standard_normal((6, 6)), 1)
    exact = sum(np.linalg.matrix_power(nilpotent, k) / np.prod(np.arange(1, k + 1)) for k in range(6))
    assert distance(call(db, "gx_expm", nilpotent), exact) < 1e-14
    angle = 1000.25
    turned = call(db, "gx_expm", np.array([[0, -angle], [angle, 0]]))
    assert np.allclose(turned, [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]], atol=1e-12)
    far = np.array([[1.0, 1e6], [0.0, -1.0]])  # far from normal: ||A^4||^(1/4) is small
    exact = np.array([[np.e, 1e6 * np.sinh(1)], [0, 1 / np.e]])
    assert distance(call(db, "gx_expm", far), exact) < 1e-14
    assert np.array_equal(call(db, "gx_expm", np.zeros((5, 5))), np.eye(5))
    assert np.allclose(call(db, "gx_expm", np.diag([-1e300, 0.0, 1.0])), np.diag([0, 1, np.e]))
    assert distance(call(db, "gx_expm", np.array([[0, 1e-300], [0, 0]])), np.eye(2)) == 0
    huge = np.zeros((3, 3))
    huge[:2, 2] = 1e308  # finite, but the sum of the column is not
    assert np.array_equal(call(db, "gx_expm", huge), np.eye(3) + huge)
    skew = rng.standard_normal((20, 20))
    unitary = call(db, "gx_expm", 5 * (skew - skew.T))
    assert np.linalg.norm(unitary.T @ unitary - np.eye(20)) < 1e-11


# 4 ------------------------------------------------------------------------------------------------


def test_powers(db):
    rng = np.random.default_rng(73)
    whole = rng.integers(-3, 4, (5, 5)).astype(float)
    for p in range(0, 9):
        assert np.array_equal(call(db, "gx_powm", whole, p), np.linalg.matrix_power(whole, p))
    for dtype in NUMPY:
        a = tame(rng, 12, dtype)
        for p in (-3, -1, 2, 7):
            assert distance(call(db, "gx_powm", a, p), np.linalg.matrix_power(wide(a), p)) < 1e4 * EPS[dtype]
        for p in (-2.5, -0.75, -0.1, 0.01, 0.5, 1.25, 3.9):
            got, exact = call(db, "gx_powm", a, p), scipy.linalg.fractional_matrix_power(wide(a), p)
            assert got.dtype == a.dtype and distance(got, exact) < 1e4 * EPS[dtype], p
        third, rest = call(db, "gx_powm", a, 1 / 3), call(db, "gx_powm", a, 2 / 3)
        assert distance(wide(third) @ rest, a) < 1e4 * EPS[dtype]
    hermitian = positive(rng, 9, "c128")
    power = call(db, "gx_powm", hermitian, -3)
    assert np.array_equal(power, power.conj().T)
    assert distance(power, np.linalg.matrix_power(hermitian, -3)) < 1e-12
    assert distance(call(db, "gx_powm", hermitian, -0.5),
                    scipy.linalg.fractional_matrix_power(hermitian, -0.5)) < 1e-12


# 5 ------------------------------------------------------------------------------------------------


def test_triangles_and_defective(db):
    rng = np.random.default_rng(74)
    jordan = 0.5 * np.eye(6) + np.eye(6, k=1)
    root = call(db, "gx_sqrtm", jordan)
    assert distance(root @ root, jordan) < 1e-13
    assert distance(scipy.linalg.expm(call(db, "gx_logm", jordan)), jordan) < 1e-11
    triangle = np.triu(rng.standard_normal((20, 20)) / 5, 1) + np.diag(np.linspace(1, 3, 20))
    assert distance(call(db, "gx_logm", triangle), scipy.linalg.logm(triangle)) < 1e-12
    near = np.eye(8) + 1e-9 * rng.standard_normal((8, 8))
    exact = (near - np.eye(8)) - (near - np.eye(8)) @ (near - np.eye(8)) / 2
    assert np.abs(call(db, "gx_logm", near) - exact).max() < 1e-14
    spread = np.diag([1e-12, 1.0, 1e12]) + np.eye(3, k=1)
    assert distance(call(db, "gx_logm", spread), scipy.linalg.logm(spread)) < 1e-12
    for scale in (1e-200, 1e200):
        a = tame(rng, 8, "f64") * scale
        root = call(db, "gx_sqrtm", a) / scale**0.5
        assert distance(root @ root, a / scale) < 1e-13


def test_opposite_eigenvalues(db):
    cases = [([[1, 4], [0, -1]], [[0, -2j * np.pi], [0, 1j * np.pi]]),
             ([[1, 4], [0, -1.5]], None), ([[-1, 4], [0, 2]], None), ([[1j, 4], [0, -1j]], None),
             ([[1j, 4], [0, -0.7j]], None)]
    for a, log in cases:
        a = np.array(a)
        got, half = call(db, "gx_logm", a), call(db, "gx_powm", a, 0.5)
        assert distance(got, log if log is not None else scipy.linalg.logm(a)) < 1e-14, a
        assert distance(scipy.linalg.expm(got), a) < 1e-13 and distance(half @ half, a) < 1e-14, a
        assert distance(half, scipy.linalg.expm(got / 2)) < 1e-13, a
        third = call(db, "gx_powm", a, 1 / 3)
        assert distance(third, scipy.linalg.expm(got / 3)) < 1e-13, a
    close = np.array([-1, complex(-1, -1e-9)])  # the negative axis lies between them
    log = np.diag(np.log(close))
    log[0, 1] = 3 * (log[1, 1] - log[0, 0]) / (close[1] - close[0])
    assert distance(call(db, "gx_logm", np.array([[close[0], 3], [0, close[1]]])), log) < 1e-15


def spectra_of_opposite_directions(rng, count):
    """A = V diag(values) V^-1 with V well-conditioned, or triangular, at sizes 1e-20 to 1e20."""
    for k in range(count):
        n, is_complex = int(rng.integers(2, 9)) if k % 2 else 2, k % 4 < 2
        directions = np.exp(1j * np.pi * np.array([0, 0.5, -0.5, 0.99, -0.99, 1])) if is_complex else np.array([1, -1])
        values = np.exp(rng.uniform(-0.7, 0.7, n)) * rng.choice(directions, n)
        values[0] = -values[1] if k % 3 == 0 else values[0]
        v = np.linalg.qr(random_matrix(rng, n, "c128" if is_complex else "f64"))[0]
        v = v @ (np.eye(n) + np.triu(rng.uniform(-0.5, 0.5, (n, n)), 1))
        if k % 5 == 0:
            v = np.triu(v)
        size = 10.0 ** rng.integers(-20, 21)
        yield v, values * size, (v * (values * size)) @ np.linalg.inv(v)


def test_functions_by_their_spectra(db):
    rng = np.random.default_rng(76)
    functions = [("gx_logm", (), np.log), ("gx_sqrtm", (), np.sqrt)] + [
        ("gx_powm", (p,), lambda x, p=p: x**p) for p in (0.5, 0.3, -0.8, 1.7)]
    for v, values, a in spectra_of_opposite_directions(rng, 300):
        for name, more, f in functions:
            # A value on the negative axis has been taken off it by the rounding of A: both sides are right.
            exact = (v * f(values.astype(complex))) @ np.linalg.inv(v)
            got = call(db, name, a, *more)
            far = np.linalg.cond(v) ** 2 * len(a) * 1e-13
            if np.any(values.real < -0.9 * np.abs(values)):
                inverse = {"gx_logm": lambda x: scipy.linalg.expm(x), "gx_sqrtm": lambda x: x @ x}.get(name)
                assert inverse is None or distance(inverse(got), a) < far, (name, a)
                eigenvalues = np.linalg.eigvals(got) if name == "gx_logm" else 0
                assert np.all(np.abs(np.imag(eigenvalues)) < np.pi * (1 + 1e-6)), a
            else:
                assert distance(got, exact) < far, (name, more, values, a)


def test_functions_of_any_size(db):
    rng = np.random.default_rng(77)
    a = tame(rng, 3, "f64")
    for size in (1e-300, 1e-20, 1e-15, 1e-8, 1e8, 1e200):
        assert distance(call(db, "gx_logm", a * size), call(db, "gx_logm", a) + np.log(size) * np.eye(3)) < 1e-14
        for p in (0.3, -0.7):
            assert distance(call(db, "gx_powm", a * size, p) / size**p, call(db, "gx_powm", a, p)) < 1e-13
    small = np.array([[2e-20, 1e-20], [0, 1e-20]])
    assert np.allclose(call(db, "gx_logm", small), [[np.log(2e-20), np.log(2)], [0, np.log(1e-20)]], rtol=1e-15)


def test_powers_of_singular_matrices(db):
    """What has a square root has the power 1/2, and the powers that are it and products."""
    a = np.array([[1.0, 1.0], [0.0, 0.0]])
    for p in (0.5, 1.5, 2.5):
        assert np.array_equal(call(db, "gx_powm", a, p), a)
    b = np.array([[4.0, 2.0, 6.0], [0.0, 0.0, 0.0], [0.0, 0.0, 9.0]])
    assert distance(call(db, "gx_powm", b, 0.5), call(db, "gx_sqrtm", b)) < 1e-15


# 6 ------------------------------------------------------------------------------------------------


def test_destinations_and_properties(db):
    db.execute("SELECT gx_store('A', '[[2,1],[1,2]]')")
    assert q(db, "SELECT gx_expm('A', 'E')") == "E"
    assert q(db, "SELECT gx_sqrtm('A', 'E', '{\"replace\":true}')") == "E"
    assert q(db, "SELECT gx_powm('A', 2, 'P')") == "P"
    assert db.execute("SELECT name, properties FROM gx WHERE name IN ('E', 'P') ORDER BY name").fetchall() == [
        ("E", "symmetric,hermitian"), ("P", "symmetric,hermitian")]
    assert q(db, "SELECT gx_json('P')") == "[[5.0,4.0],[4.0,5.0]]"
    assert "already exists" in error(db, "SELECT gx_logm('A', 'E')")
    assert q(db, "SELECT gx_check()") == "ok"


def test_reference_backend(db):
    rng = np.random.default_rng(75)
    db.execute("SELECT gx_config('backend', 'reference')")
    a = tame(rng, 9, "f64")
    assert distance(call(db, "gx_logm", a), scipy.linalg.logm(a)) < 1e-12
    assert distance(call(db, "gx_expm", a), scipy.linalg.expm(a)) < 1e-12
    h = positive(rng, 9, "c64")
    assert distance(call(db, "gx_sqrtm", h), scipy.linalg.sqrtm(wide(h))) < 1e-5


def test_deterministic_and_memory(filedb):
    filedb.execute("SELECT gx_config('deterministic', 'on'), gx_randn(120, 120, 'A', '{\"seed\":3}')")
    used = "SELECT value FROM gx_stats WHERE name = 'memory_used'"
    baseline, seen = q(filedb, used), set()
    for threads in (1, 2, 3):
        filedb.execute("SELECT gx_config('threads', ?)", (threads,))
        seen.add(bytes(q(filedb, "SELECT gx_expm('A')")) + bytes(q(filedb, "SELECT gx_sqrtm('A')")))
    assert len(seen) == 1 and q(filedb, used) == baseline
    filedb.execute("SELECT gx_config('tile_bytes', 32768), gx_config('memory_limit', '500KiB')")
    text = error(filedb, "SELECT gx_expm('A', 'E')")
    assert text.startswith("gx_expm: functions of A (120x120 f64) need 1.02 MB (") and "memory_limit leaves" in text
    assert q(filedb, "SELECT count(*) FROM gx") == 1 and q(filedb, used) == baseline


ERRORS = [
    ("SELECT gx_expm('[[1,2,3],[4,5,6]]')", "gx_expm: A is 2x3, but this is for square matrices"),
    ("SELECT gx_logm('[[1,\"nan\"],[3,4]]')", "gx_logm: A has NaN at (0, 1)"),
    ("SELECT gx_logm('[[1,1],[1,1]]')", "gx_logm: A is singular: it has no logarithm"),
    ("SELECT gx_logm('[[0,1],[0,1]]')", "gx_logm: A is singular: it has no logarithm"),
    ("SELECT gx_sqrtm('[[0,1],[0,0]]')", "gx_sqrtm: A is singular and has no square root"),
    ("SELECT gx_powm('[[0,1],[0,0]]', -1)", "gx_powm: A is singular (pivot 1 is zero): it has no negative power"),
    ("SELECT gx_powm('[[1,2],[2,4]]', -1)", "gx_powm: A is singular (pivot 2 is zero): it has no negative power"),
    ("SELECT gx_powm('[[0,0],[0,1]]', -0.5)", "gx_powm: A is singular: it has no negative power"),
    ("SELECT gx_powm('[[0,1],[0,0]]', 0.5)", "gx_powm: A is singular and has no square root"),
    ("SELECT gx_powm('[[0,1],[0,0]]', 0.3)", "gx_powm: A is singular: it has no such power"),
    ("SELECT gx_powm('[[1]]')", "gx_powm: takes 2 to 4 arguments, not 1: gx_powm(A, power[, destination][, options])"),
    ("SELECT gx_powm('[[1]]', 'two')", "gx_powm: power must be a number, not 'two'"),
    ("SELECT gx_powm('[[1]]', 'inf')", "gx_powm: power is inf but must be at most 2^53 in magnitude"),
    ("SELECT gx_expm('nobody')", "gx_expm: no matrix named 'nobody'"),
    ("SELECT gx_expm('[[1]]', '{\"k\":1}')", "gx_expm: unknown option \"k\": the known ones are \"dtype\", \"saturate\" and \"replace\""),
]


@pytest.mark.parametrize("sql,text", ERRORS)
def test_errors(db, sql, text):
    assert error(db, sql).startswith(text)
    assert q(db, "SELECT count(*) FROM gx") == 0
