/*
** The CUDA backend: products that cuBLAS leaves to a few of the processors, in parts.
**
** The sum over the long side is cut into parts, so many that there is work for a large device, each
** with a result of its own in args->work, and gx_parts adds these up, in their order: the same bits
** on every run.  How many there are depends on the shape alone.
**
**   few columns   f32, 1 to 8 columns, or rows: cuBLAS reads the large matrix at a little more than
**                 half of the memory's rate, and for one column, transposed, at a fifth of it from
**                 2^31 elements on.  Kernels of our own (cuda_narrow.cu).
**   rank k        A^H A of few, long columns, or A A^H: cuBLAS's syrk sums in one thread block what
**                 one thread block holds of the result.  Parts are products of a batch by cuBLAS.
**
** Who gives no `work` (products within other kernels) gets cuBLAS's own.
*/
#include "cuda.h"

#include <math.h>

/* ROUND: thread blocks that a large device works on at once, of narrow products. */
enum { ROUND = 264, THREADS = 256 };

/* c = beta c + alpha (the sum of the parts), each m x n without gaps. */
static gx_code add_parts(gx_dev *dev, gx_queue *queue, gx_dtype dtype, gx_cuda_call *call,
                         gx_err *err)
{
    call->lda = call->m;
    call->lines = call->m * call->n;
    gx_cuda_dim block = {THREADS, 1, 1}, grid = {1, 1, 1};
    grid.x = (unsigned)gx_ceil_div(call->m, THREADS);
    grid.y = (unsigned)gx_min(call->n, 65535);
    return gx_cuda_launch(dev, queue, GX_CUDA_PARTS, dtype, grid, block, call, err);
}

// Few columns -------------------------------------------------------------------------------------

/* How much of whole rounds is work, of side x k elements. */
static double use_of(const gx_cuda_narrow *p, double side, double k)
{
    double blocks = ceil(side / (double)p->span) * ceil(k / (double)p->chunk);
    double rounds = ceil(blocks / ROUND);
    return side * k / (rounds * ROUND * (double)p->span * (double)p->chunk);
}

/*
** Thread blocks of span x chunk elements.  Large ones, as few rounds of them as have enough to do
** for everybody: what each begins and ends with is lost, and its results are read once more.
*/
static void cut_blocks(gx_cuda_narrow *p, int64_t side, int64_t k)
{
    enum { ROUNDS = 6, CHUNK_STEP = 16, SPAN_STEP = 32 };
    const double BETTER = 0.02;
    int64_t narrowest = p->is_trans ? SPAN_STEP : GX_CUDA_NARROW_ROWS;
    int64_t shortest = p->is_trans ? 128 : 32, across = gx_ceil_div(side, narrowest);
    int64_t least = gx_ceil_div(k, GX_CUDA_NARROW_CHUNK), most = gx_max(least, k / shortest);
    double best = 0;
    for (int64_t rounds = 1; rounds <= ROUNDS; rounds++) {
        gx_cuda_narrow cut = *p;
        int64_t blocks = rounds * ROUND, parts = gx_min(gx_max(blocks / across, least), most);
        int64_t span = gx_ceil_div(side, gx_max(1, blocks / parts));
        cut.span = p->is_trans ? gx_ceil_div(span, SPAN_STEP) * SPAN_STEP : GX_CUDA_NARROW_ROWS;
        cut.chunk = gx_ceil_div(gx_ceil_div(k, parts), CHUNK_STEP) * CHUNK_STEP;
        double use = use_of(&cut, (double)side, (double)k);
        if (use > best + BETTER) {
            best = use;
            *p = cut;
        }
    }
    p->parts = gx_ceil_div(k, p->chunk);
}

/* How a product is cut; false: it is not for these kernels. */
static bool cut_narrow(gx_dtype dtype, const gx_args *p, gx_cuda_narrow *out)
{
    const int64_t LEAST_SIDE = 64, LEAST = 1 << 20, MOST_PARTS = 65535;
    bool is_left = p->n <= p->m; // the large matrix is a
    int64_t few = gx_min(p->m, p->n), side = gx_max(p->m, p->n), k = p->k;
    if (dtype != GX_F32 || few < 1 || few > GX_CUDA_NARROW || side < LEAST_SIDE ||
        k < LEAST_SIDE || side > INT32_MAX || k > INT32_MAX || side * k < LEAST) {
        return false;
    }
    *out = (gx_cuda_narrow){.few = (int32_t)few};
    out->is_trans = is_left ? p->transa != GX_NO_TRANS : p->transb == GX_NO_TRANS;
    out->rows = out->is_trans ? k : side;
    out->cols = out->is_trans ? side : k;
    cut_blocks(out, side, k);
    return out->parts <= MOST_PARTS;
}

