/*
** Nearest neighbours on a device.
**
** E goes there once, in one buffer, and stays for later calls (pool.h) while neither the matrix nor
** the file has changed; where it has no room as a whole it goes by panels through two buffers, for
** each batch of queries.  While the first panels are read the queries are made ready; while one is
** copied, those before it are searched: GX_NEAREST for all queries of the batch, lists going on
** from panel to panel.  A matrix that is there is one panel: one copy up, a few launches, one copy
** down.
**
** Several devices have rows of their own, in proportion to their rates, as long as each has room
** for all of its rows.  The queries go up to the first and from there to the others, some while
** those before them are searched for.  Each device makes its own lists, and the host merges them.
** Merits do not depend on where a row lies, and ties go by number: the same lists for every number
** of devices.  Who fails is left out, and the search made anew.
**
** Candidates are pairs of a row and a query: GX_MERIT for all of them, and the host picks.
**
** What a device leaves to the host, with the reason in gx_stats: lists of more than
** GX_NEAREST_MOST, hamming (all of E is looked at for other numbers than 0 and 1), rows too much
** alike to be told apart, numbers so large or small that products overflow.
**
** Memory on the device: E or two panels, 12 to 16 bytes a number of the queries, lists, the
** kernels'.
*/
#include "knn_device.h"

#include "../base/best.h"

#include <math.h>
#include <string.h>

/* Bytes of the buffer that queries and results pass through; those that go up as nothing. */
static const size_t STAGE_BYTES = (size_t)8 << 20, GAP_MOST = 256;

// Memory ------------------------------------------------------------------------------------------

static gx_code take(gx_knn_device *d, gx_knn_hold *h, size_t bytes, gx_err *err)
{
    h->bytes = bytes;
    return bytes == 0 ? GX_OK : gx_pool_take(d->accel->pool, bytes, d->limit, &h->data, err);
}

static gx_code take_all(gx_knn_device *d, gx_err *err)
{
    const gx_backend *backend = d->accel->backend;
    gx_stats *stats = &d->run->ctx->stats;
    size_t budget = (size_t)d->run->ctx->config.number[GX_SET_PINNING_BUDGET];
    size_t work = gx_knn_work_bytes(d, d->batch), part = gx_knn_lay_out(d, d->batch);
    size_t pairs = gx_knn_pairs_bytes(d);
    gx_block_key key;
    if (work >= GX_NO_WORKSPACE) {
        return gx_fail(err, GX_DEVICE, "%s does not say how much memory a kernel needs",
                       d->accel->info.name);
    }
    if (d->is_whole && gx_knn_key(d, &key)) {
        d->e[0].bytes = gx_knn_rows_bytes(d, d->height);
        d->e[0].data = gx_pool_claim(d->accel->pool, &key, d->e[0].bytes);
    }
    d->is_there = d->e[0].data != NULL;
    gx_stats_add(stats, GX_STAT_DEVICE_HITS, d->is_there);
    GX_TRY(take(d, &d->part, part, err));
    GX_TRY(take(d, &d->work, work, err));
    GX_TRY(take(d, &d->pairs, pairs, err));
    for (int r = 0; r < (d->is_whole ? 1 : GX_KNN_RING) && !d->is_there; r++) {
        GX_TRY(take(d, &d->e[r], gx_knn_rows_bytes(d, d->is_whole ? d->height : d->rows), err));
    }
    size_t most = part > pairs ? part : pairs;
    GX_TRY(gx_pool_stage(d->accel->pool, most < STAGE_BYTES ? most : STAGE_BYTES, budget, &d->stage,
                         err));
    for (int r = 0; r < GX_KNN_RING && !d->is_there; r++) {
        GX_TRY(backend->mark_create(d->accel->dev, &d->used[r], err));
    }
    return backend->mark_create(d->accel->dev, &d->loaded, err);
}

