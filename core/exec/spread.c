/*
** Spreading a program over several devices: see spread.h.
**
** Whose.  Blocks that are written are owned: block (i, j) of an operand's grid by a device of a
** P x Q grid of devices, cyclically, P Q = the devices, chosen so that the busiest has least; where
** rates differ, along the longer side, each next strip going to the device that is furthest behind
** its share.  A step is its owner's who owns the block that it writes.
**
** In what order.  All devices are fed in one order (exec_device.c), so the steps are merged anew.
** A step comes after every earlier one that wrote what it uses, and after every earlier one that
** used what it writes: counted per block, versions and reads of a version.  So each block sees the
** same kernels in the same order as on one device.  Of the steps that may come next the one does
** that could begin first, by clocks of the kernels', the readers' and the links' predicted times;
** among equals the first in the old order.  So where reading is what bounds the beginning, steps on
** blocks that are there come before those that want more (a product then grows as a square, not
** by columns), and where a device would wait for another one's panel it does later work meanwhile.
** Where memory is short the old order decides what fits into it: then each device keeps the order
** that its own steps had.
**
** Only programs whose steps communicate by blocks are spread: what passes through the host's memory
** (pivots, scalars of reflectors) or stays in one device's (results kept there) is not.
**
** Work: O(steps (devices + WINDOW)).  Memory while it lasts: a copy of the steps, 33 bytes a step
** more, and 16 a block, 8 more for each device.
*/
#include "spread.h"

#include "place.h"
#include "predict.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool gx_prog_can_spread(const gx_prog *prog)
{
    bool is_good = prog->vectors == 0 && prog->step_count > 1 && prog->more_places == 0;
    for (int k = 0; k < prog->kinds; k++) {
        gx_kernel_id kernel = prog->kind[k].kernel;
        is_good = is_good && (kernel <= GX_POTRF || kernel >= GX_CIRCLE);
    }
    return is_good;
}

enum { NONE = -1 };

// Owners ------------------------------------------------------------------------------------------

typedef struct owners {
    int rows, cols;                  /* of the grid of devices                           */
    bool is_weighted, is_along_rows; /* else by strips: whose is in strip[]              */
    int8_t *strip;
} owners;

typedef struct spread {
    gx_prog *prog;
    const gx_fleet *fleet;
    double rate[GX_DEVICES_MOST];
    owners of[GX_PROG_OPERANDS];
} spread;

static void measure_devices(spread *x)
{
    const int64_t EDGE = 4096;
    gx_number dtype = x->prog->operand[x->prog->operands - 1].dtype;
    double least = INFINITY, most = 0;
    for (int d = 0; d < x->fleet->count; d++) {
        x->rate[d] = gx_profile_device_flops(&x->fleet->accel[d]->profile, dtype, EDGE);
        least = fmin(least, x->rate[d]);
        most = fmax(most, x->rate[d]);
    }
    const double ALIKE = 1.1;
    for (int k = 0; k < GX_PROG_OPERANDS; k++) {
        x->of[k].is_weighted = most > ALIKE * least;
    }
}

/* The grid of devices whose busiest owns fewest blocks; among equals, the squarest. */
static void choose_grid(const gx_opnd *op, int devices, owners *own)
{
    int64_t best = INT64_MAX;
    for (int rows = 1; rows <= devices; rows++) {
        int cols = devices / rows;
        if (rows * cols != devices) {
            continue;
        }
        int64_t most = gx_ceil_div(gx_max(1, op->grid_rows), rows) *
                       gx_ceil_div(gx_max(1, op->grid_cols), cols);
        bool is_squarer = abs(rows - cols) < abs(own->rows - own->cols);
        if (most < best || (most == best && is_squarer)) {
            best = most;
            own->rows = rows;
            own->cols = cols;
        }
    }
}

/* Each next strip to the device that is furthest behind its share. */
static gx_code deal_strips(const spread *x, const gx_opnd *op, owners *own)
{
    double has[GX_DEVICES_MOST] = {0};
    own->is_along_rows = op->grid_rows >= op->grid_cols;
    int64_t strips = own->is_along_rows ? op->grid_rows : op->grid_cols;
    own->strip = gx_run_alloc(x->prog->run, (size_t)gx_max(1, strips), "the schedule of blocks");
    if (own->strip == NULL) {
        return x->prog->run->err.code;
    }
    for (int64_t k = 0; k < strips; k++) {
        int best = 0;
        for (int d = 1; d < x->fleet->count; d++) {
            best = (has[d] + 1) / x->rate[d] < (has[best] + 1) / x->rate[best] ? d : best;
        }
        has[best]++;
        own->strip[k] = (int8_t)best;
    }
    return GX_OK;
}

