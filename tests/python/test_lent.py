"""Arrays lent to gx: gx_lend, gx_from_memory, gx_to_memory.

Plan:
1. what goes that way and what does not (counted): every dtype, by rows and by columns, slices of both, one row or
   column, in tiles of many sizes, converted, into the database and into volumes, where an interrupted call leaves
   nothing; the rest of NumPy's arrays the long way, with the same result;
2. fetched into arrays by rows and by columns; with gaps, or of another dtype, the long way; large tiles, read straight
   from the file: pages of all sizes, behind each other and anywhere, a log, a map, volumes, what is not committed, slices;
3. refusals: tokens that are none, have ended or were never made; arrays of another shape, read-only, with gaps; arrays
   that cannot be lent; more than there is room for;
   tokens as arguments and as destinations of other functions: where the elements are, added to what is there; of one row; by rows,
   too many, a destination of another shape or dtype, read-only, with gaps, that is an argument, for a sparse result;
4. a call that uses an array keeps it lent: ending waits; many threads lend and end at once;
5. a gx.so that is not ours, or has no lending: the long way; a matrix replaced by others while it is fetched.
"""
import ctypes
import ctypes.util
import shutil
import sqlite3
import threading

import gx_sqlite as gx
import numpy as np
import pytest
from conftest import open_sqlite3, small_tiles
from gx_sqlite import _arrays, _connect, _lent

RNG = np.random.default_rng(8)
UNKNOWN = "this token stands for no array: the application has taken it back, or it is of another connection"


@pytest.fixture
def calls(monkeypatch):
    """What was done with tokens, and whether it went so."""
    made = []

    def noted(db, sql, parameters):
        done = _lent.call(db, sql, parameters)
        made.append((sql.split("(")[0].split()[-1], done))
        return done
    monkeypatch.setattr(_arrays, "call", noted)
    return made


def numbers(shape, dtype):
    a = RNG.standard_normal(shape)
    return (a + 1j * RNG.standard_normal(shape) if np.dtype(dtype).kind == "c" else a).astype(dtype)


# ---- 1. in -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "c8"])
@pytest.mark.parametrize("shape, tile", [((70, 53), 64), ((70, 53), 1000), ((700, 530), 20000)])
def test_lent(db, calls, monkeypatch, dtype, shape, tile):
    """The larger ones by several threads."""
    small_tiles(db, tile)
    monkeypatch.setattr(_arrays, "_SMALL", 0)
    base = numbers(shape, dtype)
    views = [base, np.asfortranarray(base), base.T, base[::2], base[3:, :50], np.asfortranarray(base)[5:60, 7:]]
    views += [base[:1], base[:, :1], base[:, 0], base[3:4, 2:3]]
    for k, a in enumerate(views):
        gx.store(db, "A", a, replace=True)
        assert np.array_equal(gx.fetch(db, "A"), a.reshape(len(a), -1)), k
        assert calls == [("gx_from_memory", True), ("gx_to_memory", True)], k
        calls.clear()
    gx.store(db, "A", base.T, replace=True, dtype="c64")
    assert np.array_equal(gx.fetch(db, "A"), base.T.astype("c8"))
    assert db.execute("SELECT gx_check()").fetchone()[0] == "ok"


@pytest.mark.parametrize("files, threads", [(1, 1), (2, 2), (3, 4)])
@pytest.mark.parametrize("shape, tile", [((70, 53), 64), ((530, 31), 500), ((700, 530), 20000)])
def test_lent_to_volumes(db, calls, monkeypatch, files, threads, shape, tile):
    small_tiles(db, tile)
    monkeypatch.setattr(_arrays, "_SMALL", 0)
    db.execute("SELECT gx_volumes(?), gx_config('threads', ?)", (files, threads)).fetchall()
    base = numbers(shape, "f8")
    for a in (base, np.asfortranarray(base), base.T, base[::2], np.asfortranarray(base)[1:, 2:], numbers(shape, "c8")):
        gx.store(db, "A", a, replace=True)
        assert np.array_equal(gx.fetch(db, "A"), a)
        assert calls == [("gx_from_memory", True), ("gx_to_memory", True)]
        calls.clear()
    gx.store(db, "A", base, replace=True, dtype="f32")
    assert np.array_equal(gx.fetch(db, "A"), base.astype("f4"))
    at_home, in_files = (db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("gx_tile", "gx_extent"))
    assert at_home == 0 and in_files >= 4 and db.execute("SELECT gx_check()").fetchone()[0] == "ok"


