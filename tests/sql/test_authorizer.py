"""What sqlite3_set_authorizer() forbids, gx does not do, although tiles pass by SQL: blob handles, helper connections.

Plan:
- reading gx_tile.data, a column of gx_meta, or gx_state.value denied or ignored: no way of reading a matrix works, and
  each says so with SQLITE_AUTH in the name of the function; listing the catalog needs gx_meta alone;
- the authorizer may come after the first call, also while a cursor of gx_cells is open;
- writing: INSERT, UPDATE and DELETE of gx_tile and gx_meta denied, INSERT and UPDATE of gx_tile ignored; nothing is
  left of the call, and what it may not write is as it was;
- savepoints, names and gx_state ignored: each storing call refuses, and nothing is changed;
- a SELECT ignored, which then has no columns and no rows, any one of gx's own or all from it on: the right answer or
  SQLITE_AUTH; each action there is, ignored or denied, never ends the process nor loses a matrix;
- functions of SQLite that gx's own SQL calls denied: SQLITE_AUTH as well;
- allowed again, everything works; other tables' rules do not concern gx; an authorizer of another database neither.
"""
import sqlite3

import pytest
from conftest import error, gx_connect, q

OK, DENY, IGNORE = sqlite3.SQLITE_OK, sqlite3.SQLITE_DENY, sqlite3.SQLITE_IGNORE
READ, INSERT, UPDATE, DELETE, FUNCTION, SELECT = 20, 18, 23, 9, 31, 21
A_JSON = "[[2.0,1.0],[1.0,2.0]]"
READING = {
    "norm": "SELECT gx_norm('A')",
    "json": "SELECT gx_json('A')",
    "get": "SELECT gx_get('A', 0, 0)",
    "slice": "SELECT gx_slice('A', 0, 1, 0, 1)",
    "matmul": "SELECT gx_matmul('A', 'A')",
    "copy": "SELECT gx_copy('A', 'B')",
    "solve": "SELECT gx_solve('A', '[[1],[2]]')",
    "export": "SELECT gx_export('A', '{out}')",
    "cells": "SELECT * FROM gx_cells('A')",
    "rows": "SELECT * FROM gx_rows('A')",
    "named": "SELECT * FROM a_cells",
    "eig": "SELECT * FROM gx_eig('A')",
    "catalog": "SELECT value FROM gx WHERE name = 'A'",
    "big": "SELECT gx_sum('Big')",
}


def authorize(db, *rules):
    """rules: (action, table, column or None, answer)."""
    def ask(action, table, column, schema, trigger):
        for an_action, a_table, a_column, answer in rules:
            if (action, table) == (an_action, a_table) and a_column in (None, column):
                return answer
        return OK
    db.set_authorizer(ask)


def refused(db, sql):
    """The text; the code is SQLITE_AUTH."""
    with pytest.raises(sqlite3.DatabaseError) as problem:
        db.execute(sql).fetchall()
    if hasattr(problem.value, "sqlite_errorcode"):
        assert problem.value.sqlite_errorcode & 0xff == sqlite3.SQLITE_AUTH
    return str(problem.value)


@pytest.fixture(params=["delete", "wal"])
def db(request, tmp_path):
    db = gx_connect(str(tmp_path / "a.db"), journal_mode=request.param)
    db.execute(f"SELECT gx_store('A', '{A_JSON}')")
    db.execute("SELECT gx_config('tile_bytes', 65536)")
    db.execute("SELECT gx_full(400, 400, 1, 'Big')")
    db.execute("CREATE VIRTUAL TABLE a_cells USING gx_cells('A')")
    yield db
    db.set_authorizer(None)
    assert q(db, "SELECT gx_json('A')") == A_JSON
    assert q(db, "SELECT group_concat(name) FROM (SELECT name FROM gx ORDER BY name)") == "A,Big"
    assert q(db, "SELECT gx_sum('Big')") == 160000
    assert {row[0] for row in db.execute("SELECT gx_check(name) FROM gx")} == {"ok"}
    assert q(db, "SELECT count(*) FROM gx_meta") == 2
    db.close()


