/*
** Few singular values of a matrix of any size: the iterative drivers behind gx_alg_svd().
**
** Both work on an operator (krylov.h): a stored matrix, one centred where it is read, an inverse.
*/
#ifndef GX_KRYLOV_SVD_H
#define GX_KRYLOV_SVD_H

#include "spectrum_int.h"
#include "krylov.h"

/*
** What is chosen where the arguments are silent; no choice depends on the budget.  block, ncv,
** maxiter: of the Krylov method.  width, power: columns of the random range finder, and its steps.
*/
typedef struct gx_svd_sizes {
    int64_t block, ncv, maxiter;
    int64_t width, power;
    double tol;
} gx_svd_sizes;
void gx_svd_choose_sizes(const gx_svd_args *args, gx_svd_sizes *sizes);

/* Of bases of m columns, `wanted` ones at least, those that a restart keeps; room: ncv columns. */
int64_t gx_svd_kept(int64_t wanted, int64_t m, int64_t room, int64_t block);

/* Columns that the random range finder orthonormalises at a time; gx_ortho_block() takes 64. */
enum { GX_SVD_PANEL = 32 };

/* Bytes that the driver of args->method (KRYLOV, RANDOMIZED) needs at least. */
size_t gx_svd_iterative_bytes(gx_run *run, const gx_svd_args *args);

/* The same without what the operator takes: what is to be left of the memory beside it. */
size_t gx_svd_work_bytes(gx_run *run, const gx_svd_args *args);

/*
** The k smallest of a square A, ascending: the largest of its inverse (krylov_smallest.c).
** GX_NUMERIC: *is_singular, A has no inverse; else not all converged.
*/
gx_code gx_svd_smallest(gx_run *run, const gx_svd_args *args, gx_svd_result *result,
                        bool *is_singular);

/*
** Refusals of ncv, block, and of too little memory for the bases, by args->method; sets ncv where
** the basis is to be smaller than by choice, so that keep_bytes are left.
*/
gx_code gx_svd_check_sizes(gx_run *run, gx_svd_args *args, size_t keep_bytes);

/*
** The k largest, of an operator with args->A's shape; args->A is what messages name.  args have
** been checked as for gx_svd_dense() and by gx_svd_check_sizes(); k in 1 .. min(m, n), mode not
** FULL.  Refuses further: NaN and Inf (with a place).  GX_NUMERIC where not all converge, unless
** allows_partial; the randomized driver does not iterate until anything converges.
*/
gx_code gx_svd_krylov(gx_run *run, gx_oper *op, const gx_svd_args *args, gx_svd_result *result);
gx_code gx_svd_randomized(gx_run *run, gx_oper *op, const gx_svd_args *args, gx_svd_result *result);

/* y = op x (op^H x); GX_NUMERIC "A has NaN at (2, 3)" where that is not finite. */
gx_code gx_svd_product(gx_oper *op, const gx_mat *A, bool is_adjoint, const void *x, int64_t cols,
                       void *y);

/*
** U = P X and V = Q W for the result (its values are set; u, vt reserved unless VALUES): P m x b, Q
** n x b of dtype; X, W b x count in doubles, of which columns pick[0 ..] are taken.
*/
gx_code gx_svd_give_vectors(gx_run *run, gx_svd_result *result, int64_t b, const void *P,
                            const void *X, const void *Q, const void *W, const int64_t *pick);

/* residuals[i] = the larger of ||A v - sigma u|| and ||A^H u - sigma v||, in two passes. */
gx_code gx_svd_find_residuals(gx_oper *op, const gx_mat *A, gx_svd_result *result);

#endif
