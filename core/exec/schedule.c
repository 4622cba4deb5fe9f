/*
** Who is where, when: the schedule of a program.
**
** The order of calls is fixed before anything runs, so the cache can do what no online policy can:
** evict the block whose next use is furthest away (Belady 1966), and load each block some calls
** ahead.  The schedule is made by simulating the program once.  At simulated step s
**
**   1. the blocks of steps s .. s + lookahead are given slots, earliest step first.  A new block
**      takes, in this order: an empty slot; a dead block's (no later use), the one idle longest; a
**      finished result's that is not used again, which is first flushed to its sink; the one used
**      furthest in the future.  A block used in the window is never taken; a window that does not
**      fit is cut short;
**   2. the step runs.
**
** A load may start once the executor has REACHED step s (all steps before s are done, flushes
** before s written): its slot's former block has no use left before the window's end.  Results
** stay in memory until their slot is wanted or the program ends (then in ascending tile order, the
** fastest for SQLite; of several devices as they are finished), so in rollback-journal mode the
** helpers read as long as possible before the writer disturbs them.
**
** An unfinished result that must go is a spill: written to its own tile, and read back through the
** caller's connection, which alone sees it.  Drivers choose their blocks so that this does not
** happen.
**
** Several devices (spread.c says which step is whose) have slots of their own and share one order
** of steps, so one simulation serves them all.  A block may be in slots of several devices: the
** copies are equal, because a step that writes one of them drops the others.  A block that another
** device has is copied from there, not loaded; a block that nobody has and several will want is
** loaded by the one of them that has loaded least, where that has room, and copied from there, so
** that each passes the host's links once and all links share the work.  Nothing is fetched from
** another device ahead of the step that finishes it.
**
** How willingly a slot is given up changes only when its block is placed or used, so the slots
** stand in two heaps: one of the spills, the last resort, and one of all others.
**
** Cost: O(steps log slots) time, 16 bytes a step, 20 and 8 for each device a block and 32 a slot
** while it is made.
*/
#include "prog_int.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { NEVER = INT32_MAX };

enum { POLL_STEPS = 4096 }; // about a millisecond

/* A block on one device. */
typedef struct place_state {
    int32_t slot;     /* GX_NO_SLOT: not resident              */
    int32_t next_use; /* first step >= now that uses it there  */
} place_state;

typedef struct block_state {
    int32_t last_write; /* the step that finishes it; -1: never written */
    int32_t written;    /* the latest step that wrote it                */
    int32_t placed;     /* the latest placed step that writes it; -1    */
    int8_t operand;
    int8_t home;     /* the device that wrote it last               */
    bool is_dirty;   /* differs from its sink                       */
    bool is_spilled; /* its sink's tile holds its latest contents   */
    bool is_zero;    /* all of it, by a FILL                        */
} block_state;

/* The slots that may be given up, the most willing one on top. */
typedef struct heap {
    int32_t *slot;
    int32_t count;
} heap;

typedef struct slot_state {
    int64_t willing; /* how willingly it is given up: see rank()          */
    int32_t holder;  /* its block, or GX_NO_BLOCK                         */
    int32_t at;      /* its place in heap                                 */
    heap *heap;      /* NULL: not to be had                               */
    bool is_fresh;   /* its block is the first that it holds              */
} slot_state;

/* What a device may give up, and what it has done so far. */
typedef struct device_state {
    heap ready, spills;
    double loaded; /* bytes from sources         */
    double lent;   /* bytes to other devices     */
} device_state;

typedef struct sim {
    gx_prog *prog;
    gx_schedule *out;
    block_state *block;
    place_state *place; /* of block b on device d: [d * blocks + b] */
    int32_t (*next)[3]; /* next[t][p]: the next step after t on its device that uses its block[p] */
    slot_state *slot;
    gx_slots slots;
    device_state device[GX_DEVICES_MOST];
    int32_t now; /* s */
} sim;

static place_state *place_of(const sim *s, int device, int32_t block)
{
    return &s->place[(int64_t)device * s->prog->blocks + block];
}

static gx_code allocate(gx_prog *prog, int64_t count, size_t size, void **ptr)
{
    *ptr = gx_run_calloc(prog->run, (size_t)count * size, "the schedule of blocks");
    return *ptr != NULL ? GX_OK : prog->run->err.code;
}

