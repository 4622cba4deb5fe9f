"""gx_schur, gx_hessenberg, gx_polar, gx_ldl, gx_orth, gx_qz, gx_qr with pivots, and matrix equations: what LAPACK computes in memory.

Plan:
  1  LAPACK's ratios below 30 over dtypes x shapes and over the gallery, with huge and tiny scales: what the parts come to is A,
     orthonormal parts are so, triangles are triangles.
  2  SciPy says the same where its result is unique: eigenvalues in T's order with "sort", |R| of a pivoted QR, P of polar, L and D.
  3  Stored parts and the table are the same; programs too; several names or none, replace.
  4  Refusals to the letter; no part is left behind.
  5  memory_limit is kept, with the bytes in the message; deterministic mode: the same bits for every number of threads.
  6  Equations: residuals, SciPy's results, stable closed loops; equations without a solution are refused in words.
"""
import numpy as np
import pytest
import scipy.linalg

from conftest import error, from_numpy, q, to_numpy

NUMPY = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}
ORDERS = [0, 1, 2, 3, 5, 10, 33, 64, 65, 130]
SHAPES = [(0, 0), (1, 1), (2, 2), (5, 5), (50, 50), (70, 3), (3, 70), (65, 64), (1, 9), (9, 1), (0, 4), (4, 0)]
GALLERY = ["chow", "clement", "frank", "grcar", "hilb", "jordbloc", "kahan", "lesp", "magic", "tridiag", "forsythe", "circul"]
SYMMETRIC = ["fiedler", "hilb", "kms", "lehmer", "minij", "pascal", "wilkinson", "moler"]


def random_matrix(rng, rows, cols, dtype):
    x = rng.standard_normal((rows, cols))
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal((rows, cols))
    return np.asfortranarray(x.astype(NUMPY[dtype]))


def table(db, name, a, options="{}"):
    rows = db.execute(f"SELECT part, value FROM {name}(?, ?)", (from_numpy(a), options)).fetchall()
    return {part: to_numpy(value) for part, value in rows}


def gallery(db, kind, n=24):
    return to_numpy(q(db, "SELECT gx_matrix_gallery(?, ?)", kind, n))


def wide(*arrays):
    return [x.astype(np.complex128) for x in arrays]


def below(error_norm, scale, n, eps, what):
    """LAPACK's ratio: the error by n eps times the scale."""
    if scale > 0:
        assert error_norm / scale < 30 * max(1, n) * eps, (what, error_norm / scale / (max(1, n) * eps))


def is_orthonormal(x, eps, what):
    (x,) = wide(x)
    k = x.shape[1]
    below(np.linalg.norm(x.conj().T @ x - np.eye(k)) if k else 0, 1, max(x.shape), eps, what)


def eps_of(a):
    return np.finfo(a.dtype).eps


def norm(x):
    return np.linalg.norm(x) if x.size else 0.0


def check_schur(a, parts, is_real):
    t, z = parts["T"], parts["Z"]
    n = a.shape[0]
    assert t.shape == z.shape == (n, n)
    assert not np.tril(t, -2 if is_real else -1).any()
    if is_real and n > 2:  # no two 2 x 2 blocks share a row
        below_diagonal = np.diag(t, -1) != 0
        assert not (below_diagonal[1:] & below_diagonal[:-1]).any()
    is_orthonormal(z, eps_of(a), "Z")
    wa, wt, wz = wide(a, t, z)
    below(norm(wz @ wt @ wz.conj().T - wa), norm(wa), n, eps_of(a), "Z T Z^H")


@pytest.mark.parametrize("dtype", NUMPY)
def test_schur_and_hessenberg(db, dtype):
    rng = np.random.default_rng(2)
    for n in ORDERS:
        a = random_matrix(rng, n, n, dtype)
        parts = table(db, "gx_schur", a)
        assert parts["T"].dtype == a.dtype
        check_schur(a, parts, not dtype.startswith("c"))
        if n:
            check_schur(a, table(db, "gx_schur", a, '{"output":"complex"}'), False)
        parts = table(db, "gx_hessenberg", a)
        h, z = parts["H"], parts["Q"]
        assert not np.tril(h, -2).any() and h.dtype == z.dtype == a.dtype
        is_orthonormal(z, eps_of(a), "Q")
        wa, wh, wz = wide(a, h, z)
        below(norm(wz @ wh @ wz.conj().T - wa), norm(wa), n, eps_of(a), "Q H Q^H")


