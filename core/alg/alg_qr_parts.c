/*
** Q and R as matrices of their own.
**
**   panels   F = V\R (an intermediate);  R = its triangle;  Q = Q_1 .. Q_k E
**   tree     V and R by TSQR;  Q = the tree applied to the unit matrix
**
** The tree serves tall matrices whose full-height panels do not fit well, and R alone of any tall
** matrix, in one pass and with nothing kept.  Both give the economy Q; only panels the full one.
** Intermediates are in memory, or in the temp database.  Signs: R's diagonal is what the reflectors
** make it, so Q and R belong together.
*/
#include "alg_qr.h"

#include "../mat/simple.h"

static gx_code code_of(const gx_run *run)
{
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_alg_qr_parts_of(gx_run *run, const gx_mat *F, const void *tau, gx_sink *Q, gx_sink *R)
{
    if (R != NULL && gx_ok(run)) {
        gx_alg_qr_r(run, F, R);
    }
    if (Q != NULL && gx_ok(run)) {
        gx_alg_qr_form(run, F, tau, gx_min(F->rows, F->cols), Q);
    }
    return code_of(run);
}

static gx_code by_panels(gx_run *run, const gx_mat *A, gx_number dtype, gx_sink *Q, gx_sink *R)
{
    gx_sink F = {0};
    gx_mat source;
    void *tau = NULL;
    int64_t k = gx_min(A->rows, A->cols), tile_rows, tile_cols;
    gx_plan_panel_tiles(run, A->rows, A->cols, k, dtype, &tile_rows, &tile_cols);
    if (gx_qr_begin_scratch(run, A->rows, A->cols, dtype, tile_rows, tile_cols, 0, &F) == GX_OK &&
        gx_qr_take_tau(run, k, dtype, &tau) == GX_OK && gx_alg_qr(run, A, &F, tau) == GX_OK) {
        gx_sink_source(&F, A->label, &source);
        gx_alg_qr_parts_of(run, &source, tau, Q, R);
    }
    gx_mem_free(run->ctx->mem, tau);
    gx_sink_drop(&F);
    return code_of(run);
}

/* Q = the tree's Q times the unit matrix. */
static gx_code form_by_tree(gx_run *run, const gx_sink *V, const void *tau,
                            const gx_tsqr_plan *plan, gx_sink *Q)
{
    gx_mat source, unit;
    gx_diagonal ones = {.dtype = Q->number};
    gx_sink_source(V, "V", &source);
    gx_mat_generated(&unit, "the unit matrix", Q->number, plan->cols, plan->cols,
                     gx_diagonal_generate, &ones);
    return gx_alg_tsqr_apply(run, &source, tau, plan, &unit, Q);
}

/* *is_done false: it does not fit, nothing was done. */
static gx_code by_tree(gx_run *run, const gx_mat *A, gx_number dtype, gx_sink *Q, gx_sink *R,
                       bool *is_done)
{
    gx_sink V = {0}, top;
    gx_mat source;
    gx_tsqr_plan plan = {0};
    void *tau = NULL;
    int64_t n = A->cols, tile_rows, tile_cols;
    if (Q != NULL) {
        gx_plan_q_tiles(run, A->rows, n, n, dtype, &tile_rows, &tile_cols);
        gx_qr_begin_scratch(run, A->rows, n, dtype, tile_rows, tile_cols, 0, &V);
    }
    gx_sink_begin_scratch(run, n, n, dtype, 0, &top);
    if (gx_ok(run)) {
        gx_plan_tsqr(run, A->rows, n, Q != NULL ? n : 0, dtype, &plan);
    }
    *is_done = plan.is_possible && !top.is_stored;
    if (*is_done && gx_qr_take_tau(run, Q == NULL ? 0 : plan.blocks * n, dtype, &tau) == GX_OK) {
        gx_tsqr_args args = {.A = A, .R = &top, .V = Q == NULL ? NULL : &V, .tau = tau};
        gx_alg_tsqr(run, &args, &plan);
        gx_sink_source(&top, "R", &source);
        if (R != NULL && gx_ok(run)) {
            gx_copy_to_sink(run, &source, R);
        }
    }
    gx_sink_drop(&top); // before Q takes its memory
    if (*is_done && Q != NULL && gx_ok(run)) {
        form_by_tree(run, &V, tau, &plan, Q);
    }
    gx_mem_free(run->ctx->mem, tau);
    gx_sink_drop(&V);
    return code_of(run);
}

gx_code gx_alg_qr_parts(gx_run *run, const gx_mat *A, gx_sink *Q, gx_sink *R)
{
    if (!gx_ok(run)) {
        return run->err.code;
    }
    int64_t k = gx_min(A->rows, A->cols);
    gx_number dtype = R != NULL ? R->number : Q->number;
    bool is_full = R != NULL ? R->rows > k : Q->cols > k;
    bool is_tall = k > 0 && (Q == NULL ? A->rows >= 2 * A->cols
                                       : gx_plan_prefers_tsqr(run, A->rows, A->cols, dtype));
    bool is_done = false;
    if (is_tall && !is_full) {
        by_tree(run, A, dtype, Q, R, &is_done);
    }
    return is_done || !gx_ok(run) ? code_of(run) : by_panels(run, A, dtype, Q, R);
}
