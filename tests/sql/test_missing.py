"""A name that is no matrix: the error says what was meant, where that can be guessed.

Plan:
- letters inserted, left out, changed, swapped;
  a third of what was written may be wrong, no more;
- another case, another schema, the schema misspelt; the nearest of several; long names, many names;
- a table, a view, a file, numbers in another notation; none of these;
- every way to say a name: functions, gx_drop, gx_rename, gx_cells, gx_plan;
- nothing is changed, also within a transaction, and a closed database stays closed.
"""
import pytest
from conftest import error, q


@pytest.fixture
def shelf(db):
    q(db, "SELECT gx_store('digits', '[1,2]')")
    q(db, "SELECT gx_store('covariance', '[1]')")
    q(db, "SELECT gx_store('temp.Scores', '[1]')")
    db.execute("CREATE TABLE document(id INTEGER PRIMARY KEY, embedding BLOB)")
    db.execute("CREATE VIEW recent AS SELECT * FROM document")
    return db


@pytest.mark.parametrize("written, meant", [
    ("Digits", "digits"), ("DIGITS", "digits"), ("digit", "digits"), ("digitss", "digits"), ("digist", "digits"),
    ("gidits", "digits"), ("dgits", "digits"), ("dixits", "digits"), ("covarance", "covariance"),
    ("covarinace", "covariance"), ("covaniarce", "covariance"), ("scores", "temp.Scores"), ("temp.scors", "temp.Scores"),
    ("tmp.Scores", "temp.Scores"), ("main.digits", None), ("xigixx", None), ("d", None), ("digitscovariance", None),
])
def test_misspelt(shelf, written, meant):
    if written == "main.digits":
        assert q(shelf, "SELECT gx_shape(?)", written) == "[2,1]"
        return
    end = f": did you mean '{meant}'?" if meant else ""
    assert error(shelf, "SELECT gx_shape(?)", written) == f"gx_shape: no matrix named '{written}'{end}"


@pytest.mark.parametrize("written, hint", [
    ("document", "; it is a table: gx_from_table makes a matrix of its columns"),
    ("recent", "; it is a table: gx_from_table makes a matrix of its columns"),
    ("weather.csv", "; gx_import makes a matrix of a file"),
    ("/data/A.NPY", "; gx_import makes a matrix of a file"),
    ("1 2; 3 4", "; a literal is written '[[1,2],[3,4]]'"),
    ("(1,2)", "; a literal is written '[[1,2],[3,4]]'"),
    ("1.5e3,-2", "; a literal is written '[[1,2],[3,4]]'"),
    ("7", "; a number stands without quotes"), ("-1.5e3", "; a number stands without quotes"), ("e", ""), ("inf", ""), ("; ", ""), ("nothing like it", ""), ("%s%n", ""),
])
def test_hints(shelf, written, hint):
    text = error(shelf, "SELECT gx_shape(?)", written)
    assert text == f"gx_shape: no matrix named '{written}'{hint}"


def test_everywhere(shelf):
    end = "no matrix named 'digist': did you mean 'digits'?"
    for sql in ("SELECT gx_drop('digist')", "SELECT gx_rename('digist', 'x')", "SELECT gx_matmul('digist', 'digits', 'P')",
                "SELECT * FROM gx_cells('digist')", "SELECT * FROM gx_rows('digist')", "SELECT gx_export('digist', 'x.npy')",
                "SELECT * FROM gx_plan('digist @ digits')", "SELECT * FROM gx_eig('digist')"):
        assert error(shelf, sql).endswith(": " + end), sql
    assert q(shelf, "SELECT gx_drop('digist', '{\"if_exists\":true}')") is None
    assert q(shelf, "SELECT gx_exists('digist')") == 0
    assert q(shelf, "SELECT count(*) FROM gx") == 2


def test_many_and_long(db):
    db.execute("BEGIN")
    for k in range(300):
        q(db, "SELECT gx_store(?, 1)", f"matrix number {k:03d}")
    q(db, "SELECT gx_store(?, 1)", "n" * 64)
    q(db, "SELECT gx_store(?, 1)", "m" * 255)
    assert error(db, "SELECT gx_sum('matrix numbr 217')").endswith("did you mean 'matrix number 217'?")
    assert error(db, "SELECT gx_sum(?)", "n" * 63).endswith(f"did you mean '{'n' * 64}'?")
    assert error(db, "SELECT gx_sum(?)", "m" * 254).startswith("gx_sum: no matrix named 'mmm")
    assert error(db, "SELECT gx_sum(?)", "x" * 9999).startswith("gx_sum: no matrix named 'xxx")
    db.execute("COMMIT")
    assert q(db, "SELECT gx_check()") == "ok"


def test_attached(db, tmp_path):
    db.execute("ATTACH ? AS other", (str(tmp_path / "other.db"),))
    assert error(db, "SELECT gx_sum('other.A')") == "gx_sum: no matrix named 'other.A'"
    q(db, "SELECT gx_store('other.budget', 1)")
    assert error(db, "SELECT gx_sum('other.bugdet')").endswith("did you mean 'other.budget'?")
    assert error(db, "SELECT gx_sum('bugdet')").endswith("did you mean 'other.budget'?")


def test_read_only(tmp_path):
    import sqlite3

    from conftest import gx_connect, gx_path
    db = gx_connect(str(tmp_path / "a.db"))
    db.execute("CREATE TABLE t(x)")
    db.close()
    db = sqlite3.connect(f"file:{tmp_path / 'a.db'}?mode=ro", uri=True)
    db.enable_load_extension(True)
    db.load_extension(gx_path())
    assert error(db, "SELECT gx_sum('A')") == "gx_sum: no matrix named 'A'"
    assert error(db, "SELECT gx_sum('t')").startswith("gx_sum: no matrix named 't'; it is a table")
    db.close()
