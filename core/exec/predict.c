/*
** How long a program takes: see predict.h.
**
** A program's schedule is run on clocks.  Each resource is one number, the time until which it is
** busy, and the schedule's own rules say what waits for what:
**
**   readers   a load begins when its slot is free (load.after) and a reader is.  On the host one
**             helper reads a whole block; on a device blocks are cut into pieces, so that all
**             helpers share each.  Blocks still in device memory cost nothing.
**   up        a block is there a piece after it has been read, and no sooner than the link allows;
**   compute   a step runs when its blocks are there and what had to leave its slots has left; its
**             time is profile_rates.c's;
**   down      a finished block comes down after its last step;
**   writer    one, in order: a block is written after it has come down (host: was finished).  With
**             a rollback journal not before everything has been read, or a slot is wanted: that
**             ends the helpers, and what is left to read the caller reads (exec_host.c).
**
** Several devices have clocks of their own for up, compute and down, and one more, across: a block
** comes from another device when that has it, as fast as the link goes.  Readers and writer are
** shared.
**
** So reading, copying, computing and writing overlap exactly as far as the schedule lets them.  On
** the host all of it shares the processors, and the sum of processor seconds over all of them is a
** lower bound; so is computing and half of writing where a team has all processors.  What does not
** overlap is added: helper connections are opened one after the other before anything runs, threads
** are started, and the commit comes at the end: the wait for the disk, and a part in proportion to
** the bytes; none where the caller has a transaction open.  Staging buffers and
** device memory that the pool does not have are allocated before it all.
**
** What is stored takes less time where others have been before: a log (or, with a rollback journal,
** free pages) takes it without the file growing, and free pages take the commit.  How much of each
** there is gx_store_space() says; the rates are those of as many bytes.  Volumes take it as memory
** does, by a thread a file.
**
** The rates are the profile's.  What they do not know, the ledger's factor corrects (ledger.c).
** Work: O(steps + loads + flushes), a few nanoseconds each.
*/
#include "predict.h"

#include "../base/machine.h"
#include "../device/devcall.h"
#include "exec_int.h"
#include "pass.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Less than this fits into SQLite's cache, wherever it is stored. */
static const double CACHED_BYTES = 1 << 20;

/*
** A team on all processors leaves the writer none: it shares one with a member for whom the others
** wait at the end of each kernel, so about half of its time is lost to computing.
*/
static const double SHARED = 0.5;

/* What a program takes on the host beside its threads: waking them. */
static const double HOST_S = 100e-6;

enum { READERS_MOST = 64 };

/* A device's resources; on the host, the first one's step alone. */
typedef struct device_clocks {
    double up, step, down, across;
    double loaded; /* when everything is there that its steps so far needed */
    struct {
        int64_t m, n, k;
        double seconds;
    } latest[GX_CALL_KINDS]; /* the latest call of each kind: most are equal */
} device_clocks;

typedef struct clocks {
    gx_prog *prog;
    const gx_schedule *plan;
    const gx_profile *host;
    const gx_fleet *fleet; /* count 0: on the host */
    device_clocks *on;     /* of each device */
    const bool *is_there;
    gx_slots slots;
    gx_terms *terms;
    int threads;
    int readers;               /* helpers, at least 1: without helpers the caller */
    bool has_helpers;          /* false: the caller reads and writes              */
    bool is_exclusive;         /* writing ends the helpers                        */
    double reader_rate;        /* bytes per second of one of them, all at work    */
    double free[READERS_MOST]; /* when each reader is                       */
    double writer;
    double write_per_byte, commit_per_byte; /* seconds */
    double piece_bytes, buffers_down;       /* device: of a copy; that results come down into  */
    double processor_s;                     /* host: seconds of one processor                  */
    double fresh;                           /* host: bytes of slots that nobody has used before */
    double unsettled,
        settled; /* bytes written that the disk has, and has not yet, been waited for */
    int64_t next_load, next_need, next_flush;
    double *there; /* of each load: when it is; NULL: no memory to know that of each */
    double *holds; /* of each slot: when its block is there, or was written */
    double loaded; /* when the last one so far is there */
    int32_t t;     /* the step that runs                */
} clocks;

