/*
** The reference backend: triangles, Cholesky, LU.  See ref.c for the manner.
**
** Each is the textbook's formula on single elements; nothing is blocked.  What the loops fix for
** all backends:
**   - A pivot of POTRF that is not greater than 0 (NaN included) ends it: info is its order, the
**     columns before it are the factor's.
**   - GETRF picks the first element of largest |re| + |im|, as LAPACK does; a NaN is never larger
**     than anything, and nothing is larger than a NaN.  A column of zeros keeps its pivot row, is
**     reported once (the first), and is not divided.
**   - TRSM divides by a zero on the diagonal as IEEE says; nobody is told.
*/
#include "ref.h"

// Triangles ---------------------------------------------------------------------------------------

GX_LOOP(triangle)
{
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            gx_scalar value = {0, 0};
            if (i == j && p->diag == GX_UNIT) {
                value.re = 1;
            } else if (in_triangle(p->uplo, i, j)) {
                value = load(dtype, p->a, p->lda, i, j);
            }
            store(dtype, p->c, p->ldc, i, j, value);
        }
    }
    return GX_OK;
}

/*
** One column of c (LEFT) or one row (RIGHT), as the vector x of t x = b or t x: on the right, t is
** op(a)^T.
*/
typedef struct line {
    const gx_args *p;
    int64_t at;    /* which column or row of c            */
    int64_t count; /* its length, the side of the triangle */
    bool is_lower; /* t is lower triangular                */
} line;

GX_INLINE line line_of(const gx_args *p, int64_t at)
{
    bool is_right = p->side == GX_RIGHT;
    bool is_lower = (p->uplo == GX_LOWER) == (p->transa == GX_NO_TRANS);
    return (line){p, at, is_right ? p->n : p->m, is_lower != is_right};
}

GX_INLINE gx_scalar line_get(gx_number dtype, const line *x, int64_t i)
{
    return x->p->side == GX_LEFT ? load(dtype, x->p->c, x->p->ldc, i, x->at)
                                 : load(dtype, x->p->c, x->p->ldc, x->at, i);
}

GX_INLINE void line_set(gx_number dtype, const line *x, int64_t i, gx_scalar value)
{
    store(dtype, x->p->c, x->p->ldc, x->p->side == GX_LEFT ? i : x->at,
          x->p->side == GX_LEFT ? x->at : i, value);
}

/* Element (i, l) of t. */
GX_INLINE gx_scalar factor(gx_number dtype, const line *x, int64_t i, int64_t l)
{
    const gx_args *p = x->p;
    if (i == l && p->diag == GX_UNIT) {
        return (gx_scalar){1, 0};
    }
    return p->side == GX_LEFT ? load_op(dtype, p->transa, p->a, p->lda, i, l)
                              : load_op(dtype, p->transa, p->a, p->lda, l, i);
}

/* The sum of t(i, l) x(l) over the triangle, without the diagonal. */
GX_INLINE gx_scalar row_times_line(gx_number dtype, const line *x, int64_t i)
{
    gx_scalar sum = {0, 0};
    for (int64_t l = x->is_lower ? 0 : i + 1; l < (x->is_lower ? i : x->count); l++) {
        sum = add(sum, times(factor(dtype, x, i, l), line_get(dtype, x, l)));
    }
    return sum;
}

GX_INLINE void solve_line(gx_number dtype, const line *x, gx_scalar alpha)
{
    for (int64_t q = 0; q < x->count; q++) {
        int64_t i = x->is_lower ? q : x->count - 1 - q;
        gx_scalar value = scaled(alpha, line_get(dtype, x, i));
        value = gx_scalar_minus(value, row_times_line(dtype, x, i));
        if (x->p->diag != GX_UNIT) {
            value = quotient(dtype, value, factor(dtype, x, i, i));
        }
        line_set(dtype, x, i, value);
    }
}

GX_INLINE void multiply_line(gx_number dtype, const line *x, gx_scalar alpha)
{
    for (int64_t q = 0; q < x->count; q++) {
        int64_t i = x->is_lower ? x->count - 1 - q : q;
        gx_scalar value = times(factor(dtype, x, i, i), line_get(dtype, x, i));
        line_set(dtype, x, i, scaled(alpha, add(row_times_line(dtype, x, i), value)));
    }
}

GX_INLINE gx_code triangular(gx_number dtype, const gx_args *p, bool solves)
{
    gx_scalar alpha = scalar_of(dtype, p->alpha);
    int64_t lines = p->side == GX_LEFT ? p->n : p->m;
    for (int64_t at = 0; at < lines; at++) {
        line x = line_of(p, at);
        if (is_zero(alpha)) {
            for (int64_t i = 0; i < x.count; i++) {
                line_set(dtype, &x, i, (gx_scalar){0, 0});
            }
        } else if (solves) {
            solve_line(dtype, &x, alpha);
        } else {
            multiply_line(dtype, &x, alpha);
        }
    }
    return GX_OK;
}

GX_LOOP(trsm)
{
    return triangular(dtype, p, true);
}

