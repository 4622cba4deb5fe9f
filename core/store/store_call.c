/*
** Calling an SQL function of the application for the rectangles of a matrix: see store.h.
**
** One statement serves all calls, and its result lies where SQLite has it until the next call.
** The function may use the connection, gx included; where it has changed the schema, the statements
** that end a storing call are prepared again, so that none of them can fail for want of memory; and
** where it has ended the transaction the call ends, too.
*/
#include <sqlite3ext.h>

#include "store_int.h"

SQLITE_EXTENSION_INIT3

enum { RECTANGLE_ARGS = 4 };

static gx_code call_failed(gx_store *store, int rc, const char *fn, gx_err *err)
{
    if ((rc & 0xff) == SQLITE_INTERRUPT) {
        return gx_fail(err, GX_INTERRUPT, "interrupted");
    }
    gx_code code = (rc & 0xff) == SQLITE_ERROR ? GX_ARG : gx_store_code(rc);
    return gx_fail(err, code, "function %s: %s", fn, sqlite3_errmsg(store->db));
}

gx_code gx_store_call_open(gx_store *store, const char *fn, struct sqlite3_stmt **stmt, gx_err *err)
{
    *stmt = NULL;
    char *text = sqlite3_mprintf("SELECT \"%w\"(?1, ?2, ?3, ?4)", fn);
    if (text == NULL) {
        return gx_fail(err, GX_NOMEM, "out of memory for SQL text");
    }
    int rc = sqlite3_prepare_v2(store->db, text, -1, stmt, NULL);
    sqlite3_free(text);
    return rc == SQLITE_OK ? GX_OK : call_failed(store, rc, fn, err);
}

gx_code gx_store_call_rectangle(gx_store *store, struct sqlite3_stmt *stmt, const char *fn,
                                const int64_t at[4], const void **blob, size_t *bytes, gx_err *err)
{
    *blob = NULL;
    *bytes = 0;
    sqlite3_reset(stmt);
    for (int k = 0; k < RECTANGLE_ARGS; k++) {
        sqlite3_bind_int64(stmt, k + 1, at[k]);
    }
    int rc = sqlite3_step(stmt);
    if (rc != SQLITE_ROW) {
        return call_failed(store, rc, fn, err);
    }
    if (sqlite3_column_type(stmt, 0) == SQLITE_BLOB) {
        *blob = sqlite3_column_blob(stmt, 0);
        *bytes = (size_t)sqlite3_column_bytes(stmt, 0);
    }
    return gx_store_called(store, err);
}

void gx_store_call_close(struct sqlite3_stmt *stmt)
{
    sqlite3_finalize(stmt);
}
