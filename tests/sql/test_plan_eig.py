"""
gx_plan of gx_eig: what is foretold beside what was counted.

Plan:
  1. the driver: all or many in memory are dense, few of many Krylov; a matrix not known to be symmetric is general
  2. bytes read in a part of the memory, for the passes counted, within 1.25 x of what is foretold, and never more, for
     symmetric and general matrices; pass_bytes is all of A (a triangle of blocks) in each pass
  3. passes over a random matrix: within a quarter of what is foretold, symmetric, Hermitian, general and for singular
     values, in one and in a part of the memory, for few values and many, of each tolerance; fewer where values fall fast
  4. a basis of everything is one sweep of blocks
  5. after a call its passes are foretold, until A or what is asked changes
  6. gx_plan reads nothing of A
  7. singular values alone of a tall matrix follow the memory
  8. options: those of gx_eig and gx_svd, and what contradicts the expression
  9. refusals
"""
import json
import re

import numpy as np
import pytest

from conftest import error, from_numpy


def plan(db, expression, options=None):
    return dict(db.execute("SELECT * FROM gx_plan(?, ?)", (expression, json.dumps(options or {}))).fetchone())


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
        db.execute("SELECT gx_set_property('A', ?)", ("hermitian" if np.iscomplexobj(a) else "symmetric",))


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
    options = {"k": 3} if symmetric else {"k": 3, "symmetric": False}
    p = plan(small, "eig(A, 3)", {name: value for name, value in options.items() if name != "k"})
    each = float(re.search(r"([0-9]+) bytes each", p["detail"])[1])
    passes = int(re.search(r"([0-9]+) passes", p["detail"])[1])
    once = p["bytes_read"] - each * passes
    assert each > 0
    read = counted(small, options)
    foretold = once + each * read["passes"]
    assert foretold / 1.25 <= read["bytes_read"] <= 1.01 * foretold
    assert read["pass_bytes"] == pytest.approx((once + each) * read["passes"], rel=0.01)


