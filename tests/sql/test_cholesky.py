"""gx_cholesky against LAPACK's own criteria.

Plan:
  1  LAPACK's ratio ||A - L L^H||_1 / (n eps ||A||_1) < 30 (dpot01) over dtypes, sizes (0, 1, 2, 3, 5, 10, 50,
     tile +- 1, 2 tile +- 1, several tiles), budgets (3 blocks, 10 blocks, all), lower and upper; the
     upper triangle of A holds NaN throughout; the other triangle of the factor is exactly zero.
  2  The gallery: known factors (moler, pascal, minij), residuals of the others, hilb may be indefinite.
  3  bcsstk13: the backward error of a solve with the factor is below 1e-14.
  4  Errors in words: indefinite with the global order, NaN and Inf named, not square, not symmetric, options.
     Nothing is stored then, and an old destination stays.
  5  Destination equal to the source; a value; a transaction; a properties check of the result.
  6  Counters: each tile is written once, what is read is within 1.25 of the formula.
  7  deterministic: the same bits for every budget and team.
  8  Interrupts leave nothing behind.
  9  A long diagonal, shared by helpers: the first infinite element is named.
"""
import itertools
import pathlib
import sqlite3
import threading

import numpy as np
import pytest

from conftest import error, from_numpy, q, to_numpy
from test_matmul import EPS, NUMPY, TILE, TILE_BYTES, configure, matrix, random_matrix, small_tiles

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
SIZES = [0, 1, 2, 3, 5, 10, 50, TILE - 1, TILE, TILE + 1, 2 * TILE - 1, 2 * TILE + 1, 4 * TILE + 7]


def definite(rng, n, dtype):
    x = random_matrix(rng, n, n, dtype)
    return (x @ x.conj().T + n * np.eye(n)).astype(NUMPY[dtype])


def lower_only(a):
    """a with an upper triangle, and a diagonal's imaginary part, that nobody may look at."""
    a = a.copy()
    a[np.triu_indices(a.shape[0], 1)] = np.nan
    if np.iscomplexobj(a):
        a[np.diag_indices(a.shape[0])] += 1j
    return a


def ratio(factor, a, dtype, upper=False):
    """dpot01: ||A - L L^H||_1 / (n eps ||A||_1)."""
    n = a.shape[0]
    if n == 0:
        return 0.0
    wide = np.complex128 if dtype.startswith("c") else np.float64
    f, a = factor.astype(wide), a.astype(wide)
    product = f.conj().T @ f if upper else f @ f.conj().T
    return np.linalg.norm(product - a, 1) / (n * EPS[dtype] * np.linalg.norm(a, 1))


def store(db, name, array):
    db.execute("SELECT gx_store(?, ?, '{\"replace\":true}')", (name, from_numpy(array)))


@pytest.mark.parametrize("upper", [False, True], ids=["lower", "upper"])
@pytest.mark.parametrize("blocks", [3, 10, None], ids=["3-blocks", "10-blocks", "all"])
@pytest.mark.parametrize("dtype", list(NUMPY))
def test_ratio(filedb, dtype, blocks, upper):
    rng = np.random.default_rng(21)
    filedb.execute("PRAGMA synchronous=off")
    small_tiles(filedb, blocks)
    for n in SIZES:
        a = definite(rng, n, dtype)
        store(filedb, "A", lower_only(a))
        keys = f'{{"replace":true,"upper":{str(upper).lower()}}}'
        assert q(filedb, "SELECT gx_cholesky('A', 'F', ?)", keys) == "F"
        got = matrix(filedb, "F")
        assert got.dtype == NUMPY[dtype] and got.shape == (n, n)
        assert not np.any(np.tril(got, -1) if upper else np.triu(got, 1)), n
        assert np.all(np.diag(got).real > 0) and not np.any(np.diag(got).imag)
        assert ratio(got, a, dtype, upper) < 30, n
    assert q(filedb, "SELECT properties FROM gx WHERE name = 'F'") == ("upper" if upper else "lower")
    assert q(filedb, "SELECT gx_check()") == "ok"


