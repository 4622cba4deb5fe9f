"""Dtypes that are only stored (core/base/dtype.def): kept and read narrow, computed with as what they widen to.

Plan:
  1. round trips, exact: values, stored matrices of one and of many tiles, raw bytes, .npy files, JSON, lent to cells and
     rows and back, copies, slices, INSERT INTO gx, tables as rows and aggregates
  2. what is computed with them equals what is computed with the widened matrix, bit for bit, and is of its dtype
  3. what is read, and what a value has, are the narrow bytes
  4. on a device (the stand-in): the same as of the widened matrix
  5. results stored as one: rounded to nearest even; refused with the place, or clipped; of any function that stores; of
     one whose driver reads what it has written, more than memory holds
  6. refused in words: sparse ones, factorisations, complex numbers, catalog rows and values that say such a thing
"""
import functools
import json
import struct

import conftest
import numpy as np
import pytest

from conftest import DTYPE_NAMES, HEADER, error, gx_connect, q, to_numpy
from mockkit import child

KINDS = {"f16": np.float16, "u8": np.uint8, "bool": np.bool_, "i8": np.int8, "u16": np.uint16, "i16": np.int16, "u32": np.uint32,
         "i32": np.int32, "i64": np.int64}
if conftest.bfloat16 != np.dtype("V2"):
    KINDS["bf16"] = conftest.bfloat16
IDS = {name: number for number, name in enumerate(DTYPE_NAMES.split(", "))}
WIDE = {name: "f8" if name in ("u32", "i32", "i64") else "f4" for name in KINDS}  # what it is computed as
NAMES = {"f4": "f32", "f8": "f64"}
every = pytest.mark.parametrize("dtype", KINDS)
most = pytest.mark.parametrize("dtype", [dtype for dtype in KINDS if dtype != "bool"])
from_numpy = functools.partial(conftest.from_numpy, exact=True)


def is_whole(dtype):
    return dtype[0] in "uib" and dtype != "bf16"


def span(dtype):
    info = (0, 1) if dtype == "bool" else (np.iinfo(KINDS[dtype]).min, np.iinfo(KINDS[dtype]).max)
    return (-2**53, 2**53) if dtype == "i64" else info


def matrix(dtype, m, n, seed=0):
    """Numbers of all sizes that the dtype has."""
    rng = np.random.default_rng(seed)
    if is_whole(dtype):
        return rng.integers(*span(dtype), (m, n), endpoint=True).astype(KINDS[dtype])
    return (rng.standard_normal((m, n)) * 10.0 ** rng.integers(-7, 4, (m, n))).astype(KINDS[dtype])


def small(dtype, m, n, seed=0):
    """Small whole numbers, of whose products sums are exact in float32."""
    return np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 12, (m, n)).astype(KINDS[dtype])


def put(db, name, a, options="{}"):
    return q(db, "SELECT gx_store(?, ?, ?)", name, from_numpy(a), options)


def get(db, sql, *params):
    return to_numpy(q(db, f"SELECT {sql}", *params))


def same(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got, want)


def counted(db, sql, *params):
    """The value, and the bytes of tiles that it took to read."""
    q(db, "SELECT gx_stats_reset()")
    value = q(db, sql, *params)
    return value, q(db, "SELECT value FROM gx_stats WHERE name = 'bytes_read'")


# Round trips --------------------------------------------------------------------------------------

@every
@pytest.mark.parametrize("tile_bytes", [1 << 23, 4096])
def test_stored_and_back(filedb, dtype, tile_bytes):
    db = filedb
    db.execute("SELECT gx_config('tile_bytes', ?)", (tile_bytes,))
    for m, n in [(1, 1), (7, 5), (130, 91), (0, 3), (3, 0)]:
        a = matrix(dtype, m, n)
        put(db, "A", a, '{"replace":true}')
        same(get(db, "gx_copy('A')"), a)
        same(get(db, "value FROM gx WHERE name = 'A'"), a)
        same(get(db, "gx_slice('A', 0, ?, 0, ?)", min(m, 2), min(n, 3)), a[:2, :3])
        assert q(db, "SELECT gx_dtype('A')") == dtype
        assert db.execute("SELECT dtype, bytes FROM gx WHERE name = 'A'").fetchone() == (dtype, a.nbytes)
        assert json.loads(q(db, "SELECT gx_info('A')"))["bytes"] == a.nbytes
        assert q(db, "SELECT gx_check('A')") == "ok"
    a = matrix(dtype, 130, 91, 3)
    put(db, "A", a, '{"replace":true}')
    same(get(db, "gx_col('A', 90)"), a[:, 90:])
    same(get(db, "gx_row('A', 129)"), a[129:])
    same(get(db, "gx_hstack('A', gx_col('A', 3))"), np.hstack([a, a[:, 3:4]]))
    same(get(db, "gx_vstack('A', gx_ones(1, 91))"), np.vstack([a.astype("f8"), np.ones((1, 91))]))
    assert q(db, "SELECT gx_get('A', 17, 70)") == float(a[17, 70])
    same(get(db, "gx_cast('A', 'f64')"), a.astype("f8"))
    if WIDE[dtype] == "f4":
        same(get(db, "gx_cast(gx_cast('A', 'c64'), 'c128')"), a.astype("c16"))
    same(get(db, "gx_cast(gx_cast('A', 'f64'), ?)", dtype), a)
    q(db, "SELECT gx_copy('A', 'B')")
    assert q(db, "SELECT gx_dtype('B')") == dtype
    db.execute("INSERT INTO gx(name, value) VALUES ('D', gx_copy('A'))")
    db.execute("INSERT INTO gx(name, value, dtype) VALUES ('E', gx_cast('A', 'f64'), ?)", (dtype,))
    same(get(db, "gx_copy('D')"), a)
    same(get(db, "gx_copy('E')"), a)


