/*
** Vector tables: the module gx_vectors.
**
**     CREATE VIRTUAL TABLE note_vec USING gx_vectors(embedding f32[384], tag TEXT, metric=cosine);
**     SELECT rowid, distance FROM note_vec WHERE embedding MATCH :q AND k = 10 AND tag = 'home';
**
** Its rows are rows of an ordinary shadow table, whose scans, with what WHERE says of the columns,
** are SQLite's own; vectors are brought when they are asked for.  With MATCH the rows are hits
** (vectors_search.c), by distance, and what WHERE says is known to the search: as many come as are
** wanted, if so many there are.  Without k and LIMIT they come as long as they are asked for.
** Where the hidden column gx_plan is used there is one row: how the search would be made.
**
** The table reaches its own shadow tables and matrices alone, all of its own database, and so views
** and triggers may use it (SQLITE_VTAB_INNOCUOUS), as they may FTS5 and R*Tree tables.
**
** Plans.  idxStr has an entry for each value that xFilter gets: a letter, numbers, a collation.
**
**     m VECTOR   k   p (probe)   l (LIMIT)   o (OFFSET)   d OPERATOR (distance)
**     t OPERATOR COLUMN COLLATION      i COLUMN COLLATION (IN)
*/
#include "vectors.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_STREAM = 64, STREAM_GROWTH = 8 };

typedef struct cursor {
    sqlite3_vtab_cursor base; /* must be first */
    bool is_held;             /* gx_ctx_release() is due                                    */
    bool is_match, is_done;
    sqlite3_stmt *row; /* a scan, or the row of the hit at hand: rowid, pos, columns */
    bool is_owned;     /* row is finalized, else reset                               */
    bool is_at_row;    /* it stands on that row                                      */
    gx_vec_hits hits;
    int64_t at;     /* of hits                                                    */
    char *plan;     /* gx_plan; NULL: a search                                    */
    bool is_stream; /* more are searched for when hits end                        */
    double *query;
    gx_vec_wish wish;
    gx_vectors_term term[GX_VEC_TERMS_MAX]; /* values and lists are the cursor's                  */
    gx_vec_window window;
    gx_vec_ahead ahead; /* queries of a join */
} cursor;

static const gx_function call = {"gx_vectors", 0, -1, 0, NULL, 0};

static gx_vec_table *table_of(const cursor *c)
{
    return (gx_vec_table *)(void *)c->base.pVtab;
}

// Tables ------------------------------------------------------------------------------------------

static void free_table(gx_vec_table *t)
{
    gx_vec_table **at = &t->list->first;
    while (*at != t) {
        at = &(*at)->next;
    }
    *at = t->next;
    gx_vec_rollback(&t->base);
    gx_vec_fresh_clear(&t->fresh, t->ctx->mem);
    gx_vectors_close(t->rows);
    gx_vec_shape_clear(&t->shape);
    sqlite3_free(t->base.zErrMsg);
    sqlite3_free(t->schema);
    sqlite3_free(t->name);
    sqlite3_free(t);
}

static gx_code set_names(gx_vec_table *t, const char *schema, const char *name, gx_err *err)
{
    t->schema = sqlite3_mprintf("%s", schema);
    t->name = sqlite3_mprintf("%s", name);
    if (t->schema == NULL || t->name == NULL) {
        return gx_fail_nomem(err, strlen(name), "vector table");
    }
    t->shape.tables.schema = t->schema;
    t->shape.tables.name = t->name;
    return GX_OK;
}

