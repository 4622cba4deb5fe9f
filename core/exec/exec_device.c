/*
** Running a program on devices with memory of their own: one, or several at once.
**
** The schedule is the host's (schedule.c: Belady's), its slots are buffers in device memory: where
** one device holds all blocks, each has a buffer of its size, else all are as large as the largest.
** Blocks travel in pieces, each a part of one row of tiles, through staging buffers, page-locked
** where the budget allows, so that reading, copying up, computing, copying down and writing overlap
** at every size:
**
**   helpers    read pieces from the database into staging buffers, in the schedule's order;
**   carrier    a thread that enqueues, in order, copies up (queue up) and down (queue down);
**   conductor  a thread that enqueues kernels (queue run); it waits for the device only where a
**              kernel's result is looked at (LAPACK's info, pivots);
**   caller     writes pieces that have come down to their sinks, reads what no helper can, looks
**              after interrupts and progress.
**
** A piece is a run of bytes of a tile, as the database has it, and a rectangle of a block on the
** device: the copy engine does the rearranging, so a tile is read and written in one go.
**
** What waits for what, besides each queue's own order:
**
**   a kernel        the copies up of its blocks, and copies down from slots that it touches;
**   a copy up       the last step that used its slot, and a copy down from it;
**   a copy down     the step that finished its block;
**   staging buffer  the copy out of it, or the writer.
**
** Steps have marks in a ring (GX_XD_RING): the conductor is never further ahead of the device than
** that, and a step that has left the ring has run.
**
** Several devices (spread.c says which step is whose) have queues, slots and rings of marks of
** their own; helpers, carrier, conductor and caller are one each for all, because everything is
** enqueued in the one order of the schedule and what runs at once is in the queues.  A block that
** another device has is copied from there, on a queue of its own (in), when that has it, and before
** anything may overwrite it there.
**
** Blocks of stored matrices stay in device memory for later calls (pool.h); those found there
** are neither read nor copied.
**
** Failures: what the host cannot do (a read, a write, an interrupt) fails the run.  What the device
** cannot do never does: the program stops, and gx_exec_device() returns false and says which.
** Memory: slots and workspace on the device; on the host staging buffers, GX_XD_STAGES at most, of
** about GX_PIECE_UP_BYTES and GX_PIECE_BYTES.
*/
#include "exec_device.h"

#include <assert.h>
#include <string.h>

// Making it ready ---------------------------------------------------------------------------------

/* Host memory; NULL: the run has failed. */
static void *take(gx_xd *x, int64_t count, size_t size)
{
    return gx_run_calloc(x->run, (size_t)count * size, "the schedule of blocks");
}

/*
** How a block is cut: rows and columns of a piece, and where the cuts lie.
**
** A piece is a part of one row of tiles, so that it is one run of bytes on the database's side (a
** tile's columns follow each other) and a rectangle on the device's.  Tiles of short columns are
** not worth that: then a piece is as high as the block.  What goes to a stored sink is whole tiles.
*/
typedef struct cutting {
    int64_t rows, cols;
    int64_t unit; /* columns of a tile that is cut; else cols */
} cutting;

static cutting choose_cutting(const gx_xd *x, const gx_opnd *op, const gx_extent *shape,
                              bool is_sink)
{
    static const int64_t SHORT_BYTES = 2048;
    int64_t element = (int64_t)gx_number_bytes(op->dtype);
    int64_t tile_m = gx_max(1, is_sink ? op->sink->tile_rows : op->source->tile_rows);
    int64_t tile_n = gx_max(1, is_sink ? op->sink->tile_cols : op->source->tile_cols);
    bool is_short = tile_m * element < SHORT_BYTES || (is_sink && !op->sink->is_stored);
    cutting cut = {.rows = is_short ? gx_max(1, shape->m) : tile_m};
    int64_t high = gx_max(1, gx_min(cut.rows, shape->m));
    cut.cols = gx_max(1, (int64_t)x->piece_most[is_sink] / (high * element));
    if (cut.cols >= tile_n || (is_sink && op->sink->is_stored)) {
        cut.cols = gx_max(1, cut.cols / tile_n) * tile_n;
    } else {
        cut.cols = gx_ceil_div(tile_n, gx_ceil_div(tile_n, cut.cols));
    }
    cut.unit = gx_max(cut.cols, is_short ? 1 : tile_n);
    if (is_sink || cut.cols >= tile_n) {
        cut.unit = cut.cols;
    }
    if (is_short) { // the block's own rows, wherever it begins
        cut.rows = INT64_MAX / 2;
    }
    assert(cut.rows > 0 && cut.cols > 0);
    assert(!is_sink || !op->sink->is_stored || cut.cols % tile_n == 0);
    return cut;
}

