"""gx_from_table: matrices of tables and views by their names.

Plan
 1. Tables of 1 to 2000 columns against NumPy: as values, stored, in every dtype, within little memory; no rows.
 2. Listed columns: order, twice, names with quotes, commas, dots, of other cases; rowid under its three names.
 3. Order of rows: rowid, INTEGER PRIMARY KEY, WITHOUT ROWID, a primary key of two columns, views.
 4. Where the name is looked for: temp before main, attached, "schema.name", a name with a dot, virtual tables.
 5. Refused: what is missing, what is no number, where the result cannot go; nothing is left behind. Authorizers.
"""
import json
import sqlite3

import numpy as np
import pytest
from conftest import error, q, to_numpy

DTYPES = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}


def make(db, name, array, names=None, extra=""):
    names = names or [f"c{j}" for j in range(array.shape[1])]
    quoted = ", ".join('"' + n.replace('"', '""') + '"' for n in names)
    db.execute(f"CREATE TABLE {name}({quoted}{extra})")
    db.execute("BEGIN")
    db.executemany(f"INSERT INTO {name} VALUES({', '.join('?' * len(names))})", array.tolist())
    db.execute("COMMIT")


def table(db, *args):
    return to_numpy(q(db, f"SELECT gx_from_table({', '.join('?' * len(args))})", *args))


# ---- 1. shapes -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (5, 1), (7, 127), (40, 128), (30, 2000)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_shapes(db, shape, dtype):
    array = np.random.default_rng(3).standard_normal(shape)
    make(db, "t", array)
    options = json.dumps({"dtype": dtype})
    got = table(db, "t", options)
    assert got.dtype == DTYPES[dtype] and np.array_equal(got, array.astype(DTYPES[dtype])) and got.shape == shape
    assert q(db, "SELECT gx_from_table('t', NULL, 'A', ?)", options) == "A"
    assert np.array_equal(to_numpy(q(db, "SELECT gx_copy('A')")), got)
    assert q(db, "SELECT gx_from_table('t', 'B')") == "B"
    assert np.array_equal(to_numpy(q(db, "SELECT gx_copy('B')")), array)
    assert q(db, "SELECT gx_check()") == "ok"


@pytest.mark.parametrize("shape", [(20000, 3), (300, 130)])
def test_little_memory(filedb, shape):
    db, array = filedb, np.random.default_rng(4).standard_normal(shape)
    make(db, "t", array)
    q(db, "SELECT gx_config('tile_bytes', '16384')")
    q(db, "SELECT gx_config('memory_limit', '150000')")
    q(db, "SELECT gx_stats_reset()")
    assert q(db, "SELECT gx_from_table('t', 'A')") == "A"
    assert q(db, "SELECT value FROM gx_stats WHERE name = 'spills'") > 0
    assert q(db, "SELECT value FROM gx_stats WHERE name = 'memory_peak'") <= 150000
    q(db, "SELECT gx_config('memory_limit', '1GiB')")
    assert np.array_equal(to_numpy(q(db, "SELECT gx_copy('A')")), array)


def test_integers_are_numbers(db):
    db.execute("CREATE TABLE t(a, b INTEGER, c AS (b * 2))")
    db.execute("INSERT INTO t VALUES (1.5, 7), (2, 9007199254740992)")
    assert table(db, "t").tolist() == [[1.5, 7, 14], [2, 2.0**53, 2.0**54]]


# ---- 2. columns ------------------------------------------------------------------------------------------------------

NAMES = ["a", "b,c", 'q"q', "d.e", "x'y", "[z]", "select", "é", "rowid", "; DROP TABLE t; --"]


def test_listed_columns(db):
    array = np.arange(30.0).reshape(3, 10)
    make(db, "t", array, NAMES)
    assert np.array_equal(table(db, "t"), array)
    for j, name in enumerate(NAMES):
        assert table(db, "t", json.dumps([name]))[:, 0].tolist() == array[:, j].tolist()
    order = [4, 0, 9, 0, 2]
    assert np.array_equal(table(db, "t", json.dumps([NAMES[j] for j in order])), array[:, order])
    assert np.array_equal(table(db, "t", ' ["A", "SELECT"]'), array[:, [0, 6]])
    assert q(db, "SELECT count(*) FROM t") == 3


