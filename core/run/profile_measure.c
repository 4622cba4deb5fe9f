/*
** Measuring processors, the host's here and a device's (profile_device.c): products by size and
** dtype, factorisations in f64, a matrix times a few columns; of the host also memcpy and threads.
** See profile.h.
**
** A rate is the best of a few repetitions: what disturbs a measurement only ever makes it slower.
** The first call of a size is not counted: on a device it may load code.  A size that would take
** longer than slow_s, judged by the one before, takes its rate, so that slow processors are
** measured in the same time as fast ones; so do sizes that there is no room for, and everything
** that is left when the time is up.  Factorisations are of a matrix of ones with a heavy diagonal,
** eigenvalues and vectors of a random symmetric one.  What is not measured of those is a share of
** the product's rate.
**
** Products run as drivers run them, on the host a kernel of the CPU backend cut over the run's
** team.  Memory there: what the budget allows, up to a matrix that is past all caches.
*/
#include "../base/random.h"
#include "profile.h"

#include "run.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// Kernels -----------------------------------------------------------------------------------------

double gx_bench_seconds(int64_t start_ns)
{
    return (double)gx_max(1, gx_now_ns() - start_ns) * 1e-9;
}

gx_code gx_bench_launch(gx_bench *b, gx_kernel_id kernel, gx_number dtype, const gx_args *args,
                        gx_err *err)
{
    gx_kernel function = b->backend->kernel[kernel][dtype];
    if (b->run != NULL) {
        gx_args call = *args;
        call.threads = (int)b->run->ctx->config.number[GX_SET_THREADS];
        GX_TRY(gx_team_call(b->team, b->backend, b->dev, kernel, dtype, &call, &(gx_cut){0}, err));
        return gx_run_poll_fn(b->run, err);
    }
    return function != NULL ? function(b->dev, b->queue, args, err)
                            : gx_fail(err, GX_DEVICE, "%s has no product of %s", b->backend->name,
                                      gx_number_name(dtype));
}

gx_code gx_bench_call(gx_bench *b, gx_kernel_id kernel, gx_number dtype, const gx_args *args,
                      gx_err *err)
{
    GX_TRY(gx_bench_launch(b, kernel, dtype, args, err));
    return b->run != NULL ? GX_OK : b->backend->queue_wait(b->dev, b->queue, err);
}

static bool offers(const gx_bench *b, gx_kernel_id kernel)
{
    return b->backend->kernel[kernel][GX_F64] != NULL;
}

static bool is_late(const gx_bench *b)
{
    return gx_now_ns() > b->until_ns;
}

gx_args gx_bench_product(const gx_bench *b, gx_number dtype, int64_t n)
{
    size_t bytes = (size_t)(n * n) * gx_number_bytes(dtype);
    return (gx_args){.m = n,
                     .n = n,
                     .k = n,
                     .alpha = {1, 0},
                     .a = b->memory,
                     .lda = n,
                     .b = b->memory + bytes,
                     .ldb = n,
                     .c = b->memory + 2 * bytes,
                     .ldc = n};
}

/* The best of some calls, of which each does so much of something. */
static gx_code best_of(gx_bench *b, gx_number dtype, const gx_args *args, double work, double *rate,
                       gx_err *err)
{
    GX_TRY(gx_bench_call(b, GX_GEMM, dtype, args, err));
    *rate = 0;
    int64_t began = gx_now_ns();
    for (int k = 0; k < b->repeats && (k == 0 || gx_bench_seconds(began) < b->enough_s); k++) {
        int64_t start = gx_now_ns();
        GX_TRY(gx_bench_call(b, GX_GEMM, dtype, args, err));
        *rate = fmax(*rate, work / gx_bench_seconds(start));
    }
    return GX_OK;
}

/* Flop/s of such a product, the best of some.  *rate as it is where there is no room. */
static gx_code time_product(gx_bench *b, gx_number dtype, int64_t n, double *rate, gx_err *err)
{
    gx_args args = gx_bench_product(b, dtype, n);
    return 3 * (size_t)(n * n) * gx_number_bytes(dtype) > b->bytes
               ? GX_OK
               : best_of(b, dtype, &args, gx_kernel_flops(GX_GEMM, dtype, &args), rate, err);
}

