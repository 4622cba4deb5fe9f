/*
** Is a spectrum right?  Random vectors against it, O(n^2): see dense_device.h.
**
**   SYEV    A w = V diag(values) V^H w, and V V^H w = w; of A the triangle that counts
**   GEEV    A (V w) = V (values o w)
**   GESDD   A w = U diag(values) V^H w; ||U t|| = ||t||, ||V t|| = ||t||
**   values alone   their sum is the trace (SYEV, GEEV), their squares add up to ||A||_F^2 (SYEV,
**           GESDD)
**
** w has signs as elements (Freivalds 1977): a wrong column shows, whichever it is.  The ratio is
** the largest ||left - right|| / (n eps scale), the scale being what rounding is relative to.
** Where A or a result is not finite the ratio is infinite.
*/
#include "../base/random.h"
#include "dense.h"
#include "dense_device.h"
#include "small_r.h"

#include <math.h>
#include <string.h>

enum { VECTORS = 2, SPARE = 6 };

typedef struct checking {
    gx_run *run;
    gx_kernel_id kernel;
    gx_number dtype, real, wide; /* wide: of values and vectors of GEEV, else dtype */
    const gx_args *args;
    int64_t m, n, least, most;
    void *room[SPARE]; /* most x 2 VECTORS each, of wide */
    double worst;      /* difference / scale            */
} checking;

static double norm(const checking *k, gx_number dtype, const void *x, int64_t rows)
{
    return gx_small_norm(dtype, x, k->most, rows, VECTORS);
}

/* y = op(a) x, VECTORS columns, a rows x inner after op; leading dimensions of x, y: most. */
static void multiply(const checking *k, gx_number dtype, gx_trans trans, const void *a, int64_t lda,
                     int64_t rows, int64_t inner, const void *x, void *y)
{
    gx_dense_gemm(k->run, dtype, trans, GX_NO_TRANS, rows, VECTORS, inner, 1, a, lda, x, k->most, 0,
                  y, k->most);
}

/* x(i) = values(i) x(i); values of value_dtype. */
static void scale_rows(const checking *k, gx_number dtype, gx_number value_dtype, void *x)
{
    for (int64_t j = 0; j < VECTORS; j++) {
        for (int64_t i = 0; i < k->least; i++) {
            gx_scalar v = gx_number_get(value_dtype, k->args->values, i);
            gx_scalar e = gx_number_get(dtype, x, j * k->most + i);
            gx_number_put(dtype, x, j * k->most + i, gx_scalar_times(v, e));
        }
    }
}

/* Signs, the same on every run. */
static void draw(const checking *k, gx_number dtype, int64_t rows, void *x)
{
    uint64_t state = 20261121;
    for (int64_t j = 0; j < VECTORS; j++) {
        for (int64_t i = 0; i < rows; i++) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            gx_number_put(dtype, x, j * k->most + i, (gx_scalar){(state >> 40) & 1 ? 1 : -1, 0});
        }
    }
}

/* The difference of x and y beside a scale. */
static void compare(checking *k, gx_number dtype, const void *x, const void *y, int64_t rows,
                    double scale)
{
    double worst = 0;
    for (int64_t j = 0; j < VECTORS; j++) {
        for (int64_t i = 0; i < rows; i++) {
            gx_scalar a = gx_number_get(dtype, x, j * k->most + i),
                      b = gx_number_get(dtype, y, j * k->most + i);
            double d = hypot(a.re - b.re, a.im - b.im);
            worst = isfinite(d) ? hypot(worst, d) : (double)INFINITY;
        }
    }
    double ratio = worst == 0 ? 0 : scale > 0 ? worst / scale : (double)INFINITY;
    k->worst = isfinite(ratio) ? fmax(k->worst, ratio) : (double)INFINITY;
}

static void compare_numbers(checking *k, double x, double y, double scale)
{
    double d = fabs(x - y), ratio = d == 0 ? 0 : scale > 0 ? d / scale : (double)INFINITY;
    k->worst = isfinite(ratio) ? fmax(k->worst, ratio) : (double)INFINITY;
}

// Hermitian ---------------------------------------------------------------------------------------

static double largest_value(const checking *k, gx_number dtype)
{
    double largest = 0;
    for (int64_t i = 0; i < k->least; i++) {
        gx_scalar v = gx_number_get(dtype, k->args->values, i);
        largest = fmax(largest, hypot(v.re, v.im));
    }
    return largest;
}

