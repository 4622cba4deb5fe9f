"""gx_cuda.so as it is, on stand-ins for NVIDIA's libraries (tests/mockcuda/mock_nvidia.c).

Plan:
- drivers and libraries: none, too old for the runtime, older than the device code's PTX; a library that is missing is named; a
  device that is too old is refused in words; no device; CUDA 12's libraries beside a driver for 12;
- several devices: gx_devices lists all, `device` and CUDA_VISIBLE_DEVICES choose;
- backend = cpu never touches CUDA, not even where gx_devices is read; no gx_cuda.so: nothing mentions CUDA;
- devices of 1 GB and 4 GB take at most 80 % of what is free; matrices larger than a device; other processes that take
  memory in the middle; slow buses;
- a thousand products: memory stays flat;
- several connections in threads on one device: right, and none starves;
- strips of a kept f32 matrix times 17 columns: x is made into pieces once a statement, and again when it is another one;
- a NaN that cuSOLVER's LU takes for a zero: determinants, inverses and solutions are not numbers;
- each call of CUDA fails once (a sample of tests/fault/cuda.py).
"""
import os
import pathlib
import subprocess
import sys

import pytest

from conftest import ROOT, gx_path
from mockkit import STAND_INS, child_on_stand_ins

FILE = "path = os.environ['TMP_PATH'] + '/a.db'\ndb = gx_connect(path)\n"
DEVICES = "SELECT device, status, reason FROM gx_devices WHERE backend = 'cuda'"
LOOK = FILE + f"result = db.execute({DEVICES!r}).fetchall()\n"
USE = FILE + f"""
matrices(db, 90, 80, 70, tile=32)
q(db, "SELECT gx_matmul('A', 'B', 'C')")
rows = db.execute({DEVICES!r}).fetchall()
a, b = (to_numpy(q(db, "SELECT gx_copy(?)", name)) for name in ('C', 'C0'))
result = [rows, stats(db)['device_calls'], notes(db), float(np.abs(a - b).max()) < 1e-12]
"""
CUBLAS = 32 << 20  # its workspace, beside the pool
PACKAGE = "it comes with the CUDA toolkit and with PyPI's %s; GX_CUDA_PATH names its folder"


@pytest.mark.parametrize(
    "env, reason",
    [
        ({"MOCK_DRIVER": 0}, "no NVIDIA driver: libcuda.so.1 is missing"),
        ({"MOCK_DRIVER": 12040}, "the NVIDIA driver is for CUDA 12.4, the libraries are of CUDA 13.0"),
        ({"MOCK_DEVICES": 0}, "no CUDA device"),
        ({"MOCK_DEVICES": 2, "CUDA_VISIBLE_DEVICES": ""}, "no CUDA device"),
        ({"MOCK_FAIL": "cudaGetDeviceCount:1:lost"}, "no CUDA device: cudaErrorUnknown (unknown error)"),
    ],
)
def test_no_driver(tmp_path, env, reason):
    """The reason is told by gx_devices, and by the call that asks for CUDA; everything else is computed on the CPU."""
    assert child_on_stand_ins(tmp_path, LOOK, only=True, **env) == [["cuda", "off", reason]]
    rows, calls, told, is_right = child_on_stand_ins(tmp_path, USE, only=True, GX_BACKEND="cuda", **env)
    assert (rows, calls, is_right) == ([["cuda", "off", reason]], 0, True)
    assert any(reason in note for note in told), told


@pytest.mark.parametrize(
    "cc, driver, words",
    [
        ("7.0", 13000, "compute capability 7.0 with a driver for CUDA 13.0"),
        ("6.1", 13010, "compute capability 6.1 with a driver for CUDA 13.1"),
        ("12.1", 12080, "compute capability 12.1 with a driver for CUDA 12.8"),
        ("9.0", 12080, None),
        ("12.1", 13000, None),
    ],
)
def test_device_code(tmp_path, cc, driver, words):
    """Machine code serves where the driver is older than the PTX; else both versions are named."""
    env = {"MOCK_CC": cc, "MOCK_DRIVER": driver, "MOCK_TOOLKIT": min(driver, 13000), "GX_BACKEND": "cuda"}
    rows, calls, told, is_right = child_on_stand_ins(tmp_path, USE, **env)
    assert is_right
    if words is None:
        assert calls >= 1 and told == [] and rows == [["cuda:0 Mock", "used", ""]]
    else:
        text = f"the kernels in gx_cuda.so (CUDA none) do not run on {words}"
        assert calls == 0 and text in rows[0][2] and rows[0][1] == "off" and any(text in note for note in told)


