"""What a function that makes files leaves behind when it fails: nothing, and what was there before is as it was.

Plan, for every function that makes a file (gx_backup with and without volumes, in both journal modes; gx_export of each
format; gx_volumes; gx_benchmark and its profile; temporary data; the storing of matrices):
- a full disk (a limit on the size of files, at several sizes): the folder has the names and bytes that it had;
- an interrupt: the same; the call ends; the next one succeeds;
- a journal or a log under the copy's name is refused, since it would undo the copy;
- forged rows of gx_extent: every reader of them;
- a process killed in gx_backup leaves nothing with the copy's name.
"""
import contextlib
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import error, gx_connect, gx_path, q

REPLACE = '\'{"replace":true}\''


@contextlib.contextmanager
def full_disk(most):
    """No file grows beyond so many bytes (Python ignores SIGXFSZ: writing fails with EFBIG)."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def seen(folder):
    """Every file and its bytes."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def source(path, journal="delete", volumes=0):
    db = gx_connect(str(path), journal_mode=journal)
    q(db, "SELECT gx_config('tile_bytes', 65536)")
    if volumes:
        q(db, f"SELECT gx_volumes({volumes})")
    q(db, "SELECT gx_randn(300, 300, 'A', '{\"seed\":1}')")  # 720 kB
    q(db, "SELECT gx_sparse(gx_randn(300, 300, '{\"seed\":2}'), 0.1, 'S')")
    return db


BACKUPS = [("delete", 0), ("wal", 0), ("delete", 3), ("wal", 3)]
SIZES = [0, 512, 5000, 40000, 200000]


@pytest.mark.parametrize("journal, volumes", BACKUPS)
@pytest.mark.parametrize("most", SIZES)
def test_full_disk_of_a_backup(tmp_path, journal, volumes, most):
    db = source(tmp_path / "a.db", journal, volumes)
    place = tmp_path / "place"
    place.mkdir()
    (place / "other.txt").write_text("kept")
    before = seen(place)
    with full_disk(most):
        assert error(db, "SELECT gx_backup(?)", str(place / "bk.db")).startswith("gx_backup: ")
    assert seen(place) == before
    assert q(db, "SELECT gx_backup(?)", str(place / "bk.db")) and q(db, "SELECT gx_check()") == "ok"
    copy = gx_connect(str(place / "bk.db"))
    assert q(copy, "SELECT gx_check()") == "ok" and q(copy, "SELECT gx_sum('A')") == q(db, "SELECT gx_sum('A')")
    copy.close()
    names = {"other.txt", "bk.db"} | {f"bk.db-gx{k + 1}" for k in range(volumes)}
    assert set(seen(place)) == names


@pytest.mark.parametrize("ending", ["-journal", "-wal", "-gx1", "-gx2"])
def test_what_would_change_the_copy_is_refused(tmp_path, ending):
    db = source(tmp_path / "a.db", volumes=2)
    (tmp_path / f"bk.db{ending}").write_bytes(b"of another database")
    before = seen(tmp_path)
    assert f"bk.db{ending} exists already: move it away" in error(db, "SELECT gx_backup(?)", str(tmp_path / "bk.db"))
    assert seen(tmp_path) == before


def test_an_empty_file_is_no_copy(tmp_path):
    """A name that tempfile has made is taken; a file with bytes in it is not."""
    db = source(tmp_path / "a.db")
    (tmp_path / "bk.db").touch()
    q(db, "SELECT gx_backup(?)", str(tmp_path / "bk.db"))
    before = seen(tmp_path)
    assert "exists already" in error(db, "SELECT gx_backup(?)", str(tmp_path / "bk.db"))
    assert seen(tmp_path) == before


def interrupted_calls(db, sql, path):
    """Call again and again, interrupted after delays of all lengths; yields whether the call said so."""
    for delay in np.random.default_rng(1).permuted(np.geomspace(0.0002, 0.1, 40)):
        timer = threading.Timer(delay, db.interrupt)
        timer.start()
        try:
            db.execute(sql, (str(path),)).fetchall()
            is_interrupted = False
        except sqlite3.OperationalError as problem:
            assert str(problem).endswith("interrupted")
            is_interrupted = True
        finally:
            timer.join()
        yield is_interrupted


@pytest.mark.parametrize("journal, volumes", BACKUPS)
def test_an_interrupted_backup(tmp_path, journal, volumes):
    """None of it, or all: SQLite may stop the statement when the function has returned."""
    db = source(tmp_path / "a.db", journal, volumes)
    q(db, "SELECT gx_randn(2500, 1000, 'L')")  # 20 MB
    place = tmp_path / "place"
    place.mkdir()
    whole = {"bk.db"} | {f"bk.db-gx{k + 1}" for k in range(volumes)}
    nothing = 0
    for is_interrupted in interrupted_calls(db, "SELECT gx_backup(?)", place / "bk.db"):
        names = set(os.listdir(place))
        assert names == whole or (is_interrupted and names == set())
        nothing += names == set()
        if names == whole:
            copy = gx_connect(str(place / "bk.db"))
            assert q(copy, "SELECT gx_check()") == "ok"
            copy.close()
        for name in names:
            os.remove(place / name)
    assert nothing > 0


