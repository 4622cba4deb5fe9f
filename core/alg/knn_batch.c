/*
** A batch of queries in memory, the strips of E, and rows that cannot be compared: what alg_knn.c
** and knn_listed.c stand on.
*/
#include "dense.h"
#include "knn_int.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

// Strips ------------------------------------------------------------------------------------------

/* A tile's rows are cut into strips of one height. */
static int64_t strips_of_tile(const gx_knn_search *s)
{
    return gx_ceil_div(gx_min(s->args->E->tile_rows, s->args->E->rows), s->plan.strip);
}

int64_t gx_knn_strips(const gx_knn_search *s)
{
    return gx_ceil_div(s->args->E->rows, s->args->E->tile_rows) * strips_of_tile(s);
}

gx_knn_strip gx_knn_strip_of(const gx_knn_search *s, int64_t unit)
{
    const gx_mat *E = s->args->E;
    int64_t per = strips_of_tile(s), tile = unit / per * E->tile_rows;
    int64_t end = gx_min(tile + E->tile_rows, E->rows);
    gx_knn_strip strip = {.i0 = tile + unit % per * s->plan.strip};
    strip.m = gx_max(0, gx_min(s->plan.strip, end - strip.i0));
    return strip;
}

// The queries -------------------------------------------------------------------------------------

static bool is_taken(const gx_knn_search *s, double x)
{
    return s->args->is_binary ? x == 0 || x == 1 : isfinite(x);
}

/* The first number of row i of Q, or of E, that is not finite, or no bit, fails the run. */
static void refuse(const gx_knn_search *s, const gx_mat *mat, int64_t i, const double *row)
{
    for (int64_t l = 0; l < s->args->E->cols && gx_ok(s->run); l++) {
        double x = row[l];
        if (!isfinite(x)) {
            gx_run_failf(s->run, GX_ARG, "%s has %s at (%" PRId64 ", %" PRId64 ")", mat->label,
                         isnan(x) ? "NaN" : "Inf", i, l);
        } else if (!is_taken(s, x)) {
            gx_run_failf(s->run, GX_ARG,
                         "%s has %g at (%" PRId64 ", %" PRId64
                         "), but 'hamming' compares zeros and ones",
                         mat->label, x, i, l);
        }
    }
}

static void put(gx_number dtype, void *x, int64_t at, double value)
{
    if (dtype == GX_F64) {
        ((double *)x)[at] = value;
    } else {
        ((float *)x)[at] = (float)value;
    }
}

static double get(gx_number dtype, const void *x, int64_t at)
{
    return dtype == GX_F64 ? ((const double *)x)[at] : (double)((const float *)x)[at];
}

/* Queries of a piece. */
enum { QUERIES = 64 };

bool gx_knn_wants_team(const gx_knn_search *s)
{
    const int64_t MUCH = 1 << 18, MUCH_BESIDE = 3 << 18;
    return s->batch.some * s->args->E->cols >= (s->is_beside ? MUCH_BESIDE : MUCH);
}

/* What follows is done for queries [first, end) of those that are being made ready. */

static bool are_taken(const gx_knn_search *s, int64_t first, int64_t end)
{
    int64_t d = s->args->E->cols;
    const double *query = s->batch.query + s->batch.made * d;
    bool all = true;
    if (s->args->is_binary) {
        for (int64_t e = first * d; e < end * d && all; e++) {
            all = is_taken(s, query[e]);
        }
        return all;
    }
    const uint64_t INFINITE = (uint64_t)0x7ff << 53; // its bits without the sign
    uint64_t most = 0;
    for (int64_t e = first * d; e < end * d; e++) {
        uint64_t bits;
        memcpy(&bits, &query[e], sizeof bits);
        bits <<= 1;
        most = bits > most ? bits : most;
    }
    return most < INFINITE;
}

/*
** Columns of the batch from its rows: a stretch of each number for the next.  So few at a time,
** because columns that lie a multiple of 2 KiB apart share few of a cache's lines.
*/
static void turn_some(gx_knn_search *s, int64_t first, int64_t end)
{
    enum { STRETCH = 16 };
    const gx_knn_batch *b = &s->batch;
    int64_t d = s->args->E->cols;
    gx_number dtype = s->args->Q->number;
    for (int64_t j0 = first; j0 < end; j0 += STRETCH) {
        int64_t count = gx_min(STRETCH, end - j0);
        for (int64_t l = 0; l < d; l++) {
            const double *wide = (const double *)b->rows + l * b->some + j0;
            const float *narrow = (const float *)b->rows + l * b->some + j0;
            double *to = b->query + (b->made + j0) * d + l;
            for (int64_t j = 0; dtype == GX_F64 && j < count; j++) {
                to[j * d] = wide[j];
            }
            for (int64_t j = 0; dtype != GX_F64 && j < count; j++) {
                to[j * d] = (double)narrow[j];
            }
        }
    }
}

