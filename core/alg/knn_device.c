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

/* Memory for what its turns come to, and for what comes in. */
static gx_code reserve_turns(gx_knn_device *d, gx_err *err)
{
    int64_t turns = gx_knn_turns(d, d->batch);
    d->most_calls = d->is_whole ? GX_KNN_CALLS : d->panels;
    size_t own = (size_t)turns * sizeof *d->turn, calls = (size_t)d->most_calls;
    size_t call = calls * (size_t)turns * sizeof *d->call, outcome = calls * sizeof *d->outcome;
    d->turn = gx_run_calloc(d->s->run, own + call + outcome + (size_t)d->panels, "results");
    if (d->turn == NULL) {
        return d->s->run->err.code;
    }
    d->turns = turns;
    d->call = (int64_t *)(void *)((char *)d->turn + own);
    d->outcome = (int32_t *)(void *)((char *)d->call + call);
    d->came = (bool *)((char *)d->outcome + outcome);
    for (int64_t t = 0; t < turns && d->batch > gx_knn_each(d, d->batch); t++) {
        GX_TRY(d->on.accel->backend->mark_create(d->on.accel->dev, &d->turn[t].made, err));
    }
    return GX_OK;
}

/* All but what rows need: that is taken while they are read. */
static gx_code take_all(gx_knn_device *d, gx_err *err)
{
    gx_devcall *on = &d->on;
    GX_TRY(gx_devcall_begin(on, GX_KNN_PART, err));
    size_t part = on->hold[GX_KNN_PART].bytes, pairs = on->hold[GX_KNN_LISTED].bytes;
    size_t most = part > pairs ? part : pairs;
    GX_TRY(gx_devcall_stage(on, &on->stage, most < STAGE_BYTES ? most : STAGE_BYTES, err));
    GX_TRY(gx_devcall_marks(on, on->is_there ? GX_KNN_LOADED : 0, GX_KNN_LOADED + 1, err));
    return reserve_turns(d, err);
}

// Listed rows -------------------------------------------------------------------------------------

/* Merits of `count` pairs, at most GX_KNN_PAIRS, into the lists. */
static gx_code score(gx_knn_device *d, const gx_knn_pair *pair, int64_t count, double *merit,
                     int64_t *number, gx_err *err)
{
    const gx_knn_search *s = d->s;
    char *at = d->on.hold[GX_KNN_LISTED].data, *turn = gx_knn_turn_at(d, 0);
    gx_knn_layout l = gx_knn_lay_out(d, s->batch.n);
    size_t bytes = (size_t)count * sizeof(int64_t);
    for (int c = 0; c < 2; c++) { // rows, then columns
        for (int64_t e = 0; e < count; e++) {
            number[e] = c == 0 ? pair[e].row : pair[e].query;
        }
        GX_TRY(gx_knn_put(d, at + (size_t)c * bytes, number, bytes, err));
    }
    GX_TRY(gx_knn_put_end(d, err));
    gx_nearest w = {.metric = s->args->metric,
                    .query = (double *)(void *)(turn + l.at[GX_KNN_QUERY]),
                    .square = (double *)(void *)(turn + l.at[GX_KNN_SQUARE]),
                    .count = count,
                    .row = (int64_t *)(void *)at,
                    .column = (int64_t *)(void *)(at + bytes),
                    .merit = (double *)(void *)(at + 2 * bytes)};
    gx_args args = {.m = s->args->E->rows, .n = s->batch.n, .k = s->args->E->cols, .nearest = &w};
    args.a = d->on.hold[GX_KNN_ROWS].data;
    args.lda = args.m;
    GX_TRY(gx_devcall_kernel(&d->on, GX_MERIT, s->dtype, &args, err));
    return gx_knn_fetch(d, d->on.accel->run, at + 2 * bytes, merit, bytes, err);
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
    gx_run *run = d->s->run;
    gx_mem *mem = run->ctx->mem;
    gx_knn_pair *pair = NULL;
    int64_t pairs = 0;
    gx_code code = GX_OK;
    gx_knn_find_pairs(d->s, &pair, &pairs);
    size_t bytes = (size_t)gx_max(1, gx_min(pairs, GX_KNN_PAIRS)) * sizeof(double);
    double *merit = gx_run_alloc(run, 2 * bytes, "results");
    for (int64_t e = 0; e < pairs && code == GX_OK && gx_ok(run); e += GX_KNN_PAIRS) {
        int64_t count = gx_min(GX_KNN_PAIRS, pairs - e);
        int64_t *number = (int64_t *)(void *)((char *)merit + bytes);
        code = score(d, pair + e, count, merit, number, err);
        code = code == GX_OK ? take_merits(d, pair + e, count, merit, err) : code;
        gx_run_poll(run);
    }
    gx_mem_free(mem, merit);
    gx_mem_free(mem, pair);
    return code;
}

