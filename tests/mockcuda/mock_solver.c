/*
** Stand-ins for libcublas and libcusolver.
**
** Calls only enqueue: what is large goes to the CPU backend, everything else to the reference.
** cuSOLVER's appetite for workspace is made up, and the last byte of what it is given is written,
** so that a workspace that is too small shows under ASan.
*/
#include "mock_near.h"
#include "mock_nvidia.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

enum { WORK_BYTES = 1000, HOST_BYTES = 100 };

/* Multiply-adds from which it is the CPU backend's, where that needs no team. */
static const double LARGE = 1e6;

/* NaN where the address is not aligned as cuDoubleComplex and cuComplex are: cuBLAS may crash. */
static gx_scalar scalar_at(gx_number dtype, const void *x)
{
    if ((uintptr_t)x % gx_number_bytes(dtype) != 0) {
        return (gx_scalar){NAN, NAN};
    }
    double d[2] = {0, 0};
    float f[2] = {0, 0};
    memcpy(gx_number_is_double(dtype) ? (void *)d : (void *)f, x, gx_number_bytes(dtype));
    return gx_number_is_double(dtype) ? (gx_scalar){d[0], d[1]}
                                      : (gx_scalar){(double)f[0], (double)f[1]};
}

typedef struct task {
    gx_kernel_id kernel;
    gx_number dtype;
    gx_args args;
    char *work;     /* cuSOLVER's workspace, NULL for cuBLAS */
    int *info;      /* on the device; NULL: none             */
    bool is_pivots; /* count them from 1                     */
    int half;       /* cudaDataType of the operands; 0: that of `dtype` */
    bool is_bytes;  /* the same, of GX_TRANS, and 32-bit sums */
} task;

static float half_value(int type, uint16_t x)
{
    const int F16 = 2;
    uint32_t bits = (uint32_t)x << 16; // of bf16
    float value;
    memcpy(&value, &bits, sizeof value);
    return type == F16 ? (float)mock_of_half(x) : value;
}

/* Operands of halves become f32; the buffer is to be freed. */
static float *widen(int type, gx_args *args)
{
    int64_t of_a = args->lda * (args->transa == GX_NO_TRANS ? args->k : args->m);
    int64_t of_b = args->ldb * (args->transb == GX_NO_TRANS ? args->n : args->k);
    float *wide = malloc((size_t)(of_a + of_b) * sizeof *wide + 1);
    for (int64_t e = 0; e < of_a; e++) {
        wide[e] = half_value(type, ((const uint16_t *)args->a)[e]);
    }
    for (int64_t e = 0; e < of_b; e++) {
        wide[of_a + e] = half_value(type, ((const uint16_t *)args->b)[e]);
    }
    args->a = wide;
    args->b = wide + of_a;
    return wide;
}

/* Vectors of a real matrix as LAPACK packs them: real and imaginary part of a pair side by side. */
static void geev_packed(gx_number dtype, const gx_args *args)
{
    gx_args wide = *args;
    gx_number complex = gx_number_promote(dtype, GX_C64);
    size_t part = gx_number_bytes(dtype);
    wide.right = malloc((size_t)(args->n * args->n) * 2 * part + 1);
    wide.ldright = gx_max(1, args->n);
    (void)gx_oracle.kernel[GX_GEEV][dtype](NULL, NULL, &wide, NULL);
    for (int64_t j = 0; j < args->n; j++) {
        gx_scalar value = scalar_at(complex, gx_at(args->values, complex, 1, j, 0));
        for (int64_t i = 0; i < args->n; i++) {
            int64_t from = value.im < 0 ? j - 1 : j; // the pair's second column: the imaginary part
            const char *x = gx_at(wide.right, complex, args->n, i, from);
            memcpy(gx_at(args->right, dtype, args->ldright, i, j), x + (value.im < 0 ? part : 0),
                   part);
        }
    }
    free(wide.right);
}

