/*
** The CUDA backend: whole numbers modulo 2^31 - 1, or another prime below 2^31.
**
** A product is ten products of bytes, by cuBLAS on tensor cores: the operands modulo ten numbers
** up to 256, and the result of its residues (gx_cuda_field of cuda_kernels.h).  It goes by panels
** of c and of the inner dimension, so that planes of bytes stay small beside the operands.
*/
#include "cuda.h"

#include "../core/base/circle.h"

/* Sides of a panel; what tensor cores like sides to be multiples of. */
enum { SIDE = 4096, DEPTH = 8192, THREADS = 256, TILE = 32, BLOCKS = 65535 };

/* The planes of a panel: bytes of a and b, 32-bit sums. */
typedef struct planes {
    int64_t m, n, k; /* sides, of whole grains */
    int8_t *a, *b;
    int32_t *sums;
} planes;

static size_t take_planes(const gx_args *p, char *work, planes *s)
{
    s->m = gx_cuda_grains(gx_min(p->m, SIDE));
    s->n = gx_cuda_grains(gx_min(p->n, SIDE));
    s->k = gx_cuda_grains(gx_min(p->k, DEPTH));
    size_t a = gx_cuda_round((size_t)(GX_CUDA_PLANES * s->k * s->m));
    size_t b = gx_cuda_round((size_t)(GX_CUDA_PLANES * s->k * s->n));
    size_t sums = gx_cuda_round((size_t)(GX_CUDA_PLANES * s->m * s->n) * sizeof(int32_t));
    if (work != NULL) {
        s->a = (int8_t *)work;
        s->b = (int8_t *)(work + a);
        s->sums = (int32_t *)(void *)(work + a + b);
    }
    return a + b + sums;
}

size_t gx_cuda_field_bytes(const gx_args *args)
{
    planes s;
    return args->m <= 0 || args->n <= 0 || args->k <= 0 ? 0 : take_planes(args, NULL, &s);
}

static uint32_t modulus_of(const gx_args *p)
{
    return p->modulus == 0 ? GX_M31_P : p->modulus;
}

static gx_code launch(gx_dev *dev, gx_queue *queue, gx_cuda_function function, gx_cuda_field *call,
                      gx_err *err)
{
    // Tiles of 32 columns; of a pack, 128 rows.
    int64_t down = function == GX_CUDA_FIELD_PACK ? 4 * TILE : TILE;
    gx_cuda_dim block = {TILE, THREADS / TILE, 1}, grid = {1, 1, 1};
    grid.x = (unsigned)gx_max(1, gx_min(gx_ceil_div(call->m, down), BLOCKS));
    grid.y = (unsigned)gx_max(1, gx_min(gx_ceil_div(call->n, TILE), BLOCKS));
    return gx_cuda_launch(dev, queue, function, GX_F64, grid, block, call, err);
}

// Elements ----------------------------------------------------------------------------------------

static gx_code walk(gx_dev *dev, gx_queue *queue, gx_kernel_id kernel, const gx_args *p,
                    gx_err *err)
{
    gx_cuda_field call = {.kernel = (int32_t)kernel,
                          .kind = (int32_t)p->map,
                          .p = GX_M31_P,
                          .alpha = gx_m31_of(p->alpha.re),
                          .beta = gx_m31_of(p->beta.re),
                          .m = p->m,
                          .n = p->n,
                          .a = p->a,
                          .lda = p->lda,
                          .b = p->b,
                          .ldb = p->ldb,
                          .b2 = p->b2,
                          .ldb2 = p->ldb2,
                          .c = p->c,
                          .ldc = p->ldc};
    if (p->m <= 0 || p->n <= 0) {
        return GX_OK;
    }
    return launch(dev, queue, GX_CUDA_FIELD_MAP, &call, err);
}

static gx_code fill(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    (void)dtype;
    return walk(dev, queue, GX_FILL, p, err);
}
GX_CUDA_SLOT(gx_cuda_fill, m31, GX_M31, fill)

static gx_code copy(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    (void)dtype;
    return walk(dev, queue, GX_COPY, p, err);
}
GX_CUDA_SLOT(gx_cuda_copy, m31, GX_M31, copy)

