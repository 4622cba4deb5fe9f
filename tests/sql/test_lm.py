"""gx_lm, gx_glm and what their models say: against certified values, and formulas written out in NumPy.

Plan:
- NIST's Longley, Filip and Wampler 1-5: digits that agree;
- every column of gx_lm_terms and gx_lm_model, with weights, without intercept, ridge, HC0-HC3, clusters: NumPy's normal equations
  of well-conditioned data; the same from stored matrices of every kind of shape, in small memory; groups beside each alone;
- categories: dummy coding beside columns made by hand, levels that come late, numbers as levels, without intercept, prediction;
- generalised models: the score is 0 at the estimates, errors are those of the information matrix, deviances are sums;
- what has no answer: collinear columns, constants, one row, more columns than rows, perfect fits, separation: NULL and a note;
- NULLs skipped, counted, refused; infinite numbers, wrong names, roles taken twice, texts among numbers: in words;
- windows: rows that leave; forged and damaged models never crash and never lie in size.
"""
import json
import random
import sqlite3

import numpy as np
import pytest
from scipy import stats

import nistkit as nist
from conftest import error, from_numpy, q

TERMS = "estimate", "std_error", "statistic", "p_value", "ci_low", "ci_high", "vif"


def fill(db, columns, name="t"):
    rows = list(zip(*[c.tolist() if isinstance(c, np.ndarray) else c for c in columns]))
    names = ["y"] + [f"x{k}" for k in range(1, len(columns))]
    db.execute(f"DROP TABLE IF EXISTS {name}")
    db.execute(f"CREATE TABLE {name}({', '.join(names)})")
    db.executemany(f"INSERT INTO {name} VALUES({', '.join('?' * len(names))})", rows)
    return ", ".join(names)


def table(db, which, model, *params):
    cursor = db.execute(f"SELECT t.* FROM ({model}) AS m, {which}(m.m) AS t", params)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row)) for row in cursor]


def number(values):
    return np.array([np.nan if v is None else v for v in values], float)


def terms(db, call, source="t"):
    rows = table(db, "gx_lm_terms", f"SELECT {call} AS m FROM {source}")
    return {name: number([row[name] for row in rows]) for name in TERMS} | {"term": [row["term"] for row in rows]}


def model(db, call, source="t"):
    return table(db, "gx_lm_model", f"SELECT {call} AS m FROM {source}")[0]


def options(**keys):
    return "'" + json.dumps(keys) + "'"


# Certified values


@pytest.mark.parametrize("scale", [1, 100, 10000])
def test_wampler_with_errors(db, scale):
    X = nist.powers(nist.WAMPLER_X, 5)
    names = fill(db, [1 + X.sum(1) + scale * nist.WAMPLER_DELTA, *X.T])
    found = terms(db, f"gx_lm({names})")
    assert nist.digits(found["estimate"], np.ones(6)) > 8 - np.log10(scale) / 2
    assert nist.digits(found["std_error"], scale * np.array(nist.WAMPLER_ERRORS)) > 12
    assert nist.digits([model(db, f"gx_lm({names})")["sigma"]], [2360.14502379268 * scale]) > 12


def test_wampler_without_errors(db):
    X = nist.powers(nist.WAMPLER_X, 5)
    names = fill(db, [1 + X.sum(1), *X.T])
    assert nist.digits(terms(db, f"gx_lm({names})")["estimate"], np.ones(6)) > 8
    assert "perfect but for rounding" in model(db, f"gx_lm({names})")["note"]
    fill(db, [1 + (X * 0.1 ** np.arange(1, 6)).sum(1), *X.T])
    assert nist.digits(terms(db, f"gx_lm({names})")["estimate"], 0.1 ** np.arange(6)) > 11


def test_longley_and_filip(db):
    names = fill(db, [nist.LONGLEY[:, 6], *nist.LONGLEY[:, :6].T])
    found = terms(db, f"gx_lm({names})")
    assert nist.digits(found["estimate"], nist.LONGLEY_ESTIMATES) > 10.5
    assert nist.digits(found["std_error"], nist.LONGLEY_ERRORS) > 11
    assert model(db, f"gx_lm({names})")["r2"] == pytest.approx(0.995479004577296, rel=1e-13)
    names = fill(db, [nist.FILIP_Y, *nist.powers(nist.FILIP_X, 10).T])
    found = terms(db, f"gx_lm({names})")
    assert nist.digits(found["estimate"], nist.FILIP_ESTIMATES) > 6.5  # SciPy's and statsmodels' pseudo-inverse: none
    assert nist.digits(found["std_error"], nist.FILIP_ERRORS) > 6.5
    assert "nearly dependent" in model(db, f"gx_lm({names})")["note"]