@pytest.mark.parametrize("order", ["C", "F"])
def test_interrupted_on_the_way_to_volumes(db, order):
    small_tiles(db, 500)
    db.execute("SELECT gx_volumes(2)").fetchall()
    a = np.asarray(numbers((700, 530), "f8"), order=order)
    gx.store(db, "A", a)
    db.execute("SELECT gx_config('threads', 2)").fetchall()
    db.set_progress_handler(lambda: 1, 1)
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        gx.store(db, "A", -a, replace=True)
    db.set_progress_handler(None, 1)
    assert np.array_equal(gx.fetch(db, "A"), a) and db.execute("SELECT gx_check()").fetchone()[0] == "ok"


def test_the_long_way(db, calls):
    base = numbers((700, 530), "f8")
    for a in (base[::2, ::2], base[:, ::-1], base.astype(">f8"), base.astype("i4"), np.broadcast_to(base[0], (700, 530))):
        gx.store(db, "A", a, replace=True)
        assert np.array_equal(gx.fetch(db, "A"), a)
    assert [word for word, _ in calls if word == "gx_to_memory"] == ["gx_to_memory"] * 5
    unaligned = np.frombuffer(bytes(4) + base.tobytes(), np.uint8)[4:].view("f8").reshape(base.shape)
    gx.store(db, "A", unaligned, replace=True)
    assert np.array_equal(gx.fetch(db, "A"), base)


# ---- 2. out ----------------------------------------------------------------------------------------------------------

def test_out_in_another_array(db):
    """Of a side of one element NumPy keeps the stride of the array that it was cut out of, whatever it says of gaps."""
    for shape in ((1, 1), (1, 4), (4, 1), (3, 4)):
        a = np.arange(1.0, 1 + shape[0] * shape[1]).reshape(shape)
        gx.store(db, "A", a, replace=True)
        for order in "CF":
            frame = np.zeros((9, 9), order=order)
            for out in (frame[:shape[0], :shape[1]], frame[1::2, ::2][:shape[0], :shape[1]], frame[::-1, ::-1][:shape[0], :shape[1]]):
                frame[:] = 0
                gx.fetch(db, "A", out=out)
                assert np.array_equal(out, a) and frame.sum() == a.sum()


def test_out(db, calls):
    small_tiles(db, 5000)
    a = numbers((700, 530), "f4")
    gx.store(db, "A", a)
    calls.clear()
    for out, is_lent in ((np.empty((700, 530), "f4"), True), (np.empty((700, 530), "f8", "F"), True),
                         (np.empty((700, 530), "c16"), True), (np.empty((800, 530), "f4")[:700], True),
                         (np.empty((700, 600), "f4")[:, :530], False), (np.empty((700, 530), ">f4"), False)):
        assert gx.fetch(db, "A", out=out) is out and np.array_equal(out, a)
        assert is_lent == (calls[-1:] == [("gx_to_memory", True)])
        calls.clear()
    readonly = np.empty((700, 530))
    readonly.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        gx.fetch(db, "A", out=readonly)


def opened(path, way, page):
    db = open_sqlite3(path)
    gx.load(db)
    db.execute(f"PRAGMA page_size = {page}")
    for key, value in {"wal": [("journal_mode", "wal")], "map": [("mmap_size", 1 << 30)]}.get(way, []):
        db.execute(f"PRAGMA {key} = {value}")
    if way == "volumes" and db.execute("PRAGMA page_count").fetchone() == (0,):
        db.execute("SELECT gx_volumes(2)").fetchall()
    small_tiles(db, 100000)
    return db


