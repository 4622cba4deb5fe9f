"""gx.store and gx.fetch: arrays and their like into matrices and back.

Plan:
1. every kind of connection: store, fetch, a value, a literal, errors with gx's texts;
2. arrays of every dtype, any strides and both byte orders, vectors, numbers, empty ones, in one tile and in many;
3. blocks of rows: sizes that do and do not meet the tiles, a row at a time, with and without the count of rows; too many,
   too few, of another width, none at all; an iterator that fails;
4. DataFrames, Arrow tables and lists (where pandas, pyarrow are installed); what is no numbers; sparse matrices;
5. names in schemas; cells written but still held by gx; matrices of another connection's transaction; `out`;
   a large array makes an empty file's pages large, but no others, and leaves the cache as it was, also when refused;
6. nothing is there twice: the memory that storing and fetching 160 MB takes; within a transaction, and undone with it.
"""
import sqlite3
import subprocess
import sys

import gx_sqlite as gx
import numpy as np
import pytest
from conftest import ROOT, open_sqlite3, small_tiles
from gx_sqlite import _arrays

RNG = np.random.default_rng(3)
KINDS = ["f8", "f4", "c16", "c8", "f2", "i1", "u2", "i4", "i8", "?", ">f8", ">c8", ">i4"]


def numbers(shape, kind):
    a = RNG.standard_normal(shape) * 50
    if np.dtype(kind).kind == "c":
        a = a + 1j * RNG.standard_normal(shape)
    return a.astype(kind) if np.dtype(kind).kind != "u" else np.abs(a).astype(kind)


# ---- 1. connections --------------------------------------------------------------------------------------------------

def test_every_connection(any_db):
    a = numbers((200, 700), "f8")  # more than goes as one value
    assert gx.store(any_db, "A", a) == "A"
    assert np.array_equal(gx.fetch(any_db, "A"), a)
    A = gx.matrix(any_db, "A")
    assert np.allclose(np.asarray(A.T @ A), a.T @ a)
    assert np.array_equal(gx.fetch(any_db, "[[1,2],[3,4]]"), [[1, 2], [3, 4]]) and gx.fetch(any_db, 2.5) == [[2.5]]
    for wrong in (lambda: gx.store(any_db, "A", a), lambda: gx.store(any_db, "A", a[:2])):
        with pytest.raises(Exception, match="matrix 'A' already exists") as raised:
            wrong()
        assert type(raised.value).__module__.split(".")[0] in ("sqlite3", "apsw", "pysqlite3")
    with pytest.raises(Exception, match="no matrix named 'B'"):
        gx.fetch(any_db, "B")


def test_a_value_is_not_copied(db):
    blob = db.execute("SELECT gx_full(3, 4, 2)").fetchone()[0]
    a = gx.fetch(db, blob)
    assert a.base is not None and not a.flags.writeable and np.array_equal(a, np.full((3, 4), 2.0))
    for damaged in (blob[:-1], blob[:20], b"gxmv\x02" + blob[5:], b"", b"hello" * 10):
        with pytest.raises(ValueError, match="gx_sqlite.fetch: a "):
            gx.fetch(db, damaged)


def test_no_extensions():
    class Poor:
        pass
    with pytest.raises(gx.NoExtensions, match="cannot load extensions"):
        gx.load(Poor())


# ---- 2. arrays -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", KINDS)
def test_dtypes(db, kind):
    small_tiles(db)
    a = numbers((23, 31), kind)
    gx.store(db, "A", a)
    big = np.tile(a, (14, 14))
    gx.store(db, "B", big)
    want = np.dtype(kind).newbyteorder("<") if np.dtype(kind) != np.uint64 else np.dtype("<f8")
    for name, array in (("A", a), ("B", big)):
        b = gx.fetch(db, name)
        assert b.dtype == want and np.array_equal(b, array.astype(want))
    assert db.execute("SELECT gx_check()").fetchone()[0] == "ok"


