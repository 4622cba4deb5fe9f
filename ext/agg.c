/*
** The aggregates that make matrices: what they have in common (agg.h).
**
** Each row of the query is one call of the step function, which must cost little: the state is in
** SQLite's aggregate context, options and name are read at the first row only (the name is compared
** at every row, since a group must have one), and collecting is core's (assembly.h). The matrix is
** built, and stored, in the final function, within one run.
**
** SQLite calls the final function also when the statement fails half-way, so that memory is freed.
** After a failure of ours the state says so; for other failures see agg_undo.c.
*/
#include "agg.h"
#include "help.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// The first row -----------------------------------------------------------------------------------

/* One of three words, into an enum of three. */
static bool take_word(gx_fn *fn, const char *option, const char *word, const char *const words[3],
                      int *out)
{
    for (int w = 0; w < 3; w++) {
        if (strcmp(word, words[w]) == 0) {
            *out = w;
            return true;
        }
    }
    return gx_fn_fail(fn, "option \"%s\" must be \"%s\", \"%s\" or \"%s\", not \"%s\"", option,
                      words[0], words[1], words[2], word);
}

/* Of rows: what may be missing, and whose indexes are ids. */
static bool take_gaps(gx_agg *agg, gx_fn *fn, const gx_agg_options *opt)
{
    int gaps;
    if (!take_word(fn, "gaps", opt->gaps, (const char *[]){"error", "zero", "nan"}, &gaps)) {
        return false;
    }
    agg->spec.gaps = (gx_gaps)gaps;
    agg->spec.is_numbered = opt->number;
    return opt->ids == NULL || opt->number ||
           gx_fn_fail(fn, "option \"ids\" is for the list of numbered rows: '{\"number\":true}'");
}

/* An imaginary part is a fourth argument of the cells: it makes the matrix complex. */
static bool take_options(gx_agg *agg, gx_fn *fn, const gx_agg_options *opt)
{
    bool has_imag = agg->argc - agg->first > 3;
    if ((opt->has_rows && opt->rows < 0) || (opt->has_cols && opt->cols < 0)) {
        return gx_fn_fail(fn, "a shape of %lld rows and %lld columns is negative",
                          (long long)opt->rows, (long long)opt->cols);
    }
    agg->spec.rows = opt->has_rows ? opt->rows : -1;
    agg->spec.cols = opt->has_cols ? opt->cols : -1;
    agg->dest = opt->dest;
    agg->dest.is_streamed = true;
    agg->spec.dtype = gx_dest_number(&agg->dest, has_imag ? GX_C128 : GX_F64);
    agg->raw = agg->dest.has_dtype ? agg->dest.dtype : gx_dtype_of(agg->spec.dtype);
    agg->spec.is_sparse = opt->sparse;
    if (opt->sparse && agg->bound->kind->max_args == 2) {
        return gx_fn_fail(fn, "rows make a dense matrix: gx_sparse of it is a sparse one");
    }
    if (has_imag && !gx_number_is_complex(gx_dtype_number(agg->raw))) {
        return gx_fn_fail(fn, "there are imaginary parts but dtype is %s",
                          gx_dtype_name(agg->raw));
    }
    int duplicates;
    if (!take_word(fn, "duplicates", opt->duplicates, (const char *[]){"error", "sum", "last"},
                   &duplicates)) {
        return false;
    }
    agg->spec.duplicates = (gx_duplicates)duplicates;
    return take_gaps(agg, fn, opt);
}

