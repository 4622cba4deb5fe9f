/*
** Aggregates that make matrices: gx_from_cells(i, j, value[, imag][, options]),
** gx_from_rows(i, row[, options]), and gx_store_cells(name, ...), gx_store_rows(name, ...), which
** store them.  A row is a JSON list, a matrix value or raw elements, which are what the option
** "dtype" says, or what rows of the known length can only be (gx_raw_dtype).  Of rows that are
** numbered, "ids" names the matrix that keeps which index became which row.
**
** Each row of the query is one call of the step function, which must cost little: the state is in
** SQLite's aggregate context, options and name are read at the first row only (the name is compared
** at every row, since a group must have one), and collecting is core's (assembly.h),
** which keeps within the memory limit.  The matrix is built, and stored, in the final
** function, within one run.
**
** SQLite calls the final function also when the statement fails half-way, so that memory is freed.
** After a failure of ours the state says so; for other failures see agg_undo.c.
*/
#include "agg.h"
#include "help.h"

#include "../core/mat/assembly.h"

#include <stdio.h>
#include <string.h>

typedef struct gx_agg gx_agg;

/* What the first row's options say. */
typedef struct agg_options {
    int64_t rows, cols;
    gx_dest dest; /* without the name */
    int duplicates, gaps; /* gx_duplicates, gx_gaps */
    const char *ids;
    bool has_rows, has_cols, sparse, number;
} agg_options;

/* What collects rows, one state a group: agg->collector, NULL before create and after drop. */
typedef struct agg_kind {
    const char *from, *store; /* names of the two functions                                  */
    int max_args;             /* without name and options                                    */
    const gx_option *from_keys, *store_keys; /* into a agg_options                         */
    gx_code (*create)(gx_agg *agg, gx_err *err);
    gx_code (*add)(gx_agg *agg, sqlite3_value **argv, gx_err *err); /* one row of the query  */
    gx_code (*finish)(gx_agg *agg, gx_run *run, const gx_dest *dest, gx_sink *sink);
    void (*drop)(gx_agg *agg); /* nothing where there is no collector                        */
} agg_kind;

/* One aggregate function of one connection: SQLite's user data. */
typedef struct agg_binding {
    gx_ctx *ctx;
    const agg_kind *kind;
    const char *function; /* "gx_store_cells": static         */
    bool is_stored;       /* the first argument is a name     */
} agg_binding;

/* State between the rows of one group; SQLite clears it before the first. */
struct gx_agg {
    const agg_binding *bound; /* NULL before the first row                    */
    bool is_failed;              /* the error has been reported                  */
    int first;                   /* place of i among the arguments               */
    int argc;                    /* arguments, name included, options not        */
    int64_t input_row;           /* rows so far, for messages                    */
    gx_dest dest;                /* without the name                             */
    gx_dtype raw;                /* of a row that is raw bytes                   */
    gx_scatter_spec spec;
    char name[2 * GX_NAME_MAX + 2]; /* destination; "" for a value               */
    char ids[2 * GX_NAME_MAX + 2];  /* of numbered rows; "": not wanted          */
    int64_t ids_id;                 /* of the matrix that was stored there       */
    gx_agg_undo *undo;              /* of the storing ones: belongs to the statement */
    void *collector;                /* of the kind                                  */
};

#define KEY(key, type, field) {key, type, offsetof(agg_options, field), 0}
#define KEY_SET(key, type, field, has)                                                             \
    {key, type, offsetof(agg_options, field), offsetof(agg_options, has)}
#define COMMON_KEYS /* of all of them */                                                           \
    KEY_SET("rows=[0,inf]", GX_OPT_INT, rows, has_rows),                                           \
        KEY_SET("cols=[0,inf]", GX_OPT_INT, cols, has_cols),                                       \
        KEY_SET("dtype", GX_OPT_DTYPE, dest.dtype, dest.has_dtype),                                \
        KEY("saturate", GX_OPT_BOOL, dest.saturate),                                               \
        KEY("duplicates=error|sum|last", GX_OPT_WORD, duplicates),                                 \
        KEY("sparse", GX_OPT_BOOL, sparse)
#define ROW_KEYS                                                                                   \
    COMMON_KEYS, KEY("gaps=error|zero|nan", GX_OPT_WORD, gaps), KEY("number", GX_OPT_BOOL, number)

// Cells -------------------------------------------------------------------------------------------

