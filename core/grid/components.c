/*
** Connected components of one grid in memory: see grid_int.h.
**
** Columns, as which matrices lie, are cut into runs of equal cells; runs of neighbouring columns
** that touch are joined (union-find; the root is the run with the earlier first cell, row by row).
** Which cells equal their neighbours is found for 64 of them at a time, as bits: what has to be
** joined are then the few bits where two runs begin to touch (He, Chao and Suzuki, A run-based
** two-scan labeling algorithm, 2008).  A root begins in the row where its component does; so
** components are numbered row by row by counting those of each row, and runs that begin in the same
** row are met in the order of their columns.
*/
#include "grid_int.h"

#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#define ON_AVX2 __attribute__((target("avx2,bmi,popcnt"), noinline))
#endif

enum { WORD = 64, LANES = 8 };

bool gx_looks_for_background(const gx_label_rule *rule)
{
    return rule->by == GX_BY_NOT_BACKGROUND || rule->by == GX_BY_COLOUR_NOT_BACKGROUND;
}

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

size_t gx_runs_lay_out(int64_t rows, int64_t cols, void *memory, gx_runs *x)
{
    enum { ALIGNED = 64 };
    *x = (gx_runs){.rows = rows, .cols = cols, .words = gx_ceil_div(rows, WORD)};
    const size_t words = (size_t)(x->words * cols), runs = (size_t)(rows * cols);
    const struct {
        void *place;
        size_t bytes;
    } parts[] = {
        {&x->start, words * sizeof(uint64_t)},
        {&x->object, words * sizeof(uint64_t)},
        {&x->before, (words + 1) * sizeof(int32_t)},
        {&x->parent, (runs + LANES) * sizeof(int32_t)},
        {&x->row, (runs + LANES) * sizeof(int32_t)},
        {&x->label, (runs + 2 * LANES) * sizeof(int32_t)},
        {&x->top, (size_t)(x->words + 1) * sizeof(uint64_t)},
        {&x->first, (size_t)(rows + 1) * sizeof(int32_t)},
    };
    size_t used = 0;
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        char *at = memory == NULL ? NULL : (char *)memory + used;
        memcpy(parts[k].place, &at, sizeof at);
        used += (parts[k].bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
    }
    if (memory != NULL) {
        x->label += LANES;
        memset(x->top, 0, (size_t)(x->words + 1) * sizeof *x->top);
        x->top[0] = 1;
    }
    return used;
}

// Trees -------------------------------------------------------------------------------------------

/* Most runs are a root's or one themselves: a branch that is seldom taken. */
static inline int32_t root_of(int32_t *parent, int32_t x)
{
    int32_t up = parent[x];
    while (parent[up] != up) {
        parent[x] = parent[up];
        x = parent[up];
        up = parent[x];
    }
    return up;
}

/*
** The root of run a and of b, whose root is s.  No branch on what is not known beforehand: one root
** is joined with itself, too.
*/
static inline int32_t unite(const gx_runs *x, int32_t a, int32_t b, int32_t s)
{
    int32_t r = root_of(x->parent, a);
    int64_t of_r = ((int64_t)x->row[r] << 32) + r, of_s = ((int64_t)x->row[s] << 32) + s;
    int32_t first = (int32_t)(uint32_t)gx_min(of_r, of_s), other = r ^ s ^ first;
    x->parent[other] = x->parent[b] = first;
    return first;
}

// Bits of a column --------------------------------------------------------------------------------

/* Bit k: are cells a[k] and b[k] equal? */
static inline uint64_t equal_bits(bool are_bytes, const void *a, const void *b)
{
    uint64_t bits = 0;
#ifdef __SSE2__
    const __m128i *x = a, *y = b;
    for (int k = 0; k < WORD / 16; k++) {
        __m128i is = _mm_setzero_si128(), quarter[4];
        if (are_bytes) {
            is = _mm_cmpeq_epi8(_mm_loadu_si128(x + k), _mm_loadu_si128(y + k));
        } else {
            for (int l = 0; l < 4; l++) {
                quarter[l] =
                    _mm_cmpeq_epi32(_mm_loadu_si128(x + 4 * k + l), _mm_loadu_si128(y + 4 * k + l));
            }
            is = _mm_packs_epi16(_mm_packs_epi32(quarter[0], quarter[1]),
                                 _mm_packs_epi32(quarter[2], quarter[3]));
        }
        bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(is) << 16 * k;
    }
#else
    const uint8_t *x = a, *y = b;
    const int32_t *u = a, *v = b;
    for (int k = 0; k < WORD; k++) {
        bits |= (uint64_t)(are_bytes ? x[k] == y[k] : u[k] == v[k]) << k;
    }
#endif
    return bits;
}

