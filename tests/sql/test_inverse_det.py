"""gx_inverse, gx_det, gx_logdet.

Plan:
1. ||I - A^-1 A|| / (n ||A|| ||A^-1|| eps) < 30 over dtypes, sizes and budgets; the factor in memory and in the temp
   database; all kinds of A: general, marked triangular, diagonal, positive, a stored factorisation
2. known inverses and determinants of the gallery
3. determinants: sign, logarithm, overflow, complex phases, properties, against NumPy
4. bad input: not square, singular, NaN, F of the wrong kind; nothing is left behind
5. counters: a stored factorisation is read, not made again; interrupts
"""
import math
import pathlib
import threading

import numpy as np
import pytest
from conftest import DTYPES, error, from_numpy, gx_connect, q, to_numpy

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
NAMES = ["f64", "f32", "c128", "c64"]


def matrix(n, dtype, seed=0):
    rng = np.random.default_rng(seed + n)
    a = rng.standard_normal((n, n))
    if dtype.kind == "c":
        a = a + 1j * rng.standard_normal((n, n))
    return a.astype(dtype)


def positive(n, dtype):
    a = matrix(n, dtype, 3)
    return (a @ a.conj().T + n * np.eye(n)).astype(dtype)


def ratio(a, x):
    if a.size == 0:
        return 0
    eps = np.finfo(a.dtype).eps
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    a, x = a.astype(wide), x.astype(wide)
    return np.linalg.norm(np.eye(len(a)) - x @ a, 1) / (len(a) * eps * np.linalg.norm(a, 1) * np.linalg.norm(x, 1))


def config(db, **settings):
    for key, value in settings.items():
        db.execute("SELECT gx_config(?, ?)", (key, value))


def store(db, array, *properties, name="A"):
    db.execute("SELECT gx_store(?, ?, '{\"replace\":true}')", (name, from_numpy(array)))
    for p in properties:
        db.execute("SELECT gx_set_property(?, ?)", (name, p))


def inverse(db, name="A"):
    return to_numpy(q(db, f"SELECT gx_inverse('{name}')"))


# 1. ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_sizes(db, dtype):
    config(db, tile_bytes=4096)
    for n in [0, 1, 2, 3, 5, 10, 31, 32, 33, 50, 63, 64, 65, 100]:
        a = matrix(n, dtype)
        store(db, a)
        x = inverse(db)
        assert x.dtype == dtype and x.shape == (n, n) and ratio(a, x) < 30, n
        q(db, "SELECT gx_lu('A', 'F', '{\"replace\":true}')")
        q(db, "SELECT gx_inverse('F', 'X', '{\"replace\":true}')")
        assert ratio(a, to_numpy(q(db, "SELECT gx_copy('X')"))) < 30, n
        assert ratio(a, to_numpy(q(db, "SELECT gx_inverse(?)", from_numpy(a)))) < 30, n


@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_properties(db, dtype):
    n = 70
    config(db, tile_bytes=4096)
    general = matrix(n, dtype) + 2 * np.eye(n, dtype=dtype) * math.sqrt(n)
    kinds = [("lower", np.tril(general)), ("upper", np.triu(general)), ("positive", positive(n, dtype))]
    for kind, a in kinds:
        store(db, a, kind)
        assert ratio(a, inverse(db)) < 30, kind
    store(db, np.tril(general), "lower")
    q(db, "SELECT gx_inverse('A', 'X')")
    assert q(db, "SELECT properties FROM gx WHERE name = 'X'") == "lower"
    assert not np.triu(to_numpy(q(db, "SELECT gx_copy('X')")), 1).any()
    q(db, "SELECT gx_diag('[2, -4, 0.5]', 'D')")
    assert q(db, "SELECT gx_json(gx_inverse('D'))") == "[[0.5,0.0,0.0],[0.0,-0.25,0.0],[0.0,0.0,2.0]]"
    q(db, "SELECT gx_diag('[\"3+4i\", \"1e200+1e200i\"]', 'Z')")
    z = inverse(db, "Z")
    assert np.allclose(np.diag(z), [0.12 - 0.16j, 5e-201 - 5e-201j], rtol=1e-14, atol=0)


@pytest.mark.parametrize("budget", ["64MB", "4MB", "1500kB", "700kB"])
def test_budgets(filedb, budget):
    n = 300  # 720 kB: the factor is in memory, or in the temp database, or narrower than a tile of the result
    config(filedb, tile_bytes=65536)
    for kind, a in [("", matrix(n, DTYPES[0])), ("positive", positive(n, DTYPES[0]))]:
        store(filedb, a, *[kind] * (kind != ""))
        config(filedb, memory_limit=budget)
        q(filedb, "SELECT gx_inverse('A', 'X', '{\"replace\":true}')")
        log = q(filedb, "SELECT gx_logdet('A')")
        assert q(filedb, "SELECT gx_check()") == "ok"
        config(filedb, memory_limit="64MB")
        assert ratio(a, to_numpy(q(filedb, "SELECT gx_copy('X')"))) < 30
        assert math.isclose(log, np.linalg.slogdet(a)[1], rel_tol=1e-11)
        assert q(filedb, "SELECT count(*) FROM sqlite_temp_master") == 0 or (
            q(filedb, "SELECT count(*) FROM temp.gx_tile") == 0)


