"""Products by other numbers, on stand-ins for NVIDIA's libraries: of doubles by residues, as exact as products of doubles; of f32 by halves.

Plan: random and graded operands (rows, columns, steps of the sum), turned ones, alpha and beta, zeros, panels with a rest,
against products in long doubles by the bound of a product of doubles; rows and columns with NaN and Inf as IEEE has them;
deterministic mode takes them as they are.  Halves: each pair of stored dtypes, turned or not, stored product and program, beside doubles.
"""
from mockkit import child_on_stand_ins


def test_products_by_residues(tmp_path):
    got = child_on_stand_ins(tmp_path, """
db = connect("cuda", 1 << 20)
rng = np.random.default_rng(3)
put = lambda name, a: q(db, "SELECT gx_from_bytes(?, 'f64', ?, ?, '{\\"replace\\":true}')", a.astype("<f8").tobytes(), a.shape[1], name)
def get(name):
    return np.frombuffer(q(db, "SELECT gx_to_bytes(?)", name), dtype="<f8").reshape(json.loads(q(db, "SELECT gx_shape(?)", name)))
result = []
def check(what, a, b, options={}, c0=None):
    for name, x in (("A", a), ("B", b)):
        put(name, x)
    left, right = (a.T if options.get("transa") else a), (b.T if options.get("transb") else b)
    if c0 is not None:
        put("C", c0)
    q(db, "SELECT gx_matmul('A', 'B', 'C', ?)", json.dumps(options if c0 is not None else options | {"replace": True}))
    alpha, beta = options.get("alpha", 1), options.get("beta", 0)
    want = alpha * (left.astype(np.longdouble) @ right.astype(np.longdouble)) + (0 if c0 is None else beta * c0.astype(np.longdouble))
    bound = abs(alpha) * (abs(left) @ abs(right)) + (0 if c0 is None else abs(beta * c0))
    error = np.max(np.where(bound > 0, abs(get("C") - want) / np.where(bound > 0, bound, 1), abs(get("C"))))
    result.append([what, float(error / 2**-53)])
m, n, k = 90, 70, 130
a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
before = mock.counts()["kernels"]
check("random", a, b)
used = [mock.counts()["kernels"] - before]
check("turned", a.T.copy(), b.T.copy(), {"transa": True, "transb": True})
check("half turned", a, b.T.copy(), {"transb": True})
check("alpha, beta", a, b, {"alpha": -0.37, "beta": 2.5}, rng.standard_normal((m, n)))
rows, cols, steps = (10.0 ** rng.uniform(-120, 120, x) for x in (m, n, k))
check("graded rows and columns", a * rows[:, None], b * cols)
check("graded steps", a * steps, b / steps[:, None])
check("all graded", a * steps * rows[:, None], b / steps[:, None] * cols)
check("one sign", abs(a), abs(b))
zero = a.copy()
zero[3], zero[:, 5] = 0, 0
check("zeros", zero, np.where(np.arange(n) == 7, 0, b))
check("tiny", a * 1e-300, b * 1e-5)
check("whole numbers", rng.integers(-1000, 1000, (m, k)).astype(float), rng.integers(-1000, 1000, (k, n)).astype(float))
exact = result[-1][1]
bad, worse = a.copy(), b.copy()
bad[4, 9], worse[11, 6] = np.inf, np.nan
put("A", bad)
put("B", worse)
q(db, "SELECT gx_matmul('A', 'B', 'C', '{\\"replace\\":true}')")
with np.errstate(all="ignore"):
    want, c = bad @ worse, get("C")
whole = np.ones((m, n), bool)
whole[4], whole[:, 6] = False, False
special = bool((np.isnan(c) == np.isnan(want)).all() and (np.isinf(c) == np.isinf(want)).all() and (np.sign(c[4, :6]) == np.sign(want[4, :6])).all()
               and np.allclose(c[whole], want[whole], rtol=1e-12))
q(db, "SELECT gx_config('deterministic', 'on')")
before = mock.counts()["kernels"]
check("deterministic", a, b)
used.append(mock.counts()["kernels"] - before)
result = [result, used, exact, special]
""", GX_RESIDUES_FROM=1, MOCK_MEMORY=64 << 20)
    errors, used, exact, special = got
    assert used[0] >= used[1] + 9 and special, used  # exponents, planes, what they come to: kernels of our own
    assert exact == 0  # whole numbers come out whole
    assert all(error <= 8 for _, error in errors), errors  # in units of |A| |B| / 2^53


