/*
** Lines of matrices dealt to several devices: see shares.h.
**
** A Fourier transform of a matrix of many columns works on each column alone, and so does an
** elementwise function.  The first transform of the program's own block tells what is dealt,
** columns or rows (the lines), and how many there are.  With it go the other transforms along these
** lines, elementwise groups that read or make such matrices, and the operands that they read: the
** matrices that are dealt.  Every lane has a run of lines of each, a share, which a value of its
** own stands for; the matrix's value holds them.  What a line meets beside the lines, a number or a
** vector as long as one, goes to each device.
**
** That is done where nobody else reads a dealt matrix but who takes it from the devices' memory:
** the program's results, and rectangles within one share.  Where anybody does, the program runs on
** one device, as whoever needs the whole matrix would have to bring the shares together first.
**
** A node is enqueued on one device after the other by the same code as on one device, which sees
** the shares in the place of its inputs.  The devices work at the same time, and never wait for
** each other.  Each line sees the same kernels as on one device.
**
** A share of a stored matrix is a rectangle of it: it is kept under that name, and found by the
** next call that deals the same way.
**
** Work: O(nodes) a sweep, at most SWEEPS of them.  Memory: 1 byte a node.
*/
#include "shares.h"

#include "../exec/place.h"
#include "device_memory.h"
#include "estimate.h"
#include "lanes.h"
#include "lower.h"
#include "on_device.h"

#include "../base/fused.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { SWEEPS = 8 };

/* Less saved is not worth the other devices. */
static const double LEAST_S = 1e-4;

static_assert(GX_DEVICES_MOST * sizeof(gx_val *) <= GX_SMALL_BYTES, "shares fit in a value");

// What could be dealt -----------------------------------------------------------------------------

static int64_t lines_of(const gx_shares *s, const gx_type *type)
{
    return s->axis == 0 ? type->cols : type->rows;
}

static bool is_transform(const gx_node *node)
{
    return node->op->run == gx_lower_fft && gx_fft_args_of(node).kind <= GX_FFT_REAL_INVERSE;
}

/* May the node's result be dealt? */
static bool may_deal(const gx_graph *g, const gx_shares *s, gx_ref ref)
{
    const gx_node *node = &g->node[ref];
    if (node->block != 0 || lines_of(s, &node->type) != s->lines || gx_is_sparse(&node->type)) {
        return false;
    }
    switch (node->op->id) {
    case GX_OP_OPERAND:
        return !g->operand[node->whole[0]].is_structured;
    case GX_OP_CAST:
        return true;
    case GX_OP_FUSED:
        return node->parts == 0 && node->fused->output[0].fold == GX_FOLD_NONE;
    default:
        return is_transform(node) && gx_fft_args_of(node).axis == s->axis;
    }
}

/* Deal what the node reads, and it itself where any of that is dealt; true: something changed. */
static bool spread(const gx_graph *g, gx_shares *s, gx_ref ref)
{
    const gx_node *node = &g->node[ref];
    bool had = s->has[ref], is_new = false, *has = &s->has[ref];
    for (int i = 0; i < node->count && !had && may_deal(g, s, ref); i++) {
        *has = *has || s->has[gx_input(g, node, i)];
    }
    *has = *has || (is_transform(node) && may_deal(g, s, ref));
    for (int i = 0; i < node->count && *has; i++) {
        gx_ref in = gx_input(g, node, i);
        bool is_missing = !s->has[in] && may_deal(g, s, in);
        s->has[in] = s->has[in] || is_missing;
        is_new = is_new || is_missing;
    }
    return is_new || *has != had;
}

/* Is every input dealt, or the same for all lines? */
static bool has_inputs(const gx_graph *g, const gx_shares *s, const gx_node *node)
{
    bool is_good = true;
    for (int i = 0; i < node->count; i++) {
        gx_ref in = gx_input(g, node, i);
        is_good = is_good && (s->has[in] || lines_of(s, &g->node[in].type) == 1);
    }
    return is_good;
}

/* A rectangle of a matrix that is dealt. */
static bool is_part(const gx_graph *g, const gx_shares *s, const gx_node *node)
{
    return node->op->id == GX_OP_SLICE && node->block == 0 && s->has[gx_input(g, node, 0)];
}

