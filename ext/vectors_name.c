/*
** Vector tables by their names: as a matrix argument of any function, and gx_settle.
**
** "t" is the one vector column of a table, "t.embedding" one of several.  Its rows are those of the
** matrix, in the order in which they have settled; none may be dead or still in NAME_new, for these
** are no rows of a matrix.  What writes does not take such a name: rows of the matrix are the
** table's alone to change.
*/
#include "vectors.h"

#include <stdio.h>
#include <string.h>

// Finding -----------------------------------------------------------------------------------------

typedef struct finding {
    gx_ctx *ctx;
    char table[GX_NAME_MAX + 1];
    const char *column; /* NULL: not said */
    gx_vec_table *t;
    int vector;
    gx_code code;
    gx_err *err;
} finding;

/* The vector column that is meant. */
static bool has_column(finding *f, const gx_vec_table *t)
{
    f->vector = t->shape.vectors == 1 ? 0 : -1;
    bool has = f->column == NULL;
    for (int c = 0; c < t->shape.vectors && f->column != NULL; c++) {
        if (sqlite3_stricmp(t->shape.vector[c].name, f->column) == 0) {
            f->vector = c;
            has = true;
        }
    }
    return has;
}

static bool find_in(void *arg, const char *schema)
{
    finding *f = arg;
    bool found;
    const gx_vec_list *list = gx_store_tables(f->ctx->store);
    f->code = gx_vectors_connect(list->db, schema, f->table, &found, f->err);
    for (gx_vec_table *t = list->first; t != NULL && found && f->code == GX_OK; t = t->next) {
        if (sqlite3_stricmp(t->schema, schema) == 0 && sqlite3_stricmp(t->name, f->table) == 0 &&
            has_column(f, t)) {
            f->t = t;
        }
    }
    return f->code != GX_OK || f->t != NULL;
}

static gx_code look(finding *f, const char *schema)
{
    if (schema[0] != '\0') {
        find_in(f, schema);
        return f->code;
    }
    if (!find_in(f, "temp") && !find_in(f, "main")) {
        GX_TRY(gx_store_each_schema(f->ctx->store, find_in, f, f->err));
    }
    return f->code;
}

gx_code gx_vec_find(gx_ctx *ctx, const char *name, gx_vec_table **t, int *vector, gx_err *err)
{
    char schema[GX_NAME_MAX + 1];
    const char *bare;
    finding f = {.ctx = ctx, .err = err};
    *t = NULL;
    GX_TRY(gx_store_split(ctx->store, name, schema, &bare, err));
    if (strlen(bare) > GX_NAME_MAX) {
        return GX_OK;
    }
    snprintf(f.table, sizeof f.table, "%s", bare);
    GX_TRY(look(&f, schema));
    char *dot = strrchr(f.table, '.');
    if (f.t == NULL && dot != NULL) {
        *dot = '\0';
        f.column = dot + 1;
        GX_TRY(look(&f, schema));
    }
    *t = f.t;
    *vector = f.vector;
    return f.t == NULL ? GX_OK : gx_vec_flush(f.t, err);
}

// In the place of a matrix ------------------------------------------------------------------------

static gx_code refuse_unsettled(gx_vec_table *t, gx_err *err)
{
    sqlite3_stmt *stmt;
    bool is_row;
    int64_t dead = 0;
    GX_TRY(gx_vec_count_dead(t, &dead, err));
    GX_TRY(gx_vectors_stmt(t->rows, GX_VECTORS_LAST_SLOT, &stmt, err));
    gx_code code = gx_vectors_step(t->rows, stmt, &is_row, err);
    bool has_new = is_row && sqlite3_column_type(stmt, 0) != SQLITE_NULL;
    sqlite3_reset(stmt);
    GX_TRY(code);
    if (dead == 0 && !has_new) {
        return GX_OK;
    }
    return gx_fail(err, GX_ARG,
                   "%s is a vector table whose rows are no matrix yet (%s%lld deleted): "
                   "gx_settle('%s') makes them one",
                   t->name, has_new ? "new ones, and " : "", (long long)dead, t->name);
}

/* The matrix of a vector column that has settled. */
static gx_code settled_matrix(gx_vec_table *t, int vector, gx_meta *meta, gx_err *err)
{
    gx_mat E;
    if (vector < 0) {
        return gx_fail(err, GX_ARG, "%s has %d vector columns: say which, as in '%s.%s'", t->name,
                       t->shape.vectors, t->name, t->shape.vector[0].name);
    }
    GX_TRY(refuse_unsettled(t, err));
    GX_TRY(gx_vec_matrix(t, vector, &E, err));
    if (E.rows == 0) {
        return gx_fail(err, GX_ARG, "%s has no rows", t->name);
    }
    *meta = E.meta;
    return GX_OK;
}

