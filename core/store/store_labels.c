/*
** The matrix store: names of rows and of columns, the table gx_label.
**
** A row holds those of one axis of one matrix as a text (base/names.h), with the generation of the
** matrix that they belong to.  gx takes them along to each new generation (gx_store_touch()).  An
** earlier release that writes to the matrix does not: their generation is of the past then, and
** they are void.  The table is made with the first names, and earlier releases pass it over.
*/
#include <sqlite3ext.h>

#include "store_int.h"

#include "../base/names.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

static const char table_sql[] =
    "CREATE TABLE main.gx_label(\n"
    "  id INTEGER PRIMARY KEY, -- gx_meta.id << 1 | axis: 0 rows, 1 columns\n"
    "  generation INTEGER,     -- of the matrix; names of another one are void\n"
    "  names TEXT              -- a JSON list of strings and nulls\n"
    ");";

static int64_t row_of(int64_t id, int axis)
{
    return id << 1 | axis;
}

static bool has_table(gx_store *store, const gx_schema *schema)
{
    return sqlite3_table_column_metadata(store->db, schema->name, "gx_label", "names", NULL, NULL,
                                         NULL, NULL, NULL) == SQLITE_OK;
}

gx_code gx_store_keep_labels(gx_store *store, gx_schema *schema, int64_t id, int64_t before,
                             int64_t generation, gx_err *err)
{
    const int64_t values[] = {row_of(id, 0), row_of(id, 1), before, generation};
    return has_table(store, schema)
               ? gx_store_run_with(store, schema, GX_SQL_KEEP_LABELS, values, 4, "writing to", err)
               : GX_OK;
}

gx_code gx_store_drop_labels(gx_store *store, gx_schema *schema, int64_t id, int axis, gx_err *err)
{
    const int64_t values[] = {row_of(id, axis == 1), row_of(id, axis != 0)};
    return has_table(store, schema)
               ? gx_store_run_with(store, schema, GX_SQL_DROP_LABELS, values, 2, "writing to", err)
               : GX_OK;
}

/* The text of the row that the statement stands on, as long as it is one of names. */
static gx_code take_text(gx_store *store, sqlite3_stmt *stmt, const gx_meta *meta, int axis,
                         char **names, size_t *bytes, gx_err *err)
{
    const char *text = (const char *)sqlite3_column_text(stmt, 0);
    size_t length = (size_t)sqlite3_column_bytes(stmt, 0);
    int64_t count = 0, side = axis == 0 ? meta->rows : meta->cols;
    char label[GX_LABEL_MAX];
    if (text == NULL && sqlite3_column_type(stmt, 0) != SQLITE_NULL) {
        return gx_fail_nomem(err, length, "names");
    }
    if (text == NULL || !gx_names_check(text, length, &count) || count > side) {
        return gx_fail(err, GX_CORRUPT,
                       "gx_label has no list of at most %lld names for the %s of %s",
                       (long long)side, axis == 0 ? "rows" : "columns", gx_meta_label(meta, label));
    }
    void *memory;
    GX_TRY(gx_mem_alloc(store->mem, length + 1, "names", &memory, err));
    memcpy(memory, text, length + 1);
    *names = memory;
    *bytes = length;
    return GX_OK;
}

gx_code gx_store_read_labels(gx_store *store, const gx_meta *meta, int axis, char **names,
                             size_t *bytes, gx_err *err)
{
    gx_schema *schema;
    sqlite3_stmt *stmt;
    *names = NULL;
    *bytes = 0;
    GX_TRY(gx_store_schema(store, meta->schema, &schema, err));
    GX_TRY(gx_store_look(store, schema, err));
    if (!schema->has_tables || !has_table(store, schema)) {
        return GX_OK;
    }
    GX_TRY(gx_store_stmt(store, schema, GX_SQL_LABELS, &stmt, err));
    sqlite3_bind_int64(stmt, 1, row_of(meta->id, axis));
    sqlite3_bind_int64(stmt, 2, meta->generation);
    int rc = sqlite3_step(stmt);
    gx_code code = GX_OK;
    if (rc == SQLITE_ROW) {
        code = take_text(store, stmt, meta, axis, names, bytes, err);
    } else if (rc != SQLITE_DONE) {
        code = gx_store_fail(store->db, rc, err, "names of %s", schema->name);
    }
    sqlite3_reset(stmt);
    return code;
}

static gx_code make_table(gx_store *store, const gx_schema *schema, gx_err *err)
{
    int rc = gx_store_exec_in(store, schema->name, table_sql);
    if (rc != SQLITE_OK) {
        return gx_store_fail(store->db, rc, err, "making gx_label in %s", schema->name);
    }
    return gx_store_arm(store, err); // the schema has changed
}

gx_code gx_store_write_labels(gx_store *store, const gx_meta *meta, int axis, const char *names,
                              size_t bytes, gx_err *err)
{
    gx_schema *schema;
    sqlite3_stmt *stmt;
    GX_TRY(gx_store_schema(store, meta->schema, &schema, err));
    if (names == NULL) {
        return gx_store_drop_labels(store, schema, meta->id, axis, err);
    }
    GX_TRY(gx_store_allows_aux(store, bytes, err));
    if (!has_table(store, schema)) {
        GX_TRY(make_table(store, schema, err));
    }
    GX_TRY(gx_store_stmt(store, schema, GX_SQL_SET_LABELS, &stmt, err));
    sqlite3_bind_int64(stmt, 1, row_of(meta->id, axis));
    sqlite3_bind_int64(stmt, 2, meta->generation);
    int rc = sqlite3_bind_text64(stmt, 3, names, bytes, SQLITE_STATIC, SQLITE_UTF8);
    return gx_store_run_bound(store, schema, stmt, 3, rc, err);
}
