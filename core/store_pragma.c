/*
** Facts about a database that SQLite tells through PRAGMA: see store.h.
**
** The schema's name is quoted as an identifier; the pragma's is one of gx's own constants.
*/
#include <sqlite3ext.h>

#include "store_int.h"

#include <stdio.h>

SQLITE_EXTENSION_INIT3

gx_code gx_store_pragma(sqlite3 *db, const char *schema, const char *pragma, char text[64],
                        gx_err *err)
{
    text[0] = '\0';
    char *sql = sqlite3_mprintf("PRAGMA \"%w\".%s", schema, pragma);
    if (sql == NULL) {
        return gx_fail_nomem(err, 0, "pragma");
    }
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    sqlite3_free(sql);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    if (rc == SQLITE_ROW) {
        const unsigned char *value = sqlite3_column_text(stmt, 0);
        snprintf(text, 64, "%s", value == NULL ? "" : (const char *)value);
        rc = SQLITE_OK;
    }
    gx_code code = rc == SQLITE_OK || rc == SQLITE_DONE
                       ? GX_OK
                       : gx_store_fail(db, rc, err, "PRAGMA %s of %s", pragma, schema);
    sqlite3_finalize(stmt);
    return code;
}
