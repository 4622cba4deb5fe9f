"""Looking at matrices: facts, elements, slices, stacks, gx_json, gx_show, gx_heatmap.

Plan:
1. every function on the same matrices as value and as stored matrix of many small tiles, against NumPy: the answer does
   not depend on where the matrix lies;
2. gx_json reads back as the same bits, is valid JSON, prints numbers as Python does, respects the length limit early and late;
3. gx_show against NumPy's own print for thousands of random matrices: kinds of numbers, dtypes, options;
4. gx_heatmap: exact pictures, each tile read once (gx_stats), block means against NumPy, NaN and infinite cells;
5. ranges, shapes, destinations and options wrong once each, with the exact text and the database as it was;
6. empty matrices, 1 x 1, one row, one column.
"""
import json
import sqlite3

import numpy as np
import pytest
from conftest import DTYPES, error, from_numpy, q, to_numpy

SEED = 11


def sample(shape, dtype=np.dtype("<f8"), seed=SEED):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(shape)
    if dtype.kind == "c":
        a = a + 1j * rng.standard_normal(shape)
    return a.astype(dtype)


def stored(db, name, a, tile_bytes=2048):
    """Store an array in many small tiles."""
    q(db, "SELECT gx_config('tile_bytes', ?)", tile_bytes)
    q(db, "SELECT gx_store(?, ?)", name, from_numpy(a))
    return name


@pytest.fixture(params=["value", "stored"])
def put(db, request):
    """Give a function from an array to a matrix argument."""
    count = [0]

    def put_it(a):
        if request.param == "value":
            return from_numpy(a)
        count[0] += 1
        return stored(db, f"M{count[0]}", a)
    return put_it


# ---- facts and elements ---------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_facts(db, put, dtype):
    A = put(sample((70, 33), dtype))
    assert q(db, "SELECT gx_shape(?)", A) == "[70,33]"
    assert q(db, "SELECT gx_rows_count(?)", A) == 70
    assert q(db, "SELECT gx_cols_count(?)", A) == 33
    assert q(db, "SELECT gx_dtype(?)", A) == {"float64": "f64", "float32": "f32", "complex128": "c128",
                                              "complex64": "c64"}[dtype.name]
    info = json.loads(q(db, "SELECT gx_info(?)", A))
    assert (info["rows"], info["cols"], info["bytes"]) == (70, 33, 70 * 33 * dtype.itemsize)


