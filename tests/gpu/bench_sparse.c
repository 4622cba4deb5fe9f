/*
** Products with a sparse matrix that is in the device's memory, the kernel alone.  JSON lines on
** standard output.
**
**     gpu_tests bench_sparse FILE LINES...
**
** FILE: rows, columns, entries as 64-bit numbers, then row starts of 32 bits, indexes of 32 bits,
** values as doubles; what bench/sparse.py --gpu writes.  For f64 and f32 and each number of lines:
** the least of several runs of GX_SPMM, gathered (S times columns) and scattered (its transpose),
** over a host clock around as many launches as take 20 ms, after one that is not counted.
*/
#include "../unit/kernels/block.h"

#include <time.h>

static device gpu;
static gx_queue *queue;
static gx_err err;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(bool is_good, const char *what)
{
    if (!is_good) {
        printf("{\"error\": \"%s: %s\"}\n", what, err.text);
        exit(1);
    }
}

static void *place(size_t bytes)
{
    void *there = NULL;
    must(gpu.backend->alloc(gpu.dev, bytes, &there, &err) == GX_OK, "alloc");
    return there;
}

static void *placed(const void *host, size_t bytes)
{
    void *there = place(bytes);
    must(gpu.backend->upload(gpu.dev, queue, there, bytes, host, bytes, bytes, 1, &err) == GX_OK,
         "upload");
    must(gpu.backend->queue_wait(gpu.dev, queue, &err) == GX_OK, "wait");
    return there;
}

static void *read_all(FILE *file, size_t bytes)
{
    void *data = malloc(bytes);
    must(data != NULL && fread(data, 1, bytes, file) == bytes, "the file is too short");
    return data;
}

static double seconds_of(gx_number dtype, const gx_args *args)
{
    enum { ROUNDS = 5 };
    double best = 1e30;
    int64_t times = 1;
    for (int round = 0; round < ROUNDS + 1; round++) {
        double start = now();
        for (int64_t k = 0; k < times; k++) {
            must(gpu.backend->kernel[GX_SPMM][dtype](gpu.dev, queue, args, &err) == GX_OK, "spmm");
        }
        must(gpu.backend->queue_wait(gpu.dev, queue, &err) == GX_OK, "wait");
        double each = (now() - start) / (double)times;
        best = round > 0 && each < best ? each : best;
        times = round == 0 ? gx_max(1, (int64_t)(0.02 / each)) : times;
    }
    return best;
}

static void measure(gx_number dtype, const gx_csr *csr, int64_t lines, gx_trans op)
{
    bool is_gathered = op != GX_NO_TRANS;
    gx_args args = {.transa = op,
                    .m = lines,
                    .n = is_gathered ? csr->rows : csr->cols,
                    .k = is_gathered ? csr->cols : csr->rows,
                    .alpha = {1, 0},
                    .is_fresh = is_gathered,
                    .ldb = lines,
                    .ldc = lines,
                    .sparse = csr};
    size_t in = (size_t)(args.k * lines) * gx_number_bytes(dtype);
    size_t out = (size_t)(args.n * lines) * gx_number_bytes(dtype);
    size_t work = gpu.backend->workspace(gpu.dev, GX_SPMM, dtype, &args);
    void *zeros = calloc(1, in > out ? in : out);
    must(zeros != NULL, "memory");
    void *b = placed(zeros, in), *c = placed(zeros, out);
    free(zeros);
    args.b = b;
    args.c = c;
    args.work = work > 0 ? place(work) : NULL;
    double seconds = seconds_of(dtype, &args);
    printf("{\"dtype\": \"%s\", \"lines\": %lld, \"transposed\": %s, \"seconds\": %.4g}\n",
           gx_number_name(dtype), (long long)lines, is_gathered ? "false" : "true", seconds);
    fflush(stdout);
    gpu.backend->free(gpu.dev, b);
    gpu.backend->free(gpu.dev, c);
    gpu.backend->free(gpu.dev, args.work);
}

int bench_sparse(int argc, char **argv)
{
    int64_t size[3];
    FILE *file = argc > 0 ? fopen(argv[0], "rb") : NULL;
    gpu = device_on_demand();
    must(file != NULL, "no file");
    must(gpu.backend->queue_create(gpu.dev, &queue, &err) == GX_OK, "queue");
    must(fread(size, sizeof *size, 3, file) == 3, "the file is too short");
    uint32_t *start = read_all(file, (size_t)(size[0] + 1) * sizeof *start);
    int32_t *index = read_all(file, (size_t)size[2] * sizeof *index);
    double *value = read_all(file, (size_t)size[2] * sizeof *value);
    fclose(file);
    gx_csr csr = {.rows = size[0], .cols = size[1], .entries = size[2], .index_bytes = 4};
    csr.start = placed(start, (size_t)(size[0] + 1) * sizeof *start);
    csr.index = placed(index, (size_t)size[2] * sizeof *index);
    for (int d = 0; d < 2; d++) {
        csr.dtype = d == 0 ? GX_F64 : GX_F32;
        if (d == 1) {
            for (int64_t e = 0; e < size[2]; e++) {
                float narrow = (float)value[e];
                memcpy((char *)value + (size_t)e * sizeof narrow, &narrow, sizeof narrow);
            }
        }
        void *there = placed(value, (size_t)size[2] * gx_number_bytes(csr.dtype));
        csr.value = there;
        for (int k = 1; k < argc; k++) {
            measure(csr.dtype, &csr, atoll(argv[k]), GX_TRANS);
            measure(csr.dtype, &csr, atoll(argv[k]), GX_NO_TRANS);
        }
        gpu.backend->free(gpu.dev, there);
    }
    free(start);
    free(index);
    free(value);
    return 0;
}
