"""gx under the newest SQLite: the one inside apsw, from PyPI, beside the system's older one.

Plan: load gx.so into apsw's own SQLite and go once through what depends on the library's version: scalar functions,
aggregates, table-valued functions, the catalog (xUpdate, xShadowName, xIntegrity through PRAGMA integrity_check),
storing in a savepoint, helper connections on a file, WAL, defensive mode, interrupts, an error's text and code; then
read under each library the database that the other one wrote; while one library has gx, the other is refused, and takes a copy.

Skipped, loudly, where apsw is not installed (`make deps` gets it); an error where GX_REQUIRE_NEWEST_SQLITE is set.
"""
import os
import shutil
import sqlite3

import pytest
from conftest import gx_connect, gx_path

try:
    import apsw
except ImportError:
    if os.environ.get("GX_REQUIRE_NEWEST_SQLITE"):
        raise
    pytest.skip("apsw is not installed: gx is NOT tested under the newest SQLite (make deps)", allow_module_level=True)


@pytest.fixture(scope="module", autouse=True)
def own_copy(tmp_path_factory):
    """The other tests' gx.so is sqlite3's: one of their connections may wait for Python's collector yet."""
    copy = shutil.copy(gx_path(), tmp_path_factory.mktemp("newest") / "gx.so")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GX_SO", str(copy))
        yield


def connect(path=":memory:"):
    db = apsw.Connection(str(path))
    db.enable_load_extension(True)
    db.load_extension(gx_path())
    db.enable_load_extension(False)
    return db


def value(db, sql, *params):
    return db.execute(sql, params).fetchall()[0][0]


@pytest.fixture(params=["delete", "wal"])
def filedb(request, tmp_path):
    db = connect(tmp_path / "newest.db")
    assert value(db, f"PRAGMA journal_mode={request.param}") == request.param
    yield db
    db.close()


def test_it_is_newer():
    def number(version):
        return tuple(int(part) for part in version.split("."))
    assert number(apsw.sqlite_lib_version()) > number(sqlite3.sqlite_version)


def test_values():
    db = connect()
    assert value(db, "SELECT gx_json(gx_matmul('[[1,2],[3,4]]', '[[5],[6]]'))") == "[[17.0],[39.0]]"
    assert value(db, "SELECT gx_json(gx_from_cells(column1, column2, column3)) "
                     "FROM (VALUES (0, 0, 1), (1, 1, 2))") == "[[1.0,0.0],[0.0,2.0]]"
    assert db.execute("SELECT i, j, value FROM gx_cells('[[1,2]]')").fetchall() == [(0, 0, 1.0), (0, 1, 2.0)]
    db.close()


def test_stored_product(filedb):
    db = filedb
    n = 300
    db.execute("SELECT gx_config('tile_bytes', 65536)").fetchall()
    db.execute(f"SELECT gx_randn({n}, {n}, 'A', '{{\"seed\":1}}'), gx_eye({n}, 'I')").fetchall()
    assert value(db, "SELECT gx_matmul('A', 'I', 'C')") == "C"
    assert value(db, "SELECT gx_norm(gx_sub('A', 'C'))") == 0.0
    assert db.execute("SELECT name, rows, cols FROM gx ORDER BY name").fetchall() == [
        ("A", n, n), ("C", n, n), ("I", n, n)]
    assert value(db, "SELECT gx_check('C')") == "ok"
    assert value(db, "PRAGMA integrity_check") == "ok"
    db.execute("DELETE FROM gx WHERE name = 'C'; UPDATE gx SET name = 'D' WHERE name = 'A'")
    assert db.execute("SELECT name FROM gx ORDER BY name").fetchall() == [("D",), ("I",)]


def test_integrity_check_sees_a_lost_tile(filedb):
    """Where the database has the table of an older gx."""
    filedb.execute("SELECT gx_store('A', '[[1,2],[3,4]]')").fetchall()
    filedb.execute("CREATE VIRTUAL TABLE gx USING gx_catalog")
    filedb.execute("DELETE FROM gx_tile")
    assert "ok" != value(filedb, "PRAGMA integrity_check")


def test_defensive_mode(filedb):
    filedb.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    filedb.execute("SELECT gx_store('A', '[[1,2],[3,4]]')").fetchall()
    assert value(filedb, "SELECT gx_sum('A')") == 10.0
    filedb.execute("CREATE VIRTUAL TABLE gx USING gx_catalog")
    with pytest.raises(apsw.SQLError, match="table gx_tile may not be modified"):
        filedb.execute("DELETE FROM gx_tile")


