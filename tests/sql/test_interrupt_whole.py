"""Calls on whole matrices are left while they run.

Test plan:

1. Eigenvalues of a general and of a symmetric matrix, with vectors and without, singular values, a null space, a rank, a
   square root; of f64 and of c128: an interrupt comes at growing delays until one finds LAPACK at work, which gx_stats
   counts (kernels_left).  The statement says "interrupted", the memory is as it was, and the same call then gives the
   answer that it gave before.
2. Nothing is stored by a call that was left.
"""
import sqlite3
import threading

import numpy as np
import pytest
from conftest import from_numpy, q, to_numpy

ORDER, LARGE = 600, 1200  # LAPACK is to be at work for some looks at the interrupt, every 10 ms

CALLS = {
    "eig": "SELECT sum(value) FROM gx_eig('A')",
    "eigvals": "SELECT gx_sum(gx_eigvals('A'))",
    "symmetric": "SELECT sum(value) FROM gx_eig('S')",
    "symmetric values": "SELECT gx_norm(gx_eigvals('S'))",
    "svd": "SELECT sum(sigma) FROM gx_svd('A')",
    "nullspace": "SELECT gx_norm(gx_nullspace('R'))",
    "rank": "SELECT gx_rank('A')",
    "sqrtm": "SELECT gx_norm(gx_sqrtm('P'))",
    "schur": "SELECT sum(gx_norm(value)) FROM gx_schur('A')",
    "hessenberg": "SELECT sum(gx_norm(value)) FROM gx_hessenberg('S')",
    "ldl": "SELECT sum(gx_norm(value)) FROM gx_ldl('S')",
    "pivoted qr": "SELECT sum(gx_norm(value)) FROM gx_qr('S', '{\"pivot\":true}')",
    "riccati": "SELECT gx_norm(gx_riccati('A', 'I', 'I', 'I'))",
    "eig of c128": "SELECT sum(value) FROM gx_eig('C')",
    "svd of c128": "SELECT sum(sigma) FROM gx_svd('C')",
}


@pytest.fixture
def matrices(db):
    random = np.random.default_rng(7)
    A, S = random.standard_normal((ORDER, ORDER)), random.standard_normal((LARGE, LARGE))
    stored = {"A": A, "S": S + S.T, "P": A @ A.T + np.eye(ORDER), "C": A + 1j * A.T, "R": A[: ORDER - 2].T @ A[: ORDER - 2],
              "I": np.eye(ORDER)}
    for name, matrix in stored.items():
        db.execute("SELECT gx_store(?, ?)", (name, from_numpy(matrix)))
    return db


def stat(db, name):
    return q(db, "SELECT value FROM gx_stats WHERE name = ?", name)


def interrupted(db, sql, before="SELECT 1"):
    """Interrupt the statement inside of LAPACK, however many times it takes to hit; its error."""
    delay = 0.001
    for _ in range(200):
        db.execute(before).fetchall()
        db.execute("SELECT gx_stats_reset()")
        timer = threading.Timer(delay, db.interrupt)
        timer.start()
        try:
            db.execute(sql).fetchall()
            delay *= 0.5  # too late
        except sqlite3.OperationalError as problem:
            if stat(db, "kernels_left") == 1:
                return str(problem)
            delay *= 1.3  # too soon
        finally:
            timer.join()
    raise AssertionError("no interrupt found LAPACK at work")


@pytest.mark.parametrize("name", CALLS)
def test_left(matrices, name):
    db, sql = matrices, CALLS[name]
    before = q(db, sql)
    used = stat(db, "memory_used")
    assert "interrupted" in interrupted(db, sql)
    assert stat(db, "memory_used") == used
    assert q(db, sql) == pytest.approx(before, rel=1e-10)


def test_nothing_stored(matrices):
    db = matrices
    forget = "SELECT gx_drop(name) FROM gx WHERE name IN ('s', 'u', 'vt')"
    assert "interrupted" in interrupted(db, "SELECT gx_svd('A', 's', 'u', 'vt')", forget)
    assert db.execute("SELECT name FROM gx ORDER BY name").fetchall() == [(name,) for name in "ACIPRS"]
    assert np.all(np.isfinite(to_numpy(q(db, "SELECT gx_eigvals('S')"))))
