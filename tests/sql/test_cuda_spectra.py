"""Spectra on a device that is not there (tests/mockcuda).

Plan:
- Krylov methods with the matrix on the device: values and vectors as the CPU's, for all dtypes, symmetric and general,
  eigenvalues and singular triplets; all of the matrix there, a part of it, nothing of it; wide blocks of vectors;
- a second call finds the matrix still there; a changed one does not; passes, their bytes and time are counted;
- all eigenvalues, symmetric and general, and singular values, with and without vectors, tall, wide and full, on the
  device: as NumPy's, for all dtypes; left vectors of a general matrix on the CPU;
- gx_plan has a row for the device and one for the CPU, the chosen one first; none for a device without room;
- a device that returns wrong numbers without a word is found out, and the CPU computes;
- exponentials and whole powers of matrices, which stay there for all their products;
- systems and inverses whose factor lies there: general, positive definite, only nearly so, transposed;
- out of device memory in the middle, each call of the device failed in turn, a lost device: the right answer, a remark,
  nothing left behind.
"""
import pytest

from mockkit import child

pytestmark = pytest.mark.filterwarnings("error")

FILE = "path = os.environ['TMP_PATH'] + '/a.db'\ndb = gx_connect(path)\n"

# A stored symmetric S and a general G, with values that stand apart; what LAPACK says of them.
MADE = """
db.execute("SELECT gx_config('profile', 'off')").fetchall()
def make(n=90, dtype='f64', tile=32, seed=5):
    m = n + 20
    rng = np.random.default_rng(seed)
    element = {'f64': 8, 'f32': 4, 'c128': 16, 'c64': 8}[dtype]
    db.execute("SELECT gx_config('tile_bytes', ?)", (element * tile * tile,)).fetchall()
    def draw(*shape):
        x = rng.standard_normal(shape)
        return x + 1j * rng.standard_normal(shape) if dtype[0] == 'c' else x
    kind = dict(f64=np.float64, f32=np.float32, c128=np.complex128, c64=np.complex64)[dtype]
    q_, _ = np.linalg.qr(draw(n, n))
    values = 100 * 0.8 ** np.arange(n) * np.where(np.arange(n) % 3 == 1, -1, 1)
    S = (q_ * values) @ q_.conj().T
    S = ((S + S.conj().T) / 2).astype(kind)
    u, _ = np.linalg.qr(draw(m, n)); v, _ = np.linalg.qr(draw(n, n))
    G = ((u * (50 * 0.7 ** np.arange(n))) @ v.conj().T).astype(kind)
    for name, x in (('S', S), ('G', G)):
        q(db, "SELECT gx_copy(?, ?, '{\\"replace\\":true}')", from_numpy(x), name)
    return S.astype(np.complex128), G.astype(np.complex128), values
EIG = '{"k":6,"method":"krylov","symmetric":true,"ncv":40}'
def values_of(name='S', options=EIG):
    return [row[0] for row in db.execute("SELECT value FROM gx_eig(?, ?)", (name, options))]
"""


def run(tmp_path, body, **env):
    return child(tmp_path, FILE + MADE + body, GX_BACKEND="cuda", **env)


@pytest.mark.parametrize("dtype, bound", [("f64", 1e-9), ("f32", 1e-3), ("c128", 1e-9), ("c64", 1e-3)])
@pytest.mark.parametrize("limit", [0, 60, 25])
def test_krylov_eig(tmp_path, dtype, bound, limit):
    """limit: percent of the matrix that the device's memory holds, about; 0: all."""
    got = run(
        tmp_path,
        f"""
S, G, values = make(n=150, dtype={dtype!r}, tile=16)
if {limit}:
    q(db, "SELECT gx_config('device_memory_limit', ?)", {limit} * S.size * {dict(f64=8, f32=4, c128=16, c64=8)[dtype]} // 100 + 60000)
q(db, "SELECT gx_stats_reset()")
q(db, "SELECT gx_eig('S', 'values', 'vectors', ?)", EIG)
s = stats(db); before = mock.counts()
w = to_numpy(q(db, "SELECT gx_copy('values')")).real.ravel(); v = to_numpy(q(db, "SELECT gx_copy('vectors')"))
wanted = sorted(values[:6], key=lambda x: -abs(x))
result = [float(np.abs(w - wanted).max()), float(np.abs(S @ v - v * w).max()), s['passes'], s['pass_bytes'] / s['passes'] / S.size,
          s['device_calls'], s['device_fallbacks'], notes(db), before['violations'], s['pass_ns'] > 0]
db.close()
result += [mock.alive()]
""",
        MOCK_SLOW=50,
    )
    element = {"f64": 8, "f32": 4, "c128": 16, "c64": 8}[dtype]
    assert got[0] <= 100 * bound and got[1] <= 100 * bound and got[2] >= 3
    assert got[4:] == [1, 0, [], 0, True, {}]
    assert (got[3] == element) if limit == 0 else (0.5 * element < got[3] < 1.01 * element)


