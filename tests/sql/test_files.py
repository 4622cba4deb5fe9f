"""Files in and out: gx_import and gx_export give and take what other programs do.

Plan:
- round trips: formats x dtypes x shapes (0, 1, tile +-1, narrow, wide), with plenty of memory and with the least that
  memory_limit allows and tiles of 512 bytes, so that every matrix is many bands;
- what NumPy and SciPy write, gx reads: every .npy element type, byte order, memory order, version, by one thread and by
  several; mmwrite;
- what gx writes, NumPy and SciPy read: np.load, mmread, loadtxt; the exact text of small files; properties;
- Matrix Market files of the collections (tests/data) against scipy.io.mmread, and their properties;
- CSV: delimiters, headers, quotes, missing values, complex numbers, columns, line ends, comments.

What is refused, and manners, are in test_files_refused.py.
"""
import gzip
import io
import json
import os
import stat
import zlib

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from conftest import ROOT, error, from_numpy, q, to_numpy
from filekit import BANNER as B
from filekit import any_db, leftovers, npy, plenty, put, read, same, stored  # noqa: F401

DATA = ROOT / "tests" / "data"
SEED = 20250117
SHAPES = [(1, 1), (1, 9), (9, 1), (8, 8), (7, 9), (17, 5), (64, 33), (130, 70), (3, 400), (400, 3)]
DTYPES = ["f8", "f4", "c16", "c8"]
ENDINGS = ["npy", "mtx", "csv", "tsv"]


def numbers(shape, dtype):
    rng = np.random.default_rng([SEED, *shape])
    a = rng.standard_normal(shape) * 10.0 ** rng.integers(-20, 20, shape)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.standard_normal(shape)
    return a.astype(dtype)


def properties(db, name):
    return q(db, "SELECT properties FROM gx WHERE name = ?", name)


# ---- round trips -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize("ending", ENDINGS)
def test_round_trip(any_db, tmp_path, ending, shape):
    for dtype in DTYPES:
        a = numbers(shape, dtype)
        path = tmp_path / f"{dtype}.{ending}"
        plenty(any_db, "SELECT gx_store(?, ?)", dtype, from_numpy(a))
        assert q(any_db, "SELECT gx_export(?, ?)", dtype, str(path)) == str(path)
        options = json.dumps({"dtype": {"f8": "f64", "f4": "f32", "c16": "c128", "c8": "c64"}[dtype], "replace": True})
        assert q(any_db, "SELECT gx_import('B', ?, ?)", str(path), options) == "B"
        assert same(stored(any_db, "B"), a)
        assert q(any_db, "SELECT gx_check('B')") == "ok"
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0)], ids=str)
@pytest.mark.parametrize("ending", ["npy", "mtx"])
def test_empty(any_db, tmp_path, ending, shape):
    path = tmp_path / f"a.{ending}"
    q(any_db, "SELECT gx_export(gx_zeros(?, ?), ?)", *shape, str(path))
    assert read(any_db, path).shape == shape
    q(any_db, "SELECT gx_import('E', ?)", str(path))
    assert any_db.execute("SELECT rows, cols FROM gx WHERE name = 'E'").fetchone() == shape
    if ending == "npy":
        assert np.load(path).shape == shape


def test_special_values(any_db, tmp_path):
    a = np.array([[np.nan, np.inf, -np.inf], [0.0, -0.0, 5e-324], [1.7976931348623157e308, 0.1, 2**53 + 2]])
    for ending in ENDINGS:
        path = tmp_path / f"a.{ending}"
        q(any_db, "SELECT gx_export(?, ?)", from_numpy(a), str(path))
        b = read(any_db, path)
        assert same(a, b) and np.array_equal(np.signbit(a[1]), np.signbit(b[1])), ending


# ---- .npy ------------------------------------------------------------------------------------------------------------

NPY = ["<f8", ">f8", "<f4", ">f4", "<f2", ">f2", "<c8", ">c8", "<c16", ">c16", "|i1", "<i2", ">i2", "<i4", ">i4", "<i8",
       ">i8", "|u1", "<u2", ">u2", "<u4", ">u4", "<u8", ">u8", "|b1"]
RESULT = {"u8": "f8"}  # the others stay what they are


