/*
** Which operations programs have of whole numbers modulo 2^31 - 1 (m31), and of what operands.
**
** Such a matrix goes with others of its kind and with whole numbers, known when the program is
** prepared: an operand that is a number is pinned to its value.
*/
#include "graph.h"
#include "ops.h"

#include <math.h>

/* Whose operands are of different kinds: nothing is computed of all of them. */
static bool is_flow(gx_op_id id)
{
    return id == GX_OP_REPEAT || id == GX_OP_WHILE || id == GX_OP_IF || id == GX_OP_PART ||
           id == GX_OP_PARAM || id == GX_OP_SLICE || id == GX_OP_ROLL || id == GX_OP_TILE ||
           id == GX_OP_REPEATED || id == GX_OP_RESHAPE || id == GX_OP_FLIP || id == GX_OP_TAKE;
}

static bool has_field(const gx_node *node)
{
    switch (node->op->id) {
    case GX_OP_OPERAND:
    case GX_OP_ROWS:
    case GX_OP_COLS:
    case GX_OP_SIZE:
    case GX_OP_MATMUL:
    case GX_OP_TRANSPOSE:
    case GX_OP_ADJOINT:
    case GX_OP_SUM:
    case GX_OP_TRACE:
    case GX_OP_DIAG:
    case GX_OP_HSTACK:
    case GX_OP_VSTACK:
    case GX_OP_BLOCK:
    case GX_OP_FUSED:
        return true;
    case GX_OP_MAP:
        return gx_map_is_of_field(node->map);
    default:
        return is_flow(node->op->id);
    }
}

static bool takes(gx_graph *g, const gx_node *node, gx_ref in, int k)
{
    const gx_type *t = &g->node[in].type;
    gx_scalar value = {0, 0};
    if (t->dtype == GX_M31) {
        return true;
    }
    if (!t->is_weak || !gx_graph_value(g, in, &value)) {
        gx_graph_fail(g, "%s is of %s and goes with m31, whole numbers modulo 2^31 - 1: gx_cast one",
                      gx_graph_label(g, in, "an operand"), gx_number_name(t->dtype));
        return false;
    }
    bool is_exponent = node->op->id == GX_OP_MAP && node->map == GX_MAP_POW && k == 1;
    double least = is_exponent ? 0 : -0x1p53, most = is_exponent ? GX_M31_P - 2.0 : 0x1p53;
    if (value.im != 0 || floor(value.re) != value.re || !(value.re >= least && value.re <= most)) {
        gx_graph_fail(g, "%.17g goes with m31, which takes whole numbers from %.17g to %.17g%s",
                      value.re, least, most, is_exponent ? " as exponents" : "");
        return false;
    }
    return true;
}

bool gx_graph_takes_field(gx_graph *g, const gx_node *node, const gx_ref *in, int count)
{
    bool is_field = node->type.dtype == GX_M31;
    for (int k = 0; k < count; k++) {
        is_field = is_field || g->node[in[k]].type.dtype == GX_M31;
    }
    if (is_field && !has_field(node)) {
        const char *name = node->op->name != NULL ? node->op->name
                           : node->op->id == GX_OP_MAP ? gx_map_row(node->map)->name
                                                       : node->op->help;
        gx_graph_fail(g, "%s means nothing of whole numbers modulo 2^31 - 1 (m31)", name);
        return false;
    }
    for (int k = 0; k < count && is_field && !is_flow(node->op->id); k++) {
        if (!takes(g, node, in[k], k)) {
            return false;
        }
    }
    return true;
}
