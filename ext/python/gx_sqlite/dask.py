"""Matrices of gx on the machines of a Dask cluster.

    import gx_sqlite.dask as gxd
    A = gxd.from_gx("A.json", "A")             # or a database, or several: a dask.array, read by whichever worker needs it
    x = gxd.lstsq(A, b).compute()
    gxd.to_gx("G.json", "G", gxd.matmul(A.T, A))

Dask schedules, retries and moves; the block steps run in gx on the workers, with their GPUs.  A *sharded* matrix is a
grid of blocks, each a stored matrix in some database, listed in a JSON file (the manifest): {"gx_sharded": 1, "name",
"dtype", "rows": [...], "cols": [...], "blocks": [{"path", "name"}, ...]}, where rows and cols are the heights and widths
of the blocks, which come row of blocks by row of blocks; paths are relative to the manifest.

Every task may run twice (a worker that dies takes its results with it): they depend on their arguments alone, and
those that write replace.
"""
from __future__ import annotations

import contextlib
import functools
import json
import operator
import os
import sqlite3
import threading
import uuid
from typing import Any, NamedTuple, Optional, Sequence, Union

import dask.array
import dask.base
import numpy as np
from dask.array import Array as DaskArray
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph

from . import _arrays, _connect, _matrix
from ._lent import lent
from ._stored import VERSION, Shelf, Stored, database, read_block, read_manifest, shelf_of
from ._values import DTYPES, Array, gx_dtype, gx_number, pack, two_dimensions, unpack

FAN_IN = 8  # triangles that are folded into one at a time
_LENT = 1 << 16  # bytes: larger arrays are lent to gx, smaller ones go as values
_FEW = 8  # columns
_FEW_BLOCKS = 32  # on a side: their products are about 5000
_TASK = 4e9  # flops of a task that is long beside what surrounds it
_DRIVERS = ("/dev/nvidiactl", "/dev/dxg")
_TASKS = 64  # rectangles of a product on a device, at least, where it has so many blocks
_SMALL_TASKS = 256  # on processors, of which there are more
_GROUPS, _SHORT = 16, 4  # groups of such rectangles, at least: who works on one goes on with it; a short side of them
_SHARES = 8  # of one of these in the last groups, at most
_DEALT = 4  # results that tasks of one name may need, all of them together, where Dask is to deal them out
_STRIP = 1 << 28  # bytes of one factor that go to a device at once
_LARGER_IS_NEARER = {"cosine": True, "dot": True, "l2": False, "euclidean": False, "sqeuclidean": False, "l1": False,
                     "cityblock": False, "hamming": False}

da: Any = dask.array
_Delayed: Any = Delayed
_Graph: Any = HighLevelGraph
_of_thread = threading.local()
Blocks = list[list[Any]]  # what stands for blocks, a list for each row of them


# On the workers -------------------------------------------------------------------------------------------------------

def _scratch() -> Any:
    """This thread's connection for block steps: in memory, gx loaded."""
    if not hasattr(_of_thread, "db"):
        db = sqlite3.connect(":memory:", isolation_level=None)
        _connect.load(db)
        _of_thread.db = db
    return _of_thread.db


@functools.lru_cache(maxsize=None)
def _has_device() -> bool:
    """Whether gx may compute on one here, and a driver is there."""
    library = os.environ.get("GX_CUDA_SO") or os.path.join(os.path.dirname(_connect.library()), "gx_cuda.so")
    return os.environ.get("GX_BACKEND") != "cpu" and os.path.exists(library) and any(map(os.path.exists, _DRIVERS))


def _argument(stack: contextlib.ExitStack, a: Any, is_plain: bool) -> tuple[str, Any]:
    """What stands for an argument in SQL, and its parameter: arrays are lent for as long as the stack is there.  A plain
    call takes one by columns where it lies; others, and one by rows, are copied once."""
    if not isinstance(a, np.ndarray):
        return "?", a
    two = two_dimensions(a)
    token = stack.enter_context(lent(two, False)) if two.nbytes > _LENT else None
    if token is None:
        return "?", pack(two)
    return "?" if is_plain and two.flags.f_contiguous else "gx_from_memory(?)", token


def _value(call: str, *arguments: Any) -> Array:
    """A call of gx with %s for each of the arguments, arrays or what goes as it is; its result is a matrix."""
    return unpack(_rows(call, *arguments, is_plain=True)[0][0])


def _rows(call: str, *arguments: Any, is_plain: bool = False) -> list[_connect.Row]:
    with contextlib.ExitStack() as stack:
        parts = [_argument(stack, a, is_plain) for a in arguments]
        return _connect.rows(_scratch(), "SELECT " + call % tuple(part for part, _ in parts), [a for _, a in parts])


def _into(out: Array, call: str, *arguments: Any, **options: Any) -> Array:
    """The same into an array by columns, as the call's destination; beta, where it is not 0: added to what is there."""
    with contextlib.ExitStack() as stack:
        token = stack.enter_context(lent(out, True))
        if token is not None:
            _rows(call, *arguments, token, _options(**options), is_plain=True)
            return out
    beta = options.pop("beta", 0)
    value = _value(call.replace(", %s, %s)", ", %s)"), *arguments, _options(**options))
    np.copyto(out, out + value if beta else value)
    return out


