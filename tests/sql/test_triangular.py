"""gx_trsm, gx_trmm and gx_syrk against NumPy.

Plan:
  1  Residuals of solves, ||op(T) X - alpha B|| / (||T|| ||X|| n eps) < 30 (dtrt02), and errors of products in the
     same measure, over dtypes, shapes (0, 1, tile +- 1, tall, wide, one column), sides, triangles, transposes,
     unit diagonals, budgets (3 blocks, 10 blocks, all). The other triangle holds NaN, and the diagonal
     too where it counts as ones.
  2  Which triangle: from options, from properties; contradictions and silence are refused.
  3  alpha: 0 reads nothing, a complex one promotes; mixed dtypes promote.
  4  Singular in words, with the index; a unit diagonal may be zero. Shapes, options, destinations.
  5  Counters: a triangle is read once for a hundred columns, each tile of X is written once; strips.
  6  deterministic: the same bits for every budget and team.
  7  gx_syrk: values, dtypes, properties, symmetric to the last bit, half the flops.
"""
import itertools

import numpy as np
import pytest

from conftest import error, from_numpy, q, to_numpy
from test_cholesky import counters, store
from test_matmul import EPS, NUMPY, TILE, TILE_BYTES, configure, matrix, random_matrix, small_tiles

KINDS = list(itertools.product(("left", "right"), ("lower", "upper"), "ntc", (False, True)))


def triangle(rng, n, dtype, uplo, unit):
    """A well-conditioned triangle; and the same with NaN where nobody may look."""
    t = random_matrix(rng, n, n, dtype) / np.sqrt(max(n, 1))
    t = np.tril(t) if uplo == "lower" else np.triu(t)
    t[np.diag_indices(n)] = 1 if unit else 2 + rng.random(n)
    t = (t * 0.5 if not unit else np.where(np.eye(n, dtype=bool), 1, 0.1 * t)).astype(NUMPY[dtype])
    other = t.copy()
    other[np.triu_indices(n, 1) if uplo == "lower" else np.tril_indices(n, -1)] = np.nan
    if unit:
        other[np.diag_indices(n)] = 0
    return t, other


def op(t, trans):
    return {"n": t, "t": t.T, "c": t.conj().T}[trans]


def apply(t, x, side):
    return t @ x if side == "left" else x @ t


def options(side, uplo, trans, unit, **more):
    keys = {"replace": "true", "side": f'"{side}"', "uplo": f'"{uplo}"', "unit": str(unit).lower(), **more}
    keys["trans" if trans == "t" else "conj"] = "false" if trans == "n" else "true"
    return "{" + ",".join(f'"{key}":{value}' for key, value in keys.items()) + "}"


def ratio(residual, t, x, dtype):
    n = t.shape[0]
    if residual.size == 0:
        return 0.0
    scale = np.linalg.norm(t, 1) * max(np.linalg.norm(x, 1), np.linalg.norm(x, np.inf)) * n * EPS[dtype]
    return np.linalg.norm(residual, 1) / scale


SHAPES = [(0, 3), (3, 0), (1, 1), (2, 5), (TILE - 1, 1), (TILE + 1, 2 * TILE + 3), (2 * TILE, 3),
          (3 * TILE + 5, TILE + 1), (5 * TILE, 1)]


