/*
** From rows to a matrix: see row_stack.h.
**
**   collect   Rows are copied into a buffer, one after the other, with their indexes beside them.
**   spill     When the buffer is full, its rows are written in the order of their indexes as a run
**             of temporary data (spill.h): one stream of indexes, one of elements.
**   finish    Shape and tiles are known.  Tile column by tile column, and down each one, every run
**             gives the rows that lie in the tile, or their piece that does; they are turned from
**             rows to the columns of the tile, and the tile is written.
**
** Rows that come in ascending order are never sorted or moved.  The order of rows of one index is
** the order of arrival in every case, so sums have the same bits, and "last" is the last, whatever
** the memory limit.
**
** Memory: half of what is available at the beginning for the buffer; in the end one tile, a bit for
** each of its rows, an index buffer for each run, and BATCH_BYTES or one row's piece.  A value is
** filled in place.
**
** I/O: nothing but the result when the rows fit; else each element is written once and read once
** (in pieces of a tile's width), each index read once for each tile column.  The caller's thread
** does everything.
*/
#include "row_stack.h"

#include <assert.h>
#include <string.h>

enum {
    FIRST_BYTES = 16 << 10,  /* of the buffer when it is made                         */
    BATCH_BYTES = 256 << 10, /* read from a run at a time                             */
    BATCH_ROWS = 64,         /* turned at a time: their cache lines fit the L1 cache  */
    INDEX_RECORDS = 64       /* indexes of a run that are read at a time              */
};

struct gx_stack {
    gx_sorted_runs runs;       /* their spec's cols -1 until the first row           */
    size_t row_bytes;          /* of one row                                         */
    int64_t max_i;             /* of the rows so far; -1: none                       */
    unsigned char *buffer;     /* capacity rows                                      */
    uint64_t *order;           /* index << 32 | slot in the buffer; capacity of them */
    int64_t count, capacity;
    bool is_ascending;         /* of the rows in the buffer                          */
};

gx_code gx_stack_create(gx_ctx *ctx, const gx_scatter_spec *spec, gx_stack **out, gx_err *err)
{
    *out = NULL;
    void *memory;
    GX_TRY(gx_mem_calloc(ctx->mem, sizeof(gx_stack), "rows", &memory, err));
    gx_stack *s = memory;
    gx_sorted_runs_begin(&s->runs, ctx, spec);
    s->max_i = -1;
    s->is_ascending = true;
    *out = s;
    return GX_OK;
}

void gx_stack_free(gx_stack *s)
{
    if (s == NULL) {
        return;
    }
    gx_mem *mem = s->runs.ctx->mem;
    gx_sorted_runs_free(&s->runs);
    gx_mem_free(mem, s->buffer);
    gx_mem_free(mem, s->order);
    gx_mem_free(mem, s);
}

// Collecting --------------------------------------------------------------------------------------

/*
** Order the buffer's rows by index, stable: a merge sort of index and slot, bottom up.  The second
** array comes from what is available beside the share.
*/
static gx_code sort_order(gx_stack *s, gx_err *err)
{
    if (s->is_ascending) {
        return GX_OK;
    }
    void *memory;
    GX_TRY(gx_mem_alloc(s->runs.ctx->mem, (size_t)s->count * sizeof *s->order, "sorting rows",
                        &memory, err));
    uint64_t *from = s->order, *to = memory;
    for (int64_t half = 1; half < s->count; half *= 2) {
        for (int64_t low = 0; low < s->count; low += 2 * half) {
            int64_t middle = gx_min(low + half, s->count), high = gx_min(low + 2 * half, s->count);
            int64_t a = low, b = middle;
            for (int64_t k = low; k < high; k++) {
                bool is_left = a < middle && (b >= high || from[a] <= from[b]);
                to[k] = is_left ? from[a++] : from[b++];
            }
        }
        uint64_t *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != s->order) {
        memcpy(s->order, from, (size_t)s->count * sizeof *from);
    }
    gx_mem_free(s->runs.ctx->mem, memory);
    return GX_OK;
}

static uint32_t index_of(uint64_t order)
{
    return (uint32_t)(order >> 32);
}

static unsigned char *slot_of(const gx_stack *s, uint64_t order)
{
    return s->buffer + (size_t)(uint32_t)order * s->row_bytes;
}

