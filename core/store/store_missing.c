/*
** The matrix store: what is said when there is no matrix of a name.
**
** A name that is not there is most often misspelt, of another case, the name of an ordinary table
** or file, or a literal in another language's notation.  The error says which, so that the next
** try is the right one.  This looks through the catalogs (at most NAMES_MAX names) and is done on
** the way to an error only; what goes wrong while looking is left unsaid.
*/
#include <sqlite3ext.h>

#include "../base/decimal.h"
#include "../base/spelling.h"
#include "store_int.h"

#include <stdio.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum { NAMES_MAX = 10000, HINT_BYTES = 160 };

typedef struct search {
    gx_store *store;
    const char *name;
    int looked, distance;
    char best[GX_LABEL_MAX];
} search;

static bool compare(void *arg, const gx_meta *meta)
{
    search *s = arg;
    char label[GX_LABEL_MAX];
    gx_meta_label(meta, label);
    size_t bytes = strlen(s->name);
    int whole = gx_near_distance(s->name, bytes, label, strlen(label));
    int bare = gx_near_distance(s->name, bytes, meta->name, strlen(meta->name));
    int distance = whole < bare ? whole : bare;
    if (distance < s->distance) {
        s->distance = distance;
        memcpy(s->best, label, sizeof label);
    }
    return ++s->looked < NAMES_MAX;
}

static bool compare_schema(void *arg, const char *schema)
{
    search *s = arg;
    gx_err ignored = {0};
    gx_store_list(s->store, schema, NULL, compare, s, &ignored);
    return false;
}

/* "x.csv" and the like. */
static bool is_file_name(const char *name)
{
    static const char *const endings[] = {".npy", ".mtx", ".csv", ".tsv", ".txt"};
    const char *dot = strrchr(name, '.');
    for (size_t e = 0; dot != NULL && e < sizeof endings / sizeof *endings; e++) {
        if (sqlite3_stricmp(dot, endings[e]) == 0) {
            return true;
        }
    }
    return false;
}

/* "1 2; 3 4", "(1,2)". */
static bool is_list_of_numbers(const char *name)
{
    return strspn(name, "0123456789.,;+-eE() \t\n") == strlen(name) &&
           strpbrk(name, "0123456789") != NULL && strpbrk(name, ",; ") != NULL;
}

static bool is_number(const char *name)
{
    double value;
    const char *end = name + strlen(name), *stop;
    return strpbrk(name, "0123456789") != NULL && gx_decimal_parse(name, end, &stop, &value) &&
           stop == end;
}

/* An ordinary table or a view of main or temp. */
static bool is_table(gx_store *store, const char *name)
{
    static const char sql[] =
        "SELECT 1 FROM (SELECT type, name, sql FROM main.sqlite_master UNION ALL "
        "SELECT type, name, sql FROM temp.sqlite_temp_master) WHERE name = ?1 COLLATE NOCASE "
        "AND type IN ('table', 'view') AND sql NOT LIKE 'CREATE VIRTUAL%'";
    sqlite3_stmt *stmt = NULL;
    bool is_one = sqlite3_prepare_v2(store->db, sql, -1, &stmt, NULL) == SQLITE_OK &&
                  sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC) == SQLITE_OK &&
                  sqlite3_step(stmt) == SQLITE_ROW;
    sqlite3_finalize(stmt);
    return is_one;
}

gx_code gx_store_missing(gx_store *store, const char *name, gx_err *err)
{
    search s = {.store = store, .name = name, .distance = GX_NEAR_FAR};
    gx_err ignored = {0};
    char hint[HINT_BYTES] = "";
    gx_store_each_schema(store, compare_schema, &s, &ignored);
    if (gx_near_is_misspelt(s.distance, strlen(name))) {
        snprintf(hint, sizeof hint, ": did you mean '%.128s'?", s.best);
    } else if (is_table(store, name)) {
        snprintf(hint, sizeof hint,
                 "; it is a table: gx_from_table makes a matrix of its columns");
    } else if (is_file_name(name)) {
        snprintf(hint, sizeof hint, "; gx_import makes a matrix of a file");
    } else if (is_list_of_numbers(name)) {
        snprintf(hint, sizeof hint, "; a literal is written '[[1,2],[3,4]]'");
    } else if (is_number(name)) {
        snprintf(hint, sizeof hint, "; a number stands without quotes");
    }
    return gx_fail(err, GX_ARG, "no matrix named '%.*s'%s", GX_NAME_MAX, name, hint);
}

gx_code gx_store_find(gx_store *store, const char *name, gx_meta *meta, gx_err *err)
{
    char label[GX_LABEL_MAX];
    GX_TRY(gx_store_find_any(store, name, meta, err));
    return !meta->is_sparse ? GX_OK
                            : gx_csr_refuse(gx_meta_label(meta, label), meta->rows, meta->cols,
                                            meta->panels->entries, gx_meta_number(meta), err);
}

gx_code gx_store_refuse_made(const gx_meta *meta, gx_err *err)
{
    char label[GX_LABEL_MAX];
    gx_meta_label(meta, label);
    if (!meta->is_composite) {
        return gx_fail(err, GX_ARG,
                       "%s is quantised, and its elements are those of another matrix, rounded: "
                       "gx_dequantize('%s', 'name') makes a matrix of its own",
                       label, meta->name);
    }
    return gx_fail(
        err, GX_ARG,
        "%s is a composite, whose elements are those of other matrices: write to these, or "
        "make a matrix of its own by gx_copy('%s', 'name')",
        label, meta->name);
}

gx_code gx_store_find_any(gx_store *store, const char *name, gx_meta *meta, gx_err *err)
{
    GX_TRY(gx_store_find_all(store, name, meta, err));
    return gx_meta_is_made(meta) ? gx_store_refuse_made(meta, err) : GX_OK;
}

gx_code gx_store_find_all(gx_store *store, const char *name, gx_meta *meta, gx_err *err)
{
    bool found;
    GX_TRY(gx_store_lookup(store, name, meta, &found, err));
    if (!found) {
        return gx_store_missing(store, name, err);
    }
    return GX_OK;
}

gx_code gx_store_find_source(gx_store *store, const char *name, gx_meta *meta, gx_err *err)
{
    bool found;
    GX_TRY(gx_store_lookup(store, name, meta, &found, err));
    if (!found && store->tables != NULL) {
        GX_TRY(store->tables(store->tables_arg, name, meta, &found, err));
    }
    return found ? GX_OK : gx_store_missing(store, name, err);
}
