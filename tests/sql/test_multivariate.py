"""gx_cca, gx_factor, gx_lda, gx_mahalanobis: against their definitions in NumPy.

Plan:
- canonical variates: uncorrelated, variance 1, correlated pairwise as told, and by as much as singular values say; stored, small memory;
- factors: the gradient of the likelihood is 0, varimax turns and nothing else, Heywood cases end at the bound; refusals;
- discriminants: the generalised eigenvalue problem, variance 1 within groups, groups as Bayes' rule has them; refusals; forged models;
- distances: by the covariance's inverse, of values, stored matrices and other dtypes, as a stored result.
"""
import random
import sqlite3

import numpy as np
import pytest
from scipy import linalg, stats

from conftest import error, from_numpy, q, to_numpy


def rows(db, sql, *params):
    cursor = db.execute(sql, params)
    names = [column[0] for column in cursor.description]
    found = [dict(zip(names, row)) for row in cursor]
    return [{key: to_numpy(value).ravel() if isinstance(value, bytes) else value for key, value in row.items()} for row in found]


def store(db, **arrays):
    for name, array in arrays.items():
        q(db, "SELECT gx_store(?, ?, '{\"replace\":true}')", name, from_numpy(array))


@pytest.mark.parametrize("n, p, k", [(300, 3, 4), (300, 5, 2), (2000, 1, 1), (60, 30, 20)])
def test_canonical_correlations(filedb, n, p, k):
    q(filedb, "SELECT gx_config('tile_bytes', 4096)")
    q(filedb, "SELECT gx_config('memory_limit', '3MB')")
    rng = np.random.default_rng(n + p)
    Z = rng.normal(size=(n, 2))
    X, Y = (Z @ rng.normal(size=(2, m)) + rng.normal(size=(n, m)) + 7 for m in (p, k))
    store(filedb, X=X, Y=Y)
    found = rows(filedb, "SELECT * FROM gx_cca('X', 'Y')")
    Xc, Yc = X - X.mean(0), Y - Y.mean(0)
    want = np.linalg.svd(np.linalg.qr(Xc)[0].T @ np.linalg.qr(Yc)[0])[1]
    assert [row["axis"] for row in found] == list(range(1, min(p, k) + 1))
    np.testing.assert_allclose([row["correlation"] for row in found], want, atol=1e-13)
    A, B = (np.column_stack([row[name] for row in found]) for name in ("x_coef", "y_coef"))
    a = min(p, k)
    np.testing.assert_allclose((Xc @ A).T @ (Xc @ A) / (n - 1), np.eye(a), atol=1e-10)
    np.testing.assert_allclose((Yc @ B).T @ (Yc @ B) / (n - 1), np.eye(a), atol=1e-10)
    np.testing.assert_allclose((Xc @ A).T @ (Yc @ B) / (n - 1), np.diag(want), atol=1e-10)
    bartlett = -(n - 1 - (p + k + 1) / 2) * np.log1p(-(want**2)).sum()
    assert (found[0]["statistic"], found[0]["p_value"]) == pytest.approx((bartlett, stats.chi2.sf(bartlett, p * k)), rel=1e-9)


def test_canonical_refusals(db):
    assert "every correlation would be 1" in error(db, "SELECT * FROM gx_cca('[1,2,3]', '[[1,2],[3,4],[5,7]]')")
    assert "X has 4 rows, and Y has 5" in error(db, "SELECT * FROM gx_cca('[1,2,3,4]', '[1,2,3,4,5]')")
    assert "column 2 of X is constant" in error(db, "SELECT * FROM gx_cca('[[1,1],[2,1],[3,1],[5,1]]', '[1,2,3,9]')")
    assert "column 1 of Y is constant" in error(db, "SELECT * FROM gx_cca('[1,2,3,9]', '[2,2,2,2]')")


def likelihood_gradient(S, L, psi):
    model = L @ L.T + np.diag(psi)
    inverse = np.linalg.inv(model)
    return np.diag(inverse @ (model - S) @ inverse)


