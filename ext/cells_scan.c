/*
** A rectangle of a matrix as a sequence of chunks in memory: the reading side of gx_cells and
** gx_rows.
**
** A scan walks the cells of one rectangle (select) in one of three orders.  It goes from region to
** region (a region is the part of select in one tile; for the orders by column and by row there is
** one, all of it) and inside a region from chunk to chunk:
**
**   by column   as many whole columns of the region as fit; or a piece of one column
**   by row      as many whole rows of the region as fit; or a piece of one row
**
** Nothing is read before the first element is asked for: SELECT count(*), or i and j alone, reads
** no tile.  Then chunks start small (a LIMIT 10 should not read megabytes) and grow to CHUNK_BYTES.
** Exactly the rows and columns of the chunk are read (cells_hot.c).
**
** What was read last stays in memory as the window.  A cursor that is filtered again and again, as
** the inner side of a join, looks there first, and reads ahead in two cases:
**
**   - the rows (columns) after the window's are asked for: twice as many are read;
**   - small selections keep coming back to the same tiles: these are read whole (cells_hot.c).
**
** Other statements may change or drop the matrix between two rows.  Each load therefore looks the
** matrix up again and compares id and generation, which together name one state for ever; rows
** already in memory are of that state.  A rolled back generation does not come again while a cursor
** is open (store_catalog.c); what a table's waiting cells were before a rollback, the epoch tells.
**
** Memory: one buffer of at most WINDOW_BYTES and a quarter of what the governor has left; with
** nothing left, 256 bytes inside the scan.  Whole rows (gx_rows) need a row, and are refused below
** that. Values are read in place.  One thread.
*/
#include "cells.h"

#include <stdio.h>
#include <string.h>

/* A LIMIT 10 is served by little; from CHUNK_BYTES on, opening the blob costs less than 5 %. */
static const size_t FIRST_CHUNK_BYTES = (size_t)32 << 10;
static const size_t CHUNK_BYTES = (size_t)4 << 20;

/* What may be read ahead. */
static const size_t WINDOW_BYTES = (size_t)8 << 20;

// Rectangles --------------------------------------------------------------------------------------

static bool is_empty(const gx_rect *r)
{
    return r->i0 >= r->i1 || r->j0 >= r->j1;
}

static bool contains(const gx_rect *outer, const gx_rect *inner)
{
    return outer->i0 <= inner->i0 && inner->i1 <= outer->i1 && outer->j0 <= inner->j0 &&
           inner->j1 <= outer->j1;
}

static bool is_same(const gx_rect *a, const gx_rect *b)
{
    return contains(a, b) && contains(b, a);
}

/* Bytes of a rectangle of A; SIZE_MAX when they cannot be counted. */
static size_t rect_bytes(const gx_scan *scan, const gx_rect *r)
{
    size_t bytes;
    bool fits = gx_dtype_matrix_bytes(r->i1 - r->i0, r->j1 - r->j0, scan->A.dtype, &bytes);
    return fits ? bytes : SIZE_MAX;
}

/* A composite, too, is read piece by piece. */
static bool is_stored(const gx_scan *scan)
{
    return scan->A.kind == GX_MAT_STORED || scan->A.kind == GX_MAT_COMPOSITE;
}

/* Whether the window shows A as it was when the scan began. */
static bool window_is_current(const gx_scan *scan)
{
    const gx_window *w = &scan->window;
    return w->base != NULL && w->id == scan->A.meta.id &&
           w->generation == scan->A.meta.generation && w->epoch == scan->shared->epoch;
}

static bool window_holds(const gx_scan *scan, const gx_rect *rect)
{
    return window_is_current(scan) && contains(&scan->window.rect, rect);
}

// Memory ------------------------------------------------------------------------------------------

static size_t buffer_capacity(const gx_scan *scan)
{
    return scan->buffer != NULL ? scan->buffer_bytes : sizeof scan->spare;
}

