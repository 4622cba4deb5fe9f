/*
** Statements that stay prepared between calls.
**
** A call that asks for a matrix by its name prepares two statements, and one of a value's state two
** more: more than a third of a small call's time, and most of what it allocates from SQLite, which
** has one lock for that.  So the statements below are reset and put by when a call ends, and the
** next one takes them.  SQLite compiles one anew when the schema has changed, or the authorizer:
** whoever steps one looks at its columns then (store_auth.c).
**
** sqlite3_close() does not close a connection that has a statement.  So there has to be a guard,
** whom SQLite tells before it looks and who drops them (ext/vtab_guard.c); without one nothing is
** put by.
**
** Values that SQLite works out while it prepares (locking_mode, page_size) have no place here.
*/
#include <sqlite3ext.h>

#include "store_int.h"

#include <stdio.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

static bool may_stay(gx_sql which)
{
    return which == GX_SQL_PIN || which == GX_SQL_FIND || which == GX_SQL_FIND_ID ||
           which == GX_SQL_DATA_VERSION || which == GX_SQL_SCHEMA_VERSION;
}

void gx_store_set_guard(gx_store *store, gx_guard guard)
{
    store->guard = guard;
}

/* Asked for once: what forbids the table forbids it again. */
static bool is_guarded(gx_store *store)
{
    if (store->guard == GX_GUARD_UNTRIED) {
        sqlite3_stmt *stmt = NULL;
        store->guard = GX_GUARD_NONE;
        (void)sqlite3_prepare_v2(store->db, "SELECT 1 FROM gx_guard", -1, &stmt, NULL);
        sqlite3_finalize(stmt);
    }
    return store->guard == GX_GUARD_STANDS;
}

/* An authorizer that lets columns read as NULL leaves them no type; it may be gone next time. */
static bool reads_all(sqlite3_stmt *stmt, gx_sql which)
{
    bool is_pragma = which == GX_SQL_DATA_VERSION || which == GX_SQL_SCHEMA_VERSION;
    const char *(*type_of)(sqlite3_stmt *, int) = sqlite3_column_decltype;
    int count = sqlite3_column_count(stmt), c = 0;
    while (c < count && (is_pragma || (type_of != NULL && type_of(stmt, c) != NULL))) {
        c++;
    }
    return count > 0 && c == count;
}

void gx_store_put_by(gx_store *store, const char *schema, gx_sql which, sqlite3_stmt *stmt)
{
    bool has_room = store->spare_count < GX_SPARES_MOST && strlen(schema) < GX_SPARE_NAME;
    bool is_kept =
        stmt != NULL && may_stay(which) && has_room && reads_all(stmt, which) && is_guarded(store);
    if (!is_kept) {
        sqlite3_finalize(stmt); // NULL is a no-op
        return;
    }
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
    gx_spare *spare = &store->spare[store->spare_count++];
    spare->stmt = stmt;
    spare->which = which;
    snprintf(spare->schema, sizeof spare->schema, "%s", schema);
}

sqlite3_stmt *gx_store_take_spare(gx_store *store, const char *schema, gx_sql which)
{
    for (int k = 0; k < store->spare_count; k++) {
        gx_spare found = store->spare[k];
        if (found.which == which && sqlite3_stricmp(found.schema, schema) == 0) {
            store->spare[k] = store->spare[--store->spare_count];
            return found.stmt;
        }
    }
    return NULL;
}

void gx_store_drop_spares(gx_store *store)
{
    while (store->spare_count > 0) {
        sqlite3_finalize(store->spare[--store->spare_count].stmt);
    }
}
