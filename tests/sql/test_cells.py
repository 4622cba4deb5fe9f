"""Reading matrices as rows: gx_cells(A), gx_rows(A), and the named tables made of them.

Plan:
- every dtype, shape (0, 1, tile edges) and form of the argument gives the cells NumPy sees;
- differential: random constraints on i, j, rowid with weird constants give what a plain table of the same cells gives;
- ORDER BY and GROUP BY over i and j come without a sorter, in order, whatever the memory;
- push-down, proven by the counters of gx_stats: points, ranges, IN, joins touch the tiles and bytes they need;
- matrices that change, are dropped or damaged while they are read; other calls in between; self joins;
- memory: tiny limits work, and everything is given back;
- main, temp and attached schemas; a second connection; views are refused; wrong arguments in words.
Writing is in test_cells_write.py.
"""
import random
import sqlite3

import numpy as np
import pytest
from conftest import error, from_numpy, gx_connect, q, to_numpy

SEED = 20240611
DTYPES = ["f8", "f4", "c16", "c8"]
SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (1, 40), (40, 1), (7, 5), (16, 16), (17, 33), (64, 50)]


def make(rows, cols, dtype="f8", seed=SEED):
    rng = np.random.default_rng(seed)
    A = rng.integers(-50, 50, (rows, cols)) / 4
    if np.dtype(dtype).kind == "c":
        A = A + 1j * rng.integers(-50, 50, (rows, cols)) / 8
    return A.astype(dtype)


def store(db, name, A, tile_bytes=2048):
    """Store with small tiles: 16 x 16 of f64."""
    db.execute("SELECT gx_config('tile_bytes', ?)", (tile_bytes,)).fetchall()
    db.execute(f"SELECT gx_store('{name}', ?)", (from_numpy(A),)).fetchall()
    return A


def cells(A):
    return sorted((i, j, float(A[i, j].real), float(A[i, j].imag)) for i in range(A.shape[0]) for j in range(A.shape[1]))


def counters(db):
    return dict(db.execute("SELECT name, value FROM gx_stats WHERE name IN ('tiles_read', 'bytes_read')"))


def cost(db, sql, *params):
    """(tiles, bytes) read by the statement, and its rows."""
    before = counters(db)
    rows = db.execute(sql, params).fetchall()
    after = counters(db)
    return after["tiles_read"] - before["tiles_read"], after["bytes_read"] - before["bytes_read"], rows


def plan(db, sql):
    return " ".join(row[3] for row in db.execute("EXPLAIN QUERY PLAN " + sql))