/* An index of the row: an integer of SQLite, or a real number that is one. */
static gx_code take_index(sqlite3_value *value, const char *label, int64_t *index, gx_err *err)
{
    if (sqlite3_value_type(value) == SQLITE_INTEGER) {
        *index = sqlite3_value_int64(value);
        return GX_OK;
    }
    return gx_arg_int(value, label, index, err);
}

/* The value's numbers; imag NULL or left out is 0. */
static gx_code take_value(const gx_agg *agg, sqlite3_value **argv, int64_t i, int64_t j,
                          gx_scalar *value, gx_err *err)
{
    static const char *const labels[] = {"value", "imag"};
    double part[2] = {0, 0};
    int parts = agg->argc - agg->first - 2;
    for (int p = 0; p < parts; p++) {
        sqlite3_value *from = argv[agg->first + 2 + p];
        int type = sqlite3_value_type(from);
        if (type == SQLITE_FLOAT || type == SQLITE_INTEGER) {
            GX_TRY(gx_arg_real(from, labels[p], &part[p], err));
        } else if (p == 0 || type != SQLITE_NULL) {
            char shown[GX_SHOWN_BYTES];
            return gx_fail(err, GX_ARG, "%s of cell (%lld, %lld) must be a number, not %s",
                           labels[p], (long long)i, (long long)j, gx_arg_show(from, shown));
        }
    }
    *value = (gx_scalar){part[0], part[1]};
    return GX_OK;
}

static gx_code add_cell(gx_agg *agg, sqlite3_value **argv, gx_err *err)
{
    int64_t i, j;
    gx_scalar value;
    GX_TRY(take_index(argv[agg->first], "i", &i, err));
    GX_TRY(take_index(argv[agg->first + 1], "j", &j, err));
    GX_TRY(take_value(agg, argv, i, j, &value, err));
    return gx_scatter_add(agg->collector, i, j, value, err);
}

static gx_code create_scatter(gx_agg *agg, gx_err *err)
{
    gx_scatter *made;
    gx_code rc = gx_scatter_create(agg->bound->ctx, &agg->spec, &made, err);
    agg->collector = made;
    return rc;
}

static gx_code finish_cells(gx_agg *agg, gx_run *run, const gx_dest *dest, gx_sink *sink)
{
    return gx_scatter_finish(agg->collector, run, dest, sink);
}

static void drop_scatter(gx_agg *agg)
{
    gx_scatter_free(agg->collector);
}

// Rows --------------------------------------------------------------------------------------------

static gx_code add_row(gx_agg *agg, sqlite3_value **argv, gx_err *err)
{
    gx_ctx *ctx = agg->bound->ctx;
    int64_t i, count;
    void *data;
    GX_TRY(take_index(argv[agg->first], "i", &i, err));
    char label[40];
    snprintf(label, sizeof label, "row %lld", (long long)i);
    const gx_row_wish wish = {.dtype = agg->raw,
                              .number = agg->spec.dtype,
                              .is_stated = agg->dest.has_dtype,
                              .cols = gx_stack_cols(agg->collector),
                              .how = ": option \"dtype\" says what they are"};
    GX_TRY(gx_arg_row(ctx, argv[agg->first + 1], label, &wish, &count, &data, err));
    gx_code rc = gx_stack_add(agg->collector, i, data, count, err);
    gx_mem_free(ctx->mem, data);
    return rc;
}

static gx_code create_stack(gx_agg *agg, gx_err *err)
{
    gx_stack *made;
    gx_code rc = gx_stack_create(agg->bound->ctx, &agg->spec, &made, err);
    agg->collector = made;
    return rc;
}

