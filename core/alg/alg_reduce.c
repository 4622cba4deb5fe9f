/*
** Reductions: one pass over a matrix, reduced where it is read.
**
** Helper threads take tiles from a counter; each reads a chunk of a tile (CHUNK_BYTES, so that it
** is still in the core's own cache) and folds it at once, so a scan runs at the rate of the reads.
** Each tile has partial results of its own, and the caller folds the tiles in their order at the
** end: the same bits whatever the number of threads.  Without helpers the caller does the same
** through its own connection.
**
** I/O: each tile once.  Memory: one chunk a helper; partial results of 1-2 doubles a tile, for row
** results one (sums: two) a row and tile column, for column results one a column and tile row.
*/
#include "../mat/stream.h"
#include "alg.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

/* Half of a common second-level cache (1-2 MiB a core). */
static const int64_t CHUNK_BYTES = 512 << 10;

/* What a helper takes beside its chunk. */
static const size_t SMALL_BYTES = 4 << 10;

typedef struct scan {
    gx_run *run;
    const gx_mat *A;
    gx_reduce_kind kind;
    gx_kernel kernel;
    gx_dev *dev;
    int64_t row_tiles, col_tiles;
    int64_t width;     /* doubles of one tile's partial result, at most */
    double *partial;   /* width doubles a tile                          */
    atomic_llong next; /* the first tile nobody has taken               */
    atomic_llong done; /* tiles reduced                                 */
    int64_t chunk_rows, chunk_cols;
} scan;

static bool is_row_kind(gx_reduce_kind kind)
{
    return kind == GX_REDUCE_ROW_ABS || kind == GX_REDUCE_ROW_SUM;
}

static bool is_col_kind(gx_reduce_kind kind)
{
    return kind == GX_REDUCE_COL_ABS || kind == GX_REDUCE_COL_SUM;
}

static int64_t doubles_per_item(gx_reduce_kind kind)
{
    return kind == GX_REDUCE_ROW_SUM || kind == GX_REDUCE_COL_SUM ? 2 : 1;
}

/* scale^2 * ssq (acc) += scale^2 * ssq (part), LAPACK's lassq update. */
static void fold_sumsq(double *acc, const double *part)
{
    if (part[0] == 0 && part[1] == 0) {
        return;
    }
    if (acc[0] == part[0] || isnan(part[0]) || isnan(part[1])) {
        acc[0] = part[0];
        acc[1] += part[1];
    } else if (acc[0] < part[0]) {
        double ratio = acc[0] / part[0];
        acc[1] = part[1] + acc[1] * ratio * ratio;
        acc[0] = part[0];
    } else {
        double ratio = part[0] / acc[0];
        acc[1] += part[1] * ratio * ratio;
    }
}

static void start_partial(gx_reduce_kind kind, double *acc, int64_t width)
{
    memset(acc, 0, (size_t)width * sizeof *acc);
    if (kind == GX_REDUCE_MIN) {
        acc[0] = (double)INFINITY;
    } else if (kind == GX_REDUCE_MAX) {
        acc[0] = -(double)INFINITY;
    }
}

/* acc takes part in; part begins `offset` rows or columns into acc and has width doubles. */
static void fold(gx_reduce_kind kind, double *acc, int64_t offset, const double *part,
                 int64_t width)
{
    switch (kind) {
    case GX_REDUCE_SUMSQ:
        fold_sumsq(acc, part);
        break;
    case GX_REDUCE_MAX_ABS:
    case GX_REDUCE_MAX:
        acc[0] = isnan(part[0]) || part[0] > acc[0] ? part[0] : acc[0];
        break;
    case GX_REDUCE_MIN:
        acc[0] = isnan(part[0]) || part[0] < acc[0] ? part[0] : acc[0];
        break;
    default:
        for (int64_t p = 0; p < width; p++) {
            acc[offset * doubles_per_item(kind) + p] += part[p];
        }
    }
}

static int64_t offset_of(gx_reduce_kind kind, int64_t i, int64_t j)
{
    return is_row_kind(kind) ? i : is_col_kind(kind) ? j : 0;
}

/* What one thread needs: a chunk, and the result of one kernel call. */
typedef struct scratch {
    void *chunk;
    double *part;
} scratch;