/* Everything back to the pool; nothing may be under way. */
static void give_back(gx_knn_device *d)
{
    gx_pool *pool = d->accel->pool;
    gx_block_key key;
    if (d->is_there && gx_knn_key(d, &key)) {
        gx_pool_keep(pool, &key, d->e[0].data, d->e[0].bytes);
    } else {
        gx_pool_give(pool, d->e[0].data, d->e[0].bytes);
    }
    gx_pool_give(pool, d->e[1].data, d->e[1].bytes);
    gx_pool_give(pool, d->part.data, d->part.bytes);
    gx_pool_give(pool, d->work.data, d->work.bytes);
    gx_pool_give(pool, d->pairs.data, d->pairs.bytes);
    gx_pool_unstage(pool, &d->stage);
    for (int r = 0; r < GX_KNN_RING; r++) {
        d->accel->backend->mark_free(d->accel->dev, d->used[r]);
    }
    for (int64_t c = 0; c < d->marks; c++) {
        d->accel->backend->mark_free(d->accel->dev, d->made[c]);
    }
    d->accel->backend->mark_free(d->accel->dev, d->loaded);
}

// Up and down -------------------------------------------------------------------------------------

/* What is in the stage goes up, behind what went before. */
static gx_code flush(gx_knn_device *d, char *to, gx_err *err)
{
    const gx_accel *accel = d->accel;
    size_t bytes = d->filled;
    if (bytes > 0) {
        GX_TRY(accel->backend->upload(accel->dev, accel->up, to + d->sent, bytes, d->stage.data,
                                      bytes, bytes, 1, err));
        gx_stats_add(&d->run->ctx->stats, GX_STAT_UPLOADED, (int64_t)bytes);
        d->is_flying = true;
    }
    d->sent += bytes;
    d->filled = 0;
    return GX_OK;
}

/* The same, and kernels wait for it. */
static gx_code send(gx_knn_device *d, char *to, gx_err *err)
{
    const gx_accel *accel = d->accel;
    GX_TRY(flush(d, to, err));
    GX_TRY(accel->backend->mark_set(accel->dev, accel->up, d->loaded, err));
    return accel->backend->queue_after_mark(accel->dev, accel->run, d->loaded, err);
}

/* Bytes to the place `at` of a buffer, most often right behind what was put before. */
static gx_code put(gx_knn_device *d, char *to, size_t at, const void *from, size_t bytes,
                   gx_err *err)
{
    size_t gap = at - d->sent - d->filled; // for alignment, or wherever it goes on
    if (gap > GAP_MOST || gap > d->stage.bytes - d->filled) {
        GX_TRY(flush(d, to, err));
        d->sent = at;
        gap = 0;
    }
    GX_TRY(gx_knn_wait_for_stage(d, err));
    memset((char *)d->stage.data + d->filled, 0, gap);
    d->filled += gap;
    for (size_t done = 0; done < bytes;) {
        size_t room = d->stage.bytes - d->filled, step = bytes - done < room ? bytes - done : room;
        GX_TRY(gx_knn_wait_for_stage(d, err));
        if (gx_knn_wants_team(d->s)) {
            gx_device_stage(d->run, (char *)d->stage.data + d->filled, step,
                            (const char *)from + done, step, step, 1);
        } else {
            memcpy((char *)d->stage.data + d->filled, (const char *)from + done, step);
        }
        d->filled += step;
        done += step;
        if (d->filled == d->stage.bytes) {
            GX_TRY(flush(d, to, err));
        }
    }
    return GX_OK;
}

/*
** What of a piece belongs to queries [j, j + n) of the batch; the shift goes with the first.
** Doubles that the device can make itself do not go: they are two thirds of the bytes.
*/
typedef struct slice {
    const char *from;
    size_t at, bytes;
} slice;

