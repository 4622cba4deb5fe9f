"""Sparse matrices: made, kept, read, and refused where they are needed dense.  SciPy is the oracle.

Plan, with small tiles so that small matrices have many panels:
- dense to sparse and back in every dtype, stored and as values; thresholds, NaN; 0 x n, n x 0, empty rows, one long row;
- generators: the dense matrix of the same seed has the same numbers; poisson and tridiag of any order;
- gx_cells: SciPy's entries under constraints and orders; cells in: any order, duplicates, spilled to disk;
- Matrix Market: SciPy reads ours, we read SciPy's; the size decides what coordinates become;
- the catalog, gx_info, copies, casts, renames, drops, ROLLBACK, volumes and home, gx_backup;
- every function of gx either takes a sparse operand or says that it needs it dense: none makes it dense by itself;
- forged directories, panels and values are refused in words by whatever reads them, and found by gx_check.
"""
import sqlite3
import struct

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from conftest import error, from_numpy, gx_connect, q, to_numpy

DTYPES = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}
SPARSE = '\'{"sparse":true}\''


@pytest.fixture
def small(filedb):
    q(filedb, "SELECT gx_config('tile_bytes', 4096)")
    return filedb


def entries(db, name, rest=""):
    return db.execute(f"SELECT i, j, value, imag FROM gx_cells(?) {rest}", (name,)).fetchall()


def scipy_of(db, name):
    i, j, value, imag = np.array(entries(db, name)).reshape(-1, 4).T
    shape = [q(db, "SELECT gx_rows_count(?)", name), q(db, "SELECT gx_cols_count(?)", name)]
    return sp.csr_array((value + 1j * imag, (i.astype(int), j.astype(int))), shape=shape)


def random_dense(rows, cols, density, dtype, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows, cols)) * (rng.random((rows, cols)) < density)
    if np.issubdtype(dtype, np.complexfloating):
        A = A + 1j * rng.standard_normal((rows, cols)) * (A != 0)
    return A.astype(dtype)


# 1. ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", DTYPES)
def test_there_and_back(small, dtype):
    A = random_dense(150, 90, 0.1, DTYPES[dtype])
    A[17] = A[30:60] = 0
    A[20] = 1
    q(small, "SELECT gx_sparse(?, 'S')", from_numpy(A))
    assert q(small, "SELECT gx_nnz('S')") == np.count_nonzero(A)
    assert small.execute("SELECT format, nnz, dtype, rows, cols FROM gx WHERE name = 'S'").fetchone() == \
        ("sparse", np.count_nonzero(A), dtype, 150, 90)
    assert q(small, "SELECT count(*) FROM gx_tile") >= 3
    assert q(small, "SELECT gx_check('S')") == "ok" == q(small, "SELECT gx_check()")
    assert np.array_equal(to_numpy(q(small, "SELECT gx_dense('S')")), A)
    q(small, "SELECT gx_dense('S', 'D')")
    assert np.array_equal(to_numpy(q(small, "SELECT gx_copy('D')")), A)
    value = q(small, "SELECT gx_sparse(?)", from_numpy(A))
    assert np.array_equal(to_numpy(q(small, "SELECT gx_dense(?)", value)), A)
    assert q(small, "SELECT gx_copy('S')") == value == q(small, "SELECT gx_sparse('S')")
    assert entries(small, "S") == entries(small, value)
    assert q(small, "SELECT gx_store('T', ?)", value) == "T" and entries(small, "T") == entries(small, "S")


