/*
** Work matrices of functions of matrices: square, in doubles, in memory.  See funm_matrix.h.
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
    return gx_dense_take(w->run, w->dtype, w->n, w->n, "a function of a matrix");
}

void gx_funm_free(const gx_funm_work *w, void *x)
{
    gx_mem_free(w->run->ctx->mem, x);
}

gx_args gx_funm_square_args(const gx_funm_work *w)
{
    int64_t n = w->n, ld = gx_max(1, n);
    return (gx_args){.m = n, .n = n, .k = n, .lda = ld, .ldb = ld, .ldc = ld, .ldright = ld};
}

void gx_funm_copy(const gx_funm_work *w, const void *from, void *to)
{
    if (gx_ok(w->run)) {
        memcpy(to, from, (size_t)(w->n * w->n) * gx_number_bytes(w->dtype));
    }
}

void gx_funm_unit(const gx_funm_work *w, void *x)
{
    size_t es = gx_number_bytes(w->dtype);
    if (gx_ok(w->run)) {
        memset(x, 0, (size_t)(w->n * w->n) * es);
        for (int64_t i = 0; i < w->n; i++) {
            *(double *)gx_at(x, w->dtype, w->n, i, i) = 1;
        }
    }
}

void gx_funm_multiply(const gx_funm_work *w, double alpha, gx_trans transa, const void *a,
                      gx_trans transb, const void *b, double beta, void *c)
{
    int64_t n = w->n;
    gx_dense_gemm(w->run, w->dtype, transa, transb, n, n, n, alpha, a, n, b, n, beta, c, n);
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
    gx_dense_call(w->run, GX_MAP, w->dtype, &args);
}

double gx_funm_norm1(const gx_funm_work *w, const void *x)
{
    double most = 0;
    const double *d = x;
    bool is_complex = gx_number_is_complex(w->dtype);
    for (int64_t j = 0; j < w->n; j++) {
        double sum = 0;
        for (int64_t i = j * w->n; i < (j + 1) * w->n; i++) {
            sum += is_complex ? hypot(d[2 * i], d[2 * i + 1]) : fabs(d[i]);
        }
        most = sum > most || isnan(sum) ? sum : most;
    }
    return most;
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

void gx_funm_solve(const gx_funm_work *w, const void *a, void *x, const char *why)
{
    void *factor = gx_funm_matrix(w), *pivots = gx_dense_take(w->run, GX_F64, w->n, 1, "pivots");
    int64_t info = 0;
    gx_lu_in_memory(w->run, w->dtype, w->n, copy_to, &(copying){w, a, factor}, pivots, &info);
    if (info > 0) {
        gx_run_failf(w->run, GX_NUMERIC, "%s is singular (pivot %lld is zero): %s", w->label,
                     (long long)info, why);
    }
    gx_dense_lu_solve(w->run, w->dtype, w->n, factor, pivots, w->n, x);
    gx_mem_free(w->run->ctx->mem, pivots);
    gx_funm_free(w, factor);
}
