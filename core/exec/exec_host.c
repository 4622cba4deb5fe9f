/*
** Running a program on the host: kernels over the team, blocks in one arena.
**
** Three kinds of threads share the work, each waiting only for what it needs:
**
**   computer   runs the steps in order, each as soon as its blocks are there: kernels, over
**              the team;
**   helpers    take loads from the schedule in order, each as soon as the steps done allow;
**   caller     the only one that may use the caller's connection: writes finished blocks to
**              their sinks and waits for the disk while later steps compute, takes the loads that
**              no helper can (or has taken when the computer waits for them), looks after
**              interrupts and progress.
**
** So reading, computing and writing overlap, and without helpers everything still happens, in the
** same order.  A program of little work runs its steps on the caller's thread alone.
**
** Memory: one arena of slots (gx_prog_slots), nothing else grows with the matrices.
**
** Rollback journal: before the first flush the helpers are stopped (stream.c says why); the
** remaining loads are the caller's.  So there a block is flushed only when its slot is wanted, or
** when there is nothing left to load.
**
** Threads: `lock` guards next_load, next_flush, the load states and done.  Blocks themselves need
** no lock: a load owns its slot until it is marked done, the computer afterwards; a flush reads.
*/
#include "exec_int.h"

#include "../base/thread.h"
#include "../run/call.h"

#include <assert.h>

typedef enum load_state { LOAD_WAITING = 0, LOAD_TAKEN, LOAD_DONE } load_state;

typedef struct exec {
    gx_prog *prog;
    gx_run *run;
    gx_schedule plan;
    char *arena;    /* slots x slot_bytes, aligned to 64                 */
    uint8_t *state; /* load_state of each load                           */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a load, a step or a flush is done; the run stopped */
    int64_t next_load;      /* the first load nobody has taken                   */
    int64_t first_pending;  /* computer: all loads before it are done            */
    int64_t next_flush;     /* the first block not yet written                   */
    int32_t done;           /* steps that have run                               */
    bool is_closed;         /* helpers take nothing more                         */
    bool is_exclusive;      /* writing a result ends the helpers' reading        */
    size_t unsettled;       /* bytes written since the disk was waited for       */
    gx_stream *stream;
    gx_reader *own; /* the caller's reader; NULL until needed            */
    gx_team *team;  /* the computer's; NULL: it works alone              */
} exec;

static void *slot_address(const exec *x, int32_t slot)
{
    return x->arena + (size_t)slot * x->prog->slot_bytes;
}

/* Bring a block into its slot.  reader: of the thread that runs this. */
static gx_code perform_load(exec *x, const gx_load *item, gx_reader *reader, gx_err *err)
{
    const gx_opnd *op = &x->prog->operand[item->operand];
    gx_extent shape = gx_block_shape(op, item->block);
    return gx_exec_read(x->run, op, item, 0, shape.m, 0, shape.n, gx_dtype_of(op->dtype),
                        slot_address(x, item->slot), reader, err);
}

static void mark_done(exec *x, int64_t index)
{
    pthread_mutex_lock(&x->lock);
    assert(x->state[index] == LOAD_TAKEN);
    x->state[index] = LOAD_DONE;
    pthread_cond_broadcast(&x->changed);
    pthread_mutex_unlock(&x->lock);
}

/* A spilled block is the caller's to read back: nobody else sees it. */
static bool is_for_caller(const exec *x, int64_t index)
{
    return x->plan.loads[index].is_spilled;
}

/* Under the lock: the slot of the load is free. */
static bool may_load(const exec *x, int64_t index)
{
    int32_t after = x->plan.loads[index].after;
    bool is_flushed =
        x->next_flush == x->plan.flush_count || x->plan.flushes[x->next_flush].before > after;
    return after <= x->done && is_flushed;
}

