"""Control from SQL: settings, counters, devices, progress, self-test, benchmark.

Plan:
- gx_config: every setting read, set, reset; sizes in every spelling; each refusal with its exact text; the type of what
  is returned; the wrong number and type of arguments;
- the floor of memory_limit, and what tile_bytes does to it;
- gx_settings says what gx_config says, and both are out of reach of a schema's views and triggers;
- GX_* variables in a process of their own: good ones, bad ones (a note), backends that are not there;
- files that were switched off cannot be switched on;
- gx_stats counts calls, notes fall-backs, and is reset by gx_stats_reset(); gx_devices names what is missing;
- progress by an SQL function: its arguments, that it stops a call and fails one, what it may do meanwhile; on stderr;
- the reasons why CUDA is off, by stand-ins for gx_cuda.so;
- gx_version, gx_debug, gx_selftest (also on a closed-down connection), gx_benchmark and the file of its figures:
  missing, unreadable, damaged, switched off;
- OpenBLAS uses the kernels that the processor's instructions allow, or those that OPENBLAS_CORETYPE names.
"""
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, error, from_numpy, gx_connect, gx_path, q

MIB = 1 << 20
SIZE = "is no size: give bytes, or text such as '64MB' or '2GiB'"


def cuda_reason():
    """Why CUDA is off here: gx_cuda.so was not built, or what it finds missing; None where there is a device."""
    beside = pathlib.Path(gx_path()).with_name("gx_cuda.so")
    if not beside.exists():
        return "gx_cuda.so is not beside gx.so"
    db = gx_connect()
    status, reason = db.execute("SELECT status, reason FROM gx_devices WHERE backend = 'cuda'").fetchone()
    db.close()
    assert status == "ready" or (reason and "\n" not in reason)
    return reason if status == "off" else None


CUDA_OFF = cuda_reason()

KEYS = (
    "memory_limit, pinning_budget, device_memory_limit, backend, threads, readers, tile_bytes, deterministic, "
    "progress, probe, files, profile, cuda_path, volumes_anywhere, device, devices, "
    "suitesparse_path, locked, events"
)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch, tmp_path):
    """No GX_* of the caller's, and a cache folder of the test's own."""
    for key in [key for key in os.environ if key.startswith("GX_") and key != "GX_SO"]:
        monkeypatch.delenv(key)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def fresh(clean_environment):
    connection = gx_connect()
    yield connection
    connection.close()


def config(db, key, *value):
    return q(db, f"SELECT gx_config({', '.join('?' * (1 + len(value)))})", key, *value)


def config_error(db, *arguments):
    return error(db, f"SELECT gx_config({', '.join('?' * len(arguments))})", *arguments)


# ---- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key, value, shown",
    [
        ("memory_limit", "64MB", 64000000),
        ("memory_limit", "2GiB", 2 << 30),
        ("memory_limit", "1.5GiB", 3 << 29),
        ("memory_limit", 100000000, 100000000),
        ("memory_limit", 1e9, 1000000000),
        ("MEMORY_LIMIT", " 64 mib", 64 * MIB),
        ("pinning_budget", 0, 0),
        ("device_memory_limit", "10GB", 10**10),
        ("backend", "cpu", "cpu"),
        ("backend", "Reference", "reference"),
        ("backend", "auto", "auto"),
        ("threads", 1, 1),
        ("threads", "1024", 1024),
        ("readers", 0, 0),
        ("tile_bytes", 64, 64),
        ("tile_bytes", "1MiB", MIB),
        ("deterministic", "on", "on"),
        ("deterministic", 1, "on"),
        ("deterministic", "false", "off"),
        ("progress", "on", "on"),
        ("progress", "abs", "abs"),
        ("progress", 0, "off"),
        ("files", "off", "off"),
        ("profile", "no", "off"),
        ("probe", "yes", "on"),
        ("probe", "AUTO", "auto"),
    ],
)
def test_setting(fresh, key, value, shown):
    assert config(fresh, key, value) == shown
    assert config(fresh, key) == shown
    assert type(config(fresh, key)) is type(shown)
    assert q(fresh, "SELECT value FROM gx_settings WHERE key = ?", key.lower()) == shown


