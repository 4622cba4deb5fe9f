"""Passes of Krylov methods over a matrix that is shared out to devices that are not there (tests/mockcuda).

Plan:
- eigenvalues of symmetric and Hermitian matrices, singular values of a general one (both ways through it) on 1 to 8
  devices, alike and of unlike memory and speed, with room for all of the matrix and for a part of it: NumPy's values,
  small residuals, nothing left behind; with `deterministic` the same bits;
- the matrix goes up the host's links once in all, and not again in the next call;
- devices that reach each other's memory have whole rows of a Hermitian matrix, made from each other's, and add a long y up
  there, so that it comes down once; without a way between them nothing of that, nor where there is no room for it;
- long vectors, which go up in four parts and come down in two, or in two for each stretch of a sum;
- the buffers that vectors go through are page-locked within `pinning_budget`, else pageable: the same bits; after an interrupt
  in the middle of a pass nothing is left;
- any call of any device fails, or all of one's from then on: the right values, counted, and the connection goes on;
- by gx_cuda.so itself, on stand-ins for NVIDIA's libraries, too.
"""
import pytest

import mockkit
from mockkit import ALL_WELL

pytestmark = pytest.mark.filterwarnings("error")



def child(tmp_path, body, run=mockkit.child, **env):
    """In a process of its own; who comes first measures the devices, for all."""
    return run(tmp_path, body, XDG_CACHE_HOME=tmp_path.parent / "passes", **env)


START = """
db = gx_connect(os.environ['TMP_PATH'] + '/a.db')
db.execute("SELECT gx_config('probe', 'off'), gx_config('tile_bytes', 8 * 16 * 16)").fetchall()
rng = np.random.default_rng(7)
n = 150
x = rng.standard_normal((n, n))
G = rng.standard_normal((n, 110))
c = x + 1j * rng.standard_normal((n, n))
MATRIX = {"S": x + x.T + np.diag(np.arange(n)), "H": c + c.conj().T, "G": G}
for name, a in MATRIX.items():
    q(db, "SELECT gx_store(?, ?)", name, from_numpy(a))
CALL = {
    "S": ("gx_eig('S', '{\\"k\\":4,\\"which\\":\\"LA\\",\\"method\\":\\"krylov\\",\\"symmetric\\":true}')", "value"),
    "H": ("gx_eig('H', '{\\"k\\":3,\\"which\\":\\"LA\\",\\"method\\":\\"krylov\\",\\"symmetric\\":true}')", "value"),
    "G": ("gx_svd('G', '{\\"k\\":4,\\"method\\":\\"krylov\\"}')", "sigma"),
}
RIGHT = {"S": np.linalg.eigvalsh(MATRIX["S"])[::-1], "H": np.linalg.eigvalsh(MATRIX["H"])[::-1],
         "G": np.linalg.svd(G)[1]}
def values(name):
    table, column = CALL[name]
    return db.execute(f"SELECT {column}, residual FROM {table}").fetchall()
def error_of(name, rows):
    want = RIGHT[name][:len(rows)]
    got = np.array(rows)
    return float(max(np.abs(got[:, 0] - want).max(), np.abs(got[:, 1]).max()) / want[0])
def use(devices):
    q(db, "SELECT gx_config('devices', ?)", devices)
    q(db, "SELECT gx_config('backend', 'cuda')")
"""


@pytest.mark.parametrize(
    "env, limit",
    [({"MOCK_PEERS": "none"}, 0), ({"MOCK_MEMORY": f"{64 << 20},{16 << 20}"}, 131072)],
    ids=["room for all", "unlike and small"],
)
def test_same_answers(tmp_path, env, limit):
    got = child(
        tmp_path,
        START
        + f"q(db, \"SELECT gx_config('device_memory_limit', {limit})\")\n"
        + """
result = []
for devices in ('1', '0,2,1', '0,1,2,3,4,5,6,7'):
    use(devices)
    before = stats(db)
    worst = max(error_of(name, values(name)) for name in CALL)
    result.append([worst, stats(db)['spread_calls'] - before['spread_calls'], stats(db)['device_fallbacks'], notes(db)])
q(db, "SELECT gx_config('deterministic', 'on')")
bits = set()
for devices in ('1', '0,1,2'):
    use(devices)
    bits.add(json.dumps([values(name) for name in CALL]))
violations = mock.counts()['violations']
db.close()
result.append([len(bits), violations, mock.alive()])
""",
        MOCK_DEVICES=8,
        **env,
    )
    assert got.pop() == [1, 0, {}]
    for k, (worst, spread, fallbacks, remarks) in enumerate(got):
        assert worst < 1e-12 and spread == (0 if k == 0 else 3) and fallbacks == 0 and remarks == [], (k, remarks)


