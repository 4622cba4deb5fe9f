"""Names of rows and columns: gx_labels, gx_set_labels (core/base/names.c, core/store/store_labels.c).

Plan:
  1. set, read, taken away: every character, of every kind of matrix, in every schema; ROLLBACK
  2. how long they last: writing, renaming, copies, growing, deleting, dropping, replacing (beside and over), an older gx
  3. where they come from and are shown: CSV both ways, gx_from_table, gx_show, gx_rows
  4. refused in words; rows of gx_label that lie
"""
import json

import numpy as np
import pytest

from conftest import error, from_numpy, gx_connect, q

ODD = ["", "a", 'say "so"', "back\\slash", "line\nend", "tab\t", "\x01\x1f", "é 漢 \U0001f600", ",;|", "null", "[]", None]


def labels(db, name="A", axis=0):
    text = q(db, "SELECT gx_labels(?, ?)", name, axis)
    return None if text is None else json.loads(text)


def name(db, matrix, axis, names):
    assert q(db, "SELECT gx_set_labels(?, ?, ?)", matrix, axis, None if names is None else json.dumps(names)) == matrix


# 1. ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("ascii", [True, False])
def test_round_trip(db, ascii):
    q(db, "SELECT gx_store('A', gx_zeros(3, ?))", len(ODD))
    q(db, "SELECT gx_set_labels('A', 1, ?)", json.dumps(ODD, ensure_ascii=ascii))
    assert labels(db, axis=1) == ODD and labels(db) is None
    assert q(db, "SELECT json_valid(gx_labels('A', 1))") == 1
    name(db, "A", 0, ["x", None, "x"])
    assert labels(db) == ["x", None, "x"] and labels(db, axis=1) == ODD
    name(db, "A", 1, None)
    assert labels(db) == ["x", None, "x"] and labels(db, axis=1) is None
    assert q(db, "SELECT gx_check()") == "ok"


@pytest.mark.parametrize("make", ["gx_store('A', gx_ones(2, 2))", "gx_store('A', gx_sparse('[[1,0],[0,1]]'))", "gx_lu('[[1,2],[3,4]]', 'A')",
                                  "gx_block('A', '[[\"B\"],[\"B\"]]')", "gx_quantize('B', 'i8', 'A')"])
def test_of_every_kind(db, make):
    q(db, "SELECT gx_store('B', gx_ones(1, 2))")
    q(db, "SELECT " + make)
    rows = q(db, "SELECT rows FROM gx_meta WHERE name = 'A'")
    name(db, "A", 0, ["r"] * rows)
    assert labels(db) == ["r"] * rows
    assert q(db, "SELECT gx_check('A')") == "ok"


def test_schemas_and_transactions(tmp_path):
    db = gx_connect(str(tmp_path / "a.db"))
    db.execute("ATTACH ? AS other", (str(tmp_path / "b.db"),))
    for schema in ("main", "temp", "other"):
        q(db, f"SELECT gx_store('{schema}.A', '[1,2]')")
        name(db, schema + ".A", 0, [schema, "b"])
    for schema in ("main", "temp", "other"):
        assert labels(db, schema + ".A") == [schema, "b"]
    db.execute("BEGIN")
    name(db, "other.A", 0, ["c", "d"])
    assert labels(db, "other.A") == ["c", "d"]
    db.execute("ROLLBACK")
    assert labels(db, "other.A") == ["other", "b"]
    db.execute("CREATE TABLE t(x)")
    db.execute("INSERT INTO t SELECT gx_set_labels('main.A', 0, '[\"e\",\"f\"]')")
    again = gx_connect(str(tmp_path / "a.db"))
    assert labels(again) == ["e", "f"]
    again.close()
    db.close()


# 2. ------------------------------------------------------------------------------------------------

