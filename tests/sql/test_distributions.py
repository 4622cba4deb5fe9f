"""gx_pdf, gx_cdf, gx_sf, gx_ppf, gx_isf against exact values and scipy.stats; ndtr, gammainc and their kin.

Plan:
  1  density and both tails of every row of tests/data/distributions.csv within 1e-14 (the page promises 1e-13); quantiles of
     both tails give x back, as closely as the rounded probability says where x is; whole numbers exactly
  2  whole numbers: the least x by gx_cdf itself, at probabilities on a step, beside one, in between
  3  scipy.stats, thousands of random calls, as closely as SciPy is
  4  ends: infinities, zeros, one, outside of the support, degenerate parameters
  5  matrices: a value, a literal, f32, no elements, NaN, an integer too long, complex, sparse, a name
  6  what is refused, in words; NULL; pure enough for an index
  7  gx_ndtr, gx_ndtri, gx_gammainc, gx_gammaincc, gx_betainc: the exact values, in programs
"""
import csv
import itertools
import math
import pathlib

import numpy as np
import pytest
from scipy import stats

from conftest import error, from_numpy, q, to_numpy

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "distributions.csv"
LEAST = 1e-300


def exact_rows():
    with open(DATA, encoding="utf-8") as handle:
        for row in csv.DictReader(handle):
            yield row["distribution"], [float(p) for p in row["parameters"].split()], float(row["x"]), *(row[k] for k in ("pdf", "cdf", "sf"))


ROWS = list(exact_rows())
NAMES = sorted({row[0] for row in ROWS})
LONG = np.finfo(np.longdouble).eps < 2e-19


def call(db, function, name, x, parameters):
    return q(db, f"SELECT gx_{function}(?, ?{', ?' * len(parameters)})", name, x, *parameters)


def off(got, text):
    """The relative error of a double against an exact number of 20 digits."""
    want = np.longdouble(text)
    return float(abs((np.longdouble(got) - want) / want)) if want else abs(got)


# 1 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_exact_values(db, name):
    worst, count = 0, 0
    for _, parameters, x, *wanted in (row for row in ROWS if row[0] == name):
        for function, want in zip(("pdf", "cdf", "sf"), wanted):
            if float(want) > LEAST:
                far = off(call(db, function, name, x, parameters), want)
                assert far < 1e-14, (function, parameters, x, want, far)
                worst, count = max(worst, far), count + 1
    assert count > 40 and worst > 0


@pytest.mark.parametrize("name", NAMES)
def test_quantiles_of_exact_tails(db, name):
    is_whole = name in ("binomial", "poisson")
    for _, parameters, x, pdf, cdf, sf in (row for row in ROWS if row[0] == name):
        for function, tail in (("ppf", cdf), ("isf", sf)):
            p = float(tail)
            if not LEAST < p < 1:
                continue
            got = call(db, function, name, p, parameters)
            if is_whole:  # its own tail says whether the rounded one is reached
                reached = call(db, "cdf" if function == "ppf" else "sf", name, x, parameters)
                assert got == x if (reached >= p) == (function == "ppf") or reached == p else got == x + 1
            else:  # p is a rounded one: x is known up to a unit of p over the density
                known = np.spacing(p) / float(pdf) if float(pdf) > 0 else 0
                assert abs(got - x) <= 1e-14 * abs(x) + known, (function, parameters, p, got, x)


# 2 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name,parameters", [("binomial", (12, 0.5)), ("binomial", (1, 0.25)), ("binomial", (40, 0.03)), ("poisson", (0.5,)),
                                             ("poisson", (30.25,)), ("binomial", (10**7, 0.37)), ("poisson", (1e7,))])
def test_least_whole_number(db, name, parameters):
    mean = parameters[0] * parameters[1] if name == "binomial" else parameters[0]
    for x in {max(0, round(mean) + k) for k in range(-3, 4)} | {0, 1}:
        if name == "binomial" and x > parameters[0]:
            continue
        for tail, inverse, sign in (("cdf", "ppf", 1), ("sf", "isf", -1)):
            here = call(db, tail, name, x, parameters)
            before = call(db, tail, name, x - 1, parameters) if x else (0.0 if sign == 1 else 1.0)
            if not LEAST < here < 1 or here == before:
                continue
            past = np.nextafter(here, sign * np.inf)
            assert call(db, inverse, name, here, parameters) == x
            assert call(db, inverse, name, (here + before) / 2, parameters) in ((x,) if (here + before) / 2 != before else (x, x - 1))
            if 0 < past < 1:
                assert call(db, inverse, name, past, parameters) == x + (1 if sign == 1 else 0) or sign == -1


