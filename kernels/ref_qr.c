/*
** The reference backend: reflectors.  See ref.c for the manner.
**
** A reflector H = I - tau v v^H takes a vector x to (beta, 0 .. 0): beta = -sign(re x_0) ||x||,
** tau = (beta - x_0) / beta, v = x / (x_0 - beta) with v_0 = 1, as LAPACK's larfg, so that beta
** is real; H = I (tau 0) where x is (real, 0 .. 0) already.  Norms are taken in long double, whose
** exponents are long enough for the squares of doubles: nothing needs scaling.
**
** What a reflector works on is a stack: the rows of c from some row on (GEQRF), or one row of c
** above all of c2 (TPQRT).  Only LARFB needs memory, k elements of `work`.
*/
#include "ref.h"

/*
** Reflectors and what they are applied to.  Component i of v_l: trapezoidal ones are a's columns,
** 1 at i = l, 0 above; pentagonal ones have the unit matrix above a.
*/
typedef struct stack {
    const gx_args *p;
    bool is_pentagon;
    int64_t rows; /* components of a reflector */
} stack;

GX_INLINE stack stack_of(const gx_args *p, bool is_pentagon)
{
    int64_t rows = p->side == GX_LEFT ? p->m : p->n;
    return (stack){p, is_pentagon, is_pentagon ? p->k + rows : rows};
}

GX_INLINE gx_scalar component(gx_number dtype, const stack *s, int64_t i, int64_t l)
{
    if (i == l || i < (s->is_pentagon ? s->p->k : l)) {
        return (gx_scalar){i == l ? 1 : 0, 0};
    }
    return load(dtype, s->p->a, s->p->lda, s->is_pentagon ? i - s->p->k : i, l);
}

/* Element i of line `at`: a column of [c; c2] on the left, a row of [c c2] on the right. */
GX_INLINE gx_scalar get(gx_number dtype, const stack *s, int64_t i, int64_t at)
{
    const gx_args *p = s->p;
    bool is_second = s->is_pentagon && i >= p->k, is_left = p->side == GX_LEFT;
    int64_t q = is_second ? i - p->k : i;
    return load(dtype, is_second ? p->c2 : p->c, is_second ? p->ldc2 : p->ldc, is_left ? q : at,
                is_left ? at : q);
}

GX_INLINE void put(gx_number dtype, const stack *s, int64_t i, int64_t at, gx_scalar value)
{
    const gx_args *p = s->p;
    bool is_second = s->is_pentagon && i >= p->k, is_left = p->side == GX_LEFT;
    int64_t q = is_second ? i - p->k : i;
    store(dtype, is_second ? p->c2 : p->c, is_second ? p->ldc2 : p->ldc, is_left ? q : at,
          is_left ? at : q, value);
}

GX_INLINE gx_scalar tau_of(gx_number dtype, const gx_args *p, int64_t l)
{
    return load(dtype, p->tau, 1, 0, l);
}

GX_INLINE bool is_plain(gx_number dtype, const gx_args *p)
{
    return gx_number_is_complex(dtype) && p->transa == GX_TRANS;
}

// Making reflectors -------------------------------------------------------------------------------

/*
** Make the reflector of (c(row, col), x(first .. last - 1, col)): v replaces x, beta c(row, col).
** Returns tau.
*/
GX_INLINE gx_scalar reflect(gx_number dtype, const gx_args *p, int64_t row, void *x, int64_t ldx,
                            int64_t first, int64_t last, int64_t col)
{
    gx_scalar head = load(dtype, p->c, p->ldc, row, col);
    long double sum = 0;
    for (int64_t i = first; i < last; i++) {
        gx_scalar e = load(dtype, x, ldx, i, col);
        sum += (long double)e.re * (long double)e.re + (long double)e.im * (long double)e.im;
    }
    if (sum == 0 && head.im == 0) {
        return (gx_scalar){0, 0};
    }
    sum +=
        (long double)head.re * (long double)head.re + (long double)head.im * (long double)head.im;
    double beta = -copysign((double)sqrtl(sum), head.re);
    gx_scalar pivot = {head.re - beta, head.im};
    for (int64_t i = first; i < last; i++) {
        store(dtype, x, ldx, i, col, quotient(dtype, load(dtype, x, ldx, i, col), pivot));
    }
    store(dtype, p->c, p->ldc, row, col, (gx_scalar){beta, 0});
    return (gx_scalar){(beta - head.re) / beta, -head.im / beta};
}

