"""The device path, on a device that is not there (tests/mockcuda).

Plan:
- a product on the device is the CPU's, for all dtypes, transposes, values and stored operands, with blocks that fit
  the device's memory and with as few as three; nothing is left on the device when the connection is closed;
- copies and kernels that are late show: the device's memory is full of NaNs, its queues are threads;
- a matrix that has not changed is not copied again; one that has is; after a rollback, an ATTACH of another file and a
  change by another connection too;
- a loop of ten calls allocates in its first alone; setting the backend it has keeps what is on the device;
- blocks follow the device's memory, not memory_limit: each block of an operand is read once where the device holds all;
- a product with few columns or rows, plain and transposed, values and stored, added to: blocks are whole tiles, each read
  and copied once;
- a large result in memory of several strips comes down strip by strip, a small or stored one as a whole;
- a matrix that one device holds is kept in four strips, in as much memory as it has, whatever it is multiplied by; with less
  memory, and for two devices, in more and equal ones; right in each;
- bench_core, with results that stay on the device and that are dropped: its own checks of elements hold, in whole and
  within little device memory;
- page-locked memory within its budget, reused from call to call, pageable where it is refused, and counted;
- out of device memory: fewer blocks, then smaller ones, then the CPU; a failure of the n-th call of any function:
  the right answer and a remark; a lost device stays off; nothing leaks;
- a Cholesky factorisation: as the CPU's, each call of the device failed, a matrix that is not positive definite;
- 'auto' leaves little work and slow devices alone; no driver, no device, another device; gx_devices says why;
- without gx_cuda.so nothing mentions CUDA.
"""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import ROOT
from mockkit import child, child_on_stand_ins

pytestmark = pytest.mark.filterwarnings("error")

FILE = "path = os.environ['TMP_PATH'] + '/a.db'\ndb = gx_connect(path)\n"
DIFFERENCE = """
def difference(name):
    a = to_numpy(q(db, "SELECT gx_copy(?)", name)); b = to_numpy(q(db, "SELECT gx_copy('C0')"))
    return float(np.abs(a - b).max()) if a.size else 0.0
"""


@pytest.mark.parametrize("dtype, bound", [("f64", 1e-12), ("f32", 1e-3), ("c128", 1e-12), ("c64", 1e-3)])
@pytest.mark.parametrize("limit", [0, 4 * 65536])
def test_product(tmp_path, dtype, bound, limit):
    got = child(
        tmp_path,
        FILE
        + DIFFERENCE
        + f"matrices(db, dtype={dtype!r}, tile=32)\n"
        + f"q(db, \"SELECT gx_config('device_memory_limit', {limit})\")\n"
        + """
q(db, "SELECT gx_matmul('A', 'B', 'C')")
q(db, "SELECT gx_norm(gx_matmul('A', 'B'))")
q(db, "SELECT gx_transpose('A', 'AT')")
q(db, "SELECT gx_transpose('B', 'BT')")
q(db, "SELECT gx_matmul('AT', 'BT', 'D', '{\\"transa\\":true,\\"transb\\":true}')")
s = stats(db)
before = mock.counts()
result = [difference('C'), difference('D'), s['device_calls'], s['device_fallbacks'], notes(db)]
db.close()
result += [before['violations'], mock.alive()]
""",
        GX_BACKEND="cuda",
        MOCK_SLOW=200,
    )
    assert got[4] == []
    assert max(got[:2]) <= bound and got[2] >= 4 and got[3:] == [0, [], 0, {}]


