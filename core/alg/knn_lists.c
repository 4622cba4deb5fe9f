/*
** Lists of neighbours come down from devices, and join.
**
** Where all rows have memory, and queries are more than one call of GX_NEAREST takes, lists come by
** groups of queries, each behind a mark of its own and on the queue for copies down: while those
** of a group are copied and joined, devices search for the queries behind it.  Else all of a batch
** come at once, behind all kernels.
**
** Lists of several devices are merged: each is sorted, ties go by number, so the order in which
** they join does not matter.
*/
#include "knn_device.h"

#include "../base/best.h"
#include "../run/call.h"

#include <string.h>

// Copies ------------------------------------------------------------------------------------------

static gx_code wait_for(const gx_knn_device *d, gx_queue *queue, gx_err *err)
{
    return d->accel->backend->queue_wait(d->accel->dev, queue, err);
}

/* Into the stage, from `at` on. */
static gx_code download(gx_knn_device *d, gx_queue *queue, size_t at, const void *from,
                        size_t bytes, gx_err *err)
{
    const gx_accel *accel = d->accel;
    gx_stats_add(&d->run->ctx->stats, GX_STAT_DOWNLOADED, (int64_t)bytes);
    return accel->backend->download(accel->dev, queue, (char *)d->stage.data + at, bytes, from,
                                    bytes, bytes, 1, err);
}

gx_code gx_knn_fetch(gx_knn_device *d, gx_queue *queue, const char *from, void *to, size_t bytes,
                     gx_err *err)
{
    for (size_t done = 0; done < bytes;) {
        size_t step = bytes - done < d->stage.bytes ? bytes - done : d->stage.bytes;
        GX_TRY(download(d, queue, 0, from + done, step, err));
        GX_TRY(wait_for(d, queue, err));
        gx_device_memcpy(d->run, (char *)to + done, d->stage.data, step);
        done += step;
    }
    return GX_OK;
}

/* Merits, and the numbers behind them: in one copy where they are few. */
static gx_code fetch_all(gx_knn_device *d, double *merit, int64_t *index, gx_err *err)
{
    gx_queue *queue = d->accel->run;
    size_t bytes = (size_t)(d->s->batch.n * d->s->out->count) * sizeof(double);
    size_t behind = d->at[GX_KNN_INDEX] - d->at[GX_KNN_MERIT], all = behind + bytes;
    if (all > d->stage.bytes) {
        GX_TRY(gx_knn_fetch(d, queue, gx_knn_place(d, GX_KNN_MERIT, 0), merit, bytes, err));
        return gx_knn_fetch(d, queue, gx_knn_place(d, GX_KNN_INDEX, 0), index, bytes, err);
    }
    GX_TRY(download(d, queue, 0, gx_knn_place(d, GX_KNN_MERIT, 0), all, err));
    GX_TRY(wait_for(d, queue, err));
    memcpy(merit, d->stage.data, bytes);
    memcpy(index, (char *)d->stage.data + behind, bytes);
    return GX_OK;
}

/* What of the batch's lists are those of queries [j, j + n), a group: merits, numbers, outcome. */
typedef struct portion {
    size_t at;       /* bytes in front of it, in merits and numbers each */
    size_t bytes;    /* of merits, and of numbers                        */
    size_t outcome;  /* bytes in front of its outcomes                  */
    size_t outcomes; /* bytes of these                                  */
    bool is_small;   /* the stage holds it                              */
} portion;

static portion portion_of(const gx_knn_device *d, int64_t j, int64_t n)
{
    size_t each = (size_t)d->s->out->count * sizeof(double);
    portion p = {.at = (size_t)j * each,
                 .bytes = (size_t)n * each,
                 .outcome = (size_t)(j / d->group->each * GX_KNN_CALLS) * sizeof(int32_t),
                 .outcomes = (size_t)d->turn[j / d->group->each].calls * sizeof(int32_t)};
    p.is_small = 2 * p.bytes + p.outcomes <= d->stage.bytes;
    return p;
}

/* Enqueued, behind the group's mark. */
static gx_code begin_group(gx_knn_device *d, int64_t j, int64_t n, gx_err *err)
{
    const gx_accel *accel = d->accel;
    portion p = portion_of(d, j, n);
    GX_TRY(gx_knn_wait_for_stage(d, err));
    GX_TRY(accel->backend->queue_after_mark(accel->dev, accel->down,
                                            d->turn[j / d->group->each].made, err));
    if (!p.is_small) {
        return GX_OK;
    }
    GX_TRY(download(d, accel->down, 0, gx_knn_place(d, GX_KNN_MERIT, p.at), p.bytes, err));
    GX_TRY(download(d, accel->down, p.bytes, gx_knn_place(d, GX_KNN_INDEX, p.at), p.bytes, err));
    return download(d, accel->down, 2 * p.bytes, gx_knn_place(d, GX_KNN_OUTCOME, p.outcome),
                    p.outcomes, err);
}

