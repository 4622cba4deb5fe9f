/*
** gx_from_cells(i, j, value[, imag][, options]) and gx_store_cells(name, i, j, ...): a matrix from
** rows of (i, j, value).
**
** The values go as they come into a gx_scatter (assembly.h), which keeps within the memory
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
    return gx_scatter_add(agg->collector, i, j, value, err);
}

static gx_code create(gx_agg *agg, gx_err *err)
{
    gx_scatter *made;
    gx_code rc = gx_scatter_create(agg->bound->ctx, &agg->spec, &made, err);
    agg->collector = made;
    return rc;
}

static gx_code finish(gx_agg *agg, gx_run *run, const gx_dest *dest, gx_sink *sink)
{
    return gx_scatter_finish(agg->collector, run, dest, sink);
}

static void end(gx_agg *agg)
{
    gx_scatter_free(agg->collector);
}

static const gx_option from_keys[] = {GX_AGG_KEYS, {NULL, GX_OPT_END, 0, 0}};
static const gx_option store_keys[] = {
    GX_AGG_KEYS, GX_AGG_KEY("replace", GX_OPT_BOOL, dest.replace), {NULL, GX_OPT_END, 0, 0}};

static const gx_agg_kind kind = {.from = "gx_from_cells",
                                 .store = "gx_store_cells",
                                 .from_keys = from_keys,
                                 .store_keys = store_keys,
                                 .max_args = 4,
                                 .create = create,
                                 .add = add_cell,
                                 .finish = finish,
                                 .drop = end};

int gx_register_aggregates(sqlite3 *db, gx_ctx *ctx)
{
    int rc = gx_agg_register(db, ctx, &kind);
    return rc == SQLITE_OK ? gx_register_row_aggregates(db, ctx) : rc;
}
