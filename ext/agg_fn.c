/*
** Aggregates whose result is a value: what they share.  See agg_fn.h.
**
** The state of a group is in SQLite's aggregate context: a head, and behind it the function's own.
** A call with options is made a gx_fn for its first row, which reads them; without options nothing
** but the function's own work is done, for a million groups of ten rows are common.
**
** SQLite calls the final function also when the statement fails half-way: the state is freed there.
*/
#include "agg_fn.h"
#include "help.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct binding {
    gx_ctx *ctx;
    const gx_agg_fn *fn;
} binding;

typedef struct head {
    const binding *bound;     /* NULL before the first row   */
    bool is_failed;           /* the error has been reported */
    int64_t row;              /* rows so far, for messages   */
    _Alignas(8) char state[]; // as SQLite aligns it
} head;

gx_code gx_agg_real(sqlite3_value *value, const char *label, double *number, bool *is_there,
                    gx_err *err)
{
    int type = sqlite3_value_type(value);
    *is_there = type != SQLITE_NULL;
    if (type == SQLITE_FLOAT || type == SQLITE_INTEGER) {
        *number = sqlite3_value_double(value);
        return isfinite(*number) ? GX_OK : gx_fail(err, GX_ARG, "%s is infinite", label);
    }
    char shown[GX_SHOWN_BYTES];
    return type == SQLITE_NULL ? GX_OK
                               : gx_fail(err, GX_ARG, "%s must be a number, not %s", label,
                                         gx_arg_show(value, shown));
}

static void fail(sqlite3_context *sql, head *group, const gx_err *err)
{
    const binding *bound = sqlite3_user_data(sql);
    gx_err full = {.code = err->code};
    snprintf(full.text, sizeof full.text, "%.440s", err->text);
    if (group != NULL) {
        group->is_failed = true;
        snprintf(full.text, sizeof full.text, "%.440s (input row %lld)", err->text,
                 (long long)group->row);
    }
    gx_text_clean(full.text); // cut within a character, perhaps
    gx_result_error(sql, bound->fn->def.name, &full);
}

/* How many arguments there are without the options is right, or said. */
static gx_code check_count(const gx_agg_fn *fn, int argc, gx_err *err)
{
    int most = fn->def.max_args < 0 ? INT32_MAX : fn->def.max_args - (fn->keys != NULL);
    if (argc >= fn->def.min_args && argc <= most) {
        return GX_OK;
    }
    char usage[GX_USAGE_BYTES];
    gx_help_usage(fn->def.name, usage);
    bool is_few = argc < fn->def.min_args;
    return gx_fail(err, GX_ARG, "takes %s %d arguments before the options, not %d%s",
                   is_few ? "at least" : "at most", is_few ? fn->def.min_args : most, argc, usage);
}

/* With options, which are read as any function's. */
static gx_code start_with_options(const binding *bound, sqlite3_context *sql, head *group, int argc,
                                  sqlite3_value **argv, void *options, gx_err *err)
{
    gx_fn fn;
    if (gx_fn_begin(&fn, sql, bound->ctx, &bound->fn->def, argc, argv) &&
        gx_fn_options(&fn, bound->fn->keys, options) &&
        gx_fn_check(&fn, check_count(bound->fn, fn.argc, &fn.err))) {
        gx_fn_check(&fn, bound->fn->start(bound->ctx, group->state, fn.argc, options, &fn.err));
    }
    gx_code rc = gx_fn_end(&fn);
    if (rc != GX_OK) {
        *err = fn.run.err;
    }
    return rc;
}

static gx_code start(sqlite3_context *sql, head *group, int argc, sqlite3_value **argv, gx_err *err)
{
    const binding *bound = sqlite3_user_data(sql);
    const gx_agg_fn *fn = bound->fn;
    _Alignas(16) char options[GX_AGG_OPTIONS_BYTES];
    memset(options, 0, fn->options_bytes);
    group->bound = bound;
    if (fn->defaults != NULL) {
        fn->defaults(options);
    }
    if (argc > 0 && gx_arg_begins(argv[argc - 1], '{')) {
        return start_with_options(bound, sql, group, argc, argv, options, err);
    }
    GX_TRY(check_count(fn, argc, err));
    return fn->start(bound->ctx, group->state, argc, options, err);
}

static void step(sqlite3_context *sql, int argc, sqlite3_value **argv)
{
    const binding *bound = sqlite3_user_data(sql);
    head *group = sqlite3_aggregate_context(sql, (int)(sizeof *group + bound->fn->state_bytes));
    if (group == NULL) {
        sqlite3_result_error_nomem(sql);
        return;
    }
    if (group->is_failed) {
        return;
    }
    gx_err err;
    err.code = GX_OK;
    group->row++;
    if ((group->bound == NULL && start(sql, group, argc, argv, &err) != GX_OK) ||
        bound->fn->add(bound->ctx, group->state, argv, &err) != GX_OK) {
        fail(sql, group, &err);
    }
}

static void inverse(sqlite3_context *sql, int argc, sqlite3_value **argv)
{
    (void)argc;
    const binding *bound = sqlite3_user_data(sql);
    head *group = sqlite3_aggregate_context(sql, (int)(sizeof *group + bound->fn->state_bytes));
    gx_err err;
    err.code = GX_OK;
    if (group != NULL && group->bound != NULL && !group->is_failed &&
        bound->fn->drop(bound->ctx, group->state, argv, &err) != GX_OK) {
        fail(sql, group, &err);
    }
}

static void value(sqlite3_context *sql)
{
    const binding *bound = sqlite3_user_data(sql);
    head *group = sqlite3_aggregate_context(sql, 0);
    gx_err err;
    err.code = GX_OK;
    bool has_rows = group != NULL && group->bound != NULL;
    if ((group == NULL || !group->is_failed) &&
        bound->fn->finish(bound->ctx, has_rows ? group->state : NULL, sql, &err) != GX_OK) {
        fail(sql, NULL, &err);
    }
}

static void final(sqlite3_context *sql)
{
    const binding *bound = sqlite3_user_data(sql);
    head *group = sqlite3_aggregate_context(sql, 0);
    value(sql);
    if (group != NULL && group->bound != NULL && bound->fn->clear != NULL) {
        bound->fn->clear(bound->ctx, group->state);
    }
}

#define LISTED(name) &gx_agg_##name,
static const gx_agg_fn *const all[] = {GX_AGG_FNS(LISTED) NULL};

int gx_register_agg_fns(sqlite3 *db, gx_ctx *ctx)
{
    for (size_t k = 0; all[k] != NULL; k++) {
        binding *bound = sqlite3_malloc64(sizeof *bound);
        if (bound == NULL) {
            return SQLITE_NOMEM;
        }
        *bound = (binding){.ctx = ctx, .fn = all[k]};
        bool has_window = all[k]->drop != NULL;
        const int flags =
            SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS | SQLITE_RESULT_SUBTYPE;
        int rc = sqlite3_create_window_function(db, all[k]->def.name, -1, flags, bound, step, final,
                                                has_window ? value : NULL,
                                                has_window ? inverse : NULL, sqlite3_free);
        if (rc != SQLITE_OK) {
            return rc; // and bound is freed
        }
    }
    return SQLITE_OK;
}