/* The list of ids, within the savepoint of the rows: both are stored, or none. */
static gx_code store_ids(gx_agg *agg, gx_run *run, const gx_dest *dest)
{
    const gx_dest to = {.name = agg->ids, .replace = dest->replace};
    const double *ids = NULL;
    int64_t count = 0;
    gx_mat column;
    gx_sink sink;
    gx_err err = {0};
    if (gx_stack_ids(agg->collector, &ids, &count, &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    gx_mat_value(&column, "ids", GX_F64, count, 1, ids, gx_max(count, 1));
    gx_sink_begin(run, &to, count, 1, GX_F64, 0, 0, 0, &sink);
    gx_copy_to_sink(run, &column, &sink);
    agg->ids_id = sink.meta.id;
    return gx_sink_end(&sink);
}

static gx_code finish_rows(gx_agg *agg, gx_run *run, const gx_dest *dest, gx_sink *sink)
{
    gx_code rc = gx_stack_finish(agg->collector, run, dest, sink);
    return rc == GX_OK && agg->ids[0] != '\0' ? store_ids(agg, run, dest) : rc;
}

static void drop_stack(gx_agg *agg)
{
    gx_stack_free(agg->collector);
}

// The first row -----------------------------------------------------------------------------------

/* An imaginary part is a fourth argument of the cells: it makes the matrix complex. */
static bool take_options(gx_agg *agg, gx_fn *fn, const agg_options *opt)
{
    bool has_imag = agg->argc - agg->first > 3;
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
    agg->spec.duplicates = (gx_duplicates)opt->duplicates;
    agg->spec.gaps = (gx_gaps)opt->gaps;
    agg->spec.is_numbered = opt->number; // of rows: their indexes are ids
    return opt->ids == NULL || opt->number ||
           gx_fn_fail(fn, "option \"ids\" is for the list of numbered rows: '{\"number\":true}'");
}

/* A destination, and whether it may be stored at all: better now than after all the rows. */
static bool check_name(const gx_agg *agg, gx_fn *fn, const char *what, const char *name,
                       char copy[2 * GX_NAME_MAX + 2], char place[2 * GX_NAME_MAX + 2])
{
    char schema[GX_NAME_MAX + 1], bare[GX_NAME_MAX + 1];
    if (strlen(name) >= sizeof agg->name) {
        return gx_fn_fail(fn, "%s has %zu bytes, more than %zu", what, strlen(name),
                          sizeof agg->name - 1);
    }
    memcpy(copy, name, strlen(name) + 1);
    if (!gx_fn_is_free(fn, name, agg->dest.replace, schema, bare)) {
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
    bool has_options = fn->argc > behind && gx_arg_begins(fn->argv[fn->argc - 1], '{');
    return !takes_rows || fn->argc <= behind + has_options ||
           (fn->argc == behind + 1 && sqlite3_value_type(fn->argv[behind]) == SQLITE_NULL) ||
           gx_fn_fail(fn, "a row is one argument: json_array(a, b, ...) makes it of several");
}

static bool take_arguments(gx_agg *agg, gx_fn *fn)
{
    const agg_binding *bound = agg->bound;
    agg_options opt = {0};
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
    fn.dest_at = -1;
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

// Steps -------------------------------------------------------------------------------------------

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
    const agg_binding *bound = sqlite3_user_data(sql);
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
    const agg_binding *bound = agg->bound;
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

// The functions -----------------------------------------------------------------------------------

static const gx_option from_cells_keys[] = {COMMON_KEYS, {NULL, GX_OPT_END, 0, 0}};
static const gx_option store_cells_keys[] = {
    COMMON_KEYS, KEY("replace", GX_OPT_BOOL, dest.replace), {NULL, GX_OPT_END, 0, 0}};
static const gx_option from_rows_keys[] = {ROW_KEYS, {NULL, GX_OPT_END, 0, 0}};
static const gx_option store_rows_keys[] = {ROW_KEYS, KEY("ids", GX_OPT_NAME, ids),
                                            KEY("replace", GX_OPT_BOOL, dest.replace),
                                            {NULL, GX_OPT_END, 0, 0}};

static const agg_kind kinds[] = {
    {"gx_from_cells", "gx_store_cells", 4, from_cells_keys, store_cells_keys, create_scatter,
     add_cell, finish_cells, drop_scatter},
    {"gx_from_rows", "gx_store_rows", 2, from_rows_keys, store_rows_keys, create_stack, add_row,
     finish_rows, drop_stack},
};

static int register_one(sqlite3 *db, gx_ctx *ctx, const agg_kind *kind, bool is_stored)
{
    agg_binding *bound = sqlite3_malloc64(sizeof *bound);
    if (bound == NULL) {
        return SQLITE_NOMEM;
    }
    *bound = (agg_binding){.ctx = ctx,
                              .kind = kind,
                              .function = is_stored ? kind->store : kind->from,
                              .is_stored = is_stored};
    int flags =
        SQLITE_UTF8 | (is_stored ? SQLITE_DIRECTONLY : SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS);
    return sqlite3_create_function_v2(db, bound->function, -1, flags, bound, NULL, step, final,
                                      sqlite3_free); // frees bound also when it fails
}

int gx_register_aggregates(sqlite3 *db, gx_ctx *ctx)
{
    int rc = SQLITE_OK;
    for (int k = 0; k < 4 && rc == SQLITE_OK; k++) {
        rc = register_one(db, ctx, &kinds[k / 2], k % 2 == 1);
    }
    return rc;
}
