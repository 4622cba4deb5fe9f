"""gx.matrix: stored matrices as objects.

Plan:
1. shape, dtype, repr; indexes of every kind against NumPy's, lists and booleans too; what is outside, what is no index;
2. operators and functions of elements against NumPy's, with arrays, vectors and numbers on either side, comparisons, truth,
   `out`: one SQL call, no transpose made for a product;
3. sums, means, extremes along axes, by methods and by NumPy's functions; what is masked; expressions stored, of several steps; solve, lstsq, inverse, cholesky, norm, sum, show;
4. sparse matrices stay SciPy's;
5. errors: shapes, names.
"""
import gx_sqlite as gx
import numpy as np
import pytest
from conftest import small_tiles
from gx_sqlite import _matrix

RNG = np.random.default_rng(4)
KEYS = [slice(None), slice(2, 9), slice(-3, None), slice(None, None, 3), slice(20, 2, -4), slice(5, 5), 0, 7, -1,
        np.int64(3)]


@pytest.fixture
def pair(db):
    small_tiles(db)
    a = RNG.standard_normal((30, 20))
    gx.store(db, "A", a)
    return gx.matrix(db, "A"), a


def test_what_it_is(pair):
    A, a = pair
    assert A.shape == (30, 20) and A.dtype == np.float64 and A.ndim == 2 and len(A) == 30
    assert repr(A) == "<gx matrix 'A', 30x20 f64>"
    assert repr(A.T @ A) == "<gx expression gx_matmul(A.T, A), 20x20>" and A.T.T is A and A.size == 600
    assert repr(A @ np.ones((20, 2)) + 1) == "<gx expression gx_add(gx_matmul(A, array[20,2]), 1), 30x2>"


def test_indexes(pair):
    A, a = pair
    for i in KEYS:
        assert np.array_equal(A[i], a[i])
        for j in KEYS:
            got, want = A[i, j], a[i, j]
            assert np.array_equal(got, want) and np.shape(got) == np.shape(want), (i, j)
    assert np.array_equal(A[...], a) and np.array_equal(A[..., 1], a[..., 1]) and np.array_equal(A[2, ...], a[2])
    for wrong, text in ((30, r"row 30 is outside 0\.\.29"), ((0, -21), r"column -21 is outside 0\.\.19"),
                        ((0, 0, 0), "3 indexes")):
        with pytest.raises(IndexError, match=text):
            A[wrong]
    assert np.array_equal(A[np.array(3)], a[3]) and np.array_equal(A[range(4, 1, -1)], a[range(4, 1, -1)])
    for wrong in (1.5, True, np.bool_(True), None):
        with pytest.raises(TypeError, match="a row is an integer or a slice, not "):
            A[wrong]


def test_lists(pair, db):
    A, a = pair
    for key in ([4, 0, -1, 4], np.array([29], np.uint8), [], a[:, 0] > 0, [True] * 30):
        for j in (slice(None), slice(1, 9, 2), 3):
            assert np.array_equal(A[key, j], a[key, j])
        assert np.array_equal(A[key], a[key])
    for key in ([3, 3, -20], np.flatnonzero(a[0] > 0), a[0] > 0):
        for i in (slice(None), slice(None, None, -3), -2):
            assert np.array_equal(A[i, key], a[i, key])
    for wrong, problem, text in (([0, 30], IndexError, r"row 30 is outside 0\.\.29"), ((0, [-21]), IndexError, "column -21"),
                                 ([True], IndexError, "1 booleans for 30 rows"), ([0.5], TypeError, "not float64"),
                                 ([[1, 2]], TypeError, "a list of"), (([0], [1]), TypeError, "by one, then by the other")):
        with pytest.raises(problem, match=text):
            A[wrong]


def test_reductions(pair, db):
    A, a = pair
    C = A * 1j + A
    for axis in (None, 0, 1, -1):
        for name in ("sum", "mean", "min", "max", "std", "var", "prod", "any", "all", "argmin", "argmax"):
            assert np.allclose(getattr(A, name)(axis), getattr(a, name)(axis=axis))
            assert np.allclose(getattr(np, name)(A, axis=axis), getattr(np, name)(a, axis=axis))
        for name in ("var", "std"):
            assert np.allclose(getattr(A, name)(axis, ddof=2), getattr(a, name)(axis=axis, ddof=2))
            assert np.allclose(getattr(np, name)(A, axis=axis, ddof=np.int64(1)), getattr(np, name)(a, axis=axis, ddof=1))
        for name in ("any", "all", "argmin", "argmax"):
            assert np.asarray(getattr(A > 0, name)(axis)).dtype == getattr(a > 0, name)(axis=axis).dtype
            assert np.array_equal(getattr(A > 0, name)(axis), getattr(a > 0, name)(axis=axis))
        assert np.allclose(C.sum(axis), (a + 1j * a).sum(axis=axis))
    G = A.T @ A
    assert np.isclose(G.trace(), np.trace(a.T @ a)) and np.isclose(G.det(), np.linalg.det(a.T @ a))
    assert np.allclose((A ** 2).fetch(), a ** 2)
    gx.store(db, "N", [[1.0, np.nan], [3.0, 2.0]])
    N = gx.matrix(db, "N")
    assert np.isnan(N.max()) and np.array_equal(N.max(axis=0), [3, np.nan], equal_nan=True)
    for one in (a[:, :1], a[:1], a[:1, :1]):  # one element is an array along an axis, none without
        gx.store(db, "N", one, replace=True)
        for axis in (None, 0, 1):
            for name in ("sum", "mean", "min", "max", "std", "var", "prod", "any", "all", "argmin", "argmax"):
                got, want = getattr(N, name)(axis), getattr(one, name)(axis=axis)
                assert np.shape(got) == np.shape(want) and np.allclose(got, want), (name, axis)
    with pytest.raises(TypeError, match="only axis is known here, not dtype"):
        np.sum(A, dtype=np.float32)
    with pytest.raises(TypeError, match="only axis is known here, not ddof"):
        A.sum(ddof=1)
    with pytest.raises(ValueError, match="axis 2 is none"):
        A.sum(axis=2)


