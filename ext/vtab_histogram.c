/*
** gx_histogram(A, bins): how many elements lie in each of some bins of equal width.
**
** As NumPy's histogram: bin b has the x with edge[b] <= x < edge[b + 1], the last bin its upper
** edge too, and edge[b] = low + b (high - low) / bins in f64.  The guess (x - low) / (high - low)
** bins is off by rounding, so the edges beside it are looked at: what is counted depends on the
** edges alone.  They increase, or the bins are refused, and so the guess is a step or two away.
**
** Two streamed passes (core/exec/pass.h), the first, for the smallest and the largest element, only
** where `low` or `high` is not given.  A unit is one tile, or as many as make the work worth adding
** up their bins; counts are whole numbers, so nothing depends on the order.
**
** Memory: 16 bytes a bin; for each thread a chunk of a tile, and 8 bytes a bin twice.
*/
#include "../core/exec/pass.h"
#include "table_fn.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct histogram_options {
    double low, high;
    bool has_low, has_high;
} histogram_options;

static const gx_option histogram_keys[] = {
    {"low", GX_OPT_REAL, offsetof(histogram_options, low), offsetof(histogram_options, has_low)},
    {"high", GX_OPT_REAL, offsetof(histogram_options, high), offsetof(histogram_options, has_high)},
    {NULL, GX_OPT_END, 0, 0},
};

typedef struct histogram {
    gx_mem *mem;
    int64_t bins;
    double *edge;   /* bins + 1; owned */
    int64_t *count; /* bins; owned     */
} histogram;

/* The smallest and the largest element; NaN where there is one. */
typedef struct extent {
    double low, high;
} extent;

// Elements ----------------------------------------------------------------------------------------

/* LANES of each so that the loop is one of vectors. */
#define DEFINE_LOOPS(name, real)                                                                   \
    static void extend_##name(extent *e, const real *x, int64_t n)                                 \
    {                                                                                              \
        enum { LANES = 16 };                                                                       \
        real low[LANES], high[LANES], nan[LANES] = {0};                                            \
        for (int64_t l = 0; l < LANES; l++) {                                                      \
            low[l] = (real)INFINITY;                                                               \
            high[l] = -(real)INFINITY;                                                             \
        }                                                                                          \
        for (int64_t i = 0; i < n; i += i + LANES <= n ? LANES : 1) {                              \
            for (int64_t l = 0; l < (i + LANES <= n ? LANES : 1); l++) {                           \
                real y = x[i + l];                                                                 \
                low[l] = y < low[l] ? y : low[l];                                                  \
                high[l] = y > high[l] ? y : high[l];                                               \
                nan[l] = y == y ? nan[l] : y;                                                      \
            }                                                                                      \
        }                                                                                          \
        for (int64_t l = 0; l < LANES; l++) {                                                      \
            bool is_nan = nan[l] != 0 || isnan(e->low);                                            \
            e->low = is_nan ? (double)NAN : fmin(e->low, (double)low[l]);                          \
            e->high = is_nan ? (double)NAN : fmax(e->high, (double)high[l]);                       \
        }                                                                                          \
    }                                                                                              \
    static void tally_##name(const histogram *h, const real *x, int64_t n, int64_t *count)         \
    {                                                                                              \
        const double *edge = h->edge;                                                              \
        double low = edge[0], high = edge[h->bins], bins = (double)h->bins;                        \
        double half = isfinite(high - low) ? 1 : 0.5, width = high * half - low * half;            \
        for (int64_t i = 0; i < n; i++) {                                                          \
            double y = (double)x[i];                                                               \
            if (!(y >= low && y <= high)) {                                                        \
                continue; /* NaN as well */                                                        \
            }                                                                                      \
            int64_t b = (int64_t)((y * half - low * half) / width * bins);                         \
            b = b < h->bins ? b : h->bins - 1;                                                     \
            for (; y < edge[b]; b--) {                                                             \
            }                                                                                      \
            for (; b + 1 < h->bins && y >= edge[b + 1]; b++) {                                     \
            }                                                                                      \
            count[b]++;                                                                            \
        }                                                                                          \
    }

DEFINE_LOOPS(f64, double)
DEFINE_LOOPS(f32, float)

// The pass ----------------------------------------------------------------------------------------

typedef struct scan {
    gx_run *run;
    const gx_mat *A;
    histogram *h; /* its edges are known; NULL: the extent is looked for */
    extent *found;
    int64_t tiles, unit_tiles, chunk_rows, chunk_cols;
} scan;

