/*
** What comes of what: a rule for each operation of the table, which looks at its operands' shapes
** and dtypes, refuses in words, and adds the node.
**
** node has its op; the rule sets type and whole[], and calls gx_graph_add() with the operands that
** are matrices: sizes, axes and kinds are known before the program runs and are no operands.
** `in` has count entries, as many as the row of the table allows.
*/
#ifndef GX_SHAPE_H
#define GX_SHAPE_H

#include "ops.h"

/* An argument that is a whole number known before the program runs. */
bool gx_take_whole(gx_graph *g, gx_ref ref, const char *what, int64_t *out);

/* An axis: 0 or 1; k >= count: fallback. */
bool gx_take_axis(gx_graph *g, const gx_ref *in, int count, int k, int64_t fallback, int64_t *axis);

/* A word of the list "one|two": its number, from 0. */
bool gx_take_word(gx_graph *g, gx_ref ref, const char *what, const char *words, int64_t *out);

bool gx_take_number(gx_graph *g, gx_ref ref, const char *what, double *out);

/* "LABEL is 3x4, but WHAT" */
gx_ref gx_shape_fail(gx_graph *g, gx_ref ref, const char *what);

/* The type of an operand, made strong and without properties. */
gx_type gx_strong(const gx_graph *g, gx_ref ref);

bool gx_is_vector(const gx_type *type);
gx_ref gx_as_column(gx_graph *g, gx_ref ref); /* a row, transposed */

/* The rules, each gx_check_NAME for the name in GX_OPS; NULL is none. */
#define GX_CHECK_DECLARE(ID, NAME, USAGE, LEAST, MOST, RESULTS, CHECK, ...)                        \
    gx_ref gx_check_##CHECK(gx_graph *g, gx_node *node, const gx_ref *in, int count);
GX_OPS(GX_CHECK_DECLARE, GX_CHECK_DECLARE)
#undef GX_CHECK_DECLARE

#endif
