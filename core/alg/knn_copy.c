/*
** What goes up to devices for a search, queries by turns and listed pairs, and the lists of
** neighbours that come down, and join.
**
** Up, all passes through one page-locked buffer, from which copies are enqueued when it is full or
** the next bytes have another place; before it is written to again they are waited for.
**
** Lists come by turns of queries, each behind a mark of its own and on the queue for copies down:
** while those of a turn are copied and joined, devices search for the queries behind it.
**
** Lists of several devices are merged: each is sorted, ties go by number, so the order in which
** they join does not matter.
*/
#include "knn_device.h"

#include "../base/best.h"
#include "../run/call.h"

#include <string.h>

static const size_t GAP_MOST = 256; // bytes that go up as nothing

// Up ----------------------------------------------------------------------------------------------

/* Until the stage may be written to. */
static gx_code wait_for_stage(gx_knn_device *d, gx_err *err)
{
    const gx_accel *accel = d->on.accel;
    bool is_flying = d->is_flying;
    d->is_flying = false;
    return is_flying ? accel->backend->queue_wait(accel->dev, accel->up, err) : GX_OK;
}

/* What is in the stage goes up, behind what went before. */
static gx_code flush(gx_knn_device *d, gx_err *err)
{
    const gx_accel *accel = d->on.accel;
    size_t bytes = d->filled;
    if (bytes > 0) {
        GX_TRY(accel->backend->upload(accel->dev, accel->up, d->to, bytes, d->on.stage.data, bytes,
                                      bytes, 1, err));
        gx_stats_add(&d->s->run->ctx->stats, GX_STAT_UPLOADED, (int64_t)bytes);
        d->is_flying = true;
    }
    d->to += bytes;
    d->filled = 0;
    return GX_OK;
}

gx_code gx_knn_put_end(gx_knn_device *d, gx_err *err)
{
    const gx_accel *accel = d->on.accel;
    gx_mark *loaded = d->on.mark[GX_KNN_LOADED];
    GX_TRY(flush(d, err));
    GX_TRY(accel->backend->mark_set(accel->dev, accel->up, loaded, err));
    return accel->backend->queue_after_mark(accel->dev, accel->run, loaded, err);
}

gx_code gx_knn_put(gx_knn_device *d, char *to, const void *from, size_t bytes, gx_err *err)
{
    const gx_staging *stage = &d->on.stage;
    size_t gap = d->filled == 0 ? 0 : (size_t)(to - d->to) - d->filled; // for alignment
    if (d->filled == 0 || gap > GAP_MOST || gap > stage->bytes - d->filled) {
        GX_TRY(flush(d, err));
        d->to = to;
        gap = 0;
    }
    GX_TRY(wait_for_stage(d, err));
    memset((char *)stage->data + d->filled, 0, gap);
    d->filled += gap;
    for (size_t done = 0; done < bytes;) {
        size_t room = stage->bytes - d->filled, step = bytes - done < room ? bytes - done : room;
        GX_TRY(wait_for_stage(d, err));
        if (gx_knn_wants_team(d->s)) {
            gx_device_stage(d->s->run, (char *)stage->data + d->filled, step,
                            (const char *)from + done, step, step, 1);
        } else {
            memcpy((char *)stage->data + d->filled, (const char *)from + done, step);
        }
        d->filled += step;
        done += step;
        if (d->filled == stage->bytes) {
            GX_TRY(flush(d, err));
        }
    }
    return GX_OK;
}

/* Of a turn of n queries, which has been sent, what the device makes: doubles; b, of a shift. */
static gx_code make_there(gx_knn_device *d, int64_t t, int64_t n, gx_err *err)
{
    int64_t k = d->s->args->E->cols;
    bool is_shifted = gx_knn_is_shifted(d->s);
    gx_knn_layout l = gx_knn_lay_out(d, n);
    char *turn = gx_knn_turn_at(d, t);
    gx_args args = {.m = k, .n = n, .from = GX_DTYPE_F32, .lda = k, .ldc = k};
    if (!gx_knn_is_made_there(d) || k == 0) {
        return GX_OK;
    }
    args.a = turn + l.at[is_shifted ? GX_KNN_PLAIN : GX_KNN_B];
    args.c = turn + l.at[GX_KNN_QUERY];
    GX_TRY(gx_devcall_kernel(&d->on, GX_CONVERT, GX_F64, &args, err));
    args.map = GX_MAP_ADD;
    args.alpha = GX_ONE;
    args.b = d->on.hold[GX_KNN_PART].data; // the shift: one column, taken off each
    args.beta = (gx_scalar){-1, 0};
    args.c = turn + l.at[GX_KNN_B];
    return is_shifted ? gx_devcall_kernel(&d->on, GX_MAP, GX_F32, &args, err) : GX_OK;
}