# ---- what the rows are -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_cells(db, dtype, shape):
    A = store(db, "A", make(*shape, dtype))
    db.execute("CREATE VIRTUAL TABLE a USING gx_cells('A')")
    want = cells(A)
    for source, params in (("gx_cells('A')", ()), ("gx_cells(?)", (from_numpy(A),)), ("a", ())):
        assert sorted(db.execute(f"SELECT i, j, value, imag FROM {source}", params)) == want
        assert q(db, f"SELECT count(*) FROM {source}", *params) == A.size
        assert sorted(db.execute(f"SELECT rowid, i, j FROM {source}", params)) == sorted(
            (j * A.shape[0] + i, i, j) for i, j, _, _ in want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_rows(db, dtype, shape):
    A = store(db, "A", make(*shape, dtype))
    db.execute("CREATE VIRTUAL TABLE a USING gx_rows('A')")
    for source, params in (("gx_rows('A')", ()), ("gx_rows(?)", (from_numpy(A),)), ("a", ())):
        rows = db.execute(f"SELECT rowid, i, row FROM {source}", params).fetchall()
        assert [row[:2] for row in rows] == [(i, i) for i in range(shape[0])]
        for _, i, row in rows:
            got = to_numpy(row)
            assert got.dtype == A.dtype and got.shape == (1, shape[1]) and (got[0] == A[i]).all()


def test_forms_of_the_argument(db):
    assert db.execute("SELECT i, j, value, imag FROM gx_cells('[[1,2],[3,\"4-5i\"]]') ORDER BY 1, 2").fetchall() == [
        (0, 0, 1.0, 0.0), (0, 1, 2.0, 0.0), (1, 0, 3.0, 0.0), (1, 1, 4.0, -5.0)]
    assert db.execute("SELECT i, j, value FROM gx_cells('[7,8]')").fetchall() == [(0, 0, 7.0), (1, 0, 8.0)]
    assert db.execute("SELECT i, j, value FROM gx_cells(3)").fetchall() == [(0, 0, 3.0)]
    assert db.execute("SELECT i, gx_json(row) FROM gx_rows('[[1,2],[3,4]]')").fetchall() == [
        (0, "[[1.0,2.0]]"), (1, "[[3.0,4.0]]")]


def test_not_a_number_is_null(db):
    A = np.array([[np.nan, np.inf], [-np.inf, 0.0]])
    assert db.execute("SELECT value FROM gx_cells(?) ORDER BY i, j", (from_numpy(A),)).fetchall() == [
        (None,), (np.inf,), (-np.inf,), (0.0,)]


def test_the_hidden_column_is_the_argument(db):
    store(db, "A", make(3, 2))
    blob = from_numpy(make(2, 2, "c8"))
    for argument in ("A", "[[1,2],[3,4]]", 5, 2.5, blob):
        for function in ("gx_cells", "gx_rows"):
            rows = db.execute(f"SELECT DISTINCT matrix FROM {function}(?)", (argument,)).fetchall()
            assert rows == [(argument,)]
    assert q(db, "SELECT sum(value) FROM gx_cells WHERE matrix = 'A' AND i = 0") == make(3, 2)[0].sum()
    assert q(db, "SELECT count(*) FROM gx_cells WHERE matrix = 'A' OR matrix = '[1,2]'") == 8
    assert q(db, "SELECT count(*) FROM gx_cells WHERE matrix IN ('A', '[1,2]', '[1]')") == 9


def test_matrices_from_a_column(db):
    """Values in an ordinary table, one row of it after the other."""
    rng = np.random.default_rng(SEED)
    db.execute("CREATE TABLE m(id INTEGER PRIMARY KEY, x)")
    want = []
    for k in range(20):
        A = rng.integers(0, 9, (k % 4, k % 3)).astype("f8")
        db.execute("INSERT INTO m VALUES(?, ?)", (k, from_numpy(A)))
        want += [(k, i, j, A[i, j]) for i in range(A.shape[0]) for j in range(A.shape[1])]
    assert db.execute("SELECT id, i, j, value FROM m, gx_cells(m.x) ORDER BY id, i, j").fetchall() == sorted(want)
    rows = db.execute("SELECT id, i, row FROM m LEFT JOIN gx_rows(m.x) ORDER BY id, i").fetchall()
    assert len(rows) == sum(max(1, k % 4) for k in range(20))


# ---- constraints, against a plain table --------------------------------------------------------------------------

CONSTANTS = [
    "0", "1", "5", "15", "16", "17", "39", "40", "-1", "-7", "2.5", "-0.5", "-0.0", "15.999999999", "16.0", "1e300",
    "-1e300", "9e999", "-9e999", "9223372036854775807", "-9223372036854775808", "9223372036854775808.0",
    "4611686018427387904", "4611686018427387904.5", "'3'", "'3.0'", "' 16 '", "'2.5'", "'abc'", "''", "'1e1'", "'0x10'",
    "'3abc'", "'9e999'", "x'33'", "x''", "NULL", "'16' COLLATE NOCASE", "CAST('17' AS TEXT)", "CAST(17 AS REAL)", "2+3",
]
OPERATORS = ["=", "<", "<=", ">", ">=", "IS", "==", "<>", "IS NOT"]


def random_term(rng):
    column = rng.choice(["i", "j", "i", "j", "rowid"])
    kind = rng.random()
    if kind < 0.6:
        term = f"{column} {rng.choice(OPERATORS)} {rng.choice(CONSTANTS)}"
        return term if rng.random() < 0.8 else f"{rng.choice(CONSTANTS)} {rng.choice(OPERATORS)} {column}"
    if kind < 0.75:
        return f"{column} {rng.choice(['', 'NOT '])}BETWEEN {rng.choice(CONSTANTS)} AND {rng.choice(CONSTANTS)}"
    if kind < 0.9:
        return f"{column} IN ({', '.join(rng.sample(CONSTANTS, rng.randint(1, 4)))})"
    return f"(value {rng.choice(['<', '>'])} 0 OR {column} {rng.choice(OPERATORS)} {rng.choice(CONSTANTS)})"


@pytest.fixture
def both(db):
    """A stored matrix, and the same cells and rows in plain tables: a, r and pa, pr."""
    A = store(db, "A", make(40, 37))
    db.execute("CREATE VIRTUAL TABLE a USING gx_cells('A')")
    db.execute("CREATE TABLE pa(i INTEGER, j INTEGER, value REAL, imag REAL, id INTEGER PRIMARY KEY)")
    db.executemany("INSERT INTO pa VALUES(?, ?, ?, ?, ?)", [(*cell, cell[1] * 40 + cell[0]) for cell in cells(A)])
    return db


def test_constraints_like_a_plain_table(both):
    rng = random.Random(SEED)
    print("seed", SEED)
    columns = "i, j, value, imag, rowid"
    for _ in range(700):
        terms = [random_term(rng) for _ in range(rng.randint(1, 4))]
        where = f" {rng.choice(['AND', 'AND', 'OR'])} ".join(terms)
        sql = f"SELECT {columns} FROM %s WHERE {where}"
        order = rng.choice(["", "", "ORDER BY i, j", "ORDER BY j, i", "ORDER BY i DESC, j", "ORDER BY rowid", "ORDER BY j"])
        want = both.execute(sql % "pa").fetchall()
        for source in ("gx_cells('A')", "a"):
            got = both.execute(f"{sql % source} {order}").fetchall()
            assert sorted(got) == sorted(want), f"{sql % source} {order}"
            if order in ("ORDER BY i, j", "ORDER BY j, i", "ORDER BY i DESC, j", "ORDER BY rowid"):
                assert got == both.execute(f"{sql % 'pa'} {order}").fetchall(), f"{sql % source} {order}"


def test_limit_and_offset_like_a_plain_table(both):
    for where in ("", "WHERE i > 30", "WHERE j = 3 AND i <= 20", "WHERE i = 39 OR j = 36"):
        for order in ("i, j", "j, i", "j DESC, i"):
            for limit in ("LIMIT 5", "LIMIT 7 OFFSET 100", "LIMIT -1 OFFSET 10", "LIMIT 0"):
                sql = f"SELECT i, j, value FROM %s {where} ORDER BY {order} {limit}"
                assert both.execute(sql % "a").fetchall() == both.execute(sql % "pa").fetchall(), sql


@pytest.mark.parametrize("type", ["INTEGER", "REAL", "TEXT", "BLOB", "NUMERIC", ""])
def test_joins_like_a_plain_table(both, type):
    """The other side of the comparison has every affinity, and every kind of value."""
    both.execute(f"CREATE TABLE k(x {type})")
    for constant in CONSTANTS:
        both.execute(f"INSERT INTO k VALUES({constant})")
    for on in ("c.i = k.x", "c.j >= k.x AND c.i = 3", "c.rowid = k.x", "c.i < k.x AND c.j = 1", "c.j IS k.x"):
        sql = f"SELECT k.rowid, c.i, c.j, c.value FROM k CROSS JOIN %s c ON {on} ORDER BY 1, 2, 3"
        want = both.execute(sql % "pa").fetchall()
        assert both.execute(sql % "gx_cells('A')").fetchall() == want, sql
        assert both.execute(sql % "a").fetchall() == want, sql
        left = sql.replace("CROSS JOIN", "LEFT JOIN")
        assert both.execute(left % "a").fetchall() == both.execute(left % "pa").fetchall(), left


def test_bound_values_like_a_plain_table(both):
    values = [0, 5, -1, 2.5, 1e300, float("inf"), None, "7", "x", b"7", 2**63 - 1, -(2**63), True]
    for operator in OPERATORS:
        for value in values:
            for column in ("i", "j", "rowid"):
                sql = f"SELECT count(*), sum(value) FROM %s WHERE {column} {operator} ?"
                want = both.execute(sql % "pa", (value,)).fetchall()
                assert both.execute(sql % "a", (value,)).fetchall() == want, (sql, value)


def test_rows_like_a_plain_table(db):
    A = store(db, "A", make(40, 5))
    db.execute("CREATE TABLE pr(i INTEGER, id INTEGER PRIMARY KEY)")
    db.executemany("INSERT INTO pr VALUES(?, ?)", [(i, i) for i in range(40)])
    rng = random.Random(SEED)
    for _ in range(300):
        where = " AND ".join(random_term(rng).replace("j ", "i ").replace("value", "i") for _ in range(rng.randint(1, 3)))
        where = where.replace(" j", " i")
        want = [row[0] for row in db.execute(f"SELECT i FROM pr WHERE {where} ORDER BY i")]
        got = db.execute(f"SELECT i, row FROM gx_rows('A') WHERE {where} ORDER BY i").fetchall()
        assert [row[0] for row in got] == want, where
        assert all((to_numpy(row)[0] == A[i]).all() for i, row in got)


# ---- order --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("order", ["i, j", "j, i", "i", "j", "i, j, value", "j, i, imag", "rowid", "rowid, value"])
def test_ascending_orders_need_no_sorter(both, order):
    sql = f"SELECT i, j, value FROM gx_cells('A') WHERE i > 2 AND j < 35 ORDER BY {order}"
    assert "TEMP B-TREE" not in plan(both, sql)
    rows = both.execute(sql).fetchall()
    key = {"i": lambda r: r[0], "j": lambda r: r[1], "r": lambda r: (r[1], r[0])}[order[0]]
    if "," in order and order[0] != "r":
        key = (lambda r: r[:2]) if order[0] == "i" else (lambda r: (r[1], r[0]))
    assert [key(r) for r in rows] == sorted(key(r) for r in rows) and len(rows) == 37 * 35


@pytest.mark.parametrize("order", ["i DESC", "value", "j, value", "i, j DESC", "imag, i"])
def test_other_orders_are_sorted_by_sqlite(both, order):
    sql = f"SELECT i, j, value FROM %s ORDER BY {order}, i, j"
    assert "TEMP B-TREE" in plan(both, sql % "gx_cells('A')")
    assert both.execute(sql % "gx_cells('A')").fetchall() == both.execute(sql % "pa").fetchall()


def test_fixed_columns_do_not_count_in_an_order(both):
    for sql in ("WHERE i = 3 ORDER BY i DESC, j", "WHERE j = 3 ORDER BY j, i", "WHERE j = 3 ORDER BY i",
                "WHERE i = 3 AND j = 3 ORDER BY value", "WHERE rowid = 77 ORDER BY imag, i DESC"):
        assert "TEMP B-TREE" not in plan(both, "SELECT value FROM gx_cells('A') " + sql), sql
    assert "TEMP B-TREE" not in plan(both, "SELECT row FROM gx_rows('A') ORDER BY rowid")
    assert "TEMP B-TREE" in plan(both, "SELECT row FROM gx_rows('A') ORDER BY rowid DESC")


def test_group_by_streams(both):
    for column in "ij":
        sql = f"SELECT {column}, sum(value), count(*) FROM %s GROUP BY {column}"
        assert "TEMP B-TREE" not in plan(both, sql % "gx_cells('A')")
        assert both.execute(sql % "gx_cells('A')").fetchall() == both.execute(sql % "pa").fetchall()
        sql = f"SELECT DISTINCT {column} FROM %s"
        assert sorted(both.execute(sql % "a")) == sorted(both.execute(sql % "pa"))


# ---- what is read -------------------------------------------------------------------------------------------------

def test_a_point_touches_one_tile_and_its_bytes(db):
    A = store(db, "A", make(100, 90))
    for i, j in ((0, 0), (15, 15), (16, 16), (99, 89), (50, 3)):
        assert cost(db, "SELECT value FROM gx_cells('A') WHERE i = ? AND j = ?", i, j) == (1, 8, [(A[i, j],)])
        assert cost(db, "SELECT value FROM gx_cells('A') WHERE rowid = ?", j * 100 + i) == (1, 8, [(A[i, j],)])
    assert cost(db, "SELECT value FROM gx_cells('A') WHERE i = 100 AND j = 0") == (0, 0, [])
    assert cost(db, "SELECT value FROM gx_cells('A') WHERE i = 2.5") == (0, 0, [])
    assert cost(db, "SELECT value FROM gx_cells('A') WHERE i = 'x' OR j = NULL") == (0, 0, [])
    store(db, "C", make(30, 30, "c16"))
    assert cost(db, "SELECT imag FROM gx_cells('C') WHERE i = 3 AND j = 4")[:2] == (1, 16)


def test_a_point_of_a_large_tile_reads_one_element(db):
    A = store(db, "A", make(500, 400), tile_bytes=8 << 20)
    assert q(db, "SELECT count(*) FROM gx_tile") == 1
    assert cost(db, "SELECT value FROM gx_cells('A') WHERE i = 499 AND j = 399") == (1, 8, [(A[499, 399],)])


def test_ranges_touch_the_tiles_they_meet(db):
    """16 x 16 tiles of f64; 7 x 6 of them."""
    store(db, "A", make(112, 96))
    assert db.execute("SELECT tile_rows, tile_cols FROM gx").fetchall() == [(16, 16)]
    for where, tiles, rows, cols in (
            ("i < 16", 6, 16, 96), ("i <= 16", 12, 17, 96), ("j BETWEEN 16 AND 31", 7, 112, 16),
            ("i >= 96 AND j >= 80", 1, 16, 16), ("i > 20 AND i < 30 AND j = 89", 1, 9, 1), ("i = 7", 6, 1, 96),
            ("j = 7", 7, 112, 1), ("i > 15.5 AND i < '31.5' AND j < 16", 1, 16, 16), ("j > 1000", 0, 0, 0),
            ("i BETWEEN 10 AND 20 AND j BETWEEN 10 AND 20", 4, 11, 11), ("1", 42, 112, 96)):
        got = cost(db, f"SELECT count(value) FROM gx_cells('A') WHERE {where}")
        assert got == (tiles, rows * cols * 8, [(rows * cols,)]), where
    got = cost(db, "SELECT count(value) FROM gx_cells('A') WHERE i IN (1, 17, 33) AND j IN (0, 20)")
    assert got == (6, 48, [(6,)])
    got = cost(db, "SELECT sum(length(row)) FROM gx_rows('A') WHERE i BETWEEN 3 AND 4")
    assert got == (6, 2 * 96 * 8, [(2 * (32 + 96 * 8),)])


def test_rows_and_columns_alone_are_not_read(db):
    store(db, "A", make(100, 90))
    for sql in ("SELECT count(*) FROM gx_cells('A')", "SELECT sum(i * j) FROM gx_cells('A') WHERE i > j",
                "SELECT count(*) FROM gx_rows('A')", "SELECT max(i) FROM gx_rows('A')"):
        assert cost(db, sql)[:2] == (0, 0), sql
    # Only what is asked for: a value after half of the rows have been passed over.
    tiles, size, rows = cost(db, "SELECT CASE WHEN i = 99 AND j = 89 THEN value END AS v FROM gx_cells('A') "
                                 "WHERE j > 79 ORDER BY j, i")
    assert tiles == 1 and size == 8 and [v for v, in rows if v is not None] == [make(100, 90)[99, 89]]


def test_a_small_limit_reads_little(db):
    store(db, "A", make(1000, 400), tile_bytes=8 << 20)
    tiles, size, rows = cost(db, "SELECT value FROM gx_cells('A') LIMIT 10")
    assert tiles == 1 and size <= 64 << 10 and len(rows) == 10


def test_a_scan_reads_each_byte_once(db):
    A = store(db, "A", make(300, 200), tile_bytes=60_000)
    for sql in ("SELECT sum(value) FROM gx_cells('A')", "SELECT sum(length(row)) FROM gx_rows('A')",
                "SELECT i, sum(value) FROM gx_cells('A') GROUP BY i",
                "SELECT sum(value) FROM (SELECT value FROM gx_cells('A') ORDER BY j, i)"):
        assert cost(db, sql)[1] == A.nbytes, sql


def test_joins_push_down_and_read_ahead(db):
    A = store(db, "A", make(200, 100))
    db.execute("CREATE TABLE label(i INTEGER PRIMARY KEY, name)")
    db.executemany("INSERT INTO label VALUES(?, ?)", [(i, i % 10) for i in range(200)])

    # A few cells: their bytes alone.
    sql = "SELECT sum(value) FROM (SELECT 3 AS i, 5 AS j UNION SELECT 150, 99) p CROSS JOIN gx_cells('A') c USING(i, j)"
    assert cost(db, sql) == (2, 16, [(A[3, 5] + A[150, 99],)])

    # One row after the other: read ahead, each byte once.
    sql = "SELECT sum(value * name) FROM label CROSS JOIN gx_cells('A') c ON c.i = label.i"
    _, size, rows = cost(db, sql)
    assert size == A.nbytes and rows == [(float((A.sum(1) * (np.arange(200) % 10)).sum()),)]

    # Random cells, many of them: the tiles are kept.
    rng = np.random.default_rng(SEED)
    points = [(int(i), int(j)) for i, j in zip(rng.integers(0, 200, 5000), rng.integers(0, 100, 5000))]
    db.execute("CREATE TABLE p(i, j)")
    db.executemany("INSERT INTO p VALUES(?, ?)", points)
    _, size, rows = cost(db, "SELECT sum(c.value) FROM p CROSS JOIN gx_cells('A') c ON c.i = p.i AND c.j = p.j")
    assert rows == [(sum(A[i, j] for i, j in points),)] and size <= 3 * A.nbytes


def test_small_tables_drive_joins(db):
    """The planner is told that a point costs little and a scan much."""
    store(db, "A", make(200, 100))
    db.execute("CREATE TABLE few(i, j)")
    for source in ("gx_cells('A')", "gx_cells('[[1,2],[3,4]]')"):
        steps = plan(db, f"SELECT sum(value) FROM {source} c JOIN few ON c.i = few.i AND c.j = few.j")
        assert steps == "SCAN few SCAN c VIRTUAL TABLE INDEX 0:m=i=j="
    assert plan(db, "SELECT row FROM gx_rows('A') r JOIN few ON r.i = few.i").startswith("SCAN few SCAN r")


def test_a_join_sees_changes_between_its_rows(db):
    """What is kept for a join belongs to one state of the matrix."""
    store(db, "A", make(8, 8))
    db.execute("CREATE TABLE t(k INTEGER PRIMARY KEY)")
    db.executemany("INSERT INTO t VALUES(?)", [(k,) for k in range(6)])
    got = []
    for k, value in db.execute("SELECT k, value FROM t CROSS JOIN gx_cells('A') c ON c.i = 1 AND c.j = 2"):
        got.append(value)
        db.execute("SELECT gx_set('A', 1, 2, ?)", (k + 100.0,)).fetchall()
    assert got[2:] in ([100.0, 101.0, 102.0, 103.0], [101.0, 102.0, 103.0, 104.0])  # Python may be one row ahead


# ---- while others write ----------------------------------------------------------------------------------------

CHANGED = "gx_cells: A changed while being read"


@pytest.mark.parametrize("change", [
    "SELECT gx_set('A', 99, 89, 5)", "DELETE FROM gx WHERE name = 'A'", "UPDATE gx SET name = 'B' WHERE name = 'A'",
    "SELECT gx_zeros(3, 3, 'A', '{\"replace\":true}')", "UPDATE a SET value = 1 WHERE i = 99",
])
def test_a_change_during_a_scan_is_an_error(db, change):
    store(db, "A", make(100, 90))
    db.execute("CREATE VIRTUAL TABLE a USING gx_cells('A')")
    cursor = db.execute("SELECT i, j, value FROM gx_cells('A')")
    assert len(cursor.fetchmany(10)) == 10
    db.execute(change).fetchall()
    with pytest.raises(sqlite3.OperationalError, match=CHANGED):
        cursor.fetchall()
    assert q(db, "SELECT count(*) FROM gx_cells('[1]')") == 1


@pytest.mark.parametrize("before, after", [
    ("SELECT gx_set('A', 0, 0, 2)", "SELECT gx_set('A', 99, 89, 3)"),
    ("SELECT gx_ones(100, 90, 'A', '{\"replace\":true}')", "SELECT gx_zeros(100, 90, 'A', '{\"replace\":true}')"),
    ("SELECT gx_set('A', 0, 0, 2)", "UPDATE gx SET name = 'A' WHERE name = 'A'"),
])
def test_a_rollback_during_a_scan(db, before, after):
    """A change after the ROLLBACK gets a generation that the scan has not seen; without one nothing was read from it."""
    store(db, "A", make(100, 90))
    db.execute("BEGIN")
    db.execute(before).fetchall()
    cursor = db.execute("SELECT i, j, value FROM gx_cells('A')")
    first = cursor.fetchmany(10)
    db.execute("ROLLBACK")
    db.execute(after).fetchall()
    with pytest.raises(sqlite3.OperationalError, match=CHANGED):
        first += cursor.fetchall()
    assert q(db, "SELECT gx_check()") == "ok"
    db.execute("BEGIN")
    db.execute("SELECT gx_set('A', 1, 1, 4)").fetchall()
    db.execute("COMMIT")
    assert q(db, "SELECT max(generation) < (SELECT value FROM gx_state WHERE key = 'next_generation') FROM gx_meta") == 1


def test_other_calls_during_a_scan(db):
    """Calls that read, store and release in between do not disturb a scan."""
    A = store(db, "A", make(100, 90))
    got = []
    for n, row in enumerate(db.execute("SELECT i, j, value, imag FROM gx_cells('A')")):
        got.append(row)
        if n % 1000 == 0:
            assert q(db, "SELECT gx_get('A', 3, 4)") == A[3, 4]
            db.execute(f"SELECT gx_ones(20, 20, 'B{n}')").fetchall()
            db.execute("BEGIN")
            db.execute("SELECT gx_set('B0', 1, 1, 5)").fetchall()
            db.execute(["COMMIT", "ROLLBACK"][n // 1000 % 2])
    assert sorted(got) == cells(A)


def test_two_cursors_at_once(db):
    A = store(db, "A", make(40, 40))
    trace = q(db, "SELECT sum(x.value * y.value) FROM gx_cells('A') x, gx_cells('A') y WHERE x.i = y.j AND x.j = y.i")
    assert trace == pytest.approx(np.trace(A @ A))
    pairs = db.execute("SELECT x.i, y.i, x.row = y.row FROM gx_rows('A') x, gx_rows('A') y").fetchall()
    assert len(pairs) == 1600 and all(same for i, k, same in pairs if i == k)


def test_another_connection_writes_during_a_scan(tmp_path):
    path = str(tmp_path / "wal.db")
    one = gx_connect(path, journal_mode="wal")
    two = gx_connect(path)
    A = store(one, "A", make(100, 90))
    cursor = one.execute("SELECT i, j, value, imag FROM gx_cells('A')")
    first = cursor.fetchmany(10)
    two.execute("SELECT gx_set('A', 99, 89, 1234)").fetchall()
    assert sorted(first + cursor.fetchall()) == cells(A)  # one snapshot from the first row to the last
    assert q(one, "SELECT value FROM gx_cells('A') WHERE i = 99 AND j = 89") == 1234
    one.close()
    two.close()


def test_damaged_tiles_are_named(db):
    store(db, "A", make(48, 48))
    ids = [row[0] for row in db.execute("SELECT id FROM gx_tile ORDER BY id")]
    db.execute("UPDATE gx_tile SET data = substr(data, 1, 100) WHERE id = ?", (ids[4],))
    text = "gx_cells: tile 4 of A has 100 bytes, expected 2048"
    assert error(db, "SELECT sum(value) FROM gx_cells('A')") == text
    assert error(db, "SELECT value FROM gx_cells('A') WHERE i = 20 AND j = 20") == text
    assert q(db, "SELECT count(value) FROM gx_cells('A') WHERE i < 16") == 768  # the others are whole
    cursor = db.execute("SELECT value FROM gx_cells('A')")
    assert len(cursor.fetchmany(5)) == 5
    db.execute("DELETE FROM gx_tile WHERE id = ?", (ids[1],))
    with pytest.raises(sqlite3.DatabaseError, match="gx_cells: tile 1 of A is missing"):
        cursor.fetchall()
    assert error(db, "SELECT row FROM gx_rows('A')") == "gx_rows: tile 1 of A is missing"


def test_a_damaged_catalog_row_is_refused(db):
    store(db, "A", make(40, 40))
    db.execute("UPDATE gx_meta SET rows = -5")
    assert error(db, "SELECT * FROM gx_cells('A')") == (
        "gx_cells: catalog row of A: rows is -5, expected 0 to 1099511627776")


def test_interrupt(db):
    store(db, "A", make(400, 400))
    for row in db.execute("SELECT i FROM gx_cells('A')"):
        break
    db.set_progress_handler(lambda: 1, 1000)
    assert error(db, "SELECT sum(value) FROM gx_cells('A')") == "interrupted"
    db.set_progress_handler(None, 0)
    assert q(db, "SELECT count(value) FROM gx_cells('A')") == 160000


# ---- memory -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tiny_memory_limit(db, dtype):
    """Three tiles of 256 bytes, most of it taken by what the connection itself needs."""
    A = store(db, "A", make(60, 50, dtype), tile_bytes=256)
    least = int(error(db, "SELECT gx_config('memory_limit', 1)").split("the floor of ")[1].split()[0])
    db.execute("SELECT gx_config('memory_limit', ?)", (least,)).fetchall()
    want = cells(A)
    for order in ("", "ORDER BY i, j", "ORDER BY j, i"):
        assert sorted(db.execute(f"SELECT i, j, value, imag FROM gx_cells('A') {order}")) == want
    assert q(db, "SELECT value FROM gx_cells('A') WHERE i = 59 AND j = 49") == A[59, 49].real
    for i, row in db.execute("SELECT i, row FROM gx_rows('A')"):
        assert (to_numpy(row)[0] == A[i]).all()


def test_a_row_that_does_not_fit_is_refused(db):
    A = store(db, "A", make(2, 60000), tile_bytes=4096)
    db.execute("SELECT gx_config('memory_limit', 100000)").fetchall()
    assert error(db, "SELECT row FROM gx_rows('A')").startswith("gx_rows: a row needs 480064 bytes but memory_limit")
    assert q(db, "SELECT sum(value) FROM gx_cells('A')") == A.sum()


def test_memory_goes_back(db):
    store(db, "A", make(300, 300))
    used = memory(db)
    for _ in range(3):
        q(db, "SELECT sum(value) FROM gx_cells('A')")
        q(db, "SELECT count(DISTINCT row) FROM gx_rows('A')")
        db.execute("SELECT value FROM gx_cells('A') LIMIT 3").fetchall()
        q(db, "SELECT sum(x.value) FROM gx_cells('A') x, gx_cells('A') y WHERE x.i = y.j AND x.j = y.i AND y.i < 50")
        error(db, "SELECT value FROM gx_cells('A'), gx_cells('no')")
        q(db, "SELECT sum(value) FROM gx_cells('[[1,2],[3,4]]')")
        assert memory(db) == used


def memory(db):
    return int(q(db, "SELECT value FROM gx_stats WHERE name = 'memory_used'"))


# ---- schemas and names --------------------------------------------------------------------------------------------

def test_schemas(tmp_path):
    db = gx_connect(str(tmp_path / "main.db"))
    db.execute("ATTACH ? AS other", (str(tmp_path / "other.db"),))
    for k, schema in enumerate(("main", "temp", "other"), 1):
        store(db, f"{schema}.A", np.full((20, 20), float(k)))
        assert q(db, f"SELECT sum(value) FROM gx_cells('{schema}.A')") == 400 * k
        db.execute(f"CREATE VIRTUAL TABLE {schema}.a{k} USING gx_cells('A')")
        assert q(db, f"SELECT sum(value) FROM a{k}") == 400 * k  # the matrix beside the table
        db.execute(f"CREATE VIRTUAL TABLE temp.t{k} USING gx_cells(\"{schema}.A\")")
        assert q(db, f"SELECT sum(value) FROM t{k} WHERE i = 19") == 20 * k
    assert q(db, "SELECT sum(value) FROM gx_cells('A')") == 800  # temp comes first, as with tables
    db.close()

    # The same file under another name: its table still finds its own matrix.
    db = gx_connect(":memory:")
    db.execute("ATTACH ? AS x", (str(tmp_path / "other.db"),))
    assert q(db, "SELECT sum(value) FROM x.a3") == 1200
    db.close()


@pytest.mark.parametrize("argument", ["'A''s \"b\"'", '"A\'s ""b"""', "`A's \"b\"`"])
def test_quoted_names(db, argument):
    db.execute("SELECT gx_store(?, '[[1,2],[3,4]]')", ("A's \"b\"",)).fetchall()
    db.execute(f"CREATE VIRTUAL TABLE a USING gx_cells({argument})")
    assert q(db, "SELECT sum(value) FROM a") == 10


def test_dotted_names_without_a_schema(db):
    error(db, "SELECT gx_store('no.A', '[1]')")
    db.execute("SELECT gx_store('main.x.y', '[1,2]')").fetchall()
    db.execute("CREATE VIRTUAL TABLE a USING gx_cells('x.y')")
    assert q(db, "SELECT sum(value) FROM a") == 3


# ---- wrong use ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("sql, text", [
    ("SELECT * FROM gx_cells", "gx_cells: expected a matrix, as in gx_cells('A')"),
    ("SELECT * FROM gx_rows", "gx_rows: expected a matrix, as in gx_rows('A')"),
    ("SELECT * FROM gx_cells('A', 1)", "too many arguments on gx_cells() - max 1"),
    ("SELECT * FROM gx_cells('no')", "gx_cells: no matrix named 'no'"),
    ("SELECT * FROM gx_rows(NULL)", "gx_rows: A is NULL"),
    ("SELECT * FROM gx_cells('[[1,2],[3]]')", "gx_cells: A is ragged: row 0 has 2 elements, row 1 has 1"),
    ("SELECT * FROM gx_cells(x'00')", "gx_cells: A is a blob of 1 bytes that is no matrix value (no 'gxmv' in front)"),
    ("CREATE VIRTUAL TABLE a USING gx_cells", "gx_cells: expected one name, as in USING gx_cells('A')"),
    ("CREATE VIRTUAL TABLE a USING gx_rows('A', 'B')", "gx_rows: expected one name, as in USING gx_rows('A')"),
    ("CREATE VIRTUAL TABLE a USING gx_cells('')", "gx_cells: a: '' is not the name of a stored matrix"),
    ("CREATE VIRTUAL TABLE a USING gx_cells('[[1]]')", "gx_cells: a: '[[1]]' is not the name of a stored matrix"),
])
def test_wrong_use(db, sql, text):
    assert error(db, sql) == text


def test_not_in_views_and_triggers(db):
    """Direct only: a hostile schema cannot make a query read matrices."""
    store(db, "A", make(3, 3))
    db.execute("CREATE VIEW v AS SELECT * FROM gx_cells('A')")
    db.execute("CREATE VIEW w AS SELECT * FROM gx_rows('A')")
    assert error(db, "SELECT * FROM v") == 'unsafe use of virtual table "gx_cells"'
    assert error(db, "SELECT * FROM w") == 'unsafe use of virtual table "gx_rows"'
