#!/usr/bin/env python3
"""Grids beside SciPy, cc3d, scikit-image and plain Python: `bench/grids.py [--side 8192] [--batch 100000] [--threads 2]`.

Each line has gx's median and, as ratios, a peer's in the same run: labels of one large grid of several colours (noise, and
blocks of 16 x 16), labels of many grids of 30 x 30 in one call, a program of 650 operations over 100 grids.  Grids are bound
as values of u8; results are values that stay in the statement (length), as the peers' stay in memory.
With --device the program runs on the CPU and on the device: seconds of both, are the results equal, what was sent.
"""
import argparse
import collections
import os
import pathlib
import sys
import tempfile

import numpy as np

from timing import median, report

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "sql"))
from conftest import from_numpy, gx_connect, q, to_numpy  # noqa: E402

SIDE, ROUNDS = 30, 50  # of a grid; of the program's 13 operations


def large(db, side, rounds):
    import cc3d
    import scipy.ndimage
    import skimage.measure
    rng = np.random.default_rng(1)
    blocks = np.kron(rng.integers(0, 6, (side // 16, side // 16)), np.ones((16, 16), int)).astype("u1")
    for name, grid in (("noise, 10 colours", rng.integers(0, 10, (side, side)).astype("u1")),
                       ("noise, 3 colours", rng.integers(0, 3, (side, side)).astype("u1")), ("blocks, 6 colours", blocks)):
        value = from_numpy(grid)
        for neighbours in (4, 8):
            options = f'{{"by":"colour","neighbours":{neighbours}}}'
            got = to_numpy(q(db, "SELECT gx_label(?, ?)", value, options))
            want = cc3d.connected_components(grid, connectivity=neighbours)
            same = "equal" if got.max() == want.max() and (got[::97, ::89] == want[::97, ::89]).all() else "DIFFERENT"
            del got, want
            beside = {"cc3d": median(lambda: cc3d.connected_components(grid, connectivity=neighbours), rounds)}
            if neighbours == 4:
                beside["skimage"] = median(lambda: skimage.measure.label(grid, background=0, connectivity=1), 1)
            seconds = median(lambda: q(db, "SELECT length(gx_label(?, ?))", value, options), rounds)
            report(f"{side}^2 {name}, {neighbours}: {same}", seconds, **beside)
        seconds = median(lambda: q(db, "SELECT length(gx_label(?))", value), rounds)
        report(f"{side}^2 {name}, not 0", seconds, scipy=median(lambda: scipy.ndimage.label(grid), 1))


def huge(side):
    """One grid of 10 x 10 equal parts (`--only huge --side 60000`), larger than memory_limit: SciPy labels a part."""
    import scipy.ndimage
    part = (np.random.default_rng(1).random((side // 10, side // 10)) < 0.45).astype("u1")
    part[0, :] = part[:, 0] = 0  # no object of one touches another
    want, count = scipy.ndimage.label(part)
    with tempfile.TemporaryDirectory() as folder, gx_connect(f"{folder}/huge.db", journal_mode="wal") as db:
        q(db, "SELECT gx_store('P', ?)", from_numpy(part))
        q(db, "SELECT gx_block('G', ?)", str([["P"] * 10] * 10).replace("'", '"'))
        q(db, "SELECT gx_config('memory_limit', ?)", max(side * side // 4, 64 << 20))
        seconds = median(lambda: q(db, "SELECT gx_label('G', 'L', '{\"replace\":true}')"), 1)
        same = q(db, "SELECT gx_max('L')") == 100 * count
        q(db, "SELECT gx_config('memory_limit', 'default')")
        for i, j in ((0, 0), (0, 9), (4, 5), (9, 9)):
            rows, cols = i * len(part), j * len(part)
            got = to_numpy(q(db, "SELECT gx_slice('L', ?, ?, ?, ?)", rows, rows + len(part), cols, cols + len(part)))
            label = np.zeros(count + 1, dtype="i8")
            label[want.ravel()] = got.ravel()
            same &= bool((label[want] == got).all()) and label[0] == 0 and len(set(label)) == count + 1
    report(f"{side}^2 in parts, memory for a quarter of its bytes: {'equal' if same else 'DIFFERENT'}", seconds)


def batch(db, count, rounds):
    import scipy.ndimage
    grids = np.random.default_rng(2).integers(0, 4, (count, SIDE, SIDE)).astype("u1")
    value = from_numpy(grids.reshape(-1, SIDE))
    some = min(count, 5000)
    peer = median(lambda: [scipy.ndimage.label(g) for g in grids[:some]], 2) * count / some
    options = f'{{"grid_rows":{SIDE}}}'
    report(f"{count} grids of {SIDE}x{SIDE}, labels", median(lambda: q(db, "SELECT length(gx_label(?, ?))", value, options), rounds), scipy=peer)
    report(f"{count} grids of {SIDE}x{SIDE}, objects",
           median(lambda: q(db, "SELECT count(*) FROM gx_objects(?, ?)", value, options), 1), scipy_labels=peer)


# ---- The program: 13 operations, round after round -----------------------------------------------

PROGRAM = f"""
L = label(g, 8, 'colour_not_background', {SIDE});
n = sizes(L, {SIDE});
small = (n > 0) & (n < 3);
g = cover(g, small, {SIDE});
P = partition(g, {SIDE});
first = P == 1;
rest = (L > 0) & (first == 0);
edge = box(rest, {SIDE});
g = underfill(g, edge, 5, {SIDE});
near = beside(first, 4, {SIDE});
g = where(near & (P == 2), 6, g);
g = flood(g, 0, 0, 1, 4, {SIDE});
g = mirror(g, 1, {SIDE});
"""


def most_colour(grid):
    counts = collections.Counter(x for row in grid for x in row)
    return min(counts, key=lambda c: (-counts[c], c))


def objects(grid):
    """As arc-dsl has them: sets of cells; univalued, diagonal, without background."""
    height, width, background = len(grid), len(grid[0]), most_colour(grid)
    seen, found = set(), []
    for i in range(height):
        for j in range(width):
            if (i, j) in seen or grid[i][j] == background:
                continue
            colour, waiting, cells = grid[i][j], [(i, j)], set()
            while waiting:
                a, b = waiting.pop()
                if (a, b) in cells or not (0 <= a < height and 0 <= b < width) or grid[a][b] != colour:
                    continue
                cells.add((a, b))
                waiting += [(a + u, b + v) for u in (-1, 0, 1) for v in (-1, 0, 1) if u or v]
            seen |= cells
            found.append(frozenset(cells))
    return found


def filled(grid, cells, colour):
    return tuple(tuple(colour if (i, j) in cells else x for j, x in enumerate(row)) for i, row in enumerate(grid))


def outline(cells):
    if not cells:
        return frozenset()
    top, bottom = min(i for i, _ in cells), max(i for i, _ in cells)
    left, right = min(j for _, j in cells), max(j for _, j in cells)
    return frozenset((i, j) for i in range(top, bottom + 1) for j in range(left, right + 1) if i in (top, bottom) or j in (left, right))


def flooded(grid, colour):
    start, waiting, cells = grid[0][0], [(0, 0)], set()
    while waiting:
        i, j = waiting.pop()
        if 0 <= i < len(grid) and 0 <= j < len(grid[0]) and (i, j) not in cells and grid[i][j] == start:
            cells.add((i, j))
            waiting += [(i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)]
    return filled(grid, cells, colour)


def one_round(grid):
    found = objects(grid)
    small = frozenset(cell for o in found if len(o) < 3 for cell in o)
    grid = filled(grid, small, most_colour(grid))
    colours = list(dict.fromkeys(x for row in grid for x in row))
    pieces = [frozenset((i, j) for i, row in enumerate(grid) for j, x in enumerate(row) if x == c) for c in colours]
    first = pieces[0]
    rest = frozenset(cell for o in found for cell in o) - first
    background = most_colour(grid)
    grid = filled(grid, frozenset((i, j) for i, j in outline(rest) if grid[i][j] == background), 5)
    near = frozenset((i + u, j + v) for i, j in first for u, v in ((0, 1), (1, 0), (0, -1), (-1, 0))) - first
    grid = filled(grid, near & (pieces[1] if len(pieces) > 1 else frozenset()), 6)
    return tuple(row[::-1] for row in flooded(grid, 1))


def program(db, rounds):
    grids = np.random.default_rng(3).integers(0, 4, (100, SIDE, SIDE)).astype("u1")
    value, text = from_numpy(grids.reshape(-1, SIDE)), "g = ?1;" + PROGRAM * ROUNDS + "g"
    tuples = [tuple(tuple(int(x) for x in row) for row in g) for g in grids]

    def python(few):
        result = []
        for grid in tuples[:few]:
            for _ in range(ROUNDS):
                grid = one_round(grid)
            result.append(grid)
        return result

    few = 10
    got = to_numpy(q(db, "SELECT gx_eval(?, ?)", text, value)).reshape(-1, SIDE, SIDE)
    same = "equal" if (got[:few] == np.array(python(few))).all() else "DIFFERENT"
    peer = median(lambda: python(few), 1) * len(tuples) / few
    seconds = median(lambda: q(db, "SELECT length(gx_eval(?, ?))", text, value), rounds)
    report(f"650 operations, 100 grids: {same}, x {peer / seconds:.0f}", seconds, python=peer)


def counters(db):
    names = ("gpu_ops", "cpu_ops", "transfers", "uploaded", "downloaded", "kernels")
    return {name: q(db, "SELECT value FROM gx_stats WHERE name = ?", name) for name in names}


def device(db, rounds):
    """The program, of 100 grids and of more, on both."""
    for count, side, few in ((100, SIDE, ROUNDS), (1000, SIDE, ROUNDS), (10000, SIDE, 5), (100, 10, ROUNDS), (20, 200, 5), (2, SIDE, 1), (100, SIDE, 1)):
        grids = np.random.default_rng(3).integers(0, 4, (count * side, side)).astype("u1")
        value, text = from_numpy(grids), "g = ?1;" + PROGRAM.replace(str(SIDE), str(side)) * few + "g"
        seconds, results = {}, {}
        for backend in ("cpu", "cuda", "auto"):
            q(db, f"SELECT gx_config('backend', '{backend}')")
            results[backend] = to_numpy(q(db, "SELECT gx_eval(?, ?)", text, value))
            before = counters(db)
            seconds[backend] = median(lambda: q(db, "SELECT length(gx_eval(?, ?))", text, value), rounds)
            if backend == "cuda":
                sent = ", ".join(f"{name} {(x - before[name]) / (rounds + 1):.0f}" for name, x in counters(db).items())
        same = "equal" if all(np.array_equal(results["cpu"], r) for r in results.values()) else "DIFFERENT"
        print(f"{13 * few} operations, {count} grids of {side}x{side}: {same}, CPU {seconds['cpu'] * 1e3:.1f} ms, device {seconds['cuda'] * 1e3:.1f} ms, "
              f"x {seconds['cpu'] / seconds['cuda']:.1f}, auto {seconds['auto'] * 1e3:.1f} ms; each time: {sent}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", type=int, default=8192)
    parser.add_argument("--batch", type=int, default=100000)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="large batch program")
    parser.add_argument("--device", action="store_true", help="the program on the CPU and on the device, and nothing else")
    options = parser.parse_args()
    db = gx_connect()
    q(db, f"SELECT gx_config('threads', {options.threads})")
    for part in ["device"] if options.device else options.only.split():
        {"large": lambda: large(db, options.side, options.rounds), "huge": lambda: huge(options.side), "batch": lambda: batch(db, options.batch, options.rounds),
         "program": lambda: program(db, options.rounds), "device": lambda: device(db, options.rounds)}[part]()


if __name__ == "__main__":
    main()
