/*
** A rectangle of a stored matrix into memory, at once: what a scan reads chunk by chunk
** (cells_scan.c), and the tiles that a cursor keeps coming back to (cells_hot.c).
**
** Exactly the rows and columns asked for are read: one run of bytes a tile where these are whole
** columns of the tile, else one run a column.  The reader is the caller's connection's own.
*/
#include "cells.h"

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
    int64_t tile = tj * gx_meta_row_tiles(meta) + ti;
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
    gx_code rc = read_parts(scan, reader, rect, dst, err);
    gx_reader_close(reader);
    return rc;
}
