/*
** Shapes of what is made, reduced and rearranged: see shape.h.  Those of algebra: shape_algebra.c.
*/
#include "shape.h"

#include <math.h>
#include <string.h>

// Arguments that are known ------------------------------------------------------------------------

bool gx_take_number(gx_graph *g, gx_ref ref, const char *what, double *out)
{
    gx_scalar value;
    if (ref == GX_NO_NODE || !gx_graph_ok(g)) {
        return false;
    }
    if (!gx_graph_value(g, ref, &value) || value.im != 0) {
        gx_graph_fail(g, "%s must be a number that is known before the program runs", what);
        return false;
    }
    *out = value.re;
    return true;
}

bool gx_take_whole(gx_graph *g, gx_ref ref, const char *what, int64_t *out)
{
    double value;
    if (!gx_take_number(g, ref, what, &value)) {
        return false;
    }
    if (value != floor(value) || fabs(value) > 0x1p53) {
        gx_graph_fail(g, "%s must be a whole number%s, not %g", what,
                      fabs(value) > 0x1p53 ? " of at most 2^53" : "", value);
        return false;
    }
    *out = (int64_t)value;
    return true;
}

/* A side of a matrix. */
static bool take_side(gx_graph *g, gx_ref ref, const char *what, int64_t *out)
{
    if (!gx_take_whole(g, ref, what, out)) {
        return false;
    }
    if (*out < 0 || *out > GX_SIDE_MAX) {
        gx_graph_fail(g, "%s must be from 0 to 2^40, not %lld", what, (long long)*out);
        return false;
    }
    return true;
}

bool gx_take_axis(gx_graph *g, const gx_ref *in, int count, int k, int64_t fallback, int64_t *axis)
{
    *axis = fallback;
    if (k >= count) {
        return true;
    }
    if (!gx_take_whole(g, in[k], "axis", axis)) {
        return false;
    }
    if (*axis != 0 && *axis != 1) {
        gx_graph_fail(g, "axis must be 0 (down the columns) or 1 (along the rows), not %lld",
                      (long long)*axis);
        return false;
    }
    return true;
}

bool gx_take_word(gx_graph *g, gx_ref ref, const char *what, const char *words, int64_t *out)
{
    const char *word = gx_graph_word(g, ref), *at = words;
    for (int64_t k = 0; word != NULL && at != NULL; k++) {
        size_t length = strcspn(at, "|");
        if (strlen(word) == length && memcmp(at, word, length) == 0) {
            *out = k;
            return true;
        }
        at = at[length] == '\0' ? NULL : at + length + 1;
    }
    gx_graph_fail(g, "%s is one of the words %s", what, words);
    return false;
}

gx_ref gx_shape_fail(gx_graph *g, gx_ref ref, const char *what)
{
    const gx_type *t = &g->node[ref].type;
    return gx_graph_fail(g, "%s is %lldx%lld, but %s", gx_graph_label(g, ref, "the operand"),
                         (long long)t->rows, (long long)t->cols, what);
}

bool gx_is_vector(const gx_type *type)
{
    return type->rows == 1 || type->cols == 1;
}

gx_type gx_strong(const gx_graph *g, gx_ref ref)
{
    gx_type type = g->node[ref].type;
    type.is_weak = false;
    type.properties = 0;
    return type;
}

static gx_ref refuse_complex(gx_graph *g, gx_ref ref)
{
    return gx_graph_fail(g, "%s is complex (%s): complex numbers have no order",
                         gx_graph_label(g, ref, "the operand"),
                         gx_number_name(g->node[ref].type.dtype));
}

// Sizes -------------------------------------------------------------------------------------------

gx_ref gx_check_rows(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)node;
    (void)count;
    return gx_graph_number(g, (gx_scalar){(double)g->node[in[0]].type.rows, 0}, false);
}

gx_ref gx_check_cols(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)node;
    (void)count;
    return gx_graph_number(g, (gx_scalar){(double)g->node[in[0]].type.cols, 0}, false);
}

