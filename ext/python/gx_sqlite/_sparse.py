"""Sparse matrices of SciPy's and gx's sparse values (docs/format.md), where SciPy is installed.

A sparse value is a header and one panel: row starts, column indexes, values, each at a multiple of 8 bytes.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from ._values import BY_NUMBER, DTYPES, HEADER, Array, Buffer, DTypeLike, gx_dtype

_INDEX_32 = 1 << 31  # columns up to here have indexes of 4 bytes
SPARSE = 1  # in a value's header


def is_scipy(data: Any) -> bool:
    return type(data).__module__.split(".")[0] == "scipy" and hasattr(data, "tocoo")


def is_sparse_value(blob: Buffer) -> bool:
    return len(blob) >= HEADER.size and bytes(blob[:4]) == b"gxmv" and HEADER.unpack_from(blob)[3] == SPARSE


def _parts(m: int, n: int, entries: int, dtype: np.dtype[Any]) -> tuple[list[tuple[int, str, int]], int]:
    """Where each part begins, its dtype and count; and the bytes of it all."""
    at, parts = HEADER.size, []
    for kind, count in (("<u4", m + 1), ("<i4" if n <= _INDEX_32 else "<i8", entries), (dtype.str, entries)):
        parts.append((at, kind, count))
        at += -(-count * np.dtype(kind).itemsize // 8) * 8
    return parts, at


def pack_sparse(data: Any, dtype: DTypeLike = None) -> bytearray:
    """A sparse matrix of any of SciPy's formats as a value; entries that are there twice are added up."""
    rows = data.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy() if rows is data else rows
        rows.sum_duplicates()
    name = gx_dtype(dtype if dtype is not None else rows.dtype)
    if rows.dtype.kind == "c" and not name.startswith("c"):
        raise TypeError(f"gx_sqlite.store: the matrix is {rows.dtype} and {name} would lose the imaginary part")
    (m, n), entries = rows.shape, int(rows.nnz)
    parts, size = _parts(m, n, entries, DTYPES[name])
    blob = bytearray(size)
    HEADER.pack_into(blob, 0, b"gxmv", 1, BY_NUMBER.index(name), SPARSE, m, n, entries)
    for (at, kind, count), source in zip(parts, (rows.indptr, rows.indices, rows.data)):
        np.frombuffer(blob, kind, count, at)[...] = source[:count]
    return blob


def unpack_sparse(blob: Buffer) -> Any:
    """A sparse value as a csr_matrix; f16 and bf16, which SciPy does not know, as float32."""
    try:
        from scipy.sparse import csr_matrix
    except ImportError:
        raise ImportError("gx_sqlite.fetch: the matrix is sparse and SciPy is not installed (pip install scipy, or "
                          "gx_dense)") from None
    _, version, number, _, m, n, entries = HEADER.unpack_from(blob)
    if version != 1 or number >= len(BY_NUMBER) or m < 0 or n < 0 or not 0 <= entries <= len(blob):
        raise ValueError(f"gx_sqlite.fetch: a sparse value of version {version} and dtype {number}, {m}x{n} with {entries} "
                         f"entries, which cannot be")
    parts, size = _parts(m, n, entries, DTYPES[BY_NUMBER[number]])
    if size != len(blob):
        raise ValueError(f"gx_sqlite.fetch: a sparse value of {len(blob)} bytes whose header says {size}")
    starts, columns, values = (np.frombuffer(blob, kind, count, at) for at, kind, count in parts)
    _check_rows(starts, columns, n, entries)
    if BY_NUMBER[number] == "bf16":
        values = (values.view("<u2").astype("<u4") << 16).view("<f4")
    elif BY_NUMBER[number] == "f16":
        values = values.astype("<f4")
    result = csr_matrix((values.copy(), columns.copy(), starts.astype(np.int64)), shape=(m, n))
    result.has_canonical_format = True
    return result


def _check_rows(starts: Array, columns: Array, n: int, entries: int) -> None:
    """SciPy's functions believe the indexes."""
    is_right = bool(starts[0] == 0 and starts[-1] == entries and (starts[1:] >= starts[:-1]).all())
    if is_right and entries > 0:
        begins = np.zeros(entries + 1, bool)
        begins[starts] = True
        is_right = bool(columns.min() >= 0 and columns.max() < n and ((columns[1:] > columns[:-1]) | begins[1:-1]).all())
    if not is_right:
        raise ValueError("gx_sqlite.fetch: a sparse value whose rows are damaged")
