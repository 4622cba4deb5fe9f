"""What a database from somebody else can make gx do: nothing, but with its own matrices through named tables.

Plan:
- every eponymous table of gx is refused in a view and in triggers (reading, deleting) of an attached database, with
  trusted_schema on, and so is the catalog gx, under the name that a database gave it or not;
- a named table USING gx_cells('A') works in views and triggers, reads and writes its own database's matrix, and no
  other's, however the name of the matrix is written; one that is called gx_cells itself is no way round;
- what is INNOCUOUS is a function of its values: the list;
- a file whose generated columns, indexes, defaults, CHECK constraints, views, triggers call gx: nothing is called,
  whether SQLite read its schema before gx was loaded or after, with trusted_schema on and off; every function for direct
  use is refused in a CHECK, by PRAGMA integrity_check too, whatever the row's values, comments and names look like; the
  application's own views and triggers in temp do call;
- settings by SQL: folders of libraries never, whatever is in them; `files` and `locked` one way; with `files` off nothing
  that opens or makes a file; with `locked` on each setting but sizes and counts, and these not upwards; each setting is
  in the documentation's list;
- sqlite3_gx_safe_init begins with both, also on a connection that has gx;
- FIFOs, devices, sockets and links where a path is opened: imports, exports, backups, volumes beside the database and
  elsewhere, the hardware profile: refused in words, in a process that would hang otherwise.
"""
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import textwrap

import pytest
from conftest import ROOT, error, gx_connect, gx_path, q

INNOCUOUS, DIRECTONLY = 0x200000, 0x80000
UNSAFE = 'unsafe use of virtual table "{}"'


def modules(db):
    return {name for (name,) in db.execute("SELECT name FROM pragma_module_list WHERE name LIKE 'gx%'")}


@pytest.fixture
def two(tmp_path):
    """main with the matrix A, and somebody's database attached as evil, without matrices."""
    db = gx_connect(str(tmp_path / "main.db"))
    db.execute("ATTACH ? AS evil", (str(tmp_path / "evil.db"),))
    db.execute("SELECT gx_store('A', '[[1,2],[3,4]]')")
    db.execute("CREATE TABLE evil.log(x)")
    yield db
    db.close()


EPONYMOUS = sorted(modules(gx_connect()) - {"gx_catalog", "gx_vectors"})


def test_there_are_tables():
    assert {"gx", "gx_cells", "gx_rows", "gx_settings", "gx_plan", "gx_help"} <= set(EPONYMOUS)


@pytest.mark.parametrize("has_own", [False, True])
@pytest.mark.parametrize("name", EPONYMOUS)
def test_eponymous_tables_are_out_of_reach(two, name, has_own):
    assert q(two, "PRAGMA trusted_schema") == 1
    if has_own:
        two.execute("SELECT gx_store('evil.B', '[[5]]')")  # and with it the table evil.gx
    call = "" if name in ("gx", "gx_settings", "gx_stats", "gx_events", "gx_devices", "gx_predictions",
                                "gx_guard") else "('A')"
    two.execute(f"CREATE VIEW evil.v AS SELECT * FROM {name}{call}")
    assert error(two, "SELECT * FROM evil.v") == UNSAFE.format(name)
    for body in (f"INSERT INTO log SELECT count(*) FROM {name}{call}", f"DELETE FROM {name}"):
        two.execute("DROP TRIGGER IF EXISTS evil.t")
        two.execute(f"CREATE TRIGGER evil.t AFTER INSERT ON log WHEN new.x = 'go' BEGIN {body}; END")
        assert error(two, "INSERT INTO evil.log VALUES('go')") in (
            UNSAFE.format(name), f"table {name} may not be modified")
    assert q(two, "SELECT gx_json('main.A')") == "[[1.0,2.0],[3.0,4.0]]"


@pytest.mark.parametrize("body", [
    "DELETE FROM gx WHERE schema = 'main'",
    "INSERT INTO gx(name, value) VALUES('main.C', '[[1]]')",
    "INSERT INTO gx(name, value) VALUES('C', 'main.A')",
    "UPDATE gx SET name = 'D' WHERE schema = 'main'",
    "INSERT INTO log SELECT value FROM gx('main')",
])
def test_the_catalog_is_no_way_to_other_databases(two, body):
    """evil.gx is a real table, made with the first matrix; its columns name other databases."""
    two.execute("SELECT gx_store('evil.B', '[[5]]')")
    two.execute(f"CREATE TRIGGER evil.t AFTER INSERT ON log WHEN new.x = 'go' BEGIN {body}; END")
    assert error(two, "INSERT INTO evil.log VALUES('go')") == UNSAFE.format("gx")
    assert two.execute("SELECT name FROM main.gx").fetchall() == [("A",)]
    assert two.execute("SELECT count(*) FROM evil.log").fetchall() == [(0,)]