def test_thresholds_and_nan(db):
    A = "'[[1, -3, 0.5], [\"nan\", 0, 2]]'"
    assert q(db, f"SELECT gx_json(gx_dense(gx_sparse({A}, 1)))") == "[[0.0,-3.0,0.0],[null,0.0,2.0]]"
    assert q(db, f"SELECT gx_nnz(gx_sparse({A}))") == 5
    assert q(db, f"SELECT gx_nnz(gx_sparse(gx_sparse({A}), 2))") == 2
    assert q(db, f"SELECT gx_sparse({A}, 0.5, 'T')") == "T"
    assert q(db, "SELECT gx_nnz('T')") == 4
    assert error(db, f"SELECT gx_sparse({A}, -1)") == "gx_sparse: threshold must be 0 or more, not -1"
    assert error(db, f"SELECT gx_sparse({A}, 'a', 'b')") == \
        "gx_sparse: threshold must be a number: gx_sparse(A, threshold, destination)"


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "c8", "u1", "i2", "i8"])
def test_values_of_many_tiles(small, dtype):
    """Counted and filled by all threads, from a stored matrix and from a value: as SciPy has it, of the same dtype."""
    for rows, cols, seed in ((700, 431, 1), (31, 3001, 2), (3001, 7, 3)):
        A = random_dense(rows, cols, 0.3, "f8", seed) * 10
        A = (A * (1 - 2j) if dtype in ("c16", "c8") else A).astype(dtype)
        A[rows // 2] = 0
        if dtype in ("f8", "f4"):
            A[3, 5] = np.nan
        q(small, "SELECT gx_store('D', ?, '{\"replace\":true}')", from_numpy(A, exact=True))
        for threshold in (0, 3):
            want = sp.csr_matrix(np.where(np.abs(A) <= threshold, 0, A))
            q(small, "SELECT gx_sparse('D', ?, 'W', '{\"replace\":true}')", threshold)  # by one thread, in panels
            for threads in (1, 2):
                q(small, "SELECT gx_config('threads', ?)", threads)
                value = q(small, "SELECT gx_sparse('D', ?)", threshold)
                assert value == q(small, "SELECT gx_sparse(?, ?)", from_numpy(A, exact=True), threshold) == q(small, "SELECT gx_copy('W')")
                np.testing.assert_array_equal(to_numpy(q(small, "SELECT gx_dense(?)", value)), want.toarray())
                assert q(small, "SELECT gx_nnz(?)", value) == want.nnz


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (1, 1), (1, 700), (700, 1), (5000, 3)])
def test_shapes(small, shape):
    A = np.zeros(shape)
    if A.size:
        A[-1, -1] = 7
    q(small, "SELECT gx_sparse(?, 'S')", from_numpy(A))
    assert q(small, "SELECT gx_check('S')") == "ok"
    assert np.array_equal(to_numpy(q(small, "SELECT gx_dense('S')")), A)
    assert np.array_equal(to_numpy(q(small, "SELECT gx_dense(gx_copy('S'))")), A)
    assert len(entries(small, "S")) == bool(A.size) == q(small, "SELECT gx_nnz('S')")


def test_a_row_longer_than_a_tile(small):
    A = np.zeros((9, 5000))
    A[4] = np.arange(1, 5001)
    q(small, "SELECT gx_sparse(?, 'S')", from_numpy(A))
    assert max(n for n, in small.execute("SELECT length(data) FROM gx_tile")) > 60000
    assert np.array_equal(to_numpy(q(small, "SELECT gx_dense('S')")), A)
    assert entries(small, "S", "WHERE j BETWEEN 4000 AND 4001") == [(4, 4000, 4001, 0), (4, 4001, 4002, 0)]


# 2. ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("function", ["gx_random", "gx_randn"])
def test_random(small, function):
    q(small, f"SELECT {function}(300, 200, 'S', '{{\"density\":0.03,\"seed\":5}}')")
    dense = to_numpy(q(small, f"SELECT {function}(300, 200, '{{\"seed\":5}}')"))
    got = entries(small, "S")
    assert len(got) == 300 * 6 == q(small, "SELECT gx_nnz('S')")
    assert all(dense[i, j] == value for i, j, value, _ in got)
    assert len({j for _, j, _, _ in got}) > 190
    q(small, f"SELECT {function}(3000, 10, 'T', '{{\"density\":0.25}}')")
    assert 0.24 < q(small, "SELECT gx_nnz('T')") / 30000 < 0.26
    assert error(small, f"SELECT {function}(3, 3, '{{\"density\":1.5}}')") == \
        f'{function}: option "density" must be 0 to 1, not 1.5'
    assert q(small, f"SELECT gx_nnz({function}(3, 4, '{{\"density\":1}}'))") == 12