static slice slice_of(const gx_knn_device *d, gx_knn_piece piece, int64_t j, int64_t n)
{
    const gx_knn_batch *b = &d->s->batch;
    size_t k = (size_t)d->s->args->E->cols, es = gx_dtype_bytes(d->s->dtype);
    const struct {
        const void *from;
        size_t each;
    } of[GX_KNN_MERIT] = {[GX_KNN_QUERY] = {b->query, k * sizeof(double)},
                          [GX_KNN_SQUARE] = {b->square, sizeof(double)},
                          [GX_KNN_LENGTH] = {b->length, sizeof(double)},
                          [GX_KNN_SHIFT] = {b->shift, k * es},
                          [GX_KNN_B] = {b->b, k * es}};
    if (d->at[piece + 1] == d->at[piece] || (piece == GX_KNN_SHIFT && j > 0) ||
        (piece == GX_KNN_QUERY && gx_knn_is_widened(d))) {
        return (slice){.bytes = 0};
    }
    size_t at = (size_t)j * of[piece].each;
    return (slice){.from = (const char *)of[piece].from + at,
                   .at = d->at[piece] + at,
                   .bytes = piece == GX_KNN_SHIFT ? k * es : (size_t)n * of[piece].each};
}

/* Queries [j, j + n) as doubles, of those that have been sent. */
static gx_code widen(gx_knn_device *d, int64_t j, int64_t n, gx_err *err)
{
    const gx_accel *accel = d->accel;
    int64_t k = d->s->args->E->cols;
    size_t at = (size_t)(j * k);
    gx_args args = {.m = k, .n = n, .from = GX_F32, .lda = k, .ldc = k};
    args.a = gx_knn_place(d, GX_KNN_B, at * sizeof(float));
    args.c = gx_knn_place(d, GX_KNN_QUERY, at * sizeof(double));
    return !gx_knn_is_widened(d) || k == 0
               ? GX_OK
               : accel->backend->kernel[GX_CONVERT][GX_F64](accel->dev, accel->run, &args, err);
}

/*
** The batch's queries up to `end` are sent, where they have not been: to the first device, and from
** there to the others.  Leaves the culprit as it was, unless it fails.
*/
static gx_code send_queries(gx_knn_group *g, int64_t end, gx_err *err)
{
    gx_knn_device *first = &g->part[0];
    int64_t j = g->sent, n = end - j;
    int culprit = g->culprit;
    if (n <= 0) {
        return GX_OK;
    }
    g->sent = end;
    g->culprit = 0;
    GX_TRY(gx_knn_check_open(first, err));
    for (int p = 0; p < GX_KNN_MERIT; p++) {
        slice of = slice_of(first, p, j, n);
        if (of.bytes > 0) {
            GX_TRY(put(first, first->part.data, of.at, of.from, of.bytes, err));
        }
    }
    GX_TRY(send(first, first->part.data, err));
    GX_TRY(widen(first, j, n, err));
    for (int k = 1; k < g->parts; k++) {
        gx_knn_device *d = &g->part[k];
        const gx_accel *accel = d->accel;
        g->culprit = k;
        GX_TRY(gx_knn_check_open(d, err));
        GX_TRY(accel->backend->queue_after_mark(accel->dev, accel->run, first->loaded, err));
        for (int p = 0; p < GX_KNN_MERIT; p++) {
            slice of = slice_of(first, p, j, n);
            GX_TRY(accel->backend->copy_from(
                accel->dev, accel->run, (char *)d->part.data + of.at, first->accel->dev,
                (const char *)first->part.data + of.at, of.bytes, err));
            gx_stats_add(&d->run->ctx->stats, GX_STAT_PEER_BYTES, (int64_t)of.bytes);
        }
        GX_TRY(widen(d, j, n, err));
    }
    g->culprit = culprit;
    return GX_OK;
}

// All rows ----------------------------------------------------------------------------------------

