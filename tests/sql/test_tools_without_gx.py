"""Databases with matrices in the hands of tools that do not have gx, and the table gx, which is in no database.

Plan:
1. without gx: the schema is plain tables; what browsers and ORMs send works (PRAGMA table_info and table_xinfo of all tables,
   SELECT of every one, ALTER TABLE RENAME, VACUUM, integrity_check), SQLAlchemy reflects; iterdump and the backup API restore all;
2. with gx: the same, SQLAlchemy, and every column of gx named, also of factorisations, damaged and too large matrices;
3. which database gx is: with each way of writing it, in joins, views of temp, functions that run statements;
   two in one statement are refused in words, and nothing is dropped from another database than the one that was meant;
4. databases with the table of gx 0.1: they work as before, also attached beside one without; DROP TABLE gx makes them plain
   and leaves the matrices;
5. a format that this gx does not know: nothing is written, dropped or renamed, by any way there is.
"""
import shutil
import sqlite3

import numpy as np
import pytest
from conftest import error, from_numpy, gx_connect, gx_path, q, to_numpy

sqlalchemy = None
try:
    import sqlalchemy
except ImportError:
    pass

REPLACE = '\'{"replace":true}\''
OLD = "CREATE VIRTUAL TABLE gx USING gx_catalog"


def names(db, table="gx"):
    return [row[0] for row in db.execute(f"SELECT name FROM {table} ORDER BY name")]


def filled(path, volumes=0, old=False):
    """Every kind of matrix."""
    db = gx_connect(str(path))
    q(db, "SELECT gx_config('tile_bytes', 4096)")
    if old:
        db.execute(OLD)
    if volumes:
        q(db, f"SELECT gx_volumes({volumes})")
    q(db, "SELECT gx_randn(60, 50, 'A', '{\"seed\":1}')")
    q(db, "SELECT gx_sparse(gx_randn(40, 40, '{\"seed\":2}'), 1, 'S')")
    q(db, "SELECT gx_lu(gx_randn(30, 30, '{\"seed\":3}'), 'F')")
    q(db, "SELECT gx_cast('[[1,2]]', 'c128', 'Z')")
    db.execute("CREATE TABLE notes(id INTEGER PRIMARY KEY, text TEXT)")
    db.execute("INSERT INTO notes(text) VALUES('kept')")
    return db


# 1. ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("volumes", [0, 2])
def test_a_database_is_plain_tables(tmp_path, volumes):
    db = filled(tmp_path / "a.db", volumes)
    sums = [q(db, f"SELECT gx_norm('{name}')") for name in "ASZ"]
    db.close()
    plain = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    tables = [name for name, in plain.execute("SELECT name FROM sqlite_master WHERE sql NOT NULL ORDER BY name")]
    assert tables == (["gx_extent"] if volumes else []) + ["gx_meta", "gx_state", "gx_tile"] + (
        ["gx_volumes"] if volumes else []) + ["notes"]
    for table in tables:
        assert plain.execute(f'PRAGMA table_info("{table}")').fetchall()
        assert plain.execute(f'PRAGMA table_xinfo("{table}")').fetchall()
        assert plain.execute(f'PRAGMA foreign_key_list("{table}")').fetchall() == []
        plain.execute(f'PRAGMA index_list("{table}")').fetchall()
        assert plain.execute(f'SELECT * FROM "{table}" LIMIT 5').fetchall()
    for sql in ["ALTER TABLE notes RENAME TO remarks", "ALTER TABLE remarks RENAME COLUMN text TO words", "VACUUM",
                "PRAGMA integrity_check", "ANALYZE"]:
        assert plain.execute(sql).fetchall() in ([], [("ok",)])
    plain.close()
    db = gx_connect(str(tmp_path / "a.db"))
    assert [q(db, f"SELECT gx_norm('{name}')") for name in "ASZ"] == sums and q(db, "SELECT gx_check()") == "ok"