# Formulas


def expected(X, y, intercept=True, w=None, robust="none", clusters=None):
    """Everything by the normal equations of well-conditioned data."""
    n = len(y)
    C = np.column_stack([np.ones(n), X]) if intercept else X
    root = np.sqrt(np.ones(n) if w is None else w)
    A, b = C * root[:, None], y * root
    k = C.shape[1]
    bread = np.linalg.inv(A.T @ A)
    beta = bread @ (A.T @ b)
    e = b - A @ beta
    df, h = n - k, np.sum((A @ bread) * A, 1)
    rss = e @ e
    centre = (root**2 @ y) / (root**2).sum() if intercept else 0
    tss = ((y - centre) ** 2 * root**2).sum()
    cov, use = bread * rss / df, df
    factor = {"HC0": e**2, "HC1": e**2 * n / df, "HC2": e**2 / (1 - h), "HC3": e**2 / (1 - h) ** 2}
    if robust != "none":
        cov = bread @ (A.T @ (A * factor[robust][:, None])) @ bread
    if clusters is not None:
        sums = np.array([(A * e[:, None])[clusters == g].sum(0) for g in np.unique(clusters)])
        G = len(sums)
        cov = bread @ (sums.T @ sums) @ bread * G / (G - 1) * (n - 1) / df
        use = G - 1
    se = np.sqrt(np.diag(cov))
    reach = stats.t.isf(0.025, use)
    spread = ((A - (root[:, None] * (root**2 @ C) / (root**2).sum() if intercept else 0)) ** 2).sum(0)
    first = 1 if intercept else 0
    V, slope = cov[first:, first:], beta[first:]
    f = slope @ np.linalg.solve(V, slope) / (k - first)
    loglik = -n / 2 * (np.log(2 * np.pi * rss / n) + 1) + np.log(root).sum()
    return {
        "estimate": beta, "std_error": se, "statistic": beta / se, "p_value": 2 * stats.t.sf(np.abs(beta / se), use),
        "ci_low": beta - reach * se, "ci_high": beta + reach * se,
        "vif": np.where(np.arange(k) < first, np.nan, np.diag(bread) * spread),
    }, {
        "n": n, "n_missing": 0, "df": df, "r2": 1 - rss / tss, "adj_r2": 1 - rss / df / (tss / (n - first)),
        "sigma": np.sqrt(rss / df), "f": f, "p_value": stats.f.sf(f, k - first, use), "loglik": loglik, "aic": 2 * k - 2 * loglik,
        "bic": np.log(n) * k - 2 * loglik, "cond": np.linalg.cond(A),
    }


def same(found, want):
    for key, value in want.items():
        np.testing.assert_allclose(number(np.atleast_1d(np.array(found[key], object))), np.atleast_1d(value), rtol=2e-9, err_msg=key)


CASES = [
    ({}, {}),
    ({"intercept": False}, {"intercept": False}),
    *[({"robust": kind}, {"robust": kind}) for kind in ("HC0", "HC1", "HC2", "HC3")],
    ({"cluster": "x5"}, {"clusters": 5}),
    ({"weights": "x4"}, {"w": 4}),
    ({"weights": "x4", "robust": "HC3", "intercept": False}, {"w": 4, "robust": "HC3", "intercept": False}),
]


@pytest.mark.parametrize("keys, how", CASES)
def test_every_number(db, keys, how):
    rng = np.random.default_rng(len(str(keys)))
    X = rng.normal(size=(700, 3)) + 1
    y = X @ [1, -2, 0.1] + 3 + rng.normal(size=700) * (1 + X[:, 0] ** 2)
    w, g = rng.uniform(0.1, 3, 700), rng.integers(0, 9, 700)
    fill(db, [y, *X.T, w, g.astype(float)])
    names = ["y", "x1", "x2", "x3"] + (["x4"] if "w" in how else ["x5"] if "clusters" in how else [])
    if "clusters" in how:
        keys = {"cluster": "x4"}
    call = f"gx_lm({', '.join(names)}, {options(**keys)})"
    want = expected(X, y, how.get("intercept", True), w if "w" in how else None, how.get("robust", "none"), g if "clusters" in how else None)
    same(terms(db, call), want[0])
    same(model(db, call), want[1])


