"""gx_svd, gx_nullspace and the norms that stand on singular values, against NumPy.

Plan:
  1  dtypes x shapes (0, 1, square, tall, wide, tile +- 1), stored in tiny tiles, economy and full:
     ||A - U S V^H|| / (max(m, n) eps ||A||) < 50, U and V^H orthogonal to the same, sigma descending, equal to NumPy's
  2  values of tall and wide matrices by panels: several panels, little memory
  3  the k largest; the table: columns on demand, vectors as columns; signs
  4  rank-deficient, zero, huge and tiny numbers; closed forms (minij, poisson, hilb by residual)
  5  null spaces; norms '2' and 'nuc'
  6  destinations: all or none, replace, properties
  7  budget: refused beforehand, what is said to be needed suffices; memory back to its baseline
  8  the reference backend; deterministic
  9  errors to the letter, the database unchanged
"""
import re

import numpy as np
import pytest

from conftest import error, from_numpy, q, to_numpy

EPS = {"f64": 2.0**-53, "f32": 2.0**-24, "c128": 2.0**-53, "c64": 2.0**-24}
NUMPY = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}
TILE = 16
SHAPES = [(0, 0), (0, 3), (4, 0), (1, 1), (1, 7), (7, 1), (2, 3), (5, 5), (50, 10), (10, 50), (TILE - 1, TILE + 1),
          (TILE, TILE), (2 * TILE + 1, TILE), (TILE, 2 * TILE + 1), (120, 33), (33, 120), (200, 3), (3, 200)]


def random_matrix(rng, rows, cols, dtype):
    x = rng.standard_normal((rows, cols))
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal((rows, cols))
    return x.astype(NUMPY[dtype])


def put(db, name, array):
    db.execute("SELECT gx_store(?, ?, '{\"replace\":true}')", (name, from_numpy(array)))


def get(db, name):
    return to_numpy(q(db, "SELECT gx_copy(?)", name))


def small_tiles(db):
    db.execute("PRAGMA synchronous=off")
    db.execute("SELECT gx_config('tile_bytes', ?)", (TILE * TILE * 8,))


def wide(x):
    return x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)


def check(a, s, u, vt, dtype):
    a, u, vt, s = wide(a), wide(u), wide(vt), wide(s).ravel()
    unit = max(*a.shape, 1) * EPS[dtype]
    size = np.linalg.norm(a)
    product = (u[:, : len(s)] * s) @ vt[: len(s)]
    assert np.linalg.norm(a - product) <= 50 * unit * size
    assert np.linalg.norm(u.conj().T @ u - np.eye(u.shape[1])) <= 50 * unit
    assert np.linalg.norm(vt @ vt.conj().T - np.eye(vt.shape[0])) <= 50 * unit
    assert (s >= 0).all() and (np.diff(s) <= 0).all()


# 1 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["economy", "full"])
@pytest.mark.parametrize("dtype", list(NUMPY))
def test_against_numpy(filedb, dtype, mode):
    rng = np.random.default_rng(61)
    small_tiles(filedb)
    for m, n in SHAPES:
        a = random_matrix(rng, m, n, dtype)
        put(filedb, "A", a)
        assert q(filedb, f"SELECT gx_svd('A', 's', 'u', 'vt', '{{\"mode\":\"{mode}\",\"replace\":true}}')") == "s"
        s, u, vt = get(filedb, "s"), get(filedb, "u"), get(filedb, "vt")
        least = min(m, n)
        assert s.shape == (least, 1) and s.dtype == a.real.dtype and u.dtype == vt.dtype == a.dtype
        assert u.shape == ((m, m) if mode == "full" else (m, least))
        assert vt.shape == ((n, n) if mode == "full" else (least, n))
        check(a, s, u, vt, dtype)
        exact = np.linalg.svd(wide(a), compute_uv=False)
        limit = 50 * max(m, n) * EPS[dtype] * np.linalg.norm(a)
        assert np.abs(s.ravel() - exact).max(initial=0) <= limit
        alone = to_numpy(q(filedb, "SELECT gx_svd('A')"))
        assert alone.dtype == s.dtype and np.abs(alone.ravel() - exact).max(initial=0) <= limit
    assert q(filedb, "SELECT gx_check()") == "ok"