@pytest.mark.parametrize("kind", ["poisson", "tridiag", "clement", "lesp", "wilkinson"])
def test_gallery(small, kind):
    for n in [1, 4, 81]:
        dense = to_numpy(q(small, "SELECT gx_matrix_gallery(?, ?)", kind, n))
        got = to_numpy(q(small, f"SELECT gx_dense(gx_matrix_gallery(?, ?, {SPARSE}))", kind, n))
        assert np.array_equal(got, dense)


def test_a_large_gallery(small):
    q(small, f"SELECT gx_matrix_gallery('poisson', 1000000, 'P', {SPARSE})")
    assert small.execute("SELECT nnz, properties FROM gx").fetchone() == (4996000, "symmetric,hermitian,positive")
    assert entries(small, "P", "WHERE i = 500500") == [(500500, 499500, -1, 0), (500500, 500499, -1, 0),
                                                       (500500, 500500, 4, 0), (500500, 500501, -1, 0),
                                                       (500500, 501500, -1, 0)]
    assert q(small, "SELECT gx_get('P', 999999, 998999)") == -1
    assert error(small, f"SELECT gx_matrix_gallery('hilb', 9, {SPARSE})") == \
        "gx_matrix_gallery: hilb has no sparse form (poisson, tridiag, clement, lesp, wilkinson)"


# 3. ------------------------------------------------------------------------------------------------

def test_cells_out(small):
    A = random_dense(80, 60, 0.2, np.float64)
    q(small, "SELECT gx_sparse(?, 'S')", from_numpy(A))
    all_of_it = [(i, j, A[i, j], 0.0) for i in range(80) for j in range(60) if A[i, j]]
    value = q(small, "SELECT gx_copy('S')")
    small.execute("CREATE VIRTUAL TABLE s USING gx_cells('S')")
    for name in ["S", value]:
        assert entries(small, name) == all_of_it
        assert entries(small, name, "ORDER BY j, i") == sorted(all_of_it, key=lambda e: (e[1], e[0]))
        assert entries(small, name, "ORDER BY i DESC, j") == sorted(all_of_it, key=lambda e: (-e[0], e[1]))
        for where, test in [("i = 7", lambda i, j: i == 7), ("j = 7", lambda i, j: j == 7),
                            ("i > 70 AND j <= 20", lambda i, j: i > 70 and j <= 20), ("i < 0", lambda i, j: False),
                            ("i = 3 AND j = 3", lambda i, j: i == j == 3), ("j >= 60", lambda i, j: False)]:
            assert entries(small, name, f"WHERE {where}") == [e for e in all_of_it if test(*e[:2])]
    assert small.execute("SELECT i, j, value, imag FROM s").fetchall() == all_of_it
    assert q(small, "SELECT sum(a.value * b.value) FROM s a JOIN s b ON a.i = b.j AND a.j = b.i") == \
        pytest.approx((A[:60] * A[:60].T).sum())
    assert "S is sparse and cannot be written cell by cell" in error(small, "UPDATE s SET value = 1")
    assert "S is sparse" in error(small, "INSERT INTO s VALUES(0, 0, 1, 0)")
    assert "is needed dense" in error(small, "SELECT count(*) FROM gx_rows('S')")
    assert "is needed dense" in error(small, "SELECT gx_set('S', 0, 0, 1)")


def test_changed_while_being_read(small):
    q(small, "SELECT gx_random(5000, 50, 'S', '{\"density\":0.1}')")
    rows = small.execute("SELECT i FROM gx_cells('S')")
    rows.fetchone()
    q(small, "SELECT gx_copy('S', 'S', '{\"replace\":true}')")
    with pytest.raises(sqlite3.Error, match="S changed while being read"):
        rows.fetchall()


