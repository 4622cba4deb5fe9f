"""Products with sparse matrices beside NumPy's, dense.

Plan, with small tiles so that small matrices have many panels, from a file (helpers read) and in memory (the caller does):
- sparse x dense and dense x sparse, transposed and conjugated on either side, alpha, every pair of dtypes, 0 to 70 columns,
  values and stored, S a value and stored; the bits of `deterministic` and of S untransposed do not depend on threads;
- rows whose columns lie far apart, beside those that lie together; a symmetric matrix on either side;
- a budget that holds a few lines: rounds; one that holds none: the number that would do;
- lists of rows and columns, from the end, repeated, in any order;
- gx_plan: what the first call reads; rounds; what is not foretold;
- what has been read stays for the next product, until anybody changes it, its file is overwritten, or memory is short;
- symmetric matrices transposed are themselves; empty shapes; a damaged panel; shapes that do not fit; beta is refused.
"""
import itertools
import json
import shutil

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import error, from_numpy, gx_connect, q, to_numpy

TYPES = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}


def connected(path):
    db = gx_connect(path)
    q(db, "SELECT gx_config('tile_bytes', 8192)")
    return db


@pytest.fixture(params=["memory", "file"])
def db(request, tmp_path):
    connection = connected(":memory:" if request.param == "memory" else str(tmp_path / "s.db"))
    yield connection
    connection.close()


def random(rng, shape, dtype, density=1.0):
    A = rng.standard_normal(shape) * (rng.random(shape) < density)
    if dtype[0] == "c":
        A = A + 1j * rng.standard_normal(shape) * (A != 0)
    return A.astype(TYPES[dtype])


def store(db, name, S):
    q(db, f"SELECT gx_sparse(?, '{name}', '{{\"replace\":true}}')", from_numpy(S))


def close(got, want):
    tolerance = 1e-12 if got.dtype in (np.float64, np.complex128) else 1e-4
    assert got.shape == want.shape and got.dtype == want.dtype
    assert np.abs(got - want).max(initial=0) <= tolerance * max(1, np.abs(want).max(initial=0))


PRODUCTS = [("'S'", "?1", "{}", (170, -1), lambda S, D: S @ D),
            ("'S'", "?1", '{"transa":true,"alpha":-2}', (300, -1), lambda S, D: -2 * (S.T @ D)),
            ("'S'", "?1", '{"conja":true}', (300, -1), lambda S, D: S.conj().T @ D),
            ("'S'", "?1", '{"transb":true}', (-1, 170), lambda S, D: S @ D.T),
            ("'S'", "?1", '{"conja":true,"conjb":true}', (-1, 300), lambda S, D: S.conj().T @ D.conj().T),
            ("?1", "'S'", '{"alpha":3}', (-1, 300), lambda S, D: 3 * (D @ S)),
            ("?1", "'S'", '{"transb":true}', (-1, 170), lambda S, D: D @ S.T),
            ("?1", "'S'", '{"conjb":true}', (-1, 170), lambda S, D: D @ S.conj().T),
            ("?1", "'S'", '{"transa":true}', (300, -1), lambda S, D: D.T @ S)]


@pytest.mark.parametrize("sparse, dense", list(itertools.product(TYPES, TYPES)))
def test_products(db, sparse, dense):
    rng = np.random.default_rng(1)
    S = random(rng, (300, 170), sparse, 0.05)
    S[7] = S[40:90] = 0
    store(db, "S", S)
    value = q(db, "SELECT gx_copy('S')")
    for (a, b, options, shape, want), w in itertools.product(PRODUCTS, [0, 1, 5, 70] if sparse == dense else [9]):
        D = random(rng, tuple(w if side < 0 else side for side in shape), dense)
        blob, expected = from_numpy(D), want(S, D)
        sql = f"gx_matmul({a}, {b}, "
        close(to_numpy(q(db, f"SELECT {sql}'{options}')", blob)), expected)
        got = q(db, f"SELECT {sql}'{options}')".replace("'S'", "?2"), blob, value)
        close(to_numpy(got), expected)
        q(db, f"SELECT {sql}'C', '{options[:-1]}{',' if len(options) > 2 else ''}\"replace\":true}}')", blob)
        close(to_numpy(q(db, "SELECT gx_copy('C')")), expected)
        assert q(db, "SELECT gx_check('C')") == "ok"


