/*
** From cells to a matrix: see assembly.h.
**
** Method: an external sort by place, ended by a distribution.
**
**   collect   Records (i, j, value) of 16 or 24 bytes go into a buffer, in order of arrival.
**   spill     When the buffer is full, it is sorted by base block and written as a run of temporary
**             data (spill.h); the buffer starts anew.
**   finish    The shape is known now, and with it the tiles.  For each tile in ascending order,
**             the records in it are read from every run, put into one tile buffer, and the tile is
**             written.
**
** Base blocks make runs useful before the shape is known: a base block is 64 x 64 elements, and
** tiles are made of whole base blocks (tile_shape.c cuts at multiples of 64; for tiles smaller
** than a base block the base block is one element).  A run is sorted by (base column, base row), so
** the records of a tile are, for each of its base columns, one contiguous piece of the run, and go
** down the run as the tile goes down the matrix.  Hence one *cursor* for each run and base column
** of the current tile column, which only ever moves forward.
**
** The sort is stable and runs are taken in the order of their making, so a cell that comes several
** times is met in the order of arrival: sums have the same bits, and "last" is the last, whatever
** the memory limit.
**
** A sparse result needs no tiles: its runs are sorted by row and column, merged until one merge is
** left, and that one is what writes the rows (sparse_out.c).
**
** Memory: half of what is available at the beginning, a half of that for the buffer and a half
** reserved for sorting; in the end one tile, a bit for each of its elements, and the cursors (when
** there would be too many, runs are first merged, FAN at a time).  A result that is a value is
** one "tile" and is filled in place.
**
** I/O: nothing but the result when the records fit; else each record is written once and read once
** (once more for each merge).  The caller's thread does everything.
*/
#include "assembly.h"
#include "sparse.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    FIRST_RECORDS = 1024, /* of the buffer when it is made                           */
    RADIX_BITS = 11,      /* of one sorting pass: its counters stay in the L1 cache  */
    FAN = 16,             /* runs merged at a time                                   */
    BASE = 64             /* elements along a base block                             */
};

/* A record in memory: i, j, re[, im]. */
typedef struct cell {
    uint32_t i, j;
    double part[2]; /* a real record ends after part[0] */
} cell;

struct gx_scatter {
    gx_sorted_runs runs;
    size_t stride;         /* bytes of a record                   */
    int base;              /* elements along a base block         */
    int64_t max_i, max_j;  /* of the cells so far; -1: none       */
    unsigned char *buffer; /* capacity records                    */
    int64_t count, capacity;
    int64_t capacity_max;  /* may grow to                         */
    size_t reserved;       /* bytes kept free for sorting         */
};

gx_code gx_scatter_create(gx_ctx *ctx, const gx_scatter_spec *spec, gx_scatter **out, gx_err *err)
{
    *out = NULL;
    if (spec->is_sparse && spec->rows > GX_SCATTER_INDEX_END) { // whose starts alone are as many
        return gx_fail(err, GX_ARG, GX_SCATTER_ROWS_TEXT, (long long)spec->rows);
    }
    gx_scatter *s;
    GX_TRY(gx_mem_calloc(ctx->mem, sizeof(gx_scatter), "cells", &s, err));
    gx_sorted_runs_begin(&s->runs, ctx, spec);
    s->stride = gx_number_is_complex(spec->dtype) ? sizeof(cell) : offsetof(cell, part[1]);
    size_t tile_elements = gx_store_max_tile_bytes(ctx->store) / gx_number_bytes(spec->dtype);
    s->base = !spec->is_sparse && tile_elements >= BASE * BASE ? BASE : 1;
    s->max_i = s->max_j = -1;
    s->capacity_max = gx_max((int64_t)(s->runs.share / 2 / s->stride), 64);
    *out = s;
    return GX_OK;
}

void gx_scatter_free(gx_scatter *s)
{
    if (s == NULL) {
        return;
    }
    gx_mem *mem = s->runs.ctx->mem;
    gx_sorted_runs_free(&s->runs);
    gx_mem_return(mem, s->reserved);
    gx_mem_free(mem, s->buffer);
    gx_mem_free(mem, s);
}

