/*
** The runner: blocks of nodes, one after the other, values freed after their last use.
**
** A loop's variables are handed from round to round without a copy.  Interrupts are seen between
** nodes; what fails in a node is told with the place in the text that it comes from.
*/
#include "../device/fleet.h"
#include "device_memory.h"
#include "execute.h"
#include "lanes.h"
#include "on_device.h"
#include "replay.h"
#include "shares.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void run_block(gx_exec *x, int32_t block);

/* A second reference to the value of a node. */
static gx_val *share(gx_exec *x, gx_ref ref)
{
    gx_val *val = x->val[ref];
    if (val != NULL) {
        val->refs++;
    }
    return val;
}

// Blocks of loops ---------------------------------------------------------------------------------

/* Everything that a block made, its parameters too. */
static void clear_block(gx_exec *x, int32_t b)
{
    const gx_region *block = &x->g->block[b];
    for (int32_t k = 0; k < block->count; k++) {
        gx_val_put(x, block->nodes[k], NULL);
    }
    for (int32_t k = 0; k < block->param_count; k++) {
        gx_val_put(x, x->g->pool[block->params + k], NULL);
    }
}

/* The block's results in kept[], and the block cleared. */
static void take_results(gx_exec *x, int32_t b, gx_val **kept)
{
    const gx_region *block = &x->g->block[b];
    for (int32_t k = 0; k < block->result_count; k++) {
        kept[k] = share(x, x->g->pool[block->results + k]);
    }
    clear_block(x, b);
}

static void release_all(gx_exec *x, gx_val **kept, int32_t count)
{
    for (int32_t k = 0; k < count; k++) {
        gx_val_release(x, kept[k]);
        kept[k] = NULL;
    }
}

/* The values of a loop's or choice's results. */
static void put_parts(gx_exec *x, const gx_node *node, gx_val **kept)
{
    for (int32_t k = 0; k < node->part_count; k++) {
        gx_ref part = x->g->pool[node->parts + k];
        if (part != GX_NO_NODE && x->g->node[part].is_live && gx_ok(x->run)) {
            gx_val_put(x, part, kept[k]);
            kept[k] = NULL;
        }
    }
}

/* Is a 1 x 1 value true? */
static bool is_true(gx_exec *x, gx_val *val)
{
    double number = 0;
    const void *data = gx_val_data(x, val);
    if (data != NULL) {
        gx_convert(val->type.dtype, data, 1, GX_F64, &number, 1, 1, 1);
    }
    return data != NULL && number != 0;
}

/* The condition of a while loop for these values of its variables. */
static bool goes_on(gx_exec *x, const gx_node *node, gx_val **now)
{
    int32_t b = node->inner[1];
    const gx_region *block = &x->g->block[b];
    for (int32_t k = 0; k < block->param_count; k++) {
        now[k]->refs++;
        gx_val_put(x, x->g->pool[block->params + k], now[k]);
    }
    run_block(x, b);
    gx_val *condition = NULL;
    take_results(x, b, &condition);
    bool is = is_true(x, condition);
    gx_val_release(x, condition);
    return is;
}

/* How often a repeat goes round. */
static double rounds_of(gx_exec *x, const gx_node *node)
{
    double count = gx_input_number(x, node, 0).re;
    if (gx_ok(x->run) && (isnan(count) || count > (double)x->rounds_most)) {
        gx_run_failf(x->run, GX_ARG,
                     "%g rounds are more than the %lld that the option \"limit\" allows", count,
                     (long long)x->rounds_most);
    }
    return floor(count);
}

/* One round: the parameters take the references over, and give the results'. */
static void run_round(gx_exec *x, const gx_node *node, gx_val **now)
{
    const gx_region *body = &x->g->block[node->inner[0]];
    for (int32_t k = 0; k < body->param_count; k++) {
        gx_val_put(x, x->g->pool[body->params + k], now[k]);
        now[k] = NULL;
    }
    run_block(x, node->inner[0]);
    x->rounds++;
    take_results(x, node->inner[0], now);
    gx_run_poll(x->run);
}

