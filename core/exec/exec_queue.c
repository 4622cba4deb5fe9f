/*
** The helpers, the carrier, the conductor and the caller of a program on a device: see
** exec_device.c.
**
** Everything under way is a piece in a staging buffer, and goes through one cycle each way:
**
**   up     FREE -> FILLING (read) -> FULL -> LEAVING (enqueued) -> FREE when its mark has passed
**   down   FREE -> FULL (enqueued to come down) -> FILLING (mark has passed: being written) -> FREE
**
** Pieces come down in the schedule's order; they go up as soon as they are read and their blocks
** may, in any order but past a copy from another device.  Who reads what: exec_read.c.
**
** The conductor waits for the device where a kernel's result is looked at; copies have a thread of
** their own, the carrier, so that they go on meanwhile.  Each kind of thread sleeps on a condition
** of its own: a piece wakes whom it concerns, not two dozen.
**
** Where everything is on the device already there is nothing to wait for, and the caller is
** conductor and carrier one after the other (needs_nobody()).
**
** A mark that another thread sets anew while a queue is told to wait for it makes that queue wait
** for something later that is enqueued already, and so needs nothing of what this queue does next:
** a delay at worst.  ring_lock keeps two threads from using one mark at once.
*/
#include "exec_device.h"

#include "../base/thread.h"

#include <assert.h>

static const gx_backend *backend_of(const gx_xd *x)
{
    return x->device[0].on.accel->backend; // the same for all
}

static gx_dev *dev_of(const gx_xd *x, int device)
{
    return x->device[device].on.accel->dev;
}

// What waits for what, under ring_lock ------------------------------------------------------------

/*
** A queue of `device` goes on after copy number `copy` to another one; what left the ring is done.
*/
static gx_code after_copy(gx_xd *x, int device, gx_queue *queue, int to, int32_t copy, gx_err *err)
{
    const gx_xd_device *other = &x->device[to];
    return copy == 0 || other->copies - copy >= GX_XD_RING
               ? GX_OK
               : backend_of(x)->queue_after_mark(dev_of(x, device), queue,
                                                 other->across[copy % GX_XD_RING], err);
}

/* What a queue has to wait for before it may touch a slot of its device. */
static gx_code after_slot(gx_xd *x, int device, gx_queue *queue, int32_t slot, gx_err *err)
{
    gx_code code = GX_OK;
    pthread_mutex_lock(&x->ring_lock);
    int down = x->use[slot].down;
    x->use[slot].down = 0; // also where the other queue goes next: it comes after this one
    if (down != 0) {
        code = backend_of(x)->queue_after_mark(dev_of(x, device), queue,
                                               x->stage[down - 1].mark[device], err);
    }
    for (int d = 0; d < x->devices && code == GX_OK; d++) {
        int32_t *copy = &x->lent[slot * x->devices + d];
        code = after_copy(x, device, queue, d, *copy, err);
        *copy = 0;
    }
    pthread_mutex_unlock(&x->ring_lock);
    return code;
}

/*
** A queue of any device goes on after the steps up to t of device `of`: after the latest of them in
** its ring; those that have left it have run.
*/
static gx_code after_step(gx_xd *x, int device, gx_queue *queue, int of, int32_t t, gx_err *err)
{
    gx_code code = GX_OK;
    const gx_xd_device *other = &x->device[of];
    int best = -1;
    pthread_mutex_lock(&x->ring_lock);
    for (int k = 0; k < GX_XD_RING; k++) {
        int32_t step = other->ring_step[k];
        best = step >= 0 && step <= t && (best < 0 || step > other->ring_step[best]) ? k : best;
    }
    if (best >= 0) {
        code = backend_of(x)->queue_after_mark(dev_of(x, device), queue, other->ring[best], err);
    }
    pthread_mutex_unlock(&x->ring_lock);
    return code;
}

/* A piece of a block in its slot: the first element, bytes from column to column, and of one. */
typedef struct spot {
    void *at;
    size_t ld, column;
} spot;