def test_iterdump_restores(tmp_path):
    db = filled(tmp_path / "a.db")
    plain = sqlite3.connect(tmp_path / "a.db")
    script = "\n".join(plain.iterdump())
    assert "\n".join(db.iterdump()) == script
    new = sqlite3.connect(tmp_path / "b.db")
    new.executescript(script)
    new.close()
    copy = gx_connect(str(tmp_path / "b.db"))
    assert names(copy) == names(db) == ["A", "F", "S", "Z"] and q(copy, "SELECT gx_check()") == "ok"
    assert q(copy, "SELECT gx_copy('A')") == q(db, "SELECT gx_copy('A')")
    q(copy, "SELECT gx_store('B', '[1]')")
    assert q(copy, "SELECT gx_check()") == "ok"


def listened(engine):
    @sqlalchemy.event.listens_for(engine, "connect")
    def load(connection, _record):
        connection.enable_load_extension(True)
        connection.load_extension(gx_path())


@pytest.mark.skipif(sqlalchemy is None, reason="SQLAlchemy is not installed")
@pytest.mark.parametrize("with_gx", [False, True])
def test_sqlalchemy_reflects(tmp_path, with_gx):
    filled(tmp_path / "a.db", volumes=2).close()
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/a.db")
    if with_gx:
        listened(engine)
    metadata = sqlalchemy.MetaData()
    metadata.reflect(engine, views=True)
    assert set(metadata.tables) == {"gx_meta", "gx_tile", "gx_state", "gx_extent", "gx_volumes", "notes"}
    assert [c.name for c in metadata.tables["gx_meta"].columns][:4] == ["id", "name", "rows", "cols"]
    with engine.connect() as connection:
        rows = connection.execute(sqlalchemy.select(metadata.tables["gx_meta"].c.name)).fetchall()
        assert sorted(rows) == [("A",), ("F",), ("S",), ("Z",)]
    engine.dispose()


# 2. ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("old", [False, True])
def test_every_column_of_gx(tmp_path, old):
    """As Datasette asks: each column that table_xinfo names, the hidden ones too."""
    db = filled(tmp_path / "a.db", old=old)
    columns = [row[1] for row in db.execute('PRAGMA table_xinfo("gx")')]
    assert columns[-2:] == ["schema", "value"]
    select = "SELECT " + ", ".join(f"[{name}]" for name in columns) + " FROM [gx] ORDER BY [name] LIMIT 101"
    values = {row[0]: row[-1] for row in db.execute(select)}
    assert {name: value is None for name, value in values.items()} == {"A": False, "F": True, "S": False, "Z": False}
    assert (to_numpy(values["A"]) == to_numpy(q(db, "SELECT gx_copy('A')"))).all()
    limit = db.getlimit(sqlite3.SQLITE_LIMIT_LENGTH) if hasattr(db, "getlimit") else None
    if limit:  # of 24 kB A is too long; S, 40 entries in a row, too
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 20000)
        values = {row[0]: row[-1] for row in db.execute(select)}
        assert values["A"] is None and values["Z"] is not None
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limit)
    q(db, "SELECT gx_randn(1000, 1000, 'L')")
    q(db, "SELECT gx_config('memory_limit', 2000000)")
    assert {row[0]: row[-1] for row in db.execute(select)}["L"] is None
    q(db, "SELECT gx_config('memory_limit', 100000000)")
    db.execute("DELETE FROM gx_tile WHERE id >> 32 = (SELECT id FROM gx_meta WHERE name = 'A')")
    db.execute("UPDATE gx_meta SET dtype = 77 WHERE name = 'Z'")
    values = {row[0]: row[-1] for row in db.execute(select)}
    assert values["A"] is None and values["Z"] is None and values["L"] is not None
    assert "is missing" in error(db, "SELECT gx_copy('A')")  # says why
    assert "value" in error(db, "INSERT INTO gx(name, value) SELECT 'N', value FROM gx WHERE name = 'A'")


# 3. ------------------------------------------------------------------------------------------------


