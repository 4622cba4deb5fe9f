"""Matrices from rows of a query: gx_from_cells, gx_store_cells, gx_from_rows, gx_store_rows.

Plan
 1. Cells against NumPy: shapes, shuffles, dtypes, imaginary parts, missing cells, given shapes, empty input.
 2. The same stored under many tile sizes and memory limits, from everything in memory to dozens of spilled runs that
    have to be merged: equal to the bit, memory kept, nothing left behind.
 3. Duplicates: error, sum (the same bits whatever the memory limit), last.
 4. Rows: JSON, matrix values, raw bytes of NumPy in every dtype; ascending, shuffled, with gaps; the same limits.
    Gaps: refused with the first one named, zero, NaN; rows numbered in the order of their ids, and the list of these.
 5. GROUP BY, two aggregates in one statement, round trip through gx_cells, temp and attached databases.
 6. Refused: every wrong argument, the exact text, and the database as it was.
 7. Transactions and failures: ROLLBACK, INSERT ... SELECT, a statement that fails half-way, interrupts.
"""
import itertools
import json
import random
import sqlite3
import threading

import numpy as np
import pytest
from conftest import SIZES, error, from_numpy, gx_path, q, to_numpy

DTYPES = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}
SEED = 20240229  # of all random data here


def stored(db, name):
    q(db, "SELECT gx_config('memory_limit', '1GiB')")
    return to_numpy(q(db, "SELECT gx_copy(?)", name))


def fill(db, table, rows):
    """A table of rows in exactly this order."""
    rows = list(rows)
    columns = ", ".join("abcdef"[:len(rows[0]) if rows else 3])
    db.execute(f"CREATE TABLE {table}({columns})")
    db.execute("BEGIN")
    db.executemany(f"INSERT INTO {table} VALUES({', '.join('?' * len(columns.split(', ')))})", rows)
    db.execute("COMMIT")


def cells_of(array, density=1.0, rng=None, shuffle=True):
    """(i, j, value[, imag]) of an array's elements, some left out; returns the cells and the array that they make."""
    rng = rng or random.Random(SEED)
    cells, made = [], np.zeros_like(array)
    for i, j in itertools.product(*map(range, array.shape)):
        if rng.random() < density:
            x = array[i, j]
            cells.append((i, j, float(x.real), float(x.imag)) if np.iscomplexobj(array) else (i, j, float(x)))
            made[i, j] = x
    if shuffle:
        rng.shuffle(cells)
    return cells, made


def counter(db, name):
    return q(db, "SELECT value FROM gx_stats WHERE name = ?", name)


def limits(db, tile_bytes, memory_limit):
    q(db, "SELECT gx_config('memory_limit', '1GiB')")
    q(db, "SELECT gx_config('tile_bytes', ?)", str(tile_bytes))
    q(db, "SELECT gx_config('memory_limit', ?)", str(memory_limit))


# ---- 1. cells ------------------------------------------------------------------------------------

@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (7, 5), (70, 130), (129, 64)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_from_cells(db, shape, dtype):
    rng = np.random.default_rng(SEED)
    array = rng.standard_normal(shape)
    if dtype.startswith("c"):
        array = array + 1j * rng.standard_normal(shape)
    cells, made = cells_of(array, 0.7)
    cells += [] if any(c[:2] == (shape[0] - 1, shape[1] - 1) for c in cells) else [(shape[0] - 1, shape[1] - 1, 0, 0)
                                                                                  [:len(cells[0]) if cells else 3]]
    fill(db, "t", cells)
    columns = "a, b, c, d" if dtype.startswith("c") else "a, b, c"
    got = to_numpy(q(db, f"SELECT gx_from_cells({columns}, ?) FROM t", '{"dtype":"%s"}' % dtype))
    assert got.dtype == DTYPES[dtype]
    np.testing.assert_array_equal(got, made.astype(DTYPES[dtype]))
    assert q(db, f"SELECT gx_store_cells('A', {columns}, ?) FROM t", '{"dtype":"%s"}' % dtype) == "A"
    assert stored(db, "A").tobytes() == got.tobytes() and q(db, "SELECT gx_check('A')") == "ok"


def test_shapes(db):
    values = "FROM (SELECT 1 AS i, 2 AS j, 5 AS v)"
    assert to_numpy(q(db, f"SELECT gx_from_cells(i, j, v) {values}")).tolist() == [[0, 0, 0], [0, 0, 5]]
    assert to_numpy(q(db, f"SELECT gx_from_cells(i, j, v, '{{\"rows\":3}}') {values}")).shape == (3, 3)
    assert to_numpy(q(db, f"SELECT gx_from_cells(i, j, v, '{{\"cols\":4}}') {values}")).shape == (2, 4)
    assert q(db, f"SELECT gx_store_cells('A', i, j, v, '{{\"cols\":4,\"rows\":200}}') {values}") == "A"
    expected = np.zeros((200, 4))
    expected[1, 2] = 5
    np.testing.assert_array_equal(stored(db, "A"), expected)


def test_no_rows(db):
    nothing = "FROM (SELECT 1 WHERE 0)"
    assert to_numpy(q(db, f"SELECT gx_from_cells(1, 2, 3) {nothing}")).shape == (0, 0)
    assert to_numpy(q(db, f"SELECT gx_from_rows(1, '[1]') {nothing}")).shape == (0, 0)
    assert q(db, f"SELECT gx_store_cells('A', 1, 2, 3) {nothing}") is None
    assert q(db, f"SELECT gx_store_rows('A', 1, '[1]') {nothing}") is None
    assert q(db, "SELECT gx_exists('A')") == 0


