/*
** The dispatcher: every SQL function of gx is called from here.
**
** A function's table row (gx_function) is bound to the connection's gx_ctx in one small block,
** which is what SQLite hands back as user data and frees when the function goes.  A call is
**
**     begin the run -> count the arguments -> body -> free what arguments took -> end the run ->
**     error
**
** The body puts its result; a failure, from whatever depth, is the one in the run and replaces it.
** No allocation, no lock and no system call of our own: a call on 4 x 4 values is dominated by
** SQLite.
**
** Names and results only: arguments are parsed in args.c, options in options.c.
*/
#include "gx_ext.h"
#include "help.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What SQLite keeps for one registered function. */
typedef struct binding {
    gx_ctx *ctx;            /* of the connection; outlives the function (gx.c) */
    const gx_function *def; /* static                                         */
} binding;

// Errors ------------------------------------------------------------------------------------------

int gx_sqlite_code(gx_code code)
{
#define OF_SQLITE(ID, SQLITE, word) SQLITE_##SQLITE,
    static const int codes[GX_CODE_COUNT] = {SQLITE_OK, GX_CODES(OF_SQLITE)};
#undef OF_SQLITE
    return (unsigned)code < GX_CODE_COUNT ? codes[code] : SQLITE_ERROR;
}

void gx_result_error(sqlite3_context *sql, const char *function, const gx_err *err)
{
    char text[sizeof err->text + 128];
    snprintf(text, sizeof text, "%s: %s", function, err->text);
    sqlite3_result_error(sql, text, -1);
    sqlite3_result_error_code(sql, gx_sqlite_code(err->code));
}

int gx_vtab_error(sqlite3_vtab *vtab, const char *table, const gx_err *err)
{
    sqlite3_free(vtab->zErrMsg);
    vtab->zErrMsg = sqlite3_mprintf("%s: %s", table, err->text);
    return gx_sqlite_code(err->code);
}