def test_blocks_stay(tmp_path):
    """A second product of the same matrices copies nothing up; a changed one only what changed."""
    got = child(
        tmp_path,
        FILE
        + DIFFERENCE
        + """
matrices(db)
def call(name):
    before = stats(db)
    q(db, "SELECT gx_matmul('A', 'B', ?)", name)
    after = stats(db)
    return [after['device_hits'] - before['device_hits'], after['uploaded'] - before['uploaded']]
result = [call('C1'), call('C2')]
q(db, "UPDATE gx SET name = 'A2' WHERE name = 'A'")
q(db, "SELECT gx_scale('A2', 2, 'A')")
result += [call('C3'), difference('C2')]
q(db, "SELECT gx_scale('C0', 2, 'C9')")
a, b = (to_numpy(q(db, "SELECT gx_copy(?)", name)) for name in ('C3', 'C9'))
result += [float(np.abs(a - b).max())]
db.execute("BEGIN"); db.execute("DELETE FROM gx WHERE name = 'A'")
q(db, "SELECT gx_scale('A2', 3, 'A')"); q(db, "SELECT gx_matmul('A', 'B', 'C4')"); db.execute("ROLLBACK")
q(db, "SELECT gx_scale('A2', 5, 'A', '{\\"replace\\":true}')"); q(db, "SELECT gx_matmul('A', 'B', 'C4')")
a, b = (to_numpy(q(db, "SELECT gx_copy(?)", name)) for name in ('C4', 'C0'))
result += [float(np.abs(a - 5 * b).max())]
""".replace('q(db, "UPDATE', 'db.execute("UPDATE'),
        GX_BACKEND="cuda",
    )
    first, second, third, *differences = got
    assert first[0] == 0 and first[1] > 0
    assert second[0] > 0 and second[1] == 0
    assert 0 < third[1] < first[1]
    assert max(differences) < 1e-11


def test_blocks_of_what_was_there(tmp_path):
    """A backup that comes in through the connection, and another file under the name, have blocks of their own."""
    got = child(
        tmp_path,
        """
paths = [os.path.join(os.environ["TMP_PATH"], name) for name in ("one.db", "two.db", "three.db")]
dbs = [gx_connect(path) for path in paths]
for k, db in enumerate(dbs):
    q(db, "SELECT gx_config('backend', 'cuda')")
    q(db, f"SELECT gx_random(200, 200, 'A', '{{\\"seed\\":{k}}}')")
norm = "SELECT gx_norm(gx_matmul('A', 'A'))"
want = [q(db, norm) for db in dbs]
dbs[1].backup(dbs[0])
result = [[q(dbs[0], norm), want[1]]]
dbs[1].close()
db = dbs[2]
db.execute("ATTACH ? AS o", (paths[1],))
inner = "SELECT gx_norm(gx_matmul('o.A', 'o.A'))"
result += [[q(db, inner), want[1]]]
db.execute("DETACH o")
other = gx_connect(paths[1] + "x")
q(other, "SELECT gx_random(200, 200, 'A', '{\\"seed\\":9}')")
other.close()
os.replace(paths[1] + "x", paths[1])
db.execute("ATTACH ? AS o", (paths[1],))
result += [[q(db, inner), q(db, "SELECT gx_norm(gx_matmul(gx_copy('o.A'), gx_copy('o.A')))")]]
""",
        GX_BACKEND="cuda",
    )
    for found, expected in got:
        assert abs(found - expected) < 1e-9 * expected


def test_blocks_of_the_past(tmp_path):
    """What others commit makes blocks worthless: they make place for those that are loaded anew."""
    got = child(
        tmp_path,
        """
path = os.path.join(os.environ["TMP_PATH"], "one.db")
db, other = gx_connect(path), gx_connect(path)
q(db, "SELECT gx_config('backend', 'cuda')")
q(db, "SELECT gx_random(300, 300, 'A')")
q(db, "SELECT gx_random(300, 300, 'B')")
other.execute("CREATE TABLE t(x)")
result = []
for k in range(8):
    before = stats(db)
    q(db, "SELECT length(gx_matmul('A', 'B'))")
    result.append([stats(db)['uploaded'] - before['uploaded'], mock.counts()['device_bytes']])
    other.execute("INSERT INTO t VALUES (1)")
    other.commit()
""",
        GX_BACKEND="cuda",
    )
    assert all(up == 2 * 8 * 300 * 300 for up, _ in got)
    assert got[-1][1] <= 2 * got[0][1]


