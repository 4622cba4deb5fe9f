/*
** Operations on grids by a team of threads that has one grid: the reference's team is one thread,
** the device's a block.
**
** The grid, a mask or template, and what is worked in lie as 32-bit numbers, by columns, in memory
** that the team shares: a colour for each cell, and 4 numbers more.  Each function is called by the
** whole team.  It comes with the memory that it reads written and met for (MEET), and meets before
** it writes what others may still read.
**
** Components are trees of cells by rows, whose roots are their first cells: roots are joined by an
** exchange that succeeds if the root is still one (Jaiganesh and Burtscher 2018).  Numbers of
** components are then a sum over the cells before.
**
** What each operation gives is core/grid's; the tests hold both against each other.
*/
#ifndef GX_GRID_TEAM_H
#define GX_GRID_TEAM_H

#include "../core/base/backend.h"

#ifdef __CUDACC__
#define TEAM static __device__ __forceinline__
#define TEAM_CALL static __device__ __noinline__
#define RANK ((int32_t)threadIdx.x)
#define THREADS ((int32_t)blockDim.x)
#define MEET() __syncthreads()
#define TEAM_ADD(at, by) atomicAdd(at, by)
#define TEAM_LEAST(at, x) atomicMin(at, x)
#define TEAM_MOST(at, x) atomicMax(at, x)
#define TEAM_SWAP(at, old, x) atomicCAS(at, old, x)
typedef unsigned long long team_key;
#else
#define TEAM static inline
#define TEAM_CALL static
#define RANK 0
#define THREADS 1
#define MEET() ((void)0)
#define TEAM_ADD(at, by) (*(at) += (by))
#define TEAM_LEAST(at, x) (*(at) = *(at) < (x) ? *(at) : (x))
#define TEAM_MOST(at, x) (*(at) = *(at) > (x) ? *(at) : (x))
#define TEAM_SWAP(at, old, x) team_swap(at, old, x)
typedef uint64_t team_key;
static inline int32_t team_swap(int32_t *at, int32_t old, int32_t x)
{
    int32_t was = *at;
    *at = was == old ? x : was;
    return was;
}
#endif

#define EACH(k, limit) for (int32_t k = RANK; k < (limit); k += THREADS)

enum { TEAM_WORK = 4, TEAM_THREADS = 1024, TEAM_WORDS = 8 };

/* What a team shares beside a grid's memory. */
typedef struct team_room {
    team_key key[2];
    int32_t word[TEAM_WORDS];
    int32_t sum[TEAM_THREADS];
} team_room;

/* A grid: x[k] is cell (k % rows, k / rows). */
typedef struct team_grid {
    const gx_grid_job *job;
    team_room *room;
    int32_t rows, cols, cells;
    const int32_t *g, *m; /* m: a mask, or a template of m_rows x m_cols */
    int32_t m_rows, m_cols;
    int32_t *work; /* TEAM_WORK * cells numbers                          */
    void *c;       /* the grid's place in the result, or its number      */
    int64_t ldc;
} team_grid;

/* Numbers of a team's memory, where the largest grid and a template have so many cells. */
static inline int64_t team_numbers(const gx_grid_job *job)
{
    int64_t of_b = job->t_rows * job->t_cols;
    return (1 + TEAM_WORK) * job->cells + (of_b > job->cells ? of_b : job->cells);
}

// In and out --------------------------------------------------------------------------------------

TEAM int32_t colour_at(const void *from, gx_number number, int64_t at, int64_t *refused)
{
    double x = number == GX_F64 ? ((const double *)from)[at] : (double)((const float *)from)[at];
    int32_t c = x > -2147483648.0 && x < 2147483648.0 ? (int32_t)x : 0;
    if ((double)c != x) {
        *refused = 1;
    }
    return c;
}

TEAM void put_number(const team_grid *t, double x)
{
    if (RANK == 0) {
        *(double *)t->c = x;
    }
}

TEAM void put_cell(const team_grid *t, int32_t k, int32_t x)
{
    int64_t at = k % t->rows + k / t->rows * t->ldc;
    if (t->job->c == GX_F64) {
        ((double *)t->c)[at] = (double)x;
    } else {
        ((float *)t->c)[at] = (float)x;
    }
}

