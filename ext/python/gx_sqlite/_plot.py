"""Pictures of matrices, with matplotlib where it is installed.

Nothing larger than the picture is drawn: a large matrix is read band by band and becomes means over rectangles.
"""
from __future__ import annotations

from importlib import import_module
from typing import Any, Optional

import numpy as np

from . import _connect, _notebook
from ._arrays import fetch
from ._matrix import Matrix
from ._sparse import is_scipy
from ._values import Array

_PIXELS = 512
KINDS = ("heat", "spy", "scree", "pca")


def plot(db: Any, matrix: str, kind: str = "heat", *, axes: Any = None, path: Optional[str] = None, k: int = 20) -> Any:
    """Draw a stored matrix; returns matplotlib's Axes.  In a notebook the picture is under the cell; elsewhere
    matplotlib.pyplot.show() opens it, unless it was made for a file only.

    kind: 'heat' its elements as colours, 'spy' where it is not zero, 'scree' its k largest singular values, 'pca' its
    rows on their first two principal components.  path: a file to write the picture to, by its ending.
    """
    if kind not in KINDS:
        raise ValueError(f"gx_sqlite.plot: kind {kind!r} is not known ({', '.join(KINDS)})")
    try:
        import_module("matplotlib")
    except ImportError:
        raise ImportError("gx_sqlite.plot: matplotlib is not installed (pip install matplotlib)") from None
    stored = Matrix(db, matrix)
    if axes is None:
        axes = _figure(is_shown=path is None or _notebook.kernel() is not None).add_subplot()
    {"heat": _heat, "spy": _spy, "scree": _scree, "pca": _pca}[kind](axes, db, stored, k)
    axes.set_title(f"{matrix}, {stored.shape[0]}x{stored.shape[1]}")
    if path is not None:
        axes.figure.savefig(path)
    return axes


def _figure(is_shown: bool) -> Any:
    """Of pyplot, which shows it and keeps it until then, or one for a file."""
    if is_shown:
        from matplotlib import pyplot
        return pyplot.figure(figsize=(6, 5), layout="tight")
    from matplotlib import figure
    return figure.Figure(figsize=(6, 5), layout="tight")


def _cuts(size: int) -> Array:
    return np.linspace(0, size, min(size, _PIXELS) + 1).astype(np.int64)


def _means(stored: Matrix, what: Any) -> Array:
    """what(elements), which of 0 is 0, as means over at most _PIXELS x _PIXELS rectangles, a band of rows at a time."""
    m, n = stored.shape
    if m * n == 0:
        raise ValueError(f"gx_sqlite.plot: {stored.name} is {m}x{n}: there is nothing to draw")
    rows, columns = _cuts(m), _cuts(n)
    bands = []
    for i0, i1 in zip(rows[:-1], rows[1:]):
        piece: Any = stored[int(i0):int(i1), :]
        if is_scipy(piece):
            cells = np.searchsorted(columns, piece.indices, "right") - 1
            sums = np.bincount(cells, what(piece.data), len(columns) - 1) / (i1 - i0)
        else:
            sums = np.add.reduceat(what(piece).mean(axis=0), columns[:-1])
        bands.append(sums / np.diff(columns))
    return np.array(bands)


def _heat(axes: Any, db: Any, stored: Matrix, k: int) -> None:
    is_complex = stored.dtype.kind == "c"
    means = _means(stored, np.abs if is_complex else np.asarray)
    m, n = stored.shape
    numbers = means[np.isfinite(means)]
    bound, signed = float(np.abs(numbers).max(initial=0)), bool((numbers < 0).any())
    picture = axes.imshow(means, extent=(-0.5, n - 0.5, m - 0.5, -0.5), aspect="auto", interpolation="nearest",
                          cmap="RdBu_r" if signed else "viridis", vmin=-bound if signed else None,
                          vmax=bound if signed else None)
    axes.figure.colorbar(picture, ax=axes, label="absolute value" if is_complex else None)
    axes.set_xlabel("column")
    axes.set_ylabel("row")


def _spy(axes: Any, db: Any, stored: Matrix, k: int) -> None:
    share = _means(stored, lambda piece: (piece != 0).astype(float))
    m, n = stored.shape
    axes.imshow(share > 0, extent=(-0.5, n - 0.5, m - 0.5, -0.5), aspect="auto", interpolation="nearest", cmap="Greys",
                vmin=0, vmax=1)
    axes.set_xlabel("column")
    axes.set_ylabel("row")


def _scree(axes: Any, db: Any, stored: Matrix, k: int) -> None:
    count = min(k, *stored.shape)
    sigma = [row[0] for row in _connect.rows(
        db, "SELECT sigma FROM gx_svd(?, ?) ORDER BY k", (stored.name, f'{{"k":{count}}}'))]
    axes.plot(np.arange(1, len(sigma) + 1), sigma, "o-", markersize=4)
    axes.locator_params("x", integer=True)
    axes.set_xlabel("number")
    axes.set_ylabel("singular value")
    axes.set_ylim(bottom=0)


def _pca(axes: Any, db: Any, stored: Matrix, k: int) -> None:
    if stored.dtype.kind == "c":
        raise ValueError(f"gx_sqlite.plot: {stored.name} is complex: its components are no places in a plane")
    scores = fetch(db, _connect.value(db, "SELECT gx_pca_project(?, gx_pca(?, 2))", (stored.name,) * 2))
    axes.scatter(scores[:, 0], scores[:, 1], s=4)
    axes.set_xlabel("first component")
    axes.set_ylabel("second component")
