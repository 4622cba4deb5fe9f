"""Joins with vector tables, whose queries are read ahead; what conditions leave, kept between searches; pages of a bulk INSERT.

Plan:
- the same rows as by a search for each, with rows that have not settled, dead ones and many that are equally far; how many were searched for at once
- the other table in other orders, with conditions, with values that are no vectors
- what is written between two rows of the join
- conditions with values of the other table: against every row, one by one; NULL, of other types, that leave nothing, that are no column's; changes, savepoints
- gx_plan of a search is what the search then does, and makes none
- the same conditions again, after each kind of change; values and collations that their text does not tell apart
- each page of a bulk INSERT is written to the log once; PRAGMA cache_spill stays as it was
"""
import json
import pathlib
import sqlite3

import numpy as np
import pytest

from conftest import gx_connect
from test_vectors import blob


AHEAD = "SELECT meaning FROM gx_stats WHERE name = 'note' AND meaning LIKE 'vectors: % of a join as one search'"


def test_queries_of_a_join_are_one_search(db):
    """Of the queries that come next some are read and searched for with the one at hand: which changes no answer."""
    db.execute("SELECT gx_config('tile_bytes', 8192)")
    db.execute("CREATE VIRTUAL TABLE t USING gx_vectors(x f32[8], n INTEGER)")
    G = np.random.default_rng(11)
    X = G.integers(-2, 3, (3000, 8)).astype("<f4")  # many are equally far
    db.executemany("INSERT INTO t(rowid, x, n) VALUES (?, ?, ?)", [(i, blob(x), i % 7) for i, x in enumerate(X)])
    db.execute("DELETE FROM t WHERE rowid % 5 = 3")
    db.executemany("INSERT INTO t(rowid, x) VALUES (?, ?)", [(5000 + i, blob(x)) for i, x in enumerate(X[:40])])
    assert db.execute("SELECT count(*) FROM t_new").fetchone()[0] > 0 and db.execute("SELECT count(*) FROM t_dead").fetchone()[0] > 0
    db.execute("CREATE TABLE q(id INTEGER PRIMARY KEY, name TEXT, e)")
    db.executemany("INSERT INTO q VALUES (?, ?, ?)", [(i, f"{i * 37 % 400:03}", [None, b"123", "no"][i // 9 % 3] if i % 9 == 4 else
                                                      json.dumps(x.tolist()) if i % 9 == 5 else blob(x)) for i, x in enumerate(X[1000:1400])])
    db.execute("CREATE INDEX by_name ON q(name)")
    one = {id: [(id, *r) for r in db.execute("SELECT rowid, distance FROM t WHERE x MATCH ? AND k = 4", (e,))]
           for id, e in db.execute("SELECT id, e FROM q WHERE id % 9 <> 4").fetchall()}

    def join(where, rest="", columns="q.id, t.rowid, t.distance"):
        db.execute("SELECT gx_stats_reset()").fetchall()
        rows = db.execute(f"SELECT {columns} FROM q CROSS JOIN t ON t.x MATCH q.e AND t.k = 4 WHERE q.id % 9 <> 4 AND {where} {rest}").fetchall()
        assert [r[:3] for r in rows if r[0] in one] == [r for id in dict.fromkeys(r[0] for r in rows) for r in one[id]]
        assert len({r[0] for r in rows}) == len(rows) / 4
        return len(rows) // 4, max((int(note.split()[1]) for (note,) in db.execute(AHEAD)), default=0)

    assert join("1") == (356, 291)                       # 64 at first
    assert join("q.id > 300") == (88, 64)
    assert join("q.id % 2") == (178, 289)                # those that do not come are not many
    assert join("q.id + 0 IN (7, 10)") == (2, 64)      # a scan, for all that it knows
    assert join("q.id IN (7, 10, 19)") == (3, 0)         # looked up one by one
    assert join("name > '1'", "ORDER BY name")[0] > 200 # in an order of its own
    assert join("1", "", "q.id, t.rowid, t.distance, (SELECT count(*) FROM q AS other)")[0] == 356
    # Another k, and conditions: each alone.
    got = db.execute("SELECT q.id, count(*) FROM q JOIN t ON t.x MATCH q.e AND t.k = q.id % 3 + 1 WHERE q.id % 9 <> 4 GROUP BY 1").fetchall()
    assert got == [(id, id % 3 + 1) for id in one]
    got = db.execute("SELECT q.id, t.rowid FROM q JOIN t ON t.x MATCH q.e AND t.k = 1 AND t.n = 3 WHERE q.id % 9 <> 4").fetchall()
    assert got == [(id, *db.execute("SELECT rowid FROM t WHERE x MATCH (SELECT e FROM q WHERE id = ?) AND k = 1 AND n = 3", (id,)).fetchone())
                   for id in one]
    # A result that is written, and a query that is refused when its turn comes.
    db.execute("CREATE TABLE found AS SELECT q.id, t.rowid AS r, t.distance AS d FROM q JOIN t ON t.x MATCH q.e AND t.k = 4 WHERE q.id % 9 <> 4")
    assert db.execute("SELECT * FROM found").fetchall() == [r for id in one for r in one[id]]
    rows = db.execute("SELECT q.id, t.rowid FROM q JOIN t ON t.x MATCH q.e AND t.k = 1")
    assert [rows.fetchone()[0] for _ in range(3)] == [0, 1, 2]
    with pytest.raises(sqlite3.Error, match="NULL"):
        rows.fetchall()


def test_a_join_sees_what_changes(db):
    """Rows that the application writes while a join stands between two rows are there, or gone, for the queries after it."""
    db.execute("CREATE VIRTUAL TABLE t USING gx_vectors(x f32[4])")
    X = np.random.default_rng(12).standard_normal((200, 4)).astype("<f4")
    db.executemany("INSERT INTO t(rowid, x) VALUES (?, ?)", [(i, blob(x)) for i, x in enumerate(X)])
    db.execute("SELECT gx_settle('t')")
    db.execute("CREATE TABLE q(id INTEGER PRIMARY KEY, e)")
    db.executemany("INSERT INTO q VALUES (?, ?)", [(i, blob(x)) for i, x in enumerate(X[:100])])
    rows = db.execute("SELECT q.id, t.rowid FROM q JOIN t ON t.x MATCH q.e AND t.k = 1")
    assert [rows.fetchone() for _ in range(10)] == [(i, i) for i in range(10)]
    assert db.execute(AHEAD).fetchall() == [("vectors: 64 queries of a join as one search",)]
    db.execute("DELETE FROM t WHERE rowid = 20")
    db.execute("INSERT INTO t(rowid, x) VALUES (-1, ?)", (blob(X[21]),))
    assert [rows.fetchone() for _ in range(12)][9:] == [(19, 19), (20, one_nearest(X, 20)), (21, -1)]
    db.execute("SAVEPOINT s")
    db.execute("DELETE FROM t WHERE rowid = 30")
    assert [rows.fetchone() for _ in range(3)] == [(22, 22), (23, 23), (24, 24)]
    db.execute("ROLLBACK TO s")
    assert [rows.fetchone() for _ in range(6)] == [(i, i) for i in range(25, 31)]
    db.execute("RELEASE s")
    assert len(rows.fetchall()) == 69


CONDITIONS = [
    ("t.w = q.w", True), ("t.n = q.n", True), ("t.w IS q.w AND t.n = q.n", True), ("t.n > q.n AND t.n <> 2", True), ("t.w LIKE q.w AND t.w >= 'a'", True),
    ("t.n = q.u", True), ("t.w = +q.u", False), ("t.n IN (1, 2) AND t.w = q.w", True), ("t.n = 1", True), ("t.n = 77", True), ("t.n = q.id % 3", True),
    ("t.w = q.w AND t.distance < 3.5", True), ("t.w IS NOT q.w", True), ("t.w <> q.w", True), ("t.n = q.id", True), ("t.n = lower(q.w)", False), ("t.rowid > q.id", False)]


def filtered(db, at=4):
    """Rows of t, with metadata of all types, beside queries; 5 or 50 values of the columns, NULLs."""
    G = np.random.default_rng(at)
    values = [None, "a", "A", "b", "2", 1, 2, 2.0, 2.5, b"a"]
    db.execute("SELECT gx_config('tile_bytes', 8192)")
    db.execute("CREATE VIRTUAL TABLE t USING gx_vectors(x f32[8], w TEXT COLLATE NOCASE, n)")
    X = G.integers(-2, 3, (1500, 8)).astype("<f4")  # many are equally far
    insert = [(i, blob(x), values[G.integers(10)], values[G.integers(10)]) for i, x in enumerate(X)]
    db.executemany("INSERT INTO t(rowid, x, w, n) VALUES (?, ?, ?, ?)", insert)
    db.execute("DELETE FROM t WHERE rowid % 5 = 3")
    db.executemany("INSERT INTO t(rowid, x, w, n) VALUES (?, ?, ?, ?)", [(5000 + i, blob(x), values[i % 10], values[i // 10]) for i, x in enumerate(X[:60])])
    assert db.execute("SELECT count(*) FROM t_new").fetchone()[0] > 0 and db.execute("SELECT count(*) FROM t_dead").fetchone()[0] > 0
    db.execute("CREATE TABLE q(id INTEGER PRIMARY KEY, e, w TEXT, n, u)")
    db.executemany("INSERT INTO q VALUES (?, ?, ?, ?, ?)", [(i, blob(x), values[G.integers(10)], values[G.integers(10)], values[G.integers(10)])
                                                            for i, x in enumerate(G.integers(-2, 3, (150, 8)).astype("<f4"))])


def compare(db, conditions, least=0, k=6):
    """The join is what all rows by their distances are, of which the same conditions leave some, and SQLite compares; how many came of one search."""
    # as a plain table with the same columns, of the same affinity and collation
    db.execute("CREATE TEMP TABLE plain(id INTEGER PRIMARY KEY, x, w TEXT COLLATE NOCASE, n)")
    db.execute("INSERT INTO plain SELECT rowid, x, w, n FROM t")
    P = {id: np.frombuffer(x, "<f4").astype("f8") for id, x in db.execute("SELECT id, x FROM plain")}
    Q = {id: np.frombuffer(e, "<f4").astype("f8") for id, e in db.execute("SELECT id, e FROM q")}
    db.execute("SELECT gx_stats_reset()").fetchall()
    got = db.execute(f"SELECT q.id, t.rowid, t.distance FROM q CROSS JOIN t ON t.x MATCH q.e AND t.k = {k} AND {conditions}").fetchall()
    many = max((int(note.split()[1]) for (note,) in db.execute(AHEAD)), default=0)
    far = [float(x) for x in ["inf", "3.5"]]["distance" in conditions]
    plain = conditions.replace(" AND t.distance < 3.5", "").replace("t.rowid", "t.id")
    near = {id: [] for id in Q}
    for id, row in db.execute(f"SELECT q.id, t.id FROM q JOIN plain t ON {plain}"):
        near[id].append((((P[row] - Q[id]) ** 2).sum() ** 0.5, row))
    want = [(id, row, d) for id in Q for d, row in sorted(n for n in near[id] if n[0] < far)[:k]]
    db.execute("DROP TABLE plain")
    assert [r[:2] for r in got] == [r[:2] for r in want] and np.allclose([r[2] for r in got], [r[2] for r in want]), conditions
    assert many >= least, (conditions, many)


@pytest.mark.parametrize("conditions, is_one", CONDITIONS)
def test_conditions_that_differ_by_query(db, conditions, is_one):
    """Queries that are read ahead bring values of conditions with them; what each is left with is what SQLite says of every row."""
    filtered(db)
    expression = "%" in conditions
    compare(db, conditions, 0 if expression or not is_one else 85)


def test_conditions_that_differ_after_changes(db):
    """The same joins in a transaction, between its changes, and after they are undone."""
    filtered(db, 5)
    both = "t.w = q.w", "t.n > q.n AND t.w IS q.w"
    for where in both:
        compare(db, where, 85)
    db.execute("BEGIN")
    db.execute("UPDATE t SET w = 'b' WHERE rowid % 7 = 1")
    for where in both:
        compare(db, where, 85)
    db.execute("SAVEPOINT s")
    db.execute("DELETE FROM t WHERE rowid % 2")
    db.execute("INSERT INTO t(x, w, n) SELECT e, 'A', 2 FROM q")
    for where in both:
        compare(db, where, 85)
    db.execute("ROLLBACK TO s")
    for where in both:
        compare(db, where, 85)
    db.execute("ROLLBACK")
    for where in both:
        compare(db, where, 85)
    # Changes between two rows of a join.
    one = {id: [(id, *r) for r in db.execute("SELECT rowid FROM t WHERE x MATCH ? AND k = 3 AND w = ?", (e, w))] for id, e, w in db.execute("SELECT id, e, w FROM q").fetchall()}
    rows = db.execute("SELECT q.id, t.rowid FROM q CROSS JOIN t ON t.x MATCH q.e AND t.k = 3 AND t.w = q.w")
    got = [rows.fetchone() for _ in range(60)]
    db.execute("UPDATE t SET w = NULL WHERE w = 'b'")
    last = got[-1][0]
    got = [r for r in got + rows.fetchall() if r[0] != last]
    for id, e, w in db.execute("SELECT id, e, w FROM q").fetchall():
        after = [(id, *r) for r in db.execute("SELECT rowid FROM t WHERE x MATCH ? AND k = 3 AND w = ?", (e, w))]
        assert id == last or [r for r in got if r[0] == id] == (one[id] if id < last else after), id
    assert any(w == "b" and id > last for id, w in db.execute("SELECT id, w FROM q"))


def test_conditions_about_near_rows(db):
    """What an expression brings is not known ahead: where many rows are let through it is asked about the nearest, and about more where these are too few."""
    db.execute("CREATE VIRTUAL TABLE t USING gx_vectors(x f32[2], n)")
    db.execute("WITH RECURSIVE i(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM i WHERE k < 29999) INSERT INTO t(rowid, x, n) SELECT k, '[' || k || ',0]', k % 30000 FROM i")
    db.execute("SELECT gx_settle('t')").fetchall()
    db.execute("CREATE TABLE q(id INTEGER PRIMARY KEY, e, n)")
    db.executemany("INSERT INTO q VALUES (?, ?, ?)", [(i, f"[{i * 100},0.25]", 14000 if i < 90 else 29998) for i in range(100)])
    db.execute("SELECT gx_stats_reset()").fetchall()
    got = db.execute("SELECT q.id, t.rowid FROM q CROSS JOIN t ON t.x MATCH q.e AND t.k = 2 AND t.n > abs(q.n)").fetchall()
    near = [sorted(range(14001 if i < 90 else 29999, 30000), key=lambda k: (abs(k - 100 * i), k))[:2] for i in range(100)]
    assert got == [(i, k) for i in range(100) for k in near[i]]
    got = db.execute("SELECT q.id, t.rowid FROM q CROSS JOIN t ON t.x MATCH q.e AND t.k = 2 AND t.rowid > 100 * q.id - 50 + abs(0)").fetchall()
    assert got == [(i, 100 * i + d) for i in range(100) for d in ((0, 1) if i == 0 else (0, -1))]
    assert int(db.execute(AHEAD).fetchone()[0].split()[1]) >= 64
    # A value that changes: the first guess is wrong, and all queries are read again from the one at hand on.
    db.execute("SELECT gx_stats_reset()").fetchall()
    got = db.execute("SELECT q.id, t.rowid FROM q CROSS JOIN t ON t.x MATCH q.e AND t.k = 2 AND t.n > 10 * q.id").fetchall()
    assert got == [(i, k) for i in range(100) for k in ((1, 2) if i == 0 else (100 * i, 100 * i - 1))]
    notes = db.execute("SELECT meaning, value FROM gx_stats WHERE name = 'note' AND meaning LIKE 'vectors: % queries of a join as one search'").fetchall()
    assert sum(int(m.split()[1]) * n for m, n in notes) >= 64 + 90


def test_plan_of_a_search(db):
    """gx_plan says what becomes of conditions, and what is read; nothing is searched for."""
    db.execute("CREATE VIRTUAL TABLE t USING gx_vectors(x f32[2], n INTEGER, w TEXT)")
    db.execute("INSERT INTO t(x, n, w) SELECT '[0,1]', 0, '' WHERE 0")
    rows = db.execute("SELECT json_extract(gx_plan, '$.rows', '$.bytes_read', '$.neighbours'), t.rowid, distance, w FROM t WHERE x MATCH '[0,1]' AND k = 3").fetchall()
    assert rows == [("[0,0,0]", None, None, None)]
    db.execute("WITH RECURSIVE i(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM i WHERE k < 39999) INSERT INTO t(rowid, x, n, w) SELECT k, '[' || k || ',0]', k, k % 40 FROM i")
    db.execute("SELECT gx_settle('t')").fetchall()

    def plan(where):
        db.execute("SELECT gx_stats_reset()").fetchall()
        (text,), = db.execute(f"SELECT gx_plan FROM t WHERE x MATCH '[0,1]' AND k = 3 {where}")
        assert not db.execute("SELECT 1 FROM gx_stats WHERE name = 'note' AND meaning LIKE 'vectors%'").fetchall()
        p = json.loads(text)
        db.execute(f"SELECT t.rowid FROM t WHERE x MATCH '[0,1]' AND k = 3 {where}").fetchall()
        left = [int(m.split()[3]) for (m,) in db.execute("SELECT meaning FROM gx_stats WHERE name = 'note' AND meaning LIKE 'vectors: conditions leave%'")]
        assert p["driver"] == "flat" and bool(left) == (p["filter"] in ("list", "bits"))
        return p, left

    p, _ = plan("")
    assert (p["rows"], p["bytes_read"], p["flops"], p["filter"], p["dead"], p["waiting"]) == (40000, 40000 * 8, 40000 * 4, None, 0, 0) and p["seconds"] > 0
    p, _ = plan("AND w > '2'")
    assert p["filter"] == "neighbours" and 16000 < p["left"] <= 40000 and p["estimated"] and 3 < p["neighbours"] < 99
    p, left = plan("AND w = '7' AND n > 0")
    assert p["filter"] == "bits" and 500 < p["left"] < 1500 and p["estimated"] and left == [1000]
    (text,), = db.execute("SELECT gx_plan FROM t WHERE x MATCH '[0,1]' AND k = 3 AND w = '7' AND n > 0")
    assert json.loads(text)["left"] == 1000 and not json.loads(text)["estimated"]  # the search has counted them
    p, left = plan("AND n < 5")
    assert p["filter"] == "list" and p["left"] < 100 and p["bytes_read"] <= 40000 * 8 and left == [5]
    db.execute("DELETE FROM t WHERE n % 2")
    db.execute("INSERT INTO t(x) VALUES ('[1,1]')")
    p, _ = plan("")
    assert (p["dead"], p["waiting"]) == (20000, 1) and p["neighbours"] > 6
    # A row for each query of a join; beside anything else; as a value that is set, or a column of the user's.
    assert db.execute("SELECT count(gx_plan), count(distance) FROM (VALUES ('[1,2]'), ('[3,4]')) q JOIN t ON t.x MATCH q.column1 AND t.k = 2").fetchone() == (2, 0)
    assert db.execute("SELECT gx_plan FROM t LIMIT 1").fetchone() == (None,)
    with pytest.raises(sqlite3.Error, match="numbers, but 2 are declared"):
        db.execute("SELECT gx_plan FROM t WHERE x MATCH '[1]' AND k = 2").fetchall()
    with pytest.raises(sqlite3.Error, match="gx_plan are a search's"):
        db.execute("INSERT INTO t(x, gx_plan) VALUES ('[1,1]', 'x')")
    db.execute("CREATE VIRTUAL TABLE u USING gx_vectors(x f32[2], gx_plan TEXT)")
    db.execute("INSERT INTO u(x, gx_plan) VALUES ('[1,1]', 'mine')")
    assert db.execute("SELECT gx_plan, distance FROM u WHERE x MATCH '[1,1]' AND k = 1").fetchall() == [("mine", 0.0)]
    wide = ", ".join(f"c{k}" for k in range(59))
    db.execute(f"CREATE VIRTUAL TABLE many USING gx_vectors(x f32[2], {wide})")
    with pytest.raises(sqlite3.Error, match="no such column"):
        db.execute("SELECT gx_plan FROM many")


def one_nearest(X, i):
    D = ((X.astype("f8") - X[i]) ** 2).sum(axis=1)
    return int(np.argsort(D, kind="stable")[1])


def small_table(db, schema="main", first=0):
    db.execute(f"CREATE VIRTUAL TABLE {schema}.t USING gx_vectors(x f32[2], n, w TEXT)")
    db.executemany(f"INSERT INTO {schema}.t(rowid, x, n, w) VALUES (?, ?, ?, ?)",
                   [(first + i, blob([i, 1]), (i + first // 1000) % 10, "aA"[i % 2]) for i in range(1, 101)])
    db.execute(f"SELECT gx_settle('{schema}.t')").fetchall()


def test_kept_conditions(tmp_path):
    """What the conditions of a search leave is kept for the next one: until anything has changed, and for these conditions alone."""
    db, other = (gx_connect(str(tmp_path / "a.db"), journal_mode="wal") for _ in range(2))
    small_table(db)

    def found(where, values=(), k=100):
        return [r for (r,) in db.execute(f"SELECT rowid FROM t WHERE x MATCH '[0,1]' AND k = {k} AND {where}", values)]

    sevens = list(range(7, 101, 10))
    for _ in range(3):
        assert found("n = 7") == sevens and found("n = 7", k=2) == sevens[:2] and found("n = 8") == [i + 1 for i in sevens]
        assert found("n = ?", (7,)) == sevens and found("n = ?", ("7",)) == []
    db.execute("UPDATE t SET n = 7 WHERE rowid = 1")
    assert found("n = 7") == [1, *sevens]
    db.execute("BEGIN")
    db.execute("UPDATE t SET n = 0 WHERE n = 7")
    assert found("n = 7") == [] == found("n = 7")
    db.execute("ROLLBACK")
    assert found("n = 7") == [1, *sevens]
    other.execute("UPDATE t_row SET n = 7 WHERE rowid = 2")
    assert found("n = 7") == [1, 2, *sevens]
    db.execute("DELETE FROM t WHERE rowid = 2")
    assert found("n = 7") == [1, *sevens]
    # Values that their text does not tell apart; what the same text may mean next time.
    third = 1 / 3
    db.execute("UPDATE t SET n = ? WHERE rowid = 5", (third,))
    assert found("n = ?", (np.nextafter(third, 1),)) == [] and found("n = ?", (third,)) == [5]
    db.execute("UPDATE t SET w = ? WHERE rowid = 5", ("z\0y",))
    assert found("w = ?", ("z\0x",)) == [] == found("w = ?", ("z",)) and found("w = ?", ("z\0y",)) == [5]
    db.execute("PRAGMA case_sensitive_like = 1")
    assert len(found("w LIKE 'a'")) == 49
    db.execute("PRAGMA case_sensitive_like = 0")
    assert len(found("w LIKE 'a'")) == 98
    db.create_collation("BY_ANY", lambda a, b: (a > b) - (a < b))
    db.execute("CREATE VIRTUAL TABLE u USING gx_vectors(x f32[1], w TEXT COLLATE by_any)")
    db.executemany("INSERT INTO u(x, w) VALUES ('[1]', ?)", [("a",), ("b",)])
    db.execute("SELECT gx_settle('u')").fetchall()
    search = "SELECT count(*) FROM u WHERE x MATCH '[1]' AND k = 9 AND w = 'b'"
    assert db.execute(search).fetchone() == (1,)
    db.create_collation("BY_ANY", lambda a, b: 0)
    assert db.execute(search).fetchone() == (2,)


def test_conditions_are_asked_about_once(tmp_path):
    """The second search with the same conditions looks at no row of the table but the ones that it finds."""
    db = gx_connect(str(tmp_path / "a.db"))
    db.execute("CREATE VIRTUAL TABLE t USING gx_vectors(x f32[1], n)")
    db.execute("WITH RECURSIVE i(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM i WHERE k < 19999) INSERT INTO t(x, n) SELECT '[' || k % 97 || ']', k FROM i")
    db.execute("SELECT gx_settle('t')").fetchall()

    def steps():
        count = [0]
        db.set_progress_handler(lambda: count.__setitem__(0, count[0] + 1), 10)
        db.execute("SELECT rowid FROM t WHERE x MATCH '[5]' AND k = 3 AND n < 0").fetchall()
        db.set_progress_handler(None, 0)
        return count[0]

    first = steps()
    assert steps() < first / 20


def test_kept_conditions_of_another_database(tmp_path):
    """Another database under the same name, with as many rows, may have its table on the same address."""
    for k in range(6):
        db = gx_connect(str(tmp_path / f"{k}.db"))
        small_table(db, first=1000 * k)
        db.close()
    db = gx_connect()
    for k in range(6):
        db.execute("ATTACH ? AS other", (str(tmp_path / f"{k}.db"),))
        db.execute("SELECT 1 FROM other.t WHERE n = ?", (k,)).fetchall()
        got = db.execute("SELECT rowid FROM other.t WHERE x MATCH '[0,1]' AND k = 2 AND n IN (7, 8)").fetchall()
        assert got == [(1000 * k + i,) for i in range(1, 11) if (i + k) % 10 in (7, 8)][:2]
        db.execute("DETACH other")


def test_pages_of_a_bulk_insert(tmp_path):
    """In WAL mode: a page that is written again before the commit makes SQLite read and sum up the log behind it once more."""
    db = gx_connect(str(tmp_path / "a.db"), journal_mode="wal", wal_autocheckpoint=0, cache_size=100)
    db.execute("SELECT gx_config('tile_bytes', 1048576)")
    db.execute("CREATE VIRTUAL TABLE t USING gx_vectors(x f32[384])")
    spill = db.execute("PRAGMA cache_spill").fetchone()
    log = tmp_path / "a.db-wal"
    before, size = syscalls(), log.stat().st_size
    db.execute("WITH RECURSIVE i(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM i WHERE k < 8000) INSERT INTO t(rowid, x) SELECT k, zeroblob(1536) FROM i")
    pages = (log.stat().st_size - size) // 4120
    assert pages > 2900 and syscalls() - before < 2.1 * pages
    assert db.execute("PRAGMA cache_spill").fetchone() == spill
    db.execute("PRAGMA cache_size = 10")
    assert db.execute("PRAGMA cache_spill").fetchone() == (10,)
    db.execute("PRAGMA cache_spill = 77")
    db.execute("WITH RECURSIVE i(k) AS (SELECT 20001 UNION ALL SELECT k + 1 FROM i WHERE k < 23000) INSERT INTO t(rowid, x) SELECT k, zeroblob(1536) FROM i")
    assert db.execute("PRAGMA cache_spill").fetchone() == (77,)
    db.execute("PRAGMA cache_spill = OFF")
    db.execute("WITH RECURSIVE i(k) AS (SELECT 10001 UNION ALL SELECT k + 1 FROM i WHERE k < 13000) INSERT INTO t(rowid, x) SELECT k, zeroblob(1536) FROM i")
    assert db.execute("PRAGMA cache_spill").fetchone() == (0,)


def syscalls():
    """Writes of this process."""
    return int(dict(line.split(": ") for line in pathlib.Path("/proc/self/io").read_text().splitlines())["syscw"])
