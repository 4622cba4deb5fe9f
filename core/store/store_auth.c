/*
** The matrix store: what the application's authorizer forbids.
**
** sqlite3_set_authorizer() is asked while a statement is compiled, so whatever gx does in SQL asks
** by itself, and a denial is SQLITE_AUTH.  But tiles are read and patched through blob handles,
** which ask nobody, and by helpers, which are connections of their own, without an authorizer.  So
**
** - finding a matrix names gx_tile.data (GX_SQL_FIND): who may not read it finds no matrix;
** - patching begins with GX_SQL_PATCH, the UPDATE that it stands for, explained and not run.
**
** Statements that are kept, while a cursor is open, ask again: setting an authorizer expires them
** all, and the next step compiles them anew.
**
** An authorizer may also answer SQLITE_IGNORE.  A column that is ignored reads as NULL and has lost
** its declared type, which is how it is told from a NULL in the file; an INSERT becomes a statement
** that writes nothing; a SELECT one without columns, which gives no row; an UPDATE leaves the
** column as it is, and its program does not use the new value.  All four are denials here: what
** changes a name or a number of gx_state looks at it again, and a savepoint shows in the autocommit
** mode.  The lock writes nothing, so that no column that reads as NULL is written back.  (A library
** built with SQLITE_OMIT_DECLTYPE tells no types: there an ignored column is a NULL.)
*/
#include <sqlite3ext.h>

#include "store_int.h"

#include <assert.h>

SQLITE_EXTENSION_INIT3

gx_code gx_store_check_select(const char *schema, sqlite3_stmt *stmt, gx_err *err)
{
    if (sqlite3_column_count(stmt) > 0) {
        return GX_OK;
    }
    return gx_fail(err, GX_AUTH, "not authorized: SELECT of %s reads nothing", schema);
}

gx_code gx_store_check_ignored(gx_store *store, const gx_schema *schema, sqlite3_stmt *stmt,
                               int column, const char *table, const char *name, gx_err *err)
{
    GX_TRY(gx_store_check_select(schema->name, stmt, err));
    assert(column >= 0 && column < sqlite3_column_count(stmt));
    const char *(*type_of)(sqlite3_stmt *, int) = sqlite3_column_decltype;
    const char *declared = NULL;
    if (type_of == NULL || type_of(stmt, column) != NULL ||
        sqlite3_table_column_metadata(store->db, schema->name, table, name, &declared, NULL, NULL,
                                      NULL, NULL) != SQLITE_OK ||
        declared == NULL) { // a table of another make, without types
        return GX_OK;
    }
    return gx_fail(err, GX_AUTH, "not authorized: %s.%s of %s reads as NULL", table, name,
                   schema->name);
}
