"""gx_histogram against NumPy's histogram.

Plan:
  1  Dtypes x shapes (0, 1, 2, 5, tile +- 1, tall, wide) x bins (1, 2, 3, 10, 1000), stored in small tiles and as values,
     with and without low and high; elements on the edges, and one rounding beside them.
  2  NaN and Inf with edges given; one value only; -0; the whole range of f64; edges that a rounding parts.
  3  Budgets, threads and many bins: the same counts, memory within its limit, each tile read once a pass.
  4  Arguments left out; refusals to the letter.
"""
import numpy as np
import pytest

from conftest import error, from_numpy, q

SHAPES = [(0, 0), (0, 3), (1, 1), (1, 5), (5, 1), (2, 2), (15, 17), (16, 16), (17, 15), (33, 50), (400, 3), (3, 400)]


def histogram(db, a, bins, **given):
    options = "{" + ",".join(f'"{key}":{value!r}' for key, value in given.items()) + "}"
    rows = db.execute("SELECT bin, low, high, count FROM gx_histogram(?, ?, ?)", (a, bins, options)).fetchall()
    number, low, high, count = (list(column) for column in zip(*rows))
    assert number == list(range(bins)) and low[1:] == high[:-1]
    return count, low + high[-1:]


def check(db, form, a, bins, **given):
    span = (given["low"], given["high"]) if given else None
    want, edges = np.histogram(a.astype("f8"), bins, span)
    count, got = histogram(db, form, bins, **given)
    assert got == edges.tolist(), (a.shape, bins)
    assert count == want.tolist(), (a.shape, bins)


# 1 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["<f8", "<f4"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_against_numpy(db, shape, dtype):
    q(db, "SELECT gx_config('tile_bytes', 2048)")
    rng = np.random.default_rng(sum(shape))
    for a in (rng.standard_normal(shape), rng.integers(0, 7, shape) / 10):
        a = a.astype(dtype)
        value = from_numpy(a)
        q(db, "SELECT gx_store('A', ?, '{\"replace\":true}')", value)
        for bins in (1, 2, 3, 10, 1000):
            for form in ("A", value):
                check(db, form, a, bins)
                check(db, form, a, bins, low=-0.3, high=0.6)


@pytest.mark.parametrize("bins", [3, 7, 10, 49, 1000])
def test_edges(db, bins):
    for low, high in ((0.0, 1.0), (-0.1, 0.7), (1e15, 1e15 + 1e6), (-1e-300, 1e-300), (1 / 3, 1e8)):
        edges = np.histogram_bin_edges([], bins, (low, high))
        a = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])
        check(db, from_numpy(a), a, bins, low=low, high=high)


# 2 ------------------------------------------------------------------------------------------------


def test_special(db):
    a = np.array([np.nan, 0.0, -0.0, np.inf, -np.inf, 0.5, 1.0, 2.0])
    for dtype in ("<f8", "<f4"):
        check(db, from_numpy(a.astype(dtype)), a, 4, low=0.0, high=1.0)
    check(db, from_numpy(np.full((4, 5), 3.0)), np.full((4, 5), 3.0), 4)
    check(db, from_numpy(np.ones(3)), np.ones(3), 2, low=1.0, high=1.0)
    most = np.finfo(float).max
    count, edges = histogram(db, from_numpy(np.array([-most, -1.0, 0.0, most])), 4)
    assert np.allclose(np.array(edges) / most, [-1, -0.5, 0, 0.5, 1]) and count == [1, 1, 1, 1]
    near = np.array([1.0, 1 + 2**-52, 1 + 2**-51, 1 + 3 * 2**-52, 1 + 2**-50])
    assert histogram(db, from_numpy(near), 4) == ([1, 1, 1, 2], near.tolist())


# 3 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("limit", ["600kB", "4MB", "40MB"])
def test_little_memory(filedb, limit, threads):
    filedb.execute("PRAGMA synchronous=off")
    q(filedb, "SELECT gx_config('tile_bytes', 16384)")
    q(filedb, "SELECT gx_config('threads', ?)", threads)
    a = np.random.default_rng(5).standard_normal((700, 500))
    q(filedb, "SELECT gx_store('A', ?)", from_numpy(a))
    q(filedb, "SELECT gx_config('memory_limit', ?)", limit)
    baseline = q(filedb, "SELECT value FROM gx_stats WHERE name = 'memory_used'")
    for bins in (1, 10, 5000):
        q(filedb, "SELECT gx_stats_reset()")
        check(filedb, "A", a, bins)
        seen = dict(filedb.execute("SELECT name, value FROM gx_stats"))
        assert seen["memory_peak"] <= seen["memory_limit"] and seen["memory_used"] == baseline
        assert 2 * a.nbytes <= seen["bytes_read"] <= 2.2 * a.nbytes
        q(filedb, "SELECT gx_stats_reset()")
        check(filedb, "A", a, bins, low=-1.0, high=2.0)
        assert q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_read'") <= 1.1 * a.nbytes


# 4 ------------------------------------------------------------------------------------------------


def test_arguments(db):
    assert q(db, "SELECT count(*) FROM gx_histogram('[1,2,3]')") == 10
    assert q(db, "SELECT max(high) FROM gx_histogram('[1,2,3]', '{\"high\":5}')") == 5
    assert db.execute("SELECT low, high, count FROM gx_histogram('[1,2,3]', 1, '{\"low\":2}')").fetchall() == [(2, 3, 2)]
    for sql, text in [
        ("'[1]', 0", "bins must be at least 1, not 0"),
        ("'[1]', -4", "bins must be at least 1, not -4"),
        ("'[1,2]', 9223372036854775807", "9223372036854775807 bins are too many"),
        ("'[1,2]', 1152921504606846976", "1152921504606846976 bins are too many"),
        ("'[1,\"1i\"]', 3", "A is complex (c128): complex numbers have no order"),
        ("'[1,\"inf\"]', 3", 'A has NaN or Inf: give "low" and "high"; what is not between them is not counted'),
        ("'[1,2]', 3, '{\"low\":3}'", "low is 3 but high is 2"),
        ("'[1,2]', 3, '{\"low\":\"nan\"}'", "low and high must be finite, not nan and 2"),
        ("'[1e22]', 3", "3 bins are too many from 1e+22 to 1e+22"),
        ("'[1,1.0000000000000002]', 3", "3 bins are too many from 1 to 1.0000000000000002"),
    ]:
        assert error(db, f"SELECT * FROM gx_histogram({sql})") == "gx_histogram: " + text
    q(db, "SELECT gx_config('tile_bytes', 4096)")
    q(db, "SELECT gx_config('memory_limit', '1MiB')")
    assert "memory_limit" in error(db, "SELECT * FROM gx_histogram('[1,2]', 1000000)")