@pytest.mark.parametrize(
    "arguments, text",
    [
        (("memory_limit", "abc"), f"memory_limit 'abc' {SIZE}"),
        (("memory_limit", "-1"), f"memory_limit '-1' {SIZE}"),
        (("memory_limit", -1), f"memory_limit '-1' {SIZE}"),
        (("memory_limit", ""), f"memory_limit '' {SIZE}"),
        (("memory_limit", "8EiB"), f"memory_limit '8EiB' {SIZE}"),
        (("memory_limit", "9223372036854775808"), f"memory_limit '9223372036854775808' {SIZE}"),
        (("memory_limit", "8192PiB"), f"memory_limit '8192PiB' {SIZE}"),
        (("memory_limit", None), "memory_limit cannot be NULL"),
        (("memory_limit", b"64MB"), "memory_limit cannot be a blob"),
        (("memory_limit", "64MB\0"), "memory_limit has a zero byte in it"),
        (("tile_bytes", 63), "tile_bytes must be 64 to 1073741824 bytes, not 63"),
        (("threads", 0), "threads must be a whole number from 1 to 1024, not '0'"),
        (("threads", 1.5), "threads must be a whole number from 1 to 1024, not '1.5'"),
        (("readers", 1000), "readers must be a whole number from 0 to 256, not '1000'"),
        (("backend", "gpu"), "backend must be auto, cpu, cuda or reference, not 'gpu'"),
        *([(("backend", "cuda"), f"backend cuda is not available: {CUDA_OFF}")] if CUDA_OFF else []),
        (("deterministic", "perhaps"), "deterministic must be on or off, not 'perhaps'"),
        (("files", 2), "files must be on or off, not '2'"),
        (("progress", "a b"), "progress must be off, on, or the name of an SQL function, not 'a b'"),
        (
            ("progress", "nope"),
            "progress must be off, on, or the name of an SQL function, but there is no function nope",
        ),
        (("speed",), f"no setting 'speed': the settings are {KEYS}"),
        (("speed", 9), f"no setting 'speed': the settings are {KEYS}"),
        ((), "takes 1 to 2 arguments, not 0: gx_config(key[, value])"),
        (("threads", 1, 2), "takes 1 to 2 arguments, not 3: gx_config(key[, value])"),
    ],
)
def test_refusal(fresh, arguments, text):
    before = fresh.execute("SELECT * FROM gx_settings").fetchall()
    assert config_error(fresh, *arguments) == f"gx_config: {text}"
    assert fresh.execute("SELECT * FROM gx_settings").fetchall() == before


def test_floor(fresh):
    """Three storage tiles; with small tiles 64 KiB beside them."""
    assert config_error(fresh, "memory_limit", 24 * MIB - 1) == (
        "gx_config: memory_limit 25165823 is below the floor of 25165824 bytes, three tiles of 8388608 (lower "
        "tile_bytes for less)"
    )
    assert config(fresh, "memory_limit", "24MiB") == 24 * MIB
    assert config_error(fresh, "tile_bytes", "16MiB") == (
        "gx_config: tile_bytes 16777216 needs a memory_limit of at least 50331648 bytes, three tiles, but it is "
        "25165824"
    )
    assert config(fresh, "tile_bytes", 1024) == 1024
    assert config_error(fresh, "memory_limit", 60000) == (
        "gx_config: memory_limit 60000 is below the floor of 68608 bytes, three tiles of 1024 (lower tile_bytes for "
        "less)"
    )
    assert config(fresh, "memory_limit", 68608) == 68608


def test_default_gives_the_default_back(fresh):
    for key, default in fresh.execute('SELECT key, "default" FROM gx_settings').fetchall():
        assert config(fresh, key) == default
        assert config(fresh, key, "default") == default
    config(fresh, "threads", 7)
    assert config(fresh, "threads", "default") == q(fresh, "SELECT \"default\" FROM gx_settings WHERE key = 'threads'")


def test_settings_belong_to_the_connection(fresh):
    other = gx_connect()
    config(fresh, "threads", 3)
    config(other, "threads", 5)
    assert (config(fresh, "threads"), config(other, "threads")) == (3, 5)
    other.close()


def test_settings_table(fresh):
    rows = fresh.execute('SELECT key, value, "default", unit, meaning FROM gx_settings').fetchall()
    assert ", ".join(row[0] for row in rows) == KEYS
    assert all(row[1] == row[2] and row[3] and row[4] for row in rows)
    units = {row[0]: row[3] for row in rows}
    assert (units["memory_limit"], units["threads"], units["files"], units["backend"]) == (
        "bytes",
        "count",
        "on/off",
        "word",
    )