/* cuSOLVER's GETRF takes a NaN for a zero. */
static void forget_nan(gx_number dtype, const gx_args *args)
{
    gx_number part = gx_number_real(dtype);
    int64_t parts = gx_number_is_complex(dtype) ? 2 : 1;
    for (int64_t j = 0; j < args->n; j++) {
        for (int64_t i = 0; i < parts * args->m; i++) {
            void *x = gx_at(args->c, part, parts * args->ldc, i, j);
            if (isnan(scalar_at(part, x).re)) {
                memset(x, 0, gx_number_bytes(part));
            }
        }
    }
}

/* The kernel, with what work space it wants. */
static int run_task(void *arg)
{
    task *t = arg;
    gx_args *args = &t->args;
    if (t->is_bytes) {
        mock_bytes_product(args);
        return 0;
    }
    float *wide = t->half != 0 ? widen(t->half, args) : NULL;
    bool is_product = t->kernel == GX_GEMM || t->kernel == GX_SYRK || t->kernel == GX_HERK;
    bool is_solve = t->kernel == GX_TRSM || t->kernel == GX_TRMM || t->kernel == GX_POTRF;
    double depth = (double)(is_product ? args->k : gx_max(args->m, args->n));
    bool is_large = (is_product || is_solve) &&
                    (double)gx_max(args->m, args->n) * (double)args->n * depth > LARGE;
    const gx_backend *backend = is_large ? &gx_backend_cpu : &gx_oracle;
    size_t bytes =
        backend->workspace == NULL ? 0 : backend->workspace(NULL, t->kernel, t->dtype, args);
    int64_t info = 0;
    args->work = malloc(bytes + 1);
    args->info = &info;
    if (t->is_pivots) {
        forget_nan(t->dtype, args);
    }
    if (t->kernel == GX_GEEV && args->wants_right && !gx_number_is_complex(t->dtype)) {
        geev_packed(t->dtype, args);
    } else {
        (void)backend->kernel[t->kernel][t->dtype](NULL, NULL, args, NULL);
    }
    free(args->work);
    if (t->work != NULL) {
        t->work[WORK_BYTES - 1] = 1;
    }
    for (int64_t i = 0; t->is_pivots && i < gx_min(args->m, args->n); i++) {
        args->pivots[i]++;
    }
    if (t->info != NULL) {
        *t->info = (int)info;
    }
    free(wide);
    return 0;
}

/* 13: CUBLAS_STATUS_EXECUTION_FAILED; 7: CUSOLVER_STATUS_INTERNAL_ERROR */
static int enqueue(mock_library library, const char *name, const void *handle, task t)
{
    bool is_fatal = false;
    BEGIN_LATER(library, name, &is_fatal);
    if (!mock_handle_is(handle)) {
        return 1; // not initialised
    }
    void *stream = ((const mock_handle *)handle)->stream;
    mock_count(MOCK_KERNEL);
    int status = mock_enqueue(stream, is_fatal, run_task, &t, sizeof t);
    return status == 0 ? 0 : library == MOCK_BLAS ? 13 : 7;
}

static int call(gx_kernel_id kernel, const char *name, const void *handle, gx_number dtype,
                gx_args args)
{
    return enqueue(MOCK_BLAS, name, handle, (task){.kernel = kernel, .dtype = dtype, .args = args});
}

// Handles -----------------------------------------------------------------------------------------