/* n elements, side by side: into the part of their unit. */
static void look_at(const scan *s, const void *x, int64_t n, void *part)
{
    bool is_double = gx_number_is_double(s->A->number);
    if (s->h == NULL && is_double) {
        extend_f64(part, x, n);
    } else if (s->h == NULL) {
        extend_f32(part, x, n);
    } else if (is_double) {
        tally_f64(s->h, x, n, part);
    } else {
        tally_f32(s->h, x, n, part);
    }
}

static gx_code look_at_tile(const scan *s, int64_t tile, gx_pass_thread *thread, void *work,
                            void *part, gx_err *err)
{
    const gx_mat *A = s->A;
    gx_tile_place t = gx_tile_at(A->rows, A->cols, A->tile_rows, A->tile_cols, tile);
    for (int64_t j = 0; j < t.n; j += s->chunk_cols) {
        for (int64_t i = 0; i < t.m && gx_ok(s->run); i += s->chunk_rows) {
            int64_t rows = gx_min(s->chunk_rows, t.m - i), cols = gx_min(s->chunk_cols, t.n - j);
            GX_TRY(gx_pass_read(thread, A, t.i0 + i, t.j0 + j, rows, cols, A->number, work, rows,
                                err));
            look_at(s, work, rows * cols, part);
        }
    }
    return GX_OK;
}

static gx_code look(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                    gx_err *err)
{
    const scan *s = arg;
    if (s->h == NULL) {
        *(extent *)part = (extent){(double)INFINITY, -(double)INFINITY};
    } else {
        memset(part, 0, (size_t)s->h->bins * sizeof(int64_t));
    }
    int64_t end = gx_min(s->tiles, (unit + 1) * s->unit_tiles);
    for (int64_t tile = unit * s->unit_tiles; tile < end; tile++) {
        GX_TRY(look_at_tile(s, tile, thread, work, part, err));
    }
    return GX_OK;
}

static gx_code fold(void *arg, int64_t unit, void *part, gx_err *err)
{
    const scan *s = arg;
    (void)unit, (void)err;
    if (s->h == NULL) {
        const extent *e = part;
        s->found->low = e->low < s->found->low || isnan(e->low) ? e->low : s->found->low;
        s->found->high = e->high > s->found->high || isnan(e->high) ? e->high : s->found->high;
        return GX_OK;
    }
    for (int64_t b = 0; b < s->h->bins; b++) {
        s->h->count[b] += ((const int64_t *)part)[b];
    }
    return GX_OK;
}

/* h NULL: *found becomes the extent of A.  Else h's counts those of A. */
static bool run_pass(gx_fn *fn, const gx_mat *A, histogram *h, extent *found)
{
    enum { ELEMENTS_A_BIN = 8 }; // of a unit, at least: adding up costs little beside them
    size_t element = gx_number_bytes(A->number);
    double elements = (double)A->rows * (double)A->cols, bins = h == NULL ? 1 : (double)h->bins;
    scan s = {.run = &fn->run, .A = A, .h = h, .found = found};
    if (elements == 0) {
        return gx_ok(&fn->run);
    }
    s.tiles = gx_ceil_div(A->rows, A->tile_rows) * gx_ceil_div(A->cols, A->tile_cols);
    int64_t chunk = GX_PASS_CHUNK_BYTES / (int64_t)element;
    s.chunk_rows = gx_min(chunk, A->tile_rows);
    s.chunk_cols = gx_min(chunk / s.chunk_rows, A->tile_cols);
    double least = ELEMENTS_A_BIN * bins / ((double)A->tile_rows * (double)A->tile_cols);
    s.unit_tiles = least < (double)s.tiles ? (int64_t)ceil(least) : s.tiles;
    gx_pass pass = {.sources = &s.A,
                    .source_count = 1,
                    .units = gx_ceil_div(s.tiles, s.unit_tiles),
                    .bytes = elements * (double)element,
                    .flops = h == NULL ? elements : 8 * elements,
                    .work_bytes = (size_t)(s.chunk_rows * s.chunk_cols) * element,
                    .part_bytes = h == NULL ? sizeof(extent) : (size_t)h->bins * sizeof(int64_t),
                    .work = look,
                    .fold = fold,
                    .arg = &s};
    return gx_pass_run(&fn->run, &pass) == GX_OK;
}

