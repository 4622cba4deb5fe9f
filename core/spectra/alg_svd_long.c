/*
** Singular value decomposition of a long matrix whose singular vectors do not fit in memory.
**
**   T = Q R         by TSQR (alg_tsqr.c), T = A where A is tall, A^H where it is wide
**   R = X S Y^H     GESDD, n x n, n being the shorter side
**   T = (Q X) S Y^H
**
** Q stays the tree of reflectors V, and Q X = W is made by the tree's product with X, a block of
** rows after the other: both are intermediates, in memory where they fit and else in the temp
** database.  The sign of W's columns is known only when all of W is; it is put on as the result is
** written.  (Chan 1982 for QR first; Demmel, Grigori, Hoemmen & Langou 2012 for the tree.)
**
** Work: 8 m n^2 flops and 22 n^3.  I/O: A is read once, V and W are written once and read once, W
** twice more for signs.  Memory: R, X, Y^H, GESDD's work space and the blocks of TSQR, whatever m.
** Deterministic mode: always this way where it can be, so that the bits do not depend on the
** budget.
*/
#include "../alg/alg.h"
#include "../alg/alg_qr.h"
#include "../alg/dense.h"
#include "../alg/small_r.h"
#include "spectrum_int.h"

#include <math.h>
#include <string.h>

// W: Q X ------------------------------------------------------------------------------------------

typedef struct parts {
    gx_run *run;
    const gx_mat *T;
    int64_t m, n;
    gx_number dtype;
    gx_sink V, R;
    gx_tsqr_plan plan;
    void *tau, *x, *yh;
} parts;

static void begin(parts *p, gx_sink *W)
{
    int64_t tile_rows, tile_cols;
    gx_plan_q_tiles(p->run, p->m, p->n, p->n, p->dtype, &tile_rows, &tile_cols);
    gx_qr_begin_scratch(p->run, p->m, p->n, p->dtype, tile_rows, tile_cols, 0, W);
    gx_qr_begin_scratch(p->run, p->m, p->n, p->dtype, tile_rows, tile_cols, 0, &p->V);
    gx_sink_begin_scratch(p->run, p->n, p->n, p->dtype, 0, &p->R);
    if (gx_ok(p->run)) {
        gx_plan_tsqr(p->run, p->m, p->n, p->n, p->dtype, &p->plan);
    }
    if (gx_ok(p->run) && (!p->plan.is_possible || p->R.is_stored)) {
        gx_run_failf(p->run, GX_BUDGET,
                     "three blocks of %s's rows do not fit in memory beside the triangle of its "
                     "QR: raise it with gx_config('memory_limit', ...)",
                     p->T->label);
    }
    if (gx_ok(p->run)) {
        gx_dense_alloc(p->run, p->dtype, p->plan.blocks * p->n, 1, "scalars of reflectors",
                       &p->tau);
    }
}

/* R = X S Y^H. */
static void decompose(parts *p, double *sigma)
{
    gx_run *run = p->run;
    int64_t n = p->n;
    gx_small_r r = {0};
    gx_mat source;
    if (gx_ok(run)) {
        gx_sink_source(&p->R, p->T->label, &source);
        gx_small_r_take(run, &source, n, p->dtype, &r);
    }
    gx_dense_alloc(run, p->dtype, n, n, "left singular vectors", &p->x);
    gx_dense_alloc(run, p->dtype, n, n, "right singular vectors", &p->yh);
    gx_svd_square(run, p->T->label, p->dtype, n, r.r, sigma, p->x, p->yh);
    gx_small_r_clear(&r);
}

static void multiply(parts *p, gx_sink *W)
{
    gx_mat V, X;
    if (gx_ok(p->run)) {
        gx_sink_source(&p->V, "V", &V);
        gx_mat_value(&X, "X", p->dtype, p->n, p->n, p->x, p->n);
        gx_alg_tsqr_apply(p->run, &V, p->tau, &p->plan, &X, W);
    }
}

