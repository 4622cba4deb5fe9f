"""What can be stored: anything of two dimensions that can fill a rectangle of itself.

A source is asked for rectangles in the order of gx_from_function: along a row of tiles before the next one.  None makes
a copy of the whole.
"""
from __future__ import annotations

import array as arrays
import decimal
import itertools
import operator
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, Optional

import numpy as np

from ._lists import arrow_parts, first_of, has_arrow, is_list_type, lists, refuse_decimals
from ._values import DTYPES, Array, DTypeLike, column_dtype, gx_dtype, plain, two_dimensions


class Source:
    """A matrix that is elsewhere; dtype is gx's word."""

    shape: tuple[int, int]
    dtype: str
    is_random = True  # rectangles may be asked for in any order, from another thread
    lendable: Optional[Array] = None  # the whole of it in one array, whatever its dtype

    def fill(self, i: int, j: int, out: Array) -> None:
        """The rectangle at (i, j), of the shape of out."""
        raise NotImplementedError


def _may_become(what: str, kind: Any, dtype: str) -> None:
    """Refuses complex numbers that would become real ones."""
    if getattr(kind, "kind", "") == "c" and not dtype.startswith("c"):
        raise TypeError(f"gx_sqlite.store: {what} is {kind} and {dtype} would lose the imaginary part")


class _Array(Source):
    def __init__(self, array: Array, dtype: DTypeLike = None) -> None:
        self._array = self.lendable = two_dimensions(array)
        self.shape = (self._array.shape[0], self._array.shape[1])
        self.dtype = gx_dtype(dtype if dtype is not None else self._array.dtype)
        _may_become("the array", self._array.dtype, self.dtype)

    def fill(self, i: int, j: int, out: Array) -> None:
        m, n = out.shape
        out[...] = self._array[i:i + m, j:j + n]


class _Frame(Source):
    """A pandas DataFrame, or an Arrow table: columns that lie apart."""

    is_random = False  # pandas and Arrow convert with the interpreter's lock held

    def __init__(self, frame: Any, dtype: DTypeLike) -> None:
        self._frame = frame
        self._is_arrow = not hasattr(frame, "iloc")
        self._is_native = self._is_arrow or all(getattr(kind, "isnative", True) for kind in frame.dtypes)
        self.shape = (int(frame.shape[0]), int(frame.shape[1]))
        self.dtype = gx_dtype(dtype) if dtype is not None else self._common()
        for name, kind in zip(self._names(), [] if self._is_arrow else frame.dtypes):  # Arrow has no complex numbers
            _may_become(f"column {name!r}", kind, self.dtype)

    def _common(self) -> str:
        kinds = []
        for name, kind in zip(self._names(), self._kinds()):
            kind = getattr(kind, "numpy_dtype", kind)  # pandas' nullable types
            try:
                kinds.append(DTYPES[column_dtype(kind)])
            except TypeError:
                if self._is_decimal(len(kinds)):
                    raise refuse_decimals(f"column {name!r}") from None
                raise TypeError(f"gx_sqlite.store: column {name!r} is {kind}, not numbers") from None
        return gx_dtype(np.result_type(*kinds)) if kinds else "f64"

    def _is_decimal(self, j: int) -> bool:
        if self._is_arrow:
            return str(self._frame.schema.types[j]).startswith("decimal")
        column = self._frame.iloc[:, j]
        return "decimal" in str(column.dtype) or (column.dtype == object and isinstance(first_of(column), decimal.Decimal))

    def _names(self) -> list[Any]:
        return list(self._frame.column_names if self._is_arrow else self._frame.columns)

    def _kinds(self) -> list[Any]:
        if not self._is_arrow:
            return list(self._frame.dtypes)
        kinds = []
        for name, kind in zip(self._names(), self._frame.schema.types):
            try:
                kinds.append(np.dtype(kind.to_pandas_dtype()))
            except NotImplementedError:
                raise TypeError(f"gx_sqlite.store: column {name!r} is {kind}, not numbers") from None
        return kinds

    def fill(self, i: int, j: int, out: Array) -> None:
        m, n = out.shape
        if self._is_arrow:
            for k in range(n):
                out[:, k] = self._frame.column(j + k).slice(i, m).to_numpy()
        elif self._is_native:
            out[...] = self._frame.iloc[i:i + m, j:j + n].to_numpy(dtype=out.dtype, na_value=np.nan)
        else:  # some of pandas' versions cannot take several columns of such numbers
            for k in range(n):
                out[:, k] = self._frame.iloc[:, j + k].iloc[i:i + m].to_numpy(dtype=out.dtype, na_value=np.nan)


