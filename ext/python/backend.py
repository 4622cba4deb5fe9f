"""How the package is built: a wheel with gx.so in it, and a source distribution that makes one.

The hooks of PEP 517, with nothing but Python's library, since nothing of Python is compiled: `make` makes the shared
objects, which load everywhere from glibc 2.28 on (ext/old_glibc.sh), and a wheel is an archive of files with a list of
their digests.  Run as a program it builds where the Makefile says: backend.py wheel|sdist FOLDER.
"""
from __future__ import annotations

import base64
import hashlib
import io
import os
import pathlib
import platform
import re
import subprocess
import sys
import tarfile
import zipfile
from typing import Any, Callable, Iterable, Optional

HERE = pathlib.Path(__file__).resolve().parent
# In a source distribution the sources of gx lie in a folder beside this file.
ROOT = HERE / "source" if (HERE / "source").exists() else HERE.parents[1]
# GX_MACHINE, GX_OBJECTS: of another machine, whose gx.so lies in that folder (ext/arm64.sh).
TAG = f"py3-none-manylinux_2_28_{os.environ.get('GX_MACHINE') or platform.machine()}"
NAME = "gx_sqlite"
LEVEL = 9  # of compression
EPOCH = (1980, 1, 1, 0, 0, 0)  # of every file: the same sources give the same wheel


def version() -> str:
    """Of gx: it stands in ext/gx.h."""
    found = re.search(r'#define GX_VERSION "(.*)"', (ROOT / "ext/gx.h").read_text())
    assert found is not None
    return found.group(1)


def metadata() -> str:
    """What pyproject.toml says, as METADATA; its few lines are read as they are written there."""
    text = (HERE / "pyproject.toml").read_text()

    def field(key: str) -> str:
        found = re.search(rf'^{key} = "(.*)"$', text, re.M)
        assert found is not None, key
        return found.group(1)

    return (f"Metadata-Version: 2.1\nName: {field('name')}\nVersion: {version()}\nSummary: {field('description')}\n"
            f"License: {field('license')}\nRequires-Python: {field('requires-python')}\nRequires-Dist: numpy\n"
            f"Provides-Extra: plot\nRequires-Dist: matplotlib; extra == 'plot'\n"
            f"Provides-Extra: dask\nRequires-Dist: dask[array,distributed]; extra == 'dask'\n"
            f"Description-Content-Type: text/markdown\n\n" + (HERE / "README.md").read_text())


def _environment() -> dict[str, str]:
    """For a make of its own, whoever's make has called."""
    return {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "BUILD", "SO")}


def _make() -> None:
    """Build gx.so, and gx_cuda.so where GX_CUDA is set.  What is missing is named, not installed: who calls pip may not expect
    that it runs apt-get.  pip keeps this output to itself, so a line on the terminal says how far the compiler is."""
    environment = _environment() | {"GX_INSTALL": "off"}
    goals = ["gx.so"] + ["cuda"] * bool(os.environ.get("GX_CUDA"))
    command = ["make", f"-j{os.cpu_count() or 1}", "-C", str(ROOT), *goals]
    planned = subprocess.run([*command, "-n"], env=environment, capture_output=True, text=True, check=False).stdout
    files = max(1, sum(line.startswith('echo "  cc ') for line in planned.splitlines()))
    try:
        terminal: Optional[io.TextIOBase] = open("/dev/tty", "w", encoding="utf-8")
    except OSError:
        terminal = None
    done = 0
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            sys.stderr.write(line)
            done += line.startswith("  cc ")
            if terminal is not None and line.startswith("  cc "):
                terminal.write(f"\rgx: {done} of {files} files compiled")
                terminal.flush()
    if terminal is not None:
        terminal.write("\r\033[K")
        terminal.close()
    if running.returncode != 0:
        raise SystemExit(f"gx was not built: make {' '.join(goals)} failed; its last lines say why")


def _objects() -> dict[str, bytes]:
    """gx.so, the cJSON that it looks for beside itself and, where it was made, gx_cuda.so; without what only a debugger reads."""
    if not os.environ.get("GX_BUILT"):
        _make()
    objects = {}
    made = pathlib.Path(os.environ.get("GX_OBJECTS") or ROOT)
    for name in ("gx.so", "libcjson.so.1", "gx_cuda.so"):
        if (made / name).exists():
            stripped = ROOT / "build" / f"stripped_{name}"
            subprocess.run([os.environ.get("STRIP", "strip"), "--strip-unneeded", "-o", str(stripped), str(made / name)], check=True)
            objects[name] = stripped.read_bytes()
    return objects


def _sources() -> Iterable[pathlib.Path]:
    return sorted(p for p in (HERE / NAME).rglob("*") if p.suffix in (".py", ".pyi", ".typed"))


