"""Exact arithmetic: m31, modulo primes, whole numbers, circle transforms, lattices, the golden ratio.

Plan:
- products, elementwise functions, sums and programs of m31 against Python's integers, on both backends and under a memory limit
  that cuts them into blocks, with 0, 1, p - 1 and 2^30 in every place; what means nothing refuses it by name;
- elimination modulo ten primes against one in Python: rank, determinant, nullspace, solution, inverse; singular matrices of every rank;
- whole numbers: determinants, ranks, fractions and products beyond 64 bits against Python's integers and fractions;
- 2^20 pairs of elements through every elementwise function;
- lattices: nobody is nearer; the theta series of E8; two shells of 120; the golden ratio against integer square roots;
- forged elements, interrupts and limits leave an error, not a crash.
"""
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from conftest import error, gx_connect, q
from exactkit import EDGES, P, PRIMES, edged, ints, matrix, put
from mockkit import child_on_stand_ins

# m31 ----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("m,k,n", [(1, 1, 1), (3, 4, 5), (17, 300, 33), (65, 1000, 70), (1, 700, 9)])
def test_products(db, backend, m, k, n):
    rng = np.random.default_rng(m * k + n)
    a, b = edged(rng, m, k), edged(rng, k, n)
    a[0, :] = P - 1
    b[:, 0] = P - 1
    put(db, "A", a)
    put(db, "B", b)
    q(db, "SELECT gx_config('backend', ?)", backend)
    assert (ints(db, "gx_matmul('A', 'B')") == a @ b % P).all()
    turned = ints(db, "gx_matmul('B', 'A', '{\"transa\":true,\"transb\":true,\"alpha\":-3}')")
    assert (turned == -3 * (a @ b).T % P).all()
    q(db, "SELECT gx_matmul('A', 'B', 'C')")
    q(db, "SELECT gx_matmul('A', 'B', 'C', '{\"alpha\":5,\"beta\":-2}')")
    assert (ints(db, "'C'") == 3 * (a @ b) % P).all()


def test_products_in_blocks(filedb):
    rng = np.random.default_rng(5)
    q(filedb, "SELECT gx_config('tile_bytes', 65536) || gx_config('memory_limit', 3000000)")
    a, b = edged(rng, 300, 500), edged(rng, 500, 200)
    put(filedb, "A", a)
    put(filedb, "B", b)
    want = a @ b % P
    for deterministic in (0, 1):
        q(filedb, "SELECT gx_config('deterministic', ?)", deterministic)
        q(filedb, "SELECT gx_config('memory_limit', 3000000)")
        q(filedb, "SELECT gx_matmul('A', 'B', 'C', '{\"replace\":true}')")
        q(filedb, "SELECT gx_config('memory_limit', 300000000)")
        assert (ints(filedb, "'C'") == want).all()
    q(filedb, "SELECT gx_matmul('A', 'A', 'G', '{\"transa\":true}')")  # symmetric, without a kernel for half of it
    assert (ints(filedb, "'G'") == a.T @ a % P).all()


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_elements(db, backend):
    rng = np.random.default_rng(2)
    a, b = edged(rng, 19, 13), edged(rng, 19, 13)
    a[:9, 0], b[:9, 1], a[9, :9], b[10, :9] = EDGES, EDGES, EDGES, EDGES
    some = np.where(b == 0, 1, b)
    inverse = np.vectorize(lambda x: pow(int(x), P - 2, P), otypes=[object])
    for name, value in zip("ABS", (a, b, some)):
        put(db, name, value)
    q(db, "SELECT gx_config('backend', ?)", backend)
    for sql, want in {
        "gx_add('A', 'B')": a + b, "gx_sub('A', 'B')": a - b, "gx_sub('A', 5)": a - 5, "gx_mul('A', 'B')": a * b,
        "gx_neg('A')": -a, "gx_scale('A', -123456789)": a * -123456789, "gx_square('A')": a * a,
        "gx_div('A', 'S')": a * inverse(some), "gx_reciprocal('S')": inverse(some), "gx_add('A', -1)": a - 1,
        "gx_pow('A', 7)": a**7, "gx_pow('A', 0)": a**0, f"gx_pow('S', {P - 1})": some**0, f"gx_pow('A', {P})": a,
        "gx_pow('A', 'B')": np.vectorize(lambda x, e: pow(int(x), int(e), P), otypes=[object])(a, b),
        "gx_equal('A', 'B')": (a == b) * 1, "gx_not_equal('A', 0)": (a != 0) * 1, "gx_where('A', 'B', 3)": np.where(a != 0, b, 3),
        f"gx_where('[[{P}]]', 'A', 'B')": a, "gx_logical_and('A', 'B')": ((a != 0) & (b != 0)) * 1,
        "gx_transpose('A')": a.T, "gx_slice('A', 2, 9, 1, 5)": a[2:9, 1:5], "gx_hstack('A', 'B')": np.hstack([a, b]),
        "gx_vstack('A', 'B')": np.vstack([a, b]), "gx_sum('A', 0)": a.sum(0, keepdims=True), "gx_sum('A', 1)": a.sum(1, keepdims=True),
        "gx_take('A', '[3,1]')": a[[3, 1]],
    }.items():
        assert (ints(db, sql) == want % P).all(), sql
    assert q(db, "SELECT gx_sum('A')") == a.sum() % P
    assert q(db, "SELECT gx_trace(gx_slice('A', 0, 13, 0, 13))") == np.trace(a[:13]) % P
    assert q(db, "SELECT gx_dtype(gx_mul('A', 'B')) || gx_dtype(gx_sum('A', 0))") == "m31m31"


