"""What the planner predicts, what calls teach it, and when it opens a device (tests/mockcuda).

Plan:
- gx_plan's terms: what they come to, no commit inside a transaction and in memory, both rows where there is a device;
  blocks kept on the device are neither read nor copied up; what the pool has is not allocated; storing takes the rates
  of new space where the file grows, those of used space where it does not;
- gx_predictions: a row a function, place and size; the call that opens the device and one that falls back are not
  counted; the factor is gx_plan's; programs have rows by what they are made of;
- opening: little work never does, many medium calls do when their savings come to its price, forced calls at once;
  figures that others have saved since the connection first looked count, too; programs copy operands that pay later;
  an open device is used wherever it is predicted to be faster, and only there;
- gx_benchmark(1) measures the device, saves it under its name, and gx_devices shows all of it; a damaged file is
  measured anew; a device that fails while it is measured is off;
- tests/gpu/predict.py runs.
"""
import json
import os
import subprocess
import sys

import pytest

from conftest import ROOT, gx_connect, gx_path, q
from mockkit import MOCK, child

pytestmark = pytest.mark.filterwarnings("error")

FILE = """
path = os.environ['TMP_PATH'] + '/a.db'
db = gx_connect(path)
rows = lambda sql: [dict(zip([c[0] for c in cursor.description], row)) for cursor in [db.execute(sql)] for row in cursor]
"""
TERMS = ("start_s", "read_s", "up_s", "compute_s", "down_s", "write_s", "commit_s")
NAMES = "SELECT \"function\", device, size, calls FROM gx_predictions WHERE \"function\" = 'gx_matmul' ORDER BY 2, 3"


def plan(db, expression):
    cursor = db.execute("SELECT * FROM gx_plan(?)", (expression,))
    return [dict(zip([column[0] for column in cursor.description], row)) for row in cursor]


def test_terms(filedb):
    """The sum of all terms is an upper bound, the largest one a lower bound; a commit only where there is one."""
    q(filedb, "SELECT gx_config('profile', 'off')")
    for name, n in (("A", 40), ("B", 300)):
        q(filedb, f"SELECT gx_matrix_gallery('minij', {n}, '{name}')")
    for expression in ("A @ A", "B @ B", "cholesky(B)", "lu(B)", "qr(B)", "B + B", "B.T", "norm(B)", "solve(B, B)", "det(B)"):
        row = plan(filedb, expression)[0]
        terms = [row[term] for term in TERMS]
        assert min(terms) >= 0 and row["up_s"] == row["down_s"] == 0
        assert row["commit_s"] > 0 or expression in ("norm(B)", "det(B)"), expression
        assert max(terms) * row["factor"] <= row["seconds"] * 1.001, expression
        assert row["seconds"] <= sum(terms) * row["factor"] * 1.001, expression
    filedb.execute("BEGIN")
    assert plan(filedb, "B @ B")[0]["commit_s"] == 0
    filedb.execute("ROLLBACK")


