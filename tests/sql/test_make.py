"""Matrices made by formula: gx_zeros, gx_ones, gx_full, gx_eye, gx_diag, gx_linspace, gx_arange, gx_random, gx_randn.

Plan
 1. Each against NumPy, as value and stored (tiles so small that every edge occurs), over the dtypes.
 2. Empty, single-row and single-column shapes.
 3. gx_diag of vectors and matrices in every form (literal, value, stored), offsets, complex.
 4. Random: the same matrix as value and stored whatever the tiles and threads; seeds; ranges; moments;
    f32 is f64 rounded; complex parts; the counter scheme of the documentation, computed here in Python.
 5. Properties of what was stored.
 6. Every argument wrong once: the exact text, and nothing stored.
"""
import itertools

import numpy as np
import pytest
from conftest import DTYPE_NAMES, error, from_numpy, gx_connect, q, to_numpy

NUMBERS = itertools.count()  # names of what both() stores
SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (1, 7), (7, 1), (5, 3), (31, 33), (100, 67)]
DTYPES = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}


def stored(db, name):
    """A stored matrix as an array, read as one value."""
    return to_numpy(q(db, "SELECT gx_scale(?, 1)", name))


@pytest.fixture
def tiny(db):
    """Tiles of 4 KiB: 22 x 22 elements of f64."""
    q(db, "SELECT gx_config('tile_bytes', '4096')")
    return db


def both(db, sql, *params):
    """The call as a value, and the same stored in tiny tiles: the two must agree to the bit."""
    name = f"S{next(NUMBERS)}"
    value = to_numpy(q(db, sql.replace("{dest}", "NULL"), *params))
    assert q(db, sql.replace("{dest}", f"'{name}'"), *params) == name
    again = stored(db, name)
    assert value.dtype == again.dtype and value.shape == again.shape
    assert value.tobytes() == again.tobytes()
    return value


# ---- 1, 2. against NumPy -------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_constants(tiny, shape, dtype):
    m, n = shape
    option = '{"dtype":"%s"}' % dtype
    for name, array in [("zeros", np.zeros(shape)), ("ones", np.ones(shape))]:
        got = both(tiny, f"SELECT gx_{name}(?, ?, {{dest}}, ?)", m, n, option)
        assert got.dtype == DTYPES[dtype]
        np.testing.assert_array_equal(got, array)
    value = 2.5 if dtype.startswith("f") else "2.5-3i"
    got = both(tiny, "SELECT gx_full(?, ?, ?, {dest}, ?)", m, n, value, option)
    np.testing.assert_array_equal(got, np.full(shape, 2.5 if dtype.startswith("f") else 2.5 - 3j))
    got = both(tiny, "SELECT gx_eye(?, ?, {dest}, ?)", m, n, option)
    np.testing.assert_array_equal(got, np.eye(m, n))


def test_full_takes_the_dtype_of_its_value(db):
    assert to_numpy(q(db, "SELECT gx_full(2, 3, 7)")).dtype == np.float64
    complex_ones = to_numpy(q(db, "SELECT gx_full(2, 3, '[1,1]')"))
    np.testing.assert_array_equal(complex_ones, np.full((2, 3), 1 + 1j))
    assert np.isposinf(to_numpy(q(db, "SELECT gx_full(1, 1, 9e999)"))[0, 0])
    assert np.isnan(to_numpy(q(db, "SELECT gx_full(1, 1, 'nan')"))[0, 0])


def test_eye(tiny):
    np.testing.assert_array_equal(to_numpy(q(tiny, "SELECT gx_eye(4)")), np.eye(4))
    assert q(tiny, "SELECT gx_eye(40, 'I')") == "I"
    np.testing.assert_array_equal(stored(tiny, "I"), np.eye(40))
    assert q(tiny, "SELECT gx_eye(40, 50, 'J')") == "J"
    np.testing.assert_array_equal(stored(tiny, "J"), np.eye(40, 50))
    assert q(tiny, "SELECT gx_eye(30, NULL, 'K')") == "K"
    np.testing.assert_array_equal(stored(tiny, "K"), np.eye(30))
    for k in (-45, -3, 0, 1, 44, 100):
        got = both(tiny, "SELECT gx_eye(45, 50, {dest}, '{\"k\":%d}')" % k)
        np.testing.assert_array_equal(got, np.eye(45, 50, k))


def test_linspace(tiny):
    for a, b, n in [(0, 1, 11), (-3, 5, 2), (2, 2, 5), (5, -5, 101), (0.1, 0.7, 1000), (3, 4, 1), (3, 4, 0)]:
        got = both(tiny, "SELECT gx_linspace(?, ?, ?, {dest})", a, b, n)
        assert got.shape == (n, 1)
        np.testing.assert_allclose(got[:, 0], np.linspace(a, b, n), rtol=1e-15, atol=1e-16)
        if n > 1:
            assert got[-1, 0] == b and got[0, 0] == a


