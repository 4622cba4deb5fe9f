/*
** Blocks of vectors for Krylov methods: products, orthonormalisation, random columns.
**
** Block classical Gram-Schmidt, twice, against the basis; then the columns of the block one by one,
** twice, against those before them.  A column that is left with little of what it had loses digits
** of its orthogonality to the basis, and goes there once more.  A column of which only rounding is
** left is replaced by a random one: a breakdown, or an invariant subspace, is an ordinary step.
** Twice is enough: Giraud, Langou, Rozloznik & van den Eshof 2005.
**
** Work 4 n (m + cols) cols flops a sweep, almost all of it products of blocks.  Memory: the
** caller's `work`.  Inner products are of the vectors' dtype; coefficients are kept in doubles.
*/
#include "../alg/dense.h"
#include "../alg/small_r.h"
#include "../base/random.h"
#include "krylov.h"
#include "spectrum_int.h"

#include <assert.h>
#include <math.h>
#include <string.h>

double gx_kry_norm(gx_dtype dtype, const void *x, int64_t n)
{
    return gx_small_norm(dtype, x, gx_max(1, n), n, 1);
}

void gx_kry_add(gx_dtype dtype, int64_t rows, int64_t cols, const void *x, void *y, int64_t ldy)
{
    int64_t numbers = rows * (gx_dtype_is_complex(dtype) ? 2 : 1);
    for (int64_t j = 0; j < cols; j++) {
        const void *from = gx_at(x, dtype, rows, 0, j);
        void *to = gx_at(y, dtype, ldy, 0, j);
        if (gx_dtype_is_double(dtype)) {
            for (int64_t i = 0; i < numbers; i++) {
                ((double *)to)[i] += ((const double *)from)[i];
            }
        } else {
            for (int64_t i = 0; i < numbers; i++) {
                ((float *)to)[i] += ((const float *)from)[i];
            }
        }
    }
}

/* h (rows x cols of doubles) += the same of dtype; h NULL: nothing. */
static void add_wide(gx_dtype dtype, const void *from, int64_t rows, int64_t cols, double factor,
                     void *h, int64_t ldh)
{
    gx_dtype wide = gx_dtype_wide(dtype);
    int64_t parts = wide == GX_C128 ? 2 : 1;
    for (int64_t j = 0; j < cols && h != NULL; j++) {
        for (int64_t i = 0; i < rows; i++) {
            double x[2];
            gx_convert(dtype, gx_at(from, dtype, rows, i, j), 1, wide, x, 1, 1, 1);
            double *to = gx_at(h, wide, ldh, i, j);
            for (int64_t p = 0; p < parts; p++) {
                to[p] += factor * x[p];
            }
        }
    }
}

/* y -= V (V^H y), and h += factor V^H y. */
static void project(gx_ortho *o, const void *V, int64_t m, void *y, int64_t cols, double factor,
                    void *h, int64_t ldh)
{
    if (m == 0 || cols == 0) {
        return;
    }
    gx_dense_gemm(o->run, o->dtype, gx_adjoint(o->dtype), GX_NO_TRANS, m, cols, o->n, 1, V, o->n, y,
                  o->n, 0, o->work, m);
    gx_dense_gemm(o->run, o->dtype, GX_NO_TRANS, GX_NO_TRANS, o->n, cols, m, -1, V, o->n, o->work,
                  m, 1, y, o->n);
    if (gx_ok(o->run)) {
        add_wide(o->dtype, o->work, m, cols, factor, h, ldh);
    }
}

int64_t gx_ortho_work(int64_t most, int64_t block)
{
    return (most + block) * block;
}

void gx_ortho_draw(gx_ortho *o, void *column)
{
    gx_random random;
    gx_err err = {0};
    if (gx_random_init(&random, GX_RANDOM_NORMAL, o->dtype, (int64_t)o->seed, 0, 1, &err) ==
        GX_OK) {
        gx_random_generate(&random, 0, o->drawn, o->n, 1, o->dtype, column, gx_max(1, o->n));
    }
    o->drawn++;
    gx_run_fail(o->run, &err);
}

/* Random columns until there are `want`. */
static void fill(gx_ortho *o, const void *V, int64_t m, void *y, int64_t count, int64_t want)
{
    enum { TRIES = 8 }; // a draw that lies in the span already has probability zero
    for (int tries = 0; count < want && tries < TRIES * want && gx_ok(o->run); tries++) {
        void *v = gx_at(y, o->dtype, o->n, 0, count);
        gx_ortho_draw(o, v);
        double norm = gx_kry_norm(o->dtype, v, o->n);
        for (int sweep = 0; sweep < 3 && norm > 0; sweep++) {
            gx_vector_scale(o->dtype, v, o->n, 1, (gx_scalar){1 / norm, 0});
            project(o, V, m, v, 1, 0, NULL, 0);
            project(o, y, count, v, 1, 0, NULL, 0);
            norm = gx_kry_norm(o->dtype, v, o->n);
        }
        if (norm > 0.5) { // the last sweep took nothing more away
            gx_vector_scale(o->dtype, v, o->n, 1, (gx_scalar){1 / norm, 0});
            count++;
        }
    }
    if (count < want && gx_ok(o->run)) {
        gx_run_failf(o->run, GX_NUMERIC, "no vector is left outside of %lld of %lld dimensions",
                     (long long)(m + count), (long long)o->n);
    }
}

