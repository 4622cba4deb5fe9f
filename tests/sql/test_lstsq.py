"""gx_lstsq, gx_rank, gx_pinv against NumPy.

Plan:
  1  Least squares: dtypes x shapes (0, 1, tile +- 1, several tiles, tall, wide, many right-hand sides) x budgets (tight,
     roomy, all); the difference from numpy.linalg.lstsq within what the condition number allows.
  2  Rank-deficient and wide matrices: the minimum-norm solution, the note in gx_stats, option rcond.
  3  Rank as numpy.linalg.matrix_rank, of random and of gallery matrices, with a tolerance.
  4  Pseudo-inverse: the four Moore-Penrose conditions, full rank and deficient, tall and wide.
  5  Operands in every form, mixed dtypes, destination = source.
  6  TSQR reads A and B once (counters); intermediates, and R, too large for memory.
  7  deterministic: the same bits for every budget and thread count.
  8  A sweep of memory limits: more memory never fails, rank and rcond mean the same.  Long matrices of f32.
  9  Errors, exactly; interrupts; nothing is left behind.
"""
import sqlite3
import threading

import numpy as np
import pytest

from conftest import error, from_numpy, gx_connect, q, temp_is_empty, to_numpy

NUMPY = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}
TILE = 64
TILE_BYTES = TILE * TILE * 8
BUDGETS = {"tight": 3 * TILE_BYTES + (640 << 10), "roomy": 40 * TILE_BYTES, "all": None}


def random_matrix(rng, rows, cols, dtype):
    x = rng.standard_normal((rows, cols))
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal((rows, cols))
    return np.asfortranarray(x.astype(NUMPY[dtype]))


def configure(db, **settings):
    for key, value in settings.items():
        db.execute("SELECT gx_config(?, ?)", (key, value))


def store(db, name, array):
    assert q(db, "SELECT gx_store(?, ?, '{\"replace\":true}')", name, from_numpy(array)) == name


def fetch(db, name):
    limit = q(db, "SELECT gx_config('memory_limit')")
    configure(db, memory_limit="64MiB")
    array = to_numpy(q(db, "SELECT gx_copy(?)", name))
    configure(db, memory_limit=limit)
    return array


def budget(db, name):
    configure(db, tile_bytes=TILE_BYTES)
    if BUDGETS[name] is not None:
        configure(db, memory_limit=BUDGETS[name])


def stat(db, name):
    return q(db, "SELECT value FROM gx_stats WHERE name = ?", name)


def notes(db):
    return [row[0] for row in db.execute("SELECT meaning FROM gx_stats WHERE name = 'note'")]


SHAPES = [(1, 1, 1), (2, 1, 3), (3, 5, 2), (5, 3, 1), (10, 10, 2), (50, 50, 3), (TILE - 1, TILE - 1, 1), (TILE, TILE, 2),
          (TILE + 1, TILE - 1, 3), (2 * TILE + 1, 2 * TILE - 1, 2), (700, 20, 1), (20, 300, 2), (300, 30, 90)]


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("limit", BUDGETS)
def test_lstsq(filedb, dtype, limit):
    rng = np.random.default_rng(7)
    eps = np.finfo(NUMPY[dtype]).eps
    for m, n, p in SHAPES:
        a, b = random_matrix(rng, m, n, dtype), random_matrix(rng, m, p, dtype)
        configure(filedb, memory_limit="64MiB")
        store(filedb, "A", a)
        store(filedb, "B", b)
        budget(filedb, limit)
        assert q(filedb, "SELECT gx_lstsq('A', 'B', 'X', '{\"replace\":true}')") == "X"
        x = fetch(filedb, "X")
        want = np.linalg.lstsq(a, b, rcond=None)[0]
        assert x.dtype == NUMPY[dtype] and x.shape == (n, p)
        bound = 30 * max(m, n) * eps * np.linalg.cond(a) ** (2 if m > n else 1)
        assert np.linalg.norm(x - want) <= bound * (np.linalg.norm(want) + np.linalg.norm(b)), (m, n, p)
        if m >= n:  # the residual is orthogonal to the columns: LAPACK's test, dqrt17
            r = (b - a @ x).astype(np.complex128)
            scale = max(m, n, p) * eps * np.linalg.norm(a, 1) * np.linalg.norm(b, 1)
            assert np.linalg.norm(r.conj().T @ a, 1) <= 30 * scale * max(1, np.linalg.norm(x, 1) * np.linalg.norm(a, 1)
                                                                         / np.linalg.norm(b, 1)), (m, n, p)