// Records -----------------------------------------------------------------------------------------

static inline cell load(const gx_scatter *s, const unsigned char *record)
{
    cell c = {.part = {0, 0}};
    memcpy(&c, record, s->stride == sizeof c ? sizeof c : offsetof(cell, part[1]));
    return c;
}

/* Where a record's base block stands in a run. */
static inline uint64_t place_of(const gx_scatter *s, uint32_t i, uint32_t j)
{
    if (s->runs.spec.is_sparse) {
        return (uint64_t)i << 32 | j;
    }
    return s->base == BASE ? (uint64_t)(j / BASE) << 32 | i / BASE : (uint64_t)j << 32 | i;
}

static inline uint64_t place_at(const gx_scatter *s, const unsigned char *record)
{
    uint32_t ij[2];
    memcpy(ij, record, sizeof ij);
    return place_of(s, ij[0], ij[1]);
}

static int bits_of(uint64_t largest)
{
    return largest == 0 ? 0 : 64 - __builtin_clzll(largest);
}

static bool is_sorted(const gx_scatter *s)
{
    for (int64_t k = 1; k < s->count; k++) {
        if (place_at(s, s->buffer + (size_t)(k - 1) * s->stride) >
            place_at(s, s->buffer + (size_t)k * s->stride)) {
            return false;
        }
    }
    return true;
}

/* One stable pass over bits [shift, shift + RADIX_BITS) of the place, squeezed to row_bits. */
static void radix_pass(const gx_scatter *s, int row_bits, int shift, unsigned char *to)
{
    int64_t start[1 << RADIX_BITS] = {0};
    const uint64_t mask = (1 << RADIX_BITS) - 1;
    size_t stride = s->stride;
    for (int64_t k = 0; k < s->count; k++) {
        uint64_t place = place_at(s, s->buffer + (size_t)k * stride);
        uint64_t key = place >> 32 << row_bits | (uint32_t)place;
        start[key >> shift & mask]++;
    }
    int64_t sum = 0;
    for (int64_t d = 0; d <= (int64_t)mask; d++) {
        int64_t here = start[d];
        start[d] = sum;
        sum += here;
    }
    for (int64_t k = 0; k < s->count; k++) {
        const unsigned char *record = s->buffer + (size_t)k * stride;
        uint64_t place = place_at(s, record);
        uint64_t key = place >> 32 << row_bits | (uint32_t)place;
        unsigned char *target = to + (size_t)start[key >> shift & mask]++ * stride;
        if (stride == 16) {
            memcpy(target, record, 16);
        } else {
            memcpy(target, record, 24);
        }
    }
}

/* Sort the buffer by base block, stable.  Needs as much memory again: what is reserved for it. */
static gx_code sort_buffer(gx_scatter *s, gx_err *err)
{
    if (is_sorted(s)) {
        return GX_OK;
    }
    gx_mem_return(s->runs.ctx->mem, s->reserved);
    s->reserved = 0;
    void *other;
    size_t bytes = (size_t)s->count * s->stride;
    GX_TRY(gx_mem_alloc(s->runs.ctx->mem, bytes, "sorting cells", &other, err));
    uint64_t last = place_of(s, (uint32_t)s->max_i, (uint32_t)s->max_j);
    int row_bits = bits_of((uint32_t)last), bits = row_bits + bits_of(last >> 32);
    bool is_moved = false;
    for (int shift = 0; shift < bits; shift += RADIX_BITS) {
        radix_pass(s, row_bits, shift, other);
        unsigned char *sorted = other;
        other = s->buffer;
        s->buffer = sorted;
        is_moved = !is_moved;
    }
    if (is_moved) { // the two blocks have changed places, and the new one is only as long as needed
        s->capacity = s->count;
    }
    gx_mem_free(s->runs.ctx->mem, other);
    return GX_OK;
}

// Collecting --------------------------------------------------------------------------------------

