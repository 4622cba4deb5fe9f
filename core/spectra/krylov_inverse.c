/*
** Operators of Krylov methods: inverses, and the transformed problem of A x = lambda B x.
**
**   shift-invert    (A - sigma I)^-1, or L^H (A - sigma B)^-1 L with B = L L^H
**   generalised     L^-1 A L^-H: its vectors y are L^H x of A x = lambda B x
**
** The factors, LU of A - sigma B with partial pivoting and B = L L^H, are dense.  Where they fit
** beside what others want they are in memory, made and used by one kernel call each.  Else, and in
** deterministic mode always, so that the bits do not depend on the budget, they are intermediates
** that the drivers make and solve with: krylov_factors.c.  A is read once, whatever number of
** blocks of vectors are solved for.
*/
#include "../alg/alg_lu.h"
#include "../alg/dense.h"
#include "krylov.h"

#include <math.h>
#include <string.h>

// Products ----------------------------------------------------------------------------------------

static gx_code triangle(gx_oper *op, gx_kernel_id kernel, const void *a, gx_uplo uplo,
                        gx_trans trans, gx_diag diag, void *x, int64_t cols)
{
    gx_args args = {.side = GX_LEFT,
                    .uplo = uplo,
                    .transa = trans,
                    .diag = diag,
                    .m = op->n,
                    .n = cols,
                    .alpha = {1, 0},
                    .a = a,
                    .lda = op->n,
                    .c = x,
                    .ldc = op->n};
    return gx_dense_call(op->run, kernel, op->dtype, &args);
}

/* x = (L U)^-1 P x. */
static void solve(gx_oper *op, void *x, int64_t cols)
{
    if (op->factors != NULL) {
        gx_factors_solve(op, x, cols);
        return;
    }
    gx_args swap = {.m = op->n, .n = cols, .c = x, .ldc = op->n, .pivots = op->pivots};
    swap.pivot_last = op->n;
    gx_dense_call(op->run, GX_LASWP, op->dtype, &swap);
    triangle(op, GX_TRSM, op->factor, GX_LOWER, GX_NO_TRANS, GX_UNIT, x, cols);
    triangle(op, GX_TRSM, op->factor, GX_UPPER, GX_NO_TRANS, GX_NON_UNIT, x, cols);
}

/* x = op(L)^-1 x (TRSM), op(L) x (TRMM); nothing where there is no B. */
static gx_code by_chol(gx_oper *op, gx_kernel_id kernel, gx_trans trans, void *x, int64_t cols)
{
    if (!op->has_b || cols == 0) {
        return op->run->err.code;
    }
    if (op->factors != NULL) {
        return gx_factors_triangle(op, kernel, trans, x, cols);
    }
    return triangle(op, kernel, op->chol, GX_LOWER, trans, GX_NON_UNIT, x, cols);
}

static gx_code apply_transformed(gx_oper *op, bool is_adjoint, const void *x, int64_t cols, void *y)
{
    gx_trans adjoint = gx_adjoint(op->dtype);
    size_t bytes = (size_t)(op->n * cols) * gx_number_bytes(op->dtype);
    (void)is_adjoint; // only Krylov-Schur comes here
    if (!gx_ok(op->run) || bytes == 0) {
        return op->run->err.code;
    }
    if (op->is_inverse) {
        memcpy(y, x, bytes);
        by_chol(op, GX_TRMM, GX_NO_TRANS, y, cols);
        solve(op, y, cols);
        by_chol(op, GX_TRMM, adjoint, y, cols);
        return gx_run_poll(op->run);
    }
    void *z = NULL;
    if (gx_dense_alloc(op->run, op->dtype, op->n, cols, "a block of vectors", &z) == GX_OK) {
        memcpy(z, x, bytes);
        by_chol(op, GX_TRSM, adjoint, z, cols);
        op->inner->apply(op->inner, false, z, cols, y);
        by_chol(op, GX_TRSM, GX_NO_TRANS, y, cols);
    }
    gx_mem_free(op->run->ctx->mem, z);
    return gx_ok(op->run) ? GX_OK : op->run->err.code;
}

gx_code gx_oper_back(gx_oper *op, void *x, int64_t cols)
{
    return by_chol(op, GX_TRSM, gx_adjoint(op->dtype), x, cols);
}

gx_code gx_oper_times_b(gx_oper *op, const void *x, int64_t cols, void *y)
{
    memcpy(y, x, (size_t)(op->n * cols) * gx_number_bytes(op->dtype));
    by_chol(op, GX_TRMM, gx_adjoint(op->dtype), y, cols);
    return by_chol(op, GX_TRMM, GX_NO_TRANS, y, cols);
}

// Factors in memory -------------------------------------------------------------------------------

/* c -= sigma B, elementwise, of n x n in memory; B NULL: of the identity. */
static void shift(gx_oper *op, void *c, const void *b)
{
    gx_scalar minus = {-op->sigma.re, -op->sigma.im};
    if (b == NULL) {
        gx_oper_shift_diagonal(op, c, op->n, op->n);
        return;
    }
    gx_dense_add(op->run, op->dtype, op->n, op->n, c, minus, b);
}

/* The smallest and the largest pivot of U, in magnitude; NaN where one is. */
static double range_of_pivots(const gx_oper *op, double *largest)
{
    double smallest = INFINITY;
    *largest = 0;
    for (int64_t i = 0; i < op->n; i++) {
        gx_scalar x = gx_number_get(op->dtype, op->factor, i * op->n + i);
        double size = hypot(x.re, x.im);
        smallest = size < smallest || isnan(size) ? size : smallest;
        *largest = fmax(*largest, size);
    }
    return smallest;
}

