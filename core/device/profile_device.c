/*
** Measuring a device: copies, products and factorisations by size, the cost of a launch; see
** accel.h.
**
** A rate is the best of a few repetitions, and the first call of each size is not counted: it may
** load code.  Sizes go from 256 x 256 up to 8192 x 8192; one that would take longer than SLOW_S, or
** a tenth of the time there is, judged by the one before, takes its rate, so that slow devices are
** measured in the same time as fast ones; so do sizes that the device has no room for, and
** everything that is left when the time is up.  Products are measured in all dtypes; in f64
** factorisations of a matrix of ones with a heavy diagonal, and eigenvalues and vectors of a random
** symmetric one.  What is not measured of those is a share of the product's rate.
**
** Memory: three f64 matrices of the largest size, as far as half the limit allows, and COPY_BYTES
** of host memory, page-locked where the budget allows, and pageable.
*/
#include "../base/random.h"
#include "accel.h"

#include <math.h>
#include <string.h>

static const size_t COPY_BYTES = (size_t)32 << 20;
static const double SLOW_S = 0.1;

enum { REPEAT = 4, LAUNCHES = 64, LARGEST = 8192, SMALL_BUFFERS = 8 };

typedef struct bench {
    gx_accel *accel;
    gx_device_profile *profile;
    void *memory;
    size_t bytes;
    int64_t until_ns; /* nothing more is begun then                   */
    double slow_s;    /* nor what takes longer                        */
    int64_t info;     /* what kernels report; here, since they may be late */
} bench;

static double seconds_since(int64_t start_ns)
{
    return (double)gx_max(1, gx_now_ns() - start_ns) * 1e-9;
}

/* Seconds of a kernel, which is waited for. */
static gx_code time_kernel(const bench *b, gx_kernel_id kernel, gx_number dtype,
                           const gx_args *args, double *seconds, gx_err *err)
{
    const gx_accel *accel = b->accel;
    int64_t start = gx_now_ns();
    GX_TRY(accel->backend->kernel[kernel][dtype](accel->dev, accel->run, args, err));
    GX_TRY(accel->backend->queue_wait(accel->dev, accel->run, err));
    *seconds = seconds_since(start);
    return GX_OK;
}

/* Best time of a repeated action that is enqueued on a queue; the first one warms up. */
static gx_code time_copy(bench *b, bool is_up, void *host, size_t bytes, double *rate, gx_err *err)
{
    const gx_backend *backend = b->accel->backend;
    gx_queue *queue = is_up ? b->accel->up : b->accel->down;
    for (int k = 0; k < REPEAT; k++) {
        int64_t start = gx_now_ns();
        if (is_up) {
            GX_TRY(backend->upload(b->accel->dev, queue, b->memory, bytes, host, bytes, bytes, 1,
                                   err));
        } else {
            GX_TRY(backend->download(b->accel->dev, queue, host, bytes, b->memory, bytes, bytes, 1,
                                     err));
        }
        GX_TRY(backend->queue_wait(b->accel->dev, queue, err));
        double per_s = (double)bytes / seconds_since(start);
        *rate = k == 0 || per_s > *rate ? per_s : *rate;
    }
    return GX_OK;
}

/* Both directions through one host buffer. */
static gx_code time_both(bench *b, void *host, size_t bytes, double *up, double *down, gx_err *err)
{
    memset(host, 0x3f, bytes);
    gx_code rc = time_copy(b, true, host, bytes, up, err);
    if (rc == GX_OK) {
        rc = time_copy(b, false, host, bytes, down, err);
    }
    gx_code settled = gx_device_settle(b->accel, err);
    return rc == GX_OK ? settled : rc;
}