# 2 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", list(NUMPY))
def test_values_by_panels(filedb, dtype):
    """Longer than one panel of 16 MiB, and than the memory there is."""
    width = 24
    rows = (40 << 20) // (width * np.dtype(NUMPY[dtype]).itemsize)
    filedb.execute("PRAGMA synchronous=off")
    filedb.execute("SELECT gx_randn(?, ?, 'A', ?)", (rows, width, f'{{"dtype":"{dtype}","seed":7}}'))
    a = get(filedb, "A")
    exact = np.linalg.svd(np.linalg.qr(wide(a), mode="r"), compute_uv=False)
    filedb.execute("SELECT gx_transpose('A', 'T', '{\"conj\":true}')")
    filedb.execute("SELECT gx_config('memory_limit', '36MiB')")
    for name in "AT":
        s = to_numpy(q(filedb, "SELECT gx_svd(?)", name)).ravel()
        assert np.abs(s - exact).max() < 50 * 1000 * EPS[dtype] * exact[0]
        assert q(filedb, f"SELECT count(*) FROM gx_svd('{name}')") == width


# 3 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", list(NUMPY))
def test_table_and_k(db, dtype):
    rng = np.random.default_rng(62)
    for m, n in ((20, 12), (12, 20)):
        a = random_matrix(rng, m, n, dtype)
        put(db, "A", a)
        exact = np.linalg.svd(wide(a), compute_uv=False)
        rows = db.execute("SELECT k, sigma, u, v FROM gx_svd('A', '{\"k\":5,\"method\":\"dense\"}')").fetchall()
        assert [row[0] for row in rows] == list(range(5))
        s = np.array([row[1] for row in rows])
        u, v = (np.hstack([to_numpy(row[c]) for row in rows]) for c in (2, 3))
        assert np.abs(s - exact[:5]).max() < 50 * 20 * EPS[dtype] * exact[0]
        assert np.abs(wide(a) @ v - u * s).max() < 50 * 20 * EPS[dtype] * exact[0]
        for x in u.T:
            size = np.abs(x)
            first = x[np.flatnonzero(size >= size.max() * (1 - 2.0**-10))[0]]
            assert first.real > 0 and abs(first.imag) <= 4 * EPS[dtype]
        db.execute("SELECT gx_svd('A', 's', 'u', 'vt', '{\"k\":5,\"replace\":true}')")
        assert get(db, "u").shape == (m, 5) and get(db, "vt").shape == (5, n) and get(db, "s").shape == (5, 1)
        assert np.allclose(get(db, "vt").conj().T, v, atol=100 * EPS[dtype])
    assert db.execute("SELECT k FROM gx_svd('[[1,2],[3,4]]') WHERE sigma > 1").fetchall() == [(0,)]


# 4 ------------------------------------------------------------------------------------------------


def test_special_matrices(db):
    rng = np.random.default_rng(63)
    rank_3 = rng.standard_normal((30, 3)) @ rng.standard_normal((3, 20))
    cases = [np.zeros((5, 7)), np.ones((6, 4)), rank_3, 1e150 * rank_3, 1e-150 * rank_3, np.diag([1e300, 1.0, 1e-300]),
             np.vander(np.arange(1.0, 9)), np.triu(np.ones((40, 40)))]
    for a in cases:
        put(db, "A", a)
        db.execute("SELECT gx_svd('A', 's', 'u', 'vt', '{\"mode\":\"full\",\"replace\":true}')")
        scale = np.abs(a).max() or 1.0
        check(a / scale, get(db, "s") / scale, get(db, "u"), get(db, "vt"), "f64")
    n = 40
    got = to_numpy(q(db, "SELECT gx_svd(gx_matrix_gallery('minij', ?))", n)).ravel()
    exact = 1 / (4 * np.sin((2 * np.arange(1, n + 1) - 1) * np.pi / (4 * n + 2)) ** 2)
    assert np.abs(got - exact).max() < 50 * n * EPS["f64"] * exact[0]


