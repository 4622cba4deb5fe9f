"""Columns whose values are lists of one length: embeddings in a DataFrame, an Arrow list column.  Each list is a row.

What the lists are of is found out without converting them one by one where the elements lie together (Arrow); Python's own
lists and arrays are looked at one after the other.
"""
from __future__ import annotations

import decimal
import importlib.util
from typing import Any, Optional, Sequence

import numpy as np

from ._values import DTYPES, Array, DTypeLike, column_dtype


def has_arrow() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


def refuse_decimals(what: str) -> TypeError:
    return TypeError(f"gx_sqlite.store: {what} is of decimals, which binary numbers do not hold: dtype='f64' says that each becomes "
                     f"the nearest one")


def first_of(values: Any) -> Any:
    """The first that is there, of an array of objects; None: there is none."""
    return next((value for value in values if value is not None and not (isinstance(value, float) and value != value)), None)


def lists(what: str, column: Any, dtype: DTypeLike = None) -> Optional[Array]:
    """The rows that a column of lists is; None: it is no such column.  what: how messages call it, "column 'v'"; dtype: what
    decimals become."""
    module = type(column).__module__.split(".")[0]
    if module == "pyarrow":
        return _of_arrow(what, column, dtype) if is_list_type(column.type) else None
    if module == "polars":
        if not column.dtype.is_nested() or not hasattr(column.dtype, "inner"):
            return None
        return _of_arrow(what, column.to_arrow(), dtype) if has_arrow() else _of_objects(what, column.to_list(), dtype)
    inside = getattr(getattr(column, "dtype", None), "pyarrow_dtype", None)  # pandas' ArrowDtype
    if inside is not None:
        return _of_arrow(what, column.array.__arrow_array__(), dtype) if is_list_type(inside) else None
    if getattr(column, "dtype", None) != object:
        return None
    values = column.to_numpy() if hasattr(column, "to_numpy") else column
    return _of_objects(what, values, dtype) if isinstance(first_of(values), (list, tuple, np.ndarray, bytes)) else None


def is_list_type(kind: Any) -> bool:
    return hasattr(kind, "value_type") and str(kind).startswith(("list", "large_list", "fixed_size_list", "list_view", "large_list_view"))


# Arrow ----------------------------------------------------------------------------------------------------------------

def arrow_parts(what: str, column: Any, dtype: DTypeLike) -> tuple[list[Array], int, Any]:
    """The rows of each chunk, their width, the dtype of their elements."""
    kind = column.type.value_type
    is_decimal = str(kind).startswith("decimal")
    if is_decimal and dtype is None:
        raise refuse_decimals(what)
    try:
        element = DTYPES["f64"] if is_decimal else DTYPES[column_dtype(np.dtype(kind.to_pandas_dtype()))]
    except (NotImplementedError, TypeError):
        raise TypeError(f"gx_sqlite.store: {what} is of type {column.type}, expected numbers or lists of numbers") from None
    parts, width, row = [], getattr(column.type, "list_size", -1), 0
    for chunk in column.chunks if hasattr(column, "chunks") else [column]:
        width = _check_chunk(what, chunk, width, row)
        flat = chunk.flatten()
        if flat.null_count:
            at = int(np.flatnonzero(flat.is_null().to_numpy(zero_copy_only=False))[0])
            raise ValueError(f"gx_sqlite.store: {flat.null_count} elements of {what} are null, the first in row {row + at // width}")
        numbers = flat.to_numpy(zero_copy_only=str(kind) != "bool" and not is_decimal)
        parts.append(numbers.astype(element, copy=False).reshape(len(chunk), max(width, 0)))
        row += len(chunk)
    return parts, max(width, 0), element


def _check_chunk(what: str, chunk: Any, width: int, row: int) -> int:
    """The length of its lists, of which none may be missing; width -1: that of the first."""
    if chunk.null_count:
        at = int(np.flatnonzero(chunk.is_null().to_numpy(zero_copy_only=False))[0])
        raise ValueError(f"gx_sqlite.store: {chunk.null_count} lists of {what} are null, the first in row {row + at}")
    if hasattr(chunk.type, "list_size") or len(chunk) == 0:
        return width
    lengths = np.asarray(chunk.value_lengths().to_numpy(zero_copy_only=False))
    width = int(lengths[0]) if width < 0 else width
    other = np.flatnonzero(lengths != width)
    if len(other):
        raise _unequal(what, row + int(other[0]), int(lengths[other[0]]), width)
    return width


def _of_arrow(what: str, column: Any, dtype: DTypeLike) -> Array:
    parts, width, element = arrow_parts(what, column, dtype)
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty((0, width), element)


# Objects --------------------------------------------------------------------------------------------------------------

def _unequal(what: str, row: int, length: int, expected: int) -> ValueError:
    return ValueError(f"gx_sqlite.store: row {row} of {what} has {length} elements, expected {expected}")


def _one(what: str, row: int, value: Any, dtype: DTypeLike) -> Array:
    if isinstance(value, bytes):
        raise TypeError(f"gx_sqlite.store: row {row} of {what} is {len(value)} bytes, which do not say what their numbers are: "
                        f"numpy.frombuffer(row, '<f4') does")
    if not isinstance(value, (list, tuple, np.ndarray)):
        raise ValueError(f"gx_sqlite.store: row {row} of {what} is {str(value)[:40]}, not a list")
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.empty((0, 0, 0))
    if array.ndim != 1:
        raise ValueError(f"gx_sqlite.store: row {row} of {what} has lists in it, expected numbers")
    if len(array) == 0:
        return np.empty(0)
    if array.dtype == object and isinstance(first_of(array), decimal.Decimal):
        if dtype is None:
            raise refuse_decimals(what)
        return array.astype(DTYPES["f64"])
    try:
        return array.astype(DTYPES[column_dtype(array.dtype)], copy=False)
    except TypeError:
        raise TypeError(f"gx_sqlite.store: row {row} of {what} has elements that are no numbers ({array.dtype})") from None


def _of_objects(what: str, values: Sequence[Any], dtype: DTypeLike) -> Array:
    rows = [_one(what, row, value, dtype) for row, value in enumerate(values)]
    width = len(rows[0]) if rows else 0
    for row, found in enumerate(rows):
        if len(found) != width:
            raise _unequal(what, row, len(found), width)
    return np.stack(rows) if rows else np.empty((0, 0))
