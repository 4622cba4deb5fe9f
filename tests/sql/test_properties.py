"""Properties: set, implied, taken away, checked, kept and lost.

Plan:
  1  gx_set_property: words, lists, implications by dtype, taking away, generation, the option check.
  2  What cannot be set: shapes, words, values; exact texts; the catalog as it was.
  3  gx_check_property against NumPy over dtypes, shapes, tiles and budgets; tolerances, NaN, infinities.
  4  Kept by copy, rename, transpose, cast; set by generators and products; lost when a cell is written.
  5  positive and orthogonal in the temp database, of which nothing is left.
"""
import numpy as np
import pytest

from conftest import error, from_numpy, q

NUMPY = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}
SYMMETRIC = "symmetric,hermitian"


def properties(db, name):
    return q(db, "SELECT properties FROM gx WHERE name = ?", name)


def store(db, name, array):
    db.execute("SELECT gx_store(?, ?, '{\"replace\":true}')", (name, from_numpy(array)))


@pytest.mark.parametrize("dtype", list(NUMPY))
def test_implications(db, dtype):
    is_real = dtype.startswith("f")
    store(db, "A", np.eye(3, dtype=NUMPY[dtype]))
    both = SYMMETRIC if is_real else ""

    def after(words):
        db.execute("SELECT gx_set_property('A', 'symmetric,hermitian,positive,diagonal,unit,orthogonal', 0)")
        assert properties(db, "A") == ""
        assert q(db, "SELECT gx_set_property('A', ?)", words) == properties(db, "A")
        return properties(db, "A")

    assert after("positive") == (SYMMETRIC if is_real else "hermitian") + ",positive"
    assert after("symmetric") == (both or "symmetric")
    assert after("hermitian") == (both or "hermitian")
    assert after("diagonal") == (both or "symmetric") + ",lower,upper"
    assert after(" lower , upper ") == after("diagonal")
    assert after("lower,unit") == "lower,unit"
    assert after("unitary") == "orthogonal"
    assert after("diagonal,unit") == f"{SYMMETRIC},positive,lower,upper,unit,orthogonal"


def test_taking_away(db):
    store(db, "A", np.eye(3))
    db.execute("SELECT gx_set_property('A', 'diagonal,unit')")
    assert q(db, "SELECT gx_set_property('A', 'orthogonal', 0)") == "unit"  # no identity, so no diagonal
    db.execute("SELECT gx_set_property('A', 'positive')")
    assert q(db, "SELECT gx_set_property('A', 'symmetric', 0)") == "unit"
    db.execute("SELECT gx_set_property('A', 'positive,orthogonal')")
    assert q(db, "SELECT gx_set_property('A', 'positive', 0)") == f"{SYMMETRIC},unit,orthogonal"
    assert q(db, "SELECT gx_set_property('A', 'lower', 0)") == f"{SYMMETRIC},unit,orthogonal"


def test_generation_and_check(db):
    store(db, "A", np.array([[2.0, 1.0], [1.0, 2.0]]))
    before = q(db, "SELECT generation FROM gx")
    db.execute("SELECT gx_set_property('A', 'positive', '{\"check\":true}')")
    assert q(db, "SELECT generation FROM gx") > before
    assert properties(db, "A") == SYMMETRIC + ",positive"
    assert error(db, "SELECT gx_set_property('A', 'upper', 1, '{\"check\":true}')") == "gx_set_property: A is not upper"
    assert properties(db, "A") == SYMMETRIC + ",positive"
    db.execute("BEGIN")
    db.execute("SELECT gx_set_property('A', 'unit')")
    db.execute("ROLLBACK")
    assert properties(db, "A") == SYMMETRIC + ",positive"


