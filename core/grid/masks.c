/*
** Kernels of operations on masks: see grid_int.h.
*/
#include "grid_int.h"

#include <math.h>
#include <string.h>

// Boxes -------------------------------------------------------------------------------------------

static void window_of_share(const gx_grid_piece *p, gx_grid_window w, void *arg)
{
    const int32_t *m = p->m;
    gx_grid_window *all = arg, own = {p->rows, 0, p->cols, 0};
    for (int64_t j = w.left; j < w.right; j++) {
        int64_t i = w.top, end = w.bottom;
        while (i < end && m[i + j * p->rows] == 0) {
            i++;
        }
        while (end > i && m[end - 1 + j * p->rows] == 0) {
            end--;
        }
        if (i < end) {
            own.top = gx_min(own.top, i);
            own.bottom = gx_max(own.bottom, end);
            own.left = gx_min(own.left, j);
            own.right = j + 1;
        }
    }
    GX_GRID_FOLD(&all->top, own.top, <);
    GX_GRID_FOLD(&all->bottom, own.bottom, >);
    GX_GRID_FOLD(&all->left, own.left, <);
    GX_GRID_FOLD(&all->right, own.right, >);
}

/* The box of a mask of p's shape; empty where that is. */
static gx_grid_window window_of(const gx_grid_piece *p, const int32_t *mask)
{
    gx_grid_window w = {p->rows, 0, p->cols, 0};
    gx_grid_piece of = *p;
    of.m = mask;
    gx_grid_each(&of, GX_GRID_CELLS, window_of_share, &w);
    return w;
}

static bool is_empty(gx_grid_window w)
{
    return w.top >= w.bottom || w.left >= w.right;
}

/* What the operation draws of a box, and 0 around it. */
static void draw_box(const gx_grid_piece *p, gx_grid_window w, void *arg)
{
    const gx_grid_window *box = arg;
    const bool is_full = p->id == GX_GRID_BACKDROP || p->id == GX_GRID_DELTA;
    const bool is_corners = p->id == GX_GRID_CORNERS, is_delta = p->id == GX_GRID_DELTA;
    int64_t top = gx_max(w.top, box->top), bottom = gx_min(w.bottom, box->bottom);
    for (int64_t j = w.left; j < w.right; j++) {
        const int32_t *g = p->g + j * p->rows;
        int32_t *out = p->out + j * p->rows;
        const int64_t ends[2] = {box->top, box->bottom - 1};
        bool is_end = j == box->left || j == box->right - 1;
        memset(out + w.top, 0, (size_t)(w.bottom - w.top) * sizeof *out);
        if (j < box->left || j >= box->right) {
            continue;
        }
        for (int64_t i = top; i < bottom && (is_full || (is_end && !is_corners)); i++) {
            out[i] = !is_delta | (g[i] == 0);
        }
        for (int k = 0; k < 2 && !is_full && (is_end || !is_corners); k++) {
            if (ends[k] >= top && ends[k] < bottom) {
                out[ends[k]] = 1;
            }
        }
    }
}

gx_code gx_grid_box(gx_grid_piece *p, gx_err *err)
{
    gx_grid_window w = window_of(p, p->g);
    int64_t wider = p->id == GX_GRID_OUTBOX ? 1 : p->id == GX_GRID_INBOX ? -1 : 0;
    (void)err;
    if (!is_empty(w)) {
        w = (gx_grid_window){w.top - wider, w.bottom + wider, w.left - wider, w.right + wider};
    }
    gx_grid_each(p, GX_GRID_CELLS, draw_box, &w);
    return GX_OK;
}

gx_code gx_grid_bordering(gx_grid_piece *p, gx_err *err)
{
    gx_grid_window w = window_of(p, p->g);
    (void)err;
    p->value =
        !is_empty(w) && (w.top == 0 || w.left == 0 || w.bottom == p->rows || w.right == p->cols);
    return GX_OK;
}

// Lines -------------------------------------------------------------------------------------------