# 3 ------------------------------------------------------------------------------------------------

SCIPY = {
    "normal": lambda mean, sd: stats.norm(mean, sd), "t": stats.t, "chi2": stats.chi2, "f": stats.f, "beta": stats.beta,
    "gamma": lambda shape, scale: stats.gamma(shape, scale=scale), "binomial": stats.binom, "poisson": stats.poisson,
}


@pytest.mark.parametrize("name", NAMES)
def test_against_scipy(db, name):
    rng = np.random.default_rng(3)
    draw = {
        "normal": lambda: (rng.normal(), rng.uniform(0.1, 5)), "t": lambda: (rng.uniform(0.5, 60),), "chi2": lambda: (rng.uniform(0.5, 60),),
        "f": lambda: (rng.uniform(1, 30), rng.uniform(1, 30)), "beta": lambda: (rng.uniform(0.2, 30), rng.uniform(0.2, 30)),
        "gamma": lambda: (rng.uniform(0.2, 30), rng.uniform(0.1, 9)), "binomial": lambda: (int(rng.integers(1, 60)), rng.uniform(0, 1)),
        "poisson": lambda: (rng.uniform(0.1, 60),)}[name]
    for _ in range(60):
        parameters = [float(p) for p in draw()]
        frozen = SCIPY[name](*parameters)
        p = rng.uniform(0.001, 0.999, 3)
        x = to_numpy(q(db, f"SELECT gx_ppf(?, ?{', ?' * len(parameters)})", name, from_numpy(p), *parameters)).ravel()
        assert np.allclose(x, frozen.ppf(p), rtol=1e-9)
        pdf = frozen.pmf if name in ("binomial", "poisson") else frozen.pdf
        for function, other in (("pdf", pdf), ("cdf", frozen.cdf), ("sf", frozen.sf)):
            got = to_numpy(q(db, f"SELECT gx_{function}(?, ?{', ?' * len(parameters)})", name, from_numpy(x), *parameters)).ravel()
            assert np.allclose(got, other(x), rtol=1e-10, atol=0), (function, parameters, x)


# 4 ------------------------------------------------------------------------------------------------

INF = math.inf


@pytest.mark.parametrize("sql,want", [
    ("gx_cdf('normal', 'inf')", 1), ("gx_cdf('normal', '-inf')", 0), ("gx_sf('t', 'inf', 3)", 0), ("gx_pdf('t', '-inf', 3)", 0),
    ("gx_ppf('normal', 0)", -INF), ("gx_ppf('normal', 1)", INF), ("gx_isf('normal', 0)", INF), ("gx_ppf('normal', 0.5)", 0),
    ("gx_ppf('normal', 0.5, 7)", 7), ("gx_ppf('t', 0.5, 3)", 0), ("gx_ppf('t', 1, 3)", INF), ("gx_ppf('chi2', 0, 3)", 0),
    ("gx_ppf('chi2', 1, 3)", INF), ("gx_ppf('beta', 0, 2, 3)", 0), ("gx_ppf('beta', 1, 2, 3)", 1), ("gx_isf('f', 0, 2, 3)", INF),
    ("gx_cdf('chi2', -1, 3)", 0), ("gx_sf('chi2', -1, 3)", 1), ("gx_pdf('chi2', -1, 3)", 0), ("gx_cdf('beta', 2, 3, 3)", 1), ("gx_sf('beta', 2, 3, 3)", 0),
    ("gx_pdf('beta', 1.5, 3, 3)", 0), ("gx_cdf('gamma', 'inf', 3)", 1), ("gx_pdf('gamma', 'inf', 3)", 0), ("gx_cdf('f', 'inf', 3, 1)", 1),
    ("gx_pdf('chi2', 0, 1)", INF), ("gx_pdf('chi2', 0, 2)", 0.5), ("gx_pdf('chi2', 0, 3)", 0), ("gx_pdf('gamma', 0, 1, 4)", 0.25),
    ("gx_pdf('beta', 0, 1, 4)", 4), ("gx_pdf('beta', 1, 4, 1)", 4), ("gx_pdf('beta', 1, 4, 2)", 0), ("gx_pdf('beta', 0, 0.5, 2)", INF),
    ("gx_pdf('f', 0, 2, 9)", 1), ("gx_pdf('f', 0, 1, 9)", INF), ("gx_pdf('t', 0, 1)", 1 / math.pi), ("gx_cdf('t', 0, 1)", 0.5),
    ("gx_pdf('binomial', 0, 0, 0.5)", 1), ("gx_cdf('binomial', 0, 5, 0)", 1), ("gx_pdf('binomial', 5, 5, 1)", 1), ("gx_cdf('binomial', 4, 5, 1)", 0),
    ("gx_ppf('binomial', 0.5, 5, 1)", 5), ("gx_ppf('binomial', 1, 5, 0)", 0), ("gx_ppf('binomial', 1, 5, 0.5)", 5),
    ("gx_cdf('binomial', 2.999, 5, 0.5)", 0.5), ("gx_pdf('binomial', 2.5, 5, 0.5)", 0), ("gx_cdf('binomial', -0.5, 5, 0.5)", 0), ("gx_sf('binomial', 9, 5, 0.5)", 0),
    ("gx_pdf('poisson', 0, 0)", 1), ("gx_cdf('poisson', 0, 0)", 1), ("gx_ppf('poisson', 1, 0)", 0), ("gx_ppf('poisson', 1, 3)", INF),
    ("gx_ppf('poisson', 0, 3)", 0), ("gx_isf('poisson', 1, 3)", 0), ("gx_cdf('poisson', 'inf', 3)", 1), ("gx_pdf('poisson', 'inf', 3)", 0),
    ("gx_cdf('POISSON', 1e300, 3)", 1), ("gx_cdf('chi2', 1e300, 3)", 1), ("gx_cdf('t', 1e300, 3)", 1), ("gx_cdf('gamma', 1e-300, 1e300)", 0),
])
def test_ends(db, sql, want):
    assert q(db, f"SELECT {sql}") == pytest.approx(want, rel=1e-15, abs=0)


