/*
** The CUDA backend: products that cuBLAS leaves to a few of the processors, in parts.
**
** The sum over the long side is cut into parts, so many that there is work for a large device, each
** with a result of its own in args->work, and gx_parts adds these up, in their order: the same bits
** on every run.  How many there are depends on the shape alone.
**
**   few columns   or rows, of real dtypes: kernels of our own (cuda_narrow.cu).  On an H200, whose
**                 memory copies at 4.2 TB/s, cuBLAS reads the large matrix at 1.7 to 2.5 for 2 to
**                 16 of f32, at 0.8 for one, transposed, of 2^32 elements, and at 3.6 for 2 to 8 of
**                 f64, plain.  For what else there is of f64 it does as well as ours.
**   17 to 64      of f32, on Hopper: tensor cores, with the accuracy of f32 (cuda_narrow_split.cu),
**                 for there arithmetic bounds cuBLAS (decision 047).  What it makes of x lies in
**                 work, before the parts.
**   rank k        A^H A of few, long columns, or A A^H: cuBLAS's syrk sums in one thread block what
**                 one thread block holds of the result.  Parts are products of a batch by cuBLAS.
**
** Who gives no `work` (products within other kernels) gets cuBLAS's own.
*/
#include "cuda.h"

/* ROUND: thread blocks that a large device works on at once, of narrow products. */
enum { ROUND = 264, THREADS = 256 };

