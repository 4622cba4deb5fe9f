"""Volumes: tiles beside the database, atomic with it.

Plan, with tiles of 4 KiB so that small matrices have many, in rollback-journal and WAL mode, one volume and three:
- every kind of call reads and writes spread matrices as it does those at home; gx_check is 'ok' after each step;
- changed in place: the tile goes home; replaced, dropped: space is used again, but never under a reader of an older
  state, in a transaction that may roll back, nor before the commit; gx_vacuum makes holes of it, by the blocks of the files;
- ROLLBACK, ROLLBACK TO, a failed call, a killed process: old state or new, and gx_vacuum leaves nothing behind;
- damage: a missing, foreign, exchanged, cut, older, changed volume is named, and the rest goes on; forged rows;
- a database from elsewhere does not choose files; arguments; attached databases; temp and in-memory ones;
- gx_backup is one state; gx_volumes(0) brings all home; an older gx refuses the format.
"""
import ctypes
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import error, gx_connect, gx_path, q, to_numpy

REPLACE = '\'{"replace":true}\''


def opened(path, journal=None):
    db = gx_connect(str(path)) if journal is None else gx_connect(str(path), journal_mode=journal)
    q(db, "SELECT gx_config('tile_bytes', 4096)")
    return db


def files(path):
    return sorted(f for f in os.listdir(path) if "-gx" in f)


def matrix(db, name):
    return to_numpy(q(db, f"SELECT gx_copy('{name}')"))


@pytest.fixture(params=[("delete", 1), ("delete", 3), ("wal", 3)], ids=["delete-1", "delete-3", "wal-3"])
def db(request, tmp_path):
    journal, count = request.param
    db = opened(tmp_path / "v.db", journal)
    assert q(db, f"SELECT gx_volumes({count})") == count
    yield db
    db.close()


# What works ----------------------------------------------------------------------------------------


def test_spread_matrices_are_like_others(db):
    q(db, "SELECT gx_randn(130, 70, 'A', '{\"seed\":3}')")
    assert q(db, "SELECT count(*) FROM gx_tile") == 0 and q(db, "SELECT count(*) FROM gx_extent") > 10
    home = to_numpy(q(db, "SELECT gx_randn(130, 70, '{\"seed\":3}')"))
    assert np.array_equal(matrix(db, "A"), home)
    q(db, "SELECT gx_matmul('A', 'A', 'G', '{\"transa\":true}')")
    np.testing.assert_allclose(matrix(db, "G"), home.T @ home, rtol=1e-12, atol=1e-12)
    q(db, "SELECT gx_cholesky('G', 'L')")
    L = np.tril(matrix(db, "L"))
    np.testing.assert_allclose(L @ L.T, home.T @ home, rtol=1e-10, atol=1e-10)
    q(db, "SELECT gx_lu('G', 'F')")
    x = to_numpy(q(db, "SELECT gx_solve('F', gx_ones(70, 1))"))
    np.testing.assert_allclose(home.T @ home @ x, np.ones((70, 1)), rtol=1e-8, atol=1e-8)
    assert q(db, "SELECT sum(value) FROM gx_cells('A')") == pytest.approx(home.sum())
    assert q(db, "SELECT gx_get('A', 129, 69)") == home[129, 69]
    assert q(db, "SELECT gx_rename('A', 'B')") == "B" and q(db, "SELECT gx_check()") == "ok"
    q(db, "SELECT gx_export('B', ?)", os.path.dirname(q(db, "SELECT file FROM pragma_database_list")) + "/b.npy")
    q(db, "SELECT gx_import('C', ?)", os.path.dirname(q(db, "SELECT file FROM pragma_database_list")) + "/b.npy")
    assert np.array_equal(matrix(db, "C"), home) and q(db, "SELECT gx_check()") == "ok"


