"""What a database from somebody else can make gx do: nothing, but with its own matrices through named tables.

Plan:
- every eponymous table of gx is refused in a view and in triggers (reading, deleting) of an attached database, with
  trusted_schema on, and so is the catalog gx, under the name that a database gave it or not;
- a named table USING gx_cells('A') works in views and triggers, reads and writes its own database's matrix, and no
  other's, however the name of the matrix is written; one that is called gx_cells itself is no way round;
- what is INNOCUOUS is a function of its values: the list;
- a file whose generated columns, indexes, defaults, views, triggers call gx: nothing is called, whether SQLite read its
  schema before gx was loaded or after; in CHECK constraints SQLite before 3.50 does call: `files` off is the switch.
"""
import sqlite3

import pytest
from conftest import error, gx_connect, gx_path, q

INNOCUOUS, DIRECTONLY = 0x200000, 0x80000
UNSAFE = 'unsafe use of virtual table "{}"'


def modules(db):
    return {name for (name,) in db.execute("SELECT name FROM pragma_module_list WHERE name LIKE 'gx%'")}


@pytest.fixture
def two(tmp_path):
    """main with the matrix A, and somebody's database attached as evil, without matrices."""
    db = gx_connect(str(tmp_path / "main.db"))
    db.execute("ATTACH ? AS evil", (str(tmp_path / "evil.db"),))
    db.execute("SELECT gx_store('A', '[[1,2],[3,4]]')")
    db.execute("CREATE TABLE evil.log(x)")
    yield db
    db.close()


EPONYMOUS = sorted(modules(gx_connect()) - {"gx_catalog"})


def test_there_are_tables():
    assert {"gx", "gx_cells", "gx_rows", "gx_settings", "gx_plan", "gx_help"} <= set(EPONYMOUS)


@pytest.mark.parametrize("has_own", [False, True])
@pytest.mark.parametrize("name", EPONYMOUS)
def test_eponymous_tables_are_out_of_reach(two, name, has_own):
    assert q(two, "PRAGMA trusted_schema") == 1
    if has_own:
        two.execute("SELECT gx_store('evil.B', '[[5]]')")  # and with it the table evil.gx
    call = "" if name in ("gx", "gx_settings", "gx_stats", "gx_devices", "gx_predictions") else "('A')"
    two.execute(f"CREATE VIEW evil.v AS SELECT * FROM {name}{call}")
    assert error(two, "SELECT * FROM evil.v") == UNSAFE.format(name)
    for body in (f"INSERT INTO log SELECT count(*) FROM {name}{call}", f"DELETE FROM {name}"):
        two.execute("DROP TRIGGER IF EXISTS evil.t")
        two.execute(f"CREATE TRIGGER evil.t AFTER INSERT ON log WHEN new.x = 'go' BEGIN {body}; END")
        assert error(two, "INSERT INTO evil.log VALUES('go')") in (
            UNSAFE.format(name), f"table {name} may not be modified")
    assert q(two, "SELECT gx_json('main.A')") == "[[1.0,2.0],[3.0,4.0]]"


@pytest.mark.parametrize("body", [
    "DELETE FROM gx WHERE schema = 'main'",
    "INSERT INTO gx(name, value) VALUES('main.C', '[[1]]')",
    "INSERT INTO gx(name, value) VALUES('C', 'main.A')",
    "UPDATE gx SET name = 'D' WHERE schema = 'main'",
    "INSERT INTO log SELECT value FROM gx('main')",
])
def test_the_catalog_is_no_way_to_other_databases(two, body):
    """evil.gx is a real table, made with the first matrix; its columns name other databases."""
    two.execute("SELECT gx_store('evil.B', '[[5]]')")
    two.execute(f"CREATE TRIGGER evil.t AFTER INSERT ON log WHEN new.x = 'go' BEGIN {body}; END")
    assert error(two, "INSERT INTO evil.log VALUES('go')") == UNSAFE.format("gx")
    assert two.execute("SELECT name FROM main.gx").fetchall() == [("A",)]
    assert two.execute("SELECT count(*) FROM evil.log").fetchall() == [(0,)]


