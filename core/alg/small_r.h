/*
** An upper triangle R in memory, n x n, as least squares use it: rank, solve, pseudo-inverse.
**
**     gx_small_r r;
**     gx_small_r_take(run, &source, n, dtype, &r);      copies the triangle
**     gx_small_r_rank(&r, rcond, false, &is_known);     or with the exact rcond
**     gx_small_r_solve(&r, GX_NO_TRANS, x, p, &rest);   any number of times
**     gx_small_r_clear(&r);
*/
#ifndef GX_SMALL_R_H
#define GX_SMALL_R_H

#include "../mat/mat.h"

typedef struct gx_small_r {
    gx_run *run;
    int64_t n;
    gx_number dtype;
    void *r;       /* n x n, zeros below the diagonal                                          */
    double *sigma; /* n singular values, descending; NULL: not computed                        */
    void *u, *vt;  /* of R; NULL: R has full rank and is solved with as it is                  */
    int64_t rank;
    bool is_ranked, is_rank_known; /* by gx_small_r_rank()                                      */
    double rcond; /* smallest / largest singular value, or a lower bound; NaN: unknown      */
} gx_small_r;

/*
** The upper triangle of the first n rows and columns of a source.  GX_NUMERIC "A has NaN or Inf"
** where it holds any.  *r must be cleared whatever this returns.
*/
gx_code gx_small_r_take(gx_run *run, const gx_mat *source, int64_t n, gx_number dtype,
                        gx_small_r *r);

/*
** Rank: singular values above rcond * the largest.  Where ||R^-1||_F says that all are, nothing
** else is computed unless wants_rcond, the exact one; else the SVD of R.  What does not fit into
** memory is not computed and not an error: then rcond is NaN and, where the SVD is missed for the
** rank, *is_known false and the rank n.  A second call finds what the first has found.
*/
gx_code gx_small_r_rank(gx_small_r *r, double rcond, bool wants_rcond, bool *is_known);

/* Singular values alone; r->r is spoilt. */
gx_code gx_small_r_sigma(gx_small_r *r);

/*
** x = pinv(R) x, or pinv(R)^H x (CONJ_TRANS), n x p, leading dimension n.  *rest (may be NULL): the
** Frobenius norm of the part of x outside of R's (R^H's) range, which is dropped.
*/
gx_code gx_small_r_solve(gx_small_r *r, gx_trans trans, void *x, int64_t p, double *rest);

void gx_small_r_clear(gx_small_r *r);

/* sqrt(a^2 + b^2) is hypot(); the Frobenius norm of a block in memory. */
double gx_small_norm(gx_number dtype, const void *x, int64_t ld, int64_t m, int64_t n);

#endif
