/*
** NVIDIA's libraries as tables of functions, filled at run time.
**
** gx_cuda.so needs no NVIDIA library and no NVIDIA header: what it calls is declared here, with the
** numbers of CUDA's own enums, which are part of its binary interface.  The types are those of the
** 64-bit interfaces of CUDA 12.8 and newer.
*/
#ifndef GX_CUDA_API_H
#define GX_CUDA_API_H

#include "../core/base/err.h"
#include "../core/base/types.h"

/* cudaError_t, cublasStatus_t and cusolverStatus_t are ints; 0 is success in all three. */
enum {
    GX_CUDA_OUT_OF_MEMORY = 2, /* cudaErrorMemoryAllocation      */
    GX_CUDA_OLD_DRIVER = 35,   /* cudaErrorInsufficientDriver    */
    GX_CUDA_NO_DEVICE = 100,   /* cudaErrorNoDevice              */
    GX_CUDA_NO_IMAGE = 209,    /* cudaErrorNoKernelImageForDevice */
    GX_CUDA_BAD_PTX = 218,     /* cudaErrorInvalidPtx            */
    GX_CUDA_NEWER_PTX = 222,   /* cudaErrorUnsupportedPtxVersion */
    GX_CUDA_BAD_SOURCE = 300,  /* cudaErrorInvalidSource         */
    GX_CUDA_REACHED = 704,     /* cudaErrorPeerAccessAlreadyEnabled */
    GX_CUBLAS_NO_MEMORY = 3,   /* CUBLAS_STATUS_ALLOC_FAILED     */
    GX_CUSOLVER_NO_MEMORY = 2  /* CUSOLVER_STATUS_ALLOC_FAILED   */
};

enum {
    GX_CUDA_HOST_TO_DEVICE = 1, /* cudaMemcpyKind */
    GX_CUDA_DEVICE_TO_HOST = 2,
    GX_CUDA_DEVICE_TO_DEVICE = 3,
    GX_CUDA_NON_BLOCKING = 1, /* cudaStreamNonBlocking       */
    GX_CUDA_NO_TIMING = 2,    /* cudaEventDisableTiming      */
    GX_CUDA_RELAXED = 2,      /* cudaStreamCaptureModeRelaxed */
    GX_CUDA_PORTABLE = 1,     /* cudaHostAllocPortable     */
    GX_CUDA_ATTR_PITCH = 11,  /* cudaDevAttrMaxPitch         */
    GX_CUDA_ATTR_MULTIPROCESSORS = 16,
    GX_CUDA_ATTR_L2_BYTES = 38,
    GX_CUDA_ATTR_CC_MAJOR = 75,
    GX_CUDA_ATTR_CC_MINOR = 76
};

/* cudaDataType */
enum { GX_CUDA_R_32F = 0, GX_CUDA_R_64F = 1, GX_CUDA_C_32F = 4, GX_CUDA_C_64F = 5 };

typedef struct gx_cuda_dim {
    unsigned x, y, z; /* dim3 */
} gx_cuda_dim;

/* Handles; all of CUDA's are pointers. */
typedef void *gx_cuda_handle;

typedef int (*gx_cublas_gemm)(gx_cuda_handle, int transa, int transb, int64_t m, int64_t n,
                              int64_t k, const void *alpha, const void *a, int64_t lda,
                              const void *b, int64_t ldb, const void *beta, void *c, int64_t ldc);
typedef int (*gx_cublas_gemm_ex)(gx_cuda_handle, int transa, int transb, int64_t m, int64_t n,
                                 int64_t k, const void *alpha, const void *a, int type_a,
                                 int64_t lda, const void *b, int type_b, int64_t ldb,
                                 const void *beta, void *c, int type_c, int64_t ldc, int compute,
                                 int algorithm);
typedef int (*gx_cublas_batch)(gx_cuda_handle, int transa, int transb, int64_t m, int64_t n,
                               int64_t k, const void *alpha, const void *a, int64_t lda,
                               long long stride_a, const void *b, int64_t ldb, long long stride_b,
                               const void *beta, void *c, int64_t ldc, long long stride_c,
                               int64_t count);
typedef int (*gx_cublas_rank_k)(gx_cuda_handle, int uplo, int trans, int64_t n, int64_t k,
                                const void *alpha, const void *a, int64_t lda, const void *beta,
                                void *c, int64_t ldc);
typedef int (*gx_cublas_trsm)(gx_cuda_handle, int side, int uplo, int trans, int diag, int64_t m,
                              int64_t n, const void *alpha, const void *a, int64_t lda, void *c,
                              int64_t ldc);
typedef int (*gx_cublas_trmm)(gx_cuda_handle, int side, int uplo, int trans, int diag, int64_t m,
                              int64_t n, const void *alpha, const void *a, int64_t lda,
                              const void *b, int64_t ldb, void *c, int64_t ldc);