/* Do all that read a dealt matrix take it in shares?  So many uses there are, and are known. */
static bool is_closed(const gx_graph *g, const gx_shares *s)
{
    int64_t uses = 0, known = g->result != GX_NO_NODE && s->has[g->result] ? 1 : 0;
    bool is_good = true;
    for (int k = 0; k < g->outputs; k++) {
        known += s->has[g->output[k].node];
    }
    for (int32_t k = 0; k < g->block[0].count && is_good; k++) {
        gx_ref ref = g->block[0].nodes[k];
        const gx_node *node = &g->node[ref];
        uses += s->has[ref] ? node->uses : 0;
        known += !s->has[ref] && is_part(g, s, node);
        for (int i = 0; i < node->count && s->has[ref]; i++) {
            known += s->has[gx_input(g, node, i)];
        }
        is_good = !s->has[ref] || has_inputs(g, s, node);
    }
    return is_good && uses == known;
}

/* The axis and the lines of the first transform; false: there is none. */
static bool find_lines(const gx_graph *g, gx_shares *s)
{
    const gx_region *block = &g->block[0];
    const gx_node *first = NULL;
    for (int32_t k = 0; k < block->count && first == NULL; k++) {
        const gx_node *node = &g->node[block->nodes[k]];
        first = is_transform(node) ? node : NULL;
    }
    s->axis = first == NULL ? 0 : (int)gx_fft_args_of(first).axis;
    s->lines = first == NULL ? 0 : lines_of(s, &first->type);
    return s->lines > 1;
}

void gx_shares_find(gx_exec *x)
{
    const gx_graph *g = x->g;
    gx_shares *s = &x->shares;
    bool is_listed, is_new = true;
    gx_err err = {.code = GX_OK};
    void *memory = NULL;
    if (!gx_fleet_is_wanted(x->run->ctx, &is_listed) || !find_lines(g, s) ||
        gx_mem_calloc(x->run->ctx->mem, (size_t)g->nodes * sizeof *s->has, "a program's shares",
                      &memory, &err) != GX_OK) {
        return; // one device will do
    }
    s->has = memory;
    for (int sweep = 0; sweep < SWEEPS && is_new; sweep++) {
        is_new = false;
        for (int32_t k = 0; k < g->block[0].count; k++) {
            is_new = spread(g, s, g->block[0].nodes[k]) || is_new;
        }
    }
    if (!is_closed(g, s)) {
        gx_shares_end(x);
    }
}

void gx_shares_end(gx_exec *x)
{
    gx_mem_free(x->run->ctx->mem, x->shares.has);
    x->shares.has = NULL;
}

// Dealing -----------------------------------------------------------------------------------------

/* A lane's share of an operand, as a source. */
static void view(const gx_exec *x, const gx_node *node, int lane, gx_mat *out)
{
    const gx_shares *s = &x->shares;
    int64_t first = s->first[lane], lines = s->first[lane + 1] - first;
    bool is_cols = s->axis == 0;
    gx_mat_view(out, &x->operand[node->whole[0]], GX_NO_TRANS, is_cols ? 0 : first,
                is_cols ? first : 0, is_cols ? node->type.rows : lines,
                is_cols ? lines : node->type.cols);
}

/* The lane whose share has the rectangle; -1: it is in none. */
static int lane_of(const gx_exec *x, const gx_node *part)
{
    const gx_shares *s = &x->shares;
    int64_t first = part->whole[s->axis == 0 ? 3 : 0], end = first + lines_of(s, &part->type);
    int lane = -1;
    for (int k = 0; k < x->lanes; k++) {
        lane = first >= s->first[k] && end <= s->first[k + 1] ? k : lane;
    }
    return lane;
}

/* What all that is dealt takes one device. */
static double seconds_of(const gx_exec *x, const gx_accel *accel)
{
    const gx_graph *g = x->g;
    const gx_rates rates = {.host = gx_profile_get(x->run->ctx),
                            .device = &accel->profile,
                            .threads = 1,
                            .has_transforms = true};
    double seconds = 0;
    for (int32_t k = 0; k < g->block[0].count; k++) {
        gx_ref ref = g->block[0].nodes[k];
        bool is_work = x->shares.has[ref] && g->node[ref].op->id != GX_OP_OPERAND;
        seconds += is_work ? gx_estimate_node(g, &g->node[ref], &rates) : 0;
    }
    return seconds;
}

