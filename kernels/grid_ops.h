/*
** The operations on grids that move cells, look at masks or match, and a grid's way from a matrix
** to its result: see grid_team.h.
*/
#ifndef GX_GRID_OPS_H
#define GX_GRID_OPS_H

#include "grid_team.h"

// Moved -------------------------------------------------------------------------------------------

/* The cell that is moved to k by (di, dj), or -1. */
TEAM int64_t moved_from(const team_grid *t, int32_t k, int64_t di, int64_t dj)
{
    int64_t u = k % t->rows - di, v = k / t->rows - dj;
    return u >= 0 && u < t->rows && v >= 0 && v < t->cols ? u + v * t->rows : -1;
}

TEAM void shift(const team_grid *t)
{
    const int64_t *n = t->job->number;
    EACH(k, t->cells) {
        int64_t from = moved_from(t, k, n[0], n[1]);
        put_cell(t, k, from < 0 ? (int32_t)n[2] : t->g[from]);
    }
}

TEAM void turn(const team_grid *t)
{
    int32_t m = t->rows, w = t->cols, how = (int32_t)t->job->number[0];
    bool is_mirror = t->job->id == GX_GRID_MIRROR;
    EACH(k, t->cells) {
        int32_t i = k % m, j = k / m, u = i, v = j;
        if (is_mirror) {
            u = how == 0 ? m - 1 - i : i;
            v = how == 0 ? j : w - 1 - j;
        } else if (how == 180) {
            u = m - 1 - i;
            v = w - 1 - j;
        } else { // of a square
            u = how == 90 ? m - 1 - j : j;
            v = how == 90 ? i : m - 1 - i;
        }
        put_cell(t, k, t->g[u + v * m]);
    }
}

// Boxes and lines ---------------------------------------------------------------------------------

typedef struct team_window {
    int32_t top, bottom, left, right; /* bottom and right are not in it; empty: top >= bottom */
} team_window;

TEAM_CALL team_window window_of(const team_grid *t, const int32_t *mask)
{
    int32_t *word = t->room->word;
    team_window w = {t->rows, 0, t->cols, 0};
    EACH(k, t->cells) {
        int32_t i = k % t->rows, j = k / t->rows;
        if (mask[k] != 0) {
            w.top = i < w.top ? i : w.top;
            w.bottom = i >= w.bottom ? i + 1 : w.bottom;
            w.left = j < w.left ? j : w.left;
            w.right = j + 1;
        }
    }
    MEET();
    if (RANK == 0) {
        word[0] = t->rows;
        word[1] = 0;
        word[2] = t->cols;
        word[3] = 0;
    }
    MEET();
    TEAM_LEAST(&word[0], w.top);
    TEAM_MOST(&word[1], w.bottom);
    TEAM_LEAST(&word[2], w.left);
    TEAM_MOST(&word[3], w.right);
    MEET();
    w.top = word[0];
    w.bottom = word[1];
    w.left = word[2];
    w.right = word[3];
    return w;
}

TEAM void box(const team_grid *t)
{
    gx_grid_id id = t->job->id;
    team_window w = window_of(t, t->g);
    int32_t wider = id == GX_GRID_OUTBOX ? 1 : id == GX_GRID_INBOX ? -1 : 0;
    bool is_full = id == GX_GRID_BACKDROP || id == GX_GRID_DELTA, is_empty = w.top >= w.bottom;
    w.top -= wider;
    w.left -= wider;
    w.bottom += wider;
    w.right += wider;
    EACH(k, t->cells) {
        int32_t i = k % t->rows, j = k / t->rows;
        bool is_inside = i >= w.top && i < w.bottom && j >= w.left && j < w.right && !is_empty;
        bool is_end_row = i == w.top || i == w.bottom - 1;
        bool is_end_col = j == w.left || j == w.right - 1;
        bool is_in = is_full                  ? true
                     : id == GX_GRID_CORNERS ? is_end_row && is_end_col
                                              : is_end_row || is_end_col;
        bool is_left_out = id == GX_GRID_DELTA && t->g[k] != 0;
        put_cell(t, k, is_inside && is_in && !is_left_out);
    }
}

