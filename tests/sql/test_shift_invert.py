"""Shift-invert and the generalised problem whose factors do not fit in memory.

Plan:
  1  dtypes x (nearest to sigma, smallest) x (symmetric, general) x (with B, without): the factors in the temp
     database give what NumPy and SciPy do; peak memory within the limit; the temp database is empty afterwards.
  2  Deterministic: the same bits for three budgets, of which only one holds the factors.
  3  A sigma that is an eigenvalue, a multiple of the identity, the zero matrix: in memory and out of it.
  4  All vectors in one pass over a factor: bytes read by a solve of a block.
  5  Only the lower triangle of what is said to be symmetric counts.
  6  B not positive definite, NaN, interrupts: the texts, and nothing left behind.
  7  All of a spectrum beyond the memory: refused with needed and available bytes and the advice.
"""
import json
import re
import threading
import time

import numpy as np
import pytest

from conftest import error, from_numpy, q, temp_is_empty, to_numpy

NUMPY = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}
TOL = {"f64": 1e-9, "f32": 1e-3, "c128": 1e-9, "c64": 1e-3}


def configure(db, **settings):
    for key, value in settings.items():
        db.execute("SELECT gx_config(?, ?)", (key, value))


def store(db, name, x):
    db.execute("SELECT gx_store(?, ?, '{\"replace\":true}')", (name, from_numpy(x)))


def stats(db):
    return dict(db.execute("SELECT name, value FROM gx_stats"))


def eig(db, name="A", **options):
    options = {"method": "krylov", "ncv": 24, "block": 3, **options}
    rows = db.execute("SELECT value, imag, residual, vector FROM gx_eig(?, ?)", (name, json.dumps(options))).fetchall()
    values = np.array([r[0] + 1j * r[1] for r in rows])
    return values, np.array([r[2] for r in rows]), np.hstack([to_numpy(r[3]) for r in rows])


def random(rng, n, dtype, is_hermitian):
    x = rng.standard_normal((n, n))
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal((n, n))
    return ((x + x.conj().T) / 2 if is_hermitian else x).astype(NUMPY[dtype])


def positive(rng, n, dtype):
    x = random(rng, n, dtype, False).astype(np.complex128 if dtype.startswith("c") else np.float64)
    return (x @ x.conj().T / n + 2 * np.eye(n)).astype(NUMPY[dtype])


LIMIT = {"f64": "900KiB", "f32": "700KiB", "c128": "1500KiB", "c64": "900KiB"}


@pytest.mark.parametrize("dtype", list(NUMPY))
@pytest.mark.parametrize("problem", ["symmetric", "general", "generalised", "complex sigma", "product"])
def test_against_numpy(filedb, dtype, problem):
    linalg = pytest.importorskip("scipy.linalg")
    filedb.execute("PRAGMA synchronous=off")
    n, k, rng = 430, 3, np.random.default_rng(11)
    is_hermitian, has_b = problem != "general", problem in ("generalised", "complex sigma", "product")
    a = 0.2 * random(rng, n, dtype, is_hermitian)
    a[np.arange(n), np.arange(n)] += (3 * np.arange(n) - n).astype(a.dtype)  # values that are apart
    a = a.astype(NUMPY[dtype])
    b = positive(rng, n, dtype) if has_b else np.eye(n)
    sigma = 0.3 + 0.4j if problem == "complex sigma" else 0.3
    configure(filedb, tile_bytes=32768)
    store(filedb, "A", a)
    options = {"k": k}
    if has_b:
        store(filedb, "B", b)
        options["b"] = "B"
    if problem == "product":
        options["which"] = "LA"
    else:
        options["sigma"] = [sigma.real, sigma.imag] if np.iscomplexobj(sigma) else sigma
    configure(filedb, memory_limit=LIMIT[dtype])
    if problem == "complex sigma":
        configure(filedb, memory_limit="1800KiB")
    filedb.execute("SELECT gx_stats_reset()")
    values, residuals, x = eig(filedb, **options)
    seen = stats(filedb)
    assert seen["bytes_written"] >= a.nbytes, "the factor was not in the temp database"
    assert seen["memory_peak"] <= seen["memory_limit"]
    assert temp_is_empty(filedb)
    wide = np.complex128
    want = linalg.eigvals(a.astype(wide), b.astype(wide)) if not is_hermitian else linalg.eigh(
        a.astype(wide), b.astype(wide), eigvals_only=True)
    order = np.argsort(-want.real) if problem == "product" else np.argsort(abs(want - sigma))
    norm = np.linalg.norm(a.astype(wide), 2)
    assert np.abs(np.abs(values - sigma) - np.abs(want[order][:k] - sigma)).max() <= TOL[dtype] * norm
    assert np.linalg.norm(a.astype(wide) @ x - b @ x * values, axis=0).max() <= TOL[dtype] * norm
    assert residuals.max() <= TOL[dtype] * norm
    if has_b:
        assert np.abs(x.conj().T @ b @ x - np.eye(k)).max() < 100 * TOL[dtype]


