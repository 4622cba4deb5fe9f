/*
** Blocks, transposes and slices of stored operands, and what they tell, as sources, not as copies.
*/
#ifndef GX_VIEWS_H
#define GX_VIEWS_H

#include "values.h"

/*
** Make the result of a HSTACK, VSTACK, TRANSPOSE, ADJOINT, or SLICE without strides, of KRON,
** OUTER, EYE, or DIAG of a vector, a source that reads the node's inputs: where the result does not
** fit in memory, or is used once by what needs no elements.  false: it has to be made.
*/
bool gx_lower_as_view(gx_exec *x, const gx_node *node);

#endif
