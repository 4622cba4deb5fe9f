/*
** What a device does at best, as JSON on standard output: what make bench-gpu prints.
**
** Plan, by the names that GX_BENCH_ONLY may list:
**   launches   the cost of a launch, and of a launch that is waited for
**   copies     from and to pinned memory, by size
**   memory     sums, fills, additions and transposes beside the memory's speed
**   narrow     products of a large matrix with a few columns, beside its copy
**   spectra    eigenvalues and singular values with vectors, by size
**   field      products of m31, and of f64 by residues; circle transforms and constraints of m31;
**              of two devices, columns of each and a long column of both
**   factors    products and Cholesky factorisations of f64 and f32, by size
** Every time is the least of several runs after one that is not counted, over host clocks around
** work that is waited for.  GX_BENCH_MOST: the largest side (16384).
*/
#include "../unit/kernels/block.h"

#include <time.h>

static device gpu;
static gx_queue *queue;
static gx_err err;
static bool is_first = true;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(gx_code code)
{
    if (code != GX_OK) {
        printf("\n], \"error\": \"%s\"}\n", err.text);
        exit(1);
    }
}

static void *place(size_t bytes)
{
    void *there = NULL;
    must(gpu.backend->alloc(gpu.dev, bytes, &there, &err));
    return there;
}

static void wait_for(void)
{
    must(gpu.backend->queue_wait(gpu.dev, queue, &err));
}

static void print(const char *what, const char *dtype, double size, double seconds, double rate,
                  const char *unit)
{
    printf("%s\n  {\"what\": \"%s\", \"dtype\": \"%s\", \"size\": %.0f, \"seconds\": %.3g, "
           "\"rate\": %.4g, \"unit\": \"%s\"}",
           is_first ? "" : ",", what, dtype, size, seconds, rate, unit);
    fflush(stdout);
    is_first = false;
}

// Copies ------------------------------------------------------------------------------------------

static void copies(void)
{
    for (size_t bytes = 1 << 16; bytes <= (size_t)1 << 30; bytes *= 4) {
        void *host = NULL, *there = place(bytes);
        must(gpu.backend->pin(gpu.dev, bytes, &host, &err));
        memset(host, 1, bytes);
        double best[2] = {1e9, 1e9};
        for (int round = 0; round < 6; round++) {
            for (int is_down = 0; is_down < 2; is_down++) {
                double start = now();
                must(is_down ? gpu.backend->download(gpu.dev, queue, host, bytes, there, bytes,
                                                     bytes, 1, &err)
                             : gpu.backend->upload(gpu.dev, queue, there, bytes, host, bytes, bytes,
                                                   1, &err));
                wait_for();
                double time = now() - start;
                best[is_down] = round > 0 && time < best[is_down] ? time : best[is_down];
            }
        }
        print("upload pinned", "", (double)bytes, best[0], (double)bytes / best[0] / 1e9, "GB/s");
        print("download pinned", "", (double)bytes, best[1], (double)bytes / best[1] / 1e9, "GB/s");
        gpu.backend->free(gpu.dev, there);
        gpu.backend->unpin(gpu.dev, host);
    }
}

// Kernels -----------------------------------------------------------------------------------------

/* The least time of a kernel; reset != NULL: c is copied from there before each run, not timed. */
static double time_of(gx_kernel_id kernel, gx_number dtype, gx_args args, const void *reset,
                      int rounds)
{
    double best = 1e9;
    gx_args copy = {
        .m = args.ldc, .n = args.n, .a = reset, .lda = args.ldc, .c = args.c, .ldc = args.ldc};
    size_t bytes = gpu.backend->workspace(gpu.dev, kernel, dtype, &args);
    args.work = place(bytes);
    for (int round = 0; round <= rounds; round++) {
        if (reset != NULL) {
            must(gpu.backend->kernel[GX_COPY][dtype](gpu.dev, queue, &copy, &err));
        }
        wait_for();
        double start = now();
        must(gpu.backend->kernel[kernel][dtype](gpu.dev, queue, &args, &err));
        wait_for();
        double time = now() - start;
        best = round > 0 && time < best ? time : best;
    }
    gpu.backend->free(gpu.dev, args.work);
    return best;
}