static bool grow(gx_prog *prog, void **array, int64_t count, int64_t *capacity, size_t size)
{
    if (count < *capacity) {
        return true;
    }
    int64_t wanted = *capacity == 0 ? 64 : 2 * *capacity;
    gx_err err = {0};
    if (gx_mem_realloc(prog->run->ctx->mem, (size_t)wanted * size, "the schedule of blocks", array,
                       &err) != GX_OK) {
        gx_run_fail(prog->run, &err);
        return false;
    }
    *capacity = wanted;
    return true;
}

static void add_load(sim *s, const gx_load *item)
{
    gx_schedule *out = s->out;
    void *loads = out->loads;
    assert(item->after <= item->need && item->slot >= 0 && item->slot < gx_slots_all(&s->slots));
    if (grow(s->prog, &loads, out->load_count, &out->load_capacity, sizeof *out->loads)) {
        out->loads = loads;
        out->loads[out->load_count++] = *item;
    }
}

static void add_flush(sim *s, int32_t block, int32_t slot, int32_t before)
{
    gx_schedule *out = s->out;
    void *flushes = out->flushes;
    assert(s->block[block].written < before && s->prog->operand[s->block[block].operand].sink);
    if (grow(s->prog, &flushes, out->flush_count, &out->flush_capacity, sizeof *out->flushes)) {
        out->flushes = flushes;
        out->flushes[out->flush_count++] =
            (gx_flush){.block = block,
                       .slot = slot,
                       .ready = s->block[block].written + 1,
                       .before = before,
                       .is_zero = s->block[block].is_zero,
                       .operand = s->block[block].operand,
                       .device = (int8_t)gx_slots_device(&s->slots, slot)};
    }
}

/* The next step after t that uses the block in position p of step t. */
static int32_t *next_of(sim *s, int32_t t, int p)
{
    return p < 3 ? &s->next[t][p] : &gx_step_more(s->prog, &s->prog->steps[t], p)->next;
}

/* Fill next[][] from the end, and each block's operand, first use and last write. */
static gx_code analyse(sim *s)
{
    gx_prog *prog = s->prog;
    for (int64_t b = 0; b < (int64_t)prog->blocks * s->slots.devices; b++) {
        s->place[b] = (place_state){.slot = GX_NO_SLOT, .next_use = NEVER};
    }
    for (int32_t b = 0; b < prog->blocks; b++) {
        s->block[b].last_write = s->block[b].placed = -1;
    }
    for (int32_t t = (int32_t)prog->step_count - 1; t >= 0; t--) {
        const gx_step *st = &prog->steps[t];
        int places = gx_step_places(prog, st);
        for (int p = 0; p < places; p++) {
            int32_t block = gx_step_place(prog, st, p).block;
            if (block != GX_NO_BLOCK) {
                *next_of(s, t, p) = place_of(s, st->device, block)->next_use;
            }
        }
        for (int p = 0; p < places; p++) {
            gx_place at = gx_step_place(prog, st, p);
            if (at.block != GX_NO_BLOCK) {
                block_state *b = &s->block[at.block];
                place_of(s, st->device, at.block)->next_use = t;
                b->operand = at.operand;
                if (gx_step_writes(prog, st, p) && b->last_write < 0) {
                    b->last_write = t;
                }
            }
        }
    }
    return GX_OK;
}

// Heaps of slots ----------------------------------------------------------------------------------

static void put_at(sim *s, heap *h, int32_t at, int32_t slot)
{
    h->slot[at] = slot;
    s->slot[slot].at = at;
}

static int64_t willing_at(const sim *s, const heap *h, int32_t at)
{
    return s->slot[h->slot[at]].willing;
}