@pytest.mark.parametrize("scale", [1, 1e-150, 1e150])
def test_gallery(db, scale):
    for kind in GALLERY:
        a = np.asfortranarray(gallery(db, kind) * scale)
        check_schur(a, table(db, "gx_schur", a), True)
        parts = table(db, "gx_hessenberg", a)
        below(norm(parts["Q"] @ (parts["H"] / scale) @ parts["Q"].T - a / scale), norm(a / scale), 24, eps_of(a), kind)
        check_polar(a / scale, {k: v / (scale if k == "P" else 1) for k, v in table(db, "gx_polar", a).items()}, "right")
        check_pivoted(a / scale, {k: v / (scale if k == "R" else 1) for k, v in pivoted(db, a).items()})
    for kind in SYMMETRIC:
        a = np.asfortranarray(gallery(db, kind) * scale)
        check_ldl(a / scale, {k: v / (scale if k == "D" else 1) for k, v in table(db, "gx_ldl", a).items()}, True)


SORTS = {"lhp": lambda x: x.real < 0, "rhp": lambda x: x.real >= 0, "iuc": lambda x: abs(x) <= 1, "ouc": lambda x: abs(x) > 1}


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("sort", SORTS)
def test_sorted(db, dtype, sort):
    rng = np.random.default_rng(3)
    for n in (1, 2, 7, 40):
        a = random_matrix(rng, n, n, dtype)
        a /= np.array(max(0.5, np.sqrt(n)), a.dtype)
        for output in ("auto", "complex"):
            parts = table(db, "gx_schur", a, '{"sort":"%s","output":"%s"}' % (sort, output))
            is_real = not np.iscomplexobj(parts["T"])
            check_schur(a, parts, is_real)
            values = diagonal_values(parts["T"])
            first = [bool(SORTS[sort](x)) for x in values]
            assert first == sorted(first, reverse=True), (n, values)
            count = scipy.linalg.schur(a.astype(np.complex128), output="complex", sort=sort)[2]
            assert sum(first) == count


def diagonal_values(t):
    """The eigenvalues down the diagonal of a triangle with 2 x 2 blocks."""
    values, i = [], 0
    while i < len(t):
        size = 2 if i + 1 < len(t) and t[i + 1, i] != 0 else 1
        values.extend(np.linalg.eigvals(t[i:i + size, i:i + size]))
        i += size
    return values


def check_polar(a, parts, side):
    u, p = parts["U"], parts["P"]
    m, n = a.shape
    eps = eps_of(a)
    assert u.shape == (m, n) and p.shape == ((n, n) if side == "right" else (m, m))
    is_orthonormal(u if m >= n else u.conj().T, eps, "U")
    assert (p == p.conj().T).all()
    wa, wu, wp = wide(a, u, p)
    below(norm((wu @ wp if side == "right" else wp @ wu) - wa), norm(wa), max(m, n), eps, "U P")
    if p.size:
        assert np.linalg.eigvalsh(wp).min() >= -30 * max(m, n) * eps * norm(wa)


@pytest.mark.parametrize("dtype", NUMPY)
def test_polar_orth(db, dtype):
    rng = np.random.default_rng(4)
    for m, n in SHAPES:
        a = random_matrix(rng, m, n, dtype)
        for side in ("right", "left"):
            parts = table(db, "gx_polar", a, '{"side":"%s"}' % side)
            check_polar(a, parts, side)
            if min(m, n):
                said = scipy.linalg.polar(a.astype(np.complex128), side)
                below(norm(said[1] - parts["P"]), norm(a), max(m, n), eps_of(a), "P")
        basis = to_numpy(q(db, "SELECT gx_orth(?)", from_numpy(a)))
        assert basis.shape == (m, min(m, n)) and basis.dtype == a.dtype
        is_orthonormal(basis, eps_of(a), "orth")
        low = np.asfortranarray(random_matrix(rng, m, 2, dtype) @ random_matrix(rng, 2, n, dtype))
        basis = to_numpy(q(db, "SELECT gx_orth(?, '{\"rcond\":1e-4}')", from_numpy(low)))
        assert basis.shape == (m, min(m, n, 2))
        below(norm(basis @ (basis.conj().T @ low) - low), norm(low), max(m, n), eps_of(a), "range")


def test_polar_singular(db):
    """P may be singular; of zeros U is still orthonormal."""
    for a in (np.zeros((4, 3)), np.ones((3, 3)), np.diag([1.0, 0, 2]), np.ones((2, 5))):
        check_polar(a, table(db, "gx_polar", np.asfortranarray(a)), "right")