static gx_code write_run(gx_stack *s, gx_sorted_run *info, gx_err *err)
{
    gx_spill_begin(s->runs.spill, &info->stream[0]);
    for (int64_t k = 0; k < s->count; k++) {
        uint32_t index = index_of(s->order[k]);
        GX_TRY(gx_spill_append(s->runs.spill, &index, sizeof index, err));
    }
    GX_TRY(gx_spill_end(s->runs.spill, err));
    gx_spill_begin(s->runs.spill, &info->stream[1]);
    if (s->is_ascending) {
        GX_TRY(gx_spill_append(s->runs.spill, s->buffer, (size_t)s->count * s->row_bytes, err));
        return gx_spill_end(s->runs.spill, err);
    }
    for (int64_t k = 0; k < s->count; k++) {
        GX_TRY(gx_spill_append(s->runs.spill, slot_of(s, s->order[k]), s->row_bytes, err));
    }
    return gx_spill_end(s->runs.spill, err);
}

/* Write the buffer as a run and start anew. */
static gx_code spill_rows(gx_stack *s, gx_err *err)
{
    gx_sorted_run info = {.count = s->count};
    GX_TRY(gx_sorted_runs_spill(&s->runs, err));
    GX_TRY(sort_order(s, err));
    GX_TRY(write_run(s, &info, err));
    GX_TRY(gx_sorted_runs_add(&s->runs, &info, err));
    s->count = 0;
    s->is_ascending = true;
    return GX_OK;
}

/* Room for one more row: a larger buffer as far as the share goes, else an empty one. */
static gx_code make_room(gx_stack *s, gx_err *err)
{
    size_t each = s->row_bytes + 2 * sizeof *s->order; // with its part of the sort
    int64_t most = gx_min(gx_max((int64_t)(s->runs.share / each), 1), UINT32_MAX);
    int64_t first = gx_max(1, (int64_t)(FIRST_BYTES / each));
    // Growing copies, so old and new are there at once: half of the share is the last step.
    int64_t capacity = gx_min(gx_max(first, 2 * s->capacity), gx_max(most * 2 / 3, 1));
    gx_err refused = {0};
    if (capacity > s->capacity) {
        void *buffer = s->buffer, *order = s->order;
        gx_code rc = gx_mem_realloc(s->runs.ctx->mem, (size_t)capacity * s->row_bytes, "rows",
                                    &buffer, &refused);
        s->buffer = buffer;
        if (rc == GX_OK) {
            rc = gx_mem_realloc(s->runs.ctx->mem, (size_t)capacity * sizeof *s->order, "rows",
                                &order, &refused);
            s->order = order;
        }
        if (rc == GX_OK) {
            s->capacity = capacity;
            return GX_OK;
        }
    }
    return s->count > 0 ? spill_rows(s, err) : gx_fail(err, refused.code, "%s", refused.text);
}

static gx_code check_row(gx_stack *s, int64_t i, int64_t count, gx_err *err)
{
    if (i < 0) {
        return gx_fail(err, GX_ARG, "row index %lld is negative", (long long)i);
    }
    if (s->runs.spec.rows >= 0 && i >= s->runs.spec.rows) {
        return gx_fail(err, GX_ARG, "row %lld is outside a matrix of %lld rows", (long long)i,
                       (long long)s->runs.spec.rows);
    }
    if (i >= GX_SCATTER_INDEX_END) {
        return gx_fail(err, GX_ARG, "row index %lld is past %lld", (long long)i,
                       (long long)GX_SCATTER_INDEX_END - 1);
    }
    if (s->runs.spec.cols < 0) {
        s->runs.spec.cols = count;
    }
    if (count != s->runs.spec.cols) {
        return gx_fail(err, GX_ARG, "row %lld has %lld elements, expected %lld", (long long)i,
                       (long long)count, (long long)s->runs.spec.cols);
    }
    return GX_OK;
}

gx_code gx_stack_add(gx_stack *s, int64_t i, const void *row, int64_t count, gx_err *err)
{
    GX_TRY(check_row(s, i, count, err));
    s->row_bytes = (size_t)count * gx_dtype_bytes(s->runs.spec.dtype);
    if (s->count == s->capacity) {
        GX_TRY(make_room(s, err));
    }
    if (s->row_bytes > 0) {
        memcpy(s->buffer + (size_t)s->count * s->row_bytes, row, s->row_bytes);
    }
    if (s->count > 0 && (uint64_t)i < index_of(s->order[s->count - 1])) {
        s->is_ascending = false;
    }
    s->order[s->count] = (uint64_t)i << 32 | (uint64_t)s->count;
    s->count++;
    s->max_i = gx_max(s->max_i, i);
    return GX_OK;
}

// Building the matrix -----------------------------------------------------------------------------

/* How far a run has been used in the current tile column, and the indexes that follow. */
typedef struct row_cursor {
    int64_t next;          /* row of the run                                 */
    int64_t first, loaded; /* index[] holds those of [first, first + loaded) */
    uint32_t index[INDEX_RECORDS];
} row_cursor;

