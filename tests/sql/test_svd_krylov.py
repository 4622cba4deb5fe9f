"""gx_svd's iterative drivers: block Golub-Kahan-Lanczos ("krylov") and the random range finder ("randomized").

Plan:
  1  Krylov: dtypes x shapes (1 x n, n x 1, square, tall, wide, tile +- 1) x k (1, some, all) against NumPy; ratios of
     ||A V - U S||, ||A^H U - V S||, both orthogonalities below 50, as LAPACK's tests have it; the residual column.
  2  Known singular values: H D G with H, G products of Householder reflectors; decay, clusters, multiplicities larger
     than the block; gallery (minij, clement, hilb, kahan); symmetric: half of the matrix is read; huge and tiny numbers.
  3  Rank below k, rank 0, ones, the identity, orthogonal matrices.
  4  Budgets: 3 blocks, 10 blocks, all; deterministic: the same bits for every budget, threads, and for a seed.
  5  Randomized: captured energy against the bound, exact for low rank, power steps help, 2 power + 2 passes (bytes
     read), seeds, oversample up to min(m, n).
  6  Routing: few of a large matrix, what does not fit; which = smallest; 2-norm of what does not fit.
  7  Destinations; partial; interrupt; NaN and Inf with their place; refusals with their exact texts; memory given back.
"""
import json
import re
import sqlite3

import numpy as np
import pytest

from conftest import error, from_numpy, gx_connect, q, to_numpy

NUMPY = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}
EPS = {"f64": 2.0**-53, "f32": 2.0**-24, "c128": 2.0**-53, "c64": 2.0**-24}
TILE = 16


def configure(db, **settings):
    for key, value in settings.items():
        db.execute("SELECT gx_config(?, ?)", (key, value))


def store(db, name, x):
    db.execute("SELECT gx_store(?, ?, '{\"replace\":true}')", (name, from_numpy(x)))


def wide(x):
    return x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)


def svd(db, name="A", **options):
    options = {"method": "krylov", **options}
    rows = db.execute("SELECT k, sigma, u, v, residual FROM gx_svd(?, ?)", (name, json.dumps(options))).fetchall()
    assert [r[0] for r in rows] == list(range(len(rows)))
    s, residual = (np.array([r[c] for r in rows]) for c in (1, 4))
    u, v = (np.hstack([to_numpy(r[c]) for r in rows]) for c in (2, 3))
    return s, u, v, residual


def matrix(rng, m, n, dtype):
    x = rng.standard_normal((m, n))
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal((m, n))
    return x.astype(NUMPY[dtype])


def reflect(x, v):
    """(I - 2 v v^T / v^T v) x."""
    return x - np.outer(v, (2 / (v @ v)) * (v @ x))


def known(rng, m, n, sigma):
    """A matrix with these singular values: a product of two reflectors from each side."""
    a = np.zeros((m, n))
    np.fill_diagonal(a, sigma)
    for _ in range(2):
        a = reflect(a, rng.standard_normal(m))
        a = reflect(a.T, rng.standard_normal(n)).T
    return a


def check(a, got, dtype, limit=50):
    """LAPACK's ratios; k triplets of a."""
    s, u, v, residual = got
    a, u, v = wide(a), wide(u), wide(v)
    unit = max(*a.shape, 10) * EPS[dtype]
    norm = np.linalg.norm(a, 2) or 1.0
    left = np.linalg.norm(a @ v - u * s, axis=0).max()
    right = np.linalg.norm(a.conj().T @ u - v * s, axis=0).max()
    converged = 1e-12 if EPS[dtype] < 1e-10 else 2e-6
    assert left <= max(limit * unit, converged) * norm
    assert right <= max(limit * unit, converged) * norm
    assert np.abs(residual - np.maximum(left, right)).max() <= max(limit * unit, converged) * norm
    for x in (u, v):
        assert np.linalg.norm(x.conj().T @ x - np.eye(len(s))) <= limit * unit
    assert (s >= 0).all() and (np.diff(s) <= 0).all()
    exact = np.linalg.svd(a, compute_uv=False)[: len(s)]
    assert np.abs(s - exact).max() <= max(limit * unit, converged) * norm
    for x in u.T:  # the sign of the largest component
        size = np.abs(x)
        first = x[np.flatnonzero(size >= size.max() * (1 - 2.0**-10))[0]]
        assert first.real > 0 and abs(first.imag) <= 8 * EPS[dtype]


