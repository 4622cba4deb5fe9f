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
#include "../core/alg/by_parts.h"
#include "../core/alg/dense.h"
#include "../core/alg/factoring.h"
#include "../core/alg/knn.h"
#include "../core/alg/narrow.h"
#include "../core/alg/spmm.h"
#include "../core/device/fleet.h"
#include "../core/spectra/plan_spectrum.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// The row -----------------------------------------------------------------------------------------

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

/* Add to the details. */
__attribute__((format(printf, 2, 3))) static void add(plan_row *row, const char *format, ...)
{
    size_t used = strlen(row->detail);
    va_list args;
    va_start(args, format);
    vsnprintf(row->detail + used, sizeof row->detail - used, format, args);
    va_end(args);
}

static void add_shape(plan_row *row, int64_t rows, int64_t cols, gx_number dtype)
{
    add(row, "%lld x %lld %s, ", (long long)rows, (long long)cols, gx_number_name(dtype));
}

/* Which driver, and blocks of m x n. */
static void tell(plan_row *row, const char *driver, int64_t m, int64_t n)
{
    snprintf(row->driver, sizeof row->driver, "%s", driver);
    snprintf(row->block, sizeof row->block, "%lld x %lld", (long long)m, (long long)n);
}

static const char *plural(int64_t count, const char *ending)
{
    return count == 1 ? "" : ending;
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
        used +=
            (size_t)snprintf(row->shares + used, sizeof row->shares - used, "%s\"cuda:%d\":%.3f%s",
                             d == 0 ? "{" : ",", fleet->accel[d]->ordinal, share[d],
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
    gx_terms more;
    gx_predict_cost(run, run->target, cost, dtype, edge, &more);
    gx_terms_add(&row->terms, &more);
}

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

// Products and passes -----------------------------------------------------------------------------

/* With few columns or rows, on the host; false: a program. */
static bool plan_narrow(gx_run *run, const gx_matmul_args *args, const gx_sink *sink, plan_row *row)
{
    gx_narrow plan;
    if (!gx_narrow_plan(run, args, sink, &plan)) {
        return false;
    }
    gx_narrow_predict(run, &plan, sink, &row->cost, &row->terms);
    tell(row, "narrow", plan.tile_rows, plan.tile_cols);
    add_shape(row, sink->rows, sink->cols, sink->number);
    add(row, "one pass over %.40s%s", plan.S->label, plan.is_trans ? " transposed" : "");
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
    bool is_left = args->A->is_sparse;
    gx_spmm_plan plan = {0};
    if (is_left && args->B->is_sparse) {
        gx_run_failf(
            run, GX_ARG,
            "%s and %s are sparse: the time depends on how many entries their product has, which "
            "gx_plan cannot know before it is computed",
            args->A->label, args->B->label);
        return;
    }
    run->planned_as = GX_SPMM_NAME;
    gx_spmm_foresee(run, &sparse, m, n, dtype, &plan, &row->cost, &row->terms);
    int64_t rounds = gx_ceil_div(plan.lines, gx_max(1, plan.round));
    tell(row, "sparse", is_left ? m : plan.round, is_left ? plan.round : n);
    add_shape(row, m, n, dtype);
    add(row, "%lld panel%s of %.60s, %lld time%s", (long long)plan.panels, plural(plan.panels, "s"),
        (is_left ? args->A : args->B)->label, (long long)rounds, plural(rounds, "s"));
}

/* A composite by its parts: what they take, and that nothing else is made. */
static void plan_parts(gx_run *run, const gx_mat *A, const gx_parts_cost *parts, int64_t rows,
                       int64_t cols, gx_number dtype, plan_row *row)
{
    row->cost = (gx_cost){.flops = parts->flops,
                          .bytes_read = parts->bytes + bytes_of((double)rows, (double)cols, dtype),
                          .bytes_written = bytes_of((double)rows, (double)cols, dtype),
                          .calls = 1};
    add_cost(run, &row->cost, dtype, 1024, row);
    tell(row, "parts", 0, 0);
    add_shape(row, rows, cols, dtype);
    add(row, "%s of %.40s (%s); no other of its %lld x %lld elements is made", parts->way, A->label,
        parts->detail, (long long)A->rows, (long long)A->cols);
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
    gx_parts_cost parts;
    bool is_left = gx_parts_foresee_product(args.A, n, &parts);
    if (is_left || gx_parts_foresee_product(args.B, m, &parts)) {
        plan_parts(run, is_left ? args.A : args.B, &parts, m, n, dtype, row);
        return;
    }
    if (imagine_sink(run, m, n, dtype, &sink) != GX_OK ||
        (run->target == NULL && plan_narrow(run, &args, &sink, row))) {
        return;
    }
    gx_matmul_plan plan;
    gx_plan_matmul(run, &args, sink.tile_rows, sink.tile_cols, &plan);
    cost_program(run, gx_matmul_program(run, &args, &plan, &sink), row);
    tell(row, plan.is_hermitian ? "herk" : plan.is_syrk ? "syrk" : "gemm", 0, 0);
    snprintf(row->block, sizeof row->block, "%lld x %lld x %lld", (long long)plan.block_m,
             (long long)plan.block_n, (long long)plan.block_k);
    add_shape(row, m, n, dtype);
    add(row, "%lld x %lld blocks of the result in memory, k %s", (long long)plan.super_m,
        (long long)plan.super_n, plan.is_snake ? "back and forth" : "ascending");
}

/* One pass over the operands, block by block. */
static void plan_pass(gx_run *run, expression *e, plan_row *row)
{
    const gx_mat *A = &e->a.mat, *B = e->rule->matrices > 1 ? &e->b.mat : NULL;
    const char *driver = e->rule->driver;
    bool is_turned = strcmp(driver, "transpose") == 0, is_norm = strcmp(driver, "norm") == 0;
    bool is_reduction = is_norm || strcmp(driver, "sum") == 0;
    gx_sink sink;
    gx_number dtype = B == NULL ? A->number : gx_number_promote(A->number, B->number);
    int64_t rows = is_turned ? A->cols : A->rows, cols = is_turned ? A->rows : A->cols;
    if (imagine_sink(run, rows, cols, dtype, &sink) != GX_OK) {
        return;
    }
    int64_t tile_rows = is_reduction ? A->tile_rows : sink.tile_rows;
    int64_t tile_cols = is_reduction ? A->tile_cols : sink.tile_cols;
    gx_cost *cost = &row->cost;
    cost->bytes_read = cost->bytes_up = stored_bytes(A) + (B == NULL ? 0 : stored_bytes(B));
    cost->bytes_written = cost->bytes_down =
        is_reduction ? 0 : bytes_of((double)rows, (double)cols, dtype);
    cost->flops = is_turned ? 0 : (double)A->rows * (double)A->cols * (is_norm ? 2 : 1);
    cost->calls = gx_ceil_div(rows, gx_max(1, tile_rows)) * gx_ceil_div(cols, gx_max(1, tile_cols));
    add_cost(run, cost, dtype, 1024, row);
    tell(row, driver, tile_rows, tile_cols);
    add_shape(row, rows, cols, dtype);
    add(row, "one pass");
}

// Factorisations ----------------------------------------------------------------------------------

static bool is_square(gx_run *run, const gx_mat *A, const char *advice)
{
    if (A->rows == A->cols) {
        return true;
    }
    gx_run_failf(run, GX_ARG, "%s is %lldx%lld, not square%s", A->label, (long long)A->rows,
                 (long long)A->cols, advice);
    return false;
}

/* The factor of a solve stays in memory where it fits; else it goes to temp. */
static bool is_held(gx_run *run, const gx_mat *A, gx_number dtype)
{
    double bytes = bytes_of((double)A->rows, (double)A->cols, dtype);
    return 2 * bytes < (double)gx_mem_available(run->ctx->mem);
}

static void factor_cholesky(gx_run *run, const gx_mat *A, gx_number dtype, bool is_stored,
                            plan_row *row)
{
    gx_mat converted;
    gx_mat_view(&converted, A, GX_NO_TRANS, 0, 0, A->rows, A->cols);
    converted.number = dtype;
    gx_sink sink;
    if (!is_square(run, A, "") || imagine_sink(run, A->rows, A->cols, dtype, &sink) != GX_OK) {
        return;
    }
    sink.is_stored = is_stored;
    gx_cholesky_plan plan;
    gx_plan_cholesky(run, &converted, GX_LOWER, gx_max(1, sink.tile_rows), &plan);
    cost_program(run, gx_ok(run) ? gx_cholesky_program(run, &converted, &plan, &sink) : NULL, row);
    tell(row, "cholesky", plan.block, plan.block);
    add_shape(row, A->rows, A->cols, dtype);
    add(row, "%s",
        plan.is_in_memory ? "all in memory"
        : plan.is_panel   ? "panel-left, from the database"
                          : "block-left, from the database");
}

static void factor_lu(gx_run *run, const gx_mat *A, gx_number dtype, bool is_stored, plan_row *row)
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
                    .is_stored = is_stored};
    if (gx_ok(run) &&
        gx_aux_create(mem, GX_AUX_LU, A->rows, A->cols, dtype, plan.panel, &aux, &err) == GX_OK &&
        gx_mem_alloc(mem, (size_t)A->cols * sizeof(double), "sums of columns", &sums, &err) ==
            GX_OK) {
        cost_program(run, gx_lu_program(run, A, &plan, &sink, &aux, sums), row);
    }
    gx_run_fail(run, &err);
    gx_mem_free(mem, sums);
    gx_aux_clear(&aux, mem);
    tell(row, "lu", A->rows, plan.panel);
    add_shape(row, A->rows, A->cols, dtype);
    add(row, "%s, partial pivoting",
        plan.is_in_memory ? "all in memory" : "panel-left, from the database");
}

