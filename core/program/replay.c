/*
** Records of loops: see replay.h.
**
** Small kernels take less time than enqueuing them one by one.  A body whose nodes all run on the
** device, and look at nothing, enqueues the same kernels each round, on buffers that the pool hands
** out in the same turn: after one round, or two, the loop's variables are where they were.  So
** these rounds are run once with the queue noting what it is given (a CUDA graph), and that is
** enqueued for the rounds that are left.
**
** Whatever does not go as expected leaves the loop as it was, to go on round by round: a backend
** without records, one that cannot make one, variables that do not come back (what was noted is
** then enqueued once).  Where a kernel could not be noted the program begins again, without
** records, which are not tried again on that device; a later failure is the device's.
*/
#include "replay.h"

#include "device_memory.h"
#include "on_device.h"

#include <string.h>

enum { PERIOD = 2, LEFT_LEAST = 16, NAMES_MOST = 128, WAIT_EVERY = 64, WAIT_SELDOM = 1024 };

// What may be recorded ----------------------------------------------------------------------------

static bool is_on_lane(const gx_exec *x, const gx_val *val)
{
    return val->device != NULL && &x->lane[val->lane] == x->on;
}

/* Is the value there on the device when the body runs? */
static bool is_there(const gx_exec *x, const gx_region *body, int32_t b, gx_val **now, gx_ref ref)
{
    const gx_node *node = &x->g->node[ref];
    if (node->block != b) {
        return x->val[ref] != NULL && is_on_lane(x, x->val[ref]);
    }
    for (int32_t k = 0; k < body->param_count; k++) {
        if (x->g->pool[body->params + k] == ref) {
            return is_on_lane(x, now[k]);
        }
    }
    return gx_on_device_repeats(x, node);
}

static bool may_record(const gx_exec *x, const gx_node *loop, gx_val **now)
{
    const gx_graph *g = x->g;
    int32_t b = loop->inner[0];
    const gx_region *body = &g->block[b];
    bool is_good = body->param_count <= NAMES_MOST;
    for (int32_t k = 0; k < body->count && is_good; k++) {
        const gx_node *node = &g->node[body->nodes[k]];
        if (node->op->id == GX_OP_PARAM || node->op->id == GX_OP_NUMBER) {
            continue;
        }
        is_good = gx_on_device_repeats(x, node);
        for (int i = 0; i < node->count && is_good; i++) {
            is_good = is_there(x, body, b, now, gx_input(g, node, i));
        }
    }
    for (int32_t k = 0; k < body->result_count && is_good; k++) {
        is_good = is_there(x, body, b, now, g->pool[body->results + k]);
    }
    return is_good;
}

// Recording ---------------------------------------------------------------------------------------

static void look(gx_val **now, int32_t count, const void **at)
{
    for (int32_t k = 0; k < count; k++) {
        at[k] = now[k] == NULL ? NULL : now[k]->device;
    }
}

/* What the rounds of a record come to, in counters. */
typedef struct tally {
    int64_t steps, fused, gpu_ops, rounds, kernels, flops;
} tally;

static tally count(const gx_exec *x)
{
    const gx_stats *stats = &x->run->ctx->stats;
    return (tally){x->steps,
                   x->fused,
                   x->gpu_ops,
                   x->rounds,
                   gx_stats_get(stats, GX_STAT_KERNELS),
                   gx_stats_get(stats, GX_STAT_FLOPS)};
}

/* The record was enqueued so many times; once was counted while it was made. */
static void count_replays(gx_exec *x, const tally *before, int64_t times)
{
    tally after = count(x);
    int64_t more = times - 1;
    x->steps += more * (after.steps - before->steps);
    x->fused += more * (after.fused - before->fused);
    x->gpu_ops += more * (after.gpu_ops - before->gpu_ops);
    x->rounds += more * (after.rounds - before->rounds);
    gx_stats *stats = &x->run->ctx->stats;
    gx_stats_add(stats, GX_STAT_KERNELS, more * (after.kernels - before->kernels));
    gx_stats_add(stats, GX_STAT_FLOPS, more * (after.flops - before->flops));
    gx_stats_add(stats, GX_STAT_GRAPH_REPLAYS, times);
}

/* No loop is recorded on this device from now on. */
static void give_up(gx_exec *x, const gx_err *err)
{
    x->on->call.accel->has_no_records = true;
    const gx_about about = {.kind = GX_EVENT_FALLBACK_RECORD,
                            .device = x->on->call.accel->info.name};
    gx_stats_tell(&x->run->ctx->stats, &about, "loops go round by round: %s", err->text);
}

/*
** Enqueue the record `times`; the host is never far ahead, so that interrupts are in time, but for
** what other devices can begin meanwhile.
*/
static void replay(gx_exec *x, gx_record *record, int64_t times)
{
    gx_accel *accel = x->on->call.accel;
    gx_err err = {.code = GX_OK};
    int64_t every = x->lanes > 1 ? WAIT_SELDOM : WAIT_EVERY;
    for (int64_t k = 0; k < times && gx_ok(x->run); k++) {
        if (gx_turn_replay(x->run, accel, record, &err) != GX_OK) {
            gx_device_lost(x, &err);
        } else if (k % every == every - 1) {
            gx_device_wait(x);
        }
        x->on->is_under_way = true;
        gx_run_poll(x->run);
    }
    x->on->record = record; // goes when it is not under way any more
    if (x->lanes == 1) {
        gx_device_wait(x);
    }
}

int64_t gx_replay_rounds(gx_exec *x, const gx_node *loop, gx_val **now, int64_t left,
                         gx_round round)
{
    gx_accel *accel = x->on->call.accel;
    const void *before[NAMES_MOST], *after[NAMES_MOST];
    int32_t variables = x->g->block[loop->inner[0]].param_count;
    size_t bytes = (size_t)variables * sizeof *before;
    gx_record *record = NULL;
    gx_err err = {.code = GX_OK};
    bool is_back = false, is_replayed = false;
    int64_t rounds = 0;
    if (accel == NULL || accel->has_no_records || accel->backend->record_begin == NULL ||
        left < LEFT_LEAST || !may_record(x, loop, now) ||
        (x->on->record != NULL && !gx_device_wait(x))) {
        return 0;
    }
    if (accel->backend->record_begin(accel->dev, accel->run, &err) != GX_OK) {
        give_up(x, &err);
        return 0;
    }
    gx_turn_record(accel, true);
    tally so_far = count(x);
    look(now, variables, before);
    for (; rounds < PERIOD && !is_back && gx_ok(x->run); rounds++) {
        round(x, loop, now);
        look(now, variables, after);
        is_back = gx_ok(x->run) && memcmp(before, after, bytes) == 0;
    }
    gx_turn_record(accel, false);
    gx_code code = accel->backend->record_end(accel->dev, accel->run, &record, &err);
    if (gx_ok(x->run) && code != GX_OK && is_back) {
        give_up(x, &err); // nothing has run: the variables are as they were
        rounds = 0;
    } else if (gx_ok(x->run) && code != GX_OK) {
        gx_device_lost(x, &err); // what these rounds were to make is nowhere
    }
    if (x->fault.code != GX_OK) {
        x->is_spoilt = true;
        give_up(x, &x->fault);
    } else if (gx_ok(x->run) && code == GX_OK) {
        int64_t times = is_back ? left / rounds : 1;
        replay(x, record, times);
        is_replayed = true;
        count_replays(x, &so_far, times);
        rounds *= times;
    }
    if (record != NULL && !is_replayed) {
        accel->backend->record_free(accel->dev, record);
    }
    return rounds;
}
