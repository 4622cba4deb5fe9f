"""What a prover does: circle transforms and constraints over m31, on the host and on devices.

Plan:
- circle transforms: the known vectors, the points of the definition, all orders, back again, larger than memory (bytes counted);
- constraints and the extensions cm31 and qm31 against Python's integers, in blocks, refusals;
- one device and several: the bits of the CPU; each call of a device fails once.
"""
import json

import numpy as np
import pytest

from conftest import error, q
from exactkit import P, edged, ints, matrix, put
from mockkit import child_on_stand_ins


# Circle transforms --------------------------------------------------------------------------------

def both(a, b):
    return ((a[0] * b[0] - a[1] * b[1]) % P, (a[0] * b[1] + a[1] * b[0]) % P)


def power(a, n):
    r = (1, 0)
    while n:
        r = both(r, a) if n & 1 else r
        a, n = both(a, a), n >> 1
    return r


def generator(log):
    return power((2, 1268011823), 2 ** (31 - log))


def domain(log):
    """Half a coset, then the conjugates."""
    point, step, half = generator(log + 1), generator(log - 1), []
    for _ in range(2 ** (log - 1)):
        half.append(point)
        point = both(point, step)
    return half + [(x, -y % P) for x, y in half]


def value_at(c, point, log):
    factors, v = [point[1], point[0]], [int(x) for x in c]
    while len(factors) < log:
        factors.append((2 * factors[-1] ** 2 - 1) % P)
    for f in factors[:log]:
        v = [(v[i] + v[i + 1] * f) % P for i in range(0, len(v), 2)]
    return v[0]


def reversed_bits(i, log):
    return int(bin(i)[2:].zfill(log)[::-1], 2)


