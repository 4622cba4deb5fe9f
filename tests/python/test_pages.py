"""The pages about Python: their examples run, in order, and say what they say.

Plan: each block of Python of docs/python.md, docs/monitoring.md, docs/statistics.md (where matplotlib is), docs/dask.md (where Dask is), of the package's README and of
the section of the repository's README, in one namespace a page and a folder of its own; the tour in cells, with its pictures where matplotlib is installed.
"""
import os
import re
import subprocess
import sys

import pytest
from conftest import ROOT

PAGES = ["docs/python.md", "docs/monitoring.md", "docs/statistics.md", "docs/dask.md", "ext/python/README.md", "README.md"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert blocks
    if "dask" in page:
        pytest.importorskip("dask.array")
    if "statistics" in page:
        pytest.importorskip("matplotlib")
    names = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    if "db" in names:
        names["db"].close()


def test_the_tour(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "ext/python")}
    printed = subprocess.run([sys.executable, str(ROOT / "ext/python/tour.py"), str(tmp_path)], env=environment, check=True,
                             capture_output=True, text=True).stdout
    right, difference = (float(re.search(rf"^{word}: (.*)$", printed, re.M)[1]) for word in ("right", "difference"))
    assert right > 0.85 and difference < 1e-9
    pictures = sorted(path.name for path in tmp_path.glob("*.png"))
    assert pictures == ["covariance_heat.png", "digits_pca.png", "digits_scree.png"] or "not installed" in printed
