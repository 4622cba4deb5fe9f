"""Raw numbers in BLOBs: gx_from_bytes, gx_to_bytes, and rows that nobody said the dtype of.

Plan:
1. NumPy and back in every dtype, shapes 0, 1, 2, 5, 50, tile +-1, tall and wide; stored and as values; at every
   alignment of the blob; in tiles of three sizes and little memory; NaN bits and -0 as they are;
2. to_bytes of every form of a matrix, with conversion; of a view of tiles, each tile read once;
3. destinations, replace, the text in the place of cols;
4. exact refusals: types, lengths, dtypes, cols, limits; a matrix value is no raw bytes; what functions say of raw bytes;
5. without a header: every place that takes raw rows, every length, with a dtype that is said, with a width that is
   known, and with neither: read in the one way there is, or refused with every way named.
"""
import numpy as np
import pytest
from conftest import DTYPE_NAMES, error, from_numpy, gx_connect, q, to_numpy

NAMES = {"f64": "<f8", "f32": "<f4", "c128": "<c16", "c64": "<c8"}
SHAPES = [(0, 1), (1, 1), (1, 5), (5, 1), (2, 3), (50, 7), (15, 16), (16, 17), (17, 33), (300, 2), (2, 300)]


def numbers(shape, dtype, seed=1):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(shape)
    return (a + 1j * rng.standard_normal(shape) if dtype.startswith("c") else a).astype(NAMES[dtype])


# ---- 1. NumPy and back -----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", NAMES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_round_trip(db, shape, dtype):
    db.execute("SELECT gx_config('tile_bytes', 2048)")
    a = numbers(shape, dtype)
    value = q(db, "SELECT gx_from_bytes(?, ?, ?)", a.tobytes(), dtype, shape[1])
    assert to_numpy(value).dtype == a.dtype and np.array_equal(to_numpy(value).reshape(shape), a)
    assert q(db, "SELECT gx_to_bytes(?)", value) == a.tobytes()
    q(db, "SELECT gx_from_bytes(?, ?, ?, 'A')", a.tobytes(), dtype, shape[1])
    assert q(db, "SELECT gx_shape('A')") == f"[{shape[0]},{shape[1]}]" and q(db, "SELECT gx_dtype('A')") == dtype
    assert q(db, "SELECT gx_to_bytes('A')") == a.tobytes() and q(db, "SELECT gx_check('A')") == "ok"


def test_any_alignment(db):
    a = numbers((3, 4), "f64")
    for offset in range(9):
        row = db.execute("SELECT gx_from_bytes(substr(?, ?), 'f64', 4)", (b"x" * offset + a.tobytes(), offset + 1)).fetchone()
        assert np.array_equal(to_numpy(row[0]), a)


def test_bits_are_kept(db):
    bits = np.array([0x7FF8000000000001, 0xFFF0000000000000, 0x8000000000000000, 1, 0x7FF4DEADBEEF0000], "<u8").tobytes()
    assert q(db, "SELECT gx_to_bytes(gx_from_bytes(?, 'f64'))", bits) == bits


def test_little_memory(tmp_path):
    db = gx_connect(str(tmp_path / "a.db"))
    db.execute("SELECT gx_config('tile_bytes', 65536)")
    db.execute("SELECT gx_config('memory_limit', '4MiB')")
    a = numbers((700, 300), "f64")
    q(db, "SELECT gx_from_bytes(?, 'float64', 300, 'A')", a.tobytes())
    before = q(db, "SELECT value FROM gx_stats WHERE name = 'bytes_read'")
    assert q(db, "SELECT gx_to_bytes('A')") == a.tobytes()
    assert q(db, "SELECT value FROM gx_stats WHERE name = 'bytes_read'") - before <= 1.5 * a.nbytes
    assert q(db, "SELECT value FROM gx_stats WHERE name = 'memory_peak'") <= 4 << 20
    assert "memory_limit" in error(db, "SELECT gx_to_bytes(gx_randn(2000, 2000, 'B'))")
    db.close()


# ---- 2. to_bytes -----------------------------------------------------------------------------------------------------

def test_every_form(db):
    q(db, "SELECT gx_store('A', '[[1,2],[3,4]]')")
    for form in ("'A'", "'[[1,2],[3,4]]'", "gx_cast('A', 'f64')"):
        assert np.frombuffer(q(db, f"SELECT gx_to_bytes({form})")).tolist() == [1, 2, 3, 4]
    assert np.frombuffer(q(db, "SELECT gx_to_bytes(7)")).tolist() == [7]
    assert np.frombuffer(q(db, "SELECT gx_to_bytes('A', 'float32')"), "<f4").tolist() == [1, 2, 3, 4]
    assert np.frombuffer(q(db, "SELECT gx_to_bytes('A', 'c64')"), "<c8").tolist() == [1, 2, 3, 4]
    assert q(db, "SELECT typeof(gx_to_bytes('[]'))") == "blob" and q(db, "SELECT gx_to_bytes('[]')") == b""
    rows = db.execute("SELECT gx_to_bytes(row, 'f32') FROM gx_rows('A')").fetchall()
    assert [np.frombuffer(r[0], "<f4").tolist() for r in rows] == [[1, 2], [3, 4]]