/* The batch's queries from the j-th on among m rows from the device's i0-th on, at a. */
static gx_code search_some(gx_knn_device *d, const void *a, int64_t lda, int64_t i0, int64_t m,
                           int64_t j, gx_err *err)
{
    const gx_knn_search *s = d->s;
    const gx_knn_batch *b = &s->batch;
    gx_accel *accel = d->accel;
    int64_t k = s->args->E->cols, count = s->out->count;
    int64_t groups = gx_ceil_div(b->n, GX_KNN_QUERIES);
    size_t es = gx_dtype_bytes(s->dtype), q = (size_t)j, doubles = q * sizeof(double);
    gx_knn_piece from =
        d->at[GX_KNN_MERIT] > d->at[GX_KNN_B] ? GX_KNN_B : GX_KNN_QUERY; // which is b
    size_t column = (size_t)k * (from == GX_KNN_B ? es : sizeof(double));
    gx_nearest w = {.metric = s->args->metric,
                    .query = gx_knn_place(d, GX_KNN_QUERY, doubles * (size_t)k),
                    .square = gx_knn_place(d, GX_KNN_SQUARE, doubles),
                    .length = gx_knn_place(d, GX_KNN_LENGTH, doubles),
                    .shift = gx_knn_is_shifted(d->s) ? gx_knn_place(d, GX_KNN_SHIFT, 0) : NULL,
                    .count = count,
                    .merit = gx_knn_place(d, GX_KNN_MERIT, doubles * (size_t)count),
                    .index = gx_knn_place(d, GX_KNN_INDEX, doubles * (size_t)count),
                    .goes_on = d->calls >= groups, // a panel has been searched, whichever
                    .first_index = d->first + i0,
                    .self = s->args->excludes_self ? b->first + j : GX_NO_SELF};
    if (d->made != NULL) {
        size_t group = (size_t)(j / GX_KNN_QUERIES);
        w.outcome = gx_knn_place(d, GX_KNN_OUTCOME, group * sizeof *w.outcome);
    }
    gx_args args = {.m = m,
                    .n = gx_min(GX_KNN_QUERIES, b->n - j),
                    .k = k,
                    .a = a,
                    .lda = lda,
                    .b = gx_knn_place(d, from, q * column),
                    .ldb = k,
                    .nearest = &w,
                    .work = d->work.data,
                    .info = &d->info[i0 / d->rows * groups + j / GX_KNN_QUERIES]};
    d->calls++;
    GX_TRY(gx_knn_check_open(d, err));
    GX_TRY(accel->backend->kernel[GX_NEAREST][s->dtype](accel->dev, accel->run, &args, err));
    gx_stats_kernel(&d->run->ctx->stats, gx_kernel_flops(GX_NEAREST, s->dtype, &args), 0);
    if (d->made != NULL) {
        gx_mark *mark = d->made[j / GX_KNN_QUERIES];
        GX_TRY(accel->backend->mark_set(accel->dev, accel->run, mark, err));
    }
    gx_run_poll(d->run);
    return GX_OK;
}

/* The batch among them; what of it has not been sent goes up while what has is searched for. */
static gx_code search(gx_knn_device *d, const void *a, int64_t lda, int64_t i0, int64_t m,
                      gx_err *err)
{
    for (int64_t j = 0; j < d->s->batch.n && gx_ok(d->run); j += GX_KNN_QUERIES) {
        GX_TRY(send_queries(d->group, gx_min(d->s->batch.n, j + GX_KNN_QUERIES), err));
        GX_TRY(search_some(d, a, lda, i0, m, j, err));
    }
    return GX_OK;
}

static void *place_of_panel(void *arg, int64_t panel, int64_t *ld)
{
    gx_knn_device *d = arg;
    int64_t rows = d->height;
    *ld = d->is_whole ? rows : gx_min(d->rows, rows - panel * d->rows);
    return d->is_whole ? gx_at(d->e[0].data, d->s->dtype, rows, panel * d->rows, 0)
                       : d->e[panel % GX_KNN_RING].data;
}

static gx_code begin_panel(void *arg, int64_t panel, gx_err *err)
{
    gx_knn_device *d = arg;
    gx_accel *accel = d->accel;
    return d->is_whole || panel < GX_KNN_RING
               ? GX_OK
               : accel->backend->queue_after_mark(accel->dev, accel->up,
                                                  d->used[panel % GX_KNN_RING], err);
}

