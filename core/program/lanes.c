/*
** Independent parts of a program: see lanes.h.
**
** Nodes of the program's own block (loops count as one node) that hand each other large values
** belong together; so they fall into parts.  Small values do not bind: the host has them or gets
** them.  Parts that take long are dealt to the devices, the longest first, each to the one that
** would be done with it first; the others stay on the first device.
**
** All is enqueued by one thread, which waits where it looks at numbers.  So nodes that nobody waits
** for come first: of each part, in the order of the text, those until one that is waited for, or
** that needs something which has not run; then the first that is left, and so on.  Each part keeps
** its order, and so each value sees the same kernels as on one device: the same bits.
**
** The order of the text says when a value is wanted no more.  For large ones it still holds,
** because all that use one are of its part; small ones are kept to the end, and a node that may
** overwrite one, because its own result is small, waits for all before it.
**
** Work: O(nodes and their inputs) a sweep, at most SWEEPS of them.  Memory: 24 bytes a node of the
** block while it is chosen, 8 while it runs.
*/
#include "lanes.h"

#include "../device/fleet.h"
#include "../exec/place.h"
#include "estimate.h"
#include "on_device.h"

#include <string.h>

/* Less is not worth another device, unless it is to be used always. */
static const double LEAST_S = 2e-4;

enum { SWEEPS = 32, PARTS_MOST = 64 };

typedef struct finder {
    gx_exec *x;
    const gx_graph *g;
    const gx_region *block;
    int32_t *place;  /* by node: where it stands in the block, from 1; 0: not there      */
    int32_t *root;   /* by place, as all that follow: a forest, whose trees are the parts */
    int32_t *number; /* of its part among the long ones, from 1; 0: none                  */
    bool *is_done;   /* it is in the order                                                */
    bool *is_stuck;  /* of a part's root: its next node has to wait                       */
    double seconds[PARTS_MOST + 1];
    int lane[PARTS_MOST + 1];
    int parts;
} finder;

static bool is_large(const gx_type *t)
{
    return (double)t->rows * (double)t->cols >= GX_ON_DEVICE_LEAST;
}

bool gx_lanes_may_drop(const gx_exec *x, const gx_node *node, gx_ref value)
{
    return x->order == NULL || node->block != 0 || is_large(&x->g->node[value].type);
}

// Parts -------------------------------------------------------------------------------------------

static int32_t root_of(const finder *f, int32_t k)
{
    while (f->root[k] != k) {
        f->root[k] = f->root[f->root[k]];
        k = f->root[k];
    }
    return k;
}

/* In the program's own block; 0: it is not there. */
static int32_t place_of(const finder *f, gx_ref ref)
{
    return ref == GX_NO_NODE ? 0 : f->place[ref];
}

/* What is done with each value of the program's own block that a node uses, in loops, too. */
typedef bool (*use_fn)(finder *f, int32_t user, int32_t used);

static bool each_use(finder *f, int32_t user, const gx_node *node, use_fn fn)
{
    const gx_graph *g = f->g;
    bool is_good = true;
    for (int i = 0; i < node->count && is_good; i++) {
        int32_t used = place_of(f, gx_input(g, node, i));
        is_good = used == 0 || fn(f, user, used);
    }
    for (int b = 0; b < 2 && is_good; b++) {
        const gx_region *inner = node->inner[b] > 0 ? &g->block[node->inner[b]] : NULL;
        for (int32_t k = 0; inner != NULL && k < inner->count && is_good; k++) {
            is_good = each_use(f, user, &g->node[inner->nodes[k]], fn);
        }
        for (int32_t k = 0; inner != NULL && k < inner->result_count && is_good; k++) {
            int32_t used = place_of(f, g->pool[inner->results + k]);
            is_good = used == 0 || fn(f, user, used);
        }
    }
    return is_good;
}

static const gx_node *node_at(const finder *f, int32_t place)
{
    return &f->g->node[f->block->nodes[place - 1]];
}

static bool join(finder *f, int32_t user, int32_t used)
{
    bool is_part = node_at(f, user)->op->id == GX_OP_PART; // of what a loop hands on
    if (is_part || is_large(&node_at(f, used)->type)) {
        f->root[root_of(f, user)] = root_of(f, used);
    }
    return true;
}

static void find_parts(finder *f)
{
    for (int32_t k = 1; k <= f->block->count; k++) {
        f->place[f->block->nodes[k - 1]] = k;
        f->root[k] = k;
    }
    for (int32_t k = 1; k <= f->block->count; k++) {
        each_use(f, k, node_at(f, k), join);
    }
}

