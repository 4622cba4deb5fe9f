"""Connections: loading gx into them, and the few things this package asks of any of them.

A connection may be sqlite3's, pysqlite3's (its twin), apsw's, or SQLAlchemy's, which has one of these inside.
"""
from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import shutil
import sqlite3
import tempfile
import threading
from importlib import import_module
from typing import Any, Callable, Iterator, Optional, Sequence, Union

from . import _interrupts, _notebook

Row = Sequence[Any]

_copies: list[tempfile.TemporaryDirectory[str]] = []  # of gx.so, as long as the process lives
_loading = threading.Lock()  # what is prepared for a connection is for that one
_MEMORY = "out of memory: gx may use {} bytes here (gx_config('memory_limit'))"


class NoExtensions(sqlite3.NotSupportedError):
    """The interpreter's sqlite3 module was built without the loading of extensions."""


def library() -> str:
    """The path of gx.so: of the environment variable GX_SO, or the one that came with this package."""
    chosen = os.environ.get("GX_SO")
    if chosen:
        return chosen
    return str(pathlib.Path(__file__).with_name("gx.so"))


def load(db: Any, *, safe: bool = False) -> None:
    """Load gx into a connection; of an SQLAlchemy engine, into each connection it makes from now on.

    safe=True is for SQL that comes from strangers: no function touches a file but the connection's databases, and the
    settings are locked.  A connection that has gx already is restricted so from then on."""
    if _module(db) == "sqlalchemy" and hasattr(db, "pool"):
        _load_engine(db, safe)
        return
    load_for(driver(db), safe, not _interrupts.has_callbacks(driver(db)))
    if not safe:
        _show_progress(db)


def load_for(raw: Any, safe: bool, is_all: bool) -> None:
    """is_all: Control-C ends statements without gx too, by the connection's progress handler."""
    if not hasattr(raw, "enable_load_extension"):
        raise NoExtensions(
            "gx_sqlite.load: this Python's sqlite3 module cannot load extensions (it was built without "
            "--enable-loadable-sqlite-extensions): connect with apsw (pip install apsw) or pysqlite3 "
            "(pip install pysqlite3-binary) instead, or use another Python, such as the system's")
    path = library()
    if not os.path.exists(path):
        raise FileNotFoundError(f"gx_sqlite.load: there is no {path}; GX_SO names another file")
    with _loading:
        raw.enable_load_extension(True)
        try:
            _load_into(raw, path, safe, is_all)
        finally:
            raw.enable_load_extension(False)


def probe() -> None:
    """Raises what loading gx would, before a file is made for a connection that could not have it."""
    with contextlib.closing(sqlite3.connect(":memory:")) as first:
        load(first)


def connect(database: Union[str, bytes, os.PathLike[str]], **options: Any) -> sqlite3.Connection:
    """sqlite3.connect(database, **options) with gx loaded."""
    if os.fsencode(database) not in (b"", b":memory:"):
        probe()
    db: sqlite3.Connection = sqlite3.connect(database, **options)
    try:
        load_for(db, False, "factory" not in options or not _interrupts.has_callbacks(db))
        _show_progress(db)
    except BaseException:
        db.close()
        raise
    return db


def _load_into(raw: Any, path: str, safe: bool, is_all: bool) -> None:
    """gx.so calls one SQLite library; where the process has several, each but the first gets a copy of its own."""
    error = _module_error(raw)
    for k in itertools.count():
        try:
            _interrupts.prepare(path, error, is_all)
            if safe:  # sqlite3's load_extension() takes an entry point from Python 3.12 on
                list(raw.execute("SELECT load_extension(?, 'sqlite3_gx_safe_init')", (path,)))
            else:
                raw.load_extension(path)
            return
        except Exception as problem:
            if "another SQLite library" not in str(problem):
                raise
        if k == len(_copies):
            _copies.append(tempfile.TemporaryDirectory(prefix="gx-sqlite-"))
            shutil.copy(library(), os.path.join(_copies[k].name, "gx.so"))
        path = os.path.join(_copies[k].name, "gx.so")


