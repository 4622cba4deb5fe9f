/*
** Nearest neighbours among listed rows: for each query the best of its candidates, as another index
** has found them.
**
** The pairs of a batch are sorted by row, so that they lie strip by strip; a strip without any is
** not read, and of the others only the rows from the first to the last that is wanted.  Merits are
** GX_MERIT's, so the scores are those that a search among all rows gives.
**
** A pair costs GX_MERIT as much as some dozen pairs cost GX_NEAREST.  Where candidates are more
** than one row in MANY the search is the one among all rows (alg_knn.c), which is told by a bit for
** each row and query which are candidates; it reads no strip without any.
**
** A tile's columns are what is contiguous: a row by itself costs a page for each of its columns.
**
** Memory: 16 bytes a candidate, beside what alg_knn.c says, and as many while they are sorted; the
** bits take less.
*/
#include "dense.h"
#include "knn_int.h"

#include "../base/best.h"

#include <inttypes.h>
#include <string.h>

/* Pairs of one call of GX_MERIT. */
enum { PAIRS = 4096 };

/* One row in so many is a candidate: the search among all rows is faster from here on. */
enum { MANY = 64 };

typedef struct listed {
    gx_knn_search *search;
    gx_knn_pair *pair; /* by row */
    int64_t pairs;
    size_t merit_bytes; /* GX_MERIT's own */
} listed;

// The candidates ----------------------------------------------------------------------------------

static bool is_before(const gx_knn_pair *x, const gx_knn_pair *y)
{
    return x->row < y->row || (x->row == y->row && x->query < y->query);
}

/* By row, digit by digit; those of a row stay in their order, which is the queries'. */
static void sort(gx_knn_pair *pair, gx_knn_pair *spare, int64_t count, int64_t rows)
{
    enum { BITS = 8, DIGITS = 1 << BITS };
    for (int shift = 0; (rows - 1) >> shift > 0; shift += BITS) {
        int64_t place[DIGITS + 1] = {0};
        for (int64_t e = 0; e < count; e++) {
            place[(pair[e].row >> shift) % DIGITS + 1]++;
        }
        for (int digit = 1; digit < DIGITS; digit++) {
            place[digit] += place[digit - 1];
        }
        for (int64_t e = 0; e < count; e++) {
            spare[place[(pair[e].row >> shift) % DIGITS]++] = pair[e];
        }
        memcpy(pair, spare, (size_t)count * sizeof *pair);
    }
}

/* The number at (j, c) of the batch's candidates is that of a row of E, or -1. */
static gx_code check_id(const gx_knn_search *s, int64_t j, int64_t c, double id, gx_err *err)
{
    const gx_knn_args *args = s->args;
    int64_t rows = args->E->rows;
    if (!(id >= -1 && id < (double)rows && id == (double)(int64_t)id)) {
        return gx_fail(err, GX_ARG,
                       "%s has %g at (%" PRId64 ", %" PRId64 "), but %s has rows 0 to %" PRId64
                       " (-1 for none)",
                       args->C->label, id, s->batch.first + j, c, args->E->label, rows - 1);
    }
    return GX_OK;
}

/* Is the row a candidate of query j of the batch?  -1 is none. */
static bool is_candidate(const gx_knn_search *s, int64_t j, double id)
{
    return id >= 0 && !(s->args->excludes_self && (int64_t)id == s->batch.first + j);
}

/* The batch's candidates, n x C's columns, and how many there are; the caller frees *ids. */
static gx_code load_ids(gx_knn_search *s, double **ids, int64_t *count)
{
    const gx_mat *C = s->args->C;
    int64_t n = s->batch.n;
    void *numbers = NULL;
    gx_err err = {0};
    gx_dense_alloc(s->run, GX_F64, n, C->cols, "candidates", &numbers);
    gx_dense_load_rows(s->run, C, s->batch.first, n, GX_F64, numbers, n);
    *ids = numbers;
    *count = 0;
    for (int64_t c = 0; c < C->cols && gx_run_poll(s->run) == GX_OK && err.code == GX_OK; c++) {
        for (int64_t j = 0; j < n && err.code == GX_OK; j++) {
            double id = (*ids)[c * n + j];
            check_id(s, j, c, id, &err);
            *count += is_candidate(s, j, id);
        }
    }
    return gx_run_fail(s->run, &err);
}