def test_loop_of_ten(tmp_path):
    """After the first call page-locked and device buffers are reused, also when 'backend' is set again."""
    got = child(
        tmp_path,
        FILE
        + """
matrices(db, tile=32)
calls = []
for k in range(10):
    q(db, "SELECT gx_config('backend', 'cuda')")
    before = stats(db)
    q(db, "SELECT gx_matmul('A', 'B', 'C', '{\\"replace\\":true}')")
    after = stats(db)
    calls.append([after[n] - before[n] for n in ('pinned_hits', 'pinned_misses', 'pinned_denied', 'device_hits')]
                 + [mock.counts()['device_bytes'], mock.counts()['pinned_bytes']])
db.close()
result = [calls, mock.alive()]
""",
        GX_BACKEND="cuda",
    )
    calls, alive = got
    hits, misses = sum(c[0] for c in calls[1:]), sum(c[1] for c in calls[1:])
    assert hits >= 0.8 * (hits + misses) and hits > 0
    assert all(c[2] == 0 for c in calls) and all(c[3] > 0 for c in calls[1:])
    assert len({tuple(c[4:]) for c in calls[1:]}) == 1 and alive == {}


@pytest.mark.parametrize(
    "call", ["gx_matmul('A', 'A', 'C')", "gx_cholesky('S', 'C')", "gx_lu('A', 'C')", "gx_qr('A', 'C')"]
)
def test_blocks_of_the_device(tmp_path, call):
    """The host's budget holds a few tiles; the device everything: nothing is read twice, nothing spilled."""
    got = child(
        tmp_path,
        FILE
        + """
n, tile = 320, 32
db.execute("SELECT gx_config('profile', 'off')"); q(db, f"SELECT gx_config('tile_bytes', {8 * tile * tile})")
q(db, f"SELECT gx_randn({n}, {n}, 'A')"); q(db, "SELECT gx_matmul('A', 'A', 'S', '{\\"transb\\":true}')")
q(db, f"SELECT gx_config('memory_limit', {2 << 20})")
q(db, "SELECT gx_config('probe', 'off')")
q(db, "SELECT gx_config('backend', 'cuda')")
q(db, "SELECT gx_stats_reset()")
"""
        + f'q(db, "SELECT {call}")\n'
        + """
s = stats(db)
result = [s['device_calls'], s['spills'], s['uploaded'] / (8 * n * n), s['downloaded'] / (8 * n * n), notes(db)]
db.close()
""",
        GX_READERS=2,
    )
    calls, spills, up, down, remarks = got
    if calls == 0:  # the stand-in lacks a kernel of this one
        assert any("has no kernel" in remark for remark in remarks)
        return
    most = 2 if "matmul" in call else 1
    assert spills == 0 and up <= most and down <= 1 and remarks == []


@pytest.mark.parametrize("dtype, bound", [("f64", 1e-11), ("c64", 1e-2)])
@pytest.mark.parametrize("limit", [0, 640 << 10])
def test_few_columns(tmp_path, dtype, bound, limit):
    """A times a few columns: every tile of A is read once and copied once, whatever the device holds."""
    got = child(
        tmp_path,
        FILE
        + f"dtype, limit = {dtype!r}, {limit}\n"
        + """
matrices(db, 650, 620, 3, dtype=dtype, tile=32)
for name, rows, cols in (('X', 620, 5), ('Y', 650, 5), ('Z', 650, 5)):
    q(db, f"SELECT gx_randn({rows}, {cols}, '{name}', '{{\\"dtype\\":\\"{dtype}\\"}}')")
a, x, y, z = (to_numpy(q(db, f"SELECT gx_copy('{n}')")) for n in 'AXYZ')
wanted = {
    "gx_matmul('A', 'X'{})": a @ x,
    "gx_matmul('A', 'Y'{}, '{{\\"transa\\":true}}')": a.T @ y,
    "gx_matmul('Y', 'A'{}, '{{\\"transa\\":true}}')": y.T @ a,
    "gx_matmul('X', 'A'{}, '{{\\"transa\\":true,\\"transb\\":true}}')": x.T @ a.T,
    "gx_matmul(gx_copy('A'), 'X'{})": a @ x,
}
q(db, f"SELECT gx_config('device_memory_limit', {limit})")
q(db, "SELECT gx_config('probe', 'off')")
tiles, bytes = 21 * 20, a.nbytes
result = []
for call, answer in wanted.items():
    for place in ("", ", 'R'"):
        db.execute("DELETE FROM gx WHERE name = 'R'")
        q(db, "SELECT gx_config('backend', 'cpu')")  # and what is on the device is dropped
        q(db, "SELECT gx_config('backend', 'cuda')")
        db.execute("SELECT gx_stats_reset()").fetchall()
        got = q(db, "SELECT " + call.format(place))
        s = stats(db)
        got = to_numpy(q(db, "SELECT gx_copy('R')") if place else got)
        result.append([call + place, float(np.abs(got - answer).max()), s['uploaded'] / bytes, s['tiles_read'] / tiles,
                       s['device_calls'], notes(db)])
db.close()
result.append(mock.alive())
""",
        GX_BACKEND="cuda",
    )
    assert got.pop() == {}
    for call, wrong, up, reads, calls, remarks in got:
        assert wrong < bound and calls == 1 + ("copy" in call) and remarks == [], call
        # Pieces of one large block of small tiles read each of these a few columns at a time.
        assert up <= 1.05 + ("copy" in call) and ("copy" in call or limit == 0 or reads <= 1.1), call


