"""Lines of matrices that are larger than what is gathered or turned at once, against NumPy.

  1  reductions and what goes along rows and columns: more lines than a block, and lines longer than one; the bits of running sums
  2  elements at other places: whole columns, reversed and repeated ones, other shapes
  3  vectors made into matrices; powers of infinities
  4  memory: what does not sort needs the matrix and its lines; a matrix that memory does not hold is read in strips, to
     the same bits
  5  variances of numbers that are far from zero and close to each other, against exact ones, in every form; ddof
  6  what there is of no elements: NumPy's result, or words where NumPy refuses; quantiles next to infinities
"""
from fractions import Fraction

import numpy as np
import pytest
from conftest import error, from_numpy, q, to_numpy

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


# 5 ------------------------------------------------------------------------------------------------


def exact_variance(x, ddof=0):
    """Of the numbers as they are, in fractions."""
    parts = [np.real(x).ravel(), np.imag(x).ravel()] if np.iscomplexobj(x) else [x.ravel()]
    sums = 0
    for part in parts:
        numbers = [Fraction(float(v)) for v in part]
        mean = sum(numbers) / len(numbers)
        sums += sum((v - mean) ** 2 for v in numbers)
    return float(sums / (x.size - ddof))


@pytest.mark.parametrize("offset", [0, 1e6, 1e9, 1e12, 1e15])
def test_variances_of_a_large_offset(db, offset):
    rng = np.random.default_rng(6)
    real = offset + rng.standard_normal((700, 7))
    for x in (real, real + 1j * (rng.standard_normal((700, 7)) - 3 * offset)):
        columns = np.array([[exact_variance(x[:, j]) for j in range(7)]])
        rows = np.array([[exact_variance(x[i])] for i in range(5)])
        for form in ("gx_{}(?1{})", "gx_eval('{}(?1{})', ?1)"):
            assert np.isclose(call(db, form.format("var", ""), x), exact_variance(x), rtol=1e-13, atol=0)
            assert np.isclose(call(db, form.format("std", ""), x), exact_variance(x) ** 0.5, rtol=1e-13, atol=0)
            assert np.allclose(call(db, form.format("var", ", 0"), x), columns, rtol=1e-13, atol=0)
            assert np.allclose(call(db, form.format("std", ", 1"), x)[:5], rows**0.5, rtol=1e-13, atol=0)
        sample = columns[0] * 700 / 699
        assert np.allclose(np.diag(call(db, "gx_cov(?1)", x)).real, sample, rtol=1e-13, atol=0)
        assert np.allclose(np.diag(call(db, "gx_cov(?1)", x[:5])).real,
                           [exact_variance(x[:5, j], 1) for j in range(7)], rtol=1e-13, atol=0)
        assert np.allclose(np.diag(call(db, "gx_corr(?1)", x)), 1, rtol=1e-13, atol=0)
        few = np.array([exact_variance(x[:5, j], 1) for j in range(7)])  # wide: another way
        components = [row[0] for row in db.execute("SELECT variance FROM gx_pca(?)", (from_numpy(x[:5].copy()),))]
        assert np.isclose(sum(components), few.sum(), rtol=1e-13, atol=0)
        centred = x[:5] - x[0]
        centred = (centred - centred.mean(0)) / np.sqrt(few)
        assert np.allclose(call(db, "gx_corr(?1)", x[:5]), (centred.T @ centred.conj()) / 4, rtol=0, atol=1e-12)
        components = [row[0] for row in db.execute("SELECT variance FROM gx_pca(?)", (from_numpy(x),))]
        assert np.isclose(sum(components), sample.sum(), rtol=1e-13, atol=0)


def test_variances_of_a_large_offset_in_strips(filedb):
    db, x = filedb, 1e12 + np.random.default_rng(7).standard_normal((9000, 30))
    q(db, "SELECT gx_config('tile_bytes', '64KiB')")
    q(db, "SELECT gx_store('A', ?)", from_numpy(x))
    calls = ["SELECT gx_var('A')", "SELECT gx_var('A', 0)", "SELECT gx_var('A', 1)", "SELECT gx_std('A', '{\"ddof\":3}')"]
    in_memory = [q(db, call) for call in calls]
    assert np.isclose(in_memory[0], exact_variance(x), rtol=1e-13, atol=0)
    assert np.isclose(in_memory[3], exact_variance(x, 3) ** 0.5, rtol=1e-13, atol=0)
    q(db, "SELECT gx_config('memory_limit', '1200KB')")
    assert [q(db, call) for call in calls] == in_memory


