"""The index of vector tables (gx_index, index=ivf).  The model of test_vectors.py plays with one, too.

Plan:
- recall of clustered rows, of each metric and type; distances are those of the search without
- conditions: recall stays, k rows come if k match, also where a condition knows the clusters
- many deletes, inserts and updates: recall stays, nobody comes who is gone; rows that settle enter the index
- options, declarations, what is refused; probe; gx_settle makes and renews the index
- transactions, another connection's commits, VACUUM, dump, backup, rename, drop
- little memory; rows that have no codes
- gx_plan: which lists, or why none
- forged lists and heads: words, never a crash; what the tables must say of one another
"""
import json
import random
import shutil
import sqlite3
import subprocess

import numpy as np
import pytest

from conftest import gx_connect, q

TYPES = {"f32": "<f4", "f64": "<f8", "f16": "<f2", "i8": "|i1"}


def clustered(seed, n, d, centres=40, spread=0.5):
    rng = np.random.default_rng(seed)
    at = rng.standard_normal((centres, d))
    return lambda count: (at[rng.integers(0, centres, count)] + spread * rng.standard_normal((count, d))).astype("f4")


def make(path, n=4000, d=16, column=None, options="metric=l2", seed=1, index="{}"):
    """A table of n rows around centres, with an index; the next rows are draw's."""
    db, draw = gx_connect(str(path)), clustered(seed, n, d)
    db.execute("SELECT gx_config('tile_bytes', 65536)")
    kind = column or "f32"
    db.execute(f"CREATE VIRTUAL TABLE v USING gx_vectors(x {kind}[{d}], tag INTEGER, {options})")
    X = draw(n)
    X = np.rint(X * 20).clip(-127, 127) if kind == "i8" else X
    db.executemany("INSERT INTO v(rowid, x, tag) VALUES (?, ?, ?)", [(i, x.astype(TYPES[kind]).tobytes(), i % 10) for i, x in enumerate(X)])
    if index:
        made = json.loads(q(db, "SELECT gx_index('v', ?)", index))
        assert made["rows"] == n and 1 <= made["probe"] <= made["lists"]
    return db, draw


def ask(db, x, more="", k=10):
    return db.execute(f"SELECT rowid, distance FROM v WHERE x MATCH ? AND k = {k} {more}", (x.tobytes(),)).fetchall()


def recall(db, queries, more="", k=10):
    """Of rows by the index among those without it; each of them has its distance."""
    shares = []
    for x in queries:
        want, got = dict(ask(db, x, f"{more} AND probe = 0", k)), ask(db, x, more, k)
        assert len(got) == len(want) and [d for _, d in got] == sorted(d for _, d in got)
        assert all(want.get(id, distance) == distance for id, distance in got)
        shares += [len(want.keys() & dict(got).keys()) / len(want)] if want else []
    return float(np.mean(shares))


def looked_at(db):
    """How many lists there are and how many the last search looked at; None: it did without the index."""
    notes = [m for m, in db.execute("SELECT meaning FROM gx_stats WHERE name = 'note'") if m.startswith("vectors: an index")]
    return [int(word) for word in notes[-1].split() if word.isdigit()] if notes else None


def tables_agree(db):
    """NAME_full has the rows that have settled, and those up to a slot; each of them is in one list."""
    head = np.frombuffer(q(db, "SELECT data FROM v_list WHERE key = 0"), "<i8")
    entered = {i for (i,) in db.execute("SELECT rowid FROM v_row WHERE gx_pos >= ?", (-int(head[14]),))}
    full = dict(db.execute("SELECT id, round FROM v_full"))
    assert full.keys() == entered
    d, lists = int(head[3]), int(head[4])
    meant, entries, panels = [], 0, 0
    for key, data in db.execute("SELECT key, data FROM v_list WHERE key >= ?", (1 << 24,)):
        m = len(data) // (24 + d)
        assert len(data) == m * (24 + d) and 1 <= (key >> 24) <= lists and key & 0xffffff > 0
        ids, rounds = np.frombuffer(data, "<i8", m), np.frombuffer(data, "<i4", m, 8 * m)
        meant += [i for i, r in zip(ids.tolist(), rounds.tolist()) if full.get(i) == r]
        entries, panels = entries + m, panels + 1
    assert sorted(meant) == sorted(full)
    assert (entries, panels) == (head[7], head[8])


