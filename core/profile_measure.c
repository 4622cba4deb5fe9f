/*
** Measuring the machine: products by size and dtype, and memcpy; see profile.h.
**
** A rate is the best of a few repetitions: what disturbs a measurement only ever makes it
** slower.  A size is repeated until 50 ms have passed, so small products are timed over many
** calls and a large one once or twice.  Products run as drivers run them, a kernel of the CPU
** backend cut over the run's team. Memory: three matrices of the largest size that the budget
** allows, 1536 x 1536 at most.
*/
#include "profile.h"

#include "run.h"

#include <string.h>

static const int64_t REPEAT_NS = 50 * 1000 * 1000;
static const size_t COPY_BYTES = (size_t)64 << 20; /* far past any cache's share of one core */

enum { REPEAT_MOST = 1000, COPIES = 4 };

/* One product's best flop rate; 0 and GX_OK when memory_limit does not allow it. */
static gx_code measure_gemm(gx_run *run, gx_dev *dev, gx_dtype dtype, int64_t n, double *rate)
{
    *rate = 0;
    gx_err err = {0};
    size_t bytes = (size_t)n * (size_t)n * gx_dtype_bytes(dtype);
    void *memory;
    if (gx_mem_alloc(run->ctx->mem, 3 * bytes, "gx_benchmark", &memory, &err) != GX_OK) {
        return err.code == GX_BUDGET ? GX_OK : gx_run_fail(run, &err);
    }
    memset(memory, 0x3f, 3 * bytes); // ordinary numbers: 0.75 as f32, 0.0005 as f64
    char *base = memory;
    gx_args args = {.m = n, .n = n, .k = n, .alpha = {1, 0}, .lda = n, .ldb = n, .ldc = n};
    args.a = base;
    args.b = base + bytes;
    args.c = base + 2 * bytes;
    double flops = gx_kernel_flops(GX_GEMM, dtype, &args);
    gx_team *team = gx_run_team(run);
    int64_t began = gx_now_ns();
    for (int i = 0; i < REPEAT_MOST && gx_ok(run); i++) {
        int64_t start = gx_now_ns();
        if (i > 0 && start - began > REPEAT_NS) {
            break;
        }
        if (gx_team_call(team, &gx_backend_cpu, dev, GX_GEMM, dtype, &args, &(gx_cut){0}, &err) !=
            GX_OK) {
            gx_run_fail(run, &err);
            break;
        }
        double seconds = (double)gx_max(1, gx_now_ns() - start) * 1e-9;
        *rate = flops / seconds > *rate ? flops / seconds : *rate;
        gx_run_poll(run);
    }
    gx_mem_free(run->ctx->mem, memory);
    return run->err.code;
}

/* memcpy between two buffers, as large as a quarter of the budget allows. */
static gx_code measure_memcpy(gx_run *run, double *rate)
{
    gx_err err = {0};
    size_t spare = gx_mem_available(run->ctx->mem) / 4;
    size_t bytes = spare < COPY_BYTES ? spare : COPY_BYTES;
    void *memory;
    if (bytes == 0 ||
        gx_mem_alloc(run->ctx->mem, 2 * bytes, "gx_benchmark", &memory, &err) != GX_OK) {
        return err.code == GX_OK || err.code == GX_BUDGET ? GX_OK : gx_run_fail(run, &err);
    }
    memset(memory, 0, 2 * bytes);
    for (int i = 0; i < COPIES && gx_ok(run); i++) {
        int64_t start = gx_now_ns();
        memcpy((char *)memory + bytes, memory, bytes);
        double per_s = (double)bytes / ((double)gx_max(1, gx_now_ns() - start) * 1e-9);
        *rate = i == 0 || per_s > *rate ? per_s : *rate;
        gx_run_poll(run);
    }
    gx_mem_free(run->ctx->mem, memory);
    return run->err.code;
}

gx_code gx_profile_measure(gx_run *run, gx_profile *profile)
{
    gx_err err = {0};
    gx_dev *dev;
    if (gx_backend_cpu.open(0, &dev, &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    gx_team *team = gx_run_team(run);
    profile->is_measured = true;
    profile->threads = team == NULL ? 1 : gx_team_threads(team);
    gx_run_progress(run, GX_DTYPE_COUNT * GX_PROFILE_SIZES + 1);
    measure_memcpy(run, &profile->memcpy_bytes_per_s);
    gx_run_advance(run, 1);
    for (int dtype = 0; dtype < GX_DTYPE_COUNT; dtype++) {
        double *rates = profile->gemm_flops_per_s[dtype];
        for (int i = 0; i < GX_PROFILE_SIZES && gx_ok(run); i++) {
            double rate;
            measure_gemm(run, dev, (gx_dtype)dtype, profile->gemm_size[i], &rate);
            rates[i] = rate > 0 ? rate : i > 0 ? rates[i - 1] : rates[i];
            gx_run_advance(run, 1);
        }
    }
    gx_backend_cpu.close(dev);
    return run->err.code;
}
