/*
** Measuring the machine: products by size and dtype, factorisations in f64, memcpy; see profile.h.
**
** A rate is the best of a few repetitions: what disturbs a measurement only ever makes it
** slower.  A size is repeated until 50 ms have passed, so small products are timed over many
** calls and a large one once or twice.  Products run as drivers run them, a kernel of the CPU
** backend cut over the run's team. Memory: three matrices of the largest size that the budget
** allows, 1536 x 1536 at most.
*/
#include "../base/random.h"
#include "profile.h"

#include "run.h"

#include <string.h>

static const int64_t REPEAT_NS = 50 * 1000 * 1000;
static const size_t COPY_BYTES = (size_t)64 << 20;   /* far past any cache's share of one core */
static const size_t SWEEP_BYTES = (size_t)256 << 20; /* and past all of it */

/* A factorisation that takes longer is not worth its time. */
static const double LONG_S = 0.25;

enum { REPEAT_MOST = 1000, COPIES = 4, CORE_EDGE = 192 };

/*
** One product's best flop rate, team NULL: of the caller alone; 0 and GX_OK when memory_limit does
** not allow it.
*/
static gx_code measure_gemm(gx_run *run, gx_dev *dev, gx_team *team, gx_number dtype, int64_t n,
                            double *rate)
{
    *rate = 0;
    gx_err err = {0};
    size_t bytes = (size_t)n * (size_t)n * gx_number_bytes(dtype);
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

/* memcpy between two buffers, as large as a quarter of the budget allows, and their first use. */
static gx_code measure_memcpy(gx_run *run, double *rate, double *touch)
{
    gx_err err = {0};
    size_t spare = gx_mem_available(run->ctx->mem) / 4;
    size_t bytes = spare < COPY_BYTES ? spare : COPY_BYTES;
    void *memory;
    if (bytes == 0 ||
        gx_mem_alloc(run->ctx->mem, 2 * bytes, "gx_benchmark", &memory, &err) != GX_OK) {
        return err.code == GX_OK || err.code == GX_BUDGET ? GX_OK : gx_run_fail(run, &err);
    }
    int64_t began = gx_now_ns();
    memset(memory, 0, 2 * bytes);
    *touch = 2 * (double)bytes / ((double)gx_max(1, gx_now_ns() - began) * 1e-9);
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

/* A matrix out of cache times a few columns, as a pass of an iterative method does it. */
static gx_code measure_sweep(gx_run *run, gx_dev *dev, gx_team *team, double *rate)
{
    const int64_t ROWS = 2048;
    gx_err err = {0};
    size_t spare = gx_mem_available(run->ctx->mem) / 4;
    int64_t column = ROWS * (int64_t)sizeof(double), cols = GX_SWEEP_COLS;
    int64_t k = gx_min((int64_t)SWEEP_BYTES, (int64_t)spare) / column;
    void *memory;
    if (k < cols || gx_mem_alloc(run->ctx->mem, (size_t)((k + cols) * column + k * cols * 8),
                                 "gx_benchmark", &memory, &err) != GX_OK) {
        return err.code == GX_OK || err.code == GX_BUDGET ? GX_OK : gx_run_fail(run, &err);
    }
    double *A = memory, *y = A + ROWS * k, *x = y + ROWS * cols;
    memset(memory, 0x3f, (size_t)((k + cols) * column + k * cols * 8));
    gx_args args = {.m = ROWS,
                    .n = cols,
                    .k = k,
                    .alpha = {1, 0},
                    .a = A,
                    .lda = ROWS,
                    .b = x,
                    .ldb = k,
                    .c = y,
                    .ldc = ROWS};
    for (int i = 0; i < COPIES && gx_ok(run); i++) {
        int64_t start = gx_now_ns();
        if (gx_team_call(team, &gx_backend_cpu, dev, GX_GEMM, GX_F64, &args, &(gx_cut){0}, &err) !=
            GX_OK) {
            gx_run_fail(run, &err);
            break;
        }
        double per_s = (double)(k * column) / ((double)gx_max(1, gx_now_ns() - start) * 1e-9);
        *rate = i == 0 || per_s > *rate ? per_s : *rate;
        gx_run_poll(run);
    }
    gx_mem_free(run->ctx->mem, memory);
    return run->err.code;
}

static gx_code never_stop(void *arg, gx_err *err)
{
    (void)arg, (void)err;
    return GX_OK;
}

/* Teams are made, used once and freed, as calls do; the mean of a member. */
static void measure_threads(gx_run *run, gx_dev *dev, gx_profile *profile)
{
    enum { TEAMS = 8, SMALL = 64 };
    gx_err err = {0};
    gx_mem *mem = run->ctx->mem;
    void *memory;
    if (profile->threads < 2 || gx_mem_calloc(mem, (size_t)SMALL * SMALL * sizeof(double),
                                              "gx_benchmark", &memory, NULL) != GX_OK) {
        return;
    }
    gx_args args = {.m = SMALL, .n = SMALL, .c = memory, .ldc = SMALL};
    int64_t start = gx_now_ns();
    for (int k = 0; k < TEAMS; k++) {
        gx_team *team = NULL;
        if (gx_team_create(profile->threads, mem, never_stop, NULL, &team, &err) == GX_OK) {
            gx_team_call(team, &gx_backend_cpu, dev, GX_FILL, GX_F64, &args,
                         &(gx_cut){.m = 8, .n = 8}, &err);
        }
        gx_team_free(team);
    }
    double seconds = (double)gx_max(1, gx_now_ns() - start) * 1e-9;
    if (err.code == GX_OK) {
        profile->thread_s = seconds / TEAMS / profile->threads;
    }
    gx_mem_free(mem, memory);
}

/* A = ones and a heavy diagonal; for eigenvalues, which such a matrix has one of, random. */
static void fill_matrix(gx_kernel_id kernel, double *A, int64_t n)
{
    gx_random random;
    gx_err err = {0};
    if (kernel == GX_SYEV &&
        gx_random_init(&random, GX_RANDOM_NORMAL, GX_F64, 1, 0, 1, &err) == GX_OK) {
        gx_random_generate(&random, 0, 0, n, n, GX_F64, A, n);
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++) {
            A[i + j * n] = i == j ? (double)n : 1;
        }
    }
}

/* Seconds of one f64 call on an n x n matrix, as drivers make it; 0: memory_limit forbids. */
static double time_call(gx_run *run, gx_dev *dev, gx_kernel_id kernel, int64_t n)
{
    gx_err err = {0};
    gx_mem *mem = run->ctx->mem;
    void *A = NULL, *rest = NULL;
    double seconds = 0;
    int64_t info = 0;
    size_t line = (size_t)n * sizeof(double);
    if (gx_mem_alloc(mem, line * (size_t)n, "gx_benchmark", &A, &err) == GX_OK &&
        gx_mem_alloc(mem, 2 * line, "gx_benchmark", &rest, &err) == GX_OK) {
        gx_args args = {.m = n, .n = n, .k = n, .c = A, .ldc = n, .info = &info};
        args.tau = args.values = rest;
        args.pivots = (int64_t *)rest + n;
        args.wants_right = kernel == GX_SYEV;
        args.threads = (int)run->ctx->config.number[GX_SET_THREADS];
        for (int k = 0; k < 2; k++) { // the second one counts
            fill_matrix(kernel, A, n);
            int64_t start = gx_now_ns();
            gx_code rc = gx_team_call(gx_run_team(run), &gx_backend_cpu, dev, kernel, GX_F64, &args,
                                      &(gx_cut){0}, &err);
            seconds = rc == GX_OK ? (double)gx_max(1, gx_now_ns() - start) * 1e-9 : 0;
        }
    }
    if (err.code != GX_OK && err.code != GX_BUDGET) {
        gx_run_fail(run, &err);
    }
    gx_mem_free(mem, A);
    gx_mem_free(mem, rest);
    return seconds;
}

/* Factorisations by size; a size that is too much takes the share of a product's rate before. */
static void measure_rates(gx_run *run, gx_dev *dev, gx_profile *profile)
{
    const double *gemm = profile->gemm_flops_per_s[GX_F64];
    for (int rate = 0; rate < GX_RATE_COUNT; rate++) {
        double *rates = profile->rate_flops_per_s[rate];
        gx_kernel_id kernel = gx_rate_kernel((gx_rate)rate);
        for (int i = 0; i < GX_PROFILE_SIZES && gx_ok(run); i++) {
            int64_t n = profile->gemm_size[i];
            gx_args size = {.m = n, .n = n, .k = n, .wants_right = true};
            double flops = gx_kernel_flops(kernel, GX_F64, &size);
            double share = i == 0 ? 0.5 : rates[i - 1] / gemm[i - 1];
            bool is_long = i > 0 && flops / rates[i - 1] > LONG_S;
            double seconds = is_long ? 0 : time_call(run, dev, kernel, n);
            rates[i] = seconds > 0 ? flops / seconds : share * gemm[i];
            gx_run_poll(run);
        }
    }
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
    gx_run_progress(run, GX_NUMBER_COUNT * GX_PROFILE_SIZES + 1);
    measure_memcpy(run, &profile->memcpy_bytes_per_s, &profile->touch_bytes_per_s);
    gx_run_advance(run, 1);
    for (int dtype = 0; dtype < GX_NUMBER_COUNT; dtype++) {
        double *rates = profile->gemm_flops_per_s[dtype];
        for (int i = 0; i < GX_PROFILE_SIZES && gx_ok(run); i++) {
            double rate;
            measure_gemm(run, dev, team, (gx_number)dtype, profile->gemm_size[i], &rate);
            rates[i] = rate > 0 ? rate : i > 0 ? rates[i - 1] : rates[i];
            gx_run_advance(run, 1);
        }
    }
    double core;
    if (measure_gemm(run, dev, NULL, GX_F64, CORE_EDGE, &core) == GX_OK && core > 0) {
        profile->core_flops_per_s = core;
    }
    measure_sweep(run, dev, team, &profile->sweep_bytes_per_s);
    measure_threads(run, dev, profile);
    measure_rates(run, dev, profile);
    gx_backend_cpu.close(dev);
    return run->err.code;
}
