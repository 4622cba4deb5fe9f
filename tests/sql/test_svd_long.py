"""gx_svd of matrices whose singular vectors do not fit in memory: the long side is streamed.

Plan:
  1  Tall and wide x dtypes x sizes around tiles, a limit far below the matrix: ratios of LAPACK (50), signs, the peak.
  2  Nothing is left behind; two results or one; values as of the call in memory.
  3  Deterministic: the same bits for three budgets.
  4  NaN, a name in use, interrupts.
  5  The k largest with vectors, tall and wide, without full rank: NumPy's values, orthonormal vectors; two passes, as gx_plan says.
"""
import threading

import numpy as np
import pytest

from conftest import error, from_numpy, q, temp_is_empty, to_numpy

NUMPY = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}


def configure(db, **settings):
    for key, value in settings.items():
        db.execute("SELECT gx_config(?, ?)", (key, value))


def store(db, name, x):
    db.execute("SELECT gx_store(?, ?, '{\"replace\":true}')", (name, from_numpy(x)))


def load(db, name):
    return to_numpy(q(db, "SELECT value FROM gx WHERE name = ?", name))


def random(m, n, dtype):
    rng = np.random.default_rng(m + n)
    x = rng.standard_normal((m, n))
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal((m, n))
    return (x @ np.diag(np.logspace(0, -3, n))).astype(NUMPY[dtype])


@pytest.mark.parametrize("dtype", list(NUMPY))
@pytest.mark.parametrize("m,n", [(20000, 16), (9001, 33), (16, 12000), (12000, 1)])
def test_ratios(filedb, dtype, m, n):
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=32768)
    a = random(m, n, dtype)
    store(filedb, "A", a)
    small = "600KiB" if min(m, n) == 16 and dtype in ("f32", "c64") else "1MiB"
    configure(filedb, memory_limit="360KiB" if n == 1 else small)
    filedb.execute("SELECT gx_stats_reset()")
    assert q(filedb, "SELECT gx_svd('A', 's', 'U', 'Vt')") == "s"
    seen = dict(filedb.execute("SELECT name, value FROM gx_stats"))
    assert seen["memory_peak"] <= seen["memory_limit"]
    assert n == 1 or seen["bytes_written"] >= 2 * a.nbytes  # the reflectors were in the temp database
    assert temp_is_empty(filedb)
    configure(filedb, memory_limit="64MiB")
    wide = np.complex128
    s, u, vt = (load(filedb, name) for name in ("s", "U", "Vt"))
    k, eps = min(m, n), np.finfo(NUMPY[dtype]).eps
    assert u.shape == (m, k) and vt.shape == (k, n) and s.shape == (k, 1)
    assert u.dtype == vt.dtype == NUMPY[dtype]
    norm = s[0, 0]
    assert np.abs(u.astype(wide) @ np.diag(s[:, 0]) @ vt - a).max() <= 50 * max(m, n) * eps * norm
    assert np.abs(u.conj().T.astype(wide) @ u - np.eye(k)).max() <= 50 * m * eps
    assert np.abs(vt.astype(wide) @ vt.conj().T - np.eye(k)).max() <= 50 * n * max(1, m / n) * eps
    want = np.linalg.svd(a.astype(wide), compute_uv=False)
    assert np.abs(s[:, 0] - want).max() <= 50 * eps * want[0]
    largest = np.abs(u).max(axis=0)
    first = (np.abs(u) >= (1 - 2.0 ** -10) * largest).argmax(axis=0)
    at = u[first, np.arange(k)]
    assert (at.real > 0).all() and np.abs(at.imag).max() <= 10 * eps
    assert q(filedb, "SELECT gx_check()") == "ok"


def test_the_same_as_in_memory(filedb):
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=32768)
    for m, n in ((8000, 20), (20, 8000)):
        store(filedb, "A", random(m, n, "f64") if m > n else random(n, m, "f64").T)
        found = []
        for limit in ("64MiB", "1MiB"):
            configure(filedb, memory_limit=limit)
            filedb.execute("SELECT gx_svd('A', 's', 'U', 'Vt', '{\"replace\":true}')")
            configure(filedb, memory_limit="64MiB")
            found.append([load(filedb, name) for name in ("s", "U", "Vt")])
        for x, y in zip(*found):
            assert np.abs(x - y).max() < 1e-10
        configure(filedb, memory_limit="1MiB")
        assert q(filedb, "SELECT gx_svd('A', 's2', 'U2')") == "s2"
        configure(filedb, memory_limit="64MiB")
        assert (load(filedb, "U2") == found[1][1]).all()
        filedb.execute("DELETE FROM gx WHERE name IN ('s2', 'U2')")


