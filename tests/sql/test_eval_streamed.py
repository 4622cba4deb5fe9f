"""gx_eval with operands larger than memory: what is read and written, and that it is right.

Plan:
- `(A @ B + C) * D`, every matrix four times memory_limit: the product's blocks are finished as they are made, nothing but the
  result is written, C and D are read once; the same bits as with memory for all of it, where those are promised; gx_plan says so;
- what may come after a product: other shapes, dtypes, functions of it alone, A @ A.T, transposed factors, its square, loops;
- a driver's result that does not fit goes to where it is stored, once; a later failure takes it back;
- what is done line by line (sort, cumsum, softmax, median ...), or moves elements (roll, flip, reshape, steps ...), and the parts of complex
  matrices: in strips of columns or rows, the same bits as in memory;
- rows and columns by number: they alone are read, of a stored matrix and of an intermediate that was spilled;
- on the stand-in device, a product with what comes after it runs there by blocks; each of its calls fails once.
"""
import numpy as np
import pytest

from conftest import error, from_numpy, gx_connect, q, to_numpy
from mockkit import child

SIDE = 724  # 4.2 MB
TILE, LIMIT = 65536, 1 << 20


def ev(db, text):
    return q(db, "SELECT gx_eval(?, '{\"replace\":true}')", text)


def settings(db, **values):
    for name, value in values.items():
        q(db, "SELECT gx_config(?, ?)", name, value)


def stat(db, *names):
    return [q(db, "SELECT value FROM gx_stats WHERE name = ?", name) for name in names]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A file with A .. D of SIDE x SIDE, r a row, c a column ..., and the same in NumPy."""
    path = str(tmp_path_factory.mktemp("streamed") / "a.db")
    db = gx_connect(path)
    settings(db, tile_bytes=TILE)
    rng = np.random.default_rng(11)
    shapes = {name: (SIDE, SIDE) for name in "ABCD"} | {"r": (1, SIDE), "c": (SIDE, 1), "N": (SIDE, 130), "M": (130, SIDE)}
    m = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    m["F"] = m["B"].astype(np.float32)
    m["G"] = m["C"].astype(np.float32)
    m["Z"] = m["N"] + 1j * rng.standard_normal((SIDE, 130))
    for name, value in m.items():
        q(db, "SELECT gx_store(?, ?)", name, from_numpy(value))
    db.close()
    return path, m


@pytest.fixture
def large(files):
    """A connection to it with a limit of a quarter of each."""
    db = gx_connect(files[0])
    settings(db, tile_bytes=TILE, threads=2, readers=2, memory_limit=LIMIT)
    yield db, files[1]
    db.close()


def stored(db, name):
    settings(db, memory_limit="1GB")
    value = to_numpy(ev(db, name))
    settings(db, memory_limit=LIMIT)
    return value


def close(got, want):
    eps = np.finfo(got.dtype).eps
    return got.shape == want.shape and np.max(np.abs(got - want)) <= 200 * eps * np.sqrt(SIDE) * np.max(np.abs(want))


@pytest.mark.parametrize("index", [[3], [700, 0, 0, -1], [5, 6, 7, 300, 8, 9], []])
def test_lines_by_number(large, index):
    db, m = large
    for name in "AFZ":
        a = m[name]
        for axis in (0, 1):
            some = [k % a.shape[axis] for k in index]
            before = stat(db, "bytes_read")[0]
            got = to_numpy(q(db, "SELECT gx_take(?, ?, ?)", name, str(some), axis))
            assert got.dtype == a.dtype and np.array_equal(got, np.take(a, some, axis))
            bands = len(index) * (-(-SIDE // 64) * TILE)  # the tiles of each line, where none has been read before
            assert stat(db, "bytes_read")[0] - before <= bands
    got = to_numpy(ev(db, f"X := A @ B; take(X * 2, {index}, 0)"))
    assert np.allclose(got, np.take(m["A"] @ m["B"] * 2, index, 0), atol=1e-10)
    assert "there is no row 724: there are 724" in error(db, "SELECT gx_take('A', '[3,724]')")
    rounds = to_numpy(ev(db, "s = zeros(1, 724); k = 0; repeat 5 { s = s + A[k, :]; k = k + 2 } s"))
    assert np.allclose(rounds, m["A"][0:10:2].sum(axis=0))


def test_bytes(large):
    db, m = large
    names = ("bytes_read", "bytes_written", "spills")

    def counted(text):
        before = stat(db, *names)
        ev(db, text)
        return [b - a for a, b in zip(before, stat(db, *names))]

    one = SIDE * SIDE * 8
    assert one > 4 * LIMIT - TILE
    read, written, spills = counted("P := A @ B")
    assert written == one and spills == 0
    with_others, written, spills = counted("R := (A @ B + C) * D")
    assert written == one and spills == 0
    # Two blocks of the cache are for C and D: A and B may pass by a little more often.
    assert read + 2 * one <= with_others <= 1.5 * read + 2 * one
    assert close(stored(db, "P"), m["A"] @ m["B"])
    assert close(stored(db, "R"), (m["A"] @ m["B"] + m["C"]) * m["D"])


def test_plan(large):
    """The plan says whether a product's blocks are finished as they are made: where memory does not hold it."""
    db, _ = large

    def details(text):
        return [row[0] for row in db.execute("SELECT detail FROM gx_plan('eval', ?) WHERE driver IN ('matmul', 'fused')", (text,))]

    product, group = details("(A @ B + C) * D")
    number = product.split(" = ")[0]
    assert product.endswith("A @ B, block by block") and group.endswith(f", finishing each block of {number} as it is made")
    assert details("A @ B")[0].endswith("A @ B")
    settings(db, memory_limit="1GB")
    assert not any("block" in detail for detail in details("(A @ B + C) * D"))


