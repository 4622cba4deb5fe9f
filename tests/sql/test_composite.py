"""Composites: matrices made of other stored matrices (gx_block, core/mat/composite.h).

Plan:
- random layouts (parts of every dtype, sparse ones, transposed, conjugated, scaled, numbers, zeros, composites in composites)
  against numpy.block: elements, sums, products both ways, views, cells, rows, exports, programs;
- they are live: what a part becomes they are; a part that is gone or of another size is named; renaming follows, also by UPDATE;
- many functions give the bits that the copied matrix gives, under a small memory_limit and `deterministic`; what is void is not read;
- on a device that is not there: the same answers;
- what is no layout is refused in words, and nothing is left; composites of themselves; too many parts, too deep;
- forged layouts: every byte changed, cut anywhere: words, and gx_check names them;
- kept by backup and dump, refused by gx of the format before; written to by nobody.
"""
import json
import sqlite3

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from conftest import STORED, error, from_numpy, gx_connect, q, to_numpy
from mockkit import child


def get(db, sql, *params):
    return to_numpy(q(db, "SELECT " + sql, *params))


def put(db, name, array, **options):
    q(db, "SELECT gx_store(?, ?, ?)", name, from_numpy(array, exact=True), json.dumps(options | {"replace": True}))


def block(db, name, layout, **options):
    return q(db, "SELECT gx_block(?, ?, ?)", name, json.dumps(layout), json.dumps(options))


# Elements -----------------------------------------------------------------------------------------

class Layouts:
    """Random layouts with the arrays that they should be."""

    def __init__(self, db, seed):
        self.db, self.rng, self.made = db, np.random.default_rng(seed), 0

    def matrix(self, m, n):
        """A new stored matrix, of any dtype, dense or sparse."""
        name = f"P{self.made}"
        self.made += 1
        kinds = [kind for kind in STORED if kind != np.dtype("V2")]  # which stands for bf16 without ml_dtypes
        kind = kinds[self.rng.integers(len(kinds))]
        low = 0 if kind.kind in "bu" else -3
        a = self.rng.integers(low, 2 if kind.kind == "b" else 4, (m, n)).astype(kind)
        if kind.kind == "c":
            a = (a + 1j * self.rng.integers(-3, 4, (m, n))).astype(kind)
        put(self.db, name, a)
        if self.rng.random() < 0.2 and kind.kind != "c":
            q(self.db, "SELECT gx_sparse(?, ?)", name, name + "s")
            name += "s"
        return name, a.astype(complex)

    def part(self, m, n, depth):
        """(entry of the layout, array); the entry None: let it be zeros."""
        u = self.rng.random()
        if u < 0.15:
            return 0, np.zeros((m, n))
        if u < 0.3 and m == n:
            x = float(self.rng.integers(1, 5))
            return x, x * np.eye(n)
        turned, conj = self.rng.random(2) < 0.3
        factor = float(self.rng.choice([1, 1, -1, 2.5]))
        if u > 0.85 and depth > 0:
            name, a = self.composite(*((n, m) if turned else (m, n)), depth - 1)
        else:
            name, a = self.matrix(*((n, m) if turned else (m, n)))
        a = factor * (a.T if turned else a)
        if conj:
            return {"name": name, "op": "H" if turned else "conj", "factor": [factor, 0]}, a.conj()
        text = name + (".T" if turned else "")
        return text if factor == 1 else f"-{text}" if factor == -1 else f"{factor}*{text}", a

    def cut(self, size):
        count = int(self.rng.integers(1, 4))
        at = np.sort(self.rng.integers(0, size + 1, count - 1))
        return np.diff(np.concatenate([[0], at, [size]]))

    def composite(self, m, n, depth=2):
        heights, widths = self.cut(m), self.cut(n)
        name = f"K{self.made}"
        self.made += 1
        entries, arrays = [], []
        for h in heights:
            row = [self.part(h, w, depth) for w in widths]
            entries.append([e for e, _ in row])
            arrays.append([a for _, a in row])
        for r, h in enumerate(heights):  # something has to tell each size
            for c, w in enumerate(widths):
                if r == 0 or c == 0:
                    entries[r][c], arrays[r][c] = self.matrix(h, w)
        assert block(self.db, name, entries) == name
        return name, np.block(arrays)