static gx_code choose_owners(spread *x)
{
    measure_devices(x);
    for (int k = 0; k < x->prog->operands; k++) {
        choose_grid(&x->prog->operand[k], x->fleet->count, &x->of[k]);
        if (x->of[k].is_weighted) {
            GX_TRY(deal_strips(x, &x->prog->operand[k], &x->of[k]));
        }
    }
    return GX_OK;
}

static int8_t owner_of(const spread *x, const gx_step *st)
{
    int p = st->block[2] != GX_NO_BLOCK ? 2 : 0;
    const gx_opnd *op = &x->prog->operand[st->operand[p]];
    const owners *own = &x->of[st->operand[p]];
    int64_t number = st->block[p] - op->first;
    int64_t i = number % op->grid_rows, j = number / op->grid_rows;
    return own->is_weighted ? own->strip[own->is_along_rows ? i : j]
                            : (int8_t)(i % own->rows * own->cols + j % own->cols);
}

// Order -------------------------------------------------------------------------------------------

enum {
    WINDOW = 128
}; /* steps of a device that are compared; only the first counts where blocks
                          take turns in memory, which their order decides                     */

/*
** What a step waits for, of each of its blocks: so many writes, and reads since the last of them.
*/
typedef struct wanted {
    int32_t writes[3], reads[3];
} wanted;

typedef struct block_count {
    int32_t writes, reads;
    int32_t waiting; /* the first of the steps that wait for it; NONE */
    int8_t user;     /* the device of the first step that uses it     */
    bool is_shared;  /* others use it, too                            */
    bool is_held;    /* some device has it                            */
} block_count;

typedef struct merge {
    spread *spread;
    wanted *wanted;
    block_count *block;
    double *there;  /* when block b is on device d: [d * blocks + b]; INFINITY: not    */
    gx_step *steps; /* in the new order                                                */
    int32_t *next;  /* of a step: the one behind it in its list                        */
    int32_t *rest;  /* the devices' own steps in the old order, one device behind the other */
    bool *is_listed;
    int32_t first_rest[GX_DEVICES_MOST]; /* of each device: the first that is not listed */
    int32_t ready[GX_DEVICES_MOST];      /* of each device: what may come next, in the old order */
    int32_t best[GX_DEVICES_MOST];       /* of these the one that could begin first; NONE: look */
    double begin[GX_DEVICES_MOST];       /* when */
    double clock[GX_DEVICES_MOST], up[GX_DEVICES_MOST];
    double read, read_rate; /* when the readers are free, and what they read a second */
    bool is_roomy;
} merge;

static double *there_of(const merge *m, int device, int32_t block)
{
    return &m->there[(int64_t)device * m->spread->prog->blocks + block];
}

/* The step has been listed: its blocks' counts. */
static void count_step(const gx_prog *prog, const gx_step *st, block_count *block)
{
    for (int p = 0; p < 3; p++) {
        if (st->block[p] == GX_NO_BLOCK) {
            continue;
        }
        block_count *b = &block[st->block[p]];
        if (gx_step_writes(prog, st, p)) {
            b->writes++;
            b->reads = 0;
        } else {
            b->reads++;
        }
    }
}

/* A block that a step both reads and writes counts as written. */
static bool is_also_written(const gx_prog *prog, const gx_step *st, int p)
{
    bool is_found = false;
    for (int q = 0; q < 3; q++) {
        is_found =
            is_found || (q != p && st->block[q] == st->block[p] && gx_step_writes(prog, st, q));
    }
    return is_found;
}

