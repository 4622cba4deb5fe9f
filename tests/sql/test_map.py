"""Elementwise functions against NumPy and SciPy, all of those in core/base/map.h.

Plan:
  1  exp, log, sqrt of every dtype: random, large, tiny and special elements (0, -0, Inf, NaN in either part); a column
     of f32 equals the rounded result in f64; how many units in the last place f64 is from the truth, the special points
  2  all others, real: the same elements; signs of zeros; complex, where they have a meaning, and the words where not;
     dtypes of results; f32 of any bits to the bit what doubles rounded once are, where one operation makes it; f32 of the
     others within 0.51 units of the last place, f64 within 4 to 8
  3  two and three operands spread; shapes that do not fit
  4  properties that the result keeps; stored in pieces, into a destination, over itself
  5  what a function is called with: no matrix, too many arguments, a destination that exists
"""
import os
import platform
import re
import warnings

import numpy as np
import pytest
from scipy import special

from conftest import error, from_numpy, q, to_numpy

NUMPY = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}
FUNCTIONS = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 1e-300, -1e-300, 700.0, 710.0, -745.0, 1e300]


def elements(rng, dtype):
    """A matrix of everything that may come."""
    x = np.concatenate([SPECIAL, rng.standard_normal(500), rng.standard_normal(200) * 1e-3, 50 * rng.standard_normal(200)])
    if dtype.startswith("c"):
        re, im = np.meshgrid(SPECIAL, SPECIAL)
        y = np.concatenate([np.zeros(len(SPECIAL)), rng.standard_normal(900) * 3])
        pairs = np.empty(re.size + x.size, complex)
        pairs.real = np.concatenate([re.ravel(), x])
        pairs.imag = np.concatenate([im.ravel(), y])
        x = pairs
    with np.errstate(all="ignore"):
        return x.astype(NUMPY[dtype]).reshape(2, -1)


def same(got, want, dtype, ulps):
    """Equal up to ulps of the modulus; NaN and Inf in the same places, of the same sign where it is said."""
    eps = np.finfo(NUMPY[dtype]).eps
    tiny = np.finfo(NUMPY[dtype]).smallest_subnormal
    for part in ("real", "imag"):
        g, w = getattr(got, part).astype(np.float64), getattr(want, part).astype(np.float64)
        with np.errstate(all="ignore"):
            size = np.abs(want).astype(np.float64)
            size = np.where(np.isfinite(size), size, np.abs(w))
            near = np.abs(g - w) <= ulps * (eps * size + tiny)
        assert np.all(near | (g == w) | (np.isnan(g) & np.isnan(w)))


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("dtype", list(NUMPY))
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_against_numpy(db, name, dtype, backend):
    a = elements(np.random.default_rng(11), dtype)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = FUNCTIONS[name](a.astype(np.complex128 if dtype.startswith("c") else np.float64)).astype(NUMPY[dtype])
    q(db, "SELECT gx_config('backend', ?)", backend)
    got = to_numpy(q(db, f"SELECT gx_{name}(?)", from_numpy(a)))
    assert got.dtype == NUMPY[dtype]
    same(got, want, dtype, 4 if dtype.startswith("c") else 2)


LONG = {"exp": np.exp, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "tanh": np.tanh, "log": np.log,
        "log1p": np.log1p, "log2": np.log2, "log10": np.log10, "expm1": np.expm1, "acos": np.arccos, "atan": np.arctan,
        "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "cbrt": np.cbrt}
ONE_ULP = {"exp", "sin", "cos", "tan", "asin"}  # by kernels/cpu_elementary.c where that is; others are libmvec's


def dense(name):
    """Points of every part of a function's range, multiples of pi / 2 and their neighbours among them."""
    rng = np.random.default_rng(12)
    small = 10.0 ** rng.uniform(-18, 0, 20000) * rng.choice([-1, 1], 20000)
    turns = np.concatenate([np.arange(-300, 300), rng.integers(-650000, 650000, 2000)]) * (np.pi / 2)
    turns = np.concatenate([turns, np.nextafter(turns, 1e9), turns + 2.0**-12, turns * (1 + 1e-7)])
    if name in ("asin", "acos"):
        return np.concatenate([rng.uniform(-1, 1, 40000), small, 1 - np.abs(small), [-1, -0.5, 0.5, np.nextafter(0.5, 0)]])
    if name.startswith("log") or name == "cbrt":
        return np.abs(np.concatenate([rng.uniform(0.4, 2.5, 40000), small, 10.0 ** rng.uniform(-300, 300, 20000)]))
    wide = 700 if name in ("exp", "expm1", "sinh", "cosh") else 1e5
    return np.concatenate([rng.uniform(-8, 8, 40000), rng.uniform(-wide, wide, 20000), small, turns[np.abs(turns) < 1e6 if wide == 1e5 else np.abs(turns) < 700]])


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 2e-19, reason="no long double to measure with")
@pytest.mark.parametrize("name", LONG)
def test_units_in_the_last_place(db, name):
    """How far f64 results are from the truth: less than one unit where the vectors are ours, less than three where libmvec's."""
    x = dense(name)
    got = to_numpy(q(db, f"SELECT gx_{name}(?)", from_numpy(x))).ravel()
    truth = LONG[name](x.astype(np.longdouble))
    far = np.abs(got - truth) / np.spacing(np.abs(truth).astype(np.float64)).astype(np.longdouble)
    is_own = name in ONE_ULP and platform.machine() == "x86_64"
    assert far.max() < (1 if is_own else 3), (x[far.argmax()], float(far.max()))


