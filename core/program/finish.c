/*
** The last pass: dead nodes, and when values end.
**
** A node is live where an output, the result, or a live node wants it; of a loop all variables are.
** What a node is the last to use in its own block is freed after it; what inner blocks use is used
** by the loop or choice they belong to.  Parameters and results of a block end with it.
**
** A product that one elementwise group alone uses is marked: the group may finish its blocks.
*/
#include "graph.h"
#include "lower.h"

#include "../base/fused.h"
#include "ops.h"

static void want(gx_graph *g, gx_ref ref)
{
    if (ref != GX_NO_NODE) {
        g->node[ref].is_live = true;
        g->node[ref].uses++;
    }
}

static void want_results(gx_graph *g, int32_t block)
{
    const gx_region *b = &g->block[block];
    for (int32_t k = 0; k < b->result_count; k++) {
        want(g, g->pool[b->results + k]);
    }
}

/* Operands come before their users, and what is in a block before its loop: one sweep backwards. */
void gx_graph_count(gx_graph *g)
{
    for (int32_t k = 0; k < g->nodes; k++) {
        g->node[k].is_live = false;
        g->node[k].uses = 0;
    }
    want(g, g->result);
    for (int k = 0; k < g->outputs; k++) {
        want(g, g->output[k].node);
    }
    for (int32_t k = g->nodes - 1; k >= 0; k--) {
        const gx_node *node = &g->node[k];
        if (!node->is_live) {
            continue;
        }
        for (int i = 0; i < node->count; i++) {
            want(g, gx_input(g, node, i));
        }
        for (int i = 0; i < 2; i++) {
            if (node->inner[i] > 0) {
                g->block[node->inner[i]].owner = k;
                want_results(g, node->inner[i]);
            }
        }
    }
}

static void drop_dead(gx_graph *g)
{
    for (int32_t b = 0; b < g->blocks; b++) {
        gx_region *block = &g->block[b];
        int32_t kept = 0;
        for (int32_t k = 0; k < block->count; k++) {
            if (g->node[block->nodes[k]].is_live) {
                block->nodes[kept++] = block->nodes[k];
            }
        }
        block->count = kept;
    }
}

static void join_products(gx_graph *g)
{
    for (int32_t k = 0; k < g->nodes; k++) {
        const gx_node *node = &g->node[k];
        bool is_one = node->is_live && node->op->id == GX_OP_FUSED &&
                      node->fused->output[0].fold == GX_FOLD_NONE;
        for (int i = 0; i < node->count && is_one; i++) {
            gx_node *in = gx_input_node(g, node, i);
            in->is_joined = in->op->id == GX_OP_MATMUL && in->uses == 1 &&
                            in->block == node->block && in->type.rows == node->type.rows &&
                            in->type.cols == node->type.cols &&
                            in->type.dtype == node->type.dtype &&
                            in->type.dtype == node->fused->dtype;
            is_one = !in->is_joined; // one of them
        }
    }
}

static gx_node *transform_for(const gx_graph *g, const gx_node *user)
{
    gx_node *in = user->count > 0 ? gx_input_node(g, user, 0) : NULL;
    bool is_it = in != NULL && in->op->run == gx_lower_fft && in->uses == 1 &&
                 in->block == user->block;
    return is_it ? in : NULL;
}

/* A transform that one reduction alone uses; and one of real columns that its rows alone are of. */
static void join_transforms(gx_graph *g)
{
    for (int32_t k = 0; k < g->nodes; k++) {
        const gx_node *node = &g->node[k];
        bool is_norm = node->op->id == GX_OP_NORM && node->whole[0] != '2' && node->whole[0] != 'N';
        bool is_sum = node->op->id == GX_OP_SUM || node->op->id == GX_OP_MEAN;
        gx_node *last = node->is_live && (is_norm || is_sum) ? transform_for(g, node) : NULL;
        gx_node *first = last == NULL ? NULL : transform_for(g, last);
        if (last != NULL) {
            last->is_joined = true;
        }
        if (first != NULL) {
            const gx_fft_args a = gx_fft_args_of(first), b = gx_fft_args_of(last);
            first->is_half = a.kind == GX_FFT_FORWARD && b.kind == GX_FFT_FORWARD &&
                             a.axis == 0 && b.axis == 1 &&
                             !gx_number_is_complex(gx_input_node(g, first, 0)->type.dtype);
        }
    }
}

/* The node of `block` that node stands in, or is. */
static gx_ref user_in(const gx_graph *g, int32_t block, gx_ref ref)
{
    while (g->node[ref].block != block) {
        ref = g->block[g->node[ref].block].owner;
    }
    return ref;
}

/* last[v] = the node of v's own block that uses it last. */
static void use(const gx_graph *g, gx_ref *last, gx_ref value, gx_ref user)
{
    gx_ref in_block = user_in(g, g->node[value].block, user);
    if (in_block > last[value]) {
        last[value] = in_block;
    }
}

static void find_last_uses(const gx_graph *g, gx_ref *last)
{
    for (int32_t k = 0; k < g->nodes; k++) {
        const gx_node *node = &g->node[k];
        for (int i = 0; i < node->count && node->is_live; i++) {
            use(g, last, gx_input(g, node, i), k);
        }
    }
    for (int32_t b = 1; b < g->blocks; b++) { // what a block results in, it holds until it ends
        const gx_region *block = &g->block[b];
        for (int32_t k = 0; k < block->result_count; k++) {
            gx_ref ref = g->pool[block->results + k];
            if (g->node[ref].block == b) {
                last[ref] = INT32_MAX;
            } else if (block->owner != GX_NO_NODE && g->node[block->owner].is_live) {
                use(g, last, ref, block->owner);
            }
        }
    }
}

void gx_graph_finish(gx_graph *g)
{
    for (int32_t b = 0; b < g->blocks; b++) {
        g->block[b].owner = GX_NO_NODE;
    }
    gx_graph_count(g);
    drop_dead(g);
    join_products(g);
    join_transforms(g);
    gx_ref *last = gx_graph_take(g, (size_t)(g->nodes + 1) * sizeof *last);
    if (last == NULL) {
        return;
    }
    for (int32_t k = 0; k < g->nodes; k++) {
        last[k] = GX_NO_NODE;
        g->node[k].first_dead = g->node[k].next_dead = GX_NO_NODE;
    }
    find_last_uses(g, last);
    for (int k = 0; k < g->outputs; k++) {
        last[g->output[k].node] = INT32_MAX;
    }
    if (g->result != GX_NO_NODE) {
        last[g->result] = INT32_MAX;
    }
    for (int32_t k = 0; k < g->nodes; k++) {
        if (g->node[k].is_live && last[k] >= 0 && last[k] != INT32_MAX) {
            gx_node *user = &g->node[last[k]];
            g->node[k].next_dead = user->first_dead;
            user->first_dead = k;
        }
    }
}
