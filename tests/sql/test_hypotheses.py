"""Tests of hypotheses against scipy.stats.

Plan:
  1  Random samples, many in one GROUP BY: small, tied, skewed, far from 0; every alternative; statistic, df, p-value, effect,
     interval; exact distributions where SciPy takes them.  Large samples, where it takes approximations.
  2  Where this SciPy is known to be wrong or coarse: signed ranks with ties, W in single precision, against numbers of a later one.
  3  Numbers that do not exist: NULL with a reason.  Numbers that no p-value could be true of: refused to the letter.
  4  Labels of every type; NULL rows; options; the result as JSON and as a row; the order of rows does not matter.
  5  Memory within its limit; a long group can be interrupted.
"""
import json
import math
import random
import threading
import time

import numpy as np
import pytest
from scipy import stats

from conftest import error, q

SAMPLES = 1000
SIDES = ("two-sided", "less", "greater")


def samples(seed, count=SAMPLES, least=1, most=60):
    """x, y, group and category of rows, many times: sizes mostly small, values of several kinds."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        n = int(rng.integers(least, max(13, least + 1) if k % 3 else most))
        x, y = {0: lambda: rng.standard_normal((2, n)),
                1: lambda: rng.integers(0, 5, (2, n)).astype(float),
                2: lambda: np.exp(2 * rng.standard_normal((2, n))),
                3: lambda: 1000 + rng.standard_normal((2, n)),
                4: lambda: np.round(rng.standard_normal((2, n)), 1)}[k % 5]()
        if k % 4 == 0:
            y = y + x
        yield x, y, rng.integers(0, 2, n), rng.integers(0, 4, n)


def tell(db, call, drawn):
    """The results of one call, a group for each of the samples, in their order."""
    db.execute("CREATE TEMP TABLE IF NOT EXISTS s (id, x, y, g, h)")
    db.execute("DELETE FROM s")
    for k, (x, y, g, h) in enumerate(drawn):
        db.executemany("INSERT INTO s VALUES (?,?,?,?,?)",
                       [(k, *row) for row in zip(x.tolist(), y.tolist(), g.tolist(), h.tolist())])
    return [json.loads(r) for (r,) in db.execute(f"SELECT {call} FROM s GROUP BY id ORDER BY id")]


def near(got, want, what, tolerance=1e-10):
    assert got is not None and abs(got - want) <= max(tolerance * abs(want), 1e-15), (what, got, want)


def compare(db, call, drawn, oracle, tolerance=1e-10, least=0.5):
    """oracle(x, y, g, h): what the result's keys should be; None: no p-value."""
    drawn = list(drawn)
    known = 0
    for k, (sample, got) in enumerate(zip(drawn, tell(db, call, drawn))):
        want = oracle(*sample)
        if want is None or not np.isfinite(want["p_value"]):
            assert got["p_value"] is None and got["note"], (k, sample, got)
            continue
        known += 1
        for key, value in want.items():
            if isinstance(value, str):
                assert value in got[key], (k, key, got)
            elif value is None:
                assert got[key] is None, (k, key, got)
            else:
                scale = max(1, 1 / abs(value)) if key[:3] == "ci_" and value else 1  # estimate and width cancel
                near(got[key], value, (call, k, key, sample), tolerance * scale)
        assert got["n"] == len(sample[0]) and got["n_missing"] == 0
    assert known >= least * len(drawn), f"{known} of {len(drawn)} samples have a p-value"


def call_of(name, arguments, **options):
    return f"gx_{name}({arguments}, '{json.dumps(options)}')"


def parts(x, g, count=2):
    return [x[g == k] for k in range(count) if (g == k).any()]


def is_constant(x):
    return len(x) == 0 or (x == x[0]).all()


# 1 ------------------------------------------------------------------------------------------------


