"""gx_plan of factorisations and systems.

Plan:
  1  The driver and the reason follow the properties; flops by LAPACK's counting; nothing is run or written.
  2  Reads and writes are those that happen, within memory and beyond it.
  3  Errors in words.
  4  Statistics of columns, least squares, top-k: passes and bytes as they are made, narrow, wide and in little memory.
"""
import numpy as np
import pytest
from conftest import error, from_numpy, q


def plan(db, expression):
    names = "driver, detail, block, calls, bytes_read, bytes_written, flops, seconds"
    row = db.execute(f"SELECT {names} FROM gx_plan(?)", (expression,)).fetchone()
    return dict(zip(names.split(", "), row))


def put(db, name, rows, cols):
    db.execute("SELECT gx_randn(?, ?, ?)", (rows, cols, name))


def test_reasons(filedb):
    put(filedb, "A", 300, 300)
    put(filedb, "B", 300, 4)
    for properties, driver, why in [(None, "lu", "A has no property that helps: "),
                                    ("positive", "cholesky", "A is positive definite: "),
                                    ("lower", "substitution", "A is lower triangular: "),
                                    ("diagonal", "diagonal", "A is diagonal: ")]:
        if properties:
            filedb.execute("SELECT gx_set_property('A', 'symmetric,lower,upper', 0)")
            filedb.execute("SELECT gx_set_property('A', ?)", (properties,))
        p = plan(filedb, "solve(A, B)")
        assert p["driver"] == driver and p["detail"].startswith(why) and p["detail"].endswith("lines of B: 4")
        assert p["bytes_written"] == 300 * 4 * 8 and p["seconds"] > 0
    before = filedb.execute("SELECT * FROM gx").fetchall()
    assert plan(filedb, "lstsq(A, B)")["driver"] in ("tsqr", "qr")
    assert plan(filedb, "inverse(A)")["driver"] == "diagonal"
    assert filedb.execute("SELECT * FROM gx").fetchall() == before


def test_flops(filedb):
    n = 400
    put(filedb, "A", n, n)
    assert plan(filedb, "cholesky(A)")["flops"] == pytest.approx(n**3 / 3, rel=0.02)
    assert plan(filedb, "lu(A)")["flops"] == pytest.approx(2 * n**3 / 3, rel=0.02)
    assert plan(filedb, "det(A)")["flops"] == plan(filedb, "lu(A)")["flops"]
    assert plan(filedb, "det(A)")["bytes_written"] == 0
    assert plan(filedb, "qr(A)")["flops"] == pytest.approx(4 * n**3 / 3, rel=0.3)


@pytest.mark.parametrize("limit", ["64MiB", "900KB"])
@pytest.mark.parametrize("name", ["cholesky", "lu"])
def test_reads_and_writes(filedb, name, limit):
    """What was foretold is what gx_stats counts."""
    rng = np.random.default_rng(1)
    n = 320
    filedb.execute("SELECT gx_config('tile_bytes', 8192)")
    x = rng.standard_normal((n, n))
    filedb.execute("SELECT gx_store('A', ?)", (from_numpy(x @ x.T + n * np.eye(n)),))
    filedb.execute("SELECT gx_config('memory_limit', ?)", (limit,))
    p = plan(filedb, f"{name}(A)")
    filedb.execute("SELECT gx_stats_reset()")
    filedb.execute(f"SELECT gx_{name}('A', 'F')")
    read = q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_read'")
    written = q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_written'")
    assert written == p["bytes_written"]
    assert read == pytest.approx(p["bytes_read"], rel=0.25)


@pytest.mark.parametrize("expression,text", [
    ("cholesky(T)", "T is 6x4, not square"),
    ("solve(T, T)", "T is 6x4, not square: gx_lstsq solves by least squares"),
    ("inverse(T)", "T is 6x4, not square: gx_pinv inverts any shape"),
    ("lstsq(T, S)", "T is 6x4 but S is 4x4"),
    ("solve(S, T)", "S is 4x4 but T is 6x4"),
    ("solve(S)", "line 1, column 1: solve is of two matrices"),
    ("lu(S", "line 1, column 5: the program ends in the middle of a statement"),
    ("S @ T @ T", "line 1, column 3: expression is one operation on stored matrices, whose names stand here"),
    ("S.T.T", "line 1, column 2: expression is one operation on stored matrices, whose names stand here"),
    ("X = S", "expression is one operation on stored matrices"),
    ("lu(S.T)", "expression has a transpose in an operation that plans none"),
    ("lu(N)", "no matrix named 'N'"),
    ("S", "expression names a matrix but no operation (@ + - * / .T .H norm sum cholesky lu qr solve lstsq inverse "
     "det svd eig cov corr pca topk knn)"),
    ("topk(S)", "line 1, column 1: topk is of one matrix and a count"),
    ("pca(S, 1, 2)", "line 1, column 1: pca is of one matrix and a count, which may be left out"),
    ("topk(S, 0)", "line 1, column 9: expression has no count here"),
    ("cov(S, 3)", "line 1, column 1: cov is of one matrix"),
    ("pca(S, 5)", "k is 5 but S is 4x4: it has 4 components"),
])
def test_errors(db, expression, text):
    put(db, "T", 6, 4)
    put(db, "S", 4, 4)
    assert error(db, "SELECT * FROM gx_plan(?)", expression).split("\n")[0] == "gx_plan: " + text


