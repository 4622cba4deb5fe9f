"""What a new user meets in a notebook: pictures, matrices as tables, bars, data frames there and back.

Plan:
1. a notebook that nbclient runs: a picture under the cell, tables of matrices (small, large, sparse, with names that are no
   HTML), a bar of a long call that ends as a line, none of a short one, no bar after gx.progress(db, False);
2. the HTML and the bar by themselves;
3. names of columns: of pandas, Polars, Arrow, DuckDB and a Series; renamed, replaced, dropped, in another schema, within the
   transaction of sqlite3's default; frames without names leave no table;
4. decompositions of matrix objects against NumPy's, their options, sparse and complex matrices; rows of a matrix; pandas.DataFrame(A).
"""
import sqlite3

import gx_sqlite as gx
import numpy as np
import pytest
from conftest import ROOT
from gx_sqlite import _notebook

CELLS = ["""
import gx_sqlite as gx, numpy as np, sqlite3
db = gx.connect("notebook.db", isolation_level=None)
gx.store(db, "X", np.arange(600.0).reshape(30, 20))
gx.store(db, "<b>", [[1.5, float("nan")]])
""", "gx.plot(db, 'X')", "gx.matrix(db, 'X')", "gx.matrix(db, '<b>')", "gx.matrix(db, 'X').T @ gx.matrix(db, 'X')",
         "gx.plot(db, 'X', 'spy', path='spy.png')", """
db.execute("SELECT gx_config('threads', 1)")
import time
order, seconds = 1000, 0
while seconds < 4:
    order = order * 3 // 2
    db.execute("SELECT gx_randn(?, ?, 'A', '{\\"replace\\":true}')", (order, order))
    begun = time.monotonic()
    db.execute("SELECT gx_matmul('A', 'A', 'B', '{\\"replace\\":true}')")
    seconds = time.monotonic() - begun
""", "gx.progress(db, False)\ndb.execute(\"SELECT gx_matmul('A', 'A', 'B', '{\\\"replace\\\":true}')\").fetchone()",
         "db2 = sqlite3.connect(':memory:')\ngx.load(db2)\ndb2.execute(\"SELECT gx_config('progress')\").fetchone()"]