# Recall --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column, metric", [("f32", "l2"), ("f32", "cosine"), ("f32", "dot"), ("f64", "sqeuclidean"), ("f16", "cosine"), ("i8", "l2")])
def test_recall(tmp_path, column, metric):
    db, draw = make(tmp_path / "a.db", column=column, options=f"metric={metric}")
    queries = draw(40) * (20 if column == "i8" else 1)
    assert recall(db, queries) >= 0.95
    lists, looked = looked_at(db)
    assert looked < lists / 2
    tables_agree(db)


def test_all_lists_are_all_rows(tmp_path):
    """Bounds hold: with all lists the index gives what the search without it gives."""
    db, draw = make(tmp_path / "a.db", n=1500, index='{"lists":20,"probe":20}')
    assert recall(db, draw(30)) == 1 and recall(db, 100 * draw(5), k=50) == 1


def test_conditions(tmp_path):
    db, draw = make(tmp_path / "a.db")
    queries = draw(30)
    assert recall(db, queries, "AND tag < 5") >= 0.95
    assert recall(db, queries, "AND tag = 3") >= 0.95
    db.execute("SELECT gx_stats_reset()")
    assert len(ask(db, queries[0], "AND rowid IN (5, 77, 1234)")) == 3 and looked_at(db) is None  # few rows: scored alone
    assert recall(db, queries, "AND distance < 1.5") >= 0.95
    assert recall(db, queries, "AND distance > 2") == 1  # without the index


def test_a_condition_that_knows_the_clusters(tmp_path):
    """Rows that pass are far from the query: the search goes on, and then without the index."""
    db = gx_connect(str(tmp_path / "a.db"))
    db.execute("CREATE VIRTUAL TABLE v USING gx_vectors(x f32[4], tag INTEGER)")
    rng = np.random.default_rng(1)
    for tag, at in ((1, 0), (2, 50)):
        X = (at + rng.standard_normal((2000, 4))).astype("<f4")
        db.executemany("INSERT INTO v(rowid, x, tag) VALUES (?, ?, ?)", [(tag * 10000 + i, x.tobytes(), tag) for i, x in enumerate(X)])
    db.execute("SELECT gx_index('v', '{\"lists\":40,\"probe\":2}')")
    near = np.zeros((10, 4), "f4") + rng.standard_normal((10, 4)).astype("f4")
    assert recall(db, near, "AND tag = 2") == 1
    assert recall(db, near) >= 0.7 and looked_at(db)


def test_ways_to_ask(tmp_path):
    db, draw = make(tmp_path / "a.db", n=1000)
    x = draw(1)[0]
    want = ask(db, x)
    db.execute("SELECT gx_stats_reset()")
    every = db.execute("SELECT rowid FROM v WHERE x MATCH ?", (x.tobytes(),)).fetchall()  # as long as they are asked for: all, once
    assert len(every) == len(set(every)) == 1000 and looked_at(db) is None
    assert len(ask(db, x, k=900)) == 900 and looked_at(db) is None
    assert db.execute("SELECT rowid, probe FROM v WHERE x MATCH ? AND k = 1 AND probe = 3", (x.tobytes(),)).fetchone() == (want[0][0], 3)
    assert looked_at(db)[1] == 3
    with pytest.raises(sqlite3.Error, match="probe must not be negative"):
        ask(db, x, "AND probe = -1")
    with pytest.raises(sqlite3.Error, match="distance, score, k, probe and gx_plan are a search's"):
        db.execute("INSERT INTO v(x, probe) VALUES (?, 3)", (x.tobytes(),))
    for id, distance in want:  # k, a zero query, a query past all bounds
        assert q(db, "SELECT distance FROM v WHERE x MATCH ? AND k = 1 AND rowid = ?", x.tobytes(), id) == distance
    assert len(ask(db, np.zeros(16, "f4"))) == 10
    assert ask(db, x * np.float32(1e30)) == ask(db, x * np.float32(1e30), "AND probe = 0")


# Changes -------------------------------------------------------------------------------------------------------------