# 1 ------------------------------------------------------------------------------------------------

SHAPES = [(1, 1, 1), (1, 9, 1), (9, 1, 1), (2, 2, 2), (3, 2, 1), (5, 5, 5), (10, 50, 4), (50, 10, 10), (50, 50, 50),
          (TILE - 1, TILE + 1, 5), (TILE, TILE, 3), (2 * TILE + 1, 2 * TILE - 1, 6), (130, 40, 7), (40, 130, 7),
          (300, 5, 2), (5, 300, 5), (140, 140, 12)]


@pytest.mark.parametrize("dtype", list(NUMPY))
def test_against_numpy(filedb, dtype):
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=TILE * TILE * 8)
    rng = np.random.default_rng(71)
    for m, n, k in SHAPES:
        a = matrix(rng, m, n, dtype)
        store(filedb, "A", a)
        got = svd(filedb, k=k)
        assert got[1].shape == (m, k) and got[2].shape == (n, k) and got[1].dtype == got[2].dtype == a.dtype
        check(a, got, dtype)
        alone = to_numpy(q(filedb, "SELECT gx_svd('A', ?)", json.dumps({"k": k, "method": "krylov"})))
        assert alone.shape == (k, 1) and alone.dtype == a.real.dtype
        assert np.abs(alone.ravel() - got[0]).max() <= 4 * EPS[dtype] * got[0][0]


# 2 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m,n", [(150, 150), (260, 90), (90, 260)])
def test_known_singular_values(db, m, n):
    rng = np.random.default_rng(72)
    least = min(m, n)
    for sigma in (2.0 ** -np.arange(least), 1 / np.arange(1.0, least + 1), np.linspace(10, 9, least),
                  np.concatenate([[5.0] * 3, [4.0] * 2, np.linspace(1, 0, least - 5)]),
                  np.concatenate([[1e6], np.linspace(1, 0.5, least - 1)])):
        a = known(rng, m, n, sigma)
        store(db, "A", a)
        got = svd(db, k=6)
        assert np.abs(got[0] - sigma[:6]).max() <= 50 * max(m, n) * EPS["f64"] * sigma[0]
        check(a, got, "f64")


@pytest.mark.parametrize("block", [1, 2, 3])
def test_multiplicities_larger_than_the_block(db, block):
    rng = np.random.default_rng(73)
    sigma = np.concatenate([[7.0] * 6, [5.0] * 3, rng.uniform(0, 1, 101)])
    a = known(rng, 120, 110, np.sort(sigma)[::-1])
    store(db, "A", a)
    got = svd(db, k=9, block=block)
    assert np.abs(got[0] - sigma[:9]).max() < 1e-12
    check(a, got, "f64")


@pytest.mark.parametrize("kind,n", [("minij", 200), ("clement", 120), ("hilb", 60), ("kahan", 90), ("grcar", 130),
                                    ("poisson", 144)])
def test_gallery(db, kind, n):
    db.execute("SELECT gx_matrix_gallery(?, ?, 'A')", (kind, n))
    a = to_numpy(q(db, "SELECT gx_copy('A')"))
    got = svd(db, k=8, block=3)
    check(a, got, "f64")
    if kind == "minij":
        exact = 1 / (4 * np.sin((2 * np.arange(1, 9) - 1) * np.pi / (4 * n + 2)) ** 2)
        assert np.abs(got[0] - exact).max() <= 50 * n * EPS["f64"] * exact[0]


@pytest.mark.parametrize("dtype", ["f64", "c128", "f32"])
def test_marked_symmetric(filedb, dtype):
    """The upper triangle is not looked at."""
    rng = np.random.default_rng(74)
    a = matrix(rng, 90, 90, dtype)
    a = a + a.conj().T
    configure(filedb, tile_bytes=TILE * TILE * 8)
    store(filedb, "A", a)
    filedb.execute("SELECT gx_set_property('A', ?)", ("hermitian" if dtype == "c128" else "symmetric",))
    check(a, svd(filedb, k=5), dtype)


@pytest.mark.parametrize("scale", [1e-150, 1e-290, 1e150, 1e290])
def test_scales(db, scale):
    a = known(np.random.default_rng(75), 60, 50, 1 / np.arange(1.0, 51))
    store(db, "A", a * scale)
    s, u, v, residual = svd(db, k=4)
    check(a, (s / scale, u, v, residual / scale), "f64")