/* The device's profile; NULL: on the host. */
static const gx_device_profile *profile_of(const clocks *c, int device)
{
    return c->fleet->count == 0 ? NULL : &c->fleet->accel[device]->profile;
}

/* Everything has been computed. */
static double all_run(const clocks *c)
{
    double latest = 0;
    for (int d = 0; d < c->prog->devices; d++) {
        latest = fmax(latest, c->on[d].step);
    }
    return latest;
}

double gx_predict_read_rate(gx_run *run, int64_t readers)
{
    readers = readers > 0 ? readers : run->ctx->config.number[GX_SET_READERS];
    const gx_profile *p = gx_profile_get(run->ctx);
    double one = p->db_read_bytes_per_s, all = p->db_read_all_bytes_per_s, n = p->db_readers;
    double power = n > 1 && all > one ? log(all / one) / log(n) : 0.8; // small machines: unknown
    return one * pow((double)gx_max(1, readers), fmin(1, power));
}

static double largest(double a, double b, double c)
{
    return fmax(a, fmax(b, c));
}

/* Seconds a byte of storing so many bytes in a schema as it is now, and of their commit. */
static void price_storing(gx_run *run, const char *schema, double bytes, double *write_s,
                          double *commit_s)
{
    double new_written = 0, new_committed = 0;
    if (bytes >= CACHED_BYTES) {
        gx_space space;
        gx_store_space(run->ctx->store, schema, &space);
        double used = space.has_log ? space.log_bytes : space.free_bytes;
        new_written = space.is_file ? 1 - fmin(1, used / bytes) : 0;
        new_committed = space.is_file ? 1 - fmin(1, space.free_bytes / bytes) : 0;
    }
    const gx_profile *p = gx_profile_get(run->ctx);
    gx_profile_store(p, bytes, new_written, new_committed, write_s, commit_s);
    int files = gx_store_spread_files(run->ctx->store, schema, bytes);
    if (files > 0) { // volumes: one copy into fresh pages of the system's, by a thread a file
        double threads = fmin(files, gx_machine_cpus());
        *write_s = (1 / p->memcpy_bytes_per_s + 1 / p->touch_bytes_per_s) / threads;
    }
}

// Single steps ------------------------------------------------------------------------------------

static double kernel_seconds(clocks *c, const gx_step *st)
{
    gx_kernel_id kernel = c->prog->kind[st->kind].kernel;
    if (kernel == GX_KERNEL_COUNT) {
        return 0;
    }
    gx_args args;
    gx_step_args(c->prog, st, NULL, NULL, &args);
    device_clocks *on = &c->on[st->device];
    const gx_device_profile *device = profile_of(c, st->device);
    if (args.m != on->latest[st->kind].m || args.n != on->latest[st->kind].n ||
        args.k != on->latest[st->kind].k || on->latest[st->kind].seconds == 0) {
        gx_number dtype = gx_step_dtype(c->prog, st);
        on->latest[st->kind].m = args.m;
        on->latest[st->kind].n = args.n;
        on->latest[st->kind].k = args.k;
        on->latest[st->kind].seconds =
            device != NULL ? gx_profile_device_kernel(device, kernel, dtype, &args)
                           : gx_profile_kernel(c->host, kernel, dtype, &args, c->threads);
    }
    return on->latest[st->kind].seconds;
}

/* Processor seconds of reading or converting a block. */
static double read_seconds(clocks *c, const gx_load *item, double *bytes)
{
    const gx_opnd *op = &c->prog->operand[item->operand];
    gx_extent shape = gx_block_shape(op, item->block);
    *bytes = (double)shape.bytes;
    bool is_stored =
        item->is_spilled || (op->source != NULL && gx_mat_base_stored(op->source) != NULL);
    double touched = c->fleet->count > 0 ? 0 : fmin(*bytes, c->fresh);
    c->fresh -= touched;
    return *bytes / (is_stored ? c->reader_rate : c->host->memcpy_bytes_per_s) +
           touched / c->host->touch_bytes_per_s;
}

