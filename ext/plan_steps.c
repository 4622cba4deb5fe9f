/*
** gx_plan: what each operation would do (plan_row.h).
**
** Products and factorisations: the planner's choice and a dry run of the very program that would be
** executed, on a sink that is never begun.  Solves after a factorisation: their flops, one pass
** over the factor and the right-hand sides.  Passes over matrices: bytes and elements.
*/
#include "plan_row.h"

#include "../core/alg/alg_lu.h"
#include "../core/alg/alg_qr.h"
#include "../core/alg/narrow.h"
#include "../core/alg/factoring.h"
#include "../core/alg/knn.h"
#include "../core/alg/spmm.h"
#include "../core/device/fleet.h"
#include "../core/spectra/plan_spectrum.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Products and passes -----------------------------------------------------------------------------

static void describe_device(gx_run *run, plan_row *row)
{
    if (run->target != NULL) {
        snprintf(row->device, sizeof row->device, "%s", run->target->info.name);
        return;
    }
    const gx_backend *backend;
    gx_dev *dev;
    if (gx_run_device(run, &backend, &dev) == GX_OK) {
        snprintf(row->device, sizeof row->device, "%s", backend->name);
    }
}

/* A sink of the shape a stored result would have, never written. */
static gx_code imagine_sink(gx_run *run, int64_t rows, int64_t cols, gx_number dtype, gx_sink *sink)
{
    *sink = (gx_sink){.run = run, .rows = rows, .cols = cols, .number = dtype, .is_stored = true};
    sink->dtype = gx_dtype_of(dtype);
    gx_err err = {0};
    gx_tile_shape(rows, cols, sink->dtype, gx_store_max_tile_bytes(run->ctx->store),
                  &sink->tile_rows, &sink->tile_cols, &err);
    return gx_run_fail(run, &err);
}

/* Which part of the work each of several devices has. */
static void describe_shares(gx_prog *prog, const gx_fleet *fleet, plan_row *row)
{
    double share[GX_DEVICES_MOST];
    size_t used = strlen(row->device);
    snprintf(row->device + used, sizeof row->device - used, " and %d more", fleet->count - 1);
    gx_prog_shares(prog, fleet, share);
    used = 0;
    for (int d = 0; d < fleet->count && used < sizeof row->shares; d++) {
        used += (size_t)snprintf(row->shares + used, sizeof row->shares - used,
                                 "%s\"cuda:%d\":%.3f%s", d == 0 ? "{" : ",",
                                 fleet->accel[d]->ordinal, share[d],
                                 d + 1 == fleet->count ? "}" : "");
    }
}

/* Cost and time of a program where the run is planning for, which is freed. */
static void cost_program(gx_run *run, gx_prog *prog, plan_row *row)
{
    gx_fleet fleet;
    gx_fleet_single(&fleet, run->target, run->target_bytes);
    if (prog != NULL && gx_place_predict(prog, &fleet, &row->cost, &row->terms) &&
        fleet.count > 1) {
        describe_shares(prog, &fleet, row);
    }
    gx_prog_free(prog);
}

/* The same of work that has no program, beside what the row has already. */
static void add_cost(gx_run *run, const gx_cost *cost, gx_number dtype, int64_t edge, plan_row *row)
{
    gx_terms more, *sum = &row->terms;
    gx_predict_cost(run, run->target, cost, dtype, edge, &more);
    bool is_first = sum->model_s == 0;
    sum->start_s += more.start_s;
    sum->read_s += more.read_s;
    sum->up_s += more.up_s;
    sum->compute_s += more.compute_s;
    sum->down_s += more.down_s;
    sum->write_s += more.write_s;
    sum->model_s += more.model_s - (is_first ? 0 : more.commit_s); // one call, one commit
    sum->commit_s = more.commit_s > sum->commit_s ? more.commit_s : sum->commit_s;
    sum->factor = is_first ? more.factor : sum->factor;
    sum->seconds = sum->model_s * sum->factor;
}

