"""gx in Datasette: the plugin that the package's entry point names.

Plan: the wheel names it; a query over HTTP has gx, computes and is restricted; a call of gx ends at Datasette's limit of time;
settings of the plugin, and one that is refused; a database in a file, read only.
"""
import json
import os
import subprocess
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


ASK = """
import asyncio, json, sys
from datasette.app import Datasette
from datasette.plugins import pm
from gx_sqlite import _datasette
if not pm.has_plugin("gx-sqlite"):
    pm.register(_datasette, "gx-sqlite")
sql, path, options = json.loads(sys.argv[1])
async def get():
    return (await Datasette(memory=True, **options).client.get(path + ".json", params={"sql": sql, "_shape": "arrays"})).json()
print(json.dumps(asyncio.run(get())))
"""


@pytest.fixture
def ask():
    """The JSON of a query to a Datasette of these files and settings, in a process of its own: it may use pysqlite3's SQLite."""
    pytest.importorskip("datasette")

    def answer(sql, path="/_memory", **options):
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "ext/python")}
        done = subprocess.run([sys.executable, "-c", ASK, json.dumps([sql, path, options])], env=environment, capture_output=True,
                              text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return answer


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
