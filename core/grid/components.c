/*
** Connected components of one grid in memory: see grid_int.h.
**
** One scan by rows gives each cell, or each run of cells where colours do not matter, the label of
** a neighbour that came before it, and joins labels that meet (union-find; the smaller label is the
** root).  Neighbours that are joined already are not looked at (Wu, Otoo and Suzuki, Optimizing
** two-pass connected-component labeling algorithms, 2009).  New labels ascend with the first cells
** of components, so roots do, and a last walk over the labels numbers them.
*/
#include "grid_int.h"

#include <string.h>

gx_component_rule gx_component_rule_of(const gx_label_rule *rule, int32_t most_frequent)
{
    bool is_nonzero = rule->by == GX_BY_NONZERO || rule->by == GX_BY_COLOUR;
    bool is_all = rule->by == GX_BY_ALL || rule->by == GX_BY_COLOUR_ALL;
    return (gx_component_rule){.is_eight = rule->neighbours == 8,
                               .is_of_colour = rule->by == GX_BY_COLOUR ||
                                               rule->by == GX_BY_COLOUR_NOT_BACKGROUND ||
                                               rule->by == GX_BY_COLOUR_ALL,
                               .background = is_nonzero ? 0
                                             : is_all   ? GX_NO_COLOUR
                                                        : most_frequent};
}

static inline int32_t root_of(int32_t *parent, int32_t x)
{
    while (parent[x] != x) {
        parent[x] = parent[parent[x]];
        x = parent[x];
    }
    return x;
}

static inline int32_t unite(int32_t *parent, int32_t a, int32_t b)
{
    if (a == b) {
        return a;
    }
    a = root_of(parent, a);
    b = root_of(parent, b);
    int32_t root = a < b ? a : b;
    parent[a] = parent[b] = root;
    return root;
}

enum { WIDE = 8 };

/* Is each of WIDE cells equal to the one before it? */
static inline bool repeats(const int32_t *x)
{
    uint64_t own[WIDE / 2], before[WIDE / 2], differing = 0;
    memcpy(own, x, sizeof own);
    memcpy(before, x - 1, sizeof before);
    for (int k = 0; k < WIDE / 2; k++) {
        differing |= own[k] ^ before[k];
    }
    return differing == 0;
}

/*
** One row, of cells that are joined where they are of one colour.  *next: the label that a new
** component gets.
*/
static inline __attribute__((always_inline)) void scan_row(bool is_eight, bool is_first,
                                                           int32_t background, const int32_t *row,
                                                           int64_t cols, int32_t *label,
                                                           int32_t *parent, int32_t *next)
{
    const int32_t *up = row - (is_first ? 0 : cols), *up_label = label - (is_first ? 0 : cols);
    for (int64_t j = 0; j < cols; j++) {
        int32_t c = row[j], l;
        // Where this row and the one above go on as they were, nothing new can meet.
        if (!is_first && j > 0 && j + WIDE < cols && c == row[j - 1] && up[j] == up[j - 1] &&
            repeats(row + j) && repeats(up + j + is_eight)) {
            for (int k = 0; k < WIDE; k++) {
                label[j + k] = label[j - 1];
            }
            j += WIDE - 1;
            continue;
        }
        if (c == background) {
            label[j] = 0;
            continue;
        }
        bool is_left = j > 0 && row[j - 1] == c;
        bool is_up = !is_first && up[j] == c;
        bool is_up_left = !is_first && j > 0 && up[j - 1] == c;
        bool is_up_right = is_eight && !is_first && j + 1 < cols && up[j + 1] == c;
        if (is_up) {
            bool is_new_meeting = !is_eight && is_left && !is_up_left;
            l = is_new_meeting ? unite(parent, up_label[j], label[j - 1]) : up_label[j];
        } else if (is_left || (is_eight && is_up_left)) {
            l = is_left ? label[j - 1] : up_label[j - 1];
            l = is_up_right ? unite(parent, l, up_label[j + 1]) : l;
        } else if (is_up_right) {
            l = up_label[j + 1];
        } else {
            l = *next;
            parent[l] = l;
            (*next)++;
        }
        label[j] = l;
    }
}