/* Helper: the next load that may start; waits for it.  -1 when there is none left. */
static int64_t take_load(exec *x)
{
    int64_t taken = -1;
    pthread_mutex_lock(&x->lock);
    while (!x->is_closed && gx_ok(x->run) && x->next_load < x->plan.load_count) {
        if (may_load(x, x->next_load) && !is_for_caller(x, x->next_load)) {
            taken = x->next_load++;
            assert(x->state[taken] == LOAD_WAITING);
            x->state[taken] = LOAD_TAKEN;
            break;
        }
        pthread_cond_wait(&x->changed, &x->lock);
    }
    pthread_mutex_unlock(&x->lock);
    return taken;
}

static void help(void *arg, gx_helper *helper)
{
    exec *x = arg;
    for (int64_t index = take_load(x); index >= 0; index = take_load(x)) {
        const gx_load *item = &x->plan.loads[index];
        const gx_opnd *op = &x->prog->operand[item->operand];
        gx_err err = {0};
        if (perform_load(x, item, gx_helper_reader(helper, op->source), &err) != GX_OK) {
            gx_run_fail(x->run, &err);
        }
        mark_done(x, index);
    }
}

/* Let the helpers finish what they have and go. */
static void close_stream(exec *x)
{
    pthread_mutex_lock(&x->lock);
    x->is_closed = true;
    pthread_cond_broadcast(&x->changed);
    pthread_mutex_unlock(&x->lock);
    gx_stream_stop(x->stream);
    x->stream = NULL;
}

static void load_here(exec *x, int64_t index)
{
    const gx_load *item = &x->plan.loads[index];
    gx_err err = {0};
    if (x->own == NULL && gx_reader_own(x->run->ctx->store, &x->own, &err) != GX_OK) {
        gx_run_fail(x->run, &err);
    } else if (perform_load(x, item, x->own, &err) != GX_OK) {
        gx_run_fail(x->run, &err);
    }
    mark_done(x, index);
}

/* Under the lock: is there time to wait for the disk? */
static bool has_time(const exec *x)
{
    return x->unsettled >= GX_EXEC_SETTLE_BYTES && x->next_load == x->plan.load_count &&
           x->done < x->prog->step_count;
}

static void settle(exec *x, const gx_sink *sink)
{
    gx_err err = {0};
    x->unsettled = 0;
    gx_store_settle(x->run->ctx->store, sink->meta.schema, &err);
    gx_run_fail(x->run, &err);
}

static void flush_block(exec *x, const gx_flush *item)
{
    const gx_opnd *op = &x->prog->operand[item->operand];
    if (x->stream != NULL && x->is_exclusive) {
        close_stream(x);
    }
    gx_extent shape = gx_block_shape(op, item->block);
    gx_err err = {0};
    gx_sink_write(op->sink, shape.i0, shape.j0, shape.m, shape.n, slot_address(x, item->slot),
                  shape.m, &err);
    gx_run_fail(x->run, &err);
    pthread_mutex_lock(&x->lock);
    x->next_flush++;
    x->unsettled += op->sink->is_stored ? shape.bytes : 0;
    bool settles = has_time(x);
    pthread_cond_broadcast(&x->changed);
    pthread_mutex_unlock(&x->lock);
    if (settles) {
        settle(x, op->sink);
    }
}

static void run_kernel(exec *x, const gx_step *st)
{
    const gx_call_kind *kind = &x->prog->kind[st->kind];
    if (kind->kernel == GX_KERNEL_COUNT) {
        return;
    }
    gx_args args;
    gx_step_args(x->prog, st, x->arena, NULL, &args);
    gx_number dtype = gx_step_dtype(x->prog, st);
    gx_err err = {0};
    int64_t info = 0;
    args.info = &info;
    gx_run_call_cut(x->run, x->team, kind->kernel, dtype, &args, &x->prog->cut, &err);
    if (info > 0 && x->prog->on_info != NULL && err.code == GX_OK) {
        int64_t base = st->extra < 0 ? 0 : x->prog->extra[st->extra].info_base;
        x->prog->on_info(x->prog->on_info_arg, base + info, &err);
    }
    gx_run_fail(x->run, &err);
}

