"""gx_solve against NumPy and SciPy.

Plan:
  1  Values: dtypes x sizes x structure (general, positive, triangles, diagonal) x op(A), LAPACK's ratio
     ||B - op(A) X|| / (||A|| ||X|| eps n) < 30; many, one and no right-hand sides.
  2  Stored, by property, in budgets of few blocks, many, all; the same; with and without residual checks.
  3  Files: bcsstk13 (backward error), west0067, olm1000 against SciPy; the gallery.
  4  Reuse: Cholesky, LU and QR factors in place of A; 100 right-hand sides read the factor once.
  5  Refinement improves and stops; mixed precision converges, and falls back in words.
  6  Refusals: exact texts, the database as it was; nothing left in temp, after failure and interrupt too.
  7  Intermediates of order n do not come from SQLite's allocator (its heap limited, in a process of its own).
"""
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.io
from conftest import ROOT, error, from_numpy, q, to_numpy

EPS = {"f64": 2.0**-53, "f32": 2.0**-24, "c128": 2.0**-53, "c64": 2.0**-24}
NUMPY = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}
DATA = ROOT / "tests" / "data"
PROPERTY = {"general": None, "positive": "positive", "lower": "lower", "upper": "upper", "diagonal": "diagonal"}


def random(rng, rows, cols, dtype):
    x = rng.standard_normal((rows, cols))
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal((rows, cols))
    return x.astype(NUMPY[dtype])


def structured(rng, n, dtype, kind):
    a = random(rng, n, n, dtype)
    strong = (n * np.eye(n)).astype(a.dtype)
    if kind == "positive":
        s = (a @ a.conj().T + strong).astype(a.dtype)
        s = np.tril(s, -1)
        return s + s.conj().T + np.diag(np.arange(2 * n, 3 * n) ** 2.0 + n).astype(a.dtype)
    return {"general": a, "lower": np.tril(a) + strong, "upper": np.triu(a) + strong,
            "diagonal": np.diag(np.diag(a)) + strong}[kind]


def op(a, trans):
    return {"N": a, "T": a.T, "H": a.conj().T}[trans]


def ratio(a, x, b, dtype):
    wide = np.complex128
    a, x, b = a.astype(wide), x.astype(wide), b.astype(wide)
    if x.size == 0:
        return 0.0
    scale = np.linalg.norm(a, 1) * np.linalg.norm(x, 1) * EPS[dtype] * a.shape[0]
    return np.linalg.norm(b - a @ x, 1) / scale


def backward(a, x, b):
    return np.linalg.norm(b - a @ x, 1) / (np.linalg.norm(a, 1) * np.linalg.norm(x, 1) + np.linalg.norm(b, 1))


def config(db, **settings):
    for key, value in settings.items():
        db.execute("SELECT gx_config(?, ?)", (key, value))


def store(db, name, array, properties=None):
    db.execute("SELECT gx_store(?, ?, '{\"replace\":true}')", (name, from_numpy(array)))
    if properties:
        db.execute("SELECT gx_set_property(?, ?)", (name, properties))


def stored(db, name):
    limit = q(db, "SELECT gx_config('memory_limit')")
    config(db, memory_limit="256MiB")
    array = to_numpy(q(db, "SELECT gx_copy(?)", name))
    config(db, memory_limit=limit)
    return array


def stat(db, name):
    return q(db, "SELECT value FROM gx_stats WHERE name = ?", name)


def nothing_in_temp(db):
    names = {row[0] for row in db.execute("SELECT name FROM temp.sqlite_master")}
    return all(q(db, f"SELECT count(*) FROM temp.{t}") == 0 for t in ("gx_tile", "gx_meta") if t in names)


@pytest.mark.parametrize("dtype", list(NUMPY))
def test_values(db, dtype):
    rng = np.random.default_rng(1)
    config(db, probe="on")
    for n in (0, 1, 2, 3, 5, 10, 50, 129):
        for cols in (0, 1, 7):
            b = random(rng, n, cols, dtype)
            for kind in PROPERTY:
                a = structured(rng, n, dtype, kind)
                for trans in "NTH":
                    x = to_numpy(q(db, "SELECT gx_solve(?, ?, ?)", from_numpy(a), from_numpy(b),
                                   f'{{"trans":"{trans}"}}'))
                    assert x.shape == b.shape and x.dtype == b.dtype
                    assert ratio(op(a, trans), x, b, dtype) < 30, (n, cols, kind, trans)


