/*
** gx_topk(A, k): the k largest elements of each row, or column, as rows of a table.
**
** What a search wants of a matrix of scores.  Through gx_cells and a window function it costs about
** a microsecond an element; here it is one pass and a comparison.
**
** A is read in rectangles of whole tiles, each tile once, and each line (row; with "axis":0 column)
** keeps its k best so far in a heap whose root is the worst of them: an element that is no better
** than the root, which nearly all are not, costs one comparison.  In the end each heap is sorted.
** Order: larger first, of equals the one with the smaller index, NaN last; "smallest" turns the
** signs round.
**
** Memory: the rectangle (64 MiB at most, and a quarter of what is free) and 16 bytes a result.
** Work: one thread; elements + results log k.
*/
#include "look.h"
#include "table_fn.h"

#include <inttypes.h>
#include <math.h>

typedef struct topk_options {
    int64_t axis;
    bool has_axis, is_smallest;
} topk_options;

static const gx_option topk_keys[] = {
    {"axis", GX_OPT_INT, offsetof(topk_options, axis), offsetof(topk_options, has_axis)},
    {"smallest", GX_OPT_BOOL, offsetof(topk_options, is_smallest), 0},
    {NULL, GX_OPT_END, 0, 0},
};

/* The heaps of all lines, one after the other: count entries each. */
typedef struct topk {
    gx_mem *mem;
    int64_t lines, count;
    double *value;             /* the sign turned round where the smallest are wanted */
    int64_t *index;            /* in the line                                        */
    bool is_smallest, is_down; /* lines are columns of A                  */
} topk;

// Heaps -------------------------------------------------------------------------------------------

static bool is_worse(double a, int64_t a_index, double b, int64_t b_index)
{
    if (isnan(a) != isnan(b)) {
        return isnan(a);
    }
    return a < b || (!(a > b) && a_index > b_index);
}

/* Put an element at the root of a heap of `count`, and where it belongs from there. */
static void sift(double *value, int64_t *index, int64_t count, double x, int64_t x_index)
{
    int64_t at = 0;
    for (int64_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count &&
            is_worse(value[child + 1], index[child + 1], value[child], index[child])) {
            child++;
        }
        if (!is_worse(value[child], index[child], x, x_index)) {
            break;
        }
        value[at] = value[child];
        index[at] = index[child];
        at = child;
    }
    value[at] = x;
    index[at] = x_index;
}

/* The best first: the root, the worst, goes to the end, and so on. */
static void sort(double *value, int64_t *index, int64_t count)
{
    for (int64_t last = count - 1; last > 0; last--) {
        double x = value[last];
        int64_t x_index = index[last];
        value[last] = value[0];
        index[last] = index[0];
        sift(value, index, last, x, x_index);
    }
}

/* m lines from line i0 on, columns j0 on: piece is m x n, by columns. */
static void fold(topk *top, const double *piece, int64_t i0, int64_t j0, int64_t m, int64_t n)
{
    int64_t count = top->count;
    for (int64_t j = 0; j < n; j++) {
        const double *column = piece + j * m;
        for (int64_t i = 0; i < m; i++) {
            double x = top->is_smallest ? -column[i] : column[i];
            double *value = top->value + (i0 + i) * count;
            int64_t *index = top->index + (i0 + i) * count;
            if (!(x <= value[0]) && is_worse(value[0], index[0], x, j0 + j)) {
                sift(value, index, count, x, j0 + j);
            }
        }
    }
}

// The pass ----------------------------------------------------------------------------------------

/* Rectangles of whole tiles, as wide as memory allows, then as high. */
static void choose_piece(const gx_fn *fn, const gx_mat *A, int64_t *height, int64_t *width)
{
    const int64_t PIECE_BYTES = (int64_t)64 << 20;
    int64_t bytes = gx_min(PIECE_BYTES, (int64_t)(gx_mem_available(fn->ctx->mem) / 4));
    int64_t room = gx_max(1, bytes / (int64_t)sizeof(double));
    int64_t tile_cols = gx_max(1, gx_min(gx_min(A->tile_cols, A->cols), room));
    int64_t tile_rows = gx_max(1, gx_min(gx_min(A->tile_rows, A->rows), room / tile_cols));
    *width = gx_min(A->cols, room / tile_rows / tile_cols * tile_cols);
    *height = gx_min(A->rows, room / *width / tile_rows * tile_rows);
}