/* One dtype; sizes that do not fit, or would take too long, as the one before. */
static gx_code time_products(gx_bench *b, gx_number dtype, gx_err *err)
{
    double *rate = b->gemm + dtype * b->sizes;
    for (int i = 0; i < b->sizes; i++) {
        gx_args args = gx_bench_product(b, dtype, b->size[i]);
        double before = i > 0 ? rate[i - 1] : rate[i];
        bool is_long = i > 0 && gx_kernel_flops(GX_GEMM, dtype, &args) / before > b->slow_s;
        rate[i] = before;
        if (!is_long && !(i > 0 && is_late(b))) {
            GX_TRY(time_product(b, dtype, b->size[i], &rate[i], err));
        }
    }
    return GX_OK;
}

/*
** A matrix times a few columns, as a pass of an iterative method does it; as large as there is room
** for, and time.
*/
static gx_code time_sweep(gx_bench *b, gx_err *err)
{
    const int64_t ROWS = 4096, COLS = GX_SWEEP_COLS;
    int64_t column = ROWS * (int64_t)sizeof(double);
    int64_t k = ((int64_t)b->bytes - COLS * column) / (column + 8 * COLS);
    while (k > COLS && 2.0 * (double)(ROWS * k * COLS) / b->gemm[0] > b->enough_s) {
        k /= 2;
    }
    if (k <= COLS || is_late(b)) {
        return GX_OK;
    }
    gx_args args = {.m = ROWS,
                    .n = COLS,
                    .k = k,
                    .alpha = {1, 0},
                    .a = b->memory,
                    .lda = ROWS,
                    .b = b->memory + k * column,
                    .ldb = k,
                    .c = b->memory + k * column + k * COLS * 8,
                    .ldc = ROWS};
    return best_of(b, GX_F64, &args, (double)(k * column), b->sweep_bytes_per_s, err);
}

// Factorisations ----------------------------------------------------------------------------------

/*
** Arguments of a kernel on an n x n matrix: A, a copy that it works on, its results and workspace
** one after the other in the buffer.  false: there is no room.
*/
static bool place_call(gx_bench *b, gx_kernel_id kernel, int64_t n, gx_args *args)
{
    size_t bytes = (size_t)(n * n) * sizeof(double), line = (size_t)n * sizeof(double);
    line = (line + 255) / 256 * 256;
    *args = (gx_args){.m = n,
                      .n = n,
                      .k = n,
                      .alpha = {1, 0},
                      .a = b->memory,
                      .lda = n,
                      .c = b->memory + bytes,
                      .ldc = n,
                      .wants_right = kernel == GX_SYEV,
                      .pivots = b->pivots + 1,
                      .info = b->pivots};
    if (2 * bytes + line > b->bytes) {
        return false;
    }
    args->tau = args->values = b->memory + 2 * bytes;
    args->work = b->memory + 2 * bytes + line;
    bool takes_own = b->run != NULL || b->backend->workspace == NULL;
    size_t work = takes_own ? 0 : b->backend->workspace(b->dev, kernel, GX_F64, args);
    return work <= b->bytes - 2 * bytes - line;
}

/* A = ones, and n on the diagonal; for eigenvalues, which such a matrix has one of, random. */
static gx_code fill_matrix(gx_bench *b, gx_kernel_id kernel, int64_t n, gx_err *err)
{
    if (kernel == GX_SYEV && (b->run != NULL || offers(b, GX_RANDOM))) {
        gx_random random;
        GX_TRY(gx_random_init(&random, GX_RANDOM_NORMAL, GX_F64, 1, 0, 1, err));
        gx_args drawn = {.m = n, .n = n, .c = b->memory, .ldc = n, .random = &random};
        if (b->run == NULL) {
            return gx_bench_call(b, GX_RANDOM, GX_F64, &drawn, err);
        }
        gx_random_generate(&random, 0, 0, n, n, GX_F64, b->memory, n);
        return GX_OK;
    }
    gx_args ones = {.m = n, .n = n, .alpha = {1, 0}, .c = b->memory, .ldc = n};
    gx_args diagonal = {.m = 1, .n = n, .alpha = {(double)n, 0}, .c = b->memory, .ldc = n + 1};
    GX_TRY(gx_bench_call(b, GX_FILL, GX_F64, &ones, err));
    return gx_bench_call(b, GX_FILL, GX_F64, &diagonal, err);
}

