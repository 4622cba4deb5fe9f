"""gx_knn on a device (the stand-in): the CPU's results to the bit, what is read and copied, who computes.

Plan:
1. all metrics, few and many queries, k, one's own row left out, stored and as values: the CPU's rows, to the bit; by gx_cuda.so itself, too
2. the second call reads and copies nothing of E, but after a change does; candidates, too
3. E beyond the device's memory goes by panels, for each batch: the same rows
4. long lists, hamming, rows alike by the thousand, very large numbers: the host's turn, with the reason
5. hundreds of wide queries, which gx_cuda.so multiplies in pieces: the same rows, also where a part of that fails
6. NaN and Inf are named; devices that fail or are lost on the way: the CPU's rows
7. gx_plan shows the device
8. thousands of queries, made ready while those before them are searched for: the same rows, and the one that is refused is named
"""
import pytest
from mockkit import child, child_on_stand_ins

MAKE = """
rng = np.random.default_rng(3)
host, db = connect('cpu', 16384), connect('cuda', 16384)
def put(name, a):
    host.execute("SELECT gx_store(?, ?, '{\\"replace\\":true}')", (name, from_numpy(a))).fetchone()
def both(*args, **options):
    return both_knn(host, db, *args, **options)
E, Q = rng.standard_normal((3000, 20)).astype('<f4'), rng.standard_normal((70, 20)).astype('<f4')
E[7] = E[2000]
put('E', E); put('Q', Q); put('one', Q[:3].astype('<f8'))
"""

SAME = MAKE + """
result = 0
for metric in ('cosine', 'dot', 'l2', 'sqeuclidean', 'l1'):
    for q in ('Q', 'one'):
        for k in (1, 10, 300):
            result += both(q, 'E', k, metric=metric)['device_calls']
    result += both('Q', from_numpy(E[:50]), 5, metric=metric)['device_calls']
    put('F', (E[:200] + 1e4).astype('<f4'))
    result += both('F', 'F', 4, metric=metric, exclude_self=True)['device_calls']
    result += both(from_numpy(Q.astype('<f8')), from_numpy(E.astype('<f8')), 6, metric=metric)['device_calls']
assert mock.counts()['violations'] == 0
db.close()
assert mock.alive() == {}
"""


def test_same_bits(tmp_path):
    assert child(tmp_path, SAME) == 5 * 9


def test_same_bits_by_gx_cuda_itself(tmp_path):
    assert child_on_stand_ins(tmp_path, SAME) == 5 * 9


def test_kept(tmp_path):
    body = MAKE + """
result = []
put('C', rng.integers(0, 3000, (70, 9)).astype('<f8'))
for step in range(3):
    for options in ({}, {'candidates': 'C'}):
        did = both('Q', 'E', 9, **options)
        result.append([did['device_calls'], did['device_hits'], did['bytes_read'] >= E.nbytes, did['uploaded'] >= E.nbytes])
    if step == 1:
        put('E', E + 1)
"""
    first = [1, 0, True, True]
    assert child(tmp_path, body) == [first, [1, 1, False, False], [1, 1, False, False], [1, 1, False, False], first, [1, 1, False, False]]


def test_by_panels(tmp_path):
    body = MAKE + """
big = rng.standard_normal((60000, 32)).astype('<f4')
put('B', big)
put('P', big[:40])
db.execute("SELECT gx_config('device_memory_limit', ?)", (7 << 20,)).fetchall()
did = both('P', 'B', 10)
result = [did['device_calls'], did['device_hits'], did['uploaded'] >= big.nbytes, stats(db)['device_used'] <= 7 << 20]
both('P', 'B', 3, metric='l2')
both('P', 'B', 3, metric='l1')
big[59000, 3] = np.inf
put('B', big)
result.append(error(db, "SELECT count(*) FROM gx_knn('P', 'B', 1)"))
assert mock.counts()['violations'] == 0
db.close()
assert mock.alive() == {}
"""
    assert child(tmp_path, body) == [1, 0, True, True, "gx_knn: B has Inf at (59000, 3)"]


def test_left_to_the_host(tmp_path):
    body = MAKE + """
result = []
result.append(both('Q', 'E', 1025)['device_calls'])
assert any('more than 1024' in note for note in notes(db)), notes(db)
put('bits', (E[:60] > 0).astype('<f4'))
result.append(both('bits', 'bits', 3, metric='hamming')['device_calls'])
assert any('hamming' in note for note in notes(db)), notes(db)
put('twice', np.repeat(Q[:2], 4000, axis=0))
result.append(both('Q', 'twice', 5)['device_calls'])
assert any('too much alike' in note for note in notes(db)), notes(db)
put('huge', (E[:40] * 1e30).astype('<f4'))
result.append(both('Q', 'huge', 5, metric='dot')['device_calls'])
wide = rng.standard_normal((40, 20))
wide[::3] *= 1e-200
result.append(both(from_numpy(wide), from_numpy(wide), 5, metric='cosine')['device_calls'])
put('some', np.tile([[1.0, 2.0]], (40, 1)))
result.append(both(from_numpy(wide * 1e200), from_numpy(wide), 5, metric='cosine', candidates='some')['device_calls'])
put('zero', np.zeros((2, 20), '<f4'))
result.append(both('zero', 'E', 3, candidates='[[4,5],[6,7]]')['device_calls'])
"""
    assert child_on_stand_ins(tmp_path, body) == [0] * 5 + [1, 0]


