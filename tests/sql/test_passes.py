"""What passes over a matrix once: copies, slices, maps and transposes into values, sums along axes, projections.

Plan:
  1  Values from stored matrices of small tiles, views that cut tiles, values and generators, one or two operands, spread
     rows and columns, every dtype and mixed ones, with one thread or three: equal to NumPy.
  2  Sums and means along either axis, of one tile across or many: NumPy's to rounding; the same bits for every number of
     threads; NaN and Inf stay in their row.
     Least and largest elements along either axis, NaN where there is one; of nothing; of what has no order.
  3  Counters: each tile that is wanted is read once, by helpers, and of tiles that are cut no more than all.
  4  Long matrices times few columns, stored, of tiles that fit into each other or not; projected on components.
"""
import itertools

import numpy as np
import pytest

from conftest import error, from_numpy, q, to_numpy

NUMPY = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}
TILE_BYTES = 64 * 64 * 8


def configure(db, **settings):
    for key, value in settings.items():
        db.execute("SELECT gx_config(?, ?)", (key, value))


def random_matrix(seed, rows, cols, dtype):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, cols))
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal((rows, cols))
    return np.asfortranarray(x.astype(NUMPY[dtype]))


def store(db, name, array):
    db.execute("SELECT gx_store(?, ?, '{\"replace\":true}')", (name, from_numpy(array)))
    return array


def counted(db, sql, *names):
    db.execute("SELECT gx_stats_reset()")
    q(db, sql)
    return [q(db, "SELECT value FROM gx_stats WHERE name = ?", name) for name in names]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", list(NUMPY))
def test_values(filedb, dtype, threads):
    configure(filedb, tile_bytes=TILE_BYTES, threads=threads, readers=threads)
    a, b = store(filedb, "A", random_matrix(1, 700, 410, dtype)), store(filedb, "B", random_matrix(2, 700, 410, dtype))
    row, column = store(filedb, "r", a[:1] * 3), store(filedb, "c", b[:, :1] * 3)
    narrow = store(filedb, "N", random_matrix(3, 700, 410, "c64" if dtype.startswith("c") else "f32"))
    wants = {"gx_copy({A})": a, "gx_transpose({A})": a.T, "gx_transpose({A}, NULL, '{{\"conj\":true}}')": a.conj().T,
             "gx_add({A}, {B})": a + b, "gx_mul({A}, {N})": a * narrow, "gx_sub({N}, {B})": narrow - b,
             "gx_add({A}, {r})": a + row, "gx_mul({c}, {B})": column * b, "gx_scale({A}, 2)": a * 2, "gx_neg({A})": -a,
             "gx_slice({A}, 65, 699, 1, 300)": a[65:699, 1:300], "gx_slice({A}, 3, 60, 70, 71)": a[3:60, 70:71],
             "gx_row({A}, 699)": a[699:], "gx_col({A}, 64)": a[:, 64:65],
             "gx_copy(gx_eye(900, 300))": np.eye(900, 300)}
    arrays = dict(A=a, B=b, N=narrow, r=row, c=column)
    for (call, want), is_value in itertools.product(wants.items(), (False, True)):
        names = [name for name in arrays if "{" + name + "}" in call]
        if is_value:
            sql = call.format(**{name: f":{name}" for name in arrays})
            got = filedb.execute(f"SELECT {sql}", {name: from_numpy(arrays[name]) for name in names}).fetchone()[0]
        else:
            got = q(filedb, "SELECT " + call.format(**{name: f"'{name}'" for name in arrays}))
        got = to_numpy(got)
        assert got.shape == want.shape and got.dtype == want.dtype, call
        error = np.abs(got - want).max()
        assert error == 0 or "gx_mul" in call and error <= 8 * np.finfo(want.dtype).eps * np.abs(want).max(), call


@pytest.mark.parametrize("dtype", list(NUMPY))
@pytest.mark.parametrize("rows,cols", [(60000, 12), (700, 900), (9, 40000), (3, 2), (0, 4)])
def test_sums(filedb, dtype, rows, cols):
    a = store(filedb, "A", random_matrix(4, rows, cols, dtype))
    wide = a.astype(np.complex128 if dtype.startswith("c") else np.float64)
    configure(filedb, tile_bytes=TILE_BYTES)
    store(filedb, "B", a)
    for name, axis in itertools.product("AB", (0, 1)):
        seen = set()
        for threads in (1, 3):
            configure(filedb, threads=threads, readers=threads)
            seen.add(bytes(q(filedb, f"SELECT gx_sum('{name}', {axis})")))
        got = to_numpy(seen.pop())
        assert not seen and got.dtype == wide.dtype
        size = np.abs(wide).sum(axis=axis, keepdims=True)
        assert (np.abs(got - wide.sum(axis=axis, keepdims=True)) <= 64 * 2.0**-53 * size).all()
        if rows > 0:
            mean = to_numpy(q(filedb, f"SELECT gx_mean('{name}', {axis})"))
            assert (np.abs(mean - wide.mean(axis=axis, keepdims=True)) <= 64 * 2.0**-53 * size).all()