/* Write the sorted buffer as a run and start anew. */
static gx_code spill_buffer(gx_scatter *s, gx_err *err)
{
    gx_sorted_run info = {.count = s->count};
    GX_TRY(gx_sorted_runs_spill(&s->runs, err));
    GX_TRY(sort_buffer(s, err));
    gx_spill_begin(s->runs.spill, &info.stream[0]);
    GX_TRY(gx_spill_append(s->runs.spill, s->buffer, (size_t)s->count * s->stride, err));
    GX_TRY(gx_spill_end(s->runs.spill, err));
    GX_TRY(gx_sorted_runs_add(&s->runs, &info, err));
    assert(s->count <= s->capacity);
    s->count = 0;
    if (s->reserved == 0) {
        size_t bytes = (size_t)s->capacity * s->stride;
        GX_TRY(gx_mem_reserve(s->runs.ctx->mem, bytes, "sorting cells", err));
        s->reserved = bytes;
    }
    return GX_OK;
}

/* Twice the room, and as much reserved; false where the share or the budget does not allow it. */
static bool grow(gx_scatter *s, gx_err *err)
{
    int64_t capacity = gx_min(gx_max(FIRST_RECORDS, 2 * s->capacity), s->capacity_max);
    if (capacity <= s->capacity) {
        return false;
    }
    size_t bytes = (size_t)capacity * s->stride;
    gx_err ignored = {0};
    gx_mem_return(s->runs.ctx->mem, s->reserved);
    size_t before = s->reserved;
    s->reserved = 0;
    gx_code rc = gx_mem_realloc(s->runs.ctx->mem, bytes, "cells", &s->buffer, &ignored);
    if (rc == GX_OK) {
        s->capacity = capacity;
    } else if (rc == GX_NOMEM && s->count == 0) {
        *err = ignored; // the system has none, whatever memory_limit says
        return false;
    }
    // Without room to sort what the buffer holds, it may not hold so much.
    size_t wanted = rc == GX_OK ? bytes : before;
    if (gx_mem_reserve(s->runs.ctx->mem, wanted, "sorting cells", &ignored) == GX_OK) {
        s->reserved = wanted;
        return rc == GX_OK;
    }
    if (rc == GX_OK && before > 0 &&
        gx_mem_reserve(s->runs.ctx->mem, before, "sorting cells", err) == GX_OK) {
        s->reserved = before;
        s->capacity = (int64_t)(before / s->stride);
    }
    return false;
}

/* The buffer is full: more room, or none left. */
static gx_code make_room(gx_scatter *s, gx_err *err)
{
    if (grow(s, err)) {
        return GX_OK;
    }
    if (err->code != GX_OK) {
        return err->code;
    }
    if (s->count == 0) {
        return gx_fail(err, GX_BUDGET,
                       "cells need %zu bytes but memory_limit leaves %zu of %zu: raise it with "
                       "gx_config('memory_limit', ...)",
                       2 * (size_t)gx_min(FIRST_RECORDS, s->capacity_max) * s->stride,
                       gx_mem_available(s->runs.ctx->mem), gx_mem_limit(s->runs.ctx->mem));
    }
    return spill_buffer(s, err);
}

static gx_code refuse_index(const gx_scatter *s, int64_t i, int64_t j, gx_err *err)
{
    if (i < 0 || j < 0) {
        return gx_fail(err, GX_ARG, "cell (%lld, %lld) has a negative index", (long long)i,
                       (long long)j);
    }
    if ((s->runs.spec.rows >= 0 && i >= s->runs.spec.rows) ||
        (s->runs.spec.cols >= 0 && j >= s->runs.spec.cols)) {
        char rows[24] = "any", cols[24] = "any";
        if (s->runs.spec.rows >= 0) {
            snprintf(rows, sizeof rows, "%lld", (long long)s->runs.spec.rows);
        }
        if (s->runs.spec.cols >= 0) {
            snprintf(cols, sizeof cols, "%lld", (long long)s->runs.spec.cols);
        }
        return gx_fail(err, GX_ARG,
                       "cell (%lld, %lld) is outside a matrix of %s rows and %s columns",
                       (long long)i, (long long)j, rows, cols);
    }
    return gx_fail(err, GX_ARG, "cell (%lld, %lld) has an index past %lld", (long long)i,
                   (long long)j, (long long)GX_SCATTER_INDEX_END - 1);
}

