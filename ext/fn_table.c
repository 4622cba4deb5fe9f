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

typedef struct table_options {
    gx_dest dest; /* first: a set_offset of 0 means none */
} table_options;

static const gx_option table_keys[] = {
    GX_DEST_KEYS(table_options, dest),
    {NULL, GX_OPT_END, 0, 0},
};

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
    if ((*columns)[strspn(*columns, " \t\r\n")] == '[') {
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
static bool check_dest(gx_fn *fn, const gx_dest *dest)
{
    char schema[GX_NAME_MAX + 1], bare[GX_NAME_MAX + 1];
    gx_store *store = fn->ctx->store;
    gx_err err = {0};
    return dest->name == NULL ||
           (gx_store_resolve(store, dest->name, schema, bare, &err) == GX_OK &&
            gx_store_check_free(store, schema, bare, dest->replace, &err) == GX_OK) ||
           (gx_run_fail(&fn->run, &err), false);
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
    table_options opt = {.dest = {.is_streamed = true}};
    const char *name, *columns;
    int dest_index;
    gx_stack *stack = NULL;
    gx_sink sink;
    gx_err err = {0};
    if (!gx_fn_options(fn, table_keys, &opt) || !gx_fn_text(fn, 0, "name", &name) ||
        !take_columns(fn, &columns, &dest_index) || !gx_fn_dest(fn, dest_index, &opt.dest)) {
        return;
    }
    if (!check_dest(fn, &opt.dest) || !gx_fn_changes(fn, dest_index)) { // locked before it reads
        return;
    }
    gx_number number = gx_dest_number(&opt.dest, GX_F64);
    if (collect(fn, name, columns, number, &stack, &err) == GX_OK) {
        gx_stack_finish(stack, &fn->run, &opt.dest, &sink);
        gx_fn_result_sink(fn, &sink);
    }
    gx_run_fail(&fn->run, &err);
    gx_stack_free(stack);
}

const gx_function gx_functions_table[] = {
    {"gx_from_table", 1, 4, false, from_table},
    {NULL, 0, 0, false, NULL},
};
