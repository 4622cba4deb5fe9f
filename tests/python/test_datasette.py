"""gx in Datasette: the plugin that the package's entry point names.

Plan: the wheel names it; a query over HTTP has gx, computes and is restricted; a call of gx ends at Datasette's limit of time;
settings of the plugin, and one that is refused; a database in a file, read only.
"""
import asyncio
import sys
import time

import gx_sqlite as gx
import numpy as np
import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "ext" / "python"))
import backend  # noqa: E402


def test_the_entry_point():
    assert b"[datasette]\ngx-sqlite = gx_sqlite._datasette\n" in backend._about()["entry_points.txt"]
    assert '[project.entry-points.datasette]\ngx-sqlite = "gx_sqlite._datasette"' in (ROOT / "ext/python/pyproject.toml").read_text()


@pytest.fixture
def ask():
    """The JSON of a query to a Datasette of these files and settings."""
    app = pytest.importorskip("datasette.app")
    plugins = pytest.importorskip("datasette.plugins")
    from gx_sqlite import _datasette
    plugins.pm.register(_datasette, "gx-sqlite")

    def answer(sql, files=(), path="/_memory", **options):
        async def get():
            datasette = app.Datasette(files=files, memory=True, **options)
            return (await datasette.client.get(f"{path}.json", params={"sql": sql, "_shape": "arrays"})).json()
        return asyncio.run(get())

    yield answer
    plugins.pm.unregister(name="gx-sqlite")


def test_queries(ask, tmp_path):
    found = ask("SELECT gx_sum('[[1,2],[3,4]]'), gx_config('locked')")
    assert found["rows"] == [[10, "on"]], found
    assert "files are switched off" in ask(f"SELECT gx_export('[[1]]', '{tmp_path / 'x.npy'}')")["error"]
    assert "locked" in ask("SELECT gx_config('progress', 'off')")["error"]
    with gx.connect(tmp_path / "a.db") as db:
        gx.store(db, "A", np.eye(4))
    db.close()
    found = ask("SELECT gx_trace('A'), (SELECT count(*) FROM gx)", files=[str(tmp_path / "a.db")], path="/a")
    assert found["rows"] == [[4, 1]], found


def test_time(ask):
    begun = time.monotonic()
    found = ask("SELECT gx_sum(gx_svd(gx_randn(4000, 4000)))", settings={"sql_time_limit_ms": 500})
    assert not found.get("ok") and "interrupted" in str(found).lower(), found
    assert time.monotonic() - begun < 20  # the call takes minutes
    assert ask("SELECT gx_det(gx_eye(50))", settings={"sql_time_limit_ms": 5000})["rows"] == [[1]]


def test_settings(ask):
    metadata = {"plugins": {"gx-sqlite": {"memory_limit": 50000000, "threads": 1}}}
    found = ask("SELECT gx_config('memory_limit'), gx_config('threads')", metadata=metadata)
    assert found["rows"] == [[50000000, 1]], found
    assert "memory" in ask("SELECT gx_sum(gx_randn(5000, 5000))", metadata=metadata)["error"]