// Bins --------------------------------------------------------------------------------------------

/* From the options, else from the elements; as NumPy has it where that is no interval. */
static bool choose_extent(gx_fn *fn, const histogram_options *opt, const gx_mat *A, extent *e)
{
    *e = (extent){(double)INFINITY, -(double)INFINITY};
    if (!(opt->has_low && opt->has_high) && !run_pass(fn, A, NULL, e)) {
        return false;
    }
    if (A->rows == 0 || A->cols == 0) {
        *e = (extent){0, 1};
    }
    e->low = opt->has_low ? opt->low : e->low;
    e->high = opt->has_high ? opt->high : e->high;
    if ((opt->has_low && !isfinite(opt->low)) || (opt->has_high && !isfinite(opt->high))) {
        return gx_fn_fail(fn, "low and high must be finite, not %g and %g", e->low, e->high);
    }
    if (!isfinite(e->low) || !isfinite(e->high)) {
        return gx_fn_fail(fn,
                          "%s has NaN or Inf: give \"low\" and \"high\"; what is not between them "
                          "is not counted",
                          A->label);
    }
    if (e->low > e->high) {
        return gx_fn_fail(fn, "low is %.17g but high is %.17g", e->low, e->high);
    }
    if (e->low == e->high) {
        e->low -= 0.5;
        e->high += 0.5;
    }
    return true;
}

/* Edges of bins of one width, and no counts yet. */
static bool make_bins(gx_fn *fn, extent e, histogram *h)
{
    void *memory = NULL;
    size_t bytes = 0;
    if (h->bins == INT64_MAX || !gx_matrix_bytes(h->bins + 1, 2, GX_F64, &bytes)) {
        return gx_fn_fail(fn, "%" PRId64 " bins are too many", h->bins);
    }
    if (!gx_fn_check(fn, gx_mem_calloc(fn->ctx->mem, bytes, "bins", &memory, &fn->err))) {
        return false;
    }
    h->mem = fn->ctx->mem;
    h->edge = memory;
    h->count = (int64_t *)memory + h->bins + 1;
    double width = e.high - e.low, bins = (double)h->bins;
    for (int64_t b = 0; b <= h->bins; b++) {
        double part = (double)b / bins;
        h->edge[b] = b == h->bins      ? e.high
                     : isfinite(width) ? e.low + (double)b * (width / bins)
                                       : e.low * (1 - part) + e.high * part;
        if (b > 0 && !(h->edge[b] > h->edge[b - 1])) {
            return gx_fn_fail(fn, "%" PRId64 " bins are too many from %.17g to %.17g", h->bins,
                              e.low, e.high);
        }
    }
    return true;
}

// The table ---------------------------------------------------------------------------------------

static bool begin(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    histogram *h = state;
    histogram_options opt = {0};
    extent e;
    gx_mat A;
    (void)used;
    h->bins = 10;
    if (!gx_fn_options(fn, histogram_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A) ||
        (gx_fn_has(fn, 1) && !gx_fn_int(fn, 1, "bins", &h->bins))) {
        return false;
    }
    if (h->bins < 1) {
        return gx_fn_fail(fn, "bins must be at least 1, not %" PRId64, h->bins);
    }
    *rows = h->bins;
    return gx_fn_is_ordered(fn, &A) && choose_extent(fn, &opt, &A, &e) && make_bins(fn, e, h) &&
           run_pass(fn, &A, h, NULL);
}

enum { COL_BIN, COL_LOW, COL_HIGH, COL_COUNT, COLUMNS };

static gx_cell cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    const histogram *h = state;
    (void)ctx;
    return column == COL_BIN     ? gx_cell_int(row)
           : column == COL_COUNT ? gx_cell_int(h->count[row])
                                 : gx_cell_real(h->edge[column == COL_LOW ? row : row + 1]);
}

static void clear(void *state)
{
    histogram *h = state;
    if (h->mem != NULL) {
        gx_mem_free(h->mem, h->edge);
    }
}

const gx_table_fn gx_table_histogram = {
    .def = {"gx_histogram", 1, 3, 0, NULL, 0},
    .shape = "CREATE TABLE x(bin INTEGER, low REAL, high REAL, count INTEGER, a HIDDEN, "
             "bins HIDDEN, options HIDDEN)",
    .columns = COLUMNS,
    .state_bytes = sizeof(histogram),
    .begin = begin,
    .cell = cell,
    .clear = clear,
};
