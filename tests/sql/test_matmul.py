"""gx_matmul against NumPy and the reference backend.

Plan:
  1  dtypes x transposes x shapes (0, 1, tile +- 1, several tiles, non-square) x budgets (3 blocks, 10
     blocks, all), stored operands in tiny tiles; the residual under LAPACK's threshold.
  2  Operands in every form: name, literal, value, number, and mixed; mixed dtypes promote.
  3  alpha, beta with an accumulated destination, A times its own transpose (syrk, herk).
  4  The reference backend gives the same within rounding.
  5  deterministic: the same bits for every budget, thread count and number of readers.
  6  Errors: shapes, names, destinations, options; the database stays as it was.
  7  Budget: too small in words; I/O counters as predicted by gx_plan.
  8  f32 by matrix tiles, in loops where there is no AMX: accuracy, what gx_debug says, deterministic's bits, off.
"""
import itertools
import json
import os
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from conftest import error, from_numpy, gx_connect, gx_path, q, to_numpy

EPS = {"f64": 2.0**-53, "f32": 2.0**-24, "c128": 2.0**-53, "c64": 2.0**-24}
NUMPY = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}
TILE = 64  # a tile of 64 x 64 doubles
TILE_BYTES = TILE * TILE * 8


def random_matrix(rng, rows, cols, dtype):
    x = rng.standard_normal((rows, cols))
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal((rows, cols))
    return np.asfortranarray(x.astype(NUMPY[dtype]))


def op(x, kind):
    return {"n": x, "t": x.T, "c": x.conj().T}[kind]


def ratio(got, want, a, b, dtype):
    """||C - C'||_1 / (k eps ||A||_1 ||B||_1), as LAPACK tests products."""
    if got.size == 0:
        return 0.0
    wide = np.complex128 if dtype.startswith("c") else np.float64
    error_norm = np.linalg.norm(got.astype(wide) - want.astype(wide), 1)
    if a.shape[1] == 0:
        return float("inf") if error_norm else 0.0
    scale = a.shape[1] * EPS[dtype] * np.linalg.norm(a.astype(wide), 1) * np.linalg.norm(b.astype(wide), 1)
    return error_norm / scale


def configure(db, **settings):
    for key, value in settings.items():
        db.execute("SELECT gx_config(?, ?)", (key, value))


def small_tiles(db, blocks=None, tile_bytes=TILE_BYTES):
    configure(db, tile_bytes=tile_bytes)
    if blocks is not None:
        floor = 3 * tile_bytes + (256 << 10)
        configure(db, memory_limit=max(floor, blocks * tile_bytes + (160 << 10)))


def matrix(db, name):
    """A stored matrix as an array, read with memory enough for a value."""
    limit = q(db, "SELECT gx_config('memory_limit')")
    configure(db, memory_limit="64MiB")
    array = to_numpy(q(db, "SELECT gx_copy(?)", name))
    configure(db, memory_limit=limit)
    return array


SHAPES = [(0, 0, 0), (0, 5, 3), (3, 0, 4), (4, 5, 0), (1, 1, 1), (1, 7, 1), (TILE - 1, TILE, TILE + 1),
          (TILE, TILE + 1, TILE - 1), (TILE + 1, TILE - 1, TILE), (2 * TILE - 1, 2 * TILE + 1, 2 * TILE),
          (5 * TILE + 3, 17, 3 * TILE + 1), (9, 6 * TILE + 5, 11)]
TRANSPOSES = list(itertools.product("ntc", "ntc"))


@pytest.mark.parametrize("blocks", [3, 10, None], ids=["3-blocks", "10-blocks", "all"])
@pytest.mark.parametrize("dtype", list(NUMPY))
def test_against_numpy(filedb, dtype, blocks):
    rng = np.random.default_rng(11)
    filedb.execute("PRAGMA synchronous=off")
    small_tiles(filedb, blocks)
    for index, (m, k, n) in enumerate(SHAPES):
        for ta, tb in TRANSPOSES if m * n * k < 2**18 else [TRANSPOSES[index % 9], TRANSPOSES[(index + 4) % 9]]:
            a = random_matrix(rng, *((m, k) if ta == "n" else (k, m)), dtype)
            b = random_matrix(rng, *((k, n) if tb == "n" else (n, k)), dtype)
            filedb.execute("SELECT gx_store('A', ?, '{\"replace\":true}')", (from_numpy(a),))
            filedb.execute("SELECT gx_store('B', ?, '{\"replace\":true}')", (from_numpy(b),))
            options = {"n": "false", "t": "true", "c": "true"}
            keys = f'{{"replace":true,"{"conja" if ta == "c" else "transa"}":{options[ta]},' \
                   f'"{"conjb" if tb == "c" else "transb"}":{options[tb]}}}'
            assert q(filedb, "SELECT gx_matmul('A', 'B', 'C', ?)", keys) == "C"
            got = matrix(filedb, "C")
            want = op(a, ta) @ op(b, tb)
            assert got.dtype == NUMPY[dtype] and got.shape == (m, n)
            assert ratio(got, want, op(a, ta), op(b, tb), dtype) < 30, (m, k, n, ta, tb)
    assert q(filedb, "SELECT gx_check()") == "ok"