/* n x n random numbers in [-1, 1), and on the diagonal 2 n. */
static void *random_matrix(gx_number dtype, int64_t n, bool is_definite)
{
    size_t bytes = (size_t)(n * n) * gx_number_bytes(dtype);
    void *there = place(bytes), *host = malloc(bytes);
    uint64_t state = 7;
    block b = {.dtype = dtype, .m = n, .n = n, .ld = n, .data = host};
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++) {
            double x = is_definite && i == j ? 2.0 * (double)n : random_unit(&state);
            block_set(&b, i, j, (gx_scalar){x, 0});
        }
    }
    must(gpu.backend->upload(gpu.dev, queue, there, bytes, host, bytes, bytes, 1, &err));
    wait_for();
    free(host);
    return there;
}

static void factor_rates(gx_number dtype, int64_t most)
{
    for (int64_t n = 256; n <= most; n *= 2) {
        size_t bytes = (size_t)(n * n) * gx_number_bytes(dtype);
        void *a = random_matrix(dtype, n, true), *b = place(bytes), *c = place(bytes);
        gx_args fill = {.m = n, .n = n, .alpha = {0.5, 0}, .c = b, .ldc = n};
        must(gpu.backend->kernel[GX_FILL][dtype](gpu.dev, queue, &fill, &err));
        int rounds = n <= 4096 ? 8 : 3;
        gx_args gemm = {.m = n,
                        .n = n,
                        .k = n,
                        .alpha = {1, 0},
                        .a = a,
                        .lda = n,
                        .b = a,
                        .ldb = n,
                        .c = c,
                        .ldc = n};
        double flops = gx_kernel_flops(GX_GEMM, dtype, &gemm);
        double time = time_of(GX_GEMM, dtype, gemm, NULL, rounds);
        print("gemm", gx_number_name(dtype), (double)n, time, flops / time / 1e12, "TFLOP/s");
        int64_t info = 0;
        gx_args potrf = {.m = n, .n = n, .c = c, .ldc = n, .info = &info};
        flops = gx_kernel_flops(GX_POTRF, dtype, &potrf);
        time = time_of(GX_POTRF, dtype, potrf, a, rounds);
        if (info != 0) {
            printf("\n], \"error\": \"potrf info %d\"}\n", (int)info);
            exit(1);
        }
        print("potrf", gx_number_name(dtype), (double)n, time, flops / time / 1e12, "TFLOP/s");
        gpu.backend->free(gpu.dev, a);
        gpu.backend->free(gpu.dev, b);
        gpu.backend->free(gpu.dev, c);
    }
}

/* Products modulo 2^31 - 1: their operations counted as those of a product of doubles. */
static void field_rates(int64_t most)
{
    for (int64_t n = 1024; n <= most; n *= 2) {
        size_t bytes = (size_t)(n * n) * sizeof(uint32_t);
        void *a = place(bytes), *c = place(bytes);
        gx_args fill = {.m = n, .n = n, .alpha = {1234567890, 0}, .c = a, .ldc = n};
        must(gpu.backend->kernel[GX_FILL][GX_M31](gpu.dev, queue, &fill, &err));
        gx_args gemm = {.m = n, .n = n, .k = n, .alpha = {1, 0}, .a = a, .lda = n, .b = a};
        gemm.c = c;
        gemm.ldb = gemm.ldc = n;
        double flops = gx_kernel_flops(GX_GEMM, GX_M31, &gemm);
        double time = time_of(GX_GEMM, GX_M31, gemm, NULL, 8);
        print("gemm", gx_number_name(GX_M31), (double)n, time, flops / time / 1e12, "TFLOP/s");
        gpu.backend->free(gpu.dev, a);
        gpu.backend->free(gpu.dev, c);
    }
}

