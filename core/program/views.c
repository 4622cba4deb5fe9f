/*
** Results of a program that are no copies: blocks, transposes and slices of others, and what its
** operands tell: Kronecker products, outer products, diagonals.
**
** Such a value is a composite source (mat/composite.h), whose leaves are stored operands, matrices
** in memory, or rectangles of them.  Who uses the value reads these.  It holds the values that it
** reads, which nobody overwrites then.
*/
#include "views.h"

#include "../mat/composite.h"

#include <string.h>

/* The leaves of the value that is made, and where the next input's go in it. */
typedef struct making {
    gx_exec *x;
    const gx_node *node;
    gx_mat *mat;   /* the value's source, and in its memory ...    */
    gx_mat *space; /* ... what a slice is of                       */
    gx_leaf *leaf;
    int64_t leaves, most;
    int64_t i0, j0; /* of the input that comes */
} making;

static gx_val *input(const gx_exec *x, const gx_node *node, int k)
{
    return x->val[gx_input(x->g, node, k)];
}

/* How many leaves an input comes to; 0: it has to be copied. */
static int64_t leaves_of(const gx_val *val)
{
    bool is_there = val->data != NULL || val->sink != NULL || val->mat != NULL;
    bool is_source = is_there && val->product == NULL && !gx_is_sparse(&val->type);
    return !is_source ? 0 : val->source == NULL ? 1 : val->source->leaves;
}

/* A leaf of an input, which has rows x cols elements, in the result. */
static void add(making *m, const gx_leaf *from)
{
    gx_leaf *leaf = &m->leaf[m->leaves++];
    gx_op_id op = m->node->op->id;
    *leaf = *from;
    if (op == GX_OP_TRANSPOSE || op == GX_OP_ADJOINT) {
        gx_leaf_turn(leaf);
    }
    leaf->i0 += m->i0;
    leaf->j0 += m->j0;
    if (op == GX_OP_ADJOINT) {
        leaf->is_conjugated = !from->is_conjugated;
        leaf->factor.im = -from->factor.im;
    }
}

/* An input as it is read; its leaves where it is a view itself. */
static void add_input(making *m, gx_val *val)
{
    gx_leaf whole = {.rows = val->type.rows, .cols = val->type.cols, .factor = GX_ONE};
    for (int64_t k = 0; val->source != NULL && k < val->source->leaves; k++) {
        add(m, &val->source->leaf[k]);
    }
    if (val->source == NULL) {
        whole.base = *gx_val_mat(m->x, val, "an intermediate", &whole.base);
        add(m, &whole);
    }
}

/* An input as an operand of a leaf: a vector as a column, or turned as a row. */
static void take_operand(making *m, int k, bool is_row, gx_mat *space, gx_mat *out)
{
    gx_val *val = input(m->x, m->node, k);
    bool is_outer = m->node->op->id == GX_OP_OUTER;
    bool is_turned =
        is_outer && (val->type.rows == 1) != is_row && val->type.rows != val->type.cols;
    *space = *gx_val_mat(m->x, val, "an intermediate", space);
    *out = *space;
    if (is_turned) {
        gx_mat_view(out, space, GX_TRANS, 0, 0, val->type.cols, val->type.rows);
    }
}

/* What a product need not be made of: kron, outer, diag of a vector, eye. */
static void add_made(making *m)
{
    gx_leaf *leaf = &m->leaf[m->leaves++];
    gx_op_id op = m->node->op->id;
    *leaf = (gx_leaf){.rows = m->node->type.rows, .cols = m->node->type.cols, .factor = GX_ONE};
    leaf->kind = op == GX_OP_KRON    ? GX_LEAF_KRON
                 : op == GX_OP_OUTER ? GX_LEAF_PRODUCT
                 : op == GX_OP_DIAG  ? GX_LEAF_DIAGONAL
                                     : GX_LEAF_NUMBER;
    if (op != GX_OP_EYE) {
        take_operand(m, 0, false, m->space, &leaf->base);
    }
    if (op == GX_OP_KRON || op == GX_OP_OUTER) {
        take_operand(m, 1, true, m->space + 1, &leaf->second);
    }
}

/* A rectangle of one. */
static void add_slice(making *m, gx_val *val)
{
    const int64_t *w = m->node->whole;
    gx_leaf part = {.rows = m->node->type.rows, .cols = m->node->type.cols, .factor = GX_ONE};
    *m->space = *gx_val_mat(m->x, val, "an intermediate", m->space);
    gx_mat_view(&part.base, m->space, GX_NO_TRANS, w[0], w[3], part.rows, part.cols);
    add(m, &part);
}

/* One reader serves one database. */
static bool is_of_one_schema(const gx_mat *mat)
{
    const gx_mat *first = gx_mat_base_number(mat, 0), *other;
    for (int64_t k = 1; (other = gx_mat_base_number(mat, k)) != NULL; k++) {
        if (strcmp(other->meta.schema, first->meta.schema) != 0) {
            return false;
        }
    }
    return true;
}

