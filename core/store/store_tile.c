/*
** The matrix store: writing tiles, and the blob handle that readers share.
**
** A whole tile is one INSERT OR REPLACE with the elements bound where they are: SQLite copies them
** into a record and from there into pages (decision 049 has what that costs, and what costs no
** less).  Over a tile of the same size it is an UPDATE, which SQLite carries out in the pages that
** are there, where REPLACE would free them.  Part of a tile is incremental blob I/O, which touches
** only its pages.
**
** A blob handle moves from tile to tile with sqlite3_blob_reopen(), a seek in the table's b-tree;
** opening a new one compiles a statement.  A handle whose row has been replaced under it is dead
** (SQLITE_ABORT) and is opened again.  Every time it lands on a tile, the length is compared with
** what the catalog says, so nothing is read or written past the end of a damaged tile.
*/
#include <sqlite3ext.h>

#include "store_int.h"
#include "volume_int.h"

#include <assert.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

void gx_store_count_write(gx_store *store, int64_t start_ns, size_t bytes, int64_t tiles)
{
    store->logged_bytes += (double)bytes;
    gx_stats_add(store->stats, GX_STAT_BYTES_WRITTEN, (int64_t)bytes);
    gx_stats_add(store->stats, GX_STAT_TILES_WRITTEN, tiles);
    gx_stats_add(store->stats, GX_STAT_WRITE_NS, gx_now_ns() - start_ns);
}

static gx_code writing_failed(gx_store *store, int rc, const gx_schema *schema,
                              const gx_meta *meta, int64_t tile, gx_err *err)
{
    char label[GX_LABEL_MAX];
    return gx_store_fail(store->db, rc, err, "writing tile %lld of %s to %s", (long long)tile,
                         gx_meta_label(meta, label), schema->name);
}

/* Bind and step; SQLITE_*.  let_go() follows when the failure has been told. */
static int put_tile(sqlite3_stmt *stmt, int64_t row, const void *data, size_t bytes)
{
    sqlite3_bind_int64(stmt, 1, row);
    int rc = sqlite3_bind_blob64(stmt, 2, data, bytes, SQLITE_STATIC);
    return rc == SQLITE_OK ? sqlite3_step(stmt) : rc;
}

static void let_go(sqlite3_stmt *stmt)
{
    sqlite3_reset(stmt);
    sqlite3_bind_null(stmt, 2); // data belongs to the caller again
}

static gx_code put_row(gx_store *store, gx_schema *schema, const gx_meta *meta, int64_t tile,
                       const void *data, gx_err *err)
{
    sqlite3_stmt *stmt;
    int64_t row = gx_tile_rowid(meta->id, tile);
    size_t bytes = gx_meta_tile_bytes(meta, tile);
    GX_TRY(gx_store_stmt(store, schema, meta->is_over ? GX_SQL_WRITE_OVER : GX_SQL_WRITE_TILE,
                         &stmt, err));
    int rc = put_tile(stmt, row, data, bytes);
    if (meta->is_over && rc == SQLITE_DONE && sqlite3_changes(store->db) != 1) { // it was missing
        let_go(stmt);
        GX_TRY(gx_store_stmt(store, schema, GX_SQL_WRITE_TILE, &stmt, err));
        rc = put_tile(stmt, row, data, bytes);
    }
    gx_code code = GX_OK;
    if ((rc & 0xff) == SQLITE_TOOBIG) {
        code = gx_fail(err, GX_TOOBIG, "a tile of %zu bytes is past SQLite's length limit of %lld",
                       bytes, (long long)gx_store_length_limit(store));
    } else if (rc != SQLITE_DONE) {
        code = writing_failed(store, rc, schema, meta, tile, err);
    }
    let_go(stmt);
    return code;
}

gx_code gx_store_write_tile(gx_store *store, const gx_meta *meta, int64_t tile, const void *data,
                            gx_err *err)
{
    assert(store->depth > 0 || meta->scratch != NULL);
    assert(tile >= 0 && tile < gx_meta_tiles(meta));
    int64_t start_ns = gx_now_ns();
    size_t bytes = gx_meta_tile_bytes(meta, tile);
    gx_schema *schema;
    if (meta->scratch != NULL) {
        const gx_columns all = {.bytes = bytes, .count = 1, .dst = (void *)(uintptr_t)data};
        return gx_scratch_write(meta, tile, &all, err);
    }
    GX_TRY(gx_store_still_stores(store, err));
    GX_TRY(gx_store_schema(store, meta->schema, &schema, err));
    GX_TRY(meta->is_spread ? gx_spread_write(store, schema, meta, tile, data, err)
                           : put_row(store, schema, meta, tile, data, err));
    gx_store_count_write(store, start_ns, bytes, 1);
    return GX_OK;
}

// The blob handle ---------------------------------------------------------------------------------