/*
** The queries, as columns.  Many are read as they lie, where there is memory for that beside them,
** to be turned by the team.
*/
static void load_queries(gx_knn_search *s)
{
    gx_run *run = s->run;
    gx_knn_batch *b = &s->batch;
    const gx_mat *Q = s->args->Q;
    int64_t d = s->args->E->cols, n = b->some, first = b->first + b->made;
    gx_err refusal = {0};
    size_t bytes = (size_t)(n * d) * gx_number_bytes(Q->number);
    if (n > QUERIES && gx_mem_alloc(run->ctx->mem, bytes, "queries", &b->rows, &refusal) == GX_OK) {
        gx_dense_load_rows(run, Q, first, n, Q->number, b->rows, n);
        return;
    }
    gx_mat columns;
    gx_mat_view(&columns, Q, GX_TRANS, 0, first, d, n);
    gx_dense_load(run, &columns, GX_F64, b->query + b->made * d, gx_max(d, 1));
}

/* The shift, in dtype: the mean of some of the first that are made ready, RUN of each stretch. */
static void make_shift(gx_knn_search *s)
{
    enum { RUN = 16, RUNS = 16 };
    const gx_knn_batch *b = &s->batch;
    int64_t d = s->args->E->cols, n = b->some, apart = gx_max(RUN, n / RUNS);
    int64_t runs = gx_min(gx_ceil_div(n, apart), RUNS);
    double share = 1 / (double)(gx_min(n - (runs - 1) * apart, RUN) + (runs - 1) * RUN);
    for (int64_t l = 0; l < d; l++) {
        double sum = 0;
        for (int64_t r = 0; r < runs; r++) {
            int64_t end = gx_min(n, r * apart + RUN);
            for (int64_t j = r * apart; j < end; j++) {
                double x = b->rows != NULL ? get(s->args->Q->number, b->rows, l * n + j)
                                           : b->query[j * d + l];
                sum += x * share;
            }
        }
        put(s->dtype, b->shift, l, isfinite(sum) ? sum : 0);
    }
}

/* |x|.  Where the squares vanish and x does not it is so small that nothing is foretold of it. */
static double length_of(double square, gx_number dtype, const void *x, int64_t d)
{
    bool is_nothing = square == 0;
    for (int64_t l = 0; l < d && is_nothing; l++) {
        is_nothing = get(dtype, x, l) == 0;
    }
    return square == 0 && !is_nothing ? DBL_MIN : sqrt(square);
}

/* b's columns, and their lengths without the shift. */
static void make_some(gx_knn_search *s, int64_t first, int64_t end)
{
    gx_knn_batch *b = &s->batch;
    int64_t d = s->args->E->cols;
    for (int64_t j = b->made + first; j < b->made + end; j++) {
        double sum = 0;
        b->square[j] = gx_merit_square(b->query + j * d, d);
        for (int64_t l = 0; b->shift != NULL && l < d; l++) {
            double x = b->query[j * d + l] - get(s->dtype, b->shift, l);
            sum += x * x;
            put(s->dtype, b->b, j * d + l, b->is_b_plain ? b->query[j * d + l] : x);
        }
        const double *query = b->query + j * d;
        float *narrow = (float *)b->b + j * d; // as doubles they are the queries themselves
        for (int64_t l = 0; b->shift == NULL && b->b != b->query && l < d; l++) {
            narrow[l] = (float)query[l];
        }
        b->length[j] = length_of(b->shift != NULL ? sum : b->square[j], s->dtype,
                                 gx_at(b->b, s->dtype, d, 0, j), d);
    }
}

static gx_code make_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    gx_knn_search *s = arg;
    int64_t first = piece * QUERIES, end = gx_min(s->batch.some, first + QUERIES);
    (void)member, (void)err;
    if (s->batch.rows != NULL) {
        turn_some(s, first, end);
    }
    if (!are_taken(s, first, end)) {
        atomic_store(&s->has_refused, true);
    }
    make_some(s, first, end);
    return GX_OK;
}

