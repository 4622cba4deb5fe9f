"""Statements that run long, one of each family, and what an interrupt makes of one.

test_interrupt_families.py asks that each ends with "interrupted" and leaves nothing behind; bench/interrupts.py prints
how soon.  A new function that can run long adds a line.
"""
import itertools
import random
import sqlite3
import threading
import time

import numpy as np
from conftest import from_numpy

STORED = """
    gx_randn(2500, 2500, 'A', '{"seed":1}')
    gx_randn(2500, 2500, 'Af', '{"seed":2,"dtype":"f32"}')
    gx_randn(1500, 1500, 'Ac', '{"seed":3,"dtype":"c128"}')
    gx_randn(900, 900, 'M', '{"seed":4}')
    gx_eval('H := M @ M.T + 900 * eye(900)')
    gx_eval('P := A @ A.T + 2500 * eye(2500)')
    gx_randn(500000, 12, 'T', '{"seed":5}')
    gx_randn(12, 500000, 'W', '{"seed":6}')
    gx_randn(60000, 64, 'E', '{"seed":7,"dtype":"f32"}')
    gx_randn(2000, 2, 'b', '{"seed":8}')
    gx_randn(3000000, 1, 'x', '{"seed":9}')
    gx_matrix_gallery('poisson', 640000, 'V', '{"sparse":true}')
    gx_random(30000, 30000, 'R', '{"seed":10,"density":0.002}')
    gx_add('R', gx_transpose('R'), 'U')
    gx_eval('B := random(2500, 2500) < 0.5')
    gx_ones(640000, 2, 'o')
    gx_svd('M', 's', 'u', 'vt')
    gx_pca('T', 3, 'model')
    gx_export(gx_slice('A', 0, 1500, 0, 1500), 'in.npy')
    gx_export(gx_slice('A', 0, 1000, 0, 1000), 'in.csv')
    gx_export(gx_slice('A', 0, 1000, 0, 1000), 'in.mtx')
    gx_export('R', 'sparse.mtx')
    gx_export('R', 'in.npz')
""".strip().splitlines()

TIMES = itertools.count(1)
CHAIN = "; ".join(["def f0(x) { x * 1.5 + 1 }"] + [f"def f{k}(x) {{ f{k - 1}(x) + f{k - 1}(x * 2) }}" for k in range(1, 20)])
NEST = "; ".join(["def f0(x) { x * 1.5 + 1 }"] + [f"def f{k}(x) {{ f{k - 1}(f{k - 1}(x)) }}" for k in range(1, 16)])
LOOP = "x = ones(900, 1); k = 0; while k < 100000 { x = H @ x; x = x / norm(x); k = k + 1 } sum(x)"
COUNT = "WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000)"
TEXT = "'[' || substr(replace(hex(zeroblob(4000000)), '00', ',1'), 2) || ']'"  # a literal of 4 000 000 numbers

# The same by the reference backend, whose loops are slow.
REFERENCE = {
    "matmul": "SELECT gx_matmul('M', 'H', 'N')",
    "matmul, values": "SELECT length(gx_matmul(gx_copy('M'), gx_copy('H')))",
    "maps": "SELECT length(gx_gamma(gx_copy('A')))",
    "cholesky": "SELECT gx_cholesky('H', 'N')",
    "lu": "SELECT gx_lu('M', 'N')",
    "trsm": "SELECT gx_trsm('H', 'M', 'N', '{\"uplo\":\"lower\"}')",
    "matmul, narrow": "SELECT gx_matmul('W', 'T', 'N')",
    "knn": "SELECT sum(id) FROM gx_knn(gx_slice('E', 0, 300, 0, 64), 'E', 10)",
}

