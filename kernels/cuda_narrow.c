/*
** The CUDA backend: products of a large matrix with a few columns.
**
** c = alpha op(a) b + beta c with at most COLUMNS_MOST columns does 2 n flops for each element of a
** that is read: with so few, the memory is what limits it, and a kernel that only keeps enough
** reads under way is as fast as any.  Two launches: partial sums of chunks of the inner dimension
** into `work`, and their sum (cuda_narrow.cu).  The chunks are chosen from the shape alone, so the
** bits are the same on every run.
**
** The partial sums are beside a what b's columns times the chunks are beside the inner dimension:
** one or two in a hundred.
*/
#include "cuda.h"

enum {
    COLUMNS_MOST = 16,
    THREADS = 128,
    WARPS = THREADS / 32,
    BLOCKS = 3200,       /* that fill a large device, several times over    */
    DEPTH_LEAST = 512,   /* of a chunk, c = a b                             */
    DEPTH_LEAST_T = 4096 /* of a chunk, c = a^T b: its sums cross the lanes */
};

/* Elements of a from which on it pays: what a large device reads in ten launches' time. */
static const int64_t LEAST = (int64_t)1 << 22;

static int width_of(int64_t n)
{
    int width = 0;
    while ((int64_t)1 << width < n) {
        width++;
    }
    return width;
}

/* Rows of c that a thread block has. */
static int64_t rows_of_block(gx_dtype dtype, const gx_args *p)
{
    int64_t bytes = (int64_t)gx_dtype_bytes(dtype);
    if (p->transa == GX_NO_TRANS) { // these are the figures of cuda_narrow.cu
        return THREADS * (p->n > 8 ? gx_max(1, 8 / bytes) : 16 / bytes);
    }
    int64_t fit = 64 / (((int64_t)1 << width_of(p->n)) * (bytes / 4));
    return WARPS * gx_max(1, gx_min(4, fit));
}

static int64_t chunks_of(gx_dtype dtype, const gx_args *p)
{
    int64_t blocks = gx_ceil_div(p->m, rows_of_block(dtype, p));
    int64_t least = p->transa == GX_NO_TRANS ? DEPTH_LEAST : DEPTH_LEAST_T;
    return gx_max(1, gx_min(gx_ceil_div(BLOCKS, blocks), p->k / least));
}

size_t gx_cuda_narrow_bytes(gx_dtype dtype, const gx_args *p)
{
    if (p->n < 1 || p->n > COLUMNS_MOST || p->m < 1 || p->k < 1 || p->transb != GX_NO_TRANS ||
        p->m > INT32_MAX || p->m < LEAST / p->k) {
        return 0;
    }
    return (size_t)(chunks_of(dtype, p) * p->m * p->n) * gx_dtype_bytes(dtype);
}

gx_code gx_cuda_narrow(gx_dev *dev, gx_queue *queue, gx_dtype dtype, const gx_args *p, gx_err *err)
{
    gx_cuda_call call = {.trans = (int32_t)p->transa,
                         .m = p->m,
                         .n = p->n,
                         .alpha = {p->alpha.re, p->alpha.im},
                         .beta = {p->beta.re, p->beta.im},
                         .a = p->a,
                         .lda = p->lda,
                         .b = (void *)(uintptr_t)p->b,
                         .ldb = p->ldb,
                         .c = p->c,
                         .ldc = p->ldc,
                         .partial = p->work,
                         .chunks = chunks_of(dtype, p),
                         .lines = p->k};
    int first = p->transa == GX_NO_TRANS ? GX_CUDA_NARROW : GX_CUDA_NARROW_T;
    gx_cuda_function function = (gx_cuda_function)(first + width_of(p->n));
    gx_cuda_dim block = {THREADS, 1, 1};
    gx_cuda_dim grid = {(unsigned)gx_ceil_div(p->m, rows_of_block(dtype, p)), (unsigned)call.chunks,
                        1};
    GX_TRY(gx_cuda_launch(dev, queue, function, dtype, grid, block, &call, err));
    gx_cuda_dim over = {(unsigned)gx_min(gx_ceil_div(p->m, THREADS), 4096), (unsigned)p->n, 1};
    return gx_cuda_launch(dev, queue, GX_CUDA_NARROW_END, dtype, over, block, &call, err);
}
