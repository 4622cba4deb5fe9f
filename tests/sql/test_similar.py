"""gx_normalize, gx_cosine, gx_distance, gx_kmeans.

Plan:
1. normalize: kinds, axes, dtypes, shapes, tiles; lines of zeros; lines whose squares overflow or vanish; NaN;
2. distances against differences in double precision, every metric, stored and as values, little memory, far from the origin;
3. cosine, and 1 - cosine; of rows of any size, gx_knn's too: the squares of 1e-200 vanish, those of 1e200 overflow;
4. k-means: separated clusters are found; assignments are the nearest centres and centres the means of their rows; the same bits for
   threads and budgets, other seeds differ; more clusters than different rows; sampled seeds; few iterations;
5. exact refusals.
"""
import json

import numpy as np
import pytest
from mockkit import child_on_stand_ins
from conftest import error, from_numpy, gx_connect, q, to_numpy


def store(db, name, a):
    db.execute("SELECT gx_store(?, ?)", (name, from_numpy(a))).fetchone()


# ---- 1. normalize ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", ["<f8", "<f4"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (5, 9), (70, 33), (200, 3)], ids=str)
def test_normalize(db, shape, dtype):
    db.execute("SELECT gx_config('tile_bytes', 2048)")
    a = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    a[1:2] = 0
    store(db, "A", a)
    for axis in (0, 1):
        for kind in ("l2", "l1", "max"):
            x = a.astype("f8")
            norm = {"l2": lambda: np.sqrt((x * x).sum(axis=axis, keepdims=True)), "l1": lambda: np.abs(x).sum(axis=axis, keepdims=True),
                    "max": lambda: np.abs(x).max(axis=axis, keepdims=True, initial=0)}[kind]()
            want = x / np.where(norm == 0, 1, norm)
            for form in ("A", from_numpy(a)):
                got = to_numpy(q(db, "SELECT gx_normalize(?, ?, ?)", form, axis, kind))
                assert got.dtype == a.dtype and got.shape == a.shape
                np.testing.assert_allclose(got, want, rtol=4 * np.finfo(dtype).eps)
    assert q(db, "SELECT gx_normalize('A', 1, 'l2', 'N')") == "N"
    assert np.array_equal(to_numpy(q(db, "SELECT gx_copy('N')")), to_numpy(q(db, "SELECT gx_normalize('A')")))


def test_normalize_extremes(db):
    a = np.array([[3e200, 4e200], [3e-200, 4e-200], [0, 0], [np.nan, 1], [5, 0]])
    got = to_numpy(q(db, "SELECT gx_normalize(?)", from_numpy(a)))
    np.testing.assert_allclose(got[[0, 1, 2, 4]], [[0.6, 0.8], [0.6, 0.8], [0, 0], [1, 0]], rtol=1e-15)
    assert np.isnan(got[3]).all()


# ---- 2. distances ----------------------------------------------------------------------------------------------------

def distances(A, B, metric):
    gap = A.astype("f8")[:, None, :] - B.astype("f8")[None]
    if metric == "hamming":
        return (gap != 0).sum(axis=2) / max(1, A.shape[1])
    if metric == "l1":
        return np.abs(gap).sum(axis=2)
    return np.sqrt((gap * gap).sum(axis=2)) if metric == "l2" else (gap * gap).sum(axis=2)


@pytest.mark.parametrize("metric", ["l2", "sqeuclidean", "l1", "hamming"])
@pytest.mark.parametrize("dtype", ["<f8", "<f4"])
def test_distance(db, metric, dtype):
    db.execute("SELECT gx_config('tile_bytes', 16384)")
    rng = np.random.default_rng(2)
    for m, n, d in [(0, 3, 2), (3, 0, 2), (2, 3, 0), (1, 1, 1), (40, 70, 9), (600, 33, 5), (30, 530, 300)]:
        A, B = rng.standard_normal((m, d)) + 1e4, rng.standard_normal((n, d)) + 1e4
        if metric == "hamming":
            A, B = rng.integers(0, 2, (m, d)), rng.integers(0, 2, (n, d))
        A, B = A.astype(dtype), B.astype(dtype)
        want = distances(A, B, metric)
        options = json.dumps({"metric": metric, "replace": True})
        got = to_numpy(q(db, "SELECT gx_distance(?, ?, ?)", from_numpy(A), from_numpy(B), options))
        assert got.dtype == A.dtype and got.shape == (m, n)
        np.testing.assert_allclose(got, want, rtol=max(1e-13, 2 * np.finfo(dtype).eps))
        store(db, f"A{m}", A)
        store(db, f"B{m}", B)
        assert q(db, "SELECT gx_distance(?, ?, 'D', ?)", f"A{m}", f"B{m}", options) == "D"
        assert np.array_equal(to_numpy(q(db, "SELECT gx_copy('D')")), got)


