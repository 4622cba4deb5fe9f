"""Shared by the tests of gx_import and gx_export: connections with much and with little memory, and reading files."""
import json
import pathlib

import numpy as np
import pytest
from conftest import gx_connect, q, to_numpy

BANNER = "%%MatrixMarket matrix "


def tight(db):
    """The least memory and tiny tiles."""
    q(db, "SELECT gx_config('tile_bytes', '512')")
    q(db, "SELECT gx_config('memory_limit', '67072')")


@pytest.fixture(params=["ample", "tight"])
def any_db(request, tmp_path):
    """For gx_import and gx_export; what a test does beside them goes through plenty()."""
    connection = gx_connect(str(tmp_path / "any.db"), synchronous=0, journal_mode="MEMORY")
    if request.param == "tight":
        tight(connection)
    yield connection
    connection.close()


def plenty(db, sql, *params):
    """q() with memory enough, and the limit as it was."""
    limit = q(db, "SELECT gx_config('memory_limit')")
    q(db, "SELECT gx_config('memory_limit', '1GiB')")
    value = q(db, sql, *params)
    q(db, "SELECT gx_config('memory_limit', ?)", str(limit))
    return value


def same(a, b):
    """Equal to the bit, NaN included, but for the sign of a NaN."""
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=True)


def read(db, path, options=None):
    """The file, through a stored matrix; where there is memory for a value, that must be the same."""
    options = {**json.loads(options or "{}"), "replace": True}
    assert q(db, "SELECT gx_import('R', ?, ?)", str(path), json.dumps(options)) == "R"
    a = stored(db, "R")
    if q(db, "SELECT gx_config('memory_limit')") > 1 << 20:
        del options["replace"]
        assert same(to_numpy(q(db, "SELECT gx_import(NULL, ?, ?)", str(path), json.dumps(options))), a)
    return a


def stored(db, name):
    """A stored matrix as an array."""
    return to_numpy(plenty(db, "SELECT gx_copy(?)", name))


def put(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def leftovers(folder):
    return sorted(p.name for p in pathlib.Path(folder).iterdir() if p.name.startswith(".gx-"))


def npy(header, data=b"", version=1):
    header = header.encode()
    return b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(2 if version == 1 else 4, "little") + header + data