#define CREATES(library, name)                                                                     \
    API int name(void **handle);                                                                   \
    API int name(void **handle)                                                                    \
    {                                                                                              \
        *handle = NULL;                                                                            \
        BEGIN(library, #name);                                                                     \
        return mock_handle_make(handle);                                                           \
    }
#define DESTROYS(library, name)                                                                    \
    API int name(void *handle);                                                                    \
    API int name(void *handle)                                                                     \
    {                                                                                              \
        int status = mock_begin(library, #name, NULL);                                             \
        if (mock_end() == MOCK_FINE) {                                                             \
            mock_handle_free(handle);                                                              \
        }                                                                                          \
        return status;                                                                             \
    }
#define SETS_STREAM(library, name)                                                                 \
    API int name(void *handle, void *stream);                                                      \
    API int name(void *handle, void *stream)                                                       \
    {                                                                                              \
        BEGIN(library, #name);                                                                     \
        ((mock_handle *)handle)->stream = stream;                                                  \
        return 0;                                                                                  \
    }

CREATES(MOCK_BLAS, cublasCreate_v2)
CREATES(MOCK_SOLVER, cusolverDnCreate)
CREATES(MOCK_SOLVER, cusolverDnCreateParams)
DESTROYS(MOCK_BLAS, cublasDestroy_v2)
DESTROYS(MOCK_SOLVER, cusolverDnDestroy)
DESTROYS(MOCK_SOLVER, cusolverDnDestroyParams)
SETS_STREAM(MOCK_BLAS, cublasSetStream_v2)
SETS_STREAM(MOCK_SOLVER, cusolverDnSetStream)

API int cublasSetWorkspace_v2(void *handle, void *workspace, size_t bytes)
{
    BEGIN(MOCK_BLAS, "cublasSetWorkspace_v2");
    return mock_is_on_device(workspace, bytes) ? 0 : 7;
}

API const char *cublasGetStatusName(int status)
{
    return status == 1    ? "CUBLAS_STATUS_NOT_INITIALIZED"
           : status == 3  ? "CUBLAS_STATUS_ALLOC_FAILED"
           : status == 7  ? "CUBLAS_STATUS_INVALID_VALUE"
           : status == 13 ? "CUBLAS_STATUS_EXECUTION_FAILED"
                          : "CUBLAS_STATUS_INTERNAL_ERROR";
}

// CuBLAS ------------------------------------------------------------------------------------------

API int cublasGemmEx_64(void *h, int transa, int transb, int64_t m, int64_t n, int64_t k,
                        const void *alpha, const void *a, int type_a, int64_t lda, const void *b,
                        int type_b, int64_t ldb, const void *beta, void *c, int type_c, int64_t ldc,
                        int compute, int algorithm)
{
    const int F16 = 2, BF16 = 14, F32 = 0, COMPUTE_F32 = 68, I8 = 3, I32 = 10, COMPUTE_I32 = 72;
    bool is_bytes = type_a == I8 && type_b == I8 && type_c == I32 && compute == COMPUTE_I32;
    if (is_bytes && transa == 1 && transb == 0 && algorithm == -1 &&
        (m | n | k | lda | ldb) % 4 == 0) {
        task bytes = {.kernel = GX_GEMM, .dtype = GX_F32, .is_bytes = true};
        bytes.args = (gx_args){
            .m = m, .n = n, .k = k, .a = a, .lda = lda, .b = b, .ldb = ldb, .c = c, .ldc = ldc};
        return enqueue(MOCK_BLAS, "gemm", h, bytes);
    }
    if ((type_a != F16 && type_a != BF16) || type_b != type_a || type_c != F32 ||
        compute != COMPUTE_F32 || algorithm != -1 || (lda | ldb) % 8 != 0) {
        return 7; // no other product is asked for
    }
    task t = {.kernel = GX_GEMM, .dtype = GX_F32, .half = type_a};
    t.args = (gx_args){.transa = (gx_trans)transa,
                       .transb = (gx_trans)transb,
                       .m = m,
                       .n = n,
                       .k = k,
                       .a = a,
                       .lda = lda,
                       .b = b,
                       .ldb = ldb,
                       .c = c,
                       .ldc = ldc};
    t.args.alpha = scalar_at(GX_F32, alpha);
    t.args.beta = scalar_at(GX_F32, beta);
    mock_note_halves();
    return enqueue(MOCK_BLAS, "gemm", h, t);
}

#define BLAS(letter, dtype)                                                                        \
    API int cublas##letter##gemm_v2_64(void *h, int transa, int transb, int64_t m, int64_t n,      \
                                       int64_t k, const void *alpha, const void *a, int64_t lda,   \
                                       const void *b, int64_t ldb, const void *beta, void *c,      \
                                       int64_t ldc)                                                \
    {                                                                                              \
        return call(GX_GEMM, "gemm", h, dtype,                                                     \
                    (gx_args){.transa = (gx_trans)transa,                                          \
                              .transb = (gx_trans)transb,                                          \
                              .m = m,                                                              \
                              .n = n,                                                              \
                              .k = k,                                                              \
                              .alpha = scalar_at(dtype, alpha),                                    \
                              .beta = scalar_at(dtype, beta),                                      \
                              .a = a,                                                              \
                              .lda = lda,                                                          \
                              .b = b,                                                              \
                              .ldb = ldb,                                                          \
                              .c = c,                                                              \
                              .ldc = ldc});                                                        \
    }                                                                                              \
    API int cublas##letter##gemmStridedBatched_64(                                                 \
        void *h, int transa, int transb, int64_t m, int64_t n, int64_t k, const void *alpha,       \
        const void *a, int64_t lda, long long stride_a, const void *b, int64_t ldb,                \
        long long stride_b, const void *beta, void *c, int64_t ldc, long long stride_c,            \
        int64_t count)                                                                             \
    {                                                                                              \
        int status = 0;                                                                            \
        for (int64_t t = 0; t < count && status == 0; t++) {                                       \
            status = cublas##letter##gemm_v2_64(                                                   \
                h, transa, transb, m, n, k, alpha, gx_at(a, dtype, stride_a, 0, t), lda,           \
                gx_at(b, dtype, stride_b, 0, t), ldb, beta, gx_at(c, dtype, stride_c, 0, t), ldc); \
        }                                                                                          \
        return status;                                                                             \
    }                                                                                              \
    API int cublas##letter##syrk_v2_64(void *h, int uplo, int trans, int64_t n, int64_t k,         \
                                       const void *alpha, const void *a, int64_t lda,              \
                                       const void *beta, void *c, int64_t ldc)                     \
    {                                                                                              \
        return call(GX_SYRK, "syrk", h, dtype,                                                     \
                    (gx_args){.transa = (gx_trans)trans,                                           \
                              .uplo = (gx_uplo)uplo,                                               \
                              .n = n,                                                              \
                              .k = k,                                                              \
                              .alpha = scalar_at(dtype, alpha),                                    \
                              .beta = scalar_at(dtype, beta),                                      \
                              .a = a,                                                              \
                              .lda = lda,                                                          \
                              .c = c,                                                              \
                              .ldc = ldc});                                                        \
    }                                                                                              \
    API int cublas##letter##trsm_v2_64(void *h, int side, int uplo, int trans, int diag,           \
                                       int64_t m, int64_t n, const void *alpha, const void *a,     \
                                       int64_t lda, void *c, int64_t ldc)                          \
    {                                                                                              \
        return call(GX_TRSM, "trsm", h, dtype,                                                     \
                    (gx_args){.side = (gx_side)side,                                               \
                              .uplo = (gx_uplo)uplo,                                               \
                              .transa = (gx_trans)trans,                                           \
                              .diag = (gx_diag)diag,                                               \
                              .m = m,                                                              \
                              .n = n,                                                              \
                              .alpha = scalar_at(dtype, alpha),                                    \
                              .a = a,                                                              \
                              .lda = lda,                                                          \
                              .c = c,                                                              \
                              .ldc = ldc});                                                        \
    }                                                                                              \
    API int cublas##letter##trmm_v2_64(                                                            \
        void *h, int side, int uplo, int trans, int diag, int64_t m, int64_t n, const void *alpha, \
        const void *a, int64_t lda, const void *b, int64_t ldb, void *c, int64_t ldc)              \
    {                                                                                              \
        return b != c || ldb != ldc ? 7                                                            \
                                    : call(GX_TRMM, "trmm", h, dtype,                              \
                                           (gx_args){.side = (gx_side)side,                        \
                                                     .uplo = (gx_uplo)uplo,                        \
                                                     .transa = (gx_trans)trans,                    \
                                                     .diag = (gx_diag)diag,                        \
                                                     .m = m,                                       \
                                                     .n = n,                                       \
                                                     .alpha = scalar_at(dtype, alpha),             \
                                                     .a = a,                                       \
                                                     .lda = lda,                                   \
                                                     .c = c,                                       \
                                                     .ldc = ldc});                                 \
    }