@pytest.mark.parametrize("limit", [None, 6 << 20])
def test_cells_in(small, limit):
    """Cells in a scrambled order; the smaller limit spills them."""
    if limit:
        q(small, "SELECT gx_config('memory_limit', ?)", limit)
    count = 250000
    small.execute("CREATE TEMP TABLE c AS WITH RECURSIVE k(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM k "
                  f"WHERE k < {count - 1}) SELECT k * 7919 % 5003 AS i, k * 104729 % 3001 AS j, k + 0.5 AS x FROM k")
    q(small, "SELECT gx_store_cells('S', i, j, x, '{\"sparse\":true,\"duplicates\":\"sum\"}') FROM c")
    q(small, "SELECT gx_store_cells('L', i % 50, j % 50, x, '{\"sparse\":true,\"duplicates\":\"last\",\"rows\":60}') "
             "FROM c")
    k = np.arange(count)
    want = sp.coo_array((k + 0.5, (k * 7919 % 5003, k * 104729 % 3001))).tocsr()
    got = scipy_of(small, "S")
    assert got.shape == want.shape and got.nnz == want.nnz and abs(got - want).max() == 0
    last = {}
    for n, i, j in zip(k, k * 7919 % 5003 % 50, k * 104729 % 3001 % 50):
        last[i, j] = n + 0.5
    assert {(i, j): x for i, j, x, _ in entries(small, "L")} == last
    assert q(small, "SELECT gx_shape('L')") == "[60,50]"
    assert "comes twice" in error(small, f"SELECT gx_store_cells('E', 1, 1, x, {SPARSE}) FROM c LIMIT 2")
    value = q(small, f"SELECT gx_from_cells(i, j, x, {SPARSE}) FROM (SELECT * FROM c LIMIT 100)")
    assert q(small, "SELECT gx_nnz(?)", value) == 100
    assert q(small, f"SELECT gx_nnz(gx_from_cells(1, 2, 0.0, {SPARSE}))") == 1, "what is given is there, a 0 too"
    assert "rows make a dense matrix" in error(small, f"SELECT gx_from_rows(0, '[1]', {SPARSE})")


# 4. ------------------------------------------------------------------------------------------------

def test_matrix_market(small, tmp_path):
    for dtype in [np.float64, np.complex128]:
        A = sp.csr_array(random_dense(70, 40, 0.1, dtype))
        scipy.io.mmwrite(tmp_path / "a.mtx", A, precision=17)
        q(small, "SELECT gx_import('A', ?, '{\"sparse\":true,\"replace\":true}')", str(tmp_path / "a.mtx"))
        assert abs(scipy_of(small, "A") - A).max() == 0
        q(small, "SELECT gx_export('A', ?, '{\"overwrite\":true}')", str(tmp_path / "b.mtx"))
        assert abs(scipy.io.mmread(tmp_path / "b.mtx") - A).max() == 0
    q(small, f"SELECT gx_matrix_gallery('poisson', 100, 'P', {SPARSE})")
    q(small, "SELECT gx_export('P', ?)", str(tmp_path / "p.mtx"))
    text = (tmp_path / "p.mtx").read_text().splitlines()
    assert text[0] == "%%MatrixMarket matrix coordinate real symmetric" and text[1] == "100 100 280"
    q(small, "SELECT gx_import('P2', ?, '{\"dense\":false}')", str(tmp_path / "p.mtx"))
    assert entries(small, "P2") == entries(small, "P")
    assert small.execute("SELECT properties FROM gx WHERE name = 'P2'").fetchone()[0] == "symmetric,hermitian"
    for path in ["p.npy", "p.csv"]:
        assert "is needed dense" in error(small, "SELECT gx_export('P', ?)", str(tmp_path / path))
    assert "is needed dense" in error(small, "SELECT gx_export('P', ?, '{\"format\":\"array\"}')", str(tmp_path / "q.mtx"))