def test_ridge(db):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(50, 4)) + 2
    y = X @ [1, 2, 3, 4] + rng.normal(size=50)
    names = fill(db, [y, *X.T])
    centred = X - X.mean(0)
    b = np.linalg.solve(centred.T @ centred + 7 * np.eye(4), centred.T @ (y - y.mean()))
    found = terms(db, f"gx_lm({names}, {options(ridge=7)})")
    np.testing.assert_allclose(found["estimate"], np.r_[y.mean() - X.mean(0) @ b, b], rtol=1e-11)
    assert np.isnan(found["std_error"]).all()
    rss = ((y - y.mean() - centred @ b) ** 2).sum()
    assert model(db, f"gx_lm({names}, {options(ridge=7)})")["r2"] == pytest.approx(1 - rss / ((y - y.mean()) ** 2).sum(), rel=1e-11)


def test_groups_are_each_alone(db):
    rng = np.random.default_rng(6)
    columns = [rng.normal(size=900) for _ in range(4)] + [rng.integers(0, 40, 900).astype(float)]
    fill(db, columns)
    together = dict(db.execute("SELECT x4, gx_lm(y, x1, x2, x3) FROM t GROUP BY x4").fetchall())
    assert len(together) == 40
    for g, found in together.items():
        assert q(db, "SELECT gx_lm(y, x1, x2, x3) FROM t WHERE x4 = ?", g) == found
        pick = columns[4] == g
        if pick.sum() > 6:
            want = expected(np.column_stack(columns[1:4])[pick], columns[0][pick])[0]["estimate"]
            np.testing.assert_allclose(number([q(db, "SELECT gx_coef(?, ?)", found, t) for t in ("(Intercept)", "x1", "x2", "x3")]), want, rtol=1e-8)


@pytest.mark.parametrize("n, k, memory", [(5000, 7, "64MB"), (3000, 40, "6MB"), (900, 350, "64MB"), (40, 3, "64MB")])
def test_stored_matrices(filedb, n, k, memory):
    """The same model as of the rows: by the triangle of a narrow matrix, or by passes (wide, weights, robust, general)."""
    q(filedb, "SELECT gx_config('tile_bytes', 32768)")
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, k)) + 0.5
    y = X[:, :3] @ [1, 2, 3] + rng.normal(size=n)
    w = rng.uniform(0.5, 2, n)
    for name, array in (("X", X), ("y", y[:, None]), ("w", w[:, None]), ("b", (y > y.mean())[:, None] * 1.0)):
        q(filedb, "SELECT gx_store(?, ?)", name, from_numpy(array))
    q(filedb, "SELECT gx_config('memory_limit', ?)", memory)
    for keys, how in (({}, {}), ({"weights": "w"}, {"w": w}), ({"robust": "HC3", "intercept": False}, {"robust": "HC3", "intercept": False})):
        call = f"gx_lm_fit('X', 'y', {options(**keys)})"
        want = expected(X, y, **how)
        same(terms(filedb, call, "(SELECT 1)"), want[0])
        same(model(filedb, call, "(SELECT 1)"), want[1])
    if k < 40:
        fill(filedb, [(y > y.mean()) * 1.0, *X[:, :3].T])
        q(filedb, "SELECT gx_slice('X', 0, ?, 0, 3, 'X3')", n)
        rows = terms(filedb, "gx_glm(y, x1, x2, x3)") if n > 100 else terms(filedb, "gx_glm(y, x1)")
        q(filedb, "SELECT gx_slice('X', 0, ?, 0, 1, 'X1')", n)
        found = terms(filedb, f"gx_glm_fit('{'X3' if n > 100 else 'X1'}', 'b')", "(SELECT 1)")
        np.testing.assert_allclose(found["estimate"], rows["estimate"], rtol=1e-8)
        np.testing.assert_allclose(found["std_error"], rows["std_error"], rtol=1e-7)


