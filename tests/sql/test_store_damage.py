"""Damaged tables: whatever stands in gx_meta, gx_tile and gx_state, gx says what is wrong and reads nothing wrong.

Plan:
1. catalog rows edited by hand: every field, every wrong type and value; exact text; code SQLITE_CORRUPT_VTAB
2. tiles missing, short, long, of another type, too many
3. gx_check and PRAGMA integrity_check find each of these; gx_check() also tiles and rows that belong to nothing
4. counters and the format version
5. tables dropped, columns dropped, replaced by views
6. a damaged matrix is still listed, dropped and replaced
"""
import sqlite3

import pytest
from conftest import SIZES, error, from_numpy, gx_connect, q
from test_store import names, random

CORRUPT_VTAB = 267


@pytest.fixture
def db(monkeypatch, tmp_path):
    """A: 60 x 60 in 3 x 3 tiles of 20 x 20; B: 1 x 1."""
    monkeypatch.setenv("GX_TILE_BYTES", "3200")
    db = gx_connect(str(tmp_path / "damage.db"))
    db.execute("SELECT gx_store('A', ?), gx_store('B', 7)", (from_numpy(random("f64", 60, 60)),))
    assert db.execute("SELECT id, rows, tile_rows, tile_cols FROM gx_meta WHERE name = 'A'").fetchone() == (1, 60, 20, 20)
    yield db
    db.close()


def corrupt(db, sql):
    with pytest.raises(sqlite3.Error) as problem:
        db.execute(sql).fetchall()
    if hasattr(problem.value, "sqlite_errorcode"):
        assert problem.value.sqlite_errorcode == CORRUPT_VTAB
    return str(problem.value)


# 1. ------------------------------------------------------------------------------------------------

INT64_MAX = 2**63 - 1
SIDE_MAX = 2**40
FIELDS = [
    ("rows = -3", f"rows is -3, expected 0 to {SIDE_MAX}"),
    ("rows = NULL", "rows is NULL, not an integer"),
    ("rows = 'many'", "rows is text, not an integer"),
    ("rows = 6e1 + 0.5", "rows is a real, not an integer"),
    ("rows = x'00'", "rows is a blob, not an integer"),
    ("cols = -1", f"cols is -1, expected 0 to {SIDE_MAX}"),
    (f"rows = {INT64_MAX}", f"rows is {INT64_MAX}, expected 0 to {SIDE_MAX}"),
    ("rows = 1 << 40, cols = 1 << 20", f"{1 << 40}x{1 << 20} f64, but {SIZES}"),
    ("rows = 0, cols = 1 << 60", f"cols is {1 << 60}, expected 0 to {SIDE_MAX}"),
    ("dtype = 99", "dtype is 99, expected 0 to 14"),
    ("dtype = -1", "dtype is -1, expected 0 to 14"),
    ("dtype = 'f64'", "dtype is text, not an integer"),
    ("dtype = NULL", "dtype is NULL, not an integer"),
    ("tile_rows = 0", f"tile_rows is 0, expected 1 to {SIDE_MAX}"),
    ("tile_cols = -20", f"tile_cols is -20, expected 1 to {SIDE_MAX}"),
    ("tile_rows = 61", "tiles of 61x20 in a matrix of 60x60"),
    ("rows = 10", "tiles of 20x20 in a matrix of 10x60"),
    ("rows = 1 << 40, cols = 1 << 12, tile_rows = 1, tile_cols = 1",
     f"tiles of 1x1 f64 cannot hold {1 << 40}x{1 << 12}"),
    ("rows = 1 << 20, cols = 1 << 20, tile_rows = 1 << 20, tile_cols = 1 << 20",
     f"tiles of {1 << 20}x{1 << 20} f64 cannot hold {1 << 20}x{1 << 20}"),
    ("properties = -1", "properties is -1, expected 0 to 9223372036854775807"),
    ("properties = NULL", "properties is NULL, not an integer"),
    ("properties = 1, rows = 40", "properties is 1 but it is 40x60"),
    ("generation = 0", f"generation is 0, expected 1 to {INT64_MAX}"),
    ("generation = 'new'", "generation is text, not an integer"),
]


