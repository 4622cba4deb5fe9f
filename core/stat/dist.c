/*
** Probability distributions: see dist.h.
**
** Everything is computed in long double (special.h) and rounded once.  Each distribution is a
** change of variable to the normal integral, the incomplete gamma or the incomplete beta function:
**
**     t        of t^2 / (df + t^2): beta(1/2, df / 2), half of it in each tail
**     chi2     gamma(df / 2) of x / 2
**     F        beta(df1 / 2, df2 / 2) of df1 x / (df1 x + df2)
**     binomial P(X <= k) = 1 - I_p(k + 1, n - k)
**     poisson  P(X <= k) = Q(k + 1, mean)
**
** Arguments of the beta function come as a pair x, 1 - x, of which neither loses digits.  A
** quantile is sought on the side of the smaller tail, whose probability is exact: 1 - p is, for
** p >= 1/2.
** Quantiles of whole numbers are found by search, comparing what gx_dist() itself gives, so that
** they are exactly the inverse of it.
*/
#include "dist.h"

#include "../base/special.h"

#include <math.h>
#include <stdbool.h>

/* What a parameter may be; up to 2^53 a double has all whole numbers. */
typedef enum domain { NONE, FINITE, POSITIVE, MEAN, COUNT, PART } domain;

/* What a distribution offers; x is finite and inside the support. */
typedef struct dist {
    domain domain[3];   /* of each parameter */
    double least, most; /* of the support */
    long double (*density)(const double *with, long double x);
    gx_tails (*tails)(const double *with, long double x);
    long double (*inverse)(const double *with, gx_tails tails); /* NULL: whole numbers */
} dist;

// Normal ------------------------------------------------------------------------------------------

static long double normal_deviate(const double *with, long double x)
{
    return (x - with[0]) / with[1];
}

static long double normal_density(const double *with, long double x)
{
    static const long double over = 0.3989422804014326779399460599343818684759L;
    long double z = normal_deviate(with, x);
    return over * expl(-z * z / 2) / with[1];
}

static gx_tails normal_tails(const double *with, long double x)
{
    return gx_normal_tails(normal_deviate(with, x));
}

static long double normal_inverse(const double *with, gx_tails tails)
{
    return with[0] + with[1] * gx_normal_inverse(tails);
}

// t -----------------------------------------------------------------------------------------------

/* y^a x^b / B(a, b): the density of log(x / y). */
static long double beta_density(long double a, long double b, long double x, long double y)
{
    return a / (a + b) * b * gx_binomial_mass(a, b, x, y);
}

static long double t_density(const double *with, long double t)
{
    long double df = with[0], least = 1e-200L * sqrtl(df);
    t = fmaxl(fabsl(t), least); // nearer to 0 the density is the same in all its digits
    long double square = t * t, sum = df + square;
    return beta_density(0.5L, df / 2, square / sum, df / sum) / t;
}

static gx_tails t_tails(const double *with, long double t)
{
    long double df = with[0], square = t * t, sum = df + square;
    long double tail = gx_beta_tails(0.5L, df / 2, square / sum, df / sum).upper / 2;
    return t > 0 ? (gx_tails){1 - tail, tail} : (gx_tails){tail, 1 - tail};
}

static long double t_inverse(const double *with, gx_tails tails)
{
    bool is_above = tails.upper < tails.lower;
    long double tail = is_above ? tails.upper : tails.lower, y;
    gx_tails both = {1 - 2 * tail, 2 * tail}; // exact
    long double x = gx_beta_inverse(0.5L, with[0] / 2.0L, both, &y);
    long double t = sqrtl(with[0] * (x / y));
    return t == 0 || is_above ? t : -t;
}

// Gamma and chi2 ----------------------------------------------------------------------------------

/* The density of x at the lower end, over the scale: what x^(shape - 1) is times a factor there. */
static long double at_end(long double shape, long double factor)
{
    return shape < 1 ? HUGE_VALL : shape > 1 ? 0 : factor;
}

static long double gamma_density_of(long double a, long double scale, long double x)
{
    if (x == 0) {
        return at_end(a, 1 / scale);
    }
    return gx_poisson_mass(a, x / scale) * a / x;
}

static long double gamma_density(const double *with, long double x)
{
    return gamma_density_of(with[0], with[1], x);
}

static gx_tails gamma_tails(const double *with, long double x)
{
    return gx_gamma_tails(with[0], x / with[1]);
}

static long double gamma_inverse(const double *with, gx_tails tails)
{
    return with[1] * gx_gamma_inverse(with[0], tails);
}

static long double chi2_density(const double *with, long double x)
{
    return gamma_density_of(with[0] / 2.0L, 2, x);
}

static gx_tails chi2_tails(const double *with, long double x)
{
    return gx_gamma_tails(with[0] / 2.0L, x / 2);
}