@pytest.mark.parametrize("page", [512, 4096, 32768, 65536])
@pytest.mark.parametrize("way", ["sqlite3", "wal", "map", "volumes"])
def test_large_tiles(tmp_path, way, page):
    path = str(tmp_path / "t.db")
    for round_, dtype in enumerate(("f8", "f4", "c8")):
        a = numbers((1900 - round_, 830 + round_), dtype)
        db = opened(path, way, page)
        gx.store(db, "A", a, replace=True)  # from the second round on into pages that were free
        gx.store(db, "B", a[::-1], replace=True)
        db.close()
        db = opened(path, way, page)
        for threads in (1, 2, 5):
            db.execute("SELECT gx_config('threads', ?)", (threads,)).fetchall()
            assert np.array_equal(gx.fetch(db, "A"), a) and np.array_equal(gx.fetch(db, "B"), a[::-1])
            assert np.array_equal(gx.fetch(db, "A", out=np.zeros(a.shape, dtype)), a)
        assert np.array_equal(gx.matrix(db, "A")[7:1801, 3:800], a[7:1801, 3:800])
        assert np.array_equal(gx.matrix(db, "A")[1000:, 600:], a[1000:, 600:])
        db.execute("BEGIN")
        db.execute("SELECT gx_set('A', 1000, 500, 7)").fetchall()
        a[1000, 500] = 7
        assert np.array_equal(gx.fetch(db, "A"), a)
        db.execute("COMMIT")
        assert np.array_equal(gx.fetch(db, "A"), a)
        other = opened(path, way, page)
        other.execute("SELECT gx_scale('A', 2, 'A', '{\"replace\":true}')").fetchall()
        assert np.array_equal(gx.fetch(db, "A"), a * 2)
        other.close()
        db.close()


# ---- 3. refusals -----------------------------------------------------------------------------------------------------

def refused(db, sql, *parameters):
    with pytest.raises(sqlite3.OperationalError) as problem:
        db.execute(sql, parameters).fetchall()
    return str(problem.value)


def test_refusals(db):
    a = np.eye(3)
    for token in ("", "0", "0" * 32, "x" * 500):
        assert refused(db, "SELECT gx_from_memory(?, 'A')", token) == f"gx_from_memory: {UNKNOWN}"
        assert refused(db, "SELECT gx_to_memory('[1]', ?)", token) == f"gx_to_memory: {UNKNOWN}"
    with _lent.lent(a, False) as token:
        assert db.execute("SELECT gx_norm(gx_from_memory(?))", (token,)).fetchone()[0] == pytest.approx(3 ** 0.5)
        assert refused(db, "SELECT gx_to_memory(gx_eye(3), ?)", token) == "gx_to_memory: the memory is lent for reading only"
        assert refused(db, "SELECT gx_to_memory(gx_eye(2), ?)", token) == \
            "gx_to_memory: A is 2x2 but the memory 3x3"
    assert refused(db, "SELECT gx_from_memory(?)", token) == f"gx_from_memory: {UNKNOWN}"
    lend, end = _lent._functions(_connect.library())
    name = ctypes.create_string_buffer(33)
    assert lend(np.zeros((3, 4)).ctypes.data, b"f64", 3, 3, 4, 1, 1, name) == 0
    assert refused(db, "SELECT gx_to_memory(gx_eye(3), ?)", name.value.decode()) == \
        "gx_to_memory: the memory is not without gaps"
    end(name.value)
    with _lent.lent(a, True) as token:
        assert "would lose the imaginary part" in refused(db, "SELECT gx_to_memory('[[\"1i\",0,0],[0,0,0],[0,0,0]]', ?)", token)
        assert np.array_equal(a, np.eye(3))
    with _lent.lent(a * 1j, False) as token:
        assert "would lose the imaginary part" in refused(db, "SELECT gx_from_memory(?, '{\"dtype\":\"f64\"}')", token)


