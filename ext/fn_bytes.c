/*
** Raw elements in BLOBs: gx_from_bytes and gx_to_bytes.
**
** NumPy's a.tobytes() and the vector extensions keep elements as little-endian numbers by rows and
** nothing else.  By rows is by columns of the transpose: both ways are a transposition, which takes
** the bytes where they lie (or copied once where they are not aligned), or puts them where they are
** given to SQLite.  The result's size, which SQLite's length limit bounds, is refused before
** anything is read.
*/
#include "gx_ext.h"
#include "../core/alg/alg.h"

#include <inttypes.h>
#include <string.h>

// gx_from_bytes -----------------------------------------------------------------------------------

/* The elements as a column, aligned; a copy belongs to the call. */
static bool take_elements(gx_fn *fn, gx_dtype dtype, gx_mat *flat)
{
    char shown[GX_SHOWN_BYTES];
    sqlite3_value *value = fn->argv[0];
    if (sqlite3_value_type(value) != SQLITE_BLOB) {
        return gx_fn_fail(fn, "bytes must be a blob, not %s", gx_arg_show(value, shown));
    }
    const void *data = sqlite3_value_blob(value);
    size_t bytes = (size_t)sqlite3_value_bytes(value), size = gx_dtype_bytes(dtype);
    gx_value header;
    gx_err ignored = {0};
    if (data != NULL && gx_value_parse(data, bytes, &header, &ignored) == GX_OK) {
        return gx_fn_fail(fn, "bytes is a matrix value, which needs no conversion");
    }
    if (bytes % size != 0) {
        return gx_fn_fail(fn, "bytes is a blob of %zu bytes, not a multiple of %zu (%s)", bytes,
                          size, gx_dtype_name(dtype));
    }
    int64_t count = (int64_t)(bytes / size);
    if ((uintptr_t)data % gx_dtype_alignment(dtype) != 0) {
        void *copy = gx_fn_alloc(fn, bytes, "bytes");
        if (copy == NULL) {
            return false;
        }
        data = memcpy(copy, data, bytes);
    }
    gx_mat_array(flat, "bytes", dtype, count, 1, data, gx_max(count, 1));
    return true;
}

/* The number of columns, where the third argument is one: a text there is the destination. */
static bool take_cols(gx_fn *fn, int64_t count, int64_t *cols, int *dest_index)
{
    *cols = 1;
    *dest_index = 3;
    if (!gx_fn_has(fn, 2)) {
        return true;
    }
    if (sqlite3_value_type(fn->argv[2]) == SQLITE_TEXT && fn->argc == 3) {
        *dest_index = 2;
        return true;
    }
    if (!gx_fn_int(fn, 2, "cols", cols)) {
        return false;
    }
    if (*cols < 1) {
        return gx_fn_fail(fn, "cols must be positive, not %" PRId64, *cols);
    }
    return count % *cols == 0 ||
           gx_fn_fail(fn, "bytes has %" PRId64 " elements, which make no rows of %" PRId64, count,
                      *cols);
}

/* gx_from_bytes(bytes, dtype[, cols][, destination][, options]) */
static void from_bytes(gx_fn *fn)
{
    gx_dtype dtype;
    gx_mat flat, by_columns;
    int64_t cols;
    int dest_index;
    if (!gx_fn_options(fn, NULL, NULL)) {
        return;
    }
    if (fn->argc < 2) {
        gx_fn_fail(fn, "dtype is missing: %s", gx_dtype_names());
        return;
    }
    if (!gx_fn_dtype(fn, 1, &dtype) || !take_elements(fn, dtype, &flat) ||
        !take_cols(fn, flat.rows, &cols, &dest_index) || !gx_fn_dest(fn, dest_index, &fn->dest)) {
        return;
    }
    int64_t rows = flat.rows / cols;
    gx_sink sink;
    gx_mat_array(&by_columns, "bytes", dtype, cols, rows, flat.data, cols);
    gx_dest dest = gx_dest_like(&fn->dest, &flat);
    gx_sink_begin(&fn->run, &dest, rows, cols, gx_dest_number(&dest, flat.number), 0, 0, 0, &sink);
    if (cols == 1) {
        gx_copy_to_sink(&fn->run, &flat, &sink);
    } else {
        gx_alg_transpose(&fn->run, &by_columns, GX_TRANS, &sink);
    }
    gx_fn_result_sink(fn, &sink);
}

// gx_to_bytes -------------------------------------------------------------------------------------

/* Room for the result, counted while it is filled; NULL: the call has failed. */
static char *result_room(gx_fn *fn, const gx_mat *A, gx_dtype dtype, size_t *bytes)
{
    int64_t limit = gx_store_length_limit(fn->ctx->store);
    if (!gx_dtype_matrix_bytes(A->rows, A->cols, dtype, bytes) || *bytes > (size_t)limit) {
        gx_run_failf(&fn->run, GX_TOOBIG,
                     "%s is %" PRId64 "x%" PRId64 " %s, more bytes than SQLite's length limit of "
                     "%" PRId64 ": take a slice",
                     A->label, A->rows, A->cols, gx_dtype_name(dtype), limit);
        return NULL;
    }
    void *out;
    gx_fn_check(fn, gx_mem_alloc(fn->ctx->mem, *bytes, "bytes", &out, &fn->err));
    return out;
}

/* gx_to_bytes(A[, dtype]) */
static void to_bytes(gx_fn *fn)
{
    gx_mat A;
    gx_sink by_rows;
    size_t bytes;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_matrix(fn, 0, "A", &A)) {
        return;
    }
    gx_dtype dtype = A.dtype;
    if ((gx_fn_has(fn, 1) && !gx_fn_dtype(fn, 1, &dtype)) ||
        !gx_fn_check(fn, gx_dtype_takes(dtype, A.number, A.label, &fn->err))) {
        return;
    }
    char *out = result_room(fn, &A, dtype, &bytes);
    if (out == NULL) {
        return;
    }
    const gx_landing place = {out, A.cols, A.rows, dtype};
    gx_sink_begin_lent(&fn->run, &place, A.number, &by_rows);
    gx_alg_transpose(&fn->run, &A, GX_TRANS, &by_rows);
    gx_sink_end(&by_rows);
    if (gx_ok(&fn->run)) {
        gx_mem_disown(fn->ctx->mem, out);
        sqlite3_result_blob64(fn->sql, out, bytes, gx_value_release);
    } else {
        gx_mem_free(fn->ctx->mem, out);
    }
}

const gx_function gx_functions_bytes[] = {
    {"gx_from_bytes", 2, 5, GX_MADE(3) | GX_DEST_LATE, from_bytes, 0},
    {"gx_to_bytes", 1, 2, 0, to_bytes, 0},
    {.name = NULL},
};