static spot spot_of(const gx_xd *x, const gx_xd_piece *p, int operand, int32_t block, int32_t slot)
{
    const gx_opnd *op = &x->prog->operand[operand];
    int64_t ld = gx_block_shape(op, block).m;
    size_t size = gx_number_bytes(op->dtype);
    void *at = gx_at(x->place[slot], op->dtype, ld, p->i, p->j);
    return (spot){.at = at, .ld = (size_t)ld * size, .column = (size_t)p->m * size};
}

/* A queue of `device` goes on when the load is in its slot. */
static gx_code after_load(gx_xd *x, int device, gx_queue *queue, int64_t load, gx_err *err)
{
    int64_t last = x->last_piece[load];
    const gx_xd_piece *piece = last < 0 ? NULL : &x->piece[last];
    int of = x->plan.loads[load].device;
    gx_code code = GX_OK;
    if (piece != NULL && piece->is_across) {
        pthread_mutex_lock(&x->ring_lock);
        code = after_copy(x, device, queue, of, piece->copy, err);
        pthread_mutex_unlock(&x->ring_lock);
    } else if (piece != NULL) {
        pthread_mutex_lock(&x->lock);
        bool is_on_its_way = x->stage[piece->stage].piece == last; // else it has been waited for
        pthread_mutex_unlock(&x->lock);
        gx_mark *mark = x->stage[piece->stage].mark[of];
        code = is_on_its_way ? backend_of(x)->queue_after_mark(dev_of(x, device), queue, mark, err)
                             : GX_OK;
    }
    return code;
}

// Up and across -----------------------------------------------------------------------------------

/* A slot is about to be filled: after the steps that used it before, and copies out of it. */
static gx_code clear_slot(gx_xd *x, const gx_load *item, int64_t load, gx_queue *queue, gx_err *err)
{
    GX_TRY(after_step(x, item->device, queue, item->device, item->after - 1, err));
    GX_TRY(after_slot(x, item->device, queue, item->slot, err));
    x->use[item->slot].load = load + 1;
    return GX_OK;
}

/* The buffer's mark goes behind what a queue of its device has been given; made when first used. */
static gx_code mark_stage(const gx_accel *accel, gx_xd_stage *s, gx_queue *queue, gx_err *err)
{
    gx_mark **mark = &s->mark[s->device];
    if (*mark == NULL) {
        GX_TRY(accel->backend->mark_create(accel->dev, mark, err));
    }
    return accel->backend->mark_set(accel->dev, queue, *mark, err);
}

static gx_code send_piece(gx_xd *x, const gx_xd_piece *p, gx_err *err)
{
    const gx_load *item = &x->plan.loads[p->item];
    const gx_accel *accel = x->device[item->device].on.accel;
    spot to = spot_of(x, p, item->operand, item->block, item->slot);
    gx_xd_stage *s = &x->stage[p->stage];
    if (x->use[item->slot].load != p->item + 1) { // the first of its block
        GX_TRY(clear_slot(x, item, p->item, accel->up, err));
    }
    const gx_opnd *op = &x->prog->operand[item->operand];
    int64_t ld = gx_block_shape(op, item->block).m;
    GX_TRY(gx_device_send(x->run, accel, gx_xd_form(x, p), s->memory.data, op->dtype, to.at, ld,
                          p->m, p->n, err));
    s->device = item->device;
    return mark_stage(accel, s, accel->up, err);
}

/* A block from another device's slot, when that has it. */
static gx_code send_across(gx_xd *x, gx_xd_piece *p, gx_err *err)
{
    const gx_load *item = &x->plan.loads[p->item];
    gx_xd_device *to = &x->device[item->device];
    const gx_accel *accel = to->on.accel;
    int from = gx_slots_device(&x->slots, item->from);
    const gx_xd_slot *use = &x->use[item->from];
    size_t bytes = gx_block_shape(&x->prog->operand[item->operand], item->block).bytes;
    int32_t number = to->copies + 1;
    gx_mark *mark = to->across[number % GX_XD_RING];
    if (number >= GX_XD_RING) { // what the mark was behind has left the ring when it has passed
        GX_TRY(accel->backend->mark_wait(accel->dev, mark, err));
    }
    GX_TRY(clear_slot(x, item, p->item, accel->in, err));
    GX_TRY(use->load > 0 ? after_load(x, item->device, accel->in, use->load - 1, err)
                         : after_step(x, item->device, accel->in, from, use->step, err));
    GX_TRY(accel->backend->copy_from(accel->dev, accel->in, x->place[item->slot], dev_of(x, from),
                                     x->place[item->from], bytes, err));
    gx_stats_add(&x->run->ctx->stats, GX_STAT_PEER_BYTES, (int64_t)bytes);
    pthread_mutex_lock(&x->ring_lock);
    gx_code code = accel->backend->mark_set(accel->dev, accel->in, mark, err);
    p->copy = to->copies = number;
    x->lent[item->from * x->devices + item->device] = number;
    pthread_mutex_unlock(&x->ring_lock);
    return code;
}

