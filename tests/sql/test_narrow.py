"""Products with few columns or rows: the large operand is streamed (core/alg/alg_narrow.c).

Plan:
  1  dtypes x transposes x (few columns, few rows) x (square, tall, wide), in a file with either journal and in memory,
     memory for little and for all: the residual under LAPACK's threshold.
  2  alpha, beta with an accumulated destination; mixed dtypes; operands and results that are values.
  3  A long matrix times its own transpose, both ways round, conjugated or not: exactly symmetric.
  4  Counters: each tile of the large operand is read once, whatever the columns, plain and transposed; by helpers.
  5  deterministic: the same bits for every budget, number of threads and of readers.
  6  gx_plan foretells bytes and driver.
  7  A damaged tile, and a matrix of the open transaction.
"""
import itertools

import numpy as np
import pytest

from conftest import error, from_numpy, gx_connect, q, to_numpy

EPS = {"f64": 2.0**-53, "f32": 2.0**-24, "c128": 2.0**-53, "c64": 2.0**-24}
NUMPY = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}
TILE_BYTES = 64 * 64 * 8
TRANSPOSES = list(itertools.product("ntc", "ntc"))
SHAPES = [(500, 430), (2300, 70), (70, 2300), (9000, 20)]


def configure(db, **settings):
    for key, value in settings.items():
        db.execute("SELECT gx_config(?, ?)", (key, value))


def stat(db, name):
    return q(db, "SELECT value FROM gx_stats WHERE name = ?", name)


def random_matrix(rng, rows, cols, dtype):
    x = rng.standard_normal((rows, cols))
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal((rows, cols))
    return np.asfortranarray(x.astype(NUMPY[dtype]))


def op(x, kind):
    return {"n": x, "t": x.T, "c": x.conj().T}[kind]


def keys(ta, tb, more=""):
    pairs = [f'"{"conj" if t == "c" else "trans"}{side}":{"false" if t == "n" else "true"}'
             for t, side in ((ta, "a"), (tb, "b"))]
    return "{" + ",".join(pairs + [more] if more else pairs) + "}"


def ratio(got, want, a, b, dtype):
    """||C - C'||_1 / (k eps ||A||_1 ||B||_1), as LAPACK tests products."""
    norm = np.linalg.norm
    return norm(got - want, 1) / (a.shape[1] * EPS[dtype] * norm(a, 1) * norm(b, 1))


def store(db, name, array):
    db.execute("SELECT gx_store(?, ?, '{\"replace\":true}')", (name, from_numpy(array)))


def matrix(db, name):
    limit = q(db, "SELECT gx_config('memory_limit')")
    configure(db, memory_limit="256MiB")
    array = to_numpy(q(db, "SELECT gx_copy(?)", name))
    configure(db, memory_limit=limit)
    return array


def operands(rng, shape, k, ta, tb, is_left, dtype):
    """A and B as stored; the narrow one has k columns, or rows."""
    m, n = shape
    a, b = ((k, m), (m, n)) if is_left else ((m, n), (n, k))
    a, b = (a if ta == "n" else a[::-1]), (b if tb == "n" else b[::-1])
    return random_matrix(rng, *a, dtype), random_matrix(rng, *b, dtype)


@pytest.mark.parametrize("where", ["delete", "wal", "memory"])
@pytest.mark.parametrize("dtype", list(NUMPY))
def test_against_numpy(tmp_path, dtype, where):
    rng = np.random.default_rng(31)
    db = gx_connect(":memory:" if where == "memory" else str(tmp_path / "n.db"))
    if where != "memory":
        db.execute(f"PRAGMA journal_mode={where}").fetchone()
        db.execute("PRAGMA synchronous=off")
    configure(db, tile_bytes=TILE_BYTES, threads=3, readers=3)
    for index, (shape, k, is_left) in enumerate(itertools.product(SHAPES, (1, 5, 30), (False, True))):
        for step in range(3):
            ta, tb = TRANSPOSES[(index + 4 * step) % 9]
            a, b = operands(rng, shape, k, ta, tb, is_left, dtype)
            configure(db, memory_limit="64MiB")
            store(db, "A", a)
            store(db, "B", b)
            configure(db, memory_limit=["64MiB", 24 * TILE_BYTES + (512 << 10), "2MiB"][step])
            db.execute("SELECT gx_matmul('A', 'B', 'C', ?)", (keys(ta, tb, '"replace":true'),))
            got, want = matrix(db, "C"), op(a, ta) @ op(b, tb)
            assert got.dtype == NUMPY[dtype] and got.shape == want.shape
            assert ratio(got, want, op(a, ta), op(b, tb), dtype) < 30, (shape, k, is_left, ta, tb, step)
    assert q(db, "SELECT gx_check()") == "ok"
    db.close()