/* Seconds of the best call after the first. */
static gx_code time_call(gx_bench *b, gx_kernel_id kernel, const gx_args *args, double *seconds,
                         gx_err *err)
{
    enum { CALLS = 5 };
    gx_args copy = *args;
    copy.work = NULL;
    *seconds = INFINITY;
    int64_t began = gx_now_ns();
    for (int k = 0; k < 2 || (k < CALLS && gx_bench_seconds(began) < b->slow_s); k++) {
        GX_TRY(gx_bench_call(b, GX_COPY, GX_F64, &copy, err));
        int64_t start = gx_now_ns();
        GX_TRY(gx_bench_call(b, kernel, GX_F64, args, err));
        *seconds = k == 0 ? *seconds : fmin(*seconds, gx_bench_seconds(start));
    }
    return GX_OK;
}

/*
** Of a size that is not measured: a factorisation keeps a device busy as the side grows, in both
** directions.  On an H200 SYEV of 1024 runs at 0.06 Tflop/s, of 8192 at 6, a tenth of the product.
*/
static double grown_rate(const gx_bench *b, double before, int i)
{
    const double SHARE_MOST = 0.1;
    double growth = (double)b->size[i] / (double)b->size[i - 1];
    double most = SHARE_MOST * b->gemm[GX_F64 * b->sizes + i];
    return fmax(before, fmin(before * growth * growth, most));
}

/* One kernel by size. */
static gx_code time_rates(gx_bench *b, gx_rate which, gx_err *err)
{
    gx_kernel_id kernel = gx_rate_kernel(which);
    const double *gemm = b->gemm + GX_F64 * b->sizes;
    const double MORE = 3;
    double *rate = b->rate + which * b->sizes;
    bool is_offered = offers(b, kernel) && offers(b, GX_FILL) && offers(b, GX_COPY);
    for (int i = 0; i < b->sizes; i++) {
        gx_args args;
        double seconds = 0;
        rate[i] = i == 0 ? b->share[which] * gemm[i] : grown_rate(b, rate[i - 1], i);
        bool has_room = place_call(b, kernel, b->size[i], &args);
        double flops = gx_kernel_flops(kernel, GX_F64, &args), expected = flops / gemm[0];
        double most = i == 2 ? MORE * b->slow_s : b->slow_s; // of that size most depends
        if (i > 0) { // while processors are not busy, their rates grow with the side
            double growth = (double)b->size[i] / (double)b->size[i - 1];
            expected = flops / (growth * rate[i - 1]);
        }
        if (!is_offered || !has_room || expected > most || is_late(b)) {
            continue;
        }
        *args.info = 0;
        GX_TRY(fill_matrix(b, kernel, b->size[i], err));
        gx_code rc = time_call(b, kernel, &args, &seconds, err);
        if (rc != GX_OK && rc != GX_BUDGET) {
            return rc;
        }
        rate[i] = rc == GX_OK && *args.info == 0 ? flops / seconds : rate[i];
        *err = (gx_err){0}; // memory_limit does not hold its workspace: as what is not measured
    }
    return GX_OK;
}

gx_code gx_bench_run(gx_bench *b, gx_err *err)
{
    for (int dtype = 0; dtype < GX_FLOATS; dtype++) {
        GX_TRY(time_products(b, (gx_number)dtype, err));
    }
    GX_TRY(time_sweep(b, err));
    for (int rate = 0; rate < GX_RATE_COUNT; rate++) {
        GX_TRY(time_rates(b, (gx_rate)rate, err));
    }
    return GX_OK;
}

// The host ----------------------------------------------------------------------------------------

/* Past any cache's share of one core, and past all of it. */
static const size_t COPY_BYTES = (size_t)64 << 20, SWEEP_BYTES = (size_t)272 << 20;