gx_code gx_scatter_add(gx_scatter *s, int64_t i, int64_t j, gx_scalar value, gx_err *err)
{
    int64_t rows = s->runs.spec.rows, cols = s->runs.spec.cols;
    uint64_t end_i =
        (uint64_t)(rows >= 0 ? gx_min(rows, GX_SCATTER_INDEX_END) : GX_SCATTER_INDEX_END);
    uint64_t end_j =
        (uint64_t)(cols >= 0 ? gx_min(cols, GX_SCATTER_INDEX_END) : GX_SCATTER_INDEX_END);
    if ((uint64_t)i >= end_i || (uint64_t)j >= end_j) {
        return refuse_index(s, i, j, err);
    }
    if (s->count == s->capacity) {
        GX_TRY(make_room(s, err));
    }
    const cell c = {.i = (uint32_t)i, .j = (uint32_t)j, .part = {value.re, value.im}};
    memcpy(s->buffer + (size_t)s->count * s->stride, &c, s->stride);
    s->count++;
    s->max_i = gx_max(s->max_i, i);
    s->max_j = gx_max(s->max_j, j);
    return GX_OK;
}

// Reading runs ------------------------------------------------------------------------------------

/* A place in a run that moves forward: records [next, end), some of them in the buffer. */
typedef struct cursor {
    int64_t next, end;
    int64_t first, loaded; /* the buffer holds records [first, first + loaded) */
    uint64_t place;        /* merging: of record next                          */
    unsigned char *buffer;
} cursor;

typedef struct assembly {
    gx_assembly t;          /* the tile                                             */
    gx_scatter *s;
    cursor *cursors;        /* width for each run                                   */
    int64_t width;          /* cursors of one run                                   */
    unsigned char *buffers;
    int64_t buffer_records; /* of one cursor                                        */
    int64_t *done;          /* for each run: records before the current tile column */
} assembly;

/* The record at c->next. */
static inline gx_code peek(const gx_scatter *s, const gx_sorted_run *info, int64_t buffer_records,
                           cursor *c, const unsigned char **record, gx_err *err)
{
    if (info->memory != NULL) {
        *record = info->memory + (size_t)c->next * s->stride;
        return GX_OK;
    }
    if (c->next >= c->first + c->loaded) {
        int64_t count = gx_min(buffer_records, c->end - c->next);
        GX_TRY(gx_spill_read(s->runs.spill, info->stream[0], c->next * (int64_t)s->stride,
                             (size_t)count * s->stride, c->buffer, err));
        c->first = c->next;
        c->loaded = count;
    }
    *record = c->buffer + (size_t)(c->next - c->first) * s->stride;
    return GX_OK;
}

/* The first record of [low, high) whose place is not before the given one. */
static gx_code find_place(const gx_scatter *s, const gx_sorted_run *info, int64_t low, int64_t high,
                          uint64_t place, int64_t *found, gx_err *err)
{
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        unsigned char record[sizeof(cell)];
        const unsigned char *at = record;
        if (info->memory != NULL) {
            at = info->memory + (size_t)middle * s->stride;
        } else {
            GX_TRY(gx_spill_read(s->runs.spill, info->stream[0], middle * (int64_t)s->stride,
                                 s->stride, record, err));
        }
        if (place_at(s, at) < place) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *found = low;
    return GX_OK;
}

// Merging runs ------------------------------------------------------------------------------------

/* The cursor with the smallest place, the earliest run among equals; NULL: all are at their end. */
static cursor *smallest(cursor *cursors, int64_t count)
{
    cursor *best = NULL;
    for (int64_t k = 0; k < count; k++) {
        if (cursors[k].next < cursors[k].end && (best == NULL || cursors[k].place < best->place)) {
            best = &cursors[k];
        }
    }
    return best;
}

