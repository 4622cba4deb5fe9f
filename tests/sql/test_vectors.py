"""Vector tables (gx_vectors).

Plan:
- the model: random inserts, upserts, updates, deletes, searches with and without filters, transactions, savepoints, reopening, VACUUM, settling,
  beside a dictionary in Python; tiles are small, so rows settle all the time. Half of the runs have an index: what it finds is there, nearly always nearest
- the examples of sqlite-vec's documentation, with the CREATE line changed
- CREATE: what is refused; names; several vector columns; types; keys
- values: what is taken as a vector, what is refused, with the row
- plans: k, LIMIT, OFFSET, streams, distance, IN, JOIN, filters of each share; k rows come if k rows match
- in the place of a matrix; gx_knn; gx_settle
- transactions: another connection's snapshot, a failed statement, kill -9
- forged shadow tables: words, never a crash
"""
import json
import os
import random
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest

from conftest import gx_connect
from test_vector_index import tables_agree

OPERATIONS = int(os.environ.get("GX_VECTORS_OPERATIONS", "4000"))  # of the model; 500 000 is a long run
KILLS = int(os.environ.get("GX_VECTORS_KILLS", "6"))               # of a process that writes; 200 is a long run


def blob(x, dtype="<f4"):
    return np.asarray(x, dtype).tobytes()


# The model -----------------------------------------------------------------------------------------------------------


class Model:
    """What the table holds, and what its answers must be."""

    def __init__(self):
        self.rows = {}      # id -> (vector, tag, n)
        self.saved = []     # (name, copy of rows): the transaction first

    def nearest(self, q, k, test):
        ids = [id for id, (_, tag, n) in self.rows.items() if test(id, tag, n)]
        if not ids:
            return []
        X = np.array([self.rows[id][0] for id in ids], "f8")  # small numbers: sums are exact in any order
        D = np.sqrt(((X - q) ** 2).sum(axis=1))
        return sorted(zip(D.tolist(), ids))[:k]


FILTERS = [
    ("", (), lambda id, tag, n: True),
    ("AND tag = ?", ("a",), lambda id, tag, n: tag == "a"),
    ("AND tag <> ? AND n < ?", ("b", 30), lambda id, tag, n: tag is not None and tag != "b" and n < 30),
    ("AND tag IN ('a', 'c')", (), lambda id, tag, n: tag in ("a", "c")),
    ("AND tag IS NULL", (), lambda id, tag, n: tag is None),
    ("AND n BETWEEN ? AND ?", (10, 12), lambda id, tag, n: 10 <= n <= 12),
    ("AND rowid < ?", (60,), lambda id, tag, n: id < 60),
    ("AND rowid IN (3, 5, 77, 1000)", (), lambda id, tag, n: id in (3, 5, 77, 1000)),
    ("AND n = ?", (-1,), lambda id, tag, n: False),
]


class Player:
    """Plays random operations on a table and its model; D numbers a vector, few different ones, so that many are equal."""
    D = 8

    def __init__(self, path, seed, has_index=False):
        self.path, self.random, self.has_index = path, random.Random(seed), has_index
        self.model, self.depth = Model(), 0
        self.asked, self.found = 0, 0  # rows of searches by the index, and those of them that are among the nearest
        self.open()
        self.db.execute(f"CREATE VIRTUAL TABLE v USING gx_vectors(x f32[{self.D}], tag TEXT, n INTEGER, metric=l2)")

    def open(self):
        self.db = gx_connect(self.path)
        self.db.execute("SELECT gx_config('tile_bytes', 64 * 4 * 8)")  # 64 rows

    def vector(self):
        return np.array([self.random.randint(-2, 2) for _ in range(self.D)], "<f4")

    def fields(self):
        return self.random.choice(["a", "b", "c", None]), self.random.randint(0, 60)

    def some_id(self):
        ids = list(self.model.rows)
        return self.random.choice(ids) if ids else 1

    def insert(self):
        id, x, (tag, n) = self.random.randint(1, 400), self.vector(), self.fields()
        if id in self.model.rows:
            with pytest.raises(sqlite3.IntegrityError):
                self.db.execute("INSERT INTO v(rowid, x, tag, n) VALUES (?, ?, ?, ?)", (id, blob(x), tag, n))
            return
        value = self.random.choice([blob(x), blob(x, "<f8"), json.dumps(x.tolist())])
        self.db.execute("INSERT INTO v(rowid, x, tag, n) VALUES (?, ?, ?, ?)", (id, value, tag, n))
        self.model.rows[id] = (x, tag, n)

    def insert_many(self):
        count = self.random.randint(1, 150)
        first = max(self.model.rows, default=0) + 1
        if first > 2000:
            return
        rows = [(first + i, self.vector(), *self.fields()) for i in range(count)]
        self.db.execute("CREATE TEMP TABLE IF NOT EXISTS source(id, x, tag, n)")
        self.db.execute("DELETE FROM source")
        self.db.executemany("INSERT INTO source VALUES (?, ?, ?, ?)", [(i, blob(x), tag, n) for i, x, tag, n in rows])
        self.db.execute("INSERT INTO v(rowid, x, tag, n) SELECT * FROM source")
        for i, x, tag, n in rows:
            self.model.rows[i] = (x, tag, n)

    def upsert(self):
        id, x, (tag, n) = self.random.randint(1, 400), self.vector(), self.fields()
        self.db.execute("INSERT OR REPLACE INTO v(rowid, x, tag, n) VALUES (?, ?, ?, ?)", (id, blob(x), tag, n))
        self.model.rows[id] = (x, tag, n)

    def update(self):
        id, kind = self.some_id(), self.random.randint(0, 3)
        x, (tag, n) = self.vector(), self.fields()
        old = self.model.rows.get(id)
        if kind == 0:
            self.db.execute("UPDATE v SET tag = ? WHERE rowid = ?", (tag, id))
            new = old and (old[0], tag, old[2])
        elif kind == 1:
            self.db.execute("UPDATE v SET x = ?, n = ? WHERE rowid = ?", (blob(x), n, id))
            new = old and (x, old[1], n)
        elif kind == 2:
            other = self.random.randint(1, 400)
            if other in self.model.rows:
                return
            self.db.execute("UPDATE v SET rowid = ? WHERE rowid = ?", (other, id))
            if old:
                del self.model.rows[id]
                self.model.rows[other] = old
            return
        else:
            self.db.execute("UPDATE v SET n = n + 1 WHERE tag = 'a' AND n < 5")
            for i, (y, t, m) in self.model.rows.items():
                if t == "a" and m < 5:
                    self.model.rows[i] = (y, t, m + 1)
            return
        if old:
            self.model.rows[id] = new

    def delete(self):
        if self.random.random() < 0.1:
            n = self.random.randint(0, 60)
            self.db.execute("DELETE FROM v WHERE n = ?", (n,))
            self.model.rows = {i: r for i, r in self.model.rows.items() if r[2] != n}
        else:
            id = self.some_id()
            self.db.execute("DELETE FROM v WHERE rowid = ?", (id,))
            self.model.rows.pop(id, None)

    def search(self):
        q, k = self.vector() + np.float32(0.25), self.random.choice([1, 3, 10, 100])
        sql, values, test = self.random.choice(FILTERS)
        end = self.random.choice(["AND k = ?", "ORDER BY distance LIMIT ?"])
        ask = f"SELECT distance, rowid FROM v WHERE x MATCH ? {sql}"
        want = self.model.nearest(q, k, test)
        got = self.db.execute(f"{ask} {'AND probe = 0' if self.has_index else ''} {end}", (blob(q), *values, k)).fetchall()
        assert got == want, (sql, k)
        if self.has_index:
            got = self.db.execute(f"{ask} {end}", (blob(q), *values, k)).fetchall()
            assert len(got) == len(want) == len({id for _, id in got}) and got == sorted(got)
            for distance, id in got:
                x, tag, n = self.model.rows[id]
                assert test(id, tag, n) and distance == np.sqrt(((x.astype("f8") - q) ** 2).sum())
            self.asked += len(want)
            self.found += sum(distance <= want[-1][0] for distance, _ in got)

    def index(self):
        if self.has_index:
            options = self.random.choice(["{}", '{"lists":5}', '{"recall":0.99}', '{"lists":30,"probe":12}', '{"drop":true}'])
            try:
                self.db.execute("SELECT gx_index('v', ?)", (options,))
            except sqlite3.Error as error:
                assert "no rows to make an index of" in str(error)

    def look(self):
        id = self.some_id()
        got = self.db.execute("SELECT x, tag, n FROM v WHERE rowid = ?", (id,)).fetchall()
        want = [(blob(x), tag, n) for i, (x, tag, n) in self.model.rows.items() if i == id]
        assert got == want

    def begin(self):
        if not self.model.saved:
            self.db.execute("BEGIN")
        else:
            self.db.execute(f"SAVEPOINT s{len(self.model.saved)}")
        self.model.saved.append(dict(self.model.rows))

    def end(self):
        if not self.model.saved:
            return
        old, back = self.model.saved.pop(), self.random.random() < 0.5
        if not self.model.saved:
            self.db.execute("ROLLBACK" if back else "COMMIT")
        else:
            name = f"s{len(self.model.saved)}"
            if back:
                self.db.execute(f"ROLLBACK TO {name}")
            self.db.execute(f"RELEASE {name}")
        if back:
            self.model.rows = old

    def settle(self):
        self.db.execute("SELECT gx_settle('v')")
        assert self.db.execute("SELECT count(*) FROM v_new").fetchone() == (0,)
        assert self.db.execute("SELECT count(*) FROM v_dead").fetchone() == (0,)

    def reopen(self):
        if self.model.saved:
            return
        self.db.close()
        self.open()
        if self.random.random() < 0.3:
            self.db.execute("VACUUM")

    def compare(self):
        got = {i: (x, tag, n) for i, x, tag, n in self.db.execute("SELECT rowid, x, tag, n FROM v")}
        assert got == {i: (blob(x), tag, n) for i, (x, tag, n) in self.model.rows.items()}
        check_shadows(self.db, "v", ["v_x"])
        if self.has_index and not self.model.saved and sqlite3.sqlite_version_info >= (3, 44):
            assert self.db.execute("PRAGMA integrity_check").fetchone() == ("ok",)

    def play(self, operations):
        moves = [(self.insert, 30), (self.insert_many, 2), (self.upsert, 15), (self.update, 15), (self.delete, 12), (self.search, 20),
                 (self.look, 6), (self.begin, 4), (self.end, 5), (self.settle, 0.3), (self.reopen, 0.4), (self.compare, 0.5),
                 (self.index, 1.5)]
        names, weights = zip(*moves)
        for _ in range(operations):
            self.random.choices(names, weights)[0]()
        while self.model.saved:
            self.end()
        self.compare()
        self.db.close()