@pytest.mark.parametrize(
    "missing, package",
    [
        ("libcudart.so.13", "nvidia-cuda-runtime"),
        ("libcublas.so.13", "nvidia-cublas"),
        ("libcusolver.so.12", "nvidia-cusolver"),
    ],
)
def test_missing_library(tmp_path, missing, package):
    """The others are there; where this machine has the library itself, it is found there."""
    have = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    if missing in have or list(pathlib.Path("/usr/local").glob(f"cuda*/lib64/{missing}")):
        pytest.skip(f"this machine has {missing}")
    rows = child_on_stand_ins(tmp_path, LOOK, without=missing)
    assert rows == [["cuda", "off", f"{missing} is missing: {PACKAGE % package}"]]


def test_several_devices(tmp_path):
    body = USE + """
q(db, "SELECT gx_config('device', 2)")
q(db, "SELECT gx_matmul('A', 'B', 'D')")
result += [db.execute("SELECT device, status FROM gx_devices WHERE backend = 'cuda'").fetchall()]
q(db, "SELECT gx_config('device', 3)")
q(db, "SELECT gx_matmul('A', 'B', 'E')")
result += [notes(db)]
"""
    env = {"GX_BACKEND": "cuda", "MOCK_DEVICES": 3, "MOCK_CC": "9.0,7.0,8.6"}
    rows, calls, told, is_right, second, refused = child_on_stand_ins(tmp_path, body, **env)
    old = "cuda:1 Mock 1: the kernels in gx_cuda.so (CUDA none) do not run on compute capability 7.0 with a driver for CUDA 13.0"
    assert [row[1] for row in rows] == ["used", "off", "ready"] and rows[0][0] == "cuda:0 Mock" and rows[1][2] == old
    assert calls >= 1 and told == [] and is_right
    assert second[2] == ["cuda:2 Mock 2", "used"] and second[0][1] == "ready"
    assert refused == ["CUDA off for this connection: cuda has 3 devices, not number 3"]


def test_visible_devices(tmp_path):
    got = child_on_stand_ins(tmp_path, USE, GX_BACKEND="cuda", MOCK_DEVICES=3, CUDA_VISIBLE_DEVICES="2,0")
    assert got[0] == [["cuda:0 Mock 2", "used", ""], ["cuda:1 Mock", "ready", ""]]
    assert got[1] >= 1 and got[2:] == [[], True]


@pytest.mark.parametrize("how", ["environment", "setting"])
def test_cpu_never_touches_cuda(tmp_path, how):
    """No NVIDIA library is in the process, whatever is asked."""
    body = FILE + ("q(db, \"SELECT gx_config('backend', 'cpu')\")\n" if how == "setting" else "") + f"""
matrices(db, 400, 400, 400, tile=128)
q(db, "SELECT gx_matmul('A', 'B', 'C')")
q(db, "SELECT gx_debug()")
rows = db.execute({DEVICES!r}).fetchall()
result = [rows, [line.split('/')[-1].strip() for line in open('/proc/self/maps') if 'cuda' in line or 'cublas' in line]]
"""
    env = {"GX_BACKEND": "cpu"} if how == "environment" else {}
    rows, mapped = child_on_stand_ins(tmp_path, body.replace("mock = Mock()", ""), with_machine=False, **env)
    assert rows == [["cuda", "off", "not looked for: the setting backend is cpu"]]
    assert mapped == []


LARGE = FILE + """
q(db, "SELECT gx_config('tile_bytes', 524288)")
q(db, "SELECT gx_config('profile', 'off')")
q(db, "SELECT gx_config('memory_limit', '1GB')")
q(db, "SELECT gx_config('backend', 'cpu')")
q(db, f"SELECT gx_randn({rows}, {cols}, 'A', '{{\\"seed\\":1}}')")
q(db, f"SELECT gx_randn({cols}, 64, 'B', '{{\\"seed\\":2}}')")
q(db, "SELECT gx_matmul('A', 'B', 'C0')")
q(db, "SELECT gx_config('backend', 'cuda')")
before = mock.counts()
mock.share({others!r})
q(db, "SELECT gx_matmul('A', 'B', 'C')")
s, peak = stats(db), mock.counts()['device_peak']
difference = q(db, "SELECT gx_norm(gx_sub('C', 'C0')) / gx_norm('C0')")
db.close()
result = [difference, s['device_calls'], peak, s['device_fallbacks'], mock.counts()['violations'], mock.alive()]
"""


