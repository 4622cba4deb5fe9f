/*
** Systems and factorisations: the drivers of core/alg on sources and intermediates (see lower.h).
*/
#include "../alg/alg.h"
#include "../alg/alg_lu.h"
#include "../alg/alg_qr.h"
#include "../alg/banded.h"
#include "../alg/factoring.h"
#include "../spectra/alg_eig.h"
#include "lower.h"
#include "values.h"

#include <math.h>
#include <string.h>

void gx_lower_solve(gx_exec *x, const gx_node *node)
{
    if (gx_lower_exact(x, node)) {
        return;
    }
    gx_mat a, b;
    gx_sink *X = gx_result_sink(x, node, 0, 0, 0, 0);
    if (X != NULL) {
        gx_alg_solve(
            x->run,
            &(gx_solve_args){.A = gx_input_mat(x, node, 0, &a), .B = gx_input_mat(x, node, 1, &b)},
            X);
    }
}

void gx_lower_lstsq(gx_exec *x, const gx_node *node)
{
    gx_mat a, b;
    gx_lstsq_args args = {
        .A = gx_input_mat(x, node, 0, &a), .B = gx_input_mat(x, node, 1, &b), .rcond = -1};
    gx_lstsq_result found;
    int64_t tile_rows, tile_cols;
    gx_lstsq_tiles(x->run, &args, &tile_rows, &tile_cols);
    gx_sink *X = gx_result_sink(x, node, 0, 0, tile_rows, tile_cols);
    if (X != NULL) {
        gx_alg_lstsq(x->run, &args, X, &found);
    }
}

void gx_lower_inverse(gx_exec *x, const gx_node *node)
{
    if (gx_lower_exact(x, node)) {
        return;
    }
    gx_mat a;
    const gx_aux none = {.kind = GX_AUX_NONE};
    gx_sink *C = gx_result_sink(x, node, 0, 0, 0, 0);
    if (C != NULL) {
        gx_alg_inverse(x->run, gx_input_mat(x, node, 0, &a), &none, C);
    }
}

void gx_lower_pinv(gx_exec *x, const gx_node *node)
{
    gx_mat a;
    const gx_mat *A = gx_input_mat(x, node, 0, &a);
    int64_t tile_rows, tile_cols, rank;
    gx_pinv_tiles(x->run, A, &tile_rows, &tile_cols);
    gx_sink *P = gx_result_sink(x, node, 0, 0, tile_rows, tile_cols);
    if (P != NULL) {
        gx_alg_pinv(x->run, A, -1, P, &rank);
    }
}

void gx_lower_det(gx_exec *x, const gx_node *node)
{
    if (gx_lower_exact(x, node)) {
        return;
    }
    gx_mat a;
    const gx_aux none = {.kind = GX_AUX_NONE};
    gx_determinant det = {.log = 0};
    gx_alg_determinant(x->run, gx_input_mat(x, node, 0, &a), &none, &det);
    if (node->op->id == GX_OP_SLOGDET) {
        const gx_scalar both[2] = {det.sign, {det.log, 0}};
        for (int k = 0; k < 2; k++) {
            void *to = gx_wants(x, node, k) ? gx_result(x, node, k) : NULL;
            if (to != NULL) {
                gx_number_put(gx_result_type(node, k)->dtype, to, 0, both[k]);
            }
        }
        return;
    }
    gx_result_number(x, node, node->op->id == GX_OP_LOGDET ? (gx_scalar){det.log, 0} : det.det);
}

void gx_lower_rank(gx_exec *x, const gx_node *node)
{
    if (gx_lower_exact(x, node)) {
        return;
    }
    gx_mat a;
    const gx_mat *A = gx_input_mat(x, node, 0, &a);
    double value = 0;
    if (node->op->id == GX_OP_RANK) {
        int64_t rank = 0;
        gx_alg_rank(x->run, A, -1, &rank);
        value = (double)rank;
    } else if (gx_alg_singular_ratio(x->run, A, &value) == GX_OK) {
        value = 1 / value;
    }
    gx_result_number(x, node, (gx_scalar){value, 0});
}

void gx_lower_cholesky(gx_exec *x, const gx_node *node)
{
    gx_mat a;
    gx_sink *F = gx_result_sink(x, node, 0, 0, 0, 0);
    if (F != NULL) {
        gx_alg_cholesky(x->run, gx_input_mat(x, node, 0, &a), GX_LOWER, F);
    }
}

