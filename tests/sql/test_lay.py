"""Large tiles that go into the file past SQLite's cache, in files of the VFS "gx": everything else is SQLite's as ever.

Plan:
1. the file is byte for byte what SQLite's own VFS makes of the same statements, for pages of all sizes, edges, dtypes,
   tiles that are made as images of pages, turned or not, of long columns and of short ones, and others; and it takes a small part of the system calls, so that it was this way that it went
2. read again at once, by the same connection in the same transaction, and by another one after it
3. rolled back, to a savepoint too, dropped, stored into pages that were free: no zeros come up, no page is lost
4. where SQLite hands rows to somebody else: triggers and indexes get the elements; WAL; auto_vacuum; a large cache;
   cache_spill off; an authorizer; the page of the lock bytes at 1 GiB
5. another connection's lock is waited for; nothing is there after the call has given up
6. the disk is full in the middle of a tile; the process is killed there: the old state or the new one
7. descriptors of the application stay what they are
"""
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import error, from_numpy, gx_connect, gx_path, q, to_numpy

A = np.random.default_rng(0).standard_normal((1700, 900))  # a tile of 12 MB at most, two in any case


def lay_connect(path, vfs="gx", **pragmas):
    gx_connect().close()  # the VFS is there from the first loading on
    db = sqlite3.connect(f"file:{path}?vfs={vfs}", uri=True, isolation_level=None, check_same_thread=False)
    for key, value in {"cache_size": 8, **pragmas}.items():
        db.execute(f"PRAGMA {key}={value}")
    db.enable_load_extension(True)
    db.load_extension(gx_path())
    return db


@pytest.fixture
def db(tmp_path):
    connection = lay_connect(tmp_path / "t.db", page_size=65536)
    yield connection
    connection.close()


def file_of(db):
    return q(db, "SELECT file FROM pragma_database_list WHERE name = 'main'")


def is_ok(db):
    assert q(db, "PRAGMA integrity_check") == "ok"
    assert [row for row in db.execute("SELECT name FROM gx WHERE gx_check(name) <> 'ok'")] == []
    return True


def store(db, array, name="A", options="{}"):
    return db.execute("SELECT gx_store(?, ?, ?)", (name, from_numpy(array), options)).fetchall()


def equal(db, array, name="A"):
    return np.array_equal(to_numpy(q(db, "SELECT gx_copy(?)", name)), array)


def writes():
    """System calls of this process that write."""
    with open("/proc/self/io") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("syscw"))


WAYS = {"copied": "SELECT gx_store('A', :a)",  # images of pages, made of the array's columns
        "turned": "SELECT gx_transpose(:t, 'A')",  # ... or turned block by block
        "made": "SELECT gx_scale(:a, 1, 'A')"}  # elements behind each other


def both(tmp_path, array, way="copied", threads=2, **pragmas):
    """What is in the file, and the calls that it took, of SQLite's VFS and ours."""
    values = {"a": from_numpy(array), "t": from_numpy(array.T)}
    made = []
    for vfs in ("unix", "gx"):
        db = lay_connect(tmp_path / f"{vfs}.db", vfs, **pragmas)
        db.execute("SELECT gx_config('tile_bytes', 4194304), gx_config('threads', ?)", (threads,)).fetchall()
        before = writes()
        db.execute(WAYS[way], {name: values[name] for name in values if f":{name}" in WAYS[way]}).fetchall()
        calls = writes() - before
        assert equal(db, array) and is_ok(db)
        db.close()
        made.append(((tmp_path / f"{vfs}.db").read_bytes(), calls))
    return made


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("threads", [1, 2, 6])  # one maker: in pieces; several: whole tiles
@pytest.mark.parametrize("page", [512, 1024, 4096, 16384, 65536])
def test_the_same_file(tmp_path, page, way, threads):
    (theirs, their_calls), (ours, our_calls) = both(tmp_path, A, way, threads, page_size=page)
    assert ours == theirs
    assert our_calls < (their_calls / 3 if page < 65536 else their_calls)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["f4", "c8", "c16"])
def test_the_same_file_of_any_dtype(tmp_path, dtype, way):
    array = (A[:1001, :777] * (1 + 2j)).astype(dtype) if dtype[0] == "c" else A.astype(dtype)
    (theirs, _), (ours, _) = both(tmp_path, array, way, page_size=8192)
    assert ours == theirs


