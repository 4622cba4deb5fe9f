/*
** Kernels of operations that give colours, labels and numbers: see grid_int.h.
*/
#include "grid_int.h"

#include <string.h>

// Colours -----------------------------------------------------------------------------------------

gx_code gx_grid_tally(const gx_grid_cells *cells, int64_t rows, int64_t cols, int32_t *tally,
                      gx_err *err)
{
    for (int64_t j = 0; j < cols; j++) {
        const uint8_t *bytes = (const uint8_t *)cells->at + j * cells->ld;
        const int32_t *colours = (const int32_t *)cells->at + j * cells->ld;
        for (int64_t i = 0; i < rows; i++) {
            int32_t c = cells->are_bytes ? bytes[i] : colours[i];
            if (c < -GX_COLOUR_MOST || c > GX_COLOUR_MOST) {
                return gx_fail(err, GX_ARG,
                               "there is colour %d: in a grid of more than %d cells colours are "
                               "counted from %d to %d",
                               (int)c, GX_GRID_SMALL, -GX_COLOUR_MOST, GX_COLOUR_MOST);
            }
            tally[c + GX_COLOUR_MOST]++;
        }
    }
    return GX_OK;
}

/* Ascending, by their bytes; spare: room for as many. */
static void sort_colours(int32_t *x, int64_t count, int32_t *spare)
{
    for (int shift = 0; shift < 32; shift += 8) {
        int64_t begin[257] = {0};
        const uint32_t sign = 1u << 31; // so that negative ones come first
        for (int64_t k = 0; k < count; k++) {
            begin[(((uint32_t)x[k] ^ sign) >> shift & 255) + 1]++;
        }
        for (int d = 0; d < 256; d++) {
            begin[d + 1] += begin[d];
        }
        for (int64_t k = 0; k < count; k++) {
            spare[begin[((uint32_t)x[k] ^ sign) >> shift & 255]++] = x[k];
        }
        memcpy(x, spare, (size_t)count * sizeof *x);
    }
}

/* The least and the largest colour, and whether a table of those between has room in p->work. */
static bool has_table(const gx_grid_piece *p, int32_t *low, int32_t *high)
{
    *low = *high = p->g[0];
    for (int64_t k = 1; k < p->rows * p->cols; k++) {
        *low = p->g[k] < *low ? p->g[k] : *low;
        *high = p->g[k] > *high ? p->g[k] : *high;
    }
    return (int64_t)*high - *low < GX_GRID_WORK(p->rows * p->cols);
}

/* One colour after the other, ascending, and the cells of each. */
static void compare_counts(int32_t colour, int64_t count, int64_t best[2], int32_t found[2])
{
    if (count > best[0]) {
        best[0] = count;
        found[0] = colour;
    }
    if (count > 0 && count < best[1]) {
        best[1] = count;
        found[1] = colour;
    }
}

/* The most and the least frequent colour of the grid. */
static void frequent_of(const gx_grid_piece *p, int32_t found[2])
{
    int64_t cells = p->rows * p->cols, best[2] = {0, INT64_MAX};
    int32_t low, high;
    if (has_table(p, &low, &high)) {
        memset(p->work, 0, ((size_t)(high - low) + 1) * sizeof *p->work);
        for (int64_t k = 0; k < cells; k++) {
            p->work[p->g[k] - low]++;
        }
        for (int64_t c = low; c <= high; c++) {
            compare_counts((int32_t)c, p->work[c - low], best, found);
        }
        return;
    }
    memcpy(p->work, p->g, (size_t)cells * sizeof *p->work);
    sort_colours(p->work, cells, p->work + cells);
    for (int64_t k = 0, first = 0; k < cells; k++) {
        if (k + 1 == cells || p->work[k + 1] != p->work[k]) {
            compare_counts(p->work[k], k + 1 - first, best, found);
            first = k + 1;
        }
    }
}

gx_code gx_grid_frequent(gx_grid_piece *p, gx_err *err)
{
    int32_t found[2];
    (void)err;
    frequent_of(p, found);
    p->value = found[p->id == GX_GRID_LEAST_COLOUR];
    return GX_OK;
}

gx_code gx_grid_count(gx_grid_piece *p, gx_err *err)
{
    int64_t count = 0;
    for (int64_t k = 0; k < p->rows * p->cols; k++) {
        count += p->g[k] == p->number[0];
    }
    (void)err;
    p->value = (double)count;
    return GX_OK;
}

