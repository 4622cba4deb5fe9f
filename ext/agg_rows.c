/*
** gx_from_rows(i, row[, options]) and gx_store_rows(name, i, row[, options]): a matrix from its
** rows, each a JSON list, a matrix value or raw elements.
**
** The rows go as they come into a gx_stack (assembly.h), which keeps within the memory limit; the
** matrix is built at the end.  Raw elements are what the option "dtype" says, or what rows of the
** known length can only be (gx_raw_dtype).  Of rows that are numbered, "ids" names the matrix that
** keeps which index became which row.
*/
#include "agg.h"

#include "../core/mat/assembly.h"

#include <stdio.h>

static gx_code add_row(gx_agg *agg, sqlite3_value **argv, gx_err *err)
{
    gx_ctx *ctx = agg->bound->ctx;
    int64_t i, count;
    void *data;
    GX_TRY(gx_agg_index(argv[agg->first], "i", &i, err));
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

static gx_code create(gx_agg *agg, gx_err *err)
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

static gx_code finish(gx_agg *agg, gx_run *run, const gx_dest *dest, gx_sink *sink)
{
    gx_code rc = gx_stack_finish(agg->collector, run, dest, sink);
    return rc == GX_OK && agg->ids[0] != '\0' ? store_ids(agg, run, dest) : rc;
}

static void end(gx_agg *agg)
{
    gx_stack_free(agg->collector);
}

#define ROW_KEYS \
    GX_AGG_KEYS, GX_AGG_KEY("gaps", GX_OPT_TEXT, gaps), \
        GX_AGG_KEY("number", GX_OPT_BOOL, number)

static const gx_option from_keys[] = {ROW_KEYS, {NULL, GX_OPT_END, 0, 0}};
static const gx_option store_keys[] = {ROW_KEYS,
                                       GX_AGG_KEY("ids", GX_OPT_NAME, ids),
                                       GX_AGG_KEY("replace", GX_OPT_BOOL, dest.replace),
                                       {NULL, GX_OPT_END, 0, 0}};

static const gx_agg_kind kind = {.from = "gx_from_rows",
                                 .store = "gx_store_rows",
                                 .from_keys = from_keys,
                                 .store_keys = store_keys,
                                 .max_args = 2,
                                 .create = create,
                                 .add = add_row,
                                 .finish = finish,
                                 .drop = end};

int gx_register_row_aggregates(sqlite3 *db, gx_ctx *ctx)
{
    return gx_agg_register(db, ctx, &kind);
}