def check_ldl(a, parts, is_hermitian):
    l, d, p = parts["L"], parts["D"], parts["p"][:, 0].astype(int)
    n = a.shape[0]
    assert sorted(p) == list(range(n))
    lower = l[p] if n else l
    assert not np.triu(lower, 1).any() and (np.diag(lower) == 1).all()
    assert not np.tril(d, -2).any()
    if n > 2:
        pairs = np.diag(d, -1) != 0
        assert not (pairs[1:] & pairs[:-1]).any()
    wl, wd, wa = wide(l, d, a)
    below(norm(wl @ wd @ (wl.conj().T if is_hermitian else wl.T) - wa), norm(wa), n, eps_of(a), "L D L^H")


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("kind", ["hermitian", "symmetric"])
def test_ldl(db, dtype, kind):
    rng = np.random.default_rng(5)
    for n in ORDERS:
        for zeros in (False, True):
            x = random_matrix(rng, n, n, dtype)
            a = np.asfortranarray(x + (x.conj().T if kind == "hermitian" else x.T))
            if zeros:
                np.fill_diagonal(a, 0)  # every pivot is a block
            parts = table(db, "gx_ldl", a)
            check_ldl(a, parts, kind == "hermitian")
            if n and n <= 33:
                said = scipy.linalg.ldl(a, hermitian=kind == "hermitian")
                assert (parts["p"][:, 0] == said[2]).all()
                for one, other in zip((parts["L"], parts["D"]), said):
                    assert np.allclose(one, other, rtol=0, atol=200 * n * eps_of(a) * max(1, norm(other)))


def pivoted(db, a, more=""):
    return table(db, "gx_qr", a, '{"pivot":true%s}' % more)


def check_pivoted(a, parts, is_full=False):
    qq, r, p = parts["Q"], parts["R"], parts["p"][:, 0].astype(int)
    m, n = a.shape
    k = m if is_full else min(m, n)
    assert qq.shape == (m, k) and r.shape == (k, n) and sorted(p) == list(range(n))
    assert not np.tril(r, -1).any()
    eps = eps_of(a)
    is_orthonormal(qq, eps, "Q")
    wa, wq, wr = wide(a, qq, r)
    below(norm(wq @ wr - wa[:, p]), norm(wa), max(m, n), eps, "Q R")
    size = abs(np.diag(wr))
    assert (size[1:] <= size[:-1] * (1 + 100 * eps) + 30 * max(m, n) * eps * norm(wa)).all()


@pytest.mark.parametrize("dtype", NUMPY)
def test_pivoted_qr(db, dtype):
    rng = np.random.default_rng(6)
    for m, n in SHAPES:
        a = random_matrix(rng, m, n, dtype)
        check_pivoted(a, pivoted(db, a))
        check_pivoted(a, pivoted(db, a, ',"mode":"full"'), True)
        if min(m, n):
            r, p = scipy.linalg.qr(a, mode="r", pivoting=True)
            parts = pivoted(db, a)
            assert (parts["p"][:, 0] == p).all()
            below(norm(abs(parts["R"]) - abs(r[:min(m, n)])), norm(a), max(m, n), eps_of(a), "R")
    low = np.asfortranarray(rng.standard_normal((30, 4)) @ rng.standard_normal((4, 20)))
    size = abs(np.diag(pivoted(db, low)["R"]))
    assert (size > 1e-10).sum() == 4


def pair(db, a, b, options="{}"):
    return {part: to_numpy(value) for part, value in db.execute("SELECT part, value FROM gx_qz(?, ?, ?)", (from_numpy(a), from_numpy(b), options))}


@pytest.mark.parametrize("dtype", NUMPY)
def test_qz(db, dtype):
    rng = np.random.default_rng(61)
    for n in ORDERS:
        for scale in (1, 1e-20, 1e20) if n == 33 and dtype in ("f64", "c128") else (1,):
            a, b = random_matrix(rng, n, n, dtype) * scale, random_matrix(rng, n, n, dtype) / scale
            for options, form in [("{}", dtype), ('{"output":"complex"}', "c" + dtype[1:] if dtype.startswith("c") else {"f64": "c128", "f32": "c64"}[dtype])]:
                parts = pair(db, a, b, options)
                assert all(x.dtype == NUMPY[form] and x.shape == (n, n) for x in parts.values())
                assert not np.tril(parts["S"], -1 if form.startswith("c") else -2).any() and not np.tril(parts["T"], -1).any()
                S, T, Q, Z = wide(*(parts[key] for key in "STQZ"))
                is_orthonormal(parts["Q"], eps_of(a), "Q")
                is_orthonormal(parts["Z"], eps_of(a), "Z")
                below(norm(Q @ S @ Z.conj().T - a), norm(a), n, eps_of(a), "Q S Z^H")
                below(norm(Q @ T @ Z.conj().T - b), norm(b), n, eps_of(a), "Q T Z^H")
    low = random_matrix(rng, 8, 8, dtype)
    low[:, 3] = low[:, 5]  # an infinite value, and so a 0 on T's diagonal
    T = pair(db, random_matrix(rng, 8, 8, dtype), low)["T"]
    assert abs(np.diag(T)).min() < 100 * eps_of(low) * norm(low)