def test_info_of_a_stored_matrix(db):
    stored(db, 'a "quoted\\ name', sample((70, 33)))
    info = json.loads(q(db, "SELECT gx_info('a \"quoted\\ name')"))
    assert info["name"] == 'a "quoted\\ name' and info["schema"] == "main"
    tiles = -(-70 // info["tile_rows"]) * -(-33 // info["tile_cols"])
    assert info["tiles"] == tiles > 4
    assert info["generation"] >= 1
    assert list(info) == ["name", "schema", "rows", "cols", "dtype", "bytes", "properties", "tile_rows", "tile_cols",
                          "tiles", "generation"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_get(db, put, dtype):
    a = sample((40, 50), dtype)
    A = put(a)
    for i, j in [(0, 0), (39, 49), (17, 3), (16, 16), (31, 32)]:
        got = q(db, "SELECT gx_get(?, ?, ?)", A, i, j)
        if dtype.kind == "c":
            assert to_numpy(got).tolist() == [[complex(a[i, j])]]
        else:
            assert got == float(a[i, j])


def test_get_specials(db):
    assert q(db, "SELECT gx_get('[null]', 0, 0)") is None
    assert q(db, "SELECT gx_get('[-9e999]', 0, 0)") == -np.inf
    assert q(db, "SELECT gx_get(5, 0, 0)") == 5.0


def test_get_reads_one_tile(db):
    stored(db, "A", sample((200, 200)))
    before = q(db, "SELECT value FROM gx_stats WHERE name = 'tiles_read'")
    q(db, "SELECT gx_get('A', 100, 100)")
    assert q(db, "SELECT value FROM gx_stats WHERE name = 'tiles_read'") == before + 1


# ---- slices ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_slices(db, put, dtype):
    a = sample((45, 37), dtype)
    A = put(a)
    for i0, i1, j0, j1 in [(0, 45, 0, 37), (3, 41, 5, 36), (44, 45, 0, 37), (0, 45, 36, 37), (7, 7, 0, 5), (45, 45, 37, 37),
                           (None, 10, 20, None), (None, None, None, None)]:
        got = to_numpy(q(db, "SELECT gx_slice(?, ?, ?, ?, ?)", A, i0, i1, j0, j1))
        assert got.dtype == dtype and got.shape == a[i0:i1, j0:j1].shape and np.array_equal(got, a[i0:i1, j0:j1])
    assert np.array_equal(to_numpy(q(db, "SELECT gx_row(?, 44)", A)), a[44:45])
    assert np.array_equal(to_numpy(q(db, "SELECT gx_col(?, 36)", A)), a[:, 36:])


def test_slices_to_a_destination(db, put):
    a = sample((60, 60))
    A = put(a)
    assert q(db, "SELECT gx_slice(?, 1, 59, 2, 58, 'S')", A) == "S"
    assert np.array_equal(to_numpy(q(db, "SELECT gx_slice('S', NULL, NULL, NULL, NULL)")), a[1:59, 2:58])
    assert q(db, "SELECT gx_row(?, 5, 'S', '{\"replace\":true}')", A) == "S"
    assert np.array_equal(to_numpy(q(db, "SELECT gx_slice('S', NULL, NULL, NULL, NULL)")), a[5:6])
    assert q(db, "SELECT gx_col(?, 5, 'temp.S')", A) == "temp.S"
    assert q(db, "SELECT gx_shape('temp.S')") == "[60,1]"
    assert error(db, "SELECT gx_row(?, 0, 'S')", A) == (
        "gx_row: matrix 'S' already exists (use '{\"replace\":true}')")


def test_a_slice_may_replace_its_matrix(db):
    a = sample((60, 60))
    stored(db, "A", a)
    q(db, "SELECT gx_slice('A', 10, 50, 10, 50, 'A', '{\"replace\":true}')")
    assert np.array_equal(to_numpy(q(db, "SELECT gx_slice('A', NULL, NULL, NULL, NULL)")), a[10:50, 10:50])


# ---- stacks ---------------------------------------------------------------------------------------

def test_stacks(db, put):
    parts = [sample((20, n), seed=n) for n in (1, 17, 0, 40)]
    args = [put(p) for p in parts]
    got = to_numpy(q(db, "SELECT gx_hstack(?, ?, ?, ?)", *args))
    assert np.array_equal(got, np.hstack(parts))
    parts = [p.T.copy() for p in parts]
    args = [put(p) for p in parts]
    got = to_numpy(q(db, "SELECT gx_vstack(?, ?, ?, ?)", *args))
    assert np.array_equal(got, np.vstack(parts))


@pytest.mark.parametrize("one", DTYPES, ids=str)
@pytest.mark.parametrize("two", DTYPES, ids=str)
def test_stacked_dtypes(db, one, two):
    a, b = sample((3, 2), one), sample((3, 4), two, 5)
    got = to_numpy(q(db, "SELECT gx_hstack(?, ?)", from_numpy(a), from_numpy(b)))
    expected = np.hstack([a, b])
    assert got.dtype == expected.dtype and np.array_equal(got, expected)


def test_stack_to_a_destination(db, put):
    parts = [sample((50, n), seed=n) for n in (30, 31)]
    args = [put(p) for p in parts]
    assert q(db, "SELECT gx_hstack(?, ?, '{\"destination\":\"S\"}')", *args) == "S"
    whole = np.hstack(parts)
    assert np.array_equal(to_numpy(q(db, "SELECT gx_slice('S', NULL, NULL, NULL, NULL)")), whole)
    assert q(db, "SELECT gx_vstack('S', 'S', '{\"destination\":\"S\",\"replace\":true}')") == "S"
    assert np.array_equal(to_numpy(q(db, "SELECT gx_slice('S', NULL, NULL, NULL, NULL)")), np.vstack([whole, whole]))
    assert q(db, "SELECT gx_check('S')") == "ok"
    assert error(db, "SELECT gx_hstack(1, '{\"destination\":\"S\"}')") == (
        "gx_hstack: matrix 'S' already exists (use '{\"replace\":true}')")


# ---- gx_json --------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (3, 0), (1, 7), (7, 1), (90, 41)], ids=str)
def test_json_reads_back(db, put, dtype, shape):
    rng = np.random.default_rng(SEED)
    a = sample(shape, dtype) * (10.0 ** rng.integers(-30, 30, shape)).astype(dtype)
    if a.size > 4:
        a.flat[0], a.flat[1], a.flat[2], a.flat[3] = np.nan, np.inf, -np.inf, -0.0
    text = q(db, "SELECT gx_json(?)", put(a))
    json.loads(text)
    back = to_numpy(q(db, "SELECT gx_slice(?, NULL, NULL, NULL, NULL)", text))
    assert back.shape == shape
    if a.size > 0:
        back = back.astype(dtype)
    assert np.array_equal(back, a, equal_nan=True)


def test_json_spelling(db):
    numbers = [0.1, 1.0, -0.0, 1e16, 123456789012345.0, 1e-5, 0.0001, 5e-324, 1.7976931348623157e308, 1 / 3, 2.5e-8]
    text = q(db, "SELECT gx_json(?)", from_numpy([numbers]))
    assert text == "[[" + ",".join(repr(x) for x in numbers) + "]]"
    assert q(db, "SELECT gx_json(?)", from_numpy(np.array([[0.1, 1 / 3]], dtype="f4"))) == "[[0.1,0.33333334]]"
    assert q(db, "SELECT gx_json('[null,9e999,-9e999]')") == "[[null],[9.0e999],[-9.0e999]]"
    assert q(db, "SELECT gx_json('[\"nan-infi\",\"1\"]')") == '[["nan-infi"],["1.0+0.0i"]]'
    assert q(db, "SELECT gx_json('[]')") == "[]"
    assert q(db, "SELECT gx_json(gx_zeros(0, 3))") == "[]"
    assert q(db, "SELECT gx_json('[[],[]]')") == "[[],[]]"


def test_json_is_json(db):
    """SQLite's JSON functions take what is JSON as it is, not as a string."""
    assert q(db, "SELECT json_array(gx_json('[[1,2]]'), gx_shape('[[1,2]]'), gx_dtype('[1]'))") == (
        '[[[1.0,2.0]],[1,2],"f64"]')
    assert json.loads(q(db, "SELECT json_object('A', gx_info('[1]'))"))["A"]["rows"] == 1


def test_json_in_small_memory(db):
    """A matrix much wider than the memory: strips of one row."""
    a = sample((40, 3000))
    stored(db, "A", a, 65536)
    q(db, "SELECT gx_config('memory_limit', '4MiB')")
    assert json.loads(q(db, "SELECT gx_json('A')")) == a.tolist()


@pytest.mark.skipif(not hasattr(sqlite3.Connection, "setlimit"), reason="Python before 3.11 cannot set limits")
def test_json_length_limit(db):
    blob = from_numpy(np.full((20, 20), 1 / 3))
    length = len(q(db, "SELECT gx_json(?)", blob))
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, length)
    assert len(q(db, "SELECT gx_json(?)", blob)) == length
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 4000)
    message = error(db, "SELECT gx_json(?)", blob)
    assert message.startswith("gx_json: the text takes ")
    assert message.endswith(" bytes or more, past SQLite's length limit of 4000: take a slice")


