/*
** gx_topk(A, k): the k largest elements of each row, or column, as rows of a table.
**
** What a search wants of a matrix of scores.  Through gx_cells and a window function it costs about
** a microsecond an element; here it is one pass and a comparison.
**
** A streamed pass (core/exec/pass.h): each line (row; with "axis":0 column) keeps its k best so far
** in a heap whose root is the worst of them: an element that is no better than the root, which
** nearly all are not, costs one comparison with a row of roots beside each other.  Which are the
** best does not depend on the order of looking, so threads look at different tiles:
**
**   lines that lie in one tile   its thread has their heaps to itself;
**   few of each line             it begins heaps of its own, whose entries must be better than what
**                                is known already, and they are merged in the order of the tiles;
**   many                         threads read, and the tiles are looked at in their order.
**
** In the end each heap is sorted.  Order: larger first, of equals the one with the smaller index,
** NaN last; "smallest" turns the signs round.
**
** Memory: 16 bytes a result; for each thread a chunk of a tile, and heaps or tiles.
*/
#include "../core/base/best.h"
#include "../core/exec/pass.h"
#include "plan_row.h"
#include "table_fn.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct topk_options {
    int64_t axis;
    bool has_axis, is_smallest;
} topk_options;

/* Down the columns (axis 0) when that is asked for, or when A is one. */
static const gx_option topk_keys[] = {
    {"axis", GX_OPT_INT, offsetof(topk_options, axis), offsetof(topk_options, has_axis)},
    {"smallest", GX_OPT_BOOL, offsetof(topk_options, is_smallest), 0},
    {NULL, GX_OPT_END, 0, 0},
};

/* The heaps of all lines, one after the other: count entries each. */
typedef struct topk {
    gx_mem *mem;
    int64_t lines, count;
    double *value;             /* the sign turned round where the smallest are wanted */
    int64_t *index;            /* in the line                                        */
    bool is_smallest, is_down; /* lines are columns of A                  */
} topk;

// Heaps -------------------------------------------------------------------------------------------

/* The heaps of some lines: `count` entries each, and the roots of all once more, side by side. */
typedef struct heaps {
    double *value;
    int64_t *index;
    double *root;
    int64_t count;
} heaps;

static void look_at(const heaps *h, int64_t line, double x, int64_t x_index)
{
    double *value = h->value + line * h->count;
    int64_t *index = h->index + line * h->count;
    if (gx_best_is_worse(value[0], index[0], x, x_index)) {
        gx_best_sift(value, index, h->count, x, x_index);
        // What is known of the line may be better than its own root still.
        h->root[line] = value[0] > h->root[line] || isnan(h->root[line]) ? value[0] : h->root[line];
    }
}