def test_the_same_in_memory(filedb):
    """Nothing deterministic about it: the two ways agree to rounding."""
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=32768)
    rng = np.random.default_rng(3)
    store(filedb, "A", random(rng, 400, "f64", True) + 4 * np.diag(np.arange(400.0)))
    store(filedb, "B", positive(rng, 400, "f64"))
    for options in ({"sigma": 0.1}, {"which": "SM"}, {"sigma": 0.1, "b": "B"}, {"which": "LA", "b": "B"}):
        results = []
        for limit in ("64MiB", "900KiB"):
            configure(filedb, memory_limit=limit)
            results.append(eig(filedb, k=4, **options))
        (v0, _, x0), (v1, _, x1) = results
        assert np.abs(v0 - v1).max() < 1e-11 and np.abs(x0 - x1).max() < 1e-7


@pytest.mark.parametrize("options", [{"sigma": 0.2}, {"sigma": 0.2, "b": "B"}, {"which": "LA", "b": "B"},
                                     {"which": "SM", "symmetric": False}])
def test_the_same_bits(filedb, options):
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=32768, deterministic="on")
    rng = np.random.default_rng(4)
    store(filedb, "A", random(rng, 560, "f64", True) + 4 * np.diag(np.arange(560.0)))
    store(filedb, "B", positive(rng, 560, "f64"))
    options = json.dumps({"k": 3, "method": "krylov", "ncv": 24, "block": 3, **options})
    results, written = set(), []
    for limit, threads in (("64MiB", 2), ("7MiB", 1), ("3600KiB", 2)):
        configure(filedb, memory_limit=limit, threads=threads)
        filedb.execute("SELECT gx_stats_reset()")
        rows = filedb.execute("SELECT value, imag, residual, vector FROM gx_eig('A', ?)", (options,)).fetchall()
        results.add(tuple(rows))
        written.append(stats(filedb)["bytes_written"])
        assert stats(filedb)["memory_peak"] <= stats(filedb)["memory_limit"]
    assert len(results) == 1
    assert written[0] == 0 and written[2] > 0
    assert temp_is_empty(filedb)


@pytest.mark.parametrize("limit", ["64MiB", "800KiB"])
@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_sigma_is_an_eigenvalue(filedb, limit, dtype):
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=32768, memory_limit=limit)
    n, close = 400, 1e-9 if dtype == "f64" else 1e-3
    store(filedb, "A", np.diag(np.arange(1.0, n + 1)).astype(NUMPY[dtype]))
    values, _, _ = eig(filedb, k=3, sigma=7)
    assert np.abs(np.sort(values.real) - [6, 7, 8]).max() < close
    store(filedb, "A", 3 * np.eye(n).astype(NUMPY[dtype]))
    values, residuals, _ = eig(filedb, k=2, sigma=3)
    assert np.abs(values - 3).max() < close and residuals.max() < close
    store(filedb, "A", np.zeros((n, n), NUMPY[dtype]))
    values, _, _ = eig(filedb, k=2, which="SM")
    assert (np.abs(values) < 1e-30).all()
    rng = np.random.default_rng(8)
    q_, _ = np.linalg.qr(rng.standard_normal((n, n)))
    w = np.concatenate([[0, 0, 0], np.linspace(1, 5, n - 3)])
    store(filedb, "A", ((q_ * w) @ q_.T).astype(NUMPY[dtype]))
    values, _, _ = eig(filedb, k=3, which="SM", symmetric=True)
    assert np.abs(values).max() < 10 * close
    assert temp_is_empty(filedb)


def test_a_block_is_solved_for_in_one_pass(filedb):
    """Bytes read for an eigenvalue problem are in step with the number of blocks, not of vectors."""
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=32768)
    n = 600
    a = random(np.random.default_rng(5), n, "f64", False)
    store(filedb, "A", a)
    configure(filedb, memory_limit="2MiB")
    reads = {}
    for block in (2, 8):
        filedb.execute("SELECT gx_stats_reset()")
        try:
            eig(filedb, k=2, sigma=40, block=block, ncv=32, maxiter=1)
        except Exception as problem:
            assert "converged" in str(problem)
        reads[block] = stats(filedb)["bytes_read"]
    assert reads[8] < 0.6 * reads[2]


