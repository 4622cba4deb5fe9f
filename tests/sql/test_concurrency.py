"""Other connections, threads and locks during a call.

Plan:
  1  Another connection drops or rewrites a matrix while a call reads it: it is refused (rollback journal)
     or the call goes on with what it saw (WAL); the answer is that of the matrix as it was.
  2  While a result is being stored, others can read; nobody sees it before it is whole.
  3  A locked database fails at once and in words, before anything is computed.
  4  Several connections in several threads compute at the same time.
  5  In-memory, temporary, exclusive and attached databases give the same answers, and say why no helper read.
  6  A read-only database and a full disk: refused in words, nothing lost.
  7  Inside BEGIN ... ROLLBACK, in savepoints, and inside INSERT ... SELECT.
  8  Helpers leave nothing behind: what SQLite does for the last connection to a file it does (decision 046).
  9  All calls of a statement see one state, and let it go when the statement ends.
"""
import os
import sqlite3
import subprocess
import sys
import threading

import numpy as np
import pytest

from conftest import error, from_numpy, gx_connect, gx_path, q, to_numpy

N = 400


def configure(db, **settings):
    for key, value in settings.items():
        db.execute("SELECT gx_config(?, ?)", (key, value))


def open_small(path, **pragmas):
    """A connection that makes tiny tiles, so that little memory is allowed."""
    db = gx_connect(path, **pragmas)
    configure(db, tile_bytes=32768)
    return db


@pytest.fixture
def store(tmp_path):
    """A file with A and B of tiny tiles."""
    path = str(tmp_path / "m.db")
    db = gx_connect(path)
    configure(db, tile_bytes=32768)
    db.execute(f"SELECT gx_random({N}, {N}, 'A', '{{\"seed\":1}}'), gx_random({N}, {N}, 'B', '{{\"seed\":2}}')")
    db.close()
    return path


def during(db, action):
    """Run action once, from inside the next long call, through gx's progress callback."""
    seen = []

    def report(label, fraction, seconds):
        if not seen:
            seen.append(action())
        return 0

    db.create_function("report", 3, report)
    configure(db, progress="report")
    return seen


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("change", ["SELECT gx_drop('A')", "SELECT gx_ones(3, 3, 'A', '{\"replace\":true}')"])
def test_changed_during_a_call(store, mode, change):
    db, other = open_small(store), open_small(store)
    db.execute(f"PRAGMA journal_mode={mode}").fetchone()
    other.execute("PRAGMA busy_timeout=0")
    configure(db, readers=0, memory_limit="1MiB")
    want = q(db, "SELECT gx_norm(gx_matmul('A', 'B', 'C'))")
    db.execute("SELECT gx_drop('C')")

    def act():
        try:
            other.execute(change).fetchall()
            return "done"
        except sqlite3.OperationalError as failure:
            return str(failure)

    seen = during(db, act)
    assert q(db, "SELECT gx_norm(gx_matmul('A', 'B', 'C'))") == want
    if seen:  # a machine so fast that no progress is due has nothing to interleave
        assert "locked" in seen[0]
    seen = during(db, act)
    db.execute("SELECT gx_norm('A')").fetchone()
    db.close()
    assert q(other, "SELECT gx_check()") == "ok"
    other.close()


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_nobody_sees_half_a_result(store, mode):
    db = open_small(store)
    db.execute(f"PRAGMA journal_mode={mode}").fetchone()
    configure(db, memory_limit="1MiB")
    stop, seen = threading.Event(), set()

    def watch():
        other = gx_connect(store)
        while not stop.is_set():
            try:
                names = tuple(r[0] for r in other.execute("SELECT name FROM gx ORDER BY name"))
                seen.add(names)
                if "C" in names:
                    other.execute("SELECT gx_sum('C')").fetchone()
            except sqlite3.OperationalError as failure:
                assert "locked" in str(failure), failure
        other.close()

    thread = threading.Thread(target=watch)
    thread.start()
    for _ in range(5):
        db.execute("SELECT gx_matmul('A', 'B', 'C', '{\"replace\":true}')").fetchone()
    stop.set()
    thread.join()
    assert seen <= {("A", "B"), ("A", "B", "C")}
    db.close()


def test_locked_database_fails_before_the_work(store):
    db, other = open_small(store), open_small(store)
    db.execute("PRAGMA busy_timeout=0")
    other.execute("BEGIN IMMEDIATE")
    db.execute("SELECT gx_stats_reset()")
    assert "database is locked" in error(db, "SELECT gx_matmul('A', 'B', 'C')")
    assert q(db, "SELECT value FROM gx_stats WHERE name = 'kernels'") == 0
    other.execute("ROLLBACK")
    assert q(db, "SELECT gx_matmul('A', 'B', 'C')") == "C"


