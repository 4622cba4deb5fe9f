"""gx_metrics() and gx_events: counters of the process in Prometheus's format, and what went wrong.

Plan:
- the format: read by prometheus_client where it is installed, and by the few lines below; every counter of gx_stats is one
  sample, and nothing is there twice; label values are escaped;
- the process's totals are the sum over its connections, closed and reset ones too, after a thousand random statements on
  three connections in two threads;
- an event for every failure that the stand-in for gx_cuda.so can be ordered to have, in every mode, and the right result;
  the same for the stand-ins for NVIDIA's libraries;
- damage, memory, profiles; the levels, refused words, the ring that is full, names with anything in them; SQLite's log;
  locked connections see themselves alone;
- docs/monitoring.md's recipe for the shell and docs/grafana.json: whatever is named there is exported.
"""
import json
import re
import subprocess

import pytest
from conftest import ROOT, error, gx_connect, gx_path, q
from mockkit import child, child_on_stand_ins

SAMPLE = re.compile(r'^(gx_\w+?)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\})? (-?[0-9.]+)$')

# What gx_stats has as one thing in several ways, and what is no sum.
WAYS = {"bytes_read": ("bytes", "read"), "bytes_written": ("bytes", "written"), "uploaded": ("bytes", "up"),
        "downloaded": ("bytes", "down"), "peer_bytes": ("bytes", "peer"), "cache_hits": ("cache_blocks", "hit"),
        "cache_misses": ("cache_blocks", "miss"), "device_hits": ("kept_blocks", "hit"), "device_evictions": ("kept_blocks", "evicted"),
        "pinned_hits": ("pinned_buffers", "hit"), "pinned_misses": ("pinned_buffers", "miss"), "pinned_denied": ("pinned_buffers", "denied")}
NO_SUM = {"probe_ratio", "predicted_ns", "measured_ns"}
MEMORY = {"memory_used", "memory_peak", "memory_limit", "memory_idle", "alloc_ns", "device_used", "pinned_used"}


def parse(text):
    """{(name, label, value of label...): number}; each line is one of the three that there are, and no sample comes twice."""
    samples, families = {}, set()
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# "):
            word, name = line.split(" ", 3)[1:3]
            assert word in ("HELP", "TYPE") and (word, name) not in families, line
            families.add((word, name))
            continue
        match = SAMPLE.match(line)
        assert match, line
        labels = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or "")
        key = (match[1], *(part for pair in labels for part in pair))
        assert key not in samples, line
        family = re.sub("_(bucket|sum|count)$", "", match[1]) if match[1].startswith("gx_operation_seconds") else match[1]
        assert ("TYPE", family) in families and ("HELP", family) in families, line
        samples[key] = float(match[3])
    return samples


def metrics(db, *scope):
    return parse(q(db, f"SELECT gx_metrics({', '.join('?' * len(scope))})", *scope))


def key_of(name, unit):
    """Where a counter of gx_stats is."""
    if name in WAYS:
        family, value = WAYS[name]
        return (f"gx_{family}_total", "direction" if family == "bytes" else "result", value)
    return (f"gx_{name.removesuffix('_ns')}_seconds_total",) if unit == "ns" else (f"gx_{name}_total",)


def counters(db):
    """Those of gx_stats that are sums, in whole numbers."""
    rows = db.execute("SELECT name, value, unit FROM gx_stats WHERE name <> 'note'").fetchall()
    return {(name, unit): value for name, value, unit in rows if name not in NO_SUM | MEMORY}


def events(db, *, mine=True):
    own = json.loads(q(db, "SELECT gx_debug()"))["connection"]
    names = ("time", "level", "event", "cause", "function", "reason", "bytes", "connection", "device")
    return [dict(zip(names, row)) for row in db.execute("SELECT * FROM gx_events") if not mine or row[7] == own]


# ---- the format --------------------------------------------------------------------------------------------------------


def test_format(db):
    db.execute("SELECT gx_matmul('[[1,2],[3,4]]', '[[5],[6]]'), gx_norm('[1,2]')")
    for scope in ((), ("process",), ("connection",)):
        text = q(db, f"SELECT gx_metrics({', '.join('?' * len(scope))})", *scope)
        samples = parse(text)
        assert samples[("gx_build_info", "version", q(db, "SELECT gx_version()"), "sqlite", q(db, "SELECT sqlite_version()"), "format", "7")] == 1
        parser = pytest.importorskip("prometheus_client.parser")
        read = {}
        for family in parser.text_string_to_metric_families(text):
            assert family.documentation and family.type in ("counter", "gauge", "histogram")
            for sample in family.samples:
                read[(sample.name, *(part for pair in sample.labels.items() for part in pair))] = sample.value
        assert read == samples


