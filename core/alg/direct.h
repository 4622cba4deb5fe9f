/*
** Sparse factorisations by SuiteSparse, which is opened where it is installed and never needed.
**
**     gx_direct F;
**     gx_direct_make(run, GX_DIRECT_UMFPACK, &A, &F);
**     gx_direct_solve(&F, false, cols, b, x);           any number of times
**     gx_direct_clear(&F);                              on every path
*/
#ifndef GX_DIRECT_H
#define GX_DIRECT_H

#include "csr_matrix.h"

typedef enum gx_direct_kind {
    GX_DIRECT_UMFPACK, /* P R A Q = L U, any square A                                */
    GX_DIRECT_CHOLMOD  /* P A P^T = L L^T, real; of A the lower triangle is read     */
} gx_direct_kind;

typedef struct gx_direct {
    gx_run *run;
    gx_direct_kind kind;
    const gx_csr_matrix *A; /* borrowed; UMFPACK refines with it     */
    void *library;     /* of dlopen()                           */
    int64_t *index;    /* A's columns in 64 bits                */
    size_t reserved;   /* of the budget, for SuiteSparse's own  */
    void *state;       /* of the library's, in direct.c */
} gx_direct;

/* Is it installed?  GX_UNSUPPORTED with a line that names the package. */
gx_code gx_direct_look(gx_run *run, gx_direct_kind kind, gx_err *err);

/*
** A square.  GX_NUMERIC: singular, or not positive definite; GX_BUDGET: the factor does not fit.
** An interrupt is seen between analysis, factorisation and solves.
*/
gx_code gx_direct_make(gx_run *run, gx_direct_kind kind, const gx_csr_matrix *A, gx_direct *F);

/* x = A^-1 b, or A^-T b, not conjugated: n x cols of A's dtype, leading dimensions n. */
gx_code gx_direct_solve(gx_direct *F, bool is_transposed, int64_t cols, const void *b, void *x);
void gx_direct_clear(gx_direct *F); /* of zeros: a no-op */

#endif