static long double chi2_inverse(const double *with, gx_tails tails)
{
    return 2 * gx_gamma_inverse(with[0] / 2.0L, tails);
}

// Beta and F --------------------------------------------------------------------------------------

static long double beta_pdf(const double *with, long double x)
{
    long double a = with[0], b = with[1];
    if (x == 0) {
        return at_end(a, b);
    }
    if (x == 1) {
        return at_end(b, a);
    }
    return beta_density(a, b, x, 1 - x) / x / (1 - x);
}

static gx_tails beta_tails(const double *with, long double x)
{
    return gx_beta_tails(with[0], with[1], x, 1 - x);
}

static long double beta_inverse(const double *with, gx_tails tails)
{
    long double y;
    return gx_beta_inverse(with[0], with[1], tails, &y);
}

/* x as the beta variate's odds. */
static long double f_odds(const double *with, long double x)
{
    return x * with[0] / with[1];
}

static long double f_density(const double *with, long double x)
{
    long double odds = f_odds(with, x);
    if (x == 0) {
        return at_end(with[0] / 2.0L, 1);
    }
    return beta_density(with[0] / 2.0L, with[1] / 2.0L, odds / (1 + odds), 1 / (1 + odds)) / x;
}

static gx_tails f_tails(const double *with, long double x)
{
    long double odds = f_odds(with, x), y = 1 / (1 + odds);
    return gx_beta_tails(with[0] / 2.0L, with[1] / 2.0L, odds * y, y);
}

static long double f_inverse(const double *with, gx_tails tails)
{
    long double y, x = gx_beta_inverse(with[0] / 2.0L, with[1] / 2.0L, tails, &y);
    return x / y * with[1] / with[0];
}

// Binomial and Poisson ----------------------------------------------------------------------------

static long double binomial_density(const double *with, long double k)
{
    long double n = with[0], p = with[1];
    if (k != floorl(k) || k > n) {
        return 0;
    }
    if (p == 0 || p == 1) {
        return k == n * p;
    }
    return gx_binomial_mass(k, n - k, p, 1 - p);
}

static gx_tails binomial_tails(const double *with, long double k)
{
    long double n = with[0], p = with[1];
    k = floorl(k);
    if (k >= n) {
        return (gx_tails){1, 0};
    }
    gx_tails t = gx_beta_tails(k + 1, n - k, p, 1 - p);
    return (gx_tails){t.upper, t.lower};
}

static long double poisson_density(const double *with, long double k)
{
    if (k != floorl(k)) {
        return 0;
    }
    return with[0] == 0 ? k == 0 : gx_poisson_mass(k, with[0]);
}

static gx_tails poisson_tails(const double *with, long double k)
{
    gx_tails t = gx_gamma_tails(floorl(k) + 1, with[0]);
    return (gx_tails){t.upper, t.lower};
}

// All of them -------------------------------------------------------------------------------------

static const dist dists[GX_DIST_COUNT] = {
    [GX_DIST_NORMAL] =
        {{FINITE, POSITIVE}, -HUGE_VAL, HUGE_VAL, normal_density, normal_tails, normal_inverse},
    [GX_DIST_T] = {{POSITIVE}, -HUGE_VAL, HUGE_VAL, t_density, t_tails, t_inverse},
    [GX_DIST_CHI2] = {{POSITIVE}, 0, HUGE_VAL, chi2_density, chi2_tails, chi2_inverse},
    [GX_DIST_F] = {{POSITIVE, POSITIVE}, 0, HUGE_VAL, f_density, f_tails, f_inverse},
    [GX_DIST_BETA] = {{POSITIVE, POSITIVE}, 0, 1, beta_pdf, beta_tails, beta_inverse},
    [GX_DIST_GAMMA] =
        {{POSITIVE, POSITIVE}, 0, HUGE_VAL, gamma_density, gamma_tails, gamma_inverse},
    [GX_DIST_BINOMIAL] = {{COUNT, PART}, 0, HUGE_VAL, binomial_density, binomial_tails, NULL},
    [GX_DIST_POISSON] = {{MEAN}, 0, HUGE_VAL, poisson_density, poisson_tails, NULL},
};

/* Whether x is as far as the quantile asked for. */
typedef struct search {
    const dist *d;
    const double *with;
    bool is_upper;
    double p;
} search;

static bool reaches(const search *s, double x)
{
    if (x < 0) {
        return false;
    }
    gx_tails t = s->d->tails(s->with, x);
    return s->is_upper ? (double)t.upper <= s->p : (double)t.lower >= s->p;
}

