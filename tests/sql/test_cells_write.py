"""Writing matrices as rows: INSERT, UPDATE, DELETE on tables made of gx_cells and gx_rows, and gx_set().

Plan:
- each statement does what it says, for every dtype; NaN parts that an UPDATE leaves alone stay;
- random statements, transactions and savepoints against a NumPy model, with small batches and large;
- every refused row in words, with nothing changed; OR IGNORE, OR FAIL, OR REPLACE, OR ROLLBACK;
- moves: the cell left becomes zero, an occupied one is a conflict;
- the batch: many cells cost few tile writes, one generation, and everybody sees them at once;
- statement atomicity inside a transaction, also where the table is in another schema than the matrix;
- the table is a view: rename, drop, missing matrix, .dump; read-only databases; other connections.
"""
import random
import shutil
import sqlite3
import subprocess

import numpy as np
import pytest
from conftest import error, from_numpy, gx_connect, gx_path, q, to_numpy
from test_cells import DTYPES, cells, make, memory, store

SEED = 20240612


def read(db, name="A"):
    """The matrix as its tiles have it (looking at the catalog writes waiting cells out)."""
    m, n, h, w, dtype = db.execute(
        "SELECT rows, cols, tile_rows, tile_cols, dtype FROM gx WHERE name = ?", (name,)).fetchone()
    dtype = np.dtype({"f64": "f8", "f32": "f4", "c128": "c16", "c64": "c8"}[dtype])
    first = q(db, "SELECT id << 32 FROM main.gx_meta WHERE name = ?", name)
    A = np.empty((m, n), dtype)
    for j in range(0, n, w):
        for i in range(0, m, h):
            data = q(db, "SELECT data FROM main.gx_tile WHERE id = ?", first)
            first += 1
            tile = np.frombuffer(data, dtype)
            A[i:i + h, j:j + w] = tile.reshape((min(w, n - j), min(h, m - i))).T
    return A


def meta(db, name="A"):
    return dict(zip(("generation", "properties"),
                    db.execute("SELECT generation, properties FROM gx WHERE name = ?", (name,)).fetchone()))


def written(db):
    return dict(db.execute("SELECT name, value FROM gx_stats WHERE name IN ('tiles_written', 'bytes_written')"))


def statement(db, sql, *params):
    """The number of rows changed."""
    return db.execute(sql, params).rowcount


@pytest.fixture
def a(db):
    """A 40 x 30 in 16 x 16 tiles as the table a."""
    store(db, "A", make(40, 30))
    db.execute("CREATE VIRTUAL TABLE a USING gx_cells('A')")
    return db


# ---- what each statement does -----------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", DTYPES)
def test_statements(db, dtype):
    A = store(db, "A", make(40, 30, dtype))
    is_complex = A.dtype.kind == "c"
    db.execute("CREATE VIRTUAL TABLE a USING gx_cells('A')")
    assert statement(db, "INSERT INTO a(i, j, value) VALUES(3, 4, 7.5), (39, 29, -1)") == 2
    A[3, 4], A[39, 29] = 7.5, -1
    assert statement(db, "UPDATE a SET value = 2 * value WHERE i > 20 AND j = 5") == 19
    A[21:, 5] = 2 * A[21:, 5].real + 1j * A[21:, 5].imag if is_complex else 2 * A[21:, 5]
    assert statement(db, "DELETE FROM a WHERE j = 7") == 40
    A[:, 7] = 0
    assert statement(db, "UPDATE a SET value = 11 WHERE rowid = 6") == 1
    A[6, 0] = 11 + (1j * A[6, 0].imag if is_complex else 0)
    if is_complex:
        assert statement(db, "UPDATE a SET imag = i WHERE j = 1") == 40
        A[:, 1] = A[:, 1].real + 1j * np.arange(40)
        assert statement(db, "INSERT INTO a VALUES(0, 0, 1, 2)") == 1
        A[0, 0] = 1 + 2j
    got = read(db)
    assert got.dtype == A.dtype and (got == A).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_statements_on_rows(db, dtype):
    A = store(db, "A", make(20, 30, dtype))
    db.execute("CREATE VIRTUAL TABLE a USING gx_rows('A')")
    new = make(3, 30, dtype, seed=5)
    assert statement(db, "INSERT INTO a VALUES(3, ?)", from_numpy(new[:1])) == 1
    A[3] = new[0]
    assert statement(db, "UPDATE a SET row = ? WHERE i > 16", from_numpy(new[1:2])) == 3
    A[17:] = new[1]
    assert statement(db, "DELETE FROM a WHERE i = 0") == 1
    A[0] = 0
    assert statement(db, "UPDATE a SET row = ? WHERE rowid = 1", str(list(range(30)))) == 1
    A[1] = np.arange(30)
    row = "gx_from_bytes(?, 'c64')" if dtype == "c8" else "?"  # 8 bytes a number might be f64
    assert statement(db, f"INSERT OR REPLACE INTO a VALUES(2, {row})", new[2].tobytes()) == 1
    A[2] = new[2]
    assert statement(db, "UPDATE a SET i = 0 WHERE i = 2") == 1
    A[0], A[2] = A[2], 0
    assert (read(db) == A).all()