@pytest.mark.parametrize("seed", range(12))
def test_random_layouts(filedb, tmp_path, seed):
    db = filedb
    q(db, "SELECT gx_config('tile_bytes', ?)", int(np.random.default_rng(seed).choice([1024, 8192, 1 << 20])))
    made = Layouts(db, seed)
    for _ in range(8):
        m, n = made.rng.integers(2, 60, 2)
        name, a = made.composite(int(m), int(n))
        got = get(db, "gx_copy(?)", name)
        a = a if np.iscomplexobj(got) else a.real
        assert got.dtype in STORED[:4] and (got == a).all(), q(db, "SELECT gx_block(?)", name)
        assert q(db, "SELECT gx_check(?)", name) == "ok"
        assert (get(db, "gx_transpose(?)", name) == a.T).all()
        i, j = made.rng.integers(0, m), made.rng.integers(0, n)
        assert (get(db, "gx_slice(?, ?, ?, ?, ?)", name, int(i), int(m), int(j), int(n)) == a[i:, j:]).all()
        x, y = made.rng.integers(-2, 3, (n, 3)).astype("f8"), made.rng.integers(-2, 3, (2, m)).astype("f8")
        assert np.allclose(get(db, "gx_matmul(?, ?)", name, from_numpy(x)), a @ x)
        assert np.allclose(get(db, "gx_matmul(?, ?)", from_numpy(y), name), y @ a)
        assert np.allclose(get(db, f"gx_eval('{name} @ {name}.H + 1')"), a @ a.conj().T + 1)
        assert np.isclose(q(db, "SELECT gx_norm(?)", name), np.linalg.norm(a))
        cells = db.execute("SELECT i, j, value, imag FROM gx_cells(?)", [name]).fetchall()
        assert len(cells) == m * n and all(a[i, j] == re + 1j * im for i, j, re, im in cells)
        some = db.execute("SELECT value FROM gx_cells(?) WHERE i = ? ORDER BY j", [name, int(i)]).fetchall()
        assert [re for re, in some] == a[i].real.tolist()
        if not np.iscomplexobj(a):
            q(db, "SELECT gx_export(?, ?)", name, str(tmp_path / f"{name}.npy"))
            assert (np.load(tmp_path / f"{name}.npy") == a).all()
    assert q(db, "SELECT gx_check()") == "ok"


def test_words_about_it(filedb):
    db = filedb
    put(db, "A", np.arange(6.0).reshape(2, 3))
    assert block(db, "M", [["A", {"name": "A", "factor": [0, 2]}]]) == "M"
    assert json.loads(q(db, "SELECT gx_block('M')")) == [[{"name": "A"}, {"name": "A", "factor": [0, 2]}]]
    info = json.loads(q(db, "SELECT gx_info('M')"))
    assert (info["format"], info["parts"], info["dtype"], info["rows"], info["cols"]) == ("composite", 2, "c128", 2, 6)
    row = db.execute("SELECT rows, cols, dtype, format, nnz FROM gx WHERE name = 'M'").fetchone()
    assert row == (2, 6, "c128", "composite", None)
    value = q(db, "SELECT value FROM gx WHERE name = 'M'")
    assert (to_numpy(value) == np.hstack([np.arange(6.0).reshape(2, 3), 2j * np.arange(6.0).reshape(2, 3)])).all()
    assert "composite" in error(db, "SELECT gx_block('A')") and "no matrix named 'X'" in error(db, "SELECT gx_block('X')")


# Live ---------------------------------------------------------------------------------------------

