"""Paths, orders, trees, matchings and flows of graphs, beside scipy.sparse.csgraph.

Plan:
- random graphs of several densities, sparse and dense: lengths with and without directions, weights and negative ones, and that
  predecessors lead back along them; some starts, all, none; a negative cycle is refused, and in an undirected graph a negative edge;
- several shortest paths are the first of all simple ones, counted out, with ties, weights below 0 and without directions;
- searches in breadth and depth reach what SciPy's do, in its order; strong components are its partition, numbered by first nodes;
- the reversed Cuthill-McKee order is a permutation that makes a shuffled band as narrow as SciPy's does;
- spanning trees have SciPy's sum, no cycle and an edge less than nodes in each component; Laplacians are SciPy's to the bit where not normed;
- largest flows arrive in SciPy's size, leave no node more than enters it, and go over no capacity, fractions too; matchings have SciPy's
  sizes and sums, wide and tall; none of all rows is refused; the rank of the pattern;
- stored results, f32 graphs, one node, none, loops; refusals in words; a small memory_limit.
"""
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.csgraph as csgraph
from conftest import error, from_numpy, q, to_numpy

SIZES = [(1, 0.5), (7, 0.3), (40, 0.05), (60, 0.2)]


def graph(n, density, seed, negative=False):
    rng = np.random.default_rng(seed)
    W = rng.integers(1, 30, (n, n)) + (rng.random((n, n)) if seed % 2 else 0)
    if negative:  # differences of potentials: cycles add up to what was there before
        h = rng.integers(-40, 40, n)
        W = W + h[:, None] - h[None, :]
    return np.where(rng.random((n, n)) < density, W, 0.0)


def put(db, A, name="G"):
    q(db, f"SELECT gx_sparse(?, '{name}', '{{\"replace\":true}}')", from_numpy(A))


def dense(db, sql, *args):
    return to_numpy(q(db, f"SELECT gx_dense({sql})", *args))


def column(db, sql, *args):
    return to_numpy(q(db, f"SELECT {sql}", *args))[:, 0].astype(int)


def lengths_along(A, D, before, directed):
    """Predecessors lead back to the start, and the weights add up to the lengths."""
    W = np.where(A == 0, np.inf, A)
    W = W if directed else np.minimum(W, W.T)
    for k in range(len(D)):
        for v in range(len(A)):
            if before[k, v] >= 0:
                u = int(before[k, v])
                assert D[k, u] + W[u, v] == pytest.approx(D[k, v], abs=1e-9)
            else:
                assert D[k, v] == 0 or np.isinf(D[k, v])


@pytest.mark.parametrize("n, density", SIZES)
@pytest.mark.parametrize("directed", [True, False])
def test_shortest_paths(db, n, density, directed):
    for seed in (1, 2):
        A = graph(n, density, seed)
        put(db, A)
        option = f'{{"directed":{str(directed).lower()}}}'
        want = csgraph.shortest_path(sp.csr_matrix(A), directed=directed)
        D = to_numpy(q(db, "SELECT gx_shortest_paths('G', ?)", option))
        np.testing.assert_allclose(D, want, rtol=1e-13)
        np.testing.assert_array_equal(D, to_numpy(q(db, "SELECT gx_shortest_paths(?, ?)", from_numpy(A), option)))
        lengths_along(A, D, to_numpy(q(db, "SELECT gx_shortest_paths('G', ?)", option[:-1] + ',"predecessors":true}')), directed)
        steps = to_numpy(q(db, "SELECT gx_shortest_paths('G', ?)", option[:-1] + ',"unweighted":true,"from":[0]}'))
        np.testing.assert_array_equal(steps, csgraph.shortest_path(sp.csr_matrix(A), directed=directed, unweighted=True, indices=[0]))