/* Cut steps [*first, *last] to those where from + step * by is in [0, size). */
static void cut_steps(int64_t from, int64_t by, int64_t size, int64_t *first, int64_t *last)
{
    if (by == 0) {
        *last = from >= 0 && from < size ? *last : -1;
    } else {
        int64_t to_low = by > 0 ? -from : from - (size - 1);
        int64_t to_high = by > 0 ? size - 1 - from : from;
        *first = gx_max(*first, to_low);
        *last = gx_min(*last, to_high);
    }
}

static int64_t sign_of(int64_t x)
{
    return (x > 0) - (x < 0);
}

gx_code gx_grid_line(gx_grid_piece *p, gx_err *err)
{
    const int64_t *n = p->number;
    bool is_ray = p->id == GX_GRID_SHOOT;
    int64_t down = is_ray ? n[2] : n[2] - n[0], right = is_ray ? n[3] : n[3] - n[1];
    int64_t di = sign_of(down), dj = sign_of(right);
    int64_t first = 0, last = is_ray ? INT64_MAX : gx_max(down * di, right * dj);
    (void)err;
    cut_steps(n[0], di, p->rows, &first, &last);
    cut_steps(n[1], dj, p->cols, &first, &last);
    gx_grid_each(p, GX_GRID_CELLS, draw_box, &(gx_grid_window){0}); // nothing
    for (int64_t step = first; step <= last; step++) {
        p->out[n[0] + step * di + (n[1] + step * dj) * p->rows] = 1;
    }
    return GX_OK;
}

/* p->work: of each row, and then of each column, not 0 where its colours are several. */
static void compare_rows(const gx_grid_piece *p, gx_grid_window w, void *arg)
{
    const int64_t OFTEN = 8; // columns after which it is asked whether a row is left
    bool is_left = true;
    (void)arg;
    memset(p->work + w.top, 0, (size_t)(w.bottom - w.top) * sizeof *p->work);
    for (int64_t j = 1; j < p->cols && is_left; j++) {
        const int32_t *g = p->g + j * p->rows;
        for (int64_t i = w.top; i < w.bottom; i++) {
            p->work[i] |= g[i] ^ p->g[i];
        }
        is_left = j % OFTEN != 0;
        for (int64_t i = w.top; i < w.bottom && !is_left; i++) {
            is_left = p->work[i] == 0;
        }
    }
}

static void compare_columns(const gx_grid_piece *p, gx_grid_window w, void *arg)
{
    (void)arg;
    for (int64_t j = w.left; j < w.right; j++) {
        const int32_t *g = p->g + j * p->rows;
        int64_t i = 1;
        while (i < p->rows && g[i] == g[0]) {
            i++;
        }
        p->work[p->rows + j] = i < p->rows;
    }
}

static void draw_lines(const gx_grid_piece *p, gx_grid_window w, void *arg)
{
    (void)arg;
    for (int64_t j = w.left; j < w.right; j++) {
        const bool is_column = p->work[p->rows + j] == 0;
        for (int64_t i = w.top; i < w.bottom; i++) {
            p->out[i + j * p->rows] = is_column | (p->work[i] == 0);
        }
    }
}

gx_code gx_grid_frontiers(gx_grid_piece *p, gx_err *err)
{
    (void)err;
    gx_grid_each(p, GX_GRID_ROWS, compare_rows, NULL);
    gx_grid_each(p, GX_GRID_COLUMNS, compare_columns, NULL);
    gx_grid_each(p, GX_GRID_CELLS, draw_lines, NULL);
    return GX_OK;
}

// Neighbours and distances ------------------------------------------------------------------------

typedef struct neighbours {
    const int32_t *mask;
    int32_t *to;
    bool are_eight;
} neighbours;

/* Cells [i, end) of a column: is there a mask beside them?  up, down: to the cells above, below. */
static inline void look_beside(const int32_t *col, const int32_t *left, const int32_t *right,
                               int64_t i, int64_t end, int64_t up, int64_t down, bool are_eight,
                               int32_t *to)
{
    for (; i < end; i++) {
        int32_t near = left[i] | right[i] | col[i - up] | col[i + down];
        if (are_eight) {
            near |= left[i - up] | left[i + down] | right[i - up] | right[i + down];
        }
        to[i] = (col[i] == 0) & (near != 0);
    }
}

