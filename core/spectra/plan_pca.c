/*
** What covariance, correlation and principal components would take: plan_spectrum.h.
**
** The same choices as alg_pca.c's, from shapes alone: one streamed pass (alg_stack.c) where a row's
** triangle is small, else a pass for the means, or moments, and what a product, or an SVD, takes.
*/
#include "../alg/narrow.h"
#include "../alg/plan.h"
#include "alg_pca.h"
#include "plan_spectrum.h"

static double bytes_of(const gx_mat *A)
{
    return (double)A->rows * (double)A->cols * (double)gx_number_bytes(A->number);
}

/* One after the other. */
static void add(gx_spectrum_plan *plan, const gx_cost *cost, const gx_terms *terms)
{
    plan->cost.flops += cost->flops;
    plan->cost.bytes_read += cost->bytes_read;
    plan->cost.calls += cost->calls;
    plan->cost.slots = gx_max(plan->cost.slots, cost->slots);
    gx_terms_add(&plan->terms, terms);
}

/* The product of [1 B] with itself, after a look at the first rows. */
static bool take_scatter(gx_run *run, const gx_mat *A, gx_spectrum_plan *plan)
{
    gx_mat ones;
    gx_cost cost = {0};
    gx_terms terms = {0};
    gx_narrow narrow;
    gx_tsqr_plan tsqr;
    int64_t n = A->cols + 1;
    if (!gx_pca_is_one_pass(run, A, &tsqr)) {
        return false;
    }
    gx_pca_ones(A, NULL, &ones);
    gx_sink S = {.rows = n, .cols = n, .number = ones.number, .tile_rows = n, .tile_cols = n};
    if (!gx_pca_is_streamed(run, &ones, &S, &narrow)) {
        return false;
    }
    *plan = (gx_spectrum_plan){.driver = "gram", .passes = 1};
    gx_narrow_predict(run, &narrow, &S, &cost, &terms);
    cost.bytes_read += bytes_of(A) / (double)A->rows * (double)gx_min(A->rows, GX_PCA_SHIFT_ROWS);
    add(plan, &cost, &terms);
    return true;
}

/* The triangle of [1 B], after a look at the first rows. */
static bool take_one_pass(gx_run *run, const gx_mat *A, gx_spectrum_plan *plan)
{
    gx_mat ones;
    gx_cost cost;
    gx_terms terms;
    gx_tsqr_plan tsqr;
    if (!gx_pca_is_one_pass(run, A, &tsqr)) {
        return false;
    }
    gx_number dtype = gx_number_wide(A->number);
    gx_mat_centred(&ones, A, dtype, NULL, NULL, true);
    gx_tsqr_foresee(run, &ones, NULL, dtype, bytes_of(A), &tsqr, &cost, &terms);
    *plan = (gx_spectrum_plan){.driver = "tsqr", .passes = 1, .block = tsqr.height};
    cost.bytes_read += bytes_of(A) / (double)A->rows * (double)gx_min(A->rows, GX_PCA_SHIFT_ROWS);
    add(plan, &cost, &terms);
    return true;
}

/* Moments; or means, after a look at the first row, whose tiles are read whole. */
static void take_first_pass(gx_run *run, const gx_mat *A, bool is_means, gx_spectrum_plan *plan)
{
    gx_terms terms;
    double head = is_means ? (double)gx_min(A->rows, A->tile_rows) / (double)A->rows : 0;
    gx_cost cost = {.flops = (double)A->rows * (double)A->cols,
                    .bytes_read = bytes_of(A) * (1 + head),
                    .bytes_up = bytes_of(A)};
    cost.calls = gx_ceil_div(A->rows, A->tile_rows) * gx_ceil_div(A->cols, A->tile_cols);
    gx_predict_pass(run, &cost, A->number, 1, &terms);
    add(plan, &cost, &terms);
    plan->passes++;
}

gx_code gx_plan_cov(gx_run *run, const gx_cov_args *args, const gx_sink *C, gx_spectrum_plan *plan)
{
    const gx_mat *A = args->A;
    if (!gx_ok(run) || A->rows == 0 || A->cols == 0) {
        *plan = (gx_spectrum_plan){.driver = "syrk"};
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    if (A->cols <= GX_PCA_NARROW && (take_scatter(run, A, plan) || take_one_pass(run, A, plan))) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    *plan = (gx_spectrum_plan){.driver = "syrk"};
    take_first_pass(run, A, !args->is_correlation, plan);
    gx_mat X;
    gx_cost cost = {0};
    gx_terms terms = {0};
    gx_narrow narrow;
    gx_mat_centred(&X, A, C->number, NULL, NULL, false);
    gx_matmul_args product = {.A = &X, .B = &X, .alpha = {1, 0}};
    product.transa = gx_number_is_complex(C->number) ? GX_CONJ_TRANS : GX_TRANS;
    if (gx_narrow_plan(run, &product, C, &narrow)) {
        gx_narrow_predict(run, &narrow, C, &cost, &terms);
    } else {
        gx_matmul_plan blocks;
        gx_plan_matmul(run, &product, C->tile_rows, C->tile_cols, &blocks);
        gx_sink imagined = *C;
        gx_prog *prog = gx_matmul_program(run, &product, &blocks, &imagined);
        if (prog != NULL) {
            gx_predict_program(prog, NULL, &cost, &terms);
        }
        gx_prog_free(prog);
    }
    add(plan, &cost, &terms);
    plan->passes++;
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_plan_pca(gx_run *run, const gx_pca_args *args, gx_spectrum_plan *plan)
{
    const gx_mat *A = args->A;
    int64_t most = gx_min(A->rows, A->cols);
    if (gx_ok(run) && args->k > most) {
        return gx_run_failf(run, GX_ARG, "k is %lld but %s is %lldx%lld: it has %lld components",
                            (long long)args->k, A->label, (long long)A->rows, (long long)A->cols,
                            (long long)most);
    }
    *plan = (gx_spectrum_plan){.driver = "svd"};
    bool is_part = args->k > 0 && 2 * args->k <= A->cols;
    if (!gx_ok(run) || most == 0 || (is_part && take_scatter(run, A, plan)) ||
        take_one_pass(run, A, plan)) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    gx_mat X;
    gx_spectrum_plan svd;
    gx_terms terms;
    gx_err err = {0};
    take_first_pass(run, A, false, plan);
    gx_mat_centred(&X, A, gx_number_wide(A->number), NULL, NULL, false);
    int64_t count = args->k > 0 ? args->k : most;
    gx_svd_args how = gx_pca_svd_args(args, &X, count);
    size_t held = gx_pca_held_bytes(A, count);
    if (gx_mem_reserve(run->ctx->mem, held, "components", &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    if (gx_plan_svd(run, &how, &svd) == GX_OK && svd.driver != NULL) {
        plan->passes += svd.passes;
        svd.cost.bytes_read *= bytes_of(A) / bytes_of(&X); // stored narrower than it is worked on
        gx_predict_cost(run, NULL, &svd.cost, X.number, 1024, &terms);
        add(plan, &svd.cost, &terms);
    }
    gx_mem_return(run->ctx->mem, held);
    return gx_ok(run) ? GX_OK : run->err.code;
}
