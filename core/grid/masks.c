/*
** Kernels of operations on masks: see grid_int.h.
*/
#include "grid_int.h"

#include <math.h>
#include <string.h>

// Boxes -------------------------------------------------------------------------------------------

/* The box of a mask; empty where that is. */
static gx_grid_window window_of(const int32_t *m, int64_t rows, int64_t cols)
{
    gx_grid_window w = {rows, 0, cols, 0};
    for (int64_t j = 0; j < cols && rows > 0; j++) {
        for (int64_t i = 0; i < rows; i++) {
            if (m[i + j * rows] != 0) {
                w.top = gx_min(w.top, i);
                w.bottom = gx_max(w.bottom, i + 1);
                w.left = gx_min(w.left, j);
                w.right = j + 1;
            }
        }
    }
    return w;
}

static bool is_empty(gx_grid_window w)
{
    return w.top >= w.bottom || w.left >= w.right;
}

gx_code gx_grid_box(gx_grid_piece *p, gx_err *err)
{
    gx_grid_window w = window_of(p->g, p->rows, p->cols);
    int64_t wider = p->id == GX_GRID_OUTBOX ? 1 : p->id == GX_GRID_INBOX ? -1 : 0;
    bool is_full = p->id == GX_GRID_BACKDROP || p->id == GX_GRID_DELTA;
    (void)err;
    if (is_empty(w)) {
        return GX_OK;
    }
    w = (gx_grid_window){w.top - wider, w.bottom + wider, w.left - wider, w.right + wider};
    for (int64_t j = gx_max(0, w.left); j < gx_min(p->cols, w.right); j++) {
        for (int64_t i = gx_max(0, w.top); i < gx_min(p->rows, w.bottom); i++) {
            bool is_end_row = i == w.top || i == w.bottom - 1;
            bool is_end_col = j == w.left || j == w.right - 1;
            bool is_in = is_full                    ? true
                         : p->id == GX_GRID_CORNERS ? is_end_row && is_end_col
                                                    : is_end_row || is_end_col;
            bool is_left_out = p->id == GX_GRID_DELTA && p->g[i + j * p->rows] != 0;
            p->out[i + j * p->rows] = is_in && !is_left_out;
        }
    }
    return GX_OK;
}

gx_code gx_grid_bordering(gx_grid_piece *p, gx_err *err)
{
    gx_grid_window w = window_of(p->g, p->rows, p->cols);
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
    for (int64_t step = first; step <= last; step++) {
        p->out[n[0] + step * di + (n[1] + step * dj) * p->rows] = 1;
    }
    return GX_OK;
}

gx_code gx_grid_frontiers(gx_grid_piece *p, gx_err *err)
{
    int64_t m = p->rows, n = p->cols;
    (void)err;
    for (int64_t i = 0; i < m; i++) {
        int64_t j = 1;
        while (j < n && p->g[i + j * m] == p->g[i]) {
            j++;
        }
        for (int64_t k = 0; k < n && j == n; k++) {
            p->out[i + k * m] = 1;
        }
    }
    for (int64_t j = 0; j < n; j++) {
        int64_t i = 1;
        while (i < m && p->g[i + j * m] == p->g[j * m]) {
            i++;
        }
        for (int64_t k = 0; k < m && i == m; k++) {
            p->out[k + j * m] = 1;
        }
    }
    return GX_OK;
}

// Neighbours and distances ------------------------------------------------------------------------

gx_code gx_grid_beside(gx_grid_piece *p, gx_err *err)
{
    bool is_eight = p->number[0] == 8;
    int64_t m = p->rows;
    (void)err;
    for (int64_t j = 0; j < p->cols; j++) {
        const int32_t *col = p->g + j * m, *left = j > 0 ? col - m : col;
        const int32_t *right = j + 1 < p->cols ? col + m : col;
        for (int64_t i = 0; i < m; i++) {
            int64_t up = i > 0 ? i - 1 : i, down = i + 1 < m ? i + 1 : i;
            int32_t near = left[i] | right[i] | col[up] | col[down];
            near |= is_eight ? left[up] | left[down] | right[up] | right[down] : 0;
            p->out[i + j * m] = col[i] == 0 && near != 0;
        }
    }
    return GX_OK;
}

/*
** work[k] = |row - row'| + |col - col'| to the nearest cell of the mask, or more than any distance
** where that is empty: a sweep right and one left (Rosenfeld and Pfaltz 1966).
*/
static void distances(const gx_grid_piece *p, const int32_t *mask)
{
    int64_t m = p->rows, cells = m * p->cols;
    int32_t *d = p->work, far = (int32_t)gx_min(m + p->cols, INT32_MAX - 1);
    for (int64_t k = 0; k < cells; k++) {
        d[k] = mask[k] != 0 ? 0 : far;
        d[k] = k >= m && d[k - m] + 1 < d[k] ? d[k - m] + 1 : d[k];
        d[k] = k % m > 0 && d[k - 1] + 1 < d[k] ? d[k - 1] + 1 : d[k];
    }
    for (int64_t k = cells - 1; k >= 0; k--) {
        d[k] = k + m < cells && d[k + m] + 1 < d[k] ? d[k + m] + 1 : d[k];
        d[k] = k % m < m - 1 && d[k + 1] + 1 < d[k] ? d[k + 1] + 1 : d[k];
    }
}