def check_shadows(db, table, matrices):
    """Each position is one row's or dead, each row has its vector."""
    heights = {db.execute("SELECT rows FROM gx WHERE name = ?", (m,)).fetchone() for m in matrices}
    assert len(heights) == 1
    height = (heights.pop() or (0,))[0]
    at = [p for (p,) in db.execute(f"SELECT gx_pos FROM {table}_row WHERE gx_pos >= 0")]
    dead = [p for (p,) in db.execute(f"SELECT pos FROM {table}_dead")]
    assert sorted(at + dead) == list(range(height))
    new = {(-s, i) for s, i in db.execute(f"SELECT slot, id FROM {table}_new")}
    assert new == set(db.execute(f"SELECT gx_pos, rowid FROM {table}_row WHERE gx_pos < 0"))


@pytest.mark.parametrize("seed", range(1, 9))
def test_model(tmp_path, seed):
    Player(str(tmp_path / "m.db"), seed).play(OPERATIONS // 2)


@pytest.mark.parametrize("seed", range(11, 19))
def test_model_with_an_index(tmp_path, seed):
    (player := Player(str(tmp_path / "m.db"), seed, has_index=True)).play(OPERATIONS // 2)
    assert player.found >= 0.93 * player.asked  # rows without clusters, and conditions that know nothing of them


def refused(db, sql, *values):
    with pytest.raises(sqlite3.Error) as info:
        db.execute(sql, values).fetchall()
    assert "\n" not in str(info.value)
    return str(info.value)


# vec0's documentation ------------------------------------------------------------------------------------------------


def test_vec0_readme(db):
    """README.md of sqlite-vec: a sample, a query with LIMIT, one with k."""
    db.execute("create virtual table vec_examples using gx_vectors(sample_embedding float[8])")
    db.execute("""insert into vec_examples(rowid, sample_embedding)
      values
        (1, '[-0.200, 0.250, 0.341, -0.211, 0.645, 0.935, -0.316, -0.924]'),
        (2, '[0.443, -0.501, 0.355, -0.771, 0.707, -0.708, -0.185, 0.362]'),
        (3, '[0.716, -0.927, 0.134, 0.052, -0.669, 0.793, -0.634, -0.162]'),
        (4, '[-0.710, 0.330, 0.656, 0.041, -0.990, 0.726, 0.385, -0.958]')""")
    q = "'[0.890, 0.544, 0.825, 0.961, 0.358, 0.0196, 0.521, 0.175]'"
    want = [(2, pytest.approx(2.38687372207642)), (1, pytest.approx(2.38978505134583))]  # as the README prints them
    assert db.execute(f"select rowid, distance from vec_examples where sample_embedding match {q} order by distance limit 2").fetchall() == want
    assert db.execute(f"select rowid, distance from vec_examples where sample_embedding match {q} and k = 2").fetchall() == want


def test_vec0_features(db):
    """Metadata, partition keys, auxiliary columns, metrics, keys, updates, point queries, from the pages on vec0's features."""
    db.execute("""create virtual table vec_movies using gx_vectors(
        movie_id integer primary key, synopsis_embedding float[4], genre text, num_reviews int, mean_rating float, contains_violence boolean)""")
    rows = [(1, [1, 0, 0, 0], "scifi", 150, 4.5, 1), (2, [0, 1, 0, 0], "scifi", 900, 3.2, 0), (3, [0, 0, 1, 0], "drama", 600, 3.9, 0),
            (4, [0.9, 0.1, 0, 0], "scifi", 700, 3.8, 0)]
    db.executemany("insert into vec_movies values (?, ?, ?, ?, ?, ?)", [(i, blob(x), *rest) for i, x, *rest in rows])
    q = "synopsis_embedding match '[1,0,0,0]' and k = 5"
    ask = "select movie_id from vec_movies where "
    assert db.execute(f"{ask} {q} and genre = 'scifi' and num_reviews between 100 and 800").fetchall() == [(1,), (4,)]
    assert db.execute(f"{ask} {q} and mean_rating > 3.5 and contains_violence = false").fetchall() == [(4,), (3,)]
    assert db.execute(f"{ask} {q} and genre != 'scifi'").fetchall() == [(3,)]
    assert db.execute(f"{ask} {q} and movie_id in (select value from json_each('[2, 3, 77]'))").fetchall() == [(2,), (3,)]
    assert db.execute("select genre, synopsis_embedding from vec_movies where movie_id = 3").fetchall() == [("drama", blob([0, 0, 1, 0]))]
    db.execute("update vec_movies set genre = 'comedy', synopsis_embedding = '[1,0,0,0]' where movie_id = 3")
    assert db.execute(f"{ask} {q} and genre = 'comedy'").fetchall() == [(3,)]
    db.execute("delete from vec_movies where movie_id = 1")
    assert db.execute(f"{ask} {q}").fetchall() == [(3,), (4,), (2,)]

    db.execute("""create virtual table vec_chunks using gx_vectors(
        user_id integer partition key, +contents text, contents_embedding float[2] distance_metric=cosine, chunk_size=16)""")
    db.executemany("insert into vec_chunks(user_id, contents, contents_embedding) values (?, ?, ?)",
                   [(i % 3, f"text {i}", blob([i, 1])) for i in range(30)])
    got = db.execute("select rowid, contents, distance from vec_chunks where contents_embedding match '[5, 1]' and k = 2 and user_id = 2").fetchall()
    assert [r[1] for r in got] == ["text 5", "text 8"]
    assert got[0][2] == pytest.approx(0, abs=1e-12)

    db.execute("create virtual table vec_docs using gx_vectors(id text primary key, e bit[16], f int8[4] distance_metric=l1)")
    db.execute("insert into vec_docs(id, e, f) values ('a', x'ff00', x'01020304'), ('b', x'0f00', x'fffefdfc')")
    assert db.execute("select id, distance from vec_docs where e match x'ffff' and k = 2").fetchall() == [("a", 8.0), ("b", 12.0)]
    assert db.execute("select id, distance from vec_docs where f match x'01010101' and k = 2").fetchall() == [("a", 6.0), ("b", 14.0)]
    assert db.execute("select e, f from vec_docs where id = 'b'").fetchall() == [(b"\x0f\x00", b"\xff\xfe\xfd\xfc")]
    assert "UNIQUE" in refused(db, "insert into vec_docs(id, e, f) values ('a', x'ff00', x'01020304')")


# CREATE --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments, words", [
    ("", "no vector column"), ("tag TEXT", "no vector column"), ("x f32", "expected a column"), ("x f32[0]", "1 to 65536"),
    ("x f32[99999999999999999999]", "1 to 65536"), ("x f32[-3]", "1 to 65536"), ("x bit[9]", "multiple of 8"),
    ("x f32[4], metric=wide", "the metric must be one of cosine, l2"), ("x f32[4], metric=hamming", "hamming"),
    ("x bit[8], metric=l2", "hamming"), ("x f32[4], index=flat", "the index must be ivf"), ("x f32[4], wide=yes", "no such option: there are metric, index and chunk_size"),
    ("x f32[4], index=ivf(lists=0)", "lists and probe are from 1 to 65536"), ("x f32[4], index=ivf(recall=1.5)", "recall is more than 0"),
    ("x f32[4], index=ivf(trees=3)", "an index has lists, probe and recall"), ("x f32[4], index=ivf(lists=3", "incomplete input"),
    ("x f32[4], x TEXT", "taken"), ("x f32[4], distance REAL", "taken"), ("x f32[4], rowid INTEGER", "taken"),
    ("x f32[4], k TEXT", "taken"), ("x f32[4], gx_pos INTEGER", "taken"), ("x f32[4], a TEXT PRIMARY KEY, b TEXT PRIMARY KEY", "one key"),
    ("x f32[4], a REAL PRIMARY KEY", "one key"), ("x f32[4], t TEXT DEFAULT 'x'", "expected a column"), ("x f32[4], t \"TEXT); DROP TABLE v; --\"", "expected a column"),
    ("x f32[4] extra", "expected a column"), ("x f32[4], t TEXT CHECK (1)", "expected a column"), ("=", "expected a column"),
    (", ".join(f"c{i} f32[2]" for i in range(9)), "at most 8"), (", ".join(f"c{i} TEXT" for i in range(99)) + ", x f32[2]", "at most 60"),
])
def test_declarations_refused(db, arguments, words):
    assert words in refused(db, f"CREATE VIRTUAL TABLE t USING gx_vectors({arguments})")
    assert db.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE 't%'").fetchone() == (0,)


