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
** SQLite marks the shadow tables of a virtual table when it reads the schema, if it knows the
** module then.  Loading gx into a connection comes after that as a rule, so the schema is read
** again: that is what writable_schema = RESET does, apart from switching off what is off.
*/
static void read_schema_again(sqlite3 *db)
{
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(db, "PRAGMA writable_schema", -1, &stmt, NULL) != SQLITE_OK) {
        return;
    }
    bool is_off = sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_int(stmt, 0) == 0;
    sqlite3_finalize(stmt);
    if (is_off) {
        (void)sqlite3_exec(db, "PRAGMA writable_schema = RESET", NULL, NULL, NULL);
    }
}

void gx_store_mark_shadows(sqlite3 *db)
{
    if (sqlite3_table_column_metadata(db, NULL, "gx_meta", NULL, NULL, NULL, NULL, NULL, NULL) ==
        SQLITE_OK) {
        read_schema_again(db);
    }
    // As an automatic extension we run inside sqlite3_open(), which fails with what we leave.
    (void)sqlite3_exec(db, "", NULL, NULL, NULL);
}