# 5 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", list(NUMPY))
def test_nullspace(db, dtype):
    rng = np.random.default_rng(64)
    for m, n, rank in ((5, 8, 5), (8, 5, 5), (8, 5, 2), (6, 6, 4), (3, 9, 1), (0, 3, 0), (3, 0, 0), (40, 10, 7)):
        a = (random_matrix(rng, m, rank, dtype) @ random_matrix(rng, rank, n, dtype)).astype(NUMPY[dtype])
        basis = to_numpy(q(db, "SELECT gx_nullspace(?)", from_numpy(a)))
        assert basis.shape == (n, n - rank) and basis.dtype == a.dtype, (m, n, rank)
        assert np.linalg.norm(wide(basis).conj().T @ basis - np.eye(n - rank)) < 100 * EPS[dtype] * max(n, 1)
        assert np.linalg.norm(wide(a) @ basis) <= 100 * EPS[dtype] * max(m, n) * np.linalg.norm(a)
    a = np.diag([1.0, 1e-3, 1e-9])
    assert q(db, "SELECT gx_shape(gx_nullspace(?))", from_numpy(a)) == "[3,0]"
    assert q(db, "SELECT gx_shape(gx_nullspace(?, '{\"tol\":1e-6}'))", from_numpy(a)) == "[3,1]"
    assert q(db, "SELECT gx_nullspace(?, 'N', '{\"tol\":0.01}')", from_numpy(a)) == "N"
    assert get(db, "N").shape == (3, 2)


def test_norms(db):
    rng = np.random.default_rng(65)
    for dtype in NUMPY:
        for m, n in ((6, 6), (4, 90), (200, 5), (1, 1)):
            a = random_matrix(rng, m, n, dtype)
            for kind, order in (("2", 2), ("nuc", "nuc"), ("nuclear", "nuc")):
                got = q(db, "SELECT gx_norm(?, ?)", from_numpy(a), kind)
                assert got == pytest.approx(np.linalg.norm(wide(a), order), rel=1e3 * EPS[dtype])
    assert q(db, "SELECT gx_norm('[[3,0],[0,4]]', 2)") == pytest.approx(4)
    assert q(db, "SELECT gx_norm(gx_zeros(0, 3), 2)") == 0
    assert error(db, "SELECT gx_norm('[[1,\"inf\"]]', 2)") == "gx_norm: A has Inf at (0, 1)"


# 6 ------------------------------------------------------------------------------------------------


def test_destinations(db):
    put(db, "A", np.arange(12.0).reshape(4, 3))
    assert to_numpy(q(db, "SELECT gx_svd('A', NULL, 'u')")).shape == (3, 1)
    assert q(db, "SELECT gx_svd('A', 's')") == "s"
    assert dict(db.execute("SELECT name, properties FROM gx WHERE name != 'A'")) == {"s": "", "u": "orthogonal"}
    assert "already exists" in error(db, "SELECT gx_svd('A', 's2', 'u2', 'u')")
    assert q(db, "SELECT count(*) FROM gx") == 3
    db.execute("ATTACH ':memory:' AS other")
    assert q(db, "SELECT gx_svd('A', 'other.s', 'u2', 'temp.vt')") == "other.s"
    assert q(db, "SELECT gx_shape('other.s')") == "[3,1]" and q(db, "SELECT gx_shape('temp.vt')") == "[3,3]"
    assert q(db, "SELECT gx_svd('A', 's', 'A', '{\"replace\":true}')") == "s"  # over its own operand
    assert get(db, "A").shape == (4, 3) and q(db, "SELECT gx_check()") == "ok"


# 7, 8 ---------------------------------------------------------------------------------------------


def test_budget(filedb):
    filedb.execute("SELECT gx_config('tile_bytes', 32768), gx_config('memory_limit', '2MiB')")
    filedb.execute("SELECT gx_random(500, 400, 'A')")
    text = error(filedb, "SELECT gx_svd('A', 's', 'u', 'vt', '{\"method\":\"dense\"}')")
    assert text.startswith("gx_svd: singular values and vectors of A (500x400 f64) need ")
    assert "memory_limit leaves" in text and "ask for k of them" in text
    assert "economy mode" in error(filedb, "SELECT gx_svd('A', 's', 'u', '{\"mode\":\"full\"}')")
    assert q(filedb, "SELECT count(*) FROM gx") == 1
    used = "SELECT value FROM gx_stats WHERE name = 'memory_used'"
    baseline = q(filedb, used)
    numbers = [int(count) for count in re.findall(r"\((\d+) bytes\)", text)]
    filedb.execute("SELECT gx_config('memory_limit', ?)", ((2 << 20) + numbers[0] - numbers[1] + 65536,))
    filedb.execute("SELECT gx_svd('A', 's', 'u', 'vt', '{\"method\":\"dense\"}')")
    filedb.execute("SELECT gx_config('memory_limit', '64MiB')")
    filedb.execute("SELECT u, v FROM gx_svd('A')").fetchall()
    assert q(filedb, used) == baseline


