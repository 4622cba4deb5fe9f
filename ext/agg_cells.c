/*
** gx_from_cells(i, j, value[, imag][, options]) and gx_store_cells(name, i, j, ...): a matrix from
** rows of (i, j, value).
**
** The values go as they come into a gx_scatter (core/scatter.h), which keeps within the memory
** limit; the matrix is built at the end.
*/
#include "agg.h"

#include <string.h>

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
            part[p] = sqlite3_value_double(from);
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
    GX_TRY(gx_agg_index(argv[agg->first], "i", &i, err));
    GX_TRY(gx_agg_index(argv[agg->first + 1], "j", &j, err));
    GX_TRY(take_value(agg, argv, i, j, &value, err));
    return gx_scatter_add(agg->scatter, i, j, value, err);
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
        rc = gx_scatter_create(agg->bound->ctx, &agg->spec, &agg->scatter, &err);
    }
    if (rc == GX_OK) {
        rc = add_cell(agg, argv, &err);
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
        gx_scatter_finish(agg->scatter, &run, &dest, &sink);
        gx_agg_result(sql, agg, &run, &sink);
    }
    gx_scatter_free(agg->scatter);
    agg->scatter = NULL;
}

int gx_register_aggregates(sqlite3 *db, gx_ctx *ctx)
{
    const gx_agg_binding from = {.function = "gx_from_cells", .is_stored = false, .max_args = 4};
    const gx_agg_binding store = {.function = "gx_store_cells", .is_stored = true, .max_args = 4};
    int rc = gx_agg_register(db, ctx, &from, step, final);
    if (rc == SQLITE_OK) {
        rc = gx_agg_register(db, ctx, &store, step, final);
    }
    return rc == SQLITE_OK ? gx_register_row_aggregates(db, ctx) : rc;
}