def test_the_same_bits(tmp_path):
    rng = np.random.default_rng(2)
    S, D = random(rng, (4000, 900), "f64", 0.02), random(rng, (900, 6), "f64")
    Dt = random(rng, (4000, 6), "f64")
    seen, seen_t = set(), set()
    for threads, deterministic in itertools.product([1, 2, 5], ["off", "on"]):
        db = connected(str(tmp_path / f"{threads}{deterministic}.db"))
        q(db, "SELECT gx_config('threads', ?)", threads)
        q(db, "SELECT gx_config('deterministic', ?)", deterministic)
        store(db, "S", S)
        seen.add(q(db, "SELECT gx_matmul('S', ?)", from_numpy(D)))
        transposed = q(db, "SELECT gx_matmul('S', ?, '{\"transa\":true}')", from_numpy(Dt))
        close(to_numpy(transposed), S.T @ Dt)
        if deterministic == "on":
            seen_t.add(transposed)
        db.close()
    assert len(seen) == 1 and len(seen_t) == 1


@pytest.mark.parametrize("dtype", TYPES)
def test_far_apart(db, dtype):
    """50 entries a row over 40 000 columns: turned to lines; small matrices are not."""
    rng = np.random.default_rng(6)
    rows, cols = np.repeat(np.arange(60), 50), np.concatenate([np.sort(rng.choice(40000, 50, False)) for _ in range(60)])
    values = random(rng, (3000,), dtype)
    S = sp.csr_matrix((values, (rows, cols)), shape=(60, 40000))
    q(db, "SELECT gx_sparse(?, 'S')", from_numpy(S.toarray()))
    value = q(db, "SELECT gx_copy('S')")
    for other in TYPES:
        D = random(rng, (40000, 3), other)
        blob, turned = from_numpy(D), from_numpy(np.ascontiguousarray(D.T))
        want = (S @ D).astype(np.result_type(S.dtype, D.dtype))
        close(to_numpy(q(db, "SELECT gx_matmul('S', ?)", blob)), want)
        close(to_numpy(q(db, "SELECT gx_matmul(?, ?)", value, blob)), want)
        close(to_numpy(q(db, "SELECT gx_matmul('S', ?, '{\"transb\":true,\"alpha\":-3}')", turned)), -3 * want)
        close(to_numpy(q(db, "SELECT gx_matmul(?, 'S', '{\"transb\":true}')", turned)), want.T)
        q(db, "SELECT gx_matmul('S', ?, 'C', '{\"replace\":true}')", blob)
        close(to_numpy(q(db, "SELECT gx_copy('C')")), want)


@pytest.mark.parametrize("width", [1, 3, 12, 100])
def test_grid(db, width):
    rng = np.random.default_rng(7)
    q(db, "SELECT gx_matrix_gallery('poisson', 2500, 'S', '{\"sparse\":true}')")
    S, D = to_numpy(q(db, "SELECT gx_dense('S')")), rng.standard_normal((2500, width))
    q(db, "SELECT gx_store('D', ?)", from_numpy(D))
    q(db, "SELECT gx_transpose('D', 'T')")
    for sql, want in [("'S', 'D'", S @ D), ("'S', 'D', '{\"transa\":true}'", S @ D), ("'T', 'S'", D.T @ S),
                      ("'D', 'S', '{\"transa\":true}'", D.T @ S), ("'S', 'T', '{\"transb\":true}'", S @ D)]:
        close(to_numpy(q(db, f"SELECT gx_matmul({sql})")), want)


