"""The device path, on a device that is not there (tests/mockcuda).

Plan:
- a product on the device is the CPU's, for all dtypes, transposes, values and stored operands, with blocks that fit
  the device's memory and with as few as three; nothing is left on the device when the connection is closed;
- copies and kernels that are late show: the device's memory is full of NaNs, its queues are threads;
- a matrix that has not changed is not copied again; one that has is; after a rollback, an ATTACH of another file and a
  change by another connection too;
- page-locked memory within its budget, reused from call to call, pageable where it is refused, and counted;
- out of device memory: fewer blocks, then smaller ones, then the CPU; a failure of the n-th call of any function:
  the right answer and a remark; a lost device stays off; nothing leaks;
- 'auto' leaves little work and slow devices alone; no driver, no device, another device; gx_devices says why;
- without gx_cuda.so nothing mentions CUDA.
"""
import pytest

from mockkit import child

pytestmark = pytest.mark.filterwarnings("error")

FILE = "path = os.environ['TMP_PATH'] + '/a.db'\ndb = gx_connect(path)\n"
DIFFERENCE = """
def difference(name):
    a = to_numpy(q(db, "SELECT gx_copy(?)", name)); b = to_numpy(q(db, "SELECT gx_copy('C0')"))
    return float(np.abs(a - b).max()) if a.size else 0.0
"""


@pytest.mark.parametrize("dtype, bound", [("f64", 1e-12), ("f32", 1e-3), ("c128", 1e-12), ("c64", 1e-3)])
@pytest.mark.parametrize("limit", [0, 4 * 65536])
def test_product(tmp_path, dtype, bound, limit):
    got = child(
        tmp_path,
        FILE
        + DIFFERENCE
        + f"matrices(db, dtype={dtype!r}, tile=32)\n"
        + f"q(db, \"SELECT gx_config('device_memory_limit', {limit})\")\n"
        + """
q(db, "SELECT gx_matmul('A', 'B', 'C')")
q(db, "SELECT gx_norm(gx_matmul('A', 'B'))")
q(db, "SELECT gx_transpose('A', 'AT')")
q(db, "SELECT gx_transpose('B', 'BT')")
q(db, "SELECT gx_matmul('AT', 'BT', 'D', '{\\"transa\\":true,\\"transb\\":true}')")
s = stats(db)
before = mock.counts()
result = [difference('C'), difference('D'), s['device_calls'], s['device_fallbacks'], notes(db)]
db.close()
result += [before['violations'], mock.alive()]
""",
        GX_BACKEND="cuda",
        MOCK_SLOW=200,
    )
    assert got[4] == []
    assert max(got[:2]) <= bound and got[2] >= 4 and got[3:] == [0, [], 0, {}]


def test_blocks_stay(tmp_path):
    """A second product of the same matrices copies nothing up; a changed one only what changed."""
    got = child(
        tmp_path,
        FILE
        + DIFFERENCE
        + """
matrices(db)
def call(name):
    before = stats(db)
    q(db, "SELECT gx_matmul('A', 'B', ?)", name)
    after = stats(db)
    return [after['device_hits'] - before['device_hits'], after['uploaded'] - before['uploaded']]
result = [call('C1'), call('C2')]
q(db, "UPDATE gx SET name = 'A2' WHERE name = 'A'")
q(db, "SELECT gx_scale('A2', 2, 'A')")
result += [call('C3'), difference('C2')]
q(db, "SELECT gx_scale('C0', 2, 'C9')")
a, b = (to_numpy(q(db, "SELECT gx_copy(?)", name)) for name in ('C3', 'C9'))
result += [float(np.abs(a - b).max())]
db.execute("BEGIN"); db.execute("DELETE FROM gx WHERE name = 'A'")
q(db, "SELECT gx_scale('A2', 3, 'A')"); q(db, "SELECT gx_matmul('A', 'B', 'C4')"); db.execute("ROLLBACK")
q(db, "SELECT gx_scale('A2', 5, 'A', '{\\"replace\\":true}')"); q(db, "SELECT gx_matmul('A', 'B', 'C4')")
a, b = (to_numpy(q(db, "SELECT gx_copy(?)", name)) for name in ('C4', 'C0'))
result += [float(np.abs(a - 5 * b).max())]
""".replace('q(db, "UPDATE', 'db.execute("UPDATE'),
        GX_BACKEND="cuda",
    )
    first, second, third, *differences = got
    assert first[0] == 0 and first[1] > 0
    assert second[0] > 0 and second[1] == 0
    assert 0 < third[1] < first[1]
    assert max(differences) < 1e-11