def _from_frame(frame: Any, dtype: DTypeLike) -> Source:
    """Columns of one NumPy dtype may lie in one array, which pandas then shows without a copy."""
    columns = _Frame(frame, dtype)
    first = frame.iloc[:1]
    is_plain = frame.size > 0 and all(isinstance(kind, np.dtype) for kind in frame.dtypes)
    is_whole = is_plain and np.shares_memory(first.to_numpy(), first.to_numpy())
    return _Array(frame.to_numpy(), dtype) if is_whole else columns


class _Beside(Source):
    """Matrices side by side: columns of numbers, and of lists."""

    is_random = False

    def __init__(self, parts: list[Source], dtype: DTypeLike) -> None:
        self._parts = parts
        self.dtype = gx_dtype(dtype if dtype is not None else np.result_type(*[DTYPES[part.dtype] for part in parts]))
        self.shape = (parts[0].shape[0], sum(part.shape[1] for part in parts))

    def fill(self, i: int, j: int, out: Array) -> None:
        m, n = out.shape
        first = 0
        for part in self._parts:
            low, high = max(j, first), min(j + n, first + part.shape[1])
            if low < high:
                part.fill(i, low - first, out[:, low - j:high - j])
            first += part.shape[1]


def _with_lists(names: list[Any], column: Any, others: Any, dtype: DTypeLike) -> Optional[Source]:
    """A frame some of whose columns are of lists; None: none is.  column, others: of a place, what it holds, a frame of it alone."""
    found = [lists(f"column {name!r}", column(k), dtype) for k, name in enumerate(names)]
    if all(array is None for array in found):
        return None
    parts = [_Array(array, dtype) if array is not None else source(others(k), dtype) for k, array in enumerate(found)]
    return parts[0] if len(parts) == 1 else _Beside(parts, dtype)


class _Rows(Source):
    """Blocks of rows as they come, arrays; what is kept are the rows of one tile."""

    is_random = False

    def __init__(self, blocks: Iterator[Array], rows: int, first: Optional[Array], dtype: DTypeLike, columns: int) -> None:
        self._blocks = blocks
        self._rest = first if first is not None and len(first) > 0 else None  # of the latest block, rows not yet taken
        self._taken = 0
        self._band: Optional[Array] = None
        self._band_row = -1
        self.shape = (rows, columns)
        self.dtype = gx_dtype(dtype)
        if rows == 0:
            self._end()

    def fill(self, i: int, j: int, out: Array) -> None:
        m, n = out.shape
        if i != self._band_row:
            self._band = self._take(m)
            self._band_row = i
            if i + m == self.shape[0]:
                self._end()
        assert self._band is not None
        out[...] = self._band[:, j:j + n]

    def _next(self) -> Optional[Array]:
        return next((block for block in self._blocks if len(block) > 0), None)

    def _take(self, m: int) -> Array:
        band = np.empty((m, self.shape[1]), DTYPES[self.dtype])
        done = 0
        while done < m:
            if self._rest is None:
                self._rest = self._next()
            if self._rest is None:
                raise ValueError(f"gx_sqlite.store: the blocks end after {self._taken} rows of {self.shape[0]}")
            piece = self._rest[:m - done]
            band[done:done + len(piece)] = piece
            done += len(piece)
            self._taken += len(piece)
            self._rest = self._rest[len(piece):] if len(piece) < len(self._rest) else None
        return band

    def _end(self) -> None:
        if self._rest is not None or self._next() is not None:
            raise ValueError(f"gx_sqlite.store: the blocks have more than {self.shape[0]} rows")


