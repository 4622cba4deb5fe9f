/*
** Connected components of one grid in memory: see grid_int.h.
**
** One scan by rows gives each run of equal cells a label, and joins it with the runs above that it
** touches (union-find; the smaller label is the root).  Which cells equal their neighbours is found
** for 64 of them at a time, as bits: what has to be joined are then the few bits where two runs
** begin to touch (He, Chao and Suzuki, A run-based two-scan labeling algorithm, 2008).  Labels
** ascend with the first cells of runs, so roots do, and a last walk numbers the components.
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

// Bits of a row -----------------------------------------------------------------------------------

enum { WORD = 64 };

/* Bit k: byte k of eight that are 0 or 1. */
static inline uint64_t pack(const uint8_t bytes[8])
{
    uint64_t eight; // byte k goes to bit 56 + k: times 2^(56 - 7 k)
    memcpy(&eight, bytes, sizeof eight);
    return (eight * 0x0102040810204080u) >> 56;
}

/* The test of n <= WORD cells as bits: bit k of cell k. */
#define DEFINE_BITS(name, parameters, test)                                                        \
    static inline uint64_t name parameters                                                         \
    {                                                                                              \
        uint64_t bits = 0;                                                                         \
        int64_t k = 0;                                                                             \
        for (; k + 8 <= n; k += 8) {                                                               \
            uint8_t is[8];                                                                         \
            for (int l = 0; l < 8; l++) {                                                          \
                is[l] = test(k + l);                                                               \
            }                                                                                      \
            bits |= pack(is) << k;                                                                 \
        }                                                                                          \
        for (; k < n; k++) {                                                                       \
            bits |= (uint64_t)(test(k)) << k;                                                      \
        }                                                                                          \
        return bits;                                                                               \
    }

#define IS_EQUAL(k) (a[k] == b[k])
#define IS_OBJECT(k) (x[k] != background)
DEFINE_BITS(equal_bits, (const int32_t *a, const int32_t *b, int64_t n), IS_EQUAL)
DEFINE_BITS(object_bits, (int32_t background, const int32_t *x, int64_t n), IS_OBJECT)

/*
** Up to WORD cells of a row, from column j on.  Bits of cells outside the grid are 0.
**   goes_on      equal to the cell before it       goes_on_up  the same of the row above
**   is_object    not of the background
**   is_up        an object, equal to the cell above it
**   is_up_left, is_up_right   to the cells beside that
*/
typedef struct word {
    int64_t j, n;
    uint64_t goes_on, goes_on_up, is_object, is_up, is_up_left, is_up_right;
} word;

/* Objects alone: whatever is not of the background is equal. */
static inline word look_at_objects(bool is_first, int32_t background, const int32_t *row,
                                   int64_t cols, word w)
{
    const int32_t *x = row + w.j, *up = x - cols;
    bool is_edge = w.j == 0, is_last = w.j + w.n == cols;
    uint64_t before = w.is_object << 1 | (!is_edge && x[-1] != background);
    uint64_t all = w.n == WORD ? UINT64_MAX : ((uint64_t)1 << w.n) - 1;
    w.goes_on = ~(w.is_object ^ before) & ~(uint64_t)is_edge & all;
    if (!is_first) {
        uint64_t above = object_bits(background, up, w.n);
        before = above << 1 | (!is_edge && up[-1] != background);
        w.goes_on_up = ~(above ^ before) & ~(uint64_t)is_edge;
        w.is_up = w.is_object & above;
        w.is_up_left = w.is_object & before;
        w.is_up_right = w.is_object &
                        (above >> 1 | (uint64_t)(!is_last && up[w.n] != background) << (WORD - 1));
    }
    return w;
}

