"""Storing in SQL, and the catalog table gx.

Plan:
1. gx_store, gx_copy, gx_cast: every dtype and shape round trip, options, refusals
2. gx_drop, gx_rename, gx_exists, and the rules for names
3. the table gx: columns, hidden columns, constraints, INSERT, UPDATE, DELETE, conflicts, refusals
4. schemas: main, temp, attached; which one a name means; the table gx of each
5. the tables as SQLite sees them: DROP TABLE gx, a stranger called gx, size of the file, pages given back
"""
import os
import sqlite3

import numpy as np
import pytest
from conftest import DTYPE_NAMES, error, from_numpy, gx_connect, q, to_numpy

SEED = 20250101


@pytest.fixture
def small_tiles(monkeypatch, tmp_path):
    """A connection whose new matrices have tiles of 4096 bytes."""
    monkeypatch.setenv("GX_TILE_BYTES", "4096")
    db = gx_connect(str(tmp_path / "small.db"))
    yield db
    db.close()


def names(db, table="gx"):
    return [row[0] for row in db.execute(f"SELECT name FROM {table}")]


def random(dtype, rows, cols):
    rng = np.random.default_rng(SEED)
    A = rng.standard_normal((rows, cols)) + (1j * rng.standard_normal((rows, cols)) if dtype[0] == "c" else 0)
    return A.astype({"f64": "<f8", "f32": "<f4", "c128": "<c16", "c64": "<c8"}[dtype])


# 1. ------------------------------------------------------------------------------------------------

SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (7, 1), (1, 7), (22, 23), (65, 64), (200, 3), (3, 200), (100, 130)]


