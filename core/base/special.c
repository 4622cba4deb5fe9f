/*
** Incomplete gamma and beta functions: see special.h.
**
** Powers.  x^k e^-x / Gamma(k + 1) = exp(-g(k) - D(k, x)) with the deviance (C. Loader, "Fast and
** accurate computation of binomial probabilities", 2000)
**
**     D(k, x) = k log(k / x) - k + x,     g(k) = log Gamma(k + 1) - k log k + k,
**
** neither of which loses digits where k and x are large and close.  The binomial mass has one g for
** each of its three factorials and two deviances.
**
** Tails of small shapes: the power series of the lower one, the continued fractions of the upper
** one (Legendre's; for beta the contracted one of A. DiDonato and A. Morris, "Significant digit
** computation of the incomplete beta function ratios", TOMS 18, 1992).
**
** Tails of large shapes near the mean: N. Temme's uniform expansions.  With m = a (gamma) or
** min(a, b) (beta), and the deviance m zeta^2 / 2, signed by the side of the mean,
**
**     upper = erfc(zeta sqrt(m / 2)) / 2 + exp(-m zeta^2 / 2) / sqrt(2 pi m) S(zeta).
**
** The density in zeta is f(zeta) times a Gauss function; with f = sum f_k zeta^k, S is
** sum b_k zeta^k / (1 + b_1 / m), where b_{k-1} = f_k + (k + 1) b_{k+1} / m from above down
** (N. Temme, "A set of algorithms for the incomplete gamma functions", 1994).  The gamma function
** has one table of f; of the beta function they come from the equation that the deviance
** obeys, see beta_coefficients().
**
** The normal quantile: M. Wichura's algorithm AS241 (Applied Statistics 37, 1988), and a step of
** Newton's where long double is meant.  Other inverses: Halley's iteration for the logarithm of the
** smaller tail as a function of log x (gamma) or log(x / y) (beta), where it is concave: Newton's
** iteration would converge from any place on the side of the small values, and never leave it.
*/
#include "special.h"

#include "random_tables.h"

#include <complex.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

static const long double LOG_2PI = 1.837877066409345483560659472811235279723L;
static const long double SQRT_2PI = 2.506628274631000502415765284811045253007L;
static const long double SQRT_HALF = 0.7071067811865475244008443621048490392848L;

/* What a term may be, of the sum, to be left out; how far from 1 the last factor of a fraction. */
static const long double SMALL = 2e-20L, NEAR_ONE = 3e-19L; // 64 bits, where there are more too

/* Loops end before. */
enum { MOST_STEPS = 20000 };

// Powers ------------------------------------------------------------------------------------------

/* g(k) = log Gamma(k + 1) - k log k + k.  Stirling's series is exact to 1e-20 from 10 on. */
static long double log_stirling(long double k)
{
    static const long double over[] = {1.0L / 12,           -1.0L / 360,       1.0L / 1260,
                                       -1.0L / 1680,        1.0L / 1188,       -691.0L / 360360,
                                       1.0L / 156,          -3617.0L / 122400, 43867.0L / 244188,
                                       -174611.0L / 125400, 77683.0L / 5796};
    if (k == 0) {
        return 0;
    }
    if (k < 10) {
        int sign;
        return lgammal_r(k + 1, &sign) - k * logl(k) + k;
    }
    long double square = 1 / (k * k), sum = 0;
    for (int i = k > 1e3L ? 3 : COUNT(over) - 1; i >= 0; i--) {
        sum = sum * square + over[i];
    }
    return 0.5L * (LOG_2PI + logl(k)) + sum / k;
}

/* D(k, x) = k log(k / x) - k + x with less = k - x, which has digits of its own. */
static long double deviance(long double k, long double x, long double less)
{
    if (k == 0) {
        return x;
    }
    long double v = less / (k + x), square = v * v;
    if (square > 0.01L) {
        return k * logl(k / x) - less;
    }
    // log(k / x) = 2 artanh v
    long double sum = 0, term = 2 * k * v * square, rest = less * v;
    for (int i = 3; fabsl(term) > SMALL * rest; i += 2) {
        sum += term / i;
        term *= square;
    }
    return rest + sum;
}

static long double beta_deviance(long double a, long double b, long double x, long double y)
{
    long double less = a * y - b * x, n = a + b;
    return deviance(a, n * x, less) + deviance(b, n * y, -less);
}

