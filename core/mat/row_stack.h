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
** One row: count elements of the matrix's dtype, copied.  GX_ARG: an index that is negative, past
** spec.rows or past GX_SCATTER_INDEX_END, a length that is not the others'.
*/
gx_code gx_stack_add(gx_stack *stack, int64_t i, const void *row, int64_t count, gx_err *err);

/* As gx_scatter_finish().  Rows that did not come are 0. */
gx_code gx_stack_finish(gx_stack *stack, gx_run *run, const gx_dest *dest, gx_sink *sink);

#endif
