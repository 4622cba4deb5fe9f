"""Fused programs on a device that is not there: the mock device, and gx_cuda.so itself on stand-ins for NVIDIA's libraries.

Plan:
1. functions of three operands and real results of complex matrices run there, with operands that spread, for all dtypes,
   within much and little device memory: the CPU's answers; nothing is left behind
2. a program that runs for long is compiled, once; where NVRTC is missing, or fails at any of its calls, it is
   interpreted: the same answers
3. a loop says in its first round how often it goes: rounds that are replayed count, and none twice
4. a failure of the device in the middle: the CPU's answer and a remark
"""
import pytest

from mockkit import child, child_on_stand_ins

RUN = """
path = os.environ['TMP_PATH'] + '/a.db'
db = gx_connect(path)
matrices(db, 150, 130, 170, DTYPE, tile=32)
q(db, "SELECT gx_config('device_memory_limit', ?)", LIMIT)
db.execute("SELECT gx_copy(gx_slice('A', 0, 1, 0, 130), 'row'), gx_copy(gx_slice('A', 0, 150, 0, 1), 'column')").fetchall()
real = DTYPE[0] == 'f'
calls = ["gx_where('A', 'row', 'column')", "gx_where('row', 'A', 2)", "gx_where('A', 'A', 'column')"]
calls += ["gx_clip('A', -0.5, 'row')", "gx_clip('A', 'column', 1)"] if real else ["gx_abs('A')", "gx_equal('A', 'row')"]
got, want = [], []
for k, call in enumerate(calls):
    got.append(to_numpy(q(db, "SELECT " + call)))
    q(db, f"SELECT {call[:-1]}, 'S{k}')")
    got.append(to_numpy(q(db, f"SELECT gx_copy('S{k}')")))
s = stats(db)
result = {'notes': notes(db), 'device_calls': s['device_calls'], 'calls': 2 * len(calls), 'violations': mock.counts()['violations']}
q(db, "SELECT gx_config('backend', 'cpu')")
for call in calls:
    value = to_numpy(q(db, "SELECT " + call))
    want += [value, value.astype(bool) if 'equal' in call else value]  # a comparison is stored as bool
result['same'] = [bool(np.allclose(a, b, 1e-15 if b.itemsize > 4 + 4 * (b.dtype.kind == 'c') else 1e-6, 0) and a.dtype == b.dtype)
                  for a, b in zip(got, want)]
db.close()
result['alive'] = mock.alive()
"""


@pytest.mark.parametrize("limit", [0, 6 * 32 * 32 * 16])
@pytest.mark.parametrize("dtype", ["f64", "f32", "c128", "c64"])
def test_on_the_device(tmp_path, dtype, limit):
    got = child(tmp_path, f"DTYPE, LIMIT = {dtype!r}, {limit}\n" + RUN, GX_BACKEND="cuda", MOCK_SLOW=20)
    assert all(got["same"]) and got["notes"] == []
    assert got["device_calls"] >= got["calls"] and got["violations"] == 0 and got["alive"] == {}


@pytest.mark.parametrize(
    "fails",
    ["", "nvrtcCreateProgram:1:status", "nvrtcCompileProgram:1:status", "nvrtcCompileProgram:2:status", "without"],
)
@pytest.mark.parametrize("dtype", ["f64", "c64"])
def test_compiled(tmp_path, dtype, fails):
    env = {"MOCK_FAIL": fails} if ":" in fails else {}
    got = child_on_stand_ins(
        tmp_path,
        f"DTYPE, LIMIT = {dtype!r}, 0\n" + RUN,
        only=True,
        without="libnvrtc.so.13" if fails == "without" else "",
        GX_BACKEND="cuda",
        GX_COMPILE_AFTER=1000,
        **env,
    )
    assert all(got["same"]) and got["notes"] == []
    assert got["device_calls"] >= got["calls"] and got["violations"] == 0 and got["alive"] == {}


def test_rounds_count(tmp_path):
    """64 x 64 elements and 2 steps or more a round: compiled (one library more is loaded) when all rounds come to so many."""
    got = child_on_stand_ins(
        tmp_path,
        """
db = gx_connect()
a = from_numpy(np.random.default_rng(1).standard_normal((64, 64)) / 20)
def loaded(text):
    before = mock.counts()['handles']
    q(db, "SELECT gx_eval(?, ?)", text, a)
    return mock.counts()['handles'] - before
q(db, "SELECT gx_eval('?1 @ ?1', ?1)", a)
few, many = (f'X = ?1; repeat {n} {{ X = {fn}(?1 @ X) * 0.5 + X }} X' for n, fn in ((5, 'tanh'), (60, 'sin')))
result = [loaded(few), loaded(few), loaded(many), loaded(many)]
nested = 'X = ?1; repeat 3 { repeat 4 { X = cos(?1 @ X) * 0.5 + X } } X'  # 12 rounds of at least 8192
result += [loaded(nested), loaded(nested)]
""",
        only=True,
        GX_BACKEND="cuda",
        GX_COMPILE_AFTER=160000,
    )
    assert got == [0, 0, 1, 0, 0, 1]


@pytest.mark.parametrize("failure", ["fused:2", "fused:5:lost", "upload:3", "kernel_later:3"])
def test_failures(tmp_path, failure):
    got = child(tmp_path, "DTYPE, LIMIT = 'f64', 0\n" + RUN, GX_BACKEND="cuda", MOCK_FAIL=failure)
    assert all(got["same"]) and len(got["notes"]) > 0 and got["violations"] == 0 and got["alive"] == {}