/* With few columns or rows, on the host; false: a program. */
static bool plan_narrow(gx_run *run, const gx_matmul_args *args, const gx_sink *sink, plan_row *row)
{
    gx_narrow plan;
    if (!gx_narrow_plan(run, args, sink, &plan)) {
        return false;
    }
    gx_narrow_predict(run, &plan, sink, &row->cost, &row->terms);
    snprintf(row->driver, sizeof row->driver, "narrow");
    snprintf(row->detail, sizeof row->detail, "%lld x %lld %s, one pass over %.40s%s",
             (long long)sink->rows, (long long)sink->cols, gx_number_name(sink->number),
             plan.S->label, plan.is_trans ? " transposed" : "");
    snprintf(row->block, sizeof row->block, "%lld x %lld", (long long)plan.tile_rows,
             (long long)plan.tile_cols);
    return true;
}

/* One operand is sparse. */
static void plan_sparse_product(gx_run *run, const gx_matmul_args *args, int64_t m, int64_t n,
                                gx_number dtype, plan_row *row)
{
    const gx_spmm_args sparse = {.A = args->A,
                                 .B = args->B,
                                 .transa = args->transa,
                                 .transb = args->transb,
                                 .alpha = args->alpha};
    const gx_mat *S = args->A->is_sparse ? args->A : args->B;
    gx_spmm_plan plan = {0};
    if (args->A->is_sparse && args->B->is_sparse) {
        gx_run_failf(run, GX_ARG,
                     "%s and %s are sparse: how many entries their product has is not foretold",
                     args->A->label, args->B->label);
        return;
    }
    run->planned_as = GX_SPMM_NAME;
    gx_spmm_foresee(run, &sparse, m, n, dtype, &plan, &row->cost, &row->terms);
    long long rounds = (long long)gx_ceil_div(plan.lines, gx_max(1, plan.round));
    snprintf(row->driver, sizeof row->driver, "sparse");
    snprintf(row->detail, sizeof row->detail, "%lld x %lld %s, %lld panel%s of %.60s, %lld time%s",
             (long long)m, (long long)n, gx_number_name(dtype), (long long)plan.panels,
             plan.panels == 1 ? "" : "s", S->label, rounds, rounds == 1 ? "" : "s");
    snprintf(row->block, sizeof row->block, "%lld x %lld",
             (long long)(args->A->is_sparse ? m : plan.round),
             (long long)(args->A->is_sparse ? plan.round : n));
}

static void plan_product(gx_run *run, expression *e, plan_row *row)
{
    gx_matmul_args args = {.A = &e->a.mat,
                           .B = &e->b.mat,
                           .transa = e->a.trans,
                           .transb = e->b.trans,
                           .alpha = {1, 0}};
    int64_t m, n;
    gx_number dtype;
    gx_err err = {0};
    gx_sink sink;
    if (gx_matmul_shape(&args, &m, &n, &dtype, &err) != GX_OK) {
        gx_run_fail(run, &err);
        return;
    }
    if (args.A->is_sparse || args.B->is_sparse) {
        plan_sparse_product(run, &args, m, n, dtype, row);
        return;
    }
    if (imagine_sink(run, m, n, dtype, &sink) != GX_OK) {
        return;
    }
    if (run->target == NULL && plan_narrow(run, &args, &sink, row)) {
        return;
    }
    gx_matmul_plan plan;
    gx_plan_matmul(run, &args, sink.tile_rows, sink.tile_cols, &plan);
    gx_prog *prog = gx_matmul_program(run, &args, &plan, &sink);
    cost_program(run, prog, row);
    snprintf(row->driver, sizeof row->driver, "%s",
             plan.is_hermitian ? "herk"
             : plan.is_syrk    ? "syrk"
                               : "gemm");
    snprintf(row->detail, sizeof row->detail,
             "%lld x %lld %s, %lld x %lld blocks of the result in memory, k %s", (long long)m,
             (long long)n, gx_number_name(dtype), (long long)plan.super_m, (long long)plan.super_n,
             plan.is_snake ? "back and forth" : "ascending");
    snprintf(row->block, sizeof row->block, "%lld x %lld x %lld", (long long)plan.block_m,
             (long long)plan.block_n, (long long)plan.block_k);
}

