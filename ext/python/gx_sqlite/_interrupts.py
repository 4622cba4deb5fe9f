"""Control-C: statements of the main thread end with KeyboardInterrupt while gx or SQLite computes.

Python's own handler of signals notes that SIGINT came; KeyboardInterrupt is raised when Python code runs again, which
may be an hour later.  gx.so has gx_on_signal() (ext/gx.h) for that: the statement asks whether SIGINT still waits, and
ends.  Only where SIGINT raises KeyboardInterrupt is the statement ended: an application with another handler decides
itself, and no handler runs within a statement.

The module of the connection makes its own error of such an end (sqlite3.OperationalError: interrupted).  Until that
error is made its class has an __init__, in which the KeyboardInterrupt that waits is raised instead.
"""
from __future__ import annotations

import ctypes
import functools
import gc
import itertools
import operator
import signal
import threading
from importlib import import_module
from typing import Any, Callable, Optional

_taken: list[BaseException] = []  # KeyboardInterrupt that was raised in a function that SQLite called
_errors: list[type] = []  # of interrupted statements, of each module whose connections have gx


def _raise_what_waits(error: BaseException, *arguments: Any) -> None:
    """An error's __init__ for once.  The signal's handler is called as this begins, by Python."""
    if threading.current_thread() is threading.main_thread():
        forget()
        if _taken:
            raise _taken.pop()
    signal.pthread_sigmask(signal.SIG_BLOCK, ())  # calls what has not been called yet


def forget() -> None:
    """The errors are as they were."""
    for error in _errors:
        if error.__dict__.get("__init__") is _raise_what_waits:
            del error.__init__  # type: ignore[misc]


def _ending() -> None:
    """A statement ends by SIGINT: the error of that is to be KeyboardInterrupt."""
    for error in _errors:
        error.__init__ = _raise_what_waits  # type: ignore[misc]


def ending_by(interrupt: BaseException) -> None:
    """A function that SQLite calls has caught this and will make the statement end; then it is raised."""
    _taken[:] = [interrupt]
    _ending()


# Whether SIGINT raises KeyboardInterrupt, by functions in C alone: Python code would call handlers that wait.
_is_default = map(operator.is_, map(import_module("_signal").getsignal, itertools.repeat(signal.SIGINT)),
                  itertools.repeat(signal.default_int_handler)).__next__


class _Signal(ctypes.Structure):
    """gx_signal of ext/gx.h."""

    _asks, _does = ctypes.CFUNCTYPE(ctypes.c_int), ctypes.CFUNCTYPE(None)
    _fields_ = [("number", ctypes.c_int), ("thread", ctypes.c_uint64), ("may_end", _asks), ("take", _asks),
                ("ending", _does), ("again", ctypes.c_void_p)]


@functools.lru_cache(maxsize=None)
def _watch(path: str) -> Optional[Callable[[bool], Any]]:
    """gx_on_signal() of that gx.so; None: this Python, or an earlier gx, has not what it takes."""
    try:
        on_signal = ctypes.CDLL(path).gx_on_signal
        take, again = ctypes.pythonapi.PyOS_InterruptOccurred, ctypes.pythonapi.PyErr_SetInterrupt
    except (OSError, AttributeError):
        return None
    take.restype, take.argtypes = ctypes.c_int, ()
    sigint = _Signal(signal.SIGINT, threading.main_thread().ident, _Signal._asks(_is_default), _Signal._asks(take),
                     _Signal._does(_ending), ctypes.cast(again, ctypes.c_void_p))
    return lambda is_all: on_signal(ctypes.byref(sigint), int(is_all))


def is_raised_by_signal() -> bool:
    """Whether what a function of ours raised outside of its `try` was KeyboardInterrupt: a signal's handler alone raises
    there, as Python runs it before the function's first line."""
    return (threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler)


def prepare(path: str, error: type, is_all: bool) -> None:
    """Before gx is loaded from that path into a connection; error: of its interrupted statements; is_all: it ends them
    all, by SQLite's progress handler, not only those that call gx."""
    watch = _watch(path)
    if watch is not None:
        if error not in _errors:
            _errors.append(error)
        watch(is_all)


def has_callbacks(raw: Any) -> bool:
    """Whether a connection has functions of the application that SQLite calls, of which one may be a progress handler."""
    held = [one for one in gc.get_referents(raw) if callable(one) and not isinstance(one, (type, functools._lru_cache_wrapper))]
    own = (raw.row_factory, raw.text_factory) if hasattr(raw, "text_factory") else ()
    return not gc.is_tracked(raw) or any(one not in own for one in held)
