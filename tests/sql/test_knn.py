"""gx_knn: the nearest rows.

Plan:
1. against products and differences in double precision: metrics, dtypes, shapes, k from 0 to more than there are; stored in small
   tiles, as values; rows far from the origin; equal rows and zero rows: ties by id;
2. the same rows, to the bit, for every memory limit and number of threads, and for one query at a time;
3. queries as raw f32 bytes, at odd addresses too, JSON lists, matrix values;
4. exclude_self; candidates: scores of a whole search, -1, twice the same, none, of one query as a list; few of the rows and nearly
   all, others without numbers; strips without any are not read;
5. WHERE, ORDER BY and LIMIT reach the search and change no result;
6. E is read once for all queries, in batches where these do not fit, as gx_plan foretells; queries that are one large tile are read
   by several helpers, by the caller where only its connection sees them, each byte once: the same lists as from raw bytes;
7. exact refusals: k, metrics, shapes, complex operands, NaN and Inf in either, scores that overflow,
   candidates out of range;
8. an interrupt;
9. gx_knn_graph: the lists as entries, both ways by "union" and "mutual", ones, refusals;
10. E beside itself, where each pair of rows is looked at once: the rows that a copy of E under another name gives, to the bit, with half
    of the products: metrics, dtypes, backends, threads, lists shorter and longer than a block and than E, one's own row, equal rows, rows of
    zeros, numbers of many orders; what the memory does not hold goes the other way; an interrupt; refusals.
"""
import json
import threading
import time

import numpy as np
import pytest
from conftest import error, from_numpy, gx_connect, q

METRICS = ["cosine", "dot", "l2", "sqeuclidean", "l1", "hamming"]
DISTANCES = METRICS[2:]


def scores(Q, E, metric):
    Q, E = Q.astype("f8"), E.astype("f8")
    if metric == "dot":
        return Q @ E.T
    if metric == "cosine":
        length = np.linalg.norm(Q, axis=1)[:, None] * np.linalg.norm(E, axis=1)[None]
        return np.divide(Q @ E.T, length, out=np.zeros((len(Q), len(E))), where=length > 0)
    gap = Q[:, None, :] - E[None]
    if metric == "hamming":
        return (gap != 0).sum(axis=2) / max(1, E.shape[1])
    if metric == "l1":
        return np.abs(gap).sum(axis=2)
    squares = (gap * gap).sum(axis=2)
    return np.sqrt(squares) if metric == "l2" else squares


def knn(db, Q, E, k, **options):
    return db.execute("SELECT query, rank, id, score FROM gx_knn(?, ?, ?, ?)", (Q, E, k, json.dumps(options))).fetchall()


def check(db, qform, eform, Q, E, k, metric, **options):
    rows = knn(db, qform, eform, k, metric=metric, **options)
    exact = scores(Q, E, metric)
    if options.get("exclude_self"):
        exact[np.arange(len(Q)), np.arange(len(Q))] = np.inf if metric in DISTANCES else -np.inf
    each = min(k, len(E) - bool(options.get("exclude_self")))
    assert [(r[0], r[1]) for r in rows] == [(i, rank) for i in range(len(Q)) for rank in range(each)]
    for i in range(len(Q) if each > 0 else 0):
        mine = rows[i * each:(i + 1) * each]
        ids, found = np.array([r[2] for r in mine]), np.array([r[3] for r in mine])
        best = np.sort(exact[i] if metric in DISTANCES else -exact[i])[:each]
        best = best if metric in DISTANCES else -best
        scale = max(1, np.abs(best).max())
        np.testing.assert_allclose(found, best, rtol=1e-11, atol=1e-12 * scale)
        np.testing.assert_allclose(found, exact[i][ids], rtol=1e-11, atol=1e-12 * scale)
        assert len(set(ids)) == each
        for x, y in zip(mine, mine[1:]):
            assert (x[3] > y[3]) == (metric not in DISTANCES) or x[3] == y[3]
            assert x[3] != y[3] or x[2] < y[2]


def store(db, name, a):
    db.execute("SELECT gx_store(?, ?)", (name, from_numpy(a))).fetchone()


def made(rng, shape, metric, dtype, centre=0.0):
    if metric == "hamming":
        return rng.integers(0, 2, shape).astype(dtype)
    return (rng.standard_normal(shape) + centre).astype(dtype)


# ---- 1. against double precision -------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", ["<f8", "<f4"])
@pytest.mark.parametrize("metric", METRICS)
def test_exact(db, metric, dtype):
    db.execute("SELECT gx_config('tile_bytes', 8192)")
    rng = np.random.default_rng(5)
    for queries, rows, cols in [(0, 4, 3), (2, 0, 3), (1, 1, 1), (1, 90, 7), (5, 33, 40), (20, 200, 17), (40, 500, 33), (3, 4, 0)]:
        Q, E = made(rng, (queries, cols), metric, dtype), made(rng, (rows, cols), metric, dtype)
        name = f"E{rows}x{cols}"
        store(db, name, E)
        for k in (0, 1, 3, 1000, 10**18):
            check(db, from_numpy(Q), name, Q, E, k, metric)
        check(db, from_numpy(Q), from_numpy(E), Q, E, 2, metric)


