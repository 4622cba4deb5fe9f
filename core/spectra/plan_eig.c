/*
** What gx_eig would do: the driver, passes over A, bytes read, flops.
**
** The choices are those of alg_eig.c and krylov_eig.c, asked of the same functions, with the memory
** there is.  The dense driver reads A once.  What the Krylov driver reads of A in a pass is known:
** columns that stay in memory are read once, the others in every pass (krylov_oper.c), of a
** Hermitian matrix those below the diagonal alone.  How many passes it takes is foretold
** (plan_passes.c).
*/
#include "../alg/dense.h"
#include "../alg/dense_device.h"
#include "krylov_eig.h"
#include "plan_spectrum_int.h"

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
                      "ask for fewer, or raise it with gx_config('memory_limit', ...)") != GX_OK) {
        return;
    }
    bool has_ends = args->which == GX_EIG_LARGEST_MAGNITUDE;
    gx_search search = {.shape = !args->is_hermitian ? GX_SEARCH_DISC
                                 : has_ends          ? GX_SEARCH_ENDS
                                                     : GX_SEARCH_END,
                        .n = A->rows,
                        .k = args->k,
                        .ncv = sizes.ncv,
                        .block = sizes.block,
                        .maxiter = sizes.maxiter,
                        .tol = sizes.tol};
    search.kept = gx_krylov_eig_kept(args->k, sizes.ncv, sizes.ncv, sizes.block);
    plan->told = gx_foretell_passes(run, gx_eig_search_key(args), &search);
    size_t keep = needed - gx_oper_floor_bytes(A, A->number);
    gx_oper_foresee(run, A, A->number, args->is_hermitian, keep, sizes.block, &plan->oper);
    bool is_possible = run->target == NULL || plan->oper.up > 0;
    const char *driver = args->is_hermitian ? "lanczos" : "krylov-schur";
    plan->driver = is_possible ? driver : NULL;
    plan->ncv = sizes.ncv;
    plan->block = sizes.block;
    gx_plan_passes(run, A, !args->is_hermitian, plan);
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