static void count_wanted(merge *m)
{
    const gx_prog *prog = m->spread->prog;
    for (int64_t t = 0; t < prog->step_count; t++) {
        const gx_step *st = &prog->steps[t];
        for (int p = 0; p < 3; p++) {
            if (st->block[p] != GX_NO_BLOCK) {
                block_count *b = &m->block[st->block[p]];
                m->wanted[t].writes[p] = b->writes;
                m->wanted[t].reads[p] = b->reads;
                bool is_first = b->writes + b->reads == 0;
                b->user = is_first ? st->device : b->user;
                b->is_shared = b->is_shared || b->user != st->device;
            }
        }
        count_step(prog, st, m->block);
    }
    for (int32_t b = 0; b < prog->blocks; b++) {
        m->block[b].writes = m->block[b].reads = 0;
        m->block[b].waiting = NONE;
    }
}

/* The block that step t has to wait for; GX_NO_BLOCK: it may come next. */
static int32_t awaited_block(const merge *m, int32_t t)
{
    const gx_prog *prog = m->spread->prog;
    const gx_step *st = &prog->steps[t];
    int32_t found = GX_NO_BLOCK;
    for (int p = 0; p < 3 && found == GX_NO_BLOCK; p++) {
        if (st->block[p] == GX_NO_BLOCK) {
            continue;
        }
        const block_count *b = &m->block[st->block[p]];
        bool is_written = gx_step_writes(prog, st, p) || is_also_written(prog, st, p);
        bool is_good = b->writes == m->wanted[t].writes[p] &&
                       (!is_written || b->reads == m->wanted[t].reads[p]);
        found = is_good ? GX_NO_BLOCK : st->block[p];
    }
    return found;
}

/* Step t to those of its device that may come next, or to those that wait for a block. */
static void put_step(merge *m, int32_t t)
{
    int32_t block = awaited_block(m, t);
    int device = m->spread->prog->steps[t].device;
    int32_t *at = block == GX_NO_BLOCK ? &m->ready[device] : &m->block[block].waiting;
    while (block == GX_NO_BLOCK && *at != NONE && *at < t) {
        at = &m->next[*at];
    }
    m->next[t] = *at;
    *at = t;
    m->best[device] = block == GX_NO_BLOCK ? NONE : m->best[device];
}

/* Bytes that a step has to have of the block in position p, and that come from its source. */
static double bytes_wanted(const merge *m, const gx_step *st, int p)
{
    const gx_prog *prog = m->spread->prog;
    const gx_opnd *op = &prog->operand[st->operand[p]];
    bool is_read = p < 2 || prog->kind[st->kind].keeps_c || !gx_step_writes(prog, st, p);
    bool has_contents = op->source != NULL || m->block[st->block[p]].is_held;
    return is_read && has_contents ? (double)gx_block_shape(op, st->block[p]).bytes : 0;
}

/* Who brings a block that nobody has: of those who want it the one whose link is free first. */
static int loader_of(const merge *m, int device, int32_t block)
{
    int best = device;
    for (int d = 0; d < m->spread->fleet->count && m->block[block].is_shared; d++) {
        best = m->up[d] < m->up[best] ? d : best;
    }
    return best;
}

/* When the block in position p of a step is there, by way of another device or of its source. */
static double bring_block(merge *m, const gx_step *st, int p)
{
    const gx_fleet *fleet = m->spread->fleet;
    int32_t block = st->block[p];
    double *there = there_of(m, st->device, block), bytes = bytes_wanted(m, st, p);
    if (*there < INFINITY || bytes == 0) {
        return *there < INFINITY ? *there : 0;
    }
    int from = -1;
    for (int d = 0; d < fleet->count; d++) {
        from = *there_of(m, d, block) < INFINITY ? d : from;
    }
    if (from < 0) {
        from = loader_of(m, st->device, block);
        double rate = fleet->accel[from]->profile.upload_bytes_per_s;
        m->read += bytes / m->read_rate;
        m->up[from] = fmax(m->up[from] + bytes / rate, m->read);
        *there_of(m, from, block) = m->up[from];
        m->block[block].is_held = true;
    }
    if (from != st->device) {
        double rate = fleet->accel[st->device]->link[fleet->accel[from]->ordinal].bytes_per_s;
        *there = *there_of(m, from, block) + bytes / rate;
    }
    return *there;
}