@pytest.mark.parametrize("threads", [1, 6])
@pytest.mark.parametrize("rows, dtype", [(1, "f8"), (2, "f4"), (3, "c16"), (255, "f8"), (256, "f8"), (257, "f8"), (264, "f8")])
def test_short_columns(tmp_path, rows, dtype, threads):
    """Many of them go into an image together, turned too; up to 2 KiB of each."""
    array = np.resize(A, (rows, 1_200_000 // rows)).astype(dtype)
    for k, way in enumerate(("copied", "turned")):
        (tmp_path / way).mkdir()
        (theirs, _), (ours, _) = both(tmp_path / way, array, way, threads, page_size=(4096, 65536)[k])
        assert ours == theirs


@pytest.mark.parametrize("rows", [16379, 16380, 16381, 16382, 131071, 131072, 131073])
def test_tiles_that_just_fill_their_pages(tmp_path, rows):
    array = np.random.default_rng(rows).standard_normal((rows, 9))
    (theirs, _), (ours, _) = both(tmp_path, array, page_size=65536)
    assert ours == theirs


def test_read_again_within_the_transaction(db):
    db.execute("BEGIN IMMEDIATE")
    store(db, A)
    assert equal(db, A) and q(db, "SELECT gx_get('A', 1699, 899)") == A[1699, 899]
    total = q(db, "SELECT sum(length(data)) FROM gx_tile")
    assert total == A.nbytes
    assert b"".join(row[0] for row in db.execute("SELECT data FROM gx_tile")).count(bytes(1000)) == 0
    db.execute("SELECT gx_set('A', 5, 6, 7)")
    db.execute("COMMIT")
    other = gx_connect(file_of(db))
    changed = A.copy()
    changed[5, 6] = 7
    assert equal(other, changed) and is_ok(other)
    other.close()


def test_read_by_helpers_and_by_products(db):
    db.execute("SELECT gx_config('tile_bytes', 2097152)").fetchall()
    store(db, A)
    db.execute("SELECT gx_matmul('A', 'A', 'G', '{\"transa\":true}')").fetchall()
    assert np.allclose(to_numpy(q(db, "SELECT gx_copy('G')")), A.T @ A) and is_ok(db)


def test_rolled_back_and_dropped(db):
    store(db, A[:1000], "K")
    size = os.path.getsize(file_of(db))
    for _ in range(3):
        db.execute("BEGIN")
        store(db, A)
        db.execute("ROLLBACK")
        assert os.path.getsize(file_of(db)) == size and equal(db, A[:1000], "K") and is_ok(db)
    db.execute("BEGIN")
    db.execute("SAVEPOINT s")
    store(db, A)
    db.execute("ROLLBACK TO s")
    store(db, A[::-1].copy())
    db.execute("COMMIT")
    assert equal(db, A[::-1]) and is_ok(db)
    db.execute("SELECT gx_drop('A')")
    store(db, A[:1200])  # some pages are free, of those that it needs
    store(db, A, "B")
    assert equal(db, A[:1200]) and equal(db, A, "B") and is_ok(db)
    store(db, A * 2, "B", '{"replace":true}')
    assert equal(db, A * 2, "B") and is_ok(db)


def test_triggers_and_indexes_get_the_elements(tmp_path):
    for k, watcher in enumerate(["CREATE TRIGGER w AFTER INSERT ON gx_tile BEGIN INSERT INTO seen VALUES(substr(new.data, -8)); END",
                                 "CREATE TEMP TRIGGER w AFTER INSERT ON main.gx_tile BEGIN INSERT INTO seen VALUES(substr(new.data, -8)); END",
                                 "CREATE INDEX w ON GX_TILE(substr(data, -8))"]):
        db = lay_connect(tmp_path / f"{k}.db")
        db.execute("SELECT gx_randn(2, 2, 'R')").fetchall()
        db.execute("CREATE TABLE seen(a)")
        db.execute(watcher)
        store(db, A)
        ends = {row[0] for row in db.execute("SELECT substr(data, -8) FROM gx_tile WHERE length(data) > 100000")}
        if "TRIGGER" in watcher:
            assert {row[0] for row in db.execute("SELECT a FROM seen")} == ends
        assert equal(db, A) and is_ok(db)
        db.close()


@pytest.mark.parametrize("pragmas", [{"journal_mode": "wal"}, {"auto_vacuum": "full"}, {"cache_size": -100000}, {"cache_spill": "off"},
                                     {"journal_mode": "off"}, {"journal_mode": "memory"}, {"locking_mode": "exclusive"},
                                     {"mmap_size": 1 << 30}, {"synchronous": "full"}, {"secure_delete": "on"}],
                         ids=lambda p: "-".join(map(str, *p.items())))
def test_other_ways_of_keeping_a_file(tmp_path, pragmas):
    db = lay_connect(tmp_path / "t.db", page_size=4096, **pragmas)
    store(db, A)
    assert equal(db, A)
    store(db, A[:1111], "A", '{"replace":true}')
    assert equal(db, A[:1111]) and is_ok(db)
    db.close()
    db = gx_connect(str(tmp_path / "t.db"))
    assert equal(db, A[:1111]) and is_ok(db)
    db.close()


def test_an_authorizer_that_forbids_changes(db):
    db.execute("SELECT gx_randn(2, 2, 'R')").fetchall()
    db.set_authorizer(lambda action, table, *_: sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_UPDATE and table == "gx_tile"
                      else sqlite3.SQLITE_OK)
    store(db, A)
    db.set_authorizer(None)
    assert equal(db, A) and is_ok(db)


def test_across_the_page_of_the_lock_bytes(db):
    db.execute("CREATE TABLE filler(a)")
    for megabytes in (900, 110):
        db.execute("INSERT INTO filler VALUES(zeroblob(?))", (megabytes << 20,))
    array = np.random.default_rng(1).standard_normal((3000, 2000))
    store(db, array)
    size = os.path.getsize(file_of(db))
    assert size > 1 << 30
    assert equal(db, array) and is_ok(db)


def test_small_memory(db):
    db.execute("SELECT gx_config('memory_limit', 26000000)").fetchall()
    db.execute("SELECT gx_randn(3000, 2000, 'A', '{\"seed\":1}')").fetchall()
    plain = gx_connect()
    plain.execute("SELECT gx_randn(3000, 2000, 'A', '{\"seed\":1}')").fetchall()
    assert np.array_equal(to_numpy(q(db, "SELECT gx_slice('A', 0, 3000, 1500, 1600)")),
                          to_numpy(q(plain, "SELECT gx_slice('A', 0, 3000, 1500, 1600)"))) and is_ok(db)
    plain.close()


def test_a_reader_is_in_the_way(db):
    db.execute("PRAGMA busy_timeout = 50")
    store(db, A[:500], "K")
    other = gx_connect(file_of(db))
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM gx_meta").fetchall()
    assert "locked" in error(db, "SELECT gx_store('A', ?)", from_numpy(A))
    assert q(other, "SELECT count(*) FROM gx") == 1
    other.execute("COMMIT")
    assert q(db, "SELECT count(*) FROM gx") == 1 and is_ok(db)
    store(db, A)
    assert equal(other, A) and is_ok(other)
    other.close()


def test_the_disk_is_full_within_a_tile(db):
    store(db, A[:500], "K")
    size = os.path.getsize(file_of(db))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for more in (100000, 1 << 20, 5000000, 12000000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + more, limits[1]))
        try:
            said = error(db, "SELECT gx_store('A', ?)", from_numpy(A))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert "disk I/O error" in said or "full" in said
        assert os.path.getsize(file_of(db)) == size and q(db, "SELECT count(*) FROM gx") == 1 and is_ok(db)
    store(db, A)
    assert equal(db, A) and equal(db, A[:500], "K") and is_ok(db)


CHILD = """
import sys
sys.path.insert(0, {here!r})
from test_lay import A, lay_connect, store
db = lay_connect({path!r}, synchronous={synchronous!r})
print("ready", flush=True)
k = 0
while True:
    k += 1
    db.execute("SELECT gx_drop('A', '{{\\"if_exists\\":true}}')").fetchall() if k % 3 == 0 else None
    store(db, A[:1000 + 100 * (k % 5)] * (k % 7 + 1), "A", '{{"replace":true}}')
"""


@pytest.mark.parametrize("synchronous", ["off", "full"])
def test_killed_within_a_tile(tmp_path, synchronous):
    path, generator, journals = tmp_path / "t.db", random.Random(5), 0
    db = lay_connect(path, page_size=65536)
    store(db, A)
    db.close()
    code = CHILD.format(here=os.path.dirname(__file__), path=str(path), synchronous=synchronous)
    for _ in range(8):
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"ready\n"
        time.sleep(0.05 + generator.random() * 0.3)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        journals += os.path.exists(f"{path}-journal")
        db = gx_connect(str(path))
        assert is_ok(db) and q(db, "SELECT count(*) FROM gx_meta WHERE name IS NULL") == 0
        if q(db, "SELECT count(*) FROM gx") == 1:
            array = to_numpy(q(db, "SELECT gx_copy('A')"))
            factor = round(float(array[0, 0] / A[0, 0]))
            assert 1 <= factor <= 7 and np.array_equal(array, A[:len(array)] * factor)
        db.close()
    assert journals > 0


def test_descriptors_of_the_application(tmp_path):
    path = tmp_path / "t.db"
    lay_connect(path).close()
    before = path.read_bytes()
    theirs = [os.open(path, os.O_RDWR | flags) for flags in (0, os.O_APPEND)]
    db = lay_connect(path)
    with open(tmp_path / "other", "wb") as file:
        os.dup2(file.fileno(), theirs[0])
        store(db, A)
        assert os.path.getsize(tmp_path / "other") == 0
    assert before == b"" and equal(db, A) and is_ok(db)
    db.close()
    for descriptor in theirs:
        os.close(descriptor)


def test_several_files_at_once_and_one_that_is_not_there(tmp_path):
    db = lay_connect(tmp_path / "t.db")
    db.execute("ATTACH ? AS other", (f"file:{tmp_path / 'o.db'}?vfs=gx",))
    db.execute("ATTACH ? AS theirs", (f"file:{tmp_path / 'p.db'}?vfs=unix",))
    db.execute("PRAGMA other.cache_size = 8")
    for k, schema in enumerate(("main", "other", "theirs", "temp")):
        store(db, A * (k + 1), f"{schema}.A")
    for k, schema in enumerate(("main", "other", "theirs", "temp")):
        assert equal(db, A * (k + 1), f"{schema}.A") and q(db, f"PRAGMA {schema}.integrity_check") == "ok"
    db.close()
    with pytest.raises(sqlite3.OperationalError):
        sqlite3.connect(f"file:{tmp_path / 'none' / 't.db'}?vfs=gx", uri=True).execute("PRAGMA page_count")
