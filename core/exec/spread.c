/*
** Spreading a program over several devices: see spread.h.
**
** Whose.  Blocks that are written are owned: block (i, j) of an operand's grid by a device of a
** P x Q grid of devices, cyclically, P Q = the devices, chosen so that the busiest has least; where
** rates differ, along the longer side, each next strip going to the device that is furthest behind
** its share.  A step is its owner's who owns the block that it writes.
**
** In what order.  All devices are fed in one order (exec_device.c), so the steps are merged anew:
** each device keeps the order that its own steps had, and of the devices whose next step has all
** it needs the one goes on that could begin first, by clocks of the kernels' predicted times.  A
** step comes after every earlier one that wrote what it uses, and after every earlier one that used
** what it writes: counted per block, versions and reads of a version.  So each block sees the same
** kernels in the same order as on one device.
**
** Only programs whose steps communicate by blocks are spread: what passes through the host's memory
** (pivots, scalars of reflectors) or stays in one device's (results kept there) is not.
**
** Work: O(steps devices).  Memory while it lasts: a copy of the steps, 32 bytes a step more.
*/
#include "spread.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool gx_prog_can_spread(const gx_prog *prog)
{
    bool is_good = prog->vectors == 0 && prog->step_count > 1 && prog->more_places == 0;
    for (int k = 0; k < prog->operands; k++) {
        const gx_sink *sink = prog->operand[k].sink;
        is_good = is_good && (sink == NULL || !sink->is_resident);
    }
    for (int k = 0; k < prog->kinds; k++) {
        gx_kernel_id kernel = prog->kind[k].kernel;
        is_good = is_good && (kernel <= GX_POTRF || kernel == GX_KERNEL_COUNT);
    }
    return is_good;
}

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
    gx_dtype dtype = x->prog->operand[x->prog->operands - 1].dtype;
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
    gx_err err = {0};
    void *memory;
    own->is_along_rows = op->grid_rows >= op->grid_cols;
    int64_t strips = own->is_along_rows ? op->grid_rows : op->grid_cols;
    if (gx_mem_alloc(x->prog->run->ctx->mem, (size_t)gx_max(1, strips), "the schedule of blocks",
                     &memory, &err) != GX_OK) {
        return gx_run_fail(x->prog->run, &err);
    }
    own->strip = memory;
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

/*
** What a step waits for, of each of its blocks: so many writes, and reads since the last of them.
*/
typedef struct wanted {
    int32_t writes[3], reads[3];
} wanted;

typedef struct block_count {
    double free_s; /* when the latest step that used it ends */
    int32_t writes, reads;
} block_count;

typedef struct merge {
    spread *spread;
    wanted *wanted;
    block_count *block;
    gx_step *steps; /* in the new order                         */
    int32_t *queue; /* the steps of the devices, one behind the other */
    int32_t next[GX_DEVICES_MOST], end[GX_DEVICES_MOST];
    double clock[GX_DEVICES_MOST];
} merge;

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
                const block_count *b = &m->block[st->block[p]];
                m->wanted[t].writes[p] = b->writes;
                m->wanted[t].reads[p] = b->reads;
            }
        }
        count_step(prog, st, m->block);
    }
    memset(m->block, 0, (size_t)prog->blocks * sizeof *m->block);
}

/* May step t come next, and when would it begin? */
static bool is_ready(const merge *m, int32_t t, double *begin)
{
    const gx_prog *prog = m->spread->prog;
    const gx_step *st = &prog->steps[t];
    bool is_good = true;
    *begin = m->clock[st->device];
    for (int p = 0; p < 3 && is_good; p++) {
        if (st->block[p] == GX_NO_BLOCK) {
            continue;
        }
        const block_count *b = &m->block[st->block[p]];
        bool is_written = gx_step_writes(prog, st, p) || is_also_written(prog, st, p);
        is_good = b->writes == m->wanted[t].writes[p] &&
                  (!is_written || b->reads == m->wanted[t].reads[p]);
        *begin = b->writes > 0 || is_written ? fmax(*begin, b->free_s) : *begin;
    }
    return is_good;
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

static void list_step(merge *m, int device, double begin, int64_t at)
{
    const gx_prog *prog = m->spread->prog;
    int32_t t = m->queue[m->next[device]++];
    const gx_step *st = &prog->steps[t];
    double end = begin + seconds_of(m, st);
    m->steps[at] = *st;
    m->clock[device] = end;
    count_step(prog, st, m->block);
    for (int p = 0; p < 3; p++) {
        if (st->block[p] != GX_NO_BLOCK && gx_step_writes(prog, st, p)) {
            m->block[st->block[p]].free_s = end;
        }
    }
}

/* All steps; the first one left in the old order can always be next, so it ends. */
static void merge_steps(merge *m)
{
    const gx_prog *prog = m->spread->prog;
    for (int64_t at = 0; at < prog->step_count; at++) {
        int best = -1;
        double earliest = 0;
        for (int d = 0; d < m->spread->fleet->count; d++) {
            double begin;
            if (m->next[d] < m->end[d] && is_ready(m, m->queue[m->next[d]], &begin) &&
                (best < 0 || begin < earliest)) {
                best = d;
                earliest = begin;
            }
        }
        assert(best >= 0);
        list_step(m, best, earliest, at);
    }
}

/* The devices' own steps, one device behind the other. */
static void fill_queues(merge *m)
{
    const gx_prog *prog = m->spread->prog;
    int32_t at = 0;
    for (int d = 0; d < m->spread->fleet->count; d++) {
        m->next[d] = at;
        for (int32_t t = 0; t < prog->step_count; t++) {
            if (prog->steps[t].device == d) {
                m->queue[at++] = t;
            }
        }
        m->end[d] = at;
    }
}

static void *take(gx_run *run, size_t count, size_t size)
{
    gx_err err = {0};
    void *memory = NULL;
    if (gx_mem_calloc(run->ctx->mem, count * size, "the schedule of blocks", &memory, &err) !=
        GX_OK) {
        gx_run_fail(run, &err);
    }
    return memory;
}

static void reorder(spread *x)
{
    gx_prog *prog = x->prog;
    gx_mem *mem = prog->run->ctx->mem;
    size_t steps = (size_t)prog->step_count;
    merge m = {.spread = x};
    m.wanted = take(prog->run, steps, sizeof *m.wanted);
    m.block = take(prog->run, (size_t)prog->blocks, sizeof *m.block);
    m.steps = take(prog->run, steps, sizeof *m.steps);
    m.queue = take(prog->run, steps, sizeof *m.queue);
    if (gx_ok(prog->run)) {
        count_wanted(&m);
        fill_queues(&m);
        merge_steps(&m);
        memcpy(prog->steps, m.steps, steps * sizeof *m.steps);
    }
    gx_mem_free(mem, m.wanted);
    gx_mem_free(mem, m.block);
    gx_mem_free(mem, m.steps);
    gx_mem_free(mem, m.queue);
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