def gaussian(m, n, seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((m, n))
    return (a + 1j * rng.standard_normal((m, n)) if np.dtype(dtype).kind == "c" else a).astype(dtype)


def foretold(db, what, k):
    detail = plan(db, f"{what}(A, {k})")["detail"]
    return int(re.search(r"([0-9]+) passes", detail)[1]), detail


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize("k", [1, 4, 10])
def test_passes_of_a_symmetric_matrix(small, dtype, k):
    a = gaussian(N, N, 5, dtype)
    put(small, (a + a.conj().T) / 2, symmetric=True)
    passes, detail = foretold(small, "eig", k)
    assert "for a random matrix's spectrum" in detail
    assert counted(small, {"k": k, "method": "krylov"})["passes"] == pytest.approx(passes, rel=0.25)


@pytest.mark.parametrize("k", [40, 75])
def test_passes_for_many_values(small, k):
    a = gaussian(N, N, 6)
    put(small, (a + a.T) / 2, symmetric=True)
    small.execute("SELECT gx_config('memory_limit', '10MB')")
    p = plan(small, f"eig(A, {k})")
    assert p["driver"] == "lanczos"
    assert counted(small, {"k": k})["passes"] == pytest.approx(p["calls"], rel=0.25)


def test_passes_of_a_general_matrix(small):
    put(small, gaussian(N, N, 7), symmetric=False)
    passes, detail = foretold(small, "eig", 2)
    assert counted(small, {"k": 2, "symmetric": False})["passes"] == pytest.approx(passes, rel=0.5)


@pytest.mark.parametrize("m, n", [(N, N), (3 * N, N // 2), (N // 2, 3 * N)])
def test_passes_for_singular_values(small, m, n):
    put(small, gaussian(m, n, 8), symmetric=False)
    small.execute("SELECT gx_config('memory_limit', '6MB')")
    passes, detail = foretold(small, "svd", 5)
    before = counters(small)["passes"]
    small.execute("SELECT sigma, u FROM gx_svd('A', '{\"k\":5}')").fetchall()
    assert counters(small)["passes"] - before == pytest.approx(passes, rel=0.25)


def test_passes_to_a_tolerance(small):
    a = gaussian(N, N, 12)
    put(small, (a + a.T) / 2, symmetric=True)
    options = {"k": 5, "which": "LA", "tol": 1e-6}
    calls = small.execute("SELECT calls FROM gx_plan('eig(A)', ?)", (json.dumps(options),)).fetchone()[0]
    assert counted(small, options)["passes"] == pytest.approx(calls, rel=0.25)


def test_a_basis_of_everything(small):
    put(small, spectrum(60, np.arange(60.0)), symmetric=True)
    options = {"k": 20, "method": "krylov"}
    calls = small.execute("SELECT calls FROM gx_plan('eig(A)', ?)", (json.dumps(options),)).fetchone()[0]
    assert calls == counted(small, options)["passes"] == 8


def test_falling_values_take_fewer(small):
    put(small, spectrum(N, FALLING), symmetric=True)
    passes, detail = foretold(small, "eig", 3)
    assert 1 < counted(small, {"k": 3})["passes"] < passes / 2


def test_as_in_the_last_call(small):
    put(small, spectrum(N, FALLING), symmetric=True)
    unknown = foretold(small, "eig", 3)
    made = counted(small, {"k": 3})["passes"]
    assert foretold(small, "eig", 3)[0] == made and "as in the last call" in foretold(small, "eig", 3)[1]
    assert "random" in foretold(small, "eig", 4)[1] and "random" in foretold(small, "svd", 3)[1]
    before = counters(small)["passes"]
    small.execute("SELECT sigma FROM gx_svd('A', '{\"k\":3}')").fetchall()
    assert foretold(small, "svd", 3)[0] == counters(small)["passes"] - before
    for k in range(4, 22):  # those asked longest ago are forgotten
        counted(small, {"k": k})
    assert foretold(small, "eig", 3) == unknown
    assert "last call" in foretold(small, "eig", 21)[1]
    put(small, spectrum(N, CLOSE), symmetric=True)
    assert "random" in foretold(small, "eig", 21)[1]


def test_values_of_a_tall_matrix_in_little_memory(small):
    """One pass by panels, as low as the memory asks; where even the triangle does not fit, Krylov."""
    a = gaussian(3 * N, N // 2, 9)
    put(small, a, symmetric=False)
    exact = np.linalg.svd(a, compute_uv=False)
    for limit, is_dense in ("20MB", True), ("10MB", True), ("6MB", True), ("3MB", False):
        small.execute("SELECT gx_config('memory_limit', ?)", (limit,))
        before = counters(small)["passes"]
        sigma = [row[0] for row in small.execute("SELECT sigma FROM gx_svd('A', '{\"k\":5}')")]
        assert np.allclose(sigma, exact[:5], rtol=1e-11)
        assert (counters(small)["passes"] == before) == is_dense
    assert error(small, "SELECT sigma FROM gx_svd('A')").startswith(
        "gx_svd: singular values of A (3300x550 f64) need ")


def test_nothing_is_read(small):
    put(small, spectrum(N, FALLING), symmetric=True)
    before = counters(small)
    foretold(small, "eig", 3), foretold(small, "svd", 3)
    assert counters(small) == before


@pytest.mark.parametrize("which", ["LA", "SA", "LM"])
def test_options(small, which):
    a = gaussian(N, N, 10)
    put(small, (a + a.T) / 2, symmetric=True)
    options = json.dumps({"k": 6, "which": which, "block": 4})
    p = dict(small.execute("SELECT * FROM gx_plan('eig(A)', ?)", (options,)).fetchone())
    assert p["block"] == f"{N} x 4"
    assert counted(small, json.loads(options))["passes"] == pytest.approx(p["calls"], rel=0.25)


def test_randomized(small):
    put(small, gaussian(N, N, 11), symmetric=False)
    p = dict(small.execute("SELECT * FROM gx_plan('svd(A, 4)', '{\"method\":\"randomized\",\"power\":3}')").fetchone())
    assert (p["driver"], p["calls"]) == ("randomized", 8) and "8 passes whatever its spectrum" in p["detail"]
    before = counters(small)["passes"]
    small.execute("SELECT sigma, u FROM gx_svd('A', '{\"k\":4,\"method\":\"randomized\",\"power\":3}')").fetchall()
    assert counters(small)["passes"] - before == 8


@pytest.mark.parametrize("expression, options, text", [
    ("eig(A, 3)", '{"k":4}', "k is in the expression and in the options: give it once"),
    ("eig(A, 3)", '{"sigma":1}', "eigenvalues near a number, and those of a pair of matrices, are not planned: "
                                 "they take a factorisation first, see gx_plan('lu(A)')"),
    ("A @ A", '{"alpha":2}', "unknown option \"alpha\": there are none"),
    ("eig(A)", "x", "options must be a JSON object '{...}', not 'x'"),
    (None, None, "takes one expression, such as gx_plan('A @ B')"),
])
def test_refused_options(small, expression, options, text):
    put(small, spectrum(N, FALLING), symmetric=True)
    assert error(small, "SELECT * FROM gx_plan(?, ?)", expression, options).strip() == "gx_plan: " + text


def test_refusals(small):
    put(small, spectrum(60, np.arange(60.0)), symmetric=True)
    assert error(small, "SELECT * FROM gx_plan('eig(A, 61)')") == \
        "gx_plan: k is 61 but A is 60x60: it has 60 eigenvalues"
    assert error(small, "SELECT * FROM gx_plan('eig(A)', '{\"method\":\"krylov\"}')") == \
        'gx_plan: method "krylov" needs k, the number of eigenvalues'
    small.execute("SELECT gx_zeros(3, 5, 'R')")
    assert error(small, "SELECT * FROM gx_plan('eig(R, 2)')") == \
        "gx_plan: R is 3x5, but eigenvalues are of a square matrix"
