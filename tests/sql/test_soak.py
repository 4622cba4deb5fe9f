"""A few seconds of tests/soak.py; `make soak SECONDS=3600` is the long form."""
import os
import subprocess
import sys

from conftest import ROOT, gx_path


def test_processes_at_random_work(tmp_path):
    out = subprocess.run([sys.executable, str(ROOT / "tests" / "soak.py"), "--seconds", "4", "--processes", "3", "--kills", "1",
                          "--dir", str(tmp_path)], env={**os.environ, "GX_SO": gx_path()}, capture_output=True, text=True)
    assert out.returncode == 0, out.stdout + out.stderr