@pytest.mark.parametrize("change, text", FIELDS)
def test_field(db, change, text):
    db.execute(f"UPDATE gx_meta SET {change} WHERE name = 'A'")
    text = "catalog row of A: " + text
    assert corrupt(db, "SELECT gx_copy('A')") == "gx_copy: " + text
    assert q(db, "SELECT gx_check('A')") == text
    assert text in q(db, "SELECT gx_check()").split("; ")
    assert q(db, "SELECT gx_exists('A')") == 1
    assert names(db) == ["A", "B"]
    assert error(db, "SELECT gx_store('A', 1)").startswith("gx_store: matrix 'A' already exists")
    db.execute("SELECT gx_store('A', '[5]', '{\"replace\":true}')")
    assert q(db, "SELECT gx_check('A')") == "ok"


@pytest.mark.parametrize("change, text", FIELDS)
def test_field_then_drop(db, change, text):
    db.execute(f"UPDATE gx_meta SET {change} WHERE name = 'A'")
    db.execute("DELETE FROM gx WHERE name = 'A'")
    assert names(db) == ["B"] and q(db, "SELECT gx_check()") == "ok"


def test_every_wrong_schema_is_named(db):
    db.execute("SELECT gx_store('temp.T', 1)")
    db.execute("UPDATE temp.gx_meta SET rows = -1")
    assert "catalog row of temp.T: rows is -1" in corrupt(db, "SELECT gx_copy('T')")
    db.execute("UPDATE main.gx_meta SET id = 5000000000 WHERE name = 'A'")
    assert corrupt(db, "SELECT gx_copy('A')") == \
        "gx_copy: catalog row of A: id is 5000000000, expected 1 to 2147483647"
    db.execute("DELETE FROM gx WHERE name = 'A'")


def test_names(db):
    db.execute("UPDATE gx_meta SET name = x'4141' WHERE name = 'B'")
    db.execute("UPDATE gx_meta SET name = ? WHERE name = 'A'", ("n" * 300,))
    problems = q(db, "SELECT gx_check()").split("; ")
    assert "catalog row of (id 1): name is not a text of 1 to 255 bytes" in problems
    assert "catalog row of (id 2): name is not a text of 1 to 255 bytes" in problems
    db.execute("DELETE FROM gx")
    assert q(db, "SELECT gx_check()") == "ok"


# 2. ------------------------------------------------------------------------------------------------

TILES = [
    ("DELETE FROM gx_tile WHERE id = (1 << 32) + 4", "tile 4 of A is missing"),
    ("DELETE FROM gx_tile WHERE id >> 32 = 1 AND id & 0xffffffff > 2", "tiles 3 to 8 of A are missing"),
    ("UPDATE gx_tile SET data = zeroblob(3192) WHERE id = (1 << 32) + 8", "tile 8 of A has 3192 bytes, expected 3200"),
    ("UPDATE gx_tile SET data = zeroblob(3208) WHERE id = 1 << 32", "tile 0 of A has 3208 bytes, expected 3200"),
    ("UPDATE gx_tile SET data = x'' WHERE id = 1 << 32", "tile 0 of A has 0 bytes, expected 3200"),
]


@pytest.mark.parametrize("change, text", TILES)
def test_tile(db, change, text):
    db.execute(change)
    first = text.replace("tiles 3 to 8 of A are", "tile 3 of A is")
    assert corrupt(db, "SELECT gx_copy('A')") == "gx_copy: " + first
    assert corrupt(db, "SELECT gx_copy('A', 'C')") == "gx_copy: " + first
    assert names(db) == ["A", "B"]
    assert q(db, "SELECT gx_check('A')") == text
    assert q(db, "SELECT gx_check()") == text
    assert q(db, "SELECT gx_check('B')") == "ok"


@pytest.mark.parametrize("value, type", [("NULL", "null"), ("5", "integer"), ("1.5", "real")])
def test_tile_of_another_type(db, value, type):
    db.execute(f"UPDATE gx_tile SET data = {value} WHERE id = 1 << 32")
    assert corrupt(db, "SELECT gx_copy('A')") == f"gx_copy: tile 0 of A: cannot open value of type {type}"
    assert q(db, "SELECT gx_check('A')") == f"tile 0 of A is of type {type}, not a blob"


def test_text_for_a_tile(db):
    """SQLite reads text as bytes, so only the check sees it."""
    db.execute("UPDATE gx_tile SET data = CAST(data AS TEXT) WHERE id = 1 << 32")
    assert q(db, "SELECT gx_check('A')") == "tile 0 of A is of type text, not a blob"
    try:
        db.execute("SELECT gx_copy('A')").fetchall()
    except sqlite3.Error as problem:
        assert "tile 0 of A" in str(problem)