/* Under the lock: the first that is read and may go up; a copy from elsewhere goes in its turn. */
static int64_t find_sendable(const gx_xd *x)
{
    int64_t best = x->next_across;
    for (int k = 0; k < x->stages; k++) {
        const gx_xd_stage *s = &x->stage[k];
        if (!s->is_down && s->state == GX_XD_FULL && s->piece < best &&
            gx_xd_may_go_up(x, s->piece)) {
            best = s->piece;
        }
    }
    bool is_found = best < x->next_across ||
                    (best < x->piece_count && best == x->sent && gx_xd_may_go_up(x, best));
    return is_found ? best : -1;
}

/* Under the lock: a piece has been enqueued. */
static void count_sent(gx_xd *x, int64_t index)
{
    gx_xd_piece *p = &x->piece[index];
    p->is_sent = true;
    x->last_piece[p->item] = index;
    if (!p->is_across) {
        gx_xd_stage *s = &x->stage[p->stage];
        assert(s->state == GX_XD_FULL && s->piece == index);
        s->state = GX_XD_LEAVING;
        s->turn = ++x->sendings;
    }
    while (x->sent < x->piece_count && x->piece[x->sent].is_sent) {
        x->sent++;
    }
    while (x->next_across < x->piece_count &&
           (!x->piece[x->next_across].is_across || x->piece[x->next_across].is_sent)) {
        x->next_across++;
    }
    pthread_cond_signal(&x->running);
    pthread_cond_signal(&x->buffers);
    gx_xd_wake_held(x);
    if (x->stream == NULL || gx_xd_is_callers_turn(x) || x->own_unit.next < x->own_unit.end) {
        pthread_cond_signal(&x->calling);
    }
}

/* The carrier, under the lock (let go in between): enqueue what is read and may go up now. */
static bool send_pieces(gx_xd *x)
{
    bool has_sent = false;
    int64_t index;
    while (gx_xd_ok(x) && (index = find_sendable(x)) >= 0) {
        gx_xd_piece *p = &x->piece[index];
        pthread_mutex_unlock(&x->lock);
        gx_err err = {0};
        (void)(p->is_across ? send_across(x, p, &err) : send_piece(x, p, &err));
        gx_xd_fault(x, x->plan.loads[p->item].device, &err);
        pthread_mutex_lock(&x->lock);
        count_sent(x, index);
        has_sent = true;
    }
    return has_sent;
}

// Down --------------------------------------------------------------------------------------------

static gx_code fetch_piece(gx_xd *x, const gx_xd_piece *p, gx_err *err)
{
    const gx_flush *item = &x->plan.flushes[p->item];
    const gx_accel *accel = x->device[item->device].on.accel;
    spot from = spot_of(x, p, item->operand, item->block, item->slot);
    gx_xd_stage *s = &x->stage[p->stage];
    if (gx_xd_is_zero(x, p)) {
        s->device = item->device;
        return GX_OK;
    }
    if (p->is_first) {
        GX_TRY(after_step(x, item->device, accel->down, item->device, item->ready - 1, err));
    }
    GX_TRY(accel->backend->download(accel->dev, accel->down, s->memory.data, from.column, from.at,
                                    from.ld, from.column, (size_t)p->n, err));
    gx_stats_add(&x->run->ctx->stats, GX_STAT_DOWNLOADED, (int64_t)from.column * p->n);
    pthread_mutex_lock(&x->ring_lock);
    s->device = item->device;
    gx_code code = mark_stage(accel, s, accel->down, err);
    x->use[item->slot].down = code == GX_OK ? p->stage + 1 : 0; // else there may be no mark
    pthread_mutex_unlock(&x->ring_lock);
    return code;
}

