/*
** Stand-ins for libcublas and libcusolver: the other half of mock_nvidia.c, which says how.
*/
#include "backend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wunused-parameter"

enum { WORK_BYTES = 1000, HOST_BYTES = 100 };

/* NaN where the address is not aligned as cuDoubleComplex and cuComplex are: cuBLAS may crash. */
static gx_scalar scalar_at(gx_dtype dtype, const void *x)
{
    if ((uintptr_t)x % gx_dtype_bytes(dtype) != 0) {
        return (gx_scalar){NAN, NAN};
    }
    double d[2] = {0, 0};
    float f[2] = {0, 0};
    memcpy(gx_dtype_is_double(dtype) ? (void *)d : (void *)f, x, gx_dtype_bytes(dtype));
    return gx_dtype_is_double(dtype) ? (gx_scalar){d[0], d[1]}
                                     : (gx_scalar){(double)f[0], (double)f[1]};
}

/* The reference's kernel, with what work space it wants. */
static int call(gx_kernel_id kernel, gx_dtype dtype, gx_args args)
{
    size_t bytes = gx_backend_ref.workspace(NULL, kernel, dtype, &args);
    void *work = malloc(bytes + 1);
    args.work = work;
    gx_code code = gx_backend_ref.kernel[kernel][dtype](NULL, NULL, &args, NULL);
    free(work);
    return code == GX_OK ? 0 : 13;
}

/* ---- cuBLAS --------------------------------------------------------------------------------- */