@pytest.mark.parametrize("p, k, seed", [(8, 2, 0), (6, 1, 1), (12, 3, 2), (40, 4, 3), (3, 1, 4)])
def test_factors(db, p, k, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, k)) @ rng.normal(size=(k, p)) + rng.normal(size=(400, p)) * rng.uniform(0.6, 1.5, p) + 3
    store(db, X=X)
    found = rows(db, "SELECT * FROM gx_factor('X', ?, '{\"rotation\":\"none\"}')", k)
    L, psi = np.array([row["loadings"] for row in found]), np.array([row["uniqueness"] for row in found])
    S = np.corrcoef(X.T)
    assert np.abs(likelihood_gradient(S, L, psi)).max() < 1e-6
    np.testing.assert_allclose([row["communality"] for row in found], (L**2).sum(1), atol=1e-6)
    assert np.abs((L.T / psi @ L)[~np.eye(k, dtype=bool)]).max(initial=0) < 1e-7
    df = ((p - k) ** 2 - p - k) / 2
    model = L @ L.T + np.diag(psi)
    least = np.linalg.slogdet(model)[1] - np.linalg.slogdet(S)[1] + np.trace(np.linalg.solve(model, S)) - p
    if df > 0:
        assert found[0]["statistic"] == pytest.approx((399 - (2 * p + 5) / 6 - 2 * k / 3) * least, rel=1e-6)
        assert found[0]["p_value"] == pytest.approx(stats.chi2.sf(found[0]["statistic"], df), rel=1e-9)
    turned = np.array([row["loadings"] for row in rows(db, "SELECT * FROM gx_factor('X', ?)", k)])
    np.testing.assert_allclose(turned @ turned.T, L @ L.T, atol=1e-6)
    simple = lambda A: ((A / np.sqrt((A**2).sum(1))[:, None]) ** 2).var(0).sum()
    for angle in (1e-3, -1e-3) if k > 1 else ():
        c, s = np.cos(angle), np.sin(angle)
        moved = turned.copy()
        moved[:, 0], moved[:, 1] = c * turned[:, 0] + s * turned[:, 1], c * turned[:, 1] - s * turned[:, 0]
        assert simple(moved) <= simple(turned) + 1e-12  # no turn makes it simpler


def test_a_heywood_case_and_refusals(db):
    rng = np.random.default_rng(5)
    f = rng.normal(size=60)
    X = np.column_stack([f + 0.01 * rng.normal(size=60)] + [f + rng.normal(size=60) for _ in range(4)])
    store(db, X=X)
    assert min(row["uniqueness"] for row in rows(db, "SELECT * FROM gx_factor('X', 1)")) == pytest.approx(0.005)
    assert "5 columns do not tell 3 factors" in error(db, "SELECT * FROM gx_factor('X', 3)")
    assert "column 2 is constant, or depends" in error(db, "SELECT * FROM gx_factor('[[1,2,1],[2,4,5],[3,6,2],[5,10,0]]', 1)")


def groups(rng, n, p, k):
    g = np.r_[np.arange(k), rng.integers(0, k, n - k)]
    return g, (rng.normal(size=(k, p)) * 2)[g] + rng.normal(size=(n, p)) @ rng.normal(size=(p, p)) + 5


@pytest.mark.parametrize("n, p, k", [(300, 4, 3), (500, 2, 6), (200, 7, 2)])
def test_discriminants(db, n, p, k):
    rng = np.random.default_rng(n)
    g, X = groups(rng, n, p, k)
    names = [f"s{j}" for j in range(k)]
    db.execute(f"CREATE TABLE t(g, {', '.join(f'x{j}' for j in range(p))})")
    db.executemany(f"INSERT INTO t VALUES({', '.join('?' * (p + 1))})", [(names[j], *row) for j, row in zip(g.tolist(), X.tolist())])
    db.execute(f"INSERT INTO t VALUES(NULL, {', '.join('1' * p)})")  # skipped
    columns = ", ".join(f"x{j}" for j in range(p))
    model = q(db, f"SELECT gx_lda(g, {columns}) FROM t")
    axes, about = rows(db, "SELECT * FROM gx_lda_axes(?)", model), rows(db, "SELECT * FROM gx_lda_groups(?)", model)
    means = np.array([X[g == j].mean(0) for j in range(k)])
    within = sum((X[g == j] - means[j]).T @ (X[g == j] - means[j]) for j in range(k))
    between = sum((g == j).sum() * np.outer(means[j] - X.mean(0), means[j] - X.mean(0)) for j in range(k))
    a = min(p, k - 1)
    want = linalg.eigh(between, within, eigvals_only=True)[::-1][:a]
    np.testing.assert_allclose([row["eigenvalue"] for row in axes], want, rtol=1e-9)
    np.testing.assert_allclose([row["ratio"] for row in axes], want / want.sum(), rtol=1e-9)
    A = np.column_stack([row["coef"] for row in axes])
    np.testing.assert_allclose(A.T @ within @ A / (n - k), np.eye(a), atol=1e-8)
    np.testing.assert_allclose(A.T @ between @ A / (n - k), np.diag(want), atol=1e-7 * want[0])
    assert [(row["label"], row["n"]) for row in about] == [(names[j], (g == j).sum()) for j in range(k)]
    np.testing.assert_allclose([row["mean"] for row in about], means, rtol=1e-9)
    precision = np.linalg.inv(within / (n - k))
    scores = [[-0.5 * (x - m) @ precision @ (x - m) + np.log((g == j).mean()) for j, m in enumerate(means)] for x in X]
    found = [row[0] for row in db.execute(f"SELECT gx_predict(?, {columns}) FROM t WHERE g IS NOT NULL", [model])]
    assert found == [names[j] for j in np.argmax(scores, 1)]