def test_what_is_masked_is_missing(db):
    masked = np.ma.masked_array([[1, 2], [3, 4]], [[0, 1], [0, 0]])
    gx.store(db, "M", masked)
    gx.store(db, "F", masked.astype("f4"))
    want = [[1, np.nan], [3, 4]]
    for got in (gx.fetch(db, "M"), gx.fetch(db, "F"), gx.fetch(db, gx.value(masked)), gx.fetch(db, gx.value(want))):
        assert np.array_equal(got, want, equal_nan=True)
    assert gx.matrix(db, "F").dtype == np.float32
    gx.store(db, "W", np.ma.masked_array([1, 2]))
    assert np.array_equal(gx.fetch(db, "W"), [[1], [2]])


def test_operators(pair, db):
    A, a = pair
    b = RNG.standard_normal((20, 5))
    row = RNG.standard_normal((1, 20))
    for got, want in ((A.T @ A, a.T @ a), (A @ A.T, a @ a.T), (A @ b, a @ b), (b.T @ A.T, b.T @ a.T), (A + A, a + a),
                      (A - row, a - row), (row - A, row - a), (2 * A, 2 * a), (A * 2, a * 2), (1 / A, 1 / a),
                      (A / 4 + 1, a / 4 + 1), (-A, -a), (abs(A), abs(a)), (A.T, a.T), ((A.T @ A) @ b, a.T @ a @ b),
                      (A * 1j, a * 1j)):
        assert got.shape == want.shape and np.allclose(np.asarray(got), want)
    assert np.asarray(A, np.float32).dtype == np.float32 and np.array_equal(np.asarray(A), a)
    statements = []
    db.set_trace_callback(statements.append)
    np.asarray(A.T @ A)
    db.set_trace_callback(None)
    calls = [s for s in statements if s.startswith("SELECT gx_matmul")]
    assert len(calls) == 1 and "transpose" not in calls[0]


def test_masks(pair):
    A, a = pair
    P, p = A > 0, a > 0
    for got, want in ((P & (A < 1), p & (a < 1)), (P | (A < -1), p | (a < -1)), (P ^ (A < 1), p ^ (a < 1)), (~P, ~p),
                      (p & (A < 1), p & (a < 1)), ((A < 1) | p, (a < 1) | p), (p ^ (A < 1), p ^ (a < 1)), (P & True, p)):
        assert np.array_equal(got.fetch(), want)


def test_nan_is_a_number_here(pair):
    A, a = pair
    for got in (A + float("nan"), np.nan * A, A / np.float32("nan")):
        assert np.isnan(got.fetch()).all()
    assert not (A <= float("nan")).any() and np.array_equal((A ** float("inf")).fetch() > 1, abs(a) > 1)


def test_of_another_connection(pair, any_db):
    A, a = pair
    gx.store(any_db, "A", a + 1)  # the same name: not to be taken for it
    B = gx.matrix(any_db, "A")
    for f in (lambda: A + B, lambda: A @ B.T, lambda: B.T @ A, lambda: A.lstsq(B), lambda: np.maximum(A, B * 2)):
        with pytest.raises(ValueError, match="of another connection: fetch"):
            f()
    assert np.allclose((A - B.fetch()).fetch(), -1) and np.allclose((B - B * 2).fetch(), -(a + 1))


def test_pandas_leaves_operators_to_gx(pair):
    pandas = pytest.importorskip("pandas")
    A, a = pair
    row, frame = pandas.Series(a[0]), pandas.DataFrame(a)
    for got, want in ((row - A, a[0] - a), (A * row, a * a[0]), (frame / A, np.ones_like(a))):
        assert np.allclose(got.fetch(), want)
    assert np.allclose(frame.T @ A, a.T @ a)


