/*
** What comes down from a device, from its staging buffer to its sink, and how a device's failure is
** told to all: see exec_device.c.
**
** A stored sink takes pieces in order, from the caller, who alone writes to the database.  A sink
** in memory takes them from whoever is there: the helpers, when they have nothing to read, and the
** caller; then pieces are taken in order, and may be in their places in another.  Blocks that the
** schedule knows to be zero do not come down: they are written from a piece of zeros.
*/
#include "exec_device.h"

#include "../base/thread.h"

#include <assert.h>

// Failures ----------------------------------------------------------------------------------------

bool gx_xd_ok(const gx_xd *x)
{
    return gx_ok(x->run) && !atomic_load(&x->is_faulty);
}

void gx_xd_wake(gx_xd *x)
{
    pthread_cond_broadcast(&x->readers);
    pthread_cond_broadcast(&x->buffers);
    pthread_cond_broadcast(&x->copying);
    pthread_cond_broadcast(&x->running);
    pthread_cond_broadcast(&x->calling);
}

void gx_xd_fault(gx_xd *x, int device, const gx_err *err)
{
    if (err->code == GX_OK) {
        return;
    }
    pthread_mutex_lock(&x->lock);
    if (x->fault.code == GX_OK) {
        x->fault = *err;
        x->culprit = device;
    }
    atomic_store(&x->is_faulty, true);
    gx_xd_wake(x);
    pthread_mutex_unlock(&x->lock);
}

// Delivery ----------------------------------------------------------------------------------------

bool gx_xd_is_all_in_memory(const gx_prog *prog)
{
    bool is_all = true;
    for (int k = 0; k < prog->operands; k++) {
        const gx_sink *sink = prog->operand[k].sink;
        is_all = is_all && (sink == NULL || (!sink->is_stored && sink->value.data != NULL));
    }
    return is_all;
}

typedef struct shares {
    const gx_xd *x;
    const gx_xd_piece *piece;
    int64_t width; /* columns of a share */
} shares;

/* Columns of a piece that came down to its sink, which they are a part of. */
static gx_code write_columns(const gx_xd *x, const gx_xd_piece *p, int64_t j, int64_t n,
                             gx_err *err)
{
    const gx_flush *item = &x->plan.flushes[p->item];
    const gx_opnd *op = &x->prog->operand[item->operand];
    gx_extent shape = gx_block_shape(op, item->block);
    void *piece = gx_xd_is_zero(x, p) ? x->zeros : x->stage[p->stage].memory.data;
    const void *data = gx_at(piece, op->dtype, p->m, 0, j);
    return gx_sink_write(op->sink, shape.i0 + p->i, shape.j0 + p->j + j, p->m, n, data, p->m, err);
}

static gx_code write_share(void *arg, int64_t index, int member, gx_err *err)
{
    const shares *s = arg;
    (void)member;
    int64_t j = index * s->width;
    return write_columns(s->x, s->piece, j, gx_min(s->width, s->piece->n - j), err);
}

/*
** Who takes shares of a result of so many bytes.  Threads start while the device works; but each
** that is started is to be ended, too, before the call returns.
*/
static int64_t count_writers(const gx_xd *x, int64_t bytes)
{
    const int64_t LEAST_BYTES = 2 << 20, EACH_BYTES = 3 << 20;
    int64_t threads = x->run->ctx->config.number[GX_SET_THREADS];
    return bytes < LEAST_BYTES ? 1 : gx_min(threads, gx_max(2, bytes / EACH_BYTES));
}

/*
** The caller, where no helpers write other pieces at the same time: a sink in memory takes one from
** several of the team: its pages may be new, and clearing them takes one thread longer than
** everything else.
*/
static gx_code deliver(gx_xd *x, const gx_xd_piece *p, bool is_caller, gx_err *err)
{
    const int64_t SHARE_BYTES = 128 << 10;
    const gx_opnd *op = &x->prog->operand[x->plan.flushes[p->item].operand];
    int64_t element = (int64_t)gx_number_bytes(op->dtype), column = p->m * element;
    bool is_shared = is_caller && x->stream == NULL && !op->sink->is_stored &&
                     op->sink->value.data != NULL && p->n > 1;
    int64_t writers = is_shared ? count_writers(x, op->rows * op->cols * element) : 1;
    gx_team *team = writers > 1 ? gx_run_team(x->run) : NULL;
    if (team == NULL || gx_team_threads(team) == 1) {
        return write_columns(x, p, 0, p->n, err);
    }
    shares s = {.x = x, .piece = p, .width = gx_max(1, SHARE_BYTES / column)};
    if (writers < gx_team_threads(team)) { // so many shares, so many threads
        s.width = gx_ceil_div(p->n, writers);
    }
    return gx_team_run(team, gx_ceil_div(p->n, s.width), write_share, &s, err);
}

/* A piece that came down goes to its sink, when it is there. */
static void write_piece(gx_xd *x, gx_xd_piece *p, bool is_caller)
{
    gx_xd_stage *s = &x->stage[p->stage];
    gx_err err = {0};
    if (is_caller && x->stream != NULL && x->is_exclusive) {
        pthread_mutex_lock(&x->lock);
        x->is_closed = true;
        gx_xd_wake(x);
        pthread_mutex_unlock(&x->lock);
        gx_stream_stop(x->stream);
        pthread_mutex_lock(&x->lock);
        x->stream = NULL;
        pthread_mutex_unlock(&x->lock);
    }
    const gx_accel *accel = x->device[s->device].on.accel;
    if (!gx_xd_is_zero(x, p)) {
        accel->backend->mark_wait(accel->dev, s->mark[s->device], &err);
        gx_xd_fault(x, s->device, &err);
    }
    if (gx_xd_ok(x)) {
        deliver(x, p, is_caller, &err);
        gx_run_fail(x->run, &err);
    }
    pthread_mutex_lock(&x->lock);
    assert(s->state == GX_XD_FILLING && s->is_down && x->written < x->next_written);
    s->state = GX_XD_FREE;
    p->is_written = true;
    while (x->written < x->next_written && x->down[x->written].is_written) {
        x->written++;
    }
    pthread_cond_signal(&x->copying);
    pthread_cond_broadcast(&x->readers); // a spilled block may be read again
    if (x->written == x->down_count) {
        pthread_cond_signal(&x->calling);
    }
    pthread_mutex_unlock(&x->lock);
}

void gx_xd_deliver(gx_xd *x, bool is_caller)
{
    gx_xd_piece *p = &x->down[x->next_written++];
    assert(x->stage[p->stage].state == GX_XD_FULL);
    x->stage[p->stage].state = GX_XD_FILLING;
    pthread_mutex_unlock(&x->lock);
    write_piece(x, p, is_caller);
    pthread_mutex_lock(&x->lock);
}

bool gx_xd_is_write_due(const gx_xd *x)
{
    if (x->next_written == x->next_down) {
        return false;
    }
    const gx_flush *item = &x->plan.flushes[x->down[x->next_written].item];
    int buffers = 0;
    for (int k = 0; k < x->stages; k++) {
        buffers += x->stage[k].is_down && x->stage[k].state == GX_XD_FREE;
    }
    // Where writing ends the helpers' reading it waits until somebody waits for it.
    bool is_all_read = x->next_piece == x->piece_count && x->units == 0;
    return x->stream == NULL || !x->is_exclusive || is_all_read || item->before <= x->done ||
           (buffers == 0 && x->next_down < x->down_count &&
            x->plan.flushes[x->down[x->next_down].item].before <= x->done);
}