def test_tile_too_many(db):
    db.execute("INSERT INTO gx_tile VALUES((1 << 32) + 9, x'00'), ((1 << 32) + 12, x'00')")
    assert q(db, "SELECT gx_check('A')") == "tile 9 of A is one too many: it has 9; tile 12 of A is one too many: it has 9"
    db.execute("SELECT gx_copy('A')")  # nobody asks for it
    db.execute("DELETE FROM gx WHERE name = 'A'")
    assert q(db, "SELECT gx_check()") == "ok"


def test_a_huge_claim_is_checked_quickly(db):
    """Missing tiles are reported as ranges: a catalog row that claims 2^32 tiles costs nothing."""
    db.execute("UPDATE gx_meta SET rows = 4000000000, cols = 1, tile_rows = 1, tile_cols = 1 WHERE name = 'A'")
    lines = q(db, "SELECT gx_check('A')").split("; ")
    assert len(lines) == 10 and lines[-1] == "tiles 9 to 3999999999 of A are missing"


def test_many_problems_are_cut(db):
    db.execute("WITH RECURSIVE n(i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n LIMIT 500) "
               "INSERT INTO gx_tile SELECT (1 << 32) + i, x'' FROM n")
    lines = q(db, "SELECT gx_check('A')").split("; ")
    assert len(lines) == 100 and lines[-1] == "... and more"


# 3. ------------------------------------------------------------------------------------------------

def test_check_of_everything(db):
    db.execute("DELETE FROM gx_tile WHERE id = 1 << 32")
    db.execute("INSERT INTO gx_tile VALUES((77 << 32) + 3, x'00'), (77 << 32, x'00'), (-5, x'')")
    db.execute("INSERT INTO gx_meta VALUES(3, NULL, 1, 1, 0, 1, 1, 0, 9, NULL)")
    db.execute("SELECT gx_store('temp.T', 1)")
    db.execute("DELETE FROM temp.gx_tile")
    assert q(db, "SELECT gx_check()").split("; ") == [
        "tile 0 of A is missing",
        "matrix with id 3 of main has no name: a storing call left it unfinished",
        "1 tiles of main belong to no matrix (id -1)",
        "2 tiles of main belong to no matrix (id 77)",
        "gx_state of main: next_id is 3, but 3 is in use",
        "gx_state of main: next_generation is 3, but 9 is in use",
        "tile 0 of temp.T is missing",
    ]


def test_check_of_nothing(db):
    assert error(db, "SELECT gx_check('X')") == "gx_check: no matrix named 'X'"
    assert error(db, "SELECT gx_check(5)") == "gx_check: name must be a text, not 5"
    empty = gx_connect()
    assert q(empty, "SELECT gx_check()") == "ok"
    empty.close()


# 4. ------------------------------------------------------------------------------------------------

def test_a_newer_format(db):
    db.execute("UPDATE gx_state SET value = 8 WHERE key = 'format'")
    text = "matrices of main are in format 8 of a newer gx; this one knows formats up to 7"
    for sql in ["SELECT gx_copy('A')", "SELECT gx_store('C', 1)", "SELECT gx_drop('A')", "SELECT gx_exists('A')",
                "SELECT gx_check('A')", "SELECT gx_check()"]:
        assert error(db, sql).endswith(": " + text)
    assert error(db, "SELECT * FROM gx") == "gx: " + text


@pytest.mark.parametrize("change", ["DELETE FROM gx_state WHERE key = 'format'",
                                    "UPDATE gx_state SET value = NULL WHERE key = 'format'",
                                    "UPDATE gx_state SET value = 'x' WHERE key = 'format'",
                                    "UPDATE gx_state SET value = 0 WHERE key = 'format'"])
def test_no_format(db, change):
    db.execute(change)
    assert corrupt(db, "SELECT gx_copy('A')") == "gx_copy: gx_state of main has no valid format number"
    assert corrupt(db, "SELECT gx_store('C', 1)") == "gx_store: gx_state of main has no valid format number"
    assert q(db, "SELECT gx_check()") == "gx_state of main has no valid format number"


