"""Tests of hypotheses against scipy.stats.

Plan:
  1  Random samples, many in one GROUP BY: small, tied, skewed, far from 0; every alternative; statistic, df, p-value, effect,
     interval; exact distributions where SciPy takes them.  Large samples, where it takes approximations.
  2  Where SciPy is coarse: W, in single precision until 1.12, and with normal scores of nine digits since.
  3  Numbers that do not exist: NULL with a reason.  Numbers that no p-value could be true of: refused to the letter.
  4  Labels of every type; NULL rows; options; the result as JSON and as a row; the order of rows does not matter.
  5  Memory within its limit (interruptkit.py interrupts long groups).
"""
import json
import math
import os
import random

import numpy as np
import pytest
import scipy
from scipy import stats

from conftest import error, q

SAMPLES = int(os.environ.get("SAMPLES", 200))  # of each test; 1000 take a minute
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
    """See 2."""
    is_single = tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 12)
    most_w, most_p = (2e-6, 5e-5) if is_single else (2e-9, 1e-7)

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
        assert abs(got["statistic"] - want["statistic"]) < most_w, (k, sample, got, want)
        assert abs(got["p_value"] - want["p_value"]) < most_p, (k, sample, got, want)


# 3 ------------------------------------------------------------------------------------------------

CONSTANT, ONE, NONE = [(5.0, "a"), (5.0, "b"), (5.0, "b")], [(1.0, "a")], [(None, "a"), (2.0, None)]
TWO_GROUPS = ["gx_t_test(x, g)", "gx_mann_whitney(x, g)", "gx_ks_test(x, g)"]
CALLS = TWO_GROUPS + ["gx_t_test(x)", "gx_t_test(x, x + 1, '{\"paired\":true}')", "gx_anova(x, g)", "gx_levene(x, g)", "gx_jarque_bera(x)",
                      "gx_shapiro(x)", "gx_chi2_test(x, g)", "gx_chi2_gof(x)", "gx_corr_test(x, x * x)", "gx_wilcoxon(x - 5)",
                      "gx_corr_test(x, -x, '{\"method\":\"spearman\"}')", "gx_corr_test(x, 2 * x, '{\"method\":\"kendall\"}')", "gx_kruskal(x, g)"]


def told(db, call, rows):
    db.execute("CREATE TEMP TABLE IF NOT EXISTS r (x, g)")
    db.execute("DELETE FROM r")
    db.executemany("INSERT INTO r VALUES (?,?)", rows)
    return json.loads(q(db, f"SELECT {call} FROM r"))


@pytest.mark.parametrize("call", CALLS)
def test_what_does_not_exist(db, call):
    for rows in (CONSTANT, ONE, NONE):
        exists = (call, len(rows)) in [("gx_ks_test(x, g)", 3), ("gx_chi2_gof(x)", 3), ("gx_wilcoxon(x - 5)", 1), ("gx_wilcoxon(x - 5)", 2)]
        got = told(db, call, rows)  # p-values of 1 say nothing, but exist
        assert (got["p_value"] == 1.0) if exists else (got["p_value"] is None and got["note"]), (call, rows, got)
        missing = sum(x is None or (g is None and "g)" in call) for x, g in rows)
        assert (got["n"], got["n_missing"]) == (len(rows) - missing, missing), (call, rows, got)
    assert db.execute(f"SELECT {call} FROM r WHERE 0").fetchall() == [(None,)]