def test_blocks_of_several_tiles(filedb):
    rng = np.random.default_rng(22)
    configure(filedb, tile_bytes=8 << 10, memory_limit="64MiB")
    a = definite(rng, 333, "f64")
    store(filedb, "A", lower_only(a))
    for upper in ("false", "true"):
        filedb.execute("SELECT gx_cholesky('A', 'F', ?)", (f'{{"replace":true,"upper":{upper}}}',))
        assert ratio(matrix(filedb, "F"), a, "f64", upper == "true") < 30
        assert q(filedb, "SELECT gx_check('F')") == "ok"


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_helpers_read_while_the_factor_is_written(filedb, mode):
    rng = np.random.default_rng(23)
    filedb.execute(f"PRAGMA journal_mode={mode}").fetchone()
    a = definite(rng, 700, "f64")
    configure(filedb, tile_bytes=TILE_BYTES, memory_limit="64MiB", readers=3)
    store(filedb, "A", lower_only(a))
    for limit in (14 * TILE_BYTES + (256 << 10), 64 << 20):
        configure(filedb, memory_limit=limit)
        for upper in ("false", "true"):
            filedb.execute("SELECT gx_cholesky('A', 'F', ?)", (f'{{"replace":true,"upper":{upper}}}',))
            assert ratio(matrix(filedb, "F"), a, "f64", upper == "true") < 30
    assert q(filedb, "SELECT gx_check()") == "ok"
    assert q(filedb, "PRAGMA integrity_check") == "ok"


def test_values(db):
    rng = np.random.default_rng(24)
    for dtype in NUMPY:
        a = definite(rng, 20, dtype)
        got = to_numpy(q(db, "SELECT gx_cholesky(?)", from_numpy(lower_only(a))))
        assert np.allclose(got, np.linalg.cholesky(a), atol=20 * EPS[dtype] * np.abs(a).max())
    assert q(db, "SELECT gx_json(gx_cholesky(9))") == "[[3.0]]"
    assert to_numpy(q(db, "SELECT gx_cholesky(gx_zeros(0, 0))")).shape == (0, 0)


# ---- the gallery ---------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [3, None], ids=["3-blocks", "all"])
def test_known_factors(filedb, blocks):
    n = 2 * TILE + 9
    small_tiles(filedb, blocks)
    unit = np.tril(-np.ones((n, n)), -1) + np.eye(n)
    for kind, want in (("moler", unit), ("minij", np.tril(np.ones((n, n))))):
        filedb.execute("SELECT gx_matrix_gallery(?, ?, 'A', '{\"replace\":true}')", (kind, n))
        filedb.execute("SELECT gx_cholesky('A', 'L', '{\"replace\":true}')")
        assert np.array_equal(matrix(filedb, "L"), want), kind
    filedb.execute("SELECT gx_matrix_gallery('pascal', 12, 'P')")
    filedb.execute("SELECT gx_cholesky('P', 'L', '{\"replace\":true}')")
    rows = [[1.0]]
    while len(rows) < 12:
        rows.append([1.0] + [x + y for x, y in zip(rows[-1], rows[-1][1:])] + [1.0])
    want = np.array([row + [0.0] * (12 - len(row)) for row in rows])
    assert np.array_equal(matrix(filedb, "L"), want)


@pytest.mark.parametrize("kind", ["lehmer", "pei", "kms", "minij", "moler", "poisson", "tridiag", "hilb", "pascal"])
def test_gallery(filedb, kind):
    small_tiles(filedb, 10)
    for n in {"pascal": (1, 5, 12), "poisson": (1, 100, 144)}.get(kind, (1, 5, 12, 100, 144)):
        q(filedb, "SELECT gx_matrix_gallery(?, ?, 'A', '{\"replace\":true}')", kind, n)
        a = matrix(filedb, "A")
        try:
            q(filedb, "SELECT gx_cholesky('A', 'L', '{\"replace\":true}')")
        except sqlite3.OperationalError as problem:
            assert kind == "hilb" and n > 12 and "is not positive definite (leading minor of order " in str(problem)
            continue
        assert ratio(matrix(filedb, "L"), a, "f64") < 30, n