def test_programs(db):
    rng = np.random.default_rng(3)
    a, b, s = edged(rng, 37, 23), edged(rng, 23, 37), edged(rng, 37, 37)
    for name, value in zip("ABS", (a, b, s)):
        put(db, name, value)
    inverse = np.vectorize(lambda x: pow(int(x), P - 2, P), otypes=[object])
    for text, want in {
        "A @ B": a @ b, "A + 3": a + 3, "-A": -a, "2 * A - B.T * 5": 2 * a - b.T * 5, "A ** 2 + A ** 5": a**2 + a**5,
        "A / 7": a * pow(7, -1, P), "1 / (A * 0 + 3)": a * 0 + pow(3, -1, P), "(A @ B) @ (A @ B) - S": (a @ b) @ (a @ b) - s,
        "A.T @ A": a.T @ a, "A.H": a.T, "hstack(A, B.T)": np.hstack([a, b.T]), "block([[A, A], [B.T, A]])": np.block([[a, a], [b.T, a]]),
        "A[1:5, 2:9]": a[1:5, 2:9], "roll(A, 1, 0)": np.roll(a, 1, 0), "flip(A, 0)": a[::-1], "diag(S)": np.diag(s)[:, None],
        "tile(A, 2, 1)": np.tile(a, (2, 1)), "reshape(A, 23, 37)": a.reshape(23, 37), "where(A == B.T, A, B.T + 1)": np.where(a == b.T, a, b.T + 1),
        "take(A, [1, 0, 5])": a[[1, 0, 5]], "sum(A * B.T, 0)": (a * b.T).sum(0, keepdims=True), "A * 1000000007 * 1000000009": a * 1000000007 * 1000000009,
    }.items():
        assert (ints(db, "gx_eval(?)", text) == want % P).all(), text
    assert q(db, "SELECT gx_eval('sum(A * B.T)')") == (a * b.T).sum() % P
    assert q(db, "SELECT gx_eval('trace(S @ S)')") == np.trace(s @ s) % P
    inverse = ints(db, "gx_eval('inverse(S)')")
    assert (s @ inverse % P == np.eye(37, dtype=object)).all()
    assert (ints(db, "gx_eval('solve(S, A)')") == inverse @ a % P).all()
    assert q(db, "SELECT gx_eval('det(S)')") == eliminated(s.tolist(), P)[1] and q(db, "SELECT gx_eval('rank(A @ B)')") == 23
    put(db, "T", a[:, :9] @ b[:9] % P)  # of rank 9
    for m in ("S", "T", "A", "B"):  # P A = L U
        p, l, u = (ints(db, f"gx_eval('P, L, U = lu({m}); {x}')") for x in "PLU")
        assert (p @ l % P @ u % P == ints(db, f"'{m}'")).all() and (p.sum(0) == 1).all() and (p.sum(1) == 1).all()
        assert (np.triu(l, 1) == 0).all() and (np.diag(l) == 1).all() and (np.tril(u, -1) == 0).all()
    assert "singular" in error(db, "SELECT gx_eval('inverse(T)')")
    for text, words in {
        "A * 0.5": "0.5 goes with m31", "A + [[1.0]]": "is of f64 and goes with m31", "exp(A)": "exp means nothing",
        "A @ ones(23, 2)": "is of f64 and goes with m31", "A * 9007199254740994": "whole numbers from", "mean(A)": "mean means nothing",
        "A > 3": "greater means nothing", "max(A)": "max means nothing", "norm(A)": "norm means nothing", "svdvals(A)": "means nothing",
        "1 / (A - A)": "a division by zero modulo", "sum(1 / (A - A))": "a division by zero modulo", "sort(A)": "means nothing",
        "cumsum(A)": "means nothing", "kron(A, A)": "means nothing",
    }.items():
        assert words in error(db, "SELECT gx_eval(?)", text)
    assert "0.5 goes with m31" in error(db, "SELECT gx_eval('A * ?1', 0.5)")
    assert (ints(db, "gx_eval('A * ?1', 4)") == 4 * a % P).all()