# ---- named tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", ["main", "evil"])
def test_named_tables_work_in_views_and_triggers(two, schema):
    two.execute(f"SELECT gx_store('{schema}.M', '[[1,2],[3,4]]')")
    two.execute(f"CREATE VIRTUAL TABLE {schema}.m USING gx_cells('M')")
    two.execute(f"CREATE VIRTUAL TABLE {schema}.r USING gx_rows('M')")
    two.execute(f"CREATE VIEW {schema}.v AS SELECT i, j, value FROM m WHERE value > 2")
    two.execute(f"CREATE VIEW {schema}.w AS SELECT i FROM r")
    two.execute(f"CREATE TABLE {schema}.event(i, j, value)")
    two.execute(f"CREATE TRIGGER {schema}.t AFTER INSERT ON event BEGIN "
                "UPDATE m SET value = value + new.value WHERE i = new.i AND j = new.j; END")
    assert sorted(two.execute(f"SELECT * FROM {schema}.v").fetchall()) == [(1, 0, 3.0), (1, 1, 4.0)]
    assert two.execute(f"SELECT * FROM {schema}.w").fetchall() == [(0,), (1,)]
    two.execute(f"INSERT INTO {schema}.event VALUES(0, 0, 10), (1, 1, 0.5)")
    assert q(two, f"SELECT gx_json('{schema}.M')") == "[[11.0,2.0],[3.0,4.5]]"
    two.execute("PRAGMA trusted_schema = 0")
    assert error(two, f"SELECT * FROM {schema}.v") == UNSAFE.format("m")


@pytest.mark.parametrize("matrix", ["A", "main.A", "MAIN.A", "evil.main.A"])
def test_a_named_table_reaches_its_own_database_only(two, matrix):
    two.execute(f"CREATE VIRTUAL TABLE evil.a USING gx_cells('{matrix}')")
    two.execute("CREATE VIEW evil.v AS SELECT value FROM a")
    two.execute("CREATE TRIGGER evil.t AFTER INSERT ON log BEGIN DELETE FROM a; END")
    for sql in ("SELECT * FROM evil.v", "SELECT * FROM evil.a", "INSERT INTO evil.log VALUES(1)"):
        assert error(two, sql) in (
            f"gx_cells: a: matrix '{matrix}' is in main, but a table of evil reaches those of evil only",
            f"gx_cells: a: no matrix named '{matrix}'")
    assert q(two, "SELECT gx_json('A')") == "[[1.0,2.0],[3.0,4.0]]"


def test_own_name_with_its_schema_and_temp(two):
    two.execute("CREATE VIRTUAL TABLE main.a USING gx_cells('main.A')")
    assert q(two, "SELECT sum(value) FROM main.a") == 10
    two.execute("CREATE VIRTUAL TABLE temp.t USING gx_cells('main.A')")
    two.execute("CREATE VIRTUAL TABLE temp.u USING gx_cells('A')")
    assert q(two, "SELECT sum(value) FROM temp.t") == q(two, "SELECT sum(value) FROM temp.u") == 10


def test_a_schema_name_with_a_dot(two, tmp_path):
    """Attached AS "main.x": a table there must not be read as one of main."""
    two.execute("ATTACH ? AS \"main.x\"", (str(tmp_path / "dot.db"),))
    two.execute("CREATE VIRTUAL TABLE \"main.x\".a USING gx_cells('A')")
    assert "reaches those of main.x only" in error(two, 'SELECT * FROM "main.x".a')


def test_a_table_called_like_the_function(two):
    """USING gx_cells without an argument under the name gx_cells is the function, DIRECTONLY like it."""
    two.execute("CREATE VIRTUAL TABLE evil.gx_cells USING gx_cells")
    two.execute("CREATE VIEW evil.v AS SELECT value FROM gx_cells('main.A')")
    assert error(two, "SELECT * FROM evil.v") == UNSAFE.format("gx_cells")


# ---- functions ---------------------------------------------------------------------------------------------------------