@pytest.mark.parametrize("answer", [DENY, IGNORE], ids=["deny", "ignore"])
@pytest.mark.parametrize("what", sorted(READING))
def test_no_way_to_the_tiles(db, tmp_path, what, answer):
    sql = READING[what].format(out=tmp_path / "a.npy")
    db.execute(sql).fetchall()  # also a statement that is kept from before
    if what == "copy":
        db.execute("SELECT gx_drop('B')")
    (tmp_path / "a.npy").unlink(missing_ok=True)
    authorize(db, (READ, "gx_tile", "data", answer))
    text = refused(db, sql)
    assert "not authorized: " in text and "gx_tile.data" in text and text.startswith("gx")
    assert not (tmp_path / "a.npy").exists()
    db.set_authorizer(None)
    db.execute(sql.replace("'B'", "'A', '{\"replace\":true}'")).fetchall()


@pytest.mark.parametrize("answer", [DENY, IGNORE], ids=["deny", "ignore"])
@pytest.mark.parametrize("table,column", [("gx_meta", "rows"), ("gx_meta", "name"), ("gx_meta", "generation"),
                                          ("gx_state", "value")])
def test_the_catalog(db, table, column, answer):
    authorize(db, (READ, table, column, answer))
    text = refused(db, "SELECT gx_norm('A')")
    assert text.startswith("gx_norm: not authorized: ") and f"{table}.{column}" in text


def test_listing_needs_no_tiles(db):
    authorize(db, (READ, "gx_tile", None, DENY))
    assert db.execute("SELECT name, rows FROM gx ORDER BY name").fetchall() == [("A", 2), ("Big", 400)]
    assert db.execute("SELECT rows FROM gx WHERE name = 'A'").fetchall() == [(2,)]


def test_an_authorizer_set_while_a_cursor_is_open(db):
    cursor = db.execute("SELECT i, j, value FROM gx_cells('Big')")
    assert cursor.fetchone() == (0, 0, 1.0)
    assert q(db, "SELECT gx_norm('A', 'max')") == 2
    authorize(db, (READ, "gx_tile", "data", DENY))
    assert "gx_tile.data" in refused(db, "SELECT gx_norm('A', 'max')")
    db.set_authorizer(None)
    assert q(db, "SELECT gx_norm('A', 'max')") == 2
    cursor.close()


WRITING = {
    "store": ("SELECT gx_store('C', '[[1]]')", {(INSERT, "gx_tile"), (INSERT, "gx_meta"), (UPDATE, "gx_meta")}),
    "matmul": ("SELECT gx_matmul('A', 'A', 'C')", {(INSERT, "gx_tile"), (INSERT, "gx_meta")}),
    "replace": ("SELECT gx_scale('A', 2, 'A', '{\"replace\":true}')", {(DELETE, "gx_tile"), (DELETE, "gx_meta")}),
    "set": ("SELECT gx_set('A', 0, 0, 9)", {(UPDATE, "gx_tile"), (UPDATE, "gx_meta"), (UPDATE, "gx_state")}),
    "cells": ("UPDATE a_cells SET value = 9", {(UPDATE, "gx_tile"), (UPDATE, "gx_meta")}),
    "drop": ("SELECT gx_drop('A')", {(DELETE, "gx_tile"), (DELETE, "gx_meta")}),
    "rename": ("SELECT gx_rename('A', 'C')", {(UPDATE, "gx_meta"), (UPDATE, "gx_state")}),
}


@pytest.mark.parametrize("within", [False, True], ids=["autocommit", "begin"])
@pytest.mark.parametrize("what,action,table", [
    (what, *rule) for what in sorted(WRITING) for rule in sorted(WRITING[what][1])])
def test_writing_denied(db, what, action, table, within):
    if within:
        db.execute("BEGIN")
    authorize(db, (action, table, None, DENY))
    assert "not authorized" in refused(db, WRITING[what][0])
    db.set_authorizer(None)
    if within:
        db.execute("COMMIT")


