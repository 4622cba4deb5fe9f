/*
** Shared by the host files of the CUDA backend: devices, queues, how a call fails, launches.
**
**   cuda.c         the table, devices, memory, queues, marks, copies
**   cuda_dev.c     what the kernels ask of a device: memory, handles, letters
**   cuda_fault.c   what a failed call means; devices that are lost
**   cuda_api.c     NVIDIA's libraries as tables of functions
**   cuda_launch.c  our own kernels: elementwise, transposes, triangles, rows, reductions
**   cuda_field.c   whole numbers modulo a prime
**   cuda_fused.c   fused programs, interpreted and compiled
**   cuda_nearest.c neighbours: products, and kernels of our own that select
**   cuda_sparse.c  products with sparse panels
**   cuda_blas.c    products and triangles by cuBLAS
**   cuda_narrow.c  products that cuBLAS leaves to a few of the processors, in parts
**   cuda_solver.c  Cholesky, LU, by cuSOLVER
**   cuda_qr.c      reflectors, by cuSOLVER and products
**   cuda_spectra.c eigenvalues and singular values by cuSOLVER
**   cuda_fft.c     Fourier transforms by cuFFT
**   cuda_grid.c    grids
*/
#ifndef GX_CUDA_H
#define GX_CUDA_H

#include "cuda_api.h"
#include "cuda_kernels.h"
#include "slots.h"

#include <pthread.h>
#include <stdatomic.h>