def test_small_matrices_stay_at_home(db):
    q(db, "SELECT gx_ones(10, 10, 'S')")
    assert q(db, "SELECT count(*) FROM gx_tile") == 1 and q(db, "SELECT count(*) FROM gx_extent") == 0


def test_a_changed_tile_goes_home(db):
    q(db, "SELECT gx_zeros(100, 100, 'A')")
    before = q(db, "SELECT count(*) FROM gx_extent")
    q(db, "SELECT gx_set('A', 5, 6, 2.5)")
    assert q(db, "SELECT count(*) FROM gx_extent") == before - 1 and q(db, "SELECT count(*) FROM gx_tile") == 1
    q(db, "SELECT gx_set('A', 5, 7, 3.5)")
    assert q(db, "SELECT gx_sum('A')") == 6 and q(db, "SELECT gx_check()") == "ok"
    db.execute("CREATE VIRTUAL TABLE c USING gx_cells('A')")
    db.execute("UPDATE c SET value = value + 1 WHERE i = 99")
    assert q(db, "SELECT gx_sum('A')") == 106 and q(db, "SELECT gx_check()") == "ok"
    q(db, f"SELECT gx_scale('A', 2, 'A', {REPLACE})")
    assert q(db, "SELECT count(*) FROM gx_tile") == 0 and q(db, "SELECT gx_sum('A')") == 212


def test_space_is_used_again(db):
    q(db, "SELECT gx_ones(200, 200, 'A')")
    sizes = []
    for k in range(6):
        q(db, f"SELECT gx_scale('A', 2, 'A', {REPLACE})")
        sizes.append(q(db, "SELECT sum(bytes) FROM gx_volume"))
        assert q(db, "SELECT gx_sum('A')") == 40000 * 2 ** (k + 1)
    assert sizes[1:] == sizes[1:2] * 5
    q(db, "SELECT gx_drop('A')")
    assert q(db, "SELECT gx_vacuum()") > 0 and q(db, "SELECT max(bytes) FROM gx_volume") == 4096


def test_readers_of_an_older_state_keep_it(tmp_path):
    db = opened(tmp_path / "v.db", "wal")
    q(db, "SELECT gx_volumes(2)")
    q(db, "SELECT gx_ones(200, 200, 'A')")
    old = opened(tmp_path / "v.db")
    old.execute("BEGIN")
    assert q(old, "SELECT gx_sum('A')") == 40000
    for k in range(5):
        q(db, f"SELECT gx_full(200, 200, {k + 2}, 'A', {REPLACE})")
        assert q(db, "SELECT gx_vacuum()") == 0
        assert q(old, "SELECT gx_sum('A')") == 40000 and q(old, "SELECT gx_check()") == "ok"
    q(db, "SELECT gx_drop('A')")
    assert q(old, "SELECT gx_max('A')") == 1
    old.execute("COMMIT")
    assert error(old, "SELECT gx_sum('A')").startswith("gx_sum: no matrix named 'A'")
    assert q(db, "SELECT gx_vacuum()") > 0


def can_make_holes(folder):
    """Whether the file system does: fallocate(2), PUNCH_HOLE and KEEP_SIZE, of one MiB in two."""
    path = folder / "probe"
    path.write_bytes(b"x" * (2 << 20))
    with open(path, "r+b") as file:
        call = ctypes.CDLL(None).fallocate
        call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
        made = call(file.fileno(), 3, 1 << 19, 1 << 20) == 0
        return made and os.fstat(file.fileno()).st_blocks * 512 < 3 << 19