/* Where a column's words are looked at: in place, or copies where a load would leave the matrix. */
typedef struct reader {
    const gx_grid_cells *cells;
    int64_t size; /* bytes of a cell */
    bool has_background;
    char background[WORD * sizeof(int32_t)];
    char copy[2][2][(WORD + 2) * sizeof(int32_t)]; /* of odd columns, of the first word */
} reader;

static inline bool is_copied(const reader *r, const char *at, int64_t j, int64_t w)
{
    return (const char *)r->cells->end - at < (WORD + 1) * r->size || (w == 0 && j == 0);
}

/* Word w of column j, with the cells before and behind it that there are; is_new: to be copied. */
static inline const char *cells_at(reader *r, const gx_runs *x, int64_t j, int64_t w, bool is_new)
{
    const char *at = (const char *)r->cells->at + (j * r->cells->ld + w * WORD) * r->size;
    if (!is_copied(r, at, j, w)) {
        return at;
    }
    char *copy = r->copy[j & 1][w == 0];
    int64_t front = w > 0, count = gx_min(WORD + 1, x->rows - w * WORD) + front;
    if (is_new) {
        memcpy(copy + (1 - front) * r->size, at - front * r->size, (size_t)(count * r->size));
    }
    return copy + r->size;
}

/* Bits of cells that are of objects and touch, in the column before, the cell beside them ... */
typedef struct touch {
    uint64_t left, up_left, down_left;
} touch;

/* Fills in the word's start and object. */
static inline __attribute__((always_inline)) touch look_at(const gx_component_rule *rule,
                                                           bool are_bytes, bool is_eight, reader *r,
                                                           gx_runs *x, int64_t j, int64_t w)
{
    uint64_t *object = x->object + j * x->words + w, *start = x->start + j * x->words + w;
    const uint64_t *left = object - x->words; // of the column before
    enum { AHEAD = 8 };
    int64_t n = x->rows - w * WORD;
    uint64_t all = n >= WORD ? UINT64_MAX : ((uint64_t)1 << n) - 1;
    uint64_t later = ~x->top[w]; // there is a cell above
    uint64_t earlier = ~(x->top[w] >> 1 | (n > WORD ? x->top[w + 1] << (WORD - 1) : 0)) &
                       (n > WORD ? UINT64_MAX : all >> 1); // there is one below
    const char *at = cells_at(r, x, j, w, true);
    touch t = {0, 0, 0};
    if (j + AHEAD < x->cols) { // a word of bytes is a line of the cache
        __builtin_prefetch((const char *)r->cells->at +
                           ((j + AHEAD) * r->cells->ld + w * WORD) * r->size);
    }
    *object = r->has_background ? all & ~equal_bits(are_bytes, at, r->background) : all;
    if (!rule->is_of_colour) {
        *start = *object & ~((*object << 1 | (w > 0 ? object[-1] >> (WORD - 1) : 0)) & later);
    } else {
        *start = *object & ~(equal_bits(are_bytes, at, at - r->size) & later);
    }
    if (j > 0 && !rule->is_of_colour) {
        t.left = *object & *left;
        t.up_left = *object & (*left << 1 | (w > 0 ? left[-1] >> (WORD - 1) : 0)) & later;
        t.down_left = *object & (*left >> 1 | (n > WORD ? left[1] << (WORD - 1) : 0)) & earlier;
    } else if (j > 0) {
        const char *beside = cells_at(r, x, j - 1, w, false);
        t.left = *object & equal_bits(are_bytes, at, beside);
        t.up_left = !is_eight ? 0 : *object & equal_bits(are_bytes, at, beside - r->size) & later;
        t.down_left =
            !is_eight ? 0 : *object & equal_bits(are_bytes, at, beside + r->size) & earlier;
    }
    return t;
}

