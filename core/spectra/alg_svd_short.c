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
** Half of the triplets of a long matrix or fewer are found so: the dense driver, which has all of A
** in memory, takes two to three times as long, and its Q has l columns.  Of other matrices, where
** the dense driver does not fit.  Where the shorter side is not short, by the Krylov driver.
**
** Work: 2 m l^2 flops, 22 l^3, and a product with k columns.  Memory: R, X, Y and a panel, then the
** vectors, the long ones twice where A is wide.
*/
#include "../alg/dense.h"
#include "krylov_svd.h"

#include <string.h>

/* No column of A stays in memory: there is one pass. */
static const size_t ONE_PASS = SIZE_MAX / 4;

/* Rows for each column of a long matrix; numbers of one that is worth two passes. */
enum { LONG = 4, WORTH = 1 << 20 };

bool gx_svd_short_is_due(gx_run *run, const gx_svd_args *args)
{
    int64_t least = gx_min(args->A->rows, args->A->cols),
            most = gx_max(args->A->rows, args->A->cols);
    bool is_faster = most / LONG >= least && 2 * args->k <= least && args->mode != GX_SVD_VALUES &&
                     most >= WORTH / gx_max(1, least);
    return gx_ok(run) && args->method == GX_SVD_AUTO && gx_svd_short_fits(run, args) &&
           (is_faster || !gx_svd_dense_fits(run, args));
}

/* R = X S Y^H: *yh, which the caller frees, and the result's values. */
static void decompose(gx_run *run, const gx_svd_args *args, void **yh, gx_svd_result *result)
{
    const gx_mat *A = args->A;
    int64_t l = gx_min(A->rows, A->cols);
    void *r = NULL, *x = NULL, *sigma = NULL;
    gx_svd_triangle(run, args, &r);
    gx_dense_alloc(run, A->number, l, l, "singular vectors", &x);
    gx_dense_alloc(run, A->number, l, l, "singular vectors", yh);
    gx_dense_alloc(run, GX_F64, l, 1, "singular values", &sigma);
    gx_svd_square(run, A->label, A->number, l, r, sigma, x, *yh);
    gx_mem_free(run->ctx->mem, r);
    gx_mem_free(run->ctx->mem, x);
    if (gx_ok(run) && gx_svd_reserve(run, result, A->rows, A->cols, args->k, A->number,
                                     GX_SVD_ECONOMY) == GX_OK) {
        memcpy(result->sigma, sigma, (size_t)args->k * sizeof *result->sigma);
    }
    gx_mem_free(run->ctx->mem, sigma);
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
        gx_vectors_turned(run, dtype, k, l, yh, l, y);
    }
    if (gx_ok(run) && gx_oper_begin(run, A, dtype, false, ONE_PASS, &op) == GX_OK) {
        gx_svd_product(&op, A, is_wide, y, k, w);
    }
    gx_oper_end(&op);
    orthonormalise(run, args, r->sigma == NULL ? 0 : r->sigma[0], w);
    if (gx_ok(run)) {
        gx_vectors_turned(run, dtype, A->cols, k, is_wide ? w : y, A->cols, r->vt);
    }
    gx_mem_free(run->ctx->mem, is_wide ? w : y);
}

gx_code gx_svd_short(gx_run *run, const gx_svd_args *args, gx_svd_result *result)
{
    void *yh = NULL;
    decompose(run, args, &yh, result);
    if (gx_ok(run)) {
        find_vectors(run, args, yh, result);
    }
    gx_mem_free(run->ctx->mem, yh);
    result->driver = "tsqr";
    result->passes = 2;
    return gx_ok(run) ? GX_OK : run->err.code;
}
