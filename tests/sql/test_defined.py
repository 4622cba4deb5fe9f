"""Operations that are programs themselves, and the small ones beside them: structured matrices, functions of matrices, banded systems.

Plan:
  1  structured matrices are SciPy's, real and complex, of every small size; SQL functions store them
  2  functions of matrices beside SciPy over the four numbers: cos^2 + sin^2 = 1, signs whose square is 1, of triangles, defective
     matrices and eigenvalues of opposite sides; derivatives and condition of the exponential
  3  systems with bands and circulants beside SciPy, and residuals; angles between ranges down to 1e-12; rotations; rq; real forms;
     balanced matrices, cosines and sines of a unitary one; Hankel transforms and the complex logarithm of gamma
  4  slogdet where det overflows; block_diag, bands, require
  5  what a definition is: no function of the user's gets in, its errors have the call's place, unoptimised programs say the same,
     several results, stored results, memory that comes back; every definition compiles
  6  refusals in words; memory_limit; an interrupt
"""
import re

import numpy as np
import pytest
import scipy.linalg as sl
from conftest import ROOT, error, from_numpy, q, to_numpy
from interruptkit import interrupt

EPS = {"f64": 2.0**-53, "f32": 2.0**-24, "c128": 2.0**-53, "c64": 2.0**-24}
NUMPY = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}


def draw(rng, shape, dtype="f64"):
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype.startswith("c") else x).astype(NUMPY[dtype])


def ev(db, text, *args, options=None):
    bound = [from_numpy(np.atleast_2d(a)) if isinstance(a, np.ndarray) else a for a in args]
    marks = ", ?" * len(bound) + (", ?" if options else "")
    value = q(db, f"SELECT gx_eval(?{marks})", text, *bound, *([options] if options else []))
    return to_numpy(value) if isinstance(value, bytes) else np.array([[value]])


def wide(x):
    return x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)


def near(got, want, tolerance):
    want = np.asarray(want)
    want = want[:, None] if want.ndim == 1 else np.atleast_2d(want)
    assert got.shape == want.shape
    scale = max(np.linalg.norm(wide(want)), 1e-300) if want.size else 1
    assert (np.linalg.norm(wide(got) - wide(want)) if want.size else 0) <= tolerance * scale, (got, want)


# 1 ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", NUMPY)
def test_structured(db, dtype):
    rng = np.random.default_rng(1)
    eps = 8 * EPS[dtype]
    for n in (1, 2, 3, 4, 5, 8, 9):
        c, r = draw(rng, (n, 1), dtype), draw(rng, (n + 2, 1), dtype)
        near(ev(db, "circulant(?1)", c), sl.circulant(c[:, 0]), 0)
        near(ev(db, "hankel(?1)", c.T), sl.hankel(c[:, 0]), 0)
        near(ev(db, "hankel(?1, ?2)", c, r), sl.hankel(c[:, 0], r[:, 0]), 0)
        near(ev(db, "companion(?1)", r), sl.companion(r[:, 0]), eps)
        near(ev(db, "fiedler_companion(?1)", r), np.atleast_2d(sl.fiedler_companion(r[:, 0])), eps)
        near(ev(db, "fiedler(?1)", c), abs(c - c.T), eps)
        near(ev(db, "convolution_matrix(?1, ?2)", c, n + 1), sl.convolution_matrix(c[:, 0], n + 1), 0)
        f, s = draw(rng, n + 1), draw(rng, n)
        near(ev(db, "leslie(?1, ?2)", f, s), sl.leslie(f, s), 0)
        near(ev(db, "khatri_rao(?1, ?2)", draw(rng, (3, n), dtype) * 0 + 2, r.T[:, :n].astype(NUMPY[dtype])),
             sl.khatri_rao(np.full((3, n), 2), r.T[:, :n]), eps)
        near(ev(db, f"dft({n})"), sl.dft(n), 1e-15 * n)
        near(ev(db, f"hilbert({n})"), sl.hilbert(n), 0)
        if n > 1:
            near(ev(db, f"helmert({n})"), sl.helmert(n), 1e-15)
    assert ev(db, "hilbert(0)").shape == (0, 0) and ev(db, "helmert(1)").shape == (0, 1)


