/*
** Block Krylov-Schur: the result.  See krylov_eig.c.
**
** Vectors are V y, turned back where the operator was a transformed one; residuals are those of A
** itself, from one pass over it.  Memory: vectors, and three blocks of them for residuals.
*/
#include "../alg/dense.h"
#include "krylov_eig.h"

#include <math.h>
#include <string.h>

/* Columns of the result's vectors: V x, complex where the result is. */
static void make_vector(gx_kry *s, int64_t at, const gx_scalar *x, gx_number dtype, void *out)
{
    int64_t n = s->n, m = s->m;
    void *part = NULL, *y = NULL;
    bool is_mixed = dtype != s->dtype; // a real basis, complex vectors
    if (gx_dense_alloc(s->run, s->dtype, 2, m, "a Ritz vector", &part) == GX_OK &&
        gx_dense_alloc(s->run, s->dtype, n, 1, "an eigenvector", &y) == GX_OK) {
        for (int64_t p = 0; p < (is_mixed ? 2 : 1) && gx_ok(s->run); p++) {
            for (int64_t i = 0; i < m; i++) {
                double pair[2] = {p == 0 ? x[i].re : x[i].im, x[i].im};
                gx_convert(s->wide, pair, 1, s->dtype, gx_at(part, s->dtype, 1, i, 0), 1, 1, 1);
            }
            gx_dense_gemm(s->run, s->dtype, GX_NO_TRANS, GX_NO_TRANS, n, 1, m, 1, s->V, n, part, m,
                          0, y, n);
            char *to = gx_at(out, dtype, n, 0, at);
            size_t half = gx_number_bytes(s->dtype), step = gx_number_bytes(dtype);
            for (int64_t i = 0; i < n && gx_ok(s->run); i++) {
                memcpy(to + (size_t)i * step + (size_t)p * half, (char *)y + (size_t)i * half,
                       half);
            }
        }
    }
    gx_mem_free(s->run->ctx->mem, part);
    gx_mem_free(s->run->ctx->mem, y);
}

/* ||A x - value B x||_2 of vectors whose dtype is the operator's, in one pass. */
static void find_residuals(gx_kry *s, gx_number dtype)
{
    gx_eig_result *r = s->result;
    int64_t n = s->n, parts = dtype != s->dtype ? 2 : 1, cols = r->count * parts;
    void *x = gx_dense_take(s->run, s->dtype, n, cols, "residuals");
    void *y = gx_dense_take(s->run, s->dtype, n, cols, "residuals");
    void *z = gx_dense_take(s->run, s->dtype, n, cols, "residuals");
    size_t half = gx_number_bytes(s->dtype), step = gx_number_bytes(dtype);
    for (int64_t j = 0; j < cols && gx_ok(s->run); j++) {
        const char *from = gx_at(r->right, dtype, n, 0, j / parts);
        char *to = gx_at(x, s->dtype, n, 0, j);
        for (int64_t i = 0; i < n; i++) {
            memcpy(to + (size_t)i * half, from + (size_t)i * step + (size_t)(j % parts) * half,
                   half);
        }
    }
    if (gx_ok(s->run) && s->matrix.apply(&s->matrix, false, x, cols, y) == GX_OK) {
        gx_oper_times_b(s->op, x, cols, z);
    }
    for (int64_t j = 0; j < r->count && gx_ok(s->run); j++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            double ax[2] = {0, 0}, bx[2] = {0, 0};
            for (int64_t p = 0; p < parts; p++) {
                gx_number to = parts == 2 ? GX_F64 : GX_C128;
                gx_convert(s->dtype, gx_at(y, s->dtype, n, i, j * parts + p), 1, to, ax + p, 1, 1,
                           1);
                gx_convert(s->dtype, gx_at(z, s->dtype, n, i, j * parts + p), 1, to, bx + p, 1, 1,
                           1);
            }
            gx_scalar l = r->values[j];
            sum = hypot(sum, hypot(ax[0] - l.re * bx[0] + l.im * bx[1],
                                   ax[1] - l.re * bx[1] - l.im * bx[0]));
        }
        r->residuals[j] = sum;
    }
    gx_mem_free(s->run->ctx->mem, x);
    gx_mem_free(s->run->ctx->mem, y);
    gx_mem_free(s->run->ctx->mem, z);
}

