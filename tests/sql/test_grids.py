"""Grids: labels, objects, operations, alone and in batches, in SQL and in programs.

Plan:
1. Labels of 20 000 random grids (1x1 to 30x30, 1 to 10 colours) in one call against scipy.ndimage.label; every rule and
   neighbourhood against a flood fill written in Python; dtypes, empty grids; heights around multiples of 64.
2. One grid in strips: small strips, stored matrices of small tiles, little memory, threads, destinations; shapes whose parts meet late.
3. gx_objects against what the model says of each object, alone, in strips, in batches.
4. Every operation of the list on random grids against a model in Python: in a batch by table, by rows, alone, in programs.
5. What is refused, to the letter where it is one sentence; batch tables that are forged; memory.
6. Colours in gx_show.
"""
import json

import numpy as np
import pytest
import scipy.ndimage
from conftest import error, from_numpy, q, to_numpy
from mockkit import child

RULES = ["nonzero", "colour", "not_background", "colour_not_background", "all", "colour_all"]
EIGHT = [(di, dj) for di in (-1, 0, 1) for dj in (-1, 0, 1) if di or dj]
FOUR = [(-1, 0), (1, 0), (0, -1), (0, 1)]


def call(db, function, *arguments, **options):
    """What the function gives, as an array where it is a matrix."""
    given = [from_numpy(a, exact=True) if isinstance(a, np.ndarray) else a for a in arguments]
    given += [json.dumps(options)] if options else []
    result = q(db, f"SELECT {function}({', '.join(f'?{k + 1}' for k in range(len(given)))})", *given)
    return to_numpy(result) if isinstance(result, bytes) else result


def random_grids(seed, count, most=30, colours=10):
    rng = np.random.default_rng(seed)
    grids = []
    for _ in range(count):
        m, n = rng.integers(1, most + 1, 2)
        few = rng.integers(1, colours + 1)
        grid = rng.integers(0, few, (m, n))
        if rng.random() < 0.4:  # larger pieces
            grid = np.kron(grid, np.ones((3, 3), int))[:m, :n]
        grids.append(grid.astype("u1"))
    return grids


def stacked(grids, gaps=True):
    """A matrix with the grids below each other, some rows and columns of 99 around them, and their table."""
    cols, rows, table = max(g.shape[1] for g in grids) + gaps, 0, []
    for k, grid in enumerate(grids):
        rows += gaps and k % 3 == 1
        table.append((rows, *grid.shape))
        rows += len(grid)
    stack = np.full((rows + gaps, cols), 99 if gaps else 0, grids[0].dtype)
    for (row, m, n), grid in zip(table, grids):
        stack[row:row + m, :n] = grid
    return stack, np.array(table, float)


def parts(stack, table):
    return [stack[int(r):int(r + m), :int(n)] for r, m, n in table]


# ---- The model -----------------------------------------------------------------------------------


def frequent(grid, least=False):
    colours, counts = np.unique(grid, return_counts=True)
    return int(colours[np.argmin(counts) if least else np.argmax(counts)])  # of several the smallest


def labels_of(grid, rule="nonzero", neighbours=4):
    background = 0 if rule in ("nonzero", "colour") else frequent(grid) if "background" in rule else None
    m, n = grid.shape
    result, count = np.zeros((m, n), int), 0
    for start in np.ndindex(m, n):
        if result[start] or grid[start] == background:
            continue
        count += 1
        result[start] = count
        waiting = [start]
        while waiting:
            i, j = waiting.pop()
            for di, dj in EIGHT if neighbours == 8 else FOUR:
                at = i + di, j + dj
                inside = 0 <= at[0] < m and 0 <= at[1] < n
                if inside and not result[at] and grid[at] != background and ("colour" not in rule or grid[at] == grid[i, j]):
                    result[at] = count
                    waiting.append(at)
    return result


def cells(mask):
    return [(int(i), int(j)) for i, j in zip(*np.nonzero(mask))]


def mask_of(shape, places):
    mask = np.zeros(shape, int)
    for i, j in places:
        if 0 <= i < shape[0] and 0 <= j < shape[1]:
            mask[i, j] = 1
    return mask


def box_places(mask, wider, keep):
    if not mask.any():
        return []
    rows, cols = np.nonzero(mask.any(1))[0], np.nonzero(mask.any(0))[0]
    top, bottom, left, right = rows[0] - wider, rows[-1] + wider, cols[0] - wider, cols[-1] + wider
    return [(i, j) for i in range(top, bottom + 1) for j in range(left, right + 1)
            if keep(i in (top, bottom), j in (left, right))]


def outline(mask, wider=0):
    return mask_of(mask.shape, box_places(mask, wider, lambda a, b: a or b))


def flood(grid, i, j, c, neighbours):
    if not (i < grid.shape[0] and j < grid.shape[1]):
        return grid
    piece = labels_of(grid, "colour_all", neighbours)
    return np.where(piece == piece[i, j], c, grid)


def shift(grid, di, dj, c):
    result = np.full(grid.shape, c)
    for (i, j), x in np.ndenumerate(grid):
        if 0 <= i + di < grid.shape[0] and 0 <= j + dj < grid.shape[1]:
            result[i + di, j + dj] = x
    return result


def partition(grid, without=None):
    seen, result = {}, np.zeros(grid.shape, int)
    for at, x in np.ndenumerate(grid):
        if x != without:
            result[at] = seen.setdefault(int(x), len(seen) + 1)
    return result