/* The words that a function writes first: all of them are x. */
TEAM void set_words(const team_grid *t, int32_t x)
{
    MEET();
    EACH(k, TEAM_WORDS) {
        t->room->word[k] = x;
    }
    MEET();
}

TEAM void clear(int32_t *x, int32_t count)
{
    EACH(k, count) {
        x[k] = 0;
    }
    MEET();
}

/* x[k] += x[0] + ... + x[k - 1], each thread for some that follow each other. */
TEAM void add_up(const team_grid *t, int32_t *x, int32_t count)
{
    int32_t *sum = t->room->sum, each = (count + THREADS - 1) / THREADS, all = 0;
    int32_t first = RANK * each, end = first + each < count ? first + each : count;
    for (int32_t k = first; k < end; k++) {
        all += x[k];
    }
    sum[RANK] = all;
    MEET();
    for (int32_t step = 1; step < THREADS; step *= 2) {
        int32_t before = RANK >= step ? sum[RANK - step] : 0;
        MEET();
        sum[RANK] += before;
        MEET();
    }
    all = sum[RANK] - all;
    for (int32_t k = first; k < end; k++) {
        all += x[k];
        x[k] = all;
    }
    MEET();
}

// Colours -----------------------------------------------------------------------------------------

/*
** The colours of a grid as numbers of slots: those from the least one on, where all between have
** room, else places in the sorted grid.
*/
typedef struct team_slots {
    int32_t low, count;
    const int32_t *sorted; /* in work[0 .. 2 cells); NULL: not sorted            */
    int32_t *tally;        /* a number for each slot: work[2 cells ...), undefined */
} team_slots;

/* Ascending, of a power of two of numbers (Batcher 1968). */
TEAM void sort_numbers(int32_t *x, int32_t count)
{
    for (int32_t run = 2; run <= count; run *= 2) {
        for (int32_t apart = run / 2; apart > 0; apart /= 2) {
            EACH(k, count) {
                int32_t other = k ^ apart;
                bool is_up = (k & run) == 0;
                if (other > k && (x[k] > x[other]) == is_up) {
                    int32_t least = x[other];
                    x[other] = x[k];
                    x[k] = least;
                }
            }
            MEET();
        }
    }
}

/* The first place among count ascending numbers of one that is not below x. */
TEAM int32_t place_among(const int32_t *sorted, int32_t count, int32_t x)
{
    int32_t low = 0, high = count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        bool is_below = sorted[middle] < x;
        low = is_below ? middle + 1 : low;
        high = is_below ? high : middle;
    }
    return low;
}

TEAM team_slots find_slots(const team_grid *t)
{
    int32_t low = t->g[0], high = t->g[0], *word = t->room->word;
    EACH(k, t->cells) {
        low = t->g[k] < low ? t->g[k] : low;
        high = t->g[k] > high ? t->g[k] : high;
    }
    set_words(t, low);
    TEAM_LEAST(&word[0], low);
    TEAM_MOST(&word[1], high);
    MEET();
    team_slots s = {word[0], 0, NULL, t->work + 2 * t->cells};
    int64_t range = (int64_t)word[1] - word[0] + 1;
    if (range <= 2 * t->cells) {
        s.count = (int32_t)range;
        return s;
    }
    int32_t all = 1;
    while (all < t->cells) {
        all *= 2;
    }
    EACH(k, all) {
        t->work[k] = k < t->cells ? t->g[k] : INT32_MAX;
    }
    MEET();
    sort_numbers(t->work, all);
    s.count = t->cells;
    s.sorted = t->work;
    return s;
}

TEAM int32_t slot_of(const team_slots *s, int32_t colour)
{
    return s->sorted == NULL ? colour - s->low : place_among(s->sorted, s->count, colour);
}