def test_a_notebook(tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    import nbformat
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "ext/python"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    _, plotted, table, odd, expression, spied, long, quiet, loaded = [cell["outputs"] for cell in notebook.cells]
    assert [True for output in plotted if "image/png" in output.get("data", {})] == [True]
    assert [True for output in spied if "image/png" in output.get("data", {})] == [True] and (tmp_path / "spy.png").exists()
    shown = table[0]["data"]["text/html"]
    assert "<gx matrix" not in shown and "30x20 f64" in shown and shown.count("<tr>") == 12 and "<td>189</td>" in shown
    assert "&lt;b&gt;" in odd[0]["data"]["text/html"] and "<td>nan</td>" in odd[0]["data"]["text/html"]
    assert "gx_matmul(X.T, X)" in expression[0]["data"]["text/html"]
    bars = [output["data"]["text/html"] for output in long if "text/html" in output.get("data", {})]
    assert bars and any(bar.startswith("<code>gx_") and bar.endswith(" s</code>") for bar in bars), long
    assert not [output for output in quiet if "text/html" in output.get("data", {})]
    assert "gx_python_progress" in loaded[0]["data"]["text/plain"]


def test_html():
    shown = _notebook.table("A", (3, 2), np.array([[1.0, 2.5], [-1e-9, np.inf], [1e100, np.nan]]), ["a", "<i>"])
    assert "<th>&lt;i&gt;</th>" in shown and "…" not in shown and "<td>1e+100</td>" in shown and "<td>nan</td>" in shown
    assert "<td>0+1j</td>" in _notebook.table("A", (1, 1), np.array([[1j]]), None)
    assert _notebook.bar("gx_svd", 0.25, 10)[1] == "gx_svd: 25 %, 30 s left" and 'value="0.25' in _notebook.bar("gx_svd", 0.25, 10)[0]
    assert _notebook.bar("gx_svd", 0, 7)[1] == "gx_svd: 7 s" and _notebook.bar("gx_svd", 1, 7200)[1] == "gx_svd: 2.0 h"
    assert "value" not in _notebook.bar("gx_svd", 0, 7)[0].split("style", 1)[1].split("span")[2]
    assert _notebook.kernel() is None


def test_progress_elsewhere(db):
    for on in (True, False):
        gx.progress(db, on)
        assert db.execute("SELECT gx_config('progress')").fetchone() == ("on" if on else "off",)


def frames():
    columns = {"height": [1.0, 2.0, 3.0], "weight": [4, 5, 6]}
    yield "pandas", lambda pandas: pandas.DataFrame(columns)
    yield "polars", lambda polars: polars.DataFrame(columns)
    yield "pyarrow", lambda pyarrow: pyarrow.table(columns)


@pytest.mark.parametrize("module, make", frames(), ids=lambda value: value if isinstance(value, str) else "")
def test_names(db, module, make):
    gx.store(db, "X", make(pytest.importorskip(module)))
    X = gx.matrix(db, "X")
    assert X.columns == ["height", "weight"] and "<th>height</th><th>weight</th>" in X._repr_html_()
    db.execute("SELECT gx_rename('X', 'Y')").fetchall()
    Y = gx.matrix(db, "Y")
    assert Y.columns == ["height", "weight"]
    gx.store(db, "Y", np.eye(2), replace=True)
    assert Y.columns is None and Y.T.columns is None


def test_names_of_relations_and_series(db):
    duckdb = pytest.importorskip("duckdb")
    gx.store(db, "R", duckdb.sql("SELECT 1.5::DOUBLE AS a, 2 AS b"))
    pandas = pytest.importorskip("pandas")
    gx.store(db, "S", pandas.Series([1.0, 2.0], name="only"))
    assert gx.matrix(db, "R").columns == ["a", "b"] and gx.matrix(db, "S").columns == ["only"]


def test_where_names_are(db, tmp_path):
    pandas = pytest.importorskip("pandas")
    gx.store(db, "N", pandas.DataFrame(np.eye(2)))
    gx.store(db, "A", np.eye(2))
    assert gx.matrix(db, "N").columns is None
    assert not list(db.execute("SELECT 1 FROM sqlite_master WHERE name = 'gx_label'"))
    db.execute("ATTACH ? AS [au\"x]", (str(tmp_path / "aux.db"),))
    frame = pandas.DataFrame({"a": [1.0], "b": [2.0]})
    gx.store(db, 'au"x.X', frame)
    assert list(db.execute("SELECT names FROM [au\"x].gx_label")) == [('["a","b"]',)]
    for k in range(3):
        gx.store(db, "X", frame, replace=True)
    assert list(db.execute("SELECT count(*) FROM main.gx_label")) == [(1,)] and list(db.execute("SELECT gx_check()")) == [("ok",)]
    gx.store(db, "L", pandas.DataFrame({"v": [[1.0, 2.0]], "w": [3.0]}))
    assert gx.matrix(db, "L").columns is None and gx.matrix(db, "L").shape == (1, 3)
    db.execute("SELECT gx_set('X', 0, 0, 5)").fetchall()
    assert gx.matrix(db, "X").columns == ["a", "b"]
    db.execute("UPDATE main.gx_label SET names = '[\"a\"]'")
    assert gx.matrix(db, "X").columns == ["a", "1"]
    gx.store(db, "X", frame, replace=True)
    db.execute("SELECT gx_add('X', 'X', 'X', '{\"replace\":true}')").fetchall()
    assert gx.matrix(db, "X").columns is None


def test_names_and_transactions(tmp_path):
    """With sqlite3's default no transaction is left open, and one that is open holds the names too."""
    pandas = pytest.importorskip("pandas")
    db = sqlite3.connect(tmp_path / "a.db")
    gx.load(db)
    gx.store(db, "X", pandas.DataFrame({"a": [1.0]}))
    assert not db.in_transaction
    db.execute("CREATE TABLE t(x)")
    db.execute("INSERT INTO t VALUES (1)")
    gx.store(db, "X", pandas.DataFrame({"b": [1.0]}), replace=True)
    assert db.in_transaction
    db.rollback()
    assert gx.matrix(db, "X").columns == ["a"]


def test_names_that_an_authorizer_forbids(db):
    pandas = pytest.importorskip("pandas")
    gx.store(db, "A", np.eye(2))
    db.set_authorizer(lambda action, *_: sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_CREATE_TABLE else sqlite3.SQLITE_OK)
    gx.store(db, "X", pandas.DataFrame({"a": [1.0]}))
    db.set_authorizer(None)
    assert gx.matrix(db, "X").columns is None and gx.matrix(db, "X")[0, 0] == 1


def test_data_frames(db):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, np.nan]})
    gx.store(db, "X", frame)
    X = gx.matrix(db, "X")
    pandas.testing.assert_frame_equal(X.to_pandas(), frame)
    assert np.array_equal(pandas.DataFrame(X).to_numpy(), frame.to_numpy(), equal_nan=True)
    pandas.testing.assert_frame_equal((X * 2).to_pandas(), pandas.DataFrame(frame.to_numpy() * 2))
    sparse = pytest.importorskip("scipy.sparse")
    gx.store(db, "S", sparse.eye(5, format="csr"))
    assert np.array_equal(gx.matrix(db, "S").to_pandas().to_numpy(), np.eye(5)) and "<td>1</td>" in gx.matrix(db, "S")._repr_html_()


