/*
** Is a function called by the statement's own text, or by a schema?
**
** Every function of gx that is more than its values is SQLITE_DIRECTONLY: SQLite calls it from the
** text that the application runs and from temp's views and triggers, which the application made,
** but not from what came with a file.  SQLite before 3.50 forgets CHECK constraints there: it calls
** the function for a row that is inserted, and at PRAGMA integrity_check.  A database from
** elsewhere would reach files, settings and other databases by them.
**
** So with these libraries a function looks for its call.  A function is not told which statement
** calls it, but that one runs: the call is direct where the text of a statement that runs has it
** written out, or a view or trigger of temp has.  What is found holds until the statement ends, and
** is kept with it, so that a call a row costs nothing more.
**
** The text is read as SQLite's tokens (store_named.c), for what is in a string or a comment is no
** call.
*/
#include "gx_ext.h"

#include <stdint.h>

enum { CHECKS_ARE_SAFE = 3050000 }; /* sqlite3_libversion_number() from which SQLite refuses */

/* name( but not INTO name(, nor x.name(, which are tables. */
static bool has_call(const char *text, const char *name)
{
    gx_sql_token before = {.kind = ';'}, now = {.kind = '\0'}, after;
    if (text != NULL) {
        text = gx_sql_next(text, &now);
    }
    while (now.kind != '\0') {
        text = gx_sql_next(text, &after);
        bool is_name = now.kind != '\'' && gx_sql_is(&now, name); // not in a string
        if (after.kind == '(' && is_name && before.kind != '.' && !gx_sql_is(&before, "INTO")) {
            return true;
        }
        before = now;
        now = after;
    }
    return false;
}

static bool is_in_statement(sqlite3 *db, const char *name)
{
    sqlite3_stmt *stmt = NULL;
    while ((stmt = sqlite3_next_stmt(db, stmt)) != NULL) {
        if (sqlite3_stmt_busy(stmt) && has_call(sqlite3_sql(stmt), name)) {
            return true;
        }
    }
    return false;
}

bool gx_is_direct(sqlite3_context *sql, const char *name)
{
    static char found;
    if (sqlite3_libversion_number() >= CHECKS_ARE_SAFE) {
        return true;
    }
    // Names are texts of this object, so that no two of them have the same number; below zero it is
    // the statement's, whichever of its calls asks.
    int key = -1 - (int)((uintptr_t)name & INT32_MAX);
    if (sqlite3_get_auxdata(sql, key) != NULL) {
        return true;
    }
    sqlite3 *db = sqlite3_context_db_handle(sql);
    bool is_direct = is_in_statement(db, name) || gx_store_any_in_temp(db, has_call, name);
    if (is_direct) {
        sqlite3_set_auxdata(sql, key, &found, NULL);
    }
    return is_direct;
}