@pytest.mark.parametrize("queries", [1, 3, 40])
@pytest.mark.parametrize("metric", ["l2", "sqeuclidean", "cosine", "l1"])
def test_far_from_the_origin(db, metric, queries):
    rng = np.random.default_rng(6)
    E = made(rng, (3000, 64), metric, "<f4", 1e4)
    Q = (E[:queries] + rng.standard_normal((queries, 64)) / 8).astype("<f4")
    check(db, from_numpy(Q), from_numpy(E), Q, E, 10, metric)
    Q = Q.astype("<f8") + 1e-5  # no f32 numbers
    check(db, from_numpy(Q), from_numpy(E), Q, E, 10, metric)


def test_scales(db):
    rng = np.random.default_rng(7)
    for scale in (1e-30, 1e25, 1e-140, 1e140):
        dtype = "<f4" if 1e-40 < scale < 1e30 else "<f8"
        E, Q = (rng.standard_normal((300, 20)) * scale).astype(dtype), (rng.standard_normal((4, 20)) * scale).astype(dtype)
        check(db, from_numpy(Q), from_numpy(E), Q, E, 5, "cosine")
        rows = knn(db, from_numpy(Q), from_numpy(E), 5)
        want = scores((Q / scale), (E / scale), "cosine")
        assert [r[2] for r in rows[:5]] == list(np.argsort(-want[0], kind="stable")[:5])


def test_rows_of_nothing(db):
    db.execute("SELECT gx_zeros(2147483648, 0, 'nothing')")
    assert knn(db, from_numpy(np.zeros((2, 0))), "nothing", 2, metric="l1") == [(0, 0, 0, 0), (0, 1, 1, 0), (1, 0, 0, 0), (1, 1, 1, 0)]


@pytest.mark.parametrize("metric", METRICS)
def test_ties_go_by_id(db, metric):
    rng = np.random.default_rng(8)
    few = made(rng, (7, 12), metric, "<f4")
    E = few[rng.integers(0, 7, 2000)]
    E[::50] = 0
    for queries in (2, 30):
        Q = few[rng.integers(0, 7, queries)]
        check(db, from_numpy(Q), from_numpy(E), Q, E, 400, metric)
    zero = np.zeros((1, 12), "<f4")
    check(db, from_numpy(zero), from_numpy(E), zero, E, 30, metric)


# ---- 2. the same bits ------------------------------------------------------------------------------------------------

def test_same_bits(tmp_path):
    rng = np.random.default_rng(9)
    E, Q = rng.standard_normal((5000, 48)).astype("<f4"), rng.standard_normal((300, 48)).astype("<f4")
    first = {}
    for limit, threads, tile in [("64MB", 1, 1 << 20), ("64MB", 4, 1 << 17), ("1500kB", 2, 1 << 15), ("700kB", 1, 1 << 14)]:
        db = gx_connect(str(tmp_path / f"{limit}{threads}.db"))
        db.execute("SELECT gx_config('tile_bytes', ?), gx_config('threads', ?), gx_config('readers', ?)", (tile, threads, threads))
        store(db, "E", E)
        store(db, "Q", Q)
        db.execute("SELECT gx_config('memory_limit', ?)", (limit,))
        for metric in ("cosine", "l2", "l1"):
            rows = knn(db, "Q", "E", 7, metric=metric)
            assert rows == first.setdefault(metric, rows)
            for i in (0, 17, 299):
                one = knn(db, Q[i].tobytes(), "E", 7, metric=metric)
                assert [r[1:] for r in one] == [r[1:] for r in rows if r[0] == i]
        db.close()


# ---- 3. queries ------------------------------------------------------------------------------------------------------

def test_forms_of_queries(db):
    rng = np.random.default_rng(10)
    E, Q = rng.standard_normal((50, 6)).astype("<f4"), rng.standard_normal((3, 6)).astype("<f4")
    store(db, "E", E)
    store(db, "Q", Q)
    store(db, "column", Q[:1].T)
    want = knn(db, "Q", "E", 4)
    assert knn(db, Q.tobytes(), "E", 4) == want
    assert knn(db, json.dumps(Q.tolist()), "E", 4) == want
    assert knn(db, from_numpy(Q), "E", 4) == want
    for one in (Q[:1].tobytes(), json.dumps(Q[0].tolist()), "column", from_numpy(Q[:1].T)):
        assert knn(db, one, "E", 4) == want[:4]
    db.execute("CREATE TABLE t(pad TEXT, e BLOB)")
    db.executemany("INSERT INTO t VALUES (?, ?)", [("x" * i, Q[0].tobytes()) for i in range(9)])
    rows = db.execute("SELECT pad, rank, id, score FROM t JOIN gx_knn(t.e, 'E', 4) ORDER BY t.rowid, rank").fetchall()
    assert [r[1:] for r in rows] == [r[1:] for r in want[:4]] * 9


