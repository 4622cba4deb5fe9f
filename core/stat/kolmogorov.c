/*
** Distributions of Kolmogorov's and Smirnov's statistics of n numbers.
**
** One-sided, P(D+ > d) is exact (Z. W. Birnbaum and F. H. Tingey, Annals of Mathematical Statistics
** 22, 1951): d sum over j of C(n, j) (d + j/n)^(j - 1) (1 - d - j/n)^(n - j), whose terms are
** binomial probabilities of j by d + j/n.  Past SMIRNOV_ROWS numbers the sum is left to its first
** asymptotic term (U. R. Maag and G. Dicaire, Biometrika 58, 1971).
**
** Two-sided, the choice is that of R. Simard and P. L'Ecuyer, Journal of Statistical Software
** 39(11), 2011: the ends in closed form (H. Ruben and J. Gambino, Annals of the Institute of
** Statistical Mathematics 34, 1982), twice the one-sided probability for large d (R. G. Miller,
** JASA 51, 1956), else the matrix of J. Durbin by G. Marsaglia, W. W. Tsang and J. Wang, Journal of
** Statistical Software 8(18), 2003, and for many numbers the expansion of W. Pelz and I. J. Good,
** Journal of the Royal Statistical Society B 38, 1976.  Pomeranz's recursion, theirs for small n
** and middle d, is as exact as the matrix, which stands in its place.
*/
#include "tests.h"

#include <math.h>
#include <string.h>

enum { SMIRNOV_ROWS = 1000000, SMALL = 140, MATRIX_ROWS = 100000 };
static const double PI = 3.14159265358979323846;

double gx_smirnov_sf(int64_t n, double d)
{
    double sum = 0, rows = (double)n;
    if (!(d > 0 && d < 1)) {
        return d <= 0;
    }
    if (n > SMIRNOV_ROWS) {
        double z = 6 * rows * d + 1;
        return exp(-z * z / (18 * rows));
    }
    for (int64_t j = 0; j < n; j++) {
        const double by[2] = {rows, d + (double)j / rows};
        if (by[1] >= 1) {
            break;
        }
        sum += gx_dist(GX_DIST_BINOMIAL, GX_DIST_PDF, (double)j, by) / by[1];
    }
    return fmin(1, d * sum);
}

// The matrix --------------------------------------------------------------------------------------

static void multiply(int64_t m, const double *a, const double *b, double *c)
{
    memset(c, 0, (size_t)(m * m) * sizeof *c);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t k = 0; k < m; k++) {
            double by = a[i * m + k];
            for (int64_t j = 0; j < m && by != 0; j++) {
                c[i * m + j] += by * b[k * m + j];
            }
        }
    }
}

/* H of Marsaglia, Tsang and Wang: m x m, h the part by which n d is below the whole number k. */
static void fill_matrix(int64_t m, double h, double *matrix)
{
    double factorial = 1, power = 1;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < m; j++) {
            matrix[i * m + j] = i - j + 1 >= 0;
        }
    }
    for (int64_t i = 0; i < m; i++) {
        power *= h;
        matrix[i * m] -= power;
        matrix[(m - 1) * m + m - 1 - i] -= power;
    }
    // The corner lost h^m twice; it gets back the part where both ends meet.
    matrix[(m - 1) * m] += 2 * h - 1 > 0 ? pow(2 * h - 1, (double)m) : 0;
    for (int64_t below = 1; below <= m; below++) { // the diagonals by 1 / (i - j + 1)!
        factorial *= (double)below;
        for (int64_t j = 0; j + below - 1 < m; j++) {
            matrix[(j + below - 1) * m + j] /= factorial;
        }
    }
}

/* Kept in range by powers of two, whose sum is *exponent; matrix[at] says when. */
static void rescale(int64_t m, double *matrix, int64_t at, int64_t *exponent)
{
    int shift = 0;
    frexp(matrix[at], &shift);
    if (shift > -400 && shift < 400) {
        return;
    }
    for (int64_t k = 0; k < m * m; k++) {
        matrix[k] = ldexp(matrix[k], -shift);
    }
    *exponent += shift;
}