static void beside_share(const gx_grid_piece *p, gx_grid_window w, void *arg)
{
    const neighbours *n = arg;
    int64_t m = p->rows, first = gx_max(1, w.top), last = gx_max(first, gx_min(m - 1, w.bottom));
    for (int64_t j = w.left; j < w.right; j++) {
        const int32_t *col = n->mask + j * m, *left = j > 0 ? col - m : col;
        const int32_t *right = j + 1 < p->cols ? col + m : col;
        int32_t *to = n->to + j * m;
        look_beside(col, left, right, w.top, gx_min(1, w.bottom), 0, m > 1, n->are_eight, to);
        if (n->are_eight) {
            look_beside(col, left, right, first, last, 1, 1, true, to);
        } else {
            look_beside(col, left, right, first, last, 1, 1, false, to);
        }
        look_beside(col, left, right, last, w.bottom, 1, 0, n->are_eight, to);
    }
}

gx_code gx_grid_beside(gx_grid_piece *p, gx_err *err)
{
    (void)err;
    gx_grid_each(p, GX_GRID_CELLS, beside_share, &(neighbours){p->g, p->out, p->number[0] == 8});
    return GX_OK;
}

static int32_t far_of(const gx_grid_piece *p)
{
    return (int32_t)gx_min(p->rows + p->cols, INT32_MAX - 1);
}

/* work[k] = rows to the nearest cell of M in its column, or far. */
static void look_along_columns(const gx_grid_piece *p, gx_grid_window w, void *arg)
{
    const int32_t far = far_of(p);
    (void)arg;
    for (int64_t j = w.left; j < w.right; j++) {
        const int32_t *m = p->m + j * p->rows;
        int32_t *d = p->work + j * p->rows, last = far;
        for (int64_t i = 0; i < p->rows; i++) {
            last = m[i] != 0 ? 0 : last < far ? last + 1 : far;
            d[i] = last;
        }
        for (int64_t i = p->rows - 2; i >= 0; i--) {
            d[i] = d[i + 1] + 1 < d[i] ? d[i + 1] + 1 : d[i];
        }
    }
}

/* Then the least of it and the way there, over all columns: rows to the right, and to the left. */
static void look_along_rows(const gx_grid_piece *p, gx_grid_window w, void *arg)
{
    int64_t m = p->rows;
    (void)arg;
    for (int step = 1; step >= -1; step -= 2) {
        for (int64_t k = 1; k < p->cols; k++) {
            int32_t *d = p->work + (step > 0 ? k : p->cols - 1 - k) * m;
            const int32_t *before = d - step * m;
            for (int64_t i = w.top; i < w.bottom; i++) {
                d[i] = before[i] + 1 < d[i] ? before[i] + 1 : d[i];
            }
        }
    }
}

static void least_distance(const gx_grid_piece *p, gx_grid_window w, void *arg)
{
    int32_t *all = arg, least = INT32_MAX;
    for (int64_t j = w.left; j < w.right; j++) {
        const int32_t *g = p->g + j * p->rows, *d = p->work + j * p->rows;
        for (int64_t i = w.top; i < w.bottom; i++) {
            least = g[i] != 0 && d[i] < least ? d[i] : least;
        }
    }
    GX_GRID_FOLD(all, least, <);
}

/*
** |row - row'| + |col - col'| to the nearest cell of M is the least of what its columns come to
** (Rosenfeld and Pfaltz 1966); far, more than any distance, where M is empty, which gives NaN.
*/
gx_code gx_grid_manhattan(gx_grid_piece *p, gx_err *err)
{
    int32_t least = far_of(p);
    (void)err;
    gx_grid_each(p, GX_GRID_COLUMNS, look_along_columns, NULL);
    gx_grid_each(p, GX_GRID_ROWS, look_along_rows, NULL);
    gx_grid_each(p, GX_GRID_CELLS, least_distance, &least);
    p->value = least < far_of(p) ? (double)least : (double)NAN;
    return GX_OK;
}

