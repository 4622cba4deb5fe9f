"""docs/recipes.md beyond its SQL, which test_docs.py runs: the Python program, and the C program by way of gx.pc.

Plan:
- the Python block runs as it stands, beside gx.so, and again on its own database;
- the C block compiles with no warning, links with what pkg-config says of the build's gx.pc, and prints the eigenvalues;
- the natural statements of a table of embeddings, at 3000 x 384: same answers as NumPy, and no step that is quadratic:
  what each reads of the database is counted, not timed.
"""
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, gx_path, q

PAGE = (ROOT / "docs" / "recipes.md").read_text()


def block(language):
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)
    assert len(found) == 1
    return found[0]


def test_python(tmp_path):
    shutil.copy(gx_path(), tmp_path / "gx.so")
    for _ in range(2):
        (tmp_path / "a.npy").unlink(missing_ok=True)
        run = subprocess.run([sys.executable, "-c", block("python")], cwd=tmp_path, capture_output=True, text=True)
        assert run.returncode == 0 and run.stdout == run.stderr == "", run.stderr


def test_c(tmp_path):
    build = ROOT / os.environ.get("BUILD", "build")
    if not (build / "libgx.a").exists() or "san" in build.name:
        pytest.skip("no libgx.a here that links without a sanitizer")
    (tmp_path / "app.c").write_text(block("c"))
    flags = subprocess.run(["pkg-config", f"--define-variable=includedir={ROOT / 'ext'}", f"--define-variable=libdir={build}",
                            "--cflags", "--static", "--libs", "gx"], env={**os.environ, "PKG_CONFIG_PATH": str(build)},
                           capture_output=True, text=True)
    if flags.returncode != 0 and "gx" not in flags.stderr:
        pytest.skip("pkg-config does not know the libraries: " + flags.stderr)
    compiler = os.environ.get("CC", "cc").split()
    built = subprocess.run([*compiler, "-Wall", "-Wextra", "app.c", *flags.stdout.split(), "-o", "app"], cwd=tmp_path,
                           capture_output=True, text=True)
    assert built.returncode == 0 and built.stderr == "", built.stderr
    run = subprocess.run([str(tmp_path / "app")], cwd=tmp_path, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "eigenvalue 0: 1\neigenvalue 1: 3\n", "")


def bytes_read(db):
    return q(db, "SELECT value FROM gx_stats WHERE name = 'bytes_read'")


def test_embeddings(filedb):
    rows, width = 3000, 384
    e = np.random.default_rng(5).standard_normal((rows, width)).astype("<f4")
    filedb.execute("CREATE TABLE doc(id INTEGER PRIMARY KEY, embedding BLOB)")
    filedb.execute("BEGIN")
    filedb.executemany("INSERT INTO doc VALUES(?, ?)", ((10 * i + 7, e[i].tobytes()) for i in range(rows)))
    filedb.execute("COMMIT")
    q(filedb, "SELECT gx_store_rows('E', k, embedding, '{\"dtype\":\"f32\"}') FROM "
      "(SELECT row_number() OVER (ORDER BY id) - 1 AS k, embedding FROM doc)")
    assert q(filedb, "SELECT gx_to_bytes('E')") == e.tobytes()

    before = bytes_read(filedb)
    q(filedb, "SELECT gx_store_rows('N', i, gx_scale(row, 1 / gx_norm(row)), '{\"dtype\":\"f32\"}') FROM gx_rows('E')")
    assert bytes_read(filedb) - before <= 1.25 * e.nbytes
    n = e / np.linalg.norm(e.astype("f8"), axis=1)[:, None]

    before = bytes_read(filedb)
    got = filedb.execute("SELECT i, value FROM gx_cells(gx_matmul('N', gx_from_bytes(?, 'f32'))) ORDER BY value DESC LIMIT 5",
                         (e[17].tobytes(),)).fetchall()
    assert bytes_read(filedb) - before <= 1.25 * e.nbytes
    cosine = n @ e[17]
    best = np.argsort(-cosine)[:5]
    assert [i for i, _ in got] == best.tolist() and np.allclose([v for _, v in got], cosine[best], rtol=1e-5)

    before = bytes_read(filedb)
    q(filedb, "SELECT gx_pca('E', 2, 'model')")
    q(filedb, "SELECT gx_pca_project('E', 'model', 'xy')")
    assert bytes_read(filedb) - before <= 2.5 * e.nbytes
