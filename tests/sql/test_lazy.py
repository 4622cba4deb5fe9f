"""Lazy matrices: expressions of stored ones that nobody multiplies out (gx_lazy, core/alg/by_parts.h).

Plan:
- random expressions of sums, products, Kronecker products, diagonals, permutations, Toeplitz and circulant matrices, blocks,
  transposes and conjugates, against NumPy: elements, products on both sides, traces, norms, systems, determinants, the text again;
- each way of solving by its name: the right numbers, and no elements made (order 90 000 within 64 MB);
- iterative methods of what is stored, blocks and expressions, either way round: the answer, by products alone; what they refuse;
- what would lose digits is looked at: refined, or factored as a whole; what is singular is said;
- programs: kron, outer, diag and eye are not made where products need them not;
- parts that devices keep are not sent again;
- what is no expression is refused in words, and nothing is left; forged layouts.
"""
import json
import sqlite3

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg

from conftest import error, from_numpy, gx_connect, q, to_numpy
from mockkit import child


def get(db, sql, *params):
    value = q(db, "SELECT " + sql, *params)
    return to_numpy(value) if isinstance(value, bytes) else np.array([[value]])


def put(db, name, array):
    q(db, "SELECT gx_store(?, ?, '{\"replace\":true}')", name, from_numpy(np.atleast_2d(array), exact=True))


def lazy(db, name, text):
    return q(db, "SELECT gx_lazy(?, ?, '{\"replace\":true}')", name, text)


# Random expressions -------------------------------------------------------------------------------