def test_extreme_parameters_end(db):
    """Any parameters that are allowed give a probability, and soon."""
    sizes = [5e-324, 1e-300, 1e-10, 0.3, 1.0, 50.0, 1e5, 1e9, 1e18, 1e300]
    for a, b in itertools.product(sizes, sizes):
        for name, x in (("beta", 0.4), ("f", 1.0), ("gamma", a * b or 1.0), ("t", b)):
            p = call(db, "cdf", name, x, [a, b][: 1 if name == "t" else 2])
            assert 0 <= p <= 1, (name, a, b)
            back = call(db, "ppf", name, 0.3, [a, b][: 1 if name == "t" else 2])
            assert back is not None, (name, a, b)


# 5 ------------------------------------------------------------------------------------------------


def test_matrices(db):
    x = np.array([[-1.5, 0.0, 2.5], [np.nan, np.inf, 40.0]])
    got = to_numpy(q(db, "SELECT gx_sf('t', ?, 4)", from_numpy(x)))
    want = [[call(db, "sf", "t", float(v), [4]) if np.isfinite(v) else (0.0 if v > 0 else np.nan) for v in row] for row in x]
    assert np.array_equal(got, want, equal_nan=True)
    single = to_numpy(q(db, "SELECT gx_sf('t', ?, 4)", from_numpy(x.astype(np.float32))))
    assert single.dtype == np.float32 and np.array_equal(single, got.astype(np.float32), equal_nan=True)
    outside = to_numpy(q(db, "SELECT gx_ppf('normal', '[[-0.1,0.5,1.1]]')"))
    assert np.array_equal(outside, [[np.nan, 0, np.nan]], equal_nan=True)
    assert to_numpy(q(db, "SELECT gx_cdf('normal', ?)", from_numpy(np.zeros((0, 3))))).shape == (0, 3)
    assert q(db, "SELECT gx_json(gx_cdf('binomial', gx_cast('[[0,1,2]]', 'u8'), 2, 0.5))") == "[[0.25,0.75,1.0]]"
    large = np.random.default_rng(1).normal(size=5000)
    assert np.allclose(to_numpy(q(db, "SELECT gx_cdf('normal', ?)", from_numpy(large))).ravel(), stats.norm.cdf(large), rtol=1e-13)


@pytest.mark.parametrize("x,words", [
    ("'[[\"1+2i\"]]'", "gx_cdf: x is complex, and distributions are of real numbers"),
    ("gx_sparse('[[0,1]]')", "gx_cdf: x is sparse"),
    ("'[1,[2]]'", "gx_cdf: x"),
    ("x'00'", "gx_cdf: x is"),
    ("'A'", "gx_cdf: x must be a number, not 'A'"),
    ("9007199254740993", "gx_cdf: x is 9007199254740993, which f64 does not hold: CAST(x AS REAL) rounds it"),
    ("'[9007199254740993]'", "gx_cdf: "),
])
def test_x_refused(db, x, words):
    q(db, "SELECT gx_store('A', '[1,2]')")
    assert error(db, f"SELECT gx_cdf('normal', {x})").startswith(words)