def test_histogram(db):
    for _ in range(5):
        q(db, "SELECT gx_sum('[1,2,3]')")
    error(db, "SELECT gx_sum('nobody')")
    samples = metrics(db, "connection")
    buckets = [samples[("gx_operation_seconds_bucket", "op", "gx_sum", "le", le)] for le in
               ("0.0001", "0.001", "0.01", "0.1", "1", "10", "100", "+Inf")]
    assert buckets == sorted(buckets) and buckets[-1] == 6
    assert samples[("gx_operation_seconds_count", "op", "gx_sum")] == 6 == samples[("gx_operations_total", "op", "gx_sum", "backend", "cpu")]
    assert 0 < samples[("gx_operation_seconds_sum", "op", "gx_sum")] < 60
    assert samples[("gx_operation_failures_total", "reason", "argument")] == 1
    q(db, "SELECT gx_config('backend', 'reference')")
    q(db, "SELECT gx_sum('[1,2,3]')")
    assert metrics(db, "connection")[("gx_operations_total", "op", "gx_sum", "backend", "reference")] == 1


def test_every_counter_once(db):
    samples = metrics(db, "connection")
    keys = [key_of(*of) for of in counters(db) if of[0] != "calls"]
    assert len(set(keys)) == len(keys) and set(keys) <= set(samples)
    assert {("gx_kernels_total",), ("gx_read_seconds_total",)} <= set(samples)  # as the guide has it
    assert not any(key[0].startswith("gx_calls") for key in samples)


def test_operations_are_functions(db):
    """Whatever the SQL of a stranger says, the labels are names of functions."""
    for statement in ("SELECT gx_sum('x\"y')", "SELECT gx_config('no such', 1)", "SELECT gx_eval('nonsense')", "SELECT gx_metrics('x')"):
        error(db, statement)
    known = {row[0] for row in db.execute("SELECT name FROM pragma_function_list UNION SELECT name FROM pragma_module_list")}
    ops = {key[2] for key in metrics(db) if key[0] == "gx_operations_total"}
    assert ops <= known | {"undo", "gx"} and "gx_sum" in ops


@pytest.mark.parametrize("call, text", [
    ("gx_metrics('everything')", "gx_metrics: scope must be one of process, connection, not 'everything'"),
    ("gx_metrics(1, 2)", "gx_metrics: takes 0 to 1 arguments, not 2: gx_metrics([scope])"),
    ("gx_config('events', 'loud')", "gx_config: events must be off, error, warning or info, not 'loud'"),
    ("gx_config('events', 1)", "gx_config: events must be off, error, warning or info, not '1'"),
    ("gx_config('events', 'on')", "gx_config: events must be off, error, warning or info, not 'on'"),
    ("gx_config('events', NULL)", "gx_config: events cannot be NULL"),
    ("gx_events()", "gx_events: is a table, not a function: its rows come FROM gx_events"),
])
def test_refusals(db, call, text):
    assert error(db, f"SELECT {call}") == text


def test_locked_connections_see_themselves(db, tmp_path):
    db.execute("SELECT gx_config('events', 'info')")
    other = gx_connect(str(tmp_path / "secret.db"))
    damaged(other, "secret")
    assert "secret" in str(events(db, mine=False))
    db.execute("SELECT gx_config('locked', 'on')")
    assert "secret" not in str(events(db, mine=False))
    assert error(db, "SELECT gx_metrics()") == ("gx_metrics: the settings of this connection are locked: it sees its own counters "
                                                "alone, gx_metrics('connection')")
    assert metrics(db, "connection")[("gx_connections",)] == 1
    assert "locked" in error(db, "SELECT gx_config('events', 'off')")
    other.close()


# ---- totals ------------------------------------------------------------------------------------------------------------

