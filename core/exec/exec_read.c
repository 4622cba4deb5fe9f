/*
** Reading for a program on a device: see exec_queue.c for what becomes of it.
**
** Pieces are begun in the schedule's order.  A tile's pieces are a unit, which one thread reads one
** after the other, because SQLite finds its way to the middle of a tile from its beginning; so
** buffers are small, and what is read is still in the processor's cache when it goes up.  For the
** same reason a thread goes on with buffers of its own.
**
** Of the units that wait the first can always go on, as it needs steps that need only earlier ones,
** unless buffers are full of later ones.  So a unit whose block may not go up yet begins only where
** there are buffers for all of it and one beside, and they are kept for it.
**
** Helpers that have to go, because the caller writes (gx_stream_excludes_writer), leave the rest of
** their units to the caller.
*/
#include "exec_device.h"

#include <assert.h>

/* Under the lock: the next piece may be read: not a spilled block before it is in its sink. */
static bool may_read(const gx_xd *x, int64_t index)
{
    const gx_load *item = &x->plan.loads[x->piece[index].item];
    if (!item->is_spilled) {
        return true;
    }
    bool is_written = x->written == x->down_count ||
                      x->plan.flushes[x->down[x->written].item].before > item->after;
    return item->after <= x->done && is_written;
}

/* Under the lock: a spilled block that only the caller's connection sees. */
static bool is_for_caller(const gx_xd *x, int64_t index)
{
    const gx_load *item = &x->plan.loads[x->piece[index].item];
    return item->is_spilled && x->prog->operand[item->operand].sink->is_stored;
}

/* Under the lock: the next piece to be read is the caller's. */
bool gx_xd_is_callers_turn(const gx_xd *x)
{
    return x->next_piece < x->piece_count && is_for_caller(x, x->next_piece);
}

/* Under the lock: a buffer to read into, or -1.  One that is leaving must be waited for first. */
int gx_xd_find_stage(const gx_xd *x, bool is_down)
{
    int best = -1;
    for (int k = 0; k < x->stages; k++) {
        const gx_xd_stage *s = &x->stage[k];
        if (s->is_down == is_down && s->state == GX_XD_FREE) {
            return k;
        }
        if (s->is_down == is_down && s->state == GX_XD_LEAVING &&
            (best < 0 || s->turn < x->stage[best].turn)) {
            best = k;
        }
    }
    return best;
}

/* Under the lock: the next piece to be read is one that somebody reads. */
void gx_xd_pass_crossings(gx_xd *x)
{
    while (x->next_piece < x->piece_count && x->piece[x->next_piece].is_across) {
        x->next_piece++;
    }
}

/* Under the lock: what must have left its slot by step t is at least enqueued to come down. */
bool gx_xd_is_fetched(const gx_xd *x, int32_t t)
{
    return x->next_down == x->down_count || x->plan.flushes[x->down[x->next_down].item].before > t;
}

/* Under the lock: the piece's slot is free, or will be when the device comes to it. */
bool gx_xd_may_go_up(const gx_xd *x, int64_t index)
{
    int32_t after = x->plan.loads[x->piece[index].item].after;
    return index <= x->next_across && after <= x->done && gx_xd_is_fetched(x, after);
}

/*
** Under the lock: a buffer for a reader's next piece, one that it filled itself where that has had
** the time to leave: another one's lines are in another processor's cache, from where they have to
** be fetched, or taken, before they can be written to.  Else any, or -1.
*/
static int find_own_stage(const gx_xd *x, int reader)
{
    enum { TIME = 4 }; // to leave: as long as a fourth of all buffers need
    int best = -1;
    for (int k = 0; reader > 0 && k < x->stages; k++) {
        const gx_xd_stage *s = &x->stage[k];
        bool has_left = s->state == GX_XD_FREE ||
                        (s->state == GX_XD_LEAVING &&
                         s->turn + gx_ceil_div(x->stages, TIME) <= x->sendings);
        bool is_own = !s->is_down && s->reader == reader && has_left;
        best = is_own && (best < 0 || s->turn < x->stage[best].turn) ? k : best;
    }
    return best >= 0 ? best : gx_xd_find_stage(x, false);
}

/* Under the lock: buffers that are promised to nobody. */
static int64_t spare_stages(const gx_xd *x)
{
    int64_t count = 0;
    for (int k = 0; k < x->stages; k++) {
        const gx_xd_stage *s = &x->stage[k];
        count += !s->is_down && (s->state == GX_XD_FREE || s->state == GX_XD_LEAVING);
    }
    return count - x->promised;
}

/* Under the lock: the first piece that nobody reads. */
static int64_t find_unit(const gx_xd *x)
{
    int64_t first = x->next_piece;
    for (int64_t k = x->sent; x->abandoned > 0 && k < first; k++) {
        first = x->piece[k].is_abandoned ? k : first;
    }
    return first;
}

/* Under the lock: take the next unit. */
bool gx_xd_begin_unit(gx_xd *x, gx_xd_unit *u)
{
    int64_t first = find_unit(x);
    if (first == x->piece_count || !may_read(x, first)) {
        return false;
    }
    gx_xd_piece *p = &x->piece[first];
    bool is_ahead = !gx_xd_may_go_up(x, first);
    if (is_ahead && spare_stages(x) <= p->turns) {
        x->is_held = true;
        return false;
    }
    *u = (gx_xd_unit){
        .next = first, .end = first + p->turns, .reader = u->reader, .is_ahead = is_ahead};
    x->promised += is_ahead ? p->turns : 0;
    x->units++;
    if (p->is_abandoned) {
        p->is_abandoned = false;
        x->abandoned--;
    } else {
        x->next_piece = u->end;
        gx_xd_pass_crossings(x);
    }
    return true;
}