// The computer ------------------------------------------------------------------------------------

/* Under the lock: what step t needs is there, and what had to go before it is gone. */
static bool may_run(exec *x, int32_t t)
{
    while (x->first_pending < x->plan.load_count && x->plan.loads[x->first_pending].need <= t &&
           x->state[x->first_pending] == LOAD_DONE) {
        x->first_pending++;
    }
    bool is_loaded =
        x->first_pending == x->plan.load_count || x->plan.loads[x->first_pending].need > t;
    bool is_flushed =
        x->next_flush == x->plan.flush_count || x->plan.flushes[x->next_flush].before > t;
    return is_loaded && is_flushed;
}

static void *compute(void *arg)
{
    exec *x = arg;
    pthread_mutex_lock(&x->lock);
    while (x->done < x->prog->step_count && gx_ok(x->run)) {
        if (!may_run(x, x->done)) {
            int64_t start_ns = gx_now_ns();
            pthread_cond_wait(&x->changed, &x->lock);
            gx_stats_add(&x->run->ctx->stats, GX_STAT_WAIT_NS, gx_now_ns() - start_ns);
            continue;
        }
        int32_t t = x->done;
        pthread_mutex_unlock(&x->lock);
        run_kernel(x, &x->prog->steps[t]);
        pthread_mutex_lock(&x->lock);
        x->done++;
        pthread_cond_broadcast(&x->changed);
    }
    pthread_mutex_unlock(&x->lock);
    return NULL;
}

/* The computer's team looks at the run, never at SQLite: that is the caller's. */
static gx_code poll_run(void *arg, gx_err *err)
{
    return gx_ok(arg) ? GX_OK : gx_fail(err, GX_INTERRUPT, "interrupted");
}

// The caller --------------------------------------------------------------------------------------

/*
** Under the lock: is the next flush due?  Its block must be finished.  Where writing ends the
** helpers' reading it waits until the slot is wanted or nothing is left for them.
*/
static bool is_flush_due(const exec *x)
{
    if (x->next_flush == x->plan.flush_count) {
        return false;
    }
    const gx_flush *item = &x->plan.flushes[x->next_flush];
    bool is_free = x->stream == NULL || !x->is_exclusive || item->before <= x->done ||
                   x->next_load == x->plan.load_count;
    return item->ready <= x->done && is_free;
}

/* Under the lock: a load that the caller should take now, or -1. */
static int64_t caller_load(const exec *x)
{
    int64_t index = x->next_load;
    if (index == x->plan.load_count || !may_load(x, index)) {
        return -1;
    }
    bool is_wanted = x->plan.loads[index].need <= x->done;
    return x->stream == NULL || is_for_caller(x, index) || is_wanted ? index : -1;
}

/* One duty of the caller, entered and left under the lock.  false when there was none. */
static bool serve(exec *x)
{
    int64_t index;
    if (is_flush_due(x)) {
        const gx_flush *item = &x->plan.flushes[x->next_flush];
        assert(item->ready <= x->done && x->done <= item->before);
        pthread_mutex_unlock(&x->lock);
        flush_block(x, item);
    } else if ((index = caller_load(x)) >= 0) {
        assert(x->state[index] == LOAD_WAITING);
        x->state[index] = LOAD_TAKEN;
        x->next_load++;
        pthread_mutex_unlock(&x->lock);
        load_here(x, index);
    } else {
        return false;
    }
    pthread_mutex_lock(&x->lock);
    return true;
}

