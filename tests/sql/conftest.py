"""What every SQL test uses: connections with gx loaded, matrix values to and from NumPy, error texts.

The extension is $GX_SO, or gx.so in the repository's root.  Connections that a test opens are closed at its end.
"""
import os
import pathlib
import re
import shutil
import sqlite3
import struct

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DTYPES = [np.dtype("<f8"), np.dtype("<f4"), np.dtype("<c16"), np.dtype("<c8")]  # computed with, by number in the header
try:
    from ml_dtypes import bfloat16
except ImportError:
    bfloat16 = np.dtype("V2")
# Those behind them are only stored.
STORED = DTYPES + [np.dtype(name) for name in ("<f2", "|u1", "|b1", "|i1", "<u2", "<i2", "<u4", "<i4")] + [np.dtype(bfloat16), np.dtype("<i8")]
DTYPE_NAMES = "f64, f32, c128, c64, f16, u8, bool, i8, u16, i16, u32, i32, bf16, i64, m31"  # as messages list them
SIZES = "a matrix has at most 2^40 rows, 2^40 columns and 2^56 bytes"  # how a size past the limits is refused
HEADER = struct.Struct("<4sBBHqqq")  # magic, version, dtype, zero, rows, cols, zero


@pytest.fixture
def tmp_path(tmp_path):
    """Gone when the test ends: /tmp may be memory (Debian 13), and all tests together write 13 GB."""
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture(autouse=True)
def closed(monkeypatch):
    """Connections that are left open, which Python 3.13 warns of in whatever test runs then."""
    opened, connect = [], sqlite3.connect

    def remember(*args, **options):
        opened.append(connect(*args, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", remember)
    yield
    for connection in opened:
        try:
            connection.close()
        except sqlite3.ProgrammingError:  # another thread's
            pass


def gx_path():
    return os.environ.get("GX_SO") or str(ROOT / "gx.so")


def gx_connect(path=":memory:", **pragmas):
    """A connection in autocommit mode with gx loaded; pragmas are set before anything else: page_size=65536."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    for key, value in pragmas.items():
        db.execute(f"PRAGMA {key}={value}")
    db.enable_load_extension(True)
    db.load_extension(gx_path())
    db.enable_load_extension(False)
    return db


@pytest.fixture
def db():
    connection = gx_connect()
    yield connection
    connection.close()


@pytest.fixture
def filedb(tmp_path):
    connection = gx_connect(str(tmp_path / "test.db"))
    yield connection
    connection.close()


def bound(sql, params):
    """By name where the statement says ?1: Python 3.12 warns of a sequence there, 3.14 refuses it."""
    named = {int(k) for k in re.findall(r"\?(\d+)", re.sub("'[^']*'", "", sql))}
    return {str(k): value for k, value in enumerate(params, 1)} if len(named) == len(params) > 0 else params


def q(db, sql, *params):
    """The one value of the one row."""
    rows = db.execute(sql, bound(sql, params)).fetchall()
    assert len(rows) == 1 and len(rows[0]) == 1, f"{len(rows)} rows from {sql}"
    return rows[0][0]


def temp_is_empty(db):
    """No intermediate is left in the temp database, where they lie that have no file of their own."""
    tables = {r[0] for r in db.execute("SELECT name FROM temp.sqlite_master")}
    return "gx_tile" not in tables or q(db, "SELECT count(*) FROM temp.gx_tile") == 0


def error(db, sql, *params):
    """The text of the error that the statement must raise."""
    try:
        rows = db.execute(sql, bound(sql, params)).fetchall()
    except sqlite3.Error as problem:
        return str(problem)
    raise AssertionError(f"no error, but {str(rows)[:200]} from {sql}")


def to_numpy(blob):
    """A matrix value as an array of two dimensions."""
    magic, version, dtype, zero, rows, cols, reserved = HEADER.unpack_from(blob)
    assert (magic, version, zero, reserved) == (b"gxmv", 1, 0, 0), blob[:32]
    assert len(blob) == HEADER.size + rows * cols * STORED[dtype].itemsize, (rows, cols, len(blob))
    flat = np.frombuffer(blob, STORED[dtype], offset=HEADER.size)
    return flat.reshape((cols, rows)).T.copy()


def from_numpy(array, exact=False):
    """An array as a matrix value; a flat one is a column; whole numbers become f64 but for u8, and where they are to stay exact."""
    array = np.asarray(array)
    if array.ndim < 2:
        array = array.reshape(-1, 1)
    dtype = array.dtype.newbyteorder("<")
    if dtype not in STORED or not (exact or dtype in STORED[:6]):
        dtype = DTYPES[0]
    rows, cols = array.shape
    header = HEADER.pack(b"gxmv", 1, STORED.index(dtype), 0, rows, cols, 0)
    return header + array.astype(dtype).tobytes(order="F")