# 3 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["krylov", "randomized"])
def test_rank_deficient(db, method):
    rng = np.random.default_rng(76)
    rank_3 = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 45))
    for a in (np.zeros((40, 30)), np.zeros((3, 70)), np.ones((50, 60)), rank_3, rank_3.T, np.eye(70), -np.eye(30, 50),
              np.linalg.qr(rng.standard_normal((60, 60)))[0], np.diag(np.r_[np.zeros(40), 3.0])):
        store(db, "A", a)
        check(a, svd(db, k=6 if min(a.shape) > 6 else 3, method=method), "f64")


# 4 ------------------------------------------------------------------------------------------------

SMALL = {"k": 4, "ncv": 24, "block": 4}


@pytest.mark.parametrize("method", ["krylov", "randomized"])
@pytest.mark.parametrize("m,n", [(420, 300), (300, 420)])
def test_budgets_and_the_same_bits(filedb, m, n, method):
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=64 * 64 * 8, deterministic="on")
    a = known(np.random.default_rng(77), m, n, 1 / np.arange(1.0, 301))
    store(filedb, "A", a)
    used = "SELECT value FROM gx_stats WHERE name = 'memory_used'"
    base = None
    seen = set()
    for limit, threads in [("64MiB", 2), ("1200KiB", 2), ("800KiB", 1), ("64MiB", 1)]:
        configure(filedb, memory_limit=limit, threads=threads)
        options = json.dumps({**SMALL, "method": method})
        rows = filedb.execute("SELECT sigma, u, v, residual FROM gx_svd('A', ?)", (options,)).fetchall()
        seen.add(tuple(rows))
        base = base or q(filedb, used)
        assert q(filedb, used) == base
    assert len(seen) == 1
    if method == "krylov":
        check(a, svd(filedb, **SMALL), "f64")
    other = filedb.execute("SELECT sigma, u, v, residual FROM gx_svd('A', ?)",
                           (json.dumps({**SMALL, "method": method, "seed": 5}),)).fetchall()
    assert tuple(other) not in seen
    assert max(abs(x[0] - y[0]) for x, y in zip(rows, other)) < (1e-12 if method == "krylov" else 1e-2)


# 5 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", list(NUMPY))
def test_randomized_captures_the_energy(db, dtype):
    rng = np.random.default_rng(78)
    for m, n in ((200, 120), (120, 200)):
        sigma = 0.8 ** np.arange(120)
        a = known(rng, m, n, sigma).astype(NUMPY[dtype])
        store(db, "A", a)
        k, unit = 10, max(m, n) * EPS[dtype]
        s, u, v, _ = svd(db, k=k, method="randomized", power=1)
        for x in (u, v):
            assert np.linalg.norm(wide(x).conj().T @ x - np.eye(k)) <= 50 * unit
        # The best rank k leaves the tail; the finder is allowed a hundredth more of its norm.
        tail = np.sqrt((sigma[k:] ** 2).sum())
        assert np.linalg.norm(wide(a) - (wide(u) * s) @ wide(v).conj().T) <= 1.01 * tail + 50 * unit
        assert (s <= sigma[:k] + 50 * unit).all() and (s >= 0.99 * sigma[:k]).all()
        energy = (s**2).sum() / (sigma**2).sum()
        assert energy >= 0.999 * (sigma[:k] ** 2).sum() / (sigma**2).sum()


