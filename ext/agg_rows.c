/*
** gx_from_rows(i, row[, options]) and gx_store_rows(name, i, row[, options]): a matrix from its
** rows, each a JSON list, a matrix value or raw elements.
**
** The rows go as they come into a gx_stack (row_stack.h), which keeps within the memory limit; the
** matrix is built at the end.
*/
#include "agg.h"

#include "../core/mat/row_stack.h"

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
    gx_code rc = gx_stack_add(agg->collector, i, data, count, err);
    gx_mem_free(ctx->mem, data);
    return rc;
}

static gx_code create(gx_agg *agg, gx_err *err)
{
    gx_stack *made;
    gx_code rc = gx_stack_create(agg->bound->ctx, &agg->spec, &made, err);
    agg->collector = made;
    return rc;
}

static gx_code finish(gx_agg *agg, gx_run *run, const gx_dest *dest, gx_sink *sink)
{
    return gx_stack_finish(agg->collector, run, dest, sink);
}

static void end(gx_agg *agg)
{
    gx_stack_free(agg->collector);
}

static const gx_agg_kind kind = {.from = "gx_from_rows",
                                 .store = "gx_store_rows",
                                 .max_args = 2,
                                 .create = create,
                                 .add = add_row,
                                 .finish = finish,
                                 .drop = end};

int gx_register_row_aggregates(sqlite3 *db, gx_ctx *ctx)
{
    return gx_agg_register(db, ctx, &kind);
}
