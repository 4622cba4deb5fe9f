"""Stored matrices are ordinary tables: everything SQLite does with a database works with them.

Plan:
1. BEGIN, COMMIT, ROLLBACK, SAVEPOINT; a failed storing call in each leaves what was there before
2. VACUUM, VACUUM INTO, the backup API, serialize, .dump and reload through the sqlite3 shell (with and without gx)
3. WAL: results, checkpoints, a reader that stays behind; replacing for ever makes neither file nor log longer, unless the
   application checkpoints by itself; where freed pages would be filled with zeros a matrix is written over the old one of its
   shape: not over an operand, and what fails, is rolled back or is read by others finds the old one
4. readable without gx: the SQL and the Python of docs/format.md
5. triggers, foreign keys, other users' tables in the same file are left alone
6. BEGIN ... ROLLBACK while a cursor is open
7. tiles of more pages than SQLite's cache has: in files that are kept in any of SQLite's ways; triggers and indexes get the
   elements; the disk is full in the middle of one, another connection reads meanwhile: the old state
"""
import os
import pathlib
import re
import resource
import shutil
import sqlite3
import subprocess

import numpy as np
import pytest
from conftest import ROOT, error, from_numpy, gx_connect, gx_path, q, to_numpy
from test_store import names, random

A = random("f64", 100, 130)
NEEDS_SHELL = pytest.mark.skipif(shutil.which("sqlite3") is None, reason="no sqlite3 shell: dumps are NOT tested")


@pytest.fixture
def db(monkeypatch, tmp_path):
    """A file with A, 100 x 130 in 5 x 6 tiles, and broken, a copy without its tile 7."""
    monkeypatch.setenv("GX_TILE_BYTES", "4096")
    db = gx_connect(str(tmp_path / "t.db"))
    db.execute("SELECT gx_store('A', ?), gx_store('broken', ?)", (from_numpy(A), from_numpy(A)))
    db.execute("DELETE FROM gx_tile WHERE id = (2 << 32) + 7")
    db.execute("CREATE TABLE t(a)")
    yield db
    db.close()


def is_whole(db, extra=()):
    """A is what it was, nothing half-stored is left, and the file is sound."""
    assert (to_numpy(q(db, "SELECT gx_copy('A')")) == A).all()
    assert names(db) == sorted(["A", "broken", *extra])
    assert q(db, "SELECT gx_check()") == "tile 7 of broken is missing"
    assert q(db, "PRAGMA main.integrity_check").startswith(("ok", "gx: tile 7 of broken is missing"))
    assert db.in_transaction is False


# 1. ------------------------------------------------------------------------------------------------

def test_rollback(db):
    db.execute("BEGIN")
    db.execute("SELECT gx_copy('A', 'B'), gx_copy('A', 'temp.T')")
    db.execute("DELETE FROM gx WHERE name = 'A'")
    db.execute("UPDATE gx SET name = 'C' WHERE name = 'broken'")
    assert names(db) == ["B", "C"]
    db.execute("ROLLBACK")
    is_whole(db)
    assert names(db, "temp.gx") == []


def test_commit(db):
    db.execute("BEGIN")
    db.execute("SELECT gx_copy('A', 'B')")
    other = gx_connect(db.execute("PRAGMA database_list").fetchone()[2])
    assert names(other) == ["A", "broken"]
    db.execute("COMMIT")
    assert names(other) == ["A", "B", "broken"]
    other.close()
    is_whole(db, ["B"])


def test_savepoints(db):
    db.execute("SAVEPOINT one")
    db.execute("SELECT gx_copy('A', 'B')")
    db.execute("SAVEPOINT two")
    db.execute("SELECT gx_copy('A', 'C'), gx_drop('B')")
    assert names(db) == ["A", "C", "broken"]
    db.execute("ROLLBACK TO two")
    assert names(db) == ["A", "B", "broken"]
    db.execute("SAVEPOINT gx_store")  # the name gx uses itself
    db.execute("SELECT gx_copy('A', 'D')")
    db.execute("RELEASE gx_store")
    db.execute("RELEASE one")
    is_whole(db, ["B", "D"])


FAILING = "gx_copy('broken', 'X')"


def test_failure_in_autocommit(db):
    assert error(db, f"SELECT {FAILING}") == "gx_copy: tile 7 of broken is missing"
    is_whole(db)


