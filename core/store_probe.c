/*
** What a connection has already: see store.h.
**
** The list of functions is asked, not a call tried: a statement that does not prepare would leave a
** line in the application's error log each time gx is loaded.
*/
#include "store.h"

#include <sqlite3ext.h>

SQLITE_EXTENSION_INIT3

gx_presence gx_store_has_function(sqlite3 *db, const char *name)
{
    static const char sql[] = "SELECT 1 FROM pragma_function_list WHERE name = ?1 COLLATE NOCASE";
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK) {
        return GX_UNKNOWN; // an authorizer may forbid the question
    }
    sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
    int rc = sqlite3_step(stmt);
    sqlite3_finalize(stmt);
    return rc == SQLITE_ROW ? GX_PRESENT : rc == SQLITE_DONE ? GX_ABSENT : GX_UNKNOWN;
}