/* One pass over the operands, block by block. */
static void plan_pass(gx_run *run, expression *e, plan_row *row)
{
    const gx_mat *A = &e->a.mat, *B = e->has_b ? &e->b.mat : NULL;
    gx_sink sink;
    gx_number dtype = B == NULL ? A->number : gx_number_promote(A->number, B->number);
    int64_t rows = e->op == PLAN_TRANSPOSE ? A->cols : A->rows,
            cols = e->op == PLAN_TRANSPOSE ? A->rows : A->cols;
    if (imagine_sink(run, rows, cols, dtype, &sink) != GX_OK) {
        return;
    }
    bool is_reduction = e->op == PLAN_NORM || e->op == PLAN_SUM;
    size_t bytes_a = 0, bytes_b = 0, bytes_c = 0;
    gx_dtype_matrix_bytes(A->rows, A->cols, A->dtype, &bytes_a);
    if (B != NULL) {
        gx_dtype_matrix_bytes(B->rows, B->cols, B->dtype, &bytes_b);
    }
    if (!is_reduction) {
        gx_matrix_bytes(rows, cols, dtype, &bytes_c);
    }
    int64_t tile_rows = is_reduction ? A->tile_rows : sink.tile_rows;
    int64_t tile_cols = is_reduction ? A->tile_cols : sink.tile_cols;
    row->cost.bytes_read = (double)bytes_a + (double)bytes_b;
    row->cost.bytes_written = (double)bytes_c;
    row->cost.flops = e->op == PLAN_TRANSPOSE
                          ? 0
                          : (double)A->rows * (double)A->cols * (e->op == PLAN_NORM ? 2 : 1);
    row->cost.calls =
        gx_ceil_div(rows, gx_max(1, tile_rows)) * gx_ceil_div(cols, gx_max(1, tile_cols));
    row->cost.bytes_up = row->cost.bytes_read;
    row->cost.bytes_down = row->cost.bytes_written;
    add_cost(run, &row->cost, dtype, 1024, row);
    const char *driver = e->op == PLAN_NORM        ? "norm"
                         : e->op == PLAN_SUM       ? "sum"
                         : e->op == PLAN_TRANSPOSE ? "transpose"
                                                   : "map";
    snprintf(row->driver, sizeof row->driver, "%s", driver);
    snprintf(row->detail, sizeof row->detail, "%lld x %lld %s, one pass", (long long)rows,
             (long long)cols, gx_number_name(dtype));
    snprintf(row->block, sizeof row->block, "%lld x %lld", (long long)tile_rows,
             (long long)tile_cols);
}

// Factorisations ----------------------------------------------------------------------------------

static double unit_of(gx_number dtype)
{
    return gx_number_is_complex(dtype) ? 4 : 1;
}

static double bytes_of(double rows, double cols, gx_number dtype)
{
    return rows * cols * (double)gx_number_bytes(dtype);
}

static double stored_bytes(const gx_mat *A)
{
    return (double)A->rows * (double)A->cols * (double)gx_dtype_bytes(A->dtype);
}

static bool is_square(gx_run *run, const gx_mat *A, const char *advice)
{
    if (A->rows == A->cols) {
        return true;
    }
    gx_run_failf(run, GX_ARG, "%s is %lldx%lld, not square%s", A->label, (long long)A->rows,
                 (long long)A->cols, advice);
    return false;
}

static void plan_cholesky(gx_run *run, const gx_mat *A, gx_number dtype, plan_row *row)
{
    gx_mat converted;
    gx_mat_view(&converted, A, GX_NO_TRANS, 0, 0, A->rows, A->cols);
    converted.number = dtype;
    gx_sink sink;
    if (!is_square(run, A, "") || imagine_sink(run, A->rows, A->cols, dtype, &sink) != GX_OK) {
        return;
    }
    gx_cholesky_plan plan;
    gx_plan_cholesky(run, &converted, GX_LOWER, gx_max(1, sink.tile_rows), &plan);
    cost_program(run, gx_ok(run) ? gx_cholesky_program(run, &converted, &plan, &sink) : NULL, row);
    snprintf(row->driver, sizeof row->driver, "cholesky");
    snprintf(row->detail, sizeof row->detail, "%lld x %lld %s, %s", (long long)A->rows,
             (long long)A->cols, gx_number_name(dtype),
             plan.is_in_memory ? "all in memory"
             : plan.is_panel   ? "panel-left, from the database"
                               : "block-left, from the database");
    snprintf(row->block, sizeof row->block, "%lld x %lld", (long long)plan.block,
             (long long)plan.block);
}