/* Apply H^H of that reflector to a later column. */
GX_INLINE void reflect_column(gx_number dtype, const gx_args *p, gx_scalar tau, int64_t row,
                              void *x, int64_t ldx, int64_t first, int64_t last, int64_t col,
                              int64_t later)
{
    gx_scalar sum = load(dtype, p->c, p->ldc, row, later);
    for (int64_t i = first; i < last; i++) {
        gx_scalar v = conjugate(load(dtype, x, ldx, i, col));
        sum = add(sum, times(v, load(dtype, x, ldx, i, later)));
    }
    sum = times(conjugate(tau), sum);
    gx_scalar head = load(dtype, p->c, p->ldc, row, later);
    store(dtype, p->c, p->ldc, row, later, gx_scalar_minus(head, sum));
    for (int64_t i = first; i < last; i++) {
        gx_scalar step = times(load(dtype, x, ldx, i, col), sum);
        store(dtype, x, ldx, i, later, gx_scalar_minus(load(dtype, x, ldx, i, later), step));
    }
}

GX_LOOP(geqrf)
{
    for (int64_t j = 0; j < gx_min(p->m, p->n); j++) {
        gx_scalar tau = reflect(dtype, p, j, p->c, p->ldc, j + 1, p->m, j);
        store(dtype, p->tau, 1, 0, j, tau);
        for (int64_t l = j + 1; l < p->n && !is_zero(tau); l++) {
            reflect_column(dtype, p, tau, j, p->c, p->ldc, j + 1, p->m, j, l);
        }
    }
    return GX_OK;
}

GX_LOOP(tpqrt)
{
    for (int64_t j = 0; j < p->n; j++) {
        gx_scalar tau = reflect(dtype, p, j, p->c2, p->ldc2, 0, p->m, j);
        store(dtype, p->tau, 1, 0, j, tau);
        for (int64_t l = j + 1; l < p->n && !is_zero(tau); l++) {
            reflect_column(dtype, p, tau, j, p->c2, p->ldc2, 0, p->m, j, l);
        }
    }
    return GX_OK;
}

// Applying them -----------------------------------------------------------------------------------

/* One line through H or H^H: x - tau v (v^H x) on the left, x - (x v) tau v^H on the right. */
GX_INLINE void apply_one(gx_number dtype, const stack *s, gx_scalar tau, int64_t l, int64_t at)
{
    bool is_left = s->p->side == GX_LEFT;
    gx_scalar sum = {0, 0};
    for (int64_t i = l; i < s->rows; i++) {
        gx_scalar v = component(dtype, s, i, l);
        sum = add(sum, times(is_left ? conjugate(v) : v, get(dtype, s, i, at)));
    }
    sum = times(tau, sum);
    for (int64_t i = l; i < s->rows; i++) {
        gx_scalar v = component(dtype, s, i, l);
        gx_scalar step = times(is_left ? v : conjugate(v), sum);
        put(dtype, s, i, at, gx_scalar_minus(get(dtype, s, i, at), step));
    }
}

GX_INLINE gx_code apply_all(gx_number dtype, const gx_args *p, bool is_pentagon)
{
    stack s = stack_of(p, is_pentagon);
    bool is_plain_q = p->transa == GX_NO_TRANS;
    bool is_ascending = is_plain_q == (p->side == GX_RIGHT);
    int64_t lines = p->side == GX_LEFT ? p->n : p->m;
    for (int64_t at = 0; at < lines; at++) {
        for (int64_t q = 0; q < p->k; q++) {
            int64_t l = is_ascending ? q : p->k - 1 - q;
            gx_scalar tau = tau_of(dtype, p, l);
            apply_one(dtype, &s, is_plain_q ? tau : conjugate(tau), l, at);
        }
    }
    return GX_OK;
}

GX_INLINE gx_code ormqr(gx_number dtype, const gx_args *p, gx_err *err)
{
    if (is_plain(dtype, p)) {
        return gx_fail(err, GX_UNSUPPORTED, "ormqr has no plain transpose of complex reflectors");
    }
    return apply_all(dtype, p, false);
}

GX_INLINE gx_code tpmqrt(gx_number dtype, const gx_args *p, gx_err *err)
{
    if (is_plain(dtype, p)) {
        return gx_fail(err, GX_UNSUPPORTED, "tpmqrt has no plain transpose of complex reflectors");
    }
    return apply_all(dtype, p, true);
}

/* Column l of Q from v_l, which is in c; the columns after it are done. */
GX_INLINE void generate_column(gx_number dtype, const gx_args *p, int64_t l)
{
    gx_scalar tau = tau_of(dtype, p, l);
    for (int64_t j = l + 1; j < p->n; j++) {
        reflect_column(dtype, p, conjugate(tau), l, p->c, p->ldc, l + 1, p->m, l, j);
    }
    for (int64_t i = 0; i < p->m; i++) {
        gx_scalar value = {0, 0};
        if (i == l) {
            value = gx_scalar_minus((gx_scalar){1, 0}, tau);
        } else if (i > l) {
            value = gx_scalar_minus(value, times(tau, load(dtype, p->c, p->ldc, i, l)));
        }
        store(dtype, p->c, p->ldc, i, l, value);
    }
}

GX_LOOP(orgqr)
{
    for (int64_t j = p->k; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            store(dtype, p->c, p->ldc, i, j, (gx_scalar){i == j ? 1 : 0, 0});
        }
    }
    for (int64_t l = p->k - 1; l >= 0; l--) {
        generate_column(dtype, p, l);
    }
    return GX_OK;
}

