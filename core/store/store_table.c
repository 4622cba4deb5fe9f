/*
** Reading an ordinary table or view by its name: see store.h.
**
** The statement is "SELECT t."a" AS "a", ... FROM "schema"."name" AS t ORDER BY ...".  Names are
** quoted as identifiers, and a column that the table has not is refused before: SQLite would take
** it for a text.  A name without a schema is looked for where SQLite looks: temp, main, attached.
**
** Order.  A table's rows come by their rowid, or by the primary key where it has none; a view's as
** the view gives them.  Who is asked for the rowid is whichever of its three names is no column.
**
** The connection's authorizer is asked as for any SELECT; a column that it ignores reads as NULL,
** which is refused as every NULL is.
*/
#include <sqlite3ext.h>

#include "../base/spelling.h"
#include "store_int.h"

#include <stdio.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum { SHOWN = 24 };

struct gx_table {
    gx_store *store;
    sqlite3_stmt *all;  /* SELECT *: what the columns are called */
    sqlite3_stmt *stmt; /* the rows                              */
    char *from;         /* "schema"."name"; sqlite3_free()       */
    char *schema;       /* or NULL: not said                     */
    const char *name;   /* lent by the caller until it is closed */
    const char *bare;   /* name without the schema               */
    int64_t row;        /* that comes next                       */
};

static gx_code failed(const gx_table *t, int rc, gx_err *err)
{
    gx_err other = {0};
    gx_code code = (rc & 0xff) == SQLITE_ERROR ? GX_ARG : gx_store_code(rc);
    (void)gx_fail(&other, code, "table '%.200s': %s", t->name, sqlite3_errmsg(t->store->db));
    // Where the start of json_each is interrupted SQLite says SQLITE_ERROR.
    bool is_interrupted =
        (rc & 0xff) == SQLITE_INTERRUPT || (code == GX_ARG && gx_store_is_interrupted(t->store));
    return is_interrupted ? gx_fail(err, GX_INTERRUPT, "interrupted")
                          : gx_fail(err, code, "%s", other.text);
}

static gx_code no_memory(gx_err *err)
{
    return gx_fail_nomem(err, 0, "SQL text");
}

/* "schema.name" where there is such a schema; else all of it is the table's name. */
static gx_code take_name(gx_table *t, gx_err *err)
{
    const char *dot = strchr(t->name, '.');
    t->bare = t->name;
    if (dot != NULL) {
        t->schema = sqlite3_mprintf("%.*s", (int)(dot - t->name), t->name);
        if (t->schema == NULL) {
            return no_memory(err);
        }
        if (sqlite3_db_readonly(t->store->db, t->schema) >= 0) {
            t->bare = dot + 1;
        } else {
            sqlite3_free(t->schema);
            t->schema = NULL;
        }
    }
    t->from = t->schema != NULL ? sqlite3_mprintf("\"%w\".\"%w\"", t->schema, t->bare)
                                : sqlite3_mprintf("\"%w\"", t->bare);
    return t->from != NULL ? GX_OK : no_memory(err);
}

static gx_code prepare(gx_table *t, char *sql, sqlite3_stmt **stmt, gx_err *err)
{
    if (sql == NULL) {
        return no_memory(err);
    }
    int rc = sqlite3_prepare_v2(t->store->db, sql, -1, stmt, NULL);
    sqlite3_free(sql);
    return rc == SQLITE_OK ? GX_OK : failed(t, rc, err);
}

// Columns -----------------------------------------------------------------------------------------

static bool has_column(const gx_table *t, const char *name)
{
    bool has = false;
    for (int j = 0; j < sqlite3_column_count(t->all) && !has; j++) {
        const char *other = sqlite3_column_name(t->all, j);
        has = other != NULL && sqlite3_stricmp(other, name) == 0;
    }
    return has;
}

static gx_code refuse_column(const gx_table *t, const char *name, gx_err *err)
{
    const char *best = NULL;
    int least = GX_NEAR_FAR;
    for (int j = 0; j < sqlite3_column_count(t->all); j++) {
        const char *other = sqlite3_column_name(t->all, j);
        int distance = other == NULL ? GX_NEAR_FAR
                                     : gx_near_distance(name, strlen(name), other, strlen(other));
        if (distance < least) {
            least = distance;
            best = other;
        }
    }
    bool is_near = best != NULL && gx_near_is_misspelt(least, strlen(name));
    return gx_fail(err, GX_ARG, "table '%.100s' has no column '%.100s'%s%.100s%s", t->name, name,
                   is_near ? ": did you mean '" : "", is_near ? best : "", is_near ? "'?" : "");
}