/* Products of doubles by residues, beside those as they are. */
static void residue_rates(int64_t most)
{
    for (int64_t n = 1024; n <= most; n *= 2) {
        void *a = random_matrix(GX_F64, n, false), *b = random_matrix(GX_F64, n, false);
        void *c = place((size_t)(n * n) * sizeof(double));
        gx_args args = {.m = n, .n = n, .k = n, .alpha = {1, 0}, .a = a, .lda = n, .b = b};
        args.c = c;
        args.ldb = args.ldc = n;
        for (int by = 0; by < 2; by++) {
            args.by_residues = by == 1;
            double flops = gx_kernel_flops(GX_GEMM, GX_F64, &args);
            double time = time_of(GX_GEMM, GX_F64, args, NULL, 8);
            print(by == 1 ? "gemm by residues" : "gemm", "f64", (double)n, time,
                  flops / time / 1e12, "TFLOP/s");
        }
        gpu.backend->free(gpu.dev, a);
        gpu.backend->free(gpu.dev, b);
        gpu.backend->free(gpu.dev, c);
    }
}

/* Circle transforms of a column, their twiddles made, too; rate: of reading and writing it once. */
static void circle_rates(int64_t most)
{
    for (int log = 16; (int64_t)1 << log <= gx_min(most * most, (int64_t)1 << 28); log += 2) {
        int64_t n = (int64_t)1 << log;
        size_t bytes = (size_t)n * sizeof(uint32_t);
        void *c = place(bytes);
        gx_args fill = {.m = n, .n = 1, .alpha = {1234567890, 0}, .c = c, .ldc = n};
        must(gpu.backend->kernel[GX_FILL][GX_M31](gpu.dev, queue, &fill, &err));
        for (int back = 0; back < 2; back++) {
            gx_args args = {.n = 1, .k = 1, .ldb = 1, .c = c, .ldc = n, .is_backward = back == 1};
            args.alpha = (gx_scalar){1, 0};
            args.pivot_last = args.row_offset = log;
            double time = time_of(GX_CIRCLE, GX_M31, args, NULL, 8);
            print(back ? "circle back" : "circle", "m31", log, time, 2 * (double)bytes / time / 1e9,
                  "GB/s");
        }
        gpu.backend->free(gpu.dev, c);
    }
}

/* 64 columns of 2^log on one device, and half of them on each of two at the same time. */
static void shared_circles(int log)
{
    enum { COLUMNS = 64 };
    gx_queue *queues[2] = {queue, NULL};
    gx_dev *devs[2] = {gpu.dev, NULL};
    void *c[2] = {NULL, NULL}, *work[2] = {NULL, NULL};
    const gx_backend *b = gpu.backend;
    size_t column = sizeof(uint32_t) << log;
    gx_args args = {.n = COLUMNS, .k = 1, .ldb = 1, .ldc = (int64_t)1 << log, .alpha = {1, 0}};
    args.pivot_last = args.row_offset = log;
    if (b->count() < 2) {
        return;
    }
    must(b->open(1, &devs[1], &err));
    must(b->queue_create(devs[1], &queues[1], &err));
    for (int d = 0; d < 2; d++) {
        must(b->alloc(devs[d], column * (d == 0 ? COLUMNS : COLUMNS / 2), &c[d], &err));
        must(b->alloc(devs[d], column, &work[d], &err));
        gx_args fill = {.m = args.ldc, .n = d == 0 ? COLUMNS : COLUMNS / 2, .c = c[d]};
        fill.ldc = args.ldc;
        must(b->kernel[GX_FILL][GX_M31](devs[d], queues[d], &fill, &err));
        must(b->queue_wait(devs[d], queues[d], &err));
    }
    for (int devices = 1; devices <= 2; devices++) {
        double best = 1e9;
        for (int round = 0; round < 8; round++) {
            double start = now();
            for (int d = 0; d < devices; d++) {
                args.n = COLUMNS / devices;
                args.c = c[d];
                args.work = work[d];
                must(b->kernel[GX_CIRCLE][GX_M31](devs[d], queues[d], &args, &err));
            }
            for (int d = 0; d < devices; d++) {
                must(b->queue_wait(devs[d], queues[d], &err));
            }
            best = round > 0 && now() - start < best ? now() - start : best;
        }
        print(devices == 1 ? "64 circles" : "64 circles on two", "m31", log, best,
              2 * COLUMNS * (double)column / best / 1e9, "GB/s");
    }
    for (int d = 0; d < 2; d++) {
        b->free(devs[d], c[d]);
        b->free(devs[d], work[d]);
    }
    b->queue_free(devs[1], queues[1]);
    b->close(devs[1]);
}