def test_they_last(db):
    q(db, "SELECT gx_store('A', gx_ones(3, 2))")
    name(db, "A", 0, ["a", "b", "c"])
    name(db, "A", 1, ["x", "y"])
    q(db, "SELECT gx_set('A', 0, 0, 7)")
    db.execute("CREATE VIRTUAL TABLE cells USING gx_cells('A')")
    db.execute("UPDATE cells SET value = 3 WHERE i = 1")
    q(db, "SELECT gx_set_property('A', 'lower', 1)")
    q(db, "SELECT gx_rename('A', 'B')")
    q(db, "SELECT gx_copy('B', 'temp.C', '{\"dtype\":\"f32\"}')")
    q(db, "SELECT gx_store('D', 'C', '{\"dtype\":\"i8\"}')")
    for matrix in "BCD":
        assert labels(db, matrix) == ["a", "b", "c"] and labels(db, matrix, 1) == ["x", "y"]
    q(db, "SELECT gx_transpose('B', 'E')")
    assert labels(db, "E") is None and q(db, "SELECT gx_labels(gx_copy('B'))") is None and q(db, "SELECT gx_labels('[1]', 1)") is None


def test_they_grow_and_shrink(db):
    q(db, "SELECT gx_config('tile_bytes', 64)")
    q(db, "SELECT gx_store('A', gx_ones(?, 3))", len(ODD))
    name(db, "A", 0, ODD)
    want = list(ODD)
    rng = np.random.default_rng(1)
    for _ in range(8):
        q(db, "SELECT gx_append('A', gx_ones(3, 3))")
        want += [None] * 3
        assert labels(db) == want
        at = rng.permutation(len(want))[:4]
        q(db, "SELECT gx_delete_rows('A', ?)", from_numpy(at.astype("f8")))
        want = [n for k, n in enumerate(want) if k not in at]
        assert labels(db) == want
        q(db, "SELECT gx_set_rows('A', 0, gx_ones(1, 3))")
    name(db, "A", 1, ["x", "y", "z"])
    q(db, "SELECT gx_delete_rows('A', 1, '{\"axis\":1}')")
    assert labels(db) == want and labels(db, axis=1) == ["x", "z"]
    q(db, "SELECT gx_delete_rows('A', ?)", from_numpy(np.arange(float(len(want)))))
    assert labels(db) == [] and labels(db, axis=1) == ["x", "z"]
    assert q(db, "SELECT gx_check()") == "ok"


def test_they_go(filedb):
    def count():
        return q(filedb, "SELECT count(*) FROM gx_label")

    for secure in ("ON", "OFF"):  # with it a matrix of the same shape is written over
        filedb.execute(f"PRAGMA secure_delete={secure}")
        q(filedb, "SELECT gx_store('A', gx_ones(3, 2), '{\"replace\":true}')")
        name(filedb, "A", 0, ["a", "b", "c"])
        assert count() == 1
        q(filedb, "SELECT gx_store('A', gx_zeros(3, 2), '{\"replace\":true}')")
        assert labels(filedb) is None and count() == 0
        name(filedb, "A", 1, ["x", "y"])
        q(filedb, "SELECT gx_drop('A')")
        assert count() == 0
    q(filedb, "SELECT gx_store('A', gx_ones(3, 2))")
    name(filedb, "A", 1, ["x", "y"])
    filedb.execute("UPDATE gx_meta SET generation = generation + 1 WHERE name = 'A'")  # as gx of before would
    filedb.execute("UPDATE gx_state SET value = value + 1 WHERE key = 'next_generation'")
    assert labels(filedb, axis=1) is None
    q(filedb, "SELECT gx_set('A', 0, 0, 1)")
    assert labels(filedb, axis=1) is None


# 3. ------------------------------------------------------------------------------------------------