/* The pieces of a tile, or one of several tiles: columns [j, end) of the block. */
static void cut_unit(gx_xd_piece unit, const cutting *cut, int64_t j, int64_t end, size_t element,
                     gx_xd_piece *pieces, int64_t *n, size_t *most)
{
    unit.turns = (int32_t)gx_ceil_div(end - j, cut->cols);
    for (; j < end; j += cut->cols, unit.turns--) {
        unit.j = j;
        unit.n = gx_min(cut->cols, end - j);
        unit.is_first = unit.i == 0 && j == 0;
        size_t bytes = (size_t)(unit.m * unit.n) * element;
        assert(unit.m > 0 && unit.n > 0);
        *most = bytes > *most ? bytes : *most;
        if (pieces != NULL) {
            pieces[*n] = unit;
        }
        ++*n;
    }
}

/* The pieces of one block, from *n on; pieces NULL: only counted. */
static void cut_block(gx_xd *x, int64_t item, const gx_opnd *op, int32_t block, bool is_sink,
                      gx_xd_piece *pieces, int64_t *n, size_t *most)
{
    gx_extent shape = gx_block_shape(op, block);
    cutting cut = choose_cutting(x, op, &shape, is_sink);
    gx_xd_piece unit = {.item = item, .stage = -1};
    int64_t cols;
    for (int64_t j = 0; j < shape.n; j += cols) {
        cols = gx_min(cut.unit - (shape.j0 + j) % cut.unit, shape.n - j);
        for (unit.i = 0; unit.i < shape.m; unit.i += unit.m) {
            unit.m = gx_min(cut.rows - (shape.i0 + unit.i) % cut.rows, shape.m - unit.i);
            cut_unit(unit, &cut, j, j + cols, gx_number_bytes(op->dtype), pieces, n, most);
        }
    }
}

/* A block from another device is one piece. */
static void add_crossing(int64_t item, gx_xd_piece *pieces, int64_t *n)
{
    if (pieces != NULL) {
        pieces[*n] = (gx_xd_piece){.item = item, .stage = -1, .turns = 1, .is_across = true};
    }
    ++*n;
}

/* Cut the blocks of one direction into pieces; two passes, counting and filling. */
static gx_code cut_pieces(gx_xd *x, bool is_down, gx_xd_piece **pieces, int64_t *count)
{
    int64_t items = is_down ? x->plan.flush_count : x->plan.load_count;
    size_t *most = is_down ? &x->down_bytes : &x->up_bytes;
    int64_t counted = 0; // by the first pass
    for (int pass = 0; pass < 2; pass++) {
        counted = *count;
        *count = 0;
        for (int64_t k = 0; k < items; k++) {
            int8_t operand = is_down ? x->plan.flushes[k].operand : x->plan.loads[k].operand;
            int32_t block = is_down ? x->plan.flushes[k].block : x->plan.loads[k].block;
            const gx_load *item = is_down ? NULL : &x->plan.loads[k];
            if (is_down || (!x->is_there[k] && item->from == GX_NO_SLOT)) {
                bool is_sink = is_down || item->is_spilled;
                cut_block(x, k, &x->prog->operand[operand], block, is_sink, *pieces, count, most);
            } else if (!x->is_there[k]) {
                add_crossing(k, *pieces, count);
            }
        }
        if (pass == 0 && (*pieces = take(x, *count, sizeof **pieces)) == NULL) {
            return x->run->err.code;
        }
    }
    assert(*count == counted);
    (void)counted; // without assertions
    return GX_OK;
}

