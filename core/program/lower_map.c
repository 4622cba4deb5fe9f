/*
** Elementwise functions: see lower.h.
**
** A group of them (pass_fuse.c) that is too little for a team is one kernel call: operands that are
** rows, columns or numbers are read in place, strides of 0 repeating them, and the result may take
** the place of an operand that nobody wants any more.  Large ones are the streamed pass of
** core/alg; where a product was postponed (lower_product.c), they are steps of its.  MAP is one
** function, operands spread out: what a program does whose passes are off.
*/
#include "../alg/alg.h"
#include "../base/fused.h"
#include "../run/call.h"
#include "device_memory.h"
#include "lower.h"
#include "values.h"

#include <string.h>

// One function ------------------------------------------------------------------------------------

/* Input k spread to the result's shape. */
static const void *spread(gx_exec *x, const gx_node *node, int k)
{
    const gx_type *t = &node->type, *from = &gx_input_node(x->g, node, k)->type;
    const char *a = gx_input_data(x, node, k, t->dtype);
    if (a == NULL || (from->rows == t->rows && from->cols == t->cols)) {
        return a;
    }
    size_t bytes = 0, element = gx_number_bytes(t->dtype);
    gx_matrix_bytes(t->rows, t->cols, t->dtype, &bytes);
    char *wide = gx_temp(x, bytes);
    for (int64_t j = 0; j < t->cols && wide != NULL; j++) {
        for (int64_t i = 0; i < t->rows; i++) {
            int64_t row = from->rows == 1 ? 0 : i, col = from->cols == 1 ? 0 : j;
            memcpy(wide + (size_t)(j * t->rows + i) * element,
                   a + (size_t)(col * from->rows + row) * element, element);
        }
    }
    return wide;
}

void gx_lower_map(gx_exec *x, const gx_node *node)
{
    const gx_type *t = &node->type;
    const void *in[3] = {NULL, NULL, NULL};
    int64_t ld = gx_max(1, t->rows);
    for (int k = 0; k < node->count; k++) {
        in[k] = spread(x, node, k);
    }
    void *c = gx_result(x, node, 0);
    if (c != NULL && gx_ok(x->run) && t->rows > 0 && t->cols > 0) {
        gx_run_call(x->run, GX_MAP, t->dtype,
                    &(gx_args){.map = node->map,
                               .alpha = node->alpha,
                               .beta = node->beta,
                               .m = t->rows,
                               .n = t->cols,
                               .a = in[0],
                               .lda = ld,
                               .b = in[1],
                               .ldb = ld,
                               .b2 = in[2],
                               .ldb2 = ld,
                               .c = c,
                               .ldc = ld});
    }
}

// A group -----------------------------------------------------------------------------------------

/* The result: an operand's memory, or new. */
static void *group_result(gx_exec *x, const gx_node *node)
{
    gx_ref self = (gx_ref)(node - x->g->node);
    for (int k = 0; k < node->count && gx_ok(x->run); k++) {
        gx_val *val = x->val[gx_input(x->g, node, k)];
        bool is_own = val->data != NULL && (val->owned != NULL || val->data == val->small);
        if (is_own && gx_may_overwrite(x, node, k)) {
            gx_device_val_give(x, val); // which has what it was
            val->refs++;                // the operand's own reference ends with this node
            val->type = node->type;
            gx_val_put(x, self, val);
            return val->data;
        }
    }
    return gx_result(x, node, 0);
}

static gx_fused_place place_of(const gx_type *from, const void *data)
{
    return (gx_fused_place){.data = (void *)(uintptr_t)data,
                            .row = from->rows == 1 ? 0 : 1,
                            .col = from->cols == 1 ? 0 : gx_max(1, from->rows)};
}

static bool all_fit(const gx_exec *x, const gx_node *node)
{
    for (int k = 0; k < node->count; k++) {
        if (!gx_input_fits(x, node, k)) {
            return false;
        }
    }
    return true;
}