/* NaN where a mask is empty. */
gx_code gx_grid_manhattan(gx_grid_piece *p, gx_err *err)
{
    int64_t far = p->rows + p->cols, least = far;
    (void)err;
    distances(p, p->m);
    for (int64_t k = 0; k < p->rows * p->cols; k++) {
        least = p->g[k] != 0 ? gx_min(least, p->work[k]) : least;
    }
    p->value = least < far ? (double)least : (double)NAN;
    return GX_OK;
}

/* Where M goes: the direction, and the way that is left to the edge. */
typedef struct way {
    int64_t di, dj, steps;
} way;

/* Down or up where the masks have a column in common, else right or left; by the boxes' middles. */
static way way_of(const gx_grid_piece *p, gx_grid_window a, gx_grid_window b)
{
    bool is_upright = false;
    for (int64_t j = 0; j < p->cols && !is_upright; j++) {
        bool has_a = false, has_b = false;
        for (int64_t i = 0; i < p->rows; i++) {
            has_a |= p->g[i + j * p->rows] != 0;
            has_b |= p->m[i + j * p->rows] != 0;
        }
        is_upright = has_a && has_b;
    }
    bool is_down = a.top + (a.bottom - a.top) / 2 < b.top + (b.bottom - b.top) / 2;
    bool is_right = a.left + (a.right - a.left) / 2 < b.left + (b.right - b.left) / 2;
    if (is_upright) {
        return (way){is_down ? 1 : -1, 0, is_down ? p->rows - a.bottom : a.top};
    }
    return (way){0, is_right ? 1 : -1, is_right ? p->cols - a.right : a.left};
}

/*
** The least number of steps, at most w.steps, after which a cell of M is one beside T: each line
** that M moves along is walked once, with the distance from the last cell of M.
*/
static int64_t steps_to(const gx_grid_piece *p, way w)
{
    int64_t lines = w.di != 0 ? p->cols : p->rows, length = w.di != 0 ? p->rows : p->cols;
    int64_t apart = w.di != 0 ? p->rows : 1, step = w.di != 0 ? 1 : p->rows, steps = w.steps;
    bool is_back = w.di + w.dj < 0;
    for (int64_t line = 0; line < lines; line++) {
        int64_t since = -1; // steps from the last cell of M; -1: none has come
        for (int64_t t = 0; t < length; t++) {
            int64_t k = line * apart + (is_back ? length - 1 - t : t) * step;
            since = p->g[k] != 0 ? 0 : since < 0 ? -1 : since + 1;
            if (since >= 0 && since < steps && p->work[k] == 1) {
                steps = since;
            }
        }
    }
    return steps;
}

gx_code gx_grid_gravitate(gx_grid_piece *p, gx_err *err)
{
    gx_grid_window a = window_of(p->g, p->rows, p->cols);
    gx_grid_window b = window_of(p->m, p->rows, p->cols);
    int64_t move[3] = {0, 0, 0};
    bool is_apart = true;
    for (int64_t k = 0; k < p->rows * p->cols; k++) {
        is_apart &= p->g[k] == 0 || p->m[k] == 0;
    }
    if (!is_empty(a) && !is_empty(b) && is_apart) {
        way w = way_of(p, a, b);
        distances(p, p->m);
        int64_t steps = steps_to(p, w);
        move[0] = steps * w.di;
        move[1] = steps * w.dj;
    }
    gx_grid_piece moved = *p;
    moved.number = move;
    GX_TRY(gx_grid_shift(&moved, err));
    for (int64_t k = 0; k < p->rows * p->cols; k++) {
        p->out[k] = p->out[k] != 0;
    }
    return GX_OK;
}

// Templates ---------------------------------------------------------------------------------------

gx_code gx_grid_occurrences(gx_grid_piece *p, gx_err *err)
{
    (void)err;
    const int64_t OFTEN = 1 << 16;
    for (int64_t j = 0; j + p->m_cols <= p->cols && gx_grid_goes_on(p); j++) {
        for (int64_t i = 0; i + p->m_rows <= p->rows; i++) {
            bool is_here = true;
            for (int64_t k = 0; k < p->m_rows * p->m_cols && is_here; k++) {
                if (k % OFTEN == OFTEN - 1 && !gx_grid_goes_on(p)) {
                    return GX_OK; // the run knows why
                }
                int64_t u = i + k % p->m_rows, v = j + k / p->m_rows;
                is_here = p->m[k] < 0 || p->m[k] == p->g[u + v * p->rows];
            }
            p->out[i + j * p->rows] = is_here;
        }
    }
    return GX_OK;
}

// Parts -------------------------------------------------------------------------------------------

gx_code gx_grid_box_of(gx_run *run, const gx_mat *M, gx_grid_window *box)
{
    int32_t *m = gx_grid_load(run, M);
    if (m != NULL) {
        *box = window_of(m, M->rows, M->cols);
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
