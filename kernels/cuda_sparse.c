/*
** The CUDA backend: products with a sparse panel, GX_SPMM, by kernels of our own (cuda_sparse.cu).
**
** Gathered, a launch writes all rows but those longer than a chunk, and a second one adds those up
** from what the parts have left in `work`.  Scattered, one launch adds to c.  How the panel is cut
** depends on its rows, entries and lines alone, so a gathered product has the same bits each time;
** a scattered one has not, since additions meet in any order.
**
** Sums are in the dtype's own precision, each entry by one fused multiply-add.
*/
#include "cuda.h"

/* Lines from which on a team of lanes has a row, not a thread block many of them. */
enum { LINES_LEAST = 4, WARP = 32 };

/*
** Rows and entries of a part, at least, and parts at most: enough to fill a device several times
** over, few enough that what they leave is little beside the panel.
*/
enum { CHUNK_LEAST = 64, CHUNK_LINE = 1024, PARTS_MOST = 1 << 16 };

static bool is_gathered(const gx_args *p)
{
    return p->transa != GX_NO_TRANS;
}

/* Where a panel is cut; the workspace's parts, of which work may be NULL. */
static size_t lay_out(gx_number dtype, const gx_args *p, char *work, gx_cuda_spmm *call)
{
    int64_t items = p->sparse->rows + p->sparse->entries;
    int64_t least = p->m < LINES_LEAST ? CHUNK_LINE : CHUNK_LEAST;
    call->chunk = gx_max(least, gx_ceil_div(gx_ceil_div(items, PARTS_MOST), WARP) * WARP);
    call->parts = gx_ceil_div(items, call->chunk);
    if (!is_gathered(p)) {
        return 0;
    }
    size_t slots = gx_cuda_round((size_t)(2 * call->parts * p->m) * gx_number_bytes(dtype));
    call->slot = work;
    call->ended = work == NULL ? NULL : (int64_t *)(void *)(work + slots);
    return slots + (size_t)call->parts * sizeof *call->ended;
}

size_t gx_cuda_spmm_bytes(gx_number dtype, const gx_args *args)
{
    gx_cuda_spmm unused;
    return args->m <= 0 || args->sparse->rows <= 0 ? 0 : lay_out(dtype, args, NULL, &unused);
}

/* Can lanes load 16 bytes at a time, of b, c and what parts leave? */
static bool is_packed(gx_number dtype, const gx_args *p)
{
    size_t element = gx_number_bytes(dtype), misfit = (uintptr_t)p->b | (uintptr_t)p->c;
    misfit |= (size_t)(p->ldb | p->ldc | p->m) * element;
    return !gx_number_is_complex(dtype) && p->sparse->index_bytes == 4 && misfit % 16 == 0;
}

/* Teams of lanes, as many as the lines want: 8, 16 or a warp. */
static void choose_lanes(gx_number dtype, const gx_args *p, gx_cuda_spmm *call)
{
    call->side_by_side =
        is_gathered(p) && is_packed(dtype, p) ? (int32_t)(16 / gx_number_bytes(dtype)) : 1;
    call->lanes = 8;
    while (call->lanes < WARP && call->lanes * call->side_by_side < p->m) {
        call->lanes *= 2;
    }
    if (is_gathered(p) && call->is_wide) {
        call->lanes = WARP;
    }
}

static gx_code launch(gx_dev *dev, gx_queue *queue, gx_cuda_function function, gx_number dtype,
                      int64_t x, int64_t y, gx_cuda_spmm *call, gx_err *err)
{
    gx_cuda_dim grid = {(unsigned)x, (unsigned)y, 1}, block = {GX_CUDA_SPARSE_THREADS, 1, 1};
    return gx_cuda_launch(dev, queue, function, dtype, grid, block, call, err);
}

static gx_code spmm(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    enum { THREADS = GX_CUDA_SPARSE_THREADS, GRID_Y_MOST = 65535 };
    const gx_csr *s = p->sparse;
    gx_cuda_spmm call = {.is_wide = s->index_bytes == 8,
                         .is_conj = p->transa == GX_CONJ_TRANS,
                         .is_fresh = p->is_fresh,
                         .m = p->m,
                         .rows = s->rows,
                         .cols = s->cols,
                         .entries = s->entries,
                         .alpha = {p->alpha.re, p->alpha.im},
                         .start = s->start,
                         .index = s->index,
                         .value = s->value,
                         .b = p->b,
                         .ldb = p->ldb,
                         .c = p->c,
                         .ldc = p->ldc};
    if (p->transb != GX_NO_TRANS) {
        return gx_fail(err, GX_UNSUPPORTED, "a sparse product of turned blocks");
    }
    if (p->m <= 0 || s->rows <= 0) {
        return GX_OK;
    }
    lay_out(dtype, p, p->work, &call);
    choose_lanes(dtype, p, &call);
    bool is_narrow = p->m < LINES_LEAST;
    int64_t teams = is_narrow ? 1 : THREADS / call.lanes;
    int64_t x = gx_ceil_div(call.parts, teams);
    int64_t y = is_narrow ? p->m : gx_ceil_div(p->m, call.lanes * call.side_by_side);
    if (y > GRID_Y_MOST) {
        return gx_fail(err, GX_UNSUPPORTED, "a sparse product of %lld lines at a time",
                       (long long)p->m);
    }
    if (!is_gathered(p)) {
        return launch(dev, queue, is_narrow ? GX_CUDA_SPMM_SCATTER_LINE : GX_CUDA_SPMM_SCATTER,
                      dtype, x, y, &call, err);
    }
    GX_TRY(launch(dev, queue, is_narrow ? GX_CUDA_SPMM_LINE : GX_CUDA_SPMM_GATHER, dtype, x, y,
                  &call, err));
    return launch(dev, queue, GX_CUDA_SPMM_JOIN, dtype, gx_ceil_div(call.parts, THREADS), 1, &call,
                  err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_spmm, spmm)