def test_bcsstk13(filedb):
    """Backward error of the solve: ||b - A x|| / (||A|| ||x|| + ||b||), 1-norms."""
    filedb.execute("PRAGMA synchronous=off")
    q(filedb, "SELECT gx_import('K', ?)", str(DATA / "bcsstk13.mtx"))
    q(filedb, "SELECT gx_config('memory_limit', '64MiB')")
    q(filedb, "SELECT gx_cholesky('K', 'L', '{\"check\":true}')")
    b = np.random.default_rng(25).standard_normal((2003, 3))
    store(filedb, "B", b)
    x = to_numpy(q(filedb, "SELECT gx_trsm('L', gx_trsm('L', 'B'), '{\"trans\":true}')"))
    k = matrix(filedb, "K")
    backward = np.linalg.norm(b - k @ x, 1) / (np.linalg.norm(k, 1) * np.linalg.norm(x, 1) + np.linalg.norm(b, 1))
    assert backward < 1e-14


# ---- errors --------------------------------------------------------------------------------------

ERRORS = [
    ("SELECT gx_cholesky('[[1,2],[2,1]]')", "gx_cholesky: A is not positive definite (leading minor of order 2)"),
    ("SELECT gx_cholesky('[[0]]')", "gx_cholesky: A is not positive definite (leading minor of order 1)"),
    ("SELECT gx_cholesky('[[1,2,3],[2,1,3]]')", "gx_cholesky: A is 2x3 but must be square"),
    ("SELECT gx_cholesky('[[4,0],[2,9]]', '{\"check\":true}')",
     "gx_cholesky: A is not symmetric (A[1,0] = 2.0, A[0,1] = 0.0)"),
    ("SELECT gx_cholesky('[[4,\"1+1i\"],[\"1+1i\",9]]', '{\"check\":true}')",
     "gx_cholesky: A is not Hermitian (A[1,0] = 1.0+1.0i, A[0,1] = 1.0+1.0i)"),
    ("SELECT gx_cholesky('[[4,0],[\"NaN\",9]]')", "gx_cholesky: A[1,0] is NaN"),
    ("SELECT gx_cholesky('[[4,0],[\"inf\",9]]')", "gx_cholesky: A[1,0] is Inf"),
    ("SELECT gx_cholesky('[[4,0],[0,\"inf\"]]')", "gx_cholesky: A[1,1] is Inf"),
    ("SELECT gx_cholesky('[[\"-inf\",0],[0,1]]')", "gx_cholesky: A[0,0] is -Inf"),
    ("SELECT gx_cholesky('nowhere')", "gx_cholesky: no matrix named 'nowhere'"),
    ("SELECT gx_cholesky(4, 'A')", "gx_cholesky: A exists already: give the option \"replace\":true to replace it"),
    ("SELECT gx_cholesky(4, '{\"lower\":true}')",
     'gx_cholesky: unknown option "lower": the known ones are "upper", "check", "dtype", "saturate" and "replace"'),
]


@pytest.mark.parametrize("sql, text", ERRORS)
def test_errors(db, sql, text):
    db.execute("SELECT gx_store('A', '[[1]]')")
    got = error(db, sql)
    if "nowhere" in sql or "exists" in text:  # the words are the store's: they name the matrix
        assert got.startswith("gx_cholesky: ") and ("nowhere" in got or "A" in got)
    else:
        assert got == text
    assert db.execute("SELECT name FROM gx").fetchall() == [("A",)]