def test_changes(tmp_path):
    db, draw = make(tmp_path / "a.db")
    queries = draw(30)
    db.execute("DELETE FROM v WHERE rowid % 5 = 1")
    db.execute("SELECT count(*) FROM v_new").fetchone()
    db.executemany("INSERT INTO v(rowid, x, tag) VALUES (?, ?, 7)", [(10000 + i, x.tobytes()) for i, x in enumerate(draw(800))])
    db.execute("UPDATE v SET rowid = rowid + 50000 WHERE rowid < 100 AND rowid % 5 = 0")
    db.executemany("UPDATE v SET x = ? WHERE rowid = ?", [(x.tobytes(), i) for i, x in zip(range(2, 2000, 5), draw(400))])
    assert recall(db, queries) >= 0.95
    tables_agree(db)
    db.execute("SELECT gx_settle('v')")
    assert q(db, "SELECT count(*) FROM v_new") == 0
    assert recall(db, queries) >= 0.95 and recall(db, queries, "AND tag = 7") >= 0.95
    tables_agree(db)
    gone = {i for i in range(4000) if i % 5 == 1}
    assert all(id not in gone for x in queries for id, _ in ask(db, x, k=100))
    db.execute("DELETE FROM v")
    assert ask(db, queries[0]) == []
    db.execute("INSERT INTO v(rowid, x) VALUES (1, ?)", (queries[0].tobytes(),))
    assert ask(db, queries[0]) == [(1, 0.0)]
    db.execute("SELECT gx_settle('v')")
    assert ask(db, queries[0]) == [(1, 0.0)]
    tables_agree(db)


def test_new_rows_enter_before_they_settle(tmp_path):
    """By groups, when a transaction ends: a search compares few rows one by one.  They change and go as others do."""
    db, draw = make(tmp_path / "a.db", n=2000)
    head = lambda: np.frombuffer(q(db, "SELECT data FROM v_list WHERE key = 0"), "<i8")  # noqa: E731
    waiting = lambda: q(db, "SELECT count(*) FROM v_new WHERE slot > ?", int(head()[14]))  # noqa: E731
    X = draw(400)
    for i, x in enumerate(X[:300]):
        db.execute("INSERT INTO v(rowid, x) VALUES (?, ?)", (5000 + i, x.tobytes()))
        assert waiting() < 128
    assert head()[14] == 256 and q(db, "SELECT count(*) FROM v_new") == 300
    tables_agree(db)
    assert [ask(db, x, k=1) for x in X[:300]] == [[(5000 + i, 0)] for i in range(300)] and looked_at(db)
    far = np.full(16, 50, "f4")
    db.execute("UPDATE v SET x = ? WHERE rowid = 5000", (far.tobytes(),))  # it has entered: another slot, not yet
    db.execute("UPDATE v SET rowid = 9999 WHERE rowid = 5001")
    db.execute("UPDATE v SET tag = 77 WHERE rowid = 5002")
    db.execute("DELETE FROM v WHERE rowid BETWEEN 5010 AND 5299")  # the last slots among them: nobody gets them again
    db.execute("INSERT INTO v(rowid, x) VALUES (5299, ?)", ((far + 1).tobytes(),))
    tables_agree(db)
    for _ in range(2):
        assert ask(db, far, k=2) == [(5000, 0), (5299, 4)]
        assert ask(db, X[1], k=1) == [(9999, 0)] and ask(db, X[2], "AND tag = 77", k=1) == [(5002, 0)]
        assert not {i for i, _ in ask(db, X[20], k=20)} & {*range(5010, 5299)}
        db.execute("SELECT gx_settle('v')")
        tables_agree(db)
        assert head()[14] == 0
    db.execute("BEGIN")
    db.executemany("INSERT INTO v(rowid, x) VALUES (?, ?)", [(7000 + i, x.tobytes()) for i, x in enumerate(X)])
    db.execute("COMMIT")
    assert waiting() == 0 and recall(db, X[:40]) >= 0.95
    db.execute("DELETE FROM v WHERE rowid >= 5000")
    assert q(db, "SELECT count(*) FROM v_new") == 0 < head()[14]
    db.execute("SELECT gx_settle('v')")
    db.execute("INSERT INTO v(rowid, x) VALUES (1000000, ?)", (far.tobytes(),))
    tables_agree(db)
    assert ask(db, far, k=1) == [(1000000, 0)] and recall(db, X[:40]) >= 0.95


