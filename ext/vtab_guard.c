/*
** The guard of the statements that gx keeps prepared between calls (core/store/store_spare.c): an
** empty virtual table that nobody reads.
**
** sqlite3_close() disconnects a connection's virtual tables before it looks whether statements are
** left, which the guard's xDisconnect finalizes.  The table is eponymous, so it is in no schema;
** preparing a statement on it connects it.  Where that does not (an authorizer forbids it, a table
** of the application has the name) there is no guard, and nothing is kept.
*/
#include "gx_ext.h"

SQLITE_EXTENSION_INIT3

typedef struct guard {
    sqlite3_vtab base; /* first: SQLite's pointer is to it */
    gx_ctx *ctx;
} guard;

static int connect(sqlite3 *db, void *ctx, int argc, const char *const *argv, sqlite3_vtab **table,
                   char **problem)
{
    (void)argc;
    (void)argv;
    (void)problem;
    guard *made = sqlite3_malloc(sizeof *made);
    int rc = sqlite3_declare_vtab(db, "CREATE TABLE x(value)");
    if (made == NULL || rc != SQLITE_OK) {
        sqlite3_free(made);
        return made == NULL ? SQLITE_NOMEM : rc;
    }
    sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
    *made = (guard){.ctx = ctx};
    gx_store_set_guard(made->ctx->store, GX_GUARD_STANDS);
    *table = &made->base;
    return SQLITE_OK;
}

/* The connection may go on, where another statement kept it from being closed: without a guard. */
static int disconnect(sqlite3_vtab *table)
{
    guard *g = (guard *)table;
    gx_store_set_guard(g->ctx->store, GX_GUARD_UNTRIED);
    gx_store_drop_spares(g->ctx->store);
    sqlite3_free(g);
    return SQLITE_OK;
}

static int best_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
    (void)table;
    (void)info;
    return SQLITE_OK;
}

static int refuse_cursor(sqlite3_vtab *table, sqlite3_vtab_cursor **cursor)
{
    (void)cursor;
    table->zErrMsg = sqlite3_mprintf("gx_guard has no rows");
    return SQLITE_ERROR;
}

static const sqlite3_module module = {
    .xConnect = connect, // no xCreate: eponymous only
    .xBestIndex = best_index,
    .xDisconnect = disconnect,
    .xOpen = refuse_cursor,
};

int gx_register_guard(sqlite3 *db, gx_ctx *ctx)
{
    gx_store_set_guard(ctx->store, GX_GUARD_UNTRIED);
    return sqlite3_create_module_v2(db, "gx_guard", &module, ctx, NULL);
}
