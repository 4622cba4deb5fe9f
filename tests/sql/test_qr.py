"""gx_qr: A = Q R, stored or as parts.

Plan:
  1  Parts and packed, economy and full: dtypes x shapes (0, 1, 2, 3, 5, 10, 50, tile +- 1, two tiles +- 1, tall, wide) x
     budgets (3 blocks, 10 blocks, all): ||A - Q R||_1 / (m eps ||A||_1) and ||I - Q^H Q||_1 / (m eps) under LAPACK's 30.
  2  Gallery matrices, huge and tiny scales, a matrix of zeros; R agrees with LAPACK's up to signs.
     The residual check passes on all of it.
  3  The tree: a tall matrix of many times the budget, with Q and without; R alone reads A once.
  4  Table-valued form; parts of a packed factorisation; the packed one is refused elsewhere; properties.
  5  Counters: panels read A once and finished panels as the formula says; every tile is written once.
  6  deterministic: the same bits for every budget and thread count.
  7  Destination = source, errors exactly, interrupt; nothing is left behind.
"""
import threading

import numpy as np
import pytest

from conftest import error, from_numpy, gx_connect, q, temp_is_empty, to_numpy

NUMPY = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}
TILE = 64
TILE_BYTES = TILE * TILE * 8
BUDGETS = {"3 blocks": 3 * TILE_BYTES + (700 << 10), "10 blocks": 10 * TILE_BYTES + (700 << 10), "all": 64 << 20}
SHAPES = [(1, 1), (2, 2), (3, 3), (5, 5), (10, 10), (50, 50), (TILE - 1, TILE + 1), (TILE, TILE), (TILE + 1, TILE - 1),
          (2 * TILE - 1, 2 * TILE + 1), (2 * TILE + 1, 2 * TILE - 1), (2000, 20), (20, 300), (7, 1), (1, 7)]
PARTS = "SELECT gx_qr(?, '{\"q\":\"Q\",\"r\":\"R\",\"mode\":\"%s\",\"replace\":true}')"


def random_matrix(rng, rows, cols, dtype):
    x = rng.standard_normal((rows, cols))
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal((rows, cols))
    return np.asfortranarray(x.astype(NUMPY[dtype]))


def configure(db, **settings):
    for key, value in settings.items():
        db.execute("SELECT gx_config(?, ?)", (key, value))


def store(db, name, array):
    configure(db, memory_limit="64MiB")
    assert q(db, "SELECT gx_store(?, ?, '{\"replace\":true}')", name, from_numpy(array)) == name


def fetch(db, name):
    limit = q(db, "SELECT gx_config('memory_limit')")
    configure(db, memory_limit="64MiB")
    array = to_numpy(q(db, "SELECT gx_copy(?)", name))
    configure(db, memory_limit=limit)
    return array


def stat(db, name):
    return q(db, "SELECT value FROM gx_stats WHERE name = ?", name)


def check(a, qq, r, mode="economy"):
    """LAPACK's ratios, and the shapes."""
    m, n = a.shape
    k = m if mode == "full" else min(m, n)
    assert qq.shape == (m, k) and r.shape == (k, n) and qq.dtype == r.dtype == a.dtype
    assert not np.tril(r, -1).any()
    eps = np.finfo(a.dtype).eps / 2
    wide = [x.astype(np.complex128) for x in (a, qq, r)]
    norm = np.linalg.norm(wide[0], 1) if a.size else 0
    if k:
        assert np.linalg.norm(np.eye(k) - wide[1].conj().T @ wide[1], 1) < 30 * m * eps, a.shape
    if norm:
        assert np.linalg.norm(wide[0] - wide[1] @ wide[2], 1) / norm < 30 * m * eps, a.shape


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("budget", BUDGETS)
def test_ratios(filedb, dtype, budget):
    rng = np.random.default_rng(1)
    configure(filedb, tile_bytes=TILE_BYTES)
    for m, n in SHAPES:
        a = random_matrix(rng, m, n, dtype)
        store(filedb, "A", a)
        configure(filedb, memory_limit=BUDGETS[budget])
        for mode in ("economy", "full") if m < 300 else ("economy",):
            assert q(filedb, PARTS % mode, "A") == "Q"
            check(a, fetch(filedb, "Q"), fetch(filedb, "R"), mode)
        assert q(filedb, "SELECT gx_qr('A', 'F', '{\"replace\":true}')") == "F"
        assert q(filedb, PARTS % "economy", "F") == "Q"
        check(a, fetch(filedb, "Q"), fetch(filedb, "R"))


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_empty(db, shape):
    m, n = shape
    a = np.zeros(shape)
    for mode in ("economy", "full"):
        parts = dict(db.execute(f"SELECT part, value FROM gx_qr(?, '{{\"mode\":\"{mode}\"}}')", (from_numpy(a),)))
        check(a, to_numpy(parts["Q"]), to_numpy(parts["R"]), mode)
    assert q(db, "SELECT gx_qr(?, 'F')", from_numpy(a)) == "F"
    assert q(db, "SELECT rows || 'x' || cols || properties FROM gx") == f"{m}x{n}qr"