/* What a merge gives its records to, sorted, those of equal places in the order of runs. */
typedef gx_code (*take_fn)(void *arg, const unsigned char *record, gx_err *err);

static gx_code merge_into(gx_scatter *s, gx_run *run, const gx_sorted_run *runs, cursor *cursors,
                          int64_t count, int64_t buffer_records, take_fn take, void *arg,
                          gx_err *err)
{
    const unsigned char *record;
    for (int64_t k = 0; k < count; k++) {
        cursors[k].end = runs[k].count;
        if (runs[k].count > 0) {
            GX_TRY(peek(s, &runs[k], buffer_records, &cursors[k], &record, err));
            cursors[k].place = place_at(s, record);
        }
    }
    cursor *c;
    for (int64_t merged = 0; (c = smallest(cursors, count)) != NULL; merged++) {
        const gx_sorted_run *info = &runs[c - cursors];
        GX_TRY(peek(s, info, buffer_records, c, &record, err));
        GX_TRY(take(arg, record, err));
        if (++c->next < c->end) {
            GX_TRY(peek(s, info, buffer_records, c, &record, err));
            c->place = place_at(s, record);
        }
        if (merged % 65536 == 0 && gx_run_poll(run) != GX_OK) {
            return run->err.code;
        }
    }
    return GX_OK;
}

/* One merge of count runs, FAN at most, from number `first` on. */
static gx_code merge(gx_scatter *s, gx_run *run, int64_t first, int64_t count, take_fn take,
                     void *arg, gx_err *err)
{
    gx_mem *mem = s->runs.ctx->mem;
    size_t room = gx_mem_available(mem) / 4 / FAN;
    int64_t records = gx_max(1, gx_min((int64_t)(room / s->stride), 16384));
    int64_t buffered = s->runs.spill == NULL ? 0 : count;
    cursor *cursors = NULL;
    unsigned char *buffers = NULL;
    gx_code rc = gx_mem_calloc(mem, FAN * sizeof(cursor), "merging cells", &cursors, err);
    if (rc == GX_OK) {
        rc = gx_mem_alloc(mem, (size_t)(buffered * records) * s->stride, "merging cells", &buffers,
                          err);
    }
    if (rc == GX_OK) {
        for (int64_t k = 0; k < buffered; k++) {
            cursors[k].buffer = buffers + (size_t)(k * records) * s->stride;
        }
        rc = merge_into(s, run, s->runs.list + first, cursors, count, records, take, arg, err);
    }
    gx_mem_free(mem, buffers);
    gx_mem_free(mem, cursors);
    return rc;
}

static gx_code append_record(void *arg, const unsigned char *record, gx_err *err)
{
    const gx_scatter *s = arg;
    return gx_spill_append(s->runs.spill, record, s->stride, err);
}

/* count runs from runs[first] on become one, which takes the place of the first of them. */
static gx_code merge_group(gx_scatter *s, gx_run *run, int64_t first, int64_t count, gx_err *err)
{
    gx_sorted_run info = {0};
    for (int64_t k = 0; k < count; k++) {
        info.count += s->runs.list[first + k].count;
    }
    gx_spill_begin(s->runs.spill, &info.stream[0]);
    GX_TRY(merge(s, run, first, count, append_record, s, err));
    GX_TRY(gx_spill_end(s->runs.spill, err));
    s->runs.list[first] = info;
    return GX_OK;
}

/* Merge neighbouring runs until there are at most `most`. */
static gx_code merge_runs(gx_scatter *s, gx_run *run, int64_t most, gx_err *err)
{
    while (s->runs.count > gx_max(most, 1)) {
        int64_t kept = 0;
        for (int64_t first = 0; first < s->runs.count; first += FAN) {
            int64_t count = gx_min(FAN, s->runs.count - first);
            if (count > 1) {
                GX_TRY(merge_group(s, run, first, count, err));
            }
            s->runs.list[kept++] = s->runs.list[first];
        }
        s->runs.count = kept;
    }
    return GX_OK;
}