TEAM void bordering(const team_grid *t)
{
    team_window w = window_of(t, t->g);
    bool is_at_edge = w.top == 0 || w.left == 0 || w.bottom == t->rows || w.right == t->cols;
    put_number(t, w.top < w.bottom && is_at_edge);
}

TEAM int64_t sign_of(int64_t x)
{
    return (x > 0) - (x < 0);
}

TEAM void line(const team_grid *t)
{
    const int64_t *n = t->job->number;
    bool is_ray = t->job->id == GX_GRID_SHOOT;
    int64_t down = is_ray ? n[2] : n[2] - n[0], right = is_ray ? n[3] : n[3] - n[1];
    int64_t di = sign_of(down), dj = sign_of(right);
    int64_t last = down * di > right * dj ? down * di : right * dj;
    EACH(k, t->cells) {
        int64_t i = k % t->rows - n[0], j = k / t->rows - n[1];
        int64_t step = di != 0 ? i * di : j * dj;
        bool is_on = step >= 0 && (is_ray || step <= last) && i == step * di && j == step * dj;
        put_cell(t, k, is_on);
    }
}

TEAM void frontiers(const team_grid *t)
{
    int32_t *varies = t->work, m = t->rows; // of each row, then of each column
    clear(varies, m + t->cols);
    EACH(k, t->cells) {
        int32_t i = k % m, j = k / m;
        if (t->g[k] != t->g[i]) {
            varies[i] = 1;
        }
        if (t->g[k] != t->g[j * m]) {
            varies[m + j] = 1;
        }
    }
    MEET();
    EACH(k, t->cells) {
        put_cell(t, k, varies[k % m] == 0 || varies[m + k / m] == 0);
    }
}

// Neighbours and distances ------------------------------------------------------------------------

/* Has the mask cell k's neighbour (di, dj)? */
TEAM bool has_near(const team_grid *t, const int32_t *mask, int32_t k, int32_t di, int32_t dj)
{
    int32_t i = k % t->rows + di, j = k / t->rows + dj;
    return i >= 0 && i < t->rows && j >= 0 && j < t->cols && mask[i + j * t->rows] != 0;
}

TEAM bool is_beside(const team_grid *t, const int32_t *mask, int32_t k, bool is_eight)
{
    bool is_near = has_near(t, mask, k, -1, 0) || has_near(t, mask, k, 1, 0) ||
                   has_near(t, mask, k, 0, -1) || has_near(t, mask, k, 0, 1);
    if (is_eight && !is_near) {
        is_near = has_near(t, mask, k, -1, -1) || has_near(t, mask, k, -1, 1) ||
                  has_near(t, mask, k, 1, -1) || has_near(t, mask, k, 1, 1);
    }
    return mask[k] == 0 && is_near;
}

TEAM void beside(const team_grid *t)
{
    EACH(k, t->cells) {
        put_cell(t, k, is_beside(t, t->g, k, t->job->number[0] == 8));
    }
}

/* Of a line of numbers: none is more than one above its neighbours any more. */
TEAM void level(int32_t *x, int32_t count, int32_t step)
{
    for (int32_t k = 1; k < count; k++) {
        int32_t near = x[(k - 1) * step] + 1;
        x[k * step] = near < x[k * step] ? near : x[k * step];
    }
    for (int32_t k = count - 2; k >= 0; k--) {
        int32_t near = x[(k + 1) * step] + 1;
        x[k * step] = near < x[k * step] ? near : x[k * step];
    }
}

/* work[k] = the way from k to the nearest cell of m down the column, then across, too. */
TEAM_CALL void manhattan(const team_grid *t)
{
    int32_t *d = t->work, far = t->rows + t->cols, least = far;
    EACH(k, t->cells) {
        d[k] = t->m[k] != 0 ? 0 : far;
    }
    MEET();
    EACH(j, t->cols) {
        level(d + j * t->rows, t->rows, 1);
    }
    MEET();
    EACH(i, t->rows) {
        level(d + i, t->cols, t->rows);
    }
    set_words(t, far);
    EACH(k, t->cells) {
        least = t->g[k] != 0 && d[k] < least ? d[k] : least;
    }
    TEAM_LEAST(&t->room->word[0], least);
    MEET();
    put_number(t, t->room->word[0] < far ? (double)t->room->word[0] : (double)NAN);
}