def test_one_group_and_small_samples(db):
    for call in TWO_GROUPS + ["gx_anova(x, g)", "gx_levene(x, g)", "gx_kruskal(x, g)"]:
        got = told(db, call, [(1.0, "a"), (2.0, "a"), (4.0, "a")])
        assert got["p_value"] is None and "fewer than two groups" in got["note"], (call, got)
    for call, rows, note in [
        ("gx_anova(x, g)", [(1.0, 1), (2.0, 2), (3.0, 3)], "every group has one row only, and no variance"),
        ("gx_anova(x, g)", [(1.0, 1), (1.0, 1), (3.0, 3)], "nothing varies within the groups"),
        ("gx_levene(x, g)", [(1.1, 1), (2.3, 1), (4.7, 2), (9.1, 2)], "nothing varies within the groups"),
        ("gx_t_test(x, g, '{\"paired\":true}')", [(0.3, 0.1), (0.5, 0.3), (0.9, 0.7)], "all differences are equal but for rounding"),
        ("gx_shapiro(x)", [(1.0, 1), (2.0, 1)], "fewer than three rows"),
        ("gx_corr_test(x, g, '{\"method\":\"spearman\"}')", [(1.0, 1), (2.0, 2)], "two rows are always in order, up or down"),
        ("gx_wilcoxon(x)", [(0, 1), (0.0, 1)], "no difference is other than 0"),
        ("gx_chi2_gof(x)", [(0, 1), (0, 1)], "nothing was counted"),
        ("gx_chi2_gof(x, '{\"ddof\":1}')", [(1, 1), (3, 1)], "there are too few counts for a degree of freedom"),
        ("gx_chi2_test(x, g)", [(1, 1), (3, 1)], "one of the two has a single value: nothing can depend on it"),
    ]:
        got = told(db, call, rows)
        assert got["p_value"] is None and got["note"] == note, (call, got)
    got = told(db, "gx_corr_test(x, g)", [(1.0, 1), (2.0, 5)])
    assert (got["statistic"], got["p_value"], got["ci_low"], got["ci_high"], got["df"]) == (1.0, 1.0, -1.0, 1.0, None)


def test_refused(db):
    db.execute("CREATE TABLE r (x, g)")
    db.executemany("INSERT INTO r VALUES (?,?)", [(1.0, "a"), (2.5, "b"), (4, "a"), (None, "b")])
    for call, text in [
        ("gx_t_test(g)", "gx_t_test: x must be a number, not 'a' (input row 1)"),
        ("gx_t_test(x * 9e999)", "gx_t_test: x is infinite (input row 1)"),
        ("gx_corr_test(x, iif(x = 4, -9e999, x))", "gx_corr_test: y is infinite (input row 3)"),
        ("gx_t_test(x, x)", "gx_t_test: g has a third value, 4, where two groups are compared (input row 3)"),
        ("gx_mann_whitney(x, x)", "gx_mann_whitney: g has a third value, 4, where two groups are compared (input row 3)"),
        ("gx_ks_test(x, x)", "gx_ks_test: g has a third value, 4, where two groups are compared (input row 3)"),
        ("gx_anova(x, x'00')", "gx_anova: g must be a number or a text, not a blob of 1 bytes (input row 1)"),
        ("gx_chi2_test('a' || char(0), g)", "gx_chi2_test: a has a NUL character in it (input row 1)"),
        ("gx_t_test(x, g, '{\"missing\":\"error\"}')", "gx_t_test: the first argument is NULL (input row 4)"),
        ("gx_t_test(x, g, '{\"confidence\":1}')",
         "gx_t_test: option \"confidence\" must be above 0 and below 1, not 1 (input row 1)"),
        ("gx_t_test(x, '{\"mu\":\"inf\"}')", "gx_t_test: option \"mu\" must be finite (input row 1)"),
        ("gx_t_test(x, '{\"paired\":true}')", "gx_t_test: option \"paired\" needs two numbers a row (input row 1)"),
        ("gx_t_test(x, x, '{\"paired\":true,\"equal_var\":true}')",
         "gx_t_test: options \"paired\" and \"equal_var\" exclude each other (input row 1)"),
        ("gx_corr_test(x, x, '{\"method\":\"rank\"}')",
         "gx_corr_test: option \"method\" must be one of pearson, spearman, kendall, not \"rank\" (input row 1)"),
        ("gx_chi2_gof(-x)", "gx_chi2_gof: observed must be 0 or more, not -1 (input row 1)"),
        ("gx_chi2_gof(x, x - 1)", "gx_chi2_gof: expected must be above 0, not 0 (input row 1)"),
        ("gx_chi2_gof(x, x + 1)", "gx_chi2_gof: the observed counts add up to 7.5 but the expected ones to 10.5"),
        ("gx_ks_test(x, 'normal', 0, 0)", "gx_ks_test: sd of normal is 0 but must be positive and finite (input row 1)"),
        ("gx_ks_test(x, 'normal', 0, 1, 2)", "gx_ks_test: normal takes 0 to 2 parameters (mean, sd), not 3 (input row 1)"),
        ("gx_ks_test(x, 'f', 1)", "gx_ks_test: f takes 2 parameters (df1, df2), not 1 (input row 1)"),
        ("gx_ks_test(x, 'cauchy', 1)", "gx_ks_test: the distribution must be one of normal, t, chi2, f, beta, gamma, binomial, poisson, not 'cauchy' (input row 1)"),
        ("gx_ks_test(x, 5, 1)", "gx_ks_test: the distribution must be one of normal, t, chi2, f, beta, gamma, binomial, poisson, not 5 (input row 1)"),
        ("gx_ks_test(x, 'poisson', 1)", "gx_ks_test: numbers are compared with a continuous distribution; gx_chi2_gof compares counts (input row 1)"),
        ("gx_ks_test(x, 'normal', NULL)", "gx_ks_test: mean must be a number, not NULL (input row 1)"),
        ("gx_ks_test(x, 'normal', x)", "gx_ks_test: the distribution differs from that of the first row (input row 2)"),
        ("gx_anova(x)", None), ("gx_shapiro(x, g)", None), ("gx_wilcoxon(x, 1, 2)", None),
    ]:
        got = error(db, f"SELECT {call} FROM r")
        assert got == text if text else " arguments before the options, not " in got, (call, got)


