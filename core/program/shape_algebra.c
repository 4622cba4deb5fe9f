/*
** Shapes of algebra: products, factors, solutions, spectra (see shape.h); and what is written in
** one way and computed in another:
**
**   inverse(A) @ B        solve(A, B)
**   A.T @ B               a product that reads A transposed
**   trace(A @ B)          a sum of products
**   diag(x) @ A           a scaling of rows; A @ diag(x) of columns
**   (A.T).T               A
*/
#include "../spectra/equation.h"
#include "shape.h"

#include <stdio.h>
#include <string.h>

static bool is_op(const gx_graph *g, gx_ref ref, gx_op_id id)
{
    return g->node[ref].op->id == id;
}

// Products ----------------------------------------------------------------------------------------

/* A transposed operand by its flag. */
static gx_trans peel(const gx_graph *g, gx_ref *ref)
{
    const gx_node *node = gx_at_node(g, *ref);
    if (g->is_plain || (node->op->id != GX_OP_TRANSPOSE && node->op->id != GX_OP_ADJOINT)) {
        return GX_NO_TRANS;
    }
    gx_trans trans = node->op->id == GX_OP_ADJOINT ? gx_adjoint(node->type.dtype) : GX_TRANS;
    *ref = gx_input(g, node, 0);
    return trans;
}

/* diag(x) @ B, A @ diag(x), inverse(A) @ B; GX_NO_NODE: none of these. */
static gx_ref simpler_product(gx_graph *g, const gx_ref *in)
{
    const gx_map_kind mul = GX_MAP_MUL;
    const gx_scalar zero = {0, 0};
    for (int side = 0; side < 2; side++) {
        const gx_node *factor = gx_at_node(g, in[side]);
        if (factor->op->id != GX_OP_DIAG || factor->whole[0] == 0) {
            continue;
        }
        gx_ref x = gx_input(g, factor, 0);
        bool is_column = g->node[x].type.cols == 1, wants_column = side == 0;
        gx_node turn = {.op = gx_op_row(GX_OP_TRANSPOSE), .type = gx_strong(g, x)};
        if (is_column != wants_column) {
            turn.type.rows = g->node[x].type.cols;
            turn.type.cols = g->node[x].type.rows;
            x = gx_graph_add(g, &turn, &x, 1);
        }
        const gx_ref pair[2] = {x, in[1 - side]};
        return gx_graph_map(g, mul, zero, zero, pair, 2);
    }
    if (is_op(g, in[0], GX_OP_INVERSE)) {
        const gx_ref pair[2] = {gx_input(g, gx_at_node(g, in[0]), 0), in[1]};
        gx_node solve = {.op = gx_op_row(GX_OP_SOLVE)};
        return gx_check_solve(g, &solve, pair, 2);
    }
    return GX_NO_NODE;
}

/* A.T @ A: symmetric, or Hermitian. */
static uint32_t product_properties(const gx_node *node, const gx_ref *in)
{
    bool first = node->trans[0] != GX_NO_TRANS, second = node->trans[1] != GX_NO_TRANS;
    if (in[0] != in[1] || first == second) {
        return 0;
    }
    if (!gx_number_is_complex(node->type.dtype)) {
        return GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN;
    }
    gx_trans trans = node->trans[first ? 0 : 1];
    return trans == GX_CONJ_TRANS ? GX_PROP_HERMITIAN : GX_PROP_SYMMETRIC;
}

gx_ref gx_check_matmul(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    const gx_type *a = &g->node[in[0]].type, *b = &g->node[in[1]].type;
    if (a->cols != b->rows) {
        bool is_number = a->rows * a->cols == 1 || b->rows * b->cols == 1;
        return gx_graph_fail(
            g, "%s is %lldx%lld but %s is %lldx%lld: the inner sides %lld and %lld differ%s",
            gx_graph_label(g, in[0], "the left side"), (long long)a->rows, (long long)a->cols,
            gx_graph_label(g, in[1], "the right side"), (long long)b->rows, (long long)b->cols,
            (long long)a->cols, (long long)b->rows, is_number ? "; * multiplies by a number" : "");
    }
    if (!g->is_plain) {
        gx_ref simpler = simpler_product(g, in);
        if (simpler != GX_NO_NODE || !gx_graph_ok(g)) {
            return simpler;
        }
    }
    node->type =
        (gx_type){.rows = a->rows, .cols = b->cols, .dtype = gx_number_promote(a->dtype, b->dtype)};
    gx_ref of[2] = {in[0], in[1]};
    node->trans[0] = peel(g, &of[0]);
    node->trans[1] = peel(g, &of[1]);
    node->type.properties = product_properties(node, of);
    return gx_graph_add(g, node, of, 2);
}

