/*
** The CUDA backend: kernels of our own.
**
** A launch is a name, a grid and one struct (cuda_kernels.h).  Grids are chosen here from the shape
** of the block alone: rows go across a thread block, so that a warp reads one run of memory, narrow
** blocks take several columns at once, and a block without gaps between its columns is one long
** column.
**
** A reduction is two launches and a copy of its doubles to the caller, which waits for the queue
** where the caller's memory is not pinned.  Its partial results are in `work`.
**
** Exchanges of rows are composed here to a permutation, up to GX_CUDA_ROWS rows a launch.
*/
#include "cuda.h"

#include "../core/base/random.h"

#include <string.h>

enum { THREADS = 256, WARP = 32, BLOCKS_MOST = 16384 };

static unsigned clamp(int64_t count, int64_t most)
{
    return (unsigned)gx_max(1, gx_min(count, most));
}

gx_code gx_cuda_launch(gx_dev *dev, gx_queue *queue, gx_cuda_function function, gx_number dtype,
                       gx_cuda_dim grid, gx_cuda_dim block, void *params, gx_err *err)
{
    void *list[] = {params};
    int status = dev->api->launch(dev->function[function][dtype], grid, block, list,
                                  (size_t)dev->room[function], queue->stream);
    return gx_cuda_check(dev, status, "cudaLaunchKernel", err);
}

void gx_cuda_shape(int64_t m, int64_t n, gx_cuda_dim *grid, gx_cuda_dim *block)
{
    *block = (gx_cuda_dim){WARP, 1, 1};
    *grid = (gx_cuda_dim){1, 1, 1};
    while (block->x < THREADS && block->x < m) {
        block->x *= 2;
    }
    block->y = n == 1 ? 1 : THREADS / block->x;
    grid->x = clamp(gx_ceil_div(m, (int64_t)block->x * 4), BLOCKS_MOST);
    grid->y = clamp(gx_ceil_div(n, block->y), gx_max(BLOCKS_MOST / grid->x, 1));
}

gx_cuda_call gx_cuda_call_of(const gx_args *p)
{
    return (gx_cuda_call){.trans = (int32_t)p->transa,
                          .uplo = (int32_t)p->uplo,
                          .diag = (int32_t)p->diag,
                          .m = p->m,
                          .n = p->n,
                          .alpha = {p->alpha.re, p->alpha.im},
                          .beta = {p->beta.re, p->beta.im},
                          .a = p->a,
                          .lda = p->lda,
                          .c = p->c,
                          .ldc = p->ldc};
}

gx_code gx_cuda_over_block(gx_dev *dev, gx_queue *queue, gx_cuda_function function, gx_number dtype,
                           gx_cuda_call *call, gx_err *err)
{
    if (call->m <= 0 || call->n <= 0) {
        return GX_OK;
    }
    gx_cuda_dim block, grid;
    gx_cuda_shape(call->m, call->n, &grid, &block);
    return gx_cuda_launch(dev, queue, function, dtype, grid, block, call, err);
}

// Elementwise -------------------------------------------------------------------------------------

/* operands: how many of a, b, b2 the kernel reads. */
static gx_code walk(gx_dev *dev, gx_queue *queue, gx_kernel_id kernel, int operands,
                    gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_cuda_call call = gx_cuda_call_of(p);
    call.kernel = kernel;
    call.kind = (int32_t)p->map;
    call.b = operands > 1 ? (void *)(uintptr_t)p->b : NULL;
    call.ldb = p->ldb;
    call.tau = operands > 2 ? p->b2 : NULL;
    call.lines = p->ldb2;
    bool is_flat = p->ldc == p->m && (operands < 1 || p->lda == p->m) &&
                   (operands < 2 || p->ldb == p->m) && (operands < 3 || p->ldb2 == p->m);
    if (is_flat && p->n > 1) {
        call.m *= p->n; // nothing lies between the columns
        call.n = 1;
    }
    return gx_cuda_over_block(dev, queue, GX_CUDA_MAP, dtype, &call, err);
}