@pytest.mark.parametrize("shape", [(0, 0, 0), (0, 3, 2), (3, 0, 2), (4, 2, 0), (2, 4, 0), (0, 0, 2)])
def test_empty(db, shape):
    m, n, p = shape
    x = to_numpy(q(db, "SELECT gx_lstsq(?, ?)", from_numpy(np.ones((m, n))), from_numpy(np.ones((m, p)))))
    assert x.shape == (n, p) and not x.any()
    assert q(db, "SELECT gx_rank(?)", from_numpy(np.ones((m, n)))) == min(m, n, 1)
    assert to_numpy(q(db, "SELECT gx_pinv(?)", from_numpy(np.zeros((m, n))))).shape == (n, m)


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("shape", [(60, 40, 25), (40, 60, 25), (50, 50, 49), (300, 20, 1), (20, 300, 7), (30, 30, 0)])
def test_deficient(db, dtype, shape):
    m, n, r = shape
    rng = np.random.default_rng(3)
    a = random_matrix(rng, m, r, dtype) @ random_matrix(rng, r, n, dtype)
    b = random_matrix(rng, m, 3, dtype)
    x = to_numpy(q(db, "SELECT gx_lstsq(?, ?)", from_numpy(a), from_numpy(b)))
    wide = np.complex128 if dtype.startswith("c") else np.float64
    eps = np.finfo(NUMPY[dtype]).eps
    want = np.linalg.pinv(a.astype(wide), rcond=max(m, n) * eps * 10) @ b
    sigma = np.linalg.svd(a, compute_uv=False)
    spread = sigma[0] / sigma[r - 1] if r else 1
    assert np.linalg.norm(x - want) <= 100 * max(m, n) * eps * spread ** 2 * (1 + np.linalg.norm(want))
    assert q(db, "SELECT gx_rank(?)", from_numpy(a)) == r
    note = [text for text in notes(db) if "rank-deficient" in text]
    assert note == [f"gx_lstsq: A is rank-deficient (rank {r} of {min(m, n)}); the solution of minimum norm was given"]


def test_rcond(db):
    a = np.diag([1.0, 1e-3, 1e-6])
    b = np.ones((3, 1))
    for rcond, want in [(1e-2, [1, 0, 0]), (1e-4, [1, 1e3, 0]), (0, [1, 1e3, 1e6])]:
        x = to_numpy(q(db, f"SELECT gx_lstsq(?, ?, '{{\"rcond\":{rcond}}}')", from_numpy(a), from_numpy(b)))
        assert np.allclose(x.ravel(), want, rtol=1e-12, atol=1e-12)
        p = to_numpy(q(db, f"SELECT gx_pinv(?, '{{\"rcond\":{rcond}}}')", from_numpy(a)))
        assert np.allclose(np.diag(p), want, rtol=1e-12, atol=1e-12)
    for rcond in ("1", "-0.5", "\"nan\""):
        text = error(db, f"SELECT gx_lstsq('[[1]]', '[1]', '{{\"rcond\":{rcond}}}')")
        assert text.startswith("gx_lstsq: option \"rcond\" must be at least 0 and below 1, not ")