/* From ordinary memory, a quarter of what there is at most; as fast as page-locked where none. */
static gx_code measure_pageable(bench *b, gx_ctx *ctx, size_t bytes, gx_err *err)
{
    gx_device_profile *p = b->profile;
    p->pageable_up_bytes_per_s = p->upload_bytes_per_s;
    p->pageable_down_bytes_per_s = p->download_bytes_per_s;
    size_t spare = gx_mem_available(ctx->mem) / 4;
    bytes = bytes < spare ? bytes : spare;
    void *host = NULL;
    if (bytes == 0 || gx_mem_alloc(ctx->mem, bytes, "a buffer for copies", &host, NULL) != GX_OK) {
        return GX_OK;
    }
    gx_code rc =
        time_both(b, host, bytes, &p->pageable_up_bytes_per_s, &p->pageable_down_bytes_per_s, err);
    gx_mem_free(ctx->mem, host);
    return rc;
}

static gx_code measure_copies(bench *b, gx_ctx *ctx, gx_err *err)
{
    gx_staging host = {0};
    gx_device_profile *p = b->profile;
    size_t bytes = b->bytes < COPY_BYTES ? b->bytes : COPY_BYTES;
    size_t budget = (size_t)ctx->config.number[GX_SET_PINNING_BUDGET];
    size_t spare = gx_mem_available(ctx->mem) / 4;
    if (bytes > budget && bytes > spare) { // then the copies are pageable, and small
        bytes = spare / 64 * 64 + 64;
    }
    int64_t start = gx_now_ns();
    GX_TRY(gx_pool_stage(b->accel->pool, bytes, budget, &host, err));
    p->pin_bytes_per_s = (double)bytes / seconds_since(start);
    gx_code rc =
        time_both(b, host.data, bytes, &p->upload_bytes_per_s, &p->download_bytes_per_s, err);
    gx_pool_unstage(b->accel->pool, &host);
    return rc == GX_OK ? measure_pageable(b, ctx, bytes / 4, err) : rc;
}

/* Seconds of one of so many buffers. */
static gx_code time_allocation(bench *b, size_t bytes, int count, double *seconds, gx_err *err)
{
    const gx_backend *backend = b->accel->backend;
    void *buffer[SMALL_BUFFERS];
    gx_code rc = GX_OK;
    int got = 0;
    int64_t start = gx_now_ns();
    while (got < count && rc == GX_OK) {
        rc = backend->alloc(b->accel->dev, bytes, &buffer[got], err);
        got += rc == GX_OK;
    }
    *seconds = seconds_since(start) / count;
    while (got > 0) {
        (*backend->free)(b->accel->dev, buffer[--got]);
    }
    return rc;
}

/* What allocating takes: some small buffers, and for each byte a large one. */
static gx_code measure_allocation(bench *b, gx_err *err)
{
    const size_t SMALL = (size_t)2 << 20;
    size_t large = b->bytes / 4;
    double small_s, large_s;
    gx_device_profile *p = b->profile;
    GX_TRY(time_allocation(b, SMALL < large ? SMALL : large, SMALL_BUFFERS, &small_s, err));
    GX_TRY(time_allocation(b, large, 1, &large_s, err));
    bool is_seen = large > 4 * SMALL && large_s > small_s;
    p->alloc_s = small_s;
    p->alloc_bytes_per_s = is_seen ? (double)(large - SMALL) / (large_s - small_s) : 1e12;
    return GX_OK;
}

static gx_args product_of(const bench *b, gx_number dtype, int64_t n)
{
    size_t bytes = (size_t)(n * n) * gx_number_bytes(dtype);
    char *base = b->memory;
    return (gx_args){.m = n,
                     .n = n,
                     .k = n,
                     .alpha = {1, 0},
                     .a = base,
                     .lda = n,
                     .b = base + bytes,
                     .ldb = n,
                     .c = base + 2 * bytes,
                     .ldc = n};
}

static bool is_late(const bench *b)
{
    return gx_now_ns() > b->until_ns;
}