/* Where M goes: the direction, and the way that is left to the edge. */
typedef struct way {
    int64_t di, dj, steps;
} way;

/* Have the masks a cell in common?  Have they a column? */
typedef struct common {
    int cell, column;
} common;

static void look_for_common(const gx_grid_piece *p, gx_grid_window w, void *arg)
{
    common *all = arg;
    for (int64_t j = w.left; j < w.right; j++) {
        int has_a = 0, has_b = 0, cell = 0;
        for (int64_t i = 0; i < p->rows; i++) {
            int is_a = p->g[i + j * p->rows] != 0, is_b = p->m[i + j * p->rows] != 0;
            has_a |= is_a;
            has_b |= is_b;
            cell |= is_a & is_b;
        }
        GX_GRID_FOLD(&all->cell, cell, >);
        GX_GRID_FOLD(&all->column, has_a & has_b, >);
    }
}

/* Down or up where the masks have a column in common, else right or left; by the boxes' middles. */
static way way_of(const gx_grid_piece *p, bool is_upright, gx_grid_window a, gx_grid_window b)
{
    bool is_down = a.top + (a.bottom - a.top) / 2 < b.top + (b.bottom - b.top) / 2;
    bool is_right = a.left + (a.right - a.left) / 2 < b.left + (b.right - b.left) / 2;
    if (is_upright) {
        return (way){is_down ? 1 : -1, 0, is_down ? p->rows - a.bottom : a.top};
    }
    return (way){0, is_right ? 1 : -1, is_right ? p->cols - a.right : a.left};
}

/*
** The least number of steps, at most w.steps, after which a cell of M is one beside T, which
** p->work says: each line that M moves along is walked once, with the distance from the last cell
** of M.
*/
static void walk_lines(const gx_grid_piece *p, gx_grid_window share, void *arg)
{
    way *w = arg;
    int64_t lines = w->di != 0 ? share.right - share.left : share.bottom - share.top;
    int64_t length = w->di != 0 ? p->rows : p->cols;
    int64_t steps = __atomic_load_n(&w->steps, __ATOMIC_RELAXED);
    int64_t apart = w->di != 0 ? p->rows : 1, step = w->di != 0 ? 1 : p->rows;
    int64_t since[GX_GRID_LINES]; // steps from the last cell of M; more: none has come
    for (int64_t line = 0; line < lines; line++) {
        since[line] = steps;
    }
    for (int64_t t = 0; t < length; t++) {
        int64_t at = share.top + share.left * p->rows;
        at += (w->di + w->dj < 0 ? length - 1 - t : t) * step;
        for (int64_t line = 0; line < lines; line++) {
            int64_t k = at + line * apart;
            since[line] = p->g[k] != 0 ? 0 : since[line] + 1;
            steps = since[line] < steps && p->work[k] != 0 ? since[line] : steps;
        }
    }
    GX_GRID_FOLD(&w->steps, steps, <);
}

static void make_mask(const gx_grid_piece *p, gx_grid_window w, void *arg)
{
    (void)arg;
    for (int64_t j = w.left; j < w.right; j++) {
        for (int64_t i = w.top; i < w.bottom; i++) {
            p->out[i + j * p->rows] = p->out[i + j * p->rows] != 0;
        }
    }
}

gx_code gx_grid_gravitate(gx_grid_piece *p, gx_err *err)
{
    gx_grid_window a = window_of(p, p->g), b = window_of(p, p->m);
    int64_t move[3] = {0, 0, 0};
    common in = {0, 0};
    gx_grid_each(p, GX_GRID_COLUMNS, look_for_common, &in);
    if (!is_empty(a) && !is_empty(b) && in.cell == 0) {
        way w = way_of(p, in.column != 0, a, b);
        gx_grid_each(p, GX_GRID_CELLS, beside_share, &(neighbours){p->m, p->work, false});
        gx_grid_each(p, w.di != 0 ? GX_GRID_COLUMNS : GX_GRID_ROWS, walk_lines, &w);
        move[0] = w.steps * w.di;
        move[1] = w.steps * w.dj;
    }
    gx_grid_piece moved = *p;
    moved.number = move;
    GX_TRY(gx_grid_shift(&moved, err));
    gx_grid_each(p, GX_GRID_CELLS, make_mask, NULL);
    return GX_OK;
}

