/*
** What gx_eig would do: the driver, passes over A, bytes read, flops.
**
** The choices are those of alg_eig.c and krylov_eig.c, asked of the same functions, with the memory
** there is.  The dense driver reads A once.  What the Krylov driver reads of A in a pass is known:
** columns that stay in memory are read once, the others in every pass (krylov_oper.c), of a
** Hermitian matrix those below the diagonal alone.  How many passes it takes depends on the
** eigenvalues, which nobody knows: foretold are those for a random matrix's (krylov_rehearsal.c).
*/
#include "alg_eig.h"
#include "dense.h"
#include "krylov.h"
#include "krylov_eig.h"
#include "krylov_rehearsal.h"

static double unit_of(gx_dtype dtype)
{
    return gx_dtype_is_complex(dtype) ? 4 : 1;
}

static void plan_krylov(gx_run *run, const gx_eig_args *args, gx_eig_plan *plan)
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
    size_t keep = needed - gx_oper_floor_bytes(A, A->dtype);
    double once = 0, each = 0, n = (double)A->rows;
    gx_oper_foresee(run, A, A->dtype, args->is_hermitian, keep, &once, &each);
    double ncv = (double)sizes.ncv, b = (double)sizes.block;
    bool is_filtered = gx_krylov_eig_is_filtered(args);
    if (gx_foretell_eig(run, args, &plan->told) != GX_OK) {
        return;
    }
    plan->driver = is_filtered ? "chebyshev" : args->is_hermitian ? "lanczos" : "krylov-schur";
    plan->ncv = sizes.ncv;
    plan->block = sizes.block;
    plan->bytes_once = once;
    plan->bytes_pass = each;
    plan->bytes_read = once + each * (double)plan->told.passes;
    plan->resident = once + each > 0 ? once / (once + each) : 1;
    // Products, and Gram-Schmidt twice of each block against half a basis.
    double passes = (double)plan->told.passes, element = (double)gx_dtype_bytes(A->dtype);
    plan->flops = unit_of(A->dtype) * (2 * n * n * b + 4 * n * ncv * b) * passes;
    plan->bytes_swept = (n * n * (args->is_hermitian ? 0.5 : 1) + 2 * n * ncv) * element * passes;
}

gx_code gx_plan_eig(gx_run *run, const gx_eig_args *asked, gx_eig_plan *plan)
{
    gx_eig_args args = *asked;
    size_t bytes = 0;
    *plan = (gx_eig_plan){.told = {.passes = 1}, .resident = 1};
    if (gx_eig_prepare(run, &args) != GX_OK) {
        return run->err.code;
    }
    double n = (double)args.A->rows;
    if (gx_eig_wants_krylov(run, &args)) {
        plan_krylov(run, &args, plan);
    } else if (gx_dense_fits(run, gx_eig_dense_bytes(run, &args), "all eigenvalues", args.A,
                             "ask for k of them") == GX_OK) {
        gx_matrix_bytes(args.A->rows, args.A->cols, args.A->dtype, &bytes);
        plan->driver = args.is_hermitian ? "syevd" : "geev";
        plan->bytes_once = plan->bytes_read = (double)bytes;
        plan->flops = unit_of(args.A->dtype) * (args.is_hermitian ? 9 : 25) * n * n * n;
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}
