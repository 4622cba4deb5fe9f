/*
** Products, traces: see lower.h.
**
** A sparse factor is multiplied by its panels (core/alg/spmm.h), the result in memory.
**
** Deterministic mode is the driver's, which cuts by tiles.  Else operands in memory are given to
** one kernel call (A^T A, A A^T to SYRK or HERK, whose triangle is mirrored); others to the driver,
** which streams them.
**
** A product that does not fit in memory and that an elementwise group alone uses is postponed: the
** group (lower_map.c) has its blocks finished before they are written.
*/
#include "../alg/alg.h"
#include "../alg/similar.h"
#include "../alg/spmm.h"
#include "../mat/composite.h"
#include "../run/call.h"
#include "lower.h"
#include "values.h"
#include "views.h"

typedef struct factors {
    const gx_node *node;
    const void *a, *b;
    int64_t m, n, k, lda, ldb;
    gx_number dtype;
} factors;

/* The whole product where it is symmetric: half the work. */
static void symmetric(gx_exec *x, const factors *p, void *c)
{
    const gx_node *node = p->node;
    bool is_hermitian =
        gx_number_is_complex(p->dtype) && (node->type.properties & GX_PROP_HERMITIAN) != 0;
    bool is_left = node->trans[0] != GX_NO_TRANS; // A^T A
    gx_args args = {.transa = !is_left       ? GX_NO_TRANS
                              : is_hermitian ? GX_CONJ_TRANS
                                             : GX_TRANS,
                    .uplo = GX_LOWER,
                    .n = p->n,
                    .m = p->n,
                    .k = p->k,
                    .alpha = {1, 0},
                    .a = p->a,
                    .lda = p->lda,
                    .c = c,
                    .ldc = gx_max(1, p->n)};
    gx_run_call(x->run, is_hermitian ? GX_HERK : GX_SYRK, p->dtype, &args);
    args.transa = is_hermitian ? GX_CONJ_TRANS : GX_TRANS;
    gx_run_call(x->run, GX_SYMMETRIZE, p->dtype, &args);
}

static void in_memory(gx_exec *x, const gx_node *node)
{
    const gx_graph *g = x->g;
    const gx_type *ta = &gx_input_node(g, node, 0)->type, *tb = &gx_input_node(g, node, 1)->type;
    factors p = {.node = node,
                 .m = node->type.rows,
                 .n = node->type.cols,
                 .dtype = node->type.dtype,
                 .lda = gx_max(1, ta->rows),
                 .ldb = gx_max(1, tb->rows)};
    p.k = node->trans[0] == GX_NO_TRANS ? ta->cols : ta->rows;
    p.a = gx_input_data(x, node, 0, p.dtype);
    p.b = gx_input_data(x, node, 1, p.dtype);
    void *c = gx_result(x, node, 0);
    if (p.a == NULL || p.b == NULL || c == NULL || p.m == 0 || p.n == 0) {
        return;
    }
    bool is_gram = gx_input(g, node, 0) == gx_input(g, node, 1) &&
                   (node->type.properties & (GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN)) != 0;
    if (is_gram && node->type.dtype != GX_M31) {
        symmetric(x, &p, c);
        return;
    }
    gx_run_call(x->run, GX_GEMM, p.dtype,
                &(gx_args){.transa = node->trans[0],
                           .transb = node->trans[1],
                           .m = p.m,
                           .n = p.n,
                           .k = p.k,
                           .alpha = {1, 0},
                           .a = p.a,
                           .lda = p.lda,
                           .b = p.b,
                           .ldb = p.ldb,
                           .c = c,
                           .ldc = p.m});
}

static void postpone(gx_exec *x, const gx_node *node)
{
    gx_val *val = gx_val_of(x, &node->type);
    for (int k = 0; k < 2 && val != NULL; k++) {
        val->factor[k] = x->val[gx_input(x->g, node, k)];
        val->factor[k]->refs++;
    }
    if (val != NULL) {
        val->product = node;
        gx_val_put(x, gx_result_ref(x, node, 0), val);
    }
}