/* When a step could begin, as things are: about, where several of its blocks have to come. */
static double begin_of(const merge *m, const gx_step *st)
{
    const gx_fleet *fleet = m->spread->fleet;
    double begin = m->clock[st->device], read = m->read, up[GX_DEVICES_MOST];
    for (int d = 0; d < fleet->count; d++) {
        up[d] = m->up[d];
    }
    for (int p = 0; p < 3; p++) {
        int32_t block = st->block[p];
        if (block == GX_NO_BLOCK || *there_of(m, st->device, block) <= begin) {
            continue;
        }
        double bytes = bytes_wanted(m, st, p), first = *there_of(m, st->device, block);
        for (int d = 0; d < fleet->count && bytes > 0; d++) {
            first = fmin(first, *there_of(m, d, block));
        }
        if (first == INFINITY && bytes > 0) {
            int from = loader_of(m, st->device, block);
            read += bytes / m->read_rate;
            up[from] += bytes / fleet->accel[from]->profile.upload_bytes_per_s;
            first = up[from] = fmax(up[from], read);
        }
        begin = bytes > 0 ? fmax(begin, first) : begin;
    }
    return begin;
}

/* Of what may come next on a device, the one that could begin first; in the old order. */
static void choose_step(merge *m, int device)
{
    const gx_prog *prog = m->spread->prog;
    int32_t best = NONE, t = m->ready[device];
    int count = m->is_roomy ? WINDOW : t == m->rest[m->first_rest[device]];
    double earliest = INFINITY;
    for (; t != NONE && count-- > 0 && earliest > m->clock[device]; t = m->next[t]) {
        double begin = begin_of(m, &prog->steps[t]);
        best = begin < earliest ? t : best;
        earliest = fmin(earliest, begin);
    }
    m->best[device] = best;
    m->begin[device] = earliest;
}

static double seconds_of(const merge *m, const gx_step *st)
{
    gx_prog *prog = m->spread->prog;
    gx_kernel_id kernel = prog->kind[st->kind].kernel;
    gx_args args;
    if (kernel == GX_KERNEL_COUNT) {
        return 0;
    }
    gx_step_args(prog, st, NULL, NULL, &args);
    return gx_profile_device_kernel(&m->spread->fleet->accel[st->device]->profile, kernel,
                                    prog->operand[st->operand[2]].dtype, &args);
}

/* What waited for the blocks of a step that has been listed. */
static void wake_steps(merge *m, const gx_step *st)
{
    for (int p = 0; p < 3; p++) {
        if (st->block[p] == GX_NO_BLOCK) {
            continue;
        }
        int32_t t = m->block[st->block[p]].waiting;
        m->block[st->block[p]].waiting = NONE;
        while (t != NONE) {
            int32_t behind = m->next[t];
            put_step(m, t);
            t = behind;
        }
    }
}

/* The device's chosen step is the next in the new order. */
static void list_step(merge *m, int device, int64_t at)
{
    const gx_prog *prog = m->spread->prog;
    int32_t t = m->best[device], *link = &m->ready[device];
    const gx_step *st = &prog->steps[t];
    double begin = m->clock[device];
    while (*link != t) {
        link = &m->next[*link];
    }
    *link = m->next[t];
    for (int p = 0; p < 3; p++) {
        begin = st->block[p] == GX_NO_BLOCK ? begin : fmax(begin, bring_block(m, st, p));
    }
    double end = begin + seconds_of(m, st);
    m->steps[at] = *st;
    m->clock[device] = end;
    m->best[device] = NONE;
    m->is_listed[t] = true;
    while (m->first_rest[device] < m->spread->prog->step_count &&
           m->is_listed[m->rest[m->first_rest[device]]]) {
        m->first_rest[device]++;
    }
    count_step(prog, st, m->block);
    for (int p = 0; p < 3; p++) {
        if (st->block[p] != GX_NO_BLOCK && gx_step_writes(prog, st, p)) {
            for (int d = 0; d < m->spread->fleet->count; d++) {
                *there_of(m, d, st->block[p]) = d == device ? end : INFINITY;
            }
            m->block[st->block[p]].is_held = true;
        }
    }
    wake_steps(m, st);
}

/* All steps; the first one left in the old order can always be next, so it ends. */
static void merge_steps(merge *m)
{
    const gx_prog *prog = m->spread->prog;
    for (int64_t at = 0; at < prog->step_count; at++) {
        int best = NONE;
        for (int d = 0; d < m->spread->fleet->count; d++) {
            if (m->best[d] == NONE && m->ready[d] != NONE) {
                choose_step(m, d);
            }
            bool is_good = m->best[d] != NONE && (best == NONE || m->begin[d] < m->begin[best]);
            best = is_good ? d : best;
        }
        assert(best != NONE);
        list_step(m, best, at);
    }
}