def test_in_pieces(tmp_path):
    body = MAKE + """
E, Q = rng.standard_normal((1501, 70)).astype('<f4'), rng.standard_normal((2250, 70)).astype('<f4')
E[7] = E[1200]
put('E', E); put('Q', Q); put('some', Q[:200])
result = 0
for metric in ('cosine', 'dot', 'l2'):
    result += both('Q', 'E', 3, metric=metric)['device_calls']
    result += both('some', 'E', 20, metric=metric)['device_calls']
before = mock.counts()['halves']
for dtype in ('f16', 'bf16'):
    q(host, "SELECT gx_cast('E', ?, 'H', '{\\"replace\\":true}')", dtype)
    for metric in ('cosine', 'dot', 'l2'):
        result += both('Q', 'H', 3, metric=metric)['device_calls']
assert mock.counts()['halves'] == before + 6, mock.counts()['halves'] - before
want = knn(host, 'some', 'E', 4)
for name, most in (('gemm', 1), ('cudaLaunchKernel', 6)):
    for n in range(1, most + 1):
        other = connect('cuda', 16384)
        knn(other, Q[:1].tobytes(), 'E', 1)
        mock.order(f'{name}:{n}')
        assert knn(other, 'some', 'E', 4) == want, (name, n)
        mock.order()
        assert stats(other)['device_fallbacks'] == 1, (name, n)
        other.close()
db.close()
assert mock.alive() == {}
"""
    assert child_on_stand_ins(tmp_path, body, MOCK_MEMORY=1 << 30) == 12


def test_faults(tmp_path):
    body = MAKE + """
result = []
def asked(db):
    return knn(db, 'Q', 'E', 5), knn(db, 'Q', 'E', 5, candidates=json.dumps(np.arange(140).reshape(70, 2).tolist()))
want = asked(host)
knn(db, 'Q', 'one', 1) # the profile is measured
for name in ('nearest', 'merit', 'upload', 'download', 'alloc', 'memory', 'pin', 'mark_create', 'mark_set', 'queue_wait', 'kernel_later'):
    for n in (1, 2, 5):
        other = connect('cuda', 16384)
        knn(other, 'Q', 'one', 1)
        mock.order(f'{name}:{n}')
        if asked(other) != want:
            result.append((name, n))
        mock.order()
        other.close()
        assert mock.counts()['violations'] == 0
E[1234, 5] = np.nan
put('E', E)
result.append(error(db, "SELECT count(*) FROM gx_knn('Q', 'E', 1)"))
result.append(error(db, "SELECT count(*) FROM gx_knn('one', 'E', 1, '{\\"candidates\\":\\"[[3],[1234],[5]]\\"}')"))
db.close()
assert mock.alive() == {}
"""
    assert child(tmp_path, body) == ["gx_knn: E has NaN at (1234, 5)"] * 2


def test_plan(tmp_path):
    body = MAKE + """
result = [[device, seconds > 0] for device, seconds in db.execute("SELECT device, seconds FROM gx_plan('knn(Q, E, 10)')")]
"""
    rows = child(tmp_path, body)
    assert [row[0] for row in rows] == ["cuda:0 mock", "cpu"] and all(row[1] for row in rows)


GROUPS = MAKE + """
many = rng.standard_normal((4500, 20)).astype('<f4')
put('M', many)
result = []
for metric in ('cosine', 'l2', 'dot'):
    both('M', 'E', 3, metric=metric)
    did = both('M', 'E', 3, metric=metric)
    result.append([did['device_calls'], did['device_hits']])
for row in (4400, 2100, 7):
    many[row, 3] = np.nan
    put('M', many)
    try:
        db.execute("SELECT count(*) FROM gx_knn('M', 'E', 3)").fetchone()
        result.append('nothing')
    except Exception as said:
        result.append(str(said))
put('M', np.nan_to_num(many))
both('M', 'E', 3)
assert mock.counts()['violations'] == 0
db.close()
assert mock.alive() == {}
"""


@pytest.mark.parametrize("run", [child, child_on_stand_ins], ids=["mock", "gx_cuda"])
def test_made_ready_meanwhile(tmp_path, run):
    found = run(tmp_path, GROUPS)
    assert found[:3] == [[1, 1]] * 3
    assert ["M has NaN at (%d, 3)" % row in said for row, said in zip((4400, 2100, 7), found[3:])] == [True] * 3, found