@pytest.mark.parametrize("sql,text", [
    ("SELECT gx_set_property('A', 'symmetric')",
     "gx_set_property: A is 2x3, but only a square matrix can be symmetric"),
    ("SELECT gx_set_property('A', 'positive,lower')",
     "gx_set_property: A is 2x3, but only a square matrix can be positive"),
    ("SELECT gx_set_property('A', 'orthogonal')",
     "gx_set_property: A is 2x3, and 3 columns of 2 elements cannot be orthonormal"),
    ("SELECT gx_set_property('A', '')", "gx_set_property: no property '' (symmetric, hermitian, positive, lower, upper, "
     "unit, diagonal, orthogonal, unitary)"),
    ("SELECT gx_set_property('A', 'lower,')", "gx_set_property: no property '' (symmetric, hermitian, positive, lower, "
     "upper, unit, diagonal, orthogonal, unitary)"),
    ("SELECT gx_set_property('A', 'lu')", "gx_set_property: no property 'lu' (symmetric, hermitian, positive, lower, "
     "upper, unit, diagonal, orthogonal, unitary)"),
    ("SELECT gx_set_property('A', 'lower', 2)", "gx_set_property: on must be 1 or 0, not 2"),
    ("SELECT gx_set_property('[[1]]', 'lower')",
     "gx_set_property: A must be the name of a stored matrix: a value has no properties"),
    ("SELECT gx_set_property('B', 'lower')", "gx_set_property: no matrix named 'B'"),
    ("SELECT gx_check_property('A', 'lower', -1)", "gx_check_property: tolerance must be 0 or more, not -1"),
    ("SELECT gx_check_property('A', 'lower', 'nan')", "gx_check_property: tolerance must be 0 or more, not nan"),
    ("SELECT gx_check_property('A', 'low')", "gx_check_property: no property 'low' (symmetric, hermitian, positive, "
     "lower, upper, unit, diagonal, orthogonal, unitary)"),
    ("SELECT gx_is_symmetric('A', 'x')", None),
])
def test_refused(db, sql, text):
    store(db, "A", np.ones((2, 3)))
    before = db.execute("SELECT * FROM gx").fetchall()
    got = error(db, sql)
    assert text is None or got == text
    assert db.execute("SELECT * FROM gx").fetchall() == before


def truth(x, words):
    """By NumPy, exactly."""
    square = x.shape[0] == x.shape[1]
    holds = {"symmetric": square and np.array_equal(x, x.T), "hermitian": square and np.array_equal(x, x.conj().T),
             "lower": np.array_equal(x, np.tril(x)), "upper": np.array_equal(x, np.triu(x)),
             "unit": bool(np.all(np.diag(x) == 1)),
             "diagonal": np.array_equal(x, np.tril(np.triu(x)))}
    return int(all(holds[word] for word in words.split(",")))


@pytest.mark.parametrize("dtype", list(NUMPY))
@pytest.mark.parametrize("tile_bytes", [2048, 8 << 20])
def test_check_against_numpy(filedb, dtype, tile_bytes):
    rng = np.random.default_rng(5)
    filedb.execute("SELECT gx_config('tile_bytes', ?)", (tile_bytes,))
    for m, n in [(0, 0), (0, 3), (1, 1), (2, 2), (5, 5), (33, 33), (64, 64), (65, 40), (40, 65)]:
        x = rng.integers(-4, 5, (m, n)).astype(NUMPY[dtype])
        if dtype.startswith("c"):
            x = x + 1j * rng.integers(-4, 5, (m, n)).astype(x.real.dtype)
        kinds = [x, np.tril(x), np.triu(x), np.tril(np.triu(x))]
        if m == n:
            kinds += [x + x.T, x + x.conj().T, np.eye(m, dtype=x.dtype), np.tril(x, -1) + np.eye(m, dtype=x.dtype)]
        if m > 4 and m == n:  # one element in a corner tile spoils it
            spoilt = (x + x.T).copy()
            spoilt[m - 1, 0] += 1
            kinds.append(spoilt)
        for a in kinds:
            a = a.astype(NUMPY[dtype])
            store(filedb, "A", a)
            for words in ["symmetric", "hermitian", "lower", "upper", "unit", "diagonal", "lower,unit"]:
                for form in ["A", from_numpy(a)]:
                    assert q(filedb, "SELECT gx_check_property(?, ?)", form, words) == truth(a, words), (a, words)


@pytest.mark.parametrize("dtype", list(NUMPY))
def test_positive_and_orthogonal(filedb, dtype):
    rng = np.random.default_rng(6)
    n = 70
    filedb.execute("SELECT gx_config('tile_bytes', 4096)")
    x = rng.standard_normal((n, n))
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal((n, n))
    s = (x @ x.conj().T + n * np.eye(n)).astype(NUMPY[dtype])
    s = np.tril(s) + np.tril(s, -1).conj().T
    s[np.arange(n), np.arange(n)] = s.diagonal().real
    basis = np.linalg.qr(x)[0].astype(NUMPY[dtype])
    indefinite = s.copy()
    indefinite[40, 40] = -1
    for a, positive, orthogonal in [(s, 1, 0), (indefinite, 0, 0), (basis, 0, 1), (basis[:, :20], 0, 1),
                                    (basis[:20], 0, 0), (2 * basis, 0, 0)]:
        store(filedb, "A", a)
        assert q(filedb, "SELECT gx_check_property('A', 'positive')") == positive
        assert q(filedb, "SELECT gx_check_property('A', 'orthogonal')") == orthogonal
    assert q(filedb, "SELECT gx_check_property('A', 'orthogonal', 4)") == 1
    assert q(filedb, "SELECT gx_check_property('[[1,2],[3,4]]', 'positive')") == 0


