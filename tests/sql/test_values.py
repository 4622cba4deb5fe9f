"""Matrix values: the BLOB that a small matrix is.

Plan:
1. layout: what gx writes decodes byte by byte in NumPy, for each dtype and for empty, row, column shapes; what NumPy
   encodes comes back the same, whatever memory the blob lies in (a row of a table puts it at odd addresses);
2. forged headers: each field wrong once, lengths one off, products of sizes that overflow: refused in words, with nothing
   read behind the end (the sanitizer run sees that), for every function that takes a matrix;
3. a result past SQLite's length limit is refused with both numbers and the advice, and one at the limit is not;
4. random damage of a good value is either refused or gives a matrix of the header's shape.
"""
import random
import sqlite3
import struct

import numpy as np
import pytest
from conftest import DTYPES, SIZES, error, from_numpy, gx_connect, q, to_numpy

SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (1, 5), (5, 1), (2, 3), (7, 4)]
SEED = 20240611


def echo(db, blob):
    """The value through gx and back."""
    return q(db, "SELECT gx_slice(?, NULL, NULL, NULL, NULL)", blob)


def sample(shape, dtype, seed=SEED):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(shape)
    if dtype.kind == "c":
        a = a + 1j * rng.standard_normal(shape)
    return a.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_layout(db, shape, dtype):
    a = sample(shape, dtype)
    blob = from_numpy(a)
    assert echo(db, blob) == blob
    assert q(db, "SELECT gx_shape(?)", blob) == "[%d,%d]" % shape
    got = to_numpy(echo(db, blob))
    assert got.dtype == dtype and got.shape == shape and np.array_equal(got, a)


def test_header_of_a_result(db):
    blob = q(db, "SELECT gx_zeros(2, 3)")
    assert blob == b"gxmv" + bytes([1, 0, 0, 0]) + struct.pack("<qqq", 2, 3, 0) + bytes(48)


def test_special_elements_keep_their_bits(db):
    a = np.array([[np.nan, -np.inf, -0.0], [5e-324, 1.7976931348623157e308, np.inf]])
    a.view("<u8")[0, 0] = 0x7FF8_0000_DEAD_BEEF  # a NaN's payload
    assert echo(db, from_numpy(a)) == from_numpy(a)


def test_any_address(db):
    """Blobs inside database pages lie at any address: a text of each length before them moves them by a byte."""
    db.execute("CREATE TABLE t(label TEXT, m BLOB)")
    for k in range(17):
        for dtype in DTYPES:
            db.execute("INSERT INTO t VALUES(?, ?)", ("x" * k, from_numpy(sample((3, 2), dtype, k))))
    rows = db.execute("SELECT m, gx_slice(m, 0, 3, 0, 2), gx_json(m) FROM t").fetchall()
    assert len(rows) == 68
    for blob, same, text in rows:
        assert same == blob
        assert q(db, "SELECT gx_json(?)", blob) == text


def test_zeroblob_is_no_value(db):
    assert error(db, "SELECT gx_shape(zeroblob(100))") == (
        "gx_shape: A is a blob of 100 bytes that is no matrix value (no 'gxmv' in front): "
        "raw numbers go through gx_from_bytes")


GOOD = from_numpy(np.arange(6.0).reshape(2, 3))


def forged(offset, data):
    return GOOD[:offset] + data + GOOD[offset + len(data):]


