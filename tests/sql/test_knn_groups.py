"""gx_knn of more queries than one group, on devices that are not there (tests/mockcuda).

Plan, on one device and on two, by the stand-in and, most of it, by gx_cuda.so itself:
1. all metrics: the CPU's rows, to the bit; one call, counted once
2. whatever fails in the search: the CPU's rows, told and counted, nothing left behind
3. queries of a later group that a device cannot tell apart are the host's; scores that overflow there are an error
4. the first search, which brings E by panels: the CPU's rows; whatever fails there
5. candidates; lists that the buffer for copies does not hold, of all rows
"""
import pytest
from mockkit import child, child_on_stand_ins

pytestmark = pytest.mark.filterwarnings("error")

MAKE = """
rng = np.random.default_rng(3)
host, db = connect('cpu', 4096), connect('cuda', 4096)
def put(name, a):
    host.execute("SELECT gx_store(?, ?, '{\\"replace\\":true}')", (name, from_numpy(a))).fetchone()
E, Q = rng.standard_normal((160, 8)).astype('<f4'), rng.standard_normal((4500, 8)).astype('<f4')
put('E', E); put('Q', Q); put('A', E[:50].astype('<f8'))
db.execute("SELECT gx_config('devices', ?)", (os.environ['DEVICES'],)).fetchall()
parts = 1 + os.environ['DEVICES'].count(',')
SQL = "SELECT query, id, score FROM gx_knn('Q', 'E', 4)"
want = host.execute(SQL).fetchall()
def ended():
    violations = mock.counts()['violations']
    for connection in (db, host):
        connection.close()
    return [dealt, violations, mock.alive()]
assert db.execute(SQL).fetchall() == want  # E is there
dealt = both_knn(host, db, 'Q', 'E', 4)['device_hits']  # devices that have rows of it
result = []
"""

EACH = pytest.mark.parametrize(
    "run, devices",
    [(child, "1"), (child, "0,1"), (child_on_stand_ins, "0,1")],
    ids=["mock", "mocks", "gx_cuda"],
)


MOCKS = pytest.mark.parametrize("devices", ["1", "0,1"])


def outcome(run, tmp_path, devices, body, **machine):
    """What the body found.  Rows are dealt by rates that are measured: a device that other work kept from its processor when it
    was opened may have none, and that is not what is looked at here: once more."""
    body = MAKE + body + "\nresult += ended()\n"
    for attempt in range(5):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        *found, dealt, violations, alive = run(folder, body, DEVICES=devices, MOCK_DEVICES=2, MOCK_MEMORY=1 << 30, **machine)
        assert [violations, alive] == [0, {}]
        if dealt == 1 + devices.count(","):
            return found
    raise AssertionError(f"rows were dealt to {dealt} of the devices {devices}, five times")


@EACH
def test_same_rows(tmp_path, run, devices):
    body = """
for metric in ('cosine', 'dot', 'l2', 'l1'):
    for options in ({}, {'exclude_self': True}):
        q = 'E' if options else 'Q'
        did = both_knn(host, db, q, 'E', 4, metric=metric, **options)
        result.append([did[name] for name in ('calls', 'device_calls', 'spread_calls', 'device_hits', 'device_fallbacks')])
result.append(both_knn(host, db, Q.astype('<f4').tobytes(), 'E', 4, dtype='f32')['device_hits'])
"""
    parts = 1 + devices.count(",")
    assert outcome(run, tmp_path, devices, body) == [[1, 1, parts - 1, parts, 0]] * 8 + [parts]


FAILURES = """
def rows_with(failure):
    mock.order(failure)
    got = db.execute(SQL).fetchall()
    has_failed = mock.counts()['failures'] > 0
    mock.order()
    return got, has_failed
"""


@MOCKS
def test_failures(tmp_path, devices):
    body = FAILURES + """
def told():
    s = stats(db)
    return s['device_fallbacks'] + s['devices_lost'] + s['device_faults']
for device in range(parts):
    for mode in ('', ':lost'):
        for name in ('download', 'queue_wait', 'queue_after_mark', '*'):
            for n in (1, 2, 4):
                db.execute("SELECT gx_config('device', 0)").fetchall()
                assert db.execute(SQL).fetchall() == want
                before = told()
                got, has_failed = rows_with(f'{name}@{device}:{n}{mode}')
                if got != want:
                    result.append(['wrong', name, device, n, mode])
                if has_failed and told() == before:
                    result.append(['untold', name, device, n, mode])
                if db.execute(SQL).fetchall() != want:
                    result.append(['afterwards', name, device, n, mode])
"""
    assert outcome(child, tmp_path, devices, body) == []