@every
def test_values_anywhere_in_memory(db, dtype):
    a = matrix(dtype, 9, 4)
    for k in range(4):
        same(get(db, "gx_copy(substr(?, ?))", bytes(k) + from_numpy(a), k + 1), a)
    assert q(db, "SELECT gx_dtype(?)", from_numpy(a)) == dtype
    assert error(db, "SELECT gx_copy(?)", from_numpy(a)[:-1]).startswith("gx_copy: A is a matrix value of 9x4")


@every
def test_raw_bytes(db, dtype):
    a = matrix(dtype, 37, 11)
    same(get(db, "gx_from_bytes(?, ?, 11)", a.tobytes(), dtype), a)
    same(get(db, "gx_from_bytes(?, ?, 11)", a.tobytes(), np.dtype(KINDS[dtype]).name), a)
    assert q(db, "SELECT gx_to_bytes(gx_from_bytes(?, ?, 11))", a.tobytes(), dtype) == a.tobytes()
    same(get(db, "gx_from_bytes(?, ?)", a.tobytes(), dtype), a.reshape(-1, 1))
    q(db, "SELECT gx_from_bytes(?, ?, 11, 'A')", a.tobytes(), dtype)
    assert q(db, "SELECT gx_to_bytes('A')") == a.tobytes()
    assert q(db, "SELECT gx_to_bytes('A', 'f64')") == a.astype("f8").tobytes()
    assert q(db, "SELECT gx_to_bytes(gx_cast('A', 'f64'), ?)", dtype) == a.tobytes()
    same(get(db, "gx_from_bytes(?, ?, 11, '{\"dtype\":\"f64\"}')", a.tobytes(), dtype), a.astype("f8"))
    if a.itemsize > 1:
        assert error(db, "SELECT gx_from_bytes(zeroblob(3), ?)", dtype).endswith(f"not a multiple of {a.itemsize} ({dtype})")


@every
def test_npy(db, dtype, tmp_path):
    a = matrix(dtype, 301, 17)
    path, out = tmp_path / "a.npy", tmp_path / "b.npy"
    told = json.dumps({"replace": True} | ({"dtype": "bf16"} if dtype == "bf16" else {}))
    for given in [a, np.asfortranarray(a), a.astype(a.dtype.newbyteorder(">")) if dtype != "bf16" else a]:
        np.save(path, given)
        q(db, "SELECT gx_import('A', ?, ?)", str(path), told)
        same(get(db, "gx_copy('A')"), a)
    q(db, "SELECT gx_export('A', ?)", str(out))
    same(np.load(out).view(a.dtype), a)
    q(db, "SELECT gx_export('A', ?, '{\"dtype\":\"f64\",\"overwrite\":true}')", str(out))
    same(np.load(out), a.astype("f8"))
    q(db, "SELECT gx_export(gx_cast('A', 'f64'), ?, ?)", str(out), json.dumps({"dtype": dtype, "overwrite": True}))
    same(np.load(out).view(a.dtype), a)
    if dtype == "bf16":
        assert "'V2'" in error(db, "SELECT gx_import('A', ?, '{\"replace\":true}')", str(path))
    else:
        q(db, "SELECT gx_import('A', ?, '{\"replace\":true,\"dtype\":\"f32\"}')", str(path))
        same(get(db, "gx_copy('A')"), a.astype("f4"))
    np.save(path, a.astype("f8"))
    q(db, "SELECT gx_import('A', ?, ?)", str(path), json.dumps({"replace": True, "dtype": dtype}))
    same(get(db, "gx_copy('A')"), a)
    for format in ["csv", "mtx"]:
        text = tmp_path / f"a.{format}"
        q(db, "SELECT gx_export('A', ?)", str(text))
        q(db, "SELECT gx_import('B', ?, ?)", str(text), json.dumps({"replace": True, "dtype": dtype}))
        same(get(db, "gx_copy('B')"), a)
        assert "is for .npy" in error(db, "SELECT gx_export('A', ?, ?)", str(tmp_path / f"c.{format}"),
                                      json.dumps({"dtype": dtype}))


