/*
** Tests of a distribution: Kolmogorov and Smirnov's, of one sample and of two, Shapiro and Wilk's.
**
** The statistic of two samples of n and m numbers is a whole number over their least common
** multiple, and its distribution is that of the largest distance of a random path from (0, 0) to
** (n, m) from the diagonal (J. L. Hodges, Arkiv foer Matematik 3, 1958).  The probability that a
** path has left the band on its way to (i, j) is a weighted mean of those to (i - 1, j) and (i, j -
** 1): sums of positive numbers only.  Beyond EXACT_ROWS in a sample: as if of one sample of n m /
** (n + m) numbers, or Hodges' formula 5.3.
**
** W and its p-value: P. Royston, Applied Statistics 44 (1995), AS R94; the polynomials are fitted
** to simulations of up to 5000 numbers.
*/
#include "tests.h"

#include <math.h>

enum { EXACT_ROWS = 10000, SHAPIRO_ROWS = 5000 };
static const double PI = 3.14159265358979323846;

// One sample --------------------------------------------------------------------------------------

/* The largest F_n - F and F - F_n of the sorted rows. */
static gx_code find_distances(const gx_sample *s, const gx_test_options *opt, double *above,
                              double *below, gx_err *err)
{
    double n = (double)s->rows;
    *above = *below = -1;
    for (int64_t k = 0; k < s->rows; k++) {
        double p = gx_dist(opt->dist, GX_DIST_CDF, s->row[k].x, opt->parameter);
        *above = fmax(*above, (double)(k + 1) / n - p);
        *below = fmax(*below, p - (double)k / n);
        if (k % 4096 == 4095) {
            GX_TRY(gx_sample_poll(s, err));
        }
    }
    return GX_OK;
}

static gx_code one_sample(gx_sample *s, const gx_test_options *opt, gx_test *out, gx_err *err)
{
    double above = 0, below = 0;
    GX_TRY(gx_sample_sort(s, NULL, err));
    GX_TRY(find_distances(s, opt, &above, &below, err));
    if (s->rows == 0) {
        return gx_test_without(out, "there is no row");
    }
    if (opt->alternative == GX_TWO_SIDED) {
        out->method = "Kolmogorov-Smirnov, one sample";
        out->statistic = fmax(above, below);
        return gx_kolmogorov_sf(s, s->rows, out->statistic, &out->p_value, err);
    }
    out->method = "Kolmogorov-Smirnov, one sample, one-sided";
    out->statistic = opt->alternative == GX_GREATER ? above : below;
    out->p_value = gx_smirnov_sf(s->rows, out->statistic);
    return GX_OK;
}

// Two samples -------------------------------------------------------------------------------------

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The band: a path is outside at (i, j) where i p - j q is at least h, or two-sided -h at most. */
typedef struct band {
    int64_t n, m, p, q, h;
    bool is_two_sided;
} band;

/* P(a random path leaves the band), a row of i after the other in `out` of m + 1 numbers. */
static gx_code leave_band(const gx_sample *s, const band *b, double *p, gx_err *err)
{
    double *out = NULL;
    GX_TRY(gx_mem_calloc(s->ctx->mem, (size_t)(b->m + 1) * sizeof *out, "exact distribution", &out,
                         err));
    gx_code code = GX_OK;
    for (int64_t i = 0; i <= b->n && code == GX_OK; i++) {
        for (int64_t j = 0; j <= b->m; j++) {
            int64_t apart = i * b->p - j * b->q;
            bool is_out = apart >= b->h || (b->is_two_sided && -apart >= b->h);
            double left = j > 0 ? out[j - 1] : 0, sum = (double)(i + j);
            out[j] = is_out ? 1 : i + j > 0 ? ((double)i * out[j] + (double)j * left) / sum : 0;
        }
        code = i % 64 == 63 ? gx_sample_poll(s, err) : GX_OK;
    }
    *p = out[b->m];
    gx_mem_free(s->ctx->mem, out);
    return code;
}