def test_declared(db):
    db.execute("""CREATE VIRTUAL TABLE "odd "" name" USING gx_vectors("a vector" f32[3], `tag` TEXT COLLATE NOCASE, "from" INTEGER, [x] bf16[2],
      metric = cosine)""")
    db.execute("""INSERT INTO "odd "" name"("a vector", tag, "from", x) VALUES ('[1,2,3]', 'Home', 7, '[1,2]')""")
    got = db.execute("""SELECT rowid, tag, "from", hex(x) FROM "odd "" name" WHERE tag = 'HOME' """).fetchall()
    assert got == [(1, "Home", 7, "803F0040")]
    got = db.execute("""SELECT rowid FROM "odd "" name" WHERE "a vector" MATCH '[1,2,3]' AND k = 3 AND tag = 'HOME' """).fetchall()
    assert got == [(1,)]
    db.execute("""SELECT gx_settle('odd " name')""")
    assert db.execute("SELECT name, dtype FROM gx ORDER BY name").fetchall() == [('odd " name_a vector', "f32"), ('odd " name_x', "bf16")]
    db.execute('CREATE INDEX by_tag ON "odd "" name_row"(tag)')
    db.execute('ALTER TABLE "odd "" name" RENAME TO plain')
    db.execute("""CREATE VIRTUAL TABLE "odd "" name" USING gx_vectors(x f32[1])""")  # the old name is free
    assert db.execute("SELECT tag FROM plain WHERE x MATCH '[1,2]' AND k = 1").fetchall() == [("Home",)]
    db.execute("DROP TABLE plain")
    assert db.execute("SELECT count(*) FROM gx").fetchone() == (0,)
    assert db.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE 'plain%'").fetchone() == (0,)