def interval(side, estimate, error_, df, confidence=0.95):
    tail = (1 - confidence) / 2 if side == "two-sided" else 1 - confidence
    width = stats.t.isf(tail, df)  # of ten digits in SciPy 1.10: one step of Newton's
    width = (width + (stats.t.sf(width, df) - tail) / stats.t.pdf(width, df)) * error_
    return {"ci_low": None if side == "less" else estimate - width, "ci_high": None if side == "greater" else estimate + width}


@pytest.mark.parametrize("side", SIDES)
def test_t_one(db, side):
    def oracle(x, y, g, h, mu=0.25, confidence=0.9):
        if is_constant(x):
            return None
        t = stats.ttest_1samp(x, mu, alternative=side)
        return {"statistic": t.statistic, "p_value": t.pvalue, "df": t.df, "estimate": x.mean(),
                "effect": (x.mean() - mu) / x.std(ddof=1), **interval(side, x.mean(), stats.sem(x), t.df, confidence)}

    compare(db, call_of("t_test", "x", mu=0.25, alternative=side, confidence=0.9), samples(1), oracle)


@pytest.mark.parametrize("side", SIDES)
def test_t_paired(db, side):
    def oracle(x, y, g, h):
        d = x - y
        if len(d) < 2 or d.std() <= 1e-15 * abs(x).max():
            return None
        t = stats.ttest_rel(x, y, alternative=side)
        return {"statistic": t.statistic, "p_value": t.pvalue, "df": t.df, "effect": d.mean() / d.std(ddof=1), "method": "paired",
                **interval(side, d.mean(), stats.sem(d), t.df)}

    compare(db, call_of("t_test", "x, y", paired=True, alternative=side), samples(2), oracle)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("equal_var", [False, True])
def test_t_two(db, side, equal_var):
    def oracle(x, y, g, h):
        both = parts(x, g)
        if len(both) < 2 or all(map(is_constant, both)) or (not equal_var and min(map(len, both)) < 2):
            return None
        a, b = both
        t = stats.ttest_ind(a, b, equal_var=equal_var, alternative=side)
        n, m, va, vb = len(a), len(b), a.var() * len(a), b.var() * len(b)
        pooled = (va + vb) / (n + m - 2)
        estimate = a.mean() - b.mean()
        if equal_var:
            df, see = n + m - 2, math.sqrt(pooled * (1 / n + 1 / m))
        else:
            u, v = va / (n - 1) / n, vb / (m - 1) / m
            df, see = (u + v) ** 2 / (u**2 / (n - 1) + v**2 / (m - 1)), math.sqrt(u + v)
        p = t.pvalue
        if equal_var and min(n, m) == 1:  # which SciPy 1.10 does not compute
            p = {"two-sided": 2 * stats.t.sf(abs(estimate / see), df), "less": stats.t.cdf(estimate / see, df),
                 "greater": stats.t.sf(estimate / see, df)}[side]
        return {"statistic": estimate / see, "p_value": p, "df": df, "effect": estimate / math.sqrt(pooled),
                **interval(side, estimate, see, df)}

    compare(db, call_of("t_test", "x, g", equal_var=equal_var, alternative=side), samples(3), oracle)


def test_anova(db):
    def oracle(x, y, g, h):
        groups = parts(x, h, 4)
        if len(groups) < 2 or all(map(is_constant, groups)):
            return None
        f = stats.f_oneway(*groups)
        between = sum(len(p) * (p.mean() - x.mean()) ** 2 for p in groups)
        return {"statistic": f.statistic, "p_value": f.pvalue, "df": len(groups) - 1, "df2": len(x) - len(groups),
                "effect": between / ((x - x.mean()) ** 2).sum()}

    drawn = [s for s in samples(4, least=3) if s[0].mean() < 900]  # SciPy subtracts there what cancels
    compare(db, "gx_anova(x, h)", drawn, oracle, 1e-9)