/* Lines of each by its speed, in whole tiles of the first operand where they are many. */
static double deal(gx_exec *x, const gx_fleet *fleet)
{
    gx_shares *s = &x->shares;
    double speed[GX_DEVICES_MOST], all = 0, done = 0;
    int64_t tile = 1;
    for (int k = 0; k < x->g->operands; k++) {
        gx_ref ref = x->g->operand[k].node;
        const gx_mat *mat = &x->operand[k];
        bool is_first = tile == 1 && ref != GX_NO_NODE && s->has[ref];
        tile = is_first ? gx_max(1, s->axis == 0 ? mat->tile_cols : mat->tile_rows) : tile;
    }
    tile = tile * 16 * fleet->count > s->lines ? 1 : tile;
    for (int k = 0; k < fleet->count; k++) {
        speed[k] = 1 / fmax(seconds_of(x, fleet->accel[k]), 1e-9);
        all += speed[k];
    }
    for (int k = 0; k < fleet->count; k++) {
        int64_t first = (int64_t)((double)s->lines * done / all) / tile * tile;
        int64_t least = k == 0 ? 0 : s->first[k - 1] + 1; // a line for everyone
        s->first[k] = gx_min(gx_max(first, least), s->lines - fleet->count + k);
        done += speed[k];
    }
    s->first[fleet->count] = s->lines;
    return 1 / all;
}

/* Does the lane have every kernel?  Once shares are dealt: is each rectangle in one of them? */
static bool can_run(gx_exec *x, int lane)
{
    const gx_graph *g = x->g;
    bool is_good = true;
    x->on = &x->lane[lane];
    for (int32_t k = 0; k < g->block[0].count && is_good; k++) {
        gx_ref ref = g->block[0].nodes[k];
        const gx_node *node = &g->node[ref];
        bool is_read = !x->shares.has[ref] && is_part(g, &x->shares, node);
        bool is_work = is_read || (x->shares.has[ref] && node->op->id != GX_OP_OPERAND);
        bool is_one = !is_read || x->lanes == 1 || lane_of(x, node) >= 0;
        is_good = !is_work || (is_one && gx_on_device_may(x, node));
    }
    x->on = x->lane;
    return is_good;
}

/* Seconds for copies of the operands, in shares or whole, that are not there yet. */
static double bring_s(gx_exec *x, bool is_dealt)
{
    const gx_graph *g = x->g;
    double bytes = 0;
    for (int k = 0; k < g->operands; k++) {
        gx_ref ref = g->operand[k].node;
        for (int lane = 0; lane < x->lanes && ref != GX_NO_NODE && x->shares.has[ref]; lane++) {
            gx_mat mat = x->operand[k];
            size_t size = 0;
            if (is_dealt) {
                view(x, &g->node[ref], lane, &mat);
            }
            gx_block_key key = gx_device_key_of(x, &mat, g->node[ref].type.dtype);
            gx_matrix_bytes(mat.rows, mat.cols, g->node[ref].type.dtype, &size);
            bool is_there =
                key.file != 0 && gx_pool_holds(x->lane[lane].call.accel->pool, &key, size);
            bytes += is_there || (!is_dealt && lane > 0) ? 0 : (double)size;
        }
    }
    return bytes / x->lane[0].call.accel->profile.upload_bytes_per_s;
}

void gx_shares_choose(gx_exec *x)
{
    gx_shares *s = &x->shares;
    gx_fleet fleet;
    bool is_listed = false;
    if (s->has == NULL || x->lane[0].call.accel == NULL || x->order != NULL || !gx_ok(x->run)) {
        return;
    }
    double alone_s = seconds_of(x, x->lane[0].call.accel);
    if (!can_run(x, 0) || !gx_lanes_gather(x, alone_s, &fleet, &is_listed)) {
        return;
    }
    fleet.count = (int)gx_min(fleet.count, s->lines);
    double together_s = deal(x, &fleet);
    gx_lanes_open(x, &fleet);
    s->is_dealt =
        is_listed || together_s + bring_s(x, true) + LEAST_S < alone_s + bring_s(x, false);
    for (int k = 0; k < x->lanes && s->is_dealt; k++) {
        s->is_dealt = can_run(x, k);
    }
    x->lanes = s->is_dealt ? x->lanes : 1;
}

