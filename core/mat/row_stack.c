/*
** From rows to a matrix: see assembly.h.
**
**   collect   Rows are copied into a buffer, one after the other, with their indexes beside them.
**   spill     When the buffer is full, its rows are written in the order of their indexes as a run
**             of temporary data (spill.h): one stream of indexes, one of elements.
**   look      Where rows may be missing, or are numbered, the indexes of all runs are merged: the
**             first one that did not come is told before anything is written, or each gets its
**             number, the place in the list of them all.
**   finish    Shape and tiles are known.  Tile column by tile column, and down each one, every run
**             gives the rows that lie in the tile, or their piece that does; they are turned from
**             rows to the columns of the tile, and the tile is written.
**
** Rows that come in ascending order are never sorted or moved.  The order of rows of one index is
** the order of arrival in every case, so sums have the same bits, and "last" is the last, whatever
** the memory limit.
**
** Memory: half of what is available at the beginning for the buffer; in the end one tile, a bit for
** each of its rows, an index buffer for each run, and BATCH_BYTES or one row's piece; for numbered
** rows 8 bytes each.  A value is filled in place.
**
** I/O: nothing but the result when the rows fit; else each element is written once and read once
** (in pieces of a tile's width), each index read once for each tile column, and once by the look.
** The caller's thread does everything.
*/
#include "assembly.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    FIRST_BYTES = 16 << 10,  /* of the buffer when it is made                         */
    BATCH_BYTES = 256 << 10, /* read from a run at a time                             */
    BATCH_ROWS = 64,         /* turned at a time: their cache lines fit the L1 cache  */
    INDEX_RECORDS = 64       /* indexes of a run that are read at a time              */
};

/* A row of the buffer. */
typedef struct row_place {
    int64_t i; /* index of the row */
    int64_t slot;
} row_place;

struct gx_stack {
    gx_sorted_runs runs;       /* their spec's cols -1 until the first row    */
    size_t row_bytes;          /* of one row                                  */
    int64_t max_i;             /* of the rows so far; -1: none                */
    int64_t total;             /* rows so far                                 */
    unsigned char *buffer;     /* capacity rows                               */
    row_place *order;          /* capacity of them                            */
    int64_t count, capacity;
    bool is_ascending;         /* of the rows in the buffer: slot k is order k */
    bool is_sorted;            /* of their order                              */
    int64_t *ids;              /* numbered rows: the indexes, ascending, each once */
    int64_t id_count;
};

gx_code gx_stack_create(gx_ctx *ctx, const gx_scatter_spec *spec, gx_stack **out, gx_err *err)
{
    *out = NULL;
    gx_stack *s;
    GX_TRY(gx_mem_calloc(ctx->mem, sizeof(gx_stack), "rows", &s, err));
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
    gx_mem_free(mem, s->ids);
    gx_mem_free(mem, s);
}

// Collecting --------------------------------------------------------------------------------------

/*
** Order the buffer's rows by index, stable: a merge sort of index and slot, bottom up.  The second
** array comes from what is available beside the share.
*/
static gx_code sort_order(gx_stack *s, gx_err *err)
{
    if (s->is_ascending || s->is_sorted) {
        return GX_OK;
    }
    row_place *from = s->order, *to;
    GX_TRY(gx_mem_alloc(s->runs.ctx->mem, (size_t)s->count * sizeof *to, "sorting rows", &to, err));
    row_place *spare = to;
    for (int64_t half = 1; half < s->count; half *= 2) {
        for (int64_t low = 0; low < s->count; low += 2 * half) {
            int64_t middle = gx_min(low + half, s->count), high = gx_min(low + 2 * half, s->count);
            int64_t a = low, b = middle;
            for (int64_t k = low; k < high; k++) {
                bool is_left = a < middle && (b >= high || from[a].i <= from[b].i);
                to[k] = is_left ? from[a++] : from[b++];
            }
        }
        row_place *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != s->order) {
        memcpy(s->order, from, (size_t)s->count * sizeof *from);
    }
    gx_mem_free(s->runs.ctx->mem, spare);
    s->is_sorted = true;
    return GX_OK;
}