@pytest.mark.parametrize("of_E", ["<f4", "<f8"])
def test_queries_without_a_header(db, of_E):
    """A length that only one dtype fits is read so, whatever E is; of two, the option says which, or the call is refused."""
    rng = np.random.default_rng(12)
    E, Q = rng.standard_normal((50, 6)).astype(of_E), rng.standard_normal((8, 6))
    store(db, "E", E)
    for count in (1, 3, 4):
        for kind, name in (("<f4", "f32"), ("<f8", "f64")):
            some = Q[:count].astype(kind)
            want = knn(db, from_numpy(some), "E", 4)
            assert knn(db, some.tobytes(), "E", 4, dtype=name) == want
            if kind == "<f4" and count % 2 == 1:  # of f64 that would be half a row too many
                assert knn(db, some.tobytes(), "E", 4) == want
            else:
                rows = len(some.tobytes()) // 24
                with pytest.raises(Exception, match=f"which may be {rows} rows of 6 f32 or {rows // 2} rows? of 6 f64: "):
                    knn(db, some.tobytes(), "E", 4)
    odd = b"x" + Q[:1].tobytes()  # whatever the address
    db.execute("CREATE TABLE raw(e BLOB)")
    db.execute("INSERT INTO raw VALUES (?)", (odd,))
    got = db.execute("SELECT query, rank, id, score FROM raw JOIN gx_knn(substr(raw.e, 2), 'E', 4, '{\"dtype\":\"f64\"}')").fetchall()
    assert got == knn(db, from_numpy(Q[:1]), "E", 4)


# ---- 4. fewer rows ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("metric", METRICS)
def test_exclude_self(db, metric):
    db.execute("SELECT gx_config('tile_bytes', 4096)")
    E = made(np.random.default_rng(11), (150, 9), metric, "<f4")
    E[10] = E[11]
    store(db, "E", E)
    for k in (1, 5, 500):
        check(db, "E", "E", E, E, k, metric, exclude_self=True)
    assert knn(db, "[[1,1]]", "[[1,1]]", 3, exclude_self=True) == []


def test_candidates(db):
    db.execute("SELECT gx_config('tile_bytes', 4096)")
    rng = np.random.default_rng(12)
    E, Q = rng.standard_normal((400, 16)).astype("<f4"), rng.standard_normal((12, 16)).astype("<f4")
    C = rng.integers(0, 400, (12, 30)).astype("<f8")
    C[3], C[4, 5:], C[5, 1] = -1, -1, C[5, 0]
    for name, a in (("E", E), ("Q", Q), ("C", C)):
        store(db, name, a)
    for metric in ("cosine", "l2", "l1"):
        whole = knn(db, "Q", "E", 400, metric=metric)
        wanted = []
        for i in range(12):
            mine = [r for r in whole if r[0] == i and r[2] in set(C[i])][:9]
            wanted += [(i, rank, r[2], r[3]) for rank, r in enumerate(mine)]
        assert knn(db, "Q", "E", 9, metric=metric, candidates="C") == wanted
    ids = [int(x) for x in C[0]]
    for as_option in (lambda x: x, json.dumps):
        assert [r[1:] for r in knn(db, Q[0].tobytes(), "E", 9, metric="l1", candidates=as_option(ids))] == [r[1:] for r in wanted if r[0] == 0]
        assert knn(db, "E", "E", 2, candidates=as_option([[i] for i in range(400)]), exclude_self=True) == []
    assert knn(db, "[[1,2],[3,4]]", "[[1,2]]", 2, candidates=[[], []]) == []


def test_candidates_of_many_rows(db):
    """Rows of three bytes, each a candidate of several queries, in any order and twice."""
    rng = np.random.default_rng(14)
    E, Q = rng.standard_normal((70000, 3)), rng.standard_normal((40, 3))
    C = rng.choice(np.append(np.arange(12), rng.integers(0, 70000, 300)), (40, 200)).astype(float)
    for name, a in (("E", E), ("Q", Q), ("C", C)):
        store(db, name, a)
    found = knn(db, "Q", "E", 7, metric="dot", candidates="C")
    for i in range(40):
        ids = np.unique(C[i]).astype(int)
        best = ids[np.argsort(-(E[ids] @ Q[i]), kind="stable")][:7]
        assert [r[2] for r in found if r[0] == i] == list(best)


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("metric", METRICS)
def test_many_candidates(db, metric, backend):
    """From few of the rows to nearly all: the front of a whole search without the others, ties and rows of zeros with it."""
    rng = np.random.default_rng(15)
    db.execute("SELECT gx_config('tile_bytes', 16384), gx_config('backend', ?)", (backend,))
    E = rng.integers(0, 2 if metric == "hamming" else 4, (700, 6)).astype("<f4")
    E[5] = E[600] = 0
    broken = E.copy()
    broken[[3, 64, 699], [0, 2, 5]] = np.nan, np.inf, 0.5 if metric == "hamming" else np.nan
    store(db, "E", E), store(db, "broken", broken)
    for queries in (1, 20):
        db.execute("SELECT gx_drop('Q', '{\"if_exists\":true}')")
        store(db, "Q", E[:queries] + (0 if metric == "hamming" else np.float32(0.25)))
        whole = knn(db, "Q", "E", 700, metric=metric)
        for share in (0.004, 0.1, 0.5, 0.95):
            allowed = np.setdiff1d(np.arange(700), [3, 64, 699])
            C = np.stack([rng.choice(allowed, max(1, int(share * 700)), replace=False) for _ in range(queries)]).astype("<f8")
            C[:, 0] = np.where(rng.random(queries) < 0.5, -1, C[:, 0])
            db.execute("SELECT gx_drop('C', '{\"if_exists\":true}')")
            store(db, "C", C)
            for k in (5, 650):
                wanted = []
                for i in range(queries):
                    some = set(C[i])
                    mine = [r for r in whole[700 * i:700 * (i + 1)] if r[2] in some][:k]
                    wanted += [(i, rank, r[2], r[3]) for rank, r in enumerate(mine)]
                assert knn(db, "Q", "broken", k, metric=metric, candidates="C") == wanted
    own = [r[2] for r in knn(db, "E", "E", 2, metric=metric, candidates=[list(range(700))] * 700, exclude_self=True)]
    assert own == [r[2] for r in knn(db, "E", "E", 2, metric=metric, exclude_self=True)]