// Building the matrix -----------------------------------------------------------------------------

static gx_code refuse_twice(const cell *it, gx_err *err)
{
    return gx_fail(err, GX_ARG,
                   "cell (%u, %u) comes twice (option \"duplicates\" may be \"sum\" or "
                   "\"last\")",
                   it->i, it->j);
}

/* The records of one cursor that lie in the current tile. */
static gx_code take_cells(assembly *a, const gx_sorted_run *info, cursor *c, gx_err *err)
{
    const gx_scatter *s = a->s;
    bool is_sum = s->runs.spec.duplicates == GX_DUPLICATES_SUM;
    int64_t end = a->t.i0 + a->t.m;
    for (; c->next < c->end; c->next++) {
        const unsigned char *record;
        GX_TRY(peek(s, info, a->buffer_records, c, &record, err));
        cell it = load(s, record);
        if (it.i >= end) {
            break;
        }
        int64_t k = (it.j - a->t.j0) * a->t.m + (it.i - a->t.i0);
        if (gx_assembly_is_twice(&a->t, k)) {
            return refuse_twice(&it, err);
        }
        gx_assembly_put(&a->t, k, (gx_scalar){it.part[0], it.part[1]}, is_sum);
    }
    return GX_OK;
}

static gx_code take_tile(gx_assembly *tile, gx_err *err)
{
    assembly *a = (assembly *)(void *)tile;
    const gx_sorted_runs *runs = &a->s->runs;
    for (int64_t r = 0; r < runs->count; r++) {
        for (int64_t w = 0; w < a->width; w++) {
            GX_TRY(take_cells(a, &runs->list[r], &a->cursors[r * a->width + w], err));
        }
    }
    return GX_OK;
}

/* Set the cursors of run r to its pieces of the current tile column. */
static gx_code place_cursors(assembly *a, int64_t r, gx_err *err)
{
    const gx_scatter *s = a->s;
    const gx_sorted_run *info = &s->runs.list[r];
    int64_t base = s->base, first = a->t.j0 / base, past = gx_ceil_div(a->t.j0 + a->t.n, base);
    int64_t low = a->done[r];
    for (int64_t w = 0; w < a->width; w++) {
        cursor *c = &a->cursors[r * a->width + w];
        int64_t column = a->width == 1 ? past : gx_min(first + w + 1, past), high = info->count;
        if (column * base < a->t.cols && column <= UINT32_MAX) {
            GX_TRY(find_place(s, info, low, info->count, (uint64_t)column << 32, &high, err));
        }
        c->next = low;
        c->end = high;
        c->loaded = 0;
        low = high;
    }
    a->done[r] = low;
    return GX_OK;
}

static gx_code place_all(gx_assembly *tile, gx_err *err)
{
    assembly *a = (assembly *)(void *)tile;
    for (int64_t r = 0; r < a->s->runs.count; r++) {
        GX_TRY(place_cursors(a, r, err));
    }
    return GX_OK;
}

/* Cursors for every run, after merging where there would be too many. */
static gx_code make_cursors(assembly *a, gx_err *err)
{
    gx_scatter *s = a->s;
    gx_mem *mem = s->runs.ctx->mem;
    enum { LEAST = 16, MOST = 4096 }; // records in the buffer of one cursor
    bool is_one_row = a->t.tile_rows >= a->t.rows;
    a->width = is_one_row ? 1 : gx_ceil_div(gx_min(a->t.tile_cols, a->t.cols), s->base);
    size_t room = gx_mem_available(mem) / 2;
    if (s->runs.spill != NULL) {
        size_t least = (size_t)a->width * (sizeof(cursor) + LEAST * s->stride);
        GX_TRY(merge_runs(s, a->t.run, (int64_t)(room / least), err));
    }
    int64_t count = gx_max(a->width * s->runs.count, 1);
    int64_t fit = ((int64_t)room / count - (int64_t)sizeof(cursor)) / (int64_t)s->stride;
    a->buffer_records = s->runs.spill == NULL ? 0 : gx_max(1, gx_min(fit, MOST));
    GX_TRY(
        gx_mem_calloc(mem, (size_t)count * sizeof(cursor), "cursors of cells", &a->cursors, err));
    GX_TRY(gx_mem_calloc(mem, (size_t)(s->runs.count + 1) * sizeof(int64_t), "cursors of cells",
                         &a->done, err));
    size_t bytes = (size_t)a->buffer_records * s->stride;
    GX_TRY(gx_mem_alloc(mem, (size_t)count * bytes, "cursors of cells", &a->buffers, err));
    for (int64_t k = 0; k < count; k++) {
        a->cursors[k].buffer = a->buffers + (size_t)k * bytes;
    }
    return GX_OK;
}