static unsigned char *slot_of(const gx_stack *s, int64_t k)
{
    return s->buffer + (size_t)s->order[k].slot * s->row_bytes;
}

static gx_code write_run(gx_stack *s, gx_sorted_run *info, gx_err *err)
{
    gx_spill_begin(s->runs.spill, &info->stream[0]);
    for (int64_t k = 0; k < s->count; k++) {
        GX_TRY(gx_spill_append(s->runs.spill, &s->order[k].i, sizeof s->order[k].i, err));
    }
    GX_TRY(gx_spill_end(s->runs.spill, err));
    gx_spill_begin(s->runs.spill, &info->stream[1]);
    if (s->is_ascending) {
        GX_TRY(gx_spill_append(s->runs.spill, s->buffer, (size_t)s->count * s->row_bytes, err));
        return gx_spill_end(s->runs.spill, err);
    }
    for (int64_t k = 0; k < s->count; k++) {
        GX_TRY(gx_spill_append(s->runs.spill, slot_of(s, k), s->row_bytes, err));
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
    s->is_sorted = false;
    return GX_OK;
}

/* The last of them, and their memory is free. */
static gx_code spill_all(gx_stack *s, gx_err *err)
{
    if (s->count == 0) {
        return GX_OK;
    }
    GX_TRY(spill_rows(s, err));
    gx_mem_free(s->runs.ctx->mem, s->buffer);
    gx_mem_free(s->runs.ctx->mem, s->order);
    s->buffer = NULL;
    s->order = NULL;
    s->capacity = 0;
    return GX_OK;
}

/* Room for one more row: a larger buffer as far as the share goes, else an empty one. */
static gx_code make_room(gx_stack *s, gx_err *err)
{
    size_t each = s->row_bytes + 2 * sizeof *s->order; // with its part of the sort
    int64_t most = gx_max((int64_t)(s->runs.share / each), 1);
    int64_t first = gx_max(1, (int64_t)(FIRST_BYTES / each));
    // Growing copies, so old and new are there at once: half of the share is the last step.
    int64_t capacity = gx_min(gx_max(first, 2 * s->capacity), gx_max(most * 2 / 3, 1));
    gx_err refused = {0};
    if (capacity > s->capacity) {
        gx_code rc = gx_mem_realloc(s->runs.ctx->mem, (size_t)capacity * s->row_bytes, "rows",
                                    &s->buffer, &refused);
        if (rc == GX_OK) {
            rc = gx_mem_realloc(s->runs.ctx->mem, (size_t)capacity * sizeof *s->order, "rows",
                                &s->order, &refused);
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
    bool is_numbered = s->runs.spec.is_numbered;
    if (i < 0 && !is_numbered) {
        return gx_fail(err, GX_ARG, "row index %lld is negative", (long long)i);
    }
    if (s->runs.spec.rows >= 0 && i >= s->runs.spec.rows && !is_numbered) {
        return gx_fail(err, GX_ARG, "row %lld is outside a matrix of %lld rows", (long long)i,
                       (long long)s->runs.spec.rows);
    }
    if (i >= GX_SCATTER_INDEX_END && !is_numbered) {
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
    s->row_bytes = (size_t)count * gx_number_bytes(s->runs.spec.dtype);
    if (s->count == s->capacity) {
        GX_TRY(make_room(s, err));
    }
    if (s->row_bytes > 0) {
        memcpy(s->buffer + (size_t)s->count * s->row_bytes, row, s->row_bytes);
    }
    if (s->count > 0 && i < s->order[s->count - 1].i) {
        s->is_ascending = false;
    }
    s->is_sorted = false;
    s->order[s->count] = (row_place){i, s->count};
    s->count++;
    s->total++;
    s->max_i = gx_max(s->max_i, i);
    return GX_OK;
}

int64_t gx_stack_cols(const gx_stack *s)
{
    return s->runs.spec.cols;
}

// Looking at the indexes --------------------------------------------------------------------------

/* How far a run has been used (in the current tile column), and the indexes that follow. */
typedef struct row_cursor {
    int64_t next;          /* row of the run                                 */
    int64_t first, loaded; /* index[] holds those of [first, first + loaded) */
    int64_t index[INDEX_RECORDS];
} row_cursor;

/* One for each run; NULL where there are none. */
static gx_code make_cursors(const gx_stack *s, row_cursor **cursors, gx_err *err)
{
    *cursors = NULL;
    if (s->runs.count > 0) {
        GX_TRY(gx_mem_calloc(s->runs.ctx->mem, (size_t)s->runs.count * sizeof **cursors,
                             "cursors of rows", cursors, err));
    }
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

/* The smallest index that has not been passed; false: there is none. */
static gx_code smallest(const gx_stack *s, row_cursor *cursors, int64_t memory_next, bool *is_one,
                        int64_t *least, gx_err *err)
{
    *is_one = memory_next < s->count;
    *least = *is_one ? s->order[memory_next].i : 0;
    for (int64_t r = 0; r < s->runs.count; r++) {
        int64_t index;
        if (cursors[r].next < s->runs.list[r].count) {
            GX_TRY(peek_index(s, &s->runs.list[r], &cursors[r], &index, err));
            *least = *is_one ? gx_min(*least, index) : index;
            *is_one = true;
        }
    }
    return GX_OK;
}

/* Every index once, in ascending order: how many, the first that is not its own place, the list. */
static gx_code merge(gx_stack *s, gx_run *run, row_cursor *cursors, int64_t *count, int64_t *gap,
                     gx_err *err)
{
    enum { POLLED = 1 << 14 }; /* indexes between two looks for an interrupt */
    int64_t memory_next = 0, least = 0;
    bool is_one = true;
    *gap = -1;
    for (*count = 0;; ++*count) {
        GX_TRY(smallest(s, cursors, memory_next, &is_one, &least, err));
        if (!is_one) {
            return GX_OK;
        }
        if (*count % POLLED == 0) {
            GX_TRY(gx_run_poll(run));
        }
        *gap = *gap < 0 && least != *count ? *count : *gap;
        if (s->ids != NULL) {
            s->ids[*count] = least;
        }
        while (memory_next < s->count && s->order[memory_next].i == least) {
            memory_next++;
        }
        for (int64_t r = 0; r < s->runs.count; r++) {
            int64_t index = least;
            while (cursors[r].next < s->runs.list[r].count && index == least) {
                GX_TRY(peek_index(s, &s->runs.list[r], &cursors[r], &index, err));
                cursors[r].next += index == least;
            }
        }
    }
}

/* Of the matrix, where the look has found so many indexes. */
static int64_t rows_of(const gx_stack *s, int64_t found)
{
    return s->runs.spec.rows >= 0       ? s->runs.spec.rows
           : s->runs.spec.is_numbered ? found
                                      : s->max_i + 1;
}

static gx_code check_gaps(const gx_stack *s, int64_t found, int64_t gap, gx_err *err)
{
    bool is_numbered = s->runs.spec.is_numbered;
    int64_t rows = rows_of(s, found);
    if (is_numbered && found > rows) {
        return gx_fail(err, GX_ARG, "%lld rows came for a matrix of %lld", (long long)found,
                       (long long)rows);
    }
    if (found == rows || s->runs.spec.gaps != GX_GAPS_ERROR) {
        return GX_OK;
    }
    return gx_fail(err, GX_ARG,
                   "row %lld is missing: %lld of %lld rows came (option \"gaps\" may be \"zero\" "
                   "or \"nan\"%s)",
                   (long long)(is_numbered || gap < 0 ? found : gap), (long long)found,
                   (long long)rows,
                   is_numbered ? "" : "; \"number\":true numbers the rows that came");
}

/* As many rows as there are places, none twice, leave no gap: then there is nothing to look for. */
static gx_code look(gx_stack *s, gx_run *run, gx_err *err)
{
    const gx_scatter_spec *spec = &s->runs.spec;
    row_cursor *cursors = NULL;
    int64_t found = 0, gap;
    bool is_full = spec->duplicates == GX_DUPLICATES_ERROR && s->total >= rows_of(s, 0);
    if (!spec->is_numbered && (is_full || spec->gaps != GX_GAPS_ERROR)) {
        return GX_OK;
    }
    if (spec->is_numbered) {
        size_t bytes = (size_t)s->total * sizeof *s->ids;
        if (s->runs.count > 0 || bytes > gx_mem_available(s->runs.ctx->mem)) {
            GX_TRY(spill_all(s, err)); // no room for the list beside the rows
        }
        GX_TRY(gx_mem_alloc(s->runs.ctx->mem, bytes, "indexes of numbered rows", &s->ids, err));
    }
    GX_TRY(make_cursors(s, &cursors, err));
    gx_code rc = merge(s, run, cursors, &found, &gap, err);
    gx_mem_free(s->runs.ctx->mem, cursors);
    s->id_count = found;
    return rc == GX_OK ? check_gaps(s, found, gap, err) : rc;
}

/* In place: a list of numbers is a matrix like others, which keeps whole ones to 2^53. */
gx_code gx_stack_ids(gx_stack *s, const double **list, int64_t *count, gx_err *err)
{
    const int64_t LIMIT = (int64_t)1 << 53;
    double *numbers = (double *)(void *)s->ids;
    for (int64_t k = 0; k < s->id_count; k++) {
        int64_t id = s->ids[k];
        if (id > LIMIT || id < -LIMIT) {
            return gx_fail(err, GX_ARG, "the list of ids cannot keep %lld, which is past 2^53",
                           (long long)id);
        }
        double number = (double)id;
        memcpy(numbers + k, &number, sizeof number);
    }
    *list = numbers;
    *count = s->id_count;
    return GX_OK;
}

// Building the matrix -----------------------------------------------------------------------------

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
    gx_number dtype = a->s->runs.spec.dtype;
    size_t size = gx_number_bytes(dtype);
    if (a->s->runs.spec.duplicates == GX_DUPLICATES_SUM) {
        for (int64_t j = 0; j < a->t.n; j++) {
            for (int k = 0; k < b->count; k++) {
                gx_assembly_put(&a->t, j * a->t.m + b->to[k], gx_number_get(dtype, b->from[k], j),
                                true);
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

/* Which row of the tile has that index; m: it lies further down. */
static int64_t place_of(const row_assembly *a, int64_t index)
{
    const int64_t *ids = a->s->ids;
    if (ids == NULL) {
        return gx_min(index - a->t.i0, a->t.m);
    }
    int64_t low = a->t.i0, high = gx_min(a->t.i0 + a->t.m, a->s->id_count);
    if (low >= high || index > ids[high - 1]) {
        return a->t.m;
    }
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (ids[middle] <= index) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low - a->t.i0;
}

/* Note a row of the tile; its second coming may be an error. */
static gx_code mark_row(const row_assembly *a, int64_t row, int64_t index, gx_err *err)
{
    if (gx_assembly_is_twice(&a->t, row)) {
        return gx_fail(err, GX_ARG,
                       "row %lld comes twice (option \"duplicates\" may be \"sum\" or \"last\")",
                       (long long)index);
    }
    return GX_OK;
}

/* The rows in memory that lie in the tile. */
static gx_code take_memory_rows(row_assembly *a, gx_err *err)
{
    const gx_stack *s = a->s;
    size_t skip = (size_t)a->t.j0 * gx_number_bytes(s->runs.spec.dtype);
    bundle b = {.count = 0};
    for (; a->memory_next < s->count; a->memory_next++) {
        int64_t index = s->order[a->memory_next].i, row = place_of(a, index);
        if (row >= a->t.m) {
            break;
        }
        if (b.count == BATCH_ROWS) {
            put_bundle(a, &b);
            b.count = 0;
        }
        b.from[b.count] = slot_of(s, a->memory_next) + skip;
        b.to[b.count] = row;
        GX_TRY(mark_row(a, row, index, err));
        b.count++;
    }
    put_bundle(a, &b);
    return GX_OK;
}

/* Read the pieces [j0, j0 + n) of count rows from row `first` of a run; whole rows in one go. */
static gx_code read_rows(const row_assembly *a, const gx_sorted_run *info, int64_t first,
                         int64_t count, gx_err *err)
{
    const gx_stack *s = a->s;
    size_t size = gx_number_bytes(s->runs.spec.dtype), piece = (size_t)a->t.n * size;
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
    size_t piece = (size_t)a->t.n * gx_number_bytes(s->runs.spec.dtype);
    int64_t most = gx_min(BATCH_ROWS, (int64_t)(a->batch_bytes / piece));
    for (;;) {
        bundle b = {.count = 0};
        int64_t first = c->next;
        for (; c->next < info->count && b.count < most; c->next++, b.count++) {
            int64_t index;
            GX_TRY(peek_index(s, info, c, &index, err));
            int64_t row = place_of(a, index);
            if (row >= a->t.m) {
                break;
            }
            b.from[b.count] = a->batch + (size_t)b.count * piece;
            b.to[b.count] = row;
            GX_TRY(mark_row(a, row, index, err));
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

/* Rows of the tile that did not come are 0 already. */
static void fill_gaps(const row_assembly *a)
{
    if (a->s->runs.spec.gaps != GX_GAPS_NAN) {
        return;
    }
    for (int64_t i = 0; i < a->t.m; i++) {
        for (int64_t j = 0; j < a->t.n && !gx_assembly_has(&a->t, i); j++) {
            gx_assembly_put(&a->t, j * a->t.m + i, (gx_scalar){NAN, 0}, false);
        }
    }
}

static gx_code take_tile(gx_assembly *tile, gx_err *err)
{
    row_assembly *a = (row_assembly *)(void *)tile;
    for (int64_t r = 0; r < a->s->runs.count; r++) {
        GX_TRY(take_spilled_rows(a, &a->s->runs.list[r], &a->cursors[r], err));
    }
    GX_TRY(take_memory_rows(a, err));
    fill_gaps(a);
    return GX_OK;
}

/* What reading runs takes. */
static gx_code make_batch(row_assembly *a, gx_err *err)
{
    gx_mem *mem = a->s->runs.ctx->mem;
    GX_TRY(make_cursors(a->s, &a->cursors, err));
    if (a->cursors == NULL) {
        return GX_OK;
    }
    size_t piece = (size_t)a->t.tile_cols * gx_number_bytes(a->s->runs.spec.dtype);
    size_t room = gx_mem_available(mem) / 2;
    a->batch_bytes = (size_t)gx_max((int64_t)piece, gx_min(BATCH_BYTES, (int64_t)room));
    GX_TRY(gx_mem_alloc(mem, a->batch_bytes, "a batch of rows", &a->batch, err));
    return GX_OK;
}

/* Shape, sink, memory, tiles. */
static gx_code finish(gx_stack *s, row_assembly *a, gx_err *err)
{
    GX_TRY(sort_order(s, err));
    GX_TRY(look(s, a->t.run, err));
    GX_TRY(gx_assembly_shape(&a->t, rows_of(s, s->id_count) - 1, -1, err));
    if (gx_assembly_is_tight(&a->t)) {
        GX_TRY(spill_all(s, err)); // no room for the tile or value beside the rows
    }
    GX_TRY(gx_assembly_open(&a->t, a->t.tile_rows, err));
    GX_TRY(make_batch(a, err));
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