static void plan_qr(gx_run *run, expression *e, plan_row *row)
{
    const gx_mat *A = &e->a.mat;
    gx_panel_plan plan;
    int64_t k = gx_min(A->rows, A->cols);
    void *tau = NULL;
    gx_plan_panels(run, A->rows, A->cols, k, A->number, 0, &plan);
    gx_sink sink = {.run = run,
                    .rows = A->rows,
                    .cols = A->cols,
                    .number = A->number,
                    .tile_rows = gx_max(1, A->rows),
                    .tile_cols = plan.width,
                    .is_stored = true};
    if (gx_ok(run) && k > 0 &&
        gx_dense_alloc(run, A->number, k, 1, "scalars of reflectors", &tau) == GX_OK) {
        cost_program(run, gx_qr_program(run, A, &plan, &sink, tau), row);
    }
    gx_mem_free(run->ctx->mem, tau);
    tell(row, "qr", A->rows, plan.width);
    add_shape(row, A->rows, A->cols, A->number);
    add(row, "Householder panels, %lld at a time", (long long)plan.group);
}

static void plan_cholesky(gx_run *run, expression *e, plan_row *row)
{
    factor_cholesky(run, &e->a.mat, e->a.mat.number, true, row);
}

static void plan_lu(gx_run *run, expression *e, plan_row *row)
{
    factor_lu(run, &e->a.mat, e->a.mat.number, true, row);
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

/* "A is positive definite: " in front of what the factorisation is. */
static void say_why(const char *why, int64_t cols, plan_row *row)
{
    char kept[sizeof row->detail];
    memcpy(kept, row->detail, sizeof kept);
    snprintf(row->detail, sizeof row->detail, "%.40s: %.70s%slines of B: %lld", why, kept,
             kept[0] == '\0' ? "" : "; ", (long long)cols);
}

static void solve(gx_run *run, const gx_mat *A, int64_t cols, gx_number dtype, plan_row *row)
{
    static const char *const drivers[] = {[GX_FACTOR_DIAGONAL] = "diagonal",
                                          [GX_FACTOR_LOWER] = "substitution",
                                          [GX_FACTOR_UPPER] = "substitution",
                                          [GX_FACTOR_CHOLESKY] = "cholesky",
                                          [GX_FACTOR_LU] = "lu"};
    const char *why;
    gx_parts_cost parts;
    if (gx_parts_foresee_solve(run, A, cols, &parts)) {
        plan_parts(run, A, &parts, A->rows, cols, dtype, row);
        return;
    }
    gx_factor_kind kind = gx_factor_choose(A, &why);
    bool is_factored = kind == GX_FACTOR_CHOLESKY || kind == GX_FACTOR_LU;
    if (is_factored) {
        bool is_stored = !is_held(run, A, dtype);
        (kind == GX_FACTOR_LU ? factor_lu : factor_cholesky)(run, A, dtype, is_stored, row);
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

static void plan_solve(gx_run *run, expression *e, plan_row *row)
{
    int64_t n, cols;
    gx_number dtype;
    gx_err err = {0};
    gx_solve_args args = {.A = &e->a.mat, .B = &e->b.mat};
    if (gx_solve_shape(&args, &n, &cols, &dtype, &err) == GX_OK) {
        solve(run, args.A, cols, dtype, row);
    }
    gx_run_fail(run, &err);
}

static void plan_inverse(gx_run *run, expression *e, plan_row *row)
{
    const gx_mat *A = &e->a.mat;
    if (is_square(run, A, ": gx_pinv inverts any shape")) {
        solve(run, A, A->cols, A->number, row);
    }
}

/* An LU whose factor nobody keeps. */
static void plan_det(gx_run *run, expression *e, plan_row *row)
{
    const gx_mat *A = &e->a.mat;
    gx_parts_cost parts;
    if (!is_square(run, A, "")) {
        return;
    }
    if (gx_parts_foresee_solve(run, A, 0, &parts)) {
        plan_parts(run, A, &parts, 1, 1, A->number, row);
    } else {
        factor_lu(run, A, A->number, !is_held(run, A, A->number), row);
    }
}

static void plan_lstsq(gx_run *run, expression *e, plan_row *row)
{
    const gx_mat *A = &e->a.mat, *B = &e->b.mat;
    int64_t n, p;
    gx_number dtype;
    gx_err err = {0};
    gx_tsqr_plan tsqr;
    if (gx_lstsq_shape(&(gx_lstsq_args){.A = A, .B = B}, &n, &p, &dtype, &err) != GX_OK) {
        gx_run_fail(run, &err);
        return;
    }
    gx_plan_tsqr(run, A->rows, n, p, dtype, &tsqr);
    if (!tsqr.is_possible) {
        plan_qr(run, e, row);
        row->cost.bytes_read += bytes_of((double)A->rows, (double)p, dtype);
        say_why("R does not fit in memory beside A's rows", p, row);
        return;
    }
    gx_tsqr_foresee(run, A, B, dtype, stored_bytes(A) + stored_bytes(B), &tsqr, &row->cost,
                    &row->terms);
    row->cost.bytes_written = bytes_of((double)n, (double)p, dtype);
    tell(row, "tsqr", tsqr.height, n);
    say_why("one pass over A with R in memory", p, row);
}

// Spectra and statistics --------------------------------------------------------------------------

/* Eigenvalues or singular values, all of them or k: `written` bytes of results. */
static void show_spectrum(gx_run *run, const gx_mat *A, const gx_spectrum_plan *plan,
                          double written, plan_row *row)
{
    if (!gx_ok(run) || plan->driver == NULL) { // not on this device: there is no such row
        return;
    }
    const gx_oper_plan *oper = &plan->oper;
    double all = oper->once + oper->each;
    row->cost = plan->cost;
    row->cost.bytes_written = written;
    row->is_chosen = plan->is_faster;
    add_cost(run, &row->cost, A->number, 1024, row);
    tell(row, plan->driver, A->cols, plan->block > 0 ? plan->block : A->rows);
    if (plan->block > 0) {
        add(row, "a basis of %lld, %lld passes %s, %.0f bytes each, %.0f %% of A in memory",
            (long long)plan->ncv, (long long)plan->passes, plan->how, oper->each,
            all > 0 ? 100 * oper->once / all : 100);
    } else {
        add(row, "%s",
            plan->passes == 2 ? "a QR by panels of rows, then a pass for the vectors"
                              : "all of A in memory, one pass");
    }
}

static void plan_svd(gx_run *run, expression *e, plan_row *row)
{
    const gx_mat *A = &e->a.mat;
    gx_spectrum_plan plan;
    double count = (double)(e->svd.k > 0 ? e->svd.k : gx_min(A->rows, A->cols));
    gx_plan_svd(run, &e->svd, &plan);
    show_spectrum(run, A, &plan, bytes_of((double)A->rows + (double)A->cols, count, A->number),
                  row);
}

static void plan_eig(gx_run *run, expression *e, plan_row *row)
{
    const gx_mat *A = &e->a.mat;
    gx_spectrum_plan plan;
    double count = (double)(e->eig.k > 0 ? e->eig.k : A->rows);
    gx_plan_eig(run, &e->eig, &plan);
    show_spectrum(run, A, &plan, bytes_of((double)A->rows + 1, count, A->number), row);
}

/* Covariance, correlation, components: passes over A, and a little that is small. */
static void show_columns(gx_run *run, const gx_mat *A, const gx_spectrum_plan *plan, double lines,
                         plan_row *row)
{
    if (!gx_ok(run)) {
        return;
    }
    row->cost = plan->cost;
    row->terms = plan->terms;
    row->cost.bytes_written = bytes_of((double)A->cols, lines, A->number);
    tell(row, plan->driver, plan->block > 0 ? plan->block : A->tile_rows, A->cols);
    add_shape(row, A->rows, A->cols, A->number);
    add(row, "%lld pass%s over %.40s", (long long)plan->passes, plural(plan->passes, "es"),
        A->label);
}

static void plan_cov(gx_run *run, expression *e, plan_row *row)
{
    const gx_mat *A = &e->a.mat;
    gx_spectrum_plan plan = {0};
    gx_sink C;
    gx_cov_args args = {.A = A, .ddof = 1};
    args.is_correlation = strcmp(e->rule->word, "corr") == 0;
    if (imagine_sink(run, A->cols, A->cols, A->number, &C) == GX_OK) {
        gx_plan_cov(run, &args, &C, &plan);
    }
    show_columns(run, A, &plan, (double)A->cols, row);
}

static void plan_pca(gx_run *run, expression *e, plan_row *row)
{
    const gx_mat *A = &e->a.mat;
    gx_spectrum_plan plan = {0};
    gx_plan_pca(run, &(gx_pca_args){.A = A, .k = e->k}, &plan);
    show_columns(run, A, &plan, 2 + (double)(e->k > 0 ? e->k : gx_min(A->rows, A->cols)), row);
}

static void plan_topk(gx_run *run, expression *e, plan_row *row)
{
    const gx_mat *A = &e->a.mat;
    gx_topk_predict(run, A, e->k, &row->cost, &row->terms);
    tell(row, "topk", A->tile_rows, A->tile_cols);
    add_shape(row, A->rows, A->cols, A->number);
    add(row, "one pass over %.40s", A->label);
}

static void plan_knn(gx_run *run, expression *e, plan_row *row)
{
    gx_knn_args args = {.Q = &e->a.mat, .E = &e->b.mat, .metric = GX_METRIC_COSINE, .k = e->k};
    gx_knn_plan plan = {0};
    args.last = args.Q->rows;
    gx_knn_foresee(run, &args, &plan, &row->cost, &row->terms);
    tell(row, plan.is_few ? "pairs" : "gemm", plan.strip, args.E->cols);
    if (plan.is_mutual) {
        add(row, "each pair of rows of %.60s once", e->b.name);
    } else {
        add(row, "%lld queries at a time, %lld pass%s over %.60s", (long long)plan.batch,
            (long long)plan.batches, plural(plan.batches, "es"), e->b.name);
    }
}

// All of them -------------------------------------------------------------------------------------

const plan_rule *gx_plan_rule(const char *word)
{
    static const plan_rule rules[] = {
        {"matmul", "gx_matmul", NULL, 2, NO_COUNT, true, true, NULL, plan_product},
        {"add", "gx_add", "map", 2, NO_COUNT, true, true, NULL, plan_pass},
        {"sub", "gx_add", "map", 2, NO_COUNT, true, true, NULL, plan_pass},
        {"mul", "gx_add", "map", 2, NO_COUNT, true, true, NULL, plan_pass},
        {"div", "gx_add", "map", 2, NO_COUNT, true, true, NULL, plan_pass},
        {"transpose", "gx_transpose", "transpose", 1, NO_COUNT, true, true, NULL, plan_pass},
        {"adjoint", "gx_transpose", "transpose", 1, NO_COUNT, true, true, NULL, plan_pass},
        {"norm", "gx_norm", "norm", 1, NO_COUNT, true, false, NULL, plan_pass},
        {"sum", "gx_sum", "sum", 1, NO_COUNT, true, false, NULL, plan_pass},
        {"cholesky", "gx_cholesky", NULL, 1, NO_COUNT, false, true, NULL, plan_cholesky},
        {"lu", "gx_lu", NULL, 1, NO_COUNT, false, true, NULL, plan_lu},
        {"qr", "gx_qr", NULL, 1, NO_COUNT, false, true, NULL, plan_qr},
        {"solve", "gx_solve", NULL, 2, NO_COUNT, false, true, NULL, plan_solve},
        {"lstsq", "gx_lstsq", NULL, 2, NO_COUNT, false, false, NULL, plan_lstsq},
        {"inverse", "gx_inverse", NULL, 1, NO_COUNT, false, true, NULL, plan_inverse},
        {"det", "gx_det", NULL, 1, NO_COUNT, false, true, NULL, plan_det},
        {"svd", "gx_svd", NULL, 1, MAY_COUNT, false, true, gx_svd_table_keys, plan_svd},
        {"eig", "gx_eig", NULL, 1, MAY_COUNT, false, true, gx_eig_table_keys, plan_eig},
        {"cov", "gx_cov", NULL, 1, NO_COUNT, false, false, NULL, plan_cov},
        {"corr", "gx_corr", NULL, 1, NO_COUNT, false, false, NULL, plan_cov},
        {"pca", "gx_pca", NULL, 1, MAY_COUNT, false, false, NULL, plan_pca},
        {"topk", "gx_topk", NULL, 1, MUST_COUNT, false, false, NULL, plan_topk},
        {"knn", "gx_knn", NULL, 2, MUST_COUNT, false, true, NULL, plan_knn},
    };
    for (size_t k = 0; k < sizeof rules / sizeof rules[0]; k++) {
        if (strcmp(rules[k].word, word) == 0) {
            return &rules[k];
        }
    }
    return NULL;
}

int gx_plan_expression(gx_run *run, expression *e, plan_row row[2])
{
    size_t bytes = 0;
    run->planned_as = e->rule->function;
    describe_device(run, &row[0]);
    e->rule->plan(run, e, &row[0]);
    gx_accel *accel = e->rule->may_leave_host ? gx_place_look(run, &bytes) : NULL;
    if (accel == NULL || !gx_ok(run)) {
        row[0].is_chosen = true;
        return 1;
    }
    run->planned_as = e->rule->function;
    run->target = accel;
    run->target_bytes = bytes;
    describe_device(run, &row[1]);
    e->rule->plan(run, e, &row[1]);
    run->target = NULL;
    bool is_faster = e->rule->options != NULL // spectra have said it themselves
                         ? row[1].is_chosen
                         : gx_place_is_faster(row[0].cost.flops, &row[0].terms, &row[1].terms);
    bool has_room = row[1].terms.seconds > 0;
    bool is_forced = run->ctx->config.number[GX_SET_BACKEND] == GX_BACKEND_CUDA;
    is_faster = has_room && (is_faster || is_forced);
    row[0].is_chosen = !is_faster;
    row[1].is_chosen = is_faster;
    if (is_faster) {
        plan_row host = row[0];
        row[0] = row[1];
        row[1] = host;
    }
    return has_room ? 2 : 1;
}