/* The result and both factors in memory, with as much again. */
static bool fits(const gx_exec *x, const gx_node *node)
{
    const gx_type *t = &node->type;
    size_t bytes = SIZE_MAX / 2;
    return gx_matrix_bytes(t->rows, t->cols, t->dtype, &bytes) &&
           bytes < gx_mem_available(x->run->ctx->mem) / 3 && gx_input_fits(x, node, 0) &&
           gx_input_fits(x, node, 1);
}

/* A factor whose elements would have to be made, but whose products need them not. */
static bool has_structure(const gx_exec *x, const gx_node *node)
{
    bool has_it = false;
    for (int k = 0; k < 2 && x->val != NULL; k++) {
        const gx_val *val = x->val[gx_input(x->g, node, k)];
        has_it = has_it || (val->data == NULL && val->device == NULL && val->mat != NULL &&
                            gx_mat_is_structured(val->mat));
    }
    return has_it;
}

bool gx_is_postponed(const gx_exec *x, const gx_node *node)
{
    return node->op->id == GX_OP_MATMUL && node->is_joined && x->on->call.accel == NULL &&
           !gx_reads_sparse(x->g, node) && !fits(x, node) && !has_structure(x, node);
}

/* One factor is a stored matrix of panels. */
static void sparse_product(gx_exec *x, const gx_node *node)
{
    gx_mat a, b;
    gx_sink *C = gx_result_made(x, node);
    const gx_mat *A = gx_input_mat(x, node, 0, &a), *B = gx_input_mat(x, node, 1, &b);
    if (C == NULL || A == NULL || B == NULL) {
        return;
    }
    gx_alg_spmm(
        x->run,
        &(gx_spmm_args){
            .A = A, .B = B, .transa = node->trans[0], .transb = node->trans[1], .alpha = {1, 0}},
        node->type.rows, node->type.cols, node->type.dtype, NULL, C);
    gx_result_is_made(x, node);
}

/* A large factor that nobody else reads, beside a few columns or rows: it passes by, once. */
static bool passes_by(const gx_exec *x, const gx_node *node)
{
    const int64_t FEW = 16;
    bool is_it = false;
    for (int k = 0; k < 2 && x->g->blocks == 1; k++) {
        const gx_node *in = gx_input_node(x->g, node, k);
        size_t bytes = 0;
        gx_matrix_bytes(in->type.rows, in->type.cols, in->type.dtype, &bytes);
        bool is_few = (k == 0 ? node->type.cols : node->type.rows) <= FEW;
        is_it = is_it || (is_few && in->uses == 1 && bytes >= GX_LARGE_BYTES &&
                          !gx_input_at_hand(x, node, k));
    }
    return is_it;
}

void gx_lower_matmul(gx_exec *x, const gx_node *node)
{
    size_t bytes = SIZE_MAX / 2;
    gx_matrix_bytes(node->type.rows, node->type.cols, node->type.dtype, &bytes);
    if (gx_reads_sparse(x->g, node)) {
        sparse_product(x, node);
        return;
    }
    if (!gx_is_deterministic(x) && fits(x, node) && !passes_by(x, node) &&
        !has_structure(x, node)) {
        in_memory(x, node);
        return;
    }
    if (gx_is_postponed(x, node)) {
        postpone(x, node);
        return;
    }
    gx_mat a, b;
    gx_sink *C = gx_result_sink(x, node, 0, bytes, 0, 0); // as much for blocks
    if (C != NULL) {
        gx_alg_matmul(x->run,
                      &(gx_matmul_args){.A = gx_input_mat(x, node, 0, &a),
                                        .B = gx_input_mat(x, node, 1, &b),
                                        .transa = node->trans[0],
                                        .transb = node->trans[1],
                                        .alpha = {1, 0}},
                      C);
    }
}

void gx_lower_trace(gx_exec *x, const gx_node *node)
{
    gx_scalar trace = {0, 0};
    gx_mat space;
    gx_alg_trace(x->run, gx_input_mat(x, node, 0, &space), &trace);
    gx_result_number(x, node, trace);
}