@pytest.mark.parametrize("kind, dtype", [("f64", "<f8"), ("f32", "<f4"), ("f16", "<f2"), ("i8", "|i1"), ("int8", "|i1")])
def test_types(db, kind, dtype):
    db.execute("SELECT gx_config('tile_bytes', 4096)")
    db.execute(f"CREATE VIRTUAL TABLE t USING gx_vectors(x {kind}[5])")
    X = np.random.default_rng(3).integers(-9, 9, (300, 5)).astype(dtype)
    for i, x in enumerate(X):
        value = [x.tobytes(), x.astype("<f4").tobytes(), x.astype("<f8").tobytes(), json.dumps(x.tolist())][i % 4]
        db.execute("INSERT INTO t(rowid, x) VALUES (?, ?)", (i, value))
    assert db.execute("SELECT rowid, x FROM t ORDER BY rowid").fetchall() == [(i, x.tobytes()) for i, x in enumerate(X)]
    q = X[7].astype("f8") + 0.125
    D = np.sqrt(((X.astype("f8") - q) ** 2).sum(axis=1))
    want = sorted((float(d), i) for i, d in enumerate(D))[:9]
    assert db.execute("SELECT distance, rowid FROM t WHERE x MATCH ? AND k = 9", (blob(q, "<f8"),)).fetchall() == want


def test_temp_and_attached(tmp_path):
    db = gx_connect()
    db.execute("ATTACH ? AS other", (str(tmp_path / "o.db"),))
    for schema in ("temp", "other"):
        db.execute(f"CREATE VIRTUAL TABLE {schema}.t USING gx_vectors(x f32[2])")
        db.execute(f"INSERT INTO {schema}.t(rowid, x) VALUES (1, '[1,2]'), (2, '[3,4]')")
        db.execute(f"SELECT gx_settle('{schema}.t')")
        assert db.execute(f"SELECT gx_json('{schema}.t')").fetchone() == ("[[1.0,2.0],[3.0,4.0]]",)
        assert db.execute(f"SELECT rowid FROM {schema}.t WHERE x MATCH '[3,3]' AND k = 1").fetchall() == [(2,)]
        db.execute(f"DROP TABLE {schema}.t")


# Values --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value, words", [
    ("NULL", "row 9: x is NULL"), ("'[1,2]'", "row 9: x has 2 numbers, but 3 are declared"), ("x'00'", "row 9: x is a blob of 1 bytes"),
    ("'[1,2,\"nan\"]'", "row 9: x has NaN at 2"), ("x'0000807f0000000000000000'", "row 9: x has Inf at 0"), ("'[1,2,1e39]'", "row 9: x"),
    ("'hello'", "row 9: x must be a JSON list"), ("5", "row 9: x has 1 numbers"), ("'[[1,2,3],[4,5,6]]'", "row 9: x is 2x3"), ("'[1,2,3'", "row 9: x"),
    ("'[1,\"1+2i\",3]'", "row 9: x is complex"), ("zeroblob(13)", "row 9: x is a blob of 13 bytes"),
])
def test_values_refused(db, value, words):
    db.execute("CREATE VIRTUAL TABLE t USING gx_vectors(x f32[3], tag TEXT)")
    db.execute("INSERT INTO t(rowid, x, tag) VALUES (1, '[1,2,3]', 'a')")
    assert words in refused(db, f"INSERT INTO t(rowid, x) VALUES (9, {value})")
    assert words.replace("row 9", "row 1") in refused(db, f"UPDATE t SET x = {value} WHERE rowid = 1")
    if "1e39" not in value:  # of a query, which is doubles, that is a number
        assert refused(db, f"SELECT * FROM t WHERE x MATCH {value} AND k = 1")
    assert db.execute("SELECT rowid, x, tag FROM t").fetchall() == [(1, blob([1, 2, 3]), "a")]


def test_values_of_small_types(db):
    db.execute("CREATE VIRTUAL TABLE t USING gx_vectors(x i8[2], b bit[8])")
    assert "x" in refused(db, "INSERT INTO t(x, b) VALUES ('[1,200]', x'00')")
    assert "x" in refused(db, "INSERT INTO t(x, b) VALUES ('[1,\"inf\"]', x'00')")
    assert "no bit" in refused(db, "INSERT INTO t(x, b) VALUES ('[1,2]', '[1,0,2,0,0,0,0,0]')")
    db.execute("INSERT INTO t(x, b) VALUES ('[1,-2]', '[1,0,1,0,0,0,0,1]'), (gx_add('[[3,4]]', 0), x'81')")
    assert db.execute("SELECT x, b FROM t").fetchall() == [(b"\x01\xfe", b"\x85"), (b"\x03\x04", b"\x81")]


def test_keys(db):
    db.execute("CREATE VIRTUAL TABLE t USING gx_vectors(id INTEGER PRIMARY KEY, x f32[1])")
    db.execute("INSERT INTO t(x) VALUES ('[5]')")
    assert db.execute("SELECT id, rowid FROM t").fetchall() == [(1, 1)]
    assert "id must be an integer, not 'a'" in refused(db, "INSERT INTO t(id, x) VALUES ('a', '[1]')")
    assert "must be an integer" in refused(db, "UPDATE t SET id = NULL")
    assert "cannot be set" in refused(db, "INSERT INTO t(x, distance) VALUES ('[1]', 1)")
    db.execute("INSERT INTO t(id, x) VALUES (-9223372036854775808, '[6]'), (9223372036854775807, '[7]')")
    assert db.execute("SELECT id FROM t WHERE x MATCH '[7]' AND k = 2").fetchall() == [(9223372036854775807,), (-9223372036854775808,)]
    assert "2^63-1" not in refused(db, "SELECT * FROM gx_knn('[7]', 't', 1)")
    db.execute("UPDATE OR REPLACE t SET id = 1 WHERE id = 9223372036854775807")
    assert db.execute("SELECT id, x FROM t ORDER BY id").fetchall() == [(-9223372036854775808, blob([6])), (1, blob([7]))]
    db.execute("CREATE VIRTUAL TABLE s USING gx_vectors(name TEXT PRIMARY KEY, x f32[1])")
    assert "name must be a text" in refused(db, "INSERT INTO s(name, x) VALUES (NULL, '[1]')")
    db.execute("INSERT INTO s(name, x) VALUES ('a', '[1]'), ('b', '[2]')")
    db.execute("UPDATE OR REPLACE s SET name = 'a' WHERE name = 'b'")
    assert db.execute("SELECT name, x FROM s").fetchall() == [("a", blob([2]))]


