/*
** Measuring a device: copies, products by size, the cost of a launch; see accel.h.
**
** A rate is the best of a few repetitions.  Products run from 256 x 256 up to 4096 x 4096; one that
** would take longer than SLOW_S, judged by the one before, takes its rate, so that slow devices are
** measured in the same time as fast ones.  Memory: three matrices of the largest size and one of
** host memory, page-locked where the budget allows; sizes that the device has no room for take the
** rate of the one before.
*/
#include "accel.h"

#include <string.h>

static const size_t COPY_BYTES = (size_t)32 << 20;
static const double SLOW_S = 0.1;

enum { REPEAT = 4, LAUNCHES = 64 };

typedef struct bench {
    gx_accel *accel;
    gx_device_profile *profile;
    void *memory;
    size_t bytes;
} bench;

static double seconds_since(int64_t start_ns)
{
    return (double)gx_max(1, gx_now_ns() - start_ns) * 1e-9;
}

/* Before buffers go back: whatever a failure has left under way. */
static gx_code settle(bench *b, gx_err *err)
{
    gx_code rc = GX_OK;
    gx_accel *accel = b->accel;
    gx_queue *queues[3] = {accel->up, accel->run, accel->down};
    for (int k = 0; k < 3; k++) {
        gx_code waited = accel->backend->queue_wait(accel->dev, queues[k], err);
        rc = rc == GX_OK ? waited : rc;
    }
    return rc;
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

static gx_code measure_copies(bench *b, gx_ctx *ctx, gx_err *err)
{
    gx_staging host = {0};
    size_t bytes = b->bytes < COPY_BYTES ? b->bytes : COPY_BYTES;
    size_t budget = (size_t)ctx->config.number[GX_SET_PINNING_BUDGET];
    size_t spare = gx_mem_available(ctx->mem) / 4;
    if (bytes > budget && bytes > spare) { // then the copies are pageable, and small
        bytes = spare / 64 * 64 + 64;
    }
    GX_TRY(gx_pool_stage(b->accel->pool, bytes, budget, &host, err));
    memset(host.data, 0x3f, bytes);
    gx_code rc = time_copy(b, true, host.data, bytes, &b->profile->upload_bytes_per_s, err);
    if (rc == GX_OK) {
        rc = time_copy(b, false, host.data, bytes, &b->profile->download_bytes_per_s, err);
    }
    gx_code settled = settle(b, err);
    gx_pool_unstage(b->accel->pool, &host);
    return rc == GX_OK ? settled : rc;
}

static gx_args product_of(const bench *b, gx_dtype dtype, int64_t n)
{
    size_t bytes = (size_t)(n * n) * gx_dtype_bytes(dtype);
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

/* One dtype; sizes that do not fit, or would take too long, as the one before. */
static gx_code measure_gemm(bench *b, gx_dtype dtype, gx_err *err)
{
    const gx_backend *backend = b->accel->backend;
    gx_kernel kernel = backend->kernel[GX_GEMM][dtype];
    double *rate = b->profile->gemm_flops_per_s[dtype];
    if (kernel == NULL) {
        return gx_fail(err, GX_DEVICE, "%s has no product of %s", backend->name,
                       gx_dtype_name(dtype));
    }
    for (int i = 0; i < GX_DEVICE_SIZES; i++) {
        gx_args args = product_of(b, dtype, b->profile->gemm_size[i]);
        double flops = gx_kernel_flops(GX_GEMM, dtype, &args);
        size_t needed = 3 * (size_t)(args.m * args.n) * gx_dtype_bytes(dtype);
        if (i > 0 && (needed > b->bytes || flops / rate[i - 1] > SLOW_S)) {
            rate[i] = rate[i - 1];
            continue;
        }
        // The first call of a size may load code for a tenth of a second: it is not counted.
        GX_TRY(kernel(b->accel->dev, b->accel->run, &args, err));
        GX_TRY(backend->queue_wait(b->accel->dev, b->accel->run, err));
        for (int k = 0; k < REPEAT; k++) {
            int64_t start = gx_now_ns();
            GX_TRY(kernel(b->accel->dev, b->accel->run, &args, err));
            GX_TRY(backend->queue_wait(b->accel->dev, b->accel->run, err));
            double per_s = flops / seconds_since(start);
            rate[i] = k == 0 || per_s > rate[i] ? per_s : rate[i];
            if (seconds_since(start) > SLOW_S / REPEAT) {
                break;
            }
        }
    }
    return GX_OK;
}

/* Small products in a row: what each costs beside its arithmetic. */
static gx_code measure_launch(bench *b, gx_err *err)
{
    const gx_backend *backend = b->accel->backend;
    gx_args args = product_of(b, GX_F32, 16);
    int64_t start = gx_now_ns();
    for (int k = 0; k < LAUNCHES; k++) {
        GX_TRY(backend->kernel[GX_GEMM][GX_F32](b->accel->dev, b->accel->run, &args, err));
    }
    GX_TRY(backend->queue_wait(b->accel->dev, b->accel->run, err));
    b->profile->launch_s = seconds_since(start) / LAUNCHES;
    return GX_OK;
}

static gx_code measure_all(bench *b, gx_ctx *ctx, gx_err *err)
{
    GX_TRY(measure_copies(b, ctx, err));
    for (int dtype = 0; dtype < GX_DTYPE_COUNT; dtype++) {
        GX_TRY(measure_gemm(b, (gx_dtype)dtype, err));
    }
    return measure_launch(b, err);
}

gx_code gx_accel_measure(gx_ctx *ctx, gx_accel *accel, gx_device_profile *profile, gx_err *err)
{
    static const int64_t sizes[GX_DEVICE_SIZES] = {256, 1024, 2048, 4096};
    memcpy(profile->gemm_size, sizes, sizeof sizes);
    size_t limit = 0;
    GX_TRY(gx_accel_limit(ctx, accel, &limit, err));
    bench b = {.accel = accel, .profile = profile};
    size_t least = 3 * 256 * 256 * 16; // the smallest product of c128
    b.bytes = 3 * (size_t)4096 * 4096 * 16;
    while (b.bytes > limit && b.bytes / 4 >= least) {
        b.bytes /= 4;
    }
    limit = limit < 2 * b.bytes ? 2 * b.bytes : limit; // for this moment, whatever the setting says
    GX_TRY(gx_pool_take(accel->pool, b.bytes, limit, &b.memory, err));
    gx_code rc = measure_all(&b, ctx, err);
    gx_code settled = settle(&b, err);
    rc = rc == GX_OK ? settled : rc;
    gx_pool_give(accel->pool, b.memory, b.bytes);
    gx_pool_trim(accel->pool); // nothing of this size is wanted again
    return rc;
}
