"""tests/large.py on small matrices, and past 2^31 elements where nothing is stored; `make test-large` is the whole.

And what only many tiles bring: a schedule whose own bytes are more than what memory_limit keeps back.
"""
import os
import subprocess
import sys

import pytest
from conftest import ROOT, gx_connect, gx_path, q

CASES = "products places elements within home column cells tall files text solve system values unstored".split()


@pytest.mark.parametrize("case", CASES)
def test_small(tmp_path, case):
    out = subprocess.run([sys.executable, str(ROOT / "tests" / "large.py"), "--small", "--only", case, "--memory", "1", "--dir",
                          str(tmp_path)], env={**os.environ, "GX_SO": gx_path()}, capture_output=True, text=True)
    assert out.returncode == 0 and " ok " in out.stdout, out.stdout + out.stderr


def test_the_states_of_many_blocks_are_within_memory_limit():
    db = gx_connect()
    q(db, "SELECT gx_config('tile_bytes', 4096)")
    q(db, "SELECT gx_config('memory_limit', 30000000)")
    assert q(db, "SELECT gx_ones(6000, 6000, 'A')") == "A"