/*
** Column j of y against Q's `count`; h, s: its coefficients.  true: it became column `count`;
** never where Q is full: what is left is then rounding.
*/
static bool accept(gx_ortho *o, const void *V, int64_t m, void *y, int64_t j, int64_t count,
                   double before, bool is_full, void *h, int64_t ldh, void *s, int64_t lds)
{
    gx_dtype wide = gx_dtype_wide(o->dtype);
    void *v = gx_at(y, o->dtype, o->n, 0, j);
    void *hj = h == NULL ? NULL : gx_at(h, wide, ldh, 0, j);
    void *sj = s == NULL ? NULL : gx_at(s, wide, lds, 0, j);
    project(o, y, count, v, 1, 1, sj, lds);
    project(o, y, count, v, 1, 1, sj, lds);
    double norm = gx_kry_norm(o->dtype, v, o->n);
    double eps = gx_dtype_eps(o->dtype);
    if (is_full || !(norm > 16 * eps * fmax(o->norm, before)) || !gx_ok(o->run)) {
        return false;
    }
    gx_vector_scale(o->dtype, v, o->n, 1, (gx_scalar){1 / norm, 0});
    const double DIGITS = 1e-2; // what is left of a column before it goes through once more
    if (norm < DIGITS * before) {
        for (int sweep = 0; sweep < 2; sweep++) {
            project(o, V, m, v, 1, norm, hj, ldh);
            project(o, y, count, v, 1, norm, sj, lds);
        }
        double left = gx_kry_norm(o->dtype, v, o->n);
        if (!(left > 0.1)) {
            return false; // it was rounding after all
        }
        gx_vector_scale(o->dtype, v, o->n, 1, (gx_scalar){1 / left, 0});
        norm *= left;
    }
    if (sj != NULL) {
        double *at = gx_at(sj, wide, lds, count, 0);
        at[0] += norm;
    }
    if (j != count) {
        memcpy(gx_at(y, o->dtype, o->n, 0, count), v, (size_t)o->n * gx_dtype_bytes(o->dtype));
    }
    return true;
}

static void clear_wide(gx_dtype dtype, void *x, int64_t ld, int64_t rows, int64_t cols)
{
    gx_dtype wide = gx_dtype_wide(dtype);
    for (int64_t j = 0; j < cols && x != NULL && rows > 0; j++) {
        memset(gx_at(x, wide, ld, 0, j), 0, (size_t)rows * gx_dtype_bytes(wide));
    }
}

gx_code gx_ortho_block(gx_ortho *o, const void *V, int64_t m, void *y, int64_t cols, int64_t want,
                       void *h, int64_t ldh, void *s, int64_t lds)
{
    double before[GX_KRY_BLOCK_MOST];
    assert(cols <= GX_KRY_BLOCK_MOST && m + want <= o->n);
    if (!gx_ok(o->run)) {
        return o->run->err.code;
    }
    clear_wide(o->dtype, h, ldh, m, cols);
    clear_wide(o->dtype, s, lds, want, cols);
    for (int64_t j = 0; j < cols; j++) {
        before[j] = gx_kry_norm(o->dtype, gx_at(y, o->dtype, o->n, 0, j), o->n);
        o->norm = fmax(o->norm, s == NULL ? 0 : before[j]);
        if (!isfinite(before[j])) {
            return gx_run_failf(o->run, GX_NUMERIC, "a product with the matrix has NaN or Inf");
        }
    }
    project(o, V, m, y, cols, 1, h, ldh);
    project(o, V, m, y, cols, 1, h, ldh);
    int64_t count = 0;
    for (int64_t j = 0; j < cols && gx_ok(o->run); j++) {
        count += accept(o, V, m, y, j, count, before[j], count == want, h, ldh, s, lds) ? 1 : 0;
    }
    fill(o, V, m, y, count, want);
    return gx_run_poll(o->run);
}

gx_code gx_kry_rotate(gx_run *run, gx_dtype dtype, void *V, int64_t n, int64_t m, const void *W,
                      int64_t ldw, int64_t p)
{
    enum { PANEL = 1024 };
    void *narrow = NULL, *panel = NULL;
    int64_t rows = gx_min(n, PANEL);
    assert(p <= m); // in place
    if (gx_dense_alloc(run, dtype, m, p, "a rotation", &narrow) == GX_OK &&
        gx_dense_alloc(run, dtype, rows, p, "a panel of the basis", &panel) == GX_OK) {
        gx_convert(gx_dtype_wide(dtype), W, ldw, dtype, narrow, gx_max(1, m), m, p);
    }
    for (int64_t i = 0; i < n && gx_ok(run); i += rows) {
        int64_t count = gx_min(rows, n - i);
        gx_dense_gemm(run, dtype, GX_NO_TRANS, GX_NO_TRANS, count, p, m, 1,
                      gx_at(V, dtype, n, i, 0), n, narrow, m, 0, panel, rows);
        if (gx_ok(run)) {
            gx_convert(dtype, panel, rows, dtype, gx_at(V, dtype, n, i, 0), n, count, p);
        }
    }
    gx_mem_free(run->ctx->mem, narrow);
    gx_mem_free(run->ctx->mem, panel);
    return gx_ok(run) ? GX_OK : run->err.code;
}