static void run_loop(gx_exec *x, const gx_node *node)
{
    enum { NAMES_MOST = 128 };
    const gx_graph *g = x->g;
    bool is_while = node->op->id == GX_OP_WHILE;
    gx_val *now[NAMES_MOST] = {NULL};
    int32_t count = g->block[node->inner[0]].param_count;
    double rounds = is_while ? (double)INFINITY : rounds_of(x, node), times = x->times;
    for (int32_t k = 0; k < count; k++) {
        now[k] = share(x, gx_input(g, node, node->given + k));
    }
    int64_t round = 0;
    while (gx_ok(x->run) && (double)round < rounds) {
        if (is_while && !goes_on(x, node, now)) {
            break;
        }
        if (is_while && round == x->rounds_most) {
            gx_run_failf(x->run, GX_ARG,
                         "the loop has gone round %lld times, which the option \"limit\" allows",
                         (long long)round);
            break;
        }
        int64_t done = 0;
        x->times = is_while ? times : round == 0 ? times * rounds : 0; // the first stands for all
        if (!is_while && round == GX_REPLAY_AFTER) {
            done = gx_replay_rounds(x, node, now, (int64_t)rounds - round, run_round);
        }
        if (done == 0 && gx_ok(x->run)) {
            run_round(x, node, now);
            done = 1;
        }
        round += done;
    }
    x->times = times;
    put_parts(x, node, now);
    release_all(x, now, count);
}

static void run_choice(gx_exec *x, const gx_node *node)
{
    enum { NAMES_MOST = 128 };
    gx_val *results[NAMES_MOST] = {NULL};
    bool is = is_true(x, x->val[gx_input(x->g, node, 0)]);
    int32_t b = node->inner[is ? 0 : 1];
    if (!gx_ok(x->run)) {
        return;
    }
    run_block(x, b);
    take_results(x, b, results);
    put_parts(x, node, results);
    release_all(x, results, x->g->block[b].result_count);
}

// Nodes -------------------------------------------------------------------------------------------

/* The failure with its place in the text. */
static void explain(gx_exec *x, const gx_node *node)
{
    gx_err *err = &x->run->err, placed = {.code = GX_OK};
    bool is_placed = strncmp(err->text, "line ", 5) == 0;
    if ((err->code == GX_ARG || err->code == GX_NUMERIC || err->code == GX_UNSUPPORTED) &&
        !is_placed) {
        gx_syntax_fail(x->g->syntax, node->line, node->column, &placed, err->code, "%s", err->text);
        *err = placed;
    }
}

static void run_operand(gx_exec *x, gx_ref ref, const gx_node *node)
{
    gx_val *val = gx_val_of(x, &node->type);
    if (val != NULL) {
        val->mat = &x->operand[node->whole[0]];
        gx_val_put(x, ref, val);
        bool is_dense = !gx_is_sparse(&node->type) && // a sparse one is read by its panels
                        !x->g->operand[node->whole[0]].is_structured;
        if (x->on->call.accel == NULL && is_dense &&
            x->g->node[ref].uses > 1) { // once, where it fits
            size_t bytes = 0;
            gx_matrix_bytes(node->type.rows, node->type.cols, node->type.dtype, &bytes);
            if (bytes < gx_mem_available(x->run->ctx->mem) / 4) {
                gx_val_data(x, val);
            }
        }
    }
}

/* May a driver be asked, which may take the device for itself? */
static bool asks_driver(const gx_exec *x, const gx_node *node)
{
    bool is_own = node->op->id == GX_OP_NUMBER || node->op->id == GX_OP_LITERAL ||
                  (node->op->id == GX_OP_FUSED && gx_fused_is_small(x, node));
    return !is_own;
}