@pytest.mark.parametrize("table", ["gx_settings", "gx_stats", "gx_devices"])
def test_tables_are_read_only(fresh, table):
    column = {"gx_settings": "key", "gx_stats": "name", "gx_devices": "device"}[table]
    assert error(fresh, f"DELETE FROM {table}") == f"table {table} may not be modified"
    assert error(fresh, f"UPDATE {table} SET {column} = 1") == f"table {table} may not be modified"
    assert error(fresh, f"CREATE VIRTUAL TABLE t USING {table}") == f"no such module: {table}"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT gx_config('files', 'on')",
        "SELECT gx_debug()",
        "SELECT gx_stats_reset()",
        "SELECT gx_selftest()",
        "SELECT gx_benchmark()",
        "SELECT * FROM gx_settings",
        "SELECT * FROM gx_stats",
        "SELECT * FROM gx_devices",
    ],
)
def test_a_schema_may_not_use_control(fresh, sql):
    """DIRECTONLY: a view that came with a database file cannot look or set."""
    fresh.execute(f"CREATE VIEW v AS {sql}")
    assert "unsafe use of" in error(fresh, "SELECT * FROM v")


def test_files_stay_off(fresh):
    assert config(fresh, "files", "on") == "on"
    assert config(fresh, "files", "off") == "off"
    assert config(fresh, "files", "off") == "off"
    assert config_error(fresh, "files", "on") == "gx_config: files is off and stays off in this connection"
    assert config_error(fresh, "files", "default") == "gx_config: files is off and stays off in this connection"
    assert config(fresh, "files") == "off"


# ---- the environment -------------------------------------------------------------------------------------------------

CHILD = """
import json, os, sqlite3, sys
db = sqlite3.connect(":memory:", isolation_level=None)
db.enable_load_extension(True)
db.load_extension(os.environ["GX_SO"])
print(json.dumps([db.execute(sql).fetchall() for sql in sys.argv[1:]]))
"""


def in_child(*statements, **environment):
    """What the statements return in a process with these variables."""
    env = {**os.environ, "GX_SO": gx_path(), **environment}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *statements], env=env, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return json.loads(done.stdout)


SETTINGS = "SELECT json_group_object(key, value), json_group_object(key, \"default\") FROM gx_settings"
NOTES = "SELECT meaning, value FROM gx_stats WHERE name = 'note'"


def test_environment():
    (settings,), notes = in_child(
        SETTINGS,
        NOTES,
        GX_MEMORY_LIMIT="1MiB",
        GX_TILE_BYTES="4KiB",
        GX_THREADS="3",
        GX_BACKEND="reference",
        GX_DETERMINISTIC="1",
        GX_FILES="off",
        GX_PROGRESS="on",
        GX_PROFILE="off",
        GX_PINNING_BUDGET="",
    )
    values, defaults = map(json.loads, settings)
    assert values == defaults
    assert notes == []
    assert values["memory_limit"] == MIB
    assert values["tile_bytes"] == 4096
    assert (values["threads"], values["readers"]) == (3, 3)
    assert values["backend"] == "reference"
    assert (values["deterministic"], values["files"]) == ("on", "off")
    assert (values["progress"], values["profile"]) == ("on", "off")


def test_bad_environment_is_a_note():
    (settings,), notes = in_child(
        SETTINGS, NOTES, GX_MEMORY_LIMIT="plenty", GX_THREADS="-2", GX_BACKEND="cuda", GX_FILES="maybe"
    )
    values = json.loads(settings[0])
    assert values["memory_limit"] >= 24 * MIB
    assert values["threads"] >= 1
    assert (values["backend"], values["files"]) == ("auto" if CUDA_OFF else "cuda", "on")
    assert notes == [
        ["GX_THREADS ignored: threads must be a whole number from 1 to 1024, not '-2'", 1],
        [f"GX_MEMORY_LIMIT ignored: memory_limit 'plenty' {SIZE}", 1],
        ["GX_FILES ignored: files must be on or off, not 'maybe'", 1],
    ] + ([[f"GX_BACKEND ignored: backend cuda is not available: {CUDA_OFF}"[:159], 1]] if CUDA_OFF else [])


# ---- counters and devices --------------------------------------------------------------------------------------------


def stats(db):
    return dict(db.execute("SELECT name, value FROM gx_stats WHERE name <> 'note'"))