/* A block from another device; the seconds when it is there. */
static double run_crossing(clocks *c, const gx_load *item, double now)
{
    gx_slots slots = c->slots;
    int from = gx_slots_device(&slots, item->from);
    device_clocks *on = &c->on[item->device];
    double bytes = (double)gx_block_shape(&c->prog->operand[item->operand], item->block).bytes;
    double rate = c->fleet->accel[item->device]->link[c->fleet->accel[from]->ordinal].bytes_per_s;
    double held = c->there != NULL ? c->holds[item->from] : c->on[from].loaded;
    on->across = largest(on->across, now, held) + bytes / rate;
    return on->across;
}

/* A block from its source; now: when the step that it may follow has run. */
static double run_reading(clocks *c, const gx_load *item, double now)
{
    double bytes, seconds = read_seconds(c, item, &bytes);
    device_clocks *on = &c->on[item->device];
    const gx_device_profile *device = profile_of(c, item->device);
    int first = 0;
    for (int k = 1; k < c->readers; k++) {
        first = c->free[k] < c->free[first] ? k : first;
    }
    double *reader = c->has_helpers ? &c->free[first] : &c->writer;
    if (device == NULL) {
        *reader = fmax(*reader, now) + seconds;
        c->terms->read_s += seconds / c->readers;
        c->processor_s += seconds;
        return *reader;
    }
    // All readers share a block; reading needs no slot, only buffers.
    double share = c->has_helpers ? seconds / c->readers : seconds;
    double up_s = bytes / device->upload_bytes_per_s;
    *reader += share;
    for (int k = 0; k < c->readers && c->has_helpers; k++) {
        c->free[k] = *reader;
    }
    double tail = fmin(bytes, c->piece_bytes) / device->upload_bytes_per_s;
    on->up = fmax(fmax(on->up, now) + up_s, *reader + tail);
    c->terms->read_s += share;
    c->terms->up_s += up_s;
    return on->up;
}

/* The next load; must: when what had to leave its slot has left. */
static void run_load(clocks *c, double must)
{
    int64_t index = c->next_load++;
    const gx_load *item = &c->plan->loads[index];
    double now = item->after > 0 ? fmax(c->on[item->device].step, must) : must;
    bool is_there = c->is_there != NULL && c->is_there[index];
    double there = is_there                   ? 0
                   : item->from != GX_NO_SLOT ? run_crossing(c, item, now)
                                              : run_reading(c, item, now);
    if (c->there != NULL) {
        c->there[index] = c->holds[item->slot] = there;
    } else {
        device_clocks *on = &c->on[item->device];
        on->loaded = fmax(on->loaded, there); // too late, where it is loaded ahead
    }
    c->loaded = fmax(c->loaded, there);
}

static void end_helpers(clocks *c)
{
    c->has_helpers = false;
    c->reader_rate = c->host->db_read_bytes_per_s;
    c->readers = 1;
}

/* On the host, with a rollback journal: the disk is waited for while others compute. */
static void settle(clocks *c, double bytes)
{
    c->unsettled += bytes;
    if (c->is_exclusive && c->unsettled >= GX_EXEC_SETTLE_BYTES && c->t + 1 < c->prog->step_count &&
        c->next_load == c->plan->load_count) {
        c->writer += c->unsettled * c->commit_per_byte;
        c->settled += c->unsettled;
        c->unsettled = 0;
    }
}

/* The next flush, whose block is finished by now. */
static void run_flush(clocks *c)
{
    const gx_flush *item = &c->plan->flushes[c->next_flush++];
    device_clocks *on = &c->on[item->device];
    const gx_device_profile *device = profile_of(c, item->device);
    double now = on->step;
    const gx_opnd *op = &c->prog->operand[item->operand];
    double bytes = (double)gx_block_shape(op, item->block).bytes;
    double write_s =
        bytes * (op->sink->is_stored ? c->write_per_byte : 1 / c->host->memcpy_bytes_per_s);
    if (c->is_exclusive && c->has_helpers) {
        if (c->next_load < c->plan->load_count) {
            end_helpers(c);
        } else {
            c->writer = fmax(c->writer, c->loaded);
        }
    }
    c->terms->write_s += write_s;
    c->processor_s += write_s;
    if (device == NULL) {
        c->writer = fmax(c->writer, now) + write_s;
        settle(c, bytes);
        return;
    }
    if (item->is_zero) {
        c->writer = fmax(c->writer, now) + write_s;
        return;
    }
    double down_s = bytes / device->download_bytes_per_s;
    double piece = fmin(bytes, c->piece_bytes);
    double began = fmax(on->down, now);
    c->writer = fmax(c->writer, began + piece / device->download_bytes_per_s) + write_s;
    on->down = fmax(began + down_s, c->writer - c->buffers_down * piece * write_s / bytes);
    c->writer = fmax(c->writer, on->down + piece * write_s / bytes);
    c->terms->down_s += down_s;
}

