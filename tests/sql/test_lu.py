"""gx_lu and gx_part: factorisations of every shape, size, dtype and budget.

Plan:
1. ||PA - LU|| / (max(m, n) eps ||A||) < 30 over dtypes, shapes and budgets (two panels or so, a few, all), with tiles so
   small that a panel has many; the parts are triangular, unit, a permutation; |L| <= 1
2. the stored form: with one panel exactly LAPACK's getrf; with several what docs/format.md says, read without gx
3. the gallery: known factors, growth (gfpp), singular and nearly so; sparse matrices from files against SciPy
4. NaN, Inf, zeros, empty shapes
5. gx_lu as a table, parts stored under names, all or none
6. F where it may not be; F copied, renamed, dropped, written to, checked
7. refused in words
8. counters: A read once, F written once, reads within the formula; deterministic bits; interrupts
"""
import pathlib
import sqlite3
import threading

import numpy as np
import pytest
from conftest import DTYPES, error, from_numpy, gx_connect, q, to_numpy

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
NAMES = ["f64", "f32", "c128", "c64"]


def matrix(m, n, dtype, seed=0):
    rng = np.random.default_rng(seed + 1000 * m + n)
    a = rng.standard_normal((m, n))
    if dtype.kind == "c":
        a = a + 1j * rng.standard_normal((m, n))
    return a.astype(dtype)


def parts(db, name="F"):
    return [to_numpy(q(db, f"SELECT gx_part('{name}', '{p}')")) for p in "PLU"]


def ratio(a, p, l, u):
    """LAPACK's dget01."""
    if a.size == 0:
        return 0
    eps = np.finfo(a.dtype).eps
    scale = max(a.shape) * eps * np.linalg.norm(a, 1)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    error = np.linalg.norm(p.astype(wide) @ a.astype(wide) - l.astype(wide) @ u.astype(wide), 1)
    return error / scale if scale else error


def config(db, **settings):
    for key, value in settings.items():
        db.execute("SELECT gx_config(?, ?)", (key, value))


def store(db, array, name="A"):
    db.execute("SELECT gx_store(?, ?, '{\"replace\":true}')", (name, from_numpy(array)))


def stats(db):
    return dict(db.execute("SELECT name, value FROM gx_stats WHERE name <> 'note'"))


# 1. ------------------------------------------------------------------------------------------------------------------

SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (2, 2), (3, 3), (5, 5), (10, 10), (50, 50), (1, 7), (7, 1), (31, 31), (32, 32),
          (33, 33), (63, 63), (64, 64), (65, 65), (90, 40), (40, 90), (200, 3), (3, 200)]


@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_shapes(db, dtype):
    config(db, tile_bytes=4096)  # 32 x 16 f64
    for m, n in SHAPES:
        a = matrix(m, n, dtype)
        store(db, a)
        assert q(db, "SELECT gx_lu('A', 'F', '{\"replace\":true}')") == "F"
        p, l, u = parts(db)
        k = min(m, n)
        assert p.shape == (m, m) and l.shape == (m, k) and u.shape == (k, n)
        assert p.dtype == l.dtype == u.dtype == dtype
        assert ratio(a, p, l, u) < 30, (m, n)
        assert np.array_equal(l, np.tril(l, -1) + np.eye(m, k)) and np.array_equal(u, np.triu(u))
        assert np.array_equal(p @ p.T, np.eye(m))
        assert (abs(l) <= (1.4143 if dtype.kind == "c" else 1)).all()  # complex pivots: largest |re| + |im|
        order = to_numpy(q(db, "SELECT gx_part('F', 'p')"))
        assert np.array_equal(order[:, 0], p.real.argmax(1) if m else np.empty(0))
        assert q(db, "SELECT gx_check('F')") == "ok"


BUDGETS = [("3MB", (300, 300)), ("600kB", (300, 300)), ("350kB", (300, 300)), ("350kB", (200, 420)),
           ("350kB", (420, 200)), ("1MB", (600, 500)), ("400kB", (999, 130)), ("400kB", (130, 999)), ("64MB", (600, 500))]


