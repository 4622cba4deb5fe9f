"""Several devices in one statement, on devices that are not there (tests/mockcuda).

Plan:
- products, plain, with themselves, with few columns, and Cholesky factors on 1 to 8 devices, of unlike memory and
  speed, with and without a way between them: the same numbers, with `deterministic` the same bits, nothing left behind;
- with room for everything each operand goes up the host's links once in all, whatever the number of devices, and what comes
  down is the result without its blocks of zeros;
- any call of any device fails, or all of one's from then on: the right answer, counted, and the connection goes on;
- a process on several devices is killed, and another one's connection goes on (tests/gpu/kill.py, which real devices run, too);
- the setting: what it accepts, what it shows; a list is used whole, `all` only as far as it pays;
- gx_devices shows who is used and the links, gx_plan how many devices;
- gx_cuda.so itself, on stand-ins for NVIDIA's libraries.
"""
import json
import os
import subprocess
import sys

import pytest

from conftest import ROOT, gx_path
from mockkit import ALL_WELL, MOCK, child, child_on_stand_ins

pytestmark = pytest.mark.filterwarnings("error")

START = """
path = os.environ['TMP_PATH'] + '/a.db'
db = gx_connect(path)
matrices(db, m=110, k=100, n=130, tile=16)
q(db, "SELECT gx_matmul('A', 'A', 'S', '{\\"transa\\":true,\\"alpha\\":0.01}')")
q(db, "SELECT gx_add('S', gx_eye(100), 'P')")
q(db, "SELECT gx_randn(100, 3, 'X')")
q(db, "SELECT gx_config('probe', 'off')")
CALLS = {
    "product": "gx_matmul('A', 'B'{})",
    "gram": "gx_matmul('A', 'A'{}, '{{\\"transa\\":true}}')",
    "narrow": "gx_matmul('A', 'X'{})",
    "cholesky": "gx_cholesky('P'{})",
}
def answer(name):
    # The bytes of a stored result.
    db.execute("DELETE FROM gx WHERE name = 'R'")
    q(db, "SELECT " + CALLS[name].format(", 'R'"))
    return q(db, "SELECT gx_copy('R')")
def answers():
    return {name: answer(name) for name in CALLS}
def use(devices):
    q(db, "SELECT gx_config('devices', ?)", devices)
    q(db, "SELECT gx_config('backend', 'cuda')")
"""


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"MOCK_PEERS": "none", "MOCK_SLOW": "300,50"},
        {"MOCK_MEMORY": f"{64 << 20},{16 << 20}"},
    ],
    ids=["alike", "no peers", "unlike"],
)
@pytest.mark.parametrize("limit", [0, 200 * 2048])
def test_same_answers(tmp_path, env, limit):
    got = child(
        tmp_path,
        START
        + f"q(db, \"SELECT gx_config('device_memory_limit', {limit})\")\n"
        + """
q(db, "SELECT gx_config('deterministic', 'on')")
use('1')
alone = answers()
numbers = {name: to_numpy(value) for name, value in alone.items()}
result = []
for count in (2, 3, 8):
    use(",".join(str(d) for d in range(count)))
    before = stats(db)
    q(db, "SELECT gx_config('deterministic', 'on')")
    differ = [name for name, value in answers().items() if value != alone[name]]
    spread = stats(db)['spread_calls'] - before['spread_calls']
    q(db, "SELECT gx_config('deterministic', 'off')")
    values = {name: q(db, "SELECT " + call.format("")) for name, call in CALLS.items()}
    far = max(float(np.abs(to_numpy(value) - numbers[name]).max()) for name, value in values.items())
    result.append([differ, far, spread, notes(db)])
violations = mock.counts()['violations']
db.close()
result.append([violations, mock.alive()])
""",
        MOCK_DEVICES=8,
        **env,
    )
    assert got.pop() == [0, {}]
    for differ, far, spread, remarks in got:
        assert differ == [] and far < 1e-11 and spread == 8  # gx_copy is one, too
        assert limit or remarks == []


