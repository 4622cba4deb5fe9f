/*
** From cells to a matrix: (i, j, value) records in any order, any number, within the memory limit.
**
** Create, add each cell, finish (or free at any time).  See cell_scatter.c for the method.
*/
#ifndef GX_SCATTER_H
#define GX_SCATTER_H

#include "mat.h"

/* What to do with a cell or a row that comes more than once. */
typedef enum gx_duplicates {
    GX_DUPLICATES_ERROR, /* refuse, naming it                   */
    GX_DUPLICATES_SUM,   /* add up, in the order of arrival     */
    GX_DUPLICATES_LAST   /* the latest counts                   */
} gx_duplicates;

/* The largest index + 1: records keep 32 bits of each index. */
#define GX_SCATTER_INDEX_END ((int64_t)UINT32_MAX)

typedef struct gx_scatter_spec {
    int64_t rows, cols; /* -1: one more than the largest index that comes */
    gx_dtype dtype;     /* of the matrix; complex: cells have two parts   */
    gx_duplicates duplicates;
} gx_scatter_spec;

typedef struct gx_scatter gx_scatter;

/*
** Takes up to half of the memory that is available now.  *scatter: owned by the caller; NULL on
** failure.
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
** did not come are 0.  Each tile is written once, in ascending order.  Sticky, as a driver.
*/
gx_code gx_scatter_finish(gx_scatter *scatter, gx_run *run, const gx_dest *dest, gx_sink *sink);

/* ---- shared with row_stack.c ----------------------------------------------------------------- */

/* Bytes of elements that one round of collecting may take, and of a temporary piece. */
size_t gx_scatter_share(const gx_mem *mem);
size_t gx_scatter_piece(size_t share);

/* Set or add one number to element k of a column-major block. */
void gx_scatter_put(gx_dtype dtype, void *block, int64_t k, gx_scalar value, bool is_sum);

/* Whether bit k was set before; it is now. */
static inline bool gx_scatter_mark(uint8_t *bits, int64_t k)
{
    uint8_t mask = (uint8_t)(1 << (k & 7));
    bool was_set = (bits[k >> 3] & mask) != 0;
    bits[k >> 3] = (uint8_t)(bits[k >> 3] | mask);
    return was_set;
}

#endif