typedef struct row_assembly {
    gx_assembly t;        /* the tile                                     */
    gx_stack *s;
    row_cursor *cursors;  /* one for each run; none when all is in memory */
    int64_t memory_next;  /* the cursor of the rows in memory             */
    unsigned char *batch; /* rows or pieces of rows read from a run       */
    size_t batch_bytes;
} row_assembly;

/* Rows to be put into the tile: where their elements j0 .. are, and their rows in the tile. */
typedef struct bundle {
    const unsigned char *from[BATCH_ROWS];
    int64_t to[BATCH_ROWS];
    int count;
} bundle;

/* Rows to columns.  Elements are moved as they are; only sums look into them. */
static void put_bundle(const row_assembly *a, const bundle *b)
{
    gx_dtype dtype = a->s->runs.spec.dtype;
    size_t size = gx_dtype_bytes(dtype);
    if (a->s->runs.spec.duplicates == GX_DUPLICATES_SUM) {
        for (int64_t j = 0; j < a->t.n; j++) {
            for (int k = 0; k < b->count; k++) {
                double pair[2];
                gx_convert(dtype, b->from[k] + (size_t)j * size, 1, GX_C128, pair, 1, 1, 1);
                gx_assembly_put(&a->t, j * a->t.m + b->to[k], (gx_scalar){pair[0], pair[1]}, true);
            }
        }
        return;
    }
    for (int64_t j = 0; j < a->t.n; j++) {
        unsigned char *column = (unsigned char *)a->t.tile + (size_t)(j * a->t.m) * size;
        for (int k = 0; k < b->count; k++) {
            const unsigned char *from = b->from[k] + (size_t)j * size;
            unsigned char *to = column + (size_t)b->to[k] * size;
            if (size == 8) {
                memcpy(to, from, 8);
            } else {
                memcpy(to, from, size);
            }
        }
    }
}

/* Note a row of the tile; its second coming may be an error. */
static gx_code mark_row(const row_assembly *a, int64_t row, gx_err *err)
{
    if (gx_assembly_is_twice(&a->t, row)) {
        return gx_fail(err, GX_ARG,
                       "row %lld comes twice (option \"duplicates\" may be \"sum\" or \"last\")",
                       (long long)(a->t.i0 + row));
    }
    return GX_OK;
}

/* The rows in memory that lie in the tile. */
static gx_code take_memory_rows(row_assembly *a, gx_err *err)
{
    const gx_stack *s = a->s;
    size_t skip = (size_t)a->t.j0 * gx_dtype_bytes(s->runs.spec.dtype);
    bundle b = {.count = 0};
    for (; a->memory_next < s->count; a->memory_next++) {
        uint64_t order = s->order[a->memory_next];
        if ((int64_t)index_of(order) >= a->t.i0 + a->t.m) {
            break;
        }
        if (b.count == BATCH_ROWS) {
            put_bundle(a, &b);
            b.count = 0;
        }
        b.from[b.count] = slot_of(s, order) + skip;
        b.to[b.count] = index_of(order) - a->t.i0;
        GX_TRY(mark_row(a, b.to[b.count], err));
        b.count++;
    }
    put_bundle(a, &b);
    return GX_OK;
}

/* Index of row c->next of a spilled run. */
static gx_code peek_index(const gx_stack *s, const gx_sorted_run *info, row_cursor *c,
                          int64_t *index, gx_err *err)
{
    if (c->next >= c->first + c->loaded || c->next < c->first) {
        int64_t count = gx_min(INDEX_RECORDS, info->count - c->next);
        c->loaded = 0;
        GX_TRY(gx_spill_read(s->runs.spill, info->stream[0], c->next * (int64_t)sizeof c->index[0],
                             (size_t)count * sizeof c->index[0], c->index, err));
        c->first = c->next;
        c->loaded = count;
    }
    *index = c->index[c->next - c->first];
    return GX_OK;
}

/* Read the pieces [j0, j0 + n) of count rows from row `first` of a run; whole rows in one go. */
static gx_code read_rows(const row_assembly *a, const gx_sorted_run *info, int64_t first,
                         int64_t count, gx_err *err)
{
    const gx_stack *s = a->s;
    size_t size = gx_dtype_bytes(s->runs.spec.dtype), piece = (size_t)a->t.n * size;
    int64_t offset = first * (int64_t)s->row_bytes;
    if (a->t.n == s->runs.spec.cols) {
        return gx_spill_read(s->runs.spill, info->stream[1], offset, (size_t)count * piece,
                             a->batch, err);
    }
    for (int64_t k = 0; k < count; k++) {
        GX_TRY(gx_spill_read(s->runs.spill, info->stream[1],
                             offset + k * (int64_t)s->row_bytes + a->t.j0 * (int64_t)size, piece,
                             a->batch + (size_t)k * piece, err));
    }
    return GX_OK;
}