def distance(a, b):
    return min((abs(i - k) + abs(j - n) for i, j in cells(a) for k, n in cells(b)), default=np.nan)


def gravitate(m, t):
    m, t = (m != 0).astype(int), (t != 0).astype(int)
    if not m.any() or not t.any() or (m & t).any():
        return m

    def middle(mask, axis):
        lines = np.nonzero(mask.any(1 - axis))[0]
        return lines[0] + (lines[-1] - lines[0] + 1) // 2

    axis = 0 if (m.any(0) & t.any(0)).any() else 1
    step = 1 if middle(m, axis) < middle(t, axis) else -1
    while distance(m, t) != 1:
        moved = shift(m, step * (axis == 0), step * (axis == 1), 0)
        if moved.sum() < m.sum():
            break
        m = moved
    return m


def period(lines):
    return next(p for p in range(1, len(lines) + 1) if all((a == b).all() for a, b in zip(lines, lines[p:])))


def beside(mask, neighbours):
    near = {(i + di, j + dj) for i, j in cells(mask) for di, dj in (EIGHT if neighbours == 8 else FOUR)}
    return mask_of(mask.shape, near) * (mask == 0)


def occurrences(grid, t):
    (m, n), (a, b) = grid.shape, t.shape
    return mask_of((m, n), [(i, j) for i in range(m - a + 1) for j in range(n - b + 1)
                            if ((t < 0) | (grid[i:i + a, j:j + b] == t)).all()])


def uniform(grid):
    return [i for i, row in enumerate(grid) if len(set(row.tolist())) == 1]


def frontiers(grid):
    result = np.zeros(grid.shape, int)
    result[uniform(grid)] = 1
    result[:, uniform(grid.T)] = 1
    return result


def line(shape, i, j, di, dj, steps=40):
    return mask_of(shape, [(i + k * di, j + k * dj) for k in range(steps + 1)])


def sizes(labels):
    return np.array([[(labels == x).sum() if x else 0 for x in row] for row in labels])


# name, arguments beside the grid, model of (grid, other matrix)
TEMPLATE = np.array([[1, -1], [-1, 2]])
OPERATIONS = [
    ("partition", "", lambda g, m: partition(g)),
    ("fgpartition", "", lambda g, m: partition(g, frequent(g))),
    ("most_colour", "", lambda g, m: frequent(g)),
    ("least_colour", "", lambda g, m: frequent(g, least=True)),
    ("colour_count", "1", lambda g, m: (g == 1).sum()),
    ("flood", "0, 0, 7, 4", lambda g, m: flood(g, 0, 0, 7, 4)),
    ("flood", "4, 3, 2, 8", lambda g, m: flood(g, 4, 3, 2, 8)),
    ("cover", "M", lambda g, m: np.where(m != 0, frequent(g), g)),
    ("underfill", "M, 9", lambda g, m: np.where((m != 0) & (g == frequent(g)), 9, g)),
    ("shift", "1, -2, 3", lambda g, m: shift(g, 1, -2, 3)),
    ("shift", "-40, 0, 0", lambda g, m: shift(g, -40, 0, 0)),
    ("turn", "180", lambda g, m: g[::-1, ::-1]),
    ("mirror", "0", lambda g, m: g[::-1]),
    ("mirror", "1", lambda g, m: g[:, ::-1]),
    ("connect", "1, 1, 5, 5", lambda g, m: line(g.shape, 1, 1, 1, 1, 4)),
    ("connect", "3, 6, 3, -2", lambda g, m: line(g.shape, 3, 6, 0, -1, 8)),
    ("connect", "-2, 4, 3, -1", lambda g, m: line(g.shape, -2, 4, 1, -1, 5)),
    ("connect", "2, 2, 2, 2", lambda g, m: line(g.shape, 2, 2, 0, 0, 0)),
    ("shoot", "2, 1, -1, 1", lambda g, m: line(g.shape, 2, 1, -1, 1)),
    ("shoot", "0, 3, 1, 0", lambda g, m: line(g.shape, 0, 3, 1, 0)),
    ("gravitate", "M", gravitate),
    ("box", "", lambda g, m: outline(g)),
    ("inbox", "", lambda g, m: outline(g, -1)),
    ("outbox", "", lambda g, m: outline(g, 1)),
    ("corners", "", lambda g, m: mask_of(g.shape, box_places(g, 0, lambda a, b: a and b))),
    ("backdrop", "", lambda g, m: mask_of(g.shape, box_places(g, 0, lambda a, b: True))),
    ("delta", "", lambda g, m: mask_of(g.shape, box_places(g, 0, lambda a, b: True)) * (g == 0)),
    ("beside", "4", lambda g, m: beside(g, 4)),
    ("beside", "8", lambda g, m: beside(g, 8)),
    ("frontiers", "", lambda g, m: frontiers(g)),
    ("occurrences", "T", lambda g, m: occurrences(g, TEMPLATE)),
    ("row_period", "", lambda g, m: period(g)),
    ("col_period", "", lambda g, m: period(g.T)),
    ("manhattan", "M", distance),
    ("bordering", "", lambda g, m: bool(g[[0, -1]].any() or g[:, [0, -1]].any())),
]