/* Those of the first k that have converged to the front of the order; how many. */
static int64_t take_converged(gx_kry *s)
{
    int64_t count = 0;
    for (int64_t i = 0; i < gx_min(s->k, s->m); i++) {
        if (gx_kry_has_converged(s, i)) {
            s->order[count++] = s->order[i];
        }
    }
    return count;
}

/* What residuals are measured by, in words. */
static const char *tolerance_unit(const gx_kry *s)
{
    if (s->is_inverse) {
        return "of the inverse's value";
    }
    return s->is_hermitian ? "||A||" : "|value|";
}

/* From the operator's vectors to A's; with a B, where A is Hermitian, they are of s->dtype. */
static void turn_back(gx_kry *s)
{
    gx_eig_result *r = s->result;
    if (s->args->B == NULL || gx_oper_back(s->op, r->right, r->count) == GX_OK) {
        gx_eig_fix_sign(s->run, r->dtype, r->right, s->n, r->count);
    }
}

void gx_kry_give(gx_kry *s)
{
    const gx_eig_args *args = s->args;
    gx_eig_result *r = s->result;
    double worst = 0;
    for (int64_t i = 0; i < gx_min(s->k, s->m); i++) {
        worst = fmax(worst, s->residual[i]);
    }
    int64_t count = take_converged(s);
    if (count < s->k && !args->allows_partial) {
        gx_run_failf(s->run, GX_NUMERIC,
                     "%lld of %lld eigenvalues of %s converged in %lld restarts (largest residual "
                     "%.2g, tolerance %.2g %s): raise maxiter or ncv, or take what there is "
                     "with {\"partial\":true}",
                     (long long)count, (long long)s->k, args->A->label, (long long)s->maxiter,
                     worst, s->tol, tolerance_unit(s));
        return;
    }
    if (!s->is_sure && !args->allows_partial) {
        gx_run_failf(s->run, GX_NUMERIC,
                     "%lld eigenvalues of %s converged in %lld restarts, but whether others were "
                     "missed is not known: raise maxiter or ncv, or take what there is with "
                     "{\"partial\":true}",
                     (long long)count, args->A->label, (long long)s->maxiter);
        return;
    }
    bool is_real = true;
    for (int64_t i = 0; i < count; i++) {
        is_real = is_real && (s->is_hermitian || s->value[s->order[i]].im == 0);
    }
    gx_number dtype = is_real ? s->dtype : gx_number_promote(s->dtype, GX_C64);
    if (gx_eig_reserve(s->run, r, s->n, count, dtype, args->wants_right, false,
                       args->wants_residuals) != GX_OK) {
        return;
    }
    r->is_real = is_real;
    r->is_hermitian = args->is_hermitian;
    for (int64_t i = 0; i < count && gx_ok(s->run); i++) {
        r->values[i] = s->value[s->order[i]];
        if (s->is_hermitian) {
            r->values[i].im = 0;
        }
        if (args->wants_right) {
            make_vector(s, i, s->vectors + s->order[i] * s->m, dtype, r->right);
            void *x = gx_at(r->right, dtype, s->n, 0, i);
            double norm = gx_kry_norm(dtype, x, s->n);
            if (args->B == NULL && norm > 0) {
                gx_vector_scale(dtype, x, s->n, 1, (gx_scalar){1 / norm, 0});
            }
        }
    }
    if (gx_ok(s->run) && args->wants_right) {
        turn_back(s);
    }
    if (gx_ok(s->run) && args->wants_residuals && count > 0) {
        find_residuals(s, dtype);
    }
    r->passes = s->matrix.passes;
    r->driver = s->is_hermitian ? "lanczos" : "krylov-schur";
}