TOTALS = """
import random, threading
sys.path.insert(0, {here!r})
from test_metrics import counters, key_of, metrics

path = os.path.join(os.environ["TMP_PATH"], "t.db")
setup = gx_connect(path)
setup.execute("PRAGMA journal_mode = wal")
setup.execute("SELECT gx_randn(60, 50, 'A'), gx_randn(50, 40, 'B')").fetchall()
STATEMENTS = ["SELECT gx_matmul('A', 'B')", "SELECT gx_sum('A')", "SELECT gx_json('[1,2]')", "SELECT gx_sum('nobody')",
              "SELECT count(*) FROM gx_cells('A') WHERE i < 3", "SELECT gx_svd('B')", "SELECT * FROM gx_eig('[[2,1],[1,3]]')",
              "SELECT gx_from_cells(i, j, value) FROM gx_cells('B')", "SELECT gx_eval('sum(A * 2)')", "SELECT gx_metrics()",
              "SELECT gx_matmul('A', 'A')", "SELECT name FROM gx", "SELECT gx_version()", "SELECT gx_eval('')"]
sums, failures, lock = {{}}, [], threading.Lock()

def add(db):
    with lock:
        for of, value in counters(db).items():
            sums[of] = sums.get(of, 0) + value

def work(seed):
    rng = random.Random(seed)
    db, number = gx_connect(path), 0
    for k in range(500):
        try:
            number += len(db.execute(rng.choice(STATEMENTS)).fetchall())
        except sqlite3.OperationalError:
            pass
        if k % 100 == 60:
            add(db)
            before = metrics(db)
            db.execute("SELECT gx_stats_reset()").fetchall()
            after = metrics(db)
            sums_back = {{key: (before[key], after[key]) for key in before if key[0].endswith("_total") and after[key] < before[key]}}
            failures.extend(sums_back.items())
            # What the reset moved beside that: the call of gx_metrics before it.
            with lock:
                sums[("calls", "count")] += 1
        if k % 100 == 99:
            add(db)
            db.close()
            db = gx_connect(path)
    add(db)
    if seed % 2:
        db.close()
    return db

keep = []
threads = [threading.Thread(target=lambda s=s: keep.append(work(s))) for s in (1, 2)]
[t.start() for t in threads]
[t.join() for t in threads]
add(setup)
total = metrics(setup)
calls = sum(value for key, value in total.items() if key[0] == "gx_operations_total")
wrong = {{}}
for (name, unit), value in sums.items():
    got = calls if name == "calls" else round(total[key_of(name, unit)] * (1e9 if unit == "ns" else 1))
    if got != value:
        wrong[name] = [got, value]
result = {{"wrong": wrong, "back": failures, "calls": calls, "connections": total[("gx_connections",)]}}
"""


def test_totals(tmp_path):
    got = child(tmp_path, TOTALS.format(here=str(ROOT / "tests" / "sql")), with_mock=False)
    assert got["calls"] > 900 and got["connections"] == 2
    assert got["wrong"] == {} and got["back"] == []


# ---- devices -----------------------------------------------------------------------------------------------------------


def mock_calls():
    """Whatever the stand-in for gx_cuda.so can be told to fail in, from its source: kernels by the workload's names."""
    source = (ROOT / "tests" / "mockcuda" / "mock_backend.c").read_text()
    named = set(re.findall(r'(?:fails\(dev|mock_fails_on\((?:ordinal|call->device)), "(\w+)"\)', source))
    assert len(named) > 15 and "gx_kernel_name(id)" in source
    return sorted(named) + ["gemm", "syev", "fused"]