@pytest.mark.parametrize("mode", ["status", "sticky", "later", "lost"])
def test_failures_of_cuda(tmp_path, mode):
    body = FAILURES + f"result.append(rows_with('*:3:{mode}') == (want, True))\nresult.append(db.execute(SQL).fetchall() == want)\n"
    if mode != "status":  # the context has ended, and with it what was in it
        body += "ended = lambda: [dealt, 0, {}]\n"
    assert outcome(child_on_stand_ins, tmp_path, "0,1", body) == [True, True]


def test_later_groups_differ(tmp_path):
    body = """
alike = rng.standard_normal((10000, 8)).astype('<f4')
alike[:9500] = 5
near = np.zeros((2100, 8), '<f4'); near[:, 0] = 1; near[2080] = 1
put('alike', alike); put('near', near)
for _ in range(2):
    did = both_knn(host, db, 'near', 'alike', 3)
    result.append([did['device_calls'], did['device_fallbacks']])
result.append(any('too much alike' in note for note in notes(db)))
"""
    found = outcome(child_on_stand_ins, tmp_path, "0,1", body)
    assert found[1:] == [[0, 1], True], found


def test_overflow_in_a_later_group(tmp_path):
    body = """
large = np.ones((4500, 8)); large[4400] = 1e308
put('one', np.tile([10.0, -10.0], (20, 4))); put('large', large)
for connection in (host, db, db):
    result.append(error(connection, "SELECT count(*) FROM gx_knn('large', 'one', 3, '{\\"metric\\":\\"dot\\"}')"))
"""
    found = outcome(child, tmp_path, "1", body)
    assert len(set(found)) == 1 and "row 4400 of large has scores that overflow" in found[0]


FIRST = """
wide = rng.standard_normal((129 * 22, 64))  # 129 tiles: one of two devices has more than 64, the other fewer
put('D', rng.standard_normal((2700, 64)))
def first_search(readers):
    put('B', wide)
    db.execute("SELECT gx_config('readers', ?)", (readers,)).fetchall()
    before = stats(db)
    got = db.execute("SELECT query, id, score FROM gx_knn('D', 'B', 4)").fetchall()
    did = since(db, before) | {'same': got == want}
    result.append([did[name] for name in ('same', 'calls', 'device_calls', 'device_hits', 'device_fallbacks')])
    return did['kernels']
put('B', wide)
want = knn(host, 'D', 'B', 4)
"""


@EACH
def test_first_search(tmp_path, run, devices):
    body = FIRST + """
first_search(0)
if parts == 1:  # so little memory that rows come by panels
    db.execute("SELECT gx_config('device_memory_limit', ?)", (stats(db)['device_used'] + (1 << 18),)).fetchall()
result.append(first_search(0) > 2 or parts > 1)  # the caller reads, one panel after the other
first_search(2)
"""
    first = [True, 1, 1, 0, 0]
    assert outcome(run, tmp_path, devices, body, MOCK_SLOW="3000,3000") == [first, first, True, first]


@MOCKS
def test_failures_of_the_first_search(tmp_path, devices):
    body = """
for device in range(parts):
    for n in range(1, 90, 4):
        db.execute("SELECT gx_config('device', 0)").fetchall()
        knn(db, 'A', 'A', 2)  # the devices are open
        put('E', E)
        mock.order(f'*@{device}:{n}')
        got = db.execute(SQL).fetchall()
        mock.order()
        if got != want or db.execute(SQL).fetchall() != want:
            result.append([device, n])
"""
    assert outcome(child, tmp_path, devices, body) == []


@EACH
def test_other_lists(tmp_path, run, devices):
    body = """
put('C', rng.integers(0, 160, (4500, 3)).astype('<f8'))
both_knn(host, db, 'Q', 'E', 3, candidates='C')
put('D', Q[:2060]); put('F', rng.standard_normal((270, 8)).astype('<f4'))
for k in (265, 280):
    result.append(both_knn(host, db, 'D', 'F', k)['device_calls'])
"""
    assert outcome(run, tmp_path, devices, body) == [1, 1]
