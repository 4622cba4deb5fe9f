/*
** Factors on a device (factoring.h): the whole factor in its memory, and systems solved there.
**
**   up        A, once, as it is read; the right-hand sides, or the unit matrix, made there
**   kernels   GETRF or POTRF; LASWP and TRSM for each solution
**   down      the diagonal of the factor, which is looked at, and the solutions
**
** Whether: predicted, from the flops and the copies.  What the device cannot do, for want of
** memory or because it fails, the host does from the beginning; gx_stats says why.  So it does
** what needs its care or its words: a singular A, subnormal pivots, elements that are no numbers.
**
** Memory on the device: the factor, the right-hand sides, a row, and the largest workspace of a
** kernel; on the host the pivots, and stored solutions before they are written.
*/
#include "factoring.h"

#include "../exec/load.h"
#include "../exec/place.h"
#include "../mat/simple.h"
#include "dense.h"

#include <float.h>
#include <math.h>

/* A stored matrix above this goes through the drivers, which spread it over several devices. */
static const size_t STORED_MOST = (size_t)1 << 30;

static gx_args square(const gx_factor *f, int64_t cols)
{
    int64_t ld = gx_max(1, f->n);
    return (gx_args){.side = GX_LEFT,
                     .uplo = GX_LOWER,
                     .alpha = GX_ONE,
                     .m = f->n,
                     .n = cols,
                     .k = f->n,
                     .lda = ld,
                     .ldb = ld,
                     .ldc = ld,
                     .pivot_last = f->n};
}

static gx_kernel_id factoring_kernel(const gx_factor *f)
{
    return f->kind == GX_FACTOR_CHOLESKY ? GX_POTRF : GX_GETRF;
}

static bool is_well(const gx_factor *f)
{
    return f->fault.code == GX_OK && gx_ok(f->run);
}

static void wait(gx_factor *f)
{
    if (is_well(f)) {
        const gx_accel *accel = f->on.accel;
        (void)accel->backend->queue_wait(accel->dev, accel->run, &f->fault);
        gx_run_poll(f->run);
    }
}

// Whether -----------------------------------------------------------------------------------------

static double host_seconds(const gx_factor *f, int64_t cols)
{
    gx_ctx *ctx = f->run->ctx;
    gx_args whole = square(f, f->n), columns = square(f, cols);
    double flops = gx_kernel_flops(factoring_kernel(f), f->dtype, &whole) +
                   2 * gx_kernel_flops(GX_TRSM, f->dtype, &columns);
    int threads = (int)ctx->config.number[GX_SET_THREADS];
    return flops / gx_profile_flops(gx_profile_get(ctx), f->dtype, f->n, threads);
}

static double device_seconds(const gx_factor *f, int64_t cols)
{
    const gx_device_profile *profile = &f->on.accel->profile;
    gx_args whole = square(f, f->n), columns = square(f, cols);
    double element = (double)gx_number_bytes(f->dtype), n = (double)f->n;
    return gx_profile_device_kernel(profile, factoring_kernel(f), f->dtype, &whole) +
           2 * gx_profile_device_kernel(profile, GX_TRSM, f->dtype, &columns) +
           n * (n + (double)cols) * element / profile->upload_bytes_per_s +
           n * (double)cols * element / profile->download_bytes_per_s;
}

static void measure(gx_factor *f, int64_t cols)
{
    static const gx_kernel_id kernels[] = {GX_GETRF, GX_POTRF,    GX_TRSM, GX_LASWP,
                                           GX_FILL,  GX_TRIANGLE, GX_COPY, GX_MAP};
    size_t element = gx_number_bytes(f->dtype);
    f->on.hold[GX_FACTOR_ITSELF].bytes = (size_t)(f->n * f->n) * element;
    f->on.hold[GX_FACTOR_COLUMNS].bytes = (size_t)(f->n * cols) * element;
    f->on.hold[GX_FACTOR_DIAGONAL_ROW].bytes = (size_t)f->n * element;
    f->on.hold[GX_FACTOR_WORK].bytes = 256;
    for (int k = 0; k < (int)(sizeof kernels / sizeof kernels[0]); k++) {
        bool is_of_factor = kernels[k] == GX_GETRF || kernels[k] == GX_POTRF;
        gx_args args = square(f, is_of_factor ? f->n : cols);
        size_t work = gx_devcall_workspace(&f->on, kernels[k], f->dtype, &args);
        f->on.hold[GX_FACTOR_WORK].bytes =
            work > f->on.hold[GX_FACTOR_WORK].bytes ? work : f->on.hold[GX_FACTOR_WORK].bytes;
    }
}