def test_distance_in_little_memory(tmp_path):
    db = gx_connect(str(tmp_path / "a.db"))
    db.execute("SELECT gx_config('tile_bytes', 65536)")
    A = np.random.default_rng(3).standard_normal((1500, 20))
    store(db, "A", A)
    db.execute("SELECT gx_config('memory_limit', '5MB')")
    db.execute("SELECT gx_distance('A', 'A', 'D')").fetchone()
    db.execute("SELECT gx_config('memory_limit', '500MB')")
    np.testing.assert_allclose(to_numpy(q(db, "SELECT gx_copy('D')")), distances(A, A, "l2"), rtol=1e-13)


# ---- 3. cosine -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", ["<f8", "<f4"])
def test_cosine(db, dtype):
    db.execute("SELECT gx_config('tile_bytes', 16384)")
    rng = np.random.default_rng(4)
    for m, n, d in [(0, 2, 3), (1, 1, 4), (50, 90, 33), (300, 7, 20)]:
        A, B = rng.standard_normal((m, d)).astype(dtype), rng.standard_normal((n, d)).astype(dtype)
        A[3:4] = 0
        length = np.linalg.norm(A.astype("f8"), axis=1)[:, None] * np.linalg.norm(B.astype("f8"), axis=1)
        want = np.divide(A.astype("f8") @ B.T.astype("f8"), length, out=np.zeros((m, n)), where=length > 0)
        for form in (from_numpy, lambda a: (store(db, f"M{len(a)}{dtype[2]}{d}{a is B}", a), f"M{len(a)}{dtype[2]}{d}{a is B}")[1]):
            a, b = form(A), form(B)
            bound = (d + 8) * np.finfo(dtype).eps
            np.testing.assert_allclose(to_numpy(q(db, "SELECT gx_cosine(?, ?)", a, b)), want, atol=bound)
            np.testing.assert_allclose(to_numpy(q(db, "SELECT gx_distance(?, ?, '{\"metric\":\"cosine\"}')", a, b)), 1 - want, atol=bound)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("dtype", ["<f8", "<f4"])
def test_cosine_of_rows_of_any_size(db, dtype, backend):
    """One answer in every function: that of the rows divided by their largest element."""
    db.execute("SELECT gx_config('backend', ?)", (backend,)).fetchall()
    base = np.array([[3, 4, 0, 1], [0, 0, 0, 0], [-4, 3, 2, 1], [3, 4, 0, 1.5], [3, 4, 0, 1]])
    sizes = [1e-300, 1e-200, 1e-150, 1, 1e150, 1e200, 1e307] if dtype == "<f8" else [1e-36, 1e-20, 1, 1e20, 1e37]
    for own in sizes:
        for other in sizes:
            mixed = np.array([own, other, own, other, 1])[:, None]
            A, B = (base * own).astype(dtype), (base[::-1] * mixed).astype(dtype)
            a, b = A.astype("f8") / own, B.astype("f8") / mixed
            length = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)
            want = np.divide(a @ b.T, length, out=np.zeros((5, 5)), where=length > 0)
            found = np.full((5, 5), np.nan)
            for i, j, score in db.execute("SELECT query, id, score FROM gx_knn(?, ?, 5)", (from_numpy(A), from_numpy(B))):
                found[i, j] = score
            bound = 1e-14 if dtype == "<f8" else 1e-5
            np.testing.assert_allclose(found, want, atol=1e-14 if dtype == "<f8" else 1e-6)
            np.testing.assert_allclose(to_numpy(q(db, "SELECT gx_cosine(?, ?)", from_numpy(A), from_numpy(B))), want, atol=bound)
            got = to_numpy(q(db, "SELECT gx_distance(?, ?, '{\"metric\":\"cosine\"}')", from_numpy(A), from_numpy(B)))
            np.testing.assert_allclose(got, 1 - want, atol=bound)
            got = np.linalg.norm(to_numpy(q(db, "SELECT gx_normalize(?)", from_numpy(B))).astype("f8"), axis=1)
            np.testing.assert_allclose(got, [1, 1, 1, 0, 1], atol=bound)
    many = np.random.default_rng(9).standard_normal((300, 8)).astype(dtype)
    small = many * np.array(1e-200 if dtype == "<f8" else 1e-36, dtype)
    for q_, e_ in ((many, small), (small, many), (small, small)):
        rows = db.execute("SELECT id FROM gx_knn(?, ?, 1)", (from_numpy(q_), from_numpy(e_))).fetchall()
        assert [row[0] for row in rows] == list(range(300))


