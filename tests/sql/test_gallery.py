"""gx_matrix_gallery against the literature's formulas, SciPy's special matrices and known properties.

Plan
 1. Every kind, written again here as a NumPy formula, at orders 0, 1, 2, 5, 13, 40 (or the nearest it takes),
    as value and stored in tiny tiles, and in every dtype.
 2. SciPy's hilbert, invhilbert, pascal, hadamard, circulant, toeplitz.
 3. What makes each famous: inverses, determinants, eigenvalues, growth, orthogonality, magic sums.
 4. Integers are exact: invhilb and pascal against Python's integers, to the last bit where one rounding is promised.
 5. The properties that are set hold for the stored matrix.
 6. Orders, parameters and kinds that are refused: exact texts.
"""
import itertools
import math

import numpy as np
import pytest
import scipy.linalg as sl
from conftest import error, q, to_numpy

NUMBERS = itertools.count()


def gallery(db, kind, n, **options):
    text = "{" + ",".join(f'"{k}":{v}' for k, v in options.items()) + "}"
    return to_numpy(q(db, "SELECT gx_matrix_gallery(?, ?, ?)", kind, n, text))


def grid(n):
    return np.meshgrid(np.arange(1, n + 1), np.arange(1, n + 1), indexing="ij")


def band(n, below, on, above):
    a = np.zeros((n, n))
    for k, f in ((-1, below), (0, on), (1, above)):
        a += np.diag([f(i) for i in range(1, n - abs(k) + 1)], k) if n > abs(k) else 0
    return a