def test_strides_and_shapes(db):
    base = numbers((300, 500), "f8")
    small_tiles(db, 4096)
    views = {"C": base, "F": np.asfortranarray(base), "T": base.T, "every third": base[::3, ::2],
             "backwards": base[::-1, ::-1], "column": base[:, 7], "broadcast": np.broadcast_to(base[0], (400, 500)),
             "number": np.float64(3), "row": base[:1], "none": base[:0], "no columns": base[:, :0],
             "list": [[1, 2], [3, 4]], "readonly": np.frombuffer(base.tobytes()).reshape(base.shape)}
    for name, view in views.items():
        gx.store(db, name, view)
        want = np.asarray(view, float)
        assert np.array_equal(gx.fetch(db, name), want if want.ndim == 2 else want.reshape(-1, 1)), name
    gx.store(db, "C", base, replace=True, dtype="f32")
    assert np.array_equal(gx.fetch(db, "C"), base.astype("f4"))
    gx.store(db, "C", base, replace=True, dtype=np.complex64)
    assert gx.fetch(db, "C").dtype == np.complex64


def test_refused_arrays(db):
    for data, text in ((np.zeros((2, 2, 2)), "3 dimensions"), (np.array([["a"]]), "are not numbers"),
                       ([[1], [2, 3]], "row 1 of the data has 2 elements, expected 1"), (np.array([[None]]), "Python objects")):
        with pytest.raises((ValueError, TypeError), match=text):
            gx.store(db, "A", data)
    with pytest.raises(TypeError, match="lose the imaginary part"):
        gx.store(db, "A", np.array([1j]), dtype="f64")
    assert db.execute("SELECT count(*) FROM gx").fetchone() == (0,)
    for data in ({1: 2}, {1, 2}, "12"):
        with pytest.raises(TypeError, match="has no rows in an order"):
            gx.store(db, "R", data)
    with pytest.raises(Exception, match="a blob of 3 bytes that is no matrix value"):
        gx.store(db, "R", b"abc")


def test_matrix_values(db):
    value = db.execute("SELECT gx_matmul('[[1,2],[3,4]]', '[[1],[1]]')").fetchone()[0]
    for data in (value, bytearray(value)):
        gx.store(db, "V", data, replace=True)
        assert np.array_equal(gx.fetch(db, "V"), [[3], [7]])
    gx.store(db, "V", memoryview(np.ones((2, 3))), replace=True)
    assert np.array_equal(gx.fetch(db, "V"), np.ones((2, 3)))
    gx.store(db, "V", value, replace=True, dtype=np.float32)
    assert gx.matrix(db, "V").dtype == np.float32


# ---- 3. blocks of rows -----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("rows", [True, False], ids=["counted", "uncounted"])
@pytest.mark.parametrize("sizes", [[1] * 40, [700], [64, 64, 0, 200], [3, 500, 7]], ids=str)
def test_blocks(db, sizes, rows):
    small_tiles(db, 32768)
    a = numbers((sum(sizes), 250), "f8")
    ends = np.cumsum(sizes)
    blocks = (a[end - size:end] if size != 1 else a[end - 1] for size, end in zip(sizes, ends))
    gx.store(db, "A", blocks, rows=len(a) if rows else None)
    assert np.array_equal(gx.fetch(db, "A"), a)