/*
** Our kernels (cuda_kernels.h): the name, the .cu that has it, for which dtypes; ten times the
** compute capability that alone has it, 0: every one; bytes of shared memory that a launch adds.
*/
#define GX_CUDA_OWN(F)                                                                             \
    F(MAP, gx_map, cuda_map, EACH_DTYPE, 0, 0)                                                     \
    F(TRANSPOSE, gx_transpose, cuda_move, EACH_DTYPE, 0, 0)                                        \
    F(SYMMETRIZE, gx_symmetrize, cuda_move, EACH_DTYPE, 0, 0)                                      \
    F(REGION, gx_region, cuda_map, EACH_DTYPE, 0, 0)                                               \
    F(TRIANGLES, gx_triangle, cuda_map, EACH_DTYPE, 0, 0)                                          \
    F(LARFT, gx_larft, cuda_map, EACH_DTYPE, 0, 0)                                                 \
    F(DEFINITE, gx_definite, cuda_map, EACH_DTYPE, 0, 0)                                           \
    F(POISON, gx_poison, cuda_map, EACH_DTYPE, 0, 0)                                               \
    F(RESCALE, gx_rescale, cuda_map, EACH_DTYPE, 0, 0)                                             \
    F(MOVE_ROWS, gx_rows, cuda_move, EACH_DTYPE, 0, 0)                                             \
    F(PAIRS, gx_pairs, cuda_move, EACH_DTYPE, 0, 0)                                                \
    F(REDUCE, gx_reduce, cuda_reduce, EACH_DTYPE, 0, 0)                                            \
    F(FUSED, gx_fused, cuda_fused, EACH_DTYPE, 0, 0)                                               \
    F(FOLD, gx_fold, cuda_fused, EACH_DTYPE, 0, 0)                                                 \
    F(REDUCE_END, gx_reduce_end, cuda_reduce, ONE_FOR_ALL, 0, 0)                                   \
    F(PIVOTS, gx_pivots, cuda_move, ONE_FOR_ALL, 0, 0)                                             \
    F(CONVERT, gx_convert, cuda_map, ONE_FOR_ALL, 0, 0)                                            \
    F(RANDOM, gx_random, cuda_random, ONE_FOR_ALL, 0, 0)                                           \
    F(FIELD_MAP, gx_field_map, cuda_field, ONE_FOR_ALL, 0, 0)                                      \
    F(FIELD_TRANSPOSE, gx_field_transpose, cuda_field, ONE_FOR_ALL, 0, 0)                          \
    F(FIELD_PACK, gx_field_pack, cuda_field, ONE_FOR_ALL, 0, 0)                                    \
    F(FIELD_JOIN, gx_field_join, cuda_field, ONE_FOR_ALL, 0, 0)                                    \
    F(RESIDUES_BEGIN, gx_residues_begin, cuda_residues, ONE_FOR_ALL, 0, 0)                         \
    F(RESIDUES_SCAN, gx_residues_scan, cuda_residues, ONE_FOR_ALL, 0, 0)                           \
    F(RESIDUES_PACK, gx_residues_pack, cuda_residues, ONE_FOR_ALL, 0, 0)                           \
    F(RESIDUES_JOIN, gx_residues_join, cuda_residues, ONE_FOR_ALL, 0, 0)                           \
    F(CIRCLE_FIRST, gx_circle_first, cuda_circle, ONE_FOR_ALL, 0, 0)                             \
    F(CIRCLE_UP, gx_circle_up, cuda_circle, ONE_FOR_ALL, 0, 0)                                     \
    F(CIRCLE_INVERT, gx_circle_invert, cuda_circle, ONE_FOR_ALL, 0, 0)                             \
    F(CIRCLE_PASS, gx_circle_pass, cuda_circle, ONE_FOR_ALL, 0, 0)                                 \
    F(CIRCLE_PAIR, gx_circle_pair, cuda_circle, ONE_FOR_ALL, 0, 0)                                 \
    F(COMBINE, gx_combine, cuda_combine, ONE_FOR_ALL, 0, 0)                                        \
    F(ONE_HOT, gx_one_hot, cuda_map, ONE_FOR_ALL, 0, 0)                                            \
    F(HALVE, gx_halve, cuda_map, ONE_FOR_ALL, 0, 0)                                                \
    F(GRID, gx_grid, cuda_grid, ONE_FOR_ALL, 0, 0)                                                 \
    F(PARTS, gx_parts, cuda_narrow, EACH_DTYPE, 0, 0)                                              \
    F(NARROW_PRODUCT, gx_narrow, cuda_narrow, REAL_DTYPES, 0, 0)                                   \
    F(NARROW_IMAGE, gx_narrow_image, cuda_narrow_split, F32_ALONE, 90, 0)                          \
    F(NARROW_SPLIT, gx_narrow_split, cuda_narrow_split, F32_ALONE, 90, GX_CUDA_SPLIT_SHARED)       \
    F(NEAR_ROWS, gx_near_rows, cuda_nearest, REAL_DTYPES, 0, 0)                                    \
    F(NEAR_PIECES, gx_near_pieces, cuda_near_pieces, F32_ALONE, 90, 0)                             \
    F(NEAR_IMAGE, gx_near_image, cuda_near_pieces, F32_ALONE, 90, 0)                               \
    F(NEAR_APART, gx_near_apart, cuda_nearest, REAL_DTYPES, 0, 0)                                  \
    F(NEAR_SELECT, gx_near_select, cuda_nearest, REAL_DTYPES, 0, 0)                                \
    F(NEAR_FINISH, gx_near_finish, cuda_nearest, REAL_DTYPES, 0, 0)                                \
    F(NEAR_MERIT, gx_near_merit, cuda_nearest, REAL_DTYPES, 0, 0)                                  \
    F(SPMM_GATHER, gx_spmm_gather, cuda_sparse, EACH_DTYPE, 0, 0)                                  \
    F(SPMM_LINE, gx_spmm_line, cuda_sparse, EACH_DTYPE, 0, 0)                                      \
    F(SPMM_JOIN, gx_spmm_join, cuda_sparse, EACH_DTYPE, 0, 0)                                      \
    F(SPMM_SCATTER, gx_spmm_scatter, cuda_sparse, EACH_DTYPE, 0, 0)                                \
    F(SPMM_SCATTER_LINE, gx_spmm_scatter_line, cuda_sparse, EACH_DTYPE, 0, 0)

typedef enum gx_cuda_function {
#define GX_CUDA_ENUM(ID, ...) GX_CUDA_##ID,
    GX_CUDA_OWN(GX_CUDA_ENUM)
#undef GX_CUDA_ENUM
    GX_CUDA_FUNCTIONS
} gx_cuda_function;

enum {
    GX_CUDA_IMAGES_MAX = 16, /* files kernels/cuda*.cu; a build with more stops */
    GX_CUDA_MAILBOX = 64,
    GX_CUDA_DEVICES_MAX = 64,
    GX_CUDA_MARKS = 256,
    GX_CUDA_PLANS = 8
};

/* A plan of cuFFT and what it is for; bytes of its work area. */
typedef struct gx_cuda_plan {
    bool is_made;
    int plan, in_type, out_type;
    int64_t n, count, in_step, in_next, out_step, out_next;
    size_t bytes;
    int64_t used; /* the device's calls so far when it was used last */
} gx_cuda_plan;