@pytest.mark.parametrize("kind", ["hilb", "kahan", "frank", "minij", "pascal", "lotkin", "cauchy"])
@pytest.mark.parametrize("n", [5, 12, 40])
def test_gallery(db, kind, n):
    """The numerical rank, give or take singular values at the threshold itself."""
    a = to_numpy(q(db, "SELECT gx_matrix_gallery(?, ?)", kind, n))
    sigma = np.linalg.svd(a, compute_uv=False)
    tol = sigma[0] * n * np.finfo(float).eps
    rank = q(db, "SELECT gx_rank(?)", from_numpy(a))
    assert np.sum(sigma > 10 * tol) <= rank <= np.sum(sigma > tol / 10)
    assert q(db, "SELECT gx_rank(?, ?)", from_numpy(a), float(sigma[0] / 1.5)) == np.sum(sigma > sigma[0] / 1.5)


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("shape", [(1, 1, 1), (30, 12, 12), (12, 30, 12), (80, 70, 40), (70, 80, 40), (500, 9, 9), (9, 500, 5)])
def test_pinv(filedb, dtype, shape):
    m, n, r = shape
    rng = np.random.default_rng(5)
    a = random_matrix(rng, m, r, dtype) @ random_matrix(rng, r, n, dtype) if r < min(m, n) else random_matrix(rng, m, n, dtype)
    configure(filedb, tile_bytes=TILE_BYTES)
    store(filedb, "A", a)
    for limit in (None, 1 << 20 if m * n > 2000 else None):
        configure(filedb, memory_limit=limit or "64MiB")
        assert q(filedb, "SELECT gx_pinv('A', 'P', '{\"replace\":true}')") == "P"
        p = fetch(filedb, "P")
        sigma = np.linalg.svd(a, compute_uv=False)
        bound = 30 * max(m, n) * np.finfo(NUMPY[dtype]).eps * sigma[0] / sigma[r - 1]
        norm = np.linalg.norm
        assert norm(a @ p @ a - a) <= bound * norm(a)
        assert norm(p @ a @ p - p) <= bound * norm(p)
        assert norm((a @ p).conj().T - a @ p) <= bound * norm(a @ p)
        assert norm((p @ a).conj().T - p @ a) <= bound * norm(p @ a)


def test_forms(db):
    """Literals, values, names; f32 with f64; the destination may be a source."""
    db.execute("SELECT gx_store('A', '[[1,0],[1,1],[1,2]]', '{\"dtype\":\"f32\"}'), gx_store('b', '[1,3,5]')")
    for a in ("A", "[[1,0],[1,1],[1,2]]", from_numpy(np.array([[1.0, 0], [1, 1], [1, 2]]))):
        x = to_numpy(q(db, "SELECT gx_lstsq(?, 'b')", a))
        assert x.dtype == np.float64 and np.allclose(x.ravel(), [1, 2], atol=1e-6)
    assert to_numpy(q(db, "SELECT gx_lstsq('A', '[\"1+1i\",3,5]')")).dtype == np.complex128
    assert q(db, "SELECT gx_lstsq('A', 'b', 'b', '{\"replace\":true}')") == "b"
    assert np.allclose(fetch(db, "b").ravel(), [1, 2], atol=1e-6)
    assert q(db, "SELECT gx_pinv('A', 'A', '{\"replace\":true}')") == "A"
    assert fetch(db, "A").shape == (2, 3)


def test_reads_once(filedb):
    """A tall A and its B, many times the budget, pass by once."""
    rng = np.random.default_rng(1)
    configure(filedb, tile_bytes=TILE_BYTES)
    a, b = random_matrix(rng, 20000, 16, "f64"), random_matrix(rng, 20000, 4, "f64")
    store(filedb, "A", a)
    store(filedb, "B", b)
    configure(filedb, memory_limit=1 << 20)
    filedb.execute("SELECT gx_stats_reset()")
    q(filedb, "SELECT gx_lstsq('A', 'B', 'X')")
    bytes_read = stat(filedb, "bytes_read")  # short pieces of B's tiles are cut out of longer runs
    assert a.nbytes + b.nbytes <= bytes_read <= 1.25 * (a.nbytes + b.nbytes)
    assert stat(filedb, "tiles_written") == 1
    filedb.execute("SELECT gx_stats_reset()")
    assert q(filedb, "SELECT gx_rank('A')") == 16
    assert stat(filedb, "bytes_read") == a.nbytes
    assert np.allclose(fetch(filedb, "X"), np.linalg.lstsq(a, b, rcond=None)[0])


def test_larger_than_memory(filedb):
    """A wide A: Q is kept in the temp database, and nothing of it stays there."""
    rng = np.random.default_rng(2)
    configure(filedb, tile_bytes=TILE_BYTES)
    a, b = random_matrix(rng, 16, 20000, "f64"), random_matrix(rng, 16, 2, "f64")
    store(filedb, "A", a)
    store(filedb, "B", b)
    configure(filedb, memory_limit=1 << 20)
    q(filedb, "SELECT gx_lstsq('A', 'B', 'X')")
    assert np.allclose(fetch(filedb, "X"), np.linalg.lstsq(a, b, rcond=None)[0])
    q(filedb, "SELECT gx_pinv('A', 'P')")
    assert np.allclose(fetch(filedb, "P"), np.linalg.pinv(a))
    assert temp_is_empty(filedb) and q(filedb, "SELECT gx_check()") == "ok"