# ---- 4. k-means ------------------------------------------------------------------------------------------------------

def test_kmeans_finds_clusters(db):
    rng = np.random.default_rng(5)
    middle = rng.standard_normal((6, 8)) * 20
    A = middle[rng.integers(0, 6, 3000)] + rng.standard_normal((3000, 8))
    for dtype in ("<f8", "<f4"):
        store(db, "A" + dtype[2], A.astype(dtype))
        centres = to_numpy(q(db, "SELECT gx_kmeans(?, 6)", "A" + dtype[2]))
        assert centres.dtype == np.dtype(dtype) and centres.shape == (6, 8)
        gap = np.linalg.norm(centres[:, None] - middle[None], axis=2)
        assert sorted(gap.argmin(axis=1)) == list(range(6)) and gap.min(axis=1).max() < 0.5
    db.execute("SELECT gx_kmeans('A8', 6, 'C', '{\"tolerance\":0}')")
    rows = db.execute("SELECT query, id FROM gx_knn('A8', 'C', 1, '{\"metric\":\"l2\"}')").fetchall()
    mine = np.array([r[1] for r in rows])
    C = to_numpy(q(db, "SELECT gx_copy('C')"))
    assert np.array_equal(mine, ((A[:, None] - C[None]) ** 2).sum(axis=2).argmin(axis=1))
    for c in range(6):
        np.testing.assert_allclose(C[c], A[mine == c].mean(axis=0), rtol=1e-12)


def test_kmeans_same_bits(tmp_path):
    A = np.random.default_rng(6).standard_normal((9000, 12)).astype("<f4")
    first = {}
    for threads, limit in [(1, "64MB"), (3, "64MB"), (2, "4MB")]:
        db = gx_connect(str(tmp_path / f"{threads}.db"))
        db.execute("SELECT gx_config('threads', ?), gx_config('readers', ?), gx_config('tile_bytes', 65536)", (threads, threads))
        store(db, "A", A)
        db.execute("SELECT gx_config('memory_limit', ?)", (limit,))
        for seed in (0, 1):
            got = q(db, "SELECT gx_kmeans('A', 20, ?)", json.dumps({"seed": seed, "iterations": 8}))
            assert got == first.setdefault(seed, got)
        db.close()
    assert first[0] != first[1]


def test_kmeans_corners(db):
    same = from_numpy(np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]]))
    assert {tuple(r) for r in to_numpy(q(db, "SELECT gx_kmeans(?, 3)", same))} == {(1.0, 2.0), (3.0, 4.0)}
    assert to_numpy(q(db, "SELECT gx_kmeans(?, 1)", same)).tolist() == [[5 / 3, 8 / 3]]
    assert to_numpy(q(db, "SELECT gx_kmeans('[1,2,9]', 2)")).ravel().tolist() in ([1.5, 9.0], [9.0, 1.5])
    assert to_numpy(q(db, "SELECT gx_kmeans(?, 2)", from_numpy(np.zeros((3, 0))))).shape == (2, 0)
    db.execute("SELECT gx_zeros(2147483648, 0, 'nothing')")
    assert to_numpy(q(db, "SELECT gx_kmeans('nothing', 3)")).shape == (3, 0)
    rows = np.random.default_rng(7).standard_normal((50, 3))
    seeds = to_numpy(q(db, "SELECT gx_kmeans(?, 5, '{\"iterations\":0}')", from_numpy(rows)))
    assert all((rows == s).all(axis=1).any() for s in seeds) and len({tuple(s) for s in seeds}) == 5