FAILURES = """
sys.path.insert(0, {here!r})
from test_metrics import events, metrics

path = os.path.join(os.environ["TMP_PATH"], "f.db")
host = gx_connect(path)
matrices(host, 150, 150, 150, tile=16)
host.execute("SELECT gx_config('backend', 'cpu'), gx_config('tile_bytes', 2048), "
             "gx_add(gx_matmul('A', 'A', '{{\\"transa\\":true}}'), gx_eye(150), 'S'), "
             "gx_randn(8, 8, 'T'), gx_neg('S', 'N')").fetchall()  # whose first eigenvalue, which a wrong device changes, is the largest in size
LOOP = "'x = B; repeat 21 {{ x = tanh(A @ x * 0.1) }} x'"
WORK = ["SELECT gx_matmul('T', 'T')", "SELECT gx_matmul('A', 'B')", "SELECT gx_eigvals('N')", "SELECT gx_copy(gx_eig('N', 'w', 'v', '{{\\"replace\\":true}}'))", "SELECT gx_eval(" + LOOP + ")", "SELECT gx_cholesky('S')"]
want = [to_numpy(q(host, statement)) for statement in WORK]

def connect_to(devices):
    db = gx_connect(path)
    db.execute("SELECT gx_config('tile_bytes', 2048), gx_config('devices', ?)", (devices,)).fetchall()
    return db

def run(db):
    return [bool(np.allclose(to_numpy(q(db, s)), w, rtol=1e-8, atol=1e-8)) for s, w in zip(WORK, want)]

for devices in ("1", "0,1"):  # saves the profile
    db = connect_to(devices)
    assert all(run(db)), devices
    assert stats(db)["device_calls"] >= len(WORK)
    idle = [e for e in events(db) if e["level"] != "info"]
    assert not idle, idle
    busy = [(key, value) for key, value in metrics(db, "connection").items() if key[0].startswith("gx_device")]
    db.close()
know_devices()
result = {{"device": busy, "quiet": [], "wrong": [], "not reached": [], "seen": {{}}}}
for call in {calls!r} + ["copy_from by its rate"]:
    db = connect_to("0,1" if "copy_from" in call else "1")
    if call == "copy_from":
        db.execute("SELECT gx_config('deterministic', 'on')").fetchall()  # blocks of one tile
        run(db)  # the way between them is measured
    other = connect_to("1") if call == "queue_prefer" else None
    if other is not None:
        run(db), run(other)  # somebody else uses the device
    mock.order(f"{{call.split()[0]}}:1{mode}")
    right = run(db)
    failed = mock.counts()["failures"]
    mock.order()
    told = [e for e in events(db) if e["level"] in ("error", "warning")]
    if not failed:
        result["not reached"].append(call)
    elif not told:
        result["quiet"].append([call, notes(db)])
    if not all(right):
        result["wrong"].append([call, right])
    result["seen"][call] = sorted({{e["event"] + " " + e["cause"] for e in told}})
    db.close()
    if other is not None:
        other.close()
result |= {{"violations": mock.counts()["violations"]}}
total = metrics(host)
for name, label in (("gx_fallbacks_total", "reason"), ("gx_out_of_memory_total", "place")):
    result[name] = sum(value for key, value in total.items() if key[0] == name)
host.close()
result["alive"] = mock.alive()
"""


@pytest.mark.parametrize("mode", ["", ":always", ":lost"])
def test_each_failure_is_an_event(tmp_path, mode):
    body = FAILURES.format(here=str(ROOT / "tests" / "sql"), calls=mock_calls(), mode=mode)
    got = child(tmp_path, body, timeout=600, GX_BACKEND="cuda", MOCK_DEVICES=2, MOCK_PEERS="none")
    assert got["not reached"] == [] and got["quiet"] == [] and got["wrong"] == [], got["seen"]
    assert got["violations"] == 0 and got["alive"] == {}
    assert got["gx_fallbacks_total"] > 0 and got["gx_out_of_memory_total"] > 0
    assert "link device" in got["seen"]["copy_from by its rate"]
    assert "out_of_memory pinned" in got["seen"]["pin"]
    assert any(kind.startswith("fallback record") for kind in got["seen"]["record_begin"]) or mode == ":lost"
    device = {tuple(key): value for key, value in got["device"]}
    for n in (0, 1):
        labels = ("device", f"cuda:{n}", "uuid", f"GPU-6d6f636b-0000-4000-8000-{n:012x}")
        assert device[("gx_device_info", *labels, "name", f"cuda:{n} mock", "driver", "")] == 1
        assert device[("gx_device_queue_depth", *labels)] == 0  # between statements nothing is lent
    assert device[("gx_device_busy_seconds_total", "device", "cuda:0", *labels[2:3], "GPU-6d6f636b-0000-4000-8000-000000000000")] > 0


