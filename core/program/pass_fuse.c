/*
** Elementwise functions that hang together become one node, computed in one pass (fused.h).
**
** A group grows from the function whose result somebody else wants, towards its operands: a
** function joins where all that use it are in the group, in the same block, of the same shape and
** dtype.  A sum, mean, norm, least or largest element of a group that nobody else wants is folded
** on the way and its elements are never stored.  Numbers that are known become constants.
*/
#include "../base/fused.h"
#include "graph.h"
#include "ops.h"

enum { MEMBERS_MOST = 40 };

typedef struct group {
    gx_graph *g;
    gx_ref root; /* the last function                                             */
    gx_ref member[MEMBERS_MOST];
    int members;
    gx_ref input[GX_FUSED_INPUTS];
    int inputs;
} group;

static bool is_member(const group *s, gx_ref ref)
{
    for (int k = 0; k < s->members; k++) {
        if (s->member[k] == ref) {
            return true;
        }
    }
    return false;
}

static bool is_constant(const gx_node *node)
{
    return node->op->id == GX_OP_NUMBER && node->is_known;
}

/* Uses of ref by members. */
static int uses_inside(const group *s, gx_ref ref)
{
    int uses = 0;
    for (int k = 0; k < s->members; k++) {
        const gx_node *node = gx_at_node(s->g, s->member[k]);
        for (int i = 0; i < node->count; i++) {
            uses += gx_input(s->g, node, i) == ref;
        }
    }
    return uses;
}

/* What the members read from outside, numbers apart; false: too much. */
static bool find_inputs(group *s)
{
    s->inputs = 0;
    for (int k = 0; k < s->members; k++) {
        const gx_node *node = gx_at_node(s->g, s->member[k]);
        for (int i = 0; i < node->count; i++) {
            gx_ref in = gx_input(s->g, node, i);
            bool is_new = !is_member(s, in) && !is_constant(gx_at_node(s->g, in));
            for (int q = 0; q < s->inputs && is_new; q++) {
                is_new = s->input[q] != in;
            }
            if (is_new && s->inputs == GX_FUSED_INPUTS) {
                return false;
            }
            if (is_new) {
                s->input[s->inputs++] = in;
            }
        }
    }
    return true;
}

static bool may_join(const group *s, gx_ref ref)
{
    const gx_node *node = gx_at_node(s->g, ref), *root = gx_at_node(s->g, s->root);
    return node->op->id == GX_OP_MAP && node->block == root->block && !is_member(s, ref) &&
           node->type.rows == root->type.rows && node->type.cols == root->type.cols &&
           node->type.dtype == root->type.dtype && node->uses == uses_inside(s, ref);
}

/* Members by number, so that operands come first. */
static void insert(group *s, gx_ref ref)
{
    int at = s->members++;
    for (; at > 0 && s->member[at - 1] > ref; at--) {
        s->member[at] = s->member[at - 1];
    }
    s->member[at] = ref;
}

static void take_out(group *s, gx_ref ref)
{
    int kept = 0;
    for (int k = 0; k < s->members; k++) {
        if (s->member[k] != ref) {
            s->member[kept++] = s->member[k];
        }
    }
    s->members = kept;
}

/* The latest operand that may join; GX_NO_NODE: none, or it is one of those that did not fit. */
static gx_ref next_member(const group *s, gx_ref below)
{
    gx_ref best = GX_NO_NODE;
    for (int k = 0; k < s->members; k++) {
        const gx_node *node = gx_at_node(s->g, s->member[k]);
        for (int i = 0; i < node->count; i++) {
            gx_ref in = gx_input(s->g, node, i);
            if (in > best && in < below && may_join(s, in)) {
                best = in;
            }
        }
    }
    return best;
}

static void grow(group *s, int most)
{
    gx_ref below = s->root, next;
    s->members = 0;
    insert(s, s->root);
    while (s->members < most && (next = next_member(s, below)) != GX_NO_NODE) {
        insert(s, next);
        if (!find_inputs(s)) {
            take_out(s, next);
        }
        below = next; // every user of an operand has a larger number: one look at each is enough
    }
    find_inputs(s);
}

/* The number of a value in the program. */
static int value_of(const group *s, gx_fused *f, const int *result, gx_ref ref)
{
    for (int k = 0; k < s->members; k++) {
        if (s->member[k] == ref) {
            return result[k];
        }
    }
    for (int k = 0; k < s->inputs; k++) {
        if (s->input[k] == ref) {
            return k; // inputs are numbered from 0
        }
    }
    return gx_fused_constant(f, gx_at_node(s->g, ref)->value);
}

