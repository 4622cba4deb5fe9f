/*
** Matrix equations in memory (equation.c, riccati.c).
**
**   SYLVESTER              A X + X B = Q               A m x m, B n x n, Q and X m x n
**   LYAPUNOV               A X + X A^H = Q             A, Q, X n x n
**   LYAPUNOV_DISCRETE      X - A X A^H = Q
**   RICCATI                A^H X + X A - X B R^-1 B^H X + Q = 0
**   RICCATI_DISCRETE       X = A^H X A - A^H X B (R + B^H X B)^-1 B^H X A + Q
**                          A, Q, X n x n, B n x m, R m x m, Q and R Hermitian; X is the solution
**                          that is Hermitian and stabilises A - B K
**
** The linear ones by Schur forms of A and B (Bartels & Stewart 1972), with blocks of columns by
** products and small blocks by LAPACK's trsyl.  Riccati's by the ordered generalised Schur form of
** the extended pencil (Van Dooren 1981), from which R's columns are taken by a QR.  Everything is
** in double precision; f32 and c64 are rounded once at the end.
*/
#ifndef GX_EQUATION_H
#define GX_EQUATION_H

#include "../mat/mat.h"

typedef enum gx_equation {
    GX_SYLVESTER,
    GX_LYAPUNOV,
    GX_LYAPUNOV_DISCRETE,
    GX_RICCATI,
    GX_RICCATI_DISCRETE,
    GX_EQUATIONS
} gx_equation;

enum { GX_EQUATION_MATS = 4 };

/* The letters of an equation's matrices, in the order in which they are given: "ABQ". */
extern const char *const gx_equation_letters[GX_EQUATIONS];

typedef struct gx_equation_args {
    gx_equation equation;
    const gx_mat *mat[GX_EQUATION_MATS]; /* in that order */
} gx_equation_args;

/* X, column-major, leading dimension max(1, rows); the caller frees data, of the run's memory. */
typedef struct gx_solution {
    void *data;
    int64_t rows, cols;
    gx_number number;    /* what all the matrices promote to */
    uint32_t properties; /* HERMITIAN, SYMMETRIC             */
} gx_solution;

/*
** X without its elements, of matrices whose elements are not looked at; GX_ARG where they do not
** fit.
*/
gx_code gx_equation_shape(const gx_equation_args *args, gx_solution *X, gx_err *err);

/*
** Refuses, in words: what does not fit, NaN and Inf, more memory than there is, a linear equation
** that has no solution or many (eigenvalues that meet), a Riccati equation without a stabilising
** solution, a Q or R that is not Hermitian, a singular R.
*/
gx_code gx_alg_equation(gx_run *run, const gx_equation_args *args, gx_solution *X);

/* riccati.c: x = X, n x n, of dtype (F64 or C128). */
void gx_equation_riccati(gx_run *run, const gx_equation_args *args, gx_number dtype, void *x);

#endif