@pytest.mark.parametrize("limit", [600000, 1000000, 3000000])
def test_rounds(db, limit):
    """40 columns of 20 000 numbers are 6.4 MB each way."""
    rng = np.random.default_rng(3)
    q(db, "SELECT gx_random(20000, 20000, 'S', '{\"density\":0.0001,\"seed\":4}')")
    q(db, "SELECT gx_randn(20000, 40, 'D', '{\"seed\":5}')")
    q(db, "SELECT gx_transpose('D', 'T')")
    i, j, v = np.array(db.execute("SELECT i, j, value FROM gx_cells('S')").fetchall()).T
    D = to_numpy(q(db, "SELECT gx_copy('D')"))
    want, want_t = np.zeros_like(D), np.zeros_like(D)
    np.add.at(want, i.astype(int), v[:, None] * D[j.astype(int)])
    np.add.at(want_t, j.astype(int), v[:, None] * D[i.astype(int)])
    q(db, "SELECT gx_config('memory_limit', ?)", limit)
    q(db, "SELECT gx_matmul('S', 'D', 'C')")
    q(db, "SELECT gx_matmul('S', 'D', 'Ct', '{\"transa\":true}')")
    q(db, "SELECT gx_matmul('T', 'S', 'R')")
    q(db, "SELECT gx_config('memory_limit', ?)", 1 << 30)
    for name, expected in [("C", want), ("Ct", want_t), ("R", want_t.T)]:
        assert q(db, "SELECT gx_check(?)", name) == "ok"
        close(to_numpy(q(db, "SELECT gx_copy(?)", name)), expected)
    assert rng is not None
    q(db, "SELECT gx_config('memory_limit', ?)", 200000)
    text = error(db, "SELECT gx_matmul('S', 'D', 'X')")
    assert text.startswith("gx_matmul: a product with sparse S needs ") and "memory_limit" in text


def test_symmetric(db):
    q(db, "SELECT gx_matrix_gallery('poisson', 400, 'P', '{\"sparse\":true}')")
    D = np.random.default_rng(5).standard_normal((400, 3))
    assert q(db, "SELECT gx_matmul('P', ?)", from_numpy(D)) == \
        q(db, "SELECT gx_matmul('P', ?, '{\"transa\":true}')", from_numpy(D))


@pytest.mark.parametrize("rows, cols", [(0, 4), (4, 0), (0, 0), (5, 4)])
def test_empty(db, rows, cols):
    store(db, "S", np.zeros((rows, cols)))
    for w in [0, 2]:
        got = to_numpy(q(db, "SELECT gx_matmul('S', ?)", from_numpy(np.ones((cols, w)))))
        assert got.shape == (rows, w) and not got.any()
        got = to_numpy(q(db, "SELECT gx_matmul(?, 'S')", from_numpy(np.ones((w, rows)))))
        assert got.shape == (w, cols) and not got.any()
        got = to_numpy(q(db, "SELECT gx_matmul('S', ?, '{\"transa\":true}')", from_numpy(np.ones((rows, w)))))
        assert got.shape == (cols, w) and not got.any()


def test_refused(db):
    store(db, "S", np.eye(3))
    assert error(db, "SELECT gx_matmul('S', '[1,2]')").startswith("gx_matmul: S is 3x3 but B is 2x1")
    q(db, "SELECT gx_store('C', '[1,2,3]')")
    assert '"beta" is for dense matrices' in error(db, "SELECT gx_matmul('S', '[1,2,3]', 'C', '{\"beta\":1}')")
    db.execute("UPDATE gx_tile SET data = zeroblob(length(data)) WHERE id >> 32 = 1")
    for sql in ["gx_matmul('S', '[1,2,3]')", "gx_matmul('S', '[1,2,3]', '{\"transa\":true}')", "gx_matmul('[[1,2,3]]', 'S')"]:
        assert "panel 0 of S: row starts go from 0 to 0, expected 0 to 3" in error(db, f"SELECT {sql}")


# Sparse results and reductions ---------------------------------------------------------------------

def dense_of(db, sql, *values):
    assert q(db, f"SELECT gx_nnz({sql})", *values) <= 300 * 170
    return to_numpy(q(db, f"SELECT gx_dense({sql})", *values))