@pytest.fixture(params=["none", "old main", "old aux", "both old"])
def three(request, tmp_path):
    """main has A and M, aux A and X, temp A and T; as gx 0.1 made them or not."""
    for schema in ("main", "aux"):
        made = gx_connect(str(tmp_path / f"{schema}.db"))
        if schema in request.param or "both" in request.param:
            made.execute(OLD)
        made.execute("SELECT gx_store('A', '[1]'), gx_store(?, '[1]')", ("M" if schema == "main" else "X",))
        made.close()
    db = gx_connect(str(tmp_path / "main.db"))
    db.execute("ATTACH ? AS aux", (str(tmp_path / "aux.db"),))
    db.execute("SELECT gx_store('temp.A', '[1]'), gx_store('temp.T', '[1]')")
    db.execute("CREATE TABLE main.t(x)")
    yield db
    db.close()


HAS = {"main": ["A", "M"], "aux": ["A", "X"], "temp": ["A", "T"]}


@pytest.mark.parametrize("table, schema", [
    ("gx", "main"), ("main.gx", "main"), ("aux.gx", "aux"), ("temp.gx", "temp"), ("AUX.GX", "aux"), ('"aux"."gx"', "aux"),
    ("[aux].[gx]", "aux"), ("`aux`.gx", "aux"), ("aux . gx", "aux"), ("aux/* main. */.gx", "aux"), ("aux.--gx\ngx", "aux"),
    ("aux.gx AS gx", "aux"), ("aux.gx AS main", "aux"), ("(SELECT * FROM aux.gx)", "aux"), ("gx AS aux", "main"),
    ("(aux.gx)", "aux"), ("t, aux.gx", None), ("gx('aux')", "aux"), ("gx('temp')", "temp"),
])
def test_which_database_is_meant(three, table, schema):
    three.execute("INSERT INTO t VALUES(1)")
    expected = HAS[schema or "aux"]
    assert names(three, table) == expected
    assert [row[0] for row in three.execute(f"WITH c AS (SELECT 'main.gx' AS k, name FROM {table}) SELECT name FROM c "
                                            "ORDER BY name")] == expected
    assert three.execute(f"SELECT count(*) FROM {table} WHERE name = 'A' /* gx, main.gx */").fetchall() == [(1,)]
    for running in three.execute("SELECT name FROM main.gx"):  # stands on a row: not the one that asks
        assert names(three, table) == expected
    assert q(three, f"SELECT (SELECT max(name) FROM {table}) || 'gx'") == expected[1] + "gx"


@pytest.mark.parametrize("table, schema", [("gx", "main"), ("main.gx", "main"), ("aux.gx", "aux"), ("temp.gx", "temp")])
def test_changes_go_to_the_database_that_is_meant(three, table, schema):
    def now():
        return {s: names(three, f"gx('{s}')") for s in HAS}
    three.execute(f"UPDATE {table} SET name = 'B' WHERE name = 'A'")
    assert now() == {**HAS, schema: sorted(["B", HAS[schema][1]])}
    three.execute(f"INSERT INTO {table}(name, value) VALUES('A', 1), ('N', 2)")
    three.execute(f"INSERT INTO {table}(name, value) SELECT 'C', value FROM gx('main') LIMIT 1")
    assert now() == {**HAS, schema: sorted(["A", "B", "C", "N", HAS[schema][1]])}
    three.execute(f"DELETE FROM {table} WHERE name IN ('A', 'B', 'C', 'N')")
    assert now() == {**HAS, schema: [HAS[schema][1]]}
    three.execute(f"REPLACE INTO {table}(name, value) VALUES('A', 3)")
    three.execute(f"INSERT OR IGNORE INTO {table}(name, value) VALUES('A', 4)")
    assert q(three, f"SELECT gx_sum('{schema}.A')") == 3
    three.execute(f"DELETE FROM {table}")
    assert now() == {**HAS, schema: []} and q(three, "SELECT gx_check()") == "ok"