class Expressions:
    """Random expressions with the arrays that they should be."""

    def __init__(self, db, seed):
        self.db, self.rng, self.made = db, np.random.default_rng(seed), 0

    def stored(self, m, n, is_complex=None):
        name = f"s{self.made}"
        self.made += 1
        kind = self.rng.choice(["f8", "f8", "f8", "f4", "c16"]) if is_complex is None else "f8"
        a = self.rng.integers(-3, 4, (m, n)).astype(kind)
        if kind == "c16":
            a = a + 1j * self.rng.integers(-3, 4, (m, n))
        put(self.db, name, a)
        if self.rng.random() < 0.15 and kind != "c16":
            q(self.db, "SELECT gx_sparse(?, ?)", name, name + "p")
            name += "p"
        return name, a.astype(complex)

    def vector(self, n):
        row = self.rng.random() < 0.5
        name, a = self.stored(1 if row else n, n if row else 1, False)
        return name, a.ravel()

    def expression(self, m, n, depth):
        choices = ["stored", "turned", "sum", "scaled"]
        if depth > 0:
            choices += ["product", "product", "block", "named"]
            if m == n:
                choices += ["eye", "diagonal", "circulant", "permutation", "shifted"]
            choices += ["toeplitz"]
            choices += ["kron", "kron"]
        kind = self.rng.choice(choices) if depth > 0 else "stored"
        if kind == "stored" or m == 0 or n == 0:
            return self.stored(m, n)
        if kind == "turned":
            text, a = self.expression(n, m, depth - 1)
            op = self.rng.choice(["T", "H"])
            return f"({text}).{op}", a.T if op == "T" else a.conj().T
        if kind == "sum":
            one, a = self.expression(m, n, depth - 1)
            two, b = self.expression(m, n, depth - 1)
            return (f"({one} + {two})", a + b) if self.rng.random() < 0.5 else (f"({one} - {two})", a - b)
        if kind == "scaled":
            text, a = self.expression(m, n, depth - 1)
            return [(f"(2.5*{text})", 2.5 * a), (f"(-{text})", -a), (f"(conj({text}) / 4)", a.conj() / 4), (f"({text} * (1 - 2j))", a * (1 - 2j))][self.rng.integers(4)]
        if kind == "product":
            k = int(self.rng.integers(1, 6))
            one, a = self.expression(m, k, depth - 1)
            two, b = self.expression(k, n, depth - 1)
            return f"({one} @ {two})", a @ b
        if kind == "kron":
            p = [k for k in range(1, m + 1) if m % k == 0]
            r = [k for k in range(1, n + 1) if n % k == 0]
            p, r = int(self.rng.choice(p)), int(self.rng.choice(r))
            one, a = self.expression(p, r, depth - 1)
            two, b = self.expression(m // p, n // r, depth - 1)
            return f"kron({one}, {two})", np.kron(a, b)
        if kind == "block":
            i, j = int(self.rng.integers(0, m + 1)), int(self.rng.integers(0, n + 1))
            cells = [[self.expression(h, w, depth - 1) for w in (j, n - j)] for h in (i, m - i)]
            array = np.block([[a for _, a in row] for row in cells])
            texts = [[t for t, _ in row] for row in cells]
            if self.rng.random() < 0.4:
                texts[0][1] = "0"
                array[:i, j:] = 0
            return f"block([[{texts[0][0]}, {texts[0][1]}], [{texts[1][0]}, {texts[1][1]}]])", array
        if kind == "named":
            text, a = self.expression(m, n, depth - 1)
            name = f"L{self.made}"
            self.made += 1
            lazy(self.db, name, text)
            return name, a
        if kind == "eye":
            return f"eye({n})", np.eye(n) + 0j
        if kind == "shifted":
            k = int(self.rng.integers(-n + 1, n))
            name, v = self.vector(n - abs(k))
            return f"diag({name}, {k})", np.diag(v, k)
        if kind == "permutation":
            p = self.rng.permutation(n)
            name = f"p{self.made}"
            self.made += 1
            put(self.db, name, p.astype(self.rng.choice(["f8", "i4", "i8"])))
            return f"permutation({name})", (np.eye(n) + 0j)[p]
        if kind == "toeplitz":
            (one, c), (two, r) = self.vector(m), self.vector(n)
            return f"toeplitz({one}, {two})", scipy.linalg.toeplitz(c, r)
        name, v = self.vector(n)
        return (f"diag({name})", np.diag(v)) if kind == "diagonal" else (f"circulant({name})", scipy.linalg.circulant(v))


def check_one(db, made, m, n):
    text, a = made.expression(m, n, int(made.rng.integers(1, 5)))
    assert lazy(db, "K", text) == "K"
    again = q(db, "SELECT gx_lazy('K')")
    got = get(db, "gx_copy('K')")
    scale = max(1, np.abs(a).max(initial=0))
    if not np.iscomplexobj(got):
        assert np.abs(a.imag).max(initial=0) == 0, text
        a = a.real
    tol = (2e-5 if got.dtype.itemsize in (4,) or got.dtype == "c8" else 1e-11) * scale * (m + n)
    assert got.shape == a.shape and np.abs(got - a).max(initial=0) <= tol, (text, again)
    lazy(db, "again", again)
    assert np.array_equal(get(db, "gx_copy('again')"), got), (text, again)
    assert q(db, "SELECT gx_check('K')") == "ok"
    x, y = made.rng.integers(-2, 3, (n, 3)).astype("f8"), made.rng.integers(-2, 3, (m, 2)).astype("f8")
    put(db, "x", x)
    put(db, "y", y)
    for sql, want in [("gx_matmul('K', 'x')", a @ x), ("gx_eval('K.T @ y')", a.T @ y), ("gx_eval('K.H @ y')", a.conj().T @ y),
                      ("gx_eval('y.T @ K')", y.T @ a), ("gx_eval('2*(K @ x) - 1')", 2 * (a @ x) - 1), ("gx_eval('K @ K.H')", a @ a.conj().T)]:
        have = get(db, sql)
        assert have.shape == want.shape and np.abs(have - want).max(initial=0) <= tol * max(10, scale) * 20, (sql, text)
    i, j = int(made.rng.integers(0, m)), int(made.rng.integers(0, n))
    assert np.abs(get(db, "gx_slice('K', ?, ?, ?, ?)", i, m, j, n) - a[i:, j:]).max(initial=0) <= tol, text
    assert np.isclose(q(db, "SELECT gx_norm('K')"), np.linalg.norm(a), rtol=1e-5, atol=tol), text
    if m == n and np.iscomplexobj(a) is False:
        assert np.isclose(q(db, "SELECT gx_trace('K')"), np.trace(a), rtol=1e-5, atol=tol), text
        if np.linalg.cond(a) < 1e4 and got.dtype == "f8":
            assert np.allclose(get(db, "gx_solve('K', 'x')"), np.linalg.solve(a, x), rtol=1e-6, atol=1e-8), text
            assert np.allclose(get(db, "gx_inverse('K')"), np.linalg.inv(a), rtol=1e-6, atol=1e-8), text
            assert np.isclose(q(db, "SELECT gx_det('K')"), np.linalg.det(a), rtol=1e-8), text
            assert np.isclose(q(db, "SELECT gx_logdet('K')"), np.linalg.slogdet(a)[1], rtol=1e-8, atol=1e-8), text


@pytest.mark.parametrize("seed", range(12))
def test_random_expressions(filedb, seed):
    db = filedb
    q(db, "SELECT gx_config('deterministic', ?)", "on" if seed % 3 == 2 else "off")
    q(db, "SELECT gx_config('tile_bytes', ?)", [1024, 8192, 1 << 20][seed % 3])
    made = Expressions(db, seed)
    for _ in range(6):
        n = int(made.rng.integers(1, 25))
        check_one(db, made, n if made.rng.random() < 0.5 else int(made.rng.integers(1, 25)), n)
    assert q(db, "SELECT gx_check()") == "ok"


# Ways ---------------------------------------------------------------------------------------------

def positive(rng, n):
    a = rng.standard_normal((n, n))
    return a @ a.T / n + np.eye(n)


@pytest.fixture
def parts(filedb):
    db, n = filedb, 60
    rng = np.random.default_rng(7)
    h = rng.standard_normal((12, 12)) + 1j * rng.standard_normal((12, 12))
    arrays = {"A": positive(rng, 5), "B": positive(rng, 12), "C": rng.standard_normal((n, n)), "d": rng.random((n, 1)) + 0.5,
              "U": rng.standard_normal((n, 3)), "V": rng.standard_normal((n, 3)), "p": rng.permutation(n).astype("f8")[:, None],
              "G": positive(rng, 3), "S": positive(rng, n), "H": h + h.conj().T, "Z": h}
    for name, a in arrays.items():
        put(db, name, a)
    q(db, "SELECT gx_set_property('S', 'positive')")
    q(db, "SELECT gx_sparse('S', 'Sp')")
    arrays |= {"D": np.diag(arrays["d"].ravel()), "P": np.eye(n)[arrays["p"].ravel().astype(int)], "I": np.eye(n), "Sp": arrays["S"],
               "kron": np.kron, "block": np.block, "zeros": np.zeros, "conj": np.conj, "toeplitz": scipy.linalg.toeplitz}
    return db, arrays


WAYS = [  # what it is, for NumPy
    ("kron(A, B)", "kron(A, B)"), ("kron(A, B) + 0.1*eye(60)", "kron(A, B) + 0.1*I"), ("-2*kron(A, B).T", "-2*kron(A, B)"),
    ("diag(d)", "D"), ("diag(d) + U@V.T", "D + U@V.T"), ("diag(d) + 2*U@U.T", "D + 2*U@U.T"), ("U@G@U.T + S", "U@G@U.T + S"),
    ("U@G@U.T + 2*diag(d) + eye(60) - V@U.T", "U@G@U.T + 2*D + I - V@U.T"), ("permutation(p)@C", "P@C"), ("permutation(p)", "P"),
    ("permutation(p).T@diag(d)@permutation(p)", "P.T@D@P"), ("block([[S, U], [U.T, 0]])", "block([[S, U], [U.T, zeros((3, 3))]])"),
    ("block([[S, U], [V.T, -G]])", "block([[S, U], [V.T, -G]])"), ("block([[C, 0], [U.T, G]])", "block([[C, zeros((60, 3))], [U.T, G]])"),
    ("block([[C, U], [0, G]]).T", "block([[C, U], [zeros((3, 60)), G]]).T"),
    ("block([[kron(A, B), 0, U], [0, B, 0], [0, 0, G]])",
     "block([[kron(A, B), zeros((60, 12)), U], [zeros((12, 60)), B, zeros((12, 3))], [zeros((3, 72)), G]])"),
    ("kron(A, H) + 2*eye(60)", "kron(A, H) + 2*I"), ("kron(A, Z).H", "kron(A, Z).conj().T"), ("conj(kron(Z, A))*(1 + 2j)", "conj(kron(Z, A))*(1 + 2j)"),
    ("toeplitz(d) + 60*eye(60)", "toeplitz(d.ravel()) + 60*I"), ("Sp + U@U.T", "S + U@U.T"), ("block([[Sp, 1], [1, 0]])", "block([[S, I], [I, zeros((60, 60))]])"),
    ("C@C.T", "C@C.T"), ("block([[diag(d), U], [V.T, G]])", "block([[D, U], [V.T, G]])"), ("diag(d, 0) + diag(U@zeros(3, 1), 0)", "D"),
]


@pytest.mark.parametrize("text, meaning", WAYS)
def test_ways(parts, text, meaning):
    db, arrays = parts
    a = eval(meaning, {}, arrays)  # noqa: S307: of this file
    rng = np.random.default_rng(1)
    b = rng.standard_normal((len(a), 3))
    put(db, "b", b)
    lazy(db, "K", text)
    tol = 1e-13 * np.linalg.cond(a) + 1e-11
    assert np.allclose(get(db, "gx_copy('K')"), a, rtol=1e-12, atol=1e-12)
    for sql, want in [("gx_solve('K', 'b')", np.linalg.solve(a, b)), ("gx_eval('solve(K.T, b)')", np.linalg.solve(a.T, b)),
                      ("gx_inverse('K')", np.linalg.inv(a)), ("gx_eval('solve(K.H, b)')", np.linalg.solve(a.conj().T, b))]:
        assert np.allclose(get(db, sql), want, rtol=tol, atol=tol * np.abs(want).max()), sql
    assert np.isclose(q(db, "SELECT gx_logdet('K')"), np.linalg.slogdet(a)[1], rtol=1e-11, atol=1e-10)
    det = q(db, "SELECT gx_det('K')")
    if isinstance(det, float):
        assert np.isclose(det, np.linalg.det(a), rtol=1e-9)
    for kind, name in [(2, "fro"), (1, "1"), (np.inf, "inf")]:
        want = np.linalg.norm(a, "fro" if name == "fro" else kind)
        assert np.isclose(q(db, "SELECT gx_norm('K', ?)", name), want)
    if np.allclose(a, a.conj().T):
        values = np.linalg.eigvalsh(a)
        got = [v for v, in db.execute("SELECT value FROM gx_eig('K', '{\"k\":3,\"symmetric\":true}')")]
        assert np.allclose(np.sort(got), np.sort(values[np.argsort(-abs(values))][:3]))


@pytest.mark.parametrize("kind", ["symmetric", "general", "complex"])
def test_spectra_by_blocks(filedb, kind):
    db = filedb
    rng = np.random.default_rng(8)
    a = [rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if kind == "complex" else 0) for n in (30, 7, 1)]
    if kind == "symmetric":
        a = [x + x.T for x in a]
    for name, x in zip("ABC", a):
        put(db, name, x)
    q(db, "SELECT gx_lazy('M', 'block([[A, 0, 0, 0], [0, B, 0, 0], [0, 0, C, 0], [0, 0, 0, 2*eye(2)]])')")
    q(db, "SELECT gx_copy('M', 'copy')")
    whole = scipy.linalg.block_diag(*a, 2 * np.eye(2))
    for option in ("", ", '{\"symmetric\":true}'") if kind == "symmetric" else ("",):
        one, other = (np.array(db.execute(f"SELECT value, imag FROM gx_eig('{name}'{option})").fetchall()) for name in ("M", "copy"))
        assert one.shape == other.shape == (40, 2) and np.allclose(one, other, atol=1e-9), option
    want = np.linalg.svd(whole, compute_uv=False)
    assert np.allclose([s for s, in db.execute("SELECT sigma FROM gx_svd('M')")], want)
    assert np.allclose(get(db, "gx_eval('sort(abs(eigvals(M)))')").ravel(), np.sort(np.abs(np.linalg.eigvals(whole))))
    vector = get(db, "gx_eval('w, V = eig(M); V')") if kind == "symmetric" else None
    assert vector is None or np.allclose(np.abs(vector.T @ vector), np.eye(40), atol=1e-8)