/* Pieces as its first stored matrix has them: those fit the limits that its maker had set. */
static void choose_pieces(gx_mat *mat)
{
    const gx_mat *first = gx_mat_base_number(mat, 0);
    if (first != NULL && !first->is_sparse) {
        mat->tile_rows = gx_max(1, gx_min(first->tile_rows, mat->rows));
        mat->tile_cols = gx_max(1, gx_min(first->tile_cols, mat->cols));
    }
}

static bool is_made(const gx_node *node)
{
    gx_op_id op = node->op->id;
    return op == GX_OP_KRON || op == GX_OP_OUTER || op == GX_OP_DIAG || op == GX_OP_EYE;
}

/* Does who uses it need no elements: products, systems, and what passes it on to these? */
static bool is_for_parts(const gx_exec *x, const gx_node *node)
{
    bool is_it = true, is_used = false;
    for (int32_t n = 0; n < x->g->nodes && is_it; n++) {
        const gx_node *user = &x->g->node[n];
        gx_op_id op = user->op->id;
        bool is_user = false;
        for (int k = 0; k < user->count && user->uses > 0; k++) {
            is_user = is_user || gx_input_node(x->g, user, k) == node;
        }
        is_it = !is_user || op == GX_OP_MATMUL || op == GX_OP_SOLVE || op == GX_OP_TRANSPOSE ||
                op == GX_OP_ADJOINT || op == GX_OP_TRACE || op == GX_OP_DET || op == GX_OP_LOGDET ||
                op == GX_OP_KRON;
        is_used = is_used || is_user;
    }
    return is_it && is_used;
}

/*
** Is it worth more than a copy, one that does not fit, or that is read once?  Under `deterministic`
** what memory there is decides nothing.
*/
static bool is_worth_it(const gx_exec *x, const gx_node *node)
{
    size_t bytes = 0;
    bool is_size = gx_matrix_bytes(node->type.rows, node->type.cols, node->type.dtype, &bytes);
    bool is_large = !is_size || bytes >= GX_LARGE_BYTES;
    if (is_made(node) && is_size && bytes < gx_mem_available(x->run->ctx->mem) / 3 &&
        !is_for_parts(x, node)) {
        return false;
    }
    if (gx_is_deterministic(x)) {
        return is_large;
    }
    return bytes >= gx_mem_available(x->run->ctx->mem) / 3 ||
           (is_large && node->uses == 1 && x->g->blocks == 1);
}

static bool is_slice(const gx_node *node)
{
    return node->op->id == GX_OP_SLICE;
}

/* Memory for the value's source: mat, and behind it the leaves; false: failed. */
static bool give_source(making *m, int inputs, gx_val *val)
{
    const gx_type *t = &m->node->type;
    size_t bytes =
        3 * sizeof(gx_mat) + (size_t)m->most * sizeof(gx_leaf) + (size_t)inputs * sizeof(gx_val *);
    m->mat = gx_run_calloc(m->x->run, bytes, "a program's value");
    if (m->mat != NULL) {
        m->space = m->mat + 1;
        m->leaf = (gx_leaf *)(void *)(m->mat + 3);
        val->held = (gx_val **)(void *)(m->leaf + m->most);
        val->holds = 0;
        gx_mat_composite(m->mat, "an intermediate", t->dtype, t->rows, t->cols);
        val->mat = val->source = m->mat;
    }
    return m->mat != NULL;
}

bool gx_lower_as_view(gx_exec *x, const gx_node *node)
{
    making m = {.x = x, .node = node};
    int inputs = is_slice(node)              ? 1 // the others are its bounds
                 : node->op->id == GX_OP_EYE ? 0 // ... or sizes
                                             : node->count;
    for (int k = 0; k < inputs && gx_ok(x->run); k++) {
        int64_t count = leaves_of(input(x, node, k));
        if (count == 0) {
            return false;
        }
        m.most += is_slice(node) || is_made(node) ? 1 : count;
    }
    m.most += node->op->id == GX_OP_EYE;
    if (!gx_ok(x->run) || x->on->call.accel != NULL || m.most > GX_COMPOSITE_LEAVES ||
        !is_worth_it(x, node)) {
        return false;
    }
    gx_val *val = gx_val_of(x, &node->type);
    if (val == NULL || !give_source(&m, inputs, val)) {
        gx_val_release(x, val);
        return true; // failed
    }
    for (int k = 0; k < inputs; k++) {
        gx_val *in = input(x, node, k);
        val->held[val->holds++] = in;
        in->refs++;
        if (is_slice(node)) {
            add_slice(&m, in);
        } else if (!is_made(node)) {
            add_input(&m, in);
        }
        m.i0 += node->op->id == GX_OP_VSTACK ? in->type.rows : 0;
        m.j0 += node->op->id == GX_OP_HSTACK ? in->type.cols : 0;
    }
    if (is_made(node)) {
        add_made(&m);
    }
    m.mat->leaf = m.leaf;
    m.mat->leaves = m.leaves;
    if (!is_of_one_schema(m.mat)) {
        gx_val_release(x, val);
        return false;
    }
    choose_pieces(m.mat);
    gx_val_put(x, gx_result_ref(x, node, 0), val);
    return true;
}
