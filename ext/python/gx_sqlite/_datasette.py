"""gx in Datasette, which finds this module by the entry point of the package and calls it for each connection it makes.

Its SQL comes from strangers: gx is loaded with safe=True.  A call of gx that lasts longer than Datasette's limit for a query
ends; settings of "plugins": {"gx-sqlite": {"memory_limit": ...}} are those of gx_config.
"""
from __future__ import annotations

from typing import Any

from datasette import hookimpl

from . import _connect

PLUGIN = "gx-sqlite"
_LIMIT = "gx_python_limit"


@hookimpl  # type: ignore[untyped-decorator, unused-ignore]
def prepare_connection(conn: Any, database: str, datasette: Any) -> None:
    limit = datasette.setting("sql_time_limit_ms") / 1000

    def is_over(_label: str, _fraction: float, seconds: float) -> int:
        return int(0 < limit < seconds)

    _connect.load_for(conn, safe=False, is_all=False)  # Datasette has a progress handler of its own for plain SQL
    conn.create_function(_LIMIT, 3, is_over)
    settings = {"progress": _LIMIT, **(datasette.plugin_config(PLUGIN, database=database) or {})}
    for key, value in settings.items():
        _connect.value(conn, "SELECT gx_config(?, ?)", (key, value))
    _connect.load_for(conn, safe=True, is_all=False)