def test_storing_where_others_have_been(filedb, tmp_path, monkeypatch):
    """Rates of new space until there is a log and free pages as large as the result, those of used space then."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for key, value in (("tile_bytes", 64), ("memory_limit", "4MiB"), ("threads", 1), ("profile", "on")):
        q(filedb, "SELECT gx_config(?, ?)", key, value)
    q(filedb, "SELECT gx_benchmark(1)")
    path = tmp_path / "gx" / "hardware.json"
    saved = json.loads(path.read_text())
    for machine in saved["machines"].values():
        machine["db_commit_s"] = 1e-6
        for which, rate in (("store_new", 1e8), ("store_again", 1e9)):
            machine[which] = {"write": [rate] * 3, "commit": [rate / 2] * 3}
    path.write_text(json.dumps(saved))
    file = tmp_path / "store.db"
    db = gx_connect(str(file))
    db.execute("PRAGMA journal_mode = wal").fetchall()
    q(db, "SELECT gx_config('profile', 'on')")
    q(db, "SELECT gx_randn(400, 400, 'A')")
    bytes_written = 400 * 400 * 8
    # The log is as long as A's commit; no page of the database is free.
    row = plan(db, "A + A")[0]
    assert row["write_s"] == pytest.approx(bytes_written / 1e9, rel=0.1)
    assert row["commit_s"] == pytest.approx(bytes_written / 5e7, rel=0.1)
    q(db, "SELECT gx_randn(400, 400, 'B')")
    db.execute("DELETE FROM gx WHERE name = 'B'")
    assert plan(db, "A + A")[0]["commit_s"] == pytest.approx(bytes_written / 5e8, rel=0.1)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    row = plan(db, "A + A")[0]
    assert row["write_s"] == pytest.approx(bytes_written / 1e8, rel=0.1)
    assert row["commit_s"] == pytest.approx(bytes_written / 5e8, rel=0.1)
    db.close()


def test_no_commit_in_memory(db):
    q(db, "SELECT gx_eye(100, 'A')")
    assert plan(db, "A @ A")[0]["commit_s"] == 0


def test_ledger_of_the_host(filedb):
    """Rows by function and size; gx_plan has the factor; a failed call leaves no trace."""
    q(filedb, "SELECT gx_config('profile', 'off')")
    for n in (100, 300):
        q(filedb, f"SELECT gx_matrix_gallery('minij', {n}, 'P{n}')")
        for _ in range(3):
            q(filedb, f"SELECT gx_norm(gx_matmul('P{n}', 'P{n}'))")
    assert filedb.execute(NAMES).fetchall() == [("gx_matmul", "cpu", 128, 3), ("gx_matmul", "cpu", 256, 3)]
    found = filedb.execute(
        "SELECT predicted, measured, ratio, least, most, factor FROM gx_predictions WHERE \"function\" = 'gx_matmul'"
    ).fetchall()
    for predicted, measured, ratio, least, most, factor in found:
        assert predicted > 0 and measured > 0 and least <= ratio * 1.001 <= most * 1.002 and 0.25 <= factor <= 4
    assert plan(filedb, "P300 @ P300")[0]["factor"] == pytest.approx(found[1][-1])
    before = filedb.execute("SELECT sum(calls) FROM gx_predictions").fetchone()
    with pytest.raises(Exception, match="not positive definite"):
        q(filedb, "SELECT gx_cholesky(gx_neg('P300'))")
    after = filedb.execute("SELECT sum(calls) FROM gx_predictions WHERE \"function\" <> 'gx_neg'").fetchone()
    assert after == before
    q(filedb, "SELECT gx_stats_reset()")
    assert len(filedb.execute(NAMES).fetchall()) == 2


def test_progress_of_one_library_call(db):
    """LAPACK says nothing of how far it is: the clock and the predicted time do, never backwards, never all before the end."""
    seen, n = [], 300
    db.create_function("watch", 3, lambda label, fraction, seconds: seen.append(fraction))
    while len(seen) < 4:
        n, seen[:] = n * 5 // 4, []
        db.execute("SELECT gx_config('progress', 'off'), gx_randn(?, ?, 'A', '{\"replace\":true}')", (n, n)).fetchall()
        q(db, "SELECT gx_config('progress', 'watch')")
        q(db, "SELECT count(vector) FROM gx_eig('A', '{\"symmetric\":false}')")
    assert seen == sorted(seen) and 0 < seen[-2] < 1 and seen[-1] == 1


def test_device_rows(tmp_path):
    """Both rows with their terms; what is on the device costs nothing; what opens it or fails is not counted."""
    got = child(
        tmp_path,
        FILE
        + f"names = {NAMES!r}"
        + """