@pytest.mark.parametrize("sort", ["lhp", "rhp", "iuc", "ouc"])
def test_qz_sorted(db, sort):
    rng = np.random.default_rng(62)
    a, b = random_matrix(rng, 20, 20, "f64"), random_matrix(rng, 20, 20, "f64")
    first = {"lhp": lambda w: w.real < 0, "rhp": lambda w: w.real >= 0, "iuc": lambda w: abs(w) <= 1, "ouc": lambda w: abs(w) > 1}[sort]
    parts = pair(db, a, b, f'{{"sort":"{sort}","output":"complex"}}')
    w = np.diag(parts["S"]) / np.diag(parts["T"])
    is_first = first(w)
    assert list(is_first) == sorted(is_first, reverse=True) and 0 < is_first.sum() < 20
    values = scipy.linalg.eigvals(a, b)
    assert all(abs(values - x).min() < 1e-9 * abs(x) for x in w)


def test_qz_stored_and_refused(filedb):
    db = filedb
    db.execute("SELECT gx_store('A', '[[1,2],[3,4]]'), gx_store('B', '[[2,0],[1,1]]')").fetchall()
    assert q(db, "SELECT gx_qz('A', 'B', '{\"s\":\"S\",\"t\":\"T\",\"q\":\"Q\",\"z\":\"Z\"}')") == "S"
    assert q(db, "SELECT gx_eval('norm(Q @ S @ Z.T - A) + norm(Q @ T @ Z.T - B) < 1e-14')") == 1
    assert q(db, "SELECT gx_eval('S, T, Q, Z = qz(A, B + 0i); norm(Q @ S @ Z.H - A) + norm(Q @ T @ Z.H - B) < 1e-14')") == 1
    for call, text in [("'A', '[[1]]', '{\"s\":\"x\"}'", "gx_qz: A is 2x2 but B is 1x1"), ("'[[1,2]]', '[[1,2]]', '{\"s\":\"x\"}'", "square"),
                       ("'A', '[[1,\"nan\"],[0,1]]', '{\"s\":\"x\"}'", "gx_qz: B has NaN at (0, 1)"), ("'A', 'B'", "no part has a name"),
                       ("'A', gx_sparse('A'), '{\"s\":\"x\"}'", "is sparse"),
                       ("'A', '[[\"1i\",0],[0,1]]', '{\"s\":\"x\",\"output\":\"real\"}'", "cannot be")]:
        assert text in error(db, f"SELECT gx_qz({call})"), call
    assert "a pair is of one shape" in error(db, "SELECT gx_eval('qz(A, eye(3))')")
    assert db.execute("SELECT count(*) FROM gx").fetchone()[0] == 6
    assert q(db, "SELECT gx_randn(300, 300, 'big')") == "big"
    q(db, "SELECT gx_config('tile_bytes', '64KiB')")
    q(db, "SELECT gx_config('memory_limit', '1500KiB')")
    assert "memory_limit" in error(db, "SELECT length(value) FROM gx_qz('big', 'big')")


CALLS = {"gx_schur": "tz", "gx_hessenberg": "hq", "gx_polar": "up", "gx_ldl": "ldp", "gx_qr": "qrp"}