/* The carrier, under the lock (let go in between): enqueue what is finished, as buffers allow. */
static bool fetch_pieces(gx_xd *x)
{
    bool has_fetched = false;
    while (x->next_down < x->down_count && gx_xd_ok(x)) {
        gx_xd_piece *p = &x->down[x->next_down];
        int k = gx_xd_find_stage(x, true);
        if (x->plan.flushes[p->item].ready > x->done || k < 0) {
            break;
        }
        p->stage = k;
        x->stage[k].state = GX_XD_FILLING;
        x->stage[k].piece = x->next_down;
        pthread_mutex_unlock(&x->lock);
        gx_err err = {0};
        fetch_piece(x, p, &err);
        gx_xd_fault(x, x->plan.flushes[p->item].device, &err);
        pthread_mutex_lock(&x->lock);
        assert(x->stage[k].state == GX_XD_FILLING && x->stage[k].piece == x->next_down);
        x->stage[k].state = GX_XD_FULL;
        x->next_down++;
        has_fetched = true;
        gx_xd_wake_held(x);
        pthread_cond_signal(&x->running);
        pthread_cond_signal(&x->calling);
        if (x->helps_writing) {
            pthread_cond_signal(&x->readers);
        }
    }
    return has_fetched;
}

// Steps -------------------------------------------------------------------------------------------

/* Under the lock: is everything that step t needs enqueued to be there, or to be gone? */
static bool may_run(const gx_xd *x, int32_t t)
{
    bool is_sent = x->sent == x->piece_count || x->piece[x->sent].need > t;
    return is_sent && gx_xd_is_fetched(x, t);
}

/* The blocks of step t: what was brought for it, and what still leaves from under it. */
static gx_code after_blocks(gx_xd *x, int32_t t, gx_err *err)
{
    const gx_step *st = &x->prog->steps[t];
    gx_queue *run = x->device[st->device].on.accel->run;
    for (int p = 0; p < gx_step_places(x->prog, st); p++) {
        gx_place at = gx_step_place(x->prog, st, p);
        if (at.block == GX_NO_BLOCK) {
            continue;
        }
        gx_xd_slot *use = &x->use[at.slot];
        assert(x->place[at.slot] != NULL);
        if (use->load > 0 && !x->is_awaited[use->load - 1]) {
            GX_TRY(after_load(x, st->device, run, use->load - 1, err));
            x->is_awaited[use->load - 1] = true;
        }
        if (gx_step_writes(x->prog, st, p)) {
            GX_TRY(after_slot(x, st->device, run, at.slot, err));
            use->load = 0;
            use->step = t;
        }
    }
    return GX_OK;
}

void gx_xd_report(gx_xd *x, int32_t t, int64_t info)
{
    const gx_step *st = &x->prog->steps[t];
    if (info > 0 && x->prog->on_info != NULL) {
        gx_err err = {0};
        int64_t base = st->extra < 0 ? 0 : x->prog->extra[st->extra].info_base;
        x->prog->on_info(x->prog->on_info_arg, base + info, &err);
        gx_run_fail(x->run, &err);
    }
}

static gx_code run_kernel(gx_xd *x, int32_t t, gx_err *err)
{
    const gx_step *st = &x->prog->steps[t];
    const gx_call_kind *kind = &x->prog->kind[st->kind];
    if (kind->kernel == GX_KERNEL_COUNT) {
        return GX_OK;
    }
    gx_xd_device *device = &x->device[st->device];
    const gx_accel *accel = device->on.accel;
    gx_number dtype = gx_step_dtype(x->prog, st);
    int64_t info = 0;
    gx_args args;
    gx_step_args(x->prog, st, NULL, x->place, &args);
    args.by_residues = gx_xd_by_residues(x, kind->kernel, dtype, &args);
    args.work = device->on.hold[GX_XD_WORK].data;
    args.info = x->info != NULL ? &x->info[t] : &info;
    gx_stats_kernel(&x->run->ctx->stats, gx_kernel_flops(kind->kernel, dtype, &args), 0);
    GX_TRY(gx_turn_kernel(x->run, device->on.accel, kind->kernel, dtype, &args, err));
    if ((kind->kernel == GX_POTRF || kind->kernel == GX_GETRF) && x->info == NULL) {
        int64_t start_ns = gx_now_ns();
        GX_TRY(accel->backend->queue_wait(accel->dev, accel->run, err)); // info, pivots
        gx_stats_add(&x->run->ctx->stats, GX_STAT_STALL_DEVICE_NS, gx_now_ns() - start_ns);
        gx_xd_report(x, t, info);
    }
    return GX_OK;
}