# Plans ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many():
    """40 000 rows, some dead, some new; tag 'rare' on one in two thousand."""
    db = gx_connect()
    db.execute("SELECT gx_config('tile_bytes', 65536)")
    db.execute("CREATE VIRTUAL TABLE t USING gx_vectors(x f32[4], tag TEXT, n INTEGER)")
    X = np.random.default_rng(8).standard_normal((40000, 4)).astype("<f4")
    db.execute("CREATE TABLE s(id, x, tag, n)")
    db.executemany("INSERT INTO s VALUES (?, ?, ?, ?)", [(i, x.tobytes(), "rare" if i % 2000 == 5 else f"t{i % 2}", i) for i, x in enumerate(X)])
    db.execute("INSERT INTO t(rowid, x, tag, n) SELECT * FROM s")
    db.execute("DELETE FROM t WHERE n % 10 = 3")
    db.execute("INSERT INTO t(rowid, x, tag, n) SELECT 100000 + id, x, tag, n FROM s WHERE n % 100 = 3")
    yield db, X
    db.close()


def distances(X, q):
    """Of rows of four numbers, with the sums as nearest.h has them."""
    s = (X.astype("f8") - q) ** 2
    return np.sqrt((s[:, 0] + s[:, 2]) + (s[:, 1] + s[:, 3]))


@pytest.mark.parametrize("sql, test", [
    ("1", lambda i: True), ("tag = 't1'", lambda i: i % 2 and i % 2000 != 5), ("tag = 'rare'", lambda i: i % 2000 == 5),
    ("tag = 'none'", lambda i: False), ("n < 400", lambda i: i < 400), ("n >= 39000", lambda i: i >= 39000), ("n = 77", lambda i: i == 77),
    ("rowid IN (1, 2, 3, 100003)", lambda i: i in (1, 2, 3)), ("tag IN ('rare', 't0') AND n > 100", lambda i: (i % 2000 == 5 or i % 2 == 0) and i > 100),
    ("tag LIKE 'r%'", lambda i: i % 2000 == 5), ("tag GLOB 't?'", lambda i: i % 2000 != 5), ("tag IS NOT NULL", lambda i: True),
])
@pytest.mark.parametrize("k", [1, 10, 500])
def test_filters(many, sql, test, k):
    db, X = many
    q = np.array([0.1, -0.2, 0.3, 0.4])
    D = distances(X, q)
    live = [(i, i) for i in range(len(X)) if i % 10 != 3] + [(100000 + i, i) for i in range(3, len(X), 100)]
    if "rowid" in sql:
        live = [(r, i) for r, i in live if r in (1, 2, 3, 100003)]
        test = lambda i: True
    want = sorted((float(D[i]), r) for r, i in live if test(i))[:k]
    where = "" if sql == "1" else f"AND {sql}"
    assert db.execute(f"SELECT distance, rowid FROM t WHERE x MATCH ? {where} AND k = ?", (blob(q, "<f8"), k)).fetchall() == want
    assert db.execute(f"SELECT distance, rowid FROM t WHERE x MATCH ? {where} ORDER BY distance LIMIT ?", (blob(q, "<f8"), k)).fetchall() == want
    # Conditions that SQLite keeps to itself: rows come as long as they are asked for.
    assert db.execute(f"SELECT distance, rowid FROM t WHERE x MATCH ? {where} AND (n + 0 >= 0 OR n IS NULL) ORDER BY distance LIMIT ?",
                      (blob(q, "<f8"), k)).fetchall() == want
    db.execute("CREATE INDEX by_tag ON t_row(tag, n)")
    assert db.execute(f"SELECT distance, rowid FROM t WHERE x MATCH ? {where} AND k = ?", (blob(q, "<f8"), k)).fetchall() == want
    db.execute("DROP INDEX by_tag")
    far = float(np.sort(D)[25])
    assert db.execute(f"SELECT distance, rowid FROM t WHERE x MATCH ? {where} AND distance > ? AND k = ?", (blob(q, "<f8"), far, k)).fetchall() \
        == sorted((float(D[i]), r) for r, i in live if test(i) and D[i] > far)[:k]
    assert db.execute(f"SELECT distance, rowid FROM t WHERE x MATCH ? {where} AND distance <= ? AND k = ?", (blob(q, "<f8"), far, k)).fetchall() \
        == [w for w in want if w[0] <= far]


def test_filter_that_hides_what_is_near(db):
    """A filter whose rows are all far away, so that what is near never passes: k rows come all the same."""
    db.execute("CREATE VIRTUAL TABLE t USING gx_vectors(x f32[1], far INTEGER)")
    db.execute("WITH RECURSIVE c(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM c WHERE i < 39999) INSERT INTO t(rowid, x, far) "
               "SELECT i, '[' || i || ']', i >= 30000 FROM c")
    assert db.execute("SELECT rowid FROM t WHERE x MATCH '[0]' AND k = 3 AND far = 1").fetchall() == [(30000,), (30001,), (30002,)]


def test_orders_and_joins(many):
    db, X = many
    q = blob(X[500])
    base = db.execute("SELECT rowid FROM t WHERE x MATCH ? AND k = 20", (q,)).fetchall()
    assert db.execute("SELECT rowid FROM t WHERE x MATCH ? ORDER BY distance LIMIT 5 OFFSET 7", (q,)).fetchall() == base[7:12]
    assert db.execute("SELECT rowid FROM t WHERE x MATCH ? LIMIT 5", (q,)).fetchall() == base[:5]
    assert db.execute("SELECT rowid FROM t WHERE x MATCH ? AND k = 20 ORDER BY rowid DESC", (q,)).fetchall() == sorted(base, reverse=True)
    assert db.execute("SELECT rowid FROM t WHERE x MATCH ? ORDER BY rowid LIMIT 2", (q,)).fetchall() == [(0,), (1,)]
    assert db.execute("SELECT rowid FROM t ORDER BY rowid DESC LIMIT 1").fetchall() == [(139903,)]
    db.execute("CREATE TEMP TABLE question(id INTEGER PRIMARY KEY, e BLOB)")
    db.executemany("INSERT INTO question VALUES (?, ?)", [(i, blob(X[i * 11])) for i in range(20)])
    joined = db.execute("SELECT q.id, v.rowid, v.distance FROM question q JOIN t v ON v.x MATCH q.e AND v.k = 3 ORDER BY q.id, v.distance").fetchall()
    one = [(i, *r) for i in range(20) for r in db.execute("SELECT rowid, distance FROM t WHERE x MATCH ? AND k = 3", (blob(X[i * 11]),))]
    assert joined == one
    many_at_once = db.execute("""SELECT query, id, score FROM gx_knn((SELECT gx_from_rows(id, e, '{"dtype":"f32"}') FROM question), 't', 3)""").fetchall()
    assert many_at_once == one
    db.execute("CREATE TEMP TABLE note(id INTEGER PRIMARY KEY, text)")
    db.execute("INSERT INTO note SELECT id, 'note ' || id FROM s")
    got = db.execute("SELECT n.text FROM t v JOIN note n ON n.id = v.rowid WHERE v.x MATCH ? AND k = 20 ORDER BY distance", (q,)).fetchall()
    assert got == [(f"note {r}",) for (r,) in base if r < 100000]
    assert "no query solution" in refused(db, "SELECT rowid FROM t WHERE k = 3")
    assert "k must be an integer, not 'ten'" in refused(db, "SELECT rowid FROM t WHERE x MATCH ? AND k = 'ten'", q)
    assert "not with a number" in refused(db, "SELECT rowid FROM t WHERE x MATCH ? AND k = 3 AND distance < 'a'", q)