// Signs -------------------------------------------------------------------------------------------

/*
** One pass over W: is_first, the largest magnitude of each column; else its phase, of the first
** component that is almost as large.
*/
static void look(gx_svd_long *far, bool is_first, double *largest, bool *is_found)
{
    gx_run *run = far->run;
    gx_mat source, view;
    gx_number dtype = far->W.number;
    int64_t h = far->W.tile_rows, w = far->W.tile_cols, m = far->W.rows, n = far->W.cols;
    void *piece = gx_dense_take(run, dtype, h, w, "a piece of the vectors");
    gx_sink_source(&far->W, "W", &source);
    for (int64_t i = 0; i < m && gx_ok(run); i += h) {
        for (int64_t j = 0; j < n && gx_ok(run); j += w) {
            int64_t rows = gx_min(h, m - i), cols = gx_min(w, n - j);
            gx_mat_view(&view, &source, GX_NO_TRANS, i, j, rows, cols);
            gx_dense_load(run, &view, dtype, piece, rows);
            for (int64_t c = 0; c < cols && gx_ok(run); c++) {
                const void *x = gx_at(piece, dtype, rows, 0, c);
                if (is_first) {
                    largest[j + c] = fmax(largest[j + c], gx_vector_largest(dtype, x, rows));
                } else if (!is_found[j + c]) {
                    is_found[j + c] =
                        gx_vector_phase_of(dtype, x, rows, largest[j + c], &far->phase[j + c]);
                }
            }
        }
        gx_run_poll(run);
    }
    gx_mem_free(run->ctx->mem, piece);
}

static void find_phases(gx_svd_long *far)
{
    gx_run *run = far->run;
    int64_t n = far->W.cols;
    double *largest = gx_dense_take(run, GX_F64, n, 1, "signs");
    bool *is_found = gx_dense_take(run, GX_F64, n, 1, "signs");
    if (gx_ok(run)) {
        memset(largest, 0, (size_t)n * sizeof(double));
        memset(is_found, 0, (size_t)n * sizeof(bool));
        look(far, true, largest, is_found);
        look(far, false, largest, is_found);
    }
    gx_mem_free(run->ctx->mem, largest);
    gx_mem_free(run->ctx->mem, is_found);
}

/* The short side's vectors: V^H of a tall A (Y^H), U of a wide one (Y). */
static void take_short_side(gx_svd_long *far, const parts *p, gx_svd_result *r)
{
    gx_run *run = p->run;
    int64_t n = p->n;
    void *to = NULL;
    if (gx_dense_alloc(run, p->dtype, n, n, "singular vectors", &to) != GX_OK) {
        return;
    }
    if (far->is_wide) {
        r->u = to;
        gx_vectors_turned(run, p->dtype, n, n, p->yh, n, to);
    } else {
        r->vt = to;
        memcpy(to, p->yh, (size_t)(n * n) * gx_number_bytes(p->dtype));
        find_phases(far);
    }
    for (int64_t j = 0; j < n && gx_ok(run); j++) {
        gx_scalar phase = far->phase[j];
        if (far->is_wide) {
            void *u = gx_at(r->u, p->dtype, n, 0, j);
            far->phase[j] = phase = gx_vector_phase(p->dtype, u, n);
            gx_vector_scale(p->dtype, u, n, 1, phase);
        } else {
            phase.im = -phase.im;
            gx_vector_scale(p->dtype, gx_at(r->vt, p->dtype, n, j, 0), n, n, phase);
        }
    }
}

// The driver --------------------------------------------------------------------------------------