def test_free_space_goes_back_to_the_file_system(tmp_path):
    if not can_make_holes(tmp_path):
        pytest.skip("the file system makes no holes")
    db = opened(tmp_path / "v.db", "wal")
    q(db, "SELECT gx_volumes(2)")
    for seed, name in enumerate("ABC"):
        q(db, f"SELECT gx_randn(500, 500, '{name}', '{{\"seed\":{seed}}}')")

    def on_disk():
        found = [os.stat(tmp_path / name) for name in files(tmp_path)]
        return sum(f.st_size for f in found), sum(f.st_blocks for f in found) * 512

    expected = {name: matrix(db, name) for name in "ABC"}
    length, full = on_disk()
    old = opened(tmp_path / "v.db")
    old.execute("BEGIN")
    assert np.array_equal(matrix(old, "B"), expected["B"])
    q(db, "SELECT gx_drop('B')")
    assert q(db, "SELECT gx_vacuum()") == 0 and on_disk()[1] > full - 500 * 500 * 8
    assert np.array_equal(matrix(old, "B"), expected["B"]), "a reader of the older state keeps it"
    old.execute("COMMIT")
    freed = q(db, "SELECT gx_vacuum()")
    assert freed >= 500 * 500 * 8 and on_disk()[0] == length and on_disk()[1] <= full - 500 * 500 * 8
    assert q(db, "SELECT gx_vacuum()") == 0 and q(db, "SELECT gx_check()") == "ok"
    assert all(np.array_equal(matrix(db, name), expected[name]) for name in "AC")
    q(db, "SELECT gx_copy('A', 'B')")
    assert on_disk()[0] == length, "the holes are filled by what is stored next"
    assert all(np.array_equal(matrix(db, x), expected[y]) for x, y in ("AA", "BA", "CC")) and q(db, "SELECT gx_check()") == "ok"


