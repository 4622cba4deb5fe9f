"""Graphs by their adjacency matrix.

Plan:
- Zachary's karate club: 45 triangles, one component, PageRank to networkx's published digits; sparse and dense alike, a value and
  stored, in f32 too;
- random graphs: PageRank is the fixed point that NumPy finds, with dangling nodes and weights; of seeds, in a column, with weights, all
  nodes, stored and listed, and seeds that are refused; components are SciPy's;
  triangles the trace of the cube; spreading the sum of powers, and a recursive query of SQL's over the paths; PageRank reads once;
- thresholds and normalizing against a loop; refusals; graphs without nodes or edges.
"""
import json

import numpy as np
import pytest
import scipy.sparse.csgraph as csgraph
from conftest import ROOT, error, from_numpy, q, to_numpy

KARATE = str(ROOT / "tests/data/karate.mtx")


@pytest.fixture
def karate(db):
    q(db, "SELECT gx_import('K', ?, '{\"sparse\":true}')", KARATE)
    q(db, "SELECT gx_import('D', ?, '{\"dense\":true}')", KARATE)
    return db


def graph(n, density, seed, weights=False):
    rng = np.random.default_rng(seed)
    A = (rng.random((n, n)) < density) * (rng.random((n, n)) if weights else 1.0)
    A[3] = 0
    return A


def store(db, A):
    q(db, "SELECT gx_sparse(?, 'G', '{\"replace\":true}')", from_numpy(A))


def test_karate(karate):
    db = karate
    names = ["'K'", "'D'", "gx_copy('K')", "gx_cast('K', 'f32')"]
    assert [q(db, f"SELECT gx_triangles({name})") for name in names] == [45] * 4
    for name in names:
        assert not to_numpy(q(db, f"SELECT gx_components({name})")).any()
        rank = to_numpy(q(db, f"SELECT gx_pagerank({name})"))[:, 0]
        assert rank.sum() == pytest.approx(1)
        # networkx.pagerank() of the unweighted club
        assert rank[[0, 33, 32, 2]] == pytest.approx([0.09700, 0.10092, 0.07169, 0.05708], abs=1e-5)
        assert list(np.argsort(-rank)[:4]) == [33, 0, 32, 2]


@pytest.mark.parametrize("weights", [False, True])
def test_pagerank(db, weights):
    A = graph(120, 0.05, 1, weights)
    store(db, A)
    strength = A.sum(axis=1)
    P = np.where(strength[:, None] > 0, A / np.maximum(strength, 1e-300)[:, None], 1 / 120)
    M = 0.7 * P.T + 0.3 / 120
    want = np.linalg.lstsq(np.vstack([M - np.eye(120), np.ones(120)]), np.eye(121)[120], rcond=None)[0]
    got = to_numpy(q(db, "SELECT gx_pagerank('G', '{\"damping\":0.7,\"tolerance\":1e-14}')"))[:, 0]
    assert np.abs(got - want).max() < 1e-10
    assert q(db, "SELECT gx_pagerank('G', 'R')") == "R" and q(db, "SELECT gx_sum('R')") == pytest.approx(1)


def personal_rank(A, share, damping):
    """The fixed point by power iteration on the dense matrix; nodes without edges go where the seeds are, as NetworkX has it."""
    v, strength = share / share.sum(), A.sum(axis=1)
    P = np.where(strength[:, None] > 0, A / np.maximum(strength, 1e-300)[:, None], v)
    rank = v
    for _ in range(2000):
        rank = damping * P.T @ rank + (1 - damping) * v
    return rank