@pytest.mark.parametrize("dtype", TYPES)
def test_sparse_results(db, dtype):
    rng = np.random.default_rng(6)
    S, T, U = (random(rng, shape, dtype, 0.05) for shape in [(300, 170), (300, 170), (170, 90)])
    S[11] = 0
    for name, A in [("S", S), ("T", T), ("U", U)]:
        store(db, name, A)
    value = q(db, "SELECT gx_copy('S')")
    close(dense_of(db, "gx_transpose('S')"), S.T)
    close(dense_of(db, "gx_transpose(?, '{\"conj\":true}')", value), S.conj().T)
    close(dense_of(db, "gx_slice('S', 3, 250, 7, 100)"), S[3:250, 7:100])
    close(dense_of(db, "gx_row(?, 20)", value), S[20:21])
    close(dense_of(db, "gx_col('S', 20)"), S[:, 20:21])
    close(dense_of(db, "gx_scale('S', -2.5)"), (-2.5 * S).astype(S.dtype))
    close(dense_of(db, "gx_neg(?)", value), -S)
    close(dense_of(db, "gx_add('S', 'T')"), S + T)
    close(dense_of(db, "gx_sub('S', 'T')"), S - T)
    close(dense_of(db, "gx_mul(?, 'T')", value), S * T)
    close(dense_of(db, "gx_matmul('S', 'U')"), S @ U)
    close(dense_of(db, "gx_matmul(?, 'U', '{\"alpha\":2}')", value), 2 * (S @ U))
    q(db, "SELECT gx_matmul('S', 'U', 'C')")
    assert q(db, "SELECT gx_check('C')") == "ok" and q(db, "SELECT format FROM gx WHERE name = 'C'") == "sparse"
    close(to_numpy(q(db, "SELECT gx_dense('C')")), S @ U)
    if dtype[0] == "f":
        close(dense_of(db, "gx_abs('S')"), np.abs(S))
        close(dense_of(db, "gx_tanh('S')"), np.tanh(S))
    for sql in ["gx_exp('S')", "gx_add('S', 1)", "gx_mul('S', '[[2]]')", "gx_maximum('S', 'T')", "gx_cos('S')"]:
        assert "is needed dense" in error(db, f"SELECT {sql}") or dtype[0] == "c"


@pytest.mark.parametrize("dtype", TYPES)
def test_lists_of_rows_and_columns(db, dtype):
    rng = np.random.default_rng(9)
    S = random(rng, (300, 170), dtype, 0.05)
    store(db, "S", S)
    for name in ["S", q(db, "SELECT gx_copy('S')")]:
        for axis, side in ((0, 300), (1, 170)):
            for index in ([side - 1, 0, 0, -2, 5], rng.integers(0, side, 400).tolist(), [3]):
                value = q(db, "SELECT gx_take(?, ?, ?)", name, json.dumps(index), axis)
                assert np.array_equal(to_numpy(q(db, "SELECT gx_dense(?)", value)), np.take(S, index, axis))
                assert q(db, "SELECT gx_nnz(?)", value) == np.count_nonzero(np.take(S, index, axis))
        assert q(db, "SELECT gx_take(?, '[7,1]', 'R', '{\"replace\":true}')", name) == "R"
        assert np.array_equal(dense_of(db, "'R'"), S[[7, 1]])
        assert q(db, "SELECT format FROM gx WHERE name = 'R'") == "sparse"
        assert "there is no row 300: there are 300" in error(db, "SELECT gx_take(?, '[1,300]')", name)
        assert "there is no column -171" in error(db, "SELECT gx_take(?, '[-171]', 1)", name)
        assert "1.5" in error(db, "SELECT gx_take(?, '[1.5]')", name)
        assert "axis must be 0 (down the columns) or 1 (along the rows), not 2" in error(db, "SELECT gx_take(?, '[1]', 2)", name)
    store(db, "I", np.array([[2.0], [9.0]]))
    assert np.array_equal(dense_of(db, "gx_take('S', gx_dense('I'))"), S[[2, 9]])


@pytest.mark.parametrize("dtype", TYPES)
def test_reductions(db, dtype):
    rng = np.random.default_rng(7)
    S, N = random(rng, (300, 170), dtype, 0.05), random(rng, (90, 90), dtype, 0.1)
    store(db, "S", S)
    store(db, "N", N)
    value = q(db, "SELECT gx_copy('S')")
    rel = 1e-5 if dtype in ("f32", "c64") else 1e-12
    for name in ["S", value]:
        D = from_numpy(S)
        for sql in ["gx_sum({})", "gx_mean({})", "gx_sum({}, 0)", "gx_sum({}, 1)", "gx_mean({}, 0)"]:
            got, want = (q(db, "SELECT " + sql.format("?"), x) for x in (name, D))
            if isinstance(want, float):
                assert got == pytest.approx(want, rel=rel, abs=rel)
            else:
                assert np.abs(to_numpy(got) - to_numpy(want)).max() < rel * 100
        for kind, order in [("fro", "fro"), ("1", 1), ("inf", np.inf)]:
            assert q(db, f"SELECT gx_norm(?, '{kind}')", name) == pytest.approx(np.linalg.norm(S, order), rel=rel)
        assert q(db, "SELECT gx_norm(?, 'max')", name) == pytest.approx(np.abs(S).max(), rel=rel)
        if dtype[0] == "f":
            assert q(db, "SELECT gx_min(?)", name) == S.min() and q(db, "SELECT gx_max(?)", name) == S.max()
    assert "is needed dense" in error(db, "SELECT gx_norm('S', '2')")
    got = q(db, "SELECT gx_trace('N')")
    got = to_numpy(got)[0, 0] if isinstance(got, bytes) else got
    assert abs(got - N.trace()) < rel * 100
    assert "square" in error(db, "SELECT gx_trace('S')")