def test_special_points(db):
    """Where functions end, jump or vanish, the processor's vectors are libm's; lanes beside hard angles too."""
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 2.3e-308, 1e300, -1e22, 709.78, 709.79, -708.5, -744.6, -745.14,
                  1.0, -1.0, np.nextafter(1, 2), 2.0**20, -2.0**20, 2.0**20 - 0.1, np.pi, np.pi / 2, -np.pi, 1e5 * np.pi, 0.5, -0.5] * 3)
    x = np.concatenate([x, np.repeat([0.1, np.pi, 3e9], 16), np.tile([0.1, np.pi, np.inf], 16)])
    with np.errstate(all="ignore"):
        for name in ONE_ULP:
            got, want = to_numpy(q(db, f"SELECT gx_{name}(?)", from_numpy(x))).ravel(), LONG[name](x.astype(np.longdouble)).astype(float)
            same_number = (got == want) | (np.isnan(got) & np.isnan(want)) | (np.abs(got - want) <= np.spacing(np.abs(want)))
            assert same_number.all(), (name, x[~same_number])
            assert np.array_equal(np.signbit(got[got == 0]), np.signbit(want[got == 0])), name


# 2 ------------------------------------------------------------------------------------------------

ROWS = re.findall(
    r"MAP\((\w+), +(\w+), +(\d), (\d), ([^,]+?), +(ANY|TO_REAL|REAL_ONLY),",
    open(os.path.join(os.path.dirname(__file__), "../../core/base/map.h"), encoding="utf-8").read(),
)
KINDS = {name: (int(operands), dtypes) for _, name, operands, numbers, _, dtypes in ROWS if numbers == "0"}


def gelu(x):
    return np.where(x < -40, -0.0, 0.5 * x * special.erfc(-x * np.sqrt(0.5)))


def nan_of_nan(function):
    """SciPy's gammainc(nan, 0) is 0."""
    return lambda *x: np.where(np.any([np.isnan(v) for v in x], axis=0), np.nan, function(*x))


def clip(x, low, high):
    return np.minimum(np.maximum(x, low), high)


def angle(x):
    return np.arctan2(x.imag, x.real) if np.iscomplexobj(x) else np.where(np.isnan(x), x, np.arctan2(0.0, x))


def sign(x):
    size = np.abs(x)
    return np.where(size == 0, 0, x / np.where(size == 0, 1, size)) if np.iscomplexobj(x) else np.sign(x)


ORACLES = {
    "mul": np.multiply, "div": np.divide, "add": np.add, "arg": angle, "pow": np.power, "asin": np.arcsin,
    "acos": np.arccos, "asinh": np.arcsinh, "atan": np.arctan, "atan2": np.arctan2, "round": np.rint, "erf": special.erf,
    "erfc": special.erfc, "gamma": special.gamma, "lgamma": special.gammaln, "where": lambda m, a, b: np.where(m != 0, a, b),
    "relu": lambda x: np.where(np.isnan(x) | (x > 0), x, 0.0), "sigmoid": special.expit, "gelu": gelu, "clip": clip,
    "softplus": lambda x: np.logaddexp(0, x), "sign": sign, "conj": np.conj, "ndtr": special.ndtr, "ndtri": special.ndtri,
    "gammainc": nan_of_nan(special.gammainc), "gammaincc": nan_of_nan(special.gammaincc), "betainc": nan_of_nan(special.betainc),
}
# In units in the last place: what NumPy's and SciPy's own functions are from the truth (erfc far out).
LOOSE = {"gamma": 64, "lgamma": 64, "sigmoid": 16, "softplus": 16, "erfc": 1024, "gelu": 1024, "tan": 16, "ndtr": 1024, "ndtri": 16, "gammainc": 1e5, "gammaincc": 1e5, "betainc": 1e5}
# NumPy and C differ at the ends of these, or lose digits there.
COMPLEX_PLAIN = {"pow", "expm1", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "div",
                 "reciprocal", "mul", "square", "sign", "arg", "log2", "log10"}


