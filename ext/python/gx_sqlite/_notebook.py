"""Notebooks: matrices as tables, and how far a long call is.

Nothing here needs IPython: where a kernel of it runs, it is found in sys.modules.
"""
from __future__ import annotations

import html
import sys
import time
from importlib import import_module
from typing import Any, Optional, Sequence

_ROWS, _COLUMNS = 10, 10  # of a matrix that are shown
_FIRST = 1.0  # seconds into a call from which on it is shown
_BAR = ('<div style="display:flex;gap:0.7em;align-items:center;font-family:monospace"><span>{label}</span>'
        '<progress {value} style="width:20em"></progress><span>{text}</span></div>')


def kernel() -> Any:
    """IPython's shell in a notebook's kernel; None: this is no notebook."""
    ipython = sys.modules.get("IPython")
    found: Any = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    return found if getattr(found, "kernel", None) is not None else None


# Matrices -------------------------------------------------------------------------------------------------------------

def corner(rows: int, cols: int) -> tuple[int, int]:
    """How many rows and columns of a matrix are shown."""
    return min(rows, _ROWS), min(cols, _COLUMNS)


def _number(element: Any) -> str:
    return f"{element:.6g}" if element == element else "nan"


def table(title: str, shape: tuple[int, int], elements: Any, names: Optional[Sequence[str]]) -> str:
    """A matrix of that shape in HTML; elements: its first rows and columns; names: of its columns."""
    rows, cols = elements.shape
    more = cols < shape[1]
    heads = [html.escape(str(name)) for name in (names[:cols] if names is not None else range(cols))]
    lines = ["<tr><th></th>" + "".join(f"<th>{head}</th>" for head in heads) + ("<th>…</th>" if more else "") + "</tr>"]
    for i, row in enumerate(elements.tolist()):
        cells = "".join(f"<td>{_number(element)}</td>" for element in row)
        lines.append(f"<tr><th>{i}</th>{cells}{'<td>…</td>' if more else ''}</tr>")
    if rows < shape[0]:
        lines.append("<tr><th>…</th>" + "<td>…</td>" * (cols + more) + "</tr>")
    return f"<div><table>{''.join(lines)}</table><p>{html.escape(title)}</p></div>"


def line(title: str) -> str:
    return f"<code>{html.escape(title)}</code>"


# Progress -------------------------------------------------------------------------------------------------------------

def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def bar(label: str, fraction: float, seconds: float) -> tuple[str, str]:
    """A call's state as HTML and as text."""
    if fraction >= 1:
        text = f"{label}: {_duration(seconds)}"
        return line(text), text
    known = 0 < fraction
    text = f"{100 * fraction:.0f} %, {_duration(seconds * (1 - fraction) / fraction)} left" if known else _duration(seconds)
    value = f'value="{fraction:.4f}"' if known else ""
    return _BAR.format(label=html.escape(label), value=value, text=text), f"{label}: {text}"


class Bars:
    """What gx's progress function does in a notebook: a bar under the cell for each call, which becomes a line at its end."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._call = ("", 0.0)  # its label, and when it began
        self._shown = 0.0

    def __call__(self, label: str, fraction: float, seconds: float) -> None:
        if seconds < _FIRST:
            return
        now = time.monotonic()
        began = now - seconds
        if label != self._call[0] or abs(began - self._call[1]) > 1:
            self._handle, self._call = None, (label, began)
        elif now - self._shown < 0.2 and fraction < 1:
            return
        if self._handle is None and fraction >= 1:
            return
        self._shown = now
        display: Any = import_module("IPython.display")
        shown, text = bar(label, fraction, seconds)
        data = {"text/html": shown, "text/plain": text}
        if self._handle is None:
            self._handle = display.display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)