def magic(n):
    if n % 2:
        i, j = grid(n)
        return n * ((i + j - (n + 3) // 2) % n) + (i + 2 * j - 2) % n + 1
    if n % 4 == 0:
        i, j = grid(n)
        m = np.arange(1, n * n + 1).reshape(n, n)
        return np.where(i % 4 // 2 == j % 4 // 2, n * n + 1 - m, m)
    p = n // 2
    m = magic(p)
    m = np.block([[m, m + 2 * p * p], [m + 3 * p * p, m + p * p]])
    k = (n - 2) // 4
    cols = list(range(k)) + list(range(n - k + 1, n))
    upper, lower = m[:p, cols].copy(), m[p:, cols].copy()
    m[:p, cols], m[p:, cols] = lower, upper
    for c in (0, k):
        m[k, c], m[k + p, c] = m[k + p, c], m[k, c]
    return m


def pascal(n, k=0):
    c = np.array([[float(math.comb(i, j)) for j in range(n)] for i in range(n)]).reshape(n, n)
    signed = c * (-1.0) ** np.arange(n)
    if k == 2:
        return np.rot90(signed, 3) * (1 if n % 2 else -1)
    return {-1: c, 1: signed, 0: np.array([[float(math.comb(i + j, i)) for j in range(n)] for i in range(n)])
            .reshape(n, n)}[k]


def invhilb(n):
    f = math.factorial
    p = [f(n + i) // (f(i) ** 2 * f(n - i - 1)) for i in range(n)]
    return [[(-1) ** (i + j) * (p[i] * p[j] // (i + j + 1)) for j in range(n)] for i in range(n)]


def frank(n, k=0):
    i, j = grid(n)
    f = np.where(j >= i - 1, n + 1 - np.maximum(i, j), 0)
    return f[::-1, ::-1].T if k else f


def kahan(n, theta=1.2, pert=25):
    s, c = math.sin(theta), math.cos(theta)
    u = np.eye(n) - c * np.triu(np.ones((n, n)), 1)
    return np.diag(s ** np.arange(n)) @ u + pert * 2.0 ** -52 * np.diag(np.arange(n, 0, -1))


def poisson(n):
    m = math.isqrt(n)
    s = band(m, lambda i: -1, lambda i: 2, lambda i: -1)
    return np.kron(np.eye(m), s) + np.kron(s, np.eye(m))


def triw(n, alpha=-1, k=None):
    u = np.triu(np.ones((n, n)), 1)
    return np.eye(n) + alpha * (u if k is None else np.tril(u, k))


def prolate(n, w=0.25):
    t = np.arange(1, n)
    return sl.toeplitz(np.concatenate([[2 * w], np.sin(2 * np.pi * w * t) / (np.pi * t)])[:n]) if n else grid(0)[0]


def chow(n, alpha=1, delta=0):
    i, j = grid(n)
    return np.where(i >= j - 1, float(alpha) ** (i - j + 1), 0) + delta * np.eye(n)


def orthog(n, k=1):
    i, j = grid(n)
    if k == 1:
        return np.sqrt(2 / (n + 1)) * np.sin(i * j * np.pi / (n + 1))
    if k == 2:
        return 2 / np.sqrt(2 * n + 1) * np.sin(2 * i * j * np.pi / (2 * n + 1))
    angle = 2 * np.pi * (i - 1) * (j - 1) / max(n, 1)
    return (np.sin(angle) + np.cos(angle)) / np.sqrt(max(n, 1))


def formula(f):
    return lambda n, **options: f(*grid(n), n, **options)


FORMULAS = {
    "cauchy": formula(lambda i, j, n: 1 / (i + j)),
    "chow": chow,
    "circul": formula(lambda i, j, n: (j - i) % max(n, 1) + 1),
    "clement": lambda n, k=0: band(n, (lambda i: n - i) if k == 0 else (lambda i: math.sqrt(i * (n - i))),
                                   lambda i: 0, (lambda i: i) if k == 0 else (lambda i: math.sqrt(i * (n - i)))),
    "fiedler": formula(lambda i, j, n: abs(i - j)),
    "forsythe": formula(lambda i, j, n, alpha=2.0 ** -26, **o: np.where(
        (i == n) & (j == 1), alpha, o.get("lambda", 0) * (i == j) + (j == i + 1))),
    "frank": frank,
    "gfpp": formula(lambda i, j, n, c=1: np.where((i == j) | (j == n), 1, np.where(i > j, -c, 0))),
    "grcar": formula(lambda i, j, n, k=3: np.where(i == j + 1, -1, (j >= i) & (j - i <= k))),
    "hilb": formula(lambda i, j, n: 1 / (i + j - 1)),
    "jordbloc": formula(lambda i, j, n, **o: o.get("lambda", 1) * (i == j) + (j == i + 1)),
    "kahan": kahan,
    "kms": formula(lambda i, j, n, rho=0.5: float(rho) ** abs(i - j)),
    "lehmer": formula(lambda i, j, n: np.minimum(i, j) / np.maximum(i, j)),
    "lesp": lambda n: band(n, lambda i: 1 / (i + 1), lambda i: -(2 * i + 3), lambda i: i + 1),
    "lotkin": formula(lambda i, j, n: np.where(i == 1, 1, 1 / (i + j - 1))),
    "magic": lambda n: magic(n) if n else grid(0)[0],
    "minij": formula(lambda i, j, n: np.minimum(i, j)),
    "moler": lambda n, alpha=-1: triw(n, alpha).T @ triw(n, alpha),
    "orthog": orthog,
    "parter": formula(lambda i, j, n: 1 / (i - j + 0.5)),
    "pascal": pascal,
    "pei": formula(lambda i, j, n, alpha=1: alpha * (i == j) + 1.0),
    "poisson": poisson,
    "prolate": prolate,
    "redheff": formula(lambda i, j, n: (j == 1) | (j % i == 0)),
    "riemann": formula(lambda i, j, n: np.where((j + 1) % (i + 1) == 0, i, -1)),
    "ris": formula(lambda i, j, n: 0.5 / (n - i - j + 1.5)),
    "tridiag": lambda n, c=-1, d=2, e=-1: band(n, lambda i: c, lambda i: d, lambda i: e),
    "triw": triw,
    "wilkinson": lambda n: band(n, lambda i: 1, lambda i: abs((n + 1) / 2 - i), lambda i: 1),
    "invhilb": lambda n: np.array(invhilb(n), dtype=float).reshape(n, n),
    "hadamard": lambda n: sl.hadamard(n) if n else grid(0)[0],
    "rosser": None,
}
ORDERS = {"poisson": [0, 1, 4, 9, 49], "hadamard": [0, 1, 2, 4, 64], "magic": [0, 1, 3, 4, 5, 6, 10, 13, 40, 42],
          "rosser": [8], "invhilb": [0, 1, 2, 5, 13]}
ROSSER = np.array([[611, 196, -192, 407, -8, -52, -49, 29], [196, 899, 113, -192, -71, -43, -8, -44],
                   [-192, 113, 899, 196, 61, 49, 8, 52], [407, -192, 196, 611, 8, 44, 59, -23],
                   [-8, -71, 61, 8, 411, -599, 208, 208], [-52, -43, 49, 44, -599, 411, 208, 208],
                   [-49, -8, 8, 59, 208, 208, 99, -911], [29, -44, 52, -23, 208, 208, -911, 99]])
FORMULAS["rosser"] = lambda n: ROSSER
PARAMETERS = [
    ("chow", {"alpha": 0.5, "delta": 2}), ("clement", {"k": 1}), ("forsythe", {"alpha": 3, "lambda": -2}),
    ("frank", {"k": 1}), ("gfpp", {"c": 0.25}), ("grcar", {"k": 0}), ("grcar", {"k": 5}), ("jordbloc", {"lambda": 7}),
    ("kahan", {"theta": 0.3, "pert": 1000}), ("kms", {"rho": -0.9}), ("kms", {"rho": 1.5}), ("moler", {"alpha": 0.5}),
    ("orthog", {"k": 2}), ("orthog", {"k": 5}), ("pascal", {"k": 1}), ("pascal", {"k": -1}), ("pascal", {"k": 2}),
    ("pei", {"alpha": -3}), ("prolate", {"w": 0.1}), ("tridiag", {"c": 3, "d": 0, "e": 5}),
    ("triw", {"alpha": 2, "k": 1})]


# ---- 1. formulas ---------------------------------------------------------------------------------

@pytest.mark.parametrize("kind, options", [(kind, {}) for kind in FORMULAS] + PARAMETERS)
def test_formula(db, kind, options):
    q(db, "SELECT gx_config('tile_bytes', '4096')")
    text = "{" + ",".join(f'"{k}":{v}' for k, v in options.items()) + "}"
    for n in ORDERS.get(kind, [0, 1, 2, 5, 13, 40]):
        got = gallery(db, kind, n, **options)
        expected = np.asarray(FORMULAS[kind](n, **options), dtype=float)
        np.testing.assert_allclose(got, expected, rtol=4e-15, atol=1e-13 if kind == "orthog" else 1e-15, err_msg=f"{kind} {n}")
        name = f"G{next(NUMBERS)}"
        assert q(db, "SELECT gx_matrix_gallery(?, ?, ?, ?)", kind, n, name, text) == name
        again = to_numpy(q(db, "SELECT gx_scale(?, 1)", name))
        assert again.tobytes() == got.tobytes()


@pytest.mark.parametrize("kind", FORMULAS)
def test_dtypes(db, kind):
    n = ORDERS.get(kind, [13])[-1]
    full = gallery(db, kind, n)
    for dtype, kind_of in [("f32", np.float32), ("c128", np.complex128), ("c64", np.complex64)]:
        np.testing.assert_array_equal(gallery(db, kind, n, dtype=f'"{dtype}"'), full.astype(kind_of))


def test_every_kind_is_tested(db):
    known = error(db, "SELECT gx_matrix_gallery('', 3)").split("known: ")[1].rstrip(")").split(", ")
    assert sorted(known) == sorted(FORMULAS) and known == sorted(known)


# ---- 2. SciPy ------------------------------------------------------------------------------------

def test_scipy(db):
    np.testing.assert_array_equal(gallery(db, "hilb", 30), sl.hilbert(30))
    np.testing.assert_array_equal(gallery(db, "invhilb", 14), sl.invhilbert(14, exact=True).astype(float))
    np.testing.assert_array_equal(gallery(db, "pascal", 20), sl.pascal(20).astype(float))
    np.testing.assert_array_equal(gallery(db, "pascal", 20, k=-1), sl.pascal(20, kind="lower").astype(float))
    np.testing.assert_array_equal(gallery(db, "hadamard", 128), sl.hadamard(128))
    np.testing.assert_array_equal(gallery(db, "circul", 9), sl.circulant(np.arange(1, 10)).T)
    np.testing.assert_array_equal(gallery(db, "kms", 9), sl.toeplitz(0.5 ** np.arange(9)))
    np.testing.assert_array_equal(gallery(db, "fiedler", 9), sl.fiedler(np.arange(9)))


# ---- 3. what they are known for ------------------------------------------------------------------

def test_inverses(db):
    n = 12
    tri = band(n, lambda i: -1, lambda i: 2, lambda i: -1)
    tri[-1, -1] = 1
    np.testing.assert_array_equal(gallery(db, "minij", n) @ tri, np.eye(n))
    np.testing.assert_array_equal(gallery(db, "pascal", n, k=1) @ gallery(db, "pascal", n, k=1), np.eye(n))
    cube = gallery(db, "pascal", n, k=2)
    np.testing.assert_array_equal(cube @ cube @ cube, np.eye(n))
    for kind in ("lehmer", "kms"):
        inverse = np.linalg.inv(gallery(db, kind, n))
        assert np.abs(np.triu(inverse, 2)).max() < 1e-10
    lower = gallery(db, "pascal", n, k=-1)
    np.testing.assert_array_equal(lower @ lower.T, gallery(db, "pascal", n))
    u = gallery(db, "triw", n)
    np.testing.assert_array_equal(u.T @ u, gallery(db, "moler", n))
    hilbert = gallery(db, "hilb", 5) @ gallery(db, "invhilb", 5)
    np.testing.assert_allclose(hilbert, np.eye(5), atol=1e-9)


def test_determinants(db):
    assert np.linalg.det(gallery(db, "frank", 8)) == pytest.approx(1, rel=1e-8)
    assert np.linalg.det(gallery(db, "pascal", 8)) == pytest.approx(1, rel=1e-8)
    assert np.linalg.det(gallery(db, "moler", 8)) == pytest.approx(1, rel=1e-8)
    assert abs(np.linalg.det(gallery(db, "hadamard", 8))) == pytest.approx(8 ** 4)
    # forsythe: det(A - t I) = (lambda - t)^n - (-1)^n alpha
    a = gallery(db, "forsythe", 6, alpha=2, **{"lambda": 3})
    assert np.linalg.det(a - 1.5 * np.eye(6)) == pytest.approx(1.5 ** 6 - 2)


def test_eigenvalues(db):
    n = 12
    for k in (0, 1):
        values = np.sort(np.linalg.eigvals(gallery(db, "clement", n, k=k)).real)
        np.testing.assert_allclose(values, np.arange(1 - n, n, 2), atol=1e-6)
    i = np.arange(1, n + 1)
    np.testing.assert_allclose(np.sort(np.linalg.eigvalsh(gallery(db, "minij", n))),
                               np.sort(1 / (4 * np.sin((2 * i - 1) * np.pi / (4 * n + 2)) ** 2)))
    np.testing.assert_allclose(np.linalg.eigvalsh(gallery(db, "tridiag", n)),
                               2 - 2 * np.cos(i * np.pi / (n + 1)), atol=1e-13)
    root = 2 - 2 * np.cos(np.arange(1, 6) * np.pi / 6)
    np.testing.assert_allclose(np.linalg.eigvalsh(gallery(db, "poisson", 25)),
                               np.sort(np.add.outer(root, root).ravel()), atol=1e-13)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(gallery(db, "rosser", 8)),
        [-10 * 10405 ** 0.5, 0, 510 - 100 * 26 ** 0.5, 1000, 1000, 510 + 100 * 26 ** 0.5, 1020, 10 * 10405 ** 0.5],
        atol=1e-9)
    np.testing.assert_allclose(np.linalg.eigvalsh(gallery(db, "pei", n, alpha=3)), [3] * (n - 1) + [n + 3])
    wilkinson = np.linalg.eigvalsh(gallery(db, "wilkinson", 21))
    assert 0 < wilkinson[-1] - wilkinson[-2] < 1e-13 or wilkinson[-1] == wilkinson[-2]
    assert wilkinson[-1] == pytest.approx(10.746194182903393)
    assert np.abs(np.linalg.eigvals(gallery(db, "redheff", 10)) - 1).min() < 1e-6
    np.testing.assert_allclose(np.linalg.svd(gallery(db, "parter", 30))[1][:20], np.pi, rtol=1e-6)
    assert (np.linalg.eigvals(gallery(db, "lesp", 10)).real < -4.4).all()


def test_growth(db):
    a = gallery(db, "gfpp", 30)
    _, _, upper = sl.lu(a)
    assert np.abs(upper).max() == 2.0 ** 29


def test_orthogonal(db):
    for k in (1, 2, 5):
        a = gallery(db, "orthog", 50, k=k)
        assert np.abs(a.T @ a - np.eye(50)).max() < 1e-14
    a = gallery(db, "hadamard", 64)
    np.testing.assert_array_equal(a.T @ a, 64 * np.eye(64))


@pytest.mark.parametrize("n", [3, 4, 5, 6, 7, 8, 10, 14, 18, 22, 23, 24])
def test_magic_sums(db, n):
    a = gallery(db, "magic", n)
    total = n * (n * n + 1) / 2
    assert sorted(a.ravel()) == list(range(1, n * n + 1))
    for sums in (a.sum(0), a.sum(1), [np.trace(a)], [np.trace(a[:, ::-1])]):
        assert (np.asarray(sums) == total).all()


def test_matlab_squares(db):
    """As printed in MATLAB's documentation of magic."""
    np.testing.assert_array_equal(gallery(db, "magic", 3), [[8, 1, 6], [3, 5, 7], [4, 9, 2]])
    np.testing.assert_array_equal(gallery(db, "magic", 4),
                                  [[16, 2, 3, 13], [5, 11, 10, 8], [9, 7, 6, 12], [4, 14, 15, 1]])
    np.testing.assert_array_equal(gallery(db, "magic", 6)[:2], [[35, 1, 6, 26, 19, 24], [3, 32, 7, 21, 23, 25]])


# ---- 4. exact integers ---------------------------------------------------------------------------

@pytest.mark.parametrize("n", [1, 2, 10, 15, 16, 20, 25])
def test_invhilb_is_rounded_once(db, n):
    assert gallery(db, "invhilb", n).tolist() == [[float(x) for x in row] for row in invhilb(n)]


def test_invhilb_large(db):
    exact = invhilb(203)
    got = gallery(db, "invhilb", 203)
    for i in range(0, 203, 7):
        for j in range(0, 203, 11):
            assert got[i, j] == pytest.approx(float(exact[i][j]), rel=203 * 2 ** -52)
    np.testing.assert_array_equal(got, got.T)


def test_pascal_large(db):
    got = gallery(db, "pascal", 515)
    for i in range(0, 515, 19):
        for j in range(0, 515, 23):
            exact = math.comb(i + j, i)
            if exact < 2 ** 63:
                assert got[i, j] == float(exact)
            assert got[i, j] == pytest.approx(float(exact), rel=515 * 2 ** -52)
    np.testing.assert_array_equal(got, got.T)


# ---- 5. properties -------------------------------------------------------------------------------

@pytest.mark.parametrize("kind, options", [(kind, {}) for kind in FORMULAS] + PARAMETERS)
def test_properties_hold(db, kind, options):
    n = ORDERS.get(kind, [13])[-1]
    text = "{" + ",".join(f'"{k}":{v}' for k, v in options.items()) + "}"
    q(db, "SELECT gx_matrix_gallery(?, ?, 'P', ?)", kind, n, text)
    found = (q(db, "SELECT properties FROM gx WHERE name = 'P'") or "").replace(",", " ").split()
    a = gallery(db, kind, n, **options)
    facts = {
        "symmetric": (a == a.T).all(), "hermitian": (a == a.T).all(),
        "positive": (a == a.T).all() and np.linalg.eigvalsh(a).min() > -1e-12 * np.abs(a).max(),
        "lower": (np.triu(a, 1) == 0).all(), "upper": (np.tril(a, -1) == 0).all(),
        "unit": (np.diag(a) == 1).all(), "orthogonal": np.abs(a.T @ a - np.eye(n)).max() < 1e-13}
    for name in found:
        assert facts[name], name
    # and the ones that choose an algorithm are not forgotten
    for name in ("symmetric", "lower", "upper"):
        if facts[name] and n > 2 and kind not in ("chow", "forsythe"):
            assert name in found, name


def test_positive_ones(db):
    expected = {"lehmer", "minij", "moler", "pei", "kms", "poisson", "tridiag"}
    found = set()
    for kind in FORMULAS:
        q(db, "SELECT gx_matrix_gallery(?, ?, ?)", kind, ORDERS.get(kind, [13])[-1], kind)
        if "positive" in (q(db, "SELECT properties FROM gx WHERE name = ?", kind) or ""):
            found.add(kind)
    assert found == expected


# ---- 6. refused ----------------------------------------------------------------------------------

@pytest.mark.parametrize("call, text", [
    ("'hilbert', 3", "unknown kind 'hilbert' (known: " + ", ".join(sorted(FORMULAS)) + ")"),
    ("NULL, 3", "kind must be a text, not NULL"),
    ("'hilb', -3", "n must not be negative, not -3"),
    ("'hilb', 3000000000, 'X'", "the order is 3000000000 but must be between 0 and 2147483647"),
    ("'hilb'", "takes 2 to 4 arguments, not 1: gx_matrix_gallery(kind, n[, destination][, options])"),
    ("'hilb', 3, '{\"k\":1}'", "kind 'hilb' has no option 'k' (it has none)"),
    ("'kahan', 3, '{\"k\":1}'", "kind 'kahan' has no option 'k' (it has theta, pert)"),
    ("'kms', 3, '{\"rho\":\"inf\"}'", "option 'rho' must be finite, found inf"),
    ("'kms', 3, '{\"rho\":\"nan\"}'", "option 'rho' must be finite, found nan"),
    ("'kms', 3, '{\"rho\":true}'", 'option "rho" must be a number, not true'),
    ("'clement', 3, '{\"k\":2}'", "option 'k' of clement is 0 or 1, found 2"),
    ("'frank', 3, '{\"k\":0.5}'", "option 'k' of frank is 0 or 1, found 0.5"),
    ("'pascal', 3, '{\"k\":3}'", "option 'k' of pascal is 0, 1, -1 or 2, found 3"),
    ("'orthog', 3, '{\"k\":3}'", "option 'k' of orthog is 1, 2 or 5, found 3"),
    ("'grcar', 3, '{\"k\":-1}'", "option 'k' of grcar is a number of diagonals, found -1"),
    ("'gfpp', 3, '{\"c\":2}'", "option 'c' of gfpp is between 0 and 1, found 2"),
    ("'rosser', 7", "rosser has order 8, found 7"),
    ("'poisson', 10", "poisson needs a square number as order, found 10"),
    ("'hadamard', 12", "hadamard needs a power of two as order, found 12"),
    ("'magic', 2", "there is no magic square of order 2"),
    ("'invhilb', 204", "invhilb of order 204 has elements past the largest number of f64"),
    ("'invhilb', 30, '{\"dtype\":\"f32\"}'", "invhilb of order 30 has elements past the largest number of f32"),
    ("'pascal', 516", "pascal of order 516 has elements past the largest number of f64"),
    ("'pascal', 2000000000, 'X'", "pascal of order 2000000000 has elements past the largest number of f64"),
    ("'kms', 3, '{\"rho\":1e200}'", "kms of order 3 has elements past the largest number of f64"),
    ("'tridiag', 3, '{\"d\":1e40,\"dtype\":\"f32\"}'", "tridiag of order 3 has elements past the largest number of f32"),
])
def test_refused(db, call, text):
    assert error(db, f"SELECT gx_matrix_gallery({call})") == "gx_matrix_gallery: " + text
    assert q(db, "SELECT count(*) FROM gx") == 0