@pytest.mark.parametrize("kind", ["hilb", "kahan", "frank", "minij", "pascal", "lotkin", "cauchy", "gfpp", "grcar"])
def test_gallery(db, kind):
    for n in (1, 5, 12, 70):
        a = to_numpy(q(db, "SELECT gx_matrix_gallery(?, ?)", kind, n))
        parts = dict(db.execute("SELECT part, value FROM gx_qr(?)", (from_numpy(a),)))
        qq, r = to_numpy(parts["Q"]), to_numpy(parts["R"])
        check(a, qq, r)
        want = np.linalg.qr(a, mode="r")
        scale = n * np.finfo(float).eps * np.linalg.cond(a[:, :-1] if n > 1 else a)
        assert np.allclose(np.abs(np.diag(r)), np.abs(np.diag(want)), rtol=min(1, 30 * scale), atol=1e-12 * np.abs(a).max())


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300, 0])
def test_scales(db, scale):
    rng = np.random.default_rng(2)
    configure(db, probe="on")
    a = rng.uniform(-1, 1, (90, 40)) * scale
    parts = dict(db.execute("SELECT part, value FROM gx_qr(?)", (from_numpy(a),)))
    check(a, to_numpy(parts["Q"]), to_numpy(parts["R"]))


@pytest.mark.parametrize("dtype", NUMPY)
def test_probe(db, dtype):
    """The residual check passes whatever the factorisation is made of."""
    rng = np.random.default_rng(8)
    configure(db, probe="on")
    for a in (random_matrix(rng, 90, 70, dtype), random_matrix(rng, 70, 90, dtype),
              random_matrix(rng, 60, 3, dtype) @ random_matrix(rng, 3, 40, dtype),
              random_matrix(rng, 300, 40, dtype) * NUMPY[dtype](1e-18), np.zeros((20, 20), NUMPY[dtype]),
              np.triu(np.ones((50, 50), NUMPY[dtype])), random_matrix(rng, 40, 40, dtype) * NUMPY[dtype](1e18)):
        assert q(db, "SELECT gx_qr(?, 'F', '{\"replace\":true}')", from_numpy(a)) == "F"
    assert error(db, "SELECT gx_sum('F')").startswith("gx_sum: F is a stored QR")


@pytest.mark.parametrize("dtype", ["f64", "c64"])
def test_tree(filedb, dtype):
    """One column of A is a fifth of the budget: row blocks."""
    rng = np.random.default_rng(3)
    configure(filedb, tile_bytes=TILE_BYTES)
    a = random_matrix(rng, 20000, 16, dtype)
    a[:, 7] = a[:, 3]  # Q must be orthonormal all the same
    store(filedb, "A", a)
    configure(filedb, memory_limit=1 << 20)
    q(filedb, PARTS % "economy", "A")
    check(a, fetch(filedb, "Q"), fetch(filedb, "R"))
    r = fetch(filedb, "R")
    filedb.execute("SELECT gx_stats_reset()")
    assert q(filedb, "SELECT gx_qr('A', '{\"r\":\"R1\"}')") == "R1"
    assert stat(filedb, "bytes_read") == a.nbytes and stat(filedb, "tiles_written") == 1
    assert np.allclose(np.abs(fetch(filedb, "R1"))[:7], np.abs(r)[:7], rtol=1e-4, atol=1e-3)
    assert temp_is_empty(filedb) and q(filedb, "SELECT gx_check()") == "ok"