def test_what_refuses_m31(db):
    put(db, "A", np.arange(9).reshape(3, 3))
    for sql in ("gx_norm('A')", "gx_eig('A')", "gx_exp('A')", "gx_sparse('A')", "gx_max('A')", "gx_mean('A')", "gx_pca('A', 1)", "gx_cholesky('A')",
                "gx_lu('A')", "gx_qr('A', 'F')", "gx_cov('A')", "gx_softplus('A')", "gx_less('A', 'A')", "gx_distance('A', 'A')", "gx_argmax('A')",
                "gx_logdet('A')", "gx_cond('A')", "gx_lstsq('A', 'A')", "gx_pinv('A')", "gx_expm('A')", "gx_cosine('A', 'A')"):
        assert "m31" in error(db, "SELECT " + sql), sql
    for sql in ("gx_knn('A', 'A', 1)", "gx_topk('A', 1)", "gx_histogram('A')", "gx_pca('A')", "gx_svd('A')"):
        assert "m31" in error(db, f"SELECT * FROM {sql}"), sql
    for sql, words in {
        "gx_add('A', 0.5)": "0.5", "gx_scale('A', 0.5)": "alpha is 0.5", "gx_pow('A', -1)": "exponent", "gx_pow('A', 0.5)": "exponent",
        "gx_matmul('A', 'A', '{\"alpha\":0.5}')": "whole numbers", "gx_cast('[[0.5]]', 'm31')": "is 0.5", "gx_cast('[[\"1+2i\"]]', 'm31')": "imaginary",
        "gx_matmul('A', gx_sparse('[[1,0,0],[0,1,0],[0,0,1]]'))": "sparse", "gx_cast(gx_sparse('[[1]]'), 'm31')": "sparse",
        "gx_lazy('Z', 'A + A')": "m31", "gx_block('Z', '[[\"A\",\"A\"]]')": "m31", "gx_div('A', 'A')": "division by zero",
        "gx_matmul('[[0.5]]', '[[3]]', '{\"dtype\":\"m31\"}')": "is 1.5",
    }.items():
        assert words in error(db, "SELECT " + sql), sql
    assert q(db, "SELECT gx_json(gx_cast(gx_full(1, 1, 1e300), 'm31'))") == f"[[{int(1e300) % P}]]"
    assert "nan" in error(db, "SELECT gx_cast(gx_full(1, 1, 'nan'), 'm31')").lower()
    assert q(db, "SELECT count(*) FROM gx_meta") == 1


def test_conversions(db):
    wide = [2**63 - 1, -2**63, 2**53 + 1, -1, 0, P, P + 1, -P]
    assert (ints(db, "gx_cast(?, 'm31')", matrix(db, [wide])) == [[x % P for x in wide]]).all()
    assert q(db, "SELECT gx_json(gx_cast('[[-1, 2147483647, 9007199254740991]]', 'm31'))") == f"[[{P - 1},0,{(2**53 - 1) % P}]]"
    put(db, "A", [[1, P - 1]])
    assert q(db, "SELECT hex(gx_to_bytes('A'))") == "01000000FEFFFF7F"
    assert db.execute("SELECT value FROM gx_cells('A') ORDER BY j").fetchall() == [(1,), (P - 1,)]
    assert q(db, "SELECT gx_show('A')").replace(" ", "") == f"[[1{P - 1}]]"
    assert q(db, "SELECT gx_json(gx_cast('A', 'u32'))") == f"[[1,{P - 1}]]"
    assert "holds" in error(db, "SELECT gx_cast('A', 'u8')")
    put(db, "B", [[1, 2], [3, 4]])
    db.execute("CREATE TABLE part(i, j, x)")
    db.execute("INSERT INTO part VALUES (0, 0, 0.5), (1, 1, 2)")
    db.execute("CREATE VIRTUAL TABLE cell USING gx_cells('B')")
    option = "'{\"dtype\":\"m31\"}'"
    for sql in (f"gx_full(2, 2, 0.5, {option})", f"gx_randn(2, 2, {option})", f"gx_random(2, 2, {option})", f"gx_linspace(0, 1, 5, {option})",
                f"gx_arange(0, 3, 0.5, {option})", f"gx_diag('[1.5,2]', {option})", f"gx_from_table('part', {option})", "gx_set('B', 0, 0, 0.5)",
                f"gx_store('J', '[[1.5,2]]', {option})", "gx_from_bytes(x'FFFFFF7F', 'm31')", "gx_from_bytes(x'FFFFFFFF', 'm31')"):
        assert "m31" in error(db, "SELECT " + sql), sql
    assert "m31" in error(db, f"SELECT gx_store_cells('X', i, j, x, {option}) FROM part")
    assert "m31" in error(db, f"SELECT gx_store_rows('X', i, json_array(x, x), {option}) FROM part")
    assert "m31" in error(db, "UPDATE cell SET value = 0.5 WHERE i = 1 AND j = 1")
    db.execute("UPDATE cell SET value = -1 WHERE i = 1 AND j = 1")
    assert q(db, "SELECT gx_json('B')") == f"[[1,2],[3,{P - 1}]]"
    assert q(db, f"SELECT gx_json(gx_full(1, 2, -3, {option}))") == f"[[{P - 3},{P - 3}]]"
    assert q(db, f"SELECT gx_json(gx_eye(2, {option}))") == "[[1,0],[0,1]]" and q(db, f"SELECT gx_dtype(gx_zeros(2, 2, {option}))") == "m31"
    # Elements that no one of gx's writes: a result modulo 2^31 - 1 or an error, not a crash.
    forged = q(db, "SELECT gx_cast('[[1,1],[1,1]]', 'm31')")[:-16] + b"\xff" * 16
    for sql in ("gx_matmul(?1, ?1)", "gx_add(?1, ?1)", "gx_det(?1)", "gx_rank(?1)", "gx_sum(?1)", "gx_circle_fft(?1)", "gx_json(?1)", "gx_pow(?1, ?1)", "gx_nullspace(?1)"):
        try:
            q(db, "SELECT " + sql, forged)
        except Exception as e:  # noqa: BLE001
            assert "gx_" in str(e)