@pytest.mark.parametrize("weights", [False, True])
def test_pagerank_of_seeds(db, weights):
    A = graph(150, 0.02, 5, weights)
    store(db, A)
    for seeds in ([7], [3, 50, 7, 50], [[4, 2], [99, 1], [4, 3]], [[4, 0.25], [3, 1e-3], [149, 0]], [[i, i % 7 + 0.5] for i in range(150)]):
        share = np.zeros(150)
        np.add.at(share, [s[0] if isinstance(s, list) else s for s in seeds], [s[1] if isinstance(s, list) else 1 for s in seeds])
        db.execute("SELECT gx_store('seeds', ?, '{\"replace\":true}')", (json.dumps(seeds),))
        for damping in (0, 0.5, 0.85):
            want = personal_rank(A, share, damping)
            for given in ("seeds", json.dumps(seeds)):
                options = {"damping": damping, "tolerance": 1e-14, "seeds": given}
                got = to_numpy(q(db, "SELECT gx_pagerank('G', ?)", json.dumps(options)))[:, 0]
                assert np.abs(got - want).max() < 1e-12 and got.sum() == pytest.approx(1)
    even = to_numpy(q(db, "SELECT gx_pagerank('G', ?)", json.dumps({"seeds": list(range(150)), "tolerance": 1e-14})))
    assert np.abs(even - to_numpy(q(db, "SELECT gx_pagerank('G', '{\"tolerance\":1e-14}')"))).max() < 1e-12
    q(db, "SELECT gx_pagerank(gx_dense('G'), 'R', '{\"seeds\":[7]}')")
    assert np.abs(to_numpy(q(db, "SELECT gx_copy('R')"))[:, 0] - personal_rank(A, np.eye(150)[7], 0.85)).max() < 1e-8


@pytest.mark.parametrize("seeds, message", [
    ([], "what seeds gives its nodes adds up to 0: there is nowhere to go on"),
    ([[1, 0]], "what seeds gives its nodes adds up to 0: there is nowhere to go on"),
    ([[1, 2], [3, -1]], "seeds gives node 3 -1, but a share is 0 or more and finite"),
    ('[[1,"nan"]]', "seeds gives node 1 nan, but a share is 0 or more and finite"),
    ([10], "seeds has node 10, but the nodes of G are 0 to 9"),
    ("[0.5]", "seeds has node 0.5, but the nodes of G are 0 to 9"),
    ([[1, 2, 3]], "seeds is 1x3, but has nodes in a column, and what each is given in a second one or not"),
    ("nothing", "no matrix named 'nothing'"),
])
def test_pagerank_refuses_seeds(db, seeds, message):
    store(db, graph(10, 0.3, 6))
    assert error(db, "SELECT gx_pagerank('G', ?)", json.dumps({"seeds": seeds})) == "gx_pagerank: " + message


def test_pagerank_reads_once(db):
    q(db, "SELECT gx_config('tile_bytes', 4096)")
    store(db, graph(120, 0.5, 1))
    read = "SELECT value FROM gx_stats WHERE name = 'bytes_read'"
    before = q(db, read)
    q(db, "SELECT gx_pagerank('G')")
    assert q(db, read) - before == q(db, "SELECT bytes FROM gx WHERE name = 'G'")


def test_components(db):
    A = graph(300, 0.003, 2)
    store(db, A)
    got = to_numpy(q(db, "SELECT gx_components('G')"))[:, 0]
    count, want = csgraph.connected_components(A, directed=False)
    assert got.max() + 1 == count and len(set(zip(got, want))) == count
    first = {}
    for node, label in enumerate(got):
        first.setdefault(label, node)
    assert sorted(first, key=first.get) == sorted(first), "numbered by their first nodes"


def test_triangles(db):
    A = graph(90, 0.15, 3)
    S = ((A + A.T) > 0).astype(float)
    store(db, S)
    N = S - np.diag(np.diag(S))
    assert q(db, "SELECT gx_triangles('G')") == round(np.trace(N @ N @ N) / 6) > 10
    store(db, A)
    assert "G is not symmetric" in error(db, "SELECT gx_triangles('G')")
    upper = np.triu(S, 1)
    store(db, upper)
    assert "is not symmetric" in error(db, "SELECT gx_triangles('G')")


def spread(db, seeds, **options):
    return dict(db.execute("SELECT node, activation FROM gx_spread('G', ?, ?)", (seeds, json.dumps(options))).fetchall())