def test_arange(tiny):
    for args in [(0, 5), (0, 10, 3), (5, 0, -1), (0, 1, 0.125), (3, 3), (3, 1), (-2, 1000, 1)]:
        marks = ", ".join("?" * len(args))
        got = both(tiny, f"SELECT gx_arange({marks}, {{dest}})", *args)
        np.testing.assert_array_equal(got[:, 0], np.arange(*args, dtype=float))


def test_results_nest(db):
    assert q(db, "SELECT gx_trace(gx_matmul(gx_eye(5), gx_full(5, 5, 2)))") == 10
    q(db, "SELECT gx_ones(3, 3, 'A')")
    assert error(db, "SELECT gx_zeros(3, 3, 'A')") == \
        "gx_zeros: matrix 'A' already exists (use '{\"replace\":true}')"
    assert q(db, "SELECT gx_zeros(2, 2, 'A', '{\"replace\":true}')") == "A"
    assert q(db, "SELECT gx_sum('A')") == 0


# ---- 3. diagonals --------------------------------------------------------------------------------

@pytest.mark.parametrize("k", [0, 1, -1, 5, -7])
def test_diag_of_a_vector(tiny, k):
    rng = np.random.default_rng(3)
    for array in [rng.random(50), rng.random(50).astype(np.float32), rng.random(30) + 1j * rng.random(30),
                  np.array([2.0]), np.zeros(0)]:
        expected = np.diag(array, k)
        for form in (array.reshape(-1, 1), array.reshape(1, -1)):
            got = both(tiny, "SELECT gx_diag(?, {dest}, '{\"k\":%d}')" % k, from_numpy(form))
            assert got.dtype == expected.dtype
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("k", [0, 1, -1, 25, -25, 60, -60, 1000, -1000])
def test_diag_of_a_matrix(tiny, k):
    rng = np.random.default_rng(4)
    array = rng.random((60, 50))
    db = tiny
    db.execute("INSERT INTO gx(name, value) VALUES ('A', ?)", [from_numpy(array)])
    for form in (from_numpy(array), "A"):
        got = both(db, "SELECT gx_diag(?, {dest}, '{\"k\":%d}')" % k, form)
        np.testing.assert_array_equal(got, np.diag(array, k).reshape(-1, 1))


def test_diag_of_literals(db):
    assert q(db, "SELECT gx_json(gx_diag('[1,2]'))") == "[[1.0,0.0],[0.0,2.0]]"
    assert q(db, "SELECT gx_json(gx_diag('[[1,2],[3,4]]'))") == "[[1.0],[4.0]]"
    assert to_numpy(q(db, "SELECT gx_diag('[[1,2],[3,4]]', '{\"dtype\":\"f32\"}')")).dtype == np.float32
    got = to_numpy(q(db, "SELECT gx_diag(gx_full(3, 1, '1i'), '{\"dtype\":\"c64\"}')"))
    np.testing.assert_array_equal(got, np.diag([1j] * 3))


# ---- 4. random -----------------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["random", "randn"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_random_does_not_depend_on_tiles(tmp_path, name, dtype):
    results = set()
    for tile_bytes, threads in [("4096", 1), ("10000", 2), ("8MiB", 2)]:
        db = gx_connect(str(tmp_path / f"{tile_bytes}.db"))
        q(db, "SELECT gx_config('tile_bytes', ?)", tile_bytes)
        q(db, "SELECT gx_config('threads', ?)", str(threads))
        sql = 'SELECT gx_%s(131, 67, {dest}, \'{"seed":5,"dtype":"%s"}\')' % (name, dtype)
        results.add(q(db, sql.replace("{dest}", "NULL")))
        q(db, sql.replace("{dest}", "'R'"))
        results.add(from_numpy(stored(db, "R")))
        db.close()
    assert len(results) == 1


