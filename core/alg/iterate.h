/*
** Iterative methods for sparse real systems: A x = b, a column at a time.
**
** What all keep: |b - A x| of the x that is returned has been computed from x itself, not taken
** from the recurrence; the bits depend neither on the team nor on memory.
*/
#ifndef GX_ITERATE_H
#define GX_ITERATE_H

#include "precond.h"

typedef enum gx_iterate_kind {
    GX_ITERATE_CG,     /* A symmetric positive definite                                */
    GX_ITERATE_MINRES, /* A symmetric                                                  */
    GX_ITERATE_GMRES,  /* any square A; restarted, preconditioned from the right       */
    GX_ITERATE_LSQR    /* any A: least squares where there is no solution              */
} gx_iterate_kind;

enum { GX_ITERATE_RESTART = 30, GX_ITERATE_RESTART_MOST = 1000 };

typedef struct gx_iterate {
    gx_run *run;
    gx_iterate_kind kind;
    const gx_whole *A, *T; /* T = A^T: LSQR                                       */
    gx_precond M;          /* made by gx_iterate_begin()                          */
    double tol;            /* |b - A x| <= tol |b|; LSQR: or |A^T r| <= tol |A| |r| */
    int64_t most;          /* iterations of a column                              */
    int64_t restart;       /* GMRES: vectors of a cycle                           */
    int64_t done;          /* iterations of this column so far                    */
    double norm;           /* LSQR: of A                                          */
    double *work;          /* vectors of the longer side of A                     */
    double *part;          /* partial sums of pieces                              */
    double *small;         /* GMRES: the projected problem                        */
} gx_iterate;

const char *gx_iterate_name(gx_iterate_kind kind); /* "cg", ... */

/* kind, A, tol, most, restart are given; T for LSQR.  To be ended whatever this returns. */
gx_code gx_iterate_begin(gx_run *run, gx_precond_kind precond, gx_iterate *it);

/*
** x (A->cols elements) holds the first guess and gets the solution.  GX_NUMERIC: tol is not
** reached, with the residual that is and the iterations; A is not positive definite (CG).
*/
gx_code gx_iterate_solve(gx_iterate *it, const double *b, double *x);
void gx_iterate_end(gx_iterate *it);

#endif