def test_no_holes_through_another_vfs(tmp_path):
    db = sqlite3.connect(f"file:{tmp_path}/v.db?vfs=unix-dotfile", uri=True, isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(gx_path())
    q(db, "SELECT gx_config('tile_bytes', 4096)")
    q(db, "SELECT gx_volumes(2)")
    q(db, "SELECT gx_ones(100, 100, 'A') || gx_ones(100, 100, 'B')")
    q(db, "SELECT gx_drop('A')")
    assert q(db, "SELECT gx_vacuum()") == 0 and q(db, "SELECT gx_sum('B')") == 10000 and q(db, "SELECT gx_check()") == "ok"


def test_transactions_of_the_application(db):
    q(db, "SELECT gx_ones(100, 100, 'A')")
    db.execute("BEGIN")
    q(db, f"SELECT gx_full(100, 100, 2, 'A', {REPLACE})")
    q(db, f"SELECT gx_full(100, 100, 3, 'A', {REPLACE})")
    q(db, "SELECT gx_full(100, 100, 7, 'B')")
    assert q(db, "SELECT gx_sum('A')") == 30000
    db.execute("ROLLBACK")
    assert q(db, "SELECT gx_sum('A')") == 10000 and q(db, "SELECT gx_check()") == "ok"
    db.execute("BEGIN")
    q(db, f"SELECT gx_full(100, 100, 4, 'A', {REPLACE})")
    db.execute("SAVEPOINT s")
    q(db, f"SELECT gx_full(100, 100, 5, 'A', {REPLACE})")
    db.execute("ROLLBACK TO s")
    q(db, "SELECT gx_full(100, 100, 6, 'B')")
    db.execute("COMMIT")
    assert q(db, "SELECT gx_sum('A') || ' ' || gx_sum('B')") == "40000.0 60000.0"
    db.execute("CREATE TABLE t AS SELECT gx_full(100, 100, 8, 'C') AS name")
    assert q(db, "SELECT gx_sum('C')") == 80000 and q(db, "SELECT gx_check()") == "ok"
    assert q(db, "SELECT gx_vacuum()") >= 0 and q(db, "SELECT gx_check()") == "ok"


def test_two_connections_take_turns(tmp_path):
    db = opened(tmp_path / "v.db", "wal")
    q(db, "SELECT gx_volumes(2)")
    q(db, "SELECT gx_zeros(90, 90, 'A')")
    failed = []

    def work(number):
        try:
            mine = opened(tmp_path / "v.db")
            mine.execute("PRAGMA busy_timeout=60000")
            for k in range(12):
                q(mine, f"SELECT gx_full(90, 90, {number * 100 + k}, 'A', {REPLACE})")
                total = q(mine, "SELECT gx_min('A') = gx_max('A')")
                if total != 1:
                    failed.append("torn")
            mine.close()
        except Exception as problem:  # noqa: BLE001: said below
            failed.append(str(problem))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert failed == [] and q(db, "SELECT gx_check()") == "ok"


def test_home_again(db, tmp_path):
    q(db, "SELECT gx_randn(100, 80, 'A')")
    before = matrix(db, "A")
    assert q(db, "SELECT gx_volumes(0)") == 0
    assert files(tmp_path) == [] and q(db, "SELECT count(*) FROM gx_volume") == 0
    assert np.array_equal(matrix(db, "A"), before) and q(db, "SELECT gx_check()") == "ok"
    assert q(db, "SELECT value FROM gx_state WHERE key = 'format'") == 1
    assert q(db, "SELECT gx_volumes(2)") == 2
    assert not {"v.db-gx1"} & set(files(tmp_path)), "a name never comes again"


def test_another_number(db, tmp_path):
    q(db, "SELECT gx_ones(100, 80, 'A')")
    assert q(db, "SELECT gx_volumes(2)") == 2
    q(db, "SELECT gx_ones(100, 80, 'B')")
    assert [r[0] for r in db.execute("SELECT DISTINCT state FROM gx_volume ORDER BY 1")] == ["current", "old"]
    q(db, f"SELECT gx_copy('A', 'A', {REPLACE})")
    q(db, "SELECT gx_vacuum()")
    assert [r[0] for r in db.execute("SELECT state FROM gx_volume")] == ["current"] * 2
    assert len(files(tmp_path)) == 2 and q(db, "SELECT gx_check()") == "ok" and q(db, "SELECT gx_volumes(2)") == 2


def test_backup(db, tmp_path):
    q(db, "SELECT gx_randn(100, 80, 'A')")
    q(db, "SELECT gx_set('A', 0, 0, 1)")
    path = str(tmp_path / "copy.db")
    assert q(db, "SELECT gx_backup(?)", path) == path
    copy = opened(path)
    assert np.array_equal(matrix(copy, "A"), matrix(db, "A")) and q(copy, "SELECT gx_check()") == "ok"
    q(copy, f"SELECT gx_zeros(100, 80, 'A', {REPLACE})")
    q(copy, "SELECT gx_vacuum()")
    assert q(db, "SELECT gx_check()") == "ok" and q(db, "SELECT gx_get('A', 0, 0)") == 1
    assert "exists already" in error(db, "SELECT gx_backup(?)", path)
    db.execute("BEGIN")
    q(db, "SELECT gx_ones(2, 2, 'B')")
    assert "uncommitted changes" in error(db, "SELECT gx_backup(?)", path + "2")
    db.execute("COMMIT")
    assert "no path" in error(db, "SELECT gx_backup(':memory:')")


def test_attached(tmp_path):
    db = opened(tmp_path / "v.db")
    db.execute("ATTACH ? AS aux", (str(tmp_path / "aux.db"),))
    assert q(db, "SELECT gx_volumes(2, 'aux')") == 2
    q(db, "SELECT gx_ones(100, 80, 'A')")
    q(db, "SELECT gx_ones(100, 80, 'aux.B')")
    q(db, "SELECT gx_add('A', 'aux.B', 'aux.C')")
    assert q(db, "SELECT gx_sum('aux.C')") == 16000 and q(db, "SELECT gx_check()") == "ok"
    assert [r[0] for r in db.execute("SELECT DISTINCT schema FROM gx_volume")] == ["aux"]
    assert files(tmp_path) == ["aux.db-gx1", "aux.db-gx2"]
    db.close()


# Failures ------------------------------------------------------------------------------------------


def test_disk_full(tmp_path):
    script = f"""
import resource, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_volumes import *
db = opened({str(tmp_path / "v.db")!r})
q(db, "SELECT gx_volumes(2)")
q(db, "SELECT gx_ones(100, 100, 'A')")
resource.setrlimit(resource.RLIMIT_FSIZE, (300000, 300000))
print(error(db, f"SELECT gx_full(400, 400, 2, 'A', {{REPLACE}})"))
print(error(db, f"SELECT gx_store('A', gx_full(400, 400, 2), {{REPLACE}})"))
print(q(db, "SELECT gx_sum('A')"), q(db, "SELECT gx_check()"))
"""
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    lines = out.stdout.splitlines()
    assert all("writing the volume" in line for line in lines[:2]) and lines[2] == "10000.0 ok", out


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_killed(tmp_path, journal):
    db = opened(tmp_path / "v.db", journal)
    q(db, "SELECT gx_volumes(3)")
    q(db, "SELECT gx_full(150, 150, 1, 'A')")
    db.close()
    script = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_volumes import *
db = opened({str(tmp_path / "v.db")!r})
print("ready", flush=True)
k = 0
while True:
    k += 1
    q(db, f"SELECT gx_full(150, 150, {{k}}, 'A', {{REPLACE}})")
    q(db, "SELECT gx_copy('A', 'B')"), q(db, "SELECT gx_drop('B')"), q(db, "SELECT gx_vacuum()")
    q(db, f"SELECT gx_store('A', gx_full(150, 150, {{-k}}), {{REPLACE}})")
"""
    random = np.random.default_rng(5)
    for _ in range(8):
        child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(random.uniform(0.01, 0.2))
        child.send_signal(signal.SIGKILL)
        child.wait()
        db = opened(tmp_path / "v.db")
        assert q(db, "SELECT gx_check()") == "ok" and q(db, "SELECT gx_min('A') = gx_max('A')") == 1
        q(db, "SELECT gx_drop('B', '{\"if_exists\":true}')")
        q(db, "SELECT gx_vacuum()")
        tiles = q(db, "SELECT count(*) FROM gx_extent")
        assert q(db, "SELECT count(DISTINCT id >> 32) FROM gx_extent") == 1
        assert q(db, "SELECT max(bytes) FROM gx_volume") <= 4096 + 2 * tiles * 8192
        db.close()


def test_damage_is_named(tmp_path):
    db = opened(tmp_path / "v.db")
    q(db, "SELECT gx_volumes(2)")
    q(db, "SELECT gx_ones(100, 100, 'A')")
    q(db, "SELECT gx_ones(3, 3, 'home')")
    first, second = tmp_path / "v.db-gx1", tmp_path / "v.db-gx2"
    good = second.read_bytes()

    def problem(expected):
        text = error(db, "SELECT gx_sum('A')")
        assert expected in text, text
        checked = q(db, "SELECT gx_check()")
        assert expected in checked, checked
        assert q(db, "SELECT gx_sum('home')") == 9
        second.write_bytes(good)
        assert q(db, "SELECT gx_sum('A')") == 10000

    second.unlink()
    assert "gx2" in q(db, "SELECT group_concat(state) FROM gx_volume")
    assert "missing" in error(db, "SELECT gx_ones(100, 100, 'N')")
    problem(f"volume 2 of main is missing: there is no {second}")
    second.write_bytes(b"")
    problem("volume 2 of main is missing")
    second.write_bytes(b"gxvolume")
    problem(f"{second} is not a volume of gx")
    second.write_bytes(b"x" * 10000)
    problem(f"{second} is not a volume of gx")
    shutil.copy(first, second)
    problem(f"{second} is volume 1, not volume 2")
    second.write_bytes(good[:len(good) // 2])
    problem(f"the volume {second} is cut short")
    second.write_bytes(good[:4096] + bytes(len(good) - 4096))
    problem(f"the volume {second} does not have what the database says is there")
    other = opened(tmp_path / "other.db")
    q(other, "SELECT gx_volumes(2)")
    shutil.copy(tmp_path / "other.db-gx2", second)
    problem(f"the volume {second} belongs to another database")
    os.chmod(second, 0o400)
    if os.getuid() != 0:
        assert "may not be written" in error(db, "SELECT gx_ones(100, 100, 'N')")


def test_an_older_database_with_newer_volumes(tmp_path):
    db = opened(tmp_path / "v.db")
    q(db, "SELECT gx_volumes(1)")
    q(db, "SELECT gx_ones(100, 100, 'A')")
    db.close()
    before = (tmp_path / "v.db").read_bytes()
    db = opened(tmp_path / "v.db")
    for k in range(3):
        q(db, f"SELECT gx_full(100, 100, {k}, 'A', {REPLACE})")
    db.close()
    (tmp_path / "v.db").write_bytes(before)
    db = opened(tmp_path / "v.db")
    assert "one of them is older than the other" in error(db, "SELECT gx_sum('A')")


@pytest.mark.parametrize("forge, expected", [
    ("UPDATE gx_extent SET offset = -4096", "gx_extent says"),
    ("UPDATE gx_extent SET offset = offset + 1", "gx_extent says"),
    ("UPDATE gx_extent SET offset = 0", "gx_extent says"),
    ("UPDATE gx_extent SET offset = 9223372036854771712", "gx_extent says"),
    ("UPDATE gx_extent SET offset = 1125899906842624", "cut short"),
    ("UPDATE gx_extent SET length = 9223372036854771712", "gx_extent says"),
    ("UPDATE gx_extent SET length = 'x', offset = NULL", "gx_extent says"),
    ("UPDATE gx_extent SET stamp = stamp + 1", "does not have what the database says"),
    ("UPDATE gx_extent SET set_id = 99", "has no volumes of the set 99"),
    ("UPDATE gx_volumes SET set_id = NULL", "has no volumes of the set 1"),
    ("UPDATE gx_volumes SET path = '/etc/passwd'", "allow that with gx_config('volumes_anywhere', 'on')"),
    ("UPDATE gx_state SET value = 1 WHERE key = 'volume_key'", "belongs to another database"),
    ("DROP TABLE gx_volumes", "no such table"),
    ("DELETE FROM gx_extent", "missing"),
    ("INSERT INTO gx_volumes SELECT value + 100, 1, NULL FROM generate", "more than 64 volumes"),
], ids=range(15))
def test_forged_rows(tmp_path, forge, expected):
    db = opened(tmp_path / "v.db")
    q(db, "SELECT gx_volumes(2)")
    q(db, "SELECT gx_ones(100, 100, 'A')")
    db.execute("CREATE TABLE generate AS WITH RECURSIVE k(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM k "
               "WHERE value < 70) SELECT value FROM k")
    if "generate" in forge:
        for k in range(1, 71):
            shutil.copy(tmp_path / "v.db-gx1", tmp_path / f"v.db-gx{100 + k}")
    db.execute(forge)
    text = error(db, "SELECT gx_sum('A')")
    assert expected in text, text
    assert q(db, "SELECT gx_check()") != "ok"
    for sql in ("SELECT gx_vacuum()", "SELECT gx_volumes(0)", "SELECT count(*) FROM gx_volume",
                "SELECT gx_full(100, 100, 1, 'N')", f"SELECT gx_full(100, 100, 1, 'A', {REPLACE})", "SELECT gx_drop('A')"):
        try:
            db.execute(sql).fetchall()
        except sqlite3.Error as problem:
            assert str(problem).startswith(("gx_", "no such")), str(problem)
    db.close()


def test_files_that_a_killed_call_left_are_passed(tmp_path):
    db = opened(tmp_path / "v.db")
    for number in (1, 3):
        (tmp_path / f"v.db-gx{number}").write_bytes(b"somebody's")
    assert q(db, "SELECT gx_volumes(2)") == 2
    assert [i for i, in db.execute("SELECT id FROM gx_volumes ORDER BY 1")] == [4, 5]
    q(db, "SELECT gx_ones(100, 100, 'A')")
    assert q(db, "SELECT gx_volumes(0)") == 0 and q(db, "SELECT gx_sum('A')") == 10000 and q(db, "SELECT gx_check()") == "ok"
    assert sorted(p.name for p in tmp_path.glob("v.db-gx*")) == ["v.db-gx1", "v.db-gx3"]
    assert all(p.read_bytes() == b"somebody's" for p in tmp_path.glob("v.db-gx*"))


def test_a_database_from_elsewhere_chooses_no_files(tmp_path):
    db = opened(tmp_path / "v.db")
    target = tmp_path / "elsewhere" / "a.gxv"
    target.parent.mkdir()
    paths = f'["{target}"]'
    assert "must be allowed first" in error(db, "SELECT gx_volumes(?)", paths)
    q(db, "SELECT gx_config('volumes_anywhere', 'on')")
    assert q(db, "SELECT gx_volumes(?)", paths) == 1 and target.exists()
    q(db, "SELECT gx_ones(100, 100, 'A')")
    assert "exists already" in error(db, "SELECT gx_volumes(?)", f'["{tmp_path / "new"}","{target}"]')
    assert not (tmp_path / "new").exists()
    stranger = opened(tmp_path / "v.db")
    assert "allow that" in error(stranger, "SELECT gx_sum('A')")
    assert q(db, "SELECT gx_volumes(0)") == 0 and not target.exists() and q(db, "SELECT gx_sum('A')") == 10000


@pytest.mark.parametrize("call, expected", [
    ("gx_volumes(-1)", "volumes must be 0 to 64, not -1"),
    ("gx_volumes(65)", "volumes must be 0 to 64, not 65"),
    ("gx_volumes(9223372036854775807)", "volumes must be 0 to 64"),
    ("gx_volumes(1.5)", "volumes"),
    ("gx_volumes(NULL)", "volumes"),
    ("gx_volumes('nonsense')", "must be allowed first"),
    ("gx_volumes(2, 'nowhere')", "there is no database nowhere"),
    ("gx_volumes(2, 'temp')", "temp has no volumes"),
    ("gx_vacuum('nowhere')", "there is no database nowhere"),
    ("gx_backup('')", "no path"),
    ("gx_backup('/nonexistent/x.db')", "gx_backup"),
])
def test_arguments(tmp_path, call, expected):
    db = opened(tmp_path / "v.db")
    assert expected in error(db, f"SELECT {call}")
    assert files(tmp_path) == []


@pytest.mark.parametrize("text", ["[]", "[1]", "{}", "[\"\"]", "x", "[" * 70000, "[" + ",".join(['"a"'] * 70) + "]"],
                         ids=range(7))
def test_lists_of_paths(tmp_path, text):
    db = opened(tmp_path / "v.db")
    q(db, "SELECT gx_config('volumes_anywhere', 'on')")
    assert error(db, "SELECT gx_volumes(?)", text).startswith("gx_volumes:")
    assert files(tmp_path) == []


def test_in_memory_and_read_only(tmp_path):
    memory = gx_connect()
    assert "has no file" in error(memory, "SELECT gx_volumes(2)")
    assert q(memory, "SELECT gx_vacuum()") == 0 and q(memory, "SELECT count(*) FROM gx_volume") == 0
    db = opened(tmp_path / "v.db")
    q(db, "SELECT gx_volumes(2)")
    q(db, "SELECT gx_ones(100, 100, 'A')")
    db.close()
    reader = sqlite3.connect(f"file:{tmp_path}/v.db?mode=ro", uri=True)
    reader.enable_load_extension(True)
    reader.load_extension(gx_path())
    assert q(reader, "SELECT gx_sum('A')") == 10000
    assert "readonly" in error(reader, "SELECT gx_volumes(0)")