def test_blocks_need_the_memory_of_one(filedb):
    db = filedb
    rng = np.random.default_rng(9)
    q(db, "SELECT gx_config('tile_bytes', 32768)")
    a = [rng.standard_normal((300, 300)) for _ in range(3)]
    for name, x in zip("ABC", a):
        put(db, name, x)
    lazy(db, "M", "block([[A, 0, 0], [0, B, 0], [0, 0, C]])")
    q(db, "SELECT gx_copy('M', 'copy')")
    q(db, "SELECT gx_config('memory_limit', '6MB')")
    assert "memory_limit" in error(db, "SELECT count(*) FROM gx_eig('copy')")
    values = [complex(*v) for v in db.execute("SELECT value, imag FROM gx_eig('M')")]
    assert np.allclose(np.sort(np.abs(values)), np.sort(np.abs(np.concatenate([np.linalg.eigvals(x) for x in a]))))


def test_nothing_is_multiplied_out(filedb):
    """Of order 90 000: elements would be 65 GB; 64 MB are allowed."""
    db, n = filedb, 300
    rng = np.random.default_rng(3)
    a, b, x, u = positive(rng, n), positive(rng, n), rng.standard_normal((n * n, 1)), rng.standard_normal((n * n, 4))
    d = rng.random(n * n) + 1
    for name, array in {"A": a, "B": b, "x": x, "U": u, "d": d}.items():
        put(db, name, array)
    q(db, "SELECT gx_config('memory_limit', '64MB')")
    lazy(db, "K", "kron(A, B)")
    lazy(db, "M", "kron(A, B) + 0.5*eye(90000)")
    lazy(db, "W", "U @ U.T + diag(d)")
    lazy(db, "T", "block([[M, U], [0, 2*eye(4)]])")
    x2 = x.reshape(n, n)
    for statement in ("gx_matmul('K', 'x')", "gx_eval('K @ x')", "gx_eval('kron(A, B) @ x')"):
        assert np.allclose(get(db, statement).reshape(n, n), a @ x2 @ b.T), statement
    m = a @ x2 @ b.T + 0.5 * x2
    put(db, "m", m.reshape(-1, 1))
    assert np.allclose(get(db, "gx_solve('M', 'm')"), x) and np.allclose(get(db, "gx_solve('T', ?)", from_numpy(np.vstack([m.reshape(-1, 1), np.zeros((4, 1))])))[:-4], x)
    values = np.outer(np.linalg.eigvalsh(a), np.linalg.eigvalsh(b))
    assert np.isclose(q(db, "SELECT gx_logdet('M')"), np.log(values + 0.5).sum())
    assert np.isclose(q(db, "SELECT gx_trace('M')"), np.trace(a) * np.trace(b) + 0.5 * n * n)
    assert np.isclose(q(db, "SELECT gx_norm('K')"), np.linalg.norm(a) * np.linalg.norm(b))
    w = u @ (u.T @ x) + d[:, None] * x
    put(db, "w", w)
    assert np.allclose(get(db, "gx_matmul('W', 'x')"), w) and np.allclose(get(db, "gx_solve('W', 'w')"), x)
    assert np.isclose(q(db, "SELECT gx_logdet('W')"), np.log(d).sum() + np.linalg.slogdet(np.eye(4) + u.T @ (u / d[:, None]))[1])
    assert np.isclose(q(db, "SELECT gx_trace('W')"), (u ** 2).sum() + d.sum())
    got = [v for v, in db.execute("SELECT value FROM gx_eig('W', '{\"k\":2,\"ncv\":12,\"symmetric\":true}')")]
    top = scipy.sparse.linalg.eigsh(scipy.sparse.linalg.LinearOperator((n * n, n * n), lambda v: u @ (u.T @ v) + d * v), 2)[0]
    assert np.allclose(np.sort(got), np.sort(top))


