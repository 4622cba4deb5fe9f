/*
** Numbers, generators, copies: see lower.h.
*/
#include "../base/random.h"
#include "../mat/simple.h"
#include "../run/call.h"
#include "lower.h"
#include "values.h"
#include "views.h"

#include "../alg/alg.h"

#include <string.h>

void gx_lower_number(gx_exec *x, const gx_node *node)
{
    gx_result_number(x, node, node->value);
}

void gx_lower_literal(gx_exec *x, const gx_node *node)
{
    gx_val *val = node->data == NULL ? NULL : gx_val_of(x, &node->type);
    if (val != NULL) {
        val->data = (void *)(uintptr_t)node->data; // the graph's: never written
        gx_val_put(x, (gx_ref)(node - x->g->node), val);
    }
}

void gx_lower_cast(gx_exec *x, const gx_node *node)
{
    gx_number from = x->g->node[gx_input(x->g, node, 0)].type.dtype;
    if (!gx_input_fits(x, node, 0)) {
        gx_mat space;
        gx_sink *C = gx_result_sink(x, node, 0, 0, 0, 0);
        const gx_mat *A = gx_input_mat(x, node, 0, &space);
        bool is_part = gx_number_is_complex(from) && !gx_number_is_complex(node->type.dtype);
        gx_mat part;
        if (C != NULL && A != NULL && is_part) {
            gx_mat_real(&part, A);
            A = &part;
        }
        if (C != NULL && A != NULL) {
            gx_copy_to_sink(x->run, A, C);
        }
        return;
    }
    const void *a = gx_input_data(x, node, 0, from);
    void *c = gx_result(x, node, 0);
    int64_t ld = gx_max(1, node->type.rows);
    if (a != NULL && c != NULL) {
        gx_convert(from, a, ld, node->type.dtype, c, ld, node->type.rows, node->type.cols);
    }
}

// Generators --------------------------------------------------------------------------------------

/* A generator's elements, into memory where they fit. */
static void generate(gx_exec *x, const gx_node *node, gx_generate fn, const void *arg)
{
    const gx_type *t = &node->type;
    size_t bytes = 0;
    gx_matrix_bytes(t->rows, t->cols, t->dtype, &bytes);
    if (bytes <= 4096) {
        void *c = gx_result(x, node, 0);
        if (c != NULL) {
            fn(arg, 0, 0, t->rows, t->cols, t->dtype, c, gx_max(1, t->rows));
        }
        return;
    }
    gx_mat source;
    gx_mat_generated(&source, node->op->name, t->dtype, t->rows, t->cols, fn, arg);
    gx_sink *C = gx_result_sink(x, node, 0, 0, 0, 0);
    if (C != NULL) {
        gx_copy_to_sink(x->run, &source, C);
    }
}

void gx_lower_eye(gx_exec *x, const gx_node *node)
{
    const gx_diagonal arg = {.offset = 0};
    if (node->type.rows == node->type.cols && gx_lower_as_view(x, node)) {
        return;
    }
    generate(x, node, gx_diagonal_generate, &arg);
}

void gx_lower_filled(gx_exec *x, const gx_node *node)
{
    const gx_constant arg = {.value = node->alpha};
    generate(x, node, gx_constant_generate, &arg);
}

void gx_lower_random(gx_exec *x, const gx_node *node)
{
    gx_random random;
    gx_err err = {.code = GX_OK};
    gx_random_kind kind = node->op->id == GX_OP_RANDN ? GX_RANDOM_NORMAL : GX_RANDOM_UNIFORM;
    gx_random_init(&random, kind, node->type.dtype, node->whole[0], 0, 1, &err);
    if (gx_run_fail(x->run, &err) == GX_OK) {
        generate(x, node, gx_random_generate, &random);
    }
}

void gx_lower_ramp(gx_exec *x, const gx_node *node)
{
    const gx_ramp arg = {.start = node->alpha.re,
                         .step = node->alpha.im,
                         .last = node->beta.re,
                         .count = node->type.rows};
    generate(x, node, gx_ramp_generate, &arg);
}

// Copies ------------------------------------------------------------------------------------------

void gx_lower_transpose(gx_exec *x, const gx_node *node)
{
    const gx_type *t = &node->type;
    gx_trans trans = node->op->id == GX_OP_ADJOINT ? GX_CONJ_TRANS : GX_TRANS;
    if (gx_input_fits(x, node, 0)) {
        const void *a = gx_input_data(x, node, 0, t->dtype);
        void *c = gx_result(x, node, 0);
        if (a != NULL && c != NULL && t->rows > 0 && t->cols > 0) {
            gx_run_call(x->run, GX_TRANSPOSE, t->dtype,
                        &(gx_args){.transa = trans,
                                   .m = t->rows,
                                   .n = t->cols,
                                   .a = a,
                                   .lda = t->cols,
                                   .c = c,
                                   .ldc = t->rows});
        }
        return;
    }
    if (gx_lower_as_view(x, node)) {
        return;
    }
    gx_mat space;
    gx_sink *C = gx_result_sink(x, node, 0, 0, 0, 0);
    if (C != NULL) {
        gx_alg_transpose(x->run, gx_input_mat(x, node, 0, &space), trans, C);
    }
}