# 2. ------------------------------------------------------------------------------------------------------------------


def gallery(db, kind, n):
    q(db, f"SELECT gx_matrix_gallery('{kind}', {n}, 'A', '{{\"replace\":true}}')")
    return to_numpy(q(db, "SELECT gx_copy('A')"))


def test_known_inverses(db):
    gallery(db, "hilb", 7)
    x = inverse(db)
    known = gallery(db, "invhilb", 7)
    assert np.allclose(x, known, rtol=1e-5)  # condition 5e8
    assert np.allclose(inverse(db), np.fromfunction(lambda i, j: 1 / (i + j + 1), (7, 7)), rtol=1e-5)
    n = 40
    gallery(db, "minij", n)
    expected = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    expected[-1, -1] = 1
    assert np.allclose(inverse(db), expected, atol=1e-10)
    for kind in ["lehmer", "moler", "pei", "tridiag", "kms", "lotkin", "cauchy", "frank", "gfpp", "pascal", "grcar"]:
        a = gallery(db, kind, 8)
        assert ratio(a, inverse(db)) < 30, kind


def test_known_determinants(db):
    for kind, n, value in [("pascal", 10, 1), ("frank", 12, 1), ("moler", 20, 1), ("minij", 30, 1), ("gfpp", 20, 2**19),
                           ("pei", 5, 6)]:
        gallery(db, kind, n)
        assert math.isclose(q(db, "SELECT gx_det('A')"), value, rel_tol=1e-6), kind
        assert math.isclose(q(db, "SELECT gx_logdet('A')"), math.log(value), abs_tol=1e-6), kind


# 3. ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_determinants(db, dtype):
    config(db, tile_bytes=4096)
    tolerance = 1e-10 if dtype in (DTYPES[0], DTYPES[2]) else 1e-3
    for n in [1, 2, 3, 10, 33, 64, 100]:
        a = matrix(n, dtype)
        store(db, a)
        wide = a.astype(np.complex128)
        sign, log = np.linalg.slogdet(wide)
        got = db.execute("SELECT sign, imag, log FROM gx_logdet('A')").fetchone()
        assert abs(got[0] + 1j * got[1] - sign) < tolerance and abs(got[2] - log) < tolerance * max(1, abs(log))
        assert math.isclose(q(db, "SELECT gx_logdet('A')"), got[2])
        det = q(db, "SELECT gx_det('A')")
        det = to_numpy(det)[0, 0] if dtype.kind == "c" else det
        assert abs(det - sign * np.exp(log)) <= tolerance * 10 * np.exp(log)
        if dtype.kind == "f":
            assert got[1] == 0 and got[0] in (1, -1)


def test_determinants_by_property(db):
    a = matrix(30, DTYPES[0])
    for kind, x in [("lower", np.tril(a)), ("upper", np.triu(a)), ("positive", positive(30, DTYPES[0]))]:
        store(db, x, kind)
        diagonal = np.diag(x) if kind != "positive" else np.diag(np.linalg.cholesky(x))**2
        sign, log = np.sign(diagonal).prod(), np.log(abs(diagonal)).sum()
        got = db.execute("SELECT sign, log FROM gx_logdet('A')").fetchone()
        assert got[0] == sign and math.isclose(got[1], log, rel_tol=1e-10), kind
    q(db, "SELECT gx_eye(50, 'E')")
    assert db.execute("SELECT gx_det('E'), gx_logdet('E')").fetchone() == (1, 0)


def test_range(db):
    q(db, "SELECT gx_scale(gx_eye(400), 10, 'B')")
    assert q(db, "SELECT gx_det('B')") == math.inf
    assert math.isclose(q(db, "SELECT gx_logdet('B')"), 400 * math.log(10), rel_tol=1e-14)
    q(db, "SELECT gx_scale('B', -0.001, 'S')")
    assert q(db, "SELECT gx_det('S')") == 0
    assert db.execute("SELECT sign FROM gx_logdet('S')").fetchone() == (1,)
    huge = np.diag([1e200, 1e200, 1e-200, 1e-200, -3.0])  # no overflow on the way
    store(db, huge + np.triu(np.ones((5, 5)), 1))
    assert math.isclose(q(db, "SELECT gx_det('A')"), -3, rel_tol=1e-13)
    store(db, np.array([[1e-305, 0], [0, 1e300]]))
    assert math.isclose(q(db, "SELECT gx_det('A')"), 1e-5, rel_tol=1e-13)