@pytest.mark.parametrize("n, density", SIZES)
def test_negative_weights(db, n, density):
    A = graph(n, density, 3, negative=True)
    np.fill_diagonal(A, 0)
    put(db, A)
    D = to_numpy(q(db, "SELECT gx_shortest_paths('G')"))
    np.testing.assert_allclose(D, csgraph.johnson(sp.csr_matrix(A)), atol=1e-9)
    lengths_along(A, D, to_numpy(q(db, "SELECT gx_shortest_paths('G', '{\"predecessors\":true}')")), True)


def test_negative_cycles(db):
    put(db, np.array([[0, 1, 0], [0, 0, -3], [1, 0, 0.0]]))
    assert error(db, "SELECT gx_shortest_paths('G')") == (
        "gx_shortest_paths: G has a cycle whose weights add up to less than 0: there is no shortest path")
    put(db, np.array([[0, -1], [0, 0.0]]))
    assert to_numpy(q(db, "SELECT gx_shortest_paths('G')")).tolist() == [[0, -1], [np.inf, 0]]
    assert "less than 0" in error(db, "SELECT gx_shortest_paths('G', '{\"directed\":false}')")


def simple_paths(W, source, target):
    """Lengths of all paths that visit no node twice, ascending, and the paths."""
    found = []

    def go(path, length):
        if path[-1] == target:
            found.append((length, tuple(path)))
            return
        for v in range(len(W)):
            if W[path[-1], v] != 0 and v not in path:
                go([*path, v], length + W[path[-1], v])

    go([source], 0.0)
    return sorted(found)


@pytest.mark.parametrize("directed", [True, False])
def test_several_paths(db, directed):
    for seed, n, density, whole, negative in [(21, 6, 0.5, False, False), (22, 7, 0.6, True, False), (23, 6, 0.7, False, True), (24, 5, 1, True, False), (25, 6, 0.2, False, False)]:
        if negative and not directed:
            continue
        A = graph(n, density, seed, negative)
        np.fill_diagonal(A, 0)
        A = np.ceil(A / 10) if whole else A  # ties
        put(db, A)
        W = A if directed else np.where((A == 0) | (A.T == 0), np.maximum(A, A.T), np.minimum(A, A.T))
        for source, target in [(0, n - 1), (2, 1)]:
            want = simple_paths(W, source, target)
            for k in (1, 3, 1000):
                got = to_numpy(q(db, "SELECT gx_k_paths('G', ?, ?, ?, ?)", source, target, k, f'{{"directed":{str(directed).lower()}}}'))
                np.testing.assert_allclose(got[:, 0] if len(want) else [], [length for length, _ in want[:k]], rtol=1e-12, atol=1e-9)
                nodes = [tuple(int(v) for v in row if v >= 0) for row in got[:, 1:]]
                assert len(set(nodes)) == len(nodes) and set(nodes) <= {path for _, path in want}
    put(db, np.array([[0, 2, 9.0], [0, 0, 3], [0, 0, 0]]))
    assert to_numpy(q(db, "SELECT gx_k_paths('G', 0, 2, 5)")).tolist() == [[5, 0, 1, 2], [9, 0, 2, -1]]
    assert to_numpy(q(db, "SELECT gx_k_paths('G', 0, 2, 5, '{\"unweighted\":true}')")).tolist() == [[1, 0, 2, -1], [2, 0, 1, 2]]
    assert q(db, "SELECT gx_shape(gx_k_paths('G', 2, 0, 5))") == "[0,1]"


@pytest.mark.parametrize("n, density", SIZES)
@pytest.mark.parametrize("directed", [True, False])
def test_searches(db, n, density, directed):
    A = graph(n, density, 5)
    put(db, A)
    for start in {0, n - 1}:
        for name, search in [("breadth", csgraph.breadth_first_order), ("depth", csgraph.depth_first_order)]:
            order, before = search(sp.csr_matrix(A), start, directed=directed)
            got = to_numpy(q(db, f"SELECT gx_{name}_first('G', ?, ?)", start, f'{{"directed":{str(directed).lower()}}}'))
            depth = {start: 0}
            for node, parent, d in got[1:]:
                depth[node] = depth[parent] + 1
                assert d == depth[node] and (A[int(parent), int(node)] or (not directed and A[int(node), int(parent)]))
            assert set(got[:, 0]) == set(order) and got[0].tolist() == [start, -1, 0]
            if name == "breadth":
                np.testing.assert_array_equal(got[:, 0], order)
                np.testing.assert_array_equal(got[1:, 1], before[order][1:])