/* A destination, and whether it may be stored at all: better now than after all the rows. */
static bool check_name(const gx_agg *agg, gx_fn *fn, const char *what, const char *name,
                       char copy[2 * GX_NAME_MAX + 2], char place[2 * GX_NAME_MAX + 2])
{
    gx_err err = {0};
    char schema[GX_NAME_MAX + 1], bare[GX_NAME_MAX + 1];
    gx_store *store = fn->ctx->store;
    if (strlen(name) >= sizeof agg->name) {
        return gx_fn_fail(fn, "%s has %zu bytes, more than %zu", what, strlen(name),
                          sizeof agg->name - 1);
    }
    memcpy(copy, name, strlen(name) + 1);
    if (gx_store_resolve(store, name, schema, bare, &err) != GX_OK ||
        gx_store_check_free(store, schema, bare, agg->dest.replace, &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return false;
    }
    snprintf(place, sizeof agg->name, "%s.%s", schema, bare);
    return true;
}

static bool take_names(gx_agg *agg, gx_fn *fn, const char *ids)
{
    const char *name;
    char place[2][2 * GX_NAME_MAX + 2] = {"", ""};
    if (!gx_fn_text(fn, 0, "name", &name) ||
        !check_name(agg, fn, "name", name, agg->name, place[0]) ||
        (ids != NULL && !check_name(agg, fn, "ids", ids, agg->ids, place[1]))) {
        return false;
    }
    return strcmp(place[0], place[1]) != 0 ||
           gx_fn_fail(fn, "two results cannot both be stored as '%s'", agg->name);
}

/* gx_store_rows('X', i, a, b): a natural way to write a row, but a row is one value. */
static bool check_one_row(const gx_agg *agg, gx_fn *fn)
{
    bool takes_rows = agg->bound->kind->max_args == 2;
    int behind = agg->first + 2;
    const char *text = takes_rows && fn->argc > behind && fn->argc > 0 &&
                               sqlite3_value_type(fn->argv[fn->argc - 1]) == SQLITE_TEXT
                           ? (const char *)sqlite3_value_text(fn->argv[fn->argc - 1])
                           : NULL;
    bool has_options = text != NULL && text[strspn(text, " \t\r\n")] == '{';
    return !takes_rows || fn->argc <= behind + has_options ||
           (fn->argc == behind + 1 && sqlite3_value_type(fn->argv[behind]) == SQLITE_NULL) ||
           gx_fn_fail(fn, "a row is one argument: json_array(a, b, ...) makes it of several");
}

static bool take_arguments(gx_agg *agg, gx_fn *fn)
{
    const gx_agg_binding *bound = agg->bound;
    gx_agg_options opt = {.duplicates = "error", .gaps = "error"};
    if (!check_one_row(agg, fn)) {
        return false;
    }
    if (!gx_fn_options(fn, bound->is_stored ? bound->kind->store_keys : bound->kind->from_keys,
                       &opt)) {
        return false;
    }
    agg->argc = fn->argc;
    int least = agg->first + (bound->kind->max_args > 2 ? 3 : 2),
        most = agg->first + bound->kind->max_args;
    if (fn->argc < least || fn->argc > most) {
        char usage[GX_USAGE_BYTES];
        gx_help_usage(bound->function, usage);
        return least == most
                   ? gx_fn_fail(fn, "takes %d arguments before the options, not %d%s", most,
                                fn->argc, usage)
                   : gx_fn_fail(fn, "takes %d or %d arguments before the options, not %d%s", least,
                                most, fn->argc, usage);
    }
    return take_options(agg, fn, &opt) && (!bound->is_stored || take_names(agg, fn, opt.ids));
}

/* Read what the first row says, in a run of its own. */
static gx_code begin(gx_agg *agg, sqlite3_context *sql, int argc, sqlite3_value **argv, gx_err *err)
{
    agg->bound = sqlite3_user_data(sql);
    agg->first = agg->bound->is_stored ? 1 : 0;
    const gx_function def = {.name = agg->bound->function,
                             .max_args = agg->first + agg->bound->kind->max_args + 1};
    gx_fn fn = {.sql = sql, .def = &def, .ctx = agg->bound->ctx, .argc = argc, .argv = argv};
    fn.owned = fn.owned_first;
    fn.owned_capacity = sizeof fn.owned_first / sizeof fn.owned_first[0];
    gx_run_begin(&fn.run, agg->bound->ctx, agg->bound->function);
    take_arguments(agg, &fn);
    gx_code rc = gx_fn_end(&fn);
    if (rc != GX_OK) {
        *err = fn.run.err;
    }
    return rc;
}

// Rows --------------------------------------------------------------------------------------------

static gx_code same_name(const gx_agg *agg, sqlite3_value *value, gx_err *err)
{
    const unsigned char *name =
        sqlite3_value_type(value) == SQLITE_TEXT ? sqlite3_value_text(value) : NULL;
    if (name == NULL || strcmp((const char *)name, agg->name) != 0) {
        char shown[GX_SHOWN_BYTES];
        return gx_fail(err, GX_ARG, "name was '%s' and is now %s: one group makes one matrix",
                       agg->name, gx_arg_show(value, shown));
    }
    return GX_OK;
}

static void fail(sqlite3_context *sql, gx_agg *agg, const gx_err *err)
{
    gx_err full = {.code = err->code};
    agg->is_failed = true;
    snprintf(full.text, sizeof full.text, "%.440s (input row %lld)", err->text,
             (long long)agg->input_row);
    gx_text_clean(full.text); // cut within a character, perhaps
    gx_result_error(sql, agg->bound->function, &full);
}

/*
** The state of this group, the row counted; at the first row arguments and options are read, the
** destination is looked at, and the collector is made.  NULL: failed, and reported.
*/
static gx_agg *enter(sqlite3_context *sql, int argc, sqlite3_value **argv)
{
    gx_agg *agg = sqlite3_aggregate_context(sql, (int)sizeof *agg);
    if (agg == NULL) {
        sqlite3_result_error_nomem(sql);
        return NULL;
    }
    if (agg->is_failed) {
        return NULL;
    }
    gx_err err = {0};
    agg->input_row++;
    gx_code rc = GX_OK;
    if (agg->bound == NULL) {
        rc = begin(agg, sql, argc, argv, &err);
        if (rc == GX_OK && agg->bound->is_stored) {
            rc = gx_agg_undo_note(sql, agg->bound->ctx, &agg->undo, &err);
        }
        rc = rc == GX_OK ? agg->bound->kind->create(agg, &err) : rc;
    } else if (agg->bound->is_stored) {
        rc = same_name(agg, argv[0], &err);
    }
    if (rc != GX_OK) {
        fail(sql, agg, &err);
        return NULL;
    }
    return agg;
}

gx_code gx_agg_index(sqlite3_value *value, const char *label, int64_t *index, gx_err *err)
{
    if (sqlite3_value_type(value) == SQLITE_INTEGER) {
        *index = sqlite3_value_int64(value);
        return GX_OK;
    }
    return gx_arg_int(value, label, index, err);
}

static void step(sqlite3_context *sql, int argc, sqlite3_value **argv)
{
    gx_agg *agg = enter(sql, argc, argv);
    gx_err err;
    err.code = GX_OK;
    if (agg != NULL && agg->bound->kind->add(agg, argv, &err) != GX_OK) {
        fail(sql, agg, &err);
    }
}

// The end -----------------------------------------------------------------------------------------

/* End the sink and the run, and give SQLite the result or the error. */
static void result(sqlite3_context *sql, gx_agg *agg, gx_run *run, gx_sink *sink)
{
    gx_ctx *ctx = agg->bound->ctx;
    bool is_stored = sink->is_stored;
    if (gx_sink_end(sink) == GX_OK && is_stored) {
        sqlite3_result_text(sql, agg->name, -1, SQLITE_TRANSIENT);
    } else if (gx_ok(run)) {
        gx_result_value(sql, ctx->mem, &sink->value);
    }
    if (gx_run_end(run) != GX_OK) {
        gx_result_error(sql, agg->bound->function, &run->err);
    } else if (is_stored) {
        gx_agg_undo_stored(agg->undo, agg->name, sink->meta.id);
        if (agg->ids[0] != '\0') {
            gx_agg_undo_stored(agg->undo, agg->ids, agg->ids_id);
        }
    }
}

/* Of no row: an empty matrix value, or NULL from the storing ones. */
static void result_empty(sqlite3_context *sql)
{
    const gx_agg_binding *bound = sqlite3_user_data(sql);
    if (bound->is_stored) {
        sqlite3_result_null(sql); // without a row there is not even a name
        return;
    }
    gx_agg agg = {.bound = bound};
    gx_run run;
    gx_sink sink;
    gx_run_begin(&run, bound->ctx, bound->function);
    gx_sink_begin(&run, NULL, 0, 0, GX_F64, 0, 1, 1, &sink);
    result(sql, &agg, &run, &sink);
}

static void final(sqlite3_context *sql)
{
    gx_agg *agg = sqlite3_aggregate_context(sql, 0);
    if (agg == NULL) {
        result_empty(sql);
        return;
    }
    const gx_agg_binding *bound = agg->bound;
    if (bound != NULL && !agg->is_failed) {
        gx_run run;
        gx_sink sink;
        gx_dest dest = agg->dest;
        dest.name = bound->is_stored ? agg->name : NULL;
        gx_run_begin(&run, bound->ctx, bound->function);
        bound->kind->finish(agg, &run, &dest, &sink);
        result(sql, agg, &run, &sink);
    }
    if (bound != NULL) {
        bound->kind->drop(agg);
        agg->collector = NULL;
    }
}

static int register_one(sqlite3 *db, gx_ctx *ctx, const gx_agg_kind *kind, bool is_stored)
{
    gx_agg_binding *bound = sqlite3_malloc64(sizeof *bound);
    if (bound == NULL) {
        return SQLITE_NOMEM;
    }
    *bound = (gx_agg_binding){.ctx = ctx,
                              .kind = kind,
                              .function = is_stored ? kind->store : kind->from,
                              .is_stored = is_stored};
    int flags =
        SQLITE_UTF8 | (is_stored ? SQLITE_DIRECTONLY : SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS);
    return sqlite3_create_function_v2(db, bound->function, -1, flags, bound, NULL, step, final,
                                      sqlite3_free); // frees bound also when it fails
}

int gx_agg_register(sqlite3 *db, gx_ctx *ctx, const gx_agg_kind *kind)
{
    int rc = register_one(db, ctx, kind, false);
    return rc == SQLITE_OK ? register_one(db, ctx, kind, true) : rc;
}