def test_failure_in_a_transaction(db):
    db.execute("BEGIN")
    db.execute("INSERT INTO t VALUES(1)")
    db.execute("SELECT gx_copy('A', 'B')")
    assert error(db, f"SELECT {FAILING}") == "gx_copy: tile 7 of broken is missing"
    db.execute("INSERT INTO t VALUES(2)")
    db.execute("COMMIT")
    assert q(db, "SELECT group_concat(a) FROM t") == "1,2"
    is_whole(db, ["B"])


@pytest.mark.parametrize("begin", ["SELECT 1", "BEGIN", "SAVEPOINT s"])
@pytest.mark.parametrize("sql", [
    f"INSERT INTO t VALUES({FAILING})",
    f"INSERT INTO t SELECT gx_copy('A', 'X' || value) FROM json_each('[1,2]') UNION ALL SELECT {FAILING}",
    f"UPDATE t SET a = {FAILING}",
    f"CREATE TABLE x AS SELECT {FAILING}",
    f"DELETE FROM t WHERE {FAILING}",
    "INSERT INTO gx(name, value) VALUES('Y', 'A'), ('X', 'broken')",
])
def test_failure_inside_a_writing_statement(db, begin, sql):
    db.execute("INSERT INTO t VALUES('kept')")
    db.execute(begin)
    assert "tile 7 of broken is missing" in error(db, sql)
    if begin != "SELECT 1":
        db.execute("COMMIT" if begin == "BEGIN" else "RELEASE s")
    assert q(db, "SELECT a FROM t") == "kept"
    assert q(db, "SELECT count(*) FROM gx_meta WHERE name IS NULL") == 0
    is_whole(db)


@pytest.mark.parametrize("call, look", [
    ("gx_store('@.X', '[1]')", "gx_exists('@.X')"),
    ("gx_drop('@.A')", "gx_exists('@.A')"),
    ("gx_set('@.A', 0, 0, 99)", "gx_get('@.A', 0, 0)"),
    ("gx_store('@.A', '[7]', '{\"replace\":true}')", "gx_shape('@.A')"),
    ("gx_set_property('@.A', 'lower')", "gx_info('@.A')"),
])
@pytest.mark.parametrize("schema", ["main", "temp", "aux"])
def test_a_statement_that_fails_after_its_calls(db, tmp_path, schema, call, look):
    """SQLite undoes it in the schema of its own table; the calls see to it that it does in theirs."""
    call, look = call.replace("@", schema), look.replace("@", schema)
    db.execute("ATTACH ? AS aux", (str(tmp_path / "aux.db"),))
    q(db, f"""SELECT gx_store('{schema}.A', '[[1,2],[3,4]]', '{{"replace":true}}')""")
    db.execute("CREATE TABLE u(a UNIQUE)")
    db.execute("INSERT INTO u VALUES('taken')")
    before = q(db, f"SELECT {look}")
    for begin, end in [("SELECT 1", "SELECT 1"), ("BEGIN", "COMMIT"), ("SAVEPOINT s", "RELEASE s")]:
        db.execute(begin)
        assert "UNIQUE" in error(db, f"INSERT INTO u SELECT {call} UNION ALL SELECT 'taken'")
        assert q(db, f"SELECT {look}") == before
        db.execute(end)
        assert q(db, f"SELECT {look}") == before and q(db, f"SELECT gx_check('{schema}.A')") == "ok"


def test_storing_inside_a_writing_statement(db):
    db.execute("INSERT INTO t SELECT gx_copy('A', 'X' || value) FROM json_each('[1,2]')")
    db.execute("CREATE TABLE x AS SELECT gx_copy('A', 'Y') AS name")
    assert db.execute("SELECT a FROM t UNION ALL SELECT name FROM x").fetchall() == [("X1",), ("X2",), ("Y",)]
    is_whole(db, ["X1", "X2", "Y"])


def test_first_matrix_inside_a_writing_statement(tmp_path):
    for sql in ["CREATE TABLE x AS SELECT gx_store('A', '[1,2]') AS a", "INSERT INTO x SELECT gx_store('A', '[1,2]')",
                "INSERT INTO gx(name, value) VALUES('A', '[1,2]')"]:
        db = gx_connect()
        db.execute("CREATE TABLE IF NOT EXISTS " + ("y" if "CREATE" in sql else "x") + "(a)")
        db.execute(sql)
        assert names(db) == ["A"]
        assert db.execute("SELECT name, schema FROM gx WHERE name = 'A'").fetchall() == [("A", "main")]
        db.execute("SELECT gx_store('B', '[1,2]')")
        assert names(db) == ["A", "B"] and q(db, "SELECT gx_check()") == "ok"
        db.close()