def test_stored_dtypes_and_refusals(db):
    rng = np.random.default_rng(1)
    X = rng.integers(-50, 50, size=(200, 3)).astype(float)
    y = X @ [1, 2, 3] + rng.normal(size=200)
    q(db, "SELECT gx_store('X', ?, '{\"dtype\":\"i8\"}')", from_numpy(X))
    q(db, "SELECT gx_store('y', ?)", from_numpy(y[:, None]))
    same(terms(db, "gx_lm_fit('X', 'y', '{\"names\":[\"a\",\"b\",\"c\"]}')", "(SELECT 1)"), expected(X, y)[0])
    assert error(db, "SELECT gx_lm_fit('X', '[[1,2]]')") == "gx_lm_fit: y is 1x2, and X has 200 rows"
    assert "option \"names\" has 2 names for 3 columns" in error(db, "SELECT gx_lm_fit('X', 'y', '{\"names\":[\"a\",\"b\"]}')")
    q(db, "SELECT gx_store('y', ?, '{\"replace\":true}')", from_numpy(np.r_[y[:-1], np.nan][:, None]))
    assert "NaN" in error(db, "SELECT gx_lm_fit('X', 'y')")
    q(db, "SELECT gx_store('w', gx_ones(200, 1))")
    assert "row 199 has NaN" in error(db, "SELECT gx_lm_fit('X', 'y', '{\"weights\":\"w\"}')")
    assert "y must be between 0 and 1 here" in error(db, "SELECT gx_glm_fit('[1,2,3]', '[0,1,7]')")
    assert "complex" in error(db, "SELECT gx_lm_fit('[[\"1+2i\"],[2]]', '[1,2]')")


# Categories


def test_categories_are_dummies(db):
    rng = np.random.default_rng(2)
    n = 400
    x, c = rng.normal(size=n), np.array(["pear", "apple", "fig", "kiwi"])[rng.integers(0, 4, n)]
    c[:150] = np.where(c[:150] == "kiwi", "fig", c[:150])  # comes late: after rows were folded
    y = 2 * x + (c == "fig") * 3 - (c == "pear") + rng.normal(size=n)
    fill(db, [y, x, c])
    dummies = np.column_stack([x, c == "fig", c == "kiwi", c == "pear"]).astype(float)
    found = terms(db, "gx_lm(y, x1, x2)")
    assert found["term"] == ["(Intercept)", "x1", "x2=fig", "x2=kiwi", "x2=pear"]
    want = expected(dummies, y)
    same(found, want[0])
    same(model(db, "gx_lm(y, x1, x2)"), want[1])
    found = terms(db, "gx_lm(y, x2, x1, '{\"intercept\":false,\"names\":[\"fruit\",\"x\"]}')")
    assert found["term"] == ["fruit=apple", "fruit=fig", "fruit=kiwi", "fruit=pear", "x"]
    same(found, {"estimate": expected(np.column_stack([c == "apple", dummies[:, 1:], x]).astype(float), y, False)[0]["estimate"]})
    assert q(db, "SELECT gx_predict(gx_lm(y, x1, x2), 1.5, 'fig') FROM t") == pytest.approx(want[0]["estimate"] @ [1, 1.5, 1, 0, 0], rel=1e-9)
    assert "x2 has no level 'plum'" in error(db, "SELECT gx_predict(gx_lm(y, x1, x2), 1.5, 'plum') FROM t")
    anova = table(db, "gx_lm_anova", "SELECT gx_lm(y, x1, x2) AS m FROM t")
    rss = [((y - A @ np.linalg.lstsq(A, y, rcond=None)[0]) ** 2).sum()
           for A in (np.ones((n, 1)), np.column_stack([np.ones(n), x]), np.column_stack([np.ones(n), dummies]))]
    np.testing.assert_allclose([row["sum_sq"] for row in anova], [rss[0] - rss[1], rss[1] - rss[2], rss[2]], rtol=1e-9)
    assert [(row["term"], row["df"]) for row in anova] == [("x1", 1), ("x2", 3), ("Residuals", 395)]
    f = (rss[1] - rss[2]) / 3 / (rss[2] / 395)
    assert anova[1]["p_value"] == pytest.approx(stats.f.sf(f, 3, 395), rel=1e-8)


