/*
** The matrix store: opening, closing, and the end of a SQL call.  See store.h.
**
** The top floor of the room: the end of a call gives up a storing call that is still open, so this
** file calls store_txn.c, which calls everything below.
*/
#include "store_int.h"

#include "../base/config.h"

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
    gx_mem_free(store->mem, store);
}

void gx_store_release(gx_store *store)
{
    while (store->depth > 0) { // a storing call that was given up
        (void)gx_store_end(store, false, NULL);
    }
    gx_store_finish(store);
    if (store->has_committed) {
        store->has_committed = false;
        gx_store_checkpoint(store);
    }
}