/* The shift goes with the first turn.  What the device can make itself does not go. */
static gx_code put_turn(gx_knn_device *d, int64_t t, int64_t n, gx_err *err)
{
    const gx_knn_batch *b = &d->s->batch;
    gx_knn_layout l = gx_knn_lay_out(d, n);
    size_t j = (size_t)(t * d->group->each), k = (size_t)d->s->args->E->cols;
    size_t es = gx_number_bytes(d->s->dtype);
    const struct {
        const void *from;
        size_t each;
    } of[GX_KNN_MERIT] = {[GX_KNN_SQUARE] = {b->square, sizeof(double)},
                          [GX_KNN_LENGTH] = {b->length, sizeof(double)},
                          [GX_KNN_PLAIN] = {b->b, k * es},
                          [GX_KNN_B] = {b->b, k * es},
                          [GX_KNN_QUERY] = {b->query, k * sizeof(double)}};
    if (t == 0) {
        size_t shift = b->shift == NULL ? 0 : k * es;
        GX_TRY(gx_knn_put(d, d->on.hold[GX_KNN_PART].data, b->shift, shift, err));
    }
    for (int p = 0; p < GX_KNN_MERIT && l.at[p] < l.sent; p++) {
        if (l.at[p + 1] > l.at[p]) {
            GX_TRY(gx_knn_put(d, gx_knn_turn_at(d, t) + l.at[p],
                              (const char *)of[p].from + j * of[p].each, (size_t)n * of[p].each,
                              err));
        }
    }
    GX_TRY(gx_knn_put_end(d, err));
    return make_there(d, t, n, err);
}

/* From the first device's memory.  Turns lie elsewhere on devices of more or fewer rows. */
static gx_code copy_turn(gx_knn_device *d, int64_t t, int64_t n, gx_err *err)
{
    const gx_knn_device *first = &d->group->part[0];
    const gx_accel *accel = d->on.accel;
    const char *shift = first->on.hold[GX_KNN_PART].data, *turn = gx_knn_turn_at(first, t);
    size_t before = t == 0 ? (size_t)(turn - shift) : 0; // the shift goes with the first turn
    size_t bytes = before + gx_knn_lay_out(d, n).sent;
    GX_TRY(accel->backend->queue_after_mark(accel->dev, accel->run, first->on.mark[GX_KNN_LOADED],
                                            err));
    GX_TRY(accel->backend->copy_from(accel->dev, accel->run, gx_knn_turn_at(d, t) - before,
                                     first->on.accel->dev, turn - before, bytes, err));
    gx_stats_add(&d->s->run->ctx->stats, GX_STAT_PEER_BYTES, (int64_t)bytes);
    return make_there(d, t, n, err);
}

gx_code gx_knn_send(gx_knn_group *g, gx_err *err)
{
    int64_t t = g->sent++, n = gx_knn_turn_queries(g, t);
    int culprit = g->calls.culprit;
    for (int k = 0; k < g->parts; k++) {
        gx_knn_device *d = &g->part[k];
        g->calls.culprit = k;
        GX_TRY(gx_devcall_check_open(&d->on, err));
        GX_TRY(k == 0 ? put_turn(d, t, n, err) : copy_turn(d, t, n, err));
    }
    g->calls.culprit = culprit;
    return GX_OK;
}

// Down --------------------------------------------------------------------------------------------

/* To the stage. */
static gx_code download(gx_knn_device *d, gx_queue *queue, const void *from, size_t bytes,
                        gx_err *err)
{
    const gx_accel *accel = d->on.accel;
    gx_stats_add(&d->s->run->ctx->stats, GX_STAT_DOWNLOADED, (int64_t)bytes);
    return accel->backend->download(accel->dev, queue, d->on.stage.data, bytes, from, bytes, bytes,
                                    1, err);
}

gx_code gx_knn_fetch(gx_knn_device *d, gx_queue *queue, const char *from, void *to, size_t bytes,
                     gx_err *err)
{
    const gx_accel *accel = d->on.accel;
    for (size_t done = 0; done < bytes;) {
        size_t left = bytes - done, step = left < d->on.stage.bytes ? left : d->on.stage.bytes;
        GX_TRY(download(d, queue, from + done, step, err));
        GX_TRY(accel->backend->queue_wait(accel->dev, queue, err));
        gx_device_memcpy(d->s->run, (char *)to + done, d->on.stage.data, step);
        done += step;
    }
    return GX_OK;
}

/* A turn's lists and outcomes, in its part of device memory. */
typedef struct portion {
    gx_queue *queue;
    const char *from;
    size_t list, outcomes; /* bytes of merits, and of numbers; of outcomes */
    size_t all;            /* with what is between them */
    bool is_small;         /* the stage holds it */
} portion;