static gx_code reduce_tile(scan *s, gx_reader *reader, int64_t tile, scratch *mine, gx_err *err)
{
    const gx_mat *A = s->A;
    int64_t i0 = tile % s->row_tiles * A->tile_rows, j0 = tile / s->row_tiles * A->tile_cols;
    int64_t m = gx_min(A->tile_rows, A->rows - i0), n = gx_min(A->tile_cols, A->cols - j0);
    double *acc = s->partial + tile * s->width;
    start_partial(s->kind, acc, s->width);
    for (int64_t j = 0; j < n && gx_ok(s->run); j += s->chunk_cols) {
        for (int64_t i = 0; i < m; i += s->chunk_rows) {
            gx_args args = {.m = gx_min(s->chunk_rows, m - i),
                            .n = gx_min(s->chunk_cols, n - j),
                            .a = mine->chunk,
                            .reduce_kind = s->kind,
                            .reduce = mine->part};
            args.lda = args.m;
            GX_TRY(gx_mat_read(s->run, A, reader, i0 + i, j0 + j, args.m, args.n, A->dtype,
                               mine->chunk, args.m, err));
            GX_TRY(s->kernel(s->dev, NULL, &args, err));
            fold(s->kind, acc, offset_of(s->kind, i, j), mine->part,
                 gx_reduce_width(s->kind, args.m, args.n));
        }
    }
    return GX_OK;
}

/* Take tiles until there are none; `poll` on the caller's thread. */
static void reduce_tiles(scan *s, gx_reader *reader, bool is_caller)
{
    gx_mem *mem = s->run->ctx->mem;
    size_t element = gx_dtype_bytes(s->A->dtype);
    size_t chunk_bytes = (size_t)(s->chunk_rows * s->chunk_cols) * element;
    int64_t part = gx_reduce_width(s->kind, s->chunk_rows, s->chunk_cols);
    gx_err err = {0};
    scratch mine = {0};
    void *memory = NULL;
    if (gx_mem_alloc(mem, chunk_bytes, "a chunk to reduce", &mine.chunk, &err) == GX_OK &&
        gx_mem_alloc(mem, (size_t)part * sizeof(double), "a partial result", &memory, &err) ==
            GX_OK) {
        mine.part = memory;
        int64_t tiles = s->row_tiles * s->col_tiles;
        int64_t tile;
        while (err.code == GX_OK && gx_ok(s->run) &&
               (tile = atomic_fetch_add(&s->next, 1)) < tiles) {
            reduce_tile(s, reader, tile, &mine, &err);
            atomic_fetch_add(&s->done, 1);
            if (is_caller) {
                gx_run_advance(s->run, 1);
                gx_run_poll(s->run);
            }
        }
    }
    gx_run_fail(s->run, &err);
    gx_mem_free(mem, mine.chunk);
    gx_mem_free(mem, mine.part);
}

static void help(void *arg, gx_helper *helper)
{
    scan *s = arg;
    reduce_tiles(s, gx_helper_reader(helper, s->A), false);
}

/* Caller: look after interrupts and progress while the helpers work. */
static void wait_for_helpers(scan *s)
{
    int64_t tiles = s->row_tiles * s->col_tiles, shown = 0;
    while (gx_ok(s->run) && atomic_load(&s->done) < tiles) {
        nanosleep(&(struct timespec){.tv_nsec = 2 * 1000 * 1000}, NULL);
        int64_t done = atomic_load(&s->done);
        gx_run_advance(s->run, (double)(done - shown));
        shown = done;
        gx_run_poll(s->run);
    }
}

/*
** Columns of a chunk; rows too where one column is longer than a chunk.  By the tile's shape
** alone.
*/
static void choose_chunks(scan *s)
{
    int64_t elements = CHUNK_BYTES / (int64_t)gx_dtype_bytes(s->A->dtype);
    s->chunk_rows = gx_max(1, gx_min(elements, s->A->tile_rows));
    s->chunk_cols = gx_max(1, gx_min(elements / s->chunk_rows, s->A->tile_cols));
}

static void run_scan(scan *s)
{
    gx_run *run = s->run;
    size_t bytes = 0;
    gx_matrix_bytes(s->A->rows, s->A->cols, s->A->dtype, &bytes);
    int64_t tiles = s->row_tiles * s->col_tiles;
    gx_run_progress(run, (double)tiles);
    gx_stream *stream;
    size_t chunk_bytes = (size_t)(s->chunk_rows * s->chunk_cols) * gx_dtype_bytes(s->A->dtype);
    size_t room = gx_mem_available(run->ctx->mem) / (2 * chunk_bytes + SMALL_BYTES);
    int64_t wanted = gx_min(run->ctx->config.number[GX_SET_READERS], gx_min(tiles, (int64_t)room));
    gx_stream_start(run, &s->A, 1, (int)wanted, (double)bytes, help, s, &stream);
    if (stream != NULL) {
        wait_for_helpers(s);
        gx_stream_stop(stream);
        return;
    }
    gx_reader *own;
    gx_err err = {0};
    if (gx_reader_own(run->ctx->store, &own, &err) != GX_OK) {
        gx_run_fail(run, &err);
        return;
    }
    reduce_tiles(s, own, true);
    gx_reader_close(own);
}

