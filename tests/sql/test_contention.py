"""Storing calls of several connections at once: each waits as long as its busy handler says, and none fails.

Plan: three processes, a busy timeout, one matrix that all of them replace, in rollback-journal and WAL mode:
- in autocommit, where the operand is found before the lock is waited for: gx_scale, gx_set, copies that are renamed;
- within BEGIN, where nothing has been read yet: gx_full with "replace", calls with operands and a destination, and
  calls that change a matrix in its place, its name or its properties;
- the first matrix of a database, in autocommit and within BEGIN;
- within BEGIN, where a read came before: SQLite cannot wait, and says so at once (and BEGIN IMMEDIATE is the way);
- nothing is lost: every increment of a counter cell arrives.
"""
import subprocess
import sys

import pytest
from conftest import error, gx_connect, gx_path, q

PROCESSES, CALLS = 3, 40
WORKER = """
import sqlite3, sys
path, extension, calls, number = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
db = sqlite3.connect(path, isolation_level=None, timeout=60)
db.enable_load_extension(True)
db.load_extension(extension)
for k in range(calls):
    for sql in sys.argv[5:]:
        db.execute(sql.replace("$", number)).fetchall()
"""
REPLACE = '\'{"replace":true}\''


@pytest.fixture(params=["delete", "wal"])
def path(request, tmp_path):
    path = str(tmp_path / "contended.db")
    db = gx_connect(path, journal_mode=request.param)
    db.execute("SELECT gx_zeros(30, 30, 'A')")
    db.close()
    return path


@pytest.mark.parametrize("statements", [
    (f"SELECT gx_scale('A', 1, 'A', {REPLACE})",),
    ("SELECT gx_set('A', 0, 0, 1)",),
    ("SELECT gx_copy('A', 'T$')", "SELECT gx_rename('T$', 'U$')", "SELECT gx_drop('U$')"),
    ("BEGIN", f"SELECT gx_full(20, 20, 1, 'A', {REPLACE})", "COMMIT"),
    ("BEGIN", f"SELECT gx_scale('A', 2, 'A', {REPLACE})", "COMMIT"),
    ("BEGIN", f"SELECT gx_add('A', 1, 'A', {REPLACE})", "COMMIT"),
    ("BEGIN", "SELECT gx_set('A', 0, 0, 1)", "COMMIT"),
    ("BEGIN", "SELECT gx_set_property('A', 'symmetric')", "COMMIT"),
    ("SELECT gx_zeros(3, 3, 'T$')", "BEGIN", "SELECT gx_rename('T$', 'U$')", "COMMIT",
     "BEGIN", "SELECT gx_drop('U$', '{\"if_exists\":true}')", "COMMIT"),
    ("BEGIN IMMEDIATE", f"SELECT gx_add('A', 1, 'A', {REPLACE})", "COMMIT"),
    (f"SELECT gx_add('A', 1, 'A', {REPLACE})",),
], ids=["scale", "set", "rename", "begin", "begin-scale", "begin-add", "begin-set", "begin-property",
        "begin-rename", "immediate", "add"])
def test_no_call_fails(path, statements):
    workers = [subprocess.Popen(
        [sys.executable, "-c", WORKER, path, gx_path(), str(CALLS), str(p), *statements],
        stderr=subprocess.PIPE, text=True) for p in range(PROCESSES)]
    assert [worker.communicate(timeout=300)[1] for worker in workers] == [""] * PROCESSES
    db = gx_connect(path)
    assert q(db, "SELECT gx_check('A')") == "ok"
    if "gx_add" in " ".join(statements):  # no increment is lost
        assert q(db, "SELECT gx_get('A', 7, 7)") == PROCESSES * CALLS
    db.close()


FIRST = """
import sqlite3, sys
for k in range(25):
    db = sqlite3.connect(sys.argv[1] + str(k), isolation_level=None, timeout=60)
    db.enable_load_extension(True)
    db.load_extension(sys.argv[2])
    for sql in sys.argv[4:]:
        db.execute(sql.replace("$", sys.argv[3])).fetchall()
    db.close()
"""


@pytest.mark.parametrize("within", [False, True], ids=["autocommit", "begin"])
def test_the_first_store_of_a_database(tmp_path, within):
    """Several connections make the tables at once: one does, the others wait and find them."""
    path = str(tmp_path / "new.db")
    statements = ["BEGIN", "SELECT gx_store('M$', '[[1]]')", "COMMIT"]
    workers = [subprocess.Popen(
        [sys.executable, "-c", FIRST, path, gx_path(), str(p), *(statements if within else statements[1:2])],
        stderr=subprocess.PIPE, text=True) for p in range(PROCESSES)]
    assert [worker.communicate(timeout=300)[1] for worker in workers] == [""] * PROCESSES
    for k in range(25):
        db = gx_connect(path + str(k))
        assert q(db, "SELECT count(*) FROM gx") == PROCESSES
        db.close()


def test_a_read_before_in_the_transaction(path):
    """Two that read and then want to write would wait for each other for ever: SQLite refuses at once."""
    db, other = gx_connect(path), gx_connect(path)
    db.execute("PRAGMA busy_timeout = 60000")
    db.execute("BEGIN")
    db.execute("SELECT gx_sum('A')").fetchall()
    other.execute("BEGIN IMMEDIATE")
    other.execute("SELECT gx_set('A', 1, 1, 5)")
    assert error(db, f"SELECT gx_scale('A', 2, 'A', {REPLACE})") == "gx_scale: writing to main: database is locked"
    db.execute("ROLLBACK")
    other.execute("COMMIT")
    assert q(db, f"SELECT gx_scale('A', 2, 'A', {REPLACE})") == "A"
    assert q(db, "SELECT gx_get('A', 1, 1)") == 10
    other.close()
    db.close()


def test_tables_that_another_connection_dropped(path):
    """The lock comes first where tables are remembered; where they are gone, they are made."""
    db, other = gx_connect(path), gx_connect(path)
    assert q(db, "SELECT gx_sum('A')") == 0
    other.executescript("DROP TABLE gx_meta; DROP TABLE gx_tile; DROP TABLE gx_state")
    other.close()
    db.execute("BEGIN")
    assert q(db, f"SELECT gx_full(2, 2, 3, 'A', {REPLACE})") == "A"
    db.execute("COMMIT")
    assert q(db, "SELECT gx_sum('A')") == 12
    db.close()