/* A fold's numbers: of all, of each row or each column. */
static void put_fold(gx_exec *x, const gx_node *node, const double *fold)
{
    const gx_fused_result *o = &node->fused->output[0];
    int64_t count = node->type.rows * node->type.cols;
    int width = gx_fold_width((gx_fold)o->fold);
    void *c = gx_result(x, node, 0);
    for (int64_t k = 0; k < count && c != NULL; k++) {
        gx_scalar value = gx_fold_value((gx_fold)o->fold, fold + k * width);
        value.re *= node->alpha.re; // of a mean: 1 / count
        value.im *= node->alpha.re;
        gx_number_put(node->type.dtype, c, k, value);
    }
}

/* One kernel call of the caller's thread: for what is too little for a team. */
static void small_group(gx_exec *x, const gx_node *node, int64_t m, int64_t n)
{
    gx_fused_place in[GX_FUSED_INPUTS], out = {.data = NULL};
    const gx_fused *f = node->fused;
    const gx_fused_result *o = &f->output[0];
    const gx_backend *backend;
    gx_dev *dev;
    gx_err err = {.code = GX_OK};
    double *fold = NULL;
    if (gx_run_device(x->run, &backend, &dev) != GX_OK) {
        return;
    }
    for (int k = 0; k < node->count; k++) {
        const void *data = gx_input_data(x, node, k, f->dtype);
        in[k] = place_of(&gx_input_node(x->g, node, k)->type, data);
    }
    gx_args args = {.m = m, .n = n, .fused = f, .in = in, .out = &out, .fold = &fold};
    args.work = gx_work(
        x, backend->workspace == NULL ? 0 : backend->workspace(dev, GX_FUSED, f->dtype, &args));
    if (o->fold == GX_FOLD_NONE) {
        out = (gx_fused_place){.data = group_result(x, node), .row = 1, .col = gx_max(1, m)};
    } else {
        fold = gx_temp(x, (size_t)gx_fold_doubles((gx_fold)o->fold, (gx_fold_of)o->fold_of, m, n) *
                              sizeof *fold);
    }
    if (!gx_ok(x->run) || ((m == 0 || n == 0) && o->fold == GX_FOLD_NONE)) {
        return;
    }
    int64_t start_ns = gx_now_ns();
    backend->kernel[GX_FUSED][f->dtype](dev, NULL, &args, &err);
    gx_stats_kernel(&x->run->ctx->stats, gx_fused_flops(f) * (double)m * (double)n,
                    gx_now_ns() - start_ns);
    if (gx_run_fail(x->run, &err) == GX_OK && o->fold != GX_FOLD_NONE) {
        put_fold(x, node, fold);
    }
}

/* A sink in an operand's memory, where that is wanted no more, unless it is the program's value. */
static gx_sink *large_result(gx_exec *x, const gx_node *node, gx_sink *in_place)
{
    bool may_take =
        node->fused->output[0].fold == GX_FOLD_NONE && (gx_ref)(node - x->g->node) != x->g->result;
    for (int k = 0; k < node->count && gx_ok(x->run) && may_take; k++) {
        gx_val *val = x->val[gx_input(x->g, node, k)];
        bool is_own = val->data != NULL && (val->owned != NULL || val->sink != NULL);
        if (is_own && gx_may_overwrite(x, node, k)) {
            gx_device_val_give(x, val); // which has what it was
            val->refs++;
            gx_val_put(x, gx_result_ref(x, node, 0), val);
            *in_place = (gx_sink){.run = x->run,
                                  .rows = node->type.rows,
                                  .cols = node->type.cols,
                                  .number = node->type.dtype,
                                  .tile_rows = gx_max(1, node->type.rows),
                                  .tile_cols = gx_max(1, node->type.cols),
                                  .is_scratch = true,
                                  .value.data = val->data};
            return in_place;
        }
    }
    return gx_result_sink(x, node, 0, 0, 0, 0);
}