def oracle(name):
    return ORACLES.get(name) or getattr(np, name)


def operands(rng, name, dtype, count):
    if dtype.startswith("c"):
        x = [(rng.standard_normal((40, 5)) + 1j * rng.standard_normal((40, 5))).astype(NUMPY[dtype]) for _ in range(count)]
        return x if name in COMPLEX_PLAIN else [elements(rng, dtype) for _ in range(count)]
    x = elements(rng, dtype).ravel()
    if name in ("gamma", "lgamma"):
        x = np.where((x < 0) & (x == np.floor(x)) | (np.abs(x) > 100) | (x == 0), 1.5, x)  # poles: SciPy's words differ
    if name == "gammaincc":
        x = np.where(x == 710, 690, x)  # SciPy has 0 below 2e-308
    return [np.roll(x, 7 * k + k * k).reshape(2, -1) for k in range(count)]


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("dtype", list(NUMPY))
@pytest.mark.parametrize("name", sorted(set(KINDS) - set(FUNCTIONS)))
def test_all_against_numpy(db, name, dtype, backend):
    count, dtypes = KINDS[name]
    is_complex = dtype.startswith("c")
    a = operands(np.random.default_rng(5), name, dtype, count)
    call = f"SELECT gx_{name}({', '.join('?' * count)})"
    q(db, "SELECT gx_config('backend', ?)", backend)
    if is_complex and dtypes == "REAL_ONLY":
        assert error(db, call, *map(from_numpy, a)) == f"gx_{name}: {name} is of real numbers, not of {dtype}"
        return
    wide = [x.astype(np.complex128 if is_complex else np.float64) for x in a]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = np.asarray(oracle(name)(*wide))
    is_real = dtypes == "TO_REAL" or not is_complex
    result = NUMPY[dtype if not is_complex or not is_real else {"c128": "f64", "c64": "f32"}[dtype]]
    got = to_numpy(q(db, call, *map(from_numpy, a)))
    assert got.dtype == result
    if not is_complex and result == np.float64:
        zeros = (got == 0) & (want == 0) & ~np.isin(name, ["maximum", "minimum", "clip", "gelu"])
        assert np.array_equal(np.signbit(got[zeros]), np.signbit(np.asarray(want, np.float64)[zeros]))
    with np.errstate(all="ignore"):
        same(got, want.astype(result), "f64" if result == np.float64 else "f32" if result == np.float32 else dtype,
             LOOSE.get(name, 4) * (8 if is_complex else 1))


def direction(z):
    """z / |z|, and of an infinite part its direction, as NumPy 2 has it."""
    with np.errstate(all="ignore"):
        far, high = np.isinf(z.real), np.isinf(z.imag)
        out = np.where(z == 0, 0, z / np.hypot(z.real, z.imag).clip(np.finfo(float).tiny))
        out[far & ~high] = np.sign(z.real[far & ~high])
        out[high & ~far] = 1j * np.sign(z.imag[high & ~far])
        out[(far & high) | np.isnan(z.real) | np.isnan(z.imag)] = complex(np.nan, np.nan)
    return out