@pytest.mark.parametrize("what", sorted(READING) + sorted(WRITING))
def test_only_functions_of_gx(db, tmp_path, what):
    """Functions of SQLite in gx's own SQL are denied: what needs one says so, and is not a damaged database."""
    sql = READING[what].format(out=tmp_path / "a.npy") if what in READING else WRITING[what][0]
    db.execute("BEGIN")
    db.set_authorizer(lambda action, table, name, schema, trigger:
                      DENY if action == FUNCTION and not name.startswith("gx_") else OK)
    try:
        db.execute(sql).fetchall()
    except sqlite3.DatabaseError as problem:
        assert "not authorized to use function: " in str(problem)
        if hasattr(problem, "sqlite_errorcode"):
            assert problem.sqlite_errorcode & 0xff == sqlite3.SQLITE_AUTH
    db.set_authorizer(None)
    db.execute("ROLLBACK")


def test_volumes_without_functions(db):
    db.set_authorizer(lambda action, table, name, schema, trigger:
                      DENY if action == FUNCTION and not name.startswith("gx_") else OK)
    assert "not authorized to use function: " in refused(db, "SELECT gx_volumes(2)")


@pytest.mark.parametrize("what,action", [("store", INSERT), ("matmul", INSERT), ("set", UPDATE), ("cells", UPDATE)])
def test_writing_ignored(db, what, action):
    authorize(db, (action, "gx_tile", None, IGNORE))
    assert "not authorized: writing " in refused(db, WRITING[what][0])


VOLUMES = {
    "volumes": "SELECT gx_volumes(1)",
    "list": "SELECT schema, id FROM gx_volume",
    "vacuum": "SELECT gx_vacuum()",
    "spread": "SELECT gx_max('Vol')",
    "check": "SELECT gx_check()",
    "backup": "SELECT gx_backup('{out}')",
}


@pytest.mark.parametrize("is_kept", [False, True], ids=["new", "kept"])
@pytest.mark.parametrize("what", sorted(READING) + sorted(WRITING) + sorted(VOLUMES))
def test_a_select_ignored(tmp_path, what, is_kept):
    """It was an assertion, and would have been a read behind the statement's columns."""
    sql = READING[what] if what in READING else WRITING[what][0] if what in WRITING else VOLUMES[what]
    right = None
    for first in range(9):  # which of the SELECTs; 0: none
        for to in (first, 999):
            path = tmp_path / f"{first}-{to}"
            path.mkdir()
            db = gx_connect(str(path / "a.db"), synchronous=0)
            for text in (f"SELECT gx_store('A', '{A_JSON}')", "SELECT gx_config('tile_bytes', 65536)",
                         "SELECT gx_full(400, 400, 1, 'Big')", "CREATE VIRTUAL TABLE a_cells USING gx_cells('A')",
                         "SELECT gx_volumes(1)", "SELECT gx_full(400, 400, 1, 'Vol')"):
                db.execute(text)
            if is_kept:
                db.execute("SELECT gx_norm('A'), gx_sum('Big'), gx_sum('Vol'), gx_check()").fetchall()
            seen = [-1]  # the statement's own is number 0

            def ask(action, *names):
                seen[0] += action == SELECT
                return IGNORE if action == SELECT and 0 < first <= seen[0] <= to else OK

            db.set_authorizer(ask)
            try:
                answer = str(db.execute(sql.replace("{out}", str(path / "out.npy"))).fetchall())
            except sqlite3.DatabaseError as problem:
                answer = str(problem)
            db.set_authorizer(None)
            answer = answer.replace(str(path), "")
            right = answer if first == 0 else right
            assert answer == right or "not authorized" in answer or what in VOLUMES, (first, to)
            assert q(db, "SELECT gx_check()") == "ok" and not db.in_transaction
            if what not in WRITING:
                assert q(db, "SELECT gx_sum('A') || gx_sum('Big') || gx_sum('Vol')") == "6.0160000.0160000.0"
            db.close()