def test_a_check_constraint_calls_nothing(tmp_path):
    """Since SQLite 3.50, where the schema is read with gx at hand: loading sees to it."""
    path = str(tmp_path / "foreign.db")
    made = sqlite3.connect(path)
    made.create_function("gx_store", 2, lambda a, b: 1, deterministic=True)
    made.execute("CREATE TABLE t(x CHECK(gx_store('S', '[[1]]') IS NOT NULL))")
    made.close()
    db = connect(path)
    with pytest.raises(apsw.Error, match=r"unsafe use of gx_store\(\)"):
        db.execute("INSERT INTO t VALUES(1)")
    db.close()


def test_without_comments(filedb):
    filedb.config(apsw.SQLITE_DBCONFIG_ENABLE_COMMENTS, 0)
    filedb.execute("ATTACH ':memory:' AS 'a--b'")
    for name in ("A", "temp.A", "a--b.A"):
        assert value(filedb, "SELECT gx_store(?, '[[1,2]]')", name) == name
        assert value(filedb, "SELECT gx_sum(?)", name) == 3
    assert value(filedb, "SELECT gx_volumes(1)") is not None
    assert value(filedb, "SELECT gx_check()") == "ok"
    assert "--" not in value(filedb, "SELECT group_concat(sql) FROM main.sqlite_schema WHERE name LIKE 'gx_%'")


def test_rollback(filedb):
    with pytest.raises(ZeroDivisionError):
        with filedb:
            filedb.execute("SELECT gx_store('A', '[[1,2],[3,4]]')").fetchall()
            raise ZeroDivisionError
    with pytest.raises(apsw.Error, match="gx_sum: no matrix named 'A'"):
        filedb.execute("SELECT gx_sum('A')").fetchall()


def test_error_text():
    db = connect()
    with pytest.raises(apsw.SQLError) as problem:
        value(db, "SELECT gx_matmul('[[1,2]]', '[[1,2]]')")
    assert "gx_matmul: A is 1x2 but B is 1x2" in str(problem.value)
    db.close()


def test_either_library_reads_the_other(tmp_path):
    path = str(tmp_path / "both.db")
    db = connect(path)
    db.execute("SELECT gx_randn(50, 40, 'A', '{\"seed\":7}')").fetchall()
    theirs = value(db, "SELECT gx_json('A')")
    db.close()
    db = gx_connect(path)
    assert db.execute("SELECT gx_json('A')").fetchone()[0] == theirs
    db.execute("SELECT gx_transpose('A', 'B')").fetchall()
    db.close()
    db = connect(path)
    assert value(db, "SELECT gx_norm(gx_sub(gx_transpose('B'), 'A'))") == 0.0
    assert value(db, "PRAGMA integrity_check") == "ok"
    db.close()


def test_two_libraries_at_once(tmp_path):
    """Each with connections open: one gx.so knows the functions of one library."""
    eye, used = "SELECT gx_json(gx_eye(2))", "another SQLite library of this process uses this gx.so"
    for first, second, wrong in ((gx_connect, connect, apsw.Error), (connect, gx_connect, sqlite3.Error)):
        one = first()
        with pytest.raises(wrong, match=used):
            second()
        assert value(one, eye) == "[[1.0,0.0],[0.0,1.0]]"
        one.close()
        second().close()
    one, other = connect(), sqlite3.connect(":memory:")
    os.makedirs(tmp_path / "copy")
    other.enable_load_extension(True)
    other.load_extension(str(shutil.copy(gx_path(), tmp_path / "copy" / "gx.so")))
    for _ in range(2):
        assert value(one, eye) == value(other, eye) == "[[1.0,0.0],[0.0,1.0]]"
    one.close()
    other.close()


def reads():
    """System calls of this process that read."""
    with open("/proc/self/io") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("syscr"))


def test_tiles_straight_from_the_file(tmp_path):
    """tests/unit/store/test_store_chains.c under this library: helpers read many pages a call, whatever VFS the
    application names; and the VFS "gx" writes what SQLite's own does."""
    files = []
    for vfs in ("unix", "gx"):
        path = tmp_path / f"{vfs}.db"
        connect().close()
        db = apsw.Connection(str(path), vfs=vfs)
        db.enable_load_extension(True)
        db.load_extension(gx_path())
        db.execute("PRAGMA page_size = 4096")
        db.execute("SELECT gx_config('threads', 2), gx_randn(3000, 3000, 'A', '{\"seed\":1}')").fetchall()
        pages = value(db, "PRAGMA page_count")
        before = reads()
        assert value(db, "SELECT gx_norm('A')") > 0
        assert reads() - before < pages / 10
        assert value(db, "SELECT gx_check('A')") == value(db, "PRAGMA integrity_check") == "ok"
        db.close()
        files.append(path.read_bytes())
    assert files[0] == files[1]
