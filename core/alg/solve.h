/*
** Linear systems: op(A) X = B, with refinement, and the condition of A.
*/
#ifndef GX_SOLVE_H
#define GX_SOLVE_H

#include "factoring.h"

enum { GX_REFINE_MOST = 10, GX_MIXED_MOST = 30 };

typedef struct gx_solve_args {
    const gx_mat *A, *B;
    gx_trans trans;
    gx_factor_kind assume;
    bool is_factor;    /* A is a Cholesky factor: assume is LOWER or UPPER */
    const gx_aux *aux; /* A is a stored factorisation; else NULL           */
    int64_t refine;    /* at most so many steps of iterative refinement; 0: none */
    bool is_mixed;     /* factor in half the precision, refine to the full one */
} gx_solve_args;

/*
** Shape and dtype of X; GX_ARG where A is not square, B does not fit, options do not go together.
*/
gx_code gx_solve_shape(const gx_solve_args *args, int64_t *n, int64_t *cols, gx_number *dtype,
                       gx_err *err);

/*
** X = op(A)^-1 B.  Factors as gx_factor_make() chooses, solves all columns of B in one pass over
** the factor.  X is a sink of the shape and dtype above.
**
** refine  Each step computes R = B - op(A) X, solves op(A) D = R with the same factor, X += D; f64
**         and c128 in that precision, f32 and c64 with X and R in double.  Stops when the
**         worst column's backward error ||r||_1 / (||A||_1 ||x||_1 + ||b||_1) is not halved any
**         more, and keeps the better X.
** mixed   The factor is f32 (c64); steps until every column has ||r||_1 <= sqrt(n) eps ||A||_1
**         ||x||_1 (LAPACK's dsgesv), at most GX_MIXED_MOST; where that fails, or the f32
**         factorisation does, the full precision is used, which gx_stats tells.
*/
gx_code gx_alg_solve(gx_run *run, const gx_solve_args *args, gx_sink *X);

/*
** Estimate of ||A^-1||_1 (infinity: of A^H's) by Higham's method, at most 11 solves with the
** factor.
*/
gx_code gx_alg_inverse_norm(gx_factor *factor, bool is_infinity, double *norm);

#endif