@pytest.mark.parametrize("answer", [DENY, IGNORE], ids=["deny", "ignore"])
@pytest.mark.parametrize("action", range(1, 34))
def test_each_action(tmp_path, action, answer):
    db = gx_connect(str(tmp_path / "a.db"), synchronous=0)
    for text in (f"SELECT gx_store('A', '{A_JSON}')", "SELECT gx_config('tile_bytes', 65536)",
                 "SELECT gx_full(400, 400, 1, 'Big')", "CREATE VIRTUAL TABLE a_cells USING gx_cells('A')"):
        db.execute(text)
    for sql in [*READING.values(), *VOLUMES.values(), "SELECT gx_store('C', '[[1]]')", "SELECT gx_copy('A', 'N')",
                "SELECT gx_rename('C', 'D')", "SELECT gx_drop('D')", "INSERT INTO gx(name, value) VALUES('Q', '[[1]]')",
                "SELECT gx_store_rows('R', 0, '[1,2]')", "SELECT gx_debug()"]:
        db.set_authorizer(lambda what, *names: answer if what == action else OK)
        try:
            db.execute(sql.format(out=tmp_path / "out.npy")).fetchall()
        except sqlite3.DatabaseError as problem:
            assert str(problem)
        db.set_authorizer(None)
        assert not db.in_transaction, sql
    assert q(db, "SELECT gx_check()") == "ok" and q(db, "SELECT gx_json('A')") == A_JSON
    assert q(db, "SELECT gx_sum('Big')") == 160000
    db.close()


def test_what_is_not_ours(db):
    authorize(db, (READ, "other", None, DENY), (INSERT, "other", None, DENY))
    db.execute("CREATE TABLE other(x)")
    assert q(db, "SELECT gx_sum('A')") == 6
    assert q(db, f"SELECT gx_store('A', '{A_JSON}', '{{\"replace\":true}}')") == "A"
    assert "not authorized" in error(db, "INSERT INTO other VALUES(1)")
    assert "prohibited" in error(db, "SELECT x FROM other")


def test_one_database_of_two(db, tmp_path):
    db.execute("ATTACH ? AS side", (str(tmp_path / "side.db"),))
    db.execute("SELECT gx_store('side.S', '[[7]]')")
    db.set_authorizer(lambda action, table, column, schema, trigger:
                      DENY if (action, table, schema) == (READ, "gx_tile", "side") else OK)
    assert q(db, "SELECT gx_sum('A')") == 6
    assert "side.gx_tile.data" in refused(db, "SELECT gx_sum('S')")
    db.set_authorizer(None)
    assert q(db, "SELECT gx_sum('S')") == 7
    db.execute("SELECT gx_drop('S')")
    db.execute("DETACH side") if not db.in_transaction else None


SAVEPOINT = 32


@pytest.mark.parametrize("rule", [(SAVEPOINT, "BEGIN"), (SAVEPOINT, "RELEASE"), (UPDATE, "gx_state"), (READ, "gx_state"),
                                  (UPDATE, "gx_meta")], ids=lambda rule: f"{rule[0]} {rule[1]}")
@pytest.mark.parametrize("sql", ["gx_copy('A', 'N')", "gx_copy('A', 'B', '{\"replace\":true}')", "gx_rename('B', 'N')",
                                 "gx_drop('B')"])
def test_what_a_storing_call_needs_ignored(tmp_path, rule, sql):
    """In a program that is not the call's own lookup: only UPDATE and SAVEPOINT, and READ within an UPDATE."""
    db = gx_connect(str(tmp_path / "a.db"))
    q(db, "SELECT gx_store('A', '[[2,1],[1,2]]')")
    q(db, "SELECT gx_store('B', '[[5]]')")

    def state():
        return [list(db.execute(f"SELECT * FROM {table} ORDER BY 1")) for table in ("gx_meta", "gx_tile", "gx_state")]

    before, seen = state(), []

    def ask(action, first, second, schema, trigger):
        seen.append(action)
        within_update = action != READ or (len(seen) > 1 and seen[-2] == UPDATE)
        return IGNORE if (action, first) == rule and within_update else OK

    db.set_authorizer(ask)
    try:
        q(db, "SELECT " + sql)
        is_done = True
    except sqlite3.DatabaseError as e:
        is_done = False
        assert "not authorized" in str(e)
    db.set_authorizer(None)
    assert not db.in_transaction and q(db, "SELECT gx_check()") == "ok"
    assert is_done or state() == before
    assert q(db, "SELECT gx_json('A')") == A_JSON
