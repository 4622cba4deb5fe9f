/*
** Constraints of a matrix over m31 (core/base/constraints.h), row by row.
*/
#ifndef GX_COMBINE_H
#define GX_COMBINE_H

#include "../base/constraints.h"
#include "../mat/mat.h"

/* Rows of a tile of the result: as many rows of A are no more than a tile's bytes. */
int64_t gx_combine_tile_rows(const gx_run *run, const gx_mat *A, int width);

/*
** C, rows x width, = what each row of A comes to; behind the last row is the first one.  p->next is
** below the rows; p->columns are A's.  By blocks of rows, read once, on a device where that is
** faster.
*/
gx_code gx_alg_combine(gx_run *run, const gx_mat *A, const gx_constraints *p, gx_sink *C);

#endif
