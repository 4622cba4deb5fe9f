/*
** Which queries meet which rows, and when.
**
** Queries go to devices by turns, of no more than a call of GX_NEAREST takes.  Where all rows have
** memory on the devices, a turn goes on from the rows that it has met to those that are there now:
** the first turn as soon as a panel has come.  While none comes the caller makes the next turn's
** queries ready, and lets later turns meet what is there.  When all rows are there each meets the
** rest in one call: all of a matrix that was there before.
**
** Where rows go through two buffers, all of the batch meets each panel.
*/
#include "knn_device.h"

#include "../exec/load.h"

/* While rows come later turns meet no less than this share of them: a call has costs of its own. */
enum { PARTS = 8 };

// Calls -------------------------------------------------------------------------------------------

/* A turn's queries meet m rows from the device's i0-th on, at a. */
static gx_code meet(gx_knn_device *d, int64_t t, const void *a, int64_t lda, int64_t i0, int64_t m,
                    gx_err *err)
{
    const gx_knn_search *s = d->s;
    gx_knn_turn *turn = &d->turn[t];
    const gx_accel *accel = d->on.accel;
    int64_t n = gx_knn_turn_queries(d->group, t), info = 0;
    gx_knn_layout l = gx_knn_lay_out(d, n);
    char *at = gx_knn_turn_at(d, t);
    bool has_b = l.at[GX_KNN_B + 1] > l.at[GX_KNN_B]; // else doubles are multiplied
    int32_t *outcome = (int32_t *)(void *)(at + l.at[GX_KNN_OUTCOME]);
    gx_nearest w = {.metric = s->args->metric,
                    .query = (double *)(void *)(at + l.at[GX_KNN_QUERY]),
                    .square = (double *)(void *)(at + l.at[GX_KNN_SQUARE]),
                    .length = (double *)(void *)(at + l.at[GX_KNN_LENGTH]),
                    .shift = gx_knn_is_shifted(s) ? d->on.hold[GX_KNN_PART].data : NULL,
                    .count = s->out->count,
                    .merit = (double *)(void *)(at + l.at[GX_KNN_MERIT]),
                    .index = (int64_t *)(void *)(at + l.at[GX_KNN_INDEX]),
                    .outcome = outcome + turn->calls,
                    .goes_on = turn->calls > 0,
                    .first_index = d->first + i0,
                    .self =
                        s->args->excludes_self ? s->batch.first + t * d->group->each : GX_NO_SELF};
    gx_args args = {.m = m,
                    .n = n,
                    .k = s->args->E->cols,
                    .a = a,
                    .lda = lda,
                    .b = at + l.at[has_b ? GX_KNN_B : GX_KNN_QUERY],
                    .ldb = s->args->E->cols,
                    .half = gx_knn_half(s),
                    .nearest = &w,
                    .work = d->on.hold[GX_KNN_WORK].data,
                    .info = &info};
    d->call[t * d->most_calls + turn->calls] = i0;
    turn->calls++;
    turn->rows = i0 + m;
    GX_TRY(gx_devcall_check_open(&d->on, err));
    GX_TRY(gx_devcall_kernel(&d->on, GX_NEAREST, s->dtype, &args, err));
    GX_TRY(turn->made == NULL ? GX_OK
                              : accel->backend->mark_set(accel->dev, accel->run, turn->made, err));
    gx_run_poll(s->run);
    return GX_OK;
}

/* The next m rows of those that are there. */
static gx_code meet_next(gx_knn_device *d, int64_t t, int64_t m, gx_err *err)
{
    int64_t i0 = d->turn[t].rows;
    const void *a = gx_at(d->on.hold[GX_KNN_ROWS].data, d->s->dtype, d->height, i0, 0);
    return meet(d, t, a, d->height, i0, m, err);
}

// Turns -------------------------------------------------------------------------------------------

/* Have all rows memory, to be met by some queries after the others? */
static bool has_turns(const gx_knn_group *g)
{
    bool all = !gx_knn_is_listed(&g->part[0]);
    for (int k = 0; k < g->parts; k++) {
        all = all && g->part[k].is_whole;
    }
    return all;
}