@pytest.mark.parametrize("budget, shape", BUDGETS, ids=[f"{b}-{s[0]}x{s[1]}" for b, s in BUDGETS])
def test_budgets(filedb, budget, shape):
    a = matrix(*shape, DTYPES[0])
    config(filedb, tile_bytes=8192)
    store(filedb, a)
    config(filedb, memory_limit=budget)
    used = stats(filedb)["memory_used"]
    q(filedb, "SELECT gx_lu('A', 'F')")
    assert budget in ("3MB", "64MB") or panel_of(filedb) < shape[1]
    info = q(filedb, "SELECT gx_check('F')")
    for name in "LUP":
        q(filedb, f"SELECT gx_part('F', '{name}', '{name}')")
    config(filedb, memory_limit="1GiB")
    p, l, u = [to_numpy(q(filedb, f"SELECT gx_copy('{name}')")) for name in "PLU"]
    assert info == "ok" and ratio(a, p, l, u) < 30
    assert stats(filedb)["memory_used"] == used


@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_panels_of_every_dtype(filedb, dtype):
    config(filedb, tile_bytes=16384)
    a = matrix(260, 260, dtype)
    store(filedb, a)
    config(filedb, memory_limit={8: "350kB", 4: "200kB", 16: "700kB"}[dtype.itemsize])
    q(filedb, "SELECT gx_lu('A', 'F')")
    assert panel_of(filedb) < 260
    config(filedb, memory_limit="1GiB")
    assert ratio(a, *parts(filedb)) < 30


# 2. ------------------------------------------------------------------------------------------------------------------


def panel_of(db, name="F"):
    return np.frombuffer(q(db, "SELECT aux FROM gx_meta WHERE name = ?", name), "<i8", 1, offset=8)[0]


