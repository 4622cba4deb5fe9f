/*
** Sparse matrices in SQL: gx_sparse, gx_dense, gx_nnz.
**
** Which other functions take a sparse operand their rows say (GX_SPARSE); for all others args.c
** refuses it in one line, and gx_dense is the way: nothing becomes dense by itself.
*/
#include "gx_ext.h"

#include "../core/alg/alg.h"
#include "../core/mat/sparse.h"

/* The numbers of the result, which is stored as A is where nothing else is asked for. */
static bool take_number(gx_fn *fn, const gx_mat *A, gx_number *number)
{
    if (!fn->dest.has_dtype) {
        fn->dest.has_dtype = true;
        fn->dest.dtype = A->dtype;
    }
    *number = gx_dest_number(&fn->dest, A->number);
    return gx_fn_check(fn, gx_dtype_takes(fn->dest.dtype, A->number, A->label, &fn->err));
}

/* What holds of A without its small entries: symmetry and zeros, not what depends on values. */
static uint32_t kept_properties(const gx_mat *A)
{
    return A->properties & (GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN | GX_PROP_LOWER | GX_PROP_UPPER);
}

/* The entries of a sparse matrix above a threshold. */
typedef struct sieve {
    gx_sparse_out out;
    double threshold;
} sieve;

static gx_code put_large(void *arg, int64_t i, int64_t j, gx_scalar x, gx_err *err)
{
    sieve *s = arg;
    return gx_sparse_is_above(x, s->threshold) ? gx_sparse_put(&s->out, i, j, x, err) : GX_OK;
}

static void sift(gx_fn *fn, const gx_mat *A, double threshold, gx_number number)
{
    gx_sink C;
    sieve s = {.threshold = threshold};
    if (gx_sparse_out_begin(&fn->run, &fn->dest, A->rows, A->cols, number, kept_properties(A), &C,
                            &s.out) == GX_OK &&
        gx_sparse_each(&fn->run, A, put_large, &s) == GX_OK) {
        gx_sparse_out_end(&s.out);
    }
    gx_sparse_out_clear(&s.out);
    gx_fn_result_sink(fn, &C);
}

/* gx_sparse(A[, threshold][, destination][, options]) */
static void sparse(gx_fn *fn)
{
    gx_mat A;
    gx_number number;
    double threshold = 0;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_matrix(fn, 0, "A", &A)) {
        return;
    }
    bool has_threshold = gx_fn_has(fn, 1) && sqlite3_value_type(fn->argv[1]) != SQLITE_TEXT;
    if (fn->argc > 2 && !has_threshold && gx_fn_has(fn, 1)) {
        gx_fn_fail(fn, "threshold must be a number: gx_sparse(A, threshold, destination)");
        return;
    }
    if ((has_threshold && !gx_fn_real(fn, 1, "threshold", &threshold)) ||
        !gx_fn_dest(fn, fn->argc > 2 || has_threshold ? 2 : 1, &fn->dest) ||
        !take_number(fn, &A, &number)) {
        return;
    }
    if (!(threshold >= 0)) {
        gx_fn_fail(fn, "threshold must be 0 or more, not %g", threshold);
        return;
    }
    if (A.is_sparse) {
        sift(fn, &A, threshold, number);
        return;
    }
    gx_sink C;
    gx_alg_sparse(&fn->run, &A, &fn->dest, number, kept_properties(&A), threshold, &C);
    gx_fn_result_sink(fn, &C);
}

/* gx_dense(A[, destination][, options]) */
static void dense(gx_fn *fn)
{
    gx_mat A;
    gx_number number;
    gx_sink C;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !take_number(fn, &A, &number)) {
        return;
    }
    fn->dest.is_streamed = true;
    gx_sink_begin(&fn->run, &fn->dest, A.rows, A.cols, number, kept_properties(&A), 0, 0, &C);
    gx_copy_to_sink(&fn->run, &A, &C);
    gx_fn_result_sink(fn, &C);
}

/* gx_nnz(A): entries of a sparse matrix; of a dense one elements, which are all there */
static void nnz(gx_fn *fn)
{
    gx_mat A;
    if (gx_fn_options(fn, NULL, NULL) && gx_fn_matrix(fn, 0, "A", &A)) {
        sqlite3_result_int64(fn->sql, A.is_sparse ? gx_sparse_entries(&A) : A.rows * A.cols);
    }
}

const gx_function gx_functions_sparse[] = {
    {"gx_sparse", 1, 4, GX_MADE(2) | GX_DEST_LATE | GX_SPARSE(0), sparse, 0},
    {"gx_dense", 1, 3, GX_MADE(1) | GX_SPARSE(0), dense, 0},
    {"gx_nnz", 1, 1, GX_SPARSE(0), nnz, 0},
    {.name = NULL},
};
