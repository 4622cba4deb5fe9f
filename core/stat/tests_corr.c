/*
** Tests of correlation: Pearson's r, Spearman's rho, Kendall's tau-b.
**
** r of a normal sample is beta-distributed on (-1, 1) with a = b = n / 2 - 1 when nothing is
** correlated (R. A. Fisher, Biometrika 10, 1915), and artanh r is about normal with variance
** 1 / (n - 3), which gives its interval.  rho is r of the ranks, with the t distribution of n - 2
** degrees of freedom.  tau is counted in O(n log n) by W. R. Knight (JASA 61, 1966); without ties
** and of a small sample its distribution is exact, by the number of permutations with so many
** inversions (M. G. Kendall, Rank Correlation Methods); else normal, with Kendall's variance under
** ties.
*/
#include "tests.h"

#include <float.h>
#include <math.h>

// r and rho ---------------------------------------------------------------------------------------

/* What both ask for first; NULL, or why there is no coefficient. */
static const char *find_fault(const gx_sample *s)
{
    return s->n < 2                                   ? "fewer than two rows have no correlation"
           : !s->all.is_varied || !s->other.is_varied ? "one of the two is constant"
                                                      : NULL;
}

/* Of what is perfectly in line exactly 1 or -1: so one root, where the product is in range. */
static double coefficient_of(const gx_sample *s)
{
    double product = s->all.m2 * s->other.m2;
    bool is_in_range = product >= DBL_MIN && isfinite(product);
    double r = s->cross / (is_in_range ? sqrt(product) : sqrt(s->all.m2) * sqrt(s->other.m2));
    return fmax(-1, fmin(1, r));
}

static void find_interval(const gx_sample *s, double r, const gx_test_options *opt, gx_test *out)
{
    const double standard[2] = {0, 1};
    double tail = 1 - opt->confidence;
    tail = opt->alternative == GX_TWO_SIDED ? tail / 2 : tail;
    double z = atanh(r), width = gx_dist(GX_DIST_NORMAL, GX_DIST_ISF, tail, standard);
    width = s->n > 3 ? width / sqrt((double)(s->n - 3)) : (double)INFINITY;
    bool is_open = s->n <= 3;
    out->ci_low = is_open || opt->alternative == GX_LESS ? -1 : tanh(z - width);
    out->ci_high = is_open || opt->alternative == GX_GREATER ? 1 : tanh(z + width);
}

static gx_code pearson(gx_sample *s, const gx_test_options *opt, gx_test *out, gx_err *err)
{
    double r = coefficient_of(s), half = (double)s->n / 2 - 1;
    const double parameters[2] = {half, half};
    out->method = "Pearson's r";
    GX_TRY(gx_test_squares(&s->all, err));
    GX_TRY(gx_test_squares(&s->other, err));
    out->statistic = out->effect = r;
    find_interval(s, r, opt, out);
    if (s->n == 2) {
        out->p_value = 1; // two points are always in line
        return GX_OK;
    }
    out->df = (double)(s->n - 2);
    double at = opt->alternative == GX_LESS      ? 1 + r
                : opt->alternative == GX_GREATER ? 1 - r
                                                 : 1 - fabs(r);
    out->p_value = gx_dist(GX_DIST_BETA, GX_DIST_CDF, at / 2, parameters);
    out->p_value *= opt->alternative == GX_TWO_SIDED ? 2 : 1;
    return GX_OK;
}

static gx_code spearman(gx_sample *s, const gx_test_options *opt, gx_test *out, gx_err *err)
{
    out->method = "Spearman's rho";
    for (int side = 0; side < 2; side++) {
        GX_TRY(gx_sample_sort(s, NULL, err));
        gx_sample_rank(s);
        gx_sample_swap(s);
    }
    for (int64_t k = 0; k < s->rows; k++) { // multiples of 1/4, whose sums are exact
        double mean = 0.5 * (double)(s->rows + 1), x = s->row[k].x - mean, y = s->row[k].y - mean;
        s->all.m2 += x * x;
        s->other.m2 += y * y;
        s->cross += x * y;
    }
    s->all.is_varied = s->all.m2 > 0;
    s->other.is_varied = s->other.m2 > 0;
    const char *fault = find_fault(s);
    if (fault != NULL) {
        return gx_test_without(out, fault);
    }
    double rho = coefficient_of(s);
    out->statistic = out->effect = rho;
    if (s->n == 2) {
        return gx_test_without(out, "two rows are always in order, up or down");
    }
    out->df = (double)(s->n - 2);
    double t = rho * sqrt(out->df / ((rho + 1) * (1 - rho)));
    out->p_value = gx_test_p(GX_DIST_T, &out->df, t, opt->alternative);
    out->note = fabs(rho) == 1 ? "the ranks agree in every row, where the t distribution ends: "
                                 "the p-value is not exactly that"
                               : NULL;
    return GX_OK;
}

// tau ---------------------------------------------------------------------------------------------

