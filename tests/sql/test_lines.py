"""Lines of matrices that are larger than what is gathered or turned at once, against NumPy.

  1  reductions and what goes along rows and columns: more lines than a block, and lines longer than one; the bits of running sums
  2  elements at other places: whole columns, reversed and repeated ones, other shapes
  3  vectors made into matrices; powers of infinities
  4  memory: what does not sort needs the matrix and its lines; a matrix that memory does not hold is read in strips, to
     the same bits
"""
import numpy as np
import pytest
from conftest import from_numpy, q, to_numpy

SHAPES = [(2000, 3), (3, 2000), (130, 70), (1, 5000), (5000, 1), (33, 1100)]
DTYPES = ["<f8", "<f4", "<c16", "<c8"]


def matrix(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(-9, 10, shape) / 4 + rng.integers(0, 2, shape)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.integers(-9, 10, shape) / 4
    return a.astype(dtype)


def call(db, text, *matrices):
    result = q(db, f"SELECT {text}", *(from_numpy(a) for a in matrices))
    return to_numpy(result) if isinstance(result, bytes) else result


def close(got, want, dtype):
    single = np.dtype(dtype).name in ("float32", "complex64")
    return np.allclose(got, want, rtol=1e-4 if single else 1e-12, atol=1e-4 if single else 1e-10, equal_nan=True)


# 1 ------------------------------------------------------------------------------------------------

REAL = {
    "sort": np.sort,
    "argsort": lambda a, axis: np.argsort(a, axis, kind="stable"),
    "median": lambda a, axis: np.median(a, axis, keepdims=True),
    "argmax": lambda a, axis: np.expand_dims(np.argmax(a, axis), axis),
    "min": lambda a, axis: np.min(a, axis, keepdims=True),
}
ANY = {
    "cumsum": np.cumsum,
    "diff": lambda a, axis: np.diff(a, axis=axis),
    "var": lambda a, axis: np.var(a, axis, keepdims=True),
    "all": lambda a, axis: np.all(a, axis, keepdims=True),
    "prod": lambda a, axis: np.prod(a, axis, keepdims=True, dtype=np.result_type(a, "f8")),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_along_lines(db, shape, dtype):
    a = matrix(shape, dtype)
    for name, right in (ANY if np.dtype(dtype).kind == "c" else {**REAL, **ANY}).items():
        b = np.exp(1j * a.real).astype(dtype) if name == "prod" and a.dtype.kind == "c" else a
        b = np.sign(b) + (b == 0) if name == "prod" and a.dtype.kind != "c" else b
        for axis in (0, 1):
            assert close(call(db, f"gx_{name}(?1, {axis})", b), right(b, axis), dtype), (name, axis)


def test_running_sums_and_products_are_numpys(db):
    """Bit for bit, the signs of zeros too: one addition or multiplication after the other."""
    rng = np.random.default_rng(3)
    a = rng.standard_normal((70, 50)) * 10.0 ** rng.integers(-20, 20, (70, 50))
    a[:, :3], a[20, 7], a[:, 8] = -0.0, np.inf, 0
    for axis in (0, 1):
        for name in ("cumsum", "cumprod"):
            got, want = call(db, f"gx_{name}(?1, {axis})", a), getattr(np, name)(a, axis)
            assert np.array_equal(got, want, equal_nan=True) and np.array_equal(np.signbit(got[:, :9]), np.signbit(want[:, :9]))
        z = a[21:, 9:] + 1j * a[:49, 9:]
        assert np.array_equal(call(db, f"gx_cumsum(?1, {axis})", z), np.cumsum(z, axis))


# 2 ------------------------------------------------------------------------------------------------

PLACES = {
    "gx_triu(?1, -40)": lambda a: np.triu(a, -40),
    "gx_triu(?1, 5)": lambda a: np.triu(a, 5),
    "gx_tril(?1)": np.tril,
    "gx_tril(?1, 60)": lambda a: np.tril(a, 60),
    "gx_flip(?1)": np.flip,
    "gx_flip(?1, 0)": lambda a: np.flip(a, 0),
    "gx_flip(?1, 1)": lambda a: np.flip(a, 1),
    "gx_roll(?1, 7, 0)": lambda a: np.roll(a, 7, 0),
    "gx_roll(?1, -7, 0)": lambda a: np.roll(a, -7, 0),
    "gx_roll(?1, 10001, 1)": lambda a: np.roll(a, 10001, 1),
    "gx_roll(?1, -2, 1)": lambda a: np.roll(a, -2, 1),
    "gx_tile(?1, 2, 3)": lambda a: np.tile(a, (2, 3)),
    "gx_repeat(?1, 3, 0)": lambda a: np.repeat(a, 3, 0),
    "gx_repeat(?1, 3, 1)": lambda a: np.repeat(a, 3, 1),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_other_places(db, shape, dtype):
    a = matrix(shape, dtype)
    for text, right in PLACES.items():
        assert np.array_equal(call(db, text, a), right(a)), text
    m, n = shape
    for rows, cols in ((n, m), (1, m * n), (m * n, 1), (m * n // 5, 5), (10, m * n // 10)):
        if rows * cols == m * n:
            assert np.array_equal(call(db, f"gx_reshape(?1, {rows}, {cols})", a), a.reshape(rows, cols))
    for axis, side in enumerate(shape):
        index = np.random.default_rng(1).integers(-side, side, 40)
        got = call(db, f"gx_take(?1, ?2, {axis})", a, index.astype("<f8")[:, None])
        assert np.array_equal(got, np.take(a, index, axis))
    raw = a.astype(dtype).tobytes()
    assert q(db, "SELECT gx_to_bytes(?1)", from_numpy(a)) == raw
    name = {"<f8": "f64", "<f4": "f32", "<c16": "c128", "<c8": "c64"}[dtype]
    assert np.array_equal(to_numpy(q(db, f"SELECT gx_from_bytes(?1, '{name}', {n})", raw)), a)


# 3 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_made_of_vectors(db, dtype):
    x, row = matrix((70, 1), dtype), matrix((1, 45), dtype, 1)
    assert close(call(db, "gx_vander(?1, 6)", x), np.vander(x[:, 0].astype(np.result_type(dtype, "f8")), 6), dtype)
    i, j = np.indices((70, 45))
    square = np.where(i >= j, x[np.maximum(i - j, 0), 0], row[0, np.maximum(j - i, 0)])
    assert np.array_equal(call(db, "gx_toeplitz(?1, ?2)", x, row), square)
    a, b = matrix((3, 1), dtype, 2), matrix((3, 1), dtype, 3)
    assert close(call(db, "gx_cross(?1, ?2)", a, b)[:, 0], np.cross(a[:, 0], b[:, 0]), dtype)


def test_powers_of_infinities(db):
    x = np.array([[np.inf], [-np.inf], [1e200]])
    with np.errstate(over="ignore"):
        assert np.array_equal(call(db, "gx_vander(?1, 4)", x), np.vander(x[:, 0], 4))


# 4 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["argmin", "any", "std", "prod", "logsumexp"])
def test_memory(db, text):
    a = np.random.default_rng(4).standard_normal((1000, 1000))
    q(db, "SELECT gx_store('A', ?)", from_numpy(a))
    q(db, "SELECT gx_config('memory_limit', '26MiB')")  # A and its elements as one line are 16 MB
    right = {"argmin": np.argmin, "any": np.any, "std": np.std, "prod": np.prod,
             "logsumexp": lambda a: np.log(np.exp(a).sum())}[text]
    assert np.isclose(q(db, f"SELECT gx_{text}('A')"), right(a))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(9000, 60), (60, 6000)])
def test_larger_than_memory(filedb, shape, dtype):
    db = filedb
    q(db, "SELECT gx_config('tile_bytes', '64KiB')")
    a = matrix(shape, dtype)
    a = a * np.array(0.125, a.real.dtype) + np.array(0.875, a.real.dtype)
    a[1, :3] = [np.nan, np.inf, 0]
    q(db, "SELECT gx_store('A', ?)", from_numpy(a))
    names = ["prod", "any", "all", "var", "std"]
    names += ["argmin", "argmax", "logsumexp"] if a.dtype.kind == "f" else []
    calls = [f"SELECT gx_{name}('A'{axis})" for name in names for axis in ("", ", 0", ", 1")]
    in_memory = [q(db, call) for call in calls]
    q(db, "SELECT gx_config('memory_limit', '1200KB')")
    assert [q(db, call) for call in calls] == in_memory
