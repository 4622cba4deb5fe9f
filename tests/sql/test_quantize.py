"""Quantised matrices, and searches that they filter.

Plan:
1. codes of 8, 4 and 1 bits: each row is its scale times whole numbers; what it is off is within the residual that stands in the table,
   in exact arithmetic; rows of zeros, of numbers of many orders, of dtypes f64 f32 f16 i32, columns that leave codes of a byte unused;
2. a quantised matrix is a matrix: norm, product, cells, JSON, part of a block and of a lazy one, copy, gx_eval, gx_check, rename, drop,
   replace, backup, dump; what it is made of is told by name, and whether that has changed; it is not written to;
3. gx_knn with a filter: rows and bits of the search without, for metrics, numbers of queries, k from 1 to more than there are,
   dtypes; random, clustered, tied, repeated, and zero rows, rows of many orders; rows in an order that is the worst; one's own row
   left out; every memory limit and number of threads, both backends; conditions of the statement; fewer rows of E are read;
4. of one bit: approximate; all rows scored is the exact answer; recall of 20 k rows scored;
5. a filter that is stale, of another matrix, of a copy, of a value: refused in words; so are other metrics and candidates;
6. what can be forged in the tables: facts that are NaN, negative, infinite; auxiliary data that is none; sizes; refused in words;
7. refusals of gx_quantize and gx_dequantize; an older gx is told by the format's number;
8. inside BEGIN, rolled back; an interrupt.
"""
import fractions
import json
import sqlite3
import threading
import time

import numpy as np
import pytest
from conftest import error, from_numpy, gx_connect, q, to_numpy

KINDS = {"i8": 8, "i4": 4, "bit": 1}


def store(db, name, array, **options):
    return q(db, "SELECT gx_store(?, ?, ?)", name, from_numpy(array), json.dumps({"replace": True, **options}))


def quantize(db, name, kind, to):
    return q(db, "SELECT gx_quantize(?, ?, ?, '{\"replace\":true}')", name, kind, to)


def knn(db, Q, E, k, **options):
    Q = Q if isinstance(Q, str) else from_numpy(Q)
    return db.execute("SELECT query, rank, id, score FROM gx_knn(?, ?, ?, ?)", (Q, E, k, json.dumps(options))).fetchall()


def raw(db, name):
    """Codes and facts as they lie in the tables: bytes, and scale, residual and norm of each row."""
    rows, cols, tile_rows, key = db.execute("SELECT rows, cols, tile_rows, id FROM gx_meta WHERE name = ?", (name,)).fetchone()
    tiles = [t for t, in db.execute("SELECT data FROM gx_tile WHERE id >> 32 = ? ORDER BY id", (key,))]
    heights = [min(tile_rows, rows - i) for i in range(0, rows, tile_rows)]
    whole = np.vstack([np.frombuffer(t, "u1").reshape(cols, h).T for t, h in zip(tiles, heights)])
    return whole[:, 12:], np.ascontiguousarray(whole[:, :12]).view("<f4")


def codes_of(stored, bits, cols):
    if bits == 8:
        return stored.view("i1")[:, :cols].astype(int)
    if bits == 4:
        return (np.stack([stored & 15, stored >> 4], axis=2).reshape(len(stored), -1).astype(int) - 8)[:, :cols]
    return np.unpackbits(stored, axis=1, bitorder="little")[:, :cols].astype(int) * 2 - 1


