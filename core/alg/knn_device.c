/*
** Nearest neighbours on a device.
**
** E goes there once, in one buffer, and stays for later calls (pool.h) while neither the matrix nor
** the file has changed; where it has no room as a whole it goes by panels through two buffers, for
** each batch of queries.  While the first panels are read the first queries are made ready; while
** one is copied, those before it are searched: GX_NEAREST, lists going on from panel to panel
** (knn_order.c).  A matrix that is there is one panel: one copy up, a few launches, one copy down.
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

/* Bytes of the buffer that queries and results pass through. */
static const size_t STAGE_BYTES = (size_t)8 << 20;

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
    for (int64_t c = 0; c < d->turns; c++) {
        d->accel->backend->mark_free(d->accel->dev, d->turn[c].made);
    }
    d->accel->backend->mark_free(d->accel->dev, d->loaded);
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
        GX_TRY(gx_knn_put(d, at, (size_t)c * bytes, number, bytes, err));
    }
    GX_TRY(gx_knn_put_end(d, at, err));
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

static gx_code search_batch(gx_knn_group *g, gx_err *err)
{
    gx_knn_search *s = g->part[0].s;
    g->taken = 0;
    GX_TRY(gx_knn_enqueue(g, err));
    if (!gx_ok(s->run)) {
        return GX_OK;
    }
    if (gx_knn_is_listed(&g->part[0])) {
        g->taken = g->count;
        GX_TRY(gx_knn_send(g, s->batch.n, err));
        return score_pairs(&g->part[0], err);
    }
    while (g->taken < g->count && gx_ok(s->run)) {
        GX_TRY(gx_knn_take(g, err));
    }
    return GX_OK;
}

/* Of the turns of groups of queries, and what comes in. */
static gx_code reserve_turns(gx_knn_device *d, bool by_groups, gx_err *err)
{
    gx_run *run = d->run;
    gx_err refusal = {0};
    int64_t groups = gx_knn_turns(d->batch);
    void *turn = NULL, *call = NULL, *came = NULL;
    d->most_calls = d->is_whole ? GX_KNN_CALLS : d->panels;
    if (gx_mem_calloc(run->ctx->mem, (size_t)groups * sizeof *d->turn, "results", &turn,
                      &refusal) != GX_OK) {
        return gx_run_fail(run, &refusal);
    }
    d->turn = turn;
    d->turns = groups;
    if (gx_mem_calloc(run->ctx->mem, (size_t)(groups * d->most_calls) * sizeof *d->call, "results",
                      &call, &refusal) != GX_OK) {
        return gx_run_fail(run, &refusal);
    }
    d->call = call;
    if (gx_mem_calloc(run->ctx->mem, (size_t)d->panels * sizeof *d->came, "results", &came,
                      &refusal) != GX_OK) {
        return gx_run_fail(run, &refusal);
    }
    d->came = came;
    for (int64_t c = 0; c < groups && by_groups; c++) {
        GX_TRY(d->accel->backend->mark_create(d->accel->dev, &d->turn[c].made, err));
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
    bool by_groups = gx_knn_has_turns(g) && g->part[0].batch > GX_KNN_QUERIES;
    for (int k = 0; k < g->parts && gx_ok(run); k++) {
        gx_knn_device *d = &g->part[k];
        d->group = g;
        g->culprit = k;
        GX_TRY(take_all(d, err));
        GX_TRY(reserve_turns(d, by_groups, err));
    }
    if (g->parts > 1) {
        size_t each = (size_t)entries * sizeof *g->merit;
        if (gx_mem_alloc(run->ctx->mem, 2 * each, "neighbours", &lists, &refusal) != GX_OK) {
            return gx_run_fail(run, &refusal);
        }
        g->merit = lists;
        g->index = (int64_t *)(void *)((char *)lists + each);
    }
    return GX_OK;
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
        if (code == GX_OK) {
            gx_knn_explain(s);
        }
        gx_knn_unload(s);
    }
    return code;
}

/*
** Nothing is under way any more, and everything has been given back; the first failure.  Devices
** wait for each other's marks and copy from each other: all are done before anything is given back.
*/
static gx_code finish(gx_knn_group *g, gx_code code, gx_err *err)
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
        gx_mem_free(mem, g->part[k].turn);
        gx_mem_free(mem, g->part[k].call);
        gx_mem_free(mem, g->part[k].came);
    }
    gx_mem_free(mem, g->merit);
    return code;
}

/* Who has failed is left out.  false: there is nobody else, or it is not for devices. */
static bool goes_on(gx_knn_group *g, const gx_err *err, uint64_t *avoided)
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

bool gx_knn_by_device(gx_knn_search *s, const gx_terms *host)
{
    gx_run *run = s->run;
    uint64_t avoided = 0;
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
        code = finish(&g, code, &err);
        if (code == GX_OK || !gx_ok(run)) {
            gx_stats_add(&run->ctx->stats, GX_STAT_DEVICE_CALLS, 1);
            gx_stats_add(&run->ctx->stats, GX_STAT_SPREAD_CALLS, g.parts > 1);
            return true;
        }
        s->plan = plan;
        gx_place_restart(run);
        if (!goes_on(&g, &err, &avoided)) {
            return false;
        }
    }
}