/* Each pair once: how many these are. */
static int64_t drop_doubles(gx_knn_pair *pair, int64_t pairs)
{
    int64_t kept = 0;
    for (int64_t e = 0; e < pairs; e++) {
        if (e == 0 || is_before(&pair[kept - 1], &pair[e])) {
            pair[kept++] = pair[e];
        }
    }
    return kept;
}

/* By row, each once, from what load_ids() has brought; *pair is the caller's to free. */
static void make_pairs(gx_knn_search *s, const double *ids, int64_t count, gx_knn_pair **pair,
                       int64_t *pairs)
{
    int64_t n = s->batch.n, cols = s->args->C->cols;
    void *memory = NULL, *spare = NULL;
    gx_dense_alloc(s->run, GX_F64, 2 * count, 1, "candidates", &memory);
    gx_dense_alloc(s->run, GX_F64, 2 * count, 1, "candidates", &spare);
    *pair = memory;
    for (int64_t j = 0; j < n && gx_ok(s->run); j++) {
        for (int64_t c = 0; c < cols; c++) {
            if (is_candidate(s, j, ids[c * n + j])) {
                (*pair)[(*pairs)++] = (gx_knn_pair){(int64_t)ids[c * n + j], j};
            }
        }
    }
    if (gx_ok(s->run)) {
        sort(*pair, spare, *pairs, s->args->E->rows);
        *pairs = drop_doubles(*pair, *pairs);
    }
    gx_mem_free(s->run->ctx->mem, spare);
}

gx_code gx_knn_find_pairs(gx_knn_search *s, gx_knn_pair **found, int64_t *pairs)
{
    double *ids = NULL;
    int64_t count = 0;
    *found = NULL;
    *pairs = 0;
    if (load_ids(s, &ids, &count) == GX_OK) {
        make_pairs(s, ids, count, found, pairs);
    }
    gx_mem_free(s->run->ctx->mem, ids);
    return gx_ok(s->run) ? GX_OK : s->run->err.code;
}

/* A bit for each row of E and query of the batch. */
static void make_bits(gx_knn_search *s, const double *ids)
{
    int64_t n = s->batch.n, cols = s->args->C->cols, words = gx_ceil_div(s->args->E->rows, 64);
    void *bits = NULL;
    gx_dense_alloc(s->run, GX_F64, words, n, "candidates", &bits);
    if (!gx_ok(s->run)) {
        gx_mem_free(s->run->ctx->mem, bits);
        return;
    }
    memset(bits, 0, (size_t)(words * n) * sizeof(uint64_t));
    s->listed = s->bits = bits;
    s->listed_words = words;
    for (int64_t c = 0; c < cols; c++) {
        for (int64_t j = 0; j < n; j++) {
            if (is_candidate(s, j, ids[c * n + j])) {
                int64_t row = (int64_t)ids[c * n + j];
                s->bits[j * words + row / 64] |= (uint64_t)1 << row % 64;
            }
        }
    }
}

// A strip -----------------------------------------------------------------------------------------

