/*
** Singular values, A = U diag(sigma) V^H: what is asked is checked, and a driver chosen.  See
** alg_eig.h.
**
** What is small beside them is here too: the norm and the condition number that they give.
*/
#include "../alg/dense.h"
#include "../mat/sparse.h"
#include "krylov_svd.h"
#include "spectrum_int.h"

#include <math.h>
#include <string.h>

// What is asked -----------------------------------------------------------------------------------

gx_code gx_svd_check(gx_run *run, const gx_svd_args *args)
{
    const gx_mat *A = args->A;
    int64_t least = gx_min(A->rows, A->cols);
    if (args->k < 0 || args->k > least) {
        return gx_run_failf(
            run, GX_ARG, "k is %lld but %s is %lldx%lld: it has %lld singular values",
            (long long)args->k, A->label, (long long)A->rows, (long long)A->cols, (long long)least);
    }
    if (A->is_sparse && (args->k == 0 || args->method == GX_SVD_DENSE || args->is_smallest)) {
        gx_err err = {0};
        gx_csr_refuse(A->label, A->rows, A->cols, gx_sparse_entries(A), A->number, &err);
        return gx_run_failf(run, GX_ARG, "%s; its k largest singular values are found as it is",
                            err.text);
    }
    if (args->k > 0 && args->mode == GX_SVD_FULL) {
        return gx_run_failf(run, GX_ARG,
                            "the full U and V are not those of the k largest: ask for one of them");
    }
    return GX_OK;
}

gx_code gx_svd_check_iterative(gx_run *run, const gx_svd_args *args)
{
    const char *name = args->method == GX_SVD_KRYLOV ? "krylov" : "randomized";
    if (args->k == 0) {
        return gx_run_failf(run, GX_ARG, "method \"%s\" needs k, the number of singular values",
                            name);
    }
    const gx_mat *A = args->A;
    bool is_square = A->rows == A->cols;
    if (args->is_smallest && (!is_square || args->method != GX_SVD_KRYLOV)) {
        return gx_run_failf(run, GX_UNSUPPORTED,
                            "the smallest singular values of a matrix%s are not for method \"%s\": "
                            "use {\"method\":\"dense\"}",
                            is_square ? "" : " that is not square", name);
    }
    return GX_OK;
}

/*
** As for eigenvalues (alg_eig.c): Krylov where the dense driver does not fit, or where few of many
** are wanted: below FEW_SIDE, or for more than a twentieth, the dense one is not slower.  Values by
** panels read A once, whatever its length: only where A is in memory is a pass cheaper than that.
*/
gx_svd_method gx_svd_choose_method(gx_run *run, const gx_svd_args *args)
{
    const int64_t FEW_SIDE = 1000, SHARE = 20;
    if (args->A->is_sparse && args->method == GX_SVD_AUTO) {
        return GX_SVD_KRYLOV;
    }
    if (args->method != GX_SVD_AUTO || args->k == 0) {
        return args->method == GX_SVD_AUTO ? GX_SVD_DENSE : args->method;
    }
    if (args->is_smallest) { // by the inverse of a square matrix: where there is no other way
        bool is_dense = args->A->rows != args->A->cols || gx_svd_dense_fits(run, args);
        return is_dense ? GX_SVD_DENSE : GX_SVD_KRYLOV;
    }
    const gx_mat *A = args->A;
    int64_t least = gx_min(A->rows, A->cols);
    size_t whole = 0;
    bool is_resident = gx_matrix_bytes(A->rows, A->cols, A->number, &whole) &&
                       whole <= gx_mem_available(run->ctx->mem);
    bool is_few = least >= FEW_SIDE && args->k * SHARE <= least;
    bool is_better = is_few && (is_resident || !gx_svd_takes_panels(args));
    return is_better || !gx_svd_dense_fits(run, args) ? GX_SVD_KRYLOV : GX_SVD_DENSE;
}

// Drivers -----------------------------------------------------------------------------------------

uint64_t gx_svd_search_key(const gx_svd_args *args)
{
    return gx_oper_search_key(args->A, -1, args->k, args->ncv, args->block, args->tol);
}

/* The k largest, by args->method. */
static void find_few(gx_run *run, const gx_svd_args *asked, gx_svd_result *result)
{
    const gx_mat *A = asked->A;
    gx_svd_args fitted = *asked, *args = &fitted;
    if (gx_svd_check_sizes(run, args, 0) != GX_OK) {
        return;
    }
    bool is_random = args->method == GX_SVD_RANDOMIZED;
    bool is_hermitian = A->rows == A->cols && (A->properties & GX_PROP_HERMITIAN) != 0;
    gx_oper op;
    if (gx_oper_begin(run, A, A->number, is_hermitian, gx_svd_work_bytes(run, args), &op) ==
        GX_OK) {
        (is_random ? gx_svd_randomized : gx_svd_krylov)(run, &op, args, result);
    }
    if (gx_ok(run) && !is_random) {
        gx_ledger_add_passes(&run->ctx->ledger, gx_svd_search_key(args), op.passes);
    }
    if (gx_ok(run) && args->wants_residuals) {
        gx_svd_find_residuals(&op, A, result);
    }
    result->passes = op.passes;
    gx_oper_end(&op);
}