static gx_code end_group(gx_knn_device *d, int64_t j, int64_t n, double *merit, int64_t *index,
                         gx_err *err)
{
    gx_queue *queue = d->accel->down;
    portion p = portion_of(d, j, n);
    const char *stage = d->stage.data;
    int32_t outcome[GX_KNN_CALLS];
    if (p.is_small) {
        GX_TRY(wait_for(d, queue, err));
        memcpy(merit, stage, p.bytes);
        memcpy(index, stage + p.bytes, p.bytes);
        memcpy(outcome, stage + 2 * p.bytes, p.outcomes);
    } else {
        GX_TRY(gx_knn_fetch(d, queue, gx_knn_place(d, GX_KNN_MERIT, p.at), merit, p.bytes, err));
        GX_TRY(gx_knn_fetch(d, queue, gx_knn_place(d, GX_KNN_INDEX, p.at), index, p.bytes, err));
        GX_TRY(gx_knn_fetch(d, queue, gx_knn_place(d, GX_KNN_OUTCOME, p.outcome), outcome,
                            p.outcomes, err));
    }
    gx_knn_call *call = d->call + j / d->group->each * d->most_calls;
    for (int64_t c = 0; c < d->turn[j / d->group->each].calls; c++) {
        call[c].info = outcome[c];
    }
    return GX_OK;
}

/* What a group's calls came to: rows that are no numbers, or nothing that could be told. */
static gx_code look_at_outcomes(gx_knn_device *d, int64_t group, gx_err *err)
{
    const gx_knn_call *call = d->call + group * d->most_calls;
    for (int64_t c = 0; c < d->turn[group].calls; c++) {
        if (call[c].info < 0) {
            return gx_fail(err, GX_UNSUPPORTED,
                           "rows of %s are too much alike, or too large or small, to be told apart "
                           "on the device",
                           d->s->args->E->label);
        }
        if (call[c].info > 0) {
            gx_knn_mark(d->s, d->first + call[c].i0 + call[c].info - 1);
        }
    }
    return GX_OK;
}

// Lists of several devices ------------------------------------------------------------------------

enum { MERGES = 256 };

/* Of queries [j, j + n) of the batch. */
typedef struct merging {
    const gx_knn_group *group;
    int64_t j, n;
} merging;

static gx_code merge_some(void *arg, int64_t piece, int member, gx_err *err)
{
    const merging *m = arg;
    const gx_knn_search *s = m->group->part[0].s;
    int64_t count = s->out->count, end = gx_min(m->n, (piece + 1) * MERGES);
    int64_t first = s->batch.first - s->args->first + m->j;
    (void)member, (void)err;
    for (int64_t j = piece * MERGES; j < end; j++) {
        gx_best_merge(s->out->merit + (first + j) * count, s->out->index + (first + j) * count,
                      m->group->merit + j * count, m->group->index + j * count, count);
    }
    return GX_OK;
}

/* The lists of a later part join those of the first. */
static void merge_lists(const gx_knn_group *g, int64_t j, int64_t n)
{
    merging m = {.group = g, .j = j, .n = n};
    double entries = (double)n * (double)g->part[0].s->out->count;
    gx_run_pieces(g->part[0].run, entries, gx_ceil_div(n, MERGES), merge_some, &m);
}

gx_code gx_knn_take(gx_knn_group *g, gx_err *err)
{
    const gx_knn_search *s = g->part[0].s;
    bool in_groups = gx_knn_is_by_turns(&g->part[0]);
    int64_t j = g->taken, n = in_groups ? gx_min(g->each, g->count - j) : g->count;
    int64_t at = (g->first - s->args->first + j) * s->out->count;
    for (int k = 0; k < g->parts; k++) {
        g->culprit = k;
        GX_TRY(gx_knn_check_open(&g->part[k], err));
        GX_TRY(in_groups ? begin_group(&g->part[k], j, n, err) : GX_OK);
    }
    for (int k = 0; k < g->parts; k++) {
        gx_knn_device *d = &g->part[k];
        double *merit = k == 0 ? s->out->merit + at : g->merit;
        int64_t *index = k == 0 ? s->out->index + at : g->index;
        g->culprit = k;
        GX_TRY(in_groups ? end_group(d, j, n, merit, index, err) : fetch_all(d, merit, index, err));
        for (int64_t i = j; i < j + n; i += g->each) {
            GX_TRY(look_at_outcomes(d, i / g->each, err));
        }
        if (k > 0) {
            merge_lists(g, j, n);
        }
    }
    g->taken = j + n;
    return GX_OK;
}
