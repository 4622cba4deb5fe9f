/*
** Matrices of distances: each row of A beside each row of B.
**
**   C_ij = sum over k of (a_ik - b_jk)^2, its root, or sum of |a_ik - b_jk|
**
** A streamed pass (pass.h): a unit is a tile of C, whose rows of A and of B one thread reads some
** columns at a time and adds up with GX_APART, in double: differences cancel nothing, unlike
** products.  C's tiles are small, so that there are some for everybody and they stay in the cache;
** the caller writes them.
**
** Cosines are the product of the normalised rows, which are scaled while they are read.
**
** Memory: for each thread two tiles of C, and as many numbers of A and of B.
*/
#include "alg.h"
#include "dense.h"
#include "similar.h"

#include "../exec/pass.h"
#include "../mat/simple.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Columns of A and B that are read together. */
enum { CHUNK = 256 };

typedef struct distances {
    gx_run *run;
    const gx_distance_args *args;
    const gx_backend *backend;
    gx_dev *dev;
    gx_sink *C;
} distances;

static gx_tile_place tile_at(const gx_sink *C, int64_t unit)
{
    return gx_tile_at(C->rows, C->cols, C->tile_rows, C->tile_cols, unit);
}

/* Rows i0 .., columns l0 .. of X, ld apart at x, hold zeros and ones. */
static gx_code check_bits(const gx_mat *X, int64_t i0, int64_t l0, int64_t m, int64_t w,
                          const double *x, int64_t ld, gx_err *err)
{
    for (int64_t e = 0; e < m * w; e++) {
        double bit = x[e % m + e / m * ld];
        if (bit != 0 && bit != 1) {
            return gx_fail(err, GX_ARG,
                           "%s has %g at (%" PRId64 ", %" PRId64
                           "), but 'hamming' compares zeros and ones",
                           X->label, bit, i0 + e % m, l0 + e / m);
        }
    }
    return GX_OK;
}

static gx_code look_at_tile(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                            gx_err *err)
{
    const distances *x = arg;
    const gx_mat *A = x->args->A, *B = x->args->B;
    gx_tile_place t = tile_at(x->C, unit);
    double *a = work, *b = a + x->C->tile_rows * CHUNK, *c = part;
    gx_nearest sums = {.metric = x->args->metric};
    gx_args call = {.m = t.m, .n = t.n, .transb = GX_TRANS, .nearest = &sums};
    call.c = c;
    call.ldc = t.m;
    memset(c, 0, (size_t)(t.m * t.n) * sizeof(double));
    for (int64_t l = 0; l < A->cols && gx_ok(x->run); l += CHUNK) {
        int64_t w = call.k = gx_min(CHUNK, A->cols - l);
        GX_TRY(gx_pass_take(thread, A, t.i0, l, t.m, w, GX_DTYPE_F64, a, &call.a, &call.lda, err));
        GX_TRY(gx_pass_take(thread, B, t.j0, l, t.n, w, GX_DTYPE_F64, b, &call.b, &call.ldb, err));
        if (x->args->is_binary) {
            GX_TRY(check_bits(A, t.i0, l, t.m, w, call.a, call.lda, err));
            GX_TRY(check_bits(B, t.j0, l, t.n, w, call.b, call.ldb, err));
        }
        GX_TRY(x->backend->kernel[GX_APART][GX_F64](x->dev, NULL, &call, err));
    }
    double share = x->args->is_binary ? 1 / (double)gx_max(1, A->cols) : 1;
    for (int64_t e = 0; e < t.m * t.n; e++) {
        c[e] = x->args->is_root ? sqrt(c[e]) : c[e] * share;
    }
    if (x->C->number == GX_F32) { // in place: the numbers become shorter
        for (int64_t e = 0; e < t.m * t.n; e++) {
            float value = (float)c[e];
            memcpy((char *)part + (size_t)e * sizeof value, &value, sizeof value);
        }
    }
    return GX_OK;
}