def test_larger_blocks_than_tiles(filedb):
    """Blocks of many tiles: read as such, and packed into tiles again."""
    rng = np.random.default_rng(12)
    configure(filedb, tile_bytes=8 << 10, memory_limit="64MiB")
    a, b = random_matrix(rng, 300, 500, "f64"), random_matrix(rng, 500, 210, "f64")
    filedb.execute("SELECT gx_store('A', ?)", (from_numpy(a),))
    filedb.execute("SELECT gx_store('B', ?)", (from_numpy(b),))
    filedb.execute("SELECT gx_matmul('A', 'B', 'C')")
    got = matrix(filedb, "C")
    assert ratio(got, a @ b, a, b, "f64") < 30
    assert q(filedb, "SELECT gx_check('C')") == "ok"


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_helpers_read_while_the_result_is_written(filedb, mode):
    """More than a megabyte, so that helper connections take part, and too little memory to keep C."""
    rng = np.random.default_rng(13)
    filedb.execute(f"PRAGMA journal_mode={mode}").fetchone()
    configure(filedb, tile_bytes=TILE_BYTES, memory_limit=14 * TILE_BYTES + (256 << 10), readers=3)
    a, b = random_matrix(rng, 500, 520, "f64"), random_matrix(rng, 520, 510, "f64")
    filedb.execute("SELECT gx_store('A', ?)", (from_numpy(a),))
    filedb.execute("SELECT gx_store('B', ?)", (from_numpy(b),))
    filedb.execute("SELECT gx_stats_reset()")
    helped = 0
    for _ in range(50):  # the caller reads what no helper has taken: it may be faster, but not always
        filedb.execute("SELECT gx_matmul('A', 'B', 'C', '{\"replace\":true}')")
        helped = q(filedb, "SELECT value FROM gx_stats WHERE name = 'helper_reads'")
        if helped > 0:
            break
    assert helped > 0
    got = matrix(filedb, "C")
    assert ratio(got, a @ b, a, b, "f64") < 30
    assert q(filedb, "SELECT gx_check()") == "ok"
    assert q(filedb, "PRAGMA integrity_check") == "ok"


def test_forms_of_operands(db):
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    db.execute("SELECT gx_store('A', ?)", (from_numpy(a),))
    db.execute("CREATE TABLE t(b BLOB)")
    db.execute("INSERT INTO t VALUES(?)", (from_numpy(b),))
    want = (a @ b).tolist()
    assert to_numpy(q(db, "SELECT gx_matmul('A', b) FROM t")).tolist() == want
    assert to_numpy(q(db, "SELECT gx_matmul('[[0,1,2],[3,4,5]]', b) FROM t")).tolist() == want
    assert q(db, "SELECT gx_json(gx_matmul('[[1,2],[3,4]]', '[[5],[6]]'))") == "[[17.0],[39.0]]"
    assert to_numpy(q(db, "SELECT gx_matmul(3, '[[5,6]]')")).tolist() == [[15.0, 18.0]]
    assert q(db, "SELECT gx_norm(gx_matmul('A', '[[1],[1],[1]]', 'v'))") == pytest.approx(np.hypot(3, 12))


@pytest.mark.parametrize("da,db_", list(itertools.product(NUMPY, NUMPY)))
def test_promotion(db, da, db_):
    rng = np.random.default_rng(14)
    a, b = random_matrix(rng, 5, 6, da), random_matrix(rng, 6, 7, db_)
    db.execute("SELECT gx_store('A', ?)", (from_numpy(a),))
    for name in ("'A'", "?1"):
        got = to_numpy(q(db, f"SELECT gx_matmul({name}, ?2)", from_numpy(a), from_numpy(b)))
        want = a @ b
        assert got.dtype == want.dtype
        weakest = "f32" if {"f32", "c64"} & {da, db_} else "f64"
        assert np.abs(got - want).max() <= 30 * 6 * EPS[weakest] * np.abs(a).max() * np.abs(b).max()