def test_range_of_doubles(db):
    """Squares that overflow, or vanish, are told; the same numbers scaled are tested."""
    for call in ("gx_t_test(x * ?1)", "gx_t_test(x * ?1, g)", "gx_anova(x * ?1, g)", "gx_jarque_bera(x * ?1)", "gx_corr_test(x * ?1, g)"):
        db.execute("CREATE TEMP TABLE IF NOT EXISTS r AS SELECT column1 AS x, column2 AS g FROM (VALUES (1, 1), (2, 1), (4, 2), (7.5, 2))")
        want = json.loads(q(db, f"SELECT {call} FROM r", 1))
        for scale in (1e60, 1e-60):
            near(json.loads(q(db, f"SELECT {call} FROM r", scale))["p_value"], want["p_value"], call)
        for scale in (1e200, 1e-200):
            assert "scale them" in error(db, f"SELECT {call} FROM r", scale), (call, scale)


# 4 ------------------------------------------------------------------------------------------------


def test_labels(db):
    x = [1.0, 2.5, 3.0, 5.5, 6.0, 7.25]
    want = stats.ttest_ind(x[:3], x[3:], equal_var=False)
    for first, second, shown in [("a", "b", ["a", "b"]), (2, 10, ["2", "10"]), (-0.0, 0.5, ["0", "0.5"]), (1.5, 2, ["1.5", "2"]),
                                 ("", "é\"\\\n", ["", "é\"\\\n"]), ("B", "a", ["B", "a"]), (True, 2.0, ["1", "2"]),
                                 (-2**63, 2**63 - 1, [str(-2**63), str(2**63 - 1)]), ("x" * 5000, "y" * 5000, ["x" * 5000, "y" * 5000])]:
        rows = list(zip(x, [first] * 3 + [second] * 3))
        for seed in range(3):
            random.Random(seed).shuffle(rows)
            got = told(db, "gx_t_test(x, g)", rows)
            near(got["statistic"], want.statistic, (first, second))
            assert got["groups"] == shown
    assert told(db, "gx_anova(x, g)", zip(x, [1, 1.0, "1", 2, 2.0, "2"]))["df"] == 1.0  # a label is its text


def test_order_of_rows(db):
    """Every test gives the same, within rounding, whatever the order of the rows."""
    rows = [(round(x, 1), k % 2) for k, x in enumerate(np.random.default_rng(5).standard_normal(40).tolist())]
    for call in [c for c in CALLS if "chi2" not in c]:
        call = call.replace("x, -x", "x, abs(x)").replace("2 * x", "abs(x)").replace("x + 1", "abs(x) + g").replace("x * x", "abs(x)")
        rows.sort()
        want = told(db, call, rows)
        random.Random(call).shuffle(rows)
        got = told(db, call, rows)
        assert got.keys() == want.keys()
        for key, value in want.items():
            assert got[key] == (pytest.approx(value, rel=1e-10) if isinstance(value, float) else value), (call, key)