/* Bring the slot at a place that has changed to where it belongs. */
static void sift(sim *s, heap *h, int32_t at)
{
    int32_t slot = h->slot[at];
    int64_t willing = s->slot[slot].willing;
    while (at > 0 && willing_at(s, h, (at - 1) / 2) < willing) {
        put_at(s, h, at, h->slot[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (int32_t child; (child = 2 * at + 1) < h->count; at = child) {
        if (child + 1 < h->count && willing_at(s, h, child + 1) > willing_at(s, h, child)) {
            child++;
        }
        if (willing_at(s, h, child) <= willing) {
            break;
        }
        put_at(s, h, at, h->slot[child]);
    }
    put_at(s, h, at, slot);
}

/* Move a slot to a heap (NULL: out of both) with a new willingness. */
static void move_slot(sim *s, int32_t slot, heap *to, int64_t willing)
{
    slot_state *state = &s->slot[slot];
    heap *from = state->heap;
    assert(from == NULL || (state->at < from->count && from->slot[state->at] == slot));
    if (from != NULL && from != to) {
        int32_t at = state->at;
        from->count--;
        if (at < from->count) {
            put_at(s, from, at, from->slot[from->count]);
            sift(s, from, at);
        }
    }
    if (to != NULL && from != to) {
        put_at(s, to, to->count++, slot);
    }
    state->heap = to;
    state->willing = willing;
    if (to != NULL) {
        sift(s, to, state->at);
    }
    assert(to == NULL || to->slot[state->at] == slot);
}

/*
** When the block in a slot of the device is wanted: there, or, where no other device has it, by
** any.
*/
static int32_t wanted_next(const sim *s, int device, int32_t block, bool is_dirty)
{
    int32_t first = NEVER;
    bool is_only = true;
    for (int d = 0; d < s->slots.devices; d++) {
        const place_state *place = place_of(s, d, block);
        is_only = is_only && (d == device || place->slot == GX_NO_SLOT);
        first = place->next_use < first ? place->next_use : first;
    }
    return is_only || is_dirty ? first : place_of(s, device, block)->next_use;
}

/*
** Rank a slot by what it holds, when `done` steps have run.  Larger goes first:
**
**   5  empty
**   4  dead, nothing to write: the longest idle first
**   3  dead, to be flushed: likewise
**   2  used again: the furthest first
**   1  the same, but unfinished, a spill: in the other heap
*/
static void rank(sim *s, int32_t slot, int32_t done)
{
    const int64_t CLASS = (int64_t)1 << 33;
    slot_state *state = &s->slot[slot];
    int number = gx_slots_device(&s->slots, slot);
    device_state *device = &s->device[number];
    if (state->holder == GX_NO_BLOCK) {
        move_slot(s, slot, &device->ready, 5 * CLASS + INT32_MAX - slot); // the first one first
        return;
    }
    const block_state *b = &s->block[state->holder];
    const gx_opnd *op = &s->prog->operand[b->operand];
    bool has_sink = op->sink != NULL, is_dirty = b->is_dirty && b->home == number;
    int32_t next_use = wanted_next(s, number, state->holder, is_dirty);
    if (next_use == NEVER) {
        bool is_clean = !is_dirty || !has_sink;
        move_slot(s, slot, &device->ready, (is_clean ? 4 : 3) * CLASS + INT32_MAX - done);
    } else if (is_dirty && !has_sink) {
        move_slot(s, slot, NULL, 0); // a temporary lives in memory alone
    } else {
        bool is_spill = is_dirty && b->last_write >= done;
        move_slot(s, slot, is_spill ? &device->spills : &device->ready, 2 * CLASS + next_use);
    }
}

/* The top of a heap, unless its block is used there up to window_end. */
static int32_t top(const sim *s, int device, const heap *h, int32_t window_end)
{
    if (h->count == 0) {
        return GX_NO_SLOT;
    }
    int32_t holder = s->slot[h->slot[0]].holder;
    bool is_free = holder == GX_NO_BLOCK || place_of(s, device, holder)->next_use > window_end;
    return is_free ? h->slot[0] : GX_NO_SLOT;
}

// The simulation ----------------------------------------------------------------------------------

/* The device's copy of a block is gone. */
static void drop_copy(sim *s, int device, int32_t block)
{
    place_state *place = place_of(s, device, block);
    int32_t slot = place->slot;
    place->slot = GX_NO_SLOT;
    s->slot[slot].holder = GX_NO_BLOCK;
    rank(s, slot, s->now);
}

/* A slot for a new block at the current step; GX_NO_SLOT when the window leaves none. */
static int32_t take_slot(sim *s, int device, int32_t window_end)
{
    device_state *d = &s->device[device];
    int32_t best = top(s, device, &d->ready, window_end);
    if (best == GX_NO_SLOT && window_end <= s->now) { // not for the sake of loading ahead
        best = top(s, device, &d->spills, window_end);
    }
    if (best == GX_NO_SLOT) {
        return best;
    }
    int64_t *used = &s->out->used[device];
    s->slot[best].is_fresh = best - s->slots.first[device] >= *used;
    *used = gx_max(*used, best - s->slots.first[device] + 1);
    if (s->slot[best].holder == GX_NO_BLOCK) {
        return best;
    }
    int32_t holder = s->slot[best].holder;
    block_state *b = &s->block[holder];
    bool is_dirty = b->is_dirty && b->home == device;
    assert(place_of(s, device, holder)->slot == best);
    if (is_dirty && s->prog->operand[b->operand].sink != NULL) {
        add_flush(s, holder, best, s->now);
        s->out->spills += b->last_write >= s->now;
        b->is_spilled = true;
        b->is_dirty = false;
    }
    s->out->is_roomy = false;
    drop_copy(s, device, holder);
    return best;
}

/*
** A slot of the device holds the block from now on; from: GX_NO_SLOT, or where it is copied from.
*/
static void load_block(sim *s, int device, int32_t block, int32_t slot, int32_t need, int32_t from)
{
    block_state *b = &s->block[block];
    const gx_opnd *op = &s->prog->operand[b->operand];
    bool is_finished = b->last_write < s->now; // nobody writes it again
    // Several devices: what is placed only now, because of what somebody has yet to write.
    bool is_early = s->slots.devices > 1 && s->slot[slot].is_fresh && from == GX_NO_SLOT &&
                    !b->is_spilled && !b->is_dirty;
    double bytes = s->slots.devices == 1 ? 0 : (double)gx_block_shape(op, block).bytes;
    if (from == GX_NO_SLOT) {
        s->device[device].loaded += bytes;
    } else {
        s->device[gx_slots_device(&s->slots, from)].lent += bytes;
    }
    add_load(s, &(gx_load){.block = block,
                           .slot = slot,
                           .after = is_early ? 0 : s->now,
                           .need = need,
                           .from = from,
                           .is_spilled = b->is_spilled || b->is_dirty,
                           .is_below = op->is_below && b->is_spilled && is_finished,
                           .operand = b->operand,
                           .device = (int8_t)device});
}

static void hold(sim *s, int device, int32_t block, int32_t slot)
{
    place_of(s, device, block)->slot = slot;
    s->slot[slot].holder = block;
    rank(s, slot, s->now);
}

/* The slot of another device that has the block and has lent least; GX_NO_SLOT: none has it. */
static int32_t find_copy(const sim *s, int device, int32_t block)
{
    int32_t best = GX_NO_SLOT;
    double least = 0;
    for (int d = 0; d < s->slots.devices; d++) {
        int32_t slot = d == device ? GX_NO_SLOT : place_of(s, d, block)->slot;
        if (slot != GX_NO_SLOT && (best == GX_NO_SLOT || s->device[d].lent < least)) {
            best = slot;
            least = s->device[d].lent;
        }
    }
    return best;
}

/*
** The device that loads a block for all that will want it: the one that has loaded least, where it
** has an empty slot; else the one that wants it now.
*/
static int choose_loader(const sim *s, int device, int32_t block)
{
    int best = device;
    for (int d = 0; d < s->slots.devices; d++) {
        const heap *h = &s->device[d].ready;
        bool has_room = h->count > 0 && s->slot[h->slot[0]].holder == GX_NO_BLOCK;
        if (place_of(s, d, block)->next_use != NEVER && has_room &&
            s->device[d].loaded < s->device[best].loaded) {
            best = d;
        }
    }
    return best;
}

/* Bring the block in position p of step t to the slot that the step's device has for it. */
static void fetch_block(sim *s, int32_t t, int p, int32_t slot)
{
    const gx_step *st = &s->prog->steps[t];
    gx_place at = gx_step_place(s->prog, st, p);
    int32_t block = at.block;
    bool is_read = p < 2 || s->prog->kind[st->kind].keeps_c || !gx_step_writes(s->prog, st, p);
    const block_state *b = &s->block[block];
    int32_t from = find_copy(s, st->device, block);
    bool has_contents =
        from != GX_NO_SLOT || b->is_spilled || s->prog->operand[at.operand].source != NULL;
    if (!is_read || !has_contents) {
        hold(s, st->device, block, slot);
        return;
    }
    if (from == GX_NO_SLOT && s->slots.devices > 1) {
        int loader = choose_loader(s, st->device, block);
        if (loader != st->device) {
            from = take_slot(s, loader, t);
            load_block(s, loader, block, from, t, GX_NO_SLOT);
            hold(s, loader, block, from);
        }
    }
    load_block(s, st->device, block, slot, t, from);
    hold(s, st->device, block, slot);
    if (from != GX_NO_SLOT) {
        rank(s, from, s->now); // it is not the only one any more
    }
}

/* Does step t use what another device has yet to write? */
static bool is_unwritten(const sim *s, int32_t t)
{
    const gx_step *st = &s->prog->steps[t];
    bool is_found = false;
    for (int p = 0; p < gx_step_places(s->prog, st) && s->slots.devices > 1; p++) {
        int32_t block = gx_step_place(s->prog, st, p).block;
        int32_t placed = block == GX_NO_BLOCK ? -1 : s->block[block].placed;
        is_found = is_found || (placed >= s->now && s->prog->steps[placed].device != st->device);
    }
    return is_found;
}

/* Make the blocks of step t resident.  false when the window does not fit. */
static bool place_step(sim *s, int32_t t)
{
    const gx_step *st = &s->prog->steps[t];
    if (is_unwritten(s, t)) {
        return false;
    }
    for (int p = 0; p < gx_step_places(s->prog, st); p++) {
        int32_t block = gx_step_place(s->prog, st, p).block;
        if (block == GX_NO_BLOCK) {
            continue;
        }
        place_state *place = place_of(s, st->device, block);
        place->next_use = place->next_use < t ? place->next_use : t;
        if (place->slot != GX_NO_SLOT) {
            assert(s->slot[place->slot].holder == block);
            rank(s, place->slot, s->now);
            continue;
        }
        int32_t slot = take_slot(s, st->device, t);
        if (slot == GX_NO_SLOT) {
            return false;
        }
        fetch_block(s, t, p, slot);
    }
    for (int p = 0; p < gx_step_places(s->prog, st); p++) {
        int32_t block = gx_step_place(s->prog, st, p).block;
        if (block != GX_NO_BLOCK && gx_step_writes(s->prog, st, p)) {
            s->block[block].placed = t;
        }
    }
    return true;
}

/* Does the step make the whole of its block zero? */
static bool is_zero_fill(const gx_prog *prog, const gx_step *st)
{
    const gx_call_kind *kind = &prog->kind[st->kind];
    return kind->kernel == GX_FILL && kind->alpha.re == 0 && kind->alpha.im == 0 && st->extra < 0;
}

/* Step s has run: what it used, when it is used again, what it wrote. */
static void run_step(sim *s)
{
    gx_step *st = &s->prog->steps[s->now];
    for (int p = 0; p < gx_step_places(s->prog, st); p++) {
        gx_place at = gx_step_place(s->prog, st, p);
        if (at.block == GX_NO_BLOCK) {
            continue;
        }
        block_state *b = &s->block[at.block];
        place_state *place = place_of(s, st->device, at.block);
        assert(place->slot != GX_NO_SLOT && s->slot[place->slot].holder == at.block);
        assert(*next_of(s, s->now, p) > s->now);
        *(p < 3 ? &st->slot[p] : &gx_step_more(s->prog, st, p)->slot) = place->slot;
        place->next_use = *next_of(s, s->now, p);
        if (gx_step_writes(s->prog, st, p)) {
            b->is_dirty = true;
            b->home = st->device;
            b->written = s->now;
            b->is_zero = is_zero_fill(s->prog, st);
        }
    }
    for (int p = 0; p < gx_step_places(s->prog, st); p++) {
        int32_t block = gx_step_place(s->prog, st, p).block;
        for (int d = 0; block != GX_NO_BLOCK && d < s->slots.devices; d++) {
            int32_t slot = place_of(s, d, block)->slot;
            if (slot != GX_NO_SLOT && d != st->device && gx_step_writes(s->prog, st, p)) {
                drop_copy(s, d, block);
            } else if (slot != GX_NO_SLOT) {
                rank(s, slot, s->now + 1); // others', too: who wants it has changed
            }
        }
    }
}

static int by_block(const void *a, const void *b)
{
    int32_t x = ((const gx_flush *)a)->block, y = ((const gx_flush *)b)->block;
    return (x > y) - (x < y);
}

/* In the order in which they are finished. */
static int by_ready(const void *a, const void *b)
{
    int32_t x = ((const gx_flush *)a)->ready, y = ((const gx_flush *)b)->ready;
    return x == y ? by_block(a, b) : (x > y) - (x < y);
}

/*
** What is still in memory at the end goes to its sink in ascending order; from several devices,
** each of which is at another place of the result, as it is finished: else all but one would keep
** theirs to the end.
*/
static void flush_rest(sim *s)
{
    int64_t first = s->out->flush_count;
    for (int32_t slot = 0; slot < gx_slots_all(&s->slots); slot++) {
        int32_t holder = s->slot[slot].holder;
        if (holder != GX_NO_BLOCK) {
            block_state *b = &s->block[holder];
            const gx_opnd *op = &s->prog->operand[b->operand];
            bool is_dirty = b->is_dirty && b->home == gx_slots_device(&s->slots, slot);
            if (is_dirty && op->sink != NULL) {
                add_flush(s, holder, slot, (int32_t)s->prog->step_count);
            }
        }
    }
    if (gx_ok(s->prog->run) && s->out->flush_count > first) {
        qsort(s->out->flushes + first, (size_t)(s->out->flush_count - first), sizeof(gx_flush),
              s->slots.devices > 1 ? by_ready : by_block);
    }
}

/* false: results that live in memory alone leave no slot for a step. */
static bool simulate(sim *s)
{
    gx_prog *prog = s->prog;
    int32_t placed = 0; // the first step whose blocks are not yet placed
    int64_t uses = 0;
    for (s->now = 0; s->now < prog->step_count && gx_ok(prog->run); s->now++) {
        if (s->now % POLL_STEPS == 0 && gx_run_poll(prog->run) != GX_OK) {
            return true;
        }
        while (placed < prog->step_count && placed - s->now <= prog->lookahead &&
               place_step(s, placed)) {
            placed++;
        }
        if (placed <= s->now) {
            return !gx_ok(prog->run);
        }
        run_step(s);
        const gx_step *st = &prog->steps[s->now];
        for (int p = 0; p < gx_step_places(prog, st); p++) {
            uses += gx_step_place(prog, st, p).block != GX_NO_BLOCK;
        }
    }
    flush_rest(s);
    s->out->hits = uses - s->out->load_count;
    // A list that found no memory leaves loads of steps that were not reached.
    assert(!gx_ok(prog->run) || (s->out->hits >= 0 && s->out->spills <= s->out->flush_count));
    return true;
}

/* Slots into the heaps of their devices, all empty. */
static void lay_out(sim *s, int32_t *ready, int32_t *spills)
{
    for (int d = 0; d < s->slots.devices; d++) {
        int32_t first = s->slots.first[d];
        s->device[d].ready.slot = ready + first;
        s->device[d].spills.slot = spills + first;
        for (int32_t k = first; k < s->slots.first[d + 1]; k++) {
            s->slot[k].holder = GX_NO_BLOCK;
            rank(s, k, 0);
        }
    }
}

gx_code gx_schedule_make(gx_prog *prog, const gx_slots *slots, gx_schedule *out)
{
    memset(out, 0, sizeof *out);
    sim s = {.prog = prog, .out = out, .slots = *slots};
    void *block = NULL, *place = NULL, *next = NULL, *slot = NULL, *ready = NULL, *spills = NULL;
    bool does_fit = true;
    int64_t all = gx_slots_all(slots), places = (int64_t)prog->blocks * slots->devices;
    assert(all > 0 && slots->devices == prog->devices);
    if (allocate(prog, prog->blocks, sizeof *s.block, &block) == GX_OK &&
        allocate(prog, places, sizeof *s.place, &place) == GX_OK &&
        allocate(prog, prog->step_count, sizeof *s.next, &next) == GX_OK &&
        allocate(prog, all, sizeof *s.slot, &slot) == GX_OK &&
        allocate(prog, all, sizeof(int32_t), &ready) == GX_OK &&
        allocate(prog, all, sizeof(int32_t), &spills) == GX_OK) {
        s.block = block;
        s.place = place;
        s.next = next;
        s.slot = slot;
        out->is_roomy = true;
        lay_out(&s, ready, spills);
        analyse(&s);
        does_fit = simulate(&s);
    }
    gx_mem *mem = prog->run->ctx->mem;
    gx_mem_free(mem, block);
    gx_mem_free(mem, place);
    gx_mem_free(mem, next);
    gx_mem_free(mem, slot);
    gx_mem_free(mem, ready);
    gx_mem_free(mem, spills);
    if (gx_ok(prog->run)) {
        return does_fit ? GX_OK : GX_NOMEM;
    }
    return prog->run->err.code;
}

/* Each slot has one block: its size. */
static gx_code measure_slots(gx_prog *prog, const gx_slots *slots, gx_schedule *plan)
{
    void *memory;
    GX_TRY(allocate(prog, gx_slots_all(slots), sizeof *plan->room, &memory));
    plan->room = memory;
    assert(plan->is_roomy);
    for (int64_t t = 0; t < prog->step_count; t++) {
        const gx_step *st = &prog->steps[t];
        for (int p = 0; p < gx_step_places(prog, st); p++) {
            gx_place at = gx_step_place(prog, st, p);
            if (at.block != GX_NO_BLOCK) {
                size_t bytes = gx_block_shape(&prog->operand[at.operand], at.block).bytes;
                assert(plan->room[at.slot] == 0 || plan->room[at.slot] == bytes);
                plan->room[at.slot] = bytes;
            }
        }
    }
    return GX_OK;
}

bool gx_schedule_make_on(gx_prog *prog, const size_t bytes[], gx_slots *slots, gx_schedule *plan)
{
    prog->is_on_device = true;
    return gx_prog_slots_on(prog, bytes, slots) && gx_schedule_make(prog, slots, plan) == GX_OK &&
           (!gx_prog_fits(prog, bytes[0]) || measure_slots(prog, slots, plan) == GX_OK);
}

void gx_schedule_clear(gx_prog *prog, gx_schedule *s)
{
    gx_mem_free(prog->run->ctx->mem, s->loads);
    gx_mem_free(prog->run->ctx->mem, s->flushes);
    gx_mem_free(prog->run->ctx->mem, s->room);
    memset(s, 0, sizeof *s);
}

void gx_schedule_cost(const gx_prog *prog, int64_t slots, const gx_schedule *s, gx_cost *cost)
{
    *cost = (gx_cost){.flops = prog->flops,
                      .loads = s->load_count,
                      .hits = s->hits,
                      .spills = s->spills,
                      .slots = slots,
                      .slot_bytes = prog->slot_bytes,
                      .calls = prog->step_count};
    for (int64_t k = 0; k < s->load_count; k++) {
        const gx_opnd *op = &prog->operand[s->loads[k].operand];
        if (s->loads[k].from != GX_NO_SLOT) {
            continue; // from another device
        }
        cost->bytes_up += (double)gx_block_shape(op, s->loads[k].block).bytes;
        const gx_mat *base = op->source == NULL ? NULL : gx_mat_base_stored(op->source);
        if (s->loads[k].is_spilled || base != NULL) {
            gx_extent shape = gx_block_shape(op, s->loads[k].block);
            int64_t rows = shape.m - gx_load_skip(&s->loads[k], &shape);
            size_t element =
                s->loads[k].is_spilled ? gx_number_bytes(op->dtype) : gx_dtype_bytes(base->dtype);
            cost->bytes_read += (double)(rows * shape.n) * (double)element;
        }
    }
    for (int64_t k = 0; k < s->flush_count; k++) {
        const gx_opnd *op = &prog->operand[s->flushes[k].operand];
        double bytes = (double)gx_block_shape(op, s->flushes[k].block).bytes;
        cost->bytes_down += s->flushes[k].is_zero ? 0 : bytes;
        if (op->sink->is_stored) {
            cost->bytes_written += bytes;
        }
    }
}

gx_code gx_prog_cost(gx_prog *prog, gx_cost *cost)
{
    const gx_run *run = prog->run;
    gx_schedule s = {0};
    *cost = (gx_cost){0};
    prog->is_on_device = run->target != NULL;
    int64_t slots =
        run->target != NULL ? gx_prog_slots_within(prog, run->target_bytes) : gx_prog_slots(prog);
    gx_slots all = gx_slots_of(slots);
    if (gx_ok(run) && slots > 0 && gx_schedule_make(prog, &all, &s) == GX_OK) {
        gx_schedule_cost(prog, slots, &s, cost);
    }
    gx_schedule_clear(prog, &s);
    return gx_ok(run) ? GX_OK : run->err.code;
}
