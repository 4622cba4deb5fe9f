"""Fourier transforms on a device that is not there (tests/mockcuda), as a backend and through gx_cuda.so on stand-ins for cuFFT.

  1  every function, length, axis, norm and dtype, cut and padded, against SciPy: all of it on the device
  2  both axes, halves, convolutions; programs that keep their values there, loops; cosines are the host's
  3  what is kept there is not sent again; few plans are kept
  4  each call of the device fails; too little memory; a plan that cannot be made, or that cuFFT has not got
  5  no libcufft: the host, and a remark; `gx_plan` says so
"""
import pathlib

import pytest

from mockkit import child, child_on_stand_ins

pytestmark = pytest.mark.filterwarnings("error")
MACHINES = pytest.mark.parametrize("machine", [child, child_on_stand_ins], ids=["backend", "libraries"])

START = """
from scipy import fft as sp
rng = np.random.default_rng(5)
db = gx_connect(os.environ['TMP_PATH'] + '/a.db')
q(db, "SELECT gx_config('backend', 'cuda')")
def draw(shape, is_complex=False, single=False):
    a = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if is_complex else 0)
    return a.astype([['<f8', '<f4'], ['<c16', '<c8']][is_complex][single])
def near(got, want):
    got, want = np.atleast_2d(got), np.atleast_2d(want)
    unit = 1e-6 if want.dtype.name in ('float32', 'complex64') else 1e-14
    return got.shape == want.shape and got.dtype == want.dtype and bool(np.linalg.norm(got - want) <= 8 * unit * np.linalg.norm(want))
def ask(text, *matrices):
    value = q(db, f"SELECT {text}", *(from_numpy(a) for a in matrices))
    return to_numpy(value) if isinstance(value, bytes) else value
def done(before):
    return since(db, before)['gpu_ops']
"""


@MACHINES
def test_every_kind(tmp_path, machine):
    got = machine(
        tmp_path,
        START
        + """
wrong, calls, before = [], 0, stats(db)
for n in (1, 2, 3, 7, 64, 100, 257, 1009, 1024):
    lines = 1200 // n + 2
    for name in ('fft', 'ifft', 'rfft', 'irfft'):
        for axis, single, is_complex in np.ndindex(2, 2, 1 if name == 'rfft' else 2):
            for cut, norm in ((None, 'backward'), (None, 'ortho'), (None, 'forward'), (max(1, n - 3), 'backward'), (n + 6, 'ortho')):
                if (name, n, cut) == ('irfft', 1, None):
                    continue
                a = draw((n, lines) if axis == 0 else (lines, n), is_complex, single)
                got = ask(f"gx_{name}(?, {cut or 'NULL'}, {axis}, '{{\\"norm\\":\\"{norm}\\"}}')", a)
                calls += 1
                if not near(got, getattr(sp, name)(a, cut, axis=axis, norm=norm)):
                    wrong.append([n, name, axis, single, is_complex, cut, norm])
result = [wrong, calls, done(before), stats(db)['device_fallbacks'], notes(db), mock.counts()['violations']]
empty = [ask('gx_fft(?)', np.zeros((1100, 0), '<c16')).shape, ask('gx_rfft(?, 4000)', np.zeros((0, 2))).shape]
db.close()
result += [mock.alive(), empty]
""",
    )
    assert got[0] == [] and got[1] == got[2] > 1000 and got[3:] == [0, [], 0, {}, [[1100, 0], [2001, 2]]], got


@MACHINES
def test_programs(tmp_path, machine):
    got = machine(
        tmp_path,
        START
        + """
a, c, v, w = draw((90, 70)), draw((64, 50), True), draw((3000, 2)), draw((40, 2))
def rounds(x):
    for _ in range(25):
        x = sp.fft(x, axis=0, norm='ortho') + 1
    return x
cases = [
    ('gx_fft2(?)', [c], sp.fft2(c), 2), ('gx_ifft2(?)', [c], sp.ifft2(c), 2), ('gx_fft2(?, 100, 31)', [a], sp.fft2(a, (100, 31)), 2),
    ('gx_rfft2(?)', [a], sp.rfft2(a), 2), ('gx_irfft2(?)', [c], sp.irfft2(c), 2),
    ('gx_hfft(?)', [c], sp.hfft(c, axis=0), 2), ('gx_ihfft(?, NULL, 1)', [a], sp.ihfft(a, axis=1), 2),
    ('gx_convolve(?, ?)', [v, w], np.stack([np.convolve(v[:, k], w[:, k]) for k in (0, 1)], 1), 5),
    ("gx_eval('abs(fft(?1))', ?)", [c], abs(sp.fft(c, axis=0)), 2),
    ("gx_eval('real(ifft(fft(?1) * 2))', ?)", [a], 2 * a, 4),
    ("gx_eval('x = ?1; repeat 25 { x = fft(x, ''all'', 0, ''ortho'') + 1 } x', ?)", [c], rounds(c), 50),
    ("gx_eval('irfft(?1 * 1i)', ?)", [c], sp.irfft(1j * c, axis=0), 2),
    ('gx_dct(?)', [a], sp.dct(a, axis=0), 0),
]
result = [['violations', mock.counts()['violations']]]
for text, given, want, ops in cases:
    before = stats(db)
    is_right, ops_done = near(ask(text, *given), want), done(before)
    if not is_right or ops_done < ops or (ops == 0 and ops_done > 0):
        result.append([text, is_right, ops_done])
result += [stats(db)['device_fallbacks'], notes(db)]
db.close()
result.append(mock.alive())
""",
    )
    assert got == [["violations", 0], 0, [], {}], got