def test_general_and_svd(tmp_path):
    """Right products alone for eigenvalues, adjoint ones too for singular triplets, all and a part on the device."""
    got = run(
        tmp_path,
        """
result = []
for part in (0, 50):
    S, G, values = make(n=96, tile=16, seed=9)
    if part:
        q(db, "SELECT gx_config('device_memory_limit', ?)", part * G.size * 8 // 100 + 60000)
    N = np.triu(np.random.default_rng(3).standard_normal((96, 96)) * 0.1, 1) + np.diag(values)
    q(db, "SELECT gx_copy(?, 'N', '{\\"replace\\":true}')", from_numpy(N))
    q(db, "SELECT gx_stats_reset()")
    w = [r[0] for r in db.execute("SELECT value FROM gx_eig('N', '{\\"k\\":5,\\"method\\":\\"krylov\\",\\"ncv\\":40}')")]
    first = stats(db)['device_calls']
    sigma = [r[0] for r in db.execute("SELECT sigma FROM gx_svd('G', '{\\"k\\":5,\\"method\\":\\"krylov\\"}')")]
    want = sorted(values, key=lambda x: -abs(x))[:5]
    result += [float(np.abs(np.array(w) - want).max()), float(np.abs(np.array(sigma) - 50 * 0.7 ** np.arange(5)).max()),
               first, stats(db)['device_calls'] > first, stats(db)['device_fallbacks'], notes(db)]
v = mock.counts()['violations']
db.close()
result += [v, mock.alive()]
""",
    )
    for part in (got[:6], got[6:12]):
        assert part[0] < 1e-7 and part[1] < 1e-9 and part[2] >= 1
        assert part[3:] == [True, 0, []]
    assert got[12:] == [0, {}]


def test_matrix_stays(tmp_path):
    """The next call finds all of the matrix on the device; a changed one is copied again; wide blocks go in turns."""
    got = run(
        tmp_path,
        """
S, G, values = make(n=100, tile=32)
def call(options=EIG):
    q(db, "SELECT gx_stats_reset()")
    w = values_of('S', options)
    s = stats(db)
    want = sorted(call.values, key=lambda x: -abs(x))[:len(w)]
    return [s['device_hits'], s['bytes_read'], float(np.abs(np.array(w) - want).max())]
call.values = values
result = [call(), call()]
q(db, "SELECT gx_scale('S', 2, 'S2')"); db.execute("DELETE FROM gx WHERE name = 'S'"); db.execute("UPDATE gx SET name = 'S' WHERE name = 'S2'")
call.values = 2 * values
result += [call(), call('{"k":6,"method":"krylov","symmetric":true,"ncv":100,"block":45}')]
q(db, "SELECT gx_config('device', 0)")
result += [call()]
""",
    )
    first, second, changed, wide, reopened = got
    assert first[0] == 0 and first[1] > 0 and second[:2] == [1, 0]
    assert changed[0] == 0 and changed[1] > 0 and wide[:2] == [1, 0] and reopened[0] == 0 and reopened[1] > 0
    assert max(x[2] for x in got) < 1e-8


FAIL = """
S, G, values = make(n=80, tile=32, seed=2)
want = sorted(values, key=lambda x: -abs(x))[:6]
values_of()
result = dict(points=0, wrong=[], silent=[], violations=[])
for n in [*range(1, 40), *range(40, 2000, 13)]:
    q(db, "SELECT gx_config('backend', 'cuda')")
    q(db, "SELECT gx_config('device', 0)") if {reopen} else None
    q(db, "SELECT gx_stats_reset()")
    mock.order(f"{call}:{{n}}{mode}")
    w = values_of()
    has_failed = mock.counts()['failures'] > 0
    mock.order()
    if not has_failed:
        break
    result['points'] += 1
    if not np.abs(np.array(w) - want).max() < 1e-8:
        result['wrong'].append(n)
    is_told = any('ordered failure' in note or 'device memory' in note for note in notes(db))
    if not is_told and stats(db)['pinned_denied'] == 0:
        result['silent'].append([n, notes(db)])
    if mock.counts()['violations']:
        result['violations'].append(n)
db.close()
result['alive'] = mock.alive()
"""