FORGED = {
    "empty": (b"", "a blob of 0 bytes that is no matrix value (no 'gxmv' in front)"),
    "foreign": (b"\x00" * 80, "a blob of 80 bytes that is no matrix value (no 'gxmv' in front): "
                "raw numbers go through gx_from_bytes"),
    "three bytes": (b"gxm", "a blob of 3 bytes that is no matrix value (no 'gxmv' in front)"),
    "magic": (b"gxmv", "a matrix value that ends in its header (after 4 of 32 bytes)"),
    "in the header": (GOOD[:31], "a matrix value that ends in its header (after 31 of 32 bytes)"),
    "header alone": (GOOD[:32], "a matrix value of 2x3 f64 with 32 bytes instead of 80"),
    "truncated": (GOOD[:-1], "a matrix value of 2x3 f64 with 79 bytes instead of 80"),
    "too long": (GOOD + b"x", "a matrix value of 2x3 f64 with 81 bytes instead of 80"),
    "version 0": (forged(4, b"\x00"), "a matrix value of version 0, but this gx reads version 1"),
    "future version": (forged(4, b"\x02"), "a matrix value of version 2, but this gx reads version 1"),
    "dtype": (forged(5, b"\x63"), "a matrix value of unknown dtype 99"),
    "dtype 255": (forged(5, b"\xff"), "a matrix value of unknown dtype 255"),
    "other dtype": (forged(5, b"\x01"), "a matrix value of 2x3 f32 with 80 bytes instead of 56"),
    "zero bytes": (forged(7, b"\x01"), "a matrix value with reserved bytes that are not zero"),
    "reserved": (forged(31, b"\x80"), "a matrix value with reserved bytes that are not zero"),
    "negative rows": (forged(8, struct.pack("<q", -2)), "a matrix value of impossible size -2x3" + f" ({SIZES})"),
    "negative cols": (forged(16, struct.pack("<q", -1)), "a matrix value of impossible size 2x-1" + f" ({SIZES})"),
    "both negative": (forged(8, struct.pack("<qq", -2, -3)), "a matrix value of impossible size -2x-3" + f" ({SIZES})"),
    "least rows": (forged(8, struct.pack("<q", -2**63)), "a matrix value of impossible size -9223372036854775808x3" + f" ({SIZES})"),
    "huge rows": (forged(8, struct.pack("<q", 2**62)), "a matrix value of impossible size 4611686018427387904x3" + f" ({SIZES})"),
    "overflow": (forged(8, struct.pack("<qq", 2**32, 2**32)),
                 "a matrix value of impossible size 4294967296x4294967296" + f" ({SIZES})"),
    # 2^61 x 8 bytes wraps to 0 in 64 bits
    "wraps to 0": (forged(8, struct.pack("<qq", 2**61, 1))[:32], "a matrix value of impossible size 2305843009213693952x1" + f" ({SIZES})"),
    "large": (forged(8, struct.pack("<qq", 2**30, 2**20)),
              "a matrix value of 1073741824x1048576 f64 with 80 bytes instead of 9007199254741024"),
    "transposed": (forged(8, struct.pack("<qq", 3, 3)), "a matrix value of 3x3 f64 with 80 bytes instead of 104"),
    "empty rows": (forged(8, struct.pack("<qq", 0, 2**40)),
                   "a matrix value of 0x1099511627776 f64 with 80 bytes instead of 32"),
    "past 2^40 rows": (forged(8, struct.pack("<qq", 2**40 + 1, 0))[:32],
                       "a matrix value of impossible size 1099511627777x0" + f" ({SIZES})"),
    "past 2^40 columns": (forged(8, struct.pack("<qq", 0, 2**60))[:32],
                          "a matrix value of impossible size 0x1152921504606846976" + f" ({SIZES})"),
    "past 2^56 bytes": (forged(8, struct.pack("<qq", 2**27, 2**27)),
                        "a matrix value of impossible size 134217728x134217728" + f" ({SIZES})"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged(db, name):
    blob, text = FORGED[name]
    assert error(db, "SELECT gx_shape(?)", blob) == "gx_shape: A is " + text
    assert error(db, "SELECT gx_matmul('[1]', ?)", blob) == "gx_matmul: B is " + text
    assert error(db, "SELECT gx_store('A', ?)", blob).endswith(text)
    assert q(db, "SELECT count(*) FROM gx") == 0


@pytest.mark.parametrize("sql", [
    "gx_sum(x'67786d7601000000000000000000000000000000000000100000000000000000', 0)",  # 0 x 2^60: 2^64 bytes of sums
    "gx_pinv(x'67786d7601000000000000000000000000000000000000400000000000000000')",  # 0 x 2^62
    "gx_lstsq(x'67786d7601000000000000000000000000000000000000400000000000000000', '[]')",
    "gx_qr(x'67786d7601000000000000000000004000000000000000000000000000000000', 'QQ')",  # 2^62 x 0
])
def test_long_empty_sides_are_refused(db, sql):
    assert error(db, f"SELECT {sql}").endswith(SIZES + ")")


def test_empty_sides_may_be_huge(db):
    """0 x n has no element: n goes as far as any side."""
    blob = forged(8, struct.pack("<qq", 0, 2**40))[:32]
    assert q(db, "SELECT gx_shape(?)", blob) == "[0,1099511627776]"
    assert echo(db, blob) == blob


@pytest.mark.skipif(not hasattr(sqlite3.Connection, "setlimit"), reason="Python before 3.11 cannot set limits")
def test_length_limit(db):
    blob = from_numpy(np.zeros((10, 10)))
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 832)
    assert len(q(db, "SELECT gx_zeros(10, 10)")) == 832
    assert echo(db, blob) == blob
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 831)
    with pytest.raises(sqlite3.DataError):  # SQLITE_TOOBIG
        db.execute("SELECT gx_zeros(10, 10)").fetchall()
    assert error(db, "SELECT gx_zeros(10, 10)") == (
        "gx_zeros: a result of 10x10 f64 takes 832 bytes, past SQLite's length limit of 831: "
        "give a destination name to store it")


def test_length_limit_comes_before_the_work(db):
    assert error(db, "SELECT gx_zeros(1000000, 1000000)") == (
        "gx_zeros: a result of 1000000x1000000 f64 takes 8000000000032 bytes, past SQLite's length limit of 1000000000: "
        "give a destination name to store it")


def test_a_copy_needs_memory(db):
    """A blob at an odd address is copied within memory_limit, and the copy is given back."""
    before = q(db, "SELECT value FROM gx_settings WHERE key = 'memory_limit'")
    blob = from_numpy(np.ones((300, 300)))
    for _ in range(3):
        assert echo(db, blob) == blob
    assert q(db, "SELECT value FROM gx_settings WHERE key = 'memory_limit'") == before


def test_random_damage(db):
    rng = random.Random(SEED)
    print("seed", SEED)
    good = [from_numpy(sample((4, 5), dtype)) for dtype in DTYPES]
    accepted = 0
    for _ in range(3000):
        blob = bytearray(rng.choice(good))
        for _ in range(rng.randint(1, 4)):
            where = rng.randrange(0, 40)
            blob[where] = rng.choice([0, 1, 2, 3, 127, 128, 255, rng.randrange(256)])
        if rng.random() < 0.3:
            blob = blob[:rng.randrange(len(blob))]
        blob = bytes(blob)
        try:
            shape = q(db, "SELECT gx_shape(?)", blob)
        except sqlite3.OperationalError as problem:
            assert str(problem).startswith("gx_shape: A is a "), problem
            continue
        accepted += 1
        assert shape == "[%d,%d]" % to_numpy(blob).shape
        q(db, "SELECT gx_sum(?)", blob)
    assert accepted > 0


def test_connections_share_nothing():
    one, two = gx_connect(), gx_connect()
    one.execute("SELECT gx_store('A', '[1]')")
    assert error(two, "SELECT gx_shape('A')") == "gx_shape: no matrix named 'A'"
    one.close()
    assert q(two, "SELECT gx_shape('[1]')") == "[1,1]"
    two.close()