GX_LOOP(trmm)
{
    return triangular(dtype, p, false);
}

// Cholesky ----------------------------------------------------------------------------------------

/* Element (i, j), i >= j, of the lower factor: of c, or of c^H. */
GX_INLINE gx_scalar lower_get(gx_number dtype, const gx_args *p, int64_t i, int64_t j)
{
    return p->uplo == GX_LOWER ? load(dtype, p->c, p->ldc, i, j)
                               : conjugate(load(dtype, p->c, p->ldc, j, i));
}

GX_INLINE void lower_set(gx_number dtype, const gx_args *p, int64_t i, int64_t j, gx_scalar value)
{
    if (p->uplo == GX_LOWER) {
        store(dtype, p->c, p->ldc, i, j, value);
    } else {
        store(dtype, p->c, p->ldc, j, i, conjugate(value));
    }
}

/* l(i, j) before its division: c(i, j) - sum of l(i, k) conj(l(j, k)), k < j. */
GX_INLINE gx_scalar rest_of(gx_number dtype, const gx_args *p, int64_t i, int64_t j)
{
    gx_scalar value = lower_get(dtype, p, i, j);
    for (int64_t k = 0; k < j; k++) {
        gx_scalar other = conjugate(lower_get(dtype, p, j, k));
        value = gx_scalar_minus(value, times(lower_get(dtype, p, i, k), other));
    }
    return value;
}

GX_LOOP(potrf)
{
    *p->info = 0;
    for (int64_t j = 0; j < p->n; j++) {
        double pivot = rest_of(dtype, p, j, j).re;
        if (!(pivot > 0)) {
            *p->info = j + 1;
            return GX_OK;
        }
        double root = sqrt(pivot);
        lower_set(dtype, p, j, j, (gx_scalar){root, 0});
        for (int64_t i = j + 1; i < p->n; i++) {
            gx_scalar value = rest_of(dtype, p, i, j);
            lower_set(dtype, p, i, j, (gx_scalar){value.re / root, value.im / root});
        }
    }
    return GX_OK;
}

// LU ----------------------------------------------------------------------------------------------

GX_INLINE void swap_rows(gx_number dtype, const gx_args *p, int64_t i, int64_t k)
{
    for (int64_t j = 0; i != k && j < p->n; j++) {
        gx_scalar x = load(dtype, p->c, p->ldc, i, j);
        store(dtype, p->c, p->ldc, i, j, load(dtype, p->c, p->ldc, k, j));
        store(dtype, p->c, p->ldc, k, j, x);
    }
}

GX_INLINE int64_t largest_below(gx_number dtype, const gx_args *p, int64_t j)
{
    int64_t best = j;
    double most = 0;
    for (int64_t i = j; i < p->m; i++) {
        gx_scalar x = load(dtype, p->c, p->ldc, i, j);
        double size = fabs(x.re) + fabs(x.im);
        if (i == j || size > most) {
            best = i;
            most = size;
        }
    }
    return best;
}

GX_LOOP(getrf)
{
    *p->info = 0;
    for (int64_t j = 0; j < gx_min(p->m, p->n); j++) {
        p->pivots[j] = largest_below(dtype, p, j);
        swap_rows(dtype, p, j, p->pivots[j]);
        gx_scalar pivot = load(dtype, p->c, p->ldc, j, j);
        if (is_zero(pivot)) {
            *p->info = *p->info == 0 ? j + 1 : *p->info;
        }
        for (int64_t i = j + 1; i < p->m && !is_zero(pivot); i++) {
            gx_scalar below = quotient(dtype, load(dtype, p->c, p->ldc, i, j), pivot);
            store(dtype, p->c, p->ldc, i, j, below);
        }
        for (int64_t l = j + 1; l < p->n; l++) {
            gx_scalar right = load(dtype, p->c, p->ldc, j, l);
            for (int64_t i = j + 1; i < p->m; i++) {
                gx_scalar old = load(dtype, p->c, p->ldc, i, l);
                gx_scalar below = load(dtype, p->c, p->ldc, i, j);
                store(dtype, p->c, p->ldc, i, l, gx_scalar_minus(old, times(below, right)));
            }
        }
    }
    return GX_OK;
}

GX_LOOP(laswp)
{
    for (int64_t q = p->pivot_first; q < p->pivot_last; q++) {
        int64_t j = p->is_backward ? p->pivot_first + p->pivot_last - 1 - q : q;
        swap_rows(dtype, p, p->row_offset + j, p->row_offset + p->pivots[j]);
    }
    return GX_OK;
}

GX_SLOTS_DEFINE(, gx_ref_triangle, triangle)
GX_FIELD_SLOT_DEFINE(gx_ref_triangle, triangle)
GX_SLOTS_DEFINE(, gx_ref_trsm, trsm)
GX_SLOTS_DEFINE(, gx_ref_trmm, trmm)
GX_SLOTS_DEFINE(, gx_ref_potrf, potrf)
GX_SLOTS_DEFINE(, gx_ref_getrf, getrf)
GX_SLOTS_DEFINE(, gx_ref_laswp, laswp)
