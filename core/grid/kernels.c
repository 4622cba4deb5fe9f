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

typedef struct range {
    int32_t low, high;
} range;

static void range_of_share(const gx_grid_piece *p, gx_grid_window w, void *arg)
{
    range *all = arg;
    int32_t low = INT32_MAX, high = INT32_MIN;
    for (int64_t j = w.left; j < w.right; j++) {
        const int32_t *g = p->g + j * p->rows;
        for (int64_t i = w.top; i < w.bottom; i++) {
            low = g[i] < low ? g[i] : low;
            high = g[i] > high ? g[i] : high;
        }
    }
    GX_GRID_FOLD(&all->low, low, <);
    GX_GRID_FOLD(&all->high, high, >);
}

/* The least and the largest colour. */
static range range_of(const gx_grid_piece *p)
{
    range all = {p->g[0], p->g[0]};
    gx_grid_each(p, GX_GRID_CELLS, range_of_share, &all);
    return all;
}

/* Has a table of the colours between those room in p->work? */
static bool has_table(const gx_grid_piece *p, range r)
{
    return (int64_t)r.high - r.low < GX_GRID_WORK(p->rows * p->cols);
}

/* Four tables in turn, so that a cell need not wait for the one above it to have been counted. */
static void count_share(const gx_grid_piece *p, gx_grid_window w, void *arg)
{
    enum { TABLES = 4, LONGEST = 1024 };
    const range *r = arg;
    const int32_t low = r->low;
    const int64_t size = (int64_t)r->high - low + 1;
    int32_t own[TABLES][LONGEST];
    for (int t = 0; t < TABLES; t++) {
        memset(own[t], 0, (size_t)gx_min(size, LONGEST) * sizeof **own);
    }
    for (int64_t j = w.left; j < w.right; j++) {
        const int32_t *g = p->g + j * p->rows;
        for (int64_t i = w.top; i < w.bottom && size <= LONGEST; i++) {
            own[(size_t)i % TABLES][g[i] - low]++;
        }
        for (int64_t i = w.top, end; i < w.bottom && size > LONGEST; i = end) {
            end = i + 1;
            while (end < w.bottom && g[end] == g[i]) {
                end++;
            }
            __atomic_fetch_add(&p->work[g[i] - (int64_t)low], (int32_t)(end - i), __ATOMIC_RELAXED);
        }
    }
    for (int64_t c = 0; c < size && size <= LONGEST; c++) {
        int32_t count = own[0][c] + own[1][c] + own[2][c] + own[3][c];
        if (count != 0) {
            __atomic_fetch_add(&p->work[c], count, __ATOMIC_RELAXED);
        }
    }
}