/* The tables, in a database that has gx's, too: so none is made while rows are inserted. */
static gx_code make_tables(gx_vec_table *t, gx_err *err)
{
    gx_store *store = t->ctx->store;
    int64_t rows = 0;
    GX_TRY(gx_vec_height(t, &rows, err));
    for (int c = 0; c < t->shape.vectors; c++) {
        char full[2 * GX_NAME_MAX + 2];
        gx_meta meta;
        bool found;
        gx_vec_full_name(t, t->shape.vector[c].matrix, full);
        GX_TRY(gx_store_locate(store, full, &meta, &found, err));
        if (found) {
            return gx_fail(err, GX_ARG, "there is a matrix %s, which the vectors of %s would be",
                           t->shape.vector[c].matrix, t->shape.vector[c].name);
        }
    }
    if (sqlite3_stricmp(t->schema, "temp") != 0) {
        GX_TRY(gx_store_begin(store, t->schema, err));
        GX_TRY(gx_store_end(store, true, err));
    }
    return gx_vectors_make(t->rows, err);
}

static gx_code open_table(gx_vec_table *t, int argc, const char *const *argv, bool is_new,
                          gx_err *err)
{
    GX_TRY(gx_vec_declare(&t->shape, argc, argv, err));
    GX_TRY(set_names(t, argv[1], argv[2], err));
    GX_TRY(gx_vectors_open(t->ctx->store, &t->shape.tables, &t->rows, err));
    if (is_new) {
        gx_ctx_hold(t->ctx);
        gx_code code = make_tables(t, err);
        gx_ctx_release(t->ctx);
        GX_TRY(code);
    }
    char *declaration = gx_vec_declaration(&t->shape);
    if (declaration == NULL) {
        return gx_fail_nomem(err, 0, "declaration");
    }
    int rc = sqlite3_declare_vtab(t->db, declaration);
    sqlite3_free(declaration);
    if (rc != SQLITE_OK) {
        bool is_stopped = rc == SQLITE_ERROR && gx_store_is_interrupted(t->ctx->store);
        return is_stopped ? gx_fail(err, GX_INTERRUPT, "interrupted")
                          : gx_fail(err, rc == SQLITE_NOMEM ? GX_NOMEM : GX_ARG, "%s",
                                    sqlite3_errmsg(t->db));
    }
    sqlite3_vtab_config(t->db, SQLITE_VTAB_CONSTRAINT_SUPPORT, 1);
    sqlite3_vtab_config(t->db, SQLITE_VTAB_INNOCUOUS);
    return GX_OK;
}

static int open_vtab(sqlite3 *db, void *arg, int argc, const char *const *argv, bool is_new,
                     sqlite3_vtab **vtab, char **message)
{
    gx_err err = {.code = GX_OK};
    gx_vec_table *t = sqlite3_malloc64(sizeof *t);
    *vtab = NULL;
    if (t == NULL) {
        return SQLITE_NOMEM;
    }
    memset(t, 0, sizeof *t);
    t->db = db;
    t->list = arg;
    t->ctx = t->list->ctx;
    t->next = t->list->first;
    t->list->first = t;
    t->slot = -1;
    sqlite3_randomness(sizeof t->token, &t->token);
    if (open_table(t, argc, argv, is_new, &err) != GX_OK) {
        // argv is gone where a statement of ours has made SQLite read the schema again
        *message =
            sqlite3_mprintf("gx_vectors: %s: %s", t->name == NULL ? argv[2] : t->name, err.text);
        free_table(t);
        return gx_sqlite_code(err.code);
    }
    *vtab = &t->base;
    return SQLITE_OK;
}

static int create(sqlite3 *db, void *arg, int argc, const char *const *argv, sqlite3_vtab **vtab,
                  char **message)
{
    return open_vtab(db, arg, argc, argv, true, vtab, message);
}

static int connect(sqlite3 *db, void *arg, int argc, const char *const *argv, sqlite3_vtab **vtab,
                   char **message)
{
    return open_vtab(db, arg, argc, argv, false, vtab, message);
}

static int disconnect(sqlite3_vtab *vtab)
{
    free_table((gx_vec_table *)(void *)vtab);
    return SQLITE_OK;
}

