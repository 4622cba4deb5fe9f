/*
** Eigenvalues and singular values: what is asked, what comes back, and who computes it.
**
** gx_alg_eig() and gx_alg_svd() check what is asked and choose the driver: the dense one (the whole
** matrix in memory, LAPACK's work) or a Krylov one (few values, A streamed from its source).  Both
** give the same result.  Results are in the governor's memory; the caller clears them.
*/
#ifndef GX_ALG_EIG_H
#define GX_ALG_EIG_H

#include "../mat/mat.h"

// Eigenvalues -------------------------------------------------------------------------------------

/* Which k eigenvalues; also the order in which they are given. */
typedef enum gx_eig_which {
    GX_EIG_DEFAULT,            /* LARGEST_MAGNITUDE; with a sigma NEAREST                      */
    GX_EIG_LARGEST_MAGNITUDE,  /* |value| descending                                           */
    GX_EIG_SMALLEST_MAGNITUDE, /* |value| ascending                                            */
    GX_EIG_LARGEST_REAL,       /* real part descending ("largest algebraic" when symmetric)    */
    GX_EIG_SMALLEST_REAL,      /* real part ascending                                          */
    GX_EIG_LARGEST_IMAG,       /* |imaginary part| descending                                  */
    GX_EIG_SMALLEST_IMAG,      /* |imaginary part| ascending                                   */
    GX_EIG_NEAREST             /* |value - sigma| ascending                                    */
} gx_eig_which;

typedef enum gx_eig_method { GX_METHOD_AUTO, GX_METHOD_DENSE, GX_METHOD_KRYLOV } gx_eig_method;

/* A X = B X diag(values).  Zero means the default everywhere. */
typedef struct gx_eig_args {
    const gx_mat *A;   /* n x n                                                              */
    const gx_mat *B;   /* NULL: the identity.  Else Hermitian positive definite, as A is
                             Hermitian                                                          */
    bool is_hermitian; /* A is: its lower triangle says it all.  false: not known            */
    bool is_general;   /* take A as general even where it is Hermitian                       */
    int64_t k;         /* how many; 0: all n                                                 */
    gx_eig_which which;
    gx_scalar sigma; /* NEAREST                                                            */
    gx_eig_method method;
    double tol;           /* residual / ||A|| at which a pair has converged; 0: of the dtype    */
    int64_t ncv;          /* columns of the basis; 0: chosen                                    */
    int64_t block;        /* columns added in one pass over A; 0: chosen                        */
    int64_t maxiter;      /* restarts; 0: chosen                                                */
    uint64_t seed;        /* of the starting block                                              */
    const gx_mat *start;  /* NULL, or n x any: the first columns of the starting block          */
    bool wants_right;     /* eigenvectors                                                       */
    bool wants_left;      /* left ones, y^H A = value y^H; implies wants_right                  */
    bool wants_residuals; /* of the right vectors; implies wants_right                          */
    bool allows_partial;  /* fewer than k converged is a result, not an error                   */
} gx_eig_args;

/*
** Order: all of a Hermitian matrix ascending, all of a general one by descending magnitude, then
** descending real part, then descending imaginary part (the positive one of a pair first); k of
** them as `which` says, ties as above.
**
** Vectors have ||x||_2 = 1 (with a B: x^H B x = 1) and the component of largest magnitude (the
** first of those within a factor 1 + 2^-10 of it) real and positive.
*/
typedef struct gx_eig_result {
    gx_mem *mem;      /* where the arrays are from                                          */
    int64_t n, count; /* count: pairs that converged, <= asked                              */
    bool is_real;       /* every value has imaginary part 0, and so vectors are of A's dtype  */
    bool is_hermitian;  /* A was taken as Hermitian: right and left vectors are the same      */
    gx_scalar *values;  /* count                                                              */
    double *residuals;  /* count: ||A x - value B x||_2; NULL: not asked                      */
    gx_number dtype;     /* of the vectors: A's (B's), complex where is_real is false          */
    void *right;        /* n x count, leading dimension n; NULL: not asked                    */
    void *left;         /* the same; NULL where not asked or the same as right                */
    int64_t passes;     /* over A                                                             */
    const char *driver; /* "syevd", "geev", "lanczos", ...: static                            */
} gx_eig_result;

/*
** Refuses, in words: A not square, a B that does not fit, k out of range, options that contradict,
** NaN or Inf in A, more memory than there is (with the bytes needed and available, and the advice
** to ask for k), what has not converged.  *result is cleared first and needs gx_eig_clear() only
** on success (it is harmless otherwise).
*/
gx_code gx_alg_eig(gx_run *run, const gx_eig_args *args, gx_eig_result *result);
void gx_eig_clear(gx_eig_result *result);