def test_more_columns_than_memory(filedb):
    db, n = filedb, 100
    rng = np.random.default_rng(6)
    a, b, x = positive(rng, n), positive(rng, n), rng.standard_normal((n * n, 360))
    for name, array in {"A": a, "B": b, "x": x}.items():
        put(db, name, array)
    lazy(db, "K", "kron(A, B)")
    q(db, "SELECT gx_transpose('x', 'xt')")
    q(db, "SELECT gx_config('memory_limit', '26MB')")  # x alone has 29 MB
    db.execute("SELECT gx_matmul('K', 'x', 'y'), gx_matmul('xt', 'K', 'z'), gx_solve('K', 'y', 'w')").fetchall()
    q(db, "SELECT gx_config('memory_limit', '1GB')")
    y = np.stack([(a @ x[:, k].reshape(n, n) @ b.T).ravel() for k in range(360)], 1)
    assert np.allclose(get(db, "gx_copy('y')"), y) and np.allclose(get(db, "gx_copy('z')"), y.T) and np.allclose(get(db, "gx_copy('w')"), x)


def test_digits_are_not_lost(filedb):
    """A base that is nearly, or quite, singular, where the sum is not."""
    db, n = filedb, 80
    rng = np.random.default_rng(4)
    d = np.ones(n)
    for small in (1e-3, 1e-9, 1e-14, 0):
        d[:2] = small
        u, v = rng.standard_normal((n, 2)), rng.standard_normal((n, 2))
        u[:2] += 5 * np.eye(2)
        v[:2] += 5 * np.eye(2)
        put(db, "d", d)
        put(db, "U", u)
        put(db, "V", v)
        a = np.diag(d) + u @ v.T
        x = rng.standard_normal((n, 2))
        put(db, "b", a @ x)
        for text in ("diag(d) + U@V.T", "block([[diag(d) + U@V.T]])", "U@V.T + diag(d)*0.5 + diag(d)*0.5"):
            lazy(db, "K", text)
            assert np.abs(get(db, "gx_solve('K', 'b')") - x).max() <= 1e-13 * np.linalg.cond(a) * 10, (small, text)
            assert np.isclose(q(db, "SELECT gx_logdet('K')"), np.linalg.slogdet(a)[1], rtol=1e-6), (small, text)
    put(db, "S", np.diag(np.r_[1e-13, np.ones(9)]))
    q(db, "SELECT gx_set_property('S', 'positive')")
    put(db, "W", np.ones((10, 2)) + rng.standard_normal((10, 2)))
    lazy(db, "K", "block([[S, W], [W.T, 0]])")
    a = get(db, "gx_copy('K')")
    put(db, "b", a @ np.ones((12, 1)))
    assert np.abs(get(db, "gx_solve('K', 'b')") - 1).max() <= 1e-14 * np.linalg.cond(a) * 100