def test_the_same_bits(filedb):
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=32768, deterministic="on")
    for m, n in ((7000, 24), (24, 7000)):
        store(filedb, "A", random(m, n, "f64") if m > n else random(n, m, "f64").T)
        results = set()
        for limit, threads in (("64MiB", 2), ("2MiB", 1), ("1MiB", 2)):
            configure(filedb, memory_limit=limit, threads=threads)
            filedb.execute("SELECT gx_svd('A', 's', 'U', 'Vt', '{\"replace\":true}')")
            configure(filedb, memory_limit="64MiB")
            results.add(tuple(load(filedb, name).tobytes() for name in ("s", "U", "Vt")))
        assert len(results) == 1


def test_failures_leave_nothing(filedb):
    filedb.execute("PRAGMA synchronous=off")
    configure(filedb, tile_bytes=32768, threads=1)
    x = random(9000, 20, "f64")
    store(filedb, "A", x)
    x[8000, 3] = np.nan
    store(filedb, "N", x)
    configure(filedb, memory_limit="1MiB")
    assert error(filedb, "SELECT gx_svd('N', 's', 'U', 'Vt')") == "gx_svd: N has NaN or Inf"
    assert temp_is_empty(filedb)
    assert error(filedb, "SELECT gx_svd('A', 's', 'N')") == \
        "gx_svd: matrix 'N' already exists (use '{\"replace\":true}')"
    for delay in (0.003, 0.02, 0.05):
        timer = threading.Timer(delay, filedb.interrupt)
        timer.start()
        is_done = False
        try:
            filedb.execute("SELECT gx_svd('A', 's', 'U', 'Vt')")  # one step: the next may be interrupted after all is stored
            is_done = True
        except Exception as problem:
            assert "interrupted" in str(problem)
        timer.cancel()
        timer.join()
        if is_done:  # not before the timer has gone: it may be late
            filedb.execute("DELETE FROM gx WHERE name IN ('s', 'U', 'Vt')")
        assert temp_is_empty(filedb)
        assert q(filedb, "SELECT group_concat(name) FROM (SELECT name FROM gx ORDER BY name)") == "A,N"


@pytest.mark.parametrize("dtype", list(NUMPY))
@pytest.mark.parametrize("m,n,rank", [(5000, 40, 40), (40, 5000, 40), (30, 4000, 3), (4000, 30, 3), (70, 3000, 70)])
def test_few_in_two_passes(filedb, dtype, m, n, rank):
    """A QR by panels and a pass for the long side's vectors, where memory holds neither the matrix nor a Krylov basis."""
    filedb.execute("PRAGMA synchronous=off")
    rng = np.random.default_rng(m + n)
    half = (rng.standard_normal((m, rank)) * np.logspace(0, -2, rank)) @ rng.standard_normal((rank, n))
    a = (half * (1 + 1j) if dtype.startswith("c") else half).astype(NUMPY[dtype])
    configure(filedb, tile_bytes=32768)
    store(filedb, "A", a)
    configure(filedb, memory_limit={"f32": "600KiB", "f64": "900KiB", "c64": "900KiB", "c128": "1800KiB"}[dtype])
    assert "panels" in q(filedb, "SELECT detail FROM gx_plan('svd(A, 5)') WHERE device = 'cpu'")
    filedb.execute("SELECT gx_stats_reset()")
    q(filedb, "SELECT gx_svd('A', 's', 'u', 'vt', '{\"k\":5}')")
    seen = dict(filedb.execute("SELECT name, value FROM gx_stats"))
    assert seen["memory_peak"] <= seen["memory_limit"] and a.nbytes < seen["bytes_read"] < 2.1 * a.nbytes
    configure(filedb, memory_limit="64MiB")
    s, u, vt = load(filedb, "s")[:, 0], load(filedb, "u"), load(filedb, "vt")
    wide = a.astype(np.complex128 if dtype.startswith("c") else np.float64)
    eps = (1e-13 if dtype in ("f64", "c128") else 1e-5)
    assert np.abs(s - np.linalg.svd(wide, compute_uv=False)[:5]).max() < eps * s[0]
    assert np.abs(wide @ vt.conj().T - u * s).max() < 10 * eps * s[0] and np.abs(wide.conj().T @ u - vt.conj().T * s).max() < 10 * eps * s[0]
    assert np.abs(u.conj().T @ u - np.eye(5)).max() < 10 * eps and np.abs(vt @ vt.conj().T - np.eye(5)).max() < 10 * eps