@pytest.mark.parametrize("volumes", [0, 2])
def test_a_killed_backup(tmp_path, volumes):
    """Whatever stays has a name that no database takes for its own, or the copy is whole."""
    db = source(tmp_path / "a.db", volumes=volumes)
    q(db, "SELECT gx_randn(2500, 2000, 'L')")  # 40 MB
    db.close()
    script = (f"import sqlite3\ndb = sqlite3.connect({str(tmp_path / 'a.db')!r})\ndb.enable_load_extension(True)\n"
              f"db.load_extension({gx_path()!r})\nprint('go', flush=True)\n"
              f"db.execute('SELECT gx_backup(?)', ({str(tmp_path / 'bk.db')!r},)).fetchall()")
    unfinished = 0
    for k in range(8):
        child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "go\n"
        try:
            child.wait(0.002 * 2 ** k)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
        child.wait()
        names = [n for n in os.listdir(tmp_path) if not n.startswith(("a.db", ".gx-"))]
        assert set(names) <= {"bk.db", "bk.db-gx1", "bk.db-gx2"}
        if "bk.db" in names:
            copy = gx_connect(str(tmp_path / "bk.db"))
            assert q(copy, "SELECT gx_check()") == "ok" and q(copy, "PRAGMA integrity_check") == "ok"
            copy.close()
        else:
            unfinished += 1
        for name in names:
            os.remove(tmp_path / name)
    assert unfinished > 0


def forged(column):
    values = ["-4096", "0", "4097", "-9223372036854775808", "9223372036854771712", "1125899906842624", "'x'", "NULL", "4096.5",
              f"{column} - 4096", f"{column} + 4096", f"-{column}"]
    return [f"UPDATE gx_extent SET {column} = {value}" for value in values] + [
        f"UPDATE gx_extent SET {column} = {value} WHERE id = (SELECT max(id) FROM gx_extent)" for value in values[:1] + values[3:7]]


FORGED = forged("offset") + forged("length") + forged("set_id") + forged("stamp") + [
    "UPDATE gx_extent SET offset = -4096, length = 9223372036854775807", "UPDATE gx_extent SET offset = 4096, length = 4096",
    "UPDATE gx_extent SET length = 9223372036854775807 - offset", "UPDATE gx_extent SET id = -id",
    "UPDATE gx_extent SET id = id + 1000000", "UPDATE gx_volumes SET id = -id", "UPDATE gx_volumes SET set_id = 'x'",
    "UPDATE gx_extent SET set_id = 'x'; UPDATE gx_volumes SET set_id = 'x'", "UPDATE gx_state SET value = 'x'"]

READERS = ["gx_backup('bk.db')", "gx_sum('A')", "gx_get('A', 119, 99)", "gx_knn_graph('A', 3)", "gx_check()", "gx_check('A')",
           "gx_matmul('A', 'A', 'G', '{\"transa\":true}')", "gx_set('A', 119, 99, 1)", "gx_full(120, 100, 1, 'N')",
           f"gx_full(120, 100, 1, 'A', {REPLACE})", "gx_vacuum()", "gx_volumes(3)", "gx_volumes(0)", "gx_drop('A')"]


@pytest.mark.parametrize("call", READERS)
def test_forged_extents(tmp_path, monkeypatch, call):
    """Each reader of gx_extent on each forged table: an answer or words, no crash, no file; the other matrix stays."""
    monkeypatch.chdir(tmp_path)
    db = gx_connect("v.db")
    q(db, "SELECT gx_config('tile_bytes', 4096)")
    q(db, "SELECT gx_volumes(2)")
    q(db, "SELECT gx_ones(120, 100, 'A')")
    q(db, "SELECT gx_ones(20, 10, 'home')")
    db.close()
    start = seen(tmp_path)
    refused = 0
    for forge in FORGED:
        for name in os.listdir(tmp_path):
            os.remove(name)
        for name, data in start.items():
            (tmp_path / name).write_bytes(data)
        db = gx_connect("v.db", synchronous="off", journal_mode="memory")
        q(db, "SELECT gx_config('tile_bytes', 4096)")
        db.executescript(forge)
        names = set(os.listdir(tmp_path))
        try:
            db.execute(f"SELECT {call}").fetchall()
        except sqlite3.Error as problem:
            assert str(problem).startswith(call.split("(")[0] + ": "), (forge, problem)
            refused += 1
            assert set(os.listdir(tmp_path)) == names, forge
        db.close()
        again = gx_connect("v.db")
        if "gx_state" not in forge:
            assert q(again, "SELECT gx_sum('home')") == 200, forge
        again.close()
    assert refused > 0 or call in ("gx_check()", "gx_check('A')", "gx_drop('A')")