/* Until everything has been computed and written.  is_computer: the steps are the caller's too. */
static void attend(exec *x, bool is_computer)
{
    int32_t count = (int32_t)x->prog->step_count, shown = 0;
    pthread_mutex_lock(&x->lock);
    while (gx_ok(x->run) && (x->done < count || x->next_flush < x->plan.flush_count)) {
        bool is_idle = !serve(x);
        if (is_idle && is_computer && x->done < count && may_run(x, x->done)) {
            run_kernel(x, &x->prog->steps[x->done++]);
            is_idle = false;
        }
        if (is_idle) {
            gx_stream_wait(&x->changed, &x->lock);
        }
        int32_t done = x->done;
        pthread_mutex_unlock(&x->lock);
        gx_run_advance(x->run, (double)(done - shown) / (double)count);
        shown = done;
        gx_run_poll(x->run);
        pthread_mutex_lock(&x->lock);
    }
    pthread_cond_broadcast(&x->changed); // the run may have stopped
    pthread_mutex_unlock(&x->lock);
}

/* Little to read, nothing to store: there is nothing to do beside the steps. */
static bool has_little_beside(const exec *x)
{
    const double LITTLE = 16 << 20;
    bool stores = false;
    for (int k = 0; k < x->prog->operands; k++) {
        const gx_sink *sink = x->prog->operand[k].sink;
        stores = stores || (sink != NULL && sink->is_stored);
    }
    return x->stream == NULL && !stores &&
           (double)x->prog->blocks * (double)x->prog->slot_bytes < LITTLE;
}

static void run_steps(exec *x)
{
    gx_err err = {0};
    pthread_t computer;
    int64_t worth = gx_run_threads_worth(GX_SECONDS_OF_FLOPS(x->prog->flops));
    int threads = (int)gx_min(gx_run_threads(x->run), worth);
    if (gx_prog_is_small(x->prog)) {
        attend(x, true);
        return;
    }
    bool is_alone = has_little_beside(x);
    if (gx_team_create(threads, x->run->ctx->mem, poll_run, x->run, &x->team, &err) != GX_OK) {
        gx_run_fail(x->run, &err);
        return;
    }
    if (is_alone) {
        attend(x, true);
    } else if (!gx_thread_start(&computer, compute, x)) {
        gx_stats_note(&x->run->ctx->stats, "compute: the system refused a thread");
        attend(x, true);
    } else {
        attend(x, false);
        pthread_join(computer, NULL);
    }
    gx_team_free(x->team);
    x->team = NULL;
}

static gx_code allocate(exec *x, int64_t slots)
{
    gx_run *run = x->run;
    void *state = gx_run_calloc(run, (size_t)x->plan.load_count, "the schedule of blocks");
    void *arena = gx_run_alloc(run, (size_t)slots * x->prog->slot_bytes, "the block cache");
    if (arena == NULL) {
        gx_mem_free(run->ctx->mem, state);
        return run->err.code;
    }
    x->state = state;
    x->arena = arena;
    return GX_OK;
}

void gx_exec_host(gx_prog *prog)
{
    exec x = {.prog = prog, .run = prog->run};
    const gx_backend *backend;
    gx_dev *dev;
    pthread_mutex_init(&x.lock, NULL);
    pthread_cond_init(&x.changed, NULL);
    int64_t slots = gx_exec_schedule(prog, &x.plan);
    if (gx_ok(x.run) && allocate(&x, slots) == GX_OK &&
        gx_run_device(x.run, &backend, &dev) == GX_OK) {
        gx_slots all = gx_slots_of(slots);
        gx_exec_count(prog, &all, &x.plan, &(gx_fleet){.count = 0}, NULL);
        x.is_exclusive = gx_exec_stream(prog, &x.plan, NULL, help, &x, &x.stream);
        run_steps(&x);
        close_stream(&x);
        assert(!gx_ok(x.run) ||
               (x.done == prog->step_count && x.first_pending == x.next_load &&
                x.next_load == x.plan.load_count && x.next_flush == x.plan.flush_count));
    }
    gx_reader_close(x.own);
    gx_mem_free(prog->run->ctx->mem, x.arena);
    gx_mem_free(prog->run->ctx->mem, x.state);
    gx_schedule_clear(prog, &x.plan);
    pthread_cond_destroy(&x.changed);
    pthread_mutex_destroy(&x.lock);
}