/* fn for each matrix that is there, in one storing call. */
static gx_code each_matrix(gx_vec_table *t, const char *name,
                           gx_code (*fn)(gx_vec_table *, gx_meta *, int, const char *, gx_err *),
                           gx_err *err)
{
    gx_store *store = t->ctx->store;
    GX_TRY(gx_store_begin(store, t->schema, err));
    gx_code code = GX_OK;
    for (int c = 0; c < t->shape.vectors && code == GX_OK; c++) {
        char full[2 * GX_NAME_MAX + 2];
        gx_meta meta;
        bool found = false;
        gx_vec_full_name(t, t->shape.vector[c].matrix, full);
        code = gx_store_locate(store, full, &meta, &found, err);
        code = code == GX_OK && found ? fn(t, &meta, c, name, err) : code;
    }
    gx_code ended = gx_store_end(store, code == GX_OK, err);
    return code == GX_OK ? ended : code;
}

static gx_code drop_matrix(gx_vec_table *t, gx_meta *meta, int vector, const char *name,
                           gx_err *err)
{
    (void)vector, (void)name;
    return gx_store_drop(t->ctx->store, meta, err);
}

static gx_code rename_matrix(gx_vec_table *t, gx_meta *meta, int vector, const char *name,
                             gx_err *err)
{
    char matrix[2 * GX_NAME_MAX + 2];
    if (snprintf(matrix, sizeof matrix, "%.255s_%s", name, t->shape.vector[vector].name) >
        GX_NAME_MAX) {
        return gx_fail(err, GX_ARG, "the names of table and column have more than 254 bytes");
    }
    return gx_store_rename(t->ctx->store, meta, matrix, err);
}

static int destroy(sqlite3_vtab *vtab)
{
    gx_vec_table *t = (gx_vec_table *)(void *)vtab;
    gx_err err = {.code = GX_OK};
    gx_ctx_hold(t->ctx);
    gx_code code = each_matrix(t, NULL, drop_matrix, &err);
    gx_ctx_release(t->ctx); // no table is dropped while another one is read
    code = code == GX_OK ? gx_vectors_drop(t->rows, &err) : code;
    if (code != GX_OK) {
        return gx_vec_error(t, &err, 0);
    }
    free_table(t);
    return SQLITE_OK;
}

static int rename_table(sqlite3_vtab *vtab, const char *name)
{
    gx_vec_table *t = (gx_vec_table *)(void *)vtab;
    gx_err err = {.code = GX_OK};
    char *copy = sqlite3_mprintf("%s", name);
    gx_ctx_hold(t->ctx);
    gx_code code = copy == NULL ? gx_fail_nomem(&err, strlen(name), "name") : gx_vec_flush(t, &err);
    code = code == GX_OK ? each_matrix(t, name, rename_matrix, &err) : code;
    code = code == GX_OK ? gx_vectors_rename(t->rows, name, &err) : code;
    gx_ctx_release(t->ctx);
    if (code != GX_OK) {
        sqlite3_free(copy);
        return gx_vec_error(t, &err, 0);
    }
    sqlite3_free(t->name);
    t->name = copy;
    t->shape.tables.name = copy;
    for (int c = 0; c < t->shape.vectors; c++) {
        gx_vec_column *column = &t->shape.vector[c];
        snprintf(column->matrix, sizeof column->matrix, "%s_%s", name, column->name);
    }
    return SQLITE_OK;
}

static int is_shadow_name(const char *suffix)
{
    static const char *const names[] = {"row", "new", "dead", "list", "full"};
    int is = 0;
    for (int k = 0; k < 5; k++) {
        is |= sqlite3_stricmp(suffix, names[k]) == 0;
    }
    return is;
}

// Cursors -----------------------------------------------------------------------------------------

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    cursor *c = sqlite3_malloc64(sizeof *c);
    if (c == NULL) {
        return SQLITE_NOMEM;
    }
    memset(c, 0, sizeof *c);
    *out = &c->base;
    ((gx_vec_table *)(void *)vtab)->cursors++;
    return SQLITE_OK;
}

static void leave_row(cursor *c)
{
    if (c->is_owned) {
        sqlite3_finalize(c->row);
    } else if (c->row != NULL) {
        sqlite3_reset(c->row);
    }
    c->row = NULL;
    c->is_owned = c->is_at_row = false;
}

