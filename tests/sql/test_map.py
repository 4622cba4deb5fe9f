"""Elementwise functions against NumPy: gx_exp, gx_log, gx_sqrt.

Plan:
  1  every dtype: random, large, tiny and special elements (0, -0, Inf, NaN in either part); a column of f32 equals the
     rounded result in f64
  2  properties that the result keeps; stored in pieces, into a destination, over itself
  3  what a function is called with: no matrix, too many arguments, a destination that exists
"""
import warnings

import numpy as np
import pytest

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


# 2 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, keeps_zeros", [("exp", False), ("log", False), ("sqrt", True)])
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


# 3 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_refused(db, name):
    q(db, "SELECT gx_store('A', '[[1]]')")
    assert error(db, f"SELECT gx_{name}('nothing')").startswith(f"gx_{name}: ")
    assert "already exists" in error(db, f"SELECT gx_{name}('A', 'A')")
    assert "takes 1 to 3 arguments, not 0" in error(db, f"SELECT gx_{name}()")