/*
** Joins runs that touch those of the column before, each pair at the first cells that touch.
** was_left: the cell above the word touches the one beside it.
*/
static inline __attribute__((always_inline)) void join(bool is_eight, const gx_runs *x, int64_t at,
                                                       bool has_next, touch t, bool was_left)
{
    const uint64_t start = x->start[at], *left = x->start + at - x->words;
    const int32_t own = x->before[at] - 1, other = x->before[at - x->words] - 1;
    uint64_t before = t.left << 1 | was_left, upto;
    int32_t last = own, root = own < 0 ? 0 : root_of(x->parent, own);
    for (uint64_t bits = t.left & ~(before & ~start & ~*left); bits != 0; bits &= bits - 1) {
        upto = bits ^ (bits - 1);
        int32_t b = own + (int32_t)__builtin_popcountll(start & upto);
        root = b == last ? root : b; // a run that begins here is its own
        root = unite(x, other + __builtin_popcountll(*left & upto), b, root);
        last = b;
    }
    if (!is_eight) {
        return;
    }
    uint64_t bits = t.up_left & ~(t.left & ~*left) & ~(before & ~start);
    for (; bits != 0; bits &= bits - 1) {
        upto = bits ^ (bits - 1);
        int32_t b = own + (int32_t)__builtin_popcountll(start & upto);
        unite(x, other + __builtin_popcountll(*left & upto >> 1), b, root_of(x->parent, b));
    }
    uint64_t next = has_next ? left[1] & 1 : 0;
    bits = t.down_left & ~(t.left & ~(*left >> 1 | next << (WORD - 1))) &
           ~(t.left >> 1 & ~(start >> 1));
    for (; bits != 0; bits &= bits - 1) {
        upto = bits ^ (bits - 1);
        int32_t below = upto == UINT64_MAX ? (int32_t)next : 0;
        int32_t b = own + (int32_t)__builtin_popcountll(start & upto);
        unite(x, other + below + __builtin_popcountll(*left & (upto << 1 | 1)), b,
              root_of(x->parent, b));
    }
}

/* Eight runs at a time, the last of which are none: how many there are is not known beforehand. */
static inline __attribute__((always_inline)) int32_t begin_runs(const gx_runs *x, uint64_t start,
                                                                int64_t row, int32_t count)
{
    const int32_t end = count + (int32_t)__builtin_popcountll(start);
    for (; count < end; count += LANES) {
        for (int32_t k = count; k < count + LANES; k++) {
            x->parent[k] = k;
            x->row[k] = (int32_t)row + __builtin_ctzll(start | (uint64_t)1 << (WORD - 1));
            start &= start - 1;
        }
    }
    return end;
}

static inline __attribute__((always_inline)) int32_t
scan(const gx_component_rule *rule, bool are_bytes, bool is_eight, reader *r, gx_runs *x)
{
    int32_t count = 0;
    for (int64_t j = 0; j < x->cols; j++) {
        bool was_left = false;
        for (int64_t w = 0; w < x->words; w++) {
            int64_t at = j * x->words + w;
            touch t = look_at(rule, are_bytes, is_eight, r, x, j, w);
            x->before[at] = count;
            count = begin_runs(x, x->start[at], w * WORD, count);
            if (j > 0) {
                join(is_eight, x, at, w + 1 < x->words, t, was_left);
            }
            was_left = t.left >> (WORD - 1);
        }
    }
    x->before[x->words * x->cols] = count;
    return count;
}

/* Numbers of components, and the labels of runs; how many components there are. */
static inline __attribute__((always_inline)) int32_t number(gx_runs *x, int32_t count)
{
    memset(x->first, 0, (size_t)(x->rows + 1) * sizeof *x->first);
    for (int32_t k = 0; k < count; k++) {
        x->first[x->row[k] + 1] += x->parent[k] == k;
    }
    for (int64_t i = 1; i <= x->rows; i++) {
        bool is_top = (x->top[i / WORD] >> i % WORD & 1) != 0;
        x->first[i] = is_top ? 0 : x->first[i] + x->first[i - 1];
    }
    for (int32_t k = 0; k < count; k++) {
        int32_t *next = x->first + x->row[k];
        *next += x->parent[k] == k;
        x->row[k] = *next;
    }
    for (int32_t k = 0; k < count; k++) {
        x->label[k] = x->row[root_of(x->parent, k)];
    }
    return x->first[x->rows];
}

