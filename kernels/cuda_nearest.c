/*
** The CUDA backend: neighbours.
**
** GX_NEAREST foretells merits and computes the few that may be among the best, as the CPU does
** (foretell.h), so that its lists have the same bits.  The block goes in panels of rows:
**
**   gx_near_rows     looks at the rows once; with few queries it multiplies them, too
**   gemm             the products of a panel with many; gx_near_apart: sums of magnitudes
**   gx_near_pieces   of f32, on Hopper, with a hundred and more: for a product by tensor cores,
**                    with gx_near_image, which makes the queries ready (cuda_near_pieces.cu)
**   gx_near_select   one thread block a query, or several that share the rows: each goes through
**                    its column and keeps what may be among the best
**   gx_near_finish   after the last panel, one a query: the best of these, their merits in double,
**                    and the list
**
** The f32 product is one: cuBLAS rounds to TF32 only where it is told to.
**
** Where rows by the thousand are too much alike to be told apart, or numbers so large or small that
** nothing can be foretold, the outcome is -1.
**
** Memory: a panel's products, VALUE_BYTES at most; with a shift the panel without it, or the panel
** in pieces, COPIED_BYTES; 32 KiB a query for what may be among the best.
*/
#include "cuda.h"

enum { VALUE_BYTES = 128 << 20, COPIED_BYTES = 256 << 20, ROWS_LEAST = 4096 };
enum {
    STEP = 1024,
    LANES = 1024,
    LANES_MOST = 64,
    WARP = 32,
    SLICES = 8,
    THREADS = 256,
    TILE = 64
};

/* Products in pieces: queries that are worth it; numbers of a row; an f16. */
enum { PIECES_QUERIES = 128, PIECES_LEAST = 64, PIECES_MOST = 1 << 14, F16_BYTES = 2 };

// Memory ------------------------------------------------------------------------------------------

static bool has_gaps(const gx_nearest *w)
{
    return w->metric == GX_METRIC_ABSOLUTE || (w->metric == GX_METRIC_SQUARED && w->shift == NULL);
}

/* f32 products by tensor cores: where they are fast, and there is enough to do for them. */
static bool is_in_pieces(const gx_dev *dev, gx_number dtype, const gx_args *p)
{
    return dtype == GX_F32 && dev->function[GX_CUDA_NEAR_PIECES][GX_F32] != NULL &&
           !has_gaps(p->nearest) && p->n >= PIECES_QUERIES && p->k >= PIECES_LEAST &&
           p->k <= PIECES_MOST;
}

/* Pieces in a sum: numbers of half the bits are one, and a query's two (cuda_near_pieces.cu). */
static int64_t parts_of(const gx_args *p)
{
    return p->half != GX_DTYPE_F64 && p->nearest->shift == NULL ? 2 : 3;
}

/* As tensor cores want them aligned. */
static int64_t eights(int64_t count)
{
    return gx_ceil_div(count, 8) * 8;
}

/* Bytes of a row in pieces; else of one without the shift. */
static int64_t row_bytes(gx_number dtype, const gx_args *p, bool in_pieces)
{
    return in_pieces                   ? parts_of(p) * eights(p->k) * F16_BYTES
           : p->nearest->shift != NULL ? p->k * (int64_t)gx_number_bytes(dtype)
                                       : 0;
}

/* Rows of a panel. */
static int64_t panel_of(gx_number dtype, const gx_args *p, bool in_pieces)
{
    int64_t rows = VALUE_BYTES / ((int64_t)gx_number_bytes(dtype) * gx_max(1, p->n));
    int64_t row = row_bytes(dtype, p, in_pieces);
    if (row > 0) {
        rows = gx_min(rows, COPIED_BYTES / row);
    }
    return gx_min(p->m, gx_max(rows / STEP * STEP, ROWS_LEAST));
}

/* What lies in `work`. */
typedef struct sizes {
    int64_t values, rows, slots, queries;
    int64_t copied; /* bytes: the panel's rows without the shift, or in pieces */
    int64_t image;  /* bytes: the queries in pieces; 0: nothing is            */
} sizes;

static int64_t lanes_of(const gx_args *p, int64_t panel)
{
    int64_t lanes = gx_min(LANES_MOST, gx_ceil_div(LANES, gx_max(1, p->n)));
    return gx_max(1, gx_min(lanes, gx_ceil_div(panel, STEP)));
}

