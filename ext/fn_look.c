/*
** Functions for looking at matrices: facts, elements, pieces, and pieces put together.
**
** Facts (shape, dtype, info) cost the catalog row.  gx_get reads one element.  Slices, rows and
** columns are views of their matrix that are copied to the result, so that only the tiles under
** them are read.  Stacks fill each tile of the result from the operands under it; every operand
** tile is read once where the tiles line up, and memory is one tile.  gx_json, gx_show, gx_heatmap
** have files of their own.
*/
#include "gx_ext.h"

#include "../core/alg/sparse_alg.h"
#include "../core/mat/quantized.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// Facts -------------------------------------------------------------------------------------------

static bool only_matrix(gx_fn *fn, gx_mat *A)
{
    return gx_fn_options(fn, NULL, NULL) && gx_fn_matrix_or_factor(fn, 0, "A", A);
}

/* gx_rows_count, gx_cols_count */
static void count(gx_fn *fn)
{
    gx_mat A;
    if (only_matrix(fn, &A)) {
        sqlite3_result_int64(fn->sql, fn->def->variant == 0 ? A.rows : A.cols);
    }
}

static void shape(gx_fn *fn)
{
    gx_mat A;
    if (only_matrix(fn, &A)) {
        char text[64];
        snprintf(text, sizeof text, "[%" PRId64 ",%" PRId64 "]", A.rows, A.cols);
        sqlite3_result_text(fn->sql, text, -1, SQLITE_TRANSIENT);
        gx_fn_result_is_json(fn);
    }
}

static void dtype(gx_fn *fn)
{
    gx_mat A;
    if (only_matrix(fn, &A)) {
        sqlite3_result_text(fn->sql, gx_dtype_name(A.dtype), -1, SQLITE_STATIC);
    }
}

static void put_stored(gx_text *text, const gx_meta *meta)
{
    int64_t tiles =
        meta->is_sparse ? meta->panels->count : gx_meta_row_tiles(meta) * gx_meta_col_tiles(meta);
    gx_text_printf(text, ",\"tile_rows\":%" PRId64 ",\"tile_cols\":%" PRId64 ",\"tiles\":%" PRId64,
                   meta->tile_rows, meta->tile_cols, tiles);
    gx_text_printf(text, ",\"generation\":%" PRId64, meta->generation);
}

/* The name of the matrix of an id, where it has one. */
typedef struct named {
    int64_t id;
    gx_meta found;
} named;

static bool is_other(void *arg, const gx_meta *meta)
{
    named *n = arg;
    n->found = meta->id == n->id ? *meta : n->found;
    return meta->id != n->id;
}

/* Bits of a code, and what was quantised: null where that is gone, or never was stored there. */
static void put_quantized(gx_fn *fn, gx_text *text, const gx_mat *A)
{
    gx_quantized_of of;
    gx_store *store = fn->ctx->store;
    named n = {.found = {.id = 0}};
    if (!gx_fn_check(fn, gx_quantized_read_of(store, fn->ctx->mem, &A->meta, &of, &fn->err))) {
        return;
    }
    n.id = of.id;
    if (!gx_fn_check(fn, gx_store_list(store, A->meta.schema, NULL, is_other, &n, &fn->err))) {
        return;
    }
    gx_text_printf(text,
                   ",\"format\":\"quantized\",\"bits\":%d,\"of\":", gx_meta_code_bits(&A->meta));
    if (n.found.id == 0) {
        gx_text_puts(text, "null");
    } else {
        gx_text_json(text, n.found.name);
        gx_text_printf(text, ",\"is_current\":%s",
                       n.found.generation == of.generation ? "true" : "false");
    }
}