// The whole ---------------------------------------------------------------------------------------

static gx_code search_batch(gx_knn_group *g, gx_err *err)
{
    gx_knn_search *s = g->part[0].s;
    GX_TRY(gx_knn_enqueue(g, err));
    if (gx_knn_is_listed(&g->part[0]) && gx_ok(s->run)) {
        GX_TRY(gx_knn_send(g, err));
        return score_pairs(&g->part[0], err);
    }
    for (int64_t t = 0; t * g->each < g->count && gx_ok(s->run); t++) {
        GX_TRY(gx_knn_take(g, t, err));
    }
    return GX_OK;
}

/* Of each device, and of the host what takes their answers. */
static gx_code reserve(gx_knn_group *g, gx_err *err)
{
    gx_knn_device *first = &g->part[0];
    gx_run *run = first->s->run;
    for (int k = 0; k < g->parts && gx_ok(run); k++) {
        g->part[k].group = g;
        g->calls.culprit = k;
        GX_TRY(take_all(&g->part[k], err));
    }
    if (g->parts > 1) {
        size_t each =
            (size_t)(gx_knn_each(first, first->batch) * first->s->out->count) * sizeof *g->merit;
        g->merit = gx_run_alloc(run, 2 * each, "neighbours");
        g->index = g->merit == NULL ? NULL : (int64_t *)(void *)((char *)g->merit + each);
    }
    return GX_OK;
}

static void search_all(gx_knn_group *g, gx_err *err)
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
}

/* The first failure is *err, and everything has been given back. */
static void finish(gx_knn_group *g, gx_err *err)
{
    gx_devcalls_end(&g->calls, err);
    for (int k = 0; k < g->parts; k++) {
        const gx_knn_device *d = &g->part[k];
        const gx_accel *accel = d->on.accel;
        for (int64_t t = 0; gx_devcall_is_open(&d->on) && t < d->turns; t++) {
            accel->backend->mark_free(accel->dev, d->turn[t].made);
        }
        gx_mem_free(d->on.run->ctx->mem, d->turn);
    }
    gx_mem_free(g->part[0].s->run->ctx->mem, g->merit);
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
        g.calls = (gx_devcalls){.count = g.parts};
        for (int k = 0; k < g.parts; k++) {
            g.calls.on[k] = &g.part[k].on;
            gx_pool_begin(g.part[k].on.accel->pool);
        }
        search_all(&g, &err);
        finish(&g, &err);
        if (err.code == GX_OK || !gx_ok(run)) {
            gx_stats_add(&run->ctx->stats, GX_STAT_DEVICE_CALLS, 1);
            gx_stats_add(&run->ctx->stats, GX_STAT_SPREAD_CALLS, g.parts > 1);
            return true;
        }
        s->plan = plan;
        gx_place_restart(run);
        if (!gx_devcalls_go_on(&g.calls, &err, &avoided)) {
            return false;
        }
    }
}