def test_variances_of_special_numbers(db):
    assert q(db, "SELECT gx_var('[0.1,0.1,0.1,0.1,0.1,0.1,0.1]')") == 0.0  # exactly: it does not vary
    assert q(db, "SELECT gx_var('[1e200,-1e200]')") == np.inf == q(db, "SELECT gx_var('[1e308,-1e308]')")
    for literal in ('[1,"inf"]', '["inf",1]', '["-inf","inf"]', '[1,"nan",2]'):
        assert q(db, "SELECT gx_var(?)", literal) is None, literal  # NaN
    assert q(db, "SELECT gx_var('[3]')") == 0.0


@pytest.mark.parametrize("dtype", DTYPES)
def test_ddof(db, dtype):
    a = matrix((31, 5), dtype, 8)
    for name, right in (("var", np.var), ("std", np.std)):
        for ddof in (0, 1, 2, 30):
            options = f"'{{\"ddof\":{ddof}}}'"
            assert close(call(db, f"gx_{name}(?1, {options})", a), right(a, ddof=ddof), dtype)
            assert close(call(db, f"gx_eval('{name}(?1, ''all'', {ddof})', ?1)", a), right(a, ddof=ddof), dtype)
            for axis in (0, 1):
                if ddof < a.shape[axis]:
                    want = right(a, axis, ddof=ddof, keepdims=True)
                    assert close(call(db, f"gx_{name}(?1, {axis}, {options})", a), want, dtype)
                    assert close(call(db, f"gx_eval('{name}(?1, {axis}, {ddof})', ?1)", a), want, dtype)
        assert q(db, f"SELECT gx_{name}('[1,2]', '{{\"ddof\":2}}')") == np.inf  # NumPy's: 0.5 / 0
        assert q(db, f"SELECT gx_{name}('[1]', '{{\"ddof\":1}}')") is None  # 0 / 0
    for ddof in (0, 1, 7):
        want = np.cov(a.astype(np.result_type(dtype, "f8")).T, ddof=ddof)
        for form in (f"gx_cov(?1, '{{\"ddof\":{ddof}}}')", f"gx_eval('cov(?1, {ddof})', ?1)"):
            assert close(call(db, form, a), want, dtype), form
    q(db, "SELECT gx_store('A', ?)", from_numpy(a))
    assert q(db, "SELECT gx_var('A', 0, 'V', '{\"ddof\":1,\"replace\":true}')") == "V"
    assert close(to_numpy(q(db, "SELECT gx_dense('V')")), np.var(a, 0, ddof=1, keepdims=True), dtype)


DDOF_ERRORS = [
    ("SELECT gx_var('[1,2]', '{\"ddof\":-1}')", "gx_var: ddof must be from 0 to 2^53, not -1"),
    ("SELECT gx_std('[1,2]', '{\"ddof\":\"one\"}')", 'gx_std: option "ddof" must be an integer'),
    ("SELECT gx_prod('[1,2]', '{\"ddof\":1}')", 'gx_prod: unknown option "ddof"'),
    ("SELECT gx_var('[1,2]', 0, 1)", "gx_var: takes at most 2 arguments before the destination, not 3"),
    ("SELECT gx_eval('var([1,2], ''some'', 1)')", "gx_eval: line 1, column 1: axis must be 0 (down the columns), 1 (along the rows) or 'all'"),
    ("SELECT gx_eval('cov([[1],[2]], 2)')", "gx_eval: line 1, column 1: the operand is 2x1, but ddof needs more rows"),
    ("SELECT gx_eval('cov([[1],[2]], -1)')", "gx_eval: line 1, column 1: ddof must not be negative, not -1"),
    ("SELECT gx_eval('var([1,2], 0, -2)')", "gx_eval: line 1, column 1: ddof must be from 0 to 2^53, not -2"),
]


@pytest.mark.parametrize("sql,text", DDOF_ERRORS)
def test_ddof_refused(db, sql, text):
    assert error(db, sql).startswith(text)


# 6 ------------------------------------------------------------------------------------------------