def test_many_candidates_name_what_is_no_number(db):
    E = np.ones((500, 3))
    E[[100, 400]] = np.nan
    store(db, "E", E)
    ids = [i for i in range(500) if i != 100]
    message = error(db, "SELECT id FROM gx_knn('[1,2,3]', 'E', 3, ?)", json.dumps({"candidates": ids}))
    assert message == "gx_knn: E has NaN at (400, 0)"


def test_no_candidates(db):
    store(db, "E", np.ones((5, 2)))
    for candidates in ([], "[]", [[]]):
        assert knn(db, "[1,2]", "E", 3, candidates=candidates) == []
    assert knn(db, "[[1,2],[3,4]]", "E", 3, candidates=[]) == []
    assert error(db, "SELECT id FROM gx_knn('[1,2,3]', 'E', 3, '{\"candidates\":[]}')").startswith("gx_knn: Q is 3x1 but E is 5x2")


def test_candidates_read_what_they_need(filedb):
    filedb.execute("SELECT gx_config('tile_bytes', 65536)")
    E = np.random.default_rng(13).standard_normal((20000, 16))
    store(filedb, "E", E)
    filedb.execute("SELECT gx_stats_reset()")
    knn(filedb, "[" + ",".join("1" * 16) + "]", "E", 2, candidates="[7,9,19000]")
    assert 0 < q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_read'") < 2 * 65536
    filedb.execute("SELECT gx_stats_reset()")
    knn(filedb, "[" + ",".join("1" * 16) + "]", "E", 2, candidates=list(range(400)))
    assert 0 < q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_read'") < 2 * 65536


# ---- 5. WHERE, ORDER BY, LIMIT ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("options", ["{}", '{"exclude_self":true}', '{"candidates":"C"}'])
def test_where_and_limit(db, options):
    rng = np.random.default_rng(14)
    E = rng.standard_normal((60, 5))
    store(db, "E", E)
    store(db, "C", np.where(rng.random((60, 8)) < 0.3, -1, rng.integers(0, 60, (60, 8))).astype("<f8"))
    db.execute("CREATE TEMP TABLE whole AS SELECT query, rank, id, score FROM gx_knn('E', 'E', 6, ?)", (options,))
    conditions = ["", "WHERE query = 7", "WHERE query BETWEEN 5 AND 9", "WHERE query > 3.5 AND query < 6.5", "WHERE query >= 57 AND rank = 0",
                  "WHERE query = 3.5", "WHERE query < 2 AND rank < 2", "WHERE rank <= 1", "WHERE rank > 2", "WHERE rank = 99", "WHERE query = -1",
                  "WHERE query = 'x'", "WHERE query = NULL", "WHERE query < 4 AND score > 0", "WHERE id = 5", "WHERE query IN (3, 9)",
                  "WHERE query > 9223372036854775807", "WHERE query < -9223372036854775808", "WHERE rank < 1e300", "WHERE query = '7'"]
    orders = ["", "ORDER BY query", "ORDER BY query, rank", "ORDER BY rank, query, id", "ORDER BY query DESC, rank", "ORDER BY score, query, id"]
    limits = ["", "LIMIT 1", "LIMIT 4", "LIMIT 13", "LIMIT 5 OFFSET 7", "LIMIT 0", "LIMIT -1", "LIMIT -1 OFFSET 3", "LIMIT 9223372036854775807"]
    for where in conditions:
        for order in orders:
            for limit in limits:
                tail = f"{where} {order} {limit}"
                got = db.execute(f"SELECT query, rank, id, score FROM gx_knn('E', 'E', 6, ?) {tail}", (options,)).fetchall()
                want = db.execute(f"SELECT query, rank, id, score FROM whole {where} {order or 'ORDER BY query, rank'} {limit}").fetchall()
                assert got == want, tail


def test_where_narrows_the_work(filedb):
    E = np.random.default_rng(15).standard_normal((4000, 32))
    store(filedb, "E", E)

    def flops(tail):
        filedb.execute("SELECT gx_stats_reset()")
        filedb.execute("SELECT query, id FROM gx_knn('E', 'E', 3) " + tail).fetchall()
        return q(filedb, "SELECT value FROM gx_stats WHERE name = 'flops'")

    assert flops("WHERE query = 5") == flops("LIMIT 3") == flops("ORDER BY query LIMIT 1 OFFSET 2") == 2 * 4000 * 32
    assert flops("WHERE query < 10") == flops("LIMIT 28") == 10 * 2 * 4000 * 32