# ---- named tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", ["main", "evil"])
def test_named_tables_work_in_views_and_triggers(two, schema):
    two.execute(f"SELECT gx_store('{schema}.M', '[[1,2],[3,4]]')")
    two.execute(f"CREATE VIRTUAL TABLE {schema}.m USING gx_cells('M')")
    two.execute(f"CREATE VIRTUAL TABLE {schema}.r USING gx_rows('M')")
    two.execute(f"CREATE VIEW {schema}.v AS SELECT i, j, value FROM m WHERE value > 2")
    two.execute(f"CREATE VIEW {schema}.w AS SELECT i FROM r")
    two.execute(f"CREATE TABLE {schema}.event(i, j, value)")
    two.execute(f"CREATE TRIGGER {schema}.t AFTER INSERT ON event BEGIN "
                "UPDATE m SET value = value + new.value WHERE i = new.i AND j = new.j; END")
    assert sorted(two.execute(f"SELECT * FROM {schema}.v").fetchall()) == [(1, 0, 3.0), (1, 1, 4.0)]
    assert two.execute(f"SELECT * FROM {schema}.w").fetchall() == [(0,), (1,)]
    two.execute(f"INSERT INTO {schema}.event VALUES(0, 0, 10), (1, 1, 0.5)")
    assert q(two, f"SELECT gx_json('{schema}.M')") == "[[11.0,2.0],[3.0,4.5]]"
    two.execute("PRAGMA trusted_schema = 0")
    assert error(two, f"SELECT * FROM {schema}.v") == UNSAFE.format("m")


@pytest.mark.parametrize("matrix", ["A", "main.A", "MAIN.A", "evil.main.A"])
def test_a_named_table_reaches_its_own_database_only(two, matrix):
    two.execute(f"CREATE VIRTUAL TABLE evil.a USING gx_cells('{matrix}')")
    two.execute("CREATE VIEW evil.v AS SELECT value FROM a")
    two.execute("CREATE TRIGGER evil.t AFTER INSERT ON log BEGIN DELETE FROM a; END")
    for sql in ("SELECT * FROM evil.v", "SELECT * FROM evil.a", "INSERT INTO evil.log VALUES(1)"):
        assert error(two, sql) in (
            f"gx_cells: a: matrix '{matrix}' is in main, but a table of evil reaches those of evil only",
            f"gx_cells: a: no matrix named '{matrix}'")
    assert q(two, "SELECT gx_json('A')") == "[[1.0,2.0],[3.0,4.0]]"


def test_own_name_with_its_schema_and_temp(two):
    two.execute("CREATE VIRTUAL TABLE main.a USING gx_cells('main.A')")
    assert q(two, "SELECT sum(value) FROM main.a") == 10
    two.execute("CREATE VIRTUAL TABLE temp.t USING gx_cells('main.A')")
    two.execute("CREATE VIRTUAL TABLE temp.u USING gx_cells('A')")
    assert q(two, "SELECT sum(value) FROM temp.t") == q(two, "SELECT sum(value) FROM temp.u") == 10


def test_a_schema_name_with_a_dot(two, tmp_path):
    """Attached AS "main.x": a table there must not be read as one of main."""
    two.execute("ATTACH ? AS \"main.x\"", (str(tmp_path / "dot.db"),))
    two.execute("CREATE VIRTUAL TABLE \"main.x\".a USING gx_cells('A')")
    assert "reaches those of main.x only" in error(two, 'SELECT * FROM "main.x".a')


def test_a_table_called_like_the_function(two):
    """USING gx_cells without an argument under the name gx_cells is the function, DIRECTONLY like it."""
    two.execute("CREATE VIRTUAL TABLE evil.gx_cells USING gx_cells")
    two.execute("CREATE VIEW evil.v AS SELECT value FROM gx_cells('main.A')")
    assert error(two, "SELECT * FROM evil.v") == UNSAFE.format("gx_cells")