static gx_code tile_failed(sqlite3 *db, int rc, const gx_meta *meta, int64_t tile, gx_err *err)
{
    char label[GX_LABEL_MAX];
    gx_meta_label(meta, label);
    if ((rc & 0xff) == SQLITE_ERROR && strncmp(sqlite3_errmsg(db), "no such rowid", 13) == 0) {
        return gx_fail(err, GX_CORRUPT, "tile %lld of %s is missing", (long long)tile, label);
    }
    return gx_store_fail(db, rc, err, "tile %lld of %s", (long long)tile, label);
}

gx_code gx_store_blob(sqlite3 *db, const char *schema, const gx_meta *meta, int64_t tile,
                      bool is_write, sqlite3_blob **blob, int64_t *row, gx_err *err)
{
    int64_t wanted = gx_tile_rowid(meta->id, tile);
    int rc = SQLITE_ABORT;
    if (*blob != NULL) {
        rc = sqlite3_blob_reopen(*blob, wanted);
    }
    if ((rc & 0xff) == SQLITE_ABORT) { // none yet, or one that died with its row
        sqlite3_blob_close(*blob);
        *blob = NULL;
        rc = sqlite3_blob_open(db, schema, "gx_tile", "data", wanted, is_write, blob);
    }
    gx_code code = GX_OK;
    if (rc != SQLITE_OK) {
        code = tile_failed(db, rc, meta, tile, err);
    } else if ((size_t)sqlite3_blob_bytes(*blob) != gx_meta_tile_bytes(meta, tile)) {
        char label[GX_LABEL_MAX];
        code = gx_fail(err, GX_CORRUPT, "tile %lld of %s has %d bytes, expected %zu",
                       (long long)tile, gx_meta_label(meta, label), sqlite3_blob_bytes(*blob),
                       gx_meta_tile_bytes(meta, tile));
    }
    *row = wanted;
    if (code != GX_OK) {
        sqlite3_blob_close(*blob);
        *blob = NULL;
        *row = 0;
    }
    return code;
}

/* Whether the explained UPDATE uses its second parameter, the new data. */
static gx_code look_at_patch(gx_store *store, const gx_schema *schema, sqlite3_stmt *stmt,
                             gx_err *err)
{
    int rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        const char *opcode = (const char *)sqlite3_column_text(stmt, 1);
        bool is_value = sqlite3_column_int(stmt, 2) == 2;
        if (opcode != NULL && strcmp(opcode, "Variable") == 0 && is_value) {
            return GX_OK;
        }
    }
    return rc == SQLITE_DONE
               ? gx_fail(err, GX_AUTH,
                         "not authorized: writing to gx_tile.data of %s changes nothing",
                         schema->name)
               : gx_store_fail(store->db, rc, err, "writing to %s", schema->name);
}

gx_code gx_store_may_patch(gx_store *store, const char *name, gx_err *err)
{
    gx_schema *schema;
    sqlite3_stmt *stmt;
    GX_TRY(gx_store_schema(store, name, &schema, err));
    if (schema->may_patch) {
        return GX_OK;
    }
    GX_TRY(gx_store_stmt(store, schema, GX_SQL_PATCH, &stmt, err));
    gx_code code = look_at_patch(store, schema, stmt, err);
    sqlite3_reset(stmt);
    schema->may_patch = code == GX_OK;
    return code;
}

gx_code gx_store_can_patch(gx_store *store, const char *schema, bool *can, gx_err *err)
{
    gx_err failed = {.code = GX_OK};
    gx_code code = gx_store_may_patch(store, schema, &failed);
    *can = code == GX_OK;
    return code == GX_OK || code == GX_AUTH ? GX_OK : gx_fail(err, code, "%s", failed.text);
}

gx_code gx_store_patch_tile(gx_store *store, const gx_meta *meta, int64_t tile, size_t offset,
                            size_t bytes, const void *data, gx_err *err)
{
    assert(tile >= 0 && tile < gx_meta_tiles(meta));
    assert(offset + bytes <= gx_meta_tile_bytes(meta, tile));
    int64_t start_ns = gx_now_ns();
    gx_schema *schema;
    GX_TRY(gx_store_schema(store, meta->schema, &schema, err));
    bool is_new = schema->patch == NULL || schema->patch_row != gx_tile_rowid(meta->id, tile);
    int rc = SQLITE_ABORT;
    if (!is_new) {
        rc = sqlite3_blob_write(schema->patch, data, (int)bytes, (int)offset);
    }
    if ((rc & 0xff) == SQLITE_ABORT) { // another tile, or a handle that died with its row
        GX_TRY(gx_store_may_patch(store, schema->name, err));
        if (meta->is_spread) {
            GX_TRY(gx_spread_bring_home(store, schema, meta, tile, err));
        }
        GX_TRY(gx_store_blob(store->db, schema->name, meta, tile, true, &schema->patch,
                             &schema->patch_row, err));
        rc = sqlite3_blob_write(schema->patch, data, (int)bytes, (int)offset);
    }
    if (rc != SQLITE_OK) {
        return writing_failed(store, rc, schema, meta, tile, err);
    }
    gx_store_count_write(store, start_ns, bytes, is_new);
    return GX_OK;
}