/* The most or the least frequent colour, of several the smallest. */
TEAM_CALL int32_t frequent(const team_grid *t, bool is_least)
{
    team_slots s = find_slots(t);
    team_key *key = &t->room->key[0];
    clear(s.tally, s.count);
    EACH(k, t->cells) {
        TEAM_ADD(&s.tally[slot_of(&s, t->g[k])], 1);
    }
    if (RANK == 0) {
        *key = is_least ? UINT64_MAX : 0;
    }
    MEET();
    team_key best = *key;
    MEET();
    EACH(k, s.count) {
        uint32_t behind = s.sorted == NULL ? (uint32_t)k : (uint32_t)s.sorted[k] - (uint32_t)s.low;
        team_key own = (team_key)(uint32_t)s.tally[k] << 32;
        own |= is_least ? behind : UINT32_MAX - behind;
        bool is_better = is_least ? own < best : own > best;
        best = s.tally[k] > 0 && is_better ? own : best;
    }
    if (is_least) {
        TEAM_LEAST(key, best);
    } else {
        TEAM_MOST(key, best);
    }
    MEET();
    uint32_t behind = (uint32_t)*key;
    return (int32_t)((uint32_t)s.low + (is_least ? behind : UINT32_MAX - behind));
}

TEAM_CALL void partition(const team_grid *t)
{
    bool is_without = t->job->id == GX_GRID_FGPARTITION;
    int32_t most = is_without ? frequent(t, false) : 0, n = t->cells;
    team_slots s = find_slots(t);
    int32_t *first = s.tally, *number = s.sorted == NULL ? t->work : t->work + 3 * n;
    EACH(k, s.count) {
        first[k] = INT32_MAX;
    }
    clear(number, n);
    EACH(k, n) {
        int32_t by_rows = k % t->rows * t->cols + k / t->rows;
        TEAM_LEAST(&first[slot_of(&s, t->g[k])], by_rows);
    }
    MEET();
    EACH(k, s.count) {
        bool is_there = first[k] < n;
        if (is_there && !(is_without && slot_of(&s, most) == k)) {
            number[first[k]] = 1;
        }
    }
    MEET();
    add_up(t, number, n);
    EACH(k, n) {
        bool is_out = is_without && t->g[k] == most;
        put_cell(t, k, is_out ? 0 : number[first[slot_of(&s, t->g[k])]]);
    }
}

TEAM_CALL void count_sizes(const team_grid *t)
{
    int32_t *tally = t->work;
    clear(tally, t->cells + 1);
    EACH(k, t->cells) {
        bool is_label = t->g[k] >= 0 && t->g[k] <= t->cells;
        if (is_label) {
            TEAM_ADD(&tally[t->g[k]], 1);
        } else {
            *t->job->refused = 1;
        }
    }
    MEET();
    EACH(k, t->cells) {
        bool is_object = t->g[k] > 0 && t->g[k] <= t->cells;
        put_cell(t, k, is_object ? tally[t->g[k]] : 0);
    }
}

TEAM void count_colour(const team_grid *t)
{
    int32_t count = 0;
    set_words(t, 0);
    EACH(k, t->cells) {
        count += t->g[k] == t->job->number[0];
    }
    TEAM_ADD(&t->room->word[0], count);
    MEET();
    put_number(t, t->room->word[0]);
}

TEAM void cover(const team_grid *t)
{
    bool is_cover = t->job->id == GX_GRID_COVER;
    int32_t most = frequent(t, false), colour = is_cover ? most : (int32_t)t->job->number[0];
    EACH(k, t->cells) {
        bool is_taken = t->m[k] != 0 && (is_cover || t->g[k] == most);
        put_cell(t, k, is_taken ? colour : t->g[k]);
    }
}

// Components --------------------------------------------------------------------------------------

/* Cells are of objects unless they are of the background, or, is_alone, if they are of it. */
typedef struct team_rule {
    bool is_eight, is_of_colour, has_background, is_alone;
    int32_t background;
} team_rule;

TEAM int32_t root_of(volatile int32_t *parent, int32_t x)
{
    int32_t up = parent[x], next = parent[up];
    while (up != next) {
        parent[x] = next;
        x = up;
        up = next;
        next = parent[up];
    }
    return up;
}

