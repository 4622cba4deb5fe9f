"""Blocks of the disk for tiles that are about to be inserted: the file's bytes and size are SQLite's alone.

Plan:
1. a tile has its blocks before SQLite writes its pages; a commit leaves none that are not of pages
2. what is rolled back leaves a tile's at most, which the next one takes
3. small tiles, and files that are not ext4's or not written where they lie: nothing
4. a descriptor that the application opened, and gave to another file: that file is not touched
"""
import os
import subprocess

import numpy as np
import pytest
from conftest import from_numpy, gx_connect, q, to_numpy

TILE = 8 << 20
A = np.random.default_rng(0).random((1000, 1000))
SLACK = 128 << 10  # blocks of ext4's own, for a file


def is_ext4(path):
    return subprocess.run(["stat", "-f", "-c", "%T", str(path)], capture_output=True, text=True).stdout.startswith("ext")


def on_disk(path):
    """The file's bytes, and those of its blocks."""
    about = os.stat(path)
    return about.st_size, about.st_blocks * 512


@pytest.fixture
def db(tmp_path):
    """A file whose pages stay in SQLite's cache until the end of a transaction."""
    if not is_ext4(tmp_path):
        pytest.skip("not on ext4: room for tiles is NOT tested")
    db = gx_connect(str(tmp_path / "t.db"))
    db.execute("PRAGMA cache_size = -100000")
    db.execute("CREATE TABLE t(a)")
    yield db
    db.close()


def file_of(db):
    return q(db, "SELECT file FROM pragma_database_list")


def test_there_before_the_pages_and_no_more_after_them(db):
    db.execute("BEGIN IMMEDIATE")
    db.execute("SELECT gx_store('A', ?)", (from_numpy(A),))
    size, blocks = on_disk(file_of(db))
    assert size < TILE / 8 and blocks >= A.nbytes
    db.execute("COMMIT")
    size, blocks = on_disk(file_of(db))
    assert size >= A.nbytes and blocks <= size + SLACK
    assert size == q(db, "PRAGMA page_count") * q(db, "PRAGMA page_size")
    assert (to_numpy(q(db, "SELECT gx_copy('A')")) == A).all() and q(db, "PRAGMA integrity_check") == "ok"


def test_rolled_back(db):
    for _ in range(3):
        before, _ = on_disk(file_of(db))
        db.execute("BEGIN IMMEDIATE")
        db.execute("SELECT gx_store('A', ?)", (from_numpy(A),))
        db.execute("ROLLBACK")
        size, blocks = on_disk(file_of(db))
        assert size == before and blocks <= size + A.nbytes + SLACK
    db.execute("SELECT gx_store('A', ?)", (from_numpy(A),))
    size, blocks = on_disk(file_of(db))
    assert blocks <= size + SLACK and q(db, "PRAGMA integrity_check") == "ok"


def test_none_for_small_ones(db):
    db.execute("BEGIN IMMEDIATE")
    db.execute("SELECT gx_store('A', ?)", (from_numpy(A[:100]),))  # 800 kB
    size, blocks = on_disk(file_of(db))
    assert blocks <= size + SLACK
    db.execute("COMMIT")


def test_none_where_a_log_is_written(db):
    db.execute("PRAGMA journal_mode = wal")
    db.execute("SELECT gx_store('A', ?)", (from_numpy(A),))
    size, blocks = on_disk(file_of(db))
    assert blocks <= size + SLACK
    db.execute("PRAGMA wal_checkpoint(truncate)")
    assert (to_numpy(q(db, "SELECT gx_copy('A')")) == A).all()


def test_descriptor_of_the_application(db, tmp_path):
    """Its number is lower than SQLite's, so it is found, and means another file from between two tiles on."""
    path, other = file_of(db), str(tmp_path / "other")
    db.close()
    theirs = os.open(path, os.O_RDWR)
    db = gx_connect(path)
    with open(other, "wb") as file:
        file.write(b"of somebody else")
    before, another, given = on_disk(other), os.open(other, os.O_RDWR), []

    def give_it_away():
        if not given and on_disk(path)[1] > TILE / 2:
            given.append(os.dup2(another, theirs))
        return 0

    db.execute("PRAGMA cache_size = -100000")
    db.execute("BEGIN IMMEDIATE")
    db.set_progress_handler(give_it_away, 1)
    db.execute("SELECT gx_randn(2000, 2000, 'A')")
    db.set_progress_handler(None, 0)
    assert given == [theirs] and on_disk(other) == before
    db.execute("COMMIT")
    assert q(db, "SELECT gx_check('A')") == "ok" and q(db, "PRAGMA integrity_check") == "ok"
    db.close()
    os.close(theirs)
    os.close(another)