def results(db, name, inside, grid, mask, table=None):
    """What the operation gives in SQL and in a program, of one grid or of a batch."""
    given = [from_numpy(grid)] + [from_numpy(mask if "M" in inside else TEMPLATE) for _ in range("M" in inside or "T" in inside)]
    words = ["?1"] + [inside.replace("M", "?2").replace("T", "?2")] * (inside != "")
    if table is None:
        options, more = [], []
    else:
        options, more = [json.dumps({"grids": table.astype(int).tolist()})], [from_numpy(table)]
    last = [f"?{len(given) + 1}"] * len(more)
    yield q(db, f"SELECT gx_grid_{name}({', '.join(words + last)})", *given, *options)
    program = f"{name}({', '.join(words + last)})"
    yield q(db, f"SELECT gx_eval('{program}', {', '.join(f'?{k + 1}' for k in range(len(given + more)))})", *given, *more)


def masks_for(grids, seed):
    rng = np.random.default_rng(seed)
    return [((rng.random(g.shape) < 0.15) & (g == 0)).astype("u1") for g in grids]


# ---- 1. Labels -----------------------------------------------------------------------------------


def test_labels_are_scipys(db):
    grids = random_grids(1, 20000)
    stack, table = stacked(grids)
    q(db, "SELECT gx_store('table', ?)", from_numpy(table))
    eight = call(db, "gx_label", stack, grids="table", neighbours=8)
    assert eight.dtype == np.uint32
    four = call(db, "gx_label", stack, grids="table")
    untouched = np.ones(stack.shape, bool)
    for k, (row, m, n) in enumerate(table.astype(int)):
        at = np.s_[row:row + m, :n]
        np.testing.assert_array_equal(four[at], scipy.ndimage.label(stack[at])[0])
        if k % 4 == 0:
            np.testing.assert_array_equal(eight[at], scipy.ndimage.label(stack[at], np.ones((3, 3)))[0])
        untouched[at] = False
    assert untouched.any() and not four[untouched].any() and not eight[untouched].any()


def test_every_rule(db):
    grids = random_grids(2, 150, 14, 5)
    stack, table = stacked(grids)
    for rule in RULES:
        for neighbours in (4, 8):
            got = call(db, "gx_label", stack, by=rule, neighbours=neighbours, grids=table.astype(int).tolist())
            for grid, labels in zip(grids, parts(got, table)):
                np.testing.assert_array_equal(labels, labels_of(grid, rule, neighbours), rule)
    for grid in grids[:40]:  # alone, by the way of large ones
        for rule in RULES:
            np.testing.assert_array_equal(call(db, "gx_label", grid, by=rule, neighbours=8), labels_of(grid, rule, 8), rule)


def test_dtypes_and_shapes(db):
    grid = np.array([[0, 3, 3], [-7, 0, 3], [-7, 2, 0]])
    want = labels_of(grid, "colour", 4)
    for dtype in ("<f8", "<f4", "<f2", "|i1", "<i2", "<i4", "<i8"):
        assert (call(db, "gx_label", grid.astype(dtype), by="colour") == want).all(), dtype
        assert (call(db, "gx_label", grid.astype(dtype), by="colour", grid_rows=1) == [[0, 1, 1], [1, 0, 2], [1, 2, 0]]).all()
    assert (call(db, "gx_label", (grid != 0)) == labels_of(grid)).all()  # bool
    assert (call(db, "gx_label", grid, dtype="i64") == labels_of(grid)).all()
    assert q(db, "SELECT gx_json(gx_label('[[0,5],[5,0]]'))") == "[[0,1],[2,0]]"
    for shape in ((0, 0), (0, 4), (4, 0)):
        assert call(db, "gx_label", np.zeros(shape)).shape == shape
        assert db.execute("SELECT count(*) FROM gx_objects(?)", (from_numpy(np.zeros(shape)),)).fetchone() == (0,)
    wide = np.array([[2**31 - 1, 1 - 2**31, 2**31 - 1]])
    assert call(db, "gx_label", wide.astype("f8"), by="colour").tolist() == [[1, 2, 3]]


@pytest.mark.parametrize("height", [1, 31, 63, 64, 65, 127, 128, 129, 200])
def test_columns_of_many_words(db, height):
    """Grids are looked at by 64 cells of a column; those of an even batch stand within the same words."""
    rng = np.random.default_rng(height)
    for width, count, colours in ((1, 3, 2), (2, 4, 3), (7, 5, 3), (3, 70, 2)):
        stack = rng.integers(0, colours, (height * count, width)).astype("u1")
        stack[rng.random(stack.shape[0]) < 0.3] = 1  # rows of one colour meet those of the next grid
        for rule in ("nonzero", "colour", "all", "colour_all", "colour_not_background")[:5 if count < 9 else 2]:
            for neighbours in (4, 8):
                want = np.vstack([labels_of(g, rule, neighbours) for g in stack.reshape(count, height, width)])
                for dtype in ("u1", "i4"):
                    got = call(db, "gx_label", stack.astype(dtype), by=rule, neighbours=neighbours, grid_rows=height)
                    np.testing.assert_array_equal(got, want, f"{width} {rule} {neighbours} {dtype}")


# ---- 2. Strips -----------------------------------------------------------------------------------