class _Wheel:
    """An archive that keeps the list of what is in it."""

    def __init__(self, path: pathlib.Path) -> None:
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self._record: list[str] = []

    def add(self, name: str, content: bytes, mode: int = 0o644) -> None:
        entry = zipfile.ZipInfo(name, EPOCH)
        entry.external_attr = mode << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self._zip.writestr(entry, content, compresslevel=LEVEL)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={digest},{len(content)}")

    def close(self, record: str) -> None:
        self._record.append(f"{record},,")
        entry = zipfile.ZipInfo(record, EPOCH)
        entry.external_attr = 0o644 << 16
        self._zip.writestr(entry, "\n".join(self._record) + "\n")
        self._zip.close()


def _info() -> str:
    return f"{NAME}-{version()}.dist-info"


def _about() -> dict[str, bytes]:
    """What a wheel says about itself."""
    return {"METADATA": metadata().encode(),
            "WHEEL": f"Wheel-Version: 1.0\nGenerator: gx\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode(),
            "entry_points.txt": (b"[console_scripts]\ngx-sqlite = gx_sqlite.shell:main\n\n"
                                 b"[datasette]\ngx-sqlite = gx_sqlite._datasette\n"),
            "licenses/LICENSE": (ROOT / "LICENSE").read_bytes()}


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Optional[dict[str, Any]] = None) -> str:
    """PEP 517: the same before anything is built, so that pip sees first whether the package fits."""
    for file, content in _about().items():
        path = pathlib.Path(metadata_directory) / _info() / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return _info()


def build_wheel(wheel_directory: str, config_settings: Optional[dict[str, Any]] = None,
                metadata_directory: Optional[str] = None) -> str:
    """PEP 517: the name of the wheel made in that folder."""
    name = f"{NAME}-{version()}-{TAG}.whl"
    objects = _objects()
    wheel = _Wheel(pathlib.Path(wheel_directory) / name)
    for path in _sources():
        wheel.add(f"{NAME}/{path.relative_to(HERE / NAME)}", path.read_bytes())
    for file, content in objects.items():
        wheel.add(f"{NAME}/{file}", content, 0o755)
    for file, content in _about().items():
        wheel.add(f"{_info()}/{file}", content)
    wheel.close(f"{_info()}/RECORD")
    return name


def tree() -> list[str]:
    """The files of the sources: what git knows, or in a tarball all that is there but what is built."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], check=True, capture_output=True, text=True)
        return [name for name in listed.stdout.split("\n") if name and (ROOT / name).exists()]
    built = {"build", "__pycache__", ".venv", "gx.so", "gx_cuda.so", "libcjson.so.1"}
    return sorted(str(p.relative_to(ROOT)) for p in ROOT.rglob("*")
                  if p.is_file() and not built & set(p.relative_to(ROOT).parts))


def grammar() -> list[tuple[str, pathlib.Path]]:
    """The parser that lemon makes, for who builds without lemon; nothing where the sources have it already."""
    if (ROOT / "core/program/grammar.c").exists():
        return []
    made = ROOT / "build/core/program"
    subprocess.run(["make", "-s", "-C", str(ROOT), "build/core/program/grammar.c"], check=True, env=_environment(),
                   stdout=sys.stderr)
    return [(f"core/program/{name}", made / name) for name in ("grammar.c", "grammar.h")]


def tarball(path: pathlib.Path, files: Iterable[tuple[str, pathlib.Path]], texts: Iterable[tuple[str, str]] = ()) -> None:
    """Files under the names given, owned by nobody, in a .tar.gz."""
    with tarfile.open(path, "w:gz") as archive:
        for name, text in texts:
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
        for name, file in files:
            entry = archive.gettarinfo(str(file), name)
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            if entry.isfile():
                with open(file, "rb") as content:
                    archive.addfile(entry, content)


def build_sdist(sdist_directory: str, config_settings: Optional[dict[str, Any]] = None) -> str:
    """PEP 517: the package's own files in front, the sources of gx in source/."""
    top = f"{NAME}-{version()}"
    files = [(f"{top}/{name}", HERE / name) for name in ("pyproject.toml", "backend.py", "README.md")]
    files += [(f"{top}/{path.relative_to(HERE)}", path) for path in _sources()]
    files += [(f"{top}/source/{name}", ROOT / name) for name in tree() if not name.startswith("ext/python/")]
    files += [(f"{top}/source/{name}", path) for name, path in grammar()]
    tarball(pathlib.Path(sdist_directory) / f"{top}.tar.gz", files, [(f"{top}/PKG-INFO", metadata())])
    return f"{top}.tar.gz"


def build_dist(folder: str) -> str:
    """The sources of gx as a release: gx-VERSION.tar.gz, which builds without git."""
    top = f"gx-{version()}"
    files = [(f"{top}/{name}", ROOT / name) for name in tree()] + [(f"{top}/{name}", path) for name, path in grammar()]
    tarball(pathlib.Path(folder) / f"{top}.tar.gz", files)
    return f"{top}.tar.gz"


if __name__ == "__main__":
    hooks: dict[str, Callable[[str], str]] = {"wheel": build_wheel, "sdist": build_sdist, "dist": build_dist}
    os.makedirs(sys.argv[2], exist_ok=True)
    print(os.path.join(sys.argv[2], hooks[sys.argv[1]](sys.argv[2])))
