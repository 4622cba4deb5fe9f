/*
** gx_set: one cell of a stored matrix.
**
** Writes the bytes of the element in place (incremental blob I/O), under a savepoint, and
** gives the matrix a new generation without properties.  For many cells the named tables of
** gx_cells are the way: they write tile by tile (cells_write.c).
*/
#include "cells.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

static gx_code write_element(gx_store *store, gx_meta *meta, int64_t i, int64_t j, gx_scalar x,
                             gx_err *err)
{
    _Alignas(16) char bytes[16];
    const gx_narrowing to = {.dtype = meta->dtype, .i0 = i, .j0 = j};
    size_t count = gx_dtype_bytes(meta->dtype);
    GX_TRY(gx_narrow_to(GX_C128, &x, 1, &to, bytes, 1, 1, 1, err));
    int64_t ti = i / meta->tile_rows, tj = j / meta->tile_cols;
    int64_t at =
        (j - tj * meta->tile_cols) * gx_meta_tile_height(meta, ti) + i - ti * meta->tile_rows;
    GX_TRY(gx_store_begin(store, meta->schema, err));
    gx_code rc = gx_store_patch_tile(store, meta, tj * gx_meta_row_tiles(meta) + ti,
                                     (size_t)at * count, count, bytes, err);
    if (rc == GX_OK) {
        rc = gx_store_touch(store, meta, 0, err);
    }
    gx_code ended = gx_store_end(store, rc == GX_OK, err);
    return rc == GX_OK ? ended : rc;
}

/* gx_set(A, i, j, value) */
static void set(gx_fn *fn)
{
    const char *name;
    int64_t i, j;
    gx_scalar x;
    gx_meta meta;
    gx_err err = {0};
    gx_store *store = fn->ctx->store;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_text(fn, 0, "A", &name) ||
        !gx_fn_int(fn, 1, "i", &i) || !gx_fn_int(fn, 2, "j", &j) ||
        !gx_fn_scalar(fn, 3, "value", &x)) {
        return;
    }
    if (name[0] == '[') {
        gx_fn_fail(fn, "A is a JSON literal: only a stored matrix can be written");
        return;
    }
    if (!gx_fn_changes(fn, 0)) {
        return;
    }
    if (gx_store_find(store, name, &meta, &err) != GX_OK ||
        gx_cells_check_index("i", i, meta.rows, &err) != GX_OK ||
        gx_cells_check_index("j", j, meta.cols, &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return;
    }
    if (x.im != 0 && !gx_number_is_complex(gx_meta_number(&meta))) {
        gx_fn_fail(fn, "value is complex, but %s is real (%s)", meta.name,
                   gx_dtype_name(meta.dtype));
        return;
    }
    if (write_element(store, &meta, i, j, x, &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return;
    }
    sqlite3_result_text(fn->sql, name, -1, SQLITE_TRANSIENT);
}

const gx_function gx_functions_cells[] = {
    {"gx_set", 4, 4, false, set},
    {NULL, 0, 0, false, NULL},
};