# ---- functions ---------------------------------------------------------------------------------------------------------


def test_what_is_innocuous(db):
    """Functions of their values alone, whose cost is bounded by them; all others are for direct use only."""
    flags = {}
    for name, bits in db.execute("SELECT name, flags FROM pragma_function_list WHERE name LIKE 'gx%'"):
        flags[name] = bits
    innocuous = {name for name, bits in flags.items() if bits & INNOCUOUS}
    assert innocuous == {"gx_version", "gx_help", "gx_from_cells", "gx_from_rows"}
    assert {name for name, bits in flags.items() if not bits & DIRECTONLY} == innocuous


FOREIGN = {  # what a file may bring -> what is run on it
    "generated": ("CREATE TABLE t(x, y AS ({call}))", "SELECT y FROM t"),
    "stored": ("CREATE TABLE t(x, y AS ({call}) STORED)", "INSERT INTO t(x) VALUES(2)"),
    "index": ("CREATE TABLE t(x); CREATE INDEX i ON t({call})", "INSERT INTO t VALUES(2)"),
    "partial": ("CREATE TABLE t(x); CREATE INDEX i ON t(x) WHERE {call}", "INSERT INTO t VALUES(2)"),
    "default": ("CREATE TABLE t(x, y DEFAULT ({call}))", "INSERT INTO t(x) VALUES(2)"),
    "view": ("CREATE TABLE t(x); CREATE VIEW v AS SELECT {call}", "SELECT * FROM v"),
    "trigger": ("CREATE TABLE t(x); CREATE TRIGGER r AFTER DELETE ON t BEGIN SELECT {call}; END", "DELETE FROM t"),
}


def foreign(path, ddl, function="gx_store"):
    """A file made where a harmless function of that name was at hand."""
    db = sqlite3.connect(path, isolation_level=None)
    db.create_function(function, 2, lambda a, b: 1, deterministic=True)
    db.executescript(ddl)
    db.execute("INSERT INTO t(x) VALUES(1)")
    db.close()


@pytest.mark.parametrize("attached", [False, True])
@pytest.mark.parametrize("kind", sorted(FOREIGN))
def test_a_schema_calls_nothing(tmp_path, kind, attached):
    """Also one that SQLite had read before gx was there, and found nothing to refuse in."""
    ddl, act = FOREIGN[kind]
    path = str(tmp_path / "foreign.db")
    foreign(path, ddl.format(call="gx_store('S', '[[1]]')"))
    db = sqlite3.connect(":memory:" if attached else path, isolation_level=None)
    if attached:
        db.execute("ATTACH ? AS f", (path,))
    db.enable_load_extension(True)
    db.load_extension(gx_path())
    text = error(db, act)
    assert "unsafe use of gx_store()" in text or "non-deterministic functions prohibited" in text
    db.close()
    left = sqlite3.connect(path)
    assert left.execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'gx%'").fetchall() == [(0,)]
    left.close()


def test_check_constraints(tmp_path):
    """SQLite before 3.50 calls functions for direct use from CHECK constraints: `files` off is the switch."""
    path, out = str(tmp_path / "foreign.db"), tmp_path / "out.mtx"
    foreign(path, f"CREATE TABLE t(x CHECK(gx_export('[[1]]', '{out}') IS NOT NULL))", "gx_export")
    db = gx_connect(path)
    if sqlite3.sqlite_version_info < (3, 50):
        db.execute("SELECT gx_config('files', 'off')")
        assert error(db, "INSERT INTO t VALUES(2)") == "gx_export: files are switched off in this connection"
    else:
        assert "unsafe use of gx_export()" in error(db, "INSERT INTO t VALUES(2)")
    assert not out.exists()
    db.close()