matrices(db)
result = [rows("SELECT * FROM gx_plan('A @ B')"), rows("SELECT * FROM gx_plan('lu(A)')")]
q(db, "SELECT gx_matmul('A', 'B', 'C')")
q(db, "SELECT gx_matmul('A', 'B', 'D')")
result += [rows("SELECT * FROM gx_plan('A @ B')"), db.execute(names).fetchall()]
mock.order('gemm:1')
q(db, "SELECT gx_matmul('A', 'B', 'E')")
mock.order()
q(db, "SELECT gx_matmul('A', 'B', 'F')")
result += [db.execute(names).fetchall(), stats(db)['device_fallbacks']]
""",
        GX_BACKEND="cuda",
    )
    cold, lu, warm, rows, later, fallbacks = got
    assert [row["device"] for row in cold] == [row["device"] for row in lu] == ["cuda:0 mock", "cpu"]
    assert all(cold[0][term] > 0 for term in TERMS)
    assert cold[1]["up_s"] == cold[1]["down_s"] == 0
    assert warm[0]["start_s"] < cold[0]["start_s"]  # staging buffers and device memory: the pool has them now
    assert warm[0]["read_s"] == warm[0]["up_s"] == 0 and warm[0]["compute_s"] > 0 and warm[0]["down_s"] > 0
    assert warm[0]["bytes_read"] == cold[0]["bytes_read"]
    # The product that matrices() makes on the CPU; the two after gx_plan had opened the device.
    assert rows == [["gx_matmul", "cpu", 128, 1], ["gx_matmul", "cuda:0 mock", 128, 2]]
    assert fallbacks == 1
    assert later == [["gx_matmul", "cpu", 128, 2], ["gx_matmul", "cuda", 128, 2]]  # F, when the device was off


def test_program_rows(tmp_path):
    """Rows by operations and place, whatever the sizes are; what opens the device or fails there is not counted."""
    got = child(
        tmp_path,
        FILE
        + """
matrices(db)
names = lambda: rows('SELECT "function" AS name, device, sum(calls) AS calls FROM gx_predictions '
                     'WHERE length("function") = 16 GROUP BY 1, 2 ORDER BY 3, 2')
first, second = "SELECT gx_eval('sum(A @ B)')", "SELECT gx_eval('norm(A) + 1')"
result = []
for sql, failure in ((first, ''), (first, ''), (first, ''), (second, ''), (first, '*:5:lost')):
    mock.order(failure)
    q(db, sql)
    result.append(names())
mock.order()
result.append(stats(db)['device_fallbacks'])
""",
        GX_BACKEND="cuda",
    )
    assert got.pop() == 1
    opened, once, twice, other, failed = [[[row["device"], row["calls"]] for row in rows] for rows in got]
    assert opened == [] and once == [["cuda:0 mock", 1]] and twice == [["cuda:0 mock", 2]]
    assert other == [["cuda:0 mock", 1], ["cuda:0 mock", 2]]
    assert [calls for _, calls in failed] == [1, 2]
    assert len({row["name"] for row in got[3]}) == 2


def saved_device(tmp_path, **figures):
    """The device's saved figures, made what they are not."""
    path = tmp_path / "cache" / "gx" / "hardware.json"
    saved = json.loads(path.read_text())
    assert [key.rsplit("; ", 2)[1] for key in saved["devices"]] == ["cuda:0 mock"]
    for key, device in saved["devices"].items():
        device.update(figures)
    path.write_text(json.dumps(saved))


MEASURE = FILE + "q(db, \"SELECT gx_config('profile', 'on')\")\nq(db, \"SELECT gx_matmul('[[2]]', '[[3]]')\"); result = 0"
FAST = {  # all that a product's prediction looks at, so that nothing that was measured here decides
    **dict.fromkeys(["upload_bytes_per_s", "download_bytes_per_s", "pageable_up_bytes_per_s", "pageable_down_bytes_per_s",
                     "pin_bytes_per_s", "alloc_bytes_per_s", "sweep_bytes_per_s"], 1e13),
    "alloc_s": 1e-9,
    "launch_s": 1e-9,
    "wait_s": 1e-9,
    "open_s": 1000,
    "gemm_flops_per_s": {dtype: [1e15] * 5 for dtype in ("f64", "f32", "c128", "c64")},
}