def test_what_is_innocuous(db):
    """Functions of their values alone, whose cost is bounded by them; all others are for direct use only."""
    flags = {}
    for name, bits in db.execute("SELECT name, flags FROM pragma_function_list WHERE name LIKE 'gx%'"):
        flags[name] = bits
    innocuous = {name for name, bits in flags.items() if bits & INNOCUOUS}
    assert innocuous == {"gx_version", "gx_help", "gx_from_cells", "gx_from_rows", "gx_pdf", "gx_cdf", "gx_sf", "gx_ppf", "gx_isf",
                         "gx_vec_sum", "gx_vec_mean", "gx_lm", "gx_glm", "gx_lda", "gx_coef", "gx_predict", "gx_t_test", "gx_anova", "gx_levene",
                         "gx_jarque_bera", "gx_shapiro", "gx_chi2_test", "gx_chi2_gof", "gx_corr_test", "gx_mann_whitney", "gx_wilcoxon",
                         "gx_kruskal", "gx_ks_test"}
    assert {name for name, bits in flags.items() if not bits & DIRECTONLY} == innocuous


FOREIGN = {  # what a file may bring -> what is run on it
    "generated": ("CREATE TABLE t(x, y AS ({call}))", "SELECT y FROM t"),
    "stored": ("CREATE TABLE t(x, y AS ({call}) STORED)", "INSERT INTO t(x) VALUES(2)"),
    "index": ("CREATE TABLE t(x); CREATE INDEX i ON t({call})", "INSERT INTO t VALUES(2)"),
    "partial": ("CREATE TABLE t(x); CREATE INDEX i ON t(x) WHERE {call}", "INSERT INTO t VALUES(2)"),
    "check": ("CREATE TABLE t(x, CHECK({call} IS NOT NULL))", "INSERT INTO t VALUES(2)"),
    "check of a column": ("CREATE TABLE t(x CHECK({call} IS NOT NULL OR x IS NULL))", "UPDATE t SET x = 2"),
    "integrity": ("CREATE TABLE t(x CHECK({call} IS NOT NULL))", "PRAGMA integrity_check"),
    "default": ("CREATE TABLE t(x, y DEFAULT ({call}))", "INSERT INTO t(x) VALUES(2)"),
    "view": ("CREATE TABLE t(x); CREATE VIEW v AS SELECT {call}", "SELECT * FROM v"),
    "trigger": ("CREATE TABLE t(x); CREATE TRIGGER r AFTER DELETE ON t BEGIN SELECT {call}; END", "DELETE FROM t"),
}


def foreign(path, ddl, function="gx_store"):
    """A file made where a harmless function of that name was at hand."""
    db = sqlite3.connect(path, isolation_level=None)
    db.create_function(function, 2, lambda a, b: 1, deterministic=True)
    db.executescript(ddl)
    db.execute("INSERT INTO t(x) VALUES(1)")
    db.close()


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("attached", [False, True])
@pytest.mark.parametrize("kind", sorted(FOREIGN))
def test_a_schema_calls_nothing(tmp_path, kind, attached, trusted):
    """Also one that SQLite had read before gx was there, and found nothing to refuse in."""
    ddl, act = FOREIGN[kind]
    path = str(tmp_path / "foreign.db")
    foreign(path, ddl.format(call="gx_store('S', '[[1]]')"))
    db = sqlite3.connect(":memory:" if attached else path, isolation_level=None)
    db.execute(f"PRAGMA trusted_schema = {int(trusted)}")
    if attached:
        db.execute("ATTACH ? AS f", (path,))
    db.enable_load_extension(True)
    db.load_extension(gx_path())
    text = error(db, act)
    assert "unsafe use of gx_store()" in text or "non-deterministic functions prohibited" in text, text
    db.close()
    left = sqlite3.connect(path)
    assert left.execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'gx%'").fetchall() == [(0,)]
    left.close()



def direct_functions():
    db = gx_connect()
    found = {name for name, bits in db.execute("SELECT name, flags FROM pragma_function_list WHERE name LIKE 'gx%'")
             if bits & DIRECTONLY}
    aggregates = {name for (name,) in db.execute("SELECT name FROM pragma_function_list WHERE type <> 's'")}
    db.close()
    return sorted(found - aggregates - {"gx_context"})  # which answers to a pointer of gx's own alone


