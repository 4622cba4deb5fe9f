/*
** gx_heatmap(A): a picture of |A| made of characters.
**
**     ┌────────────┐
**     │  ░░▓▓▓▓░░  │
**     │  ▓▓░░░░▓▓  │
**     └────────────┘
**     8x8 f64, |a| from 0.0 ' ' to 15.0 '█'
**
** The matrix is laid on a grid of at most height x width cells; a cell is the mean of |a| over its
** rectangle, and its shade is the mean's place between the smallest and the largest of the
** picture.  Where the line has room a cell is two characters wide, so that a small square matrix
** looks square.  A cell with a NaN is '?', an infinite one has the darkest shade, and neither
** counts for the scale.
**
** Each tile is read once, a chunk of columns at a time.  Memory: one chunk and the grid.
*/
#include "gx_ext.h"

#include "../core/base/decimal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Half of a common second-level cache. */
static const int64_t CHUNK_BYTES = (int64_t)512 << 10;

typedef struct options {
    int64_t width, height;
    bool is_ascii;
} options;

/* The grid: cell (gi, gj) covers rows row[gi] .. row[gi + 1], columns alike. */
typedef struct grid {
    int64_t rows, cols; /* cells                                           */
    int64_t *row, *col; /* where each cell begins; rows + 1, cols + 1      */
    double *cell;       /* column-major: sums of |a|, then means           */
    double least, most; /* of the finite means                             */
    bool has_nan;
} grid;

/* From light to dark. */
static const char *const unicode_shades[] = {" ", "░", "▒", "▓", "█"};
static const char *const ascii_shades[] = {" ", ".", ":", "-", "=", "+", "*", "#", "%", "@"};

// The sums ----------------------------------------------------------------------------------------

static double sum_magnitudes(gx_number dtype, const void *data, int64_t count)
{
    double sum = 0;
    switch (dtype) {
    case GX_F64:
        for (int64_t k = 0; k < count; k++) {
            sum += fabs(((const double *)data)[k]);
        }
        break;
    case GX_F32:
        for (int64_t k = 0; k < count; k++) {
            sum += fabs((double)((const float *)data)[k]);
        }
        break;
    default:
        for (int64_t k = 0; k < count; k++) {
            gx_scalar a = gx_number_get(dtype, data, k);
            sum += hypot(a.re, a.im);
        }
    }
    return sum;
}

/* The cell of an index by proportion, and one step where the division cut. */
static int64_t first_cell(const int64_t *begin, int64_t cells, int64_t index)
{
    int64_t low = 0; // begin[low] <= index < begin[low + 1]
    GX_BISECT(low, cells - 1, middle, begin[middle + 1] <= index)
    return low;
}

static void add_chunk(grid *g, gx_number dtype, const void *chunk, int64_t i0, int64_t j0,
                      int64_t m, int64_t n)
{
    int64_t gi0 = first_cell(g->row, g->rows, i0), gj = first_cell(g->col, g->cols, j0);
    for (int64_t j = j0; j < j0 + n; j++) {
        gj += g->col[gj + 1] <= j; // none is empty
        int64_t gi = gi0;
        for (int64_t i = i0; i < i0 + m; gi++) {
            int64_t end = gx_min(i0 + m, g->row[gi + 1]);
            g->cell[gj * g->rows + gi] +=
                sum_magnitudes(dtype, gx_at(chunk, dtype, m, i - i0, j - j0), end - i);
            i = end;
        }
    }
}

/* Tile by tile, so that each is read once; a tile in chunks that stay in cache. */
static void add_matrix(gx_fn *fn, const gx_mat *A, gx_reader *reader, grid *g)
{
    int64_t elements = CHUNK_BYTES / (int64_t)gx_number_bytes(A->number);
    int64_t height = gx_max(1, gx_min(elements, gx_min(A->tile_rows, A->rows)));
    int64_t width = gx_max(1, gx_min(elements / height, gx_min(A->tile_cols, A->cols)));
    void *chunk;
    if (!gx_look_buffer(fn, A, height, width, &chunk)) {
        return;
    }
    gx_run_progress(&fn->run, (double)A->rows * (double)A->cols);
    for (int64_t tj = 0; tj < A->cols; tj += A->tile_cols) {
        for (int64_t ti = 0; ti < A->rows; ti += A->tile_rows) {
            int64_t i_end = gx_min(A->rows, ti + A->tile_rows);
            int64_t j_end = gx_min(A->cols, tj + A->tile_cols);
            for (int64_t j = tj; j < j_end; j += width) {
                for (int64_t i = ti; i < i_end; i += height) {
                    int64_t m = gx_min(height, i_end - i), n = gx_min(width, j_end - j);
                    if (!gx_look_read(fn, A, reader, i, j, m, n, chunk, m)) {
                        return;
                    }
                    add_chunk(g, A->number, chunk, i, j, m, n);
                    gx_run_advance(&fn->run, (double)m * (double)n);
                    gx_run_poll(&fn->run);
                }
            }
        }
    }
}

/* Sums to means; the scale. */
static void finish_cells(grid *g)
{
    g->least = (double)INFINITY;
    g->most = -(double)INFINITY;
    for (int64_t gj = 0; gj < g->cols; gj++) {
        for (int64_t gi = 0; gi < g->rows; gi++) {
            double *cell = &g->cell[gj * g->rows + gi];
            *cell /= (double)(g->row[gi + 1] - g->row[gi]) * (double)(g->col[gj + 1] - g->col[gj]);
            g->has_nan = g->has_nan || isnan(*cell);
            if (isfinite(*cell)) {
                g->least = fmin(g->least, *cell);
                g->most = fmax(g->most, *cell);
            }
        }
    }
}

