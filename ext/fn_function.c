/*
** gx_from_function: a matrix whose rectangles a function of the application gives.
**
** The way in for elements that are in the application's memory, or made by it: nothing but one
** tile is there twice.  The function is asked tile by tile, along a row of tiles before the next
** one, so that who has only rows in their order (a file, a generator) need keep no more than the
** rows of one tile.  Each answer, a matrix value, goes from where SQLite has it into the
** result, through one tile's buffer where it is of another dtype.
*/
#include "look.h"

#include <inttypes.h>

typedef struct function_options {
    gx_dest dest; /* first: a set_offset of 0 means none */
} function_options;

static const gx_option function_keys[] = {
    GX_DEST_KEYS(function_options, dest),
    {NULL, GX_OPT_END, 0, 0},
};

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
    if (gx_store_call_rectangle(fn->ctx->store, from->stmt, from->fn, at, &blob, &bytes, &err) !=
        GX_OK) {
        return gx_run_fail(&fn->run, &err), false;
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
    function_options opt = {0};
    asked from = {0};
    int64_t m, n;
    gx_err err = {0};
    if (!gx_fn_options(fn, function_keys, &opt) || !gx_fn_text(fn, 0, "fn", &from.fn) ||
        !gx_fn_int(fn, 1, "m", &m) || !gx_fn_int(fn, 2, "n", &n) ||
        !gx_fn_dest(fn, 3, &opt.dest)) {
        return;
    }
    if (m < 0 || n < 0) {
        gx_fn_fail(fn, "%s must not be negative, not %" PRId64, m < 0 ? "m" : "n", m < 0 ? m : n);
        return;
    }
    if (gx_store_call_open(fn->ctx->store, from.fn, &from.stmt, &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return;
    }
    gx_sink sink;
    opt.dest.is_asked_for = true;
    opt.dest.is_streamed = true;
    gx_sink_begin(&fn->run, &opt.dest, m, n, gx_dest_number(&opt.dest, GX_F64), 0, 0, 0, &sink);
    if (gx_ok(&fn->run)) {
        ask(fn, &from, &sink);
    }
    gx_store_call_close(from.stmt);
    gx_fn_result_sink(fn, &sink);
}

const gx_function gx_functions_function[] = {
    {"gx_from_function", 3, 5, false, from_function},
    {NULL, 0, 0, false, NULL},
};
