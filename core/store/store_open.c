/*
** The matrix store: opening, closing, and the end of a SQL call.  See store.h.
**
** The top floor of the room: the end of a call gives up a storing call that is still open, so this
** file calls store_txn.c, which calls everything below.
**
** Checkpoints.  In WAL mode SQLite copies the log into the file when a statement that commits has
** ended and the log is longer than PRAGMA wal_autocheckpoint; but only where nothing reads.  A call
** commits while it reads still (the read pin), and when it has let go SQLite does not ask again: a
** connection that runs nothing but gx would never checkpoint.  So the end of a call does, by the
** same setting (0 where the application has turned it off, or has a hook of its own).  Where the
** statement around the call reads, the checkpoint is refused, and a later call's is the next.
*/
#include <sqlite3ext.h>

#include "../base/config.h"
#include "volume_int.h"

#include <stdlib.h>

SQLITE_EXTENSION_INIT3

gx_code gx_store_open(struct sqlite3 *db, gx_mem *mem, gx_store **store, gx_err *err)
{
    *store = NULL;
    void *memory;
    GX_TRY(gx_mem_calloc(mem, sizeof(gx_store), "store", &memory, err));
    gx_store *made = memory;
    made->db = db;
    made->mem = mem;
    made->tile_bytes = GX_TILE_BYTES;
    *store = made;
    return GX_OK;
}

void gx_store_close(gx_store *store)
{
    if (store == NULL) {
        return;
    }
    gx_store_release(store);
    gx_store_leave_hold(store);
    gx_store_drop_spares(store);
    gx_mem_free(store->mem, store);
}

static void finalize(sqlite3_stmt **stmt)
{
    sqlite3_finalize(*stmt);
    *stmt = NULL;
}

void gx_store_finish_schema(gx_store *store, gx_schema *schema)
{
    gx_store_close_patch(schema);
    gx_spread_forget(store, schema);
    for (int which = 0; which < GX_SQL_COUNT; which++) {
        finalize(&schema->stmt[which]);
    }
    schema->is_pinned = false;
}

/* Finalize every statement, close every handle, forget every schema: no storing call is open. */
static void finish(gx_store *store)
{
    while (store->schemas != NULL) {
        gx_schema *schema = store->schemas;
        store->schemas = schema->next;
        for (int which = 0; which < GX_SQL_COUNT; which++) {
            gx_store_put_by(store, schema->name, which, schema->stmt[which]);
            schema->stmt[which] = NULL;
        }
        gx_store_finish_schema(store, schema);
        gx_mem_free(store->mem, schema);
    }
    for (int which = 0; which < GX_ARMED_COUNT; which++) {
        finalize(&store->armed[which]);
    }
    finalize(&store->poll);
    finalize(&store->progress);
}

/* After a call that has committed by itself, nothing held: SQLite's automatic checkpoint. */
static void checkpoint(gx_store *store)
{
    enum { CATALOG_PAGES = 4 }; // that a commit writes beside tiles
    char pages[64];
    size_t page_bytes = gx_store_page_bytes(store, "main");
    finish(store);
    store->logged_bytes += CATALOG_PAGES * (double)page_bytes;
    if (gx_store_pragma(store->db, "main", "wal_autocheckpoint", pages, NULL) != GX_OK) {
        return;
    }
    double limit = strtod(pages, NULL) * (double)page_bytes;
    if (limit > 0 && store->logged_bytes >= limit &&
        sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL) ==
            SQLITE_OK) {
        store->logged_bytes = 0;
    }
}

void gx_store_release(gx_store *store)
{
    while (store->depth > 0) { // a storing call that was given up
        (void)gx_store_end(store, false, NULL);
    }
    finish(store);
    gx_store_forget_panels(store);
    store->is_ended = false;
    if (store->has_committed) {
        store->has_committed = false;
        checkpoint(store);
    }
}