def test_several_columns(db):
    db.execute("SELECT gx_config('tile_bytes', 4096)")
    db.execute("CREATE VIRTUAL TABLE t USING gx_vectors(a f32[4], b f32[2] distance_metric=l1, tag TEXT)")
    G = np.random.default_rng(2)
    A, B = G.standard_normal((600, 4)).astype("<f4"), G.standard_normal((600, 2)).astype("<f4")
    db.executemany("INSERT INTO t(rowid, a, b, tag) VALUES (?, ?, ?, ?)", [(i, A[i].tobytes(), B[i].tobytes(), "x") for i in range(600)])
    for i in range(0, 600, 7):  # one of the two alone: the other one moves with it
        A[i] = G.standard_normal(4)
        db.execute("UPDATE t SET a = ? WHERE rowid = ?", (A[i].tobytes(), i))
    assert db.execute("SELECT a, b FROM t ORDER BY rowid").fetchall() == [(a.tobytes(), b.tobytes()) for a, b in zip(A, B)]
    d = np.abs(B.astype("f8") - [1, 1]).sum(axis=1)
    assert [r for (r,) in db.execute("SELECT rowid FROM t WHERE b MATCH '[1,1]' AND k = 5")] == list(np.argsort(d)[:5])
    assert "no query solution" in refused(db, "SELECT rowid FROM t WHERE b MATCH '[1,1]' AND a MATCH '[1,1,1,1]' AND k = 5")
    assert "say which, as in 't.a'" in refused(db, "SELECT gx_norm('t')")
    db.execute("SELECT gx_settle('t')")
    check_shadows(db, "t", ["t_a", "t_b"])
    assert db.execute("SELECT round(gx_norm('t.b'), 9)").fetchone()[0] == pytest.approx(np.linalg.norm(B.astype("f8")))


# As a matrix ---------------------------------------------------------------------------------------------------------


def test_as_a_matrix(db):
    db.execute("CREATE VIRTUAL TABLE t USING gx_vectors(x f32[3], metric=cosine)")
    assert "t has no rows" in refused(db, "SELECT gx_json('t')")
    db.execute("INSERT INTO t(rowid, x) VALUES (5, '[1,2,3]'), (7, '[4,5,6]'), (9, '[7,8,10]')")
    assert "gx_settle('t') makes them one" in refused(db, "SELECT gx_json('t')")
    assert db.execute("SELECT id, round(score, 9) FROM gx_knn('[1,2,3]', 't', 2)").fetchall() == [(5, 1.0), (7, 0.974631846)]
    assert db.execute("SELECT id FROM gx_knn('[0,0,0]', 't', 1, '{\"metric\":\"l2\"}')").fetchall() == [(5,)]
    assert "is a vector table" in refused(db, "SELECT * FROM gx_knn('[1,2,3]', 't', 2, '{\"candidates\":[1]}')")
    assert db.execute("SELECT gx_settle('t')").fetchone() == ("t",)
    assert db.execute("SELECT gx_json('t'), gx_json(gx_eval('mean(t, 0)'))").fetchone() == ("[[1.0,2.0,3.0],[4.0,5.0,6.0],[7.0,8.0,10.0]]", "[[4.0,5.0,6.3333335]]")
    db.execute("DELETE FROM t WHERE rowid = 5")
    assert "(1 deleted)" in refused(db, "SELECT gx_norm('t')")
    assert db.execute("SELECT id FROM gx_knn('[1,2,3]', 't', 5)").fetchall() == [(7,), (9,)]
    db.execute("SELECT gx_settle('t')")
    assert db.execute("SELECT rows FROM gx WHERE name = 't_x'").fetchone() == (2,)
    db.execute("DELETE FROM t")
    db.execute("SELECT gx_settle('t')")
    assert db.execute("SELECT count(*) FROM gx").fetchone() == (0,)
    assert "no matrix named 't'" in refused(db, "SELECT gx_set('t', 0, 0, 1)")  # what writes does not take the name
    assert "no vector table named 'nothing'" in refused(db, "SELECT gx_settle('nothing')")


# Transactions --------------------------------------------------------------------------------------------------------


def test_a_trigger_keeps_it(db):
    db.execute("CREATE TABLE note(id INTEGER PRIMARY KEY, tag, e)")
    db.execute("CREATE VIRTUAL TABLE v USING gx_vectors(e f32[2], tag TEXT)")
    db.execute("CREATE TRIGGER a AFTER INSERT ON note BEGIN INSERT INTO v(rowid, e, tag) VALUES (new.id, new.e, new.tag); END")
    db.execute("CREATE TRIGGER d AFTER DELETE ON note BEGIN DELETE FROM v WHERE rowid = old.id; END")
    db.execute("CREATE TRIGGER u AFTER UPDATE ON note BEGIN UPDATE v SET e = new.e, tag = new.tag WHERE rowid = old.id; END")
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("INSERT INTO note VALUES (1, 'a', '[1,2]'), (2, 'b', '[3,4]'), (3, 'c', '[5,6]')")
    with pytest.raises(sqlite3.Error, match="e has 1 numbers"):
        db.execute("INSERT INTO note VALUES (4, 'a', '[1,2]'), (5, 'b', '[3]')")
    db.execute("DELETE FROM note WHERE id = 1")
    db.execute("UPDATE note SET e = '[9,9]' WHERE id = 2")
    assert db.execute("SELECT rowid, e, tag FROM v").fetchall() == [(2, blob([9, 9]), "b"), (3, blob([5, 6]), "c")]


