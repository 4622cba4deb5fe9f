/*
** Matrices that are worked on as a whole: loaded into one buffer of the governor's memory, and
** given to one kernel call that the team shares.
**
** For what LAPACK does best on all of a matrix, and for the small matrices inside larger
** algorithms.  All are sticky: in a run that has failed they do nothing.
*/
#ifndef GX_DENSE_H
#define GX_DENSE_H

#include "../mat/mat.h"

/*
** Memory of rows x cols elements of dtype, however they are used: the product is checked here, so
** callers give its factors.  ptr: as for gx_mem_alloc(); NULL on failure.  Freed by gx_mem_free().
*/
gx_code gx_dense_alloc(gx_run *run, gx_number dtype, int64_t rows, int64_t cols, const char *what,
                       void *ptr);

/* The same, returned: NULL where the run has failed. */
void *gx_dense_take(gx_run *run, gx_number dtype, int64_t rows, int64_t cols, const char *what);

/*
** Fill dst (column-major, leading dimension ld) with all of mat, as dtype.  Helper threads read
** where they can.  Reads each tile once.
*/
gx_code gx_dense_load(gx_run *run, const gx_mat *mat, gx_number dtype, void *dst, int64_t ld);

/*
** All of mat, as dtype, in memory that is taken for it, leading dimension max(1, rows); NaN and Inf
** are refused.  NULL: the run has failed.
*/
void *gx_dense_whole(gx_run *run, const gx_mat *mat, gx_number dtype);

/* The same of rows i0 .. i0 + m - 1. */
gx_code gx_dense_load_rows(gx_run *run, const gx_mat *mat, int64_t i0, int64_t m, gx_number dtype,
                           void *dst, int64_t ld);

/*
** Elements 0 to count - 1 of diagonal number `offset` of A (above the main one where positive) in
** memory, as dtype.  *data: the caller's, of run->ctx->mem; NULL on failure.
*/
gx_code gx_gather_diagonal(gx_run *run, const gx_mat *A, int64_t offset, int64_t count,
                           gx_number dtype, void **data);

/* Write all of a sink from src, leading dimension ld, a tile column at a time. */
gx_code gx_dense_write(gx_run *run, gx_sink *sink, const void *src, int64_t ld);

/* GX_NUMERIC "LABEL has NaN at (2, 3)" (or Inf), the first one down the columns. */
gx_code gx_dense_finite(gx_run *run, const char *label, gx_number dtype, const void *x, int64_t ld,
                        int64_t m, int64_t n);
/* The same of a piece whose first element is (i0, j0) of the matrix. */
gx_code gx_dense_finite_part(gx_run *run, const char *label, gx_number dtype, const void *x,
                             int64_t ld, int64_t m, int64_t n, int64_t i0, int64_t j0);

/* The lower triangle of x over the upper one, conjugated; a real diagonal; n x n. */
void gx_dense_mirror(gx_run *run, gx_number dtype, void *x, int64_t ld, int64_t n);

/* x = (x + x^H) / 2, n x n, leading dimension n.  Returns ||x - x^H||_F / ||x||_F as it was. */
double gx_dense_halve(gx_number dtype, int64_t n, void *x);

/* x = x^H to the bit; n x n. */
bool gx_dense_is_hermitian(gx_run *run, gx_number dtype, const void *x, int64_t ld, int64_t n);

/* The sum of the diagonal, and the Frobenius norm: what eigenvalues and singular values keep. */
typedef struct gx_dense_sums {
    gx_scalar trace;
    double norm;
    double longest; /* the longest side */
} gx_dense_sums;
gx_code gx_dense_sums_of(gx_run *run, gx_number dtype, const void *x, int64_t ld, int64_t m,
                         int64_t n, gx_dense_sums *sums);

/*
** Check a result by what it keeps: GX_NUMERIC where the count values found do not add up to the
** trace (has_trace), or their squares to the square of the norm (has_squares), within
** 10 count (count + sqrt(longest)) roundings.  Costs nothing beside the call, and sees a backend
** that returns wrong numbers.
*/
gx_code gx_dense_check_sums(gx_run *run, const char *label, const char *what, gx_number dtype,
                            const gx_dense_sums *sums, const gx_scalar *values, int64_t count,
                            bool has_trace, bool has_squares);

/*
** One kernel call on host memory, over the team; `work`, `threads` are filled in.  args->info may
** be NULL: then info > 0 fails the run (GX_NUMERIC, "the iteration did not converge").
*/
gx_code gx_dense_call(gx_run *run, gx_kernel_id kernel, gx_number dtype, const gx_args *args);

/* c = alpha op(a) op(b) + beta c, real factors. */
gx_code gx_dense_gemm(gx_run *run, gx_number dtype, gx_trans ta, gx_trans tb, int64_t m, int64_t n,
                      int64_t k, double alpha, const void *a, int64_t lda, const void *b,
                      int64_t ldb, double beta, void *c, int64_t ldc);

/*
** x = op(a)^-1 x (TRSM), op(a) x (TRMM): cols columns of n numbers, a being a triangle, n x n.
** lu_solve: x = a^-1 x by the factor and the pivots that GETRF left of a.  Leading dimensions n.
*/
gx_code gx_dense_triangle(gx_run *run, gx_kernel_id kernel, gx_number dtype, gx_uplo uplo,
                          gx_trans trans, gx_diag diag, int64_t n, const void *a, int64_t cols,
                          void *x);
gx_code gx_dense_lu_solve(gx_run *run, gx_number dtype, int64_t n, const void *factor,
                          int64_t *pivots, int64_t cols, void *x);

/* c = L in its lower triangle, c = L L^H; GX_NUMERIC "LABEL is not positive definite (...)". */
gx_code gx_dense_cholesky(gx_run *run, const char *label, gx_number dtype, int64_t n, void *c);

/* The SVD of c, n x n, which is destroyed: all values and vectors; leading dimensions n. */
gx_code gx_dense_svd(gx_run *run, gx_number dtype, int64_t n, void *c, void *values, void *left,
                     void *right);

/* x += beta y, and x = conj(x), which does nothing to real numbers; leading dimensions m. */
gx_code gx_dense_add(gx_run *run, gx_number dtype, int64_t m, int64_t n, void *x, gx_scalar beta,
                     const void *y);
gx_code gx_dense_conj(gx_run *run, gx_number dtype, int64_t m, int64_t n, void *x);

/* What gx_dense_call() takes beside its operands. */
size_t gx_dense_call_bytes(gx_run *run, gx_kernel_id kernel, gx_number dtype, const gx_args *args);

/*
** Refuse early what memory_limit does not allow: what, its bytes, what is available, and the
** advice, as in "all eigenvalues of A (9000x9000 f64) need 1.3 GB ...: ask for k of them".
*/
gx_code gx_dense_fits(gx_run *run, size_t bytes, const char *what, const gx_mat *A,
                      const char *advice);

#endif