/* The least whole number that reaches, from a first value: bracketed by doubled steps, halved. */
static double search_whole(const search *s, double x)
{
    double step = 1;
    bool is_up = !reaches(s, x);
    double low = is_up ? x : -1, high = x; // low does not reach, high does
    for (; is_up; step *= 2) {
        high = low + step;
        if (reaches(s, high)) {
            break;
        }
        low = high;
    }
    for (; !is_up && high > 0; step *= 2) {
        double next = fmax(high - step, -1);
        if (!reaches(s, next)) {
            low = next;
            break;
        }
        high = next;
    }
    while (high - low > 1) {
        double middle = floor(low + (high - low) / 2);
        if (middle <= low || middle >= high) {
            break; // past 2^53 there is no whole number between
        }
        *(reaches(s, middle) ? &high : &low) = middle;
    }
    return high;
}

/* A whole number near the one sought: Newton's steps for the logarithm of the smaller tail. */
static double nearer(const search *s, double x, gx_tails tails)
{
    bool is_lower = tails.lower < tails.upper;
    for (int k = 0; k < 8; k++) {
        gx_tails t = s->d->tails(s->with, x);
        long double tail = is_lower ? t.lower : t.upper, aim = is_lower ? tails.lower : tails.upper;
        long double step = tail / s->d->density(s->with, x) * logl(aim / tail);
        double next = fmax(0, (double)roundl(is_lower ? x + step : x - step));
        if (!(fabs(next - x) > 2) || !isfinite(next)) {
            break;
        }
        x = next;
    }
    return x;
}

static double whole_quantile(gx_dist_kind kind, const search *s, gx_tails tails)
{
    bool is_binomial = kind == GX_DIST_BINOMIAL;
    double p = is_binomial ? s->with[1] : 0, mean = is_binomial ? s->with[0] * p : s->with[0];
    double sd = sqrt(mean * (1 - p)), z = (double)gx_normal_inverse(tails);
    if (tails.upper == 0) {
        return !is_binomial ? (mean > 0 ? HUGE_VAL : 0) : p > 0 ? s->with[0] : 0;
    }
    if (tails.lower == 0) {
        return 0;
    }
    // the normal deviate, with the skewness of Cornish and Fisher's expansion
    double x = fmax(0, floor(mean + sd * z + (1 - 2 * p) * (z * z - 1) / 6 + 0.5));
    return search_whole(s, nearer(s, is_binomial ? fmin(x, s->with[0]) : x, tails));
}

static double quantile(gx_dist_kind kind, bool is_upper, double p, const double *with)
{
    const dist *d = &dists[kind];
    search s = {d, with, is_upper, p};
    if (!(p >= 0 && p <= 1)) {
        return NAN;
    }
    gx_tails tails =
        is_upper ? (gx_tails){1 - (long double)p, p} : (gx_tails){p, 1 - (long double)p};
    return d->inverse != NULL ? (double)d->inverse(with, tails) : whole_quantile(kind, &s, tails);
}

static bool is_inside(domain of, double p)
{
    switch (of) {
    case FINITE:
        return isfinite(p);
    case POSITIVE:
        return p > 0 && isfinite(p);
    case MEAN:
        return p >= 0 && p <= 0x1p53;
    case COUNT:
        return p >= 0 && p <= 0x1p53 && floor(p) == p;
    case PART:
        return p >= 0 && p <= 1;
    case NONE:
        break;
    }
    return true;
}

const char *gx_dist_refuses(gx_dist_kind kind, const double *parameters, int *which)
{
    static const char *const words[] = {[FINITE] = "finite",
                                        [POSITIVE] = "positive and finite",
                                        [MEAN] = "from 0 to 2^53",
                                        [COUNT] = "a whole number from 0 to 2^53",
                                        [PART] = "from 0 to 1"};
    for (int k = 0; k < 3 && dists[kind].domain[k] != NONE; k++) {
        if (!is_inside(dists[kind].domain[k], parameters[k])) {
            *which = k;
            return words[dists[kind].domain[k]];
        }
    }
    return NULL;
}

double gx_dist(gx_dist_kind kind, gx_dist_of of, double x, const double *parameters)
{
    const dist *d = &dists[kind];
    int which;
    if (isnan(x) || gx_dist_refuses(kind, parameters, &which) != NULL) {
        return NAN;
    }
    if (of == GX_DIST_QUANTILE || of == GX_DIST_ISF) {
        return quantile(kind, of == GX_DIST_ISF, x, parameters);
    }
    bool is_below = x < d->least || x == -HUGE_VAL;
    bool is_above = x > d->most || x == HUGE_VAL;
    if (is_below || is_above) {
        return of == GX_DIST_PDF ? 0 : (of == GX_DIST_CDF) == is_above;
    }
    if (of == GX_DIST_PDF) {
        return (double)d->density(parameters, x);
    }
    gx_tails t = d->tails(parameters, x);
    return (double)(of == GX_DIST_CDF ? t.lower : t.upper);
}
