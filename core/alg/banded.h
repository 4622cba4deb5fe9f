/*
** Systems with a band matrix: elements more than `lower` below and `upper` above the diagonal are
** zero, and are not stored (banded.c).
*/
#ifndef GX_BANDED_H
#define GX_BANDED_H

#include "../mat/mat.h"

typedef struct gx_banded {
    const char *label; /* for messages                                                         */
    gx_number number;  /* GX_F64 or GX_C128                                                    */
    int64_t n;         /* the order                                                            */
    int64_t lower, upper;
    const void *bands; /* (lower + upper + 1) x n, column-major without gaps: a[i,j] is its row
                          upper + i - j, column j, as LAPACK and SciPy have it; what else is in its
                          corners is not looked at                                            */
} gx_banded;

/*
** x = A^-1 x: n x cols numbers without gaps.  By LU with partial pivoting: n lower (lower + upper)
** multiplications, and (2 lower + upper + 1) n numbers of memory.  GX_NUMERIC: NaN or Inf, or
** singular, with the pivot that is zero.
*/
gx_code gx_alg_banded_solve(gx_run *run, const gx_banded *A, int64_t cols, void *x);

#endif