# Modulo primes ------------------------------------------------------------------------------------

def eliminated(a, p):
    """Rank and determinant of a list of rows, by Gauss."""
    a, rank, det = [[int(x) % p for x in row] for row in a], 0, 1
    m, n = len(a), len(a[0])
    for c in range(n):
        row = next((i for i in range(rank, m) if a[i][c]), None)
        if row is None:
            det = 0
            continue
        if row != rank:
            a[row], a[rank], det = a[rank], a[row], -det
        det = det * a[rank][c] % p
        inverse = pow(a[rank][c], -1, p)
        for i in range(rank + 1, m):
            if a[i][c]:
                f = a[i][c] * inverse % p
                a[i] = [(x - f * y) % p for x, y in zip(a[i], a[rank])]
        rank += 1
        if rank == m:
            break
    return rank, det % p if rank == m == n else 0


@pytest.mark.parametrize("p", PRIMES)
def test_modulo_a_prime(db, p):
    rng = np.random.default_rng(p)
    option = json.dumps({"mod": p})
    for m, n, rank in [(1, 1, 1), (1, 1, 0), (5, 5, 5), (40, 40, 40), (70, 70, 41), (33, 65, 33), (65, 33, 20), (100, 100, 99), (64, 64, 1), (3, 200, 3), (200, 3, 2)]:
        a = rng.integers(0, p, (m, rank)).astype(object) @ rng.integers(0, p, (rank, n)).astype(object) % p if rank < min(m, n) \
            else rng.integers(0, p, (m, n)).astype(object)
        want, det = eliminated(a.tolist(), p)
        value = matrix(db, a)
        assert q(db, "SELECT gx_rank(?, ?)", value, option) == want
        null = ints(db, "gx_nullspace(?, ?)", value, option) if want < n else None
        if null is not None:
            assert null.shape == (n, n - want) and not (a @ null % p).any()
            assert eliminated(null.tolist(), p)[0] == n - want
        if m != n:
            continue
        assert q(db, "SELECT gx_det(?, ?)", value, option) == det
        if want < n:
            assert "singular" in error(db, "SELECT gx_inverse(?, ?)", value, option)
            continue
        assert (a @ ints(db, "gx_inverse(?, ?)", value, option) % p == np.eye(n, dtype=object) % p).all()
        b = rng.integers(0, p, (n, 3)).astype(object)
        x = ints(db, "gx_solve(?, ?, ?)", value, matrix(db, b), option)
        assert (a @ x % p == b).all() and (x >= 0).all() and (x < p).all()
        assert (ints(db, "gx_matmul(?, ?, ?)", value, matrix(db, b), option) == a @ b % p).all()
    assert q(db, "SELECT gx_dtype(gx_matmul('[[1]]', '[[1]]', ?))", option) == ("m31" if p == P else "u32")


def test_m31_is_modulo_its_prime(db):
    rng = np.random.default_rng(8)
    for n in (1, 31, 32, 33, 130):
        a = edged(rng, n, n)
        rank, det = eliminated(a.tolist(), P)
        value = matrix(db, a, "m31")
        assert (q(db, "SELECT gx_rank(?)", value), q(db, "SELECT gx_det(?)", value)) == (rank, det)
        if rank == n:
            assert (a @ ints(db, "gx_inverse(?)", value) % P == np.eye(n, dtype=object)).all()
            assert (a @ ints(db, "gx_solve(?, ?)", value, matrix(db, a[:, :1])) % P == a[:, :1]).all()
    for sql, words in {
        "gx_det(gx_cast('[[1]]', 'm31'), '{\"mod\":7}')": "m31 is modulo", "gx_det(gx_cast('[[1]]', 'm31'), '{\"exact\":true}')": "modulo 2^31 - 1",
        "gx_det('[[1]]', '{\"mod\":10}')": "must be a prime", "gx_det('[[1]]', '{\"mod\":1}')": "mod",
        "gx_det('[[1]]', '{\"mod\":7,\"exact\":true}')": "exclude", "gx_det('[[1,2]]', '{\"mod\":7}')": "square",
        "gx_det('[[0.5]]', '{\"mod\":7}')": "0.5 at (0, 0)", "gx_solve('[[1]]', '[1,2]', '{\"mod\":7}')": "rows",
        "gx_rank('[[1]]', 0.5, '{\"mod\":7}')": "tolerance", "gx_nullspace('[[1]]', '{\"exact\":true}')": "nullspace",
        "gx_solve('[[1]]', '[1]', '{\"mod\":7,\"trans\":\"T\"}')": "as it is", "gx_det(gx_sparse('[[1]]'), '{\"mod\":7}')": "sparse",
        "gx_matmul('[[1]]', '[[1]]', '{\"mod\":7,\"alpha\":2}')": "alpha",
    }.items():
        assert words in error(db, "SELECT " + sql), sql