FAMILIES = {
    # Making, copying, storing
    "randn": "SELECT gx_randn(4000, 4000, 'N')",
    "random, value": "SELECT length(gx_random(5000, 5000))",
    "random, sparse": "SELECT gx_random(100000, 100000, 'N', '{\"density\":0.001}')",
    "zeros": "SELECT gx_zeros(8000, 8000, 'N')",
    "ones, value": "SELECT length(gx_ones(9000, 9000))",
    "eye, value": "SELECT length(gx_eye(9000))",
    "gallery": "SELECT gx_matrix_gallery('hilb', 5000, 'N')",
    "linspace": "SELECT gx_linspace(0, 1, 30000000, 'N')",
    "toeplitz": "SELECT gx_toeplitz(gx_linspace(0, 1, 5000), gx_linspace(0, 1, 5000), 'N')",
    "from_function": "SELECT gx_from_function('rectangle', 6000, 6000, 'N')",
    "store": "SELECT gx_store('N', gx_vstack('A', 'A', 'A', 'A'))",
    "copy": "SELECT gx_copy('T', 'N')",
    "copy, value": "SELECT length(gx_copy(gx_copy(gx_copy('A'))))",
    "cast": "SELECT gx_cast('A', 'f32', 'N')",
    "insert of a value": "INSERT INTO plain SELECT gx_randn(6000, 6000)",
    "literal": f"SELECT gx_sum({TEXT})",
    "from_bytes": "SELECT gx_from_bytes(zeroblob(400000000), 'f64', 5000, 'N')",
    "to_bytes": "SELECT length(gx_to_bytes(gx_randn(5000, 5000), 'f32'))",
    "check": "SELECT gx_check()",
    "drop and store": "SELECT gx_store('A', 'P', '{\"replace\":true}')",
    "volumes": "SELECT gx_volumes(2)",
    "vacuum": "SELECT gx_randn(3000, 3000, 'N'), gx_drop('N'), gx_vacuum()",
    # Elementwise, arranging, reductions
    "add": "SELECT gx_add('A', 'P', 'N')",
    "exp": "SELECT gx_exp('A', 'N')",
    "gamma, value": "SELECT length(gx_gamma('A'))",
    "pow": "SELECT gx_pow('B', 'A', 'N')",
    "where": "SELECT gx_where('B', 'A', 'P', 'N')",
    "transpose": "SELECT gx_transpose('T', 'N')",
    "slice": "SELECT gx_slice('A', 1, 2499, 1, 2499, 'N')",
    "hstack": "SELECT gx_store('N', gx_hstack('A', 'P', 'A'))",
    "vstack": "SELECT length(gx_vstack('A', 'P', 'A'))",
    "reshape": "SELECT gx_reshape('T', 250000, 24, 'N')",
    "take": "SELECT gx_take('x', gx_arange(2999999, -1, -1), 'N')",
    "kron": "SELECT gx_kron('M', '[[1,2,3,4],[5,6,7,8]]', 'N')",
    "tile": "SELECT gx_tile('M', 5, 5, 'N')",
    "roll": "SELECT gx_roll('A', 700, 0, 'N')",
    "outer": "SELECT gx_outer(gx_linspace(0, 1, 5000), gx_linspace(0, 1, 5000), 'N')",
    "cumsum": "SELECT gx_cumsum('T', 0, 'N')",
    "sort": "SELECT gx_sort('x', 0, 'N')",
    "sort, value": "SELECT length(gx_sort(gx_randn(5000000, 1), 0))",
    "argsort": "SELECT gx_argsort('A', 1, 'N')",
    "softmax": "SELECT gx_softmax('A', 1, 'N')",
    "median": "SELECT gx_median('A', 0, 'N')",
    "unique_count": "SELECT gx_unique_count('x', 'N')",
    "polyval": "SELECT gx_polyval('[1,2,3,4,5,6,7,8,9]', 'A', 'N')",
    "sum": "SELECT gx_sum(gx_randn(6000, 6000))",
    "std": "SELECT gx_std('A', 0, 'N'), gx_std('A', 1, 'N2'), gx_std('A')",
    "norm": "SELECT gx_norm('A'), gx_norm('A', '1'), gx_norm('A', 'inf'), gx_norm('T'), gx_norm('W')",
    "topk": "SELECT sum(value) FROM gx_topk('A', 100)",
    "topk of columns": "SELECT sum(value) FROM gx_topk('A', 2000, '{\"axis\":0}')",
    "histogram": "SELECT sum(count) FROM gx_histogram('A', 100)",
    "label": "SELECT gx_label('B', 'N', '{\"neighbours\":8}')",
    "label of a batch": "SELECT length(gx_label(gx_eval('floor(random(3000000, 3) * 4)'), '{\"grid_rows\":3}'))",
    "objects": "SELECT sum(cells) FROM gx_objects('B')",
    "occurrences": "SELECT gx_grid_occurrences(gx_ones(3000, 3000), gx_ones(1500, 1500), 'N')",
    "operations on grids": "SELECT gx_eval('b = B; repeat 50 { b = beside(b, 8, 25) } sum(b)')",
    "heatmap": "SELECT length(gx_heatmap('A'))",
    "show": "SELECT length(gx_show('A', '{\"threshold\":100000000}'))",
    "show, one row": "SELECT length(gx_show(gx_transpose('x'), '{\"threshold\":100000000}'))",
    "json": "SELECT length(gx_json('A'))",
    "json, one row": "SELECT length(gx_json(gx_transpose('x')))",
    "json, one column": "SELECT length(gx_json('x'))",
    # Rows in, rows out
    "cells": "SELECT sum(value) FROM gx_cells('A')",
    "cells, by row": "SELECT i, sum(value) FROM gx_cells('A') GROUP BY i",
    "rows": "SELECT sum(length(row)) FROM gx_rows('T')",
    "from_cells": f"{COUNT} SELECT length(gx_from_cells(i % 1000, i / 1000, i)) FROM n",
    "store_cells": f"{COUNT} SELECT gx_store_cells('N', i % 1000, i / 1000, i) FROM n",
    "store_cells, sparse": f"{COUNT} SELECT gx_store_cells('N', (i * 7919) % 100000, i / 100, i, '{{\"sparse\":true}}') FROM n",
    "store_rows": "SELECT gx_store_rows('N', i, row) FROM gx_rows('T')",
    # Tests of hypotheses
    "exact test": f"{COUNT} SELECT gx_ks_test((i * 7919) % 20011, i % 2) FROM n WHERE i < 20000",
    "ranks": f"{COUNT} SELECT gx_corr_test((i * 7919) % 3000017, (i * 104729) % 3000017, '{{\"method\":\"kendall\"}}') FROM n",
    "update of cells": "UPDATE cells SET value = value + 1",
    # Files
    "export npy": "SELECT gx_export('A', 'out.npy', '{\"overwrite\":true}'), gx_export('P', 'out.npy', '{\"overwrite\":true}')",
    "export csv": "SELECT gx_export('A', 'out.csv', '{\"overwrite\":true}')",
    "export mtx": "SELECT gx_export('A', 'out.mtx', '{\"overwrite\":true}')",
    "export npz": "SELECT gx_export('U', 'out.npz', '{\"overwrite\":true}')",
    "export mtx, sparse": "SELECT gx_export('U', 'out.mtx', '{\"overwrite\":true}')",
    "import npy": "SELECT gx_import('N', 'in.npy')",
    "import csv": "SELECT gx_import('N', 'in.csv')",
    "import mtx": "SELECT gx_import('N', 'in.mtx')",
    "import mtx, sparse": "SELECT gx_import('N', 'sparse.mtx', '{\"sparse\":true}')",
    "import npz": "SELECT gx_import('N', 'in.npz')",
    # Products, factors, systems
    "matmul": "SELECT gx_matmul('A', 'P', 'N')",
    "matmul, values": "SELECT length(gx_matmul(gx_copy('A'), gx_copy('P')))",
    "matmul, complex": "SELECT gx_matmul('Ac', 'Ac', 'N')",
    "matmul, narrow": "SELECT gx_matmul('W', 'T', 'N'), gx_matmul('T', 'W', '{\"transa\":true,\"transb\":true}')",
    **{f"{name}, reference": ["SELECT gx_config('backend', 'reference')", sql, "SELECT gx_config('backend', 'auto')"]
       for name, sql in REFERENCE.items()},
    "syrk": "SELECT gx_syrk('A', 'N')",
    "cholesky": "SELECT gx_cholesky('P', 'N')",
    "cholesky, value": "SELECT length(gx_cholesky(gx_copy('P')))",
    "lu": "SELECT gx_lu('A', 'N')",
    "det": "SELECT gx_det('A')",
    "inverse": "SELECT gx_inverse('A', 'N')",
    "trsm": "SELECT gx_trsm('P', 'A', 'N', '{\"uplo\":\"lower\"}')",
    "trmm": "SELECT gx_trmm('P', 'A', 'N', '{\"uplo\":\"lower\"}')",
    "solve": "SELECT gx_solve('A', 'P', 'N')",
    "solve, mixed": "SELECT gx_solve('P', 'A', 'N', '{\"precision\":\"mixed\"}')",
    "qr": "SELECT gx_qr('A', 'N')",
    "lstsq": "SELECT gx_lstsq('A', 'P', 'N')",
    "lstsq, tall": "SELECT gx_lstsq('T', gx_col('T', 0), 'N'), gx_rank('T')",
    "rank": "SELECT gx_rank('A')",
    "pinv": "SELECT gx_pinv('M', 'N')",
    "cond": "SELECT gx_cond('A', 1), gx_cond('A', 'inf')",
    "is_symmetric": "SELECT gx_is_symmetric('P'), gx_check_property('A', 'orthogonal')",
    # Spectra
    "eig": "SELECT gx_eig('M', 'N', 'N2')",
    "eig, symmetric": "SELECT gx_eig('P', 'N', 'N2')",
    "eig, krylov": "SELECT gx_eig('P', 'N', 'N2', '{\"k\":20,\"method\":\"krylov\",\"tol\":1e-12}')",
    "eig, sigma": "SELECT gx_eig('A', 'N', 'N2', '{\"k\":4,\"method\":\"krylov\",\"sigma\":1,\"symmetric\":false}')",
    "svd": "SELECT gx_svd('M', 'N', 'N2', 'N3')",
    "svd, krylov": "SELECT gx_svd('A', 'N', 'N2', 'N3', '{\"k\":10,\"method\":\"krylov\"}')",
    "svd, tall": "SELECT gx_svd('T', 'N', 'N2', 'N3')",
    "svd, randomized": "SELECT gx_svd('A', 'N', 'N2', 'N3', '{\"k\":10,\"method\":\"randomized\"}')",
    "nullspace": "SELECT gx_nullspace('M', 'N')",
    "sqrtm": "SELECT gx_sqrtm('M', 'N')",
    "expm": "SELECT gx_expm('A', 'N')",
    "powm": "SELECT gx_powm('H', 0.5, 'N'), gx_powm('A', 17, 'N2')",
    "cov": "SELECT gx_cov('A', 'N')",
    "corr": "SELECT gx_corr('T', 'N'), gx_corr('A', 'N2')",
    "pca": "SELECT gx_pca('A', 5, 'N', '{\"method\":\"krylov\"}')",
    "pca, tall": "SELECT gx_pca('T', 3, 'N')",
    "pca, wide": "SELECT gx_pca('W', 3, 'N')",
    "pca_project": "SELECT gx_pca_project('T', 'model', 'N')",
    # Similarity
    "knn": "SELECT sum(id) FROM gx_knn(gx_slice('E', 0, 4000, 0, 64), 'E', 10)",
    "knn, l1": "SELECT sum(id) FROM gx_knn(gx_slice('E', 0, 500, 0, 64), 'E', 10, '{\"metric\":\"l1\"}')",
    "knn, long lists": "SELECT sum(id) FROM gx_knn(gx_slice('E', 0, 200, 0, 64), 'E', 50000)",
    "knn_graph": "SELECT gx_knn_graph(gx_slice('E', 0, 12000, 0, 64), 10, 'N')",
    "distance": "SELECT gx_distance(gx_slice('E', 0, 3000, 0, 64), gx_slice('E', 0, 6000, 0, 64), 'N')",
    "cosine": "SELECT gx_cosine(gx_slice('E', 0, 6000, 0, 64), gx_slice('E', 0, 6000, 0, 64), 'N')",
    "normalize": "SELECT gx_normalize('T', 1, 'l2', 'N'), gx_normalize('T', 0, 'l1', 'N2')",
    "kmeans": "SELECT gx_kmeans('E', 50, 'N')",
    # Sparse
    "sparse": "SELECT gx_sparse('A', 0.5, 'N')",
    "dense": "SELECT gx_dense(gx_slice('R', 0, 10000, 0, 10000), 'N')",
    "sparse transpose": "SELECT gx_transpose('R', 'N')",
    "sparse add": "SELECT gx_add('R', 'U', 'N')",
    "sparse matmul": "SELECT gx_matmul('V', 'o', 'N'), gx_matmul('R', gx_randn(30000, 20), 'N2')",
    "sparse product": "SELECT gx_matmul('R', 'R', 'N')",
    "sparse cg": "SELECT gx_solve('V', 'o', 'N', '{\"method\":\"cg\",\"precond\":\"ic0\"}')",
    "sparse gmres": "SELECT gx_solve('V', 'o', 'N', '{\"method\":\"gmres\",\"maxiter\":40}')",
    "sparse eig": "SELECT gx_eig('V', 'N', 'N2', '{\"k\":3,\"ncv\":40,\"tol\":1e-3,\"maxiter\":3,\"partial\":true}')",
    "pagerank": "SELECT gx_pagerank('R', 'N', '{\"tolerance\":1e-15}')",
    "components": "SELECT gx_components('V', 'N')",
    "triangles": "SELECT gx_triangles('U')",
    "spread": "SELECT sum(activation) FROM gx_spread('U', '[1,2]', '{\"steps\":60}')",
    "shortest paths": "SELECT length(gx_shortest_paths('R', '{\"from\":[0,1,2,3,4,5,6,7]}'))",
    "shortest paths, potentials": "SELECT length(gx_shortest_paths(gx_neg('R'), '{\"from\":[0]}'))",
    "spanning tree": "SELECT gx_spanning_tree('R', 'N')",
    "max flow": "SELECT gx_max_flow('R', 0, 29999, 'N')",
    "matching": "SELECT gx_matching('R', 'N', '{\"weights\":\"max\"}')",
    # Programs
    "eval": "SELECT gx_eval('N := exp(A) * 2 - P.T; N2 := A @ P + tanh(P)')",
    "eval, loop": f"SELECT gx_eval('{LOOP}')",
    "eval, definitions": f"SELECT gx_eval('{CHAIN}; f15(AGAIN)')",
    "eval, nested definitions": f"SELECT gx_eval('{NEST}; sum(f15([[AGAIN,2],[3,4]]))')",
    "eval, lines": "SELECT gx_eval('sum(sort(A, 1)) + median(cumsum(P)) + sum(softmax(A @ P))')",
    "eval, einsum": "SELECT gx_eval('N := einsum(''ij,jk,kl->il'', A, P, A)')",
    "eval, einsum with a sum": "SELECT gx_eval('sum(einsum(''ij,jk->ij'', A, P))')",
    # The control functions
    "selftest": "SELECT gx_selftest()",
    "benchmark": "SELECT gx_benchmark(1)",
    "signm": "SELECT gx_signm('M', 'N')",
    "qz": "SELECT gx_qz('M', 'H', '{\"s\":\"N\"}')",
    "solve banded": "SELECT length(gx_eval('solve_banded(200, 200, A[0:401, :], ones(2500, 1)) + AGAIN'))",
    "catalog": "SELECT sum(length(value)) FROM gx WHERE name IN ('A', 'P', 'T')",
}


