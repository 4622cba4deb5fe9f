"""Matrix values, gx's BLOBs: a header of 32 bytes, then the elements by columns."""
from __future__ import annotations

import struct
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
DTypeLike = Any  # whatever np.dtype() takes, or gx's word; None: that of the data
Buffer = Union[bytes, bytearray, memoryview]

try:
    from ml_dtypes import bfloat16 as _bfloat16  # NumPy has none of its own
except ImportError:
    _bfloat16 = "V2"  # two bytes without a type, which go in and out as they are

DTYPES: dict[str, np.dtype[Any]] = {
    "f64": np.dtype("<f8"), "f32": np.dtype("<f4"), "c128": np.dtype("<c16"), "c64": np.dtype("<c8"),
    "f16": np.dtype("<f2"), "u8": np.dtype("|u1"), "bool": np.dtype("|b1"), "i8": np.dtype("|i1"), "u16": np.dtype("<u2"),
    "i16": np.dtype("<i2"), "u32": np.dtype("<u4"), "i32": np.dtype("<i4"), "bf16": np.dtype(_bfloat16), "i64": np.dtype("<i8"),
    "m31": np.dtype("<u4")}  # whole numbers modulo 2^31 - 1
BY_NUMBER = list(DTYPES)  # as in the header and in gx_meta
NUMBERS = BY_NUMBER[:4]  # what is computed with, and what sparse matrices have; the others are stored
HEADER = struct.Struct("<4sBBHqqq")
MASKED: Any = np.ma  # of functions that not all releases of NumPy give types


def gx_dtype(dtype: DTypeLike) -> str:
    """The dtype of gx that holds all numbers of a NumPy dtype; uint64 becomes f64, rounded beyond 2^53."""
    if isinstance(dtype, str) and dtype in DTYPES:
        return dtype
    kind = np.dtype(dtype)
    for name, known in DTYPES.items():
        if kind.newbyteorder("<") == known:
            return name
    if kind.kind in "biu":
        return "f64"
    raise TypeError(f"gx_sqlite: elements of type {kind} are not numbers that gx keeps ({', '.join(DTYPES)}; uint64 becomes f64)")


def column_dtype(dtype: DTypeLike) -> str:
    """The dtype of a frame's column: whole numbers and booleans become f64, which has NaN for those that are missing."""
    name = gx_dtype(dtype)
    return "f64" if name in ("bool", "i8", "u16", "i16", "u32", "i32", "i64") else name


def gx_number(dtype: DTypeLike) -> str:
    """What gx computes with such elements: their own dtype, or the one that a dtype which is only stored widens to."""
    name = gx_dtype(dtype)
    return name if name in NUMBERS or name == "m31" else "f64" if name in ("u32", "i32", "i64") else "f32"


def empty(shape: tuple[int, int], name: str, spare: bytearray = bytearray()) -> tuple[bytearray, Array]:
    """A matrix value to be filled, and the array that is its elements; in the spare one's memory where that fits."""
    dtype = DTYPES[name]
    size = HEADER.size + shape[0] * shape[1] * dtype.itemsize
    blob = spare if len(spare) == size else bytearray(size)
    HEADER.pack_into(blob, 0, b"gxmv", 1, BY_NUMBER.index(name), 0, shape[0], shape[1], 0)
    elements = np.frombuffer(blob, dtype, offset=HEADER.size).reshape((shape[1], shape[0])).T
    return blob, elements


def plain(data: Any) -> Array:
    """An array of it; what is masked is missing, NaN."""
    if isinstance(data, MASKED.MaskedArray) and MASKED.is_masked(data):
        kind = data.dtype if data.dtype.kind in "fc" else np.dtype(np.float64)
        return np.asarray(MASKED.filled(data.astype(kind), np.nan))
    array = np.asarray(data)
    if array.dtype.kind in "bi" and not hasattr(data, "dtype"):  # Python's own numbers have no size: f64 where that holds them
        wide = array.astype(np.float64)
        return wide if np.array_equal(wide.astype(array.dtype), array) else array
    return array


def pack(data: Any) -> bytearray:
    """An array of at most two dimensions, or what becomes one, as a matrix value."""
    two = two_dimensions(plain(data))
    blob, elements = empty((two.shape[0], two.shape[1]), gx_dtype(two.dtype))
    elements[...] = two
    return blob


def unpack(blob: Buffer) -> Array:
    """A matrix value as an array: its own bytes, by columns, not to be written."""
    if len(blob) < HEADER.size or bytes(blob[:4]) != b"gxmv":
        raise ValueError(f"gx_sqlite.fetch: a blob of {len(blob)} bytes that is no matrix value (no 'gxmv' in front)")
    _, version, number, _, m, n, _ = HEADER.unpack_from(blob)
    if version != 1 or number >= len(BY_NUMBER):
        raise ValueError(f"gx_sqlite.fetch: a matrix value of version {version} and dtype {number}, which this release "
                         f"does not know")
    dtype = DTYPES[BY_NUMBER[number]]
    if m < 0 or n < 0 or len(blob) != HEADER.size + m * n * dtype.itemsize:
        raise ValueError(f"gx_sqlite.fetch: a matrix value of {len(blob)} bytes whose header says {m}x{n} {dtype}")
    elements: Array = np.frombuffer(blob, dtype, offset=HEADER.size).reshape((n, m)).T
    return elements


def two_dimensions(array: Array) -> Array:
    """A vector is a column, a number 1 x 1."""
    if array.ndim > 2:
        raise ValueError(f"gx_sqlite.store: an array of {array.ndim} dimensions: a matrix has two")
    return array if array.ndim == 2 else array.reshape(-1, 1)