/* Put the step's mark into its device's ring; never further ahead of that than the ring is long. */
static gx_code remember_step(gx_xd *x, int32_t t, gx_err *err)
{
    gx_xd_device *device = &x->device[x->prog->steps[t].device];
    const gx_accel *accel = device->on.accel;
    int at = device->steps++ % GX_XD_RING;
    assert(device->ring_step[at] < t);
    if (device->ring_step[at] >= 0) { // which the conductor alone changes
        int64_t start_ns = gx_now_ns();
        GX_TRY(accel->backend->mark_wait(accel->dev, device->ring[at], err));
        gx_stats_add(&x->run->ctx->stats, GX_STAT_STALL_DEVICE_NS, gx_now_ns() - start_ns);
    }
    pthread_mutex_lock(&x->ring_lock);
    device->ring_step[at] = t;
    gx_code code = accel->backend->mark_set(accel->dev, accel->run, device->ring[at], err);
    pthread_mutex_unlock(&x->ring_lock);
    return code;
}

static gx_code run_step(gx_xd *x, int32_t t, gx_err *err)
{
    GX_TRY(after_blocks(x, t, err));
    GX_TRY(run_kernel(x, t, err));
    return remember_step(x, t, err);
}

/* The conductor's wait for something under the lock, counted by what it waits for. */
static void wait_for_step(gx_xd *x)
{
    gx_stats *stats = &x->run->ctx->stats;
    int64_t start_ns = gx_now_ns();
    gx_counter stalled =
        !gx_xd_is_fetched(x, x->done) ? GX_STAT_STALL_WRITE_NS : GX_STAT_STALL_READ_NS;
    pthread_cond_wait(&x->running, &x->lock);
    int64_t waited_ns = gx_now_ns() - start_ns;
    gx_stats_add(stats, GX_STAT_WAIT_NS, waited_ns);
    gx_stats_add(stats, stalled, waited_ns);
}

/* The caller, under the lock, which is let go: progress and interrupts. */
static void look_up(gx_xd *x)
{
    int32_t done = x->done, count = (int32_t)x->prog->step_count;
    pthread_mutex_unlock(&x->lock);
    gx_run_advance(x->run, (double)(done - x->shown) / (double)count);
    x->shown = done;
    gx_run_poll(x->run);
    pthread_mutex_lock(&x->lock);
}

/* The conductor. */
static void *conduct(void *arg)
{
    gx_xd *x = arg;
    pthread_mutex_lock(&x->lock);
    while (gx_xd_ok(x) && x->done < x->prog->step_count) {
        if (!may_run(x, x->done)) {
            wait_for_step(x);
            continue;
        }
        int32_t t = x->done;
        pthread_mutex_unlock(&x->lock);
        gx_err err = {0};
        run_step(x, t, &err);
        gx_xd_fault(x, x->prog->steps[t].device, &err);
        pthread_mutex_lock(&x->lock);
        assert(x->done == t); // which the conductor alone changes
        x->done++;
        gx_xd_wake_held(x);
        if (x->is_alone) {
            look_up(x);
        }
        pthread_cond_signal(&x->copying);
        if (gx_xd_is_callers_turn(x) || x->stream == NULL || x->is_exclusive) {
            pthread_cond_signal(&x->calling);
        }
    }
    gx_xd_wake(x);
    pthread_mutex_unlock(&x->lock);
    return NULL;
}

/* The carrier. */
static void *carry(void *arg)
{
    gx_xd *x = arg;
    pthread_mutex_lock(&x->lock);
    while (gx_xd_ok(x) && (x->done < x->prog->step_count || x->sent < x->piece_count ||
                           x->next_down < x->down_count)) {
        bool has_moved = send_pieces(x);
        has_moved = fetch_pieces(x) || has_moved;
        if (!has_moved && gx_xd_ok(x)) {
            pthread_cond_wait(&x->copying, &x->lock);
        }
    }
    x->is_finished = true;
    gx_xd_wake(x);
    pthread_mutex_unlock(&x->lock);
    return NULL;
}