static sizes sizes_of(gx_number dtype, const gx_args *p, bool in_pieces)
{
    int64_t panel = panel_of(dtype, p, in_pieces), row = row_bytes(dtype, p, in_pieces);
    int64_t high = in_pieces ? eights(panel) : panel;
    return (sizes){.values = high * p->n,
                   .rows = panel,
                   .slots = p->n * lanes_of(p, panel),
                   .queries = p->n,
                   .copied = high * row,
                   .image = in_pieces ? p->n * row : 0};
}

/*
** Enough for every call of as many rows and queries, or fewer, which a driver makes with the same
** memory: fewer queries have higher panels, and more lanes.
*/
static sizes sizes_for(const gx_dev *dev, gx_number dtype, const gx_args *p)
{
    int64_t values = VALUE_BYTES / (int64_t)gx_number_bytes(dtype), n = gx_max(1, p->n);
    bool in_pieces = is_in_pieces(dev, dtype, p);
    sizes s = {.values = gx_min(eights(p->m) * n, gx_max(values, ROWS_LEAST * n)),
               .rows = gx_min(p->m, gx_max(values, ROWS_LEAST)),
               .slots = gx_max(n, gx_min(LANES_MOST * n, LANES + gx_min(n, LANES))),
               .queries = n,
               .image = in_pieces ? n * row_bytes(dtype, p, true) : 0};
    for (int t = 0; t <= in_pieces; t++) {
        int64_t row = row_bytes(dtype, p, t == 1);
        s.copied =
            gx_max(s.copied, gx_min(eights(p->m) * row, gx_max(COPIED_BYTES, ROWS_LEAST * row)));
    }
    return s;
}

/* Hands out `work`; with no work, adds up. */
static size_t take(char *work, size_t used, int64_t count, size_t size, void **ptr)
{
    *ptr = work == NULL ? NULL : work + used;
    return used + gx_cuda_round((size_t)count * size);
}

static size_t layout(gx_number dtype, const sizes *s, char *work, gx_cuda_near *call)
{
    size_t es = gx_number_bytes(dtype);
    int64_t room = dtype == GX_F64 ? GX_CUDA_NEAR_ROOM_F64 : GX_CUDA_NEAR_ROOM;
    void *part[11];
    size_t used = take(work, 0, 1, sizeof(gx_cuda_near_state), &part[0]);
    used = take(work, used, s->values, es, &part[1]);
    used = take(work, used, s->rows, es, &part[2]);
    used = take(work, used, s->copied, 1, &part[3]);
    used = take(work, used, s->slots * room, es, &part[4]);
    used = take(work, used, s->slots * room, sizeof(int32_t), &part[5]);
    used = take(work, used, s->slots, sizeof(int32_t), &part[6]);
    used = take(work, used, s->slots, sizeof(double), &part[7]);
    used = take(work, used, s->image, 1, &part[8]);
    used = take(work, used, s->image > 0 ? s->rows : 0, sizeof(float), &part[9]);
    used = take(work, used, s->image > 0 ? s->queries : 0, sizeof(float), &part[10]);
    call->state = part[0];
    call->value = part[1];
    call->factor = part[2];
    call->shifted = part[3];
    call->held_value = part[4];
    call->held_row = part[5];
    call->held = part[6];
    call->held_least = part[7];
    if (s->image > 0) {
        call->pieces = part[3];
        call->image = part[8];
        call->row_scale = part[9];
        call->b_scale = part[10];
    }
    return used;
}

size_t gx_cuda_nearest_bytes(const gx_dev *dev, gx_number dtype, const gx_args *args)
{
    gx_cuda_near unused;
    sizes most = sizes_for(dev, dtype, args);
    return layout(dtype, &most, NULL, &unused);
}

// Launches ----------------------------------------------------------------------------------------

static gx_code launch(gx_dev *dev, gx_queue *queue, gx_cuda_function function, gx_number dtype,
                      int64_t x, int64_t y, gx_cuda_near *call, gx_err *err)
{
    gx_cuda_dim grid = {(unsigned)x, (unsigned)y, 1}, block = {THREADS, 1, 1};
    if (function == GX_CUDA_NEAR_ROWS || function == GX_CUDA_NEAR_PIECES) {
        bool is_plain = function == GX_CUDA_NEAR_ROWS;
        block = (gx_cuda_dim){WARP, is_plain ? SLICES : GX_CUDA_NEAR_SLICES, 1};
    }
    return gx_cuda_launch(dev, queue, function, dtype, grid, block, call, err);
}