@pytest.mark.parametrize("dtype", ["f32", "c128"])
@pytest.mark.parametrize("is_left", [False, True])
def test_accumulates_and_converts(filedb, is_left, dtype):
    rng = np.random.default_rng(32)
    configure(filedb, tile_bytes=TILE_BYTES, threads=2, readers=2)
    for ta, tb in (("n", "n"), ("t", "c"), ("c", "t")):
        a, b = operands(rng, (700, 300), 4, ta, tb, is_left, dtype)
        c = random_matrix(rng, *(op(a, ta) @ op(b, tb)).shape, dtype)
        store(filedb, "A", a)
        store(filedb, "B", b)
        store(filedb, "C", c)
        alpha, beta = (0.5, -2.0) if dtype == "f32" else (0.5 - 1.5j, 2.0 + 1j)
        text = {True: "[%g,%g]", False: "%g"}[dtype == "c128"]
        numbers = [text % ((z.real, z.imag) if dtype == "c128" else z) for z in (alpha, beta)]
        filedb.execute("SELECT gx_matmul('A', 'B', 'C', ?)",
                       (keys(ta, tb, f'"replace":true,"alpha":{numbers[0]},"beta":{numbers[1]}'),))
        want = alpha * (op(a, ta) @ op(b, tb)) + beta * c
        assert np.allclose(matrix(filedb, "C"), want, rtol=0, atol=2e-4 if dtype == "f32" else 1e-11)
    a, b = random_matrix(rng, 700, 300, "f32"), random_matrix(rng, 300, 3, "c128")
    store(filedb, "A", a)
    store(filedb, "B", b)
    got = to_numpy(q(filedb, "SELECT gx_matmul('A', 'B')"))
    assert got.dtype == np.complex128 and ratio(got, a @ b, a, b, "c128") < 30


@pytest.mark.parametrize("dtype", list(NUMPY))
def test_values(db, dtype):
    rng = np.random.default_rng(33)
    for threads in (1, 3):
        configure(db, threads=threads)
        for (ta, tb), is_left in itertools.product((("n", "n"), ("t", "n"), ("n", "c"), ("c", "t")), (False, True)):
            a, b = operands(rng, (1700, 900), 6, ta, tb, is_left, dtype)
            got = to_numpy(q(db, "SELECT gx_matmul(?, ?, NULL, ?)", from_numpy(a), from_numpy(b), keys(ta, tb)))
            assert ratio(got, op(a, ta) @ op(b, tb), op(a, ta), op(b, tb), dtype) < 30, (ta, tb, is_left)


@pytest.mark.parametrize("dtype", list(NUMPY))
def test_gram(filedb, dtype):
    rng = np.random.default_rng(34)
    configure(filedb, tile_bytes=TILE_BYTES, threads=3, readers=3)
    tall = random_matrix(rng, 5000, 23, dtype)
    for ta, tb, a in (("t", "n", tall), ("c", "n", tall), ("n", "t", tall.T), ("n", "c", tall.T)):
        store(filedb, "A", a)
        filedb.execute("SELECT gx_stats_reset()")
        got = to_numpy(q(filedb, "SELECT gx_matmul('A', 'A', NULL, ?)", keys(ta, tb, '"alpha":0.5')))
        assert stat(filedb, "bytes_read") == a.nbytes
        want = 0.5 * (op(a, ta) @ op(a, tb))
        assert ratio(got, want, op(a, ta), op(a, tb), dtype) < 30
        assert (got == (got.conj().T if "c" in (ta, tb) else got.T)).all()


