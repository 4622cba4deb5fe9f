/*
** Chains of products in the order that costs least, as NumPy's multi_dot: A @ B @ C @ x is
** A @ (B @ (C @ x)), wherever the program put parentheses.
**
** The operands of all @ that hang together are compiled in the order of the text; then, for each
** part of the chain, the cheapest place of its last product is found from those of shorter parts.
** A sparse operand costs by its entries; two of them have no product here.
*/
#include "compile.h"

#include "ops.h"
#include "shape.h"

#include <math.h>
#include <string.h>

enum { CHAIN_MOST = 24 };

typedef struct chain {
    const gx_item *leaf[CHAIN_MOST];
    const gx_item *sign[CHAIN_MOST]; /* sign[k] stands after leaf k */
    gx_ref ref[CHAIN_MOST];
    int count;
    bool is_long;
    double cost[CHAIN_MOST][CHAIN_MOST]; /* flops of leaves i .. j  */
    int split[CHAIN_MOST][CHAIN_MOST];   /* the last leaf on the left of the last product */
} chain;

static void collect(chain *ch, const gx_item *item)
{
    bool is_product =
        item->form == GX_FORM_CALL && item->is_infix && strcmp(item->text, "matmul") == 0;
    if (is_product) {
        collect(ch, item->first);
        if (ch->count > 0 && !ch->is_long) {
            ch->sign[ch->count - 1] = item;
        }
        collect(ch, item->first->next);
    } else if (ch->count == CHAIN_MOST) {
        ch->is_long = true;
    } else {
        ch->leaf[ch->count++] = item;
    }
}

/* Flops of the product of leaves i .. k with leaves k + 1 .. j. */
static double product_cost(const gx_graph *g, const chain *ch, const double *side, int i, int k,
                           int j)
{
    gx_ref left = ch->ref[i], right = ch->ref[j];
    bool is_left = i == k && gx_is_sparse(&g->node[left].type);
    bool is_right = j == k + 1 && gx_is_sparse(&g->node[right].type);
    if (is_left && is_right) {
        return (double)INFINITY;
    }
    return is_left    ? 2 * (double)gx_graph_entries(g, left) * side[j + 1]
           : is_right ? 2 * (double)gx_graph_entries(g, right) * side[i]
                      : 2 * side[i] * side[k + 1] * side[j + 1];
}

static void plan(const gx_graph *g, chain *ch)
{
    double side[CHAIN_MOST + 1];
    for (int k = 0; k < ch->count; k++) {
        side[k] = (double)g->node[ch->ref[k]].type.rows;
        side[k + 1] = (double)g->node[ch->ref[k]].type.cols;
        ch->cost[k][k] = 0;
    }
    for (int length = 2; length <= ch->count; length++) {
        for (int i = 0; i + length <= ch->count; i++) {
            int j = i + length - 1;
            ch->cost[i][j] = (double)INFINITY;
            ch->split[i][j] = j - 1;
            for (int k = j - 1; k >= i; k--) { // of equal costs as Python would: from the left
                double cost = ch->cost[i][k] + ch->cost[k + 1][j];
                cost += product_cost(g, ch, side, i, k, j);
                if (cost < ch->cost[i][j]) {
                    ch->cost[i][j] = cost;
                    ch->split[i][j] = k;
                }
            }
        }
    }
}

/* Leaves i .. j as one node. */
static gx_ref build(gx_compiler *c, const chain *ch, int i, int j)
{
    if (i == j) {
        return ch->ref[i];
    }
    int k = ch->split[i][j];
    gx_ref in[2] = {build(c, ch, i, k), build(c, ch, k + 1, j)};
    if (in[0] == GX_NO_NODE || in[1] == GX_NO_NODE) {
        return GX_NO_NODE;
    }
    gx_node node = {.op = gx_op_row(GX_OP_MATMUL)};
    gx_compile_at(c, ch->sign[k]);
    return gx_check_matmul(c->g, &node, in, 2);
}

/* More leaves than the table holds: as they are written. */
static gx_ref as_written(gx_compiler *c, const gx_item *item)
{
    gx_ref in[2];
    bool is_product =
        item->form == GX_FORM_CALL && item->is_infix && strcmp(item->text, "matmul") == 0;
    if (!is_product) {
        return gx_compile_expression(c, item);
    }
    in[0] = as_written(c, item->first);
    in[1] = in[0] == GX_NO_NODE ? GX_NO_NODE : as_written(c, item->first->next);
    gx_node node = {.op = gx_op_row(GX_OP_MATMUL)};
    gx_compile_at(c, item);
    return in[1] == GX_NO_NODE ? GX_NO_NODE : gx_check_matmul(c->g, &node, in, 2);
}

gx_ref gx_compile_product(gx_compiler *c, const gx_item *item)
{
    chain ch = {.count = 0};
    gx_graph *g = c->g;
    collect(&ch, item);
    if (ch.is_long) {
        return as_written(c, item);
    }
    for (int k = 0; k < ch.count; k++) {
        ch.ref[k] = gx_compile_expression(c, ch.leaf[k]);
        if (ch.ref[k] == GX_NO_NODE) {
            return GX_NO_NODE;
        }
    }
    for (int k = 0; k + 1 < ch.count; k++) {
        if (g->node[ch.ref[k]].type.cols != g->node[ch.ref[k + 1]].type.rows) {
            gx_node node = {.op = gx_op_row(GX_OP_MATMUL)};
            gx_compile_at(c, ch.sign[k]);
            return gx_check_matmul(g, &node, &ch.ref[k], 2); // says so
        }
    }
    plan(g, &ch);
    return build(c, &ch, 0, ch.count - 1);
}
