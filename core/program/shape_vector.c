/*
** Shapes of what is made of vectors, and what is written as a function but is others: inner
** products, polynomials (see shape.h).
*/
#include "shape.h"

#include <math.h>

static int64_t length_of(const gx_graph *g, gx_ref ref)
{
    return g->node[ref].type.rows * g->node[ref].type.cols;
}

/* All that are no vectors are refused. */
static bool are_vectors(gx_graph *g, const gx_ref *in, int count)
{
    for (int k = 0; k < count; k++) {
        if (!gx_is_vector(&g->node[in[k]].type)) {
            gx_shape_fail(g, in[k], "this is of a vector");
            return false;
        }
    }
    return true;
}

gx_ref gx_as_column(gx_graph *g, gx_ref ref)
{
    gx_node turn = {.op = gx_op_row(GX_OP_TRANSPOSE)};
    return g->node[ref].type.cols == 1 ? ref : gx_check_transpose(g, &turn, &ref, 1);
}

gx_ref gx_check_inner(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    const gx_scalar none = {0, 0};
    (void)node;
    if (!are_vectors(g, in, count)) {
        return GX_NO_NODE;
    }
    if (length_of(g, in[0]) != length_of(g, in[1])) {
        return gx_shape_fail(g, in[1], "the other vector is of another length");
    }
    const gx_ref pair[2] = {gx_as_column(g, in[0]), gx_as_column(g, in[1])};
    gx_ref product = gx_graph_map(g, GX_MAP_MUL, none, none, pair, 2);
    gx_node sum = {.op = gx_op_row(GX_OP_SUM)};
    return product == GX_NO_NODE ? product : gx_check_reduce(g, &sum, &product, 1);
}

/* Horner's rule: a chain of products and sums, which is fused. */
gx_ref gx_check_polyval(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    const gx_scalar none = {0, 0}, one = {1, 0};
    int64_t terms = length_of(g, in[0]);
    (void)node, (void)count;
    if (!are_vectors(g, in, 1)) {
        return GX_NO_NODE;
    }
    if (terms < 1 || terms > 100) {
        return gx_shape_fail(g, in[0], "a polynomial has 1 to 100 coefficients here");
    }
    bool is_row = g->node[in[0]].type.rows == 1;
    gx_ref value = GX_NO_NODE;
    for (int64_t k = 0; k < terms; k++) {
        gx_node take = {.op = gx_op_row(GX_OP_SLICE),
                        .type = {1, 1, g->node[in[0]].type.dtype, 0, false},
                        .whole = {is_row ? 0 : k, 1, 1, is_row ? k : 0, 1, 1}};
        gx_ref c = gx_graph_add(g, &take, in, 1);
        gx_ref pair[2] = {value, in[1]};
        if (k == 0) { // of the operand's shape
            pair[0] = in[1];
            const gx_ref zero[2] = {gx_graph_map(g, GX_MAP_SCALE, none, none, pair, 1), c};
            value = gx_graph_map(g, GX_MAP_ADD, one, one, zero, 2);
        } else {
            const gx_ref sum[2] = {gx_graph_map(g, GX_MAP_MUL, none, none, pair, 2), c};
            value = gx_graph_map(g, GX_MAP_ADD, one, one, sum, 2);
        }
        if (value == GX_NO_NODE) {
            return value;
        }
    }
    return value;
}

gx_ref gx_check_vander(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    int64_t n = length_of(g, in[0]);
    node->type = gx_strong(g, in[0]);
    node->type.rows = n;
    if (!are_vectors(g, in, 1) || (count > 1 && !gx_take_whole(g, in[1], "n", &n))) {
        return GX_NO_NODE;
    }
    if (n < 0 || n > GX_SIDE_MAX) {
        return gx_graph_fail(g, "n must be from 0 to 2^40, not %lld", (long long)n);
    }
    node->type.cols = n;
    return gx_graph_add(g, node, in, 1);
}

gx_ref gx_check_toeplitz(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    const gx_ref pair[2] = {in[0], in[count - 1]};
    node->type = gx_strong(g, in[0]);
    node->type.rows = length_of(g, in[0]);
    node->type.cols = length_of(g, pair[1]);
    node->type.dtype = gx_number_promote(node->type.dtype, g->node[pair[1]].type.dtype);
    return are_vectors(g, in, count) ? gx_graph_add(g, node, pair, 2) : GX_NO_NODE;
}