def test_live(filedb):
    db = filedb
    a, b = np.arange(9.0).reshape(3, 3), np.arange(6.0).reshape(3, 2)
    put(db, "A", a)
    put(db, "B", b)
    block(db, "M", [["A", "B"]])
    block(db, "N", [["M"], ["2*M"]])

    def is_live():
        want = np.hstack([a, b])
        return (get(db, "gx_copy('M')") == want).all() and (get(db, "gx_eval('N + 0')") == np.vstack([want, 2 * want])).all()

    assert is_live()
    q(db, "SELECT gx_set('A', 1, 1, 77)")
    a[1, 1] = 77
    assert is_live()
    a = a + 1j
    put(db, "A", a)  # of another dtype: so are they
    assert is_live() and q(db, "SELECT gx_dtype('M')") == "c128"
    q(db, "SELECT gx_rename('A', 'with \"quotes\" and *')")
    assert is_live() and json.loads(q(db, "SELECT gx_block('M')"))[0][0]["name"] == 'with "quotes" and *'
    db.execute("UPDATE gx SET name = 'B2' WHERE name = 'B'")
    q(db, "SELECT gx_rename('M', 'M2')")
    assert (get(db, "gx_eval('N + 0')")[:3] == np.hstack([a, b])).all()
    put(db, "B2", b[:2])
    assert error(db, "SELECT gx_sum('N')") == ("gx_sum: the part 'B2' of M2 is 2x2 and was 3x2 when M2 was made: make it again")
    q(db, "SELECT gx_drop('B2')")
    assert "M2 has the part 'B2', and there is no such matrix in main" in error(db, "SELECT gx_eval('M2 + 1')")
    assert "M2 has the part 'B2'" in q(db, "SELECT gx_check('N')") and "M2 has the part" in q(db, "SELECT gx_check()")
    put(db, "B2", b)
    assert (get(db, "gx_copy('M2')") == np.hstack([a, b])).all() and q(db, "SELECT gx_check()") == "ok"
    db.execute("BEGIN")
    q(db, "SELECT gx_rename('B2', 'B3')")
    db.execute("ROLLBACK")
    assert json.loads(q(db, "SELECT gx_block('M2')"))[0][1]["name"] == "B2"
    for name in ("N", "M2"):
        assert q(db, "SELECT gx_drop(?)", name) == name
    assert q(db, "SELECT gx_exists('B2')") == 1


def test_a_scan_sees_one_state(filedb):
    db = filedb
    put(db, "A", np.arange(120000.0).reshape(3000, 40))
    block(db, "M", [["A"], ["A"]])
    with pytest.raises(sqlite3.Error, match="changed while being read"):
        for k, _ in enumerate(db.execute("SELECT value FROM gx_cells('M') WHERE i % 7 = 0")):
            if k == 3:
                put(db, "A", np.zeros((3000, 40)))
                q(db, "SELECT gx_set('A', 0, 0, 1)")


def test_nobody_writes_to_it(filedb):
    db = filedb
    put(db, "A", np.eye(3))
    block(db, "M", [["A", "A"]])
    db.execute("CREATE VIRTUAL TABLE temp.t USING gx_cells('M')")
    for sql in ["SELECT gx_set('M', 0, 0, 1)", "SELECT * FROM t", "UPDATE t SET value = 2 WHERE i = 0 AND j = 0"]:
        assert "M is a composite" in error(db, sql), sql
    db.execute("DROP TABLE t")
    assert "only a square matrix can be symmetric" in error(db, "SELECT gx_set_property('M', 'symmetric')")
    q(db, "SELECT gx_copy('M', 'M', '{\"replace\":true}')")  # now it is a matrix of its own
    q(db, "SELECT gx_set('M', 0, 0, 5)")
    assert q(db, "SELECT gx_get('M', 0, 0)") == 5
    assert q(db, "SELECT gx_get('A', 0, 0)") == 1 and q(db, "SELECT gx_check()") == "ok"
    assert "already exists" in error(db, "SELECT gx_block('M', '[[\"A\"]]')")
    block(db, "M", [["A"]], replace=True)
    assert (get(db, "gx_copy('M')") == np.eye(3)).all()
    put(db, "M", np.ones((3, 3)))
    assert (get(db, "gx_copy('M')") == 1).all() and q(db, "SELECT gx_check()") == "ok"


# Everything that computes -------------------------------------------------------------------------