/* Has the node anything to do on a device? */
static bool is_at_home(const finder *f, const gx_node *node)
{
    bool has_large = is_large(&node->type) || node->inner[0] > 0;
    for (int i = 0; i < node->count; i++) {
        has_large = has_large || is_large(&gx_input_node(f->g, node, i)->type);
    }
    return !has_large;
}

/* The parts that take so long, and their seconds; those of all. */
static double time_parts(finder *f, const gx_rates *rates, double least_s, double *taken)
{
    double all = 0;
    for (int32_t k = 1; k <= f->block->count; k++) {
        const gx_node *node = node_at(f, k);
        double seconds = is_at_home(f, node) ? 0 : gx_estimate_node(f->g, node, rates);
        taken[root_of(f, k)] += seconds;
        all += seconds;
    }
    for (int32_t k = 1; k <= f->block->count; k++) {
        int32_t root = root_of(f, k);
        bool is_long = taken[root] > 0 && taken[root] >= least_s;
        if (f->number[root] == 0 && is_long && f->parts < PARTS_MOST) {
            f->number[root] = ++f->parts;
            f->seconds[f->parts] = taken[root];
        }
    }
    return all;
}

// Devices -----------------------------------------------------------------------------------------

static double speed_of(const gx_accel *accel, const gx_accel *first)
{
    const int64_t EDGE = 4096;
    return gx_profile_device_flops(&accel->profile, GX_F64, EDGE) /
           gx_profile_device_flops(&first->profile, GX_F64, EDGE);
}

/* The longest first, each to the device that is done with it first; seconds of all. */
static double deal(finder *f, const gx_fleet *fleet, double rest_s)
{
    double busy[GX_DEVICES_MOST] = {rest_s}, longest = rest_s;
    bool is_dealt[PARTS_MOST + 1] = {false};
    for (int turn = 0; turn < f->parts; turn++) {
        int part = 0, best = 0;
        double least = 0;
        for (int p = 1; p <= f->parts; p++) {
            part = !is_dealt[p] && (part == 0 || f->seconds[p] > f->seconds[part]) ? p : part;
        }
        for (int d = 0; d < fleet->count; d++) {
            double speed = speed_of(fleet->accel[d], fleet->accel[0]);
            double end = busy[d] + f->seconds[part] / speed;
            best = d == 0 || end < least ? d : best;
            least = best == d ? end : least;
        }
        is_dealt[part] = true;
        busy[best] = least;
        f->lane[part] = best;
        longest = least > longest ? least : longest;
    }
    return longest;
}

bool gx_lanes_gather(gx_exec *x, double alone_s, gx_fleet *fleet, bool *is_listed)
{
    gx_devcall *first = &x->lane[0].call;
    gx_fleet_single(fleet, first->accel, first->limit);
    bool is_several = gx_place_gather(x->run, fleet, alone_s, false, is_listed);
    gx_fleet_avoid(fleet, x->avoided);
    first->accel = fleet->count == 0 ? NULL : fleet->accel[0];
    first->limit = fleet->count == 0 ? 0 : fleet->bytes[0];
    return is_several && fleet->count > 1;
}

void gx_lanes_open(gx_exec *x, const gx_fleet *fleet)
{
    x->lanes = fleet->count;
    for (int k = 1; k < fleet->count; k++) {
        x->lane[k].call =
            (gx_devcall){.run = x->run, .accel = fleet->accel[k], .limit = fleet->bytes[k]};
        gx_pool_begin(fleet->accel[k]->pool);
    }
}

/* The devices beside the first; false: no parts for them, or not worth it. */
static bool find_devices(finder *f, double all_s)
{
    gx_fleet fleet;
    bool is_listed = false;
    double rest_s = all_s;
    for (int p = 1; p <= f->parts; p++) {
        rest_s -= f->seconds[p];
    }
    if (!gx_lanes_gather(f->x, all_s, &fleet, &is_listed) || f->parts < 2) {
        return false;
    }
    double spread_s = deal(f, &fleet, rest_s > 0 ? rest_s : 0);
    if (!is_listed && spread_s + LEAST_S > all_s) {
        return false;
    }
    gx_lanes_open(f->x, &fleet);
    return true;
}

// The order ---------------------------------------------------------------------------------------

