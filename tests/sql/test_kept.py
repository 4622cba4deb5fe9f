"""Small stored matrices that stay in memory from call to call (core/mat/kept.c).

Plan:
- the second call reads nothing, and gives the same bits as the first, whatever asks: searches, sums, products, slices of
  rows and of columns, in f32, f64, i8; kept in WAL mode as well as without;
- a matrix that has changed is read again: written by this connection, in a transaction, rolled back, by another
  connection, replaced under its name, in another file under the same schema;
- the same matrix twice in a call; a statement inside of a statement; several threads that read one tile;
- what is too small, too large, sparse, temporary or within a small memory_limit is read as before;
- a tile that cannot be read fails each time, and what was kept of it is no answer.
"""
import sqlite3

import numpy as np
import pytest

from conftest import error, from_numpy, gx_connect, q, to_numpy


def stat(db, name):
    return q(db, "SELECT value FROM gx_stats WHERE name = ?", name)


def reading(db, sql):
    """What the statement gives, and the bytes that it read."""
    before = stat(db, "bytes_read")
    rows = db.execute(sql).fetchall()
    return rows, stat(db, "bytes_read") - before


def connect(tmp_path, name="a.db", journal="wal"):
    db = gx_connect(tmp_path / name)
    db.execute(f"PRAGMA journal_mode = {journal}").fetchall()
    return db


ASKED = (
    "SELECT gx_norm('A')",
    "SELECT gx_eval('A @ x')",
    "SELECT gx_eval('sum(A, 0)')",
    "SELECT gx_eval('sum(A, 1)')",
    "SELECT gx_slice('A', 100, 900, 10, 50)",
    "SELECT * FROM gx_knn('q', 'A', 5)",
    "SELECT gx_kmeans('A', 3)",
    "SELECT gx_transpose('A')",
    "SELECT gx_matmul('A', 'A', '{\"transa\":true}')",
)


@pytest.mark.parametrize("journal", ["wal", "delete"])
@pytest.mark.parametrize("dtype", ["f64", "f32", "i8"])
def test_second_call(tmp_path, dtype, journal):
    db = connect(tmp_path, journal=journal)
    rows, cols = 9001, 130
    numbers = np.random.default_rng(1).integers(-9, 9, (rows, cols)) if dtype == "i8" else np.random.default_rng(1).standard_normal((rows, cols))
    q(db, "SELECT gx_config('tile_bytes', 400000)")
    q(db, "SELECT gx_copy(?, 'A', ?)", from_numpy(numbers.astype(np.float64)), f'{{"dtype":"{dtype}"}}')
    q(db, "SELECT gx_randn(130, 1, 'x')")
    q(db, "SELECT gx_randn(2, 130, 'q')")
    first = [db.execute(sql).fetchall() for sql in ASKED]
    for sql, want in zip(ASKED, first):
        got, read = reading(db, sql)
        assert got == want and read < 3000, sql  # x and q are read
    assert stat(db, "kept_bytes") > rows * cols
    db.close()


def test_strips_of_many_threads(tmp_path):
    """One tile by columns, of which each thread reads a strip of rows: a sixteenth of it, from its first column to its last."""
    db = connect(tmp_path)
    db.execute("SELECT gx_config('threads', 16), gx_config('readers', 4)").fetchall()
    q(db, "SELECT gx_randn(20000, 64, 'E', '{\"dtype\":\"f32\"}')")
    q(db, "SELECT gx_randn(1, 64, 'q', '{\"dtype\":\"f32\"}')")
    ask = "SELECT * FROM gx_knn('q', 'E', 10)"
    first, read = reading(db, ask)
    assert read > 4 * 20000 * 64
    got = [reading(db, ask) for _ in range(3)]
    assert all(rows == first for rows, _ in got) and got[-1][1] < 3000
    db.close()


def test_changes(tmp_path):
    db = connect(tmp_path)
    other = gx_connect(tmp_path / "a.db")
    ask = "SELECT gx_eval('sum(A)')"
    whole = np.arange(1200 * 300, dtype=float).reshape(1200, 300)
    q(db, "SELECT gx_copy(?, 'A')", from_numpy(whole))
    total = whole.sum()
    assert q(db, ask) == total and reading(db, ask) == ([(total,)], 0)

    db.execute("CREATE VIRTUAL TABLE temp.cell USING gx_cells(A)").fetchall()
    db.execute("UPDATE cell SET value = value + 5 WHERE i = 7 AND j = 9").fetchall()
    assert q(db, ask) == total + 5 and reading(db, ask) == ([(total + 5,)], 0)

    db.execute("BEGIN").fetchall()
    q(db, "SELECT gx_set_rows('A', 3, gx_ones(1, 300))")
    changed = total + 5 - whole[3].sum() + 300
    assert q(db, ask) == q(db, ask) == changed
    db.execute("ROLLBACK").fetchall()
    assert q(db, ask) == total + 5

    q(other, "SELECT gx_set_rows('A', 3, gx_ones(1, 300))")
    assert q(db, ask) == changed and q(db, ask) == changed
    q(db, "SELECT gx_append('A', gx_ones(2, 300))")
    assert q(db, ask) == changed + 600
    q(db, "SELECT gx_full(1200, 300, 2, 'A', '{\"replace\":true}')")
    assert q(db, ask) == q(db, ask) == 720000
    db.execute("DELETE FROM gx WHERE name = 'A'").fetchall()
    assert "no matrix" in error(db, ask)
    other.close()
    db.close()


