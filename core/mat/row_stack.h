/*
** From rows to a matrix: whole rows in any order, any number, within the memory limit.
**
** Create, add each row, finish (or free at any time).  See row_stack.c for the method.
*/
#ifndef GX_STACK_H
#define GX_STACK_H

#include "assembly.h"

typedef struct gx_stack gx_stack;

/* spec.cols -1: the length of the first row.  Takes up to half of the memory available now. */
gx_code gx_stack_create(gx_ctx *ctx, const gx_scatter_spec *spec, gx_stack **stack, gx_err *err);
void gx_stack_free(gx_stack *stack); /* NULL is a no-op */

/*
** One row: count elements of the matrix's dtype, copied.  GX_ARG: a length that is not the
** others'; an index that is negative, past spec.rows or past GX_SCATTER_INDEX_END, unless rows are
** numbered.
*/
gx_code gx_stack_add(gx_stack *stack, int64_t i, const void *row, int64_t count, gx_err *err);

/* The length of the rows; -1: none has come, and spec has none. */
int64_t gx_stack_cols(const gx_stack *stack);

/* As gx_scatter_finish().  GX_ARG, before anything is written: a gap that spec.gaps refuses. */
gx_code gx_stack_finish(gx_stack *stack, gx_run *run, const gx_dest *dest, gx_sink *sink);

/*
** After that, and once, of numbered rows: the indexes of rows 0, 1, ..., count of them; lent by the
** stack.  GX_ARG: one is past 2^53.
*/
gx_code gx_stack_ids(gx_stack *stack, const double **ids, int64_t *count, gx_err *err);

#endif