CALLS = ["gx_sum('$')", "gx_norm('$')", "gx_matmul('$', 'x')", "gx_matmul(gx_transpose('x'), '$')", "gx_cumsum('$', 0)",
         "gx_eval('norm($ @ x - 1)')", "gx_eval('$.T @ $')", "gx_exp('$')", "gx_mean('$')", "gx_det('$')",
         "gx_solve('$', 'x')", "gx_inverse('$')", "gx_cov('$')", "gx_matmul('$', '$')", "gx_cast('$', 'f32')", "gx_json(gx_slice('$', 0, 2, 0, 2))",
         "gx_trace('$')", "gx_lstsq('$', 'x')", "gx_argmax('$')"]


@pytest.mark.parametrize("budget", ["8MB", "1GB"])
def test_same_bits_as_a_copy(filedb, budget):
    db = filedb
    rng = np.random.default_rng(1)
    n = 120
    q(db, "SELECT gx_config('deterministic', 'on')")
    q(db, "SELECT gx_config('tile_bytes', 32768)")
    q(db, "SELECT gx_config('memory_limit', ?)", budget)
    for name in "ABCD":
        put(db, name, rng.standard_normal((n, n)))
    put(db, "x", rng.standard_normal((2 * n, 4)))
    block(db, "M", [["A", "B.T"], ["-2*C", "D"]])
    q(db, "SELECT gx_copy('M', 'MM')")
    for call in CALLS:
        one, other = (q(db, "SELECT " + call.replace("$", name)) for name in ("M", "MM"))
        assert one == other, call
    for sql in ["SELECT value FROM gx_eig(gx_matmul('$', gx_transpose('$')), '{\"k\":5,\"symmetric\":true}')",
                "SELECT sigma FROM gx_svd('$')", "SELECT * FROM gx_knn('$', '$', 3)", "SELECT i, value FROM gx_cells('$') WHERE j = 7",
                "SELECT i, row FROM gx_rows('$') WHERE i % 50 = 3"]:
        one, other = (db.execute(sql.replace("$", name)).fetchall() for name in ("M", "MM"))
        assert one == other and len(one) > 0, sql


def counted(db, sql):
    def read():
        return q(db, "SELECT value FROM gx_stats WHERE name = 'bytes_read'")
    before = read()
    got = q(db, sql)
    return got, read() - before


def test_void_parts_cost_nothing(filedb):
    db = filedb
    rng = np.random.default_rng(2)
    n = 256
    for name in "AD":
        put(db, name, rng.standard_normal((n, n)))
    x = rng.standard_normal((2 * n, 3))
    put(db, "x", x)
    block(db, "S", [["A", 0], [0, "D"]])
    a, d = get(db, "gx_copy('A')"), get(db, "gx_copy('D')")
    whole = np.block([[a, np.zeros((n, n))], [np.zeros((n, n)), d]])
    got, read = counted(db, "SELECT gx_matmul('S', 'x')")
    assert np.allclose(to_numpy(got), whole @ x) and read <= 1.2 * (a.nbytes + d.nbytes + x.nbytes)
    q(db, "SELECT gx_config('tile_bytes', 65536)")
    q(db, "SELECT gx_config('memory_limit', '8MB')")
    assert np.allclose(get(db, "gx_matmul('S', 'S')"), whole @ whole)
    assert np.allclose(get(db, "gx_matmul('S', gx_transpose('S'))"), whole @ whole.T)
    put(db, "C0", np.ones((2 * n, 2 * n)))
    block(db, "Z", [[{"name": "A"}, 0], [0, "D"]])
    assert np.allclose(get(db, "gx_eval('Z @ S + C0')"), whole @ whole + 1)
    many = 40  # more matrices than one reader looks at
    block(db, "L", [["A" if i == j else 0 for j in range(many)] for i in range(many)])
    assert np.isclose(q(db, "SELECT gx_norm('L')"), np.sqrt(many) * np.linalg.norm(a))
    for k in range(20):
        put(db, f"p{k}", np.full((300, 300), float(k)))
    block(db, "L", [[f"p{k}" for k in range(20)]], replace=True)
    assert q(db, "SELECT gx_sum('L')") == 300 * 300 * 190


