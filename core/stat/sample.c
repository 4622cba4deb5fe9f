/*
** Samples: see sample.h.
**
** Moments follow B. P. Welford, Technometrics 4 (1962), and for the third and fourth P. Pebay,
** Sandia report SAND2008-6212: sums of powers of differences from the mean so far, which do not
** cancel when the mean is large beside the deviations.
**
** Sorting is a merge from the bottom up, of runs that insertion has sorted; both count how many
** rows a row passes, which is Knight's way to Kendall's tau (Journal of the American Statistical
** Association 61, 1966).
*/
#include "sample.h"

#include <string.h>

enum { FIRST_GROUPS = 4, FIRST_ROWS = 16, RUN = 8 };

void gx_moments_add(gx_moments *of, double x)
{
    double delta = x - of->mean;
    of->is_varied |= of->n > 0 && delta != 0;
    of->n++;
    of->mean += delta / (double)of->n;
    of->m2 += delta * (x - of->mean);
}

void gx_moments_add_four(gx_moments *of, double x)
{
    double n = (double)of->n + 1, delta = x - of->mean, part = delta / n, old = part * part;
    double term = delta * part * (double)of->n;
    if (of->n > 0) {
        of->m4 += term * old * (n * n - 3 * n + 3) + 6 * old * of->m2 - 4 * part * of->m3;
        of->m3 += term * part * (n - 2) - 3 * part * of->m2;
    }
    gx_moments_add(of, x);
}

void gx_sample_add_cross(gx_sample *s, double x, double y)
{
    double delta = x - s->all.mean;
    gx_moments_add(&s->all, x);
    gx_moments_add(&s->other, y);
    s->cross += delta * (y - s->other.mean);
}

gx_code gx_sample_label(gx_sample *s, gx_groups *set, const char *text, size_t bytes,
                        int64_t *index, gx_err *err)
{
    GX_TRY(gx_levels_find(&set->levels, text, bytes, index, err));
    if (*index < set->capacity) {
        return GX_OK;
    }
    int64_t capacity = gx_max(FIRST_GROUPS, 2 * set->capacity), old = set->capacity;
    GX_TRY(
        gx_mem_realloc(s->ctx->mem, (size_t)capacity * sizeof *set->of, "groups", &set->of, err));
    memset(set->of + old, 0, (size_t)(capacity - old) * sizeof *set->of);
    set->capacity = capacity;
    return GX_OK;
}

void gx_sample_begin(gx_sample *s, gx_ctx *ctx)
{
    gx_groups *const sets[] = {&s->group, &s->column, &s->cells};
    s->ctx = ctx;
    for (int k = 0; k < 3; k++) {
        gx_levels_begin(&sets[k]->levels, ctx->mem);
    }
}

void gx_sample_clear(gx_sample *s)
{
    gx_groups *const sets[] = {&s->group, &s->column, &s->cells};
    for (int k = 0; k < 3 && s->ctx != NULL; k++) {
        gx_levels_clear(&sets[k]->levels);
        gx_mem_free(s->ctx->mem, sets[k]->of);
    }
    if (s->ctx != NULL) {
        gx_mem_free(s->ctx->mem, s->row);
    }
    *s = (gx_sample){0};
}

// Rows --------------------------------------------------------------------------------------------

gx_code gx_sample_poll(const gx_sample *s, gx_err *err)
{
    return gx_store_is_interrupted(s->ctx->store) ? gx_fail(err, GX_INTERRUPT, "interrupted")
                                                  : GX_OK;
}

gx_code gx_sample_keep(gx_sample *s, gx_pair row, gx_err *err)
{
    if (s->rows == s->capacity) {
        int64_t capacity = s->capacity == 0 ? FIRST_ROWS : 2 * s->capacity;
        GX_TRY(gx_mem_realloc(s->ctx->mem, (size_t)capacity * sizeof row, "rows of a test", &s->row,
                              err));
        s->capacity = capacity;
    }
    s->row[s->rows++] = row;
    return GX_OK;
}

void gx_sample_swap(gx_sample *s)
{
    for (int64_t k = 0; k < s->rows; k++) {
        s->row[k] = (gx_pair){.x = s->row[k].y, .y = s->row[k].x};
    }
}

static int64_t insert(gx_pair *row, int64_t n)
{
    int64_t passed = 0;
    for (int64_t k = 1; k < n; k++) {
        gx_pair one = row[k];
        int64_t at = k;
        for (; at > 0 && row[at - 1].x > one.x; at--) {
            row[at] = row[at - 1];
        }
        row[at] = one;
        passed += k - at;
    }
    return passed;
}

static int64_t merge(const gx_pair *left, int64_t lefts, const gx_pair *right, int64_t rights,
                     gx_pair *out)
{
    int64_t passed = 0, i = 0, j = 0;
    while (i < lefts && j < rights) {
        bool is_right = right[j].x < left[i].x;
        *out++ = is_right ? right[j] : left[i];
        passed += is_right ? lefts - i : 0;
        i += !is_right;
        j += is_right;
    }
    memcpy(out, left + i, (size_t)(lefts - i) * sizeof *out);
    memcpy(out + (lefts - i), right + j, (size_t)(rights - j) * sizeof *out);
    return passed;
}

gx_code gx_sample_sort(gx_sample *s, int64_t *inversions, gx_err *err)
{
    int64_t n = s->rows, passed = 0;
    gx_pair *other = NULL;
    for (int64_t k = 0; k < n; k += RUN) {
        passed += insert(s->row + k, gx_min(RUN, n - k));
    }
    if (n > RUN) {
        GX_TRY(
            gx_mem_alloc(s->ctx->mem, (size_t)s->capacity * sizeof *other, "sorting", &other, err));
    }
    gx_code code = GX_OK;
    for (int64_t run = RUN; run < n && code == GX_OK; run *= 2) {
        for (int64_t k = 0; k < n; k += 2 * run) {
            int64_t lefts = gx_min(run, n - k), rights = gx_min(run, n - k - lefts);
            passed += merge(s->row + k, lefts, s->row + k + lefts, rights, other + k);
        }
        gx_pair *sorted = other;
        other = s->row;
        s->row = sorted;
        code = gx_sample_poll(s, err);
    }
    gx_mem_free(s->ctx->mem, other);
    if (inversions != NULL) {
        *inversions = passed;
    }
    return code;
}

gx_ties gx_sample_rank(gx_sample *s)
{
    gx_ties ties = {0};
    int64_t n = s->rows;
    for (int64_t k = 0, end; k < n; k = end) {
        for (end = k + 1; end < n && s->row[end].x == s->row[k].x; end++) {
        }
        double length = (double)(end - k), rank = 0.5 * (double)(k + end + 1);
        ties.squares += length * length;
        ties.cubes += length * length * length;
        for (int64_t i = k; i < end; i++) {
            s->row[i].x = rank;
        }
    }
    return ties;
}
