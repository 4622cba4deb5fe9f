/*
** A tile is inserted as zeros, and its elements take their place in the file.  See store_vfs.c for
** how, decision 049 for what it saves, and lay_int.h for the order of the calls.
**
** The chain.  A row of gx_tile is a record: a header of a few bytes, then the elements; what the
** b-tree's page does not hold of it is a chain of overflow pages ("Cell Payload Overflow Pages" of
** SQLite's file format).  Where no page of the file is free the chain is made of new ones, in
** ascending order behind the file's last page, so that it is known before the INSERT where which
** element comes to lie.  The few in the b-tree's page are written by incremental I/O.
**
** What SQLite has in its cache are the zeros.  So they are flushed (which is when the elements are
** written), then given up, and read from the file by whoever needs them.  The first tile of a call
** is read again through SQLite and compared.
**
** Whatever is not as it should be, a chain of other pages, a flush that another connection's lock
** forbids, elements that read differently, has one answer: the tile is written again, through
** SQLite's incremental I/O, and the call goes on without this.
**
** Not where SQLite hands tiles to somebody else before they are in the file, which is triggers and
** indexes on gx_tile; in WAL mode, where pages go to the log; where pages end in bytes of somebody
** else's or auto_vacuum has its own between them; in a cache that would keep the whole tile.  The
** session extension would see zeros: docs/python.md says so.
*/
#include <sqlite3ext.h>

#include "lay_int.h"

#include <stdlib.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

static int64_t number_of(gx_store *store, const gx_schema *schema, const char *pragma)
{
    char text[64];
    return gx_store_pragma(store->db, schema->name, pragma, text, NULL) == GX_OK && text[0] != '\0'
               ? atoll(text)
               : -1;
}

/* Is there a trigger or an index on gx_tile?  Also where that cannot be said. */
static bool has_watchers(gx_store *store, gx_schema *schema)
{
    sqlite3_stmt *stmt;
    if (gx_store_stmt(store, schema, GX_SQL_WATCHERS, &stmt, NULL) != GX_OK) {
        return true;
    }
    bool has = sqlite3_step(stmt) != SQLITE_DONE;
    sqlite3_reset(stmt);
    return has;
}

bool gx_lay_is_possible(gx_store *store, gx_schema *schema)
{
    int reserved = -1; // asked, not set
    const char *name = schema->name;
    return store->level[store->depth - 1].has_savepoint && // else failures are undone row by row
           sqlite3_file_control(store->db, name, GX_FCNTL_LAY, NULL) == SQLITE_OK &&
           !gx_store_is_wal(store, name) &&
           sqlite3_file_control(store->db, name, SQLITE_FCNTL_RESERVE_BYTES, &reserved) ==
               SQLITE_OK &&
           reserved == 0 && number_of(store, schema, "auto_vacuum") == 0 &&
           !has_watchers(store, schema);
}

bool gx_lay_out(gx_store *store, gx_schema *schema, size_t bytes, gx_lay *lay)
{
    const int64_t PENDING = 0x40000000; // the byte whose page SQLite leaves out
    int64_t cache = number_of(store, schema, "cache_size");
    int64_t pages = number_of(store, schema, "page_count");
    size_t page = gx_store_page_bytes(store, schema->name);
    double kept = cache < 0 ? -1024.0 * (double)cache : (double)cache * (double)page;
    if (pages < 1 || kept >= (double)bytes || number_of(store, schema, "freelist_count") != 0) {
        return false;
    }
    size_t start = gx_lay_start(page, bytes), each = page - GX_LAY_POINTER;
    memset(lay, 0, sizeof *lay);
    lay->key = &gx_lay_key;
    lay->bytes = bytes - start;
    lay->page_bytes = page;
    lay->first = pages + 1;
    lay->count = (int64_t)((lay->bytes + each - 1) / each);
    int64_t pending = PENDING / (int64_t)page + 1;
    bool has_pending = pending >= lay->first && pending < lay->first + lay->count;
    return lay->count <= GX_LAY_PAGES && !has_pending &&
           lay->first + lay->count < (int64_t)UINT32_MAX;
}

bool gx_lay_begin(gx_store *store, gx_schema *schema, const void *data, const gx_tile_image *image,
                  size_t bytes, gx_lay *lay)
{
    if (!gx_lay_out(store, schema, bytes, lay) ||
        (data == NULL && image->page != lay->page_bytes)) {
        return false;
    }
    if (data != NULL) {
        lay->data = (const char *)data + (bytes - lay->bytes);
    } else {
        lay->image = gx_image_pages(image);
    }
    return sqlite3_file_control(store->db, schema->name, GX_FCNTL_LAY, lay) == SQLITE_OK;
}

/* Does SQLite read the tile as it is? */
static bool reads_equal(sqlite3_blob *blob, const char *data, size_t bytes)
{
    char piece[1 << 14];
    for (size_t at = 0; at < bytes; at += sizeof piece) {
        size_t size = gx_min(sizeof piece, bytes - at);
        if (sqlite3_blob_read(blob, piece, (int)size, (int)at) != SQLITE_OK ||
            memcmp(piece, data + at, size) != 0) {
            return false;
        }
    }
    return true;
}

int gx_lay_complete(gx_schema *schema, const void *data, const gx_tile_image *image, size_t bytes,
                    const gx_lay *lay)
{
    bool is_there = !lay->is_odd && lay->written == lay->count;
    int rest = (int)(is_there ? bytes - lay->bytes : bytes);
    if (data == NULL) {
        bool needs_all = !is_there || schema->lays == 1;
        data = needs_all ? gx_image_flatten(image) : gx_image_start(image);
    }
    int rc = sqlite3_blob_write(schema->patch, data, rest, 0);
    if (rc == SQLITE_OK && is_there && schema->lays == 1) {
        is_there = reads_equal(schema->patch, data, bytes);
        rc = is_there ? SQLITE_OK : sqlite3_blob_write(schema->patch, data, (int)bytes, 0);
    }
    schema->lays = is_there ? 2 : -1;
    return rc;
}

int gx_lay_flush(gx_store *store, const gx_schema *schema, bool is_inserted)
{
    int rc = is_inserted ? sqlite3_db_cacheflush(store->db) : SQLITE_OK;
    int written = sqlite3_file_control(store->db, schema->name, GX_FCNTL_LAY, NULL);
    if (is_inserted) {
        (void)sqlite3_db_release_memory(store->db);
    }
    return (rc & 0xff) == SQLITE_BUSY || rc == SQLITE_OK ? written : rc;
}