def test_rows_that_cannot_enter(tmp_path):
    """Where memory is short new rows stay where they are, and are found there."""
    db, draw = make(tmp_path / "a.db", n=2000, d=64)
    db.execute("BEGIN")
    X = draw(200)
    db.executemany("INSERT INTO v(rowid, x) VALUES (?, ?)", [(5000 + i, x.tobytes()) for i, x in enumerate(X)])
    limit = q(db, "SELECT gx_config('memory_limit')")
    db.execute("SELECT gx_config('memory_limit', 262144)")
    db.execute("COMMIT")
    db.execute("SELECT gx_config('memory_limit', ?)", (limit,))
    assert q(db, "SELECT count(*) FROM v_new") == 200 and np.frombuffer(q(db, "SELECT data FROM v_list WHERE key = 0"), "<i8")[14] == 0
    tables_agree(db)
    assert ask(db, X[7], k=1) == [(5007, 0)]
    db.execute("DELETE FROM v WHERE rowid = 5007")
    db.execute("INSERT INTO v(rowid, x) VALUES (6000, ?)", (X[7].tobytes(),))  # which brings the others along
    assert np.frombuffer(q(db, "SELECT data FROM v_list WHERE key = 0"), "<i8")[14] == 201
    tables_agree(db)
    assert ask(db, X[7], k=1) == [(6000, 0)]


def test_one_row_again_and_again(tmp_path):
    """Old entries of a row never count, and gx_settle makes lists anew that are full of them."""
    db, draw = make(tmp_path / "a.db", n=300, index='{"lists":6}')
    for _ in range(14):
        db.executemany("UPDATE v SET x = ? WHERE rowid = ?", [(x.tobytes(), i) for i, x in enumerate(draw(300))])
        db.execute("SELECT gx_settle('v')")
    tables_agree(db)
    assert np.frombuffer(q(db, "SELECT data FROM v_list WHERE key = 0"), "<i8")[7] <= 2 * (300 + 1024)
    x = np.frombuffer(q(db, "SELECT x FROM v WHERE rowid = 17"), "<f4")
    assert ask(db, x, k=1) == [(17, 0.0)]


def test_rows_that_have_no_codes(tmp_path):
    """Numbers past what codes hold are compared as they are."""
    db, draw = make(tmp_path / "a.db", n=500, column="f64", index="")
    odd = {1000: 1e-40, 1001: 1e200, 1002: 0.0, 1003: 1e-300}
    for id, size in odd.items():
        db.execute("INSERT INTO v(rowid, x) VALUES (?, ?)", (id, np.full(16, size).tobytes()))
    db.execute("SELECT gx_index('v', '{\"lists\":8,\"probe\":8}')")
    assert recall(db, draw(10)) == 1
    assert {id for id, _ in ask(db, np.zeros(16), k=3)} == {1000, 1002, 1003}


# Options -------------------------------------------------------------------------------------------------------------


def test_declared(tmp_path):
    """index=ivf in CREATE: gx_settle makes it, keeps it, and makes it anew when the table has grown."""
    db, draw = make(tmp_path / "a.db", n=600, options="metric=cosine, index=ivf(lists=auto, probe=5)", index="")
    queries = draw(20)
    assert looked_at(db) is None and recall(db, queries) == 1
    db.execute("SELECT gx_settle('v')")
    made = json.loads(q(db, "SELECT gx_index('v')"))
    assert recall(db, queries, k=3) >= 0.9 and looked_at(db)[1] == made["probe"]
    db.execute("SELECT gx_settle('v')")
    head = q(db, "SELECT data FROM v_list WHERE key = 0")
    db.execute("SELECT gx_settle('v')")
    assert q(db, "SELECT data FROM v_list WHERE key = 0") == head  # nothing to do
    db.executemany("INSERT INTO v(rowid, x) VALUES (?, ?)", [(10000 + i, x.tobytes()) for i, x in enumerate(draw(3000))])
    db.execute("SELECT gx_settle('v')")
    grown = np.frombuffer(q(db, "SELECT data FROM v_list WHERE key = 0"), "<i8")
    assert grown[4] > made["lists"] and grown[9] == 3600
    tables_agree(db)