/* sum over i, p of op(A)[i, p] op(B)[p, i]. */
void gx_lower_trace_product(gx_exec *x, const gx_node *node)
{
    const gx_graph *g = x->g;
    const gx_type *ta = &gx_input_node(g, node, 0)->type, *tb = &gx_input_node(g, node, 1)->type;
    const double *a = gx_input_data(x, node, 0, GX_C128), *b = gx_input_data(x, node, 1, GX_C128);
    gx_trans trans_a = node->trans[0], trans_b = node->trans[1];
    int64_t m = trans_a == GX_NO_TRANS ? ta->rows : ta->cols;
    int64_t k = trans_a == GX_NO_TRANS ? ta->cols : ta->rows;
    gx_scalar sum = {0, 0};
    for (int64_t p = 0; p < k && a != NULL && b != NULL; p++) {
        for (int64_t i = 0; i < m; i++) {
            const double *u =
                a + 2 * (trans_a == GX_NO_TRANS ? p * ta->rows + i : i * ta->rows + p);
            const double *v =
                b + 2 * (trans_b == GX_NO_TRANS ? i * tb->rows + p : p * tb->rows + i);
            double ui = trans_a == GX_CONJ_TRANS ? -u[1] : u[1];
            double vi = trans_b == GX_CONJ_TRANS ? -v[1] : v[1];
            sum.re += u[0] * v[0] - ui * vi;
            sum.im += u[0] * vi + ui * v[0];
        }
    }
    gx_result_number(x, node, sum);
}

/* A column of a Kronecker product: of a column of each, count and length numbers. */
static void kron_column(bool is_complex, const double *a, int64_t count, const double *b,
                        int64_t length, double *out)
{
    for (int64_t p = 0; p < count; p++) {
        for (int64_t q = 0; q < length && !is_complex; q++) {
            *out++ = a[p] * b[q];
        }
        const double *u = a + 2 * p;
        for (int64_t q = 0; q < length && is_complex; q++) {
            const double *v = b + 2 * q;
            *out++ = u[0] * v[0] - u[1] * v[1];
            *out++ = u[0] * v[1] + u[1] * v[0];
        }
    }
}

/* Kronecker products of matrices, and of vectors as a column and a row. */
void gx_lower_kron(gx_exec *x, const gx_node *node)
{
    if (gx_lower_as_view(x, node)) {
        return;
    }
    const gx_graph *g = x->g;
    gx_type ta = gx_input_node(g, node, 0)->type, tb = gx_input_node(g, node, 1)->type;
    gx_number dtype = node->type.dtype, wide = gx_number_wide(dtype);
    const double *a = gx_input_data(x, node, 0, wide), *b = gx_input_data(x, node, 1, wide);
    void *c = gx_result(x, node, 0);
    if (node->op->id == GX_OP_OUTER) {
        ta = (gx_type){.rows = node->type.rows, .cols = 1};
        tb = (gx_type){.rows = 1, .cols = node->type.cols};
    }
    int64_t rows = node->type.rows, ld = gx_max(1, rows),
            step = gx_number_is_complex(dtype) ? 2 : 1;
    double *line = dtype == wide ? NULL : gx_temp(x, (size_t)(ld * step) * sizeof *line);
    bool is_there = rows > 0 && a != NULL && b != NULL && c != NULL && gx_ok(x->run);
    for (int64_t j = 0; j < node->type.cols && is_there; j++) {
        void *column = gx_at(c, dtype, ld, 0, j);
        double *to = line != NULL ? line : column;
        kron_column(step == 2, a + step * (j / tb.cols * ta.rows), ta.rows,
                    b + step * (j % tb.cols * tb.rows), tb.rows, to);
        if (line != NULL) {
            gx_convert(wide, line, ld, dtype, column, ld, rows, 1);
        }
        if (gx_run_poll(x->run) != GX_OK) {
            return;
        }
    }
}

void gx_lower_distance(gx_exec *x, const gx_node *node)
{
    gx_mat a, b;
    const gx_distance_args args = {.A = gx_input_mat(x, node, 0, &a),
                                   .B = gx_input_mat(x, node, 1, &b),
                                   .metric = (gx_metric)node->whole[0],
                                   .is_root = node->whole[1] != 0,
                                   .is_binary = node->whole[2] != 0};
    int64_t tile_rows, tile_cols;
    gx_distance_tiles(x->run, &args, node->type.dtype, &tile_rows, &tile_cols);
    gx_sink *C = gx_result_sink(x, node, 0, 0, tile_rows, tile_cols);
    if (C != NULL) {
        gx_alg_distance(x->run, &args, C);
    }
}