/* A block of a long column on a device of two, and what the other one sends. */
typedef struct half {
    gx_dev *dev;
    gx_queue *run, *in;
    gx_mark *is_done, *is_here;
    void *block[2], *guest, *work;
} half;

static void call_circle(const half *h, gx_args args)
{
    args.work = h->work;
    must(gpu.backend->kernel[GX_CIRCLE][GX_M31](h->dev, h->run, &args, &err));
}

/* h's queue `in` brings a block of the other one's, once that has done what it has enqueued. */
static void bring(half *h, half *other, void *to, const void *from, size_t bytes)
{
    const gx_backend *b = gpu.backend;
    must(b->mark_set(other->dev, other->run, other->is_done, &err));
    must(b->queue_after_mark(h->dev, h->in, other->is_done, &err));
    must(b->copy_from(h->dev, h->in, to, other->dev, from, bytes, &err));
    must(b->mark_set(h->dev, h->in, h->is_here, &err));
}

/*
** One column of 2^log on two devices, by the calls of the product's program: blocks 0 and 2 are the
** first one's, 1 and 3 the other one's; each layer of neighbours has a block of either.
*/
static double long_circle(half h[2], int log)
{
    const gx_backend *b = gpu.backend;
    int64_t m = (int64_t)1 << (log - 2);
    size_t bytes = (size_t)m * sizeof(uint32_t);
    gx_args pair = {.m = m, .n = 1, .ldc = m, .ldc2 = m, .pivot_first = 1234567};
    gx_args own = {.n = 1, .k = 1, .ldb = 1, .ldc = m, .alpha = {1, 0}};
    own.pivot_last = log - 2;
    own.row_offset = log;
    double start = now();
    for (int d = 0; d < 2; d++) {
        pair.c = h[d].block[0];
        pair.c2 = h[d].block[1];
        call_circle(&h[d], pair);
    }
    bring(&h[0], &h[1], h[0].guest, h[1].block[0], bytes);
    bring(&h[1], &h[0], h[1].guest, h[0].block[1], bytes);
    for (int d = 0; d < 2; d++) {
        pair.c = h[d].block[d];
        pair.c2 = h[d].guest;
        pair.side = d == 0 ? GX_LEFT : GX_RIGHT;
        must(b->queue_after_mark(h[d].dev, h[d].run, h[d].is_here, &err));
        call_circle(&h[d], pair);
    }
    bring(&h[0], &h[1], h[0].block[1], h[1].guest, bytes);
    bring(&h[1], &h[0], h[1].block[0], h[0].guest, bytes);
    for (int q = 0; q < 2; q++) {
        for (int d = 0; d < 2; d++) {
            own.c = h[d].block[q == 0 ? d : 1 - d];
            own.pivot_first = q == 0 ? 3 * d : 2 - d;
            if (q == 1) {
                must(b->queue_after_mark(h[d].dev, h[d].run, h[d].is_here, &err));
            }
            call_circle(&h[d], own);
        }
    }
    for (int d = 0; d < 2; d++) {
        must(b->queue_wait(h[d].dev, h[d].run, &err));
    }
    return now() - start;
}

static void long_circles(int log)
{
    const gx_backend *b = gpu.backend;
    half h[2] = {{.dev = gpu.dev, .run = queue}, {.dev = NULL}};
    size_t bytes = sizeof(uint32_t) << log;
    double best = 1e9, alone;
    void *c = place(bytes);
    gx_args args = {.n = 1, .k = 1, .ldb = 1, .c = c, .ldc = (int64_t)1 << log, .alpha = {1, 0}};
    args.pivot_last = args.row_offset = log;
    if (b->count() < 2) {
        gpu.backend->free(gpu.dev, c);
        return;
    }
    alone = time_of(GX_CIRCLE, GX_M31, args, NULL, 8);
    print("long circle", "m31", log, alone, 2 * (double)bytes / alone / 1e9, "GB/s");
    gpu.backend->free(gpu.dev, c);
    must(b->open(1, &h[1].dev, &err));
    must(b->queue_create(h[1].dev, &h[1].run, &err));
    for (int d = 0; d < 2; d++) {
        must(b->queue_create(h[d].dev, &h[d].in, &err));
        must(b->mark_create(h[d].dev, &h[d].is_done, &err));
        must(b->mark_create(h[d].dev, &h[d].is_here, &err));
        void **room[] = {&h[d].block[0], &h[d].block[1], &h[d].guest, &h[d].work};
        for (int k = 0; k < 4; k++) {
            must(b->alloc(h[d].dev, bytes / 4, room[k], &err));
        }
    }
    (void)(b->reaches(h[0].dev, h[1].dev) && b->reaches(h[1].dev, h[0].dev));
    for (int round = 0; round < 8; round++) {
        double time = long_circle(h, log);
        best = round > 0 && time < best ? time : best;
    }
    print("long circle on two", "m31", log, best, 2 * (double)bytes / best / 1e9, "GB/s");
    for (int d = 0; d < 2; d++) {
        void *room[] = {h[d].block[0], h[d].block[1], h[d].guest, h[d].work};
        for (int k = 0; k < 4; k++) {
            b->free(h[d].dev, room[k]);
        }
        b->mark_free(h[d].dev, h[d].is_done);
        b->mark_free(h[d].dev, h[d].is_here);
        b->queue_free(h[d].dev, h[d].in);
    }
    b->queue_free(h[1].dev, h[1].run);
    b->close(h[1].dev);
}