@pytest.mark.parametrize("name", CALLS)
def test_stored(filedb, name):
    rng = np.random.default_rng(7)
    x = rng.standard_normal((9, 9))
    a = np.asfortranarray(x + x.T)
    db, keys, more = filedb, CALLS[name], '"pivot":true,' if name == "gx_qr" else ""
    assert q(db, "SELECT gx_store('A', ?)", from_numpy(a)) == "A"
    parts = table(db, name, a, "{%s}" % more.rstrip(","))
    names = ",".join(f'"{key}":"part_{key}"' for key in keys)
    assert q(db, f"SELECT {name}('A', '{{{more}{names}}}')") == f"part_{keys[0]}"
    for key, (part, value) in zip(keys, parts.items()):
        assert part.lower() == key
        assert (to_numpy(q(db, f"SELECT gx_copy('part_{key}')")) == value).all()
    assert "already exists" in error(db, f"SELECT {name}('A', '{{{more}{names}}}')")
    assert q(db, f"SELECT {name}('A', '{{{more}{names},\"replace\":true}}')") == f"part_{keys[0]}"
    last = keys[-1]
    assert q(db, f"SELECT {name}('A', '{{{more}\"{last}\":\"alone\"}}')") == "alone"
    assert db.execute("SELECT count(*) FROM gx").fetchone()[0] == 2 + len(keys)
    assert db.execute(f"SELECT part FROM {name}('A', '{{{more.rstrip(',')}}}')").fetchall() == [(p,) for p in parts]


def test_programs(db):
    rng = np.random.default_rng(8)
    a = rng.standard_normal((12, 12))
    assert q(db, "SELECT gx_store('A', ?)", from_numpy(a)) == "A"
    for text in ("T, Z = schur(A); norm(Z @ T @ Z.T - A)", "H, Q = hessenberg(A); norm(Q @ H @ Q.T - A)",
                 "U, P = polar(A); norm(U @ P - A)", "L, D, p = ldl(A + A.T); norm(L @ D @ L.T - A - A.T)",
                 "T, Z = schur(A + 0i); norm(Z @ T @ Z.H - A)", "U, P = polar(A[0:5, :]); norm(U @ P - A[0:5, :])"):
        assert q(db, "SELECT gx_eval(?)", text) < 1e-12, text
    _, _, p = scipy.linalg.ldl(a + a.T)
    assert (to_numpy(q(db, "SELECT gx_eval('L, D, p = ldl(A + A.T); p + 0')"))[:, 0] == p).all()


def test_refusals(db):
    for name, key in (("gx_schur", "t"), ("gx_hessenberg", "h"), ("gx_ldl", "l")):
        said = error(db, f"SELECT {name}('[[1,2,3]]', '{{\"{key}\":\"x\"}}')")
        assert said == f"{name}: A is 1x3, but this is for square matrices"
    for name, key in (("gx_schur", "t"), ("gx_hessenberg", "h"), ("gx_ldl", "l"), ("gx_polar", "u")):
        call = f"SELECT {name}(?, '{{\"{key}\":\"x\"}}')"
        for value, word in ((np.nan, "NaN"), (np.inf, "Inf")):
            a = np.eye(3)
            a[1, 1] = value
            assert error(db, call, from_numpy(a)) == f"{name}: A has {word} at (1, 1)"
        assert "is sparse" in error(db, call.replace("?", "gx_sparse('[[1,0],[0,1]]')"))
        assert "m31" in error(db, call.replace("?", "gx_cast('[[1,0],[0,1]]', 'm31')"))
        assert error(db, f"SELECT {name}('[[1]]')") == (
            f"{name}: no part has a name to be stored under; the table {name}(A) has them as values")
    assert error(db, "SELECT gx_schur('[[1]]', '{\"t\":\"x\",\"z\":\"x\"}')") == "gx_schur: two results cannot both be stored as 'x'"
    assert error(db, "SELECT gx_schur('[[\"1i\"]]', '{\"t\":\"x\",\"output\":\"real\"}')") == (
        'gx_schur: A is complex, and its Schur form with it: "output" cannot be "real"')
    assert error(db, "SELECT gx_ldl('[[1,2],[3,4]]', '{\"l\":\"x\"}')") == "gx_ldl: A is not symmetric (A[1,0] = 3.0, A[0,1] = 2.0)"
    assert "A is not Hermitian" in error(db, "SELECT gx_ldl('[[1,2],[3,\"4i\"]]', '{\"l\":\"x\"}')")
    assert error(db, "SELECT gx_qr('[[1]]', '{\"q\":\"Q\",\"p\":\"p\"}')") == 'gx_qr: "p" is the order of the columns of a QR with "pivot":true'
    assert error(db, "SELECT gx_qr('[[1]]', 'F', '{\"pivot\":true}')") == (
        'gx_qr: a QR with "pivot" is stored as its parts "q", "r" and "p", without a destination')
    assert "output" in error(db, "SELECT * FROM gx_schur('[[1]]', '{\"output\":\"x\"}')")
    assert db.execute("SELECT count(*) FROM gx").fetchone()[0] == 0