/* Panels that lie one behind the other are one block: fewer lists to go on with. */
static gx_code search_panels(void *arg, int64_t panel, int64_t count, gx_err *err)
{
    gx_knn_device *d = arg;
    gx_accel *accel = d->accel;
    int64_t step = d->is_whole ? count : 1;
    if (gx_knn_is_listed(d)) {
        return GX_OK;
    }
    GX_TRY(accel->backend->mark_set(accel->dev, accel->up, d->loaded, err));
    GX_TRY(accel->backend->queue_after_mark(accel->dev, accel->run, d->loaded, err));
    for (int64_t end = panel + count; panel < end; panel += step) {
        int64_t i0 = panel * d->rows, ld = 0;
        const void *a = place_of_panel(d, panel, &ld);
        GX_TRY(search(d, a, ld, i0, gx_min(step * d->rows, d->height - i0), err));
        GX_TRY(d->is_whole ? GX_OK
                           : accel->backend->mark_set(accel->dev, accel->run,
                                                      d->used[panel % GX_KNN_RING], err));
    }
    return GX_OK;
}

/* The batch, of which nothing is ready, nor has been sent. */
static void begin_batch(gx_knn_group *g)
{
    gx_knn_begin(g->part[0].s, g->first, g->count);
    for (int k = 0; k < g->parts; k++) {
        gx_knn_lay_out(&g->part[k], g->count);
        g->part[k].calls = 0;
        g->part[k].sent = g->part[k].filled = 0;
    }
    g->sent = 0;
}

/* The same, and all of it is made ready. */
static void bring_batch(gx_knn_group *g)
{
    begin_batch(g);
    gx_knn_make(g->part[0].s, g->count);
}

/* While the first device's rows are read. */
static gx_code bring_meanwhile(void *arg, gx_err *err)
{
    (void)err;
    bring_batch(((gx_knn_device *)arg)->group);
    return GX_OK;
}

/*
** Bring the rows, if they are not there, and search them; candidates are searched when they are.
** The first device brings the batch.
*/
static gx_code pass_over(gx_knn_group *g, int k, gx_err *err)
{
    gx_mat rows;
    gx_knn_device *d = &g->part[k];
    gx_device_panels panels = {.rows = d->rows,
                               .ring = d->is_whole ? d->panels : GX_KNN_RING,
                               .place = place_of_panel,
                               .begin = begin_panel,
                               .ready = search_panels,
                               .meanwhile = k == 0 ? bring_meanwhile : NULL,
                               .arg = d};
    g->culprit = k;
    if (!d->is_there) {
        gx_mat_view(&rows, d->s->args->E, GX_NO_TRANS, d->first, 0, d->height, d->s->args->E->cols);
        d->s->is_beside = true;
        gx_code code = gx_device_load_panels(d->run, d->accel, &rows, d->s->dtype, &panels, err);
        d->s->is_beside = false;
        d->is_there = code == GX_OK && d->is_whole && gx_ok(d->run);
        return code;
    }
    if (k == 0) {
        bring_batch(g);
    }
    return gx_knn_is_listed(d) || !gx_ok(d->run)
               ? GX_OK
               : search(d, d->e[0].data, d->height, 0, d->height, err);
}

// Listed rows -------------------------------------------------------------------------------------