@pytest.mark.parametrize("schema", ["main", "aux"])
@pytest.mark.parametrize("sql, row", [
    ("SELECT gx_store('@.A', '[1]') UNION ALL SELECT x FROM u", ("@.A",)),
    ("SELECT gx_store('@.A', '[1]'), (SELECT count(*) FROM u WHERE x = 1)", ("@.A", 1)),
    ("SELECT gx_sum(gx_add(gx_store('@.A', '[1]'), (SELECT x FROM u)))", (2.0,)),
    ("SELECT gx_store('@.A', '[1]')", ("@.A",)),
    ("SELECT gx_store('@.A', x) FROM u", ("@.A",)),
    ("SELECT gx_store_cells('@.A', x, x, x) FROM u", ("@.A",)),
    ("WITH c AS (SELECT x AS m FROM u) SELECT gx_store('@.A', c.m) FROM c JOIN u", ("@.A",)),
])
def test_first_matrix_in_a_query_that_opens_tables(schema, sql, row):
    """SQLite would end a query that opens a table after a virtual table was made: none is."""
    db = gx_connect()
    db.execute("ATTACH ':memory:' AS aux")
    db.execute("CREATE TABLE u(x)")
    db.execute("INSERT INTO u VALUES(1)")
    first = db.execute(sql.replace("@", schema)).fetchall()[0]
    assert first == tuple(v.replace("@", schema) if isinstance(v, str) else v for v in row)
    assert q(db, f"SELECT gx_sum('{schema}.A')") == 1 and names(db, schema + ".gx") == ["A"]
    assert q(db, "SELECT gx_check()") == "ok"
    db.close()


def test_first_matrix_of_temp_inside_create_table(tmp_path):
    """SQLite would end it with "abort due to ROLLBACK": refused in words instead, and the way out works."""
    db = gx_connect(str(tmp_path / "test.db"))
    refused = ("CREATE TABLE ... AS SELECT cannot store the first matrix of temp: store one there before it, "
               "or use INSERT ... SELECT")
    for begin in ["SELECT 1", "BEGIN"]:
        db.execute(begin)
        for sql in ["CREATE TABLE x AS SELECT", " /* no */ -- no\n create temp table x as\nselect"]:
            assert error(db, sql + " gx_store('temp.A', '[1,2]') AS a") == f"gx_store: {refused}"
    db.execute("COMMIT")
    db.execute("CREATE TABLE t(a)")
    db.execute("INSERT INTO t SELECT gx_store('temp.A', '[1,2]')")
    db.execute("CREATE TABLE x AS SELECT gx_store('temp.B', '[1,2]') AS a")
    assert db.execute("SELECT a FROM t UNION ALL SELECT a FROM x").fetchall() == [("temp.A",), ("temp.B",)]
    assert names(db, "gx('temp')") == ["A", "B"]
    db.close()


def test_nested_calls(db):
    assert q(db, "SELECT gx_copy(gx_copy(gx_copy('A', 'B'), 'C'), 'D')") == "D"
    is_whole(db, ["B", "C", "D"])


# 2. ------------------------------------------------------------------------------------------------

def test_vacuum(db, tmp_path):
    db.execute("SELECT gx_copy('A', 'B'), gx_drop('broken'), gx_store('broken', 'A')")
    db.execute("DELETE FROM gx_tile WHERE id & 0xffffffff = 7 AND id >> 32 = (SELECT id FROM gx_meta WHERE name = 'broken')")
    db.execute("DELETE FROM gx WHERE name = 'B'")
    before = os.path.getsize(tmp_path / "t.db")
    db.execute("VACUUM")
    assert os.path.getsize(tmp_path / "t.db") < before
    is_whole(db)
    db.execute("VACUUM INTO ?", (str(tmp_path / "into.db"),))
    other = gx_connect(str(tmp_path / "into.db"))
    is_whole(other)
    other.close()


def test_backup(db, tmp_path):
    other = gx_connect(str(tmp_path / "backup.db"))
    db.backup(other)
    is_whole(other)
    other.execute("SELECT gx_copy('A', 'B')")
    is_whole(other, ["B"])
    other.close()


