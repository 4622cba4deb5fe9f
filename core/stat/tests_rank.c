/*
** Tests of ranks: Mann and Whitney's U, Wilcoxon's signed ranks, Kruskal and Wallis's H.
**
** Small samples without ties have exact distributions.  U of m and n numbers (H. B. Mann and D. R.
** Whitney, Annals of Mathematical Statistics 18, 1947) is counted by the Gaussian binomial
** coefficient [m + n over m] = product of (1 - q^(n + i)) / (1 - q^i), a factor at a time.  The sum
** of positive ranks is counted by the product of (1 + q^i) / 2.  Else the normal approximation,
** with the variance corrected for ties.
*/
#include "tests.h"

#include <math.h>

enum { EXACT_RANKS = 50, EXACT_SMALLER = 8, EXACT_U = 1 << 22 }; // the first two: SciPy's

// U -----------------------------------------------------------------------------------------------

/* P(U <= k), m the smaller of the two sizes; k at most about half of m n. */
static gx_code sum_tail(const gx_sample *s, int64_t m, int64_t n, int64_t k, double *p, gx_err *err)
{
    double *count = NULL, all = 1;
    *p = 0;
    if (k < 0) {
        return GX_OK;
    }
    GX_TRY(gx_mem_calloc(s->ctx->mem, (size_t)(k + 1) * sizeof *count, "exact distribution", &count,
                         err));
    count[0] = 1;
    for (int64_t i = 1; i <= m; i++) {
        for (int64_t u = k; u >= n + i; u--) {
            count[u] -= count[u - n - i];
        }
        for (int64_t u = i; u <= k; u++) {
            count[u] += count[u - i];
        }
        all *= (double)(n + i) / (double)i;
    }
    for (int64_t u = 0; u <= k; u++) {
        *p += count[u];
    }
    *p /= all;
    gx_mem_free(s->ctx->mem, count);
    return GX_OK;
}

/* U of the group that should be the smaller one under the alternative: P(U <= u). */
static gx_code exact_u(const gx_sample *s, int64_t n, int64_t m, double u, double *p, gx_err *err)
{
    int64_t k = (int64_t)u, rest = n * m - k - 1;
    GX_TRY(sum_tail(s, gx_min(n, m), gx_max(n, m), gx_min(k, rest), p, err));
    *p = k <= rest ? *p : 1 - *p;
    return GX_OK;
}

gx_code gx_test_mann_whitney(gx_sample *s, const gx_test_options *opt, gx_test *out, gx_err *err)
{
    int64_t order[2];
    gx_test_order(s, order);
    out->method = "Mann-Whitney U";
    out->has_groups = true;
    if (s->group.levels.count < 2) {
        return gx_test_without(out, "there are fewer than two groups");
    }
    int64_t n = s->group.of[order[0]].n, m = s->group.of[order[1]].n;
    double N = (double)(n + m), nm = (double)n * (double)m, ranks = 0;
    GX_TRY(gx_sample_sort(s, NULL, err));
    gx_ties ties = gx_sample_rank(s);
    for (int64_t k = 0; k < s->rows; k++) {
        ranks += s->row[k].tag == order[0] ? s->row[k].x : 0;
    }
    double u = ranks - 0.5 * (double)n * (double)(n + 1), other = nm - u;
    double least = opt->alternative == GX_LESS      ? u
                   : opt->alternative == GX_GREATER ? other
                                                    : fmin(u, other);
    out->statistic = u;
    out->effect = 2 * u / nm - 1;
    bool has_ties = ties.squares > N;
    if (!has_ties && gx_min(n, m) <= EXACT_SMALLER && nm <= 2.0 * EXACT_U) {
        out->method = "Mann-Whitney U, exact";
        GX_TRY(exact_u(s, n, m, least, &out->p_value, err));
    } else {
        double variance = nm / 12 * (N + 1 - (ties.cubes - N) / (N * (N - 1)));
        if (!(variance > 0)) {
            return gx_test_without(out, "all numbers are equal");
        }
        double z = (nm / 2 - least - (opt->correction ? 0.5 : 0)) / sqrt(variance);
        const double standard[2] = {0, 1};
        out->method = "Mann-Whitney U, normal approximation";
        out->p_value = gx_dist(GX_DIST_NORMAL, GX_DIST_SF, z, standard);
    }
    out->p_value = fmin(1, opt->alternative == GX_TWO_SIDED ? 2 * out->p_value : out->p_value);
    return GX_OK;
}

// Signed ranks ------------------------------------------------------------------------------------