# 6 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sql,words", [
    ("gx_cdf('normale', 1)", "gx_cdf: the distribution must be one of normal, t, chi2, f, beta, gamma, binomial, poisson, not 'normale'"),
    ("gx_cdf('', 1)", "gx_cdf: the distribution must be one of normal, t, chi2, f, beta, gamma, binomial, poisson, not ''"),
    ("gx_cdf(NULL, 1)", "gx_cdf: the distribution is NULL"),
    ("gx_cdf('t', 1)", "gx_cdf: t takes 1 parameter (df), not 0"),
    ("gx_sf('normal', 1, 2, 3, 4)", "gx_sf: normal takes 0 to 2 parameters (mean, sd), not 3"),
    ("gx_pdf('f', 1, 2)", "gx_pdf: f takes 2 parameters (df1, df2), not 1"),
    ("gx_isf('gamma', 1)", "gx_isf: gamma takes 1 to 2 parameters (shape, scale), not 0"),
    ("gx_cdf('t', 1, 0)", "gx_cdf: df of t is 0 but must be positive and finite"),
    ("gx_cdf('t', 1, 'inf')", "gx_cdf: df of t is 'inf' but must be positive and finite"),
    ("gx_cdf('t', 1, 'two')", "gx_cdf: df must be a number, not 'two'"),
    ("gx_cdf('normal', 1, 0, -2.5)", "gx_cdf: sd of normal is -2.5 but must be positive and finite"),
    ("gx_cdf('normal', 1, 'inf')", "gx_cdf: mean of normal is 'inf' but must be finite"),
    ("gx_cdf('binomial', 1, 2.5, 0.5)", "gx_cdf: n of binomial is 2.5 but must be a whole number from 0 to 2^53"),
    ("gx_cdf('binomial', 1, 2, 1.5)", "gx_cdf: p of binomial is 1.5 but must be from 0 to 1"),
    ("gx_cdf('poisson', 1, -1)", "gx_cdf: mean of poisson is -1 but must be from 0 to 2^53"),
    ("gx_ppf('normal', 1.5)", "gx_ppf: the probability is 1.5 but must be from 0 to 1"),
    ("gx_isf('normal', -1)", "gx_isf: the probability is -1 but must be from 0 to 1"),
])
def test_refused(db, sql, words):
    assert error(db, f"SELECT {sql}") == words


def test_null_and_schema(db):
    for sql in ("gx_cdf('t', NULL, 3)", "gx_cdf('t', 1, NULL)", "gx_cdf('t', 'nan', 3)", "gx_ppf('normal', NULL)"):
        assert q(db, f"SELECT {sql}") is None
    db.execute("CREATE TABLE test(t REAL, df REAL, p REAL GENERATED ALWAYS AS (2 * gx_sf('t', abs(t), df)))")
    db.execute("CREATE INDEX by_p ON test(gx_sf('t', t, df))")
    db.execute("INSERT INTO test VALUES (2.5, 12), (-1, 3)")
    assert [round(p, 8) for (p,) in db.execute("SELECT p FROM test")] == [0.0279154, 0.39100222]


# 7 ------------------------------------------------------------------------------------------------


def test_functions_of_elements(db):
    for name, functions in {"normal": ("gx_ndtr(:x)", None), "gamma": ("gx_gammainc(:a, :x)", "gx_gammaincc(:a, :x)"), "beta": ("gx_betainc(:a, :b, :x)", None)}.items():
        for _, p, x, _, cdf, sf in (row for row in ROWS if row[0] == name):
            if p[-1] != 1.0 and name != "beta":
                continue
            for sql, want in zip(functions, (cdf, sf)):
                if sql is not None and float(want) > LEAST:
                    values = {"x": x, "a": p[0], "b": p[1]}
                    got = to_numpy(db.execute(f"SELECT {sql}", {k: v for k, v in values.items() if f":{k}" in sql}).fetchone()[0])[0, 0]
                    assert off(got, want) < (2e-15 if name == "normal" else 1e-14), (sql, values, got, want)
    p = 10.0 ** -np.linspace(0.01, 300, 400)
    z = to_numpy(q(db, "SELECT gx_ndtri(?)", from_numpy(p))).ravel()
    assert max(abs(z / [call(db, "ppf", "normal", v, []) for v in p] - 1)) < 2e-15
    assert q(db, "SELECT gx_eval('gammainc(?1, ?2) + gammaincc(?1, ?2)', 2.5, 3)") == 1
    assert q(db, "SELECT gx_eval('betainc(?1, ?2, ?3)', 2, 3, 0.25)") == call(db, "cdf", "beta", 0.25, [2, 3])
    assert q(db, "SELECT gx_eval('ndtri(ndtr(?1))', 1.25)") == pytest.approx(1.25, rel=1e-15)