/* y = A w of the triangle: T w + (T^H w - D w); z is spoilt. */
static void multiply_hermitian(const checking *k, const void *w, void *y, void *z)
{
    size_t bytes = (size_t)(k->most * VECTORS) * gx_number_bytes(k->dtype);
    for (int side = 0; side < 2; side++) {
        gx_args args = {.side = GX_LEFT,
                        .uplo = k->args->uplo,
                        .transa = side == 0 ? GX_NO_TRANS : gx_adjoint(k->dtype),
                        .m = k->n,
                        .n = VECTORS,
                        .alpha = {1, 0},
                        .a = k->args->c,
                        .lda = k->args->ldc,
                        .c = side == 0 ? y : z,
                        .ldc = k->most};
        memcpy(args.c, w, bytes);
        gx_dense_call(k->run, GX_TRMM, k->dtype, &args);
    }
    for (int64_t j = 0; j < VECTORS; j++) {
        for (int64_t i = 0; i < k->n; i++) {
            int64_t at = j * k->most + i;
            gx_scalar d = gx_number_get(k->dtype, k->args->c, i * k->args->ldc + i);
            gx_scalar e = gx_number_get(k->dtype, w, at), a = gx_number_get(k->dtype, y, at),
                      b = gx_number_get(k->dtype, z, at);
            // T w has d w once, imaginary part and all; T^H w once more, conjugated
            gx_number_put(k->dtype, y, at,
                          (gx_scalar){a.re + b.re - d.re * e.re, a.im + b.im - d.re * e.im});
        }
    }
}

static void check_hermitian(checking *k)
{
    void *w = k->room[0], *left = k->room[1], *t = k->room[2], *right = k->room[3];
    const void *V = k->args->right;
    int64_t ld = k->args->ldright;
    draw(k, k->dtype, k->n, w);
    multiply_hermitian(k, w, left, t);
    multiply(k, k->dtype, gx_adjoint(k->dtype), V, ld, k->n, k->n, w, t);
    multiply(k, k->dtype, GX_NO_TRANS, V, ld, k->n, k->n, t, right);
    compare(k, k->dtype, right, w, k->n, norm(k, k->dtype, w, k->n)); // V V^H = I
    scale_rows(k, k->dtype, k->real, t);
    multiply(k, k->dtype, GX_NO_TRANS, V, ld, k->n, k->n, t, right);
    compare(k, k->dtype, left, right, k->n,
            largest_value(k, k->real) * norm(k, k->dtype, w, k->n) + norm(k, k->dtype, left, k->n));
}

/* Values alone: the trace, and ||A||_F^2. */
static void check_hermitian_values(checking *k)
{
    double trace = 0, square = 0, sum = 0, squares = 0, unit = largest_value(k, k->real);
    unit = unit > 0 && isfinite(unit) ? unit : 1;
    bool is_lower = k->args->uplo == GX_LOWER;
    for (int64_t j = 0; j < k->n; j++) {
        const void *column = gx_at(k->args->c, k->dtype, k->args->ldc, 0, j);
        double d = gx_number_get(k->dtype, column, j).re / unit;
        int64_t first = is_lower ? j + 1 : 0, count = is_lower ? k->n - j - 1 : j;
        double rest =
            gx_small_norm(k->dtype, gx_at(column, k->dtype, 1, first, 0), k->args->ldc, count, 1) /
            unit;
        double value = gx_number_get(k->real, k->args->values, j).re / unit;
        trace += d;
        square += d * d + 2 * rest * rest;
        sum += value;
        squares += value * value;
    }
    compare_numbers(k, sum, trace, (double)k->n);
    compare_numbers(k, sqrt(squares), sqrt(square), sqrt(square));
}

// General -----------------------------------------------------------------------------------------

static void check_trace(checking *k)
{
    gx_scalar trace = {0, 0}, sum = {0, 0};
    for (int64_t i = 0; i < k->n; i++) {
        gx_scalar d = gx_number_get(k->dtype, k->args->c, i * k->args->ldc + i);
        gx_scalar v = gx_number_get(k->wide, k->args->values, i);
        trace.re += d.re;
        trace.im += d.im;
        sum.re += v.re;
        sum.im += v.im;
    }
    double scale = gx_small_norm(k->dtype, k->args->c, k->args->ldc, k->n, k->n);
    compare_numbers(k, hypot(sum.re - trace.re, sum.im - trace.im), 0, scale);
}

/* y = A x, x of wide: real and imaginary parts one after the other where A is real. */
static void multiply_mixed(const checking *k, const void *x, void *y, void *parts, void *products)
{
    if (k->dtype == k->wide) {
        multiply(k, k->dtype, GX_NO_TRANS, k->args->c, k->args->ldc, k->n, k->n, x, y);
        return;
    }
    for (int p = 0; p < 2; p++) {
        for (int64_t i = 0; i < k->most * VECTORS; i++) {
            gx_scalar e = gx_number_get(k->wide, x, i);
            gx_number_put(k->dtype, parts, i, (gx_scalar){p == 0 ? e.re : e.im, 0});
        }
        multiply(k, k->dtype, GX_NO_TRANS, k->args->c, k->args->ldc, k->n, k->n, parts, products);
        for (int64_t i = 0; i < k->most * VECTORS; i++) {
            gx_scalar e = p == 0 ? (gx_scalar){0, 0} : gx_number_get(k->wide, y, i);
            double product = gx_number_get(k->dtype, products, i).re;
            e.re = p == 0 ? product : e.re;
            e.im = p == 0 ? 0 : product;
            gx_number_put(k->wide, y, i, e);
        }
    }
}