def test_properties(filedb):
    """What is said of a composite is believed (positive: only the lower triangle is read), of its blocks, too, until a part changes."""
    db, n = filedb, 40
    rng = np.random.default_rng(11)
    a, e, x = positive(rng, n), np.triu(rng.standard_normal((n, n)), 1), rng.standard_normal((2 * n, 2))
    for name, array in {"A": a, "E": e, "x": x[:n], "xx": x}.items():
        put(db, name, array)
    said = np.linalg.solve(a + a, x[:n])
    lazy(db, "M", "A + (A + E)")
    lazy(db, "MM", "block([[A + (A + E), 0], [0, A + A]])")
    lazy(db, "R", "block([[A, 0.1*A], [0.1*A, A]])")

    def properties(name):
        column = q(db, "SELECT properties FROM gx WHERE name = ?", name)
        assert json.loads(q(db, "SELECT gx_info(?)", name))["properties"] == column
        return column

    def solved(name, b="x"):
        return to_numpy(q(db, "SELECT gx_solve(?, ?)", name, b))

    assert properties("M") == "" and np.allclose(solved("M"), np.linalg.solve(a + a + e, x[:n]))
    assert error(db, "SELECT gx_set_property('M', 'positive', '{\"check\":true}')") == "gx_set_property: M is not positive"
    assert q(db, "SELECT gx_set_property('R', 'positive', '{\"check\":true}')") == "symmetric,hermitian,positive"
    assert np.allclose(solved("R", "xx"), np.linalg.solve(np.kron([[1, 0.1], [0.1, 1]], a), x))
    for name in ("M", "MM"):
        assert q(db, "SELECT gx_set_property(?, 'positive')", name) == properties(name) == "symmetric,hermitian,positive"
    assert np.allclose(solved("M"), said) and np.allclose(to_numpy(q(db, "SELECT gx_copy('M')")), a + a + e)
    assert np.allclose(solved("MM", "xx"), np.concatenate([said, np.linalg.solve(a + a, x[n:])]))
    lower = np.linalg.cholesky(a + a)
    assert np.allclose(to_numpy(q(db, "SELECT gx_cholesky('M')")), lower)
    lazy(db, "outer", "2*M")  # what is said of a part is not said of all
    assert properties("outer") == "" and np.allclose(solved("outer"), np.linalg.solve(2 * (a + a + e), x[:n]))
    q(db, "SELECT gx_set('E', 0, 1, 0.5)")
    e[0, 1] = 0.5
    assert properties("M") == properties("MM") == "" and np.allclose(solved("M"), np.linalg.solve(a + a + e, x[:n]))
    assert q(db, "SELECT gx_set_property('M', 'positive')") == properties("M") and np.allclose(solved("M"), said)
    q(db, "SELECT gx_set('E', 0, 1, 0.25)")
    q(db, "SELECT gx_rename('E', 'F')")  # must not bring back what was said before
    e[0, 1] = 0.25
    assert properties("M") == "" and np.allclose(solved("M"), np.linalg.solve(a + a + e, x[:n]))
    q(db, "SELECT gx_set_property('M', 'positive')")
    assert q(db, "SELECT gx_set_property('M', 'positive,hermitian,symmetric', 0)") == properties("M") == ""


def test_places_that_come_twice(filedb):
    """A selection of rows: a matrix like others, but for systems."""
    db = filedb
    p = np.array([0, 2, 2, 1, 0])
    put(db, "p", p.astype("f8"))
    x = np.arange(10.0).reshape(5, 2)
    put(db, "x", x)
    lazy(db, "K", "permutation(p)")
    a = np.eye(5)[p]
    assert np.allclose(get(db, "gx_copy('K')"), a) and np.allclose(get(db, "gx_matmul('K', 'x')"), a @ x)
    assert np.allclose(get(db, "gx_eval('K.T @ x')"), a.T @ x) and np.allclose(get(db, "gx_eval('x.T @ K')"), x.T @ a)
    assert q(db, "SELECT gx_det('K')") == 0 and "place twice" in error(db, "SELECT gx_solve('K', 'x')")