def test_sums_keep_what_is_special(db):
    a = np.ones((3, 4))
    a[0, 1], a[1, 2] = np.nan, np.inf
    rows, columns = (to_numpy(q(db, f"SELECT gx_sum(?, {axis})", from_numpy(a))) for axis in (1, 0))
    assert np.isnan(rows[0, 0]) and rows[1, 0] == np.inf and rows[2, 0] == 4
    assert columns[0, 0] == 3 and np.isnan(columns[0, 1]) and columns[0, 2] == np.inf


@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_extremes_along(filedb, dtype):
    configure(filedb, tile_bytes=TILE_BYTES)
    a = random_matrix(5, 300, 170, dtype)
    a[7, 3] = np.nan
    a[8] = np.inf
    store(filedb, "A", a)
    for name, axis in itertools.product(("min", "max"), (0, 1)):
        want = getattr(np, name)(a, axis=axis, keepdims=True)
        for text in ("'A'", "gx_copy('A')"):
            got = to_numpy(q(filedb, f"SELECT gx_{name}({text}, {axis})"))
            assert got.dtype == want.dtype and np.array_equal(got, want, equal_nan=True)
        assert q(filedb, f"SELECT gx_shape(gx_{name}(gx_zeros(0, 3), 1))") == "[0,1]"
        for call, said in (("gx_zeros(0, 3), 0", "A is 0x3: without elements there is no smallest and no largest one"),
                           ("'A', 2", "axis must be 0 (down the columns) or 1 (along the rows), not 2")):
            assert error(filedb, f"SELECT gx_{name}({call})") == f"gx_{name}: {said}"


def test_reads(filedb):
    """2560 x 512 f32 in 20 tiles of 256 x 256."""
    configure(filedb, tile_bytes=256 * 256 * 4, threads=2, readers=2, memory_limit="64MB")  # nothing is kept
    filedb.execute("SELECT gx_random(2560, 512, 'A', '{\"dtype\":\"f32\"}')")
    names = ("bytes_read", "tiles_read", "helper_reads")
    for call in ("gx_copy('A')", "gx_transpose('A')", "gx_add('A', 1)", "gx_sum('A', 1)", "gx_sum('A', 0)"):
        assert counted(filedb, f"SELECT {call}", *names) == [4 * 2560 * 512, 20, 20], call
    count, tiles, helped = counted(filedb, "SELECT gx_slice('A', 100, 2500, NULL, NULL)", *names)
    assert 4 * 2400 * 512 <= count <= 4 * 2560 * 512 and helped >= 16
    whole = counted(filedb, "SELECT gx_slice('A', 256, 2304, NULL, NULL)", *names)
    assert whole == [4 * 2048 * 512, 16, 16]


@pytest.mark.parametrize("cols,tile_bytes", [(64, 256 * 64 * 4), (48, 256 * 64 * 4), (3, 256 * 64 * 4), (64, 1 << 20)])
@pytest.mark.parametrize("dtype", ["f32", "c64"])
def test_long_products_are_stored(filedb, dtype, cols, tile_bytes):
    configure(filedb, tile_bytes=tile_bytes, threads=2, readers=2)
    a, w = store(filedb, "A", random_matrix(5, 9001, 64, dtype)), store(filedb, "W", random_matrix(6, 64, cols, dtype))
    tiles = q(filedb, "SELECT (rows + tile_rows - 1) / tile_rows FROM gx_meta WHERE name = 'A'")
    for options, want in (("", a @ w), (',"alpha":0.5', 0.5 * (a @ w))):
        sql = f"SELECT gx_matmul('A', 'W', 'C', '{{\"replace\":true{options}}}')"
        assert counted(filedb, sql, "tiles_read")[0] <= tiles + 2
        assert np.abs(to_numpy(q(filedb, "SELECT gx_copy('C')")) - want).max() < 64 * 2.0**-24 * np.abs(want).max()


def test_projections_read_once(filedb):
    configure(filedb, tile_bytes="256kB", threads=2, readers=2)
    a = store(filedb, "A", random_matrix(7, 50000, 16, "f32") + np.float32(100))
    q(filedb, "SELECT gx_pca('A', 3, 'M')")
    tiles = q(filedb, "SELECT (rows + tile_rows - 1) / tile_rows FROM gx_meta WHERE name = 'A'")
    sql = "SELECT gx_pca_project('A', 'M', 'P', '{\"replace\":true}')"
    assert counted(filedb, sql, "tiles_read")[0] <= tiles + 4
    model = to_numpy(q(filedb, "SELECT gx_copy('M')")).astype(np.float64)
    want = (a - model[:, 0]) / model[:, 1] @ model[:, 2:]
    assert np.abs(to_numpy(q(filedb, "SELECT gx_copy('P')")) - want).max() < 1e-4