@pytest.mark.parametrize("center", ["median", "mean"])
def test_levene(db, center):
    def oracle(x, y, g, h):
        groups = parts(x, h, 4)
        if len(groups) < 2 or len(groups) == len(x):
            return None
        apart = [abs(p - getattr(np, center)(p)) for p in groups]
        if all((z.max() - z.min() <= 4e-15 * abs(x).max()) for z in apart):
            return None
        w = stats.levene(*groups, center=center)
        return {"statistic": w.statistic, "p_value": w.pvalue, "df": len(groups) - 1, "df2": len(x) - len(groups), "effect": None}

    compare(db, call_of("levene", "x, h", center=center), samples(5, least=3), oracle, 1e-9)


def test_jarque_bera(db):
    def oracle(x, y, g, h):
        if is_constant(x):
            return None
        j = stats.jarque_bera(x)
        return {"statistic": j.statistic, "p_value": j.pvalue, "df": 2}

    compare(db, "gx_jarque_bera(x)", samples(6), oracle)


@pytest.mark.parametrize("correction", [True, False])
@pytest.mark.parametrize("columns", [2, 4])
def test_chi2(db, columns, correction):
    def oracle(x, y, g, h):
        table = stats.contingency.crosstab(g, h if columns == 4 else h % 2).count
        if 1 in table.shape:
            return None
        c = stats.chi2_contingency(table, correction=correction)
        v = stats.contingency.association(table, method="cramer")
        return {"statistic": c.statistic, "p_value": c.pvalue, "df": c.dof, "effect": v, "method": "chi-squared"}

    call = call_of("chi2_test", "g, h" if columns == 4 else "g, h % 2", correction=correction)
    compare(db, call, samples(7), oracle, 1e-10)


def test_chi2_large(db):
    """Many labels, of which few pairs occur: cells that are not there count too."""
    rng = np.random.default_rng(1)
    a = rng.integers(0, 300, 5000)
    b = np.where(rng.random(5000) < 0.7, a, rng.integers(0, 400, 5000))
    db.execute("CREATE TABLE c (a, b)")
    db.executemany("INSERT INTO c VALUES (?,?)", [(f"label {i}", j / 2) for i, j in zip(a.tolist(), b.tolist())])
    got = json.loads(q(db, "SELECT gx_chi2_test(a, b) FROM c"))
    want = stats.chi2_contingency(stats.contingency.crosstab(a, b).count)
    near(got["statistic"], want.statistic, "statistic")
    assert got["df"] == want.dof and got["rows"] == len(set(a)) and got["columns"] == len(set(b))


@pytest.mark.parametrize("ddof", [0, 1])
def test_chi2_gof(db, ddof):
    def oracle(x, y, g, h):
        if len(x) < 2 + ddof:
            return None
        c = stats.chisquare(g + 3 * h + 1, ddof=ddof)
        return {"statistic": c.statistic, "p_value": c.pvalue, "df": len(x) - 1 - ddof, "total": (g + 3 * h + 1).sum()}

    compare(db, call_of("chi2_gof", "g + 3 * h + 1", ddof=ddof), samples(8), oracle)
    db.execute("CREATE TABLE o (observed, expected)")
    db.executemany("INSERT INTO o VALUES (?,?)", [(16, 15.5), (18, 20.0), (16, 13.25), (14, 12.0), (0, 3.25)])
    got = json.loads(q(db, "SELECT gx_chi2_gof(observed, expected) FROM o"))
    near(got["p_value"], stats.chisquare([16, 18, 16, 14, 0], [15.5, 20, 13.25, 12, 3.25]).pvalue, "given")


@pytest.mark.parametrize("side", SIDES)
def test_pearson(db, side):
    def oracle(x, y, g, h):
        if is_constant(x) or is_constant(y):
            return None
        r = stats.pearsonr(x, y, alternative=side)
        if abs(r.statistic) > 1 - 1e-9:  # two rows, or all but in line: what is left is rounding
            return {"statistic": r.statistic, "p_value": 1.0} if len(x) == 2 else {"statistic": r.statistic, "p_value": r.pvalue}
        low, high = r.confidence_interval(0.9)
        return {"statistic": r.statistic, "p_value": r.pvalue, "ci_low": low, "ci_high": high, "df": len(x) - 2}

    drawn = [s for s in samples(9) if s[0].mean() < 900]
    compare(db, call_of("corr_test", "x, y", alternative=side, confidence=0.9), drawn, oracle, 1e-9)