def test_arguments_and_destinations(db):
    """A token stands for its array in any function."""
    a, b = np.asfortranarray(numbers((70, 50), "f8")), np.asfortranarray(numbers((90, 60), "f8"))[10:60]  # with a gap
    out = np.full((70, 60), 7.0, order="F")
    with _lent.lent(a, False) as A, _lent.lent(b, False) as B, _lent.lent(out, True) as C:
        assert db.execute("SELECT gx_matmul(?, ?, ?)", (A, B, C)).fetchone() == (70 * 60,)
        assert np.allclose(out, a @ b)
        db.execute("SELECT gx_matmul(?, ?, ?, '{\"alpha\":-2,\"beta\":3}')", (A, B, C)).fetchall()
        assert np.allclose(out, a @ b)
        assert db.execute("SELECT gx_norm(?), gx_get(?, 3, 5)", (B, B)).fetchone() == \
            pytest.approx((np.linalg.norm(b), b[3, 5]))
        value = db.execute("SELECT gx_eval('2 * (?1 @ ?2)', ?, ?)", (A, B)).fetchone()[0]
        assert np.allclose(gx.fetch(db, value), 2 * a @ b)
        assert np.array_equal(gx.fetch(db, db.execute("SELECT gx_copy(?)", (B,)).fetchone()[0]), b)
        assert db.execute("SELECT count(*) FROM gx").fetchone() == (0,)
    assert "no matrix named" in refused(db, "SELECT gx_norm(?)", A)
    square, made = a.T @ a, np.zeros((50, 50), order="F")
    with _lent.lent(np.asfortranarray(square), False) as S, _lent.lent(made, True) as M:
        for call, want in (("gx_cholesky(?, ?)", np.linalg.cholesky(square)), ("gx_inverse(?, ?)", np.linalg.inv(square)),
                           ("gx_transpose(?, ?)", square.T), ("gx_syrk(?, ?)", square @ square.T),
                           ("gx_scale(?, 2, ?)", 2 * square), ("gx_matmul(?1, ?1, ?2)", square @ square)):
            assert db.execute(f"SELECT {call}", (S, M)).fetchone() == (2500,), call
            assert np.allclose(made, want), call


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1)])
def test_one_row_lies_by_columns_too(db, shape):
    """Whatever NumPy has as its strides."""
    a = RNG.standard_normal(shape)
    for array in (a, np.asfortranarray(a), np.ascontiguousarray(a.T).T, np.zeros((9, 9))[:shape[0], :shape[1]] + a):
        out = np.zeros(shape)
        with _lent.lent(array, False) as A, _lent.lent(out, True) as C:
            assert db.execute("SELECT gx_scale(?, 2, ?)", (A, C)).fetchone() == (a.size,)
            assert np.array_equal(out, 2 * a)
            db.execute("SELECT gx_from_memory(?, 'A', '{\"replace\":true}'), gx_to_memory('A', ?)", (A, C)).fetchall()
            assert np.array_equal(out, a)


def test_arguments_and_destinations_refused(db):
    a, rows = np.asfortranarray(np.eye(3)), np.arange(6.0).reshape(2, 3)
    with _lent.lent(a, True) as A, _lent.lent(rows, True) as R:
        assert refused(db, "SELECT gx_norm(?)", R) == (
            "gx_norm: A is an array of the application's that lies by rows; this function takes arrays by columns: "
            "gx_from_memory() makes a matrix of it")
        assert refused(db, "SELECT gx_eye(3, ?)", R) == "gx_eye: the destination is not by columns without gaps"
        assert refused(db, "SELECT gx_transpose(?1, ?1)", A) == "gx_transpose: the destination is an argument too"
        assert refused(db, "SELECT gx_eye(4, ?)", A) == "gx_eye: the destination is 3x3 f64 but the result 4x4 f64"
        assert refused(db, "SELECT gx_cast(gx_eye(3), 'f32', ?)", A) == \
            "gx_cast: the destination is 3x3 f64 but the result 3x3 f32"
        assert refused(db, "SELECT gx_matmul(gx_eye(3), gx_cast(gx_eye(3), 'f32'), ?, '{\"beta\":1}')", A) == \
            'gx_matmul: "beta" adds to a lent array products of such that are in memory too, and of its dtype'
        assert refused(db, "SELECT gx_eigvals(gx_eye(3), ?)", A) == \
            "gx_eigvals: the destination must be a name here, not a lent array"
        assert "takes dense matrices only" in refused(db, "SELECT gx_sparse(gx_eye(3), ?)", A)
        assert refused(db, "SELECT gx_eval('?1', " + ", ".join(["?1"] * 17) + ")", A) == \
            "gx_eval: more than 16 lent arrays in one call"
    with _lent.lent(a, False) as A:
        assert refused(db, "SELECT gx_eye(3, ?)", A) == "gx_eye: the destination is lent for reading only"
    assert np.array_equal(a, np.eye(3))