def test_numbers_as_levels(db):
    fill(db, [np.array([1.0, 2, 3, 4, 5, 7]), [10, 9, 10, 9, 100, 100]])
    found = terms(db, "gx_lm(y, x1, '{\"categorical\":[\"x1\"]}')")
    assert found["term"] == ["(Intercept)", "x1=10", "x1=100"]  # in the order of the numbers
    np.testing.assert_allclose(found["estimate"], [3, -1, 3], atol=1e-13)
    db.execute("UPDATE t SET x1 = 'a' WHERE x1 = 10")
    assert "x1 must be a number, not 'a'" in error(db, "SELECT gx_lm(y, x1) FROM (SELECT * FROM t ORDER BY x1)")
    assert "was a text and is now 100: option" in error(db, "SELECT gx_lm(y, x1) FROM (SELECT * FROM t ORDER BY x1 DESC)")


# Generalised models


@pytest.mark.parametrize("family", ["logit", "probit", "poisson"])
@pytest.mark.parametrize("weighted", [False, True])
def test_general_families(db, family, weighted):
    rng = np.random.default_rng(11)
    n = 600
    X = rng.normal(size=(n, 3))
    eta = X @ [0.8, -0.5, 0.1] + 0.2
    mean = {"logit": lambda e: 1 / (1 + np.exp(-e)), "probit": stats.norm.cdf, "poisson": np.exp}[family]
    slope = {"logit": lambda e: mean(e) * (1 - mean(e)), "probit": stats.norm.pdf, "poisson": np.exp}[family]
    y = (rng.poisson(mean(eta)) if family == "poisson" else rng.uniform(size=n) < mean(eta)).astype(float)
    w = rng.uniform(0.2, 2, n) if weighted else np.ones(n)
    fill(db, [y, *X.T, w])
    call = f"gx_glm(y, x1, x2, x3{', x4' if weighted else ''}, {options(family=family, **({'weights': 'x4'} if weighted else {}))})"
    found, about = terms(db, call), model(db, call)
    C = np.column_stack([np.ones(n), X])
    mu, d = mean(C @ found["estimate"]), slope(C @ found["estimate"])
    variance = mu if family == "poisson" else mu * (1 - mu)
    score = C.T @ (w * (y - mu) * d / variance)
    assert np.abs(score).max() < 1e-8 * n
    information = C.T @ (C * (w * d**2 / variance)[:, None])
    se = np.sqrt(np.diag(np.linalg.inv(information)))
    same(found, {"std_error": se, "p_value": 2 * stats.norm.sf(np.abs(found["estimate"] / se)),
                 "ci_high": found["estimate"] + stats.norm.isf(0.025) * se})
    with np.errstate(divide="ignore", invalid="ignore"):
        if family == "poisson":
            loglik = lambda m: (w * stats.poisson.logpmf(y, m)).sum()
            best = (w * np.where(y > 0, stats.poisson.logpmf(y, y), 0)).sum()
        else:
            loglik = lambda m: (w * np.where(y > 0, np.log(m), np.log1p(-m))).sum()
            best = 0
    null = loglik(np.full(n, (w @ y) / w.sum()))
    same(about, {"loglik": loglik(mu), "deviance": 2 * (best - loglik(mu)), "null_deviance": 2 * (best - null),
                 "pseudo_r2": 1 - loglik(mu) / null, "aic": 8 - 2 * loglik(mu), "n": n, "df": n - 4})
    assert about["note"] is None and about["r2"] is None
    assert q(db, f"SELECT gx_predict({call}, 0.1, 0.2, 0.3) FROM t") == pytest.approx(mean(found["estimate"] @ [1, 0.1, 0.2, 0.3]), rel=1e-12)
    assert "plain least squares" in error(db, f"SELECT * FROM (SELECT {call} AS m FROM t), gx_lm_anova(m)")