#define BLAS(letter, dtype)                                                                        \
    API int cublas##letter##gemm_v2_64(void *h, int transa, int transb, int64_t m, int64_t n,      \
                                       int64_t k, const void *alpha, const void *a, int64_t lda,   \
                                       const void *b, int64_t ldb, const void *beta, void *c,      \
                                       int64_t ldc)                                                \
    {                                                                                              \
        return call(GX_GEMM, dtype,                                                                \
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
    API int cublas##letter##syrk_v2_64(void *h, int uplo, int trans, int64_t n, int64_t k,         \
                                       const void *alpha, const void *a, int64_t lda,              \
                                       const void *beta, void *c, int64_t ldc)                     \
    {                                                                                              \
        return call(GX_SYRK, dtype,                                                                \
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
        return call(GX_TRSM, dtype,                                                                \
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
                                    : call(GX_TRMM, dtype,                                         \
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
        gx_dtype real = dtype == GX_C128 ? GX_F64 : GX_F32;                                        \
        return call(GX_HERK, dtype,                                                                \
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

/* ---- cuSOLVER ------------------------------------------------------------------------------- */

static gx_dtype dtype_of(int type)
{
    return type == 1 ? GX_F64 : type == 0 ? GX_F32 : type == 5 ? GX_C128 : GX_C64;
}

static int ask(size_t *device, size_t *host)
{
    *device = WORK_BYTES;
    *host = HOST_BYTES;
    return 0;
}

/* The workspaces are as large as was asked for: their last bytes are written. */
static int use(void *device, size_t device_bytes, void *host, size_t host_bytes)
{
    if (device_bytes != WORK_BYTES || host_bytes != HOST_BYTES) {
        return 3;
    }
    ((char *)device)[device_bytes - 1] = 1;
    ((char *)host)[host_bytes - 1] = 1;
    return 0;
}

API int cusolverDnXpotrf_bufferSize(void *h, void *params, int uplo, int64_t n, int type,
                                    const void *a, int64_t lda, int compute, size_t *device,
                                    size_t *host)
{
    return lda < n ? 3 : ask(device, host);
}

API int cusolverDnXpotrf(void *h, void *params, int uplo, int64_t n, int type, void *a, int64_t lda,
                         int compute, void *device, size_t device_bytes, void *host,
                         size_t host_bytes, int *info)
{
    int64_t wide = 0;
    gx_args args = {.uplo = (gx_uplo)uplo, .m = n, .n = n, .c = a, .ldc = lda, .info = &wide};
    int status = use(device, device_bytes, host, host_bytes);
    status = status == 0 ? call(GX_POTRF, dtype_of(type), args) : status;
    *info = (int)wide;
    return status;
}

API int cusolverDnXgetrf_bufferSize(void *h, void *params, int64_t m, int64_t n, int type,
                                    const void *a, int64_t lda, int compute, size_t *device,
                                    size_t *host)
{
    return lda < m ? 3 : ask(device, host);
}

API int cusolverDnXgetrf(void *h, void *params, int64_t m, int64_t n, int type, void *a,
                         int64_t lda, int64_t *pivots, int compute, void *device,
                         size_t device_bytes, void *host, size_t host_bytes, int *info)
{
    int64_t wide = 0;
    gx_args args = {.m = m, .n = n, .c = a, .ldc = lda, .pivots = pivots, .info = &wide};
    int status = use(device, device_bytes, host, host_bytes);
    status = status == 0 ? call(GX_GETRF, dtype_of(type), args) : status;
    for (int64_t i = 0; i < gx_min(m, n); i++) {
        pivots[i]++;
    }
    *info = (int)wide;
    return status;
}

API int cusolverDnXgeqrf_bufferSize(void *h, void *params, int64_t m, int64_t n, int type,
                                    const void *a, int64_t lda, int type_tau, const void *tau,
                                    int compute, size_t *device, size_t *host)
{
    return lda < m ? 3 : ask(device, host);
}

API int cusolverDnXgeqrf(void *h, void *params, int64_t m, int64_t n, int type, void *a,
                         int64_t lda, int type_tau, void *tau, int compute, void *device,
                         size_t device_bytes, void *host, size_t host_bytes, int *info)
{
    gx_args args = {.m = m, .n = n, .c = a, .ldc = lda, .tau = tau};
    int status = use(device, device_bytes, host, host_bytes);
    *info = 0;
    return status == 0 ? call(GX_GEQRF, dtype_of(type), args) : status;
}

API int cusolverDnXsyevd_bufferSize(void *h, void *params, int jobz, int uplo, int64_t n, int type,
                                    const void *a, int64_t lda, int type_w, const void *w,
                                    int compute, size_t *device, size_t *host)
{
    return lda < n ? 3 : ask(device, host);
}

API int cusolverDnXsyevd(void *h, void *params, int jobz, int uplo, int64_t n, int type, void *a,
                         int64_t lda, int type_w, void *w, int compute, void *device,
                         size_t device_bytes, void *host, size_t host_bytes, int *info)
{
    int64_t wide = 0;
    gx_args args = {.uplo = (gx_uplo)uplo,
                    .m = n,
                    .n = n,
                    .c = a,
                    .ldc = lda,
                    .values = w,
                    .wants_right = jobz == 1,
                    .info = &wide};
    int status = use(device, device_bytes, host, host_bytes);
    status = status == 0 ? call(GX_SYEV, dtype_of(type), args) : status;
    *info = (int)wide;
    return status;
}

API int cusolverDnXgesvd_bufferSize(void *h, void *params, signed char jobu, signed char jobvt,
                                    int64_t m, int64_t n, int type, const void *a, int64_t lda,
                                    int type_s, const void *s, int type_u, const void *u,
                                    int64_t ldu, int type_vt, const void *vt, int64_t ldvt,
                                    int compute, size_t *device, size_t *host)
{
    return m < n || lda < m || ldu < m || ldvt < n ? 3 : ask(device, host);
}

API int cusolverDnXgesvd(void *h, void *params, signed char jobu, signed char jobvt, int64_t m,
                         int64_t n, int type, void *a, int64_t lda, int type_s, void *s, int type_u,
                         void *u, int64_t ldu, int type_vt, void *vt, int64_t ldvt, int compute,
                         void *device, size_t device_bytes, void *host, size_t host_bytes,
                         int *info)
{
    int64_t wide = 0;
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
                    .is_full = jobu == 'A',
                    .info = &wide};
    int status = use(device, device_bytes, host, host_bytes);
    status = status == 0 ? call(GX_GESDD, dtype_of(type), args) : status;
    *info = (int)wide;
    return status;
}
