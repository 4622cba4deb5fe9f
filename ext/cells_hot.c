/*
** A rectangle of a stored matrix into memory, at once: what a scan reads chunk by chunk
** (cells_scan.c).  Exactly the rows and columns asked for are read: one run of bytes a tile where
** these are whole columns of the tile, else one run a column.
**
** And tiles that a cursor keeps coming back to with small selections: cells by (i, j), or pieces of
** rows and columns, as the inner side of a join asks for.
**
** A blob's pages form a chain.  SQLite reaches the middle of a tile by walking the chain from its
** beginning, so with small pages one cell costs about as much as the tile up to there.  Each visit
** to a tile therefore adds what it costs to the tile's account; a tile whose visits have cost as
** much as reading it whole is read whole and kept.  Whatever the pattern, that is at most twice the
** cost of the better choice made in hindsight.
**
** Kept tiles take at most HOT_BYTES and a quarter of what the governor has left; the one visited
** longest ago makes room.  All of it belongs to one state of one matrix, and goes with it.
*/
#include "cells.h"

#include <string.h>

gx_rect gx_tile_rect(const gx_meta *meta, int64_t ti, int64_t tj)
{
    int64_t i0 = ti * meta->tile_rows, j0 = tj * meta->tile_cols;
    return (gx_rect){.i0 = i0,
                     .i1 = i0 + gx_meta_tile_height(meta, ti),
                     .j0 = j0,
                     .j1 = j0 + gx_meta_tile_width(meta, tj)};
}

gx_rect gx_rect_common(const gx_rect *a, const gx_rect *b)
{
    return (gx_rect){.i0 = gx_max(a->i0, b->i0),
                     .i1 = gx_min(a->i1, b->i1),
                     .j0 = gx_max(a->j0, b->j0),
                     .j1 = gx_min(a->j1, b->j1)};
}

/* The part of one tile, which goes to dst: one run of bytes, or one a column. */
static gx_code read_part(const gx_scan *scan, gx_reader *reader, int64_t ti, int64_t tj,
                         const gx_rect *part, char *dst, int64_t ld, gx_err *err)
{
    const gx_meta *meta = &scan->A.meta;
    int64_t tile = gx_meta_tile(meta, ti, tj);
    int64_t height = gx_meta_tile_height(meta, ti);
    int64_t m = part->i1 - part->i0, n = part->j1 - part->j0;
    int64_t first = (part->j0 - tj * meta->tile_cols) * height + part->i0 - ti * meta->tile_rows;
    size_t element = scan->element, run = (size_t)m * element;
    if (m == height && (ld == m || n == 1)) {
        return gx_reader_read(reader, meta, tile, (size_t)first * element, run * (size_t)n, dst,
                              err);
    }
    // From the last column back: SQLite learns where all the pages of the blob are in one walk.
    for (int64_t j = n - 1; j >= 0; j--) {
        GX_TRY(gx_reader_read(reader, meta, tile, (size_t)(first + j * height) * element, run,
                              dst + (size_t)(j * ld) * element, err));
    }
    return GX_OK;
}

static gx_code read_parts(const gx_scan *scan, gx_reader *reader, const gx_rect *rect, char *dst,
                          gx_err *err)
{
    const gx_meta *meta = &scan->A.meta;
    int64_t ld = rect->i1 - rect->i0;
    for (int64_t tj = rect->j0 / meta->tile_cols; tj * meta->tile_cols < rect->j1; tj++) {
        for (int64_t ti = rect->i0 / meta->tile_rows; ti * meta->tile_rows < rect->i1; ti++) {
            gx_rect tile = gx_tile_rect(meta, ti, tj);
            gx_rect part = gx_rect_common(rect, &tile);
            size_t at = (size_t)((part.j0 - rect->j0) * ld + part.i0 - rect->i0) * scan->element;
            GX_TRY(read_part(scan, reader, ti, tj, &part, dst + at, ld, err));
        }
    }
    return GX_OK;
}

gx_code gx_scan_read(const gx_scan *scan, const gx_rect *rect, char *dst, gx_err *err)
{
    gx_reader *reader;
    GX_TRY(gx_reader_own(scan->shared->ctx->store, &reader, err));
    int64_t m = rect->i1 - rect->i0, n = rect->j1 - rect->j0;
    gx_code rc = scan->A.kind == GX_MAT_STORED
                     ? read_parts(scan, reader, rect, dst, err)
                     : gx_mat_read_as(NULL, &scan->A, reader, rect->i0, rect->j0, m, n,
                                      scan->A.dtype, dst, m, err);
    gx_reader_close(reader);
    return rc;
}

// Tiles in use ------------------------------------------------------------------------------------

/* Eight default tiles. */
static const size_t HOT_BYTES = (size_t)64 << 20;

/* In bytes read meanwhile: opening a blob, one more page of the chain, one more run of bytes. */
static const size_t OPEN_COST = (size_t)16 << 10, PAGE_COST = (size_t)4 << 10;
static const size_t RUN_COST = (size_t)1 << 10;

static void drop_data(gx_hot *hot, struct gx_hot_tile *tile, gx_mem *mem)
{
    gx_mem_free(mem, tile->data);
    hot->bytes -= tile->bytes;
    tile->data = NULL;
    tile->bytes = 0;
    tile->spent = 0;
}

static void clear(gx_hot *hot, gx_mem *mem)
{
    for (int t = 0; t < GX_HOT_TILES; t++) {
        drop_data(hot, &hot->tile[t], mem);
    }
    memset(hot, 0, sizeof *hot);
}

