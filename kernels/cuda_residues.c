/*
** The CUDA backend: products of doubles by residues, for devices that multiply bytes much faster
** than doubles (gx_cuda_residues of cuda_kernels.h; Ozaki scheme II, arXiv 2504.08009).
**
** By panels of the inner dimension, whose steps are balanced over all of both operands, and of c.
** Errors are those of a product whose operands have 56 bits below the largest element of a row of
** op(a) or column of op(b), balanced.
*/
#include "cuda.h"

/* Sides of a panel; what tensor cores like sides to be multiples of; threads. */
enum { SIDE = 4096, DEPTH = 4096, TILE = 32, DOWN = 4 * TILE, ROWS = 8 };
enum { BLOCKS = 65535, SCAN_BLOCKS = 1024 };

gx_code gx_cuda_gemm_i8(gx_dev *dev, gx_queue *queue, int64_t m, int64_t n, int64_t k,
                        const int8_t *a, const int8_t *b, int32_t *c, gx_err *err)
{
    const int I8 = 3, I32 = 10, COMPUTE_I32 = 72, ANY = -1; // CUDA_R_8I, CUDA_R_32I, CUBLAS_...
    const int32_t one = 1, zero = 0;
    GX_TRY(gx_cuda_blas(dev, queue, err));
    int status = dev->api->gemm_ex(queue->blas, GX_TRANS, GX_NO_TRANS, m, n, k, &one, a, I8, k, b,
                                   I8, k, &zero, c, I32, m, COMPUTE_I32, ANY);
    return gx_cublas_check(dev, status, "gemm", err);
}

/* What the workspace is cut into. */
typedef struct rooms {
    int64_t m, n, k; /* sides of a panel, of whole grains */
    int *inner, *outer;
    int8_t *a, *b;
    int32_t *sums;
} rooms;

static size_t take_rooms(const gx_args *p, char *work, rooms *r)
{
    r->m = gx_cuda_grains(gx_min(p->m, SIDE));
    r->n = gx_cuda_grains(gx_min(p->n, SIDE));
    r->k = gx_cuda_grains(gx_min(p->k, DEPTH));
    size_t inner = gx_cuda_round((size_t)(2 * r->k) * sizeof(int));
    size_t outer = gx_cuda_round((size_t)(r->m + r->n) * sizeof(int));
    size_t a = gx_cuda_round((size_t)(GX_CUDA_RESIDUES * r->k * r->m));
    size_t b = gx_cuda_round((size_t)(GX_CUDA_RESIDUES * r->k * r->n));
    size_t sums = gx_cuda_round((size_t)(GX_CUDA_RESIDUES * r->m * r->n) * sizeof(int32_t));
    if (work != NULL) {
        r->inner = (int *)(void *)work;
        r->outer = (int *)(void *)(work + inner);
        r->a = (int8_t *)(work + inner + outer);
        r->b = r->a + a;
        r->sums = (int32_t *)(void *)(work + inner + outer + a + b);
    }
    return inner + outer + a + b + sums;
}

size_t gx_cuda_residues_bytes(const gx_args *args)
{
    rooms r;
    return args->m <= 0 || args->n <= 0 || args->k <= 0 ? 0 : take_rooms(args, NULL, &r);
}

static gx_code launch(gx_dev *dev, gx_queue *queue, gx_cuda_function function, int64_t x, int64_t y,
                      gx_cuda_residues *call, gx_err *err)
{
    int64_t most = function == GX_CUDA_RESIDUES_SCAN ? SCAN_BLOCKS : BLOCKS;
    gx_cuda_dim block = {TILE, ROWS, 1}, grid = {1, 1, 1};
    grid.x = (unsigned)gx_max(1, gx_min(x, most));
    grid.y = (unsigned)gx_max(1, gx_min(y, BLOCKS));
    if (function == GX_CUDA_RESIDUES_BEGIN) {
        block = (gx_cuda_dim){TILE * ROWS, 1, 1};
    }
    return gx_cuda_launch(dev, queue, function, GX_F64, grid, block, call, err);
}

static gx_code begin(gx_dev *dev, gx_queue *queue, int *exponents, int64_t count, gx_err *err)
{
    gx_cuda_residues call = {.n = count, .inner = exponents};
    return launch(dev, queue, GX_CUDA_RESIDUES_BEGIN, gx_ceil_div(count, TILE * ROWS), 1, &call,
                  err);
}