def read_factor(db, name="F"):
    """As docs/format.md says, without gx: elements, pivots, panel, first zero pivot, 1-norm."""
    id, m, n, dtype, p, c, properties, aux = db.execute(
        "SELECT id, rows, cols, dtype, tile_rows, tile_cols, properties, aux FROM gx_meta WHERE name = ?", (name,)).fetchone()
    f = np.empty((m, n), DTYPES[dtype])
    high = -(-m // p)
    for row, data in db.execute("SELECT id, data FROM gx_tile WHERE id BETWEEN ? AND ?", (id << 32, (id + 1 << 32) - 1)):
        tj, ti = divmod(row & 0xffffffff, high)
        tile = f[ti * p:(ti + 1) * p, tj * c:(tj + 1) * c]
        tile[:] = np.frombuffer(data, DTYPES[dtype]).reshape(tile.shape, order="F")
    assert aux[:8] == b"gxfa\x01\x01" + bytes([dtype, 0]) and properties == 128
    panel, count, info = np.frombuffer(aux, "<i8", 3, offset=8)
    assert count == min(m, n) and len(aux) == 64 + 8 * count
    return f, np.frombuffer(aux, "<i8", count, offset=64), panel, info, np.frombuffer(aux, "<f8", 1, offset=32)[0]


def test_one_panel_is_getrf(db):
    linalg = pytest.importorskip("scipy.linalg")
    for m, n in [(60, 60), (60, 25), (25, 60)]:
        a = matrix(m, n, DTYPES[0])
        store(db, a)
        q(db, "SELECT gx_lu('A', 'F', '{\"replace\":true}')")
        f, pivots, panel, info, norm = read_factor(db)
        expected, expected_pivots, _ = linalg.lapack.dgetrf(a)
        assert panel == n and info == 0
        assert np.array_equal(pivots, expected_pivots)
        assert np.allclose(f, expected, rtol=1e-12, atol=1e-13)
        assert np.isclose(norm, np.linalg.norm(a, 1), rtol=1e-14)


def test_format_with_panels(filedb):
    n = 300
    a = matrix(n, n, DTYPES[0])
    config(filedb, tile_bytes=8192)
    store(filedb, a)
    config(filedb, memory_limit="350kB")
    q(filedb, "SELECT gx_lu('A', 'F')")
    f, pivots, panel, info, norm = read_factor(filedb)
    assert panel < n and info == 0 and np.isclose(norm, np.linalg.norm(a, 1), rtol=1e-14)
    b = matrix(n, 4, DTYPES[0], seed=5)
    x = b.copy()
    for k in range(0, n, panel):  # L y = P b, panel by panel
        end = min(k + panel, n)
        for j in range(k, end):
            x[[j, pivots[j]]] = x[[pivots[j], j]]
        x[k:end] = np.linalg.solve(np.tril(f[k:end, k:end], -1) + np.eye(end - k), x[k:end])
        x[end:] -= f[end:, k:end] @ x[k:end]
    x = np.linalg.solve(np.triu(f), x)
    assert np.linalg.norm(b - a @ x, 1) / (np.linalg.norm(a, 1) * np.linalg.norm(x, 1) * 2.2e-16) < 30


# 3. ------------------------------------------------------------------------------------------------------------------


def test_known_factors(db):
    for kind, n in [("gfpp", 30), ("pascal", 12), ("hilb", 20), ("minij", 40), ("frank", 25), ("lotkin", 12), ("cauchy", 15),
                    ("lehmer", 30), ("moler", 30), ("pei", 20), ("kahan", 20), ("tridiag", 50), ("grcar", 40)]:
        q(db, f"SELECT gx_matrix_gallery('{kind}', {n}, 'A', '{{\"replace\":true}}')")
        a = to_numpy(q(db, "SELECT gx_copy('A')"))
        q(db, "SELECT gx_lu('A', 'F', '{\"replace\":true}')")
        p, l, u = parts(db)
        assert ratio(a, p, l, u) < 30, kind
    q(db, "SELECT gx_matrix_gallery('gfpp', 30, 'A', '{\"replace\":true}')")
    q(db, "SELECT gx_lu('A', 'F', '{\"replace\":true}')")
    p, l, u = parts(db)
    assert np.array_equal(p, np.eye(30)) and u[-1, -1] == 2.0**29  # growth 2^(n-1), exactly


def test_singular(db):
    a = matrix(20, 20, DTYPES[0])
    a[:, 7] = 0
    store(db, a)
    q(db, "SELECT gx_lu('A', 'F')")
    assert read_factor(db)[3] == 8
    p, l, u = parts(db)
    assert u[7, 7] == 0 and ratio(a, p, l, u) < 30
    assert error(db, "SELECT gx_inverse('F')") == "gx_inverse: F is singular (pivot 8 is exactly zero)"
    assert q(db, "SELECT gx_det('F')") == 0
    store(db, np.ones((5, 5)))
    q(db, "SELECT gx_lu('A', 'F', '{\"replace\":true}')")
    assert read_factor(db)[3] == 2
    store(db, np.zeros((3, 3)))
    q(db, "SELECT gx_lu('A', 'F', '{\"replace\":true}')")
    assert read_factor(db)[3] == 1


def test_first_zero_pivot_of_many_panels(filedb):
    config(filedb, tile_bytes=8192)
    a = matrix(300, 300, DTYPES[0])
    a[:, [150, 290]] = 0
    store(filedb, a)
    config(filedb, memory_limit="350kB")
    q(filedb, "SELECT gx_lu('A', 'F')")
    f, _, panel, info, _ = read_factor(filedb)
    assert panel < 150 and info == 151


@pytest.mark.parametrize("name", ["west0067", "olm1000"])
def test_sparse_files(filedb, name):
    linalg = pytest.importorskip("scipy.linalg")
    filedb.execute("SELECT gx_import('A', ?)", (str(DATA / f"{name}.mtx"),))
    a = to_numpy(q(filedb, "SELECT gx_copy('A')"))
    q(filedb, "SELECT gx_lu('A', 'F')")
    p, l, u = parts(filedb)
    assert ratio(a, p, l, u) < 30
    sign, log = np.linalg.slogdet(a)
    got = filedb.execute("SELECT sign, log FROM gx_logdet('F')").fetchone()
    assert got[0] == sign and np.isclose(got[1], log, rtol=1e-12)
    if name == "west0067":
        _, el, eu = linalg.lu(a)
        assert np.allclose(abs(np.diag(u)).prod(), abs(np.diag(eu)).prod(), rtol=1e-10)


# 4. ------------------------------------------------------------------------------------------------------------------


def test_no_numbers(db):
    for x in [np.nan, np.inf]:
        a = matrix(40, 40, DTYPES[0])
        a[3, 5] = x
        store(db, a)
        q(db, "SELECT gx_lu('A', 'F', '{\"replace\":true}')")
        f, pivots, _, _, norm = read_factor(db)
        assert not np.isfinite(f).all() and (pivots < 40).all()
        assert np.isnan(norm) if np.isnan(x) else norm == np.inf
    assert q(db, "SELECT gx_check('F')") == "ok"


@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_nothing_known(db, dtype):
    """Wherever the NaN is, no unknown is a number, as in NumPy."""
    rng = np.random.default_rng(9)
    for n in (1, 2, 3, 8, 33, 130):
        for _ in range(8):
            a = matrix(n, n, dtype)
            a[rng.integers(n), rng.integers(n)] = np.nan
            A, b = from_numpy(a), from_numpy(np.ones((n, 2), dtype))
            assert np.isnan(to_numpy(q(db, "SELECT gx_solve(?, ?)", A, b))).all()
            assert np.isnan(to_numpy(q(db, "SELECT gx_inverse(?)", A))).all()
            det = q(db, "SELECT gx_det(?)", A)
            assert det is None or np.isnan(to_numpy(det)).all()


def test_empty(db):
    for m, n in [(0, 0), (0, 4), (4, 0)]:
        store(db, np.zeros((m, n)))
        q(db, "SELECT gx_lu('A', 'F', '{\"replace\":true}')")
        p, l, u = parts(db)
        assert p.shape == (m, m) and l.shape == (m, 0) and u.shape == (0, n)
        assert q(db, "SELECT gx_check('F')") == "ok"


# 5. ------------------------------------------------------------------------------------------------------------------


def test_table(db):
    a = matrix(9, 6, DTYPES[0])
    rows = db.execute("SELECT part, value FROM gx_lu(?)", (from_numpy(a),)).fetchall()
    assert [row[0] for row in rows] == ["P", "L", "U"]
    p, l, u = [to_numpy(row[1]) for row in rows]
    assert ratio(a, p, l, u) < 30
    order = to_numpy(q(db, "SELECT value FROM gx_lu(?, '{\"permutation\":\"vector\"}') WHERE part = 'P'", from_numpy(a)))
    assert np.array_equal(a[order[:, 0].astype(int)], p @ a)
    assert [row[0] for row in db.execute("SELECT part FROM gx_lu(?)", (from_numpy(a),))] == ["P", "L", "U"]
    store(db, a)
    joined = db.execute("SELECT gx_norm(gx_sub(gx_matmul(p.value, 'A'), gx_matmul(l.value, u.value))) "
                        "FROM gx_lu('A') p, gx_lu('A') l, gx_lu('A') u "
                        "WHERE p.part = 'P' AND l.part = 'L' AND u.part = 'U'").fetchone()[0]
    assert joined < 1e-14


def test_stored_parts(filedb):
    a = matrix(70, 50, DTYPES[2])
    config(filedb, tile_bytes=8192)
    store(filedb, a)
    assert q(filedb, "SELECT gx_lu('A', '{\"l\":\"L\",\"u\":\"U\",\"p\":\"temp.P\"}')") == "temp.P"
    assert ratio(a, *[to_numpy(q(filedb, f"SELECT gx_copy('{x}')")) for x in ("temp.P", "L", "U")]) < 30
    rows = filedb.execute("SELECT name, properties FROM gx ORDER BY name").fetchall()
    assert rows == [("A", ""), ("L", "lower,unit"), ("U", "upper")]
    assert q(filedb, "SELECT properties FROM temp.gx_meta") == 64
    assert q(filedb, "SELECT gx_lu('A', 'F', '{\"l\":\"L2\"}')") == "F"
    assert np.array_equal(to_numpy(q(filedb, "SELECT gx_copy('L2')")), to_numpy(q(filedb, "SELECT gx_part('F', 'L')")))
    before = filedb.execute("SELECT * FROM gx").fetchall()
    assert error(filedb, "SELECT gx_lu('A', 'G', '{\"u\":\"L\"}')") == (
        "gx_lu: matrix 'L' already exists (use '{\"replace\":true}')")
    assert error(filedb, "SELECT gx_lu('A', 'G', '{\"u\":\"G\"}')") == "gx_lu: two results cannot both be stored as 'G'"
    assert filedb.execute("SELECT * FROM gx").fetchall() == before
    assert q(filedb, "SELECT gx_check()") == "ok"


# 6. ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def factored(db):
    a = matrix(40, 40, DTYPES[0])
    store(db, a)
    q(db, "SELECT gx_lu('A', 'F')")
    return a


def test_refused_elsewhere(db, factored):
    text = "F is a stored LU factorisation: gx_part('F', 'L') gives its factor"
    calls = ["gx_matmul('A', 'F')", "gx_matmul('F', 'A')", "gx_add('F', 1)", "gx_norm('F')", "gx_transpose('F')",
             "gx_json('F')", "gx_show('F')", "gx_cast('F', 'f32')", "gx_sum('F')", "gx_cholesky('F')", "gx_lu('F', 'G')"]
    for call in calls:
        assert error(db, f"SELECT {call}") == f"{call.split('(')[0]}: {text}", call
    assert error(db, "SELECT * FROM gx_cells('F')") == f"gx_cells: {text}"
    assert error(db, "SELECT * FROM gx_lu('F')") == f"gx_lu: {text}"
    assert q(db, "SELECT value FROM gx WHERE name = 'F'") is None
    assert error(db, "INSERT INTO gx(name, value) VALUES('G', 'F')") == f"gx: {text}"
    assert error(db, "SELECT gx_part('A', 'L')") == "gx_part: A is not a stored factorisation: gx_lu(A, 'F') and gx_qr(A, 'F') make them"
    assert error(db, "SELECT gx_part('F', 'l')") == "gx_part: part is 'l' but must be one of L, U, P, p"
    assert q(db, "SELECT properties FROM gx WHERE name = 'F'") == "lu"
    assert '"properties":"lu"' in q(db, "SELECT gx_info('F')")


def test_copies(db, factored):
    expected = read_factor(db)
    for sql, name in [("gx_copy('F', 'G')", "G"), ("gx_store('H', 'F')", "H"), ("gx_rename('G', 'K')", "K")]:
        q(db, f"SELECT {sql}")
        for got, want in zip(read_factor(db, name), expected):
            assert np.array_equal(got, want)
        assert ratio(factored, *parts(db, name)) < 30
    db.execute("UPDATE gx SET name = 'L' WHERE name = 'K'")
    assert ratio(factored, *parts(db, "L")) < 30
    assert error(db, "SELECT gx_copy('F')") == "gx_copy: F is a stored LU factorisation: give its copy a destination"
    assert error(db, "SELECT gx_copy('F', 'X', '{\"dtype\":\"f32\"}')") == (
        "gx_copy: F is a stored LU factorisation of dtype f64 and cannot become f32")
    q(db, "SELECT gx_drop('F')")
    assert q(db, "SELECT count(*) FROM gx_meta WHERE aux IS NOT NULL") == 2
    q(db, "SELECT gx_copy('H', 'temp.H')")
    assert ratio(factored, *parts(db, "temp.H")) < 30


def test_written(db, factored):
    q(db, "SELECT gx_set('F', 0, 0, 5)")
    assert q(db, "SELECT properties FROM gx WHERE name = 'F'") == ""
    assert q(db, "SELECT count(*) FROM gx_meta WHERE aux IS NOT NULL") == 0
    assert q(db, "SELECT gx_get('F', 0, 0)") == 5
    assert q(db, "SELECT gx_check('F')") == "ok"
    q(db, "SELECT gx_lu('A', 'F', '{\"replace\":true}')")
    db.execute("CREATE VIRTUAL TABLE f USING gx_cells('F')")
    db.execute("UPDATE f SET value = 7 WHERE i = 1 AND j = 2")
    assert q(db, "SELECT gx_get('F', 1, 2)") == 7
    assert q(db, "SELECT count(*) FROM gx_meta WHERE aux IS NOT NULL") == 0


def test_damaged_pivots(db, factored):
    aux = bytearray(q(db, "SELECT aux FROM gx_meta WHERE name = 'F'"))
    aux[64 + 8 * 3] = 2
    db.execute("UPDATE gx_meta SET aux = ? WHERE name = 'F'", (bytes(aux),))
    text = "auxiliary data of F: pivot 3 is row 2, expected 3 to 39"
    for call in ["gx_part('F', 'L')", "gx_det('F')", "gx_inverse('F')", "gx_copy('F', 'G')"]:
        assert error(db, f"SELECT {call}") == f"{call.split('(')[0]}: {text}"
    assert q(db, "SELECT gx_check('F')") == text
    assert q(db, "SELECT gx_drop('F')") == "F"


def test_databases_without_the_column(filedb):
    store(filedb, matrix(10, 10, DTYPES[0]))
    filedb.executescript(
        "CREATE TABLE m(id INTEGER PRIMARY KEY, name TEXT UNIQUE, rows, cols, dtype, tile_rows, tile_cols, properties,"
        " generation -- old\n);"
        "INSERT INTO m SELECT id, name, rows, cols, dtype, tile_rows, tile_cols, properties, generation FROM gx_meta;"
        "DROP TABLE gx_meta; ALTER TABLE m RENAME TO gx_meta;")
    assert q(filedb, "SELECT gx_check()") == "ok" and q(filedb, "SELECT gx_norm('A')") > 0
    q(filedb, "SELECT gx_set('A', 0, 0, 1)")
    q(filedb, "SELECT gx_lu('A', 'F')")
    assert q(filedb, "SELECT gx_check()") == "ok"
    assert q(filedb, "SELECT count(aux) FROM gx_meta") == 1


# 7. ------------------------------------------------------------------------------------------------------------------


def test_refused(db):
    store(db, matrix(8, 8, DTYPES[0]))
    cases = [
        ("gx_lu('A')", "gx_lu: the factorisation needs a destination, as in gx_lu(A, 'F'); as a table, gx_lu(A) has its "
                       "parts as values"),
        ("gx_lu('nix', 'F')", "gx_lu: no matrix named 'nix'"),
        ("gx_lu('A', 'A')", "gx_lu: matrix 'A' already exists (use '{\"replace\":true}')"),
        ("gx_lu(NULL, 'F')", "gx_lu: A is NULL"),
        ("gx_lu('A', 'nowhere.F')", "gx_lu: no database named 'nowhere' for the matrix 'nowhere.F'"),
        ("gx_lu('A', 'F', '{\"permutation\":\"list\"}')", "gx_lu: option \"permutation\" must be one of matrix, vector, not \"list\""),
        ("gx_part('A', 3)", "gx_part: part must be a text, not 3"),
    ]
    for call, text in cases:
        assert error(db, f"SELECT {call}") == text
    assert q(db, "SELECT count(*) FROM gx") == 1
    db.execute("PRAGMA query_only = 1")
    assert "gx_lu" in error(db, "SELECT gx_lu('A', 'F')")


def test_length_limit(db):
    if not hasattr(db, "setlimit"):
        pytest.skip("sqlite3 without setlimit()")
    store(db, matrix(1000, 1, DTYPES[0]) @ np.ones((1, 1)))
    q(db, "SELECT gx_randn(400, 400, 'B')")
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 3000)
    assert error(db, "SELECT gx_lu('B', 'F')") == (
        "gx_lu: auxiliary data of 3264 bytes is past SQLite's length limit of 3000")