static void plan_lu(gx_run *run, const gx_mat *A, gx_number dtype, plan_row *row)
{
    gx_lu_plan plan;
    gx_aux aux = {.kind = GX_AUX_NONE};
    gx_err err = {0};
    void *sums = NULL;
    gx_mem *mem = run->ctx->mem;
    gx_plan_lu(run, A->rows, A->cols, dtype, &plan);
    gx_sink sink = {.run = run,
                    .rows = A->rows,
                    .cols = A->cols,
                    .number = dtype,
                    .tile_rows = plan.tile_rows,
                    .tile_cols = plan.tile_cols,
                    .is_stored = true};
    if (gx_ok(run) &&
        gx_aux_create(mem, GX_AUX_LU, A->rows, A->cols, dtype, plan.panel, &aux, &err) == GX_OK &&
        gx_mem_alloc(mem, (size_t)A->cols * sizeof(double), "sums of columns", &sums, &err) ==
            GX_OK) {
        cost_program(run, gx_lu_program(run, A, &plan, &sink, &aux, sums), row);
    }
    gx_run_fail(run, &err);
    gx_mem_free(mem, sums);
    gx_aux_clear(&aux, mem);
    snprintf(row->driver, sizeof row->driver, "lu");
    snprintf(row->detail, sizeof row->detail, "%lld x %lld %s, %s, partial pivoting",
             (long long)A->rows, (long long)A->cols, gx_number_name(dtype),
             plan.is_in_memory ? "all in memory" : "panel-left, from the database");
    snprintf(row->block, sizeof row->block, "%lld x %lld", (long long)A->rows,
             (long long)plan.panel);
}

static void plan_qr(gx_run *run, const gx_mat *A, plan_row *row)
{
    gx_panel_plan plan;
    int64_t k = gx_min(A->rows, A->cols);
    void *tau = NULL;
    gx_err err = {0};
    gx_plan_panels(run, A->rows, A->cols, k, A->number, 0, &plan);
    gx_sink sink = {.run = run,
                    .rows = A->rows,
                    .cols = A->cols,
                    .number = A->number,
                    .tile_rows = gx_max(1, A->rows),
                    .tile_cols = plan.width,
                    .is_stored = true};
    if (gx_ok(run) && gx_mem_alloc(run->ctx->mem, (size_t)k * gx_number_bytes(A->number),
                                   "reflectors", &tau, &err) == GX_OK) {
        cost_program(run, k == 0 ? NULL : gx_qr_program(run, A, &plan, &sink, tau), row);
    }
    gx_run_fail(run, &err);
    gx_mem_free(run->ctx->mem, tau);
    snprintf(row->driver, sizeof row->driver, "qr");
    snprintf(row->detail, sizeof row->detail, "%lld x %lld %s, Householder panels, %lld at a time",
             (long long)A->rows, (long long)A->cols, gx_number_name(A->number),
             (long long)plan.group);
    snprintf(row->block, sizeof row->block, "%lld x %lld", (long long)A->rows,
             (long long)plan.width);
}

// Systems -----------------------------------------------------------------------------------------

/* X from the factor: flops, B read and X written; the factor is read where it was not kept. */
static void add_solve(gx_run *run, const gx_mat *A, int64_t cols, gx_number dtype, int sweeps,
                      bool reads_factor, plan_row *row)
{
    double n = (double)A->rows, lines = (double)cols;
    gx_cost solve = {.flops = unit_of(dtype) * sweeps * n * n * lines,
                     .bytes_read = bytes_of(n, lines, dtype),
                     .bytes_written = bytes_of(n, lines, dtype),
                     .calls = 1};
    if (reads_factor) {
        solve.bytes_read += bytes_of(n, n, dtype) * sweeps / 2;
    }
    row->cost.flops += solve.flops;
    row->cost.bytes_read += solve.bytes_read;
    row->cost.bytes_written += solve.bytes_written;
    row->cost.calls += solve.calls;
    add_cost(run, &solve, dtype, 256, row);
}

/* The factor of a solve is an intermediate: what is written of it goes to temp, where it must. */
static void keep_factor(gx_run *run, const gx_mat *A, gx_number dtype, plan_row *row)
{
    double bytes = bytes_of((double)A->rows, (double)A->cols, dtype);
    if (2 * bytes < (double)gx_mem_available(run->ctx->mem)) {
        row->cost.bytes_written = 0;
    }
}