def test_discriminant_refusals(db):
    db.execute("CREATE TABLE t(g, a, b)")
    db.executemany("INSERT INTO t VALUES(?, ?, ?)", [("u", 1, 2), ("u", 2, 4), ("v", 3, 6), ("v", 5, 10), ("v", 6, 12)])
    assert "discriminants need two groups" in error(db, "SELECT * FROM (SELECT gx_lda(g, a) AS m FROM t WHERE g = 'u'), gx_lda_axes(m)")
    assert "column 2 is constant within groups" in error(db, "SELECT * FROM (SELECT gx_lda(g, a, b) AS m FROM t), gx_lda_axes(m)")
    assert "this is a model of gx_lda" in error(db, "SELECT * FROM (SELECT gx_lda(g, a) AS m FROM t), gx_lm_terms(m)")
    assert "gx_lda makes discriminants" in error(db, "SELECT * FROM (SELECT gx_lm(a, b) AS m FROM t), gx_lda_groups(m)")
    assert "x1 must be a number, not 'u'" in error(db, "SELECT gx_lda(b, g) FROM t")
    assert "the model has 1 columns, not 2" in error(db, "SELECT gx_predict(gx_lda(g, a), 1, 2) FROM t")
    assert q(db, "SELECT gx_predict(gx_lda(g, a), 1.4) FROM t") == "u" and q(db, "SELECT gx_lda(g, a) FROM t WHERE 0") is None
    whole, dice = q(db, "SELECT gx_lda(g, a) FROM t"), random.Random(1)
    db.text_factory = bytes
    for _ in range(500):
        forged = bytearray(whole)
        for _ in range(dice.choice([1, 2, 6])):
            forged[dice.randrange(len(forged))] = dice.choice([0, 1, 128, 255, dice.randrange(256)])
        for sql in ("SELECT gx_predict(?, 1)", "SELECT * FROM gx_lda_axes(?)", "SELECT * FROM gx_lda_groups(?)"):
            try:
                db.execute(sql, [bytes(forged)]).fetchall()
            except sqlite3.Error as problem:
                assert "gx_" in str(problem)


@pytest.mark.parametrize("stored", [False, True])
def test_distances(filedb, stored):
    q(filedb, "SELECT gx_config('tile_bytes', 8192)")
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(900, 6)) @ rng.normal(size=(6, 6)) + 4, rng.normal(size=(2500, 6)) * 3
    store(filedb, X=X, Y=Y)
    precision = np.linalg.inv(np.cov(X.T))
    want = np.sqrt(np.einsum("ij,jk,ik->i", Y - X.mean(0), precision, Y - X.mean(0)))
    if stored:
        assert q(filedb, "SELECT gx_mahalanobis('X', 'Y', 'D')") == "D"
        found = to_numpy(q(filedb, "SELECT gx_copy('D')"))
    else:
        found = to_numpy(q(filedb, "SELECT gx_mahalanobis(?, ?)", from_numpy(X), from_numpy(Y)))
    np.testing.assert_allclose(found.ravel(), want, rtol=1e-10)
    assert "X has 6 columns, and Y has 2" in error(filedb, "SELECT gx_mahalanobis('X', '[[1,2]]')")
    assert "its covariance has no inverse" in error(filedb, "SELECT gx_mahalanobis('[[1,2],[2,4],[3,6]]', '[[1,2]]')")
    assert "NaN" in error(filedb, "SELECT gx_mahalanobis('[[1,2],[2,4],[3,7],[\"nan\",1]]', '[[1,2]]')")
