/*
** What gx_eig would do: the driver, passes over A, bytes read, flops.
**
** The choices are those of alg_eig.c and krylov_eig.c, asked of the same functions, with the memory
** there is.  The dense driver reads A once.  What the Krylov driver reads of A in a pass is known:
** columns that stay in memory are read once, the others in every pass (krylov_oper.c), of a
** Hermitian matrix those below the diagonal alone.  How many passes it takes depends on the
** eigenvalues: foretold are those up to the first restart, and the look for missed copies, which is
** what values take that fall; close ones take more.
*/
#include "alg_eig.h"
#include "dense.h"
#include "krylov.h"
#include "krylov_eig.h"

static double unit_of(gx_dtype dtype)
{
    return gx_dtype_is_complex(dtype) ? 4 : 1;
}

static void plan_krylov(gx_run *run, const gx_eig_args *args, gx_eig_plan *plan)
{
    const gx_mat *A = args->A;
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
    int64_t first = gx_ceil_div(sizes.ncv, sizes.block);
    int64_t check = gx_min(GX_KRYLOV_CHECK_STEPS, gx_ceil_div(sizes.ncv - args->k, sizes.block));
    double ncv = (double)sizes.ncv, b = (double)sizes.block;
    bool is_filtered = gx_krylov_eig_is_filtered(args); // one pass a step without the filter
    plan->driver = is_filtered ? "chebyshev" : args->is_hermitian ? "lanczos" : "krylov-schur";
    plan->passes = first + check;
    plan->ncv = sizes.ncv;
    plan->block = sizes.block;
    plan->bytes_once = once;
    plan->bytes_pass = each;
    plan->bytes_read = once + each * (double)plan->passes;
    plan->resident = once + each > 0 ? once / (once + each) : 1;
    // Products, and Gram-Schmidt twice of each block against half a basis.
    plan->flops_pass = unit_of(A->dtype) * (2 * n * n * b + 4 * n * ncv * b);
    plan->flops = plan->flops_pass * (double)plan->passes;
}

gx_code gx_plan_eig(gx_run *run, const gx_eig_args *asked, gx_eig_plan *plan)
{
    gx_eig_args args = *asked;
    size_t bytes = 0;
    *plan = (gx_eig_plan){.passes = 1, .resident = 1};
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