static uint32_t transposed_properties(uint32_t properties)
{
    uint32_t kept = properties & ~(uint32_t)(GX_PROP_LOWER | GX_PROP_UPPER | GX_PROP_FACTOR);
    kept |= (properties & GX_PROP_LOWER) != 0 ? GX_PROP_UPPER : 0;
    kept |= (properties & GX_PROP_UPPER) != 0 ? GX_PROP_LOWER : 0;
    return kept;
}

gx_ref gx_check_transpose(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    const gx_node *from = gx_at_node(g, in[0]);
    bool is_real = !gx_number_is_complex(from->type.dtype);
    if (is_real) {
        node->op = gx_op_row(GX_OP_TRANSPOSE);
    }
    bool is_back = from->op->id == node->op->id;
    bool is_symmetric =
        (from->type.properties & GX_PROP_SYMMETRIC) != 0 && node->op->id == GX_OP_TRANSPOSE;
    if (!g->is_plain && is_back) {
        return gx_input(g, from, 0);
    }
    if (!g->is_plain && (is_symmetric || (from->type.rows == 1 && from->type.cols == 1 &&
                                          node->op->id == GX_OP_TRANSPOSE))) {
        return in[0];
    }
    node->type = from->type;
    node->type.rows = from->type.cols;
    node->type.cols = from->type.rows;
    node->type.properties = transposed_properties(from->type.properties);
    return gx_graph_add(g, node, in, 1);
}

gx_ref gx_check_kron(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    const gx_type *a = &g->node[in[0]].type, *b = &g->node[in[1]].type;
    node->type.dtype = gx_number_promote(a->dtype, b->dtype);
    if (!gx_mul_i64(a->rows, b->rows, &node->type.rows) ||
        !gx_mul_i64(a->cols, b->cols, &node->type.cols)) {
        return gx_shape_fail(g, in[0], "the product is too large");
    }
    return gx_graph_add(g, node, in, 2);
}

gx_ref gx_check_outer(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    const gx_type *a = &g->node[in[0]].type, *b = &g->node[in[1]].type;
    if (!gx_is_vector(a) || !gx_is_vector(b)) {
        return gx_shape_fail(g, gx_is_vector(a) ? in[1] : in[0], "this is of two vectors");
    }
    node->type = (gx_type){.rows = a->rows * a->cols,
                           .cols = b->rows * b->cols,
                           .dtype = gx_number_promote(a->dtype, b->dtype)};
    return gx_graph_add(g, node, in, 2);
}

// Numbers -----------------------------------------------------------------------------------------

/* kind by a text or a number; 'F' '1' '2' 'I' 'M' 'N' in whole[0]. */
gx_ref gx_check_norm(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    node->type = (gx_type){1, 1, gx_number_real(g->node[in[0]].type.dtype), 0, false};
    node->whole[0] = 'F';
    double number = 0;
    const char *word = count > 1 ? gx_graph_word(g, in[1]) : NULL;
    if (word != NULL) {
        static const struct {
            const char *word;
            char kind;
        } words[] = {{"fro", 'F'}, {"f", 'F'},   {"F", 'F'},   {"1", '1'},
                     {"2", '2'},   {"inf", 'I'}, {"max", 'M'}, {"nuc", 'N'}};
        node->whole[0] = 0;
        for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
            node->whole[0] = strcmp(words[k].word, word) == 0 ? words[k].kind : node->whole[0];
        }
    } else if (count > 1 && !gx_take_number(g, in[1], "kind", &number)) {
        return GX_NO_NODE;
    } else if (count > 1) {
        node->whole[0] = number == 1 ? '1' : number == 2 ? '2' : number > 0x1p1000 ? 'I' : 0;
    }
    if (node->whole[0] == 0) {
        return gx_graph_fail(g, "the kind of a norm is 'fro', 1, 2, inf, 'max' or 'nuc'");
    }
    return gx_graph_add(g, node, in, 1);
}

static bool is_square(gx_graph *g, gx_ref ref)
{
    const gx_type *t = &g->node[ref].type;
    if (t->rows != t->cols) {
        gx_shape_fail(g, ref, "this is of a square matrix");
    }
    return t->rows == t->cols;
}