NVIDIA = """
sys.path.insert(0, {here!r})
from test_metrics import events

path = os.path.join(os.environ["TMP_PATH"], "n.db")
os.environ["GX_BACKEND"] = "cpu"
host = gx_connect(path)
matrices(host)
os.environ["GX_BACKEND"] = "cuda"
db = gx_connect(path)
q(db, "SELECT gx_matmul('A', 'B')")  # saves the profile
uuid = db.execute("SELECT uuid FROM gx_devices WHERE backend = 'cuda'").fetchone()[0]
db.close()
mock.order({order!r})
db = gx_connect(path)
right = bool(np.allclose(to_numpy(q(db, "SELECT gx_matmul('A', 'B')")), to_numpy(q(host, "SELECT gx_copy('C0')"))))
failed = mock.counts()["failures"]
told = sorted({{e["event"] + " " + e["cause"] for e in events(db) if e["level"] in ("error", "warning")}})
result = {{"right": right, "failed": failed, "told": told, "uuid": uuid}}
"""


@pytest.mark.parametrize("kind, event", [
    ("memory", "out_of_memory device"), ("launch", "device_lost device"), ("status", "device_lost device"),
    ("always", "out_of_memory device"), ("sticky", "device_lost device"), ("later", "device_lost device"), ("lost", "device_lost device")])
def test_failures_of_nvidia(tmp_path, kind, event):
    """Every way in which the stand-ins for NVIDIA's libraries fail (tests/fault/cuda.py has every call)."""
    source = (ROOT / "tests" / "mockcuda" / "mock_machine.c").read_text()
    assert set(re.findall(r'\{"(\w+)", +MOCK_\w+\}', source)) == {"launch", "status", "sticky", "later", "lost"}
    call = {"later": "gemm", "launch": "gemm", "status": "gemm"}.get(kind, "cudaMalloc")
    got = child_on_stand_ins(tmp_path, NVIDIA.format(here=str(ROOT / "tests" / "sql"), order=f"{call}:1:{kind}"))
    assert got["right"] and got["failed"] > 0 and event in got["told"], got
    assert got["uuid"] == "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf"


def test_labels_are_escaped(tmp_path):
    name = 'a"b\\c'
    body = """
db = gx_connect(os.path.join(os.environ["TMP_PATH"], "e.db"))
matrices(db)
q(db, "SELECT gx_matmul('A', 'B')")
text = q(db, "SELECT gx_metrics()")
result = {"line": next(l for l in text.splitlines() if l.startswith("gx_device_info")), "text": text,
          "device": q(db, "SELECT device FROM gx_devices WHERE backend = 'cuda'")}
"""
    got = child(tmp_path, body, GX_BACKEND="cuda", MOCK_NAME=name)
    assert got["device"] == "cuda:0 " + name
    assert 'name="cuda:0 a\\"b\\\\c"' in got["line"]
    parse(got["text"])
    parser = pytest.importorskip("prometheus_client.parser")
    info = next(f for f in parser.text_string_to_metric_families(got["text"]) if f.name == "gx_device_info")
    assert info.samples[0].labels["name"] == "cuda:0 " + name


# ---- events ------------------------------------------------------------------------------------------------------------


def damaged(db, name):
    """A matrix one of whose tiles is missing, and what a sum of it says."""
    db.execute("SELECT gx_store(?, '[[1,2],[3,4]]')", (name,)).fetchall()
    db.execute("DELETE FROM gx_tile WHERE id >> 32 = (SELECT id FROM gx_meta WHERE name = ?)", (name,))
    return error(db, "SELECT gx_sum(?)", name)


def test_damage(filedb):
    text = damaged(filedb, "broken")
    assert "missing" in text
    [event] = events(filedb)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["time"])
    assert (event["level"], event["event"], event["cause"], event["function"]) == ("error", "damage", "database", "gx_sum")
    assert f"gx_sum: {event['reason']}" == text and event["bytes"] is None and event["device"] is None
    # From a cursor, from a check, from PRAGMA integrity_check where SQLite asks tables, once each.
    error(filedb, "SELECT * FROM gx_cells('broken')")
    assert q(filedb, "SELECT gx_check('broken')") != "ok"
    told = [(e["event"], e["function"]) for e in events(filedb)[1:]]
    assert told == [("damage", None), ("damage", "gx_check")]
    q(filedb, "PRAGMA integrity_check")
    assert len(events(filedb)) in (3, 4)
    total = metrics(filedb, "connection")
    assert total[("gx_events_total", "event", "damage", "level", "error")] == len(events(filedb))
    assert total[("gx_operation_failures_total", "reason", "damage")] == 1