@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_half_the_digits(filedb, dtype):
    """Parts of f32 and c64, and vectors of unlike numbers."""
    db, n = filedb, 12
    rng = np.random.default_rng(10)
    a, b = positive(rng, n).astype(dtype), positive(rng, n).astype(dtype)
    for name, array in {"A": a, "B": b, "c": np.arange(1, n + 1, dtype="f4")[:, None], "r": rng.standard_normal((1, n)) + 1j}.items():
        put(db, name, array)
    y = rng.standard_normal((2 * n, 2)).astype("f4")
    put(db, "y", y)
    for text, whole in [("block([[A, B], [0, B + 2*eye(12)]])", np.block([[a, b], [np.zeros((n, n)), b + 2 * np.eye(n)]])),
                        ("block([[A, 0], [0, toeplitz(c, c) + 90*eye(12)]])", scipy.linalg.block_diag(a, scipy.linalg.toeplitz(np.arange(1, n + 1)) + 90 * np.eye(n)))]:
        lazy(db, "K", text)
        got = get(db, "gx_solve('K', 'y')")
        assert np.allclose(got, np.linalg.solve(whole.astype("c16"), y), rtol=1e-3, atol=1e-4), text
        assert np.isclose(q(db, "SELECT gx_logdet('K')"), np.linalg.slogdet(whole.astype("c16"))[1], rtol=1e-4)
    r = get(db, "gx_copy('r')").ravel()
    want = scipy.linalg.toeplitz(np.arange(1, n + 1), r) + 2 * np.eye(n)
    lazy(db, "K", "toeplitz(c, r) + 2*eye(12)")
    assert np.allclose(get(db, "gx_copy('K')"), want) and np.allclose(get(db, "gx_matmul('K', gx_slice('y', 0, 12, 0, 2))"), want @ y[:n], rtol=1e-6)


SINGULAR = [("diag(d)", "element 2 is 0"), ("0*S", "zero times S"), ("zeros(3, 3)", "singular"), ("diag(e, 1)", "singular"), ("kron(S, eye(2))", "S is singular"),
            ("block([[S, 0], [0, eye(2)]])", "S is singular"), ("permutation(t)", "has a place twice"), ("permutation(o)", "places are 0 to 2"),
            ("kron(e, e.T)", "singular"), ("permutation(f)", "has 0.5 at 1")]


@pytest.mark.parametrize("text, words", SINGULAR)
def test_singular(filedb, text, words):
    db = filedb
    for name, a in {"d": [1.0, 2, 0], "S": np.ones((3, 3)), "e": np.ones((2, 1)), "t": [0.0, 1, 1], "o": [0.0, 1, 3], "f": [0, 0.5, 1]}.items():
        put(db, name, a)
    lazy(db, "K", text)
    n = q(db, "SELECT gx_rows_count('K')")
    assert words in error(db, "SELECT gx_solve('K', gx_ones(?, 1))", n)


# Programs -----------------------------------------------------------------------------------------

def test_programs(filedb):
    db, n = filedb, 200
    rng = np.random.default_rng(5)
    a, b, x, d = positive(rng, n), positive(rng, n), rng.standard_normal((n * n, 2)), rng.random(n * n) + 1
    for name, array in {"A": a, "B": b, "x": x, "d": d, "s": rng.standard_normal((7, 3))}.items():
        put(db, name, array)
    s = get(db, "gx_copy('s')")
    q(db, "SELECT gx_config('memory_limit', '48MB')")  # a matrix of order 40 000 has 12.8 GB
    def dense(v):
        return np.stack([(a @ v[:, k].reshape(n, n) @ b.T).ravel() for k in range(2)], 1)
    for text, want in [("kron(A, B) @ x", dense(x)), ("x.T @ kron(A, B)", dense(x).T), ("kron(A, B).T @ x", dense(x)), ("solve(kron(A, B), kron(A, B) @ x)", x),
                       ("diag(d) @ x", d[:, None] * x), ("solve(diag(d), x)", x / d[:, None]), ("outer(d, d) @ x", np.outer(d, d @ x)),
                       ("eye(40000) @ x", x), ("kron(eye(200), B) @ x", np.stack([(x[:, k].reshape(n, n) @ b.T).ravel() for k in range(2)], 1)),
                       ("kron(s, s) @ ones(9, 1) + 1", np.kron(s, s) @ np.ones((9, 1)) + 1)]:
        assert np.allclose(get(db, "gx_eval(?)", text), want), text
    for text, want in [("trace(kron(A, B))", np.trace(a) * np.trace(b)), ("logdet(kron(A, B))", n * (np.linalg.slogdet(a)[1] + np.linalg.slogdet(b)[1]))]:
        assert np.isclose(q(db, "SELECT gx_eval(?)", text), want), text