def test_what_cannot_be_lent():
    lend, end = _lent._functions(_connect.library())
    data, token = np.zeros(100), ctypes.create_string_buffer(33)
    at = data.ctypes.data
    for wrong in ((None, b"f64", 3, 3, 3, 1), (at, b"f18", 3, 3, 3, 1), (at, b"f64", 0, 3, 3, 1), (at, b"f64", -3, 3, 3, 1),
                  (at, b"f64", 3, 3, 2, 1), (at, b"f64", 3, 3, 1, 2), (at, b"f64", 3, 3, -3, 1), (at, b"f64", 3, 3, 6, 2),
                  (at + 4, b"f64", 3, 3, 3, 1), (at, b"f64", 2 ** 62, 3, 3, 1), (at, b"f64", 3, 3, 2 ** 62, 1)):
        assert lend(*wrong, 0, token) != 0 and token.value == b"", wrong
    tokens = []
    while lend(at, b"f64", 10, 10, 10, 1, 0, token) == 0:
        tokens.append(token.value)
    assert len(tokens) == len(set(tokens)) == 64 and token.value == b""
    with _lent.lent(np.eye(2), False) as none:
        assert none is None
    for one in (*tokens, tokens[0], b"", b"0"):
        end(one)
    assert lend(at, b"f64", 10, 10, 10, 1, 0, token) == 0
    end(token.value)


# ---- 4. threads ------------------------------------------------------------------------------------------------------

def test_ending_waits(db):
    """Another thread takes the array back as the call, which has it, makes the catalog's row."""
    a = numbers((900, 900), "f8")
    lend, end = _lent._functions(_connect.library())
    token = ctypes.create_string_buffer(33)
    assert lend(a.ctypes.data, b"f64", 900, 900, 900, 1, 0, token) == 0
    enders, early = [], []

    def authorize(action, table, *_):
        if (action, table) == (sqlite3.SQLITE_INSERT, "gx_meta") and not enders:
            enders.append(threading.Thread(target=end, args=(token.value,)))
            enders[0].start()
            enders[0].join(0.2)
            early.append(not enders[0].is_alive())
        return sqlite3.SQLITE_OK
    db.set_authorizer(authorize)
    db.execute("SELECT gx_from_memory(?, 'A')", (token.value.decode(),)).fetchall()
    db.set_authorizer(None)
    enders[0].join()
    assert early == [False] and np.array_equal(gx.fetch(db, "A"), a)
    assert refused(db, "SELECT gx_from_memory(?)", token.value.decode()) == f"gx_from_memory: {UNKNOWN}"


def test_many_threads(tmp_path):
    wrong = []

    def work(k):
        db = open_sqlite3(str(tmp_path / f"{k}.db"))
        gx.load(db)
        a = np.full((400, 500), float(k))
        for _ in range(5):
            gx.store(db, "A", a, replace=True)
            if not np.array_equal(gx.fetch(db, "A"), a):
                wrong.append(k)
        db.close()
    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- 5. others -------------------------------------------------------------------------------------------------------

def test_another_library(db, calls, tmp_path, monkeypatch):
    a = numbers((400, 500), "f8")
    shutil.copy(_connect.library(), tmp_path / "other.so")
    monkeypatch.setenv("GX_SO", str(tmp_path / "other.so"))  # not what db has loaded
    gx.store(db, "A", a)
    assert np.array_equal(gx.fetch(db, "A"), a) and calls == [("gx_from_memory", False), ("gx_to_memory", False)]
    monkeypatch.setenv("GX_SO", ctypes.util.find_library("c") or "libc.so.6")  # has no gx_lend
    gx.store(db, "B", a)
    assert np.array_equal(gx.fetch(db, "B"), a) and len(calls) == 2


def test_replaced_meanwhile(db, monkeypatch):
    gx.store(db, "A", np.zeros((400, 500)))
    real, times = _arrays._fill, []

    def fill(connection, matrix, result):
        times.append(result.shape)
        if len(times) == 1:
            gx.store(db, "A", np.ones((500, 400), "c16"), replace=True)
        real(connection, matrix, result)
    monkeypatch.setattr(_arrays, "_fill", fill)
    assert np.array_equal(gx.fetch(db, "A"), np.ones((500, 400)))
    assert times == [(400, 500), (500, 400)]