def test_rows(db):
    array = np.random.default_rng(0).random((700, 3000))
    gx.store(db, "A", array)
    A = gx.matrix(db, "A")
    assert np.array_equal(list(A), array) and np.array_equal(list(A.T), array.T) and A.nbytes == array.nbytes
    gx.store(db, "E", np.empty((0, 3)))
    assert list(gx.matrix(db, "E")) == [] and "0x3" in gx.matrix(db, "E")._repr_html_()


@pytest.mark.parametrize("kind", [float, complex])
def test_decompositions(db, kind):
    rng = np.random.default_rng(1)
    array = rng.random((12, 5)) + (1j * rng.random((12, 5)) if kind is complex else 0)
    gx.store(db, "A", array)
    gx.store(db, "G", array[:5])
    A, G = gx.matrix(db, "A"), gx.matrix(db, "G")
    U, S, Vh = A.svd()
    assert U.shape == (12, 5) and Vh.shape == (5, 5) and np.allclose((U * S) @ Vh, array)
    assert np.allclose((2 * A).svd(2).S, 2 * np.linalg.svd(array)[1][:2]) and A.svd(1, which="smallest").S[0] == pytest.approx(S[-1])
    values, vectors = G.eig()
    assert np.allclose(array[:5] @ vectors, vectors * values)
    values, vectors = (G.T @ G).eig(k=2) if kind is float else G.eig(k=2)
    assert len(values) == 2 and vectors.shape == (5, 2)
    with pytest.raises(sqlite3.OperationalError, match="which"):
        G.eig(which="nowhere")


def test_statistics(db):
    array = np.random.default_rng(2).random((30, 4))
    gx.store(db, "A", array)
    A = gx.matrix(db, "A")
    assert np.allclose(A.cov(), np.cov(array.T)) and np.allclose(A.cov(ddof=0).fetch(), np.cov(array.T, ddof=0))
    assert np.allclose(A.corr(), np.corrcoef(array.T))
    found = A.pca()
    values, vectors = np.linalg.eigh(np.cov(array.T))
    assert np.allclose(found.variance, values[::-1]) and np.allclose(abs(found.components), abs(vectors.T[::-1]))
    assert found.ratio.sum() == pytest.approx(1) and (A + 1).pca(2).components.shape == (2, 4)
    centred = array - array.mean(axis=0)
    assert np.allclose(A.scores(2), centred @ found.components[:2].T) and A.scores(standardize=True).shape == (30, 4)


def test_other_modules(any_db):
    """Connections of apsw, pysqlite3 and SQLAlchemy."""
    array = np.random.default_rng(3).random((6, 3))
    pandas = pytest.importorskip("pandas")
    gx.store(any_db, "X", pandas.DataFrame(array, columns=["a", "b", "c"]))
    X = gx.matrix(any_db, "X")
    U, S, Vh = X.svd()
    assert np.allclose((U * S) @ Vh, array) and X.columns == ["a", "b", "c"] and "<th>c</th>" in X._repr_html_()
    assert np.allclose(X.cov(), np.cov(array.T)) and X.pca(1).components.shape == (1, 3)
    gx.progress(any_db)
    gx.progress(any_db, False)