# Where C differs from NumPy at infinities, on purpose (the pages say so): quotients; e^z - 1 as cexp; products in powers.
AS_C = {"div", "reciprocal", "expm1", "log1p", "pow"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("name,dtype", [
    (name, dtype) for name, (count, dtypes) in sorted(KINDS.items()) for dtype in NUMPY
    if count < 3 and name not in ("gamma", "lgamma") and not (dtype.startswith("c") and (dtypes == "REAL_ONLY" or name in AS_C))])
def test_special_elements(db, name, dtype, backend):
    """0, -0, Inf, -Inf, NaN in each part and each operand: NumPy's numbers, infinities and NaN, zeros of either sign."""
    count, _ = KINDS[name]
    is_complex = dtype.startswith("c")
    parts = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.0, np.inf, -np.inf, np.nan])
    x = parts
    if is_complex:
        x = np.empty(81, complex)
        x.real, x.imag = np.repeat(parts, 9), np.tile(parts, 9)
    a = [m.astype(NUMPY[dtype]) for m in (np.meshgrid(x, x) if count == 2 else [x.reshape(1, -1)])]
    q(db, "SELECT gx_config('backend', ?)", backend)
    got = to_numpy(q(db, f"SELECT gx_{name}({', '.join('?' * count)})", *map(from_numpy, a)))
    wide = [m.astype(complex if is_complex else float) for m in a]
    want = np.asarray((direction if name == "sign" and is_complex else oracle(name))(*wide))
    for part in ("real", "imag"):
        g, w = getattr(got, part).astype(float), getattr(want, part).astype(float)
        near = (g == w) | (np.isnan(g) & np.isnan(w)) | (np.abs(g - w) <= 1e-6 * np.abs(w) + 1e-15)
        assert near.all(), (part, [m[~near][:3] for m in a], g[~near][:3], w[~near][:3])


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_complex_powers_of_zero(db, backend):
    q(db, "SELECT gx_config('backend', ?)", backend)
    zero, powers = np.zeros((1, 1), complex), np.array([[-1, -2, -0.5, 0, 1, 2, 0.5, -1 + 1j]])
    got = to_numpy(q(db, "SELECT gx_pow(?, ?)", from_numpy(zero), from_numpy(powers)))
    with np.errstate(all="ignore"):
        assert np.array_equal(got, np.power(zero, powers), equal_nan=True)
    one = np.array([[complex(np.inf, 0), complex(0, -np.inf), 3 - 4j, complex(-np.inf, 2)]])
    got = to_numpy(q(db, "SELECT gx_pow(?, ?)", from_numpy(one), from_numpy(np.ones((1, 1), complex))))
    assert np.array_equal(got, one)


def test_directions(db):
    """Of a number that hypot() overflows for, or has few digits for."""
    z = np.array([[complex(1.7e308, 1.7e308), complex(5e-324, 5e-324), complex(3e-320, -4e-320), complex(1e-310, 0), complex(-1e308, 0)]])
    want = np.array([[(1 + 1j) / 2**0.5, (1 + 1j) / 2**0.5, 0.6 - 0.8j, 1, -1]])
    assert np.allclose(to_numpy(q(db, "SELECT gx_sign(?)", from_numpy(z))), want, rtol=1e-3)


ROUNDED_ONCE = {
    "?1 + ?2": np.add, "?1 - ?2": np.subtract, "?1 * ?2": np.multiply, "?1 / ?2": np.divide, "?1 * 0.375": lambda a, b: a * 0.375,
    "?1 * 0.1": lambda a, b: a * np.float32(0.1),  # a plain number takes the precision of what it meets
    "sqrt(?1)": lambda a, b: np.sqrt(a), "square(?1)": lambda a, b: a * a, "reciprocal(?1)": lambda a, b: 1 / a,
    "abs(?1)": lambda a, b: np.abs(a), "maximum(?1, ?2)": np.maximum, "minimum(?1, ?2)": np.minimum,
    "relu(?1)": lambda a, b: np.where(a <= 0, 0, a), "where(?1 < ?2, ?1, ?2)": lambda a, b: np.where(a < b, a, b),
    "where(?1 >= ?2, ?1, ?2)": lambda a, b: np.where(a >= b, a, b),
}


@pytest.mark.parametrize("text", ROUNDED_ONCE)
def test_f32_is_rounded_once(db, text):
    """Operands of random bits, so of every size, quotients and sums that are subnormal too; and near each other."""
    rng = np.random.default_rng(3)
    a, b = (rng.integers(0, 2**32, (500, 80), dtype=np.uint32).view(np.float32) for _ in range(2))
    near = rng.random((500, 40), dtype=np.float32)
    a[:, :40], b[:, :40] = near, near * rng.random((500, 40), dtype=np.float32)
    a[:, 40:50], b[:, 40:50] = a[:, :10] * np.float32(2.0**-120), b[:, :10] * np.float32(2.0**20)
    with np.errstate(all="ignore"):
        want = ROUNDED_ONCE[text](a.astype(float), b.astype(float)).astype(np.float32)
    got = to_numpy(q(db, "SELECT gx_eval(?, ?, ?)", text if "?2" in text else f"x = ?2; {text}", from_numpy(a), from_numpy(b)))
    assert got.dtype == np.float32
    same = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
    assert same.all(), (a[~same][:3], b[~same][:3], got[~same][:3], want[~same][:3])


