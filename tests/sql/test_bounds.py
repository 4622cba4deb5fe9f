"""No size that a matrix, a catalog row, a number or an option claims ends the process or keeps it for ever.

Plan: boundskit.py, in processes of their own, calls every function and table of the reference with sides of 0, 1,
2^31 - 1 to 2^62: as matrix values of empty matrices and forged ones, as stored matrices whose catalog rows claim them,
as numbers, as options, and gx_plan with expressions of them.  Every call ends with an answer or one line.
"""
import subprocess
import sys

import pytest
from conftest import ROOT

PARTS = 2


@pytest.mark.parametrize("part", range(PARTS))
def test_every_call_ends_with_an_answer_or_a_line(tmp_path, part):
    command = [sys.executable, "boundskit.py", str(tmp_path), str(part), str(PARTS)]
    done = subprocess.run(command, cwd=ROOT / "tests" / "sql", stdout=subprocess.PIPE, text=True)
    last = (tmp_path / f"call.{part}").read_text()
    assert done.returncode == 0, f"ended with {done.returncode} in {last[:500]}"
    made = int(done.stdout.split("made ")[-1])
    assert made > 20_000 and done.stdout == f"made {made}\n"