/* Step t needs the loads up to here. */
static void need_loads(clocks *c, int32_t t)
{
    const gx_load *loads = c->plan->loads;
    for (; c->next_need < c->next_load && loads[c->next_need].need <= t; c->next_need++) {
        device_clocks *on = &c->on[loads[c->next_need].device];
        on->loaded = c->there == NULL ? on->loaded : fmax(on->loaded, c->there[c->next_need]);
    }
}

/* Step t has written its blocks. */
static void hold_results(clocks *c, int32_t t)
{
    const gx_step *st = &c->prog->steps[t];
    for (int p = 0; p < gx_step_places(c->prog, st) && c->there != NULL; p++) {
        gx_place at = gx_step_place(c->prog, st, p);
        if (at.block != GX_NO_BLOCK && gx_step_writes(c->prog, st, p)) {
            c->holds[at.slot] = c->on[st->device].step;
        }
    }
}

/* Step t, after what it waits for. */
static void run_step(clocks *c, int32_t t)
{
    const gx_schedule *plan = c->plan;
    device_clocks *on = &c->on[c->prog->steps[t].device];
    c->t = t;
    double must = 0; // loads up to here are needed now
    while (c->next_flush < plan->flush_count && plan->flushes[c->next_flush].before <= t) {
        int device = plan->flushes[c->next_flush].device;
        run_flush(c);
        must = c->fleet->count > 0 ? c->on[device].down : c->writer;
    }
    while (c->next_load < plan->load_count && plan->loads[c->next_load].need <= t) {
        run_load(c, must);
    }
    while (c->next_load < plan->load_count && plan->loads[c->next_load].after <= t &&
           c->has_helpers) {
        run_load(c, must); // ahead
    }
    need_loads(c, t);
    double seconds = kernel_seconds(c, &c->prog->steps[t]);
    on->step = largest(on->step, on->loaded, must) + seconds;
    hold_results(c, t);
    c->terms->compute_s += seconds / c->prog->devices;
    c->processor_s += seconds * c->threads;
    while (c->next_flush < plan->flush_count && plan->flushes[c->next_flush].ready <= t + 1 &&
           !(c->is_exclusive && c->has_helpers && c->next_load < plan->load_count)) {
        run_flush(c);
    }
}

// The whole ---------------------------------------------------------------------------------------

/* Which helpers there will be, and whether the writer is in their way. */
static void count_helpers(clocks *c)
{
    gx_run *run = c->prog->run;
    double bytes = 0;
    const char *refusal = NULL;
    bool has_stored = false;
    for (int64_t k = 0; k < c->plan->load_count; k++) {
        const gx_load *item = &c->plan->loads[k];
        size_t of_block = gx_block_shape(&c->prog->operand[item->operand], item->block).bytes;
        bytes += item->from == GX_NO_SLOT ? (double)of_block : 0;
    }
    for (int k = 0; k < c->prog->operands && bytes >= GX_STREAM_LEAST_BYTES; k++) {
        const gx_opnd *op = &c->prog->operand[k];
        const gx_mat *stored = op->source == NULL ? NULL : gx_mat_base_stored(op->source);
        if (stored != NULL && refusal == NULL) {
            has_stored = true;
            refusal = gx_reader_refusal(run->ctx->store, stored->meta.schema);
        }
        c->is_exclusive |= stored != NULL && refusal == NULL &&
                           !gx_store_is_wal(run->ctx->store, stored->meta.schema);
    }
    int64_t wanted = gx_exec_helpers(c->prog, c->plan->load_count, bytes);
    c->has_helpers = has_stored && refusal == NULL && wanted > 0;
    c->readers = c->has_helpers ? (int)gx_min(wanted, READERS_MOST) : 1;
    c->reader_rate = gx_predict_read_rate(run, c->readers) / c->readers;
    c->terms->start_s += c->has_helpers ? gx_profile_helpers_s(c->host, c->readers) : 0;
}