def test_stats_count(fresh):
    assert stats(fresh)["calls"] == 0
    fresh.execute("SELECT gx_matmul('[[1,2],[3,4]]', '[[5],[6]]')").fetchall()
    after = stats(fresh)
    assert after["calls"] == 1
    assert after["flops"] == 2 * 2 * 2 * 1
    assert after["kernels"] >= 1
    assert 0 < after["measured_ns"] < 10**10
    fresh.execute("SELECT gx_store('A', ?)", (from_numpy(np.ones((20, 30))),)).fetchall()
    q(fresh, "SELECT gx_norm('A')")
    after = stats(fresh)
    assert after["bytes_written"] == 4800
    assert after["bytes_read"] == 4800
    assert after["tiles_written"] == 1
    assert after["memory_peak"] >= after["memory_used"]
    assert after["memory_limit"] == config(fresh, "memory_limit")
    assert q(fresh, "SELECT gx_stats_reset()") is None
    after = stats(fresh)
    assert after["bytes_read"] == after["bytes_written"] == after["flops"] == 0
    assert after["memory_peak"] == after["memory_used"]
    assert fresh.execute(NOTES).fetchall() == []


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("sql", [
    "SELECT gx_matmul(gx_random(20, 20), gx_random(20, 20))",
    "SELECT gx_matmul(gx_random(300, 300), gx_random(300, 300))",
    "SELECT gx_cholesky('[[4,1],[1,3]]')",
    "SELECT gx_solve('[[4,1],[2,3]]', '[1,2]')",
    "SELECT gx_solve('[[4,1],[1,3]]', '[1,2]')",
    "SELECT gx_pinv(gx_random(20, 10))",
    "SELECT gx_lstsq(gx_random(20, 10), gx_random(20, 1))",
    "SELECT max(sigma) FROM gx_svd(gx_random(20, 10))",
    "SELECT gx_eigvals('[[4,1],[2,3]]')",
    "SELECT gx_expm('[[4,1],[2,3]]')",
])
def test_kernels_are_counted_and_timed(fresh, sql, threads):
    q(fresh, f"SELECT gx_config('threads', {threads})")
    q(fresh, sql)
    after = stats(fresh)
    assert after["kernels"] > 0 and after["flops"] > 0 and after["compute_ns"] > 0


def test_products_shorter_than_a_look_at_the_clock(fresh):
    q(fresh, "SELECT gx_matmul('[[1,2],[3,4]]', '[[1,0],[0,1]]')")
    after = stats(fresh)
    assert (after["kernels"], after["flops"], after["compute_ns"]) == (1, 16, 0)


def test_looks_and_signs_are_timed(fresh):
    q(fresh, "SELECT gx_eig(gx_random(300, 300), 'w', 'V')")
    after = stats(fresh)
    assert after["check_ns"] > 0 and after["copy_ns"] > 0
    assert after["check_ns"] + after["copy_ns"] + after["compute_ns"] + after["write_ns"] <= after["measured_ns"]


def test_stats_columns(fresh):
    rows = fresh.execute("SELECT name, value, unit, meaning FROM gx_stats").fetchall()
    assert len({row[0] for row in rows}) == len(rows)
    assert all(isinstance(row[1], int) and row[2] in ("count", "bytes", "ns", "flop", "1/1000") and row[3] for row in rows)


def test_devices(fresh):
    rows = {row[1]: row for row in fresh.execute("SELECT * FROM gx_devices")}
    assert set(rows) == {"cpu", "reference", "cuda"}
    assert rows["cpu"][2] == "used" and rows["reference"][2] == "ready"
    if CUDA_OFF:
        assert rows["cuda"][:4] == ("cuda", "cuda", "off", CUDA_OFF)
        assert rows["cuda"][4:] == (None,) * 13
    assert rows["cpu"][3] == "rates not measured: SELECT gx_benchmark()"
    assert rows["cpu"][4] >= rows["cpu"][5] > 0
    config(fresh, "backend", "reference")
    rows = {row[0]: row for row in fresh.execute("SELECT backend, status FROM gx_devices")}
    assert rows["cpu"][1] == "ready" and rows["reference"][1] == "used"


# ---- progress --------------------------------------------------------------------------------------------------------


SLOW = 1100  # a processor that nobody else uses multiplies 520 by the plain loop within that tenth


@pytest.fixture
def slow(fresh):
    """A connection on which gx_matmul(?1, ?1) takes several times the tenth of a second after which progress is told."""
    config(fresh, "backend", "reference")
    config(fresh, "threads", 1)
    config(fresh, "tile_bytes", 64 << 10)
    value = from_numpy(np.random.default_rng(11).standard_normal((SLOW, SLOW)))
    return fresh, value


PRODUCT = "SELECT length(gx_matmul(?1, ?1))"