def test_separation_is_told(db):
    fill(db, [np.array([0.0, 0, 0, 1, 1, 1]), np.arange(6.0)])
    assert "no finite" in model(db, "gx_glm(y, x1)")["note"]
    fill(db, [np.array([0.0, 0, 1, 0, 1, 1, 1, 1]), [0, 0, 0, 0, 0, 1, 1, 1]])  # quasi: x1 = 1 is always 1
    assert "no finite" in model(db, "gx_glm(y, x1)")["note"]
    assert "y must be between 0 and 1 here, not 3" in error(db, "SELECT gx_glm(3, 1)")
    assert "y must be at least 0 here, not -1" in error(db, "SELECT gx_glm(-1, 1, '{\"family\":\"poisson\"}')")


# What has no answer


def test_collinear_and_constant_columns(db):
    rng = np.random.default_rng(3)
    x = rng.normal(size=60)
    y = x + rng.normal(size=60)
    fill(db, [y, x, 3 * x - 1, np.full(60, 0.1), rng.normal(size=60)])
    found = terms(db, "gx_lm(y, x1, x2, x3, x4)")
    assert list(np.isnan(found["estimate"])) == [False, False, True, True, False]
    alone = terms(db, "gx_lm(y, x1, x4)")
    for name in TERMS:
        np.testing.assert_allclose(found[name][[0, 1, 4]], alone[name], rtol=1e-9)
    about = model(db, "gx_lm(y, x1, x2, x3, x4)")
    assert about["df"] == 57 and "2 of 5 terms are linear combinations" in about["note"] and about["note"].endswith("x2")
    assert q(db, "SELECT gx_predict(gx_lm(y, x1, x2, x3, x4), 1, 2, 3, 4) FROM t") == pytest.approx(alone["estimate"] @ [1, 1, 4], rel=1e-9)
    robust = terms(db, f"gx_lm(y, x1, x2, x3, x4, {options(robust='HC3')})")
    np.testing.assert_allclose(robust["std_error"][[0, 1, 4]], terms(db, f"gx_lm(y, x1, x4, {options(robust='HC3')})")["std_error"], rtol=1e-9)


def test_few_rows(db):
    assert q(db, "SELECT gx_lm(1, 2) WHERE 0") is None
    fill(db, [np.array([1.0, 2]), [3.0, 5]])
    for call, rows, estimates in (("gx_lm(y, x1)", "LIMIT 1", [1, None]), ("gx_lm(y, x1)", "", [-0.5, 0.5]), ("gx_lm(y, x1, x1*x1, 7)", "", [-0.5, 0.5, None, None])):
        source = f"(SELECT * FROM t {rows})"
        found, about = terms(db, call, source), model(db, call, source)
        np.testing.assert_allclose(found["estimate"], number(estimates), atol=1e-14)
        assert np.isnan(found["std_error"]).all() and about["sigma"] is None and about["f"] is None and about["note"]
    fill(db, [np.array([4.0, 4, 4, 4]), [1.0, 2, 3, 5]])
    about = model(db, "gx_lm(y, x1)")
    assert (about["r2"], about["note"]) == (None, "y is constant")
    assert model(db, "gx_lm(y)")["df"] == 3 and terms(db, "gx_lm(y)")["estimate"] == [4]


def test_nulls_are_skipped_counted_or_refused(db):
    fill(db, [[1.0, 2, None, 4, 5], [2.0, 3, 4, None, 9], ["a", "b", "a", "b", "a"]])
    about = model(db, "gx_lm(y, x1)")
    assert (about["n"], about["n_missing"]) == (3, 2)
    assert error(db, "SELECT gx_lm(y, x1, '{\"missing\":\"error\"}') FROM t") == \
        "gx_lm: the row has a NULL, and option \"missing\" is \"error\" (input row 3)"
    assert q(db, "SELECT gx_lm(y, NULL) FROM t") is None
    assert q(db, "SELECT coalesce(gx_coef(NULL), gx_predict(NULL, 1))") is None
    assert db.execute("SELECT * FROM gx_lm_terms(NULL)").fetchall() == []


