/*
** New matrices in volumes, written by several threads.  See store.h and volume_int.h.
**
** A result that is computed comes tile by tile, in one thread, and gx_store_write_tile() cuts each
** for a thread a file.  What is only copied out of memory would wait for that: so here all tiles
** get their places first, the threads that make them write them where they belong, a piece at a
** time while it is in the core's cache, and the rows of gx_extent are entered when all are there.
** Until then no row names the bytes, and whatever fails leaves them free.
**
** Memory: 40 bytes a tile, from the governor.
*/
#include <sqlite3ext.h>

#include "volume_int.h"

#include <assert.h>

SQLITE_EXTENSION_INIT3

struct gx_writers {
    gx_store *store;
    gx_schema *schema;
    const gx_meta *meta;   /* lent */
    gx_volumes *files;     /* lent by the schema */
    gx_extent_row *extent; /* of each tile */
    int64_t start_ns;
};

static gx_code place_all(gx_writers *w, gx_err *err)
{
    int64_t tiles = gx_meta_tiles(w->meta);
    void *memory;
    GX_TRY(gx_spread_files(w->store, w->schema, &w->files, err));
    GX_TRY(gx_mem_calloc(w->store->mem, (size_t)tiles * sizeof(gx_extent_row), "places of tiles",
                         &memory, err));
    w->extent = memory;
    for (int64_t tile = 0; tile < tiles; tile++) {
        GX_TRY(gx_spread_place(w->schema, gx_meta_tile_bytes(w->meta, tile), &w->extent[tile],
                               err));
    }
    return GX_OK;
}

static void free_writers(gx_writers *w)
{
    gx_mem *mem = w->store->mem;
    gx_mem_free(mem, w->extent);
    gx_mem_free(mem, w);
}

gx_code gx_writers_open(gx_store *store, const gx_meta *meta, gx_writers **writers, gx_err *err)
{
    *writers = NULL;
    assert(store->depth > 0);
    if (!meta->is_spread || meta->is_sparse) {
        return GX_OK;
    }
    void *memory;
    GX_TRY(gx_mem_calloc(store->mem, sizeof(gx_writers), "places of tiles", &memory, err));
    gx_writers *made = memory;
    made->store = store;
    made->meta = meta;
    made->start_ns = gx_now_ns();
    gx_code code = gx_store_schema(store, meta->schema, &made->schema, err);
    if (code == GX_OK) {
        code = place_all(made, err);
    }
    if (code != GX_OK) {
        free_writers(made);
        return code;
    }
    *writers = made;
    return GX_OK;
}

int gx_writers_files(const gx_writers *writers)
{
    return gx_volumes_count(writers->files);
}

gx_code gx_writers_write(gx_writers *writers, int64_t tile, size_t offset, size_t bytes,
                         const void *data, gx_err *err)
{
    return gx_volumes_write_part(writers->files, &writers->extent[tile],
                                 gx_meta_tile_bytes(writers->meta, tile), offset, bytes, data,
                                 err);
}

gx_code gx_writers_seal(gx_writers *writers, int64_t tile, gx_err *err)
{
    return gx_volumes_seal(writers->files, &writers->extent[tile],
                           gx_tile_rowid(writers->meta->id, tile),
                           gx_meta_tile_bytes(writers->meta, tile), err);
}

static gx_code enter_all(const gx_writers *w, gx_err *err)
{
    size_t bytes = 0;
    int64_t tiles = gx_meta_tiles(w->meta);
    GX_TRY(gx_store_still_stores(w->store, err));
    for (int64_t tile = 0; tile < tiles; tile++) {
        GX_TRY(gx_spread_enter(w->store, w->schema, gx_tile_rowid(w->meta->id, tile),
                               &w->extent[tile], err));
        bytes += gx_meta_tile_bytes(w->meta, tile);
    }
    gx_store_count_write(w->store, w->start_ns, bytes, tiles);
    return GX_OK;
}

gx_code gx_writers_close(gx_writers *writers, bool is_done, gx_err *err)
{
    if (writers == NULL) {
        return GX_OK;
    }
    gx_code code = is_done ? enter_all(writers, err) : GX_OK;
    free_writers(writers);
    return code;
}
