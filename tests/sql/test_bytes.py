"""Raw numbers in BLOBs: gx_from_bytes, gx_to_bytes, and f32 rows that nobody said are f32.

Plan:
1. NumPy and back in every dtype, shapes 0, 1, 2, 5, 50, tile +-1, tall and wide; stored and as values; at every
   alignment of the blob; in tiles of three sizes and little memory; NaN bits and -0 as they are;
2. to_bytes of every form of a matrix, with conversion; of a view of tiles, each tile read once;
3. destinations, replace, the text in the place of cols;
4. exact refusals: types, lengths, dtypes, cols, limits; a matrix value is no raw bytes; what functions say of raw bytes;
5. the guard: f32 embeddings of several kinds without dtype are refused, with it taken; f64 data of many kinds pass:
   normal, uniform, short decimals, thirds, integers, constants, converted from f32, zeros, tiny and huge.
"""
import numpy as np
import pytest
from conftest import error, from_numpy, gx_connect, q, to_numpy

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
    ("gx_from_bytes(zeroblob(16), 'f16')", "dtype 'f16' is not known (f64, f32, c128, c64)"),
    ("gx_from_bytes(zeroblob(16), NULL)", "dtype must be a text, not NULL"),
    ("gx_from_bytes(zeroblob(16), '{}')", "dtype is missing: 'f32', 'f64', 'c64' or 'c128'"),
    ("gx_from_bytes(zeroblob(16), 'f64', 0)", "cols must be positive, not 0"),
    ("gx_from_bytes(zeroblob(16), 'f64', -2)", "cols must be positive, not -2"),
    ("gx_from_bytes(zeroblob(16), 'f64', 1.5)", "cols must be an integer, not 1.5"),
    ("gx_from_bytes(zeroblob(40), 'f64', 3)", "bytes has 5 elements, which make no rows of 3"),
    ("gx_from_bytes(gx_eye(2), 'f64')", "bytes is a matrix value, which needs no conversion"),
    ("gx_from_bytes(zeroblob(16))", "takes 2 to 5 arguments, not 1: "
     "gx_from_bytes(bytes, dtype[, cols][, destination][, options])"),
    ("gx_to_bytes(NULL)", "A is NULL"),
    ("gx_to_bytes('[\"1i\"]', 'f64')", "A is c128 and f64 would lose the imaginary part"),
    ("gx_to_bytes('[1]', 'i8')", "dtype 'i8' is not known (f64, f32, c128, c64)"),
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


# ---- 5. the guard ----------------------------------------------------------------------------------------------------

F32 = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "unit": lambda rng, n: (lambda v: v / np.linalg.norm(v))(rng.standard_normal(n)),
    "uniform": lambda rng, n: rng.random(n),
    "rectified": lambda rng, n: np.maximum(rng.standard_normal(n), -0.2) + 0.2,
    "pixels": lambda rng, n: rng.integers(1, 255, n),
}


@pytest.mark.parametrize("kind", F32)
@pytest.mark.parametrize("n", [64, 384, 1024])
def test_f32_is_seen(db, kind, n):
    row = F32[kind](np.random.default_rng(n), n).astype("<f4").tobytes()
    for call in ("gx_from_rows(0, ?)", "gx_store_rows('E', 0, ?)"):
        name = call[:call.index("(")]
        assert error(db, f"SELECT {call}", row) == (
            f"{name}: row 0 looks like {n} f32 numbers, not {n // 2} f64: say which with "
            "'{\"dtype\":\"f32\"}' or '{\"dtype\":\"f64\"}' (input row 1)")
    assert q(db, "SELECT gx_shape(gx_from_rows(0, ?, '{\"dtype\":\"f32\"}'))", row) == f"[1,{n}]"
    assert q(db, "SELECT gx_shape(gx_from_rows(0, ?, '{\"dtype\":\"f64\"}'))", row) == f"[1,{n // 2}]"
    assert q(db, "SELECT count(*) FROM gx") == 0


F64 = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "uniform": lambda rng, n: rng.random(n),
    "decimals": lambda rng, n: np.round(rng.random(n), 1),
    "cents": lambda rng, n: np.round(rng.random(n) * 100, 2),
    "thirds": lambda rng, n: rng.integers(1, 100, n) / 3,
    "thirteenths": lambda rng, n: rng.integers(1, 100, n) / 13,
    "integers": lambda rng, n: rng.integers(-1000, 1000, n),
    "constant": lambda rng, n: np.full(n, rng.random()),
    "alternating": lambda rng, n: np.resize(rng.random(2), n),
    "was f32": lambda rng, n: rng.standard_normal(n).astype("<f4"),
    "zeros": lambda rng, n: np.zeros(n),
    "tiny": lambda rng, n: rng.standard_normal(n) * 1e-300,
    "huge": lambda rng, n: rng.standard_normal(n) * 1e300,
    "times": lambda rng, n: 1.7e9 + rng.random(n) * 1e6,
}


@pytest.mark.parametrize("kind", F64)
def test_f64_passes(db, kind):
    rng = np.random.default_rng(7)
    for n in (1, 7, 8, 9, 16, 100, 384):
        for _ in range(20):
            a = F64[kind](rng, n).astype("<f8")
            assert np.array_equal(to_numpy(q(db, "SELECT gx_from_rows(0, ?)", a.tobytes()))[0], a), (kind, n)


def test_only_the_first_row_is_judged(db):
    ordinary, odd = numbers((384,), "f64"), numbers((768,), "f32")
    db.execute("CREATE TABLE t(i, row)")
    db.executemany("INSERT INTO t VALUES(?, ?)", [(0, ordinary.tobytes()), (1, odd.tobytes())])
    assert q(db, "SELECT gx_shape(gx_from_rows(i, row)) FROM t") == "[2,384]"
    values = [(0, from_numpy(odd.reshape(1, -1)))]
    db.execute("DELETE FROM t")
    db.executemany("INSERT INTO t VALUES(?, ?)", values)
    assert q(db, "SELECT gx_shape(gx_from_rows(i, row)) FROM t") == "[1,768]"