def test_memory(db):
    q(db, "SELECT gx_config('tile_bytes', 4096)")
    q(db, "SELECT gx_config('memory_limit', 80000)")
    text = error(db, "SELECT gx_randn(1000, 1000)")
    [event] = events(db)
    assert (event["level"], event["event"], event["cause"]) == ("error", "out_of_memory", "host")
    assert event["bytes"] >= 8e6 and f"gx_randn: {event['reason']}" == text
    total = metrics(db, "connection")
    assert total[("gx_out_of_memory_total", "place", "host")] == 1 == total[("gx_operation_failures_total", "reason", "memory_limit")]
    error(db, "SELECT gx_sum('nobody')")  # an ordinary mistake is none
    assert len(events(db)) == 1


def test_profile(tmp_path):
    folder = tmp_path / "cache" / "gx"
    folder.mkdir(parents=True)
    (folder / "hardware.json").write_text("{")
    body = f"""
sys.path.insert(0, {str(ROOT / 'tests' / 'sql')!r})
from test_metrics import events
db = gx_connect()
q(db, "SELECT count(*) FROM gx_devices")
result = events(db)
"""
    [event] = child(tmp_path, body, with_mock=False)
    assert (event["level"], event["event"], event["cause"]) == ("warning", "profile", "file")
    assert event["reason"].startswith("hardware profile not read: not in its format")


def test_levels(filedb, tmp_path):
    (tmp_path / "l.csv").write_text("first,second\n1,2\n")
    assert q(filedb, "SELECT gx_config('events')") == "warning"
    seen = {}
    for level in ("off", "error", "warning", "info"):
        db = gx_connect(filedb.execute("PRAGMA database_list").fetchone()[2])
        assert q(db, "SELECT gx_config('events', ?)", level.upper()) == level
        damaged(db, f"broken_{level}")
        q(db, "SELECT gx_import('L', ?, '{\"replace\":true}')", str(tmp_path / "l.csv"))  # its header is a remark
        seen[level] = {e["level"] for e in events(db)}
        told = metrics(db, "connection")
        assert told[("gx_events_total", "event", "damage", "level", "error")] == 1  # counted at every level
        assert told[("gx_events_total", "event", "remark", "level", "info")] > 0
        db.close()
    assert seen == {"off": set(), "error": {"error"}, "warning": {"error"}, "info": {"error", "info"}}


def test_the_environment_sets_the_level(monkeypatch):
    monkeypatch.setenv("GX_EVENTS", "error")
    db = gx_connect()
    assert q(db, "SELECT value FROM gx_settings WHERE key = 'events'") == "error"
    monkeypatch.setenv("GX_EVENTS", "loud")
    other = gx_connect()
    assert q(other, "SELECT gx_config('events')") == "warning"
    assert "GX_EVENTS ignored" in str(other.execute("SELECT meaning FROM gx_stats WHERE name = 'note'").fetchall())


def test_full_ring(filedb):
    damaged(filedb, "first")
    damaged(filedb, "broken")
    for _ in range(300):
        error(filedb, "SELECT gx_sum('broken')")
    all_events = events(filedb, mine=False)
    assert len(all_events) == 256 and all("broken" in e["reason"] for e in all_events)
    assert [e["time"] for e in all_events] == sorted(e["time"] for e in all_events)
    total = metrics(filedb, "connection")[("gx_events_total", "event", "damage", "level", "error")]
    assert total == 302


@pytest.mark.parametrize("name", ['quote"d', "back\\slash", "ä" * 120, "名" * 80])
def test_names(filedb, name):
    text = damaged(filedb, name)
    [event] = events(filedb)
    assert len(event["reason"].encode()) < 200
    assert text.startswith("gx_sum: " + event["reason"].removesuffix("..."))


@pytest.mark.parametrize("name", ["line\nend", "tab\tand", "\x01", b"\xff\xfe", "x" * 5000])
def test_names_of_strangers(filedb, name):
    """gx gives no such name; a database that somebody made may have it."""
    damaged(filedb, "plain")
    filedb.execute("UPDATE gx_meta SET name = CAST(? AS TEXT) WHERE name = 'plain'", (name,))
    assert q(filedb, "SELECT gx_check()") != "ok"
    event = events(filedb)[-1]
    assert event["event"] == "damage" and event["reason"].isprintable() and len(event["reason"].encode()) < 200
    parse(q(filedb, "SELECT gx_metrics()"))


