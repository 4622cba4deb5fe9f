"""Databases that earlier gx wrote (tests/data/README.md): they are read, checked, written to and refused as docs/format.md says.

Plan, of databases with a virtual table gx in their schema: of plain pages, written by release 0.1.0 (380fafc, format 1) and by
1251613 (format 3), and with two volumes, whose small matrices do not use them (format 3), and whose tiles lie in them (format 2):
1. every matrix is what it was: dtypes, a sparse one, factors, an empty one; gx_check says ok, and the file is not changed by that
2. it is written to: a matrix is made, renamed, replaced and dropped, and gx_check says ok in a new connection
3. where it is of a later format, who writes is refused in words
"""
import shutil
import sqlite3

import numpy as np
import pytest
from conftest import ROOT, error, gx_connect, q, to_numpy

WRITTEN = np.array([[1.5, -2, 0.25], [4, 5, 6]])
COMPLEX = np.array([[1.5 + 2j, -2, 0.25], [4, 5 - 1j, 6]])
COMMON = [("E", "f64", "lower,upper"), ("K", "f64", "symmetric,hermitian,positive"), ("K2", "f64", ""), ("LU", "f64", "lu"), ("Mc128", "c128", ""),
          ("Mc64", "c64", ""), ("Mf32", "f32", ""), ("Mf64", "f64", ""), ("QR", "f64", "qr")]
FACTOR = [("K2", "f64", "symmetric,hermitian,positive"), ("L", "f64", "lower")]
LATER = [("S", "f64", "")]
IN_VOLUMES = [("V", "f64", "symmetric,hermitian,positive"), ("V32", "f32", "symmetric,hermitian")]
MORE = {"plain_380fafc.db": FACTOR, "plain_1251613.db": LATER, "volumes_1251613.db": LATER, "tiles_1251613.db": FACTOR + IN_VOLUMES}


def listed(path):
    """The rows of gx that are in it."""
    return sorted({row[0]: row for row in COMMON + MORE[path.name]}.values())


@pytest.fixture(params=MORE)
def old(request, tmp_path):
    for path in (ROOT / "tests" / "data").glob(request.param + "*"):
        shutil.copy(path, tmp_path)
    return tmp_path / request.param


def test_what_is_in_it(old):
    before = old.read_bytes()
    db = gx_connect(str(old))
    assert db.execute("SELECT name, dtype, properties FROM gx ORDER BY name").fetchall() == listed(old)
    for dtype in ("f64", "f32", "c128", "c64"):
        got = to_numpy(q(db, "SELECT gx_copy(?)", "M" + dtype))
        assert got.dtype.str[1:] == {"f64": "f8", "f32": "f4", "c128": "c16", "c64": "c8"}[dtype]
        assert np.array_equal(got, COMPLEX if dtype[0] == "c" else WRITTEN)
    minij = np.minimum.outer(np.arange(1, 21), np.arange(1, 21))
    assert np.array_equal(to_numpy(q(db, "SELECT gx_copy('K')")), minij)
    assert np.array_equal(to_numpy(q(db, "SELECT gx_copy('K2')")), minij)
    assert np.allclose(to_numpy(q(db, "SELECT gx_solve('LU', gx_ones(20, 1))")), np.linalg.solve(minij, np.ones((20, 1))))
    names = [row[0] for row in listed(old)]
    if "S" in names:
        assert db.execute("SELECT i, j, value FROM gx_cells('S') ORDER BY i").fetchall() == [(1, 2, 3.5), (29, 0, -1.0)]
    if "L" in names:
        assert np.allclose(to_numpy(q(db, "SELECT gx_copy('L')")), np.tril(np.ones((20, 20))))
    if "V" in names:
        assert q(db, "SELECT count(*) > 4 FROM gx_extent") == 1
        for name in "V", "V32":
            assert np.array_equal(to_numpy(q(db, "SELECT gx_copy(?)", name)), np.minimum.outer(np.arange(1, 61), np.arange(1, 61)))
    assert q(db, "SELECT gx_shape('E')") == "[0,3]"
    assert q(db, "SELECT gx_check()") == "ok"
    db.close()
    assert old.read_bytes() == before


def test_it_is_written_to(old):
    db = gx_connect(str(old))
    db.execute("SELECT gx_randn(30, 30, 'N', '{\"dtype\":\"f16\"}')")
    db.execute("UPDATE gx SET name = 'N2' WHERE name = 'N'")
    db.execute("SELECT gx_add('K', 1, 'K2', '{\"replace\":true}')")
    gone = listed(old)[-1][0]
    db.execute("DELETE FROM gx WHERE name = ?", (gone,))
    db.close()
    db = gx_connect(str(old))
    assert q(db, "SELECT gx_check()") == "ok" and q(db, "PRAGMA integrity_check") == "ok"
    assert [row[0] for row in db.execute("SELECT name FROM gx ORDER BY name")] == sorted({row[0] for row in listed(old)} - {gone} | {"N2"})
    assert q(db, "SELECT gx_sum('K2')") == 20 * 21 * 41 / 6 + 400


def test_what_is_refused(old):
    raw = sqlite3.connect(old)
    raw.execute("UPDATE gx_state SET value = 99 WHERE key = 'format'")
    raw.commit()
    db = gx_connect(str(old))
    assert "99" in error(db, "SELECT gx_zeros(2, 2, 'Z')")
    db.close()