static inline __attribute__((always_inline)) int32_t scan(bool is_eight, int32_t background,
                                                          const int32_t *g, int64_t rows,
                                                          int64_t cols, int32_t *label,
                                                          int32_t *parent)
{
    int32_t next = 1;
    scan_row(is_eight, true, background, g, cols, label, parent, &next);
    for (int64_t i = 1; i < rows; i++) {
        scan_row(is_eight, false, background, g + i * cols, cols, label + i * cols, parent, &next);
    }
    return next;
}

// Runs --------------------------------------------------------------------------------------------

/* Where cells of a row begin or end to be of the background, ascending; how many places. */
static int64_t find_ends(int32_t background, const int32_t *row, int64_t cols, int32_t *ends)
{
    int64_t count = 0;
    int before = 0;
    for (int64_t j = 0; j < cols; j++) {
        int is_object = row[j] != background;
        ends[count] = (int32_t)j; // which stays where the next line counts it
        count += is_object ^ before;
        before = is_object;
    }
    return count;
}

/* A row's runs, which are numbered from `first` on: run k lies in [ends[2 k], ends[2 k + 1]). */
typedef struct runs {
    const int32_t *ends;
    int64_t places;
    int32_t first;
} runs;

/* Joins runs of two rows, one below the other, that touch. */
static void join_runs(bool is_eight, const runs *a, const runs *b, int64_t cols, int32_t *parent)
{
    for (int64_t p = 0, q = 0; p < a->places && q < b->places;) {
        int64_t a_end = p + 1 < a->places ? a->ends[p + 1] : cols;
        int64_t b_end = q + 1 < b->places ? b->ends[q + 1] : cols;
        if (a->ends[p] < b_end + is_eight && b->ends[q] < a_end + is_eight) {
            unite(parent, a->first + (int32_t)(p / 2), b->first + (int32_t)(q / 2));
        }
        bool is_a_first = a_end < b_end;
        p += is_a_first ? 2 : 0;
        q += is_a_first ? 0 : 2;
    }
}

/*
** The same scan where colours do not matter: runs of cells are labelled in the place of cells.  A
** row's ends stand in its labels until all rows have been joined, then each run's number does.
*/
static int32_t scan_runs(bool is_eight, int32_t background, const int32_t *g, int64_t rows,
                         int64_t cols, int32_t *label, int32_t *parent)
{
    int32_t next = 1;
    runs above = {label, 0, 1};
    for (int64_t i = 0; i < rows; i++) {
        int32_t *ends = label + i * cols;
        runs own = {ends, find_ends(background, g + i * cols, cols, ends), next};
        for (int64_t k = 0; k < own.places; k += 2) {
            parent[next] = next;
            next++;
        }
        join_runs(is_eight, &above, &own, cols, parent);
        above = own;
    }
    int32_t run = 0;
    for (int64_t i = 0; i < rows; i++) {
        int before = 0;
        for (int64_t j = 0; j < cols; j++) {
            int is_object = g[i * cols + j] != background;
            run += is_object & ~before;
            label[i * cols + j] = run & -is_object;
            before = is_object;
        }
    }
    return next;
}

int32_t gx_grid_components(const gx_component_rule *rule, const int32_t *g, int64_t rows,
                           int64_t cols, int32_t *label, int32_t *parent)
{
    int32_t next = 1, count = 0, background = rule->background;
    if (rows == 0) {
        return 0;
    }
    if (rule->is_eight && rule->is_of_colour) {
        next = scan(true, background, g, rows, cols, label, parent);
    } else if (rule->is_of_colour) {
        next = scan(false, background, g, rows, cols, label, parent);
    } else {
        next = scan_runs(rule->is_eight, background, g, rows, cols, label, parent);
    }
    parent[0] = 0;
    for (int32_t l = 1; l < next; l++) { // a parent is smaller, and has its number already
        parent[l] = parent[l] == l ? ++count : parent[parent[l]];
    }
    for (int64_t k = 0; k < rows * cols; k++) {
        label[k] = parent[label[k]];
    }
    return count;
}
