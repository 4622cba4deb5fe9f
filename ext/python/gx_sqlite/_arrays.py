"""Arrays into matrices and back.

An array that lies by rows or by columns, in a dtype of gx's, is lent to gx (_lent.py), which takes the elements out of
it or puts them there.  Other data, in: gx asks for the matrix tile by tile (gx_from_function), and each tile is made
from where the elements are, the next one by a second thread while gx writes this one; out: by bands of columns.  Either
way nothing but a few tiles is there twice.
"""
from __future__ import annotations

import contextlib
import json
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Iterator, Optional, Union

import numpy as np

from . import _columns, _connect
from ._lent import call, lent
from ._sources import Source, source
from ._sparse import is_scipy, is_sparse_value, pack_sparse, unpack_sparse
from ._values import DTYPES, Array, Buffer, DTypeLike, empty, gx_dtype, unpack

_SMALL = 1 << 20  # bytes: up to here a matrix goes as one value
_BAND = 64 << 20  # bytes that come at a time where an array cannot be lent
_LARGE = 64 << 20  # bytes: of a large array
_USUAL_PAGE, _LARGE_PAGE, _FEW_PAGES = 4096, 65536, 8
_TRIES = 100  # of reading a matrix that others replace meanwhile


def store(db: Any, name: str, data: Any, *, replace: bool = False, dtype: DTypeLike = None,
          rows: Optional[int] = None) -> str:
    """Store data as the matrix `name`; returns the name.

    data: an array of one or two dimensions and any strides, a matrix value, a number, lists of lists, a sparse matrix of SciPy's (stored
    as one), a pandas DataFrame, an Arrow table or FixedSizeList column, or an iterator of blocks of rows: with `rows`, how many there are in all, they go straight
    to the database, else through a temporary file.  dtype: what the elements become, by default what holds them.  The names of a
    frame's columns are kept (gx.matrix(db, name).columns).
    """
    names = _columns.of_data(data) if isinstance(name, str) else None
    stored = _store(db, name, data, replace, dtype, rows)
    if names is not None:
        _columns.keep(db, stored, names)
    return stored


def _store(db: Any, name: str, data: Any, replace: bool, dtype: DTypeLike, rows: Optional[int]) -> str:
    again = f'"replace":{"true" if replace else "false"}'
    if is_scipy(data):
        return str(_connect.value(db, "SELECT gx_store(?, ?, ?)", (name, pack_sparse(data, dtype), f"{{{again}}}")))
    if isinstance(data, (bytes, bytearray)):  # a matrix value; gx says so where it is none
        as_dtype = f',"dtype":"{gx_dtype(dtype)}"' if dtype is not None else ""
        return str(_connect.value(db, "SELECT gx_store(?, ?, ?)", (name, data, f"{{{again}{as_dtype}}}")))
    matrix = source(data, dtype, rows)
    options = f'{{{again},"dtype":"{matrix.dtype}"}}'
    m, n = matrix.shape
    if m * n * DTYPES[matrix.dtype].itemsize <= _SMALL:
        blob, elements = empty((m, n), matrix.dtype)
        if m * n > 0:
            matrix.fill(0, 0, elements)
        return str(_connect.value(db, "SELECT gx_store(?, ?, ?)", (name, blob, options)))
    array = matrix.lendable
    if array is not None:
        with lent(array, False) as token, _roomy(db, array.nbytes):
            if token is not None and call(db, "SELECT gx_from_memory(?, ?, ?)", (token, name, options)):
                return name
    tiles = _Tiles(matrix)
    try:
        with _connect.function(db, tiles.give, 4) as function:
            return str(_connect.value(db, "SELECT gx_from_function(?, ?, ?, ?, ?)", (function, m, n, name, options)))
    finally:
        tiles.close()


@contextlib.contextmanager
def _roomy(db: Any, size: int) -> Iterator[None]:
    """For a large array: into an empty file, pages of 64 KiB, unless another size was chosen before; and while it is
    written, few enough of them in SQLite's cache that they stay in the processor's on their way to the file."""
    if size < _LARGE:
        yield
        return
    (pages, page_bytes, cache), = _connect.rows(
        db, "SELECT page_count, page_size, cache_size FROM pragma_page_count, pragma_page_size, pragma_cache_size")
    if pages == 0 and page_bytes == _USUAL_PAGE:
        _connect.rows(db, f"PRAGMA main.page_size = {_LARGE_PAGE}")
        page_bytes = _LARGE_PAGE
    if page_bytes < _LARGE_PAGE:
        yield
        return
    _connect.rows(db, f"PRAGMA main.cache_size = {_FEW_PAGES}")
    try:
        yield
    finally:
        _connect.rows(db, f"PRAGMA main.cache_size = {cache}")


