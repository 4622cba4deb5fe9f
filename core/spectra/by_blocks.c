/*
** All eigenvalues, or singular values, of a block diagonal composite: those of its blocks
** (alg/by_parts.h), put in order.
*/
#include "spectrum_int.h"

#include "../alg/by_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Values of blocks behind those that are there. */
static void add_values(gx_run *run, const gx_eig_args *args, const gx_mat *block,
                       gx_eig_result *all)
{
    gx_eig_args one = *args;
    gx_eig_result found = {.mem = run->ctx->mem};
    one.A = block;
    if (gx_eig_dense(run, &one, &found) == GX_OK) {
        memcpy(all->values + all->count, found.values, (size_t)found.count * sizeof *found.values);
        all->count += found.count;
        all->is_real = all->is_real && found.is_real;
        all->is_hermitian = all->is_hermitian && found.is_hermitian;
    }
    gx_eig_clear(&found);
}

static void put_in_order(gx_run *run, const gx_eig_args *args, gx_eig_result *result)
{
    size_t bytes = (size_t)result->count * sizeof *result->values;
    int64_t *order = gx_run_alloc(run, (size_t)result->count * sizeof *order, "an order");
    gx_scalar *sorted = gx_run_alloc(run, bytes, "eigenvalues");
    if (gx_ok(run)) {
        gx_eig_sort_order(result->values, result->count, args->which, args->sigma,
                          result->is_hermitian, true, order);
        for (int64_t k = 0; k < result->count; k++) {
            sorted[k] = result->values[order[k]];
        }
        memcpy(result->values, sorted, bytes);
    }
    gx_mem_free(run->ctx->mem, order);
    gx_mem_free(run->ctx->mem, sorted);
}

bool gx_eig_by_blocks(gx_run *run, const gx_eig_args *args, gx_eig_result *result)
{
    int64_t count = 0;
    bool is_asked = args->k == 0 && !args->wants_right && args->B == NULL;
    gx_mat *block = is_asked ? gx_parts_blocks(run, args->A, &count) : NULL;
    if (block == NULL) {
        return !gx_ok(run);
    }
    result->n = args->A->rows;
    result->dtype = args->A->number;
    result->is_real = result->is_hermitian = true;
    result->driver = "by blocks";
    result->values = gx_run_alloc(run, (size_t)result->n * sizeof *result->values, "eigenvalues");
    for (int64_t b = 0; b < count && gx_ok(run); b++) {
        add_values(run, args, &block[b], result);
    }
    if (gx_ok(run)) {
        put_in_order(run, args, result);
    }
    gx_parts_free_blocks(run, block, count);
    return true;
}

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

bool gx_svd_by_blocks(gx_run *run, const gx_svd_args *args, gx_svd_result *result)
{
    int64_t count = 0;
    bool is_asked = args->k == 0 && args->mode == GX_SVD_VALUES && !args->wants_residuals &&
                    !args->is_smallest && args->method == GX_SVD_DENSE;
    gx_mat *block = is_asked ? gx_parts_blocks(run, args->A, &count) : NULL;
    if (block == NULL) {
        return !gx_ok(run);
    }
    result->m = result->n = args->A->rows;
    result->dtype = args->A->number;
    result->driver = "by blocks";
    result->sigma = gx_run_alloc(run, (size_t)result->n * sizeof *result->sigma, "singular values");
    for (int64_t b = 0; b < count && gx_ok(run); b++) {
        gx_svd_args one = *args;
        gx_svd_result found = {.mem = run->ctx->mem};
        one.A = &block[b];
        if (gx_svd_dense(run, &one, &found) == GX_OK) {
            memcpy(result->sigma + result->count, found.sigma,
                   (size_t)found.count * sizeof *found.sigma);
            result->count += found.count;
        }
        gx_svd_clear(&found);
    }
    if (gx_ok(run)) {
        qsort(result->sigma, (size_t)result->count, sizeof *result->sigma, descending);
    }
    gx_parts_free_blocks(run, block, count);
    return true;
}
