"""gx_eval programs with independent parts, on several devices that are not there (tests/mockcuda).

Plan:
- two and more parts (loops, loops that are recorded, sums in between, numbers and small matrices that cross, several
  stored results) on 2 to 8 devices, with and without a way between them: one device's bits, nothing left behind;
- parts that hang together by a large value stay on one device;
- operands go up once in all, and are found where they are by the next call;
- any call of any device fails, or all of one's from then on: the same bits, counted;
- by gx_cuda.so itself, on stand-ins for NVIDIA's libraries, too.
"""
import pytest

from mockkit import ALL_WELL, child, child_on_stand_ins

pytestmark = pytest.mark.filterwarnings("error")

START = """
rng = np.random.default_rng(5)
db = gx_connect(os.environ['TMP_PATH'] + '/a.db')
db.execute("SELECT gx_config('profile', 'off'), gx_config('backend', 'cuda')").fetchall()
n = 40
for name in "ABCD":
    q(db, "SELECT gx_store(?, ?)", name, from_numpy(rng.standard_normal((n, n)) / 8))
LOOP = "{0} = {1}; repeat 40 {{ {0} = ({1} @ {0}) * 0.5 + {1} }} "
PROGRAMS = {
    "halves": LOOP.format("x", "A") + LOOP.format("y", "B") + "sum(x) - 2 * sum(y)",
    "sums between": LOOP.format("x", "A") + "s = sum(x); " + LOOP.format("y", "B") + "t = sum(y); z = C; repeat 40 { z = C @ z / 2 + s } "
                    "w = D; repeat 40 { w = D @ w / 2 + t } sum(z) + max(w) + s",
    "short": "x = A; repeat 20 { x = A @ x @ A @ x @ A } y = B; repeat 7 { y = B @ y; s = sum(y); y = y / (1 + abs(s)) } "
             "z = C; repeat 40 { z = tanh(z @ C) } norm(x) + norm(y) + norm(z)",
    "stored": LOOP.format("x", "A") + LOOP.format("y", "B") + "P := x.T; Q := y * 2; sum(P) + Q[3, 5]",
    "small": LOOP.format("x", "A") + LOOP.format("y", "B") + "u = x[0:4, 0:4]; v = y[0:4, 0:4]; sum(u @ v) + sum(v @ u)",
    "one": "x = A; y = B; repeat 40 { x = A @ x / 2; y = B @ y / 2 } sum(x @ y)",
}
def run(name):
    text = PROGRAMS[name]
    value = db.execute("SELECT gx_eval(?, '{\\"replace\\":true}')", (text,)).fetchone()[0]
    stored = [q(db, "SELECT gx_copy(?)", name).hex() for name in "PQ"] if ":=" in text else []
    return [value, stored]
def use(devices):
    db.execute("SELECT gx_config('devices', ?)", (devices,)).fetchall()
"""


@pytest.mark.parametrize("env", [{}, {"MOCK_PEERS": "none", "MOCK_SLOW": "300,50"}], ids=["alike", "no peers"])
def test_same_bits(tmp_path, env):
    body = START + """
result = []
want = {name: run(name) for name in PROGRAMS}
for devices in ('0,1', '0,1,2,3,4'):
    use(devices)
    for name in PROGRAMS:
        before = stats(db)
        differs = [run(name) != want[name], run(name) != want[name]]
        result.append([name, differs, stats(db)['spread_calls'] - before['spread_calls']])
remarks, violations = notes(db), mock.counts()['violations']
db.close()
result = [result, remarks, violations, mock.alive()]
"""
    got, remarks, violations, alive = child(tmp_path, body, MOCK_DEVICES=8, **env)
    assert (remarks, violations, alive) == ([], 0, {})
    for name, differs, spread in got:
        assert differs == [False, False], name
        assert spread == (0 if name == "one" else 2), name


def test_by_gx_cuda_itself(tmp_path):
    """On stand-ins for NVIDIA's libraries: loops recorded on each device."""
    body = START + """
want = {name: run(name) for name in ('halves', 'stored', 'small')}
use('0,1,2')
before = stats(db)
result = [[run(name) == want[name] for name in want], stats(db)['spread_calls'] - before['spread_calls'],
          stats(db)['graph_replays'] > before['graph_replays'], notes(db), mock.counts()['violations']]
db.close()
result.append(mock.alive())
"""
    assert child_on_stand_ins(tmp_path, body, MOCK_DEVICES=3) == [[True] * 3, 3, True, [], 0, {}]


def test_up_once(tmp_path):
    body = START + """
use('0,1')
before = stats(db); run('halves'); between = stats(db); run('halves'); after = stats(db)
result = [between['uploaded'] - before['uploaded'], after['uploaded'] - between['uploaded'],
          after['device_hits'] - between['device_hits'], after['bytes_read'] - between['bytes_read']]
"""
    got = child(tmp_path, body, MOCK_DEVICES=2)
    assert got == [2 * 8 * 40 * 40, 0, 2, 0]


@pytest.mark.parametrize("name, mode", [("halves", ":lost"), ("stored", "")])
def test_each_device_fails(tmp_path, name, mode):
    body = START + f"NAME, MODE = {name!r}, {mode!r}" + """
want = run(NAME)
use('0,1')
points = [*range(1, 30, 6), *range(30, 900, 97)]
result = each_device_fails(db, mock, 2, points, lambda: run('short'), lambda: run(NAME) == want, MODE, is_told=bool(MODE),
                           may_fall_back=not MODE)
"""
    got = child(tmp_path, body, MOCK_DEVICES=2)
    assert got.pop("points") > 5
    assert got == ALL_WELL
