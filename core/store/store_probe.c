/*
** What a connection has already: see store.h.
**
** The list of functions is asked, not a call tried: a statement that does not prepare would leave a
** line in the application's error log each time gx is loaded.
**
** In a shared cache no statement at all can be prepared while another connection changes a schema:
** SQLite answers SQLITE_LOCKED and does not ask the busy handler.  Loading happens where nobody
** expects that, as a connection is opened; so it is waited for, LOCKED_MS at most.
*/
#include "store.h"

#include <sqlite3ext.h>

SQLITE_EXTENSION_INIT3

enum { LOCKED_MS = 1000, LOOK_MS = 10 };

static int prepare_unlocked(sqlite3 *db, const char *text, sqlite3_stmt **stmt)
{
    int rc = sqlite3_prepare_v2(db, text, -1, stmt, NULL);
    for (int ms = 0; (rc & 0xff) == SQLITE_LOCKED && ms < LOCKED_MS; ms += LOOK_MS) {
        sqlite3_sleep(LOOK_MS);
        rc = sqlite3_prepare_v2(db, text, -1, stmt, NULL);
    }
    return rc;
}

gx_presence gx_store_has_function(sqlite3 *db, const char *name)
{
    static const char sql[] = "SELECT 1 FROM pragma_function_list WHERE name = ?1 COLLATE NOCASE";
    sqlite3_stmt *stmt;
    if (prepare_unlocked(db, sql, &stmt) != SQLITE_OK) {
        return GX_UNKNOWN; // an authorizer may forbid the question
    }
    sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
    int rc = sqlite3_step(stmt);
    sqlite3_finalize(stmt);
    return rc == SQLITE_ROW ? GX_PRESENT : rc == SQLITE_DONE ? GX_ABSENT : GX_UNKNOWN;
}

bool gx_store_any_in_temp(sqlite3 *db, bool (*is_it)(const char *text, const char *name),
                          const char *name)
{
    static const char sql[] =
        "SELECT sql FROM sqlite_temp_master WHERE type IN ('view', 'trigger')";
    sqlite3_stmt *stmt = NULL;
    bool is_found = false;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    while (!is_found && rc == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW) {
        is_found = is_it((const char *)sqlite3_column_text(stmt, 0), name);
    }
    sqlite3_finalize(stmt);
    return is_found;
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
    if (prepare_unlocked(db, "PRAGMA writable_schema", &stmt) == SQLITE_OK) {
        bool is_off = sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_int(stmt, 0) == 0;
        sqlite3_finalize(stmt);
        if (is_off) {
            (void)sqlite3_exec(db, "PRAGMA writable_schema = RESET", NULL, NULL, NULL);
        }
    }
    // As an automatic extension we run inside sqlite3_open(), which fails with what we leave.
    (void)sqlite3_exec(db, "", NULL, NULL, NULL);
}