/* false: too large in some way. */
static bool write_down(const group *s, gx_fold fold, gx_fold_of of, gx_fused *f)
{
    int result[MEMBERS_MOST];
    gx_fused_begin(f, gx_at_node(s->g, s->root)->type.dtype);
    for (int k = 0; k < s->inputs; k++) {
        gx_fused_input(f);
    }
    for (int k = 0; k < s->members; k++) {
        const gx_node *node = gx_at_node(s->g, s->member[k]);
        int v[3] = {GX_FUSED_NONE, GX_FUSED_NONE, GX_FUSED_NONE};
        for (int i = 0; i < node->count; i++) {
            v[i] = value_of(s, f, result, gx_input(s->g, node, i));
        }
        bool is_scaled = node->map == GX_MAP_ADD || node->map == GX_MAP_SCALE;
        result[k] = is_scaled ? gx_fused_scaled(f, node->map, node->alpha, v[0], node->beta, v[1])
                              : gx_fused_step(f, node->map, v[0], v[1], v[2]);
    }
    int output = gx_fused_output(f, result[s->members - 1], fold, of);
    if (output >= 0) {
        f->output[output].is_real = fold == GX_FOLD_NORM;
    }
    return gx_fused_end(f);
}

/* The fold that a reduction is; false: it is none. */
static bool fold_of(const gx_node *node, gx_fold *fold, gx_fold_of *of)
{
    switch (node->op->id) {
    case GX_OP_SUM:
    case GX_OP_MEAN:
        *fold = GX_FOLD_SUM;
        break;
    case GX_OP_MIN:
        *fold = GX_FOLD_MIN;
        break;
    case GX_OP_MAX:
        *fold = GX_FOLD_MAX;
        break;
    case GX_OP_NORM:
        *fold = GX_FOLD_NORM;
        *of = GX_FOLD_OF_ALL;
        return node->whole[0] == 'F';
    default:
        return false;
    }
    *of = node->whole[0] < 0    ? GX_FOLD_OF_ALL
          : node->whole[0] == 0 ? GX_FOLD_OF_COLS
                                : GX_FOLD_OF_ROWS;
    return true;
}

/* The function that a reduction may take in; GX_NO_NODE: none. */
static gx_ref folded(const gx_graph *g, const gx_node *node, gx_fold *fold, gx_fold_of *of)
{
    if (!fold_of(node, fold, of)) {
        return GX_NO_NODE;
    }
    gx_ref ref = gx_input(g, node, 0);
    const gx_node *map = gx_at_node(g, ref);
    bool is_right = map->op->id == GX_OP_MAP && map->uses == 1 && map->block == node->block &&
                    map->type.rows > 0 && map->type.cols > 0;
    return is_right ? ref : GX_NO_NODE;
}

/* What a mean divides by, as a factor. */
static double share_of(const gx_node *node, const gx_type *of)
{
    double rows = (double)of->rows, cols = (double)of->cols;
    if (node->op->id != GX_OP_MEAN) {
        return 1;
    }
    return 1 / (node->whole[0] < 0 ? rows * cols : node->whole[0] == 0 ? rows : cols);
}

/* The node becomes the group. */
static void replace(const group *s, gx_ref ref, const gx_fused *f)
{
    gx_graph *g = s->g;
    int32_t inputs = gx_graph_pool(g, s->inputs);
    gx_fused *kept = gx_graph_take(g, sizeof *kept);
    if (kept == NULL || !gx_graph_ok(g)) {
        return;
    }
    *kept = *f;
    gx_node *node = gx_at_node(g, ref);
    const gx_type of = g->node[s->root].type;
    if (f->output[0].fold != GX_FOLD_NONE) {
        node->alpha = (gx_scalar){share_of(node, &of), 0};
        node->whole[0] = of.rows;
        node->whole[1] = of.cols;
    }
    node->op = gx_op_row(GX_OP_FUSED);
    node->fused = kept;
    node->inputs = inputs;
    node->count = s->inputs;
    for (int k = 0; k < s->inputs; k++) {
        g->pool[inputs + k] = s->input[k];
    }
    for (int k = 0; k < s->members; k++) {
        if (s->member[k] != ref) {
            g->node[s->member[k]].is_live = false;
            g->node[s->member[k]].uses = 0;
        }
    }
}

static void fuse_at(gx_graph *g, gx_ref ref)
{
    gx_fold fold = GX_FOLD_NONE;
    gx_fold_of of = GX_FOLD_OF_ALL;
    const gx_node *node = gx_at_node(g, ref);
    gx_fused f;
    group s = {.g = g, .root = ref};
    if (node->op->id != GX_OP_MAP) {
        s.root = folded(g, node, &fold, &of);
        if (s.root == GX_NO_NODE) {
            return;
        }
    }
    for (int most = MEMBERS_MOST; most >= 1; most /= 2) {
        grow(&s, most);
        if (write_down(&s, fold, of, &f)) {
            replace(&s, ref, &f);
            return;
        }
    }
}

void gx_graph_fuse(gx_graph *g)
{
    for (int32_t k = g->nodes - 1; k >= 0 && gx_graph_ok(g); k--) {
        if (g->node[k].is_live) {
            fuse_at(g, k);
        }
    }
}