/* NVRTC, which compiles while gx runs; create NULL: it is not there. */
typedef struct gx_nvrtc {
    int (*create)(gx_cuda_handle *program, const char *source, const char *name, int headers,
                  const char *const *sources, const char *const *names);
    int (*compile)(gx_cuda_handle program, int options, const char *const *option);
    int (*cubin_bytes)(gx_cuda_handle program, size_t *bytes);
    int (*cubin)(gx_cuda_handle program, char *cubin);
    int (*destroy)(gx_cuda_handle *program);
} gx_nvrtc;

typedef struct gx_cuda_api {
    char cuda_path[512]; /* the folder that was looked in first */
    const char *nvrtc;   /* the toolkit's name of that library  */

    /* libcudart */
    int (*count)(int *count);
    int (*set_device)(int device);
    int (*attribute)(int *value, int attribute, int device);
    int (*properties)(void *properties, int device); /* begins with char name[256] */
    int (*bus_id)(char *text, int bytes, int device);
    int (*driver_version)(int *version);
    int (*runtime_version)(int *version);
    int (*memory)(size_t *free_bytes, size_t *total_bytes);
    int (*malloc)(void **ptr, size_t bytes);
    int (*free)(void *ptr);
    int (*host_alloc)(void **ptr, size_t bytes, unsigned flags);
    int (*free_host)(void *ptr);
    int (*stream_create)(gx_cuda_handle *stream, unsigned flags);
    int (*stream_destroy)(gx_cuda_handle stream);
    int (*stream_wait)(gx_cuda_handle stream); /* cudaStreamSynchronize */
    int (*stream_after)(gx_cuda_handle stream, gx_cuda_handle event, unsigned flags);
    int (*event_create)(gx_cuda_handle *event, unsigned flags);
    int (*event_destroy)(gx_cuda_handle event);
    int (*event_record)(gx_cuda_handle event, gx_cuda_handle stream);
    int (*event_wait)(gx_cuda_handle event); /* cudaEventSynchronize */
    int (*capture_begin)(gx_cuda_handle stream, int mode); /* graphs: NULL where there are none */
    int (*capture_end)(gx_cuda_handle stream, gx_cuda_handle *graph);
    int (*graph_make)(gx_cuda_handle *made, gx_cuda_handle graph, unsigned long long flags);
    int (*graph_launch)(gx_cuda_handle made, gx_cuda_handle stream);
    int (*graph_destroy)(gx_cuda_handle graph);
    int (*graph_unmake)(gx_cuda_handle made);
    int (*copy)(void *dst, const void *src, size_t bytes, int kind, gx_cuda_handle stream);
    int (*copy_2d)(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
                   size_t height, int kind, gx_cuda_handle stream);
    int (*copy_peer)(void *dst, int dst_device, const void *src, int src_device, size_t bytes,
                     gx_cuda_handle stream);
    int (*can_reach)(int *can, int device, int other); /* cudaDeviceCanAccessPeer */
    int (*reach)(int other, unsigned flags);           /* cudaDeviceEnablePeerAccess */
    int (*launch)(const void *kernel, gx_cuda_dim grid, gx_cuda_dim block, void **args,
                  size_t shared_bytes, gx_cuda_handle stream);
    int (*function_set)(const void *kernel, int attribute, int value); /* cudaFuncSetAttribute */
    int (*library_load)(gx_cuda_handle *library, const void *image, int *options, void **values,
                        unsigned count, int *library_options, void **library_values,
                        unsigned library_count);
    int (*library_unload)(gx_cuda_handle library);
    int (*library_kernel)(gx_cuda_handle *kernel, gx_cuda_handle library, const char *name);
    int (*last_error)(void); /* and clears it */
    const char *(*error_name)(int status);
    const char *(*error_text)(int status);

    /* libcublas */
    int (*blas_create)(gx_cuda_handle *handle);
    int (*blas_destroy)(gx_cuda_handle handle);
    int (*blas_stream)(gx_cuda_handle handle, gx_cuda_handle stream);
    int (*blas_workspace)(gx_cuda_handle handle, void *workspace, size_t bytes);
    const char *(*blas_name)(int status);
    gx_cublas_gemm gemm[GX_NUMBER_COUNT];
    gx_cublas_gemm_ex gemm_ex;
    gx_cublas_batch batch[GX_NUMBER_COUNT]; /* gemmStridedBatched */
    gx_cublas_rank_k syrk[GX_NUMBER_COUNT], herk[GX_NUMBER_COUNT]; /* herk of reals: NULL */
    gx_cublas_trsm trsm[GX_NUMBER_COUNT];
    gx_cublas_trmm trmm[GX_NUMBER_COUNT];

    /* libcusolver */
    int (*solver_create)(gx_cuda_handle *handle);
    int (*solver_destroy)(gx_cuda_handle handle);
    int (*solver_stream)(gx_cuda_handle handle, gx_cuda_handle stream);
    int (*params_create)(gx_cuda_handle *params);
    int (*params_destroy)(gx_cuda_handle params);
    int (*potrf_bytes)(gx_cuda_handle, gx_cuda_handle params, int uplo, int64_t n, int type_a,
                       const void *a, int64_t lda, int compute, size_t *device, size_t *host);
    int (*potrf)(gx_cuda_handle, gx_cuda_handle params, int uplo, int64_t n, int type_a, void *a,
                 int64_t lda, int compute, void *device, size_t device_bytes, void *host,
                 size_t host_bytes, int *info);
    int (*getrf_bytes)(gx_cuda_handle, gx_cuda_handle params, int64_t m, int64_t n, int type_a,
                       const void *a, int64_t lda, int compute, size_t *device, size_t *host);
    int (*getrf)(gx_cuda_handle, gx_cuda_handle params, int64_t m, int64_t n, int type_a, void *a,
                 int64_t lda, int64_t *pivots, int compute, void *device, size_t device_bytes,
                 void *host, size_t host_bytes, int *info);
    int (*geqrf_bytes)(gx_cuda_handle, gx_cuda_handle params, int64_t m, int64_t n, int type_a,
                       const void *a, int64_t lda, int type_tau, const void *tau, int compute,
                       size_t *device, size_t *host);
    int (*geqrf)(gx_cuda_handle, gx_cuda_handle params, int64_t m, int64_t n, int type_a, void *a,
                 int64_t lda, int type_tau, void *tau, int compute, void *device,
                 size_t device_bytes, void *host, size_t host_bytes, int *info);
    int (*syevd_bytes)(gx_cuda_handle, gx_cuda_handle params, int jobz, int uplo, int64_t n,
                       int type_a, const void *a, int64_t lda, int type_w, const void *w,
                       int compute, size_t *device, size_t *host);
    int (*syevd)(gx_cuda_handle, gx_cuda_handle params, int jobz, int uplo, int64_t n, int type_a,
                 void *a, int64_t lda, int type_w, void *w, int compute, void *device,
                 size_t device_bytes, void *host, size_t host_bytes, int *info);
    int (*gesvd_bytes)(gx_cuda_handle, gx_cuda_handle params, signed char jobu, signed char jobvt,
                       int64_t m, int64_t n, int type_a, const void *a, int64_t lda, int type_s,
                       const void *s, int type_u, const void *u, int64_t ldu, int type_vt,
                       const void *vt, int64_t ldvt, int compute, size_t *device, size_t *host);
    int (*gesvd)(gx_cuda_handle, gx_cuda_handle params, signed char jobu, signed char jobvt,
                 int64_t m, int64_t n, int type_a, void *a, int64_t lda, int type_s, void *s,
                 int type_u, void *u, int64_t ldu, int type_vt, void *vt, int64_t ldvt, int compute,
                 void *device, size_t device_bytes, void *host, size_t host_bytes, int *info);
    /* NULL before CUDA 12.6 */
    int (*geev_bytes)(gx_cuda_handle, gx_cuda_handle params, int jobvl, int jobvr, int64_t n,
                      int type_a, const void *a, int64_t lda, int type_w, const void *w,
                      int type_vl, const void *vl, int64_t ldvl, int type_vr, const void *vr,
                      int64_t ldvr, int compute, size_t *device, size_t *host);
    int (*geev)(gx_cuda_handle, gx_cuda_handle params, int jobvl, int jobvr, int64_t n, int type_a,
                void *a, int64_t lda, int type_w, void *w, int type_vl, void *vl, int64_t ldvl,
                int type_vr, void *vr, int64_t ldvr, int compute, void *device, size_t device_bytes,
                void *host, size_t host_bytes, int *info);
} gx_cuda_api;

/*
** Open the three libraries and fill *api.  cuda_path is looked in first ("" = nowhere), then
** CUDA_PATH and CUDA_HOME, the loader's own places, the toolkit's usual folders and the NVIDIA
** packages in Python's site-packages; CUDA 13 before CUDA 12.  GX_DEVICE with one line that names
** what is missing, or both versions where the driver is too old.  The libraries stay open.
*/
gx_code gx_cuda_api_open(const char *cuda_path, gx_cuda_api *api, gx_err *err);

/* The NVRTC of the same toolkit, from the same places. */
void gx_cuda_api_nvrtc(const gx_cuda_api *api, gx_nvrtc *nvrtc);

#endif