# Whole numbers ------------------------------------------------------------------------------------

def whole_det(a):
    """Bareiss."""
    a, sign, before = [list(map(int, r)) for r in a], 1, 1
    n = len(a)
    for k in range(n - 1):
        row = next((i for i in range(k, n) if a[i][k]), None)
        if row is None:
            return 0
        if row != k:
            a[k], a[row], sign = a[row], a[k], -sign
        for i in range(k + 1, n):
            for j in range(k + 1, n):
                a[i][j] = (a[i][j] * a[k][k] - a[i][k] * a[k][j]) // before
        before = a[k][k]
    return sign * a[-1][-1] if n else 1


@pytest.mark.parametrize("n", [1, 2, 3, 9, 24])
def test_whole_numbers(db, n):
    rng = np.random.default_rng(n)
    for size in (9, 2**31, 2**62):
        a = [[int(x) for x in row] for row in rng.integers(-size, size, (n, n))]
        b = [[int(x) for x in row] for row in rng.integers(-size, size, (n, 2))]
        det = whole_det(a)
        given = q(db, "SELECT gx_det(?, '{\"exact\":true}')", matrix(db, a))
        assert int(given) == det and isinstance(given, int if -2**63 <= det < 2**63 else str)
        if det == 0:
            continue
        x = json.loads(q(db, "SELECT gx_solve(?, ?, '{\"exact\":true}')", matrix(db, a), matrix(db, b)))
        for j in range(2):
            column = [Fraction(x[i][j]) for i in range(n)]
            assert [sum(u * v for u, v in zip(row, column)) for row in a] == [row[j] for row in b]
            for value, fraction in zip((row[j] for row in x), column):
                assert str(value) == str(fraction)  # in lowest terms
                assert isinstance(value, int if fraction.denominator == 1 and -2**63 <= fraction < 2**63 else str)
    inverse = json.loads(q(db, "SELECT gx_inverse(?, '{\"exact\":true}')", matrix(db, np.diag(range(1, n + 1)))))
    assert [str(Fraction(row[i])) for i, row in enumerate(inverse)] == [str(Fraction(1, i + 1)) for i in range(n)]