/* Residuals of what came without an operator for A: two passes over it. */
static void look_at_residuals(gx_run *run, const gx_mat *A, gx_svd_result *result)
{
    gx_oper op;
    size_t bytes = 0;
    gx_matrix_bytes(A->rows + 2 * A->cols, result->count, A->number, &bytes);
    if (gx_oper_begin(run, A, A->number, false, bytes, &op) == GX_OK) {
        gx_svd_find_residuals(&op, A, result);
    }
    gx_oper_end(&op);
}

gx_code gx_alg_svd(gx_run *run, const gx_svd_args *asked, gx_svd_result *result)
{
    gx_svd_args args = *asked;
    memset(result, 0, sizeof *result);
    result->mem = run->ctx->mem;
    if (gx_ok(run) && gx_svd_check(run, &args) == GX_OK) {
        bool is_short = gx_svd_short_is_due(run, &args);
        args.method = gx_svd_choose_method(run, &args);
        bool is_dense = args.method == GX_SVD_DENSE && !is_short;
        args.mode = args.wants_residuals && args.mode == GX_SVD_VALUES ? GX_SVD_ECONOMY : args.mode;
        if (is_short) {
            gx_svd_short(run, &args, result);
        } else if (is_dense) {
            bool is_made = gx_svd_by_blocks(run, &args, result);
            is_made = is_made || gx_svd_dense(run, &args, result) == GX_OK;
        } else if (gx_svd_check_iterative(run, &args) == GX_OK && args.is_smallest) {
            bool is_singular;
            gx_svd_smallest(run, &args, result, &is_singular);
        } else if (gx_ok(run)) {
            find_few(run, &args, result);
        }
        if (gx_ok(run) && !is_dense) {
            gx_svd_fix_sign(run, result);
        }
        if (gx_ok(run) && (is_dense || is_short || args.is_smallest) && args.wants_residuals) {
            look_at_residuals(run, args.A, result);
        }
    }
    if (!gx_ok(run)) {
        gx_svd_clear(result);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

// What they give ----------------------------------------------------------------------------------

gx_code gx_alg_singular_norm(gx_run *run, const gx_mat *A, bool is_nuclear, double *norm)
{
    // A residual of r leaves a value that is off by r at most, and by r^2 / gap next to others.
    gx_svd_args args = {.A = A, .mode = GX_SVD_VALUES, .tol = 1e-10};
    gx_svd_result result;
    *norm = 0;
    args.tol = gx_number_is_double(A->number) ? args.tol : 0;
    args.k = is_nuclear || A->rows == 0 || A->cols == 0 ? 0 : 1;
    if (gx_alg_svd(run, &args, &result) == GX_OK) {
        for (int64_t i = result.count - 1; i >= 0; i--) { // small ones first
            *norm = is_nuclear ? *norm + result.sigma[i] : result.sigma[i];
        }
        gx_svd_clear(&result);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

/* Largest and smallest by iteration: *rcond. */
static void iterate_ratio(gx_run *run, const gx_mat *A, double *rcond)
{
    double largest = 0;
    bool is_singular = false;
    gx_svd_args args = {.A = A, .mode = GX_SVD_VALUES, .k = 1};
    gx_svd_result r = {.mem = run->ctx->mem};
    args.tol = gx_number_is_double(A->number) ? 1e-10 : 0;
    if (gx_alg_singular_norm(run, A, false, &largest) == GX_OK) {
        gx_svd_smallest(run, &args, &r, &is_singular);
    }
    if (gx_ok(run) && r.count > 0) {
        *rcond = r.sigma[0] / largest;
    } else if (is_singular && gx_run_forgive(run, GX_NUMERIC)) { // a pivot is exactly zero
        *rcond = 0;
    }
    gx_svd_clear(&r);
}

gx_code gx_alg_singular_ratio(gx_run *run, const gx_mat *A, double *rcond)
{
    int64_t count = gx_min(A->rows, A->cols);
    gx_svd_args args = {.A = A, .mode = GX_SVD_VALUES};
    *rcond = (double)INFINITY;
    if (!gx_ok(run) || count == 0) {
        return run->err.code;
    }
    if (A->rows == A->cols && !gx_svd_dense_fits(run, &args)) {
        iterate_ratio(run, A, rcond);
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    gx_svd_result r;
    if (gx_alg_svd(run, &args, &r) == GX_OK) {
        *rcond = r.sigma[0] == 0 ? 0 : r.sigma[count - 1] / r.sigma[0];
        gx_svd_clear(&r);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}