long double gx_poisson_mass(long double k, long double x)
{
    return expl(-log_stirling(k) - deviance(k, x, k - x));
}

static long double binomial_factor(long double a, long double b)
{
    return expl(log_stirling(a + b) - log_stirling(a) - log_stirling(b));
}

long double gx_binomial_mass(long double a, long double b, long double x, long double y)
{
    return binomial_factor(a, b) * expl(-beta_deviance(a, b, x, y));
}

// Small shapes ------------------------------------------------------------------------------------

/* log Gamma(1 + a) for a >= 0, with all its digits near 0. */
static long double log_gamma1p(long double a)
{
    static const long double by[] = {-0.5772156649015328606065L, 0.8224670334241132182362L,
                                     -0.4006856343865314284666L, 0.2705808084277845478790L,
                                     -0.2073855510286739852663L, 0.1695571769974081899524L};
    int sign;
    if (a > 1e-3L) {
        return lgammal_r(1 + a, &sign);
    }
    long double sum = 0;
    for (int i = COUNT(by) - 1; i >= 0; i--) {
        sum = (sum + by[i]) * a;
    }
    return sum;
}

static long double digamma(long double b)
{
    long double shift = 0;
    for (; b < 10; b += 1) {
        shift -= 1 / b;
    }
    static const long double over[] = {
        1.0L / 12,       -1.0L / 120, 1.0L / 252,      -1.0L / 240,      1.0L / 132,
        -691.0L / 32760, 1.0L / 12,   -3617.0L / 8160, 43867.0L / 14364, -174611.0L / 6600};
    long double square = 1 / (b * b), sum = 0;
    for (int i = COUNT(over) - 1; i >= 0; i--) {
        sum = (sum + over[i]) * square;
    }
    return shift + logl(b) - 0.5L / b - sum;
}

/* log(Gamma(a + b) / Gamma(b)) for small a: the integral of digamma by Gauss's rule of 3 points. */
static long double log_gamma_ratio(long double a, long double b)
{
    static const long double outer = 0.3872983346207416885180L; // sqrt(3 / 5) / 2
    if (a > 1e-3L * b) {
        return log_gamma1p(a + b) - log_gamma1p(b) - log1pl(a / b);
    }
    return a / 18 *
           (8 * digamma(b + a / 2) +
            5 * (digamma(b + a * (0.5L - outer)) + digamma(b + a * (0.5L + outer))));
}

// Large shapes ------------------------------------------------------------------------------------

/* From these shapes on; those of beta_coefficients() cost more than a fraction below. */
static const long double LARGE_GAMMA = 30, LARGE_BETA = 500;

enum { MOST_TERMS = 40 };

/* How many f_k count: they shrink as 0.2821^k, and b_k brings in sqrt(k / m) for zeta. */
static int terms_needed(long double m, long double zeta)
{
    double at = fmax(fabs((double)zeta), sqrt(20 / (double)m));
    int count = (int)(46 / -log(0.2821 * fmin(at, 1))) + 4;
    return count < MOST_TERMS ? count : MOST_TERMS;
}

/* The lower tail as a function of w = log x (gamma) or log(x / y) (beta), a <= b. */
typedef struct curve {
    long double a, b;    /* b == 0: gamma */
    long double factor;  /* of exp(-deviance) in the density; 0: not computed yet */
    gx_tails tails;      /* where it was asked for last */
    long double density; /* there, in w */
    long double slope;   /* there, of the density's logarithm */
} curve;

static gx_tails swapped(gx_tails t)
{
    return (gx_tails){t.upper, t.lower};
}

static void put_tail(curve *c, bool is_upper, long double tail)
{
    gx_tails t = {1 - tail, tail};
    c->tails = is_upper ? t : swapped(t);
}

static void large_shape(curve *c, long double deviance, long double zeta, const long double *f,
                        int count)
{
    long double m = c->a, b[MOST_TERMS + 2] = {0}, sum = 0;
    for (int k = count - 1; k > 0; k--) {
        b[k - 1] = f[k] + (long double)(k + 1) * b[k + 1] / m;
    }
    for (int k = count - 2; k >= 0; k--) {
        sum = sum * zeta + b[k];
    }
    long double over = expl(-deviance) / (SQRT_2PI * sqrtl(m) * (1 + b[1] / m));
    long double half = 0.5L * erfcl(sqrtl(deviance));
    c->density = over * m * (c->b == 0 ? 1 : sqrtl(c->b / (m + c->b)));
    put_tail(c, zeta > 0, zeta > 0 ? half + over * sum : half - over * sum);
}

