"""gx.connect: a connection of sqlite3's with gx in it.

Plan: names of files, as text, bytes and paths, relative too; sqlite3's options; what is no file, and URIs; a folder that
is not there fails as sqlite3's; the connection is closed where gx cannot be loaded; the VFS "gx", which a URI may name,
makes the file that SQLite's own makes; load(safe=True) of each module.
"""
import os
import pathlib
import sqlite3

import gx_sqlite as gx
import numpy as np
import pytest
from conftest import open_apsw, open_pysqlite3, open_sqlite3

NAMES = ["a.db", "with space.db", "a?vfs=unix", "a%20b#c.db", "ümlaut&mode=memory.db"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [str, os.fsencode, pathlib.Path], ids=["str", "bytes", "path"])
def test_names(tmp_path, monkeypatch, name, kind):
    monkeypatch.chdir(tmp_path)
    for path in (name, str(tmp_path / f"b{name}")):
        with gx.connect(kind(path)) as db:
            gx.store(db, "A", np.eye(3))
        db.close()
        assert os.path.getsize(path) > 0
    assert sorted(os.listdir(tmp_path)) == sorted([name, f"b{name}"])


def test_options(tmp_path):
    db = gx.connect(tmp_path / "a.db", isolation_level=None, timeout=1.5)
    assert db.isolation_level is None and db.execute("PRAGMA busy_timeout").fetchone() == (1500,)
    db.close()


def test_what_is_no_file(tmp_path):
    for database, options in ((":memory:", {}), ("", {}), (f"file:{tmp_path / 'a.db'}?mode=rwc", {"uri": True})):
        db = gx.connect(database, **options)
        gx.store(db, "A", np.eye(3))
        assert np.array_equal(gx.fetch(db, "A"), np.eye(3))
        db.close()
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        gx.connect(tmp_path / "none" / "a.db")


def test_without_gx(tmp_path, monkeypatch):
    made, connect = [], sqlite3.connect

    def noted(*arguments, **options):
        made.append(connect(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", noted)
    monkeypatch.setenv("GX_SO", str(tmp_path / "none.so"))
    with pytest.raises(FileNotFoundError, match="none.so"):
        gx.connect(tmp_path / "a.db")
    assert len(made) == 1
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        made[0].execute("SELECT 1")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape, dtype", [((1700, 1500), "f8"), ((1500, 3000), "f4"), ((3000001,), "f8"), ((30, 100007), "f8")])
def test_the_vfs_makes_the_same_file(tmp_path, order, shape, dtype):
    array = np.asarray(np.random.default_rng(0).random(shape), dtype, order=order)
    for name, query in (("plain.db", ""), ("named.db", "?vfs=gx")):
        db = gx.connect(f"file:{tmp_path / name}{query}", uri=True, isolation_level=None)  # gx is loaded by the first
        gx.store(db, "A", array)
        assert np.array_equal(gx.fetch(db, "A").reshape(shape), array)
        gx.store(db, "A", array[::-1], replace=True)
        assert np.array_equal(gx.fetch(db, "A").reshape(shape), array[::-1])
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        db.close()
    assert (tmp_path / "plain.db").read_bytes() == (tmp_path / "named.db").read_bytes()


@pytest.mark.parametrize("had_gx", [False, True])
@pytest.mark.parametrize("open_one", [open_sqlite3, open_apsw, open_pysqlite3], ids=lambda f: f.__name__[5:])
def test_for_the_sql_of_strangers(tmp_path, open_one, had_gx):
    db = open_one(str(tmp_path / "a.db"))
    if had_gx:
        gx.load(db)
    gx.load(db, safe=True)
    check_restricted(db, tmp_path)
    with pytest.raises(Exception, match="not authorized"):
        list(db.execute("SELECT load_extension('x')"))


def test_an_engine_for_the_sql_of_strangers(tmp_path):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    gx.load(engine, safe=True)
    with engine.connect() as connection:
        check_restricted(connection.connection.driver_connection, tmp_path)


def check_restricted(db, folder):
    """No files and no settings by SQL; matrices as ever."""
    for sql, said in ((f"SELECT gx_export('[[1]]', '{folder / 'x.npy'}')", "files are switched off"),
                      ("SELECT gx_config('backend', 'cpu')", "locked"), ("SELECT gx_config('locked', 'off')", "stays on")):
        with pytest.raises(Exception, match=said):
            list(db.execute(sql))
    gx.store(db, "A", np.arange(6.0).reshape(2, 3))
    assert np.array_equal(gx.fetch(db, "A"), np.arange(6.0).reshape(2, 3))
    assert sorted(p.name for p in folder.iterdir()) == ["a.db"]
