"""No size that a matrix, a catalog row, a number or an option claims ends the process or keeps it for ever.

Plan: boundskit.py, in processes of their own, calls every function and table of the reference with sides of 0, 1,
2^31 - 1 to 2^62: as matrix values of empty matrices and forged ones, as stored matrices whose catalog rows claim them,
as numbers, as options, and gx_plan with expressions of them.  Every call ends with an answer or one line.  Then: findings.
"""
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, error, from_numpy

PARTS = 2


@pytest.mark.parametrize("part", range(PARTS))
def test_every_call_ends_with_an_answer_or_a_line(tmp_path, part):
    command = [sys.executable, "boundskit.py", str(tmp_path), str(part), str(PARTS)]
    done = subprocess.run(command, cwd=ROOT / "tests" / "sql", stdout=subprocess.PIPE, text=True)
    last = (tmp_path / f"call.{part}").read_text()
    assert done.returncode == 0, f"ended with {done.returncode} in {last[:500]}"
    made = int(done.stdout.split("made ")[-1])
    assert made > 20_000 and done.stdout == f"made {made}\n"


def test_the_calls_of_a_wide_qr_are_counted_by_its_panels(db):
    """The square of all blocks, of which there are 2^35 where one panel is factored, overflowed, and took the memory."""
    db.execute("SELECT gx_config('memory_limit', '48MB')")
    db.execute("SELECT gx_store('A', '[\"1+2i\"]')")
    db.execute("UPDATE gx_meta SET rows=1, cols=?, tile_rows=1, tile_cols=1048576", (2**26,))
    assert db.execute("SELECT driver, calls FROM gx_plan('qr(A)')").fetchall() == [("qr", 2**10 + 1)]
    db.execute("UPDATE gx_meta SET cols=?", (2**40,))
    assert error(db, "SELECT * FROM gx_plan('qr(A)')") == "gx_plan: more than 2147483647 block operations"


def test_memory_that_ends_while_blocks_are_scheduled(db):
    """Wherever the list of loads stops growing there is a line: an assertion counted blocks that were not yet used."""
    db.execute("SELECT gx_config('tile_bytes', '512')")
    value, refused = from_numpy(np.ones((1500, 70))), 0
    for limit in range(67_072, 400_000, 5_000):
        db.execute("SELECT gx_config('memory_limit', ?)", (str(limit),))
        try:
            assert db.execute("SELECT gx_abs(?, 'B', '{\"replace\":true}')", (value,)).fetchall() == [("B",)]
        except sqlite3.Error as refusal:
            refused += "the schedule of blocks needs" in str(refusal)
    assert refused > 3