def test_random_ranges_and_seeds(db):
    first = to_numpy(q(db, "SELECT gx_random(300, 200)"))
    np.testing.assert_array_equal(first, to_numpy(q(db, "SELECT gx_random(300, 200, '{\"seed\":0}')")))
    # a larger matrix of the same seed begins with the smaller one
    np.testing.assert_array_equal(first[:20, :30], to_numpy(q(db, "SELECT gx_random(20, 30)")))
    assert (first >= 0).all() and (first < 1).all() and len(np.unique(first)) == first.size
    other = to_numpy(q(db, "SELECT gx_random(300, 200, '{\"seed\":-1}')"))
    assert (first != other).all() and abs(np.corrcoef(first.ravel(), other.ravel())[0, 1]) < 0.02
    scaled = to_numpy(q(db, "SELECT gx_random(300, 200, '{\"low\":-2,\"high\":6}')"))
    np.testing.assert_allclose(scaled, first * 8 - 2, rtol=0, atol=1e-15)
    assert abs(scaled.mean() - 2) < 0.05 and abs(scaled.std() - 8 / 12 ** 0.5) < 0.05
    single = to_numpy(q(db, "SELECT gx_random(300, 200, '{\"dtype\":\"f32\"}')"))
    np.testing.assert_array_equal(single, np.minimum(first.astype(np.float32), np.nextafter(np.float32(1), 0)))


def test_randn_moments(db):
    from scipy import stats
    first = to_numpy(q(db, "SELECT gx_randn(400, 250, '{\"seed\":77}')"))
    assert stats.kstest(first.ravel(), "norm").pvalue > 1e-3
    scaled = to_numpy(q(db, "SELECT gx_randn(400, 250, '{\"seed\":77,\"mean\":10,\"std\":0.5}')"))
    np.testing.assert_allclose(scaled, first * 0.5 + 10, rtol=1e-15)
    both_parts = to_numpy(q(db, "SELECT gx_randn(400, 250, '{\"seed\":77,\"dtype\":\"c128\"}')"))
    assert stats.kstest(both_parts.real.ravel(), "norm").pvalue > 1e-3
    assert stats.kstest(both_parts.imag.ravel(), "norm").pvalue > 1e-3
    assert abs(np.corrcoef(both_parts.real.ravel(), both_parts.imag.ravel())[0, 1]) < 0.02
    uniform = to_numpy(q(db, "SELECT gx_random(400, 250, '{\"seed\":77}')"))
    assert abs(np.corrcoef(uniform.ravel(), first.ravel())[0, 1]) < 0.02


def philox(x0, x1, key):
    mask = (1 << 64) - 1
    for _ in range(10):
        p = x0 * 0xD2B74407B1CE6E93
        x0, x1 = (p >> 64) ^ key ^ x1, p & mask
        key = (key + 0x9E3779B97F4A7C15) & mask
    return x0, x1