/*
** n elements from x on: of as many lines from `line` on, all of index x_index (is_across); or of
** one line, of the indexes from x_index on.
*/
#define DEFINE_ELEMENTS(name, real, is_across)                                                     \
    static void name(const heaps *h, const real *x, double sign, int64_t line, int64_t n,          \
                     int64_t x_index)                                                              \
    {                                                                                              \
        enum { GROUP = 16 };                                                                       \
        for (int64_t i = 0; i < n; i += GROUP) {                                                   \
            int64_t end = gx_min(i + GROUP, n);                                                    \
            double root = h->root[line];                                                           \
            int better = 0;                                                                        \
            for (int64_t l = i; l < end; l++) {                                                    \
                better |= !(sign * (double)x[l] <= ((is_across) ? h->root[line + l] : root));      \
            }                                                                                      \
            for (int64_t l = i; better && l < end; l++) {                                          \
                int64_t at = (is_across) ? line + l : line;                                        \
                if (!(sign * (double)x[l] <= h->root[at])) {                                       \
                    look_at(h, at, sign *(double)x[l], (is_across) ? x_index : x_index + l);       \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_ELEMENTS(across_f64, double, true)
DEFINE_ELEMENTS(across_f32, float, true)
DEFINE_ELEMENTS(along_f64, double, false)
DEFINE_ELEMENTS(along_f32, float, false)

// The pass ----------------------------------------------------------------------------------------

/* How a tile's elements get into the heaps of all lines: see above. */
typedef enum way { OWN_LINES, OWN_HEAPS, IN_ORDER } way;

typedef struct scan {
    gx_run *run;
    const gx_mat *A;
    topk *top;
    way way;
    int64_t chunk_cols, most; /* most: entries of a heap of a tile's own */
    double *root;             /* of all lines                            */
    pthread_mutex_t lock;     /* guards it where heaps are merged        */
} scan;

/* A tile, and the lines that it has a part of. */
typedef struct rectangle {
    gx_tile_place at;
    int64_t line, lines;
} rectangle;

static rectangle tile_of(const scan *s, int64_t tile)
{
    const gx_mat *A = s->A;
    gx_tile_place at = gx_tile_at(A->rows, A->cols, A->tile_rows, A->tile_cols, tile);
    return (rectangle){at, s->top->is_down ? at.j0 : at.i0, s->top->is_down ? at.n : at.m};
}

static heaps heaps_of_all(const scan *s, int64_t line)
{
    const topk *top = s->top;
    return (heaps){.value = top->value + line * top->count,
                   .index = top->index + line * top->count,
                   .root = s->root + line,
                   .count = top->count};
}

/* Heaps in a part: values, indices, roots. */
static heaps heaps_in(const scan *s, int64_t lines, void *part)
{
    heaps h = {.value = part, .count = s->most};
    h.index = (int64_t *)(h.value + lines * h.count);
    h.root = (double *)(h.index + lines * h.count);
    return h;
}

static size_t heap_bytes(int64_t lines, int64_t count)
{
    return (size_t)(lines * (2 * count + 1)) * sizeof(double);
}

static void empty(const heaps *h, int64_t lines)
{
    for (int64_t e = 0; e < lines * h->count; e++) {
        h->value[e] = (double)NAN;
        h->index[e] = INT64_MAX;
    }
}

/* Rows [0, m) and columns [j, j + n) of a tile, at a, go through its lines' heaps. */
static void fold(const scan *s, const heaps *h, const rectangle *r, int64_t j, int64_t n,
                 const void *a, int64_t lda)
{
    double sign = s->top->is_smallest ? -1 : 1;
    bool is_double = gx_number_is_double(s->A->number);
    for (int64_t c = 0; c < n; c++) {
        const void *column = gx_at(a, s->A->number, lda, 0, c);
        if (s->top->is_down && is_double) {
            along_f64(h, column, sign, j + c, r->at.m, r->at.i0);
        } else if (s->top->is_down) {
            along_f32(h, column, sign, j + c, r->at.m, r->at.i0);
        } else if (is_double) {
            across_f64(h, column, sign, 0, r->at.m, r->at.j0 + j + c);
        } else {
            across_f32(h, column, sign, 0, r->at.m, r->at.j0 + j + c);
        }
    }
}

static gx_code look_at_tile(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                            gx_err *err)
{
    scan *s = arg;
    rectangle r = tile_of(s, unit);
    if (s->way == IN_ORDER) {
        return gx_pass_read(thread, s->A, r.at.i0, r.at.j0, r.at.m, r.at.n, s->A->number, part,
                            r.at.m, err);
    }
    heaps h = heaps_of_all(s, r.line);
    if (s->way == OWN_HEAPS) {
        h = heaps_in(s, r.lines, part);
        empty(&h, r.lines);
        pthread_mutex_lock(&s->lock);
        memcpy(h.root, s->root + r.line, (size_t)r.lines * sizeof(double));
        pthread_mutex_unlock(&s->lock);
    }
    for (int64_t j = 0; j < r.at.n && gx_ok(s->run); j += s->chunk_cols) {
        int64_t n = gx_min(s->chunk_cols, r.at.n - j);
        GX_TRY(gx_pass_read(thread, s->A, r.at.i0, r.at.j0 + j, r.at.m, n, s->A->number, work,
                            r.at.m, err));
        fold(s, &h, &r, j, n, work, r.at.m);
    }
    return GX_OK;
}

/* A tile's heaps, or its elements, join those of all. */
static gx_code merge_tile(void *arg, int64_t unit, void *part, gx_err *err)
{
    scan *s = arg;
    rectangle r = tile_of(s, unit);
    heaps all = heaps_of_all(s, r.line), own = heaps_in(s, r.lines, part);
    (void)err;
    pthread_mutex_lock(&s->lock);
    if (s->way == IN_ORDER) {
        fold(s, &all, &r, 0, r.at.n, part, r.at.m);
    }
    for (int64_t line = 0; line < r.lines && s->way == OWN_HEAPS; line++) {
        for (int64_t e = line * own.count; e < (line + 1) * own.count; e++) {
            if (own.index[e] != INT64_MAX) {
                look_at(&all, line, own.value[e], own.index[e]);
            }
        }
    }
    pthread_mutex_unlock(&s->lock);
    return GX_OK;
}

static void choose_way(scan *s)
{
    const int64_t FEW = 8;
    const gx_mat *A = s->A;
    bool is_down = s->top->is_down;
    int64_t length = is_down ? A->tile_rows : A->tile_cols;
    s->most = gx_min(s->top->count, length);
    s->way = length >= (is_down ? A->rows : A->cols) ? OWN_LINES
             : s->top->count <= length / FEW         ? OWN_HEAPS
                                                     : IN_ORDER;
    s->chunk_cols = GX_PASS_CHUNK_BYTES / (A->tile_rows * (int64_t)gx_number_bytes(A->number));
    s->chunk_cols = gx_max(1, gx_min(s->chunk_cols, A->tile_cols));
}

static gx_pass pass_of(scan *s)
{
    const gx_mat *A = s->A;
    size_t element = gx_number_bytes(A->number);
    double elements = (double)A->rows * (double)A->cols;
    int64_t lines = s->top->is_down ? A->tile_cols : A->tile_rows;
    return (gx_pass){
        .sources = &s->A,
        .source_count = 1,
        .units = gx_ceil_div(A->rows, A->tile_rows) * gx_ceil_div(A->cols, A->tile_cols),
        .bytes = elements * (double)element,
        .flops = elements,
        .work_bytes = (size_t)(A->tile_rows * s->chunk_cols) * element,
        .part_bytes = s->way == OWN_LINES   ? 0
                      : s->way == OWN_HEAPS ? heap_bytes(lines, s->most)
                                            : (size_t)(A->tile_rows * A->tile_cols) * element,
        .work = look_at_tile,
        .fold = s->way == OWN_LINES ? NULL : merge_tile,
        .arg = s};
}

void gx_topk_predict(gx_run *run, const gx_mat *A, int64_t k, gx_cost *cost, gx_terms *terms)
{
    topk top = {.is_down = A->cols == 1};
    scan s = {.run = run, .A = A, .top = &top};
    top.count = gx_min(k, top.is_down ? A->rows : A->cols);
    *cost = (gx_cost){0};
    *terms = (gx_terms){0};
    if (A->rows > 0 && A->cols > 0) {
        choose_way(&s);
        gx_pass pass = pass_of(&s);
        cost->bytes_read = cost->bytes_up = pass.bytes;
        cost->flops = pass.flops;
        cost->calls = cost->loads = pass.units;
        gx_predict_pass(run, cost, A->number, 1, terms);
    }
}

static void pass(gx_fn *fn, const gx_mat *A, topk *top)
{
    scan s = {.run = &fn->run, .A = A, .top = top};
    choose_way(&s);
    s.root = gx_fn_alloc(fn, (size_t)top->lines * sizeof(double), "results");
    for (int64_t line = 0; line < top->lines && s.root != NULL; line++) {
        s.root[line] = (double)NAN;
    }
    pthread_mutex_init(&s.lock, NULL);
    gx_pass streamed = pass_of(&s);
    gx_pass_run(&fn->run, &streamed);
    pthread_mutex_destroy(&s.lock);
}

/* Heaps of entries that are worse than any element. */
static bool make_heaps(gx_fn *fn, topk *top)
{
    int64_t entries;
    size_t bytes;
    void *memory;
    if (!gx_mul_i64(top->lines, top->count, &entries) ||
        !gx_matrix_bytes(entries, 2, GX_F64, &bytes)) {
        return gx_fn_fail(fn, "%" PRId64 " of each of %" PRId64 " lines are too many", top->count,
                          top->lines);
    }
    if (!gx_fn_check(fn, gx_mem_alloc(fn->ctx->mem, bytes, "results", &memory, &fn->err))) {
        return false;
    }
    top->mem = fn->ctx->mem;
    top->value = memory;
    top->index = (int64_t *)memory + entries;
    for (int64_t e = 0; e < entries; e++) {
        top->value[e] = (double)NAN;
        top->index[e] = INT64_MAX;
    }
    return true;
}

// The table ---------------------------------------------------------------------------------------

static bool begin(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    topk *top = state;
    topk_options opt = {.axis = 1};
    gx_mat A;
    int64_t k;
    (void)used;
    if (!gx_fn_options(fn, topk_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_size(fn, 1, "k", &k) || !gx_fn_is_ordered(fn, &A)) {
        return false;
    }
    if (opt.has_axis && opt.axis != 0 && opt.axis != 1) {
        return gx_fn_fail(fn, "axis is %" PRId64 " but must be 0 (down the columns) or 1 (along "
                              "the rows)", opt.axis);
    }
    top->is_down = opt.has_axis ? opt.axis == 0 : A.cols == 1;
    top->is_smallest = opt.is_smallest;
    top->lines = top->is_down ? A.cols : A.rows;
    top->count = gx_min(k, top->is_down ? A.rows : A.cols);
    *rows = 0;
    if (top->lines == 0 || top->count == 0) {
        return true;
    }
    if (!make_heaps(fn, top)) {
        return false;
    }
    pass(fn, &A, top);
    for (int64_t line = 0; line < top->lines && gx_run_poll(&fn->run) == GX_OK; line++) {
        gx_best_sort(top->value + line * top->count, top->index + line * top->count, top->count);
    }
    *rows = top->lines * top->count;
    return gx_ok(&fn->run);
}

enum { COL_I, COL_J, COL_VALUE, COL_RANK, COLUMNS };

static gx_cell cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    const topk *top = state;
    int64_t line = row / top->count;
    (void)ctx;
    if (column == COL_VALUE) {
        return gx_cell_real(top->is_smallest ? -top->value[row] : top->value[row]);
    }
    bool is_line = (column == COL_I) != top->is_down;
    return gx_cell_int(column == COL_RANK ? row % top->count : is_line ? line : top->index[row]);
}

static void clear(void *state)
{
    topk *top = state;
    if (top->mem != NULL) {
        gx_mem_free(top->mem, top->value);
    }
}

const gx_table_fn gx_table_topk = {
    .def = {"gx_topk", 2, 3, 0, NULL, 0},
    .shape = "CREATE TABLE x(i INTEGER, j INTEGER, value REAL, rank INTEGER, a HIDDEN, k HIDDEN, "
             "options HIDDEN)",
    .columns = COLUMNS,
    .state_bytes = sizeof(topk),
    .begin = begin,
    .cell = cell,
    .clear = clear,
};
