/*
** The reference backend: neighbours.  See ref.c for the manner, nearest.h for what a merit is.
**
** Each pair's merit is computed where it stands; nothing is foretold.  Numbers are real.
*/
#include "ref.h"

#include "../core/base/best.h"

GX_LOOP(apart)
{
    gx_metric metric = p->nearest->metric;
    bool has_products = metric < GX_METRIC_SQUARED;
    for (int64_t j = 0; j < p->n + (has_products && p->n > 0); j++) {
        for (int64_t i = 0; i < p->m; i++) {
            double sum = load(dtype, p->c, p->ldc, i, j).re;
            for (int64_t l = 0; l < p->k; l++) {
                double x = load(dtype, p->a, p->lda, i, l).re;
                double y = j < p->n ? load_op(dtype, p->transb, p->b, p->ldb, l, j).re : x;
                double gap = x - y;
                sum += has_products ? x * y : metric == GX_METRIC_SQUARED ? gap * gap : fabs(gap);
            }
            store(dtype, p->c, p->ldc, i, j, (gx_scalar){sum, 0});
        }
    }
    return GX_OK;
}
GX_REAL_SLOTS_DEFINE(gx_ref_apart, apart)

/* What term k of the pair (x, y) adds. */
static double term(gx_metric metric, double x, double y)
{
    switch (metric) {
    case GX_METRIC_SQUARED:
        return (x - y) * (x - y);
    case GX_METRIC_ABSOLUTE:
        return fabs(x - y);
    default:
        return x * y;
    }
}

/* COSINE of row i of a and query j, whose squares are not plain. */
GX_INLINE double scaled_cosine(gx_number dtype, const gx_args *p, int64_t i, int64_t j)
{
    const double *y = p->nearest->query + j * p->k;
    double both[GX_MERIT_LANES] = {0}, own[GX_MERIT_LANES] = {0}, other[GX_MERIT_LANES] = {0};
    double most = 0;
    int of_x, of_y;
    for (int64_t l = 0; l < p->k; l++) {
        double size = fabs(load_op(dtype, p->transa, p->a, p->lda, i, l).re);
        most = size > most || isnan(size) ? size : most;
    }
    if (most == 0 || !gx_merit_unit(y, p->k, &of_y)) {
        return 0;
    }
    frexp(most, &of_x);
    for (int64_t l = 0; l < p->k; l++) {
        double a = ldexp(load_op(dtype, p->transa, p->a, p->lda, i, l).re, -of_x);
        double b = ldexp(y[l], -of_y);
        both[l % GX_MERIT_LANES] += a * b;
        own[l % GX_MERIT_LANES] += a * a;
        other[l % GX_MERIT_LANES] += b * b;
    }
    return gx_merit_tree(both) / sqrt(gx_merit_tree(own) * gx_merit_tree(other));
}

/* Row i of a and query j. */
GX_INLINE double merit_of(gx_number dtype, const gx_args *p, int64_t i, int64_t j)
{
    double lane[GX_MERIT_LANES] = {0}, square[GX_MERIT_LANES] = {0};
    gx_metric metric = p->nearest->metric;
    for (int64_t l = 0; l < p->k; l++) {
        double x = load_op(dtype, p->transa, p->a, p->lda, i, l).re;
        double y = p->nearest->query[j * p->k + l];
        lane[l % GX_MERIT_LANES] += term(metric, x, y);
        square[l % GX_MERIT_LANES] += x * x;
    }
    double sum = gx_merit_tree(lane), own = gx_merit_tree(square), other = p->nearest->square[j];
    if (metric == GX_METRIC_COSINE) {
        return gx_merit_is_plain(own) && gx_merit_is_plain(other) ? sum / sqrt(own * other)
                                                                  : scaled_cosine(dtype, p, i, j);
    }
    return metric == GX_METRIC_DOT ? sum : -sum;
}

GX_LOOP(merit)
{
    const gx_nearest *w = p->nearest;
    for (int64_t e = 0; e < w->count; e++) {
        w->merit[e] = merit_of(dtype, p, w->row[e], w->column[e]);
    }
    return GX_OK;
}
GX_REAL_SLOTS_DEFINE(gx_ref_merit, merit)

GX_INLINE bool is_finite(gx_number dtype, const gx_args *p, int64_t i)
{
    bool all = true;
    for (int64_t l = 0; l < p->k; l++) {
        all = all && isfinite(load(dtype, p->a, p->lda, i, l).re);
    }
    return all;
}

GX_LOOP(nearest)
{
    const gx_nearest *w = p->nearest;
    *p->info = 0;
    for (int64_t i = p->m - 1; i >= 0; i--) {
        bool is_bad = gx_is_listed_at_all(w, i, p->n) && !is_finite(dtype, p, i);
        *p->info = is_bad ? i + 1 : *p->info;
    }
    for (int64_t j = 0; j < p->n; j++) {
        double *best = w->merit + j * w->count;
        int64_t *index = w->index + j * w->count;
        gx_best_begin(best, index, w->count, w->goes_on);
        for (int64_t i = 0; i < p->m && w->count > 0; i++) {
            int64_t number = w->first_index + i;
            double x = merit_of(dtype, p, i, j);
            bool is_own = w->self != GX_NO_SELF && number == w->self + j;
            if (!is_own && gx_is_listed(w, i, j) &&
                gx_best_is_worse(best[0], index[0], x, number)) {
                gx_best_sift(best, index, w->count, x, number);
            }
        }
        gx_best_sort(best, index, w->count);
    }
    return GX_OK;
}
GX_REAL_SLOTS_DEFINE(gx_ref_nearest, nearest)

/* Columns of a are looked at as the queries that they are. */
GX_LOOP(mutual)
{
    const gx_nearest *w = p->nearest;
    gx_args turned = *p;
    int64_t found = 0;
    turned.transa = GX_TRANS;
    turned.a = w->rows->query;
    turned.lda = p->k;
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            double x = merit_of(GX_F64, &turned, i, j);
            if (x >= w->floor[j] || x >= w->rows->floor[i]) {
                w->found[found++] = (gx_found){x, (int32_t)i, (int32_t)j};
            }
        }
    }
    *w->pairs = found;
    return GX_OK;
}
GX_REAL_SLOTS_DEFINE(gx_ref_mutual, mutual)