def test_on_a_device(tmp_path):
    got, made, up, spread, off = child(tmp_path, """
db = gx_connect(os.path.join(os.environ["TMP_PATH"], "d.db"))
db.execute("SELECT gx_config('tile_bytes', 8192)")
rng = np.random.default_rng(3)
for name in "ABC":
    q(db, "SELECT gx_store(?, ?)", name, from_numpy(rng.standard_normal((90, 90))))
q(db, "SELECT gx_block('M', '[[\\"A\\",\\"B.T\\"],[0,\\"C\\"]]')")
q(db, "SELECT gx_copy('M', 'MM')")
before = stats(db)
out = []
for name in ("M", "MM"):
    out.append([to_numpy(q(db, "SELECT " + call.replace("$", name))).tolist() for call in
                ["gx_matmul('$', '$')", "gx_eval('$ @ $.T + 1')", "gx_solve('$', gx_slice('$', 0, 180, 0, 3))", "gx_matmul('$', gx_transpose('$'))"]])
result = [[np.allclose(a, b, rtol=1e-12, atol=1e-9) for a, b in zip(*out)], since(db, before)["uploaded"]]
q(db, "SELECT gx_config('tile_bytes', 1048576)")
p, s, x = rng.standard_normal((600, 600)), rng.standard_normal((600, 600)), rng.standard_normal((1200, 4))
for name, a in (("P", p), ("S", s), ("x", x)):
    q(db, "SELECT gx_store(?, ?)", name, from_numpy(a))
q(db, "SELECT gx_block('N', '[[\\"P\\",0],[0,\\"S\\"]]')")
norms = [q(db, "SELECT gx_eval('norm(N @ x + 1)')") for _ in range(3)]
before = stats(db)
norms.append(q(db, "SELECT gx_eval('norm(N @ x + 1)')"))
result += [since(db, before)["uploaded"], np.ptp(norms), abs(norms[0] - np.linalg.norm(np.vstack((p @ x[:600], s @ x[600:])) + 1))]
""", GX_BACKEND="cuda")
    assert len(got) == 4 and all(got) and made > 90 * 90 * 8
    assert up <= 3 * 1200 * 4 * 8 and spread < 1e-9 and off < 1e-9  # kept parts do not go up again, nor does what they make up


# What is refused ----------------------------------------------------------------------------------

REFUSED = [
    ("[]", "1 to 4096 parts, not 0x0"), ("[[]]", "1 to 4096 parts"), ('[["A"]', "no JSON list"), ("1", "no JSON list"),
    ("null", "no JSON list"), ('[["A"]] x', "no JSON list"), (r'[["A\u0000B"]]', "no JSON list"), ("", "no JSON list"), ('[["X"]]', "the part 'X', and there is no such matrix"),
    ('[["A","A"],["A"]]', "all of one length"), ('["A"]', "all of one length"), ("[[0]]", "no part tells how many rows"),
    ('[["A",0]]', "no part tells how many columns"), ("[[true]]", "is none"), ("[[null]]", "is none"), ('[["A",["A"]]]', "is none"),
    ('[["A.Q"]]', "there is no such matrix"), ('[[{"name":"A","op":"X"}]]', "its 'op' is not that"), ('[[{"op":"T"}]]', 'no "name"'),
    ('[[{"name":"A","factor":"2"}]]', "its 'factor' is not that"), ('[[{"name":"A","x":1}]]', "its 'x' is not that"), ('[[{"name":7}]]', "its 'name'"),
    ('[["A","B"]]', "'B' has 3 rows where the others of its row of parts, number 0, have 2"),
    ('[["A"],["B"]]', "'B' has 2 columns where the others"), ('[["A",1],[0,"A"]]', "is a number, which stands on the diagonal"),
    ('[["2*"]]', "0 bytes"), ('[[""]]', "0 bytes"), ('[["%s"]]' % ("n" * 256), "256 bytes"), ('[["temp.A"]]', "of another database"),
    ('[["F"]]', "factorisation"), ('[["A.T"]]', "is the name of a matrix, and made of"), ('[["2*A"]]', "is the name of a matrix"),
]