@pytest.mark.parametrize("n, density", SIZES)
def test_strong_components(db, n, density):
    A = graph(n, density, 6)
    put(db, A)
    count, want = csgraph.connected_components(sp.csr_matrix(A), connection="strong")
    got = column(db, "gx_components('G', '{\"connection\":\"strong\"}')")
    assert len(set(zip(got, want))) == count == len(set(got))
    firsts = [list(got).index(k) for k in range(count)]
    assert firsts == sorted(firsts)


def width(A, order):
    i, j = np.nonzero(A[np.ix_(order, order)])
    return int(np.abs(i - j).max()) if len(i) else 0


def test_cuthill_mckee(db):
    rng = np.random.default_rng(7)
    for n, band in [(1, 0), (30, 2), (200, 4)]:
        B = sum(np.diag(np.ones(n - k), k) + np.diag(np.ones(n - k), -k) for k in range(band + 1) if k < n)
        p = rng.permutation(n)
        A = B[np.ix_(p, p)]
        put(db, A)
        order = column(db, "gx_cuthill_mckee('G')")
        assert sorted(order) == list(range(n))
        assert width(A, order) <= max(1, width(A, csgraph.reverse_cuthill_mckee(sp.csr_matrix(A), True)), 2 * band)
    A = graph(50, 0.03, 8)  # not symmetric, in several parts
    put(db, A)
    assert sorted(column(db, "gx_cuthill_mckee('G')")) == list(range(50))


@pytest.mark.parametrize("n, density", SIZES)
def test_spanning_tree(db, n, density):
    A = graph(n, density, 9)
    put(db, A)
    parts = csgraph.connected_components(sp.csr_matrix(A), directed=False)[0]
    for option, sign in [("{}", 1), ('{"largest":true}', -1)]:
        T = dense(db, "gx_spanning_tree('G', ?)", option)
        assert ((T == 0) | (T == A)).all() and np.count_nonzero(T) == n - parts
        assert csgraph.connected_components(sp.csr_matrix(T), directed=False)[0] == parts
        want = csgraph.minimum_spanning_tree(sp.csr_matrix(np.where(A != 0, sign * A + (100 if sign < 0 else 0), 0))).sum()
        assert (sign * T.sum() + (100 * (n - parts) if sign < 0 else 0)) == pytest.approx(want)


@pytest.mark.parametrize("n, density", SIZES)
def test_laplacian(db, n, density):
    for A in (graph(n, density, 10), graph(n, density, 10) + graph(n, density, 10).T):
        put(db, A)
        for out in (False, True):
            want = csgraph.laplacian(A, use_out_degree=out)
            option = f'{{"out_degree":{str(out).lower()}'
            np.testing.assert_allclose(dense(db, "gx_laplacian('G', ?)", option + "}"), want, rtol=1e-14)
            want = csgraph.laplacian(A, normed=True, use_out_degree=out)
            np.testing.assert_allclose(dense(db, "gx_laplacian('G', ?)", option + ',"normed":true}'), want, atol=1e-15)
    q(db, "SELECT gx_laplacian('G', 'L', '{\"replace\":true}')")
    assert "symmetric" in q(db, "SELECT properties FROM gx WHERE name = 'L'")


