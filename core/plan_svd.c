/*
** What gx_svd would do: the driver, passes over A, bytes read, flops.
**
** The choices are those of alg_svd.c and krylov_triplets.c, asked of the same functions, with the
** memory there is.  The dense driver reads A once.  How many passes the Krylov driver takes depends
** on the singular values, which nobody knows: foretold are those for a random matrix's
** (krylov_rehearsal.c).  Columns of A that stay in memory are read once, the others in every pass
** (krylov_oper.c).  The randomized driver's passes are fixed.
*/
#include "alg_eig.h"
#include "dense.h"
#include "krylov_rehearsal.h"
#include "krylov_svd.h"

static double unit_of(gx_dtype dtype)
{
    return gx_dtype_is_complex(dtype) ? 4 : 1;
}

/* Golub & Van Loan 2013, 8.6: values alone, and with both sides of vectors. */
static double dense_flops(double most, double least, bool has_vectors)
{
    double values = 4 * most * least * least - 4.0 / 3 * least * least * least;
    return has_vectors ? 6 * most * least * least + 20 * least * least * least : values;
}

static void plan_iterative(gx_run *run, const gx_svd_args *asked, gx_svd_plan *plan)
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
    bool is_hermitian = A->rows == A->cols && (A->properties & GX_PROP_HERMITIAN) != 0;
    double once = 0, each = 0, m = (double)A->rows, n = (double)A->cols;
    gx_oper_foresee(run, A, A->dtype, is_hermitian, gx_svd_work_bytes(run, &args), &once, &each);
    plan->driver = is_random ? "randomized" : "golub-kahan";
    plan->ncv = is_random ? sizes.width : sizes.ncv;
    plan->block = is_random ? sizes.width : sizes.block;
    plan->told = (gx_foretold){2 * sizes.power + 2, "whatever its spectrum"};
    if (!is_random && gx_foretell_svd(run, &args, &plan->told) != GX_OK) {
        return;
    }
    plan->bytes_read = once + each * (double)plan->told.passes;
    plan->resident = once + each > 0 ? once / (once + each) : 1;
    // Products, and Gram-Schmidt twice of each block against half a basis, on either side in turn.
    double ncv = (double)plan->ncv, b = (double)plan->block;
    double passes = (double)plan->told.passes, element = (double)gx_dtype_bytes(A->dtype);
    plan->flops = unit_of(A->dtype) * (2 * m * n * b + 2 * (m + n) * ncv * b) * passes;
    plan->bytes_swept = (m * n + (m + n) * ncv) * element * passes;
}

gx_code gx_plan_svd(gx_run *run, const gx_svd_args *args, gx_svd_plan *plan)
{
    const gx_mat *A = args->A;
    size_t bytes = 0;
    *plan = (gx_svd_plan){.driver = "gesdd", .told = {.passes = 1}, .resident = 1};
    if (gx_svd_check(run, args) != GX_OK) {
        return run->err.code;
    }
    gx_svd_method method = gx_svd_choose_method(run, args);
    if (method != GX_SVD_DENSE && args->k > 0 && args->is_smallest) {
        gx_run_failf(run, GX_UNSUPPORTED,
                     "the smallest singular values of a matrix that is not for the dense driver "
                     "are not planned: they take the inverse's passes");
    } else if (method != GX_SVD_DENSE && gx_svd_check_iterative(run, args) == GX_OK) {
        plan_iterative(run, args, plan);
    } else if (gx_svd_refuse_dense(run, args) == GX_OK) {
        gx_matrix_bytes(A->rows, A->cols, A->dtype, &bytes);
        plan->bytes_read = (double)bytes;
        plan->flops = unit_of(A->dtype) * dense_flops((double)gx_max(A->rows, A->cols),
                                                      (double)gx_min(A->rows, A->cols),
                                                      args->mode != GX_SVD_VALUES);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}