// Templates ---------------------------------------------------------------------------------------

/* Does the template lie at cell at?  False, too, where the run has been stopped. */
static bool lies_at(const gx_grid_piece *p, const int32_t *at)
{
    const int64_t OFTEN = 1 << 16;
    int64_t looked = 0;
    for (int64_t v = 0; v < p->m_cols; v++) {
        for (int64_t u = 0; u < p->m_rows; u++) {
            int32_t colour = p->m[u + v * p->m_rows];
            if (colour >= 0 && colour != at[u + v * p->rows]) {
                return false;
            }
            if (++looked % OFTEN == 0 && !gx_grid_goes_on(p)) {
                return false;
            }
        }
    }
    return true;
}

static void look_for_template(const gx_grid_piece *p, gx_grid_window w, void *arg)
{
    const int32_t first = p->m[0];
    (void)arg;
    for (int64_t j = w.left; j < w.right && gx_grid_goes_on(p); j++) {
        bool is_in = j + p->m_cols <= p->cols;
        int64_t end = is_in ? gx_max(w.top, gx_min(w.bottom, p->rows - p->m_rows + 1)) : w.top;
        for (int64_t i = w.top; i < w.bottom; i++) {
            const int32_t *g = p->g + i + j * p->rows;
            bool begins = i < end && (first < 0 || *g == first);
            p->out[i + j * p->rows] = begins && lies_at(p, g);
        }
    }
}

gx_code gx_grid_occurrences(gx_grid_piece *p, gx_err *err)
{
    (void)err;
    gx_grid_each(p, GX_GRID_CELLS, look_for_template, NULL);
    return GX_OK;
}

// Parts -------------------------------------------------------------------------------------------

gx_code gx_grid_box_of(gx_run *run, const gx_mat *M, gx_grid_window *box)
{
    int32_t *m = gx_grid_load(run, M);
    if (m != NULL) {
        *box = window_of(
            &(gx_grid_piece){.run = run, .rows = M->rows, .cols = M->cols, .is_alone = true}, m);
    }
    gx_mem_free(run->ctx->mem, m);
    return gx_ok(run) ? GX_OK : run->err.code;
}

/* Of lines that lie apart, each of length cells a step apart: the numbers of those that vary. */
static int64_t varied(const int32_t *g, int64_t lines, int64_t apart, int64_t length, int64_t step,
                      int64_t *to)
{
    int64_t count = 0;
    for (int64_t line = 0; line < lines; line++) {
        int64_t k = 1;
        while (k < length && g[line * apart + k * step] == g[line * apart]) {
            k++;
        }
        to[count] = line;
        count += k < length;
    }
    return count;
}

gx_code gx_grid_compressed(gx_run *run, const gx_mat *G, double **x, int64_t *m, int64_t *n)
{
    int32_t *g = gx_grid_load(run, G);
    size_t cells = (size_t)(G->rows * G->cols);
    int64_t *row = gx_run_alloc(run, (size_t)G->rows * sizeof *row, "rows to keep");
    int64_t *col = gx_run_alloc(run, (size_t)G->cols * sizeof *col, "columns to keep");
    *x = gx_ok(run) ? gx_run_alloc(run, cells * sizeof **x, "a grid") : NULL;
    *m = *n = 0;
    if (*x != NULL && cells > 0) {
        *m = varied(g, G->rows, 1, G->cols, G->rows, row);
        *n = varied(g, G->cols, G->rows, G->rows, 1, col);
    }
    for (int64_t k = 0; k < *m * *n; k++) {
        (*x)[k] = g[row[k % *m] + col[k / *m] * G->rows];
    }
    gx_mem_free(run->ctx->mem, g);
    gx_mem_free(run->ctx->mem, row);
    gx_mem_free(run->ctx->mem, col);
    return gx_ok(run) ? GX_OK : run->err.code;
}