/* Those that have been loaded, by the team where there is much to do. */
static void make_all(gx_knn_search *s)
{
    int64_t pieces = gx_ceil_div(s->batch.some, QUERIES);
    gx_team *team = gx_knn_wants_team(s) && gx_ok(s->run) ? gx_run_team(s->run) : NULL;
    gx_err err = {0};
    atomic_store(&s->has_refused, false);
    for (int64_t piece = 0; piece < pieces && team == NULL && gx_ok(s->run); piece++) {
        make_piece(s, piece, 0, &err);
    }
    if (team != NULL && gx_ok(s->run)) {
        gx_team_run(team, pieces, make_piece, s, &err);
        gx_run_fail(s->run, &err);
    }
    const gx_knn_batch *b = &s->batch;
    for (int64_t j = b->made; atomic_load(&s->has_refused) && j < b->made + b->some; j++) {
        refuse(s, s->args->Q, b->first + j, b->query + j * s->args->E->cols);
    }
}

gx_code gx_knn_begin(gx_knn_search *s, int64_t first, int64_t n)
{
    gx_run *run = s->run;
    gx_knn_batch *b = &s->batch;
    int64_t d = s->args->E->cols;
    void *query = NULL, *square = NULL;
    *b = (gx_knn_batch){.first = first, .n = n};
    gx_dense_alloc(run, GX_F64, d, n, "queries", &query);
    gx_dense_alloc(run, GX_F64, n, 2, "queries", &square);
    if (gx_knn_is_shifted(s)) {
        gx_dense_alloc(run, s->dtype, d, 1, "queries", &b->shift);
    }
    b->b = b->query = query;
    if (s->dtype != GX_F64 || gx_knn_is_shifted(s)) {
        b->b = NULL;
        gx_dense_alloc(run, s->dtype, d, n, "queries", &b->b);
    }
    b->square = square;
    b->length = square == NULL ? NULL : (double *)square + n;
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_knn_make(gx_knn_search *s, int64_t end)
{
    gx_knn_batch *b = &s->batch;
    int64_t tile = gx_max(1, s->args->Q->tile_rows);
    end = gx_min(b->n, gx_ceil_div(b->first + end, tile) * tile - b->first);
    b->some = gx_max(0, end - b->made);
    if (b->some > 0 && gx_ok(s->run)) {
        load_queries(s);
        if (gx_knn_is_shifted(s) && b->made == 0 && gx_ok(s->run)) {
            make_shift(s);
        }
        make_all(s);
        gx_mem_free(s->run->ctx->mem, b->rows);
        b->rows = NULL;
        b->made = end;
    }
    return gx_ok(s->run) ? GX_OK : s->run->err.code;
}

void gx_knn_unload(gx_knn_search *s)
{
    gx_mem *mem = s->run->ctx->mem;
    gx_knn_batch *b = &s->batch;
    gx_mem_free(mem, b->b != b->query ? b->b : NULL);
    gx_mem_free(mem, b->query);
    gx_mem_free(mem, b->square);
    gx_mem_free(mem, b->shift);
    gx_mem_free(mem, s->bits);
    s->listed = s->bits = NULL;
    *b = (gx_knn_batch){0};
}

// Rows that are no numbers ------------------------------------------------------------------------

void gx_knn_mark(gx_knn_search *s, int64_t row)
{
    long long known = atomic_load(&s->at);
    while (row < known && !atomic_compare_exchange_weak(&s->at, &known, row)) {
    }
}

bool gx_knn_is_marked(const gx_knn_search *s)
{
    return atomic_load(&s->at) != INT64_MAX;
}

bool gx_knn_takes(const gx_knn_search *s, const void *a, int64_t lda, int64_t i)
{
    bool all = true;
    for (int64_t l = 0; l < s->args->E->cols && all; l++) {
        all = is_taken(s, get(s->dtype, a, l * lda + i));
    }
    return all;
}

/* Units are taken in order and finished, so the row marked is the first one. */
void gx_knn_explain(gx_knn_search *s)
{
    const gx_mat *E = s->args->E;
    int64_t row = atomic_load(&s->at);
    void *numbers = NULL;
    gx_mat one;
    if (!gx_knn_is_marked(s) || !gx_ok(s->run)) {
        return;
    }
    gx_dense_alloc(s->run, GX_F64, 1, E->cols, "a row", &numbers);
    gx_mat_view(&one, E, GX_NO_TRANS, row, 0, 1, E->cols);
    gx_dense_load(s->run, &one, GX_F64, numbers, 1);
    refuse(s, E, row, numbers);
    gx_mem_free(s->run->ctx->mem, numbers);
}