/* Merits of `count` pairs, at most GX_KNN_PAIRS, into the lists. */
static gx_code score(gx_knn_device *d, const gx_knn_pair *pair, int64_t count, double *merit,
                     int64_t *number, gx_err *err)
{
    const gx_knn_search *s = d->s;
    gx_accel *accel = d->accel;
    char *at = d->pairs.data;
    size_t bytes = (size_t)count * sizeof(int64_t);
    d->sent = d->filled = 0;
    for (int c = 0; c < 2; c++) { // rows, then columns
        for (int64_t e = 0; e < count; e++) {
            number[e] = c == 0 ? pair[e].row : pair[e].query;
        }
        GX_TRY(put(d, at, (size_t)c * bytes, number, bytes, err));
    }
    GX_TRY(send(d, at, err));
    gx_nearest w = {.metric = s->args->metric,
                    .query = gx_knn_place(d, GX_KNN_QUERY, 0),
                    .square = gx_knn_place(d, GX_KNN_SQUARE, 0),
                    .count = count,
                    .row = (int64_t *)(void *)at,
                    .column = (int64_t *)(void *)(at + bytes),
                    .merit = (double *)(void *)(at + 2 * bytes)};
    gx_args args = {.m = s->args->E->rows, .n = s->batch.n, .k = s->args->E->cols, .nearest = &w};
    args.a = d->e[0].data;
    args.lda = args.m;
    GX_TRY(accel->backend->kernel[GX_MERIT][s->dtype](accel->dev, accel->run, &args, err));
    gx_stats_kernel(&d->run->ctx->stats, gx_kernel_flops(GX_MERIT, s->dtype, &args), 0);
    return gx_knn_fetch(d, accel->run, at + 2 * bytes, merit, bytes, err);
}

/* Of a row that is no numbers the merit is none, but for a query of zeros, whose cosine is 0. */
static gx_code take_merits(gx_knn_device *d, const gx_knn_pair *pair, int64_t count,
                           const double *merit, gx_err *err)
{
    gx_knn_search *s = d->s;
    for (int64_t e = 0; e < count; e++) {
        bool is_zero = s->args->metric == GX_METRIC_COSINE && s->batch.square[pair[e].query] == 0;
        if (!isfinite(merit[e]) || is_zero) {
            return gx_fail(err, GX_UNSUPPORTED,
                           "rows of %s, or queries, are no plain numbers: the host looks at them",
                           s->args->E->label);
        }
        gx_knn_take_merit(s, &pair[e], merit[e]);
    }
    return GX_OK;
}

static gx_code score_pairs(gx_knn_device *d, gx_err *err)
{
    gx_mem *mem = d->run->ctx->mem;
    gx_knn_pair *pair = NULL;
    int64_t pairs = 0;
    void *memory = NULL;
    gx_err refusal = {0};
    gx_code code = GX_OK;
    gx_knn_find_pairs(d->s, &pair, &pairs);
    size_t bytes = (size_t)gx_max(1, gx_min(pairs, GX_KNN_PAIRS)) * sizeof(double);
    if (gx_ok(d->run) && gx_mem_alloc(mem, 2 * bytes, "results", &memory, &refusal) != GX_OK) {
        gx_run_fail(d->run, &refusal);
    }
    double *merit = memory;
    for (int64_t e = 0; e < pairs && code == GX_OK && gx_ok(d->run); e += GX_KNN_PAIRS) {
        int64_t count = gx_min(GX_KNN_PAIRS, pairs - e);
        int64_t *number = (int64_t *)(void *)((char *)memory + bytes);
        code = score(d, pair + e, count, merit, number, err);
        code = code == GX_OK ? take_merits(d, pair + e, count, merit, err) : code;
        gx_run_poll(d->run);
    }
    gx_mem_free(mem, memory);
    gx_mem_free(mem, pair);
    return code;
}

// The whole ---------------------------------------------------------------------------------------

/* Are all rows there, to be searched for some queries after the others? */
static bool are_there(const gx_knn_group *g)
{
    bool all = !gx_knn_is_listed(&g->part[0]);
    for (int k = 0; k < g->parts; k++) {
        all = all && g->part[k].is_there;
    }
    return all;
}

