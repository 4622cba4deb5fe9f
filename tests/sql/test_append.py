"""Matrices that grow: gx_append, gx_set_rows, gx_delete_rows (core/mat/rows.c).

Plan:
  1. random appends, sets, deletes on both axes beside NumPy: all dtypes, one tile to many on both axes, reopened, gx_check
  2. the numbers of tiles: rows of several tile columns never move old tiles; format 6, which says so; columns behind them
  3. what it costs: bytes written are those of the new rows and of one tile row
  4. ROLLBACK, savepoints, statements that write, volumes, a budget of few tiles, other connections
  5. operands: every form, of the matrix itself, of other dtypes, sparse ones
  6. refused in words, with nothing changed
"""
import functools
import json

import conftest
import numpy as np
import pytest

from conftest import STORED, error, gx_connect, q, to_numpy

from_numpy = functools.partial(conftest.from_numpy, exact=True)
KINDS = [dtype for dtype in STORED if dtype != np.dtype("V2")]


def put(db, name, a):
    return q(db, "SELECT gx_store(?, ?, ?)", name, from_numpy(a), '{"replace":true}')


def get(db, name="A"):
    return to_numpy(q(db, "SELECT gx_copy(?)", name))


def matrix(rng, dtype, m, n):
    whole = rng.integers(0, 2 if dtype == np.bool_ else 120, (m, n))
    return (whole + 1j * rng.integers(-9, 9, (m, n)) if dtype.kind == "c" else whole).astype(dtype)


def call(db, function, *args, axis=0, **options):
    given = json.dumps({**({"axis": axis} if axis else {}), **options})
    marks = ", ".join("?" * (len(args) + 1))
    return q(db, f"SELECT {function}({marks})", *args, given)


def same(db, want, name="A"):
    got = get(db, name)
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got, want)
    assert q(db, "SELECT gx_check()") == "ok"


def meta(db, name="A"):
    """rows, columns, tile shape, tile rows that are numbered down the columns"""
    return db.execute("SELECT rows, cols, tile_rows, tile_cols, properties >> 32 FROM gx_meta WHERE name = ?", (name,)).fetchone()


# 1. ------------------------------------------------------------------------------------------------

def step(db, rng, a):
    """One random change of A, which is a."""
    axis = int(rng.integers(0, 2))
    other, side = a.shape[1 - axis], a.shape[axis]
    kind = rng.choice(["append", "append", "set", "delete"])
    if kind == "append":
        count = int(rng.integers(0, 9)) if rng.random() < 0.8 else int(rng.integers(20, 60))
        new = matrix(rng, a.dtype, *((count, other) if axis == 0 else (other, count)))
        assert call(db, "gx_append", "A", from_numpy(new), axis=axis) == "A"
        return np.concatenate([a, new], axis)
    count = int(rng.integers(0, min(side, 12) + 1)) if rng.random() < 0.7 else side // 2
    at = rng.permutation(side)[:count]
    index = from_numpy(at.astype("f8"))
    if kind == "delete":
        assert call(db, "gx_delete_rows", "A", index, axis=axis) == "A"
        return np.delete(a, at, axis)
    new = matrix(rng, a.dtype, *((count, other) if axis == 0 else (other, count)))
    assert call(db, "gx_set_rows", "A", index, from_numpy(new), axis=axis) == "A"
    a = a.copy()
    if axis == 0:
        a[at] = new
    else:
        a[:, at] = new
    return a


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_beside_numpy(filedb, dtype):
    rng = np.random.default_rng(KINDS.index(dtype))
    q(filedb, "SELECT gx_config('tile_bytes', ?)", 64 * dtype.itemsize)
    for shape in [(0, 0), (3, 5), (40, 3), (2, 70), (33, 29)]:
        a = matrix(rng, dtype, *shape)
        put(filedb, "A", a)
        for _ in range(25):
            a = step(filedb, rng, a)
            same(filedb, a)


def test_one_row_at_a_time(db):
    """Tiles become as tall as new ones are, and then more of them."""
    q(db, "SELECT gx_config('tile_bytes', 4096)")
    q(db, "SELECT gx_store('A', gx_zeros(0, 4))")
    a = np.arange(1200.0).reshape(300, 4)
    for row in a:
        q(db, "SELECT gx_append('A', ?)", from_numpy(row.reshape(1, 4)))
    same(db, a)
    assert meta(db)[2:4] == (128, 4)


