"""gx_topk: the k largest, or smallest, of each row or column.

Plan:
1. against NumPy's stable sort over dtypes, shapes (0, 1, 2, 5, 50, tile +-1, tall, wide), axes, k from 0 to more than
   there are, stored in small tiles and as values, under three memory limits;
2. equal elements, -0, infinities and NaN have one order; only NaN; nothing written;
3. a column without an axis; joins: arguments from a table, places looked up in gx_cells;
4. bytes read: each tile once along rows; memory within the limit;
5. exact refusals;
6. many threads, each way of sharing the work, equal elements in different tiles.
7. topk of programs, by a heap or by sorting; how many different elements, by sets or by sorting
"""
import numpy as np
import pytest
from conftest import error, from_numpy, gx_connect, q, to_numpy

SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (1, 5), (5, 1), (2, 2), (5, 3), (15, 17), (16, 16), (17, 15), (33, 50), (200, 3), (3, 200)]


def expected(a, k, axis, smallest):
    """Rows (i, j, value, rank): larger first, then the smaller index, NaN last."""
    lines = a.astype("f8") if axis == 1 else a.astype("f8").T
    rows = []
    for line, x in enumerate(lines):
        key = np.where(np.isnan(x), np.inf, x if smallest else -x)
        order = np.lexsort((np.arange(len(x)), key, np.isnan(x)))[:k]
        for rank, at in enumerate(order):
            i, j = (line, at) if axis == 1 else (at, line)
            rows.append((i, int(j), None if np.isnan(x[at]) else float(x[at]), rank))
    return [(int(i), j, v, r) for i, j, v, r in rows]


def check(db, form, a, k, axis, smallest):
    options = f'{{"axis":{axis},"smallest":{str(smallest).lower()}}}'
    got = db.execute("SELECT i, j, value, rank FROM gx_topk(?, ?, ?)", (form, k, options)).fetchall()
    assert got == expected(a, k, axis, smallest), (a.shape, k, axis, smallest)


# ---- 1. against NumPy ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", ["<f8", "<f4"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_against_numpy(db, shape, dtype):
    db.execute("SELECT gx_config('tile_bytes', 2048)")
    a = np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)
    value = from_numpy(a)
    db.execute("SELECT gx_store('A', ?)", (value,)).fetchone()
    for k in (0, 1, 2, 7, 1000):
        for axis in (0, 1):
            for smallest in (False, True):
                check(db, "A", a, k, axis, smallest)
                check(db, value, a, k, axis, smallest)


@pytest.mark.parametrize("limit", ["200kB", "1MB", "64MB"])
def test_little_memory(tmp_path, limit):
    db = gx_connect(str(tmp_path / "a.db"))
    db.execute("SELECT gx_config('tile_bytes', 16384)")
    db.execute("SELECT gx_config('memory_limit', ?)", (limit,)).fetchone()
    a = np.random.default_rng(4).standard_normal((300, 400))
    a[::3] = np.round(a[::3])
    db.execute("BEGIN")
    q(db, "SELECT gx_zeros(300, 400, 'A')")
    db.execute("CREATE VIRTUAL TABLE r USING gx_rows('A')")
    db.executemany("UPDATE r SET row = ? WHERE i = ?", [(from_numpy(a[i:i + 1]), i) for i in range(300)])
    db.execute("COMMIT")
    before = q(db, "SELECT value FROM gx_stats WHERE name = 'bytes_read'")
    check(db, "A", a, 3, 1, False)
    assert q(db, "SELECT value FROM gx_stats WHERE name = 'bytes_read'") - before == a.nbytes
    check(db, "A", a, 5, 0, True)
    assert q(db, "SELECT value FROM gx_stats WHERE name = 'memory_peak'") <= q(db, "SELECT gx_config('memory_limit')")
    db.close()


# ---- 2. order --------------------------------------------------------------------------------------------------------