@pytest.mark.parametrize("taken", [[], ["rowid"], ["rowid", "_rowid_"], ["rowid", "_rowid_", "oid"]])
def test_the_rowid_by_any_name(db, taken):
    make(db, "t", np.arange(8.0)[::-1].reshape(4, 2).repeat(2, 1)[:, :len(taken) + 1], ["a", *taken])
    assert table(db, "t")[:, 0].tolist() == [7, 5, 3, 1]


# ---- 3. order --------------------------------------------------------------------------------------------------------

def test_order(db):
    db.execute("CREATE TABLE k(id INTEGER PRIMARY KEY, x)")
    db.execute("CREATE INDEX by_x ON k(x, id)")  # a shorter way, in another order
    db.executemany("INSERT INTO k VALUES (?, ?)", [(5, 1), (-3, 2), (40000000000, 0)])
    assert table(db, "k").tolist() == [[-3, 2], [5, 1], [40000000000, 0]]
    assert table(db, "k", '["x"]').tolist() == [[2], [1], [0]]
    db.execute("CREATE TABLE w(b, a, x, PRIMARY KEY(a, b DESC)) WITHOUT ROWID")
    db.execute("CREATE INDEX w_x ON w(x)")
    db.executemany("INSERT INTO w VALUES (?, ?, ?)", [(1, 2, 0), (2, 1, 5), (1, 1, 9)])
    assert table(db, "w").tolist() == [[1, 1, 9], [2, 1, 5], [1, 2, 0]]
    db.execute("CREATE VIEW v AS SELECT x, id FROM k ORDER BY x DESC LIMIT 2")
    assert table(db, "v").tolist() == [[2, -3], [1, 5]]
    assert table(db, "v", '["id"]').tolist() == [[-3], [5]]


# ---- 4. names --------------------------------------------------------------------------------------------------------

def test_where_names_are(db, tmp_path):
    db.execute(f"ATTACH '{tmp_path}/b.db' AS \"other db\"")
    for k, name in enumerate(["main.t", "temp.t", '"other db".t', '"other db".u', '"a.b"', '"te""st"']):
        db.execute(f"CREATE TABLE {name} AS SELECT {k} AS x")
    for name, k in (("t", 1), ("main.t", 0), ("temp.t", 1), ("other db.t", 2), ("u", 3), ("a.b", 4), ("main.a.b", 4), ('te"st', 5), ("T", 1)):
        assert table(db, name).tolist() == [[k]], name
    q(db, "SELECT gx_store('M', '[[1,2],[3,4]]')")
    db.execute("CREATE VIRTUAL TABLE m USING gx_cells('M')")
    assert table(db, "m", '["i","j","value"]').tolist() == [[0, 0, 1], [1, 0, 3], [0, 1, 2], [1, 1, 4]]
    assert q(db, "SELECT gx_from_table('other db.u', 'other db.U')") == "other db.U"