def _block(block: Any) -> Array:
    """A block of rows; a flat one is a row."""
    array = plain(block)
    return array.reshape(1, -1) if array.ndim == 1 else two_dimensions(array)


def _like_first(blocks: Iterator[Any], columns: int, dtype: str, is_given: bool) -> Iterator[Array]:
    """The blocks after the first, of its width; their elements are numbers of its dtype, or of one that was asked for."""
    for block in blocks:
        array = _block(block)
        if array.shape[1] != columns:
            raise ValueError(f"gx_sqlite.store: a block of {array.shape[1]} columns, expected {columns}")
        _may_become("a block", array.dtype, dtype)
        if not is_given and np.result_type(DTYPES[gx_dtype(array.dtype)], DTYPES[dtype]) != DTYPES[dtype]:
            raise TypeError(f"gx_sqlite.store: a block of {gx_dtype(array.dtype)} after the first one's {dtype}: dtype= says what all become")
        yield array


def _from_blocks(blocks: Iterator[Any], dtype: DTypeLike, rows: Optional[int]) -> Source:
    count = operator.index(rows) if rows is not None else None
    if count is not None and count < 0:
        raise ValueError(f"gx_sqlite.store: {count} rows")
    first = next((_block(block) for block in blocks), None)
    if first is None:
        first = np.empty((0, 0))
    kind, columns = gx_dtype(dtype if dtype is not None else first.dtype), int(first.shape[1])
    _may_become("a block", first.dtype, kind)
    others = _like_first(blocks, columns, kind, dtype is not None)
    return _Rows(others, count, first, kind, columns) if count is not None else _spooled(first, others, kind)


def _spooled(first: Array, others: Iterator[Array], kind: str) -> Source:
    """How many rows there will be nobody knows: they go to a temporary file first."""
    count, columns = 0, first.shape[1]
    with tempfile.TemporaryFile() as file:
        for block in itertools.chain((first,), others):
            file.write(np.ascontiguousarray(block, DTYPES[kind]).data)
            count += len(block)
        if count * columns == 0:
            return _Array(np.empty((count, columns)), kind)
        file.flush()
        return _Array(np.memmap(file, DTYPES[kind], "r", shape=(count, columns)), kind)


def _from_arrow(data: Any, dtype: DTypeLike) -> Source:
    """A row for each list of a column of lists; of a column of numbers a number, NaN where there is none."""
    if is_list_type(data.type):
        parts, width, element = arrow_parts("the Arrow column", data, dtype)
        if len(parts) == 1:
            return _Array(parts[0], dtype)
        return _Rows(iter(parts), len(data), None, dtype if dtype is not None else element, width)
    try:
        kind = DTYPES[column_dtype(np.dtype(data.type.to_pandas_dtype())) if dtype is None else gx_dtype(dtype)]
    except (NotImplementedError, TypeError):
        if str(data.type).startswith("decimal"):
            raise refuse_decimals("the Arrow column") from None
        raise TypeError(f"gx_sqlite.store: an Arrow column of type {data.type}, expected numbers or lists of numbers") from None
    numbers = data.to_numpy() if hasattr(data, "chunks") else data.to_numpy(zero_copy_only=False)
    return _Array(numbers.astype(kind, copy=False), dtype)


def _from_polars(data: Any, dtype: DTypeLike) -> Source:
    """A Series or a DataFrame of Polars: its columns one by one where some are no plain numbers."""
    if hasattr(data, "collect"):
        raise TypeError("gx_sqlite.store: a LazyFrame has no rows yet: its collect() has")
    columns = [data] if not hasattr(data, "columns") else data.get_columns()
    for column in columns:
        kind = column.dtype
        if str(kind).startswith("Decimal") and dtype is None:
            raise refuse_decimals(f"column {column.name!r}")
        if not (kind.is_numeric() or str(kind) == "Boolean" or hasattr(kind, "inner")):
            raise TypeError(f"gx_sqlite.store: column {column.name!r} is {kind}, not numbers")
    found = _with_lists([column.name for column in columns], lambda k: columns[k], lambda k: columns[k], dtype)
    if found is not None:
        return found
    if any(str(column.dtype).startswith("Decimal") for column in columns):
        return _Array(np.stack([column.cast(float).to_numpy() for column in columns], 1), dtype)
    return _Array(plain(data), dtype)