/* Cover, or underfill where the grid is of the most frequent colour itself. */
gx_code gx_grid_cover(gx_grid_piece *p, gx_err *err)
{
    int32_t found[2];
    (void)err;
    frequent_of(p, found);
    int32_t most = found[0];
    for (int64_t k = 0; k < p->rows * p->cols; k++) {
        bool is_cover = p->id == GX_GRID_COVER;
        bool is_taken = p->m[k] != 0 && (is_cover || p->g[k] == most);
        p->out[k] = !is_taken ? p->g[k] : is_cover ? most : (int32_t)p->number[0];
    }
    return GX_OK;
}

// Labels ------------------------------------------------------------------------------------------

gx_code gx_grid_labelled(gx_grid_piece *p, gx_err *err)
{
    int32_t found[2] = {0, 0};
    (void)err;
    if (gx_looks_for_background(p->rule)) {
        frequent_of(p, found);
    }
    gx_component_rule rule = gx_component_rule_of(p->rule, found[0]);
    gx_runs runs;
    gx_runs_lay_out(p->rows, p->cols, p->runs, &runs);
    for (int64_t k = 1; k < p->count; k++) {
        int64_t row = p->place[k].row - p->place[0].row;
        runs.top[row / 64] |= (uint64_t)1 << row % 64;
    }
    gx_runs_find(&rule, &p->cells, &runs);
    gx_runs_labels(&runs, p->out, p->ld);
    return GX_OK;
}

/* The place of a colour among count ascending ones, which it is one of. */
static int64_t place_of(const int32_t *colours, int64_t count, int32_t colour)
{
    int64_t low = 0;
    while (count > 1) {
        int64_t half = count / 2;
        low += colours[low + half] <= colour ? half : 0;
        count -= half;
    }
    return low;
}

/*
** work holds the label of each colour, behind the colours where they are too far apart.  Colours
** are counted first: the walk by rows ends when all of them have come.
*/
gx_code gx_grid_partition(gx_grid_piece *p, gx_err *err)
{
    int64_t cells = p->rows * p->cols, colours = 0;
    int32_t found[2] = {GX_NO_COLOUR, 0}, low, high, *label = p->work, to_come = 0, labels = 0;
    (void)err;
    if (p->id == GX_GRID_FGPARTITION) {
        frequent_of(p, found);
    }
    bool is_table = has_table(p, &low, &high);
    if (!is_table) {
        memcpy(p->work, p->g, (size_t)cells * sizeof *p->work);
        sort_colours(p->work, cells, p->work + cells);
        for (int64_t k = 0; k < cells; k++) {
            colours += k == 0 || p->work[k] != p->work[colours - 1];
            p->work[colours - 1] = p->work[k];
        }
        label = p->work + colours;
    }
    memset(label, 0, (size_t)(is_table ? (int64_t)high - low + 1 : colours) * sizeof *label);
#define LABEL(k) label[is_table ? p->g[k] - low : place_of(p->work, colours, p->g[k])]
    for (int64_t k = 0; k < cells; k++) {
        int32_t *at = &LABEL(k);
        if (*at == 0 && p->g[k] != found[0]) {
            *at = -1;
            to_come++;
        }
    }
    for (int64_t k = 0; labels < to_come; k++) {
        int32_t *at = &LABEL(k / p->cols + k % p->cols * p->rows);
        *at = *at < 0 ? ++labels : *at;
    }
    for (int64_t k = 0; k < cells; k++) {
        p->out[k] = LABEL(k);
    }
#undef LABEL
    return GX_OK;
}

gx_code gx_grid_sizes(gx_grid_piece *p, gx_err *err)
{
    int64_t cells = p->rows * p->cols;
    memset(p->work, 0, (size_t)(cells + 1) * sizeof *p->work);
    for (int64_t k = 0; k < cells; k++) {
        if (p->g[k] < 0 || p->g[k] > cells) {
            return gx_fail(err, GX_ARG,
                           "there is label %d in a grid of %lld cells: labels count its objects",
                           (int)p->g[k], (long long)cells);
        }
        p->work[p->g[k]]++;
    }
    for (int64_t k = 0; k < cells; k++) {
        p->out[k] = p->g[k] == 0 ? 0 : p->work[p->g[k]];
    }
    return GX_OK;
}

// Moved and filled --------------------------------------------------------------------------------