@pytest.mark.parametrize("limit", ["64MiB", "900KiB"])
def test_the_upper_triangle_is_not_looked_at(filedb, limit):
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=32768, memory_limit="64MiB")
    rng = np.random.default_rng(6)
    a, b = random(rng, 400, "f64", True), positive(rng, 400, "f64")
    store(filedb, "A", np.tril(a))
    store(filedb, "B", np.tril(b))
    linalg = pytest.importorskip("scipy.linalg")
    want = linalg.eigh(a, b, eigvals_only=True)
    configure(filedb, memory_limit=limit)
    values, _, _ = eig(filedb, k=3, sigma=0.5, b="B", symmetric=True)
    assert np.abs(values - want[np.argsort(abs(want - 0.5))][:3]).max() < 1e-10


def test_refusals(filedb):
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=32768)
    rng = np.random.default_rng(7)
    a = random(rng, 400, "f64", True)
    store(filedb, "A", a)
    b = positive(rng, 400, "f64")
    b[250, 250] = -1
    store(filedb, "B", b)
    a[300, 7] = a[7, 300] = np.nan
    store(filedb, "N", a)
    configure(filedb, memory_limit="900KiB")
    ask = "SELECT * FROM gx_eig(?, ?)"
    options = json.dumps({"k": 2, "method": "krylov", "ncv": 24, "sigma": 0.5, "b": "B"})
    assert error(filedb, ask, "A", options) == "gx_eig: B is not positive definite (leading minor of order 251)"
    options = json.dumps({"k": 2, "method": "krylov", "ncv": 24, "sigma": 0.5, "symmetric": True})
    assert error(filedb, ask, "N", options) == "gx_eig: N has NaN at (300, 7)"
    assert temp_is_empty(filedb)
    assert q(filedb, "SELECT gx_check()") == "ok"


def test_interrupt(filedb):
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=32768, threads=1)
    filedb.execute("SELECT gx_randn(1200, 1200, 'A', '{\"seed\":1}')")
    configure(filedb, memory_limit="3MiB")
    base = q(filedb, "SELECT value FROM gx_stats WHERE name = 'memory_used'")
    for delay in (0.02, 0.1, 0.25):
        timer = threading.Timer(delay, filedb.interrupt)
        timer.start()
        is_done = True
        options = {"k": 6, "method": "krylov", "ncv": 40, "block": 2, "sigma": 0.5, "tol": 1e-14, "maxiter": 400}
        try:
            filedb.execute("SELECT gx_eig('A', 'w', 'V', ?)", (json.dumps(options),))  # one step: see test_svd_long.py
        except Exception as problem:
            assert "interrupted" in str(problem)
            is_done = False
        timer.cancel()
        timer.join()
        if is_done:
            filedb.execute("SELECT gx_drop('w'), gx_drop('V')")
        assert temp_is_empty(filedb)
        assert q(filedb, "SELECT group_concat(name) FROM gx") == "A"
        assert q(filedb, "SELECT value FROM gx_stats WHERE name = 'memory_used'") == base


def test_in_transactions_and_tables(filedb):
    """Inside BEGIN, and inside a statement that writes, where SQLite has no savepoints to give."""
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=32768)
    a = random(np.random.default_rng(9), 400, "f64", True)
    store(filedb, "A", a)
    configure(filedb, memory_limit="900KiB")
    options = json.dumps({"k": 2, "method": "krylov", "ncv": 24, "sigma": 0.5})
    want = filedb.execute("SELECT value FROM gx_eig('A', ?)", (options,)).fetchall()
    filedb.execute("BEGIN")
    filedb.execute("SELECT gx_eig('A', 'w', 'V', ?)", (options,))
    filedb.execute("COMMIT")
    assert temp_is_empty(filedb)
    assert [r[0] for r in want] == [r[0] for r in filedb.execute("SELECT value FROM gx_cells('w') ORDER BY i")]
    filedb.execute("CREATE TABLE found(value)")
    filedb.execute("INSERT INTO found SELECT value FROM gx_eig('A', ?)", (options,))
    assert filedb.execute("SELECT value FROM found").fetchall() == want
    assert temp_is_empty(filedb)


def test_full_spectrum_is_refused(filedb):
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=32768)
    store(filedb, "A", random(np.random.default_rng(10), 300, "f64", True))
    configure(filedb, memory_limit="800KiB")
    for sql in ("SELECT * FROM gx_eig('A')", "SELECT gx_eigvals('A')"):
        text = error(filedb, sql)
        bytes_ = [int(x) for x in re.findall(r"\((\d+) bytes\)", text)]
        assert len(bytes_) == 2 and bytes_[0] > bytes_[1], text
        assert "ask for k of them" in text