def test_what_coordinates_become(small, tmp_path):
    path = str(tmp_path / "a.mtx")
    head = "%%MatrixMarket matrix coordinate real general\n"
    for size, wanted in [("3 3", "dense"), ("20000 20000", "sparse")]:
        (tmp_path / "a.mtx").write_text(f"{head}{size} 2\n1 1 5\n2 1 6\n")
        q(small, "SELECT gx_import('A', ?, '{\"replace\":true}')", path)
        assert q(small, "SELECT format FROM gx") == wanted
    assert entries(small, "A") == [(0, 0, 5, 0), (1, 0, 6, 0)]
    (tmp_path / "a.mtx").write_text("%%MatrixMarket matrix array real general\n1 1\n5\n")
    assert "gx_sparse makes a sparse matrix of it" in error(small, f"SELECT gx_import('B', ?, {SPARSE})", path)
    (tmp_path / "a.csv").write_text("1,2\n")
    assert 'option "sparse" is for mtx' in error(small, f"SELECT gx_import('B', ?, {SPARSE})", str(tmp_path / "a.csv"))
    assert "contradict" in error(small, "SELECT gx_import('B', ?, '{\"sparse\":true,\"dense\":true}')", path)
    (tmp_path / "a.mtx").write_text(f"{head}3 3 2\n1 1 5\n9 1 6\n")
    assert "row 9 is outside 1..3" in error(small, f"SELECT gx_import('B', ?, {SPARSE})", path)
    assert "already exists" in error(small, f"SELECT gx_import('A', ?, {SPARSE})", path)


# 5. ------------------------------------------------------------------------------------------------

def test_catalog(small):
    q(small, "SELECT gx_random(400, 90, 'S', '{\"density\":0.1,\"dtype\":\"f32\"}')")
    before = entries(small, "S")
    q(small, "SELECT gx_cast('S', 'c128', 'C')")
    assert entries(small, "C") == before
    assert "would lose the imaginary part" in error(small, "SELECT gx_cast('C', 'f64')")
    q(small, "SELECT gx_rename('S', 'T')")
    assert q(small, "SELECT gx_exists('S')") == 0 and entries(small, "T") == before
    small.execute("UPDATE gx SET name = 'U' WHERE name = 'T'")
    small.execute("INSERT INTO gx(name, value) SELECT 'V', value FROM gx WHERE name = 'U'")
    assert entries(small, "V") == before
    small.execute("BEGIN")
    q(small, "SELECT gx_copy('V', 'W')")
    small.execute("DELETE FROM gx WHERE name = 'U'")
    assert entries(small, "W") == before
    small.execute("ROLLBACK")
    assert q(small, "SELECT gx_exists('W')") == 0 and entries(small, "U") == before
    assert '"format":"sparse","nnz":3600' in q(small, "SELECT gx_info('U')")
    assert q(small, "SELECT sum(bytes) FROM gx") == q(small, "SELECT sum(length(data)) FROM gx_tile")
    for name in ["C", "U", "V"]:
        q(small, "SELECT gx_drop(?)", name)
    assert q(small, "SELECT count(*) FROM gx_tile") == 0 and q(small, "SELECT gx_check()") == "ok"
    assert q(small, "PRAGMA integrity_check") == "ok"


def test_volumes_and_backup(small, tmp_path):
    q(small, "SELECT gx_volumes(2)")
    q(small, "SELECT gx_random(3000, 500, 'S', '{\"density\":0.02}')")
    before = entries(small, "S")
    assert q(small, "SELECT count(*) FROM gx_extent") > 10 and q(small, "SELECT count(*) FROM gx_tile") == 0
    assert q(small, "SELECT gx_check()") == "ok"
    q(small, "SELECT gx_backup(?)", str(tmp_path / "copy.db"))
    copy = gx_connect(str(tmp_path / "copy.db"))
    assert entries(copy, "S") == before and q(copy, "SELECT gx_check()") == "ok"
    copy.close()
    q(small, "SELECT gx_volumes(0)")
    assert entries(small, "S") == before and q(small, "SELECT gx_check()") == "ok"
    assert q(small, "SELECT value FROM gx_state WHERE key = 'format'") == 3


