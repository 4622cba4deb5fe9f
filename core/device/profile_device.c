/*
** Measuring a device: copies, allocations and the cost of a launch here; products and
** factorisations as those of the host are (core/run/profile_measure.c).  See accel.h.
**
** Sizes go from 256 x 256 up to 8192 x 8192.  Everything that would take longer than SLOW_S, or a
** tenth of the time there is, is left out, so that slow devices are measured in the same time as
** fast ones.
**
** Memory: three f64 matrices of the largest size, as far as half the limit allows, and COPY_BYTES
** of host memory, page-locked where the budget allows, and pageable.
*/
#include "accel.h"

#include <math.h>
#include <string.h>

static const size_t COPY_BYTES = (size_t)32 << 20;
static const double SLOW_S = 0.1;

enum { REPEAT = 4, LAUNCHES = 64, LARGEST = 8192, SMALL_BUFFERS = 8 };

typedef struct bench {
    gx_bench bench;
    gx_accel *accel;
    gx_device_profile *profile;
} bench;

/* Best time of a repeated action that is enqueued on a queue; the first one warms up. */
static gx_code time_copy(bench *b, bool is_up, void *host, size_t bytes, double *rate, gx_err *err)
{
    const gx_backend *backend = b->accel->backend;
    gx_queue *queue = is_up ? b->accel->up : b->accel->down;
    for (int k = 0; k < REPEAT; k++) {
        int64_t start = gx_now_ns();
        if (is_up) {
            GX_TRY(backend->upload(b->accel->dev, queue, b->bench.memory, bytes, host, bytes, bytes,
                                   1, err));
        } else {
            GX_TRY(backend->download(b->accel->dev, queue, host, bytes, b->bench.memory, bytes,
                                     bytes, 1, err));
        }
        GX_TRY(backend->queue_wait(b->accel->dev, queue, err));
        double per_s = (double)bytes / gx_bench_seconds(start);
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
    size_t bytes = b->bench.bytes < COPY_BYTES ? b->bench.bytes : COPY_BYTES;
    size_t budget = (size_t)ctx->config.number[GX_SET_PINNING_BUDGET];
    size_t spare = gx_mem_available(ctx->mem) / 4;
    if (bytes > budget && bytes > spare) { // then the copies are pageable, and small
        bytes = spare / 64 * 64 + 64;
    }
    int64_t start = gx_now_ns();
    GX_TRY(gx_pool_stage(b->accel->pool, bytes, budget, &host, err));
    p->pin_bytes_per_s = (double)bytes / gx_bench_seconds(start);
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
    *seconds = gx_bench_seconds(start) / count;
    while (got > 0) {
        (*backend->free)(b->accel->dev, buffer[--got]);
    }
    return rc;
}

/* What allocating takes: some small buffers, and for each byte a large one. */
static gx_code measure_allocation(bench *b, gx_err *err)
{
    const size_t SMALL = (size_t)2 << 20;
    size_t large = b->bench.bytes / 4;
    double small_s, large_s;
    gx_device_profile *p = b->profile;
    GX_TRY(time_allocation(b, SMALL < large ? SMALL : large, SMALL_BUFFERS, &small_s, err));
    GX_TRY(time_allocation(b, large, 1, &large_s, err));
    bool is_seen = large > 4 * SMALL && large_s > small_s;
    p->alloc_s = small_s;
    p->alloc_bytes_per_s = is_seen ? (double)(large - SMALL) / (large_s - small_s) : 1e12;
    return GX_OK;
}

/* Small products in a row: what each costs beside its arithmetic, and with a wait for each. */
static gx_code measure_launch(bench *b, gx_err *err)
{
    gx_args args = gx_bench_product(&b->bench, GX_F32, 16);
    // The first one loads code for milliseconds, which made every launch ten times what it is.
    GX_TRY(gx_bench_call(&b->bench, GX_GEMM, GX_F32, &args, err));
    int64_t start = gx_now_ns();
    for (int k = 1; k < LAUNCHES; k++) {
        GX_TRY(gx_bench_launch(&b->bench, GX_GEMM, GX_F32, &args, err));
    }
    GX_TRY(gx_bench_call(&b->bench, GX_GEMM, GX_F32, &args, err));
    b->profile->launch_s = gx_bench_seconds(start) / LAUNCHES;
    start = gx_now_ns();
    for (int k = 0; k < REPEAT; k++) {
        GX_TRY(gx_bench_call(&b->bench, GX_GEMM, GX_F32, &args, err));
    }
    b->profile->wait_s = gx_bench_seconds(start) / REPEAT;
    return GX_OK;
}

/*
** Where doubles are much slower than floats, products of them by residues are compared with those
** as they are (gx_args.by_residues).
*/
static gx_code measure_residues(bench *b, gx_err *err)
{
    static const double SLOWER = 8;
    static const int64_t sizes[] = {2048, 1024};
    gx_device_profile *p = b->profile;
    int last = GX_DEVICE_SIZES - 1;
    p->residues_from = GX_RESIDUES_NEVER;
    for (int i = 0; i < 2; i++) {
        int64_t n = sizes[i];
        gx_args args = gx_bench_product(&b->bench, GX_F64, n);
        args.by_residues = true;
        size_t before = 3 * (size_t)(n * n) * sizeof(double);
        size_t bytes = b->accel->backend->workspace(b->accel->dev, GX_GEMM, GX_F64, &args);
        double best = 0, rate = gx_profile_device_flops(p, GX_F64, n);
        if (p->gemm_flops_per_s[GX_F32][last] < SLOWER * p->gemm_flops_per_s[GX_F64][last] ||
            bytes > b->bench.bytes || before + bytes > b->bench.bytes) {
            continue;
        }
        args.work = b->bench.memory + before;
        for (int k = 0; k < REPEAT; k++) {
            int64_t start = gx_now_ns();
            GX_TRY(gx_bench_call(&b->bench, GX_GEMM, GX_F64, &args, err));
            best = fmax(best, 2 * pow((double)n, 3) / gx_bench_seconds(start));
        }
        if (best > rate) {
            p->residues_from = (double)n;
            for (int k = 0; k <= last; k++) {
                double *as_it_is = &p->gemm_flops_per_s[GX_F64][k];
                *as_it_is = p->gemm_size[k] >= n ? fmax(*as_it_is, best) : *as_it_is;
            }
        }
    }
    return GX_OK;
}

static gx_code measure_all(bench *b, gx_ctx *ctx, gx_err *err)
{
    GX_TRY(measure_copies(b, ctx, err));
    GX_TRY(measure_allocation(b, err));
    GX_TRY(measure_launch(b, err));
    void *pivots;
    GX_TRY(gx_mem_alloc(NULL, (LARGEST + 1) * sizeof(int64_t), "pivots", &pivots, err));
    b->bench.pivots = pivots;
    gx_code rc = gx_bench_run(&b->bench, err);
    rc = rc == GX_OK ? measure_residues(b, err) : rc;
    gx_code settled = gx_device_settle(b->accel, err); // before the pivots go
    gx_mem_free(NULL, pivots);
    return rc == GX_OK ? settled : rc;
}

gx_code gx_accel_measure(gx_ctx *ctx, gx_accel *accel, double seconds, size_t limit,
                         gx_device_profile *profile, gx_err *err)
{
    static const int64_t sizes[GX_DEVICE_SIZES] = {256, 1024, 2048, 4096, LARGEST};
    static const double share[GX_RATE_COUNT] = {0.2, 0.15, 0.1, 0.03};
    memcpy(profile->gemm_size, sizes, sizeof sizes);
    profile->sweep_bytes_per_s = 250e9; // what is not measured: any device of these days
    double slow_s = fmax(SLOW_S, seconds / 10);
    size_t least = 3 * 256 * 256 * 16; // the smallest product of c128
    size_t bytes = 3 * (size_t)LARGEST * LARGEST * sizeof(double);
    while (bytes > limit / 2 && bytes / 4 >= least) { // others may want to begin, too
        bytes /= 4;
    }
    limit = limit < 2 * bytes ? 2 * bytes : limit; // for this moment, whatever the setting says
    void *memory;
    GX_TRY(gx_pool_take(accel->pool, bytes, limit, &memory, err));
    bench b = {.accel = accel,
               .profile = profile,
               .bench = {.backend = accel->backend,
                         .dev = accel->dev,
                         .queue = accel->run,
                         .memory = memory,
                         .bytes = bytes,
                         .repeats = REPEAT,
                         .enough_s = slow_s / REPEAT,
                         .slow_s = slow_s,
                         .until_ns = gx_now_ns() + (int64_t)(1e9 * seconds),
                         .share = share,
                         .sizes = GX_DEVICE_SIZES,
                         .size = profile->gemm_size,
                         .gemm = profile->gemm_flops_per_s[0],
                         .rate = profile->rate_flops_per_s[0],
                         .sweep_bytes_per_s = &profile->sweep_bytes_per_s}};
    gx_code rc = measure_all(&b, ctx, err);
    gx_code settled = gx_device_settle(accel, err);
    rc = rc == GX_OK ? settled : rc;
    gx_pool_give(accel->pool, memory, bytes);
    gx_pool_trim(accel->pool); // nothing of this size is wanted again
    return rc;
}
