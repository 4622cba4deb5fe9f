/*
** Blocks of vectors for Krylov methods: sums, rotations, random columns; and Gram-Schmidt column by
** column, for the blocks that cannot be made orthonormal as a whole (krylov_ortho.c).
**
** Block classical Gram-Schmidt, twice, against the basis; then the columns of the block one by one,
** twice, against those before them.  A column that is left with little of what it had loses digits
** of its orthogonality to the basis, and goes there once more.  A column of which only rounding is
** left is replaced by a random one: a breakdown, or an invariant subspace, is an ordinary step.
** Twice is enough: Giraud, Langou, Rozloznik & van den Eshof 2005.
**
** Work 4 n (m + cols) cols flops a sweep; columns are read one against all before it, again and
** again, by one thread.  Memory: the caller's.  Inner products are of the vectors' dtype;
** coefficients are kept in doubles.
*/
#include "../alg/dense.h"
#include "../alg/small_r.h"
#include "../base/random.h"
#include "../run/call.h"
#include "krylov.h"
#include "spectrum_int.h"

#include <assert.h>
#include <math.h>
#include <string.h>

double gx_kry_norm(gx_number dtype, const void *x, int64_t n)
{
    return gx_small_norm(dtype, x, gx_max(1, n), n, 1);
}

void gx_kry_add(gx_number dtype, int64_t rows, int64_t cols, const void *x, void *y, int64_t ldy)
{
    int64_t numbers = rows * (gx_number_is_complex(dtype) ? 2 : 1);
    for (int64_t j = 0; j < cols; j++) {
        const void *from = gx_at(x, dtype, rows, 0, j);
        void *to = gx_at(y, dtype, ldy, 0, j);
        if (gx_number_is_double(dtype)) {
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
static void add_wide(gx_number dtype, const void *from, int64_t rows, int64_t cols, double factor,
                     void *h, int64_t ldh)
{
    gx_number wide = gx_number_wide(dtype);
    for (int64_t j = 0; j < cols && h != NULL; j++) {
        for (int64_t i = 0; i < rows; i++) {
            gx_scalar x = gx_number_get(dtype, from, j * rows + i);
            gx_scalar sum = gx_number_get(wide, h, j * ldh + i);
            sum.re += factor * x.re;
            sum.im += factor * x.im;
            gx_number_put(wide, h, j * ldh + i, sum);
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
                  o->n, 0, o->scratch, m);
    gx_dense_gemm(o->run, o->dtype, GX_NO_TRANS, GX_NO_TRANS, o->n, cols, m, -1, V, o->n,
                  o->scratch, m, 1, y, o->n);
    if (gx_ok(o->run)) {
        add_wide(o->dtype, o->scratch, m, cols, factor, h, ldh);
    }
}

// Random columns ----------------------------------------------------------------------------------

typedef struct draw {
    gx_random random;
    const gx_ortho *o;
    void *columns;
} draw;

static gx_code draw_column(void *arg, int64_t j, int member, gx_err *err)
{
    const draw *d = arg;
    const gx_ortho *o = d->o;
    (void)member, (void)err;
    gx_random_generate(&d->random, 0, o->drawn + j, o->n, 1, o->dtype,
                       gx_at(d->columns, o->dtype, o->n, 0, j), gx_max(1, o->n));
    return GX_OK;
}

void gx_ortho_draw(gx_ortho *o, void *columns, int64_t count)
{
    draw d = {.o = o, .columns = columns};
    gx_err err = {0};
    if (gx_random_init(&d.random, GX_RANDOM_NORMAL, o->dtype, (int64_t)o->seed, 0, 1, &err) ==
        GX_OK) {
        gx_run_pieces(o->run, (double)o->n * (double)count, count, draw_column, &d);
    }
    o->drawn += count;
    gx_run_fail(o->run, &err);
}

/* Random columns until there are `want`. */
static void fill(gx_ortho *o, const void *V, int64_t m, void *y, int64_t count, int64_t want)
{
    enum { TRIES = 8 }; // a draw that lies in the span already has probability zero
    for (int tries = 0; count < want && tries < TRIES * want && gx_ok(o->run); tries++) {
        void *v = gx_at(y, o->dtype, o->n, 0, count);
        gx_ortho_draw(o, v, 1);
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
                   bool is_full, const gx_ortho_lengths *l, void *hj, int64_t ldh, void *sj,
                   int64_t lds)
{
    void *v = gx_at(y, o->dtype, o->n, 0, j);
    project(o, y, count, v, 1, 1, sj, lds);
    project(o, y, count, v, 1, 1, sj, lds);
    double norm = gx_kry_norm(o->dtype, v, o->n);
    double least = GX_ORTHO_ROUNDING * gx_number_eps(o->dtype) * fmax(o->norm, l->before[j]);
    if (is_full || !(norm * l->scale[j] > least) || !gx_ok(o->run)) {
        return false;
    }
    gx_vector_scale(o->dtype, v, o->n, 1, (gx_scalar){1 / norm, 0});
    const double DIGITS = 1e-2; // what is left of a column before it goes through once more
    if (norm < DIGITS * l->now[j]) {
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
    double *at = gx_at(sj, gx_number_wide(o->dtype), lds, count, 0);
    at[0] += norm;
    if (j != count) {
        memcpy(gx_at(y, o->dtype, o->n, 0, count), v, (size_t)o->n * gx_number_bytes(o->dtype));
    }
    return true;
}

void gx_ortho_columns(gx_ortho *o, const void *V, int64_t m, void *y, int64_t cols, int64_t want,
                      gx_ortho_lengths *l, void *h, int64_t ldh, void *s, int64_t lds)
{
    gx_number wide = gx_number_wide(o->dtype);
    int64_t count = 0;
    for (int64_t j = 0; j < cols && gx_ok(o->run); j++) {
        memset(gx_at(h, wide, ldh, 0, j), 0, (size_t)m * gx_number_bytes(wide));
        memset(gx_at(s, wide, lds, 0, j), 0, (size_t)want * gx_number_bytes(wide));
        l->now[j] = gx_kry_norm(o->dtype, gx_at(y, o->dtype, o->n, 0, j), o->n);
    }
    project(o, V, m, y, cols, 1, h, ldh);
    project(o, V, m, y, cols, 1, h, ldh);
    for (int64_t j = 0; j < cols && gx_ok(o->run); j++) {
        count += accept(o, V, m, y, j, count, count == want, l, gx_at(h, wide, ldh, 0, j), ldh,
                        gx_at(s, wide, lds, 0, j), lds)
                     ? 1
                     : 0;
    }
    fill(o, V, m, y, count, want);
}

// Rotations ---------------------------------------------------------------------------------------

typedef struct rotation {
    const gx_backend *backend;
    gx_dev *dev;
    gx_number dtype;
    void *V;
    int64_t n, m, p;
    const void *W; /* of dtype                           */
    void *panels;  /* GX_KRY_PANEL x p for each thread   */
} rotation;

static gx_code rotate_panel(void *arg, int64_t piece, int member, gx_err *err)
{
    const rotation *r = arg;
    int64_t i = piece * GX_KRY_PANEL, rows = gx_min(GX_KRY_PANEL, r->n - i);
    void *to = gx_at(r->V, r->dtype, r->n, i, 0);
    void *panel = gx_at(r->panels, r->dtype, GX_KRY_PANEL, 0, member * r->p);
    gx_args args = {.m = rows, .n = r->p, .k = r->m, .alpha = {1, 0}, .a = to, .lda = r->n};
    args.b = r->W;
    args.ldb = r->m;
    args.c = panel;
    args.ldc = GX_KRY_PANEL;
    GX_TRY(r->backend->kernel[GX_GEMM][r->dtype](r->dev, NULL, &args, err));
    gx_convert(r->dtype, panel, GX_KRY_PANEL, r->dtype, to, r->n, rows, r->p);
    return GX_OK;
}

gx_code gx_kry_rotate(gx_run *run, gx_number dtype, void *V, int64_t n, int64_t m, const void *W,
                      int64_t ldw, int64_t p)
{
    void *narrow = NULL;
    rotation r = {.dtype = dtype, .V = V, .n = n, .m = m, .p = p};
    double flops = (gx_number_is_complex(dtype) ? 8.0 : 2.0) * (double)n * (double)m * (double)p;
    int64_t start_ns = gx_now_ns();
    assert(p <= m); // in place
    if (p == 0 || !gx_ok(run) || gx_run_device(run, &r.backend, &r.dev) != GX_OK) {
        return run->err.code;
    }
    gx_dense_alloc(run, dtype, m, p, "a rotation", &narrow);
    // A panel for each of the team, or one for all.
    size_t panel = (size_t)(GX_KRY_PANEL * p) * gx_number_bytes(dtype);
    size_t threads = (size_t)gx_team_threads(flops < GX_TEAM_FLOPS ? NULL : gx_run_team(run));
    bool is_shared = gx_ok(run) && gx_mem_alloc(run->ctx->mem, threads * panel,
                                                "panels of the basis", &r.panels, NULL) == GX_OK;
    if (!is_shared) {
        gx_dense_alloc(run, dtype, GX_KRY_PANEL, p, "a panel of the basis", &r.panels);
    }
    if (gx_ok(run)) {
        gx_convert(gx_number_wide(dtype), W, ldw, dtype, narrow, m, m, p);
        r.W = narrow;
        gx_run_pieces(run, is_shared && threads > 1 ? (double)n * (double)m : 0,
                      gx_ceil_div(n, GX_KRY_PANEL), rotate_panel, &r);
        gx_stats_kernel(&run->ctx->stats, flops, gx_now_ns() - start_ns);
    }
    gx_mem_free(run->ctx->mem, narrow);
    gx_mem_free(run->ctx->mem, r.panels);
    return gx_ok(run) ? GX_OK : run->err.code;
}
