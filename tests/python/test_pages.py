"""The pages about Python: their examples run, in order, and say what they say.

Plan: each block of Python of docs/python.md, docs/dask.md (where Dask is installed), of the package's README and of
the section of the repository's README, in one namespace a page and a folder of its own; errors the page names.
"""
import re

import pytest
from conftest import ROOT

PAGES = ["docs/python.md", "docs/dask.md", "ext/python/README.md", "README.md"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert blocks
    if "dask" in page:
        pytest.importorskip("dask.array")
    names = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    if "db" in names:
        names["db"].close()
