/*
** Operators of Krylov methods: inverses, and the transformed problem of A x = lambda B x.
**
**   shift-invert    (A - sigma I)^-1, or L^H (A - sigma B)^-1 L with B = L L^H
**   generalised     L^-1 A L^-H: its vectors y are L^H x of A x = lambda B x
**
** They hold dense factors in memory: LU of A - sigma B with partial pivoting, B = L L^H.  A is read
** once, whatever number of blocks of vectors are solved for.
**
** Where a pivot of U is zero, or next to it, sigma is an eigenvalue to working precision, whose
** 1 / (value - sigma) would drown all others: it is then moved by 1e-6 ||U||, A is factorised once
** more, and values are computed from where sigma is.  Source: Ericsson and Ruhe, The spectral
** transformation Lanczos method, Math. Comp. 35 (1980).
*/
#include "dense.h"
#include "krylov.h"

#include <float.h>
#include <math.h>
#include <string.h>

static gx_trans adjoint_of(gx_dtype dtype)
{
    return gx_dtype_is_complex(dtype) ? GX_CONJ_TRANS : GX_TRANS;
}

/* ---- products -------------------------------------------------------------------------------- */

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
    gx_args swap = {.m = op->n, .n = cols, .c = x, .ldc = op->n, .pivots = op->pivots};
    swap.pivot_last = op->n;
    gx_dense_call(op->run, GX_LASWP, op->dtype, &swap);
    triangle(op, GX_TRSM, op->factor, GX_LOWER, GX_NO_TRANS, GX_UNIT, x, cols);
    triangle(op, GX_TRSM, op->factor, GX_UPPER, GX_NO_TRANS, GX_NON_UNIT, x, cols);
}

static gx_code apply_transformed(gx_oper *op, bool is_adjoint, const void *x, int64_t cols, void *y)
{
    gx_trans adjoint = adjoint_of(op->dtype);
    size_t bytes = (size_t)(op->n * cols) * gx_dtype_bytes(op->dtype);
    (void)is_adjoint; // only Krylov-Schur comes here
    if (!gx_ok(op->run)) {
        return op->run->err.code;
    }
    if (op->factor != NULL) {
        memcpy(y, x, bytes);
        if (op->chol != NULL) {
            triangle(op, GX_TRMM, op->chol, GX_LOWER, GX_NO_TRANS, GX_NON_UNIT, y, cols);
        }
        solve(op, y, cols);
        if (op->chol != NULL) {
            triangle(op, GX_TRMM, op->chol, GX_LOWER, adjoint, GX_NON_UNIT, y, cols);
        }
        return gx_run_poll(op->run);
    }
    void *z = NULL;
    if (gx_dense_alloc(op->run, op->dtype, op->n * cols, "a block of vectors", &z) == GX_OK) {
        memcpy(z, x, bytes);
        triangle(op, GX_TRSM, op->chol, GX_LOWER, adjoint, GX_NON_UNIT, z, cols);
        op->inner->apply(op->inner, false, z, cols, y);
        triangle(op, GX_TRSM, op->chol, GX_LOWER, GX_NO_TRANS, GX_NON_UNIT, y, cols);
    }
    gx_mem_free(op->run->ctx->mem, z);
    return gx_ok(op->run) ? GX_OK : op->run->err.code;
}

gx_code gx_oper_back(gx_oper *op, void *x, int64_t cols)
{
    if (op->chol == NULL) {
        return op->run->err.code;
    }
    return triangle(op, GX_TRSM, op->chol, GX_LOWER, adjoint_of(op->dtype), GX_NON_UNIT, x, cols);
}

gx_code gx_oper_times_b(gx_oper *op, const void *x, int64_t cols, void *y)
{
    memcpy(y, x, (size_t)(op->n * cols) * gx_dtype_bytes(op->dtype));
    if (op->chol == NULL) {
        return op->run->err.code;
    }
    triangle(op, GX_TRMM, op->chol, GX_LOWER, adjoint_of(op->dtype), GX_NON_UNIT, y, cols);
    return triangle(op, GX_TRMM, op->chol, GX_LOWER, GX_NO_TRANS, GX_NON_UNIT, y, cols);
}

double gx_oper_transformed_bytes(int64_t n, gx_dtype dtype, bool has_b, bool is_inverse)
{
    double one = (double)n * (double)n * (double)gx_dtype_bytes(dtype);
    return one * ((has_b ? 1 : 0) + (is_inverse ? 1 : 0));
}

/* ---- factorisations -------------------------------------------------------------------------- */