@pytest.mark.parametrize("blocks", [3, 10, None], ids=["3-blocks", "10-blocks", "all"])
@pytest.mark.parametrize("dtype", list(NUMPY))
def test_against_numpy(filedb, dtype, blocks):
    rng = np.random.default_rng(31)
    filedb.execute("PRAGMA synchronous=off")
    small_tiles(filedb, blocks)
    wide = np.complex128 if dtype.startswith("c") else np.float64
    for index, (n, lines) in enumerate(SHAPES):
        for side, uplo, trans, unit in KINDS if n < 10 else KINDS[index % 5::5]:
            t, other = triangle(rng, n, dtype, uplo, unit)
            b = random_matrix(rng, *((n, lines) if side == "left" else (lines, n)), dtype)
            store(filedb, "T", other)
            store(filedb, "B", b)
            keys = options(side, uplo, trans, unit, alpha="1.5")
            what = (n, lines, side, uplo, trans, unit)
            t = op(t, trans).astype(wide)
            assert q(filedb, "SELECT gx_trsm('T', 'B', 'X', ?)", keys) == "X"
            x = matrix(filedb, "X")
            assert x.dtype == NUMPY[dtype] and x.shape == b.shape
            assert ratio(apply(t, x.astype(wide), side) - 1.5 * b, t, x, dtype) < 30, what
            assert q(filedb, "SELECT gx_trmm('T', 'B', 'X', ?)", keys) == "X"
            assert ratio(matrix(filedb, "X") - 1.5 * apply(t, b.astype(wide), side), t, b, dtype) < 30, what
    assert q(filedb, "SELECT gx_check()") == "ok"


def test_taller_tiles_than_blocks(filedb):
    """X in tiles of 1024 x 4 and in one tile, A in other tiles: parts of blocks."""
    rng = np.random.default_rng(32)
    for tile_bytes, lines, limit in ((32 << 10, 4, "64MiB"), (32 << 10, 4, 64 * (32 << 10)), (8 << 10, 1, "64MiB")):
        n = 2100
        configure(filedb, tile_bytes=32 << 10, memory_limit="256MiB")
        t, other = triangle(rng, n, "f64", "lower", False)
        b = rng.standard_normal((n, lines))
        store(filedb, "T", other)
        configure(filedb, tile_bytes=tile_bytes)
        store(filedb, "B", b)
        store(filedb, "BT", b.T.copy())
        configure(filedb, memory_limit=limit)
        for trans in "nt":
            tt = op(t, trans)
            q(filedb, "SELECT gx_trsm('T', 'B', 'X', ?)", options("left", "lower", trans, False))
            x = matrix(filedb, "X")
            assert ratio(tt @ x - b, tt, x, "f64") < 30
            q(filedb, "SELECT gx_trmm('T', 'B', 'X', ?)", options("left", "lower", trans, False))
            assert ratio(matrix(filedb, "X") - tt @ b, tt, b, "f64") < 30
            q(filedb, "SELECT gx_trsm('T', 'BT', 'X', ?)", options("right", "lower", trans, False))
            x = matrix(filedb, "X")
            assert ratio(x @ tt - b.T, tt, x, "f64") < 30
    assert q(filedb, "SELECT gx_check()") == "ok"


def test_which_triangle(db):
    db.execute("SELECT gx_cholesky('[[4,2],[2,5]]', 'L'), gx_cholesky('[[4,2],[2,5]]', 'R', '{\"upper\":true}')")
    assert q(db, "SELECT gx_json(gx_trsm('L', '[2,5]'))") == "[[1.0],[2.0]]"
    assert q(db, "SELECT gx_json(gx_trsm('R', '[2,4]'))") == "[[0.0],[2.0]]"
    both = "'[[2,8],[8,4]]', '[2,4]'"
    for keys in ('"uplo":"lower"', '"uplo":"L"', '"lower":true', '"upper":false', '"lower":true,"uplo":"Lower"'):
        assert q(db, f"SELECT gx_json(gx_trsm({both}, '{{{keys}}}'))") == "[[1.0],[-1.0]]", keys
    for keys in ('"uplo":"upper"', '"uplo":"u"', '"lower":false', '"upper":true'):
        assert q(db, f"SELECT gx_json(gx_trsm({both}, '{{{keys}}}'))") == "[[-3.0],[1.0]]", keys