// Incomplete gamma function -----------------------------------------------------------------------

gx_tails gx_normal_tails(long double z)
{
    long double tail = 0.5L * erfcl(fabsl(z) * SQRT_HALF);
    gx_tails above = {1 - tail, tail};
    return z > 0 ? above : swapped(above);
}

/* The expansion of zeta / (x / a - 1) in zeta, where zeta^2 / 2 = x / a - 1 - log(x / a). */
static const long double gamma_f[MOST_TERMS] = {
    1.0L,
    -0.3333333333333333333333L,
    0.08333333333333333333333L,
    -0.01481481481481481481481L,
    1.157407407407407407407e-3L,
    3.527336860670194003527e-4L,
    -1.787551440329218106996e-4L,
    3.919263178522437781697e-5L,
    -2.185448510679992161474e-6L,
    -1.854062210715159960702e-6L,
    8.296711340953086005016e-7L,
    -1.766595273682607930436e-7L,
    6.707853543401498580369e-9L,
    1.026180978424030804257e-8L,
    -4.382036018453353186553e-9L,
    9.147699582236790234182e-10L,
    -2.551419399494624976688e-11L,
    -5.830772132550425067464e-11L,
    2.436194802066741624369e-11L,
    -5.027669280114175589091e-12L,
    1.100439203195613477084e-13L,
    3.371763262400985378828e-13L,
    -1.392388722418162065919e-13L,
    2.853489380704744320397e-14L,
    -5.139111834242572618991e-16L,
    -1.97522882943494428354e-15L,
    8.099521156704561334071e-16L,
    -1.652253121639816181915e-16L,
    2.530543009747888423271e-18L,
    1.168693973855957658882e-17L,
    -4.770037049820484758222e-18L,
    9.699126059056237124207e-19L,
    -1.293256553803817501044e-20L,
    -6.969230253185693380531e-20L,
    2.835145432176936599923e-20L,
    -5.750982159007047500163e-21L,
    6.792953783488914564615e-23L,
    4.182125426111335857808e-22L,
    -1.69715396200476037322e-22L,
    3.43621593839431988296e-23L,
};

/* 1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ...: P(a, x) over the Poisson mass. */
static long double gamma_series(long double a, long double x)
{
    long double sum = 1, term = 1;
    for (int k = 1; k < MOST_STEPS && term > SMALL * sum; k++) {
        term *= x / (a + k);
        sum += term;
    }
    return sum;
}

/* Q(a, x) over x^a e^-x / Gamma(a), by Lentz's algorithm. */
static long double gamma_fraction(long double a, long double x)
{
    long double b = x + 1 - a, c = LDBL_MAX, d = 1 / b, h = d, change = 0;
    for (int k = 1; k < MOST_STEPS && fabsl(change - 1) > NEAR_ONE; k++) {
        long double numerator = k * (a - k);
        b += 2;
        d = 1 / (numerator * d + b);
        c = b + numerator / c;
        change = c * d;
        h *= change;
    }
    return h;
}

/*
** Tails of a small shape near 0: the lower one is exp(power) (1 + correction), the power and the
** correction being of the order of the shape.
*/
static void small_shape(curve *c, long double power, long double correction)
{
    long double factor = expl(power);
    c->tails.lower = factor + factor * correction;
    c->tails.upper = -expm1l(power) - factor * correction;
}

/* P(a, x) = x^a / Gamma(a + 1) (1 + a sum of (-x)^n / (n! (a + n))), n > 0. */
static void small_gamma(curve *c, long double x)
{
    long double a = c->a, power = a * logl(x) - log_gamma1p(a), term = 1, sum = 0;
    for (int n = 1; fabsl(term) > SMALL; n++) {
        term *= -x / n;
        sum += term / (a + n);
    }
    c->density = a * expl(power - x);
    small_shape(c, power, a * sum);
}