def test_other_files(tmp_path):
    for k in (1, 2):
        made = connect(tmp_path, f"{k}.db")
        q(made, f"SELECT gx_full(700, 300, {k}, 'A')")
        made.close()
    db = connect(tmp_path)
    for k in (1, 2, 1):
        db.execute(f"ATTACH '{tmp_path}/{k}.db' AS x").fetchall()
        for _ in range(2):
            assert q(db, "SELECT gx_eval('sum(x.A)')") == 210000 * k
        db.execute("DETACH x").fetchall()
    db.close()


def test_twice_and_inside(tmp_path):
    db = connect(tmp_path)
    q(db, "SELECT gx_randn(1500, 200, 'A')")
    want = q(db, "SELECT gx_eval('sum(A * A) + trace(A.T @ A)')")
    for _ in range(3):
        assert q(db, "SELECT gx_eval('sum(A * A) + trace(A.T @ A)')") == want
    seen = []
    db.create_function("progress", -1, lambda *a: seen.append(q(db, "SELECT gx_norm('A')")) or 0)
    norm = q(db, "SELECT gx_norm('A')")
    rows = db.execute("SELECT gx_norm('A'), gx_eval('sum(A)'), gx_norm((SELECT 'A'))").fetchall()
    assert rows[0][0] == rows[0][2] == norm
    with_cursor = db.execute("SELECT * FROM gx_svd('A', '{\"k\":3}')")
    first = with_cursor.fetchone()
    assert q(db, "SELECT gx_norm('A')") == norm
    assert [first, *with_cursor.fetchall()] == db.execute("SELECT * FROM gx_svd('A', '{\"k\":3}')").fetchall()
    db.close()


def test_not_kept(tmp_path):
    db = connect(tmp_path)
    q(db, "SELECT gx_ones(300, 300, 'small')")
    q(db, "SELECT gx_ones(1500, 1500, 'large')")  # 18 MB
    q(db, "SELECT gx_ones(600, 600, 'temp.T')")
    q(db, "SELECT gx_ones(600, 600, 'A')")
    for name, size in (("small", 300**2), ("large", 1500**2), ("temp.T", 600**2)):
        for _ in range(2):
            rows, read = reading(db, f"SELECT gx_norm('{name}')")
            assert rows == [(size**0.5,)] and read == 8 * size
    q(db, "SELECT gx_config('memory_limit', ?)", 28 << 20)
    assert all(reading(db, "SELECT gx_eval('sum(A)')")[1] in (0, 8 * 600**2) for _ in range(3))
    q(db, "SELECT gx_config('tile_bytes', ?)", 1 << 20)
    q(db, "SELECT gx_config('memory_limit', ?)", 9 << 20)
    for _ in range(2):
        assert reading(db, "SELECT gx_eval('sum(A)')") == ([(600**2,)], 8 * 600**2)
    db.close()


def test_damage(tmp_path):
    db = connect(tmp_path, journal="delete")
    q(db, "SELECT gx_config('tile_bytes', 400000)")
    q(db, "SELECT gx_randn(1200, 300, 'A')")
    want = q(db, "SELECT gx_norm('A')")
    db.close()
    raw = sqlite3.connect(tmp_path / "a.db")
    kept = raw.execute("SELECT rowid, data FROM gx_tile ORDER BY rowid DESC LIMIT 1").fetchone()
    raw.execute("DELETE FROM gx_tile WHERE rowid = ?", kept[:1])
    raw.commit()
    db = connect(tmp_path, journal="delete")
    for _ in range(3):
        assert "tile" in error(db, "SELECT gx_norm('A')")
    raw.execute("INSERT INTO gx_tile(rowid, data) VALUES (?, ?)", kept)
    raw.commit()
    raw.close()
    assert q(db, "SELECT gx_norm('A')") == q(db, "SELECT gx_norm('A')") == want
    assert to_numpy(q(db, "SELECT gx_slice('A', 1190, 1200, 290, 300)")).shape == (10, 10)
    db.close()
