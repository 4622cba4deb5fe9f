/*
** gx_from_function: a matrix whose rectangles a function of the application gives.
**
** The way in for elements that are in the application's memory, or made by it: nothing but one
** tile is there twice.  The function is asked tile by tile, along a row of tiles before the next
** one, so that who has only rows in their order (a file, a generator) need keep no more than the
** rows of one tile.  Each answer, a matrix value, goes from where SQLite has it into the
** result, through one tile's buffer where it is of another dtype.
*/
#include "gx_ext.h"

#include <inttypes.h>

/* Who is asked. */
typedef struct asked {
    const char *fn;
    sqlite3_stmt *stmt;
    void *tile; /* for answers of another dtype; NULL until one comes */
} asked;

/* The answer about the rectangle `at`, into the sink. */
static bool put_answer(gx_fn *fn, asked *from, gx_sink *sink, const int64_t at[4])
{
    const void *blob;
    size_t bytes;
    gx_value value;
    gx_err err = {0};
    if (!gx_fn_check(fn, gx_store_call_rectangle(fn->ctx->store, from->stmt, from->fn, at, &blob,
                                                 &bytes, &fn->err))) {
        return false;
    }
    if (blob == NULL) {
        return gx_fn_fail(fn, "%s(%" PRId64 ", %" PRId64 ", ...) gave no matrix value", from->fn,
                          at[0], at[1]);
    }
    if (gx_value_parse(blob, bytes, &value, &err) != GX_OK) {
        return gx_fn_fail(fn, "%s(%" PRId64 ", %" PRId64 ", ...) gave %s", from->fn, at[0], at[1],
                          err.text);
    }
    if (value.rows != at[2] || value.cols != at[3]) {
        return gx_fn_fail(fn,
                          "%s(%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ") gave %" PRId64
                          "x%" PRId64,
                          from->fn, at[0], at[1], at[2], at[3], value.rows, value.cols);
    }
    const void *elements = value.data;
    if (!gx_dtype_is(value.dtype, sink->number) || (uintptr_t)elements % sizeof(double) != 0) {
        gx_mat answer;
        const gx_mat like = {.number = sink->number};
        if (from->tile == NULL &&
            !gx_look_buffer(fn, &like, gx_min(sink->tile_rows, sink->rows),
                            gx_min(sink->tile_cols, sink->cols), &from->tile)) {
            return false;
        }
        gx_mat_array(&answer, from->fn, value.dtype, at[2], at[3], elements, at[2]);
        gx_mat_read(&fn->run, &answer, NULL, 0, 0, at[2], at[3], sink->number, from->tile, at[2],
                    &err);
        elements = from->tile;
    }
    if (err.code == GX_OK) {
        gx_sink_write(sink, at[0], at[1], at[2], at[3], elements, at[2], &err);
    }
    gx_run_fail(&fn->run, &err);
    gx_run_advance(&fn->run, (double)at[2] * (double)at[3]);
    return gx_run_poll(&fn->run) == GX_OK;
}

static void ask(gx_fn *fn, asked *from, gx_sink *sink)
{
    int64_t height = gx_max(sink->tile_rows, 1), width = gx_max(sink->tile_cols, 1);
    gx_run_progress(&fn->run, (double)sink->rows * (double)sink->cols);
    for (int64_t i = 0; i < sink->rows; i += height) {
        for (int64_t j = 0; j < sink->cols; j += width) {
            const int64_t at[] = {i, j, gx_min(height, sink->rows - i),
                                  gx_min(width, sink->cols - j)};
            if (!put_answer(fn, from, sink, at)) {
                return;
            }
        }
    }
}

/* gx_from_function(fn, m, n[, destination][, options]) */
static void from_function(gx_fn *fn)
{
    asked from = {0};
    int64_t m, n;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_text(fn, 0, "fn", &from.fn) ||
        !gx_fn_size(fn, 1, "m", &m) || !gx_fn_size(fn, 2, "n", &n) ||
        !gx_fn_check(fn, gx_store_call_open(fn->ctx->store, from.fn, &from.stmt, &fn->err))) {
        return;
    }
    gx_sink sink;
    fn->dest.is_asked_for = true;
    fn->dest.is_streamed = true;
    gx_sink_begin(&fn->run, &fn->dest, m, n, gx_dest_number(&fn->dest, GX_F64), 0, 0, 0, &sink);
    if (gx_ok(&fn->run)) {
        ask(fn, &from, &sink);
    }
    gx_store_call_close(from.stmt);
    gx_fn_result_sink(fn, &sink);
}

const gx_function gx_functions_function[] = {
    {"gx_from_function", 3, 5, GX_MADE(3), from_function, 0},
    {.name = NULL},
};