static gx_code map(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_number result;
    GX_TRY(gx_map_dtype(p->map, dtype, &result, err));
    if (gx_field_divides_by(p->map) >= 0) {
        return gx_fail(err, GX_UNSUPPORTED, "cuda has no %s for m31", gx_map_row(p->map)->name);
    }
    return walk(dev, queue, GX_MAP, p, err);
}
GX_CUDA_SLOT(gx_cuda_map, m31, GX_M31, map)

static gx_code transpose(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p,
                         gx_err *err)
{
    (void)dtype;
    if (p->transa == GX_NO_TRANS) {
        return walk(dev, queue, GX_COPY, p, err);
    }
    gx_cuda_field call = {.m = p->m, .n = p->n, .a = p->a, .lda = p->lda, .c = p->c, .ldc = p->ldc};
    return p->m <= 0 || p->n <= 0 ? GX_OK : launch(dev, queue, GX_CUDA_FIELD_TRANSPOSE, &call, err);
}
GX_CUDA_SLOT(gx_cuda_transpose, m31, GX_M31, transpose)

// Products ----------------------------------------------------------------------------------------

/* One operand's planes: k along their columns.  rows x cols of it are there. */
static gx_code pack(gx_dev *dev, gx_queue *queue, uint32_t p, uint32_t alpha, bool is_turned,
                    const uint32_t *x, int64_t ld, int64_t rows, int64_t cols, int8_t *to,
                    gx_err *err)
{
    gx_cuda_field call = {.is_turned = is_turned,
                          .p = p,
                          .alpha = alpha,
                          .m = gx_cuda_grains(rows),
                          .n = gx_cuda_grains(cols),
                          .k = gx_cuda_grains(rows),
                          .rows = rows,
                          .cols = cols,
                          .a = x,
                          .lda = ld,
                          .planes = to,
                          .ldp = gx_cuda_grains(rows),
                          .plane = gx_cuda_grains(rows) * gx_cuda_grains(cols)};
    return launch(dev, queue, GX_CUDA_FIELD_PACK, &call, err);
}

/* Ten products of bytes, and their residues into c: c = that + beta c. */
static gx_code multiply(gx_dev *dev, gx_queue *queue, const planes *s, uint32_t p, uint32_t beta,
                        int64_t m, int64_t n, int64_t k, uint32_t *c, int64_t ldc, gx_err *err)
{
    int64_t mp = gx_cuda_grains(m), np = gx_cuda_grains(n), kp = gx_cuda_grains(k);
    for (int q = 0; q < GX_CUDA_PLANES; q++) {
        GX_TRY(gx_cuda_gemm_i8(dev, queue, mp, np, kp, s->a + q * kp * mp, s->b + q * kp * np,
                               s->sums + q * mp * np, err));
    }
    gx_cuda_field call = {.p = p,
                          .beta = beta,
                          .m = m,
                          .n = n,
                          .c = c,
                          .ldc = ldc,
                          .planes = s->sums,
                          .ldp = mp,
                          .plane = mp * np};
    return launch(dev, queue, GX_CUDA_FIELD_JOIN, &call, err);
}

/* Where element (i, l) of op(x) is. */
static const uint32_t *element(const void *x, int64_t ld, gx_trans trans, int64_t i, int64_t l)
{
    return trans == GX_NO_TRANS ? gx_at(x, GX_M31, ld, i, l) : gx_at(x, GX_M31, ld, l, i);
}