static void gamma_at(curve *c, long double x)
{
    long double a = c->a, D = deviance(a, x, a - x), zeta = sqrtl(2 * D / a);
    c->slope = a - x;
    if (a >= LARGE_GAMMA && zeta < 1) {
        zeta = x > a ? zeta : -zeta;
        large_shape(c, D, zeta, gamma_f, terms_needed(a, zeta));
        return;
    }
    if (a < 1 && x < 1.5L) {
        small_gamma(c, x);
        return;
    }
    c->factor = c->factor == 0 ? a * expl(-log_stirling(a)) : c->factor;
    c->density = c->factor * expl(-D);
    bool is_upper = x >= a;
    put_tail(c, is_upper, c->density * (is_upper ? gamma_fraction(a, x) : gamma_series(a, x) / a));
}

gx_tails gx_gamma_tails(long double a, long double x)
{
    curve c = {.a = a};
    if (x <= 0) {
        return (gx_tails){0, 1};
    }
    gamma_at(&c, x);
    return c.tails;
}

// Incomplete beta function ------------------------------------------------------------------------

/*
** f = zeta / v for v = (x / x0 - 1) / sqrt(y0), x0 = a / (a + b) <= 1/2.  The deviance gives
**
**     zeta (1 + slant v - x0 v^2) = v v',     slant = (y0 - x0) / sqrt(y0),
**
** which yields the coefficients of q = v^2, then those of v, then those of f.
*/
static void beta_coefficients(long double x0, long double y0, int count, long double *f)
{
    long double q[MOST_TERMS + 3] = {0}, v[MOST_TERMS + 2] = {0};
    long double slant = (y0 - x0) / sqrtl(y0);
    v[1] = q[2] = f[0] = 1;
    for (int n = 2; n <= count; n++) {
        q[n + 1] = 2 * (slant * v[n - 1] - x0 * q[n - 1]) / (n + 1);
        long double sum = q[n + 1];
        for (int k = 2; k < n; k++) {
            sum -= v[k] * v[n + 1 - k];
        }
        v[n] = sum / 2;
    }
    for (int n = 1; n < count; n++) {
        f[n] = 0;
        for (int k = 1; k <= n; k++) {
            f[n] -= v[k + 1] * f[n - k];
        }
    }
}

/* I_x(a, b) over x^a y^b / B(a, b), for x up to about the mean, by Lentz's algorithm. */
static long double beta_fraction(long double a, long double b, long double x, long double y)
{
    long double less = a * y - b * x, n = a + b;
    long double h = a * (less + 1) / (a + 1), c = h, d = 0, change = 0;
    for (int k = 1; k < MOST_STEPS && fabsl(change - 1) > NEAR_ONE; k++) {
        long double at = a + 2 * k, w = k * (b - k) * x / (at - 1);
        long double numerator = (a + k - 1) / (at - 1) * (n + k - 1) * x * w;
        long double next = k + w + (a + k) * (less + 1 + k * (1 + y)) / (at + 1);
        d = 1 / (next + numerator * d);
        c = next + numerator / c;
        change = c * d;
        h *= change;
    }
    return 1 / h;
}

/* I_x(a, b) = x^a / (a B(a, b)) (1 + a sum of (1 - b) ... (n - b) x^n / (n! (a + n))), n > 0. */
static void small_beta(curve *c, long double x, long double y)
{
    long double a = c->a, b = c->b, power = a * logl(x) - log_gamma1p(a) + log_gamma_ratio(a, b);
    long double term = 1, sum = 0;
    for (int n = 1; fabsl(term) > SMALL; n++) {
        term *= (n - b) * x / n;
        sum += term / (a + n);
    }
    c->density = a * expl(power + b * (y > 0.5L ? log1pl(-x) : logl(y)));
    small_shape(c, power, a * sum);
}

static void beta_at(curve *c, long double x, long double y)
{
    long double a = c->a, b = c->b, n = a + b;
    long double D = beta_deviance(a, b, x, y), zeta = sqrtl(2 * D / a);
    c->slope = a * y - b * x;
    if (a >= LARGE_BETA && zeta < 0.15L) {
        long double f[MOST_TERMS];
        zeta = c->slope < 0 ? zeta : -zeta;
        int count = terms_needed(a, zeta);
        beta_coefficients(a / n, b / n, count, f);
        large_shape(c, D, zeta, f, count);
        return;
    }
    if (a < 1e-3L && x * (n + 2) < a + 1) {
        small_beta(c, x, y);
        return;
    }
    c->factor = c->factor == 0 ? a / n * b * binomial_factor(a, b) : c->factor;
    c->density = c->factor * expl(-D);
    bool is_upper = x * (n + 2) >= a + 1;
    put_tail(c, is_upper,
             c->density * (is_upper ? beta_fraction(b, a, y, x) : beta_fraction(a, b, x, y)));
}

