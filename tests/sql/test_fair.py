"""Several connections on one device that is not there (tests/mockcuda), whose kernels run one at a time.

Plan, by orders and counts, never by times:
- a small product beside a large one's many steps: it overtakes them, and the large one holds few steps ahead then; alone it
  holds as many as ever;
- a large product is one kernel, or pieces where another connection has used the device lately; the same numbers; with
  `deterministic` one kernel, and the same bits;
- gx_matmul, gx_eval and gx_knn of three threads at once: all right, all answered, nothing left behind;
- any call of the device fails while another connection works: both go on, with the right numbers;
- an interrupt of the large one, and a connection that is closed in the middle, leave the turn to the others.
"""
import pytest

from mockkit import child

pytestmark = pytest.mark.filterwarnings("error")

START = """
import threading, time
path = os.environ['TMP_PATH'] + '/f.db'
def connection():
    db = gx_connect(path)
    db.execute("SELECT gx_config('profile', 'off'), gx_config('backend', 'cpu'), gx_config('probe', 'off')").fetchall()
    return db
def to_device(db):
    q(db, "SELECT gx_config('backend', 'cuda')")
    return db
def known():  # what is small is not left to the rates of a machine that has much else to do
    db = connection()
    q(db, "SELECT gx_config('profile', 'on')")
    return to_device(db)
def know_rates():
    first = known()
    q(first, "SELECT gx_matmul('[[2]]', '[[3]]')")
    first.close()
    know_devices()
db = connection()
q(db, "SELECT gx_config('tile_bytes', 32768)")
for name, rows, cols in (('A', 512, 64), ('B', 64, 640), ('L', 512, 512), ('S', 8, 8)):
    q(db, f"SELECT gx_randn({rows}, {cols}, '{name}')")
want = {name: to_numpy(q(db, f"SELECT gx_matmul('{a}', '{b}')")) for name, a, b in (('AB', 'A', 'B'), ('LL', 'L', 'L'), ('SS', 'S', 'S'))}
def product(db, name):
    a, b = name
    return to_numpy(q(db, f"SELECT gx_matmul('{a}', '{b}')"))
def is_right(db, name):
    return bool(np.abs(product(db, name) - want[name]).max() < 1e-9)
def beside(db, name, call, most=100000):
    # call() again and again while another thread multiplies, which it has begun to; what call() came to.
    done, came = [], []
    def work():
        done.append(is_right(db, name))
    thread = threading.Thread(target=work)
    kernels = mock.counts()['kernels']
    thread.start()
    while mock.counts()['kernels'] < kernels + 4 and thread.is_alive():
        time.sleep(0.001)
    mock.calm()
    while thread.is_alive() and len(came) < most:
        came.append(call())
    thread.join()
    return done == [True], came
"""


def run(tmp_path, body, **env):
    return child(tmp_path, START + body, MOCK_SERIAL=50, **env)


def test_small_beside_large(tmp_path):
    """The large product has eight kernels of 20 ms each, which all wait in its queue when nobody else is there."""
    alone, deep, is_right, came, counts = run(tmp_path, """
know_rates()
large, small = known(), known()
for one in (large, small):
    q(one, "SELECT gx_config('deterministic', 'on')")
is_right(large, 'LL')
mock.calm()
alone = is_right(large, 'LL')  # its operand is there
deep = mock.counts()['depth']
is_right(small, 'SS')
good, came = beside(large, 'LL', lambda: is_right(small, 'SS'))
result = [alone, deep, good, came, mock.counts()]
""")
    assert alone and is_right and came and all(came)
    assert deep == 8  # nobody else is there
    assert counts["depth"] <= 3  # one runs, one waits, one is being enqueued
    assert counts["preferred"] >= len(came)
    assert counts["behind"] <= 1  # the kernel that runs already
    assert counts["violations"] == 0


def test_cut(tmp_path):
    """Who has used the device within the last second is there: no thread is needed."""
    kernels, far, same, alive = run(tmp_path, """
large, small = to_device(connection()), to_device(connection())
def call(*names):
    before = mock.counts()['kernels']
    value = q(large, names[0])
    return mock.counts()['kernels'] - before, value
whole = "SELECT gx_matmul('L', 'L')"
q(large, "SELECT gx_config('tile_bytes', 8388608)")
for name in 'L', 'S':
    q(large, f"SELECT gx_copy('{name}', '{name}', '{{\\"replace\\":true}}')")
product(large, 'SS'), time.sleep(1.1)
alone, value = call(whole)
product(small, 'SS'); product(large, 'SS')
pieces, cut = call(whole)
far = float(np.abs(to_numpy(cut) - to_numpy(value)).max())
q(large, "SELECT gx_config('deterministic', 'on')")
time.sleep(1.1)
_, first = call(whole)
product(small, 'SS'); product(large, 'SS')
fixed, second = call(whole)
result = [[alone, pieces, fixed], far, first == second, 0]
for one in (db, large, small):
    one.close()
result[3] = [mock.counts()['violations'], mock.alive()]
""")
    assert kernels == [1, 2, 1] and far < 1e-9 and same and alive == [0, {}]