/* The rows of a spilled run that lie in the tile. */
static gx_code take_spilled_rows(row_assembly *a, const gx_sorted_run *info, row_cursor *c,
                                 gx_err *err)
{
    const gx_stack *s = a->s;
    size_t piece = (size_t)a->t.n * gx_dtype_bytes(s->runs.spec.dtype);
    int64_t most = gx_min(BATCH_ROWS, (int64_t)(a->batch_bytes / piece));
    for (;;) {
        bundle b = {.count = 0};
        int64_t first = c->next;
        for (; c->next < info->count && b.count < most; c->next++, b.count++) {
            int64_t index;
            GX_TRY(peek_index(s, info, c, &index, err));
            if (index >= a->t.i0 + a->t.m) {
                break;
            }
            b.from[b.count] = a->batch + (size_t)b.count * piece;
            b.to[b.count] = index - a->t.i0;
            GX_TRY(mark_row(a, index - a->t.i0, err));
        }
        if (b.count == 0) {
            return GX_OK;
        }
        GX_TRY(read_rows(a, info, first, b.count, err));
        put_bundle(a, &b);
    }
}

static gx_code rewind_runs(gx_assembly *tile, gx_err *err)
{
    row_assembly *a = (row_assembly *)(void *)tile;
    (void)err;
    a->memory_next = 0;
    for (int64_t r = 0; r < a->s->runs.count; r++) {
        a->cursors[r].next = 0;
    }
    return GX_OK;
}

static gx_code take_tile(gx_assembly *tile, gx_err *err)
{
    row_assembly *a = (row_assembly *)(void *)tile;
    for (int64_t r = 0; r < a->s->runs.count; r++) {
        GX_TRY(take_spilled_rows(a, &a->s->runs.list[r], &a->cursors[r], err));
    }
    return take_memory_rows(a, err);
}

/* What reading runs takes. */
static gx_code make_cursors(row_assembly *a, gx_err *err)
{
    gx_mem *mem = a->s->runs.ctx->mem;
    void *memory;
    if (a->s->runs.count == 0) {
        return GX_OK;
    }
    GX_TRY(gx_mem_calloc(mem, (size_t)a->s->runs.count * sizeof *a->cursors, "cursors of rows",
                         &memory, err));
    a->cursors = memory;
    size_t piece = (size_t)a->t.tile_cols * gx_dtype_bytes(a->s->runs.spec.dtype);
    size_t room = gx_mem_available(mem) / 2;
    a->batch_bytes = (size_t)gx_max((int64_t)piece, gx_min(BATCH_BYTES, (int64_t)room));
    GX_TRY(gx_mem_alloc(mem, a->batch_bytes, "a batch of rows", &memory, err));
    a->batch = memory;
    return GX_OK;
}

/* Shape, sink, memory, tiles. */
static gx_code finish(gx_stack *s, row_assembly *a, gx_err *err)
{
    gx_mem *mem = s->runs.ctx->mem;
    GX_TRY(gx_assembly_shape(&a->t, s->max_i, -1, err));
    if (s->count > 0 && gx_assembly_is_tight(&a->t)) {
        GX_TRY(spill_rows(s, err)); // no room for the tile or value beside the rows
        gx_mem_free(mem, s->buffer);
        gx_mem_free(mem, s->order);
        s->buffer = NULL;
        s->order = NULL;
        s->capacity = 0;
    }
    GX_TRY(sort_order(s, err));
    GX_TRY(gx_assembly_open(&a->t, a->t.tile_rows, err));
    GX_TRY(make_cursors(a, err));
    return gx_assembly_tiles(&a->t, rewind_runs, take_tile, err);
}

gx_code gx_stack_finish(gx_stack *s, gx_run *run, const gx_dest *dest, gx_sink *sink)
{
    row_assembly a = {.t = {.runs = &s->runs, .run = run, .sink = sink, .dest = dest}, .s = s};
    gx_mem *mem = s->runs.ctx->mem;
    gx_err err = {0};
    if (gx_assembly_begin(&a.t)) {
        (void)finish(s, &a, &err);
    }
    gx_mem_free(mem, a.cursors);
    gx_mem_free(mem, a.batch);
    return gx_assembly_end(&a.t, &err);
}