enum { EXACT_ROWS = 33, EXACT_INVERSIONS = EXACT_ROWS * (EXACT_ROWS - 1) / 4 + 2 };

/* Of the permutations of n: P(inversions <= k), k < EXACT_INVERSIONS. */
static double sum_inversions(int64_t n, int64_t k)
{
    double p[EXACT_INVERSIONS] = {1}, sum = 0;
    for (int64_t i = 2; i <= n && k >= 0; i++) { // one of i places for the i-th
        for (int64_t v = 1; v <= k; v++) {
            p[v] += p[v - 1];
        }
        for (int64_t v = k; v >= 0; v--) {
            p[v] = (p[v] - (v >= i ? p[v - i] : 0)) / (double)i;
        }
    }
    for (int64_t v = 0; v <= k; v++) {
        sum += p[v];
    }
    return sum;
}

/* P(inversions <= k) for every k, from the shorter tail. */
static double exact_tau(int64_t n, int64_t k)
{
    int64_t rest = n * (n - 1) / 2 - k - 1;
    return k <= rest ? sum_inversions(n, k) : 1 - sum_inversions(n, rest);
}

/* What Kendall's variance takes of the ties of one side; n rows. */
typedef struct tied {
    double pairs, x0, x1; /* sums of t (t - 1) / 2, t (t - 1) (t - 2), t (t - 1) (2 t + 5) */
} tied;

static tied tied_of(gx_ties ties, double n)
{
    return (tied){.pairs = (ties.squares - n) / 2,
                  .x0 = ties.cubes - 3 * ties.squares + 2 * n,
                  .x1 = 2 * ties.cubes + 3 * ties.squares - 5 * n};
}

/* Pairs of rows that are equal in both; the rows are sorted by x, then by y. */
static double count_equal(const gx_sample *s)
{
    double pairs = 0;
    int64_t length = 0;
    for (int64_t k = 1; k < s->rows; k++) {
        const gx_pair *a = &s->row[k - 1], *b = &s->row[k];
        length = a->x == b->x && a->y == b->y ? length + 1 : 0;
        pairs += (double)length;
    }
    return pairs;
}

static gx_code kendall(gx_sample *s, const gx_test_options *opt, gx_test *out, gx_err *err)
{
    int64_t discordant = 0, rows = s->rows;
    double n = (double)rows, all = n * (n - 1) / 2;
    out->method = "Kendall's tau-b";
    gx_sample_swap(s);
    GX_TRY(gx_sample_sort(s, NULL, err));
    gx_sample_swap(s);
    GX_TRY(gx_sample_sort(s, NULL, err)); // by x, then by y
    double both = count_equal(s);
    tied x = tied_of(gx_sample_rank(s), n);
    gx_sample_swap(s);
    GX_TRY(gx_sample_sort(s, &discordant, err));
    tied y = tied_of(gx_sample_rank(s), n);
    if (rows < 2 || x.pairs == all || y.pairs == all) {
        return gx_test_without(out, rows < 2 ? "fewer than two rows have no correlation"
                                             : "one of the two is constant");
    }
    double score = all - x.pairs - y.pairs + both - 2 * (double)discordant;
    double tau = score / sqrt(all - x.pairs) / sqrt(all - y.pairs);
    out->statistic = out->effect = fmax(-1, fmin(1, tau));
    int64_t concordant = rows * (rows - 1) / 2 - discordant; // of rows without ties
    if (x.pairs == 0 && y.pairs == 0 &&
        (rows <= EXACT_ROWS || gx_min(discordant, concordant) <= 1)) {
        int64_t k = opt->alternative == GX_LESS      ? concordant
                    : opt->alternative == GX_GREATER ? discordant
                                                     : gx_min(discordant, concordant);
        double p = exact_tau(rows, k);
        out->method = "Kendall's tau-b, exact";
        out->p_value = opt->alternative == GX_TWO_SIDED ? fmin(1, 2 * p) : p;
        return GX_OK;
    }
    const double m = n * (n - 1), standard[2] = {0, 1};
    double variance = (m * (2 * n + 5) - x.x1 - y.x1) / 18 + 2 * x.pairs * y.pairs / m +
                      x.x0 * y.x0 / (9 * m * (n - 2));
    out->method = "Kendall's tau-b, normal approximation";
    out->p_value = gx_test_p(GX_DIST_NORMAL, standard, score / sqrt(variance), opt->alternative);
    return GX_OK;
}

gx_code gx_test_corr(gx_sample *s, const gx_test_options *opt, gx_test *out, gx_err *err)
{
    if (opt->coefficient == GX_KENDALL) {
        return kendall(s, opt, out, err);
    }
    if (opt->coefficient == GX_SPEARMAN) {
        return spearman(s, opt, out, err);
    }
    out->method = "Pearson's r";
    const char *fault = find_fault(s);
    return fault != NULL ? gx_test_without(out, fault) : pearson(s, opt, out, err);
}