def test_randomized_power_steps_and_passes(filedb):
    """Each step has two passes over the matrix, and makes the values better."""
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=64 * 64 * 8)
    sigma = 1 / np.sqrt(np.arange(1.0, 401))
    a = known(np.random.default_rng(79), 500, 400, sigma)
    store(filedb, "A", a)
    configure(filedb, memory_limit="1MiB")
    errors, passes = [], []
    for power in (0, 1, 2, 4):
        before = q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_read'")
        options = json.dumps({"k": 5, "method": "randomized", "power": power, "oversample": 3})
        s = [row[0] for row in filedb.execute("SELECT sigma FROM gx_svd('A', ?)", (options,))]
        passes.append((q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_read'") - before) / (500 * 400 * 8))
        errors.append(np.abs(s - sigma[:5]).max())
    assert errors == sorted(errors, reverse=True) and errors[-1] < 0.01
    for power, count in zip((0, 1, 2, 4), passes):
        assert 0.5 * (2 * power + 2) < count <= 1.25 * (2 * power + 2)
    configure(filedb, memory_limit="64MiB")
    store(filedb, "B", known(np.random.default_rng(80), 80, 50, np.r_[np.arange(5.0, 0, -1), np.zeros(45)]))
    for oversample in (0, 1, 45, 1000):
        s, u, v, residual = svd(filedb, "B", k=5, method="randomized", oversample=oversample)
        assert np.abs(s - np.arange(5, 0, -1)).max() < 1e-12 and residual.max() < 1e-12


# 6 ------------------------------------------------------------------------------------------------


def test_routing(filedb):
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=64 * 64 * 8, memory_limit="1MiB")
    sigma = np.r_[9.0, 8.0, 7.0, 1 / np.arange(1.0, 298)]
    a = known(np.random.default_rng(81), 350, 300, sigma)
    store(filedb, "A", a)
    rows = filedb.execute("SELECT sigma, u FROM gx_svd('A', '{\"k\":3,\"ncv\":20}')").fetchall()
    s = np.array([row[0] for row in rows])
    assert np.abs(s - sigma[:3]).max() < 1e-12
    assert q(filedb, "SELECT gx_norm('A', 2)") == pytest.approx(9, rel=1e-12)
    text = error(filedb, "SELECT gx_svd('A', 's', 'u')")
    assert text.startswith("gx_svd: singular values and vectors of A (350x300 f64) need ") and "ask for k of them" in text
    text = error(filedb, "SELECT u FROM gx_svd('A', '{\"k\":2,\"which\":\"smallest\"}')")
    assert text.startswith("gx_svd: singular values and vectors of A (350x300 f64) need ")
    assert text.endswith("all of it is needed for the smallest ones of a matrix that is not square: raise it with "
                         "gx_config('memory_limit', ...)")
    text = error(filedb, "SELECT gx_svd('A', '{\"k\":100,\"method\":\"krylov\"}')")
    assert text.startswith("gx_svd: 100 singular values with a basis of 216 of A (350x300 f64) need ")
    advice = re.search(r'ask for (\d+) with (\{"ncv":\d+\}), or raise it with gx_config', text)
    options = {"k": int(advice[1]), "method": "krylov", "partial": True, "maxiter": 1, **json.loads(advice[2])}
    filedb.execute("SELECT gx_svd('A', ?)", (json.dumps(options),)).fetchall()  # it works when followed
    options["k"] += 1
    assert "need" in error(filedb, "SELECT gx_svd('A', ?)", json.dumps({**options, "ncv": 2 * options["k"] + 1}))
    # A basis that was not asked for gets smaller until it fits; in deterministic mode no choice depends on the memory.
    configure(filedb, memory_limit="800KiB")
    few = [row[0] for row in filedb.execute("SELECT sigma FROM gx_svd('A', '{\"k\":4,\"method\":\"krylov\"}')")]
    assert np.abs(few - sigma[:4]).max() < 1e-12
    configure(filedb, deterministic="on")
    assert "with a basis of 96 of A" in error(filedb, "SELECT gx_svd('A', '{\"k\":4,\"method\":\"krylov\"}')")
    configure(filedb, deterministic="off", memory_limit="1MiB")
    text = error(filedb, "SELECT gx_svd('A', '{\"k\":200,\"method\":\"randomized\"}')")
    assert text.startswith("gx_svd: 200 singular values with a basis of 210 of A (350x300 f64) need ")


@pytest.mark.parametrize("dtype", list(NUMPY))
def test_smallest(db, dtype):
    rng = np.random.default_rng(82)
    for m, n in ((20, 12), (12, 20), (9, 9)):
        a = matrix(rng, m, n, dtype)
        store(db, "A", a)
        exact = np.linalg.svd(wide(a), compute_uv=False)[::-1]
        for k in (1, 4):
            rows = db.execute("SELECT sigma, u, v FROM gx_svd('A', ?)",
                              (json.dumps({"k": k, "which": "smallest"}),)).fetchall()
            s = np.array([row[0] for row in rows])
            u, v = (wide(np.hstack([to_numpy(row[c]) for row in rows])) for c in (1, 2))
            assert np.abs(s - exact[:k]).max() <= 50 * 20 * EPS[dtype] * exact[-1]
            assert np.linalg.norm(wide(a) @ v - u * s) <= 50 * 20 * EPS[dtype] * exact[-1]
        alone = to_numpy(q(db, "SELECT gx_svd('A', '{\"which\":\"SM\"}')")).ravel()
        assert np.abs(alone - exact).max() <= 50 * 20 * EPS[dtype] * exact[-1]


@pytest.mark.parametrize("dtype", list(NUMPY))
def test_smallest_by_the_inverse(filedb, dtype):
    """A square matrix's: the largest of its inverse, whose factors are in memory or in the temp database."""
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=64 * 64 * 8)
    sigma = np.r_[np.linspace(9, 1, 235), 0.05, 0.04, 0.04, 0.02, 0.01]
    a = known(np.random.default_rng(87), 240, 240, sigma)
    if dtype.startswith("c"):
        a = a * np.exp(1j * np.arange(240)) * np.exp(1j * np.arange(240.0) ** 2)[:, None]
    a = a.astype(NUMPY[dtype])
    store(filedb, "A", a)
    unit = 50 * 240 * EPS[dtype] * 9
    exact = np.linalg.svd(wide(a), compute_uv=False)[::-1]
    for limit in ("64MiB", {"f64": "1600KiB", "f32": "1200KiB", "c128": "2600KiB", "c64": "1800KiB"}[dtype]):
        configure(filedb, memory_limit=limit)
        s, u, v, residual = svd(filedb, k=5, which="smallest")
        u, v = wide(u), wide(v)
        assert np.abs(s - exact[:5]).max() <= unit and (np.diff(s) >= 0).all()
        assert np.linalg.norm(wide(a) @ v - u * s, axis=0).max() <= unit
        assert np.linalg.norm(wide(a).conj().T @ u - v * s, axis=0).max() <= unit
        assert residual.max() <= unit
        for x in (u, v):
            assert np.linalg.norm(x.conj().T @ x - np.eye(5)) <= 100 * 240 * EPS[dtype]
    few = {"f64": "540KiB", "c128": "1050KiB"}.get(dtype, "64MiB")
    for limit in ("64MiB", few):
        configure(filedb, memory_limit=limit)
        assert q(filedb, "SELECT gx_cond('A', 2)") == pytest.approx(exact[-1] / exact[0], rel=1e-9 + 1e4 * EPS[dtype])
    configure(filedb, memory_limit="64MiB")
    a[:, 7] = 0
    a[11] = 0
    store(filedb, "A", a)
    assert " is singular (" in error(filedb, "SELECT u FROM gx_svd('A', '{\"k\":2,\"which\":\"SM\",\"method\":\"krylov\"}')")
    configure(filedb, memory_limit=few)
    if few != "64MiB":  # by the factorisation: there is no memory for all of A
        assert q(filedb, "SELECT gx_cond('A', 2)") == np.inf
    assert q(filedb, "SELECT count(*) FROM gx") == 1