struct gx_dev {
    const gx_cuda_api *api;
    int ordinal;
    char name[64];     /* "cuda:0 NVIDIA H200"                                  */
    char uuid[48];     /* "GPU-..."                                             */
    size_t pitch_most; /* of a two-dimensional copy, bytes                      */
    int capability;    /* ten times the compute capability                      */
    gx_cuda_handle library[GX_CUDA_IMAGES_MAX];
    gx_cuda_handle function[GX_CUDA_FUNCTIONS][GX_FLOATS]; /* NULL: this kind has none  */
    int room[GX_CUDA_FUNCTIONS]; /* bytes of shared memory that a launch adds to it     */
    pthread_mutex_t lock;  /* over what follows                                   */
    gx_cuda_handle idle_mark[GX_CUDA_MARKS]; /* for the next ones who want some       */
    int idle_marks;
    struct gx_cuda_programs *programs; /* of cuda_fused.c; NULL before the first      */
    gx_cuda_handle solver; /* for questions about workspaces; NULL before the first */
    gx_cuda_handle params;
    gx_cuda_plan plan[GX_CUDA_PLANS]; /* of cuda_fft.c */
    int64_t plans_used;
};

struct gx_queue {
    gx_cuda_handle stream;
    gx_cuda_handle other;  /* the stream of the other priority; NULL before its first use */
    bool is_preferred;     /* stream has the high one                             */
    gx_cuda_handle event;  /* from one to the other                               */
    gx_cuda_handle blas;   /* NULL before the first call of cuBLAS                */
    void *blas_work;       /* device memory: one workspace a stream = same bits   */
    gx_cuda_handle solver; /* NULL before the first call of cuSOLVER              */
    gx_cuda_handle params;
    void *host_work; /* cuSOLVER's on the host, grown on demand             */
    size_t host_bytes;
    int32_t *mailbox;                   /* pinned: GX_CUDA_MAILBOX infos on their way          */
    int64_t *receiver[GX_CUDA_MAILBOX]; /* where they go at queue_wait()          */
    int letters;
};

// Failures ----------------------------------------------------------------------------------------

/*
** The code of a call that returned status: GX_OK for 0, GX_NOMEM where memory ran out, else
** GX_DEVICE with the call, the device, the status.  The runtime's last error is cleared, so that
** it does not come up again in a later call.  Notices when the device is lost to the process.
*/
gx_code gx_cuda_check(gx_dev *dev, int status, const char *call, gx_err *err);
gx_code gx_cublas_check(gx_dev *dev, int status, const char *call, gx_err *err);
gx_code gx_cusolver_check(gx_dev *dev, int status, const char *call, gx_err *err);
gx_code gx_cufft_check(gx_dev *dev, int status, const char *call, gx_err *err);

/* No call of the device will succeed any more in this process. */
bool gx_cuda_is_lost(const gx_dev *dev);

/* release(thing), unless thing is NULL or the device is lost; a failure is only looked at. */
void gx_cuda_release(gx_dev *dev, void *thing, int (*release)(void *), const char *call);

/*
** Wait for a stream.  After a failure it is tried once more, since memory that the stream uses is
** given back next; where that fails too the device counts as lost, and nothing is given back.
*/
gx_code gx_cuda_settle(gx_dev *dev, gx_cuda_handle stream, gx_err *err);

/* Return from the calling function where a call of the runtime fails. */
#define CUDA_TRY(dev, call, what) GX_TRY(gx_cuda_check(dev, call, what, err))
#define CUBLAS_TRY(dev, call, what) GX_TRY(gx_cublas_check(dev, call, what, err))
#define CUSOLVER_TRY(dev, call, what) GX_TRY(gx_cusolver_check(dev, call, what, err))
#define CUFFT_TRY(dev, call, what) GX_TRY(gx_cufft_check(dev, call, what, err))

// Queues ------------------------------------------------------------------------------------------

/* The calling thread's device is dev from here on; GX_DEVICE with the reason where it is lost. */
gx_code gx_cuda_enter(gx_dev *dev, gx_err *err);

/* Device memory; GX_NOMEM where there is no more. */
gx_code gx_cuda_alloc(gx_dev *dev, size_t bytes, void **ptr, gx_err *err);

/* The queue's handles, made on the first call. */
gx_code gx_cuda_blas(gx_dev *dev, gx_queue *queue, gx_err *err);
gx_code gx_cuda_blas_workspace(gx_dev *dev, gx_queue *queue, gx_err *err);
gx_code gx_cuda_solver(gx_dev *dev, gx_queue *queue, gx_err *err);