static void pass(gx_fn *fn, const gx_mat *A, gx_reader *reader, topk *top)
{
    int64_t height, width;
    void *piece;
    gx_mat shape = {.dtype = GX_F64};
    gx_err err = {0};
    choose_piece(fn, A, &height, &width);
    if (!gx_look_buffer(fn, &shape, height, width, &piece)) {
        return;
    }
    for (int64_t i = 0; i < A->rows; i += height) {
        for (int64_t j = 0; j < A->cols; j += width) {
            int64_t m = gx_min(height, A->rows - i), n = gx_min(width, A->cols - j);
            if (gx_mat_read(&fn->run, A, reader, i, j, m, n, GX_F64, piece, m, &err) != GX_OK) {
                gx_run_fail(&fn->run, &err);
            }
            gx_run_poll(&fn->run);
            if (!gx_ok(&fn->run)) {
                return;
            }
            fold(top, piece, i, j, m, n);
        }
    }
}

/* Heaps of entries that are worse than any element. */
static bool make_heaps(gx_fn *fn, topk *top)
{
    int64_t entries;
    size_t bytes;
    void *memory;
    gx_err err = {0};
    if (!gx_mul_i64(top->lines, top->count, &entries) ||
        !gx_matrix_bytes(entries, 2, GX_F64, &bytes)) {
        return gx_fn_fail(fn, "%" PRId64 " of each of %" PRId64 " lines are too many", top->count,
                          top->lines);
    }
    if (gx_mem_alloc(fn->ctx->mem, bytes, "results", &memory, &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return false;
    }
    top->mem = fn->ctx->mem;
    top->value = memory;
    top->index = (int64_t *)memory + entries;
    for (int64_t e = 0; e < entries; e++) {
        top->value[e] = (double)NAN;
        top->index[e] = INT64_MAX;
    }
    return true;
}

// The table ---------------------------------------------------------------------------------------

/* Down the columns when that is asked for, or when A is one. */
static bool choose_axis(gx_fn *fn, const topk_options *opt, const gx_mat *A, bool *is_down)
{
    *is_down = opt->has_axis ? opt->axis == 0 : A->cols == 1;
    return !opt->has_axis || opt->axis == 0 || opt->axis == 1 ||
           gx_fn_fail(fn,
                      "axis is %" PRId64 " but must be 0 (down the columns) or 1 (along the rows)",
                      opt->axis);
}

static bool begin(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    topk *top = state;
    topk_options opt = {.axis = 1};
    gx_mat A, T;
    gx_reader *reader;
    int64_t k;
    (void)used;
    if (!gx_fn_options(fn, topk_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_int(fn, 1, "k", &k) || !choose_axis(fn, &opt, &A, &top->is_down)) {
        return false;
    }
    if (k < 0) {
        return gx_fn_fail(fn, "k must not be negative, not %" PRId64, k);
    }
    if (gx_dtype_is_complex(A.dtype)) {
        return gx_fn_fail(fn, "%s is complex (%s): complex numbers have no order", A.label,
                          gx_dtype_name(A.dtype));
    }
    gx_mat_view(&T, &A, top->is_down ? GX_TRANS : GX_NO_TRANS, 0, 0, top->is_down ? A.cols : A.rows,
                top->is_down ? A.rows : A.cols);
    top->is_smallest = opt.is_smallest;
    top->lines = T.rows;
    top->count = gx_min(k, T.cols);
    *rows = 0;
    if (top->lines == 0 || top->count == 0) {
        return true;
    }
    if (!make_heaps(fn, top) || !gx_look_open(fn, &A, &reader)) {
        return false;
    }
    pass(fn, &T, reader, top);
    gx_reader_close(reader);
    for (int64_t line = 0; line < top->lines && gx_ok(&fn->run); line++) {
        sort(top->value + line * top->count, top->index + line * top->count, top->count);
    }
    *rows = top->lines * top->count;
    return gx_ok(&fn->run);
}

enum { COL_I, COL_J, COL_VALUE, COL_RANK, COLUMNS };

static void put_column(void *state, gx_ctx *ctx, int64_t row, int column, sqlite3_context *sql)
{
    const topk *top = state;
    int64_t line = row / top->count;
    (void)ctx;
    if (column == COL_VALUE) {
        sqlite3_result_double(sql, top->is_smallest ? -top->value[row] : top->value[row]);
    } else if (column == COL_RANK) {
        sqlite3_result_int64(sql, row % top->count);
    } else {
        bool is_line = (column == COL_I) != top->is_down;
        sqlite3_result_int64(sql, is_line ? line : top->index[row]);
    }
}

static void clear(void *state)
{
    topk *top = state;
    if (top->mem != NULL) {
        gx_mem_free(top->mem, top->value);
    }
}

static const gx_table_fn topk_table = {
    .def = {"gx_topk", 2, 3, false, NULL},
    .shape = "CREATE TABLE x(i INTEGER, j INTEGER, value REAL, rank INTEGER, a HIDDEN, k HIDDEN, "
             "options HIDDEN)",
    .columns = COLUMNS,
    .state_bytes = sizeof(topk),
    .begin = begin,
    .column = put_column,
    .clear = clear,
};

int gx_register_topk(sqlite3 *db, gx_ctx *ctx)
{
    return gx_register_table_fn(db, ctx, &topk_table);
}