@pytest.mark.parametrize("n, density", [(2, 1), (8, 0.4), (40, 0.1), (60, 0.3)])
def test_max_flow(db, n, density):
    for seed in (11, 12):
        A = graph(n, density, seed)
        np.fill_diagonal(A, 0)
        put(db, A)
        F = dense(db, "gx_max_flow('G', 0, ?)", n - 1)
        assert (F >= 0).all() and (F <= A).all()
        net = F.sum(1) - F.sum(0)
        assert np.abs(net[1:-1]).max(initial=0) < 1e-9
        if seed % 2 == 0:
            assert net[0] == csgraph.maximum_flow(sp.csr_matrix(A.astype(np.int32)), 0, n - 1).flow_value
        reached = [0]  # what is left of the capacities cuts the source from the target
        left = A - F + F.T
        for u in reached:
            reached += [v for v in range(n) if left[u, v] > 1e-9 and v not in reached]
        assert n - 1 not in reached
        assert net[0] == pytest.approx(A[np.ix_(reached, [v for v in range(n) if v not in reached])].sum())


@pytest.mark.parametrize("m, n, density", [(1, 1, 1), (20, 20, 0.1), (15, 40, 0.06), (40, 15, 0.06), (60, 60, 0.05)])
def test_matching(db, m, n, density):
    rng = np.random.default_rng(13)
    for _ in range(4):
        A = np.where(rng.random((m, n)) < density, rng.random((m, n)), 0)
        put(db, A)
        got = column(db, "gx_matching('G')")
        rows = np.flatnonzero(got >= 0)
        assert (A[rows, got[rows]] != 0).all() and len(set(got[rows])) == len(rows)
        assert len(rows) == csgraph.structural_rank(sp.csr_matrix(A))


@pytest.mark.parametrize("m, n", [(1, 1), (6, 6), (30, 50), (50, 30)])
def test_matching_by_weight(db, m, n):
    rng = np.random.default_rng(14)
    for density in (1, 0.5, "ties"):
        A = rng.integers(1, 4, (m, n)).astype(float) if density == "ties" else np.where(rng.random((m, n)) < density, rng.random((m, n)) - 0.3, 0)
        A[np.arange(min(m, n)), np.arange(min(m, n))] = 5.0
        put(db, A)
        for word in ("min", "max"):
            got = column(db, "gx_matching('G', ?)", f'{{"weights":"{word}"}}')
            rows = np.flatnonzero(got >= 0)
            assert len(rows) == min(m, n) == len(set(got[rows]))
            i, j = csgraph.min_weight_full_bipartite_matching(sp.csr_matrix(A), maximize=word == "max")
            assert A[rows, got[rows]].sum() == pytest.approx(A[i, j].sum())
    put(db, np.array([[1.0, 0], [1, 0]]))
    assert "has no matching of all its rows or columns" in error(db, "SELECT gx_matching('G', '{\"weights\":\"min\"}')")
    assert column(db, "gx_matching('G')").tolist() == [0, -1]


def test_stored_and_small(filedb):
    db = filedb
    A = graph(12, 0.4, 15)
    put(db, A)
    for call in ("shortest_paths('G'", "breadth_first('G', 0", "depth_first('G', 3", "cuthill_mckee('G'", "spanning_tree('G'",
                 "laplacian('G'", "max_flow('G', 0, 5", "matching('G'", "k_paths('G', 0, 5, 3"):
        assert q(db, f"SELECT gx_{call}, 'R')") == "R"
        np.testing.assert_array_equal(dense(db, "'R'"), dense(db, f"gx_{call})"), call)
        q(db, "SELECT gx_drop('R')")
    q(db, "SELECT gx_cast('G', 'f32', 'G32')")
    np.testing.assert_allclose(to_numpy(q(db, "SELECT gx_shortest_paths('G32')")), to_numpy(q(db, "SELECT gx_shortest_paths('G')")), rtol=1e-6)
    assert q(db, "SELECT gx_dtype(gx_laplacian('G32'))") == "f32"
    none = from_numpy(np.zeros((0, 0)))
    assert q(db, "SELECT gx_json(gx_shortest_paths(?))", none) == q(db, "SELECT gx_json(gx_matching(?))", none) == "[]"
    assert q(db, "SELECT gx_nnz(gx_laplacian(?))", none) == q(db, "SELECT gx_nnz(gx_spanning_tree(?))", none) == 0
    assert q(db, "SELECT gx_shape(gx_shortest_paths('G', '{\"from\":[]}'))") == "[0,12]"
    assert q(db, "SELECT gx_json(gx_depth_first('[[1]]', 0))") == "[[0.0,-1.0,0.0]]"