@pytest.mark.parametrize("dtype", list(NUMPY))
def test_alpha_beta(filedb, dtype):
    rng = np.random.default_rng(15)
    small_tiles(filedb, 6)
    a, b, c = (random_matrix(rng, *s, dtype) for s in ((150, 70), (70, 140), (150, 140)))
    for name, x in zip("ABC", (a, b, c)):
        filedb.execute("SELECT gx_store(?, ?)", (name, from_numpy(x)))
    alpha, beta, text = (2 - 1j, 0.5j, "[2,-1]") if dtype.startswith("c") else (2, 0.5, "2")
    beta_text = "[0,0.5]" if dtype.startswith("c") else "0.5"
    filedb.execute(f"SELECT gx_matmul('A', 'B', 'C', '{{\"alpha\":{text},\"beta\":{beta_text}}}')")
    got = matrix(filedb, "C")
    want = alpha * (a @ b) + beta * c
    assert np.abs(got - want).max() < 1000 * EPS[dtype] * np.abs(want).max()
    assert q(filedb, "SELECT count(*) FROM gx") == 3
    assert q(filedb, "SELECT gx_check()") == "ok"


def test_beta_zero_never_reads_nan(db):
    db.execute("SELECT gx_store('C', '[[\"nan\",\"nan\"],[\"nan\",\"nan\"]]')")
    db.execute("SELECT gx_matmul('[[1,0],[0,1]]', '[[1,2],[3,4]]', 'C', '{\"beta\":0,\"replace\":true}')")
    assert q(db, "SELECT gx_json('C')") == "[[1.0,2.0],[3.0,4.0]]"


@pytest.mark.parametrize("blocks", [3, 10, None])
@pytest.mark.parametrize("dtype", list(NUMPY))
def test_product_with_own_transpose(filedb, dtype, blocks):
    rng = np.random.default_rng(16)
    filedb.execute("PRAGMA synchronous=off")
    small_tiles(filedb, blocks)
    for rows, cols in ((130, 70), (70, 200), (1, 5), (129, 1)):
        a = random_matrix(rng, rows, cols, dtype)
        filedb.execute("SELECT gx_store('A', ?, '{\"replace\":true}')", (from_numpy(a),))
        filedb.execute("SELECT gx_stats_reset()")
        for keys, want in (('"transb":true', a @ a.T), ('"transa":true', a.T @ a),
                           ('"conjb":true', a @ a.conj().T), ('"conja":true', a.conj().T @ a)):
            filedb.execute(f"SELECT gx_matmul('A', 'A', 'C', '{{{keys},\"replace\":true}}')")
            got = matrix(filedb, "C")
            assert ratio(got, want, a if want.shape[0] == rows else a.T, a.T if want.shape[0] == rows else a,
                         dtype) < 30
            mirrored = got.conj().T if "conj" in keys else got.T
            assert np.array_equal(got, mirrored)


def test_syrk_is_half_the_flops(filedb):
    small_tiles(filedb, 40)
    filedb.execute("SELECT gx_random(512, 256, 'A')")
    filedb.execute("SELECT gx_stats_reset()")
    filedb.execute("SELECT gx_matmul('A', 'A', 'C', '{\"transb\":true}')")
    flops = q(filedb, "SELECT value FROM gx_stats WHERE name = 'flops'")
    assert flops < 0.6 * 2 * 512 * 512 * 256
    assert q(filedb, "SELECT properties FROM gx WHERE name = 'C'") == "symmetric,hermitian"


def test_reference_backend(filedb):
    rng = np.random.default_rng(17)
    small_tiles(filedb)
    for dtype in NUMPY:
        a, b = random_matrix(rng, 100, 90, dtype), random_matrix(rng, 90, 80, dtype)
        results = []
        for backend in ("reference", "cpu"):
            configure(filedb, backend=backend)
            filedb.execute("SELECT gx_store('A', ?, '{\"replace\":true}')", (from_numpy(a),))
            results.append(to_numpy(q(filedb, "SELECT gx_matmul('A', ?)", from_numpy(b))))
        assert ratio(*results, a, b, dtype) < 30