# ---- 6. one reading --------------------------------------------------------------------------------------------------

def test_reads_once(filedb):
    filedb.execute("SELECT gx_config('tile_bytes', 16384)")
    rng = np.random.default_rng(16)
    E, Q = rng.standard_normal((3000, 32)).astype("<f4"), rng.standard_normal((6000, 32)).astype("<f4")
    store(filedb, "E", E)
    store(filedb, "Q", Q)
    for limit, least in (("64MB", 1), ("3MB", 2)):
        filedb.execute("SELECT gx_config('memory_limit', ?)", (limit,))
        passes, expected = filedb.execute("SELECT detail, bytes_read FROM gx_plan('knn(Q, E, 5)')").fetchone()
        filedb.execute("SELECT gx_stats_reset()")
        knn(filedb, "Q", "E", 5)
        read = q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_read'")
        assert read == expected, passes
        count = (read - Q.nbytes) // E.nbytes
        assert (read - Q.nbytes) % E.nbytes == 0 and count >= least and (count == 1) == (least == 1)
        assert f", {count} pass" in passes


@pytest.mark.parametrize("page", [4096, 65536])
def test_queries_of_one_tile(tmp_path, page):
    db = gx_connect(str(tmp_path / "one.db"))
    db.execute(f"PRAGMA page_size = {page}")
    rng = np.random.default_rng(61)
    E, Q = rng.standard_normal((40, 700)).astype("<f4"), rng.standard_normal((2900, 700)).astype("<f4")
    store(db, "E", E)
    store(db, "Q", Q)
    assert db.execute("SELECT tile_rows, tile_cols FROM gx WHERE name = 'Q'").fetchone() >= (2900, 700)
    want = knn(db, Q.tobytes(), "E", 3, dtype="f32")
    q(db, "SELECT gx_config('memory_limit', '100MB')")  # nothing is kept in memory

    def reads():
        db.execute("SELECT gx_stats_reset()")
        assert knn(db, "Q", "E", 3) == want
        assert q(db, "SELECT value FROM gx_stats WHERE name = 'bytes_read'") == Q.nbytes + E.nbytes
        return q(db, "SELECT value FROM gx_stats WHERE name = 'helper_reads'")

    for readers, most in ((1, 0), (2, 2), (8, 3)):  # no part is less than 2 MiB
        q(db, "SELECT gx_config('readers', ?)", readers)
        assert (reads() > 0) == (most > 0) and reads() <= most
    db.execute("BEGIN")
    q(db, "SELECT gx_scale('Q', 1, 'Q', '{\"replace\":true}')")
    assert reads() == 0
    db.execute("ROLLBACK")
    db.close()


# ---- 7. refusals -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_scores_that_overflow(db, backend):
    """NaN is on no list: a list without it would be too short, and nobody would know."""
    q(db, "SELECT gx_config('backend', ?)", backend)
    E = np.random.default_rng(3).standard_normal((6, 3))
    for scale in (1e150, 1e-140, 1e160, 1e-200, 1e300):
        rows = db.execute("SELECT query, id FROM gx_knn(:e, :e, 1)", {"e": from_numpy(E * scale)}).fetchall()
        assert rows == [(i, i) for i in range(6)]
    said = "has scores that overflow: scale the numbers, whose squares are beyond the range of a double"
    dot = ", '{\"metric\":\"dot\"}'"
    assert error(db, f"SELECT * FROM gx_knn(?1, ?1, 2{dot})", from_numpy(E * 1e160)).startswith("gx_knn: row 3 of Q has")
    mixed = from_numpy(np.array([[1.0, 1.0], [1e200, -1e200]]))
    assert error(db, "SELECT * FROM gx_knn('[[1,1],[1e200,1e200]]', ?, 2, '{\"metric\":\"dot\"}')", mixed) == (
        f"gx_knn: row 1 of Q {said}")
    assert error(db, f"SELECT gx_knn_graph(?, 2{dot})", from_numpy(E * 1e160)).endswith(said)


@pytest.mark.parametrize("dtype", ["bool", "u8", "i8", "i16", "i32", "f16", "f64"])
def test_hamming_of_small_types(db, dtype):
    bits = np.random.default_rng(8).integers(0, 2, (1300, 70)).astype(float)
    store(db, "wide", bits)
    db.execute("SELECT gx_cast('wide', ?, 'E')", (dtype,)).fetchall()
    for queries in (1, 40):
        Q = from_numpy(bits[700:700 + queries])
        rows = db.execute("SELECT query, rank, id, score FROM gx_knn(?, 'E', 3, '{\"metric\":\"hamming\"}')", (Q,)).fetchall()
        off = (bits[700:700 + queries, None] != bits[None]).sum(axis=2)
        best = np.argsort(off, axis=1, kind="stable")[:, :3]
        assert rows == [(j, r, best[j, r], off[j, best[j, r]] / 70) for j in range(queries) for r in range(3)]
        if dtype == "bool":
            continue
        two = 0.5 if dtype in ("f16", "f64") else 2
        db.execute("SELECT gx_set('E', 1100, 3, ?), gx_set('E', 1000, 69, ?)", (two, two)).fetchall()
        assert error(db, "SELECT * FROM gx_knn(?, 'E', 3, '{\"metric\":\"hamming\"}')", Q) == (
            f"gx_knn: E has {two} at (1000, 69), but 'hamming' compares zeros and ones")
        db.execute("SELECT gx_set('E', 1100, 3, ?), gx_set('E', 1000, 69, ?)", (bits[1100, 3], bits[1000, 69])).fetchall()


