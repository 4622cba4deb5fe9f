"""The packages: what is in a wheel, a source distribution and a tarball, and that they work alone.

Plan:
1. the wheel: its name says what it runs on, the list of its files has their digests, gx.so and the marker of types are
   in it, its metadata has the version of ext/gx.h; the same sources give the same bytes;
2. installed in a new virtual environment, away from the sources: loads its own gx.so, computes, has its command;
3. the source distribution and the release: everything git knows is there, nothing that is built.
"""
import base64
import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "ext" / "python"))
import backend  # noqa: E402


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """With the library under test for gx.so, as it is."""
    folder = tmp_path_factory.mktemp("wheel")
    patch = pytest.MonkeyPatch()
    with open(os.environ["GX_SO"], "rb") as file:
        content = file.read()
    patch.setattr(backend, "_objects", lambda: {"gx.so": content})
    patch.setattr(backend, "LEVEL", 1)
    path = folder / backend.build_wheel(str(folder))
    patch.undo()
    return path


def test_the_wheel(wheel):
    assert wheel.name == f"gx_sqlite-{backend.version()}-py3-none-manylinux_2_28_{os.uname().machine}.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = f"gx_sqlite-{backend.version()}.dist-info"
        record = archive.read(f"{info}/RECORD").decode().splitlines()
        assert [line.split(",")[0] for line in record] == names
        for line in record[:-1]:
            name, digest, size = line.split(",")
            content = archive.read(name)
            want = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert digest == f"sha256={want}" and int(size) == len(content)
        for name in ("gx_sqlite/gx.so", "gx_sqlite/py.typed", "gx_sqlite/__main__.py", f"{info}/WHEEL"):
            assert name in names
        assert f"\nVersion: {backend.version()}\n" in archive.read(f"{info}/METADATA").decode()


def test_what_pip_asks_first(wheel, tmp_path):
    """The same as is in the wheel, and nothing is built for it."""
    info = backend.prepare_metadata_for_build_wheel(str(tmp_path))
    files = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with zipfile.ZipFile(wheel) as archive:
        assert files == {name: archive.read(name) for name in archive.namelist()
                         if name.startswith(f"{info}/") and not name.endswith("/RECORD")}


PROGRAM = """
import pathlib, sqlite3, sys, numpy as np, gx_sqlite as gx
assert pathlib.Path(gx.library()).parent == pathlib.Path(gx.__file__).parent and sys.prefix in gx.library()
db = sqlite3.connect(":memory:")
gx.load(db)
gx.store(db, "A", np.eye(3))
print(gx.fetch(db, "A").sum(), gx.__version__, db.execute("SELECT gx_version()").fetchone()[0])
"""


def test_a_new_environment(wheel, tmp_path):
    clean = {k: v for k, v in os.environ.items() if k not in ("GX_SO", "PYTHONPATH")}
    run = {"cwd": tmp_path, "env": clean, "check": True, "capture_output": True, "text": True}
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", "fresh"], **run)
    python = str(tmp_path / "fresh/bin/python")
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps", str(wheel)],
                   **run)
    version = backend.version()
    assert subprocess.run([python, "-c", PROGRAM], **run).stdout == f"3.0 {version} {version}\n"
    shell = subprocess.run([str(tmp_path / "fresh/bin/gx-sqlite")], input="SELECT gx_full(2, 3, 1, 'A');", **run)
    assert shell.stdout == "A\n"


def test_sources(tmp_path):
    with tarfile.open(tmp_path / backend.build_dist(str(tmp_path))) as archive:
        release = set(archive.getnames())
    with tarfile.open(tmp_path / backend.build_sdist(str(tmp_path))) as archive:
        package = set(archive.getnames())
    top, inner = f"gx-{backend.version()}", f"gx_sqlite-{backend.version()}"
    for name in ("Makefile", "ext/gx.c", "core/base/mem.c", "sql/schema.sql", "docs/README.md", ".ci/deps", "LICENSE"):
        assert f"{top}/{name}" in release and f"{inner}/source/{name}" in package, name
    for name in ("PKG-INFO", "pyproject.toml", "backend.py", "gx_sqlite/__init__.py", "gx_sqlite/py.typed"):
        assert f"{inner}/{name}" in package
    assert not [name for name in release | package if name.endswith((".o", ".so", ".pyc")) or "/build/" in name]