def test_progress_function_is_called(slow):
    db, value = slow
    seen = []
    db.create_function("watch", 3, lambda *arguments: seen.append(arguments))
    config(db, "progress", "watch")
    q(db, PRODUCT, value)
    labels, fractions, seconds = zip(*seen)
    assert set(labels) == {"gx_matmul"}
    assert list(fractions) == sorted(fractions) and all(0 <= x <= 1 for x in fractions)
    assert fractions[-1] == 1
    assert list(seconds) == sorted(seconds) and seconds[0] >= 0.1
    assert len(seen) <= 2 + 10 * seconds[-1]


def test_progress_function_stops_a_call(slow):
    db, value = slow
    seen = []

    def watch(label, fraction, seconds):
        seen.append(fraction)
        return 1

    db.create_function("watch", 3, watch)
    config(db, "progress", "watch")
    assert error(db, PRODUCT, value) == "gx_matmul: interrupted by progress function watch"
    assert len(seen) == 1
    config(db, "progress", "off")
    assert q(db, PRODUCT, value) == 32 + 8 * SLOW * SLOW


def test_progress_function_fails_a_call(slow):
    db, value = slow
    db.create_function("watch", 3, lambda *arguments: 1 / 0)
    config(db, "progress", "watch")
    assert "user-defined function raised exception" in error(db, PRODUCT, value)


def test_progress_function_may_use_the_connection(slow):
    """It reads counters and settings, computes, and switches itself off; other settings wait."""
    db, value = slow
    seen = []

    def watch(label, fraction, seconds):
        assert q(db, "SELECT gx_trace('[[1,2],[3,4]]')") == 5
        seen.append((stats(db)["calls"], config(db, "threads"), config_error(db, "threads", 2)))
        config(db, "progress", "off")

    db.create_function("watch", 3, watch)
    config(db, "progress", "watch")
    assert q(db, PRODUCT, value) == 32 + 8 * SLOW * SLOW
    assert len(seen) == 1
    assert seen[0][1:] == (1, "gx_config: threads cannot be set while another call of gx is running")


def test_a_progress_function_that_commits_loses_no_matrix(slow):
    """Nor one that would be written over otherwise (decision 029)."""
    db, value = slow
    q(db, "PRAGMA secure_delete=ON")
    q(db, "SELECT gx_eye(?, 'C')", SLOW)
    db.create_function("watch", 3, lambda *arguments: db.execute("COMMIT") and None)
    config(db, "progress", "watch")
    said = error(db, "SELECT gx_matmul(?1, ?1, 'C', '{\"replace\":true}')", value)
    assert said == "gx_matmul: the transaction was ended while the call was storing"
    config(db, "progress", "off")
    assert q(db, "SELECT gx_trace('C')") == SLOW and q(db, "SELECT gx_norm('C', '1')") == 1
    assert q(db, "SELECT gx_check()") == "ok"


def test_progress_on_stderr():
    """A call of a second or more writes plain lines into a pipe, each with a share or a time, and one at its end."""
    code = CHILD.replace(
        "print",
        "import struct, time\n"
        "n, start = 400, time.time()\n"
        "while time.time() - start < 1:\n"
        "    start = time.time()\n"
        "    value = struct.pack('<4sBBHqqq', b'gxmv', 1, 0, 0, n, n, 0) + bytes(8 * n * n)\n"
        "    db.execute('SELECT gx_matmul(:a, :a)', {'a': value}).fetchall()\n"
        "    n = n * 3 // 2\n"
        "print",
    )
    env = {**os.environ, "GX_SO": gx_path(), "GX_PROGRESS": "on", "GX_BACKEND": "reference", "GX_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, timeout=60)
    lines = done.stderr.splitlines()
    assert len(lines) >= 2
    assert all(re.match(r"gx_matmul +(\d+ %|\d+(\.\d)? s|took )", line) for line in lines[:-1])
    assert re.fullmatch(r"gx_matmul took \d+(\.\d)? s( +\d\S* [kMG]?FLOP/s)?( +\d\S* [kMG]?B/s)?", lines[-1])


def test_progress_is_silent_on_short_calls():
    env = {**os.environ, "GX_SO": gx_path(), "GX_PROGRESS": "on"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, "SELECT gx_trace('[[1,2],[3,4]]')"], env=env, capture_output=True, check=True
    )
    assert done.stderr == b""


# ---- versions, self-test, benchmark ----------------------------------------------------------------------------------


def test_version(fresh):
    header = (ROOT / "ext" / "gx.h").read_text()
    assert q(fresh, "SELECT gx_version()") == re.search(r'GX_VERSION "(.*)"', header).group(1)
    fresh.execute("CREATE VIEW v AS SELECT gx_version() AS version")
    assert q(fresh, "SELECT version FROM v") == q(fresh, "SELECT gx_version()")


