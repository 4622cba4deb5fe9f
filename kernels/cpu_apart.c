/*
** How far the rows of one block are from the columns of another, of the CPU backend: GX_APART.
**
**   c += sum over k of (a_ik - b_kj)^2, or of |a_ik - b_kj|       a m x k, op(b) k x n
**   c += a b, and one column more of c += sum of a_ik^2           of a that is read once
**
** As a product without packing: a's rows go in panels, WIDE columns of which stay in the first
** cache while DEEP columns of b at a time pass; a vector of rows is summed in registers over WIDE.
** Each element adds its terms in the order of k, in its own precision: the bits depend on neither
** the shape nor the leading dimensions, but on the processor (multiplications and additions are
** fused where it has that).  f32 sums carry an error of k roundings at most, like those of a
** product.
*/
#include "cpu.h"
#include "cpu_element.h"

#include <string.h>

enum { WIDE = 4, DEEP = 4, PANEL_BYTES = 4096 };

/*
** Rows i0 .. i0 + rows - 1: columns l .. l + wide - 1 of a, j .. j + deep - 1 of b.  has_own: the
** rows' own squares, too.
*/
#define DEFINE_STEP(name, real, magnitude)                                                         \
    GX_INLINE void step_##name(const gx_args *p, gx_metric metric, bool has_own, int64_t i0,       \
                               int64_t rows, int64_t l, int wide, int64_t j, int deep)             \
    {                                                                                              \
        enum { LANES = sizeof(vec_##name) / sizeof(real) };                                        \
        const real *a = (const real *)p->a + l * p->lda + i0;                                      \
        real *c = (real *)p->c + j * p->ldc + i0, b[WIDE][DEEP];                                   \
        real *own = (real *)p->c + p->n * p->ldc + i0;                                             \
        for (int t = 0; t < wide; t++) {                                                           \
            for (int q = 0; q < deep; q++) {                                                       \
                b[t][q] =                                                                          \
                    ((const real *)p->b)[p->transb == GX_NO_TRANS ? (j + q) * p->ldb + l + t       \
                                                                  : (l + t) * p->ldb + j + q];     \
            }                                                                                      \
        }                                                                                          \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= rows; i += LANES) {                                                    \
            vec_##name sum[DEEP], square = {0};                                                    \
            for (int q = 0; q < deep; q++) {                                                       \
                sum[q] = *(const vec_##name *)(c + q * p->ldc + i);                                \
            }                                                                                      \
            if (has_own) {                                                                         \
                square = *(const vec_##name *)(own + i);                                           \
            }                                                                                      \
            for (int t = 0; t < wide; t++) {                                                       \
                vec_##name x = *(const vec_##name *)(a + t * p->lda + i);                          \
                for (int q = 0; q < deep; q++) {                                                   \
                    vec_##name gap = x - b[t][q];                                                  \
                    if (metric == GX_METRIC_DOT) {                                                 \
                        sum[q] += x * b[t][q];                                                     \
                    } else if (metric == GX_METRIC_SQUARED) {                                      \
                        sum[q] += gap * gap;                                                       \
                    } else {                                                                       \
                        sum[q] += (vec_##name)((bits_##name)gap & (magnitude));                    \
                    }                                                                              \
                }                                                                                  \
                if (has_own) {                                                                     \
                    square += x * x;                                                               \
                }                                                                                  \
            }                                                                                      \
            for (int q = 0; q < deep; q++) {                                                       \
                *(vec_##name *)(c + q * p->ldc + i) = sum[q];                                      \
            }                                                                                      \
            if (has_own) {                                                                         \
                *(vec_##name *)(own + i) = square;                                                 \
            }                                                                                      \
        }                                                                                          \
        for (; i < rows; i++) {                                                                    \
            for (int q = 0; q < deep; q++) {                                                       \
                real sum = c[q * p->ldc + i];                                                      \
                for (int t = 0; t < wide; t++) {                                                   \
                    real x = a[t * p->lda + i], gap = x - b[t][q];                                 \
                    sum += metric == GX_METRIC_DOT       ? x * b[t][q]                             \
                           : metric == GX_METRIC_SQUARED ? gap * gap                               \
                                                         : (gap < 0 ? -gap : gap);                 \
                }                                                                                  \
                c[q * p->ldc + i] = sum;                                                           \
            }                                                                                      \
            for (int t = 0; t < wide && has_own; t++) {                                            \
                own[i] += a[t * p->lda + i] * a[t * p->lda + i];                                   \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    GX_INLINE void across_##name(const gx_args *p, gx_metric metric, int64_t i0, int64_t rows,     \
                                 int64_t l, int wide)                                              \
    {                                                                                              \
        bool has_own = metric == GX_METRIC_DOT;                                                    \
        int64_t j = 0;                                                                             \
        if (has_own && p->n % DEEP == 0) {                                                         \
            step_##name(p, metric, true, i0, rows, l, wide, j, DEEP);                              \
            j = DEEP;                                                                              \
        }                                                                                          \
        for (; j + DEEP <= p->n; j += DEEP) {                                                      \
            step_##name(p, metric, false, i0, rows, l, wide, j, DEEP);                             \
        }                                                                                          \
        if (has_own && j < p->n) {                                                                 \
            step_##name(p, metric, true, i0, rows, l, wide, j++, 1);                               \
        }                                                                                          \
        for (; j < p->n; j++) {                                                                    \
            step_##name(p, metric, false, i0, rows, l, wide, j, 1);                                \
        }                                                                                          \
    }                                                                                              \
    GX_INLINE void panels_##name(const gx_args *p, gx_metric metric)                               \
    {                                                                                              \
        enum { PANEL = PANEL_BYTES / sizeof(real) };                                               \
        for (int64_t i0 = 0; i0 < p->m; i0 += PANEL) {                                             \
            int64_t rows = gx_min(PANEL, p->m - i0), l = 0;                                        \
            for (; l + WIDE <= p->k; l += WIDE) {                                                  \
                across_##name(p, metric, i0, rows, l, WIDE);                                       \
            }                                                                                      \
            for (; l < p->k; l++) {                                                                \
                across_##name(p, metric, i0, rows, l, 1);                                          \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_STEP(f64, double, INT64_MAX)
DEFINE_STEP(f32, float, INT32_MAX)
DEFINE_STEP(half_f64, double, INT64_MAX)
DEFINE_STEP(half_f32, float, INT32_MAX)

/* The metric as a constant, so that each has a loop of its own. */
#define ALL_METRICS(panels)                                                                        \
    switch (p->nearest->metric) {                                                                  \
    case GX_METRIC_SQUARED:                                                                        \
        panels(p, GX_METRIC_SQUARED);                                                              \
        break;                                                                                     \
    case GX_METRIC_ABSOLUTE:                                                                       \
        panels(p, GX_METRIC_ABSOLUTE);                                                             \
        break;                                                                                     \
    default:                                                                                       \
        panels(p, GX_METRIC_DOT);                                                                  \
        break;                                                                                     \
    }

GX_INLINE gx_code apart(gx_number dtype, const gx_args *p, bool is_half)
{
    if (p->n <= 0) {
        return GX_OK;
    }
    if (dtype == GX_F64 && is_half) {
        ALL_METRICS(panels_half_f64)
    } else if (dtype == GX_F64) {
        ALL_METRICS(panels_f64)
    } else if (is_half) {
        ALL_METRICS(panels_half_f32)
    } else {
        ALL_METRICS(panels_f32)
    }
    return GX_OK;
}

GX_LOOP(apart_wide)
{
    return apart(dtype, p, false);
}

GX_LOOP(apart_half)
{
    return apart(dtype, p, true);
}

GX_WIDTHS_SLOT(gx_cpu_apart, f64, GX_F64, apart_wide, apart_half, apart_half)
GX_WIDTHS_SLOT(gx_cpu_apart, f32, GX_F32, apart_wide, apart_half, apart_half)