def test_options(tmp_path):
    db, draw = make(tmp_path / "a.db", n=1000, index='{"lists":10,"probe":3}')
    made = json.loads(q(db, "SELECT gx_index('v', '{\"lists\":10,\"probe\":3}')"))
    assert made["lists"] == 10 and made["probe"] == 3
    low = json.loads(q(db, "SELECT gx_index('v', '{\"lists\":60,\"recall\":0.3}')"))
    high = json.loads(q(db, "SELECT gx_index('v', '{\"lists\":60,\"recall\":1}')"))
    assert low["probe"] < high["probe"] and low["recall"] <= high["recall"]
    assert q(db, "SELECT gx_index('v', '{\"drop\":true}')") is None
    db.execute("SELECT gx_stats_reset()")
    assert recall(db, draw(5)) == 1 and looked_at(db) is None
    for sql, words in (("SELECT gx_index('nobody')", "no vector table named 'nobody'"), ("SELECT gx_index('v', '{\"lists\":0}')", "lists"),
                       ("SELECT gx_index('v', '{\"recall\":2}')", "recall"), ("SELECT gx_index('v', '{\"trees\":2}')", "trees"),
                       ("INSERT INTO v(k) VALUES('index 9 0 0 0')", "is no command"), ("INSERT INTO v(k) VALUES('index 0 -1 0 nan')", "is no command")):
        with pytest.raises(sqlite3.Error, match=words):
            db.execute(sql)
    db.execute("CREATE VIRTUAL TABLE w USING gx_vectors(b bit[8], x f32[2] metric=l1, y f32[2] metric=dot)")
    with pytest.raises(sqlite3.Error, match="no rows to make an index of"):
        db.execute("SELECT gx_index('w.y')")
    db.execute("INSERT INTO w(b, x, y) VALUES (x'01', '[1,2]', '[3,4]'), (x'02', '[1,3]', '[5,6]')")
    for column, words in (("w", "metric hamming"), ("w.x", "metric l1")):
        with pytest.raises(sqlite3.Error, match=words):
            db.execute("SELECT gx_index(?)", (column,))
    assert json.loads(q(db, "SELECT gx_index('w.y')")) == {"rows": 2, "lists": 1, "probe": 1, "recall": 1.0}
    assert db.execute("SELECT rowid FROM w WHERE y MATCH '[1,1]' AND k = 1").fetchall() == [(2,)]
    assert db.execute("SELECT rowid FROM w WHERE x MATCH '[1,2]' AND k = 1").fetchall() == [(1,)]


def test_a_column_called_probe(tmp_path):
    db = gx_connect(str(tmp_path / "a.db"))
    db.execute("CREATE VIRTUAL TABLE v USING gx_vectors(x f32[2], probe INTEGER)")
    db.execute("INSERT INTO v(rowid, x, probe) VALUES (1, '[1,2]', 5), (2, '[1,3]', 6)")
    assert db.execute("SELECT rowid, probe FROM v WHERE x MATCH '[1,2]' AND k = 2 AND probe = 6").fetchall() == [(2, 6)]


# Transactions --------------------------------------------------------------------------------------------------------


def test_transactions(tmp_path):
    db, draw = make(tmp_path / "a.db", n=1500)
    queries = draw(10)
    want = [ask(db, x) for x in queries]
    state = lambda: [db.execute(f"SELECT * FROM {t}").fetchall() for t in ("v_list", "v_full", "v_row", "v_dead")]  # noqa: E731
    before = state()
    db.execute("BEGIN")
    db.execute("DELETE FROM v WHERE rowid % 2")
    db.executemany("INSERT INTO v(rowid, x) VALUES (?, ?)", [(9000 + i, x.tobytes()) for i, x in enumerate(draw(500))])
    db.execute("SELECT gx_settle('v')")
    assert recall(db, queries) >= 0.9
    db.execute("SAVEPOINT a")
    db.execute("SELECT gx_index('v', '{\"lists\":7}')")
    assert recall(db, queries) >= 0.9
    db.execute("ROLLBACK TO a")
    assert recall(db, queries) >= 0.9
    tables_agree(db)
    db.execute("ROLLBACK")
    assert state() == before and [ask(db, x) for x in queries] == want
    db.close()
    db = gx_connect(str(tmp_path / "a.db"))
    assert [ask(db, x) for x in queries] == want
    db.execute("VACUUM")
    assert [ask(db, x) for x in queries] == want
    db.execute("ALTER TABLE v RENAME TO w")
    db.execute("ALTER TABLE w RENAME TO v")
    assert [ask(db, x) for x in queries] == want and looked_at(db)
    db.execute("DROP TABLE v")
    assert db.execute("SELECT name FROM sqlite_master WHERE name LIKE 'v%'").fetchall() == []