static void info(gx_fn *fn)
{
    gx_mat A;
    if (!only_matrix(fn, &A)) {
        return;
    }
    bool is_composite = A.kind == GX_MAT_COMPOSITE;
    bool is_stored = A.kind == GX_MAT_STORED || is_composite;
    char properties[GX_PROPERTIES_MAX];
    size_t bytes = 0;
    if (A.is_sparse) {
        bytes = gx_sparse_stored_bytes(&A);
    } else {
        int64_t cols = gx_mat_codes(&A) != NULL ? A.meta.cols : A.cols;
        gx_dtype_matrix_bytes(A.rows, cols, gx_mat_codes(&A) != NULL ? A.meta.dtype : A.dtype,
                              &bytes);
    }
    gx_text text;
    gx_text_begin(&text, &fn->run);
    gx_text_puts(&text, "{");
    if (is_stored) {
        gx_text_puts(&text, "\"name\":");
        gx_text_json(&text, A.meta.name);
        gx_text_puts(&text, ",\"schema\":");
        gx_text_json(&text, A.meta.schema);
        gx_text_puts(&text, ",");
    }
    gx_text_printf(&text, "\"rows\":%" PRId64 ",\"cols\":%" PRId64 ",\"dtype\":\"%s\"", A.rows,
                   A.cols, gx_dtype_name(A.dtype));
    gx_text_printf(&text, ",\"bytes\":%zu,\"properties\":\"%s\"", bytes,
                   gx_properties_text(A.properties, properties));
    if (A.is_sparse) {
        gx_text_printf(&text, ",\"format\":\"sparse\",\"nnz\":%" PRId64, gx_sparse_entries(&A));
    }
    if (gx_mat_codes(&A) != NULL) {
        put_quantized(fn, &text, &A);
        put_stored(&text, &A.meta);
    } else if (is_composite) {
        gx_text_printf(&text, ",\"format\":\"composite\",\"parts\":%" PRId64, A.leaves);
    } else if (is_stored) {
        put_stored(&text, &A.meta);
    }
    gx_text_puts(&text, "}");
    gx_fn_result_text(fn, &text);
    gx_fn_result_is_json(fn);
}

// Elements ----------------------------------------------------------------------------------------

/* index: one of length rows (or columns) of A. */
static bool check_index(gx_fn *fn, const char *label, int64_t index, const gx_mat *A, bool is_row)
{
    int64_t length = is_row ? A->rows : A->cols;
    if (index >= 0 && index < length) {
        return true;
    }
    const char *what = is_row ? "row" : "column";
    if (length == 0) {
        return gx_fn_fail(fn, "%s is %" PRId64 " but %s has no %ss", label, index, A->label, what);
    }
    return gx_fn_fail(fn, "%s is %" PRId64 " but %s has %" PRId64 " %s%s (0 to %" PRId64 ")", label,
                      index, A->label, length, what, length == 1 ? "" : "s", length - 1);
}

static void get(gx_fn *fn)
{
    gx_mat A;
    int64_t i, j;
    gx_reader *reader;
    if (!only_matrix(fn, &A) || !gx_fn_int(fn, 1, "i", &i) || !gx_fn_int(fn, 2, "j", &j) ||
        !check_index(fn, "i", i, &A, true) || !check_index(fn, "j", j, &A, false) ||
        !gx_look_open(fn, &A, &reader)) {
        return;
    }
    double element[2];
    gx_dtype dtype = gx_look_exactly(&A);
    if (!gx_look_read(fn, &A, reader, i, j, 1, 1, element, 1)) {
        gx_reader_close(reader);
        return;
    }
    if (dtype == GX_DTYPE_I64) {
        sqlite3_result_int64(fn->sql, gx_look_whole(dtype, element, 0));
    } else {
        gx_fn_result_scalar(fn, gx_number_get(A.number, element, 0),
                            gx_number_is_complex(A.number));
    }
    gx_reader_close(reader);
}

// Slices ------------------------------------------------------------------------------------------

/* One end of a range: argument index, or the default where it is NULL. */
static bool take_bound(gx_fn *fn, int index, const char *label, const gx_mat *A, bool is_row,
                       int64_t *bound)
{
    int64_t length = is_row ? A->rows : A->cols;
    if (index < fn->argc && !gx_fn_has(fn, index)) {
        return true;
    }
    if (!gx_fn_int(fn, index, label, bound)) {
        return false;
    }
    return (*bound >= 0 && *bound <= length) ||
           gx_fn_fail(fn, "%s is %" PRId64 " but %s has %" PRId64 " %s%s", label, *bound, A->label,
                      length, is_row ? "row" : "column", length == 1 ? "" : "s");
}

static bool is_ordered(gx_fn *fn, const char *first, int64_t begin, const char *second, int64_t end)
{
    return begin <= end ||
           gx_fn_fail(fn, "%s is %" PRId64 " but %s is %" PRId64, first, begin, second, end);
}

/* Copy rows i0 .. i1, columns j0 .. j1 of A to the destination. */
static void copy_slice(gx_fn *fn, gx_mat *A, int64_t i0, int64_t i1, int64_t j0, int64_t j1)
{
    gx_mat view;
    gx_sink sink;
    gx_dest to = gx_dest_like(&fn->dest, A);
    if (A->is_sparse) {
        gx_sparse_slice(&fn->run, A, i0, i1, j0, j1, &to, &sink);
        gx_fn_result_sink(fn, &sink);
        return;
    }
    gx_mat_view(&view, A, GX_NO_TRANS, i0, j0, i1 - i0, j1 - j0);
    gx_sink_begin(&fn->run, &to, view.rows, view.cols, gx_dest_number(&to, A->number), 0, 0, 0,
                  &sink);
    if (gx_ok(&fn->run)) {
        gx_copy_to_sink(&fn->run, &view, &sink);
    }
    gx_fn_result_sink(fn, &sink);
}