/* An operand, k x n: from step l and column j on. */
static gx_cuda_residues operand(const gx_args *p, const rooms *r, bool is_b, int64_t l, int64_t j)
{
    bool is_turned = is_b ? p->transb != GX_NO_TRANS : p->transa == GX_NO_TRANS;
    int64_t ld = is_b ? p->ldb : p->lda;
    const void *x = is_b ? p->b : p->a;
    return (gx_cuda_residues){.is_turned = is_turned,
                              .is_b = is_b,
                              .n = is_b ? p->n : p->m,
                              .k = gx_min(DEPTH, p->k - l),
                              .steps = r->k,
                              .x = is_turned ? gx_at(x, GX_F64, ld, j, l)
                                             : gx_at(x, GX_F64, ld, l, j),
                              .ldx = ld,
                              .inner = r->inner};
}

static gx_code scan(gx_dev *dev, gx_queue *queue, gx_cuda_residues *call, gx_err *err)
{
    int64_t rows = call->is_turned ? call->n : call->k, cols = call->is_turned ? call->k : call->n;
    return launch(dev, queue, GX_CUDA_RESIDUES_SCAN, gx_ceil_div(rows, TILE),
                  gx_ceil_div(cols, TILE), call, err);
}

/* Columns j .. j + n - 1 of an operand: their exponents, their planes. */
static gx_code pack(gx_dev *dev, gx_queue *queue, const gx_args *p, const rooms *r, bool is_b,
                    int64_t l, int64_t j, int64_t n, gx_err *err)
{
    gx_cuda_residues call = operand(p, r, is_b, l, j);
    call.n = n;
    call.outer = r->outer + (is_b ? r->m : 0);
    call.planes = is_b ? r->b : r->a;
    call.rows = call.ldp = gx_cuda_grains(call.k);
    call.cols = gx_cuda_grains(n);
    call.plane = call.rows * call.cols;
    GX_TRY(begin(dev, queue, call.outer, n, err));
    GX_TRY(scan(dev, queue, &call, err));
    return launch(dev, queue, GX_CUDA_RESIDUES_PACK, gx_ceil_div(call.rows, DOWN),
                  gx_ceil_div(call.cols, TILE), &call, err);
}

/* A panel of c of what has been packed. */
static gx_code multiply(gx_dev *dev, gx_queue *queue, const gx_args *p, const rooms *r, int64_t i,
                        int64_t j, int64_t l, gx_err *err)
{
    gx_cuda_residues call = operand(p, r, false, l, i), b = operand(p, r, true, l, j);
    call.m = gx_min(SIDE, p->m - i);
    call.n = gx_min(SIDE, p->n - j);
    int64_t m = gx_cuda_grains(call.m), n = gx_cuda_grains(call.n), k = gx_cuda_grains(call.k);
    for (int q = 0; q < GX_CUDA_RESIDUES; q++) {
        GX_TRY(gx_cuda_gemm_i8(dev, queue, m, n, k, r->a + q * k * m, r->b + q * k * n,
                               r->sums + q * m * n, err));
    }
    call.is_b = b.is_turned;
    call.y = b.x;
    call.ldy = b.ldx;
    call.c = gx_at(p->c, GX_F64, p->ldc, i, j);
    call.ldc = p->ldc;
    call.alpha = p->alpha.re;
    call.beta = l > 0 ? 1 : p->beta.re;
    call.outer = r->outer;
    call.cols = r->m;
    call.planes = r->sums;
    call.ldp = m;
    call.plane = m * n;
    return launch(dev, queue, GX_CUDA_RESIDUES_JOIN, gx_ceil_div(call.m, TILE),
                  gx_ceil_div(call.n, TILE), &call, err);
}

gx_code gx_cuda_residues_gemm(gx_dev *dev, gx_queue *queue, const gx_args *p, gx_err *err)
{
    rooms r = {0};
    take_rooms(p, p->work, &r);
    for (int64_t l = 0; l < p->k; l += DEPTH) {
        GX_TRY(begin(dev, queue, r.inner, 2 * r.k, err));
        for (int is_b = 0; is_b < 2; is_b++) {
            gx_cuda_residues call = operand(p, &r, is_b == 1, l, 0);
            call.is_inner = true;
            GX_TRY(scan(dev, queue, &call, err));
        }
        for (int64_t i = 0; i < p->m; i += SIDE) {
            GX_TRY(pack(dev, queue, p, &r, false, l, i, gx_min(SIDE, p->m - i), err));
            for (int64_t j = 0; j < p->n; j += SIDE) {
                GX_TRY(pack(dev, queue, p, &r, true, l, j, gx_min(SIDE, p->n - j), err));
                GX_TRY(multiply(dev, queue, p, &r, i, j, l, err));
            }
        }
    }
    return GX_OK;
}