gx_ref gx_check_trace(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    const gx_node *of = gx_at_node(g, in[0]);
    if (!is_square(g, in[0])) {
        return GX_NO_NODE;
    }
    node->type = (gx_type){1, 1, of->type.dtype, 0, false};
    if (!g->is_plain && of->op->id == GX_OP_MATMUL && of->type.dtype != GX_M31) {
        gx_ref pair[2] = {gx_input(g, of, 0), gx_input(g, of, 1)};
        node->op = gx_op_row(GX_OP_TRACE_PRODUCT);
        memcpy(node->trans, of->trans, sizeof node->trans);
        return gx_graph_add(g, node, pair, 2);
    }
    return gx_graph_add(g, node, in, 1);
}

gx_ref gx_check_square_number(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    node->type = (gx_type){1, 1, g->node[in[0]].type.dtype, 0, false};
    return is_square(g, in[0]) ? gx_graph_add(g, node, in, 1) : GX_NO_NODE;
}

gx_ref gx_check_square_real(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    node->type = (gx_type){1, 1, gx_number_real(g->node[in[0]].type.dtype), 0, false};
    return is_square(g, in[0]) ? gx_graph_add(g, node, in, 1) : GX_NO_NODE;
}

gx_ref gx_check_real_number(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    node->type = (gx_type){1, 1, gx_number_real(g->node[in[0]].type.dtype), 0, false};
    return gx_graph_add(g, node, in, 1);
}

// Systems -----------------------------------------------------------------------------------------

/* A and its right sides have as many rows; the result has `rows` and a column a side. */
static gx_ref add_system(gx_graph *g, gx_node *node, const gx_ref *in, int64_t rows)
{
    const gx_type *a = &g->node[in[0]].type, *b = &g->node[in[1]].type;
    if (a->rows != b->rows) {
        return gx_graph_fail(g, "%s is %lldx%lld but %s is %lldx%lld",
                             gx_graph_label(g, in[0], "the matrix"), (long long)a->rows,
                             (long long)a->cols, gx_graph_label(g, in[1], "the right side"),
                             (long long)b->rows, (long long)b->cols);
    }
    node->type =
        (gx_type){.rows = rows, .cols = b->cols, .dtype = gx_number_promote(a->dtype, b->dtype)};
    return gx_graph_add(g, node, in, 2);
}

gx_ref gx_check_solve(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    return is_square(g, in[0]) ? add_system(g, node, in, g->node[in[1]].type.rows) : GX_NO_NODE;
}

gx_ref gx_check_lstsq(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    return add_system(g, node, in, g->node[in[0]].type.cols);
}

gx_ref gx_check_square(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    node->type = gx_strong(g, in[0]);
    return is_square(g, in[0]) ? gx_graph_add(g, node, in, 1) : GX_NO_NODE;
}

gx_ref gx_check_pinv(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    gx_type t = gx_strong(g, in[0]);
    node->type = (gx_type){.rows = t.cols, .cols = t.rows, .dtype = t.dtype};
    return gx_graph_add(g, node, in, 1);
}

gx_ref gx_check_powm(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    node->type = gx_strong(g, in[0]);
    return is_square(g, in[0]) && gx_take_number(g, in[1], "the power", &node->alpha.re)
               ? gx_graph_add(g, node, in, 1)
               : GX_NO_NODE;
}

// Factors -----------------------------------------------------------------------------------------

gx_ref gx_check_cholesky(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    node->type = gx_strong(g, in[0]);
    node->type.properties = GX_PROP_LOWER;
    return is_square(g, in[0]) ? gx_graph_add(g, node, in, 1) : GX_NO_NODE;
}

/* A = P L U */
gx_ref gx_check_lu(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    gx_type t = gx_strong(g, in[0]);
    int64_t k = gx_min(t.rows, t.cols);
    node->type = (gx_type){t.rows, t.rows, gx_number_real(t.dtype), GX_PROP_ORTHOGONAL, false};
    node->more[0] = (gx_type){t.rows, k, t.dtype, GX_PROP_LOWER | GX_PROP_UNIT, false};
    node->more[1] = (gx_type){k, t.cols, t.dtype, GX_PROP_UPPER, false};
    return gx_graph_add(g, node, in, 1);
}