static inline __attribute__((always_inline)) word look_at(const gx_component_rule *rule,
                                                          bool is_eight, bool is_first,
                                                          const int32_t *row, int64_t cols,
                                                          int64_t j)
{
    word w = {.j = j, .n = gx_min(WORD, cols - j)};
    const int32_t *x = row + j, *up = x - cols;
    int64_t edge = j == 0; // of which there is no cell before
    w.is_object = object_bits(rule->background, x, w.n);
    if (!rule->is_of_colour) {
        return look_at_objects(is_first, rule->background, row, cols, w);
    }
    w.goes_on = equal_bits(x + edge, x + edge - 1, w.n - edge) << edge;
    if (!is_first) {
        w.goes_on_up = equal_bits(up + edge, up + edge - 1, w.n - edge) << edge;
        w.is_up = equal_bits(x, up, w.n) & w.is_object;
    }
    if (!is_first && is_eight) {
        int64_t last = w.j + w.n == cols;
        w.is_up_left = equal_bits(x + edge, up + edge - 1, w.n - edge) << edge & w.is_object;
        w.is_up_right = equal_bits(x, up + 1, w.n - last) & w.is_object;
    }
    return w;
}

/* Each run of equal cells of an object gets a label: run, and those after it. */
static inline int32_t label_runs(const word *w, const int32_t *row, int32_t background, int32_t run,
                                 int32_t *label)
{
    int64_t j = w->j;
    if (w->goes_on == UINT64_MAX) { // all of them are of the run before
        for (int k = 0; k < WORD; k++) {
            label[j + k] = label[j - 1];
        }
        return run;
    }
    for (int64_t k = 0; k < w->n; k++) {
        int32_t is_object = row[j + k] != background;
        run += is_object & ~(int32_t)(w->goes_on >> k);
        label[j + k] = run & -is_object;
    }
    return run;
}

/* Runs that touch those of the row above: each pair at the first of the cells that touch. */
static inline __attribute__((always_inline)) void join(bool is_eight, const word *w, bool was_up,
                                                       const int32_t *up_label,
                                                       const int32_t *label, int32_t *parent)
{
    uint64_t before = w->is_up << 1 | was_up; // the cell before touches the one above it
    uint64_t bits = w->is_up & ~(before & w->goes_on & w->goes_on_up);
    for (; bits != 0; bits &= bits - 1) {
        int64_t j = w->j + __builtin_ctzll(bits);
        unite(parent, up_label[j], label[j]);
    }
    if (!is_eight) {
        return;
    }
    bits = w->is_up_left & ~(w->is_up & w->goes_on_up) & ~(before & w->goes_on);
    for (; bits != 0; bits &= bits - 1) {
        int64_t j = w->j + __builtin_ctzll(bits);
        unite(parent, up_label[j - 1], label[j]);
    }
    bits = w->is_up_right & ~(w->is_up & w->goes_on_up >> 1);
    for (; bits != 0; bits &= bits - 1) {
        int64_t j = w->j + __builtin_ctzll(bits);
        unite(parent, up_label[j + 1], label[j]);
    }
}

/* The first label that no run has. */
static inline __attribute__((always_inline)) int32_t scan(const gx_component_rule *rule,
                                                          bool is_eight, const int32_t *g,
                                                          int64_t rows, int64_t cols,
                                                          int32_t *label, int32_t *parent)
{
    int32_t run = 0;
    for (int64_t i = 0; i < rows; i++) {
        const int32_t *row = g + i * cols;
        int32_t *own = label + i * cols;
        bool was_up = false;
        for (int64_t j = 0; j < cols; j += WORD) {
            word w = look_at(rule, is_eight, i == 0, row, cols, j);
            int32_t first = run + 1;
            run = label_runs(&w, row, rule->background, run, own);
            for (int32_t l = first; l <= run; l++) {
                parent[l] = l;
            }
            if (i > 0) {
                join(is_eight, &w, was_up, own - cols, own, parent);
            }
            was_up = w.is_up >> (WORD - 1);
        }
    }
    return run + 1;
}

int32_t gx_grid_components(const gx_component_rule *rule, const int32_t *g, int64_t rows,
                           int64_t cols, int32_t *label, int32_t *parent)
{
    int32_t count = 0;
    int32_t next = rule->is_eight ? scan(rule, true, g, rows, cols, label, parent)
                                  : scan(rule, false, g, rows, cols, label, parent);
    parent[0] = 0;
    for (int32_t l = 1; l < next; l++) { // a parent is smaller, and has its number already
        parent[l] = parent[l] == l ? ++count : parent[parent[l]];
    }
    for (int64_t k = 0; k < rows * cols; k++) {
        label[k] = parent[label[k]];
    }
    return count;
}
