"""gx_knn on several devices that are not there (tests/mockcuda).

Plan:
- all metrics, few and many queries, lists longer than a device's rows, one's own row left out, ties across devices, on 2
  to 8 devices, alike and unlike, with and without a way between them: the CPU's rows, to the bit, nothing left behind;
- E goes up once in all, queries once; the next call reads and copies nothing of E;
- E that has no room on one of them goes by panels through the first;
- a row that is no numbers is named wherever it is;
- by gx_cuda.so itself, on stand-ins for NVIDIA's libraries, too; rows alike by the thousand are the host's;
- any call of any device fails, or all of one's from then on: the CPU's rows, counted.
"""
import pytest

from mockkit import ALL_WELL, child, child_on_stand_ins

pytestmark = pytest.mark.filterwarnings("error")

START = """
rng = np.random.default_rng(3)
host, db = connect('cpu', 4096), connect('cuda', 4096)
def put(name, a):
    host.execute("SELECT gx_store(?, ?, '{\\"replace\\":true}')", (name, from_numpy(a))).fetchone()
def use(devices):
    db.execute("SELECT gx_config('devices', ?)", (devices,)).fetchall()
def both(*args, **options):
    return both_knn(host, db, *args, **options)
E, Q = rng.standard_normal((1100, 20)).astype('<f4'), rng.standard_normal((70, 20)).astype('<f4')
E[7] = E[1000]
E[500:520] = E[:20]
put('E', E); put('Q', Q); put('D', E[:300].astype('<f8')); put('one', E[7:9])
"""


@pytest.mark.parametrize(
    "env",
    [{}, {"MOCK_PEERS": "none", "MOCK_MEMORY": f"{64 << 20},{16 << 20}", "MOCK_SLOW": "300,50"}],
    ids=["alike", "unlike"],
)
def test_same_bits(tmp_path, env):
    body = START + """
result = []
for devices in ('0,1', '0,1,2,3,4,5,6,7'):
    use(devices)
    for metric in ('cosine', 'l2', 'l1'):
        for q, e, k in (('Q', 'E', 10), ('one', 'E', 400), ('Q', 'D', 3)):
            result.append(both(q, e, k, metric=metric)['spread_calls'])
    result.append(both('E', 'E', 2, metric='dot', exclude_self=True)['spread_calls'])
violations = mock.counts()['violations']
remarks = notes(db)
db.close()
result = [result, violations, remarks, mock.alive()]
"""
    assert child(tmp_path, body, MOCK_DEVICES=8, **env) == [[1] * 20, 0, [], {}]


def test_up_once(tmp_path):
    body = START + """
result = []
for devices in ('1', '0,1', '0,1,2,3,4'):
    put('E', E)  # as if it were new
    use(devices)
    first, second = both('Q', 'E', 10), both('Q', 'E', 10)
    result.append([first['uploaded'] - second['uploaded'] == E.nbytes, second['device_hits'], second['uploaded'], second['bytes_read']])
"""
    got = child(tmp_path, body, MOCK_DEVICES=8)
    assert [row[:2] for row in got] == [[True, 1], [True, 2], [True, 5]]
    assert len({tuple(row[2:]) for row in got}) == 1, got  # what of the queries goes up does not depend on the devices


def test_beyond_their_memory(tmp_path):
    body = START + """
big = rng.standard_normal((60000, 32)).astype('<f4')
put('B', big)
db.execute("SELECT gx_config('device_memory_limit', ?)", (3 << 20,)).fetchall()
use('0,1')
did = both(from_numpy(big[:30]), 'B', 10)
result = [did['device_calls'], did['spread_calls'], did['device_hits']]
db.execute("SELECT gx_config('device_memory_limit', ?)", (7 << 20,)).fetchall()
did = both(from_numpy(big[:30]), 'B', 10)
result += [did['device_calls'], did['spread_calls']]
"""
    assert child(tmp_path, body, MOCK_DEVICES=2) == [1, 0, 0, 1, 1]


def test_no_numbers(tmp_path):
    body = START + """
use('0,1,2')
result = []
for row in (3, 400, 1099):
    bad = E.copy(); bad[row, 5] = np.nan; bad[1050, 2] = np.inf
    put('N', bad)
    result.append(error(db, "SELECT count(*) FROM gx_knn('Q', 'N', 1)"))
db.close()
result.append(mock.alive())
"""
    assert child(tmp_path, body, MOCK_DEVICES=3) == [
        "gx_knn: N has NaN at (3, 5)", "gx_knn: N has NaN at (400, 5)", "gx_knn: N has Inf at (1050, 2)", {}]


def test_by_gx_cuda_itself(tmp_path):
    body = START + """
use('0,1,2')
result = [both('Q', 'E', 10, metric=metric)['spread_calls'] for metric in ('cosine', 'l2', 'l1')]
put('twice', np.repeat(Q[:2], 4000, axis=0))
result.append(both('Q', 'twice', 5)['spread_calls'])
result.append(any('too much alike' in note for note in notes(db)))
db.close()
result.append(mock.alive())
"""
    assert child_on_stand_ins(tmp_path, body, MOCK_DEVICES=3) == [1, 1, 1, 0, True, {}]


@pytest.mark.parametrize("mode", ["", ":lost"])
def test_each_device_fails(tmp_path, mode):
    body = START + f"MODE = {mode!r}" + """
use('0,1,2')
want = knn(host, 'Q', 'E', 5)
points = [*range(1, 30, 3), *range(30, 400, 41)]
result = each_device_fails(db, mock, 3, points, lambda: knn(db, 'Q', 'D', 5), lambda: knn(db, 'Q', 'E', 5) == want, MODE, is_told=bool(MODE))
"""
    got = child(tmp_path, body, MOCK_DEVICES=3)
    assert got.pop("points") > 15
    assert got == ALL_WELL
