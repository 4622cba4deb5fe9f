"""Blocks that lie in databases, the manifest that lists them, and the shelf where a worker of gx_sqlite.dask keeps what it
has read of them."""
from __future__ import annotations

import dataclasses
import errno
import json
import os
import sqlite3
import threading
import weakref
from concurrent.futures import Future
from typing import Any, Optional

import numpy as np

from . import _arrays, _connect, _matrix
from ._values import DTYPES, Array, gx_dtype

VERSION = 1  # of manifests
_WAIT = 600.0  # seconds that a writer waits for another one of the same database


def database(path: str, *, is_there: bool = False) -> Any:
    """A connection; is_there: to a file, of which none is made."""
    if is_there and not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if not os.path.exists(path):
        _connect.probe()
    db = sqlite3.connect(path, isolation_level=None, timeout=_WAIT)
    try:
        _connect.load(db)
    except BaseException:
        db.close()
        raise
    return db


def read_block(path: str, name: str, i0: int, i1: int, j0: int, j1: int, dtype: Optional[str] = None) -> Array:
    """Rows i0 to i1, columns j0 to j1 of a stored matrix, which has these; with a dtype, gx's word: all of one that is so."""
    db = database(path, is_there=True)
    try:
        A = _matrix.Matrix(db, name)
        (m, n), is_whole = A.shape, A.shape == (i1 - i0, j1 - j0)
        if dtype is not None and not (is_whole and A.dtype == DTYPES[dtype]):
            raise ValueError(f"gx_sqlite.dask: {name!r} in {path} is {m}x{n} {gx_dtype(A.dtype)}, but the manifest says "
                             f"{i1}x{j1} {dtype}")
        if i1 > m or j1 > n:
            raise ValueError(f"gx_sqlite.dask: {name!r} in {path} is {m}x{n} and has no rows {i0} to {i1}, columns {j0} to {j1}")
        return np.asarray(_arrays.fetch(db, name) if is_whole else A[i0:i1, j0:j1])
    finally:
        db.close()


def read_manifest(path: str, name: str) -> dict[str, Any]:
    """What the file says of that matrix: it may come from anywhere."""
    with open(path, encoding="utf-8") as file:
        try:
            manifest = json.load(file)
        except ValueError as problem:
            raise ValueError(f"gx_sqlite.dask: {path} is no manifest: {problem}") from None
    if not isinstance(manifest, dict) or manifest.get("gx_sharded") != VERSION:
        raise ValueError(f"gx_sqlite.dask: {path} is no manifest of a sharded matrix of version {VERSION}")
    rows, columns, listed = (found if isinstance(found, list) else []
                             for found in map(manifest.get, ("rows", "cols", "blocks")))
    if not (rows and columns and all(type(size) is int and 0 <= size < 1 << 48 for size in rows + columns)):
        raise ValueError(f"gx_sqlite.dask: {path}: rows and cols are the heights and widths of the blocks")
    if len(listed) != len(rows) * len(columns):
        raise ValueError(f"gx_sqlite.dask: {path} lists {len(listed)} blocks for a grid of {len(rows)}x{len(columns)}")
    if not all(isinstance(shard, dict) and all(isinstance(shard.get(key), str) for key in ("path", "name"))
               for shard in listed):
        raise ValueError(f"gx_sqlite.dask: {path}: a block has a path and a name")
    if manifest.get("dtype") not in list(DTYPES):
        raise ValueError(f"gx_sqlite.dask: {path}: dtype {manifest.get('dtype')!r} is not known ({', '.join(DTYPES)})")
    if manifest.get("name") != name:
        raise LookupError(f"gx_sqlite.dask: {path} is of a matrix {manifest.get('name')!r}, not {name!r}")
    return manifest


@dataclasses.dataclass(frozen=True)
class Stored:
    """A block that lies in a database, where whoever needs it reads it: what read_block wants to know."""

    path: str
    name: str
    i0: int
    i1: int
    j0: int
    j1: int
    dtype: Optional[str] = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.i1 - self.i0, self.j1 - self.j0

    def read(self) -> Array:
        return read_block(*dataclasses.astuple(self))


class Shelf:
    """What this process's tasks of one call have read.  Each block is read once, by the first that wants it, and stays as
    long as there is room; the shelf, as long as Dask has it here for tasks of the call.  It travels empty."""

    _all: weakref.WeakValueDictionary[str, Shelf] = weakref.WeakValueDictionary()
    _lock = threading.RLock()  # one, of all shelves: they share the room

    def __init__(self, call: str) -> None:
        self._call, self._room, self._bytes = call, _room(), 0
        self._blocks: dict[Stored, Future[Array]] = {}  # the one that was used last comes last

    def __reduce__(self) -> Any:
        return shelf_of, (self._call,)

    def block(self, stored: Stored) -> Array:
        with Shelf._lock:
            known = self._blocks.pop(stored, None)
            found: Future[Array] = known or Future()
            self._blocks[stored] = found
        if known is None:
            self._read(stored, found)
        return found.result()

    def _read(self, stored: Stored, found: Future[Array]) -> None:
        try:
            block = stored.read()
        except BaseException as problem:
            with Shelf._lock:
                del self._blocks[stored]
            found.set_exception(problem)
            return
        found.set_result(block)
        with Shelf._lock:
            self._bytes += block.nbytes
            self._make_room()

    def _make_room(self) -> None:
        """Those go that were not used for longest; a task that is at work with one has it still."""
        over = sum(other._bytes for other in Shelf._all.values()) - self._room
        for stored in [stored for stored, found in self._blocks.items() if found.done()]:
            if over <= 0:
                return
            size = self._blocks.pop(stored).result().nbytes
            self._bytes -= size
            over -= size


def shelf_of(call: str, *_others: Shelf) -> Shelf:
    """This process's; others: whose tasks are to begin before."""
    with Shelf._lock:
        found = Shelf._all.get(call)
        if found is None:
            found = Shelf._all[call] = Shelf(call)
        return found


def _room() -> float:
    """Bytes for blocks that were read: half of what gx may use here, in a worker no more than a quarter of what that may."""
    db = database(":memory:")
    try:
        room = float(_connect.value(db, "SELECT gx_config('memory_limit')")) / 2
    finally:
        db.close()
    try:
        from distributed import get_worker
        worker: Any = get_worker()
    except (ImportError, ValueError):
        return room
    may: Optional[int] = worker.memory_manager.memory_limit
    return min(room, may / 4) if may else room * min(1.0, float(worker.state.nthreads) / (os.cpu_count() or 1))