def test_no_function_is_called_by_a_check(tmp_path):
    """Each one, of which a file may bring a table; what it would do with its arguments is refused before."""
    path, names = str(tmp_path / "foreign.db"), direct_functions()
    assert len(names) > 100 and {"gx_config", "gx_export", "gx_import", "gx_backup", "gx_volumes"} <= set(names)
    maker = sqlite3.connect(path)
    for name in names:
        maker.create_function(name, -1, lambda *a: 1, deterministic=True)
        maker.execute(f"CREATE TABLE t_{name}(x, CHECK({name}('threads', x) IS NOT NULL))")
    maker.commit()
    maker.close()
    db = gx_connect(path)
    for name in names:
        assert error(db, f"INSERT INTO t_{name} VALUES(1)") == f"unsafe use of {name}()"
    db.close()


def test_a_check_sets_nothing(tmp_path):
    """A row of a foreign database, attached without trust, once chose the library that the next solve loads."""
    path = str(tmp_path / "evil.db")
    foreign(path, "CREATE TABLE t(x CHECK(gx_config('memory_limit', '100MB') IS NOT NULL))", "gx_config")
    db = gx_connect()
    db.execute("PRAGMA trusted_schema = 0")
    db.execute("ATTACH ? AS evil", (path,))
    before = db.execute("SELECT key, value FROM gx_settings").fetchall()
    assert error(db, "INSERT INTO evil.t VALUES(2)") == "unsafe use of gx_config()"
    assert db.execute("SELECT key, value FROM gx_settings").fetchall() == before
    db.close()


@pytest.mark.parametrize("sql", [
    "INSERT INTO t VALUES(2) -- gx_config('a', 'b')",
    "INSERT INTO t /* gx_config( */ VALUES(2)",
    "INSERT INTO t VALUES('gx_config(1)')",
    "INSERT INTO t VALUES('it''s gx_config(1)')",
    "INSERT INTO t(\"x\") VALUES(2) RETURNING x AS gx_config",
    "INSERT INTO gx_config(x) VALUES(2)",
    "INSERT INTO main.\"gx_config\"(x) VALUES(2)",
    "INSERT INTO t SELECT 2 FROM (SELECT 1 AS agx_config) WHERE agx_config IN (1)",
])
def test_what_is_no_call(tmp_path, sql):
    """The application's statement may spell what a foreign file calls its tables and columns, and a stranger's text."""
    path = str(tmp_path / "foreign.db")
    check = "CHECK(gx_config('memory_limit', '100MB') IS NOT NULL)"
    foreign(path, f"CREATE TABLE t(x {check}); CREATE TABLE gx_config(x {check})", "gx_config")
    db = gx_connect(path)
    assert error(db, sql) == "unsafe use of gx_config()"
    db.close()


@pytest.mark.parametrize("sql", ["SELECT gx_sum('[[1,2]]')", "SELECT\n\"gx_sum\" /* of */ ('[[1,2]]')", "SELECT [GX_SUM]('[[1,2]]')",
                                 "SELECT `Gx_Sum`('[[1,2]]') -- all", "WITH k AS (SELECT 'x' || gx_sum('[[1,2]]')) SELECT 3.0 FROM k",
                                 "SELECT x FROM temp.v", "INSERT INTO temp.t VALUES(1) RETURNING 3.0"])
def test_what_is_a_call(db, sql):
    """All ways of writing one, and the application's own views and triggers."""
    db.execute("CREATE TEMP VIEW v AS SELECT gx_sum('[[1,2]]') AS x")
    db.execute("CREATE TEMP TABLE t(x)")
    db.execute("CREATE TEMP TABLE u(x)")
    db.execute("CREATE TEMP TRIGGER r AFTER INSERT ON t BEGIN INSERT INTO u SELECT gx_sum('[[1,2]]'); END")
    assert q(db, sql) == 3
    assert [x for x, in db.execute("SELECT x FROM temp.u")] == ([3] if "INSERT" in sql else [])


def test_a_call_in_each_row(db):
    assert q(db, "WITH RECURSIVE k(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM k WHERE i < 9) "
             "SELECT sum(gx_sum('[[1]]') + gx_get('[[1,2]]', 0, i % 2)) FROM k") == 25


# ---- settings ----------------------------------------------------------------------------------------------------------

SIZES = ["memory_limit", "pinning_budget", "device_memory_limit", "threads", "readers", "tile_bytes"]
OTHER_VALUES = {"backend": "reference", "deterministic": "on", "progress": "on", "probe": "on", "files": "off", "profile": "off",
                "cuda_path": "/tmp", "suitesparse_path": "/tmp", "volumes_anywhere": "on", "device": "1", "devices": "2",
                "locked": "off", "events": "off"}


def settings(db):
    return dict(db.execute("SELECT key, value FROM gx_settings"))


