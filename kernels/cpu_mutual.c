/*
** Neighbours of the CPU backend: GX_MUTUAL, queries that are each other's rows.
**
** A product foretells the merits of a block of pairs, once for both sides, by the bounds of
** foretell.h: a value is looked at while it is in the second cache, beside what its query wants,
** one number, and what its row wants, one of a column of them, 64 rows at a time.  What either may
** want is computed at once: both are contiguous.
**
** In terms of the product v, with the factor of a row f, of a query g:
**
**   DOT, COSINE   v >= least_j f_i,  v >= least_i g_j    f = g = 1;  |x_i|, |y_j|
**   SQUARED       v >= least_j + f_i,  v >= least_i + g_j     f = x . x, g = y . y, v = 2 x . y
**
** A query without a floor wants no more than the count-th best of its column foretells.  Rows or
** queries whose products might overflow or vanish want everything, and so does ABSOLUTE, for which
** no product foretells anything.
**
** Memory: `work`; see layout().
*/
#include "cpu.h"
#include "cpu_merit.h"
#include "foretell.h"

/* What a call works with; of dtype, one number a row: */
typedef struct both {
    const gx_args *p;
    double unit;       /* the error of v: so many times what it is made of                   */
    double rows, cols; /* |x| and |y| at most, of those that can be foretold                 */
    void *factor;      /* f                                                                  */
    void *inverse;     /* 1 / f, or 1 for SQUARED; NaN: nothing is foretold of the row       */
    void *least;       /* least_i; -Inf: all are wanted, NaN and Inf: none is                */
    void *column;      /* a column's v as a query sees it                                    */
    void *value;       /* v: m x n                                                           */
    int32_t *wanted;   /* m: rows of a column                                                */
} both;

static size_t layout(gx_number dtype, const gx_args *p, char *work, both *b)
{
    size_t es = gx_number_bytes(dtype), m = (size_t)gx_max(0, p->m), n = (size_t)gx_max(0, p->n);
    size_t used = gx_take(work, 0, m * es, &b->factor);
    used = gx_take(work, used, m * es, &b->inverse);
    used = gx_take(work, used, m * es, &b->least);
    used = gx_take(work, used, m * es, &b->column);
    used = gx_take(work, used, m * sizeof(int32_t), &b->wanted);
    return gx_take(work, used, m * n * es, &b->value);
}

size_t gx_cpu_mutual_bytes(gx_number dtype, const gx_args *args)
{
    both unused = {0};
    return layout(dtype, args, NULL, &unused);
}

// Bounds ------------------------------------------------------------------------------------------

GX_INLINE bool is_foretold(gx_number dtype, const gx_nearest *w, int64_t j)
{
    return w->metric != GX_METRIC_ABSOLUTE &&
           !gx_is_extreme_length(gx_number_is_double(dtype), w->length[j]);
}

GX_INLINE double longest_of(gx_number dtype, const gx_nearest *w, int64_t n, double unit)
{
    double longest = 0;
    for (int64_t j = 0; j < n; j++) {
        longest = is_foretold(dtype, w, j) ? fmax(longest, w->length[j]) : longest;
    }
    return longest * (1 + unit);
}

/* What query j of w, beside rows of `others` at most, wants of v, and rounding may have done. */
GX_INLINE double least_of(const both *b, const gx_nearest *w, int64_t j, double others,
                          gx_errors *e)
{
    gx_sight how;
    gx_prospect p = {.metric = w->metric,
                     .k = (double)b->p->k,
                     .unit = b->unit,
                     .length = w->length[j],
                     .longest = others};
    return gx_foretell(&p, w->floor[j], &how, e);
}

GX_INLINE double factor_of(const gx_nearest *w, int64_t j)
{
    return w->metric == GX_METRIC_SQUARED  ? w->length[j] * w->length[j]
           : w->metric == GX_METRIC_COSINE ? w->length[j]
                                           : 1;
}