/* The queries of the next turn are ready, and sent. */
static gx_code bring_queries(gx_knn_group *g, gx_err *err)
{
    int64_t end = gx_min(g->count, (g->sent + 1) * g->each);
    bool is_ready = gx_knn_make(g->part[0].s, end) == GX_OK; // or the run says why
    return is_ready ? gx_knn_send(g, err) : GX_OK;
}

/*
** Rows that a turn's queries meet now.  While others come later turns wait for some more.  Of
** several devices each first meets a panel: all have something to do while the caller enqueues
** hundreds of launches for one.
*/
static int64_t rows_for(const gx_knn_device *d, int64_t t)
{
    const gx_knn_turn *turn = &d->turn[t];
    int64_t rows = d->there - turn->rows;
    bool is_last = turn->calls == d->most_calls - 1, is_small = t > 0 && rows < d->height / PARTS;
    bool is_first = t == 0 && turn->calls == 0 && d->group->parts > 1;
    return d->there < d->height && (is_last || is_small) ? 0
           : is_first                                    ? gx_min(rows, d->rows)
                                                         : rows;
}

/*
** The first turn that can go on meets what it has not met, on the device that has had the fewest
** calls for it; or the next one's queries are made ready.  *is_done: neither, for now.
*/
static gx_code go_on(gx_knn_group *g, bool *is_done, gx_err *err)
{
    for (int64_t t = 0; t < g->sent; t++) {
        int least = -1;
        for (int k = 0; k < g->parts; k++) {
            bool has_fewer = least < 0 || g->part[k].turn[t].calls < g->part[least].turn[t].calls;
            least = has_fewer && rows_for(&g->part[k], t) > 0 ? k : least;
        }
        if (least >= 0) {
            gx_knn_device *d = &g->part[least];
            g->calls.culprit = least;
            return meet_next(d, t, rows_for(d, t), err);
        }
    }
    *is_done = g->sent * g->each >= g->count;
    return *is_done ? GX_OK : bring_queries(g, err);
}

// Panels ------------------------------------------------------------------------------------------

/* Where a panel lies. */
static void *panel_at(const gx_knn_device *d, int64_t panel, int64_t *ld)
{
    const gx_hold *hold = &d->on.hold[d->is_whole ? GX_KNN_ROWS : panel % GX_KNN_RING];
    *ld = d->is_whole ? d->height : gx_min(d->rows, d->height - panel * d->rows);
    return gx_at(hold->data, d->s->dtype, *ld, d->is_whole ? panel * d->rows : 0, 0);
}

/* Behind what has been searched for in the panel that lay there before. */
static void *place_panel(void *arg, int64_t panel, int64_t *ld, gx_err *err)
{
    const gx_knn_device *d = arg;
    const gx_accel *accel = d->on.accel;
    gx_mark *used = d->on.mark[panel % GX_KNN_RING];
    bool is_good = d->is_whole || panel < GX_KNN_RING ||
                   accel->backend->queue_after_mark(accel->dev, accel->up, used, err) == GX_OK;
    return is_good ? panel_at(d, panel, ld) : NULL;
}

/* Memory for all rows, or for panels, which a batch before this one may have taken. */
static gx_code take_rows(void *arg, gx_err *err)
{
    gx_knn_device *d = arg;
    GX_TRY(gx_devcall_take(&d->on, 0, err));
    return gx_devcall_take(&d->on, 1, err);
}

/* Rows that are there without a gap. */
static void note_panels(gx_knn_device *d, int64_t panel, int64_t count)
{
    for (int64_t p = panel; p < panel + count; p++) {
        d->came[p] = true;
    }
    int64_t p = d->there / d->rows;
    while (p < d->panels && d->came[p]) {
        p++;
    }
    d->there = gx_min(d->height, p * d->rows);
}