def test_vectors_are_rows_among_elements(db):
    a = RNG.standard_normal((6, 6))  # square: a column would fit as well
    gx.store(db, "A", a)
    A, v = gx.matrix(db, "A"), a[0]
    for got, want in ((A - A.mean(axis=0), a - a.mean(axis=0)), (v * A, v * a), (A + [1, 2, 3, 4, 5, 6], a + np.arange(1, 7)),
                      (np.subtract(v, A), v - a)):
        assert np.allclose(got.fetch(), want)
    assert np.allclose((v @ A).fetch()[0], v @ a) and np.allclose((A @ v).fetch()[:, 0], a @ v)
    assert np.allclose(A.solve(v).fetch()[:, 0], np.linalg.solve(a, v))


@pytest.mark.filterwarnings("ignore:.*encountered in")
def test_functions_of_elements(pair):
    A, a = pair
    for name in _matrix.UNARY:
        assert np.allclose(getattr(np, name)(A * 0.1).fetch(), getattr(np, name)(a * 0.1), equal_nan=True), name
    for name in _matrix.BINARY:
        f = getattr(np, name)
        for b in (a[::-1], 2, a[0], a[:, :1]):
            assert np.allclose(f(A, b).fetch(), f(a, b), equal_nan=True), name
            assert np.allclose(f(b, A).fetch(), f(b, a), equal_nan=True), name
    b = a.copy()
    b += A  # stays an array
    assert type(b) is np.ndarray and np.allclose(b, 2 * a) and np.allclose((2 ** A % 3).fetch(), 2 ** a % 3)
    with pytest.raises(TypeError, match="np.gcd is not computed by gx"):
        np.gcd(A, A)


def test_comparisons(pair):
    A, a = pair
    for got, want in ((A == a, a == a), (A != A.T.T, a != a), (A < 0, a < 0), (a[0] >= A, a[0] >= a), (A <= a[:, :1], a <= a[:, :1])):
        assert np.array_equal(got.fetch(), want)
    assert np.array_equal(np.where(A > 0, A, 0), np.where(a > 0, a, 0)) and (A == None) is False  # noqa: E711
    assert (A.T @ A).trace() and ((A == a).sum() == a.size)
    with pytest.raises(ValueError, match="whether 30x20 elements are true is not one answer"):
        assert A == a
    with pytest.raises(TypeError, match="unhashable"):
        hash(A)


def test_methods(pair, db):
    A, a = pair
    b = RNG.standard_normal(30)
    G = (A.T @ A).store("G")
    assert isinstance(G, gx.Matrix) and np.allclose(np.asarray(G), a.T @ a)
    assert np.allclose(G.inverse().fetch(), np.linalg.inv(a.T @ a))
    assert np.allclose(np.asarray(A.lstsq(b))[:, 0], np.linalg.lstsq(a, b, rcond=None)[0])
    assert np.allclose(G.solve(A.T @ b).fetch()[:, 0], np.linalg.lstsq(a, b, rcond=None)[0])
    assert np.allclose(np.asarray(G.cholesky()), np.linalg.cholesky(a.T @ a))
    assert np.isclose(A.norm(), np.linalg.norm(a)) and np.isclose((A - 1).sum(), (a - 1).sum())
    assert A.norm("inf") == pytest.approx(np.abs(a).sum(1).max()) and A.show().startswith("[[")
    (A + 1).store("G", replace=True)
    assert G.shape == (30, 20) and np.allclose((A + 1)[0], a[0] + 1)
    with pytest.raises(Exception, match="matrix 'G' already exists"):
        A.store("G")


def test_errors(pair, db):
    A, _ = pair
    with pytest.raises(ValueError, match="the product of 30x20 and 30x20"):
        A @ A
    with pytest.raises(ValueError, match="30x20 and 3x3 have no elements in common places"):
        A + np.ones((3, 3))
    for wrong in (None, "B", np.array(["x"])):
        with pytest.raises(TypeError):
            A * wrong
        with pytest.raises(TypeError, match="the right-hand side is a matrix"):
            A.solve(wrong)
    with pytest.raises(TypeError, match="a matrix's name is a text, not ndarray"):
        gx.matrix(db, np.ones(3))
    with pytest.raises(Exception, match="no matrix named 'B'"):
        gx.matrix(db, "B")


def test_sparse(db):
    sparse = pytest.importorskip("scipy.sparse")
    S = sparse.random(30, 20, 0.2, "csr", random_state=3)
    gx.store(db, "S", S)
    A = gx.matrix(db, "S")
    a = S.toarray()
    for got, want in ((A.T @ A, a.T @ a), (A + A, a + a), (A.T, a.T), (A, a), (A @ S.T, a @ a.T), (A[2:9, ::3], a[2:9, ::3]), (A[7], a[7:8]),
                      (A[[4, 4, 0]], a[[4, 4, 0]]), (A[:, a[0] > 0], a[:, a[0] > 0])):
        got = got.fetch() if isinstance(got, gx.Expression) else got
        assert sparse.issparse(got) and np.allclose(got.toarray(), want)
    assert A[3, 4] == a[3, 4] and np.allclose(A.sum(axis=0), a.sum(axis=0)) and np.allclose((A @ a.T).fetch(), a @ a.T)
    with pytest.raises(TypeError, match="the matrix is sparse: fetch"):
        np.asarray(A)