def test_sql_functions(filedb):
    """The function in SQL is the program of one operation, stored too."""
    db, rng = filedb, np.random.default_rng(2)
    a, b, c = draw(rng, (6, 6)) / 3, draw(rng, (6, 6)), draw(rng, (6, 1))
    args = {"a": from_numpy(a), "b": from_numpy(b), "c": from_numpy(c), "ab": from_numpy(draw(rng, (3, 6)))}
    one, two = ["signm", "cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm"], ["expm_frechet", "subspace_angles", "khatri_rao"]
    calls = [f"{name}(:a)" for name in one] + [f"{name}(:a, :b)" for name in two]
    calls += ["circulant(:c)", "hankel(:c, :c)", "companion(:c)", "solve_circulant(:c, :a)", "solve_banded(1, 1, :ab, :a)"]
    for call in calls:
        names = sorted(set(re.findall(r":(\w+)", call)))
        bound = [args[name] for name in names]
        text = re.sub(r":(\w+)", lambda m: f"?{1 + names.index(m[1])}", call)
        value = to_numpy(q(db, f"SELECT gx_{text}", *bound))
        np.testing.assert_array_equal(value, to_numpy(q(db, f"SELECT gx_eval('{text}', {', '.join('?' * len(names))})", *bound)))
        assert q(db, f"SELECT gx_{text[:-1]}, 'R')", *bound) == "R"
        np.testing.assert_array_equal(value, to_numpy(q(db, "SELECT gx_copy('R')")))
        assert "already exists" in error(db, f"SELECT gx_{text[:-1]}, 'R')", *bound)
        q(db, "SELECT gx_drop('R')")


# 2 ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", NUMPY)
def test_functions_of_matrices(db, dtype):
    rng = np.random.default_rng(3)
    for n in (1, 2, 3, 10, 30):
        a = (draw(rng, (n, n), dtype) / n**0.5).astype(NUMPY[dtype])
        limit = 200 * n * EPS[dtype]
        got = {}
        for name in ("cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm"):
            got[name] = ev(db, f"{name}(?1)", a)
            assert got[name].dtype == a.dtype or n == 1
            near(got[name], getattr(sl, name)(wide(a)), limit * (np.linalg.cond(sl.cosm(wide(a))) if name == "tanm" else 10))
        near(wide(got["cosm"]) @ got["cosm"] + wide(got["sinm"]) @ got["sinm"], np.eye(n), limit * 10)
        near(wide(got["coshm"]) @ got["coshm"] - wide(got["sinhm"]) @ got["sinhm"], np.eye(n), limit * 100)
        e = draw(rng, (n, n), dtype)
        near(ev(db, "expm_frechet(?1, ?2)", a, e), sl.expm_frechet(wide(a), wide(e), compute_expm=False), limit * 10)
    for name in ("cosm", "sinm", "signm"):
        assert ev(db, f"{name}(?1)", np.zeros((0, 0))).shape == (0, 0)


def test_condition_of_the_exponential(db):
    rng = np.random.default_rng(4)
    for n in (1, 2, 3, 5):
        a = draw(rng, (n, n))
        near(ev(db, "expm_cond(?1)", a), sl.expm_cond(a), 1e-10)