/* cuSOLVER's host workspace of at least bytes; *work is the queue's. */
gx_code gx_cuda_host_work(gx_dev *dev, gx_queue *queue, size_t bytes, void **work, gx_err *err);

/* Bytes of the device's memory to the caller's, enqueued. */
gx_code gx_cuda_fetch(gx_dev *dev, gx_queue *queue, void *to, const void *from, size_t bytes,
                      gx_err *err);

/* *to = the device's 32-bit *from when the queue has been waited for. */
gx_code gx_cuda_post(gx_dev *dev, gx_queue *queue, const int32_t *from, int64_t *to, gx_err *err);

gx_code gx_cuda_queue_wait(gx_dev *dev, gx_queue *queue, gx_err *err);

/* A handle of cuSOLVER to ask for workspaces with; dev->lock is held from here to _end(). */
gx_code gx_cuda_ask_begin(gx_dev *dev, gx_err *err);
void gx_cuda_ask_end(gx_dev *dev);

/* Ask within both; return GX_NO_WORKSPACE from the calling function where there is no answer. */
#define GX_CUDA_ASK(dev, question)                                                                 \
    do {                                                                                           \
        if (gx_cuda_ask_begin(dev, NULL) != GX_OK) {                                               \
            return GX_NO_WORKSPACE;                                                                \
        }                                                                                          \
        gx_code answer_ = (question);                                                              \
        gx_cuda_ask_end(dev);                                                                      \
        if (answer_ != GX_OK) {                                                                    \
            return GX_NO_WORKSPACE;                                                                \
        }                                                                                          \
    } while (0)

// Launches ----------------------------------------------------------------------------------------

/* Launch a kernel of ours with the struct that it takes. */
gx_code gx_cuda_launch(gx_dev *dev, gx_queue *queue, gx_cuda_function function, gx_number dtype,
                       gx_cuda_dim grid, gx_cuda_dim block, void *params, gx_err *err);

/* The shape of a launch over an m x n block, a thread for some elements down its columns. */
void gx_cuda_shape(int64_t m, int64_t n, gx_cuda_dim *grid, gx_cuda_dim *block);

/* Its second stage alone: three doubles of each of `chunks` parts to *out, all on the device. */
gx_code gx_cuda_reduce_end(gx_dev *dev, gx_queue *queue, gx_reduce_kind kind, int64_t chunks,
                           double *partial, double *out, gx_err *err);

/* The compiled programs of a device that is closed, and its plans of transforms. */
void gx_cuda_forget_programs(gx_dev *dev);
void gx_cuda_forget_plans(gx_dev *dev);

/* What most launches take of a kernel's arguments: the flags, sizes, scalars, a and c. */
gx_cuda_call gx_cuda_call_of(const gx_args *args);

/* A launch over an m x n block, one thread an element; nothing where m or n is 0. */
gx_code gx_cuda_over_block(gx_dev *dev, gx_queue *queue, gx_cuda_function function, gx_number dtype,
                           gx_cuda_call *call, gx_err *err);

/* c = beta c on a part of the m x n block; see gx_region in cuda_kernels.h. */
gx_code gx_cuda_region(gx_dev *dev, gx_queue *queue, gx_number dtype, gx_cuda_part part,
                       gx_uplo uplo, int64_t m, int64_t n, gx_scalar beta, void *c, int64_t ldc,
                       gx_err *err);

/*
** *largest, in `work` on the device, = the largest magnitude in the m x n block; work has
** gx_cuda_measure_bytes().
*/
gx_code gx_cuda_measure(gx_dev *dev, gx_queue *queue, gx_number dtype, int64_t m, int64_t n,
                        const void *c, int64_t ldc, void *work, const double **largest,
                        gx_err *err);
size_t gx_cuda_measure_bytes(int64_t m, int64_t n);

/* c scaled by the power of two that *largest on the device asks for, or back; see gx_rescale. */
gx_code gx_cuda_rescale(gx_dev *dev, gx_queue *queue, gx_number dtype, bool is_back,
                        const double *largest, int64_t m, int64_t n, void *c, int64_t ldc,
                        gx_err *err);

/* Triangle uplo of a into c, m x n; see gx_triangle. */
gx_code gx_cuda_triangle(gx_dev *dev, gx_queue *queue, gx_number dtype, gx_cuda_part part,
                         gx_uplo uplo, gx_diag diag, int64_t m, int64_t n, const void *a,
                         int64_t lda, void *c, int64_t ldc, gx_err *err);