/* Fold the tiles' partial results in tile order. */
static void fold_tiles(const scan *s, double *out)
{
    const gx_mat *A = s->A;
    int64_t items = doubles_per_item(s->kind);
    start_partial(s->kind, out, gx_reduce_width(s->kind, A->rows, A->cols));
    for (int64_t tile = 0; tile < s->row_tiles * s->col_tiles; tile++) {
        int64_t i0 = tile % s->row_tiles * A->tile_rows, j0 = tile / s->row_tiles * A->tile_cols;
        int64_t width = s->width;
        if (is_row_kind(s->kind)) {
            width = items * gx_min(A->tile_rows, A->rows - i0);
        } else if (is_col_kind(s->kind)) {
            width = items * gx_min(A->tile_cols, A->cols - j0);
        }
        fold(s->kind, out, offset_of(s->kind, i0, j0), s->partial + tile * s->width, width);
    }
}

gx_code gx_alg_reduce(gx_run *run, const gx_mat *A, gx_reduce_kind kind, double *out)
{
    const gx_backend *backend;
    scan s = {.run = run, .A = A, .kind = kind};
    if (!gx_ok(run) || gx_run_device(run, &backend, &s.dev) != GX_OK) {
        return run->err.code;
    }
    s.kernel = backend->kernel[GX_REDUCE][A->dtype];
    bool is_empty = A->rows == 0 || A->cols == 0;
    s.row_tiles = is_empty ? 0 : gx_ceil_div(A->rows, A->tile_rows);
    s.col_tiles = is_empty ? 0 : gx_ceil_div(A->cols, A->tile_cols);
    s.width = gx_reduce_width(kind, A->tile_rows, A->tile_cols);
    choose_chunks(&s);
    gx_err err = {0};
    void *partial = NULL;
    size_t bytes = (size_t)(s.row_tiles * s.col_tiles * s.width) * sizeof(double);
    if (gx_mem_alloc(run->ctx->mem, bytes, "partial results", &partial, &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    s.partial = partial;
    if (!is_empty) {
        run_scan(&s);
    }
    if (gx_ok(run)) {
        fold_tiles(&s, out);
    }
    gx_mem_free(run->ctx->mem, partial);
    return gx_ok(run) ? GX_OK : run->err.code;
}

/* Largest of count doubles; NaN when there is one. */
static double largest(const double *x, int64_t count)
{
    double most = 0;
    for (int64_t p = 0; p < count; p++) {
        most = isnan(x[p]) || x[p] > most ? x[p] : most;
        if (isnan(most)) {
            break;
        }
    }
    return most;
}

gx_code gx_alg_norm(gx_run *run, const gx_mat *A, char kind, double *norm)
{
    gx_reduce_kind reduce = kind == 'F'   ? GX_REDUCE_SUMSQ
                            : kind == '1' ? GX_REDUCE_COL_ABS
                            : kind == 'I' ? GX_REDUCE_ROW_ABS
                                          : GX_REDUCE_MAX_ABS;
    int64_t width = gx_reduce_width(reduce, A->rows, A->cols);
    void *memory = NULL;
    gx_err err = {0};
    if (gx_mem_alloc(run->ctx->mem, (size_t)width * sizeof(double), "a norm", &memory, &err) !=
        GX_OK) {
        return gx_run_fail(run, &err);
    }
    double *out = memory;
    if (gx_alg_reduce(run, A, reduce, out) == GX_OK) {
        if (kind == 'F') {
            *norm = out[1] == 0 ? 0 : out[0] * sqrt(out[1]);
        } else {
            *norm = largest(out, width);
        }
    }
    gx_mem_free(run->ctx->mem, out);
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_alg_trace(gx_run *run, const gx_mat *A, gx_scalar *trace)
{
    gx_err err = {0};
    gx_reader *own = NULL;
    *trace = (gx_scalar){0, 0};
    if (A->rows != A->cols) {
        return gx_run_failf(run, GX_ARG, "%s is %lldx%lld, but the trace is of a square matrix",
                            A->label, (long long)A->rows, (long long)A->cols);
    }
    if (!gx_ok(run) || gx_reader_own(run->ctx->store, &own, &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    for (int64_t i = 0; i < A->rows && gx_ok(run); i++) {
        double x[2];
        gx_mat_read(run, A, own, i, i, 1, 1, GX_C128, x, 1, &err);
        gx_run_fail(run, &err);
        trace->re += x[0];
        trace->im += x[1];
        gx_run_poll(run);
    }
    gx_reader_close(own);
    return gx_ok(run) ? GX_OK : run->err.code;
}