def test_what_is_kept(tmp_path):
    """Vectors stay in memory between searches: whoever changes the index is seen."""
    db, draw = make(tmp_path / "a.db", n=4000, d=64)  # more than a MiB, or nothing is kept
    x = draw(1)[0]
    near = lambda c=db: [i for i, _ in ask(c, x)]  # noqa: E731
    first = near()
    assert near() == first
    db.execute("DELETE FROM v WHERE rowid = ?", (first[0],))
    assert near()[:9] == first[1:]
    db.execute("BEGIN")
    db.execute("DELETE FROM v WHERE rowid = ?", (first[1],))
    assert near()[:8] == first[2:]
    db.execute("SAVEPOINT a")
    db.execute("DELETE FROM v WHERE rowid = ?", (first[2],))
    assert near()[:7] == first[3:]  # which is kept as of now
    db.execute("DELETE FROM v WHERE rowid = ?", (first[3],))
    assert near()[:6] == first[4:]
    db.execute("ROLLBACK TO a")
    assert near()[:8] == first[2:]
    db.execute("ROLLBACK")
    assert near()[:9] == first[1:]
    other = gx_connect(str(tmp_path / "a.db"))
    assert near(other)[:9] == first[1:]
    other.execute("DELETE FROM v WHERE rowid = ?", (first[1],))
    assert near()[:8] == near(other)[:8] == first[2:]
    far = np.full(64, 100, "f4")  # the same rowid with another vector
    db.execute("UPDATE v SET x = ? WHERE rowid = ?", (far.tobytes(), first[2]))
    db.execute("SELECT gx_settle('v')")
    assert near()[:7] == near(other)[:7] == first[3:]
    assert ask(other, far, k=1) == [(first[2], 0)]


def test_copies(tmp_path):
    db, draw = make(tmp_path / "a.db", n=1000)
    db.executemany("INSERT INTO v(rowid, x) VALUES (?, ?)", [(5000 + i, x.tobytes()) for i, x in enumerate(draw(150))])
    queries = draw(5)
    want = [ask(db, x) for x in queries]
    copy = gx_connect(str(tmp_path / "b.db"))
    db.backup(copy)
    db.execute("VACUUM INTO ?", (str(tmp_path / "c.db"),))
    copies = [copy, gx_connect(str(tmp_path / "c.db"))]
    if shell := shutil.which("sqlite3"):
        text = subprocess.run([shell, str(tmp_path / "a.db"), ".dump"], capture_output=True, check=True).stdout
        subprocess.run([shell, str(tmp_path / "d.db")], input=text, check=True)
        copies.append(gx_connect(str(tmp_path / "d.db")))
    for k, other in enumerate(copies):
        assert [ask(other, x) for x in queries] == want and looked_at(other)
        tables_agree(other)
        assert q(other, "SELECT gx_check()") == "ok"
        other.execute("DELETE FROM v WHERE rowid = ?", (want[0][k][0],))  # which is no change of the others'
        assert ask(other, queries[0], k=9) == want[0][:k] + want[0][k + 1:]
    assert [ask(db, x) for x in queries] == want


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_two_connections(tmp_path, journal):
    """What is kept of the lists is of one state: each connection sees what the other has committed."""
    first, draw = make(tmp_path / "a.db", n=1500)
    first.close()
    a, b = gx_connect(str(tmp_path / "a.db"), journal_mode=journal), gx_connect(str(tmp_path / "a.db"))
    for turn in range(6):
        writer, reader = (a, b) if turn % 2 else (b, a)
        queries = draw(5)
        assert recall(reader, queries) >= 0.8 and looked_at(reader)
        writer.executemany("INSERT OR REPLACE INTO v(rowid, x) VALUES (?, ?)", [(i, x.tobytes()) for i, x in enumerate(draw(200))])
        writer.execute("SELECT gx_settle('v')" if turn < 3 else f"SELECT gx_index('v', '{{\"lists\":{10 + turn}}}')")
        x = np.frombuffer(q(writer, "SELECT x FROM v WHERE rowid = 7"), "<f4")
        for db in (reader, writer):
            assert ask(db, x, k=1) == [(7, 0.0)]


