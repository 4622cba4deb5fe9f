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
** Who makes tiles to be written makes them in pieces, images of some pages (tile_image.h).  The
** tile is inserted before its first piece: its pages wait, and each piece is written in one call
** while the next one is made, out of a cache that processors share.  Between two pieces the
** connection may be used (a progress report's function): if SQLite wants to see what waits, it is
** zeros in the file from then on, and the pieces that follow are written through incremental I/O,
** as they are where the tile could not be laid at all.
**
** Whatever is not as it should be, a chain of other pages, a flush that another connection's lock
** forbids, elements that read differently, has one answer: the tile, or the piece, is written
** again, through SQLite's incremental I/O, and the call goes on without this.
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

bool gx_lay_begin(gx_store *store, gx_schema *schema, const void *data, size_t bytes, gx_lay *lay)
{
    if (!gx_lay_out(store, schema, bytes, lay)) {
        return false;
    }
    lay->data = data != NULL ? (const char *)data + (bytes - lay->bytes) : NULL;
    return sqlite3_file_control(store->db, schema->name, GX_FCNTL_LAY, lay) == SQLITE_OK;
}

/* Does SQLite read these of the tile's bytes, from `from` on? */
static bool reads_equal(sqlite3_blob *blob, const char *data, size_t bytes, size_t from)
{
    char piece[1 << 14];
    for (size_t at = 0; at < bytes; at += sizeof piece) {
        size_t size = gx_min(sizeof piece, bytes - at);
        if (sqlite3_blob_read(blob, piece, (int)size, (int)(from + at)) != SQLITE_OK ||
            memcmp(piece, data + at, size) != 0) {
            return false;
        }
    }
    return true;
}

/*
** Bytes of the tile from `from` on, of which the first `rest` are not in the file: they are written
** through SQLite, and all others that it does not read as they are.
*/
static int complete(gx_schema *schema, const char *data, size_t bytes, size_t from, size_t rest)
{
    int rc = SQLITE_OK;
    if (rest > 0) {
        rc = sqlite3_blob_write(schema->patch, data, (int)rest, (int)from);
    }
    if (rc == SQLITE_OK && rest < bytes && schema->lays == 1 &&
        !reads_equal(schema->patch, data, bytes, from)) {
        rc = sqlite3_blob_write(schema->patch, data, (int)bytes, (int)from);
        schema->lays = -1;
    }
    schema->lays = rest < bytes ? schema->lays : -1;
    return rc;
}

int gx_lay_complete(gx_schema *schema, const void *data, size_t bytes, const gx_lay *lay)
{
    bool is_there = !lay->is_odd && lay->written == lay->count;
    int rc = complete(schema, data, bytes, 0, is_there ? bytes - lay->bytes : bytes);
    schema->lays = schema->lays > 0 ? 2 : -1;
    return rc;
}

/* The INSERT's pages go to the file, and are not read out of the cache any more.  SQLITE_*. */
static int flush(gx_store *store)
{
    int rc = sqlite3_db_cacheflush(store->db);
    (void)sqlite3_db_release_memory(store->db);
    return (rc & 0xff) == SQLITE_BUSY ? SQLITE_OK : rc;
}

int gx_lay_flush(gx_store *store, const gx_schema *schema, bool is_inserted)
{
    int rc = is_inserted ? flush(store) : SQLITE_OK;
    int written = sqlite3_file_control(store->db, schema->name, GX_FCNTL_LAY, NULL);
    return rc == SQLITE_OK ? written : rc;
}

// In pieces ---------------------------------------------------------------------------------------

int gx_lay_wait(gx_store *store, gx_schema *schema, int64_t row, bool is_inserted)
{
    gx_laying *laying = schema->laying;
    int rc = is_inserted ? flush(store) : SQLITE_OK;
    const gx_lay *lay = &laying->lay;
    laying->row = row;
    laying->is_waiting = true;
    if (!is_inserted || rc != SQLITE_OK || lay->is_odd || lay->run != 0 ||
        lay->run_pages != lay->count) {
        int written = gx_lay_drop(store, schema);
        rc = rc == SQLITE_OK ? written : rc;
    }
    return rc;
}

int gx_lay_piece(gx_store *store, gx_schema *schema, int64_t row, const gx_tile_image *piece,
                 bool *is_there)
{
    gx_laying *laying = schema->laying;
    *is_there = false;
    if (laying == NULL || !laying->is_waiting || laying->row != row) {
        return SQLITE_OK;
    }
    gx_lay *lay = &laying->lay;
    lay->image = gx_image_pages(piece);
    lay->image_first = piece->first;
    lay->image_pages = piece->pages;
    int rc = sqlite3_file_control(store->db, schema->name, GX_FCNTL_LAY, lay);
    *is_there = rc == SQLITE_OK && lay->written == piece->first + piece->pages;
    if (!*is_there || lay->run_pages == 0) {
        int written = gx_lay_drop(store, schema);
        rc = rc == SQLITE_OK ? written : rc;
    }
    return rc;
}

int gx_lay_complete_piece(gx_schema *schema, int64_t row, const gx_tile_image *piece, bool is_there)
{
    size_t from = gx_image_from(piece), bytes = gx_image_to(piece) - from, rest = bytes;
    bool was_laid = schema->laying != NULL && schema->laying->row == row;
    int lays = schema->lays;
    if (is_there) {
        rest = piece->first == 0 ? gx_lay_start(piece->page, piece->bytes) : 0;
    }
    bool needs_all = !is_there || lays == 1;
    int rc = complete(schema, needs_all ? gx_image_flatten(piece) : gx_image_start(piece), bytes,
                      from, rest);
    if (!was_laid) {
        schema->lays = lays;
    } else if (schema->lays == 1 && from + bytes == piece->bytes) {
        schema->lays = 2;
    }
    return rc;
}