@pytest.mark.parametrize("call, text", [
    ("gx_shortest_paths('[[1,2,3]]')", "is 1x3, but a graph's matrix is square"),
    ("gx_shortest_paths('[[0,1],[1,0]]', '{\"from\":[2]}')", "from has node 2, but the nodes of G are 0 to 1"),
    ("gx_shortest_paths('[[0,1],[1,0]]', '{\"from\":[[0,1]]}')", "from is 1x2, but has nodes in a column"),
    ("gx_shortest_paths('[[0,\"1i\"],[1,0]]')", "is complex"), ("gx_shortest_paths('[[0,\"nan\"],[1,0]]')", "is NaN"),
    ("gx_breadth_first('[[0,1],[1,0]]', 2)", "start is 2, but the nodes of G are 0 to 1"),
    ("gx_depth_first('[[0,1],[1,0]]', -1)", "start is -1"), ("gx_depth_first('[]', 0)", "nodes of G are 0 to -1"),
    ("gx_k_paths('[[0,1],[1,0]]', 0, 0, 1)", "source and target are the same node"), ("gx_k_paths('[[0,1],[1,0]]', 0, 1, 0)", "k must be from 1"),
    ("gx_k_paths('[[0,1],[1,0]]', 0, 5, 1)", "target is 5"), ("gx_k_paths('[[0,-1],[-1,0]]', 0, 1, 1)", "less than 0"),
    ("gx_cuthill_mckee('[[1,2,3]]')", "square"), ("gx_spanning_tree('[[1,2,3]]')", "square"), ("gx_laplacian('[[1,2,3]]')", "square"),
    ("gx_laplacian('[[0,-1],[1,0]]', '{\"normed\":true}')", "has no normed Laplacian"),
    ("gx_max_flow('[[0,1],[1,0]]', 0, 0)", "source and target are both 0"), ("gx_max_flow('[[0,-1],[1,0]]', 0, 1)", "a capacity is 0 or more"),
    ("gx_max_flow('[[0,1],[1,0]]', 0, 7)", "target is 7"), ("gx_max_flow('[[1,2,3]]', 0, 0)", "both 0"),
    ("gx_matching('[[1]]', '{\"weights\":\"best\"}')", "must be one of none, min, max"),
    ("gx_components('[[1]]', '{\"connection\":\"loose\"}')", "must be one of weak, strong"),
])
def test_refused(db, call, text):
    assert text in error(db, f"SELECT {call}")


def test_memory(filedb):
    """Everything is refused before it is taken, and the connection goes on."""
    db = filedb
    q(db, "SELECT gx_config('tile_bytes', 65536)")
    q(db, "SELECT gx_store_cells('P', i, (i * 7919 + 1) % 60000, 1, '{\"sparse\":true,\"rows\":60000,\"cols\":60000}') FROM "
          "(WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 59999) SELECT i FROM c)")
    q(db, "SELECT gx_config('memory_limit', '2MB')")
    for call in ("gx_shortest_paths('P')", "gx_max_flow('P', 0, 1)", "gx_spanning_tree('P')", "gx_matching('P', '{\"weights\":\"min\"}')"):
        assert "memory" in error(db, f"SELECT {call}"), call
    q(db, "SELECT gx_config('memory_limit', '1GB')")
    assert to_numpy(q(db, "SELECT gx_shortest_paths('P', '{\"from\":[5]}')"))[0, 5] == 0