@pytest.mark.parametrize("devices", [1, 2])
def test_parts_stay_on_devices(tmp_path, devices):
    got = child(tmp_path, f"DEVICES = {devices}" + """
db = gx_connect(os.path.join(os.environ["TMP_PATH"], "d.db"))
db.execute("SELECT gx_config('tile_bytes', 32768)")
q(db, "SELECT gx_config('devices', ?)", DEVICES)
rng = np.random.default_rng(3)
n = 520
a = {name: rng.standard_normal((n, n)) for name in "ABCD"}
for name in a:
    q(db, "SELECT gx_store(?, ?)", name, from_numpy(a[name]))
q(db, "SELECT gx_block('M', '[[\\"A\\",\\"B\\"],[0,\\"D\\"]]')")
q(db, "SELECT gx_lazy('K', 'kron(eye(2), C) + 2*eye(1040)')")
m = np.block([[a["A"], a["B"]], [np.zeros((n, n)), a["D"]]])
k = np.kron(np.eye(2), a["C"]) + 2 * np.eye(2 * n)
x = rng.standard_normal((2 * n, 4))
q(db, "SELECT gx_store('x', ?)", from_numpy(x))
result = []
for name, whole in (("M", m), ("K", k)):
    for round in range(4):
        before = stats(db)
        y = to_numpy(q(db, f"SELECT gx_matmul('{name}', 'x')"))
        now = since(db, before)
        result.append([bool(np.allclose(y, whole @ x)), now["uploaded"], now["peer_bytes"]])
""", GX_BACKEND="cuda", MOCK_DEVICES=str(devices))
    assert all(ok for ok, _, _ in got), got
    part = 520 * 520 * 8
    for name in range(2):
        calls = got[4 * name:4 * name + 4]
        assert max(up for _, up, _ in calls[:2]) >= part and calls[3][1] < part // 2, got
        assert calls[3][2] < part // 4, got  # no part comes across


# What is refused ----------------------------------------------------------------------------------

METHODS = [
    ("S", "cg", {}), ("S", "cg", {"precond": "none"}), ("S", "minres", {}), ("S", "minres", {"precond": "jacobi"}), ("G", "gmres", {}), ("G", "gmres", {"precond": "jacobi", "trans": "T"}),
    ("G", "lsqr", {}), ("L", "lsqr", {}), ("L", "lsqr", {"trans": "T"}), ("kron(S, S) + 0.5 * eye(1600)", "cg", {}), ("Z @ Z.T + diag(w)", "cg", {}),
    ("block([[S, L.T], [L, 0]])", "minres", {"tol": 1e-11}), ("block([[G, 0], [L, P]])", "gmres", {"restart": 80}), ("kron(G, G)", "gmres", {"trans": "H", "restart": 100}),
]


@pytest.mark.parametrize("text, method, options", METHODS)
def test_iterative_methods(filedb, text, method, options):
    """Systems by products alone: a matrix of order 1600 is never made, in 8 MB beside a part's."""
    db, rng = filedb, np.random.default_rng(6)
    g = rng.standard_normal((40, 40))
    there = {"S": g @ g.T / 40 + np.eye(40), "G": g / 20 + 2 * np.eye(40), "L": rng.standard_normal((60, 40)), "Z": rng.standard_normal((500, 3)),
             "w": rng.uniform(1, 2, (500, 1)), "P": np.diag(rng.uniform(1, 2, 60))}
    for name, array in there.items():
        put(db, name, array)
    if text not in there:
        lazy(db, "M", text)
    a = get(db, "gx_copy('M')") if text not in there else there[text]
    a = a.T if options.get("trans", "N") != "N" else a
    x = rng.standard_normal((a.shape[1], 2))
    put(db, "b", a @ x)
    for setting in ("'tile_bytes', 8192", "'memory_limit', 8000000"):
        q(db, f"SELECT gx_config({setting})")
    settings = {"method": method, "tol": 1e-10, **options}
    found = get(db, "gx_solve(?, 'b', ?)", text if text in there else "M", json.dumps(settings))
    rest = np.linalg.norm(a @ found - a @ x, axis=0) / np.linalg.norm(a @ x, axis=0)
    assert (rest <= 1.01 * settings["tol"]).all()
    assert q(db, "SELECT value FROM gx_stats WHERE name = 'iterations'") > 0
    if method != "gmres":
        put(db, "guess", found)
        near = get(db, "gx_solve(?, 'b', ?)", text if text in there else "M", json.dumps({**settings, "x0": "guess"}))
        assert np.linalg.norm(a @ near - a @ x) <= 1.5 * settings["tol"] * np.linalg.norm(a @ x)


def test_iterative_refusals(filedb):
    db = filedb
    put(db, "A", np.array([[2., 1], [0, 4]]))
    put(db, "I", np.diag([1., -1]))
    put(db, "b", np.ones((2, 1)))
    lazy(db, "M", "A @ A")
    q(db, "SELECT gx_lu('A', 'F')")
    for name, options, words in [
            ("M", {"method": "cg"}, "M is not symmetric, and cg is for"), ("A", {"method": "minres"}, "A is not symmetric"), ("I", {"method": "cg"}, "I is not positive definite (p^T A p"),
            ("A", {"method": "gmres", "precond": "ilu0"}, "of a matrix that is not sparse"), ("A", {"method": "lsqr", "precond": "jacobi"}, "of a matrix that is not sparse"),
            ("A", {"tol": 0.1}, "name one of cg"), ("A", {"method": "direct", "x0": "b"}, "name one of cg"), ("A", {"method": "cg", "refine": 1}, "that are factored"),
            ("F", {"method": "cg"}, "is a stored factorisation"), ("A", {"method": "gmres", "maxiter": 1, "tol": 1e-12}, "no convergence: gmres"), ("A", {"method": "gmres", "assume": "lower"}, "must be one of")]:
        assert words in error(db, "SELECT gx_solve(?, 'b', ?)", name, json.dumps(options)), (name, options)
    assert "real systems" in error(db, "SELECT gx_solve(gx_eval('A * 1j'), 'b', '{\"method\":\"gmres\"}')")
    put(db, "n", np.array([[np.nan, 0], [0, 1]]))
    assert "" != error(db, "SELECT gx_solve('n', 'b', '{\"method\":\"minres\"}')")


