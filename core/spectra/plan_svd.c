/*
** What gx_svd would do: the driver, passes over A, bytes read, flops.
**
** The choices are those of alg_svd.c and krylov_triplets.c, asked of the same functions, with the
** memory there is.  The dense driver reads A once.  How many passes the Krylov driver takes is
** foretold (plan_passes.c).  Columns of A that stay in memory are read once, the others in every
** pass (krylov_oper.c).  The randomized driver's passes are fixed.
*/
#include "krylov_svd.h"
#include "plan_spectrum_int.h"

static void plan_iterative(gx_run *run, const gx_svd_args *asked, gx_spectrum_plan *plan)
{
    const gx_mat *A = asked->A;
    gx_svd_args args = *asked;
    gx_svd_sizes sizes;
    bool is_random = args.method == GX_SVD_RANDOMIZED;
    args.method = is_random ? GX_SVD_RANDOMIZED : GX_SVD_KRYLOV;
    if (gx_svd_check_sizes(run, &args, 0) != GX_OK) {
        return;
    }
    gx_svd_choose_sizes(&args, &sizes);
    plan->told = (gx_foretold){2 * sizes.power + 2, "whatever its spectrum"};
    if (!is_random) {
        int64_t least = gx_min(A->rows, A->cols), most = gx_max(A->rows, A->cols);
        gx_search search = {.shape = GX_SEARCH_SIGMA,
                            .n = least,
                            .k = args.k,
                            .ratio = (double)least / (double)most,
                            .ncv = sizes.ncv,
                            .block = sizes.block,
                            .maxiter = sizes.maxiter,
                            .tol = sizes.tol};
        search.kept = gx_svd_kept(args.k + 1, sizes.ncv, sizes.ncv, sizes.block);
        plan->told = gx_foretell_passes(run, gx_svd_search_key(&args), &search);
    }
    bool is_hermitian = A->rows == A->cols && (A->properties & GX_PROP_HERMITIAN) != 0;
    plan->ncv = is_random ? sizes.width : sizes.ncv;
    plan->block = is_random ? sizes.width : sizes.block;
    gx_oper_foresee(run, A, A->number, is_hermitian, gx_svd_work_bytes(run, &args), plan->block,
                    &plan->oper);
    bool is_possible = run->target == NULL || plan->oper.up > 0;
    const char *driver = is_random ? "randomized" : "golub-kahan";
    plan->driver = is_possible ? driver : NULL;
    gx_plan_passes(run, A, false, plan);
}

static void plan_dense(gx_run *run, const gx_svd_args *args, gx_spectrum_plan *plan)
{
    const gx_mat *A = args->A;
    bool has_vectors = args->mode != GX_SVD_VALUES;
    gx_args call = {.m = A->rows,
                    .n = A->cols,
                    .ldc = gx_max(1, A->rows),
                    .wants_left = has_vectors,
                    .wants_right = has_vectors,
                    .is_full = args->mode == GX_SVD_FULL};
    if (gx_svd_refuse_dense(run, args) == GX_OK) {
        plan->driver = "gesdd";
        gx_plan_dense(run, A, GX_GESDD, &call, plan);
    }
}

/* A QR by panels, and a pass for the long side's vectors. */
static void plan_short(gx_run *run, const gx_svd_args *args, gx_spectrum_plan *plan)
{
    const gx_mat *A = args->A;
    double m = (double)gx_max(A->rows, A->cols), l = (double)gx_min(A->rows, A->cols);
    gx_args call = {.m = A->rows, .n = A->cols, .ldc = gx_max(1, A->rows)};
    gx_plan_dense(run, A, GX_GESDD, &call, plan);
    plan->driver = run->target == NULL ? "tsqr" : NULL;
    plan->told = (gx_foretold){2, "whatever its spectrum"};
    plan->cost.flops = (gx_number_is_complex(A->number) ? 4 : 1) *
                       (2 * m * l * l + 22 * l * l * l + 2 * m * l * (double)args->k);
    plan->cost.bytes_read *= 2;
    plan->cost.bytes_up *= 2;
}

gx_code gx_plan_svd(gx_run *run, const gx_svd_args *args, gx_spectrum_plan *plan)
{
    *plan = (gx_spectrum_plan){0};
    if (gx_svd_check(run, args) != GX_OK) {
        return run->err.code;
    }
    gx_svd_method method = gx_svd_choose_method(run, args);
    if (gx_svd_short_is_due(run, args)) {
        plan_short(run, args, plan);
    } else if (method == GX_SVD_DENSE) {
        plan_dense(run, args, plan);
    } else if (args->k > 0 && args->is_smallest) {
        gx_run_failf(run, GX_UNSUPPORTED,
                     "the smallest singular values of a matrix that is not for the dense driver "
                     "are not planned: they take the inverse's passes");
    } else if (gx_svd_check_iterative(run, args) == GX_OK) {
        plan_iterative(run, args, plan);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}