def test_every_kind_at_once(tmp_path):
    right, counts, told, alive = run(tmp_path, """
q(db, "SELECT gx_randn(400, 32, 'E')")
q(db, "SELECT gx_randn(5, 32, 'Q')")
near = knn(db, 'Q', 'E', 4)
program = "SELECT gx_eval('sum(exp(L*0.01)@L)')"
total = q(db, program)
know_rates()
kinds = [lambda one: is_right(one, 'LL'), lambda one: knn(one, 'Q', 'E', 4) == near,
         lambda one: abs(q(one, program) - total) < 1e-9 * abs(total), lambda one: is_right(one, 'SS')]
right = []
def work(k):
    one = known()
    for _ in range(4):
        right.append(bool(kinds[k](one)))
    calls.append(stats(one)['device_calls'])
    one.close()
calls = []
threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
told = "gx_turn_seconds_total" in q(db, "SELECT gx_metrics()")
counts = mock.counts()
db.close()
result = [right, [min(calls), counts['violations']], told, mock.alive()]
""")
    assert right == [True] * 16 and counts[0] >= 1 and counts[1] == 0
    assert told and alive == {}


@pytest.mark.parametrize("mode", ["", ":lost"])
def test_failures(tmp_path, mode):
    """The small one's calls fail, one after the other, while the large one works: neither waits for ever."""
    right, points, alive = run(tmp_path, f"""
large, right, points = to_device(connection()), [], 0
is_right(large, 'AB')
for n in (1, 4, 9, 20):
    small = to_device(connection())
    right.append(is_right(small, 'SS'))
    def fail():
        mock.order(f"*:{{n}}{mode}")
        good = is_right(small, 'SS')
        return good
    good, came = beside(large, 'LL', fail, 1)
    points += mock.counts()['failures']
    mock.order()
    right += [good, *came]
    small.close()
    large.close()
    large = to_device(connection())
for one in (db, large):
    one.close()
result = [right, points, mock.alive()]
""")
    assert all(right) and points >= 3
    assert alive == {}


def test_interrupt_and_close(tmp_path):
    """The large one is interrupted and closed while small calls go on; whoever comes then has the device alone."""
    said, right, counts, alive = run(tmp_path, """
large, small = to_device(connection()), to_device(connection())
for one in (large, small):
    q(one, "SELECT gx_config('deterministic', 'on')")
is_right(large, 'SS'), is_right(small, 'SS')
said, right = [], []
def work():
    try:
        while True:
            product(large, 'LL')
    except sqlite3.OperationalError as e:
        said.append(str(e))
    large.close()
thread = threading.Thread(target=work)
thread.start()
for k in range(40):
    right.append(is_right(small, 'SS'))
    if k == 10:
        while not said:  # between two statements an interrupt is nobody's
            try:
                large.interrupt()
            except sqlite3.ProgrammingError:  # closed
                break
            thread.join(0.05)
thread.join()
is_right(small, 'LL')
mock.calm()
right.append(is_right(small, 'LL') and mock.counts()['depth'] == 8)
violations = mock.counts()['violations']
for one in (db, small):
    one.close()
result = [said, right, violations, mock.alive()]
""")
    assert len(said) == 1 and "interrupted" in said[0]
    assert all(right) and counts == 0 and alive == {}


def test_memory_is_shared(tmp_path):
    """One connection keeps most of the device's memory, and is idle; another one wants half of it."""
    counts, right, alive = run(tmp_path, """
first, second = to_device(connection()), to_device(connection())
q(db, "SELECT gx_randn(800, 800, 'M')")  # 5 MB
want['MM'] = to_numpy(q(db, "SELECT gx_matmul('M', 'M')"))
for name in 'UVWX':
    q(db, f"SELECT gx_randn(1000, 1000, '{name}')")
right = [is_right(second, 'SS')]
for name in 'UVWX':
    q(first, f"SELECT gx_norm(gx_matmul('{name}', gx_ones(1000, 10)))")
    q(first, f"SELECT gx_norm(gx_matmul('{name}', gx_ones(1000, 500)))")
kept = stats(first)['device_used']
before = stats(second)
right.append(is_right(second, 'MM'))
after = since(second, before)
left = stats(first)['device_used']
right.append(is_right(first, 'LL'))
counts = [kept, left, stats(first)['device_evictions'], after['device_calls'], after['device_fallbacks'], mock.counts()['violations']]
for one in (db, first, second):
    one.close()
result = [counts, right, mock.alive()]
""", MOCK_MEMORY=48 << 20)
    kept, left, evictions, calls, fallbacks, violations = counts
    assert kept > 24 << 20 and left < kept and left >= 16 << 20  # its share is 19 MB
    assert evictions > 0 and [calls, fallbacks, violations] == [1, 0, 0]
    assert all(right) and alive == {}
