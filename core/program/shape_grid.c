/*
** Shapes of operations on grids (see shape.h): their arguments as core/grid wants them, checked
** before anything is read.
**
** whole[0 .. 4] are the operation's numbers, of labels neighbours and rule; whole[5] is the height
** of each grid of a batch, 0 where a table of grids is the last operand or there is one grid.
*/
#include "shape.h"

#include "../grid/grid.h"

#include <string.h>

enum { NEIGHBOURS, BY, HEIGHT = GX_WHOLES - 1 };

/* label(G, neighbours, by): what is given of it. */
static bool take_rule(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    node->whole[NEIGHBOURS] = 4;
    if (count > 1 && !gx_take_whole(g, in[1], "neighbours", &node->whole[NEIGHBOURS])) {
        return false;
    }
    if (node->whole[NEIGHBOURS] != 4 && node->whole[NEIGHBOURS] != 8) {
        gx_graph_fail(g, "neighbours must be 4 or 8, not %lld", (long long)node->whole[NEIGHBOURS]);
        return false;
    }
    node->whole[BY] = 0;
    return count < 3 || gx_take_word(g, in[2], "by", GX_GRID_BY_WORDS, &node->whole[BY]);
}

/* A node as what core/grid checks: without elements. */
static void source_of(const gx_graph *g, gx_ref ref, gx_mat *mat)
{
    const gx_type *t = &g->node[ref].type;
    const char *label = g->node[ref].label;
    gx_mat_value(mat, label == NULL ? "the operand" : label, t->dtype, t->rows, t->cols, NULL,
                 gx_max(1, t->rows));
    mat->is_sparse = gx_is_sparse(t);
}

/*
** The last argument, a number of rows or a table of grids, which becomes an operand; how many grids
** there are: -1 where it is neither.
*/
static int64_t take_batch(gx_graph *g, gx_node *node, gx_ref grids, const gx_type *G,
                          gx_ref operands[], int *count)
{
    const gx_type *t = &g->node[grids].type;
    if (t->rows == 1 && t->cols == 1) {
        if (!gx_take_whole(g, grids, "grids", &node->whole[HEIGHT])) {
            return -1;
        }
        if (node->whole[HEIGHT] < 1 || G->rows % node->whole[HEIGHT] != 0) {
            gx_graph_fail(g, "%lld rows are no whole number of grids of %lld", (long long)G->rows,
                          (long long)node->whole[HEIGHT]);
            return -1;
        }
        return G->cols > 0 ? G->rows / node->whole[HEIGHT] : 0;
    }
    if (t->cols != 3) {
        gx_shape_fail(g, grids,
                      "grids are a number of rows, or a table of 3 columns: first row, "
                      "rows, cols");
        return -1;
    }
    operands[(*count)++] = grids;
    return t->rows;
}

/* Arguments after the rule into node and operands; false: refused. */
static bool take_arguments(gx_graph *g, gx_node *node, const gx_ref *in, gx_grid_id id,
                           gx_ref operands[], int *count)
{
    const char *kinds = gx_grid_kinds(id);
    int numbers = 0;
    gx_mat mats[2];
    gx_grid_call call = {.id = id, .in = {&mats[0], &mats[1]}};
    gx_err err = {0};
    for (int k = 0; kinds[k] != '\0'; k++) {
        if (kinds[k] != 'i') {
            source_of(g, in[k], &mats[*count]);
            operands[(*count)++] = in[k];
            if (gx_grid_is_of_colours(&mats[*count - 1], &err) != GX_OK) {
                gx_graph_fail(g, "%s", err.text);
                return false;
            }
        } else if (!gx_take_whole(g, in[k], "an argument", &node->whole[numbers++])) {
            return false;
        }
    }
    memcpy(call.number, node->whole, sizeof call.number);
    if (id != GX_GRID_LABEL && gx_grid_check(&call, &err) != GX_OK) {
        gx_graph_fail(g, "%s", err.text);
    }
    return gx_graph_ok(g);
}

gx_ref gx_check_grid(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    gx_grid_id id = (gx_grid_id)(node->op->id - GX_OP_GRID_LABEL);
    const gx_type *G = &g->node[in[0]].type;
    gx_ref operands[3];
    int least = id == GX_GRID_LABEL ? 3 : (int)strlen(gx_grid_kinds(id)), taken = 0;
    if ((id == GX_GRID_LABEL && !take_rule(g, node, in, count)) ||
        !take_arguments(g, node, in, id, operands, &taken)) {
        return GX_NO_NODE;
    }
    int64_t grids = 1;
    if (count > least) {
        grids = take_batch(g, node, in[least], G, operands, &taken);
    }
    gx_grid_result result = gx_grid_result_of(id);
    bool is_number = result == GX_GRID_NUMBER;
    bool is_exact = is_number || result == GX_GRID_LABELS;
    node->type = (gx_type){is_number ? grids : G->rows, is_number ? 1 : G->cols,
                           is_exact ? GX_F64 : G->dtype, 0, false};
    return grids < 0 ? GX_NO_NODE : gx_graph_add(g, node, operands, taken);
}