static void clear(cursor *c)
{
    gx_mem *mem = table_of(c)->ctx->mem;
    leave_row(c);
    gx_vec_hits_clear(&c->hits, mem);
    gx_mem_free(mem, c->query);
    c->query = NULL;
    sqlite3_free(c->plan);
    c->plan = NULL;
    for (int k = 0; k < c->wish.count; k++) {
        sqlite3_value_free(c->term[k].value);
        sqlite3_free((char *)(uintptr_t)c->term[k].list);
        sqlite3_free((char *)(uintptr_t)c->term[k].collation);
    }
    c->wish = (gx_vec_wish){.low = -(double)INFINITY, .high = (double)INFINITY};
    c->at = 0;
    c->is_stream = c->is_done = c->is_match = false;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
    cursor *c = (cursor *)(void *)base;
    gx_ctx *ctx = table_of(c)->ctx;
    clear(c);
    gx_vec_window_clear(&c->window, ctx->mem);
    gx_vec_ahead_clear(&c->ahead, ctx->mem);
    gx_vec_table *t = table_of(c);
    t->cursors--;
    gx_vec_forget_fresh(t);
    if (c->is_held) {
        gx_ctx_release(ctx);
    }
    sqlite3_free(c);
    return SQLITE_OK;
}

/* The values of IN as a JSON list: sqlite3_free(). */
static bool take_values(gx_fn *fn, sqlite3_value *set, const char **list)
{
    sqlite3_value *value = NULL;
    gx_text text;
    gx_text_begin(&text, &fn->run);
    gx_text_puts(&text, "[");
    int rc = sqlite3_vtab_in_first(set, &value);
    for (; rc == SQLITE_OK && value != NULL && gx_ok(&fn->run);
         rc = sqlite3_vtab_in_next(set, &value)) {
        gx_text_puts(&text, text.used > 1 ? "," : "");
        switch (sqlite3_value_type(value)) {
        case SQLITE_INTEGER:
            gx_text_printf(&text, "%lld", (long long)sqlite3_value_int64(value));
            break;
        case SQLITE_FLOAT:
            gx_text_printf(
                &text, isinf(sqlite3_value_double(value)) ? "%s9e999" : "%s%.17g",
                isinf(sqlite3_value_double(value)) && sqlite3_value_double(value) < 0 ? "-" : "",
                sqlite3_value_double(value));
            break;
        case SQLITE_TEXT:
            gx_text_json(&text, (const char *)sqlite3_value_text(value));
            break;
        case SQLITE_NULL:
            gx_text_puts(&text, "null");
            break;
        default:
            gx_fn_fail(fn, "a list of IN has a BLOB: compare with = and OR");
        }
    }
    gx_text_put(&text, "]", sizeof "]");
    if (rc != SQLITE_OK && rc != SQLITE_DONE) {
        gx_run_failf(&fn->run, rc == SQLITE_NOMEM ? GX_NOMEM : GX_IO, "reading a list of IN");
    }
    *list = gx_ok(&fn->run) ? sqlite3_mprintf("%s", text.data) : NULL;
    if (*list == NULL && gx_ok(&fn->run)) {
        gx_fn_check(fn, gx_fail_nomem(&fn->err, text.used, "a list of IN"));
    }
    gx_text_clear(&text);
    return *list != NULL;
}