@pytest.mark.parametrize("dtype", ["bool", "f32", "f64"])
def test_hamming_of_a_last_strip(db, dtype):
    """More columns of its few rows are packed at once than of a strip's; the memory is the strip's."""
    db.execute("SELECT gx_config('tile_bytes', 2000000), gx_config('threads', 2)").fetchall()
    for rows in (1000, 1100, 1300):
        bits = np.random.default_rng(rows).integers(0, 2, (rows, 3400)).astype(float)
        db.execute("SELECT gx_cast(?, ?, 'E', '{\"replace\":true}')", (from_numpy(bits), dtype)).fetchall()
        for queries in (1, 20):
            off = (bits[500:500 + queries, None] != bits[None]).sum(axis=2)
            got = db.execute("SELECT id, score FROM gx_knn(?, 'E', 2, '{\"metric\":\"hamming\"}')", (from_numpy(bits[500:500 + queries]),)).fetchall()
            assert got == [(i, off[j, i] / 3400) for j in range(queries) for i in np.argsort(off[j], kind="stable")[:2]]


def test_refusals(db):
    store(db, "E", np.eye(4))
    bad = np.eye(4)
    bad[2, 1] = np.nan
    store(db, "N", bad)
    bad[2, 1], bad[1, 3] = 0.5, np.inf
    store(db, "I", bad)
    store(db, "H", np.where(np.isinf(bad), 0, bad))
    db.execute("SELECT gx_lu('[[1,2],[3,4]]', 'F')").fetchall()
    for args, message in [
            (("[1,2,3]", "E", 1, "{}"), "Q is 3x1 but E is 4x4: rows of one length are compared"),
            (("E", "E", -1, "{}"), "k must not be negative, not -1"),
            (("E", "E", 1.5, "{}"), "k must be an integer, not 1.5"),
            (("E", "E", "nan", "{}"), "k must be an integer, not 'nan'"),
            (("E", "E", None, "{}"), "k must be an integer, not NULL"),
            (("E", "E", 1, '{"metric":"cos"}'), 'option "metric" must be one of cosine, l2, sqeuclidean, l1, hamming, dot, not "cos"'),
            (("E", "E", 1, '{"metrc":"l2"}'), 'unknown option "metrc": the known ones are "metric", "candidates", "filter", "rescore", "exclude_self" and "dtype"'),
            (("E", "[[1,2,3,\"4i\"]]", 1, "{}"), "E is complex (c128): complex numbers have no order"),
            (("[[1,2,3,\"4i\"]]", "E", 1, "{}"), "Q is complex (c128): complex numbers have no order"),
            (("N", "E", 1, "{}"), "N has NaN at (2, 1)"),
            (("E", "N", 1, "{}"), "N has NaN at (2, 1)"),
            (("E", "I", 1, '{"metric":"l1"}'), "I has Inf at (1, 3)"),
            (("[1,0,0,0]", "I", 1, '{"metric":"l2"}'), "I has Inf at (1, 3)"),
            (("E", "H", 1, '{"metric":"hamming"}'), "H has 0.5 at (2, 1), but 'hamming' compares zeros and ones"),
            (("H", "E", 1, '{"metric":"hamming"}'), "H has 0.5 at (2, 1), but 'hamming' compares zeros and ones"),
            (("[1,0,0,0]", "E", 1, '{"exclude_self":true}'), "exclude_self is for a matrix and itself, but Q has 1 rows and E 4"),
            (("[1,0,0,0]", "E", 1, '{"candidates":"[0,4]"}'), "candidates has 4 at (0, 1), but E has rows 0 to 3 (-1 for none)"),
            (("[1,0,0,0]", "E", 1, '{"candidates":"[0,-2]"}'), "candidates has -2 at (0, 1), but E has rows 0 to 3 (-1 for none)"),
            (("[1,0,0,0]", "E", 1, '{"candidates":"[0.5]"}'), "candidates has 0.5 at (0, 0), but E has rows 0 to 3 (-1 for none)"),
            (("[1,0,0,0]", "E", 1, '{"candidates":[1.5]}'), 'option "candidates" must be a name or a list of whole numbers, not a list'),
            (("[1,0,0,0]", "E", 1, '{"candidates":"N"}'), "N is 4x4 but Q has 1 rows: there is a row of candidates for each query"),
            (("[1,0,0,0]", "E", 1, '{"candidates":"F"}'), "F is a stored LU factorisation: gx_part('F', 'L') gives its factor"),
            (("[1,0,0,0]", "N", 1, '{"candidates":"[2]"}'), "N has NaN at (2, 1)"),
            ((b"12345", "E", 1, "{}"), "Q is a blob of 5 bytes, neither a matrix value nor a multiple of 16 (f32) or 32 (f64)"),
            ((bytes(32), "E", 1, "{}"), "Q is a blob of 32 bytes without a header, which may be 2 rows of 4 f32 or 1 row of 4 f64: "
             'option "dtype" says which'),
            ((bytes(16), "E", 1, '{"dtype":"f64"}'), "Q is a blob of 16 bytes, no rows of 4 f64 numbers (32 bytes each)"),
    ]:
        with pytest.raises(Exception) as caught:
            db.execute("SELECT id FROM gx_knn(?, ?, ?, ?)", args).fetchall()
        assert str(caught.value) == "gx_knn: " + message
    assert knn(db, "[1,0,0,0]", "N", 1, candidates="[0,1,3]") == [(0, 0, 0, 1.0)]


