/*
** What composites cost part by part, for gx_plan: by_parts.h.
*/
#include "by_parts_int.h"

#include "../mat/sparse.h"

#include <stdio.h>
#include <string.h>

static void add_product(const gx_mat *A, double cols, gx_parts_cost *cost);

static double unit_of(gx_number number)
{
    return gx_number_is_complex(number) ? 4 : 1;
}

static void add_leaf(const gx_leaf *l, double cols, gx_parts_cost *cost)
{
    double rows = (double)l->rows, unit = unit_of(l->base.number);
    int64_t m2 = l->is_turned ? l->second.cols : l->second.rows;
    int64_t n1 = l->is_turned ? l->base.rows : l->base.cols;
    switch (l->kind) {
    case GX_LEAF_KRON:
        add_product(&l->second, (double)n1 * cols, cost);
        add_product(&l->base, (double)m2 * cols, cost);
        break;
    case GX_LEAF_PRODUCT:
        add_product(&l->second, cols, cost);
        add_product(&l->base, cols, cost);
        break;
    case GX_LEAF_MATRIX:
    case GX_LEAF_CODES:
        add_product(&l->base, cols, cost);
        break;
    case GX_LEAF_TOEPLITZ:
    case GX_LEAF_CIRCULANT:
        cost->flops += 2 * unit * rows * (double)l->cols * cols;
        break;
    default:
        cost->flops += unit * rows * cols;
        cost->bytes += l->kind == GX_LEAF_NUMBER ? 0 : rows * 8;
    }
}

static void add_product(const gx_mat *A, double cols, gx_parts_cost *cost)
{
    for (int64_t k = 0; A->kind == GX_MAT_COMPOSITE && k < A->leaves; k++) {
        add_leaf(&A->leaf[k], cols, cost);
    }
    if (A->kind == GX_MAT_COMPOSITE) {
        return;
    }
    double elements =
        A->is_sparse ? (double)gx_sparse_entries(A) : (double)A->rows * (double)A->cols;
    cost->flops += 2 * unit_of(A->number) * elements * cols;
    cost->bytes += elements * (double)(A->is_sparse ? 12 : gx_dtype_bytes(A->dtype));
}

/* "2 matrices, 1 Kronecker product". */
static void describe(const gx_leaf *leaf, int64_t leaves, gx_parts_cost *cost)
{
    static const char *const words[] = {
        [GX_LEAF_MATRIX] = "stored",       [GX_LEAF_NUMBER] = "number",
        [GX_LEAF_DIAGONAL] = "diagonal",   [GX_LEAF_TOEPLITZ] = "Toeplitz",
        [GX_LEAF_CIRCULANT] = "circulant", [GX_LEAF_PERMUTATION] = "permutation",
        [GX_LEAF_PRODUCT] = "product",     [GX_LEAF_KRON] = "Kronecker",
        [GX_LEAF_CODES] = "quantized",
    };
    int64_t count[GX_LEAF_CODES + 1] = {0};
    size_t used = 0, room = sizeof cost->detail;
    for (int64_t k = 0; k < leaves; k++) {
        count[leaf[k].kind]++;
    }
    for (int k = 0; k <= GX_LEAF_CODES && used < room; k++) {
        if (count[k] > 0) {
            used += (size_t)snprintf(cost->detail + used, room - used, "%s%lld %s",
                                     used == 0 ? "" : ", ", (long long)count[k], words[k]);
        }
    }
}

bool gx_parts_foresee_product(const gx_mat *A, int64_t cols, gx_parts_cost *cost)
{
    *cost = (gx_parts_cost){.way = "each part times its rows"};
    if (!gx_mat_is_structured(A)) {
        return false;
    }
    add_product(A, (double)cols, cost);
    describe(A->leaf, A->leaves, cost);
    return true;
}

/* Squares of matrices inside: two thirds of n^3 each, and n^2 a column. */
static void add_system(const gx_mat *A, double cols, gx_parts_cost *cost)
{
    double n = (double)A->rows;
    for (int64_t k = 0; A->kind == GX_MAT_COMPOSITE && k < A->leaves; k++) {
        const gx_leaf *l = &A->leaf[k];
        double own = l->kind == GX_LEAF_KRON ? (double)l->base.rows : 1;
        if (l->rows == l->cols && l->kind == GX_LEAF_KRON) {
            add_system(&l->second, own * cols, cost);
            add_system(&l->base, (double)l->second.rows * cols, cost);
        } else if (l->kind == GX_LEAF_MATRIX && l->rows == l->cols) {
            add_system(&l->base, cols, cost);
        } else {
            double rank = l->kind == GX_LEAF_PRODUCT ? (double)l->base.cols : 0;
            add_leaf(l, cols + rank, cost);
        }
    }
    if (A->kind != GX_MAT_COMPOSITE) {
        cost->flops += unit_of(A->number) * (2 * n * n * n / 3 + 2 * n * n * cols);
        cost->bytes += n * n * (double)gx_dtype_bytes(A->dtype);
    }
}

bool gx_parts_foresee_solve(gx_run *run, const gx_mat *A, int64_t cols, gx_parts_cost *cost)
{
    static const char *const ways[] = {
        [GX_WAY_WHOLE] = "its elements",
        [GX_WAY_DIAGONAL] = "a diagonal: divided by it",
        [GX_WAY_ONE] = "by the factors of its one part",
        [GX_WAY_LOWER] = "block triangular, top down",
        [GX_WAY_UPPER] = "block triangular, bottom up",
        [GX_WAY_LOW_RANK] = "without its products of few columns, and a system of their order",
        [GX_WAY_KRON_SHIFT] = "by the eigenvectors of both factors",
        [GX_WAY_SCHUR] = "the first block, and what it leaves of the second",
    };
    gx_parts p = {run, A->number};
    gx_square S;
    *cost = (gx_parts_cost){.way = NULL};
    if (!gx_parts_begin(&p, A, GX_NO_TRANS, &S)) {
        return false;
    }
    int64_t *cuts = gx_square_cuts(&(gx_task){.p = &p}, &S);
    cost->way = ways[cuts == NULL ? GX_WAY_WHOLE : gx_square_way(&S, cuts)];
    add_system(A, (double)cols, cost);
    describe(S.leaf, S.leaves, cost);
    gx_mem_free(run->ctx->mem, cuts);
    gx_mem_free(run->ctx->mem, S.leaf);
    return gx_ok(run);
}