@pytest.mark.parametrize("dtype", NPY)
def test_npy_from_numpy(any_db, tmp_path, dtype):
    rng = np.random.default_rng(SEED)
    kind = np.dtype(dtype).kind
    if kind in "fc":
        a = rng.standard_normal((131, 37)) + (1j * rng.standard_normal((131, 37)) if kind == "c" else 0)
        a = a.astype(dtype)
        a[0, :4] = [0, np.inf, -np.inf, np.nan]
        a[1, :3] = [np.finfo(a.dtype).max, np.finfo(a.dtype).tiny, np.finfo(a.dtype).smallest_subnormal]
    elif kind == "b":
        a = rng.integers(0, 2, (131, 37)).astype(bool)
    else:
        info = np.iinfo(dtype)
        a = rng.integers(info.min, info.max, (131, 37), dtype=np.dtype(dtype).newbyteorder("="), endpoint=True)
        a = a.astype(dtype)
        a[0, :2] = [info.min, info.max]
    wanted = a.astype(RESULT.get(np.dtype(dtype).str[1:], np.dtype(dtype).newbyteorder("<")))
    for order in "CF":
        for shape in [(131, 37), (37, 131), (4847,), (1, 4847)]:
            b = np.asarray(a.reshape(shape), order=order)
            path = tmp_path / "a.npy"
            np.save(path, b)
            c = read(any_db, path)
            assert same(c, wanted.reshape(shape if len(shape) == 2 else (-1, 1))), (order, shape)
    q(any_db, "SELECT gx_import('A', ?)", str(path))
    assert same(stored(any_db, "A"), wanted.reshape(1, -1))