/* The first pair of a row that is not before this one. */
static int64_t find(const listed *x, int64_t row)
{
    int64_t low = 0, high = x->pairs;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (x->pair[middle].row < row) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void gx_knn_take_merit(gx_knn_search *s, const gx_knn_pair *pair, double merit)
{
    int64_t list = (s->batch.first - s->args->first + pair->query) * s->out->count;
    double *best = s->out->merit + list;
    int64_t *index = s->out->index + list;
    if (gx_best_is_worse(best[0], index[0], merit, pair->row)) {
        gx_best_sift(best, index, s->out->count, merit, pair->row);
    }
}

/* Merits and what they are of, for one call. */
typedef struct slab {
    double merit[PAIRS];
    int64_t row[PAIRS], query[PAIRS];
} slab;

/* Pairs first .. first + n - 1, of the m rows from i0 on at strip. */
static gx_code compare(listed *x, int64_t first, int64_t n, const void *strip, int64_t i0,
                       int64_t m, slab *at, void *work, gx_err *err)
{
    gx_knn_search *s = x->search;
    for (int64_t e = 0; e < n; e++) {
        at->row[e] = x->pair[first + e].row - i0;
        at->query[e] = x->pair[first + e].query;
    }
    gx_nearest w = {.metric = s->args->metric,
                    .query = s->batch.query,
                    .square = s->batch.square,
                    .count = n,
                    .merit = at->merit,
                    .row = at->row,
                    .column = at->query};
    gx_args args = {.m = m, .n = s->batch.n, .k = s->args->E->cols};
    args.a = strip;
    args.lda = m;
    args.nearest = &w;
    args.work = work;
    GX_TRY(s->backend->kernel[GX_MERIT][s->dtype](s->dev, NULL, &args, err));
    pthread_mutex_lock(&s->lock);
    for (int64_t e = 0; e < n; e++) {
        gx_knn_take_merit(s, &x->pair[first + e], at->merit[e]);
    }
    pthread_mutex_unlock(&s->lock);
    return GX_OK;
}

static gx_code look_at_strip(void *arg, int64_t unit, gx_pass_thread *thread, void *work,
                             void *part, gx_err *err)
{
    listed *x = arg;
    gx_knn_search *s = x->search;
    const gx_mat *E = s->args->E;
    gx_knn_strip strip = gx_knn_strip_of(s, unit);
    int64_t first = find(x, strip.i0), end = find(x, strip.i0 + strip.m);
    slab *at = work;
    char *own = (char *)(at + 1), *rows = own + x->merit_bytes;
    (void)part;
    if (first == end || gx_knn_is_marked(s)) {
        return GX_OK;
    }
    int64_t i0 = x->pair[first].row, m = x->pair[end - 1].row + 1 - i0;
    GX_TRY(gx_pass_read(thread, E, i0, 0, m, E->cols, s->dtype, rows, m, err));
    for (int64_t e = first; e < end && !gx_knn_is_marked(s); e++) {
        if ((e == first || x->pair[e].row != x->pair[e - 1].row) &&
            !gx_knn_takes(s, rows, m, x->pair[e].row - i0)) {
            gx_knn_mark(s, x->pair[e].row);
        }
    }
    for (int64_t e = first; e < end && gx_ok(s->run) && !gx_knn_is_marked(s); e += PAIRS) {
        GX_TRY(compare(x, e, gx_min(PAIRS, end - e), rows, i0, m, at, own, err));
    }
    return GX_OK;
}

/* Pair by pair. */
static void pass_over_pairs(listed *x)
{
    gx_knn_search *s = x->search;
    const gx_mat *E = s->args->E;
    gx_args args = {.m = s->plan.strip, .k = E->cols};
    x->merit_bytes = gx_whole_lines(s->backend->workspace(s->dev, GX_MERIT, s->dtype, &args));
    size_t strip = (size_t)(gx_min(s->plan.strip, E->rows) * E->cols) * gx_number_bytes(s->dtype);
    gx_pass pass = {.sources = &E,
                    .source_count = 1,
                    .units = gx_knn_strips(s),
                    .flops = 2 * (double)x->pairs * (double)E->cols,
                    .work_bytes = sizeof(slab) + x->merit_bytes + strip,
                    .work = look_at_strip,
                    .arg = x};
    double read = (double)gx_min(x->pairs * s->plan.strip, E->rows);
    pass.bytes = read * (double)E->cols * (double)gx_number_bytes(E->number);
    gx_pass_run(s->run, &pass);
}

bool gx_knn_listed(gx_knn_search *s)
{
    listed x = {.search = s};
    gx_mem *mem = s->run->ctx->mem;
    double *ids = NULL;
    int64_t count = 0;
    load_ids(s, &ids, &count);
    bool is_many = count / s->batch.n >= gx_max(1, s->args->E->rows / MANY);
    if (gx_ok(s->run) && is_many) {
        make_bits(s, ids);
    } else if (gx_ok(s->run)) {
        make_pairs(s, ids, count, &x.pair, &x.pairs);
    }
    gx_mem_free(mem, ids);
    if (!is_many) {
        pass_over_pairs(&x);
    }
    gx_mem_free(mem, x.pair);
    return !is_many;
}

bool gx_knn_has_listed(const gx_knn_search *s, gx_knn_strip strip)
{
    bool any = s->listed == NULL;
    int64_t end = strip.i0 + strip.m;
    int64_t rows = s->listed_words == 0 ? 1 : s->batch.n;
    for (int64_t j = 0; j < rows && !any; j++) {
        const uint64_t *bits = s->listed + j * s->listed_words;
        for (int64_t word = strip.i0 / 64; word * 64 < end && !any; word++) {
            int64_t low = gx_max(strip.i0 - word * 64, 0), high = gx_min(end - word * 64, 64);
            uint64_t within = (UINT64_MAX >> (64 - (high - low))) << low;
            any = (bits[word] & within) != 0;
        }
    }
    return any;
}