# ---- 3. destinations -------------------------------------------------------------------------------------------------

def test_destinations(db):
    raw = np.arange(6.0).tobytes()
    assert q(db, "SELECT gx_from_bytes(?, 'f64', 'V')", raw) == "V" and q(db, "SELECT gx_shape('V')") == "[6,1]"
    assert q(db, "SELECT gx_from_bytes(?, 'f64', 2, 'temp.T')", raw) == "temp.T"
    assert q(db, "SELECT gx_json('T')") == "[[0.0,1.0],[2.0,3.0],[4.0,5.0]]"
    assert error(db, "SELECT gx_from_bytes(?, 'f64', 2, 'V')", raw) == (
        "gx_from_bytes: matrix 'V' already exists (use '{\"replace\":true}')")
    assert q(db, "SELECT gx_from_bytes(?, 'f64', 3, 'V', '{\"replace\":true}')", raw) == "V"
    assert q(db, "SELECT gx_shape(gx_from_bytes(?, 'f64', NULL))", raw) == "[6,1]"
    assert q(db, "SELECT gx_shape(gx_from_bytes(?, 'f64', '{}'))", raw) == "[6,1]"


# ---- 4. refused ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("call, text", [
    ("gx_from_bytes(NULL, 'f64')", "bytes must be a blob, not NULL"),
    ("gx_from_bytes('abc', 'f64')", "bytes must be a blob, not 'abc'"),
    ("gx_from_bytes(5, 'f64')", "bytes must be a blob, not 5"),
    ("gx_from_bytes(x'00', 'f64')", "bytes is a blob of 1 bytes, not a multiple of 8 (f64)"),
    ("gx_from_bytes(zeroblob(12), 'c64')", "bytes is a blob of 12 bytes, not a multiple of 8 (c64)"),
    ("gx_from_bytes(zeroblob(16), 'f18')", f"dtype 'f18' is not known ({DTYPE_NAMES})"),
    ("gx_from_bytes(zeroblob(16), NULL)", "dtype must be a text, not NULL"),
    ("gx_from_bytes(zeroblob(16), '{}')", f"dtype is missing: {DTYPE_NAMES}"),
    ("gx_from_bytes(zeroblob(16), 'f64', 0)", "cols must be positive, not 0"),
    ("gx_from_bytes(zeroblob(16), 'f64', -2)", "cols must be positive, not -2"),
    ("gx_from_bytes(zeroblob(16), 'f64', 1.5)", "cols must be an integer, not 1.5"),
    ("gx_from_bytes(zeroblob(40), 'f64', 3)", "bytes has 5 elements, which make no rows of 3"),
    ("gx_from_bytes(gx_eye(2), 'f64')", "bytes is a matrix value, which needs no conversion"),
    ("gx_from_bytes(zeroblob(16))", "takes 2 to 5 arguments, not 1: "
     "gx_from_bytes(bytes, dtype[, cols][, destination][, options])"),
    ("gx_to_bytes(NULL)", "A is NULL"),
    ("gx_to_bytes('[\"1i\"]', 'f64')", "A is c128 and f64 would lose the imaginary part"),
    ("gx_to_bytes('[1]', 'i7')", f"dtype 'i7' is not known ({DTYPE_NAMES})"),
    ("gx_norm(zeroblob(1536))", "A is a blob of 1536 bytes that is no matrix value (no 'gxmv' in front): "
     "raw numbers go through gx_from_bytes"),
    ("gx_norm(zeroblob(5))", "A is a blob of 5 bytes that is no matrix value (no 'gxmv' in front)"),
])
def test_refused(db, call, text):
    assert error(db, f"SELECT {call}") == f"{call[:call.index('(')]}: {text}"
    assert q(db, "SELECT count(*) FROM gx") == 0


def test_length_limit(db):
    q(db, "SELECT gx_zeros(20000, 20000, 'Z')")
    assert error(db, "SELECT gx_to_bytes('Z')") == (
        "gx_to_bytes: Z is 20000x20000 f64, more bytes than SQLite's length limit of 1000000000: take a slice")


# ---- 5. without a header ---------------------------------------------------------------------------------------------

def readings(count, real=True, unit=""):
    """How a refusal names them, of so many bytes."""
    sizes = [("f32", 4), ("f64", 8)] + ([] if real else [("c64", 8), ("c128", 16)])
    return " or ".join(f"{count // size} {name}" for name, size in sizes if count % size == 0)


