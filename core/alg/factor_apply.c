/*
** Solving with a factor that lies as a whole in memory, or on a device (factoring.h): triangular
** solves and exchanges of rows, where the factor and the right-hand sides are.
*/
#include "factoring.h"

#include "../run/call.h"

void gx_factor_call(gx_factor *factor, gx_kernel_id kernel, const gx_args *args)
{
    gx_run *run = factor->run;
    if (!factor->is_there) {
        gx_run_call(run, kernel, factor->dtype, args);
    } else if (gx_ok(run) && factor->fault.code == GX_OK) {
        gx_args there = *args;
        there.work = factor->on.hold[GX_FACTOR_WORK].data;
        (void)gx_devcall_kernel(&factor->on, kernel, factor->dtype, &there, &factor->fault);
    }
}

static void substitute(gx_factor *f, gx_uplo uplo, gx_diag diag, gx_trans trans, void *x,
                       int64_t cols)
{
    gx_factor_call(f, GX_TRSM,
                   &(gx_args){.side = GX_LEFT,
                              .uplo = uplo,
                              .transa = trans,
                              .diag = diag,
                              .alpha = GX_ONE,
                              .m = f->n,
                              .n = cols,
                              .a = f->mat.data,
                              .lda = gx_max(1, f->mat.ld),
                              .c = x,
                              .ldc = gx_max(1, f->n)});
}

static void exchange(gx_factor *f, bool is_backward, void *x, int64_t cols)
{
    gx_factor_call(f, GX_LASWP,
                   &(gx_args){.m = f->n,
                              .n = cols,
                              .c = x,
                              .ldc = gx_max(1, f->n),
                              .pivots = f->pivots,
                              .pivot_last = f->n,
                              .is_backward = is_backward});
}

static void conjugate(gx_factor *f, void *x, int64_t cols)
{
    gx_factor_call(f, GX_MAP,
                   &(gx_args){.map = GX_MAP_CONJ,
                              .alpha = GX_ONE,
                              .m = f->n,
                              .n = cols,
                              .a = x,
                              .lda = gx_max(1, f->n),
                              .c = x,
                              .ldc = gx_max(1, f->n)});
}

/* A = L L^H is Hermitian: A^T is its conjugate, and so conj(X) solves with conj(B). */
static void apply_cholesky(gx_factor *f, gx_trans trans, void *x, int64_t cols)
{
    bool is_conjugated = trans == GX_TRANS && gx_number_is_complex(f->dtype);
    gx_trans adjoint = gx_adjoint(f->dtype);
    if (is_conjugated) {
        conjugate(f, x, cols);
    }
    substitute(f, f->uplo, GX_NON_UNIT, f->uplo == GX_LOWER ? GX_NO_TRANS : adjoint, x, cols);
    substitute(f, f->uplo, GX_NON_UNIT, f->uplo == GX_LOWER ? adjoint : GX_NO_TRANS, x, cols);
    if (is_conjugated) {
        conjugate(f, x, cols);
    }
}

void gx_factor_apply(gx_factor *factor, gx_trans trans, void *x, int64_t cols)
{
    gx_factor *f = factor;
    switch (f->kind) {
    case GX_FACTOR_LOWER:
    case GX_FACTOR_UPPER:
        substitute(f, f->uplo, f->diag, trans, x, cols);
        break;
    case GX_FACTOR_CHOLESKY:
        apply_cholesky(f, trans, x, cols);
        break;
    default:
        if (trans == GX_NO_TRANS) {
            exchange(f, false, x, cols);
            substitute(f, GX_LOWER, GX_UNIT, GX_NO_TRANS, x, cols);
            substitute(f, GX_UPPER, GX_NON_UNIT, GX_NO_TRANS, x, cols);
        } else {
            substitute(f, GX_UPPER, GX_NON_UNIT, trans, x, cols);
            substitute(f, GX_LOWER, GX_UNIT, trans, x, cols);
            exchange(f, true, x, cols);
        }
    }
}
