/*
** Work matrices of functions of matrices: square, in doubles, in memory or on a device.  See
** funm_matrix.h.
**
** Each function is one kernel call or a loop over n^2 numbers; all are sticky: nothing happens once
** the run has failed.
*/
#include "funm_matrix.h"

#include "../alg/alg_lu.h"
#include "../alg/dense.h"

#include <math.h>
#include <string.h>

void *gx_funm_matrix(const gx_funm_work *w)
{
    return w->device != NULL
               ? gx_funm_device_matrix(w->device)
               : gx_dense_take(w->run, w->dtype, w->n, w->n, "a function of a matrix");
}

void gx_funm_free(const gx_funm_work *w, void *x)
{
    if (w->device != NULL) {
        gx_funm_device_free(w->device, x);
    } else {
        gx_mem_free(w->run->ctx->mem, x);
    }
}

gx_args gx_funm_square_args(const gx_funm_work *w)
{
    int64_t n = w->n, ld = gx_max(1, n);
    return (gx_args){.m = n, .n = n, .k = n, .lda = ld, .ldb = ld, .ldc = ld, .ldright = ld};
}

void gx_funm_copy(const gx_funm_work *w, const void *from, void *to)
{
    gx_args args = gx_funm_square_args(w);
    args.a = from;
    args.c = to;
    if (w->device != NULL) {
        gx_funm_call(w, GX_COPY, w->dtype, &args);
    } else if (gx_ok(w->run)) {
        memcpy(to, from, (size_t)(w->n * w->n) * gx_number_bytes(w->dtype));
    }
}

/* Zeros, of which the triangle with ones on its diagonal is the unit matrix. */
void gx_funm_unit(const gx_funm_work *w, void *x)
{
    gx_args args = gx_funm_square_args(w);
    args.a = args.c = x;
    args.uplo = GX_UPPER;
    args.diag = GX_UNIT;
    gx_funm_call(w, GX_FILL, w->dtype, &args);
    gx_funm_call(w, GX_TRIANGLE, w->dtype, &args);
}

void gx_funm_multiply(const gx_funm_work *w, double alpha, gx_trans transa, const void *a,
                      gx_trans transb, const void *b, double beta, void *c)
{
    gx_args args = gx_funm_square_args(w);
    args.transa = transa;
    args.transb = transb;
    args.alpha.re = alpha;
    args.beta.re = beta;
    args.a = a;
    args.b = b;
    args.c = c;
    gx_funm_call(w, GX_GEMM, w->dtype, &args);
}

void gx_funm_add(const gx_funm_work *w, double alpha, const void *a, double beta, const void *b,
                 void *c)
{
    gx_args args = gx_funm_square_args(w);
    args.alpha.re = alpha;
    args.beta.re = beta;
    args.a = a;
    args.b = b;
    args.c = c;
    args.map = beta == 0 ? GX_MAP_SCALE : GX_MAP_ADD;
    gx_funm_call(w, GX_MAP, w->dtype, &args);
}

/* ones^T |x|^p, in v or the row behind it; size: |x| is to come there, of w's dtype. */
static void *row_of_power(const gx_funm_work *w, const void *x, int p, void *size, void *v)
{
    void *next = gx_at(v, w->dtype, 1, 0, w->n);
    gx_args sizes = gx_funm_square_args(w);
    sizes.a = x;
    sizes.c = size;
    sizes.map = GX_MAP_ABS;
    gx_funm_call(w, GX_MAP, w->dtype, &sizes);
    gx_args ones = {.m = 1, .n = w->n, .c = v, .ldc = 1, .alpha = {1, 0}};
    gx_funm_call(w, GX_FILL, w->dtype, &ones);
    for (int step = 0; step < p && gx_funm_ok(w); step++) {
        gx_args args = {.m = 1, .n = w->n, .k = w->n, .lda = 1, .ldb = w->n, .ldc = 1};
        args.alpha.re = 1;
        args.a = v;
        args.b = size;
        args.c = next;
        gx_funm_call(w, GX_GEMM, w->dtype, &args);
        void *last = v;
        v = next;
        next = last;
        gx_run_poll(w->run);
    }
    return v;
}