static bool take_condition(gx_fn *fn, cursor *c, const char *entry, int place, sqlite3_value *value)
{
    char collation[64] = "";
    int op = SQLITE_INDEX_CONSTRAINT_EQ, column = -1;
    gx_vectors_term *term = &c->term[c->wish.count];
    *term = (gx_vectors_term){.column = -1, .place = place};
    bool is_list = entry[0] == 'i';
    int read = is_list ? sscanf(entry, "i %d %63[^;]", &column, collation)
                       : sscanf(entry, "t %d %d %63[^;]", &op, &column, collation);
    (void)read;
    c->wish.count++;
    term->op = op;
    term->column = column;
    term->collation = collation[0] == '\0' ? NULL : sqlite3_mprintf("%s", collation);
    if (collation[0] != '\0' && term->collation == NULL) {
        return gx_fn_check(fn, gx_fail_nomem(&fn->err, sizeof collation, "condition"));
    }
    if (is_list) {
        return take_values(fn, value, &term->list);
    }
    term->value = sqlite3_value_dup(value);
    return term->value != NULL || gx_fn_check(fn, gx_fail_nomem(&fn->err, 0, "condition"));
}

static bool take_bound(gx_fn *fn, cursor *c, int op, sqlite3_value *value)
{
    gx_vec_wish *wish = &c->wish;
    double bound = sqlite3_value_double(value);
    int type = sqlite3_value_numeric_type(value);
    if (type != SQLITE_INTEGER && type != SQLITE_FLOAT) {
        char shown[GX_SHOWN_BYTES];
        return gx_fn_fail(fn, "distance is compared with %s, not with a number",
                          gx_arg_show(value, shown));
    }
    char letter = gx_comparison_letter(op);
    if (letter == '<' || letter == 'l') {
        bool is_nearer = bound < wish->high || (bound == wish->high && letter == '<');
        wish->is_below = is_nearer ? letter == '<' : wish->is_below;
        wish->high = is_nearer ? bound : wish->high;
    } else {
        bool is_nearer = bound > wish->low || (bound == wish->low && letter == '>');
        wish->is_above = is_nearer ? letter == '>' : wish->is_above;
        wish->low = is_nearer ? bound : wish->low;
    }
    return true;
}

static bool take_query(gx_fn *fn, cursor *c, int vector, sqlite3_value *value)
{
    gx_vec_table *t = table_of(c);
    const gx_vec_column *column = &t->shape.vector[vector];
    c->is_match = true;
    c->wish.vector = vector;
    c->wish.k = c->wish.probe = -1;
    if (!gx_fn_check(fn, gx_mem_alloc(t->ctx->mem, (size_t)column->dims * sizeof(double), "query",
                                      &c->query, &fn->err))) {
        return false;
    }
    c->wish.query = c->query;
    return gx_fn_check(fn, gx_vec_take_query(t, column, value, c->query, &fn->err));
}

static bool take_count(gx_fn *fn, const char *label, sqlite3_value *value, int64_t *to)
{
    return gx_fn_check(fn, gx_arg_int(value, label, to, &fn->err)) &&
           (*to >= 0 || gx_fn_fail(fn, "%s must not be negative, not %" PRId64, label, *to));
}

/* What the plan's entries and their values say. */
static bool take_plan(gx_fn *fn, cursor *c, const char *entry, sqlite3_value **argv)
{
    sqlite3_value **first = argv;
    for (; *entry != '\0'; entry = strchr(entry, ';') + 1, argv++) {
        int number = 0;
        (void)sscanf(entry + 1, "%d", &number);
        bool is_good = true;
        switch (entry[0]) {
        case 'm':
            is_good = take_query(fn, c, number, *argv);
            break;
        case 'k':
            is_good = take_count(fn, "k", *argv, &c->wish.k);
            break;
        case 'p':
            is_good = take_count(fn, "probe", *argv, &c->wish.probe);
            break;
        case 'l':
            c->wish.k = sqlite3_value_int64(*argv); // below 0: no limit
            break;
        case 'o':
            c->wish.k += c->wish.k < 0 ? 0 : gx_max(0, sqlite3_value_int64(*argv));
            break;
        case 'd':
            is_good = take_bound(fn, c, number, *argv);
            break;
        default:
            is_good = take_condition(fn, c, entry, (int)(argv - first), *argv);
        }
        if (!is_good) {
            return false;
        }
    }
    c->wish.terms = c->term;
    return true;
}