/*
** Loads whose pieces may go up in any order, each to a device of its own, from the piece `first`
** on: where each one's pieces end.  How many; 0: the first is none of them.
*/
static int64_t find_group(const gx_xd *x, int64_t first, int64_t *end)
{
    uint64_t seen = 0;
    int32_t after = 0, need = INT32_MAX;
    int64_t count = 0, k = first;
    while (k < x->piece_count && count < x->devices) {
        const gx_load *item = &x->plan.loads[x->piece[k].item];
        uint64_t bit = (uint64_t)1 << item->device;
        after = (int32_t)gx_max(after, item->after);
        need = (int32_t)gx_min(need, item->need);
        bool is_free = !item->is_spilled && item->from == GX_NO_SLOT && (seen & bit) == 0;
        if (!is_free || after > need) { // one might wait for a step that another one is for
            break;
        }
        seen |= bit;
        for (int64_t of = x->piece[k].item; k < x->piece_count && x->piece[k].item == of;) {
            k++;
        }
        end[count++] = k;
    }
    return count;
}

/*
** Blocks that several devices want at once go up tile by tile in turn, so that all links are busy
** however few buffers there are.
*/
static gx_code take_turns(gx_xd *x)
{
    if (x->devices == 1 || x->piece_count == 0) {
        return GX_OK;
    }
    gx_xd_piece *turned = take(x, x->piece_count, sizeof *turned);
    if (turned == NULL) {
        return x->run->err.code;
    }
    int64_t n = 0, end[GX_DEVICES_MOST], at[GX_DEVICES_MOST];
    while (n < x->piece_count) {
        int64_t first = n, count = find_group(x, first, end);
        if (count == 0) {
            end[count++] = first + 1;
        }
        for (int64_t c = 0; c < count; c++) {
            at[c] = c == 0 ? first : end[c - 1];
        }
        for (int64_t c = 0; n < end[count - 1]; c = (c + 1) % count) {
            for (int64_t turns = at[c] < end[c] ? x->piece[at[c]].turns : 0; turns > 0; turns--) {
                turned[n++] = x->piece[at[c]++];
            }
        }
    }
    gx_mem_free(x->run->ctx->mem, x->piece);
    x->piece = turned;
    return GX_OK;
}

/*
** Blocks that are still in device memory become the contents of their slots.  Only where everything
** fits, that is, a slot holds one block for the whole program; else the memory is better used.
*/
static void claim_blocks(gx_xd *x)
{
    gx_exec_keys(x->prog, x->whole);
    for (int64_t k = 0; k < x->plan.load_count && x->plan.is_roomy; k++) {
        const gx_load *item = &x->plan.loads[k];
        gx_block_key key = gx_exec_block_key(x->prog, x->whole, item);
        if (x->place[item->slot] == NULL && key.file != 0) {
            gx_pool *pool = x->device[item->device].on.accel->pool;
            size_t bytes = gx_slot_bytes(x->prog, &x->plan, item->slot);
            x->place[item->slot] = gx_pool_claim(pool, &key, bytes);
            x->is_there[k] = x->place[item->slot] != NULL;
            x->use[item->slot].load = x->is_there[k] ? k + 1 : 0;
            gx_stats_add(&x->run->ctx->stats, GX_STAT_DEVICE_HITS, x->is_there[k]);
        }
    }
}

/* Buffers of a device's slots.  GX_NOMEM: *got of them could be had. */
static gx_code take_slots(gx_xd *x, int d, int64_t *got, gx_err *err)
{
    const gx_devcall *on = &x->device[d].on;
    for (*got = 0; *got < x->plan.used[d]; ++*got) {
        int32_t slot = x->slots.first[d] + (int32_t)*got;
        void **place = &x->place[slot];
        if (*place == NULL) {
            size_t bytes = gx_slot_bytes(x->prog, &x->plan, slot);
            GX_TRY(gx_pool_take(on->accel->pool, bytes, on->limit, place, err));
        }
    }
    return GX_OK;
}