def test_too_many(db):
    store(db, "E", np.ones((3000, 1)))
    db.execute("SELECT gx_config('tile_bytes', 65536), gx_config('memory_limit', '4MB')")
    assert "neighbours" in error(db, "SELECT count(*) FROM gx_knn('E', 'E', 1000000000000000000)")


# ---- 8. an interrupt -------------------------------------------------------------------------------------------------

def test_interrupt(filedb):
    store(filedb, "E", np.random.default_rng(17).standard_normal((20000, 64)).astype("<f4"))
    timer = threading.Timer(0.15, filedb.interrupt)
    timer.start()
    start = time.monotonic()
    text = error(filedb, "SELECT sum(score) FROM gx_knn('E', 'E', 1000, '{\"metric\":\"l1\"}')")
    assert "interrupt" in text.lower() and time.monotonic() - start < 60
    timer.join()


# ---- 9. the graph ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("metric", METRICS)
def test_graph(db, metric):
    E = made(np.random.default_rng(18), (120, 7), metric, "<f4")
    E[10] = E[11]
    store(db, "E", E)
    for k, itself in ((0, False), (1, False), (6, False), (3, True), (500, False)):
        options = {"metric": metric, "exclude_self": not itself}
        lists = {(i, j): x for i, _, j, x in knn(db, "E", "E", k, **options)}
        turned = {(j, i): x for (i, j), x in lists.items()}
        for way, want in (("no", lists), ("union", lists | turned), ("mutual", {at: x for at, x in lists.items() if at in turned})):
            db.execute("SELECT gx_knn_graph('E', ?, 'G', ?)", (k, json.dumps(options | {"symmetric": way, "replace": True}))).fetchall()
            cells = {(i, j): x for i, j, x in db.execute("SELECT i, j, value FROM gx_cells('G')")}
            assert cells == {at: float(np.float32(x)) for at, x in want.items()}
            ones = db.execute("SELECT i, j, value FROM gx_cells(gx_knn_graph('E', ?, ?))",
                              (k, json.dumps(options | {"symmetric": way, "values": "one"}))).fetchall()
            assert {(i, j): x for i, j, x in ones} == {at: 1 for at in want}
    assert q(db, "SELECT format FROM gx WHERE name = 'G'") == "sparse"
    for args, text in (("'E', -1", "k must not be negative, not -1"), ("'E', 1, '{\"symmetric\":\"yes\"}'", "option \"symmetric\" must be one of no, union, mutual, not \"yes\""),
                       ("'E', 1, '{\"values\":\"two\"}'", "option \"values\" must be one of score, one, not \"two\""), ("'E', 1, '{\"metric\":\"x\"}'", "option \"metric\" must be one of cosine, l2, sqeuclidean, l1, hamming, dot, not \"x\"")):
        assert error(db, f"SELECT gx_knn_graph({args})").startswith("gx_knn_graph: " + text)


def test_many_queries_by_the_team():
    """Enough of them that threads share what is done with each: the same rows, and the first bad one is named."""
    rng = np.random.default_rng(2)
    Q, E = rng.standard_normal((3000, 100)).astype("f4"), rng.standard_normal((40, 100)).astype("f4")
    found = {}
    for threads in (1, 3):
        db = gx_connect()
        db.execute("SELECT gx_config('threads', ?)", (threads,)).fetchall()
        for metric in ("cosine", "l2", "l1"):
            rows = db.execute("SELECT query, id, score FROM gx_knn(?, ?, 2, ?)",
                              (from_numpy(Q), from_numpy(E), json.dumps({"metric": metric}))).fetchall()
            assert found.setdefault(metric, rows) == rows
        bad = Q.copy()
        bad[2990, 1], bad[1500, 7], bad[1500, 80] = np.nan, np.inf, np.nan
        q(db, "SELECT gx_store('B', ?)", from_numpy(bad))
        q(db, "SELECT gx_store('E', ?)", from_numpy(E))
        assert error(db, "SELECT count(*) FROM gx_knn('B', 'E', 1)") == "gx_knn: B has Inf at (1500, 7)"
        db.close()


# ---- 10. E beside itself ---------------------------------------------------------------------------------------------

def flops_of(db, Q, E, k, **options):
    db.execute("SELECT gx_stats_reset()")
    rows = knn(db, Q, E, k, **options)
    return rows, q(db, "SELECT value FROM gx_stats WHERE name = 'flops'")


def uneven_rows(rng, shape, dtype):
    """Equal rows, near ones, far ones, and of nothing."""
    E = rng.standard_normal(shape)
    E[::9] = E[3]
    E[1::11] *= 1e-3
    E[2::13] = 0
    E[5] *= 1e6
    E[7], E[8] = 1e-200 if dtype == "<f8" else 1e-30, 1e25
    return E.astype(dtype)


