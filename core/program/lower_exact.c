/*
** Systems and factorisations of whole numbers modulo 2^31 - 1: elimination in memory (see lower.h).
*/
#include "../exact/exact.h"
#include "lower.h"
#include "values.h"

#include <string.h>

static void solve(gx_exec *x, const gx_node *node, const gx_mat *A, const gx_echelon *e)
{
    gx_run *run = x->run;
    gx_mat space;
    const gx_mat *B = node->op->id == GX_OP_SOLVE ? gx_input_mat(x, node, 1, &space) : NULL;
    int64_t n = A->rows, cols = B == NULL ? n : B->cols;
    uint32_t *b = NULL, *to = gx_result(x, node, 0);
    bool is_solved;
    if (e->rank < n) {
        gx_run_failf(run, GX_NUMERIC, "%s is singular modulo 2^31 - 1: its rank is %lld", A->label,
                     (long long)e->rank);
    }
    if (B != NULL) {
        gx_exact_load_mod(run, B, GX_M31_P, &b);
    } else {
        b = gx_run_calloc(run, (size_t)(n * n) * sizeof *b, "an identity");
    }
    for (int64_t i = 0; i < n && B == NULL && b != NULL; i++) {
        b[i * (n + 1)] = 1;
    }
    if (b != NULL && to != NULL && gx_ok(run)) {
        gx_echelon_solve(e, b, cols, to, &is_solved);
    }
    gx_mem_free(run->ctx->mem, b);
}

static void put_lu(gx_exec *x, const gx_node *node, const gx_echelon *e)
{
    const gx_type *t = gx_result_type(node, 0);
    int64_t *order = gx_temp(x, (size_t)e->rows * sizeof *order);
    uint32_t *P = gx_wants(x, node, 0) ? gx_result(x, node, 0) : NULL;
    if (order != NULL && P != NULL) {
        gx_echelon_order(e, order);
        memset(P, 0, (size_t)(t->rows * t->cols) * sizeof *P);
        for (int64_t i = 0; i < e->rows; i++) {
            P[order[i] + i * t->rows] = 1;
        }
    }
    uint32_t *L = gx_wants(x, node, 1) ? gx_result(x, node, 1) : NULL;
    if (L != NULL) {
        gx_echelon_lower(e, L);
    }
    uint32_t *U = gx_wants(x, node, 2) ? gx_result(x, node, 2) : NULL;
    if (U != NULL) {
        gx_echelon_upper(e, U);
    }
}

bool gx_lower_exact(gx_exec *x, const gx_node *node)
{
    gx_run *run = x->run;
    gx_mat space;
    if (gx_input_node(x->g, node, 0)->type.dtype != GX_M31) {
        return false;
    }
    const gx_mat *A = gx_input_mat(x, node, 0, &space);
    gx_echelon e = {.run = run, .p = GX_M31_P, .rows = A->rows, .cols = A->cols};
    if (gx_exact_load_mod(run, A, GX_M31_P, &e.x) == GX_OK && gx_exact_eliminate(&e) == GX_OK) {
        switch (node->op->id) {
        case GX_OP_DET:
            gx_result_number(x, node, (gx_scalar){gx_echelon_det(&e), 0});
            break;
        case GX_OP_RANK:
            gx_result_number(x, node, (gx_scalar){(double)e.rank, 0});
            break;
        case GX_OP_LU:
            put_lu(x, node, &e);
            break;
        default:
            solve(x, node, A, &e);
            break;
        }
    }
    gx_echelon_clear(&e);
    gx_mem_free(run->ctx->mem, e.x);
    return true;
}