/* All of the batch meets a panel; queries that have not been sent go up meanwhile. */
static gx_code meet_panel(gx_knn_device *d, int64_t panel, gx_err *err)
{
    gx_knn_group *g = d->group;
    const gx_accel *accel = d->on.accel;
    int64_t i0 = panel * d->rows, ld = 0;
    const void *a = panel_at(d, panel, &ld);
    for (int64_t t = 0; t * g->each < g->count && gx_ok(d->s->run); t++) {
        GX_TRY(t < g->sent ? GX_OK : gx_knn_send(g, err));
        GX_TRY(meet(d, t, a, ld, i0, gx_min(d->rows, d->height - i0), err));
    }
    return accel->backend->mark_set(accel->dev, accel->run, d->on.mark[panel % GX_KNN_RING], err);
}

static gx_code use_panels(void *arg, int64_t panel, int64_t count, gx_err *err)
{
    gx_knn_device *d = arg;
    const gx_accel *accel = d->on.accel;
    gx_mark *loaded = d->on.mark[GX_KNN_LOADED];
    if (gx_knn_is_listed(d)) {
        return GX_OK;
    }
    GX_TRY(accel->backend->mark_set(accel->dev, accel->up, loaded, err));
    GX_TRY(accel->backend->queue_after_mark(accel->dev, accel->run, loaded, err));
    if (d->is_whole) {
        note_panels(d, panel, count);
        int64_t rows = rows_for(d, 0);
        return rows > 0 ? meet_next(d, 0, rows, err) : GX_OK;
    }
    for (int64_t end = panel + count; panel < end; panel++) {
        GX_TRY(meet_panel(d, panel, err));
    }
    return GX_OK;
}

/* While rows of a device are read. */
static gx_code work_meanwhile(void *arg, bool *is_done, gx_err *err)
{
    gx_knn_group *g = ((gx_knn_device *)arg)->group;
    *is_done = !has_turns(g);
    if (*is_done) {
        gx_knn_make(g->part[0].s, g->count);
        return GX_OK;
    }
    return go_on(g, is_done, err);
}

static gx_code bring_rows(gx_knn_device *d, gx_err *err)
{
    gx_mat rows;
    gx_device_panels panels = {.rows = d->rows,
                               .ring = d->is_whole ? d->panels : GX_KNN_RING,
                               .place = place_panel,
                               .open = take_rows,
                               .ready = use_panels,
                               .meanwhile = work_meanwhile,
                               .arg = d};
    gx_mat_view(&rows, d->s->args->E, GX_NO_TRANS, d->first, 0, d->height, d->s->args->E->cols);
    d->s->is_beside = true;
    gx_code code = gx_device_load_panels(d->s->run, d->on.accel, &rows, d->s->dtype, &panels, err);
    d->s->is_beside = false;
    d->on.is_there = code == GX_OK && d->is_whole && gx_ok(d->s->run);
    return code;
}

// The whole ---------------------------------------------------------------------------------------

/* The batch, of which nothing is ready, nor has been sent. */
static void begin_batch(gx_knn_group *g)
{
    gx_knn_search *s = g->part[0].s;
    g->each = gx_knn_each(&g->part[0], g->count);
    gx_knn_begin(s, g->first, g->count);
    s->batch.is_b_plain = gx_knn_is_made_there(&g->part[0]);
    for (int k = 0; k < g->parts; k++) {
        gx_knn_device *d = &g->part[k];
        for (int64_t t = 0; t < d->turns; t++) {
            d->turn[t].rows = d->turn[t].calls = 0;
        }
        d->filled = 0;
        d->there = d->on.is_there ? d->height : 0;
    }
    g->sent = 0;
}

gx_code gx_knn_enqueue(gx_knn_group *g, gx_err *err)
{
    gx_knn_search *s = g->part[0].s;
    bool is_done = !has_turns(g);
    begin_batch(g);
    for (int k = 0; k < g->parts && gx_ok(s->run); k++) {
        g->calls.culprit = k;
        GX_TRY(g->part[k].on.is_there ? GX_OK : bring_rows(&g->part[k], err));
    }
    if (is_done && gx_ok(s->run)) {
        gx_knn_make(s, g->count); // candidates of rows that were there
    }
    while (!is_done && gx_ok(s->run)) {
        GX_TRY(go_on(g, &is_done, err));
    }
    return GX_OK;
}