/* "A is positive definite: " in front of what the factorisation is. */
static void say_why(const char *why, int64_t cols, plan_row *row)
{
    char kept[sizeof row->detail];
    memcpy(kept, row->detail, sizeof kept);
    snprintf(row->detail, sizeof row->detail, "%.40s: %.70s%slines of B: %lld", why, kept,
             kept[0] == '\0' ? "" : "; ", (long long)cols);
}

static void plan_solve(gx_run *run, const gx_mat *A, int64_t cols, gx_number dtype, plan_row *row)
{
    static const char *const drivers[] = {[GX_FACTOR_DIAGONAL] = "diagonal",
                                          [GX_FACTOR_LOWER] = "substitution",
                                          [GX_FACTOR_UPPER] = "substitution",
                                          [GX_FACTOR_CHOLESKY] = "cholesky",
                                          [GX_FACTOR_LU] = "lu"};
    const char *why;
    gx_factor_kind kind = gx_factor_choose(A, &why);
    bool is_factored = kind == GX_FACTOR_CHOLESKY || kind == GX_FACTOR_LU;
    if (kind == GX_FACTOR_CHOLESKY) {
        plan_cholesky(run, A, dtype, row);
    } else if (kind == GX_FACTOR_LU) {
        plan_lu(run, A, dtype, row);
    }
    if (is_factored) {
        keep_factor(run, A, dtype, row);
    }
    if (kind == GX_FACTOR_DIAGONAL) {
        double n = (double)A->rows, lines = (double)cols;
        row->cost = (gx_cost){.flops = unit_of(dtype) * n * lines,
                              .bytes_read = bytes_of(n, lines + 1, dtype),
                              .bytes_written = bytes_of(n, lines, dtype),
                              .calls = 1};
        add_cost(run, &row->cost, dtype, 256, row);
    } else {
        bool is_kept = is_factored && row->cost.bytes_written == 0;
        add_solve(run, A, cols, dtype, is_factored ? 2 : 1, !is_kept, row);
    }
    snprintf(row->driver, sizeof row->driver, "%s", drivers[kind]);
    say_why(why, cols, row);
}

static bool check_lines(gx_run *run, const gx_mat *A, const gx_mat *B)
{
    if (A->rows == B->rows) {
        return true;
    }
    gx_run_failf(run, GX_ARG, "%s is %lldx%lld but %s is %lldx%lld", A->label, (long long)A->rows,
                 (long long)A->cols, B->label, (long long)B->rows, (long long)B->cols);
    return false;
}

static void plan_lstsq(gx_run *run, const gx_mat *A, const gx_mat *B, plan_row *row)
{
    gx_number dtype = gx_number_promote(A->number, B->number);
    gx_tsqr_plan tsqr;
    double m = (double)A->rows, n = (double)A->cols, p = (double)B->cols;
    gx_plan_tsqr(run, A->rows, A->cols, B->cols, dtype, &tsqr);
    if (!tsqr.is_possible) {
        plan_qr(run, A, row);
        row->cost.bytes_read += bytes_of(m, p, dtype);
        say_why("R does not fit in memory beside A's rows", B->cols, row);
        return;
    }
    gx_stack stack;
    if (gx_stack_plan(run, A, B, dtype, &stack)) {
        gx_stack_predict(run, &stack, &row->cost, &row->terms);
        row->cost.bytes_read = stored_bytes(A) + stored_bytes(B);
        tsqr.height = stack.height;
    } else {
        row->cost = (gx_cost){.flops = unit_of(dtype) * (2 * m * n * n + 4 * m * n * p),
                              .bytes_read = stored_bytes(A) + stored_bytes(B),
                              .slots = tsqr.slots,
                              .calls = tsqr.blocks};
        add_cost(run, &row->cost, dtype, gx_max(1, A->cols), row);
    }
    row->cost.bytes_written = bytes_of(n, p, dtype);
    snprintf(row->driver, sizeof row->driver, "tsqr");
    snprintf(row->block, sizeof row->block, "%lld x %lld", (long long)tsqr.height,
             (long long)A->cols);
    say_why("one pass over A with R in memory", B->cols, row);
}