def test_svd(filedb):
    """The driver follows the memory and the share that is wanted; what is in memory is read once."""
    filedb.execute("PRAGMA synchronous=off")
    filedb.execute("SELECT gx_config('tile_bytes', 32768)")
    put(filedb, "A", 400, 320)
    p = plan(filedb, "svd(A)")
    assert (p["driver"], p["bytes_read"], p["detail"]) == ("gesdd", 400 * 320 * 8, "all of A in memory, one pass")
    assert plan(filedb, "svd(A, 3)")["driver"] == "gesdd"
    put(filedb, "L", 1100, 1000)
    p = plan(filedb, "svd( L , 10 )")
    assert (p["driver"], p["bytes_read"]) == ("golub-kahan", 1100 * 1000 * 8) and p["seconds"] > 0
    assert p["detail"] == "a basis of 96, 122 passes for a random matrix's spectrum, 0 bytes each, 100 % of A in memory"
    filedb.execute("SELECT gx_config('memory_limit', '900KB')")
    p = plan(filedb, "svd(A, 3)")
    assert p["driver"] == "golub-kahan"
    passes = p["calls"]
    assert p["detail"] == f"a basis of 48, {passes} passes for a random matrix's spectrum, 1024000 bytes each, 0 % of A in memory"
    assert p["bytes_read"] == passes * 400 * 320 * 8
    # What falls fast takes fewer; each step has two passes, and all of A is read in each.
    rng = np.random.default_rng(2)
    u, v = (np.linalg.qr(rng.standard_normal((n, 20)))[0] for n in (400, 320))
    filedb.execute("SELECT gx_store('A', ?, '{\"replace\":true}')", (from_numpy((u * 0.5 ** np.arange(20)) @ v.T),))
    before = q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_read'")
    filedb.execute("SELECT sigma, u FROM gx_svd('A', '{\"k\":3}')").fetchall()
    read = q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_read'") - before
    assert 0 < read <= p["bytes_read"] and read % (2 * 400 * 320 * 8) == 0
    assert error(filedb, "SELECT * FROM gx_plan('svd(A)')").startswith(
        "gx_plan: singular values and vectors of A (400x320 f64) need ")
    assert error(filedb, "SELECT * FROM gx_plan('svd(A, 321)')") == \
        "gx_plan: k is 321 but A is 400x320: it has 320 singular values"
    assert error(filedb, "SELECT * FROM gx_plan('svd(A, x)')") == \
        "gx_plan: line 1, column 8: expression has no count here\n  svd(A, x)\n         ^"


@pytest.mark.parametrize("rows,cols,expression,call,driver,passes", [
    (40000, 24, "cov(A)", "gx_cov('A')", "gram", 1), (40000, 24, "corr(A)", "gx_corr('A')", "gram", 1),
    (40000, 24, "pca(A)", "gx_pca('A')", "tsqr", 1), (40000, 24, "pca(A, 3)", "gx_pca('A', 3)", "gram", 1),
    (900, 400, "cov(A)", "gx_cov('A')", "syrk", 2), (900, 400, "corr(A)", "gx_corr('A')", "syrk", 2),
    (30, 400, "cov(A)", "gx_cov('A')", "syrk", 2), (30, 400, "pca(A, 2)", "gx_pca('A', 2)", "svd", 2),
    (40000, 24, "lstsq(A, b)", "gx_lstsq('A', 'b')", "tsqr", 1)])
def test_statistics(filedb, rows, cols, expression, call, driver, passes):
    filedb.execute("PRAGMA synchronous=off")
    filedb.execute("SELECT gx_config('tile_bytes', 65536)")
    filedb.execute("SELECT gx_randn(?, ?, 'A', '{\"dtype\":\"f32\"}')", (rows, cols))
    filedb.execute("SELECT gx_randn(?, 1, 'b')", (rows,))
    filedb.execute("SELECT gx_config('memory_limit', '20MB')")  # nothing is kept
    p = plan(filedb, expression)
    assert p["driver"] == driver and p["seconds"] > 0 and p["flops"] > 0 and p["bytes_written"] > 0
    if "lstsq" not in expression:
        assert p["detail"] == f"{rows} x {cols} f32, {passes} pass{'' if passes == 1 else 'es'} over A"
    filedb.execute("SELECT gx_stats_reset()")
    filedb.execute(f"SELECT {call}").fetchall()
    read = q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_read'")
    assert read == pytest.approx(p["bytes_read"], rel=0.02)
    assert passes * 4 * rows * cols <= read


def test_topk(filedb):
    put(filedb, "A", 700, 900)
    p = plan(filedb, "topk(A, 5)")
    assert (p["driver"], p["bytes_read"], p["detail"]) == ("topk", 700 * 900 * 8, "700 x 900 f64, one pass over A")
    filedb.execute("SELECT gx_stats_reset()")
    filedb.execute("SELECT count(*) FROM gx_topk('A', 5)").fetchall()
    assert q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_read'") == p["bytes_read"]