@pytest.mark.parametrize("blocks", ["few", "some", "all"])
@pytest.mark.parametrize("dtype", list(NUMPY))
def test_stored(filedb, dtype, blocks):
    """n beyond what is kept in one buffer, small tiles; few: the factor does not fit into memory."""
    rng = np.random.default_rng(2)
    filedb.execute("PRAGMA synchronous=off")
    n, element = 231, np.dtype(NUMPY[dtype]).itemsize
    config(filedb, tile_bytes=32 * 32 * element, probe="on")
    limit = {"few": 8 * n * n * element // 10, "some": 3 * n * n * element, "all": 256 << 20}[blocks]
    b = random(rng, n, 5, dtype)
    store(filedb, "B", b)
    for kind, properties in PROPERTY.items():
        a = structured(rng, n, dtype, kind)
        store(filedb, "A", a, properties)
        for trans in "NTH":
            for refine in (0, 2) if trans == "N" else (0,):
                config(filedb, memory_limit=max(limit, 700_000))
                got = q(filedb, "SELECT gx_solve('A', 'B', 'X', ?)",
                        f'{{"replace":true,"trans":"{trans}","refine":{refine}}}')
                config(filedb, memory_limit="256MiB")
                assert got == "X"
                x = stored(filedb, "X")
                assert x.dtype == b.dtype and ratio(op(a, trans), x, b, dtype) < 30, (kind, trans, refine)
    assert nothing_in_temp(filedb) and q(filedb, "SELECT gx_check()") == "ok"


def test_wide_right_hand_sides(filedb):
    """More columns than memory takes at once: panels of whole tiles."""
    rng = np.random.default_rng(3)
    config(filedb, tile_bytes=8192, memory_limit="64MiB")
    a, b = structured(rng, 70, "f64", "general"), random(rng, 70, 3000, "f64")
    store(filedb, "A", a)
    store(filedb, "B", b)
    config(filedb, memory_limit="900KB")
    filedb.execute("SELECT gx_solve('A', 'B', 'X')")
    assert ratio(a, stored(filedb, "X"), b, "f64") < 30


def test_dtypes_and_forms(db):
    a, b = np.array([[2.0, 0], [1, 4]]), np.array([[2.0], [9]])
    store(db, "A", a.astype(np.float32))
    assert to_numpy(q(db, "SELECT gx_solve('A', '[2,9]')")).dtype == np.float64
    assert to_numpy(q(db, "SELECT gx_solve('A', ?)", from_numpy(b.astype(np.complex64)))).dtype == np.complex64
    assert to_numpy(q(db, "SELECT gx_solve(4, '[[2,8]]')")).tolist() == [[0.5, 2.0]]
    assert q(db, "SELECT gx_solve('A', '[2,9]', 'X')") == "X"
    assert to_numpy(q(db, "SELECT gx_copy('X')")).tolist() == [[1.0], [2.0]]
    assert q(db, "SELECT gx_norm(gx_solve('A', '[2,9]'))") == pytest.approx(5**0.5)


def test_values_are_looked_at(db):
    """A positive diagonal and symmetry are worth Cholesky; where that fails, LU answers."""
    indefinite = np.array([[1.0, 2, 0], [2, 1, 0], [0, 0, 5]])
    x = to_numpy(q(db, "SELECT gx_solve(?, '[1,2,3]')", from_numpy(indefinite)))
    assert np.allclose(indefinite @ x, [[1], [2], [3]])
    store(db, "L", np.tril(np.full((3, 3), 9.0)) + 1)  # by property lower: the upper triangle is not read
    db.execute("SELECT gx_set_property('L', 'lower')")
    assert np.allclose(np.tril(np.full((3, 3), 9.0) + 1) @ to_numpy(q(db, "SELECT gx_solve('L', '[1,2,3]')")),
                       [[1], [2], [3]])
    store(db, "U", np.array([[7.0, 3], [0, 7]]), "upper,unit")  # by property ones, whatever is stored
    assert to_numpy(q(db, "SELECT gx_solve('U', '[7,2]')")).tolist() == [[1.0], [2.0]]
    spd = np.array([[4.0, 99], [2, 5]])
    assert to_numpy(q(db, "SELECT gx_solve(?, '[8,14]', '{\"assume\":\"positive\"}')",
                      from_numpy(spd))).ravel() == pytest.approx([0.75, 2.5])


def test_bcsstk13(filedb):
    filedb.execute("SELECT gx_import('K', ?)", (str(DATA / "bcsstk13.mtx"),))
    k = scipy.io.mmread(DATA / "bcsstk13.mtx").toarray()
    b = k @ np.ones((len(k), 2))
    store(filedb, "B", b)
    for properties in ("positive", None):
        if properties:
            filedb.execute("SELECT gx_set_property('K', 'positive')")
        else:
            filedb.execute("SELECT gx_set_property('K', 'positive', 0)")
        x = to_numpy(q(filedb, "SELECT gx_solve('K', 'B')"))
        assert backward(k, x, b) < 1e-14, properties


@pytest.mark.parametrize("name", ["west0067", "olm1000"])
def test_files(filedb, name):
    a = scipy.io.mmread(DATA / f"{name}.mtx").toarray()
    filedb.execute("SELECT gx_import('A', ?)", (str(DATA / f"{name}.mtx"),))
    b = np.arange(1.0, len(a) + 1)[:, None]
    x = to_numpy(q(filedb, "SELECT gx_solve('A', ?)", from_numpy(b)))
    want = np.linalg.solve(a, b)
    assert backward(a, x, b) < 1e-14
    assert np.linalg.norm(x - want) <= 100 * np.linalg.cond(a) * EPS["f64"] * np.linalg.norm(want)


@pytest.mark.parametrize("kind", ["hilb", "minij", "lehmer", "moler", "pei", "kahan", "frank", "tridiag", "lotkin",
                                  "clement", "kms"])
def test_gallery(db, kind):
    for n in (6, 12, 50):  # clement is singular for odd orders
        db.execute("SELECT gx_matrix_gallery(?, ?, 'A', '{\"replace\":true}')", (kind, n))
        a = to_numpy(q(db, "SELECT gx_copy('A')"))
        b = a @ np.ones((n, 1))
        x = to_numpy(q(db, "SELECT gx_solve('A', ?)", from_numpy(b)))
        assert ratio(a, x, b, "f64") < 30, n


def test_growth_is_told(db):
    """gfpp: partial pivoting grows by 2^(n-1); the residual check sees that the answer is none."""
    n = 200
    a = np.eye(n) - np.tril(np.ones((n, n)), -1)
    a[:, -1] = 1
    config(db, probe="on")
    rng = np.random.default_rng(4)
    text = error(db, "SELECT gx_solve(?, ?)", from_numpy(a), from_numpy(rng.standard_normal((n, 1))))
    assert text.startswith("gx_solve: the result failed its residual check (ratio ") and \
        text.endswith(" of at most 100)")
    assert stat(db, "probes") == 1 and stat(db, "probe_ratio") > 100_000


def test_cholesky_factor(filedb):
    rng = np.random.default_rng(5)
    config(filedb, tile_bytes=8192)
    for dtype in NUMPY:
        a = structured(rng, 90, dtype, "positive")
        b = random(rng, 90, 3, dtype)
        lower = np.linalg.cholesky(a)
        for factor, properties in ((lower, "lower"), (lower.conj().T, "upper")):
            store(filedb, "F", factor, properties)
            for trans in "NTH":
                x = to_numpy(q(filedb, "SELECT gx_solve('F', ?, ?)", from_numpy(b),
                               f'{{"factor":"cholesky","trans":"{trans}"}}'))
                assert ratio(op(a, trans), x, b, dtype) < 30
        x = to_numpy(q(filedb, "SELECT gx_solve(?, ?, '{\"factor\":\"cholesky\"}')", from_numpy(lower),
                       from_numpy(b)))
        assert ratio(a, x, b, dtype) < 30


@pytest.mark.parametrize("name", ["gx_lu", "gx_qr"])
def test_stored_factorisations(filedb, name):
    rng = np.random.default_rng(6)
    config(filedb, tile_bytes=8192)
    for dtype in NUMPY:
        a, b = structured(rng, 90, dtype, "general"), random(rng, 90, 3, dtype)
        store(filedb, "A", a)
        filedb.execute(f"SELECT {name}('A', 'F', '{{\"replace\":true}}')")
        for trans in "NTH":
            x = to_numpy(q(filedb, "SELECT gx_solve('F', ?, ?)", from_numpy(b), f'{{"trans":"{trans}"}}'))
            assert x.dtype == b.dtype and ratio(op(a, trans), x, b, dtype) < 30
    wide = q(filedb, "SELECT gx_solve('F', ?)", from_numpy(b.astype(np.complex128)))  # F: c64
    assert ratio(a, to_numpy(wide), b, "c64") < 30 and to_numpy(wide).dtype == np.complex128
    assert error(filedb, "SELECT gx_solve('F', '[1]')") == "gx_solve: F is 90x90 but B is 1x1"
    assert error(filedb, "SELECT gx_solve('F', 'A', '{\"refine\":true}')") == \
        "gx_solve: F is a factor, and refinement needs the matrix that it is the factor of"
    assert error(filedb, "SELECT gx_solve('F', 'A', '{\"assume\":\"lower\"}')") == \
        "gx_solve: F is a stored factorisation: \"assume\" and \"factor\" are for matrices"


def test_hundred_loads_read_the_factor_once(filedb):
    rng = np.random.default_rng(7)
    n = 300
    config(filedb, tile_bytes=32 * 32 * 8)
    lower = np.linalg.cholesky(structured(rng, n, "f64", "positive"))
    b = random(rng, n, 100, "f64")
    store(filedb, "L", lower, "lower")
    store(filedb, "B", b)
    config(filedb, memory_limit="500KB")  # neither L nor a buffer of B fits twice
    filedb.execute("SELECT gx_stats_reset()")
    filedb.execute("SELECT gx_solve('L', 'B', 'Y')")
    read = stat(filedb, "bytes_read")
    triangle = sum(min(32, n - i) * min(32, n - j) for j in range(0, n, 32) for i in range(j, n, 32)) * 8
    assert read <= 1.25 * (triangle + b.nbytes), (read, triangle, b.nbytes)
    assert ratio(lower, stored(filedb, "Y"), b, "f64") < 30


def test_refinement(db):
    rng = np.random.default_rng(8)
    n = 60
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    a = (left * np.logspace(0, -5, n)) @ right
    single = a.astype(np.float32)
    want = np.ones((n, 1))
    b = (single.astype(np.float64) @ want).astype(np.float32)
    plain = to_numpy(q(db, "SELECT gx_solve(?, ?)", from_numpy(single), from_numpy(b)))
    db.execute("SELECT gx_stats_reset()")
    refined = to_numpy(q(db, "SELECT gx_solve(?, ?, '{\"refine\":true}')", from_numpy(single), from_numpy(b)))
    exact = np.linalg.solve(single.astype(np.float64), b.astype(np.float64))
    assert np.abs(refined - exact).max() <= 4 * EPS["f32"] * np.abs(exact).max()
    assert np.abs(plain - exact).max() > 20 * EPS["f32"] * np.abs(exact).max()
    assert 1 <= stat(db, "refinements") <= 10
    # A good solution is not worked on for long.
    db.execute("SELECT gx_stats_reset()")
    db.execute("SELECT gx_solve(?, ?, '{\"refine\":10}')", (from_numpy(left), from_numpy(want)))
    assert stat(db, "refinements") <= 3


def test_mixed_precision(db):
    rng = np.random.default_rng(9)
    for dtype in ("f64", "c128"):
        for kind in ("general", "positive"):
            a, b = structured(rng, 150, dtype, kind), random(rng, 150, 4, dtype)
            for trans in "NTH":
                db.execute("SELECT gx_stats_reset()")
                x = to_numpy(q(db, "SELECT gx_solve(?, ?, ?)", from_numpy(a), from_numpy(b),
                               f'{{"precision":"mixed","trans":"{trans}"}}'))
                assert x.dtype == NUMPY[dtype] and ratio(op(a, trans), x, b, dtype) < 30
                assert stat(db, "refinements") >= 1
                assert db.execute("SELECT count(*) FROM gx_stats WHERE meaning LIKE 'mixed%'").fetchone()[0] == 0


@pytest.mark.parametrize("matrix,reason", [("ill", "refinement stagnated"),
                                           ("tiny", "the single precision factorisation failed")])
def test_mixed_falls_back(db, matrix, reason):
    n = 12
    if matrix == "ill":
        db.execute("SELECT gx_matrix_gallery('hilb', ?, 'A')", (n,))
    else:
        store(db, "A", np.eye(n) * 1e-60)
    a = to_numpy(q(db, "SELECT gx_copy('A')"))
    b = a @ np.ones((n, 1))
    x = to_numpy(q(db, "SELECT gx_solve('A', ?, '{\"precision\":\"mixed\",\"assume\":\"general\"}')", from_numpy(b)))
    assert ratio(a, x, b, "f64") < 30
    notes = [row[0] for row in db.execute("SELECT meaning FROM gx_stats WHERE name = 'note'")]
    assert f"mixed precision: {reason}; solved in f64" in notes


@pytest.mark.parametrize("a,b,options,text", [
    ("[[1,2,3],[4,5,6]]", "[1,2]", "{}", "A is 2x3, not square: gx_lstsq solves by least squares"),
    ("[[1,2],[3,4]]", "[1,2,3]", "{}", "A is 2x2 but B is 3x1"),
    ("[[1,2],[2,4]]", "[1,2]", "{}", "A is singular (pivot 2 is exactly zero)"),
    ("[[1,0],[2,0]]", "[1,2]", "{}", "A is singular (A[1,1] = 0)"),
    ("[[1,0],[0,0]]", "[1,2]", "{}", "A is singular (A[1,1] = 0)"),
    ("[[1,2],[2,1]]", "[1,2]", '{"assume":"positive"}', "A is not positive definite (leading minor of order 2)"),
    ("[[1,2],[2,1]]", "[1,2]", '{"assume":"nice"}',
     'option "assume" must be one of auto, diagonal, lower, upper, positive, general, not "nice"'),
    ("[[1,2],[2,1]]", "[1,2]", '{"trans":"X"}', 'option "trans" must be one of N, T, H, not "X"'),
    ("[[1,2],[2,1]]", "[1,2]", '{"factor":"svd"}', 'option "factor" must be cholesky, not "svd"'),
    ("[[1,2],[2,1]]", "[1,2]", '{"refine":11}', "\"refine\" must be true, false or 0 to 10 steps, not 11"),
    ("[[1,2],[2,1]]", "[1,2]", '{"refine":"x"}', None),
    ("[[1,2],[2,1]]", "[1,2]", '{"precision":"double"}', 'option "precision" must be one of full, mixed, not "double"'),
    ("[[1,2],[2,1]]", "[1,2]", '{"factor":"cholesky","assume":"lower"}',
     "\"assume\" and \"factor\" exclude each other"),
    ("[[1,2],[2,1]]", "[1,2]", '{"factor":"cholesky","refine":1}',
     "A is a factor, and refinement needs the matrix that it is the factor of"),
    ("[[1,2],[2,1]]", "[1,2]", '{"factor":"cholesky","precision":"mixed"}',
     "A is a factor, and refinement needs the matrix that it is the factor of"),
    ("[[1,2],[2,1]]", "[1,2]", '{"speed":1}', None),
])
def test_refused(db, a, b, options, text):
    store(db, "X", np.ones((1, 1)))
    before = db.execute("SELECT * FROM gx").fetchall()
    got = error(db, "SELECT gx_solve(?, ?, 'Y', ?)", a, b, options)
    assert text is None or got == "gx_solve: " + text
    assert error(db, "SELECT gx_solve('[[2]]', '[1]', 'X')") == \
        "gx_solve: matrix 'X' already exists (use '{\"replace\":true}')"
    assert db.execute("SELECT * FROM gx").fetchall() == before and nothing_in_temp(db)


def test_single_precision_is_not_mixed(db):
    store(db, "A", np.eye(2, dtype=np.float32))
    assert error(db, "SELECT gx_solve('A', 'A', '{\"precision\":\"mixed\"}')") == \
        'gx_solve: "precision":"mixed" is for f64 and c128, but X is f32'


def test_large_failures_leave_nothing(filedb):
    rng = np.random.default_rng(10)
    n = 260
    config(filedb, tile_bytes=8192)
    a = structured(rng, n, "f64", "positive")
    singular = a.copy()
    singular[:, 200] = 0
    indefinite = a.copy()
    indefinite[233, 233] = -1
    store(filedb, "S", singular)
    store(filedb, "I", indefinite, "positive")
    store(filedb, "B", random(rng, n, 2, "f64"))
    config(filedb, memory_limit="700KB")
    before = filedb.execute("SELECT * FROM gx").fetchall()
    assert error(filedb, "SELECT gx_solve('S', 'B', 'X')") == "gx_solve: S is singular (pivot 201 is exactly zero)"
    assert error(filedb, "SELECT gx_solve('I', 'B', 'X')") == \
        "gx_solve: I is not positive definite (leading minor of order 234)"
    assert error(filedb, "SELECT gx_solve('I', 'B', 'X', '{\"precision\":\"mixed\"}')") == \
        "gx_solve: I is not positive definite (leading minor of order 234)"
    assert filedb.execute("SELECT * FROM gx").fetchall() == before
    assert nothing_in_temp(filedb) and q(filedb, "SELECT gx_check()") == "ok"


def test_in_a_transaction(filedb):
    """The intermediate in temp comes and goes within the user's transaction."""
    rng = np.random.default_rng(11)
    n = 260
    config(filedb, tile_bytes=8192)
    a, b = structured(rng, n, "f64", "positive"), random(rng, n, 2, "f64")
    store(filedb, "A", a, "positive")
    store(filedb, "B", b)
    config(filedb, memory_limit="700KB")
    filedb.execute("BEGIN")
    filedb.execute("CREATE TABLE kept(x)")
    filedb.execute("INSERT INTO kept VALUES(1)")
    filedb.execute("SELECT gx_solve('A', 'B', 'X')")
    assert ratio(a, stored(filedb, "X"), b, "f64") < 30
    error(filedb, "SELECT gx_solve('A', '[1]', 'Y')")
    filedb.execute("ROLLBACK")
    assert error(filedb, "SELECT gx_info('X')") == "gx_info: no matrix named 'X'"
    assert nothing_in_temp(filedb)
    config(filedb, memory_limit="700KB")
    filedb.execute("CREATE TABLE results(x)")
    filedb.execute("INSERT INTO results SELECT gx_solve('A', 'B')")
    assert ratio(a, to_numpy(q(filedb, "SELECT x FROM results")), b, "f64") < 30
    assert nothing_in_temp(filedb) and q(filedb, "SELECT gx_check()") == "ok"


def test_interrupted(filedb):
    rng = np.random.default_rng(12)
    n = 1500
    filedb.execute("PRAGMA synchronous=off")
    config(filedb, tile_bytes="128KiB", threads=1)
    store(filedb, "A", rng.standard_normal((n, n)))
    config(filedb, memory_limit="12MiB")
    before = filedb.execute("SELECT * FROM gx").fetchall()
    timer = threading.Timer(0.05, filedb.interrupt)
    timer.start()
    text = error(filedb, "SELECT gx_solve('A', 'A', 'X')")
    timer.join()
    assert "interrupted" in text
    assert filedb.execute("SELECT * FROM gx").fetchall() == before and nothing_in_temp(filedb)
    assert q(filedb, "SELECT gx_check()") == "ok"


def test_factorisations_are_checked(filedb):
    """probe on: every driver's result is multiplied with vectors, in memory and beyond."""
    rng = np.random.default_rng(13)
    n = 180
    config(filedb, tile_bytes=8192, probe="on")
    for dtype in NUMPY:
        a = structured(rng, n, dtype, "positive")
        store(filedb, "A", a)
        store(filedb, "T", random(rng, n, 40, dtype))
        for sql in ("gx_cholesky('A', 'F', '{\"replace\":true}')", "gx_lu('A', 'F', '{\"replace\":true}')",
                    "gx_qr('T', 'F', '{\"replace\":true}')", "gx_matmul('A', 'T', 'F', '{\"replace\":true}')",
                    "gx_cholesky('A', 'F', '{\"replace\":true,\"upper\":true}')"):
            config(filedb, memory_limit="64MiB")
            filedb.execute("SELECT gx_stats_reset()")
            filedb.execute("SELECT " + sql)
            assert stat(filedb, "probes") >= 1 and stat(filedb, "probe_ratio") < 30_000, sql
    assert nothing_in_temp(filedb)


HEAP_SCRIPT = """
import sys
sys.path.insert(0, {path!r})
from conftest import gx_connect, q
db = gx_connect({file!r})
q(db, "SELECT gx_randn(1100, 1100, 'A', '{{\\"seed\\":3}}')")
q(db, "SELECT gx_randn(1100, 1, 'b', '{{\\"seed\\":4}}')")
assert q(db, "PRAGMA hard_heap_limit=8000000") == 8000000
for sql in ["gx_solve('A', 'b', 'X')", "gx_lstsq('A', 'b', 'Y')", "gx_det('A')", "gx_inverse('A', 'I')", "gx_rcond('A')",
            "gx_rank('A')", "gx_pinv('A', 'P')", "gx_corr('A', 'R')", "gx_eig('A', 'v')"]:
    db.execute("SELECT " + sql).fetchall()
db.execute("SELECT rank, rcond FROM gx_lstsq('A', 'b')").fetchall()
"""


def test_intermediates_leave_sqlite_its_memory(tmp_path):
    """SQLite's allocator ends at 2 GiB a block, and may have a limit: no intermediate of order n comes from it."""
    path = str(pathlib.Path(__file__).parent)
    script = HEAP_SCRIPT.format(path=path, file=str(tmp_path / "heap.db"))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