static bool search(gx_fn *fn, cursor *c)
{
    gx_vec_table *t = table_of(c);
    if (!gx_vec_search(fn, t, &c->wish, &c->ahead, &c->hits)) {
        return false;
    }
    c->is_done = c->at >= c->hits.count;
    return true;
}

static gx_code step_scan(cursor *c, gx_err *err)
{
    bool is_row;
    GX_TRY(gx_vectors_step(table_of(c)->rows, c->row, &is_row, err));
    c->is_done = !is_row;
    c->is_at_row = is_row;
    return GX_OK;
}

static bool start(gx_fn *fn, cursor *c, int number, const char *text, sqlite3_value **argv)
{
    gx_vec_table *t = table_of(c);
    if (!gx_fn_check(fn, gx_vec_flush(t, &fn->err)) || !take_plan(fn, c, text, argv)) {
        return false;
    }
    if (c->is_match) {
        c->is_stream = c->wish.k < 0;
        c->wish.k = c->is_stream ? FIRST_STREAM : c->wish.k;
        c->wish.probe = c->is_stream ? 0 : c->wish.probe; // a search for more finds the same first
        return (number & GX_VEC_PLAN_ASKED) != 0 ? gx_vec_explain(fn, t, &c->wish, &c->plan)
                                                 : search(fn, c);
    }
    gx_vectors_want want = (number & GX_VEC_PLAN_FALLING) != 0    ? GX_VECTORS_FALLING
                           : (number & GX_VEC_PLAN_BY_ROWID) != 0 ? GX_VECTORS_ALL
                                                                  : GX_VECTORS_ANY_ORDER;
    c->is_owned = true;
    return gx_fn_check(fn, gx_vectors_select(t->rows, want, c->wish.terms, c->wish.count, &c->row,
                                             &fn->err)) &&
           gx_fn_check(fn, step_scan(c, &fn->err));
}

static int filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
                  sqlite3_value **argv)
{
    cursor *c = (cursor *)(void *)base;
    gx_vec_table *t = table_of(c);
    gx_fn fn;
    (void)argc;
    clear(c);
    if (!c->is_held) {
        gx_ctx_hold(t->ctx);
        c->is_held = true;
    }
    gx_fn_begin(&fn, NULL, t->ctx, &call, 0, NULL);
    c->is_done = !start(&fn, c, number, text, argv) || c->is_done; // there is nothing to look at
    if (gx_fn_end(&fn) != GX_OK) {
        c->is_done = true;
        return gx_vec_run_error(t, &fn.run.err, 0);
    }
    return SQLITE_OK;
}

/* The hits are used up: as many again, and more. */
static int search_on(cursor *c)
{
    gx_vec_table *t = table_of(c);
    gx_fn fn;
    c->wish.k = c->wish.k > INT64_MAX / STREAM_GROWTH ? INT64_MAX : c->wish.k * STREAM_GROWTH;
    gx_fn_begin(&fn, NULL, t->ctx, &call, 0, NULL);
    search(&fn, c);
    return gx_fn_end(&fn) == GX_OK ? SQLITE_OK : gx_vec_run_error(t, &fn.run.err, 0);
}

static int next(sqlite3_vtab_cursor *base)
{
    cursor *c = (cursor *)(void *)base;
    gx_err err = {.code = GX_OK};
    if (!c->is_match) {
        return step_scan(c, &err) == GX_OK ? SQLITE_OK : gx_vec_error(table_of(c), &err, 0);
    }
    sqlite3_reset(c->row);
    c->is_at_row = false;
    c->at++;
    c->is_done = c->at >= c->hits.count;
    bool is_more =
        c->is_done && c->is_stream && c->plan == NULL && !c->hits.is_complete && c->at == c->wish.k;
    return is_more ? search_on(c) : SQLITE_OK;
}

static int is_at_end(sqlite3_vtab_cursor *base)
{
    return ((cursor *)(void *)base)->is_done;
}