static void slice(gx_fn *fn)
{
    gx_mat A;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_matrix(fn, 0, "A", &A)) {
        return;
    }
    int64_t i0 = 0, i1 = A.rows, j0 = 0, j1 = A.cols;
    if (take_bound(fn, 1, "i0", &A, true, &i0) && take_bound(fn, 2, "i1", &A, true, &i1) &&
        take_bound(fn, 3, "j0", &A, false, &j0) && take_bound(fn, 4, "j1", &A, false, &j1) &&
        is_ordered(fn, "i0", i0, "i1", i1) && is_ordered(fn, "j0", j0, "j1", j1)) {
        copy_slice(fn, &A, i0, i1, j0, j1);
    }
}

/* gx_row(A, i[, ...]), gx_col(A, j[, ...]) */
static void line(gx_fn *fn)
{
    bool is_row = fn->def->variant == 0;
    const char *label = is_row ? "i" : "j";
    gx_mat A;
    int64_t k;
    if (gx_fn_options(fn, NULL, NULL) && gx_fn_matrix(fn, 0, "A", &A) &&
        gx_fn_int(fn, 1, label, &k) && check_index(fn, label, k, &A, is_row)) {
        copy_slice(fn, &A, is_row ? k : 0, is_row ? k + 1 : A.rows, is_row ? 0 : k,
                   is_row ? A.cols : k + 1);
    }
}

// Stacks ------------------------------------------------------------------------------------------

/* Matrices side by side (hstack) or one under the other. */
typedef struct stack {
    gx_mat *part;
    int count;
    bool is_horizontal;
    int64_t rows, cols;
    gx_number dtype;
    gx_dtype stored; /* of all parts; else dtype */
} stack;

/* "A", "B", ... "Z", then "argument 27". */
static const char *letter(int index, char text[24])
{
    if (index < 26) {
        snprintf(text, 24, "%c", 'A' + index);
    } else {
        snprintf(text, 24, "argument %d", index + 1);
    }
    return text;
}

static bool add_part(gx_fn *fn, stack *s, int index)
{
    char label[24];
    gx_mat *A = &s->part[index];
    if (!gx_fn_matrix(fn, index, letter(index, label), A)) {
        return false;
    }
    if (index == 0) {
        s->rows = A->rows;
        s->cols = A->cols;
        s->dtype = A->number;
        s->stored = A->dtype;
        return true;
    }
    int64_t have = s->is_horizontal ? s->rows : s->cols;
    int64_t came = s->is_horizontal ? A->rows : A->cols;
    if (have != came) {
        return gx_fn_fail(fn, "A has %" PRId64 " %s but %s has %" PRId64, have,
                          s->is_horizontal ? "rows" : "columns", label, came);
    }
    int64_t *sum = s->is_horizontal ? &s->cols : &s->rows;
    *sum += s->is_horizontal ? A->cols : A->rows; // of at most 2^40, of at most 127 arguments
    s->dtype = gx_number_promote(s->dtype, A->number);
    s->stored = s->stored == A->dtype ? s->stored : gx_dtype_of(s->dtype);
    return true;
}

static bool read_parts(gx_fn *fn, stack *s)
{
    if (fn->argc == 0) {
        return gx_fn_fail(fn, "A is missing");
    }
    s->part = gx_fn_alloc(fn, (size_t)fn->argc * sizeof *s->part, "arguments");
    s->count = s->part == NULL ? 0 : fn->argc;
    for (int k = 0; k < s->count; k++) {
        if (!add_part(fn, s, k)) {
            return false;
        }
    }
    return s->part != NULL;
}

/* Fill the rectangle (i0, j0) m x n of the result from the parts under it. */
static bool fill(gx_fn *fn, const stack *s, gx_reader *reader, int64_t i0, int64_t j0, int64_t m,
                 int64_t n, void *dst)
{
    int64_t begin = 0;
    int64_t from = s->is_horizontal ? j0 : i0, to = from + (s->is_horizontal ? n : m);
    for (int k = 0; k < s->count && begin < to; k++) {
        const gx_mat *A = &s->part[k];
        int64_t length = s->is_horizontal ? A->cols : A->rows;
        int64_t first = gx_max(begin, from), last = gx_min(begin + length, to);
        gx_code code = GX_OK;
        if (first < last && s->is_horizontal) {
            code = gx_mat_read(&fn->run, A, reader, i0, first - begin, m, last - first, s->dtype,
                               gx_at(dst, s->dtype, m, 0, first - from), m, &fn->err);
        } else if (first < last) {
            code = gx_mat_read(&fn->run, A, reader, first - begin, j0, last - first, n, s->dtype,
                               gx_at(dst, s->dtype, m, first - from, 0), m, &fn->err);
        }
        gx_fn_check(fn, code);
        begin += length;
    }
    return gx_ok(&fn->run);
}