/* One dtype; sizes that do not fit, or would take too long, as the one before. */
static gx_code measure_gemm(bench *b, gx_number dtype, gx_err *err)
{
    const gx_backend *backend = b->accel->backend;
    double *rate = b->profile->gemm_flops_per_s[dtype], seconds;
    if (backend->kernel[GX_GEMM][dtype] == NULL) {
        return gx_fail(err, GX_DEVICE, "%s has no product of %s", backend->name,
                       gx_number_name(dtype));
    }
    for (int i = 0; i < GX_DEVICE_SIZES; i++) {
        gx_args args = product_of(b, dtype, b->profile->gemm_size[i]);
        double flops = gx_kernel_flops(GX_GEMM, dtype, &args);
        size_t needed = 3 * (size_t)(args.m * args.n) * gx_number_bytes(dtype);
        if (i > 0 && (needed > b->bytes || flops / rate[i - 1] > b->slow_s || is_late(b))) {
            rate[i] = rate[i - 1];
            continue;
        }
        // The first call of a size may load code for a tenth of a second: it is not counted.
        GX_TRY(time_kernel(b, GX_GEMM, dtype, &args, &seconds, err));
        for (int k = 0; k < REPEAT; k++) {
            GX_TRY(time_kernel(b, GX_GEMM, dtype, &args, &seconds, err));
            rate[i] = k == 0 || flops / seconds > rate[i] ? flops / seconds : rate[i];
            if (seconds > b->slow_s / REPEAT) {
                break;
            }
        }
    }
    return GX_OK;
}

/* Small products in a row: what each costs beside its arithmetic, and with a wait for each. */
static gx_code measure_launch(bench *b, gx_err *err)
{
    const gx_backend *backend = b->accel->backend;
    gx_args args = product_of(b, GX_F32, 16);
    double seconds;
    // The first one loads code for milliseconds, which made every launch ten times what it is.
    GX_TRY(time_kernel(b, GX_GEMM, GX_F32, &args, &seconds, err));
    int64_t start = gx_now_ns();
    for (int k = 0; k < LAUNCHES; k++) {
        GX_TRY(backend->kernel[GX_GEMM][GX_F32](b->accel->dev, b->accel->run, &args, err));
    }
    GX_TRY(backend->queue_wait(b->accel->dev, b->accel->run, err));
    b->profile->launch_s = seconds_since(start) / LAUNCHES;
    start = gx_now_ns();
    for (int k = 0; k < REPEAT; k++) {
        GX_TRY(time_kernel(b, GX_GEMM, GX_F32, &args, &seconds, err));
    }
    b->profile->wait_s = seconds_since(start) / REPEAT;
    return GX_OK;
}

/*
** A matrix times a few columns, as a pass of an iterative method does it; as large as there is room
** for, and time.
*/
static gx_code measure_sweep(bench *b, gx_err *err)
{
    const int64_t ROWS = 4096;
    const double LEAST = 250e9; // what is not measured: any device of these days
    bool is_offered = b->accel->backend->kernel[GX_GEMM][GX_F64] != NULL;
    double *rate = &b->profile->sweep_bytes_per_s, seconds;
    int64_t column = ROWS * (int64_t)sizeof(double), cols = GX_SWEEP_COLS;
    int64_t k = (int64_t)(b->bytes / 2) / column;
    double flops_per_s = b->profile->gemm_flops_per_s[GX_F64][0];
    while (k > cols && 2.0 * (double)(ROWS * k * cols) / flops_per_s > b->slow_s / REPEAT) {
        k /= 2;
    }
    *rate = LEAST;
    if (k <= cols || !is_offered || is_late(b)) {
        return GX_OK;
    }
    char *base = b->memory;
    gx_args args = {.m = ROWS,
                    .n = cols,
                    .k = k,
                    .alpha = {1, 0},
                    .a = base,
                    .lda = ROWS,
                    .b = base + k * column,
                    .ldb = k,
                    .c = base + k * column + k * cols * 8,
                    .ldc = ROWS};
    for (int i = 0; i < REPEAT; i++) {
        GX_TRY(time_kernel(b, GX_GEMM, GX_F64, &args, &seconds, err));
        double per_s = (double)(k * column) / seconds;
        *rate = i == 0 || per_s > *rate ? per_s : *rate;
    }
    return GX_OK;
}

