#!/usr/bin/env python3
"""Writes distributions.csv: exact values of probability distributions, for tests/sql/test_distributions.py.

A row: distribution, parameters, x, density, lower and upper tail with 20 digits.  Parameters and x are doubles, written so that
they are read back as they were; the values are those of exactly these doubles.  Made in ball arithmetic (python-flint) of 1300
bits: the power series of the incomplete gamma and beta functions, term by term in whole numbers, times their factor.
"""
import math
import pathlib
import sys
from fractions import Fraction as F

from flint import arb, ctx, fmpz

BITS = 1300
DEVIATES = (-37, -6, -1, 0.01, 2, 9, 37)
SETS = {
    "normal": [(0.0, 1.0), (-3.5, 12.25)],
    "t": [(0.1,), (1.0,), (4.5,), (30.0,), (1e4,), (1e7,)],
    "chi2": [(0.002,), (1.0,), (7.0,), (250.5,), (3e4,), (2e6,)],
    "gamma": [(0.001, 1.0), (0.75, 3.0), (20.0, 0.1), (900.0, 7.0), (1e6, 1e-3)],
    "beta": [(0.001, 0.5), (0.5, 0.5), (2.0, 9.0), (1e-3, 1e6), (400.0, 3.0), (7e3, 5e3), (1e6, 3e5)],
    "f": [(1.0, 1.0), (0.5, 40.0), (7.0, 3.5), (3.0, 1e6), (5e3, 1e4), (2e6, 1e6)],
    "binomial": [(1.0, 0.25), (12.0, 0.5), (300.0, 1e-3), (1e4, 0.9), (1e7, 1e-6), (1e7, 0.37)],
    "poisson": [(1e-3,), (0.5,), (9.5,), (400.0,), (1e5,), (1e7,)],
}


def ball(x):
    return arb(x.numerator) / arb(x.denominator)


def series(numerator, denominator, more_above, more_below):
    """1 + the sum of products of (numerator + k more_above) / (denominator + k more_below); all whole numbers."""
    term = total = 1 << BITS
    while term > 1 or numerator > denominator:
        term = term * numerator // denominator
        total += term
        numerator += more_above
        denominator += more_below
    return arb(fmpz(total)) / arb(2) ** BITS


def gamma(a, x):
    """P(a, x), Q(a, x) and x^a e^-x / Gamma(a)."""
    d = a.denominator * x.denominator
    sum_ = series(int(x * d), int((a + 1) * d), 0, d)
    factor = (ball(a) * ball(x).log() - ball(x) - ball(a).lgamma()).exp()
    lower = factor * sum_ / ball(a)
    return lower, 1 - lower, factor


def beta(a, b, x):
    """I_x(a, b), 1 - I and x^a (1 - x)^b / B(a, b)."""
    if x > F(1, 2):
        upper, lower, factor = beta(b, a, 1 - x)
        return lower, upper, factor
    d = a.denominator * b.denominator * x.denominator
    sum_ = series(int(x * (a + b) * d), int((a + 1) * d), int(x * d), d)
    factor = (ball(a) * ball(x).log() + ball(b) * ball(1 - x).log() + (ball(a) + ball(b)).lgamma() - ball(a).lgamma() - ball(b).lgamma()).exp()
    lower = factor * sum_ / ball(a)
    return lower, 1 - lower, factor


def exact(name, p, x):
    """Density, P(X <= x), P(X > x)."""
    if name == "normal":
        z = ball((x - p[0]) / p[1])
        root = z / arb(2).sqrt()
        return (-z * z / 2).exp() / (2 * arb.pi()).sqrt() / ball(p[1]), (-root).erfc() / 2, root.erfc() / 2
    if name == "t":
        _, outside, factor = beta(F(1, 2), p[0] / 2, x * x / (p[0] + x * x))
        far, near = outside / 2, 1 - outside / 2
        return factor / ball(abs(x)), *((near, far) if x > 0 else (far, near))
    if name in ("chi2", "gamma"):
        a, scale = (p[0] / 2, F(2)) if name == "chi2" else p
        lower, upper, factor = gamma(a, x / scale)
        return factor / ball(x), lower, upper
    if name == "f":
        lower, upper, factor = beta(p[0] / 2, p[1] / 2, p[0] * x / (p[0] * x + p[1]))
        return factor / ball(x), lower, upper
    if name == "beta":
        lower, upper, factor = beta(*p, x)
        return factor / ball(x * (1 - x)), lower, upper
    if name == "poisson":
        lower, upper, factor = gamma(x + 1, p[0])
        return factor / ball(p[0]), upper, lower
    n, share = p
    log_mass = ball(x) * ball(share).log() + ball(n - x) * ball(1 - share).log() + (ball(n) + 1).lgamma() - (ball(x) + 1).lgamma() - (ball(n - x) + 1).lgamma()
    lower, upper, _ = beta(x + 1, n - x, share) if x < n else (arb(0), arb(1), None)
    return log_mass.exp(), upper, lower


def points(name, p):
    """x at some deviates from the mean, inside the support; powers of ten where the shape is small."""
    if name == "normal":
        return [p[0] + z * p[1] for z in DEVIATES]
    if name == "t":
        return [z if p[0] > 1e3 else math.copysign(abs(z) ** max(1, 6 / p[0] ** 0.5), z) for z in DEVIATES if z != 0.01] + [1e-9, 0.5]
    if name in ("chi2", "gamma"):
        a, scale = (p[0] / 2, 2.0) if name == "chi2" else p
        if a < 5:
            return [scale * x for x in (1e-250, 1e-9, 0.3, 1.4, 6.0, 80.0, 600.0)]
        return [scale * a * max(1e-9, 1 - 1 / (9 * a) + z / (3 * a**0.5)) ** 3 for z in DEVIATES]
    if name in ("beta", "f"):
        a, b = p if name == "beta" else (p[0] / 2, p[1] / 2)
        middle, width = math.log(a / b), (1 / a + 1 / b) ** 0.5
        steps, width = ((-300, -9, -1, 0.01, 1, 9, 30), 1) if min(a, b) < 2 else (DEVIATES, width)
        odds = [math.exp(middle + z * width) for z in steps]
        return [w * p[1] / p[0] if name == "f" else w / (1 + w) for w in odds]
    mean, variance = (p[0] * p[1], p[0] * p[1] * (1 - p[1])) if name == "binomial" else (p[0], p[0])
    most = p[0] if name == "binomial" else math.inf
    return sorted({float(min(max(round(mean + z * variance**0.5 + (z * z - 1) / 6 * (1 - 2 * p[1] if len(p) > 1 else 1)), 0), most)) for z in DEVIATES})


def main():
    ctx.prec = BITS + 64
    lines = ["distribution,parameters,x,pdf,cdf,sf"]
    for name, sets in SETS.items():
        for p in sets:
            for x in points(name, p):
                inside = {"beta": 0 < x < 1, "chi2": x > 0, "gamma": x > 0, "f": x > 0}.get(name, True) and abs(x) < 1e300
                if inside:
                    values = exact(name, [F(v) for v in p], F(x))
                    lines.append(",".join([name, " ".join(map(repr, p)), repr(x)] + [v.mid().str(20, radius=False) for v in values]))
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).with_suffix(".csv")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