/* c = a, m x n; c = op(a) with GX_CUDA_TRANSPOSE's trans. */
gx_code gx_cuda_copy(gx_dev *dev, gx_queue *queue, gx_number dtype, gx_trans trans, int64_t m,
                     int64_t n, const void *a, int64_t lda, void *c, int64_t ldc, gx_err *err);

/* c = alpha op(a) op(b) + beta c, real scalars, by cuBLAS; any of m, n, k may be 0. */
gx_code gx_cuda_gemm(gx_dev *dev, gx_queue *queue, gx_number dtype, gx_trans transa,
                     gx_trans transb, int64_t m, int64_t n, int64_t k, double alpha, const void *a,
                     int64_t lda, const void *b, int64_t ldb, double beta, void *c, int64_t ldc,
                     gx_err *err);

/* GX_GEMM of operands that lie as p->half, F16 or BF16, added up in f32: tensor cores'. */
gx_code gx_cuda_gemm_half(gx_dev *dev, gx_queue *queue, const gx_args *p, gx_err *err);

/* Bytes for both operands so: where GX_GEMM makes them of f32 ones first; 0: it does not. */
size_t gx_cuda_half_bytes(const gx_dev *dev, gx_number dtype, const gx_args *p);

/*
** Products in parts (cuda_narrow.c): real, with few columns or rows, and few columns
** times their own transpose, where args->work has room.  *is_done: false, this is none of those.
*/
gx_code gx_cuda_narrow_gemm(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *args,
                            bool *is_done, gx_err *err);
gx_code gx_cuda_narrow_rank_k(gx_dev *dev, gx_queue *queue, gx_number dtype, bool is_hermitian,
                              const gx_args *args, bool *is_done, gx_err *err);

// Words of the libraries --------------------------------------------------------------------------

static inline int gx_cuda_type(gx_number dtype)
{
    static const int types[] = {GX_CUDA_R_64F, GX_CUDA_R_32F, GX_CUDA_C_64F, GX_CUDA_C_32F};
    return types[dtype];
}

/*
** A scalar in dtype's precision, at an address that lives as long as the struct and is aligned as
** cuDoubleComplex and cuComplex are: cuBLAS loads a complex scalar at once.
*/
typedef struct gx_cuda_scalar {
    _Alignas(16) double wide[2];
    _Alignas(8) float narrow[2];
} gx_cuda_scalar;

static inline const void *gx_cuda_scalar_of(gx_cuda_scalar *room, gx_number dtype, gx_scalar value)
{
    room->wide[0] = value.re;
    room->wide[1] = value.im;
    room->narrow[0] = (float)value.re;
    room->narrow[1] = (float)value.im;
    return gx_number_is_double(dtype) ? (const void *)room->wide : (const void *)room->narrow;
}

