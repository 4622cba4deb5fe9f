"""Operations on grids on a device that is not there (tests/mockcuda), as a backend and through gx_cuda.so on stand-ins.

  1  every operation, random batches by table and by height, one grid alone, against the CPU's results: all of it on the device
  2  labels against SciPy's; the rules
  3  a program of many operations: transfers once each way, as many kernels as nodes, the same result; loops, recorded or not
  4  what is refused there is refused in the host's words, and the device is not blamed
  5  what is the host's: large grids, large templates, turned to another shape; `gx_plan` says so
  6  each call of the device fails; two devices
"""
import pathlib

import pytest

from mockkit import child, child_on_stand_ins

pytestmark = pytest.mark.filterwarnings("error")
MACHINES = pytest.mark.parametrize("machine", [child, child_on_stand_ins], ids=["backend", "libraries"])

START = """
sys.path.insert(0, {tests!r})
from test_grids import OPERATIONS, RULES, TEMPLATE, masks_for, parts, random_grids, stacked
import scipy.ndimage
rng = np.random.default_rng(11)
db = gx_connect(os.environ['TMP_PATH'] + '/a.db')
def on(backend):
    q(db, "SELECT gx_config('backend', ?)", backend)
def ask(program, *matrices):
    value = q(db, f"SELECT gx_eval(?{{''.join(', ?' for _ in matrices)}})", program, *(from_numpy(a) for a in matrices))
    return to_numpy(value) if isinstance(value, bytes) else value
def both(program, *matrices):
    on('cpu')
    want = ask(program, *matrices)
    on('cuda')
    before = stats(db)
    got = ask(program, *matrices)
    return np.array_equal(got, want, equal_nan=True), since(db, before)
def batches():
    for kind in range(4):
        dtype = ['u1', 'f8', 'i4', 'f4'][kind]
        few = random_grids(kind, 40, [30, 12, 3, 30][kind], 6)
        if kind == 3:  # colours far apart, and below 0
            few = [g.astype('i8') * 700001 - 3000001 for g in few]
        few = [g.astype(dtype) for g in few]
        stack, table = stacked(few)
        if kind == 2:
            stack, table = np.tile(stack, (9, 3)), np.vstack([table + [k * len(stack), 0, 0] for k in range(9)])
        mask = (rng.random(stack.shape) < 0.12).astype(dtype) * (stack == 0 if kind < 3 else 1)
        yield stack, mask.astype(dtype), table
    even = rng.integers(0, 3, (50 * 7, 9)).astype('f8')
    yield even, (rng.random(even.shape) < 0.2).astype('f8') * (even == 0), 7
    yield even[:, :7], (rng.random((350, 7)) < 0.2).astype('u1'), 7
    yield even, (rng.random(even.shape) < 0.02).astype('f8') * (even == 0), None
    tiny = rng.integers(0, 3, (2000, 1)).astype('u1')
    yield tiny, (rng.random(tiny.shape) < 0.5).astype('u1'), 1
""".replace("{tests!r}", repr(str(pathlib.Path(__file__).parent))).replace("{{", "{").replace("}}", "}")


@MACHINES
def test_every_operation(tmp_path, machine):
    got = machine(
        tmp_path,
        START
        + """
wrong, calls, there = [], 0, 0
for number, (stack, mask, grids) in enumerate(batches()):
    for name, inside, _ in OPERATIONS + [('turn', '90', 0), ('turn', '270', 0), ('sizes', '', 0)]:
        is_square = number in (5, 7)
        if name == 'turn' and inside != '180' and not is_square:
            continue
        if name == 'flood' and stack.shape[1] < 5:
            inside = inside.replace('4, 3', '40, 0')
        given = [stack]
        if name == 'sizes':
            last = [] if grids is None else [', ?2' if isinstance(grids, np.ndarray) else f', {grids}']
            given[0] = ask(f"label(?1, 8, 'colour'{''.join(last)})", stack, *([grids] if isinstance(grids, np.ndarray) else []))
        given += [mask] * ('M' in inside) + [TEMPLATE.astype('f8')] * ('T' in inside)
        words = ['?1'] + [inside.replace('M', '?2').replace('T', '?2')] * (inside != '')
        if grids is not None:
            words.append(f'?{len(given) + 1}' if isinstance(grids, np.ndarray) else str(grids))
            given += [grids] if isinstance(grids, np.ndarray) else []
        text = f"{name}({', '.join(words)})"
        same, now = both(text, *given)
        calls += 1
        there += now['gpu_ops'] == 1 and now['cpu_ops'] == 0
        if not same:
            wrong.append([number, text])
result = [wrong, calls, there, stats(db)['device_fallbacks'], notes(db), mock.counts()['violations']]
db.close()
result.append(mock.alive())
""",
    )
    assert got[0] == [] and got[1] == got[2] > 270 and got[3:] == [0, [], 0, {}], got