# 1. Codes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i4"])
def test_residuals_bound_what_codes_are_off(db, kind, dtype):
    rng = np.random.default_rng(5)
    A = rng.standard_normal((37, 13)) * 100
    A[3] = 0
    A[4] = 1e-3 * A[4]
    A[5, 1:] = 0
    if dtype in ("f8", "f4"):
        A[6] *= 1e25
        A[7] *= 1e-25
        A[8] *= 10.0 ** rng.integers(-9, 9, 13)
    A = A.astype(dtype)
    store(db, "A", A, dtype={"f8": "f64", "f4": "f32", "f2": "f16", "i4": "i32"}[dtype])
    assert quantize(db, "A", kind, "Q") == "Q"
    stored, facts = raw(db, "Q")
    codes, got = codes_of(stored, KINDS[kind], 13), to_numpy(q(db, "SELECT gx_dequantize('Q')"))
    assert got.dtype == np.dtype("f4") and np.abs(codes).max() <= {8: 127, 4: 7, 1: 1}[KINDS[kind]]
    for i in range(len(A)):
        scale, residual, norm = (fractions.Fraction(float(x)) for x in facts[i])
        x = [fractions.Fraction(float(v)) for v in A[i]]
        off = [v - int(c) * scale for v, c in zip(x, codes[i])]
        assert [fractions.Fraction(float(v)) for v in got[i]] == [int(c) * scale for c in codes[i]]
        assert sum(v * v for v in off) <= residual * residual
        assert residual * residual <= sum(v * v for v in off) * fractions.Fraction(1001, 1000) + fractions.Fraction(1, 2**200)
        assert abs(norm * norm - sum(v * v for v in x)) <= norm * norm / 2**22
        if kind != "bit":
            assert all(abs(v) <= scale / 2 for v in off)


def test_numbers_that_have_codes_come_back(db):
    A = np.array([[127, -127, 5, 0], [-7, 3, 7, 1], [0, 0, 0, 0]], "f8") / 8
    store(db, "A", A)
    assert quantize(db, "A", "i8", "Q") == "Q"
    assert np.array_equal(to_numpy(q(db, "SELECT gx_copy('Q')"))[::2], A[::2])
    quantize(db, "A", "i4", "Q")
    assert np.array_equal(to_numpy(q(db, "SELECT gx_copy('Q')"))[1:], A[1:])
    store(db, "A", np.sign(A + 1e-9))
    quantize(db, "A", "bit", "Q")
    assert np.array_equal(to_numpy(q(db, "SELECT gx_copy('Q')"))[0], np.sign(A[0] + 1e-9))


# 2. A matrix


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_a_matrix_to_everybody(filedb, kind, tmp_path):
    db, rng = filedb, np.random.default_rng(1)
    A = rng.standard_normal((70, 21))
    store(db, "A", A)
    q(db, "SELECT gx_config('tile_bytes', 4096)")
    quantize(db, "A", kind, "Q")
    D = to_numpy(q(db, "SELECT gx_dequantize('Q', '{\"dtype\":\"f64\"}')"))
    assert D.dtype == np.dtype("f8") and D.shape == A.shape
    assert 0 < np.linalg.norm(D - A) < np.linalg.norm(A) * {"i8": 0.01, "i4": 0.15, "bit": 0.7}[kind]
    assert q(db, "SELECT gx_norm('Q')") == pytest.approx(np.linalg.norm(D), rel=1e-6)
    product = to_numpy(q(db, "SELECT gx_matmul('Q', 'A', '{\"transa\":true}')"))
    assert np.allclose(product, D.T @ A)
    assert np.array_equal(np.array(json.loads(q(db, "SELECT gx_json('Q')")), "f4"), D) and q(db, "SELECT gx_shape('Q')") == "[70,21]"
    cells = db.execute("SELECT i, j, value FROM gx_cells('Q') WHERE i = 41 AND j > 17").fetchall()
    assert cells == [(41, j, D[41, j]) for j in range(18, 21)]
    assert np.allclose(to_numpy(q(db, "SELECT gx_eval('Q.T @ Q + 1')")), D.T @ D + 1, rtol=1e-5, atol=1e-4)
    q(db, "SELECT gx_block('B', '[[\"Q\",\"A\"]]')")
    q(db, "SELECT gx_lazy('L', '2 * Q.T @ Q + eye(21)')")
    assert np.allclose(to_numpy(q(db, "SELECT gx_copy('B')")), np.hstack([D, A]), rtol=1e-6)
    assert np.allclose(to_numpy(q(db, "SELECT gx_copy('L')")), 2 * D.T @ D + np.eye(21), rtol=1e-5, atol=1e-4)
    y = to_numpy(q(db, "SELECT gx_solve('L', '%s')" % json.dumps(list(range(21)))))
    assert np.allclose((2 * D.T @ D + np.eye(21)) @ y[:, 0], np.arange(21), atol=1e-3)
    q(db, "SELECT gx_copy('Q', 'C')")
    assert db.execute("SELECT name, rows, cols, dtype, format FROM gx WHERE name IN ('C', 'Q') ORDER BY name").fetchall() == [
        ("C", 70, 21, "f32", "dense"), ("Q", 70, 21, "i8", "quantized")]
    info = json.loads(q(db, "SELECT gx_info('Q')"))
    assert (info["format"], info["bits"], info["of"], info["is_current"]) == ("quantized", KINDS[kind], "A", True)
    assert q(db, "SELECT gx_check()") == "ok"
    # Names, copies of the database.
    q(db, "SELECT gx_rename('A', 'A2')")
    q(db, "SELECT gx_rename('Q', 'Q2')")
    assert json.loads(q(db, "SELECT gx_info('Q2')"))["of"] == "A2"
    assert q(db, "SELECT gx_norm('B')") > 0
    q(db, "SELECT gx_backup(?)", str(tmp_path / "copy.db"))
    again = gx_connect(str(tmp_path / "again.db"))
    again.executescript("\n".join(line for line in db.iterdump()
                                  if not line.startswith(("CREATE VIRTUAL", "INSERT INTO sqlite_master", "INSERT INTO \"sqlite_master",
                                                          "PRAGMA writable"))))
    for other in (gx_connect(str(tmp_path / "copy.db")), again):
        assert np.array_equal(to_numpy(q(other, "SELECT gx_dequantize('Q2')")), D.astype("f4"))
        assert knn(other, A[:2], "A2", 3, filter="Q2", metric="l2") == knn(db, A[:2], "A2", 3, metric="l2")
    # It is not written to, and goes as others do.
    assert "Q2 is quantised, and its elements are those of another matrix" in error(db, "SELECT gx_set('Q2', 0, 0, 1)")
    db.execute("CREATE VIRTUAL TABLE temp.cells USING gx_cells('main.Q2')")
    assert "is quantised" in error(db, "UPDATE temp.cells SET value = 1")
    assert "a value has no properties" in error(db, "SELECT gx_set_property('Q2', 'lower')")
    q(db, "SELECT gx_drop('A2')")
    assert json.loads(q(db, "SELECT gx_info('Q2')"))["of"] is None
    q(db, "SELECT gx_drop('Q2')")
    assert q(db, "SELECT count(*) FROM gx WHERE name = 'Q2'") == 0
    db.execute("DROP TABLE temp.cells")


