/*
** What has a sparse result: transposes, slices by ranges and lists, elementwise functions that keep
** zeros, sums and elementwise products of two sparse matrices, products of two; and reductions of a
** sparse matrix.
**
** Those with a sink begin it; the caller ends it.  Rows come in order and are written as they come
** (mat/sparse_out.c); a stored operand is read once, but for gx_alg_spgemm's right one, which has
** to be in memory.  The caller's thread does the work, and polls.  What fails is the run's.
*/
#ifndef GX_SPARSE_ALG_H
#define GX_SPARSE_ALG_H

#include "../mat/sparse.h"

/* op(A), op being transpose or conjugate transpose: an external sort of the entries. */
gx_code gx_sparse_transpose(gx_run *run, const gx_mat *A, gx_trans op, const gx_dest *dest,
                            uint32_t properties, gx_sink *sink);

/* Rows i0 .. i1 - 1 and columns j0 .. j1 - 1. */
gx_code gx_sparse_slice(gx_run *run, const gx_mat *A, int64_t i0, int64_t i1, int64_t j0,
                        int64_t j1, const gx_dest *dest, gx_sink *sink);

/*
** Rows (is_rows) or columns of A by their numbers, which are whole and from 0 to below the side,
** any number of times in any order: an external sort of the entries.
*/
gx_code gx_sparse_pick(gx_run *run, const gx_mat *A, bool is_rows, const int64_t *number,
                       int64_t count, const gx_dest *dest, gx_sink *sink);

/* f of each entry: a kind of one operand that makes 0 of 0 (gx_sparse_keeps_zero). */
bool gx_sparse_keeps_zero(gx_map_kind kind);
gx_code gx_sparse_map(gx_run *run, gx_map_kind kind, gx_scalar alpha, const gx_mat *A,
                      gx_number dtype, uint32_t properties, const gx_dest *dest, gx_sink *sink);

/* alpha A + beta B, or alpha A times B by element, of the same shape. */
gx_code gx_sparse_add(gx_run *run, gx_scalar alpha, const gx_mat *A, gx_scalar beta,
                      const gx_mat *B, gx_number dtype, const gx_dest *dest, gx_sink *sink);
gx_code gx_sparse_times(gx_run *run, gx_scalar alpha, const gx_mat *A, const gx_mat *B,
                        gx_number dtype, const gx_dest *dest, gx_sink *sink);

/*
** C = alpha A B.  Memory: B's panels, and for each column of C a number, a mark and an index:
** GX_BUDGET where it does not hold these.
*/
gx_code gx_alg_spgemm(gx_run *run, gx_scalar alpha, const gx_mat *A, const gx_mat *B,
                      gx_number dtype, const gx_dest *dest, gx_sink *sink);

/*
** The least elements of a real A, or the largest, and where they are: down the columns (axis 0),
** along the rows (1), or of all, counted row by row (-1).  The zeros between the entries count; of
** equal elements the first is found, and a NaN before any number.  most, place: a number a line,
** each of at least one element; either may be NULL.
*/
gx_code gx_sparse_extremes(gx_run *run, const gx_mat *A, bool is_max, int64_t axis, double *most,
                           double *place);

#endif