/*
** The first use of fresh memory, and memcpy between two parts of it: the best of some rounds.  A
** virtual machine's first touch of a page may be twenty times slower than all later ones.
*/
static gx_code time_memory(gx_bench *b, gx_profile *profile, gx_err *err)
{
    enum { COPIES = 4 };
    size_t bytes = b->bytes / 2 < COPY_BYTES ? b->bytes / 2 : COPY_BYTES;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), least = (uintptr_t)b->memory;
    char *fresh = (char *)gx_round_up(least, page); // whole pages, which can be given back
    size_t room = bytes > 2 * page ? bytes / page * page - page : 0;
    memset(b->memory, 0x3f, b->bytes); // ordinary numbers: 0.75 as f32, 0.0005 as f64
    profile->touch_bytes_per_s = profile->memcpy_bytes_per_s = 0;
    for (int i = 0; i < COPIES; i++) {
        (void)madvise(fresh, room, MADV_DONTNEED);
        int64_t start = gx_now_ns();
        memset(fresh, 0x3f, gx_max(room, 1));
        profile->touch_bytes_per_s =
            fmax(profile->touch_bytes_per_s, (double)room / gx_bench_seconds(start));
        start = gx_now_ns();
        memcpy(b->memory + bytes, b->memory, bytes);
        profile->memcpy_bytes_per_s =
            fmax(profile->memcpy_bytes_per_s, (double)bytes / gx_bench_seconds(start));
        GX_TRY(gx_run_poll_fn(b->run, err));
    }
    return GX_OK;
}

static gx_code never_stop(void *arg, gx_err *err)
{
    (void)arg, (void)err;
    return GX_OK;
}

/* Teams are made, used once and freed, as calls do; the mean of a member. */
static gx_code time_threads(gx_bench *b, gx_profile *profile, gx_err *err)
{
    enum { TEAMS = 8, SMALL = 64 };
    gx_args args = {.m = SMALL, .n = SMALL, .c = b->memory, .ldc = SMALL};
    int64_t start = gx_now_ns();
    for (int k = 0; k < TEAMS && profile->threads > 1; k++) {
        gx_team *team = NULL;
        GX_TRY(gx_team_create(profile->threads, b->run->ctx->mem, never_stop, NULL, &team, err));
        gx_code rc = gx_team_call(team, b->backend, b->dev, GX_FILL, GX_F64, &args,
                                  &(gx_cut){.m = 8, .n = 8}, err);
        gx_team_free(team);
        GX_TRY(rc);
        profile->thread_s = gx_bench_seconds(start) / (k + 1) / profile->threads;
    }
    return GX_OK;
}

static gx_code time_host(gx_bench *b, gx_profile *profile, gx_err *err)
{
    const int64_t CORE_EDGE = 192;
    gx_mem *mem = b->run->ctx->mem;
    size_t largest = (size_t)profile->gemm_size[GX_PROFILE_SIZES - 1] + 1;
    void *memory, *pivots;
    GX_TRY(gx_mem_alloc(mem, b->bytes, "gx_benchmark", &memory, err));
    b->memory = memory;
    GX_TRY(gx_mem_alloc(mem, largest * sizeof(int64_t), "gx_benchmark", &pivots, err));
    b->pivots = pivots;
    GX_TRY(time_memory(b, profile, err));
    gx_run_advance(b->run, 1);
    GX_TRY(gx_bench_run(b, err));
    gx_run_advance(b->run, 1);
    b->team = NULL;
    GX_TRY(time_product(b, GX_F64, CORE_EDGE, &profile->core_flops_per_s, err));
    return time_threads(b, profile, err);
}

gx_code gx_profile_measure(gx_run *run, gx_profile *profile)
{
    static const double share[GX_RATE_COUNT] = {0.5, 0.4, 0.4, 0.1};
    gx_err err = {0};
    size_t spare = gx_mem_available(run->ctx->mem) / 4 * 3; // kernels take workspace of their own
    gx_bench b = {.backend = &gx_backend_cpu,
                  .run = run,
                  .team = gx_run_team(run),
                  .bytes = spare < SWEEP_BYTES ? spare : SWEEP_BYTES,
                  .repeats = 1000,
                  .enough_s = 0.05,
                  .slow_s = 0.25,
                  .until_ns = INT64_MAX,
                  .share = share,
                  .sizes = GX_PROFILE_SIZES,
                  .size = profile->gemm_size,
                  .gemm = profile->gemm_flops_per_s[0],
                  .rate = profile->rate_flops_per_s[0],
                  .sweep_bytes_per_s = &profile->sweep_bytes_per_s};
    if (b.backend->open(0, &b.dev, &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    profile->is_measured = true;
    profile->threads = b.team == NULL ? 1 : gx_team_threads(b.team);
    gx_run_progress(run, 3);
    time_host(&b, profile, &err);
    gx_mem_free(run->ctx->mem, b.memory);
    gx_mem_free(run->ctx->mem, b.pivots);
    b.backend->close(b.dev);
    return err.code == GX_BUDGET ? run->err.code : gx_run_fail(run, &err);
}