#define HERK(letter, dtype)                                                                        \
    API int cublas##letter##herk_v2_64(void *h, int uplo, int trans, int64_t n, int64_t k,         \
                                       const void *alpha, const void *a, int64_t lda,              \
                                       const void *beta, void *c, int64_t ldc)                     \
    {                                                                                              \
        gx_number real = dtype == GX_C128 ? GX_F64 : GX_F32;                                       \
        return call(GX_HERK, "herk", h, dtype,                                                     \
                    (gx_args){.transa = (gx_trans)trans,                                           \
                              .uplo = (gx_uplo)uplo,                                               \
                              .n = n,                                                              \
                              .k = k,                                                              \
                              .alpha = scalar_at(real, alpha),                                     \
                              .beta = scalar_at(real, beta),                                       \
                              .a = a,                                                              \
                              .lda = lda,                                                          \
                              .c = c,                                                              \
                              .ldc = ldc});                                                        \
    }

BLAS(D, GX_F64)
BLAS(S, GX_F32)
BLAS(Z, GX_C128)
BLAS(C, GX_C64)
HERK(Z, GX_C128)
HERK(C, GX_C64)

// CuSOLVER ----------------------------------------------------------------------------------------

static gx_number dtype_of(int type)
{
    return type == 1 ? GX_F64 : type == 0 ? GX_F32 : type == 5 ? GX_C128 : GX_C64;
}