/* Under the lock: a unit has been read, or the helper leaves it to the caller. */
void gx_xd_end_unit(gx_xd *x, gx_xd_unit *u)
{
    if (u->next < u->end) {
        x->promised -= u->is_ahead ? u->end - u->next : 0;
        x->piece[u->next].is_abandoned = true;
        x->abandoned++;
        u->next = u->end;
    }
    x->units--;
    if (x->units == 0) {
        pthread_cond_signal(&x->calling);
    }
}

/* Under the lock, which is let go while waiting: a buffer for the unit's next piece. */
bool gx_xd_take_piece(gx_xd *x, gx_xd_unit *u, int64_t *index)
{
    if (!u->is_ahead && spare_stages(x) <= 0) {
        return false;
    }
    int k = find_own_stage(x, u->reader);
    assert(k >= 0 && u->next < u->end);
    gx_xd_stage *s = &x->stage[k];
    bool is_leaving = s->state == GX_XD_LEAVING;
    assert((is_leaving || s->state == GX_XD_FREE) && !s->is_down);
    *index = u->next++;
    x->promised -= u->is_ahead;
    x->piece[*index].stage = k;
    s->state = GX_XD_FILLING;
    s->reader = u->reader;
    if (is_leaving) {
        pthread_mutex_unlock(&x->lock);
        gx_err err = {0};
        const gx_accel *accel = x->device[s->device].on.accel;
        accel->backend->mark_wait(accel->dev, s->mark[s->device], &err);
        gx_xd_fault(x, s->device, &err);
        pthread_mutex_lock(&x->lock);
    }
    s->piece = *index; // only now: until then a kernel may have to wait for the older one
    return true;
}

gx_dtype gx_xd_form(const gx_xd *x, const gx_xd_piece *p)
{
    const gx_load *item = &x->plan.loads[p->item];
    const gx_opnd *op = &x->prog->operand[item->operand];
    return item->is_spilled ? gx_dtype_of(op->dtype)
                            : gx_device_form(x->device[item->device].on.accel,
                                             &x->stage[p->stage].memory, op->source, op->dtype);
}

void gx_xd_read_piece(gx_xd *x, int64_t index, gx_reader *reader)
{
    const gx_xd_piece *p = &x->piece[index];
    const gx_load *item = &x->plan.loads[p->item];
    gx_err err = {0};
    if (gx_xd_ok(x)) {
        gx_exec_read(x->run, &x->prog->operand[item->operand], item, p->i, p->m, p->j, p->n,
                     gx_xd_form(x, p), x->stage[p->stage].memory.data, reader, &err);
        gx_run_fail(x->run, &err);
    }
    pthread_mutex_lock(&x->lock);
    assert(x->stage[p->stage].state == GX_XD_FILLING && x->stage[p->stage].piece == index);
    x->stage[p->stage].state = GX_XD_FULL;
    pthread_cond_signal(&x->copying);
    pthread_mutex_unlock(&x->lock);
}

/* Under the lock: is there something to read that has been begun, or may be by a helper? */
static bool has_unit(gx_xd *x, gx_xd_unit *u)
{
    return u->next < u->end || (!gx_xd_is_callers_turn(x) && gx_xd_begin_unit(x, u));
}

/* A helper: reads while there is something to read, and writes to memory what comes down. */
void gx_xd_help(void *arg, gx_helper *helper)
{
    gx_xd *x = arg;
    gx_xd_unit unit = {.reader = helper->index + 1};
    pthread_mutex_lock(&x->lock);
    while (!x->is_closed && gx_xd_ok(x) &&
           (unit.next < unit.end || x->next_piece < x->piece_count ||
            (x->helps_writing && x->next_written < x->down_count))) {
        int64_t index;
        bool is_begun = has_unit(x, &unit);
        if (!is_begun || !gx_xd_take_piece(x, &unit, &index)) {
            if (x->helps_writing && x->next_written < x->next_down) {
                gx_xd_deliver(x, false);
                continue;
            }
            int64_t start_ns = gx_now_ns();
            pthread_cond_wait(is_begun ? &x->buffers : &x->readers, &x->lock);
            gx_stats_add(&x->run->ctx->stats, GX_STAT_READERS_IDLE_NS, gx_now_ns() - start_ns);
            continue;
        }
        pthread_mutex_unlock(&x->lock);
        const gx_load *item = &x->plan.loads[x->piece[index].item];
        const gx_mat *source = x->prog->operand[item->operand].source; // NULL: spilled, in memory
        gx_xd_read_piece(x, index, source == NULL ? NULL : gx_helper_reader(helper, source));
        pthread_mutex_lock(&x->lock);
        if (unit.next == unit.end) {
            gx_xd_end_unit(x, &unit);
        }
    }
    if (unit.next < unit.end) {
        gx_xd_end_unit(x, &unit);
    }
    pthread_mutex_unlock(&x->lock);
}

/* Under the lock: units that are held may begin, now that something has gone on. */
void gx_xd_wake_held(gx_xd *x)
{
    if (x->is_held) {
        x->is_held = false;
        pthread_cond_broadcast(&x->readers);
    }
}