def test_f32_rounds_and_overflows_as_ieee(db):
    store(db, "A", make(2, 2, "f4"))
    db.execute("CREATE VIRTUAL TABLE a USING gx_cells('A')")
    db.execute("INSERT INTO a(i, j, value) VALUES(0, 0, 0.1), (1, 1, 1e300)")
    assert q(db, "SELECT value FROM a WHERE i = 0 AND j = 0") == float(np.float32(0.1))
    assert q(db, "SELECT value FROM a WHERE i = 1 AND j = 1") == float("inf")


def test_numbers_in_text_are_numbers(a):
    """The shell's .import gives text."""
    a.execute("INSERT INTO a VALUES('1', ' 2 ', '3.5', '0')")
    a.execute("INSERT INTO a(i, j, value) VALUES(1.0, '2e0', '-1e-3')")
    assert q(a, "SELECT value FROM a WHERE i = 1 AND j = 2") == -0.001


def test_an_update_keeps_a_nan_it_leaves_alone(db):
    A = store(db, "A", np.array([[complex(np.nan, 1), 2j], [3, complex(4, np.nan)]]))
    db.execute("CREATE VIRTUAL TABLE a USING gx_cells('A')")
    db.execute("UPDATE a SET imag = 9 WHERE i = 0 AND j = 0")
    db.execute("UPDATE a SET value = 5 WHERE i = 1")
    db.execute("UPDATE OR REPLACE a SET j = 0 WHERE i = 1 AND j = 1")
    got = read(db)
    assert np.isnan(got[0, 0].real) and got[0, 0].imag == 9
    assert got[1, 0].real == 5 and np.isnan(got[1, 0].imag) and got[1, 1] == 0 and got[0, 1] == A[0, 1]


def test_from_and_into_other_tables(a):
    A = read(a)
    a.execute("CREATE TABLE t(i, j, value)")
    a.execute("INSERT INTO t SELECT i, j, value * 10 FROM a WHERE j < 3")
    assert statement(a, "INSERT INTO a(i, j, value) SELECT i, j, value FROM t") == 120
    A[:, :3] *= 10
    assert (read(a) == A).all()
    a.execute("INSERT INTO a(i, j, value) SELECT i, j, value + 1 FROM a")  # reads itself: SQLite keeps the rows first
    assert (read(a) == A + 1).all()
    assert statement(a, "UPDATE a SET value = t.value FROM t WHERE t.i = a.i AND t.j = a.j AND a.j = 2") == 40
    A += 1
    A[:, 2] -= 1
    assert (read(a) == A).all()


# ---- against a model ----------------------------------------------------------------------------------------------

def random_where(rng, A):
    """SQL and the mask of the cells it picks."""
    m, n = A.shape
    i, j = np.indices(A.shape)
    kind = rng.randrange(6)
    x, y = rng.randrange(m), rng.randrange(n)
    return [(f"i = {x} AND j = {y}", (i == x) & (j == y)), (f"i = {x}", i == x), (f"j = {y}", j == y),
            (f"i > {x} AND j <= {y}", (i > x) & (j <= y)), (f"value < {x}", A < x),
            (f"rowid = {y * m + x}", (i == x) & (j == y))][kind]


def random_change(rng, db, A):
    """One statement on the table and the same on the model."""
    kind = rng.randrange(5)
    if kind == 0:
        rows = [(rng.randrange(A.shape[0]), rng.randrange(A.shape[1]), rng.randrange(100) / 4)
                for _ in range(rng.choice([1, 3, 200]))]
        db.executemany("INSERT INTO a(i, j, value) VALUES(?, ?, ?)", rows)
        for i, j, value in rows:
            A[i, j] = value
    elif kind == 1:
        where, mask = random_where(rng, A)
        db.execute(f"DELETE FROM a WHERE {where}")
        A[mask] = 0
    elif kind == 2:
        where, mask = random_where(rng, A)
        db.execute(f"UPDATE a SET value = 1 - value / 2 WHERE {where}")
        A[mask] = 1 - A[mask] / 2
    elif kind == 3:
        i = rng.randrange(A.shape[0])
        db.execute("INSERT INTO r VALUES(?, ?)", (i, str([float(i + k) for k in range(A.shape[1])])))
        A[i] = i + np.arange(A.shape[1])
    else:  # fails half-way: nothing of it stays
        i = rng.randrange(A.shape[0])
        text = error(db, "INSERT INTO a(i, j, value) SELECT ?, value, 1e6 FROM t ORDER BY rowid", i)
        if not db.in_transaction and text == "query aborted":
            return False  # where cells were written out into another schema: see test_a_failed_statement_leaves_nothing
        assert text == f"gx_cells: a: j = {A.shape[1]} is outside 0..{A.shape[1] - 1}"
    return True