# ---- 5. refused ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("call, text", [
    ("'nosuch'", "table 'nosuch': no such table: nosuch"),
    ("'nosuch.t'", "table 'nosuch.t': no such table: nosuch.t"),
    ("'t\" UNION SELECT 1 --'", "table 't\" UNION SELECT 1 --': no such table: t\" UNION SELECT 1 --"),
    ("NULL", "name must be a text, not NULL"),
    ("7", "name must be a text, not 7"),
    ("''", "table '': no such table: "),
    ("'t'", "column 'kind' of row 1 is 'a kind of a kind of a ki'..., not a number: columns may be listed, '[\"a\",\"b\"]'"),
    ("'t', '[\"x\",\"y\"]'", "column 'y' of row 1 is NULL, not a number"),
    ("'t', '[\"z\"]'", "column 'z' of row 1 is a blob of 2 bytes, not a number: columns may be listed, '[\"a\",\"b\"]'"),
    ("'t', '[\"kinds\"]'", "table 't' has no column 'kinds': did you mean 'kind'?"),
    ("'t', '[\"rowid\"]'", "table 't' has no column 'rowid'"),
    ("'t', '[\"x\",1]'", "columns must be a JSON list of names, '[\"a\",\"b\"]'"),
    ("'t', '[[\"x\"]]'", "columns must be a JSON list of names, '[\"a\",\"b\"]'"),
    ("'t', '[]'", "columns lists none"),
    ("'t', '[\"x\"'", "columns: malformed JSON"),
    ("'t', 'x', 'A'", "columns must be a JSON list of names, '[\"a\",\"b\"]', not 'x'"),
    ("'t', 7", "columns must be a text, not 7"),
    ("'t', '[\"x\"]', 'before'", "matrix 'before' already exists (use '{\"replace\":true}')"),
    ("'t', '[\"x\"]', '{\"order\":1}'", 'unknown option "order": the known ones are "dtype", "saturate" and "replace"'),
])
def test_refused(db, call, text):
    db.execute("CREATE TABLE t(kind, x, y, z)")
    db.execute("INSERT INTO t VALUES (1, 1, 1, 0), ('a kind of a kind of a kind', 2, NULL, x'0102')")
    q(db, "SELECT gx_ones(2, 2, 'before')")
    memory = q(db, "SELECT value FROM gx_stats WHERE name = 'memory_used'")
    assert error(db, f"SELECT gx_from_table({call})") == "gx_from_table: " + text
    assert db.execute("SELECT name, rows FROM gx").fetchall() == [("before", 2)] and not db.in_transaction
    assert q(db, "SELECT value FROM gx_stats WHERE name = 'memory_used'") == memory


def test_not_from_views_or_triggers(db):
    db.execute("CREATE TABLE t(x)")
    db.execute("CREATE VIEW v AS SELECT gx_from_table('t') AS m")
    assert "unsafe use of gx_from_table" in error(db, "SELECT m FROM v")
    db.execute("CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT gx_from_table('t', 'A', '{\"replace\":true}'); END")
    assert "unsafe use of gx_from_table" in error(db, "INSERT INTO t VALUES (1)")


def test_what_is_not_committed_is_seen(filedb):
    db = filedb
    db.execute("CREATE TABLE t(x)")
    db.execute("BEGIN")
    db.execute("INSERT INTO t VALUES (4), (5)")
    assert q(db, "SELECT gx_from_table('t', 'A')") == "A"
    assert q(db, "SELECT gx_json('A')") == "[[4.0],[5.0]]"
    db.execute("ROLLBACK")
    assert q(db, "SELECT count(*) FROM gx") == 0 and q(db, "SELECT gx_shape(gx_from_table('t'))") == "[0,1]"


def test_authorizers(db):
    db.execute("CREATE TABLE t(x, secret)")
    db.execute("INSERT INTO t VALUES (1, 2)")

    def answer(how):
        def judge(action, table, column, *_):
            return how if action == sqlite3.SQLITE_READ and column == "secret" else sqlite3.SQLITE_OK
        db.set_authorizer(judge)

    answer(sqlite3.SQLITE_DENY)
    assert "prohibited" in error(db, "SELECT gx_from_table('t')")
    answer(sqlite3.SQLITE_IGNORE)
    assert error(db, "SELECT gx_from_table('t')") == "gx_from_table: column 'secret' of row 0 is NULL, not a number"
    assert to_numpy(q(db, "SELECT gx_from_table('t', '[\"x\"]')")).tolist() == [[1]]


def test_interrupt(filedb):
    import threading
    db = filedb
    db.execute("CREATE VIEW v AS WITH RECURSIVE s(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM s) SELECT k FROM s")
    timer = threading.Timer(0.3, db.interrupt)
    timer.start()
    assert error(db, "SELECT gx_from_table('v', 'A')").endswith("interrupted")
    timer.join()
    assert q(db, "SELECT count(*) FROM gx") == 0 and q(db, "SELECT gx_check()") == "ok"
