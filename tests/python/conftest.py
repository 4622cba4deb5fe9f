"""Connections of every kind that the package takes, with gx loaded from $GX_SO (or gx.so in the repository's root)."""
import os
import pathlib
import shutil
import sqlite3
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("GX_SO", str(ROOT / "gx.so"))
sys.path.insert(0, str(ROOT / "ext" / "python"))

import gx_sqlite as gx  # noqa: E402


@pytest.fixture
def tmp_path(tmp_path):
    """Gone when the test ends: /tmp may be memory (Debian 13), and all tests together write 13 GB."""
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


def open_sqlite3(path):
    return sqlite3.connect(path, isolation_level=None)


def open_apsw(path):
    return pytest.importorskip("apsw").Connection(path)


def open_pysqlite3(path):
    return pytest.importorskip("pysqlite3").dbapi2.connect(path, isolation_level=None)


def open_sqlalchemy(path):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    gx.load(engine)
    return engine.connect()


@pytest.fixture(params=[open_sqlite3, open_apsw, open_pysqlite3, open_sqlalchemy], ids=lambda f: f.__name__[5:])
def any_db(request, tmp_path):
    connection = request.param(str(tmp_path / "any.db"))
    if request.param is not open_sqlalchemy:
        gx.load(connection)
    yield connection
    connection.close()


@pytest.fixture
def db(tmp_path):
    connection = open_sqlite3(str(tmp_path / "test.db"))
    gx.load(connection)
    yield connection
    connection.close()


def small_tiles(db, count=64):
    """Matrices from here on have tiles of about so many f64 elements, and go through gx_from_function."""
    db.execute("SELECT gx_config('tile_bytes', ?)", (count * 8,)).fetchall()