EXPRESSIONS = [
    ("A @ B * 2 + 1", lambda m: m["A"] @ m["B"] * 2 + 1),
    ("tanh(A @ B)", lambda m: np.tanh(m["A"] @ m["B"])),
    ("r * (A.T @ B) - c", lambda m: m["r"] * (m["A"].T @ m["B"]) - m["c"]),
    ("C / (1 + (A @ B.T) ** 2) + D", lambda m: m["C"] / (1 + (m["A"] @ m["B"].T) ** 2) + m["D"]),
    ("A @ A.T + C", lambda m: m["A"] @ m["A"].T + m["C"]),
    ("C - A.T @ A * r", lambda m: m["C"] - m["A"].T @ m["A"] * m["r"]),
    ("N @ M + C", lambda m: m["N"] @ m["M"] + m["C"]),
    ("F @ G + F", lambda m: m["F"] @ m["G"] + m["F"]),
    ("A @ F + G", lambda m: m["A"] @ m["F"] + m["G"]),
    ("Z @ Z.H + 2i * C", lambda m: m["Z"] @ m["Z"].conj().T + 2j * m["C"]),
    ("conj(Z @ M) * c", lambda m: np.conj(m["Z"] @ m["M"]) * m["c"]),
    ("A @ B + C @ D", lambda m: m["A"] @ m["B"] + m["C"] @ m["D"]),
    ("where(A @ B > C, C, D)", lambda m: np.where(m["A"] @ m["B"] > m["C"], m["C"], m["D"])),
    ("A @ r.T + c", lambda m: m["A"] @ m["r"].T + m["c"]),
]


@pytest.mark.parametrize("text, want", EXPRESSIONS, ids=[text for text, _ in EXPRESSIONS])
def test_after_a_product(large, text, want):
    db, m = large
    ev(db, f"R := {text}")
    assert close(stored(db, "R"), want(m))
    assert q(db, "SELECT gx_check('R')") == "ok"


def test_in_a_loop(large):
    db, m = large
    ev(db, "X = C; repeat 2 { X = (A @ X) * 0.01 + B; X = (X @ D) * 0.01 - C } R := X")
    x = m["C"]
    for _ in range(2):
        x = (m["A"] @ x) * 0.01 + m["B"]
        x = (x @ m["D"]) * 0.01 - m["C"]
    assert close(stored(db, "R"), x)


def test_by_the_reference_and_the_same_bits(large):
    db, m = large
    text = "R := (N @ M + C) * D"
    settings(db, deterministic="on")
    seen = set()
    for limit in (LIMIT, 3 * LIMIT, 1 << 30):
        settings(db, memory_limit=limit)
        ev(db, text)
        seen.add(stored(db, "R").tobytes())
    assert len(seen) == 1
    settings(db, deterministic="off", backend="reference")
    ev(db, text)
    assert close(stored(db, "R"), (m["N"] @ m["M"] + m["C"]) * m["D"])