def test_failed_statements(db):
    db.execute("SELECT gx_config('tile_bytes', 4096)")
    db.execute("CREATE VIRTUAL TABLE v USING gx_vectors(x f32[4], tag TEXT)")
    db.execute("CREATE TABLE s(id, x)")
    db.executemany("INSERT INTO s VALUES (?, ?)", [(i, blob([i] * 4) if i != 2900 else b"short") for i in range(3000)])
    for begin in (False, True):
        if begin:
            db.execute("BEGIN")
            db.execute("INSERT INTO v(rowid, x) VALUES (5000, '[1,1,1,1]')")
        with pytest.raises(sqlite3.Error, match="row 2900: x is a blob of 5 bytes"):
            db.execute("INSERT INTO v(rowid, x) SELECT id, x FROM s")
        assert db.execute("SELECT count(*) FROM v").fetchone() == (int(begin),)
    db.execute("COMMIT")
    assert db.execute("SELECT rowid FROM v").fetchall() == [(5000,)]
    db.execute("INSERT OR IGNORE INTO v(rowid, x) SELECT id, x FROM s WHERE id < 2900")
    db.execute("BEGIN")
    db.execute("SAVEPOINT a")
    db.execute("DELETE FROM v WHERE rowid % 2")
    db.execute("SELECT gx_settle('v')")
    db.execute("ROLLBACK TO a")
    assert db.execute("SELECT count(*) FROM v").fetchone() == (2901,)
    db.execute("CREATE VIRTUAL TABLE w USING gx_vectors(x f32[4])")  # begun without xBegin
    db.execute("INSERT INTO w(rowid, x) SELECT id, x FROM s WHERE id < 2900")
    db.execute("SAVEPOINT b")
    db.execute("INSERT INTO w(rowid, x) VALUES (7000, '[1,1,1,1]')")
    db.execute("ROLLBACK TO b")
    db.execute("COMMIT")
    assert db.execute("SELECT count(*) FROM w").fetchone() == (2900,)
    check_shadows(db, "v", ["v_x"])
    check_shadows(db, "w", ["w_x"])


def test_a_reader_of_an_old_snapshot(tmp_path):
    path = str(tmp_path / "w.db")
    a, b = gx_connect(path, journal_mode="wal"), gx_connect(path)
    a.execute("SELECT gx_config('tile_bytes', 4096)")
    a.execute("CREATE VIRTUAL TABLE v USING gx_vectors(x f32[4])")
    a.executemany("INSERT INTO v(rowid, x) VALUES (?, ?)", [(i, blob([i] * 4)) for i in range(700)])
    b.execute("BEGIN")
    old = b.execute("SELECT rowid, distance FROM v WHERE x MATCH '[0,0,0,0]' AND k = 5").fetchall()
    a.execute("DELETE FROM v WHERE rowid < 100")
    a.execute("SELECT gx_settle('v')")
    a.executemany("INSERT INTO v(rowid, x) VALUES (?, ?)", [(1000 + i, blob([0.5] * 4)) for i in range(300)])
    assert b.execute("SELECT rowid, distance FROM v WHERE x MATCH '[0,0,0,0]' AND k = 5").fetchall() == old
    assert b.execute("SELECT count(*), min(rowid) FROM v").fetchone() == (700, 0)
    b.execute("COMMIT")
    assert b.execute("SELECT rowid FROM v WHERE x MATCH '[0,0,0,0]' AND k = 2").fetchall() == [(1000,), (1001,)]
    a.execute("UPDATE v SET x = '[0,0,0,0]' WHERE rowid = 555")  # and what b keeps of new rows is old
    assert b.execute("SELECT rowid FROM v WHERE x MATCH '[0,0,0,0]' AND k = 1").fetchall() == [(555,)]


WRITER = """
import os, sys
sys.path.insert(0, os.path.dirname(sys.argv[0]) or ".")
from conftest import gx_connect
import numpy as np
db = gx_connect(sys.argv[1])
db.execute("SELECT gx_config('tile_bytes', 4096)")
n = db.execute("SELECT coalesce(max(rowid), 0) FROM v").fetchone()[0]
print("begun", flush=True)
while True:
    db.execute("BEGIN")
    for i in range(n + 1, n + 200):
        db.execute("INSERT INTO v(rowid, x, n) VALUES (?, ?, ?)", (i, np.full(4, i, "<f4").tobytes(), i))
    db.execute("UPDATE v SET x = x WHERE rowid % 5 = 0 AND rowid > ?", (n - 300,))
    db.execute("DELETE FROM v WHERE rowid < ?", (n - 900,))
    if n % 3 == 0:
        db.execute("SELECT gx_settle('v')")
    db.execute("COMMIT")
    n += 199
"""


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_killed(tmp_path, journal):
    path, script = str(tmp_path / "k.db"), tmp_path / "writer.py"
    script.write_text(WRITER)
    made = f"CREATE VIRTUAL TABLE v USING gx_vectors(x f32[4], n INTEGER{', index=ivf' * (journal == 'wal')})"
    gx_connect(path, journal_mode=journal).execute(made).connection.close()
    env, pause = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.abspath(__file__))), random.Random(journal)
    for _ in range(KILLS):
        process = subprocess.Popen([sys.executable, str(script), path], stdout=subprocess.PIPE, env=env)
        assert process.stdout.readline() == b"begun\n"
        time.sleep(pause.random() * 0.3)
        process.kill()
        process.wait()
        db = gx_connect(path)
        rows = db.execute("SELECT rowid, x, n FROM v ORDER BY rowid").fetchall()
        assert all(x == np.full(4, i, "<f4").tobytes() and n == i for i, x, n in rows)
        ids = [i for i, _, _ in rows]
        assert ids == list(range(ids[0], ids[0] + len(ids))) if ids else True
        assert not ids or ids[-1] % 199 == 0  # whole transactions
        check_shadows(db, "v", ["v_x"])
        if ids:
            assert db.execute("SELECT rowid FROM v WHERE x MATCH ? AND k = 1", (blob([ids[-1]] * 4),)).fetchone() == (ids[-1],)
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'v_list'").fetchone():
            tables_agree(db)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        db.close()


def test_dump_and_backup(tmp_path):
    db = gx_connect(str(tmp_path / "a.db"))
    db.execute("CREATE VIRTUAL TABLE v USING gx_vectors(x f32[2], tag TEXT)")
    db.executemany("INSERT INTO v(rowid, x, tag) VALUES (?, ?, ?)", [(i, blob([i, 1]), str(i)) for i in range(50)])
    db.execute("SELECT gx_settle('v')")
    db.execute("DELETE FROM v WHERE rowid < 10")
    db.execute("INSERT INTO v(rowid, x) VALUES (99, '[99,1]')")
    want = db.execute("SELECT rowid, x, tag FROM v").fetchall()
    copy = gx_connect(str(tmp_path / "b.db"))
    db.backup(copy)
    db.execute("VACUUM INTO ?", (str(tmp_path / "c.db"),))
    for other in (copy, gx_connect(str(tmp_path / "c.db"))):
        assert other.execute("SELECT rowid, x, tag FROM v").fetchall() == want
        assert other.execute("SELECT rowid FROM v WHERE x MATCH '[60,1]' AND k = 1").fetchall() == [(49,)]


# Forged tables -------------------------------------------------------------------------------------------------------