@pytest.mark.parametrize(
    "call, mode, reopen", [("*", "", True), ("*", "", False), ("*", ":lost", True), ("memory", ":always", True), ("kernel_later", "", False)]
)
def test_each_call_fails(tmp_path, call, mode, reopen):
    got = run(tmp_path, FAIL.format(call=call, mode=mode, reopen=reopen))
    assert got["points"] >= (3 if call != "*" else 20)
    assert (got["wrong"], got["silent"], got["violations"], got["alive"]) == ([], [], [], {})


def test_a_part_fails(tmp_path):
    """The device fails while the host has a part of the matrix: the pass is computed again."""
    limit = """q(db, "SELECT gx_config('device_memory_limit', 80000)")\nvalues_of()\n"""
    got = run(tmp_path, FAIL.format(call="*", mode="", reopen=True).replace("values_of()\n", limit, 1))
    assert got["points"] >= 20
    assert (got["wrong"], got["silent"], got["violations"], got["alive"]) == ([], [], [], {})


DENSE = """
import itertools
def check(dtype, n=40, m=55):
    S, G, values = make(n=n, dtype=dtype, tile=16)
    eps = 2e-3 if dtype in ('f32', 'c64') else 1e-10
    N = np.triu(np.random.default_rng(3).standard_normal((n, n)), 1) + np.diag(values)
    kind = dict(f64=np.float64, f32=np.float32, c128=np.complex128, c64=np.complex64)[dtype]
    q(db, "SELECT gx_copy(?, 'N', '{\\"replace\\":true}')", from_numpy(N.astype(kind)))
    q(db, "SELECT gx_stats_reset()")
    worst = {}
    w = to_numpy(q(db, "SELECT gx_eigvals('S')")).real.ravel()
    worst['eigvals'] = np.abs(np.sort(w) - np.sort(values)).max()
    q(db, "SELECT gx_eig('S', 'w', 'v', '{\\"replace\\":true}')")
    w, v = (to_numpy(q(db, "SELECT gx_copy(?)", x)) for x in 'wv')
    worst['eig'] = np.abs(S @ v - v * w.ravel()).max()
    w = to_numpy(q(db, "SELECT gx_eigvals('N')")).ravel()
    worst['general'] = np.abs(np.sort(w.real) - np.sort(values)).max() / 10
    q(db, "SELECT gx_eig('N', 'w', 'v', '{\\"replace\\":true}')")
    w, v = (to_numpy(q(db, "SELECT gx_copy(?)", x)) for x in 'wv')
    worst['general vectors'] = np.abs(N @ v - v * w.ravel()).max()
    sigma = 50 * 0.7 ** np.arange(n)
    for name, x in (('G', G), ('H', G.conj().T)):
        q(db, "SELECT gx_copy(?, 'X', '{\\"replace\\":true}')", from_numpy(x.astype(kind)))
        s = [r[0] for r in db.execute("SELECT sigma FROM gx_svd('X')")]
        worst[name + ' values'] = np.abs(np.array(s) - sigma).max()
        for mode in ('economy', 'full'):
            q(db, "SELECT gx_svd('X', 's', 'u', 'vt', ?)", '{"replace":true,"mode":"%s"}' % mode)
            u, vt = (to_numpy(q(db, "SELECT gx_copy(?)", y)) for y in ('u', 'vt'))
            worst[name + mode] = np.abs((u[:, :n] * sigma) @ vt[:n] - x).max()
    return {k: float(v) for k, v in worst.items() if not v < 100 * eps}
"""


@pytest.mark.parametrize("dtype", ["f64", "f32", "c128", "c64"])
def test_dense(tmp_path, dtype):
    got = run(
        tmp_path,
        DENSE
        + f"""
result = [check({dtype!r})]
s = stats(db)
result += [s['device_calls'], s['device_fallbacks'], s['probes'], s['probe_ratio'], notes(db), mock.counts()['violations']]
left = [len(r[0]) for r in db.execute("SELECT left_vector FROM gx_eig('N', '{{\\"left\\":true}}') LIMIT 1")]
result += [len(left), stats(db)['device_calls'] - s['device_calls']]
db.close()
result += [mock.alive()]
""",
    )
    assert got[0] == {}
    assert got[1] >= 10 and got[2] == 0 and got[3] >= 10 and got[4] < 20000
    assert got[5:] == [[], 0, 1, 0, {}]