def test_refused_blocks(db):
    small_tiles(db, 4096)
    block = numbers((500, 300), "f8")
    for blocks, rows, text in (([block, block[:, 1:]], None, "a block of 299 columns, expected 300"),
                               ([block], 600, "the blocks end after 500 rows of 600"),
                               ([block, block], 600, "the blocks have more than 600 rows")):
        with pytest.raises(ValueError, match=text):
            gx.store(db, "A", iter(blocks), rows=rows)

    pair = numbers((4, 3), "f4")
    for blocks, rows, dtype, error, text in (
            ([pair, pair * 1j], None, None, TypeError, "a block is complex64 and f32 would lose the imaginary part"),
            ([pair, pair * 1j], 8, "f64", TypeError, "a block is complex64 and f64 would lose the imaginary part"),
            ([pair * 1j], None, "f64", TypeError, "a block is complex64 and f64"),
            ([pair, pair.astype("f8")], 8, None, TypeError, "a block of f64 after the first one's f32: dtype= says"),
            ([pair, np.arange(3)], None, None, TypeError, "a block of i64 after the first one's f32"),
            ([pair], 0, None, ValueError, "more than 0 rows"), ([pair], -1, None, ValueError, "-1 rows"),
            ([pair], 4.0, None, TypeError, "integer"), ([pair], "4", None, TypeError, "integer")):
        with pytest.raises(error, match=text):
            gx.store(db, "A", iter(blocks), rows=rows, dtype=dtype)
    for blocks, dtype in (([pair, pair.astype("f8")], "f32"), ([pair.astype("f8"), pair], None), ([pair * 1j, pair], None),
                          ([pair, pair * 1j], "c64"), ([pair[:0], pair], None), ([pair, pair.astype(object)], "f32")):
        for rows in (None, sum(map(len, blocks))):
            gx.store(db, "B", iter(blocks), rows=rows, dtype=dtype)
            assert np.array_equal(gx.fetch(db, "B"), np.concatenate(blocks).astype(gx.matrix(db, "B").dtype))
            db.execute("SELECT gx_drop('B')").fetchall()

    def fails():
        yield block
        raise KeyError("the file has ended")
    for rows in (1000, None):
        with pytest.raises(KeyError, match="the file has ended"):
            gx.store(db, "A", fails(), rows=rows)
    assert db.execute("SELECT count(*) FROM gx").fetchone() == (0,)
    gx.store(db, "A", iter([]))
    assert gx.fetch(db, "A").shape == (0, 0)


# ---- 4. frames -------------------------------------------------------------------------------------------------------

def test_pandas(db):
    pandas = pytest.importorskip("pandas")
    small_tiles(db, 4096)
    frame = pandas.DataFrame({"a": np.arange(90000.0), "b": np.arange(90000), "c": np.arange(90000) % 2 == 0})
    frame["d"] = pandas.array([None, *range(1, 90000)], dtype="Int64")
    gx.store(db, "A", frame)
    want = frame.to_numpy(float, na_value=np.nan)
    assert np.array_equal(gx.fetch(db, "A"), want, equal_nan=True)
    gx.store(db, "S", frame[["a"]][:3])
    assert np.array_equal(gx.fetch(db, "S"), [[0], [1], [2]])
    with pytest.raises(TypeError, match="column 'name' is object, not numbers|column 'name' is str, not numbers"):
        gx.store(db, "B", frame[:2].assign(name=["x", "y"]))
    gx.store(db, "O", pandas.DataFrame({"a": [1.5, 2], "o": pandas.Series([3, 4.5], dtype=object)}), dtype="f64")
    assert np.array_equal(gx.fetch(db, "O"), [[1.5, 3], [2, 4.5]])  # asked for, what is no number by its type becomes one
    apart = pandas.DataFrame({"a": [1.0, 2.0], "z": [1j, 2.0]})
    with pytest.raises(TypeError, match="column 'z' is complex128 and f64 would lose the imaginary part"):
        gx.store(db, "B", apart, dtype="f64")
    back = pandas.DataFrame(gx.fetch(db, "A"), columns=frame.columns)
    assert back.shape == frame.shape


@pytest.mark.parametrize("kind", ["boolean", "Int64", "Float32", "bool[pyarrow]", "int64[pyarrow]"])
def test_frames_of_missing_values(db, kind):
    """A column alone, whose first value is there: what pandas shows of that one is not what it shows of all."""
    pandas = pytest.importorskip("pandas")
    if "pyarrow" in kind:
        pytest.importorskip("pyarrow")
    gx.store(db, "A", pandas.DataFrame({"a": pandas.array([1, None, 0], dtype=kind)}))
    assert np.array_equal(gx.fetch(db, "A")[:, 0], [1, np.nan, 0], equal_nan=True)