gx_tails gx_beta_tails(long double a, long double b, long double x, long double y)
{
    if (a > b) {
        return swapped(gx_beta_tails(b, a, y, x));
    }
    curve c = {.a = a, .b = b};
    if (x <= 0 || y <= 0) {
        return x <= 0 ? (gx_tails){0, 1} : (gx_tails){1, 0};
    }
    beta_at(&c, x, y);
    return c.tails;
}

// Inverses ----------------------------------------------------------------------------------------

double gx_normal_quantile(double p)
{
    double q = p - 0.5, tail = q < 0 ? p : 1 - p;
    if (fabs(q) <= 0.425) {
        double r = 0.180625 - q * q;
        return q * horner(central_a, r) / horner(central_b, r);
    }
    double r = sqrt(-log(tail));
    double z = tail == 0 ? HUGE_VAL
               : r <= 5  ? horner(middle_c, r - 1.6) / horner(middle_d, r - 1.6)
                         : horner(far_e, r - 5) / horner(far_f, r - 5);
    return q < 0 ? -z : z;
}

long double gx_normal_inverse(gx_tails tails)
{
    bool is_above = tails.upper < tails.lower;
    long double tail = is_above ? tails.upper : tails.lower, middle = 0.5L - tail;
    if (tail <= 0 || middle == 0) {
        return middle == 0 ? 0 : is_above ? HUGE_VALL : -HUGE_VALL;
    }
    long double z = -gx_normal_quantile((double)tail);
    long double over =
        z < 0.7L ? middle - 0.5L * erfl(z * SQRT_HALF) : 0.5L * erfcl(z * SQRT_HALF) - tail;
    z += over * SQRT_2PI * expl(z * z / 2); // Newton's step: that was within 1e-15
    return is_above ? z : -z;
}

/* x and y = 1 - x of log(x / y), the digits of both. */
static long double from_odds(long double w, long double *y)
{
    long double odds = expl(-fabsl(w)), small = odds / (1 + odds), large = 1 / (1 + odds);
    *y = w < 0 ? large : small;
    return w < 0 ? small : large;
}

static void curve_at(curve *c, long double w)
{
    if (c->b == 0) {
        gamma_at(c, expl(w));
    } else {
        long double y, x = from_odds(w, &y);
        beta_at(c, x, y);
    }
}

/* Beyond, exp is 0 or infinite. */
static const long double MOST_LOG = 11300;

/*
** The w of a tail, from a first value.  A step of Halley's from where the tail is off by the part r
** leaves about r^3; one that leaves the bracket is replaced by a halving.
*/
static long double solve(curve *c, gx_tails wanted, long double w)
{
    bool is_lower = wanted.lower <= wanted.upper;
    long double aim = is_lower ? wanted.lower : wanted.upper, log_aim = logl(aim);
    long double low = -MOST_LOG, high = MOST_LOG;
    for (int k = 0; k < 200; k++) {
        curve_at(c, w);
        long double tail = is_lower ? c->tails.lower : c->tails.upper;
        long double off =
            fabsl(tail - aim) < aim / 2 ? log1pl((tail - aim) / aim) : logl(tail) - log_aim;
        if (off == 0) {
            return w;
        }
        if ((off > 0) == is_lower) {
            high = w;
        } else {
            low = w;
        }
        long double rate = (is_lower ? c->density : -c->density) / tail;
        long double bend = off * (c->slope - rate) / 2;
        long double next = w - off / (fabsl(bend) < fabsl(rate) / 2 ? rate - bend : rate);
        bool is_inside = next >= low && next <= high;
        if (is_inside && fabsl(off) < 1e-6L) {
            return next;
        }
        if (high - low < 1e-18L * fabsl(w)) {
            return w;
        }
        w = is_inside ? next : (low + high) / 2;
    }
    return w;
}

/* The normal deviate of tails, roughly. */
static long double rough_deviate(gx_tails t)
{
    return t.upper < t.lower ? -gx_normal_quantile((double)t.upper)
                             : gx_normal_quantile((double)t.lower);
}

static long double log_gamma(long double a)
{
    int sign;
    return lgammal_r(a, &sign);
}