TEAM void join_cells(int32_t *parent, int32_t a, int32_t b)
{
    bool is_done = false;
    while (!is_done) {
        a = root_of(parent, a);
        b = root_of(parent, b);
        int32_t first = a < b ? a : b, other = a < b ? b : a;
        is_done = a == b || TEAM_SWAP(&parent[other], other, first) == other;
    }
}

TEAM bool is_object(const team_rule *r, int32_t colour)
{
    return r->is_alone ? colour == r->background
                       : !r->has_background || colour != r->background;
}

/* Are cells k and l, in the grid both, of one object? */
TEAM bool is_joined(const team_grid *t, const team_rule *r, int32_t k, int32_t l)
{
    return r->is_of_colour ? t->g[k] == t->g[l] : is_object(r, t->g[l]);
}

/* work[r] = the first cell, by rows, of the component of cell r; of no object: r itself. */
TEAM_CALL void find_components(const team_grid *t, const team_rule *rule)
{
    int32_t *parent = t->work, w = t->cols, m = t->rows;
    MEET();
    EACH(r, t->cells) {
        parent[r] = r;
    }
    MEET();
    EACH(r, t->cells) {
        int32_t i = r / w, j = r % w, k = i + j * m;
        if (!is_object(rule, t->g[k])) {
            continue;
        }
        bool is_left = j > 0 && is_joined(t, rule, k, k - m);
        bool is_up = i > 0 && is_joined(t, rule, k, k - 1);
        bool is_corner = i > 0 && j > 0 && is_joined(t, rule, k, k - 1 - m);
        if (is_left) {
            join_cells(parent, r, r - 1);
        }
        if (is_up && !(is_left && is_corner)) { // else by the corner
            join_cells(parent, r, r - w);
        }
        if (rule->is_eight && is_corner && !is_left && !is_up) {
            join_cells(parent, r, r - w - 1);
        }
        if (rule->is_eight && !is_up && i > 0 && j + 1 < w && is_joined(t, rule, k, k - 1 + m)) {
            join_cells(parent, r, r - w + 1);
        }
    }
    MEET();
    EACH(r, t->cells) { // each writes its own alone, so that roots stay there
        int32_t first = r;
        for (const volatile int32_t *at = parent; at[first] != first; first = at[first]) {
        }
        parent[r] = first;
    }
    MEET();
}

TEAM_CALL void label(const team_grid *t)
{
    gx_grid_by by = t->job->rule.by;
    bool is_any = by == GX_BY_NOT_BACKGROUND || by == GX_BY_COLOUR_NOT_BACKGROUND;
    bool is_all = by == GX_BY_ALL || by == GX_BY_COLOUR_ALL;
    team_rule rule = {t->job->rule.neighbours == 8,
                      by == GX_BY_COLOUR || by == GX_BY_COLOUR_ALL ||
                          by == GX_BY_COLOUR_NOT_BACKGROUND,
                      !is_all, false, is_any ? frequent(t, false) : 0};
    int32_t *number = t->work + t->cells;
    find_components(t, &rule);
    EACH(r, t->cells) {
        int32_t k = r / t->cols + r % t->cols * t->rows;
        number[r] = t->work[r] == r && is_object(&rule, t->g[k]);
    }
    MEET();
    add_up(t, number, t->cells);
    EACH(k, t->cells) {
        int32_t r = k % t->rows * t->cols + k / t->rows;
        put_cell(t, k, is_object(&rule, t->g[k]) ? number[t->work[r]] : 0);
    }
}

TEAM_CALL void flood(const team_grid *t)
{
    const int64_t *n = t->job->number;
    bool is_inside = n[0] >= 0 && n[0] < t->rows && n[1] >= 0 && n[1] < t->cols;
    int32_t i = is_inside ? (int32_t)n[0] : 0, j = is_inside ? (int32_t)n[1] : 0;
    team_rule rule = {n[3] == 8, true, true, true, t->g[i + j * t->rows]};
    if (is_inside) {
        find_components(t, &rule);
    }
    EACH(k, t->cells) {
        int32_t r = k % t->rows * t->cols + k / t->rows;
        bool is_filled = is_inside && t->work[r] == t->work[i * t->cols + j];
        put_cell(t, k, is_filled ? (int32_t)n[2] : t->g[k]);
    }
}

#endif