def test_between_databases(three):
    three.execute("INSERT INTO aux.gx(name, value) SELECT 'of main', value FROM main.gx WHERE name = 'M'")
    three.execute("INSERT INTO gx(name, value) SELECT 'of aux', value FROM aux.gx WHERE name = 'X'")
    three.execute("INSERT INTO temp.gx(name, value) SELECT 'of gx', value FROM gx WHERE name = 'M'")
    assert (names(three), names(three, "aux.gx"), names(three, "temp.gx")) == (
        ["A", "M", "of aux"], ["A", "X", "of main"], ["A", "T", "of gx"])
    assert three.execute("SELECT a.name FROM gx('main') m JOIN gx('aux') a USING(name)").fetchall() == [("A",)]


@pytest.mark.parametrize("sql", [
    "SELECT a.name FROM temp.gx t JOIN aux.gx a USING(name)",
    "DELETE FROM temp.gx WHERE name IN (SELECT name FROM aux.gx)",
    "SELECT name FROM temp.gx UNION ALL SELECT name FROM aux.gx",
    "WITH gx AS (SELECT name FROM aux.gx) SELECT t.name FROM gx, temp.gx t",
])
def test_two_databases_in_one_statement(three, sql):
    """Told apart where a database has a table of its own; else refused, or the one thing that can be meant."""
    before = {s: names(three, f"gx('{s}')") for s in HAS}
    try:
        rows = {row[0] for row in three.execute(sql)}
        assert q(three, "SELECT count(*) FROM aux.sqlite_master WHERE name = 'gx'") == 1
        assert "DELETE" in sql or rows in ({"A"}, {"A", "T", "X"})
        before["temp"] = ["T"] if "DELETE" in sql else before["temp"]
    except sqlite3.Error as problem:
        assert "which cannot be told apart: write gx('" in str(problem)
    assert {s: names(three, f"gx('{s}')") for s in HAS} == before


def test_views_of_temp(three):
    three.execute("CREATE TEMP VIEW here AS SELECT name FROM main.gx")
    three.execute("CREATE TEMP VIEW there AS SELECT name FROM aux.gx")
    three.execute("CREATE TEMP VIEW beyond AS SELECT name FROM there")
    assert names(three, "here") == HAS["main"] and names(three, "there") == names(three, "beyond") == HAS["aux"]
    assert names(three) == HAS["main"] and names(three, "aux.gx") == HAS["aux"]  # a view that is not used is no matter
    three.execute('CREATE TEMP VIEW "odd-name" AS SELECT name FROM temp.gx')
    assert names(three, '"odd-name"') == HAS["temp"]
    try:  # the view reads temp, and what is dropped is of aux
        three.execute("DELETE FROM aux.gx WHERE name IN (SELECT name FROM 'odd-name')")
        assert names(three, "gx('aux')") == ["X"]
    except sqlite3.Error as problem:
        assert "cannot be told apart" in str(problem) and names(three, "gx('aux')") == HAS["aux"]
    assert names(three, "gx('temp')") == HAS["temp"] and names(three, "gx('main')") == HAS["main"]
    three.execute("CREATE TEMP TRIGGER clean AFTER INSERT ON main.t BEGIN DELETE FROM gx WHERE name = new.x; END")
    assert error(three, "INSERT INTO t VALUES('A')") == 'unsafe use of virtual table "gx"'


def test_a_function_that_runs_statements(three):
    three.create_function("listed", 0, lambda: ",".join(names(three, "aux.gx")))
    assert three.execute("SELECT listed()").fetchall() == [("A,X",)]
    try:
        assert three.execute("SELECT name, listed() FROM main.gx ORDER BY name").fetchall() == [("A", "A,X"), ("M", "A,X")]
    except sqlite3.Error:  # two statements run, and it cannot tell which of them asks
        assert names(three, "aux.gx") == HAS["aux"]


def test_a_database_that_is_not_there(three):
    assert error(three, "SELECT * FROM nowhere.gx") == "gx: no database named 'nowhere'"
    assert error(three, "DELETE FROM nowhere.gx") == "gx: no database named 'nowhere'"
    assert error(three, "INSERT INTO nowhere.gx(name, value) VALUES('N', 1)") == "gx: no database named 'nowhere'"
    assert {s: names(three, f"gx('{s}')") for s in HAS} == HAS