def test_by_gx_cuda_itself(tmp_path):
    body = START + """
use('0,1,2')
result = [max(error_of(name, values(name)) for name in CALL), stats(db)['spread_calls'], notes(db), mock.counts()['violations']]
db.close()
result.append(mock.alive())
"""
    got = child(tmp_path, body, mockkit.child_on_stand_ins, MOCK_DEVICES=3)
    assert got[0] < 1e-12 and got[1:] == [3, [], 0, {}]


def test_up_once(tmp_path):
    got = child(
        tmp_path,
        START
        + """
result = []
for devices in ('1', '0,1', '0,1,2,3,4,5,6,7'):
    count = len(devices.split(','))
    for name, a in (('S', MATRIX['S']), ('G', MATRIX['G'])):
        use('1'); q(db, "SELECT gx_config('backend', 'cpu')"); use(devices)
        before = stats(db); values(name); between = stats(db); values(name); after = stats(db)
        again = after['uploaded'] - between['uploaded']
        result.append([name, count, (between['uploaded'] - before['uploaded'] - again) / a.nbytes,
                       after['device_hits'] - between['device_hits'], after['tiles_read'] - between['tiles_read'], notes(db)])
""",
        MOCK_DEVICES=8,
    )
    for name, count, up, hits, read, remarks in got:
        assert up <= 1 and (name != "G" or up == 1), (name, count, up)
        # Ten columns of blocks at most: those of a triangle are not enough for eight devices that are alike.
        assert 1 <= hits <= count and (hits > 1) == (count > 1) and read == 0 and remarks == [], (name, count)


TALL = """
T = rng.standard_normal((16400, 90)) * 0.7 ** np.arange(90)  # 24 columns of vectors: more than 3 MiB
q(db, "SELECT gx_store('T', ?)", from_numpy(T))
CALL['T'] = ("gx_svd('T', '{\\"k\\":4,\\"method\\":\\"krylov\\",\\"block\\":24}')", "sigma")
RIGHT['T'] = np.linalg.svd(T, compute_uv=False)
"""


@pytest.mark.parametrize("peers, limit", [("", 0), ("none", 0), ("", 131072)], ids=["linked", "apart", "small"])
def test_by_each_other(tmp_path, peers, limit):
    got = child(
        tmp_path,
        START
        + TALL
        + f"LIMIT = {limit}\n"
        + """
q(db, "SELECT gx_config('device_memory_limit', ?)", LIMIT)
result = {}
for devices in ('1', '0,2,1') if LIMIT else ('1', '0,2,1', '0,1,2,3,4,5,6,7'):
    use(devices)
    for name in 'S' if LIMIT else 'TS':
        before = stats(db); far = [error_of(name, values(name))]
        middle = stats(db); far += [error_of(name, values(name))]
        after = stats(db)
        result.setdefault(name, []).append([max(far), middle['peer_bytes'] - before['peer_bytes'],
                                            after['peer_bytes'] - middle['peer_bytes'],
                                            after['downloaded'] - middle['downloaded']])
remarks, violations = notes(db), mock.counts()['violations']
db.close()
result = [result, remarks, violations, mock.alive()]
""",
        MOCK_DEVICES=8,
        MOCK_PEERS=peers,
    )
    result = got.pop(0)
    assert got == [[], 0, {}]
    for name, (one, *more) in result.items():
        assert one[0] < 1e-12 and one[1:3] == [0, 0]
        for far, made, again, down in more:
            assert far < 1e-12
            if peers or limit:
                assert made == again == 0 and down > one[3], name
            elif name == "T":
                assert made == again > 0 and down < 2 * one[3], name
            else:  # rows that are kept, a product each
                assert made > again == 0 and down == one[3], name