def processor_flags():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        line = next((line for line in file if line.startswith("flags")), "flags :")
    return set(line.split(":")[1].split())


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the choice is one of x86 kernels")
def test_blas_kernels_of_the_processor():
    def core(**variables):
        env = {k: v for k, v in os.environ.items() if k != "OPENBLAS_CORETYPE"}
        done = subprocess.run([sys.executable, "-c", CHILD, "SELECT json_extract(gx_debug(), '$.build.blas')"],
                              env={**env, "GX_SO": gx_path(), **variables}, capture_output=True, check=True, text=True)
        return done.stdout

    flags = processor_flags()
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"} <= flags:
        assert "SkylakeX" in core()
    elif {"avx2", "fma"} <= flags:
        assert "Prescott" not in core()
    assert "Nehalem" in core(OPENBLAS_CORETYPE="Nehalem")


def test_debug(tmp_path):
    db = gx_connect(str(tmp_path / "debug.db"), page_size=8192, journal_mode="wal")
    db.execute("CREATE TABLE t(x)")
    db.execute("ATTACH ':memory:' AS \"odd \"\"name\"")
    facts = json.loads(q(db, "SELECT gx_debug()"))
    assert "\n" not in q(db, "SELECT gx_debug()")
    assert facts["gx"] == q(db, "SELECT gx_version()")
    assert facts["sqlite"]["version"] == q(db, "SELECT sqlite_version()")
    assert facts["sqlite"]["threading"] in ("serialized", "multi-thread", "single-thread")
    assert "OpenBLAS" in facts["build"]["blas"]
    assert facts["machine"]["processors"] >= 1
    assert facts["settings"]["memory_limit"] == config(db, "memory_limit") == facts["memory"]["limit"]
    main = next(one for one in facts["databases"] if one["schema"] == "main")
    assert (main["journal_mode"], main["page_size"]) == ("wal", "8192")
    assert main["file"].endswith("debug.db")
    odd = next(one for one in facts["databases"] if one["schema"] == 'odd "name')
    assert odd["helpers"] == "in-memory database"
    assert facts["cuda"] == (CUDA_OFF or "available")
    db.close()


def test_selftest(filedb):
    before = (filedb.execute("SELECT * FROM sqlite_master").fetchall(), stats(filedb)["bytes_written"])
    filedb.execute("BEGIN")
    assert q(filedb, "SELECT gx_selftest()") == "ok"
    assert filedb.in_transaction
    filedb.execute("COMMIT")
    assert (filedb.execute("SELECT * FROM sqlite_master").fetchall(), stats(filedb)["bytes_written"]) == before


@pytest.mark.parametrize(
    "settings",
    [
        {"threads": 1},
        {"threads": 4, "deterministic": "on"},
        {"backend": "reference"},
        {"tile_bytes": 64, "memory_limit": 100000},
        {"readers": 0, "progress": "on", "files": "off"},
    ],
    ids=str,
)
def test_selftest_under_settings(fresh, settings):
    for key, value in settings.items():
        config(fresh, key, value)
    assert q(fresh, "SELECT gx_selftest()") == "ok"


RATES = ("memcpy_bytes_per_s", "db_read_bytes_per_s", "db_write_bytes_per_s")


def profile_file(tmp_path):
    return tmp_path / "cache" / "gx" / "hardware.json"


def keep_small(db):
    """Keeps all but the smallest products out of gx_benchmark(), and the test short."""
    config(db, "tile_bytes", 64)
    config(db, "memory_limit", "1MiB")


def notes(db):
    return [row[0] for row in db.execute(NOTES)]


def test_benchmark(fresh, tmp_path):
    """Measured once, saved, read by the next connection; bad files are notes and are replaced."""
    config(fresh, "memory_limit", "24MiB")  # the largest products do not fit
    figures = json.loads(q(fresh, "SELECT gx_benchmark()"))
    assert figures["measured"] is True
    assert figures["threads"] == config(fresh, "threads")
    assert all(1e6 < figures[rate] < 1e13 for rate in RATES)
    for dtype in ("f64", "f32", "c128", "c64"):
        assert all(1e7 < rate < 1e16 for rate in figures["gemm_flops_per_s"][dtype])
    assert notes(fresh) == []

    # The next connection has it from the file, and measures nothing.
    saved = json.loads(profile_file(tmp_path).read_text())
    assert saved["format"] == 1 and len(saved["machines"]) == 1
    other = gx_connect()
    assert json.loads(q(other, "SELECT gx_benchmark()")) == figures
    assert stats(other)["flops"] == 0
    assert q(other, "SELECT f64 FROM gx_devices WHERE backend = 'cpu'") == figures["gemm_flops_per_s"]["f64"][-1]
    other.close()

    # A profile of another machine stays in the file.
    saved["machines"]["elsewhere"] = next(iter(saved["machines"].values()))
    profile_file(tmp_path).write_text(json.dumps(saved))
    other = gx_connect()
    keep_small(other)
    q(other, "SELECT gx_benchmark(1)")
    assert len(json.loads(profile_file(tmp_path).read_text())["machines"]) == 2
    other.close()