static gx_code gemm(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    (void)dtype;
    uint32_t modulus = modulus_of(p), alpha = gx_field_of((int64_t)p->alpha.re, modulus);
    uint32_t beta = gx_field_of((int64_t)p->beta.re, modulus);
    if (p->m <= 0 || p->n <= 0) {
        return GX_OK;
    }
    if (p->k <= 0 || alpha == 0) {
        gx_args scale = {.map = GX_MAP_SCALE,
                         .alpha = p->beta,
                         .m = p->m,
                         .n = p->n,
                         .a = p->c,
                         .lda = p->ldc,
                         .c = p->c,
                         .ldc = p->ldc};
        return walk(dev, queue, beta == 0 ? GX_FILL : GX_MAP, &scale, err);
    }
    planes s = {0};
    take_planes(p, p->work, &s);
    for (int64_t i = 0; i < p->m; i += SIDE) {
        int64_t m = gx_min(SIDE, p->m - i);
        for (int64_t l = 0; l < p->k; l += DEPTH) {
            int64_t k = gx_min(DEPTH, p->k - l);
            GX_TRY(pack(dev, queue, modulus, 1, p->transa == GX_NO_TRANS,
                        element(p->a, p->lda, p->transa, i, l), p->lda, k, m, s.a, err));
            for (int64_t j = 0; j < p->n; j += SIDE) {
                int64_t n = gx_min(SIDE, p->n - j);
                GX_TRY(pack(dev, queue, modulus, alpha, p->transb != GX_NO_TRANS,
                            element(p->b, p->ldb, p->transb, l, j), p->ldb, k, n, s.b, err));
                GX_TRY(multiply(dev, queue, &s, modulus, l > 0 ? 1 : beta, m, n, k,
                                gx_at(p->c, GX_M31, p->ldc, i, j), p->ldc, err));
            }
        }
    }
    return GX_OK;
}
GX_CUDA_SLOT(gx_cuda_gemm, m31, GX_M31, gemm)

// Circle transforms -------------------------------------------------------------------------------

/* Threads for so many elements. */
static gx_code launch_circle(gx_dev *dev, gx_queue *queue, gx_cuda_function function,
                             gx_cuda_circle *call, int64_t blocks, gx_err *err)
{
    gx_cuda_dim block = {GX_CUDA_CIRCLE_THREADS, 1, 1}, grid = {(unsigned)blocks, 1, 1};
    grid.y = function >= GX_CUDA_CIRCLE_PASS ? (unsigned)gx_min(call->n, BLOCKS) : 1;
    return gx_cuda_launch(dev, queue, function, GX_F64, grid, block, call, err);
}

static gx_code make_twiddles(gx_dev *dev, gx_queue *queue, gx_cuda_circle *call, gx_err *err)
{
    int64_t count = (int64_t)1 << call->log;
    int64_t blocks = gx_max(1, gx_min(count / 4 / GX_CUDA_CIRCLE_THREADS, BLOCKS));
    gx_circle_points(call->x, call->y);
    GX_TRY(launch_circle(dev, queue, GX_CUDA_CIRCLE_FIRST, call, blocks, err));
    GX_TRY(launch_circle(dev, queue, GX_CUDA_CIRCLE_UP, call, blocks, err));
    return call->is_back ? launch_circle(dev, queue, GX_CUDA_CIRCLE_INVERT, call, blocks, err)
                         : GX_OK;
}

/* Layers of the lowest pass, whose tiles are runs, and of each other one. */
typedef struct passes {
    int lowest, upper, others; /* others: how many of upper layers, the last maybe of fewer */
} passes;

static passes passes_of(int log)
{
    enum { LOWEST = 12, MOST = 7 };
    int upper = log > LOWEST ? log - LOWEST : 0, others = (upper + MOST - 1) / MOST;
    return (passes){log - upper, others == 0 ? 0 : (upper + others - 1) / others, others};
}

/* One layer, between two blocks. */
static gx_code circle_pair(gx_dev *dev, gx_queue *queue, const gx_args *p, gx_err *err)
{
    bool is_right = p->side == GX_RIGHT;
    gx_cuda_circle call = {.is_back = p->is_backward,
                           .scale = (uint32_t)p->pivot_first,
                           .m = p->m,
                           .n = p->n,
                           .c = is_right ? p->c2 : p->c,
                           .c2 = is_right ? p->c : p->c2,
                           .ldc = is_right ? p->ldc2 : p->ldc,
                           .ldc2 = is_right ? p->ldc : p->ldc2};
    int64_t blocks = gx_ceil_div(p->m, 4 * GX_CUDA_CIRCLE_THREADS);
    return p->m <= 0 || p->n <= 0
               ? GX_OK
               : launch_circle(dev, queue, GX_CUDA_CIRCLE_PAIR, &call, gx_min(blocks, BLOCKS), err);
}

