/*
** Tests of means and variances: Student's and Welch's t, analysis of variance, Levene's test,
** Jarque and Bera's test of a normal distribution.
**
** All work on moments (Welford's, sample.c), Levene's on the moments of distances from each group's
** median (Brown and Forsythe, JASA 69, 1974) or mean.  C. M. Jarque and A. K. Bera, Economics
** Letters 6 (1980): n / 6 (skewness^2 + kurtosis^2 / 4) is about chi-squared with 2 degrees of
** freedom.
*/
#include "tests.h"

#include <float.h>
#include <math.h>

/* What differences of numbers up to 1 may be wrong by. */
static const double ROUNDING = 4 * DBL_EPSILON;

double gx_test_p(gx_dist_kind dist, const double *parameters, double statistic, int alternative)
{
    return alternative == GX_LESS      ? gx_dist(dist, GX_DIST_CDF, statistic, parameters)
           : alternative == GX_GREATER ? gx_dist(dist, GX_DIST_SF, statistic, parameters)
                                       : 2 * gx_dist(dist, GX_DIST_SF, fabs(statistic), parameters);
}

void gx_test_own(gx_test *out, const char *key, double value)
{
    out->own[out->owns].key = key;
    out->own[out->owns++].value = value;
}

void gx_test_count(gx_test *out, const char *key, int64_t count)
{
    gx_test_own(out, key, (double)count);
    out->own[out->owns - 1].is_count = true;
}

gx_code gx_test_without(gx_test *out, const char *note)
{
    out->note = note;
    out->p_value = (double)NAN;
    return GX_OK;
}

void gx_test_order(const gx_sample *s, int64_t order[2])
{
    int32_t sorted[2] = {0, 1};
    if (s->group.levels.count == 2) {
        gx_levels_sort(&s->group.levels, sorted);
    }
    order[0] = sorted[0];
    order[1] = sorted[1];
}

gx_code gx_test_squares(const gx_moments *of, gx_err *err)
{
    return !of->is_varied || (of->m2 >= DBL_MIN && of->m2 <= DBL_MAX)
               ? GX_OK
               : gx_fail(err, GX_NUMERIC,
                         "squares of the numbers leave the range of a double: scale them");
}

// t -----------------------------------------------------------------------------------------------

/* The estimate with its standard error and df known: statistic, p-value, interval. */
static void finish_t(gx_test *out, const gx_test_options *opt, double estimate, double error)
{
    out->statistic = (estimate - opt->mu) / error;
    out->p_value = gx_test_p(GX_DIST_T, &out->df, out->statistic, opt->alternative);
    double tail = 1 - opt->confidence;
    tail = opt->alternative == GX_TWO_SIDED ? tail / 2 : tail;
    double width = gx_dist(GX_DIST_T, GX_DIST_ISF, tail, &out->df) * error;
    out->ci_low = opt->alternative == GX_LESS ? (double)NAN : estimate - width;
    out->ci_high = opt->alternative == GX_GREATER ? (double)NAN : estimate + width;
}

/* rounding: a standard deviation of no more than that is none. */
static gx_code one_sample(const gx_moments *of, double rounding, const gx_test_options *opt,
                          gx_test *out, gx_err *err)
{
    double n = (double)of->n;
    out->method = opt->paired ? "paired t" : "one-sample t";
    gx_test_own(out, "estimate", of->n > 0 ? of->mean : (double)NAN);
    if (of->n < 2) {
        return gx_test_without(out, "fewer than two rows have no variance");
    }
    out->df = n - 1;
    double sd = sqrt(of->m2 / (n - 1));
    if (!of->is_varied || sd < rounding) {
        return gx_test_without(out, opt->paired ? "all differences are equal but for rounding"
                                                : "all numbers are equal");
    }
    GX_TRY(gx_test_squares(of, err));
    out->effect = (of->mean - opt->mu) / sd;
    finish_t(out, opt, of->mean, sd / sqrt(n));
    return GX_OK;
}

gx_code gx_test_t(gx_sample *s, const gx_test_options *opt, gx_test *out, gx_err *err)
{
    if (!opt->has_groups) {
        return one_sample(&s->all, ROUNDING * s->largest, opt, out, err);
    }
    int64_t order[2];
    gx_test_order(s, order);
    out->method = opt->equal_var ? "two-sample t" : "Welch's t";
    out->has_groups = true;
    if (s->group.levels.count < 2) {
        return gx_test_without(out, "there are fewer than two groups");
    }
    const gx_moments *a = &s->group.of[order[0]], *b = &s->group.of[order[1]];
    double n = (double)a->n, m = (double)b->n, estimate = a->mean - b->mean;
    gx_test_own(out, "estimate", estimate);
    if (opt->equal_var ? n + m < 3 : a->n < 2 || b->n < 2) {
        return gx_test_without(out, "too few rows have no variance");
    }
    if (!a->is_varied && !b->is_varied) {
        return gx_test_without(out, "all numbers of each group are equal");
    }
    GX_TRY(gx_test_squares(a, err));
    GX_TRY(gx_test_squares(b, err));
    double pooled = (a->m2 + b->m2) / (n + m - 2);
    double va = a->m2 / (n - 1) / n, vb = b->m2 / (m - 1) / m, v = va + vb;
    if (opt->equal_var) {
        out->df = n + m - 2;
        v = pooled * (1 / n + 1 / m);
    } else { // shares of v, whose squares do not leave a double's range
        double p = va / v, q = vb / v;
        out->df = 1 / (p * p / (n - 1) + q * q / (m - 1));
    }
    out->effect = (estimate - opt->mu) / sqrt(pooled);
    finish_t(out, opt, estimate, sqrt(v));
    return GX_OK;
}