@pytest.mark.parametrize(
    "content, note",
    [
        (b"", "hardware profile not read: not in its format: "),
        (b"{", "hardware profile not read: not in its format: "),
        (b'{"format":2,"machines":{}}', "hardware profile not read: not in its format: "),
        (b"[1,2]", "hardware profile not read: not in its format: "),
        (b"\x00\xff" * 100, "hardware profile not read: not in its format: "),
        (b" " * (MIB + 1), "hardware profile not read: no file of at most 1 MiB: "),
    ],
    ids=["empty", "cut", "newer", "list", "noise", "huge"],
)
def test_damaged_profile_is_a_note(fresh, tmp_path, content, note):
    profile_file(tmp_path).parent.mkdir(parents=True)
    profile_file(tmp_path).write_bytes(content)
    reason = q(fresh, "SELECT reason FROM gx_devices WHERE backend = 'cpu'")
    assert reason == "rates not measured: SELECT gx_benchmark()"
    assert len(notes(fresh)) == 1 and notes(fresh)[0].startswith(note)


def test_unsound_figures_are_a_note(fresh, tmp_path):
    keep_small(fresh)
    q(fresh, "SELECT gx_benchmark()")
    saved = json.loads(profile_file(tmp_path).read_text())
    figures = next(iter(saved["machines"].values()))
    for damage in (
        {"threads": 0},
        {"memcpy_bytes_per_s": -1},
        {"db_read_bytes_per_s": "fast"},
        {"gemm_size": [5, 5, 5]},
        {"gemm_size": [128]},
        {"store_bytes": [3, 2, 1]},
        {"store_again": {"write": [1e9, 1e9], "commit": [1e9, 1e9, 1e9]}},
        {"gemm_flops_per_s": {}},
    ):
        machines = {key: {**figures, **damage} for key in saved["machines"]}
        profile_file(tmp_path).write_text(json.dumps({"format": 1, "machines": machines}))
        db = gx_connect()
        assert json.loads(q(db, "SELECT gx_debug()"))["profile"]["measured"] is False
        assert notes(db) == ["hardware profile not read: a figure is missing or not positive"], damage
        db.close()


def test_unwritable_profile_is_a_note(fresh, tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file where the folder should be")
    keep_small(fresh)
    assert json.loads(q(fresh, "SELECT gx_benchmark()"))["measured"] is True
    assert len(notes(fresh)) == 1
    assert notes(fresh)[0].startswith("hardware profile not written: Not a directory: ")


def test_profile_off_leaves_the_file_alone(fresh, tmp_path):
    config(fresh, "profile", "off")
    keep_small(fresh)
    assert json.loads(q(fresh, "SELECT gx_benchmark()"))["measured"] is True
    assert not profile_file(tmp_path).exists()
    assert notes(fresh) == []


def test_benchmark_removes_what_a_killed_one_left(clean_environment, tmp_path):
    """Its private database goes; what it finds of others goes when it is old and bears the very name."""
    db = gx_connect(str(tmp_path / "data.db"))
    config(db, "memory_limit", "24MiB")
    old = ["gx-benchmark-17-42.db", "gx-benchmark-17-42.db-wal", "gx-benchmark-17-42.db-shm", "gx-benchmark-17-42.db-journal"]
    others = ["gx-benchmark-17.db", "gx-benchmark-17-42.db.bak", "gx-benchmark-17-42", "my-gx-benchmark-17-42.db"]
    for name in old + others:
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (1e9, 1e9))
    (tmp_path / "gx-benchmark-18-42.db").write_text("")  # of one that may be running
    q(db, "SELECT gx_benchmark(1)")
    left = {path.name for path in tmp_path.iterdir() if "gx-benchmark" in path.name}
    assert left == {"gx-benchmark-18-42.db", *others}
    db.close()