# ---- 5. refusals -----------------------------------------------------------------------------------------------------

def test_refusals(db):
    for sql, message in [
            ("gx_normalize('[1,2]', 2)", "gx_normalize: axis must be 0 (down the columns) or 1 (along the rows), not 2"),
            ("gx_normalize('[1,2]', 1, 'l3')", "gx_normalize: kind must be one of l2, l1, max, not 'l3'"),
            ("gx_normalize('[\"1i\"]')", "gx_normalize: A is complex (c128): rows of real numbers are compared"),
            ("gx_cosine('[1,2]', '[[1,2]]')", "gx_cosine: A is 2x1 but B is 1x2: rows of one length are compared"),
            ("gx_distance('[1]', '[\"1i\"]')", "gx_distance: B is complex (c128): rows of real numbers are compared"),
            ("gx_distance('[1]', '[1]', '{\"metric\":\"dot\"}')", "gx_distance: option \"metric\" must be one of cosine, l2, sqeuclidean, l1, hamming, not \"dot\""),
            ("gx_distance('[1]', '[[2]]', '{\"metric\":\"hamming\"}')",
             "gx_distance: B has 2 at (0, 0), but 'hamming' compares zeros and ones"),
            ("gx_kmeans('[1,2]', 3)", "gx_kmeans: k is 3 but A has 2 rows: from 1 to as many clusters"),
            ("gx_kmeans('[1,2]', 0)", "gx_kmeans: k is 0 but A has 2 rows: from 1 to as many clusters"),
            ("gx_kmeans(gx_zeros(0, 2), 1)", "gx_kmeans: k is 1 but A has 0 rows: from 1 to as many clusters"),
            ("gx_kmeans('[[1,2],[3,\"nan\"]]', 1)", "gx_kmeans: A has NaN at (1, 1)"),
            ("gx_kmeans('[\"inf\",2]', 1)", "gx_kmeans: A has Inf at (0, 0)"),
            ("gx_kmeans('[1,2]', 1, '{\"iterations\":-1}')", "gx_kmeans: option \"iterations\" must be at least 0, not -1"),
            ("gx_kmeans('[1,2]', 1, '{\"tolerance\":\"nan\"}')", "gx_kmeans: option \"tolerance\" must be at least 0, not \"nan\""),
    ]:
        assert error(db, "SELECT " + sql) == message


def test_kmeans_on_a_device(tmp_path):
    """Passes on one device and on several give the host's centres, which are well apart, to rounding; NaN is refused by its place, a
    device that fails on the way is the host's turn, and a pass moves no rows but up."""
    got = child_on_stand_ins(tmp_path, """
db = connect("cpu", 1 << 18)
rng = np.random.default_rng(4)
rows = (rng.standard_normal((9, 12)) * 10)[rng.integers(0, 9, 20000)] + rng.standard_normal((20000, 12)) * 0.3
q(db, "SELECT gx_from_bytes(?, 'f64', 12, 'A')", rows.astype("<f8").tobytes())
def centres():
    c = np.frombuffer(q(db, "SELECT gx_to_bytes(gx_kmeans('A', 9, '{\\"seed\\":3,\\"tolerance\\":0}'))"), dtype="<f8").reshape(9, 12)
    return c[np.lexsort(c.T)]
right, result = centres(), []
for devices in ("1", "0,1", "0,1,2"):
    q(db, "SELECT gx_config('backend', 'cuda')")
    q(db, "SELECT gx_config('devices', ?)", devices)
    before = stats(db)
    result.append([float(abs(centres() - right).max()), since(db, before)["device_calls"]])
q(db, "SELECT gx_config('devices', '1')")
for n in (3, 30, 90):
    q(db, "SELECT gx_config('device', 0)")
    mock.order(f"*:{n}!")
    result.append([float(abs(centres() - right).max()), 1])
    mock.order()
q(db, "SELECT gx_set('A', 777, 5, 9e999)")
result.append(error(db, "SELECT gx_kmeans('A', 9)"))
""", MOCK_MEMORY=64 << 20, MOCK_DEVICES=3, timeout=200)
    assert all(apart < 1e-9 and calls > 0 for apart, calls in got[:-1]), got
    assert "Inf at (777, 5)" in got[-1], got