gx_ref gx_check_cross(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    node->type = gx_strong(g, in[0]);
    node->type.dtype = gx_number_promote(node->type.dtype, g->node[in[1]].type.dtype);
    for (int k = 0; k < count; k++) {
        if (!are_vectors(g, &in[k], 1) || length_of(g, in[k]) != 3) {
            return gx_graph_ok(g) ? gx_shape_fail(g, in[k], "this is of vectors of 3") : GX_NO_NODE;
        }
    }
    return gx_graph_add(g, node, in, 2);
}

/* The k largest of a vector, descending, and where they are. */
gx_ref gx_check_topk(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    int64_t k, n = length_of(g, in[0]);
    (void)count;
    node->type = gx_strong(g, in[0]);
    if (!are_vectors(g, in, 1) || !gx_take_whole(g, in[1], "k", &k)) {
        return GX_NO_NODE;
    }
    if (gx_number_is_complex(node->type.dtype)) {
        return gx_graph_fail(g, "complex numbers have no order");
    }
    if (k < 0 || k > n) {
        return gx_graph_fail(g, "k must be from 0 to %lld, not %lld", (long long)n, (long long)k);
    }
    node->type.rows = k;
    node->type.cols = 1;
    node->more[0] = (gx_type){k, 1, GX_F64, 0, false};
    return gx_graph_add(g, node, in, 1);
}

gx_ref gx_check_loggamma(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    node->type = g->node[in[0]].type;
    node->type.is_weak = false;
    node->type.properties = 0;
    node->type.dtype = gx_number_promote(node->type.dtype, GX_C64);
    return gx_graph_add(g, node, in, 1);
}

gx_ref gx_check_unique(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    node->type = (gx_type){1, 1, GX_F64, 0, false};
    return gx_number_is_complex(g->node[in[0]].type.dtype)
               ? gx_graph_fail(g, "complex numbers have no order")
               : gx_graph_add(g, node, in, 1);
}

/* The metric, a gx_metric, in whole[0]; whether the root is taken, of zeros and ones, behind it. */
gx_ref gx_check_distance(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    static const struct {
        gx_metric metric;
        bool is_root, is_binary;
    } ways[] = {{GX_METRIC_SQUARED, true, false},   {GX_METRIC_SQUARED, true, false},
                {GX_METRIC_SQUARED, false, false},  {GX_METRIC_ABSOLUTE, false, false},
                {GX_METRIC_ABSOLUTE, false, false}, {GX_METRIC_COSINE, false, false},
                {GX_METRIC_SQUARED, false, true}};
    const gx_type *a = &g->node[in[0]].type, *b = &g->node[in[1]].type;
    int64_t way = 0;
    if (count > 2 && !gx_take_word(g, in[2], "metric",
                                   "l2|euclidean|sqeuclidean|l1|cityblock|cosine|hamming", &way)) {
        return GX_NO_NODE;
    }
    for (int k = 0; k < 2; k++) {
        gx_number number = g->node[in[k]].type.dtype;
        if (gx_number_is_complex(number)) {
            return gx_graph_fail(g, "%s is complex (%s): rows of real numbers are compared",
                                 gx_graph_label(g, in[k], k == 0 ? "A" : "B"),
                                 gx_number_name(number));
        }
    }
    if (a->cols != b->cols) {
        return gx_graph_fail(g,
                             "%s is %lldx%lld but %s is %lldx%lld: rows of one length are compared",
                             gx_graph_label(g, in[0], "A"), (long long)a->rows, (long long)a->cols,
                             gx_graph_label(g, in[1], "B"), (long long)b->rows, (long long)b->cols);
    }
    node->type = (gx_type){.rows = a->rows, .cols = b->rows};
    node->type.dtype = gx_number_promote(a->dtype, b->dtype);
    node->whole[0] = ways[way].metric;
    node->whole[1] = ways[way].is_root;
    node->whole[2] = ways[way].is_binary;
    return gx_graph_add(g, node, in, 2);
}