// Running -----------------------------------------------------------------------------------------

/* A value that holds shares, which come. */
static gx_val *holder(gx_exec *x, gx_ref ref)
{
    gx_val *val = gx_val_of(x, &x->g->node[ref].type);
    if (val != NULL) {
        val->held = (gx_val **)(void *)val->small; // no elements: it is large
    }
    gx_val_put(x, ref, val);
    return val;
}

static void hold(gx_exec *x, gx_val *whole, gx_val *share)
{
    int64_t first = x->shares.first[whole->holds];
    share->i0 = x->shares.axis == 0 ? 0 : first;
    share->j0 = x->shares.axis == 0 ? first : 0;
    whole->held[whole->holds++] = share;
}

static void deal_operand(gx_exec *x, gx_ref ref, const gx_node *node)
{
    gx_val *whole = holder(x, ref);
    if (whole == NULL) {
        return;
    }
    whole->mat = &x->operand[node->whole[0]];
    for (int k = 0; k < x->lanes && gx_ok(x->run); k++) {
        x->on = &x->lane[k];
        const gx_type type = gx_type_now(x, node);
        gx_val *share = gx_val_of(x, &type);
        if (share != NULL) {
            share->source = gx_run_alloc(x->run, sizeof *share->source, "a program's value");
            share->mat = share->source;
            hold(x, whole, share);
        }
        if (gx_ok(x->run)) {
            view(x, node, k, share->source);
        }
    }
    x->on = x->lane;
    if (gx_ok(x->run)) {
        gx_device_vals_send(x, whole->held, whole->holds, true);
    }
}

/* The node on the lane, which sees its shares of what is dealt; false: it could not. */
static bool run_at(gx_exec *x, const gx_node *node, int lane)
{
    gx_val *whole[GX_FUSED_INPUTS] = {NULL};
    int count = (int)gx_min(node->count, GX_FUSED_INPUTS);
    x->on = &x->lane[lane];
    for (int i = 0; i < count; i++) {
        gx_ref in = gx_input(x->g, node, i);
        bool is_seen = x->shares.has[in] && x->val[in]->holds > 0;
        whole[i] = is_seen ? x->val[in] : NULL;
        x->val[in] = is_seen ? whole[i]->held[lane] : x->val[in];
    }
    bool is_run = gx_on_device_run(x, node);
    for (int i = count - 1; i >= 0; i--) {
        if (whole[i] != NULL) {
            x->val[gx_input(x->g, node, i)] = whole[i];
        }
    }
    return is_run;
}

static void run_each(gx_exec *x, gx_ref ref, const gx_node *node)
{
    gx_val *whole = holder(x, ref);
    int64_t ops = x->gpu_ops;
    for (int k = 0; k < x->lanes && gx_ok(x->run) && whole != NULL; k++) {
        x->val[ref] = NULL;
        bool is_run = run_at(x, node, k);
        assert(is_run); // gx_shares_choose has asked
        (void)is_run;
        if (x->val[ref] != NULL) {
            hold(x, whole, x->val[ref]);
        }
        x->val[ref] = whole;
    }
    x->gpu_ops = gx_min(x->gpu_ops, ops + 1);
}

bool gx_shares_run(gx_exec *x, gx_ref ref)
{
    gx_shares *s = &x->shares;
    const gx_node *node = &x->g->node[ref];
    if (!s->is_dealt || (!s->has[ref] && !is_part(x->g, s, node))) {
        return false;
    }
    s->is_one = s->has[ref];
    if (node->op->id == GX_OP_OPERAND) {
        deal_operand(x, ref, node);
    } else if (s->has[ref]) {
        run_each(x, ref, node);
    } else {
        run_at(x, node, lane_of(x, node));
    }
    s->is_one = false;
    x->on = x->lane;
    return true;
}
