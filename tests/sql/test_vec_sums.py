"""gx_vec_sum and gx_vec_mean against NumPy.

Plan:
  1  vectors as literals, values of a row and of a column, raw f32, numbers; groups; no rows and NULL; no elements
  2  windows: every frame's sum to the bit what a sum of its own gives, after numbers that cancel
  3  refusals in words: lengths, NaN, infinity, a name, a table, overflow, raw elements without a dtype
"""
import numpy as np
import pytest

from conftest import error, from_numpy, q, to_numpy


@pytest.fixture
def table(db):
    rng = np.random.default_rng(4)
    x = rng.standard_normal((60, 5)) * 10.0 ** rng.integers(-8, 8, (60, 5))
    db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, g, v)")
    db.executemany("INSERT INTO t VALUES (?, ?, ?)", [(k, k % 3, from_numpy(row.reshape(1, -1))) for k, row in enumerate(x)])
    return x


def exact(rows):
    """Sums as math.fsum has them, rounded once."""
    import math

    return np.array([math.fsum(column) for column in np.asarray(rows).T])


def test_sums(db, table):
    got = db.execute("SELECT g, gx_vec_sum(v), gx_vec_mean(v) FROM t GROUP BY g").fetchall()
    for g, total, mean in got:
        assert np.array_equal(to_numpy(total), exact(table[g::3]).reshape(1, -1))
        assert np.array_equal(to_numpy(mean), (exact(table[g::3]) / 20).reshape(1, -1))
    assert len(got) == 3


@pytest.mark.parametrize("rows,options,want", [
    (["[1,2]", "[3,4.5]"], "", [4, 6.5]),
    ([from_numpy(np.array([1.0, 2.0])), "[3,4]", None], "", [4, 6]),
    ([np.array([1, 2], "<f4").tobytes(), np.array([3, 4], "<f4").tobytes()], ", '{\"dtype\":\"f32\"}'", [4, 6]),
    (["[1,2]", np.array([3, 4], "<f4").tobytes()], "", [4, 6]),
    ([2, 3.5], "", [5.5]),
    (["[]", "[]"], "", []),
    ([None], "", None),
    ([], "", None),
])
def test_kinds(db, rows, options, want):
    db.execute("CREATE TABLE k(v)")
    db.executemany("INSERT INTO k VALUES (?)", [(v,) for v in rows])
    got = q(db, f"SELECT gx_vec_sum(v{options}) FROM k")
    assert got is None if want is None else np.array_equal(to_numpy(got).ravel(), want)


def test_windows(db, table):
    wide = table.copy()
    wide[20] = 1e30  # what comes and goes leaves nothing behind
    db.execute("UPDATE t SET v = ? WHERE id = 20", (from_numpy(wide[20].reshape(1, -1)),))
    rows = db.execute("SELECT id, gx_vec_sum(v) OVER w FROM t WINDOW w AS (ORDER BY id ROWS 4 PRECEDING)").fetchall()
    for k, got in rows:
        if k not in range(20, 25):
            near = np.abs(to_numpy(got).ravel() - exact(wide[max(0, k - 4) : k + 1]))
            assert np.all(near <= (0 if k < 20 else 1e30 * 2.0**-100)), k
    empty = db.execute("SELECT gx_vec_mean(v) OVER (ORDER BY id ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING) FROM t ORDER BY id").fetchall()
    assert empty[-1][0] is None and empty[0][0] is not None


@pytest.mark.parametrize("rows,words", [
    (["[1,2]", "[1]"], "v has 1 elements, expected 2 (input row 2)"),
    ([from_numpy(np.array([1, np.nan]))], "element 1 of v is NaN (input row 1)"),
    ([from_numpy(np.array([-np.inf]))], "element 0 of v is infinite (input row 1)"),
    (["A"], "v must be a JSON list, a matrix value or raw elements, not 'A' (input row 1)"),
    (["[[1,2],[3,4]]"], "v is 2x2, not one row or column (input row 1)"),
    ([1.5e308, 1.5e308], "the sum of element 0 overflows"),
    ([b"\0" * 8], "v is a blob of 8 bytes without a header, which may be 2 f32 or 1 f64: option \"dtype\" says what they are (input row 1)"),
])
def test_refused(db, rows, words):
    db.execute("CREATE TABLE r(v)")
    db.executemany("INSERT INTO r VALUES (?)", [(v,) for v in rows])
    assert error(db, "SELECT gx_vec_sum(v) FROM r") == f"gx_vec_sum: {words}"