bool gx_fn_fail(gx_fn *fn, const char *format, ...)
{
    char text[sizeof fn->run.err.text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    gx_run_failf(&fn->run, GX_ARG, "%s", text);
    return false;
}

bool gx_fn_check(gx_fn *fn, gx_code code)
{
    if (code != GX_OK) {
        gx_run_fail(&fn->run, &fn->err);
    }
    return code == GX_OK;
}

bool gx_fn_is_free(gx_fn *fn, const char *name, bool replace, char schema[GX_NAME_MAX + 1],
                   char bare[GX_NAME_MAX + 1])
{
    gx_store *store = fn->ctx->store;
    return gx_fn_check(fn, gx_store_resolve(store, name, schema, bare, &fn->err)) &&
           gx_fn_check(fn, gx_store_check_free(store, schema, bare, replace, &fn->err));
}

bool gx_fn_may_use_files(gx_fn *fn)
{
    return fn->ctx->config.number[GX_SET_FILES] != 0 ||
           gx_fn_fail(fn, "files are switched off in this connection");
}

// Results -----------------------------------------------------------------------------------------

void gx_result_value(sqlite3_context *sql, gx_mem *mem, gx_value_buf *value)
{
    size_t bytes;
    void *blob = gx_value_buf_move(mem, value, &bytes);
    sqlite3_result_blob64(sql, blob, bytes, gx_value_release);
}

void gx_fn_result_sink(gx_fn *fn, gx_sink *sink)
{
    if (gx_sink_end(sink) != GX_OK) {
        return;
    }
    if (sink->is_stored) {
        sqlite3_result_text(fn->sql, fn->dest_name, -1, SQLITE_TRANSIENT);
    } else if (sink->is_lent) {
        fn->is_placed = true;
        sqlite3_result_int64(fn->sql, sink->rows * sink->cols);
    } else {
        gx_result_value(fn->sql, fn->ctx->mem, &sink->value);
    }
}

void gx_fn_result_is_json(gx_fn *fn)
{
    if (gx_ok(&fn->run)) {
        sqlite3_result_subtype(fn->sql, 'J');
    }
}

void gx_fn_result_scalar(gx_fn *fn, gx_scalar value, bool is_complex)
{
    if (!gx_ok(&fn->run)) {
        return;
    }
    if (!is_complex) {
        sqlite3_result_double(fn->sql, value.re);
        return;
    }
    gx_value_buf buf;
    if (gx_fn_check(fn, gx_value_buf_create(fn->ctx->mem, GX_DTYPE_C128, 1, 1,
                                            gx_store_length_limit(fn->ctx->store), &buf,
                                            &fn->err))) {
        double pair[2] = {value.re, value.im};
        memcpy(buf.data, pair, sizeof pair);
        gx_result_value(fn->sql, fn->ctx->mem, &buf);
    }
}

// The call ----------------------------------------------------------------------------------------

bool gx_fn_own(gx_fn *fn, void *block)
{
    if (fn->owned_count == fn->owned_capacity) {
        int capacity = 2 * fn->owned_capacity;
        void *grown = fn->owned == fn->owned_first ? NULL : fn->owned;
        if (!gx_fn_check(fn, gx_mem_realloc(fn->ctx->mem, (size_t)capacity * sizeof *fn->owned,
                                            "arguments", &grown, &fn->err))) {
            gx_mem_free(fn->ctx->mem, block);
            return false;
        }
        if (fn->owned == fn->owned_first) {
            memcpy(grown, fn->owned_first, sizeof fn->owned_first);
        }
        fn->owned = grown;
        fn->owned_capacity = capacity;
    }
    fn->owned[fn->owned_count++] = block;
    return true;
}

void *gx_fn_alloc(gx_fn *fn, size_t bytes, const char *what)
{
    void *block;
    bool is_there = gx_fn_check(fn, gx_mem_alloc(fn->ctx->mem, bytes, what, &block, &fn->err));
    return is_there && gx_fn_own(fn, block) ? block : NULL;
}

static void free_owned(gx_fn *fn)
{
    for (int i = 0; i < fn->owned_count; i++) {
        gx_mem_free(fn->ctx->mem, fn->owned[i]);
    }
    if (fn->owned != fn->owned_first) {
        gx_mem_free(fn->ctx->mem, fn->owned);
    }
}

/* A wrong count is told with how the function is called. */
static bool check_count(gx_fn *fn)
{
    int min = fn->def->min_args, max = fn->def->max_args;
    if (fn->argc >= min && (max < 0 || fn->argc <= max)) {
        return true;
    }
    char usage[GX_USAGE_BYTES];
    const char *s = fn->argc == 1 ? "" : "s";
    gx_help_usage(fn->def->name, usage);
    if (max < 0) {
        return gx_fn_fail(fn, "takes %d or more arguments, not %d%s", min, fn->argc, usage);
    }
    if (max == 0) {
        return gx_fn_fail(fn, "takes no arguments, but %d argument%s came", fn->argc, s);
    }
    if (min == max) {
        return gx_fn_fail(fn, "takes %d argument%s, not %d%s", min, min == 1 ? "" : "s", fn->argc,
                          usage);
    }
    return gx_fn_fail(fn, "takes %d to %d arguments, not %d%s", min, max, fn->argc, usage);
}

bool gx_fn_begin(gx_fn *fn, sqlite3_context *sql, gx_ctx *ctx, const gx_function *def, int argc,
                 sqlite3_value **argv)
{
    // Field by field: the error's text need not be cleared.
    fn->sql = sql;
    fn->def = def;
    fn->ctx = ctx;
    fn->argc = argc;
    fn->argv = argv;
    fn->err.code = GX_OK;
    fn->dest = (gx_dest){0};
    fn->dest_at = -1;
    fn->dest_name = NULL;
    fn->owned = fn->owned_first;
    fn->owned_count = 0;
    fn->lent_count = 0;
    fn->use = NULL;
    fn->has_place = fn->is_placed = false;
    fn->has_field = fn->has_sparse = false;
    fn->owned_capacity = sizeof fn->owned_first / sizeof fn->owned_first[0];
    gx_run_begin(&fn->run, ctx, def->name);
    return check_count(fn);
}

gx_code gx_fn_end(gx_fn *fn)
{
    free_owned(fn);
    while (fn->lent_count > 0) {
        gx_lent_give_up(fn->lent[--fn->lent_count]);
    }
    sqlite3_finalize(fn->use);
    return gx_run_end(&fn->run);
}

/*
** The body.  A call that finds its operands, then waits for the write lock, may learn that another
** connection has changed them meanwhile; it is made again with the lock (on schema) taken first.
*/
static void run_body(gx_fn *fn, const char *schema)
{
    gx_store *store = fn->ctx->store;
    gx_err err = {.code = GX_OK};
    fn->is_locked = schema != NULL && gx_store_begin(store, schema, &err) == GX_OK;
    if (err.code == GX_OK && ((fn->def->facts & GX_CHANGES) == 0 || gx_fn_changes(fn, 0))) {
        fn->def->body(fn);
        if (fn->has_place && !fn->is_placed) {
            gx_fn_fail(fn, "the destination must be a name here, not a lent array");
        }
    }
    if (fn->is_locked) {
        gx_store_end(store, gx_ok(&fn->run), &err);
    }
    gx_run_fail(&fn->run, &err);
}

/*
** Within BEGIN, where SQLite waits for the write lock only as long as nothing has been read: the
** schema to lock before the operands are looked at.  What is wrong with the name, the body says.
*/
static bool locks_first(gx_fn *fn, int index, char schema[GX_NAME_MAX + 1])
{
    gx_store *store = fn->ctx->store;
    gx_err err = {.code = GX_OK};
    char name[GX_NAME_MAX + 1];
    if (index < 0 || index >= fn->argc || !gx_store_waits_in_transaction(store) ||
        sqlite3_value_type(fn->argv[index]) != SQLITE_TEXT) {
        return false;
    }
    const char *text = (const char *)sqlite3_value_text(fn->argv[index]);
    return text != NULL && gx_store_resolve(store, text, schema, name, &err) == GX_OK;
}

bool gx_fn_changes(gx_fn *fn, int index)
{
    gx_err failed = {.code = GX_OK};
    char schema[GX_NAME_MAX + 1];
    if (!fn->is_locked && locks_first(fn, index, schema) &&
        gx_store_has_tables(fn->ctx->store, schema)) {
        fn->is_locked = gx_store_begin(fn->ctx->store, schema, &failed) == GX_OK;
    }
    if (failed.code != GX_OK && sqlite3_get_autocommit(sqlite3_context_db_handle(fn->sql))) {
        gx_run_fail(&fn->run, &failed); // SQLite has ended the transaction
    }
    return gx_ok(&fn->run);
}

/*
** All calls of a statement see one state of the database: what this one has pinned stays so while
** SQLite keeps what is tied to an argument, which is until the statement ends where the argument is
** a constant.  Where it is none SQLite lets go at once, and calls in different rows may see
** different states, unless the statement reads a table that keeps them together.
*/
static void keep_pins(gx_fn *fn)
{
    enum { ARGS_MOST = 4 };
    for (int k = 0; k < fn->argc && k < ARGS_MOST; k++) {
        if (sqlite3_value_type(fn->argv[k]) == SQLITE_TEXT) {
            gx_hold *hold = gx_store_keep_pins(fn->ctx->store);
            if (hold == NULL) {
                return;
            }
            sqlite3_set_auxdata(fn->sql, k, hold, gx_hold_drop);
        }
    }
}

static void call(sqlite3_context *sql, int argc, sqlite3_value **argv)
{
    binding *bound = sqlite3_user_data(sql);
    char schema[GX_NAME_MAX + 1];
    bool again = false;
    gx_fn fn;
    if ((bound->def->facts & GX_PURE) == 0 && !gx_is_direct(sql, bound->def->name)) {
        char text[80];
        snprintf(text, sizeof text, "unsafe use of %.60s()", bound->def->name); // SQLite's words
        sqlite3_result_error(sql, text, -1);
        return;
    }
    for (int attempt = 0; attempt == 0 || again; attempt++) {
        if (gx_fn_begin(&fn, sql, bound->ctx, bound->def, argc, argv)) {
            again = again || locks_first(&fn, gx_dest_index(bound->def), schema);
            run_body(&fn, again ? schema : NULL);
        }
        if (gx_ok(&fn.run)) {
            keep_pins(&fn);
        }
        gx_code code = gx_fn_end(&fn);
        again = attempt == 0 && code == GX_BUSY && gx_store_overtaken(bound->ctx->store, schema);
    }
    if (fn.run.err.code != GX_OK) {
        gx_result_error(sql, bound->def->name, &fn.run.err);
    }
}

int gx_register_functions(sqlite3 *db, gx_ctx *ctx, const gx_function *table)
{
    for (const gx_function *def = table; def->name != NULL; def++) {
        binding *bound = sqlite3_malloc64(sizeof *bound);
        if (bound == NULL) {
            return SQLITE_NOMEM;
        }
        *bound = (binding){.ctx = ctx, .def = def};
        bool is_pure = (def->facts & GX_PURE) != 0;
        int flags = SQLITE_UTF8 | SQLITE_RESULT_SUBTYPE |
                    (is_pure ? SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS : SQLITE_DIRECTONLY);
        int rc = sqlite3_create_function_v2(db, def->name, -1, flags, bound, call, NULL, NULL,
                                            sqlite3_free); // frees bound also when it fails
        if (rc != SQLITE_OK) {
            return rc;
        }
    }
    return SQLITE_OK;
}
