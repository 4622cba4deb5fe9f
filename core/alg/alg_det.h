/*
** Determinants and inverses: what A's properties allow, else by LU (alg_det.c).
*/
#ifndef GX_ALG_DET_H
#define GX_ALG_DET_H

#include "alg_lu.h"

/* det A = sign exp(log), |sign| = 1; a singular A has sign 0 and log -inf. */
typedef struct gx_determinant {
    gx_scalar det;  /* inf or 0 where it is too large or small for a double */
    gx_scalar sign; /* real dtypes: 1, -1, 0                                */
    double log;     /* log |det A|                                          */
} gx_determinant;

/*
** aux: of A, when A is a stored LU factorisation, of which this is the determinant of what was
** factored; else kind GX_AUX_NONE.  Triangular: the product of the diagonal.  Positive: Cholesky.
** Else LU into an intermediate.  0 x 0: 1.  GX_ARG "A is 3x4 but must be square".
*/
gx_code gx_alg_determinant(gx_run *run, const gx_mat *A, const gx_aux *aux, gx_determinant *out);

/*
** C = A^-1, C's dtype is A's.  Diagonal: the reciprocals.  Triangular: a triangular solve.
** Positive: Cholesky.  Else LU, and then all columns of the identity are solved for: 8/3 n^3 flops.
** The intermediate is in memory where it fits, else in the temp database.
** GX_NUMERIC "A is singular (pivot 17 is exactly zero)", "... (A[7,7] = 0)".
*/
gx_code gx_alg_inverse(gx_run *run, const gx_mat *A, const gx_aux *aux, gx_sink *C);

#endif
