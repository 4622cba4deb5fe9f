"""Names of columns: a data frame's, kept with the matrix that was stored of it (gx_set_labels)."""
from __future__ import annotations

import json
from typing import Any, Optional

from . import _connect

_MODULES = ("polars", "pyarrow", "duckdb", "_duckdb")


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
    """Of a matrix that has just been stored, in the transaction that is open, or in none."""
    if _connect.value(db, "SELECT gx_cols_count(?)", (matrix,)) != len(names):  # a column of lists became several
        return
    try:
        _connect.value(db, "SELECT gx_set_labels(?, 1, ?)", (matrix, json.dumps(names)))
    except Exception as problem:
        if "not authorized" not in str(problem):  # by the application: the matrix is stored without names
            raise


def of_matrix(db: Any, matrix: str) -> Optional[list[str]]:
    """Where a column has none, its number."""
    text = _connect.value(db, "SELECT gx_labels(?, 1)", (matrix,))
    return None if text is None else [str(k) if name is None else name for k, name in enumerate(json.loads(text))]