def _strip(blocks: Sequence[Array], axis: int, room: Array) -> Array:
    """Blocks that lie one below the other (0) or beside each other (1) as one array, in the room where they have to be put
    together, in their order."""
    if len(blocks) == 1:
        return blocks[0]
    ends = np.cumsum((0, *(block.shape[axis] for block in blocks))).tolist()
    shape = (ends[-1], blocks[0].shape[1]) if axis == 0 else (blocks[0].shape[0], ends[-1])
    whole = room[:shape[0] * shape[1]].reshape(shape, order="F" if blocks[0].flags.f_contiguous else "C")
    for block, i0, i1 in zip(blocks, ends, ends[1:]):
        (whole[i0:i1] if axis == 0 else whole[:, i0:i1])[...] = block
    return whole


def _products(total: Optional[Array], left: Sequence[Sequence[Any]], right: Sequence[Sequence[Any]], dtype: str,
              shelf: Optional[Shelf] = None) -> Union[Array, list[Array]]:
    """Rows of blocks times columns of blocks: blocks, one row after the other; one alone as it is, after a total that it is
    added to.  Stored blocks come from the shelf.  On a device several blocks of the inner side go at once, since what it
    gives back is added here.  Memory is taken once for all steps: to touch it can take longer than to fill it."""
    widths = [column[0].shape[1] for column in right]
    if total is None:
        sums = [np.zeros((row[0].shape[0], width), dtype) for row in left for width in widths]
    else:
        sums = [np.array(total, dtype, order="C")]
    widest = max(block.shape[0] * block.shape[1] for line in (*left, *right) for block in line)
    step = max(1, _STRIP // (widest * np.dtype(dtype).itemsize)) if _has_device() else 1
    rooms = [np.empty(widest * min(step, len(left[0])), dtype) for _ in range(len(right) + 1)]
    spare = np.empty(max(block.size for block in sums), dtype)
    adds = total is not None or not _has_device()  # which makes products

    def here(blocks: Sequence[Any]) -> list[Array]:
        return [shelf.block(block) if shelf is not None and isinstance(block, Stored) else block for block in blocks]

    for k in range(0, len(left[0]), step):
        b = [_strip(here(column[k:k + step]), 0, room) for column, room in zip(right, rooms)]
        for p, row in enumerate(left):
            a = _strip(here(row[k:k + step]), 1, rooms[-1])
            for block, b_q in zip(sums[p * len(b):], b):
                _add_product(block.T, b_q, True, a, True, 1, int(adds or k > 0), spare)
    return sums if len(sums) > 1 else sums[0]


def _total(shares: Sequence[Any]) -> Any:
    """Blocks, or one, of their shares, which are not changed: Dask may want them again."""
    if isinstance(shares[0], list):
        return [_total(blocks) for blocks in zip(*shares)]
    whole = shares[0] + shares[1]
    for share in shares[2:]:
        whole += share
    return whole


def _write(path: str, name: str, block: Array) -> str:
    db = database(path)
    try:
        return _arrays.store(db, name, block, replace=True)
    finally:
        db.close()


def _publish(path: str, manifest: str, _written: Sequence[str]) -> str:
    """The manifest, when all blocks are there; it appears whole."""
    name = f"{path}.{uuid.uuid4().hex}.new"
    try:
        with open(name, "x", encoding="utf-8") as file:
            file.write(manifest)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(name)
        raise
    return path


def _here(a: Any) -> Any:
    """A stored block, which this task alone needs; others as they are."""
    return a.read() if isinstance(a, Stored) else a


def _plus(total: Any, left: Sequence[Array], right: Sequence[Array], options: str) -> Array:
    """total + the sum of op(a) op(b) of the pairs, in the order of total; each is added where the sum lies."""
    given, total = json.loads(options), _here(total)
    is_a, is_b, alpha = bool(given.get("transa")), bool(given.get("transb")), given.get("alpha", 1)
    m, n = left[0].shape[is_a], right[0].shape[not is_b]
    by_rows = total is None or not total.flags.f_contiguous
    dtype = np.result_type(*left, *right, *([] if total is None else [total]))
    added = np.empty((m, n), dtype, "C" if by_rows else "F") if total is None else total.astype(
        dtype, "C" if by_rows else "F")
    for k, (a, b) in enumerate(zip(left, right)):
        beta = 0 if total is None and k == 0 else 1
        if n <= _FEW:  # where the elements are
            product = (a.T if is_a else a) @ (b.T if is_b else b) * dtype.type(alpha)
            added = added + product if beta else product
        elif by_rows:
            _add_product(added.T, b, not is_b, a, not is_a, alpha, beta)
        else:
            _add_product(added, a, is_a, b, is_b, alpha, beta)
    return added


def _add_product(c: Array, a: Array, is_a: bool, b: Array, is_b: bool, alpha: float, beta: int,
                 spare: Optional[Array] = None) -> None:
    """C = alpha op(A) op(B) + beta C, C by columns; spare: elements that may be written."""
    if beta and _has_device():  # which makes products; gx adds in place on the processor
        product = np.empty_like(c) if spare is None else spare[:c.size].reshape(c.shape[::-1]).T
        _add_product(product, a, is_a, b, is_b, alpha, 0)
        np.add(c, product, out=c)
        return
    a, is_a = (a.T, not is_a) if a.flags.c_contiguous and not a.flags.f_contiguous else (a, is_a)
    b, is_b = (b.T, not is_b) if b.flags.c_contiguous and not b.flags.f_contiguous else (b, is_b)
    _into(c, "gx_matmul(%s, %s, %s, %s)", a.astype(c.dtype, copy=False), b.astype(c.dtype, copy=False),
          transa=is_a, transb=is_b, alpha=alpha, beta=beta)


def _less_squares(a: Any, rows: Sequence[Array]) -> Array:
    """a - the sum of r r^T, symmetric: half the work of products."""
    left: Array = _here(a)
    square: Optional[Array] = None
    for r in rows:
        is_turned = not r.flags.f_contiguous
        if square is None:
            square = np.empty((len(r), len(r)), r.dtype, "F")
        _into(square, "gx_syrk(%s, %s, %s)", r.T if is_turned else r, trans=is_turned)
        left = np.subtract(left, square if left.flags.f_contiguous else square.T, out=None if r is rows[0] else left)
    return left


def _cholesky_block(a: Any, rows: Sequence[Array], first: int) -> Array:
    square = _less_squares(a, rows)
    try:
        return _into(np.empty(square.shape, square.dtype, "F"), "gx_cholesky(%s, %s, %s)", square)
    except sqlite3.Error as problem:
        raise type(problem)(f"{problem}, in the block of rows from {first} on") from None


def _trsm(triangle: Array, b: Any, options: str) -> Array:
    b = _here(b)
    return _into(np.empty(b.shape, np.result_type(triangle, b), "F"), "gx_trsm(%s, %s, %s, %s)", triangle, b,
                 **json.loads(options))


def _substitute(triangle: Array, b: Array, parts: Sequence[Array], options: str) -> Array:
    """What solves op(triangle) x = b - the sum of parts."""
    return _trsm(triangle, b - np.add.reduce(parts) if parts else b, options)


def _stack(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.vstack(parts)


def _triangle(parts: Sequence[Array]) -> Array:
    """R of what is stacked up."""
    _rows("gx_qr(%s, '{\"r\":\"R\",\"replace\":true}')", _stack(parts))
    r: Array = _arrays.fetch(_scratch(), "R")
    return r


def _q_and_r(a: Array) -> tuple[Array, Array]:
    (_, q), (_, r) = _rows("part, value FROM gx_qr(%s)", a)
    return unpack(q), unpack(r)


def _random(m: int, n: int, seed: int, dtype: str) -> Array:
    return _value("gx_randn(%s, %s, %s)", m, n, _options(seed=seed, dtype=dtype))


def _svd_of(a: Array) -> tuple[Array, Array, Array]:
    db = _scratch()
    _rows("gx_svd(%s, 's', 'u', 'vt', '{\"replace\":true}')", a)
    return _arrays.fetch(db, "u"), _arrays.fetch(db, "s")[:, 0], _arrays.fetch(db, "vt")


def _least(r: Array, n: int) -> Array:
    """From the triangle of [A b]: x; of a deficient A the shortest, as for A itself."""
    return _value("gx_lstsq(%s, %s)", r[:n, :n], r[:n, n:])


def _components(r: Array, m: int, k: int) -> tuple[Array, Array, Array, Array]:
    """From the triangle of [1 A]: means, variances, their shares, components as rows."""
    _, s, vt = _svd_of(np.ascontiguousarray(r[1:, 1:]))
    variance = s ** 2 / (m - 1)
    signs = np.sign(vt[np.arange(len(vt)), np.abs(vt).argmax(axis=1)])
    return r[0, 1:] / r[0, 0], variance[:k], variance[:k] / variance.sum(), (vt * signs[:, None])[:k]


def _nearest(q: Array, e: Array, k: int, options: str, first: int) -> tuple[Array, Array]:
    """Of each row of q the nearest rows of the block e, whose first row is row `first`: their numbers, their scores."""
    k = min(k, len(e))
    found = _rows("id, score FROM gx_knn(%s, %s, %s, %s)", q, e, k, options)
    table = np.array(found, np.float64).reshape(len(q), k, 2)
    return table[:, :, 0].astype(np.int64) + first, table[:, :, 1]


def _nearest_of(parts: Sequence[tuple[Array, Array]], k: int, is_larger: bool) -> tuple[Array, Array]:
    """The nearest of what was found in several blocks; of equal scores the smaller number first, as in one."""
    ids, scores = (np.hstack([part[n] for part in parts]) for n in (0, 1))
    order = np.lexsort((ids, -scores if is_larger else scores))[:, :k]
    return np.take_along_axis(ids, order, 1), np.take_along_axis(scores, order, 1)


def _triangle_beside(a: Array, b: Array) -> Array:
    """R of [A B]."""
    return _triangle([np.hstack([a, b if b.ndim == 2 else b[:, None]])])


def _triangle_with_ones(a: Array) -> Array:
    return _triangle_beside(np.ones((len(a), 1), a.dtype), a)


def _zeros(m: int, n: int, dtype: str) -> Array:
    return np.zeros((m, n), dtype)


# Reading and writing --------------------------------------------------------------------------------------------------

def from_gx(path: Union[str, Sequence[str]], name: str, chunks: Any = None) -> DaskArray:
    """A stored matrix as a dask.array: of a database, of a manifest (.json), or of several databases, whose matrices of
    that name lie one below the other.  chunks: of a database, by default tiles of about 128 MB."""
    if not isinstance(path, str):
        if not path:
            raise ValueError("gx_sqlite.dask.from_gx: no database is named")
        joined: DaskArray = da.concatenate([from_gx(part, name, chunks) for part in path], axis=0)
        return joined
    if path.endswith(".json"):
        return _from_manifest(path, name)
    db = database(path, is_there=True)
    try:
        A = _matrix.Matrix(db, name)
        (m, n), dtype = A.shape, A.dtype
        (height, width), = _connect.rows(db, "SELECT tile_rows, tile_cols FROM gx WHERE name = ?", (name,))
    finally:
        db.close()
    if chunks is None:
        chunks = (_whole_tiles(height, m, dtype), _whole_tiles(width, n, dtype))
    rows, columns = da.core.normalize_chunks(chunks, (m, n), dtype=dtype)
    i, j = np.cumsum((0, *rows)).tolist(), np.cumsum((0, *columns)).tolist()
    steps = _Steps("from_gx", os.path.abspath(path), name, rows, columns)
    blocks = [[steps.add(read_block, os.path.abspath(path), name, i[p], i[p + 1], j[q], j[q + 1]) for q in range(len(columns))]
              for p in range(len(rows))]
    return steps.assembled(blocks, rows, columns, dtype)


def _whole_tiles(tile: int, size: int, dtype: Any) -> int:
    side = int((128e6 / dtype.itemsize) ** 0.5)
    return max(1, min(size, max(1, side // tile) * tile))


def _from_manifest(path: str, name: str) -> DaskArray:
    manifest = read_manifest(path, name)
    rows, columns, listed = manifest["rows"], manifest["cols"], manifest["blocks"]
    folder = os.path.dirname(os.path.abspath(path))
    steps = _Steps("from_gx", os.path.abspath(path), manifest)
    blocks = []
    for p, height in enumerate(rows):
        shards = listed[p * len(columns):(p + 1) * len(columns)]
        blocks.append([steps.add(read_block, os.path.join(folder, shard["path"]), shard["name"], 0, height, 0, width,
                                 manifest["dtype"]) for shard, width in zip(shards, columns)])
    return steps.assembled(blocks, tuple(rows), tuple(columns), DTYPES[manifest["dtype"]])


def to_gx(path: str, name: str, array: DaskArray, *, compute: bool = True) -> Any:
    """Store a dask.array as a sharded matrix: the manifest at `path` (.json), and beside it a database for each row of
    blocks.  Workers write at the same time, those of one database one after the other; the manifest comes last."""
    if not path.endswith(".json"):
        raise ValueError(f"gx_sqlite.dask.to_gx: {path!r} is the name of the manifest and ends in .json")
    path, stem, array = os.path.abspath(path), os.path.basename(path)[:-len(".json")], _two(array)
    rows, columns = array.chunks
    steps = _Steps("to_gx", path, name, array)
    written, listed = [], []
    for p, line in enumerate(steps.blocks(array)):
        for q, block in enumerate(line):
            shard = {"path": f"{stem}.{p}.db", "name": f"{name}[{p},{q}]"}
            written.append(steps.add(_write, os.path.join(os.path.dirname(path), shard["path"]), shard["name"], block))
            listed.append(shard)
    manifest = {"gx_sharded": VERSION, "name": name, "dtype": gx_dtype(array.dtype), "rows": list(rows),
                "cols": list(columns), "blocks": listed}
    published = steps.delayed(steps.add(_publish, path, json.dumps(manifest, indent=1), written))
    return published.compute() if compute else published


# Graphs ---------------------------------------------------------------------------------------------------------------

class _Steps:
    """The tasks of one call, as one layer of a graph, after the arrays that they begin with.  They have the same names
    wherever the call's arguments are the same."""

    def __init__(self, call: str, *arguments: Any) -> None:
        self._arrays = [a for a in arguments if isinstance(a, DaskArray)]
        self.token = dask.base.tokenize(call, *[a.name if isinstance(a, DaskArray) else a for a in arguments])
        self._name, self._made = f"gx_{call}-{self.token}", 0
        self._tasks: dict[Any, Any] = {}

    def add(self, function: Any, *arguments: Any, name: Optional[str] = None) -> Any:
        """A task; what stands for its result.  Dask deals with tasks of one name alike, by default the function's."""
        key = (f"{name or function.__name__}-{self.token}", len(self._tasks))
        self._tasks[key] = (function, *arguments)
        return key

    @staticmethod
    def stored(array: DaskArray) -> Optional[list[list[Stored]]]:
        """Where its blocks lie, if they are what from_gx is to read; None: they are results."""
        if not array.name.startswith("gx_from_gx-"):
            return None
        graph = array.dask
        sources = [[graph[key] for key in line] for line in _Steps.blocks(array)]
        if not all(isinstance(source, tuple) and source[0].startswith("read_block-") for line in sources for source in line):
            return None  # they have been read
        return [[Stored(*graph[source][1:]) for source in line] for line in sources]

    def parts(self, whole: Any, count: int) -> list[Any]:
        """What stands for the parts of a result that is a tuple, or a list."""
        return [self.add(operator.getitem, whole, n) for n in range(count)]

    @staticmethod
    def blocks(array: DaskArray) -> Blocks:
        keys: Any = array.__dask_keys__()  # lists of its own
        return [[key] for key in keys] if array.ndim == 1 else [list(line) for line in keys]

    def assembled(self, blocks: Blocks, rows: Sequence[int], columns: Sequence[int], dtype: Any) -> DaskArray:
        return self._array({(p, q): block for p, line in enumerate(blocks) for q, block in enumerate(line)},
                           (tuple(rows), tuple(columns)), dtype)

    def array(self, block: Any, shape: tuple[int, ...], dtype: Any) -> DaskArray:
        """The array that is one block."""
        return self._array({(0,) * len(shape): block}, tuple((size,) for size in shape), dtype)

    def delayed(self, result: Any) -> Any:
        return _Delayed(result, self._graph(), layer=self._name)

    def _graph(self) -> Any:
        return _Graph.from_collections(self._name, self._tasks, dependencies=self._arrays)

    def _array(self, blocks: dict[tuple[int, ...], Any], chunks: Any, dtype: Any) -> DaskArray:
        graph, name = self._graph(), f"{self._name}-{self._made}"
        self._made += 1
        named = {(name, *place): block for place, block in blocks.items()}
        graph = _Graph({**graph.layers, name: named}, {**graph.dependencies, name: {self._name}})
        array: DaskArray = da.Array(graph, name, chunks, dtype=dtype)
        return array


def _two(array: Any) -> DaskArray:
    """An array as gx computes with it, a vector as a column: float16 and uint8 become float32, other integers and booleans float64."""
    lazy: DaskArray = da.asarray(array)
    if not 1 <= lazy.ndim <= 2:
        raise ValueError(f"gx_sqlite.dask: an array of {lazy.ndim} dimensions: a matrix has two")
    if np.isnan(lazy.shape).any():
        raise ValueError("gx_sqlite.dask: the sizes of the array's chunks are not known: its compute_chunk_sizes() finds them")
    lazy = lazy.astype(DTYPES[gx_number(lazy.dtype)], copy=False)
    return lazy.reshape(-1, 1) if lazy.ndim == 1 else lazy


def _options(**given: Any) -> str:
    return json.dumps(given)


def _sum(steps: _Steps, total: Any, left: Sequence[Any], right: Sequence[Any], fan: int = FAN_IN, **options: Any) -> Any:
    """total + the sum of the products of pairs, `fan` of them in a task."""
    for k in range(0, len(left), fan):
        total = steps.add(_plus, total, left[k:k + fan], right[k:k + fan], _options(**options))
    return total


def _product(steps: _Steps, a: Blocks, b: Blocks, **options: Any) -> Blocks:
    """Blocks of op(A) B, each a sum over the pairs that meet."""
    return [[_sum(steps, None, line, [row[q] for row in b], **options) for q in range(len(b[0]))] for line in a]


def _folded(steps: _Steps, triangles: list[Any]) -> Any:
    """One triangle of many, FAN_IN at a time."""
    while len(triangles) > 1:
        triangles = [steps.add(_triangle, triangles[p:p + FAN_IN]) for p in range(0, len(triangles), FAN_IN)]
    return triangles[0]


def _one_column(A: DaskArray) -> DaskArray:
    """Rows whole, in blocks that are at least as tall as wide where there are so many."""
    A = A.rechunk({1: -1})
    n = A.shape[1]
    return A.rechunk({0: max(n, 1)}) if A.shape[0] > n and min(A.chunks[0]) < n and len(A.chunks[0]) > 1 else A


def _square(A: DaskArray) -> DaskArray:
    if A.shape[0] != A.shape[1]:
        raise ValueError(f"gx_sqlite.dask: A is {A.shape[0]}x{A.shape[1]}, not square")
    return A if A.chunks[0] == A.chunks[1] else A.rechunk((A.chunks[0], A.chunks[0]))


# Algorithms -----------------------------------------------------------------------------------------------------------

def matmul(A: Any, B: Any, *, read: Optional[bool] = None) -> DaskArray:
    """A B.  read: whether tasks read what they need of stored factors themselves, of which then nothing goes through Dask; by
    default where a device computes (here, so there) or blocks are large: to get a small one costs less than to read it."""
    A, B = _two(A), _two(B)
    if A.shape[1] != B.shape[0]:
        raise ValueError(f"gx_sqlite.dask.matmul: A is {A.shape[0]}x{A.shape[1]} but B is {B.shape[0]}x{B.shape[1]}")
    B = B if B.chunks[0] == A.chunks[1] else B.rechunk({0: A.chunks[1]})
    block = 2.0 * float(np.prod([size for size, *_ in (*A.chunks, B.chunks[1])]))
    is_read = (_has_device() or block >= 4 * _TASK) if read is None else read
    steps, dtype = _Steps("matmul", A, B, is_read), np.result_type(A.dtype, B.dtype)
    a, b = (steps.stored(A), steps.stored(B)) if is_read else (None, None)
    if B.shape[1] <= _FEW:
        blocks = _product(steps, steps.blocks(A), steps.blocks(B))
    elif a is None or b is None:
        blocks = _chains(steps, steps.blocks(A), steps.blocks(B), dtype)
    else:
        blocks = _rectangles(steps, a, b, dtype, _has_device())
    return steps.assembled(blocks, A.chunks[0], B.chunks[1], dtype)


def _rectangle(rows: int, columns: int, least: int) -> tuple[int, int]:
    """Height and width of rectangles, large ones, of which there are so many at least."""
    height, width = 1, 1
    while True:
        taller = (2 * height, width) if height <= width else (height, 2 * width)
        if -(-rows // taller[0]) * -(-columns // taller[1]) < least:
            return height, width
        height, width = taller


def _chains(steps: _Steps, a: Blocks, b: Blocks, dtype: Any) -> Blocks:
    """A product's blocks, of factors that are results: what a task needs has to come to where it runs, all of it before it
    begins.  So it adds FAN_IN products to what another one gave, and Dask takes care that they are near."""
    columns = [list(column) for column in zip(*b)]
    made: Blocks = [[None] * len(columns) for _ in a]
    for p, row in enumerate(a):
        for q, column in enumerate(columns):
            sums = None
            for k in range(0, len(row), FAN_IN):
                sums = steps.add(_products, sums, [row[k:k + FAN_IN]], [column[k:k + FAN_IN]], np.dtype(dtype).str)
            made[p][q] = sums
    return made


def _rectangles(steps: _Steps, a: Blocks, b: Blocks, dtype: Any, is_device: bool) -> Blocks:
    """A product's blocks, of stored factors: whole sums, a rectangle of blocks to a task, each of which begins at another
    block, which others want after it.  What a worker reads it keeps for the tasks of its group, a rectangle of rectangles,
    which Dask runs where the group's shelf is.  Those of the last groups (or all, where they are few) it deals out one by one
    to whoever has nothing to do, as it does with many tasks that need few results, in equal shares of the inner side (it does
    not deal in the order in which they are named), so that all workers end together: on processors, which are many."""
    columns = [list(column) for column in zip(*b)]
    height, width = _rectangle(len(a), len(columns), _TASKS if is_device else _SMALL_TASKS)
    down, across = -(-len(a) // height), -(-len(columns) // width)
    tall, wide = _group(down, across)
    groups = [[(p, q) for p in range(top, min(top + tall, down)) for q in range(left, min(left + wide, across))]
              for top in range(0, down, tall) for left in range(0, across, wide)]
    early = len(groups) if is_device else len(groups) * 3 // 4 if down * across >= _TASKS else 0
    late = [place for group in groups[early:] for place in group]
    made: Blocks = [[None] * len(columns) for _ in a]

    def add(p: int, q: int, shelf: Any, count: int = 1, name: Optional[str] = None) -> None:
        rows, lines, shares = a[p * height:(p + 1) * height], columns[q * width:(q + 1) * width], []
        for n in range(count):
            inner = [(k + p + q) % len(b) for k in range(len(b) * n // count, len(b) * (n + 1) // count)]
            left, right = ([[line[k] for k in inner] for line in factor] for factor in (rows, lines))
            shares.append(steps.add(_products, None, left, right, np.dtype(dtype).str, shelf, name=name))
        whole, blocks = shares[0] if count == 1 else steps.add(_total, shares), len(rows) * len(lines)
        for m, block in enumerate([whole] if blocks == 1 else steps.parts(whole, blocks)):
            made[p * height + m // len(lines)][q * width + m % len(lines)] = block

    shelves = []
    for group in groups[:early]:
        shelves.append(steps.add(shelf_of, steps.token))
        for p, q in group:
            add(p, q, shelves[-1])
    few = [steps.add(shelf_of, steps.token, *shelves, name="late_shelf") for _ in groups[early:][:_DEALT]]  # after all others
    count = _shares(a[0], columns[0], height * width, len(late))
    for n, (p, q) in enumerate(late):
        add(p, q, few[n * len(few) // len(late)], count, "late_products")
    return made


def _group(down: int, across: int) -> tuple[int, int]:
    """Height and width of groups of tasks: whole columns, or rows, that are short, as all workers read the other factor then."""
    if min(down, across) <= _SHORT and max(down, across) >= _GROUPS:
        return (down, across // _GROUPS) if down < across else (down // _GROUPS, across)
    return _rectangle(down, across, _GROUPS)


def _shares(row: Sequence[Stored], column: Sequence[Stored], blocks: int, tasks: int) -> int:
    """Of each of so many tasks, as long as they are long."""
    flops = 2.0 * blocks * row[0].shape[0] * column[0].shape[1] * sum(block.shape[1] for block in row)
    return max(1, min(_SHARES, len(row), -(-_SMALL_TASKS // max(1, tasks)), int(flops // (4 * _TASK))))


def _fan(block: int, count: int) -> int:
    """Products in a task: one where it is long and the blocks are few, more where what surrounds a task would count."""
    return min(FAN_IN, max(1, int(_TASK // max(1, 2 * block ** 3)), -(-count // _FEW_BLOCKS)))


def _cholesky_blocks(steps: _Steps, A: DaskArray) -> Blocks:
    """A column of blocks is brought up to date, its diagonal block factored, the rest solved with it.  What a column does to
    another is a task of its own, which runs as soon as that column is known: whoever waits for the latest one waits for
    one product.  Several columns at once where there are so many blocks that the scheduler would be what limits.  Of a stored
    matrix the task that needs a block, one, reads it."""
    a, first = steps.stored(A) or steps.blocks(A), np.cumsum((0, *A.chunks[0])).tolist()
    right = _options(uplo="lower", side="right", trans=True)
    L: Blocks = [[None] * len(a) for _ in a]
    fan = _fan(max(A.chunks[0]), len(a))
    for j in range(len(a)):
        block, last = a[j][j], max(0, j - 1) // fan * fan
        for k in range(0, last, fan):
            block = steps.add(_less_squares, block, L[j][k:k + fan])
        L[j][j] = steps.add(_cholesky_block, block, L[j][last:j], first[j])
        for i in range(j + 1, len(a)):
            block = _sum(steps, a[i][j], L[i][:j], L[j][:j], fan, transb=True, alpha=-1)
            L[i][j] = steps.add(_trsm, L[j][j], block, right)
    return L


def cholesky(A: Any) -> DaskArray:
    """L, lower, with L L^T = A, real, symmetric and positive definite; its lower triangle is read."""
    A = _real(_square(_two(A)))
    steps = _Steps("cholesky", A)
    L = _cholesky_blocks(steps, A)
    for i, m in enumerate(A.chunks[0]):
        for j in range(i + 1, len(L)):
            L[i][j] = steps.add(_zeros, m, A.chunks[1][j], A.dtype.str)
    return steps.assembled(L, A.chunks[0], A.chunks[1], A.dtype)


def _checked_count(call: str, k: Any, most: int) -> int:
    count = operator.index(k)
    if not 1 <= count <= most:
        raise ValueError(f"gx_sqlite.dask.{call}: k must be between 1 and {most}, not {count}")
    return count


def _same_rows(call: str, A: DaskArray, B: DaskArray) -> None:
    if A.shape[0] != B.shape[0]:
        raise ValueError(f"gx_sqlite.dask.{call}: A has {A.shape[0]} rows but B {B.shape[0]}")


def _real(A: DaskArray) -> DaskArray:
    if A.dtype.kind == "c":
        raise TypeError("gx_sqlite.dask: complex matrices are not factored here")
    return A


def solve(A: Any, B: Any) -> DaskArray:
    """X in A X = B, A real, symmetric and positive definite.  The blocks of the factor stay where they are: a task each
    multiplies one with what is known of X, which is narrow."""
    A, B = _real(_square(_two(A))), _two(B)
    _same_rows("solve", A, B)
    B = B.rechunk({0: A.chunks[0]})
    steps = _Steps("solve", A, B)
    L, x = _cholesky_blocks(steps, A), steps.blocks(B)
    lower, upper = _options(uplo="lower"), _options(uplo="lower", trans=True)
    plain, turned = _options(), _options(transa=True)
    for q in range(len(x[0])):
        for i in range(len(x)):
            parts = [steps.add(_plus, None, [L[i][k]], [x[k][q]], plain) for k in range(i)]
            x[i][q] = steps.add(_substitute, L[i][i], x[i][q], parts, lower)
        for i in reversed(range(len(x))):
            parts = [steps.add(_plus, None, [L[k][i]], [x[k][q]], turned) for k in range(i + 1, len(x))]
            x[i][q] = steps.add(_substitute, L[i][i], x[i][q], parts, upper)
    return steps.assembled(x, B.chunks[0], B.chunks[1], np.result_type(A.dtype, B.dtype))


def lstsq(A: Any, B: Any) -> DaskArray:
    """X with the least ||B - A X||, by QR of blocks of rows and of their triangles (TSQR); no squares are formed."""
    A, B = _one_column(_two(A)), _two(B)
    _same_rows("lstsq", A, B)
    B = B.rechunk({0: A.chunks[0], 1: -1})
    steps = _Steps("lstsq", A, B)
    triangles = [steps.add(_triangle_beside, a, b) for (a,), (b,) in zip(steps.blocks(A), steps.blocks(B))]
    n, p = A.shape[1], B.shape[1]
    return steps.array(steps.add(_least, _folded(steps, triangles), n), (n, p), np.result_type(A.dtype, B.dtype))


def _orthonormal(steps: _Steps, y: Blocks) -> Blocks:
    """Q of a column of blocks: of each, then of their triangles."""
    parts = [steps.parts(steps.add(_q_and_r, block), 2) for (block,) in y]
    triangles = [r for _, r in parts]
    top, = steps.parts(steps.add(_q_and_r, steps.add(_stack, triangles)), 1)
    above = steps.add(_heights, triangles)
    return [[_sum(steps, None, [q], [steps.add(_rows_of, top, above, p)])] for p, (q, _) in enumerate(parts)]


def _heights(parts: Sequence[Array]) -> list[int]:
    return [0, *np.cumsum([len(part) for part in parts]).tolist()]


def _rows_of(a: Array, cuts: Sequence[int], p: int) -> Array:
    return a[cuts[p]:cuts[p + 1]]


def svd(A: Any, k: int, *, power: int = 2, oversample: int = 10, seed: int = 0) -> tuple[DaskArray, DaskArray, DaskArray]:
    """The k largest singular values and their vectors (U, s, V^T), by products with a random matrix and `power` repetitions
    (Halko, Martinsson and Tropp); of a real matrix."""
    A = _real(_two(A))
    m, n = A.shape
    k = _checked_count("svd", k, min(m, n))
    width = min(k + oversample, m, n)
    steps = _Steps("svd", A, k, power, oversample, seed)
    a = steps.blocks(A)
    transposed = [list(line) for line in zip(*a)]
    random = [[steps.add(_random, size, width, seed + p, gx_dtype(A.dtype))] for p, size in enumerate(A.chunks[1])]
    q = _orthonormal(steps, _product(steps, a, random))
    for _ in range(power):
        z = _orthonormal(steps, _product(steps, transposed, q, transa=True))
        q = _orthonormal(steps, _product(steps, a, z))
    small = steps.add(_stack, [block for (block,) in _product(steps, transposed, q, transa=True)])  # A^T Q
    v, s, ut = steps.parts(steps.add(_svd_of, small), 3)
    u = [[_sum(steps, None, [block], [steps.add(_head, ut, k)], transb=True)] for (block,) in q]
    s, vt = steps.add(_head, s, k), steps.add(_head_transposed, v, k)
    return (steps.assembled(u, A.chunks[0], (k,), A.dtype), steps.array(s, (k,), A.dtype),
            steps.array(vt, (k, n), A.dtype))


def _head(a: Array, k: int) -> Array:
    return a[:k]


def _head_transposed(a: Array, k: int) -> Array:
    return a[:, :k].T


class Components(NamedTuple):
    """Principal components: of the columns, the means; of the components, variances, shares, directions as rows."""

    mean: DaskArray
    variance: DaskArray
    ratio: DaskArray
    components: DaskArray


def pca(A: Any, k: int) -> Components:
    """The k principal components of A's columns, from the triangle of [1 A]: no squares are formed."""
    A = _real(_one_column(_two(A)))
    m, n = A.shape
    k = _checked_count("pca", k, min(m - 1, n))
    steps = _Steps("pca", A, k)
    triangle = _folded(steps, [steps.add(_triangle_with_ones, block) for (block,) in steps.blocks(A)])
    parts = steps.parts(steps.add(_components, triangle, m, k), 4)
    shapes = ((n,), (k,), (k,), (k, n))
    return Components(*(steps.array(part, shape, A.dtype) for part, shape in zip(parts, shapes)))


def knn(Q: Any, E: Any, k: int, metric: str = "cosine") -> tuple[DaskArray, DaskArray]:
    """Of each row of Q the k nearest rows of E, exactly, the nearest first: their numbers and scores, as gx_knn has them."""
    Q, E = _real(_two(Q)).rechunk({1: -1}), _real(_two(E)).rechunk({1: -1})
    if Q.shape[1] != E.shape[1]:
        raise ValueError(f"gx_sqlite.dask.knn: Q is {Q.shape[0]}x{Q.shape[1]} but E is {E.shape[0]}x{E.shape[1]}")
    if metric not in _LARGER_IS_NEARER:
        raise ValueError(f"gx_sqlite.dask.knn: metric {metric!r} is not known ({', '.join(_LARGER_IS_NEARER)})")
    k = _checked_count("knn", k, E.shape[0])
    steps = _Steps("knn", Q, E, k, metric)
    first, options = np.cumsum((0, *E.chunks[0])).tolist(), _options(metric=metric)
    lines = []
    for (q,) in steps.blocks(Q):
        found = [steps.add(_nearest, q, e, k, options, first[p]) for p, (e,) in enumerate(steps.blocks(E))]
        while len(found) > 1:
            found = [steps.add(_nearest_of, found[p:p + FAN_IN], k, _LARGER_IS_NEARER[metric])
                     for p in range(0, len(found), FAN_IN)]
        lines.append(steps.parts(found[0], 2))
    ids, scores = (steps.assembled([[line[n]] for line in lines], Q.chunks[0], (k,), dtype)
                   for n, dtype in enumerate((np.int64, np.float64)))
    return ids, scores