def test_zeros_count_for_extremes(db):
    for A, least, most in [("[[1,2],[3,4]]", 1, 4), ("[[1,2],[0,4]]", 0, 4), ("[[-1,-2],[0,-4]]", -4, 0), ("[[0,0]]", 0, 0)]:
        assert q(db, f"SELECT gx_min(gx_sparse('{A}'))") == least and q(db, f"SELECT gx_max(gx_sparse('{A}'))") == most
    tiny = "'[[1e-200, 0], [0, 1e-200]]'"
    assert q(db, f"SELECT gx_norm(gx_sparse({tiny}))") == pytest.approx(2**0.5 * 1e-200)
    assert q(db, "SELECT gx_norm(gx_sparse('[[1e200, 0], [0, 1e200]]'))") == pytest.approx(2**0.5 * 1e200)


def read_by(db, sql):
    """The matrix, and bytes read meanwhile."""
    def read():
        return q(db, "SELECT value FROM gx_stats WHERE name = 'bytes_read'")

    before = read()
    got = to_numpy(q(db, f"SELECT {sql}"))
    return got, read() - before


def test_plan(tmp_path):
    """What the first call reads; rounds where memory is short; what is not foretold."""
    db = connected(str(tmp_path / "s.db"))
    q(db, "SELECT gx_random(3000, 2000, 'S', '{\"density\":0.01}')")
    db.execute("SELECT gx_randn(2000, 40, 'D'), gx_randn(40, 3000, 'E'), gx_copy('S', 'T')").fetchall()

    def plan(text):
        sql = "SELECT driver, detail, calls, bytes_read, bytes_written, flops, seconds FROM gx_plan(?) WHERE device = 'cpu'"
        return db.execute(sql, (text,)).fetchone()

    panels, nnz = q(db, "SELECT count(*) FROM gx_tile WHERE id >> 32 = (SELECT id FROM gx_meta WHERE name = 'S')"), q(db, "SELECT gx_nnz('S')")
    for text, sql, cells in [("S @ D", "gx_matmul('S', 'D')", 3000 * 40), ("E @ S", "gx_matmul('E', 'S')", 40 * 2000),
                             ("S.T @ E.T", "gx_matmul('S', 'E', '{\"transa\":true,\"transb\":true}')", 2000 * 40)]:
        driver, detail, calls, bytes_read, bytes_written, flops, seconds = plan(text)
        assert driver == "sparse" and f"{panels} panels of S, 1 time" in detail and calls == panels and seconds > 0
        assert (bytes_written, flops) == (8 * cells, 80 * nnz)
        other = connected(str(tmp_path / "s.db"))
        assert read_by(other, sql)[1] == pytest.approx(bytes_read, rel=0.05)  # and a look at one of them
        other.close()
    q(db, "SELECT gx_config('memory_limit', 600000)")
    assert "times" in plan("S @ D")[1] and plan("S @ D")[3] > 2 * bytes_read
    assert "cannot know before it is computed" in error(db, "SELECT * FROM gx_plan('S.T @ T')")
    assert "needed dense" in error(db, "SELECT * FROM gx_plan('lu(S)')")
    assert "300" in error(db, "SELECT * FROM gx_plan('S @ E')")
    db.close()