def _from_relation(data: Any, dtype: DTypeLike) -> Source:
    """A relation of DuckDB, or what a connection of its has executed: its rows, by way of Arrow where that is at hand."""
    for name, kind in zip(getattr(data, "columns", []), getattr(data, "types", [])):
        if str(kind).startswith("DECIMAL") and dtype is None:
            raise refuse_decimals(f"column {name!r}")
    if has_arrow():
        return source((data.to_arrow_table if hasattr(data, "to_arrow_table") else data.fetch_arrow_table)(), dtype)
    parts: list[Source] = []
    for name, column in data.fetchnumpy().items():
        rows = lists(f"column {name!r}", column, dtype)
        if rows is None and column.dtype.kind not in "biufc":
            raise TypeError(f"gx_sqlite.store: column {name!r} is {column.dtype}, not numbers")
        parts.append(_Array(plain(column) if rows is None else rows, dtype))
    return _Beside(parts, dtype)


def source(data: Any, dtype: DTypeLike = None, rows: Optional[int] = None) -> Source:
    """Anything that can be stored as a source; rows: how many blocks of rows will have in all."""
    module = type(data).__module__.split(".")[0]
    if module == "pyarrow" and hasattr(data, "type"):
        return _from_arrow(data, dtype)
    if module == "polars":
        return _from_polars(data, dtype)
    if module in ("duckdb", "_duckdb") and hasattr(data, "fetchnumpy"):
        return _from_relation(data, dtype)
    if hasattr(data, "iloc") and hasattr(data, "dtypes") and getattr(data, "ndim", 0) == 2:
        may_be = any(kind == object or hasattr(kind, "pyarrow_dtype") for kind in data.dtypes)
        found = _with_lists(list(data.columns), lambda k: data.iloc[:, k], lambda k: data.iloc[:, [k]], dtype) if may_be else None
        return found or _from_frame(data, dtype)
    if module == "pyarrow" and hasattr(data, "column_names"):
        return _with_lists(list(data.column_names), data.column, lambda k: data.select([k]), dtype) or _Frame(data, dtype)
    if isinstance(data, (str, Mapping, Set)):
        raise TypeError(f"gx_sqlite.store: a {type(data).__name__} has no rows in an order")
    if isinstance(data, Iterator):
        return _from_blocks(data, dtype, rows)
    is_array = hasattr(data, "__array__") or isinstance(data, (list, tuple, memoryview, arrays.array))
    if isinstance(data, Iterable) and not is_array:
        return _from_blocks(iter(data), dtype, rows)
    try:
        array = plain(data)
    except ValueError:  # NumPy's word for rows of unequal length
        array = np.empty(len(data), object)
        array[:] = data
    if array.dtype == object or hasattr(getattr(data, "dtype", None), "pyarrow_dtype"):
        return _from_objects(data if hasattr(data, "dtype") else array, array, dtype)
    return _Array(array, dtype)


def _from_objects(data: Any, array: Array, dtype: DTypeLike) -> Source:
    name = getattr(data, "name", None)
    what = f"column {name!r}" if name is not None else "the data"
    rows = lists(what, data, dtype) if array.ndim == 1 else None
    if rows is not None:
        return _Array(rows, dtype)
    if array.dtype != object:
        return _Array(array, dtype)
    if dtype is None and isinstance(first_of(array.flat), decimal.Decimal):
        raise refuse_decimals(what)
    if dtype is None or any(isinstance(element, (str, bytes)) for element in array.flat):
        raise TypeError("gx_sqlite.store: elements are Python objects, not numbers")
    return _Array(array.astype(DTYPES[gx_dtype(dtype)]), dtype)
