/*
** Whole matrices of whole numbers in memory, as 64-bit numbers or modulo a prime: see exact.h.
**
** i64 is loaded as the f64 of the same bytes, which are moved and not computed with; of all other
** dtypes f64 holds every whole number.
*/
#include "exact.h"

#include "../alg/dense.h"

#include <math.h>
#include <string.h>

bool gx_is_prime(uint32_t p)
{
    static const uint32_t bases[] = {2, 3, 5, 7}; // enough below 3 215 031 751
    uint32_t odd = p - 1;
    int twos = 0;
    if (p < 2 || (p > 2 && p % 2 == 0)) {
        return false;
    }
    for (; odd > 0 && odd % 2 == 0; twos++) {
        odd /= 2;
    }
    for (size_t k = 0; k < sizeof bases / sizeof *bases; k++) {
        uint32_t x = gx_field_pow(bases[k] % p, odd, p);
        bool is_witness = bases[k] % p != 0 && x != 1;
        for (int r = 0; r < twos && is_witness; r++) {
            is_witness = x != p - 1;
            x = gx_field_mul(x, x, p);
        }
        if (is_witness) {
            return false;
        }
    }
    return true;
}

/* Doubles to whole numbers, in their place. */
static gx_code make_whole(gx_run *run, const gx_mat *A, void *data, int64_t count)
{
    double *from = data;
    for (int64_t k = 0; k < count; k++) {
        double x = from[k];
        if (!(x >= -0x1p63 && x < 0x1p63) || floor(x) != x) {
            return gx_run_failf(
                run, GX_ARG,
                "%s has %.17g at (%lld, %lld): exact arithmetic is of whole numbers "
                "%s",
                A->label, x, (long long)(k % A->rows), (long long)(k / A->rows),
                floor(x) != x ? "" : "of 64 bits");
        }
        int64_t whole = (int64_t)x;
        memcpy(from + k, &whole, sizeof whole);
    }
    return GX_OK;
}

gx_code gx_exact_load(gx_run *run, const gx_mat *A, int64_t **x)
{
    gx_mat source = *A, base;
    *x = NULL;
    if (gx_number_is_complex(A->number)) {
        return gx_run_failf(run, GX_ARG, "%s is complex (%s): exact arithmetic is of whole numbers",
                            A->label, gx_number_name(A->number));
    }
    bool is_wide = A->dtype == GX_DTYPE_I64 && !A->is_sparse &&
                   (A->base == NULL || (A->kind == GX_MAT_VIEW && A->base->base == NULL));
    if (is_wide && A->base != NULL) {
        base = *A->base;
        source.base = &base;
    }
    if (is_wide) {
        gx_mat_verbatim(&source);
    }
    void *data;
    GX_TRY(gx_dense_alloc(run, GX_F64, A->rows, A->cols, "whole numbers", &data));
    gx_code code = gx_dense_load(run, &source, GX_F64, data, gx_max(1, A->rows));
    if (code == GX_OK && !is_wide) {
        code = make_whole(run, A, data, A->rows * A->cols);
    }
    if (code != GX_OK) {
        gx_mem_free(run->ctx->mem, data);
        return code;
    }
    *x = data;
    return GX_OK;
}

void gx_exact_residues(const int64_t *x, int64_t count, uint32_t p, uint32_t *to)
{
    for (int64_t k = 0; k < count; k++) {
        to[k] = gx_field_of(x[k], p);
    }
}

gx_code gx_exact_load_mod(gx_run *run, const gx_mat *A, uint32_t p, uint32_t **x)
{
    int64_t *whole, count = A->rows * A->cols;
    *x = NULL;
    if (A->number == GX_M31 && p == GX_M31_P) {
        GX_TRY(gx_dense_alloc(run, GX_M31, A->rows, A->cols, "whole numbers", x));
        gx_code code = gx_dense_load(run, A, GX_M31, *x, gx_max(1, A->rows));
        if (code != GX_OK) {
            gx_mem_free(run->ctx->mem, *x);
            *x = NULL;
        }
        return code;
    }
    GX_TRY(gx_exact_load(run, A, &whole));
    if (gx_dense_alloc(run, GX_M31, A->rows, A->cols, "residues", x) == GX_OK) {
        gx_exact_residues(whole, count, p, *x);
    }
    gx_mem_free(run->ctx->mem, whole);
    return gx_ok(run) ? GX_OK : run->err.code;
}
