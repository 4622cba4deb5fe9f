"""gx_eval on a device that is not there (tests/mockcuda): what stays there, what travels, what happens when it fails.

Plan:
- random programs (evalkit.py), every step that can be on the device there: the CPU's answers, nothing left on the device;
- a loop of products sends its operands once and fetches its result once, in bytes; a second call sends nothing;
- distances, of every metric and dtype: the kernels of the device where there are some, the host for the others;
- each call of the device failed: the right answer all the same, by the host; too little memory: the same;
- a step of the host that asks a driver, which takes the device for itself, waits for what is under way there;
- an interrupt and a run-time error leave nothing behind;
- rounds of a loop that are enqueued whole: the host's answers and counts, for bodies whose variables come back after one round,
  after two, or not; what cannot be recorded is not; each call of a record failed.
"""
import os

import pytest

from mockkit import child, child_on_stand_ins

pytestmark = pytest.mark.filterwarnings("error")
PROGRAMS = int(os.environ.get("GX_PROGRAMS", "60"))

FILE = """
path = os.environ['TMP_PATH'] + '/a.db'
db = gx_connect(path)
q(db, "SELECT gx_config('backend', 'cuda')")
rng = np.random.default_rng(3)
A = rng.standard_normal((80, 80)) / 9
x = rng.standard_normal((80, 40))
for name, value in {'A': A, 'x': x}.items():
    q(db, "SELECT gx_store(?, ?, '{\\"replace\\":true}')", name, from_numpy(value))
LOOP = "y = x; repeat 12 { y = A @ y; y = tanh(y) * 2 - y } y"
def want():
    y = x
    for _ in range(12):
        y = A @ y
        y = np.tanh(y) * 2 - y
    return y
def right(value):
    return bool(np.allclose(to_numpy(value), want()))
"""


def test_drivers_between(tmp_path):
    """A slice with steps of its own on the device, between kernels whose buffers are given back already."""
    got = child(
        tmp_path,
        """
rng = np.random.default_rng(1)
C, D = rng.standard_normal((41, 40)), rng.standard_normal((1, 40)) + 1j * rng.standard_normal((1, 40))
db = gx_connect()
q(db, "SELECT gx_config('backend', 'cuda')")
db.execute("SELECT gx_store('C', ?), gx_store('D', ?)", (from_numpy(C), from_numpy(D))).fetchall()
def right(text, want):
    return bool(np.allclose(to_numpy(q(db, "SELECT gx_eval(?)", text)), want))
result = []
for _ in range(3):
    result.append(right('(C + norm(D)) + D[:, 31]', C + np.linalg.norm(D) + D[:, 31]))
    result.append(right('(C * norm(D)) + (D + D[:, 31])', C * np.linalg.norm(D) + D + D[:, 31]))
""",
        MOCK_SLOW=2000,
    )
    assert all(got)


def test_distances(tmp_path):
    got = child(
        tmp_path,
        """
from scipy.spatial.distance import cdist
rng = np.random.default_rng(2)
db = gx_connect()
q(db, "SELECT gx_config('backend', 'cuda')")
result = []
for dtype in ('<f8', '<f4'):
    for m, n, d in ((70, 40, 9), (1, 1500, 33), (130, 65, 1), (0, 1030, 3), (1030, 3, 0)):
        A, B = (rng.standard_normal((k, d)) + 100 for k in (m, n))
        for metric in ('l2', 'sqeuclidean', 'l1', 'cosine', 'hamming'):
            a, b = ((x > 100).astype(dtype) if metric == 'hamming' else x.astype(dtype) for x in (A, B))
            name = {'l2': 'euclidean', 'l1': 'cityblock'}.get(metric, metric)
            want = cdist(a.astype('f8'), b.astype('f8'), name) if d and m else np.zeros((m, n))
            value = to_numpy(q(db, "SELECT gx_distance(?, ?, json_object('metric', ?))", from_numpy(a), from_numpy(b), metric))
            total = q(db, f"SELECT gx_eval('sum(distance(?1, ?2, ''{metric}''))', ?, ?)", from_numpy(a), from_numpy(b))
            near = 1e-13 if dtype == '<f8' else 1e-6
            is_right = value.shape == (m, n) and value.dtype == np.dtype(dtype)
            if d > 0:
                is_right = is_right and np.allclose(value, want, rtol=near, atol=near) and np.isclose(total, want.sum(), rtol=near, atol=m * n * near)
            result.append(bool(is_right) or repr((dtype, m, n, d, metric)))
before = q(db, "SELECT value FROM gx_stats WHERE name = 'gpu_ops'")
q(db, "SELECT gx_eval('A = randn(200, 30); sum(distance(A, A))')")
result.append(q(db, "SELECT value FROM gx_stats WHERE name = 'gpu_ops'") - before)  # drawn, compared, added up
""",
    )
    assert got.pop() == 1
    assert all(x is True for x in got), [x for x in got if x is not True]