def test_what_has_been_read_stays(tmp_path):
    n, path = 40000, str(tmp_path / "s.db")
    db, rng = gx_connect(path), np.random.default_rng(8)
    q(db, "SELECT gx_config('memory_limit', '256MiB')")
    q(db, f"SELECT gx_matrix_gallery('poisson', {n}, 'S', '{{\"sparse\":true}}')")
    D, E = rng.standard_normal((n, 8)), rng.standard_normal((n, 8))
    q(db, "SELECT gx_store('D', ?)", from_numpy(D))
    line = sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(200, 200))
    S = sp.csr_matrix(sp.kron(sp.identity(200), line) + sp.kron(line, sp.identity(200)))
    first, bytes_read = read_by(db, "gx_matmul('S', 'D')")
    assert bytes_read > 0 and np.allclose(first, S @ D)
    again, bytes_read = read_by(db, "gx_matmul('S', 'D')")
    assert bytes_read == 0 and np.array_equal(first, again)
    q(db, "SELECT gx_matmul('S', 'D', 'C')")
    assert np.array_equal(to_numpy(q(db, "SELECT gx_copy('C')")), first)
    value = from_numpy(D)
    assert np.allclose(to_numpy(q(db, "SELECT gx_matmul('S', ?)", value)), first)
    for sql, want in [("gx_matmul('S', 'D', '{\"transa\":true}')", S.T @ D), ("gx_matmul('D', 'S', '{\"transa\":true}')", D.T @ S)]:
        assert np.allclose(read_by(db, sql)[0], want) and np.allclose(read_by(db, sql)[0], want)
    # What another connection, this one, and an open transaction change is seen.
    other = gx_connect(path)
    q(other, "SELECT gx_store('D', ?, '{\"replace\":true}')", from_numpy(E))
    got, bytes_read = read_by(db, "gx_matmul('S', 'D')")
    assert bytes_read > 0 and np.allclose(got, S @ E)
    q(db, "SELECT gx_set('D', 0, 0, 1000)")
    E[0, 0] = 1000
    assert np.allclose(read_by(db, "gx_matmul('S', 'D')")[0], S @ E)
    db.execute("BEGIN")
    q(db, "SELECT gx_scale('S', 2, 'S', '{\"replace\":true}')")
    assert np.allclose(read_by(db, "gx_matmul('S', 'D')")[0], 2 * (S @ E))
    db.execute("ROLLBACK")
    assert np.allclose(read_by(db, "gx_matmul('S', 'D')")[0], S @ E)
    # Nothing stays where memory is short.
    q(db, "SELECT gx_config('tile_bytes', 1048576)")
    q(db, "SELECT gx_config('memory_limit', 7000000)")
    for _ in range(2):
        got, bytes_read = read_by(db, "gx_matmul('S', 'D')")
        assert bytes_read > 0 and np.allclose(got, S @ E)
    other.close()
    db.close()


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_what_stays_of_an_attached_file(tmp_path, journal):
    """A file with the same history, copied over it while it is detached, has the same ids, generations and versions."""
    files, want = [str(tmp_path / f"{k}.db") for k in range(3)], []
    for k in (0, 1):
        made = gx_connect(files[k], journal_mode=journal)
        q(made, "SELECT gx_sparse(gx_randn(1000, 1000, NULL, ?), 'S')", json.dumps({"seed": k}))
        q(made, "SELECT gx_ones(1000, 2, 'D')")
        want.append(to_numpy(q(made, "SELECT gx_matmul('S', 'D')")))
        made.close()
    db = gx_connect(str(tmp_path / "main.db"))
    product = "gx_matmul('o.S', 'o.D')"
    for k in (0, 1, 0):
        shutil.copyfile(files[k], files[2])
        db.execute("ATTACH ? AS o", (files[2],))
        assert close(read_by(db, product)[0], want[k]) is None
        got, bytes_read = read_by(db, product)
        assert bytes_read < 10**6 and close(got, want[k]) is None
        q(db, "SELECT gx_matmul('o.S', 'o.D', 'o.C', '{\"replace\":true}')")  # what gx stores there changes nothing
        got, bytes_read = read_by(db, product)
        assert (bytes_read < 10**6 or journal == "wal") and close(got, want[k]) is None  # a log may have been copied
        db.execute("CREATE TABLE o.t(x)")
        assert close(read_by(db, product)[0], want[k]) is None
        db.execute("DETACH o")
    db.close()