static void free_buffer(gx_scan *scan)
{
    if (scan->shared != NULL) {
        gx_mem_free(scan->shared->ctx->mem, scan->buffer);
    }
    scan->buffer = NULL;
    scan->buffer_bytes = 0;
    scan->window.base = NULL;
}

/* What the buffer may grow to: three quarters of what is left stay for others. */
static size_t fair_share(const gx_scan *scan)
{
    return (gx_mem_available(scan->shared->ctx->mem) + scan->buffer_bytes) / 4;
}

/*
** Make the buffer hold want bytes, or as many as can be had; fewer than least is a failure.  Loses
** the window when the buffer has to be another one.
*/
static gx_code reserve(gx_scan *scan, size_t want, size_t least, gx_err *err)
{
    if (want <= buffer_capacity(scan)) {
        return GX_OK;
    }
    gx_mem *mem = scan->shared->ctx->mem;
    size_t bytes = fair_share(scan) < want ? fair_share(scan) : want;
    free_buffer(scan);
    for (; bytes > least && bytes > sizeof scan->spare; bytes /= 2) {
        gx_err refused = {0};
        if (gx_mem_alloc(mem, bytes, "rows", &scan->buffer, &refused) == GX_OK) {
            scan->buffer_bytes = bytes;
            return GX_OK;
        }
    }
    if (least > sizeof scan->spare) {
        GX_TRY(gx_mem_alloc(mem, least, "a row", &scan->buffer, err));
        scan->buffer_bytes = least;
    }
    return GX_OK;
}

// Chunks ------------------------------------------------------------------------------------------

/* Cut [a, a1) x [b, b1), a running fastest, to elements: whole runs of a when these fit. */
static void cut(int64_t elements, int64_t a, int64_t a0, int64_t a1, int64_t b, int64_t b1,
                int64_t *a_end, int64_t *b_end)
{
    if (a == a0 && a1 - a0 <= elements) {
        *a_end = a1;
        *b_end = gx_min(b1, b + elements / (a1 - a0));
    } else {
        *a_end = gx_min(a1, a + elements);
        *b_end = b + 1;
    }
}

/* The next chunk, starting at (i, j): all of the region while nothing is read, else what fits. */
static gx_code lay_chunk(gx_scan *scan, int64_t i, int64_t j, gx_err *err)
{
    const gx_rect *r = &scan->region;
    scan->i = i;
    scan->j = j;
    scan->is_loaded = false;
    if (!scan->wants_data || !is_stored(scan)) {
        scan->chunk = *r;
        scan->is_loaded = !is_stored(scan);
        return GX_OK;
    }
    size_t all = rect_bytes(scan, r);
    size_t least = scan->whole_rows ? (size_t)(r->j1 - r->j0) * scan->element : scan->element;
    size_t want = gx_max(least, all < scan->aim_bytes ? all : scan->aim_bytes);
    GX_TRY(reserve(scan, want, least, err));
    size_t usable = buffer_capacity(scan) < want ? buffer_capacity(scan) : want;
    int64_t elements = (int64_t)(usable / scan->element);
    scan->chunk.i0 = i;
    scan->chunk.j0 = j;
    if (scan->order == GX_BY_ROW) {
        cut(elements, j, r->j0, r->j1, i, r->i1, &scan->chunk.j1, &scan->chunk.i1);
    } else {
        cut(elements, i, r->i0, r->i1, j, r->j1, &scan->chunk.i1, &scan->chunk.j1);
    }
    scan->aim_bytes = gx_min(CHUNK_BYTES, 4 * scan->aim_bytes);
    return GX_OK;
}

/* The region that holds (i, j): its tile's part of the selection, or all of it. */
static gx_code enter_region(gx_scan *scan, int64_t i, int64_t j, gx_err *err)
{
    scan->region = scan->select;
    if (scan->order == GX_BY_TILE) {
        const gx_meta *meta = &scan->A.meta;
        gx_rect tile = gx_tile_rect(meta, i / meta->tile_rows, j / meta->tile_cols);
        scan->region = gx_rect_common(&scan->select, &tile);
    }
    return lay_chunk(scan, i, j, err);
}