def test_random_programs(tmp_path):
    got = child(
        tmp_path,
        f"PROGRAMS = {PROGRAMS}"
        """
from evalkit import larger
db = gx_connect()
q(db, "SELECT gx_config('backend', 'cuda')")
wrong, done = [], 0
for seed in range(1000, 1000 + PROGRAMS):
    generator = larger(seed, 40)
    made = generator.program(5)
    if made is None:
        continue
    text, value, tolerance = made
    for name, matrix in generator.stored.items():
        q(db, "SELECT gx_store(?, ?, '{\\"replace\\":true}')", name, from_numpy(matrix))
    out = q(db, 'SELECT gx_eval(?, ?, ?)', 'unused = ?1 * ?2; ' + text, from_numpy(generator.env['?1']), 0.5)
    out = to_numpy(out) if isinstance(out, bytes) else np.array([[out]])
    done += 1
    if not np.allclose(out, value, rtol=0, atol=tolerance):
        wrong.append([seed, text])
s = stats(db)
result = [wrong, done, s['gpu_ops'], s['device_fallbacks'], notes(db)]
db.close()
result.append(mock.alive())
""",
        timeout=300 + PROGRAMS,
    )
    assert got[0] == [] and got[1] > 20 and got[2] > 30 and got[3] == 0, got
    assert got[5] == {}


@pytest.mark.parametrize("machine", [child, child_on_stand_ins], ids=["backend", "libraries"])
def test_residency(tmp_path, machine):
    got = machine(
        tmp_path,
        FILE
        + """
q(db, "SELECT gx_eval('A @ x')")
q(db, "SELECT gx_eval('1')")
def bytes_of(text):
    before = stats(db)
    value = q(db, 'SELECT gx_eval(?)', text)
    after = stats(db)
    return right(value), [after[k] - before[k] for k in ('uploaded', 'downloaded', 'gpu_ops', 'device_hits')]
again = bytes_of(LOOP)
q(db, "SELECT gx_config('backend', 'cpu')")
q(db, "SELECT gx_config('backend', 'cuda')")
first = bytes_of(LOOP)
result = [first, again]
db.close()
result.append(mock.alive())
""",
    )
    assert got[0][0] and got[1][0], got
    assert got[0][1][0] in (0, 8 * (80 * 80 + 80 * 40)) and got[0][1][1] == 8 * 80 * 40, got
    assert got[1][1][0] == 0 and got[1][1][1] == 8 * 80 * 40 and got[1][1][3] >= 2, got
    assert got[0][1][2] >= 24
    assert got[2] == {}


def test_failures(tmp_path):
    """Each call of the device fails once."""
    got = child(
        tmp_path,
        FILE
        + """
wrong = []
for call in ('alloc', 'kernel', 'upload', 'download', 'wait'):
    for nth in (1, 2, 3, 5, 9, 14):
        db.close()
        db = gx_connect(path)
        q(db, "SELECT gx_config('backend', 'cuda')")
        q(db, "SELECT gx_eval('A @ x')")
        mock.order(f'{call}:{nth}')
        try:
            if not right(q(db, 'SELECT gx_eval(?)', LOOP)):
                wrong.append([call, nth])
        except Exception as problem:
            wrong.append([call, nth, str(problem)])
        mock.order('')
db.close()
result = [wrong, mock.alive()]
""",
        timeout=300,
    )
    assert got[0] == [] and got[1] == {}, got