def test_memory(tmp_path):
    """A table of four times memory_limit: lists are made, kept up and searched within it; what is refused leaves all as it was."""
    db, draw = make(tmp_path / "a.db", n=100, d=64, index="")
    X = draw(40000)
    db.execute("BEGIN")
    db.executemany("INSERT INTO v(rowid, x) VALUES (?, ?)", [(1000 + i, x.tobytes()) for i, x in enumerate(X)])
    db.execute("COMMIT")
    db.execute("SELECT gx_config('memory_limit', 2500000)")
    made = json.loads(q(db, "SELECT gx_index('v')"))
    assert made["rows"] == 40100
    assert recall(db, draw(10)) >= 0.95
    tables_agree(db)
    for limit in (300000, 600000, 1200000):
        db.execute("SELECT gx_config('memory_limit', ?)", (limit,))
        for statement in ("SELECT gx_index('v')", "SELECT gx_settle('v')"):
            try:
                db.execute(statement)
            except sqlite3.Error as problem:
                assert "memory_limit" in str(problem)
        try:
            ask(db, X[5])
        except sqlite3.Error as problem:
            assert "memory_limit" in str(problem)
        tables_agree(db)


# Forged tables -------------------------------------------------------------------------------------------------------

HEAD = "UPDATE v_list SET data = CAST(substr(data, 1, {0}) || x'{2}' || substr(data, {0} + {1} + 1) AS BLOB) WHERE key = 0"
FORGERIES = [
    "DELETE FROM v_list WHERE key = 0", "UPDATE v_list SET data = x'00' WHERE key = 0", "UPDATE v_list SET data = NULL WHERE key = 0",
    "UPDATE v_list SET data = 'text'", "UPDATE v_list SET data = NULL", "UPDATE v_list SET data = zeroblob(0)", "UPDATE v_list SET data = zeroblob(100000)",
    "DELETE FROM v_list WHERE key > 0", "DELETE FROM v_list WHERE key BETWEEN 1 AND 16777215", "UPDATE v_list SET key = key + 16777216 WHERE key > 16777215 AND key % 3 = 0",
    "UPDATE v_list SET data = (SELECT data FROM v_list WHERE key > 16777216 LIMIT 1) WHERE key = 1", "UPDATE OR IGNORE v_list SET key = 9223372036854775807 WHERE key = 16777217",
    "UPDATE v_list SET data = randomblob(length(data)) WHERE key > 0", "UPDATE v_list SET data = zeroblob(length(data)) WHERE key > 0",
    "UPDATE v_list SET data = randomblob(length(data) - 1) WHERE key > 0", "DROP TABLE v_list", "DROP TABLE v_full",
    "DELETE FROM v_full", "DELETE FROM v_full WHERE id % 2", "UPDATE v_full SET v = x'00'", "UPDATE v_full SET v = NULL", "UPDATE v_full SET v = 'text'",
    "UPDATE v_full SET v = x'0000c07f0000c07f0000c07f0000c07f'", "UPDATE v_full SET round = 77", "UPDATE v_full SET round = 'abc'",
    "INSERT INTO v_full SELECT id + 5000, round, v FROM v_full", "UPDATE v_full SET id = id + 1000000", "DELETE FROM v_row WHERE rowid % 2",
    "ALTER TABLE v_full DROP COLUMN v", "ALTER TABLE v_list DROP COLUMN data", "DELETE FROM gx WHERE name = 'v_x'",
] + [HEAD.format(8 * field, 8, value) for field in range(14)
     for value in ("0000000000000000", "ffffffffffffffff", "ffffffffffffff7f", "0100000000000000", "0a00000000000000", "0000010000000000", "0000000001000000")]


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged(tmp_path, forgery):
    """Each statement works, or says in words what is wrong; gx_index makes all good again where the rows are there; nothing is left after DROP."""
    db = gx_connect(str(tmp_path / "f.db"))
    db.execute("SELECT gx_config('tile_bytes', 4096)")
    db.execute("CREATE VIRTUAL TABLE v USING gx_vectors(x f32[4], tag TEXT)")
    db.executemany("INSERT INTO v(rowid, x, tag) VALUES (?, ?, 'a')", [(i, np.float32([i, 1, i % 7, 2]).tobytes()) for i in range(400)])
    db.execute("SELECT gx_index('v', '{\"lists\":20,\"probe\":4}')")
    db.close()
    db = gx_connect(str(tmp_path / "f.db"))
    try:
        db.execute(forgery)
    except sqlite3.Error as problem:  # DROP COLUMN is newer than the oldest SQLite
        pytest.skip(str(problem))
    search = "SELECT rowid, x, distance FROM v WHERE x MATCH '[5,5,5,5]' AND k = 3"
    statements = [search, search + " AND tag = 'a'", search + " AND probe = 20", search + " AND probe = 0", "INSERT INTO v(rowid, x) VALUES (100000, '[1,2,3,4]')",
                  "UPDATE v SET x = '[1,1,1,1]' WHERE rowid = 5", "UPDATE v SET rowid = 5555 WHERE rowid = 6", "DELETE FROM v WHERE rowid = 7", "PRAGMA integrity_check",
                  "INSERT INTO v(x) SELECT x FROM v", "SELECT gx_settle('v')", search, "ALTER TABLE v RENAME TO w", "ALTER TABLE w RENAME TO v", "SELECT gx_index('v')", search]
    for statement in statements:
        try:
            db.execute(statement).fetchall()
        except sqlite3.Error as problem:
            assert len(str(problem)) > 5 and "\n" not in str(problem)
    db.execute("DROP TABLE v") if "gx WHERE" not in forgery else None
    assert db.execute("SELECT count(*) FROM sqlite_master WHERE name IN ('v_list', 'v_full', 'v_row')").fetchone() == (3 * ("gx WHERE" in forgery),)
    db.close()