gx_ref gx_check_qr(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    gx_type t = gx_strong(g, in[0]);
    int64_t k = gx_min(t.rows, t.cols);
    node->type = (gx_type){t.rows, k, t.dtype, GX_PROP_ORTHOGONAL, false};
    node->more[0] = (gx_type){k, t.cols, t.dtype, GX_PROP_UPPER, false};
    return gx_graph_add(g, node, in, 1);
}

/* schur, hessenberg: T and Z of A = Z T Z^H */
gx_ref gx_check_similar(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    node->type = node->more[0] = gx_strong(g, in[0]);
    node->more[0].properties = node->op->id == GX_OP_BALANCE ? 0 : GX_PROP_ORTHOGONAL;
    return is_square(g, in[0]) ? gx_graph_add(g, node, in, 1) : GX_NO_NODE;
}

gx_ref gx_check_polar(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    gx_type t = gx_strong(g, in[0]);
    node->type = t;
    node->more[0] = (gx_type){t.cols, t.cols, t.dtype, GX_PROP_HERMITIAN, false};
    if (!gx_number_is_complex(t.dtype)) {
        node->more[0].properties |= GX_PROP_SYMMETRIC;
    }
    return gx_graph_add(g, node, in, 1);
}

gx_ref gx_check_ldl(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    gx_type t = gx_strong(g, in[0]);
    node->type = node->more[0] = t;
    node->more[1] = (gx_type){t.rows, 1, GX_F64, 0, false};
    return is_square(g, in[0]) ? gx_graph_add(g, node, in, 1) : GX_NO_NODE;
}

/* Matrices by their shapes alone, as the driver looks at them. */
gx_ref gx_check_cossin(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    int64_t *p = &node->whole[0], *q = &node->whole[1], n = g->node[in[0]].type.rows;
    (void)count;
    node->type = node->more[0] = node->more[1] = gx_strong(g, in[0]);
    if (!is_square(g, in[0]) || !gx_take_whole(g, in[1], "p", p) ||
        !gx_take_whole(g, in[2], "q", q)) {
        return GX_NO_NODE;
    }
    if (*p < 1 || *p >= n || *q < 1 || *q >= n) {
        return gx_graph_fail(g, "p and q must be from 1 to %lld, not %lld and %lld",
                             (long long)n - 1, (long long)*p, (long long)*q);
    }
    return gx_graph_add(g, node, in, 1);
}

gx_ref gx_check_qz(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    gx_type a = gx_strong(g, in[0]), b = gx_strong(g, in[1]);
    a.dtype = gx_number_promote(a.dtype, b.dtype);
    node->type = node->more[0] = node->more[1] = a;
    node->more[1].properties = GX_PROP_ORTHOGONAL;
    node->more[2] = node->more[1];
    if (is_square(g, in[0]) && (a.rows != b.rows || a.cols != b.cols)) {
        return gx_shape_fail(g, in[1], "a pair is of one shape");
    }
    return gx_graph_ok(g) ? gx_graph_add(g, node, in, count) : GX_NO_NODE;
}

gx_ref gx_check_equation(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    gx_equation_args args = {
        .equation = (gx_equation)((int)node->op->id - (int)GX_OP_SYLVESTER + (int)GX_SYLVESTER)};
    gx_mat mat[GX_EQUATION_MATS];
    gx_solution X;
    gx_err err = {0};
    for (int k = 0; k < count; k++) {
        gx_type t = gx_strong(g, in[k]);
        mat[k] = (gx_mat){.rows = t.rows, .cols = t.cols, .number = t.dtype};
        const char letter[] = {gx_equation_letters[args.equation][k], 0};
        snprintf(mat[k].label, sizeof mat[k].label, "%s", gx_graph_label(g, in[k], letter));
        args.mat[k] = &mat[k];
    }
    if (gx_equation_shape(&args, &X, &err) != GX_OK) {
        return gx_graph_fail(g, "%s", err.text);
    }
    node->type = (gx_type){X.rows, X.cols, X.number, 0, false};
    return gx_graph_add(g, node, in, count);
}

gx_ref gx_check_eig(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    gx_type t = gx_strong(g, in[0]);
    gx_number dtype = gx_number_is_double(t.dtype) ? GX_C128 : GX_C64;
    node->type = (gx_type){t.rows, 1, dtype, 0, false};
    node->more[0] = (gx_type){t.rows, t.rows, dtype, 0, false};
    return is_square(g, in[0]) ? gx_graph_add(g, node, in, 1) : GX_NO_NODE;
}