REFUSED = [
    ("", "expression"), ("A +", "line 1"), ("X", "no such matrix"), ("A + B", "they are not added"), ("A @ A", "they are not multiplied"), ("A + 1", "a number alone has no size"),
    ("A * A", "multiplied by numbers, and by matrices with @"), ("exp(A)", "is made of stored ones"), ("A; A", "one expression"), ("C := A", "one expression"), ("eye(2, 3)", "is square"),
    ("eye(A)", "is square"), ("diag(A)", "a vector is wanted"), ("diag(v, 0.5)", "whole number"), ("toeplitz(A, v)", "a vector is wanted"), ("circulant(A)", "a vector is wanted"),
    ("permutation(A)", "a vector is wanted"), ("block([A, B])", "rows of parts"), ("block([[A, B]])", "rows where the others"), ("block([[0, 0], [0, 1]])", "no part tells"),
    ("A[0, 1]", "by their names"), ("?1", "by their names"), ("'A'", "by their names"), ("kron(A)", "is made of stored ones"), ("\"temp.A\" + A", "of another database"), ("F", "factorisation"),
    ("kron(eye(3000000000), eye(4000000000))", "too many elements"), ("diag(v, 9000000000000000)", "whole number"), ("diag(v, 4000000000000000)", "too many elements"), ("A / (1 + 2j)", "divided by real numbers"), ("\"\"", "nothing between the quotes"), ('"' + "n" * 256 + '"', "1 to 255 bytes"),
]


def test_refusals(filedb):
    db = filedb
    put(db, "A", np.ones((2, 3)))
    put(db, "B", np.ones((3, 2)))
    put(db, "v", np.ones((3, 1)))
    q(db, "SELECT gx_lu(gx_eye(3), 'F')")
    db.execute("SELECT gx_eye(2, 'temp.A')").fetchall()
    before = db.execute("SELECT name, generation FROM gx ORDER BY name").fetchall()
    for text, words in REFUSED:
        assert words in error(db, "SELECT gx_lazy('M', ?)", text), text
        assert words in error(db, "SELECT gx_lazy('B', ?, '{\"replace\":true}')", text), text
    deep = "kron(" * 40 + "A" + ", A)" * 40
    assert "more than 32" in error(db, "SELECT gx_lazy('M', ?)", deep)
    grid = ", ".join(["[" + ", ".join(["A"] * 64) + "]"] * 64)
    assert "at most 8192 terms" in error(db, "SELECT gx_lazy('M', ?)", f"block([[block([{grid}]), block([{grid}])]])")
    assert db.execute("SELECT name, generation FROM gx ORDER BY name").fetchall() == before and q(db, "SELECT gx_check()") == "ok"
    lazy(db, "M", "2*A - B.T")
    assert "is more than blocks: gx_lazy('M')" in error(db, "SELECT gx_block('M')")
    lazy(db, "N", "M @ B")
    assert "is a part of itself" in error(db, "SELECT gx_lazy('M', 'A + N @ A', '{\"replace\":true}')")
    q(db, "SELECT gx_rename('main.A', 'A \"x\"')")
    assert q(db, "SELECT gx_lazy('M')") == '((2.0 * "A ""x""") + (-1.0 * "B".T))' and (get(db, "gx_copy('M')") == 1).all()
    put(db, "B", np.ones((4, 2)))
    assert "the part 'B' of M is 4x2 and was 3x2" in error(db, "SELECT gx_sum('N')") and "part 'B'" in q(db, "SELECT gx_check()")


def test_forged_layouts(tmp_path):
    """Every byte changed, and cut anywhere: words, or a matrix of the size; never more."""
    db = gx_connect(str(tmp_path / "f.db"))
    rng = np.random.default_rng(4)
    put(db, "A", np.arange(6.0).reshape(2, 3))
    put(db, "v", np.array([1.0, 0, 2]))
    lazy(db, "M", "block([[kron(A, A.T) + zeros(6, 6), 0], [0, toeplitz(v, v) @ diag(v, 0) - 2*circulant(v) @ permutation(v)]])")
    want = get(db, "gx_copy('M')")
    raw, = db.execute("SELECT aux FROM gx_meta WHERE name = 'M'").fetchone()
    forged = [raw[:k] for k in range(0, len(raw), 7)] + [raw + b"\\0" * 8, b"", raw * 2]
    for k in range(len(raw)):
        forged += [raw[:k] + bytes([x]) + raw[k + 1:] for x in {int(rng.integers(256)), 255, raw[k] ^ 1}]
    for bytes_ in forged:
        db.execute("UPDATE gx_meta SET aux = ? WHERE name = 'M'", [bytes_])
        for sql in ("gx_copy('M')", "gx_matmul('M', gx_ones(9, 2))", "gx_solve('M', gx_ones(9, 1))"):
            try:
                assert get(db, sql).shape in {want.shape, (9, 2), (9, 1)}
            except sqlite3.Error as problem:
                words = str(problem)
                assert any(w in words for w in ("layout of M", "no such matrix", "was", "dtype", "complex", "singular", "permutation", "zero", "NaN", "Inf")), words
        if raw[4:5] == bytes_[4:5]:
            q(db, "SELECT gx_check()")
    db.execute("UPDATE gx_meta SET aux = ? WHERE name = 'M'", [raw])
    assert (get(db, "gx_copy('M')") == want).all()
    db.close()