def test_reference_backend(db):
    rng = np.random.default_rng(66)
    db.execute("SELECT gx_config('backend', 'reference')")
    for dtype in NUMPY:
        a = random_matrix(rng, 9, 14, dtype)
        put(db, "A", a)
        db.execute("SELECT gx_svd('A', 's', 'u', 'vt', '{\"mode\":\"full\",\"replace\":true}')")
        check(a, get(db, "s"), get(db, "u"), get(db, "vt"), dtype)


def test_deterministic(filedb):
    filedb.execute("SELECT gx_config('deterministic', 'on')")
    filedb.execute("SELECT gx_randn(150, 140, 'A', '{\"seed\":3}')")
    seen = set()
    for threads in (1, 2, 3):
        filedb.execute("SELECT gx_config('threads', ?)", (threads,))
        filedb.execute("SELECT gx_svd('A', 's', 'u', 'vt', '{\"replace\":true}')")
        seen.add(tuple(bytes(q(filedb, "SELECT gx_copy(?)", name)) for name in ("s", "u", "vt")))
    assert len(seen) == 1


# 9 ------------------------------------------------------------------------------------------------

ERRORS = [
    ("SELECT gx_svd('[[1,\"nan\"],[3,4]]')", "gx_svd: A has NaN at (0, 1)"),
    ("SELECT gx_svd('N')", "gx_svd: N has Inf at (2, 1)"),
    ("SELECT * FROM gx_svd('N')", "gx_svd: N has Inf at (2, 1)"),
    ("SELECT gx_svd('nobody')", "gx_svd: no matrix named 'nobody'"),
    ("SELECT gx_svd()", "gx_svd: takes 1 to 5 arguments, not 0: gx_svd(A[, s[, u[, vt]]][, options])"),
    ("SELECT * FROM gx_svd('A', '{}', 3)", "too many arguments on gx_svd() - max 2"),
    ("SELECT gx_svd('A', 's', 's')", "gx_svd: two results cannot both be stored as 's'"),
    ("SELECT gx_svd('A', 's', 'N')", "gx_svd: matrix 'N' already exists (use '{\"replace\":true}')"),
    ("SELECT gx_svd('A', '{\"k\":0}')", "gx_svd: option \"k\" must be at least 1, not 0"),
    ("SELECT gx_svd('A', '{\"k\":4}')", "gx_svd: k is 4 but A is 3x3: it has 3 singular values"),
    ("SELECT gx_svd('A', '{\"mode\":\"half\"}')",
     "gx_svd: option \"mode\" must be one of economy, full, values, not \"half\""),
    ("SELECT gx_svd('A', 's', 'u', '{\"mode\":\"values\"}')",
     "gx_svd: \"mode\" is \"values\" but a destination for vectors is given"),
    ("SELECT gx_svd('A', 's', 'u', '{\"mode\":\"full\",\"k\":2}')",
     "gx_svd: the full U and V are not those of the k largest: ask for one of them"),
    ("SELECT gx_svd('A', '{\"tol\":2}')", "gx_svd: option \"tol\" must be at least 0 and below 1, not 2"),
    ("SELECT gx_svd('A', '{\"modus\":1}')", "gx_svd: unknown option \"modus\": the known ones are \"k\""),
    ("SELECT gx_nullspace('A', '{\"tol\":-1}')", "gx_nullspace: option \"tol\" must be at least 0, not -1"),
    ("SELECT gx_norm('A', 'three')",
     "gx_norm: kind must be one of fro, 1, 2, inf, max, nuc, not 'three'"),
]


@pytest.mark.parametrize("sql,text", ERRORS)
def test_errors(db, sql, text):
    put(db, "A", np.diag([1.0, 2.0, 3.0]))
    bad = np.eye(3)
    bad[2, 1] = np.inf
    put(db, "N", bad)
    before = db.execute("SELECT name, generation FROM gx_meta ORDER BY id").fetchall()
    assert error(db, sql).startswith(text)
    assert db.execute("SELECT name, generation FROM gx_meta ORDER BY id").fetchall() == before
    assert q(db, "SELECT gx_check()") == "ok"


def test_long_rows_of_ones(db):
    """LAPACK's values of these are off by 10^-12, which is no sign of a wrong backend."""
    values = to_numpy(q(db, "SELECT gx_eval('svdvals(ones(2, 1000000))')"))
    assert abs(values[0, 0] / np.sqrt(2e6) - 1) < 1e-11 and values[1, 0] < 1e-5