class _Tiles:
    """A source's tiles in the order in which gx asks for them, one made ahead."""

    def __init__(self, matrix: Source) -> None:
        self._matrix = matrix
        self._pool = ThreadPoolExecutor(1) if matrix.is_random else None
        self._next: Optional[tuple[tuple[int, ...], Future[bytearray]]] = None
        self._tile = (0, 0)  # the shape of a full one: the first
        self._given = bytearray()  # the latest answer, which SQLite has copied by the next question

    def _make(self, i: int, j: int, m: int, n: int, spare: bytearray) -> bytearray:
        blob, elements = empty((m, n), self._matrix.dtype, spare)
        self._matrix.fill(i, j, elements)
        return blob

    def _following(self, i: int, j: int) -> Optional[tuple[int, int, int, int]]:
        rows, columns = self._matrix.shape
        i, j = (i, j + self._tile[1]) if j + self._tile[1] < columns else (i + self._tile[0], 0)
        return (i, j, min(self._tile[0], rows - i), min(self._tile[1], columns - j)) if i < rows else None

    def give(self, i: int, j: int, m: int, n: int) -> bytearray:
        """The tile as a matrix value; the next one is begun."""
        asked = (i, j, m, n)
        if i == 0 and j == 0:
            self._tile = (m, n)
        ahead, self._next = self._next, None
        ready = ahead[1].result() if ahead is not None else None
        following = self._following(i, j)
        if self._pool is not None and following is not None:
            self._next = following, self._pool.submit(self._make, *following, self._given)
            self._given = bytearray()
        if ready is None or ahead is None or ahead[0] != asked:
            ready = self._make(*asked, self._given)
        self._given = ready
        return ready

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


def fetch(db: Any, matrix: Union[str, Buffer, float], *, out: Optional[Array] = None) -> Any:
    """A stored matrix, a matrix value or a literal as an array of two dimensions; a sparse one as SciPy's csr_matrix.

    A stored matrix comes by columns (Fortran order), into `out` where that is given.  A value is not copied: its array
    cannot be written.
    """
    if isinstance(matrix, (bytes, bytearray, memoryview)):
        return _into(out, unpack_sparse(matrix) if is_sparse_value(matrix) else unpack(matrix))
    if not isinstance(matrix, str) or matrix.lstrip().startswith("["):
        return _into(out, unpack(_connect.value(db, "SELECT gx_copy(?)", (matrix,))))
    return _read(db, matrix, out)


def _into(out: Optional[Array], array: Any) -> Any:
    if out is None:
        return array
    if not isinstance(array, np.ndarray):
        raise TypeError("gx_sqlite.fetch: the matrix is sparse, which cannot go into an array (gx_dense makes it dense)")
    _check(out, array.shape[0], array.shape[1])
    out[...] = array
    return out


def _check(out: Array, m: int, n: int) -> None:
    if out.shape != (m, n):
        raise ValueError(f"gx_sqlite.fetch: the matrix is {m}x{n} but out has the shape {out.shape}")


def _read(db: Any, matrix: str, out: Optional[Array]) -> Any:
    about = _about(db, matrix)
    for _ in range(_TRIES):
        if about.get("format") == "sparse":
            return _into(out, unpack_sparse(_connect.value(db, "SELECT gx_copy(?)", (matrix,))))
        m, n = about["rows"], about["cols"]
        result = np.empty((m, n), DTYPES[about["dtype"]], order="F") if out is None else out
        _check(result, m, n)
        try:
            _fill(db, matrix, result)
            return result
        except Exception:
            before, about = about, _about(db, matrix)
            if about == before:
                raise
    raise LookupError(f"gx_sqlite.fetch: others replaced {matrix!r} {_TRIES} times meanwhile")


def _about(db: Any, matrix: str) -> dict[str, Any]:
    about: dict[str, Any] = json.loads(_connect.value(db, "SELECT gx_info(?)", (matrix,)))
    return about


def _fill(db: Any, matrix: str, result: Array) -> None:
    with lent(result, True) as token:
        if token is not None and call(db, "SELECT gx_to_memory(?, ?)", (matrix, token)):
            return
    m, n = result.shape
    height = max(1, min(m, _BAND // result.itemsize))
    width = max(1, _BAND // (height * result.itemsize))
    for j in range(0, n, width):
        for i in range(0, m, height):
            piece = result[i:i + height, j:j + width]
            blob = _connect.value(db, "SELECT gx_slice(?, ?, ?, ?, ?)",
                                  (matrix, i, i + piece.shape[0], j, j + piece.shape[1]))
            piece[...] = unpack(blob)