// LU ----------------------------------------------------------------------------------------------

/* P of A = P L U: column order[i] of P^T has its one in row i. */
static void put_permutation(gx_exec *x, const gx_node *node, const gx_aux *aux)
{
    const gx_type *t = gx_result_type(node, 0);
    int64_t *order = gx_temp(x, (size_t)aux->rows * sizeof *order);
    void *c = order == NULL ? NULL : gx_result(x, node, 0);
    if (c == NULL) {
        return;
    }
    gx_lu_order(aux, order);
    memset(c, 0, (size_t)(t->rows * t->cols) * gx_number_bytes(t->dtype));
    for (int64_t i = 0; i < aux->rows; i++) {
        gx_number_put(t->dtype, c, i * t->rows + order[i], GX_ONE);
    }
}

void gx_lower_lu(gx_exec *x, const gx_node *node)
{
    if (gx_lower_exact(x, node)) {
        return;
    }
    gx_run *run = x->run;
    gx_mat a, F;
    const gx_mat *A = gx_input_mat(x, node, 0, &a);
    gx_sink scratch = {.run = NULL};
    gx_aux aux = {.kind = GX_AUX_NONE};
    if (gx_alg_lu_scratch(run, A, node->more[0].dtype, &scratch, &aux) == GX_OK) {
        gx_sink_source(&scratch, A->label, &F);
        for (int k = 1; k < 3 && gx_ok(run); k++) {
            const gx_type *t = gx_result_type(node, k);
            int64_t tile_rows, tile_cols;
            gx_lu_part_tiles(run, &aux, t->rows, t->cols, &tile_rows, &tile_cols);
            gx_sink *C =
                gx_wants(x, node, k) ? gx_result_sink(x, node, k, 0, tile_rows, tile_cols) : NULL;
            if (C != NULL) {
                gx_alg_lu_part(run, &F, &aux, k == 1 ? GX_LU_LOWER : GX_LU_UPPER, C);
            }
        }
        if (gx_wants(x, node, 0)) {
            put_permutation(x, node, &aux);
        }
    }
    gx_sink_drop(&scratch);
    gx_aux_clear(&aux, run->ctx->mem);
}

void gx_lower_qr(gx_exec *x, const gx_node *node)
{
    gx_mat a;
    const gx_mat *A = gx_input_mat(x, node, 0, &a);
    const gx_type *t = gx_result_type(node, 0);
    int64_t tile_rows, tile_cols;
    gx_sink *Q = NULL, *R = NULL;
    if (gx_wants(x, node, 0)) {
        gx_plan_q_tiles(x->run, A->rows, A->cols, t->cols, t->dtype, &tile_rows, &tile_cols);
        Q = gx_result_sink(x, node, 0, 0, tile_rows, tile_cols);
    }
    if (gx_wants(x, node, 1)) {
        R = gx_result_sink(x, node, 1, 0, 0, 0);
    }
    if (gx_ok(x->run) && (Q != NULL || R != NULL)) {
        gx_alg_qr_parts(x->run, A, Q, R);
    }
}

void gx_lower_solve_banded(gx_exec *x, const gx_node *node)
{
    const gx_type *t = &node->type;
    gx_number wide = gx_number_wide(t->dtype);
    gx_banded A = {.label = gx_graph_label(x->g, gx_input(x->g, node, 0), "ab"),
                   .number = wide,
                   .n = t->rows,
                   .lower = node->whole[0],
                   .upper = node->whole[1]};
    A.bands = gx_input_data(x, node, 0, wide);
    const void *b = gx_input_data(x, node, 1, wide);
    void *c = gx_result(x, node, 0), *solution = c;
    size_t bytes = (size_t)(t->rows * t->cols) * gx_number_bytes(wide);
    if (wide != t->dtype) {
        solution = gx_temp(x, gx_max(1, bytes));
    }
    if (A.bands != NULL && b != NULL && c != NULL && solution != NULL && bytes > 0) {
        int64_t ld = gx_max(1, t->rows);
        memcpy(solution, b, bytes);
        if (gx_alg_banded_solve(x->run, &A, t->cols, solution) == GX_OK && solution != c) {
            gx_convert(wide, solution, ld, t->dtype, c, ld, t->rows, t->cols);
        }
    }
}