/* Of the sum of the positive of n ranks: P(sum <= k). */
static double sum_ranks(int64_t n, int64_t k)
{
    double p[EXACT_RANKS * (EXACT_RANKS + 1) / 2 + 1] = {1}, sum = 0;
    for (int64_t i = 1; i <= n; i++) {
        for (int64_t r = i * (i + 1) / 2; r >= 0; r--) {
            p[r] = 0.5 * (p[r] + (r >= i ? p[r - i] : 0));
        }
    }
    for (int64_t r = 0; r <= k; r++) {
        sum += p[r];
    }
    return sum;
}

/* The differences that are not 0, as ranks of their sizes, with y the difference. */
static gx_code rank_differences(gx_sample *s, int64_t *zeros, gx_ties *ties, gx_err *err)
{
    int64_t rows = 0;
    for (int64_t k = 0; k < s->rows; k++) {
        double d = s->row[k].x;
        if (d != 0) {
            s->row[rows++] = (gx_pair){.x = fabs(d), .y = d};
        }
    }
    *zeros = s->rows - rows;
    s->rows = rows;
    GX_TRY(gx_sample_sort(s, NULL, err));
    *ties = gx_sample_rank(s);
    return GX_OK;
}

gx_code gx_test_wilcoxon(gx_sample *s, const gx_test_options *opt, gx_test *out, gx_err *err)
{
    int64_t zeros = 0;
    gx_ties ties;
    double plus = 0;
    out->method = "Wilcoxon signed-rank";
    GX_TRY(rank_differences(s, &zeros, &ties, err));
    gx_test_count(out, "n_zero", zeros);
    if (s->rows == 0) {
        return gx_test_without(out, "no difference is other than 0");
    }
    for (int64_t k = 0; k < s->rows; k++) {
        plus += s->row[k].y > 0 ? s->row[k].x : 0;
    }
    double n = (double)s->rows, all = n * (n + 1) / 2, least = fmin(plus, all - plus);
    bool is_two_sided = opt->alternative == GX_TWO_SIDED;
    out->statistic = is_two_sided ? least : plus;
    out->effect = (2 * plus - all) / all;
    if (zeros == 0 && s->rows <= EXACT_RANKS && ties.squares == n) {
        out->method = "Wilcoxon signed-rank, exact";
        double below = is_two_sided ? least : opt->alternative == GX_LESS ? plus : all - plus;
        out->p_value = sum_ranks(s->rows, (int64_t)below);
        out->p_value = fmin(1, is_two_sided ? 2 * out->p_value : out->p_value);
        return GX_OK;
    }
    out->method = "Wilcoxon signed-rank, normal approximation";
    double sd = sqrt((n * (n + 1) * (2 * n + 1) - 0.5 * (ties.cubes - n)) / 24);
    double z = out->statistic - all / 2, half = opt->correction ? 0.5 : 0;
    z -= is_two_sided ? copysign(fmin(half, fabs(z)), z)
                      : (opt->alternative == GX_LESS ? -half : half);
    const double standard[2] = {0, 1};
    out->p_value = gx_test_p(GX_DIST_NORMAL, standard, z / sd, opt->alternative);
    return GX_OK;
}

// H -----------------------------------------------------------------------------------------------

gx_code gx_test_kruskal(gx_sample *s, const gx_test_options *opt, gx_test *out, gx_err *err)
{
    double *ranks = NULL, n = (double)s->rows, groups = (double)s->group.levels.count, sum = 0;
    (void)opt;
    out->method = "Kruskal-Wallis H";
    if (s->group.levels.count < 2) {
        return gx_test_without(out, "there are fewer than two groups");
    }
    out->df = groups - 1;
    GX_TRY(gx_sample_sort(s, NULL, err));
    gx_ties ties = gx_sample_rank(s);
    double correction = 1 - (ties.cubes - n) / (n * n * n - n);
    if (!(correction > 0)) {
        return gx_test_without(out, "all numbers are equal");
    }
    GX_TRY(gx_mem_calloc(s->ctx->mem, (size_t)s->group.levels.count * sizeof *ranks, "groups",
                         &ranks, err));
    for (int64_t k = 0; k < s->rows; k++) {
        ranks[s->row[k].tag] += s->row[k].x - (n + 1) / 2;
    }
    for (int64_t g = 0; g < s->group.levels.count; g++) {
        sum += ranks[g] * ranks[g] / (double)s->group.of[g].n;
    }
    gx_mem_free(s->ctx->mem, ranks);
    out->statistic = 12 / (n * (n + 1)) * sum / correction;
    out->p_value = gx_dist(GX_DIST_CHI2, GX_DIST_SF, out->statistic, &out->df);
    out->effect = out->statistic / (n - 1); // epsilon squared
    return GX_OK;
}