def test_order(db):
    a = np.array([[1, 1, 1, 1, 1], [np.nan, 2, np.nan, -np.inf, np.inf], [np.nan] * 5, [0.0, -0.0, 0.0, -0.0, 1]])
    for k in range(1, 7):
        for axis in (0, 1):
            for smallest in (False, True):
                check(db, from_numpy(a), a, k, axis, smallest)
    rng = np.random.default_rng(8)
    for _ in range(30):
        a = rng.integers(0, 4, (6, 40)).astype("f8")
        a[rng.random(a.shape) < 0.2] = np.nan
        check(db, from_numpy(a), a, int(rng.integers(1, 41)), 1, bool(rng.integers(2)))
    assert q(db, "SELECT count(*) FROM sqlite_schema") == 0


# ---- 3. columns and joins --------------------------------------------------------------------------------------------

def test_a_column_needs_no_axis(db):
    rows = "SELECT i, j, value FROM gx_topk(?, 2, ?)"
    assert db.execute(rows, ("[3,9,4]", "{}")).fetchall() == [(1, 0, 9.0), (2, 0, 4.0)]
    assert db.execute(rows, ("[[3,9,4]]", "{}")).fetchall() == [(0, 1, 9.0), (0, 2, 4.0)]
    assert db.execute(rows, ("[3,9,4]", '{"axis":1}')).fetchall() == [(0, 0, 3.0), (1, 0, 9.0), (2, 0, 4.0)]
    assert db.execute(rows, ("[[3,9,4]]", '{"axis":0}')).fetchall() == [(0, 0, 3.0), (0, 1, 9.0), (0, 2, 4.0)]
    assert db.execute("SELECT value FROM gx_topk(7, 3)").fetchall() == [(7.0,)]


def test_joins(db):
    db.execute("CREATE TABLE m(id INTEGER PRIMARY KEY, a)")
    db.executemany("INSERT INTO m(a) VALUES(?)", [("[[1,5],[7,2]]",), ("[[4,3,9]]",)])
    got = db.execute("SELECT id, i, j, value FROM m, gx_topk(m.a, 1)").fetchall()
    assert got == [(1, 0, 1, 5.0), (1, 1, 0, 7.0), (2, 0, 2, 9.0)]
    q(db, "SELECT gx_randn(40, 30, 'A')")
    assert q(db, "SELECT count(*) FROM gx_topk('A', 4) t JOIN gx_cells('A') c USING (i, j) WHERE t.value = c.value") == 160
    assert q(db, "SELECT max(value) FROM gx_topk('A', 1)") == q(db, "SELECT gx_max('A')")


def test_neighbours_in_blocks(filedb):
    n, width, k = 700, 32, 6
    a = np.random.default_rng(2).standard_normal((n, width))
    a /= np.linalg.norm(a, axis=1)[:, None]
    filedb.execute("SELECT gx_from_bytes(?, 'f64', ?, 'N')", (a.tobytes(), width)).fetchone()
    got = filedb.execute("""
        WITH RECURSIVE block(i0) AS (SELECT 0 UNION ALL SELECT i0 + 256 FROM block WHERE i0 + 256 < ?1)
        SELECT i0 + i, j FROM block,
          gx_topk(gx_matmul(gx_slice('N', i0, min(i0 + 256, ?1), NULL, NULL), 'N', '{"transb":true}'), ?2)""",
                         (n, k)).fetchall()
    best = np.argsort(-(a @ a.T), axis=1, kind="stable")[:, :k]
    assert got == [(i, int(j)) for i in range(n) for j in best[i]]


# ---- 5. refused ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("call, text", [
    ("gx_topk('[1]')", "takes 2 to 3 arguments, not 1: gx_topk(A, k[, options])"),
    ("gx_topk('[1]', -1)", "k must not be negative, not -1"),
    ("gx_topk('[1]', 1.5)", "k must be an integer, not 1.5"),
    ("gx_topk('[1]', NULL)", "k must be an integer, not NULL"),
    ("gx_topk(NULL, 1)", "A is NULL"),
    ("gx_topk('nobody', 1)", "no matrix named 'nobody'"),
    ("gx_topk('[\"1i\"]', 1)", "A is complex (c128): complex numbers have no order"),
    ("gx_topk('[1]', 1, '{\"axis\":2}')", "axis is 2 but must be 0 (down the columns) or 1 (along the rows)"),
    ("gx_topk('[1]', 1, '{\"largest\":true}')", 'unknown option "largest": the known ones are "axis" and "smallest"'),
    ("gx_topk('[1]', 1, 2)", "options must be a JSON object '{...}', not 2"),
])
def test_refused(db, call, text):
    assert error(db, f"SELECT * FROM {call}") == f"gx_topk: {text}"