@pytest.mark.parametrize("shape", [(500, 400), (400, 500), (450, 450)])
def test_triangle_in_blocks(filedb, shape):
    """Not even R fits: substitution in blocks; what cannot be told of the rank is said."""
    m, n = shape
    rng = np.random.default_rng(6)
    configure(filedb, tile_bytes=TILE_BYTES)
    a, b = random_matrix(rng, m, n, "f64"), random_matrix(rng, m, 5, "f64")
    want = np.linalg.lstsq(a, b, rcond=None)[0]
    store(filedb, "A", a)
    store(filedb, "B", b)
    configure(filedb, memory_limit="1300KB")
    q(filedb, "SELECT gx_lstsq('A', 'B', 'X')")
    assert np.allclose(fetch(filedb, "X"), want, rtol=1e-8, atol=1e-8)
    rank, residual = filedb.execute("SELECT rank, residual FROM gx_lstsq('A', 'B')").fetchone()
    assert rank is None
    assert np.isclose(residual, np.linalg.norm(b - a @ want), rtol=1e-9, atol=1e-9)
    k = min(m, n)
    assert error(filedb, "SELECT gx_rank('A')") == (
        f"gx_rank: the singular values of R ({k}x{k}) take more than memory_limit allows: raise it with "
        "gx_config('memory_limit', ...)")
    configure(filedb, memory_limit="64MiB")
    a[:, 3] = 0
    a[5, :] = 0
    store(filedb, "A", a)
    configure(filedb, memory_limit="1300KB")
    text = error(filedb, "SELECT gx_lstsq('A', 'B', 'Y')")
    assert text.startswith("gx_lstsq: A is rank-deficient (R's diagonal has ") and "beside" in text
    assert q(filedb, "SELECT gx_check()") == "ok" and temp_is_empty(filedb)


@pytest.mark.parametrize("spread, rhs", [(1, 1), (1e11, 1), (1, 300)])
@pytest.mark.parametrize("shape", [(421, 210), (210, 421), (210, 210)])
def test_memory_sweep(filedb, shape, spread, rhs):
    """What works with some memory works with more; rank and rcond are right or NULL on every way."""
    m, n = shape
    rng = np.random.default_rng(10)
    configure(filedb, tile_bytes=TILE_BYTES, threads=2)
    a, b = random_matrix(rng, m, n, "f64") * np.logspace(0, -np.log10(spread), n), random_matrix(rng, m, rhs, "f64")
    sigma = np.linalg.svd(a, compute_uv=False)
    want = np.linalg.norm(b - a @ np.linalg.lstsq(a, b, rcond=None)[0])
    store(filedb, "A", a)
    store(filedb, "B", b)
    worked = {"rank, residual": [], "rank, residual, rcond": []}
    for kib in range(512, 4608, 256):
        configure(filedb, memory_limit=kib << 10)
        for columns, limits in worked.items():
            try:
                rank, residual, *rcond = filedb.execute(f"SELECT {columns} FROM gx_lstsq('A', 'B')").fetchone()
            except sqlite3.Error as problem:
                assert "memory_limit" in str(problem) and not limits, (kib, columns, str(problem))
                continue
            limits.append(kib)
            assert rank in (None, min(m, n)) and np.isclose(residual, want, rtol=1e-6, atol=1e-7 * np.linalg.norm(b))
            for found in rcond:
                assert found is None or np.isclose(found, sigma[-1] / sigma[0], rtol=1e-3)
    assert rank == min(m, n) and rcond[0] is not None, "with enough memory both are known"
    assert len(worked["rank, residual"]) > 10