static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    cursor *c = (cursor *)(void *)base;
    *out = c->plan != NULL ? 0
           : c->is_match   ? c->hits.hit[c->at].id
                           : sqlite3_column_int64(c->row, 0);
    return SQLITE_OK;
}

// Columns -----------------------------------------------------------------------------------------

/* The row of the hit at hand. */
static gx_code go_to_row(cursor *c, gx_err *err)
{
    gx_vec_table *t = table_of(c);
    if (c->is_at_row) {
        return GX_OK;
    }
    bool is_row = false;
    if (c->row == NULL) {
        GX_TRY(gx_vectors_select(t->rows, GX_VECTORS_ONE, NULL, 0, &c->row, err));
        c->is_owned = true;
    }
    sqlite3_bind_int64(c->row, 1, c->hits.hit[c->at].id);
    GX_TRY(gx_vectors_step(t->rows, c->row, &is_row, err));
    c->is_at_row = is_row;
    return is_row ? GX_OK
                  : gx_fail(err, GX_CORRUPT, "%s_row has no row %" PRId64 " any more", t->name,
                            c->hits.hit[c->at].id);
}

/* Its vector as a BLOB. */
static gx_code vector_column(cursor *c, sqlite3_context *sql, int vector, gx_err *err)
{
    gx_vec_table *t = table_of(c);
    const gx_vec_column *column = &t->shape.vector[vector];
    int64_t pos = sqlite3_column_int64(c->row, 1);
    if (pos >= 0) {
        const void *blob;
        GX_TRY(gx_vec_window_read(t, &c->window, vector, pos, &blob, err));
        sqlite3_result_blob64(sql, blob, column->bytes, SQLITE_TRANSIENT);
        return GX_OK;
    }
    void *blob = sqlite3_malloc64(column->bytes);
    if (blob == NULL) {
        return gx_fail_nomem(err, column->bytes, "vector");
    }
    gx_code code =
        gx_vec_read_new(t, vector, gx_vec_slot(pos), sqlite3_column_int64(c->row, 0), blob, err);
    if (code == GX_OK) {
        sqlite3_result_blob64(sql, blob, column->bytes, sqlite3_free);
    } else {
        sqlite3_free(blob);
    }
    return code;
}

static gx_code put_column(cursor *c, sqlite3_context *sql, int number, gx_err *err)
{
    enum { FIRST = 2 }; /* rowid, pos */
    const gx_vec_shape *shape = &table_of(c)->shape;
    if (c->plan != NULL) { // the one row has nothing else
        if (number == gx_vec_plan(shape)) {
            sqlite3_result_text(sql, c->plan, -1, SQLITE_TRANSIENT);
        }
        return GX_OK;
    }
    if (number > shape->columns) {
        if (c->is_match && number == gx_vec_distance(shape)) {
            sqlite3_result_double(sql, c->hits.hit[c->at].distance);
        } else if (c->is_match && number == gx_vec_score(shape)) {
            sqlite3_result_double(sql, c->hits.hit[c->at].score);
        } else if (c->is_match && !c->is_stream && number == gx_vec_k(shape)) {
            sqlite3_result_int64(sql, c->wish.k);
        } else if (c->is_match && !c->is_stream && c->wish.probe >= 0) {
            sqlite3_result_int64(sql, c->wish.probe);
        }
        return GX_OK;
    }
    if (number == GX_VEC_KEY && !shape->is_text_key) {
        int64_t id;
        rowid(&c->base, (sqlite3_int64 *)&id);
        sqlite3_result_int64(sql, id);
        return GX_OK;
    }
    GX_TRY(go_to_row(c, err));
    int plain = gx_vec_plain(shape, number);
    if (plain < 0) {
        return vector_column(c, sql, shape->column[number - 1].vector, err);
    }
    sqlite3_result_value(sql, sqlite3_column_value(c->row, FIRST + plain));
    return GX_OK;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *sql, int number)
{
    cursor *c = (cursor *)(void *)base;
    gx_err err = {.code = GX_OK};
    if (sqlite3_vtab_nochange(sql) || put_column(c, sql, number, &err) == GX_OK) {
        return SQLITE_OK;
    }
    int code = gx_vec_error(table_of(c), &err, 0);
    sqlite3_result_error(sql, c->base.pVtab->zErrMsg, -1);
    sqlite3_result_error_code(sql, code);
    return code;
}