# Exports -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, matrix", [("x.npy", "A"), ("x.csv", "A"), ("x.tsv", "A"), ("x.mtx", "A"), ("x.npz", "S"),
                                          ("x.mtx", "S")])
@pytest.mark.parametrize("most", [0, 100, 40000, 100000])
@pytest.mark.parametrize("over", [False, True])
def test_full_disk_of_an_export(tmp_path, name, matrix, most, over):
    db = source(tmp_path / "a.db")
    place = tmp_path / "place"
    place.mkdir()
    if over:
        (place / name).write_text("1\n")
    before = seen(place)
    options = '{"overwrite":true}' if over else "{}"
    with full_disk(most):
        said = error(db, "SELECT gx_export(?, ?, ?)", matrix, str(place / name), options)
    assert "cannot write" in said and seen(place) == before
    assert q(db, "SELECT gx_export(?, ?, ?)", matrix, str(place / name), options)
    assert set(seen(place)) == {name}


@pytest.mark.parametrize("name", ["x.npy", "x.csv", "x.mtx"])
def test_an_interrupted_export(tmp_path, name):
    db = source(tmp_path / "a.db")
    q(db, "SELECT gx_randn(?, 300, 'L')", 8000 if name == "x.npy" else 400)
    place = tmp_path / "place"
    place.mkdir()
    (place / name).write_text("1\n")
    before = seen(place)
    q(db, "SELECT gx_export('L', ?)", str(tmp_path / name))
    whole, kept = (tmp_path / name).read_bytes(), 0
    for is_interrupted in interrupted_calls(db, "SELECT gx_export('L', ?, '{\"overwrite\":true}')", place / name):
        now = seen(place)
        assert now == {name: whole} or (is_interrupted and now == before)
        kept += now == before
        (place / name).write_text("1\n")
    assert kept > 0


# The others ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [0, 1000, 4096 + 100])
def test_full_disk_of_volumes(tmp_path, most):
    """The files of a set that is not whole go."""
    db = gx_connect(str(tmp_path / "a.db"), page_size=512)
    q(db, "SELECT gx_ones(3, 3, 'A')")
    with full_disk(most):
        assert error(db, "SELECT gx_volumes(3)").startswith("gx_volumes: ")
    assert q(db, "SELECT gx_check()") == "ok" and os.listdir(tmp_path) == ["a.db"]
    assert q(db, "SELECT gx_volumes(3)") == 3 and q(db, "SELECT gx_check()") == "ok"


@pytest.mark.parametrize("sql", [
    f"SELECT gx_randn(400, 400, 'A', {REPLACE})",
    "SELECT gx_import('N', 'in.npy')",
    "SELECT gx_eval('N := A @ A')",
    "SELECT gx_store_cells('N', i, j, value) FROM gx_cells('A')",
    "INSERT INTO gx(name, value) SELECT 'N', value FROM gx WHERE name = 'A'",
])
@pytest.mark.parametrize("volumes", [0, 2])
def test_full_disk_of_a_stored_matrix(tmp_path, monkeypatch, sql, volumes):
    db = source(tmp_path / "a.db", volumes=volumes)
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", np.ones((400, 400)))
    before = q(db, "SELECT gx_sum('A')"), db.execute("SELECT name, generation FROM gx ORDER BY 1").fetchall(), set(
        os.listdir(tmp_path))
    with full_disk(max(os.path.getsize(p) for p in tmp_path.glob("a.db*")) + 100000):
        said = error(db, sql)
    assert "full" in said or "writing" in said or "disk I/O" in said, said
    assert (q(db, "SELECT gx_sum('A')"), db.execute("SELECT name, generation FROM gx ORDER BY 1").fetchall(),
            set(os.listdir(tmp_path))) == before
    assert q(db, "SELECT gx_check()") == "ok" and not db.in_transaction


@pytest.mark.parametrize("most", [0, 20000, 1000000])
def test_full_disk_of_a_benchmark(tmp_path, most):
    """It measures in a database beside the connection's, and keeps a profile in the cache folder."""
    script = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_file_failures import *
db = gx_connect({str(tmp_path / "data" / "a.db")!r})
q(db, "SELECT gx_config('threads', 1)")
with full_disk({most}):
    try:
        db.execute("SELECT gx_benchmark('{{\\"force\\":true}}')").fetchall()
    except sqlite3.Error as problem:
        assert str(problem).startswith("gx_benchmark: "), problem
"""
    (tmp_path / "data").mkdir()
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    left = set(seen(tmp_path)) - {"data/a.db"}
    assert all(name.startswith("cache/") and name.endswith("hardware.json") for name in left), left