@pytest.mark.parametrize("name", ["min", "max", "argmin", "argmax"])
def test_extremes(small, name):
    """As of the dense matrix: zeros between the entries count, of equal elements the first, NaN before any number."""
    rng = np.random.default_rng(31)
    some = random_dense(50, 31, 0.2, "<f8")
    some[3], some[:, 4], some[5, 6], some[7], some[:, 8] = 0, -1.5, np.nan, 2.5, np.abs(some[:, 8])
    cases = [some, some.astype("<f4"), -np.abs(some[10:30]), np.abs(some[10:30]), np.zeros((3, 4)), np.ones((2, 3)), -np.ones((2, 3)),
             rng.integers(-1, 2, (9, 70)).astype(float)]
    for a in cases:
        small.execute("SELECT gx_sparse(?, 0, 'S', '{\"replace\":true}')", (from_numpy(a),)).fetchall()
        for source in ("'S'", "gx_sparse('S')"):
            got, want = q(small, f"SELECT gx_{name}({source})"), getattr(np, name)(a)
            assert got == want or (got is None and np.isnan(want)), (name, source)
            for axis in (0, 1):
                got = to_numpy(q(small, f"SELECT gx_{name}({source}, {axis})"))
                assert got.dtype == (a.dtype if name in ("min", "max") else np.float64)
                assert np.array_equal(got, np.expand_dims(getattr(np, name)(a, axis), axis), equal_nan=True), (name, axis)
    if name.startswith("arg"):
        small.execute("SELECT gx_sparse('[[0,3],[4,0]]', 0, 'S', '{\"replace\":true}')").fetchall()
        assert q(small, f"SELECT gx_{name}('S', 0, 'P')") == "P" and q(small, "SELECT gx_shape('P')") == "[1,2]"
        assert error(small, f"SELECT gx_{name}('S', 2)") == f"gx_{name}: axis must be 0 (down the columns) or 1 (along the rows), not 2"
        assert "complex numbers have no order" in error(small, f"SELECT gx_{name}(gx_sparse('[[\"i\"]]'))")


# 6. ------------------------------------------------------------------------------------------------

def test_every_function(small):
    """Dense, S would be 4 TiB: whoever tried it would say so, or never end."""
    q(small, "SELECT gx_store_cells('S', 1 << 20, 1 << 20, 1.0, '{\"sparse\":true}')")
    q(small, "SELECT gx_cast('S', 'f32', 'S', '{\"replace\":true}')")
    names = sorted({name for name, in small.execute("SELECT name FROM pragma_function_list WHERE name LIKE 'gx!_%' "
                                                    "ESCAPE '!'")} -
                   {"gx_benchmark", "gx_selftest", "gx_drop", "gx_backup", "gx_config", "gx_dense",
                    "gx_shortest_paths",  # whose result is dense
                    "gx_append"})  # which changes S: test_append.py
    taken, refused = set(), set()
    for name in names:
        for arguments in ["'S'", "'S', 'S'", "'S', 0", "'S', 0, 0", "'S', 1, 'S'", "'[1,2]', 'S'", "'[1,2]', '[1]', 'S'"]:
            try:
                small.execute(f"SELECT {name}({arguments})").fetchall()
                taken.add(name)
            except sqlite3.Error as problem:
                text = str(problem)
                assert not any(words in text for words in ["memory_limit leaves", "past SQLite"]), f"{name}: {text}"
                if "is needed dense" in text:
                    assert "(1048577x1048577, 1 entry)" in text and "4398054899716 bytes" in text
                    refused.add(name)
    assert {"gx_lu", "gx_eig", "gx_inverse", "gx_eval", "gx_json"} <= refused
    assert {"gx_nnz", "gx_copy", "gx_get", "gx_show", "gx_info", "gx_transpose", "gx_sum", "gx_tanh"} <= taken


