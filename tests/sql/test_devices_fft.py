"""Fourier transforms of many columns or rows, dealt to devices that are not there (tests/mockcuda).

Plan:
- values, stored results, numbers looked at; columns and rows; elementwise functions before and after; fewer lines than devices;
  stored operands and arguments; on 2 to 8 devices: one device's bits, all of it dealt, nothing left behind;
- what needs a matrix whole stays on one device: sums, both axes, rows of columns that are dealt;
- a share of an operand goes up once, and the next call finds it where it is; a changed operand goes up again;
- few and short lines stay on one device where nobody lists several;
- any call of any device fails, or all of one's from then on, and one has no room: the same bits, counted;
- by gx_cuda.so itself, on a stand-in for cuFFT, too.
"""
import pytest

from mockkit import ALL_WELL, child, child_on_stand_ins

pytestmark = pytest.mark.filterwarnings("error")
MACHINES = pytest.mark.parametrize("machine", [child, child_on_stand_ins], ids=["backend", "libraries"])

START = """
rng = np.random.default_rng(7)
db = gx_connect(os.environ['TMP_PATH'] + '/a.db')
db.execute("SELECT gx_config('profile', 'off'), gx_config('backend', 'cuda'), gx_config('tile_bytes', 4096)").fetchall()
def draw(m, n, is_complex=True):
    return rng.standard_normal((m, n)) + (1j * rng.standard_normal((m, n)) if is_complex else 0)
GIVEN = {"A": draw(48, 61), "R": draw(50, 40, False), "W": draw(48, 1), "V": draw(1, 61), "F": draw(900, 3)}
for name, value in GIVEN.items():
    q(db, "SELECT gx_store(?, ?)", name, from_numpy(value))
DEALT = {
    "columns": "fft(A)",
    "rows": "ifft(A, 'all', 1)",
    "real": "rfft(R)",
    "rows, cut": "rfft(R, 33, 1)",
    "half": "irfft(A * 2, 70, 0, 'ortho')",
    "few": "fft(F)",
    "filter": "real(ifft(fft(A) * W * 3))",
    "a row's factors": "abs(fft(A, 'all', 1) * V)",
    "columns' factors": "fft(A) * V",
    "looked at": "F = fft(A); F[2, 17] + F[0, 60] * 2",
    "a corner": "F = fft(A); F[5:9, 3:5] * 2",
    "stored": "P := fft(A); Q := abs(ifft(A)); sum(P[:, 4])",
    "argument": "fft(?1)",
}
WHOLE = {
    "summed": "sum(fft(A))",
    "both axes": "fft2(A)",
    "a row": "F = fft(A); F[3, :]",
    "read elsewhere": "fft(A) + sum(A)",
    "in a loop": "F = fft(A); repeat 3 { F = F / 2 } F",
    "one line": "fft(reshape(A, size(A), 1))",
}
def run(text, given=GIVEN["A"]):
    more = [from_numpy(given)] if "?1" in text else []
    value = db.execute(f"SELECT gx_eval(?{', ?' * len(more)}, '{{\\"replace\\":true}}')", (text, *more)).fetchone()[0]
    stored = [q(db, "SELECT gx_copy(?)", name).hex() for name in "PQ"] if ":=" in text else []
    return [value.hex() if isinstance(value, bytes) else value, stored]
def use(devices):
    db.execute("SELECT gx_config('devices', ?)", (devices,)).fetchall()
"""


def right(tmp_path, machine, devices, body="", **env):
    return machine(
        tmp_path,
        START
        + f"""
{body}
result = []
want = {{name: run(text) for name, text in (DEALT | WHOLE).items()}}
for devices in {devices!r}:
    use(devices)
    for name, text in (DEALT | WHOLE).items():
        before = stats(db)
        differs = [run(text) != want[name], run(text) != want[name]]
        result.append([name, name in DEALT, differs, since(db, before)['spread_calls']])
remarks, violations = notes(db), mock.counts()['violations']
db.close()
result = [result, remarks, violations, mock.alive()]
""",
        MOCK_DEVICES=8,
        **env,
    )