@every
def test_json(db, dtype):
    a = matrix(dtype, 6, 5)
    same(np.array(json.loads(q(db, "SELECT gx_json(?)", from_numpy(a))), dtype=WIDE[dtype]).astype(a.dtype), a)
    text, b = q(db, "SELECT gx_show(?)", from_numpy(a)), to_numpy(from_numpy(a))
    assert text == str(b if b.dtype.kind in "biu" else b.astype(WIDE[dtype]))
    assert ("." in q(db, "SELECT gx_json(?)", from_numpy(a))) == (b.dtype.kind not in "biu")


@every
def test_cells_and_rows(filedb, dtype):
    db, a = filedb, matrix(dtype, 33, 9)
    db.execute("SELECT gx_config('tile_bytes', 64)")
    put(db, "A", a)
    for source, params in [("'A'", ()), ("?", (from_numpy(a),))]:
        cells = db.execute(f"SELECT i, j, value FROM gx_cells({source})", params).fetchall()
        assert sorted(cells) == [(i, j, float(a[i, j])) for i in range(33) for j in range(9)]
        for i, row in db.execute(f"SELECT i, row FROM gx_rows({source})", params):
            same(to_numpy(row), a[i:i + 1])
    q(db, "SELECT gx_from_cells(i, j, value, ?) FROM gx_cells('A')", json.dumps({"dtype": dtype}))
    same(get(db, "gx_from_cells(i, j, value, ?) FROM gx_cells('A')", json.dumps({"dtype": dtype})), a)
    same(get(db, "gx_from_rows(i, row, ?) FROM gx_rows('A')", json.dumps({"dtype": dtype})), a)
    q(db, "SELECT gx_store_cells('B', i, j, value, ?) FROM gx_cells('A')", json.dumps({"dtype": dtype}))
    same(get(db, "gx_copy('B')"), a)
    raw = db.execute("SELECT gx_store_rows('C', i, gx_to_bytes(row), ?) FROM gx_rows('A')", (json.dumps({"dtype": dtype}),))
    assert raw.fetchall() == [("C",)]
    same(get(db, "gx_copy('C')"), a)


@most
def test_written_through_tables(filedb, dtype):
    db, a = filedb, matrix(dtype, 20, 6)
    db.execute("SELECT gx_config('tile_bytes', 64)")
    put(db, "A", a)
    db.execute("CREATE VIRTUAL TABLE c USING gx_cells('A')")
    db.execute("CREATE VIRTUAL TABLE r USING gx_rows('A')")
    db.execute("UPDATE c SET value = 7 WHERE i % 3 = 1")
    a[1::3] = 7
    db.execute("UPDATE c SET value = value / 2.0 WHERE j = 2")
    a[:, 2] = (a[:, 2].astype("f8") / 2).round().astype(a.dtype) if is_whole(dtype) else a[:, 2] / KINDS[dtype](2)
    same(get(db, "gx_copy('A')"), a)
    b = matrix(dtype, 1, 6, 9)
    raw = [b.tobytes()] if b.itemsize < 4 else []  # as long as the same number of f32 or f64: refused
    for blob in [] if raw else [b.tobytes()]:
        assert "which may be" in error(db, "UPDATE r SET row = ? WHERE i = 4", blob)
    for row in [from_numpy(b), *raw, json.dumps(b[0].astype("f8").tolist())]:
        db.execute("UPDATE r SET row = ? WHERE i = 4", (row,))
        a[4] = b
        same(get(db, "gx_copy('A')"), a)
        db.execute("UPDATE c SET value = 0 WHERE i = 4")
    a[4] = 0
    q(db, "SELECT gx_set('A', 19, 5, 3)")
    a[19, 5] = 3
    same(get(db, "gx_copy('A')"), a)
    if is_whole(dtype) and dtype != "i64":
        most = span(dtype)[1] + 1
        for sql in [f"UPDATE c SET value = {most} WHERE i = 3 AND j = 1", f"UPDATE r SET row = '[0,{most},0,0,0,0]' WHERE i = 3",
                    f"SELECT gx_set('A', 3, 1, {most})"]:
            text = error(db, sql)
            assert f"element (3, 1) is {most:.9g}, and {dtype} holds {span(dtype)[0]} to {most - 1}" in text
        same(get(db, "gx_copy('A')"), a)


# Computed with ------------------------------------------------------------------------------------

COMPUTED = ["gx_matmul(X, gx_transpose(X))", "gx_matmul(gx_transpose(X), X)", "gx_add(X, X)", "gx_mul(X, gx_slice(X, 0, 40, 0, 30))",
            "gx_sqrt(X)", "gx_scale(X, 0.25)", "gx_transpose(X)", "gx_sum(X)", "gx_sum(X, 0)", "gx_mean(X, 1)", "gx_max(X, 0)", "gx_norm(X)",
            "gx_eval", "gx_svd(X)", "gx_eigvals(gx_syrk(X, '{\"trans\":true}'))",
            "gx_lstsq(X, gx_slice(X, 0, 40, 0, 2))", "gx_cov(X)", "gx_distance(X, X)", "gx_add(gx_dense(gx_sparse(X, 3)), 0)",
            "gx_matmul(gx_sparse(X), gx_transpose(X))", "gx_diag(X)"]