def test_reopened(tmp_path):
    path = str(tmp_path / "a.db")
    db = gx_connect(path, journal_mode="wal")
    q(db, "SELECT gx_config('tile_bytes', 512)")
    rng = np.random.default_rng(7)
    a = rng.standard_normal((50, 40))
    put(db, "A", a)
    for _ in range(10):
        a = step(db, rng, a)
        other = gx_connect(path)
        same(other, a)
        other.close()


# 2. ------------------------------------------------------------------------------------------------

def tiles(db, name="A"):
    return dict(db.execute("SELECT id & 0xffffffff, data FROM gx_tile WHERE id >> 32 = (SELECT id FROM gx_meta WHERE name = ?)", (name,)))


def test_tiles_keep_their_numbers(db):
    q(db, "SELECT gx_config('tile_bytes', 512)")  # 8 x 8
    rng = np.random.default_rng(1)
    a = rng.standard_normal((24, 24))
    put(db, "A", a)
    assert q(db, "SELECT value FROM gx_state WHERE key = 'format'") < 6
    assert meta(db) == (24, 24, 8, 8, 0)
    for count in (5, 8, 30):
        before, new = tiles(db), rng.standard_normal((count, 24))
        last = {number for number in before if number >= 9 and a.shape[0] % 8}  # the tile row that is not full
        q(db, "SELECT gx_append('A', ?)", from_numpy(new))
        a = np.concatenate([a, new])
        same(db, a)
        after = tiles(db)
        assert all(after[k] == before[k] for k in before if k < 9 or k not in last)
        assert sorted(after) == list(range(len(after)))
    assert meta(db)[4] == 3
    assert q(db, "SELECT value FROM gx_state WHERE key = 'format'") == 6
    q(db, "SELECT gx_append('A', ?, '{\"axis\":1}')", from_numpy(a[:, :9]))  # a new tile column
    a = np.concatenate([a, a[:, :9]], 1)
    same(db, a)
    q(db, "SELECT gx_delete_rows('A', ?)", from_numpy(np.arange(20.0, a.shape[0])))  # as many tile rows as are numbered down
    same(db, a[:20])
    assert meta(db)[4] == 0
    same_copy = get(db)
    q(db, "SELECT gx_store('B', 'A')")
    np.testing.assert_array_equal(get(db, "B"), same_copy)


def test_a_row_of_numbers_that_lies(db):
    q(db, "SELECT gx_config('tile_bytes', 512)")
    put(db, "A", np.ones((24, 20)))
    q(db, "SELECT gx_append('A', gx_ones(9, 20))")
    for down in (5, 6, 2**31 - 1):
        db.execute("UPDATE gx_meta SET properties = ? WHERE name = 'A'", (down << 32,))
        text = f"catalog row of A: {down} tile rows numbered down the columns in a matrix of 5x3 tiles"
        assert error(db, "SELECT gx_sum('A')") == "gx_sum: " + text
    db.execute("UPDATE gx_meta SET properties = ? WHERE name = 'A'", (3 << 32,))
    assert q(db, "SELECT gx_sum('A')") == 33 * 20
    db.execute("UPDATE gx_meta SET properties = ? WHERE name = 'A'", (2 << 32,))  # tiles are not where they belong
    assert q(db, "SELECT gx_check('A')") != "ok"


# 3. ------------------------------------------------------------------------------------------------

def written(db, sql, *params):
    q(db, "SELECT gx_stats_reset()")
    q(db, sql, *params)
    return q(db, "SELECT value FROM gx_stats WHERE name = 'bytes_written'")