static gx_code fill(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    return walk(dev, queue, GX_FILL, 0, dtype, p, err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_fill, fill)

static gx_code copy(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    return walk(dev, queue, GX_COPY, 1, dtype, p, err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_copy, copy)

static gx_code map(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_number result;
    GX_TRY(gx_map_dtype(p->map, dtype, &result, err));
    return walk(dev, queue, GX_MAP, gx_map_row(p->map)->operands, dtype, p, err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_map, map)

static gx_code one_hot(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_cuda_call call = gx_cuda_call_of(p);
    gx_cuda_dim block = {THREADS, 1, 1}, grid = {1, 1, 1};
    (void)dtype;
    call.b = (void *)(uintptr_t)p->b;
    call.ldb = p->ldb;
    grid.x = clamp(gx_ceil_div(p->m, THREADS), BLOCKS_MOST);
    return p->m <= 0 || p->n <= 0
               ? GX_OK
               : gx_cuda_launch(dev, queue, GX_CUDA_ONE_HOT, GX_F64, grid, block, &call, err);
}
GX_CUDA_SLOT(gx_cuda_one_hot, f64, GX_F64, one_hot)

// Transposes and triangles ------------------------------------------------------------------------

/* Kernels that walk tiles of 32 x 32 with 32 x 8 threads. */
static gx_code over_tiles(gx_dev *dev, gx_queue *queue, gx_cuda_function function, gx_number dtype,
                          gx_cuda_call *call, gx_err *err)
{
    if (call->m <= 0 || call->n <= 0) {
        return GX_OK;
    }
    gx_cuda_dim block = {WARP, THREADS / WARP, 1}, grid = {1, 1, 1};
    grid.x = clamp(gx_ceil_div(call->m, WARP), BLOCKS_MOST);
    grid.y = clamp(gx_ceil_div(call->n, WARP), BLOCKS_MOST);
    return gx_cuda_launch(dev, queue, function, dtype, grid, block, call, err);
}

gx_code gx_cuda_copy(gx_dev *dev, gx_queue *queue, gx_number dtype, gx_trans trans, int64_t m,
                     int64_t n, const void *a, int64_t lda, void *c, int64_t ldc, gx_err *err)
{
    if (trans == GX_NO_TRANS) {
        gx_args args = {.m = m, .n = n, .a = a, .lda = lda, .c = c, .ldc = ldc};
        return walk(dev, queue, GX_COPY, 1, dtype, &args, err);
    }
    gx_cuda_call call = {
        .trans = (int32_t)trans, .m = m, .n = n, .a = a, .lda = lda, .c = c, .ldc = ldc};
    return over_tiles(dev, queue, GX_CUDA_TRANSPOSE, dtype, &call, err);
}

static gx_code transpose(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p,
                         gx_err *err)
{
    return gx_cuda_copy(dev, queue, dtype, p->transa, p->m, p->n, p->a, p->lda, p->c, p->ldc, err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_transpose, transpose)

static gx_code symmetrize(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p,
                          gx_err *err)
{
    gx_cuda_call call = gx_cuda_call_of(p);
    call.m = p->n;
    return over_tiles(dev, queue, GX_CUDA_SYMMETRIZE, dtype, &call, err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_symmetrize, symmetrize)

gx_code gx_cuda_region(gx_dev *dev, gx_queue *queue, gx_number dtype, gx_cuda_part part,
                       gx_uplo uplo, int64_t m, int64_t n, gx_scalar beta, void *c, int64_t ldc,
                       gx_err *err)
{
    gx_cuda_call call = {.part = (int32_t)part,
                         .uplo = (int32_t)uplo,
                         .m = m,
                         .n = n,
                         .beta = {beta.re, beta.im},
                         .c = c,
                         .ldc = ldc};
    return gx_cuda_over_block(dev, queue, GX_CUDA_REGION, dtype, &call, err);
}

gx_code gx_cuda_triangle(gx_dev *dev, gx_queue *queue, gx_number dtype, gx_cuda_part part,
                         gx_uplo uplo, gx_diag diag, int64_t m, int64_t n, const void *a,
                         int64_t lda, void *c, int64_t ldc, gx_err *err)
{
    gx_cuda_call call = {.part = (int32_t)part,
                         .uplo = (int32_t)uplo,
                         .diag = (int32_t)diag,
                         .m = m,
                         .n = n,
                         .a = a,
                         .lda = lda,
                         .c = c,
                         .ldc = ldc};
    return gx_cuda_over_block(dev, queue, GX_CUDA_TRIANGLES, dtype, &call, err);
}

static gx_code triangle(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p,
                        gx_err *err)
{
    gx_cuda_call call = gx_cuda_call_of(p);
    call.part = GX_CUDA_ALL;
    return gx_cuda_over_block(dev, queue, GX_CUDA_TRIANGLES, dtype, &call, err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_triangle, triangle)

// Exchanges of rows -------------------------------------------------------------------------------

/* Where in the list row is a target; added with itself as its source where it is not. */
static int64_t place_of(gx_cuda_rows *rows, int64_t row)
{
    for (int64_t i = rows->count - 1; i >= 0; i--) {
        if (rows->target[i] == row) {
            return i;
        }
    }
    rows->target[rows->count] = rows->source[rows->count] = row;
    return rows->count++;
}

static gx_code move_rows(gx_dev *dev, gx_queue *queue, gx_number dtype, gx_cuda_rows *rows,
                         gx_err *err)
{
    gx_code code = GX_OK;
    if (rows->count > 0) {
        gx_cuda_dim block = {clamp(gx_ceil_div(rows->count, WARP) * WARP, GX_CUDA_ROWS), 1, 1};
        gx_cuda_dim grid = {clamp(rows->n, BLOCKS_MOST), 1, 1};
        code = gx_cuda_launch(dev, queue, GX_CUDA_MOVE_ROWS, dtype, grid, block, rows, err);
    }
    rows->count = 0;
    return code;
}

static gx_code laswp(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    if (p->n <= 0) {
        return GX_OK;
    }
    gx_cuda_rows rows = {.c = p->c, .ldc = p->ldc, .n = p->n};
    for (int64_t q = p->pivot_first; q < p->pivot_last; q++) {
        int64_t j = p->is_backward ? p->pivot_first + p->pivot_last - 1 - q : q;
        if (p->pivots[j] == j) {
            continue;
        }
        if (rows.count + 2 > GX_CUDA_ROWS) {
            GX_TRY(move_rows(dev, queue, dtype, &rows, err));
        }
        int64_t x = place_of(&rows, p->row_offset + j);
        int64_t y = place_of(&rows, p->row_offset + p->pivots[j]);
        int64_t source = rows.source[x];
        rows.source[x] = rows.source[y];
        rows.source[y] = source;
    }
    return move_rows(dev, queue, dtype, &rows, err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_laswp, laswp)

// Conversion, random numbers ----------------------------------------------------------------------

static gx_code convert(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_cuda_call call = gx_cuda_call_of(p);
    call.from = (int32_t)p->from;
    call.to = (int32_t)dtype;
    return gx_cuda_over_block(dev, queue, GX_CUDA_CONVERT, dtype, &call, err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_convert, convert)

static gx_code make_random(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p,
                           gx_err *err)
{
    const gx_random *random = p->random;
    if (p->m <= 0 || p->n <= 0) {
        return GX_OK;
    }
    gx_cuda_random call = {.kind = (int32_t)random->kind,
                           .dtype = (int32_t)random->dtype,
                           .to = (int32_t)dtype,
                           .seed = random->seed,
                           .offset = random->offset,
                           .scale = random->scale,
                           .largest = random->largest,
                           .i0 = p->first_row,
                           .j0 = p->first_col,
                           .m = p->m,
                           .n = p->n,
                           .c = p->c,
                           .ldc = p->ldc};
    gx_cuda_dim block = {THREADS, 1, 1}, grid = {1, 1, 1};
    grid.x = clamp(gx_ceil_div(p->m, THREADS), BLOCKS_MOST);
    grid.y = clamp(p->n, BLOCKS_MOST);
    return gx_cuda_launch(dev, queue, GX_CUDA_RANDOM, dtype, grid, block, &call, err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_random, make_random)

// Reductions --------------------------------------------------------------------------------------

/* How a reduction is shared out: by the block's shape alone. */
typedef struct sharing {
    int64_t chunks, lines;
    int64_t partial; /* doubles of partial results                    */
    int64_t width;   /* doubles of the result                          */
    bool is_by_row, is_by_col;
} sharing;

/* Lanes that keep a large device busy. */
enum { LANES = 1 << 20, ALL_CHUNKS = 2048, PIECE = 1024, WARPS = 8 };

static sharing share_out(const gx_args *p)
{
    gx_reduce_kind kind = p->reduce_kind;
    sharing s = {.chunks = 1, .lines = 1, .width = gx_reduce_width(kind, p->m, p->n)};
    s.is_by_col = kind == GX_REDUCE_COL_ABS || kind == GX_REDUCE_COL_SUM;
    s.is_by_row = kind == GX_REDUCE_ROW_ABS || kind == GX_REDUCE_ROW_SUM;
    int64_t per_result = kind == GX_REDUCE_COL_SUM || kind == GX_REDUCE_ROW_SUM ? 2 : 1;
    if (s.is_by_col) {
        s.lines = gx_max(p->n, 0);
        s.chunks = gx_min(LANES / WARP / gx_max(s.lines, 1), gx_ceil_div(gx_max(p->m, 0), PIECE));
    } else if (s.is_by_row) {
        s.lines = gx_max(p->m, 0);
        s.chunks = gx_min(LANES / gx_max(s.lines, 1), gx_ceil_div(gx_max(p->n, 0), WARP));
    } else {
        int64_t pieces = gx_max(gx_ceil_div(gx_max(p->m, 0), PIECE), 1) * gx_max(p->n, 1);
        s.chunks = gx_min(ALL_CHUNKS, gx_ceil_div(pieces, WARPS));
        per_result = 3;
    }
    s.chunks = gx_max(s.chunks, 1);
    s.partial = s.chunks * s.lines * per_result;
    return s;
}

size_t gx_cuda_reduce_bytes(const gx_args *args)
{
    sharing s = share_out(args);
    return (size_t)(s.partial + s.width) * sizeof(double);
}

/* A reduction in args->work, enqueued; *out is where the result is then, on the device. */
static gx_code reduce_to(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p,
                         double **out, gx_err *err)
{
    sharing s = share_out(p);
    gx_cuda_call call = {.kind = (int32_t)p->reduce_kind,
                         .m = gx_max(p->m, 0),
                         .n = gx_max(p->n, 0),
                         .a = p->a,
                         .lda = p->lda,
                         .partial = p->work,
                         .chunks = s.chunks,
                         .lines = s.lines,
                         .out = (double *)p->work + s.partial};
    gx_cuda_dim block = {THREADS, 1, 1}, grid = {1, 1, 1}, grid_end = {1, 1, 1};
    if (s.is_by_row) {
        grid.x = clamp(gx_ceil_div(s.lines, THREADS), BLOCKS_MOST);
        grid.y = clamp(s.chunks, BLOCKS_MOST);
    } else {
        grid.x =
            clamp(s.is_by_col ? gx_ceil_div(s.chunks * s.lines, WARPS) : s.chunks, BLOCKS_MOST);
    }
    if (s.is_by_row || s.is_by_col) {
        grid_end.x = clamp(gx_ceil_div(s.lines, THREADS), BLOCKS_MOST);
    }
    *out = call.out;
    GX_TRY(gx_cuda_launch(dev, queue, GX_CUDA_REDUCE, dtype, grid, block, &call, err));
    return gx_cuda_launch(dev, queue, GX_CUDA_REDUCE_END, GX_F64, grid_end, block, &call, err);
}

gx_code gx_cuda_reduce_end(gx_dev *dev, gx_queue *queue, gx_reduce_kind kind, int64_t chunks,
                           double *partial, double *out, gx_err *err)
{
    gx_cuda_call call = {.kind = (int32_t)kind,
                         .m = 1,
                         .n = 1,
                         .partial = partial,
                         .chunks = chunks,
                         .lines = 1,
                         .out = out};
    gx_cuda_dim block = {THREADS, 1, 1}, grid = {1, 1, 1};
    return gx_cuda_launch(dev, queue, GX_CUDA_REDUCE_END, GX_F64, grid, block, &call, err);
}

static gx_code reduce(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    bool is_order = p->reduce_kind == GX_REDUCE_MIN || p->reduce_kind == GX_REDUCE_MAX;
    if ((unsigned)p->reduce_kind >= GX_REDUCE_KIND_COUNT ||
        (is_order && gx_number_is_complex(dtype))) {
        return gx_fail(err, GX_UNSUPPORTED, "complex numbers have no smallest or largest element");
    }
    int64_t width = gx_reduce_width(p->reduce_kind, p->m, p->n);
    if (width == 0) {
        return GX_OK;
    }
    double *out;
    GX_TRY(reduce_to(dev, queue, dtype, p, &out, err));
    return gx_cuda_fetch(dev, queue, p->reduce, out, (size_t)width * sizeof(double), err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_reduce, reduce)

// Scales ------------------------------------------------------------------------------------------

size_t gx_cuda_measure_bytes(int64_t m, int64_t n)
{
    gx_args args = {.m = m, .n = n, .reduce_kind = GX_REDUCE_MAX_ABS};
    return gx_cuda_round(gx_cuda_reduce_bytes(&args));
}

gx_code gx_cuda_measure(gx_dev *dev, gx_queue *queue, gx_number dtype, int64_t m, int64_t n,
                        const void *c, int64_t ldc, void *work, const double **largest, gx_err *err)
{
    gx_args args = {
        .m = m, .n = n, .a = c, .lda = ldc, .reduce_kind = GX_REDUCE_MAX_ABS, .work = work};
    double *out = NULL;
    gx_code code = reduce_to(dev, queue, dtype, &args, &out, err);
    *largest = out;
    return code;
}

gx_code gx_cuda_rescale(gx_dev *dev, gx_queue *queue, gx_number dtype, bool is_back,
                        const double *largest, int64_t m, int64_t n, void *c, int64_t ldc,
                        gx_err *err)
{
    gx_cuda_call call = {
        .kind = is_back ? 1 : 0, .m = m, .n = n, .a = largest, .lda = 1, .c = c, .ldc = ldc};
    return gx_cuda_over_block(dev, queue, GX_CUDA_RESCALE, dtype, &call, err);
}