@pytest.mark.parametrize("kind", ["f8", "f4", "c16", "i4", ">f8"])
def test_frames_of_one_array(db, kind):
    """Columns that lie in one array are lent as it is; in several, even of one type, they are taken tile by tile."""
    pandas = pytest.importorskip("pandas")
    small_tiles(db, 65536)
    a = numbers((900, 400), kind)
    whole = pandas.DataFrame(a, columns=["same"] * 400)
    apart = pandas.DataFrame(a[:, :399]).assign(last=a[:, 399])
    for name, frame, is_whole in (("A", whole, True), ("F", pandas.DataFrame(np.asfortranarray(a)), True),
                                  ("V", whole.iloc[::2, 1:], True), ("P", apart, False), ("E", whole[:0], False)):
        made = gx._sources.source(frame)
        assert (made.lendable is not None) is is_whole and made.shape == frame.shape
        assert not is_whole or np.shares_memory(made.lendable, frame.to_numpy())
        gx.store(db, name, frame)
        assert np.array_equal(gx.fetch(db, name), frame.to_numpy())
    assert np.array_equal(whole.to_numpy(), a)


def test_arrow(db):
    arrow = pytest.importorskip("pyarrow")
    small_tiles(db, 4096)
    flat = arrow.array(numbers(64 * 3000, "f4"))
    column = arrow.FixedSizeListArray.from_arrays(flat, 64)
    want = np.asarray(flat).reshape(-1, 64)
    gx.store(db, "A", column)
    gx.store(db, "B", column[500:])
    gx.store(db, "C", arrow.chunked_array([column[:1000], column[1000:]]))
    table = arrow.table({"x": np.arange(200000.0), "n": np.arange(200000)})
    gx.store(db, "T", table)
    assert np.array_equal(gx.fetch(db, "A"), want) and gx.fetch(db, "A").dtype == np.float32
    assert np.array_equal(gx.fetch(db, "B"), want[500:]) and np.array_equal(gx.fetch(db, "C"), want)
    assert np.array_equal(gx.fetch(db, "T"), np.stack([np.arange(200000.0)] * 2, 1))
    for column, want in ((arrow.array([1, 2, 3]), [1, 2, 3]), (arrow.array([True, None, False]), [1, np.nan, 0]),
                         (table.column("n")[5:7], [5, 6]),
                         (arrow.array([[True], [False]], arrow.list_(arrow.bool_(), 1)), [1, 0]), (arrow.chunked_array([[1.5], [None, 2]]), [1.5, np.nan, 2])):
        gx.store(db, "V", column, replace=True)
        assert np.array_equal(gx.fetch(db, "V")[:, 0], want, equal_nan=True)
    for wrong, text in ((arrow.array([[1.0], None], arrow.list_(arrow.float64(), 1)), "1 lists of the Arrow column are null, the first in row 1"),
                        (arrow.array([["a"]], arrow.list_(arrow.string(), 1)), "expected numbers or lists of numbers"),
                        (arrow.array(["a"]), "expected numbers or lists of numbers"),
                        (arrow.table({"s": ["x"]}), "column 's' is")):
        with pytest.raises((TypeError, ValueError), match=text):
            gx.store(db, "N", wrong)


@pytest.mark.parametrize("kind", ["f8", "f4", "c16", "c8", "i4", "?"])
def test_sparse(db, tmp_path, kind):
    sparse = pytest.importorskip("scipy.sparse")
    small_tiles(db)
    a = numbers((90, 70), kind) * (RNG.random((90, 70)) < 0.1)
    for form in ("csr", "csc", "coo", "lil", "bsr"):
        assert gx.store(db, "A", sparse.csr_matrix(a).asformat(form), replace=True) == "A"
        b = gx.fetch(db, "A")
        assert isinstance(b, sparse.csr_matrix) and b.dtype == a.dtype
        assert np.array_equal(b.toarray(), a) and b.nnz == np.count_nonzero(a)
    assert gx.fetch(db, db.execute("SELECT gx_copy('A')").fetchone()[0]).nnz == b.nnz
    sparse.save_npz(tmp_path / "a.npz", b)
    gx.store(db, "B", sparse.load_npz(tmp_path / "a.npz"), dtype="c64")
    assert np.array_equal(gx.fetch(db, "B").toarray(), a.astype("c8")) and db.execute("SELECT gx_check()").fetchone() == ("ok",)
    assert np.array_equal(gx.fetch(db, db.execute("SELECT gx_dense('A')").fetchone()[0]), a)