/* A cell that is of the colour from is filled, and its neighbours are to be looked at. */
static void fill_cell(gx_grid_piece *p, int64_t i, int64_t j, int32_t from, int64_t *waiting)
{
    int64_t k = i + j * p->rows;
    if (i >= 0 && i < p->rows && j >= 0 && j < p->cols && p->g[k] == from && p->out[k] == from) {
        p->out[k] = (int32_t)p->number[2];
        p->work[(*waiting)++] = (int32_t)k;
    }
}

gx_code gx_grid_flood(gx_grid_piece *p, gx_err *err)
{
    const int64_t OFTEN = 1 << 12;
    int64_t i = p->number[0], j = p->number[1], waiting = 0;
    bool is_eight = p->number[3] == 8;
    (void)err;
    memcpy(p->out, p->g, (size_t)(p->rows * p->cols) * sizeof *p->out);
    if (i < 0 || i >= p->rows || j < 0 || j >= p->cols) {
        return GX_OK;
    }
    int32_t from = p->g[i + j * p->rows];
    if (from == p->number[2]) {
        return GX_OK;
    }
    fill_cell(p, i, j, from, &waiting);
    while (waiting > 0) {
        int64_t k = p->work[--waiting];
        if (k % OFTEN == 0 && !gx_grid_goes_on(p)) {
            break; // the run knows why
        }
        i = k % p->rows;
        j = k / p->rows;
        for (int64_t di = -1; di <= 1; di++) {
            for (int64_t dj = -1; dj <= 1; dj++) {
                if (is_eight || di == 0 || dj == 0) {
                    fill_cell(p, i + di, j + dj, from, &waiting);
                }
            }
        }
    }
    return GX_OK;
}

gx_code gx_grid_shift(gx_grid_piece *p, gx_err *err)
{
    int64_t di = p->number[0], dj = p->number[1];
    (void)err;
    for (int64_t j = 0; j < p->cols; j++) {
        for (int64_t i = 0; i < p->rows; i++) {
            int64_t u = i - di, v = j - dj;
            bool is_inside = u >= 0 && u < p->rows && v >= 0 && v < p->cols;
            p->out[i + j * p->rows] = is_inside ? p->g[u + v * p->rows] : (int32_t)p->number[2];
        }
    }
    return GX_OK;
}

gx_code gx_grid_turn(gx_grid_piece *p, gx_err *err)
{
    int64_t m = p->rows, n = p->cols, degrees = p->id == GX_GRID_TURN ? p->number[0] : 0;
    if (degrees % 180 != 0 && m != n) {
        return gx_fail(err, GX_ARG,
                       "a grid of %lldx%lld has another shape when it is turned by %lld degrees",
                       (long long)m, (long long)n, (long long)degrees);
    }
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            int64_t u = i, v = j;
            if (degrees == 0) {
                u = p->number[0] == 0 ? m - 1 - i : i;
                v = p->number[0] == 0 ? j : n - 1 - j;
            } else if (degrees == 180) {
                u = m - 1 - i;
                v = n - 1 - j;
            } else {
                u = degrees == 90 ? m - 1 - j : j;
                v = degrees == 90 ? i : m - 1 - i;
            }
            p->out[i + j * m] = p->g[u + v * m];
        }
    }
    return GX_OK;
}

// Periods -----------------------------------------------------------------------------------------

/* Are lines a and b, rows or columns, equal? */
static bool is_same_line(const gx_grid_piece *p, int64_t a, int64_t b)
{
    bool is_row = p->id == GX_GRID_ROW_PERIOD;
    int64_t length = is_row ? p->cols : p->rows, step = is_row ? p->rows : 1;
    int64_t apart = is_row ? 1 : p->rows, k = 0;
    while (k < length && p->g[a * apart + k * step] == p->g[b * apart + k * step]) {
        k++;
    }
    return k == length;
}

/*
** The least number p of lines with line k = line k + p for all: what is left of the lines without
** the longest beginning that is also their end (Knuth, Morris and Pratt 1977).
*/
gx_code gx_grid_period(gx_grid_piece *p, gx_err *err)
{
    int64_t lines = p->id == GX_GRID_ROW_PERIOD ? p->rows : p->cols, length = 0;
    int32_t *longest = p->work; // of the first k + 1 lines
    (void)err;
    longest[0] = 0;
    for (int64_t k = 1; k < lines; k++) {
        while (length > 0 && !is_same_line(p, k, length)) {
            length = longest[length - 1];
        }
        length += is_same_line(p, k, length);
        longest[k] = (int32_t)length;
    }
    p->value = (double)(lines - length);
    return GX_OK;
}