gx_ref gx_check_size(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)node;
    (void)count;
    const gx_type *t = &g->node[in[0]].type;
    return gx_graph_number(g, (gx_scalar){(double)t->rows * (double)t->cols, 0}, false);
}

// What is made ------------------------------------------------------------------------------------

enum {
    SYMMETRIC = GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN,
    DIAGONAL = GX_PROP_LOWER | GX_PROP_UPPER
};

static bool take_sides(gx_graph *g, gx_node *node, const gx_ref *in, int count, bool is_square)
{
    node->type.dtype = GX_F64;
    if (!take_side(g, in[0], "the number of rows", &node->type.rows)) {
        return false;
    }
    node->type.cols = is_square ? node->type.rows : 1;
    return count < 2 || take_side(g, in[1], "the number of columns", &node->type.cols);
}

gx_ref gx_check_eye(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    if (!take_sides(g, node, in, count, true)) {
        return GX_NO_NODE;
    }
    node->type.properties = DIAGONAL | GX_PROP_UNIT;
    if (node->type.rows == node->type.cols) {
        node->type.properties |= SYMMETRIC | GX_PROP_POSITIVE | GX_PROP_ORTHOGONAL;
    }
    return gx_graph_add(g, node, NULL, 0);
}

gx_ref gx_check_filled(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    if (!take_sides(g, node, in, count, false)) {
        return GX_NO_NODE;
    }
    node->alpha.re = node->op->id == GX_OP_ONES;
    return gx_graph_add(g, node, NULL, 0);
}

gx_ref gx_check_random(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    if (!take_sides(g, node, in, 2, false) ||
        (count > 2 && !gx_take_whole(g, in[2], "seed", &node->whole[0]))) {
        return GX_NO_NODE;
    }
    return gx_graph_add(g, node, NULL, 0);
}

gx_ref gx_check_linspace(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    node->type = (gx_type){.cols = 1, .dtype = GX_F64};
    if (!gx_take_number(g, in[0], "a", &node->alpha.re) ||
        !gx_take_number(g, in[1], "b", &node->beta.re) ||
        !take_side(g, in[2], "n", &node->type.rows)) {
        return GX_NO_NODE;
    }
    double steps = (double)(node->type.rows - 1);
    node->alpha.im = steps > 0 ? (node->beta.re - node->alpha.re) / steps : 0;
    return isfinite(node->alpha.im) && isfinite(node->alpha.re)
               ? gx_graph_add(g, node, NULL, 0)
               : gx_graph_fail(g, "the range overflows");
}

/* alpha: start and step; beta: the last. */
gx_ref gx_check_arange(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    double start = 0, stop = 0, step = 1;
    node->type = (gx_type){.cols = 1, .dtype = GX_F64};
    if (count == 1 ? !gx_take_number(g, in[0], "the end", &stop)
                   : !gx_take_number(g, in[0], "the start", &start) ||
                         !gx_take_number(g, in[1], "the end", &stop) ||
                         (count > 2 && !gx_take_number(g, in[2], "the step", &step))) {
        return GX_NO_NODE;
    }
    double length = step == 0 ? (double)NAN : ceil((stop - start) / step);
    if (!(length <= (double)GX_SIDE_MAX) || !isfinite(start) || !isfinite(step)) {
        return gx_graph_fail(g, "from %g to %g in steps of %g is no range", start, stop, step);
    }
    node->type.rows = length > 0 ? (int64_t)length : 0;
    node->alpha = (gx_scalar){start, step};
    node->beta.re = start + (double)(node->type.rows - 1) * step;
    return gx_graph_add(g, node, NULL, 0);
}

// Reductions: whole[0] is the axis, -1: of all ----------------------------------------------------

/* What an empty line has one of: its sum is 0, its mean NaN; it has no least element. */
static bool may_be_empty(gx_op_id id)
{
    return id != GX_OP_MIN && id != GX_OP_MAX && id != GX_OP_ARGMIN && id != GX_OP_ARGMAX &&
           id != GX_OP_LOGSUMEXP && id != GX_OP_QUANTILE;
}

