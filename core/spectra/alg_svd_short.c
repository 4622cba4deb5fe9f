/*
** The k largest singular values of a long matrix with their vectors, in two passes and little
** memory.
**
**   T = Q R          by panels of rows; T = A where A is tall, A^H where it is wide; Q is not kept
**   R = X S Y^H      GESDD, l x l, l being the shorter side
**   W = T Y_k        a pass; W = Q X_k S_k: made orthonormal, column after column, it is Q X_k
**
** W's columns have the error eps sigma_1 / sigma_i, so that A v - sigma u is small beside sigma_1,
** as it is for the other drivers.  A column that is nothing but rounding (A has no full rank) is
** replaced by one that is orthogonal to the others.
**
** Where all of A and its vectors fit in memory the dense driver is faster; where the shorter side
** is not short, the Krylov driver; in deterministic mode too: bits must not depend on the budget.
**
** Work: 2 m l^2 flops, 22 l^3, and a product with k columns.  Memory: R, X, Y and a panel, then the
** vectors, the long ones twice where A is wide.
*/
#include "../alg/dense.h"
#include "krylov_svd.h"

/* No column of A stays in memory: there is one pass. */
static const size_t ONE_PASS = SIZE_MAX / 4;

typedef struct spectrum {
    void *r, *x, *yh, *values; /* l x l; l x l; l x l; l, real */
} spectrum;

bool gx_svd_short_is_due(gx_run *run, const gx_svd_args *args)
{
    return gx_ok(run) && args->method == GX_SVD_AUTO && gx_svd_short_fits(run, args) &&
           !gx_svd_dense_fits(run, args);
}

/* R = X S Y^H, and the squares of S must add up to those of R's elements. */
static void decompose(gx_run *run, const gx_svd_args *args, spectrum *s, gx_svd_result *result)
{
    const gx_mat *A = args->A;
    int64_t l = gx_min(A->rows, A->cols);
    gx_number real = gx_number_real(A->number);
    gx_dense_sums sums;
    void *pairs = NULL;
    gx_svd_triangle(run, args, &s->r);
    gx_dense_alloc(run, A->number, l, l, "singular vectors", &s->x);
    gx_dense_alloc(run, A->number, l, l, "singular vectors", &s->yh);
    gx_dense_alloc(run, real, l, 1, "singular values", &s->values);
    gx_dense_alloc(run, GX_C128, l, 1, "singular values", &pairs);
    if (gx_ok(run)) {
        gx_dense_sums_of(run, A->number, s->r, l, l, l, &sums);
        gx_dense_svd(run, A->number, l, s->r, s->values, s->x, s->yh);
        gx_convert(real, s->values, l, GX_C128, pairs, l, l, 1);
    }
    if (gx_ok(run)) {
        gx_dense_check_sums(run, A->label, "singular values", A->number, &sums, pairs, l, false,
                            true);
    }
    gx_mem_free(run->ctx->mem, pairs);
    gx_mem_free(run->ctx->mem, s->r);
    gx_mem_free(run->ctx->mem, s->x);
    s->r = s->x = NULL;
    if (gx_ok(run) && gx_svd_reserve(run, result, A->rows, A->cols, args->k, A->number,
                                     GX_SVD_ECONOMY) == GX_OK) {
        gx_convert(real, s->values, l, GX_F64, result->sigma, args->k, args->k, 1);
    }
}

/* W, most x k: made orthonormal. */
static void orthonormalise(gx_run *run, const gx_svd_args *args, double norm, void *w)
{
    const gx_mat *A = args->A;
    int64_t most = gx_max(A->rows, A->cols);
    gx_ortho o = {.run = run, .dtype = A->number, .n = most, .norm = norm, .seed = args->seed};
    gx_dense_alloc(run, A->number, gx_ortho_work(A->number, most, args->k, GX_SVD_PANEL), 1,
                   "inner products", &o.work);
    for (int64_t j = 0; j < args->k && gx_ok(run); j += GX_SVD_PANEL) {
        int64_t cols = gx_min(GX_SVD_PANEL, args->k - j);
        gx_ortho_block(&o, w, j, gx_at(w, A->number, most, 0, j), cols, cols, NULL, 0, NULL, 0);
    }
    gx_mem_free(run->ctx->mem, o.work);
}

/* to = from^H, from m x n with leading dimension ld. */
static void adjoint(gx_run *run, gx_number dtype, int64_t m, int64_t n, const void *from,
                    int64_t ld, void *to)
{
    gx_args args = {
        .transa = gx_adjoint(dtype), .m = n, .n = m, .a = from, .lda = ld, .c = to, .ldc = n};
    gx_dense_call(run, GX_TRANSPOSE, dtype, &args);
}

/* The short side's vectors from Y^H, the long side's by a pass. */
static void find_vectors(gx_run *run, const gx_svd_args *args, const void *yh, gx_svd_result *r)
{
    const gx_mat *A = args->A;
    gx_number dtype = A->number;
    int64_t l = gx_min(A->rows, A->cols), k = args->k;
    bool is_wide = A->rows < A->cols;
    gx_oper op = {0};
    void *y = r->u, *w = r->u; // the short side's, the long side's
    gx_dense_alloc(run, dtype, is_wide ? A->cols : l, k, "singular vectors", is_wide ? &w : &y);
    if (gx_ok(run)) {
        adjoint(run, dtype, k, l, yh, l, y);
    }
    if (gx_ok(run) && gx_oper_begin(run, A, dtype, false, ONE_PASS, &op) == GX_OK) {
        gx_svd_product(&op, A, is_wide, y, k, w);
    }
    gx_oper_end(&op);
    orthonormalise(run, args, r->sigma == NULL ? 0 : r->sigma[0], w);
    if (gx_ok(run)) {
        adjoint(run, dtype, is_wide ? A->cols : l, k, is_wide ? w : y, is_wide ? A->cols : l,
                r->vt);
    }
    gx_mem_free(run->ctx->mem, is_wide ? w : y);
}

gx_code gx_svd_short(gx_run *run, const gx_svd_args *args, gx_svd_result *result)
{
    spectrum s = {0};
    gx_mem *mem = run->ctx->mem;
    decompose(run, args, &s, result);
    if (gx_ok(run)) {
        find_vectors(run, args, s.yh, result);
    }
    gx_mem_free(mem, s.r);
    gx_mem_free(mem, s.x);
    gx_mem_free(mem, s.yh);
    gx_mem_free(mem, s.values);
    result->driver = "tsqr";
    result->passes = 2;
    return gx_ok(run) ? GX_OK : run->err.code;
}
