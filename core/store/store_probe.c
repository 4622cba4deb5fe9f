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

/*
** Loading gx into a connection comes after the schema was read, as a rule, and two things are done
** only while it is read: shadow tables of a module that is known are marked, and index expressions,
** generated columns and (since SQLite 3.50) CHECK constraints that call a function for direct use
** only are refused.  So it is read again: writable_schema = RESET does that at the next statement,
** apart from switching off what is off.
*/
void gx_store_reread_schemas(sqlite3 *db)
{
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(db, "PRAGMA writable_schema", -1, &stmt, NULL) == SQLITE_OK) {
        bool is_off = sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_int(stmt, 0) == 0;
        sqlite3_finalize(stmt);
        if (is_off) {
            (void)sqlite3_exec(db, "PRAGMA writable_schema = RESET", NULL, NULL, NULL);
        }
    }
    // As an automatic extension we run inside sqlite3_open(), which fails with what we leave.
    (void)sqlite3_exec(db, "", NULL, NULL, NULL);
}