/* Is it enqueued without a wait, and its result large? */
static bool is_quick(const finder *f, const gx_node *node)
{
    switch (node->op->id) {
    case GX_OP_PARAM:
    case GX_OP_PART:
    case GX_OP_NUMBER:
    case GX_OP_OPERAND:
        return true;
    case GX_OP_REPEAT: {
        const gx_region *body = &f->g->block[node->inner[0]];
        bool is_good = gx_input_node(f->g, node, 0)->is_known;
        for (int32_t k = 0; k < body->count && is_good; k++) {
            is_good = is_quick(f, &f->g->node[body->nodes[k]]);
        }
        return is_good;
    }
    default:
        return node->inner[0] == 0 && is_large(&node->type) && gx_on_device_repeats(f->x, node);
    }
}

static bool has_run(finder *f, int32_t user, int32_t used)
{
    (void)user;
    return f->is_done[used];
}

static void append(finder *f, int32_t place, int32_t *count)
{
    gx_exec *x = f->x;
    x->order[*count] = f->block->nodes[place - 1];
    x->lane_of[(*count)++] = f->lane[f->number[root_of(f, place)]];
    f->is_done[place] = true;
}

static void order_nodes(finder *f)
{
    int32_t count = 0, first = 1, all = f->block->count;
    for (int sweep = 0; count < all; sweep++) {
        memset(f->is_stuck, 0, (size_t)(all + 1) * sizeof *f->is_stuck);
        for (int32_t k = first; k <= all && sweep < SWEEPS; k++) {
            bool *is_stuck = &f->is_stuck[root_of(f, k)];
            if (f->is_done[k] || *is_stuck) {
                continue;
            }
            *is_stuck = !is_quick(f, node_at(f, k)) || !each_use(f, k, node_at(f, k), has_run);
            if (!*is_stuck) {
                append(f, k, &count);
            }
        }
        while (first <= all && f->is_done[first]) {
            first++;
        }
        if (first <= all) {
            append(f, first, &count);
        }
    }
}

// The choice --------------------------------------------------------------------------------------

/* One piece of memory; *f's arrays lie in it. */
static void *reserve(finder *f, double **taken)
{
    size_t n = (size_t)f->block->count + 1, nodes = (size_t)f->g->nodes + 1;
    size_t numbers = 2 * n + nodes;
    void *memory = NULL;
    gx_err err = {.code = GX_OK};
    if (gx_mem_calloc(f->x->run->ctx->mem,
                      n * sizeof **taken + numbers * sizeof(int32_t) + 2 * n * sizeof(bool),
                      "a program's parts", &memory, &err) != GX_OK) {
        return NULL; // one device will do
    }
    *taken = memory;
    f->root = (int32_t *)(void *)(*taken + n);
    f->number = f->root + n;
    f->place = f->number + n;
    f->is_done = (bool *)(void *)(f->place + nodes);
    f->is_stuck = f->is_done + n;
    return memory;
}

static bool reserve_order(gx_exec *x, int32_t count)
{
    void *memory = NULL;
    gx_err err = {.code = GX_OK};
    gx_mem_calloc(x->run->ctx->mem, (size_t)(count + 1) * (sizeof *x->order + sizeof *x->lane_of),
                  "a program's parts", &memory, &err);
    x->order = memory;
    x->lane_of = memory == NULL ? NULL : (int *)(void *)(x->order + count + 1);
    return memory != NULL;
}

void gx_lanes_choose(gx_exec *x)
{
    const gx_profile *host = gx_profile_get(x->run->ctx);
    bool is_listed;
    if (x->on->call.accel == NULL || !gx_fleet_is_wanted(x->run->ctx, &is_listed) ||
        !gx_ok(x->run)) {
        return;
    }
    finder f = {.x = x, .g = x->g, .block = &x->g->block[0]};
    gx_rates rates = {.host = host,
                      .device = &x->on->call.accel->profile,
                      .threads = 1,
                      .has_transforms = gx_accel_offers(x->on->call.accel, GX_FFT, GX_C128)};
    double *taken = NULL;
    void *memory = reserve(&f, &taken);
    if (memory == NULL) {
        return;
    }
    find_parts(&f);
    double all_s = time_parts(&f, &rates, is_listed ? 0 : LEAST_S, taken);
    bool is_worth_it = f.parts > 1 || x->avoided != 0;
    if (is_worth_it && find_devices(&f, all_s)) {
        if (reserve_order(x, f.block->count)) {
            order_nodes(&f);
        } else {
            x->lanes = 1;
        }
    }
    gx_mem_free(x->run->ctx->mem, memory);
}