def _module_error(raw: Any) -> type:
    """What the connection's module raises where a statement was interrupted."""
    found: type = import_module("apsw").InterruptError if _module(raw) == "apsw" else raw.OperationalError
    return found


def _load_engine(engine: Any, safe: bool) -> None:
    from sqlalchemy import event

    def loads(connection: Any, _record: Any) -> None:
        load(connection, safe=safe)

    event.listen(engine, "connect", loads)
    engine.dispose()  # connections made before have not gx


def _show_progress(db: Any) -> None:
    """In a notebook, of the connections that its cells make; not where somebody has locked the settings."""
    if _notebook.kernel() is not None and threading.current_thread() is threading.main_thread():
        with contextlib.suppress(Exception):
            progress(db)


def progress(db: Any, on: bool = True) -> None:
    """Show how far long calls of this connection are, or no longer: in a notebook, where it is so from the beginning, by a bar
    under the cell, elsewhere by a line on stderr."""
    how = "off" if not on else "on"
    if on and _notebook.kernel() is not None:
        how = "gx_python_progress"
        bars = _notebook.Bars()

        def report(label: str, fraction: float, seconds: float) -> int:
            try:
                bars(label, fraction, seconds)
            except KeyboardInterrupt as interrupt:
                _interrupts.ending_by(interrupt)
                return 1
            except Exception:  # a call does not fail because it cannot be shown
                pass
            return 0

        _define(driver(db), how, report, 3)
    value(db, "SELECT gx_config('progress', ?)", (how,))


def _module(thing: object) -> str:
    return type(thing).__module__.split(".")[0]


def driver(db: Any) -> Any:
    """The connection itself: what is inside one of SQLAlchemy's."""
    if _module(db) == "sqlalchemy":
        if callable(getattr(db, "connection", None)):  # a Session
            db = db.connection()
        inner = db if hasattr(db, "driver_connection") else db.connection
        return inner.driver_connection
    return db


def rows(db: Any, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
    """All rows of a statement."""
    with _texts(db):
        return list(driver(db).execute(sql, tuple(parameters)))


def each(db: Any, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
    """The rows of a statement, one after the other."""
    with _texts(db):
        yield from driver(db).execute(sql, tuple(parameters))


def value(db: Any, sql: str, parameters: Sequence[Any] = ()) -> Any:
    """The one value of the one row."""
    return rows(db, sql, parameters)[0][0]


@contextlib.contextmanager
def _texts(db: Any) -> Iterator[None]:
    """sqlite3 raises a MemoryError that says nothing; this one says what the limit is."""
    try:
        yield
    except MemoryError as problem:
        if problem.args:
            raise
        limit = list(driver(db).execute("SELECT gx_config('memory_limit')"))[0][0]
        raise MemoryError(_MEMORY.format(limit)) from problem


_numbers = itertools.count()
_RAISED = "user-defined function raised exception"


@contextlib.contextmanager
def function(db: Any, body: Callable[..., Any], count: int) -> Iterator[str]:
    """An SQL function of `count` arguments for a while, and its name.  What it raises is raised here as it is, not as
    "user-defined function raised exception"."""
    bodies, raised = [body], []

    def guarded(*arguments: Any) -> Any:
        try:
            return bodies[0](*arguments)
        except BaseException as problem:
            raised.append(problem)
            raise

    raw, name = driver(db), f"gx_python_{next(_numbers)}"
    _define(raw, name, guarded, count)
    try:
        yield name
    except Exception as problem:
        if raised:
            raise raised[0] from None
        if _RAISED in str(problem) and _interrupts.is_raised_by_signal():  # before the first line of guarded()
            raise KeyboardInterrupt from None
        raise
    finally:
        bodies.clear()
        with contextlib.suppress(Exception):  # SQLite keeps functions while statements run: an empty one does no harm
            _define(raw, name, None, count)


def _define(raw: Any, name: str, body: Optional[Callable[..., Any]], count: int) -> None:
    if _module(raw) == "apsw":
        raw.create_scalar_function(name, body, count)
    else:
        raw.create_function(name, count, body)