/* The largest F_n - F_m and F_m - F_n of the sorted rows, times the least common multiple. */
static void find_steps(const gx_sample *s, int64_t first, int64_t p, int64_t q, int64_t *above,
                       int64_t *below)
{
    int64_t apart = 0;
    *above = *below = 0;
    for (int64_t k = 0; k < s->rows; k++) {
        apart += s->row[k].tag == first ? p : -q;
        if (k + 1 == s->rows || s->row[k].x != s->row[k + 1].x) {
            *above = gx_max(*above, apart);
            *below = gx_max(*below, -apart);
        }
    }
}

/* As many rows as are in either sample, and so no exact distribution. */
static gx_code approximate(const gx_sample *s, const gx_test_options *opt, double n, double m,
                           gx_test *out, gx_err *err)
{
    double d = out->statistic, most = fmax(n, m), least = fmin(n, m);
    double both = most * least / (most + least);
    if (opt->alternative == GX_TWO_SIDED) {
        return gx_kolmogorov_sf(s, (int64_t)rint(both), d, &out->p_value, err);
    }
    double z = sqrt(both) * d;
    out->p_value =
        exp(-2 * z * z - 2 * z * (most + 2 * least) / sqrt(most * least * (most + least)) / 3);
    return GX_OK;
}

static gx_code two_samples(gx_sample *s, const gx_test_options *opt, gx_test *out, gx_err *err)
{
    int64_t order[2], above = 0, below = 0;
    gx_test_order(s, order);
    out->has_groups = true;
    if (s->group.levels.count < 2) {
        return gx_test_without(out, "there are fewer than two groups");
    }
    int64_t n = s->group.of[order[0]].n, m = s->group.of[order[1]].n;
    int64_t divisor = common_divisor(n, m), p = m / divisor, q = n / divisor;
    GX_TRY(gx_sample_sort(s, NULL, err));
    find_steps(s, order[0], p, q, &above, &below);
    int64_t h = opt->alternative == GX_LESS      ? below
                : opt->alternative == GX_GREATER ? above
                                                 : gx_max(above, below);
    out->statistic = (double)h / ((double)n * (double)p);
    if (gx_max(n, m) > EXACT_ROWS) {
        out->method = "Kolmogorov-Smirnov, two samples, approximation";
        return approximate(s, opt, (double)n, (double)m, out, err);
    }
    out->method = "Kolmogorov-Smirnov, two samples, exact";
    const band b = {n, m, p, q, h, opt->alternative == GX_TWO_SIDED};
    return leave_band(s, &b, &out->p_value, err);
}

gx_code gx_test_ks(gx_sample *s, const gx_test_options *opt, gx_test *out, gx_err *err)
{
    out->method = "Kolmogorov-Smirnov";
    return opt->parameters > 0 ? one_sample(s, opt, out, err) : two_samples(s, opt, out, err);
}

// W -----------------------------------------------------------------------------------------------

static double polynomial(const double *c, int terms, double x)
{
    double sum = 0;
    for (int k = terms - 1; k >= 0; k--) {
        sum = sum * x + c[k];
    }
    return sum;
}

/* The expected k-th smallest of n normal numbers, k from 0 on: Blom's approximation. */
static double normal_score(int64_t k, int64_t n)
{
    const double standard[2] = {0, 1};
    return gx_dist(GX_DIST_NORMAL, GX_DIST_QUANTILE, ((double)k + 0.625) / ((double)n + 0.25),
                   standard);
}