def test_refusals(filedb):
    db = filedb
    put(db, "A", np.ones((2, 3)))
    put(db, "B", np.ones((3, 2)))
    put(db, "main.A.T", np.ones((2, 2)))
    put(db, "2*A", np.ones((2, 2)))
    q(db, "SELECT gx_lu(gx_eye(3), 'F')")
    db.execute("SELECT gx_eye(2, 'temp.A')").fetchall()
    before = db.execute("SELECT name, generation FROM gx ORDER BY name").fetchall()
    for layout, words in REFUSED:
        assert words in error(db, "SELECT gx_block('M', ?)", layout), layout
        assert words in error(db, "SELECT gx_block('B', ?, '{\"replace\":true}')", layout), layout
    for name, words in [("", "empty"), ("[", "'['"), ("x" * 300, "255"), ("nowhere.M", "")]:
        error(db, "SELECT gx_block(?, '[[\"A\"]]')", name)
    assert "dtype" in error(db, "SELECT gx_block('M', '[[\"A\"]]', '{\"dtype\":\"f32\"}')")
    assert db.execute("SELECT name, generation FROM gx ORDER BY name").fetchall() == before and q(db, "SELECT gx_check()") == "ok"
    block(db, "M", [[{"name": "A.T"}, {"name": "A", "factor": 2}]])
    assert get(db, "gx_copy('M')").tolist() == [[1, 1, 2, 2, 2]] * 2
    rows = [[0] * 65] * 64
    assert "1 to 4096 parts" in error(db, "SELECT gx_block('K', ?)", json.dumps(rows))


def test_of_itself(filedb):
    db = filedb
    put(db, "A", np.eye(2))
    block(db, "M", [["A"]])
    block(db, "N", [["M"]])
    assert "the composite M is a part of itself" in error(db, "SELECT gx_block('M', '[[\"N\"]]', '{\"replace\":true}')")
    assert "is a part of itself" in error(db, "SELECT gx_block('M', '[[\"M\"]]', '{\"replace\":true}')")
    assert (get(db, "gx_copy('N')") == np.eye(2)).all() and q(db, "SELECT gx_check()") == "ok"
    block(db, "D0", [["A"]])
    for k in range(1, 32):
        block(db, f"D{k}", [[f"D{k - 1}"]])
    assert (get(db, "gx_copy('D31')") == np.eye(2)).all()
    assert "more than 32 composites" in error(db, "SELECT gx_block('D32', '[[\"D31\"]]')")
    block(db, "W0", [["A"] * 64] * 64)  # 4096 leaves
    block(db, "W1", [["W0", "W0"]])
    assert "more than 8192 parts" in error(db, "SELECT gx_block('W2', '[[\"W1\"], [\"W1\"]]')")
    assert q(db, "SELECT gx_sum('W1')") == 2 * 2 * 4096


def test_forged_layouts(tmp_path):
    """Every byte changed, and cut anywhere: the same matrix, or words; never more."""
    path = tmp_path / "f.db"
    db = gx_connect(str(path))
    put(db, "A", np.arange(6.0).reshape(2, 3))
    block(db, "M", [["A", "-A"], [0, 1]])
    want = get(db, "gx_copy('M')")
    raw, = db.execute("SELECT aux FROM gx_meta WHERE name = 'M'").fetchone()
    rng = np.random.default_rng(4)
    forged = [raw[:k] for k in range(0, len(raw), 3)] + [raw + b"\0" * 8, b"", raw * 2]
    for k in range(len(raw)):
        for x in {int(rng.integers(256)), 0, 255, raw[k] ^ 1}:
            forged.append(raw[:k] + bytes([x]) + raw[k + 1:])
    for bytes_ in forged:
        db.execute("UPDATE gx_meta SET aux = ? WHERE name = 'M'", [bytes_])
        try:
            got = get(db, "gx_copy('M')")
        except sqlite3.Error as problem:
            words = str(problem)
            assert any(w in words for w in ("layout of M", "no such matrix", "was", "part of itself", "dtype", "complex")), words
            continue
        assert got.shape == want.shape
    db.execute("UPDATE gx_meta SET aux = NULL WHERE name = 'M'")
    assert "layout of M" in q(db, "SELECT gx_check('M')") and "layout of M" in error(db, "SELECT gx_sum('M')")
    db.execute("UPDATE gx_meta SET aux = ?, cols = 7 WHERE name = 'M'", [raw])
    assert "layout of M" in error(db, "SELECT gx_sum('M')")
    db.execute("UPDATE gx_meta SET cols = ?, properties = properties | 1 WHERE name = 'M'", [want.shape[1]])
    assert "properties" in error(db, "SELECT gx_sum('M')")
    db.execute("UPDATE gx_meta SET properties = properties & ~1 | 131072 WHERE name = 'M'")
    error(db, "SELECT gx_sum('M')")
    db.close()