@pytest.mark.parametrize("upper", ["false", "true"])
@pytest.mark.parametrize("blocks", [3, None], ids=["3-blocks", "all"])
def test_order_of_the_minor_is_global(filedb, blocks, upper):
    n = 4 * TILE
    small_tiles(filedb, blocks)
    rng = np.random.default_rng(26)
    keys = f'{{"replace":true,"upper":{upper}}}'
    filedb.execute("SELECT gx_store('F', '[[7]]')")
    for at in (0, TILE - 1, TILE, 3 * TILE + 5):
        a = definite(rng, n, "f64")
        a[at, at] = -1
        store(filedb, "A", a)
        assert error(filedb, "SELECT gx_cholesky('A', 'F', ?)", keys) == \
            f"gx_cholesky: A is not positive definite (leading minor of order {at + 1})"
        a[at, at] = n
        a[at, 0] = np.nan if at > 0 else n
        a[n - 1, n - 2] = np.inf
        store(filedb, "A", a)
        where, what = ((at, 0), "NaN") if at > 0 else ((n - 1, n - 2), "Inf")
        assert error(filedb, "SELECT gx_cholesky('A', 'F', ?)", keys) == f"gx_cholesky: A[{where[0]},{where[1]}] is {what}"
    assert q(filedb, "SELECT gx_json('F')") == "[[7.0]]"
    assert q(filedb, "SELECT gx_check()") == "ok"


def test_asymmetry_far_away(filedb):
    small_tiles(filedb)
    a = definite(np.random.default_rng(27), 300, "f64")
    a = (a + a.T) / 2
    store(filedb, "A", a)
    q(filedb, "SELECT gx_cholesky('A', 'F', '{\"check\":true}')")
    a[280, 3] = 0.1
    a[3, 280] = np.nextafter(0.1, 1)
    store(filedb, "A", a)
    assert error(filedb, "SELECT gx_cholesky('A', 'G', '{\"check\":true}')") == \
        "gx_cholesky: A is not symmetric (A[280,3] = 0.1, A[3,280] = 0.10000000000000002)"


def test_destination_equals_source(filedb):
    small_tiles(filedb, 3)
    a = definite(np.random.default_rng(28), 200, "f64")
    store(filedb, "A", a)
    filedb.execute("BEGIN")
    assert q(filedb, "SELECT gx_cholesky('A', 'A', '{\"replace\":true}')") == "A"
    filedb.execute("ROLLBACK")
    assert np.array_equal(matrix(filedb, "A"), a)
    assert "replace" in error(filedb, "SELECT gx_cholesky('A', 'A')")
    assert q(filedb, "SELECT gx_cholesky('A', 'A', '{\"replace\":true}')") == "A"
    assert ratio(matrix(filedb, "A"), a, "f64") < 30
    assert q(filedb, "SELECT gx_check()") == "ok"


# ---- counters ------------------------------------------------------------------------------------


def counters(db):
    return dict(db.execute("SELECT name, value FROM gx_stats").fetchall())