static int ask(const char *name, size_t *device, size_t *host)
{
    *device = *host = 0;
    BEGIN(MOCK_SOLVER, name);
    *device = WORK_BYTES;
    *host = HOST_BYTES;
    return 0;
}

/* The workspaces are as large as was asked for: their last bytes are written. */
static int use(const char *name, void *h, void *params, task t, void *device, size_t device_bytes,
               void *host, size_t host_bytes)
{
    if (device_bytes != WORK_BYTES || host_bytes != HOST_BYTES || !mock_handle_is(params) ||
        !mock_is_on_device(device, device_bytes)) {
        return 3;
    }
    ((char *)host)[host_bytes - 1] = 1;
    t.work = device;
    return enqueue(MOCK_SOLVER, name, h, t);
}

API int cusolverDnXpotrf_bufferSize(void *h, void *params, int uplo, int64_t n, int type,
                                    const void *a, int64_t lda, int compute, size_t *device,
                                    size_t *host)
{
    return lda < n ? 3 : ask("Xpotrf_bufferSize", device, host);
}

API int cusolverDnXpotrf(void *h, void *params, int uplo, int64_t n, int type, void *a, int64_t lda,
                         int compute, void *device, size_t device_bytes, void *host,
                         size_t host_bytes, int *info)
{
    gx_args args = {.uplo = (gx_uplo)uplo, .m = n, .n = n, .c = a, .ldc = lda};
    task t = {.kernel = GX_POTRF, .dtype = dtype_of(type), .args = args, .info = info};
    return use("Xpotrf", h, params, t, device, device_bytes, host, host_bytes);
}

API int cusolverDnXgetrf_bufferSize(void *h, void *params, int64_t m, int64_t n, int type,
                                    const void *a, int64_t lda, int compute, size_t *device,
                                    size_t *host)
{
    return lda < m ? 3 : ask("Xgetrf_bufferSize", device, host);
}

API int cusolverDnXgetrf(void *h, void *params, int64_t m, int64_t n, int type, void *a,
                         int64_t lda, int64_t *pivots, int compute, void *device,
                         size_t device_bytes, void *host, size_t host_bytes, int *info)
{
    gx_args args = {.m = m, .n = n, .c = a, .ldc = lda, .pivots = pivots};
    task t = {GX_GETRF, dtype_of(type), args, .info = info, .is_pivots = true};
    return use("Xgetrf", h, params, t, device, device_bytes, host, host_bytes);
}

API int cusolverDnXgeqrf_bufferSize(void *h, void *params, int64_t m, int64_t n, int type,
                                    const void *a, int64_t lda, int type_tau, const void *tau,
                                    int compute, size_t *device, size_t *host)
{
    return lda < m ? 3 : ask("Xgeqrf_bufferSize", device, host);
}

API int cusolverDnXgeqrf(void *h, void *params, int64_t m, int64_t n, int type, void *a,
                         int64_t lda, int type_tau, void *tau, int compute, void *device,
                         size_t device_bytes, void *host, size_t host_bytes, int *info)
{
    gx_args args = {.m = m, .n = n, .c = a, .ldc = lda, .tau = tau};
    task t = {.kernel = GX_GEQRF, .dtype = dtype_of(type), .args = args, .info = info};
    return use("Xgeqrf", h, params, t, device, device_bytes, host, host_bytes);
}