@pytest.mark.parametrize("dtype", ["<f8", ">f4", "<c8", "<f2", "|u1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_by_threads(db, tmp_path, dtype, order):
    """Large ones are read by all threads, a piece of a band each: tall, wide, in many tiles and few."""
    q(db, "SELECT gx_config('tile_bytes', '64KiB')")
    for shape in [(1201, 900), (211000, 5)]:
        a = np.asarray((np.arange(np.prod(shape)) % 251).reshape(shape).astype(dtype), order=order)
        np.save(tmp_path / "a.npy", a)
        assert os.path.getsize(tmp_path / "a.npy") > 1 << 20
        for threads in (1, 3):
            q(db, "SELECT gx_config('threads', ?)", threads)
            q(db, "SELECT gx_import('A', ?, '{\"replace\":true}')", str(tmp_path / "a.npy"))
            assert np.array_equal(stored(db, "A"), a), (shape, threads)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_versions(db, tmp_path, version):
    a = numbers((5, 4), "f8")
    with open(tmp_path / "a.npy", "wb") as file:
        np.lib.format.write_array(file, a, version=version)
    assert same(read(db, tmp_path / "a.npy"), a)
    np.save(tmp_path / "s.npy", np.float64(2.5))
    assert same(read(db, tmp_path / "s.npy"), np.array([[2.5]]))


def test_npy_headers(db, tmp_path):
    """Any key order, either quote, any blanks, Python 2's long integers."""
    data = np.arange(6.0).tobytes()
    for header in [
        "{'shape': (2, 3), 'fortran_order': False, 'descr': '<f8'}",
        '{"descr":"<f8","fortran_order":False,"shape":(2,3,),}',
        "  { 'fortran_order'\t:  False ,'descr':'=f8', 'shape' : ( 2L , 3L ) , }   \n",
        "{'descr': 'f8', 'fortran_order': False, 'shape': (2, 3), }\n",
    ]:
        assert same(read(db, put(tmp_path / "a.npy", npy(header, data))), np.arange(6.0).reshape(2, 3)), header


@pytest.mark.parametrize("dtype", DTYPES)
def test_npy_for_numpy(any_db, tmp_path, dtype):
    a = numbers((65, 34), dtype)
    path = tmp_path / "a.npy"
    q(any_db, "SELECT gx_export(?, ?)", from_numpy(a), str(path))
    b = np.load(path)
    assert same(a, b) and b.flags.f_contiguous and b.dtype == np.dtype("<" + dtype)
    assert os.path.getsize(path) == 128 + a.nbytes and stat.S_IMODE(os.stat(path).st_mode) == 0o666 & ~umask()
    mapped = np.load(path, mmap_mode="r")
    assert same(mapped, a)


def test_npy_dtype(db, tmp_path):
    a = numbers((6, 5), "f8")
    path = tmp_path / "a.npy"
    q(db, "SELECT gx_export(?, ?, '{\"dtype\":\"f32\"}')", from_numpy(a), str(path))
    assert same(np.load(path), a.astype("f4"))
    assert same(read(db, path, '{"dtype":"c128"}'), a.astype("f4").astype("c16"))
    c = from_numpy(a + 1j)
    assert error(db, "SELECT gx_export(?, ?, '{\"dtype\":\"f64\"}')", c, str(tmp_path / "c.npy")) == (
        "gx_export: A is complex (c128), but dtype f64 is real"
    )
    np.save(path, a + 1j)
    assert error(db, "SELECT gx_import('C', ?, '{\"dtype\":\"f32\"}')", str(path)) == (
        "gx_import: a.npy: holds complex numbers, but dtype f32 is real"
    )


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


# ---- Matrix Market ---------------------------------------------------------------------------------------------------


def dense(path):
    m = scipy.io.mmread(str(path))
    m = m.toarray() if scipy.sparse.issparse(m) else m
    return m.astype("c16" if m.dtype.kind == "c" else "f8")


@pytest.mark.parametrize("name", ["LFAT5", "karate", "west0067", "matrix_int8", "complex", "skew_fp64", "olm1000"])
def test_mtx_collections(any_db, name):
    path = DATA / f"{name}.mtx"
    tiles = name == "olm1000"  # large beside the tightest budget
    if tiles and q(any_db, "SELECT gx_config('tile_bytes')") == 512:
        q(any_db, "SELECT gx_config('memory_limit', '1MiB')")
        q(any_db, "SELECT gx_config('tile_bytes', '64KiB')")
    q(any_db, "SELECT gx_import('A', ?)", str(path))
    rows, cols = any_db.execute("SELECT rows, cols FROM gx").fetchone()
    wanted = dense(path)
    got = np.zeros_like(wanted)
    for i, j, *parts in any_db.execute(
        "SELECT i, j, value, imag FROM gx_cells('A') WHERE value <> 0 OR imag <> 0"
    ).fetchall():
        got[i, j] = parts[0] if wanted.dtype.kind == "f" else complex(*parts)
    assert (rows, cols) == wanted.shape and same(got, wanted)
    symmetric = name in ("LFAT5", "karate")
    assert ("symmetric" in properties(any_db, "A")) == symmetric


def test_mtx_large(filedb):
    q(filedb, "SELECT gx_import('K', ?)", str(DATA / "bcsstk13.mtx"))
    wanted = dense(DATA / "bcsstk13.mtx")
    assert np.isclose(q(filedb, "SELECT gx_norm('K')"), np.linalg.norm(wanted), rtol=1e-14)
    assert q(filedb, "SELECT gx_trace('K')") == pytest.approx(np.trace(wanted), rel=1e-14)
    assert same(stored(filedb, "K"), wanted)


# SciPy writes the diagonal of a complex skew-symmetric array, which the format leaves out.
KINDS = [(field, symmetry, sparse)
         for field in ["real", "complex", "integer"]
         for symmetry in ["general", "symmetric", "skew-symmetric", "hermitian"]
         for sparse in [False, True]
         if (symmetry != "hermitian" or field == "complex")
         and (field, symmetry, sparse) != ("complex", "skew-symmetric", False)]


@pytest.mark.parametrize("field, symmetry, sparse", KINDS)
def test_mtx_from_scipy(any_db, tmp_path, field, symmetry, sparse):
    rng = np.random.default_rng(SEED)
    n = 61
    a = rng.integers(-99, 99, (n, n)).astype("f8") if field == "integer" else rng.standard_normal((n, n))
    if field == "complex":
        a = a + 1j * rng.standard_normal((n, n))
    a[rng.random((n, n)) < 0.6] = 0
    a = {"general": a, "symmetric": a + a.T, "skew-symmetric": a - a.T, "hermitian": a + a.conj().T}[symmetry]
    path = tmp_path / "a.mtx"
    b = a.astype("i8") if field == "integer" else a
    scipy.io.mmwrite(str(path), scipy.sparse.coo_matrix(b) if sparse else b, field=field, symmetry=symmetry, precision=17)
    first = path.read_text().split("\n")[0].lower()
    assert f"{'coordinate' if sparse else 'array'} {field} {symmetry}" in first
    assert same(read(any_db, path), a)
    q(any_db, "SELECT gx_import('A', ?)", str(path))
    assert same(stored(any_db, "A"), a)
    real = field != "complex"
    flags = properties(any_db, "A")
    assert ("symmetric" in flags.split(",")) == (symmetry == "symmetric"), flags
    assert ("hermitian" in flags.split(",")) == (symmetry == "hermitian" or (real and symmetry == "symmetric")), flags

    # And back: the symmetry survives.
    again = tmp_path / "again.mtx"
    for form in ["array", "coordinate"]:
        q(any_db, "SELECT gx_export('A', ?, ?)", str(again), f'{{"overwrite":true,"format":"{form}"}}')
        kept = "general" if symmetry == "skew-symmetric" else symmetry
        head = f"%%MatrixMarket matrix {form} {'real' if real else 'complex'} {kept}"
        assert again.read_text().split("\n")[0] == head
        assert same(dense(again), a) and same(read(any_db, again), a)
        q(any_db, "SELECT gx_export('A', ?, ?)", str(again),
          f'{{"overwrite":true,"format":"{form}","symmetry":"general"}}')
        assert again.read_text().split("\n")[0].endswith("general") and same(dense(again), a)


def test_mtx_text(db, tmp_path):
    path = tmp_path / "a.mtx"
    q(db, "SELECT gx_export('[[1,0,-2.5],[0,\"nan\",1e-9]]', ?)", str(path))
    assert path.read_text() == "%%MatrixMarket matrix array real general\n2 3\n1\n0\n0\nnan\n-2.5\n1e-09\n"
    q(db, "SELECT gx_export('[[1,0,-2.5],[0,\"nan\",1e-9]]', ?, ?)", str(path),
      '{"overwrite":true,"format":"coordinate"}')
    assert path.read_text() == "%%MatrixMarket matrix coordinate real general\n2 3 4\n1 1 1\n2 2 nan\n1 3 -2.5\n2 3 1e-09\n"
    q(db, "SELECT gx_export('[[\"1+2i\",0]]', ?, ?)", str(path), '{"overwrite":true,"format":"coordinate"}')
    assert path.read_text() == "%%MatrixMarket matrix coordinate complex general\n1 2 1\n1 1 1 2\n"
    q(db, "SELECT gx_export('[[0.1,123456.789]]', ?, ?)", str(path), '{"overwrite":true,"precision":3}')
    assert path.read_text() == "%%MatrixMarket matrix array real general\n1 2\n0.1\n123000\n"


MTX = [
    (B.upper() + "COORDINATE REAL GENERAL\n2 2 1\n1 2 5\n", [[0, 5], [0, 0]]),
    (B + "coordinate real general\r\n% c\r\n\r\n2 2 1\r\n\r\n1 2 5\r\n", [[0, 5], [0, 0]]),
    (B + "coordinate real general\n%\n2\t2  1\n  1   2 1D+05  \n%more\n\n", [[0, 1e5], [0, 0]]),
    (B + "coordinate real general\n2 2 3\n1 2 5\n1 2 -1.5\n2 2 inf", [[0, 3.5], [0, np.inf]]),
    (B + "coordinate pattern general\n2 2 2\n1 2\n2 1\n", [[0, 1], [1, 0]]),
    (B + "coordinate pattern general\n2 2 2\n1 2 7\n2 1\n", [[0, 1], [1, 0]]),  # a value that nobody reads
    (B + "coordinate integer symmetric\n2 2 2\n2 1 9007199254740993\n2 2 -7\n", [[0, 2.0**53], [2.0**53, -7]]),
    (B + "coordinate unsigned-integer general\n1 1 1\n1 1 18446744073709551615\n", [[2.0**64]]),
    (B + "array real symmetric\n3 3\n1\n2\n3\n4\n5\n6\n", [[1, 2, 3], [2, 4, 5], [3, 5, 6]]),
    (B + "array real skew-symmetric\n3 3\n1\n2\n3\n", [[0, -1, -2], [1, 0, -3], [2, 3, 0]]),
    (B + "array complex hermitian\n2 2\n1 0\n2 3\n4 0\n", [[1, 2 - 3j], [2 + 3j, 4]]),
    (B + "coordinate complex symmetric\n2 2 1\n2 1 2 3\n", [[0, 2 + 3j], [2 + 3j, 0]]),
    (B + "coordinate real general\n% " + "x" * 20000 + "\n1 1 1\n1 1 1\n", [[1]]),
]


@pytest.mark.parametrize("text, wanted", MTX)
def test_mtx_accepted(any_db, tmp_path, text, wanted):
    wanted = np.array(wanted, dtype="c16" if np.iscomplexobj(wanted) else "f8")
    assert same(read(any_db, put(tmp_path / "a.mtx", text)), wanted)


# What other readers take, and this one: SciPy's, where it reads them, is asked too.  Not of the last two: some of its
# versions end a number at the e and the D.
VARIANTS = [
    ("%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 5\n", [[0, 5], [0, 0]]),
    ("  " + B + "coordinate real general\n2 2 1\n1 2 5\n", [[0, 5], [0, 0]]),
    ("\ufeff" + B + "coordinate real general\n2 2 1\n1 2 5\n", [[0, 5], [0, 0]]),
    ("\ufeff\n \r\n" + B + "coordinate real general\n2 2 1\n1 2 5\n", [[0, 5], [0, 0]]),
    ("%%matrixmarket MATRIX Coordinate Real GENERAL % words\n2 2 1\n1 2 5\n", [[0, 5], [0, 0]]),
    ("%%MatrixMarket\tmatrix\tcoordinate\tdouble\tgeneral  \n2\t2\t1\n1\t2\t5\n", [[0, 5], [0, 0]]),
    (B + "coordinate real general\n  % comment\n%\n2 2 1 % sizes\n \t% comment\n1 2 5 % entry\n% end", [[0, 5], [0, 0]]),
    (B + "coordinate real general\r\n2 2 2\r\n\r\n1 2 5\r\n \r\n2 1 -7\r\n\r\n", [[0, 5], [-7, 0]]),
    (B + "coordinate real hermitian\n2 2 2\n1 1 1\n2 1 5\n", [[1, 5], [5, 0]]),
    (B + "array real hermitian\n2 2\n1\n2\n3\n", [[1, 2], [2, 3]]),
    (B + "coordinate integer hermitian\n2 2 1\n2 1 5\n", [[0, 5], [5, 0]]),
    (B + "coordinate pattern hermitian\n2 2 2\n1 1\n2 1\n", [[1, 1], [1, 0]]),
    (B + "coordinate pattern symmetric\n2 2 2\n1 1\n2 1\n", [[1, 1], [1, 0]]),
    (B + "coordinate pattern skew-symmetric\n2 2 1\n2 1\n", [[0, -1], [1, 0]]),
    (B + "coordinate real skew-symmetric\n2 2 3\n1 1 0\n2 1 5\n2 2 -0.0\n", [[0, -5], [5, 0]]),
    (B + "coordinate complex skew-symmetric\n2 2 2\n1 1 0 0\n1 2 5 1\n", [[0, 5 + 1j], [-5 - 1j, 0]]),
    (B + "coordinate real symmetric\n3 3 3\n1 1 1\n1 2 5\n1 3 7\n", [[1, 5, 7], [5, 0, 0], [7, 0, 0]]),
    (B + "coordinate real symmetric\n3 3 2\n1 2 5\n3 1 7\n", [[0, 5, 7], [5, 0, 0], [7, 0, 0]]),
    (B + "coordinate real skew-symmetric\n2 2 1\n1 2 5\n", [[0, 5], [-5, 0]]),
    (B + "coordinate complex hermitian\n2 2 1\n1 2 5 3\n", [[0, 5 + 3j], [5 - 3j, 0]]),
    (B + "coordinate real general\n2 2 3\n1 2 5\n1 2 7\n1 2 -1\n", [[0, 11], [0, 0]]),
    (B + "coordinate real symmetric\n2 2 2\n2 1 5\n2 1 7\n", [[0, 12], [12, 0]]),
    (B + "coordinate integer general\n2 2 2\n1 2 5.0\n2 2 -7\n", [[0, 5], [0, -7]]),
    (B + "coordinate real general\n2 2 2\n+1 2 +5\n2 1 -INF\n", [[0, 5], [-np.inf, 0]]),
    (B + "coordinate real general\n2 2 2\n1 2 1e-400\n2 1 1e400\n", [[0, 0], [np.inf, 0]]),
    (B + "coordinate integer general\n2 2 1\n1 2 1e3\n", [[0, 1000], [0, 0]]),
    (B + "coordinate real general\n2 2 1\n1 2 1.0D+05\n", [[0, 1e5], [0, 0]]),
]


@pytest.mark.parametrize("number", range(len(VARIANTS)))
def test_mtx_variants(any_db, tmp_path, number):
    text, wanted = VARIANTS[number]
    wanted = np.array(wanted, dtype="c16" if np.iscomplexobj(wanted) else "f8")
    path = put(tmp_path / "a.mtx", text)
    got = read(any_db, path)
    assert np.array_equal(got, wanted) and got.dtype == wanted.dtype
    if q(any_db, "SELECT gx_config('memory_limit')") > 1 << 20:
        cells = q(any_db, "SELECT gx_dense(gx_import(NULL, ?, '{\"sparse\":true}'))", str(path)) if "array" not in text else None
        assert cells is None or np.array_equal(to_numpy(cells), wanted)
    try:
        theirs = dense(path)
    except Exception:  # this version reads no such file
        return
    assert number >= len(VARIANTS) - 2 or np.array_equal(theirs, wanted)


def test_mtx_real_hermitian_is_symmetric(db, tmp_path):
    q(db, "SELECT gx_import('A', ?)", str(put(tmp_path / "a.mtx", B + "coordinate real hermitian\n2 2 1\n2 1 5\n")))
    assert properties(db, "A") == "symmetric,hermitian"


FAR = " " * 9000
NINTH = "0." + "1" * 40000
LONG = [
    ("a.mtx", B + f"array real general\n2 1\n{NINTH}\n{'0' * 9000}5\n", {}, [[1 / 9], [5]]),
    ("a.mtx", B + f"coordinate real general\n2 2 1\n1 2{FAR * 20}5{FAR * 20}\n", {}, [[0, 5], [0, 0]]),
    ("a.mtx", B + f"{FAR}array real general\n1{FAR}1\n7{FAR}", {}, [[7]]),
    ("a.csv", f"1{FAR},{NINTH}\n{FAR}3,{'0' * 9000}4\n", {"delimiter": ","}, [[1, 1 / 9], [3, 4]]),
    ("a.csv", f'1,"{FAR}2{FAR}" ,3{FAR}\r\n4,5,6', {}, [[1, 2, 3], [4, 5, 6]]),
    ("a.csv", f"1{FAR * 20}2\t{FAR}\n3 4\n", {"delimiter": "space"}, [[1, 2], [3, 4]]),
    ("a.csv", f"1 2{FAR}# c\n{FAR}# {FAR}\n3 4# c{FAR}", {"delimiter": "space"}, [[1, 2], [3, 4]]),
    ("a.csv", f"{'text' * 300000},1{FAR}\n{FAR},2\n", {"columns": 1}, [[1], [2]]),
]


@pytest.mark.parametrize("name, text, options, wanted", LONG, ids=range(len(LONG)))
def test_long_lines(db, tmp_path, name, text, options, wanted):
    """Numbers far apart and of many digits; the text between them may be longer still.  (SciPy 1.15 dies of some of these files.)"""
    path = put(tmp_path / name, text)
    assert same(read(db, path, json.dumps(options)), np.array(wanted, dtype="f8"))


# ---- CSV -------------------------------------------------------------------------------------------------------------

NAN = np.nan
CSV = [
    ("1,2\n3,4\n", {}, [[1, 2], [3, 4]]),
    ("1,2\n3,4", {}, [[1, 2], [3, 4]]),
    ("\ufeff1,2\r\n3,4\r\n", {}, [[1, 2], [3, 4]]),
    ("1,2\r3,4\r", {}, [[1, 2], [3, 4]]),
    ("1;2\n3;4\n", {}, [[1, 2], [3, 4]]),
    ("1\t2\n3\t4\n", {}, [[1, 2], [3, 4]]),
    ("  1   2\n 3  4  \n", {}, [[1, 2], [3, 4]]),
    ("  1   2\n 3 \t4  \n", {"delimiter": " "}, [[1, 2], [3, 4]]),
    ("1|2\n3|4\n", {"delimiter": "|"}, [[1, 2], [3, 4]]),
    ("1 2\n3 4\n", {"delimiter": "space"}, [[1, 2], [3, 4]]),
    ("1, 2 ,3\n 4,5 , 6\n", {}, [[1, 2, 3], [4, 5, 6]]),
    ("a,b\n1,2\n", {}, [[1, 2]]),
    ("length (m),\"width, max\"\n1,2\n", {}, [[1, 2]]),
    ("sepal length\n5.1\n4.9\n", {}, [[5.1], [4.9]]),
    ("569,30,malignant\n1,2\n3,4\n", {"header": True}, [[1, 2], [3, 4]]),
    ("2019,2020\n1,2\n", {"header": True}, [[1, 2]]),
    ("2019,2020\n1,2\n", {}, [[2019, 2020], [1, 2]]),
    ("# made by hand\n\n1,2\n   \n# more\n3,4\n", {}, [[1, 2], [3, 4]]),
    ("junk\nmore, junk, here\n1,2\n", {"skip": 2}, [[1, 2]]),
    ('"1","2"\n"3" , "4"\n', {}, [[1, 2], [3, 4]]),
    ('"a\nb",c\n1,2\n', {}, [[1, 2]]),
    ("1,,NA\nnull,n/a,nan\n", {}, [[1, NAN, NAN], [NAN, NAN, NAN]]),
    ("\t\t\n1\t\t2\n", {}, [[NAN, NAN, NAN], [1, NAN, 2]]),
    ("inf,-Infinity\n+.5,5.\n1e999,-1E-3\n", {}, [[np.inf, -np.inf], [0.5, 5], [np.inf, -0.001]]),
    ("1+2i,(3-4j)\n-i,5\n", {}, [[1 + 2j, 3 - 4j], [-1j, 5]]),
    ("1,x,3\n4,y,6\n", {"columns": [0, 2]}, [[1, 3], [4, 6]]),
    ("id,area,price\nA,1,2\nB,3,4\n", {"columns": ["price", "area"]}, [[2, 1], [4, 3]]),
    ("id;the area;\"my price\"\nA;1;2\n", {"columns": "the area, my price"}, [[1, 2]]),
    ("\ufeffarea,2020\n\n1,2\n", {"columns": ["area", 1]}, [[1, 2]]),
    ("# c\n\narea,area\n1,2\n", {"columns": ["area"]}, [[1]]),
    ("b," + "text" * 5000 + ",a:b\n4,,6\n", {"columns": "a:b,0:1"}, [[6, 4]]),
    ("x\ny\nb a\n4 6\n", {"columns": ["a"], "skip": 2}, [[6]]),
    ("1,x,3\n4,y,6\n", {"columns": "2,0", "header": False}, [[3, 1], [6, 4]]),
    ("0,1,2,3,4\n5,6,7,8,9\n", {"columns": "1:3"}, [[1, 2], [6, 7]]),
    ("0,1,2,3,4\n5,6,7,8,9\n", {"columns": "3:"}, [[3, 4], [8, 9]]),
    ("0,1,2,3,4\n5,6,7,8,9\n", {"columns": [4, ":2"]}, [[4, 0, 1], [9, 5, 6]]),
    ("0,1,2\n3,4,5\n", {"columns": 1}, [[1], [4]]),
    ("1," + "text" * 5000 + ",3\n4,,6\n", {"columns": "0,2"}, [[1, 3], [4, 6]]),
    ("1,\"" + "a,\n" * 5000 + "\",3\n4,,6\n", {"columns": "0,2"}, [[1, 3], [4, 6]]),
    ("5\n", {}, [[5]]),
    # Comments: behind numbers and quotes, between fields of blanks; other signs of number are text.
    ("1 2.5 # first\n2 3.5\n", {}, [[1, 2.5], [2, 3.5]]),
    ("1,2 # a, b\n3,4#c\n", {}, [[1, 2], [3, 4]]),
    ("  # c\n1,2\n   # d\n3,4", {}, [[1, 2], [3, 4]]),
    ('"1" # c\n"2"# d\n', {}, [[1], [2]]),
    ("# c\r1,2\r# d\r3,4\r", {}, [[1, 2], [3, 4]]),
    ("x y # names\n1 2# c\n\n3 4 #\n", {}, [[1, 2], [3, 4]]),
    ("1,2 # " + "long, " * 5000 + "\n3,4\n", {}, [[1, 2], [3, 4]]),
    ("1,Apt #5,3\n2,#ff00ff,4\n", {"columns": [0, 2]}, [[1, 3], [2, 4]]),
    ("item #,price\n1,2\n", {"columns": ["price", "item #"]}, [[2, 1]]),
    # Missing values.
    ("#N/A,2\n3,<NA>\nNone,#n/a\n", {}, [[NAN, 2], [3, NAN], [NAN, NAN]]),
    ("1 #N/A\n#N/A 3 # x\n", {}, [[1, NAN], [NAN, 3]]),
    ("?,-\n1,-999\n", {"na": ["?", "-", "-999"]}, [[NAN, NAN], [1, NAN]]),
    ("1,-999\n-99,\n", {"na": -999}, [[1, NAN], [-99, NAN]]),
    ("a,b\nmissing,2\n", {"na": "missing"}, [[NAN, 2]]),
    ("1,5 kg\n2,\"a,b\"\n", {"na": ["5 kg", "a,b"]}, [[1, NAN], [2, NAN]]),
    # Decimal commas, and delimiters that are found.
    ("1,5;2\n-3;4,25e1\n", {"decimal": ","}, [[1.5, 2], [-3, 42.5]]),
    ("1,5\n,25\n", {"decimal": ","}, [[1.5], [0.25]]),
    ("1,5 2\n3 4,5\n", {"decimal": ","}, [[1.5, 2], [3, 4.5]]),
    ("1,5-2,5i|-1,5\n3|4\n", {"decimal": ","}, [[1.5 - 2.5j, -1.5], [3, 4]]),
    ("1,5\n3,-999,0\n", {"decimal": ".", "columns": 1, "header": True}, [[-999]]),
    ("a|b\n1|2\n", {}, [[1, 2]]),
    ("1|2|3\n", {}, [[1, 2, 3]]),
    (",a,b\n0,1,2\n", {}, [[0, 1, 2]]),
    ("größe,Übergröße\n1,2\n", {"columns": ["Übergröße"]}, [[2]]),
    ("面积,x1,_2\n1,2,3\n", {}, [[1, 2, 3]]),
    ("1,2\n", {"dtype": "c64"}, [[1, 2]]),
]


@pytest.mark.parametrize("text, options, wanted", CSV)
def test_csv_accepted(any_db, tmp_path, text, options, wanted):
    kind = "c16" if np.iscomplexobj(wanted) else "f8"
    wanted = np.array(wanted, dtype={"c64": "c8"}.get(options.get("dtype"), kind))
    assert same(read(any_db, put(tmp_path / "a.csv", text), json.dumps(options)), wanted)


def test_headers_are_noted(db, tmp_path):
    """What was taken for a header without being asked is said in gx_stats."""
    path = put(tmp_path / "a.csv", "# c\nfirst,größe\n1,2\n")
    notes = "SELECT group_concat(meaning, '|') FROM gx_stats WHERE name = 'note'"
    for options in ['{"header":true}', '{"columns":["first"]}', '{"header":false,"skip":2}']:
        q(db, "SELECT gx_import(NULL, ?, ?)", str(path), options)
    assert q(db, notes) is None
    q(db, "SELECT gx_import(NULL, ?)", str(path))
    assert q(db, notes) == "gx_import: a.csv: line 2, 'first,größe', was taken for a header"


@pytest.mark.parametrize("name", ["a.csv.gz", "a.CSV.GZ", "a.csv", "a.mtx.gz", "a.npy.gz", "a.npz.gz"])
def test_gzip(any_db, tmp_path, name):
    """By its ending or by its first bytes; one stream, or several and padding behind them."""
    if q(any_db, "SELECT gx_config('memory_limit')") < 1 << 20:
        q(any_db, "SELECT gx_config('memory_limit', '1MiB')")
    a = numbers((60, 33), "f8")
    stream = io.BytesIO()
    {"c": lambda: np.savetxt(stream, a, delimiter=",", fmt="%.17g"), "m": lambda: scipy.io.mmwrite(stream, a, precision=17),
     "n": lambda: np.savez(stream, a=a) if "npz" in name else np.save(stream, a)}[name[2].lower()]()
    whole = stream.getvalue()
    half = len(whole) // 2
    for content in [gzip.compress(whole), gzip.compress(whole[:half], 1) + gzip.compress(b"") + gzip.compress(whole[half:], 9) + bytes(500)]:
        assert same(read(any_db, put(tmp_path / name, content)), a)


def test_gzip_header(db, tmp_path):
    """All that may stand in one: a name, a comment, more, a checksum; stored and fixed blocks."""
    packed = zlib.compressobj(0, zlib.DEFLATED, -15)
    data = b"1,2\n" * 50000
    body = packed.compress(data) + packed.flush()
    head = b"\x1f\x8b\x08\x1e" + bytes(6) + b"\3\0abc" + b"name\0" + b"a comment\0" + b"\1\2"
    tail = zlib.crc32(data).to_bytes(4, "little") + len(data).to_bytes(4, "little")
    path = put(tmp_path / "a.csv.gz", head + body + tail)
    assert np.array_equal(read(db, path), [[1, 2]] * 50000)


def test_csv_text(db, tmp_path):
    path = tmp_path / "a.csv"
    for matrix, options, wanted in [
        ("[[1,0.1],[-2,1e300]]", "{}", "1,0.1\n-2,1e+300\n"),
        ("[[1,0.1],[-2,1e300]]", '{"delimiter":";"}', "1;0.1\n-2;1e+300\n"),
        ("[[1,0.1],[-2,1e300]]", '{"format":"tsv"}', "1\t0.1\n-2\t1e+300\n"),
        ("[[0.123456789,2]]", '{"precision":4}', "0.1235,2\n"),
        ('["nan","inf","-inf"]', "{}", "nan\ninf\n-inf\n"),
        ('[["1+2i","1-2i",3,"-0.5i"]]', "{}", "1+2j,1-2j,3+0j,0-0.5j\n"),
    ]:
        q(db, "SELECT gx_export(?, ?, ?)", matrix, str(path), options)
        assert path.read_text() == wanted
        path.unlink()
    q(db, "SELECT gx_export(gx_cast('[0.1,0.3]', 'f32'), ?)", str(path))
    assert path.read_text() == "0.1\n0.3\n"


def test_csv_for_numpy(any_db, tmp_path):
    path = tmp_path / "a.csv"
    for dtype in DTYPES:
        a = numbers((77, 13), dtype)
        q(any_db, "SELECT gx_export(?, ?, '{\"overwrite\":true}')", from_numpy(a), str(path))
        assert same(np.loadtxt(path, delimiter=",", dtype=dtype), a)
        np.savetxt(path, a, delimiter=",")
        options = '{"dtype":"c64"}' if dtype == "c8" else None
        assert np.allclose(read(any_db, path, options), a, rtol=1e-6)


def test_csv_wide_and_tall(any_db, tmp_path):
    """Rows longer than any buffer; many rows."""
    for shape in [(3, 5000), (5000, 3)]:
        a = numbers(shape, "f8")
        path = tmp_path / "a.csv"
        path.write_text("\n".join(",".join(repr(float(x)) for x in row) for row in a))
        q(any_db, "SELECT gx_import('W', ?, '{\"replace\":true}')", str(path))
        assert same(stored(any_db, "W"), a)