# 7 ------------------------------------------------------------------------------------------------


def test_destinations(filedb):
    a = known(np.random.default_rng(83), 40, 30, np.arange(30.0, 0, -1))
    store(filedb, "A", a)
    for method in ("krylov", "randomized"):
        options = json.dumps({"k": 3, "method": method, "power": 40, "replace": True})
        assert q(filedb, "SELECT gx_svd('A', 's', 'u', 'vt', ?)", options) == "s"
        s, u, vt = (to_numpy(q(filedb, "SELECT gx_copy(?)", name)) for name in ("s", "u", "vt"))
        assert s.shape == (3, 1) and u.shape == (40, 3) and vt.shape == (3, 30)
        assert np.abs(a @ vt.T - u * s.ravel()).max() < 1e-10
    before = filedb.execute("SELECT name, generation FROM gx_meta ORDER BY id").fetchall()
    assert "already exists" in error(filedb, "SELECT gx_svd('A', 's', '{\"k\":3,\"method\":\"krylov\"}')")
    assert filedb.execute("SELECT name, generation FROM gx_meta ORDER BY id").fetchall() == before
    assert q(filedb, "SELECT gx_check()") == "ok"


def test_partial(db):
    a = matrix(np.random.default_rng(84), 300, 280, "f64")
    store(db, "A", a)
    text = error(db, "SELECT * FROM gx_svd('A', '{\"k\":10,\"method\":\"krylov\",\"ncv\":21,\"maxiter\":1}')")
    assert text.startswith("gx_svd: ") and " of 10 singular values of A converged in 1 restarts (largest residual " \
        in text and text.endswith("raise maxiter or ncv, or take what there is with {\"partial\":true}")
    rows = db.execute("SELECT sigma FROM gx_svd('A', '{\"k\":10,\"method\":\"krylov\",\"ncv\":24,\"maxiter\":7,"
                      "\"partial\":true}')").fetchall()
    assert len(rows) < 10