def test_kept_by_copies_of_the_database(tmp_path):
    db = gx_connect(str(tmp_path / "a.db"))
    put(db, "A", np.arange(6.0).reshape(2, 3))
    assert db.execute("SELECT value FROM gx_state WHERE key = 'format'").fetchone() == (1,)
    block(db, "M", [["A"], ["A"]])
    assert db.execute("SELECT value FROM gx_state WHERE key = 'format'").fetchone() == (4,)
    want = get(db, "gx_copy('M')")
    other = gx_connect(str(tmp_path / "b.db"))
    db.backup(other)
    assert (get(other, "gx_copy('M')") == want).all()
    plain = sqlite3.connect(tmp_path / "c.db")
    plain.executescript("\n".join(line for line in db.iterdump() if "VIRTUAL" not in line))
    plain.close()
    assert (get(gx_connect(str(tmp_path / "c.db")), "gx_copy('M')") == want).all()
    q(db, "SELECT gx_drop('M')")
    assert db.execute("SELECT count(*) FROM gx_meta").fetchone() == (1,) and q(db, "SELECT gx_check()") == "ok"
    at = gx_connect()
    at.execute("ATTACH ? AS other", [str(tmp_path / "b.db")])
    assert (get(at, "gx_copy('other.M')") == want).all()
    assert (get(at, "gx_eval('M + 0')") == want).all()
    assert q(at, "SELECT gx_block('other.N', '[[\"M\"], [\"other.A\"]]')") == "other.N"
    assert (get(at, "gx_copy('N')") == np.vstack([want, want[:2]])).all()


def test_sparse_of_a_composite_and_scipy(filedb, tmp_path):
    db = filedb
    a = scipy.sparse.random(50, 40, 0.1, random_state=1).toarray()
    put(db, "A", a)
    block(db, "M", [["A", 0], [0, "A"]])
    q(db, "SELECT gx_sparse('M', 'S')")
    q(db, "SELECT gx_export('S', ?)", str(tmp_path / "s.npz"))
    assert (scipy.sparse.load_npz(tmp_path / "s.npz").toarray() == np.kron(np.eye(2), a)).all()


# Views in programs --------------------------------------------------------------------------------