# 7. ------------------------------------------------------------------------------------------------

READERS = ["SELECT gx_dense('S')", "SELECT count(*) FROM gx_cells('S')", "SELECT gx_copy('S')",
           "SELECT gx_copy('S', 'X', '{\"replace\":true}')"]


def panel(starts, indexes, values):
    def pad(b):
        return b + bytes(-len(b) % 8)
    return pad(np.array(starts, "<u4").tobytes()) + pad(np.array(indexes, "<i4").tobytes()) + \
        np.array(values, "<f8").tobytes()


@pytest.mark.parametrize("data, words", [
    (panel([0, 2, 2, 3], [0, 2, 1], [1, 2, 3]), None),
    (panel([0, 2, 2, 3], [2, 0, 1], [1, 2, 3]), "row 0 has column 0 behind column 2"),
    (panel([0, 2, 2, 3], [0, 0, 1], [1, 2, 3]), "row 0 has column 0 behind column 0"),
    (panel([0, 2, 2, 3], [0, 3, 1], [1, 2, 3]), "row 0 has column 3, expected 0 to 2"),
    (panel([0, 2, 2, 3], [0, 2, -1], [1, 2, 3]), "row 2 has column -1, expected 0 to 2"),
    (panel([0, 2, 2, 3], [0, 2, -2**31], [1, 2, 3]), "row 2 has column -2147483648, expected 0 to 2"),
    (panel([1, 2, 2, 3], [0, 2, 1], [1, 2, 3]), "row starts go from 1 to 3, expected 0 to 3"),
    (panel([0, 2, 2, 2], [0, 2, 1], [1, 2, 3]), "row starts go from 0 to 2, expected 0 to 3"),
    (panel([0, 2, 1, 3], [0, 2, 1], [1, 2, 3]), "row 1 goes from entry 2 to 1"),
    (panel([0, 2**32 - 1, 2, 3], [0, 2, 1], [1, 2, 3]), "row 0 goes from entry 0 to 4294967295"),
    (panel([0, 2, 2, 3], [0, 2, 1], [1, 2]), "has 48 bytes, expected 56"),
    (b"", "has 0 bytes, expected 56"),
])
def test_forged_panels(db, data, words):
    q(db, "SELECT gx_sparse('[[1,0,2],[0,0,0],[0,3,0]]', 'S')")
    db.execute("UPDATE gx_tile SET data = ?", (data,))
    if words is None:
        assert q(db, "SELECT gx_check('S')") == "ok"
        return
    assert words in q(db, "SELECT gx_check('S')") and words in q(db, "SELECT gx_check()")
    for sql in READERS:
        text = error(db, sql)
        assert " of S" in text and ("panel 0" in text or "tile 0" in text), text
    value = q(db, "SELECT gx_sparse('[[1,0,2],[0,0,0],[0,3,0]]')")
    if len(data) == 56:
        assert words in error(db, "SELECT gx_dense(?)", value[:32] + data)


def test_missing_and_strange_panels(db):
    q(db, "SELECT gx_sparse('[[1,0,2],[0,0,0],[0,3,0]]', 'S')")
    db.execute("INSERT INTO gx_tile VALUES((1 << 32) + 1, x'00')")
    assert q(db, "SELECT gx_check('S')") == "tile 1 of S is one too many: it has 1"
    db.execute("DELETE FROM gx_tile")
    assert q(db, "SELECT gx_check('S')") == "tile 0 of S is missing"
    for sql in READERS:
        assert "tile 0 of S is missing" in error(db, sql)


def directory(places, dtype=0, index=4, magic=b"gxsp", version=1, zero=0, panels=None, total=None, last=0):
    return struct.pack("<4sBBBBqqq", magic, version, zero, dtype, index, len(places) if panels is None else panels,
                       sum(n for _, n in places) if total is None else total, last) + \
        b"".join(struct.pack("<qq", *place) for place in places)