/* c -= sigma B, elementwise, of n x n in memory; B NULL: of the identity. */
static void shift(gx_oper *op, void *c, const void *b, gx_scalar sigma)
{
    gx_dtype wide = gx_kry_wide(op->dtype);
    for (int64_t j = 0; j < op->n; j++) {
        for (int64_t i = b == NULL ? j : 0; i < (b == NULL ? j + 1 : op->n); i++) {
            double x[2] = {0, 0}, y[2] = {1, 0};
            void *at = gx_at(c, op->dtype, op->n, i, j);
            gx_convert(op->dtype, at, 1, wide, x, 1, 1, 1);
            if (b != NULL) {
                gx_convert(op->dtype, gx_at(b, op->dtype, op->n, i, j), 1, wide, y, 1, 1, 1);
            }
            x[0] -= sigma.re * y[0] - sigma.im * y[1];
            x[1] -= sigma.re * y[1] + sigma.im * y[0];
            gx_convert(wide, x, 1, op->dtype, at, 1, 1, 1);
        }
    }
}

/*
** *largest: of U's pivots.  true: there is one below 16 eps times that.  is_last: such pivots
** become eps times the largest.
*/
static bool look_at_pivots(gx_oper *op, bool is_last, double *largest)
{
    double eps = gx_dtype_is_double(op->dtype) ? DBL_EPSILON : (double)FLT_EPSILON;
    bool is_singular = false;
    *largest = 0;
    for (int sweep = 0; sweep < 2; sweep++) {
        for (int64_t i = 0; i < op->n; i++) {
            double x[2] = {0, 0};
            void *at = gx_at(op->factor, op->dtype, op->n, i, i);
            gx_convert(op->dtype, at, 1, GX_C128, x, 1, 1, 1);
            double size = hypot(x[0], x[1]);
            if (sweep == 0) {
                *largest = fmax(*largest, size);
                continue;
            }
            is_singular = is_singular || !(size > 16 * eps * *largest);
            if (is_last && !(size > eps * *largest)) {
                double small[2] = {fmax(eps * *largest, DBL_MIN), 0};
                gx_convert(gx_kry_wide(op->dtype), small, 1, op->dtype, at, 1, 1, 1);
            }
        }
    }
    return is_singular;
}

/* All of a Hermitian A from its lower triangle, or all of A. */
static void load_square(gx_oper *op, const gx_mat *A, bool is_hermitian, void *to)
{
    gx_dense_load(op->run, A, op->dtype, to, op->n);
    gx_dense_finite(op->run, A->label, op->dtype, to, op->n, op->n, op->n);
    if (is_hermitian) {
        gx_args args = {.uplo = GX_LOWER,
                        .transa = adjoint_of(op->dtype),
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

/* LU of A - sigma B; a sigma that is an eigenvalue moves a little. */
static void factor_shifted(gx_oper *op, gx_oper *inner)
{
    const double STEP = 1e-6; // of the largest pivot: far from eps, close beside other values
    bool is_singular = true;
    for (int attempt = 0; attempt < 2 && is_singular && gx_ok(op->run); attempt++) {
        int64_t info = 0;
        double largest = 0;
        load_square(op, inner->A, inner->is_hermitian, op->factor);
        inner->passes++;
        if (!gx_ok(op->run)) {
            return;
        }
        shift(op, op->factor, op->chol, op->sigma);
        gx_args args = {
            .m = op->n, .n = op->n, .c = op->factor, .ldc = op->n, .pivots = op->pivots};
        args.info = &info;
        if (gx_dense_call(op->run, GX_GETRF, op->dtype, &args) == GX_OK) {
            is_singular = look_at_pivots(op, attempt == 1, &largest);
            op->sigma.re -= is_singular && attempt == 0 ? fmax(STEP * largest, DBL_MIN) : 0;
        }
    }
}

gx_code gx_oper_begin_transformed(gx_run *run, gx_oper *inner, const gx_mat *B, bool is_inverse,
                                  gx_scalar sigma, gx_oper *op)
{
    int64_t n = inner->n;
    void *pivots = NULL;
    *op = (gx_oper){.run = run,
                    .m = n,
                    .n = n,
                    .dtype = inner->dtype,
                    .apply = apply_transformed,
                    .inner = inner};
    if (B != NULL && gx_dense_alloc(run, op->dtype, n * n, B->label, &op->chol) == GX_OK) {
        load_square(op, B, true, op->chol);
    }
    if (is_inverse &&
        gx_dense_alloc(run, op->dtype, n * n, "a factorisation", &op->factor) == GX_OK &&
        gx_dense_alloc(run, GX_F64, n, "pivots", &pivots) == GX_OK) {
        op->pivots = pivots;
        op->sigma = sigma;
        factor_shifted(op, inner);
    }
    if (B != NULL && gx_ok(run)) {
        factor_b(op, B);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

void gx_oper_end_transformed(gx_oper *op)
{
    gx_mem *mem = op->run->ctx->mem;
    gx_mem_free(mem, op->factor);
    gx_mem_free(mem, op->pivots);
    gx_mem_free(mem, op->chol);
}
