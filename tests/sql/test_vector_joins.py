"""Joins with vector tables, whose queries are read ahead.

Plan:
- the same rows as by a search for each, with rows that have not settled, dead ones and many that are equally far; how many were searched for at once
- the other table in other orders, with conditions, with values that are no vectors
- what is written between two rows of the join
"""
import json
import sqlite3

import numpy as np
import pytest

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


def one_nearest(X, i):
    D = ((X.astype("f8") - X[i]) ** 2).sum(axis=1)
    return int(np.argsort(D, kind="stable")[1])
