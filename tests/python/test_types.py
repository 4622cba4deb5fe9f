"""The package's types: mypy --strict on its sources and on a program that uses them.

Plan: no complaint about the package; about each of the three wrong lines at the program's end, about no other.
"""
import re
import subprocess
import sys

import pytest
from conftest import ROOT

PROGRAM = """
import sqlite3
import gx_sqlite as gx
db = sqlite3.connect(":memory:")
name: str = gx.store(db, "A", [[1.0]], dtype="f32", rows=1)
shape: tuple[int, int] = gx.matrix(db, name).shape
both: gx.Expression = gx.matrix(db, "A").T @ gx.fetch(db, "A")
parts: tuple[object, object, object] = gx.matrix(db, "A").svd(1, method="dense")
count: int = gx.matrix(db, "A").nbytes
names: list[str] = gx.matrix(db, "A").columns or []
gx.progress(db, on=False)
gx.store(db, "A", [[1.0]], 8)
gx.matrix(db, 3)
gx.fetch(db, "A", out=3)
"""


def test_types(tmp_path):
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "gx_sqlite", str(program)]
    printed = subprocess.run(command, cwd=ROOT / "ext/python", capture_output=True, text=True).stdout
    assert set(re.findall(r"^(.*): error:", printed, re.M)) == {f"{program}:{line}" for line in (12, 13, 14)}, printed