/*
** Constraints of 40 columns, 100 of them with a product and a difference, some of the next row, in
** qm31; rate: of reading the columns once.
*/
static void constraint_rates(void)
{
    enum { COLUMNS = 40, COUNT = 100 };
    static gx_constraint_step step[3 * COUNT];
    static uint32_t power[GX_CONSTRAINT_WIDTH * COUNT];
    const uint32_t next = (uint32_t)GX_CONSTRAINT_NEXT << GX_CONSTRAINT_KIND;
    const uint32_t result = (uint32_t)GX_CONSTRAINT_REGISTER << GX_CONSTRAINT_KIND;
    for (uint32_t k = 0; k < COUNT; k++) {
        step[3 * k] =
            (gx_constraint_step){GX_CONSTRAINT_MUL, 0, {k * 7 % COLUMNS, k * 11 % COLUMNS}, 0};
        step[3 * k + 1] = (gx_constraint_step){
            GX_CONSTRAINT_SUB, 0, {result, k * 13 % COLUMNS + (k % 3 == 0 ? next : 0)}, 0};
        step[3 * k + 2] = (gx_constraint_step){GX_CONSTRAINT_TAKE, 0, {result, k}, 0};
    }
    for (uint32_t k = 0; k < GX_CONSTRAINT_WIDTH * COUNT; k++) {
        power[k] = k * 2654435761u % GX_M31_P;
    }
    const gx_constraints p = {step, power, 3 * COUNT, COUNT, COLUMNS, 1, 1, GX_CONSTRAINT_WIDTH};
    int64_t n = (int64_t)1 << 22;
    size_t bytes = (size_t)n * COLUMNS * sizeof(uint32_t);
    void *a = place(bytes), *c = place((size_t)n * GX_CONSTRAINT_WIDTH * sizeof(uint32_t));
    gx_args fill = {.m = n, .n = COLUMNS, .alpha = {1234567890, 0}, .c = a, .ldc = n};
    must(gpu.backend->kernel[GX_FILL][GX_M31](gpu.dev, queue, &fill, &err));
    gx_args args = {.m = n, .n = GX_CONSTRAINT_WIDTH, .k = n, .a = a, .lda = n, .b = a, .ldb = n};
    args.c = c;
    args.ldc = n;
    args.constraints = &p;
    double time = time_of(GX_COMBINE, GX_M31, args, NULL, 8);
    print("constraints", "m31", (double)n, time, (double)bytes / time / 1e9, "GB/s");
    gpu.backend->free(gpu.dev, a);
    gpu.backend->free(gpu.dev, c);
}