def test_strips_of_a_result(tmp_path):
    """With several strips a large result in memory comes down strip by strip, as they are finished; a small one, and a
    stored one whose tiles they are not, are copied together on the device first."""
    got = child(
        tmp_path,
        FILE
        + """
matrices(db, 2100, 1100, 3, dtype='f64', tile=128)
q(db, "SELECT gx_config('probe', 'off')")
q(db, "SELECT gx_randn(1100, 64, 'X')"); q(db, "SELECT gx_randn(1100, 8, 'Y')")
a, x, y = (to_numpy(q(db, f"SELECT gx_copy('{n}')")) for n in 'AXY')
result = []
for other, of, place in (('X', x, ""), ('X', x, ", 'R'"), ('Y', y, "")):
    db.execute("SELECT gx_stats_reset()").fetchall()
    got = q(db, f"SELECT gx_matmul('A', '{other}'{place})")
    s = stats(db)
    got = to_numpy(q(db, "SELECT gx_copy('R')") if place else got)
    result.append([float(np.abs(got - a @ of).max()), s['kernels'], s['downloaded'] == 8 * got.size, notes(db)])
db.close()
result.append(mock.alive())
""",
        GX_BACKEND="cuda",
    )
    assert got.pop() == {}
    large, stored, small = (kernels for _, kernels, _, _ in got)
    assert 1 < large < small and large <= stored  # a kernel more for each strip that is copied
    assert all(wrong < 1e-11 and is_once and remarks == [] for wrong, _, is_once, remarks in got)


@pytest.mark.parametrize("devices, limit, strips", [(1, 0, 4), (1, 20 << 20, 0), (1, 4 << 20, 0), (2, 0, 0), (3, 0, 0)])
def test_strips_of_a_kept_matrix(tmp_path, devices, limit, strips):
    """A matrix that one device holds has three long strips and a short one, for any columns: it goes up once, and takes as much
    memory as it has.  Otherwise its blocks are smaller; the answers are the same."""
    got = child(
        tmp_path,
        FILE
        + f"devices, limit = {devices}, {limit}"
        + """
matrices(db, 2100, 1100, 3, dtype='f64', tile=64)
q(db, "SELECT gx_config('probe', 'off')"); q(db, "SELECT gx_config('device_memory_limit', ?)", limit)
q(db, "SELECT gx_config('devices', ?)", ",".join(str(d) for d in range(devices)) if devices > 1 else "1")
q(db, "SELECT gx_config('backend', 'cpu')")
result, a = [], to_numpy(q(db, "SELECT gx_copy('A')"))
q(db, "SELECT gx_config('backend', 'cuda')")
random = np.random.default_rng(1)
for trans in ("", ", '{\\"transa\\":true}'"):
    for cols in (64, 1, 8, 17, 64):
        x = random.standard_normal((2100 if trans else 1100, cols))
        before = stats(db)
        got = to_numpy(q(db, f"SELECT gx_matmul('A', ?{trans})", from_numpy(x)))
        s = since(db, before)
        result.append([float(np.abs(got - (a.T if trans else a) @ x).max()), s['kernels'], s['uploaded'] - x.nbytes,
                       mock.counts()['device_bytes'], s['device_fallbacks'], notes(db)])
result.append(a.nbytes)
db.close()
result.append(mock.alive())
""",
        GX_BACKEND="cuda",
        MOCK_DEVICES=3,
    )
    assert got.pop() == {}
    bytes_ = got.pop()
    for k, (wrong, kernels, up, memory, fallbacks, remarks) in enumerate(got):
        assert wrong < 1e-11 and fallbacks == 0 and remarks == [], k
        if strips:  # what small results are copied together by is a kernel more for each
            assert kernels in (strips, 2 * strips) and up == (bytes_ if k % 5 == 0 else 0), k
            assert memory < (1.3 + 1.3 * (k >= 5)) * bytes_, k
        elif not limit:
            assert kernels > 4, k