def test_many_connections_at_once(store):
    want = []
    failures = []
    db = gx_connect(store)
    db.execute("PRAGMA journal_mode=wal").fetchone()
    want.append(q(db, "SELECT gx_norm(gx_add('A', 'B'))"))

    def work(k):
        try:
            mine = gx_connect(store, busy_timeout=60000)
            for _ in range(3):
                assert abs(q(mine, "SELECT gx_norm(gx_add('A', 'B'))") - want[0]) < 1e-9
                mine.execute(f"SELECT gx_matmul('A', 'B', 'C{k}', '{{\"replace\":true}}')").fetchone()
            mine.close()
        except Exception as failure:  # noqa: BLE001 - whatever it is, the test fails with it
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert q(db, "SELECT count(*) FROM gx WHERE name LIKE 'C%'") == 4
    norms = [q(db, f"SELECT gx_norm('C{k}')") for k in range(4)]
    assert max(norms) - min(norms) < 1e-6
    assert q(db, "SELECT gx_check()") == "ok"


def notes(db):
    return " ".join(str(row) for row in db.execute("SELECT * FROM gx_stats"))


@pytest.mark.parametrize("kind", ["memory", "temp", "exclusive", "attached"])
def test_where_helpers_cannot_read(store, tmp_path, kind):
    rng = np.random.default_rng(21)
    a = rng.standard_normal((N, N))
    db = gx_connect(":memory:" if kind == "memory" else store)
    if kind == "exclusive":
        db.execute("PRAGMA locking_mode=exclusive")
    if kind == "attached":
        db.execute("ATTACH ? AS aux", (str(tmp_path / "aux.db"),))
    name = {"temp": "temp.X", "attached": "aux.X"}.get(kind, "X")
    configure(db, tile_bytes=32768, readers=2, memory_limit="14MB")  # nothing is kept in memory
    db.execute("SELECT gx_store(?, ?)", (name, from_numpy(a)))
    db.execute("SELECT gx_stats_reset()")
    got = to_numpy(q(db, f"SELECT gx_matmul('{name}', '{name}')"))
    assert np.abs(got - a @ a).max() < 1e-10
    assert q(db, f"SELECT gx_norm('{name}')") == pytest.approx(np.linalg.norm(a))
    helped = q(db, "SELECT value FROM gx_stats WHERE name = 'helper_reads'")  # of the norm at least
    reason = {"memory": "in-memory database", "temp": "temporary database",
              "exclusive": "exclusive locking mode"}.get(kind)
    if reason is None:
        assert helped > 0
    else:
        assert helped == 0 and reason in notes(db)


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("state, helps", [("changes", False), ("read", True), ("small", False), ("autocommit", True)])
def test_changes_that_fill_the_page_cache(tmp_path, mode, state, helps):
    """With a rollback journal, the writer that has to spill would wait for its own helpers, at every page it reads."""
    db = gx_connect(str(tmp_path / "m.db"), page_size=65536, journal_mode=mode, synchronous="off")
    configure(db, tile_bytes=1 << 20, readers=2)
    db.execute("SELECT gx_random(700, 700, 'A')")
    db.execute("CREATE TABLE t(x)")
    db.execute("SELECT gx_stats_reset()")
    if state == "small":
        db.execute("PRAGMA cache_size = 5")
    elif state != "autocommit":
        db.execute("BEGIN")
        db.execute("SELECT count(*) FROM t").fetchall()
    if state == "changes":  # 20 of the 31 pages of the cache
        db.executemany("INSERT INTO t VALUES(zeroblob(?))", [(60000,)] * 20)
    q(db, "SELECT gx_matmul('A', 'A', 'C')")
    helped = q(db, "SELECT value FROM gx_stats WHERE name = 'helper_reads'")
    refused = "uncommitted changes and a rollback journal" in notes(db)
    assert refused == (mode == "delete" and not helps)
    assert helped == 0 or not refused  # where they may, the caller is sometimes faster
    assert q(db, "SELECT gx_check()") == "ok"


