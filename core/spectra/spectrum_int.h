/*
** What the drivers of eigenvalues and singular values share, and how they are chosen: inside.
*/
#ifndef GX_SPECTRUM_INT_H
#define GX_SPECTRUM_INT_H

#include "alg_eig.h"

// Eigenvalues -------------------------------------------------------------------------------------

/* The dense driver.  args have been checked: k in 1 .. n, which and is_hermitian are decided. */
gx_code gx_eig_dense(gx_run *run, const gx_eig_args *args, gx_eig_result *result);

/*
** All values without vectors of a block diagonal composite, block by block; true: that was the way,
** or the run has failed.
*/
bool gx_eig_by_blocks(gx_run *run, const gx_eig_args *args, gx_eig_result *result);
bool gx_svd_by_blocks(gx_run *run, const gx_svd_args *args, gx_svd_result *result);

/* Bytes that gx_eig_dense() takes. */
size_t gx_eig_dense_bytes(gx_run *run, const gx_eig_args *args);

/*
** For every driver.  reserve: values for count pairs, and what else is wanted (vectors of n rows,
** of dtype); count, asked, n, dtype are set.  order: where the pairs should come from, order[0]
** first: as `which` says, or for all of them as alg_eig.h says.
*/
gx_code gx_eig_reserve(gx_run *run, gx_eig_result *result, int64_t n, int64_t count,
                       gx_number dtype, bool wants_right, bool wants_left, bool wants_residuals);
void gx_eig_sort_order(const gx_scalar *values, int64_t count, gx_eig_which which, gx_scalar sigma,
                       bool is_hermitian, bool is_all, int64_t *order);
/* What that order goes by first: the smallest comes first. */
double gx_eig_key(gx_eig_which which, gx_scalar sigma, gx_scalar value);

/* The number of magnitude 1 that makes the component of x that alg_eig.h names real, positive. */
gx_scalar gx_vector_phase(gx_number dtype, const void *x, int64_t n);
/*
** The same of a piece of x, x's component of largest magnitude having `largest`: false where the
** component is not in the piece.
*/
double gx_vector_largest(gx_number dtype, const void *x, int64_t n);
bool gx_vector_phase_of(gx_number dtype, const void *x, int64_t n, double largest,
                        gx_scalar *phase);
/* x = s x for n components, stride apart; a real x takes the real part of s. */
void gx_vector_scale(gx_number dtype, void *x, int64_t n, int64_t stride, gx_scalar s);

/*
** For gx_alg_eig() and its plan.  prepare: refuse what cannot be asked, and fill in `which` and
** is_hermitian (by A's properties alone).  wants_krylov: with the memory there is.
*/
gx_code gx_eig_prepare(gx_run *run, gx_eig_args *args);

/*
** Where nobody has said whether A is Hermitian: looks at it, one pass at most, which ends at the
** first element that is not.  gx_plan does it, too: the two cases differ by a factor of ten.
*/
gx_code gx_eig_look(gx_run *run, gx_eig_args *args);
bool gx_eig_wants_krylov(gx_run *run, const gx_eig_args *args);
uint64_t
gx_eig_search_key(const gx_eig_args *args); /* in the ledger; 0: its passes are not foretold */

// Singular values ---------------------------------------------------------------------------------

gx_code gx_svd_dense(gx_run *run, const gx_svd_args *args, gx_svd_result *result);
gx_code gx_svd_reserve(gx_run *run, gx_svd_result *result, int64_t m, int64_t n, int64_t count,
                       gx_number dtype, gx_svd_mode mode);

/* r = x diag(sigma) yh, n x n numbers, by the host; r is destroyed.  The values are checked. */
gx_code gx_svd_square(gx_run *run, const char *label, gx_number dtype, int64_t n, void *r,
                      double *sigma, void *x, void *yh);

/* to (n x m) = from^H, of m x n numbers with leading dimension ld. */
void gx_vectors_turned(gx_run *run, gx_number dtype, int64_t m, int64_t n, const void *from,
                       int64_t ld, void *to);

/* Is one side at least twice the other? */
bool gx_svd_is_long(const gx_mat *A);

/* Does gx_svd_dense() read A by panels, in little memory? */
bool gx_svd_takes_panels(const gx_svd_args *args);

/* Does memory_limit leave what gx_svd_dense() takes for all of args->A? */
bool gx_svd_dense_fits(gx_run *run, const gx_svd_args *args);

/* R, least x least, of the QR of the tall one of A and A^H, by panels: the caller frees *r. */
gx_code gx_svd_triangle(gx_run *run, const gx_svd_args *args, void **r);
size_t gx_svd_triangle_bytes(gx_run *run, const gx_svd_args *args); /* and GESDD of it */

/*
** The k largest of a long matrix in two passes (alg_svd_short.c): is there memory for it, whatever
** the method; are they to be found so?
*/
bool gx_svd_short_fits(gx_run *run, const gx_svd_args *args);
bool gx_svd_short_is_due(gx_run *run, const gx_svd_args *args);
gx_code gx_svd_short(gx_run *run, const gx_svd_args *args, gx_svd_result *result);

/* What is asked that makes no sense; who computes it; GX_BUDGET where that is the dense driver and
** it does not fit. */
gx_code gx_svd_check(gx_run *run, const gx_svd_args *args);
/* What is asked of an iterative driver that it does not do. */
gx_code gx_svd_check_iterative(gx_run *run, const gx_svd_args *args);
gx_svd_method gx_svd_choose_method(gx_run *run, const gx_svd_args *args);
uint64_t gx_svd_search_key(const gx_svd_args *args);
gx_code gx_svd_refuse_dense(gx_run *run, const gx_svd_args *args);

/* The sign of U's columns and V^H's rows as alg_eig.h says. */
void gx_svd_fix_sign(gx_run *run, gx_svd_result *result);

#endif