def test_long_single_precision(filedb):
    """eps max(m, n) passes 1 at 10^7 rows of f32: the tolerance stays at sqrt(eps)."""
    m = 10_000_000
    q(filedb, "SELECT gx_random(?, 3, 'A', '{\"low\":-1,\"dtype\":\"f32\",\"seed\":1}')", m)
    q(filedb, "SELECT gx_matmul('A', '[[1],[2],[3]]', 'B')")
    assert q(filedb, "SELECT gx_rank('A')") == 3
    x, rank, rcond = filedb.execute("SELECT x, rank, rcond FROM gx_lstsq('A', 'B')").fetchone()
    assert rank == 3 and rcond > 0.99 and np.allclose(to_numpy(x)[:, 0], [1, 2, 3], atol=1e-4)
    q(filedb, "SELECT gx_pinv('A', 'P')")
    assert np.allclose(to_numpy(q(filedb, "SELECT gx_matmul('P', 'A')")), np.eye(3), atol=1e-3)
    assert q(filedb, "SELECT gx_shape(gx_nullspace('A'))") == "[3,0]"
    assert q(filedb, "SELECT gx_check_property('A', 'orthogonal')") == 0
    q(filedb, "SELECT gx_matmul('A', '[[1,0,1],[0,1,1],[0,0,0]]', 'D')")
    assert q(filedb, "SELECT gx_rank('D')") == 2
    assert q(filedb, "SELECT gx_shape(gx_nullspace('D'))") == "[3,1]"


@pytest.mark.parametrize("shape", [(300, 30, 5), (90, 90, 3), (30, 300, 3)])
def test_deterministic(filedb, shape):
    m, n, p = shape
    rng = np.random.default_rng(4)
    configure(filedb, tile_bytes=TILE_BYTES, deterministic=1)
    store(filedb, "A", random_matrix(rng, m, n, "f64"))
    store(filedb, "B", random_matrix(rng, m, p, "f64"))
    seen = set()
    for limit in ("1500KB", "4MB", "64MB"):
        for threads in (1, 3):
            configure(filedb, memory_limit=limit, threads=threads)
            seen.add(q(filedb, "SELECT gx_lstsq('A', 'B')"))
    assert len(seen) == 1


def test_errors(db):
    db.execute("SELECT gx_store('A', '[[1,0],[1,1],[1,2]]'), gx_store('N', '[[1,null],[1,1]]')")
    before = db.execute("SELECT name, generation FROM gx_meta ORDER BY 1").fetchall()
    for sql, text in [
            ("SELECT gx_lstsq('A', '[1,2]')", "gx_lstsq: A is 3x2 but B is 2x1"),
            ("SELECT gx_lstsq('A', '[1,2,3]', 'A')", "gx_lstsq: matrix 'A' already exists (use '{\"replace\":true}')"),
            ("SELECT gx_lstsq('N', '[1,2]', 'X')", "gx_lstsq: N has NaN or Inf"),
            ("SELECT gx_lstsq('[[1,\"inf\",0]]', '[1]')", "gx_lstsq: A has NaN or Inf"),
            ("SELECT gx_lstsq('A')", "gx_lstsq: takes 2 to 4 arguments, not 1: gx_lstsq(A, B[, destination][, options])"),
            ("SELECT gx_rank('N')", "gx_rank: N has NaN or Inf"),
            ("SELECT gx_rank('A', -1)", "gx_rank: tol must not be negative, not -1"),
            ("SELECT gx_rank('none')", "gx_rank: no matrix named 'none'"),
            ("SELECT gx_pinv('N', 'P')", "gx_pinv: N has NaN or Inf"),
            ("SELECT gx_pinv('A', 'P', '{\"tol\":1}')",
             "gx_pinv: unknown option \"tol\": the known ones are \"rcond\", \"dtype\", \"saturate\" and \"replace\"")]:
        assert error(db, sql) == text, sql
    assert db.execute("SELECT name, generation FROM gx_meta ORDER BY 1").fetchall() == before
    # NaN in B stays in its own column.
    x = to_numpy(q(db, "SELECT gx_lstsq('A', '[[1,1],[null,3],[5,5]]')"))
    assert np.isnan(x[:, 0]).all() and np.allclose(x[:, 1], [1, 2])


def test_interrupt(tmp_path):
    db = gx_connect(str(tmp_path / "i.db"))
    configure(db, threads=1)
    db.execute("SELECT gx_randn(1500, 1200, 'A'), gx_randn(1500, 1, 'B')")
    timer = threading.Timer(0.15, db.interrupt)
    timer.start()
    text = error(db, "SELECT gx_pinv('A', 'P'), gx_pinv('A', 'Q')")
    timer.join()
    assert text in ("interrupted", "gx_pinv: interrupted")
    assert q(db, "SELECT group_concat(name) FROM gx") == "A,B" and q(db, "SELECT gx_check()") == "ok"
    db.close()