@pytest.mark.parametrize("call", ["gx_from_rows(0, ?)", "gx_store_rows('E', 0, ?)"])
def test_a_first_row_is_never_guessed(db, call):
    name = call[:call.index("(")]
    for count in (4, 8, 12, 16, 384, 3072):
        assert error(db, f"SELECT {call}", bytes(range(1, 5)) * (count // 4)) == (
            f"{name}: row 0 is a blob of {count} bytes without a header, which may be {readings(count)}: "
            'option "dtype" says what they are (input row 1)')
    assert error(db, f"SELECT {call}", b"12345") == (
        f"{name}: row 0 is a blob of 5 bytes, neither a matrix value nor a multiple of 4 (f32) or 8 (f64) (input row 1)")
    assert q(db, "SELECT count(*) FROM gx") == 0


@pytest.mark.parametrize("dtype", NAMES)
def test_a_dtype_that_is_said(db, dtype):
    row = numbers((6,), dtype)
    got = to_numpy(q(db, "SELECT gx_from_rows(0, ?, ?)", row.tobytes(), '{"dtype":"%s"}' % dtype))
    assert got.dtype == row.dtype and got[0].tobytes() == row.tobytes()
    assert error(db, "SELECT gx_from_rows(0, ?, ?)", row.tobytes() + b"x", '{"dtype":"%s"}' % dtype) == (
        f"gx_from_rows: row 0 is a blob of {row.nbytes + 1} bytes, not a multiple of {row.itemsize} ({dtype}) (input row 1)")


@pytest.mark.parametrize("how", ["cols", "list", "value"])
def test_a_width_that_is_known(db, how):
    """Then the length says what the numbers are, row by row."""
    first, options = numbers((1, 6), "f64"), '{"cols":6}' if how == "cols" else "{}"
    db.execute("CREATE TABLE t(i, row)")
    lead = {"cols": first.tobytes(), "list": str(first[0].tolist()), "value": from_numpy(first)}[how]
    f32, f64 = numbers((6,), "f32"), numbers((6,), "f64", 2)
    db.executemany("INSERT INTO t VALUES(?, ?)", [(0, lead), (1, f32.tobytes()), (2, f64.tobytes())])
    got = to_numpy(q(db, "SELECT gx_from_rows(i, row, ?) FROM t", options))
    assert np.array_equal(got, np.vstack([first[0], f32, f64]))
    for count in (12, 36, 96):
        assert error(db, "SELECT gx_from_rows(i, row, ?) FROM (SELECT * FROM t UNION ALL SELECT 3, zeroblob(?))", options, count) == (
            f"gx_from_rows: row 3 is a blob of {count} bytes, neither a matrix value nor 6 raw numbers: expected 24 (f32) or "
            "48 (f64) (input row 4)")
    assert q(db, "SELECT gx_shape(gx_from_rows(0, x''))") == "[1,0]"  # no bytes are no numbers of any kind


def test_rows_of_a_table(db):
    """Rows that are written have the matrix's width; of a complex one 8 bytes a number are read in two ways."""
    real, complexes = numbers((3, 4), "f32"), numbers((3, 4), "c64")
    for name, array in (("R", real), ("C", complexes)):
        q(db, "SELECT gx_store(?, ?)", name, from_numpy(array))
        db.execute(f"CREATE VIRTUAL TABLE t{name} USING gx_rows('{name}')")
    f32, f64, c64, c128 = (numbers((4,), dtype, 9) for dtype in ("f32", "f64", "c64", "c128"))
    for row in (f32, f64):
        db.execute("UPDATE tR SET row = ? WHERE i = 1", (row.tobytes(),))
        assert np.array_equal(to_numpy(q(db, "SELECT gx_copy('R')"))[1], row.astype("<f4"))
    for row in (f32, c128):
        db.execute("UPDATE tC SET row = ? WHERE i = 1", (row.tobytes(),))
        assert np.array_equal(to_numpy(q(db, "SELECT gx_copy('C')"))[1], row.astype("<c8"))
    for row in (f64, c64):
        assert error(db, "UPDATE tC SET row = ? WHERE i = 1", row.tobytes()) == (
            "gx_rows: tC: row is a blob of 32 bytes without a header, which may be 4 f64 or 4 c64: gx_from_bytes(row, 'c64') or "
            "'f64' says which")
    assert error(db, "UPDATE tR SET row = zeroblob(24) WHERE i = 1") == (
        "gx_rows: tR: row is a blob of 24 bytes, neither a matrix value nor 4 raw numbers: expected 16 (f32) or 32 (f64)")
    db.execute("UPDATE tC SET row = gx_from_bytes(?, 'c64') WHERE i = 1", (c64.tobytes(),))
    assert np.array_equal(to_numpy(q(db, "SELECT gx_copy('C')"))[1], c64)


@pytest.mark.parametrize("call", ["gx_norm(?)", "gx_cosine(?, '[[1,2]]')", "gx_distance('[[1,2]]', ?)", "gx_store('A', ?)",
                                  "gx_matmul(?, ?)", "gx_normalize(?)", "gx_kmeans(?, 1)", "gx_vstack(?, ?)",
                                  "gx_eval('A + 1', ?)", "gx_from_rows(0, gx_norm(?))"])
def test_matrices_are_no_raw_numbers(db, call):
    for count in (8, 16):
        text = error(db, f"SELECT {call}", *[bytes(count)] * call.count("?"))
        assert f"blob of {count} bytes" in text, text