# 4. ------------------------------------------------------------------------------------------------


def test_a_database_of_an_older_gx(tmp_path):
    db = filled(tmp_path / "a.db", old=True)
    assert q(db, "SELECT sql FROM sqlite_master WHERE name = 'gx'") == OLD
    assert names(db) == ["A", "F", "S", "Z"]
    db.execute("INSERT INTO gx(name, value) VALUES('N', 5)")
    db.execute("UPDATE gx SET name = 'R' WHERE name = 'N'")
    db.execute("DELETE FROM gx WHERE name = 'Z'")
    assert names(db) == ["A", "F", "R", "S"]
    plain = sqlite3.connect(tmp_path / "a.db")
    assert error(plain, 'PRAGMA table_info("gx")') == "no such module: gx_catalog"
    before = q(db, "SELECT gx_copy('A')")
    db.execute("DROP TABLE gx")
    assert plain.execute("SELECT count(*) FROM sqlite_master WHERE name = 'gx'").fetchall() == [(0,)]
    plain.close()
    assert names(db) == ["A", "F", "R", "S"] and q(db, "SELECT gx_copy('A')") == before and q(db, "SELECT gx_check()") == "ok"
    db.execute("DELETE FROM gx")
    assert names(db) == [] and q(db, "SELECT count(*) FROM gx_tile") == 0


def test_a_dump_of_an_older_gx(tmp_path):
    """The sqlite3 shell's, which writes the schema's row, and a script that has the statement."""
    db = filled(tmp_path / "a.db")
    script = OLD + ";\n" + "\n".join(line.replace("CREATE TABLE gx_", "CREATE TABLE IF NOT EXISTS gx_") for line in db.iterdump()
                                     ).replace("INSERT INTO", "INSERT OR REPLACE INTO")
    new = gx_connect(str(tmp_path / "b.db"))
    new.executescript(script)
    assert names(new) == names(db) and q(new, "SELECT gx_check()") == "ok"


# 5. ------------------------------------------------------------------------------------------------


WRITES = ["SELECT gx_store('N', '[1]')", f"SELECT gx_store('A', '[1]', {REPLACE})", "SELECT gx_copy('A', 'B')",
          "SELECT gx_rename('A', 'B')", "SELECT gx_drop('A')", "SELECT gx_set('A', 0, 0, 7)", "SELECT gx_volumes(2)",
          "SELECT gx_volumes(0)", "SELECT gx_vacuum()", "DELETE FROM gx", "DELETE FROM gx WHERE name = 'A'",
          "UPDATE gx SET name = 'B' WHERE name = 'A'", "INSERT INTO gx(name, value) VALUES('N', '[1]')",
          "REPLACE INTO gx(name, value) VALUES('A', '[1]')", "UPDATE cells SET value = 1", "DELETE FROM cells",
          "INSERT INTO cells(i, j, value) VALUES(0, 0, 1)", "SELECT gx_eval('N := eye(2)')",
          "SELECT gx_store_cells('N', 0, 0, 1)", "SELECT gx_store_rows('N', 0, '[1]')", "DROP TABLE gx",
          "SELECT gx_backup('copy.db')"]


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("volumes", [0, 2])
@pytest.mark.parametrize("sql", WRITES)
def test_an_unknown_format_is_not_touched(tmp_path, monkeypatch, sql, old, volumes):
    monkeypatch.chdir(tmp_path)
    db = filled("a.db", volumes=volumes, old=old)
    db.execute("CREATE VIRTUAL TABLE cells USING gx_cells('A')")
    db.execute("UPDATE gx_state SET value = 99 WHERE key = 'format'")
    db.close()
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    db = gx_connect("a.db")
    if sql == "DROP TABLE gx":  # has nothing of the matrices in it
        tables = {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in ("gx_meta", "gx_state", "gx_tile")}
        if old:
            db.execute(sql)
        else:
            assert error(db, sql) == "table gx may not be dropped"
        assert {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in tables} == tables
        return
    said = error(db, sql)
    assert "format 99 of a newer gx" in said, said
    db.close()
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