FORGERIES = [
    "UPDATE v_row SET gx_pos = 100000 WHERE rowid = 5", "UPDATE v_row SET gx_pos = -77 WHERE rowid = 5", "UPDATE v_row SET gx_pos = 'abc' WHERE rowid = 5",
    "UPDATE v_row SET gx_pos = 9223372036854775807 WHERE rowid = 5", "UPDATE v_row SET gx_pos = -9223372036854775808 WHERE rowid = 5",
    "UPDATE v_new SET v0 = x'00'", "UPDATE v_new SET v0 = NULL", "UPDATE v_new SET v0 = 'text'", "UPDATE v_new SET id = 4711", "DELETE FROM v_new",
    "UPDATE v_new SET slot = slot + 9223372036854770000", "UPDATE v_new SET slot = -slot", "INSERT INTO v_new VALUES (9223372036854775807, 5, zeroblob(16))",
    "DELETE FROM v_row WHERE rowid % 2", "INSERT INTO v_dead VALUES (-5), (100000000), (3)", "INSERT INTO v_dead SELECT gx_pos FROM v_row WHERE gx_pos >= 0",
    "DROP TABLE v_new", "DROP TABLE v_dead", "DROP TABLE v_row", "ALTER TABLE v_row DROP COLUMN tag", "UPDATE gx SET name = 'other' WHERE name = 'v_x'",
    "DELETE FROM gx WHERE name = 'v_x'", "SELECT gx_store('v_x', gx_zeros(3, 3), '{\"replace\":true}')", "SELECT gx_store('v_x', gx_zeros(3, 4), '{\"replace\":true,\"dtype\":\"f32\"}')",
    "UPDATE gx_meta SET rows = 1000000 WHERE name = 'v_x'", "UPDATE gx_meta SET tile_rows = 1 WHERE name = 'v_x'", "DELETE FROM gx_tile",
    "UPDATE gx_tile SET data = zeroblob(7)", "INSERT INTO v_row(rowid, gx_pos) VALUES (5555, -1)", "DROP TABLE gx_tile", "DROP TABLE gx_state",
    "UPDATE v_new SET v0 = x'0000c07f0000c07f0000c07f0000c07f'",
]


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged(tmp_path, forgery):
    """Each statement either works or says in words what is wrong; after DROP TABLE nothing is left of it."""
    db = gx_connect(str(tmp_path / "f.db"))
    db.execute("SELECT gx_config('tile_bytes', 4096)")
    db.execute("CREATE VIRTUAL TABLE v USING gx_vectors(x f32[4], tag TEXT)")
    db.executemany("INSERT INTO v(rowid, x, tag) VALUES (?, ?, 'a')", [(i, blob([i] * 4)) for i in range(300)])
    db.close()
    db = gx_connect(str(tmp_path / "f.db"))
    try:
        db.execute(forgery)
    except sqlite3.Error as error:  # DROP COLUMN is newer than the oldest SQLite
        pytest.skip(str(error))
    statements = ["SELECT * FROM v", "SELECT x FROM v WHERE rowid = 5", "SELECT rowid, x FROM v WHERE x MATCH '[5,5,5,5]' AND k = 3",
                  "SELECT rowid FROM v WHERE x MATCH '[5,5,5,5]' AND k = 300", "SELECT rowid FROM v WHERE x MATCH '[5,5,5,5]' AND k = 3 AND tag = 'a'",
                  "SELECT * FROM gx_knn('[1,1,1,1]', 'v', 3)", "INSERT INTO v(rowid, x) VALUES (100000, '[1,2,3,4]')", "UPDATE v SET x = '[1,1,1,1]' WHERE rowid = 5",
                  "UPDATE v SET tag = 'b' WHERE rowid = 5", "DELETE FROM v WHERE rowid = 5", "SELECT gx_settle('v')", "PRAGMA integrity_check",
                  "INSERT INTO v(x) SELECT x FROM v", "ALTER TABLE v RENAME TO w", "ALTER TABLE w RENAME TO v", "SELECT gx_settle('v')"]
    for statement in statements:
        try:
            db.execute(statement).fetchall()
        except sqlite3.Error as error:
            assert len(str(error)) > 5 and "\n" not in str(error)
    db.close()


def test_forged_declarations(tmp_path):
    """A file may bring any text in the place of the one that made the table."""
    db = gx_connect(str(tmp_path / "f.db"))
    db.execute("CREATE VIRTUAL TABLE v USING gx_vectors(x f32[4], tag TEXT)")
    db.executemany("INSERT INTO v(rowid, x, tag) VALUES (?, ?, 'a')", [(i, blob([i] * 4)) for i in range(300)])
    db.execute("SELECT gx_settle('v')")
    for text in ("x f32[5], tag TEXT", "x f64[4], tag TEXT", "x bit[8], tag TEXT", "x f32[4], other TEXT", "y f32[4]", "x f32[4], y f32[4]", "nothing"):
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'v'", (f"CREATE VIRTUAL TABLE v USING gx_vectors({text})",))
        db.close()
        db = gx_connect(str(tmp_path / "f.db"))
        for statement in ("SELECT * FROM v", "SELECT rowid FROM v WHERE x MATCH '[1,2,3,4]' AND k = 3", "INSERT INTO v(x) VALUES ('[1,2,3,4]')",
                          "SELECT gx_norm('v')", "SELECT gx_settle('v')"):
            try:
                db.execute(statement).fetchall()
            except sqlite3.Error as error:
                assert len(str(error)) > 5 and "\n" not in str(error)
    db.close()


def test_memory(tmp_path):
    """With the least memory that gx takes rows still come, settle and are found."""
    db = gx_connect(str(tmp_path / "m.db"))
    db.execute("SELECT gx_config('tile_bytes', 65536), gx_config('memory_limit', 2000000)")
    db.execute("CREATE VIRTUAL TABLE v USING gx_vectors(x f32[64])")
    X = np.random.default_rng(1).standard_normal((6000, 64)).astype("<f4")
    db.execute("BEGIN")
    db.executemany("INSERT INTO v(rowid, x) VALUES (?, ?)", enumerate(x.tobytes() for x in X))
    db.execute("COMMIT")
    db.execute("DELETE FROM v WHERE rowid % 2")
    db.execute("SELECT gx_settle('v')")
    assert db.execute("SELECT rowid FROM v WHERE x MATCH ? AND k = 1", (X[4000].tobytes(),)).fetchall() == [(4000,)]
    check_shadows(db, "v", ["v_x"])


@pytest.mark.parametrize("limit", [270000, 450000, 900000, 1300000, 2000000])
def test_memory_of_two_columns(tmp_path, limit):
    """What does not fit settles in no column, or in both."""
    db = gx_connect(str(tmp_path / "m.db"))
    db.execute("SELECT gx_config('tile_bytes', 65536), gx_config('memory_limit', ?)", (limit,))
    db.execute("CREATE VIRTUAL TABLE v USING gx_vectors(a i8[64], x f64[64])")
    X = np.random.default_rng(1).integers(-9, 9, (1500, 64))
    db.execute("BEGIN")
    for i, x in enumerate(X):
        db.execute("INSERT INTO v(rowid, a, x) VALUES (?, ?, ?)", (i, x.astype("|i1").tobytes(), x.astype("<f8").tobytes()))
    db.execute("COMMIT")
    check_shadows(db, "v", ["v_a", "v_x"])
    db.execute("SELECT gx_config('memory_limit', '1GB')")
    assert db.execute("SELECT a, x FROM v ORDER BY rowid").fetchall() == [(x.astype("|i1").tobytes(), x.astype("<f8").tobytes()) for x in X]
