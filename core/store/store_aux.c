/*
** The matrix store: auxiliary data, the column aux of gx_meta (aux_data.h says what is in it).
**
** Files made before the column existed are read as they are: there no matrix has any.  The first
** one that is written adds the column, which older readers pass over, since they name the columns
** they want.  The blob is read and written whole, and only by who asks: it is as long as a column
** of the matrix, and most calls want the catalog row alone.
*/
#include <sqlite3ext.h>

#include "store_int.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

static const size_t ROW_BYTES = 512; // of a catalog row beside aux: a name and nine integers

/* As of the last look at the schema, which pinned it. */
static bool has_column(gx_store *store, const gx_schema *schema)
{
    return sqlite3_table_column_metadata(store->db, schema->name, "gx_meta", "aux", NULL, NULL,
                                         NULL, NULL, NULL) == SQLITE_OK;
}

gx_code gx_store_allows_aux(gx_store *store, size_t bytes, gx_err *err)
{
    int64_t limit = gx_store_length_limit(store);
    if (bytes + ROW_BYTES > (size_t)limit) {
        return gx_fail(err, GX_TOOBIG,
                       "auxiliary data of %zu bytes is past SQLite's length limit of %lld", bytes,
                       (long long)limit);
    }
    return GX_OK;
}

static gx_code add_column(gx_store *store, const gx_schema *schema, gx_err *err)
{
    int rc = gx_store_exec_in(store, schema->name,
                              "ALTER TABLE main.gx_meta ADD COLUMN aux BLOB");
    if (rc != SQLITE_OK) {
        return gx_store_fail(store->db, rc, err, "adding a column to gx_meta of %s", schema->name);
    }
    return gx_store_arm(store, err); // the schema has changed
}

gx_code gx_store_write_aux(gx_store *store, const gx_meta *meta, const void *data, size_t bytes,
                           gx_err *err)
{
    gx_schema *schema;
    sqlite3_stmt *stmt;
    GX_TRY(gx_store_schema(store, meta->schema, &schema, err));
    if (!has_column(store, schema)) {
        if (data == NULL) {
            return GX_OK;
        }
        GX_TRY(add_column(store, schema, err));
    }
    GX_TRY(gx_store_stmt(store, schema, GX_SQL_SET_AUX, &stmt, err));
    sqlite3_bind_int64(stmt, 1, meta->id);
    int rc = data == NULL ? sqlite3_bind_null(stmt, 2)
                          : sqlite3_bind_blob64(stmt, 2, data, bytes, SQLITE_STATIC);
    return gx_store_run_bound(store, schema, stmt, 2, rc, err);
}

/* The row's blob into memory of its own. */
static gx_code copy_blob(gx_store *store, sqlite3_stmt *stmt, const char *label, void **data,
                         size_t *bytes, gx_err *err)
{
    if (sqlite3_column_type(stmt, 0) == SQLITE_NULL) {
        return GX_OK;
    }
    if (sqlite3_column_type(stmt, 0) != SQLITE_BLOB) {
        return gx_fail(err, GX_CORRUPT, "auxiliary data of %s is not a blob", label);
    }
    const void *blob = sqlite3_column_blob(stmt, 0);
    size_t size = (size_t)sqlite3_column_bytes(stmt, 0);
    if (blob == NULL && size > 0) {
        return gx_fail_nomem(err, size, "auxiliary data");
    }
    GX_TRY(gx_mem_alloc(store->mem, size, "auxiliary data", data, err));
    if (size > 0) {
        memcpy(*data, blob, size);
    }
    *bytes = size;
    return GX_OK;
}

gx_code gx_store_read_aux(gx_store *store, const gx_meta *meta, void **data, size_t *bytes,
                          gx_err *err)
{
    gx_schema *schema;
    sqlite3_stmt *stmt;
    char label[GX_LABEL_MAX];
    *data = NULL;
    *bytes = 0;
    GX_TRY(gx_store_schema(store, meta->schema, &schema, err));
    GX_TRY(gx_store_look(store, schema, err));
    if (!schema->has_tables || !has_column(store, schema)) {
        return GX_OK;
    }
    GX_TRY(gx_store_stmt(store, schema, GX_SQL_AUX, &stmt, err));
    sqlite3_bind_int64(stmt, 1, meta->id);
    int rc = sqlite3_step(stmt);
    gx_code code = GX_OK;
    if (rc == SQLITE_ROW) {
        code = copy_blob(store, stmt, gx_meta_label(meta, label), data, bytes, err);
    } else if (rc != SQLITE_DONE) {
        code = gx_store_fail(store->db, rc, err, "catalog of %s", schema->name);
    }
    sqlite3_reset(stmt);
    return code;
}