@pytest.mark.parametrize("k", [1, 8, 64])
@pytest.mark.parametrize("keyword", ["transa", "conja", "none"])
def test_each_tile_is_read_once(filedb, keyword, k):
    """1024 x 1024 in 16 tiles of 256 x 256: bytes <= 1.02 of A beside X, reads <= 1.1 of the tiles."""
    configure(filedb, tile_bytes=256 * 256 * 4, threads=2, readers=2)
    filedb.execute("SELECT gx_random(1024, 1024, 'A', '{\"dtype\":\"f32\"}')")
    filedb.execute(f"SELECT gx_random(1024, {k}, 'X', '{{\"dtype\":\"f32\"}}')")
    options = "{}" if keyword == "none" else f'{{"{keyword}":true}}'
    for limit in ("64MiB", "8MiB"):
        configure(filedb, memory_limit=limit)
        filedb.execute("SELECT gx_stats_reset()")
        filedb.execute("SELECT gx_matmul('A', 'X', 'C', ?)", (options[:-1] + (", " if len(options) > 2 else "") +
                                                             '"replace":true}',))
        assert stat(filedb, "bytes_read") == 4 * (1024 * 1024 + 1024 * k)
        x_tiles = -(-k * 1024 * 4 // (256 * 256 * 4))
        assert stat(filedb, "tiles_read") <= 17 + x_tiles
        assert stat(filedb, "helper_reads") >= 16


@pytest.mark.parametrize("dtype", ["f64", "c64"])
@pytest.mark.parametrize("is_left", [False, True])
def test_deterministic(filedb, is_left, dtype):
    rng = np.random.default_rng(35)
    filedb.execute("PRAGMA synchronous=off")
    for ta, tb, k in (("n", "n", 3), ("t", "n", 3), ("c", "t", 40)):
        configure(filedb, memory_limit="64MiB", deterministic="on", tile_bytes=TILE_BYTES)
        a, b = operands(rng, (900, 410), k, ta, tb, is_left, dtype)
        store(filedb, "A", a)
        store(filedb, "B", b)
        results = set()
        for limit, threads, readers in itertools.product(("64MiB", 40 * TILE_BYTES, 19 * TILE_BYTES), (1, 2, 3), (0, 2)):
            configure(filedb, threads=threads, readers=readers, memory_limit=limit)
            filedb.execute("SELECT gx_matmul('A', 'B', 'C', ?)", (keys(ta, tb, '"replace":true'),))
            configure(filedb, memory_limit="64MiB")
            results.add(bytes(q(filedb, "SELECT gx_copy('C')")))
        assert len(results) == 1


def test_plan(filedb):
    configure(filedb, tile_bytes=256 * 256 * 4)
    filedb.execute("SELECT gx_random(1024, 1024, 'A', '{\"dtype\":\"f32\"}')")
    filedb.execute("SELECT gx_random(1024, 8, 'X', '{\"dtype\":\"f32\"}')")
    for text in ("A @ X", "A.T @ X", "X.T @ A"):
        driver, read, written = filedb.execute(
            "SELECT driver, bytes_read, bytes_written FROM gx_plan(?)", (text,)).fetchone()
        assert (driver, read, written) == ("narrow", 4 * 1024 * 1032, 4 * 1024 * 8), text


def test_damage_and_open_transactions(filedb):
    configure(filedb, tile_bytes=TILE_BYTES, readers=2, threads=3, memory_limit="32MB")  # nothing is kept
    filedb.execute("SELECT gx_random(600, 600, 'A')")
    filedb.execute("SELECT gx_random(600, 2, 'X')")
    before = to_numpy(q(filedb, "SELECT gx_matmul('A', 'X')"))
    filedb.execute("BEGIN")
    filedb.execute("SELECT gx_scale('A', 2, 'A', '{\"replace\":true}')")
    filedb.execute("SELECT gx_stats_reset()")
    assert np.allclose(to_numpy(q(filedb, "SELECT gx_matmul('A', 'X')")), 2 * before, rtol=1e-14)
    assert stat(filedb, "helper_reads") == 0
    filedb.execute("ROLLBACK")
    filedb.execute("UPDATE gx_tile SET data = substr(data, 1, 100) WHERE id = (SELECT min(id) + 30 FROM gx_tile)")
    for key in ("{}", '{"transa":true}'):
        text = error(filedb, "SELECT gx_matmul('A', 'X', 'C', ?)", key)
        assert "tile 30 of A" in text
    assert q(filedb, "SELECT count(*) FROM gx_meta") == 2