LONG = """
L = rng.standard_normal((16700, 72)) * 0.7 ** np.arange(72)  # 24 columns of vectors: more than 3 MiB
w = rng.standard_normal((520, 520))  # 64 of them
for name, a in (("L", L), ("W", w + w.T)):
    q(db, "SELECT gx_store(?, ?)", name, from_numpy(a))
CALL['L'] = ("gx_svd('L', '{\\"k\\":4,\\"method\\":\\"krylov\\",\\"block\\":24}')", "sigma")
CALL['W'] = ("gx_eig('W', '{\\"k\\":2,\\"which\\":\\"LA\\",\\"method\\":\\"krylov\\",\\"symmetric\\":true,\\"block\\":64}')", "value")
RIGHT['L'], RIGHT['W'] = np.linalg.svd(L, compute_uv=False), np.linalg.eigvalsh(w + w.T)[::-1]
"""


@pytest.mark.parametrize("peers", ["", "none"], ids=["linked", "apart"])
def test_long_vectors(tmp_path, peers):
    """In four parts up, two a stretch down."""
    got = child(
        tmp_path,
        START
        + LONG
        + """
result = []
for devices in ('1', '0,2,1'):
    use(devices)
    result += [error_of('L', values('L')), error_of('W', values('W'))]
remarks, violations = notes(db), mock.counts()['violations']
db.close()
result = [max(result), remarks, violations, mock.alive()]
""",
        MOCK_DEVICES=3,
        MOCK_PEERS=peers,
    )
    assert got[0] < 1e-11 and got[1:] == [[], 0, {}]


@pytest.mark.parametrize("run", [mockkit.child, mockkit.child_on_stand_ins], ids=["backend", "gx_cuda"])
def test_vectors_through_pageable_buffers(tmp_path, run):
    got = child(
        tmp_path,
        START
        + LONG
        + """
import threading
result = []
for devices in ('1', '0,1'):
    use(devices)
    seen = []
    for budget in (1 << 20, 1 << 30):  # vectors have more
        q(db, "SELECT gx_config('pinning_budget', ?)", budget)
        before = stats(db)
        seen.append([values(name) for name in 'LW'])
        result.append((stats(db)['pinned_denied'] > before['pinned_denied']) == (budget == 1 << 20))
    result += [seen[0] == seen[1], max(error_of(name, rows) for name, rows in zip('LW', seen[1])) < 1e-11]
for wait in (0.001, 0.003, 0.01, 0.03, 0.1):
    timer = threading.Timer(wait, db.interrupt)
    timer.start()
    try:
        values('L')
    except sqlite3.OperationalError as stop:
        result.append('interrupted' in str(stop))
    timer.join()
result.append(error_of('L', values('L')) < 1e-11)
remarks, violations = notes(db), mock.counts()['violations']
db.close()
result = [all(result), remarks, violations, mock.alive()]
""",
        run=run,
        MOCK_DEVICES=2,
        MOCK_MEMORY=128 << 20,  # what interrupted calls leave is not to be given back
    )
    assert got == [True, [], 0, {}]


@pytest.mark.parametrize("name, mode", [("S", ":lost"), ("G", ""), ("T", ""), ("L", ":lost")])
def test_each_device_fails(tmp_path, mode, name):
    got = child(
        tmp_path,
        START
        + {"T": TALL, "L": LONG}.get(name, "")
        + f"MODE, NAME = {mode!r}, {name!r}\n"
        + """
use('0,1,2')
points = [*range(1, 12, 3), *range(12, 2000, 199 if NAME in 'SG' else 399)]
result = each_device_fails(db, mock, 3, points, lambda: values('H'), lambda: error_of(NAME, values(NAME)) <= 1e-12, MODE,
                           is_told=bool(MODE))  # else the pool may have found memory after all
""",
        timeout=300,
        MOCK_DEVICES=3,
    )
    assert got.pop("points") > 10
    assert got == ALL_WELL


def test_all_of_them_fail(tmp_path):
    """One after the other: the host has the last word."""
    got = child(
        tmp_path,
        START
        + """
use('0,1')
result = [error_of('S', values('S'))]
mock.order("gemm@0:3:lost")
result += [error_of('S', values('S')), stats(db)['devices_lost'], stats(db)['device_fallbacks']]
mock.order("gemm@1:3:lost")
result += [error_of('S', values('S')), stats(db)['devices_lost'], stats(db)['device_fallbacks']]
mock.order()
result += [error_of('S', values('S'))]
""",
        MOCK_DEVICES=2,
    )
    assert max(got[0], got[1], got[4], got[7]) < 1e-12 and got[2:4] == [1, 0] and got[5:7] == [1, 1]