/* P(D <= d): n! / n^n of the middle of H^n. */
static gx_code matrix_cdf(const gx_sample *s, int64_t n, double d, double *p, gx_err *err)
{
    double nd = (double)n * d, *work = NULL;
    int64_t k = (int64_t)ceil(nd), m = 2 * k - 1, middle = (k - 1) * m + k - 1;
    size_t elements = (size_t)(m * m);
    int64_t exponent = 0, factors = 0;
    GX_TRY(
        gx_mem_calloc(s->ctx->mem, 3 * elements * sizeof *work, "exact distribution", &work, err));
    double *factor = work, *power = work + elements, *next = power + elements;
    fill_matrix(m, (double)k - nd, factor);
    for (int64_t i = 0; i < m; i++) {
        power[i * m + i] = 1;
    }
    for (int64_t rest = n; rest > 0; rest /= 2) {
        if (rest % 2 == 1) {
            multiply(m, power, factor, next);
            memcpy(power, next, elements * sizeof *power);
            exponent += factors;
            rescale(m, power, middle, &exponent);
        }
        multiply(m, factor, factor, next);
        memcpy(factor, next, elements * sizeof *factor);
        factors *= 2;
        rescale(m, factor, middle, &factors);
    }
    double result = power[middle];
    for (int64_t i = 1; i <= n; i++) {
        int shift = 0;
        result = frexp(result * (double)i / (double)n, &shift);
        exponent += shift;
    }
    *p = ldexp(result, (int)gx_max(exponent, -2000));
    gx_mem_free(s->ctx->mem, work);
    return GX_OK;
}

// The expansion -----------------------------------------------------------------------------------

/* Pelz and Good's P(D <= d) = K0 + K1 / sqrt n + K2 / n + K3 / n^(3/2) at z = sqrt(n) d. */
static double expand_cdf(int64_t n, double d)
{
    double z = sqrt((double)n) * d, z2 = z * z, z4 = z2 * z2, z6 = z4 * z2, pi2 = PI * PI;
    double odd[4] = {0}, even2 = 0, even3 = 0; // sums over odd m, and over whole k
    int64_t terms = (int64_t)ceil(16 * z / PI);
    for (int64_t k = terms; k >= 1; k--) {
        double m = (double)(2 * k - 1), m2 = m * m, m4 = m2 * m2, k2 = (double)(k * k);
        double q = exp(-pi2 * m2 / (8 * z2)), whole = exp(-pi2 * k2 / (2 * z2));
        odd[0] += q;
        odd[1] += q * (pi2 / 4 * m2 - z2);
        odd[2] += q * (6 * z6 + 2 * z4 + pi2 / 4 * (2 * z4 - 5 * z2) * m2 +
                       pi2 * pi2 / 16 * (1 - 2 * z2) * m4);
        odd[3] += q * (-30 * z6 - 90 * z4 * z4 + pi2 / 4 * (135 * z4 - 96 * z6) * m2 +
                       pi2 * pi2 / 16 * (212 * z4 - 60 * z2) * m4 +
                       pi2 * pi2 * pi2 / 64 * (5 - 30 * z2) * m4 * m2);
        even2 += k2 * whole;
        even3 += (3 * z2 - pi2 * k2) * k2 * whole;
    }
    double root = sqrt(2 * PI), rows = (double)n;
    double k0 = root / z * odd[0], k1 = root / (6 * z4) * odd[1];
    double k2 = root / (72 * z6 * z) * odd[2] - pi2 * root / (36 * z2 * z) * even2;
    double k3 = root / (6480 * z6 * z4) * odd[3] + pi2 * root / (216 * z6) * even3;
    return k0 + k1 / sqrt(rows) + k2 / rows + k3 / (rows * sqrt(rows));
}

/* n! / n^n (2 n d - 1)^n, for 1/2 < n d <= 1. */
static double lowest_cdf(int64_t n, double t)
{
    double product = 1, rows = (double)n;
    for (int64_t i = 1; i <= n && product > 0; i++) {
        product *= (double)i / rows * (2 * t - 1);
    }
    return product;
}

gx_code gx_kolmogorov_sf(const gx_sample *s, int64_t n, double d, double *p, gx_err *err)
{
    double rows = (double)n, t = rows * d, square = t * d, cdf = 1;
    if (!(d > 0 && d < 1)) {
        *p = d <= 0;
    } else if (t <= 1) {
        *p = t <= 0.5 ? 1 : 1 - lowest_cdf(n, t);
    } else if (t >= rows - 1) {
        *p = 2 * pow(1 - d, rows);
    } else if (d >= 0.5 || square > (n <= SMALL ? 4 : 2.2)) {
        *p = square >= 370 ? 0 : 2 * gx_smirnov_sf(n, d);
    } else if (n <= SMALL || (n <= MATRIX_ROWS && t * sqrt(d) <= 1.4)) {
        GX_TRY(matrix_cdf(s, n, d, &cdf, err));
        *p = 1 - cdf;
    } else {
        *p = 1 - expand_cdf(n, d);
    }
    *p = fmax(0, fmin(1, *p));
    return GX_OK;
}