@pytest.mark.parametrize("memory", [1 << 30, 4 << 30])
@pytest.mark.parametrize("others", ["", "half", "late"])
def test_limits(tmp_path, memory, others):
    """At most 80 % of what is free; others that take memory in the middle cost speed, not answers."""
    order = {"": "", "half": str(memory // 2), "late": f"{memory - (40 << 20)}:500"}[others]
    body = LARGE.replace("{rows}", "1500").replace("{cols}", "1500").replace("{others!r}", repr(order))
    got = child_on_stand_ins(tmp_path, body, MOCK_MEMORY=memory)
    assert got[0] < 1e-13 and got[4:] == [0, {}]
    assert got[2] <= 0.8 * (memory // 2 if others == "half" else memory) + CUBLAS
    assert got[1] >= 1 or others == "late"


@pytest.mark.parametrize("memory, rows, cols", [(72 << 20, 4000, 2500), (72 << 20, 2500, 4000)])
def test_larger_than_the_device(tmp_path, memory, rows, cols):
    """80 MB through a device of 72 MB, of which cuBLAS has 32, on a slow bus."""
    body = LARGE.replace("{rows}", str(rows)).replace("{cols}", str(cols)).replace("{others!r}", "''")
    got = child_on_stand_ins(tmp_path, body, MOCK_MEMORY=memory, MOCK_BANDWIDTH=4e9)
    assert got[0] < 1e-13 and got[1] >= 1 and got[2] <= memory and got[3:] == [0, 0, {}]


@pytest.mark.skipif(not os.environ.get("GX_SLOW"), reason="GX_SLOW=1 stores a gigabyte")
def test_larger_than_a_gigabyte(tmp_path):
    body = LARGE.replace("{rows}", "12000").replace("{cols}", "12000").replace("{others!r}", "''")
    got = child_on_stand_ins(tmp_path, body, timeout=600, MOCK_MEMORY=1 << 30)
    assert got[0] < 1e-13 and got[1] >= 1 and got[2] <= 0.8 * (1 << 30) + CUBLAS and got[3:] == [0, 0, {}]


def test_factor_larger_than_the_device(tmp_path):
    """A Cholesky factorisation of 32 MB with 24 MB of device memory."""
    body = FILE + """
q(db, "SELECT gx_config('tile_bytes', 131072)")
q(db, "SELECT gx_config('profile', 'off')")
q(db, "SELECT gx_config('backend', 'cpu')")
q(db, "SELECT gx_add(gx_matrix_gallery('minij', 2000), gx_eye(2000), 'P')")
q(db, "SELECT gx_cholesky('P', 'L0')")
q(db, "SELECT gx_config('backend', 'cuda')")
q(db, "SELECT gx_config('device_memory_limit', '24MB')")
q(db, "SELECT gx_cholesky('P', 'L')")
s = stats(db)
difference = q(db, "SELECT gx_norm(gx_sub('L', 'L0')) / gx_norm('L0')")
held = s['device_used']
db.close()
result = [difference, s['device_calls'], s['device_fallbacks'], held, mock.alive()]
"""
    got = child_on_stand_ins(tmp_path, body, MOCK_MEMORY=256 << 20)
    assert got[0] < 1e-12 and got[1] >= 1 and got[2] == 0 and got[4] == {}
    assert got[3] <= 24000000


def test_threads(tmp_path):
    """Four connections of one process, each in its thread, on one device; the last comes while the others have memory."""
    body = FILE + """
import threading
q(db, "SELECT gx_config('tile_bytes', 32768)")
q(db, "SELECT gx_config('backend', 'cpu')")
for name, seed in (('A', 1), ('B', 2)):
    q(db, f"SELECT gx_randn(300, 300, '{name}', '{{\\"seed\\":{seed}}}')")
q(db, "SELECT gx_matmul('A', 'B', 'C0')")
q(db, "SELECT gx_config('backend', 'cuda')")
q(db, "SELECT gx_matmul('A', 'B', 'C1')")  # measures the device once
db.close()
found = []
def work(number):
    mine = gx_connect(path)
    ratios = [q(mine, "SELECT gx_norm(gx_sub(gx_matmul('A', 'B'), 'C0')) / gx_norm('C0')") for _ in range(5)]
    s = stats(mine)
    found.append([max(ratios), s['device_calls'] >= 5, s['device_fallbacks'], s['device_faults'], notes(mine)])
    mine.close()
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
result = [found, mock.counts()['violations'], mock.counts()['uncleared'], mock.counts()['device_peak'], mock.alive()]
"""
    got = child_on_stand_ins(tmp_path, body, GX_BACKEND="cuda", MOCK_MEMORY=512 << 20)
    assert len(got[0]) == 4 and all(row[0] < 1e-13 and row[1:] == [True, 0, 0, []] for row in got[0]), got
    assert got[1:3] == [0, 0] and got[3] <= 512 << 20 and got[4] == {}


def test_threads_begin_together(tmp_path):
    """The same where each measures the device first, on one that has no room for all of them: right, and nobody gives up."""
    body = FILE + """
import threading
q(db, "SELECT gx_randn(200, 200, 'A', '{\\"seed\\":1}')")
q(db, "SELECT gx_config('backend', 'cpu')")
q(db, "SELECT gx_matmul('A', 'A', 'C0')")
db.close()
found = []
def work():
    mine = gx_connect(path)
    q(mine, "SELECT gx_config('profile', 'off')")
    ratios = [q(mine, "SELECT gx_norm(gx_sub(gx_matmul('A', 'A'), 'C0')) / gx_norm('C0')") for _ in range(3)]
    found.append([max(ratios), stats(mine)['device_faults']])
    mine.close()
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
last = gx_connect(path)
q(last, "SELECT gx_matmul('A', 'A')")
result = [found, stats(last)['device_calls'], notes(last), mock.counts()['violations']]
last.close()
result += [mock.alive()]
"""
    got = child_on_stand_ins(tmp_path, body, GX_BACKEND="cuda", MOCK_MEMORY=160 << 20)
    assert len(got[0]) == 4 and all(row[0] < 1e-13 and row[1] == 0 for row in got[0]), got
    assert got[1] >= 1 and got[2:] == [[], 0, {}]


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
def test_factors_of_what_is_not_known(tmp_path, dtype):
    """A NaN anywhere in A, in one panel of the factorisation and in several: nothing of the result is a number."""
    body = FILE + f"""
result = []
for n in (1, 2, 90):
    for i, j in {{(0, 0), (n - 1, 0), (0, n - 1), (n // 2, n // 3)}}:
        a = (np.eye(n) * 3 + np.arange(n * n).reshape(n, n) / n**2).astype({dtype!r})
        a[i, j] = np.nan
        A, b = from_numpy(a), from_numpy(np.ones((n, 2), {dtype!r}))
        det = q(db, "SELECT gx_det(?)", A)
        det = to_numpy(det)[0, 0] if isinstance(det, bytes) else det
        x = [to_numpy(q(db, f"SELECT {{call}}", *values)) for call, values in
             (("gx_inverse(?)", [A]), ("gx_solve(?, ?)", [A, b]))]
        result.append([n, det is None or bool(np.isnan(det)), *(bool(np.isnan(y).all()) for y in x)])
result = [sorted(map(list, set(map(tuple, result)))), stats(db)['device_calls'] > 0]
"""
    got = child_on_stand_ins(tmp_path, body, GX_BACKEND="cuda")
    assert got == [[[n, True, True, True] for n in (1, 2, 90)], True]


def test_pieces_of_x(tmp_path):
    """Three strips of a kept matrix go to tensor cores, each with x made into pieces; the last strip, too small for them, goes
    to cuBLAS.  Another x, in the same place, is another product."""
    got = child_on_stand_ins(
        tmp_path,
        FILE
        + """
q(db, "SELECT gx_config('backend', 'cpu')"); q(db, "SELECT gx_config('probe', 'off')")
q(db, "SELECT gx_config('tile_bytes', 65536)")
q(db, "SELECT gx_randn(2200, 7000, 'A', '{\\"dtype\\":\\"f32\\"}')")
a = to_numpy(q(db, "SELECT gx_copy('A')")).astype(float)
random, result = np.random.default_rng(1), []
q(db, "SELECT gx_config('backend', 'cuda')")
for k in range(2):
    x = random.standard_normal((7000, 17)).astype('f4')
    before = mock.counts()['kernels']
    got = to_numpy(q(db, "SELECT gx_matmul('A', ?)", from_numpy(x)))
    result.append([float(np.abs(got - a @ x).max()), mock.counts()['kernels'] - before, notes(db)])
result.append(stats(db)['device_calls'])
""",
        GX_BACKEND="cuda",
        MOCK_MEMORY=160 << 20,
    )
    assert got.pop() == 2
    assert all(wrong < 1e-3 and remarks == [] for wrong, _, remarks in got)
    # Pieces; each product and the sum of its parts; cuBLAS; copies.  The first call measures the device, too.
    assert got[1][1] == 3 * 3 + 1 + 4


def test_flat(tmp_path):
    """A thousand products of mixed sizes: see tests/gpu/flat.py, which real GPUs run too."""
    path = child_on_stand_ins(tmp_path, "result = os.environ['GX_SO']")
    environment = {key: text for key, text in os.environ.items() if not key.startswith(("GX_", "MOCK_", "CUDA_"))}
    environment |= {"GX_SO": path, "CUDA_PATH": str(STAND_INS), "GX_PROFILE": "off", "MOCK_MEMORY": str(256 << 20)}
    done = subprocess.run([sys.executable, str(ROOT / "tests" / "gpu" / "flat.py"), "--largest", "60"], env=environment,
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "flat"


def test_each_call_fails():
    """A sample; `make fault` has more, and POINTS=0 every one."""
    if not STAND_INS.exists():
        pytest.skip(f"{STAND_INS} is not built: make programs")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "fault" / "cuda.py"), "--step", "211", "--script", "product", "cholesky", "eigen",
         "--stand-ins", str(STAND_INS)],
        env=os.environ | {"GX_SO": gx_path()}, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