@pytest.mark.parametrize("env", [{}, {"MOCK_PEERS": "none", "MOCK_SLOW": "300,50"}], ids=["alike", "no peers"])
@MACHINES
def test_same_bits(tmp_path, machine, env):
    every = ("0,1", "3,1,2", "0,1,2,3,4", "0,1,2,3,4,5,6,7")
    got, remarks, violations, alive = right(tmp_path, machine, every if machine is child else every[1:2], **env)
    assert (remarks, violations, alive) == ([], 0, {})
    for name, is_dealt, differs, spread in got:
        assert differs == [False, False] and (spread >= 2 if is_dealt else spread == 0), (name, differs, spread)


def test_deterministic(tmp_path):
    body = "db.execute(\"SELECT gx_config('deterministic', 1)\").fetchall()"
    got, remarks, violations, alive = right(tmp_path, child, ("0,1,2",), body)
    assert (remarks, violations, alive) == ([], 0, {})
    assert [name for name, is_dealt, differs, spread in got if differs != [False] * 2 or (spread >= 2) != is_dealt] == []


@MACHINES
def test_kept(tmp_path, machine):
    got = machine(
        tmp_path,
        START
        + """
use('0,1,2')
size, result = GIVEN['A'].nbytes, []
def count():
    before = stats(db)
    run('fft(A)')
    now = since(db, before)
    result.append([now['uploaded'] // size, now['device_hits'], now['bytes_read'] // size, now['spread_calls']])
count(), count()
q(db, "SELECT gx_store('A', ?, '{\\"replace\\":true}')", from_numpy(GIVEN['A'] + 1))
count()
db.execute("BEGIN").fetchall()  # what is not committed is not kept
q(db, "SELECT gx_store('A', ?, '{\\"replace\\":true}')", from_numpy(GIVEN['A'] + 2))
count()
same = to_numpy(q(db, "SELECT gx_fft('A')"))
result.append(bool(np.allclose(same, np.fft.fft(GIVEN['A'] + 2, axis=0))))
db.execute("ROLLBACK").fetchall()
result.append(bool(np.allclose(to_numpy(q(db, "SELECT gx_fft('A')")), np.fft.fft(GIVEN['A'] + 1, axis=0))))
""",
        MOCK_DEVICES=3,
    )
    assert got[0] == [1, 0, 1, 1] and got[1] == [0, 3, 0, 1] and got[2][:2] == [1, 0] and got[3][:2] == [1, 0] and got[4:] == [True] * 2


def test_chosen(tmp_path):
    """Not listed, only allowed: where it is predicted to pay, with the copies that each way needs."""
    got = child(
        tmp_path,
        START
        + """
import pathlib, re
def again():
    db = gx_connect(os.environ['TMP_PATH'] + '/a.db')
    db.execute("SELECT gx_config('backend', 'cuda'), gx_config('devices', '0,1')").fetchall()
    return db
db.close()
db = again()
run('fft(A)'), db.close()
know_devices(1e-6, 1e12)
known = pathlib.Path(os.environ['XDG_CACHE_HOME'], 'gx', 'hardware.json')
for name, number in (('open_s', 1e-9), ('sweep_bytes_per_s', 1e9)):
    known.write_text(re.sub(f'"{name}": *[^,}}]+', f'"{name}": {number}', known.read_text()))
db = again()
run('fft(A)')
result = []
for devices, is_long in ((2, False), (2, True), (1, True)):
    use(devices)
    q(db, "SELECT gx_store('B', ?, '{\\"replace\\":true}')", from_numpy(draw(512, 64) if is_long else draw(40, 30)))
    before = stats(db)
    for _ in range(3):
        run('F = fft(B); F[1, 0]')
    result.append(since(db, before)['spread_calls'])
""",
        MOCK_DEVICES=2,
    )
    assert got == [0, 3, 0], got


@pytest.mark.parametrize("machine, name, mode", [(child, "columns", ":lost"), (child, "stored", ""), (child, "rows, cut", ":always"),
                                                 (child, "looked at", "")])
def test_each_device_fails(tmp_path, machine, name, mode):
    body = START + f"NAME, MODE = {name!r}, {mode!r}" + """
want = run(DEALT[NAME])
use('0,1')
points = [*range(1, 40, 3), *range(40, 900, 97)]
result = each_device_fails(db, mock, 2, points, lambda: run('fft(F)'), lambda: run(DEALT[NAME]) == want, MODE, is_told=bool(MODE),
                           may_fall_back=MODE != ":lost")
"""
    got = machine(tmp_path, body, MOCK_DEVICES=2)
    assert got.pop("points") > 5
    got["fallbacks"] = 0 if mode != ":lost" else got["fallbacks"]
    assert got == ALL_WELL