def test_sparse_shapes_and_refusals(db):
    sparse = pytest.importorskip("scipy.sparse")
    twice = sparse.coo_matrix(([1.0, 2.0, 4.0], ([1, 1, 0], [2, 2, 0])), (3, 4))
    unsorted = sparse.csr_matrix((np.array([1.0, 2.0]), np.array([3, 1]), np.array([0, 2, 2, 2])), (3, 4))
    for a in (twice, unsorted, sparse.csr_matrix((0, 5)), sparse.csr_matrix((5, 0)), sparse.csr_matrix((5, 4))):
        before = a.copy()
        gx.store(db, "A", a, replace=True)
        assert np.array_equal(gx.fetch(db, "A").toarray(), a.toarray()) and (a != before).nnz == 0
    wide = sparse.coo_matrix(([7.0], ([2], [2 ** 32])), (3, 2 ** 33))
    gx.store(db, "W", wide)
    assert gx.fetch(db, "W")[2, 2 ** 32] == 7 and gx.fetch(db, "W").shape == wide.shape
    with pytest.raises(TypeError, match="which cannot go into an array"):
        gx.fetch(db, "A", out=np.empty((5, 4)))
    with pytest.raises(TypeError, match="lose the imaginary part"):
        gx.store(db, "C", twice * 1j, dtype="f64")
    blob = bytearray(db.execute("SELECT gx_sparse(gx_eye(3))").fetchone()[0])
    for at, value in ((32, 1), (40, 9), (48, 3), (48, 255), (24, 200), (24, 2), (5, 9)):
        damaged = bytearray(blob)
        damaged[at] = value
        with pytest.raises(ValueError, match="gx_sqlite.fetch: a sparse value"):
            gx.fetch(db, damaged)


# ---- 5. names, transactions ------------------------------------------------------------------------------------------

def test_schemas(db, tmp_path):
    db.execute("ATTACH ? AS other", (str(tmp_path / "other.db"),))
    for k, name in enumerate(("main.A", "other.A", "other.B", "temp.A", "main.v1.0", 'a "name"')):
        gx.store(db, name, np.full((2, 2), k))
    for name, k in (("main.A", 0), ("other.A", 1), ("B", 2), ("A", 3), ("OTHER.B", 2), ("v1.0", 4), ('a "name"', 5)):
        assert np.array_equal(gx.fetch(db, name), np.full((2, 2), k)), name


def test_transactions(db):
    gx.store(db, "A", np.zeros((40, 40)))
    db.execute("CREATE VIRTUAL TABLE a USING gx_cells('A')")
    db.execute("BEGIN")
    db.execute("INSERT INTO a(i, j, value) VALUES(39, 39, 7)")
    assert gx.fetch(db, "A")[39, 39] == 7  # gx holds it still
    gx.store(db, "A", numbers((500, 500), "f8"), replace=True)
    assert gx.fetch(db, "A").shape == (500, 500)
    db.execute("ROLLBACK")
    assert gx.fetch(db, "A").shape == (40, 40)


def test_another_connection_has_not_committed(db, tmp_path):
    gx.store(db, "A", np.zeros((2, 2)))
    other = open_sqlite3(str(tmp_path / "test.db"))
    gx.load(other)
    other.execute("BEGIN")
    gx.store(other, "A", np.ones((3, 3)), replace=True)
    assert gx.fetch(db, "A").shape == (2, 2)
    other.execute("COMMIT")
    assert gx.fetch(db, "A").shape == (3, 3)
    other.close()


def test_out_and_factorisations(db):
    a = numbers((30, 20), "f8")
    gx.store(db, "A", a)
    out = np.zeros((30, 20), "f4")
    assert gx.fetch(db, "A", out=out) is out and np.array_equal(out, a.astype("f4"))
    with pytest.raises(ValueError, match="the matrix is 30x20 but out has the shape"):
        gx.fetch(db, "A", out=np.zeros((20, 30)))
    db.execute("SELECT gx_lu('A', 'F')").fetchall()
    with pytest.raises(Exception, match="factorisation"):
        gx.fetch(db, "F")