static gx_ref reduce(gx_graph *g, gx_node *node, const gx_ref *in, int count, gx_number dtype)
{
    const gx_type t = gx_strong(g, in[0]);
    if (!gx_take_axis(g, in, count, 1, -1, &node->whole[0])) {
        return GX_NO_NODE;
    }
    int64_t axis = node->whole[0];
    bool is_empty = axis == 0 ? t.rows == 0 : axis == 1 ? t.cols == 0 : t.rows == 0 || t.cols == 0;
    if (is_empty && !may_be_empty(node->op->id)) {
        return gx_shape_fail(g, in[0], "this is of at least one element");
    }
    node->type =
        (gx_type){.rows = axis == 1 ? t.rows : 1, .cols = axis == 0 ? t.cols : 1, .dtype = dtype};
    return gx_graph_add(g, node, in, 1);
}

gx_ref gx_check_reduce(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    return reduce(g, node, in, count, g->node[in[0]].type.dtype);
}

gx_ref gx_check_reduce_order(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    gx_number dtype = g->node[in[0]].type.dtype;
    return gx_number_is_complex(dtype) ? refuse_complex(g, in[0])
                                       : reduce(g, node, in, count, dtype);
}

gx_ref gx_check_reduce_truth(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    return reduce(g, node, in, count, gx_number_real(g->node[in[0]].type.dtype));
}

/* alpha: ddof. */
gx_ref gx_check_reduce_real(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    double *ddof = &node->alpha.re;
    if (count > 2 && !gx_take_number(g, in[2], "ddof", ddof)) {
        return GX_NO_NODE;
    }
    if (!(*ddof >= 0 && *ddof <= 0x1p53)) {
        return gx_graph_fail(g, "ddof must be from 0 to 2^53, not %g", *ddof);
    }
    bool is_of_all = count > 1 && gx_graph_word(g, in[1]) != NULL;
    if (is_of_all && strcmp(gx_graph_word(g, in[1]), "all") != 0) {
        return gx_graph_fail(g, "axis must be 0 (down the columns), 1 (along the rows) or 'all'");
    }
    return reduce(g, node, in, is_of_all ? 1 : count, gx_number_real(g->node[in[0]].type.dtype));
}

gx_ref gx_check_reduce_index(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    return gx_number_is_complex(g->node[in[0]].type.dtype) ? refuse_complex(g, in[0])
                                                           : reduce(g, node, in, count, GX_F64);
}

gx_ref gx_check_quantile(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    const gx_ref of[2] = {in[0], count > 2 ? in[2] : GX_NO_NODE};
    if (!gx_take_number(g, in[1], "q", &node->alpha.re)) {
        return GX_NO_NODE;
    }
    if (!(node->alpha.re >= 0 && node->alpha.re <= 1)) {
        return gx_graph_fail(g, "q must be from 0 to 1, not %g", node->alpha.re);
    }
    return gx_check_reduce_order(g, node, of, count - 1);
}

// Rearranged --------------------------------------------------------------------------------------

gx_ref gx_check_diag(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    gx_type t = gx_strong(g, in[0]);
    if (gx_is_vector(&t)) {
        node->type = (gx_type){.rows = t.rows * t.cols,
                               .cols = t.rows * t.cols,
                               .dtype = t.dtype,
                               .properties = DIAGONAL | GX_PROP_SYMMETRIC};
        node->whole[0] = 1;
    } else {
        node->type = (gx_type){.rows = gx_min(t.rows, t.cols), .cols = 1, .dtype = t.dtype};
    }
    return gx_graph_add(g, node, in, 1);
}

gx_ref gx_check_same_k(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    node->type = gx_strong(g, in[0]);
    if (count > 1 && !gx_take_whole(g, in[1], "k", &node->whole[0])) {
        return GX_NO_NODE;
    }
    if (node->whole[0] == 0) {
        node->type.properties = node->op->id == GX_OP_TRIU ? GX_PROP_UPPER : GX_PROP_LOWER;
    }
    return gx_graph_add(g, node, in, 1);
}