def test_up_once(tmp_path):
    """Uploads of a program are its operands' bytes; kept blocks serve the next call."""
    got = child(
        tmp_path,
        START
        + """
q(db, "SELECT gx_config('deterministic', 'on')")
result = []
calls = {"product": 8 * (110 * 100 + 100 * 130), "gram": 8 * 110 * 100, "cholesky": 8 * 100 * 100}
for devices in ('1', '0,1', '0,1,2,3,4', '0,1,2,3,4,5,6,7'):
    for name, bytes in calls.items():
        use('1'); use(devices); q(db, "SELECT gx_config('device', 0)")
        call = "SELECT " + CALLS[name].format(", 'R', '{\\"replace\\":true}'") if name != 'gram' else \
            "SELECT gx_matmul('A', 'A', 'R', '{\\"transa\\":true,\\"replace\\":true}')"
        before = stats(db); q(db, call); between = stats(db); q(db, call); after = stats(db)
        result.append([devices, name, (between['uploaded'] - before['uploaded']) / bytes,
                       between['peer_bytes'] - before['peer_bytes'],
                       (after['uploaded'] - between['uploaded']) / bytes,
                       (after['downloaded'] - between['downloaded']) / 8, notes(db)])
""",
        MOCK_DEVICES=8,
    )
    results = {"product": 110 * 130, "gram": 100 * 100, "cholesky": (100 * 100 + 6 * 15 * 15 + 10 * 10) // 2}  # tiles of 15 x 15
    for devices, name, up, across, again, down, remarks in got:
        assert down == results[name], (devices, name)
        assert up <= 1 and remarks == [], (devices, name)
        assert (across > 0) == (devices != "1"), (devices, name)
        assert again <= up and (again == 0 or name == "cholesky"), (devices, name)


@pytest.mark.parametrize("mode", ["", ":lost"])
@pytest.mark.parametrize("name", ["product", "cholesky"])
def test_each_device_fails(tmp_path, mode, name):
    got = child(
        tmp_path,
        START
        + f"MODE, NAME = {mode!r}, {name!r}\n"
        + """
q(db, "SELECT gx_config('deterministic', 'on')")
use('0,1,2')
right = answer(NAME)
points = [*range(1, 12), *range(12, 2000, 97)]
result = each_device_fails(db, mock, 3, points, lambda: q(db, "SELECT gx_matmul('A', 'B')"), lambda: answer(NAME) == right, MODE)
""",
        timeout=300,
        MOCK_DEVICES=3,
    )
    assert got.pop("points") > 20
    assert got == ALL_WELL


def test_indefinite(tmp_path):
    """A matrix that is not positive definite: told as on one device, and the connection goes on."""
    got = child(
        tmp_path,
        START
        + """
q(db, "SELECT gx_config('deterministic', 'on')")
use('1')
right = answer('cholesky')
x = to_numpy(q(db, "SELECT gx_copy('P')"))
x[60, 60] = x[90, 90] = -1
db.execute("SELECT gx_copy(?, 'N')", (from_numpy(x),)).fetchall()
result = []
for devices in ('1', '0,1', '0,1,2'):
    use(devices)
    result.append([error(db, "SELECT gx_cholesky('N', 'L')"), answer('cholesky') == right, stats(db)['devices_lost']])
violations = mock.counts()['violations']
db.close()
result.append([violations, mock.alive()])
""",
        MOCK_DEVICES=3,
    )
    assert got.pop() == [0, {}]
    assert got == [["gx_cholesky: N is not positive definite (leading minor of order 61)", True, 0]] * 3


def test_killed_beside(tmp_path):
    if not MOCK.exists():
        pytest.skip(f"{MOCK} is not built: make programs")
    (tmp_path / "gx.so").symlink_to(gx_path() if gx_path().endswith(".so") else gx_path() + ".so")
    (tmp_path / "gx_cuda.so").symlink_to(MOCK)
    env = {key: text for key, text in os.environ.items() if not key.startswith(("GX_", "MOCK_", "CUDA_"))}
    env |= {"GX_SO": str(tmp_path / "gx.so"), "GX_DETERMINISTIC": "on", "GX_TILE_BYTES": "2048", "MOCK_DEVICES": "2"}
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "gpu" / "kill.py"), "--n", "96", "--kills", "3", "--dir", str(tmp_path)],
        env=env | {"MOCK_MEMORY": str(64 << 20)}, capture_output=True, text=True, check=False, timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("on 2 devices: nothing wrong\n")