def test_plans(tmp_path):
    got = run(
        tmp_path,
        """
S, G, values = make(n=150, tile=16)
q(db, "SELECT gx_set_property('S', 'symmetric')")
COLUMNS = "SELECT chosen, device, driver, calls, bytes_read, compute_s > 0, seconds >= compute_s FROM gx_plan(?, ?)"
def plans(expression, options):
    return db.execute(COLUMNS, (expression, options)).fetchall()
def each():
    return [plans('eig(S, 6)', '{"method":"krylov","ncv":40}'), plans('eig(S)', '{}'), plans('svd(G, 5)', '{"method":"krylov"}'),
            plans('svd(G)', '{}')]
result = [each()]
q(db, "SELECT gx_config('device_memory_limit', 105000)")
result += [each()]
q(db, "SELECT gx_config('device_memory_limit', 0)")
q(db, "SELECT gx_stats_reset()")
q(db, "SELECT gx_eig('S', 'values', 'vectors', '{\\"k\\":6,\\"method\\":\\"krylov\\",\\"ncv\\":40}')")
result += [stats(db)['passes'], plans('eig(S, 6)', '{"method":"krylov","ncv":40}')]
q(db, "SELECT gx_config('backend', 'auto')")
result += [[row[:2] for row in plans('eig(S)', '{}')]]
""",
    )
    whole = 8 * 150 * 150
    krylov, dense, svd, svd_all = got[0]
    for rows, driver in (krylov, "lanczos"), (dense, "syevd"), (svd, "golub-kahan"), (svd_all, "gesdd"):
        assert [row[:3] for row in rows] == [[1, "cuda:0 mock", driver], [0, "cpu", driver]]
        assert all(row[5:] == [1, 1] for row in rows) and rows[0][3] == rows[1][3]
    assert dense[0][3:5] == [1, whole] and 0.5 * whole <= krylov[0][4] < 0.7 * whole
    assert svd[0][4] == 8 * 170 * 150
    # A part of A for the passes, no room for a dense call.
    krylov, dense, svd, svd_all = got[1]
    assert [len(rows) for rows in (krylov, dense, svd_all)] == [2, 1, 1] and dense[0][:2] == [1, "cpu"]
    assert got[3][0][3] == got[2] and got[3][1][3] == got[2]  # as in the last call
    assert [row[0] for row in got[4]] == [1, 0] and sorted(row[1] for row in got[4]) == ["cpu", "cuda:0 mock"]


@pytest.mark.parametrize("call, mode", [("*", ""), ("wrong", ":always"), ("memory", ":always"), ("*", ":lost")])
def test_dense_fails(tmp_path, call, mode):
    body = FAIL.replace("n=80", "n=40").replace("values_of()\n", "q(db, \"SELECT gx_eig('S', 'w', 'v')\")\n", 1)
    body = body.replace("want = sorted(values, key=lambda x: -abs(x))[:6]", "want = np.sort(values)")
    body = body.replace(
        "w = values_of()",
        """q(db, "SELECT gx_eig('S', 'w', 'v', '{{\\"replace\\":true}}')")
    w, v = (to_numpy(q(db, "SELECT gx_copy(?)", x)) for x in 'wv')
    w = w.ravel() + np.abs(S @ v - v * w.ravel()).max()""",
    )
    body = body.replace("'ordered failure' in note", "'ordered failure' in note or 'failed its check' in note")
    got = run(tmp_path, body.format(call=call, mode=mode, reopen=True))
    assert got["points"] >= (1 if call != "*" else 20)
    assert (got["wrong"], got["silent"], got["violations"], got["alive"]) == ([], [], [], {})


@pytest.mark.parametrize("dtype, bound", [("f64", 1e-12), ("f32", 1e-5), ("c128", 1e-12), ("c64", 1e-5)])
def test_exponentials_and_powers(tmp_path, dtype, bound):
    """There as on the CPU; a singular matrix in words; each call of the device fails once: the CPU's result."""
    got = run(
        tmp_path,
        f"""
S, G, values = make(n=70, dtype={dtype!r})
q(db, "SELECT gx_eval('A := G[0:70, :] / 7')")
statements = ["gx_expm('A')", "gx_powm('A', 5)", "gx_powm(gx_eval('A + 90 * eye(70)'), -3)", "gx_expm(gx_eval('A * 1e-9'))"]
q(db, "SELECT gx_config('backend', 'cpu')")
wanted = [to_numpy(q(db, "SELECT " + s)) for s in statements]
q(db, "SELECT gx_config('backend', 'cuda')")
result = []
for s, w in zip(statements, wanted):
    before = stats(db)
    x = to_numpy(q(db, "SELECT " + s))
    result.append([float(np.abs(x - w).max() / np.abs(w).max()), since(db, before)["device_calls"]])
words = error(db, "SELECT gx_powm(gx_zeros(70, 70), -1)")
bad = 0
for n in range(1, 90, 4):
    mock.order(f"*:{{n}}")
    x = to_numpy(q(db, "SELECT " + statements[0]))
    mock.order()
    bad += not np.abs(x - wanted[0]).max() <= {bound} * np.abs(wanted[0]).max()
result += [words, bad, mock.counts()['violations']]
db.close()
result += [mock.alive()]
""",
    )
    assert all(d <= bound and calls >= 1 for d, calls in got[:4]), got
    assert "is singular (pivot 1 is zero): it has no negative power" in got[4]
    assert got[5:] == [0, 0, {}]