@pytest.mark.parametrize("dtype", ["f64", "f32", "c128", "c64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_round_trip(small_tiles, dtype, shape):
    A = random(dtype, *shape)
    assert q(small_tiles, "SELECT gx_store('A', ?)", from_numpy(A)) == "A"
    B = to_numpy(q(small_tiles, "SELECT gx_copy('A')"))
    assert B.dtype == A.dtype and B.shape == A.shape and (B == A).all()
    assert q(small_tiles, "SELECT gx_check()") == "ok"


def test_many_tiles(small_tiles):
    small_tiles.execute("SELECT gx_store('A', ?)", (from_numpy(random("f64", 100, 130)),))
    row = small_tiles.execute("SELECT tile_rows, tile_cols FROM gx").fetchone()
    assert row == (20, 22)  # at most sqrt(4096 / 8) = 22: 100 = 5 * 20, 130 = 5 * 22 + 20
    assert q(small_tiles, "SELECT count(*) FROM gx_tile") == 5 * 6
    assert q(small_tiles, "SELECT sum(length(data)) FROM gx_tile") == 100 * 130 * 8
    assert q(small_tiles, "SELECT max(length(data)) FROM gx_tile") <= 4096


def test_tiles_are_column_major(small_tiles):
    """The file format: tile = tile column * tile rows in all + tile row; column-major inside, edges cut."""
    A = random("f64", 100, 130)
    small_tiles.execute("SELECT gx_store('A', ?)", (from_numpy(A),))
    id, p, r = small_tiles.execute("SELECT id, tile_rows, tile_cols FROM gx_meta WHERE name = 'A'").fetchone()
    for ti, tj in [(0, 0), (1, 0), (0, 1), (4, 0), (0, 5), (4, 5)]:
        data = q(small_tiles, "SELECT data FROM gx_tile WHERE id = ?", id << 32 | (tj * 5 + ti))
        piece = A[ti * p:(ti + 1) * p, tj * r:(tj + 1) * r]
        assert data == piece.tobytes(order="F")


@pytest.mark.parametrize("start, target", [("f64", "f32"), ("f64", "c128"), ("f32", "f64"), ("f32", "c64"),
                                           ("c128", "c64"), ("c64", "c128"), ("f64", "c64"), ("f32", "f32")])
def test_cast(small_tiles, start, target):
    A = random(start, 70, 40)
    want = A.astype(random(target, 1, 1).dtype)
    small_tiles.execute("SELECT gx_store('A', ?)", (from_numpy(A),))
    for got in [q(small_tiles, f"SELECT gx_cast('A', '{target}')"),
                q(small_tiles, f"SELECT gx_copy('A', '{{\"dtype\":\"{target}\"}}')"),
                q(small_tiles, f"SELECT gx_copy(gx_cast('A', '{target}', 'B'))")]:
        B = to_numpy(got)
        assert B.dtype == want.dtype and (B == want).all()


def test_cast_refuses_to_lose_imaginary_parts(db):
    db.execute("SELECT gx_store('A', '[[\"1+2i\"]]')")
    assert error(db, "SELECT gx_cast('A', 'f64')") == "gx_cast: A is c128 and f64 would lose the imaginary part"
    assert error(db, "SELECT gx_store('B', 'A', '{\"dtype\":\"f32\"}')") == \
        "gx_store: A is c128 and f32 would lose the imaginary part"
    assert error(db, "SELECT gx_cast('A', 'i7')") == f"gx_cast: dtype 'i7' is not known ({DTYPE_NAMES})"
    assert names(db) == ["A"]


def test_replace(small_tiles):
    db = small_tiles
    db.execute("SELECT gx_store('A', '[[1,2],[3,4]]')")
    db.execute("SELECT gx_store('B', '[5]')")
    generation = q(db, "SELECT generation FROM gx WHERE name = 'A'")
    assert error(db, "SELECT gx_store('A', 'B')") == \
        "gx_store: matrix 'A' already exists (use '{\"replace\":true}')"
    assert error(db, "SELECT gx_copy('B', 'A')") == \
        "gx_copy: matrix 'A' already exists (use '{\"replace\":true}')"
    assert to_numpy(q(db, "SELECT gx_copy('A')")).tolist() == [[1, 2], [3, 4]]
    assert q(db, "SELECT gx_copy('B', 'A', '{\"replace\":true}')") == "A"
    assert to_numpy(q(db, "SELECT gx_copy('A')")).tolist() == [[5]]
    assert q(db, "SELECT generation FROM gx WHERE name = 'A'") > generation
    assert q(db, "SELECT gx_cast('A', 'f32', 'A', '{\"replace\":true}')") == "A"  # itself
    assert db.execute("SELECT dtype FROM gx WHERE name = 'A'").fetchall() == [("f32",)]
    assert to_numpy(q(db, "SELECT gx_copy('A')")).tolist() == [[5]]
    assert q(db, "SELECT gx_check()") == "ok"


def test_options_are_known(db):
    assert "unknown option \"relpace\"" in error(db, "SELECT gx_store('A', '[1]', '{\"relpace\":true}')")
    assert error(db, "SELECT gx_store('A')") == "gx_store: takes 2 to 3 arguments, not 1: gx_store(name, A[, options])"
    assert error(db, "SELECT gx_store(NULL, '[1]')") == "gx_store: name must be a text, not NULL"
    assert error(db, "SELECT gx_store('A', NULL)").startswith("gx_store: matrix ")
    assert error(db, "SELECT gx_store('A', 'B')") == "gx_store: no matrix named 'B'"
    assert names(db) == []


# 2. ------------------------------------------------------------------------------------------------

def test_drop(db):
    db.execute("SELECT gx_store('A', '[1]'), gx_store('B', '[2]')")
    assert q(db, "SELECT gx_drop('A')") == "A"
    assert names(db) == ["B"]
    assert q(db, "SELECT count(*) FROM gx_tile") == 1
    assert error(db, "SELECT gx_drop('A')") == "gx_drop: no matrix named 'A'"
    assert q(db, "SELECT gx_drop('A', '{\"if_exists\":true}')") is None
    assert q(db, "SELECT gx_drop('B', '{\"if_exists\":true}')") == "B"
    assert names(db) == []


def test_rename(db):
    db.execute("SELECT gx_store('A', '[1]'), gx_store('B', '[2]'), gx_store('temp.T', '[3]')")
    generation = q(db, "SELECT generation FROM gx WHERE name = 'A'")
    assert q(db, "SELECT gx_rename('A', 'C')") == "C"
    assert names(db) == ["B", "C"]
    assert q(db, "SELECT generation FROM gx WHERE name = 'C'") == generation  # the elements have not changed
    assert error(db, "SELECT gx_rename('C', 'B')") == "gx_rename: matrix 'B' already exists"
    assert error(db, "SELECT gx_rename('A', 'B')") == "gx_rename: no matrix named 'A'"
    assert q(db, "SELECT gx_rename('C', 'main.D')") == "main.D"
    assert q(db, "SELECT gx_rename('D', 'D')") == "D"
    assert q(db, "SELECT gx_rename('T', 'U')") == "U"
    assert names(db, "temp.gx") == ["U"]
    assert error(db, "SELECT gx_rename('U', 'main.U')") == \
        "gx_rename: renaming cannot move a matrix from temp to main: use gx_copy"
    assert error(db, "SELECT gx_rename('D', '[D')") == "gx_rename: the name '[D' starts with '[', as a JSON text does"


def test_ids_and_generations_are_not_reused(db):
    seen = set()
    for _ in range(5):
        db.execute("SELECT gx_store('A', '[1]')")
        seen.add(db.execute("SELECT id, generation FROM gx_meta").fetchone())
        db.execute("SELECT gx_drop('A')")
    assert len({id for id, _ in seen}) == 5 and len({generation for _, generation in seen}) == 5


GOOD_NAMES = ["A", "a", "Ä", "with space", "semi;colon", "quote'", 'double"quote', "0", "-", "%w %s", "x" * 255,
              "\u65e5\u672c", "gx_meta", "NULL", "main.v1.0", " A", "A "]


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_good_names(db, name):
    assert q(db, "SELECT gx_store(?, '[1,2]')", name) == name
    assert q(db, "SELECT gx_exists(?)", name) == 1
    assert to_numpy(q(db, "SELECT gx_copy(?)", name)).shape == (2, 1)
    assert names(db) == [name.removeprefix("main.")]
    assert q(db, "SELECT gx_exists(?)", name + "x") == 0
    assert q(db, "SELECT gx_drop(?)", name) == name


BAD_NAMES = {
    "": "the name of a matrix is empty",
    "main.": "the name of a matrix is empty",
    "[x": "the name '[x' starts with '[', as a JSON text does",
    " [x": "the name ' [x' starts with '[', as a JSON text does",
    "main.{x": "the name '{x' starts with '{', as a JSON text does",
    "x" * 256: "the name '" + "x" * 40 + "...' has 256 bytes; the most is 255",
    "nowhere.A": "no database named 'nowhere' for the matrix 'nowhere.A'",
    ".A": "no database named '' for the matrix '.A'",
    "v1.0": "no database named 'v1' for the matrix 'v1.0'",
}


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_names(db, name):
    assert error(db, "SELECT gx_store(?, '[1]')", name) == "gx_store: " + BAD_NAMES[name]
    assert q(db, "SELECT gx_exists(?)", name) == 0
    assert db.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


def test_names_are_case_sensitive_and_schemas_are_not(db):
    db.execute("SELECT gx_store('A', '[1]'), gx_store('a', '[2]')")
    assert to_numpy(q(db, "SELECT gx_copy('MAIN.a')")).tolist() == [[2]]
    assert names(db) == ["A", "a"]


# 3. ------------------------------------------------------------------------------------------------

def test_catalog_before_anything_is_stored(db):
    assert db.execute("SELECT * FROM gx").fetchall() == []
    assert db.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    assert [c[0] for c in db.execute("SELECT * FROM gx").description] == [
        "name", "rows", "cols", "dtype", "properties", "tile_rows", "tile_cols", "bytes", "generation", "format",
        "nnz"]


def test_catalog_columns(db):
    db.execute("SELECT gx_store('A', ?)", (from_numpy(random("c64", 3000, 2)),))
    assert db.execute("SELECT name, rows, cols, dtype, properties, tile_rows, tile_cols, bytes, schema FROM gx"
                      ).fetchall() == [("A", 3000, 2, "c64", "", 3000, 2, 48000, "main")]
    assert (to_numpy(q(db, "SELECT value FROM gx")) == random("c64", 3000, 2)).all()


def test_catalog_constraints(db):
    for name in "CAB":
        db.execute("SELECT gx_store(?, '[1]')", (name,))
    assert names(db) == ["A", "B", "C"]
    assert db.execute("SELECT name FROM gx WHERE name = 'B'").fetchall() == [("B",)]
    assert db.execute("SELECT name FROM gx WHERE name IN ('C', 'A', 'X') ORDER BY name DESC").fetchall() == [("C",), ("A",)]
    assert db.execute("SELECT name FROM gx WHERE name = 'b' COLLATE NOCASE").fetchall() == [("B",)]
    assert db.execute("SELECT name FROM gx WHERE name = NULL").fetchall() == []
    assert db.execute("SELECT name FROM gx WHERE name > 'A'").fetchall() == [("B",), ("C",)]
    assert db.execute("SELECT name FROM gx WHERE rowid = (SELECT rowid FROM gx WHERE name = 'B')").fetchall() == [("B",)]
    plan = db.execute("EXPLAIN QUERY PLAN SELECT * FROM gx ORDER BY name").fetchall()
    assert not any("TEMP B-TREE" in row[3] for row in plan)


def test_catalog_insert(db):
    db.execute("INSERT INTO gx(name, value) VALUES('A', '[[1,2],[3,4]]')")
    db.execute("INSERT INTO gx(name, value, dtype) VALUES('B', 'A', 'f32'), ('C', 7, NULL)")
    db.execute("INSERT INTO gx(name, value) SELECT 'copy of ' || name, name FROM gx WHERE dtype = 'f64'")
    assert db.execute("SELECT name, rows, cols, dtype FROM gx").fetchall() == [
        ("A", 2, 2, "f64"), ("B", 2, 2, "f32"), ("C", 1, 1, "f64"), ("copy of A", 2, 2, "f64"),
        ("copy of C", 1, 1, "f64")]
    assert q(db, "SELECT gx_check()") == "ok"
    cursor = db.execute("INSERT INTO gx(name, value) VALUES('D', '[9]')")
    assert q(db, "SELECT name FROM gx WHERE rowid = ?", cursor.lastrowid) == "D"


def test_catalog_insert_refuses(db):
    db.execute("SELECT gx_store('A', '[1]')")
    for sql, text in {
        "INSERT INTO gx(name) VALUES('B')": "gx: value ",
        "INSERT INTO gx(name, value) VALUES(NULL, '[1]')": "gx: name must be a text, not NULL",
        "INSERT INTO gx(name, value) VALUES(5, '[1]')": "gx: name must be a text, not 5",
        "INSERT INTO gx(name, value, rows) VALUES('B', '[1]', 1)":
            "gx: column rows is not for INSERT: give name, value, dtype, schema",
        "INSERT INTO gx(name, value, dtype) VALUES('B', '[1]', 'f18')":
            f"gx: dtype 'f18' is not known ({DTYPE_NAMES})",
        "INSERT INTO gx(name, value) VALUES('B', 'X')": "gx: no matrix named 'X'",
        "INSERT INTO gx(name, value, schema) VALUES('B', '[1]', 'X')": "gx: no database named 'X'",
        "INSERT INTO gx(name, value, schema) VALUES('main.B', '[1]', 'temp')":
            "gx: name is in main but schema is temp",
        "INSERT INTO gx(name, value) VALUES('A', '[1]')": "gx: matrix 'A' already exists (use INSERT OR REPLACE)",
        "INSERT INTO nowhere.gx(name, value) VALUES('A', '[1]')": "gx: no database named 'nowhere'",
    }.items():
        assert error(db, sql).startswith(text), sql
    assert names(db) == ["A"] and q(db, "SELECT gx_check()") == "ok"


def test_catalog_conflicts(db):
    db.execute("SELECT gx_store('A', '[1]')")
    db.execute("INSERT OR IGNORE INTO gx(name, value) VALUES('A', '[2]'), ('B', '[3]')")
    assert to_numpy(q(db, "SELECT value FROM gx WHERE name = 'A'")).tolist() == [[1]]
    db.execute("INSERT OR REPLACE INTO gx(name, value) VALUES('A', '[4]')")
    assert to_numpy(q(db, "SELECT value FROM gx WHERE name = 'A'")).tolist() == [[4]]
    assert names(db) == ["A", "B"]
    # A statement that fails half-way leaves nothing.
    assert "already exists" in error(db, "INSERT INTO gx(name, value) VALUES('C', '[5]'), ('A', '[6]')")
    assert names(db) == ["A", "B"] and q(db, "SELECT gx_check()") == "ok"


def test_catalog_update(db):
    for name in "ABC":
        db.execute("SELECT gx_store(?, '[1]')", (name,))
    assert db.execute("UPDATE gx SET name = name || '1' WHERE name < 'C'").rowcount == 2
    assert names(db) == ["A1", "B1", "C"]
    assert error(db, "UPDATE gx SET name = 'C' WHERE name = 'A1'") == "gx: matrix 'C' already exists"
    assert error(db, "UPDATE gx SET name = name || '2', rows = 5") == \
        "gx: column rows cannot be changed, only the name can"
    assert error(db, "UPDATE gx SET value = '[2]'") == "gx: column value cannot be changed, only the name can"
    assert error(db, "UPDATE gx SET rowid = 5 WHERE name = 'C'") == "gx: rowid cannot be changed, only the name can"
    assert error(db, "UPDATE gx SET name = NULL WHERE name = 'C'") == "gx: name must be a text, not NULL"
    assert names(db) == ["A1", "B1", "C"]


def test_catalog_delete(small_tiles):
    db = small_tiles
    for name in "ABC":
        db.execute("SELECT gx_store(?, ?)", (name, from_numpy(random("f64", 60, 60))))
    assert db.execute("DELETE FROM gx WHERE name <> 'B'").rowcount == 2
    assert names(db) == ["B"] and q(db, "SELECT count(*) FROM gx_tile") == 9
    db.execute("DELETE FROM gx")
    assert names(db) == [] and q(db, "SELECT count(*) FROM gx_tile") == 0


def test_catalog_joins_functions(db):
    db.execute("SELECT gx_store('A', '[[3,0],[0,4]]'), gx_store('B', '[1]')")
    assert db.execute("SELECT name, length(gx_copy(name)) FROM gx").fetchall() == [("A", 64), ("B", 40)]
    db.execute("CREATE TABLE label(matrix, label)")
    db.execute("INSERT INTO label VALUES('B', 'one'), ('A', 'two')")
    assert db.execute("SELECT label, rows FROM label JOIN gx ON name = matrix ORDER BY label").fetchall() == [
        ("one", 1), ("two", 2)]
    db.execute("CREATE TEMP VIEW big AS SELECT name FROM gx WHERE bytes > 8")  # temp: nobody's file brings it
    assert db.execute("SELECT * FROM big").fetchall() == [("A",)]
    db.execute("CREATE VIEW wide AS SELECT name FROM gx_meta WHERE cols > 1 AND name IS NOT NULL")
    assert db.execute("SELECT * FROM wide").fetchall() == [("A",)]


# 4. ------------------------------------------------------------------------------------------------

@pytest.fixture
def three(tmp_path):
    db = gx_connect(str(tmp_path / "main.db"))
    db.execute("ATTACH ? AS aux", (str(tmp_path / "aux.db"),))
    db.execute("ATTACH ? AS \"odd name\"", (str(tmp_path / "odd.db"),))
    yield db
    db.close()


def test_schemas(three):
    for i, name in enumerate(["A", "temp.B", "aux.C", "odd name.D"]):
        assert q(three, f"SELECT gx_store(?, {i})", name) == name
    assert names(three) == ["A"] and names(three, "main.gx") == ["A"]
    assert names(three, "temp.gx") == ["B"]
    assert names(three, "aux.gx") == ["C"]
    assert names(three, '"odd name".gx') == ["D"]
    assert [to_numpy(q(three, "SELECT gx_copy(?)", name))[0, 0] for name in "ABCD"] == [0, 1, 2, 3]
    assert three.execute("SELECT name, schema FROM gx('aux')").fetchall() == [("C", "aux")]
    assert three.execute("SELECT name, schema FROM gx WHERE schema IN ('TEMP', 'main') ORDER BY name").fetchall() == [
        ("A", "main"), ("B", "temp")]
    assert three.execute("SELECT d.name, m.name FROM pragma_database_list d JOIN gx m ON m.schema = d.name "
                         "ORDER BY d.seq").fetchall() == [
        ("main", "A"), ("temp", "B"), ("aux", "C"), ("odd name", "D")]
    assert error(three, "SELECT * FROM gx('nowhere')") == "gx: no database named 'nowhere'"
    assert q(three, "SELECT gx_check()") == "ok"


def test_the_first_schema_wins(three):
    three.execute("SELECT gx_store('aux.A', 3)")
    assert to_numpy(q(three, "SELECT gx_copy('A')")) == 3
    three.execute("SELECT gx_store('main.A', 2)")
    assert to_numpy(q(three, "SELECT gx_copy('A')")) == 2
    three.execute("SELECT gx_store('temp.A', 1)")
    assert to_numpy(q(three, "SELECT gx_copy('A')")) == 1
    assert [to_numpy(q(three, f"SELECT gx_copy('{s}.A')"))[0, 0] for s in ("temp", "main", "aux")] == [1, 2, 3]
    three.execute("DELETE FROM gx WHERE name = 'A'")
    assert not names(three) and names(three, "temp.gx") == ["A"] and names(three, "aux.gx") == ["A"]
    three.execute("DELETE FROM gx WHERE schema = 'temp'")
    three.execute("UPDATE aux.gx SET name = 'B'")
    assert to_numpy(q(three, "SELECT gx_copy('B')")) == 3
    assert error(three, "SELECT gx_copy('A')") == "gx_copy: no matrix named 'A'"


def test_schema_of_an_insert(three):
    three.execute("INSERT INTO gx(name, value) VALUES('A', 1)")
    three.execute("INSERT INTO gx(name, value) VALUES('temp.B', 2)")
    three.execute("INSERT INTO gx(name, value, schema) VALUES('C', 3, 'AUX')")
    three.execute("INSERT INTO temp.gx(name, value) VALUES('B2', 4)")
    three.execute("SELECT gx_store('aux.D', 4), gx_store('E', 5)")
    three.execute("INSERT INTO aux.gx(name, value) VALUES('F', 6)")
    three.execute("INSERT INTO aux.gx(name, value) SELECT 'copy', value FROM main.gx WHERE name = 'A'")
    assert (names(three), names(three, "temp.gx"), names(three, "aux.gx")) == (
        ["A", "E"], ["B", "B2"], ["C", "D", "F", "copy"])
    assert names(three, "\"odd name\".gx") == []


def test_copy_between_files(three, tmp_path):
    A = random("f64", 40, 30)
    three.execute("SELECT gx_store('A', ?), gx_copy('A', 'aux.A')", (from_numpy(A),))
    three.execute("DETACH aux")
    other = gx_connect(str(tmp_path / "aux.db"))
    assert names(other) == ["A"]
    assert (to_numpy(q(other, "SELECT gx_copy('A')")) == A).all()
    other.close()


def test_dots(db):
    db.execute("ATTACH ':memory:' AS \"a.b\"")
    db.execute("SELECT gx_store('a.b.M.1', 1)")
    assert db.execute("SELECT name, schema, length(value) FROM gx('a.b')").fetchall() == [("M.1", "a.b", 40)]
    assert to_numpy(q(db, "SELECT gx_copy('A.B.M.1')")) == 1
    assert to_numpy(q(db, "SELECT gx_copy('M.1')")) == 1


def test_schema_attached_during_the_connection(db, tmp_path):
    assert error(db, "SELECT gx_copy('late.A')") == "gx_copy: no matrix named 'late.A'"
    db.execute("ATTACH ? AS late", (str(tmp_path / "late.db"),))
    assert q(db, "SELECT gx_store('late.A', 1)") == "late.A"
    db.execute("DETACH late")
    assert q(db, "SELECT gx_exists('late.A')") == 0
    assert error(db, "SELECT gx_store('late.B', 1)") == "gx_store: no database named 'late' for the matrix 'late.B'"


# 5. ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("schema", ["n" * 256, ""])
def test_schema_with_a_name_out_of_reach(db, tmp_path, schema):
    """It is not seen, and disturbs nobody."""
    other = gx_connect(str(tmp_path / "other.db"))
    q(other, "SELECT gx_store('A', '[1,2]')")
    other.close()
    db.execute(f'ATTACH \'{tmp_path / "other.db"}\' AS "{schema}"')
    assert error(db, "SELECT gx_json('A')") == "gx_json: no matrix named 'A'"
    assert q(db, "SELECT gx_store('B', '[1]')") == "B" and q(db, "SELECT gx_check()") == "ok"
    assert names(db) == ["B"] and q(db, f'SELECT count(*) FROM "{schema}".gx') == 0
    db.execute(f'CREATE VIRTUAL TABLE "{schema}".a USING gx_cells(\'A\')')
    assert error(db, f'UPDATE "{schema}".a SET value = 1') == "gx_cells: a: no matrix named 'A'"


def test_drop_table(filedb):
    """There is none to drop; that of an older gx goes without its matrices."""
    filedb.execute("SELECT gx_store('A', '[1]')")
    assert error(filedb, "DROP TABLE gx") == "table gx may not be dropped"
    filedb.execute("CREATE VIRTUAL TABLE gx USING gx_catalog")
    filedb.execute("DROP TABLE gx")
    assert names(filedb) == ["A"] and q(filedb, "SELECT gx_check()") == "ok"


def test_the_catalog_has_one_name(db):
    assert error(db, "CREATE VIRTUAL TABLE catalog USING gx_catalog") == \
        "gx_catalog: the table is named gx and takes no arguments"
    assert error(db, "CREATE VIRTUAL TABLE gx USING gx_catalog(1)") == \
        "gx_catalog: the table is named gx and takes no arguments"
    assert error(db, "CREATE VIRTUAL TABLE temp.gx USING gx_catalog") == \
        "gx_catalog: temp has no table gx, it would hide main.gx"
    db.execute("CREATE VIRTUAL TABLE gx USING gx_catalog")
    assert error(db, "ALTER TABLE gx RENAME TO catalog") == "gx: the catalog cannot be renamed"
    db.execute("SELECT gx_store('A', '[1]')")
    assert names(db) == ["A"]


def test_a_stranger_called_gx(db):
    db.execute("CREATE TABLE gx(a)")
    assert error(db, "SELECT gx_store('A', '[1]')") == \
        "gx_store: main has a table gx that is not the catalog of gx: rename it"
    db.execute("ALTER TABLE gx RENAME TO mine")
    db.execute("CREATE TABLE gx_tile(a)")
    assert error(db, "SELECT gx_store('A', '[1]')") == \
        "gx_store: making the tables of gx in main: table gx_tile already exists"
    assert [row[0] for row in db.execute("SELECT name FROM sqlite_master")] == ["mine", "gx_tile"]
    db.execute("DROP TABLE gx_tile")
    db.execute("SELECT gx_store('A', '[1]')")


def test_file_is_as_large_as_the_elements(tmp_path):
    """n = 2048 here for time's sake: 32 MiB of f64 in pages of 64 KiB; 1.02 at most is promised for n = 4096."""
    path = str(tmp_path / "large.db")
    db = gx_connect(path, page_size=65536)
    db.execute("SELECT gx_store('A', ?)", (from_numpy(np.ones((2048, 2048))),))
    db.close()
    assert os.path.getsize(path) <= 1.02 * 2048 * 2048 * 8


def test_dropping_gives_pages_back(filedb):
    db, A = filedb, from_numpy(random("f64", 500, 500))
    db.execute("SELECT gx_store('A', ?)", (A,))
    pages = q(db, "PRAGMA page_count")
    db.execute("DELETE FROM gx WHERE name = 'A'")
    assert q(db, "PRAGMA freelist_count") >= 500 * 500 * 8 // q(db, "PRAGMA page_size")
    db.execute("SELECT gx_store('B', ?)", (A,))
    assert q(db, "PRAGMA page_count") <= pages + 2
    free = q(db, "PRAGMA freelist_count")
    db.execute("SELECT gx_store('B', '[1]', '{\"replace\":true}')")
    assert q(db, "PRAGMA freelist_count") > free + 400


def test_auto_vacuum_shrinks_the_file(tmp_path):
    path = str(tmp_path / "vacuum.db")
    db = gx_connect(path, auto_vacuum=1)
    db.execute("SELECT gx_store('A', ?)", (from_numpy(random("f64", 500, 500)),))
    db.execute("SELECT gx_drop('A')")
    assert os.path.getsize(path) < 100_000
    db.close()


def test_user_sees_no_traces(db):
    db.execute("CREATE TABLE t(a)")
    db.execute("INSERT INTO t VALUES(1), (2), (3)")
    db.execute("SELECT gx_store('A', '[1,2]')")
    assert q(db, "SELECT last_insert_rowid()") == 3
    assert db.in_transaction is False


def test_utf16(tmp_path):
    db = gx_connect(str(tmp_path / "utf16.db"), encoding="'UTF-16'")
    db.execute("SELECT gx_store('Größe', '[[1,2]]')")
    assert names(db) == ["Größe"] and q(db, "SELECT gx_exists('Größe')") == 1
    assert q(db, "SELECT gx_check()") == "ok"
    db.close()


def test_length_limit(db):
    if not hasattr(db, "setlimit"):
        pytest.skip("this Python's sqlite3 has no Connection.setlimit")
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000)
    A = random("f64", 30, 30)
    db.execute("SELECT gx_store('A', ?)", (from_numpy(A),))
    db.execute("SELECT gx_store('wide', ?, '{\"dtype\":\"c128\"}')", (from_numpy(A),))
    assert q(db, "SELECT max(length(data)) FROM gx_tile") < 10_000
    assert "10000" in error(db, "SELECT gx_copy('wide')")