static inline __attribute__((always_inline)) int32_t find(const gx_component_rule *rule, reader *r,
                                                          gx_runs *x)
{
    bool are_bytes = r->cells->are_bytes;
    int32_t count = are_bytes && rule->is_eight ? scan(rule, true, true, r, x)
                    : are_bytes                 ? scan(rule, true, false, r, x)
                    : rule->is_eight            ? scan(rule, false, true, r, x)
                                                : scan(rule, false, false, r, x);
    return number(x, count);
}

#ifdef __x86_64__
static ON_AVX2 int32_t find_avx2(const gx_component_rule *rule, reader *r, gx_runs *x)
{
    return find(rule, r, x);
}
#endif

static bool has_avx2(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi");
#else
    return false;
#endif
}

int32_t gx_runs_find(const gx_component_rule *rule, const gx_grid_cells *cells, gx_runs *x)
{
    reader r = {.cells = cells};
    int32_t colour = rule->background;
    r.size = cells->are_bytes ? 1 : (int64_t)sizeof(int32_t);
    r.has_background =
        cells->are_bytes ? colour >= 0 && colour <= UINT8_MAX : colour != GX_NO_COLOUR;
    for (int64_t k = 0; k < WORD; k++) {
        memcpy(r.background + k * r.size,
               cells->are_bytes ? (void *)&(uint8_t){(uint8_t)colour} : (void *)&colour,
               (size_t)r.size);
    }
#ifdef __x86_64__
    if (has_avx2()) {
        return find_avx2(rule, &r, x);
    }
#endif
    return find(rule, &r, x);
}

// Labels of cells ---------------------------------------------------------------------------------

#ifdef __x86_64__
/*
** Of eight cells at a time: a cell's run is as many behind that of the first one as runs begin
** behind the first one up to it.  The bits are spread to bytes, which a product sums up.
*/
static ON_AVX2 void spread_avx2(const gx_runs *x, int64_t j, const int32_t *label, int32_t *to)
{
    const uint64_t ONES = 0x0101010101010101, DIAGONAL = 0x8040201008040201;
    const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    int64_t left = x->rows;
    for (int64_t w = 0; w < x->words; w++) {
        uint64_t start = x->start[j * x->words + w], object = x->object[j * x->words + w];
        for (int k = 0; k < WORD && left > 0; k += LANES, to += LANES, left -= LANES) {
            uint64_t begin = start >> k & 255, behind = begin & 254;
            uint64_t bytes = (((behind * ONES & DIAGONAL) + 127 * ONES) >> 7 & ONES) * ONES;
            __m256i from = _mm256_loadu_si256((const __m256i *)(label + (begin & 1) - 1));
            __m256i bits = _mm256_set1_epi32((int)(object >> k & 255));
            __m256i run = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes));
            __m256i is_object = _mm256_cmpeq_epi32(_mm256_and_si256(bits, lane), lane);
            from = _mm256_and_si256(_mm256_permutevar8x32_epi32(from, run), is_object);
            label += __builtin_popcountll(begin);
            if (left >= LANES) {
                _mm256_storeu_si256((__m256i *)to, from);
            } else {
                __m256i last = _mm256_set1_epi32((1 << (int)left) - 1);
                last = _mm256_cmpeq_epi32(_mm256_and_si256(last, lane), lane);
                _mm256_maskstore_epi32(to, last, from);
            }
        }
    }
}
#endif

void gx_runs_spread(const gx_runs *x, int64_t j, const int32_t *label, int32_t *to)
{
#ifdef __x86_64__
    if (has_avx2()) {
        spread_avx2(x, j, label, to);
        return;
    }
#endif
    for (int64_t i = 0, run = -1; i < x->rows; i++) {
        int64_t word = j * x->words + i / WORD;
        run += x->start[word] >> i % WORD & 1;
        to[i] = (x->object[word] >> i % WORD & 1) != 0 ? label[run] : 0;
    }
}

void gx_runs_labels(const gx_runs *x, int32_t *to, int64_t ld)
{
    for (int64_t j = 0; j < x->cols; j++) {
        gx_runs_spread(x, j, x->label + x->before[j * x->words], to + j * ld);
    }
}