// Verification, registration ----------------------------------------------------------------------

static void add_line(void *arg, const char *line)
{
    sqlite3_str *text = arg;
    sqlite3_str_appendf(text, "%s%s", sqlite3_str_length(text) > 0 ? "; " : "gx_vectors: ", line);
}

static gx_code check(gx_vec_table *t, sqlite3_str *text, gx_err *err)
{
    int64_t rows = 0;
    gx_vec_index index;
    bool has_index;
    GX_TRY(gx_vec_flush(t, err));
    GX_TRY(gx_vec_height(t, &rows, err));
    GX_TRY(gx_vec_read_index(t, &index, &has_index, err));
    GX_TRY(gx_vectors_check(t->rows, rows, has_index ? index.slot : -1, add_line, text, err));
    return has_index ? gx_vec_check_index(t, &index, err) : GX_OK;
}

static int integrity(sqlite3_vtab *vtab, const char *schema, const char *name, int flags,
                     char **problems)
{
    gx_vec_table *t = (gx_vec_table *)(void *)vtab;
    gx_err err = {.code = GX_OK};
    sqlite3_str *text = sqlite3_str_new(NULL);
    (void)schema, (void)name, (void)flags;
    gx_ctx_hold(t->ctx);
    gx_code code = check(t, text, &err);
    gx_ctx_release(t->ctx);
    if (code == GX_CORRUPT) { // something to report
        add_line(text, err.text);
        code = GX_OK;
    }
    gx_check_failed(t->ctx, text);
    bool is_bad = sqlite3_str_length(text) > 0;
    *problems = sqlite3_str_finish(text);
    if (!is_bad) {
        sqlite3_free(*problems);
        *problems = NULL;
    }
    return code == GX_OK ? SQLITE_OK : gx_vec_error(t, &err, 0);
}

static const gx_module_v4 module = {
    GX_MODULE(iVersion) = 4,
    GX_MODULE(xCreate) = create,
    GX_MODULE(xConnect) = connect,
    GX_MODULE(xBestIndex) = gx_vec_best_index,
    GX_MODULE(xDisconnect) = disconnect,
    GX_MODULE(xDestroy) = destroy,
    GX_MODULE(xOpen) = open_cursor,
    GX_MODULE(xClose) = close_cursor,
    GX_MODULE(xFilter) = filter,
    GX_MODULE(xNext) = next,
    GX_MODULE(xEof) = is_at_end,
    GX_MODULE(xColumn) = column,
    GX_MODULE(xRowid) = rowid,
    GX_MODULE(xUpdate) = gx_vec_update,
    GX_MODULE(xBegin) = gx_vec_begin,
    GX_MODULE(xSync) = gx_vec_sync,
    GX_MODULE(xCommit) = gx_vec_commit,
    GX_MODULE(xRollback) = gx_vec_rollback,
    GX_MODULE(xRename) = rename_table,
    GX_MODULE(xSavepoint) = gx_vec_savepoint,
    GX_MODULE(xRelease) = gx_vec_release,
    GX_MODULE(xRollbackTo) = gx_vec_rollback_to,
    GX_MODULE(xShadowName) = is_shadow_name,
    .xIntegrity = integrity,
};

int gx_register_vectors(sqlite3 *db, gx_ctx *ctx)
{
    gx_vec_list *list = sqlite3_malloc64(sizeof *list);
    if (list == NULL) {
        return SQLITE_NOMEM;
    }
    *list = (gx_vec_list){.db = db, .ctx = ctx};
    gx_store_set_tables(ctx->store, gx_vec_source, list);
    return sqlite3_create_module_v2(db, "gx_vectors", GX_MODULE_OF(module), list, sqlite3_free);
}