/*
** Whole base blocks, so that sorted runs fit the tiles.  A side cut into pieces shorter than a base
** block was allowed pieces of that length (tile_shape.c makes them even).
*/
static int64_t whole_blocks(int64_t tile, int64_t side, int64_t base)
{
    return tile >= side ? tile : gx_max(tile / base, 1) * base;
}

/* What is in the buffer becomes the last run: sorted, if there are several tiles. */
static gx_code close_buffer(gx_scatter *s, bool is_one_tile, bool is_spilled, gx_err *err)
{
    if (s->count > 0 && is_spilled) {
        GX_TRY(spill_buffer(s, err));
    } else if (s->count > 0) {
        if (!is_one_tile) {
            GX_TRY(sort_buffer(s, err));
        }
        const gx_sorted_run info = {.memory = s->buffer, .count = s->count};
        GX_TRY(gx_sorted_runs_add(&s->runs, &info, err));
    }
    gx_mem_return(s->runs.ctx->mem, s->reserved);
    s->reserved = 0;
    if (is_spilled) {
        gx_mem_free(s->runs.ctx->mem, s->buffer);
        s->buffer = NULL;
        s->count = s->capacity = 0;
    }
    return GX_OK;
}

/*
** A shape that comes of the largest index alone, beside which the cells are nothing: an index that
** is no place in a matrix, a key.  rows x cols are written out (of a sparse one: rows x 1).
*/
static gx_code check_shape(const gx_scatter *s, int64_t rows, int64_t cols, gx_err *err)
{
    enum { PER_CELL = 1000 };
    const size_t LARGE = (size_t)64 << 20;
    const gx_scatter_spec *spec = &s->runs.spec;
    size_t bytes;
    int64_t cells = s->count;
    for (int64_t r = 0; r < s->runs.count; r++) {
        cells += s->runs.list[r].count;
    }
    bool is_stated = spec->rows >= 0 && (spec->cols >= 0 || spec->is_sparse);
    if (is_stated || !gx_matrix_bytes(rows, cols, spec->dtype, &bytes) || bytes <= LARGE ||
        (double)rows * (double)cols <= (double)PER_CELL * (double)cells) {
        return GX_OK;
    }
    return gx_fail(err, GX_ARG,
                   "the largest indexes, %lld and %lld, make a %s matrix of %zu bytes of %lld "
                   "cell%s: options \"rows\" and \"cols\" say that this is meant%s",
                   (long long)s->max_i, (long long)s->max_j, spec->is_sparse ? "sparse" : "dense",
                   bytes, (long long)cells, cells == 1 ? "" : "s",
                   spec->is_sparse ? "" : ", \"sparse\":true keeps the cells alone");
}

