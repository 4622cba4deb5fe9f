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

/* cudaError_t, cublasStatus_t, cusolverStatus_t, cufftResult are ints; 0 is success in all. */
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
    GX_CUSOLVER_NO_MEMORY = 2, /* CUSOLVER_STATUS_ALLOC_FAILED   */
    GX_CUFFT_NO_MEMORY = 2,    /* CUFFT_ALLOC_FAILED             */
    GX_CUFFT_BAD_SIZE = 8,     /* CUFFT_INVALID_SIZE             */
    GX_CUFFT_LACKS = 14        /* CUFFT_NOT_IMPLEMENTED, and what follows: of a plan */
};

enum {
    GX_CUDA_HOST_TO_DEVICE = 1, /* cudaMemcpyKind */
    GX_CUDA_DEVICE_TO_HOST = 2,
    GX_CUDA_DEVICE_TO_DEVICE = 3,
    GX_CUDA_NON_BLOCKING = 1, /* cudaStreamNonBlocking       */
    GX_CUDA_PREFERRED = -5,   /* the runtime takes the nearest priority that there is */
    GX_CUDA_NO_TIMING = 2,    /* cudaEventDisableTiming      */
    GX_CUDA_RELAXED = 2,      /* cudaStreamCaptureModeRelaxed */
    GX_CUDA_PORTABLE = 1,     /* cudaHostAllocPortable     */
    GX_CUDA_UUID_AT = 256,    /* of cudaDeviceProp.uuid       */
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

// clang-format off
/* F(result, member, the library's name, parameters) of libcudart. */
#define GX_CUDART(F)                                                                               \
    F(int, count, cudaGetDeviceCount, (int *count))                                                \
    F(int, set_device, cudaSetDevice, (int device))                                                \
    F(int, attribute, cudaDeviceGetAttribute, (int *value, int attribute, int device))             \
    F(int, properties, cudaGetDeviceProperties_v2, (void *properties, int device))                 \
    F(int, bus_id, cudaDeviceGetPCIBusId, (char *text, int bytes, int device))                     \
    F(int, driver_version, cudaDriverGetVersion, (int *version))                                   \
    F(int, runtime_version, cudaRuntimeGetVersion, (int *version))                                 \
    F(int, memory, cudaMemGetInfo, (size_t *free_bytes, size_t *total_bytes))                      \
    F(int, malloc, cudaMalloc, (void **ptr, size_t bytes))                                         \
    F(int, free, cudaFree, (void *ptr))                                                            \
    F(int, host_alloc, cudaHostAlloc, (void **ptr, size_t bytes, unsigned flags))                  \
    F(int, free_host, cudaFreeHost, (void *ptr))                                                   \
    F(int, stream_create, cudaStreamCreateWithPriority, (gx_cuda_handle *stream, unsigned flags,   \
        int priority))                                                                             \
    F(int, stream_destroy, cudaStreamDestroy, (gx_cuda_handle stream))                             \
    F(int, stream_wait, cudaStreamSynchronize, (gx_cuda_handle stream))                            \
    F(int, stream_after, cudaStreamWaitEvent, (gx_cuda_handle stream, gx_cuda_handle event,        \
        unsigned flags))                                                                           \
    F(int, event_create, cudaEventCreateWithFlags, (gx_cuda_handle *event, unsigned flags))        \
    F(int, event_destroy, cudaEventDestroy, (gx_cuda_handle event))                                \
    F(int, event_record, cudaEventRecord, (gx_cuda_handle event, gx_cuda_handle stream))           \
    F(int, event_wait, cudaEventSynchronize, (gx_cuda_handle event))                               \
    F(int, copy, cudaMemcpyAsync, (void *dst, const void *src, size_t bytes, int kind,             \
        gx_cuda_handle stream))                                                                    \
    F(int, copy_2d, cudaMemcpy2DAsync, (void *dst, size_t dst_pitch, const void *src,              \
        size_t src_pitch, size_t width, size_t height, int kind, gx_cuda_handle stream))           \
    F(int, copy_peer, cudaMemcpyPeerAsync, (void *dst, int dst_device, const void *src,            \
        int src_device, size_t bytes, gx_cuda_handle stream))                                      \
    F(int, can_reach, cudaDeviceCanAccessPeer, (int *can, int device, int other))                  \
    F(int, reach, cudaDeviceEnablePeerAccess, (int other, unsigned flags))                         \
    F(int, launch, cudaLaunchKernel, (const void *kernel, gx_cuda_dim grid, gx_cuda_dim block,     \
        void **args, size_t shared_bytes, gx_cuda_handle stream))                                  \
    F(int, function_set, cudaFuncSetAttribute, (const void *kernel, int attribute, int value))     \
    F(int, library_load, cudaLibraryLoadData, (gx_cuda_handle *library, const void *image,         \
        int *options, void **values, unsigned count, int *library_options, void **library_values,  \
        unsigned library_count))                                                                   \
    F(int, library_unload, cudaLibraryUnload, (gx_cuda_handle library))                            \
    F(int, library_kernel, cudaLibraryGetKernel, (gx_cuda_handle *kernel, gx_cuda_handle library,  \
        const char *name))                                                                         \
    F(int, last_error, cudaGetLastError, (void))                                                   \
    F(const char *, error_name, cudaGetErrorName, (int status))                                    \
    F(const char *, error_text, cudaGetErrorString, (int status))

/* Graphs: NULL where there are none. */
#define GX_CUDART_GRAPHS(F)                                                                        \
    F(int, capture_begin, cudaStreamBeginCapture, (gx_cuda_handle stream, int mode))               \
    F(int, capture_end, cudaStreamEndCapture, (gx_cuda_handle stream, gx_cuda_handle *graph))      \
    F(int, graph_make, cudaGraphInstantiate, (gx_cuda_handle *made, gx_cuda_handle graph,          \
        unsigned long long flags))                                                                 \
    F(int, graph_launch, cudaGraphLaunch, (gx_cuda_handle made, gx_cuda_handle stream))            \
    F(int, graph_destroy, cudaGraphDestroy, (gx_cuda_handle graph))                                \
    F(int, graph_unmake, cudaGraphExecDestroy, (gx_cuda_handle made))

/* libcublas, beside what has a function for each dtype. */
#define GX_CUBLAS(F)                                                                               \
    F(int, blas_create, cublasCreate_v2, (gx_cuda_handle *handle))                                 \
    F(int, blas_destroy, cublasDestroy_v2, (gx_cuda_handle handle))                                \
    F(int, blas_stream, cublasSetStream_v2, (gx_cuda_handle handle, gx_cuda_handle stream))        \
    F(int, blas_workspace, cublasSetWorkspace_v2, (gx_cuda_handle handle, void *workspace,         \
        size_t bytes))                                                                             \
    F(const char *, blas_name, cublasGetStatusName, (int status))

/* libcusolver. */
#define GX_CUSOLVER(F)                                                                             \
    F(int, solver_create, cusolverDnCreate, (gx_cuda_handle *handle))                              \
    F(int, solver_destroy, cusolverDnDestroy, (gx_cuda_handle handle))                             \
    F(int, solver_stream, cusolverDnSetStream, (gx_cuda_handle handle, gx_cuda_handle stream))     \
    F(int, params_create, cusolverDnCreateParams, (gx_cuda_handle *params))                        \
    F(int, params_destroy, cusolverDnDestroyParams, (gx_cuda_handle params))                       \
    F(int, potrf_bytes, cusolverDnXpotrf_bufferSize, (gx_cuda_handle, gx_cuda_handle params,       \
        int uplo, int64_t n, int type_a, const void *a, int64_t lda, int compute, size_t *device,  \
        size_t *host))                                                                             \
    F(int, potrf, cusolverDnXpotrf, (gx_cuda_handle, gx_cuda_handle params, int uplo, int64_t n,   \
        int type_a, void *a, int64_t lda, int compute, void *device, size_t device_bytes,          \
        void *host, size_t host_bytes, int *info))                                                 \
    F(int, getrf_bytes, cusolverDnXgetrf_bufferSize, (gx_cuda_handle, gx_cuda_handle params,       \
        int64_t m, int64_t n, int type_a, const void *a, int64_t lda, int compute,                 \
        size_t *device, size_t *host))                                                             \
    F(int, getrf, cusolverDnXgetrf, (gx_cuda_handle, gx_cuda_handle params, int64_t m, int64_t n,  \
        int type_a, void *a, int64_t lda, int64_t *pivots, int compute, void *device,              \
        size_t device_bytes, void *host, size_t host_bytes, int *info))                            \
    F(int, geqrf_bytes, cusolverDnXgeqrf_bufferSize, (gx_cuda_handle, gx_cuda_handle params,       \
        int64_t m, int64_t n, int type_a, const void *a, int64_t lda, int type_tau,                \
        const void *tau, int compute, size_t *device, size_t *host))                               \
    F(int, geqrf, cusolverDnXgeqrf, (gx_cuda_handle, gx_cuda_handle params, int64_t m, int64_t n,  \
        int type_a, void *a, int64_t lda, int type_tau, void *tau, int compute, void *device,      \
        size_t device_bytes, void *host, size_t host_bytes, int *info))                            \
    F(int, syevd_bytes, cusolverDnXsyevd_bufferSize, (gx_cuda_handle, gx_cuda_handle params,       \
        int jobz, int uplo, int64_t n, int type_a, const void *a, int64_t lda, int type_w,         \
        const void *w, int compute, size_t *device, size_t *host))                                 \
    F(int, syevd, cusolverDnXsyevd, (gx_cuda_handle, gx_cuda_handle params, int jobz, int uplo,    \
        int64_t n, int type_a, void *a, int64_t lda, int type_w, void *w, int compute,             \
        void *device, size_t device_bytes, void *host, size_t host_bytes, int *info))              \
    F(int, gesvd_bytes, cusolverDnXgesvd_bufferSize, (gx_cuda_handle, gx_cuda_handle params,       \
        signed char jobu, signed char jobvt, int64_t m, int64_t n, int type_a, const void *a,      \
        int64_t lda, int type_s, const void *s, int type_u, const void *u, int64_t ldu,            \
        int type_vt, const void *vt, int64_t ldvt, int compute, size_t *device, size_t *host))     \
    F(int, gesvd, cusolverDnXgesvd, (gx_cuda_handle, gx_cuda_handle params, signed char jobu,      \
        signed char jobvt, int64_t m, int64_t n, int type_a, void *a, int64_t lda, int type_s,     \
        void *s, int type_u, void *u, int64_t ldu, int type_vt, void *vt, int64_t ldvt,            \
        int compute, void *device, size_t device_bytes, void *host, size_t host_bytes,             \
        int *info))

/* NULL before CUDA 12.6. */
#define GX_CUSOLVER_GEEV(F)                                                                        \
    F(int, geev_bytes, cusolverDnXgeev_bufferSize, (gx_cuda_handle, gx_cuda_handle params,         \
        int jobvl, int jobvr, int64_t n, int type_a, const void *a, int64_t lda, int type_w,       \
        const void *w, int type_vl, const void *vl, int64_t ldvl, int type_vr, const void *vr,     \
        int64_t ldvr, int compute, size_t *device, size_t *host))                                  \
    F(int, geev, cusolverDnXgeev, (gx_cuda_handle, gx_cuda_handle params, int jobvl, int jobvr,    \
        int64_t n, int type_a, void *a, int64_t lda, int type_w, void *w, int type_vl, void *vl,   \
        int64_t ldvl, int type_vr, void *vr, int64_t ldvr, int compute, void *device,              \
        size_t device_bytes, void *host, size_t host_bytes, int *info))

/* libcufft: all of them, or NULL where it is not there. */
#define GX_CUFFT(F)                                                                                \
    F(int, fft_create, cufftCreate, (int *plan))                                                   \
    F(int, fft_destroy, cufftDestroy, (int plan))                                                  \
    F(int, fft_allocates, cufftSetAutoAllocation, (int plan, int is_automatic))                    \
    F(int, fft_make, cufftXtMakePlanMany, (int plan, int rank, long long *n, long long *in_sides,  \
        long long in_step, long long in_next, int in_type, long long *out_sides,                   \
        long long out_step, long long out_next, int out_type, long long count, size_t *work_bytes, \
        int compute))                                                                              \
    F(int, fft_work, cufftSetWorkArea, (int plan, void *work))                                     \
    F(int, fft_stream, cufftSetStream, (int plan, gx_cuda_handle stream))                          \
    F(int, fft_run, cufftXtExec, (int plan, void *in, void *out, int direction))

/* NVRTC, which compiles while gx runs. */
#define GX_NVRTC(F)                                                                                \
    F(int, create, nvrtcCreateProgram, (gx_cuda_handle *program, const char *source,               \
        const char *name, int headers, const char *const *sources, const char *const *names))      \
    F(int, compile, nvrtcCompileProgram, (gx_cuda_handle program, int options,                     \
        const char *const *option))                                                                \
    F(int, cubin_bytes, nvrtcGetCUBINSize, (gx_cuda_handle program, size_t *bytes))                \
    F(int, cubin, nvrtcGetCUBIN, (gx_cuda_handle program, char *cubin))                            \
    F(int, destroy, nvrtcDestroyProgram, (gx_cuda_handle *program))
// clang-format on

#define GX_CUDA_MEMBER(result, member, name, parameters) result(*member) parameters;

typedef struct gx_nvrtc {
    GX_NVRTC(GX_CUDA_MEMBER) // create NULL: it is not there
} gx_nvrtc;

typedef struct gx_cuda_api {
    char cuda_path[512]; /* the folder that was looked in first */
    const char *nvrtc;   /* the toolkit's name of that library  */
    GX_CUDART(GX_CUDA_MEMBER)
    GX_CUDART_GRAPHS(GX_CUDA_MEMBER)
    GX_CUBLAS(GX_CUDA_MEMBER)
    gx_cublas_gemm gemm[GX_FLOATS];
    gx_cublas_gemm_ex gemm_ex;
    gx_cublas_batch batch[GX_FLOATS];                  /* gemmStridedBatched */
    gx_cublas_rank_k syrk[GX_FLOATS], herk[GX_FLOATS]; /* herk of reals: NULL */
    gx_cublas_trsm trsm[GX_FLOATS];
    gx_cublas_trmm trmm[GX_FLOATS];
    GX_CUSOLVER(GX_CUDA_MEMBER)
    GX_CUSOLVER_GEEV(GX_CUDA_MEMBER)
    GX_CUFFT(GX_CUDA_MEMBER)
} gx_cuda_api;

/*
** Open the three libraries, and cuFFT where it is there, and fill *api.  cuda_path is looked in
** first ("" = nowhere), then CUDA_PATH and CUDA_HOME, the loader's own places, the toolkit's
** usual folders and the NVIDIA packages in Python's site-packages; CUDA 13 before CUDA 12.
** GX_DEVICE with one line that names what is missing, or both versions where the driver is too old.
** The libraries stay open.
*/
gx_code gx_cuda_api_open(const char *cuda_path, gx_cuda_api *api, gx_err *err);

/* The NVRTC of the same toolkit, from the same places. */
void gx_cuda_api_nvrtc(const gx_cuda_api *api, gx_nvrtc *nvrtc);

#endif
