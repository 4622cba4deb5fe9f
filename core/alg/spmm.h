/*
** Products with a sparse matrix (mat/sparse.h), streamed over its pieces.
**
**   gx_sparse_apply   Y = op(S) X with X and Y in memory: what iterative methods are made of.  Any
**                     number of columns, one (a vector) too.  S is read once; X and Y are the
**                     caller's, stay where they are, and may not overlap.
**   gx_alg_spmm       C = alpha op(S) op(D) or alpha op(D) op(S) into a sink that is begun here, D
**                     dense from any source, C dense, a value or stored.  The caller ends the sink.
**
** All are drivers: they do nothing once the run has failed, and what fails is the run's.  GX_BUDGET
** where memory does not hold one column of D and of C beside a panel; GX_CORRUPT where a panel is
** damaged.  Shapes are the caller's to check.
**
** With the setting `deterministic`, and for op(S) = S always, the bits depend on neither threads
** nor memory; else sums of op(S) = S^T run in an order of chance.
*/
#ifndef GX_SPMM_H
#define GX_SPMM_H

#include "../exec/predict.h"
#include "../mat/sparse.h"

/*
** Y (ldy) = op(S) X (ldx), column-major, `count` columns; X has the columns of op(S), Y its rows.
** dtype: of X and Y; complex where S is.
*/
gx_code gx_sparse_apply(gx_run *run, const gx_mat *S, gx_trans op, gx_number dtype, int64_t count,
                        const void *X, int64_t ldx, void *Y, int64_t ldy);

/* Bytes that gx_sparse_apply() takes beside X and Y, with one thread: for who plans memory. */
size_t gx_sparse_apply_bytes(gx_run *run, const gx_mat *S, gx_trans op, gx_number dtype,
                             int64_t count);

/* What a call of one such product is predicted and learnt as: dense ones are another matter. */
#define GX_SPMM_NAME "gx_matmul, sparse"

typedef struct gx_spmm_args {
    const gx_mat *A, *B; /* exactly one of them is sparse, the other is no view of it */
    gx_trans transa, transb;
    gx_scalar alpha;
} gx_spmm_args;

gx_code gx_alg_spmm(gx_run *run, const gx_spmm_args *args, int64_t m, int64_t n, gx_number dtype,
                    const gx_dest *dest, gx_sink *sink);

/*
** What the first call of gx_alg_spmm() with a stored result would do where the run is planning for
** (run->target); terms->seconds 0: the device does not do it.  What fails is the run's.
*/
typedef struct gx_spmm_plan {
    int64_t lines, round; /* lines of the result, of a round at most */
    int64_t panels;       /* of the sparse operand, read in each round */
} gx_spmm_plan;

void gx_spmm_foresee(gx_run *run, const gx_spmm_args *args, int64_t m, int64_t n, gx_number dtype,
                     gx_spmm_plan *plan, gx_cost *cost, gx_terms *terms);

#endif