/*
** Buffers are given back to the device's pool when what uses them has been enqueued; a driver takes
** them for copies in queues of its own.  It may also close the device, and with it what is there.
*/
static void run_on_host(gx_exec *x, const gx_node *node)
{
    x->cpu_ops += node->op->id != GX_OP_NUMBER;
    if (asks_driver(x, node) && !gx_device_wait_all(x)) {
        return;
    }
    node->op->run(x, node);
    bool is_gone = false;
    for (int k = 0; k < x->lanes; k++) {
        const gx_devcall *call = &x->lane[k].call;
        is_gone = is_gone || (call->accel != NULL && !gx_devcall_is_open(call));
    }
    if (is_gone && gx_ok(x->run)) {
        gx_err err = {.code = GX_DEVICE,
                      .text = "the device was closed in the middle of a program"};
        gx_device_lost(x, &err);
    }
}

static void run_whole(gx_exec *x, gx_ref ref, const gx_node *node)
{
    switch (node->op->id) {
    case GX_OP_PARAM:
    case GX_OP_PART:
        break;
    case GX_OP_OPERAND:
        run_operand(x, ref, node);
        break;
    case GX_OP_REPEAT:
    case GX_OP_WHILE:
        run_loop(x, node);
        break;
    case GX_OP_IF:
        run_choice(x, node);
        break;
    default:
        x->fused += node->op->id == GX_OP_FUSED;
        if (!gx_on_device_run(x, node) && gx_ok(x->run)) {
            run_on_host(x, node);
        }
        gx_temps_free(x);
    }
}

static void run_node(gx_exec *x, gx_ref ref)
{
    const gx_node *node = &x->g->node[ref];
    x->steps++;
    if (!gx_shares_run(x, ref)) {
        run_whole(x, ref, node);
    }
    if (!gx_ok(x->run)) {
        explain(x, node);
        return;
    }
    for (gx_ref dead = node->first_dead; dead != GX_NO_NODE; dead = x->g->node[dead].next_dead) {
        if (gx_lanes_may_drop(x, node, dead)) {
            gx_val_put(x, dead, NULL);
        }
    }
}

static void run_block(gx_exec *x, int32_t b)
{
    const gx_region *block = &x->g->block[b];
    for (int32_t k = 0; k < block->count && gx_ok(x->run); k++) {
        run_node(x, block->nodes[k]);
        if (k % 16 == 15) {
            gx_run_poll(x->run);
        }
    }
}

/* The program's own nodes on several devices. */
static void run_lanes(gx_exec *x)
{
    for (int32_t k = 0; k < x->g->block[0].count && gx_ok(x->run); k++) {
        x->on = &x->lane[x->lane_of[k]];
        run_node(x, x->order[k]);
        if (k % 16 == 15) {
            gx_run_poll(x->run);
        }
    }
    x->on = x->lane;
}

gx_code gx_exec_begin(gx_exec *x, gx_run *run, const gx_graph *g, gx_mat *operand,
                      int64_t rounds_most, bool may_leave)
{
    *x = (gx_exec){.run = run,
                   .g = g,
                   .operand = operand,
                   .stores = x->stores,
                   .stores_value = x->stores_value,
                   .value = x->value,
                   .avoided = x->avoided,
                   .rounds_most = rounds_most,
                   .times = 1,
                   .lane = {{.call = {.run = run}}},
                   .lanes = 1};
    x->on = x->lane;
    x->val = gx_run_calloc(run, (size_t)(g->nodes + 1) * sizeof *x->val, "a program's values");
    if (x->val == NULL) {
        return run->err.code;
    }
    if (may_leave) {
        gx_shares_find(x);
        gx_on_device_choose(x);
        gx_lanes_choose(x);
        gx_shares_choose(x);
    }
    if (x->order != NULL) {
        run_lanes(x);
    } else {
        run_block(x, 0);
    }
    gx_on_device_learn(x);
    return gx_ok(run) ? GX_OK : run->err.code;
}

void gx_exec_end(gx_exec *x)
{
    gx_temps_free(x);
    gx_device_end(x);
    for (int32_t k = 0; k < x->g->nodes && x->val != NULL; k++) {
        gx_val_put(x, k, NULL);
    }
    gx_mem_free(x->run->ctx->mem, x->val);
    gx_mem_free(x->run->ctx->mem, x->order);
    gx_shares_end(x);
    x->val = NULL;
    x->order = NULL;
    gx_mem_free(x->run->ctx->mem, x->work);
    gx_spares_free(x);
}