def test_csv(db, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('area,"the ""price"", now",,first.name\n1,2,3,4\n5,6,7,8\n')
    q(db, "SELECT gx_import('A', ?)", str(path))
    names = ["area", 'the "price", now', None, "first.name"]
    assert labels(db, axis=1) == names and labels(db) is None
    q(db, "SELECT gx_export('A', ?)", str(tmp_path / "b.csv"))
    assert (tmp_path / "b.csv").read_text() == path.read_text()
    q(db, "SELECT gx_export('A', ?, '{\"header\":false}')", str(tmp_path / "c.csv"))
    assert (tmp_path / "c.csv").read_text() == "1,2,3,4\n5,6,7,8\n"
    q(db, "SELECT gx_import('B', ?, '{\"columns\":\"3,0\"}')", str(path))
    assert labels(db, "B", 1) == ["first.name", "area"]
    q(db, "SELECT gx_import('C', ?, '{\"columns\":[\"first.name\",\"area\"]}')", str(path))
    assert labels(db, "C", 1) == ["first.name", "area"] and q(db, "SELECT gx_json('C')") == "[[4.0,1.0],[8.0,5.0]]"
    q(db, "SELECT gx_import('D', ?, '{\"dtype\":\"i8\"}')", str(path))
    assert labels(db, "D", 1) == names
    (tmp_path / "d.tsv").write_text("2019\t2020\n1\t2\n")
    q(db, "SELECT gx_import('E', ?, '{\"header\":true}')", str(tmp_path / "d.tsv"))
    assert labels(db, "E", 1) == ["2019", "2020"]
    (tmp_path / "r.csv").write_text("a,b\n1,2,3\n")  # as R writes it: of which column is a the name?
    q(db, "SELECT gx_import('F', ?)", str(tmp_path / "r.csv"))
    assert labels(db, "F", 1) is None
    (tmp_path / "l.csv").write_bytes(b"\xe9t\xe9,b\n1,2\n")
    q(db, "SELECT gx_import('G', ?)", str(tmp_path / "l.csv"))
    assert labels(db, "G", 1) == ["?t?", "b"]
    assert q(db, "SELECT gx_json(gx_import(NULL, ?))", str(path)) == "[[1.0,2.0,3.0,4.0],[5.0,6.0,7.0,8.0]]"


def test_names_of_all_kinds_in_a_file(db, tmp_path):
    kept = [n for n in ODD if n and n.strip(" \t\n") == n and not set(n) & set("\x01\n")]
    q(db, "SELECT gx_store('A', gx_ones(1, ?))", len(kept))
    name(db, "A", 1, kept)
    for ending, delimiter in [("csv", None), ("tsv", None), ("txt", ";")]:
        path = str(tmp_path / ("a." + ending))
        options = json.dumps({"delimiter": delimiter} if delimiter else {})
        q(db, "SELECT gx_export('A', ?, ?)", path, options)
        q(db, "SELECT gx_import('B', ?, ?)", path, json.dumps({"header": True, "replace": True, **({"delimiter": delimiter} if delimiter else {})}))
        assert labels(db, "B", 1) == kept


def test_from_table(db):
    db.execute('CREATE TABLE t(a REAL, "b ""c""" REAL)')
    db.execute("INSERT INTO t VALUES (1, 2)")
    q(db, "SELECT gx_from_table('t', 'A')")
    assert labels(db, axis=1) == ["a", 'b "c"']
    q(db, "SELECT gx_from_table('t', '[\"a\"]', 'A', '{\"replace\":true,\"dtype\":\"i16\"}')")
    assert labels(db, axis=1) == ["a"]


def test_shown(db):
    q(db, "SELECT gx_store('A', '[[1,2],[3,4]]')")
    name(db, "A", 1, ["x" * 60, None])
    assert q(db, "SELECT gx_show('A')") == "[[1. 2.]\n [3. 4.]]\ncolumns: " + "x" * 40 + "..., 1"
    q(db, "SELECT gx_store('B', gx_zeros(2000, 1))")
    name(db, "B", 0, [f"r{k}" for k in range(2000)])
    assert q(db, "SELECT gx_show('B', '{\"edgeitems\":2}')").splitlines()[-1] == "rows: r0, r1, ..., r1998, r1999"


def test_rows(db):
    q(db, "SELECT gx_config('tile_bytes', 512)")
    q(db, "SELECT gx_store('A', gx_ones(300, 3))")
    assert db.execute("SELECT DISTINCT label FROM gx_rows('A')").fetchall() == [(None,)]
    names = [f"row {k}" if k % 3 else None for k in range(300)]
    name(db, "A", 0, names)
    q(db, "SELECT gx_append('A', gx_ones(2, 3))")
    names += [None, None]
    assert db.execute("SELECT i, label, label FROM gx_rows('A')").fetchall() == [(k, n, n) for k, n in enumerate(names)]
    assert db.execute("SELECT label FROM gx_rows('A') ORDER BY i DESC").fetchall() == [(n,) for n in reversed(names)]
    assert db.execute("SELECT t.value, label FROM json_each('[7,5,5,299]') t CROSS JOIN gx_rows('A') r WHERE r.i = t.value ORDER BY 1").fetchall() == [
        (5, "row 5"), (5, "row 5"), (7, "row 7"), (299, "row 299")]
    assert db.execute("SELECT i FROM gx_rows('A') WHERE label = 'row 8'").fetchall() == [(8,)]
    assert len(db.execute("SELECT * FROM gx_rows('A')").description) == 2


# 4. ------------------------------------------------------------------------------------------------

def test_refused(db, tmp_path):
    q(db, "SELECT gx_store('A', '[[1,2,3]]')")
    for given in ("3", "[1,2,3]", '["a",2,"c"]', '[["a"],"b","c"]', "[", '["a\\u0000b","b","c"]', "a,b,c"):
        text = "labels must be a JSON list of texts and nulls, one for each of the columns"
        assert error(db, "SELECT gx_set_labels('A', 1, ?)", given) == "gx_set_labels: " + text
    assert error(db, "SELECT gx_set_labels('A', 1, '[\"a\"]')") == "gx_set_labels: 1 labels for the 3 columns of A"
    assert error(db, "SELECT gx_set_labels('X', 1, '[]')") == "gx_set_labels: no matrix named 'X'"
    assert error(db, "SELECT gx_labels('X')") == "gx_labels: no matrix named 'X'"
    assert error(db, "SELECT gx_labels('A', 2)").startswith("gx_labels: axis must be 0")
    assert error(db, "SELECT gx_set_labels('[1]', 0, '[\"a\"]')") == "gx_set_labels: A is a JSON literal: only a stored matrix has labels"
    assert error(db, "SELECT gx_export('A', ?, '{\"header\":true}')", str(tmp_path / "a.csv")) == (
        "gx_export: the columns of A have no names: gx_set_labels gives some")
    assert error(db, "SELECT gx_export('A', ?, '{\"header\":true}')", str(tmp_path / "a.npy")) == "gx_export: option \"header\" is for csv, tsv and txt"


@pytest.mark.parametrize("names", ["", "[", "]", '["a"', '["a",]', '["a" ,"b"]', "[null", "[nul]", '["\\"]', '["\\x"]', '["\\u0000"]', '["\\u00"]', '["a\n"]',
                                   '["a"]x', '["a","b","c","d"]', "[1]", '["a"]["b"]', b"[]", None, 5])
def test_rows_that_lie(db, names):
    q(db, "SELECT gx_store('A', '[[1,2,3]]')")
    name(db, "A", 1, ["a", "b", "c"])
    db.execute("UPDATE gx_label SET names = ?", (names,))
    text = "gx_label has no list of at most 3 names for the columns of A"
    if names == b"[]":
        assert labels(db, axis=1) == [None] * 3
        return
    for sql in ("gx_labels('A', 1)", "gx_show('A')", "gx_copy('A', 'B')", "gx_delete_rows('A', 0, '{\"axis\":1}')"):
        assert error(db, "SELECT " + sql) == sql.split("(")[0] + ": " + text
    assert q(db, "SELECT gx_sum('A')") == 6
    name(db, "A", 1, ["d", "e", "f"])
    assert labels(db, axis=1) == ["d", "e", "f"]


def test_a_view_in_its_place(db):
    q(db, "SELECT gx_store('A', '[[1,2,3]]')")
    db.execute("CREATE VIEW gx_label AS SELECT 3 id, 1 generation, '[\"a\"]' names")
    assert "gx_set_labels: " in error(db, "SELECT gx_set_labels('A', 1, '[\"a\",\"b\",\"c\"]')")
    assert q(db, "SELECT gx_check()") == "gx_label of main is a view, not a table"
    assert q(db, "SELECT gx_sum('A')") == 6
