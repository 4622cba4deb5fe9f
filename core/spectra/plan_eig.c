/*
** What gx_eig would do: the driver, passes over A, bytes read, flops.
**
** The choices are those of alg_eig.c and krylov_eig.c, asked of the same functions, with the memory
** there is.  The dense driver reads A once.  What the Krylov driver reads of A in a pass is known:
** columns that stay in memory are read once, the others in every pass (krylov_oper.c), of a
** Hermitian matrix those below the diagonal alone.  How many passes it takes depends on the
** eigenvalues, which nobody knows: foretold are those for a random matrix's (krylov_rehearsal.c).
*/
#include "../alg/dense.h"
#include "../alg/dense_device.h"
#include "krylov_eig.h"
#include "plan_spectrum.h"

void gx_plan_passes(gx_run *run, const gx_mat *A, gx_spectrum_plan *plan)
{
    const double HALF = 0.5; // of a basis, on average
    const gx_profile *profile = gx_profile_get(run->ctx);
    int threads = (int)run->ctx->config.number[GX_SET_THREADS];
    double passes = (double)plan->told.passes, m = (double)A->rows, n = (double)A->cols;
    double element = (double)gx_dtype_bytes(A->dtype), unit = gx_dtype_is_complex(A->dtype) ? 4 : 1;
    // Gram-Schmidt twice of each block: four sweeps over the basis on the vectors' side.
    double basis = (m + n) / 2 * (double)plan->ncv * HALF;
    double flops = unit * (2 * m * n + 8 * basis) * (double)plan->block;
    double sweep_s =
        4 * basis * element / gx_profile_sweep_rate(profile, threads) + plan->oper.pass_s;
    double flops_s = flops / gx_profile_flops(profile, A->dtype, 1024, threads);
    bool is_host = run->target == NULL;
    plan->cost = (gx_cost){
        .flops = flops * passes,
        .bytes_read = plan->oper.once + plan->oper.each * passes,
        .bytes_up = plan->oper.up,
        .calls = plan->told.passes,
        .compute_s = (is_host && flops_s > sweep_s ? flops_s : sweep_s) * passes,
    };
    plan->is_faster = !is_host && plan->oper.is_faster;
}

void gx_plan_dense(gx_run *run, const gx_mat *A, gx_kernel_id kernel, const gx_args *call,
                   gx_spectrum_plan *plan)
{
    size_t bytes = 0;
    gx_matrix_bytes(A->rows, A->cols, A->dtype, &bytes);
    plan->told = (gx_foretold){1, "over A"};
    plan->cost = (gx_cost){
        .flops = gx_kernel_flops(kernel, A->dtype, call),
        .bytes_read = (double)bytes,
        .calls = 1,
        .compute_s = gx_dense_spectrum_seconds(run, kernel, A->dtype, call, &plan->is_faster),
    };
    if (run->target != NULL && plan->cost.compute_s == 0) {
        plan->driver = NULL;
    }
}

static void plan_krylov(gx_run *run, const gx_eig_args *args, gx_spectrum_plan *plan)
{
    const gx_mat *A = args->A;
    if (args->B != NULL || args->which == GX_EIG_NEAREST ||
        args->which == GX_EIG_SMALLEST_MAGNITUDE) {
        gx_run_failf(run, GX_UNSUPPORTED,
                     "eigenvalues near a number, and those of a pair of matrices, are not planned: "
                     "they take a factorisation first, see gx_plan('lu(A)')");
        return;
    }
    gx_krylov_sizes sizes;
    gx_krylov_eig_sizes(args, &sizes);
    size_t needed = gx_krylov_eig_bytes(args);
    if (gx_dense_fits(run, needed, "eigenvalues with such a basis", A,
                      "ask for fewer, or raise it with gx_config('memory_limit', ...)") != GX_OK ||
        gx_foretell_eig(run, args, &plan->told) != GX_OK) {
        return;
    }
    size_t keep = needed - gx_oper_floor_bytes(A, A->dtype);
    gx_oper_foresee(run, A, A->dtype, args->is_hermitian, keep, sizes.block, &plan->oper);
    bool is_possible = run->target == NULL || plan->oper.up > 0;
    const char *driver = args->is_hermitian ? "lanczos" : "krylov-schur";
    plan->driver = is_possible ? driver : NULL;
    plan->ncv = sizes.ncv;
    plan->block = sizes.block;
    gx_plan_passes(run, A, plan);
}

static void plan_dense(gx_run *run, const gx_eig_args *args, gx_spectrum_plan *plan)
{
    const gx_mat *A = args->A;
    gx_args call = {.m = A->rows,
                    .n = A->rows,
                    .ldc = gx_max(1, A->rows),
                    .wants_right = args->wants_right,
                    .wants_left = args->wants_left && !args->is_hermitian};
    if (gx_dense_fits(run, gx_eig_dense_bytes(run, args), "all eigenvalues", A,
                      "ask for k of them") == GX_OK) {
        plan->driver = args->is_hermitian ? "syevd" : "geev";
        gx_plan_dense(run, A, args->is_hermitian ? GX_SYEV : GX_GEEV, &call, plan);
    }
}

gx_code gx_plan_eig(gx_run *run, const gx_eig_args *asked, gx_spectrum_plan *plan)
{
    gx_eig_args args = *asked;
    *plan = (gx_spectrum_plan){0};
    if (gx_eig_prepare(run, &args) != GX_OK) {
        return run->err.code;
    }
    if (gx_eig_wants_krylov(run, &args)) {
        plan_krylov(run, &args, plan);
    } else {
        plan_dense(run, &args, plan);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}