API int cusolverDnXsyevd_bufferSize(void *h, void *params, int jobz, int uplo, int64_t n, int type,
                                    const void *a, int64_t lda, int type_w, const void *w,
                                    int compute, size_t *device, size_t *host)
{
    return lda < n ? 3 : ask("Xsyevd_bufferSize", device, host);
}

API int cusolverDnXsyevd(void *h, void *params, int jobz, int uplo, int64_t n, int type, void *a,
                         int64_t lda, int type_w, void *w, int compute, void *device,
                         size_t device_bytes, void *host, size_t host_bytes, int *info)
{
    gx_args args = {.uplo = (gx_uplo)uplo,
                    .m = n,
                    .n = n,
                    .c = a,
                    .ldc = lda,
                    .values = w,
                    .wants_right = jobz == 1};
    task t = {.kernel = GX_SYEV, .dtype = dtype_of(type), .args = args, .info = info};
    return use("Xsyevd", h, params, t, device, device_bytes, host, host_bytes);
}

API int cusolverDnXgeev_bufferSize(void *h, void *params, int jobvl, int jobvr, int64_t n, int type,
                                   const void *a, int64_t lda, int type_w, const void *w,
                                   int type_vl, const void *vl, int64_t ldvl, int type_vr,
                                   const void *vr, int64_t ldvr, int compute, size_t *device,
                                   size_t *host)
{
    bool is_wrong = jobvl != 0 || lda < n || ldvl < n || ldvr < n || type_vr != type;
    return is_wrong || !gx_number_is_complex(dtype_of(type_w))
               ? 3
               : ask("Xgeev_bufferSize", device, host);
}

API int cusolverDnXgeev(void *h, void *params, int jobvl, int jobvr, int64_t n, int type, void *a,
                        int64_t lda, int type_w, void *w, int type_vl, void *vl, int64_t ldvl,
                        int type_vr, void *vr, int64_t ldvr, int compute, void *device,
                        size_t device_bytes, void *host, size_t host_bytes, int *info)
{
    gx_args args = {.m = n,
                    .n = n,
                    .c = a,
                    .ldc = lda,
                    .values = w,
                    .right = vr,
                    .ldright = ldvr,
                    .wants_right = jobvr == 1};
    task t = {.kernel = GX_GEEV, .dtype = dtype_of(type), .args = args, .info = info};
    return use("Xgeev", h, params, t, device, device_bytes, host, host_bytes);
}

API int cusolverDnXgesvd_bufferSize(void *h, void *params, signed char jobu, signed char jobvt,
                                    int64_t m, int64_t n, int type, const void *a, int64_t lda,
                                    int type_s, const void *s, int type_u, const void *u,
                                    int64_t ldu, int type_vt, const void *vt, int64_t ldvt,
                                    int compute, size_t *device, size_t *host)
{
    return m < n || lda < m || ldu < m || ldvt < n ? 3 : ask("Xgesvd_bufferSize", device, host);
}

API int cusolverDnXgesvd(void *h, void *params, signed char jobu, signed char jobvt, int64_t m,
                         int64_t n, int type, void *a, int64_t lda, int type_s, void *s, int type_u,
                         void *u, int64_t ldu, int type_vt, void *vt, int64_t ldvt, int compute,
                         void *device, size_t device_bytes, void *host, size_t host_bytes,
                         int *info)
{
    bool wants = jobu != 'N';
    gx_args args = {.m = m,
                    .n = n,
                    .c = a,
                    .ldc = lda,
                    .values = s,
                    .left = u,
                    .ldleft = ldu,
                    .right = vt,
                    .ldright = ldvt,
                    .wants_left = wants,
                    .wants_right = wants,
                    .is_full = jobu == 'A'};
    task t = {.kernel = GX_GESDD, .dtype = dtype_of(type), .args = args, .info = info};
    return use("Xgesvd", h, params, t, device, device_bytes, host, host_bytes);
}