@pytest.mark.skipif(not hasattr(sqlite3.Connection, "setlimit"), reason="Python before 3.11 cannot set limits")
def test_json_is_refused_before_reading(db):
    stored(db, "A", np.zeros((100, 100)))
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 30000)
    before = q(db, "SELECT value FROM gx_stats WHERE name = 'tiles_read'")
    assert error(db, "SELECT gx_json('A')") == (
        "gx_json: the text takes 40200 bytes or more, past SQLite's length limit of 30000: take a slice")
    assert q(db, "SELECT value FROM gx_stats WHERE name = 'tiles_read'") == before


# ---- gx_show --------------------------------------------------------------------------------------

def spoil(a, rng):
    """Make the numbers of one of several kinds."""
    kind = rng.integers(0, 7)
    shape = a.shape
    if kind == 0:
        a = np.round(a * 10)
    if kind == 1:
        a = a * 10.0 ** rng.integers(-6, 12)
    if kind == 2:
        a = np.round(a, rng.integers(0, 5))
    if kind == 3:
        a[rng.random(shape) < 0.3] = np.nan
    if kind == 4:
        a[rng.random(shape) < 0.3] = np.inf
        a[rng.random(shape) < 0.2] = -np.inf
    if kind == 5:
        a = a * 10.0 ** rng.integers(-10, 10, shape)
    if kind == 6:
        a = a * 10.0 ** rng.integers(-300, 300, shape)
    if rng.random() < 0.3:
        a = abs(a)
    if rng.random() < 0.3:
        a[rng.random(shape) < 0.3] = 0
    return a