static gx_code circle(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    (void)dtype;
    gx_cuda_circle call = {.log = (int32_t)p->pivot_last,
                           .whole = (int32_t)p->row_offset,
                           .block = p->pivot_first,
                           .is_back = p->is_backward,
                           .t = p->work,
                           .c = p->c,
                           .n = p->n,
                           .ldc = p->ldc};
    if (p->c2 != NULL) {
        return circle_pair(dev, queue, p, err);
    }
    passes s = passes_of(call.log);
    GX_TRY(make_twiddles(dev, queue, &call, err));
    for (int k = 0; k <= s.others; k++) {
        int pass = p->is_backward ? k : s.others - k; // from the lowest layers up: 0, 1, ...
        call.first = pass == 0 ? 0 : s.lowest + (pass - 1) * s.upper;
        call.count = pass == 0 ? s.lowest : (int)gx_min(s.upper, call.log - call.first);
        call.scale = k == s.others ? gx_m31_of(p->alpha.re) : 1;
        int run = pass == 0 ? 0 : 5; // log2 of GX_CUDA_CIRCLE_RUN
        GX_TRY(launch_circle(dev, queue, GX_CUDA_CIRCLE_PASS, &call,
                             (int64_t)1 << (call.log - call.count - run), err));
    }
    return GX_OK;
}
GX_CUDA_SLOT(gx_cuda_circle, m31, GX_M31, circle)

// Constraints -------------------------------------------------------------------------------------

static size_t steps_bytes(const gx_constraints *p)
{
    return gx_cuda_round((size_t)p->steps * sizeof *p->step);
}

static size_t powers_bytes(const gx_constraints *p)
{
    return (size_t)p->powers * GX_CONSTRAINT_WIDTH * sizeof *p->power;
}

size_t gx_cuda_combine_bytes(const gx_args *args)
{
    return steps_bytes(args->constraints) + gx_cuda_round(powers_bytes(args->constraints));
}

static gx_code put(gx_dev *dev, gx_queue *queue, void *to, const void *from, size_t bytes,
                   gx_err *err)
{
    int status = dev->api->copy(to, from, bytes, GX_CUDA_HOST_TO_DEVICE, queue->stream);
    return gx_cuda_check(dev, status, "cudaMemcpyAsync", err);
}

static gx_code combine(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    const gx_constraints *s = p->constraints;
    size_t bytes[2] = {(size_t)s->steps * sizeof *s->step, powers_bytes(s)};
    char *power = (char *)p->work + steps_bytes(s);
    (void)dtype;
    if (p->m <= 0) {
        return GX_OK;
    }
    gx_cuda_combine call = {.steps = (int32_t)s->steps,
                            .width = s->width,
                            .m = p->m,
                            .rows = p->k,
                            .first = p->first_row,
                            .next = s->next,
                            .a = p->a,
                            .lda = p->lda,
                            .b = p->b,
                            .ldb = p->ldb,
                            .c = p->c,
                            .ldc = p->ldc,
                            .step = p->work,
                            .power = (const uint32_t *)(const void *)power};
    GX_TRY(put(dev, queue, p->work, s->step, bytes[0], err));
    GX_TRY(put(dev, queue, power, s->power, bytes[1], err));
    gx_cuda_dim block = {GX_CUDA_COMBINE_THREADS, 1, 1}, grid = {1, 1, 1};
    int64_t blocks = gx_ceil_div(p->m, GX_CUDA_COMBINE_THREADS * GX_CUDA_COMBINE_ROWS);
    grid.x = (unsigned)gx_min(blocks, (int64_t)1 << 30);
    void *list[] = {&call};
    size_t shared =
        (size_t)(s->registers * GX_CUDA_COMBINE_THREADS * GX_CUDA_COMBINE_ROWS) * sizeof(uint32_t);
    int status = dev->api->launch(dev->function[GX_CUDA_COMBINE][GX_F64], grid, block, list, shared,
                                  queue->stream);
    return gx_cuda_check(dev, status, "cudaLaunchKernel", err);
}
GX_CUDA_SLOT(gx_cuda_combine, m31, GX_M31, combine)