/* The schema of what is stored; NULL: nothing is. */
static const char *stores_in(const gx_prog *prog)
{
    for (int k = 0; k < prog->operands; k++) {
        if (prog->operand[k].sink != NULL && prog->operand[k].sink->is_stored) {
            return prog->operand[k].sink->meta.schema;
        }
    }
    return NULL;
}

/* Memory that is allocated before anything runs. */
static double allocation_seconds(const gx_device_profile *device, const gx_growth *growth)
{
    return growth->pinned_bytes / device->pin_bytes_per_s +
           growth->device_buffers * device->alloc_s +
           growth->device_bytes / device->alloc_bytes_per_s;
}

/* What the ledger takes for a call's size: a pass over matrices has next to no flops. */
static double work_of(const gx_cost *cost)
{
    double bytes = fmax(cost->bytes_up, fmax(cost->bytes_down, cost->bytes_read));
    double n = sqrt(bytes / sizeof(double));
    return cost->flops < 32 * n * n ? 2 * n * n * n : cost->flops;
}

/* What comes before and after, and the correction.  commit_s: of the bytes; < 0: none is stored. */
static void conclude(gx_run *run, const gx_cost *cost, double commit_s, bool is_device,
                     double busy_s, gx_terms *terms)
{
    const gx_profile *p = gx_profile_get(run->ctx);
    if (commit_s >= 0 && gx_store_commits(run->ctx->store)) {
        terms->commit_s = p->db_commit_s + commit_s;
    }
    terms->model_s = terms->start_s + busy_s + terms->commit_s;
    terms->work = work_of(cost);
    terms->factor = gx_ledger_factor(&run->ctx->ledger, run->planned_as, is_device, terms->work);
    terms->seconds = terms->model_s * terms->factor;
}

/* Before anything runs: threads, buffers, memory. */
static void count_start(clocks *c, bool is_small, const gx_cost *cost, const gx_growth *growth)
{
    gx_terms *terms = c->terms;
    if (c->fleet->count == 0) {
        terms->start_s = is_small ? 0 : HOST_S + c->host->thread_s * (1 + c->threads);
        return;
    }
    c->piece_bytes = (double)gx_exec_piece(c->prog, c->plan, false);
    c->buffers_down =
        gx_exec_stages_down(c->prog, (int64_t)ceil(cost->bytes_down / c->piece_bytes));
    for (int d = 0; d < c->fleet->count; d++) {
        terms->once_s += allocation_seconds(profile_of(c, d), &growth[d]);
    }
    terms->start_s = GX_PREDICT_DEVICE_S * c->fleet->count + 2 * c->host->thread_s + terms->once_s;
}

/* Room for when each load and each slot's block is there; without it the prediction is coarser. */
static void start_clocks(clocks *c)
{
    void *memory = NULL;
    size_t count = (size_t)(c->plan->load_count + gx_slots_all(&c->slots));
    (void)gx_mem_calloc(c->prog->run->ctx->mem, count * sizeof(double), "the schedule of blocks",
                        &memory, NULL);
    c->there = memory;
    c->holds = memory == NULL ? NULL : c->there + c->plan->load_count;
}

/* All steps; the seconds until everything is written. */
static double run_clocks(clocks *c)
{
    for (int32_t t = 0; t < c->prog->step_count; t++) {
        run_step(c, t);
    }
    while (c->next_flush < c->plan->flush_count) {
        run_flush(c);
    }
    assert(c->next_load == c->plan->load_count && c->next_flush == c->plan->flush_count);
    return largest(all_run(c), c->writer, c->loaded);
}