def test_helpers_leave_nothing_behind(tmp_path):
    """The journal mode changes, an attached file's log goes with DETACH, the main file's with the connection."""
    main, other = str(tmp_path / "m.db"), str(tmp_path / "o.db")
    db = gx_connect(main, journal_mode="wal")
    db.execute("ATTACH ? AS aux", (other,))
    db.execute("PRAGMA aux.journal_mode=wal")
    configure(db, tile_bytes=65536, readers=3)
    for name in ("A", "aux.B"):
        db.execute("SELECT gx_random(1500, 1500, ?)", (name,)).fetchall()  # too large to be kept in memory

    def read(name):
        before = q(db, "SELECT value FROM gx_stats WHERE name = 'helper_reads'")
        q(db, "SELECT gx_norm(?)", name)
        assert q(db, "SELECT value FROM gx_stats WHERE name = 'helper_reads'") > before

    def files():
        links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        return sorted(os.readlink(link) for link in links if os.path.islink(link) and str(tmp_path) in os.readlink(link))

    opened = files()
    read("A")
    read("aux.B")
    for _ in range(5):
        read("A")
    assert len(files()) <= len(opened) + 2 * 3  # SQLite has them for whoever opens next: closing one would drop its locks
    assert q(db, "PRAGMA main.journal_mode=delete") == "delete"
    assert not os.path.exists(main + "-wal")
    assert q(db, "PRAGMA main.journal_mode=wal") == "wal"
    read("A")
    assert os.path.exists(other + "-wal")
    db.execute("DETACH aux")
    assert not os.path.exists(other + "-wal")
    db.close()
    assert not os.path.exists(main + "-wal") and files() == []


def test_read_only(store):
    os.chmod(store, 0o444)
    db = gx_connect(f"file:{store}?mode=ro", uri=True) if os.geteuid() == 0 else gx_connect(store)
    before = q(db, "SELECT gx_norm('A')")
    text = error(db, "SELECT gx_matmul('A', 'B', 'C')")
    assert "readonly" in text or "read-only" in text
    assert q(db, "SELECT gx_norm('A')") == before
    assert q(db, "SELECT gx_check()") == "ok"


def test_full_disk(tmp_path):
    """max_page_count is SQLite's own full disk."""
    db = gx_connect(str(tmp_path / "full.db"))
    configure(db, tile_bytes=32768)
    db.execute("SELECT gx_random(200, 200, 'A')")
    pages = q(db, "PRAGMA page_count")
    db.execute(f"PRAGMA max_page_count={pages + 20}").fetchone()
    assert "full" in error(db, "SELECT gx_matmul('A', 'A', 'C')")
    assert [r[0] for r in db.execute("SELECT name FROM gx_meta")] == ["A"]
    assert q(db, "SELECT gx_check()") == "ok"
    assert q(db, "PRAGMA integrity_check") == "ok"
    db.execute("PRAGMA max_page_count=100000").fetchone()
    assert q(db, "SELECT gx_matmul('A', 'A', 'C')") == "C"


def test_transactions(store):
    db = gx_connect(store)
    db.execute("BEGIN")
    db.execute("SELECT gx_matmul('A', 'B', 'C')")
    db.execute("SAVEPOINT s")
    db.execute("SELECT gx_scale('C', 2, 'D')")
    db.execute("ROLLBACK TO s")
    assert [r[0] for r in db.execute("SELECT name FROM gx ORDER BY name")] == ["A", "B", "C"]
    db.execute("ROLLBACK")
    assert [r[0] for r in db.execute("SELECT name FROM gx ORDER BY name")] == ["A", "B"]
    db.execute("CREATE TABLE log(name TEXT)")
    db.execute("INSERT INTO log SELECT gx_matmul('A', 'B', 'C')")
    assert q(db, "SELECT name FROM log") == "C"
    assert "no matrix" in error(db, "INSERT INTO log SELECT gx_matmul('A', 'nobody', 'D')")
    assert "already exists" in error(db, "INSERT INTO log SELECT gx_matmul('A', 'B', 'C')")
    assert [r[0] for r in db.execute("SELECT name FROM gx_meta ORDER BY name")] == ["A", "B", "C"]
    db.execute("CREATE TABLE made AS SELECT gx_add('A', 'B', 'E') AS name")
    assert q(db, "SELECT gx_check()") == "ok"
    assert q(db, "PRAGMA integrity_check") == "ok"


def test_from_the_shell(store):
    out = subprocess.run(["sqlite3", "-batch", store], input=".load ./gx\nSELECT gx_matmul('A', 'B', 'C');\n",
                         capture_output=True, text=True, cwd=os.environ.get("GX_ROOT", os.getcwd()))
    if "no such file" in out.stderr.lower() or "cannot open shared object" in out.stderr:
        pytest.skip("not run from the repository's root")
    assert out.stdout.strip() == "C" and not out.stderr