@pytest.mark.parametrize("dtype", list(NUMPY))
def test_deterministic(filedb, dtype):
    rng = np.random.default_rng(18)
    filedb.execute("PRAGMA synchronous=off")
    small_tiles(filedb)
    a, b = random_matrix(rng, 201, 333, dtype), random_matrix(rng, 333, 190, dtype)
    filedb.execute("SELECT gx_store('A', ?)", (from_numpy(a),))
    filedb.execute("SELECT gx_store('B', ?)", (from_numpy(b),))
    configure(filedb, deterministic="on")
    seen = {}
    for keys in ("{}", '{"transa":true}'):
        operands = "'A', 'B'" if keys == "{}" else "'A', 'A'"
        results = set()
        for blocks, threads, readers in itertools.product((3, 10, None), (1, 2, 3), (0, 2)):
            configure(filedb, threads=threads, readers=readers, memory_limit="64MiB")
            if blocks is not None:
                small_tiles(filedb, blocks)
            filedb.execute(f"SELECT gx_matmul({operands}, 'C', ?)", (keys.replace("}", ',"replace":true}').replace("{,", "{"),))
            configure(filedb, memory_limit="64MiB")
            results.add(bytes(q(filedb, "SELECT gx_copy('C')")))
        seen[keys] = len(results)
    assert seen == {"{}": 1, '{"transa":true}': 1}


ERRORS = [
    ("SELECT gx_matmul('[[1,2]]', '[[1,2]]')", "gx_matmul: A is 1x2 but B is 1x2"),
    ("SELECT gx_matmul('A', 'B')", "gx_matmul: A is 3x2 but B is 3x2"),
    ("SELECT gx_matmul('A', 'A', 'D', '{\"transa\":true,\"transb\":true}')",
     "gx_matmul: A transposed is 2x3 but A transposed is 2x3"),
    ("SELECT gx_matmul('A', 'nobody')", "gx_matmul: no matrix named 'nobody'"),
    ("SELECT gx_matmul('A', '[[1,2],[3,4]]', 'B')",
     "gx_matmul: matrix 'B' already exists (use '{\"replace\":true}')"),
    ("SELECT gx_matmul('A', '[[1,2],[3,4]]', 'D', '{\"gamma\":1}')", "gx_matmul: unknown option \"gamma\""),
    ("SELECT gx_matmul('A', NULL)", "gx_matmul: B is NULL"),
    ("SELECT gx_matmul('A')", "gx_matmul: takes 2 to 4 arguments, not 1: gx_matmul(A, B[, destination][, options])"),
    ("SELECT gx_matmul('A', '[[1,2],[3,4]]', '{\"beta\":1}')",
     "gx_matmul: \"beta\" needs a destination to accumulate into"),
    ("SELECT gx_matmul('A', '[[1,2],[3,4]]', 'S', '{\"beta\":1}')",
     "gx_matmul: S to accumulate into is 5x5 but the product is 3x2"),
    ("SELECT gx_matmul('A', '[[1,2],[3,4]]', 'nope.D')", "gx_matmul: "),
    ("SELECT gx_matmul('A', '[[1,2],[3,4]]', '')", "gx_matmul: "),
]


@pytest.mark.parametrize("sql,text", ERRORS)
def test_errors(db, sql, text):
    db.execute("SELECT gx_store('A', '[[1,2],[3,4],[5,6]]'), gx_store('B', '[[1,2],[3,4],[5,6]]'), gx_zeros(5, 5, 'S')")
    before = db.execute("SELECT name, rows, cols, generation FROM gx_meta ORDER BY id").fetchall()
    tiles = db.execute("SELECT id, data FROM gx_tile").fetchall()
    assert error(db, sql).startswith(text)
    assert db.execute("SELECT name, rows, cols, generation FROM gx_meta ORDER BY id").fetchall() == before
    assert db.execute("SELECT id, data FROM gx_tile").fetchall() == tiles


def test_value_past_the_length_limit(db):
    """Refused before computing, with the numbers and the advice."""
    db.execute("SELECT gx_ones(2000, 1, 'v')")
    limit = db.getlimit(0) if hasattr(db, "getlimit") else None
    if limit is None:
        pytest.skip("this Python cannot set SQLite's limits")
    db.setlimit(0, 1_000_000)
    text = error(db, "SELECT gx_matmul('v', 'v', '{\"transb\":true}')")
    assert "32000032" in text and "1000000" in text and "destination" in text


def test_plan_predicts_the_reads(filedb):
    configure(filedb, tile_bytes=TILE_BYTES)
    filedb.execute("SELECT gx_random(640, 640, 'A'), gx_random(640, 640, 'B')")
    for tiles in (12, 40, 400):
        configure(filedb, memory_limit=tiles * TILE_BYTES + (256 << 10))
        predicted = q(filedb, "SELECT bytes_read FROM gx_plan('A @ B') WHERE chosen")
        filedb.execute("SELECT gx_stats_reset()")
        filedb.execute("SELECT gx_matmul('A', 'B', 'C', '{\"replace\":true}')")
        measured = q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_read'")
        assert predicted == measured
        assert q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_written'") == 640 * 640 * 8


