"""The version: of the installed package, or of the sources this file lies in."""
from __future__ import annotations

import pathlib
import re
from importlib import metadata


def _version() -> str:
    try:
        return metadata.version("gx-sqlite")
    except metadata.PackageNotFoundError:
        header = pathlib.Path(__file__).parents[2] / "gx.h"
        found = re.search(r'#define GX_VERSION "(.*)"', header.read_text()) if header.exists() else None
        return found.group(1) if found else "unknown"


__version__ = _version()