# 3. Searches


def scenes():
    rng = np.random.default_rng(11)
    n, d = 900, 24
    clusters = rng.standard_normal((9, d))[rng.integers(0, 9, n)] + 0.02 * rng.standard_normal((n, d))
    tied = np.repeat(rng.integers(-2, 3, (n // 30, d)), 30, axis=0)
    zeros = rng.standard_normal((n, d)) * (rng.random((n, 1)) < 0.3)
    orders = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-12, 13, (n, 1))
    one = rng.standard_normal((1, d))
    nearly = one + 1e-6 * rng.standard_normal((n, d))  # no code tells them apart
    rising = np.linspace(1, 2, n)[:, None] * np.ones((n, d))  # each row is better than all before it
    far = 1e3 + rng.standard_normal((n, d))
    return {"random": rng.standard_normal((n, d)), "clusters": clusters, "tied": tied, "zeros": zeros, "orders": orders,
            "equal": np.repeat(one, n, axis=0), "nearly": nearly, "rising": rising, "far": far,
            "extreme": rng.standard_normal((n, d)) * np.where(rng.random((n, 1)) < 0.02, 1e-25, 1)}


@pytest.mark.parametrize("scene", scenes())
@pytest.mark.parametrize("kind", ["i8", "i4"])
def test_the_same_rows_and_bits(db, scene, kind):
    E, rng = scenes()[scene], np.random.default_rng(2)
    for dtype in ("f4", "f8"):
        store(db, "E", E.astype(dtype))
        quantize(db, "E", kind, "Q")
        for n in (1, 3, 40):
            queries = np.vstack([E[rng.integers(0, len(E), n // 2)], rng.standard_normal((n - n // 2, E.shape[1]))]).astype(dtype)
            queries[-1] = queries[-1] if n > 1 else E[7]
            for metric in ("cosine", "dot", "l2", "sqeuclidean"):
                for k in (1, 10, 70) if n == 3 else (10,):
                    assert knn(db, queries, "E", k, metric=metric, filter="Q") == knn(db, queries, "E", k, metric=metric)
        zeros = np.zeros((2, E.shape[1]))
        assert knn(db, zeros, "E", 5, filter="Q") == knn(db, zeros, "E", 5)


@pytest.mark.parametrize("kind", ["i8", "i4"])
def test_settings_conditions_and_shapes(filedb, kind):
    db, rng = filedb, np.random.default_rng(3)
    E = rng.standard_normal((1500, 33)).astype("f4")
    q(db, "SELECT gx_config('tile_bytes', 65536)")
    store(db, "E", E)
    quantize(db, "E", kind, "Q")
    queries = rng.standard_normal((150, 33)).astype("f4")
    full = {m: knn(db, queries, "E", 7, metric=m) for m in ("dot", "l2")}
    alone = knn(db, E, "E", 3, exclude_self=True, metric="l2")
    for threads, memory, backend in ((1, "1GB", "cpu"), (2, "400kB", "cpu"), (2, "1GB", "reference"), (1, "400kB", "cpu")):
        for key, value in (("threads", threads), ("memory_limit", memory), ("backend", backend)):
            q(db, "SELECT gx_config(?, ?)", key, value)
        for metric in full:
            assert knn(db, queries, "E", 7, metric=metric, filter="Q") == full[metric]
        if backend == "cpu":
            assert knn(db, "E", "E", 3, exclude_self=True, metric="l2", filter="Q") == alone
    for key, value in (("memory_limit", "1GB"), ("backend", "auto")):
        q(db, "SELECT gx_config(?, ?)", key, value)
    assert knn(db, queries[:2], "E", 5000, filter="Q") == knn(db, queries[:2], "E", 5000)
    assert knn(db, queries[:2], "E", 0, filter="Q") == []
    some = "SELECT query, rank, id, score FROM gx_knn(?, 'E', 9, ?) WHERE query = 4 AND rank < 3"
    assert db.execute(some, (from_numpy(queries), '{"filter":"Q"}')).fetchall() == db.execute(some, (from_numpy(queries), "{}")).fetchall()
    for shape in ((1, 1), (2, 9), (200, 1), (17, 5)):
        small = rng.standard_normal(shape)
        store(db, "S", small)
        quantize(db, "S", kind, "T")
        assert knn(db, small, "S", 3, filter="T") == knn(db, small, "S", 3)
    q(db, "SELECT gx_cast('E', 'f16', 'W')")
    quantize(db, "W", kind, "V")
    assert knn(db, queries, "W", 5, filter="V") == knn(db, queries, "W", 5)


def counter(db, name):
    return q(db, "SELECT value FROM gx_stats WHERE name = ?", name)


def test_fewer_bytes_are_read(filedb):
    db, rng = filedb, np.random.default_rng(4)
    E = rng.standard_normal((20000, 64)).astype("f4")
    q(db, "SELECT gx_config('memory_limit', '64MB')")  # nothing is kept
    store(db, "E", E)
    quantize(db, "E", "i8", "Q")
    read = {}
    for options in ({}, {"filter": "Q"}):
        before = counter(db, "bytes_read")
        rows = knn(db, E[:1], "E", 3, **options)
        read[len(options)] = counter(db, "bytes_read") - before
        assert rows[0][2] == 0
    assert E.nbytes <= read[0] and read[1] < read[0] * 0.6
    notes = [row[0] for row in db.execute("SELECT meaning FROM gx_stats WHERE name = 'note'")]
    assert any(note.startswith("neighbours: ") and note.endswith(" rows scored for 1 queries") for note in notes)
    # Rows that no code tells apart are all looked at, and that is told.
    store(db, "E", np.ones((20000, 64), "f4"))
    quantize(db, "E", "i8", "Q")
    assert [row[2] for row in knn(db, E[:1], "E", 3, filter="Q")] == [0, 1, 2]
    assert any("cannot tell rows apart" in row[0] for row in db.execute("SELECT meaning FROM gx_stats WHERE name = 'note'"))


# 4. One bit


def test_one_bit_is_approximate_and_all_rows_are_exact(db):
    rng = np.random.default_rng(6)
    n, d = 4000, 96
    E = (rng.standard_normal((200, d))[rng.integers(0, 200, n)] + 0.5 * rng.standard_normal((n, d))).astype("f4")
    store(db, "E", E)
    quantize(db, "E", "bit", "Q")
    queries = E[:40] + 0.3 * rng.standard_normal((40, d)).astype("f4")
    for metric in ("cosine", "dot", "l2"):
        exact = knn(db, queries, "E", 10, metric=metric)
        found = knn(db, queries, "E", 10, metric=metric, filter="Q", rescore=200)
        assert len(found) == len(exact)
        ids = lambda rows: {(row[0], row[2]) for row in rows}
        assert len(ids(exact) & ids(found)) >= 0.95 * len(exact)
        scores = {(row[0], row[2]): row[3] for row in knn(db, queries, "E", n, metric=metric)}
        assert all(scores[row[0], row[2]] == row[3] for row in found)
        assert knn(db, queries[:3], "E", 10, metric=metric, filter="Q", rescore=n) == exact[:30]
        assert knn(db, queries[:3], "E", 10, metric=metric, filter="Q", rescore=10 * n) == exact[:30]


# 5. Filters that are none


def test_filters_that_do_not_fit_are_refused(db, tmp_path):
    rng = np.random.default_rng(7)
    E = rng.standard_normal((50, 6))
    store(db, "E", E)
    store(db, "F", E)
    quantize(db, "E", "i8", "Q")
    quantize(db, "E", "bit", "B")
    exact = knn(db, E[:1], "E", 3)
    assert knn(db, E[:1], "E", 3, filter="Q") == exact

    def refused(E="E", **options):
        return error(db, "SELECT * FROM gx_knn('[1,2,3,4,5,6]', ?, 2, ?)", E, json.dumps(options))

    assert refused(filter="E") == "gx_knn: filter: E is not a quantised matrix (gx_quantize makes them)"
    assert refused(E="F", filter="Q") == "gx_knn: filter: Q is not made of F, but of another matrix"
    assert "is not made of" in refused(E="[[1,2,3,4,5,6]]", filter="Q")
    assert refused(filter="nope") == "gx_knn: no matrix named 'nope'"
    for options in ({"metric": "l1"}, {"metric": "hamming"}, {"candidates": [1, 2]}):
        assert refused(filter="Q", **options) == ("gx_knn: a filter is for the metrics cosine, dot, l2 and sqeuclidean, and for all rows "
                                                  "of E, without candidates")
    assert "rescore is for codes of one bit: with Q, of 8 bits" in refused(filter="Q", rescore=5)
    assert refused(rescore=5) == "gx_knn: rescore is for searches with a filter"
    assert "rescore" in refused(filter="B", rescore=0)
    assert "has NaN at (0, 1)" in error(db, "SELECT * FROM gx_knn('[1,\"nan\",3,4,5,6]', 'E', 2, '{\"filter\":\"Q\"}')")
    assert "rows of one length" in error(db, "SELECT * FROM gx_knn('[[1,2]]', 'E', 2, '{\"filter\":\"Q\"}')")
    # A part of what is changed, however it is changed.
    stale = ("gx_knn: filter: Q is made of E as it was before it changed: gx_quantize('E', ..., 'Q', '{\"replace\":true}') makes it again")
    q(db, "SELECT gx_set('E', 0, 0, 5)")
    assert refused(filter="Q") == stale
    quantize(db, "E", "i8", "Q")
    assert knn(db, E[:1], "E", 3, filter="Q") == knn(db, E[:1], "E", 3)
    db.execute("CREATE VIRTUAL TABLE cells USING gx_cells('E')")
    db.execute("UPDATE cells SET value = 3 WHERE i = 2 AND j = 1")
    assert refused(filter="Q") == stale
    db.execute("DROP TABLE cells")
    quantize(db, "E", "i8", "Q")
    store(db, "E", E)  # another matrix of the same name
    assert "Q is " in refused(filter="Q")
    # Of a composite, a value, another database: a matrix as others are, and no filter.
    q(db, "SELECT gx_lazy('L', '2 * E')")
    db.execute("ATTACH ? AS other", (str(tmp_path / "other.db"),))
    for source, to in (("L", "Q"), ("[[1,2,3,4,5,6]]", "Q"), ("E", "other.Q"), ("Q", "Q2")):
        quantize(db, source, "i8", to)
        assert "is not made of" in refused(filter=to)
        assert "is not made of" in refused(E=source, filter=to) or source == "E"


# 6. Forged


def test_forged_tables_are_refused_in_words(db):
    rng = np.random.default_rng(8)
    E = rng.standard_normal((20, 5)).astype("f4")
    store(db, "E", E)
    quantize(db, "E", "i8", "Q")
    key, properties, aux = db.execute("SELECT id, properties, aux FROM gx_meta WHERE name = 'Q'").fetchone()
    tile = q(db, "SELECT data FROM gx_tile WHERE id >> 32 = ?", key)
    search = "SELECT count(*) FROM gx_knn('[1,2,3,4,5]', 'E', 2, '{\"filter\":\"Q\"}')"
    assert q(db, search) == 2

    def with_fact(fact, row, value):
        changed, bytes_ = bytearray(tile), np.float32(value).tobytes()
        for b in range(4):
            changed[(4 * fact + b) * 20 + row] = bytes_[b]
        db.execute("UPDATE gx_tile SET data = ? WHERE id >> 32 = ?", (bytes(changed), key))

    for fact, name in enumerate(("scale", "residual", "norm")):
        for value, shown in ((np.nan, "nan"), (-1, "-1"), (np.inf, "inf"), (2e38, "2e+38")):
            with_fact(fact, 3, value)
            assert f"the {name} of row 3 of Q is {shown}" in error(db, search).replace("-nan", "nan")
            assert f"the {name} of row 3 of Q is {shown}" in error(db, "SELECT gx_norm('Q')").replace("-nan", "nan")
    with_fact(0, 3, 1)  # a number: nobody can know
    assert q(db, search) == 2
    changed = bytearray(tile)
    changed[12 * 20:] = b"\x80" * (5 * 20)  # codes of -128
    db.execute("UPDATE gx_tile SET data = ? WHERE id >> 32 = ?", (bytes(changed), key))
    assert q(db, search) == 2 and q(db, "SELECT gx_norm('Q')") > 0
    db.execute("UPDATE gx_tile SET data = ? WHERE id >> 32 = ?", (tile, key))
    for bad in (None, b"", b"gxqz", aux[:-1], aux + b"\0", b"gxcm" + aux[4:], aux[:4] + b"\2" + aux[5:]):
        db.execute("UPDATE gx_meta SET aux = ? WHERE name = 'Q'", (bad,))
        assert "auxiliary data of Q" in error(db, search)
        known = bad is None or bad[4:5] != b"\2"
        assert "auxiliary data of Q" in (q if known else error)(db, "SELECT gx_check()")
    db.execute("UPDATE gx_meta SET aux = 7 WHERE name = 'Q'")
    assert "is not a blob" in error(db, search)
    db.execute("UPDATE gx_meta SET aux = ? WHERE name = 'Q'", (aux,))
    for bits in (1 << 10, 3 << 10, 1 << 12, 7 << 12, 1, 1 << 7, 1 << 17, 1 << 18):
        db.execute("UPDATE gx_meta SET properties = ? WHERE name = 'Q'", (properties ^ bits,))
        if properties ^ bits == properties | 1 << 10:  # ten codes of four bits, where E has five numbers
            assert "is not made of E" in error(db, search)
        elif bits == 3 << 10:  # packed bits, which stand for nothing else
            assert "is not a quantised matrix" in error(db, search)
            assert "has auxiliary data" in q(db, "SELECT gx_check()")
        else:
            assert "catalog row of Q" in error(db, "SELECT gx_norm('Q')")
            assert "catalog row of Q" in error(db, search)
    db.execute("UPDATE gx_meta SET properties = ? WHERE name = 'Q'", (properties,))
    for column, value in (("dtype", 0), ("dtype", 5), ("cols", 12), ("cols", 3), ("cols", 2**41)):
        before = q(db, f"SELECT {column} FROM gx_meta WHERE name = 'Q'")
        db.execute(f"UPDATE gx_meta SET {column} = ?, tile_cols = min(tile_cols, ?) WHERE name = 'Q'", (value, max(1, value if column == "cols" else 17)))
        assert "catalog row of Q" in error(db, search)
        db.execute(f"UPDATE gx_meta SET {column} = ?, tile_cols = 17 WHERE name = 'Q'", (before,))
    db.execute("UPDATE gx_meta SET cols = 16, tile_cols = 16 WHERE name = 'Q'")
    assert "tile" in error(db, "SELECT gx_norm('Q')") and "is not made of E" in error(db, search)
    db.execute("UPDATE gx_meta SET cols = 17, tile_cols = 17 WHERE name = 'Q'")
    db.execute("UPDATE gx_tile SET data = substr(data, 2) WHERE id >> 32 = ?", (key,))
    assert "tile 0 of Q" in error(db, search)


# 7. Refusals


def test_refusals_and_the_format(db):
    for A, text in (('[[1,"nan"]]', "A has NaN at (0, 1): only numbers have codes"),
                    ('[[1,2],["-inf",0]]', "A has Inf at (1, 0): only numbers have codes"),
                    ('[[1,"1i"]]', "A is complex (c128): only real numbers have codes"),
                    ("[[1,2],[1e200,1]]", "row 1 of A has numbers of 1e+200 and less: the largest of a row must be between 2^-100 and "
                                          "2^100, or 0"),
                    ("[[1e-200,0]]", "row 0 of A has numbers of 1e-200 and less: the largest of a row must be between 2^-100 and 2^100, "
                                     "or 0"),
                    ("[]", "A is 0x0: there is nothing to code")):
        assert error(db, "SELECT gx_quantize(?, 'i8', 'X')", A) == "gx_quantize: " + text
    assert error(db, "SELECT gx_quantize('[1]', 'i2', 'X')") == "gx_quantize: kind must be one of i8, i4, bit, not 'i2'"
    assert error(db, "SELECT gx_quantize('[1]', NULL, 'X')") == "gx_quantize: kind must be one of i8, i4, bit, not NULL"
    assert error(db, "SELECT gx_quantize('[1]', 'i8', NULL)") == "gx_quantize: a quantised matrix is stored: give it a destination"
    assert "is sparse" in error(db, "SELECT gx_quantize(gx_sparse('[[1,0]]'), 'i8', 'X')")
    assert "is of m31" in error(db, "SELECT gx_quantize(gx_cast('[[1,0]]', 'm31'), 'i8', 'X')")
    assert q(db, "SELECT count(*) FROM gx") == 0
    q(db, "SELECT gx_store('A', '[[1,2]]')")
    assert q(db, "SELECT value FROM gx_state WHERE key = 'format'") < 5
    q(db, "SELECT gx_quantize('A', 'i8', 'Q')")
    assert q(db, "SELECT value FROM gx_state WHERE key = 'format'") == 5
    assert error(db, "SELECT gx_quantize('A', 'i8', 'Q')") == "gx_quantize: matrix 'Q' already exists (use '{\"replace\":true}')"
    assert error(db, "SELECT gx_dequantize('A')") == "gx_dequantize: A is not a quantised matrix"
    assert q(db, "SELECT gx_json(gx_dequantize('Q'))") == q(db, "SELECT gx_json('Q')")
    assert q(db, "SELECT gx_dequantize('Q', 'D', '{\"dtype\":\"f16\"}')") == "D"
    q(db, "SELECT gx_quantize('A', 'bit', 'A', '{\"replace\":true}')")  # in its own place
    assert json.loads(q(db, "SELECT gx_info('A')"))["of"] is None


# 8. Transactions, interrupts


def test_rolled_back_and_interrupted(filedb):
    db, rng = filedb, np.random.default_rng(9)
    E = rng.standard_normal((3000, 200))
    store(db, "E", E)
    db.execute("BEGIN")
    quantize(db, "E", "i8", "Q")
    inside = knn(db, E[:2], "E", 3, filter="Q")
    db.execute("ROLLBACK")
    assert q(db, "SELECT count(*) FROM gx WHERE name = 'Q'") == 0
    assert inside == knn(db, E[:2], "E", 3)
    quantize(db, "E", "i8", "Q")
    q(db, "SELECT gx_config('backend', 'reference')")
    stop = threading.Timer(0.3, db.interrupt)
    stop.start()
    began = time.monotonic()
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        for _ in range(1000):
            knn(db, E, "E", 3, filter="Q")
    assert time.monotonic() - began < 60
    q(db, "SELECT gx_config('backend', 'auto')")
    assert knn(db, E[:2], "E", 3, filter="Q") == inside
