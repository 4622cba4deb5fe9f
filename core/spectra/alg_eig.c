/*
** Eigenvalues: what is asked is checked, and a driver chosen.  See alg_eig.h.
*/
#include "spectrum_int.h"
#include "../alg/alg.h"
#include "../mat/sparse.h"
#include "krylov_eig.h"

#include <math.h>
#include <string.h>

// What is asked -----------------------------------------------------------------------------------

static gx_code check_b(gx_run *run, const gx_eig_args *args)
{
    const gx_mat *A = args->A, *B = args->B;
    if (B != NULL && (B->rows != A->rows || B->cols != A->cols)) {
        return gx_run_failf(run, GX_ARG, "%s is %lldx%lld but %s is %lldx%lld", A->label,
                            (long long)A->rows, (long long)A->cols, B->label, (long long)B->rows,
                            (long long)B->cols);
    }
    return GX_OK;
}

/* Of a sparse matrix few values are found, by products with it or with its sparse inverse. */
static gx_code check_sparse(gx_run *run, const gx_eig_args *args)
{
    const gx_mat *A = args->A;
    if (args->k == 0 || args->method == GX_METHOD_DENSE) {
        gx_err err = {0};
        gx_csr_refuse(A->label, A->rows, A->cols, gx_sparse_entries(A), A->number, &err);
        return gx_run_failf(run, GX_ARG, "%s; k of its eigenvalues are found as it is", err.text);
    }
    if (args->B != NULL) {
        return gx_run_failf(run, GX_UNSUPPORTED, "%s is sparse, and a \"b\" is for dense matrices",
                            A->label);
    }
    if (args->which == GX_EIG_NEAREST && args->sigma.im != 0 && !gx_number_is_complex(A->number)) {
        return gx_run_failf(run, GX_UNSUPPORTED, "%s is sparse and real, and so must \"sigma\" be",
                            A->label);
    }
    return GX_OK;
}

gx_code gx_eig_prepare(gx_run *run, gx_eig_args *args)
{
    const gx_mat *A = args->A;
    if (A->rows != A->cols) {
        return gx_run_failf(run, GX_ARG, "%s is %lldx%lld, but eigenvalues are of a square matrix",
                            A->label, (long long)A->rows, (long long)A->cols);
    }
    if (check_b(run, args) != GX_OK) {
        return run->err.code;
    }
    if (args->k < 0 || args->k > A->rows) {
        return gx_run_failf(run, GX_ARG, "k is %lld but %s is %lldx%lld: it has %lld eigenvalues",
                            (long long)args->k, A->label, (long long)A->rows, (long long)A->cols,
                            (long long)A->rows);
    }
    if (args->method == GX_METHOD_KRYLOV && args->k == 0) {
        return gx_run_failf(run, GX_ARG, "method \"krylov\" needs k, the number of eigenvalues");
    }
    if (A->is_sparse && check_sparse(run, args) != GX_OK) {
        return run->err.code;
    }
    uint32_t wanted = GX_PROP_HERMITIAN;
    args->is_hermitian = !args->is_general && (args->is_hermitian || (A->properties & wanted) != 0);
    args->wants_right = args->wants_right || args->wants_left || args->wants_residuals;
    if (args->which == GX_EIG_DEFAULT) {
        args->which = GX_EIG_LARGEST_MAGNITUDE;
    }
    return GX_OK;
}

/*
** Krylov where it was asked for, where the dense driver does not fit, or where few of many are
** wanted: below FEW_SIDE rows, or for more than a twentieth, the dense one is not slower.
*/
bool gx_eig_wants_krylov(gx_run *run, const gx_eig_args *args)
{
    const int64_t FEW_SIDE = 1000, SHARE = 20;
    if (args->A->is_sparse) {
        return true;
    }
    if (args->method != GX_METHOD_AUTO || args->k == 0) {
        return args->method == GX_METHOD_KRYLOV;
    }
    bool fits = gx_eig_dense_bytes(run, args) <= gx_mem_available(run->ctx->mem);
    bool is_b = args->B != NULL && !args->is_hermitian;
    bool is_few = args->A->rows >= FEW_SIDE && args->k * SHARE <= args->A->rows;
    return !is_b && (is_few || !fits);
}

uint64_t gx_eig_search_key(const gx_eig_args *args)
{
    int kind = 2 * (int)args->which + (args->is_hermitian ? 1 : 0);
    bool is_plain = args->B == NULL && args->start == NULL;
    return !is_plain
               ? 0
               : gx_oper_search_key(args->A, kind, args->k, args->ncv, args->block, args->tol);
}

gx_code gx_eig_look(gx_run *run, gx_eig_args *args)
{
    if (!gx_ok(run) || args->is_hermitian || args->is_general) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    if (args->A->is_sparse) {
        args->is_hermitian = gx_oper_sparse_is_hermitian(run, args->A);
    } else {
        gx_alg_check_property(run, args->A, GX_PROP_HERMITIAN, 0, &args->is_hermitian);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

static void find_few(gx_run *run, gx_eig_args *args, gx_eig_result *result)
{
    gx_eig_look(run, args);
    if (gx_ok(run) && args->A->is_sparse && args->wants_left && !args->is_hermitian) {
        gx_run_failf(run, GX_UNSUPPORTED,
                     "%s is sparse and not symmetric: its left eigenvectors are the right ones of "
                     "its transpose",
                     args->A->label);
    }
    if (gx_ok(run) && gx_eig_krylov(run, args, result) == GX_OK) {
        gx_ledger_add_passes(&run->ctx->ledger, gx_eig_search_key(args), result->passes);
    }
}

gx_code gx_alg_eig(gx_run *run, const gx_eig_args *asked, gx_eig_result *result)
{
    gx_eig_args args = *asked;
    memset(result, 0, sizeof *result);
    result->mem = run->ctx->mem;
    if (gx_ok(run) && gx_eig_prepare(run, &args) == GX_OK) {
        if (gx_eig_wants_krylov(run, &args)) {
            find_few(run, &args, result);
        } else if (!gx_eig_by_blocks(run, &args, result)) {
            gx_eig_dense(run, &args, result);
        }
    }
    if (!gx_ok(run)) {
        gx_eig_clear(result);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}