def test_many_calls_open_the_device(tmp_path):
    """A device that is fast in the saved profile: closed, it is opened when the savings come to its price."""
    child(tmp_path, MEASURE, GX_BACKEND="cuda")
    saved_device(tmp_path, **FAST)
    got = child(
        tmp_path,
        FILE
        + """
q(db, "SELECT gx_config('profile', 'on')")
q(db, "SELECT gx_config('threads', 1)")
for n in (64, 256):
    q(db, f"SELECT gx_randn({n}, {n}, 'R{n}')")
for k in range(300):
    q(db, "SELECT gx_norm(gx_matmul('R64', 'R64'))")
result = [mock.counts()['calls'], stats(db)['device_calls']]
opened = used = 0
while mock.counts()['calls'] == 0 and opened < 300:
    q(db, "SELECT gx_norm(gx_matmul('R256', 'R256'))")
    opened += 1
while stats(db)['device_calls'] == 0 and used < 3000:  # at once, on a machine that does nothing else
    q(db, "SELECT gx_norm(gx_matmul('R256', 'R256'))")
    used += 1
result += [opened, used, notes(db)]
""",
    )
    idle, none, opened, used, told = got
    assert (idle, none) == (0, 0)
    # 34e6 flops on one thread of 16 GFLOP/s are two milliseconds; opening is 20 where CUDA is loaded.
    assert 1 < opened < 100 and used < 3000 and told == []


def test_what_is_kept_opens_the_device(tmp_path):
    """Sending costs more than the host's pass: the device is opened for the calls that will find the matrix there, and not for other matrices each time."""
    child(tmp_path, MEASURE, GX_BACKEND="cuda")
    saved_device(tmp_path, **{**FAST, "open_s": 0.02, "upload_bytes_per_s": 5e8, "pageable_up_bytes_per_s": 5e8})
    got = child(
        tmp_path,
        FILE
        + """
q(db, "SELECT gx_config('profile', 'on')")
q(db, "SELECT gx_config('threads', 1)")
for k in range(3):
    q(db, f"SELECT gx_randn(1024, 1024, 'R{k}')")
for k in range(60):
    q(db, f"SELECT gx_eval('sum(R{k % 2} * R{k % 2 + 1})')")
result = [mock.counts()['calls']]
called = 0
while stats(db)['device_calls'] == 0 and called < 500:
    q(db, "SELECT gx_eval('sum(R0 * R1)')")
    called += 1
result += [called, notes(db)]
""",
        MOCK_MEMORY=1 << 28,
    )
    others, called, told = got
    assert others == 0 and 1 < called < 500 and told == []


def test_figures_that_come_later(tmp_path):
    """A connection that found no device in the file finds it when somebody has measured one."""
    child(tmp_path, MEASURE, GX_BACKEND="cuda")
    saved_device(tmp_path, **{**FAST, "open_s": 1e-6})
    path = tmp_path / "cache" / "gx" / "hardware.json"
    path.rename(path.with_name("later"))
    got = child(
        tmp_path,
        FILE
        + f"""
import time
q(db, "SELECT gx_config('profile', 'on')")
q(db, "SELECT gx_config('threads', 1)")
q(db, "SELECT gx_randn(256, 256, 'R')")
call = lambda: q(db, "SELECT gx_norm(gx_matmul('R', 'R'))")
call()
result = [mock.counts()['calls']]
os.rename({str(path.with_name("later"))!r}, {str(path)!r})
for k in range(300):  # it looks once a second
    call()
    if stats(db)['device_calls'] > 0:
        break
    time.sleep(0.1)
result += [stats(db)['device_calls']]
""",
    )
    assert got == [0, 1]


