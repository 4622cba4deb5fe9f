"""Arrays lent to gx: it copies straight out of them and into them, with several threads.

gx.so has two functions for C (ext/gx.h): gx_lend gives an array a token, which means it in gx_from_memory and
gx_to_memory until gx_lend_end.  A token is good in the gx.so that made it: where a connection has another one loaded,
the call fails before anything has been done, and the caller goes the long way.
"""
from __future__ import annotations

import contextlib
import ctypes
import functools
from typing import Any, Callable, Iterator, Optional

from . import _connect
from ._values import DTYPES, Array

_TOKEN_BYTES = 33
_UNKNOWN = "this token stands for no array"


@functools.lru_cache(maxsize=None)
def _functions(path: str) -> Optional[tuple[Callable[..., int], Callable[..., None]]]:
    try:
        library = ctypes.CDLL(path)
        lend, end = library.gx_lend, library.gx_lend_end
    except (OSError, AttributeError):  # of an earlier gx, or for another machine
        return None
    lend.argtypes = [ctypes.c_void_p, ctypes.c_char_p, *[ctypes.c_int64] * 4, ctypes.c_int, ctypes.c_char_p]
    end.argtypes, end.restype = [ctypes.c_char_p], None
    return lend, end


@contextlib.contextmanager
def lent(array: Array, is_writable: bool) -> Iterator[Optional[str]]:
    """The token of an array of two dimensions while this lasts; None where gx cannot take it as it is."""
    functions = _functions(_connect.library())
    names = [name for name, dtype in DTYPES.items() if dtype == array.dtype and array.dtype.isnative]
    token = ctypes.create_string_buffer(_TOKEN_BYTES)
    steps = [stride // array.itemsize for stride in array.strides]
    flags = array.flags
    is_fit = flags.aligned and all(stride % array.itemsize == 0 for stride in array.strides)
    if is_writable:
        is_fit = is_fit and flags.writeable and (flags.c_contiguous or flags.f_contiguous)
    if array.size == 1:  # the stride along a side of one element says nothing
        steps = [1, 1]
    elif array.shape[0] == 1:
        steps[0] = array.shape[1] if steps[1] == 1 else 1
    elif array.shape[1] == 1:
        steps[1] = array.shape[0] if steps[0] == 1 else 1
    if functions is None or not names or not is_fit or array.size == 0:
        yield None
        return
    lend, end = functions
    if lend(array.ctypes.data, names[0].encode(), *array.shape, *steps, int(is_writable), token) != 0:
        yield None
        return
    try:
        yield token.value.decode()
    finally:
        end(token.value)


def call(db: Any, sql: str, parameters: tuple[Any, ...]) -> bool:
    """A statement with a token in it; False: this connection's gx does not know it, and nothing was done."""
    try:
        _connect.value(db, sql, parameters)
    except Exception as problem:
        if _UNKNOWN in str(problem) or "no such function: gx_" in str(problem):
            return False
        raise
    return True