/* The streamed pass, over a team; a mean divides what it sums up. */
static void large_group(gx_exec *x, const gx_node *node, int64_t m, int64_t n)
{
    const gx_mat *source[GX_FUSED_INPUTS];
    gx_mat *space = gx_temp(x, GX_FUSED_INPUTS * sizeof *space);
    for (int k = 0; k < node->count && space != NULL; k++) {
        source[k] = gx_input_mat(x, node, k, &space[k]);
    }
    gx_sink in_place, *C = large_result(x, node, &in_place);
    if (space == NULL || C == NULL) {
        return;
    }
    bool is_mean = node->fused->output[0].fold != GX_FOLD_NONE && node->alpha.re != 1;
    if (is_mean && C->is_stored) {
        gx_run_failf(x->run, GX_BUDGET, "the means do not fit in memory");
    } else if (gx_alg_fused(x->run, node->fused, m, n, source, &C) == GX_OK && is_mean) {
        gx_run_call(x->run, GX_MAP, C->number,
                    &(gx_args){.map = GX_MAP_SCALE,
                               .alpha = node->alpha,
                               .m = C->rows,
                               .n = C->cols,
                               .a = C->value.data,
                               .lda = C->rows,
                               .c = C->value.data,
                               .ldc = C->rows});
    }
}

/* The operand that is a postponed product; -1: none is. */
static int postponed(const gx_exec *x, const gx_node *node)
{
    for (int k = 0; k < node->count; k++) {
        if (x->val[gx_input(x->g, node, k)]->product != NULL) {
            return k;
        }
    }
    return -1;
}

/* The product of large matrices whose blocks the group finishes. */
static void finish_product(gx_exec *x, const gx_node *node, int product)
{
    const gx_mat *source[GX_FUSED_INPUTS] = {NULL};
    gx_mat *space = gx_temp(x, (GX_FUSED_INPUTS + 2) * sizeof *space), *factors;
    gx_val *val = x->val[gx_input(x->g, node, product)];
    size_t bytes = SIZE_MAX / 2;
    gx_matrix_bytes(node->type.rows, node->type.cols, node->type.dtype, &bytes);
    for (int k = 0; k < node->count && space != NULL; k++) {
        source[k] = k == product ? NULL : gx_input_mat(x, node, k, &space[k]);
    }
    gx_sink *C = gx_result_sink(x, node, 0, bytes, 0, 0); // as much for blocks
    if (space == NULL || C == NULL) {
        return;
    }
    factors = space + GX_FUSED_INPUTS;
    gx_matmul_args args = {.A = gx_val_mat(x, val->factor[0], "the left factor", &factors[0]),
                           .B = gx_val_mat(x, val->factor[1], "the right factor", &factors[1]),
                           .transa = val->product->trans[0],
                           .transb = val->product->trans[1],
                           .alpha = {1, 0},
                           .after =
                               &(gx_after){.f = node->fused, .product = product, .source = source}};
    if (gx_ok(x->run)) {
        gx_alg_matmul(x->run, &args, C);
    }
}

/* Of what is folded, or of the result. */
static int64_t rows_of(const gx_node *node)
{
    return node->fused->output[0].fold != GX_FOLD_NONE ? node->whole[0] : node->type.rows;
}

static int64_t cols_of(const gx_node *node)
{
    return node->fused->output[0].fold != GX_FOLD_NONE ? node->whole[1] : node->type.cols;
}

bool gx_fused_is_small(const gx_exec *x, const gx_node *node)
{
    bool is_fold = node->fused->output[0].fold != GX_FOLD_NONE;
    double elements = (double)rows_of(node) * (double)cols_of(node);
    return elements * gx_fused_flops(node->fused) < GX_TEAM_FLOPS &&
           !(is_fold && gx_is_deterministic(x)) && all_fit(x, node) && postponed(x, node) < 0;
}

void gx_lower_fused(gx_exec *x, const gx_node *node)
{
    int product = postponed(x, node);
    int64_t m = rows_of(node), n = cols_of(node);
    if (product >= 0) {
        finish_product(x, node, product);
    } else if (gx_fused_is_small(x, node)) {
        small_group(x, node, m, n);
    } else {
        large_group(x, node, m, n);
    }
}