@pytest.mark.parametrize("dtype, bound", [("f64", 1e-9), ("f32", 2e-3), ("c128", 1e-9), ("c64", 2e-3)])
def test_factors(tmp_path, dtype, bound):
    """Factored and solved there; what wants care or words is the CPU's; each call fails once: the CPU's result."""
    got = run(
        tmp_path,
        f"""
S, G, values = make(n=70, dtype={dtype!r})
q(db, "SELECT gx_eval('A := G[0:70, :] + 3 * eye(70); P := S @ S.H + eye(70); B := G[20:90, 0:5]')")
q(db, "SELECT gx_eval('N := 2 * ones(70, 70) - eye(70) + 0 * A')")  # a positive diagonal, but one positive eigenvalue alone
names = dict(A="gx_eval('A * 1')", P="gx_eval('P * 1')", N="gx_eval('N * 1')", B="gx_eval('B * 1')")
statements = ["gx_inverse('A')", "gx_inverse('P')", "gx_inverse(%(A)s)" % names, "gx_inverse(%(P)s)" % names, "gx_inverse(%(N)s)" % names,
              "gx_solve('A', 'B')", "gx_solve(%(P)s, %(B)s)" % names, "gx_solve('A', 'B', json_object('trans', 'T'))", "gx_solve('P', 'B', json_object('trans', 'T'))",
              "gx_solve('A', 'B', json_object('refine', 2))", "gx_eval('inverse(A)')", "gx_eval('solve(A, B)')", "gx_eval('solve(P * 1, B * 1)')",
              "gx_eval('X := inverse(A); sum(X @ A)')"]
q(db, "SELECT gx_config('backend', 'cpu')")
wanted = [to_numpy(q(db, "SELECT " + s)) for s in statements[:-1]]
q(db, "SELECT gx_config('backend', 'cuda')")
result = [[]]
for s, w in zip(statements, wanted):
    before = stats(db)
    x = to_numpy(q(db, "SELECT " + s))
    result[0].append([float(np.abs(x - w).max() / np.abs(w).max()), since(db, before)["device_calls"]])
words = [error(db, "SELECT gx_inverse(gx_eval('ones(70, 70) + 0 * A'))"), error(db, "SELECT gx_eval('solve(ones(70, 70), ones(70, 1))')")]
tiny = "gx_eval('inverse(eye(70) * 1e-310 + 0 * A)')" if {dtype!r} in ('f64', 'c128') else "gx_eval('inverse(eye(70) * 1e-3 + 0 * A)')"
x = to_numpy(q(db, "SELECT " + tiny))
q(db, "SELECT gx_config('backend', 'cpu')")
words.append(bool(np.array_equal(x, to_numpy(q(db, "SELECT " + tiny)), equal_nan=True)))
q(db, "SELECT gx_config('backend', 'cuda')")
bad = points = 0
for k in (0, 4, 6):
    for n in range(1, 40):
        q(db, "SELECT gx_config('device', 0)")
        mock.order(f"*:{{n}}")
        x = to_numpy(q(db, "SELECT " + statements[k]))
        points += mock.counts()['failures'] > 0
        mock.order()
        bad += not np.abs(x - wanted[k]).max() <= {bound} * np.abs(wanted[k]).max()
q(db, "SELECT gx_config('device', 0)")
mock.order("*:9:lost")
bad += not np.abs(to_numpy(q(db, "SELECT " + statements[4])) - wanted[4]).max() <= {bound} * np.abs(wanted[4]).max()
mock.order()
result += [words, bad, points, mock.counts()['violations']]
db.close()
result += [mock.alive()]
""",
    )
    assert all(d <= bound and calls >= 1 for d, calls in got[0]), got[0]
    assert "is singular (pivot 2 is exactly zero)" in got[1][0] and "is singular" in got[1][1] and got[1][2] is True
    assert got[2] == 0 and got[3] >= 10 and got[4:] == [0, {}]
