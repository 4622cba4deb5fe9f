"""gx_from_function: matrices that a function of the application gives, rectangle by rectangle.

Plan:
1. every dtype and shape (0, 1, tile +-1), stored in small tiles and as a value; answers of another dtype;
2. each tile is asked for once, those of the uppermost rows first; nothing else is;
3. exact refusals: no such function, no matrix value, a wrong shape, complex answers for a real result, negative sizes;
4. a function that fails, is interrupted, stores by itself, changes the schema, or ends the transaction: the text arrives,
   nothing is left behind.
"""
import numpy as np
import pytest
from conftest import error, from_numpy, q, to_numpy

NAMES = {"f64": "<f8", "f32": "<f4", "c128": "<c16", "c64": "<c8"}


def serve(db, array, asked=None):
    def rectangle(i, j, rows, columns):
        if asked is not None:
            asked.append((i, j, rows, columns))
        return from_numpy(array[i:i + rows, j:j + columns])
    db.create_function("rectangle", 4, rectangle)


def numbers(shape, dtype):
    rng = np.random.default_rng(5)
    a = rng.standard_normal(shape)
    return (a + 1j * rng.standard_normal(shape) if dtype.startswith("c") else a).astype(NAMES[dtype])


@pytest.mark.parametrize("dtype", NAMES)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (7, 5), (8, 8), (33, 17), (64, 3)], ids=str)
def test_round_trip(db, shape, dtype):
    q(db, "SELECT gx_config('tile_bytes', ?)", 64 * np.dtype(NAMES[dtype]).itemsize)
    a = numbers(shape, dtype)
    serve(db, a)
    options = f'{{"dtype":"{dtype}"}}'
    assert q(db, "SELECT gx_from_function('rectangle', ?, ?, 'A', ?)", *shape, options) == "A"
    for sql in ("SELECT gx_copy('A')", f"SELECT gx_from_function('rectangle', {shape[0]}, {shape[1]}, '{options}')"):
        b = to_numpy(q(db, sql))
        assert b.dtype == a.dtype and np.array_equal(a, b)
    assert q(db, "SELECT gx_check()") == "ok"


def test_answers_of_another_dtype(db):
    a = numbers((40, 9), "f32")
    serve(db, a)
    q(db, "SELECT gx_config('tile_bytes', '512')")
    for dtype in NAMES:
        q(db, "SELECT gx_from_function('rectangle', 40, 9, 'A', ?)", f'{{"dtype":"{dtype}","replace":true}}')
        assert np.array_equal(to_numpy(q(db, "SELECT gx_copy('A')")), a.astype(NAMES[dtype]))
    serve(db, numbers((40, 9), "c64"))
    assert error(db, "SELECT gx_from_function('rectangle', 40, 9, 'B')") == \
        "gx_from_function: rectangle is complex (c64) and cannot become f64"
    assert q(db, "SELECT count(*) FROM gx") == 1


def test_order(db):
    q(db, "SELECT gx_config('tile_bytes', '512')")
    asked = []
    serve(db, numbers((20, 19), "f64"), asked)
    q(db, "SELECT gx_from_function('rectangle', 20, 19, 'A')")
    p, r = db.execute("SELECT tile_rows, tile_cols FROM gx").fetchone()
    assert asked == [(i, j, min(p, 20 - i), min(r, 19 - j)) for i in range(0, 20, p) for j in range(0, 19, r)]


def test_refusals(db):
    db.create_function("rectangle", 4, lambda i, j, m, n: {0: from_numpy(np.ones((2, 2))), 1: None, 2: b"gx"}[i])
    call = "SELECT gx_from_function('rectangle', ?, ?, 'A')"
    assert error(db, call, 2, 3) == "gx_from_function: rectangle(0, 0, 2, 3) gave 2x2"
    assert error(db, call, -2, 3) == "gx_from_function: m must not be negative, not -2"
    assert error(db, call, 2, -3) == "gx_from_function: n must not be negative, not -3"
    assert error(db, "SELECT gx_from_function('ab\"c', 1, 1)") == \
        'gx_from_function: function ab"c: no such function: ab"c'
    db.create_function("rectangle", 4, lambda *_: "[[1]]")
    assert error(db, call, 1, 1) == "gx_from_function: rectangle(0, 0, ...) gave no matrix value"
    db.create_function("rectangle", 4, lambda *_: b"gx")
    assert error(db, call, 1, 1) == \
        "gx_from_function: rectangle(0, 0, ...) gave a blob of 2 bytes that is no matrix value (no 'gxmv' in front)"
    assert q(db, "SELECT count(*) FROM gx") == 0


