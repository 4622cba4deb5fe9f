#!/usr/bin/env python3
"""The pictures of docs/: a notebook with gx, and gx's shell at work, as they look.

    .venv/bin/python bench/pictures.py [FOLDER]      default: docs; needs chromium, nbclient, nbconvert, matplotlib

notebook.png: a notebook is executed by nbclient, made into a page by nbconvert, and drawn by headless Chromium.
shell.png: gx's shell and the demo are run on a terminal of 100 columns; what they print is drawn the same way.
"""
import html
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile

import nbclient
import nbconvert
import nbformat
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent
CELLS = [
    "import gx_sqlite as gx, numpy as np\ndb = gx.connect('notes.db')",
    "rng = np.random.default_rng(1)\npoints = rng.normal(size=(400, 2)) @ [[2, 1], [0.3, 1]]\n"
    "gx.store(db, 'points', np.hstack([points, rng.normal(size=(400, 3)) / 4]))\ngx.matrix(db, 'points')",
    "db.execute(\"SELECT component, variance, ratio FROM gx_pca('points', 2)\").fetchall()",
    "gx.plot(db, 'points', 'pca')",
    "P = gx.matrix(db, 'points')\n(P.T @ P).fetch().round(1)",
]
SHELL = ["SELECT gx_store('A', '[[4,1,0],[1,3,1],[0,1,2]]');", "SELECT k, value, vector FROM gx_eig('A');",
         "SELECT gx_eval('x = solve(A, ?1); norm(A @ x - ?1)', '[1,2,3]');", "SELECT name, rows, cols, dtype FROM gx;"]
STYLE = "body{margin:0;background:#fff;font-family:DejaVu Sans,sans-serif}pre{margin:0;padding:14px 18px;background:#10151c;color:#d8dee9;" \
        "font:13px/1.35 DejaVu Sans Mono,monospace}b{color:#8fd3ff;font-weight:normal}"


def draw(page, picture, width, height):
    subprocess.run(["chromium", "--headless=new", "--no-sandbox", "--hide-scrollbars", "--disable-gpu", f"--window-size={width},{height}",
                    f"--screenshot={picture}", page.as_uri()], check=True, capture_output=True)
    with Image.open(picture) as drawn:
        drawn.convert("P", palette=Image.Palette.ADAPTIVE, colors=48).save(picture, optimize=True)


def notebook(folder, picture):
    os.environ["PYTHONPATH"] = str(ROOT / "ext/python")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    page = folder / "notebook.html"
    body, _ = nbconvert.HTMLExporter().from_notebook_node(book)
    page.write_text(body, encoding="utf-8")
    draw(page, picture, 860, 1385)


def on_terminal(command, lines, folder):
    """What a terminal of 100 columns shows while the lines are typed."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "ext/python"), "COLUMNS": "100", "LINES": "40", "TERM": "xterm"}
    leader, follower = pty.openpty()
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, cwd=folder, env=env, close_fds=True) as process:
        os.close(follower)
        os.write(leader, ("\n".join(lines) + "\n").encode())
        shown = b""
        try:
            while chunk := os.read(leader, 65536):
                shown += chunk
        except OSError:
            pass
        process.wait()
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r(?!\n)[^\n]*(?=\r)|\r", "", shown.decode())


def main():
    target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs").resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        notebook(folder, target / "notebook.png")
        shell = on_terminal([sys.executable, "-m", "gx_sqlite", "shell.db"], SHELL + [".quit"], folder)
        shell = shell[shell.index("gx 0"):].replace("gx> .quit", "")  # without the echo of what is typed ahead
        demo = on_terminal([sys.executable, "-m", "gx_sqlite", "demo"], [], folder)
        page = folder / "shell.html"
        text = html.escape("$ python -m gx_sqlite shell.db\n" + shell.strip() + "\n\n$ python -m gx_sqlite demo\n" + demo.strip())
        text = re.sub(r"^(gx&gt; .*|\$ .*)$", r"<b>\1</b>", text, flags=re.M)
        page.write_text(f"<style>{STYLE}</style><pre>{text}</pre>", encoding="utf-8")
        draw(page, target / "shell.png", 980, 28 + int(17.6 * (text.count("\n") + 1)))


if __name__ == "__main__":
    main()