/* The device, where it has the kernels and the room and is worth it. */
static bool choose(gx_factor *f, const gx_mat *A, int64_t cols)
{
    size_t bytes = 0, columns = 0;
    f->on = (gx_devcall){.run = f->run};
    if (cols == 0 || f->n == 0 || (f->kind != GX_FACTOR_LU && f->kind != GX_FACTOR_CHOLESKY) ||
        !gx_matrix_bytes(f->n, f->n, f->dtype, &bytes) ||
        !gx_matrix_bytes(f->n, cols, f->dtype, &columns) ||
        (A->kind != GX_MAT_VALUE && bytes > STORED_MOST)) {
        return false;
    }
    double host_s = host_seconds(f, cols);
    f->on.accel = gx_place_for(f->run, host_s, &f->on.limit);
    if (f->on.accel == NULL || !gx_accel_offers(f->on.accel, factoring_kernel(f), f->dtype) ||
        !gx_place_is_less(f->run, device_seconds(f, cols), host_s)) {
        return false;
    }
    measure(f, cols);
    return gx_devcall_fits(&f->on);
}

// Factoring ---------------------------------------------------------------------------------------

/* The factor; *info: as the kernel's. */
static void factor(gx_factor *f, const gx_mat *A, int64_t *info)
{
    void *there = f->on.hold[GX_FACTOR_ITSELF].data;
    bool is_lower = f->kind == GX_FACTOR_CHOLESKY;
    *info = 0;
    if (is_well(f)) {
        (void)gx_device_load(f->run, f->on.accel, A, f->n, f->dtype, is_lower, there, &f->fault);
    }
    gx_args args = square(f, f->n);
    args.c = there;
    args.pivots = f->pivots;
    args.info = info;
    gx_factor_call(f, factoring_kernel(f), &args);
    wait(f);
}

/* Numbers on the factor's diagonal that the host would take care of, or complain about. */
static bool has_bad_diagonal(gx_factor *f)
{
    void *row = gx_dense_take(f->run, f->dtype, 1, f->n, "a diagonal");
    double least = gx_number_is_double(f->dtype) ? DBL_MIN : FLT_MIN;
    bool is_bad = false;
    gx_args args = {.m = 1, .n = f->n, .lda = f->n + 1, .ldc = 1};
    args.a = f->on.hold[GX_FACTOR_ITSELF].data;
    args.c = f->on.hold[GX_FACTOR_DIAGONAL_ROW].data;
    gx_factor_call(f, GX_COPY, &args);
    wait(f);
    if (is_well(f)) {
        (void)gx_device_get(f->run, f->on.accel, f->dtype, 1, f->n, args.c, row, 1, &f->fault);
    }
    for (int64_t i = 0; i < f->n && is_well(f); i++) {
        gx_scalar x = gx_number_get(f->dtype, row, i);
        double size = fmax(fabs(x.re), fabs(x.im));
        is_bad = is_bad || isnan(x.re) || isnan(x.im) || isinf(size) || size < least;
    }
    gx_mem_free(f->run->ctx->mem, row);
    return is_bad;
}

/* Nothing is under way, and all has been given back: it is the host's turn, or the run failed. */
static void leave(gx_factor *f)
{
    (void)gx_devcall_end(&f->on, f->fault.code, &f->fault);
    gx_mem_free(f->run->ctx->mem, f->pivots);
    f->pivots = NULL;
    f->is_there = false;
}