def test_a_function_that_fails_or_uses_gx(filedb):
    db = filedb
    q(db, "SELECT gx_config('tile_bytes', '512')")

    def fails(i, j, rows, columns):
        if i > 8:
            raise ValueError
        return from_numpy(np.ones((rows, columns)))

    db.create_function("rectangle", 4, fails)
    text = error(db, "SELECT gx_from_function('rectangle', 40, 3, 'A')")
    assert text == "gx_from_function: function rectangle: user-defined function raised exception"
    assert q(db, "SELECT count(*) FROM gx") == 0 and q(db, "SELECT gx_check()") == "ok"

    def interrupts(i, j, rows, columns):
        db.interrupt()
        return from_numpy(np.ones((rows, columns)))

    db.create_function("rectangle", 4, interrupts)
    assert "interrupted" in error(db, "SELECT gx_from_function('rectangle', 40, 3, 'A')")
    assert q(db, "SELECT count(*) FROM gx") == 0

    def stores(i, j, rows, columns):
        q(db, "SELECT gx_full(2, 2, ?, 'S', '{\"replace\":true}')", i)
        db.execute(f"CREATE TABLE IF NOT EXISTS t{i}_{j}(x)")
        return from_numpy(np.full((rows, columns), i))

    db.create_function("rectangle", 4, stores)
    assert q(db, "SELECT gx_from_function('rectangle', 40, 3, 'A')") == "A"
    tile_rows, = db.execute("SELECT tile_rows FROM gx WHERE name = 'A'").fetchone()
    assert np.array_equal(to_numpy(q(db, "SELECT gx_copy('A')"))[:, 0], np.arange(40) // tile_rows * tile_rows)
    assert q(db, "SELECT gx_sum('S')") > 0 and q(db, "SELECT gx_check()") == "ok"


@pytest.mark.parametrize("ends", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("within", [False, True], ids=["autocommit", "begin"])
@pytest.mark.parametrize("volumes", [0, 2])
def test_a_function_that_ends_the_transaction(filedb, ends, within, volumes):
    db = filedb
    q(db, "SELECT gx_config('tile_bytes', '512')")
    q(db, "SELECT gx_store('A', '[[7]]')")
    q(db, "SELECT gx_volumes(?)", volumes)
    calls = []

    def rectangle(i, j, rows, columns):
        calls.append(i)
        if len(calls) == 3:
            db.execute(ends)
        return from_numpy(np.ones((rows, columns)))

    db.create_function("rectangle", 4, rectangle)
    for at in (3, 1):  # in the middle, at the beginning
        calls[:] = [0] * (3 - at)
        if within:
            db.execute("BEGIN")
        said = error(db, "SELECT gx_from_function('rectangle', 64, 30, 'A', '{\"replace\":true}')")
        assert said == "gx_from_function: the transaction was ended while the call was storing"
        assert not db.in_transaction
        assert q(db, "SELECT gx_json('A')") == "[[7.0]]" and q(db, "SELECT gx_check()") == "ok"
        assert q(db, "SELECT count(*) FROM gx_meta") == 1
        assert q(db, "SELECT count(*) FROM gx_tile") == 1


@pytest.mark.parametrize("words", [["COMMIT"], ["COMMIT", "BEGIN"]], ids=len)
@pytest.mark.parametrize("at", [1, 5, 32], ids=str)
def test_a_commit_leaves_the_matrix_that_was_to_be_replaced(filedb, at, words):
    """Of the same shape, where a replaced matrix is otherwise written over: see decision 029."""
    db = filedb
    q(db, "PRAGMA secure_delete=ON")
    q(db, "SELECT gx_config('tile_bytes', '512')")
    old = np.arange(64 * 30.0).reshape(64, 30)
    q(db, "SELECT gx_store('A', ?)", from_numpy(old))
    calls = []

    def rectangle(i, j, rows, columns):
        calls.append(i)
        if len(calls) == at:
            for word in words:
                db.execute(word)
        return from_numpy(np.ones((rows, columns)))

    db.create_function("rectangle", 4, rectangle)
    said = error(db, "SELECT gx_from_function('rectangle', 64, 30, 'A', '{\"replace\":true}')")
    assert said == "gx_from_function: the transaction was ended while the call was storing"
    assert np.array_equal(to_numpy(q(db, "SELECT gx_copy('A')")), old)
    assert q(db, "SELECT count(*) FROM gx_meta") == 1 and q(db, "SELECT gx_check()") == "ok"