@pytest.mark.parametrize("key", ["next_id", "next_generation"])
def test_counters(db, key):
    for change in ["value = NULL", "value = 'x'", "value = 0", "value = -7"]:
        db.execute(f"UPDATE gx_state SET {change} WHERE key = '{key}'")
        assert corrupt(db, "SELECT gx_store('C', 1)") == f"gx_store: gx_state of main has no valid {key}"
        assert q(db, "SELECT gx_check()") != "ok"
    most = 2**31 - 1 if key == "next_id" else INT64_MAX
    db.execute(f"UPDATE gx_state SET value = {most} WHERE key = '{key}'")
    assert error(db, "SELECT gx_store('C', 1)") == \
        f"gx_store: {key} of main is used up at {most}: copy the matrices to a new database"
    db.execute("DELETE FROM gx_state WHERE key <> 'format'")
    assert corrupt(db, "SELECT gx_store('C', 1)") == "gx_store: gx_state of main has no valid next_id"
    assert names(db) == ["A", "B"] and q(db, "SELECT count(*) FROM gx_tile") == 10


def test_an_id_in_use(db):
    db.execute("UPDATE gx_state SET value = 1 WHERE key = 'next_id'")
    assert corrupt(db, "SELECT gx_store('C', 1)") == "gx_store: writing to main: UNIQUE constraint failed: gx_meta.id"
    assert names(db) == ["A", "B"] and q(db, "SELECT count(*) FROM gx_tile") == 10


# 5. ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("change, text", [
    ("DROP TABLE gx_meta", "tables of gx in main: no such table: main.gx_meta"),
    ("DROP TABLE gx_tile", "tables of gx in main: no such table: main.gx_tile"),
    ("ALTER TABLE gx_meta RENAME COLUMN dtype TO type", "tables of gx in main: no such column: dtype"),
    ("ALTER TABLE gx_tile RENAME COLUMN data TO bytes", "tables of gx in main: no such column: data"),
    ("ALTER TABLE gx_tile RENAME TO t; CREATE VIEW gx_tile AS SELECT * FROM t", "tile 0 of A: cannot open view: gx_tile"),
])
def test_other_tables(db, change, text):
    db.executescript(change)
    assert corrupt(db, "SELECT gx_copy('A')") == "gx_copy: " + text
    assert q(db, "SELECT gx_check()") != "ok"
    with pytest.raises(sqlite3.Error):
        db.execute("SELECT gx_store('C', 1)").fetchall()
    assert db.in_transaction is False


def test_no_state(db):
    """Without gx_state there is no gx here, and what is left of it stands in the way."""
    db.execute("DROP TABLE gx_state")
    assert error(db, "SELECT gx_copy('A')") == "gx_copy: no matrix named 'A'"
    assert error(db, "SELECT gx_store('C', 1)") == \
        "gx_store: making the tables of gx in main: table gx_meta already exists"


def test_no_catalog_table(db):
    """gx itself lost (as when a tool copied only ordinary tables): everything works, and it comes back."""
    db.execute("PRAGMA writable_schema = 1")
    db.execute("DELETE FROM sqlite_master WHERE name = 'gx'")
    db.execute("PRAGMA writable_schema = RESET")
    assert q(db, "SELECT gx_check()") == "ok"
    db.execute("SELECT gx_store('C', 1)")
    assert names(db, "main.gx") == ["A", "B", "C"]


def test_random_bytes_in_the_file(db, tmp_path):
    """Flipped bytes anywhere: an error or an answer, never a crash; gx_check agrees with itself."""
    import random as rnd
    db.close()
    path = tmp_path / "damage.db"
    good = path.read_bytes()
    rng = rnd.Random(20250101)
    print("seed 20250101")
    for _ in range(40):
        bad = bytearray(good)
        for _ in range(rng.choice([1, 10, 200])):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        path.write_bytes(bad)
        broken = gx_connect(str(path))
        for sql in ["SELECT gx_copy('A')", "SELECT gx_check()", "SELECT * FROM gx", "SELECT gx_store('C', 'A')",
                    "SELECT gx_drop('A')"]:
            try:
                broken.execute(sql).fetchall()
            except sqlite3.Error:
                pass
            except UnicodeDecodeError:  # a damaged name in a row: SQLite hands it on as it is
                assert sql == "SELECT * FROM gx"
        broken.close()
    path.write_bytes(good)