def test_memory(filedb):
    db = filedb
    assert q(db, "SELECT gx_randn(400, 400, 'A')") == "A"
    q(db, "SELECT gx_store('S', gx_eval('A + A.T'))")
    q(db, "SELECT gx_config('tile_bytes', '64KiB')")
    q(db, "SELECT gx_config('memory_limit', '1500KiB')")
    for name in CALLS:
        more = '{"pivot":true}' if name == "gx_qr" else "{}"
        said = error(db, f"SELECT length(value) FROM {name}('S', '{more}')")
        assert "memory_limit" in said and "bytes" in said and "S (400x400 f64)" in said, said


def test_deterministic(db):
    q(db, "SELECT gx_config('deterministic', 'on')")
    assert q(db, "SELECT gx_randn(150, 150, 'A')") == "A"
    bits = set()
    for threads in (1, 2, 4):
        q(db, "SELECT gx_config('threads', ?)", threads)
        bits.add(tuple(db.execute("SELECT value FROM gx_schur('A') UNION ALL SELECT value FROM gx_hessenberg('A') UNION ALL "
                                  "SELECT value FROM gx_polar('A') UNION ALL "
                                  "SELECT value FROM gx_qr('A', '{\"pivot\":true}')").fetchall()))
    assert len(bits) == 1


def solve(db, name, *mats, options="{}"):
    marks = ", ".join("?" for _ in mats)
    return to_numpy(q(db, f"SELECT {name}({marks}, ?)", *[from_numpy(np.asfortranarray(x)) for x in mats], options))


@pytest.mark.parametrize("dtype", NUMPY)
def test_sylvester(db, dtype):
    rng = np.random.default_rng(9)
    number = NUMPY[dtype]
    for m, n in [(0, 0), (0, 3), (1, 1), (2, 5), (7, 3), (64, 65), (130, 40), (33, 150)]:
        a = random_matrix(rng, m, m, dtype) + number(2 * np.sqrt(max(m, 1))) * np.eye(m, dtype=number)
        b = random_matrix(rng, n, n, dtype) + number(2 * np.sqrt(max(n, 1))) * np.eye(n, dtype=number)
        c = random_matrix(rng, m, n, dtype)
        x = to_numpy(q(db, "SELECT gx_sylvester(?, ?, ?)", *map(from_numpy, (a, b, c))))
        assert x.dtype == c.dtype and x.shape == (m, n)
        wa, wb, wc, wx = wide(a, b, c, x)
        below(norm(wa @ wx + wx @ wb - wc), (norm(wa) + norm(wb)) * norm(wx), max(m, n), eps_of(a), "sylvester")
    real, other = rng.standard_normal((5, 5)), rng.standard_normal((4, 4)) + 1j * rng.standard_normal((4, 4))
    c = np.asfortranarray(rng.standard_normal((5, 4)).astype(np.float32))
    x = to_numpy(q(db, "SELECT gx_sylvester(?, ?, ?)", *map(from_numpy, (real, other, c))))
    assert x.dtype == np.complex128
    assert np.allclose(x, scipy.linalg.solve_sylvester(real + 0j, other, c.astype(complex)), atol=1e-11)


def test_sylvester_gallery(db):
    for kind in GALLERY:
        a = gallery(db, kind, 20)
        b = gallery(db, "tridiag", 9) + np.eye(9) * 100
        c = np.arange(180.0).reshape(20, 9)
        x = to_numpy(q(db, "SELECT gx_sylvester(?, ?, ?)", *map(from_numpy, (a, b, c))))
        below(norm(a @ x + x @ b - c), (norm(a) + norm(b)) * norm(x), 20, eps_of(a), kind)


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("discrete", [False, True])
def test_lyapunov(db, dtype, discrete):
    rng = np.random.default_rng(10)
    options = '{"discrete":true}' if discrete else "{}"
    number = NUMPY[dtype]
    for n in (0, 1, 2, 5, 33, 64, 100):
        a = random_matrix(rng, n, n, dtype) / number(3 * np.sqrt(max(n, 1)))
        if not discrete:
            a = a - np.eye(n, dtype=number)
        for hermitian in (False, True):
            c = random_matrix(rng, n, n, dtype)
            c = c + c.conj().T if hermitian else c
            x = solve(db, "gx_lyapunov", a, c, options=options)
            assert x.dtype == c.dtype
            if hermitian:
                assert (x == x.conj().T).all()
            wa, wc, wx = wide(a, c, x)
            rest = wx - wa @ wx @ wa.conj().T - wc if discrete else wa @ wx + wx @ wa.conj().T - wc
            below(norm(rest), (1 + norm(wa)) ** 2 * norm(wx), n, eps_of(a), "lyapunov")
            if n in (2, 5):
                said = (scipy.linalg.solve_discrete_lyapunov if discrete else scipy.linalg.solve_continuous_lyapunov)(wa, wc)
                assert np.allclose(x, said, rtol=1e5 * eps_of(a), atol=1e5 * eps_of(a))


