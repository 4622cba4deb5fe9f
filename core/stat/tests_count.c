/*
** Pearson's chi-squared tests: of independence in a table of counts, and of counts against what is
** expected.
**
** The table is as sparse as the data: cells that were not counted add their expected counts,
** row total x column total / n, to the statistic.  For each row the totals of its empty columns are
** a whole number, so their sum is exact, and the work is that of the cells that there are.
*/
#include "tests.h"

#include <math.h>
#include <string.h>

/* Of the cells: (observed - expected)^2 / expected; yates: observed nearer by up to 1/2. */
static gx_code sum_cells(const gx_sample *s, double yates, double *sum, gx_err *err)
{
    int64_t *empty = NULL, n = s->n; // the totals of the columns that a row has no cell in
    GX_TRY(gx_mem_alloc(s->ctx->mem, (size_t)s->group.levels.count * sizeof *empty,
                        "table of counts", &empty, err));
    for (int64_t a = 0; a < s->group.levels.count; a++) {
        empty[a] = n;
    }
    *sum = 0;
    for (int64_t k = 0; k < s->cells.levels.count; k++) {
        int32_t at[2];
        memcpy(at, gx_levels_text(&s->cells.levels, k), sizeof at);
        int64_t a = at[0], column = s->column.of[at[1]].n;
        double expected = (double)s->group.of[a].n / (double)n * (double)column;
        double apart = fabs((double)s->cells.of[k].n - expected);
        apart -= fmin(yates, apart);
        *sum += apart * apart / expected;
        empty[a] -= column;
    }
    for (int64_t a = 0; a < s->group.levels.count; a++) {
        double expected = (double)s->group.of[a].n / (double)n * (double)empty[a];
        double apart = expected - fmin(yates, expected); // of a 2 x 2 table one cell at most
        *sum += empty[a] == 0 ? 0 : apart * apart / expected;
    }
    gx_mem_free(s->ctx->mem, empty);
    return GX_OK;
}

gx_code gx_test_chi2(gx_sample *s, const gx_test_options *opt, gx_test *out, gx_err *err)
{
    double rows = (double)s->group.levels.count, columns = (double)s->column.levels.count;
    bool is_small = rows == 2 && columns == 2, is_corrected = is_small && opt->correction;
    out->method = is_corrected ? "chi-squared of independence, Yates' correction"
                               : "chi-squared of independence";
    gx_test_count(out, "rows", s->group.levels.count);
    gx_test_count(out, "columns", s->column.levels.count);
    if (s->n == 0) {
        return gx_test_without(out, "there is no row");
    }
    out->df = (rows - 1) * (columns - 1);
    if (out->df == 0) {
        return gx_test_without(out, "one of the two has a single value: nothing can depend on it");
    }
    double plain = 0;
    GX_TRY(sum_cells(s, 0, &plain, err));
    out->statistic = plain;
    if (is_corrected) {
        GX_TRY(sum_cells(s, 0.5, &out->statistic, err));
    }
    out->p_value = gx_dist(GX_DIST_CHI2, GX_DIST_SF, out->statistic, &out->df);
    out->effect = sqrt(plain / (double)s->n / (fmin(rows, columns) - 1)); // Cramer's V
    return GX_OK;
}

/* Expected counts that were not given: all the same.  Those given must add up as SciPy asks for. */
static gx_code check_totals(gx_sample *s, double *observed, gx_err *err)
{
    const double TOLERANCE = 1e-8;
    double expected = 0;
    *observed = 0;
    for (int64_t k = 0; k < s->rows; k++) {
        *observed += s->row[k].x;
        expected += s->row[k].y;
    }
    for (int64_t k = 0; k < s->rows && isnan(expected); k++) {
        s->row[k].y = *observed / (double)s->rows;
    }
    return isnan(expected) || fabs(*observed - expected) <= TOLERANCE * fmin(*observed, expected)
               ? GX_OK
               : gx_fail(err, GX_ARG,
                         "the observed counts add up to %.10g but the expected ones to %.10g",
                         *observed, expected);
}

gx_code gx_test_chi2_gof(gx_sample *s, const gx_test_options *opt, gx_test *out, gx_err *err)
{
    double total = 0, sum = 0;
    out->method = "chi-squared of goodness of fit";
    GX_TRY(check_totals(s, &total, err));
    gx_test_own(out, "total", total);
    if (s->n - 1 - opt->ddof < 1) {
        return gx_test_without(out, "there are too few counts for a degree of freedom");
    }
    out->df = (double)(s->n - 1 - opt->ddof);
    if (total == 0) {
        return gx_test_without(out, "nothing was counted");
    }
    for (int64_t k = 0; k < s->rows; k++) {
        double apart = s->row[k].x - s->row[k].y;
        sum += apart * apart / s->row[k].y;
    }
    out->statistic = sum;
    out->p_value = gx_dist(GX_DIST_CHI2, GX_DIST_SF, sum, &out->df);
    out->effect = sqrt(sum / total); // Cohen's w
    return GX_OK;
}