@MACHINES
def test_kept(tmp_path, machine):
    got = machine(
        tmp_path,
        START
        + """
c = draw((3000, 4), True)
q(db, "SELECT gx_store('A', ?)", from_numpy(c))
ask('gx_fft(?)', c)
result = []
for _ in range(3):
    before = stats(db)
    value = q(db, "SELECT gx_eval('sum(abs(fft(A)))')")
    now = since(db, before)
    result.append([bool(np.isclose(value, abs(sp.fft(c, axis=0)).sum())), now['uploaded'], now['downloaded'] < 100000])
q(db, "SELECT gx_eval('F := fft(A)')")
result.append(near(ask("gx_copy('F')"), sp.fft(c, axis=0)))
held = mock.counts()['handles']
for n in range(1, 30):
    ask(f"gx_fft(gx_copy('A'), {n})")
result.append(mock.counts()['handles'] - held <= 8)
for columns in (3, 5, 4):  # as long, not as many
    c = draw((700, columns), True)
    result.append(near(ask('gx_fft(?)', c), sp.fft(c, axis=0)))
""",
    )
    assert got == [[True, 3000 * 4 * 16, True], [True, 0, True], [True, 0, True]] + 5 * [True]


@pytest.mark.parametrize("machine,mode", [(child, ""), (child, ":always"), (child_on_stand_ins, ""), (child_on_stand_ins, ":status")])
def test_failures(tmp_path, machine, mode):
    got = machine(
        tmp_path,
        START
        + f"""
a, c = draw((70, 60)), draw((70, 30), True)
for name, value in (('A', a), ('C', c)):
    q(db, "SELECT gx_store(?, ?)", name, from_numpy(value))
def open_all():
    q(db, "SELECT gx_eval('sum(A @ A.T)')")
def is_right():
    return near(ask("gx_rfft('A')"), sp.rfft(a, axis=0)) and near(ask("gx_irfft('C', NULL, 1)"), sp.irfft(c, axis=1))
wrong, silent, n = [], [], 1
while n < 400:
    q(db, "SELECT gx_config('backend', 'cpu')")
    q(db, "SELECT gx_config('backend', 'cuda')")
    open_all()
    before = stats(db)
    mock.order(f'*:{{n}}{mode}')
    was_right = is_right()
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
def test_little_memory(tmp_path, machine):
    got = machine(
        tmp_path,
        START
        + """
c = draw((60000, 1), True)
result = []
for limit in (40000, 1500000, 2400000, 3500000, 60000000):
    q(db, "SELECT gx_config('device_memory_limit', ?)", limit)
    before = stats(db)
    result.append([near(ask('gx_fft(?)', c), sp.fft(c, axis=0)), done(before)])
result = [all(r[0] for r in result), result[0][1], result[-1][1], len(notes(db)) > 0]
db.close()
result.append(mock.alive())
""",
    )
    assert got == [True, 0, 1, True, {}], got


def test_plans_that_fail(tmp_path):
    """Each function of cuFFT finds no memory; a length that has no plan.  The device goes on in both cases."""
    got = child_on_stand_ins(
        tmp_path,
        START
        + """
c, odd = draw((2000, 1), True), draw((1019 * 3, 1), True)
result = [near(ask('gx_fft(?)', c), sp.fft(c, axis=0))]
for n, name in enumerate(('Create', 'SetAutoAllocation', 'XtMakePlanMany', 'SetStream', 'SetWorkArea', 'XtExec')):
    mock.order(f'cufft{name}:1:always')
    before = stats(db)
    result.append(near(ask('gx_fft(?)', c[n + 1:]), sp.fft(c[n + 1:], axis=0)) and since(db, before)['device_fallbacks'])
    mock.order()
before = stats(db)
result.append(near(ask('gx_fft(?)', odd), sp.fft(odd, axis=0)) and since(db, before)['device_fallbacks'])
result.append([note for note in notes(db) if 'XtMakePlanMany' in note])
before = stats(db)
result += [near(ask('gx_fft(?)', c), sp.fft(c, axis=0)), done(before), mock.counts()['violations']]
db.close()
result.append(mock.alive())
""",
    )
    assert got[0] is True and got[1:8] == [1] * 7, got
    assert got[8] == [f"computed on the CPU: cufftXtMakePlanMany on cuda:0: status {n}" for n in (2, 8)]
    assert got[9:] == [True, 1, 0, {}], got


@pytest.mark.parametrize("is_there", [True, False])
def test_library(tmp_path, is_there):
    libraries = tmp_path / "cuda" / "lib"
    libraries.mkdir(parents=True)
    if not is_there:
        maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
        libm = next(line.split()[-1] for line in maps if "libm.so" in line or "libm-" in line)
        (libraries / "libcufft.so.12").symlink_to(libm)  # which has none of the functions
    got = child_on_stand_ins(
        tmp_path,
        START
        + """
c = draw((2000, 3), True)
q(db, "SELECT gx_store('A', ?)", from_numpy(c))
before = stats(db)
result = [bool(np.isclose(q(db, "SELECT gx_eval('sum(abs(fft(A)) @ ones(3, 3))')"), 3 * abs(sp.fft(c, axis=0)).sum())), done(before)]
result += [stats(db)['device_fallbacks'], notes(db)]
result.append(db.execute("SELECT driver, device FROM gx_plan('eval', 'abs(fft(A)) @ dct(ones(3, 3))') WHERE driver IN ('fft', 'dct', 'matmul')").fetchall())
""",
    )
    note = "computed on the CPU: cuda has no kernel fft of c128"
    assert got[0] and got[2] == 0 and got[3] == ([] if is_there else [note]), got
    where = dict(got[4])
    assert where == {"fft": "cuda" if is_there else "cpu", "dct": "cpu", "matmul": "cuda"}, got