@MACHINES
def test_labels(tmp_path, machine):
    got = machine(
        tmp_path,
        START
        + """
wrong = []
stack, table = stacked(random_grids(21, 300, 30, 4))
for eight in (4, 8):
    for rule in RULES:
        same, now = both(f"label(?1, {eight}, '{rule}', ?2)", stack, table)
        if not same or now['gpu_ops'] < 1 or now['cpu_ops'] > 2:
            wrong.append([eight, rule, same, now['gpu_ops'], now['cpu_ops']])
    got = ask(f"label(?1, {eight}, 'nonzero', ?2)", stack, table)
    for (row, m, n), labels in zip(table.astype(int), parts(got, table)):
        want = scipy.ndimage.label(stack[row:row + m, :n], np.ones((3, 3)) if eight == 8 else None)[0]
        if (labels != want).any():
            wrong.append([eight, int(row)])
def spiral(n):
    x = np.zeros((n, n), int)
    i, j, di, dj = 0, 0, 0, 1
    for step in range(n, 0, -2):
        for _ in range(2 if step < n else 3):
            for _ in range(step - 1):
                x[i, j] = 1
                i, j = i + di, j + dj
            di, dj = dj, -di
    return x
for grid in (spiral(41), spiral(120), np.ones((1, 3000)), np.ones((3000, 1)), rng.integers(0, 2, (256, 256)), rng.integers(0, 3, (1, 65536))):
    for eight in (4, 8):
        for rule in ('nonzero', 'colour_all'):
            same, now = both(f"label(?1, {eight}, '{rule}')", grid.astype('u1'))
            if not same or now['gpu_ops'] < 1:
                wrong.append([grid.shape, eight, rule])
result = [wrong, stats(db)['device_fallbacks'], notes(db)]
""",
    )
    assert got == [[], 0, []], got


PROGRAM = """
bench = ''.join(open({path!r}).read().split('PROGRAM = f\\"\\"\\"')[1].split('\\"\\"\\"')[0]).replace('{{SIDE}}', '30')
grids = rng.integers(0, 4, (3000, 30)).astype('u1')
""".replace("{path!r}", repr(str(pathlib.Path(__file__).parents[2] / "bench" / "grids.py"))).replace("{{", "{").replace("}}", "}")


@MACHINES
def test_programs(tmp_path, machine):
    got = machine(
        tmp_path,
        START
        + PROGRAM
        + """
same, now = both('g = ?1;' + bench * 5 + 'g', grids)
size = 3000 * 30 * 4
result = [same, now['gpu_ops'] >= 60, now['cpu_ops'], now['transfers'], now['uploaded'] <= 2 * size, now['downloaded'] <= 2 * size + 64]
same, now = both('g = ?1; repeat 40 {' + bench + '} g', grids)
result += [same, now['cpu_ops'] <= 1, now['transfers'], now['graph_replays'] > 10]
table = np.array([[k * 30, 30, 30] for k in range(100)], float)
same, now = both("g = ?1; repeat 24 { L = label(g, 8, 'colour', ?2); g = cover(g, sizes(L, ?2) < 3, ?2); g = mirror(g, 0, ?2) } g", grids, table)
result += [same, now['cpu_ops'] <= 2, now['transfers']]
same, now = both('g = ?1; t = ?2; repeat 24 { g = mirror(g, 1, t); t = t * 1 } g', grids, table)
result += [same, stats(db)['device_fallbacks'], notes(db)]
""",
    )
    assert got == [True, True, 0, 2, True, True, True, True, 2, True, True, True, 3, True, 0, []], got


@MACHINES
def test_refusals(tmp_path, machine):
    got = machine(
        tmp_path,
        START
        + """
wrong = []
good = rng.integers(0, 4, (1200, 6)).astype('f8')
table = np.array([[k * 6, 5, 6] for k in range(200)], float)
def spoil(x, at=(700, 2)):
    bad = good.copy()
    bad[at] = x
    return bad
cases = [('box(?1, 6)', spoil(x)) for x in (0.5, np.nan, np.inf, -2.0**31, 2.0**31, 1e300)]
cases += [('cover(?1, ?2, 6)', good, spoil(1.5)), ('gravitate(?1, ?2, ?3)', good, spoil(np.nan), table), ('occurrences(?1, ?2, 6)', good, np.array([[1, 0.5]]))]
cases += [('sizes(?1, 6)', spoil(99)), ('sizes(?1, 6)', spoil(-1)), ('turn(?1, 90, ?2)', good, table), ('turn(?1, 90, 3)', good)]
cases += [('most_colour(box(?1, 6) / 2 + beside(?1, 4, 6) / 4, 6)', good), ('g = ?1; repeat 40 { g = shift(g, 1, 0, 1, 6) + 0.125 } g', good)]
cases += [('x = box(?1, 6); repeat 40 { x = beside(x * 0.5 + x, 4, 6) } sum(x)', good)]
for row in ([0, 5, 7], [1199, 2, 1], [3, 0, 1], [0.5, 1, 1], [np.nan, 1, 1]):
    cases.append(('beside(?1, 4, ?2)', good, np.array([[0, 1, 1], row], float)))
for text, *given in cases:
    said = []
    for backend in ('cpu', 'cuda'):
        on(backend)
        said.append(error(db, f"SELECT gx_eval(?{''.join(', ?' for _ in given)})", text, *(from_numpy(a) for a in given)))
    if said[0] != said[1]:
        wrong.append([text, said])
on('cuda')
before = stats(db)
ask('box(?1, 6)', good)
result = [wrong, since(db, before)['gpu_ops'], stats(db)['device_fallbacks'], notes(db), mock.counts()['violations']]
db.close()
result.append(mock.alive())
""",
    )
    assert got == [[], 1, 0, [], 0, {}], got