def test_benchmark_refuses(fresh):
    assert error(fresh, "SELECT gx_benchmark('much')").startswith("gx_benchmark: force must be ")
    assert error(fresh, "SELECT gx_benchmark(1, 2)") == "gx_benchmark: takes 0 to 1 arguments, not 2: gx_benchmark([force])"


# ---- the CUDA backend, by stand-ins ----------------------------------------------------------------------------------

MOCK = """
#include "base/backend.h"
#include <string.h>
static int count(void) { return DEVICES; }
static gx_code open_device(int ordinal, gx_dev **dev, gx_err *err)
{
    static const char state[2];
    (void)err;
    *dev = (gx_dev *)(void *)&state[ordinal];
    return GX_OK;
}
static void close_device(gx_dev *dev) { (void)dev; }
static gx_code info(gx_dev *dev, gx_dev_info *info, gx_err *err)
{
    (void)dev;
    (void)err;
    memset(info, 0, sizeof *info);
    strcpy(info->name, "cuda:0 stand-in");
    info->total_bytes = 1000;
    info->free_bytes = 400;
    info->upload_bytes_per_s = 5e10;
    info->flops_per_s[GX_F64] = 6e13;
    return GX_OK;
}
const gx_backend *gx_cuda_backend(const char *cuda_path, gx_err *err)
{
    (void)cuda_path;
    if (LACKS) {
        strcpy(err->text, "no NVIDIA driver: libcuda.so.1 is missing");
        return NULL;
    }
    static const gx_backend backend = {.abi = ABI, .name = "cuda", .count = count,
        .open = open_device, .close = close_device, .info = info};
    return &backend;
}
"""


def compile_shared(path, source, *flags):
    compiler = [os.environ.get("CC", "cc"), "-std=c11", "-shared", "-fPIC", "-w"]
    subprocess.run([*compiler, *flags, "-o", str(path), "-x", "c", "-"], input=source, text=True, check=True, timeout=60)


@pytest.mark.parametrize(
    "backend, row",
    [
        ("garbage", ("cuda", "off", r".*/gx_cuda.so: file too short")),
        ("needs", ("cuda", "off", r"libcublas_of_tests.so.99: cannot open shared object file.*")),
        ("empty", ("cuda", "off", r"not a backend of gx: .*/gx_cuda.so")),
        ("abi", ("cuda", "off", r"built for another version of gx: .*/gx_cuda.so")),
        ("lacks", ("cuda", "off", "no NVIDIA driver: libcuda.so.1 is missing")),
        ("none", ("cuda", "off", "no CUDA device")),
        ("good", ("cuda:0 stand-in", "ready", "")),
    ],
)
def test_cuda_stand_ins(tmp_path, backend, row):
    """Every reason why CUDA is off, and that a backend which answers is listed."""
    here, drivers = tmp_path / "here", tmp_path / "drivers"
    here.mkdir()
    drivers.mkdir()
    (here / "gx.so").write_bytes(open(gx_path() if gx_path().endswith(".so") else gx_path() + ".so", "rb").read())
    include = f"-I{ROOT / 'core'}"
    if backend == "garbage":
        (here / "gx_cuda.so").write_bytes(b"")
    elif backend == "needs":
        library = drivers / "libcublas_of_tests.so.99"
        compile_shared(library, "int f(void) { return 1; }", f"-Wl,-soname,{library.name}")
        compile_shared(here / "gx_cuda.so", "int f(void); int g(void) { return f(); }", "-Wl,--no-as-needed", str(library))
        library.unlink()
    elif backend == "empty":
        compile_shared(here / "gx_cuda.so", "int f(void) { return 1; }")
    else:
        abi = 99 if backend == "abi" else "GX_BACKEND_ABI"
        compile_shared(here / "gx_cuda.so", MOCK, include, f"-DABI={abi}", f"-DDEVICES={int(backend != 'none')}",
                       f"-DLACKS={int(backend == 'lacks')}")
    rows, again = in_child(
        "SELECT device, status, reason, memory, f64, upload FROM gx_devices WHERE backend = 'cuda'",
        "SELECT json_extract(gx_debug(), '$.cuda')",
        GX_SO=str(here / "gx.so"),
        LD_LIBRARY_PATH=f"{drivers}:{os.environ.get('LD_LIBRARY_PATH', '')}",
    )
    device, status, reason, memory, f64, upload = rows[0]
    assert (device, status) == row[:2]
    assert re.fullmatch(row[2], reason)
    if status == "ready":
        assert (memory, f64, upload, again[0][0]) == (1000, 6e13, 5e10, "available")
    else:
        assert (memory, again[0][0]) == (None, reason)