@pytest.mark.parametrize("forgery", [f for f in FORGERIES if f.startswith(("UPDATE v_list", "DELETE FROM v_list", "UPDATE v_full", "DELETE FROM v_full"))][::4])
def test_a_broken_index_is_made_anew(tmp_path, forgery):
    db, draw = make(tmp_path / "a.db", n=300, d=4, index='{"lists":12,"probe":3}')
    db.execute("INSERT INTO v(rowid, x) VALUES (9999, '[1,2,3,4]')")  # waits
    db.execute(forgery)
    assert json.loads(q(db, "SELECT gx_index('v', '{\"lists\":12,\"probe\":12}')"))["rows"] == 301
    assert recall(db, draw(5)) == 1 and ask(db, np.float32([1, 2, 3, 4]), k=1) == [(9999, 0.0)]
    tables_agree(db)


def test_panels_at_random(tmp_path):
    """Bytes of the lists changed at random: rows are refused or found, and a distance is always its row's."""
    db, draw = make(tmp_path / "a.db", n=600, index='{"lists":12,"probe":12}')
    rows = {i: np.frombuffer(x, "<f4") for i, x in db.execute("SELECT rowid, x FROM v")}
    rng = random.Random(3)
    for _ in range(120):
        db.execute("SAVEPOINT a")
        for key, data in db.execute("SELECT key, data FROM v_list ORDER BY random() LIMIT 3").fetchall():
            data = bytearray(data)
            for _ in range(rng.choice([1, 4, 40])):
                data[rng.randrange(len(data))] = rng.randrange(256)
            db.execute("UPDATE v_list SET data = ? WHERE key = ?", (bytes(data), key))
        x = draw(1)[0]
        try:
            for id, distance in ask(db, x):
                assert distance == pytest.approx(float(np.sqrt(((rows[id].astype("f8") - x) ** 2).sum())))
        except sqlite3.Error as problem:
            assert "gx_vectors: v: " in str(problem)
        db.execute("ROLLBACK TO a")
        db.execute("RELEASE a")


def test_plan_of_a_search(tmp_path):
    """gx_plan says which lists a search would look at, and when it would look at none."""
    db, _ = make(tmp_path / "a.db", index='{"lists":40,"probe":7}')[:2]

    def plan(where, values=("[" + ",".join("1" * 16) + "]",)):
        (text,), = db.execute(f"SELECT gx_plan FROM v WHERE x MATCH ? AND {where}", values)
        return json.loads(text)

    assert {k: plan("k = 3")[k] for k in ("driver", "lists", "probe", "rows", "filter", "waiting")} == {
        "driver": "index", "lists": 40, "probe": 7, "rows": 4000, "filter": None, "waiting": 0}
    assert plan("k = 3 AND tag = 2")["filter"] == "neighbours" and plan("k = 3 AND probe = 40")["probe"] == 40
    assert plan("k = 3")["bytes_read"] < plan("k = 3 AND probe = 40")["bytes_read"] < plan("k = 3 AND probe = 0")["bytes_read"]
    for where in ("k = 3 AND probe = 0", "k = 3000", "k = 3 AND distance > 1", "distance < 9"):
        assert plan(where)["driver"] == "flat"
    db.execute("INSERT INTO v(x) VALUES (?)", ("[" + ",".join("1" * 16) + "]",))
    assert plan("k = 3")["waiting"] == 1
