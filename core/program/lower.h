/*
** How operations are computed: a function for each name in the last column but one of GX_OPS.
**
** It reads the node's inputs and puts its results (values.h); a failure is the run's.
*/
#ifndef GX_LOWER_H
#define GX_LOWER_H

#include "../fft/fft.h"
#include "ops.h"

#define GX_LOWER_DECLARE(ID, NAME, USAGE, LEAST, MOST, RESULTS, CHECK, RUN, ...)                   \
    void gx_lower_##RUN(struct gx_exec *x, const gx_node *node);
GX_OPS(GX_LOWER_DECLARE, GX_LOWER_DECLARE)
#undef GX_LOWER_DECLARE

/* What a node of a transform was told. */
gx_fft_args gx_fft_args_of(const gx_node *node);

/* solve, inverse, det, rank and lu of m31.  false: the node is of other numbers. */
bool gx_lower_exact(struct gx_exec *x, const gx_node *node);

#endif
