/*
** Triangular sweeps inside a program: what solves with triangles, Cholesky factors and LU factors
** share.  See alg_tri.c.
**
** A is n x n in square blocks.  X has n rows (side LEFT) or n columns (RIGHT), in blocks of any
** size.  Its blocks along the other side are strips, which do not depend on one another.
*/
#ifndef GX_ALG_TRI_H
#define GX_ALG_TRI_H

#include "../exec/prog.h"

typedef struct gx_sweep {
    gx_prog *prog;
    const gx_opnd *A, *X; /* X: in place; holds B when the sweep begins               */
    gx_side side;
    gx_uplo uplo; /* of A as it is stored                                    */
    gx_trans trans;
    gx_diag diag;
    gx_scalar alpha;
    int64_t super; /* X's blocks along the triangle that stay in memory, >= 1 */
} gx_sweep;

/* Append X := alpha op(A)^-1 X (LEFT), alpha X op(A)^-1 (RIGHT) of X's strips first .. last - 1. */
void gx_sweep_solve(const gx_sweep *sweep, int64_t first, int64_t last);

/* Append X := alpha op(A) X, alpha X op(A), likewise. */
void gx_sweep_multiply(const gx_sweep *sweep, int64_t first, int64_t last);

#endif
