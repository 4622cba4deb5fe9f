/*
** gx_from_table: a matrix of a table's or view's columns, read by its name.
**
** A function of SQLite takes 127 arguments, a table has up to 2000 columns (or more, where the
** library was built so); so the rows do not come as arguments here, but by a statement of the
** store's (store_table.c).  They go into a gx_stack as those of gx_store_rows do, within the memory
** limit.
*/
#include "../core/mat/assembly.h"
#include "gx_ext.h"

#include <string.h>

/* The list of columns, where the second argument is one: another text there is the destination. */
static bool take_columns(gx_fn *fn, const char **columns, int *dest_index)
{
    *columns = NULL;
    *dest_index = 2;
    if (!gx_fn_has(fn, 1)) {
        return true;
    }
    if (!gx_fn_text(fn, 1, "columns", columns)) {
        return false;
    }
    if (gx_arg_begins(fn->argv[1], '[')) {
        return true;
    }
    if (fn->argc > 2) {
        char shown[GX_SHOWN_BYTES];
        return gx_fn_fail(fn, "columns must be a JSON list of names, '[\"a\",\"b\"]', not '%s'",
                          gx_text_show(*columns, strlen(*columns), shown));
    }
    *columns = NULL;
    *dest_index = 1;
    return true;
}

/* Whether the result may be stored at all: better now than after all the rows. */
static bool check_dest(gx_fn *fn)
{
    char schema[GX_NAME_MAX + 1], bare[GX_NAME_MAX + 1];
    gx_store *store = fn->ctx->store;
    const gx_dest *dest = &fn->dest;
    return dest->name == NULL ||
           (gx_fn_check(fn, gx_store_resolve(store, dest->name, schema, bare, &fn->err)) &&
            gx_fn_check(fn, gx_store_check_free(store, schema, bare, dest->replace, &fn->err)));
}

/* All rows, each through `row`: the numbers, then the elements. */
static gx_code add_rows(gx_table *table, gx_stack *stack, int64_t cols, gx_number dtype,
                        double *row, gx_err *err)
{
    void *elements = row + cols;
    bool is_row;
    for (int64_t i = 0;; i++) {
        GX_TRY(gx_table_next(table, row, &is_row, err));
        if (!is_row) {
            return GX_OK;
        }
        gx_convert(GX_F64, row, cols, dtype, elements, cols, cols, 1);
        GX_TRY(gx_stack_add(stack, i, elements, cols, err));
    }
}

static gx_code collect(gx_fn *fn, const char *name, const char *columns, gx_number dtype,
                       gx_stack **stack, gx_err *err)
{
    gx_scatter_spec spec = {.rows = -1, .dtype = dtype};
    gx_mem *mem = fn->ctx->mem;
    gx_table *table;
    void *row = NULL;
    GX_TRY(gx_table_open(fn->ctx->store, name, columns, &table, &spec.cols, err));
    gx_code code = gx_mem_alloc(mem, (size_t)spec.cols * (sizeof(double) + gx_number_bytes(dtype)),
                                "a row", &row, err);
    if (code == GX_OK) {
        code = gx_stack_create(fn->ctx, &spec, stack, err);
    }
    if (code == GX_OK) {
        code = add_rows(table, *stack, spec.cols, dtype, row, err);
    }
    gx_mem_free(mem, row);
    gx_table_close(table);
    return code;
}

/* gx_from_table(name[, columns][, destination][, options]) */
static void from_table(gx_fn *fn)
{
    const char *name, *columns;
    int dest_index;
    gx_stack *stack = NULL;
    gx_sink sink;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_text(fn, 0, "name", &name) ||
        !take_columns(fn, &columns, &dest_index) || !gx_fn_dest(fn, dest_index, &fn->dest) ||
        !check_dest(fn) || !gx_fn_changes(fn, dest_index)) { // locked before it reads
        return;
    }
    gx_number number = gx_dest_number(&fn->dest, GX_F64);
    fn->dest.is_streamed = true;
    if (gx_fn_check(fn, collect(fn, name, columns, number, &stack, &fn->err))) {
        gx_stack_finish(stack, &fn->run, &fn->dest, &sink);
        gx_fn_result_sink(fn, &sink);
    }
    gx_stack_free(stack);
}

const gx_function gx_functions_table[] = {
    {"gx_from_table", 1, 4, GX_MADE(2) | GX_DEST_LATE, from_table, 0},
    {.name = NULL},
};