def test_alpha(db):
    assert q(db, "SELECT gx_json(gx_trsm('[[\"NaN\"]]', '[\"NaN\"]', '{\"lower\":true,\"alpha\":0}'))") == "[[0.0]]"
    assert q(db, "SELECT gx_json(gx_trmm('[[\"NaN\"]]', '[\"NaN\"]', '{\"lower\":true,\"alpha\":0}'))") == "[[0.0]]"
    x = to_numpy(q(db, "SELECT gx_trsm(2, 3, '{\"lower\":true,\"alpha\":[0,2]}')"))
    assert x.dtype == np.complex128 and x.tolist() == [[3j]]
    a, b = np.float32([[2]]), np.complex64([[4j]])
    x = to_numpy(q(db, "SELECT gx_trsm(?, ?, '{\"lower\":true}')", from_numpy(a), from_numpy(b)))
    assert x.dtype == np.complex64 and x.tolist() == [[2j]]


ERRORS = [
    ("SELECT gx_trsm('[[1,2],[2,1]]', '[1,2]')",
     'gx_trsm: A is not known to be triangular: say "uplo":"lower" or "uplo":"upper"'),
    ("SELECT gx_trmm('[[1,2],[2,1]]', '[1,2]', '{\"uplo\":\"down\"}')",
     "gx_trmm: option \"uplo\" must be one of lower, upper, not \"down\""),
    ("SELECT gx_trsm('[[1,2],[2,1]]', '[1,2]', '{\"lower\":true,\"upper\":true}')",
     "gx_trsm: options say both that A is lower and that it is upper triangular"),
    ("SELECT gx_trsm('[[1,2],[2,1]]', '[1,2]', '{\"lower\":true,\"side\":\"up\"}')",
     "gx_trsm: option \"side\" must be one of left, right, not \"up\""),
    ("SELECT gx_trsm('[[1,2,3],[2,1,3]]', '[1,2]', '{\"lower\":true}')", "gx_trsm: A is 2x3 but must be square"),
    ("SELECT gx_trsm('[[1,2],[2,1]]', '[1,2,3]', '{\"lower\":true}')", "gx_trsm: A is 2x2 but B is 3x1"),
    ("SELECT gx_trmm('[[1,2],[2,1]]', '[1,2]', '{\"lower\":true,\"side\":\"right\"}')",
     "gx_trmm: A is 2x2 but B is 2x1"),
    ("SELECT gx_trsm('[[1,0],[2,0]]', '[1,2]', '{\"lower\":true}')", "gx_trsm: A is singular (A[1,1] = 0)"),
    ("SELECT gx_syrk('[[\"1i\"]]', '{\"conj\":true,\"alpha\":[0,1]}')",
     "gx_syrk: alpha has an imaginary part, but a Hermitian product needs a real factor"),
]


@pytest.mark.parametrize("sql, text", ERRORS)
def test_errors(db, sql, text):
    assert error(db, sql) == text
    assert db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'gx_meta'").fetchone()[0] == 0


def test_singular_far_away(filedb):
    small_tiles(filedb, 10)
    t = np.tril(np.ones((200, 200)))
    t[130, 130] = 0
    store(filedb, "T", t)
    assert error(filedb, "SELECT gx_trsm('T', 'T', 'X', '{\"uplo\":\"lower\"}')") == \
        "gx_trsm: T is singular (T[130,130] = 0)"
    assert q(filedb, "SELECT gx_exists('X')") == 0
    assert q(filedb, "SELECT gx_trsm('T', 'T', 'X', '{\"uplo\":\"lower\",\"unit\":true}')") == "X"
    assert q(filedb, "SELECT gx_trmm('T', 'T', 'T', '{\"uplo\":\"lower\",\"replace\":true}')") == "T"
    assert np.array_equal(matrix(filedb, "T"), t @ t)


