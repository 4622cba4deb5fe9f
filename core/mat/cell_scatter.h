/*
** From cells to a matrix: (i, j, value) records in any order, any number, within the memory limit.
**
** Create, add each cell, finish (or free at any time).  See cell_scatter.c for the method.
*/
#ifndef GX_SCATTER_H
#define GX_SCATTER_H

#include "assembly.h"

typedef struct gx_scatter gx_scatter;

/*
** Takes up to half of the memory that is available now.  *scatter: owned by the caller; NULL on
** failure.  GX_ARG: a sparse matrix of more rows than GX_SCATTER_INDEX_END.
*/
gx_code gx_scatter_create(gx_ctx *ctx, const gx_scatter_spec *spec, gx_scatter **scatter,
                          gx_err *err);
void gx_scatter_free(gx_scatter *scatter); /* NULL is a no-op */

/*
** One cell.  GX_ARG: an index that is negative, past the shape or past GX_SCATTER_INDEX_END.
** Amortised about 10 ns; writes temporary data when its memory is full.
*/
gx_code gx_scatter_add(gx_scatter *scatter, int64_t i, int64_t j, gx_scalar value, gx_err *err);

/*
** Build the matrix in a sink that is begun here; the caller ends it, also on failure.  Cells that
** did not come are 0, or not there where the spec says sparse.  Each tile is written once, in
** ascending order.  Sticky, as a driver.
*/
gx_code gx_scatter_finish(gx_scatter *scatter, gx_run *run, const gx_dest *dest, gx_sink *sink);

#endif
