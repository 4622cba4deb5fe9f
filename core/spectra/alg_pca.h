/*
** Covariance, correlation, principal components: of the columns of A, whose rows are observations.
*/
#ifndef GX_ALG_PCA_H
#define GX_ALG_PCA_H

#include "../alg/alg_qr.h"
#include "alg_eig.h"

/* Covariance with divisor m - ddof; correlation does not depend on ddof. */
typedef struct gx_cov_args {
    const gx_mat *A; /* m x n */
    int64_t ddof;
    bool is_correlation;
} gx_cov_args;

/*
** C = the covariance (correlation) of A's columns, n x n, Hermitian, of A's dtype.  A is read once
** where it has at most GX_PCA_NARROW columns and is tall, else twice (three times for a
** correlation) or as often as a product of that size reads it.  NaN and Inf flow; the correlation
** with a column that does not vary is NaN.  GX_ARG: "A has 1 row: with ddof 1 ...".
*/
gx_code gx_alg_cov(gx_run *run, const gx_cov_args *args, gx_sink *C);

enum { GX_PCA_NARROW = 256 };

/* Rows whose means shift the columns in the one pass; any will do, a few are enough. */
enum { GX_PCA_SHIFT_ROWS = 64 };

/* Does one pass take A: tall, and R with what is beside it in memory? */
bool gx_pca_is_one_pass(gx_run *run, const gx_mat *A, gx_tsqr_plan *plan);

/*
** Is it rather the product of [1 B] with itself, B being A less the shift, S as large as that?
** Covariances, and at most half of the components.
*/
struct gx_narrow;
void gx_pca_ones(const gx_mat *A, const gx_scalar *shift, gx_mat *ones);
bool gx_pca_is_streamed(gx_run *run, const gx_mat *ones, const gx_sink *S, struct gx_narrow *plan);

typedef struct gx_pca_args {
    const gx_mat *A;      /* m x n                                                                */
    int64_t k;            /* components; 0: all min(m, n)                                         */
    int64_t ddof;         /* of the variances                                                     */
    bool is_standardized; /* columns are divided by their deviation; one of 0 stays as it is   */
    gx_svd_args how;      /* method, and the options of the iterative ones; tol 0: 1e-13.  AUTO and
                             DENSE take the one pass where they can                             */
} gx_pca_args;

typedef struct gx_pca_result {
    gx_mem *mem;
    int64_t n, count;
    gx_number dtype;  /* of vectors: f64, or c128 where A is complex                         */
    gx_scalar *mean;  /* n                                                                   */
    double *scale;    /* n: deviations; ones where not standardised                          */
    double *variance; /* count, descending                                                   */
    double total;     /* variance of all columns                                             */
    void *vectors;    /* n x count: components, orthonormal; the element of largest magnitude
                          of each is real and positive                                        */
    const char
        *driver; /* "gram", "tsqr" (one pass), "svd"                                           */
} gx_pca_result;

/*
** Reads A once where R (n + 1 squared) fits in memory and A is tall; else once and what the SVD of
** k components takes (alg_svd.c).  GX_NUMERIC: "A has NaN or Inf".
*/
gx_code gx_alg_pca(gx_run *run, const gx_pca_args *args, gx_pca_result *result);
void gx_pca_clear(gx_pca_result *result);

/* For the plan: what the SVD of X, A centred, is asked for; what is held beside it. */
gx_svd_args gx_pca_svd_args(const gx_pca_args *args, const gx_mat *X, int64_t count);
size_t gx_pca_held_bytes(const gx_mat *A, int64_t count);

#endif