/* The panel's rows, with `few` queries from the j-th on. */
static gx_code look_at_rows(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_cuda_near *all,
                            int64_t j, int64_t few, gx_err *err)
{
    gx_cuda_near call = *all;
    call.few = (int32_t)few;
    call.b = gx_at(all->b, dtype, all->ldb, 0, j);
    call.value = gx_at(all->value, dtype, all->ldv, 0, j);
    int64_t rows = WARP * 16 / (int64_t)gx_number_bytes(dtype); // a thread loads 16 bytes at once
    return launch(dev, queue, GX_CUDA_NEAR_ROWS, dtype, gx_ceil_div(call.rows, rows), 1, &call,
                  err);
}

/* The panel's products by tensor cores. */
static gx_code multiply_pieces(gx_dev *dev, gx_queue *queue, const gx_cuda_near *call, gx_err *err)
{
    gx_cuda_near pieces = *call;
    GX_TRY(launch(dev, queue, GX_CUDA_NEAR_PIECES, GX_F32, gx_ceil_div(call->rows, WARP), 1,
                  &pieces, err));
    gx_args product = {.m = call->rows,
                       .n = call->n,
                       .k = call->parts * call->deep,
                       .half = GX_DTYPE_F16,
                       .alpha = {call->metric == GX_METRIC_SQUARED ? 2 : 1, 0},
                       .a = call->pieces,
                       .lda = call->ldp,
                       .b = call->image,
                       .ldb = call->parts * call->deep,
                       .c = call->value,
                       .ldc = call->ldv};
    return gx_cuda_gemm_half(dev, queue, &product, err);
}

static gx_code fill_values(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_cuda_near *call,
                           gx_err *err)
{
    if (call->pieces != NULL) {
        return multiply_pieces(dev, queue, call, err);
    }
    bool is_squared = call->metric == GX_METRIC_SQUARED;
    if (call->n <= GX_CUDA_FEW || (call->has_gaps && is_squared)) {
        for (int64_t j = 0; j < call->n && !call->is_shifted; j += GX_CUDA_FEW) {
            GX_TRY(look_at_rows(dev, queue, dtype, call, j, gx_min(GX_CUDA_FEW, call->n - j), err));
        }
        if (!call->is_shifted) {
            return GX_OK;
        }
    }
    GX_TRY(look_at_rows(dev, queue, dtype, call, 0, 0, err));
    if (call->has_gaps) {
        gx_cuda_near apart = *call;
        return launch(dev, queue, GX_CUDA_NEAR_APART, dtype, gx_ceil_div(call->rows, TILE),
                      gx_ceil_div(call->n, TILE), &apart, err);
    }
    const void *a =
        call->is_shifted ? call->shifted : gx_at(call->a, dtype, call->lda, call->i0, 0);
    return gx_cuda_gemm(dev, queue, dtype, GX_NO_TRANS, GX_NO_TRANS, call->rows, call->n, call->k,
                        is_squared ? 2 : 1, a, call->is_shifted ? call->rows : call->lda, call->b,
                        call->ldb, 0, call->value, call->ldv, err);
}

static gx_cuda_near call_of(const gx_args *p)
{
    const gx_nearest *w = p->nearest;
    return (gx_cuda_near){.metric = (int32_t)w->metric,
                          .has_gaps = has_gaps(w),
                          .is_shifted = w->shift != NULL,
                          .goes_on = w->goes_on,
                          .n = p->n,
                          .k = p->k,
                          .a = p->a,
                          .lda = p->lda,
                          .b = p->b,
                          .ldb = p->ldb,
                          .shift = w->shift,
                          .query = w->query,
                          .square = w->square,
                          .length = w->length,
                          .merit = w->merit,
                          .index = w->index,
                          .count = w->count,
                          .first_index = w->first_index,
                          .self = w->self,
                          .row = w->row,
                          .column = w->column};
}