/* The hungriest kernel's workspace. */
static size_t workspace_bytes(const gx_xd *x)
{
    size_t most = 0;
    for (int64_t t = 0; t < x->prog->step_count; t++) {
        const gx_step *st = &x->prog->steps[t];
        gx_kernel_id kernel = x->prog->kind[st->kind].kernel;
        if (kernel != GX_KERNEL_COUNT) {
            gx_args args;
            gx_step_args(x->prog, st, NULL, NULL, &args);
            gx_number dtype = gx_step_dtype(x->prog, st);
            args.by_residues = gx_xd_by_residues(x, kernel, dtype, &args);
            size_t bytes = gx_devcall_workspace(&x->device[0].on, kernel, dtype, &args);
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

static size_t vector_bytes(const gx_vector *v)
{
    return (size_t)v->count * gx_number_bytes(v->dtype);
}

/* The vectors' contents go up. */
static gx_code send_vectors(gx_xd *x, gx_err *err)
{
    const gx_accel *accel = x->device[0].on.accel;
    for (int k = 0; k < x->prog->vectors; k++) {
        gx_vector *v = &x->prog->vector[k];
        size_t bytes = vector_bytes(v);
        v->device = x->device[0].on.hold[GX_XD_VECTORS + k].data;
        if (bytes > 0) {
            GX_TRY(accel->backend->upload(accel->dev, accel->run, v->device, bytes, v->data, bytes,
                                          bytes, 1, err));
        }
    }
    return GX_OK;
}

static gx_code make_marks(gx_xd *x, int d, gx_err *err)
{
    gx_xd_device *device = &x->device[d];
    const gx_backend *backend = device->on.accel->backend;
    for (int k = 0; k < GX_XD_RING; k++) {
        device->ring_step[k] = -1;
        GX_TRY(backend->mark_create(device->on.accel->dev, &device->ring[k], err));
        if (x->devices > 1) {
            GX_TRY(backend->mark_create(device->on.accel->dev, &device->across[k], err));
        }
    }
    return GX_OK;
}

/* Up to `wanted` staging buffers of one direction; at least one. */
static gx_code take_stages_of(gx_xd *x, bool is_down, int wanted, size_t bytes)
{
    static const int PAGEABLE = 3; // they come out of memory_limit
    size_t budget = (size_t)x->run->ctx->config.number[GX_SET_PINNING_BUDGET];
    int got = 0;
    while (got < wanted) {
        assert(x->stages < GX_XD_STAGES);
        gx_xd_stage *s = &x->stage[x->stages];
        gx_err err = {0};
        if (gx_pool_stage(x->device[0].on.accel->pool, bytes, budget, &s->memory, &err) != GX_OK) {
            return got > 0 ? GX_OK : gx_run_fail(x->run, &err);
        }
        s->is_down = is_down;
        x->stages++;
        got++;
        if (!s->memory.is_pinned && got >= PAGEABLE) {
            return GX_OK;
        }
    }
    return GX_OK;
}

/*
** Staging buffers: enough for every reader to fill one while as many are being copied, and some to
** come down; fewer, but at least one each way, where there is no memory for more.
*/
static gx_code take_stages(gx_xd *x)
{
    int up = gx_exec_stages_up(x->prog, &x->plan, x->piece_count);
    int down = gx_exec_stages_down(x->prog, x->down_count);
    GX_TRY(take_stages_of(x, false, up, x->up_bytes));
    return take_stages_of(x, true, down, x->down_bytes);
}

/*
** One device waits for what POTRF reports: it has nothing else to do.  Several would all wait with
** it, so there it is looked at when everything has run; what is computed from a factor that is none
** harms nobody.
*/
static void take_infos(gx_xd *x)
{
    bool is_wanted = false;
    for (int k = 0; k < x->prog->kinds && x->devices > 1; k++) {
        is_wanted = is_wanted || x->prog->kind[k].kernel == GX_POTRF;
    }
    x->info = is_wanted ? take(x, x->prog->step_count, sizeof *x->info) : NULL;
}

/* Where there is no memory for a piece of zeros, blocks of them come down like others. */
static void take_zeros(gx_xd *x)
{
    bool is_wanted = false;
    for (int64_t k = 0; k < x->plan.flush_count; k++) {
        is_wanted = is_wanted || x->plan.flushes[k].is_zero;
    }
    if (is_wanted) {
        (void)gx_mem_calloc(x->run->ctx->mem, x->down_bytes, "a piece of zeros", &x->zeros, NULL);
    }
}

/* Everything that the schedule of so many slots needs on the host. */
static gx_code prepare_host(gx_xd *x)
{
    int64_t slots = gx_slots_all(&x->slots), loads = x->plan.load_count;
    x->place = take(x, slots, sizeof(void *));
    x->use = take(x, slots, sizeof *x->use);
    x->lent = take(x, slots * x->devices, sizeof *x->lent);
    x->is_there = take(x, loads, sizeof *x->is_there);
    x->is_awaited = take(x, loads, sizeof *x->is_awaited);
    x->last_piece = take(x, loads, sizeof *x->last_piece);
    take_infos(x);
    if (!gx_ok(x->run)) {
        return x->run->err.code;
    }
    claim_blocks(x);
    x->piece_most[0] = gx_exec_piece(x->prog, &x->plan, false);
    x->piece_most[1] = gx_exec_piece(x->prog, &x->plan, true);
    GX_TRY(cut_pieces(x, false, &x->piece, &x->piece_count));
    GX_TRY(cut_pieces(x, true, &x->down, &x->down_count));
    take_zeros(x);
    for (int64_t k = 0; k < loads; k++) {
        x->last_piece[k] = -1;
    }
    GX_TRY(take_turns(x));
    for (int64_t k = x->piece_count - 1, need = INT32_MAX; k >= 0; k--) {
        need = gx_min(need, x->plan.loads[x->piece[k].item].need);
        x->piece[k].need = (int32_t)need;
    }
    return GX_OK;
}

// Putting it away ---------------------------------------------------------------------------------

/* A slot whose block is as it was loaded is kept for a later call; the others are given back. */
static void put_away_slots(gx_xd *x, bool is_sound)
{
    for (int32_t s = 0; x->place != NULL && s < gx_slots_all(&x->slots); s++) {
        gx_pool *pool = x->device[gx_slots_device(&x->slots, s)].on.accel->pool;
        int64_t loaded = x->use == NULL ? 0 : x->use[s].load;
        const gx_load *item = loaded > 0 && is_sound ? &x->plan.loads[loaded - 1] : NULL;
        assert(loaded == 0 || x->plan.loads[loaded - 1].slot == s);
        gx_block_key key = {.file = 0};
        size_t bytes = gx_slot_bytes(x->prog, &x->plan, s);
        if (item != NULL) {
            key = gx_exec_block_key(x->prog, x->whole, item);
        }
        if (key.file != 0) {
            gx_pool_keep(pool, &key, x->place[s], bytes);
        } else {
            gx_pool_give(pool, x->place[s], bytes);
        }
    }
}

static void put_away_host(gx_xd *x)
{
    gx_mem *mem = x->run->ctx->mem;
    gx_mem_free(mem, x->place);
    gx_mem_free(mem, x->use);
    gx_mem_free(mem, x->lent);
    gx_mem_free(mem, x->is_there);
    gx_mem_free(mem, x->is_awaited);
    gx_mem_free(mem, x->last_piece);
    gx_mem_free(mem, x->info);
    gx_mem_free(mem, x->zeros);
    gx_mem_free(mem, x->piece);
    gx_mem_free(mem, x->down);
    x->place = NULL;
    x->use = NULL;
    x->lent = NULL;
    x->is_there = x->is_awaited = NULL;
    x->last_piece = NULL;
    x->info = NULL;
    x->zeros = NULL;
    x->piece = x->down = NULL;
    x->piece_count = x->down_count = 0;
    x->up_bytes = x->down_bytes = 0;
    gx_schedule_clear(x->prog, &x->plan);
}

/* Workspace and marks of a device. */
static void put_away_device(gx_xd *x, int d)
{
    gx_xd_device *device = &x->device[d];
    const gx_backend *backend = device->on.accel->backend;
    gx_dev *dev = device->on.accel->dev;
    gx_devcall_give(&device->on);
    for (int k = 0; k < x->stages; k++) {
        backend->mark_free(dev, x->stage[k].mark[d]);
    }
    for (int k = 0; k < GX_XD_RING; k++) {
        backend->mark_free(dev, device->ring[k]);
        backend->mark_free(dev, device->across[k]);
    }
    *device = (gx_xd_device){.on = device->on};
}

static void put_away(gx_xd *x, bool is_sound)
{
    put_away_slots(x, is_sound);
    for (int k = 0; k < x->prog->vectors; k++) {
        x->prog->vector[k].device = x->prog->vector[k].data;
    }
    for (int d = 0; d < x->devices; d++) {
        put_away_device(x, d);
    }
    for (int k = 0; k < x->stages; k++) {
        gx_pool_unstage(x->device[0].on.accel->pool, &x->stage[k].memory);
    }
    memset(x->stage, 0, sizeof x->stage);
    x->stages = 0;
    put_away_host(x);
}

// The whole ---------------------------------------------------------------------------------------

/* Wait for all queues of a device; the vectors come back. */
static bool settle_device(gx_xd *x, int d)
{
    const gx_accel *accel = x->device[d].on.accel;
    gx_queue *queues[4] = {accel->up, accel->run, accel->down, accel->in};
    gx_err err = {0};
    for (int k = 0; d == 0 && k < x->prog->vectors && gx_xd_ok(x); k++) {
        gx_vector *v = &x->prog->vector[k];
        size_t bytes = vector_bytes(v);
        if (bytes > 0) {
            accel->backend->download(accel->dev, accel->run, v->data, bytes, v->device, bytes,
                                     bytes, 1, &err);
        }
    }
    for (int k = 0; k < (x->devices > 1 ? 4 : 3); k++) {
        accel->backend->queue_wait(accel->dev, queues[k], &err);
    }
    gx_xd_fault(x, d, &err);
    return err.code == GX_OK;
}

/* Of all devices.  Also after a failure, before buffers are reused. */
static bool settle(gx_xd *x)
{
    bool is_good = true;
    for (int d = 0; d < x->devices; d++) {
        is_good = settle_device(x, d) && is_good;
    }
    return is_good;
}

/* One attempt.  GX_NOMEM: *got slots of device x->culprit could be had. */
static gx_code try_ready(gx_xd *x, int64_t *got, gx_err *err)
{
    *got = 0;
    GX_TRY(prepare_host(x));
    for (x->culprit = 0; x->culprit < x->devices; x->culprit++) {
        GX_TRY(gx_devcall_begin(&x->device[x->culprit].on, 0, err));
        if (x->culprit == 0) {
            GX_TRY(send_vectors(x, err));
        }
        GX_TRY(take_slots(x, x->culprit, got, err));
    }
    x->culprit = 0;
    GX_TRY(take_stages(x));
    for (; x->culprit < x->devices; x->culprit++) {
        GX_TRY(make_marks(x, x->culprit, err));
    }
    x->culprit = 0;
    return GX_OK;
}

/* Device memory for blocks, beside workspace and vectors. */
static void count_room(const gx_xd *x, size_t left[])
{
    for (int d = 0; d < x->devices; d++) {
        const gx_devcall *on = &x->device[d].on;
        size_t rest = 0;
        for (int k = 0; k < GX_XD_HOLDS; k++) {
            rest += on->hold[k].bytes == 0 ? 0 : gx_pool_rounded(on->hold[k].bytes);
        }
        left[d] = on->limit > rest ? on->limit - rest : 1;
    }
}

/* The device with the least room for blocks. */
static int tightest(const gx_xd *x, const size_t left[])
{
    int least = 0;
    for (int d = 1; d < x->devices; d++) {
        least = left[d] < left[least] ? d : least;
    }
    return least;
}

/*
** Schedule and device memory, with fewer slots while a device has no room for more.  false: there
** is no way, or a failure (in the run, or in *err).
*/
static bool make_ready(gx_xd *x, gx_err *err)
{
    size_t left[GX_DEVICES_MOST], work = workspace_bytes(x);
    if (work >= GX_NO_WORKSPACE) {
        gx_fail(err, GX_NOMEM, "%s does not say how much memory a kernel needs",
                x->device[0].on.accel->info.name);
        return false;
    }
    for (int d = 0; d < x->devices; d++) {
        x->device[d].on.hold[GX_XD_WORK].bytes = work;
    }
    for (int k = 0; k < x->prog->vectors; k++) {
        x->device[0].on.hold[GX_XD_VECTORS + k].bytes = vector_bytes(&x->prog->vector[k]);
    }
    count_room(x, left);
    for (;;) {
        if (!gx_schedule_make_on(x->prog, left, &x->slots, &x->plan)) {
            x->culprit = tightest(x, left);
            gx_fail(err, GX_NOMEM,
                    "%zu bytes do not hold the blocks of one step, of %zu bytes each",
                    left[x->culprit], x->prog->slot_bytes);
            return false;
        }
        int64_t got = 0;
        gx_err refusal = {0};
        gx_code rc = try_ready(x, &got, &refusal);
        if (rc == GX_OK || !gx_ok(x->run)) {
            return gx_ok(x->run);
        }
        int short_of = x->culprit;
        if (rc != GX_NOMEM || got == 0 || got >= x->plan.used[short_of]) {
            *err = refusal;
            return false;
        }
        const gx_about about = {.kind = GX_EVENT_NOMEM_DEVICE, .bytes = refusal.bytes};
        gx_stats_tell(&x->run->ctx->stats, &about, "device memory: fewer blocks: %s", refusal.text);
        left[short_of] = 0;
        for (int32_t s = 0; s < got; s++) {
            int32_t slot = x->slots.first[short_of] + s;
            left[short_of] += gx_pool_rounded(gx_slot_bytes(x->prog, &x->plan, slot));
        }
        settle(x);
        put_away(x, false);
    }
}

static void begin(gx_xd *x, gx_prog *prog, const gx_fleet *fleet)
{
    *x = (gx_xd){.prog = prog, .run = prog->run, .devices = fleet->count};
    pthread_cond_t *conditions[] = {&x->readers, &x->buffers, &x->copying, &x->running,
                                    &x->calling};
    pthread_mutex_init(&x->lock, NULL);
    pthread_mutex_init(&x->ring_lock, NULL);
    for (int k = 0; k < 5; k++) {
        pthread_cond_init(conditions[k], NULL);
    }
    atomic_init(&x->is_faulty, false);
    for (int d = 0; d < x->devices; d++) {
        x->device[d].on =
            (gx_devcall){.run = prog->run, .accel = fleet->accel[d], .limit = fleet->bytes[d]};
        gx_pool_begin(fleet->accel[d]->pool);
    }
}

static void end(gx_xd *x)
{
    pthread_cond_t *conditions[] = {&x->readers, &x->buffers, &x->copying, &x->running,
                                    &x->calling};
    for (int k = 0; k < 5; k++) {
        pthread_cond_destroy(conditions[k]);
    }
    pthread_mutex_destroy(&x->ring_lock);
    pthread_mutex_destroy(&x->lock);
}

bool gx_exec_device(gx_prog *prog, const gx_fleet *fleet, int *culprit, gx_err *err)
{
    gx_xd x;
    gx_err refusal = {0};
    assert(prog->devices == fleet->count && fleet->count > 0);
    begin(&x, prog, fleet);
    if (make_ready(&x, &refusal)) {
        gx_exec_count(prog, &x.slots, &x.plan, fleet, x.is_there);
        gx_xd_run(&x);
    }
    gx_xd_fault(&x, x.culprit, &refusal);
    bool is_sound = settle(&x) && gx_xd_ok(&x);
    for (int32_t t = 0; x.info != NULL && t < prog->step_count && is_sound && gx_ok(prog->run);
         t++) {
        gx_xd_report(&x, t, x.info[t]);
    }
    gx_reader_close(x.own);
    put_away(&x, is_sound);
    *err = x.fault;
    *culprit = x.culprit;
    if (x.fault.code == GX_OK && gx_ok(prog->run)) {
        gx_stats_add(&prog->run->ctx->stats, GX_STAT_DEVICE_CALLS, 1);
        gx_stats_add(&prog->run->ctx->stats, GX_STAT_SPREAD_CALLS, fleet->count > 1);
    }
    end(&x);
    return x.fault.code == GX_OK || !gx_ok(prog->run);
}