TILES_CHILD = """
import json, os, sqlite3
db = sqlite3.connect(":memory:", isolation_level=None)
db.enable_load_extension(True)
db.load_extension(os.environ["GX_SO"])
q = lambda sql, *values: db.execute(sql, values).fetchone()[0]
state = lambda: q("SELECT json_extract(gx_debug(), '$.machine.amx')")
random = [q("SELECT gx_randn(260, 260, ?)", json.dumps({"dtype": "f32", "seed": seed})) for seed in (1, 2)]
before, found = state(), []
for threads, deterministic in ((1, "off"), (1, "on"), (3, "on")):
    q("SELECT gx_config('threads', ?) || gx_config('deterministic', ?)", threads, deterministic)
    found.append(q("SELECT gx_matmul(?, ?)", *random))
    found.append(q("SELECT gx_matmul(?, ?, ?)", *random, '{"transa":true}'))
    found.append(q("SELECT gx_matmul(?, ?, ?)", random[0], random[0], '{"transb":true}'))
print(json.dumps([before, state(), [x.hex() for x in random + found]]))
"""


def tiles_child(wish):
    """A process whose GX_CPU_AMX is wish: its state before and after, two random matrices, products of theirs."""
    done = subprocess.run([sys.executable, "-c", TILES_CHILD], env={**os.environ, "GX_SO": gx_path(), "GX_CPU_AMX": wish},
                          capture_output=True, text=True, check=True)
    before, after, found = json.loads(done.stdout)
    return before, after, [bytes.fromhex(x) for x in found]


def test_f32_by_tiles():
    before, after, (a, b, *tiles) = tiles_child("loops")
    assert (before, after) == ("not asked for yet", "in loops: GX_CPU_AMX")
    a, b = to_numpy(a).astype(np.float64), to_numpy(b).astype(np.float64)
    for found, x, y in zip(tiles[:3], (a, a.T, a), (b, b, a.T)):
        assert (np.abs(to_numpy(found) - x @ y) < 10 * EPS["f32"] * (np.abs(x) @ np.abs(y))).all()
    assert tiles[3:6] == tiles[6:9]
    _, after, (_, _, *blas) = tiles_child("off")
    assert after == "off: GX_CPU_AMX"
    assert all(x != y for x, y in zip(tiles, blas))
    assert tiles_child("")[1] in ("on", "the processor has none", "refused by the system")


def test_memory_of_many_helpers(tmp_path):
    """Their readers have room of their own: whatever the limit leaves over, no call is refused for a few KiB of them."""
    path = str(tmp_path / "a.db")
    db = gx_connect(path, journal_mode="wal")
    q(db, "SELECT gx_config('tile_bytes', ?)", 2 * TILE_BYTES)
    q(db, "SELECT gx_randn(800, 600, 'A')")
    db.close()
    for limit in range(2_000_000, 2_000_000 + 3 * TILE_BYTES, 6000):
        db = gx_connect(path)
        for key, value in {"tile_bytes": 2 * TILE_BYTES, "memory_limit": limit, "threads": 16, "readers": 24}.items():
            q(db, "SELECT gx_config(?, ?)", key, value)
        assert q(db, "SELECT gx_matmul('A', 'A', 'C', '{\"transb\":true,\"replace\":true}')") == "C", limit
        db.close()


@pytest.mark.parametrize("call, tile_bytes, limits", [
    ("gx_copy('A', 'C', ?)", 16384, range(170_000, 230_000, 2500)),
    ("gx_transpose('A', 'C', ?)", 16384, range(170_000, 230_000, 2500)),
    ("gx_matmul('A', 'V', 'C', ?)", 65536, range(265_000, 385_000, 5000)),
], ids=["copy", "transpose", "matmul"])
def test_helpers_leave_memory_to_the_caller(tmp_path, call, tile_bytes, limits):
    """Where the limit holds few blocks and one reader, 24 are not what it is refused for."""
    path = str(tmp_path / "a.db")
    db = gx_connect(path)
    q(db, "SELECT gx_config('tile_bytes', ?)", tile_bytes)
    q(db, "SELECT gx_randn(1200, 900, 'A')")
    q(db, "SELECT gx_randn(900, 200, 'V')")
    for limit in limits:
        said = {}
        for readers in (1, 24):
            for key, value in {"memory_limit": limit, "threads": 2, "readers": readers}.items():
                q(db, "SELECT gx_config(?, ?)", key, value)
            try:
                said[readers] = q(db, "SELECT " + call, '{"replace":true}')
            except sqlite3.OperationalError as e:
                said[readers] = str(e)
        assert said[24] == "C" or said[1] != "C", (limit, said)