@pytest.mark.parametrize("limit", [66304 + 3 * 2048, 1 << 30], ids=["tight", "ample"])
@pytest.mark.parametrize("where", ["main", "temp"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_changes(tmp_path, limit, where, seed):
    """Statements, savepoints, rollbacks, and looks from everywhere in between; the tables beside the matrix or not."""
    rng = random.Random(SEED + seed)
    print("seed", SEED + seed)
    db = gx_connect(str(tmp_path / "test.db"), synchronous="off")
    A = store(db, "A", make(40, 30))
    db.execute("SELECT gx_config('memory_limit', ?)", (limit,)).fetchall()
    db.execute(f"CREATE VIRTUAL TABLE {where}.a USING gx_cells('main.A')")
    db.execute(f"CREATE VIRTUAL TABLE {where}.r USING gx_rows('main.A')")
    db.execute("CREATE TABLE t(value)")
    db.executemany("INSERT INTO t VALUES(?)", [(j,) for j in [*range(30), 30]])
    used = memory(db)
    stack = []  # (name, copy of the model)
    for step in range(250):
        kind = rng.random()
        if kind < 0.5:
            if not random_change(rng, db, A):
                A, stack = stack[0], []
        elif kind < 0.6:
            stack.append(A.copy())
            db.execute("BEGIN" if len(stack) == 1 else f"SAVEPOINT s{len(stack)}")
        elif kind < 0.65 and stack:
            stack = []
            db.execute("COMMIT")
        elif kind < 0.7 and stack:
            A = stack[0]
            stack = []
            db.execute("ROLLBACK")
        elif kind < 0.8 and len(stack) > 1:
            level = rng.randrange(1, len(stack))
            db.execute(f"ROLLBACK TO s{level + 1}")
            A = stack[level].copy()
            del stack[level + 1:]
        elif kind < 0.85 and len(stack) > 1:
            level = rng.randrange(1, len(stack))
            db.execute(f"RELEASE s{level + 1}")
            del stack[level:]
        elif kind < 0.9:
            assert (read(db) == A).all(), step
        elif kind < 0.95:
            assert sorted(db.execute("SELECT i, j, value, imag FROM a")) == cells(A), step
        else:
            i, j = rng.randrange(40), rng.randrange(30)
            assert q(db, "SELECT gx_get('A', ?, ?)", i, j) == A[i, j], step
    if stack:
        db.execute("COMMIT")
    assert (read(db) == A).all()
    assert memory(db) == used
    assert q(db, "SELECT gx_check('A')") == "ok" and q(db, "PRAGMA integrity_check") == "ok"
    db.close()
    db = gx_connect(str(tmp_path / "test.db"))
    assert (read(db) == A).all()
    db.close()


# ---- refused rows -------------------------------------------------------------------------------------------------

REFUSED = [
    ("INSERT INTO a(i, j, value) VALUES(40, 0, 1)", "i = 40 is outside 0..39"),
    ("INSERT INTO a(i, j, value) VALUES(0, 30, 1)", "j = 30 is outside 0..29"),
    ("INSERT INTO a(i, j, value) VALUES(-1, 0, 1)", "i = -1 is outside 0..39"),
    ("INSERT INTO a(i, j, value) VALUES(9e30, 0, 1)", "i = 9e+30 is outside 0..39"),
    ("INSERT INTO a(i, j, value) VALUES(2.5, 0, 1)", "i = 2.5 is not an integer"),
    ("INSERT INTO a(i, j, value) VALUES('x', 0, 1)", "i is 'x', not an integer"),
    ("INSERT INTO a(i, j, value) VALUES(x'31', 0, 1)", "i is a blob of 1 bytes, not an integer"),
    ("INSERT INTO a(j, value) VALUES(0, 1)", "i is NULL"),
    ("INSERT INTO a(i, value) VALUES(0, 1)", "j is NULL"),
    ("INSERT INTO a(i, j) VALUES(0, 0)", "value is NULL"),
    ("INSERT INTO a(i, j, value) VALUES(0, 0, 'one')", "value is 'one', not a number"),
    ("INSERT INTO a(i, j, value) VALUES(0, 0, '1 2')", "value is '1 2', not a number"),
    ("INSERT INTO a(i, j, value) VALUES(0, 0, x'3132')", "value is a blob of 2 bytes, not a number"),
    ("INSERT INTO a VALUES(0, 0, 1, 0.5)", "imag = 0.5, but A is real (f64)"),
    ("INSERT INTO a VALUES(0, 0, 1, 'i')", "imag is 'i', not a number"),
    ("INSERT INTO a(rowid, i, j, value) VALUES(0, 0, 0, 1)", "the rowid follows from i and j and cannot be set"),
    ("UPDATE a SET value = NULL WHERE i = 1", "value is NULL"),
    ("UPDATE a SET imag = 1 WHERE i = 1", "imag = 1.0, but A is real (f64)"),
    ("UPDATE a SET i = 40 WHERE i = 1 AND j = 1", "i = 40 is outside 0..39"),
    ("UPDATE a SET rowid = 9 WHERE i = 1 AND j = 1", "the rowid follows from i and j and cannot be set"),
    ("UPDATE a SET value = 1 / 0", "value is NULL"),
]


@pytest.mark.parametrize("sql, text", REFUSED)
def test_refused_cells(a, sql, text):
    before = read(a), meta(a)
    for begin, end in (("SELECT 1", "SELECT 1"), ("BEGIN", "COMMIT")):
        a.execute(begin)
        with pytest.raises(sqlite3.IntegrityError) as problem:
            a.execute(sql)
        a.execute(end)
        assert str(problem.value) == "gx_cells: a: " + text
        assert (read(a) == before[0]).all() and meta(a) == before[1]


@pytest.mark.parametrize("sql, text", [
    ("INSERT INTO r VALUES(40, '[1]')", "i = 40 is outside 0..39"),
    ("INSERT INTO r VALUES(NULL, '[1]')", "i is NULL"),
    ("INSERT INTO r VALUES(0, '[1,2,3]')", "row has 3 elements, but A has 30 columns"),
    ("INSERT INTO r VALUES(0, NULL)", "row is NULL"),
    ("INSERT INTO r(i) VALUES(0)", "row is NULL"),
    ("INSERT INTO r(rowid, i, row) VALUES(0, 0, '[1]')", "the rowid follows from i and cannot be set"),
])
def test_refused_rows(a, sql, text):
    a.execute("CREATE VIRTUAL TABLE r USING gx_rows('A')")
    before = read(a), meta(a)
    assert error(a, sql) == "gx_rows: r: " + text
    assert (read(a) == before[0]).all() and meta(a) == before[1]


def test_the_function_cannot_be_written(a):
    text = ": a function's rows cannot be written; those of a virtual table USING "
    assert error(a, "INSERT INTO gx_cells(matrix, i, j, value) VALUES('A', 0, 0, 1)") == \
        "gx_cells" + text + "gx_cells('A') can"
    assert error(a, "DELETE FROM gx_rows WHERE matrix = 'A'") == "gx_rows" + text + "gx_rows('A') can"


def test_empty_matrices_have_no_cells_to_set(db):
    db.execute("SELECT gx_zeros(0, 3, 'E'), gx_zeros(3, 0, 'F')").fetchall()
    db.execute("CREATE VIRTUAL TABLE e USING gx_cells('E')")
    db.execute("CREATE VIRTUAL TABLE f USING gx_cells('F')")
    db.execute("CREATE VIRTUAL TABLE g USING gx_rows('F')")
    assert error(db, "INSERT INTO e(i, j, value) VALUES(0, 0, 1)") == \
        "gx_cells: e: i = 0, but the matrix has no rows"
    assert error(db, "INSERT INTO f(i, j, value) VALUES(0, 0, 1)") == \
        "gx_cells: f: j = 0, but the matrix has no columns"
    db.execute("INSERT INTO g VALUES(1, '[]')")
    assert statement(db, "DELETE FROM e") == 0 and statement(db, "DELETE FROM g") == 3


def test_conflict_clauses(a):
    A = read(a)
    values = "VALUES(0, 0, 5), (0, 99, 6), (0, 1, 7)"
    a.execute(f"INSERT OR IGNORE INTO a(i, j, value) {values}")
    A[0, 0], A[0, 1] = 5, 7
    assert (read(a) == A).all()
    values = values.replace("5", "15").replace("7", "17")
    error(a, f"INSERT INTO a(i, j, value) {values}")
    assert (read(a) == A).all()
    error(a, f"INSERT OR FAIL INTO a(i, j, value) {values}")
    A[0, 0] = 15  # what came before the bad row stays
    assert (read(a) == A).all()
    a.execute("BEGIN")
    a.execute("UPDATE a SET value = 99 WHERE i = 3")
    error(a, f"INSERT OR ROLLBACK INTO a(i, j, value) {values.replace('15', '16')}")
    assert not a.in_transaction and (read(a) == A).all()


# ---- moves --------------------------------------------------------------------------------------------------------

def test_moves(a):
    A = read(a)
    A[5, 5], A[6, 6] = 3, 0
    a.execute("INSERT INTO a(i, j, value) VALUES(5, 5, 3), (6, 6, 0)")
    a.execute("UPDATE a SET i = 6, j = 6 WHERE i = 5 AND j = 5")
    A[6, 6], A[5, 5] = 3, 0
    assert (read(a) == A).all()
    a.execute("UPDATE a SET i = 5, j = 5, value = value + 1 WHERE i = 6 AND j = 6")
    A[5, 5], A[6, 6] = 4, 0
    assert (read(a) == A).all()
    A[7, 7] = 8
    a.execute("INSERT INTO a(i, j, value) VALUES(7, 7, 8)")
    assert error(a, "UPDATE a SET i = 7, j = 7 WHERE i = 5 AND j = 5") == \
        "gx_cells: a: cell (7, 7) is not zero: UPDATE OR REPLACE moves there"
    a.execute("UPDATE OR IGNORE a SET i = 7, j = 7 WHERE i = 5 AND j = 5")
    assert (read(a) == A).all()
    a.execute("UPDATE OR REPLACE a SET i = 7, j = 7 WHERE i = 5 AND j = 5")
    A[7, 7], A[5, 5] = 4, 0
    assert (read(a) == A).all()


def test_moves_of_many_cells(a):
    """Into an empty half; a clash anywhere undoes the statement."""
    a.execute("DELETE FROM a WHERE i >= 20")
    A = read(a)
    assert statement(a, "UPDATE a SET i = i + 20 WHERE i < 20") == 600
    assert (read(a) == np.roll(A, 20, axis=0)).all()
    a.execute("BEGIN")
    assert "is not zero" in error(a, "UPDATE a SET i = i - 1 WHERE i > 0 AND j = 3 AND i <> 25")
    a.execute("COMMIT")
    assert (read(a) == np.roll(A, 20, axis=0)).all()


def test_moves_of_rows(a):
    a.execute("CREATE VIRTUAL TABLE r USING gx_rows('A')")
    A = read(a)
    assert error(a, "UPDATE r SET i = 1 WHERE i = 0") == \
        f"gx_rows: r: cell (1, {np.flatnonzero(A[1])[0]}) is not zero: UPDATE OR REPLACE moves there"
    a.execute("UPDATE OR REPLACE r SET i = 1 WHERE i = 0")
    A[1], A[0] = A[0], 0
    assert (read(a) == A).all()
    a.execute("UPDATE r SET i = 0 WHERE i = 1")
    A[0], A[1] = A[1], 0
    assert (read(a) == A).all()


# ---- the batch ----------------------------------------------------------------------------------------------------

def test_many_cells_cost_few_tile_writes_and_one_generation(a):
    before, generation = written(a), meta(a)["generation"]
    a.execute("BEGIN")
    rng = random.Random(SEED)
    order = [(i, j) for i in range(40) for j in range(30)]
    rng.shuffle(order)
    a.executemany("INSERT INTO a(i, j, value) VALUES(?, ?, ?)", [(i, j, i * 100 + j) for i, j in order])
    assert written(a) == before  # all of it waits
    a.execute("COMMIT")
    after = written(a)
    assert after["tiles_written"] - before["tiles_written"] == 6
    assert after["bytes_written"] - before["bytes_written"] == 1200 * 8
    assert meta(a)["generation"] == generation + 1
    assert (read(a) == np.arange(40)[:, None] * 100 + np.arange(30)).all()


def test_single_updates_wait_too(a):
    before = written(a)
    a.execute("BEGIN")
    for k in range(300):
        a.execute("UPDATE a SET value = ? WHERE i = ? AND j = ?", (k, k % 40, k % 30))
    assert written(a) == before
    a.execute("COMMIT")
    assert written(a)["tiles_written"] - before["tiles_written"] <= 6


def test_everybody_sees_waiting_cells(a):
    a.execute("CREATE VIRTUAL TABLE r USING gx_rows('A')")
    looks = [
        ("SELECT gx_get('A', 3, 4)", None), ("SELECT value FROM gx_cells('A') WHERE i = 3 AND j = 4", None),
        ("SELECT value FROM a WHERE i = 3 AND j = 4", None), ("SELECT row FROM r WHERE i = 3", lambda x: to_numpy(x)[0, 4]),
        ("SELECT gx_slice('A', 3, 4, 0, 30)", lambda x: to_numpy(x)[0, 4]), ("SELECT gx_add('A', 0)", lambda x: to_numpy(x)[3, 4]),
    ]
    a.execute("BEGIN")
    for k, (sql, look) in enumerate(looks):
        a.execute("INSERT INTO a(i, j, value) VALUES(3, 4, ?)", (k + 1000,))
        got = q(a, sql)
        assert (look(got) if look else got) == k + 1000, sql
    a.execute("INSERT INTO a(i, j, value) VALUES(3, 4, 1)")
    a.execute("INSERT INTO r VALUES(3, gx_ones(1, 30))")
    a.execute("INSERT INTO a(i, j, value) VALUES(3, 5, 2)")
    assert q(a, "SELECT sum(value) FROM gx_cells('A') WHERE i = 3") == 31
    a.execute("INSERT INTO a(i, j, value) VALUES(3, 4, 70)")
    a.execute("SELECT gx_store('B', 'A')").fetchall()
    assert q(a, "SELECT gx_get('B', 3, 4)") == 70
    a.execute("COMMIT")


def test_properties_go_with_the_first_cell(db):
    db.execute("SELECT gx_eye(5, 'I')").fetchall()
    assert "symmetric" in meta(db, "I")["properties"]
    db.execute("CREATE VIRTUAL TABLE i USING gx_cells('I')")
    db.execute("BEGIN")
    db.execute("INSERT INTO i(i, j, value) VALUES(0, 4, 2)")
    assert not meta(db, "I")["properties"]
    db.execute("ROLLBACK")
    assert "symmetric" in meta(db, "I")["properties"]
    db.execute("INSERT INTO i(i, j, value) VALUES(0, 4, 2)")
    assert not meta(db, "I")["properties"]


def test_waiting_cells_survive_what_happens_to_their_table_or_matrix(a):
    """Dropped tables, renamed, replaced and dropped matrices: each after a write in the same transaction."""
    a.execute("BEGIN")
    a.execute("INSERT INTO a(i, j, value) VALUES(0, 0, 41)")
    a.execute("DROP TABLE a")
    a.execute("COMMIT")
    assert q(a, "SELECT gx_get('A', 0, 0)") == 41

    a.execute("CREATE VIRTUAL TABLE a USING gx_cells('A')")
    a.execute("BEGIN")
    a.execute("INSERT INTO a(i, j, value) VALUES(0, 0, 42)")
    a.execute("UPDATE gx SET name = 'B' WHERE name = 'A'")
    a.execute("COMMIT")
    assert q(a, "SELECT gx_get('B', 0, 0)") == 42
    assert error(a, "INSERT INTO a(i, j, value) VALUES(0, 0, 42)") == "gx_cells: a: no matrix named 'A'"

    a.execute("CREATE VIRTUAL TABLE b USING gx_cells('B')")
    a.execute("BEGIN")
    a.execute("INSERT INTO b(i, j, value) VALUES(0, 0, 43)")
    a.execute("SELECT gx_zeros(2, 2, 'B', '{\"replace\":true}')").fetchall()
    a.execute("INSERT INTO b(i, j, value) VALUES(1, 1, 44)")
    a.execute("COMMIT")
    assert (read(a, "B") == [[0, 0], [0, 44]]).all()

    a.execute("BEGIN")
    a.execute("INSERT INTO b(i, j, value) VALUES(0, 0, 45)")
    a.execute("DELETE FROM gx WHERE name = 'B'")
    a.execute("COMMIT")
    assert q(a, "SELECT count(*) FROM gx") == 0


def test_a_damaged_tile_fails_the_statement_or_the_commit(a):
    a.execute("DELETE FROM gx_tile WHERE id = (SELECT max(id) FROM gx_tile)")
    before = q(a, "SELECT group_concat(hex(data)) FROM gx_tile")
    text = "gx_cells: a: tile 5 of A is missing"
    assert error(a, "INSERT INTO a(i, j, value) VALUES(0, 0, 77), (39, 29, 1)") == text
    a.execute("BEGIN")
    a.execute("INSERT INTO a(i, j, value) VALUES(0, 0, 78), (39, 29, 1)")
    assert error(a, "COMMIT") == text
    assert not a.in_transaction
    assert q(a, "SELECT group_concat(hex(data)) FROM gx_tile") == before


def test_a_write_while_the_table_is_scanned(a):
    """A cursor on what is being written: an error in words or the rows as they were."""
    A = read(a)
    rows = a.execute("SELECT i, j, value FROM a WHERE j = 2")
    first = rows.fetchone()
    a.execute("UPDATE a SET value = 0 WHERE j = 3")
    assert [first, *rows.fetchall()] == [(i, 2, A[i, 2]) for i in range(40)]  # 40 rows come at once


# ---- atomic statements ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("where", ["main", "temp"])
@pytest.mark.parametrize("peek", ["", ", gx_get('main.A', 0, 0)"], ids=["quiet", "flushing"])
def test_a_failed_statement_leaves_nothing(db, where, peek):
    """In a transaction, after thousands of cells, which a tight memory limit has made it write out already."""
    A = store(db, "A", make(100, 80))
    db.execute("SELECT gx_config('memory_limit', 80000)").fetchall()
    db.execute(f"CREATE VIRTUAL TABLE {where}.a USING gx_cells('main.A')")
    db.execute("CREATE TABLE t(i, j)")
    db.executemany("INSERT INTO t VALUES(?, ?)", [(k % 100, k // 100) for k in range(8000)] + [(0, 80)])
    db.execute("BEGIN")
    db.execute("INSERT INTO a(i, j, value) VALUES(1, 1, 50)")
    text = error(db, f"INSERT INTO a(i, j, value) SELECT i, j, v FROM (SELECT i, j, 5 AS v{peek} FROM t ORDER BY rowid)")
    if db.in_transaction:
        assert text == "gx_cells: a: j = 80 is outside 0..79"
        A[1, 1] = 50
        db.execute("COMMIT")
    else:
        assert where == "temp"  # SQLite's savepoint of the statement does not reach main: all is rolled back
    assert (read(db) == A).all()


def test_savepoints_of_the_user_across_schemas(db):
    A = store(db, "A", make(40, 30))
    db.execute("CREATE VIRTUAL TABLE temp.a USING gx_cells('main.A')")
    db.execute("BEGIN")
    db.execute("INSERT INTO a(i, j, value) VALUES(0, 0, 1)")
    db.execute("SAVEPOINT s")
    db.execute("INSERT INTO a(i, j, value) VALUES(0, 0, 2)")
    assert q(db, "SELECT gx_get('A', 0, 0)") == 2
    db.execute("ROLLBACK TO s")
    assert q(db, "SELECT gx_get('A', 0, 0)") == 1
    db.execute("INSERT INTO a(i, j, value) VALUES(0, 1, 3)")
    db.execute("RELEASE s")
    db.execute("COMMIT")
    A[0, 0], A[0, 1] = 1, 3
    assert (read(db) == A).all()


MAKE, WRITE = "CREATE VIRTUAL TABLE {}.n USING {}('main.A')", "write"
NEW, OLD = "[[9.0,2.0],[3.0,4.0]]", "[[1.0,2.0],[3.0,4.0]]"


@pytest.mark.parametrize("schema", ["main", "temp"])
@pytest.mark.parametrize("module, write", [
    ("gx_cells", "INSERT INTO n VALUES(0, 0, 9, 0)"), ("gx_cells", "UPDATE n SET value = 9 WHERE i = 0 AND j = 0"),
    ("gx_rows", "INSERT INTO n VALUES(0, '[9,2]')"), ("gx_rows", "UPDATE n SET row = '[9,2]' WHERE i = 0"),
])
@pytest.mark.parametrize("expected, statements", [
    (NEW, ["BEGIN", MAKE, WRITE, "COMMIT"]),
    (OLD, ["BEGIN", MAKE, WRITE, "ROLLBACK"]),
    (OLD, ["BEGIN", "SAVEPOINT s", MAKE, WRITE, "ROLLBACK TO s", "COMMIT"]),
    (OLD, ["BEGIN", MAKE, "SAVEPOINT s", WRITE, "ROLLBACK TO s", "COMMIT"]),
    (NEW, ["SAVEPOINT s", MAKE, WRITE, "SAVEPOINT t", WRITE, "ROLLBACK TO t", "RELEASE s"]),
    (OLD, ["BEGIN", "SAVEPOINT s", MAKE, WRITE, "SAVEPOINT t", WRITE, "RELEASE t", "ROLLBACK TO s", "COMMIT"]),
    (NEW, ["BEGIN", MAKE, WRITE, "DROP TABLE n", "COMMIT"]),
    (OLD, ["BEGIN", "SAVEPOINT s", MAKE, WRITE, "DROP TABLE n", "ROLLBACK TO s", "COMMIT"]),
    (NEW, ["BEGIN", "SAVEPOINT s", MAKE, "ROLLBACK TO s", MAKE, WRITE, "COMMIT"]),
])
def test_a_table_made_in_the_same_transaction(db, schema, module, write, expected, statements):
    """SQLite counts it as begun without saying so, and does not tell it of savepoints that were open before."""
    q(db, "SELECT gx_store('A', '[[1,2],[3,4]]')")
    db.execute("CREATE TABLE t(x)")
    for number, statement in enumerate(statements):
        statement = write if statement == WRITE else statement.format(schema, module)
        db.execute(statement)
        if number == 0:
            db.execute("INSERT INTO t VALUES(1)")
    assert q(db, "SELECT gx_json('A')") == expected and not db.in_transaction
    assert q(db, "SELECT count(*) FROM t") == (statements[-1] != "ROLLBACK") and q(db, "SELECT gx_check()") == "ok"


def test_beside_a_statement_that_has_not_ended(db):
    """An INSERT ... RETURNING of which rows are still to come: its transaction is everybody's."""
    q(db, "SELECT gx_store('A', '[[1,2],[3,4]]')")
    db.execute("CREATE TABLE t(x)")
    cursor = db.execute("INSERT INTO t VALUES(1), (2) RETURNING x")
    assert cursor.fetchone() == (1,)
    db.execute("CREATE VIRTUAL TABLE a USING gx_cells('A')")
    db.execute("UPDATE a SET value = 9 WHERE i = 0 AND j = 0")
    assert cursor.fetchall() == [(2,)] and q(db, "SELECT gx_json('A')") == NEW
    assert q(db, "SELECT group_concat(x) FROM t") == "1,2"


# ---- the table is a view ------------------------------------------------------------------------------------------

def test_drop_and_rename_touch_the_table_only(a):
    A = read(a)
    a.execute("ALTER TABLE a RENAME TO b")
    assert error(a, "INSERT INTO b(i, j, value) VALUES(99, 0, 0)") == "gx_cells: b: i = 99 is outside 0..39"
    a.execute("INSERT INTO b(i, j, value) VALUES(0, 0, 5)")
    a.execute("DROP TABLE b")
    A[0, 0] = 5
    assert (read(a) == A).all()


def test_a_missing_matrix(db):
    """A table may come before its matrix, and outlive it."""
    db.execute("CREATE VIRTUAL TABLE a USING gx_cells('A')")
    db.execute("CREATE VIRTUAL TABLE r USING gx_rows('A')")
    assert error(db, "SELECT * FROM a") == "gx_cells: a: no matrix named 'A'"
    assert error(db, "DELETE FROM r") == "gx_rows: r: no matrix named 'A'"
    db.execute("SELECT gx_ones(2, 2, 'A')").fetchall()
    assert q(db, "SELECT sum(value) FROM a") == 4
    db.execute("DELETE FROM gx WHERE name = 'A'")
    assert error(db, "INSERT INTO a VALUES(0, 0, 1, 0)") == "gx_cells: a: no matrix named 'A'"
    db.execute("DROP TABLE a")


def test_dump_and_restore(tmp_path):
    if shutil.which("sqlite3") is None:
        pytest.skip("no sqlite3 shell")
    path = tmp_path / "old.db"
    db = gx_connect(str(path))
    A = store(db, "A", make(40, 30))
    db.execute("CREATE VIRTUAL TABLE a USING gx_cells('A')")
    db.execute("CREATE VIRTUAL TABLE r USING gx_rows('A')")
    db.execute("INSERT INTO a(i, j, value) VALUES(0, 0, 5)")
    A[0, 0] = 5
    db.close()
    load = ["-cmd", f".load {gx_path().removesuffix('.so')}"]
    dump = subprocess.run(["sqlite3", *load, str(path), ".dump"], capture_output=True, text=True, check=True).stdout
    new = tmp_path / "new.db"
    subprocess.run(["sqlite3", *load, str(new)], input=dump, text=True, check=True)
    db = gx_connect(str(new))
    assert sorted(db.execute("SELECT i, j, value, imag FROM a")) == cells(A)
    db.execute("INSERT INTO a(i, j, value) VALUES(0, 1, 6)")
    assert q(db, "SELECT value FROM gx_cells('A') WHERE i = 0 AND j = 1") == 6
    db.close()


def test_read_only(tmp_path):
    path = tmp_path / "test.db"
    db = gx_connect(str(path))
    A = store(db, "A", make(40, 30))
    db.execute("CREATE VIRTUAL TABLE a USING gx_cells('A')")
    db.close()
    db = gx_connect(str(path))
    db.execute("PRAGMA query_only = 1")
    assert sorted(db.execute("SELECT i, j, value, imag FROM a")) == cells(A)
    assert error(db, "INSERT INTO a(i, j, value) VALUES(0, 0, 1)") == "attempt to write a readonly database"
    db.close()


def test_another_connection(tmp_path):
    path = str(tmp_path / "test.db")
    one, two = gx_connect(path), gx_connect(path)
    two.execute("PRAGMA busy_timeout = 0")
    A = store(one, "A", make(40, 30))
    one.execute("CREATE VIRTUAL TABLE a USING gx_cells('A')")
    one.execute("BEGIN")
    one.execute("INSERT INTO a(i, j, value) VALUES(0, 0, 5)")
    assert q(two, "SELECT value FROM a WHERE i = 0 AND j = 0") == A[0, 0]
    assert "database is locked" in error(two, "INSERT INTO a(i, j, value) VALUES(0, 0, 6)")
    one.execute("COMMIT")
    assert q(two, "SELECT value FROM a WHERE i = 0 AND j = 0") == 5
    two.execute("INSERT INTO a(i, j, value) VALUES(0, 0, 6)")
    assert q(one, "SELECT value FROM a WHERE i = 0 AND j = 0") == 6
    one.close()
    two.close()


def test_closing_in_the_middle(tmp_path):
    """A connection closed with cells waiting rolls back; nothing keeps it from closing."""
    path = str(tmp_path / "test.db")
    db = gx_connect(path)
    A = store(db, "A", make(40, 30))
    db.execute("CREATE VIRTUAL TABLE a USING gx_cells('A')")
    db.execute("BEGIN")
    db.execute("INSERT INTO a(i, j, value) VALUES(0, 0, 5)")
    db.close()
    db = gx_connect(path)
    assert (read(db) == A).all()
    db.close()


# ---- gx_set -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", DTYPES)
def test_set(db, dtype):
    A = store(db, "A", make(40, 30, dtype))
    before = meta(db)["generation"]
    assert q(db, "SELECT gx_set('A', 39, 29, 2.5)") == "A"
    assert q(db, "SELECT gx_set('main.A', 17, 3, -1)") == "main.A"
    A[39, 29], A[17, 3] = 2.5, -1
    if A.dtype.kind == "c":
        q(db, "SELECT gx_set('A', 0, 0, '[1,-2]')")
        A[0, 0] = 1 - 2j
    assert (read(db) == A).all() and meta(db)["generation"] > before


@pytest.mark.parametrize("arguments, text", [
    ("'A', 40, 0, 1", "i = 40 is outside 0..39"), ("'A', 0, -1, 1", "j = -1 is outside 0..29"),
    ("'A', 0, 0, '[1,2]'", "value is complex, but A is real (f64)"), ("'no', 0, 0, 1", "no matrix named 'no'"),
    ("'[[1]]', 0, 0, 1", "A is a JSON literal: only a stored matrix can be written"),
    ("'E', 0, 0, 1", "i = 0, but the matrix has no rows"),
])
def test_set_refuses(db, arguments, text):
    A = store(db, "A", make(40, 30))
    db.execute("SELECT gx_zeros(0, 3, 'E')").fetchall()
    assert error(db, f"SELECT gx_set({arguments})") == "gx_set: " + text
    assert error(db, "SELECT gx_set('A', 0, 0, NULL)").startswith("gx_set: value")
    assert (read(db) == A).all()