def riccati_rest(a, b, c, r, x, discrete):
    """What is left of the equation, and the gain K."""
    if discrete:
        k = np.linalg.solve(r + b.conj().T @ x @ b, b.conj().T @ x @ a)
        return a.conj().T @ x @ a - a.conj().T @ x @ b @ k + c - x, k
    k = np.linalg.solve(r, b.conj().T @ x)
    return a.conj().T @ x + x @ a - x @ b @ k + c, k


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("discrete", [False, True])
def test_riccati(db, dtype, discrete):
    rng = np.random.default_rng(11)
    solver = scipy.linalg.solve_discrete_are if discrete else scipy.linalg.solve_continuous_are
    for n, m in [(1, 1), (2, 1), (3, 2), (8, 3), (30, 4), (4, 6)]:
        a, b = random_matrix(rng, n, n, dtype), random_matrix(rng, n, m, dtype)
        a = a / NUMPY[dtype](np.sqrt(n))
        if discrete and n > 2:
            a[:, 0] = 0  # a singular A
        c, r = random_matrix(rng, n, n, dtype), random_matrix(rng, m, m, dtype)
        c, r = c @ c.conj().T, r @ r.conj().T + 2 * np.eye(m, dtype=NUMPY[dtype])
        c, r = (c + c.conj().T) / 2, (r + r.conj().T) / 2
        x = solve(db, "gx_riccati", a, b, c, r, options='{"discrete":true}' if discrete else "{}")
        assert x.dtype == a.dtype and (x == x.conj().T).all()
        said = solver(*wide(a, b, c, r))
        assert norm(x - said) <= (1e-9 if eps_of(a) < 1e-10 else 1e-5) * norm(said)
        if eps_of(a) < 1e-10:
            rest, k = riccati_rest(*wide(a, b, c, r, x), discrete)
            assert norm(rest) < 1e-9 * (1 + norm(x)) ** 2
            poles = np.linalg.eigvals(a - b @ k)
            assert (abs(poles) < 1).all() if discrete else (poles.real < 0).all()


def test_riccati_large(db):
    """X of norm 1e11: where SciPy's has a residual of 1e-6 of it."""
    rng = np.random.default_rng(11)
    a, b, c = rng.standard_normal((30, 30)), rng.standard_normal((30, 4)), rng.standard_normal((30, 30))
    c = c @ c.T
    c = (c + c.T) / 2
    x = solve(db, "gx_riccati", a, b, c, np.eye(4), options='{"discrete":true}')
    rest, k = riccati_rest(a, b, c, np.eye(4), x, True)
    assert norm(x) > 1e9 and norm(rest) < 1e-9 * norm(x)
    assert (abs(np.linalg.eigvals(a - b @ k)) < 1).all()


def test_riccati_known(db):
    """Laub 1979, examples 1 and 2; the double integrator."""
    x = solve(db, "gx_riccati", np.array([[0.0, 1], [0, 0]]), np.array([[0.0], [1]]), np.array([[1.0, 0], [0, 2]]), np.eye(1))
    assert np.allclose(x, [[2, 1], [1, 2]], atol=1e-14)
    a, b, c = np.array([[4.0, 3], [-4.5, -3.5]]), np.array([[1.0], [-1]]), np.array([[9.0, 6], [6, 4]])
    x = solve(db, "gx_riccati", a, b, c, np.eye(1))
    assert np.allclose(x, (1 + np.sqrt(2)) * c, rtol=1e-12)
    x = solve(db, "gx_riccati", a, b, c, np.eye(1), options='{"discrete":true}')
    assert np.allclose(x, scipy.linalg.solve_discrete_are(a, b, c, np.eye(1)), rtol=1e-10)