static void check_general(checking *k)
{
    void *w = k->room[0], *x = k->room[1], *left = k->room[2], *right = k->room[3];
    draw(k, k->wide, k->n, w);
    multiply(k, k->wide, GX_NO_TRANS, k->args->right, k->args->ldright, k->n, k->n, w, x);
    multiply_mixed(k, x, left, k->room[4], k->room[5]);
    scale_rows(k, k->wide, k->wide, w);
    multiply(k, k->wide, GX_NO_TRANS, k->args->right, k->args->ldright, k->n, k->n, w, right);
    double size = gx_small_norm(k->dtype, k->args->c, k->args->ldc, k->n, k->n);
    compare(k, k->wide, left, right, k->n, size * sqrt((double)(k->n * VECTORS)));
}

// Singular values ---------------------------------------------------------------------------------

static void check_svd(checking *k)
{
    void *w = k->room[0], *left = k->room[1], *t = k->room[2], *right = k->room[3];
    const gx_args *a = k->args;
    draw(k, k->dtype, k->n, w);
    multiply(k, k->dtype, GX_NO_TRANS, a->c, a->ldc, k->m, k->n, w, left);
    multiply(k, k->dtype, GX_NO_TRANS, a->right, a->ldright, k->least, k->n, w, t);
    scale_rows(k, k->dtype, k->real, t);
    multiply(k, k->dtype, GX_NO_TRANS, a->left, a->ldleft, k->m, k->least, t, right);
    compare(k, k->dtype, left, right, k->m,
            largest_value(k, k->real) * norm(k, k->dtype, w, k->n) + norm(k, k->dtype, left, k->m));
    draw(k, k->dtype, k->least, t);
    double length = norm(k, k->dtype, t, k->least);
    multiply(k, k->dtype, GX_NO_TRANS, a->left, a->ldleft, k->m, k->least, t, right);
    compare_numbers(k, norm(k, k->dtype, right, k->m), length, length);
    multiply(k, k->dtype, gx_adjoint(k->dtype), a->right, a->ldright, k->n, k->least, t, right);
    compare_numbers(k, norm(k, k->dtype, right, k->n), length, length);
}

static void check_singular_values(checking *k)
{
    double size = gx_small_norm(k->dtype, k->args->c, k->args->ldc, k->m, k->n);
    double sum = gx_small_norm(k->real, k->args->values, gx_max(1, k->least), k->least, 1);
    compare_numbers(k, sum, size, size);
}

// The check ---------------------------------------------------------------------------------------

static void check_all(checking *k)
{
    bool has_vectors = k->args->wants_right;
    switch (k->kernel) {
    case GX_SYEV:
        if (has_vectors) {
            check_hermitian(k);
        } else {
            check_hermitian_values(k);
        }
        break;
    case GX_GEEV:
        check_trace(k);
        if (has_vectors) {
            check_general(k);
        }
        break;
    default:
        if (has_vectors) {
            check_svd(k);
        } else {
            check_singular_values(k);
        }
    }
}

double gx_dense_ratio(gx_run *run, gx_kernel_id kernel, gx_number dtype, const gx_args *args)
{
    checking k = {.run = run,
                  .kernel = kernel,
                  .dtype = dtype,
                  .real = gx_number_real(dtype),
                  .wide = kernel == GX_GEEV ? gx_number_promote(dtype, GX_C64) : dtype,
                  .args = args,
                  .m = args->m,
                  .n = args->n,
                  .least = gx_min(args->m, args->n),
                  .most = gx_max(1, gx_max(args->m, args->n))};
    gx_span span = gx_stats_open(&run->ctx->stats);
    for (int i = 0; i < SPARE && gx_ok(run); i++) {
        gx_dense_alloc(run, k.wide, k.most, VECTORS, "a check", &k.room[i]);
        if (k.room[i] != NULL) {
            memset(k.room[i], 0, (size_t)(k.most * VECTORS) * gx_number_bytes(k.wide));
        }
    }
    if (gx_ok(run)) {
        check_all(&k);
    }
    for (int i = 0; i < SPARE; i++) {
        gx_mem_free(run->ctx->mem, k.room[i]);
    }
    gx_stats_close(&run->ctx->stats, GX_STAT_CHECK_NS, span);
    double eps = gx_number_eps(dtype);
    return k.worst / ((double)k.most * eps);
}