def test_tolerance_and_strange_numbers(db):
    a = np.array([[1.0, 2.0], [2.0 + 1e-9, 1.0]])
    assert q(db, "SELECT gx_is_symmetric(?)", from_numpy(a)) == 0
    assert q(db, "SELECT gx_is_symmetric(?, 1e-9)", from_numpy(a)) == 1
    assert q(db, "SELECT gx_is_symmetric(?, 1e-10)", from_numpy(a)) == 0
    inf, nan = float("inf"), float("nan")
    assert q(db, "SELECT gx_is_symmetric(?)", from_numpy(np.array([[1, inf], [inf, 1]]))) == 1
    assert q(db, "SELECT gx_is_symmetric(?)", from_numpy(np.array([[1, inf], [-inf, 1]]))) == 0
    assert q(db, "SELECT gx_is_symmetric(?, 1)", from_numpy(np.array([[1, nan], [nan, 1]]))) == 0
    assert q(db, "SELECT gx_check_property(?, 'positive')", from_numpy(np.array([[nan]]))) == 0
    assert q(db, "SELECT gx_check_property(?, 'orthogonal')", from_numpy(np.array([[nan]]))) == 0


def test_kept_and_lost(db):
    store(db, "A", np.tril(np.arange(1.0, 10).reshape(3, 3)))
    db.execute("SELECT gx_set_property('A', 'lower')")
    db.execute("SELECT gx_copy('A', 'C')")
    db.execute("SELECT gx_transpose('A', 'T')")
    db.execute("SELECT gx_rename('C', 'R')")
    assert [properties(db, name) for name in "ATR"] == ["lower", "upper", "lower"]
    db.execute("SELECT gx_set('A', 0, 0, 5)")
    assert properties(db, "A") == ""
    db.execute("CREATE VIRTUAL TABLE r USING gx_cells('R')")
    db.execute("UPDATE r SET value = 7 WHERE i = 2 AND j = 0")
    assert properties(db, "R") == ""
    db.execute("SELECT gx_eye(3, 'I')")
    assert properties(db, "I") == f"{SYMMETRIC},positive,lower,upper,unit,orthogonal"
    db.execute("SELECT gx_matmul('A', 'A', 'G', '{\"transb\":true}')")
    assert properties(db, "G") == SYMMETRIC
    db.execute("SELECT gx_set_property('G', 'positive')")
    db.execute("SELECT gx_cast('G', 'f32', 'G32')")
    assert properties(db, "G32") == SYMMETRIC


def test_gallery_tells_the_truth(db):
    """Every property that a generator claims holds when looked at."""
    kinds = [row[0] for row in db.execute("SELECT value FROM json_each(?)", (
        '["minij","lehmer","moler","kms","frank","tridiag","kahan","gfpp","poisson","clement","pei","lotkin","ris"]',))]
    for kind in kinds:
        order = 9 if kind == "poisson" else 12
        db.execute("SELECT gx_matrix_gallery(?, ?, 'A', '{\"replace\":true}')", (kind, order))
        claimed = properties(db, "A")
        if claimed:
            assert q(db, "SELECT gx_check_property('A', ?)", claimed) == 1, (kind, claimed)


def test_nothing_is_left_in_temp(filedb):
    """A^H A and the factor of a matrix larger than memory live in temp for a moment only."""
    filedb.execute("SELECT gx_config('tile_bytes', 32768)")
    filedb.execute("SELECT gx_matrix_gallery('minij', 300, 'A')")
    filedb.execute("SELECT gx_config('memory_limit', '1MiB')")
    assert q(filedb, "SELECT gx_check_property('A', 'orthogonal')") == 0
    assert q(filedb, "SELECT gx_check_property('A', 'positive')") == 1
    tables = [row[0] for row in filedb.execute("SELECT name FROM temp.sqlite_master")]
    assert "gx_tile" not in tables or q(filedb, "SELECT count(*) FROM temp.gx_tile") == 0
    assert "gx_meta" not in tables or q(filedb, "SELECT count(*) FROM temp.gx_meta") == 0
    assert q(filedb, "SELECT gx_check()") == "ok"