MEETS = "the equation has no solution, or many: the eigenvalues "
NONE = "there is no stabilising solution: the pencil has values on the "
EQUATIONS = {
    "gx_sylvester('[[1,2]]', '[[1]]', '[[1]]')": "A is 1x2, but it must be square",
    "gx_sylvester('[[1]]', '[[1,2]]', '[[1]]')": "B is 1x2, but it must be square",
    "gx_sylvester('[[1]]', '[[1]]', '[[1,2]]')": "Q is 1x2, but it must be 1x1 here",
    "gx_sylvester('[[1,2],[0,3]]', '[[-1]]', '[[1],[2]]')": MEETS + "1+0i of A and -1+0i of B add up to 0, within rounding",
    "gx_lyapunov('[[1]]', '[[1,2]]')": "Q is 1x2, but it must be 1x1 here",
    "gx_lyapunov('[[0,1],[-1,0]]', '[[1,0],[0,1]]')":
        MEETS + "0+1i of A and 0-1i of its conjugate transpose add up to 0, within rounding",
    "gx_lyapunov('[[2,0],[0,0.5]]', '[[1,0],[0,1]]', '{\"discrete\":true}')":
        MEETS + "2+0i of A and 0.5-0i of its conjugate transpose have the product 1, within rounding",
    "gx_riccati('[[1]]', '[[1],[2]]', '[[1]]', '[[1]]')": "B is 2x1, but it must be 1x1 here",
    "gx_riccati('[[1]]', '[[1,2]]', '[[1]]', '[[1]]')": "R is 1x1, but it must be 2x2 here",
    "gx_riccati('[[1]]', '[[1,2]]', '[[1]]', '[[1,2],[3,4]]')": "R is not symmetric (R[1,0] = 3.0, R[0,1] = 2.0)",
    "gx_riccati('[[1,0],[0,1]]', '[[1],[2]]', '[[1,2],[3,4]]', '[[1]]')": "Q is not symmetric (Q[1,0] = 3.0, Q[0,1] = 2.0)",
    "gx_riccati('[[1]]', '[[1]]', '[[1]]', '[[0]]')": "R is singular: the equation has no unique solution",
    "gx_riccati('[[0]]', '[[0]]', '[[1]]', '[[1]]')": NONE + "imaginary axis, or too near",
    "gx_riccati('[[1]]', '[[0]]', '[[1]]', '[[1]]', '{\"discrete\":true}')": NONE + "unit circle, or too near",
    "gx_riccati('[[1]]', '[[0]]', '[[1]]', '[[1]]')":
        "the stable subspace is singular (pivot 1 is zero): there is no stabilising solution",
}


@pytest.mark.parametrize("call", EQUATIONS)
def test_equation_refusals(db, call):
    name = call.split("(")[0]
    assert error(db, f"SELECT {call}") == f"{name}: {EQUATIONS[call]}"


def test_equation_operands(filedb):
    db = filedb
    for k in range(4):
        mats = [from_numpy(np.array([[np.nan if i == k else 1.0]])) for i in range(4)]
        assert f"{'ABQR'[k]} has NaN at (0, 0)" in error(db, "SELECT gx_riccati(?, ?, ?, ?)", *mats)
    assert "is sparse" in error(db, "SELECT gx_lyapunov(gx_sparse('[[1]]'), '[[1]]')")
    assert "m31" in error(db, "SELECT gx_lyapunov('[[1]]', gx_cast('[[1]]', 'm31'))")
    assert q(db, "SELECT gx_lyapunov('[[1]]', '[[1]]', 'X')") == "X" and q(db, "SELECT gx_get('X', 0, 0)") == 0.5
    assert "already exists" in error(db, "SELECT gx_lyapunov('[[1]]', '[[1]]', 'X')")
    q(db, "SELECT gx_config('tile_bytes', '64KiB')")
    q(db, "SELECT gx_randn(300, 300, 'A')")
    q(db, "SELECT gx_eye(300, 300, 'I')")
    q(db, "SELECT gx_config('memory_limit', '2MiB')")
    assert "memory_limit" in error(db, "SELECT gx_sylvester('A', 'A', 'A')")
    assert "memory_limit" in error(db, "SELECT gx_riccati('A', 'A', 'I', 'I')")


def test_equation_programs(db):
    for text in ("norm(sylvester([[1,2],[0,3]], [[4]], [[1],[2]]) - [3/35, 2/7])", "norm(lyapunov([[-1]], [[4]]) + 2)",
                 "norm(discrete_lyapunov([[0.5]], [[3]]) - 4)", "norm(riccati([[0]], [[1]], [[4]], [[1]]) - 2)",
                 "norm(discrete_riccati([[1]], [[1]], [[1]], [[1]]) - (1 + sqrt(5)) / 2)"):
        assert q(db, "SELECT gx_eval(?)", text) < 1e-14, text
    assert "Q is 3x3, but it must be 2x2 here" in error(db, "SELECT gx_eval('lyapunov(eye(2), eye(3))')")
