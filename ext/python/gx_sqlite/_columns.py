"""Names of columns: a data frame's, kept beside the matrix that was stored of it, in a table of the same schema.

    CREATE TABLE gx_python_columns(generation INTEGER PRIMARY KEY, names TEXT)     -- of gx_meta; a JSON list

Every write gives a matrix another generation, which is never used again: elements that somebody has changed have no names any more.
"""
from __future__ import annotations

import json
from typing import Any, Optional

from . import _connect

_MODULES = ("polars", "pyarrow", "duckdb", "_duckdb")
_TABLE = "gx_python_columns"


def of_data(data: Any) -> Optional[list[str]]:
    """What the columns of a data frame, a table or a relation are called; None: nothing, or only numbers."""
    is_frame = type(data).__module__.split(".")[0] in _MODULES or hasattr(data, "iloc")
    if not is_frame or hasattr(data, "collect"):  # Polars' LazyFrame has none yet
        return None
    for attribute in ("column_names", "columns"):
        names = getattr(data, attribute, None)
        if names is not None and not callable(names):
            found = [str(name) for name in names]
            return found if any(isinstance(name, str) for name in names) else None
    name = getattr(data, "name", None)  # of a Series
    return [name] if isinstance(name, str) and hasattr(data, "dtype") else None


def keep(db: Any, matrix: str, names: list[str]) -> None:
    """Beside a matrix that has just been stored.  The statements begin with WITH: sqlite3 opens no transaction for them, so that
    they are part of the one that is open, or of none."""
    schema, generation, cols = _place(db, matrix)
    if cols != len(names):  # a column of lists became several
        return
    try:
        _connect.rows(db, f"CREATE TABLE IF NOT EXISTS {schema}.{_TABLE}(generation INTEGER PRIMARY KEY, names TEXT)")
        _connect.rows(db, f"WITH there(g) AS (SELECT generation FROM {schema}.gx_meta) "
                          f"DELETE FROM {schema}.{_TABLE} WHERE generation NOT IN (SELECT g FROM there)")
        _connect.rows(db, f"WITH given(g, names) AS (VALUES (?, ?)) INSERT INTO {schema}.{_TABLE} SELECT g, names FROM given",
                      (generation, json.dumps(names)))
    except Exception as problem:
        if "not authorized" not in str(problem):  # by the application: the matrix is stored without names
            raise


def of_matrix(db: Any, matrix: str) -> Optional[list[str]]:
    schema, generation, cols = _place(db, matrix)
    if not _connect.rows(db, f"SELECT 1 FROM {schema}.sqlite_master WHERE name = ?", (_TABLE,)):
        return None
    for text, in _connect.rows(db, f"SELECT names FROM {schema}.{_TABLE} WHERE generation = ?", (generation,)):
        names = json.loads(text)
        if isinstance(names, list) and len(names) == cols:
            return [str(name) for name in names]
    return None


def _place(db: Any, matrix: str) -> tuple[str, int, int]:
    """The matrix's schema, quoted, its generation and how many columns it has."""
    about: dict[str, Any] = json.loads(_connect.value(db, "SELECT gx_info(?)", (matrix,)))
    return '"' + about["schema"].replace('"', '""') + '"', about["generation"], about["cols"]