EMPTY = [(0, 3), (3, 0), (0, 0)]
OF_NONE = ["sum", "prod", "mean", "var", "std", "any", "all", "median", "min", "max", "argmin", "argmax"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", EMPTY)
def test_reductions_of_nothing(db, shape, dtype):
    """NumPy's number, NaN or empty array; what NumPy refuses is refused in words."""
    a = np.zeros(shape, dtype)
    for name in OF_NONE[:8 if a.dtype.kind == "f" else 7]:
        for axis in (None, 0, 1):
            more = "" if axis is None else f", {axis}"
            for form in (f"gx_{name}(?1{more})", f"gx_eval('{name}(?1{more})', ?1)"):
                want, got = getattr(np, name)(a, axis), call(db, form, a)
                got = np.nan if got is None else got  # SQL has no NaN
                assert np.array_equal(np.ravel(got), np.ravel(want).astype(complex), equal_nan=True), form
    for name in OF_NONE[8:] if a.dtype.kind == "f" else []:
        for axis in (None, 0, 1):
            more = "" if axis is None else f", {axis}"
            for form in (f"gx_{name}(?1{more})", f"gx_eval('{name}(?1{more})', ?1)"):
                try:
                    want = getattr(np, name)(a, axis)
                except ValueError:
                    want = None
                if want is None:
                    text = error(db, f"SELECT {form}", from_numpy(a))
                    assert "without elements" in text or "this is of at least one element" in text, text
                else:
                    assert call(db, form, a).size == 0, form


# What NumPy has of an empty matrix; a text: the words that refuse it, where NumPy refuses too or the shape is wrong.
OF_EMPTY = {
    "gx_matmul(?1, gx_transpose(?1))": lambda a: a @ a.T, "gx_matmul(gx_transpose(?1), ?1)": lambda a: a.T @ a,
    "gx_eval('?1 @ ?1.T', ?1)": lambda a: a @ a.T, "gx_syrk(?1)": lambda a: a @ a.T, "gx_pinv(?1)": lambda a: np.zeros(a.shape[::-1]),
    "gx_rank(?1)": lambda a: 0, "gx_norm(?1)": lambda a: 0, "gx_norm(?1, 'inf')": lambda a: 0, "gx_norm(?1, '2')": lambda a: 0,
    "gx_eval('svdvals(?1)', ?1)": lambda a: np.zeros((0, 1)), "gx_svd(?1)": lambda a: np.zeros((0, 1)),
    "gx_transpose(?1)": lambda a: a.T, "gx_cumsum(?1, 0)": lambda a: np.cumsum(a, 0), "gx_sort(?1, 1)": lambda a: np.sort(a, 1),
    "gx_argsort(?1, 0)": lambda a: np.argsort(a, 0), "gx_softmax(?1)": lambda a: a, "gx_diff(?1, 0)": lambda a: np.diff(a, axis=0),
    "gx_triu(?1)": np.triu, "gx_flip(?1)": np.flip, "gx_exp(?1)": np.exp, "gx_add(?1, ?1)": lambda a: a + a,
    "gx_kron(?1, '[[1,2]]')": lambda a: np.kron(a, [[1, 2]]), "gx_normalize(?1)": lambda a: a,
    "gx_cosine(?1, ?1)": lambda a: a @ a.T, "gx_distance(?1, ?1)": lambda a: a @ a.T, "gx_unique_count(?1)": lambda a: 0,
    "gx_hstack(?1, ?1)": lambda a: np.hstack([a, a]), "gx_vstack(?1, ?1)": lambda a: np.vstack([a, a]),
    "gx_cov(?1)": lambda a: a.T @ a if len(a) else "gx_cov: A has 0 rows: ddof 1 needs more",
    "gx_corr(?1)": lambda a: a.T @ a if len(a) else "gx_corr: A has 0 rows: ddof 1 needs more",
    "gx_eval('cov(?1)', ?1)": lambda a: a.T @ a if len(a) else "at least two rows",
    "gx_pca(?1)": lambda a: np.zeros((0, 2)) if len(a) else "gx_pca: A has 0 rows: ddof 1 needs more",
}
SQUARE = {"det": 1.0, "logdet": 0.0, "trace": 0.0, "inverse": None, "cholesky": None, "eigvals": (0, 1), "expm": None, "logm": None, "sqrtm": None}


@pytest.mark.parametrize("shape", EMPTY)
def test_other_functions_of_nothing(db, shape):
    a = np.zeros(shape)
    for form, right in OF_EMPTY.items():
        want = right(a)
        if isinstance(want, str):
            assert want in error(db, f"SELECT {form}", from_numpy(a)), form
        else:
            got = call(db, form, a)
            assert np.shape(got) == np.shape(want) and np.array_equal(got, want), form
    for name, want in SQUARE.items():
        for form in (f"gx_{name}(?1)", f"gx_eval('{name}(?1)', ?1)"):
            if shape[0] != shape[1]:
                assert "square" in error(db, f"SELECT {form}", from_numpy(a)), form
            else:
                got = call(db, form, a)
                assert got == want if isinstance(want, float) else got.shape == (want or shape), form


def test_quantiles_next_to_infinities(db):
    assert q(db, "SELECT gx_quantile('[\"-inf\",1,2,3,4]', 0.2)") == -np.inf
    assert q(db, "SELECT gx_quantile('[\"-inf\",1,2,3,4]', 0.25)") == 1
    assert q(db, "SELECT gx_quantile('[1,2,3,\"inf\"]', 0.9)") == np.inf
    assert q(db, "SELECT gx_quantile('[\"-inf\",\"-inf\",3]', 0.3)") == -np.inf
    assert q(db, "SELECT gx_quantile('[\"-inf\",\"inf\"]', 0.5)") is None  # NaN: nothing is half way
    assert q(db, "SELECT gx_quantile('[-1.5e308,1.5e308]', 0.5)") == 0
    assert q(db, "SELECT gx_median('[\"-inf\",1]')") == -np.inf