Z = "hstack(Z, Z, Z, Z)"  # 6 MB
BY_STRIPS = [f"{op}(A, {axis})" for op in ("sort", "argsort", "cumsum", "cumprod", "diff", "softmax", "flip", "median") for axis in (0, 1)]
BY_STRIPS += [f"quantile(A, 0.3, {axis})" for axis in (0, 1)] + [f"cumsum({Z}, {axis})" for axis in (0, 1)]
BY_STRIPS += ["flip(A)", "roll(A, 5, 0)", "roll(A, -7, 1)", "roll(A, 730, 1)", "fftshift(A)", "tril(A, -3)", "triu(A, 2)", "repeat(A, 2, 0)", "repeat(A, 2, 1)",
              "tile(A, 2, 1)", "tile(A, 1, 3)", "A[:, ::2]", "A[::-1, :]", "A[::3, 700::-5]", "A[5:5, ::2]", "diag(A)", "diag(A @ B)", "median(A @ B, 1)"]
BY_STRIPS += [f"reshape(A, {rows}, {SIDE * SIDE // rows})" for rows in (181, 362, 1448, SIDE * SIDE)] + [f"reshape({Z}, 520, 724)"]
BY_STRIPS += [f"{part}({Z})" for part in ("real", "imag", "abs", "angle")] + [f"roll({Z}, 3, 1)", "real(fft(A)) * 2", "abs(fft2(A))", "sort(F, 1)", "triu(F)"]


@pytest.mark.parametrize("text", BY_STRIPS)
def test_by_strips(large, text):
    """As in memory, bit for bit, also where the program returns it."""
    db, _ = large
    want = stored(db, text)
    before, size = stat(db, "bytes_written")[0], want.nbytes
    ev(db, f"R := {text}")
    written = stat(db, "bytes_written")[0] - before
    got = stored(db, "R")
    assert close(got, want) if "@" in text else np.array_equal(got, want)
    if "Z" not in text and "@" not in text and "fft" not in text:
        assert written <= 2 * size + 2 * TILE  # strips narrower than tiles: once beside its place
    if size <= LIMIT // 8 and "@" not in text:
        assert np.array_equal(to_numpy(ev(db, text)), want)
    if text in ("sort(A, 0)", "sort(A, 1)", "roll(A, 5, 0)", "triu(A, 2)", "reshape(A, 362, 1448)"):
        names = {"sort(A, 0)": np.sort(large[1]["A"], 0), "sort(A, 1)": np.sort(large[1]["A"], 1), "roll(A, 5, 0)": np.roll(large[1]["A"], 5, 0),
                 "triu(A, 2)": np.triu(large[1]["A"], 2), "reshape(A, 362, 1448)": large[1]["A"].reshape(362, 1448)}
        assert np.array_equal(want, names[text])


def test_a_line_too_long(large):
    """A row of the result that does not fit is said, and nothing is left of it."""
    db, _ = large
    assert "memory_limit" in error(db, f"SELECT gx_eval('R2 := reshape(A, 1, {SIDE * SIDE})')")
    assert q(db, "SELECT count(*) FROM gx_meta WHERE name = 'R2'") == 0


def test_the_value_is_stored_by_the_caller(large):
    db, m = large
    before = stat(db, "bytes_written")[0]
    assert q(db, "SELECT gx_matmul('A', 'B', 'P', '{\"replace\":true}')") == "P"
    ev(db, "Q := A @ B; S := tanh(A) * 2 - C")
    assert stat(db, "bytes_written")[0] - before == 3 * SIDE * SIDE * 8
    assert np.array_equal(stored(db, "Q"), stored(db, "P"))
    assert close(stored(db, "S"), np.tanh(m["A"]) * 2 - m["C"])


def test_taken_back(large):
    db, m = large
    ev(db, "A2 := A")
    said = error(db, "SELECT gx_eval('A2 := A @ B + C; T := inverse(zeros(3, 3) * ?1)', 2, '{\"replace\":true}')")
    assert "singular" in said
    assert np.array_equal(stored(db, "A2"), m["A"])
    assert q(db, "SELECT count(*) FROM gx WHERE name = 'T'") == 0
    ev(db, "A2 := A2 @ B + A2")
    assert close(stored(db, "A2"), m["A"] @ m["B"] + m["A"])


def test_used_twice(large):
    """What somebody else wants, too, is not given away."""
    db, m = large
    ev(db, "P = A @ B; R := P + C; S := P * D")
    p = m["A"] @ m["B"]
    assert close(stored(db, "R"), p + m["C"]) and close(stored(db, "S"), p * m["D"])
    ev(db, "R := A @ B + C; norm(R)")
    assert close(stored(db, "R"), p + m["C"])