def test_little_memory(tmp_path):
    got = child(
        tmp_path,
        FILE
        + """
q(db, "SELECT gx_config('device_memory_limit', '100KB')")
result = [right(q(db, 'SELECT gx_eval(?)', LOOP)), notes(db)]
q(db, "SELECT gx_config('device_memory_limit', '140KB')")
result.append(right(q(db, 'SELECT gx_eval(?)', LOOP)))
try:
    q(db, "SELECT gx_eval('inverse(A - A + ones(80, 80)) @ A')")
except Exception as problem:
    result.append(str(problem))
db.close()
result.append(mock.alive())
""",
    )
    assert got[0] and got[2] and "singular" in got[3] and got[4] == {}, got


REPLAYS = """
db = gx_connect()
rng = np.random.default_rng(5)
m = {name: rng.standard_normal((64, 64)) / 10 for name in 'ABXY'}
for name, value in m.items():
    q(db, "SELECT gx_store(?, ?)", name, from_numpy(value))
NAMES = ('graph_replays', 'nodes', 'fused_groups', 'gpu_ops', 'kernels', 'uploaded', 'downloaded')
def run(text, backend='cuda'):
    q(db, "SELECT gx_config('backend', ?)", backend)
    before = stats(db)
    value = to_numpy(q(db, 'SELECT gx_eval(?)', text))
    return value, {k: stats(db)[k] - before[k] for k in NAMES}
def both(text):
    value, counts = run(text)
    want, there = run(text, 'cpu')
    assert np.allclose(value, want, rtol=1e-9, atol=1e-12), text
    assert counts['nodes'] == there['nodes'] and counts['fused_groups'] == there['fused_groups'], (counts, there)
    return counts
"""


@pytest.mark.parametrize("machine", [child, child_on_stand_ins], ids=["backend", "libraries"])
def test_replays(tmp_path, machine):
    got = machine(
        tmp_path,
        REPLAYS
        + """
twenty = 'X = A @ X; X = tanh(X); ' * 10
result = [
    both(f'repeat 60 {{ {twenty} }} X'),
    both('repeat 101 { X = A @ X + B } X'),
    both('repeat 50 { T = X; X = A @ Y + T; Y = T * 0.5 } X + Y'),
    both('repeat 40 { X = A @ (X * 0.5); Y = Y.T - X } X @ Y'),
    both('repeat 3 { repeat 30 { X = tanh(A @ X) } Y = Y + X } Y'),
    both('repeat 10 { X = A @ X } X'),
    both('repeat 40 { X = A @ X; X = X / norm(X) } X'),
    both('k = 0; repeat 40 { X = A @ X; k = k + 1 } X * k'),
    both('repeat 20 { X = A @ X; X = inverse(X * 0.01 + eye(64)) } X'),
]
db.close()
result.append(mock.alive())
""",
    )
    alive = got.pop()
    replays = [counts["graph_replays"] for counts in got]
    assert replays[0] in (29, 58) and replays[1] in (49, 99) and replays[3] >= 1, replays
    assert replays[2] >= 1 and replays[4] in (3 * 14, 3 * 28) and replays[5:] == [0, 0, 0, 0], replays
    assert got[0]["gpu_ops"] == 60 * 20 and got[1]["gpu_ops"] == 202, got
    assert got[0]["downloaded"] == 64 * 64 * 8 and alive == {}, (got, alive)


def test_replays_that_fail(tmp_path):
    got = child(
        tmp_path,
        REPLAYS
        + """
text = 'repeat 60 { X = A @ X + B; X = tanh(X) } X'
want = run(text, 'cpu')[0]
run(text)
result = []
for order in ('record_begin:1', 'record_end:1', 'gemm:4', 'replay:1', 'replay:2', 'queue_wait:2', 'replay:3:lost'):
    if result:
        db.close()
        db = gx_connect()
        for name, value in m.items():
            q(db, "SELECT gx_store(?, ?)", name, from_numpy(value))
        run('A @ X')
    mock.order(order)
    value, counts = run(text)
    mock.order('')
    result.append([order, bool(np.allclose(value, want)), counts['graph_replays'] > 0, stats(db)['device_fallbacks'], notes(db)])
db.close()
result.append(mock.alive())
""",
    )
    alive = got.pop()
    assert all(right for _, right, *_ in got) and alive == {}, (got, alive)
    # A record that cannot be made leaves the device as it is, without records.
    assert [(replayed, fallbacks) for _, _, replayed, fallbacks, _ in got[:3]] == [(False, 0)] * 3, got
    assert all("round by round" in notes[-1] for *_, notes in got[:3]), got
    assert all(fallbacks == 1 for *_, fallbacks, _ in got[3:]), got