@pytest.mark.parametrize("dtype", ["<f8", "<f4"])
@pytest.mark.parametrize("metric", METRICS)
def test_itself(filedb, metric, dtype):
    rng = np.random.default_rng(20)
    for rows, cols, threads, ks in [(17, 3, 1, (1, 40)), (300, 20, 3, (1, 7, 290)), (900, 33, 2, (10, 300))]:
        E = made(rng, (rows, cols), metric, dtype) if metric == "hamming" else uneven_rows(rng, (rows, cols), dtype)
        filedb.execute("SELECT gx_config('threads', ?)", (threads,))
        for name in "EF":
            store(filedb, name + str(rows), E)
        for k in ks:
            for own in (False, True):
                options = {"metric": metric, "exclude_self": own}
                mine, half = flops_of(filedb, f"E{rows}", f"E{rows}", k, **options)
                other, whole = flops_of(filedb, f"F{rows}", f"E{rows}", k, **options)
                assert mine == other and len(mine) == rows * min(k, rows - own)
                if metric in ("l1", "hamming"):
                    assert half == whole
                elif rows > 800:
                    assert whole * 0.5 < half < whole * 0.75
    E = made(rng, (400, 30), metric, dtype)
    store(filedb, "plain", E)
    check(filedb, "plain", "plain", E, E, 9, metric)
    check(filedb, "plain", "plain", E, E, 9, metric, exclude_self=True)


@pytest.mark.parametrize("metric", ["dot", "cosine", "l2"])
def test_itself_by_the_reference(db, metric):
    E = uneven_rows(np.random.default_rng(21), (200, 9), "<f8")
    store(db, "E", E)
    found = knn(db, "E", "E", 12, metric=metric)
    q(db, "SELECT gx_config('backend', 'reference')")
    assert knn(db, "E", "E", 12, metric=metric) == found


def test_itself_as_a_value(db):
    """One and the same value twice is as good as a name; another with the same numbers is another matrix."""
    value = from_numpy(np.random.default_rng(22).standard_normal((700, 16)).astype("<f4"))
    found = {}
    for text, args in (("SELECT query, id, score FROM gx_knn(:e, :e, 3)", {"e": value}), ("SELECT query, id, score FROM gx_knn(?, ?, 3)", (value, bytes(bytearray(value))))):
        db.execute("SELECT gx_stats_reset()")
        rows = db.execute(text, args).fetchall()
        found[q(db, "SELECT value FROM gx_stats WHERE name = 'flops'")] = rows
    few, many = sorted(found) if len(found) == 2 else list(found) * 2
    assert found[few] == found[many] and many == 2 * 700 * 700 * 16


def test_itself_where_memory_is_short(filedb):
    rng = np.random.default_rng(23)
    E = rng.standard_normal((4000, 48)).astype("<f4")
    filedb.execute("SELECT gx_config('tile_bytes', 65536), gx_config('threads', 2), gx_config('readers', 2)")
    store(filedb, "E", E)
    whole, found = 2 * 4000 * 4000 * 48, None
    for limit, is_half in (("64MB", True), ("2MB", False), ("1200kB", False)):
        filedb.execute("SELECT gx_config('memory_limit', ?)", (limit,))
        for metric in ("l2", "cosine"):
            rows, flops = flops_of(filedb, "E", "E", 5, metric=metric)
            assert (flops < 0.7 * whole) == is_half, limit
            found = found or {}
            assert found.setdefault(metric, rows) == rows
        text, read = filedb.execute("SELECT detail, bytes_read FROM gx_plan('knn(E, E, 5)')").fetchone()
        assert ("each pair of rows" in text) == is_half and (read == E.nbytes) == is_half


def test_itself_is_interrupted(filedb):
    store(filedb, "E", np.random.default_rng(24).standard_normal((20000, 300)))
    timer = threading.Timer(0.3, filedb.interrupt)
    timer.start()
    start = time.monotonic()
    text = error(filedb, "SELECT sum(score) FROM gx_knn('E', 'E', 100, '{\"metric\":\"dot\"}')")
    assert "interrupt" in text.lower() and time.monotonic() - start < 60
    timer.join()
    assert len(filedb.execute("SELECT id FROM gx_knn('E', 'E', 1) LIMIT 3").fetchall()) == 3


def test_itself_refuses(db):
    bad = np.ones((40, 3))
    bad[20, 1], bad[30, 2] = np.nan, np.inf
    store(db, "N", bad)
    assert error(db, "SELECT * FROM gx_knn('N', 'N', 1)") == "gx_knn: N has NaN at (20, 1)"
    assert error(db, "SELECT gx_knn_graph('N', 1)") == "gx_knn_graph: N has NaN at (20, 1)"
    huge = from_numpy(np.random.default_rng(25).standard_normal((40, 3)) * 1e160)
    text = error(db, "SELECT * FROM gx_knn(?1, ?1, 40, '{\"metric\":\"dot\"}')", huge)  # Inf - Inf
    assert text.startswith("gx_knn: row ") and "of Q has scores that overflow" in text