static gx_code write_tile(void *arg, int64_t unit, void *part, gx_err *err)
{
    const distances *x = arg;
    gx_tile_place t = tile_at(x->C, unit);
    return gx_sink_write(x->C, t.i0, t.j0, t.m, t.n, part, t.m, err);
}

static void by_differences(gx_run *run, const gx_distance_args *args, gx_sink *C)
{
    distances x = {.run = run, .args = args, .C = C};
    const gx_mat *sources[] = {args->A, args->B};
    double pairs = (double)C->rows * (double)C->cols, d = (double)args->A->cols;
    if (C->rows == 0 || C->cols == 0 || gx_run_device(run, &x.backend, &x.dev) != GX_OK) {
        return;
    }
    gx_pass pass = {.sources = sources,
                    .source_count = 2,
                    .units =
                        gx_ceil_div(C->rows, C->tile_rows) * gx_ceil_div(C->cols, C->tile_cols),
                    .bytes = 8 * pairs * d * (1 / (double)C->tile_rows + 1 / (double)C->tile_cols),
                    .flops = 3 * pairs * d,
                    .work = look_at_tile,
                    .fold = write_tile,
                    .is_callers = true,
                    .writes = C->is_stored ? C->meta.schema : NULL,
                    .arg = &x};
    pass.work_bytes = (size_t)((C->tile_rows + C->tile_cols) * CHUNK) * sizeof(double);
    pass.part_bytes = (size_t)(C->tile_rows * C->tile_cols) * sizeof(double);
    gx_pass_run(run, &pass);
    gx_stats_add(&run->ctx->stats, GX_STAT_KERNELS, pass.units);
    gx_stats_add(&run->ctx->stats, GX_STAT_FLOPS, (int64_t)pass.flops);
}

/* alpha cos + beta. */
static void by_product(gx_run *run, const gx_mat *A, const gx_mat *B, double alpha, double beta,
                       gx_sink *C)
{
    gx_normal a = {0}, b = {0};
    gx_constant one = {.value = {1, 0}};
    gx_mat ones;
    gx_mat_generated(&ones, "ones", C->number, C->rows, C->cols, gx_constant_generate, &one);
    gx_normal_make(run, A, true, GX_LINE_L2, &a);
    if (gx_ok(run)) {
        gx_normal_make(run, B, true, GX_LINE_L2, &b);
    }
    gx_matmul_args args = {.A = &a.scaled,
                           .B = &b.scaled,
                           .C0 = beta == 0 ? NULL : &ones,
                           .transa = GX_TRANS,
                           .alpha = {alpha, 0},
                           .beta = {beta, 0}};
    if (gx_ok(run)) {
        gx_alg_matmul(run, &args, C);
    }
    gx_normal_clear(run, &a);
    gx_normal_clear(run, &b);
}

void gx_distance_tiles(gx_run *run, const gx_distance_args *args, gx_number dtype, int64_t *rows,
                       int64_t *cols)
{
    gx_err err = {0};
    *rows = *cols = 0;
    if (args->metric != GX_METRIC_COSINE &&
        gx_tile_shape(args->A->rows, args->B->rows, gx_dtype_of(dtype),
                      gx_store_max_tile_bytes(run->ctx->store), rows, cols, &err) == GX_OK) {
        *rows = gx_min(*rows, GX_DISTANCE_TILE);
        *cols = gx_min(*cols, GX_DISTANCE_TILE);
    }
    gx_run_fail(run, &err);
}

gx_code gx_alg_distance(gx_run *run, const gx_distance_args *args, gx_sink *C)
{
    if (gx_ok(run) && args->metric == GX_METRIC_COSINE) {
        by_product(run, args->A, args->B, -1, 1, C);
    } else if (gx_ok(run)) {
        by_differences(run, args, C);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_alg_cosine(gx_run *run, const gx_mat *A, const gx_mat *B, gx_sink *C)
{
    if (gx_ok(run)) {
        by_product(run, A, B, 1, 0, C);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}