VECTORS = {1: [2147483646, 3], 2: [32767, 163843, 2147450878, 2147319810],
           3: [885347334, 2092305986, 1262332919, 55636419, 714723476, 1109642644, 1432563561, 1037382257],
           4: [319344278, 1682075683, 1487741836, 391444088], 8: [1036546921, 439168013, 1202402638, 122682748]}


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_circle_transforms(db, backend):
    q(db, "SELECT gx_config('backend', ?)", backend)
    for log in range(1, 13 if backend == "cpu" else 10):
        n, rng = 2**log, np.random.default_rng(log)
        got = ints(db, "gx_circle_fft(?)", matrix(db, np.arange(1, n + 1)[:, None], "m31"))[:, 0].tolist()
        assert got[:len(VECTORS.get(log, []))] == VECTORS.get(log, [])
        c = np.array([i * i + 7 for i in range(n)])
        value, points = matrix(db, c[:, None], "m31"), domain(log)
        got = ints(db, "gx_circle_fft(?)", value)[:, 0].tolist()
        assert log != 12 or got[:4] == [1930884249, 594920988, 2075317423, 49174492]
        places = range(n) if log < 9 else rng.integers(0, n, 40).tolist()
        for i in places:
            assert got[reversed_bits(i, log)] == value_at(c, points[i], log)
        of_domain = ints(db, "gx_circle_fft(?, 0, NULL, '{\"order\":\"domain\"}')", value)[:, 0].tolist()
        assert [of_domain[i] for i in places] == [got[reversed_bits(i, log)] for i in places]
        of_coset, g = ints(db, "gx_circle_fft(?, 0, NULL, '{\"order\":\"coset\"}')", value)[:, 0].tolist(), generator(log + 1)
        for i in list(places)[:40]:
            assert of_coset[i] == value_at(c, power(g, 2 * i + 1), log)
        r = rng.integers(0, P, (n, 3))
        for order in ("bitrev", "domain", "coset"):
            option = json.dumps({"order": order})
            assert (ints(db, "gx_circle_fft(gx_circle_fft(?, 0, NULL, ?), 1, NULL, ?)", matrix(db, r, "m31"), option, option) == r).all()
        if log > 1:  # more points than coefficients
            longer = ints(db, "gx_circle_fft(?, 0, NULL, ?)", matrix(db, c[:n // 2, None], "m31"), json.dumps({"log": log}))
            assert (longer == ints(db, "gx_circle_fft(?)", matrix(db, np.where(np.arange(n) < n // 2, c, 0)[:, None], "m31"))).all()


def test_long_circle_transforms(filedb):
    rng = np.random.default_rng(4)
    for log, limit in ((17, "1GB"), (20, "1GB"), (21, "26MB"), (22, "26MB")):
        n = 2**log
        c = rng.integers(0, P, n)
        q(filedb, "SELECT gx_config('memory_limit', '1GB')")
        q(filedb, "SELECT gx_cast(gx_from_bytes(?, 'u32', 1), 'm31', 'C', '{\"replace\":true}')", c.astype("<u4").tobytes())
        q(filedb, "SELECT gx_config('memory_limit', ?)", limit)
        filedb.execute("SELECT gx_stats_reset()").fetchall()
        q(filedb, "SELECT gx_circle_fft('C', 0, 'F', '{\"replace\":true}')")
        read, written = (q(filedb, f"SELECT value FROM gx_stats WHERE name = '{name}'") for name in ("bytes_read", "bytes_written"))
        assert read <= 2.01 * 4 * n and written <= 2.01 * 4 * n
        g, h = generator(log + 1), generator(log - 1)
        for i in [0, n // 2, n - 1] + rng.integers(0, n, 2).tolist():
            x, y = both(g, power(h, i % (n // 2)))
            point = (x, y if i < n // 2 else -y % P)
            v = c.astype(np.uint64)
            f = [point[1], point[0]]
            while len(f) < log:
                f.append((2 * f[-1] ** 2 - 1) % P)
            for t in f:
                v = (v[0::2] + v[1::2] * np.uint64(t)) % np.uint64(P)
            assert q(filedb, "SELECT gx_get('F', ?, 0)", reversed_bits(i, log)) == int(v[0])
        q(filedb, "SELECT gx_circle_fft('F', 1, 'B', '{\"replace\":true}')")
        assert q(filedb, "SELECT gx_eval('sum(B == C)')") == n


def test_circle_refusals(db):
    for sql, words in {
        "gx_circle_fft('[[1],[2]]')": "must be of m31", "gx_circle_fft(gx_cast('[[1],[2],[3]]', 'm31'))": "2, 4, 8",
        "gx_circle_fft(gx_cast('[[1]]', 'm31'))": "2, 4, 8", "gx_circle_fft(gx_cast('[[1],[2]]', 'm31'), 2)": "0 or 1",
        "gx_circle_fft(gx_cast('[[1],[2]]', 'm31'), 1, NULL, '{\"log\":2}')": "log", "gx_circle_fft(gx_cast('[[1],[2]]', 'm31'), 0, NULL, '{\"order\":\"x\"}')": "bitrev",
        "gx_circle_fft(gx_cast(gx_zeros(0, 1), 'm31'))": "2, 4, 8", "gx_circle_fft(gx_cast('[[1],[2]]', 'm31'), 0, NULL, '{\"log\":31}')": "30",
    }.items():
        assert words in error(db, "SELECT " + sql), sql
    assert q(db, "SELECT gx_shape(gx_circle_fft(gx_cast(gx_zeros(4, 0), 'm31')))") == "[4,0]"


# Constraints --------------------------------------------------------------------------------------

def times(a, b):
    """Numbers of m31, cm31, qm31: lists of 1, 2, 4 elements."""
    if len(a) == 1:
        return [a[0] * b[0] % P]
    if len(a) == 2:
        return [(a[0] * b[0] - a[1] * b[1]) % P, (a[0] * b[1] + a[1] * b[0]) % P]
    low, high, x, y = times(a[:2], b[:2]), times(times(a[2:], b[2:]), [2, 1]), times(a[:2], b[2:]), times(a[2:], b[:2])
    return [(u + v) % P for u, v in zip(low + x, high + y)]


def combined(rows, terms, coefficient, step):
    """What each row comes to: the terms as Python reads them, by Horner."""
    result, inverse = [], pow(7, -1, P)
    code = [compile(term.replace("/7", f"*{inverse}"), term, "eval") for term in terms]
    for i, row in enumerate(rows):
        names, total = {"row": row, "next": rows[(i + step) % len(rows)]}, [0] * len(coefficient)
        for term in code:
            total = times(total, coefficient)
            total[0] = (total[0] + eval(term, names)) % P
        result.append(total)
    return result


def random_terms(rng, cols, count):
    terms = []
    for _ in range(count):
        a, b, c, d = (int(x) for x in rng.integers(0, cols, 4))
        terms.append(str(rng.choice([
            f"row[{a}]*row[{b}] - row[{c}]", f"next[{a}] - row[{b}]*row[{c}] + {rng.integers(0, P)}", f"row[{a}]**5 - next[{c}]", f"-row[{a}]/7 + 5",
            f"(row[{a}]+next[{b}])*(row[{c}]-{d}*row[{d}])", f"(row[{a}]*row[{b}] - (next[{c}] - (row[{d}] - 3)*(row[{a}] + 2)))*((row[{b}]-1)*(row[{c}]-1))", "17"])))
    return terms


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_constraints(db, backend):
    """40 columns and 100 terms on 2^12 rows, and shapes at the edges of pieces, against Python's integers."""
    q(db, "SELECT gx_config('backend', ?)", backend)
    rng = np.random.default_rng(5)
    for n, cols, count, width, step in [(4096, 40, 100, 4, 1), (1, 1, 1, 1, 1), (5, 3, 4, 2, 7), (257, 3, 9, 4, 256), (1000, 12, 30, 4, 4), (513, 2, 20, 1, 2)]:
        rows, terms = edged(rng, n, cols), random_terms(rng, cols, count)
        coefficient = [int(x) for x in rng.integers(0, P, width)]
        got = ints(db, "gx_constraints(?, ?, ?, ?)", matrix(db, rows, "m31"), "; ".join(terms), json.dumps(coefficient), json.dumps({"step": step}))
        assert got.tolist() == combined(rows.tolist(), terms, coefficient, step), (n, cols, width, step)
    names = "a = row[0] * row[1]; b = next[0]; a = a - b; a; a * a * b - 2; b"
    got = ints(db, "gx_constraints(?, ?, 3)", matrix(db, [[2, 3], [5, 7]], "m31"), names)
    assert got.tolist() == [[(1 * 9 + (1 * 1 * 5 - 2) * 3 + 5) % P], [(33 * 9 + (33 * 33 * 2 - 2) * 3 + 2) % P]]


def test_long_constraints(filedb):
    """Stored columns under a limit that cuts them into blocks: each block is read once; a short last block holds the next rows."""
    q(filedb, "SELECT gx_config('tile_bytes', 65536)")
    rng = np.random.default_rng(6)
    terms = random_terms(rng, 9, 12)
    text, option = "; ".join(terms), '{"replace":true}'
    for n in (50000, 49153):
        rows = edged(rng, n, 9)
        put(filedb, "T", rows)
        q(filedb, "SELECT gx_config('memory_limit', '1GB')")
        for step in (1, 3, 500):
            whole = q(filedb, "SELECT gx_constraints(gx_copy('T'), ?, '[1,2,3,4]', ?)", text, json.dumps({"step": step}))
            q(filedb, "SELECT gx_config('memory_limit', '2MB')")
            q(filedb, "SELECT gx_constraints('T', ?, '[1,2,3,4]', 'C', ?)", text, json.dumps({"step": step, "replace": True}))
            q(filedb, "SELECT gx_config('memory_limit', '1GB')")
            assert q(filedb, "SELECT gx_to_bytes('C') = gx_to_bytes(?)", whole) == 1, (n, step)
            at = [0, 1, n // 2, n - 2, n - 1]
            all_rows = rows.tolist()
            for i in at:
                pair = [all_rows[i], all_rows[(i + step) % n]]
                assert ints(filedb, f"gx_eval('C[{i}, :]')").tolist()[0] == combined(pair, terms, [1, 2, 3, 4], 1)[0]


def test_constraints_refusals(db):
    db.execute("CREATE TABLE t(x)")
    value = matrix(db, [[1, 2], [3, 4]], "m31")
    for text, word in {"row[2]": "from 0 to 1", "row[-1]": "from 0 to 1", "row[0.5]": "from 0 to 1", "next[0:1]": "from 0 to 1", "row[0, 1]": "in brackets", "x[0]": "in brackets",
                       "x": "nothing is named x", "row[0] / row[1]": "divide by numbers", "row[0] / 0": "divide by numbers", "row[0] < 1": "polynomials", "sin(row[0])": "polynomials",
                       "row[0] @ row[1]": "polynomials", "1.5": "whole numbers", "row[0] ** row[1]": "exponent", "row[0] ** -1": "exponent", "a = row[0]": "no constraint", "": "constraint",
                       "a, b = row[0]; a": "one name", "repeat 3 { row[0] }": "expressions", "row[0] +": "line 1", "'a'": "polynomials", "?1": "polynomials", "[1,2]": "polynomials",
                       "row": "nothing is named row", "row(0)": "polynomials"}.items():
        assert word in error(db, "SELECT gx_constraints(?, ?, 3)", value, text), text
    many = "; ".join(f"v{k} = row[0] * {k + 2}" for k in range(20)) + "; " + " + ".join(f"v{k}" for k in range(20))
    assert "more than 16 values" in error(db, "SELECT gx_constraints(?, ?, 3)", value, many)
    assert "65536 steps" in error(db, "SELECT gx_constraints(?, ?, 3)", value, ";".join(["row[0]*row[1]"] * 40000))
    for coefficient, word in {"[1,2,3]": "1, 2 or 4", "[[1,2],[3,4]]": "1, 2 or 4", "[]": "1, 2 or 4", "[0.5]": "0.5", "nobody": "nobody"}.items():
        assert word in error(db, "SELECT gx_constraints(?, 'row[0]', ?)", value, coefficient), coefficient
    assert "m31" in error(db, "SELECT gx_constraints('[[1,2]]', 'row[0]', 3)")
    assert "no columns" in error(db, "SELECT gx_constraints(gx_cast(gx_zeros(3, 0), 'm31'), '5', 3)")
    assert "step" in error(db, "SELECT gx_constraints(?, 'row[0]', 3, '{\"step\":0}')", value)
    assert q(db, "SELECT gx_shape(gx_constraints(gx_cast(gx_zeros(0, 3), 'm31'), 'row[0]', '[1,2]'))") == "[0,2]"


def test_extensions(db):
    """Products and inverses of cm31 and qm31."""
    rng = np.random.default_rng(8)
    for width in (2, 4):
        a, b = edged(rng, 500, width), edged(rng, 500, width)
        a[a.sum(axis=1) == 0, 0] = 1
        got = ints(db, "gx_m31_mul(?, ?)", matrix(db, a, "m31"), matrix(db, b, "m31"))
        assert got.tolist() == [times(x, y) for x, y in zip(a.tolist(), b.tolist())]
        one = [1] + [0] * (width - 1)
        inverse = ints(db, "gx_m31_inverse(?)", matrix(db, a, "m31"))
        assert all(times(x, y) == one for x, y in zip(a.tolist(), inverse.tolist()))
        assert ints(db, "gx_m31_mul(?, ?)", matrix(db, a[:1], "m31"), matrix(db, b, "m31")).tolist() == [times(a[0].tolist(), y) for y in b.tolist()]
        assert "row 1" in error(db, "SELECT gx_m31_inverse(?)", matrix(db, [one, [0] * width], "m31"))
    for sql in ("gx_m31_mul('[[1,2,3]]', '[[1,2,3]]')", "gx_m31_mul('[[1,2]]', '[[1,2,3,4]]')", "gx_m31_mul('[[1,2],[3,4]]', '[[1,2],[3,4],[5,6]]')", "gx_m31_inverse('[[1.5,2]]')"):
        assert "gx_m31" in error(db, "SELECT " + sql)


# Devices ------------------------------------------------------------------------------------------

def test_circle_transforms_on_a_device(tmp_path):
    """All layers of whole columns there, in one pass and in several, and back; a failure on the way is the host's turn."""
    got = child_on_stand_ins(tmp_path, """
db = connect("cpu", 65536)
result = []
for log in (1, 2, 3, 5, 11, 12, 13, 15, 20):
    text = f"floor(random({2**log}, {2 if log < 20 else 1}, {log}) * 2147483647)"
    q(db, "SELECT gx_cast(gx_eval(?), 'm31', 'V', ?)", text, '{"replace":true}')
    bits = []
    for backend in ("cpu", "cuda"):
        q(db, "SELECT gx_config('backend', ?)", backend)
        before = stats(db)
        there = q(db, "SELECT hex(gx_to_bytes(gx_circle_fft('V')))")
        back = q(db, "SELECT gx_to_bytes(gx_circle_fft(gx_circle_fft('V'), 1)) = gx_to_bytes('V')")
        bits.append(there)
    result.append([bits[0] == bits[1], back == 1, since(db, before)["device_calls"]])
""", MOCK_MEMORY=256 << 20)
    assert all(same and back for same, back, _ in got) and sum(calls for *_, calls in got) >= 3 * 9, got


def test_constraints_and_transforms_on_devices(tmp_path):
    """One device and several, one with little memory, columns dealt and a column shared: the bits of the CPU; parts cross between devices."""
    got = child_on_stand_ins(tmp_path, """
db = connect("cpu", 1 << 20)
q(db, "SELECT gx_cast(gx_eval('floor(random(70000, 6, 1) * 2147483647)'), 'm31', 'T')")
q(db, "SELECT gx_cast(gx_eval('floor(random(65536, 6, 2) * 2147483647)'), 'm31', 'V')")
q(db, "SELECT gx_cast(gx_eval('floor(random(8388608, 1, 3) * 2147483647)'), 'm31', 'L')")
CALLS = {
    "constraints": "gx_constraints('T', 'a = row[0] * next[1]; a - row[2]; a ** 3 + next[5] * 7; row[4] - 1', '[5,6,7,8]', 'R', '{\\"step\\":2}')",
    "columns": "gx_circle_fft('V', 0, 'R')", "back": "gx_circle_fft('V', 1, 'R')", "longer": "gx_circle_fft('V', 0, 'R', '{\\"log\\":17}')",
    "long": "gx_circle_fft('L', 0, 'R')", "long back": "gx_circle_fft('L', 1, 'R')",
}
def answer(name):
    db.execute("DELETE FROM gx WHERE name = 'R'")
    before = stats(db)
    q(db, "SELECT " + CALLS[name])
    return q(db, "SELECT gx_to_bytes('R')"), since(db, before)
result = {}
right = {name: answer(name)[0] for name in CALLS}
for devices in (1, 2, 3):
    q(db, "SELECT gx_config('backend', 'cuda')")
    q(db, "SELECT gx_config('devices', ?)", ",".join(str(d) for d in range(devices)) if devices > 1 else 1)
    for name in CALLS:
        got, counts = answer(name)
        result[f"{name} {devices}"] = [got == right[name], counts["device_calls"], counts.get("spread_calls", 0), counts.get("device_fallbacks", 0)]
""", MOCK_MEMORY=256 << 20, MOCK_DEVICES=3, timeout=300)
    assert all(same and calls > 0 and back == 0 for same, calls, _, back in got.values()), got
    assert all(spread > 0 for name, (_, _, spread, _) in got.items() if name[-1] != "1" and name[:-2] != "longer"), got


@pytest.mark.parametrize("mode", ["", "!"])
def test_a_device_that_fails_on_the_way(tmp_path, mode):
    """Whichever call of the device fails, in a transform or a product, the numbers are the CPU's."""
    got = child_on_stand_ins(tmp_path, f"MODE = {mode!r}" + """
db = connect("cpu", 65536)
q(db, "SELECT gx_cast(gx_eval('floor(random(8192, 2, 1) * 2147483647)'), 'm31', 'V')")
q(db, "SELECT gx_cast(gx_eval('floor(random(90, 70, 1) * 2147483647)'), 'm31', 'A')")
result = {}
for name, sql in {"circle": "gx_circle_fft(gx_circle_fft('V'), 1, NULL, '{\\"order\\":\\"domain\\"}')", "product": "gx_matmul('A', 'A', '{\\"transb\\":true}')"}.items():
    q(db, "SELECT gx_config('backend', 'cpu')")
    right = q(db, f"SELECT gx_to_bytes({sql})")
    q(db, "SELECT gx_config('backend', 'cuda')")
    n, wrong = 1, []
    while n < 400:
        q(db, "SELECT gx_config('device', 0)")
        mock.order(f"*:{n}{MODE}")
        got = q(db, f"SELECT gx_to_bytes({sql})")
        has_failed = mock.counts()["failures"] > 0
        mock.order()
        if got != right:
            wrong.append(n)
        if not has_failed:
            break
        n += 1 if n < 40 else 7
    result[name] = [n, wrong]
""", timeout=300)
    assert all(not wrong and n > 10 for n, wrong in got.values()), got