def test_spread(db):
    A = graph(60, 0.05, 4, weights=True)
    store(db, A)
    seeds = np.zeros(60)
    seeds[[5, 7]] = 1, 0.25
    want, pulse = seeds.copy(), seeds.copy()
    for _ in range(4):
        pulse = 0.6 * (A.T @ pulse)
        want += pulse
    got = spread(db, "[[5,1],[7,0.25]]", steps=4, decay=0.6)
    assert set(got) == set(np.flatnonzero(want)) and [got[k] for k in sorted(got)] == pytest.approx(list(want[want != 0]))
    db.execute("CREATE TABLE edge AS SELECT i, j, value FROM gx_cells('G')")
    paths = dict(db.execute("""
        WITH RECURSIVE s(step, node, a) AS (
            VALUES(0, 5, 1.0), (0, 7, 0.25)
            UNION ALL SELECT step + 1, j, a * value * 0.6 FROM s JOIN edge ON i = node WHERE step < 4)
        SELECT node, sum(a) FROM s GROUP BY node""").fetchall())
    assert got == {node: pytest.approx(a) for node, a in paths.items()}
    strength = np.where(A.sum(axis=1) > 0, A.sum(axis=1), 1)
    pulse = np.zeros(60)
    pulse[5] = 1
    want = pulse.copy()
    for _ in range(3):
        pulse = 0.5 * (A / strength[:, None]).T @ np.where(np.abs(pulse) > 0.02, pulse, 0)
        want += pulse
    got = spread(db, "[5]", threshold=0.02, normalize=True)
    assert [got.get(k, 0) for k in range(60)] == pytest.approx(list(want))
    assert spread(db, "[5]", steps=0) == {5: 1}
    assert [k for k, in db.execute("SELECT node FROM gx_spread('G', '[5]')")] == sorted(spread(db, "[5]"))


def test_spread_falling(db):
    """ORDER BY activation DESC is the table's own: the same rows as SQLite's sorting, none sorted twice, ties by node."""
    A = graph(80, 0.08, 6, weights=True)
    store(db, A)
    db.execute("CREATE TEMP TABLE s AS SELECT node, activation FROM gx_spread('G', '[3]')")
    table, copy = "gx_spread('G', '[3]')", "s"
    for tail, is_own in [("ORDER BY activation DESC", True), ("ORDER BY activation DESC LIMIT 5", True),
                         ("ORDER BY activation DESC LIMIT 7 OFFSET 60", True), ("ORDER BY activation DESC LIMIT 0", True),
                         ("ORDER BY activation", False), ("ORDER BY node DESC", False), ("ORDER BY activation DESC, node DESC", False),
                         ("WHERE activation > 0.01 ORDER BY activation DESC", True), ("WHERE node < 40 ORDER BY activation DESC LIMIT 3", False),
                         ("WHERE activation >= 0.02 AND activation > 0.01 ORDER BY activation DESC", False),
                         ("WHERE 0.01 <= activation AND activation < 0.1 ORDER BY activation DESC", False),
                         ("WHERE activation > 0.01 ORDER BY activation DESC LIMIT 3 OFFSET 1", True)]:
        sql = "SELECT node, activation FROM {} " + tail
        want = db.execute(sql.format(copy)).fetchall()
        assert db.execute(sql.format(table)).fetchall() == want, tail
        plan = " ".join(row[3] for row in db.execute("EXPLAIN QUERY PLAN " + sql.format(table)))
        assert ("ORDER BY" not in plan) == is_own, (tail, plan)
    middle = db.execute("SELECT activation FROM s ORDER BY activation LIMIT 1 OFFSET (SELECT count(*) / 2 FROM s)").fetchone()[0]
    for bound in (middle, 0, 1, -1, None, "0.02", "many", b"x", 2**60, float("inf"), -float("inf")):
        for condition in ("activation > ?", "? <= activation", "activation > ? AND node > 5", "activation > ? OR node = 7"):
            sql = "SELECT node, activation FROM {} WHERE " + condition
            assert db.execute(sql.format(table), (bound,)).fetchall() == db.execute(sql.format(copy), (bound,)).fetchall(), (bound, condition)
    limits = "WITH l(x) AS (VALUES(0.01), (0.1), ('0.05'), (NULL)) SELECT x, node FROM l, {} WHERE activation > x ORDER BY x, node"
    assert db.execute(limits.format(table)).fetchall() == db.execute(limits.format(copy)).fetchall()
    assert db.execute(f"SELECT activation FROM {table} ORDER BY activation DESC LIMIT 2").fetchall() == [
        (a,) for a, in db.execute("SELECT activation FROM s ORDER BY activation DESC LIMIT 2")]
    pairs = "SELECT a.node, b.node FROM {0} a, {0} b WHERE a.node = b.node ORDER BY a.activation DESC LIMIT 4"
    assert db.execute(pairs.format(table)).fetchall() == db.execute(pairs.format(copy)).fetchall()
    chain = np.diag(np.ones(3), 1)  # 0 -> 1 -> 2 -> 3, and equal ones: the smaller node first
    chain[0, 2] = 1
    store(db, chain)
    ask = "SELECT node FROM gx_spread('G', '[0]', '{\"steps\":1}') ORDER BY activation DESC"
    assert db.execute(ask).fetchall() == [(0,), (1,), (2,)]
    store(db, np.array([[0, np.inf, 1], [0, 0, 0], [0, -np.inf, 0]]))
    ask = "SELECT node, activation FROM gx_spread('G', '[0]', '{\"steps\":2}') ORDER BY activation DESC"
    assert db.execute(ask).fetchall() == [(0, 1.0), (2, 0.5), (1, None)], "what is no number comes last, as NULL does"