/* Shape, sink, memory, tiles. */
static gx_code finish(gx_scatter *s, assembly *a, gx_err *err)
{
    gx_assembly *t = &a->t;
    GX_TRY(gx_assembly_shape(t, s->max_i, s->max_j, err));
    GX_TRY(check_shape(s, t->rows, t->cols, err));
    bool is_one_tile = t->tile_rows >= t->rows && t->tile_cols >= t->cols;
    t->tile_rows = whole_blocks(t->tile_rows, t->rows, s->base);
    t->tile_cols = whole_blocks(t->tile_cols, t->cols, s->base);
    assert(t->tile_rows >= t->rows || t->tile_rows % s->base == 0);
    assert(t->tile_cols >= t->cols || t->tile_cols % s->base == 0);
    bool is_value = t->dest == NULL || t->dest->name == NULL; // it and its marks, beside the cells
    GX_TRY(close_buffer(s, is_one_tile, is_value && gx_assembly_is_tight(t), err));
    GX_TRY(gx_assembly_open(t, t->tile_rows * t->tile_cols, err));
    GX_TRY(make_cursors(a, err));
    return gx_assembly_tiles(t, place_all, take_tile, err);
}

// A sparse matrix ---------------------------------------------------------------------------------

/* The cell that is not put yet: others of its place may follow. */
typedef struct pending {
    gx_scatter *s;
    gx_sparse_out out;
    cell it;
    bool is_there;
} pending;

static gx_code put_pending(pending *p, gx_err *err)
{
    return !p->is_there ? GX_OK
                        : gx_sparse_put(&p->out, p->it.i, p->it.j,
                                        (gx_scalar){p->it.part[0], p->it.part[1]}, err);
}

/* Cells come in ascending order of place, equal ones in the order of arrival. */
static gx_code take_next(void *arg, const unsigned char *record, gx_err *err)
{
    pending *p = arg;
    cell it = load(p->s, record);
    if (!p->is_there || it.i != p->it.i || it.j != p->it.j) {
        GX_TRY(put_pending(p, err));
        p->it = it;
        p->is_there = true;
        return GX_OK;
    }
    switch (p->s->runs.spec.duplicates) {
    case GX_DUPLICATES_ERROR:
        return refuse_twice(&it, err);
    case GX_DUPLICATES_SUM:
        it.part[0] += p->it.part[0];
        it.part[1] += p->it.part[1];
        break;
    default:
        break;
    }
    p->it = it;
    return GX_OK;
}

static gx_code merge_sparse(pending *p, gx_run *run, gx_err *err)
{
    gx_scatter *s = p->s;
    GX_TRY(close_buffer(s, false, s->runs.spill != NULL, err));
    GX_TRY(merge_runs(s, run, FAN, err));
    GX_TRY(merge(s, run, 0, s->runs.count, take_next, p, err));
    return put_pending(p, err);
}

static gx_code finish_sparse(gx_scatter *s, gx_run *run, const gx_dest *dest, gx_sink *sink)
{
    const gx_scatter_spec *spec = &s->runs.spec;
    pending p = {.s = s};
    gx_err err = {0};
    int64_t rows = spec->rows >= 0 ? spec->rows : s->max_i + 1;
    int64_t cols = spec->cols >= 0 ? spec->cols : s->max_j + 1;
    *sink = (gx_sink){.run = run};
    if (check_shape(s, rows, 1, &err) == GX_OK &&
        gx_sparse_out_begin(run, dest, rows, cols, spec->dtype, spec->properties, sink, &p.out) ==
            GX_OK &&
        merge_sparse(&p, run, &err) == GX_OK) {
        gx_sparse_out_end(&p.out);
    }
    gx_sparse_out_clear(&p.out);
    return gx_run_fail(run, &err);
}

gx_code gx_scatter_finish(gx_scatter *s, gx_run *run, const gx_dest *dest, gx_sink *sink)
{
    if (s->runs.spec.is_sparse) {
        return finish_sparse(s, run, dest, sink);
    }

    assembly a = {.t = {.runs = &s->runs, .run = run, .sink = sink, .dest = dest}, .s = s};
    gx_mem *mem = s->runs.ctx->mem;
    gx_err err = {0};
    if (gx_assembly_begin(&a.t)) {
        (void)finish(s, &a, &err);
    }
    gx_mem_free(mem, a.cursors);
    gx_mem_free(mem, a.done);
    gx_mem_free(mem, a.buffers);
    return gx_assembly_end(&a.t, &err);
}