def test_show_prints_like_numpy(db):
    rng = np.random.default_rng(SEED)
    print("seed", SEED)
    for _ in range(2000):
        shape = tuple(rng.integers(1, 9, 2))
        a = spoil(rng.standard_normal(shape), rng)
        dtype = DTYPES[rng.integers(0, 4)]
        with np.errstate(all="ignore"):
            if dtype.kind == "c":
                a = a + 1j * spoil(rng.standard_normal(shape), rng)
            a = a.astype(dtype)
        options = {}
        if rng.random() < 0.3:
            options["precision"] = int(rng.integers(0, 12))
        if rng.random() < 0.3:
            options["linewidth"] = int(rng.integers(20, 120))
        if rng.random() < 0.3:
            options.update(threshold=5, edgeitems=int(rng.integers(1, 4)))
        with np.printoptions(**options), np.errstate(all="ignore"):
            expected = str(a)
        assert q(db, "SELECT gx_show(?, ?)", from_numpy(a), json.dumps(options)) == expected, (options, a.tolist())


@pytest.mark.parametrize("shape", [(100, 100), (3, 400), (400, 3), (10, 100), (6, 200), (7, 7)], ids=str)
def test_show_large(db, put, shape):
    a = sample(shape)
    assert q(db, "SELECT gx_show(?)", put(a)) == str(a)
    with np.printoptions(edgeitems=5):
        assert q(db, "SELECT gx_show(?, '{\"edgeitems\":5}')", put(a)) == str(a)


def test_show_reads_the_corners(db):
    stored(db, "A", sample((320, 320)))
    tiles = json.loads(q(db, "SELECT gx_info('A')"))["tiles"]
    before = q(db, "SELECT value FROM gx_stats WHERE name = 'bytes_read'")
    q(db, "SELECT gx_show('A')")
    read = q(db, "SELECT value FROM gx_stats WHERE name = 'bytes_read'") - before
    assert tiles > 300 and 36 * 8 <= read <= 4 * 2048


def test_show_small(db):
    assert q(db, "SELECT gx_show('[]')") == "[] (0x0)"
    assert q(db, "SELECT gx_show('[[],[]]')") == "[] (2x0)"
    assert q(db, "SELECT gx_show(5)") == "[[5.]]"
    assert q(db, "SELECT gx_show('[null]')") == "[[nan]]"


# ---- gx_heatmap -----------------------------------------------------------------------------------

def picture(text):
    """The lines inside the frame."""
    return [line[1:-1] for line in text.split("\n")[1:-2]]


def test_heatmap_picture(db):
    assert q(db, "SELECT gx_heatmap('[[0,1,2,3,4]]')") == (
        "┌──────────┐\n│  ░░▒▒▓▓██│\n└──────────┘\n1x5 f64, |a| from 0.0 ' ' to 4.0 '█'")
    assert q(db, "SELECT gx_heatmap('[[0,-9],[4.4,1]]', '{\"ascii\":true}')") == (
        "+----+\n|  @@|\n|==..|\n+----+\n2x2 f64, |a| from 0.0 ' ' to 9.0 '@'")
    assert q(db, "SELECT gx_heatmap('[[0,1],[null,9e999]]', '{\"width\":2}')") == (
        "┌──┐\n│ █│\n│?█│\n└──┘\n2x2 f64, |a| from 0.0 ' ' to 1.0 '█', NaN '?'")
    assert q(db, "SELECT gx_heatmap(gx_zeros(2, 2))") == (
        "┌────┐\n│    │\n│    │\n└────┘\n2x2 f64, |a| from 0.0 ' ' to 0.0 ' '")
    assert q(db, "SELECT gx_heatmap(gx_ones(1, 2))") == (
        "┌────┐\n│████│\n└────┘\n1x2 f64, |a| from 1.0 '█' to 1.0 '█'")
    assert q(db, "SELECT gx_heatmap('[\"3+4i\",\"0\"]')") == (
        "┌──┐\n│██│\n│  │\n└──┘\n2x1 c128, |a| from 0.0 ' ' to 5.0 '█'")
    assert q(db, "SELECT gx_heatmap('[null]')") == "┌──┐\n│??│\n└──┘\n1x1 f64, NaN '?'"
    assert q(db, "SELECT gx_heatmap('[]')") == "┌┐\n└┘\n0x0 f64"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(97, 201), (64, 32), (33, 65), (200, 5), (5, 200)], ids=str)
