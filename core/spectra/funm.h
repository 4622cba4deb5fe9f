/*
** Functions of a square matrix: f(A) in the sense of its Schur or Jordan form (Higham, Functions of
** Matrices, SIAM 2008).
**
** gx_alg_funm() is the driver (funm.c).
*/
#ifndef GX_FUNM_H
#define GX_FUNM_H

#include "../mat/mat.h"

typedef enum gx_funm {
    GX_FUNM_SQRT,
    GX_FUNM_EXP,
    GX_FUNM_LOG,
    GX_FUNM_SIGN, /* 1 where an eigenvalue's real part is above 0, -1 where it is below */
    GX_FUNM_POWER
} gx_funm;

typedef struct gx_funm_args {
    const gx_mat *A;
    gx_funm function;
    double power; /* POWER */
} gx_funm_args;

/*
** f(A), n x n, leading dimension n, in the governor's memory: the caller frees `data`.  dtype: A's,
** or its complex one where A is real and f(A) is not.  properties: SYMMETRIC, HERMITIAN where f(A)
** is so to the bit.
*/
typedef struct gx_funm_result {
    gx_number dtype;
    void *data;
    uint32_t properties;
} gx_funm_result;

/*
** Refuses, in words: A not square, NaN or Inf, a logarithm or a negative power of a singular
** matrix, a square root that does not exist, a sign of a matrix with an eigenvalue on the imaginary
** axis, more memory than there is.  Memory: about eight
** matrices of n^2 complex doubles at most.
*/
gx_code gx_alg_funm(gx_run *run, const gx_funm_args *args, gx_funm_result *result);

#endif