gx_ref gx_check_eigh(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    gx_type t = gx_strong(g, in[0]);
    node->type = (gx_type){t.rows, 1, gx_number_real(t.dtype), 0, false};
    node->more[0] = (gx_type){t.rows, t.rows, t.dtype, GX_PROP_ORTHOGONAL, false};
    return is_square(g, in[0]) ? gx_graph_add(g, node, in, 1) : GX_NO_NODE;
}

gx_ref gx_check_svd(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    gx_type t = gx_strong(g, in[0]);
    int64_t k = gx_min(t.rows, t.cols);
    gx_type sigma = {k, 1, gx_number_real(t.dtype), 0, false};
    node->type = (gx_type){t.rows, k, t.dtype, GX_PROP_ORTHOGONAL, false};
    node->more[0] = sigma;
    node->more[1] = (gx_type){k, t.cols, t.dtype, 0, false};
    if (node->op->id == GX_OP_SVDVALS) {
        node->type = sigma;
    }
    return gx_graph_add(g, node, in, 1);
}

/* whole[0]: ddof. */
gx_ref gx_check_cov(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    gx_type t = gx_strong(g, in[0]);
    node->whole[0] = 1;
    if (count > 1 && !gx_take_whole(g, in[1], "ddof", &node->whole[0])) {
        return GX_NO_NODE;
    }
    if (node->whole[0] < 0) {
        return gx_graph_fail(g, "ddof must not be negative, not %lld", (long long)node->whole[0]);
    }
    if (t.rows <= node->whole[0]) {
        return node->whole[0] == 1 ? gx_shape_fail(g, in[0], "this is of at least two rows")
                                   : gx_shape_fail(g, in[0], "ddof needs more rows");
    }
    node->type = (gx_type){t.cols, t.cols, t.dtype, GX_PROP_HERMITIAN, false};
    if (!gx_number_is_complex(t.dtype)) {
        node->type.properties |= GX_PROP_SYMMETRIC;
    }
    return gx_graph_add(g, node, in, 1);
}

gx_ref gx_check_slogdet(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    gx_number number = g->node[in[0]].type.dtype;
    node->type = (gx_type){1, 1, number, 0, false};
    node->more[0] = (gx_type){1, 1, gx_number_real(number), 0, false};
    return is_square(g, in[0]) ? gx_graph_add(g, node, in, 1) : GX_NO_NODE;
}

// Bands -------------------------------------------------------------------------------------------

/* Argument 0 and 1: how many bands there are below and above the diagonal; 2 has them in rows. */
static bool take_bands(gx_graph *g, gx_node *node, const gx_ref *in)
{
    int64_t *l = &node->whole[0], *u = &node->whole[1];
    const gx_type ab = gx_strong(g, in[2]);
    if (!gx_take_whole(g, in[0], "l", l) || !gx_take_whole(g, in[1], "u", u)) {
        return false;
    }
    if (*l < 0 || *u < 0 || *l > GX_SIDE_MAX || *u > GX_SIDE_MAX || ab.rows != *l + *u + 1) {
        gx_graph_fail(g,
                      "%s is %lldx%lld, but %lld bands below the diagonal and %lld above it "
                      "have l + u + 1 rows",
                      gx_graph_label(g, in[2], "ab"), (long long)ab.rows, (long long)ab.cols,
                      (long long)*l, (long long)*u);
    }
    return gx_graph_ok(g);
}

gx_ref gx_check_bands(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    (void)count;
    node->type = gx_strong(g, in[2]);
    node->type.rows = node->type.cols;
    return take_bands(g, node, in) ? gx_graph_add(g, node, &in[2], 1) : GX_NO_NODE;
}

gx_ref gx_check_solve_banded(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    const gx_ref pair[2] = {in[2], in[3]};
    const gx_type ab = gx_strong(g, in[2]), b = gx_strong(g, in[3]);
    (void)count;
    if (!take_bands(g, node, in)) {
        return GX_NO_NODE;
    }
    if (b.rows != ab.cols) {
        return gx_graph_fail(g, "%s has bands of a %lldx%lld matrix but %s is %lldx%lld",
                             gx_graph_label(g, in[2], "ab"), (long long)ab.cols, (long long)ab.cols,
                             gx_graph_label(g, in[3], "B"), (long long)b.rows, (long long)b.cols);
    }
    node->type = (gx_type){b.rows, b.cols, gx_number_promote(ab.dtype, b.dtype), 0, false};
    return gx_graph_add(g, node, pair, 2);
}