def test_each_setting_is_looked_at(db):
    assert set(settings(db)) == set(SIZES) | set(OTHER_VALUES)
    text = (ROOT / "docs" / "security.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert sorted(name for name in listed if not name.startswith("gx_")) == sorted(settings(db))


OPENS = re.compile(r"\b(open|openat|fopen|mkstemp|opendir|dlopen|sqlite3_open\w*|vfs->xOpen)\(")


def test_each_file_that_opens_one_is_in_the_list():
    """What opens files by name is looked at, and docs/security.md says how it is guarded."""
    text = (ROOT / "docs" / "security.md").read_text()
    listed = set(re.findall(r"^\| `([\w/]+\.c)` \|", text, re.MULTILINE))
    found = set()
    for path in [p for room in ("core", "ext", "kernels") for p in (ROOT / room).rglob("*.c")]:
        code = re.sub(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])'|/\*.*?\*/|//[^\n]*|[>.]open\(", "", path.read_text(), flags=re.DOTALL)
        if OPENS.search(code):
            found.add(str(path.relative_to(ROOT)))
    assert found - {"core/store/store_vfs.c"} == listed  # that one is SQLite's own opening, handed on


@pytest.mark.parametrize("key, variable", [("cuda_path", "GX_CUDA_PATH"), ("suitesparse_path", "GX_SUITESPARSE_PATH")])
def test_sql_chooses_no_library(db, monkeypatch, key, variable):
    assert error(db, "SELECT gx_config(?, '/tmp')", key) == (
        f"gx_config: {key} cannot be set by SQL, because code is loaded from there: set {variable} in the environment, "
        "or call gx_configure() in C")
    assert q(db, "SELECT gx_config(?)", key) == "" and q(db, "SELECT gx_config(?, 'default')", key) == ""
    monkeypatch.setenv(variable, "/nonexistent/there")
    other = gx_connect()
    assert q(other, "SELECT gx_config(?)", key) == "/nonexistent/there"
    assert "cannot be set by SQL" in error(other, "SELECT gx_config(?, '')", key)
    other.close()


MARK = "__attribute__((constructor)) static void mark(void) { FILE *f = fopen(getenv(\"MARK\"), \"w\"); if (f) fclose(f); }"