static void memory_rates(void)
{
    int64_t n = 16384;
    for (int d = 0; d < GX_FLOATS; d++) {
        gx_number dtype = (gx_number)d;
        double bytes = (double)(n * n) * (double)gx_number_bytes(dtype), out[2];
        double *many = malloc((size_t)n * 2 * sizeof *many);
        void *a = place((size_t)bytes), *b = place((size_t)bytes);
        gx_args map = {.map = GX_MAP_ADD,
                       .m = n,
                       .n = n,
                       .alpha = {1, 0},
                       .beta = {1, 0},
                       .a = a,
                       .lda = n,
                       .b = b,
                       .ldb = n,
                       .c = a,
                       .ldc = n};
        gx_args fill = map;
        double time = time_of(GX_FILL, dtype, fill, NULL, 5);
        print("fill", gx_number_name(dtype), (double)n, time, bytes / time / 1e9, "GB/s");
        fill.c = b;
        (void)time_of(GX_FILL, dtype, fill, NULL, 1);
        time = time_of(GX_MAP, dtype, map, NULL, 5);
        print("add", gx_number_name(dtype), (double)n, time, 3 * bytes / time / 1e9, "GB/s");
        gx_args turn = {.transa = GX_TRANS, .m = n, .n = n, .a = a, .lda = n, .c = b, .ldc = n};
        time = time_of(GX_TRANSPOSE, dtype, turn, NULL, 5);
        print("transpose", gx_number_name(dtype), (double)n, time, 2 * bytes / time / 1e9, "GB/s");
        static const struct {
            gx_reduce_kind kind;
            const char *name;
        } kinds[] = {{GX_REDUCE_SUM, "sum"},
                     {GX_REDUCE_SUMSQ, "sumsq"},
                     {GX_REDUCE_COL_SUM, "sum by column"},
                     {GX_REDUCE_ROW_SUM, "sum by row"}};
        for (int k = 0; k < 4; k++) {
            gx_args sum = {.m = n,
                           .n = n,
                           .a = a,
                           .lda = n,
                           .reduce_kind = kinds[k].kind,
                           .reduce = k < 2 ? out : many};
            time = time_of(GX_REDUCE, dtype, sum, NULL, 5);
            print(kinds[k].name, gx_number_name(dtype), (double)n, time, bytes / time / 1e9,
                  "GB/s");
        }
        gpu.backend->free(gpu.dev, a);
        gpu.backend->free(gpu.dev, b);
        free(many);
    }
}

/* Bytes of the matrix per second; "copy": bytes read and written. */
static void narrow_rates(gx_number dtype, int64_t side)
{
    enum { MOST = 64 };
    static const int64_t widths[] = {1, 2, 4, 8, 10, 16, 33, MOST};
    enum { WIDTHS = sizeof widths / sizeof *widths };
    double bytes = (double)(side * side) * (double)gx_number_bytes(dtype);
    void *a = place((size_t)bytes), *x = place(MOST * (size_t)side * gx_number_bytes(dtype));
    void *y = place(MOST * (size_t)side * gx_number_bytes(dtype)), *copy = place((size_t)bytes);
    gx_args fill = {.m = side, .n = side, .alpha = {0.5, 0}, .c = a, .ldc = side};
    must(gpu.backend->kernel[GX_FILL][dtype](gpu.dev, queue, &fill, &err));
    fill.n = MOST;
    fill.c = x;
    must(gpu.backend->kernel[GX_FILL][dtype](gpu.dev, queue, &fill, &err));
    gx_args args = {.m = side, .n = side, .a = a, .lda = side, .c = copy, .ldc = side};
    double time = time_of(GX_COPY, dtype, args, NULL, 5);
    print("copy", gx_number_name(dtype), (double)side, time, 2 * bytes / time / 1e9, "GB/s");
    for (int q = 0; q < 2 * WIDTHS; q++) {
        bool is_turned = q % 2 == 1;
        char name[64];
        gx_args product = {.transa = is_turned ? GX_TRANS : GX_NO_TRANS,
                           .m = side,
                           .n = widths[q / 2],
                           .k = side,
                           .alpha = {1, 0},
                           .a = a,
                           .lda = side,
                           .b = x,
                           .ldb = side,
                           .c = y,
                           .ldc = side};
        time = time_of(GX_GEMM, dtype, product, NULL, 5);
        snprintf(name, sizeof name, "%s x %d columns", is_turned ? "a^T" : "a", (int)widths[q / 2]);
        print(name, gx_number_name(dtype), (double)side, time, bytes / time / 1e9, "GB/s");
    }
    void *all[] = {a, x, y, copy};
    for (int i = 0; i < 4; i++) {
        gpu.backend->free(gpu.dev, all[i]);
    }
}

