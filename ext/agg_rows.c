/*
** gx_from_rows(i, row[, options]) and gx_store_rows(name, i, row[, options]): a matrix from its
** rows, each a JSON list, a matrix value or raw elements.
**
** The rows go as they come into a gx_stack (core/stack.h), which keeps within the memory limit; the
** matrix is built at the end.
*/
#include "agg.h"

#include "../core/stack.h"

#include <stdio.h>

/* Raw f32 where nobody said so would be read as half as many f64 without meaning. */
static gx_code check_dtype(const gx_agg *agg, sqlite3_value *row, const char *label, gx_err *err)
{
    if (agg->is_dtype_given || sqlite3_value_type(row) != SQLITE_BLOB) {
        return GX_OK;
    }
    const void *blob = sqlite3_value_blob(row);
    size_t bytes = (size_t)sqlite3_value_bytes(row);
    if (gx_value_is(blob, bytes) || !gx_bytes_look_like_f32(blob, bytes)) {
        return GX_OK;
    }
    return gx_fail(err, GX_ARG,
                   "%s looks like %zu f32 numbers, not %zu f64: say which with "
                   "'{\"dtype\":\"f32\"}' or '{\"dtype\":\"f64\"}'",
                   label, bytes / sizeof(float), bytes / sizeof(double));
}

static gx_code add_row(gx_agg *agg, sqlite3_value **argv, gx_err *err)
{
    gx_ctx *ctx = agg->bound->ctx;
    int64_t i, count;
    void *data;
    GX_TRY(gx_agg_index(argv[agg->first], "i", &i, err));
    char label[40];
    snprintf(label, sizeof label, "row %lld", (long long)i);
    if (agg->input_row == 1) {
        GX_TRY(check_dtype(agg, argv[agg->first + 1], label, err));
    }
    GX_TRY(gx_arg_row(ctx, argv[agg->first + 1], label, agg->spec.dtype, &count, &data, err));
    gx_code rc = gx_stack_add(agg->stack, i, data, count, err);
    gx_mem_free(ctx->mem, data);
    return rc;
}

static void step(sqlite3_context *sql, int argc, sqlite3_value **argv)
{
    bool is_first;
    gx_agg *agg = gx_agg_step(sql, argc, argv, &is_first);
    if (agg == NULL) {
        return;
    }
    gx_err err;
    err.code = GX_OK;
    gx_code rc = GX_OK;
    if (is_first) {
        rc = gx_stack_create(agg->bound->ctx, &agg->spec, &agg->stack, &err);
    }
    if (rc == GX_OK) {
        rc = add_row(agg, argv, &err);
    }
    if (rc != GX_OK) {
        gx_agg_fail(sql, agg, &err);
    }
}

static void final(sqlite3_context *sql)
{
    gx_agg *agg = gx_agg_final(sql);
    if (agg == NULL) {
        gx_agg_result_empty(sql);
        return;
    }
    if (!agg->is_failed) {
        gx_run run;
        gx_sink sink;
        const gx_dest dest = {.name = agg->bound->is_stored ? agg->name : NULL,
                              .replace = agg->is_replacing};
        gx_run_begin(&run, agg->bound->ctx, agg->bound->function);
        gx_stack_finish(agg->stack, &run, &dest, &sink);
        gx_agg_result(sql, agg, &run, &sink);
    }
    gx_stack_free(agg->stack);
    agg->stack = NULL;
}

int gx_register_row_aggregates(sqlite3 *db, gx_ctx *ctx)
{
    const gx_agg_binding from = {.function = "gx_from_rows", .is_stored = false, .max_args = 2};
    const gx_agg_binding store = {.function = "gx_store_rows", .is_stored = true, .max_args = 2};
    int rc = gx_agg_register(db, ctx, &from, step, final);
    return rc == SQLITE_OK ? gx_agg_register(db, ctx, &store, step, final) : rc;
}
