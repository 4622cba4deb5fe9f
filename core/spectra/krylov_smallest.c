/*
** The smallest singular values of a square matrix of any size: the largest of its inverse.
**
**   A = U diag(sigma) V^H      A^-1 = V diag(1 / sigma) U^H
**
** The operator is A^-1 through a factorisation of A (factoring.h): in memory where it fits beside
** the Krylov bases, else in the temp database.  The driver is the one for the largest values
** (krylov_svd.c), which knows nothing of it; its triplets are turned round at the end.
**
** I/O: a factorisation of A, and a pass over the factor for each product.  Memory: the bases, and
** what solves take.  A value is right to cond(A) eps relative to itself, which is eps ||A||: as
** good as from any method that works on A.  A singular A has no inverse and is refused.
*/
#include "../alg/dense.h"
#include "../alg/factoring.h"
#include "krylov_svd.h"

#include <math.h>
#include <string.h>

typedef struct inverse {
    gx_oper op; /* must be first */
    gx_factor factor;
} inverse;

/* y = A^-1 x or A^-H x: one pass over the factor. */
static gx_code apply_inverse(gx_oper *op, bool is_adjoint, const void *x, int64_t cols, void *y)
{
    inverse *s = (inverse *)(void *)op;
    gx_trans trans = gx_adjoint(op->dtype);
    gx_mat b, from;
    gx_sink X = {0};
    gx_mat_value(&b, "x", op->dtype, op->n, cols, x, op->n);
    if (gx_ok(op->run) && gx_sink_begin_scratch(op->run, op->n, cols, op->dtype, 0, &X) == GX_OK) {
        gx_factor_solve(&s->factor, is_adjoint ? trans : GX_NO_TRANS, &b, &X);
    }
    if (gx_ok(op->run)) {
        gx_sink_source(&X, "x", &from);
        gx_dense_load(op->run, &from, op->dtype, y, op->n);
    }
    gx_sink_drop(&X);
    op->passes++;
    return gx_run_poll(op->run);
}

/* The factorisation, with memory left for the bases. */
static gx_code begin(gx_run *run, gx_svd_args *args, inverse *s)
{
    const gx_mat *A = args->A;
    // A dozen blocks and their program: what factorisations and solves make do with.
    size_t keep = 3 * gx_oper_floor_bytes(A, A->number) + (128 << 10);
    if (gx_svd_check_sizes(run, args, keep) != GX_OK) {
        return run->err.code;
    }
    gx_factor_choice choice = {.kind = GX_FACTOR_AUTO, .dtype = A->number};
    gx_err err = {0};
    size_t bytes = gx_svd_iterative_bytes(run, args);
    *s = (inverse){
        .op = {.run = run, .m = A->rows, .n = A->rows, .dtype = A->number, .apply = apply_inverse}};
    if (gx_mem_reserve(run->ctx->mem, bytes, "bases of singular vectors", &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    gx_factor_make(run, A, &choice, &s->factor);
    gx_mem_return(run->ctx->mem, bytes);
    return gx_ok(run) ? GX_OK : run->err.code;
}

/* From those of A^-1, V diag(1 / sigma) U^H, to those of A. */
static void turn_round(gx_run *run, gx_svd_result *r)
{
    void *v = r->u, *uh = r->vt;
    for (int64_t j = 0; j < r->count; j++) {
        r->sigma[j] = 1 / r->sigma[j];
    }
    if (v != NULL) {
        r->u = gx_dense_take(run, r->dtype, r->n, r->count, "left singular vectors");
        r->vt = gx_dense_take(run, r->dtype, r->count, r->n, "right singular vectors");
        gx_vectors_turned(run, r->dtype, r->count, r->n, uh, r->count, r->u);
        gx_vectors_turned(run, r->dtype, r->n, r->count, v, r->n, r->vt);
    }
    gx_mem_free(run->ctx->mem, v);
    gx_mem_free(run->ctx->mem, uh);
}

gx_code gx_svd_smallest(gx_run *run, const gx_svd_args *asked, gx_svd_result *result,
                        bool *is_singular)
{
    gx_svd_args args = *asked;
    inverse s;
    memset(&s, 0, sizeof s);
    args.method = GX_SVD_KRYLOV;
    *is_singular = begin(run, &args, &s) == GX_NUMERIC;
    if (gx_ok(run) && gx_svd_krylov(run, &s.op, &args, result) == GX_OK) {
        turn_round(run, result);
        result->driver = "golub-kahan of the inverse";
    }
    gx_factor_clear(&s.factor);
    return gx_ok(run) ? GX_OK : run->err.code;
}