static void plan_system(gx_run *run, const expression *e, plan_row *row)
{
    const gx_mat *A = &e->a.mat, *B = &e->b.mat;
    switch (e->op) {
    case PLAN_CHOLESKY:
        plan_cholesky(run, A, A->number, row);
        break;
    case PLAN_QR:
        plan_qr(run, A, row);
        break;
    case PLAN_LSTSQ:
        if (check_lines(run, A, B)) {
            plan_lstsq(run, A, B, row);
        }
        break;
    case PLAN_SOLVE:
        if (is_square(run, A, ": gx_lstsq solves by least squares") && check_lines(run, A, B)) {
            plan_solve(run, A, B->cols, gx_number_promote(A->number, B->number), row);
        }
        break;
    case PLAN_INVERSE:
        if (is_square(run, A, ": gx_pinv inverts any shape")) {
            plan_solve(run, A, A->cols, A->number, row);
        }
        break;
    default: // LU, and the determinant, whose factor nobody keeps
        if (e->op == PLAN_LU || is_square(run, A, "")) {
            plan_lu(run, A, A->number, row);
        }
        if (e->op == PLAN_DET) {
            keep_factor(run, A, A->number, row);
        }
    }
}

/* Eigenvalues or singular values, all of them or k: `written` bytes of results. */
static void show_spectrum(gx_run *run, const gx_mat *A, const gx_spectrum_plan *plan,
                          double written, plan_row *row)
{
    if (plan->driver == NULL) { // not on this device: there is no such row
        return;
    }
    gx_cost cost = plan->cost;
    const gx_oper_plan *oper = &plan->oper;
    double all = oper->once + oper->each;
    cost.bytes_written = written;
    row->cost = cost;
    row->is_chosen = plan->is_faster;
    add_cost(run, &cost, A->number, 1024, row);
    snprintf(row->driver, sizeof row->driver, "%s", plan->driver);
    snprintf(row->block, sizeof row->block, "%lld x %lld", (long long)A->cols,
             (long long)(plan->block > 0 ? plan->block : A->rows));
    if (plan->block > 0) {
        snprintf(row->detail, sizeof row->detail,
                 "a basis of %lld, %lld passes %s, %.0f bytes each, %.0f %% of A in memory",
                 (long long)plan->ncv, (long long)plan->told.passes, plan->told.how, oper->each,
                 all > 0 ? 100 * oper->once / all : 100);
    } else {
        snprintf(row->detail, sizeof row->detail, "%s",
                 plan->told.passes == 2 ? "a QR by panels of rows, then a pass for the vectors"
                                        : "all of A in memory, one pass");
    }
}

static void plan_svd(gx_run *run, const expression *e, plan_row *row)
{
    const gx_mat *A = &e->a.mat;
    gx_spectrum_plan plan;
    if (gx_plan_svd(run, &e->svd, &plan) == GX_OK) {
        double m = (double)A->rows, n = (double)A->cols;
        double count = (double)(e->svd.k > 0 ? e->svd.k : gx_min(A->rows, A->cols));
        show_spectrum(run, A, &plan, bytes_of(m + n, count, A->number), row);
    }
}

static void plan_eig(gx_run *run, const expression *e, plan_row *row)
{
    const gx_mat *A = &e->a.mat;
    gx_spectrum_plan plan;
    if (gx_plan_eig(run, &e->eig, &plan) == GX_OK) {
        double n = (double)A->rows, count = (double)(e->eig.k > 0 ? e->eig.k : A->rows);
        show_spectrum(run, A, &plan, bytes_of(n + 1, count, A->number), row);
    }
}

/* Covariance, correlation, components: passes over A, and a little that is small. */
static void plan_columns(gx_run *run, const expression *e, plan_row *row)
{
    const gx_mat *A = &e->a.mat;
    gx_columns_plan plan = {0};
    gx_sink C;
    double n = (double)A->cols, lines = n;
    if (e->op == PLAN_PCA) {
        gx_plan_pca(run, &(gx_pca_args){.A = A, .k = e->k}, &plan);
        lines = 2 + (double)(e->k > 0 ? e->k : gx_min(A->rows, A->cols));
    } else if (imagine_sink(run, A->cols, A->cols, A->number, &C) == GX_OK) {
        gx_cov_args args = {.A = A, .ddof = 1, .is_correlation = e->op == PLAN_CORR};
        gx_plan_cov(run, &args, &C, &plan);
    }
    if (!gx_ok(run)) {
        return;
    }
    row->cost = plan.cost;
    row->terms = plan.terms;
    row->cost.bytes_written = bytes_of(n, lines, A->number);
    snprintf(row->driver, sizeof row->driver, "%s", plan.driver);
    snprintf(row->detail, sizeof row->detail, "%lld x %lld %s, %lld pass%s over %.40s",
             (long long)A->rows, (long long)A->cols, gx_number_name(A->number),
             (long long)plan.passes, plan.passes == 1 ? "" : "es", A->label);
    snprintf(row->block, sizeof row->block, "%lld x %lld",
             (long long)(plan.height > 0 ? plan.height : A->tile_rows), (long long)A->cols);
}