def test_programs_bring_their_operands(tmp_path):
    """Copying a matrix takes longer than the host's pass over it: after some calls that it would have saved it is done."""
    child(tmp_path, MEASURE, GX_BACKEND="cuda")
    saved_device(tmp_path, **{**FAST, "upload_bytes_per_s": 1e9})
    got = child(
        tmp_path,
        FILE
        + """
for key, value in (('profile', 'on'), ('threads', 1), ('readers', 1), ('backend', 'cuda')):
    q(db, "SELECT gx_config(?, ?)", key, value)
q(db, "SELECT gx_matmul('[[2]]', '[[3]]')")  # open
q(db, "SELECT gx_config('backend', 'auto')")
q(db, "SELECT gx_randn(600, 600, 'A')")
used = []
while len(used) < 100 and sum(used) < 2:
    before = stats(db)['device_calls']
    q(db, "SELECT gx_eval('sum(A * A)')")
    used.append(stats(db)['device_calls'] - before)
result = [used[0], used[-2:], stats(db)['device_hits'] > 0]
""",
    )
    assert got == [0, [1, 1], True]


def test_spreading_goes_where_it_is_foretold_faster(tmp_path):
    """By the saved figures alone: when opening has been saved up, and never where a launch takes long."""
    child(tmp_path, MEASURE, GX_BACKEND="cuda")
    body = (
        FILE
        + """
q(db, "SELECT gx_config('profile', 'on')")
q(db, "SELECT gx_random(2000, 2000, 'G', '{\\"density\\":0.2,\\"low\\":0,\\"replace\\":true}')")
for call in range(200):
    db.execute("SELECT count(*) FROM gx_spread('G', '[[17]]', '{\\"steps\\":5,\\"decay\\":0.001}')").fetchall()
    if stats(db)['device_calls'] > 0:
        break
result = [call + 1, stats(db)['device_calls']]
"""
    )
    saved_device(tmp_path, **FAST)
    calls, used = child(tmp_path, body)  # 800 000 entries, 5 times: 6 ms, of which half counts; opening is 20
    assert 1 < calls < 200 and used == 1
    saved_device(tmp_path, launch_s=10)
    assert child(tmp_path, body) == [200, 0]


def test_open_device_is_chosen_by_times(tmp_path):
    """Open: used at once where it is predicted faster (and for no product below 4 million flops), not where slower."""
    child(tmp_path, MEASURE, GX_BACKEND="cuda")
    body = (
        FILE
        + """
q(db, "SELECT gx_config('profile', 'on')")
for n in (64, 256):
    q(db, f"SELECT gx_randn({n}, {n}, 'R{n}', '{{\\"replace\\":true}}')")
chosen = lambda n: rows(f"SELECT device FROM gx_plan('R{n} @ R{n}') WHERE chosen")[0]['device']
result = [chosen(64), chosen(256)]
for n in (64, 256):
    before = stats(db)['device_calls']
    q(db, f"SELECT gx_norm(gx_matmul('R{n}', 'R{n}'))")
    result += [stats(db)['device_calls'] - before]
"""
    )
    saved_device(tmp_path, **FAST)
    assert child(tmp_path, body) == ["cpu", "cuda:0 mock", 0, 1]
    slow = {dtype: [1e6] * 5 for dtype in ("f64", "f32", "c128", "c64")}
    saved_device(tmp_path, **{**FAST, "gemm_flops_per_s": slow})
    assert child(tmp_path, body) == ["cpu", "cpu", 0, 0]


