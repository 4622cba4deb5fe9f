/*
** Operators of Krylov methods: sparse matrices.
**
** A product is one streamed pass over the panels (core/alg/spmm.h).  Where a copy of A fits beside
** what others want, it is one panel in memory, looked through once; else panels are read in every
** pass.
**
** (A - sigma I)^-1 is a sparse factorisation (core/alg/csr_matrix.h) of A - sigma I: by CHOLMOD
** where that is symmetric positive definite, else by UMFPACK.  A sigma that is an eigenvalue, to
** the bit, moves a little, as for dense matrices (krylov_inverse.c).
*/
#include "../alg/dense.h"
#include "../alg/csr_matrix.h"
#include "../alg/spmm.h"
#include "../alg/spmm_device.h"
#include "krylov.h"

#include <math.h>
#include <string.h>

struct gx_kry_sparse {
    gx_sparse_held held; /* A, of products              */
    gx_csr_matrix shifted; /* A - sigma I, of an inverse  */
    gx_direct factor;
};

// Products ----------------------------------------------------------------------------------------

static gx_code apply_sparse(gx_oper *op, bool is_adjoint, const void *x, int64_t cols, void *y)
{
    gx_stats *stats = &op->run->ctx->stats;
    const gx_mat *A = op->sparse->held.A;
    gx_trans trans = is_adjoint && !op->is_hermitian ? gx_adjoint(op->dtype) : GX_NO_TRANS;
    int64_t start_ns = gx_now_ns();
    if (!gx_ok(op->run) || op->m == 0 || op->n == 0 || cols == 0) {
        return op->run->err.code;
    }
    int64_t ldx = is_adjoint ? op->m : op->n, ldy = is_adjoint ? op->n : op->m;
    if (!gx_sparse_apply_by_device(op->run, op->A, trans, op->dtype, cols, x, ldx, y, ldy,
                                   A != op->A)) {
        gx_sparse_apply(op->run, A, trans, op->dtype, cols, x, ldx, y, ldy);
    }
    op->passes++;
    gx_stats_add(stats, GX_STAT_PASSES, 1);
    gx_stats_add(stats, GX_STAT_PASS_BYTES, (int64_t)gx_sparse_bytes(A));
    gx_stats_add(stats, GX_STAT_PASS_NS, gx_now_ns() - start_ns);
    return gx_run_poll(op->run);
}

static gx_code begin(gx_oper *op)
{
    op->sparse = gx_run_calloc(op->run, sizeof *op->sparse, "an operator");
    return gx_ok(op->run) ? GX_OK : op->run->err.code;
}

gx_code gx_oper_begin_sparse(gx_run *run, const gx_mat *A, gx_number dtype, bool is_hermitian,
                             size_t keep_bytes, gx_oper *op)
{
    *op = (gx_oper){.run = run,
                    .m = A->rows,
                    .n = A->cols,
                    .dtype = dtype,
                    .apply = apply_sparse,
                    .A = A,
                    .is_hermitian = is_hermitian,
                    .keep_bytes = keep_bytes};
    if (begin(op) != GX_OK) {
        return run->err.code;
    }
    size_t beside = keep_bytes;
    beside += 2 * gx_sparse_apply_bytes(run, A, GX_NO_TRANS, dtype, GX_KRY_BLOCK_MOST);
    return gx_sparse_held_begin(run, A, beside, false, &op->sparse->held);
}

bool gx_oper_sparse_is_hermitian(gx_run *run, const gx_mat *A)
{
    gx_csr_matrix W;
    gx_csr_matrix_load(run, A, gx_number_wide(A->number), &W);
    bool is_hermitian = gx_csr_matrix_is_hermitian(run, &W);
    gx_csr_matrix_clear(&W);
    return is_hermitian;
}

// Inverses ----------------------------------------------------------------------------------------

static gx_code apply_inverse(gx_oper *op, bool is_adjoint, const void *x, int64_t cols, void *y)
{
    gx_number wide = op->sparse->shifted.dtype;
    gx_direct *factor = &op->sparse->factor;
    void *b = NULL, *z = NULL;
    (void)is_adjoint; // only Krylov-Schur comes here
    if (!gx_ok(op->run) || cols == 0 || op->n == 0) {
        return op->run->err.code;
    }
    if (wide == op->dtype) {
        return gx_direct_solve(factor, false, cols, x, y);
    }
    gx_dense_alloc(op->run, wide, op->n, cols, "a block of vectors", &b);
    if (gx_dense_alloc(op->run, wide, op->n, cols, "a block of vectors", &z) == GX_OK) {
        gx_convert(op->dtype, x, op->n, wide, b, op->n, op->n, cols);
        gx_direct_solve(factor, false, cols, b, z);
        gx_convert(wide, z, op->n, op->dtype, y, op->n, op->n, cols);
    }
    gx_mem_free(op->run->ctx->mem, b);
    gx_mem_free(op->run->ctx->mem, z);
    return gx_ok(op->run) ? GX_OK : op->run->err.code;
}

/* The factorisation of A - sigma I; GX_NUMERIC where it is singular. */
static void factor(gx_oper *op)
{
    struct gx_kry_sparse *s = op->sparse;
    gx_run *run = op->run;
    gx_csr_matrix_clear(&s->shifted);
    gx_csr_matrix_load(run, op->inner->A, gx_number_wide(op->inner->A->number), &s->shifted);
    gx_csr_matrix_shift(run, &s->shifted, op->sigma);
    bool is_definite = gx_ok(run) && op->inner->is_hermitian &&
                       !gx_number_is_complex(s->shifted.dtype) &&
                       gx_csr_matrix_has_positive_diagonal(&s->shifted);
    if (is_definite) {
        gx_direct_make(run, GX_DIRECT_CHOLMOD, &s->shifted, &s->factor);
        if (!gx_run_forgive(run, GX_NUMERIC) && !gx_run_forgive(run, GX_UNSUPPORTED)) {
            return;
        }
        gx_direct_clear(&s->factor);
    }
    gx_direct_make(run, GX_DIRECT_UMFPACK, &s->shifted, &s->factor);
}

gx_code gx_oper_begin_sparse_inverse(gx_run *run, gx_oper *inner, gx_scalar sigma, gx_oper *op)
{
    enum { ATTEMPTS = 3 };
    *op = (gx_oper){.run = run,
                    .m = inner->n,
                    .n = inner->n,
                    .dtype = inner->dtype,
                    .apply = apply_inverse,
                    .inner = inner,
                    .is_inverse = true,
                    .sigma = sigma};
    if (begin(op) != GX_OK || op->n == 0) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    for (int attempt = 1;; attempt++) {
        factor(op);
        inner->passes++;
        if (attempt == ATTEMPTS || !gx_run_forgive(run, GX_NUMERIC)) {
            break;
        }
        gx_direct_clear(&op->sparse->factor);
        double size = gx_csr_matrix_norm(&op->sparse->shifted) / sqrt((double)op->n);
        op->sigma.re -= fmax(1e-6 * size, 1e-300) * attempt;
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

void gx_oper_end_sparse(gx_oper *op)
{
    if (op->sparse != NULL) {
        gx_direct_clear(&op->sparse->factor);
        gx_csr_matrix_clear(&op->sparse->shifted);
        gx_sparse_held_end(op->run, &op->sparse->held);
        gx_mem_free(op->run->ctx->mem, op->sparse);
        op->sparse = NULL;
    }
}