/* c = beta c + alpha (the sum of the parts), each m x n without gaps. */
static gx_code add_parts(gx_dev *dev, gx_queue *queue, gx_number dtype, gx_cuda_call *call,
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

/*
** Thread blocks of span x chunk elements: whole rounds of them, and few, for while a round begins
** and ends less is read, and parts are results that are read again.
*/
static void cut_blocks(gx_cuda_narrow *p, int64_t element, int64_t side, int64_t k)
{
    const int64_t SPAN_STEP = 32, ENOUGH = 1 << 20, ROUNDS = 8; // bytes to a block; usual rounds
    int64_t width = p->few > GX_CUDA_NARROW / 2 ? GX_CUDA_NARROW : GX_CUDA_NARROW / 2;
    int64_t step = p->is_trans ? GX_CUDA_NARROW_STEP : 16; // of a chunk
    int64_t least = gx_ceil_div(k, GX_CUDA_NARROW_ROOM / width / element);
    int64_t across = gx_ceil_div(side, p->is_trans ? SPAN_STEP : GX_CUDA_NARROW_ROWS); // at most
    int64_t rounds = gx_ceil_div(p->is_trans ? least : least * across, ROUND);
    rounds = gx_max(rounds, gx_min(side * k / (ROUND * ENOUGH / element), ROUNDS));
    p->parts = gx_min(gx_max(rounds * ROUND / across, least), gx_max(least, k / step));
    int64_t span = gx_ceil_div(side, gx_max(1, rounds * ROUND / p->parts));
    p->span = p->is_trans ? gx_ceil_div(span, SPAN_STEP) * SPAN_STEP : GX_CUDA_NARROW_ROWS;
    p->chunk = gx_ceil_div(gx_ceil_div(k, p->parts), step) * step;
    p->parts = gx_ceil_div(k, p->chunk);
}

/* Columns or rows whose product cuBLAS leaves to us. */
static bool is_few(gx_number dtype, int64_t few, bool is_trans)
{
    if (dtype == GX_F32) {
        return few >= 1 && few <= GX_CUDA_NARROW;
    }
    return dtype == GX_F64 && !is_trans && few >= 2 && few <= GX_CUDA_NARROW / 2;
}

/* One thread block a processor, with as many steps as the others. */
static void cut_steps(gx_cuda_narrow *p, int64_t side, int64_t k)
{
    const int64_t PROCESSORS = 132, LEAST_STEPS = 8;
    int64_t steps = gx_ceil_div(k, GX_CUDA_SPLIT_STEP);
    int64_t all = gx_ceil_div(side, GX_CUDA_SPLIT_ROWS) * steps;
    p->span = GX_CUDA_SPLIT_ROWS;
    p->chunk = gx_max(gx_ceil_div(all, PROCESSORS), LEAST_STEPS);
    p->parts = p->chunk % steps == 0 ? 1 : gx_ceil_div(steps - 1, p->chunk) + 1;
}

static int64_t side_of(const gx_cuda_narrow *p)
{
    return p->is_trans ? p->cols : p->rows;
}

static int64_t steps_of(const gx_cuda_narrow *p)
{
    return gx_ceil_div(p->is_trans ? p->rows : p->cols, GX_CUDA_SPLIT_STEP);
}

/* How a product is cut, and for which kernel; false: it is not for these. */
static bool cut_narrow(const gx_dev *dev, gx_number dtype, const gx_args *p,
                       gx_cuda_function *function, gx_cuda_narrow *out)
{
    const int64_t LEAST_SIDE = 64, LEAST_BYTES = 4 << 20, MOST_PARTS = 65535;
    const int64_t SPLIT_BYTES = 16 << 20; // from here on it beats cuBLAS
    const int64_t MOST_SIDE = INT32_MAX - GX_CUDA_NARROW_ROWS; // a block may begin before its end
    int64_t element = (int64_t)gx_number_bytes(dtype);
    bool is_left = p->n <= p->m; // the large matrix is a
    bool is_trans = is_left ? p->transa != GX_NO_TRANS : p->transb == GX_NO_TRANS;
    int64_t few = gx_min(p->m, p->n), side = gx_max(p->m, p->n), k = p->k;
    bool is_split = dtype == GX_F32 && few > GX_CUDA_NARROW && few <= GX_CUDA_SPLIT &&
                    dev->function[GX_CUDA_NARROW_SPLIT][GX_F32] != NULL;
    int64_t least = is_split ? SPLIT_BYTES : LEAST_BYTES;
    if (!(is_split || is_few(dtype, few, is_trans)) || side < LEAST_SIDE || k < LEAST_SIDE ||
        side > MOST_SIDE || k > MOST_SIDE || side * k < least / element) {
        return false;
    }
    *function = is_split ? GX_CUDA_NARROW_SPLIT : GX_CUDA_NARROW_PRODUCT;
    *out = (gx_cuda_narrow){.is_trans = is_trans,
                            .few = (int32_t)few,
                            .rows = is_trans ? k : side,
                            .cols = is_trans ? side : k};
    if (is_split) {
        cut_steps(out, side, k);
    } else {
        cut_blocks(out, element, side, k);
    }
    return out->parts <= MOST_PARTS && out->chunk <= INT32_MAX;
}

/* The pieces of x. */
static gx_code make_pieces(gx_dev *dev, gx_queue *queue, gx_cuda_narrow *call, gx_err *err)
{
    const int64_t IMAGE_THREADS = 256;
    gx_cuda_dim block = {(unsigned)IMAGE_THREADS, 1, 1}, grid = {(unsigned)steps_of(call), 1, 1};
    return gx_cuda_launch(dev, queue, GX_CUDA_NARROW_IMAGE, GX_F32, grid, block, call, err);
}

/* The product's parts, behind the pieces of x. */
static gx_code multiply_split(gx_dev *dev, gx_queue *queue, gx_cuda_narrow *call, gx_err *err)
{
    int64_t across = gx_ceil_div(side_of(call), call->span), steps = steps_of(call);
    call->image = call->partial;
    call->partial = (char *)call->image + steps * GX_CUDA_SPLIT_IMAGE;
    GX_TRY(make_pieces(dev, queue, call, err));
    gx_cuda_dim block = {GX_CUDA_SPLIT_THREADS, 1, 1}, grid = {1, 1, 1};
    grid.x = (unsigned)gx_ceil_div(across * steps, call->chunk);
    return gx_cuda_launch(dev, queue, GX_CUDA_NARROW_SPLIT, GX_F32, grid, block, call, err);
}

gx_code gx_cuda_narrow_gemm(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p,
                            bool *is_done, gx_err *err)
{
    gx_cuda_narrow call;
    gx_cuda_function function;
    *is_done = p->work != NULL && cut_narrow(dev, dtype, p, &function, &call);
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
    int64_t piece = 16 / (int64_t)gx_number_bytes(dtype); // loaded at once
    bool is_whole = function == GX_CUDA_NARROW_SPLIT || call.rows % piece == 0;
    call.is_aligned = (uintptr_t)call.s % 16 == 0 && call.lds % piece == 0 && is_whole;
    call.partial = p->work;
    if (function == GX_CUDA_NARROW_SPLIT) {
        GX_TRY(multiply_split(dev, queue, &call, err));
    } else {
        int64_t across = gx_ceil_div(side_of(&call), call.span);
        gx_cuda_dim block = {THREADS, 1, 1}, grid = {(unsigned)across, (unsigned)call.parts, 1};
        GX_TRY(gx_cuda_launch(dev, queue, function, dtype, grid, block, &call, err));
    }
    gx_cuda_call sum = {.trans = is_left ? GX_NO_TRANS : GX_TRANS,
                        .part = GX_CUDA_ALL,
                        .m = side_of(&call),
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
static gx_code multiply_parts(gx_dev *dev, gx_queue *queue, gx_number dtype, gx_trans trans,
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

gx_code gx_cuda_narrow_rank_k(gx_dev *dev, gx_queue *queue, gx_number dtype, bool is_hermitian,
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

size_t gx_cuda_narrow_bytes(const gx_dev *dev, gx_kernel_id kernel, gx_number dtype,
                            const gx_args *args)
{
    gx_cuda_narrow narrow;
    gx_cuda_function function;
    int64_t chunk, elements = 0, image = 0;
    if (kernel != GX_GEMM) {
        elements = cut_rank_k(args, &chunk) * args->n * args->n;
    } else if (cut_narrow(dev, dtype, args, &function, &narrow)) {
        elements = narrow.parts * narrow.few * side_of(&narrow);
        bool is_split = function == GX_CUDA_NARROW_SPLIT;
        image = is_split ? steps_of(&narrow) * GX_CUDA_SPLIT_IMAGE : 0;
    }
    return (size_t)elements * gx_number_bytes(dtype) + (size_t)image;
}