// The picture -------------------------------------------------------------------------------------

/* Equal steps between least and most; where all are alike, nothing for 0 and the darkest else. */
static const char *shade(const grid *g, double mean, const char *const *shades, int count)
{
    if (isnan(mean)) {
        return "?";
    }
    if (g->most <= g->least || isinf(mean)) {
        return shades[mean == 0 ? 0 : count - 1];
    }
    int step = (int)(mean / (g->most - g->least) * count - g->least / (g->most - g->least) * count);
    return shades[step < 0 ? 0 : step < count ? step : count - 1];
}

static void put_frame(gx_text *text, bool is_ascii, bool is_top, int64_t width)
{
    gx_text_puts(text, is_ascii ? "+" : is_top ? "┌" : "└");
    gx_text_repeat(text, is_ascii ? "-" : "─", width);
    gx_text_puts(text, is_ascii ? "+\n" : is_top ? "┐\n" : "┘\n");
}

static void put_legend(gx_text *text, const gx_mat *A, const grid *g, const char *const *shades,
                       int count)
{
    gx_text_printf(text, "%" PRId64 "x%" PRId64 " %s", A->rows, A->cols, gx_dtype_name(A->dtype));
    if (g->least <= g->most) {
        char least[GX_DECIMAL_MAX], most[GX_DECIMAL_MAX];
        gx_decimal_format_places(g->least, 6, least);
        gx_decimal_format_places(g->most, 6, most);
        gx_text_printf(text, ", |a| from %s '%s' to %s '%s'", least,
                       shade(g, g->least, shades, count), most, shade(g, g->most, shades, count));
    }
    int64_t height = g->rows == 0 ? 1 : gx_ceil_div(A->rows, g->rows);
    int64_t width = g->cols == 0 ? 1 : gx_ceil_div(A->cols, g->cols);
    if (height > 1 || width > 1) {
        gx_text_printf(text, ", means of %" PRId64 "x%" PRId64 " blocks", height, width);
    }
    if (g->has_nan) {
        gx_text_puts(text, ", NaN '?'");
    }
}

static void draw(gx_text *text, const gx_mat *A, const grid *g, const options *opt)
{
    const char *const *shades = opt->is_ascii ? ascii_shades : unicode_shades;
    int count = opt->is_ascii ? sizeof ascii_shades / sizeof ascii_shades[0]
                              : sizeof unicode_shades / sizeof unicode_shades[0];
    const char *side = opt->is_ascii ? "|" : "│";
    int64_t repeat = 2 * g->cols <= opt->width ? 2 : 1;
    put_frame(text, opt->is_ascii, true, repeat * g->cols);
    for (int64_t gi = 0; gi < g->rows && gx_ok(text->run); gi++) {
        gx_text_puts(text, side);
        for (int64_t gj = 0; gj < g->cols; gj++) {
            gx_text_repeat(text, shade(g, g->cell[gj * g->rows + gi], shades, count), repeat);
        }
        gx_text_puts(text, side);
        gx_text_puts(text, "\n");
    }
    put_frame(text, opt->is_ascii, false, repeat * g->cols);
    put_legend(text, A, g, shades, count);
}

// The call ----------------------------------------------------------------------------------------

/* Cell k of `cells` begins at k * length / cells, without passing 64 bits. */
static bool make_axis(gx_fn *fn, int64_t length, int64_t cells, int64_t **begin)
{
    *begin = gx_fn_alloc(fn, (size_t)(cells + 1) * sizeof **begin, "heatmap");
    for (int64_t k = 0; k <= cells && *begin != NULL; k++) {
        (*begin)[k] = cells == 0 ? 0 : length / cells * k + length % cells * k / cells;
    }
    return *begin != NULL;
}

static bool make_grid(gx_fn *fn, const gx_mat *A, const options *opt, grid *g)
{
    *g = (grid){.rows = gx_min(A->rows, opt->height), .cols = gx_min(A->cols, opt->width)};
    if (g->rows == 0 || g->cols == 0) {
        g->rows = g->cols = 0;
    }
    size_t bytes = (size_t)(g->rows * g->cols) * sizeof *g->cell;
    if (!make_axis(fn, A->rows, g->rows, &g->row) || !make_axis(fn, A->cols, g->cols, &g->col)) {
        return false;
    }
    g->cell = gx_fn_alloc(fn, bytes, "heatmap");
    if (g->cell != NULL) {
        memset(g->cell, 0, bytes);
    }
    return g->cell != NULL;
}

void gx_look_heatmap(gx_fn *fn)
{
    static const gx_option spec[] = {
        {"width=[1,4096]", GX_OPT_INT, offsetof(options, width), 0},
        {"height=[1,4096]", GX_OPT_INT, offsetof(options, height), 0},
        {"ascii", GX_OPT_BOOL, offsetof(options, is_ascii), 0},
        {.type = GX_OPT_END},
    };
    options opt = {.width = 64, .height = 32};
    gx_mat A;
    grid g;
    gx_reader *reader;
    if (!gx_fn_options(fn, spec, &opt) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !make_grid(fn, &A, &opt, &g) || !gx_look_open(fn, &A, &reader)) {
        return;
    }
    if (g.rows > 0) {
        add_matrix(fn, &A, reader, &g);
    }
    gx_reader_close(reader);
    finish_cells(&g);
    gx_text text;
    gx_text_begin(&text, &fn->run);
    draw(&text, &A, &g, &opt);
    gx_fn_result_text(fn, &text);
}