DEVICE = """
def connect():
    db = gx_connect(os.environ['TMP_PATH'] + '/a.db')
    for name, value in {'tile_bytes': 16384, 'backend': 'cuda'}.items():
        q(db, 'SELECT gx_config(?, ?)', name, value)
    return db
db = connect()
rng = np.random.default_rng(3)
m = {name: rng.standard_normal((300, 300)) for name in 'ABCD'}
for name, value in m.items():
    q(db, "SELECT gx_store(?, ?, '{\\"replace\\":true}')", name, from_numpy(value))
want = (m['A'] @ m['B'] + m['C']) * m['D']
counted = []
def run():
    q(db, "SELECT gx_config('memory_limit', '1MB')")
    q(db, "SELECT gx_config('device_memory_limit', '700KB')")
    before = stats(db)
    q(db, "SELECT gx_eval('R := (A @ B + C) * D', '{\\"replace\\":true}')")
    q(db, "SELECT gx_config('memory_limit', '1GB')")
    counted[:] = [stats(db)[k] - before[k] for k in ('device_calls', 'bytes_written', 'spills')]
    return bool(np.allclose(to_numpy(q(db, "SELECT gx_slice('R', 0, 300, 0, 300)")), want))
"""


def test_on_a_device(tmp_path):
    got = child(tmp_path, DEVICE + """
result = [run(), counted, notes(db)]
db.close()
result.append(mock.alive())
""")
    assert got[0] and got[1] == [1, 300 * 300 * 8, 0] and got[3] == {}, got


def test_a_device_that_fails(tmp_path):
    got = child(tmp_path, DEVICE + """
wrong = []
for call in ('alloc', 'kernel', 'upload', 'download', 'wait'):
    for nth in (1, 2, 7):
        db.close()
        db = connect()
        mock.order(f'{call}:{nth}')
        try:
            if not run():
                wrong.append([call, nth])
        except Exception as problem:
            wrong.append([call, nth, str(problem)])
        mock.order('')
db.close()
result = [wrong, mock.alive()]
""")
    assert got == [[], {}], got


def test_reductions_of_everything_have_the_same_bits_everywhere(tmp_path):
    """One thread, three, and read in strips: var, std, prod, logsumexp, any, all, argmin, argmax of all elements."""
    path = str(tmp_path / "all.db")
    rng = np.random.default_rng(5)
    shapes = {"wide": (40, 12000), "tall": (60000, 7), "column": (90000, 1), "row": (1, 44000), "square": (400, 401)}
    m = {name: np.exp(rng.standard_normal(shape) / 1000) for name, shape in shapes.items()}
    m["complex"] = np.exp(1j * rng.standard_normal((300, 150)))
    m["gaps"] = m["square"].copy()
    m["gaps"][300, 7] = m["gaps"][250, 400] = np.nan
    m["equal"] = np.ones((300, 300))
    m["equal"][200, 9] = m["equal"][100, 250] = 3
    db = gx_connect(path)
    settings(db, tile_bytes=TILE)
    for name, value in m.items():
        q(db, "SELECT gx_store(?, ?)", name, from_numpy(value))
    db.close()
    ops = ("var", "std", "prod", "any", "all", "logsumexp", "argmin", "argmax")
    found = []
    for threads, limit in ((1, "1GB"), (3, "1GB"), (2, LIMIT)):
        db = gx_connect(path)
        settings(db, tile_bytes=TILE, threads=threads, memory_limit=limit)
        found.append({(op, name): q(db, f"SELECT gx_eval('{op}({name})')") for name in m
                      for op in ops[: 5 if name == "complex" else 8]})
        if limit == LIMIT:
            assert stat(db, "bytes_read")[0] > sum(a.nbytes for a in m.values()) * 8  # in strips: each pass reads it
        db.close()
    assert found[0] == found[1]
    assert found[0] == found[2]
    for (op, name), value in found[0].items():
        a, got = m[name], np.nan if value is None else to_numpy(value).item() if isinstance(value, bytes) else value
        want = np.log(np.sum(np.exp(a))) if op == "logsumexp" else getattr(np, op)(a)
        assert np.isnan(want) == np.isnan(got) and (np.isnan(want) or abs(got - want) <= 1e-10 * abs(want)), (op, name)