@every
@pytest.mark.parametrize("call", COMPUTED)
@pytest.mark.parametrize("form", ["value", "stored", "tiles"])
def test_computed_as_widened(db, dtype, call, form):
    a = small(dtype, 40, 30)
    db.execute("SELECT gx_config('tile_bytes', ?)", (512 if form == "tiles" else 1 << 23,))
    results = []
    for array in [a, a.astype(WIDE[dtype])]:
        put(db, "X", array, '{"replace":true}')
        if "gx_eval" in call:
            sql, params = "SELECT gx_eval('X @ X.T + 2 * X[:, 0:1]')", ()
        else:
            where = "?1" if form == "value" else "'X'"
            sql, params = "SELECT " + call.replace("X", where), (from_numpy(array),) if form == "value" else ()
        results.append(q(db, sql, *params))
    got, want = results
    if isinstance(want, bytes):
        got, want = to_numpy(got), to_numpy(want)
        assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@every
def test_against_numpy(filedb, dtype):
    db, a, b = filedb, small(dtype, 300, 70), small(dtype, 70, 120, 1)
    db.execute("SELECT gx_config('tile_bytes', 4096)")
    put(db, "A", a)
    put(db, "B", b)
    wide = a.astype(WIDE[dtype]), b.astype(WIDE[dtype])
    same(get(db, "gx_matmul('A', 'B')"), wide[0] @ wide[1])
    q(db, "SELECT gx_matmul('A', 'B', 'C')")
    assert q(db, "SELECT gx_dtype('C')") == NAMES[WIDE[dtype]]
    same(get(db, "gx_copy('C')"), wide[0] @ wide[1])
    assert q(db, "SELECT gx_sum('A')") == wide[0].sum(dtype="f8")
    same(get(db, "gx_eval('A @ B + 1')"), wide[0] @ wide[1] + wide[0].dtype.type(1))
    symmetric = wide[1] @ wide[1].T
    put(db, "S", (small(dtype, 60, 60) // 2).astype(a.dtype))
    s = get(db, "gx_copy('S')")
    q(db, "SELECT gx_store('H', gx_add('S', gx_transpose('S')), ?)", json.dumps({"dtype": dtype}))
    h = s.astype("f8") + s.T
    assert q(db, "SELECT gx_dtype('H')") == dtype
    np.testing.assert_allclose(np.sort(get(db, "gx_eigvals('H')").real.ravel()), np.linalg.eigvalsh(h), atol=2e-3)
    assert symmetric.shape == (70, 70)
    found = db.execute("SELECT score FROM gx_knn(gx_slice('A', 0, 9, 0, 70), 'A', 3, '{\"metric\":\"l2\"}') ORDER BY query, rank").fetchall()
    distance = np.sqrt(((wide[0][:9, None, :].astype("f8") - wide[0][None]) ** 2).sum(2))
    np.testing.assert_allclose(np.array(found).reshape(9, 3), np.sort(distance, 1)[:, :3], rtol=1e-5, atol=1e-3)


@every
def test_narrow_bytes_are_read(filedb, dtype):
    db, a = filedb, small(dtype, 500, 256)  # less than what is kept in memory
    put(db, "A", a)
    for sql in ["SELECT gx_sum('A')", "SELECT gx_matmul('A', gx_ones(256, 2))", "SELECT gx_copy('A')"]:
        assert counted(db, sql)[1] == a.nbytes, sql
    assert len(q(db, "SELECT gx_copy('A')")) == HEADER.size + a.nbytes
    db.execute("SELECT gx_config('tile_bytes', 16384)")
    put(db, "B", a)
    for call in ["A.T @ A", "B.T @ B", "A + A"]:  # as gx_plan said
        assert counted(db, f"SELECT length(gx_eval('{call}'))")[1] == a.nbytes
        assert q(db, "SELECT bytes_read FROM gx_plan(?)", call) == a.nbytes * (2 if "+" in call else 1)


# On a device --------------------------------------------------------------------------------------

@every
def test_on_a_device(tmp_path, dtype):
    """The same answers as of the numbers themselves; what goes up are the elements as they are stored."""
    results, sent = child(tmp_path, """
db = gx_connect(os.path.join(os.environ["TMP_PATH"], "d.db"))
db.execute("SELECT gx_config('tile_bytes', 4096)")
results, sent = [], []
import conftest
for kind in %s:
    made = np.random.default_rng(1).integers(0, 2 if %s else 12, (300, 200)).astype(conftest.STORED[kind])
    from_numpy = lambda a: conftest.from_numpy(a, exact=True)
    for call in ["gx_matmul('A', gx_transpose('A'))", "gx_eval('A.T @ A + 1')", "gx_sum('A')", "gx_add('A', 'A')", "gx_svd('A')",
                 "gx_eval('A[10:90, 5:] @ A[10:205, 5:]')", "knn"]:
        q(db, "SELECT gx_store('A', ?, '{\\"replace\\":true}')", from_numpy(made))  # nothing of it is on the device
        before = stats(db)
        got = q(db, "SELECT " + call) if call != "knn" else knn(db, from_numpy(made[:3].astype("f4")), "A", 4, metric="l2")
        results.append(to_numpy(got).astype("f8").tolist() if isinstance(got, bytes) else got)
        sent.append(since(db, before)["uploaded"])
result = results, sent
""" % ([IDS[dtype], IDS[NAMES[WIDE[dtype]]]], dtype == "bool"), GX_BACKEND="cuda")
    half = len(results) // 2
    assert results[:half] == results[half:]
    saved = [wide - narrow for narrow, wide in zip(sent[:half], sent[half:], strict=True)]
    each = 0 if dtype == "i64" else 300 * 200 * (np.dtype(WIDE[dtype]).itemsize - np.dtype(KINDS[dtype]).itemsize)
    assert [saved[1], saved[3], saved[6]] == [each, 2 * each, each], (sent, saved)
    assert min(saved[0], saved[5]) > 0 or dtype == "i64", (sent, saved)


# Results stored as one ----------------------------------------------------------------------------

@most
def test_results_are_narrowed(filedb, dtype):
    db, a = filedb, small(dtype, 90, 40)
    db.execute("SELECT gx_config('tile_bytes', 1024)")
    put(db, "A", a)
    wide = a.astype(WIDE[dtype])
    as_dtype = json.dumps({"dtype": dtype, "replace": True})

    def stored(call, want):
        assert q(db, f"SELECT {call}", as_dtype) == "C" and q(db, "SELECT gx_dtype('C')") == dtype
        same(get(db, "gx_copy('C')"), want.astype(KINDS[dtype]))
        assert q(db, "SELECT gx_check('C')") == "ok"

    stored("gx_add('A', 'A', 'C', ?)", wide + wide)
    stored("gx_transpose('A', 'C', ?)", wide.T)
    stored("gx_scale('A', 0.5, 'C', ?)", np.rint(wide / 2) if is_whole(dtype) else wide / 2)
    stored("gx_matmul(gx_slice('A', 0, 3, 0, 40), gx_scale('A', 0.0078125), 'C', '{\"transb\":true,' || substr(?, 2))",
           np.rint(wide[:3] @ wide.T / 128) if is_whole(dtype) else wide[:3] @ wide.T / 128)
    stored("gx_zeros(50, 60, 'C', ?)", np.zeros((50, 60)))
    stored("gx_full(50, 60, 1.25, 'C', ?)", np.full((50, 60), 1 if is_whole(dtype) else 1.25))
    stored("gx_arange(0, 120, 1, 'C', ?)", np.arange(120.0).reshape(-1, 1))
    stored("gx_hstack('A', 'A', '{\"destination\":\"C\",' || substr(?, 2))", np.hstack([wide, wide]))
    same(get(db, "gx_add('A', 'A', ?)", json.dumps({"dtype": dtype})), (wide + wide).astype(KINDS[dtype]))


def test_rounding_and_bounds(db):
    x = "'[0.5, 1.5, 2.5, 254.5, -0.4]'"
    same(get(db, f"gx_cast({x}, 'u8')"), np.array([[0], [2], [2], [254], [0]], np.uint8))
    assert error(db, "SELECT gx_cast('[[1,2],[3,255.5]]', 'u8')") == (
        'gx_cast: element (1, 1) is 255.5, and u8 holds 0 to 255 (option "saturate":true clips)')
    assert error(db, "SELECT gx_cast('[\"nan\"]', 'u8', '{\"saturate\":true}')") == "gx_cast: element (0, 0) is nan, and u8 holds 0 to 255"
    same(get(db, "gx_cast('[-7, 300, \"inf\", \"-inf\"]', 'u8', '{\"saturate\":true}')"), np.array([[0], [255], [255], [0]], np.uint8))
    with np.errstate(over="ignore"):
        wide = np.array([65519.9, 65520, 1e300, -1e300, 1e-8, np.nan, 1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-50])
        same(get(db, "gx_cast(?, 'f16')", from_numpy(wide)), wide.astype(np.float16).reshape(-1, 1))
    q(db, "SELECT gx_store('Z', '[1]')")
    assert "holds 0 to 255" in error(db, "SELECT gx_store('Z', '[1,-1]', '{\"replace\":true,\"dtype\":\"u8\"}')")
    same(get(db, "gx_copy('Z')"), np.array([[1.0]]))


@most
def test_more_than_memory(tmp_path, dtype):
    """A product that spills its result, and what is begun in temp, become the narrow result in the end."""
    db, n = gx_connect(str(tmp_path / "a.db")), 900
    a = (small(dtype, n, n) // 6).astype(KINDS[dtype])
    put(db, "A", a)
    db.execute("SELECT gx_config('tile_bytes', 65536)")
    db.execute("SELECT gx_config('memory_limit', 2000000)")
    for dest in ["f64", dtype]:
        options = json.dumps({"dtype": dest, "replace": True, "saturate": True, "transb": True})
        q(db, "SELECT gx_matmul('A', 'A', 'C', ?)", options)
        want = a.astype("f8") @ a.T.astype("f8")
        want = want if dest == "f64" else np.clip(want, *span(dtype)).astype(KINDS[dtype]) if is_whole(dtype) else want.astype(KINDS[dtype])
        assert q(db, "SELECT gx_dtype('C')") == dest
        db.execute("SELECT gx_config('memory_limit', 400000000)")
        same(get(db, "gx_copy('C')"), want)
        db.execute("SELECT gx_config('memory_limit', 2000000)")
    db.close()


# Whole numbers beyond 2^53, true and false ---------------------------------------------------------

HUGE = np.array([[2**53 + 1, -2**63, 7], [2**63 - 1, -1, 2**60]], np.int64)


@pytest.mark.parametrize("tile_bytes", [1 << 23, 64])
def test_i64_is_moved_exactly(filedb, tmp_path, tile_bytes):
    """Kept, copied, cut, turned in files and shown as cells, all digits; arithmetic that would round one says so."""
    db, a = filedb, np.tile(HUGE, (9, 5))
    db.execute("SELECT gx_config('tile_bytes', ?)", (tile_bytes,))
    put(db, "A", a)
    path, out = tmp_path / "a.npy", tmp_path / "b.npy"
    for given in [a, np.asfortranarray(a), a.astype(">i8")]:
        np.save(path, given)
        q(db, "SELECT gx_import('F', ?, '{\"replace\":true}')", str(path))
        same(get(db, "gx_copy('F')"), a)
    q(db, "SELECT gx_export('A', ?)", str(out))
    same(np.load(out), a)
    same(get(db, "gx_from_bytes(?, 'i64', 15)", a.tobytes()), a)
    same(get(db, "gx_slice('A', 1, 4, 2, 9)"), a[1:4, 2:9])
    same(get(db, "gx_hstack('A', gx_col('A', 1))"), np.hstack([a, a[:, 1:2]]))
    same(get(db, "gx_vstack('A', 'F')"), np.vstack([a, a]))
    same(get(db, "gx_cast('A', 'i64')"), a)
    db.execute("INSERT INTO gx(name, value) VALUES ('D', gx_copy('A'))")
    same(get(db, "value FROM gx WHERE name = 'D'"), a)
    for source, params in (("'A'", ()), ("?", (from_numpy(a),))):
        assert sorted(db.execute(f"SELECT i, j, value FROM gx_cells({source})", params)) == [
            (i, j, int(a[i, j])) for i in range(18) for j in range(15)]
        assert q(db, f"SELECT gx_get({source}, 0, 0)", *params) == 2**53 + 1
    assert json.loads(q(db, "SELECT gx_json('A')")) == a.tolist()
    db.execute("SELECT gx_store('J', gx_json('A'))")
    same(get(db, "gx_copy('J')"), a)
    for call in ("gx_add('A', 1)", "gx_sum('A')", "gx_matmul('A', gx_transpose('A'))", "gx_eval('A + 1')", "gx_cast('A', 'f64')",
                 "gx_cast('A', 'u8', '{\"saturate\":true}')", "gx_hstack('A', gx_ones(18, 1))"):
        text = error(db, f"SELECT {call}")
        assert "an i64 that f64 does not hold: arithmetic would round it" in text and ("9007199254740993" in text or "92233720" in text)
    same(get(db, "gx_cast('A', 'f64', '{\"round\":true}')"), a.astype("f8"))
    assert q(db, "SELECT gx_sum(gx_cast('A', 'f64', '{\"round\":true}'))") == pytest.approx(a.astype("f8").sum())
    b = a // 2**11
    same(get(db, "gx_add(?, 0)", from_numpy(b)), b.astype("f8"))


def test_i64_is_written_exactly(db):
    """From SQL's integers and from texts; a move takes all digits along; what would be rounded is refused."""
    for text, want in [("[[9007199254740993, -1], [3, -9223372036854775808]]", "i64"), ("[9007199254740992, 3]", "f64"),
                       ("[9007199254740993, 0.5]", "f64"), ("[9007199254740993, null]", "f64"), ("[9223372036854775808]", "f64"),
                       ('[9007199254740993, "2i"]', "c128"), ("[10000000000000000]", "f64"), ("[-9007199254740993, +7]", "i64")]:
        assert q(db, "SELECT gx_dtype(?)", text) == want, text
        if want == "i64":
            assert json.loads(q(db, "SELECT gx_json(?)", text)) == np.array(json.loads(text.replace("+", ""))).reshape(2, -1).tolist()
    want = np.array([[2**53 + 1, -1, 0], [3, -2**63, 7]], np.int64)
    put(db, "A", want)
    db.execute("CREATE VIRTUAL TABLE a USING gx_cells('A')")
    db.execute("SELECT gx_set('A', 0, 1, ?)", (2**62 + 1,))
    db.execute("UPDATE a SET value = ? WHERE i = 1 AND j = 2", (2**63 - 1,))
    db.execute("INSERT INTO a(i, j, value) VALUES (1, 0, ?)", (str(2**53 + 3),))
    db.execute("UPDATE a SET j = 2 WHERE i = 0 AND j = 0")
    want[0, 1], want[1, 2], want[1, 0], want[0, 2], want[0, 0] = 2**62 + 1, 2**63 - 1, 2**53 + 3, want[0, 0], 0
    same(get(db, "gx_copy('A')"), want)
    assert q(db, "SELECT gx_show('A')") == str(want)
    db.execute("UPDATE a SET value = 2.5 WHERE i = 0 AND j = 0")
    assert q(db, "SELECT gx_get('A', 0, 0)") == 2
    held = "which f64 does not hold: CAST(x AS REAL) rounds it"
    db.execute("CREATE TABLE t(i, j, v)")
    db.execute("INSERT INTO t VALUES (0, 0, ?)", (2**53 + 1,))
    put(db, "F", np.zeros((2, 2)))
    db.execute("CREATE VIRTUAL TABLE f USING gx_cells('F')")
    for call in ("SELECT gx_set('F', 0, 0, ?)", "UPDATE f SET value = ? WHERE i = 0 AND j = 0", "SELECT gx_scale('F', ?)",
                 "SELECT gx_from_cells(i, j, v) FROM t WHERE v = ?", "SELECT gx_from_table('t') WHERE ?"):
        text = error(db, call, 2**53 + 1)
        assert held in text and "9007199254740993" in text, (call, text)
    assert "element (0, 0) is 1e+19, and i64 holds" in error(db, "UPDATE a SET value = 1e19 WHERE i = 0 AND j = 0")
    assert "an i64 that f64 does not hold" in error(db, "SELECT gx_add('F', ?)", 2**53 + 1)
    same(get(db, "gx_copy('F')"), np.zeros((2, 2)))


def test_truth_is_stored_as_bool(db):
    """Comparisons and logic: bool where they are stored, f64 (f32) as values; another dtype where it is asked for."""
    a = np.arange(12.0).reshape(3, 4) - 5
    put(db, "A", a)
    calls = {"gx_less('A', 2": a < 2, "gx_isnan('A'": np.isnan(a), "gx_logical_not('A'": a == 0, "gx_equal('A', gx_scale('A', 1)": a == a,
             "gx_logical_xor('A', 1": a == 0}
    for k, (call, want) in enumerate(calls.items()):
        same(get(db, f"{call})"), want.astype("f8"))
        db.execute(f"SELECT {call}, 'T{k}')")
        same(get(db, f"gx_copy('T{k}')"), want)
        db.execute(f"SELECT {call}, 'T{k}', '{{\"replace\":true, \"dtype\":\"f32\"}}')")
        same(get(db, f"gx_copy('T{k}')"), want.astype("f4"))
    db.execute("SELECT gx_greater('A', 0, 'A', '{\"replace\":true}')")
    same(get(db, "gx_copy('A')"), a > 0)
    db.execute("SELECT gx_store('B', ?)", (from_numpy(a),))
    db.execute("SELECT gx_eval('M := B > 2; N := B * (B > 2); O := (B > 0) & isfinite(B); R := sum(M)')")
    for name, want in [("M", a > 2), ("N", a * (a > 2)), ("O", a > 0), ("R", np.array([[float((a > 2).sum())]]))]:
        same(get(db, f"gx_copy('{name}')"), want)
    assert q(db, "SELECT gx_json('M')") == "[[0,0,0,0],[0,0,0,0],[1,1,1,1]]" and q(db, "SELECT gx_show('M')") == str(a > 2)


def test_bool(db):
    """0 and 1, whatever bytes come in; other numbers are refused or clipped."""
    same(get(db, "gx_from_bytes(x'00010207ff', 'bool')") != 0, np.array([[0], [1], [1], [1], [1]], bool))
    assert q(db, "SELECT gx_sum(gx_from_bytes(x'00010207ff', 'bool'))") == 4
    same(get(db, "gx_cast('[0.2, 1, 0.6]', 'bool')"), np.array([[0], [1], [1]], bool))
    assert error(db, "SELECT gx_cast('[2]', 'bool')") == 'gx_cast: element (0, 0) is 2, and bool holds 0 to 1 (option "saturate":true clips)'
    same(get(db, "gx_cast('[2, -3, \"inf\"]', 'bool', '{\"saturate\":true}')"), np.array([[1], [0], [1]], bool))


@pytest.mark.skipif("bf16" not in KINDS, reason="ml_dtypes is not there")
def test_bf16_rounds_as_ml_dtypes(db):
    rng = np.random.default_rng(8)
    wide = np.concatenate([rng.standard_normal(4000) * 10.0 ** rng.integers(-40, 38, 4000), [np.inf, -np.inf, 3.4e38, 1e39, 1e-45, 0.0, -0.0],
                           np.frombuffer(np.arange(0x3F80_0000, 0x3F84_0000, 0x1000, dtype=np.uint32).tobytes(), np.float32).astype("f8")])
    with np.errstate(over="ignore"):
        want = wide.astype("f4").astype(KINDS["bf16"]).reshape(-1, 1)
    exact = wide.astype("f4").astype("f8") == wide  # of the others ml_dtypes rounds twice
    got = get(db, "gx_cast(?, 'bf16')", from_numpy(wide))
    np.testing.assert_array_equal(got[exact].view("u2"), want[exact].view("u2"))
    np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=2**-7)
    assert np.isnan(get(db, "gx_cast('[\"nan\"]', 'bf16')").astype("f4")[0, 0])


@every
def test_sparse(filedb, tmp_path, dtype):
    """Entries are stored as the dtype, in panels, values and .npz; what computes reads numbers."""
    db, rng = filedb, np.random.default_rng(3)
    db.execute("SELECT gx_config('tile_bytes', 1024)")
    a = matrix(dtype, 90, 40)
    a[rng.random((90, 40)) > 0.1] = 0
    wide = a.astype("f8")
    put(db, "D", a)
    q(db, "SELECT gx_sparse('D', 'S')")
    assert q(db, "SELECT gx_dtype('S')") == dtype and q(db, "SELECT gx_check('S')") == "ok"
    entries, tiles = np.count_nonzero(wide), json.loads(q(db, "SELECT gx_info('S')"))["tiles"]
    assert tiles > 1 and q(db, "SELECT gx_nnz('S')") == entries
    assert q(db, "SELECT bytes FROM gx WHERE name = 'S'") < entries * (4 + a.itemsize) + 91 * 4 + 40 * tiles
    same(get(db, "gx_dense('S')"), a)
    same(get(db, "gx_dense(gx_slice('S', 10, 50, 3, 30))"), a[10:50, 3:30])
    same(get(db, "gx_dense(?)", q(db, "SELECT gx_copy('S')")), a)
    same(get(db, "gx_dense(gx_transpose('S'))"), a.T.astype(WIDE[dtype]))
    x = rng.integers(-3, 4, (40, 5)).astype("f8")
    np.testing.assert_allclose(get(db, "gx_matmul('S', ?)", from_numpy(x)), wide @ x, rtol=1e-12)
    assert q(db, "SELECT gx_sum('S')") == pytest.approx(wide.sum()) and q(db, "SELECT sum(value) FROM gx_cells('S')") == pytest.approx(wide.sum())
    i, j = np.argwhere(wide)[7]
    assert q(db, "SELECT gx_get('S', ?, ?)", int(i), int(j)) == wide[i, j]
    path = str(tmp_path / "s.npz")
    if dtype != "bf16":
        q(db, "SELECT gx_export('S', ?)", path)
        with np.load(path) as members:
            same(members["data"].reshape(-1, 1), a[wide != 0].reshape(-1, 1))
        q(db, "SELECT gx_import('T', ?)", path)
        same(get(db, "gx_dense('T')"), a)
    q(db, "SELECT gx_export('S', ?, '{\"overwrite\":true, \"dtype\":\"f64\"}')", path)
    q(db, "SELECT gx_import('T', ?, ?)", path, json.dumps({"dtype": dtype, "replace": True}))
    same(get(db, "gx_dense('T')"), a)
    if np.dtype(KINDS[dtype]).kind in "iu":
        text = error(db, "SELECT gx_sparse('[[0, 1e30]]', 'U', ?)", json.dumps({"dtype": dtype}))
        assert f"element (0, 1) is 1e+30, and {dtype} holds" in text
        same(get(db, "gx_dense(gx_sparse('[[0, 1e30]]', NULL, ?))", json.dumps({"dtype": dtype, "saturate": True})),
             np.array([[0, min(np.iinfo(KINDS[dtype]).max, 2**63 - 1024)]]).astype(KINDS[dtype]))


# Refused ------------------------------------------------------------------------------------------

@most
def test_refused(db, dtype):
    db.execute("SELECT gx_store('A', ?)", (from_numpy(small(dtype, 4, 4) + KINDS[dtype](1)),))
    as_dtype = json.dumps({"dtype": dtype})
    assert error(db, "SELECT gx_cast('[\"1i\"]', ?)", dtype) == f"gx_cast: A is c128 and {dtype} would lose the imaginary part"
    assert error(db, "SELECT gx_lu('A', 'F', ?)", as_dtype) == f"gx_lu: a factorisation is stored as it is computed ({NAMES[WIDE[dtype]]}), not as {dtype}"
    assert error(db, "SELECT gx_store('A', '[1]', '{\"dtype\":\"f8\",\"replace\":true}')") == (
        f'gx_store: option "dtype" must be one of {DTYPE_NAMES}, not "f8"')
    assert error(db, "SELECT gx_add('A', 'A', 'A', ?)", as_dtype).startswith("gx_add: matrix 'A' already exists")
    for sparse in (0, 1):
        header = struct.pack("<4sBBBB3q", b"gxmv", 1, IDS[dtype], sparse, 0, 1, 1, 0)
        assert "bytes instead of" in error(db, "SELECT gx_sum(?)", header)
    db.execute("UPDATE gx_meta SET properties = 1 << 7 WHERE name = 'A'")
    assert error(db, "SELECT gx_sum('A')") == f"gx_sum: catalog row of A: a factorisation of {dtype}"
    db.execute("UPDATE gx_meta SET properties = 0, dtype = 99 WHERE name = 'A'")
    assert "dtype is 99, expected 0 to" in error(db, "SELECT gx_sum('A')")