def test_missing_rows(db):
    x = np.random.default_rng(6).standard_normal(30).tolist()
    rows = [(a, "ab"[k % 2]) for k, a in enumerate(x)]
    holes = rows[:7] + [(None, "a"), (1e9, None)] + rows[7:] + [(None, None)]
    for call in TWO_GROUPS + ["gx_anova(x, g)", "gx_levene(x, g)", "gx_kruskal(x, g)", "gx_chi2_test(x > 0, g)"]:
        want, got = told(db, call, rows), told(db, call, holes)
        assert (got.pop("n_missing"), want.pop("n_missing")) == (3, 0) and got == want


def test_result_as_json_and_as_row(db):
    db.execute("CREATE TABLE r (id, x, g)")
    db.executemany("INSERT INTO r VALUES (?,?,?)", [(k % 3, k * k % 17 + k / 7, "ab"[k // 3 % 2]) for k in range(60)])
    rows = db.execute("SELECT id, r, t.* FROM (SELECT id, gx_t_test(x, g) AS r FROM r GROUP BY id), gx_test(r) AS t").fetchall()
    assert [row[0] for row in rows] == [0, 1, 2]
    keys = [c[1] for c in db.execute("PRAGMA table_info(gx_test)")]
    assert keys == ["statistic", "df", "p_value", "effect", "ci_low", "ci_high", "n", "method"]
    for _, text, *values in rows:
        result = json.loads(text)
        assert values == [result[key] for key in keys] and values[6] == 20
        assert list(result) == keys[:7] + ["n_missing", "method", "estimate", "groups"]
    assert q(db, "SELECT typeof(json_extract(json_array(gx_t_test(x)), '$[0].n')) FROM r") == "integer"  # JSON, not a text
    assert db.execute("SELECT * FROM gx_test(NULL)").fetchall() == []
    assert db.execute("SELECT p_value FROM gx_test((SELECT gx_t_test(x) FROM r WHERE id = 0 AND x = 0))").fetchall() == [(None,)]
    for bad in ("", "{}", "[1]", "nonsense", '{"statistic":1}'):
        assert error(db, "SELECT * FROM gx_test(?)", bad).startswith("gx_test: result is not what a test of hypothesis gives: no ")
    assert error(db, "SELECT * FROM gx_test(3)") == "gx_test: result must be a text, not 3"
    result = "{" + ",".join(f'"{key}":"x"' for key in keys) + "}"  # texts where numbers were
    assert db.execute("SELECT * FROM gx_test(?)", (result,)).fetchall() == [("x",) * 8]


# 5 ------------------------------------------------------------------------------------------------


def test_memory_limit(db):
    db.execute("SELECT gx_config('tile_bytes', 4096)")
    db.execute("SELECT gx_config('memory_limit', 1000000)")
    count = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500000)"
    for call in ("gx_t_test(i)", "gx_t_test(i % 1000, i % 2)", "gx_jarque_bera(i % 1000)", "gx_corr_test(i, i % 1000)", "gx_chi2_test(i % 9, i % 7)"):
        assert json.loads(q(db, f"{count} SELECT {call} FROM n"))["p_value"] is not None  # moments and counts need no room
    for call in ("gx_wilcoxon(i)", "gx_kruskal(i, i % 3)", "gx_corr_test(i, -i, '{\"method\":\"kendall\"}')", "gx_chi2_test(i, i)"):
        assert "memory_limit" in error(db, f"{count} SELECT {call} FROM n"), call
    used = "SELECT value FROM gx_stats WHERE name = 'memory_used'"
    before = q(db, used)
    assert q(db, f"{count} SELECT count(r) FROM (SELECT gx_kruskal(i, i % 3) AS r FROM n GROUP BY i / 1000)") == 501
    assert q(db, used) == before