/* Bytes rounded up, so that what follows in a workspace is aligned. */
static inline size_t gx_cuda_round(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* The same of an m x n matrix. */
static inline size_t gx_cuda_area(gx_number dtype, int64_t m, int64_t n)
{
    return gx_cuda_round((size_t)(gx_max(m, 0) * gx_max(n, 0)) * gx_number_bytes(dtype));
}

/* What a call of cuSOLVER wants for itself, bytes. */
typedef struct gx_cuda_appetite {
    size_t device, host;
} gx_cuda_appetite;

/* The next address that is a multiple of 256: what cuSOLVER likes; callers promise 64. */
static inline void *gx_cuda_aligned(void *work)
{
    return work == NULL ? NULL : (char *)work + (-(uintptr_t)work & 255);
}

// The slots ---------------------------------------------------------------------------------------

/* Four slots from one function that takes the dtype; args->work is aligned to 256 there. */
#define GX_CUDA_SLOT(name, suffix, dtype, body)                                                    \
    GX_SLOT_PROTOTYPE(name, suffix)                                                                \
    {                                                                                              \
        gx_args aligned = *args;                                                                   \
        aligned.work = gx_cuda_aligned(args->work);                                                \
        GX_TRY(gx_cuda_enter(dev, err));                                                           \
        int letters = queue->letters;                                                              \
        gx_code code = body(dev, queue, dtype, &aligned, err);                                     \
        if (code != GX_OK && queue->letters > letters) {                                           \
            queue->letters = letters; /* who failed does not wait for them */                      \
        }                                                                                          \
        return code;                                                                               \
    }
#define GX_CUDA_SLOTS_DEFINE(name, body)                                                           \
    GX_CUDA_SLOT(name, f64, GX_F64, body)                                                          \
    GX_CUDA_SLOT(name, f32, GX_F32, body)                                                          \
    GX_CUDA_SLOT(name, c128, GX_C128, body)                                                        \
    GX_CUDA_SLOT(name, c64, GX_C64, body)

/* Of every kind of number, and of real ones. */
#define GX_CUDA_KERNELS(KERNEL)                                                                    \
    GX_KERNELS_OF_ALL(KERNEL, cuda)                                                                \
    KERNEL(cuda, SYEV, syev)                                                                       \
    KERNEL(cuda, GEEV, geev)                                                                       \
    KERNEL(cuda, GESDD, gesdd)                                                                     \
    KERNEL(cuda, CONVERT, convert)                                                                 \
    KERNEL(cuda, RANDOM, random)                                                                   \
    KERNEL(cuda, FFT, fft)
#define GX_CUDA_REAL_KERNELS(KERNEL)                                                               \
    KERNEL(cuda, APART, apart)                                                                     \
    KERNEL(cuda, MERIT, merit)                                                                     \
    KERNEL(cuda, NEAREST, nearest)
GX_CUDA_KERNELS(GX_KERNEL_DECLARE)
GX_CUDA_REAL_KERNELS(GX_REAL_DECLARE)

/* Of GX_M31. */
#define GX_CUDA_FIELD_KERNELS(KERNEL)                                                              \
    KERNEL(cuda, GEMM, gemm)                                                                       \
    KERNEL(cuda, FILL, fill)                                                                       \
    KERNEL(cuda, COPY, copy)                                                                       \
    KERNEL(cuda, MAP, map)                                                                         \
    KERNEL(cuda, TRANSPOSE, transpose)                                                             \
    KERNEL(cuda, CIRCLE, circle)                                                                   \
    KERNEL(cuda, COMBINE, combine)
GX_CUDA_FIELD_KERNELS(GX_FIELD_DECLARE)
GX_SLOT_PROTOTYPE(gx_cuda_one_hot, f64);
GX_SLOT_PROTOTYPE(gx_cuda_grid, f64);
size_t gx_cuda_grid_bytes(const gx_args *args);
size_t gx_cuda_field_bytes(const gx_args *args);
size_t gx_cuda_combine_bytes(const gx_args *args);

/* Sides of products of bytes are multiples of 16. */
static inline int64_t gx_cuda_grains(int64_t count)
{
    return (count + 15) / 16 * 16;
}

/* c, m x n of 32-bit sums, = a^T b of bytes: a k x m, b k x n, without gaps (cuda_residues.c). */
gx_code gx_cuda_gemm_i8(gx_dev *dev, gx_queue *queue, int64_t m, int64_t n, int64_t k,
                        const int8_t *a, const int8_t *b, int32_t *c, gx_err *err);

/* GX_GEMM of f64 by residues (cuda_residues.c); m, n, k > 0. */
gx_code gx_cuda_residues_gemm(gx_dev *dev, gx_queue *queue, const gx_args *p, gx_err *err);
size_t gx_cuda_residues_bytes(const gx_args *args);

size_t gx_cuda_narrow_bytes(const gx_dev *dev, gx_kernel_id kernel, gx_number dtype,
                            const gx_args *args);

/* Bytes of args->work: of cuda_nearest.c, cuda_fused.c, reductions, and the others by name. */
size_t gx_cuda_spmm_bytes(gx_number dtype, const gx_args *args);
size_t gx_cuda_nearest_bytes(const gx_dev *dev, gx_number dtype, const gx_args *args);
size_t gx_cuda_fused_bytes(const gx_args *args);
size_t gx_cuda_reduce_bytes(const gx_args *args);
size_t gx_cuda_solver_bytes(gx_dev *dev, gx_kernel_id kernel, gx_number dtype, const gx_args *args);
size_t gx_cuda_qr_bytes(gx_dev *dev, gx_kernel_id kernel, gx_number dtype, const gx_args *args);
size_t gx_cuda_fft_bytes(gx_dev *dev, gx_number dtype, const gx_args *args);
size_t gx_cuda_spectra_bytes(gx_dev *dev, gx_kernel_id kernel, gx_number dtype,
                             const gx_args *args);

#endif