/* Have a column both masks? */
TEAM bool has_both(const team_grid *t, int32_t j)
{
    bool has_g = false, has_m = false;
    for (int32_t k = j * t->rows; k < (j + 1) * t->rows; k++) {
        has_g |= t->g[k] != 0;
        has_m |= t->m[k] != 0;
    }
    return has_g && has_m;
}

/* Steps until a cell of a line of g, that moves along it, is beside m; at most `most`. */
TEAM int32_t steps_on(const team_grid *t, int32_t number, bool is_upright, bool is_back,
                      int32_t most)
{
    int32_t length = is_upright ? t->rows : t->cols, since = -1; // from the last cell of g
    for (int32_t s = 0; s < length; s++) {
        int32_t at = is_back ? length - 1 - s : s;
        int32_t k = is_upright ? at + number * t->rows : number + at * t->rows;
        since = t->g[k] != 0 ? 0 : since < 0 ? -1 : since + 1;
        if (since >= 0 && since < most && is_beside(t, t->m, k, false)) {
            most = since;
        }
    }
    return most;
}

TEAM_CALL void gravitate(const team_grid *t)
{
    enum { MEETS, IS_UPRIGHT, STEPS };
    team_window a = window_of(t, t->g), b = window_of(t, t->m);
    int32_t *word = t->room->word, di = 0, dj = 0;
    set_words(t, 0);
    EACH(k, t->cells) {
        if (t->g[k] != 0 && t->m[k] != 0) {
            word[MEETS] = 1;
        }
    }
    EACH(j, t->cols) {
        if (has_both(t, j)) {
            word[IS_UPRIGHT] = 1;
        }
    }
    MEET();
    if (a.top < a.bottom && b.top < b.bottom && word[MEETS] == 0) {
        bool is_upright = word[IS_UPRIGHT] != 0;
        bool is_down = a.top + (a.bottom - a.top) / 2 < b.top + (b.bottom - b.top) / 2;
        bool is_right = a.left + (a.right - a.left) / 2 < b.left + (b.right - b.left) / 2;
        bool is_back = is_upright ? !is_down : !is_right;
        int32_t most = is_upright ? (is_down ? t->rows - a.bottom : a.top)
                                  : (is_right ? t->cols - a.right : a.left);
        if (RANK == 0) {
            word[STEPS] = most;
        }
        MEET();
        EACH(s, is_upright ? t->cols : t->rows) {
            TEAM_LEAST(&word[STEPS], steps_on(t, s, is_upright, is_back, most));
        }
        MEET();
        di = !is_upright ? 0 : is_back ? -word[STEPS] : word[STEPS];
        dj = is_upright ? 0 : is_back ? -word[STEPS] : word[STEPS];
    }
    EACH(k, t->cells) {
        int64_t from = moved_from(t, k, di, dj);
        put_cell(t, k, from >= 0 && t->g[from] != 0);
    }
}

// Templates and periods ---------------------------------------------------------------------------

TEAM void occurrences(const team_grid *t)
{
    EACH(k, t->cells) {
        int32_t i = k % t->rows, j = k / t->rows, all = t->m_rows * t->m_cols, l = 0;
        bool is_here = i + t->m_rows <= t->rows && j + t->m_cols <= t->cols;
        for (; is_here && l < all; l++) {
            int32_t u = i + l % t->m_rows, v = j + l / t->m_rows;
            is_here = t->m[l] < 0 || t->m[l] == t->g[u + v * t->rows];
        }
        put_cell(t, k, is_here);
    }
}

/* The least number p of lines with line k = line k + p for all. */
TEAM void period(const team_grid *t)
{
    bool is_rows = t->job->id == GX_GRID_ROW_PERIOD;
    int32_t lines = is_rows ? t->rows : t->cols, length = is_rows ? t->cols : t->rows, p = 1;
    int32_t apart = is_rows ? 1 : t->rows, step = is_rows ? t->rows : 1;
    for (bool is_found = false; p < lines && !is_found; p += !is_found) {
        set_words(t, 0);
        EACH(e, (lines - p) * length) {
            int32_t at = e % (lines - p) * apart + e / (lines - p) * step;
            if (t->g[at] != t->g[at + p * apart]) {
                t->room->word[0] = 1;
                break;
            }
        }
        MEET();
        is_found = t->room->word[0] == 0;
    }
    put_number(t, p);
}