/*
** Queries go up, and rows where they are not there, and all is searched: enqueued.  Where rows are
** there, queries are made ready while those before them are searched for.
*/
static gx_code enqueue_batch(gx_knn_group *g, gx_err *err)
{
    gx_knn_search *s = g->part[0].s;
    if (!are_there(g)) {
        for (int k = 0; k < g->parts && gx_ok(s->run); k++) {
            GX_TRY(pass_over(g, k, err));
        }
        return GX_OK;
    }
    begin_batch(g);
    for (int64_t j = 0; j < s->batch.n && gx_ok(s->run); j += GX_KNN_QUERIES) {
        int64_t end = gx_min(s->batch.n, j + GX_KNN_QUERIES);
        if (gx_knn_make(s, end) != GX_OK) {
            return GX_OK; // the run says why
        }
        GX_TRY(send_queries(g, end, err));
        for (int k = 0; k < g->parts; k++) {
            gx_knn_device *d = &g->part[k];
            g->culprit = k;
            GX_TRY(search_some(d, d->e[0].data, d->height, 0, d->height, j, err));
        }
    }
    return GX_OK;
}

/* Need not all lists be there before the first ones are handed out? */
static bool may_leave(const gx_knn_group *g)
{
    const gx_knn_search *s = g->part[0].s;
    const gx_knn_args *args = s->args;
    int64_t least = args->E->rows - (args->excludes_self ? 1 : 0);
    return s->leave != NULL && g->first + g->count == args->last && s->out->count <= least &&
           !gx_knn_is_marked(s);
}

static gx_code search_batch(gx_knn_group *g, gx_err *err)
{
    gx_knn_search *s = g->part[0].s;
    g->taken = 0;
    GX_TRY(enqueue_batch(g, err));
    if (!gx_ok(s->run)) {
        return GX_OK;
    }
    if (gx_knn_is_listed(&g->part[0])) {
        g->taken = g->count;
        GX_TRY(send_queries(g, s->batch.n, err));
        return score_pairs(&g->part[0], err);
    }
    do {
        GX_TRY(gx_knn_take(g, err));
    } while (g->taken < g->count && gx_ok(s->run) && !may_leave(g));
    return GX_OK;
}

/* Where all is there and queries go in groups, lists come down by groups. */
static gx_code reserve_marks(gx_knn_group *g, gx_err *err)
{
    int64_t groups = gx_ceil_div(g->part[0].batch, GX_KNN_QUERIES);
    for (int k = 0; k < g->parts && groups > 1 && are_there(g); k++) {
        gx_knn_device *d = &g->part[k];
        gx_err refusal = {0};
        void *made = NULL;
        if (gx_mem_calloc(d->run->ctx->mem, (size_t)groups * sizeof *d->made, "results", &made,
                          &refusal) != GX_OK) {
            return gx_run_fail(d->run, &refusal);
        }
        d->made = made;
        g->culprit = k;
        for (; d->marks < groups; d->marks++) {
            GX_TRY(d->accel->backend->mark_create(d->accel->dev, &d->made[d->marks], err));
        }
    }
    return GX_OK;
}

/* Of each device, and of the host what takes their answers. */
static gx_code reserve(gx_knn_group *g, gx_err *err)
{
    gx_run *run = g->part[0].run;
    gx_err refusal = {0};
    void *lists = NULL;
    int64_t entries = g->part[0].batch * g->part[0].s->out->count;
    for (int k = 0; k < g->parts; k++) {
        gx_knn_device *d = &g->part[k];
        int64_t calls = d->panels * gx_ceil_div(d->batch, GX_KNN_QUERIES);
        void *info = NULL;
        d->group = g;
        g->culprit = k;
        GX_TRY(take_all(d, err));
        if (gx_mem_calloc(run->ctx->mem, (size_t)calls * sizeof *d->info, "results", &info,
                          &refusal) != GX_OK) {
            return gx_run_fail(run, &refusal);
        }
        d->info = info;
    }
    if (g->parts > 1) {
        size_t each = (size_t)entries * sizeof *g->merit;
        if (gx_mem_alloc(run->ctx->mem, 2 * each, "neighbours", &lists, &refusal) != GX_OK) {
            return gx_run_fail(run, &refusal);
        }
        g->merit = lists;
        g->index = (int64_t *)(void *)((char *)lists + each);
    }
    return reserve_marks(g, err);
}