# One statement, one state ----------------------------------------------------------------------------

WRITER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
db.enable_load_extension(True)
db.load_extension(sys.argv[2])
print("go", flush=True)
k = 0
while True:
    k += 1
    db.execute("SELECT gx_full(2, 2, ?, 'A', '{\\"replace\\":true}')", (k,)).fetchall()
    db.execute("BEGIN IMMEDIATE")
    db.execute("SELECT gx_full(1, 1, ?, 'B', '{\\"replace\\":true}'), gx_full(1, 1, ?, 'C', '{\\"replace\\":true}')", (k, k)).fetchall()
    db.execute("COMMIT")
"""

STATEMENTS = [
    "SELECT gx_min('A'), gx_max('A'), gx_sum('A') / 4, gx_get('A', 1, 1)",
    "SELECT gx_sum('B'), gx_sum('C')",
    "SELECT * FROM (SELECT gx_max('A') AS a) JOIN (SELECT gx_min('A') AS b)",
    "SELECT gx_eval('max(A)'), gx_eval('min(A)'), gx_trace('A') / 2",
    "WITH RECURSIVE k(i, x) AS (SELECT 1, gx_max('A') UNION ALL SELECT i + 1, gx_max('A') FROM k WHERE i < 20) "
    "SELECT min(x), max(x) FROM k",
    "SELECT min(gx_sum(name)), max(gx_sum(name)) FROM gx WHERE name IN ('B', 'C')",
]


def test_a_statement_sees_one_state(tmp_path):
    """Calls of one statement, in autocommit, beside a process that replaces what they read."""
    path = str(tmp_path / "one.db")
    db = gx_connect(path, journal_mode="wal", busy_timeout=30000, synchronous="off")
    q(db, "SELECT gx_full(2, 2, 0, 'A')")
    db.execute("SELECT gx_full(1, 1, 0, 'B'), gx_full(1, 1, 0, 'C')")
    writer = subprocess.Popen([sys.executable, "-c", WRITER, path, gx_path()], stdout=subprocess.PIPE, text=True)
    try:
        assert writer.stdout.readline() == "go\n"
        states, rounds = set(), 0
        while len(states) < 20 or rounds < 100:  # it has written meanwhile
            rounds += 1
            for sql in STATEMENTS:
                row = db.execute(sql).fetchall()[0]
                assert len(set(row)) == 1, (sql, row)
                states.add(row[0])
    finally:
        writer.kill()
        writer.wait()


@pytest.mark.parametrize("journal", ["delete", "wal"])
@pytest.mark.parametrize("sql", [
    "SELECT gx_sum('A'), changed(), gx_sum('A')",
    "SELECT gx_sum(?), changed(), gx_sum(?)",
    "SELECT gx_eval('sum(A)'), changed(), gx_sum('A')",
    "SELECT gx_sum('A'), changed(), gx_sum('aux.A')",
    "SELECT gx_sum('A'), changed(), (SELECT sum(value) FROM gx_cells('A'))",
    "SELECT gx_sum(name), changed(), gx_sum(name) FROM gx WHERE name = 'A'",
    "SELECT gx_sum('aux.' || name), changed(), gx_sum('aux.' || name) FROM aux.gx",
])
def test_a_change_between_two_calls(tmp_path, journal, sql):
    """Another connection commits between them: the second call does not see it, or it has to wait."""
    path, beside = str(tmp_path / "one.db"), str(tmp_path / "aux.db")
    db = gx_connect(path, journal_mode=journal)
    db.execute("ATTACH ? AS aux", (beside,))
    db.execute(f"PRAGMA aux.journal_mode = {journal}")
    other = gx_connect(beside if "FROM aux" in sql else path, busy_timeout=0)
    db.execute("SELECT gx_full(2, 2, 1, 'A'), gx_full(2, 2, 1, 'aux.A')")

    def changed():
        try:
            other.execute("SELECT gx_full(2, 2, 7, 'A', '{\"replace\":true}')").fetchall()
            return "changed"
        except sqlite3.OperationalError as problem:
            return "locked" if "locked" in str(problem) else str(problem)

    db.create_function("changed", 0, changed)
    expected = "changed" if journal == "wal" else "locked"
    assert db.execute(sql, ("A", "A") if "?" in sql else ()).fetchall() == [(4.0, expected, 4.0)]
    assert changed() == "changed" and q(db, "SELECT gx_sum(?)", "aux.A" if "FROM aux" in sql else "A") == 28.0
    other.close()


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_the_state_is_let_go_with_the_statement(tmp_path, journal):
    """What a finished statement has read keeps nobody waiting; one that stands on a row does, as any SELECT."""
    path = str(tmp_path / "one.db")
    db = gx_connect(path, journal_mode=journal, busy_timeout=0)
    other = gx_connect(path, busy_timeout=0)
    q(db, "SELECT gx_full(2, 2, 1, 'A')")
    db.execute("CREATE TABLE t AS WITH RECURSIVE k(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k WHERE i < 9) SELECT i FROM k")

    def is_free():
        """Another connection can write, and copy the whole log."""
        other.execute("SELECT gx_full(2, 2, 1, 'A', '{\"replace\":true}')").fetchall()
        return journal == "delete" or other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0] == 0

    for sql in STATEMENTS[:1] + ["SELECT gx_sum('A')", "SELECT gx_sum('A'), gx_sum('nothing')", "SELECT i, gx_sum('A') FROM t",
                                 "SELECT name, gx_sum(name) FROM gx", "SELECT gx_sum('A') / 0, abs(-9223372036854775808)",
                                 "INSERT INTO t SELECT gx_sum('A')", "DELETE FROM t WHERE i = gx_sum('A') + 1000",
                                 "SELECT gx_sum('A'), gx_full(2, 2, 1, 'B', '{\"replace\":true}'), gx_sum('B')",
                                 "SELECT gx_sum(?), gx_sum(?)", "SELECT gx_sum('A') FROM t LIMIT 1", "SELECT name FROM gx LIMIT 1"]:
        try:
            db.execute(sql, ("A", "A") if "?" in sql else ()).fetchall()
        except sqlite3.Error as problem:
            assert "nothing" in str(problem) or "overflow" in str(problem), problem
        assert is_free(), sql
    running = db.execute(" UNION ALL ".join(f"SELECT {k}, gx_sum('A')" for k in (1, 2, 3)))
    assert next(running) == (1, 4.0)
    if journal == "delete":
        assert "locked" in error(other, "SELECT gx_full(2, 2, 5, 'A', '{\"replace\":true}')")
    else:
        other.execute("SELECT gx_full(2, 2, 5, 'A', '{\"replace\":true}')")
    assert next(running) == (2, 4.0)
    assert q(db, "SELECT gx_sum('A')") == 4.0  # of the connection, while the other statement runs
    assert q(db, "SELECT gx_full(2, 2, 7, 'N')") == "N" and q(db, "SELECT gx_sum('N')") == 28.0  # gives the state up
    running.close()
    assert is_free() and q(db, "SELECT gx_sum('A')") == 4.0


def test_a_storing_call_behind_a_reading_one_waits(tmp_path):
    """In one statement: the lock is waited for, as where the storing call comes first."""
    path = str(tmp_path / "one.db")
    db = gx_connect(path, busy_timeout=20000)
    q(db, "SELECT gx_full(2, 2, 1, 'A')")
    other = gx_connect(path)
    other.execute("BEGIN IMMEDIATE")
    other.execute("SELECT gx_full(2, 2, 2, 'A', '{\"replace\":true}')")
    timer = threading.Timer(0.3, lambda: other.execute("COMMIT"))
    timer.start()
    assert db.execute("SELECT gx_sum('A'), gx_full(1, 1, 3, 'B'), gx_sum('A')").fetchall() == [(4.0, "B", 8.0)]
    timer.join()
    assert db.execute("SELECT gx_sum('A'), gx_volumes(2), gx_vacuum(), gx_volumes(0), gx_drop('A')").fetchall()[0][0] == 8.0
    db.close()


def test_a_connection_closed_in_the_middle_of_a_statement(tmp_path):
    """What a statement keeps lasts as long as it: Python's cursors finalize theirs after the connection is closed."""
    path = str(tmp_path / "one.db")
    for _ in range(5):
        db = gx_connect(path)
        q(db, "SELECT gx_full(2, 2, 1, 'A', '{\"replace\":true}')")
        running = db.execute("SELECT gx_sum('A') UNION ALL SELECT gx_max('A') UNION ALL SELECT gx_min('A')")
        catalog = db.execute("SELECT name FROM gx UNION ALL SELECT gx_sum('A')")
        assert next(running) == (4.0,) and next(catalog) == ("A",)
        db.close()
        del running, catalog
        other = gx_connect(path, busy_timeout=0)
        assert q(other, "SELECT gx_full(2, 2, 1, 'A', '{\"replace\":true}')") == "A"
        other.close()