def test_interrupt(filedb):
    """sqlite3_interrupt() in the middle: an error, nothing stored, the next call works."""
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=64 * 64 * 8)
    filedb.execute("SELECT gx_randn(900, 900, 'A')")
    configure(filedb, memory_limit="3MiB")
    calls = []

    def progress(label, fraction, seconds):
        calls.append(label)
        filedb.interrupt()

    filedb.create_function("tell", 3, progress)
    configure(filedb, progress="tell")
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        q(filedb, "SELECT gx_svd('A', 's', 'u', 'vt', '{\"k\":6,\"method\":\"krylov\",\"ncv\":40}')")
    assert calls and q(filedb, "SELECT count(*) FROM gx") == 1
    configure(filedb, progress="off")
    assert q(filedb, "SELECT gx_check()") == "ok"


@pytest.mark.parametrize("dtype", list(NUMPY))
def test_nan_and_inf(filedb, dtype):
    configure(filedb, tile_bytes=TILE * TILE * 8)
    for method in ("krylov", "randomized"):
        for bad, text in ((np.nan, "NaN"), (np.inf, "Inf"), (-np.inf, "Inf")):
            a = matrix(np.random.default_rng(85), 50, 40, dtype)
            a[33, 21] = bad
            store(filedb, "A", a)
            assert error(filedb, "SELECT gx_svd('A', ?)", json.dumps({"k": 2, "method": method})) == \
                f"gx_svd: A has {text} at (33, 21)"


REFUSED = {
    '{"method":"krylov"}': "method \"krylov\" needs k, the number of singular values",
    '{"method":"randomized"}': "method \"randomized\" needs k, the number of singular values",
    '{"method":"krylov","k":21}': "k is 21 but A is 30x20: it has 20 singular values",
    '{"method":"krylov","k":3,"ncv":6}': "ncv must be from 7 to 20 for k = 3, not 6",
    '{"method":"krylov","k":3,"ncv":21}': "ncv must be from 7 to 20 for k = 3, not 21",
    '{"method":"krylov","k":3,"block":65}': "block must be from 1 to 64, not 65",
    '{"method":"krylov","k":3,"which":"smallest"}':
        "the smallest singular values of a matrix that is not square are not for method \"krylov\": "
        "use {\"method\":\"dense\"}",
    '{"method":"randomized","k":3,"which":"smallest"}':
        "the smallest singular values of a matrix that is not square are not for method \"randomized\": "
        "use {\"method\":\"dense\"}",
    '{"method":"lanczos","k":3}':
        'option "method" must be one of auto, dense, krylov, randomized, not "lanczos"',
    '{"which":"nearest","k":3}':
        'option "which" must be one of largest, smallest, not "nearest"',
    '{"method":"randomized","k":3,"power":-1}': "option \"power\" must be at least 0, not -1",
    '{"method":"randomized","k":3,"oversample":-2}': "option \"oversample\" must be at least 0, not -2",
    '{"method":"krylov","k":3,"mode":"full"}': None,
}


@pytest.mark.parametrize("options,text", REFUSED.items())
def test_refusals(db, options, text):
    store(db, "A", np.ones((30, 20)))
    if text is None:
        assert error(db, "SELECT gx_svd('A', 's', 'u', ?)", options) == \
            "gx_svd: the full U and V are not those of the k largest: ask for one of them"
    else:
        assert error(db, "SELECT * FROM gx_svd('A', ?)", options) == "gx_svd: " + text


def test_reference_backend():
    db = gx_connect()
    configure(db, backend="reference")
    a = matrix(np.random.default_rng(86), 25, 18, "c128")
    store(db, "A", a)
    check(a, svd(db, k=3), "c128")
    s, u, v, residual = svd(db, k=18, method="randomized")
    check(a, (s, u, v, residual), "c128")
    db.close()