@pytest.mark.parametrize("call, words", [
    ("gx_lm(1, 9e999)", "x1 is infinite (input row 1)"),
    ("gx_lm('A', 1)", "y must be a number, not 'A'"),
    ("gx_lm(1, x'00')", "x1 must be a number"),
    ("gx_lm()", "at least 1"),
    ("gx_lm(1, 2, '{\"weights\":\"w\"}')", "no column is called 'w' (they are x1, x2, ...; option \"names\" calls them)"),
    ("gx_lm(1, 2, 3, '{\"names\":[\"a\"]}')", "option \"names\" has 1 names for 2 columns"),
    ("gx_lm(1, 2, 3, '{\"weights\":\"x1\",\"cluster\":\"x1\"}')", "column 'x1' has two parts to play"),
    ("gx_lm(1, 2, 3, '{\"cluster\":\"x1\",\"robust\":\"HC1\"}')", "not by both"),
    ("gx_lm(1, 2, '{\"ridge\":1,\"robust\":\"HC1\"}')", "no standard errors with \"ridge\""),
    ("gx_lm(1, -2, '{\"weights\":\"x1\"}')", "a weight is negative: -2"),
    ("gx_lm(1, 2, '{\"robust\":\"HC9\"}')", "HC9"),
    ("gx_lm(1, 2, '{\"rigde\":1}')", "rigde"),
    ("gx_coef('A')", "model must be what gx_lm or its like made, not 'A'"),
    ("gx_coef(x'0102')", "this is no model"),
    ("gx_coef(gx_lm(1, 2), 'x7')", "the model has no term 'x7'"),
    ("gx_predict(gx_lm(1, 2), 1, 2)", "the model has 1 arguments behind y, not 2"),
])
def test_refusals(db, call, words):
    assert words in error(db, f"SELECT {call}")


def test_windows(db):
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=80), rng.normal(size=80)
    fill(db, [y, x])
    grown = db.execute("SELECT gx_coef(gx_lm(y, x1) OVER (ORDER BY rowid), 'x1') FROM t").fetchall()
    assert grown[59][0] == pytest.approx(np.polyfit(x[:60], y[:60], 1)[0], rel=1e-9)
    sql = "SELECT gx_coef(gx_lm(y, x1, '{\"window\":true}') OVER (ORDER BY rowid ROWS 9 PRECEDING), 'x1') FROM t"
    for k, (found,) in enumerate(db.execute(sql).fetchall()):
        if k >= 9:
            assert found == pytest.approx(np.polyfit(x[k - 9 : k + 1], y[k - 9 : k + 1], 1)[0], rel=1e-8)
    assert "option \"window\": true" in error(db, "SELECT gx_lm(y, x1) OVER (ORDER BY rowid ROWS 9 PRECEDING) FROM t")


def test_forged_models(db):
    """Any byte changed, cut or added: an answer or words, never a crash."""
    fill(db, [np.arange(9.0) ** 2, np.arange(9.0), list("abcabcabc")])
    whole = [q(db, f"SELECT gx_lm(y, x1, x2{extra}) FROM t") for extra in ("", ", '{\"robust\":\"HC2\"}'")]
    whole.append(q(db, "SELECT gx_glm(y > 20, x1) FROM t"))
    dice = random.Random(4)
    db.text_factory = bytes
    for _ in range(1500):
        forged = bytearray(dice.choice(whole))
        for _ in range(dice.choice([1, 1, 2, 8])):
            forged[dice.randrange(len(forged) if dice.random() < 0.3 else 120)] = dice.choice([0, 1, 127, 128, 255, dice.randrange(256)])
        forged = bytes(forged[: dice.choice([len(forged)] * 5 + [dice.randrange(len(forged))])])
        for sql in ("SELECT gx_coef(?)", "SELECT gx_predict(?, 1, 'a')", "SELECT * FROM gx_lm_terms(?)", "SELECT * FROM gx_lm_model(?)",
                    "SELECT * FROM gx_lm_anova(?)"):
            try:
                db.execute(sql, [forged]).fetchall()
            except sqlite3.Error as problem:
                assert "gx_" in str(problem)


def test_memory_limit_is_kept(db):
    q(db, "SELECT gx_config('tile_bytes', 65536)")
    q(db, "SELECT gx_config('memory_limit', '4MB')")
    rows = "FROM (WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 200000) SELECT i % 97 AS y, i % 89 AS x FROM r)"
    assert q(db, f"SELECT gx_coef(gx_lm(y, x), 'x1') {rows}") is not None
    assert "memory_limit" in error(db, f"SELECT gx_lm(y, x, '{{\"robust\":\"HC1\"}}') {rows}")