/* log x of the gamma function, roughly: P(a, x) < x^a / Gamma(a + 1), so x is above that. */
static long double rough_gamma(long double a, gx_tails t)
{
    long double root = sqrtl(a), least = (logl(t.lower) + log_gamma(a + 1)) / a;
    long double cube = 1 - 1 / (9 * a) + rough_deviate(t) / (3 * root); // Wilson and Hilferty
    if (cube > 0 && (a > 0.5L || t.upper < 0.1L)) {
        return fmaxl(least, logl(a) + 3 * logl(cube));
    }
    return least;
}

long double gx_gamma_inverse(long double a, gx_tails tails)
{
    curve c = {.a = a};
    if (tails.lower <= 0) {
        return 0;
    }
    if (tails.upper <= 0) {
        return HUGE_VALL;
    }
    long double w = rough_gamma(a, tails);
    return w < -MOST_LOG ? 0 : expl(solve(&c, tails, w));
}

/* log(x / y) of the beta function for 2 <= a <= b, roughly (Carter; Abramowitz, Stegun 26.5.22). */
static long double rough_odds(long double a, long double b, long double deviate)
{
    long double over_a = 1 / (2 * a - 1), over_b = 1 / (2 * b - 1), h = 2 / (over_a + over_b);
    long double lambda = (deviate * deviate - 3) / 6;
    long double bend = (over_b - over_a) * (lambda + 5 / 6.0L - 2 / (3 * h));
    return logl(a / b) + 2 * (deviate * sqrtl(h + lambda) / h + bend);
}

/* For all a <= b.  I_x(a, b) < (x / y)^a / (a B(a, b)), and the same with x and y exchanged. */
static long double rough_beta(const curve *c, gx_tails t)
{
    long double a = c->a, b = c->b, w;
    long double log_beta = a * logl(a / (a + b)) - b * log1pl(a / b) - logl(c->factor);
    long double least = (logl(t.lower) + logl(a) + log_beta) / a;
    long double most = -(logl(t.upper) + logl(b) + log_beta) / b;
    if (a >= 2 && b < 20 * a) {
        w = rough_odds(a, b, rough_deviate(t));
    } else if (b >= 1) { // -log(1 - x) is nearly a gamma variate over b + (a - 1) / 2
        w = logl(expm1l(expl(rough_gamma(a, t)) / (b + (a - 1) / 2)));
    } else {
        w = t.lower < t.upper ? least : most;
    }
    return fminl(fmaxl(w, least), most);
}

long double gx_beta_inverse(long double a, long double b, gx_tails tails, long double *y)
{
    if (a > b) {
        long double x;
        *y = gx_beta_inverse(b, a, swapped(tails), &x);
        return x;
    }
    if (tails.lower <= 0 || tails.upper <= 0) {
        *y = tails.lower <= 0;
        return tails.lower > 0;
    }
    curve c = {.a = a, .b = b, .factor = a / (a + b) * b * binomial_factor(a, b)};
    long double w = rough_beta(&c, tails);
    w = fabsl(w) > MOST_LOG ? w : solve(&c, tails, w);
    return from_odds(w, y);
}

// The logarithm of a complex gamma ----------------------------------------------------------------

/*
** Stirling's series where the real part is 7 or more; below that log gamma(z) = log gamma(z + 1) -
** log z, whose logarithms are the principal ones.
*/
void gx_log_gamma(double z[2])
{
    static const double of_power[] = {1.0 / 12,    -1.0 / 360,       1.0 / 1260,
                                      -1.0 / 1680, 1.0 / 1188,       -691.0 / 360360,
                                      1.0 / 156,   -3617.0 / 122400, 43867.0 / 244188};
    double complex x = CMPLX(z[0], z[1]), sum = 0, power, square;
    if (z[1] == 0 && z[0] <= 0 && z[0] == floor(z[0])) {
        z[0] = HUGE_VAL;
        return;
    }
    for (int k = 0; creal(x) < 7 && k < 100007; k++, x += 1) {
        sum += clog(x);
    }
    square = 1 / (x * x);
    power = 1 / x;
    double complex value = (x - 0.5) * clog(x) - x + 0.5 * log(2 * acos(-1.0)) - sum;
    for (size_t k = 0; k < sizeof of_power / sizeof *of_power; k++, power *= square) {
        value += of_power[k] * power;
    }
    bool is_told = creal(x) >= 7;
    z[0] = is_told ? creal(value) : NAN;
    z[1] = is_told ? cimag(value) : NAN;
}