/* The weights of the smaller half, all negative, into y of the rows. */
static void find_weights(gx_sample *s)
{
    static const double last[6] = {0, 0.221157, -0.147981, -2.07119, 4.434685, -2.706056};
    static const double before[6] = {0, 0.042981, -0.293762, -1.752461, 5.682633, -3.582633};
    int64_t n = s->rows, half = n / 2;
    double squares = 0, root = 1 / sqrt((double)n);
    for (int64_t k = 0; k < half; k++) {
        double score = normal_score(k, n);
        s->row[k].y = score;
        squares += 2 * score * score;
    }
    if (n == 3) {
        s->row[0].y = -sqrt(0.5);
        return;
    }
    double norm = sqrt(squares), m0 = s->row[0].y, m1 = s->row[1].y;
    double a0 = m0 / norm - polynomial(last, 6, root);
    double a1 = m1 / norm - polynomial(before, 6, root);
    bool has_two = n > 5;
    double scale = has_two ? (squares - 2 * m0 * m0 - 2 * m1 * m1) / (1 - 2 * a0 * a0 - 2 * a1 * a1)
                           : (squares - 2 * m0 * m0) / (1 - 2 * a0 * a0);
    for (int64_t k = 0; k < half; k++) {
        s->row[k].y = k == 0 ? a0 : k == 1 && has_two ? a1 : s->row[k].y / sqrt(scale);
    }
}

/* 1 - W of the sorted rows: what is left of the spread beside the weights, without cancelling. */
static double find_rest(const gx_sample *s)
{
    int64_t n = s->rows;
    double range = s->row[n - 1].x - s->row[0].x, mean = 0, xx = 0, aa = 0, ax = 0;
    double middle = s->row[n / 2].x;
    for (int64_t k = 0; k < n; k++) {
        mean += (s->row[k].x - middle) / range;
    }
    mean /= (double)n;
    for (int64_t k = 0; k < n; k++) {
        int64_t mirror = n - 1 - k;
        double a = k < mirror ? s->row[k].y : k > mirror ? -s->row[mirror].y : 0;
        double x = (s->row[k].x - middle) / range - mean;
        xx += x * x;
        aa += a * a;
        ax += a * x;
    }
    double both = sqrt(aa * xx);
    return (both - ax) * (both + ax) / (aa * xx);
}

static double shapiro_p(int64_t rows, double rest)
{
    static const double c3[4] = {0.5440, -0.39978, 0.025054, -6.714e-4};
    static const double c4[4] = {1.3822, -0.77857, 0.062767, -0.0020322};
    static const double c5[4] = {-1.5861, -0.31082, -0.083751, 0.0038915};
    static const double c6[3] = {-0.4803, -0.082676, 0.0030302};
    const double standard[2] = {0, 1};
    double n = (double)rows, y = log(rest), mean, sd;
    if (rows == 3) { // exact
        return fmax(0, 1 - 6 / PI * asin(sqrt(rest)));
    }
    if (rows <= 11) {
        double gamma = 0.459 * n - 2.273;
        if (y >= gamma) {
            return 0;
        }
        y = -log(gamma - y);
        mean = polynomial(c3, 4, n);
        sd = exp(polynomial(c4, 4, n));
    } else {
        mean = polynomial(c5, 4, log(n));
        sd = exp(polynomial(c6, 3, log(n)));
    }
    return gx_dist(GX_DIST_NORMAL, GX_DIST_SF, (y - mean) / sd, standard);
}

gx_code gx_test_shapiro(gx_sample *s, const gx_test_options *opt, gx_test *out, gx_err *err)
{
    (void)opt;
    out->method = "Shapiro-Wilk";
    GX_TRY(gx_sample_sort(s, NULL, err));
    if (s->rows < 3) {
        return gx_test_without(out, "fewer than three rows");
    }
    if (s->row[0].x == s->row[s->rows - 1].x) {
        return gx_test_without(out, "all numbers are equal");
    }
    find_weights(s);
    double rest = find_rest(s);
    out->statistic = 1 - rest;
    out->p_value = shapiro_p(s->rows, rest);
    out->note = s->rows > SHAPIRO_ROWS ? "the p-value was fitted to at most 5000 rows" : NULL;
    return GX_OK;
}