GX_INLINE void bound_rows(gx_number dtype, const both *b)
{
    const gx_nearest *rows = b->p->nearest->rows;
    bool d = gx_number_is_double(dtype);
    for (int64_t i = 0; i < b->p->m; i++) {
        bool is_plain = is_foretold(dtype, rows, i);
        gx_errors e;
        double factor = is_plain ? factor_of(rows, i) : 1;
        double inverse = rows->metric == GX_METRIC_SQUARED ? 1 : factor > 0 ? 1 / factor : 0;
        put(d, b->factor, i, factor);
        put(d, b->inverse, i, is_plain ? inverse : (double)NAN);
        put(d, b->least, i, is_plain ? least_of(b, rows, i, b->cols, &e) : -(double)INFINITY);
    }
}

// A column ----------------------------------------------------------------------------------------

/* Of a column, whose best tell of the count-th. */
enum { LANES = 64 };

#define DEFINE_LOOK(name, real)                                                                    \
    /* The count-th best of n numbers, which change places. */                                     \
    GX_INLINE real nth_##name(real *x, int64_t n, int64_t count)                                   \
    {                                                                                              \
        int64_t low = 0, high = n - 1, at = count - 1;                                             \
        while (low < high) {                                                                       \
            real pivot = x[low + (high - low) / 2];                                                \
            int64_t i = low, j = high;                                                             \
            while (i <= j) {                                                                       \
                while (x[i] > pivot) {                                                             \
                    i++;                                                                           \
                }                                                                                  \
                while (x[j] < pivot) {                                                             \
                    j--;                                                                           \
                }                                                                                  \
                if (i <= j) {                                                                      \
                    real other = x[i];                                                             \
                    x[i++] = x[j];                                                                 \
                    x[j--] = other;                                                                \
                }                                                                                  \
            }                                                                                      \
            if (at > j && at < i) {                                                                \
                break;                                                                             \
            }                                                                                      \
            low = at >= i ? i : low;                                                               \
            high = at <= j ? j : high;                                                             \
        }                                                                                          \
        return x[at];                                                                              \
    }                                                                                              \
    /* What the count-th best of a column is to its query, or less: of the best of each lane, where\
       lanes are many. */                                                                          \
    GX_INLINE double best_##name(bool is_sum, const both *b, const real *v, int64_t count)         \
    {                                                                                              \
        const real *factor = b->factor, *inverse = b->inverse;                                     \
        real *x = b->column;                                                                       \
        int64_t m = b->p->m, lanes = 4 * count <= LANES ? gx_min(LANES, m) : m;                    \
        for (int64_t e = 0; e < lanes; e++) {                                                      \
            x[e] = -(real)INFINITY;                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < m; i += lanes) {                                                   \
            for (int64_t e = 0; e < gx_min(lanes, m - i); e++) {                                   \
                real seen = is_sum ? v[i + e] - factor[i + e] : v[i + e];                          \
                seen *= inverse[i + e];                                                            \
                x[e] = seen > x[e] ? seen : x[e];                                                  \
            }                                                                                      \
        }                                                                                          \
        return (double)nth_##name(x, lanes, count);                                                \
    }                                                                                              \
    /* The rows whose v is wanted by the query or by them, and what is no number; how many. */     \
    GX_INLINE int64_t look_##name(bool is_sum, const both *b, const real *v, real bound, real g,   \
                                  int32_t *wanted)                                                 \
    {                                                                                              \
        enum { GROUP = 64 };                                                                       \
        const real *factor = b->factor, *least = b->least;                                         \
        int64_t n = 0;                                                                             \
        for (int64_t i0 = 0; i0 < b->p->m; i0 += GROUP) {                                          \
            int64_t end = gx_min(i0 + GROUP, b->p->m);                                             \
            int any = 0;                                                                           \
            for (int64_t i = i0; i < end; i++) {                                                   \
                real own = is_sum ? bound + factor[i] : bound * factor[i];                         \
                real other = is_sum ? least[i] + g : least[i] * g;                                 \
                any |= !(v[i] < own) | !(v[i] < other);                                            \
            }                                                                                      \
            for (int64_t i = i0; any && i < end; i++) {                                            \
                real own = is_sum ? bound + factor[i] : bound * factor[i];                         \
                real other = is_sum ? least[i] + g : least[i] * g;                                 \
                wanted[n] = (int32_t)i;                                                            \
                n += !(v[i] < own) | !(v[i] < other);                                              \
            }                                                                                      \
        }                                                                                          \
        return n;                                                                                  \
    }                                                                                              \
    /* The same of query j. */                                                                     \
    GX_INLINE int64_t want_##name(gx_number dtype, const both *b, int64_t j, int32_t *wanted)      \
    {                                                                                              \
        const gx_nearest *w = b->p->nearest;                                                       \
        const real *v = gx_at(b->value, dtype, b->p->m, 0, j);                                     \
        bool is_sum = w->metric == GX_METRIC_SQUARED;                                              \
        double bound = -(double)INFINITY, g = 1;                                                   \
        if (is_foretold(dtype, w, j)) {                                                            \
            gx_errors e;                                                                           \
            bound = least_of(b, w, j, b->rows, &e);                                                \
            g = factor_of(w, j);                                                                   \
            if (bound == -(double)INFINITY && w->count < b->p->m) {                                \
                bound = is_sum ? best_##name(true, b, v, w->count)                                 \
                               : best_##name(false, b, v, w->count);                               \
                bound = gx_lowered(gx_lowered(bound, &e), &e);                                     \
            }                                                                                      \
        }                                                                                          \
        return is_sum ? look_##name(true, b, v, (real)bound, (real)g, wanted)                      \
                      : look_##name(false, b, v, (real)bound, (real)g, wanted);                    \
    }