def test_setting(tmp_path):
    got = child(
        tmp_path,
        START
        + """
result = []
for value in ('all', '2', 2, '0, 2', '1,0', 'ALL', 'default'):
    result.append(q(db, "SELECT gx_config('devices', ?)", value))
for value in ('none', '0', '17', '0,0', '0,', '0,16', '1.5', ''):
    result.append(error(db, "SELECT gx_config('devices', '" + value + "')"))
""",
        MOCK_DEVICES=3,
    )
    assert got[:7] == ["all", "2", "2", "0, 2", "1,0", "all", "1"] or got[:7] == ["all", 2, 2, "0, 2", "1,0", "all", 1]
    for value, text in zip(("none", "0", "17", "0,0", "0,", "0,16", "1.5", ""), got[7:]):
        assert text == (
            "gx_config: devices must be all, a number from 1 to 16, or a list of numbers below that such as '0,2', "
            f"not '{value}'"
        )


def test_small_work_stays(tmp_path):
    """`all` takes more devices only where that pays; fewer that are there than listed are no failure."""
    got = child(
        tmp_path,
        START
        + """
use('all')
q(db, "SELECT gx_matmul(gx_randn(20, 20), gx_randn(20, 20))")
result = [stats(db)['spread_calls']]
use('0,1,2,5')
q(db, "SELECT gx_config('deterministic', 'on')")
q(db, "SELECT gx_matmul('A', 'B', 'R')")
result += [stats(db)['spread_calls'], notes(db)]
rows = lambda sql: db.execute(sql).fetchall()
result += [rows("SELECT device, status, links FROM gx_devices WHERE backend = 'cuda'")]
result += [rows("SELECT chosen, device, shares FROM gx_plan('A @ B')")]
mock.order("gemm@1:1:lost")
q(db, "SELECT gx_matmul('A', 'B', 'R2')")
mock.order()
result += [rows("SELECT device, status, reason FROM gx_devices WHERE backend = 'cuda'"), stats(db)['devices_lost']]
""",
        MOCK_DEVICES=3,
    )
    assert got[0] == 0 and got[1] == 1
    assert got[2] == ["device 5 is left out: no device 5: there are 3"]
    assert [row[:2] for row in got[3]] == [[f"cuda:{d} mock", "used"] for d in range(3)]
    for d, row in enumerate(got[3]):
        assert row[2].count("direct") == 2 and f"cuda:{d}" not in row[2]
    assert got[4][0][:2] == [1, "cuda:0 mock and 2 more"] and got[4][1][2] is None
    shares = json.loads(got[4][0][2])
    assert list(shares) == ["cuda:0", "cuda:1", "cuda:2"] and abs(sum(shares.values()) - 1) < 0.01
    assert all(0.2 < share < 0.5 for share in shares.values())
    assert got[5][1] == ["cuda:1 mock", "off", "left out: gemm on mock:1: ordered failure"] and got[6] == 1


def test_nvidia(tmp_path):
    """The same by gx_cuda.so itself, on stand-ins for NVIDIA's libraries: copies between devices, links, a device lost."""
    got = child_on_stand_ins(
        tmp_path,
        START
        + """
q(db, "SELECT gx_config('deterministic', 'on')")
use('1')
alone = answers()
use('0,1,2')
result = [[name for name, value in answers().items() if value != alone[name]]]
s = stats(db)
result += [s['spread_calls'], s['peer_bytes'] > 0, notes(db), mock.counts()['violations'], mock.counts()['peers'] > 0]
links = db.execute("SELECT links FROM gx_devices WHERE backend = 'cuda'").fetchall()
result += [[json.loads(row[0])[other]['direct'] for row, other in zip(links, ('cuda:1', 'cuda:2', 'cuda:0'))]]
mock.order("cudaMemcpyPeerAsync:3:status")
answers()
mock.order()
result += [stats(db)['devices_lost'], stats(db)['device_fallbacks']]
db.close()
result += [mock.alive()]
""",
        MOCK_DEVICES=3,
    )
    assert got == [[], 8, True, [], 0, True, [True] * 3, 1, 0, {}]