static void plan_topk(gx_run *run, const expression *e, plan_row *row)
{
    const gx_mat *A = &e->a.mat;
    gx_topk_predict(run, A, e->k, &row->cost, &row->terms);
    snprintf(row->driver, sizeof row->driver, "topk");
    snprintf(row->detail, sizeof row->detail, "%lld x %lld %s, one pass over %.40s",
             (long long)A->rows, (long long)A->cols, gx_number_name(A->number), A->label);
    snprintf(row->block, sizeof row->block, "%lld x %lld", (long long)A->tile_rows,
             (long long)A->tile_cols);
}

static void plan_knn(gx_run *run, const expression *e, plan_row *row)
{
    gx_knn_args args = {.Q = &e->a.mat, .E = &e->b.mat, .metric = GX_METRIC_COSINE, .k = e->k};
    gx_knn_plan plan = {0};
    args.last = args.Q->rows;
    gx_knn_foresee(run, &args, &plan, &row->cost, &row->terms);
    snprintf(row->driver, sizeof row->driver, "%s", plan.is_few ? "pairs" : "gemm");
    if (plan.is_mutual) {
        snprintf(row->detail, sizeof row->detail, "each pair of rows of %.60s once", e->b.name);
    } else {
        snprintf(row->detail, sizeof row->detail, "%lld queries at a time, %lld pass%s over %.60s",
                 (long long)plan.batch, (long long)plan.batches, plan.batches == 1 ? "" : "es",
                 e->b.name);
    }
    snprintf(row->block, sizeof row->block, "%lld x %lld", (long long)plan.strip,
             (long long)args.E->cols);
}

void gx_plan_expression(gx_run *run, expression *e, plan_row *row)
{
    static const char *const functions[] = {[PLAN_PRODUCT] = "gx_matmul",
                                            [PLAN_MAP] = "gx_add",
                                            [PLAN_TRANSPOSE] = "gx_transpose",
                                            [PLAN_NORM] = "gx_norm",
                                            [PLAN_SUM] = "gx_sum",
                                            [PLAN_CHOLESKY] = "gx_cholesky",
                                            [PLAN_LU] = "gx_lu",
                                            [PLAN_QR] = "gx_qr",
                                            [PLAN_SOLVE] = "gx_solve",
                                            [PLAN_LSTSQ] = "gx_lstsq",
                                            [PLAN_INVERSE] = "gx_inverse",
                                            [PLAN_DET] = "gx_det",
                                            [PLAN_SVD] = "gx_svd",
                                            [PLAN_EIG] = "gx_eig",
                                            [PLAN_COV] = "gx_cov",
                                            [PLAN_CORR] = "gx_corr",
                                            [PLAN_PCA] = "gx_pca",
                                            [PLAN_TOPK] = "gx_topk",
                                            [PLAN_KNN] = "gx_knn"};
    run->planned_as = functions[e->op];
    describe_device(run, row);
    if (e->op == PLAN_PRODUCT) {
        plan_product(run, e, row);
    } else if (e->op == PLAN_SVD) {
        plan_svd(run, e, row);
    } else if (e->op == PLAN_EIG) {
        plan_eig(run, e, row);
    } else if (e->op == PLAN_TOPK) {
        plan_topk(run, e, row);
    } else if (e->op == PLAN_KNN) {
        plan_knn(run, e, row);
    } else if (e->op >= PLAN_COV) {
        plan_columns(run, e, row);
    } else if (e->op >= PLAN_CHOLESKY) {
        plan_system(run, e, row);
    } else {
        plan_pass(run, e, row);
    }
}