def test_hilbert(db):
    n = 12
    l = math.lcm(*range(1, 2 * n))
    a = [[l // (i + j + 1) for j in range(n)] for i in range(n)]
    assert int(q(db, "SELECT gx_det(?, '{\"exact\":true}')", matrix(db, a))) == whole_det(a)
    ones = json.loads(q(db, "SELECT gx_solve(?, ?, '{\"exact\":true}')", matrix(db, a), matrix(db, [[sum(r)] for r in a])))
    assert ones == [[1]] * n


def test_ranks_are_over_the_rational_numbers(db):
    rng = np.random.default_rng(1)
    for m, n, r in ((20, 30, 7), (30, 20, 20), (8, 8, 0), (1, 9, 1)):
        a = rng.integers(-9, 9, (m, r)).astype(object) @ rng.integers(-9, 9, (r, n)).astype(object)
        a = a if r else np.zeros((m, n), object)
        assert q(db, "SELECT gx_rank(?, '{\"exact\":true}')", matrix(db, a)) == r
    # Modulo the first primes that are tried this one's determinant is 0.
    assert q(db, "SELECT gx_rank(?, '{\"exact\":true}')", matrix(db, [[P, 0], [0, 2147483629]])) == 2
    assert q(db, "SELECT gx_det(?, '{\"exact\":true}')", matrix(db, [[P, 0], [0, 2147483629]])) == P * 2147483629
    assert json.loads(q(db, "SELECT gx_inverse(?, '{\"exact\":true}')", matrix(db, [[P, 0], [0, 1]]))) == [[f"1/{P}", 0], [0, 1]]


def test_products_of_small_numbers(db):
    """Bytes by 16 bits: sums of 32 bits, cut where these overflow; numbers just inside and outside of what it takes."""
    rng = np.random.default_rng(7)
    q(db, "SELECT gx_config('threads', 2)")
    for (m, k, n), left, right in (
            ((300, 70, 129), (-128, 127), (-128, 127)), ((257, 20001, 3), (0, 255), (-128, 127)), ((2, 900, 260), (0, 255), (-2**15, 2**15 - 1)),
            ((1, 1, 1), (-128, 127), (-2**15, 2**15 - 1)), ((9, 40, 5), (-129, 127), (-5, 5)), ((9, 40, 5), (-1, 128), (-5, 5)),
            ((9, 40, 5), (0, 256), (-5, 5)), ((9, 40, 5), (0, 9), (0, 2**15)), ((3, 0, 4), (0, 9), (0, 9))):
        a, b = rng.integers(left[0], left[1] + 1, (m, k)), rng.integers(right[0], right[1] + 1, (k, n))
        a.flat[:2], b.flat[:2] = left[:a.size], right[:b.size]
        assert (ints(db, "gx_matmul(?, ?, '{\"exact\":true}')", matrix(db, a), matrix(db, b)) == a @ b).all()
    a, b = np.full((2, 40000), 255), np.full((40000, 2), -2**15)
    assert (ints(db, "gx_matmul(?, ?, '{\"exact\":true}')", matrix(db, a), matrix(db, b)) == -255 * 2**15 * 40000).all()
    q(db, "SELECT gx_config('backend', 'reference')")
    a, b = rng.integers(-128, 128, (20, 30)), rng.integers(-128, 128, (30, 10))
    assert (ints(db, "gx_matmul(?, ?, '{\"exact\":true}')", matrix(db, a), matrix(db, b)) == a @ b).all()


def test_whole_products(db):
    rng = np.random.default_rng(6)
    for m, k, n, size in ((1, 1, 1, 9), (7, 9, 5, 2**29), (40, 300, 20, 2**27), (3, 2, 3, 2**31)):
        a, b = (rng.integers(-size, size, s).astype(object) for s in ((m, k), (k, n)))
        c = ints(db, "gx_matmul(?, ?, '{\"exact\":true}')", matrix(db, a), matrix(db, b))
        assert (c == a @ b).all()
        c = ints(db, "gx_matmul(?, ?, '{\"exact\":true,\"transa\":true,\"transb\":true}')", matrix(db, b), matrix(db, a))
        assert (c == (a @ b).T).all()
    big = 2**62
    for a, b, want in (([[big, big]], [[1], [1 - 2]], 0), ([[2**63 - 1]], [[1]], 2**63 - 1), ([[-2**63]], [[1]], -2**63), ([[2**40]], [[2**22]], big)):
        assert q(db, "SELECT gx_json(gx_matmul(?, ?, '{\"exact\":true}'))", matrix(db, a), matrix(db, b)) == f"[[{want}]]"
    for a, b in (([[big, big]], [[1], [1]]), ([[-2**63]], [[-1]]), ([[2**63 - 1, -1]], [[1], [-1]]), ([[2**63 - 1] * 8], [[2**63 - 1]] * 8)):
        assert "element (0, 0) of the product needs more than 64 bits" in error(db, "SELECT gx_matmul(?, ?, '{\"exact\":true}')", matrix(db, a), matrix(db, b))
    for sql, words in {
        "gx_inverse('[[1,2],[2,4]]', '{\"exact\":true}')": "A is singular", "gx_inverse('[[1,2]]', '{\"exact\":true}')": "square",
        "gx_inverse('[[1]]', 'X', '{\"exact\":true}')": "fractions as a text", "gx_det('[[1,0.5]]', '{\"exact\":true}')": "square",
        "gx_det('[[0.5]]', '{\"exact\":true}')": "0.5 at (0, 0)", "gx_det(gx_full(1, 1, 1e300), '{\"exact\":true}')": "64 bits",
        "gx_matmul('[[1]]', '[[1]]', '{\"exact\":true,\"dtype\":\"f32\"}')": "of i64", "gx_det('[[\"1+2i\"]]', '{\"exact\":true}')": "complex",
    }.items():
        assert words in error(db, "SELECT " + sql), sql
    assert q(db, "SELECT gx_matmul('[[3]]', '[[4]]', 'C', '{\"exact\":true}') || gx_dtype('C') || gx_json('C')") == "Ci64[[12]]"


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_a_million_elements(db, backend):
    """2^20 pairs of elements, the edges in every place of both, through every elementwise function."""
    q(db, "SELECT gx_config('backend', ?)", backend)
    rng = np.random.default_rng(9)
    a, b = (rng.integers(0, P, (1024, 1024)).astype(np.uint64) for _ in range(2))
    edges = np.array(EDGES, dtype=np.uint64)
    a[:, :9], b[:, 9:18] = edges, edges
    a[:9, :], b[9:18, :] = edges[:, None], edges[:, None]
    a[100:109, 100:109], b[100:109, 100:109] = edges[:, None], edges  # each edge with each
    p, x, y = np.uint64(P), *(q(db, "SELECT gx_cast(gx_from_bytes(?, 'i64', 1024), 'm31')", m.astype("<i8").tobytes()) for m in (a, b))

    def power(base, exponent):
        result = np.ones_like(base)
        for k in range(31):
            result = np.where((exponent >> np.uint64(k)) & np.uint64(1) == 1, result * base % p, result)
            base = base * base % p
        return result

    nonzero = np.where(b == 0, np.uint64(1), b)
    z = q(db, "SELECT gx_cast(gx_from_bytes(?, 'i64', 1024), 'm31')", nonzero.astype("<i8").tobytes())
    inverse = power(nonzero, np.full_like(b, P - 2))
    for sql, args, want in [("gx_add(?, ?)", (x, y), (a + b) % p), ("gx_sub(?, ?)", (x, y), (a + p - b) % p), ("gx_mul(?, ?)", (x, y), a * b % p), ("gx_neg(?)", (x,), (p - a) % p),
                            ("gx_square(?)", (x,), a * a % p), ("gx_scale(?, -3)", (x,), a * (p - np.uint64(3)) % p), ("gx_reciprocal(?)", (z,), inverse), ("gx_div(?, ?)", (x, z), a * inverse % p),
                            ("gx_pow(?, ?)", (x, y), power(a, b)), ("gx_eval('?1 * ?2 + ?1 - 5 * ?2 ** 3', ?, ?)", (x, y), (a * b + a + (p - np.uint64(5)) * (b * b % p * b % p)) % p)]:
        got = np.frombuffer(q(db, f"SELECT gx_to_bytes(gx_cast({sql}, 'i64'))", *args), dtype="<i8").reshape(1024, 1024)
        assert (got == want.astype(np.int64)).all(), sql
    assert q(db, "SELECT gx_sum(?)", x) == int(a.sum() % p)



# Lattices -----------------------------------------------------------------------------------------

def floats(db, sql, *params):
    return np.array(json.loads(q(db, f"SELECT gx_json({sql})", *params)))


def test_e8(db):
    roots = floats(db, "gx_e8('roots')")
    for k, count in enumerate([1, 240, 2160, 6720, 17520]):  # 240 sigma_3(k)
        shell = floats(db, "gx_e8('shell', ?)", k)
        assert len({tuple(r) for r in shell}) == count and set((shell**2).sum(1)) == {2 * k}
        assert (shell @ roots.T % 1 == 0).all()
        if k < 4:
            assert (floats(db, "gx_lattice_nearest(gx_e8('shell', ?), 'e8')", k) == shell).all()
    golden = floats(db, "gx_e8('golden')")
    assert np.allclose(golden.T @ golden, np.eye(4), atol=1e-12)
    norms = np.sort(((roots @ golden) ** 2).sum(1))
    assert np.allclose(norms[:120], 0.552786, atol=1e-6) and np.allclose(norms[120:], 1.447214, atol=1e-6)
    assert abs(norms[-1] / norms[0] - ((1 + 5**0.5) / 2) ** 2) < 1e-9
    for sql in ("gx_e8('x')", "gx_e8('shell', 9)", "gx_e8('shell', -1)", "gx_e8('roots', 2)", "gx_e8(NULL)"):
        error(db, "SELECT " + sql)


@pytest.mark.parametrize("rows", [1, 3, 4, 1001])
def test_nearest_points(filedb, rows):
    db = filedb
    rng = np.random.default_rng(rows)
    x = rng.normal(size=(rows, 16)) * 3
    q(db, "SELECT gx_from_bytes(?, 'f64', 16, 'X', '{\"replace\":true}')", x.tobytes())
    near = np.vstack([floats(db, "gx_e8('roots')"), floats(db, "gx_e8('shell', 2)")])
    points = {word: floats(db, "gx_lattice_nearest('X', ?)", word) for word in ("zn", "dn", "an", "e8")}
    for half in (slice(0, 8), slice(8, 16)):
        p = points["e8"][:, half]
        assert (floats(db, "gx_lattice_nearest(?, 'e8')", q(db, "SELECT gx_from_bytes(?, 'f64', 8)", np.ascontiguousarray(p).tobytes())) == p).all()
        distance = ((x[:, half] - p) ** 2).sum(1)
        for r in near:
            assert (((x[:, half] - p - r) ** 2).sum(1) >= distance - 1e-12).all()
    assert (points["zn"] == np.rint(x)).all()
    assert (points["dn"].sum(1) % 2 == 0).all() and (points["an"].sum(1) == 0).all()
    centred = x - x.mean(1, keepdims=True)
    for i in range(16):
        for j in range(i):
            for s, t in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
                r = np.zeros(16)
                r[i], r[j] = s, t
                assert (((x - points["dn"] - r) ** 2).sum(1) >= ((x - points["dn"]) ** 2).sum(1) - 1e-12).all()
                if s != t:
                    assert (((centred - points["an"] - r) ** 2).sum(1) >= ((centred - points["an"]) ** 2).sum(1) - 1e-9).all()
    q(db, "SELECT gx_lattice_nearest('X', 'e8', 'N', '{\"replace\":true}')")
    assert (floats(db, "'N'") == points["e8"]).all()
    assert q(db, "SELECT gx_dtype(gx_lattice_nearest(gx_cast('X', 'f32'), 'e8'))") == "f32"
    for bad in (float("nan"), float("inf"), 1e300):
        y = x.copy()
        y[rows // 2, 11] = bad
        for word in ("zn", "an", "e8"):
            assert "no point is nearest" in error(db, "SELECT gx_lattice_nearest(gx_from_bytes(?, 'f64', 16), ?)", y.tobytes(), word)
    assert "8 numbers" in error(db, "SELECT gx_lattice_nearest('[[1,2]]', 'e8')")
    assert "complex" in error(db, "SELECT gx_lattice_nearest('[[\"1+2i\"]]', 'zn')")


def test_golden_ratio(db):
    def floor(n):
        return (n + math.isqrt(5 * n * n)) // 2 if n >= 0 else -((-n + math.isqrt(5 * n * n)) // 2) - 1

    most = 5700357409661599242
    rng = np.random.default_rng(0)
    numbers = [0, 1, -1, 2, 102334154, 102334155, 165580141, 2**53, 2**62, -2**62, most, -most] + rng.integers(-2**62, 2**62, 300).tolist()
    assert [q(db, "SELECT gx_phi_floor(?)", n) for n in numbers] == [floor(n) for n in numbers]
    assert (ints(db, "gx_phi_floor(?)", matrix(db, [numbers])) == [[floor(n) for n in numbers]]).all()
    for n in (most + 1, -most - 1, 2**63 - 1, -2**63):
        assert "more than 64 bits" in error(db, "SELECT gx_phi_floor(?)", n)
    f = [0, 1]
    while len(f) < 95:
        f.append(f[-1] + f[-2])
    for n in (0, 1, 2, 17, 91, 92):
        assert ints(db, "gx_phi_pow('[[0,1]]', ?)", n).tolist() == [[f[n - 1] if n else 1, f[n]]]
    assert "more than 64 bits" in error(db, "SELECT gx_phi_pow('[[0,1]]', 93)")
    assert ints(db, "gx_phi_mul('[[1,2],[3,4]]', '[[5,-6]]')").tolist() == [[1 * 5 - 12, -6 + 10 - 12], [15 - 24, -18 + 20 - 24]]
    assert "more than 64 bits" in error(db, "SELECT gx_phi_mul(?, ?)", matrix(db, [[2**62, 1]]), matrix(db, [[2, 0]]))
    for sql in ("gx_phi_mul('[[1]]', '[[1,2]]')", "gx_phi_pow('[[0,1]]', -1)", "gx_phi_floor(0.5)", "gx_phi_mul('[[1,2],[1,2]]', '[[1,2],[1,2],[1,2]]')"):
        error(db, "SELECT " + sql)
    for n in (0, 1, 2, 40, 91):
        assert ints(db, "gx_recur('[[1,1],[1,0]]', '[1,0]', ?, '{\"exact\":true}')", n).tolist() == [[f[n + 1]], [f[n]]]
        assert ints(db, "gx_recur(gx_cast('[[1,1],[1,0]]', 'm31'), '[1,0]', ?)", n).tolist() == [[f[n + 1] % P], [f[n] % P]]
        assert ints(db, "gx_recur('[[1,1],[1,0]]', '[1,0]', ?, '{\"mod\":97}')", n).tolist() == [[f[n + 1] % 97], [f[n] % 97]]
        assert floats(db, "gx_recur('[[1,1],[1,0]]', '[1,0]', ?)", n).tolist() == [[float(f[n + 1])], [float(f[n])]]
    assert "more than 64 bits" in error(db, "SELECT gx_recur('[[1,1],[1,0]]', '[1,0]', 92, '{\"exact\":true}')")
    assert "x has 3 rows" in error(db, "SELECT gx_recur('[[1,1],[1,0]]', '[1,0,1]', 1)")

def test_limits(tmp_path):
    with gx_connect(tmp_path / "limits.db") as db:
        q(db, "SELECT gx_cast(gx_eval('floor(random(3000, 2800, 1) * 2147483647)'), 'm31', 'A')")
        q(db, "SELECT gx_config('memory_limit', '26MB')")
        for sql in ("gx_rank('A')", "gx_nullspace('A')", "gx_rank('A', '{\"mod\":2147483647}')", "gx_recur(gx_cast(gx_eye(3000), 'm31'), 'A', 2)"):
            assert "memory_limit" in error(db, "SELECT " + sql), sql
        q(db, "SELECT gx_matmul('A', 'A', 'C', '{\"transb\":true}')")
        assert q(db, "SELECT gx_shape('C')") == "[3000,3000]"


def test_products_on_a_device(tmp_path):
    """Ten products of bytes give the numbers of the CPU: for whole blocks and odd ones, scaled, added to others."""
    got = child_on_stand_ins(tmp_path, """
db = connect("cpu", 65536)
for name, m, n in (("A", 300, 170), ("B", 170, 210)):
    q(db, f"SELECT gx_cast(gx_eval('floor(random({m}, {n}, {n}) * 2147483647)'), 'm31', '{name}')")
q(db, "SELECT gx_cast('A', 'i64', 'W')")
result = []
for left, right, options in (("A", "B", "{}"), ("A", "B", '{"alpha":-3}'), ("B", "A", '{"transa":true,"transb":true}'), ("W", "B", "{}"),
                             ("A", "A", '{"transa":true}'), ("A", "B", '{"alpha":5,"beta":-2}')):
    bits = []
    for backend in ("cpu", "cuda"):
        q(db, "SELECT gx_config('backend', ?)", backend)
        if "beta" not in options:
            options = options[:-1] + (',' if len(options) > 2 else '') + '"replace":true}' if "replace" not in options else options
        else:
            q(db, "SELECT gx_matmul('A', 'B', 'C', '{\\"replace\\":true}')")
        before = stats(db)
        q(db, "SELECT gx_matmul(?, ?, 'C', ?)", left, right, options)
        bits.append(q(db, "SELECT hex(gx_to_bytes('C'))"))
    result.append([bits[0] == bits[1], since(db, before)["device_calls"]])
""", MOCK_MEMORY=256 << 20)
    assert all(same for same, _ in got) and all(calls > 0 for _, calls in got), got