def test_benchmark_measures_the_device(tmp_path):
    """gx_benchmark(1): everything is measured and saved; the next process finds it; a damaged one is measured anew."""
    got = child(
        tmp_path,
        FILE
        + """
q(db, "SELECT gx_config('tile_bytes', 64)"); q(db, "SELECT gx_config('memory_limit', '4MiB')"); q(db, "SELECT gx_config('threads', 1)")
figures = json.loads(q(db, "SELECT gx_benchmark(1)"))
left = sorted(os.listdir(os.environ['TMP_PATH']))
result = [figures, rows("SELECT * FROM gx_devices WHERE backend <> 'reference'"), notes(db), left]
""",
    )
    figures, devices, told, left = got
    device = figures["device"]
    assert told == [] and [name for name in left if "benchmark" in name] == []
    assert device["name"] == "cuda:0 mock" and figures["db_readers"] >= 1 and figures["db_commit_s"] > 0
    for dtype in ("f64", "f32", "c128", "c64"):
        assert len(device["gemm_flops_per_s"][dtype]) == 5 and min(device["gemm_flops_per_s"][dtype]) > 0
    for kernel in ("potrf", "getrf", "geqrf", "syev"):
        assert min(device["f64_flops_per_s"][kernel]) > 0 and min(figures["f64_flops_per_s"][kernel]) > 0
    for which in ("store_new", "store_again"):
        assert [len(figures[which][of]) for of in ("write", "commit")] == [3, 3]
        assert min(figures[which]["write"] + figures[which]["commit"]) > 0
    assert figures["store_bytes"] == sorted(figures["store_bytes"]) and device["alloc_s"] > 0
    cpu, cuda = devices
    assert json.loads(cpu["rates"])["f64_flops_per_s"] == figures["f64_flops_per_s"]
    assert json.loads(cuda["rates"]) == {key: value for key, value in device.items() if key != "name"}
    assert cuda["launch"] == pytest.approx(device["launch_s"], rel=1e-3) and cuda["status"] == "used"

    again = FILE + "q(db, \"SELECT gx_config('backend', 'cuda')\")\nq(db, \"SELECT gx_matmul('[[2]]', '[[3]]')\")\n"
    again += "result = [rows(\"SELECT upload FROM gx_devices WHERE backend = 'cuda'\")[0]['upload'], notes(db)]"
    assert child(tmp_path, again) == [pytest.approx(device["upload_bytes_per_s"], rel=1e-3), []]
    saved_device(tmp_path, upload_bytes_per_s=-1)
    upload, told = child(tmp_path, again)
    assert upload > 0 and told == []


@pytest.mark.parametrize("n", [40, 90])
def test_device_fails_while_measured(tmp_path, n):
    """The figures of the machine all the same, the device off with the reason, nothing left on it."""
    got = child(
        tmp_path,
        FILE
        + f"""
q(db, "SELECT gx_config('tile_bytes', 64)"); q(db, "SELECT gx_config('memory_limit', '2MiB')"); q(db, "SELECT gx_config('threads', 1)")
mock.order('*:{n}:lost')
figures = json.loads(q(db, "SELECT gx_benchmark(1)"))
mock.order()
status = rows("SELECT status FROM gx_devices WHERE backend = 'cuda'")
db.close()
result = [figures['measured'], status, mock.alive()]
""",
    )
    assert got == [True, [{"status": "off"}], {}]


def test_predict_script(tmp_path):
    """tests/gpu/predict.py on the stand-in, at sizes that take no time."""
    if not MOCK.exists():
        pytest.skip(f"{MOCK} is not built: make programs")
    here = tmp_path / "gx"
    here.mkdir()
    (here / "gx.so").symlink_to(gx_path() if gx_path().endswith(".so") else gx_path() + ".so")
    (here / "gx_cuda.so").symlink_to(MOCK)
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "gpu" / "predict.py"), "--sizes", "32,64", "--repeat", "1", "--small", "20",
         "--dir", str(tmp_path), "--out", str(tmp_path / "out.json")],
        env=os.environ | {"GX_SO": str(here), "MOCK_MEMORY": str(32 << 20)},
        capture_output=True, text=True, check=False, timeout=120,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "out.json").read_text())
    assert [m["n"] for m in report["results"]["cuda"]][:4] == [32, 32, 64, 64]
    assert all(m["on_device"] for m in report["results"]["cuda"]) and report["small"]["ratio"] > 0