def test_serialize(db):
    if not hasattr(db, "serialize"):
        pytest.skip("this Python's sqlite3 has no Connection.serialize")
    other = gx_connect()
    other.deserialize(db.serialize())
    is_whole(other)
    other.close()


def shell(*args, script):
    done = subprocess.run(["sqlite3", "-batch", *args], input=script, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


@NEEDS_SHELL
@pytest.mark.parametrize("with_gx", [True, False])
def test_dump(db, tmp_path, with_gx):
    load = f".load {gx_path()}\n" if with_gx else ""
    dump = shell(str(tmp_path / "t.db"), script=load + ".dump\n")
    assert "VIRTUAL" not in dump and "writable_schema" not in dump
    shell(str(tmp_path / "new.db"), script=load + dump)
    other = gx_connect(str(tmp_path / "new.db"))
    is_whole(other)
    other.execute("SELECT gx_copy('A', 'B')")
    is_whole(other, ["B"])
    assert names(other, "main.gx") == ["A", "B", "broken"]
    other.close()


# 3. ------------------------------------------------------------------------------------------------

def test_wal(db, tmp_path):
    assert q(db, "PRAGMA journal_mode = wal") == "wal"
    behind = gx_connect(str(tmp_path / "t.db"))
    behind.execute("BEGIN")
    assert names(behind) == ["A", "broken"]
    db.execute("SELECT gx_copy('A', 'B')")
    db.execute("SELECT gx_store('A', '[1]', '{\"replace\":true}')")
    assert (to_numpy(q(behind, "SELECT gx_copy('A')")) == A).all()  # as it was when the transaction began
    behind.execute("COMMIT")
    assert to_numpy(q(behind, "SELECT gx_copy('A')")).tolist() == [[1]]
    behind.execute("SELECT gx_copy('B', 'A', '{\"replace\":true}')")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    behind.close()
    is_whole(db, ["B"])


def sizes(path):
    return [os.path.getsize(path + end) if os.path.exists(path + end) else 0 for end in ("", "-wal")]


def replaced(db, path, times, sql='SELECT gx_scale(\'A\', {}, \'B\', \'{{"replace":true}}\')'):
    for k in range(times):
        q(db, sql.format(k + 2))
    return sizes(path)


@pytest.mark.parametrize("secure", ["OFF", "FAST", "ON"])
@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_replacing_needs_no_more_room_each_time(tmp_path, journal, secure):
    path = str(tmp_path / "main.db")
    db = gx_connect(path)
    db.execute(f"PRAGMA journal_mode={journal}")
    db.execute(f"PRAGMA secure_delete={secure}")
    q(db, "SELECT gx_random(1000, 600, 'A')")  # 4.8 MB: more than the 1000 pages of an automatic checkpoint
    assert replaced(db, path, 8) == replaced(db, path, 2)
    assert sizes(path)[1] < 4 * 4.8e6
    db.execute("CREATE TABLE names AS SELECT 'A' AS name")  # a statement that reads meanwhile: later calls catch up
    replaced(db, path, 3, 'SELECT gx_scale(name, {}, \'B\', \'{{"replace":true}}\') FROM names')
    replaced(db, path, 3)
    assert replaced(db, path, 2) == replaced(db, path, 8)
    assert q(db, "SELECT gx_check()") == "ok" and q(db, "PRAGMA integrity_check") == "ok"
    db.close()


def test_an_application_that_checkpoints_by_itself(tmp_path):
    path = str(tmp_path / "main.db")
    db = gx_connect(path)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA wal_autocheckpoint=0")
    q(db, "SELECT gx_random(1000, 600, 'A')")
    first = sizes(path)
    assert replaced(db, path, 3)[1] > 3 * first[1] and sizes(path)[0] == first[0]
    db.close()


OVER = '{"replace":true}'


def row_id(db, name="B"):
    return q(db, f"SELECT id FROM gx_meta WHERE name = '{name}'")


def holds(db, wanted, name="B"):
    return (to_numpy(q(db, "SELECT gx_copy(?)", name)) == wanted).all() and q(db, "SELECT gx_check(?)", name) == "ok"


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_writing_over_the_old_one(db, tmp_path, journal):
    db.execute(f"PRAGMA journal_mode={journal}")
    db.execute("PRAGMA secure_delete=ON")
    q(db, "SELECT gx_copy('A', 'B')")
    first = row_id(db)
    other = gx_connect(str(tmp_path / "t.db"))
    assert holds(other, A)
    if journal == "WAL":
        other.execute("BEGIN")
        assert holds(other, A)
    q(db, "SELECT gx_scale('A', 2, 'B', ?)", OVER)
    assert holds(db, 2 * A) and row_id(db) == first
    assert holds(other, A if journal == "WAL" else 2 * A)  # in a snapshot, or after the commit
    other.rollback()
    assert holds(other, 2 * A)
    assert "tile 7 of broken is missing" in error(db, "SELECT gx_copy('broken', 'B', ?)", OVER)  # six tiles were written
    assert holds(db, 2 * A)
    db.execute("BEGIN")
    q(db, "SELECT gx_copy('A', 'B', ?)", OVER)
    assert "tile 7 of broken is missing" in error(db, "SELECT gx_copy('broken', 'B', ?)", OVER)
    assert holds(db, A) and row_id(db) == first
    db.execute("ROLLBACK")
    assert holds(db, 2 * A)
    db.execute("DELETE FROM gx_tile WHERE id = (? << 32) + 3", (first,))
    q(db, "SELECT gx_copy('A', 'B', ?)", OVER)
    assert holds(db, A) and row_id(db) == first
    other.close()


def test_what_is_not_written_over(db):
    db.execute("PRAGMA secure_delete=ON")
    q(db, "SELECT gx_copy('A', 'B')")
    first = row_id(db)
    q(db, "SELECT gx_transpose(gx_transpose('B'), 'B', ?)", OVER)  # a value: B is no operand of the call that stores
    assert holds(db, A) and row_id(db) == first
    for sql, wanted in [("SELECT gx_add('B', 'B', 'B', ?)", 2 * A), ("SELECT gx_eval('B := B * 2 - A', ?)", 3 * A),
                        ("SELECT gx_store('B', '[[1,2]]', ?)", [[1, 2]]), ("SELECT gx_copy('A', 'B', ?)", A),
                        ("SELECT gx_round('A', 'B', ?)", np.round(A))]:
        before = row_id(db)
        q(db, sql, OVER)
        assert holds(db, wanted), sql
        assert (row_id(db) == before) == ("gx_round" in sql), sql
    for secure in ("OFF", "FAST"):
        db.execute(f"PRAGMA secure_delete={secure}")
        before = row_id(db)
        q(db, "SELECT gx_copy('A', 'B', ?)", OVER)
        assert holds(db, A) and row_id(db) != before
    db.execute("PRAGMA secure_delete=ON")
    db.execute("CREATE TABLE words AS SELECT gx_copy('A', 'B', ?) AS word", (OVER,))  # a statement that writes: no savepoint
    assert holds(db, A)


# 4. ------------------------------------------------------------------------------------------------

def blocks(language):
    text = pathlib.Path(ROOT, "docs", "format.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def test_python_of_the_format(db, tmp_path):
    """The reader in docs/format.md, as it stands there, on a connection without gx."""
    programs = blocks("python")
    assert len(programs) == 1
    space = {}
    exec(programs[0], space)
    plain = sqlite3.connect(str(tmp_path / "t.db"))
    assert (space["read_matrix"](plain, "A") == A).all()
    for dtype in ["f32", "c128", "c64"]:
        want = random(dtype, 37, 90)
        db.execute("SELECT gx_store(?, ?)", (dtype, from_numpy(want)))
        got = space["read_matrix"](plain, dtype)
        assert got.dtype == want.dtype and (got == want).all()
    for dtype in ["f16", "u8", "bool", "i8", "u16", "i16", "u32", "i32", "bf16", "i64"]:
        want = np.array([[1, 0, 1], [0, 1, 1 if dtype == "bool" else 100]])
        db.execute("SELECT gx_store(?, gx_cast(?, ?))", (dtype, str(want.tolist()), dtype))
        got = space["read_matrix"](plain, dtype)
        if dtype == "bf16":
            got = (got.astype("<u4") << 16).view("<f4")
        assert (got == want).all(), dtype
    db.execute("SELECT gx_store('empty', ?)", (from_numpy(np.zeros((0, 3))),))
    assert space["read_matrix"](plain, "empty").shape == (0, 3)
    value = q(db, "SELECT gx_copy('A')")
    assert (space["read_value"](value) == A).all()
    plain.close()


# 5. ------------------------------------------------------------------------------------------------

def test_triggers_see_the_rows(db):
    db.execute("CREATE TABLE log(what)")
    db.execute("CREATE TRIGGER note AFTER UPDATE OF name ON gx_meta WHEN new.name IS NOT NULL BEGIN "
               "INSERT INTO log VALUES(new.name); END")
    db.execute("SELECT gx_copy('A', 'B')")
    assert q(db, "SELECT group_concat(what) FROM log") == "B"
    is_whole(db, ["B"])


def test_a_trigger_that_refuses(db):
    db.execute("CREATE TRIGGER no BEFORE INSERT ON gx_tile WHEN new.id & 0xffffffff = 3 BEGIN "
               "SELECT raise(ABORT, 'not tile 3'); END")
    assert error(db, "SELECT gx_copy('A', 'B')") == "gx_copy: writing tile 3 of B to main: not tile 3"
    db.execute("DROP TRIGGER no")
    is_whole(db)


@pytest.mark.parametrize("call", ["gx_copy('A', 'B')", "gx_copy('A', 'A', '{\"replace\":true}')", "gx_matmul('A', 'A', 'B', "
                                  "'{\"transa\":true}')"])
def test_a_trigger_that_takes_away(db, call):
    """No name is returned for a matrix that is not there."""
    db.execute("CREATE TRIGGER no AFTER INSERT ON gx_tile BEGIN DELETE FROM gx_meta WHERE name IS NULL; END")
    fn = call[:call.index("(")]
    assert error(db, f"SELECT {call}") == f"{fn}: the matrix with id 3 of main was taken away meanwhile"
    db.execute("DROP TRIGGER no")
    assert error(db, "UPDATE gx SET name = 'x' WHERE gx_drop(name) IS NOT NULL") == (
        "gx: the matrix with id 1 of main was taken away meanwhile")
    is_whole(db)


def test_foreign_keys(db):
    db.execute("PRAGMA foreign_keys = 1")
    db.execute("CREATE TABLE uses(matrix TEXT REFERENCES gx_meta(name))")
    db.execute("INSERT INTO uses VALUES('A')")
    assert error(db, "SELECT gx_drop('A')") == "gx_drop: deleting from main: FOREIGN KEY constraint failed"
    is_whole(db)


# ---- a cursor that is open meanwhile ------------------------------------------------------------------------------

def test_a_rollback_under_an_open_cursor(tmp_path):
    """What the cursor's look-ups have kept of a database is looked at again."""
    db = gx_connect(str(tmp_path / "main.db"))
    db.execute("ATTACH ? AS aux", (str(tmp_path / "aux.db"),))
    q(db, "SELECT gx_store('aux.A', '[[1,2],[3,4]]')")
    cursor = db.execute("SELECT value FROM gx_cells('aux.A')")
    assert cursor.fetchone() == (1.0,)
    for attempt in range(2):  # the tables of main go with the ROLLBACK, then they are there
        db.execute("BEGIN")
        q(db, "SELECT gx_store('B', '[[1]]')")
        assert q(db, "SELECT gx_json('B')") == "[[1.0]]"
        db.execute("ROLLBACK")
        assert q(db, "SELECT gx_exists('B')") == 0
        assert error(db, "SELECT gx_json('B')") == "gx_json: no matrix named 'B'"
        assert q(db, f"SELECT gx_matmul('aux.A', 'aux.A', 'C{attempt}')") == f"C{attempt}"
    assert cursor.fetchall() == [(3.0,), (2.0,), (4.0,)]
    assert names(db) == ["C0", "C1"]
    db.close()


def test_a_statement_rolled_back_under_an_open_cursor(tmp_path):
    """SQLite itself believes in the tables that the statement had made until it looks at the file again."""
    db = gx_connect(str(tmp_path / "main.db"))
    db.execute("ATTACH ? AS aux", (str(tmp_path / "aux.db"),))
    db.execute("CREATE TABLE t(a)")
    q(db, "SELECT gx_store('aux.A', '[[1,2],[3,4]]')")
    db.execute("BEGIN")
    cursor = db.execute("SELECT value FROM gx_cells('aux.A')")
    assert cursor.fetchone() == (1.0,)
    assert error(db, "INSERT INTO t SELECT gx_store('B', '[1]') UNION ALL SELECT gx_json('C')") == (
        "gx_json: no matrix named 'C'")
    assert error(db, "SELECT gx_json('B')") == "gx_json: no matrix named 'B'"
    assert q(db, "SELECT gx_store('B', 'aux.A')") == "B"
    assert cursor.fetchall() == [(3.0,), (2.0,), (4.0,)]
    db.execute("COMMIT")
    assert names(db) == ["B"] and q(db, "SELECT gx_check()") == "ok"
    db.close()


LARGE = np.random.default_rng(0).standard_normal((1700, 900))  # two tiles


def large_file(path, **pragmas):
    return gx_connect(str(path), **{"cache_size": 8, **pragmas})


def store_large(db, array, options="{}"):
    db.execute("SELECT gx_store('L', ?, ?)", (from_numpy(array), options)).fetchall()


def is_large(db, array):
    assert np.array_equal(to_numpy(q(db, "SELECT gx_copy('L')")), array)
    return q(db, "PRAGMA integrity_check") == q(db, "SELECT gx_check()") == "ok"


@pytest.mark.parametrize("pragmas", [{"page_size": 512}, {"page_size": 65536}, {"journal_mode": "wal"}, {"auto_vacuum": "full"}, {"cache_size": -100000},
                                     {"cache_spill": "off"}, {"journal_mode": "off"}, {"journal_mode": "memory"}, {"locking_mode": "exclusive"},
                                     {"mmap_size": 1 << 30}, {"synchronous": "full"}, {"secure_delete": "on"}],
                         ids=lambda p: "-".join(map(str, *p.items())))
def test_large_tiles_in_files_of_all_kinds(tmp_path, pragmas):
    db = large_file(tmp_path / "l.db", **pragmas)
    store_large(db, LARGE)
    assert is_large(db, LARGE)
    store_large(db, LARGE[:1111], '{"replace":true}')
    assert is_large(db, LARGE[:1111])
    db.close()
    db = gx_connect(str(tmp_path / "l.db"))
    assert is_large(db, LARGE[:1111])
    db.close()


@pytest.mark.parametrize("watcher", ["CREATE TRIGGER w AFTER INSERT ON gx_tile BEGIN INSERT INTO seen VALUES(substr(new.data, -8)); END",
                                     "CREATE INDEX w ON gx_tile(substr(data, -8))"], ids=["trigger", "index"])
def test_triggers_and_indexes_get_the_elements_of_large_tiles(tmp_path, watcher):
    db = large_file(tmp_path / "l.db")
    db.execute("SELECT gx_ones(2, 2, 'R')").fetchall()
    db.execute("CREATE TABLE seen(a)")
    db.execute(watcher)
    store_large(db, LARGE)
    ends = {row[0] for row in db.execute("SELECT substr(data, -8) FROM gx_tile WHERE length(data) > 100000")}
    if "TRIGGER" in watcher:
        assert {row[0] for row in db.execute("SELECT a FROM seen")} == ends
    assert LARGE[-1, -1].tobytes() in ends and is_large(db, LARGE)
    db.close()


def test_the_disk_is_full_within_a_tile(tmp_path):
    path = str(tmp_path / "l.db")
    db = large_file(path, page_size=65536)
    store_large(db, LARGE[:500])
    size = os.path.getsize(path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for more in (100000, 1 << 20, 5000000, 12000000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + more, limits[1]))
        try:
            said = error(db, "SELECT gx_store('M', ?)", from_numpy(LARGE))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert "disk I/O error" in said or "full" in said
        assert names(db) == ["L"] and is_large(db, LARGE[:500])  # which plays the journal back
        assert os.path.getsize(path) == size
    store_large(db, LARGE, '{"replace":true}')
    assert is_large(db, LARGE)
    db.close()


def test_a_reader_is_in_the_way_of_large_tiles(tmp_path):
    path = str(tmp_path / "l.db")
    db, other = large_file(path, busy_timeout=50), gx_connect(path)
    store_large(db, LARGE[:500])
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM gx_meta").fetchall()
    assert "locked" in error(db, "SELECT gx_store('L', ?, '{\"replace\":true}')", from_numpy(LARGE))
    assert is_large(other, LARGE[:500])
    other.execute("COMMIT")
    assert is_large(db, LARGE[:500])
    store_large(db, LARGE, '{"replace":true}')
    assert is_large(other, LARGE)
    db.close()
    other.close()