gx_ref gx_check_reshape(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    gx_type t = gx_strong(g, in[0]);
    int64_t m, n, size = t.rows * t.cols;
    if (!gx_take_whole(g, in[1], "the number of rows", &m) ||
        !gx_take_whole(g, in[2], "the number of columns", &n)) {
        return GX_NO_NODE;
    }
    m = m == -1 && n > 0 ? size / n : m;
    n = n == -1 && m > 0 ? size / m : n;
    if (m < 0 || n < 0 || m > GX_SIDE_MAX || n > GX_SIDE_MAX ||
        (double)m * (double)n != (double)size) {
        return gx_graph_fail(g, "%s is %lldx%lld: its elements do not make %lldx%lld",
                             gx_graph_label(g, in[0], "the operand"), (long long)t.rows,
                             (long long)t.cols, (long long)m, (long long)n);
    }
    node->type = (gx_type){.rows = m, .cols = n, .dtype = t.dtype};
    return gx_graph_add(g, node, in, 1);
}

gx_ref gx_check_flip(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    node->type = gx_strong(g, in[0]);
    return gx_take_axis(g, in, count, 1, -1, &node->whole[0]) ? gx_graph_add(g, node, in, 1)
                                                              : GX_NO_NODE;
}

gx_ref gx_check_roll(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    node->type = gx_strong(g, in[0]);
    int64_t fallback = node->type.rows == 1 ? 1 : 0;
    if (!gx_take_whole(g, in[1], "k", &node->whole[1]) ||
        !gx_take_axis(g, in, count, 2, fallback, &node->whole[0])) {
        return GX_NO_NODE;
    }
    return gx_graph_add(g, node, in, 1);
}

gx_ref gx_check_tile(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    int64_t m, n;
    node->type = gx_strong(g, in[0]);
    if (!take_side(g, in[1], "m", &m) || !take_side(g, in[2], "n", &n) ||
        !gx_mul_i64(m, node->type.rows, &node->type.rows) ||
        !gx_mul_i64(n, node->type.cols, &node->type.cols)) {
        return gx_graph_fail(g, "too many repetitions");
    }
    return gx_graph_add(g, node, in, 1);
}

gx_ref gx_check_repeated(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    node->type = gx_strong(g, in[0]);
    int64_t fallback = node->type.rows == 1 ? 1 : 0;
    if (!take_side(g, in[1], "n", &node->whole[1]) ||
        !gx_take_axis(g, in, count, 2, fallback, &node->whole[0])) {
        return GX_NO_NODE;
    }
    int64_t *side = node->whole[0] == 0 ? &node->type.rows : &node->type.cols;
    if (!gx_mul_i64(node->whole[1], *side, side)) {
        return gx_graph_fail(g, "too many repetitions");
    }
    return gx_graph_add(g, node, in, 1);
}

gx_ref gx_check_take(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    const gx_type *index = &g->node[in[1]].type;
    node->type = gx_strong(g, in[0]);
    bool is_empty = index->rows == 0 && index->cols == 0; // '[]', the vector of nothing
    if ((!gx_is_vector(index) && !is_empty) || gx_number_is_complex(index->dtype)) {
        return gx_shape_fail(g, in[1], "an index is a real vector");
    }
    if (!gx_take_axis(g, in, count, 2, 0, &node->whole[0])) {
        return GX_NO_NODE;
    }
    int64_t taken = index->rows * index->cols;
    node->type.rows = node->whole[0] == 0 ? taken : node->type.rows;
    node->type.cols = node->whole[0] == 1 ? taken : node->type.cols;
    return gx_graph_add(g, node, in, 2);
}