static gx_code nearest(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    const gx_nearest *w = p->nearest;
    gx_cuda_near call = call_of(p);
    if (w->count > GX_NEAREST_MOST || p->m >= INT32_MAX - STEP) {
        return gx_fail(err, GX_UNSUPPORTED, "lists of more than %d neighbours, or of 2^31 rows",
                       GX_NEAREST_MOST);
    }
    *p->info = 0;
    if (p->n <= 0 || w->count <= 0) {
        return GX_OK;
    }
    bool in_pieces = is_in_pieces(dev, dtype, p);
    sizes size = sizes_of(dtype, p, in_pieces);
    layout(dtype, &size, p->work, &call);
    call.lanes = p->m <= 0 ? 0 : (int32_t)lanes_of(p, size.rows);
    int64_t panel = size.rows, words = (int64_t)(sizeof *call.state / sizeof(double));
    GX_TRY(gx_cuda_region(dev, queue, GX_F64, GX_CUDA_ALL, GX_LOWER, words, 1, (gx_scalar){0, 0},
                          call.state, words, err));
    if (in_pieces) {
        call.deep = eights(p->k);
        call.parts = parts_of(p);
        GX_TRY(launch(dev, queue, GX_CUDA_NEAR_IMAGE, dtype, p->n, 1, &call, err));
    }
    for (call.i0 = 0; call.i0 < p->m; call.i0 += panel) {
        call.rows = gx_min(panel, p->m - call.i0);
        call.ldp = eights(call.rows);
        call.ldv = in_pieces ? call.ldp : call.rows;
        GX_TRY(fill_values(dev, queue, dtype, &call, err));
        GX_TRY(launch(dev, queue, GX_CUDA_NEAR_SELECT, dtype, p->n, call.lanes, &call, err));
    }
    GX_TRY(launch(dev, queue, GX_CUDA_NEAR_FINISH, dtype, p->n, 1, &call, err));
    if (w->outcome == NULL) {
        return gx_cuda_post(dev, queue, &call.state->outcome, p->info, err);
    }
    int status = dev->api->copy(w->outcome, &call.state->outcome, sizeof *w->outcome,
                                GX_CUDA_DEVICE_TO_DEVICE, queue->stream);
    return gx_cuda_check(dev, status, "cudaMemcpyAsync", err);
}
GX_CUDA_SLOT(gx_cuda_nearest, f64, GX_F64, nearest)
GX_CUDA_SLOT(gx_cuda_nearest, f32, GX_F32, nearest)

/* c += sums of differences. */
static gx_code apart(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_metric metric = p->nearest->metric;
    if (metric != GX_METRIC_SQUARED && metric != GX_METRIC_ABSOLUTE) {
        return gx_fail(err, GX_UNSUPPORTED, "apart is of differences on a device");
    }
    gx_cuda_near call = {.metric = (int32_t)metric,
                         .has_gaps = 1,
                         .is_turned = p->transb != GX_NO_TRANS,
                         .adds = 1,
                         .n = p->n,
                         .k = p->k,
                         .rows = p->m,
                         .a = p->a,
                         .lda = p->lda,
                         .b = p->b,
                         .ldb = p->ldb,
                         .value = p->c,
                         .ldv = p->ldc};
    if (p->m <= 0 || p->n <= 0) {
        return GX_OK;
    }
    int64_t most = (int64_t)TILE << 15; // queries of a launch
    for (int64_t j = 0; j < p->n; j += most) {
        call.n = gx_min(most, p->n - j);
        call.b =
            call.is_turned ? gx_at(p->b, dtype, p->ldb, j, 0) : gx_at(p->b, dtype, p->ldb, 0, j);
        call.value = gx_at(p->c, dtype, p->ldc, 0, j);
        GX_TRY(launch(dev, queue, GX_CUDA_NEAR_APART, dtype, gx_ceil_div(p->m, TILE),
                      gx_ceil_div(call.n, TILE), &call, err));
    }
    return GX_OK;
}
GX_CUDA_SLOT(gx_cuda_apart, f64, GX_F64, apart)
GX_CUDA_SLOT(gx_cuda_apart, f32, GX_F32, apart)

static gx_code merit(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_cuda_near call = call_of(p);
    enum { BLOCKS_MOST = 16384 };
    call.n = p->nearest->count;
    if (call.n <= 0) {
        return GX_OK;
    }
    int64_t blocks = gx_ceil_div(call.n, THREADS / GX_MERIT_LANES);
    return launch(dev, queue, GX_CUDA_NEAR_MERIT, dtype, gx_min(blocks, BLOCKS_MOST), 1, &call,
                  err);
}
GX_CUDA_SLOT(gx_cuda_merit, f64, GX_F64, merit)
GX_CUDA_SLOT(gx_cuda_merit, f32, GX_F32, merit)