void gx_predict_schedule(gx_prog *prog, const gx_slots *slots, const gx_schedule *plan,
                         const gx_fleet *fleet, const bool *is_there, const gx_growth *growth,
                         gx_terms *terms)
{
    gx_run *run = prog->run;
    const char *schema = stores_in(prog);
    gx_cost cost;
    device_clocks on[GX_DEVICES_MOST];
    memset(on, 0, (size_t)prog->devices * sizeof *on);
    gx_schedule_cost(prog, gx_slots_all(slots), plan, &cost);
    *terms = (gx_terms){0};
    clocks c = {.prog = prog,
                .plan = plan,
                .slots = *slots,
                .host = gx_profile_get(run->ctx),
                .fleet = fleet,
                .on = on,
                .is_there = is_there,
                .terms = terms};
    c.fresh = fmax(0, (double)gx_slots_all(slots) * (double)prog->slot_bytes -
                          (double)gx_mem_idle()); // the arena of slots (exec_host.c)
    bool is_small = fleet->count == 0 && gx_prog_is_small(prog);
    c.threads = is_small ? 1 : (int)run->ctx->config.number[GX_SET_THREADS];
    count_start(&c, is_small, &cost, growth);
    count_helpers(&c);
    c.is_exclusive = c.is_exclusive && schema != NULL;
    if (schema != NULL) {
        price_storing(run, schema, cost.bytes_written, &c.write_per_byte, &c.commit_per_byte);
    }
    start_clocks(&c);
    double busy_s = run_clocks(&c);
    gx_mem_free(run->ctx->mem, c.there);
    if (is_small) {
        busy_s = fmax(busy_s, c.processor_s);
    } else if (fleet->count == 0) {
        double threads = (double)gx_max(1, gx_min(c.threads, c.host->threads));
        double shared_s = c.threads >= c.host->threads ? SHARED * terms->write_s : 0;
        busy_s = largest(busy_s, c.processor_s / threads, terms->compute_s + shared_s);
    }
    double commit_s = fmax(0, cost.bytes_written - c.settled) * c.commit_per_byte;
    conclude(run, &cost, schema != NULL ? commit_s : -1, fleet->count > 0, busy_s, terms);
}

gx_code gx_predict_program(gx_prog *prog, const gx_fleet *fleet, gx_cost *cost, gx_terms *terms)
{
    *cost = (gx_cost){0};
    *terms = (gx_terms){0};
    static const gx_fleet none = {.count = 0};
    gx_schedule plan = {0};
    gx_slots slots = {0};
    bool is_made;
    fleet = fleet == NULL ? &none : fleet;
    if (fleet->count == 0) {
        prog->is_on_device = false;
        slots = gx_slots_of(gx_prog_slots(prog));
        is_made = gx_ok(prog->run) && gx_slots_all(&slots) > 0 &&
                  gx_schedule_make(prog, &slots, &plan) == GX_OK;
    } else {
        is_made = gx_schedule_make_on(prog, fleet->bytes, &slots, &plan);
    }
    if (is_made) {
        bool *is_there = gx_exec_find_kept(prog, fleet, &plan);
        gx_schedule_cost(prog, gx_slots_all(&slots), &plan, cost);
        gx_growth growth[GX_DEVICES_MOST] = {{0}};
        if (fleet->count > 0) {
            gx_exec_foresee(prog, fleet, &plan, is_there, growth);
        }
        gx_predict_schedule(prog, &slots, &plan, fleet, is_there, growth, terms);
        gx_mem_free(prog->run->ctx->mem, is_there);
    }
    gx_schedule_clear(prog, &plan);
    return gx_ok(prog->run) ? GX_OK : prog->run->err.code;
}

void gx_predict_cost(gx_run *run, const gx_accel *accel, const gx_cost *cost, gx_number dtype,
                     int64_t edge, gx_terms *terms)
{
    const gx_profile *p = gx_profile_get(run->ctx);
    int threads = (int)run->ctx->config.number[GX_SET_THREADS];
    *terms = (gx_terms){0};
    terms->read_s = cost->bytes_read / gx_predict_read_rate(run, 0);
    double write_per_byte = 0, commit_per_byte = 0, busy_s;
    if (cost->bytes_written > 0) {
        price_storing(run, "main", cost->bytes_written, &write_per_byte, &commit_per_byte);
    }
    terms->write_s = cost->bytes_written * write_per_byte;
    if (accel == NULL) {
        terms->compute_s = cost->flops / gx_profile_flops(p, dtype, gx_max(1, edge), threads);
        terms->compute_s = cost->compute_s > 0 ? cost->compute_s : terms->compute_s;
        busy_s = terms->read_s + terms->compute_s + terms->write_s;
    } else {
        const gx_device_profile *d = &accel->profile;
        terms->up_s = cost->bytes_up / d->upload_bytes_per_s;
        terms->down_s = cost->bytes_down / d->download_bytes_per_s;
        terms->compute_s = cost->flops / gx_profile_device_flops(d, dtype, gx_max(1, edge)) +
                           (double)cost->calls * d->launch_s;
        double fill = fmin(cost->bytes_up, GX_PIECE_BYTES) / d->upload_bytes_per_s +
                      fmin(cost->bytes_down, GX_PIECE_BYTES) / d->download_bytes_per_s;
        busy_s = fill + fmax(largest(terms->read_s, terms->up_s, terms->compute_s),
                             fmax(terms->down_s, terms->write_s));
        if (cost->compute_s > 0) { // one after the other
            terms->compute_s = cost->compute_s;
            busy_s = fmax(terms->read_s, terms->up_s) + terms->compute_s + terms->down_s +
                     terms->write_s;
        }
    }
    double commit_s = cost->bytes_written > 0 ? cost->bytes_written * commit_per_byte : -1;
    conclude(run, cost, commit_s, accel != NULL, busy_s, terms);
}