@pytest.mark.parametrize("alpha", [0.1, 0.375, -3.0, 1e300])
def test_f32_scaled(db, alpha):
    """By a double, which no float may stand for."""
    a = np.random.default_rng(5).standard_normal((70, 30)).astype(np.float32)
    with np.errstate(over="ignore"):
        assert np.array_equal(to_numpy(q(db, "SELECT gx_scale(?, ?)", from_numpy(a), alpha)), (a.astype(float) * alpha).astype(np.float32))


PLACES = {"exp": 4, "expm1": 4, "tanh": 8, "erf": 5, "log1p": 4, "sin": 4}  # of f64: libmvec's 4, what tanh makes of them, SciPy's own


@pytest.mark.parametrize("name", PLACES)
def test_last_places(db, name):
    """In units of the last place of the result: f64 as told, f32 0.51, since it is a double that is rounded."""
    rng = np.random.default_rng(4)
    exact = {"erf": special.erf}.get(name) or getattr(np, name)
    x = np.concatenate([rng.standard_normal(4000) * scale for scale in (1e-6, 0.01, 0.3, 1, 3)]).reshape(200, 100)
    x = np.abs(x) if name == "log1p" else x
    for dtype, places in ((np.float64, PLACES[name]), (np.float32, 0.51)):
        a = x.astype(dtype)
        got = to_numpy(q(db, "SELECT gx_eval(?, ?)", f"{name}(?1)", from_numpy(a)))
        want = exact(a.astype(np.longdouble) if name != "erf" else a.astype(float))
        ulp = np.spacing(np.abs(want).astype(dtype)).astype(np.longdouble)
        assert got.dtype == dtype and np.max(np.abs(got.astype(np.longdouble) - want) / ulp) <= places


# 3 ------------------------------------------------------------------------------------------------


def test_spread(db):
    rng = np.random.default_rng(9)
    full, row, column, one = rng.standard_normal((5, 4)), rng.standard_normal((1, 4)), rng.standard_normal((5, 1)), np.array([[0.25]])
    q(db, "SELECT gx_store('full', ?)", from_numpy(full))
    for b in (full, row, column, one):
        got = to_numpy(q(db, "SELECT gx_maximum('full', ?)", from_numpy(b)))
        assert np.array_equal(got, np.maximum(full, b))
        for c in (full, row, column, one):
            got = to_numpy(q(db, "SELECT gx_where(gx_less(?, 'full'), ?, ?)", *map(from_numpy, (b, b, c))))
            assert np.array_equal(got, np.where(b < full, b, c))
    assert np.array_equal(to_numpy(q(db, "SELECT gx_clip(?, ?, ?)", *map(from_numpy, (row, column - 1, column + 1)))),
                          np.clip(row, column - 1, column + 1))
    assert error(db, "SELECT gx_where('full', '[[1,2,3]]', 1)") == "gx_where: full is 5x4 but A is 1x3"
    assert error(db, "SELECT gx_where('full', 1, '[[1,2,3]]')") == "gx_where: full is 5x4 but B is 1x3"
    assert error(db, "SELECT gx_where('[[1,2,3]]', 'full', 1)") == "gx_where: mask is 1x3 but full is 5x4"
    assert error(db, "SELECT gx_clip('full', 1, '[[1,2,3]]')") == "gx_clip: full is 5x4 but most is 1x3"
    assert error(db, "SELECT gx_less('full', '[[1],[2]]')") == "gx_less: full is 5x4 but B is 2x1"