def test_volumes(db, monkeypatch):
    """Tiles in other files than the database's come through gx."""
    small_tiles(db, 4096)
    db.execute("SELECT gx_volumes(2)").fetchall()
    a = numbers((300, 200), "f4")
    gx.store(db, "A", a)
    gx.store(db, "E", a[:, :0])
    assert db.execute("SELECT sum(tiles) > 3 FROM gx_volume").fetchone() == (1,)
    for band in (64 << 20, 64 << 10, 800):
        monkeypatch.setattr(gx._arrays, "_BAND", band)
        assert np.array_equal(gx.fetch(db, "A"), a)
    assert gx.fetch(db, "E").shape == (300, 0)


def test_too_little_memory_is_said_in_words(db):
    gx.store(db, "A", np.zeros((3000, 3000)))
    db.execute("SELECT gx_config('memory_limit', '32MB')").fetchall()
    with pytest.raises(sqlite3.OperationalError, match="memory_limit leaves [0-9]+ of 32000000"):
        np.asarray(gx.matrix(db, "A").inverse())
    with pytest.raises(MemoryError, match="gx may use 32000000 bytes here"), gx._connect._texts(db):
        raise MemoryError  # as sqlite3 does, without a word


def test_while_a_statement_runs(db):
    """SQLite keeps functions while statements run."""
    gx.store(db, "A", np.zeros((2, 2)))
    running = db.execute("SELECT 1 UNION ALL SELECT 2")
    assert running.fetchone() == (1,)
    for _ in range(3):
        gx.store(db, "B", numbers((400, 400), "f8"), replace=True)
    assert running.fetchone() == (2,)


def page_bytes(db):
    return db.execute("PRAGMA page_size").fetchone()[0], db.execute("PRAGMA cache_size").fetchone()[0]


@pytest.mark.parametrize("before, size", [(None, 65536), ("CREATE TABLE t(x)", 4096), ("PRAGMA page_size = 8192", 8192),
                                          ("PRAGMA page_size = 65536", 65536), ("PRAGMA journal_mode = WAL", 4096)])
def test_pages(db, monkeypatch, before, size):
    monkeypatch.setattr(_arrays, "_LARGE", 3 << 20)
    if before:
        db.execute(before).fetchall()
    db.execute("PRAGMA cache_size = 321").fetchall()
    a = numbers((700, 700), "f8")
    gx.store(db, "A", a)
    assert page_bytes(db) == (size, 321) and np.array_equal(gx.fetch(db, "A"), a)
    with pytest.raises(sqlite3.Error, match="exists"):
        gx.store(db, "A", a)
    assert page_bytes(db) == (size, 321) and db.execute("SELECT gx_check()").fetchone() == ("ok",)


def test_pages_of_small_ones(db):
    gx.store(db, "A", numbers((700, 700), "f8"))
    assert page_bytes(db)[0] == 4096


# ---- 6. memory -------------------------------------------------------------------------------------------------------

MEMORY = """
import sqlite3, sys, resource, numpy as np
sys.path.insert(0, sys.argv[1])
import gx_sqlite as gx
db = sqlite3.connect(sys.argv[2], isolation_level=None)
gx.load(db)
gx.store(db, "warm", np.zeros((600, 600)))
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
a = np.arange(20e6).reshape(4000, 5000)
before = peak()
gx.store(db, "A", a)
print(peak() - before)
a = None
b = np.ones((4000, 5000)); b = None   # what one array takes is in the peak
before = peak()
assert gx.fetch(db, "A")[3999, 4999] == 20e6 - 1
print(peak() - before)
"""


def test_memory(tmp_path):
    printed = subprocess.run([sys.executable, "-c", MEMORY, str(ROOT / "ext/python"), str(tmp_path / "big.db")],
                             check=True, capture_output=True, text=True).stdout
    stored, fetched = map(float, printed.split())
    assert stored < 80 and fetched < 80, printed  # of 160 MB; tiles, SQLite's cache