void gx_hot_free(gx_scan *scan)
{
    gx_mem *mem = scan->shared->ctx->mem;
    if (scan->hot != NULL) {
        clear(scan->hot, mem);
        gx_mem_free(mem, scan->hot);
        scan->hot = NULL;
    }
}

/* The accounts of the matrix as it is now; NULL when there is no memory for any. */
static gx_hot *open_accounts(gx_scan *scan)
{
    gx_mem *mem = scan->shared->ctx->mem;
    const gx_meta *meta = &scan->A.meta;
    if (scan->hot == NULL) {
        void *memory;
        gx_err refused = {0};
        if (gx_mem_calloc(mem, sizeof *scan->hot, "tiles in use", &memory, &refused) != GX_OK) {
            return NULL;
        }
        scan->hot = memory;
    }
    gx_hot *hot = scan->hot;
    if (hot->id != meta->id || hot->generation != meta->generation ||
        hot->epoch != scan->shared->epoch) {
        clear(hot, mem);
        hot->id = meta->id;
        hot->generation = meta->generation;
        hot->epoch = scan->shared->epoch;
    }
    return hot;
}

/* The tile visited longest ago (empty places first) of those with data, or without. */
static struct gx_hot_tile *oldest(gx_hot *hot, bool with_data)
{
    struct gx_hot_tile *found = NULL;
    for (int t = 0; t < GX_HOT_TILES; t++) {
        struct gx_hot_tile *tile = &hot->tile[t];
        if ((tile->data != NULL) == with_data && (found == NULL || tile->used < found->used)) {
            found = tile;
        }
    }
    return found;
}

/* The account of a tile, opened when it has none. */
static struct gx_hot_tile *account(gx_hot *hot, int64_t number, gx_mem *mem)
{
    struct gx_hot_tile *tile = NULL;
    for (int t = 0; t < GX_HOT_TILES && tile == NULL; t++) {
        if (hot->tile[t].used != 0 && hot->tile[t].number == number) {
            tile = &hot->tile[t];
        }
    }
    if (tile == NULL) {
        tile = oldest(hot, false);
        tile = tile != NULL ? tile : oldest(hot, true);
        drop_data(hot, tile, mem);
        tile->number = number;
    }
    tile->used = ++hot->clock;
    return tile;
}

/* What reading rect alone costs: the walk to its last page, its runs, its bytes. */
static size_t cost_of(const gx_scan *scan, const gx_rect *rect, const gx_rect *tile)
{
    size_t page = gx_store_page_bytes(scan->shared->ctx->store, scan->A.meta.schema);
    size_t height = (size_t)(tile->i1 - tile->i0), n = (size_t)(rect->j1 - rect->j0);
    size_t elements = (size_t)(rect->j1 - 1 - tile->j0) * height + (size_t)(rect->i1 - tile->i0);
    size_t bytes = (size_t)(rect->i1 - rect->i0) * n * scan->element;
    return OPEN_COST + elements * scan->element / page * PAGE_COST + n * RUN_COST + bytes;
}

/* Memory for a tile, for which older ones make room; NULL when it cannot be had. */
static void *take_memory(gx_scan *scan, size_t bytes)
{
    gx_hot *hot = scan->hot;
    gx_mem *mem = scan->shared->ctx->mem;
    size_t share = (gx_mem_available(mem) + hot->bytes) / 4;
    size_t limit = share < HOT_BYTES ? share : HOT_BYTES;
    if (bytes > limit) {
        return NULL;
    }
    while (hot->bytes + bytes > limit) {
        drop_data(hot, oldest(hot, true), mem);
    }
    void *data;
    gx_err refused = {0};
    return gx_mem_alloc(mem, bytes, "a tile in use", &data, &refused) == GX_OK ? data : NULL;
}

/* Read the tile whole, when its account says so and memory allows. */
static gx_code settle(gx_scan *scan, struct gx_hot_tile *tile, const gx_rect *rect, gx_err *err)
{
    size_t bytes;
    gx_dtype_matrix_bytes(rect->i1 - rect->i0, rect->j1 - rect->j0, scan->A.dtype, &bytes);
    tile->data = tile->spent < bytes ? NULL : take_memory(scan, bytes);
    if (tile->data == NULL) {
        return GX_OK;
    }
    tile->bytes = bytes;
    scan->hot->bytes += bytes;
    gx_code rc = gx_scan_read(scan, rect, tile->data, err);
    if (rc != GX_OK) {
        drop_data(scan->hot, tile, scan->shared->ctx->mem);
    }
    return rc;
}

gx_code gx_hot_visit(gx_scan *scan, const gx_rect *rect, gx_rect *whole, const char **data,
                     gx_err *err)
{
    const gx_meta *meta = &scan->A.meta;
    int64_t ti = rect->i0 / meta->tile_rows, tj = rect->j0 / meta->tile_cols;
    *data = NULL;
    *whole = gx_tile_rect(meta, ti, tj);
    gx_hot *hot = rect->i1 <= whole->i1 && rect->j1 <= whole->j1 ? open_accounts(scan) : NULL;
    if (hot == NULL) {
        return GX_OK;
    }
    int64_t number = gx_meta_tile(meta, ti, tj);
    struct gx_hot_tile *tile = account(hot, number, scan->shared->ctx->mem);
    if (tile->data == NULL) {
        bool is_first = tile->spent == 0; // one query for one cell reads that cell
        tile->spent += cost_of(scan, rect, whole);
        if (!is_first) {
            GX_TRY(settle(scan, tile, whole, err));
        }
    }
    *data = tile->data;
    return GX_OK;
}