gx_ref gx_check_stack(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    bool is_across = node->op->id == GX_OP_HSTACK;
    gx_type *t = &node->type;
    *t = gx_strong(g, in[0]);
    for (int k = 1; k < count; k++) {
        const gx_type *other = &g->node[in[k]].type;
        int64_t side = is_across ? t->rows : t->cols, fits = is_across ? other->rows : other->cols;
        if (side != fits) {
            return gx_graph_fail(
                g, "%s is %lldx%lld but %s is %lldx%lld", gx_graph_label(g, in[0], "the first"),
                (long long)g->node[in[0]].type.rows, (long long)g->node[in[0]].type.cols,
                gx_graph_label(g, in[k], "another"), (long long)other->rows,
                (long long)other->cols);
        }
        t->rows += is_across ? 0 : other->rows;
        t->cols += is_across ? other->cols : 0;
        t->dtype = gx_number_promote(t->dtype, other->dtype);
    }
    return gx_graph_add(g, node, in, count);
}

/* Each beside zeros, one above the other. */
gx_ref gx_check_block_diag(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    gx_ref row[100];
    int64_t cols = 0, left = 0;
    (void)node;
    for (int k = 0; k < count; k++) {
        cols += g->node[in[k]].type.cols;
    }
    for (int k = 0; k < count; k++) {
        const gx_type t = g->node[in[k]].type;
        gx_node zeros = {.op = gx_op_row(GX_OP_ZEROS), .type = {t.rows, left, t.dtype, 0, false}};
        gx_node beside = {.op = gx_op_row(GX_OP_HSTACK)};
        gx_ref parts[3] = {gx_graph_add(g, &zeros, NULL, 0), in[k], GX_NO_NODE};
        left += t.cols;
        zeros.type.cols = cols - left;
        parts[2] = gx_graph_add(g, &zeros, NULL, 0);
        row[k] = parts[2] == GX_NO_NODE ? GX_NO_NODE : gx_check_stack(g, &beside, parts, 3);
        if (row[k] == GX_NO_NODE) {
            return GX_NO_NODE;
        }
    }
    gx_node above = {.op = gx_op_row(GX_OP_VSTACK)};
    return gx_check_stack(g, &above, row, count);
}

/* data: the text.  What is known now is decided now. */
gx_ref gx_check_require(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    const gx_type *condition = &g->node[in[1]].type;
    const char *why = gx_graph_word(g, in[2]);
    gx_scalar value;
    (void)count;
    if (why == NULL || condition->rows != 1 || condition->cols != 1) {
        return why == NULL ? gx_graph_fail(g, "what is said where the condition is 0 is a text in "
                                              "quotes")
                           : gx_shape_fail(g, in[1], "a condition is a number");
    }
    if (gx_graph_value(g, in[1], &value)) {
        return value.re != 0 || value.im != 0 ? in[0] : gx_graph_fail(g, "%s", why);
    }
    node->type = gx_strong(g, in[0]);
    node->data = why;
    return gx_graph_add(g, node, in, 2);
}

// Along columns or rows ---------------------------------------------------------------------------

static gx_ref along(gx_graph *g, gx_node *node, const gx_ref *in, int count, int64_t shorter)
{
    node->type = gx_strong(g, in[0]);
    int64_t fallback = node->op->id == GX_OP_SOFTMAX ? 1 : 0;
    if (node->type.rows == 1) {
        fallback = 1; // a row goes along itself
    } else if (node->type.cols == 1) {
        fallback = 0;
    }
    if (!gx_take_axis(g, in, count, 1, fallback, &node->whole[0])) {
        return GX_NO_NODE;
    }
    int64_t *side = node->whole[0] == 0 ? &node->type.rows : &node->type.cols;
    *side = gx_max(0, *side - shorter);
    if (node->op->id == GX_OP_ARGSORT) {
        node->type.dtype = GX_F64;
    }
    return gx_graph_add(g, node, in, 1);
}

gx_ref gx_check_along(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    return along(g, node, in, count, 0);
}

gx_ref gx_check_diff(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    return along(g, node, in, count, 1);
}

gx_ref gx_check_along_order(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    return gx_number_is_complex(g->node[in[0]].type.dtype) ? refuse_complex(g, in[0])
                                                           : along(g, node, in, count, 0);
}
