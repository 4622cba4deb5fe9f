"""
gx_plan of gx_eig: what is foretold beside what was counted.

Plan:
  1. the driver: all or many in memory are dense, few of many Krylov; a matrix not known to be symmetric is general
  2. bytes read in a part of the memory, for the passes counted, within 1.25 x of what is foretold, and never more, for
     symmetric and general matrices; pass_bytes is all of A (a triangle of blocks) in each pass
  3. passes: as foretold, or fewer, where values fall fast (a factor 2 each); more where they are close, never fewer
     than a basis takes; both are counted in gx_stats
  4. refusals
"""
import json
import re

import numpy as np
import pytest

from conftest import error, from_numpy


def plan(db, expression):
    return dict(db.execute("SELECT * FROM gx_plan(?)", (expression,)).fetchone())


def counters(db):
    return {name: value for name, value in db.execute("SELECT name, value FROM gx_stats")
            if name in ("passes", "pass_bytes", "bytes_read")}


def counted(db, options, name="A"):
    before = counters(db)
    db.execute("SELECT value FROM gx_eig(?, ?)", (name, json.dumps(options))).fetchall()
    after = counters(db)
    return {key: after[key] - before[key] for key in after}


def spectrum(n, values, seed=1):
    q = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    a = (q * values) @ q.T
    return (a + a.T) / 2


def put(db, a, *, symmetric):
    db.execute("SELECT gx_store('A', ?, '{\"replace\":true}')", (from_numpy(a),))
    if symmetric:
        db.execute("SELECT gx_set_property('A', 'symmetric')")


@pytest.fixture
def small(filedb):
    import sqlite3
    filedb.row_factory = sqlite3.Row
    filedb.execute("PRAGMA synchronous=off")
    filedb.execute("SELECT gx_config('tile_bytes', 32768)")
    return filedb


N = 1100
FALLING = 0.5 ** np.arange(N)
CLOSE = np.linspace(0, 1, N)


def test_driver(small):
    put(small, spectrum(N, FALLING), symmetric=True)
    assert plan(small, "eig(A)")["driver"] == "syevd" and plan(small, "eig(A)")["bytes_read"] == 8 * N * N
    p = plan(small, "eig(A, 3)")
    assert p["driver"] == "lanczos" and p["seconds"] > 0 and p["flops"] > 0
    assert "100 % of A in memory" in p["detail"] and ", 0 bytes each" in p["detail"]
    put(small, np.random.default_rng(3).standard_normal((N, N)), symmetric=False)
    assert plan(small, "eig(A, 3)")["driver"] == "krylov-schur" and plan(small, "eig(A)")["driver"] == "geev"


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("limit", ["4MB", "6MB"])
def test_bytes_of_a_pass(small, symmetric, limit):
    put(small, spectrum(N, FALLING), symmetric=symmetric)
    small.execute("SELECT gx_config('memory_limit', ?)", (limit,))
    p = plan(small, "eig(A, 3)")
    each = float(re.search(r"([0-9]+) bytes each", p["detail"])[1])
    passes = int(re.search(r"([0-9]+) passes", p["detail"])[1])
    once = p["bytes_read"] - each * passes
    assert each > 0
    options = {"k": 3} if symmetric else {"k": 3, "symmetric": False}
    read = counted(small, options)
    foretold = once + each * read["passes"]
    assert foretold / 1.25 <= read["bytes_read"] <= 1.01 * foretold
    assert read["pass_bytes"] == pytest.approx((once + each) * read["passes"], rel=0.01)


def test_passes(small):
    put(small, spectrum(N, FALLING), symmetric=True)
    foretold = int(re.search(r"([0-9]+) passes", plan(small, "eig(A, 3)")["detail"])[1])
    falling = counted(small, {"k": 3})["passes"]
    assert 0.5 * foretold <= falling <= 1.25 * foretold
    put(small, spectrum(N, CLOSE), symmetric=True)
    assert plan(small, "eig(A, 3)")["calls"] == foretold  # the plan does not know the spectrum
    assert counted(small, {"k": 3})["passes"] > foretold


def test_refusals(small):
    put(small, spectrum(60, np.arange(60.0)), symmetric=True)
    assert error(small, "SELECT * FROM gx_plan('eig(A, 61)')") == \
        "gx_plan: k is 61 but A is 60x60: it has 60 eigenvalues"
    small.execute("SELECT gx_zeros(3, 5, 'R')")
    assert error(small, "SELECT * FROM gx_plan('eig(R, 2)')") == \
        "gx_plan: R is 3x5, but eigenvalues are of a square matrix"
