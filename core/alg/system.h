/*
** Linear systems: op(A) X = B for a sparse A and a dense B, and least squares; by iterative methods
** for any A that can be multiplied with a vector.
*/
#ifndef GX_SYSTEM_H
#define GX_SYSTEM_H

#include "csr_matrix.h"
#include "factoring.h"

/* How a system is solved; AUTO and DIRECT: a sparse one. */
typedef enum gx_system_method {
    GX_SYSTEM_AUTO = 0, /* direct where SuiteSparse is there and memory allows, else iterative */
    GX_SYSTEM_DIRECT,
    GX_SYSTEM_CG,     /* A symmetric positive definite                                */
    GX_SYSTEM_MINRES, /* A symmetric                                                  */
    GX_SYSTEM_GMRES,  /* any square A; restarted, preconditioned from the right       */
    GX_SYSTEM_LSQR    /* any A: least squares where there is no solution              */
} gx_system_method;

typedef enum gx_precond_kind {
    GX_PRECOND_AUTO = 0, /* in a choice: what suits the method                             */
    GX_PRECOND_NONE,     /* M = I                                                          */
    GX_PRECOND_JACOBI,   /* M = |diagonal|, where that is not 0; for lsqr: column norms    */
    GX_PRECOND_ILU0,     /* M = L U with the entries of A                                  */
    GX_PRECOND_IC0       /* M = L L^T with the entries of A's lower triangle               */
} gx_precond_kind;

typedef struct gx_system_args {
    const gx_mat *A, *B;
    const gx_mat *x0; /* the first guess, as large as X; NULL: zeros         */
    gx_trans trans;
    gx_factor_kind assume; /* AUTO, CHOLESKY or LU                                */
    gx_system_method method;
    gx_precond_kind precond;
    double tol;      /* 0: the default                                      */
    int64_t most;    /* iterations of a column; 0: the default              */
    int64_t restart; /* of gmres; 0: the default                            */
} gx_system_args;

/* Shape and dtype of X; GX_ARG where shapes do not fit or options do not go together. */
gx_code gx_system_shape(const gx_system_args *args, int64_t *rows, int64_t *cols, gx_number *dtype,
                        gx_err *err);

/*
** X, a sink of that shape and dtype.  All is computed in f64 or c128, with B, X and a sparse A in
** memory; any other A is multiplied as it is stored or made of parts (gx_alg_matmul), and whether
** it is symmetric is seen in two products.
**
** AUTO    by what A is known or found to be: positive definite by CHOLMOD, else UMFPACK; where
**         that is not installed or does not fit memory_limit, which gx_stats tells, by cg, minres
**         or gmres.
** direct  the residual of each column is checked as the setting 'probe' says (probe.h).
** others  see below.
*/
gx_code gx_alg_system(gx_run *run, const gx_system_args *args, gx_sink *X);

// Preconditioners: z = M^-1 r, M near A and cheap to solve with (precond.c) -----------------------

typedef struct gx_precond {
    gx_precond_kind kind;
    gx_mem *mem;
    const gx_csr_matrix *A; /* borrowed                                                       */
    double *inverse;        /* JACOBI: of M's diagonal                                        */
    int64_t *diagonal;      /* ILU0: entry number of each row's; IC0: row starts, in place of A's */
    int32_t *index;         /* IC0                                                            */
    double *value;          /* ILU0, IC0: of L and U, of L                                    */
} gx_precond;

/*
** A real and, but for columns' norms (is_by_column), square.  GX_NUMERIC: an incomplete
** factorisation breaks down at a row, which is named.  *M is to be cleared.
*/
gx_code gx_precond_make(gx_run *run, gx_precond_kind kind, const gx_csr_matrix *A,
                        bool is_by_column, gx_precond *M);

/* JACOBI of a square matrix that is not sparse, from its diagonal. */
gx_code gx_precond_make_dense(gx_run *run, gx_precond_kind kind, const gx_mat *A, gx_precond *M);

/* z = M^-1 r; z may be r.  NONE and JACOBI: M->inverse says all, and this is not called. */
void gx_precond_apply(const gx_precond *M, const double *r, double *z);
void gx_precond_clear(gx_precond *M);

// Methods -----------------------------------------------------------------------------------------

/*
** Iterative methods for real systems, a column at a time.  What all keep: |b - A x| of the x that
** is returned has been computed from x itself, not taken from the recurrence; the bits depend
** neither on the team nor on memory.
*/
enum { GX_ITERATE_RESTART = 30, GX_ITERATE_RESTART_MOST = 1000 };

typedef struct gx_iterate {
    gx_run *run;
    gx_system_method method;    /* an iterative one                                  */
    const gx_csr_matrix *A, *T; /* T = A^T: LSQR; NULL: op(mat)                        */
    const gx_mat *mat;          /* real                                                */
    bool is_turned;             /* op is the transpose                                 */
    const char *label;          /* A's: this and what follows is gx_iterate_begin()'s  */
    int64_t rows, cols;         /* of op(A)                                            */
    gx_precond M;
    double tol;                 /* |b - A x| <= tol |b|; LSQR: or |A^T r| <= tol |A| |r| */
    int64_t most;               /* iterations of a column                              */
    int64_t restart;            /* GMRES: vectors of a cycle                           */
    int64_t done;               /* iterations of this column so far                    */
    double norm;                /* LSQR: of A; 0 where it is to be learnt on the way   */
    double *work;               /* vectors of the longer side of A                     */
    double *part;               /* partial sums of pieces                              */
    double *small;              /* GMRES: the projected problem                        */
} gx_iterate;

extern const char *const gx_system_methods[]; /* "auto", "direct", "cg", ... */

/*
** method, A (and T for LSQR) or mat, tol, most, restart are given.  To be ended whatever this
** returns.
*/
gx_code gx_iterate_begin(gx_run *run, gx_precond_kind precond, gx_iterate *it);

/* A square A: u.(A v) = v.(A u) of two vectors, to rounding. */
bool gx_iterate_is_symmetric(gx_iterate *it);

/*
** x (A->cols elements) holds the first guess and gets the solution.  GX_NUMERIC: tol is not
** reached, with the residual that is and the iterations; A is not positive definite (CG).
*/
gx_code gx_iterate_solve(gx_iterate *it, const double *b, double *x);
void gx_iterate_end(gx_iterate *it);

#endif