def test_packed(db):
    rng = np.random.default_rng(4)
    a = rng.standard_normal((30, 20))
    store(db, "A", a)
    db.execute("SELECT gx_qr('A', 'F'), gx_qr('F', '{\"q\":\"Q\"}'), gx_qr('F', '{\"r\":\"R\"}')")
    check(a, fetch(db, "Q"), fetch(db, "R"))
    parts = dict(db.execute("SELECT part, value FROM gx_qr('F', '{\"mode\":\"full\"}')"))
    check(a, to_numpy(parts["Q"]), to_numpy(parts["R"]), "full")
    assert dict(db.execute("SELECT name, properties FROM gx")) == {"A": "", "F": "qr", "Q": "orthogonal", "R": "upper"}
    assert np.array_equal(to_numpy(q(db, "SELECT gx_part('F', 'Q')")), fetch(db, "Q"))
    assert q(db, "SELECT gx_part('F', 'R', 'R2')") == "R2" and np.array_equal(fetch(db, "R2"), fetch(db, "R"))
    assert q(db, "SELECT properties FROM gx WHERE name = 'R2'") == "upper"
    assert error(db, "SELECT gx_part('F', 'L')") == "gx_part: part is 'L' but must be one of Q, R"
    assert db.execute("SELECT part, value IS NULL FROM gx_qr('A')").fetchall() == [("Q", 0), ("R", 0)]
    x = to_numpy(q(db, "SELECT gx_lstsq('F', 'A')"))
    assert np.allclose(x, np.eye(20), atol=1e-12)
    row = db.execute("SELECT rank, residual, rcond FROM gx_lstsq('F', ?)", (from_numpy(a[:, :1] * 0 + 1),)).fetchone()
    want = np.linalg.lstsq(a, np.ones(30), rcond=None)
    sigma = want[3]
    assert row[0] == 20 and np.allclose(row[1:], [np.sqrt(want[1][0]), sigma[-1] / sigma[0]], rtol=1e-10)
    assert q(db, "SELECT gx_copy('F', 'G')") == "G" and q(db, "SELECT gx_rename('G', 'H')") == "H"
    assert np.allclose(to_numpy(q(db, "SELECT gx_lstsq('H', 'A')")), np.eye(20), atol=1e-12)
    for sql in ("gx_sum('F')", "gx_matmul('F', 'A')", "gx_qr('F', 'G')", "gx_rank('F')", "gx_pinv('F')"):
        text = error(db, "SELECT " + sql)
        assert text == f"{sql[:sql.index('(')]}: F is a stored QR factorisation: gx_part('F', 'R') gives its factor"