class Views:
    """Random expressions of blocks, transposes and slices of stored matrices, with NumPy's arrays."""

    def __init__(self, rng, arrays):
        self.rng, self.arrays = rng, arrays

    def leaf(self):
        name = str(self.rng.choice(list(self.arrays)))
        return name, self.arrays[name]

    def of(self, depth):
        if depth == 0:
            return self.leaf()
        kind = self.rng.integers(5)
        text, a = self.of(depth - 1)
        if kind == 0:
            return f"{text}.T", a.T
        if kind == 1:
            return f"{text}.H", a.conj().T
        if kind == 2:
            i, j = self.rng.integers(0, a.shape[0] // 2), self.rng.integers(0, a.shape[1] // 2)
            return f"{text}[{i}:, {j}:]", a[i:, j:]
        other, b = self.of(depth - 1)
        if kind == 3:
            m = min(a.shape[0], b.shape[0])
            return f"hstack({text}[:{m}, :], {other}[:{m}, :])", np.hstack([a[:m], b[:m]])
        n = min(a.shape[1], b.shape[1])
        return f"vstack({text}[:, :{n}], {other}[:, :{n}])", np.vstack([a[:, :n], b[:, :n]])


@pytest.mark.parametrize("setting", ["", "deterministic"])
def test_views_in_programs(filedb, setting):
    db, rng = filedb, np.random.default_rng(5)
    n = 320
    arrays = {"A": rng.standard_normal((n, n)), "B": rng.standard_normal((n, n)).astype("f4"),
              "C": (rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n))), "D": rng.integers(0, 200, (n, n)).astype("u1")}
    q(db, "SELECT gx_config('tile_bytes', 131072)")
    for name, a in arrays.items():
        put(db, name, a)
    arrays["D"] = arrays["D"].astype("f4")
    block(db, "K", [["A", "B.T"]])
    arrays["K"] = np.hstack([arrays["A"], arrays["B"].T])
    if setting:
        q(db, "SELECT gx_config(?, 'on')", setting)
    q(db, "SELECT gx_config('memory_limit', '8MB')")
    views, right, refused = Views(rng, arrays), 0, 0
    for _ in range(150):
        text, a = views.of(int(rng.integers(1, 4)))
        a = a.astype("c16" if np.iscomplexobj(a) else "f8")
        x = rng.standard_normal((a.shape[1], 2))
        for call, want in ((f"norm({text})", np.linalg.norm(a)), (f"norm({text} @ ?1)", np.linalg.norm(a @ x)),
                           (f"norm(sum({text}, 0))", np.linalg.norm(a.sum(0))), (f"norm({text} + 1)", np.linalg.norm(a + 1))):
            try:
                got = q(db, "SELECT gx_eval(?, ?)", call, from_numpy(x)) if "?1" in call else q(db, "SELECT gx_eval(?)", call)
            except sqlite3.OperationalError as problem:
                assert "memory_limit" in str(problem) or "intermediate" in str(problem), (call, problem)
                refused += 1
                continue
            assert np.isclose(got, want, rtol=1e-5), (call, got, want)
            right += 1
    assert right > (4 if setting else 100) * refused  # where memory decides nothing, views begin at 8 MiB


def test_blocks_past_memory(filedb):
    """What is four times memory_limit is put together, multiplied and stored."""
    db, n = filedb, 900
    rng = np.random.default_rng(6)
    m = {name: rng.standard_normal((n, n)) for name in "ABCD"}
    for name, a in m.items():
        put(db, name, a)
    whole, x = np.block([[m["A"], m["B"]], [m["C"], m["D"].T]]), rng.standard_normal((2 * n, 4))
    q(db, "SELECT gx_config('tile_bytes', 1048576)")
    q(db, "SELECT gx_config('memory_limit', '12MB')")
    text = "block([[A, B], [C, D.T]])"
    assert np.allclose(get(db, f"gx_eval('{text} @ ?1', ?)", from_numpy(x)), whole @ x)
    assert np.isclose(q(db, f"SELECT gx_eval('sum({text})')"), whole.sum()) and np.isclose(q(db, f"SELECT gx_eval('norm({text})')"), np.linalg.norm(whole))
    assert q(db, f"SELECT gx_eval('E := {text}; F := {text}.T @ {text}')") == "F"
    q(db, "SELECT gx_config('memory_limit', '1GB')")
    assert (get(db, "gx_copy('E')") == whole).all() and np.allclose(get(db, "gx_copy('F')"), whole.T @ whole)
    db.execute("ATTACH ':memory:' AS other")
    q(db, "SELECT gx_copy('A', 'other.A2')")
    assert np.isclose(q(db, "SELECT gx_eval('norm(hstack(A, A2))')"), np.sqrt(2) * np.linalg.norm(m["A"]))  # of two databases
    assert np.isclose(q(db, "SELECT gx_eval('norm(hstack(A, B) @ vstack(A, B)) - norm(A @ A + B @ B)')"), 0, atol=1e-8)
    assert np.isclose(q(db, "SELECT gx_eval('norm(hstack(A, B) @ hstack(B, A).T) - norm(A @ B.T + B @ A.T)')"), 0, atol=1e-8)