def test_the_documented_scheme(db):
    """As docs/reference/making.md says: any program can make the same matrices."""
    from scipy.special import ndtri
    seed = 12345
    uniform = to_numpy(q(db, "SELECT gx_random(9, 4, ?)", '{"seed":%d}' % seed))
    normal = to_numpy(q(db, "SELECT gx_randn(9, 4, ?)", '{"seed":%d}' % seed))
    both_parts = to_numpy(q(db, "SELECT gx_random(9, 4, ?)", '{"seed":%d,"dtype":"c128"}' % seed))
    for i in range(9):
        for j in range(4):
            assert uniform[i, j] == (philox(i // 2, j, seed)[i % 2] >> 11) / 2 ** 53
            word = philox(i // 2 + 2 ** 63, j, seed)[i % 2]
            assert normal[i, j] == pytest.approx(ndtri(((word >> 12) + 0.5) / 2 ** 52), rel=1e-14)
            words = philox(i, j + 2 ** 63, seed)
            assert both_parts[i, j] == complex(words[0] >> 11, words[1] >> 11) / 2 ** 53


# ---- 5. properties -------------------------------------------------------------------------------

@pytest.mark.parametrize("call, expected", [
    ("gx_zeros(3, 3, 'P')", {"symmetric", "hermitian", "lower", "upper"}),
    ("gx_zeros(3, 4, 'P')", {"lower", "upper"}),
    ("gx_ones(3, 3, 'P')", {"symmetric", "hermitian"}),
    ("gx_ones(3, 4, 'P')", set()),
    ("gx_full(3, 3, '1i', 'P')", {"symmetric"}),
    ("gx_eye(3, 'P')", {"symmetric", "hermitian", "positive", "lower", "upper", "unit", "orthogonal"}),
    ("gx_eye(4, 3, 'P')", {"lower", "upper", "unit", "orthogonal"}),
    ("gx_eye(3, 4, 'P')", {"lower", "upper", "unit"}),
    ("gx_eye(3, 3, 'P', '{\"k\":1}')", {"upper"}),
    ("gx_diag('[1,2,3]', 'P')", {"symmetric", "hermitian", "lower", "upper"}),
    ("gx_diag('[1,\"2i\",3]', 'P')", {"symmetric", "lower", "upper"}),
    ("gx_diag('[1,2,3]', 'P', '{\"k\":-1}')", {"lower"}),
    ("gx_diag('[[1,2],[3,4]]', 'P')", set()),
    ("gx_random(3, 3, 'P')", set()),
])
def test_properties(db, call, expected):
    assert q(db, f"SELECT {call}") == "P"
    found = q(db, "SELECT properties FROM gx WHERE name = 'P'")
    assert set((found or "").replace(",", " ").split()) == expected


# ---- 6. refused ----------------------------------------------------------------------------------

@pytest.mark.parametrize("call, text", [
    ("gx_zeros(-1, 3, 'X')", "gx_zeros: m must not be negative, not -1"),
    ("gx_ones(1, -3, 'X')", "gx_ones: n must not be negative, not -3"),
    ("gx_zeros(1.5, 3, 'X')", "gx_zeros: m must be an integer, not 1.5"),
    ("gx_zeros(NULL, 3, 'X')", "gx_zeros: m must be an integer, not NULL"),
    ("gx_zeros('a', 3, 'X')", "gx_zeros: m must be an integer, not 'a'"),
    ("gx_zeros(1)", "gx_zeros: takes 2 to 4 arguments, not 1: gx_zeros(m, n[, destination][, options])"),
    ("gx_zeros(1, '{}')", "gx_zeros: n is missing"),
    ("gx_zeros(1, 2, 'X', 'Y')", "gx_zeros: options must be a JSON object '{...}', not 'Y'"),
    ("gx_zeros(1, 2, 3)", "gx_zeros: destination must be a text, not 3"),
    ("gx_zeros(1, 2, '[X]')", None),
    ("gx_zeros(1, 2, 'X', '{\"dtype\":\"i4\"}')",
     f'gx_zeros: option "dtype" must be one of {DTYPE_NAMES}, not "i4"'),
    ("gx_zeros(1, 2, 'X', '{\"seed\":1}')",
     'gx_zeros: unknown option "seed": the known ones are "dtype", "saturate" and "replace"'),
    ("gx_full(1, 2)", "gx_full: takes 3 to 5 arguments, not 2: gx_full(m, n, value[, destination][, options])"),
    ("gx_full(1, 2, 'x')", "gx_full: value must be a number, '[re,im]' or '1+2i', not 'x'"),
    ("gx_full(1, 2, '1i', '{\"dtype\":\"f32\"}')", "gx_full: value is complex but dtype is f32"),
    ("gx_eye(-1)", "gx_eye: n must not be negative, not -1"),
    ("gx_eye(1, -1)", "gx_eye: m must not be negative, not -1"),
    ("gx_eye(1, 'X', 'Y')", "gx_eye: takes at most 2 arguments before the options, not 3"),
    ("gx_diag('[[1,\"2i\"]]', '{\"dtype\":\"f64\"}')", "gx_diag: A is complex but dtype is f64"),
    ("gx_diag('nobody')", "gx_diag: no matrix named 'nobody'"),
    ("gx_diag(NULL)", "gx_diag: A is NULL"),
    ("gx_linspace(0, 9e999, 3)", "gx_linspace: b must be finite, not inf"),
    ("gx_linspace(-1e308, 1e308, 3)", "gx_linspace: the range from -1e+308 to 1e+308 overflows"),
    ("gx_linspace(0, 1, -3)", "gx_linspace: n must not be negative, not -3"),
    ("gx_arange(0, 1, 0)", "gx_arange: step must not be 0"),
    ("gx_arange(0, 1, 1e-300)", "gx_arange: from 0 to 1 in steps of 1e-300 are too many elements"),
    ("gx_random(2, 2, 'X', '{\"low\":2}')", "gx_random: low is 2 but high is 1"),
    ("gx_random(2, 2, 'X', '{\"mean\":2}')",
     'gx_random: unknown option "mean": the known ones are "seed", "low", "high", "density", "dtype", "saturate" and "replace"'),
    ("gx_random(2, 2, 'X', '{\"seed\":1.5}')", 'gx_random: option "seed" must be an integer, not 1.5'),
    ("gx_randn(2, 2, 'X', '{\"std\":-1}')", "gx_randn: std is -1 but must not be negative"),
    ("gx_zeros(9000000000000000000, 9000000000000000000)", None),
    ("gx_zeros(9000000000000000000, 9000000000000000000, 'X')", None),
    ("gx_zeros(100000, 100000)",
     "gx_zeros: a result of 100000x100000 f64 takes 80000000032 bytes, past SQLite's length limit of "
     "1000000000: give a destination name to store it"),
])
def test_refused(db, call, text):
    q(db, "SELECT gx_ones(2, 2, 'before')")
    found = error(db, f"SELECT {call}")
    assert found.startswith("gx_") and "\n" not in found
    if text is not None:
        assert found == text
    assert db.execute("SELECT name FROM gx").fetchall() == [("before",)]
    assert not db.in_transaction