@pytest.mark.parametrize("side", SIDES)
def test_spearman(db, side):
    def oracle(x, y, g, h):
        if is_constant(x) or is_constant(y) or len(x) == 2:
            return None
        r = stats.spearmanr(x, y, alternative=side)
        if abs(r.statistic) > 1 - 1e-12:
            return {"statistic": round(r.statistic), "p_value": round(r.pvalue), "note": "agree"}
        if abs(r.statistic) < 1e-12:
            return {"p_value": round(r.pvalue, 12)}
        return {"statistic": r.statistic, "p_value": r.pvalue, "ci_low": None}

    compare(db, call_of("corr_test", "x, y", alternative=side, method="spearman"), samples(10), oracle)


@pytest.mark.parametrize("side", SIDES)
def test_kendall(db, side):
    def oracle(x, y, g, h):
        if is_constant(x) or is_constant(y):
            return None
        t = stats.kendalltau(x, y, alternative=side)
        return {"statistic": t.statistic, "p_value": t.pvalue, "df": None}

    compare(db, call_of("corr_test", "x, y", alternative=side, method="kendall"), samples(11), oracle)


@pytest.mark.parametrize("correction", [True, False])
@pytest.mark.parametrize("side", SIDES)
def test_mann_whitney(db, side, correction):
    def oracle(x, y, g, h):
        both = parts(x, g)
        if len(both) < 2 or is_constant(x):
            return None
        u = stats.mannwhitneyu(*both, alternative=side, use_continuity=correction)
        return {"statistic": u.statistic, "p_value": u.pvalue, "effect": 2 * u.statistic / len(both[0]) / len(both[1]) - 1}

    drawn = [s for s in samples(12, SAMPLES // 2) if not (is_constant(s[0]) and len(s[0]) > 1)]
    drawn += list(samples(12, 20, 30, 120))
    compare(db, call_of("mann_whitney", "x, g", alternative=side, correction=correction), drawn, oracle)


@pytest.mark.parametrize("correction", [True, False])
@pytest.mark.parametrize("side", SIDES)
def test_wilcoxon(db, side, correction):
    def oracle(x, y, g, h):
        d = x - y
        if not d.any():
            return None
        has_ties = len(set(abs(d))) < len(d) or not d.all()
        w = stats.wilcoxon(d, alternative=side, correction=correction,
                           method="approx" if has_ties or len(d) > 50 else "exact")  # SciPy 1.10 takes ties for ranks
        ranks = stats.rankdata(abs(d[d != 0]))
        return {"statistic": w.statistic, "p_value": w.pvalue, "n_zero": (d == 0).sum(),
                "effect": (ranks[d[d != 0] > 0].sum() - ranks[d[d != 0] < 0].sum()) / ranks.sum()}

    compare(db, call_of("wilcoxon", "x, y", alternative=side, correction=correction), samples(13), oracle)
    compare(db, call_of("wilcoxon", "x - y", alternative=side, correction=correction), samples(13, 100), oracle)


def test_kruskal(db):
    def oracle(x, y, g, h):
        groups = parts(x, h, 4)
        if len(groups) < 2 or is_constant(x):
            return None
        k = stats.kruskal(*groups)
        return {"p_value": k.pvalue, "df": len(groups) - 1} | ({"statistic": k.statistic} if k.statistic > 1e-9 else {})

    compare(db, "gx_kruskal(x, h)", samples(14), oracle)


@pytest.mark.parametrize("side", SIDES)
def test_ks_two(db, side):
    def oracle(x, y, g, h):
        both = parts(x, g)
        if len(both) < 2:
            return None
        k = stats.ks_2samp(*both, alternative=side)
        return {"statistic": k.statistic, "p_value": k.pvalue, "method": "exact"}

    compare(db, call_of("ks_test", "x, g", alternative=side), samples(15), oracle)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name, given, cdf", [
    ("normal", "0.25, 1.5", stats.norm(0.25, 1.5).cdf), ("t", "3", stats.t(3).cdf), ("gamma", "1.5", stats.gamma(1.5).cdf)])