@pytest.mark.parametrize("limit", [None, "1MB"])
def test_masks_only_say_which(filedb, limit):
    """The dtype is that of what they choose from, and what is tiny there, or imaginary, is not 0."""
    db, rng = filedb, np.random.default_rng(11)
    masks = {"f32": (rng.random((300, 200)) < 0.5).astype(np.float32)}
    masks["f64"] = masks["f32"].astype(float) * 1e-300
    masks["c128"] = masks["f64"] * 1j
    if limit is not None:  # the mask's ones are spilled
        db.execute("SELECT gx_config('tile_bytes', '16kB'), gx_config('memory_limit', ?)", (limit,)).fetchall()
    for name, mask in masks.items():
        q(db, "SELECT gx_store(?, ?)", name, from_numpy(mask))
    for dtype in (np.float32, np.float64, np.complex64):
        a, b = (rng.standard_normal((300, 200)).astype(dtype) for _ in "ab")
        q(db, "SELECT gx_store('A', ?, '{\"replace\":true}')", from_numpy(a))
        q(db, "SELECT gx_store('B', ?, '{\"replace\":true}')", from_numpy(b))
        for name, mask in masks.items():
            want = np.where(mask, a, b)
            by_eval = [f"gx_eval('C := where({name}, A, B)')"] if limit is None else []
            for sql in [f"gx_where('{name}', 'A', 'B', 'C')", *by_eval]:
                q(db, "SELECT " + sql)
                got = to_numpy(q(db, "SELECT gx_slice('C', 0, 300, 0, 200)"))
                assert got.dtype == want.dtype and np.array_equal(got, want), (dtype, name, sql)
                q(db, "SELECT gx_drop('C')")
    for sql in ("gx_where(?, ?, 2)", "gx_eval('where(?1, ?2, 2)', ?, ?)"):  # numbers, of the other's dtype and of none
        got = to_numpy(q(db, "SELECT " + sql, from_numpy(masks["c128"][:1]), from_numpy(a[:1].real)))
        assert np.array_equal(got, np.where(masks["c128"][:1], a[:1].real, 2))
    assert to_numpy(q(db, "SELECT gx_eval('where(?1, 1, 0)', ?)", from_numpy(masks["c128"][:1]))).dtype == np.float64


def test_squares(db):
    """A power of 2 is a product: NumPy's to the bit, as ** in a program; of what spreads, too."""
    a = elements(np.random.default_rng(3), "f64")
    for x in (a, a[:1, 5:6], a[:, 2:5] * 1j + 2):
        with np.errstate(all="ignore"):
            want = x * x
        for two in (2, 2.0, from_numpy(np.array([[2.0]]))):
            got = to_numpy(q(db, "SELECT gx_pow(?, ?)", from_numpy(x), two))
            assert got.dtype == want.dtype and (np.array_equal(got, want, equal_nan=True) or np.iscomplexobj(x))
    spread = to_numpy(q(db, "SELECT gx_pow(2, '[[2,2]]')"))
    assert np.array_equal(spread, [[4, 4]]) and to_numpy(q(db, "SELECT gx_pow(gx_cast('[[3]]', 'f32'), 2)")) == 9


# 4 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, keeps_zeros", [("exp", False), ("log", False), ("sqrt", True), ("tanh", True), ("cos", False)])
def test_properties(db, name, keeps_zeros):
    db.execute("SELECT gx_store('S', '[[2,1],[1,3]]'), gx_store('L', '[[2,0],[1,3]]')")
    db.execute("SELECT gx_set_property('S', 'symmetric'), gx_set_property('L', 'lower')")
    db.execute(f"SELECT gx_{name}('S', 'C'), gx_{name}('L', 'D')")
    rows = dict(db.execute("SELECT name, properties FROM gx WHERE name IN ('C', 'D')"))
    assert rows["C"] == "symmetric,hermitian"
    assert (rows["D"] or "") == ("lower" if keeps_zeros else "")


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_stored(db, name):
    a = np.random.default_rng(3).uniform(0.1, 2, (700, 300))
    q(db, "SELECT gx_store('A', ?)", from_numpy(a))
    assert q(db, f"SELECT gx_{name}('A', 'B')") == "B"
    assert np.allclose(to_numpy(q(db, "SELECT gx_slice('B', 0, 700, 0, 300)")), FUNCTIONS[name](a), rtol=1e-15)
    q(db, f"SELECT gx_{name}('A', 'A', '{{\"replace\":true}}')")
    assert q(db, "SELECT gx_norm(gx_sub('A', 'B'))") == 0
    assert to_numpy(q(db, f"SELECT gx_{name}(gx_zeros(0, 3))")).shape == (0, 3)


# 5 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_refused(db, name):
    q(db, "SELECT gx_store('A', '[[1]]')")
    assert error(db, f"SELECT gx_{name}('nothing')").startswith(f"gx_{name}: ")
    assert "already exists" in error(db, f"SELECT gx_{name}('A', 'A')")
    assert "takes 1 to 3 arguments, not 0" in error(db, f"SELECT gx_{name}()")
