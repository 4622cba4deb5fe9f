/*
** Merits of the CPU backend: two rows of k doubles, by nearest.h.
**
** The sixteen sums are four vectors, which the compiler cuts into what the processor has: each
** lane's additions stay what they are.
*/
#ifndef GX_CPU_MERIT_H
#define GX_CPU_MERIT_H

#include "cpu_element.h"

#include <string.h>

enum { GX_MERIT_VECTORS = 4, GX_MERIT_WIDTH = GX_MERIT_LANES / GX_MERIT_VECTORS };

typedef double gx_merit_vector
    __attribute__((vector_size(GX_MERIT_WIDTH * sizeof(double)), aligned(8), may_alias));
typedef int64_t gx_merit_bits __attribute__((vector_size(GX_MERIT_WIDTH * sizeof(double))));

GX_INLINE double gx_merit_term(gx_metric metric, double x, double y)
{
    return metric == GX_METRIC_SQUARED    ? (x - y) * (x - y)
           : metric == GX_METRIC_ABSOLUTE ? fabs(x - y)
                                          : x * y;
}

/* The terms from x and y on, which are a vector's. */
GX_INLINE void gx_merit_add(gx_metric metric, gx_merit_vector *sum, const double *x,
                            const double *y)
{
    gx_merit_vector a = *(const gx_merit_vector *)x, b = *(const gx_merit_vector *)y, gap = a - b;
    if (metric == GX_METRIC_SQUARED) {
        *sum += gap * gap;
    } else if (metric == GX_METRIC_ABSOLUTE) { // the sign's bit off
        *sum += (gx_merit_vector)((gx_merit_bits)gap & INT64_MAX);
    } else {
        *sum += a * b;
    }
}

GX_INLINE double gx_merit_lanes(gx_metric metric, const double *x, const double *y, int64_t k)
{
    gx_merit_vector sum[GX_MERIT_VECTORS] = {{0}, {0}, {0}, {0}};
    double lane[GX_MERIT_LANES];
    int64_t l = 0;
    for (; l + GX_MERIT_LANES <= k; l += GX_MERIT_LANES) {
        for (int v = 0; v < GX_MERIT_VECTORS; v++) {
            int64_t at = l + (int64_t)v * GX_MERIT_WIDTH;
            gx_merit_add(metric, &sum[v], x + at, y + at);
        }
    }
    memcpy(lane, sum, sizeof lane);
    for (int e = 0; l + e < k; e++) {
        lane[e] += gx_merit_term(metric, x[l + e], y[l + e]);
    }
    return gx_merit_tree(lane);
}

/* own, other: x . x and y . y, for COSINE.  The metric is a constant in each loop. */
GX_INLINE double gx_merit_of(gx_metric metric, const double *x, double own, const double *y,
                             double other, int64_t k)
{
    switch (metric) {
    case GX_METRIC_SQUARED:
        return -gx_merit_lanes(GX_METRIC_SQUARED, x, y, k);
    case GX_METRIC_ABSOLUTE:
        return -gx_merit_lanes(GX_METRIC_ABSOLUTE, x, y, k);
    default:
        break;
    }
    double sum = gx_merit_lanes(GX_METRIC_DOT, x, y, k);
    if (metric == GX_METRIC_DOT) {
        return sum;
    }
    bool is_plain = gx_merit_is_plain(own) && gx_merit_is_plain(other);
    return is_plain ? sum / sqrt(own * other) : gx_merit_scaled(x, y, k);
}

#endif