/* All values and vectors, of a symmetric, a square, a general matrix. */
static void spectra_rates(gx_kernel_id kernel, gx_number dtype, int64_t most)
{
    for (int64_t n = 256; n <= most && gpu.backend->kernel[kernel][dtype] != NULL; n *= 2) {
        size_t bytes = (size_t)(n * n) * gx_number_bytes(dtype);
        gx_number wide = gx_number_promote(dtype, GX_C64);
        size_t vectors = (size_t)(n * n) * gx_number_bytes(wide);
        void *a = random_matrix(dtype, n, false), *c = place(bytes),
             *values = place((size_t)n * 16);
        void *left = place(vectors), *right = place(vectors);
        int64_t info = 0;
        gx_args args = {.m = n,
                        .n = n,
                        .c = c,
                        .ldc = n,
                        .values = values,
                        .left = left,
                        .ldleft = n,
                        .right = right,
                        .ldright = n,
                        .wants_right = true,
                        .wants_left = kernel == GX_GESDD,
                        .info = &info};
        double time = time_of(kernel, dtype, args, a, 1),
               flops = gx_kernel_flops(kernel, dtype, &args);
        print(gx_kernel_name(kernel), gx_number_name(dtype), (double)n, time, flops / time / 1e12,
              "TFLOP/s");
        void *all[] = {a, c, values, left, right};
        for (int i = 0; i < 5; i++) {
            gpu.backend->free(gpu.dev, all[i]);
        }
    }
}

static void launches(void)
{
    void *cell = place(64);
    gx_args one = {.m = 1, .n = 1, .c = cell, .ldc = 1};
    print("launch and wait", "f64", 1, time_of(GX_FILL, GX_F64, one, NULL, 200), 0, "");
    enum { COUNT = 2000 };
    double start = now();
    for (int i = 0; i < COUNT; i++) {
        must(gpu.backend->kernel[GX_FILL][GX_F64](gpu.dev, queue, &one, &err));
    }
    wait_for();
    print("launch", "f64", 1, (now() - start) / COUNT, 0, "");
    gpu.backend->free(gpu.dev, cell);
}

static bool is_asked(const char *section)
{
    const char *only = getenv("GX_BENCH_ONLY");
    return only == NULL || strstr(only, section) != NULL;
}

int main(void)
{
    double start = now();
    gx_dev_info info;
    gpu = device_on_demand();
    double opened = now() - start;
    must(gpu.backend->info(gpu.dev, &info, &err));
    must(gpu.backend->queue_create(gpu.dev, &queue, &err));
    printf("{\"device\": \"%s\", \"total_bytes\": %zu, \"free_bytes\": %zu, \"open_s\": %.3f,\n"
           "\"results\": [",
           info.name, info.total_bytes, info.free_bytes, opened);
    const char *most = getenv("GX_BENCH_MOST");
    int64_t side = most == NULL ? 16384 : atoll(most);
    bool is_wide = side >= 1024; // else a look at whether it runs
    if (is_asked("launches")) {
        launches();
    }
    if (is_asked("copies")) {
        copies();
    }
    if (is_asked("memory")) {
        memory_rates();
    }
    if (is_asked("narrow")) {
        narrow_rates(GX_F64, is_wide ? gx_min(2 * side, 32768) : side);
        narrow_rates(GX_F32, is_wide ? gx_min(2 * side, 32768) : side);
        narrow_rates(GX_C128, gx_min(side, 16384));
    }
    if (is_asked("spectra")) {
        spectra_rates(GX_SYEV, GX_F64, gx_min(side, 8192));
        spectra_rates(GX_GESDD, GX_F64, gx_min(side, 2048));
        spectra_rates(GX_GEEV, GX_F64, gx_min(side, 2048));
    }
    if (is_asked("field")) {
        field_rates(side);
        residue_rates(side);
        circle_rates(side);
        constraint_rates();
        shared_circles(is_wide ? 24 : 12);
        long_circles(is_wide ? 28 : 14);
    }
    if (is_asked("factors")) {
        factor_rates(GX_F64, side);
        factor_rates(GX_F32, side);
    }
    printf("\n]}\n");
    gpu.backend->queue_free(gpu.dev, queue);
    gpu.backend->close(gpu.dev);
    return 0;
}