@pytest.mark.parametrize("dtype", NUMPY)
def test_sign(db, dtype):
    rng = np.random.default_rng(5)
    for n in (1, 2, 5, 20, 60):
        for left in {0, n // 2, n}:
            v = draw(rng, (n, n), dtype) / 4 + np.eye(n)
            w = rng.uniform(0.5, 2, n) * np.where(np.arange(n) < left, -1, 1)
            t = np.diag(w) + np.triu(draw(rng, (n, n), dtype), 1) * (0.2 if n < 30 else 0.02)
            a = (v @ t @ np.linalg.inv(v)).astype(NUMPY[dtype])
            s = ev(db, "signm(?1)", a)
            assert s.dtype == a.dtype or n == 1
            size = np.linalg.norm(wide(s), 2)
            limit = 200 * n * EPS[dtype] * max(1, size) ** 2
            near(wide(s) @ s, np.eye(n), limit)
            assert np.linalg.norm(wide(s) @ a - wide(a) @ s) <= limit * np.linalg.norm(wide(a)) * 4
            assert np.trace(wide(s)).real == pytest.approx(n - 2 * left, abs=max(1e-9, 100 * limit))
    h = draw(rng, (8, 8))
    h = h + h.T
    near(ev(db, "signm(?1)", h), sl.signm(h), 1e-13)
    jordan = -2 * np.eye(4) + np.diag(np.ones(3), 1)
    near(ev(db, "signm(?1)", sl.block_diag(jordan, -jordan)), np.diag([-1] * 4 + [1.0] * 4), 1e-14)
    spin = np.array([[1, 5], [-5, 1.0]])  # complex values of a real matrix
    near(ev(db, "signm(?1)", sl.block_diag(spin, -spin)), np.diag([1, 1, -1, -1.0]), 1e-14)


# 3 ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", NUMPY)
def test_banded(db, dtype):
    rng = np.random.default_rng(6)
    for n in (1, 2, 5, 40):
        for low, up in ((0, 0), (1, 1), (2, 0), (0, 3), (3, 1), (5, 7)):
            ab, b = draw(rng, (low + up + 1, n), dtype), draw(rng, (n, 3), dtype)
            full = np.zeros((n, n), ab.dtype)
            for j in range(n):
                for i in range(max(0, j - up), min(n, j + low + 1)):
                    full[i, j] = ab[up + i - j, j]
            ab[0, :up] = np.nan if up and n > up else ab[0, :up]  # a corner, which nobody looks at
            assert (ev(db, f"bands({low}, {up}, ?1)", ab) == full).all()
            if np.linalg.cond(full) < 1 / (100 * EPS[dtype]):
                x = wide(ev(db, f"solve_banded({low}, {up}, ?1, ?2)", ab, b))
                assert np.linalg.norm(full @ x - b) <= 100 * n * EPS[dtype] * (np.linalg.norm(full) * np.linalg.norm(x) + np.linalg.norm(b))
    big = np.vstack([np.ones(20000), -2.5 * np.ones(20000), np.ones(20000)])
    y = draw(rng, (20000, 1))
    near(ev(db, "solve_banded(1, 1, ?1, ?2)", big, y), sl.solve_banded((1, 1), big, y), 1e-13)


@pytest.mark.parametrize("dtype", NUMPY)
def test_circulant_systems(db, dtype):
    rng = np.random.default_rng(7)
    for n in (1, 2, 7, 64, 101):
        c, b = draw(rng, (n, 1), dtype), draw(rng, (n, 2), dtype)
        c[0] += 3 * n**0.5
        near(ev(db, "solve_circulant(?1, ?2)", c, b), np.linalg.solve(sl.circulant(wide(c)[:, 0]), wide(b)), 300 * EPS[dtype])
    near(ev(db, "solve_circulant([3, 1], [1i, 2])"), np.linalg.solve([[3, 1], [1, 3]], [[1j], [2]]), 1e-15)


@pytest.mark.parametrize("dtype", NUMPY)
def test_angles_rotations_rq(db, dtype):
    rng = np.random.default_rng(8)
    eps = EPS[dtype]
    for m, n, k in ((1, 1, 1), (5, 2, 2), (9, 4, 2), (9, 2, 4), (6, 6, 3), (20, 10, 10)):
        a, b = draw(rng, (m, n), dtype), draw(rng, (m, k), dtype)
        angles = ev(db, "subspace_angles(?1, ?2)", a, b)[:, 0]
        np.testing.assert_allclose(angles, sl.subspace_angles(wide(a), wide(b)), atol=500 * eps)
        r, w = ev(db, "R, Q = rq(?1); R", a), ev(db, "R, Q = rq(?1); Q", a)
        near(wide(r) @ w, a, 50 * m * eps)
        near(wide(w) @ w.conj().T, np.eye(len(w)), 50 * m * eps)
        assert not np.tril(r, r.shape[1] - r.shape[0] - 1).any()
        c = draw(rng, (m, n), dtype)
        rotation = wide(ev(db, "R, s = procrustes(?1, ?2); R", a, c))
        near(rotation.conj().T @ rotation, np.eye(n), 50 * n * eps)
        best = np.linalg.svd(wide(a).conj().T @ c, compute_uv=False).sum()
        assert np.trace(rotation.conj().T @ wide(a).conj().T @ c).real == pytest.approx(best, rel=1e3 * eps)
        near(ev(db, "R, s = procrustes(?1, ?2); s", a, c), best, 1e3 * eps)
    base = draw(rng, (10, 3))
    for tiny in (1e-4, 1e-8, 1e-12):
        other = base + tiny * draw(rng, (10, 3))
        near(ev(db, "subspace_angles(?1, ?2)", base, other), sl.subspace_angles(base, other), 1e-3 if tiny < 1e-10 else 1e-7)


def test_real_and_complex_forms(db):
    rng = np.random.default_rng(9)
    for n in (2, 3, 6, 11):
        a = draw(rng, (n, n))
        T, Z = sl.schur(a)
        c, u = (ev(db, f"C, U = rsf2csf(?1, ?2); {part}", T, Z) for part in "CU")
        near(u @ c @ u.conj().T, a, 1e-13)
        assert not np.tril(c, -1).any()
        w, V = np.linalg.eig(a)
        d, x = (ev(db, f"D, X = cdf2rdf(?1, ?2); {part}", w[:, None] + 0j, V + 0j) for part in "DX")
        near(d, sl.cdf2rdf(w, V)[0], 0)
        near(x, sl.cdf2rdf(w, V)[1], 1e-15)
        near(a @ x, x @ d, 1e-12)


@pytest.mark.parametrize("dtype", NUMPY)
def test_balance(db, dtype):
    rng = np.random.default_rng(12)
    for n in (0, 1, 2, 7, 30):
        a = draw(rng, (n, n), dtype) * (10.0 ** rng.integers(-4, 5, (n, 1))).astype(np.float32)
        if n > 5:
            a[3, :3] = a[3, 4:] = 0  # stands aside
        a = a.astype(NUMPY[dtype])
        b, t = (ev(db, f"B, T = balance(?1); {part}", a) for part in "BT")
        if n > 0:
            want, by = sl.matrix_balance(a)
            near(b, want, 4 * EPS[dtype])
            near(t, by, 0)


@pytest.mark.parametrize("dtype", NUMPY)
def test_cossin(db, dtype):
    rng = np.random.default_rng(13)
    eps = EPS[dtype]
    for n in (2, 3, 5, 9, 40):
        a = np.linalg.qr(draw(rng, (n, n), dtype))[0]
        for p in {1, n // 2, n - 1}:
            for k in {1, (n + 1) // 2, n - 1}:
                if not (0 < p < n and 0 < k < n):
                    continue
                u, c, v = (wide(ev(db, f"U, C, V = cossin(?1, {p}, {k}); {part}", a)) for part in "UCV")
                near(u @ c @ v, a, 50 * n * eps)
                for x in (u, c, v):
                    near(x.conj().T @ x, np.eye(n), 50 * n * eps)
                assert not u[:p, p:].any() and not u[p:, :p].any() and not v[:k, k:].any() and not v[k:, :k].any()
                assert set(np.count_nonzero(c, axis=0)) <= {1, 2} and np.isrealobj(c.real)
                cosines = np.sort(abs(c[:p, :k]).max(axis=0 if k <= p else 1))
                np.testing.assert_allclose(cosines, np.sort(np.linalg.svd(wide(a)[:p, :k], compute_uv=False)), atol=200 * n * eps)
    near(ev(db, "U, C, V = cossin(eye(4), 2, 2); U @ C @ V"), np.eye(4), 1e-15)


def test_hankel_transforms(db):
    import scipy.fft as sf
    import scipy.special

    rng = np.random.default_rng(14)
    z = rng.uniform(-30, 30, (400, 1)) + 1j * rng.uniform(-50, 50, (400, 1))
    z = np.vstack([z, [[0.5], [-0.5], [2.5], [1e5], [1e-300], [-20.25], [3 + 1e5j]]])
    want = scipy.special.loggamma(z)
    assert (abs(ev(db, "loggamma(?1)", z) - want) <= 1e-15 * (30 + 30 * abs(want))).all()
    assert (ev(db, "loggamma([0, -3])") == np.inf).all() and np.isnan(ev(db, "loggamma([-200000.5])")).all()
    for n in (1, 2, 3, 8, 9, 64, 101):
        for mu in (0.0, 0.5, 2.0):
            for offset, bias in ((0.0, 0.0), (0.3, 0.0), (0.1, 0.4), (-0.2, -0.3)):
                a = draw(rng, (n, 1))
                near(ev(db, "fht(?1, 0.1, ?2, ?3, ?4)", a, mu, offset, bias), sf.fht(a[:, 0], 0.1, mu, offset, bias), 1e-12)
                near(ev(db, "ifht(?1, 0.1, ?2, ?3, ?4)", a, mu, offset, bias), sf.ifht(a[:, 0], 0.1, mu, offset, bias), 1e-12)
                assert ev(db, "fhtoffset(0.1, ?1, ?2, ?3)", mu, offset, bias)[0, 0] == pytest.approx(sf.fhtoffset(0.1, mu, offset, bias), abs=1e-13)
    near(ev(db, "fht(?1, 0.1, 1)", a), sf.fht(a[:, 0], 0.1, 1), 1e-12)
    near(ev(db, "ifht(?1, 0.1, 1, 0.2)", a), sf.ifht(a[:, 0], 0.1, 1, 0.2), 1e-12)


# 4 ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", NUMPY)
def test_slogdet(db, dtype):
    rng = np.random.default_rng(10)
    for n in (0, 1, 2, 7, 300):
        a = draw(rng, (n, n), dtype) * np.float32(30)
        sign, log = np.linalg.slogdet(wide(a))
        near(ev(db, "s, l = slogdet(?1); l", a), log, 1e3 * n * EPS[dtype])
        near(ev(db, "s, l = slogdet(?1); s", a), sign, 1e3 * n * EPS[dtype])
    assert ev(db, "s, l = slogdet(zeros(2, 2)); s")[0, 0] == 0 and ev(db, "s, l = slogdet(zeros(2, 2)); l")[0, 0] == -np.inf
    assert q(db, "SELECT gx_eval('slogdet([[0, 1], [1, 0]])')") == -1


def test_put_together(db):
    rng = np.random.default_rng(11)
    parts = [draw(rng, shape) for shape in ((2, 3), (1, 1), (0, 2), (3, 0), (4, 1))]
    near(ev(db, "block_diag(?1, ?2, ?3, ?4, ?5)", *parts), sl.block_diag(*parts), 0)
    near(ev(db, "block_diag(?1)", parts[0]), parts[0], 0)
    assert ev(db, "block_diag(1i, 2)").tolist() == [[1j, 0], [0, 2]]
    assert ev(db, "require([1, 2], 3 > 2, 'no')").ravel().tolist() == [1, 2]
    assert error(db, "SELECT gx_eval('require(1, 2 > 3, ''two is not more'')')").startswith("gx_eval: line 1, column 1: two is not more")
    said = error(db, "SELECT gx_eval('x = ?1;\n y = 2 * require(x, min(x) > 0, ''x must be above 0''); y', gx_copy('[1,-1]'))")
    assert said.startswith("gx_eval: line 2, column 10: x must be above 0")
    near(ev(db, "require(?1, min(?1) < 0, 'no') + 1", np.array([[1.0, -1]])), [[2.0, 0]], 0)


# 5 ------------------------------------------------------------------------------------------------

def test_definitions_are_their_own(db):
    assert ev(db, "def toeplitz(a, b) { 7 } circulant([1, 2])").tolist() == [[1, 2], [2, 1]]
    assert ev(db, "def circulant(a) { 7 } circulant([1, 2])")[0, 0] == 7
    assert ev(db, "def cosm(A) { tanm(A) } cosm([[1]])")[0, 0] == pytest.approx(np.tan(1))
    assert ev(db, "n = 5; k = 3; x = hilbert(2); n * k * x").tolist() == [[15, 7.5], [7.5, 5]]
    db.execute("SELECT gx_store('n', '[[1,2],[3,4]]')").fetchall()
    assert ev(db, "convolution_matrix([1, 2], 2) + 0 * n[0, 0]").tolist() == [[1, 0], [2, 1], [0, 2]]
    text = "x = [1, 2, 3];\nsum(companion(x)) +\n  circulant(eye(2))"
    assert error(db, "SELECT gx_eval(?)", text).split("\n")[0] == (
        "gx_eval: line 3, column 3: the operand is 2x2, but this is of a vector")
    for program in ("R, Q = rq(A); R @ Q", "tanm(A)", "fiedler_companion(A[:, 0])", "solve_circulant(A[:, 0], A)", "D := signm(A); D"):
        q(db, "SELECT gx_store('A', '[[3,1],[1,2]]', '{\"replace\":true}')")
        plain = ev(db, program, options='{"optimize":false,"replace":true}')
        np.testing.assert_allclose(ev(db, program, options='{"replace":true}'), plain, rtol=1e-14)
    assert "3 names for 2 results" in error(db, "SELECT gx_eval('a, b, c = rq(eye(2)); a')")
    assert ev(db, "repeat 2 { R, Q = rq(A); A = Q @ R } A").shape == (2, 2)
    assert ev(db, "if 1 > 0 { C = circulant([1, 2]) } else { C = eye(2) } C").tolist() == [[1, 2], [2, 1]]


def test_every_definition_compiles(db):
    """Each row of the table has one for each count of its arguments, and texts that parse."""
    source = (ROOT / "core/program/defined.c").read_text()
    ops = (ROOT / "core/program/ops.h").read_text()
    rows = re.findall(r'OP\((\w+),\s+"(\w+)",\s+"([^"]*)",\s+(\d), (\d), (\d), NULL, NULL,', ops[ops.index("#define GX_DEFINED_OPS"):])
    assert len(rows) > 20
    for word, name, usage, least, most, results in rows:
        kinds = {(len(kind), int(result)) for kind, result in re.findall(rf'GX_OP_{word}, "([^"]+)", \w+, (\d)', source)}
        assert kinds == {(n, k) for n in range(int(least), int(most) + 1) for k in range(int(results))}, name


def test_memory_comes_back(db):
    used = "SELECT value FROM gx_stats WHERE name = 'memory_used'"
    ev(db, "tanhm([[1, 2], [3, 4]])")
    before = q(db, used)
    for k in range(20):
        ev(db, f"norm(cosm([[{k}, 2], [3, 4]]) + circulant([{k}, 1])) + expm_cond([[{k}]])")
        error(db, f"SELECT gx_eval('cosm([[{k}, 2, 3]])')")
    assert q(db, used) <= before + 2_000_000  # kept programs


# 6 ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("text, said", [
    ("gx_circulant(gx_eye(2))", "gx_circulant: c is 2x2, but this is of a vector"),
    ("gx_circulant('[]')", "gx_circulant: c is 0x0, but this is of a vector"),
    ("gx_companion('[1]')", "gx_companion: a is 1x1, but this is of a longer vector"),
    ("gx_companion('[0,1]')", "gx_companion: the first coefficient is 0"),
    ("gx_khatri_rao('[[1]]', '[[1,2]]')", "gx_khatri_rao: A is 1x1 but B is 1x2"),
    ("gx_cosm('[[1,2,3]]')", "gx_cosm: A is 1x3, but this is for square matrices"),
    ("gx_tanm('[[1,\"nan\"],[0,1]]')", "gx_tanm: the operand has NaN"),
    ("gx_signm('[[0,1],[-1,0]]')", "gx_signm: A has an eigenvalue on the imaginary axis, within rounding: it has no sign"),
    ("gx_signm('[[0,0],[0,1]]')", "gx_signm: A has an eigenvalue on the imaginary axis, within rounding: it has no sign"),
    ("gx_signm('[[0,1],[0,0]]')", "gx_signm: A has an eigenvalue on the imaginary axis, within rounding: it has no sign"),
    ("gx_signm('[[1,\"inf\"],[0,1]]')", "gx_signm: A has Inf at (0, 1)"),
    ("gx_expm_frechet('[[1,2],[3,4]]', '[[1]]')", "gx_expm_frechet: A is 2x2 but E is 1x1"),
    ("gx_solve_circulant('[1,1]', '[1,2]')", "gx_solve_circulant: the circulant matrix is singular"),
    ("gx_solve_circulant('[1,2]', '[1,2,3]')", "gx_solve_circulant: c is 2x1 but B is 3x1"),
    ("gx_subspace_angles('[[1],[2]]', '[[1]]')", "gx_subspace_angles: A is 2x1 but B is 1x1"),
    ("gx_solve_banded(1, 1, '[[0,1],[0,0],[1,0]]', '[1,2]')", ""),
    ("gx_solve_banded(0, 0, '[[0,1]]', '[1,2]')", "gx_solve_banded: ab is singular (pivot 1 is exactly zero)"),
    ("gx_solve_banded(1, 0, '[[1,1]]', '[1,2]')", "gx_solve_banded: ab is 1x2, but 1 bands below the diagonal and 0 above it have l + u + 1 rows"),
    ("gx_solve_banded(0, 0, '[[1,1]]', '[1,2,3]')", "gx_solve_banded: ab has bands of a 2x2 matrix but B is 3x1"),
    ("gx_solve_banded(0, 0, '[[1,\"nan\"]]', '[1,2]')", "gx_solve_banded: ab[0,1] is not finite"),
    ("gx_solve_banded(-1, 2, '[[1],[1]]', '[1]')", "gx_solve_banded: ab is 2x1, but -1 bands"),
    ("gx_solve_banded(0.5, 0, '[[1]]', '[1]')", "gx_solve_banded: l must be a whole number, not 0.5"),
    ("gx_eval('hilbert(-1)')", "gx_eval: line 1, column 1: n must be from 0 to 2^40, not -1"),
    ("gx_eval('hilbert(1e12)')", "gx_eval: line 1, column 1: "),
    ("gx_eval('dft(2.5)')", "gx_eval: line 1, column 1: n must be a whole number, not 2.5"),
    ("gx_eval('cdf2rdf([1i, 1i], [[1, 1], [1, 1]])')", "gx_eval: line 1, column 1: conjugate values are not beside each other"),
    ("gx_eval('cdf2rdf([1, 2], eye(2))')", "gx_eval: line 1, column 1: cdf2rdf is of complex numbers"),
    ("gx_eval('cossin([[1, 2], [3, 4]], 1, 1)')", "gx_eval: line 1, column 1: the operand is not unitary (orthogonal): its columns times themselves are off by 19"),
    ("gx_eval('cossin(eye(3), 0, 1)')", "gx_eval: line 1, column 1: p and q must be from 1 to 2, not 0 and 1"),
    ("gx_eval('balance([[1, 2, 3]])')", "gx_eval: line 1, column 1: the operand is 1x3, but this is of a square matrix"),
    ("gx_eval('fht([1, 2], [1, 2], 0)')", "gx_eval: line 1, column 1: dln is 2x1, but a number is wanted"),
    ("gx_eval('fht([1i, 2], 0.1, 0)')", "gx_eval: line 1, column 1: fht is of real numbers"),
    ("gx_eval('require(1, [1, 2], ''x'')')", "gx_eval: line 1, column 1: the operand is 2x1, but a condition is a number"),
    ("gx_eval('require(1, 1, 2)')", "gx_eval: line 1, column 1: what is said where the condition is 0 is a text in quotes"),
    ("gx_eval('next_fast_len(0)')", "gx_eval: line 1, column 1: n must be from 1 to 2^40, not 0"),
    ("gx_eval('cosm(S)')", "gx_eval: line 1, column 1: S is sparse"),
    ("gx_eval('slogdet(m)')", "gx_eval: line 1, column 1: slogdet means nothing of whole numbers modulo 2^31 - 1 (m31)"),
])
def test_refused(db, text, said):
    db.execute("SELECT gx_sparse('[[1,0],[0,1]]', 'S'), gx_cast('[[1,2],[3,4]]', 'm31', 'm')").fetchall()
    if said == "":  # a pivot from below
        assert to_numpy(q(db, f"SELECT {text}")).tolist() == [[2], [1]]
    else:
        assert error(db, f"SELECT {text}").startswith(said)


def test_memory_limit(filedb):
    db = filedb
    q(db, "SELECT gx_config('tile_bytes', 65536)")
    db.execute("SELECT gx_randn(300, 300, 'A'), gx_randn(41, 20000, 'ab'), gx_randn(20000, 1, 'b')").fetchall()
    q(db, "SELECT gx_config('memory_limit', '3MB')")
    for call in ("gx_signm('A')", "gx_cosm('A')", "gx_solve_banded(20, 20, 'ab', 'b')", "gx_eval('expm_cond(A[0:40, 0:40])')", "gx_eval('hilbert(2000) + 1')"):
        assert "memory" in error(db, f"SELECT {call}"), call
    q(db, "SELECT gx_config('memory_limit', '1GB')")
    assert q(db, "SELECT gx_shape(gx_solve_banded(20, 20, 'ab', 'b'))") == "[20000,1]"


@pytest.mark.parametrize("call", ["gx_signm('A')", "gx_solve_banded(200, 200, 'ab', 'b')", "gx_eval('norm(tanm(A))')"])
def test_interrupt(filedb, call):
    db = filedb
    db.execute("SELECT gx_randn(700, 700, 'A'), gx_randn(401, 20000, 'ab'), gx_randn(20000, 1, 'b')").fetchall()
    assert interrupt(db, f"SELECT length({call})", 0.1) is not None
    assert q(db, "SELECT count(*) FROM gx") == 3