// Variance ----------------------------------------------------------------------------------------

/* F of the means of groups against what is within them. */
static gx_code f_of_groups(const gx_groups *set, gx_test *out, gx_err *err)
{
    double within = 0, between = 0, n = 0, k = (double)set->levels.count;
    gx_moments means = {0};
    bool is_varied = false;
    for (int64_t g = 0; g < set->levels.count; g++) { // the grand mean
        const gx_moments *of = &set->of[g];
        n += (double)of->n;
        means.mean += (double)of->n / n * (of->mean - means.mean);
    }
    for (int64_t g = 0; g < set->levels.count; g++) {
        const gx_moments *of = &set->of[g];
        double apart = of->mean - means.mean;
        GX_TRY(gx_test_squares(of, err));
        within += of->m2;
        between += (double)of->n * apart * apart;
        is_varied |= of->is_varied;
    }
    if (set->levels.count < 2) {
        return gx_test_without(out, "there are fewer than two groups");
    }
    out->df = k - 1;
    gx_test_own(out, "df2", n - k);
    if (n - k <= 0) {
        return gx_test_without(out, "every group has one row only, and no variance");
    }
    if (!is_varied) {
        return gx_test_without(out, "nothing varies within the groups");
    }
    out->statistic = between / (k - 1) / (within / (n - k));
    out->effect = between / (between + within);
    const double df[2] = {k - 1, n - k};
    out->p_value = gx_dist(GX_DIST_F, GX_DIST_SF, out->statistic, df);
    return GX_OK;
}

gx_code gx_test_anova(gx_sample *s, const gx_test_options *opt, gx_test *out, gx_err *err)
{
    (void)opt;
    out->method = "one-way analysis of variance";
    return f_of_groups(&s->group, out, err);
}

/* Of each group, from its sorted rows: tag says whose a row is, and work has a place a group. */
static gx_code find_medians(const gx_sample *s, double *median, gx_err *err)
{
    int64_t *seen = NULL, groups = s->group.levels.count;
    GX_TRY(gx_mem_calloc(s->ctx->mem, (size_t)groups * sizeof *seen, "groups", &seen, err));
    for (int64_t k = 0; k < s->rows; k++) {
        int64_t g = s->row[k].tag, n = s->group.of[g].n, at = seen[g]++;
        if (at == (n - 1) / 2) {
            median[g] = s->row[k].x;
        }
        if (at == n / 2) { // of an even count the upper one; halved first, for what is large
            median[g] = 0.5 * median[g] + 0.5 * s->row[k].x;
        }
    }
    gx_mem_free(s->ctx->mem, seen);
    return GX_OK;
}

gx_code gx_test_levene(gx_sample *s, const gx_test_options *opt, gx_test *out, gx_err *err)
{
    double *center = NULL;
    gx_moments *of = s->group.of;
    out->method = opt->from_mean ? "Levene, from the means" : "Levene, from the medians";
    GX_TRY(gx_sample_sort(s, NULL, err));
    GX_TRY(gx_mem_calloc(s->ctx->mem, (size_t)s->group.levels.count * sizeof *center, "groups",
                         &center, err));
    gx_code code = opt->from_mean ? GX_OK : find_medians(s, center, err);
    for (int64_t g = 0; g < s->group.levels.count; g++) {
        center[g] = opt->from_mean ? of[g].mean : center[g];
        of[g] = (gx_moments){0};
    }
    for (int64_t k = 0; k < s->rows; k++) {
        int64_t g = s->row[k].tag;
        gx_moments_add(&of[g], fabs(s->row[k].x - center[g]));
    }
    double largest = s->rows == 0 ? 0 : fmax(fabs(s->row[0].x), fabs(s->row[s->rows - 1].x));
    for (int64_t g = 0; g < s->group.levels.count; g++) {
        double spread = sqrt(of[g].m2 / (double)of[g].n);
        of[g].is_varied = of[g].is_varied && spread > ROUNDING * largest;
        of[g].m2 = of[g].is_varied ? of[g].m2 : 0;
    }
    gx_mem_free(s->ctx->mem, center);
    GX_TRY(code);
    GX_TRY(f_of_groups(&s->group, out, err));
    out->effect = (double)NAN;
    return GX_OK;
}

// Normal ------------------------------------------------------------------------------------------

gx_code gx_test_jarque_bera(gx_sample *s, const gx_test_options *opt, gx_test *out, gx_err *err)
{
    const gx_moments *of = &s->all;
    double n = (double)of->n, variance = of->m2 / n;
    (void)opt;
    out->method = "Jarque-Bera";
    out->df = 2;
    if (!of->is_varied) {
        return gx_test_without(out, of->n < 2 ? "fewer than two rows have no variance"
                                              : "all numbers are equal");
    }
    const gx_moments squares = {.is_varied = true, .m2 = variance * variance};
    GX_TRY(gx_test_squares(&squares, err));
    double skewness = of->m3 / n / (variance * sqrt(variance));
    double kurtosis = of->m4 / n / (variance * variance) - 3;
    gx_test_own(out, "skewness", skewness);
    gx_test_own(out, "kurtosis", kurtosis);
    out->statistic = n / 6 * (skewness * skewness + kurtosis * kurtosis / 4);
    out->p_value = gx_dist(GX_DIST_CHI2, GX_DIST_SF, out->statistic, &out->df);
    return GX_OK;
}