def test_too_many(db):
    q(db, "SELECT gx_zeros(3000, 3000, 'Z')")
    db.execute("SELECT gx_config('memory_limit', '30MB')").fetchone()
    assert "memory_limit" in error(db, "SELECT * FROM gx_topk('Z', 3000)")
    assert q(db, "SELECT sum(value) FROM gx_topk('Z', 2)") == 0


# ---- 6. many threads: lines in one tile, a few of each, many of each; equal elements in different tiles ----------------

@pytest.mark.parametrize("shape", [(600, 700), (60000, 12), (12, 60000)], ids=str)
def test_threads(tmp_path, shape):
    db = gx_connect(str(tmp_path / "t.db"))
    for key, value in (("tile_bytes", 32768), ("readers", 3), ("threads", 3)):
        db.execute("SELECT gx_config(?, ?)", (key, value))
    a = np.random.default_rng(6).standard_normal(shape)
    a[::2] = np.round(a[::2])
    db.execute("SELECT gx_store('A', ?)", (from_numpy(a),)).fetchone()
    db.execute("SELECT gx_stats_reset()")
    for k in (1, 5, 30):
        for axis in (0, 1):
            check(db, "A", a, k, axis, k == 5)
    assert q(db, "SELECT value FROM gx_stats WHERE name = 'helper_reads'") > 0
    check(db, from_numpy(a), a, 3, 1, False)  # by the team
    db.execute("BEGIN")
    db.execute("SELECT gx_store('A', ?, '{\"replace\":true}')", (from_numpy(-a),)).fetchone()
    check(db, "A", -a, 3, 0, False)  # read by the caller for the team
    db.execute("ROLLBACK")
    db.close()


@pytest.mark.parametrize("bad", [0.0, 0.01, 0.999])
def test_in_programs(db, bad):
    """Of a long line few are found by a heap, many by sorting: the same order, NaN last, equal ones by their places."""
    rng = np.random.default_rng(int(bad * 1000))
    x = rng.integers(-6, 6, 4000).astype(float)
    x[:4] = [np.inf, -np.inf, -0.0, 0.0]
    x[rng.random(4000) < bad] = np.nan
    order = np.lexsort((np.arange(4000), np.where(np.isnan(x), np.inf, -x), np.isnan(x)))
    q(db, "SELECT gx_copy(?, 'long', '{\"replace\":true}')", from_numpy(x.reshape(-1, 1)))
    for k in (2, 62, 63, 1000):
        got = to_numpy(q(db, f"SELECT gx_eval('v, p = topk(long, {k}); hstack(v, p)')"))
        assert np.array_equal(got[:, 1], order[:k]) and np.array_equal(got[:, 0], x[order[:k]], equal_nan=True), k


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("kind", ["few", "16384", "16385", "all", "bytes", "f32", "specials", "rows"])
def test_how_many_different(db, kind, threads):
    """By sets where there are few, by sorting where there are more; 0 and -0 are one, NaN are one."""
    rng = np.random.default_rng(9)
    q(db, "SELECT gx_config('threads', ?)", threads)
    a = rng.integers(0, 10000, (400, 300)).astype(float)
    if kind.isdigit():
        a = rng.permutation(np.arange(400 * 300) % int(kind)).reshape(400, 300) * 0.37
    elif kind == "all":
        a = rng.standard_normal((400, 300))
    elif kind == "bytes":
        a = (a % 200).astype("u1")
    elif kind == "f32":
        a = (a / 7).astype("f4")
    elif kind == "specials":
        a[:, :50], a[:, 50:60], a[:, 60:70], a[:, 70:75] = 0, -0.0, np.nan, np.inf
        a[3, 60], a[:, 75] = -np.nan, -np.inf
    elif kind == "rows":
        a = a[:1].repeat(70, axis=0).reshape(1, -1)
    assert q(db, "SELECT gx_unique_count(?)", from_numpy(a)) == np.unique(a).size