def test_trivial(db):
    assert q(db, "SELECT gx_det(gx_zeros(0, 0))") == 1 and q(db, "SELECT gx_logdet(gx_zeros(0, 0))") == 0
    assert to_numpy(q(db, "SELECT gx_inverse(gx_zeros(0, 0))")).shape == (0, 0)
    assert q(db, "SELECT gx_det(7)") == 7 and q(db, "SELECT gx_json(gx_inverse(4))") == "[[0.25]]"
    assert q(db, "SELECT gx_det('[[1,2],[2,4]]')") == 0 and q(db, "SELECT gx_logdet('[[1,2],[2,4]]')") == -math.inf
    assert db.execute("SELECT * FROM gx_logdet('[[0,0],[0,0]]')").fetchone() == (0, 0, -math.inf)
    assert q(db, "SELECT gx_det('[[1,2],[\"nan\",4]]')") is None


@pytest.mark.parametrize("name", ["west0067", "olm1000"])
def test_sparse_files(filedb, name):
    filedb.execute("SELECT gx_import('A', ?)", (str(DATA / f"{name}.mtx"),))
    a = to_numpy(q(filedb, "SELECT gx_copy('A')"))
    sign, log = np.linalg.slogdet(a)
    got = filedb.execute("SELECT sign, log FROM gx_logdet('A')").fetchone()
    assert got[0] == sign and math.isclose(got[1], log, rel_tol=1e-11)
    assert ratio(a, inverse(filedb)) < 30


# 4. ------------------------------------------------------------------------------------------------------------------


def test_refused(db):
    a = matrix(20, DTYPES[0])
    a[:, 16] = 0
    store(db, a)
    q(db, "SELECT gx_lu('A', 'F')")
    lower = np.tril(matrix(9, DTYPES[0]))
    lower[7, 7] = 0
    store(db, lower, "lower", name="T")
    q(db, "SELECT gx_diag('[1, 0]', 'D')")
    store(db, -np.eye(3), "positive", name="N")
    cases = [
        ("gx_inverse(gx_zeros(3, 4))", "A is 3x4 but must be square"),
        ("gx_det(gx_zeros(3, 4))", "A is 3x4 but must be square"),
        ("gx_logdet(gx_zeros(3, 4))", "A is 3x4 but must be square"),
        ("gx_inverse('A', 'X')", "A is singular (pivot 17 is exactly zero)"),
        ("gx_inverse('F', 'X')", "F is singular (pivot 17 is exactly zero)"),
        ("gx_inverse('T', 'X')", "T is singular (T[7,7] = 0)"),
        ("gx_inverse('D', 'X')", "D is singular (D[1,1] = 0)"),
        ("gx_inverse('N', 'X')", "N is not positive definite (leading minor of order 1)"),
        ("gx_det('nix')", "no matrix named 'nix'"),
        ("gx_det(NULL)", "A is NULL"),
        ("gx_inverse('A', 'T')", "matrix 'T' already exists (use '{\"replace\":true}')"),
    ]
    before = db.execute("SELECT * FROM gx").fetchall()
    for call, text in cases:
        assert error(db, f"SELECT {call}") == f"{call.split('(')[0]}: {text}"
    assert error(db, "SELECT * FROM gx_logdet(gx_zeros(3, 4))") == "gx_logdet: A is 3x4 but must be square"
    assert db.execute("SELECT * FROM gx").fetchall() == before and q(db, "SELECT gx_check()") == "ok"


def test_in_place_of_itself(db):
    a = matrix(40, DTYPES[0])
    store(db, a)
    q(db, "SELECT gx_inverse('A', 'A', '{\"replace\":true}')")
    assert ratio(a, to_numpy(q(db, "SELECT gx_copy('A')"))) < 30


# 5. ------------------------------------------------------------------------------------------------------------------


def test_factor_is_read_once(filedb):
    n = 400
    config(filedb, tile_bytes=65536)
    store(filedb, matrix(n, DTYPES[0]))
    q(filedb, "SELECT gx_lu('A', 'F')")
    q(filedb, "SELECT gx_stats_reset()")
    q(filedb, "SELECT gx_inverse('F', 'X')")
    got = dict(filedb.execute("SELECT name, value FROM gx_stats WHERE name <> 'note'"))
    panel = int(np.frombuffer(q(filedb, "SELECT aux FROM gx_meta WHERE name = 'F'"), "<i8", 1, offset=8)[0])
    assert 8 * n * n <= got["bytes_read"] <= 8 * n * n + 8 * n * panel + 65536 * 8  # the diagonal at most twice
    assert got["bytes_written"] == 8 * n * n and got["spills"] == 0
    assert got["flops"] < 2.1 * n**3


def test_interrupt(tmp_path):
    db = gx_connect(str(tmp_path / "i.db"))
    config(db, tile_bytes=65536, threads=2)
    store(db, matrix(2400, DTYPES[0]))
    timer = threading.Timer(0.03, db.interrupt)
    timer.start()
    try:
        assert "interrupted" in error(db, "SELECT gx_inverse('A', 'X')")
    finally:
        timer.join()
    assert q(db, "SELECT count(*) FROM gx") == 1 and q(db, "SELECT gx_check()") == "ok"
    db.close()