void gx_scan_source(gx_scan *scan, gx_cells_shared *shared, const gx_mat *A)
{
    if (scan->shared != NULL) {
        gx_mat_clear(&scan->A, shared->ctx->mem);
    }
    scan->shared = shared;
    scan->A = *A;
    scan->A.dtype = A->is_sparse ? gx_dtype_of(A->number) : A->dtype;
    scan->element = gx_dtype_bytes(scan->A.dtype);
    if (gx_mat_is_value(A)) {
        free_buffer(scan);
        scan->window = (gx_window){.rect = {.i1 = A->rows, .j1 = A->cols}, .base = A->data};
        scan->window.ld = A->ld;
    }
}

/* Whether walking tile after tile is the same as walking by column. */
static bool tiles_go_by_column(const gx_scan *scan, const gx_rect *rect)
{
    return !is_stored(scan) || rect->j1 - rect->j0 <= 1 ||
           rect->i0 / scan->A.meta.tile_rows == (rect->i1 - 1) / scan->A.meta.tile_rows;
}

void gx_scan_start(gx_scan *scan, gx_order order, bool whole_rows, gx_rect rect)
{
    scan->order = order;
    if (order == GX_BY_TILE && !is_empty(&rect) && tiles_go_by_column(scan, &rect)) {
        scan->order = GX_BY_COLUMN;
    }
    scan->whole_rows = whole_rows;
    scan->select = rect;
    scan->wants_data = false;
    scan->has_changed = false;
    scan->aim_bytes = FIRST_CHUNK_BYTES;
    scan->is_done = is_empty(&rect);
    if (!scan->is_done) {
        gx_err none = {0};
        enter_region(scan, rect.i0, rect.j0, &none); // reads and reserves nothing: cannot fail
    }
}

gx_code gx_scan_next_chunk(gx_scan *scan, gx_err *err)
{
    const gx_rect *r = &scan->region, *c = &scan->chunk, *s = &scan->select;
    bool by_row = scan->order == GX_BY_ROW;

    // The rest of a row or column that was cut, then the next rows or columns of the region.
    if (by_row ? c->j1 < r->j1 : c->i1 < r->i1) {
        return by_row ? lay_chunk(scan, c->i0, c->j1, err) : lay_chunk(scan, c->i1, c->j0, err);
    }
    if (by_row ? c->i1 < r->i1 : c->j1 < r->j1) {
        return by_row ? lay_chunk(scan, c->i1, r->j0, err) : lay_chunk(scan, r->i0, c->j1, err);
    }

    // The tile below, then the first one of the next tile column.
    if (r->i1 < s->i1) {
        return enter_region(scan, r->i1, r->j0, err);
    }
    if (r->j1 < s->j1) {
        return enter_region(scan, s->i0, r->j1, err);
    }
    scan->is_done = true;
    return GX_OK;
}

// Reading -----------------------------------------------------------------------------------------

/* A matrix must still be what the scan began with. */
static gx_code check_meta(gx_scan *scan, const gx_meta *meta, gx_err *err)
{
    char name[2 * GX_NAME_MAX + 2];
    snprintf(name, sizeof name, "%s.%s", meta->schema, meta->name);
    gx_meta now;
    bool found;
    GX_TRY(gx_store_lookup(scan->shared->ctx->store, name, &now, &found, err));
    if (!found || now.id != meta->id || now.generation != meta->generation) {
        scan->has_changed = true;
        return gx_fail(err, GX_ARG, "%s changed while being read", meta->name);
    }
    return GX_OK;
}