/* work[c - low] = the cells of colour c. */
static void count_colours(const gx_grid_piece *p, range r)
{
    memset(p->work, 0, (size_t)((int64_t)r.high - r.low + 1) * sizeof *p->work);
    gx_grid_each(p, GX_GRID_CELLS, count_share, &r);
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
    const range r = range_of(p);
    if (has_table(p, r)) {
        count_colours(p, r);
        for (int64_t c = r.low; c <= r.high; c++) {
            compare_counts((int32_t)c, p->work[c - r.low], best, found);
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
    int32_t found[2] = {0, 0};
    (void)err;
    frequent_of(p, found);
    p->value = found[p->id == GX_GRID_LEAST_COLOUR];
    return GX_OK;
}

static void count_colour(const gx_grid_piece *p, gx_grid_window w, void *arg)
{
    int64_t count = 0;
    for (int64_t j = w.left; j < w.right; j++) {
        const int32_t *g = p->g + j * p->rows, colour = (int32_t)p->number[0];
        for (int64_t i = w.top; i < w.bottom; i++) {
            count += g[i] == colour;
        }
    }
    __atomic_fetch_add((int64_t *)arg, count, __ATOMIC_RELAXED);
}

gx_code gx_grid_count(gx_grid_piece *p, gx_err *err)
{
    int64_t count = 0;
    (void)err;
    gx_grid_each(p, GX_GRID_CELLS, count_colour, &count);
    p->value = (double)count;
    return GX_OK;
}

static void cover_share(const gx_grid_piece *p, gx_grid_window w, void *arg)
{
    const bool is_cover = p->id == GX_GRID_COVER;
    const int32_t most = *(const int32_t *)arg, to = is_cover ? most : (int32_t)p->number[0];
    for (int64_t j = w.left; j < w.right; j++) {
        const int32_t *g = p->g + j * p->rows, *m = p->m + j * p->rows;
        int32_t *out = p->out + j * p->rows;
        for (int64_t i = w.top; i < w.bottom; i++) {
            out[i] = (m[i] != 0) & (is_cover | (g[i] == most)) ? to : g[i];
        }
    }
}

/* Cover, or underfill where the grid is of the most frequent colour itself. */
gx_code gx_grid_cover(gx_grid_piece *p, gx_err *err)
{
    int32_t found[2] = {0, 0};
    (void)err;
    frequent_of(p, found);
    gx_grid_each(p, GX_GRID_CELLS, cover_share, found);
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

/* A number for each colour, in p->work: behind the colours where they are too far apart. */
typedef struct palette {
    bool is_table;
    int32_t low, *colours, *entry;
    int64_t count;
} palette;

static inline int32_t *entry_of(const palette *t, int32_t colour)
{
    return t->entry +
           (t->is_table ? colour - (int64_t)t->low : place_of(t->colours, t->count, colour));
}

/* The first cells of colours, by rows: each the least of the numbers of its cells. */
static void find_firsts(const gx_grid_piece *p, gx_grid_window w, void *arg)
{
    for (int64_t j = w.left; j < w.right; j++) {
        const int32_t *g = p->g + j * p->rows;
        for (int64_t i = w.top; i < w.bottom; i++) {
            int32_t *at = entry_of(arg, g[i]), cell = (int32_t)(i * p->cols + j);
            GX_GRID_FOLD(at, cell, <);
        }
    }
}

static void put_entries(const gx_grid_piece *p, gx_grid_window w, void *arg)
{
    for (int64_t j = w.left; j < w.right; j++) {
        const int32_t *g = p->g + j * p->rows;
        for (int64_t i = w.top; i < w.bottom; i++) {
            p->out[i + j * p->rows] = *entry_of(arg, g[i]);
        }
    }
}

/* Entries of first cells become labels, in their order, which p->out is used for; 0 of left_out. */
static void number_colours(const gx_grid_piece *p, const palette *t, int32_t left_out)
{
    int32_t labels = 0;
    int64_t end = 0;
    for (int64_t c = 0; c < t->count; c++) {
        int32_t colour = t->is_table ? (int32_t)(t->low + c) : t->colours[c];
        t->entry[c] = colour == left_out ? INT32_MAX : t->entry[c];
        end = t->entry[c] == INT32_MAX ? end : gx_max(end, t->entry[c] + (int64_t)1);
    }
    for (int64_t k = 0; k < end; k++) {
        p->out[k] = GX_NO_COLOUR;
    }
    for (int64_t c = 0; c < t->count; c++) {
        if (t->entry[c] != INT32_MAX) {
            p->out[t->entry[c]] = t->is_table ? (int32_t)(t->low + c) : t->colours[c];
        }
        t->entry[c] = 0;
    }
    for (int64_t k = 0; k < end; k++) {
        if (p->out[k] != GX_NO_COLOUR) {
            *entry_of(t, p->out[k]) = ++labels;
        }
    }
}

gx_code gx_grid_partition(gx_grid_piece *p, gx_err *err)
{
    int64_t cells = p->rows * p->cols;
    int32_t found[2] = {GX_NO_COLOUR, 0};
    (void)err;
    if (p->id == GX_GRID_FGPARTITION) {
        frequent_of(p, found);
    }
    const range r = range_of(p);
    palette t = {.is_table = has_table(p, r), .low = r.low, .colours = p->work, .entry = p->work};
    t.count = t.is_table ? (int64_t)r.high - r.low + 1 : 0;
    if (!t.is_table) {
        memcpy(p->work, p->g, (size_t)cells * sizeof *p->work);
        sort_colours(p->work, cells, p->work + cells);
        for (int64_t k = 0; k < cells; k++) {
            t.count += k == 0 || p->work[k] != p->work[t.count - 1];
            p->work[t.count - 1] = p->work[k];
        }
        t.entry = p->work + t.count;
    }
    for (int64_t c = 0; c < t.count; c++) {
        t.entry[c] = INT32_MAX;
    }
    gx_grid_each(p, GX_GRID_CELLS, find_firsts, &t);
    number_colours(p, &t, found[0]);
    gx_grid_each(p, GX_GRID_CELLS, put_entries, &t);
    return GX_OK;
}

gx_code gx_grid_sizes(gx_grid_piece *p, gx_err *err)
{
    int64_t cells = p->rows * p->cols, k = 0;
    range r = range_of(p);
    if (r.low < 0 || r.high > cells) {
        while (p->g[k] >= 0 && p->g[k] <= cells) {
            k++;
        }
        return gx_fail(err, GX_ARG,
                       "there is label %d in a grid of %lld cells: labels count its objects",
                       (int)p->g[k], (long long)cells);
    }
    r.low = 0;
    count_colours(p, r);
    p->work[0] = 0;
    palette t = {.is_table = true, .entry = p->work};
    gx_grid_each(p, GX_GRID_CELLS, put_entries, &t);
    return GX_OK;
}

// Moved and filled --------------------------------------------------------------------------------

/* Cells of columns by (di, dj), the two numbers of arg; colour number[2] where nothing comes. */
static void shift_share(const gx_grid_piece *p, gx_grid_window w, void *arg)
{
    const int64_t *by = arg;
    int64_t first = gx_min(gx_max(w.top, by[0]), w.bottom);
    int64_t end = gx_max(gx_min(w.bottom, p->rows + by[0]), first);
    for (int64_t j = w.left; j < w.right; j++) {
        bool is_there = j - by[1] >= 0 && j - by[1] < p->cols;
        int64_t from = is_there ? first : w.bottom, to = is_there ? end : w.bottom;
        int32_t *out = p->out + j * p->rows;
        for (int64_t i = w.top; i < from; i++) {
            out[i] = (int32_t)p->number[2];
        }
        if (from < to) {
            memcpy(out + from, p->g + (j - by[1]) * p->rows + (from - by[0]),
                   (size_t)(to - from) * sizeof *out);
        }
        for (int64_t i = to; i < w.bottom; i++) {
            out[i] = (int32_t)p->number[2];
        }
    }
}

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
    gx_grid_each(p, GX_GRID_CELLS, shift_share, (int64_t[2]){0, 0});
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
    (void)err;
    gx_grid_each(p, GX_GRID_CELLS, shift_share, (int64_t[2]){p->number[0], p->number[1]});
    return GX_OK;
}

/* By degrees, or backwards: whole columns where they remain columns, else some rows at a time. */
static void turn_share(const gx_grid_piece *p, gx_grid_window w, void *arg)
{
    int64_t m = p->rows, n = p->cols, how = p->number[0];
    bool is_mirror = p->id == GX_GRID_MIRROR;
    (void)arg;
    if (!is_mirror && how != 180) { // square: column j is row j of the grid, or row m - 1 - j
        for (int64_t i = w.top; i < w.bottom; i++) {
            const int32_t *g = p->g + (how == 90 ? i : m - 1 - i) * m;
            for (int64_t j = w.left; j < w.right; j++) {
                p->out[i + j * m] = g[how == 90 ? m - 1 - j : j];
            }
        }
        return;
    }
    for (int64_t j = w.left; j < w.right; j++) {
        const int32_t *g = p->g + (is_mirror && how == 0 ? j : n - 1 - j) * m;
        int32_t *out = p->out + j * m;
        if (is_mirror && how == 1) {
            memcpy(out + w.top, g + w.top, (size_t)(w.bottom - w.top) * sizeof *out);
            continue;
        }
        for (int64_t i = w.top; i < w.bottom; i++) {
            out[i] = g[m - 1 - i];
        }
    }
}

gx_code gx_grid_turn(gx_grid_piece *p, gx_err *err)
{
    int64_t m = p->rows, n = p->cols, degrees = p->id == GX_GRID_TURN ? p->number[0] : 0;
    if (degrees % 180 != 0 && m != n) {
        return gx_fail(err, GX_ARG,
                       "a grid of %lldx%lld has another shape when it is turned by %lld degrees",
                       (long long)m, (long long)n, (long long)degrees);
    }
    gx_grid_each(p, GX_GRID_CELLS, turn_share, NULL);
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