def test_heatmap_means(db, put, dtype, shape):
    a = sample(shape, dtype)
    width, height = 40, 13
    text = q(db, "SELECT gx_heatmap(?, ?)", put(a), json.dumps({"width": width, "height": height, "ascii": True}))
    rows, cols = min(shape[0], height), min(shape[1], width)
    i = [k * shape[0] // rows for k in range(rows + 1)]
    j = [k * shape[1] // cols for k in range(cols + 1)]
    mean = np.array([[np.abs(a[i[r]:i[r + 1], j[c]:j[c + 1]].astype("c16")).mean() for c in range(cols)]
                     for r in range(rows)])
    step = (mean - mean.min()) / (mean.max() - mean.min()) * 10
    near = np.abs(step - np.round(step)) < 1e-9  # a rounding error may move these to the neighbour
    got = np.array([[" .:-=+*#%@".index(c) for c in line] for line in picture(text)])
    if 2 * cols <= width:
        assert np.array_equal(got[:, ::2], got[:, 1::2])
        got = got[:, ::2]
    expected = np.minimum(step.astype(int), 9)
    assert got.shape == expected.shape
    assert np.array_equal(got[~near], expected[~near])


def test_heatmap_reads_each_tile_once(db):
    stored(db, "A", sample((200, 200)))
    info = json.loads(q(db, "SELECT gx_info('A')"))
    before = q(db, "SELECT value FROM gx_stats WHERE name = 'bytes_read'")
    q(db, "SELECT gx_heatmap('A')")
    assert q(db, "SELECT value FROM gx_stats WHERE name = 'bytes_read'") - before == info["bytes"]


# ---- refusals -------------------------------------------------------------------------------------

WRONG = {
    "SELECT gx_get('[[1,2],[3,4]]', 2, 0)": "gx_get: i is 2 but A has 2 rows (0 to 1)",
    "SELECT gx_get('[[1,2],[3,4]]', 0, 2)": "gx_get: j is 2 but A has 2 columns (0 to 1)",
    "SELECT gx_get('[[1,2],[3,4]]', -1, 0)": "gx_get: i is -1 but A has 2 rows (0 to 1)",
    "SELECT gx_get(1, 9223372036854775807, 0)": "gx_get: i is 9223372036854775807 but A has 1 row (0 to 0)",
    "SELECT gx_get('[[1,2],[3,4]]', 0, -9223372036854775808)":
        "gx_get: j is -9223372036854775808 but A has 2 columns (0 to 1)",
    "SELECT gx_get('[]', 0, 0)": "gx_get: i is 0 but A has no rows",
    "SELECT gx_get('[[]]', 0, 0)": "gx_get: j is 0 but A has no columns",
    "SELECT gx_row('[1,2]', 2)": "gx_row: i is 2 but A has 2 rows (0 to 1)",
    "SELECT gx_col('[1,2]', 1)": "gx_col: j is 1 but A has 1 column (0 to 0)",
    "SELECT gx_slice('[[1,2,3]]', 0, 2, 0, 1)": "gx_slice: i1 is 2 but A has 1 row",
    "SELECT gx_slice('[[1,2,3]]', -1, 1, 0, 1)": "gx_slice: i0 is -1 but A has 1 row",
    "SELECT gx_slice('[[1,2,3]]', 0, 1, 4, 1)": "gx_slice: j0 is 4 but A has 3 columns",
    "SELECT gx_slice('[[1,2,3]]', 0, 1, 2, 1)": "gx_slice: j0 is 2 but j1 is 1",
    "SELECT gx_slice('[1,2,3]', 3, 2, 0, 1)": "gx_slice: i0 is 3 but i1 is 2",
    "SELECT gx_slice('[1,2,3]', 'a', 2, 0, 1)": "gx_slice: i0 must be an integer, not 'a'",
    "SELECT gx_slice('[1]', 0, 1, 0, '{}', '{}')": "gx_slice: j1 must be an integer, not '{}'",
    "SELECT gx_slice('[1]', 0, 1, 0, 1, 5)": "gx_slice: destination must be a text, not 5",
    "SELECT gx_hstack('[1,2]', '[1,2,3]')": "gx_hstack: A has 2 rows but B has 3",
    "SELECT gx_vstack('[[1,2]]', '[[1,2]]', '[[1]]')": "gx_vstack: A has 2 columns but C has 1",
    "SELECT gx_hstack('[1]', '{\"destination\":5}')": 'gx_hstack: option "destination" must be a name, not 5',
    "SELECT gx_hstack('{}')": "gx_hstack: A is missing",
    "SELECT gx_hstack('[1]', NULL)": "gx_hstack: B is NULL",
    "SELECT gx_json('[1]', '{}')": "gx_json: takes 1 argument, not 2: gx_json(A)",
    "SELECT gx_show('[1]', 3)": "gx_show: options must be a JSON object '{...}', not 3",
    "SELECT gx_row('[1]', 0, 'B', 'C')": "gx_row: options must be a JSON object '{...}', not 'C'",
    "SELECT gx_show('[1]', '{\"edgeitems\":0}')": 'gx_show: option "edgeitems" must be 1 to 1000000, not 0',
    "SELECT gx_show('[1]', '{\"precision\":18}')": 'gx_show: option "precision" must be 0 to 17, not 18',
    "SELECT gx_show('[1]', '{\"linewidth\":0}')": 'gx_show: option "linewidth" must be 1 to 1000000, not 0',
    "SELECT gx_heatmap('[1]', '{\"width\":0}')": 'gx_heatmap: option "width" must be 1 to 4096, not 0',
    "SELECT gx_heatmap('[1]', '{\"height\":5000}')": 'gx_heatmap: option "height" must be 1 to 4096, not 5000',
    "SELECT gx_heatmap('[1]', '{\"ascii\":2}')": 'gx_heatmap: option "ascii" must be true or false, not 2',
    "SELECT gx_info(NULL)": "gx_info: A is NULL",
}


@pytest.mark.parametrize("sql", WRONG)
def test_refused(db, sql):
    message = error(db, sql)
    assert message.startswith(sql.split()[1].split("(")[0] + ": ")
    assert WRONG[sql] is None or message == WRONG[sql]
    assert q(db, "SELECT count(*) FROM gx") == 0


def test_a_failed_call_stores_nothing(db):
    q(db, "SELECT gx_store('A', '[1,2]')")
    before = db.execute("SELECT * FROM gx").fetchall()
    for sql in ["SELECT gx_slice('A', 0, 3, 0, 1, 'B')", "SELECT gx_hstack('A', '[1]', '{\"destination\":\"B\"}')",
                "SELECT gx_row('A', 0, 'A')", "SELECT gx_vstack('A', 'nowhere', '{\"destination\":\"B\"}')",
                "SELECT gx_row('A', 0, 'no.such')"]:
        error(db, sql) if "no.such" not in sql else None
        assert db.execute("SELECT * FROM gx").fetchall() == before


@pytest.mark.parametrize("damage", ["missing", "short", "long"])
def test_damaged_tile(filedb, damage):
    db = filedb
    stored(db, "A", sample((64, 64)))
    tile = q(db, "SELECT max(id) FROM gx_tile")
    db.execute({"missing": "DELETE FROM gx_tile WHERE id = ?",
                "short": "UPDATE gx_tile SET data = substr(data, 2) WHERE id = ?",
                "long": "UPDATE gx_tile SET data = data || x'00' WHERE id = ?"}[damage], (tile,))
    for sql in ["SELECT gx_json('A')", "SELECT gx_show('A')", "SELECT gx_heatmap('A')", "SELECT gx_get('A', 63, 63)",
                "SELECT gx_row('A', 63)", "SELECT gx_hstack('A')", "SELECT gx_slice('A', 60, 64, 60, 64, 'B')"]:
        message = error(db, sql)
        assert "A" in message and "tile" in message, message
    assert q(db, "SELECT count(*) FROM gx") == 1
    assert q(db, "SELECT gx_get('A', 0, 0)") == sample((64, 64))[0, 0]