def test_memory(filedb):
    q(filedb, "SELECT gx_zeros(200000, 40, 'A')")
    config(filedb, tile_bytes=65536, memory_limit="2MB")
    assert error(filedb, "SELECT gx_lu('A', 'F')") == (
        "gx_lu: needs 2 blocks of 1600000 bytes in memory but memory_limit leaves room for 0: "
        "raise it with gx_config('memory_limit', ...)")
    assert q(filedb, "SELECT count(*) FROM gx_meta") == 1


def test_itself(db):
    a = matrix(30, 30, DTYPES[0])
    store(db, a)
    q(db, "SELECT gx_lu('A', 'A', '{\"replace\":true}')")
    assert ratio(a, *parts(db, "A")) < 30


# 8. ------------------------------------------------------------------------------------------------------------------


def test_counters(filedb):
    n = 600
    config(filedb, tile_bytes=65536, threads=2)
    store(filedb, matrix(n, n, DTYPES[0]))
    for budget in ["64MB", "1500kB"]:
        config(filedb, memory_limit=budget)
        q(filedb, "SELECT gx_stats_reset()")
        q(filedb, "SELECT gx_lu('A', 'F', '{\"replace\":true}')")
        got = stats(filedb)
        panel = panel_of(filedb)
        tiles = filedb.execute("SELECT (rows + tile_rows - 1) / tile_rows * ((cols + tile_cols - 1) / tile_cols) FROM gx "
                               "WHERE name = 'F'").fetchone()[0]
        assert got["spills"] == 0 and got["tiles_written"] == tiles and got["bytes_written"] == 8 * n * n
        if budget == "64MB":
            side = q(filedb, "SELECT tile_rows FROM gx WHERE name = 'F'")  # A, and once more the tiles that pivots lie in
            assert got["bytes_read"] == 8 * n * n + 8 * (n // side * side * side + (n % side) ** 2)
        else:
            group = max(1, int(1500e3 // (8 * n * panel)) - 3)  # what the list of calls leaves
            again = sum(8 * panel * (n - k * panel) for j in range(0, -(-n // panel), group) for k in range(j))
            assert 8 * n * n < got["bytes_read"] <= 1.25 * (8 * n * n + again)
            assert got["memory_peak"] <= 1500e3


def test_same_bits(filedb):
    a = matrix(400, 400, DTYPES[0])
    config(filedb, tile_bytes=32768, deterministic=1)
    store(filedb, a)
    seen = set()
    for threads, budget in [(1, "64MB"), (2, "64MB"), (2, "2MB")]:
        config(filedb, threads=threads, memory_limit=budget)
        q(filedb, "SELECT gx_lu('A', 'F', '{\"replace\":true}')")
        config(filedb, memory_limit="64MB")
        seen.add((read_factor(filedb)[0].tobytes(), q(filedb, "SELECT aux FROM gx_meta WHERE name = 'F'")))
    assert len(seen) == 1
    assert ratio(a, *parts(filedb)) < 30


def test_interrupt(tmp_path):
    db = gx_connect(str(tmp_path / "i.db"))
    config(db, tile_bytes=65536, threads=2)
    store(db, matrix(2600, 2600, DTYPES[0]))
    timer = threading.Timer(0.02, db.interrupt)
    timer.start()
    try:
        text = error(db, "SELECT gx_lu('A', 'F')")
        assert text in ("gx_lu: interrupted", "interrupted")
    finally:
        timer.join()
    assert q(db, "SELECT count(*) FROM gx_meta") == 1 and q(db, "SELECT gx_check()") == "ok"
    db.close()