// The caller --------------------------------------------------------------------------------------

/* One duty of the caller, entered and left under the lock.  false when there was none. */
static bool serve(gx_xd *x)
{
    int64_t index;
    if (gx_xd_is_write_due(x)) {
        gx_xd_deliver(x, true);
        return true;
    }
    gx_xd_unit *u = &x->own_unit;
    bool is_mine = u->next < u->end ||
                   ((x->stream == NULL || gx_xd_is_callers_turn(x)) && gx_xd_begin_unit(x, u));
    if (!is_mine || !gx_xd_take_piece(x, u, &index)) {
        return false;
    }
    pthread_cond_broadcast(&x->readers); // the next piece may be theirs
    pthread_mutex_unlock(&x->lock);
    gx_err err = {0};
    if (x->own == NULL && gx_reader_own(x->run->ctx->store, &x->own, &err) != GX_OK) {
        gx_run_fail(x->run, &err);
    }
    gx_xd_read_piece(x, index, x->own);
    pthread_mutex_lock(&x->lock);
    if (u->next == u->end) {
        gx_xd_end_unit(x, u);
    }
    return true;
}

/* Until everything is enqueued and written. */
static void attend(gx_xd *x)
{
    pthread_mutex_lock(&x->lock);
    while (gx_xd_ok(x) && (!x->is_finished || x->written < x->down_count)) {
        if (!serve(x)) {
            int64_t start_ns = gx_now_ns();
            gx_stream_wait(&x->calling, &x->lock);
            gx_stats_add(&x->run->ctx->stats, GX_STAT_WRITER_IDLE_NS, gx_now_ns() - start_ns);
        }
        look_up(x);
    }
    x->is_closed = true;
    gx_xd_wake(x); // the run may have stopped
    pthread_mutex_unlock(&x->lock);
}

/*
** Everything is on the device, and what comes down has buffers and time until the end: nobody waits
** for anybody, and two threads would take longer to start than to do this.
*/
static bool needs_nobody(const gx_xd *x)
{
    int buffers = 0;
    for (int k = 0; k < x->stages; k++) {
        buffers += x->stage[k].is_down;
    }
    bool may_stay = x->piece_count == 0 && x->down_count <= buffers;
    for (int64_t k = 0; k < x->plan.flush_count && may_stay; k++) {
        may_stay = x->plan.flushes[k].before >= x->prog->step_count;
    }
    return may_stay;
}

/* The conductor and the carrier as threads, while the caller attends to its duties. */
static void run_threads(gx_xd *x)
{
    pthread_t conductor, carrier;
    bool is_conducted = gx_thread_start(&conductor, conduct, x);
    bool is_carried = gx_thread_start(&carrier, carry, x);
    if (!is_conducted || !is_carried) {
        gx_xd_fault(x, 0, &(gx_err){.code = GX_NOMEM, .text = "the system refused a thread"});
    }
    attend(x);
    if (is_conducted) {
        pthread_join(conductor, NULL);
    }
    if (is_carried) {
        pthread_join(carrier, NULL);
    }
}

void gx_xd_run(gx_xd *x)
{
    gx_xd_pass_crossings(x);
    x->next_across = 0;
    while (x->next_across < x->piece_count && !x->piece[x->next_across].is_across) {
        x->next_across++;
    }
    x->helps_writing = gx_xd_is_all_in_memory(x->prog); // before there are helpers
    x->is_exclusive = gx_exec_stream(x->prog, &x->plan, x->is_there, gx_xd_help, x, &x->stream);
    x->is_alone = x->stream == NULL && needs_nobody(x);
    if (x->is_alone) {
        (void)conduct(x);
        (void)carry(x);
        attend(x);
    } else {
        run_threads(x);
    }
    gx_stream_stop(x->stream);
    x->stream = NULL;
    assert(!gx_xd_ok(x) || (x->done == x->prog->step_count && x->sent == x->piece_count &&
                            x->next_piece == x->piece_count && x->next_down == x->down_count &&
                            x->written == x->down_count));
}