bool gx_factor_make_there(gx_factor *f, const gx_mat *A, int64_t cols, bool is_guess)
{
    gx_factor_kind kind = f->kind;
    int64_t info = 0;
    if (!gx_ok(f->run) || !choose(f, A, cols)) {
        return false;
    }
    f->fault = (gx_err){0};
    f->pivots = gx_run_alloc(f->run, (size_t)f->n * sizeof(int64_t), "pivots");
    f->is_there = true;
    if (gx_ok(f->run)) {
        (void)gx_devcall_begin(&f->on, 0, &f->fault);
    }
    factor(f, A, &info);
    if (info > 0 && is_guess && is_well(f)) {
        f->kind = GX_FACTOR_LU;
        factor(f, A, &info);
    }
    bool is_good = is_well(f) && info == 0 && !has_bad_diagonal(f) && is_well(f);
    if (!is_good) {
        leave(f);
        f->kind = kind;
        return !gx_ok(f->run);
    }
    gx_mat_value(&f->mat, A->label, f->dtype, f->n, f->n, f->on.hold[GX_FACTOR_ITSELF].data, f->n);
    return true;
}

// Solving -----------------------------------------------------------------------------------------

static bool is_identity(const gx_mat *B)
{
    return B->kind == GX_MAT_GENERATED && B->generate == gx_diagonal_generate &&
           ((const gx_diagonal *)B->generate_arg)->data == NULL &&
           ((const gx_diagonal *)B->generate_arg)->offset == 0;
}

/* B to the columns there; the unit matrix is zeros and a triangle with ones on its diagonal. */
static void bring(gx_factor *f, const gx_mat *B)
{
    void *there = f->on.hold[GX_FACTOR_COLUMNS].data;
    if (is_identity(B) && B->cols == f->n) {
        gx_args args = square(f, f->n);
        args.alpha = (gx_scalar){0, 0};
        args.a = args.c = there;
        args.uplo = GX_UPPER;
        args.diag = GX_UNIT;
        gx_factor_call(f, GX_FILL, &args);
        gx_factor_call(f, GX_TRIANGLE, &args);
    } else if (is_well(f)) {
        (void)gx_device_load(f->run, f->on.accel, B, B->cols, f->dtype, false, there, &f->fault);
    }
}

bool gx_factor_solve_there(gx_factor *f, gx_trans trans, const gx_mat *B, gx_sink *X)
{
    gx_run *run = f->run;
    size_t bytes = 0;
    bool is_own = X->is_stored || X->value.data == NULL;
    gx_matrix_bytes(f->n, B->cols, f->dtype, &bytes);
    if (is_own && bytes > gx_mem_available(run->ctx->mem) / 2) {
        leave(f);
        return false;
    }
    void *x = is_own ? gx_dense_take(run, f->dtype, f->n, B->cols, "solutions") : X->value.data;
    if (is_well(f)) {
        (void)gx_devcall_check_open(&f->on, &f->fault);
    }
    if (is_well(f)) {
        (void)gx_devcall_grow(&f->on, GX_FACTOR_COLUMNS, bytes, &f->fault);
    }
    bring(f, B);
    gx_factor_apply(f, trans, f->on.hold[GX_FACTOR_COLUMNS].data, B->cols);
    wait(f);
    if (is_well(f)) {
        (void)gx_device_get(run, f->on.accel, f->dtype, f->n, B->cols,
                            f->on.hold[GX_FACTOR_COLUMNS].data, x, f->n, &f->fault);
    }
    bool is_failed = f->fault.code != GX_OK;
    if (is_failed) {
        leave(f);
    } else if (is_own && gx_ok(run)) {
        gx_dense_write(run, X, x, f->n);
    }
    if (is_own) {
        gx_mem_free(run->ctx->mem, x);
    }
    return !is_failed || !gx_ok(run);
}

void gx_factor_clear_there(gx_factor *f)
{
    if (f->is_there) {
        leave(f);
    }
}
