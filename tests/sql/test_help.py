"""gx_help: the reference within SQL.

Plan:
- every heading of docs/reference/ and docs/recipes.md is a row, or one for each of its functions, with its page, and every
  function and table of gx has an entry of its name;
- first sentences: plain text, none empty for a function, no half of a character;
- gx_help() names every function by topics, in few lines; gx_help(name) is the entry as plain text, with and without gx_,
  parentheses and capitals: tables in columns, links without targets, and the page's table where the entry speaks of it;
- words: in names first, then in sentences, then in texts; misspellings; several words; nothing found; NULL, numbers, empty, long;
"""
import re

import pytest
from conftest import error, q
from test_docs import REFERENCE, ROOT, registered


def headings():
    found = []
    for page in [*REFERENCE, ROOT / "docs" / "recipes.md"]:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
        for heading in re.findall(r"^##? (.*)$", text, re.M):
            found += [(call, str(page.relative_to(ROOT / "docs"))) for call in re.split(r", (?=gx_)", heading)]
    return found


def test_rows_are_the_headings(db):
    rows = db.execute("SELECT call, page FROM gx_help").fetchall()
    assert sorted(rows) == sorted(headings())
    assert [row[1] for row in rows] == sorted([row[1] for row in rows], key=[row[1] for row in rows].index)


def test_every_function_has_one(db):
    """By its own name, also where two share a heading."""
    assert registered(db) <= {name for name, in db.execute("SELECT name FROM gx_help")}
    for name in registered(db):
        assert re.search(rf"^{name}\b", q(db, "SELECT gx_help(?)", name), re.M), name
    assert q(db, "SELECT text FROM gx_help WHERE name = 'gx'") == q(db, "SELECT text FROM gx_help WHERE name = 'gx_catalog'")
    assert q(db, "SELECT gx_help('cross')").startswith("gx_cross(x, y[, destination])\n\nThe cross product")
    assert error(db, "SELECT gx_std()").endswith("not 0: gx_std(A[, axis][, destination][, options])")


def test_summaries(db):
    for name, summary in db.execute("SELECT name, summary FROM gx_help WHERE name GLOB 'gx*'"):
        assert summary and "`" not in summary and "](" not in summary and "\n" not in summary, name
        assert len(summary.encode()) < 400
    assert q(db, "SELECT summary FROM gx_help WHERE name = 'gx_arange'") == (
        "A column start, start + step, ... that ends before stop.")
    assert q(db, "SELECT summary FROM gx_help WHERE name = 'gx_shape'") == "[rows,cols] as a JSON text."


def test_text_is_the_entry(db):
    page = (ROOT / "docs" / "reference" / "algebra.md").read_text()
    text = q(db, "SELECT text FROM gx_help WHERE name = 'gx_trace'")
    assert "## gx_trace(A)\n\n" + text + "\n" in page
    assert q(db, "SELECT gx_help('embeddings')").startswith("Embeddings: load, search\n\nVectors as BLOBs")
    for word in ("gx_trace", "trace", "TRACE", "gx_trace()", "Trace(A)"):
        assert q(db, "SELECT gx_help(?)", word) == "gx_trace(A)\n\n" + text


def test_overview(db):
    text = q(db, "SELECT gx_help()")
    assert {re.match(r"\w+", call)[0] for call, _ in headings() if call.startswith("gx")} <= set(text.split())
    assert len(text.splitlines()) < 110 and max(map(len, text.splitlines())) < 120


def test_plain_text(db):
    """Without the marks of Markdown's tables and links, and with the table that the entry speaks of."""
    for name, in db.execute("SELECT name FROM gx_help WHERE name GLOB 'gx_*'").fetchall():
        text = re.sub(r"^```.*?^```", "", q(db, "SELECT gx_help(?)", name), flags=re.M | re.S)
        assert "](" not in text and "|---" not in text and not re.search(r"^\|", text, re.M), name
    text = q(db, "SELECT gx_help('gx_knn')")
    assert "\noption          meaning" in text and "\n`hamming`          the share of places" in text
    assert text.index("`exclude_self`  true: leave row i") < text.index("Above all entries of its page:") < text.index("`sqeuclidean`")


@pytest.mark.parametrize("word, first", [
    ("inv", "gx_inverse"), ("eigenvector", "gx_eig"), ("delete", "gx_drop"), ("matmull", "gx_matmul"),
    ("gx_trasnpose", "gx_transpose"), ("product", "gx_matmul"), ("regression", "gx_lstsq"), ("multiply", "gx_matmul"),
    ("matrix multiplication", "gx_matmul"), ("dot", "gx_matmul"), ("dot product", "gx_inner"), ("average", "gx_mean"),
    ("concatenate", "gx_hstack"), ("remove", "gx_drop"), ("sort order", "gx_argsort"), ("neighbors", "gx_knn"),
    ("standard errors", "gx_lm"), ("logistic regression", "gx_glm"), ("t-test", "gx_t_test"), ("pnorm", "gx_cdf"), ("Fourier", "gx_fft"),
    ("nearest neighbor", "gx_knn"), ("gx_sovle", "gx_solve"), ("clustering", "gx_kmeans"), ("standard deviation", "gx_std"),
    ("percentile", "gx_quantile"), ("GPU", "gx_devices"), ("cbind", "gx_hstack"), ("Pearson", "gx_corr"), ("read csv", "gx_import"),
    ("eigenvalue", "gx_eig"), ("pseudoinverse", "gx_pinv"), ("astype", "gx_cast"), ("memory limit", "gx_config"),
])
def test_words(db, word, first):
    assert first in [row[0] for row in db.execute("SELECT name FROM gx_help(?) LIMIT 4", (word,))]
    text = q(db, "SELECT gx_help(?)", word)
    assert f"'{word}'" in text.splitlines()[0] and re.search(rf"^  {first}\b", text, re.M)


@pytest.mark.parametrize("word, topic", [("ODE", "Integration, optimisation, interpolation")])
def test_what_is_missing(db, word, topic):
    assert topic in [row[0] for row in db.execute("SELECT name FROM gx_help(?) WHERE page = 'reference/missing.md'", (word,))]
    assert topic in "\n".join(q(db, "SELECT gx_help(?)", word).splitlines()[:6])


def test_many(db):
    text = q(db, "SELECT gx_help('matrix')")
    count = q(db, "SELECT count(*) FROM gx_help('matrix')")
    assert count > 24 and text.endswith(f"... and {count - 24} more: the table gx_help('matrix') has them")


def test_nothing(db):
    for word in ("quaternion", "matrix quaternion", " " * 190, "x" * 50_000_000, "§", "é" * 40):
        text = error(db, "SELECT gx_help(?)", word)
        assert text.startswith("gx_help: nothing about '") and text.endswith("': gx_help() lists everything")
        assert db.execute("SELECT * FROM gx_help(?)", (word,)).fetchall() == []
    assert q(db, "SELECT gx_help(NULL)") == q(db, "SELECT gx_help()") == q(db, "SELECT gx_help('')")
    assert error(db, "SELECT gx_help(5)") == "gx_help: word must be a text, not 5"