def test_ks_one(db, name, given, cdf, side):
    def oracle(x, y, g, h):
        k = stats.kstest(x, cdf, alternative=side)
        return {"statistic": k.statistic, "p_value": k.pvalue}

    compare(db, call_of("ks_test", f"x, '{name}', {given}", alternative=side), samples(16, SAMPLES // 2, most=200), oracle)


@pytest.mark.parametrize("n", [100, 139, 140, 141, 200, 1000, 3000])
def test_kolmogorov(db, n):
    """Every part of the distribution, which small samples do not come to."""
    rng = np.random.default_rng(n)
    drawn = []
    for z in (0.05, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.46, 1.5, 2.1, 3.0, 5.0, 12.0):
        d = z / math.sqrt(n)
        x = np.clip((np.arange(n) + 0.5) / n, 0, 1 - d) if d < 1 else np.full(n, 0.25)  # D is about d
        drawn.append((x, x, np.zeros(n, int), np.zeros(n, int)))
    drawn.append((np.sort(rng.random(n)),) * 2 + drawn[0][2:])

    def oracle(x, y, g, h):
        k = stats.kstest(x, "uniform")
        return {"statistic": k.statistic, "p_value": k.pvalue}

    compare(db, "gx_ks_test(x, 'beta', 1, 1)", drawn, oracle)


def test_large(db):
    """Sizes from which SciPy approximates: U, tau, signed ranks, two samples with more than 10000 rows."""
    rng = np.random.default_rng(3)
    n = 25000
    x, y, g = rng.standard_normal(n), rng.standard_normal(n), (rng.random(n) < 0.45).astype(int)
    y, x = y + 0.02 * x, x + 0.02 * g
    (got,) = tell(db, "json_array(" + ", ".join([
        "gx_mann_whitney(x, g)", "gx_wilcoxon(x, y)", "gx_corr_test(x, y, '{\"method\":\"kendall\"}')", "gx_kruskal(x, h)",
        "gx_ks_test(x, g)", "gx_ks_test(x, g, '{\"alternative\":\"less\"}')", "gx_ks_test(x, 'normal', 0, 1)"]) + ")",
        [(x, y, g, np.arange(n) % 7)])
    want = [stats.mannwhitneyu(x[g == 0], x[g == 1]), stats.wilcoxon(x, y), stats.kendalltau(x, y),
            stats.kruskal(*parts(x, np.arange(n) % 7, 7)), stats.ks_2samp(x[g == 0], x[g == 1]),
            stats.ks_2samp(x[g == 0], x[g == 1], alternative="less"), stats.kstest(x, "norm")]
    for one, (statistic, p) in zip(got, want, strict=True):
        one = json.loads(one) if isinstance(one, str) else one
        near(one["statistic"], statistic, one["method"])
        near(one["p_value"], p, one["method"], 1e-9)


# 2 ------------------------------------------------------------------------------------------------


def test_shapiro(db):
    """SciPy 1.10 computes W in single precision."""
    def oracle(x, y, g, h):
        if len(x) < 3 or is_constant(x):
            return None
        x = x - np.median(x)
        w = stats.shapiro(x)
        return {"statistic": w.statistic, "p_value": w.pvalue}

    drawn = [s for s in samples(17) if s[0].mean() < 900]
    for k, (sample, got) in enumerate(zip(drawn, tell(db, "gx_shapiro(x)", drawn))):
        want = oracle(*sample)
        if want is None:
            assert got["p_value"] is None and got["note"]
            continue
        assert abs(got["statistic"] - want["statistic"]) < 2e-6, (k, sample, got, want)
        assert abs(got["p_value"] - want["p_value"]) < 5e-5, (k, sample, got, want)