gx_code gx_vec_source(void *arg, const char *name, gx_meta *meta, bool *found, gx_err *err)
{
    const gx_vec_list *list = arg;
    gx_vec_table *t;
    sqlite3_stmt *use = NULL;
    int vector;
    *found = false;
    GX_TRY(gx_vec_find(list->ctx, name, &t, &vector, err));
    if (t == NULL) {
        return GX_OK;
    }
    gx_code code = gx_vectors_use(t->db, t->schema, t->name, &use, err);
    code = code == GX_OK ? settled_matrix(t, vector, meta, err) : code;
    *found = code == GX_OK;
    sqlite3_finalize(use);
    return code;
}

/* The table that is worked with stays until the call ends. */
static bool find_and_use(gx_fn *fn, const char *name, gx_vec_table **t, int *vector)
{
    if (!gx_fn_check(fn, gx_vec_find(fn->ctx, name, t, vector, &fn->err)) || *t == NULL) {
        return gx_ok(&fn->run);
    }
    gx_code code = fn->use != NULL
                       ? GX_OK
                       : gx_vectors_use((*t)->db, (*t)->schema, (*t)->name, &fn->use, &fn->err);
    return gx_fn_check(fn, code);
}

bool gx_vec_argument(gx_fn *fn, int index, gx_vec_table **t, int *vector)
{
    const char *name;
    gx_meta meta;
    bool found;
    *t = NULL;
    if (!gx_fn_has(fn, index) || sqlite3_value_type(fn->argv[index]) != SQLITE_TEXT ||
        gx_arg_begins(fn->argv[index], '[') || gx_arg_begins(fn->argv[index], '{')) {
        return true;
    }
    if (!gx_fn_text(fn, index, "E", &name) ||
        !gx_fn_check(fn, gx_store_locate(fn->ctx->store, name, &meta, &found, &fn->err)) || found) {
        return gx_ok(&fn->run);
    }
    return find_and_use(fn, name, t, vector);
}

// gx_settle ---------------------------------------------------------------------------------------

/* The table that the first argument names, in a storing call; fn->err: why not. */
static bool begin_command(gx_fn *fn, gx_vec_table **t, int *vector)
{
    const char *name;
    if (!gx_fn_text(fn, 0, "table", &name) || !find_and_use(fn, name, t, vector)) {
        return false;
    }
    if (*t == NULL) {
        return gx_fn_fail(fn, "no vector table named '%.255s'", name);
    }
    return gx_fn_check(fn, gx_store_begin(fn->ctx->store, (*t)->schema, &fn->err));
}

static bool command(gx_fn *fn, gx_vec_table *t, const char *text)
{
    gx_code code = gx_vectors_command(t->db, t->schema, t->name, text, &fn->err);
    gx_fn_check(fn, code);
    gx_fn_check(fn, gx_store_end(fn->ctx->store, code == GX_OK, &fn->err));
    return gx_ok(&fn->run);
}

/* gx_settle(table) */
static void settle(gx_fn *fn)
{
    gx_vec_table *t;
    int vector;
    if (begin_command(fn, &t, &vector) && command(fn, t, "settle")) {
        sqlite3_result_value(fn->sql, fn->argv[0]);
    }
}

// gx_index ----------------------------------------------------------------------------------------

typedef struct index_options {
    int64_t lists, probe;
    double recall;
    bool drop;
} index_options;

static const gx_option index_keys[] = {
    {"lists=[1,65536]", GX_OPT_INT, offsetof(index_options, lists), 0},
    {"probe=[1,65536]", GX_OPT_INT, offsetof(index_options, probe), 0},
    {"recall=(0,1]", GX_OPT_REAL, offsetof(index_options, recall), 0},
    {"drop", GX_OPT_BOOL, offsetof(index_options, drop), 0},
    {NULL, GX_OPT_END, 0, 0},
};

/* gx_index(table[, options]): what it has become, as JSON */
static void make_index(gx_fn *fn)
{
    gx_vec_table *t;
    gx_vec_index index;
    char text[160] = "index drop";
    bool found = false;
    int vector;
    index_options options = {.drop = false};
    if (!gx_fn_options(fn, index_keys, &options) || !begin_command(fn, &t, &vector)) {
        return;
    }
    if (!options.drop) {
        snprintf(text, sizeof text, "index %d %lld %lld %.17g", vector < 0 ? 0 : vector,
                 (long long)options.lists, (long long)options.probe, options.recall);
    }
    if (!command(fn, t, text) || !gx_fn_check(fn, gx_vec_read_index(t, &index, &found, &fn->err)) ||
        !found) {
        return;
    }
    snprintf(text, sizeof text, "{\"rows\":%lld,\"lists\":%lld,\"probe\":%lld,\"recall\":%.3f}",
             (long long)index.entries, (long long)index.lists, (long long)index.probe,
             index.recall);
    sqlite3_result_text(fn->sql, text, -1, SQLITE_TRANSIENT);
    gx_fn_result_is_json(fn);
}

const gx_function gx_functions_vectors[] = {
    {"gx_settle", 1, 1, 0, settle, 0},
    {"gx_index", 1, 2, 0, make_index, 0},
    {.name = NULL},
};