def test_residues_in_panels(tmp_path):
    """More than 4096 steps of the sum: the second panel is added to the first."""
    got = child_on_stand_ins(tmp_path, """
db = connect("cuda", 1 << 24)
for name, m, n in (("A", 5, 9001), ("B", 9001, 6)):
    q(db, f"SELECT gx_eval('{name} := floor(random({m}, {n}, {m}) * 2000 - 1000)')")
q(db, "SELECT gx_config('backend', 'cpu')")
right = q(db, "SELECT gx_json(gx_matmul('A', 'B'))")
q(db, "SELECT gx_config('backend', 'cuda')")
before = stats(db)
result = [q(db, "SELECT gx_json(gx_matmul('A', 'B'))") == right, since(db, before)["device_calls"]]
""", GX_RESIDUES_FROM=1, MOCK_MEMORY=256 << 20)
    assert got[0] and got[1] > 0


def test_products_of_halves(tmp_path):
    """Matrices of f16, bf16, bytes and bool are multiplied as halves where both are; the others as f32."""
    got = child_on_stand_ins(tmp_path, """
import ml_dtypes
db = connect("cuda", 1 << 24)
rng = np.random.default_rng(8)
m, n, k = 141, 133, 150
of = {"f16": lambda x: x.astype(np.float16), "bf16": lambda x: x.astype(ml_dtypes.bfloat16), "i8": lambda x: np.clip(np.rint(x * 40), -128, 127).astype(np.int8),
      "u8": lambda x: np.clip(np.rint(abs(x) * 80), 0, 255).astype(np.uint8), "bool": lambda x: x > 0, "f32": lambda x: x.astype(np.float32), "i16": lambda x: np.rint(x * 5000).astype(np.int16)}
code = {"bf16": "bf16"}
def put(name, dtype, a):
    q(db, "SELECT gx_from_bytes(?, ?, ?, ?, '{\\"replace\\":true}')", np.ascontiguousarray(a).tobytes(), dtype, a.shape[1], name)
result = []
for da, db_, trans in [(a, b, t) for a in of for b in of for t in ("NN", "TN", "NT", "TT") if t == "NN" or (a, b) in (("f16", "f16"), ("i8", "bf16"), ("f16", "u8"))]:
    a, b = of[da](rng.standard_normal((m, k))), of[db_](rng.standard_normal((k, n)))
    put("A", da, a.T if trans[0] == "T" else a)
    put("B", db_, b.T if trans[1] == "T" else b)
    want = a.astype("f8") @ b.astype("f8")
    bound = abs(a.astype("f8")) @ abs(b.astype("f8"))
    program = f"A{'.T' if trans[0] == 'T' else ''} @ B{'.T' if trans[1] == 'T' else ''}"
    options = json.dumps({"transa": trans[0] == "T", "transb": trans[1] == "T"})
    for sql, args in (("SELECT gx_to_bytes(gx_matmul('A', 'B', NULL, ?))", (options,)), ("SELECT gx_to_bytes(gx_eval(?))", (program,))):
        before = mock.counts()["halves"]
        c = np.frombuffer(q(db, sql, *args), dtype="<f4").reshape(m, n)
        result.append([da, db_, trans, mock.counts()["halves"] - before, float(np.max(abs(c - want) / np.maximum(bound, 1e-30)) / 2**-24)])
""", MOCK_MEMORY=64 << 20)
    short = {"i8", "u8", "bool"}
    for a, b, trans, halves, error in got:
        assert (halves > 0) == (({a, b} - short) in ({"f16"}, {"bf16"}, set())), (a, b, trans, halves)
        assert error <= 2 * 150, (a, b, trans, error)
    assert len(got) == 2 * (7 * 7 + 3 * 3)