/* Called as it is, also where an authorizer ignores it. */
static void put_column(sqlite3_str *text, int place, const char *name)
{
    sqlite3_str_appendf(text, "%st.\"%w\" AS \"%w\"", place == 0 ? "" : ", ", name, name);
}

/* The names of a JSON list, each a column of the table, into text. */
static gx_code take_listed(gx_table *t, const char *columns, sqlite3_str *text, gx_err *err)
{
    sqlite3_stmt *each = NULL;
    gx_code code = prepare(
        t, sqlite3_mprintf("SELECT type = 'text', value FROM json_each(%Q)", columns), &each, err);
    int rc = SQLITE_DONE, count = 0;
    while (code == GX_OK && (rc = sqlite3_step(each)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(each, 1);
        if (sqlite3_column_int(each, 0) == 0 || name == NULL) {
            code = gx_fail(err, GX_ARG, "columns must be a JSON list of names, '[\"a\",\"b\"]'");
        } else if (!has_column(t, name)) {
            code = refuse_column(t, name, err);
        } else {
            put_column(text, count++, name);
        }
    }
    if (code == GX_OK && rc != SQLITE_DONE) {
        code = gx_fail(err, rc == SQLITE_ERROR ? GX_ARG : gx_store_code(rc), "columns: %s",
                       sqlite3_errmsg(t->store->db));
    }
    sqlite3_finalize(each);
    return code == GX_OK && count == 0 ? gx_fail(err, GX_ARG, "columns lists none") : code;
}

static void put_all(const gx_table *t, sqlite3_str *text)
{
    for (int j = 0; j < sqlite3_column_count(t->all); j++) {
        put_column(text, j, sqlite3_column_name(t->all, j));
    }
}

// Order -------------------------------------------------------------------------------------------

/* The name by which the rowid is asked for; NULL: there is none, as of a view. */
static const char *rowid_of(const gx_table *t)
{
    static const char *const names[] = {"rowid", "_rowid_", "oid"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        if (!has_column(t, names[k])) {
            int rc = sqlite3_table_column_metadata(t->store->db, t->schema, t->bare, names[k], NULL,
                                                   NULL, NULL, NULL, NULL);
            return rc == SQLITE_OK ? names[k] : NULL;
        }
    }
    return NULL;
}

/* The columns of the primary key, which are few, in their order in it. */
static gx_code put_key(gx_table *t, sqlite3_str *text, gx_err *err)
{
    enum { NAME = 1, PLACE = 5 };
    sqlite3_stmt *info = NULL;
    bool is_more = true;
    GX_TRY(prepare(t,
                   t->schema != NULL
                       ? sqlite3_mprintf("PRAGMA \"%w\".table_info(\"%w\")", t->schema, t->bare)
                       : sqlite3_mprintf("PRAGMA table_info(\"%w\")", t->bare),
                   &info, err));
    for (int place = 1; is_more; place++) {
        is_more = false;
        while (sqlite3_step(info) == SQLITE_ROW) {
            if (sqlite3_column_int(info, PLACE) == place) {
                sqlite3_str_appendf(text, "%st.\"%w\"", place == 1 ? " ORDER BY " : ", ",
                                    sqlite3_column_text(info, NAME));
                is_more = true;
            }
        }
        sqlite3_reset(info);
    }
    int rc = sqlite3_finalize(info);
    return rc == SQLITE_OK ? GX_OK : failed(t, rc, err);
}

static gx_code put_order(gx_table *t, sqlite3_str *text, gx_err *err)
{
    bool is_table = sqlite3_table_column_metadata(t->store->db, t->schema, t->bare, NULL, NULL,
                                                  NULL, NULL, NULL, NULL) == SQLITE_OK;
    const char *rowid = is_table ? rowid_of(t) : NULL;
    if (rowid != NULL) {
        sqlite3_str_appendf(text, " ORDER BY t.%s", rowid);
        return GX_OK;
    }
    return is_table ? put_key(t, text, err) : GX_OK;
}

// Opening, rows -----------------------------------------------------------------------------------

static gx_code open_rows(gx_table *t, const char *columns, gx_err *err)
{
    GX_TRY(take_name(t, err));
    GX_TRY(prepare(t, sqlite3_mprintf("SELECT * FROM %s", t->from), &t->all, err));
    sqlite3_str *text = sqlite3_str_new(t->store->db);
    sqlite3_str_appendf(text, "SELECT ");
    gx_code code = GX_OK;
    if (columns == NULL) {
        put_all(t, text);
    } else {
        code = take_listed(t, columns, text, err);
    }
    sqlite3_str_appendf(text, " FROM %s AS t", t->from);
    code = code == GX_OK ? put_order(t, text, err) : code;
    char *sql = sqlite3_str_finish(text);
    if (code != GX_OK) {
        sqlite3_free(sql);
        return code;
    }
    return prepare(t, sql, &t->stmt, err);
}

gx_code gx_table_open(gx_store *store, const char *name, const char *columns, gx_table **table,
                      int64_t *cols, gx_err *err)
{
    void *memory;
    *table = NULL;
    *cols = 0;
    GX_TRY(gx_mem_calloc(store->mem, sizeof(gx_table), "a table's reader", &memory, err));
    gx_table *t = memory;
    t->store = store;
    t->name = name;
    gx_code code = open_rows(t, columns, err);
    if (code != GX_OK) {
        gx_table_close(t);
        return code;
    }
    *cols = sqlite3_column_count(t->stmt);
    *table = t;
    return GX_OK;
}

void gx_table_close(gx_table *t)
{
    if (t != NULL) {
        sqlite3_finalize(t->stmt);
        sqlite3_finalize(t->all);
        sqlite3_free(t->from);
        sqlite3_free(t->schema);
        gx_mem_free(t->store->mem, t);
    }
}

/* Column j of the current row is no number. */
static gx_code refuse_value(const gx_table *t, int j, gx_err *err)
{
    char shown[4 * SHOWN];
    int type = sqlite3_column_type(t->stmt, j);
    const char *text = type == SQLITE_TEXT ? (const char *)sqlite3_column_text(t->stmt, j) : NULL;
    if (type == SQLITE_NULL || (type == SQLITE_TEXT && text == NULL)) {
        snprintf(shown, sizeof shown, "NULL");
    } else if (type == SQLITE_TEXT) {
        snprintf(shown, sizeof shown, "'%.*s'%s", SHOWN, text, strlen(text) > SHOWN ? "..." : "");
        gx_text_clean(shown);
    } else {
        snprintf(shown, sizeof shown, "a blob of %d bytes", sqlite3_column_bytes(t->stmt, j));
    }
    return gx_fail(err, GX_ARG, "column '%.100s' of row %lld is %s, not a number%s",
                   sqlite3_column_name(t->stmt, j), (long long)t->row, shown,
                   type == SQLITE_NULL ? "" : ": columns may be listed, '[\"a\",\"b\"]'");
}

gx_code gx_table_next(gx_table *t, double *row, bool *is_row, gx_err *err)
{
    int rc = sqlite3_step(t->stmt), cols = sqlite3_column_count(t->stmt);
    *is_row = rc == SQLITE_ROW;
    if (rc != SQLITE_ROW) {
        return rc == SQLITE_DONE ? GX_OK : failed(t, rc, err);
    }
    for (int j = 0; j < cols; j++) {
        int type = sqlite3_column_type(t->stmt, j);
        if (type != SQLITE_INTEGER && type != SQLITE_FLOAT) {
            return refuse_value(t, j, err);
        }
        row[j] = sqlite3_column_double(t->stmt, j);
        if (type == SQLITE_INTEGER) {
            int64_t whole = sqlite3_column_int64(t->stmt, j);
            if (gx_dtype_inexact(GX_DTYPE_I64, &whole, 1) >= 0) {
                return gx_fail(err, GX_ARG, "column '%.100s' of row %lld is %lld, " GX_ROUNDS_TEXT,
                               sqlite3_column_name(t->stmt, j), (long long)t->row,
                               (long long)whole);
            }
        }
    }
    t->row++;
    return GX_OK;
}

const char *gx_table_column(const gx_table *t, int64_t j)
{
    return sqlite3_column_name(t->stmt, (int)j);
}