// Grids -------------------------------------------------------------------------------------------

TEAM void work_on_grid(const team_grid *t)
{
    switch (t->job->id) {
    case GX_GRID_LABEL:
        label(t);
        break;
    case GX_GRID_PARTITION:
    case GX_GRID_FGPARTITION:
        partition(t);
        break;
    case GX_GRID_SIZES:
        count_sizes(t);
        break;
    case GX_GRID_MOST_COLOUR:
        put_number(t, frequent(t, false));
        break;
    case GX_GRID_LEAST_COLOUR:
        put_number(t, frequent(t, true));
        break;
    case GX_GRID_COLOUR_COUNT:
        count_colour(t);
        break;
    case GX_GRID_FLOOD:
        flood(t);
        break;
    case GX_GRID_COVER:
    case GX_GRID_UNDERFILL:
        cover(t);
        break;
    case GX_GRID_SHIFT:
        shift(t);
        break;
    case GX_GRID_TURN:
    case GX_GRID_MIRROR:
        turn(t);
        break;
    case GX_GRID_CONNECT:
    case GX_GRID_SHOOT:
        line(t);
        break;
    case GX_GRID_GRAVITATE:
        gravitate(t);
        break;
    case GX_GRID_BOX:
    case GX_GRID_INBOX:
    case GX_GRID_OUTBOX:
    case GX_GRID_CORNERS:
    case GX_GRID_BACKDROP:
    case GX_GRID_DELTA:
        box(t);
        break;
    case GX_GRID_BESIDE:
        beside(t);
        break;
    case GX_GRID_FRONTIERS:
        frontiers(t);
        break;
    case GX_GRID_OCCURRENCES:
        occurrences(t);
        break;
    case GX_GRID_ROW_PERIOD:
    case GX_GRID_COL_PERIOD:
        period(t);
        break;
    case GX_GRID_MANHATTAN:
        manhattan(t);
        break;
    case GX_GRID_BORDERING:
        bordering(t);
        break;
    case GX_GRID_COUNT:
        break;
    }
}

/* Where the matrices of a call lie; cols: of the grids of an even batch. */
typedef struct team_call {
    const gx_grid_job *job;
    int64_t cols;
    const void *a, *b;
    int64_t lda, ldb;
    const double *table;
    int64_t ld_table;
    void *c;
    int64_t ldc;
} team_call;

/* Grid k, in memory of team_numbers(); the team has met when it is done. */
TEAM void work_on_place(const team_call *p, int64_t k, team_room *room, int32_t *memory)
{
    const gx_grid_job *job = p->job;
    bool is_even = job->height > 0, has_template = job->t_rows > 0;
    int64_t row = is_even ? k * job->height : (int64_t)p->table[k];
    int64_t rows = is_even ? job->height : (int64_t)p->table[k + p->ld_table];
    int64_t cols = is_even ? p->cols : (int64_t)p->table[k + 2 * p->ld_table];
    int64_t at = job->result == GX_GRID_NUMBER ? k : row;
    int32_t *g = memory, *work = g + job->cells, *m = work + TEAM_WORK * job->cells;
    team_grid t;
    t.job = job;
    t.room = room;
    t.rows = (int32_t)rows;
    t.cols = (int32_t)cols;
    t.cells = (int32_t)(rows * cols);
    t.g = g;
    t.m = m;
    t.m_rows = (int32_t)job->t_rows;
    t.m_cols = (int32_t)job->t_cols;
    t.work = work;
    t.c = (char *)p->c + at * (int64_t)(job->c == GX_F64 ? sizeof(double) : sizeof(float));
    t.ldc = p->ldc;
    EACH(e, t.cells) {
        int32_t i = e % t.rows, j = e / t.rows;
        g[e] = colour_at(p->a, job->a, row + i + j * p->lda, job->refused);
        if (p->b != NULL && !has_template) {
            m[e] = colour_at(p->b, job->b, row + i + j * p->ldb, job->refused);
        }
    }
    EACH(e, t.m_rows * t.m_cols) {
        int32_t i = e % t.m_rows, j = e / t.m_rows;
        m[e] = colour_at(p->b, job->b, i + j * p->ldb, job->refused);
    }
    MEET();
    work_on_grid(&t);
    MEET();
}

#endif
