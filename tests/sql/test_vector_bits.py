"""Bits of vector tables: eight a byte where they are stored, and zeros and ones to everything else.

- searches of every kind beside NumPy, of rows that wait and rows that have settled, before and after rows went and came;
- the matrix of a column as any function sees it, nobody but the table writes it, forged catalog rows are refused.
"""
import json

import numpy as np
import pytest

from conftest import error, q, to_numpy
from krylovkit import store


def hamming(X, x):
    return (X != x).sum(axis=1)


@pytest.mark.parametrize("dims", [8, 72, 768, 2056])
def test_bits_beside_numpy(filedb, dims):
    """Rows that wait and rows that have settled, over several tiles; few different ones, so that many are equal; each way a search is made."""
    db, rng = filedb, np.random.default_rng(dims)
    pool = rng.integers(0, 2, (40, dims), dtype="u1")
    db.execute(f"SELECT gx_config('tile_bytes', 4096), gx_config('memory_limit', '64MB')").fetchall()
    db.execute(f"CREATE VIRTUAL TABLE t USING gx_vectors(e bit[{dims}], n INTEGER)")
    model = {}

    def put(ids):
        rows = {i: np.where(rng.random(dims) < 0.02, 1 - pool[i % 40], pool[i % 40]).astype("u1") for i in ids}
        db.executemany("INSERT OR REPLACE INTO t(rowid, e, n) VALUES (?, ?, ?)",
                       [(i, np.packbits(x, bitorder="little").tobytes(), i % 7) for i, x in rows.items()])
        model.update(rows)

    def look(where="", keep=lambda i: True):
        ids = np.array(sorted(i for i in model if keep(i)), int)
        X = np.array([model[i] for i in ids]).reshape(-1, dims)
        for k in (1, 10, 100):
            x = pool[rng.integers(40)] if k > 1 else rng.integers(0, 2, dims, dtype="u1")
            far = hamming(X, x)
            want = sorted(zip(far.tolist(), ids.tolist()))[:k]
            for value in (np.packbits(x, bitorder="little").tobytes(), json.dumps(x.tolist())):
                got = db.execute(f"SELECT distance, rowid FROM t WHERE e MATCH ? AND k = ? {where}", (value, k)).fetchall()
                assert got == want

    def look_everywhere():
        look()
        look("AND n < 3", lambda i: i % 7 < 3)
        look("AND rowid IN (3, 5, 900)", lambda i: i in (3, 5, 900))
        look("AND n = 9", lambda i: False)

    put(range(1, 301))
    look_everywhere()  # all wait
    db.execute("SELECT gx_settle('t')").fetchall()
    look_everywhere()
    put(range(250, 1200))
    gone = [int(i) for i in rng.choice(1199, 400, replace=False) + 1]
    db.executemany("DELETE FROM t WHERE rowid = ?", [(i,) for i in gone])
    model = {i: x for i, x in model.items() if i not in gone}
    look_everywhere()
    db.execute("SELECT gx_settle('t')").fetchall()
    look_everywhere()
    put(gone[:50])  # in the places of dead ones
    db.execute("SELECT gx_settle('t')").fetchall()
    look_everywhere()
    assert dict((i, x) for i, x in db.execute("SELECT rowid, e FROM t")) == {i: np.packbits(x, bitorder="little").tobytes() for i, x in model.items()}
    queries = rng.integers(0, 2, (30, dims), dtype="u1")
    store(db, "Q", queries.astype("f8"))
    X = np.array(list(model.values()))
    got = db.execute("SELECT query, id, CAST(round(score * ?) AS INTEGER) FROM gx_knn('Q', 't', 5)", (dims,)).fetchall()
    assert [far for _, _, far in got] == [far for j in range(30) for far in sorted(hamming(X, queries[j]).tolist())[:5]]
    assert all((model[i] != queries[j]).sum() == far for j, i, far in got)
    assert q(db, "SELECT gx_check()") == "ok"


def test_bits_as_a_matrix(filedb):
    """Eight a byte in the file, and zeros and ones to every function; nobody but the table writes them."""
    db, rng = filedb, np.random.default_rng(4)
    X = rng.integers(0, 2, (500, 96), dtype="u1")
    db.execute("CREATE VIRTUAL TABLE t USING gx_vectors(e bit[96])")
    db.executemany("INSERT INTO t(rowid, e) VALUES (?, ?)", [(i + 1, np.packbits(x, bitorder="little").tobytes()) for i, x in enumerate(X)])
    db.execute("SELECT gx_settle('t')").fetchall()
    info = json.loads(q(db, "SELECT gx_info('t_e')"))
    assert (info["format"], info["dtype"], info["rows"], info["cols"], info["bytes"]) == ("bits", "bool", 500, 96, 500 * 12)
    assert db.execute("SELECT cols, dtype, format, bytes FROM gx WHERE name = 't_e'").fetchall() == [(96, "bool", "bits", 6000)]
    assert q(db, "SELECT value FROM gx_state WHERE key = 'format'") == 7
    assert np.array_equal(to_numpy(q(db, "SELECT gx_copy('t_e')")), X)
    assert np.array_equal(to_numpy(q(db, "SELECT gx_slice('t_e', 3, 40, 10, 70)")), X[3:40, 10:70])
    assert q(db, "SELECT gx_sum('t')") == X.sum()
    assert np.array_equal(to_numpy(q(db, "SELECT gx_matmul('t_e', 't_e', '{\"transa\":true}')")), X.T.astype(float) @ X)
    assert np.array_equal(to_numpy(q(db, "SELECT gx_eval('t_e[:, 0:5] + 1')")), X[:, :5] + 1.0)
    q(db, "SELECT gx_copy('t_e', 'own')")
    assert json.loads(q(db, "SELECT gx_info('own')"))["dtype"] == "bool"
    q(db, """SELECT gx_block('M', '[["t_e"],["t_e"]]')""")
    assert q(db, "SELECT gx_sum('M')") == 2 * X.sum()
    for sql in ("SELECT gx_append('t_e', '[[1]]')", "SELECT gx_set_rows('t_e', '[0]', 'own')", "SELECT gx_delete_rows('t_e', '[0]')"):
        assert "is packed bits, which its table of vectors writes" in error(db, sql)
    for change, words in (("properties = properties | 1", "are no codes"), ("properties = properties | 4096", "are no codes"), ("dtype = 3", "are no codes"),
                          ("properties = 0", "is not one of 96 columns of packed bits"), ("cols = 11", "")):
        db.execute("SAVEPOINT s")
        db.execute(f"UPDATE gx_meta SET {change} WHERE name = 't_e'")
        assert words in error(db, "SELECT rowid FROM t WHERE e MATCH zeroblob(12) AND k = 1")
        db.execute("ROLLBACK TO s")
        db.execute("RELEASE s")
    assert q(db, "SELECT gx_check()") == "ok"