double gx_funm_norm_of_power(const gx_funm_work *w, const void *x, int p)
{
    void *size = gx_funm_matrix(w), *memory = NULL, *row = NULL;
    double most = 0;
    if (gx_dense_alloc(w->run, w->dtype, 2, w->n, "a norm", &memory) == GX_OK && size != NULL) {
        void *v = w->device == NULL ? memory : gx_funm_device_rows(w->device);
        row = row_of_power(w, x, p, size, v);
    }
    if (row != NULL && w->device != NULL) {
        gx_funm_device_get(w, 1, w->n, row, memory);
        row = memory;
    }
    for (int64_t j = 0; row != NULL && gx_funm_ok(w) && j < w->n; j++) {
        double sum = gx_number_get(w->dtype, row, j).re;
        most = sum > most || isnan(sum) ? sum : most;
    }
    gx_mem_free(w->run->ctx->mem, memory);
    gx_funm_free(w, size);
    return most;
}

double gx_funm_norm1(const gx_funm_work *w, const void *x)
{
    return gx_funm_norm_of_power(w, x, 1);
}

/* A matrix, and a copy of it. */
typedef struct copying {
    const gx_funm_work *w;
    const void *from;
    void *to;
} copying;

static void *copy_to(void *arg)
{
    const copying *c = arg;
    gx_funm_copy(c->w, c->from, c->to);
    return c->to;
}

/* factor = L U of P a on the device; info as GETRF's. */
static void factor_there(const gx_funm_work *w, const void *a, void *factor, int64_t *info)
{
    gx_args args = gx_funm_square_args(w);
    gx_funm_copy(w, a, factor);
    args.c = factor;
    args.pivots = w->device->pivots;
    args.info = info;
    gx_funm_call(w, GX_GETRF, w->dtype, &args);
    gx_funm_device_wait(w);
}

/* x = (L U)^-1 P x there. */
static void solve_there(const gx_funm_work *w, const void *factor, void *x)
{
    gx_args args = gx_funm_square_args(w);
    args.a = factor;
    args.c = x;
    args.pivots = w->device->pivots;
    args.pivot_last = w->n;
    args.side = GX_LEFT;
    args.alpha.re = 1;
    gx_funm_call(w, GX_LASWP, w->dtype, &args);
    args.uplo = GX_LOWER;
    args.diag = GX_UNIT;
    gx_funm_call(w, GX_TRSM, w->dtype, &args);
    args.uplo = GX_UPPER;
    args.diag = GX_NON_UNIT;
    gx_funm_call(w, GX_TRSM, w->dtype, &args);
}

void gx_funm_solve(const gx_funm_work *w, const void *a, void *x, const char *why)
{
    void *factor = gx_funm_matrix(w), *pivots = NULL;
    int64_t info = 0;
    if (w->device != NULL) {
        factor_there(w, a, factor, &info);
    } else {
        pivots = gx_dense_take(w->run, GX_F64, w->n, 1, "pivots");
        gx_lu_in_memory(w->run, w->dtype, w->n, copy_to, &(copying){w, a, factor}, pivots, &info);
    }
    if (gx_funm_ok(w) && info > 0) {
        gx_run_failf(w->run, GX_NUMERIC, "%s is singular (pivot %lld is zero): %s", w->label,
                     (long long)info, why);
    }
    if (w->device != NULL) {
        solve_there(w, factor, x);
    } else {
        gx_dense_lu_solve(w->run, w->dtype, w->n, factor, pivots, w->n, x);
    }
    gx_mem_free(w->run->ctx->mem, pivots);
    gx_funm_free(w, factor);
}