static void fill_sink(gx_fn *fn, const stack *s, gx_reader *reader, gx_sink *sink)
{
    const gx_mat like = {.number = s->dtype};
    int64_t height = gx_min(sink->tile_rows, s->rows), width = gx_min(sink->tile_cols, s->cols);
    void *tile;
    if (height == 0 || width == 0 || !gx_look_buffer(fn, &like, height, width, &tile)) {
        return;
    }
    gx_run_progress(&fn->run, (double)s->rows * (double)s->cols);
    for (int64_t j = 0; j < s->cols; j += width) {
        for (int64_t i = 0; i < s->rows; i += height) {
            int64_t m = gx_min(height, s->rows - i), n = gx_min(width, s->cols - j);
            if (!fill(fn, s, reader, i, j, m, n, tile)) {
                return;
            }
            gx_fn_check(fn, gx_sink_write(sink, i, j, m, n, tile, m, &fn->err));
            gx_run_advance(&fn->run, (double)m * (double)n);
            if (gx_run_poll(&fn->run) != GX_OK) {
                return;
            }
        }
    }
}

/* gx_hstack, gx_vstack: the destination is an option. */
static void put_together(gx_fn *fn)
{
    static const gx_option spec[] = {
        {"destination", GX_OPT_NAME, offsetof(gx_dest, name), 0},
        {.type = GX_OPT_END},
    };
    stack s = {.is_horizontal = fn->def->variant == 0};
    gx_sink sink;
    gx_reader *reader = NULL;
    if (!gx_fn_options(fn, spec, &fn->dest) || !read_parts(fn, &s) ||
        !gx_fn_dest(fn, fn->argc, &fn->dest)) {
        return;
    }
    gx_mat like = {.dtype = s.stored};
    fn->dest = gx_dest_like(&fn->dest, &like);
    for (int k = 0; k < s.count && fn->dest.is_verbatim; k++) {
        gx_mat_verbatim(&s.part[k]);
    }
    gx_sink_begin(&fn->run, &fn->dest, s.rows, s.cols, s.dtype, 0, 0, 0, &sink);
    if (gx_ok(&fn->run)) {
        gx_fn_check(fn, gx_reader_own(fn->ctx->store, &reader, &fn->err));
    }
    if (gx_ok(&fn->run)) {
        fill_sink(fn, &s, reader, &sink);
    }
    gx_reader_close(reader);
    gx_fn_result_sink(fn, &sink);
}

const gx_function gx_functions_look[] = {
    {"gx_rows_count", 1, 1, GX_SPARSE(0) | GX_EXACT, count, 0},
    {"gx_cols_count", 1, 1, GX_SPARSE(0) | GX_EXACT, count, 1},
    {"gx_shape", 1, 1, GX_SPARSE(0) | GX_EXACT, shape, 0},
    {"gx_dtype", 1, 1, GX_SPARSE(0) | GX_EXACT, dtype, 0},
    {"gx_info", 1, 1, GX_SPARSE(0) | GX_EXACT, info, 0},
    {"gx_json", 1, 1, GX_EXACT, gx_look_json, 0},
    {"gx_show", 1, 2, GX_SPARSE(0) | GX_EXACT, gx_look_show, 0},
    {"gx_heatmap", 1, 2, 0, gx_look_heatmap, 0},
    {"gx_get", 3, 3, GX_SPARSE(0) | GX_EXACT, get, 0},
    {"gx_slice", 5, 7, GX_MADE(5) | GX_SPARSE(0) | GX_EXACT, slice, 0},
    {"gx_row", 2, 4, GX_MADE(2) | GX_SPARSE(0) | GX_EXACT, line, 0},
    {"gx_col", 2, 4, GX_MADE(2) | GX_SPARSE(0) | GX_EXACT, line, 1},
    {"gx_hstack", 1, -1, GX_DEST_KEYS | GX_EXACT, put_together, 0},
    {"gx_vstack", 1, -1, GX_DEST_KEYS | GX_EXACT, put_together, 1},
    {.name = NULL},
};