static gx_code search_all(gx_knn_group *g, gx_err *err)
{
    gx_knn_search *s = g->part[0].s;
    const gx_knn_args *args = s->args;
    gx_code code = reserve(g, err);
    if (gx_knn_is_listed(&g->part[0])) {
        gx_best_begin(s->out->merit, s->out->index, s->out->queries * s->out->count, false);
    }
    int64_t batch = g->part[0].batch;
    for (int64_t j = args->first; j < args->last && code == GX_OK && gx_ok(s->run); j += batch) {
        g->first = j;
        g->count = gx_min(batch, args->last - j);
        code = search_batch(g, err);
        if (code == GX_OK && gx_ok(s->run) && g->taken < g->count && may_leave(g) && s->leave(g)) {
            return GX_OK;
        }
        while (code == GX_OK && gx_ok(s->run) && g->taken < g->count) {
            code = gx_knn_take(g, err);
        }
        if (code == GX_OK) {
            gx_knn_explain(s);
        }
        gx_knn_unload(s);
    }
    return code;
}

gx_code gx_knn_finish(gx_knn_group *g, gx_code code, gx_err *err)
{
    gx_mem *mem = g->part[0].run->ctx->mem;
    for (int k = 0; k < g->parts; k++) {
        gx_knn_device *d = &g->part[k];
        gx_err late = {0};
        bool is_failed = code == GX_DEVICE && k == g->culprit;
        gx_code settled = GX_DEVICE;
        if (gx_knn_is_open(d)) {
            settled = gx_device_settle(d->accel, &late);
            d->is_there = d->is_there && settled == GX_OK && !is_failed;
        } else {
            gx_fail(&late, GX_DEVICE, "the device was lost");
        }
        if (code == GX_OK && settled != GX_OK && gx_ok(d->run)) {
            code = settled;
            *err = late;
            g->culprit = k;
        }
    }
    for (int k = 0; k < g->parts; k++) {
        if (gx_knn_is_open(&g->part[k])) {
            give_back(&g->part[k]);
        }
        gx_mem_free(mem, g->part[k].info);
        gx_mem_free(mem, g->part[k].made);
    }
    gx_mem_free(mem, g->merit);
    return code;
}

bool gx_knn_goes_on(gx_knn_group *g, const gx_err *err, uint64_t *avoided)
{
    gx_run *run = g->part[0].run;
    gx_accel *accel = g->part[g->culprit].accel;
    gx_fleet fleet = {.count = g->parts};
    for (int k = 0; k < g->parts; k++) {
        fleet.accel[k] = g->part[k].accel;
    }
    if (err->code != GX_UNSUPPORTED &&
        gx_fleet_goes_on(run->ctx, &fleet, g->culprit, err, avoided)) {
        return true;
    }
    if (gx_fleet_has(run->ctx, accel)) {
        gx_device_give_up(run, accel, err);
    }
    return false;
}

bool gx_knn_by_device(gx_knn_search *s, const gx_terms *host, uint64_t avoided)
{
    gx_run *run = s->run;
    gx_knn_plan plan = s->plan;
    for (;;) {
        gx_knn_group g;
        gx_terms terms;
        gx_err err = {0};
        if (!gx_knn_prepare(&g, s, host, avoided, &terms)) {
            s->plan = plan;
            return !gx_ok(run);
        }
        gx_predict_expect(run, &terms, true);
        for (int k = 0; k < g.parts; k++) {
            gx_pool_begin(g.part[k].accel->pool);
        }
        gx_code code = search_all(&g, &err);
        if (s->out->rest != NULL) {
            return true;
        }
        code = gx_knn_finish(&g, code, &err);
        if (code == GX_OK || !gx_ok(run)) {
            gx_stats_add(&run->ctx->stats, GX_STAT_DEVICE_CALLS, 1);
            gx_stats_add(&run->ctx->stats, GX_STAT_SPREAD_CALLS, g.parts > 1);
            return true;
        }
        s->plan = plan;
        gx_place_restart(run);
        if (!gx_knn_goes_on(&g, &err, &avoided)) {
            return false;
        }
    }
}
