/*
** Factors of any size: the half of factoring.c that leaves the work to the drivers.
**
** The factor is an intermediate (gx_sink_begin_scratch): in memory where it fits beside the blocks
** that are worked on, else in the temp database, where nobody sees it.  A stored factorisation, a
** Cholesky factor and a triangle are used where they are.
**
** Transposed systems with a Cholesky or QR factor of a complex matrix are solved conjugated:
** A^T X = B is A^H conj(X) = conj(B).  Two more passes over B and X.
*/
#include "factoring.h"

#include "alg_lu.h"
#include "alg_qr.h"

#include <string.h>

// Factoring ---------------------------------------------------------------------------------------

/* false: not positive definite. */
static bool factor_cholesky(gx_factor *f, const gx_mat *A)
{
    gx_run *run = f->run;
    gx_mat converted; // as it is read
    gx_mat_view(&converted, A, GX_NO_TRANS, 0, 0, A->rows, A->cols);
    converted.number = f->dtype;
    gx_sink_begin_scratch(run, f->n, f->n, f->dtype, gx_mem_available(run->ctx->mem) / 2,
                          &f->scratch);
    if (gx_ok(run)) {
        gx_alg_cholesky(run, A->number == f->dtype ? A : &converted, GX_LOWER, &f->scratch);
    }
    return gx_ok(run) || run->err.code != GX_NUMERIC;
}

static void factor_lu(gx_factor *f, const gx_mat *A)
{
    gx_run *run = f->run;
    gx_alg_lu_scratch(run, A, f->dtype, &f->scratch, &f->own_aux);
    f->aux = &f->own_aux;
    if (gx_ok(run) && f->own_aux.info > 0) {
        gx_run_failf(run, GX_NUMERIC, "%s is singular (pivot %lld is exactly zero)", f->label,
                     (long long)f->own_aux.info);
    }
}

bool gx_factor_large_make(gx_factor *factor, const gx_mat *A)
{
    bool is_factored = true;
    if (factor->kind == GX_FACTOR_LOWER || factor->kind == GX_FACTOR_UPPER) {
        factor->mat = *A;
        factor->mat.owned = NULL;
        return true;
    }
    if (factor->kind == GX_FACTOR_CHOLESKY) {
        is_factored = factor_cholesky(factor, A);
    } else {
        factor_lu(factor, A);
    }
    if (gx_ok(factor->run)) {
        gx_sink_source(&factor->scratch, factor->label, &factor->mat);
    }
    return is_factored;
}

// Solving -----------------------------------------------------------------------------------------

static void substitute(gx_factor *f, gx_uplo uplo, gx_trans trans, const gx_mat *B, gx_sink *X)
{
    gx_alg_trsm(f->run,
                &(gx_tri_args){.A = &f->mat,
                               .B = B,
                               .side = GX_LEFT,
                               .uplo = uplo,
                               .trans = trans,
                               .diag = f->diag,
                               .alpha = GX_ONE},
                X);
}

/* A = Q R:  X = R^-1 (Q^H B), or for A^H:  X = Q (R^-H B). */
static void solve_qr(gx_factor *f, gx_trans trans, const gx_mat *B, gx_sink *X)
{
    gx_run *run = f->run;
    bool is_plain = trans == GX_NO_TRANS;
    gx_trans adjoint = gx_adjoint(f->dtype);
    int64_t tile_rows, tile_cols;
    gx_sink between = {0};
    gx_mat source;
    gx_plan_panel_tiles(run, f->n, B->cols, f->n, f->dtype, &tile_rows, &tile_cols);
    gx_sink_begin_scratch_tiles(run, f->n, B->cols, f->dtype, gx_mem_available(run->ctx->mem) / 2,
                                tile_rows, tile_cols, &between);
    if (gx_ok(run) && is_plain) {
        gx_alg_qr_apply(run, &f->mat, f->tau, f->n, adjoint, B, &between);
    } else {
        substitute(f, GX_UPPER, adjoint, B, &between);
    }
    if (gx_ok(run)) {
        gx_sink_source(&between, "Q^H B", &source);
        if (is_plain) {
            substitute(f, GX_UPPER, GX_NO_TRANS, &source, X);
        } else {
            gx_alg_qr_apply(run, &f->mat, f->tau, f->n, GX_NO_TRANS, &source, X);
        }
    }
    gx_sink_drop(&between);
}

/* conj(X) of conj(B). */
static void solve_conjugated(gx_factor *f, const gx_mat *B, gx_sink *X)
{
    gx_run *run = f->run;
    gx_sink b = {0}, x = {0};
    gx_mat source;
    size_t keep = gx_mem_available(run->ctx->mem) / 2;
    gx_sink_begin_scratch(run, f->n, B->cols, f->dtype, keep, &b);
    if (gx_ok(run)) {
        gx_alg_map1(run, GX_MAP_CONJ, GX_ONE, B, &b);
        gx_sink_source(&b, B->label, &source);
    }
    gx_sink_begin_scratch(run, f->n, B->cols, f->dtype, keep / 2, &x);
    if (gx_ok(run)) {
        gx_factor_large_solve(f, GX_CONJ_TRANS, &source, &x);
    }
    if (gx_ok(run)) {
        gx_sink_source(&x, "X", &source);
        gx_alg_map1(run, GX_MAP_CONJ, GX_ONE, &source, X);
    }
    gx_sink_drop(&x);
    gx_sink_drop(&b);
}

void gx_factor_large_solve(gx_factor *factor, gx_trans trans, const gx_mat *B, gx_sink *X)
{
    bool is_transposed = trans == GX_TRANS && gx_number_is_complex(factor->dtype);
    if (!gx_ok(factor->run)) {
        return;
    }
    if (is_transposed && (factor->kind == GX_FACTOR_CHOLESKY || factor->kind == GX_FACTOR_QR)) {
        solve_conjugated(factor, B, X);
        return;
    }
    switch (factor->kind) {
    case GX_FACTOR_CHOLESKY:
        gx_alg_cholesky_solve(factor->run, &factor->mat, factor->uplo, B, X);
        break;
    case GX_FACTOR_LU:
        gx_alg_lu_solve(factor->run, &factor->mat, factor->aux, trans, B, X);
        break;
    case GX_FACTOR_QR:
        solve_qr(factor, trans, B, X);
        break;
    default:
        substitute(factor, factor->uplo, trans, B, X);
    }
}