bool gx_svd_long_is_due(gx_run *run, const gx_svd_args *args)
{
    bool is_plain = args->method == GX_SVD_AUTO || args->method == GX_SVD_DENSE;
    if (!gx_ok(run) || args->A->is_sparse || !is_plain || args->k != 0 || args->is_smallest ||
        args->wants_residuals || args->mode != GX_SVD_ECONOMY || !gx_svd_is_long(args->A)) {
        return false;
    }
    gx_tsqr_plan plan;
    bool is_fixed = run->ctx->config.number[GX_SET_DETERMINISTIC] != 0;
    int64_t most = gx_max(args->A->rows, args->A->cols);
    int64_t least = gx_min(args->A->rows, args->A->cols);
    gx_plan_tsqr(run, most, least, least, args->A->number, &plan);
    return plan.is_possible && (is_fixed || !gx_svd_dense_fits(run, args));
}

gx_code gx_svd_long_find(gx_run *run, const gx_svd_args *args, gx_svd_result *result,
                         gx_svd_long *far)
{
    gx_mat view;
    const gx_mat *A = args->A;
    memset(result, 0, sizeof *result);
    *far = (gx_svd_long){.run = run, .is_wide = A->rows < A->cols};
    if (far->is_wide) {
        gx_mat_view(&view, A, GX_CONJ_TRANS, 0, 0, A->cols, A->rows);
    }
    parts p = {.run = run, .T = far->is_wide ? &view : A, .dtype = A->number};
    p.m = p.T->rows;
    p.n = p.T->cols;
    gx_mem *mem = run->ctx->mem;
    gx_svd_reserve(run, result, A->rows, A->cols, p.n, A->number, GX_SVD_VALUES);
    far->phase = gx_dense_take(run, GX_C128, p.n, 1, "signs");
    result->driver = "tsqr";
    result->passes = 1;
    if (gx_ok(run)) {
        begin(&p, &far->W);
    }
    if (gx_ok(run)) {
        gx_tsqr_args tsqr = {.A = p.T, .R = &p.R, .V = &p.V, .tau = p.tau};
        gx_alg_tsqr(run, &tsqr, &p.plan);
        decompose(&p, result->sigma);
    }
    gx_sink_drop(&p.R);
    multiply(&p, &far->W);
    gx_sink_drop(&p.V);
    if (gx_ok(run)) {
        take_short_side(far, &p, result);
    }
    gx_mem_free(mem, p.tau);
    gx_mem_free(mem, p.x);
    gx_mem_free(mem, p.yh);
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_svd_long_write(gx_svd_long *far, gx_sink *sink)
{
    gx_run *run = far->run;
    gx_mat W, turned, signs;
    gx_number dtype = far->W.number;
    int64_t n = far->W.cols;
    void *row = NULL;
    if (gx_dense_alloc(run, dtype, n, 1, "signs", &row) != GX_OK) {
        return run->err.code;
    }
    for (int64_t j = 0; j < n; j++) {
        gx_scalar phase = far->phase[j];
        gx_number_put(dtype, row, j, (gx_scalar){phase.re, far->is_wide ? -phase.im : phase.im});
    }
    gx_sink_source(&far->W, "W", &W);
    if (far->is_wide) {
        gx_mat_view(&turned, &W, GX_CONJ_TRANS, 0, 0, n, W.rows);
        gx_mat_value(&signs, "signs", dtype, n, 1, row, n);
        gx_alg_map2(run, GX_MAP_MUL, GX_ONE, &turned, GX_ONE, &signs, sink);
    } else {
        gx_mat_value(&signs, "signs", dtype, 1, n, row, 1);
        gx_alg_map2(run, GX_MAP_MUL, GX_ONE, &W, GX_ONE, &signs, sink);
    }
    gx_mem_free(run->ctx->mem, row);
    return gx_ok(run) ? GX_OK : run->err.code;
}

void gx_svd_long_end(gx_svd_long *far)
{
    if (far->run != NULL) {
        gx_sink_drop(&far->W);
        gx_mem_free(far->run->ctx->mem, far->phase);
        *far = (gx_svd_long){0};
    }
}
