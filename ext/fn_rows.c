/*
** Matrices that grow, in SQL: gx_append, gx_set_rows, gx_delete_rows (core/mat/rows.h).
*/
#include "gx_ext.h"

#include "../core/mat/rows.h"

typedef struct rows_options {
    int64_t axis;
    bool saturate, round;
} rows_options;

static const gx_option rows_keys[] = {
    {"axis=[0,1]", GX_OPT_INT, offsetof(rows_options, axis), 0},
    {"saturate", GX_OPT_BOOL, offsetof(rows_options, saturate), 0},
    {"round", GX_OPT_BOOL, offsetof(rows_options, round), 0},
    {NULL, GX_OPT_END, 0, 0},
};

static const gx_option delete_keys[] = {
    {"axis=[0,1]", GX_OPT_INT, offsetof(rows_options, axis), 0},
    {NULL, GX_OPT_END, 0, 0},
};

/* The matrix that is changed, by its name, which is the result. */
static bool find(gx_fn *fn, const char **name, gx_meta *meta)
{
    if (!gx_fn_text(fn, 0, "A", name)) {
        return false;
    }
    if ((*name)[0] == '[') {
        return gx_fn_fail(fn, "A is a JSON literal: only a stored matrix can be changed");
    }
    return gx_fn_check(fn, gx_store_find_all(fn->ctx->store, *name, meta, &fn->err)) &&
           (!gx_meta_is_bits(meta) || gx_fn_check(fn, gx_store_refuse_made(meta, &fn->err)));
}

static void result(gx_fn *fn, const char *name, gx_code code)
{
    if (gx_fn_check(fn, code)) {
        sqlite3_result_text(fn->sql, name, -1, SQLITE_TRANSIENT);
    }
}

/* gx_append(A, rows[, options]) */
static void append(gx_fn *fn)
{
    rows_options opt = {.axis = 0};
    const char *name;
    gx_meta meta;
    gx_mat rows;
    if (gx_fn_options(fn, rows_keys, &opt) && find(fn, &name, &meta) &&
        gx_fn_matrix(fn, 1, opt.axis == 0 ? "rows" : "columns", &rows)) {
        rows.is_rounded = opt.round;
        result(fn, name,
               gx_rows_append(&fn->run, &meta, (int)opt.axis, &rows, opt.saturate, &fn->err));
    }
}

/* gx_set_rows(A, index, rows[, options]), gx_delete_rows(A, index[, options]) */
static void change_listed(gx_fn *fn)
{
    bool is_delete = fn->def->variant == 1;
    rows_options opt = {.axis = 0};
    int64_t *at, count;
    const char *name;
    gx_meta meta;
    gx_mat rows;
    if (!gx_fn_options(fn, is_delete ? delete_keys : rows_keys, &opt) || !find(fn, &name, &meta) ||
        !gx_fn_index(fn, 1, opt.axis == 0 ? meta.rows : meta.cols, opt.axis == 0 ? "row" : "column",
                     &at, &count)) {
        return;
    }
    if (is_delete) {
        result(fn, name, gx_rows_delete(&fn->run, &meta, (int)opt.axis, at, count, &fn->err));
    } else if (gx_fn_matrix(fn, 2, opt.axis == 0 ? "rows" : "columns", &rows)) {
        rows.is_rounded = opt.round;
        result(
            fn, name,
            gx_rows_set(&fn->run, &meta, (int)opt.axis, at, count, &rows, opt.saturate, &fn->err));
    }
}

const gx_function gx_functions_rows[] = {
    {"gx_append", 2, 3, GX_CHANGES | GX_SPARSE(1) | GX_EXACT, append, 0},
    {"gx_set_rows", 3, 4, GX_CHANGES | GX_SPARSE(2) | GX_EXACT, change_listed, 0},
    {"gx_delete_rows", 2, 3, GX_CHANGES | GX_EXACT, change_listed, 1},
    {.name = NULL},
};