DEFINE_LOOK(f64, double)
DEFINE_LOOK(f32, float)

// The block ---------------------------------------------------------------------------------------

GX_INLINE gx_code multiply(gx_number dtype, const both *b, gx_err *err)
{
    const gx_args *p = b->p;
    gx_args q = {.transa = GX_TRANS, .m = p->m, .n = p->n, .k = p->k, .alpha = {1, 0}};
    q.alpha.re = p->nearest->metric == GX_METRIC_SQUARED ? 2 : 1;
    q.a = p->a;
    q.lda = p->lda;
    q.b = p->b;
    q.ldb = p->ldb;
    q.c = b->value;
    q.ldc = p->m;
    return dtype == GX_F64 ? gx_cpu_gemm_f64(NULL, NULL, &q, err)
                           : gx_cpu_gemm_f32(NULL, NULL, &q, err);
}

GX_INLINE gx_code mutual(gx_number dtype, const gx_args *p, gx_err *err)
{
    const gx_nearest *w = p->nearest;
    both b = {.p = p, .unit = gx_unit_of(gx_number_is_double(dtype), p->k)};
    gx_found *found;
    found = w->found;
    layout(dtype, p, p->work, &b);
    b.rows = longest_of(dtype, w->rows, p->m, b.unit);
    b.cols = longest_of(dtype, w, p->n, b.unit);
    bound_rows(dtype, &b);
    if (w->metric != GX_METRIC_ABSOLUTE) {
        GX_TRY(multiply(dtype, &b, err));
    }
    for (int64_t j = 0; j < p->n; j++) {
        int64_t n = gx_number_is_double(dtype) ? want_f64(dtype, &b, j, b.wanted)
                                       : want_f32(dtype, &b, j, b.wanted);
        for (int64_t e = 0; e < n; e++) {
            int32_t i = b.wanted[e];
            double merit = gx_merit_of(w->metric, w->rows->query + i * p->k, w->rows->square[i],
                                       w->query + j * p->k, w->square[j], p->k);
            *found++ = (gx_found){merit, i, (int32_t)j};
        }
    }
    *w->pairs = found - w->found;
    return GX_OK;
}
GX_SIMD_REAL_SLOTS_DEFINE(gx_cpu_mutual, mutual)
