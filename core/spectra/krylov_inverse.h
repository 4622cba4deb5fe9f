/*
** Inverses as operators of Krylov methods: inside.  krylov_inverse.c has the operators and factors
** in memory, krylov_factors.c factors of any size.
*/
#ifndef GX_KRYLOV_INVERSE_H
#define GX_KRYLOV_INVERSE_H

#include "krylov.h"

/*
** Factors that are intermediates: L of B (NULL: none), and where op is an inverse LU of A - sigma
** B; keep_bytes: memory that others will want.  Sticky; gx_factors_end() drops what there is, and
** is a no-op where there is nothing.
*/
void gx_factors_begin(gx_oper *op, const gx_mat *B, size_t keep_bytes);
void gx_factors_end(gx_oper *op);

/* x = (A - sigma B)^-1 x; x = op(L)^-1 x (TRSM), op(L) x (TRMM): one pass over the factor. */
gx_code gx_factors_solve(gx_oper *op, void *x, int64_t cols);
gx_code gx_factors_triangle(gx_oper *op, gx_kernel_id kernel, gx_trans trans, void *x,
                            int64_t cols);

/* c -= sigma I, n x n. */
void gx_factors_shift_diagonal(const gx_oper *op, void *c, int64_t ld, int64_t n);

/*
** Whether A - sigma B whose pivots are from smallest to largest can be solved with.  false: op's
** sigma has moved, and the factorisation is to be made again as the next attempt, counted from 0.
** The last one fails the run instead.
*/
bool gx_oper_sigma_is_usable(gx_oper *op, int attempt, double smallest, double largest);

#endif