@pytest.mark.parametrize("cols", [16, 2048])
def test_what_it_writes(filedb, cols):
    """A thousand rows more of many write what a thousand rows write, and the tile row that was not full."""
    row = 8 * cols
    q(filedb, "SELECT gx_config('tile_bytes', '1MiB')")
    q(filedb, "SELECT gx_store('A', gx_ones(?, ?))", 2**25 // cols, cols)
    height = meta(filedb)[2]
    new = from_numpy(np.ones((1000, cols)))
    for _ in range(3):
        rows = meta(filedb)[0]
        pages = q(filedb, "PRAGMA page_count")
        bytes = written(filedb, "SELECT gx_append('A', ?)", new)
        assert bytes == (1000 + rows % height) * row
        grown = (q(filedb, "PRAGMA page_count") - pages) * q(filedb, "PRAGMA page_size")
        assert grown <= bytes * 1.05 + 65536  # pages of the old tile row are free only then
    rows = meta(filedb)[0]
    assert q(filedb, "SELECT gx_sum('A')") == rows * cols
    tile_row = height * row
    assert written(filedb, "SELECT gx_set_rows('A', 5, ?)", from_numpy(np.zeros((1, cols)))) <= tile_row
    assert q(filedb, "SELECT gx_sum('A')") == (rows - 1) * cols
    behind = (rows - 1 - (rows - 100) // height * height) * row
    assert written(filedb, "SELECT gx_delete_rows('A', ?)", rows - 100) == behind
    assert q(filedb, "SELECT gx_check()") == "ok"


# 4. ------------------------------------------------------------------------------------------------

def change_all(db):
    q(db, "SELECT gx_append('A', gx_ones(30, 20))")
    q(db, "SELECT gx_append('A', gx_ones(60, 9), '{\"axis\":1}')")
    q(db, "SELECT gx_set_rows('A', '[3,50]', gx_ones(2, 29))")
    q(db, "SELECT gx_delete_rows('A', '[0,1,40]')")


def model_all(a):
    a = np.hstack([np.vstack([a, np.ones((30, 20))]), np.ones((60, 9))])
    a[[3, 50]] = 1
    return np.delete(a, [0, 1, 40], 0)


@pytest.fixture
def few(filedb):
    q(filedb, "SELECT gx_config('tile_bytes', 512)")
    a = np.random.default_rng(2).standard_normal((30, 20))
    put(filedb, "A", a)
    return filedb, a


def test_rollback(few):
    db, a = few
    before = db.execute("SELECT * FROM gx_meta").fetchall()
    db.execute("BEGIN")
    change_all(db)
    db.execute("SAVEPOINT s")
    change_all_again = model_all(a)
    same(db, change_all_again)
    q(db, "SELECT gx_append('A', 'A')")
    q(db, "SELECT gx_delete_rows('A', ?)", from_numpy(np.arange(50.0)))
    db.execute("ROLLBACK TO s")
    same(db, change_all_again)
    db.execute("ROLLBACK")
    same(db, a)
    assert db.execute("SELECT * FROM gx_meta").fetchall() == before
    db.execute("BEGIN")
    change_all(db)
    db.execute("COMMIT")
    same(db, model_all(a))


def test_in_statements_that_write(few):
    db, a = few
    db.execute("CREATE TABLE done(name)")
    db.execute("INSERT INTO done SELECT gx_append('A', gx_ones(1, 20)) FROM (VALUES (1), (2), (3))")
    a = np.vstack([a, np.ones((3, 20))])
    same(db, a)
    for way in ("INSERT INTO done SELECT gx_append('A', gx_ones(30, x)) FROM (SELECT 20 x UNION ALL SELECT 21)",
                "INSERT INTO done SELECT gx_delete_rows('A', x) FROM (SELECT '[0]' x UNION ALL SELECT '[99]')"):
        assert "gx_" in error(db, way)
        same(db, a)
    assert q(db, "SELECT count(*) FROM done") == 3


def test_other_connections(tmp_path):
    path = str(tmp_path / "a.db")
    db, other = gx_connect(path, journal_mode="wal"), gx_connect(path)
    q(db, "SELECT gx_store('A', gx_ones(100, 3))")
    other.execute("BEGIN")
    assert q(other, "SELECT gx_sum('A')") == 300
    q(db, "SELECT gx_append('A', gx_ones(50, 3))")
    assert q(other, "SELECT gx_sum('A')") == 300
    other.execute("COMMIT")
    assert q(other, "SELECT gx_sum('A')") == 450
    other.execute("BEGIN IMMEDIATE")
    assert "locked" in error(db, "SELECT gx_append('A', gx_ones(50, 3))")
    other.execute("ROLLBACK")
    same(db, np.ones((150, 3)))
    other.close()
    db.close()


def test_volumes(tmp_path):
    db = gx_connect(str(tmp_path / "a.db"))
    q(db, "SELECT gx_config('tile_bytes', 8192)")
    q(db, "SELECT gx_volumes(2)")
    rng = np.random.default_rng(3)
    a = rng.standard_normal((200, 50))
    put(db, "A", a)
    assert q(db, "SELECT count(*) FROM gx_extent") > 0
    for _ in range(12):
        a = step(db, rng, a)
        same(db, a)
    db.execute("BEGIN")
    for _ in range(4):
        step_of = step(db, rng, a)
        same(db, step_of)
        db.execute("ROLLBACK")
        same(db, a)
        db.execute("BEGIN")
    db.execute("COMMIT")
    q(db, "SELECT gx_volumes(0)")
    same(db, a)
    db.close()


def test_small_memory(filedb):
    """Three tiles: an operand of the matrix itself goes through the temporary database."""
    q(filedb, "SELECT gx_config('tile_bytes', '1MiB')")
    q(filedb, "SELECT gx_randn(3000, 400, 'A', '{\"seed\":1}')")
    a = get(filedb)
    q(filedb, "SELECT gx_config('memory_limit', '4MiB')")
    q(filedb, "SELECT gx_append('A', 'A')")
    q(filedb, "SELECT gx_delete_rows('A', '[0,1500,2999,4000]')")
    q(filedb, "SELECT gx_set_rows('A', '[5990,1]', gx_ones(2, 400))")
    q(filedb, "SELECT gx_config('memory_limit', '1GiB')")
    a = np.delete(np.vstack([a, a]), [0, 1500, 2999, 4000], 0)
    a[[5990, 1]] = 1
    same(filedb, a)


# 5. ------------------------------------------------------------------------------------------------

def test_operands(few):
    db, a = few
    q(db, "SELECT gx_store('B', ?)", from_numpy(np.round(8 * a[:3]).astype("f4") / 8))
    q(db, "SELECT gx_store('temp.T', gx_transpose('B'))")
    q(db, "SELECT gx_store('S', gx_sparse('B'))")
    b = np.round(8 * a[:3]) / 8
    for form in ("'B'", "gx_transpose('temp.T')", "'S'", "gx_copy('B')", "gx_json('B')", "gx_eval('B * 1')"):
        q(db, f"SELECT gx_append('A', {form})")
        a = np.vstack([a, b])
        same(db, a)
        q(db, f"SELECT gx_set_rows('A', '[-1,0,7]', {form})")
        a[[-1, 0, 7]] = b
        same(db, a)
    q(db, "SELECT gx_store('V', '[1,2,3]')")
    q(db, "SELECT gx_append('V', 4) || gx_append('V', '[5,6]')")
    q(db, "SELECT gx_set_rows('V', -1, 7)")
    same(db, np.array([[1.0], [2], [3], [4], [5], [7]]), "V")


def test_of_the_matrix_itself(few):
    db, a = few
    q(db, "SELECT gx_append('A', 'A')")
    a = np.vstack([a, a])
    same(db, a)
    q(db, "SELECT gx_append('A', 'A', '{\"axis\":1}')")
    a = np.hstack([a, a])
    same(db, a)
    q(db, "SELECT gx_set_rows('A', ?, 'A')", from_numpy(np.arange(60.0)[::-1]))
    a = a[::-1]
    same(db, a)
    q(db, "SELECT gx_block('P', '[[\"A\"],[\"A\"]]')")
    q(db, "SELECT gx_append('A', 'P')")
    np.testing.assert_array_equal(get(db), np.vstack([a, a, a]))
    assert error(db, "SELECT gx_sum('P')") == "gx_sum: the part 'A' of P is 180x40 and was 60x40 when P was made: make it again"


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_dtypes_become_the_matrix(db, dtype):
    put(db, "A", np.ones((2, 2), dtype))
    q(db, "SELECT gx_append('A', '[[0,1]]')")
    same(db, np.array([[1, 1], [1, 1], [0, 1]]).astype(dtype))
    if dtype.kind in "iub":
        text = error(db, "SELECT gx_append('A', '[[1,1],[1e30,1]]')")
        assert text.startswith("gx_append: element (1, 0) ") and "saturate" in text
        q(db, "SELECT gx_append('A', '[[1e30,1]]', '{\"saturate\":true}')")
        most = 1 if dtype == np.bool_ else 2**63 - 1024 if dtype == np.int64 else np.iinfo(dtype).max
        assert get(db)[3, 0] == most
    if dtype.kind != "c":
        assert "would lose the imaginary part" in error(db, "SELECT gx_append('A', '[[\"1+2i\",1]]')")


def test_whole_numbers_keep_their_digits(db):
    big = np.array([[2**62 + 1, -(2**61) - 3]])
    put(db, "A", big)
    q(db, "SELECT gx_append('A', ?)", from_numpy(big + 1))
    q(db, "SELECT gx_append('A', 'A')")
    q(db, "SELECT gx_set_rows('A', 0, ?)", from_numpy(big + 7))
    same(db, np.vstack([big + 7, big + 1, big, big + 1]))
    put(db, "F", np.ones((1, 2)))
    assert "round" in error(db, "SELECT gx_append('F', ?)", from_numpy(big))
    q(db, "SELECT gx_append('F', ?, '{\"round\":true}')", from_numpy(big))
    same(db, np.vstack([np.ones((1, 2)), big.astype("f8")]), "F")


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i4"])
def test_sparse(filedb, dtype):
    """Panels are added; the last one is written again where it is not half full."""
    rng = np.random.default_rng(5)
    q(filedb, "SELECT gx_config('tile_bytes', 2048)")
    def rows(count):
        return matrix(rng, np.dtype(dtype), count, 30) * (rng.random((count, 30)) < 0.2)
    def check():
        assert (to_numpy(q(filedb, "SELECT gx_dense('A')")) == a).all() and q(filedb, "SELECT gx_check()") == "ok"
        assert q(filedb, "SELECT nnz FROM gx WHERE name = 'A'") == np.count_nonzero(a)
    a = rows(50).astype(dtype)
    q(filedb, "SELECT gx_sparse(?, 'A')", from_numpy(a))
    for k in range(12):
        new = rows([1, 1, 0, 7, 40, 1][k % 6]).astype(dtype)
        before = dict(filedb.execute("SELECT id, data FROM gx_tile"))
        q(filedb, "SELECT gx_append('A', " + ("gx_sparse(?)" if k % 2 else "?") + ")", from_numpy(new))
        a = np.vstack([a, new])
        check()
        after = dict(filedb.execute("SELECT id, data FROM gx_tile"))
        assert sum(after[tile] != data for tile, data in before.items()) <= 1
    q(filedb, "SELECT gx_append('A', 'A')")
    a = np.vstack([a, a])
    check()
    filedb.execute("BEGIN")
    q(filedb, "SELECT gx_append('A', gx_ones(5, 30))")
    filedb.execute("ROLLBACK")
    check()
    q(filedb, "SELECT gx_sparse(?, 'E')", from_numpy(a[:0]))
    q(filedb, "SELECT gx_append('E', 'A')")
    assert (to_numpy(q(filedb, "SELECT gx_dense('E')")) == a).all() and q(filedb, "SELECT gx_check()") == "ok"


# 6. ------------------------------------------------------------------------------------------------

def test_refused(few):
    db, a = few
    q(db, "SELECT gx_store('S', gx_sparse('[[1,0],[0,1]]'))")
    q(db, "SELECT gx_lu('[[1,2],[3,4]]', 'L')")
    q(db, "SELECT gx_block('P', '[[\"A\"],[\"A\"]]')")
    q(db, "SELECT gx_quantize('A', 'i8', 'Q')")
    for sql in ["gx_append('X', '[[1]]')", "gx_append('[1]', '[1]')", "gx_append('A', '[[1,2]]')", "gx_append('A', 1, '{\"axis\":1}')",
                "gx_append('A', gx_ones(1, 20), '{\"axis\":2}')", "gx_append('A', gx_ones(1, 20), '{\"rows\":2}')",
                "gx_append('A', NULL)", "gx_append(NULL, '[1]')", "gx_append('S', '[[1,2,3]]')", "gx_append('S', '[1,2]', '{\"axis\":1}')", "gx_set_rows('S', 0, '[[1,2]]')", "gx_append('L', '[[1,2]]')",
                "gx_append('P', gx_ones(1, 20))", "gx_append('Q', gx_ones(1, 20))", "gx_delete_rows('A', '[30]')",
                "gx_delete_rows('A', '[-31]')", "gx_delete_rows('A', '[1.5]')", "gx_delete_rows('A', '[\"1+2i\"]')",
                "gx_delete_rows('A', 'nothing')", "gx_delete_rows('S', '[0]')", "gx_set_rows('A', '[1,1]', gx_ones(2, 20))",
                "gx_set_rows('A', '[1,2]', gx_ones(1, 20))", "gx_set_rows('A', '[1,2]', gx_ones(2, 19))",
                "gx_set_rows('A', '[1,-29]', gx_ones(2, 20))", "gx_append('A', gx_zeros(0, 19))",
                "gx_set_rows('L', '[0]', '[[1,2]]')"]:
        text = error(db, "SELECT " + sql)
        assert text.startswith(sql.split("(")[0] + ": "), text
    same(db, a)