def test_hosts(tmp_path):
    got = child(
        tmp_path,
        START
        + """
large, small = rng.integers(0, 3, (300, 220)).astype('u1'), rng.integers(0, 3, (256, 256)).astype('u1')
flat = np.array([[0, 300, 220]], float)
result = []
for text, *given in (('box(?1)', large), ('box(?1)', small), ('box(?1, 100)', large), ('box(?1, ?2)', large, flat), ('occurrences(?1, ?2, 1)', small, large),
                     ('label(?1)', large), ('turn(?1, 90)', small), ('turn(?1, 180, 4)', small)):
    same, now = both(text, *given)
    plan = [row[0] for row in db.execute(f"SELECT device FROM gx_plan('eval', ?{''.join(', ?' for _ in given)}) WHERE driver IN ('box', 'occurrences', 'label', 'turn')", [text, *(from_numpy(a) for a in given)])]
    result.append([text, same, now['gpu_ops'], plan])
""",
    )
    assert all(row[1] for row in got) and [row[2] for row in got] == [0, 1, 1, 0, 0, 0, 1, 1], got
    places = [row[3][0] for row in got]  # of a table no more is known before it runs
    assert [place == places[1] for place in places] == [False, True, True, True, False, False, True, True], got


@pytest.mark.parametrize("machine,mode", [(child, ""), (child, ":always"), (child_on_stand_ins, ""), (child_on_stand_ins, ":status")])
def test_failures(tmp_path, machine, mode):
    got = machine(
        tmp_path,
        START
        + f"""
grids, table = rng.integers(0, 4, (400, 9)).astype('f8'), np.array([[k * 10, 9, 9] for k in range(40)], float)
text = "L = label(?1, 8, 'colour', 10); g = cover(?1, sizes(L, 10) < 3, ?2); flood(g, 0, 0, 9, 4, ?2) + occurrences(g, [[1, -1]], 10)"
on('cpu')
want = ask(text, grids, table)
wrong, silent, n = [], [], 1
while n < 400:
    on('cpu')
    on('cuda')
    ask('sum(?1 @ ?1.T)', grids)
    before = stats(db)
    mock.order(f'*:{{n}}{mode}')
    was_right = np.array_equal(ask(text, grids, table), want)
    has_failed = mock.counts()['failures'] > 0
    mock.order()
    if not has_failed:
        break
    told = since(db, before)
    if not was_right:
        wrong.append(n)
    if told['device_fallbacks'] + told['device_faults'] + told['pinned_denied'] == 0 and not notes(db):
        silent.append(n)
    n += 1
result = [wrong, silent, 10 < n < 400, mock.counts()['violations']]
db.close()
result.append(mock.alive())
""",
        timeout=400,
    )
    assert got == [[], [], True, 0, {}], got


@MACHINES
def test_two_devices(tmp_path, machine):
    """Parts that have nothing to do with each other; what is no colour is told whichever device meets it."""
    got = machine(
        tmp_path,
        START
        + """
a, b = (rng.integers(0, 4, (2000, 10)).astype('f8') for _ in range(2))
part = "{0} = {1}; repeat 40 {{ {0} = mirror(cover({0}, sizes(label({0}, 8, 'colour', 10), 10) < 3, 10), 1, 10) }} "
text = part.format('x', '?1') + part.format('y', '?2') + 'x[0:1500, :] @ y[0:10, :]'
on('cuda')
q(db, "SELECT gx_config('devices', '0,1')")
same, now = both(text, a, b)
result = [same, now['gpu_ops'] >= 300, now['spread_calls']]
for bad in (a, b):
    bad[3, 3] = 0.5
    on('cpu')
    said = error(db, "SELECT gx_eval(?, ?, ?)", text, from_numpy(a), from_numpy(b))
    on('cuda')
    result.append(error(db, "SELECT gx_eval(?, ?, ?)", text, from_numpy(a), from_numpy(b)) == said and '0.5 at (3, 3)' in said)
    bad[3, 3] = 0
result += [stats(db)['device_fallbacks'], notes(db), mock.counts()['violations']]
db.close()
result.append(mock.alive())
""",
        MOCK_DEVICES=2,
    )
    assert got == [True, True, 1, True, True, 0, [], 0, {}], got