@pytest.mark.parametrize("aux", [
    None, b"", b"gxsp", directory([(3, 3)], magic=b"gxfa"), directory([(3, 3)], version=2), directory([(3, 3)], dtype=1),
    directory([(3, 3)], index=8), directory([(3, 3)], zero=1), directory([(3, 3)], last=1), directory([]),
    directory([(3, 3)], panels=2), directory([(3, 3)], panels=-1), directory([(3, 3)], panels=2**60),
    directory([(3, 3)], total=4), directory([(2, 3)]), directory([(4, 3)]), directory([(3, -1)], total=-1),
    directory([(3, 10)]), directory([(3, 2**62)]), directory([(2, 2), (2, 0), (3, 1)]), directory([(3, 2), (2, 1)]),
    directory([(2**63 - 1, 3)]), directory([(0, 0), (3, 3)]), directory([(3, 3)]) + b"x",
])
def test_forged_directories(db, aux):
    q(db, "SELECT gx_sparse('[[1,0,2],[0,0,0],[0,3,0]]', 'S')")
    db.execute("UPDATE gx_meta SET aux = ?", (aux,))
    for sql in READERS + ["SELECT gx_nnz('S')", "SELECT gx_info('S')"]:
        text = error(db, sql)
        assert "directory of S" in text or "no directory of its panels" in text, text
    assert q(db, "SELECT gx_check('S')") != "ok" if aux is None or aux[4:5] != b"\2" else True
    assert "directory" in q(db, "SELECT gx_check()")
    assert db.execute("SELECT nnz, bytes FROM gx").fetchall() == [(None, None)]
    assert q(db, "SELECT gx_drop('S')") == "S" and q(db, "SELECT gx_check()") == "ok"


def test_forged_catalog_rows(db):
    q(db, "SELECT gx_sparse('[[1,0,2],[0,0,0],[0,3,0]]', 'S')")
    q(db, "SELECT gx_store('D', '[[1,2],[3,4]]')")
    for change in ["tile_rows = 2", "cols = 1 << 40", "rows = 2", "dtype = 1", "properties = 131072 | 128"]:
        db.execute("SAVEPOINT s")
        db.execute(f"UPDATE gx_meta SET {change} WHERE name = 'S'")
        for sql in READERS:
            assert " of S" in error(db, sql)
        assert q(db, "SELECT gx_check()") != "ok"
        db.execute("ROLLBACK TO s")
    db.execute("UPDATE gx_meta SET properties = 131072 WHERE name = 'D'")
    assert "D is sparse but has no directory" in error(db, "SELECT gx_copy('D')")


@pytest.mark.parametrize("at, byte", [(6, 2), (7, 1), (24, 4), (24, 2), (31, 0x7f), (31, 0xff), (8, 4), (16, 2)])
def test_forged_values(db, at, byte):
    value = bytearray(q(db, "SELECT gx_sparse('[[1,0,2],[0,0,0],[0,3,0]]')"))
    value[at] = byte
    for sql in ["SELECT gx_dense(?)", "SELECT gx_nnz(?)", "SELECT count(*) FROM gx_cells(?)", "SELECT gx_store('X', ?)"]:
        assert "value" in error(db, sql, bytes(value))


def test_values_at_any_address(db):
    """Parts of a row may start anywhere."""
    db.execute("CREATE TABLE t(pad, v)")
    for k in range(9):
        db.execute("INSERT INTO t SELECT ?, gx_sparse('[[1,0,2],[0,0,0],[0,3,0]]')", (bytes(k),))
    assert db.execute("SELECT DISTINCT gx_json(gx_dense(v)) FROM t").fetchall() == \
        [("[[1.0,0.0,2.0],[0.0,0.0,0.0],[0.0,3.0,0.0]]",)]