def test_counters(filedb):
    """Groups of panels: what is read again is each finished panel once for every later group."""
    n = 1024
    configure(filedb, tile_bytes=256 << 10, probe="off")
    filedb.execute("SELECT gx_randn(?, ?, 'A', '{\"seed\":1}')", (n, n))
    for limit in (64 << 20, 8 << 20, 4 << 20):
        configure(filedb, memory_limit=limit)
        filedb.execute("SELECT gx_stats_reset()")
        q(filedb, "SELECT gx_qr('A', 'F', '{\"replace\":true}')")
        width, height = filedb.execute("SELECT tile_cols, tile_rows FROM gx WHERE name = 'F'").fetchone()
        tiles = -(-n // height) * -(-n // width)
        panel, panels = n * width * 8, -(-n // width)
        slots = (limit - (3 << 19)) // panel  # less 1.5 MiB for kernels, the program and packing
        group = panels if slots > panels + 1 else max(1, slots - 3)  # V, T and the next panel take three
        again = sum(min(start, panels) for start in range(0, panels, group)) * panel
        assert n * n * 8 <= stat(filedb, "bytes_read") <= 1.25 * (n * n * 8 + again), (limit, width)
        assert stat(filedb, "bytes_written") == n * n * 8 and stat(filedb, "tiles_written") == tiles
        assert stat(filedb, "spills") == 0


@pytest.mark.parametrize("shape", [(200, 150), (150, 200), (600, 40)])
def test_deterministic(filedb, shape):
    rng = np.random.default_rng(5)
    configure(filedb, tile_bytes=TILE_BYTES, deterministic=1)
    store(filedb, "A", random_matrix(rng, *shape, "f64"))
    seen = set()
    for limit in ("1200KB", "4MB", "64MB"):
        for threads in (1, 3):
            configure(filedb, memory_limit=limit, threads=threads)
            q(filedb, "SELECT gx_qr('A', 'F', '{\"replace\":true}')")
            q(filedb, PARTS % "economy", "F")
            seen.add((fetch(filedb, "Q").tobytes(), fetch(filedb, "R").tobytes()))
    assert len(seen) == 1


def test_destination_is_source(filedb):
    rng = np.random.default_rng(6)
    a = random_matrix(rng, 100, 70, "f64")
    configure(filedb, tile_bytes=TILE_BYTES)
    store(filedb, "A", a)
    q(filedb, "SELECT gx_qr('A', '{\"q\":\"A\",\"r\":\"R\",\"replace\":true}')")
    check(a, fetch(filedb, "A"), fetch(filedb, "R"))
    store(filedb, "A", a)
    q(filedb, "SELECT gx_qr('A', 'A', '{\"replace\":true}')")
    q(filedb, PARTS % "economy", "A")
    check(a, fetch(filedb, "Q"), fetch(filedb, "R"))
    assert q(filedb, "SELECT gx_check()") == "ok"


def test_errors(db):
    db.execute("SELECT gx_store('A', '[[1,0],[1,1],[1,2]]')")
    parts = "a destination takes the packed factorisation: \"q\" and \"r\" go without one"
    for sql, text in [
            ("gx_qr('A')", "give a destination for the factorisation, or \"q\" and \"r\" for its parts; the table "
                           "gx_qr(A) has them as values"),
            ("gx_qr('A', 'F', '{\"q\":\"Q\"}')", parts),
            ("gx_qr('A', 'F', '{\"mode\":\"full\"}')", "\"mode\" is of the parts: a packed factorisation has both"),
            ("gx_qr('A', '{\"q\":\"Q\",\"mode\":\"thin\"}')", "option \"mode\" must be one of economy, full, not \"thin\""),
            ("gx_qr('A', '{\"q\":\"Q\",\"r\":\"Q\"}')", "\"q\" and \"r\" are both 'Q'"),
            ("gx_qr('A', '{\"q\":\"Q\",\"r\":\"A\"}')", "matrix 'A' already exists (use '{\"replace\":true}')"),
            ("gx_qr('A', 'A')", "matrix 'A' already exists (use '{\"replace\":true}')"),
            ("gx_qr('none', 'F')", "no matrix named 'none'"),
            ("gx_qr('A', 'F', 3)", "options must be a JSON object '{...}', not 3"),
            ("gx_qr('A', '{\"x\":1}')",
             "unknown option \"x\": the known ones are \"q\", \"r\", \"p\", \"mode\", \"pivot\", \"dtype\", \"saturate\" and \"replace\"")]:
        assert error(db, "SELECT " + sql) == "gx_qr: " + text, sql
    assert error(db, "SELECT * FROM gx_qr('A', '{\"mode\":\"thin\"}')") == (
        "gx_qr: option \"mode\" must be one of economy, full, not \"thin\"")
    assert error(db, "SELECT * FROM gx_lstsq('A', '[1]')") == "gx_lstsq: A is 3x2 but B is 1x1"
    db.execute("SELECT gx_qr('[[1,2,3]]', 'W')")
    assert error(db, "SELECT gx_lstsq('W', '[1]')") == (
        "gx_lstsq: W is the QR of a 1x3 matrix, which has no minimum-norm solution in it: give the matrix itself")
    assert error(db, "SELECT gx_lstsq('W', '[1,2]')") == "gx_lstsq: W is 1x3 but B is 2x1"
    db.execute("SELECT gx_qr('A', 'F')")
    assert error(db, "SELECT gx_lstsq('F', '[\"1i\",2,3]')") == (
        "gx_lstsq: F is a factorisation in f64 but B is c128")
    assert q(db, "SELECT group_concat(name) FROM (SELECT name FROM gx ORDER BY name)") == "A,F,W"


def test_interrupt(tmp_path):
    db = gx_connect(str(tmp_path / "i.db"))
    configure(db, threads=1)
    db.execute("SELECT gx_randn(2400, 2400, 'A')")
    timer = threading.Timer(0.1, db.interrupt)
    timer.start()
    text = error(db, "SELECT gx_qr('A', '{\"q\":\"Q\",\"r\":\"R\"}'), gx_qr('A', 'F')")
    timer.join()
    assert text in ("interrupted", "gx_qr: interrupted")
    assert q(db, "SELECT group_concat(name) FROM gx") == "A" and q(db, "SELECT gx_check()") == "ok"
    db.close()
