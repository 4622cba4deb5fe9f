/*
** Determinant and inverse of a square matrix, by the cheapest way that its properties allow:
**
**     what A is                  det A                       A^-1
**     triangular (or diagonal)   product of the diagonal     triangular solve (reciprocals)
**     positive definite          product of diag(L)^2        two triangular solves with L
**     an LU factorisation F      det(P) x product of diag(F)  solve with F
**     anything else              the same of its LU          the same
**
** The product is kept as a number near 1 and a power of two, so that it overflows only where the
** determinant itself is no double; its logarithm always is one.
**
** The right-hand sides of an inverse are the identity, which is generated as it is wanted.  The
** intermediate factor is n^2 elements beside the result, in memory or in the temp database.
*/
#include "alg_lu.h"

#include "../mat/simple.h"
#include "by_parts.h"
#include "dense.h"
#include "factoring.h"

#include <math.h>

static const uint32_t DIAGONAL = GX_PROP_LOWER | GX_PROP_UPPER;

/* Bytes that should be left for blocks when a factor is kept in memory: a quarter of it. */
static size_t room_for_blocks(const gx_mat *A)
{
    size_t bytes = 0;
    gx_matrix_bytes(A->rows, A->cols, A->number, &bytes);
    return bytes / 4;
}

// Determinant -------------------------------------------------------------------------------------

static gx_code multiply_once(void *arg, int64_t i, gx_scalar x, gx_err *err)
{
    (void)i, (void)err;
    gx_product_times(arg, x.re, x.im);
    return GX_OK;
}

static gx_code multiply_twice(void *arg, int64_t i, gx_scalar x, gx_err *err)
{
    gx_product_times(arg, x.re, x.im);
    return multiply_once(arg, i, x, err);
}

static void multiply_lu(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_product *p)
{
    gx_alg_each_diagonal(run, F, 0, F->rows, multiply_once, p);
    if (gx_lu_is_odd(aux)) {
        gx_product_times(p, -1, 0);
    }
}

/* A's Cholesky factor or LU, for *factor to read; to be dropped whatever becomes of it. */
static void factorise(gx_run *run, const gx_mat *A, gx_sink *F, gx_aux *aux, gx_mat *factor)
{
    if ((A->properties & GX_PROP_POSITIVE) != 0) {
        gx_sink_begin_scratch(run, A->rows, A->cols, A->number, room_for_blocks(A), F);
        gx_alg_cholesky(run, A, GX_LOWER, F);
    } else {
        gx_alg_lu_scratch(run, A, A->number, F, aux);
    }
    if (gx_ok(run)) {
        gx_sink_source(F, A->label, factor);
    }
}

static void multiply_factor(gx_run *run, const gx_mat *A, gx_product *p)
{
    gx_sink F = {.run = NULL};
    gx_aux aux = {.kind = GX_AUX_NONE};
    gx_mat factor;
    factorise(run, A, &F, &aux, &factor);
    if (gx_ok(run) && aux.kind == GX_AUX_LU) {
        multiply_lu(run, &factor, &aux, p);
    } else if (gx_ok(run)) {
        gx_alg_each_diagonal(run, &factor, 0, factor.rows, multiply_twice, p);
    }
    gx_sink_drop(&F);
    gx_aux_clear(&aux, run->ctx->mem);
}

/* z 2^power without an overflow on the way. */
static double scale(double z, int64_t power)
{
    return ldexp(z, (int)gx_max(-5000, gx_min(5000, power)));
}