gx_code gx_cuda_narrow_gemm(gx_dev *dev, gx_queue *queue, gx_dtype dtype, const gx_args *p,
                            bool *is_done, gx_err *err)
{
    gx_cuda_narrow call;
    *is_done = p->work != NULL && cut_narrow(dtype, p, &call);
    if (!*is_done) {
        return GX_OK;
    }
    bool is_left = p->n <= p->m;
    bool is_plain = is_left ? p->transb == GX_NO_TRANS : p->transa != GX_NO_TRANS;
    int64_t ldx = is_left ? p->ldb : p->lda;
    call.s = is_left ? p->a : p->b;
    call.lds = is_left ? p->lda : p->ldb;
    call.x = is_left ? p->b : p->a;
    call.x_down = is_plain ? 1 : ldx;
    call.x_across = is_plain ? ldx : 1;
    call.is_aligned = (uintptr_t)call.s % 16 == 0 && call.lds % 4 == 0 && call.rows % 4 == 0;
    call.is_even = (uintptr_t)call.x % 16 == 0 && call.x_down == 1 && call.x_across % 4 == 0;
    call.partial = p->work;
    int64_t across = gx_ceil_div(call.is_trans ? call.cols : call.rows, call.span);
    gx_cuda_dim block = {THREADS, 1, 1}, grid = {(unsigned)across, (unsigned)call.parts, 1};
    GX_TRY(gx_cuda_launch(dev, queue, GX_CUDA_NARROW_PRODUCT, GX_F32, grid, block, &call, err));
    gx_cuda_call sum = {.trans = is_left ? GX_NO_TRANS : GX_TRANS,
                        .part = GX_CUDA_ALL,
                        .m = call.is_trans ? call.cols : call.rows,
                        .n = call.few,
                        .alpha = {p->alpha.re, 0},
                        .beta = {p->beta.re, 0},
                        .a = call.partial,
                        .chunks = call.parts,
                        .c = p->c,
                        .ldc = p->ldc};
    return add_parts(dev, queue, dtype, &sum, err);
}

// Rank k ------------------------------------------------------------------------------------------

/* How many parts of how many columns; fewer than two: it is not worth it. */
static int64_t cut_rank_k(const gx_args *p, int64_t *chunk)
{
    const int64_t MOST = 512, LONG = 8, LEAST = 256, EDGE = 64, PROCESSORS = 256;
    if (p->n <= 0 || p->n > MOST || p->k < LONG * p->n) {
        return 0;
    }
    int64_t tiles = gx_ceil_div(p->n, EDGE) * gx_ceil_div(p->n, EDGE);
    int64_t parts = gx_min(gx_ceil_div(PROCESSORS, tiles), p->k / LEAST);
    *chunk = gx_ceil_div(gx_ceil_div(p->k, gx_max(parts, 1)), EDGE) * EDGE;
    return parts < 2 ? 0 : gx_ceil_div(p->k, *chunk);
}

/* `count` products of `chunk` along k from part `first` on. */
static gx_code multiply_parts(gx_dev *dev, gx_queue *queue, gx_dtype dtype, gx_trans trans,
                              const gx_args *p, int64_t first, int64_t count, int64_t chunk,
                              int64_t step, gx_err *err)
{
    bool is_plain = p->transa == GX_NO_TRANS;
    gx_cuda_scalar one, zero;
    int64_t stride = is_plain ? step * p->lda : step;
    const void *a = gx_at(p->a, dtype, stride, 0, first);
    void *out = gx_at(p->work, dtype, p->n * p->n, 0, first);
    int status = dev->api->batch[dtype](
        queue->blas, is_plain ? GX_NO_TRANS : (int)trans, is_plain ? (int)trans : GX_NO_TRANS,
        p->n, p->n, chunk, gx_cuda_scalar_of(&one, dtype, (gx_scalar){1, 0}), a, p->lda, stride, a,
        p->lda, stride, gx_cuda_scalar_of(&zero, dtype, (gx_scalar){0, 0}), out, p->n,
        p->n * p->n, count);
    return gx_cublas_check(dev, status, "gemmStridedBatched", err);
}

gx_code gx_cuda_narrow_rank_k(gx_dev *dev, gx_queue *queue, gx_dtype dtype, bool is_hermitian,
                              const gx_args *p, bool *is_done, gx_err *err)
{
    int64_t chunk, parts = p->work == NULL ? 0 : cut_rank_k(p, &chunk);
    *is_done = parts > 0;
    if (!*is_done) {
        return GX_OK;
    }
    gx_trans trans = is_hermitian ? GX_CONJ_TRANS : GX_TRANS;
    int64_t whole = p->k / chunk, rest = p->k % chunk;
    GX_TRY(gx_cuda_blas(dev, queue, err));
    GX_TRY(multiply_parts(dev, queue, dtype, trans, p, 0, whole, chunk, chunk, err));
    if (rest > 0) {
        GX_TRY(multiply_parts(dev, queue, dtype, trans, p, whole, 1, rest, chunk, err));
    }
    gx_cuda_call sum = {.uplo = (int32_t)p->uplo,
                        .part = is_hermitian ? GX_CUDA_REAL_DIAGONAL : GX_CUDA_TRIANGLE,
                        .m = p->n,
                        .n = p->n,
                        .alpha = {p->alpha.re, is_hermitian ? 0 : p->alpha.im},
                        .beta = {p->beta.re, is_hermitian ? 0 : p->beta.im},
                        .a = p->work,
                        .chunks = parts,
                        .c = p->c,
                        .ldc = p->ldc};
    return add_parts(dev, queue, dtype, &sum, err);
}

size_t gx_cuda_narrow_bytes(gx_kernel_id kernel, gx_dtype dtype, const gx_args *args)
{
    gx_cuda_narrow narrow;
    int64_t chunk, elements = 0;
    if (kernel != GX_GEMM) {
        elements = cut_rank_k(args, &chunk) * args->n * args->n;
    } else if (cut_narrow(dtype, args, &narrow)) {
        elements = narrow.parts * narrow.few * (narrow.is_trans ? narrow.cols : narrow.rows);
    }
    return (size_t)elements * gx_dtype_bytes(dtype);
}