/* So must the parts of a composite. */
gx_code gx_scan_check(gx_scan *scan, gx_err *err)
{
    const gx_mat *part;
    GX_TRY(check_meta(scan, &scan->A.meta, err));
    for (int64_t k = 0;
         scan->A.kind == GX_MAT_COMPOSITE && (part = gx_mat_base_number(&scan->A, k)) != NULL;
         k++) {
        GX_TRY(check_meta(scan, &part->meta, err));
    }
    return GX_OK;
}

/* Rows after the window's, or columns: up to twice as many, while memory allows. */
static void widen_onwards(const gx_scan *scan, gx_rect *rect)
{
    const gx_rect *w = &scan->window.rect;
    size_t limit = fair_share(scan) < WINDOW_BYTES ? fair_share(scan) : WINDOW_BYTES;
    int64_t most = (int64_t)(limit / scan->element);
    if (rect->j0 == w->j0 && rect->j1 == w->j1 && rect->i0 == w->i1) {
        int64_t rows = gx_min(2 * (w->i1 - w->i0), most / (rect->j1 - rect->j0));
        rect->i1 = gx_max(rect->i1, gx_min(scan->A.rows, rect->i0 + rows));
    } else if (rect->i0 == w->i0 && rect->i1 == w->i1 && rect->j0 == w->j1) {
        int64_t cols = gx_min(2 * (w->j1 - w->j0), most / (rect->i1 - rect->i0));
        rect->j1 = gx_max(rect->j1, gx_min(scan->A.cols, rect->j0 + cols));
    }
}

/* The window onto memory that holds rect. */
static void set_window(gx_scan *scan, const gx_rect *rect, const char *base)
{
    scan->window = (gx_window){.rect = *rect,
                               .base = base,
                               .ld = rect->i1 - rect->i0,
                               .id = scan->A.meta.id,
                               .generation = scan->A.meta.generation,
                               .epoch = scan->shared->epoch};
}

/* Read the chunk, or more of the matrix where that is likely to be asked for next. */
static gx_code fill_window(gx_scan *scan, gx_err *err)
{
    gx_rect rect = scan->chunk;
    bool is_small = is_same(&scan->chunk, &scan->select);
    if (is_small && window_is_current(scan)) {
        widen_onwards(scan, &rect);
    }
    if (is_small && is_same(&rect, &scan->chunk) && scan->A.kind == GX_MAT_STORED) {
        gx_rect tile;
        const char *data;
        scan->window.base = NULL; // it may be in a hot tile that goes now
        GX_TRY(gx_hot_visit(scan, &rect, &tile, &data, err));
        if (data != NULL) {
            set_window(scan, &tile, data);
            return GX_OK;
        }
    }
    GX_TRY(reserve(scan, rect_bytes(scan, &rect), rect_bytes(scan, &scan->chunk), err));
    if (buffer_capacity(scan) < rect_bytes(scan, &rect)) {
        rect = scan->chunk;
    }
    char *dst = scan->buffer != NULL ? scan->buffer : scan->spare;
    scan->window.base = NULL; // until it holds something again
    GX_TRY(gx_scan_read(scan, &rect, dst, err));
    set_window(scan, &rect, dst);
    return GX_OK;
}

gx_code gx_scan_load(gx_scan *scan, gx_err *err)
{
    if (scan->is_loaded) {
        return GX_OK;
    }
    GX_TRY(gx_scan_check(scan, err));
    if (!scan->wants_data) {
        scan->wants_data = true;
        if (!window_holds(scan, &scan->chunk)) {
            GX_TRY(lay_chunk(scan, scan->i, scan->j, err));
        }
    }
    if (!window_holds(scan, &scan->chunk)) {
        GX_TRY(fill_window(scan, err));
    }
    scan->is_loaded = true;
    return GX_OK;
}

void gx_scan_clear(gx_scan *scan)
{
    if (scan->shared != NULL) {
        gx_mat_clear(&scan->A, scan->shared->ctx->mem);
        gx_hot_free(scan);
        free_buffer(scan);
    }
    scan->shared = NULL;
}