@pytest.mark.parametrize("limit", ["250000", "120000"])
def test_bench_core(tmp_path, limit):
    """The program of the large measurements, at a small size on the stand-ins for NVIDIA's libraries."""
    build = ROOT / pathlib.Path(os.environ.get("BUILD") or "build")
    program, backend = build / "gpu" / "gpu_tests", build / "mock" / "gx_cuda.so"
    if not program.exists() or not backend.exists():
        pytest.skip(f"{program} is not built: make programs")
    shutil.copy(program, tmp_path / "gpu_tests")  # gx_cuda.so is looked for where the program itself lies
    (tmp_path / "gx_cuda.so").symlink_to(backend)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("GX_", "MOCK_", "CUDA_"))}
    environment |= {"XDG_CACHE_HOME": str(tmp_path), "CUDA_PATH": str(build / "mock"), "MOCK_MEMORY": str(64 << 20)}
    environment |= {"GX_BENCH_TILE": "5000", "GX_BENCH_LIMIT": limit}
    command = [tmp_path / "gpu_tests", "bench_core", "210", tmp_path, "stream", "product", "cholesky", "stored",
               "limited", "xt"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = {line["what"]: line for line in map(json.loads, done.stdout.splitlines())}
    for name in ("product, result dropped", "cholesky, result dropped"):
        assert lines[name]["device_calls"] == 1 and "note" not in lines[name]
    assert lines["product, stored"]["downloaded"] == lines["product, result dropped"]["downloaded"] == 8 * 210 * 210
    assert lines["product, limited, result dropped"]["uploaded"] > lines["product, result dropped"]["uploaded"]
    assert "libcublas" in lines["cublasXtDgemm, pageable"]["skipped"]  # the stand-ins have none
    assert not list(tmp_path.glob("*.db*"))


FAIL = """
matrices(db, 100, 90, 110, tile=32)
q(db, "SELECT gx_config('device_memory_limit', {limit})")
q(db, "SELECT gx_matmul('A', 'B', 'C')")           # opens the device
CALL = {call!r}
result = dict(points=0, wrong=[], silent=[], leaks=[])
for n in [*range(1, 30), *range(30, 1000, {step})]:
    q(db, "SELECT gx_config('backend', 'cuda')")
    q(db, "SELECT gx_config('device', 0)") if {reopen} else None
    q(db, "SELECT gx_stats_reset()")
    mock.order(f"{{CALL}}:{{n}}{mode}")
    q(db, "SELECT gx_matmul('A', 'B', 'C', '{{\\"replace\\":true}}')")
    has_failed = mock.counts()['failures'] > 0
    mock.order()
    if not has_failed:
        break
    result['points'] += 1
    if not difference('C') < 1e-12:
        result['wrong'].append(n)
    s = stats(db)
    is_told = any('ordered failure' in note or 'out of device memory' in note for note in notes(db))
    if not is_told and s['pinned_denied'] == 0:
        result['silent'].append(n)
    if mock.counts()['violations']:
        result['leaks'].append(n)
db.close()
result['alive'] = mock.alive()
"""


@pytest.mark.parametrize(
    "call, mode, reopen, limit",
    [
        ("*", "", True, 0),
        ("*", "", False, 400000),
        ("*", ":lost", True, 0),
        ("memory", ":always", True, 400000),
        ("kernel_later", "", False, 400000),
    ],
)
def test_each_call_fails(tmp_path, call, mode, reopen, limit):
    """The n-th call of the device fails, for every n: the right answer, a remark, nothing left behind."""
    got = child(tmp_path, FILE + DIFFERENCE + FAIL.format(call=call, mode=mode, reopen=reopen, limit=limit, step=9 if limit else 1), GX_BACKEND="cuda")
    assert got["points"] >= (3 if call != "*" else 20)
    assert (got["wrong"], got["silent"], got["leaks"], got["alive"]) == ([], [], [], {})


def test_opening_fails(tmp_path):
    """The n-th call of the device while it is opened and measured fails: the CPU computes, and nothing leaks."""
    got = child(
        tmp_path,
        FILE
        + DIFFERENCE
        + """
matrices(db, 60, 50, 40, tile=32)
db.close()
result = dict(points=0, wrong=[], silent=[], alive=[])
for n in [*range(1, 9), 14, 20, 27, 35, 50, 80, 400]:
    db = gx_connect(path)
    q(db, "SELECT gx_config('profile', 'off')")
    mock.order(f"*:{n}")
    q(db, "SELECT gx_matmul('A', 'B', 'C', '{\\"replace\\":true}')")
    has_failed = mock.counts()['failures'] > 0
    mock.order()
    result['points'] += has_failed
    if not difference('C') < 1e-12:
        result['wrong'].append(n)
    if has_failed and not notes(db) and stats(db)['pinned_denied'] == 0:
        result['silent'].append(n)
    db.close()
    if mock.alive():
        result['alive'].append([n, mock.alive()])
    if not has_failed:
        break
""",
        GX_BACKEND="cuda",
    )
    assert got["points"] > 10
    assert (got["wrong"], got["silent"], got["alive"]) == ([], [], [])


def test_plan_and_devices(tmp_path):
    """gx_plan predicts for both; gx_devices shows the device, its rates once measured, and why it was switched off."""
    got = child(
        tmp_path,
        FILE
        + """
matrices(db)
rows = lambda sql: db.execute(sql).fetchall()
CUDA = "SELECT device, status, reason, memory, f64 > 0, upload > 0 FROM gx_devices WHERE backend = 'cuda'"
result = [rows(CUDA), rows("SELECT chosen, device, seconds > 0 FROM gx_plan('A @ B')")]
q(db, "SELECT gx_matmul('A', 'B', 'C')")
result += [rows(CUDA)]
q(db, "SELECT gx_config('backend', 'auto')")
result += [rows("SELECT chosen, device FROM gx_plan('A @ B')")]
q(db, "SELECT gx_config('backend', 'cuda')")
mock.order('gemm:1')
q(db, "SELECT gx_matmul('A', 'B', 'D')")
q(db, "SELECT gx_matmul('A', 'B', 'E')")
result += [rows(CUDA), notes(db), stats(db)['device_fallbacks']]
mock.order()
q(db, "SELECT gx_config('backend', 'cuda')")
q(db, "SELECT gx_matmul('A', 'B', 'F')")
result += [rows(CUDA)]
""",
        GX_BACKEND="cuda",
        MOCK_DEVICES=2,
    )
    idle = [["cuda:0 mock", "ready", "", 64 << 20, 1, 1], ["cuda:1 mock", "ready", "", 64 << 20, None, None]]
    used = [["cuda:0 mock", "used", "", 64 << 20, 1, 1], idle[1]]
    assert got[0] == idle
    assert got[1] == [[1, "cuda:0 mock", 1], [0, "cpu", 1]]
    assert got[2] == used
    # 'auto': both, the chosen one first; which it is follows from what calls took (test_predictions.py gives the rates).
    assert [row[0] for row in got[3]] == [1, 0] and sorted(row[1] for row in got[3]) == ["cpu", "cuda:0 mock"]
    assert got[4][0][:3] == ["cuda:0 mock", "off", "switched off after a failure: gemm on mock:0: ordered failure"]
    assert got[5] == ["CUDA off for this connection: gemm on mock:0: ordered failure"] and got[6] == 1
    assert got[7] == used


def test_choice(tmp_path):
    """'auto' takes a device only when it is predicted to be faster; the mock's kernels are slow loops."""
    got = child(
        tmp_path,
        FILE
        + """
matrices(db, 700, 700, 700, tile=256)
q(db, "SELECT gx_config('threads', 1)")
q(db, "SELECT gx_matmul('A', 'B', 'C')")
calls = mock.counts()['calls']
q(db, "SELECT gx_config('backend', 'cuda')"); q(db, "SELECT gx_matmul('A', 'B', 'D')")
q(db, "SELECT gx_config('backend', 'auto')"); q(db, "SELECT gx_config('device', 1)")
bad = error(db, "SELECT gx_config('device', 'one')")
q(db, "SELECT gx_matmul('A', 'B', 'E')")
result = [calls, mock.counts()['kernels'] > 0, stats(db)['device_calls'], notes(db), bad]
""",
        MOCK_DEVICES=2,
    )
    assert got[:4] == [0, True, 1, []]
    assert got[4] == "gx_config: device must be a whole number from 0 to 1023, not 'one'"


@pytest.mark.parametrize(
    "env, reason",
    [
        ({"MOCK_NO_DRIVER": 1}, "no NVIDIA driver: libcuda.so.1 is missing"),
        ({"MOCK_DEVICES": 0}, "no CUDA device"),
    ],
)
def test_no_device(tmp_path, env, reason):
    got = child(
        tmp_path,
        FILE
        + """
quiet = notes(db)
matrices(db)
q(db, "SELECT gx_matmul('A', 'B', 'C')")
result = [quiet + notes(db), error(db, "SELECT gx_config('backend', 'cuda')"),
          db.execute("SELECT status, reason FROM gx_devices WHERE backend = 'cuda'").fetchall()]
""",
        **env,
    )
    assert got == [[], f"gx_config: backend cuda is not available: {reason}", [["off", reason]]]


def test_pools(tmp_path):
    """Ten products: page-locked buffers are reused; a budget of nothing makes them pageable; memory stays flat."""
    got = child(
        tmp_path,
        FILE
        + DIFFERENCE
        + """
matrices(db, 260, 250, 240)
def loop():
    q(db, "SELECT gx_stats_reset()")
    flat = set()
    for n in range(10):
        q(db, "SELECT gx_matmul('A', 'B', 'C', '{\\"replace\\":true}')")
        flat.add((mock.counts()['device_bytes'], mock.counts()['pinned_bytes']))
    s = stats(db)
    return [s['pinned_hits'], s['pinned_misses'], s['pinned_denied'], len(flat), difference('C')]
q(db, "SELECT gx_matmul('A', 'B', 'C')")
result = [loop()]
q(db, "SELECT gx_config('pinning_budget', 0)")
q(db, "SELECT gx_config('device', 0)")
result += [loop(), mock.counts()['pinned_peak']]
""",
        GX_BACKEND="cuda",
    )
    warm, none, _ = got
    assert warm[0] >= 4 * warm[1] and warm[2] == 0 and warm[3] <= 2
    assert none[:2] == [0, none[2]] and none[2] > 0
    assert max(warm[4], none[4]) < 1e-11


FACTORS = """
db = gx_connect(path)
q(db, "SELECT gx_config('profile', 'off')")
q(db, "SELECT gx_config('tile_bytes', 8192)")
q(db, "SELECT gx_config('backend', 'cpu')")
q(db, "SELECT gx_randn(120, 120, 'R', '{{\\"seed\\":3}}')")
q(db, "SELECT gx_matmul('R', 'R', 'S', '{{\\"transb\\":true}}')")
q(db, "SELECT gx_add('S', gx_eye(120), 'P')")
q(db, "SELECT gx_cholesky('P', 'L0')")
q(db, "SELECT gx_config('backend', 'cuda')")
q(db, "SELECT gx_config('device_memory_limit', {limit})")
q(db, "SELECT gx_config('memory_limit', 170000)") if {limit} else None  # small blocks
result = dict(points=0, wrong=[], silent=[])
for n in [0, *range(1, 2000, {step})]:
    q(db, "SELECT gx_config('device', 0)")
    q(db, "SELECT gx_stats_reset()")
    mock.order(f"*:{{n}}" if n else "")
    q(db, "SELECT gx_cholesky('P', 'L', '{{\\"replace\\":true}}')")
    has_failed = mock.counts()['failures'] > 0
    mock.order()
    told = notes(db)
    a, b = (to_numpy(q(db, "SELECT gx_copy(?)", name)) for name in ('L', 'L0'))
    if not np.abs(a - b).max() < 1e-9:
        result['wrong'].append(n)
    if n == 0:
        result['first'] = [stats(db)['device_calls'], told]
        result['bad'] = error(db, "SELECT gx_cholesky(gx_neg('P'), 'N')")
        continue
    if not has_failed:
        break
    result['points'] += 1
    if not told and stats(db)['pinned_denied'] == 0:
        result['silent'].append(n)
db.close()
result['alive'] = mock.alive()
"""


@pytest.mark.parametrize("limit, step", [(0, 1), (80000, 11)])
def test_cholesky(tmp_path, limit, step):
    """A factorisation on the device, its failures, and a matrix that is not positive definite."""
    got = child(tmp_path, "path = os.environ['TMP_PATH'] + '/f.db'\n" + FACTORS.format(limit=limit, step=step),
                GX_BACKEND="cuda")
    assert got["first"][0] >= 1 and got["first"][1] == []
    assert got["bad"].endswith("is not positive definite (leading minor of order 1)")
    assert got["points"] > 10
    assert (got["wrong"], got["silent"], got["alive"]) == ([], [], {})


def test_without_backend(tmp_path):
    """No gx_cuda.so: nothing mentions CUDA but gx_devices, and asking for it says what is missing."""
    got = child(
        tmp_path,
        FILE
        + """
matrices(db, 700, 700, 700, tile=256)
q(db, "SELECT gx_matmul('A', 'B', 'C')")
result = [notes(db), db.execute("SELECT status, reason FROM gx_devices WHERE backend = 'cuda'").fetchall(),
          error(db, "SELECT gx_config('backend', 'cuda')")]
""",
        with_mock=False,
    )
    reason = "gx_cuda.so is not beside gx.so"
    assert got == [[], [["off", reason]], f"gx_config: backend cuda is not available: {reason}"]


NO_THREADS = """
import ctypes

def refuse_threads(are_refused, how=ctypes.create_string_buffer(64)):
    "None has room for such a stack."
    assert libc.pthread_getattr_default_np(how) == 0
    assert libc.pthread_attr_setstacksize(how, ctypes.c_size_t((1 << 60) if are_refused else (8 << 20))) == 0
    assert libc.pthread_setattr_default_np(how) == 0

libc = ctypes.CDLL(None)
"""


@pytest.mark.parametrize("launch", [child, child_on_stand_ins], ids=["backend", "runtime"])
def test_a_device_whose_queues_get_no_threads(tmp_path, launch):
    """It is not used, gx_stats says why, and the answer is the processor's."""
    got = launch(
        tmp_path,
        NO_THREADS
        + FILE
        + """
matrices(db)
want = q(db, "SELECT gx_matmul('A', 'B')")
q(db, "SELECT gx_config('backend', 'cuda')")
refuse_threads(True)
same = bool(np.allclose(to_numpy(want), to_numpy(q(db, "SELECT gx_matmul('A', 'B')"))))
refuse_threads(False)
result = {"same": same, "notes": notes(db)}
""",
    )
    assert got["same"]
    assert any("no thread to be had" in note or "OS call failed" in note for note in got["notes"]), got