def test_kinds_of_numbers(db):
    """Integral reals as indexes, integers and infinities as values, NULL as an imaginary part."""
    fill(db, "t", [(0.0, 1.0, 7, None), (1, 0, 2 ** 53, 1), (2, 0, float("inf"), -0.5)])
    got = to_numpy(q(db, "SELECT gx_from_cells(a, b, c, d) FROM t"))
    np.testing.assert_array_equal(got, [[0, 7], [2 ** 53 + 1j, 0], [complex(float("inf"), -0.5), 0]])
    got = to_numpy(q(db, "SELECT gx_from_cells(a, b, c, NULL) FROM t"))
    assert got.dtype == np.complex128 and (got.imag == 0).all()
    assert to_numpy(q(db, "SELECT gx_from_cells(a, b, c, d, NULL) FROM t")).shape == (3, 2)


# ---- 2. memory -----------------------------------------------------------------------------------

LIMITS = [(8 << 20, 1 << 30), (32 << 10, 1 << 30), (32 << 10, 160 << 10), (4096, 80 << 10), (40000, 200 << 10)]


@pytest.mark.parametrize("shape, density", [((200, 300), 1.0), ((1000, 17), 0.8), ((7, 5000), 0.5), ((900, 700), 0.03)])
@pytest.mark.parametrize("order", ["shuffled", "by row", "by column"])
def test_store_cells_within_limits(filedb, shape, density, order):
    db = filedb
    rng = np.random.default_rng(SEED)
    if density < 0.1:  # a sparse one
        count = int(shape[0] * shape[1] * density)
        places = rng.choice(shape[0] * shape[1], count, replace=False)
        cells = [(int(p // shape[1]), int(p % shape[1]), float(x)) for p, x in zip(places, rng.random(count))]
        made = np.zeros(shape)
        for i, j, x in cells:
            made[i, j] = x
    else:
        cells, made = cells_of(rng.standard_normal(shape), density)
    if order != "shuffled":
        cells.sort(key=lambda c: c[:2] if order == "by row" else (c[1], c[0]))
    fill(db, "t", cells)
    options = '{"rows":%d,"cols":%d,"replace":true}' % shape
    for tile_bytes, memory_limit in LIMITS:
        limits(db, tile_bytes, memory_limit)
        q(db, "SELECT gx_stats_reset()")
        before = counter(db, "memory_used")
        assert q(db, "SELECT gx_store_cells('A', a, b, c, ?) FROM t", options) == "A"
        assert counter(db, "memory_used") == before
        assert counter(db, "memory_peak") <= memory_limit
        if memory_limit < len(cells) * 16:
            assert counter(db, "spills") > 1
        np.testing.assert_array_equal(stored(db, "A"), made)
        assert q(db, "SELECT gx_check('A')") == "ok"


def test_many_runs_are_merged(db):
    """Tiles of one element column and hundreds of runs: far more cursors than memory has."""
    n, m = 40000, 4
    cells = [(i, j, i + j / 8) for i in range(n) for j in range(m)]
    random.Random(SEED).shuffle(cells)
    fill(db, "t", cells)
    limits(db, 4096, 80 << 10)
    q(db, "SELECT gx_stats_reset()")
    assert q(db, "SELECT gx_store_cells('A', a, b, c) FROM t") == "A"
    assert counter(db, "memory_peak") <= 80 << 10 and counter(db, "spills") > 100
    np.testing.assert_array_equal(stored(db, "A"), np.add.outer(np.arange(n), np.arange(m) / 8))


def test_value_larger_than_what_is_left(db):
    """A value of three quarters of the limit: what was collected must make room for it."""
    cells, made = cells_of(np.random.default_rng(SEED).random((200, 300)))
    fill(db, "t", cells)
    limits(db, 4096, 640 << 10)
    assert to_numpy(q(db, "SELECT gx_from_cells(a, b, c) FROM t")).tobytes() == made.tobytes()
    limits(db, 4096, 400 << 10)
    assert "memory_limit" in error(db, "SELECT gx_from_cells(a, b, c) FROM t")
    assert counter(db, "memory_used") == counter(db, "memory_used")


# ---- 3. duplicates -------------------------------------------------------------------------------

def test_duplicates(db):
    rng = random.Random(SEED)
    cells = [(rng.randrange(60), rng.randrange(50), rng.uniform(-1, 1)) for _ in range(30000)] + [(59, 49, 1.0)]
    fill(db, "t", cells)
    last, total = np.zeros((60, 50)), np.zeros((60, 50))
    for i, j, x in cells:
        last[i, j] = x
        total[i, j] += x
    for tile_bytes, memory_limit in LIMITS:
        for option, expected in (("last", last), ("sum", total)):
            limits(db, tile_bytes, memory_limit)
            text = '{"duplicates":"%s","replace":true,"dtype":"f64"}' % option
            assert q(db, "SELECT gx_store_cells('A', a, b, c, ?) FROM t", text) == "A"
            assert stored(db, "A").tobytes() == expected.tobytes(), (option, tile_bytes, memory_limit)
        limits(db, tile_bytes, memory_limit)
        text = error(db, "SELECT gx_store_cells('B', a, b, c) FROM t")
        assert text.startswith("gx_store_cells: cell (") and \
            text.endswith(') comes twice (option "duplicates" may be "sum" or "last")')
        assert q(db, "SELECT count(*) FROM gx") == 1
    single = to_numpy(q(db, "SELECT gx_from_cells(a, b, c, '{\"duplicates\":\"last\",\"dtype\":\"f32\"}') FROM t"))
    np.testing.assert_array_equal(single, last.astype(np.float32))


def test_scipy_coo_with_sum(db):
    import scipy.sparse as sp
    rng = np.random.default_rng(SEED)
    i, j, x = rng.integers(0, 9, 500), rng.integers(0, 11, 500), rng.integers(-9, 9, 500).astype(float)
    fill(db, "t", zip(i.tolist(), j.tolist(), x.tolist()))
    got = to_numpy(q(db, "SELECT gx_from_cells(a, b, c, '{\"duplicates\":\"sum\"}') FROM t"))
    np.testing.assert_array_equal(got, sp.coo_matrix((x, (i, j))).toarray())
    text = '{"duplicates":"sum","dtype":"c64"}'
    got = to_numpy(q(db, "SELECT gx_from_cells(a, b, c, -c, ?) FROM t", text))
    np.testing.assert_array_equal(got, sp.coo_matrix((x * (1 - 1j), (i, j))).toarray())


# ---- 4. rows -------------------------------------------------------------------------------------

def row_forms(row, dtype):
    """One row as JSON, as matrix values, and as raw bytes."""
    if np.iscomplexobj(row):
        yield json.dumps([f"{x.real!r}{x.imag:+}i" if isinstance(x.imag, float) else x for x in row.tolist()])
    else:
        yield json.dumps(row.tolist())
    yield from_numpy(row.reshape(1, -1))
    yield from_numpy(row.reshape(-1, 1))
    yield row.astype(dtype).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_forms_of_rows(db, dtype):
    rng = np.random.default_rng(SEED)
    array = (rng.integers(-99, 99, (40, 9)) / 4 + (1j * rng.integers(-99, 99, (40, 9)) / 4
                                                   if dtype.startswith("c") else 0)).astype(DTYPES[dtype])
    for form in range(4):
        name = f"R{form}"
        fill(db, name, [(i, list(row_forms(array[i], DTYPES[dtype]))[form]) for i in range(40)])
        got = to_numpy(q(db, f"SELECT gx_from_rows(a, b, ?) FROM {name}", '{"dtype":"%s"}' % dtype))
        assert got.tobytes() == array.tobytes() and got.dtype == DTYPES[dtype]
        assert q(db, f"SELECT gx_store_rows('S' || ?, a, b, ?) FROM {name}", form, '{"dtype":"%s"}' % dtype)
        assert stored(db, f"S{form}").tobytes() == array.tobytes()
    # the forms may be mixed
    fill(db, "mixed", [(i, list(row_forms(array[i], DTYPES[dtype]))[i % 4]) for i in range(40)])
    got = to_numpy(q(db, "SELECT gx_from_rows(a, b, ?) FROM mixed", '{"dtype":"%s"}' % dtype))
    assert got.tobytes() == array.tobytes()


@pytest.mark.parametrize("shape", [(500, 64), (3000, 7), (40, 3000), (20000, 1), (300, 130)])
@pytest.mark.parametrize("order", ["ascending", "shuffled", "gaps"])
def test_store_rows_within_limits(filedb, shape, order):
    db = filedb
    rng = np.random.default_rng(SEED)
    array = rng.standard_normal(shape)
    indexes = list(range(shape[0]))
    if order != "ascending":
        random.Random(SEED).shuffle(indexes)
    if order == "gaps":
        missing, indexes = indexes[:shape[0] // 3], indexes[shape[0] // 3:]
        array[missing] = 0
    fill(db, "t", [(i, array[i].tobytes()) for i in indexes])
    for tile_bytes, memory_limit in LIMITS:
        if shape[1] * 8 * 4 > memory_limit:
            continue
        limits(db, tile_bytes, memory_limit)
        q(db, "SELECT gx_stats_reset()")
        before = counter(db, "memory_used")
        options = '{"rows":%d,"replace":true,"dtype":"f64","gaps":"zero"}' % shape[0]
        assert q(db, "SELECT gx_store_rows('A', a, b, ?) FROM t", options) == "A"
        assert counter(db, "memory_used") == before
        assert counter(db, "memory_peak") <= memory_limit
        if memory_limit < array.nbytes:
            assert counter(db, "spills") > 0
        np.testing.assert_array_equal(stored(db, "A"), array)
        assert q(db, "SELECT gx_check('A')") == "ok"


def test_duplicate_rows(db):
    rng = np.random.default_rng(SEED)
    indexes, rows = rng.integers(0, 30, 2000).tolist() + [29], rng.standard_normal((2001, 20))
    fill(db, "t", [(i, r.tobytes()) for i, r in zip(indexes, rows)])
    last, total = np.zeros((30, 20)), np.zeros((30, 20))
    for i, r in zip(indexes, rows):
        last[i] = r
        total[i] += r
    for tile_bytes, memory_limit in LIMITS:
        for option, expected in (("last", last), ("sum", total)):
            limits(db, tile_bytes, memory_limit)
            text = '{"duplicates":"%s","replace":true,"dtype":"f64"}' % option
            assert q(db, "SELECT gx_store_rows('A', a, b, ?) FROM t", text) == "A"
            assert stored(db, "A").tobytes() == expected.tobytes()
        limits(db, tile_bytes, memory_limit)
        text = error(db, "SELECT gx_store_rows('B', a, b, '{\"dtype\":\"f64\"}') FROM t")
        assert text.startswith("gx_store_rows: row ") and \
            text.endswith(' comes twice (option "duplicates" may be "sum" or "last")')


def test_empty_rows_and_scalars(db):
    zero = '{"gaps":"zero"}'
    assert to_numpy(q(db, "SELECT gx_from_rows(i, '[]', ?) FROM (SELECT 2 AS i)", zero)).shape == (3, 0)
    assert to_numpy(q(db, "SELECT gx_from_rows(i, x'', ?) FROM (SELECT 2 AS i)", zero)).shape == (3, 0)
    assert to_numpy(q(db, "SELECT gx_from_rows(i, 7, ?) FROM (SELECT 1 AS i)", zero)).tolist() == [[0], [7]]
    assert q(db, "SELECT gx_store_rows('E', i, '[]', ?) FROM (SELECT 2 AS i)", zero) == "E"
    assert stored(db, "E").shape == (3, 0)


def test_gaps_are_refused(db):
    """Rows that never came would be neighbours of whatever is near 0."""
    ways = ' (option "gaps" may be "zero" or "nan"; "number":true numbers the rows that came)'
    for indexes, options, missing, of in (([1, 2], "", 0, 3), ([2, 0], "", 1, 3), ([0, 1], '"rows":4', 2, 4), ([400000000, 0], "", 1, 400000001),
                                          ([0, 2, 2], '"duplicates":"sum"', 1, 3), ([1, 1, 1], '"duplicates":"last"', 0, 2)):
        db.execute("DROP TABLE IF EXISTS t")
        fill(db, "t", [(i, f"[{i}, 1]") for i in indexes])
        for call in ("gx_from_rows(a, b, ?)", "gx_store_rows('A', a, b, ?)"):
            assert error(db, f"SELECT {call} FROM t", "{%s}" % options) == (
                f"{call[:call.index('(')]}: row {missing} is missing: {len(set(indexes))} of {of} rows came{ways}")
    assert q(db, "SELECT count(*) FROM gx") == 0 and q(db, "PRAGMA page_count") < 20
    assert error(db, "SELECT gx_from_rows(0, 1, '{\"gaps\":\"none\"}')") == (
        'gx_from_rows: option "gaps" must be one of error, zero, nan, not "none" (input row 1)')


@pytest.mark.parametrize("dtype", DTYPES)
def test_gaps_that_are_filled(db, dtype):
    fill(db, "t", [(3, "[1, 2]"), (1, "[3, 4]")])
    for word, gap in (("zero", 0), ("nan", np.nan)):
        for more, rows in (("", 4), (',"rows":6', 6)):
            want = np.full((rows, 2), gap, DTYPES[dtype])
            want[3], want[1] = [1, 2], [3, 4]
            options = '{"dtype":"%s","gaps":"%s","replace":true%s}' % (dtype, word, more)
            q(db, "SELECT gx_store_rows('A', a, b, ?) FROM t", options)
            np.testing.assert_array_equal(stored(db, "A"), want)
            assert q(db, "SELECT gx_from_rows(a, b, ?) FROM t", options.replace(',"replace":true', "")) == from_numpy(want)


@pytest.mark.parametrize("shape", [(500, 64), (3000, 7), (20000, 1)])
@pytest.mark.parametrize("gaps", ["error", "nan"])
def test_gaps_within_limits(filedb, shape, gaps):
    """A row that is missing is found among spilled runs, and NaN goes where none came, whatever the duplicates are."""
    db, rng = filedb, np.random.default_rng(SEED)
    array, indexes = rng.standard_normal(shape), list(range(shape[0]))
    random.Random(SEED).shuffle(indexes)
    gone = sorted(indexes[:3])
    fill(db, "t", [(i, array[i].tobytes()) for i in indexes[3:] + indexes[-50:]])
    array[gone] = np.nan
    for tile_bytes, memory_limit in LIMITS:
        if shape[1] * 8 * 4 > memory_limit:
            continue
        limits(db, tile_bytes, memory_limit)
        options = '{"rows":%d,"replace":true,"dtype":"f64","duplicates":"last","gaps":"%s"}' % (shape[0], gaps)
        if gaps == "error":
            assert error(db, "SELECT gx_store_rows('A', a, b, ?) FROM t", options).startswith(
                f"gx_store_rows: row {gone[0]} is missing: {shape[0] - 3} of {shape[0]} rows came (")
            assert q(db, "SELECT count(*) FROM gx") == 0
        else:
            q(db, "SELECT gx_store_rows('A', a, b, ?) FROM t", options)
            np.testing.assert_array_equal(stored(db, "A"), array)


def test_numbered_rows(db):
    """Rows 0, 1, ... in the order of i, which may be any integer, and the list of them to join on."""
    fill(db, "t", [(400000000000, "[1, 0]"), (-7, "[0, 1]"), (12, "[3, 4]")])
    options = '{"number":true,"ids":"E_id"}'
    assert q(db, "SELECT gx_store_rows('E', a, b, ?) FROM t", options) == "E"
    assert stored(db, "E").tolist() == [[0, 1], [3, 4], [1, 0]]
    assert stored(db, "E_id").tolist() == [[-7], [12], [400000000000]]
    assert q(db, "SELECT gx_from_rows(a, b, '{\"number\":true}') FROM t") == from_numpy(stored(db, "E"))
    found = db.execute("SELECT a, rank FROM gx_knn('[2,0]', 'E', 3) k JOIN gx_cells('E_id') AS m ON m.i = k.id JOIN t ON a = m.value")
    assert found.fetchall() == [(400000000000, 0), (12, 1), (-7, 2)]
    assert stored(db, "E").tolist() == [[0, 1], [3, 4], [1, 0]]
    # duplicates, gaps and the shape mean what they mean elsewhere
    assert error(db, "SELECT gx_from_rows(a, b, '{\"number\":true}') FROM (SELECT * FROM t UNION ALL SELECT 12, '[1,1]')") == (
        'gx_from_rows: row 12 comes twice (option "duplicates" may be "sum" or "last")')
    twice = "(SELECT * FROM t UNION ALL SELECT 12, '[1,1]')"
    assert to_numpy(q(db, f"SELECT gx_from_rows(a, b, '{{\"number\":true,\"duplicates\":\"sum\"}}') FROM {twice}")).tolist() == [[0, 1], [4, 5], [1, 0]]
    assert error(db, "SELECT gx_from_rows(a, b, '{\"number\":true,\"rows\":4}') FROM t") == (
        'gx_from_rows: row 3 is missing: 3 of 4 rows came (option "gaps" may be "zero" or "nan")')
    assert error(db, "SELECT gx_from_rows(a, b, '{\"number\":true,\"rows\":2}') FROM t") == "gx_from_rows: 3 rows came for a matrix of 2"
    four = to_numpy(q(db, "SELECT gx_from_rows(a, b, '{\"number\":true,\"rows\":4,\"gaps\":\"nan\"}') FROM t"))
    np.testing.assert_array_equal(four, [[0, 1], [3, 4], [1, 0], [np.nan, np.nan]])


def test_lists_of_ids_that_are_refused(db):
    fill(db, "t", [(5, "[1]"), (1 << 53, "[2]")])
    assert q(db, "SELECT gx_store_rows('E', a, b, '{\"number\":true,\"ids\":\"I\"}') FROM t") == "E"
    assert stored(db, "I").tolist() == [[5], [2.0 ** 53]]
    store = "SELECT gx_store_rows('F', a, b, '{%s}') FROM t"
    assert error(db, store % '"number":true,"ids":"I"') == (
        "gx_store_rows: matrix 'I' already exists (use '{\"replace\":true}') (input row 1)")
    assert error(db, store % '"number":true,"ids":"main.F"') == (
        "gx_store_rows: two results cannot both be stored as 'F' (input row 1)")
    assert error(db, store % '"ids":"J"') == (
        "gx_store_rows: option \"ids\" is for the list of numbered rows: '{\"number\":true}' (input row 1)")
    db.execute("UPDATE t SET a = a + 1 WHERE a > 5")
    assert error(db, store % '"number":true,"ids":"J"') == (
        "gx_store_rows: the list of ids cannot keep 9007199254740993, which is past 2^53")
    assert error(db, store.replace("store_rows('F', ", "from_rows(") % '"number":true,"ids":"J"').startswith(
        'gx_from_rows: unknown option "ids"')
    assert error(db, store % '"number":true,"ids":"[J]"') is not None
    assert sorted(r[0] for r in db.execute("SELECT name FROM gx")) == ["E", "I"]
    # a statement that fails afterwards takes both back
    bad = "json_extract(CASE WHEN a = 5 THEN 'bad' ELSE '1' END, '$')"
    db.execute("DELETE FROM t WHERE a > 5")
    db.execute("INSERT INTO t VALUES (4, '[1]')")
    assert error(db, f"SELECT gx_store_rows('F', a, b, '{{\"number\":true,\"ids\":\"J\"}}'), sum({bad}) FROM (SELECT * FROM t ORDER BY a)") == \
        "malformed JSON"
    assert sorted(r[0] for r in db.execute("SELECT name FROM gx")) == ["E", "I"] and q(db, "SELECT gx_check()") == "ok"


@pytest.mark.parametrize("shape", [(500, 64), (3000, 7), (40, 3000), (20000, 1)])
@pytest.mark.parametrize("order", ["ascending", "shuffled"])
def test_numbered_rows_within_limits(filedb, shape, order):
    db = filedb
    rng = np.random.default_rng(SEED)
    array, ids = rng.standard_normal(shape), np.cumsum(rng.integers(1, 1 << 37, shape[0])) - (1 << 41)
    indexes = list(range(shape[0]))
    if order == "shuffled":
        random.Random(SEED).shuffle(indexes)
    fill(db, "t", [(int(ids[i]), array[i].tobytes()) for i in indexes])
    for tile_bytes, memory_limit in LIMITS:
        if shape[1] * 8 * 4 > memory_limit or shape[0] * 8 * 2 > memory_limit:
            continue
        limits(db, tile_bytes, memory_limit)
        q(db, "SELECT gx_stats_reset()")
        before = counter(db, "memory_used")
        q(db, "SELECT gx_store_rows('A', a, b, '{\"dtype\":\"f64\",\"number\":true,\"ids\":\"I\",\"replace\":true}') FROM t")
        assert counter(db, "memory_used") == before and counter(db, "memory_peak") <= memory_limit
        np.testing.assert_array_equal(stored(db, "A"), array)
        np.testing.assert_array_equal(stored(db, "I")[:, 0], ids.astype(float))
        assert q(db, "SELECT gx_check()") == "ok"


@pytest.mark.parametrize("memory_limit", [240, 280, 320, 400, 600])
def test_the_list_of_ids_takes_the_rows_place(filedb, memory_limit):
    """Where the list takes most of the memory the rows that are not spilled yet make way for it."""
    db, count = filedb, 20000
    limits(db, 16 << 10, memory_limit << 10)
    db.execute("CREATE TABLE t AS WITH s(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM s WHERE k < 19999) SELECT k * 7919 % 20000 AS k FROM s")
    q(db, "SELECT gx_stats_reset()")
    assert q(db, "SELECT gx_store_rows('A', 3 * k - 70, k, '{\"number\":true,\"ids\":\"I\"}') FROM t") == "A"
    assert counter(db, "spills") > 0 and counter(db, "memory_peak") <= memory_limit << 10
    assert stored(db, "A")[:, 0].tolist() == list(range(count)) and stored(db, "I")[:, 0].tolist() == list(range(-70, 3 * count - 70, 3))


def test_an_index_that_is_a_key(filedb):
    """Cells that do not come are 0, but one key among the indexes writes no gigabytes of them."""
    db = filedb
    for call, more in (("gx_store_cells('A', 400000000, 0, 1)", ', "sparse":true keeps the cells alone'),
                       ("gx_store_cells('A', 0, 400000000, 1)", ', "sparse":true keeps the cells alone'),
                       ("gx_from_cells(20000, 20000, 1)", ', "sparse":true keeps the cells alone'),
                       ("gx_store_cells('A', 400000000, 0, 1, '{\"cols\":1}')", ', "sparse":true keeps the cells alone'),
                       ("gx_store_cells('A', 400000000, 0, 1, '{\"sparse\":true}')", "")):
        text = error(db, f"SELECT {call}")
        assert ": the largest indexes, " in text and text.endswith(
            f' bytes of 1 cell: options "rows" and "cols" say that this is meant{more}'), text
    assert q(db, "SELECT count(*) FROM gx") == 0 and q(db, "PRAGMA page_count") < 20
    assert q(db, "SELECT gx_store_cells('A', 0, 400000000, 1, '{\"sparse\":true}')") == "A"
    assert q(db, "SELECT gx_shape(gx_store_cells('B', 3000, 2999, 1, '{\"rows\":3001,\"cols\":3000}'))") == "[3001,3000]"


# ---- 5. together with the rest of SQL ------------------------------------------------------------

def test_group_by(db):
    fill(db, "t", [(f"M{k % 3}", i, k % 3, i * k + 1.0) for k in range(9) for i in [k // 3]])
    names = [r[0] for r in db.execute("SELECT gx_store_cells(a, b, c, d) FROM t GROUP BY a ORDER BY a DESC")]
    assert names == ["M2", "M1", "M0"]
    assert db.execute("SELECT name FROM gx ORDER BY name").fetchall() == [("M0",), ("M1",), ("M2",)]
    shapes = db.execute("SELECT a, gx_shape(gx_from_cells(b, c, d)) FROM t GROUP BY a ORDER BY a").fetchall()
    assert [r[0] for r in shapes] == ["M0", "M1", "M2"]


def test_two_at_once(db):
    cells, made = cells_of(np.random.default_rng(SEED).random((90, 80)))
    fill(db, "t", cells)
    limits(db, 32 << 10, 400 << 10)
    row = db.execute("SELECT gx_store_cells('A', a, b, c), gx_store_cells('B', b, a, c), sum(c) FROM t").fetchone()
    assert row[:2] == ("A", "B")
    np.testing.assert_array_equal(stored(db, "A"), made)
    np.testing.assert_array_equal(stored(db, "B"), made.T)


def test_round_trip(db):
    q(db, "SELECT gx_randn(70, 90, 'A', '{\"dtype\":\"c128\"}')")
    q(db, "SELECT gx_store_cells('B', i, j, value, imag) FROM gx_cells('A')")
    assert stored(db, "A").tobytes() == stored(db, "B").tobytes()
    q(db, "SELECT gx_store_rows('C', i, row, '{\"dtype\":\"c128\"}') FROM gx_rows('A')")
    assert stored(db, "A").tobytes() == stored(db, "C").tobytes()


def test_schemas(db, tmp_path):
    db.execute("ATTACH ? AS other", [str(tmp_path / "other.db")])
    for name in ("temp.A", "other.A", "A"):
        assert q(db, "SELECT gx_store_cells(?, i, j, v) FROM (SELECT 0 AS i, 0 AS j, 7 AS v)", name) == name
        assert q(db, "SELECT gx_get(?, 0, 0)", name) == 7
    assert q(db, "SELECT count(*) FROM other.gx") == 1


# ---- 6. refused ----------------------------------------------------------------------------------

@pytest.mark.parametrize("call, text", [
    ("gx_from_cells(1, 2)", "gx_from_cells: takes 3 or 4 arguments before the options, not 2: gx_from_cells(i, j, value[, imag][, options]) (input row 1)"),
    ("gx_from_cells(1, 2, 3, 4, 5)",
     "gx_from_cells: options must be a JSON object '{...}', not 5 (input row 1)"),
    ("gx_store_cells('X', 1, 2)", "gx_store_cells: takes 4 or 5 arguments before the options, not 3: gx_store_cells(name, i, j, value[, imag][, options]) (input row 1)"),
    ("gx_from_rows(1)", "gx_from_rows: takes 2 arguments before the options, not 1: gx_from_rows(i, row[, options]) (input row 1)"),
    ("gx_store_rows('X', 1)", "gx_store_rows: takes 3 arguments before the options, not 2: gx_store_rows(name, i, row[, options]) (input row 1)"),
    ("gx_from_cells(-1, 2, 3)", "gx_from_cells: cell (-1, 2) has a negative index (input row 1)"),
    ("gx_from_cells(1, -9223372036854775808, 3)",
     "gx_from_cells: cell (1, -9223372036854775808) has a negative index (input row 1)"),
    ("gx_from_cells(1.5, 2, 3)", "gx_from_cells: i must be an integer, not 1.5 (input row 1)"),
    ("gx_from_cells(1, '2', 3)", "gx_from_cells: j must be an integer, not '2' (input row 1)"),
    ("gx_from_cells(NULL, 2, 3)", "gx_from_cells: i must be an integer, not NULL (input row 1)"),
    ("gx_from_cells(1, 2, NULL)", "gx_from_cells: value of cell (1, 2) must be a number, not NULL (input row 1)"),
    ("gx_from_cells(1, 2, '3')", "gx_from_cells: value of cell (1, 2) must be a number, not '3' (input row 1)"),
    ("gx_from_cells(1, 2, x'00')",
     "gx_from_cells: value of cell (1, 2) must be a number, not a blob of 1 bytes (input row 1)"),
    ("gx_from_cells(1, 2, 3, 'x')", "gx_from_cells: imag of cell (1, 2) must be a number, not 'x' (input row 1)"),
    ("gx_from_cells(1, 2, 3, 4, '{\"dtype\":\"f32\"}')",
     "gx_from_cells: there are imaginary parts but dtype is f32 (input row 1)"),
    ("gx_from_cells(4294967295, 2, 3)", "gx_from_cells: cell (4294967295, 2) has an index past 4294967294 (input row 1)"),
    ("gx_from_cells(5, 2, 3, '{\"rows\":5}')",
     "gx_from_cells: cell (5, 2) is outside a matrix of 5 rows and any columns (input row 1)"),
    ("gx_from_cells(1, 2, 3, '{\"rows\":5,\"cols\":2}')",
     "gx_from_cells: cell (1, 2) is outside a matrix of 5 rows and 2 columns (input row 1)"),
    ("gx_from_cells(1, 2, 3, '{\"rows\":-5}')",
     'gx_from_cells: option "rows" must be at least 0, not -5 (input row 1)'),
    ("gx_from_cells(1, 2, 3, '{\"sparse\":true,\"rows\":4294967296}')",
     "gx_from_cells: a sparse matrix from cells has at most 4294967295 rows, not 4294967296 (input row 1)"),
    ("gx_from_cells(1, 2, 3, '{\"duplicates\":\"first\"}')",
     'gx_from_cells: option "duplicates" must be one of error, sum, last, not "first" (input row 1)'),
    ("gx_from_cells(1, 2, 3, '{\"replace\":true}')",
     'gx_from_cells: unknown option "replace": the known ones are "rows", "cols", "dtype", "saturate", "duplicates" and "sparse" (input row 1)'),
    ("gx_from_cells(1, 2, 3, '{\"rows\":')", None),
    ("gx_from_cells(4000000000, 4000000000, 3)",
     "gx_from_cells: a result of 4000000001x4000000001 f64: " + SIZES),
    ("gx_from_cells(1000000, 1000000, 3)", None),
    ("gx_store_cells(NULL, 1, 2, 3)", "gx_store_cells: name must be a text, not NULL (input row 1)"),
    ("gx_store_cells(7, 1, 2, 3)", "gx_store_cells: name must be a text, not 7 (input row 1)"),
    ("gx_store_cells('', 1, 2, 3)", None),
    ("gx_store_cells('[X]', 1, 2, 3)", None),
    ("gx_store_cells('before', 1, 2, 3)",
     "gx_store_cells: matrix 'before' already exists (use '{\"replace\":true}') (input row 1)"),
    ("gx_from_rows(-1, '[1]')", "gx_from_rows: row index -1 is negative (input row 1)"),
    ("gx_from_rows('a', '[1]')", "gx_from_rows: i must be an integer, not 'a' (input row 1)"),
    ("gx_from_rows(1, NULL)", "gx_from_rows: row 1 is NULL (input row 1)"),
    ("gx_from_rows(1, 'before')", None),
    ("gx_from_rows(1, '[1,')", None),
    ("gx_from_rows(1, '[[1,2],[3,4]]')", "gx_from_rows: row 1 is 2x2, not one row or column (input row 1)"),
    ("gx_from_rows(1, x'0102030405')",
     "gx_from_rows: row 1 is a blob of 5 bytes, neither a matrix value nor a multiple of 4 (f32) or 8 (f64) (input row 1)"),
    ("gx_from_rows(1, x'0102030405', '{\"dtype\":\"c64\"}')",
     "gx_from_rows: row 1 is a blob of 5 bytes, not a multiple of 8 (c64) (input row 1)"),
    ("gx_from_rows(1, '[\"1i\"]')", "gx_from_rows: row 1 is complex but the matrix is f64 (input row 1)"),
    ("gx_from_rows(4294967295, '[1]')", "gx_from_rows: row index 4294967295 is past 4294967294 (input row 1)"),
    ("gx_from_rows(3, '[1]', '{\"rows\":3}')", "gx_from_rows: row 3 is outside a matrix of 3 rows (input row 1)"),
    ("gx_from_rows(2, '[1]', '{\"cols\":3}')", "gx_from_rows: row 2 has 1 elements, expected 3 (input row 1)"),
])
def test_refused(db, call, text):
    q(db, "SELECT gx_ones(2, 2, 'before')")
    before = counter(db, "memory_used")
    found = error(db, f"SELECT {call} FROM (SELECT 1)")
    assert found.startswith(call.split("(")[0] + ": ") and "\n" not in found
    if text is not None:
        assert found == text
    assert db.execute("SELECT name, rows FROM gx").fetchall() == [("before", 2)]
    assert not db.in_transaction and counter(db, "memory_used") == before


def test_refused_in_a_later_row(db):
    fill(db, "t", [(0, 0, 1.0), (1, 1, 2.0), (2, 2, None)])
    assert error(db, "SELECT gx_store_cells('A', a, b, c) FROM t") == \
        "gx_store_cells: value of cell (2, 2) must be a number, not NULL (input row 3)"
    assert error(db, "SELECT gx_store_cells('A' || a, a, b, 1) FROM t") == \
        "gx_store_cells: name was 'A0' and is now 'A1': one group makes one matrix (input row 2)"
    assert error(db, "SELECT gx_store_rows('A', a, CASE a WHEN 2 THEN '[1,2,3]' ELSE '[1,2]' END) FROM t") == \
        "gx_store_rows: row 2 has 3 elements, expected 2 (input row 3)"
    assert error(db, "SELECT gx_store_rows('A', 0, '[1]') FROM t") == \
        'gx_store_rows: row 0 comes twice (option "duplicates" may be "sum" or "last")'
    assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("t",)]
    assert counter(db, "memory_used") < 10000


def test_read_only(tmp_path):
    path = tmp_path / "r.db"
    sqlite3.connect(path).execute("CREATE TABLE t(x)").connection.close()
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(gx_path())
    text = error(db, "SELECT gx_store_cells('A', 1, 1, 1) FROM (SELECT 1)")
    assert text.startswith("gx_store_cells: ") and "readonly" in text.replace("-", "")
    assert q(db, "SELECT gx_store_cells('temp.A', 0, 0, 1) FROM (SELECT 1)") == "temp.A"
    db.close()


# ---- 7. transactions and failures ----------------------------------------------------------------

def test_rollback(filedb):
    db = filedb
    fill(db, "t", [(0, 0, 1.0), (1, 1, 2.0)])
    db.execute("BEGIN")
    q(db, "SELECT gx_store_cells('A', a, b, c) FROM t")
    db.execute("ROLLBACK")
    assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("t",)]
    db.execute("CREATE TABLE log(name)")
    db.execute("INSERT INTO log SELECT gx_store_cells('A', a, b, c) FROM t")
    assert db.execute("SELECT * FROM log").fetchall() == [("A",)] and q(db, "SELECT gx_sum('A')") == 3
    text = error(db, "INSERT INTO log SELECT gx_store_cells('B', 0, 0, c) FROM t")
    assert text.startswith("gx_store_cells: cell (0, 0) comes twice")
    assert db.execute("SELECT * FROM log").fetchall() == [("A",)]
    assert db.execute("SELECT name FROM gx").fetchall() == [("A",)] and q(db, "SELECT gx_check()") == "ok"


BAD = "json_extract(CASE WHEN a = 7 THEN 'bad' ELSE '1' END, '$')"


@pytest.mark.parametrize("begin", ["", "BEGIN", "BEGIN IMMEDIATE"])
@pytest.mark.parametrize("sql", [
    f"SELECT gx_store_cells('A', a, b, {BAD}) FROM t",
    f"SELECT gx_store_cells('A', a, b, c), sum({BAD}) FROM t",
    f"SELECT gx_store_rows('A', a, gx_json({BAD})) FROM t",
    f"SELECT gx_store_rows('A', a, '[1]'), sum({BAD}) FROM t",
    f"SELECT gx_store_cells('A' || b, a, b, c), sum({BAD}) FROM t GROUP BY b",
    f"SELECT gx_store_cells('A' || b, a, b, c) AS n, sum({BAD}) FROM t GROUP BY b ORDER BY n DESC",
    f"INSERT INTO log SELECT gx_store_cells('A', a, b, {BAD}) FROM t",
    f"INSERT INTO log SELECT gx_store_cells('A' || b, a, b, {BAD}) FROM t GROUP BY b",
    f"CREATE TABLE made AS SELECT gx_store_cells('A', a, b, {BAD}) FROM t",
])
def test_a_statement_that_fails_half_way(filedb, sql, begin):
    db = filedb
    q(db, "SELECT gx_ones(2, 2, 'before')")
    db.execute("CREATE TABLE log(name)")
    fill(db, "t", [(a, 0, 1.0) for a in range(10)])
    if begin:
        db.execute(begin)
    assert error(db, sql) == "malformed JSON"
    if begin and db.in_transaction:
        db.execute("COMMIT")
    assert db.execute("SELECT name FROM gx").fetchall() == [("before",)]
    assert db.execute("SELECT count(*) FROM log").fetchone() == (0,)
    assert q(db, "SELECT gx_check()") == "ok" and not db.in_transaction
    assert counter(db, "memory_used") < 10000


def test_statements_that_do_not_fail(db):
    """What agg_undo.c takes back it must not take back here."""
    fill(db, "t", [(a, a % 3, 1.0) for a in range(10)])
    assert q(db, "SELECT count(*) FROM (SELECT gx_store_cells('C' || b, a, b, c) FROM t GROUP BY b)") == 3
    cursor = db.execute("SELECT gx_store_cells('D' || b, a, b, c) FROM t GROUP BY b ORDER BY 1")
    assert cursor.fetchone() == ("D0",)
    del cursor  # after the first of three rows
    db.execute("SELECT gx_store_cells('E', a, b, c) FROM t").fetchall()
    outer = db.execute("SELECT a FROM t")  # another statement is under way
    outer.fetchone()
    db.execute("SELECT gx_store_rows('F', a, '[1]') FROM t").fetchall()
    db.execute("WITH s AS MATERIALIZED (SELECT gx_store_cells('G', a, b, c) AS n FROM t) SELECT s.n FROM s, s AS u").fetchall()
    names = {r[0] for r in db.execute("SELECT name FROM gx")}
    assert names == {"C0", "C1", "C2", "D0", "D1", "D2", "E", "F", "G"}


def test_first_group_stays_when_a_later_one_fails(db):
    """Rows that have been returned have been stored; the group under way has not."""
    fill(db, "t", [(a, a // 4, 1.0) for a in range(12)])
    db.execute("CREATE INDEX tb ON t(b)")
    bad = BAD.replace("a = 7", "a = 9")
    text = error(db, f"SELECT gx_store_cells('A' || b, a, b, c), sum({bad}) FROM t GROUP BY b ORDER BY b")
    assert text == "malformed JSON"
    assert db.execute("SELECT name FROM gx ORDER BY name").fetchall() == [("A0",), ("A1",)]


@pytest.mark.parametrize("sql", ["SELECT gx_store_cells('A', k, k % 50, 1) FROM s",
                                 "SELECT gx_store_rows('A', k, x'0000000000000000', '{\"dtype\":\"f64\"}') FROM s"])
def test_interrupt(filedb, sql):
    db = filedb
    q(db, "SELECT gx_ones(2, 2, 'before')")
    many = "WITH RECURSIVE s(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM s WHERE k < 4000000) "
    timer = threading.Timer(0.3, db.interrupt)
    timer.start()
    text = error(db, many + sql)
    timer.join()
    assert text.endswith("interrupted")
    assert db.execute("SELECT name FROM gx").fetchall() == [("before",)] and q(db, "SELECT gx_check()") == "ok"
    assert counter(db, "memory_used") < 10000