def prepare(db):
    for call in STORED:
        db.execute("SELECT " + call.strip()).fetchall()
    db.create_function("rectangle", 4, lambda i, j, rows, cols: from_numpy(np.full((rows, cols), float(i + j))))
    db.execute("CREATE TABLE plain(v)")
    db.execute("CREATE VIRTUAL TABLE temp.cells USING gx_cells('main.M')")


def parts(name):
    """What comes before the statement, the statement, what comes after."""
    sql = FAMILIES[name]
    return (sql, None, None) if isinstance(sql, str) else (sql[1], sql[0], sql[2])


def state(db):
    """What a statement that is interrupted must leave as it was."""
    kept = db.execute("SELECT name, rows, cols, dtype, generation FROM gx ORDER BY name").fetchall()
    (used,), = db.execute("SELECT value FROM gx_stats WHERE name = 'memory_used'")
    return kept, used, db.in_transaction, db.execute("SELECT count(*) FROM plain").fetchall()


def whole(db, sql, most, strike=None):
    """Seconds of the whole statement, or so many at most; what it writes is rolled back."""
    start = time.perf_counter()
    problem, *_ = interrupt(db, sql, most, strike)
    if problem is not None and "interrupted" not in problem:
        raise sqlite3.OperationalError(problem)
    return min(most, time.perf_counter() - start)


def interrupt(db, sql, delay, strike=None):
    """Interrupt the statement after so many seconds, by strike or as other threads do: its error (None: it had ended), how long the end took in seconds, and
    in seconds of this process's processors.  AGAIN in the statement is another number each time, since a program that was run
    before is kept."""
    at = []
    sql = sql.replace("AGAIN", str(next(TIMES)))

    def press():
        at[:] = [time.perf_counter(), time.process_time()]
        (strike or db.interrupt)()

    timer = threading.Timer(delay, press)
    db.execute("BEGIN")
    timer.start()
    problem = None
    try:
        db.execute(sql).fetchall()
    except (sqlite3.Error, KeyboardInterrupt) as error:
        problem = str(error) or "interrupted"
    end = time.perf_counter(), time.process_time()
    timer.cancel()
    timer.join()
    if db.in_transaction:  # an interrupt may roll it back
        db.execute("ROLLBACK")
    if problem is None or not at:
        return problem, 0, 0
    return problem, end[0] - at[0], end[1] - at[1]


def delays(seconds, count, seed):
    """Random moments of a statement that takes so long, one in each count-th of it."""
    chance = random.Random(seed)
    return [seconds * (k + chance.random()) / count for k in range(count)]