LOG = """
sys.path.insert(0, {here!r})
from test_metrics import damaged, events
library = next(line.split()[-1] for line in open("/proc/self/maps") if "libsqlite3" in line)
sqlite = ctypes.CDLL(library)
lines, busy, answers = [], [], []

@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
def log(arg, code, text):
    lines.append([code, text.decode()])
    if watcher and not busy:  # another connection, whose calls take every lock that gx has
        busy.append(1)
        answers.append(q(watcher[0], "SELECT length(gx_metrics())") > 0 and len(events(watcher[0], mine=False)))
        busy.pop()

watcher = []
sqlite.sqlite3_shutdown()
assert sqlite.sqlite3_config(16, log, None) == 0
sqlite.sqlite3_initialize()
watcher.append(gx_connect())
db = gx_connect(os.path.join(os.environ["TMP_PATH"], "l.db"))
damaged(db, "broken")
error(db, "SELECT * FROM gx_cells('broken')")
q(db, "SELECT gx_config('events', 'off')")
error(db, "SELECT gx_sum('broken')")
result = [lines, answers]
"""


def test_log(tmp_path):
    lines, answers = child(tmp_path, LOG.format(here=str(ROOT / "tests" / "sql")), with_mock=False)
    ours = [(code, text) for code, text in lines if "damage" in text]
    assert [text.split(":")[0] for _, text in ours] == ["gx_sum", "gx"]
    assert all(code == 11 and "(database)" in text and "missing" in text for code, text in ours)  # SQLITE_CORRUPT
    assert answers and all(answers)


# ---- the guide ---------------------------------------------------------------------------------------------------------


def exported(db):
    """Names of families, with those that a histogram has."""
    names = set(re.findall(r"^# TYPE (\w+)", q(db, "SELECT gx_metrics()"), re.M))
    return names | {f"gx_operation_seconds_{part}" for part in ("bucket", "sum", "count")}


def test_the_dashboard(db):
    board = json.loads((ROOT / "docs" / "grafana.json").read_text())
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time", "refresh"} <= set(board) and board["id"] is None
    assert board["schemaVersion"] >= 36
    known, asked, ids = exported(db), set(), []
    for panel in board["panels"]:
        assert {"id", "type", "title", "gridPos", "datasource", "targets", "fieldConfig"} <= set(panel), panel["title"]
        assert {"x", "y", "w", "h"} == set(panel["gridPos"]) and panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        assert panel["targets"] and len({t["refId"] for t in panel["targets"]}) == len(panel["targets"])
        ids.append(panel["id"])
        for target in panel["targets"]:
            names = set(re.findall(r"\bgx_\w+", target["expr"]))
            assert names and names <= known, target["expr"]
            assert target["expr"].count("(") == target["expr"].count(")") and target["expr"].count("{") == target["expr"].count("}")
            asked |= names
    assert len(set(ids)) == len(ids) and len(asked) > 12
    for variable in board["templating"]["list"]:
        assert variable["type"] == "datasource" or set(re.findall(r"\bgx_\w+", variable["query"])) <= known


def test_the_guide(db):
    """It names no metric that is not exported, and says what each is."""
    text = (ROOT / "docs" / "monitoring.md").read_text()
    known = exported(db)
    functions = {row[0] for row in db.execute("SELECT name FROM pragma_function_list UNION SELECT name FROM pragma_module_list")}
    named = set(re.findall(r"(?<!#)\bgx_[a-z_]+\w", text)) - functions - {"gx_sqlite"}
    assert named <= known, named - known
    rows = {key_of(*of)[0] for of in counters(db) if of[0] not in WAYS and of[0] != "calls"}
    assert known - rows - {f"gx_operation_seconds_{part}" for part in ("bucket", "sum", "count")} <= named


def test_the_shells_recipe(tmp_path):
    text = (ROOT / "docs" / "monitoring.md").read_text()
    script = re.search(r"^```text\n(\.load .*?)^```", text, re.M | re.S)[1]
    script = script.replace(".load ./gx", f".load {gx_path()}")
    done = subprocess.run(["sqlite3", "-batch", str(tmp_path / "s.db")], input=script, capture_output=True, text=True, cwd=tmp_path)
    assert not done.stderr, done.stderr
    parse((tmp_path / "gx.prom").read_text())
    assert sorted(path.name for path in tmp_path.glob("gx*")) == ["gx.prom"]