gx_code gx_alg_determinant(gx_run *run, const gx_mat *A, const gx_aux *aux, gx_determinant *out)
{
    gx_product p = {.re = 1};
    if (gx_alg_need_square(run, A) != GX_OK) {
        return run->err.code;
    }
    if (aux->kind == GX_AUX_LU) {
        multiply_lu(run, A, aux, &p);
    } else if ((A->properties & DIAGONAL) != 0) {
        int64_t count = (A->properties & GX_PROP_UNIT) != 0 ? 0 : A->rows;
        gx_alg_each_diagonal(run, A, 0, count, multiply_once, &p);
    } else if (A->rows > 0 && !gx_parts_determinant(run, A, &p)) {
        multiply_factor(run, A, &p);
    }
    double size = hypot(p.re, p.im);
    bool is_zero = size == 0;
    out->det = (gx_scalar){scale(p.re, p.power), p.im == 0 ? 0 : scale(p.im, p.power)};
    out->sign = (gx_scalar){is_zero ? 0 : p.re / size, is_zero ? 0 : p.im / size};
    out->log = log(size) + (double)p.power * log(2.0);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Inverse -----------------------------------------------------------------------------------------

/* The reciprocals of the diagonal on the diagonal. */
static void invert_diagonal(gx_run *run, const gx_mat *A, gx_sink *C)
{
    void *data = NULL;
    gx_mat inverse;
    if (gx_alg_refuse_zero_pivot(run, A) != GX_OK ||
        gx_gather_diagonal(run, A, 0, A->rows, A->number, &data) != GX_OK) {
        return;
    }
    for (int64_t i = 0; i < A->rows; i++) {
        gx_scalar x = gx_number_get(A->number, data, i), y;
        // Smith's division, which does not overflow where the quotient does not.
        bool is_steep = fabs(x.im) > fabs(x.re);
        double ratio = is_steep ? x.re / x.im : x.im / x.re;
        double bottom = is_steep ? x.re * ratio + x.im : x.re + x.im * ratio;
        y.re = is_steep ? ratio / bottom : 1 / bottom;
        y.im = is_steep ? -1 / bottom : -ratio / bottom;
        gx_number_put(A->number, data, i, y);
    }
    gx_diagonal diagonal = {.dtype = A->number, .data = data};
    gx_mat_generated(&inverse, A->label, A->number, A->rows, A->cols, gx_diagonal_generate,
                     &diagonal);
    gx_copy_to_sink(run, &inverse, C);
    gx_mem_free(run->ctx->mem, data);
}

/* By a factor that is made for it. */
static void invert_by_factor(gx_run *run, const gx_mat *A, const gx_mat *identity, gx_sink *C)
{
    bool is_positive = (A->properties & GX_PROP_POSITIVE) != 0;
    gx_factor_choice choice = {.kind = is_positive ? GX_FACTOR_CHOLESKY : GX_FACTOR_LU,
                               .dtype = A->number,
                               .cols = A->cols};
    gx_factor factor;
    gx_factor_make(run, A, &choice, &factor);
    gx_factor_solve(&factor, GX_NO_TRANS, identity, C);
    gx_factor_clear(&factor);
}

gx_code gx_alg_inverse(gx_run *run, const gx_mat *A, const gx_aux *aux, gx_sink *C)
{
    if (gx_alg_need_square(run, A) != GX_OK || A->rows == 0) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    if (gx_parts_inverse(run, A, C)) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    gx_mat identity;
    gx_diagonal ones = {.dtype = A->number, .data = NULL};
    gx_mat_generated(&identity, "the identity", A->number, A->rows, A->cols, gx_diagonal_generate,
                     &ones);
    if (aux->kind == GX_AUX_LU) {
        gx_alg_lu_solve(run, A, aux, GX_NO_TRANS, &identity, C);
    } else if ((A->properties & DIAGONAL) == DIAGONAL) {
        invert_diagonal(run, A, C);
    } else if ((A->properties & DIAGONAL) != 0) {
        gx_tri_args args = {.A = A,
                            .B = &identity,
                            .uplo = (A->properties & GX_PROP_LOWER) != 0 ? GX_LOWER : GX_UPPER,
                            .diag = (A->properties & GX_PROP_UNIT) != 0 ? GX_UNIT : GX_NON_UNIT,
                            .alpha = {1, 0}};
        gx_alg_trsm(run, &args, C);
    } else {
        invert_by_factor(run, A, &identity, C);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}