def test_refused(db):
    store(db, graph(6, 0.5, 5))
    q(db, "SELECT gx_store('B', '[[1,2]]')")
    q(db, "SELECT gx_store('N', '[[0,-1],[1,0]]')")
    for function in ["gx_pagerank", "gx_components", "gx_triangles"]:
        assert error(db, f"SELECT {function}('B')").endswith("is 1x2, but a graph's matrix is square")
        assert "weights of edges are real" in error(db, f"SELECT {function}('[[\"1i\"]]')")
    assert "N[0,1] is -1, but a weight is 0 or more" in error(db, "SELECT gx_pagerank('N')")
    for weight, total in ("1e308", "inf"), ("1e-320", "1.99998e-320"):  # divided by these nothing is what it should be
        text = f"[[0,{weight},{weight}],[0,0,0],[0,0,0]]"
        assert error(db, "SELECT gx_pagerank(?)", text) == (
            f"gx_pagerank: the weights of node 0 of G sum up to {total}: scale the weights")
    assert 'option "damping" must be' in error(db, "SELECT gx_pagerank('G', '{\"damping\":1}')")
    assert "ranks still change by" in error(db, "SELECT gx_pagerank('G', '{\"iterations\":1}')")
    assert "seeds has node 6, but the nodes of G are 0 to 5" in error(db, "SELECT * FROM gx_spread('G', '[6]')")
    assert "seeds has node 0.5" in error(db, "SELECT * FROM gx_spread('G', '[0.5]')")
    assert "seeds is 1x3" in error(db, "SELECT * FROM gx_spread('G', '[[1,2,3]]')")
    assert '"steps"' in error(db, "SELECT * FROM gx_spread('G', '[1]', '{\"steps\":-1}')")


def test_nothing(db):
    for n in [0, 1, 4]:
        store(db, np.zeros((n, n)))
        assert q(db, "SELECT gx_triangles('G')") == 0
        assert list(to_numpy(q(db, "SELECT gx_components('G')"))[:, 0]) == list(range(n))
        assert list(to_numpy(q(db, "SELECT gx_pagerank('G')"))[:, 0]) == [pytest.approx(1 / max(n, 1))] * n