/* All of a Hermitian A from its lower triangle, or all of A. */
static void load_square(gx_oper *op, const gx_mat *A, bool is_hermitian, void *to)
{
    gx_dense_load(op->run, A, op->dtype, to, op->n);
    gx_dense_finite(op->run, A->label, op->dtype, to, op->n, op->n, op->n);
    if (is_hermitian) {
        gx_args args = {.uplo = GX_LOWER,
                        .transa = gx_adjoint(op->dtype),
                        .m = op->n,
                        .n = op->n,
                        .c = to,
                        .ldc = op->n};
        gx_dense_call(op->run, GX_SYMMETRIZE, op->dtype, &args);
    }
}

static gx_code factor_b(gx_oper *op, const gx_mat *B)
{
    int64_t info = 0;
    gx_args args = {.uplo = GX_LOWER, .m = op->n, .n = op->n, .c = op->chol, .ldc = op->n};
    args.info = &info;
    gx_dense_call(op->run, GX_POTRF, op->dtype, &args);
    if (gx_ok(op->run) && info > 0) {
        return gx_run_failf(op->run, GX_NUMERIC,
                            "%s is not positive definite (leading minor of order %lld)", B->label,
                            (long long)info);
    }
    return gx_ok(op->run) ? GX_OK : op->run->err.code;
}

/* A - sigma B where its LU will be. */
static void *load_shifted(void *arg)
{
    gx_oper *op = arg, *inner = op->inner;
    load_square(op, inner->A, inner->is_hermitian, op->factor);
    inner->passes++;
    if (gx_ok(op->run)) {
        shift(op, op->factor, op->chol);
    }
    return op->factor;
}

/* LU of A - sigma B; a sigma that is an eigenvalue moves a little. */
static void factor_shifted(gx_oper *op)
{
    bool is_usable = false;
    for (int attempt = 0; !is_usable && gx_ok(op->run); attempt++) {
        int64_t info = 0;
        if (gx_lu_in_memory(op->run, op->dtype, op->n, load_shifted, op, op->pivots, &info) ==
            GX_OK) {
            double largest, smallest = range_of_pivots(op, &largest);
            is_usable = gx_oper_sigma_is_usable(op, attempt, smallest, largest);
        }
    }
}

static void begin_in_memory(gx_oper *op, const gx_mat *B)
{
    gx_run *run = op->run;
    void *pivots = NULL;
    int64_t n = op->n;
    if (B != NULL && gx_dense_alloc(run, op->dtype, n, n, B->label, &op->chol) == GX_OK) {
        load_square(op, B, true, op->chol);
    }
    if (op->is_inverse &&
        gx_dense_alloc(run, op->dtype, n, n, "a factorisation", &op->factor) == GX_OK &&
        gx_dense_alloc(run, GX_F64, n, 1, "pivots", &pivots) == GX_OK) {
        op->pivots = pivots;
        factor_shifted(op);
    }
    if (B != NULL && gx_ok(run)) {
        factor_b(op, B);
    }
}

// Where the factors are ---------------------------------------------------------------------------

double gx_oper_transformed_bytes(int64_t n, gx_number dtype, bool has_b, bool is_inverse)
{
    double one = (double)n * (double)n * (double)gx_number_bytes(dtype);
    return one * ((has_b ? 1 : 0) + (is_inverse ? 1 : 0));
}

/* The factors, what the hungriest kernel wants, and what others do. */
static bool fits_in_memory(const gx_oper *op, size_t keep_bytes)
{
    int64_t n = op->n;
    gx_args args = {.m = n, .n = n, .lda = n, .ldc = n, .uplo = GX_LOWER};
    double bytes = gx_oper_transformed_bytes(n, op->dtype, op->has_b, op->is_inverse);
    bytes += (double)gx_dense_call_bytes(op->run, op->is_inverse ? GX_GETRF : GX_POTRF, op->dtype,
                                         &args);
    bytes += (double)keep_bytes + 8 * (double)n;
    return bytes <= (double)gx_mem_available(op->run->ctx->mem);
}

gx_code gx_oper_begin_transformed(gx_run *run, gx_oper *inner, const gx_mat *B, bool is_inverse,
                                  gx_scalar sigma, size_t keep_bytes, gx_oper *op)
{
    int64_t n = inner->n;
    *op = (gx_oper){.run = run,
                    .m = n,
                    .n = n,
                    .dtype = inner->dtype,
                    .apply = apply_transformed,
                    .inner = inner,
                    .has_b = B != NULL,
                    .is_inverse = is_inverse,
                    .sigma = sigma};
    bool is_fixed = run->ctx->config.number[GX_SET_DETERMINISTIC] != 0;
    if (n > 0 && (is_fixed || !fits_in_memory(op, keep_bytes))) {
        gx_factors_begin(op, B, keep_bytes);
    } else {
        begin_in_memory(op, B);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

void gx_oper_end_transformed(gx_oper *op)
{
    gx_mem *mem = op->run->ctx->mem;
    gx_factors_end(op);
    gx_mem_free(mem, op->factor);
    gx_mem_free(mem, op->pivots);
    gx_mem_free(mem, op->chol);
}