def test_a_folder_with_code(tmp_path):
    """What a solve once loaded from a folder that SQL text named; the environment may name it."""
    (tmp_path / "evil.c").write_text("#include <stdio.h>\n#include <stdlib.h>\n" + MARK)
    for name in ("libumfpack.so.6", "libumfpack.so.5", "libcholmod.so.5", "libcholmod.so.4", "libcholmod.so.3"):
        built = subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / name, tmp_path / "evil.c"])
        assert built.returncode == 0
    program = textwrap.dedent("""
        import sys; sys.path.insert(0, sys.argv[1])
        from conftest import gx_connect
        db = gx_connect()
        for sql in ("SELECT gx_config('suitesparse_path', '%s')" % sys.argv[2],
                    "SELECT gx_solve(gx_matrix_gallery('poisson', 16, '{\\"sparse\\":true}'), gx_ones(16, 1), "
                    "'{\\"method\\":\\"direct\\"}')"):
            try:
                db.execute(sql).fetchall()
            except Exception as problem:
                print(problem)
    """)
    mark, tests = tmp_path / "mark", str(ROOT / "tests" / "sql")
    for by_environment in (False, True):
        environment = {**os.environ, "MARK": str(mark)} | ({"GX_SUITESPARSE_PATH": str(tmp_path)} if by_environment else {})
        ran = subprocess.run([sys.executable, "-c", program, tests, str(tmp_path)], env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        assert by_environment or "suitesparse_path cannot be set by SQL" in ran.stdout
        assert mark.exists() == by_environment, ran.stdout


def test_a_library_stays_where_it_came_from(tmp_path):
    """gx_configure() of the application, too, comes too late."""
    program = textwrap.dedent("""
        import ctypes, sys; sys.path.insert(0, sys.argv[1])
        from conftest import gx_connect, gx_path
        import sqlite3
        db = gx_connect()
        try:
            db.execute("SELECT gx_solve(gx_matrix_gallery('poisson', 16, '{\\"sparse\\":true}'), gx_ones(16, 1), "
                       "'{\\"method\\":\\"direct\\"}')").fetchall()
        except sqlite3.Error as problem:
            print("none:", problem)
        # A connection of Python's begins with the object's two words, then the sqlite3 *.
        handle = ctypes.c_void_p.from_address(id(db) + 2 * ctypes.sizeof(ctypes.c_void_p))
        configure = ctypes.CDLL(gx_path()).gx_configure
        configure.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]
        text = ctypes.c_char_p()
        print(configure(handle, b"suitesparse_path", b"/tmp", ctypes.byref(text)), text.value)
        print(configure(handle, b"threads", b"1", ctypes.byref(text)), db.execute("SELECT gx_config('threads')").fetchone())
    """)
    ran = subprocess.run([sys.executable, "-c", program, str(ROOT / "tests" / "sql")], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    if "none:" in ran.stdout:
        pytest.skip(ran.stdout)
    assert ran.stdout.splitlines() == ["1 b'gx: suitesparse_path cannot be set: a library from there is open'", "0 (1,)"]


def test_no_library_from_where_the_process_goes(tmp_path):
    """gx.so is loaded by a relative path, and the process goes to a folder where somebody has put a gx_cuda.so."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    shutil.copy(gx_path() if gx_path().endswith(".so") else gx_path() + ".so", here / "gx.so")
    (there / "gx_cuda.so").write_bytes(b"")
    program = textwrap.dedent("""
        import os, sqlite3
        db = sqlite3.connect(":memory:")
        db.enable_load_extension(True)
        db.load_extension("./gx.so")
        os.chdir("../there")
        print(db.execute("SELECT reason FROM gx_devices WHERE backend = 'cuda'").fetchone()[0])
    """)
    ran = subprocess.run([sys.executable, "-c", program], cwd=here, capture_output=True, text=True)
    assert ran.stdout.strip() == "gx_cuda.so is not beside gx.so", ran.stdout + ran.stderr
    (there / "gx_cuda.so").rename(here / "gx_cuda.so")
    ran = subprocess.run([sys.executable, "-c", program], cwd=here, capture_output=True, text=True)
    assert ran.stdout.strip() == f"{here}/./gx_cuda.so: file too short", ran.stdout + ran.stderr


WITHOUT_FILES = {
    "import": "SELECT gx_import('B', '{there}/a.npy')",
    "export": "SELECT gx_export('A', '{there}/b.npy')",
    "backup": "SELECT gx_backup('{there}/b.db')",
    "volumes": "SELECT gx_volumes(2)",
    "paths": "SELECT gx_volumes('[\"{there}/v\"]')",
    "benchmark": "SELECT gx_benchmark(1)",
}


@pytest.mark.parametrize("what", sorted(WITHOUT_FILES))
def test_without_files(tmp_path, monkeypatch, what):
    """Nothing is opened or made but the database; the profile of the hardware is not written either."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    db = gx_connect(str(tmp_path / "a.db"))
    q(db, "SELECT gx_store('A', '[[1,2]]')")
    q(db, "SELECT gx_export('A', ?)", str(tmp_path / "a.npy"))
    q(db, "SELECT gx_config('volumes_anywhere', 'on')")
    before = sorted(os.listdir(tmp_path))
    q(db, "SELECT gx_config('files', 'off')")
    sql = WITHOUT_FILES[what].format(there=tmp_path)
    assert error(db, sql) == f"{sql.split('(')[0].split()[1]}: files are switched off in this connection"
    assert q(db, "SELECT gx_config('volumes_anywhere')") == "off"
    assert error(db, "SELECT gx_config('volumes_anywhere', 'on')") == (
        "gx_config: volumes_anywhere cannot be switched on: files is off in this connection")
    assert error(db, "SELECT gx_config('files', 'on')") == "gx_config: files is off and stays off in this connection"
    assert q(db, "SELECT gx_json('A')") == "[[1.0,2.0]]" and q(db, "SELECT gx_selftest()") == "ok"
    assert q(db, "SELECT gx_volumes(0)") == 0 and q(db, "SELECT gx_vacuum()") == 0
    assert sorted(os.listdir(tmp_path)) == before
    db.close()


def test_locked_settings(db):
    for key in SIZES:
        q(db, "SELECT gx_config(?, ?)", key, {"threads": 4, "readers": 4, "tile_bytes": "4MiB"}.get(key, "100MB"))
    before = settings(db)
    assert q(db, "SELECT gx_config('locked', 'on')") == "on"
    for key, value in OTHER_VALUES.items():
        text = error(db, "SELECT gx_config(?, ?)", key, value)
        assert text in (f"gx_config: {key} cannot be set: the settings of this connection are locked",
                        "gx_config: locked is on and stays on in this connection") or "cannot be set by SQL" in text, text
    for key in SIZES:
        high = before[key] + 1
        assert error(db, "SELECT gx_config(?, ?)", key, high) == (
            f"gx_config: {key} {high} is more than {before[key]}, its value when the settings of this connection were locked")
        low = {"threads": 2, "readers": 2, "tile_bytes": 1 << 20}.get(key, 50000000)
        assert q(db, "SELECT gx_config(?, ?)", key, low) == low
        assert q(db, "SELECT gx_config(?, ?)", key, before[key]) == before[key]
    assert "is more than" in error(db, "SELECT gx_config('device_memory_limit', 0)")  # 0 is as much as there is
    assert settings(db) == before | {"locked": "on"}
    assert q(db, "SELECT gx_config('locked', 'on')") == "on" and q(db, "SELECT gx_config('backend', 'auto')") == "auto"
    assert "may not be modified" in error(db, "UPDATE gx_settings SET value = 'off' WHERE key = 'locked'")
    assert q(db, "SELECT gx_selftest()") == "ok"


def test_locked_by_the_environment(monkeypatch):
    monkeypatch.setenv("GX_LOCKED", "on")
    monkeypatch.setenv("GX_THREADS", "2")
    db = gx_connect()
    assert q(db, "SELECT gx_config('locked')") == q(db, "SELECT gx_config('locked', 'default')") == "on"
    assert "locked is on and stays on" in error(db, "SELECT gx_config('locked', 'off')")
    assert "threads 3 is more than 2" in error(db, "SELECT gx_config('threads', 3)")
    assert q(db, "SELECT gx_selftest()") == "ok"
    db.close()


@pytest.mark.parametrize("had_gx", [False, True])
def test_the_safe_entry_point(tmp_path, had_gx):
    db = gx_connect() if had_gx else sqlite3.connect(":memory:", isolation_level=None)
    db.enable_load_extension(True)
    db.execute("SELECT load_extension(?, 'sqlite3_gx_safe_init')", (gx_path(),))
    db.enable_load_extension(False)
    assert q(db, "SELECT gx_config('files') || ' ' || gx_config('locked')") == "off on"
    assert "files are switched off" in error(db, "SELECT gx_export('[[1]]', ?)", str(tmp_path / "a.npy"))
    assert "locked" in error(db, "SELECT gx_config('backend', 'cpu')")
    q(db, "SELECT gx_store('A', '[[1,2],[3,4]]')")
    assert q(db, "SELECT gx_json(gx_matmul('A', 'A'))") == "[[7.0,10.0],[15.0,22.0]]"
    db.enable_load_extension(True)
    db.load_extension(gx_path())  # again, the other way: restricted it stays
    db.enable_load_extension(False)
    assert q(db, "SELECT gx_config('files') || ' ' || gx_config('locked')") == "off on"
    db.close()


# ---- files that are none -----------------------------------------------------------------------------------------------


def odd(path, kind):
    if kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a device":
        os.symlink("/dev/zero", path)
    elif kind == "a folder":
        os.mkdir(path)
    else:
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(os.path.relpath(path))
    return path


CHILD = textwrap.dedent("""
    import json, sys; sys.path.insert(0, sys.argv[1])
    from conftest import gx_connect
    db, answers = gx_connect(sys.argv[2]), []
    for sql in sys.argv[3:]:
        try:
            answers.append([list(row) for row in db.execute(sql)])
        except Exception as problem:
            answers.append(str(problem))
    print(json.dumps(answers))
""")


def answers(path, *statements, **environment):
    """Of a process: opening a FIFO would wait for ever."""
    ran = subprocess.run([sys.executable, "-c", CHILD, str(ROOT / "tests" / "sql"), str(path), *statements], timeout=120,
                         env=os.environ | environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


KINDS = ["a FIFO", "a device", "a folder", "a socket"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["csv", "mtx", "npy", "npz"])
def test_odd_files_in_and_out(tmp_path, monkeypatch, kind, end):
    monkeypatch.chdir(tmp_path)
    path = odd(tmp_path / f"odd.{end}", kind)
    expected = f"'{path}' is {kind}, not a regular file"
    A = "gx_sparse('[[1]]')" if end == "npz" else "'[[1]]'"
    assert answers(tmp_path / "a.db", f"SELECT gx_import('A', '{path}')", f"SELECT gx_import(NULL, '{path}')",
                   f"SELECT gx_export({A}, '{path}', '{{\"overwrite\":true}}')") == [
        f"gx_import: {expected}", f"gx_import: {expected}", f"gx_export: {expected}"]
    assert "already exists" in answers(tmp_path / "a.db", f"SELECT gx_export({A}, '{path}')")[0]
    assert sorted(os.listdir(tmp_path)) == ["a.db", f"odd.{end}"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", ["", "-journal", "-wal", "-shm"])
def test_odd_files_where_a_backup_goes(tmp_path, monkeypatch, kind, ending):
    monkeypatch.chdir(tmp_path)
    path = odd(f"{tmp_path / 'b.db'}{ending}", kind)
    text = answers(tmp_path / "a.db", "SELECT gx_store('A', '[[1]]')", f"SELECT gx_backup('{tmp_path / 'b.db'}')")[1]
    assert text == f"gx_backup: '{path}' is {kind}, not a regular file"


VOLUMES = ["SELECT gx_sum('A')", "SELECT state FROM gx_volume", "SELECT gx_check()", "SELECT gx_vacuum()", "SELECT gx_volumes(0)",
           "SELECT gx_backup('{there}/b.db')", "SELECT gx_full(100, 100, 1, 'B')"]


@pytest.mark.parametrize("place", ["beside", "elsewhere"])
@pytest.mark.parametrize("kind", KINDS)
def test_odd_files_as_volumes(tmp_path, monkeypatch, kind, place):
    """Where the volume was, and by a path of the database's own where the connection allows it."""
    monkeypatch.chdir(tmp_path)
    db = gx_connect(str(tmp_path / "v.db"))
    q(db, "SELECT gx_config('tile_bytes', 4096)")
    q(db, "SELECT gx_volumes(1)")
    q(db, "SELECT gx_full(100, 100, 1, 'A')")
    path = odd(tmp_path / "odd", kind)
    if place == "beside":
        path = tmp_path / "v.db-gx1"
        path.unlink()
        shutil.rmtree(tmp_path / "odd") if kind == "a folder" else (tmp_path / "odd").unlink()
        odd(path, kind)
    else:
        db.execute("UPDATE gx_volumes SET path = ?", (str(path),))
    db.close()
    expected = f"volume 1 of main, {path}, is {kind}, not a regular file"
    sql = [text.format(there=tmp_path) for text in VOLUMES]
    allowed = "SELECT gx_config('volumes_anywhere', 'on')"
    for answer in answers(tmp_path / "v.db", allowed, "SELECT gx_config('tile_bytes', 4096)", *sql)[2:]:
        assert expected in str(answer)
    if place == "beside" and kind == "a device":  # a link is a path of somebody's
        assert "is a link, not beside the database: allow that" in answers(tmp_path / "v.db", VOLUMES[0])[0]
    assert os.path.lexists(path)


@pytest.mark.parametrize("kind", KINDS)
def test_odd_files_are_no_new_volumes(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    path = odd(tmp_path / "odd", kind)
    allowed, paths = "SELECT gx_config('volumes_anywhere', 'on')", f"SELECT gx_volumes('[\"{path}\"]')"
    assert f"the file {path} exists already" in answers(tmp_path / "v.db", allowed, paths)[1]
    os.rename(path, tmp_path / "v.db-gx1")
    assert answers(tmp_path / "v.db", "SELECT gx_volumes(1)", "SELECT path FROM gx_volume") == [
        [[1]], [[f"{tmp_path / 'v.db-gx2'}"]]]


@pytest.mark.parametrize("kind", KINDS)
def test_odd_files_as_the_profile(tmp_path, monkeypatch, kind):
    (tmp_path / "gx").mkdir()
    monkeypatch.chdir(tmp_path)
    path = odd(tmp_path / "gx" / "hardware.json", kind)
    notes = "SELECT meaning FROM gx_stats WHERE name = 'note'"
    read = answers(tmp_path / "a.db", "SELECT count(*) FROM gx_devices", notes, XDG_CACHE_HOME=str(tmp_path), GX_PROFILE="on")
    assert f"hardware profile not read: {kind}, no regular file: {path}"[:120] in str(read[1])
    written = answers(tmp_path / "a.db", "SELECT length(gx_benchmark(1)) > 100", notes, XDG_CACHE_HOME=str(tmp_path),
                      GX_PROFILE="on", GX_MEMORY_LIMIT="64MB")
    assert written[0] == [[1]]
    if kind != "a device":  # that one is a link, which is replaced
        assert "hardware profile not written" in str(written[1]) and not path.is_file()
    else:
        assert path.is_file() and not path.is_symlink()