// Factorisations ----------------------------------------------------------------------------------

/*
** Arguments of a kernel on an n x n matrix: A, a copy that it works on, its results and workspace
** one after the other in the buffer.  false: there is no room.
*/
static bool place_call(bench *b, gx_kernel_id kernel, int64_t n, int64_t *pivots, gx_args *args)
{
    const gx_backend *backend = b->accel->backend;
    size_t bytes = (size_t)(n * n) * sizeof(double), line = (size_t)n * sizeof(double);
    line = (line + 255) / 256 * 256;
    char *base = b->memory;
    *args = (gx_args){.m = n,
                      .n = n,
                      .k = n,
                      .alpha = {1, 0},
                      .a = base,
                      .lda = n,
                      .c = base + bytes,
                      .ldc = n,
                      .wants_right = kernel == GX_SYEV,
                      .pivots = pivots,
                      .info = &b->info};
    if (2 * bytes + line > b->bytes) {
        return false;
    }
    args->tau = args->values = base + 2 * bytes;
    args->work = base + 2 * bytes + line;
    size_t work =
        backend->workspace == NULL ? 0 : backend->workspace(b->accel->dev, kernel, GX_F64, args);
    return work <= b->bytes - 2 * bytes - line;
}

/* A = ones, and n on the diagonal; for eigenvalues, which such a matrix has one of, random. */
static gx_code fill_matrix(bench *b, gx_kernel_id kernel, const gx_args *args, gx_err *err)
{
    double seconds;
    if (kernel == GX_SYEV && b->accel->backend->kernel[GX_RANDOM][GX_F64] != NULL) {
        gx_random random;
        GX_TRY(gx_random_init(&random, GX_RANDOM_NORMAL, GX_F64, 1, 0, 1, err));
        gx_args drawn = {
            .m = args->n, .n = args->n, .c = b->memory, .ldc = args->n, .random = &random};
        return time_kernel(b, GX_RANDOM, GX_F64, &drawn, &seconds, err);
    }
    double n = (double)args->n;
    gx_args ones = {.m = args->n, .n = args->n, .alpha = {1, 0}, .c = b->memory, .ldc = args->n};
    gx_args diagonal = {.m = 1, .n = args->n, .alpha = {n, 0}, .c = b->memory, .ldc = args->n + 1};
    GX_TRY(time_kernel(b, GX_FILL, GX_F64, &ones, &seconds, err));
    return time_kernel(b, GX_FILL, GX_F64, &diagonal, &seconds, err);
}

/* Seconds of the second of two calls. */
static gx_code time_call(bench *b, gx_kernel_id kernel, const gx_args *args, double *seconds,
                         gx_err *err)
{
    gx_args copy = *args;
    copy.work = NULL;
    for (int k = 0; k < 2; k++) {
        GX_TRY(time_kernel(b, GX_COPY, GX_F64, &copy, seconds, err));
        GX_TRY(time_kernel(b, kernel, GX_F64, args, seconds, err));
    }
    return GX_OK;
}

/*
** Of a size that is not measured: a factorisation keeps a device busy as the side grows, in both
** directions.  On an H200 SYEV of 1024 runs at 0.06 Tflop/s, of 8192 at 6, a tenth of the product.
*/
static double grown_rate(const gx_device_profile *p, double before, int i)
{
    const double SHARE_MOST = 0.1;
    double growth = (double)p->gemm_size[i] / (double)p->gemm_size[i - 1];
    double most = SHARE_MOST * p->gemm_flops_per_s[GX_F64][i];
    return fmax(before, fmin(before * growth * growth, most));
}