/* Of count columns of n rows: the sign just said. */
void gx_eig_fix_sign(gx_run *run, gx_number dtype, void *vectors, int64_t n, int64_t count);

// Singular values ---------------------------------------------------------------------------------

typedef enum gx_svd_mode { GX_SVD_ECONOMY, GX_SVD_FULL, GX_SVD_VALUES } gx_svd_mode;

typedef enum gx_svd_method {
    GX_SVD_AUTO,
    GX_SVD_DENSE,
    GX_SVD_KRYLOV,    /* block Lanczos: k largest                         */
    GX_SVD_RANDOMIZED /* random range finder with power steps: k largest  */
} gx_svd_method;

/* A = U diag(sigma) V^H.  Zero means the default everywhere. */
typedef struct gx_svd_args {
    const gx_mat *A; /* m x n                                                              */
    gx_svd_mode mode;
    int64_t k;        /* the k largest; 0: all min(m, n)                                    */
    bool is_smallest; /* the smallest k, ascending; k 0: all, ascending                       */
    gx_svd_method method;
    int64_t power;      /* RANDOMIZED: power steps; < 0: chosen                               */
    int64_t oversample; /* RANDOMIZED: columns beside k; < 0: chosen                          */
    double tol;
    int64_t ncv, block, maxiter;
    uint64_t seed;
    bool wants_residuals; /* needs the vectors                                                 */
    bool allows_partial;
} gx_svd_args;

/*
** sigma descending (is_smallest: ascending); the component of largest magnitude of each column of U
** real and positive (as for eigenvectors), the row of V^H accordingly.
*/
typedef struct gx_svd_result {
    gx_mem *mem;
    int64_t m, n;
    int64_t count; /* singular values                                                  */
    int64_t u_cols;    /* of U: count, or m (FULL)                                         */
    int64_t vt_rows;   /* of V^H: count, or n (FULL)                                       */
    gx_number dtype;    /* of U and V^H: A's                                                */
    double *sigma;     /* count                                                            */
    double *residuals; /* count: the larger of ||A v - sigma u||_2 and ||A^H u - sigma v||_2;
                             NULL: not asked                                                   */
    void *u;           /* m x u_cols, leading dimension m; NULL: VALUES                    */
    void *vt;          /* vt_rows x n, leading dimension vt_rows; NULL: VALUES             */
    int64_t passes;
    const char *driver;
} gx_svd_result;

/*
** The driver is chosen: the dense one (alg_svd.c) where all or many are wanted and it fits, the
** Krylov one (krylov_svd.h) where few are or it does not, the randomized one where it is asked for.
** Refuses, in words: k out of range, NaN and Inf, more memory than there is (with the bytes needed
** and available), the smallest values of a matrix that is not for the dense driver, what has not
** converged.
*/
gx_code gx_alg_svd(gx_run *run, const gx_svd_args *args, gx_svd_result *result);
void gx_svd_clear(gx_svd_result *result);

/*
** All of a long A, tall or wide, economy, whose vectors on the long side do not fit in memory
** (alg_svd_long.c): result has sigma and the short side's vectors, and u or vt, the long side's, is
** NULL; they are an intermediate, which is written to a sink of their shape and dropped.
**
** is_due: that is what is to be done.  find: far is to be ended whatever it returns, before sinks
** that were begun earlier are.  GX_NUMERIC "A has NaN or Inf"; GX_BUDGET.
*/
typedef struct gx_svd_long {
    gx_run *run;      /* NULL: nothing is there                              */
    bool is_wide;     /* the long side is V^H, else U                        */
    gx_sink W;        /* the vectors as columns, their signs not yet chosen  */
    gx_scalar *phase; /* what each is to be multiplied by                    */
} gx_svd_long;

bool gx_svd_long_is_due(gx_run *run, const gx_svd_args *args);
gx_code gx_svd_long_find(gx_run *run, const gx_svd_args *args, gx_svd_result *result,
                         gx_svd_long *far);
gx_code gx_svd_long_write(gx_svd_long *far, gx_sink *sink);
void gx_svd_long_end(gx_svd_long *far);

/*
** The smallest of them by the largest, 1 / cond_2: infinity where there are none, 0 for a singular
** A.  A square A that does not fit is iterated with, and its inverse (krylov_smallest.c): both
** values then are right to 1e-10 (2e-6 for f32, c64), the smallest to cond eps.
*/
gx_code gx_alg_singular_ratio(gx_run *run, const gx_mat *A, double *rcond);

/* The largest of them (||A||_2), or their sum (the nuclear norm); 0 when there are none. */
gx_code gx_alg_singular_norm(gx_run *run, const gx_mat *A, bool is_nuclear, double *norm);

#endif