def spiral(n):
    grid = np.zeros((n, n), int)
    for k in range(0, n // 2, 2):
        grid[k:n - k, [k, n - 1 - k]] = 1
        grid[[k, n - 1 - k], k:n - k] = 1
        grid[k + 1, k] = 0
        if k + 2 < n // 2:
            grid[k + 2, k + 1] = 1
    return grid


def comb(n):
    """Teeth that are one component by the last row alone, and others that are not."""
    grid = np.zeros((n, n), int)
    grid[:, ::4] = 1
    grid[-1, : n // 2] = 1
    grid[::7, 2::8] = 2
    return grid


@pytest.mark.parametrize("tiles, limit, threads", [(4096, 3000000, 1), (4096, 6000000, 2), (1 << 20, 10**9, 2)])
def test_strips(filedb, tiles, limit, threads):
    db = filedb
    q(db, f"SELECT gx_config('tile_bytes', {tiles}) || gx_config('threads', {threads})")
    rng = np.random.default_rng(3)
    n = 301
    cases = {"noise": rng.integers(0, 2, (n, n)), "colours": rng.integers(0, 3, (n, 2 * n)), "spiral": spiral(n), "comb": comb(n),
             "sparse": rng.integers(0, 9, (n, 40)) == 0, "blobs": np.kron(rng.integers(0, 4, (20, 20)), np.ones((17, 13), int))}
    for name, grid in cases.items():
        q(db, "SELECT gx_store('G', ?, '{\"replace\":true}')", from_numpy(grid.astype("u1")))
        for neighbours in (4, 8):
            structure = np.ones((3, 3)) if neighbours == 8 else None
            for rule in ("nonzero", "colour", "colour_not_background"):
                if rule == "nonzero":
                    want = scipy.ndimage.label(grid, structure)[0]
                else:
                    want = labels_of(grid, rule, neighbours) if name in ("comb", "blobs") else None
                options = json.dumps({"by": rule, "neighbours": neighbours, "replace": True})
                q(db, f"SELECT gx_config('memory_limit', {limit})")
                assert q(db, "SELECT gx_label('G', 'L', ?)", options) == "L"
                q(db, "SELECT gx_config('memory_limit', '1GB')")
                stored = to_numpy(q(db, "SELECT gx_copy('L')"))
                value = call(db, "gx_label", grid.astype("u1"), by=rule, neighbours=neighbours)
                np.testing.assert_array_equal(stored, value, f"{name} {rule} {neighbours}")
                if want is not None:
                    np.testing.assert_array_equal(stored, want, f"{name} {rule} {neighbours}")
    assert q(db, "SELECT dtype FROM gx WHERE name = 'L'") == "u32"


def test_a_grid_of_many_strips_in_memory(db):
    rng = np.random.default_rng(4)
    for shape in ((1500, 900), (3, 400000), (400000, 3)):
        grid = rng.integers(0, 3, shape).astype("u1")
        for neighbours in (4, 8):
            want = scipy.ndimage.label(grid, np.ones((3, 3)) if neighbours == 8 else None)[0]
            for dtype in ("u32", "f64"):
                np.testing.assert_array_equal(call(db, "gx_label", grid, neighbours=neighbours, dtype=dtype), want)
    wave = np.kron(rng.integers(0, 5, (30, 30)), np.ones((15, 10), int))
    for rule in ("colour_all", "colour_not_background"):
        np.testing.assert_array_equal(call(db, "gx_label", wave, by=rule), labels_of(wave, rule))


# ---- 3. Objects ----------------------------------------------------------------------------------


def objects_of(grid, rule, neighbours, number=0):
    labels = labels_of(grid, rule, neighbours)
    for k in range(1, labels.max() + 1):
        places = np.array(cells(labels == k))
        colours = {int(grid[i, j]) for i, j in places}
        (top, left), (bottom, right) = places.min(0), places.max(0)
        yield (number, k, colours.pop() if len(colours) == 1 else None, len(places), top, left, bottom - top + 1, right - left + 1,
               *places.mean(0))


def test_objects(db, filedb):
    grids = random_grids(5, 60, 12, 4)
    stack, table = stacked(grids)
    for rule in RULES:
        for neighbours in (4, 8):
            options = {"by": rule, "neighbours": neighbours}
            want = [row for k, g in enumerate(grids) for row in objects_of(g, rule, neighbours, k)]
            got = db.execute("SELECT * FROM gx_objects(?, ?)",
                             (from_numpy(stack), json.dumps(options | {"grids": table.astype(int).tolist()}))).fetchall()
            np.testing.assert_allclose(np.array(got, float), np.array(want, float), rtol=1e-14)
    large = np.kron(np.random.default_rng(6).integers(0, 3, (25, 30)), np.ones((6, 7), int)).astype("u1")
    q(filedb, "SELECT gx_config('tile_bytes', 2048) || gx_store('G', ?)", from_numpy(large))
    q(filedb, "SELECT gx_config('memory_limit', 1500000)")
    want = list(objects_of(large, "colour", 4))
    got = filedb.execute("SELECT * FROM gx_objects('G', '{\"by\":\"colour\"}')").fetchall()
    np.testing.assert_allclose(np.array(got, float), np.array(want, float), rtol=1e-14)
    assert q(db, "SELECT sum(cells) FROM gx_objects('[[1,1],[0,1]]') WHERE height = 2") == 3


# ---- 4. Operations -------------------------------------------------------------------------------


@pytest.mark.parametrize("name, inside, model", OPERATIONS, ids=[f"{o[0]}({o[1]})" for o in OPERATIONS])
def test_operation(db, name, inside, model):
    grids = random_grids(7, 120, 13, 4)
    masks = masks_for(grids, 8)
    want = [model(g.astype(int), m) for g, m in zip(grids, masks)]
    (stack, table), (mask_stack, _) = stacked(grids), stacked(masks)
    for got in results(db, name, inside, stack, mask_stack, table):
        got = to_numpy(got)
        if np.ndim(want[0]) == 0:
            np.testing.assert_array_equal(got[:, 0], want)
            continue
        for grid, result in zip(want, parts(got, table)):
            np.testing.assert_array_equal(result, grid)
        assert got.sum() == sum(int(g.sum()) for g in want)  # nothing beside the grids
    for grid, mask, one in list(zip(grids, masks, want))[:25]:  # alone
        if name == "flood" and (grid.shape[0] < 5 or grid.shape[1] < 4):
            continue
        for got in results(db, name, inside, grid, mask):
            got = to_numpy(got) if isinstance(got, bytes) else got
            np.testing.assert_array_equal(np.nan if got is None else got, one)


LARGE = [*OPERATIONS, ("turn", "90", None), ("turn", "270", None)]


@pytest.mark.parametrize("name, inside, model", LARGE, ids=[f"{o[0]}({o[1]})" for o in LARGE])
def test_large_grids(filedb, name, inside, model):
    """A team shares the steps of a large grid that stands alone; in a batch it is one thread's, as small ones are."""
    db, rng = filedb, np.random.default_rng(31)
    q(db, "SELECT gx_config('tile_bytes', 65536)")
    square = inside in ("90", "270")
    for shape in [(331, 331)] if square else [(2603, 37), (37, 2603), (331, 457)]:
        grid = rng.integers(0, 4, shape)
        if name in ("box", "inbox", "outbox", "corners", "backdrop", "delta", "bordering", "gravitate", "manhattan"):
            grid = np.zeros(shape, int)
            grid[7:20, 9:30] = rng.integers(0, 2, (13, 21))
        if name in ("frontiers", "row_period", "col_period"):
            grid = np.tile(grid[:6, :10], (500, 300))[:shape[0], :shape[1]]
            grid[4], grid[:, 5] = 3, 3
        mask = np.zeros(shape, int)
        mask[shape[0] - 9:, :9] = rng.integers(0, 2, (9, 9))
        if name in ("cover", "underfill"):
            mask = rng.integers(0, 2, shape)
        beside = [np.vstack([x, np.zeros((1, shape[1]), int)]) for x in (grid, mask)]
        table = np.array([(0, *shape), (shape[0], 1, 1)], float)
        want = to_numpy(next(results(db, name, inside, *beside, table)))
        want = want[0, 0] if want.shape == (2, 1) else want[:-1]
        if name in ("most_colour", "mirror", "partition", "cover", "flood", "beside", "frontiers", "occurrences") and model:
            np.testing.assert_array_equal(want, model(grid, mask))  # of one thread, too
        for threads in (1, 2):
            q(db, "SELECT gx_config('threads', ?)", threads)
            for got in results(db, name, inside, grid, mask):
                np.testing.assert_array_equal(to_numpy(got) if isinstance(got, bytes) else np.nan if got is None else got, want)
        if np.ndim(want) == 2:
            words = ["'G'"] + [inside.replace("M", "'K'").replace("T", "'K'")] * (inside != "")
            other = from_numpy(mask if "M" in inside else TEMPLATE)
            q(db, "SELECT gx_store('G', ?, '{\"replace\":true}') || gx_store('K', ?, '{\"replace\":true}')", from_numpy(grid), other)
            q(db, f"SELECT gx_grid_{name}({', '.join(words)}, 'R')")
            np.testing.assert_array_equal(to_numpy(q(db, "SELECT gx_copy('R')")), want)
            q(db, "SELECT gx_drop('R')")


def test_large_grids_of_colours_far_apart(db):
    rng = np.random.default_rng(32)
    for colours in ([-2**31 + 1, -70000, -1, 0, 5, 2**31 - 1], np.arange(0, 9000, 3), np.arange(5000)):
        grid = rng.choice(colours, (277, 311)).astype("i4")
        for least in (False, True):
            assert call(db, f"gx_grid_{'least' if least else 'most'}_colour", grid) == frequent(grid, least)
        assert (call(db, "gx_grid_partition", grid) == partition(grid)).all()
        assert (call(db, "gx_grid_fgpartition", grid) == partition(grid, frequent(grid))).all()
    label = rng.integers(0, 3000, (277, 311))
    assert (call(db, "gx_grid_sizes", label) == np.where(label > 0, np.bincount(label.ravel())[label], 0)).all()
    label[200, 5] = -3
    assert "there is label -3" in error(db, "SELECT gx_grid_sizes(?)", from_numpy(label))


def test_even_batches(db, filedb):
    grids = [g for g in random_grids(9, 3000, 7, 5) if g.shape == (5, 6)] or [np.ones((5, 6), "u1")]
    rng = np.random.default_rng(10)
    grids += [rng.integers(0, 4, (5, 6)).astype("u1") for _ in range(500)]
    stack = np.vstack(grids)
    want = np.vstack([labels_of(g) for g in grids])
    np.testing.assert_array_equal(call(db, "gx_label", stack, grid_rows=5), want)
    np.testing.assert_array_equal(to_numpy(q(db, "SELECT gx_eval('label(?1, 4, ''nonzero'', 5)', ?1)", from_numpy(stack))), want)
    np.testing.assert_array_equal(call(db, "gx_grid_sizes", want, grid_rows=5), np.vstack([sizes(labels_of(g)) for g in grids]))
    assert (call(db, "gx_grid_most_colour", stack, grid_rows=5)[:, 0] == [frequent(g) for g in grids]).all()
    square = stack[:len(stack) // 5 * 5, :5]
    for degrees, turned in ((90, -1), (270, 1)):
        got = call(db, "gx_grid_turn", square, degrees, grid_rows=5)
        np.testing.assert_array_equal(got, np.vstack([np.rot90(g, turned) for g in square.reshape(-1, 5, 5)]))
    # stored, in tiles and with a destination in tiles of which grids are no whole number
    q(filedb, "SELECT gx_config('tile_bytes', 2048) || gx_store('S', ?)", from_numpy(stack))
    q(filedb, "SELECT gx_config('memory_limit', 6000000)")
    assert q(filedb, "SELECT gx_label('S', 'L', '{\"grid_rows\":5}')") == "L"
    np.testing.assert_array_equal(to_numpy(q(filedb, "SELECT gx_copy('L')")), want)
    assert q(filedb, "SELECT gx_eval('K := label(S, 8, ''colour'', 5); sum(K > 0)')") == (stack != 0).sum()
    assert q(filedb, "SELECT gx_grid_box('S', 'B', '{\"grid_rows\":5}')") == "B"
    np.testing.assert_array_equal(to_numpy(q(filedb, "SELECT gx_copy('B')")), np.vstack([outline(g) for g in grids]))
    assert q(filedb, "SELECT group_concat(dtype) FROM gx WHERE name IN ('B', 'L')") in ("bool,u32", "u32,bool")


def test_colours_far_apart(db):
    """Where a table of counts has no room."""
    rng = np.random.default_rng(14)
    for _ in range(40):
        grid = rng.choice([-2**31 + 1, -70000, -1, 0, 5, 2**31 - 1], rng.integers(1, 9, 2)).astype("i4")
        for name, least in (("most", False), ("least", True)):
            assert call(db, f"gx_grid_{name}_colour", grid) == frequent(grid, least)
        assert (call(db, "gx_grid_partition", grid) == partition(grid)).all()
        assert (call(db, "gx_grid_fgpartition", grid) == partition(grid, frequent(grid))).all()
        assert (call(db, "gx_label", grid, by="colour_not_background") == labels_of(grid, "colour_not_background")).all()


def test_subgrid_and_compress(db):
    for grid, mask in zip(random_grids(11, 60, 9, 3), masks_for(random_grids(11, 60, 9, 3), 12)):
        if mask.any():
            rows, cols = np.nonzero(mask.any(1))[0], np.nonzero(mask.any(0))[0]
            want = grid[rows[0]:rows[-1] + 1, cols[0]:cols[-1] + 1]
            got = call(db, "gx_grid_subgrid", grid, mask)
            assert got.dtype == grid.dtype and (got == want).all()
        else:
            assert "is 0 everywhere" in error(db, "SELECT gx_grid_subgrid(?, ?)", from_numpy(grid), from_numpy(mask))
        keep = [i for i in range(len(grid)) if i not in uniform(grid)], [j for j in range(grid.shape[1]) if j not in uniform(grid.T)]
        got = call(db, "gx_grid_compress", grid)
        assert got.shape == (len(keep[0]), len(keep[1])) and (got == grid[np.ix_(*keep)]).all()


def test_a_program(db):
    """Steps of a puzzle over a batch: the largest object of each grid, its box, in another colour."""
    rng = np.random.default_rng(13)
    grids = rng.integers(0, 3, (40, 9, 9)).astype("u1")
    stack = np.vstack(list(grids))
    got = to_numpy(q(db, """SELECT gx_eval('
        L = label(?1, 8, ''nonzero'', 9);
        n = sizes(L, 9);
        big = n == 0 * n + kron(max(reshape(n, rows(n) / 9, 81), 1), ones(9, 9));
        where(box(big & n > 0, 9), 7, ?1)', ?1)""", from_numpy(stack)))
    for grid, result in zip(grids, got.reshape(-1, 9, 9)):
        n = sizes(labels_of(grid, "nonzero", 8))
        np.testing.assert_array_equal(result, np.where(outline((n == n.max()) & (n > 0)), 7, grid))


def test_steps_beside_a_device(tmp_path):
    """What a device computes comes to the host for an operation on grids, and goes back."""
    result = child(tmp_path, """
db = gx_connect(os.environ['TMP_PATH'] + '/a.db')
program = "g = floor(?1 @ ?2 / 20); L = label(g, 8, 'colour', 20); b = box(sizes(L, 20) > 5, 20); (b * g) @ ?2 + most_colour(g)"
rng = np.random.default_rng(1)
given = [from_numpy(rng.random((200, 300))), from_numpy(rng.random((300, 300)))]
answers = []
for backend in ('cpu', 'cuda'):
    q(db, "SELECT gx_config('backend', ?)", backend)
    answers.append(to_numpy(q(db, "SELECT gx_eval(?3, ?1, ?2)", *given, program)))
result = {"far": float(abs(answers[0] - answers[1]).max()), "most": float(answers[0].max()), "device": stats(db)["gpu_ops"]}
""")
    assert result["far"] < 1e-9 * result["most"] and result["most"] > 0 and result["device"] > 0, result


# ---- 5. Refusals ---------------------------------------------------------------------------------

GRID = "'[[1,2],[0,1]]'"
REFUSED = {
    "gx_label('[[1,0.5]]')": "gx_label: G has 0.5 at (0, 1): a colour is a whole number of 32 bits",
    "gx_label('[[1],[2147483648]]')": "gx_label: G has 2147483648 at (1, 0): a colour is a whole number of 32 bits",
    "gx_label('[[1,-2147483648]]')": "gx_label: G has -2147483648 at (0, 1): a colour is a whole number of 32 bits",
    "gx_label('[[\"1+2i\"]]')": "gx_label: G is complex: grids are of whole numbers of 32 bits",
    f"gx_label({GRID}, '{{\"neighbours\":6}}')": "gx_label: neighbours must be 4 or 8, not 6",
    f"gx_label({GRID}, '{{\"grid_rows\":3}}')": "gx_label: G has 2 rows, which are no whole number of grids of 3",
    f"gx_label({GRID}, '{{\"grid_rows\":1,\"grids\":\"T\"}}')": 'gx_label: "grids" and "grid_rows" exclude each other',
    "gx_label(gx_scale(gx_ones(300, 300), 70000), '{\"by\":\"not_background\"}')":
        "gx_label: there is colour 70000: in a grid of more than 65536 cells colours are counted from -65536 to 65536",
    "gx_grid_most_colour('[]')": "gx_grid_most_colour: G is 0x0 and has no cell",
    f"gx_grid_flood({GRID}, 2, 0, 1, 4)": "gx_grid_flood: (2, 0) is not in G, which is 2x2",
    f"gx_grid_flood({GRID}, 0, 0, 1, 5)": "gx_grid_flood: a cell has 4 or 8 neighbours, not 5",
    f"gx_grid_flood({GRID}, 0, 0, 2147483648, 4)": "gx_grid_flood: 2147483648 is no number of 32 bits",
    f"gx_grid_beside({GRID}, 3)": "gx_grid_beside: a cell has 4 or 8 neighbours, not 3",
    f"gx_grid_turn({GRID}, 45)": "gx_grid_turn: degrees must be 90, 180 or 270 (clockwise), not 45",
    "gx_grid_turn('[[1,2]]', 90)": "gx_grid_turn: a grid of 1x2 has another shape when it is turned by 90 degrees",
    "gx_grid_turn('[[1,2],[1,2]]', 90, '{\"grid_rows\":1}')":
        "gx_grid_turn: grid 0: a grid of 1x2 has another shape when it is turned by 90 degrees",
    f"gx_grid_mirror({GRID}, 2)": "gx_grid_mirror: axis must be 0 (rows) or 1 (columns), not 2",
    f"gx_grid_shoot({GRID}, 0, 0, 0, 0)": "gx_grid_shoot: di and dj must be -1, 0 or 1, and not both 0",
    f"gx_grid_connect({GRID}, 0, 0, 1, 2)": "gx_grid_connect: (0, 0) and (1, 2) are in no row, column or diagonal",
    f"gx_grid_cover({GRID}, '[[1,2,3]]')": "gx_grid_cover: G is 2x2 but M 1x3",
    f"gx_grid_occurrences({GRID}, '[]')": "gx_grid_occurrences: T is 0x0 and has no cell",
    "gx_grid_sizes('[[5,0]]')": "gx_grid_sizes: there is label 5 in a grid of 2 cells: labels count its objects",
    "gx_grid_sizes('[[-1,0]]')": "gx_grid_sizes: there is label -1 in a grid of 2 cells: labels count its objects",
    f"gx_grid_subgrid({GRID}, '[[1,2,3]]')": "gx_grid_subgrid: G is 2x2 but M 1x3",
    f"gx_grid_flood(gx_cast({GRID}, 'u8'), 0, 0, 256, 4)": "gx_grid_flood: element (0, 0) is 256",
    "gx_label(gx_sparse(gx_eye(3)))": "gx_label: G is sparse",
    "gx_label(gx_cast('[[1,2]]', 'm31'))": "gx_label: G is of m31",
}


def test_refusals(db):
    for sql, text in REFUSED.items():
        said = error(db, "SELECT " + sql)
        assert said == text or (said.startswith(text) and len(text) < 50), (sql, said)
    assert "NaN" in error(db, "SELECT gx_label(?)", from_numpy(np.array([[1, np.nan]]))).replace("nan", "NaN")
    assert "must be one of nonzero, colour" in error(db, "SELECT gx_label('[1]', '{\"by\":\"shape\"}')")
    for program, text in {"box([[1, 2i]])": "complex", "box(A, 3)": "2 rows are no whole number of grids of 3", "label(A, 5)": "4 or 8",
                          "label(A, 4, 'shape')": "nonzero|colour", "cover(A, [1, 2, 3])": "is 2x2 but", "box(A, [[1, 2]])": "3 columns",
                          "flood(A, 0, 0, 1)": "at least 5", "flood(A, 0, 0, 1, 4, 1, 2)": "at most 6", "label(A, 4, 'colour', 0)": "no whole number",
                          "shift(A, 0.5, 0, 0)": "whole number", "flood(A, 9, 0, 1, 4)": "is not in", "connect(A, 0, 0, 1, 2)": "diagonal"}.items():
        assert text in error(db, "SELECT gx_eval('A = [[1, 2], [0, 1]]; ' || ?)", program), program
    q(db, "SELECT gx_cast('[[16777216, 1]]', 'f32', 'F')")
    assert "f32" in error(db, "SELECT gx_grid_flood('F', 0, 1, 16777217, 4)")  # which f32 does not hold


def test_forged_tables(db):
    stack = from_numpy(np.ones((20, 6), "u1"))
    for table, text in (([[0, 5, 6], [4, 5, 6]], "row 1 of the grids is (4, 5, 6): each grid (first row, rows, cols) begins behind"),
                        ([[0, 0, 6]], "has a cell or more"), ([[0, 3, 0]], "has a cell or more"), ([[0, 21, 6]], "all of them in the matrix"),
                        ([[19, 2, 1]], "all of them"), ([[0, 1, 7]], "all of them"), ([[-1, 1, 1]], "all of them"),
                        ([[0, -5, 1]], "has a cell"), ([[5, 2, 2], [0, 2, 2]], "begins behind"), ([[0, 1]], "3 columns"),
                        ([[2**53, 2**53, 1]], "all of them"), ([[0, 2**53, 6]], "all of them")):
        for sql in ("gx_label(?, ?)", "gx_grid_box(?, ?)", "gx_grid_most_colour(?, ?)"):
            assert text in error(db, "SELECT " + sql, stack, json.dumps({"grids": table})), (table, sql)
        assert text in error(db, "SELECT * FROM gx_objects(?, ?)", stack, json.dumps({"grids": table}))
        assert text in error(db, "SELECT gx_eval('box(?1, ?2)', ?, ?)", stack, from_numpy(np.array(table, float)))
    for x in (0.5, np.nan, np.inf, -np.inf, 1e300):
        for k in range(3):
            row = np.array([[0.0, 2, 2]])
            row[0, k] = x
            q(db, "SELECT gx_store('T', ?, '{\"replace\":true}')", from_numpy(row))
            assert "row 0 of the grids is" in error(db, "SELECT gx_label(?, '{\"grids\":\"T\"}')", stack), (x, k)
    assert error(db, "SELECT gx_label(?, '{\"grids\":\"none\"}')", stack) == "gx_label: no matrix named 'none'"
    million = np.stack([np.arange(10**6), np.ones(10**6), np.full(10**6, 2.0)], 1)
    q(db, "SELECT gx_store('T', ?, '{\"replace\":true}')", from_numpy(million))
    got = call(db, "gx_label", np.tile(np.array([1, 0, 1], "u1"), (10**6, 1)), grids="T")
    assert got.sum() == 10**6 and (got[:, 0] == 1).all()


def test_little_memory(filedb):
    db = filedb
    q(db, "SELECT gx_config('tile_bytes', 65536) || gx_store('G', ?)", from_numpy(np.ones((1500, 1500), "u1")))
    q(db, "SELECT gx_config('memory_limit', 2000000)")
    tables = db.execute("SELECT name FROM gx ORDER BY name").fetchall()
    for sql in ("gx_grid_flood('G', 0, 0, 1, 4)", "gx_grid_box('G', 'B')", "gx_grid_compress('G')", "gx_grid_subgrid('G', 'G', 'B')"):
        assert "memory_limit" in error(db, "SELECT " + sql), sql
    assert db.execute("SELECT name FROM gx ORDER BY name").fetchall() == tables
    assert q(db, "SELECT gx_label('G', 'L')") == "L" and q(db, "SELECT gx_max('L')") == 1
    q(db, "SELECT gx_config('memory_limit', 8000000)")
    q(db, "SELECT gx_eval('C := mod(arange(0, 1500, 1) + arange(0, 1500, 1).T, 2)')")
    assert "memory_limit" in error(db, "SELECT count(*) FROM gx_objects('C')")  # 1.1 million objects
    assert q(db, "SELECT gx_config('memory_limit', '300MB') || (SELECT count(*) FROM gx_objects('C'))").endswith("1125000")


# ---- 6. Shown ------------------------------------------------------------------------------------


def test_colours_are_shown(db):
    got = q(db, "SELECT gx_show('[[0,3],[12,-4]]', '{\"colours\":true}')")
    assert got == "\x1b[48;5;16m  \x1b[48;5;34m  \x1b[0m\n\x1b[48;5;28m12\x1b[48;5;20m-4\x1b[0m"
    assert q(db, "SELECT gx_show(gx_cast('[[9]]', 'u8'), '{\"colours\":true}')") == "\x1b[48;5;88m  \x1b[0m"
    assert q(db, "SELECT gx_show('[[1000000]]', '{\"colours\":true}')") == "\x1b[48;5;152m  \x1b[0m"
    assert "\x1b" not in q(db, "SELECT gx_show('[[0,3],[12,-4]]', '{\"colours\":false}')")
    assert q(db, "SELECT gx_show(gx_zeros(0, 3), '{\"colours\":true}')") == ""
    for sql, text in (("'[[0.5]]'", "A has 0.5 at (0, 0), but colours are whole numbers"), ("'[[\"nan\"]]'", "but colours are whole"),
                      ("'[[\"inf\"]]'", "but colours are whole"), ("'[[\"1i\"]]'", "of real numbers, and A is c128"),
                      ("gx_zeros(2000, 2000)", "A is 2000x2000: colours are shown of at most 1048576 cells (gx_slice)"),
                      ("gx_sparse(gx_eye(2))", "sparse")):
        assert text in error(db, f"SELECT gx_show({sql}, '{{\"colours\":true}}')"), sql