// Blocks of reflectors ----------------------------------------------------------------------------

/* T(0 .. j-1, j) = -tau_j T (V^H v_j), T(j, j) = tau_j. */
GX_INLINE void larft_column(gx_number dtype, const gx_args *p, int64_t j)
{
    gx_args left = *p;
    left.side = GX_LEFT;
    stack s = stack_of(&left, p->is_pentagon);
    gx_scalar tau = tau_of(dtype, p, j);
    for (int64_t l = 0; l < j; l++) {
        gx_scalar sum = {0, 0};
        for (int64_t i = j; i < s.rows; i++) {
            gx_scalar v = conjugate(component(dtype, &s, i, l));
            sum = add(sum, times(v, component(dtype, &s, i, j)));
        }
        store(dtype, p->c, p->ldc, l, j, times((gx_scalar){-tau.re, -tau.im}, sum));
    }
    for (int64_t i = 0; i < j; i++) { // in place: row i needs the elements from i on
        gx_scalar sum = {0, 0};
        for (int64_t l = i; l < j; l++) {
            gx_scalar t = load(dtype, p->c, p->ldc, i, l);
            sum = add(sum, times(t, load(dtype, p->c, p->ldc, l, j)));
        }
        store(dtype, p->c, p->ldc, i, j, sum);
    }
    store(dtype, p->c, p->ldc, j, j, tau);
}

GX_LOOP(larft)
{
    for (int64_t j = 0; j < p->k; j++) {
        larft_column(dtype, p, j);
        for (int64_t i = j + 1; i < p->k; i++) {
            store(dtype, p->c, p->ldc, i, j, (gx_scalar){0, 0});
        }
    }
    return GX_OK;
}

/* One line through I - V op(T) V^H; w: k elements. */
GX_INLINE void apply_block(gx_number dtype, const stack *s, int64_t at, void *w)
{
    const gx_args *p = s->p;
    bool is_left = p->side == GX_LEFT;
    for (int64_t l = 0; l < p->k; l++) {
        gx_scalar sum = {0, 0};
        for (int64_t i = l; i < s->rows; i++) {
            gx_scalar v = component(dtype, s, i, l);
            sum = add(sum, times(is_left ? conjugate(v) : v, get(dtype, s, i, at)));
        }
        store(GX_C128, w, 1, 0, l, sum);
    }
    for (int64_t l = 0; l < p->k; l++) {
        gx_scalar u = {0, 0}; // op(T)(l, q) w(q) on the left, w(q) op(T)(q, l) on the right
        for (int64_t q = 0; q < p->k; q++) {
            int64_t i = is_left ? l : q, j = is_left ? q : l;
            if (in_triangle(p->transa == GX_NO_TRANS ? GX_UPPER : GX_LOWER, i, j)) {
                gx_scalar t = load_op(dtype, p->transa, p->b, p->ldb, i, j);
                u = add(u, times(t, load(GX_C128, w, 1, 0, q)));
            }
        }
        for (int64_t i = l; i < s->rows; i++) {
            gx_scalar v = component(dtype, s, i, l);
            gx_scalar step = times(is_left ? v : conjugate(v), u);
            put(dtype, s, i, at, gx_scalar_minus(get(dtype, s, i, at), step));
        }
    }
}

GX_INLINE gx_code larfb(gx_number dtype, const gx_args *p, gx_err *err)
{
    if (is_plain(dtype, p)) {
        return gx_fail(err, GX_UNSUPPORTED, "larfb has no plain transpose of complex reflectors");
    }
    stack s = stack_of(p, false);
    int64_t lines = p->side == GX_LEFT ? p->n : p->m;
    for (int64_t at = 0; at < lines; at++) {
        apply_block(dtype, &s, at, p->work);
    }
    return GX_OK;
}

size_t gx_ref_workspace(gx_dev *dev, gx_kernel_id kernel, gx_number dtype, const gx_args *args)
{
    (void)dev;
    (void)dtype;
    return kernel == GX_LARFB  ? (size_t)args->k * sizeof(gx_scalar)
           : kernel == GX_FFT  ? gx_ref_fft_bytes(args)
           : kernel == GX_GRID ? gx_ref_grid_bytes(args)
                               : 0;
}

GX_SLOTS_DEFINE(, gx_ref_geqrf, geqrf)
GX_SLOTS_DEFINE(, gx_ref_larft, larft)
GX_SLOTS_DEFINE(, gx_ref_larfb, larfb)
GX_SLOTS_DEFINE(, gx_ref_ormqr, ormqr)
GX_SLOTS_DEFINE(, gx_ref_orgqr, orgqr)
GX_SLOTS_DEFINE(, gx_ref_tpqrt, tpqrt)
GX_SLOTS_DEFINE(, gx_ref_tpmqrt, tpmqrt)
