/*
** A part of bench_core.c, which includes it when it has said what a bench is: the product by
** cublasXt from arrays in host memory, on the devices that the connection has open.
*/
#ifndef BENCH_XT_H
#define BENCH_XT_H

/* What is called of it; it is a part of libcublas, which gx_cuda.so has loaded. */
typedef struct xt {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*select)(void *handle, int count, int *devices);
    int (*set_block)(void *handle, int edge);
    int (*gemm)(void *handle, int transa, int transb, size_t m, size_t n, size_t k,
                const double *alpha, const double *A, size_t lda, const double *B, size_t ldb,
                const double *beta, double *C, size_t ldc);
    void *handle;
} xt;

/* Why there is none; NULL: it is there, on the device of gx. */
static const char *open_xt(bench *b, xt *x)
{
    static const char *const sonames[] = {"libcublas.so.13", "libcublas.so.12"};
    void *library = NULL;
    for (int k = 0; k < 2 && library == NULL; k++) {
        library = dlopen(sonames[k], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    }
    if (library == NULL) {
        return "libcublas is not loaded under its own name";
    }
    *(void **)&x->create = dlsym(library, "cublasXtCreate");
    *(void **)&x->destroy = dlsym(library, "cublasXtDestroy");
    *(void **)&x->select = dlsym(library, "cublasXtDeviceSelect");
    *(void **)&x->set_block = dlsym(library, "cublasXtSetBlockDim");
    *(void **)&x->gemm = dlsym(library, "cublasXtDgemm");
    if (x->create == NULL || x->destroy == NULL || x->select == NULL || x->set_block == NULL ||
        x->gemm == NULL) {
        return "libcublas has no cublasXt";
    }
    int list[GX_DEVICES_MOST], count = 0;
    for (gx_accel *accel = accel_of(b); accel != NULL; accel = accel->next) {
        list[count++] = accel->ordinal;
    }
    if (x->create(&x->handle) != 0) {
        return "cublasXtCreate failed";
    }
    return x->select(x->handle, count, list) == 0 ? NULL : "cublasXtDeviceSelect failed";
}

/* Numbers of [-1, 1): a few megabytes of random ones, again and again. */
static void fill_array(double *x, size_t count, int seed)
{
    enum { PERIOD = 999983 };
    gx_random random;
    gx_err err = {0};
    size_t first = count < PERIOD ? count : PERIOD;
    must(gx_random_init(&random, GX_RANDOM_UNIFORM, GX_F64, seed, -1, 1, &err), &err);
    gx_random_generate(&random, 0, 0, (int64_t)first, 1, GX_F64, x, (int64_t)first);
    for (size_t at = first; at < count; at += first) {
        memcpy(x + at, x, (count - at < first ? count - at : first) * sizeof(double));
    }
}

/* Seconds of one product with blocks of so many rows and columns; 0: it failed. */
static double time_xt(bench *b, const xt *x, int edge, const char *kind, double *const array[3])
{
    const double one = 1, zero = 0;
    size_t n = (size_t)b->n, small = n < 256 ? n : 256;
    x->set_block(x->handle, edge);
    x->gemm(x->handle, 0, 0, small, small, small, &one, array[0], n, array[1], n, &zero, array[2],
            n); // loads its code
    double start = now();
    int status =
        x->gemm(x->handle, 0, 0, n, n, n, &one, array[0], n, array[1], n, &zero, array[2], n);
    double seconds = now() - start, sum = 0;
    for (size_t k = 0; k < n; k++) {
        sum += array[0][n - 1 + k * n] * array[1][k + (n / 2) * n];
    }
    b->is_wrong |= status == 0 && fabs(sum - array[2][n - 1 + (n / 2) * n]) > 1e-9 * (double)n;
    printf("{\"what\": \"cublasXtDgemm, %s\", \"n\": %lld, \"block\": %d, "
           "\"seconds\": %.4f, \"status\": %d}\n",
           kind, (long long)b->n, edge, seconds, status);
    fflush(stdout);
    return status == 0 ? seconds : 0;
}

static void print_beside_xt(const char *what, double seconds, const char *kind, double xt_s)
{
    if (seconds > 0) {
        printf("{\"what\": \"%s / cublasXtDgemm, %s\", \"seconds\": %.4f, "
               "\"cublasXt_seconds\": %.4f, \"ratio\": %.3f}\n",
               what, kind, seconds, xt_s, seconds / xt_s);
    }
}

/* An array of ordinary memory, or page-locked; NULL: there is none. */
static void *take_array(bench *b, bool is_pinned, size_t bytes)
{
    const gx_accel *accel = accel_of(b);
    gx_err err = {0};
    void *array = NULL;
    if (!is_pinned) {
        return malloc(bytes);
    }
    return accel->backend->pin(accel->dev, bytes, &array, &err) == GX_OK ? array : NULL;
}

static void give_array(bench *b, bool is_pinned, void *array)
{
    if (!is_pinned) {
        free(array);
    } else if (array != NULL) {
        accel_of(b)->backend->unpin(accel_of(b)->dev, array);
    }
}

static void compare_xt(bench *b, bool is_pinned)
{
    xt x = {0};
    const char *kind = is_pinned ? "pinned" : "pageable";
    size_t count = (size_t)b->n * (size_t)b->n;
    double *array[3] = {NULL, NULL, NULL}, best = 0;
    for (gx_accel *accel = accel_of(b); accel != NULL; accel = accel->next) {
        gx_pool_trim(accel->pool); // it wants device memory of its own
    }
    const char *missing = open_xt(b, &x);
    for (int k = 0; k < 3 && missing == NULL; k++) {
        array[k] = take_array(b, is_pinned, count * sizeof(double));
        if (array[k] == NULL) {
            missing = "no host memory for three arrays";
        } else {
            fill_array(array[k], count, k + 1);
        }
    }
    for (int edge = 4096; edge <= 8192 && missing == NULL; edge *= 2) {
        double seconds = time_xt(b, &x, edge, kind, array);
        best = best == 0 || (seconds > 0 && seconds < best) ? seconds : best;
    }
    if (missing != NULL || best == 0) {
        printf("{\"what\": \"cublasXtDgemm, %s\", \"skipped\": \"%s\"}\n", kind,
               missing != NULL ? missing : "it failed");
    } else {
        print_beside_xt("product, stored", b->stored_s, kind, best);
        print_beside_xt("product, result dropped", b->dropped_s, kind, best);
    }
    for (int k = 0; k < 3; k++) {
        give_array(b, is_pinned, array[k]);
    }
    if (x.handle != NULL) {
        x.destroy(x.handle);
    }
}

#endif