/* One kernel by size. */
static gx_code measure_rate(bench *b, gx_rate which, int64_t *pivots, gx_err *err)
{
    // What is not measured: a share of the product's rate.
    static const double share[GX_RATE_COUNT] = {0.2, 0.15, 0.1, 0.03};
    gx_kernel_id kernel = gx_rate_kernel(which);
    gx_device_profile *p = b->profile;
    double *rate = p->rate_flops_per_s[which];
    const gx_backend *backend = b->accel->backend;
    bool is_offered = backend->kernel[kernel][GX_F64] != NULL &&
                      backend->kernel[GX_FILL][GX_F64] != NULL &&
                      backend->kernel[GX_COPY][GX_F64] != NULL;
    for (int i = 0; i < GX_DEVICE_SIZES; i++) {
        gx_args args;
        double unknown = share[which] * p->gemm_flops_per_s[GX_F64][i], seconds = 0;
        rate[i] = i == 0 ? unknown : grown_rate(p, rate[i - 1], i);
        bool has_room = place_call(b, kernel, p->gemm_size[i], pivots, &args);
        double flops = gx_kernel_flops(kernel, GX_F64, &args);
        double expected = flops / p->gemm_flops_per_s[GX_F64][0];
        if (i > 0) { // while devices are not busy, their rates grow with the side
            double growth = (double)p->gemm_size[i] / (double)p->gemm_size[i - 1];
            expected = flops / (growth * rate[i - 1]);
        }
        if (!is_offered || !has_room || expected > b->slow_s || is_late(b)) {
            continue;
        }
        b->info = 0;
        GX_TRY(fill_matrix(b, kernel, &args, err));
        GX_TRY(time_call(b, kernel, &args, &seconds, err));
        rate[i] = b->info == 0 ? flops / seconds : rate[i];
    }
    return GX_OK;
}

static gx_code measure_all(bench *b, gx_ctx *ctx, gx_err *err)
{
    GX_TRY(measure_copies(b, ctx, err));
    GX_TRY(measure_allocation(b, err));
    for (int dtype = 0; dtype < GX_NUMBER_COUNT; dtype++) {
        GX_TRY(measure_gemm(b, (gx_number)dtype, err));
    }
    GX_TRY(measure_launch(b, err));
    GX_TRY(measure_sweep(b, err));
    void *pivots;
    GX_TRY(gx_mem_alloc(NULL, LARGEST * sizeof(int64_t), "pivots", &pivots, err));
    gx_code rc = GX_OK;
    for (int rate = 0; rate < GX_RATE_COUNT && rc == GX_OK; rate++) {
        rc = measure_rate(b, (gx_rate)rate, pivots, err);
    }
    gx_code settled = gx_device_settle(b->accel, err); // before the pivots go
    gx_mem_free(NULL, pivots);
    return rc == GX_OK ? settled : rc;
}

gx_code gx_accel_measure(gx_ctx *ctx, gx_accel *accel, double seconds, size_t limit,
                         gx_device_profile *profile, gx_err *err)
{
    static const int64_t sizes[GX_DEVICE_SIZES] = {256, 1024, 2048, 4096, LARGEST};
    memcpy(profile->gemm_size, sizes, sizeof sizes);
    bench b = {.accel = accel,
               .profile = profile,
               .until_ns = gx_now_ns() + (int64_t)(1e9 * seconds),
               .slow_s = seconds > 10 * SLOW_S ? seconds / 10 : SLOW_S};
    size_t least = 3 * 256 * 256 * 16; // the smallest product of c128
    b.bytes = 3 * (size_t)LARGEST * LARGEST * sizeof(double);
    while (b.bytes > limit / 2 && b.bytes / 4 >= least) { // others may want to begin, too
        b.bytes /= 4;
    }
    limit = limit < 2 * b.bytes ? 2 * b.bytes : limit; // for this moment, whatever the setting says
    GX_TRY(gx_pool_take(accel->pool, b.bytes, limit, &b.memory, err));
    gx_code rc = measure_all(&b, ctx, err);
    gx_code settled = gx_device_settle(accel, err);
    rc = rc == GX_OK ? settled : rc;
    gx_pool_give(accel->pool, b.memory, b.bytes);
    gx_pool_trim(accel->pool); // nothing of this size is wanted again
    return rc;
}