@pytest.mark.parametrize("upper", ["false", "true"])
@pytest.mark.parametrize("blocks", [6, 12, 18, 36, 78, 96, None])
def test_counters(filedb, blocks, upper):
    """n^3/(3 sqrt(S)) words again, and the lower triangle once."""
    n = 12 * TILE
    filedb.execute("PRAGMA synchronous=off")
    small_tiles(filedb)
    configure(filedb, memory_limit="64MiB")
    filedb.execute("SELECT gx_matrix_gallery('minij', ?, 'A')", (n,))
    cache = "64MiB" if blocks is None else blocks * TILE_BYTES
    # What a program takes beside its blocks is large beside such tiles: it is given on top.
    if blocks is not None:
        configure(filedb, memory_limit=max(3 * TILE_BYTES + (256 << 10), cache + (200 << 10)))
    filedb.execute("SELECT gx_stats_reset()")
    filedb.execute("SELECT gx_cholesky('A', 'L', ?)", (f'{{"upper":{upper}}}',))
    seen = counters(filedb)
    triangle = 8 * (12 * 13 // 2) * TILE * TILE
    again = 0 if blocks is None else 8 * n**3 / (3 * (blocks * TILE_BYTES / 8) ** 0.5)
    assert seen["tiles_written"] == 144 and seen["spills"] == 0
    if blocks is None:  # fewer and larger blocks: those on the diagonal reach further up
        assert seen["bytes_read"] < 8 * n * n
    else:
        assert triangle <= seen["bytes_read"] <= triangle + 1.25 * again + 8 * n
    assert np.array_equal(matrix(filedb, "L"), np.tril(np.ones((n, n))) if upper == "false" else np.triu(np.ones((n, n))))


@pytest.mark.parametrize("dtype", ["f64", "c64"])
def test_deterministic(filedb, dtype):
    rng = np.random.default_rng(29)
    filedb.execute("PRAGMA synchronous=off")
    small_tiles(filedb)
    store(filedb, "A", definite(rng, 5 * TILE + 3, dtype))
    configure(filedb, deterministic="on")
    for upper in ("false", "true"):
        results = set()
        for blocks, threads, readers in itertools.product((3, 10, None), (1, 2, 3), (0, 2)):
            configure(filedb, threads=threads, readers=readers, memory_limit="64MiB")
            if blocks is not None:
                small_tiles(filedb, blocks)
            filedb.execute("SELECT gx_cholesky('A', 'F', ?)", (f'{{"replace":true,"upper":{upper}}}',))
            configure(filedb, memory_limit="64MiB")
            results.add(bytes(q(filedb, "SELECT gx_copy('F')")))
        assert len(results) == 1, upper


def test_reference_backend(filedb):
    small_tiles(filedb)
    rng = np.random.default_rng(30)
    configure(filedb, backend="reference")
    for dtype in NUMPY:
        a = definite(rng, 2 * TILE + 5, dtype)
        store(filedb, "A", lower_only(a))
        filedb.execute("SELECT gx_cholesky('A', 'F', '{\"replace\":true}')")
        assert ratio(matrix(filedb, "F"), a, dtype) < 30


def test_interrupt(filedb):
    filedb.execute("PRAGMA synchronous=off")
    small_tiles(filedb)
    configure(filedb, memory_limit="64MiB")
    filedb.execute("SELECT gx_matrix_gallery('minij', 1500, 'A')")
    configure(filedb, memory_limit=40 * TILE_BYTES)
    for wait in (0.0, 0.01, 0.03):
        ended = threading.Event()

        def interrupt(wait=wait, ended=ended):  # again and again: one that comes too early is lost
            while not ended.wait(wait or 0.001):
                filedb.interrupt()

        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            text = error(filedb, "SELECT gx_cholesky('A', 'L')")
        finally:
            ended.set()
            thread.join()
        assert text.endswith("interrupted")
        assert filedb.execute("SELECT name FROM gx").fetchall() == [("A",)]
        assert q(filedb, "SELECT gx_check()") == "ok"
    assert counters(filedb)["memory_used"] < 10000


def test_a_long_diagonal_is_looked_at_by_helpers(filedb):
    """The first infinite element is named, whichever helper meets one first."""
    n = 4200
    filedb.execute("SELECT gx_config('readers', 3)").fetchall()
    filedb.execute("SELECT gx_randn(?, ?, 'A', '{\"dtype\":\"f32\"}')", (n, n)).fetchall()
    filedb.execute("CREATE VIRTUAL TABLE c USING gx_cells('A')")
    for i in (n - 1, 4097, 77):
        filedb.execute("UPDATE c SET value = 9e999 WHERE i = ? AND j = ?", (i, i))
        assert error(filedb, "SELECT gx_cholesky('A', 'L')") == f"gx_cholesky: A[{i},{i}] is Inf"