static portion portion_of(const gx_knn_device *d, int64_t t)
{
    int64_t n = gx_knn_turn_queries(d->group, t);
    gx_knn_layout l = gx_knn_lay_out(d, n);
    portion p = {.queue = d->turn[t].made == NULL ? d->on.accel->run : d->on.accel->down,
                 .from = gx_knn_turn_at(d, t) + l.at[GX_KNN_MERIT],
                 .list = (size_t)(n * d->s->out->count) * sizeof(double),
                 .outcomes = (size_t)d->turn[t].calls * sizeof(int32_t)};
    p.all = l.at[GX_KNN_OUTCOME] - l.at[GX_KNN_MERIT] + p.outcomes;
    p.is_small = p.all <= d->on.stage.bytes;
    return p;
}

/* Enqueued, behind the turn's mark. */
static gx_code begin_turn(gx_knn_device *d, int64_t t, gx_err *err)
{
    const gx_accel *accel = d->on.accel;
    portion p = portion_of(d, t);
    if (d->turn[t].made != NULL) {
        GX_TRY(wait_for_stage(d, err));
        GX_TRY(accel->backend->queue_after_mark(accel->dev, p.queue, d->turn[t].made, err));
    }
    return p.is_small ? download(d, p.queue, p.from, p.all, err) : GX_OK;
}

static gx_code end_turn(gx_knn_device *d, int64_t t, double *merit, int64_t *index, gx_err *err)
{
    const gx_accel *accel = d->on.accel;
    portion p = portion_of(d, t);
    gx_knn_layout l = gx_knn_lay_out(d, gx_knn_turn_queries(d->group, t));
    void *const to[] = {merit, index, d->outcome};
    const size_t bytes[] = {p.list, p.list, p.outcomes};
    GX_TRY(p.is_small ? accel->backend->queue_wait(accel->dev, p.queue, err) : GX_OK);
    for (int k = 0; k < 3; k++) {
        size_t at = l.at[GX_KNN_MERIT + k] - l.at[GX_KNN_MERIT];
        if (p.is_small) {
            memcpy(to[k], (const char *)d->on.stage.data + at, bytes[k]);
        } else {
            GX_TRY(gx_knn_fetch(d, p.queue, p.from + at, to[k], bytes[k], err));
        }
    }
    for (int64_t c = 0; c < d->turn[t].calls; c++) {
        if (d->outcome[c] < 0) {
            return gx_fail(err, GX_UNSUPPORTED,
                           "rows of %s are too much alike, or too large or small, to be told apart "
                           "on the device",
                           d->s->args->E->label);
        }
        if (d->outcome[c] > 0) { // a row that is no number
            int64_t i0 = d->call[t * d->most_calls + c];
            gx_knn_mark(d->s, d->first + i0 + d->outcome[c] - 1);
        }
    }
    return GX_OK;
}

// Lists of several devices ------------------------------------------------------------------------

enum { MERGES = 256 };

/* The lists of n queries, from list `first` of all on. */
typedef struct merging {
    const gx_knn_group *group;
    int64_t first, n;
} merging;

static gx_code merge_some(void *arg, int64_t piece, int member, gx_err *err)
{
    const merging *m = arg;
    const gx_neighbours *out = m->group->part[0].s->out;
    int64_t count = out->count, end = gx_min(m->n, (piece + 1) * MERGES);
    (void)member, (void)err;
    for (int64_t j = piece * MERGES; j < end; j++) {
        gx_best_merge(out->merit + (m->first + j) * count, out->index + (m->first + j) * count,
                      m->group->merit + j * count, m->group->index + j * count, count);
    }
    return GX_OK;
}

gx_code gx_knn_take(gx_knn_group *g, int64_t turn, gx_err *err)
{
    const gx_knn_search *s = g->part[0].s;
    int64_t count = s->out->count, n = gx_knn_turn_queries(g, turn);
    merging m = {.group = g, .first = g->first - s->args->first + turn * g->each, .n = n};
    for (int k = 0; k < g->parts; k++) {
        g->calls.culprit = k;
        GX_TRY(gx_devcall_check_open(&g->part[k].on, err));
        GX_TRY(begin_turn(&g->part[k], turn, err));
    }
    for (int k = 0; k < g->parts; k++) {
        g->calls.culprit = k;
        GX_TRY(end_turn(&g->part[k], turn, k == 0 ? s->out->merit + m.first * count : g->merit,
                        k == 0 ? s->out->index + m.first * count : g->index, err));
        if (k > 0) { // a later part's join the first's
            gx_run_pieces(s->run, (double)(n * count), gx_ceil_div(n, MERGES), merge_some, &m);
        }
    }
    return GX_OK;
}