void gx_predict_begin(const gx_devcall *call, double others_s, gx_terms *terms)
{
    gx_growth growth = {0};
    gx_devcall_foresee(call, &growth);
    terms->once_s = allocation_seconds(&call->accel->profile, &growth);
    terms->start_s += terms->once_s + others_s;
    terms->model_s += terms->once_s + others_s;
    terms->seconds = terms->model_s * terms->factor;
}

double gx_predict_helpers_s(gx_run *run, double bytes)
{
    const int64_t *setting = run->ctx->config.number;
    int64_t tiles = (int64_t)ceil(bytes / (double)setting[GX_SET_TILE_BYTES]);
    return bytes < GX_STREAM_LEAST_BYTES
               ? 0
               : gx_profile_helpers_s(gx_profile_get(run->ctx),
                                      gx_min(setting[GX_SET_READERS], tiles));
}

void gx_predict_pass(gx_run *run, const gx_cost *cost, gx_number dtype, int64_t cols,
                     gx_terms *terms)
{
    const int64_t EDGE = 512; // of products that chunks of a tile come to
    const gx_profile *p = gx_profile_get(run->ctx);
    gx_cost alike = *cost;
    int threads = (int)run->ctx->config.number[GX_SET_THREADS];
    int64_t readers = run->ctx->config.number[GX_SET_READERS];
    bool is_small = gx_pass_is_small(cost->bytes_up, cost->flops);
    double sweep_s = cost->bytes_up / p->sweep_bytes_per_s;
    double product_s = cost->flops / gx_profile_flops(p, dtype, EDGE, threads);
    if (cost->compute_s == 0) {
        alike.compute_s = cols > GX_SWEEP_COLS ? fmax(sweep_s, product_s) : sweep_s;
    }
    gx_predict_cost(run, NULL, &alike, dtype, EDGE, terms);
    double start_s = is_small               ? 0
                     : cost->bytes_read > 0 ? gx_profile_helpers_s(p, readers)
                                            : threads * p->thread_s;
    terms->start_s = start_s;
    terms->model_s += start_s;
    terms->seconds = terms->model_s * terms->factor;
}

void gx_terms_add(gx_terms *sum, const gx_terms *more)
{
    bool is_first = sum->model_s == 0;
    sum->start_s += more->start_s;
    sum->read_s += more->read_s;
    sum->up_s += more->up_s;
    sum->compute_s += more->compute_s;
    sum->down_s += more->down_s;
    sum->write_s += more->write_s;
    sum->model_s += more->model_s - fmin(sum->commit_s, more->commit_s); // one call, one commit
    sum->commit_s = fmax(sum->commit_s, more->commit_s);
    sum->factor = is_first ? more->factor : sum->factor;
    sum->seconds = sum->model_s * sum->factor;
}

void gx_predict_expect(gx_run *run, const gx_terms *terms, bool is_on_device)
{
    run->planned_work += terms->work;
    run->planned_model_s += terms->model_s;
    run->planned_s += terms->seconds;
    run->planned_own_s += (terms->start_s + terms->compute_s) * terms->factor;
    run->is_planned_on_device |= is_on_device;
    gx_stats_set(&run->ctx->stats, GX_STAT_PREDICTED_NS, (int64_t)(1e9 * run->planned_s));
}