/* The devices' own steps, one device behind the other; whatever waits for nothing is ready. */
static void fill_lists(merge *m)
{
    const gx_prog *prog = m->spread->prog;
    int32_t at = 0;
    for (int d = 0; d < m->spread->fleet->count; d++) {
        m->first_rest[d] = at;
        m->ready[d] = m->best[d] = NONE;
        for (int32_t t = 0; t < prog->step_count; t++) {
            if (prog->steps[t].device == d) {
                m->rest[at++] = t;
            }
        }
        for (int32_t b = 0; b < prog->blocks; b++) {
            *there_of(m, d, b) = INFINITY;
        }
    }
    for (int32_t t = (int32_t)prog->step_count - 1; t >= 0; t--) { // each goes in front
        put_step(m, t);
    }
}

static void *take(gx_run *run, size_t count, size_t size)
{
    return gx_run_calloc(run, count * size, "the schedule of blocks");
}

static void reorder(spread *x)
{
    gx_prog *prog = x->prog;
    gx_mem *mem = prog->run->ctx->mem;
    size_t steps = (size_t)prog->step_count;
    merge m = {.spread = x, .is_roomy = prog->lookahead >= prog->step_count};
    m.read_rate = gx_predict_read_rate(prog->run, gx_max(1, gx_exec_readers(prog)));
    m.wanted = take(prog->run, steps, sizeof *m.wanted);
    m.block = take(prog->run, (size_t)prog->blocks, sizeof *m.block);
    m.there = take(prog->run, (size_t)prog->blocks * (size_t)x->fleet->count, sizeof *m.there);
    m.steps = take(prog->run, steps, sizeof *m.steps);
    m.next = take(prog->run, steps, sizeof *m.next);
    m.rest = take(prog->run, steps, sizeof *m.rest);
    m.is_listed = take(prog->run, steps, sizeof *m.is_listed);
    if (gx_ok(prog->run)) {
        count_wanted(&m);
        fill_lists(&m);
        merge_steps(&m);
        memcpy(prog->steps, m.steps, steps * sizeof *m.steps);
    }
    gx_mem_free(mem, m.wanted);
    gx_mem_free(mem, m.block);
    gx_mem_free(mem, m.there);
    gx_mem_free(mem, m.steps);
    gx_mem_free(mem, m.next);
    gx_mem_free(mem, m.rest);
    gx_mem_free(mem, m.is_listed);
}

void gx_prog_shares(gx_prog *prog, const gx_fleet *fleet, double share[])
{
    double all = 0;
    for (int d = 0; d < fleet->count; d++) {
        share[d] = 0;
    }
    for (int64_t t = 0; t < prog->step_count; t++) {
        const gx_step *st = &prog->steps[t];
        gx_kernel_id kernel = prog->kind[st->kind].kernel;
        double work = 1; // of one that computes nothing
        if (kernel != GX_KERNEL_COUNT) {
            gx_args args;
            gx_step_args(prog, st, NULL, NULL, &args);
            work = fmax(work, gx_kernel_flops(kernel, gx_step_dtype(prog, st), &args));
        }
        share[st->device] += work;
        all += work;
    }
    for (int d = 0; d < fleet->count; d++) {
        share[d] /= fmax(1, all);
    }
}

void gx_prog_spread(gx_prog *prog, const gx_fleet *fleet)
{
    spread x = {.prog = prog, .fleet = fleet};
    prog->devices = (int)gx_max(1, fleet->count);
    bool is_single = prog->devices == 1;
    assert(is_single || gx_prog_can_spread(prog));
    bool is_ok = gx_ok(prog->run) && (is_single || choose_owners(&x) == GX_OK);
    for (int64_t t = 0; is_ok && t < prog->step_count; t++) {
        prog->steps[t].device = is_single ? 0 : owner_of(&x, &prog->steps[t]);
    }
    if (is_ok && !is_single) {
        reorder(&x);
    }
    for (int k = 0; k < GX_PROG_OPERANDS; k++) {
        gx_mem_free(prog->run->ctx->mem, x.of[k].strip);
    }
}