def test_counters(filedb):
    """100 right-hand sides read the factor once; strips that fit read it once each."""
    n = 12 * TILE
    filedb.execute("PRAGMA synchronous=off")
    small_tiles(filedb)
    configure(filedb, memory_limit="64MiB")
    rng = np.random.default_rng(33)
    t, _ = triangle(rng, n, "f64", "lower", False)
    store(filedb, "T", t)
    triangle_bytes = 8 * (12 * 13 // 2) * TILE * TILE
    for lines, blocks, passes in ((100, 40, 1), (1, 40, 1), (4 * TILE, 24, 4), (4 * TILE, 40, 2)):
        store(filedb, "B", rng.standard_normal((n, lines)))
        configure(filedb, memory_limit=blocks * TILE_BYTES + (160 << 10))
        filedb.execute("SELECT gx_stats_reset()")
        filedb.execute("SELECT gx_trsm('T', 'B', 'X', '{\"uplo\":\"lower\",\"replace\":true}')")
        seen = counters(filedb)
        x_bytes = 8 * n * lines
        tiles = q(filedb, "SELECT count(*) FROM gx_tile WHERE id >> 32 = (SELECT id FROM gx_meta WHERE name = 'X')")
        assert seen["tiles_written"] == tiles and seen["spills"] == 0
        assert seen["bytes_read"] <= passes * triangle_bytes + x_bytes + 8 * n, (lines, blocks)
        configure(filedb, memory_limit="64MiB")
        x = matrix(filedb, "X")
        assert ratio(t @ x - to_numpy(q(filedb, "SELECT gx_copy('B')")), t, x, "f64") < 30


def test_deterministic(filedb):
    rng = np.random.default_rng(34)
    filedb.execute("PRAGMA synchronous=off")
    small_tiles(filedb)
    store(filedb, "T", triangle(rng, 5 * TILE + 3, "f64", "upper", False)[0])
    store(filedb, "B", rng.standard_normal((5 * TILE + 3, 2 * TILE + 1)))
    store(filedb, "N", rng.standard_normal((5 * TILE + 3, 2)))
    configure(filedb, deterministic="on")
    for function, b in itertools.product(("gx_trsm", "gx_trmm"), "BN"):
        results = set()
        for blocks, threads, readers in itertools.product((3, 10, None), (1, 3), (0, 2)):
            configure(filedb, threads=threads, readers=readers, memory_limit="64MiB")
            if blocks is not None:
                small_tiles(filedb, blocks)
            filedb.execute(f"SELECT {function}('T', ?, 'X', '{{\"replace\":true,\"uplo\":\"upper\"}}')", (b,))
            configure(filedb, memory_limit="64MiB")
            results.add(bytes(q(filedb, "SELECT gx_copy('X')")))
        assert len(results) == 1, (function, b)


# ---- gx_syrk -------------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("dtype", list(NUMPY))
def test_syrk(filedb, dtype, stored):
    rng = np.random.default_rng(35)
    small_tiles(filedb)
    a = random_matrix(rng, TILE + 9, 2 * TILE + 5, dtype)
    store(filedb, "A", a)
    source = "A" if stored else from_numpy(a)
    for trans, conj in itertools.product((False, True), (False, True)):
        other = a.conj() if conj else a
        want = 2 * (other.T @ a if trans else a @ other.T)
        keys = f'{{"trans":{str(trans).lower()},"conj":{str(conj).lower()},"alpha":2}}'
        got = to_numpy(q(filedb, "SELECT gx_syrk(?, ?)", source, keys))
        assert got.dtype == NUMPY[dtype]
        assert np.array_equal(got, got.conj().T if conj else got.T)
        assert np.linalg.norm(got - want) < 30 * a.shape[1] * EPS[dtype] * np.linalg.norm(a)**2
    q(filedb, "SELECT gx_syrk('A', 'C', '{\"conj\":true}')")
    assert q(filedb, "SELECT properties FROM gx WHERE name = 'C'") == \
        ("hermitian" if dtype.startswith("c") else "symmetric,hermitian")
    assert to_numpy(q(filedb, "SELECT gx_syrk(gx_zeros(0, 3))")).shape == (0, 0)
    assert np.array_equal(to_numpy(q(filedb, "SELECT gx_syrk(gx_zeros(2, 0))")), np.zeros((2, 2)))


def test_syrk_is_half_the_flops(filedb):
    small_tiles(filedb)
    filedb.execute("SELECT gx_ones(256, 128, 'A')")
    filedb.execute("SELECT gx_stats_reset()")
    filedb.execute("SELECT gx_syrk('A', 'C')")
    assert counters(filedb)["flops"] < 0.6 * 2 * 256 * 256 * 128
