/*
** What a program finds on the device: blocks and buffers of earlier calls, and how it is cut into
** pieces to be copied.
**
** The executor claims them (exec_device.c) and the planner asks for them beforehand: a block that
** is there is neither read nor copied.  Both go by the same key: database and its state, matrix,
** generation, rectangle, dtype (pool.h).  Page-locking and device memory take their time, so what
** the pool has not is foreseen, too: slots to the buffer, staging buffers as the blocks' bytes come
** in pieces, whose number the executor then counts exactly.
*/
#include "../device/accel.h"
#include "exec_device.h"

#include <math.h>

/* Pieces of little work are smaller than GX_PIECE_BYTES, but not smaller than this. */
static const size_t PIECE_LEAST = (size_t)1 << 20;

uint64_t gx_exec_stamp(const gx_prog *prog, int operand)
{
    const gx_mat *source = prog->operand[operand].source;
    bool is_stored = source != NULL && source->kind == GX_MAT_STORED;
    return is_stored ? gx_store_stamp(prog->run->ctx->store, source->meta.schema) : 0;
}

bool gx_exec_block_key(const gx_prog *prog, int operand, int32_t block, uint64_t stamp,
                       gx_block_key *key)
{
    const gx_opnd *op = &prog->operand[operand];
    const gx_mat *source = op->source;
    if (source == NULL || stamp == 0 || source->rows != op->rows || source->cols != op->cols) {
        return false;
    }
    gx_extent shape = gx_block_shape(op, block);
    *key = (gx_block_key){.file = stamp,
                          .id = source->meta.id,
                          .generation = source->meta.generation,
                          .i0 = shape.i0,
                          .j0 = shape.j0,
                          .m = shape.m,
                          .n = shape.n,
                          .dtype = op->dtype};
    return true;
}

bool *gx_exec_find_kept(const gx_prog *prog, const gx_accel *accel, int64_t slots,
                        const gx_schedule *plan)
{
    void *memory = NULL;
    if (gx_pool_kept(accel->pool) == 0 || slots < prog->blocks || plan->load_count == 0 ||
        gx_mem_calloc(prog->run->ctx->mem, (size_t)plan->load_count, "the schedule of blocks",
                      &memory, NULL) != GX_OK) {
        return NULL;
    }
    bool *is_there = memory;
    uint64_t stamp[GX_PROG_OPERANDS];
    for (int k = 0; k < prog->operands; k++) {
        stamp[k] = gx_exec_stamp(prog, k);
    }
    for (int64_t k = 0; k < plan->load_count; k++) {
        const gx_load *item = &plan->loads[k];
        gx_block_key key;
        is_there[k] =
            !item->is_spilled &&
            gx_exec_block_key(prog, item->operand, item->block, stamp[item->operand], &key) &&
            gx_pool_holds(accel->pool, &key, prog->slot_bytes);
    }
    return is_there;
}

// Pieces and buffers ------------------------------------------------------------------------------

static double load_bytes(const gx_prog *prog, const gx_load *item)
{
    return (double)gx_block_shape(&prog->operand[item->operand], item->block).bytes;
}

/*
** Large enough for the full speed of a copy, small enough that every reader has several to read.
*/
size_t gx_exec_piece(const gx_prog *prog, const gx_schedule *plan)
{
    double bytes = 0;
    for (int64_t k = 0; k < plan->load_count; k++) {
        bytes += load_bytes(prog, &plan->loads[k]);
    }
    int64_t readers = gx_max(1, prog->run->ctx->config.number[GX_SET_READERS]);
    double share = bytes / (4.0 * (double)readers);
    size_t size = PIECE_LEAST;
    while (size < GX_PIECE_BYTES && (double)size < share) {
        size *= 2;
    }
    return size;
}

int gx_exec_stages_up(const gx_run *run, int64_t pieces)
{
    int64_t readers = gx_min(run->ctx->config.number[GX_SET_READERS], (GX_XD_STAGES - 12) / 2);
    return (int)gx_min(gx_max(4, 2 * readers), pieces);
}

int gx_exec_stages_down(int64_t pieces)
{
    return (int)gx_min(8, pieces);
}

void gx_exec_foresee(const gx_prog *prog, const gx_accel *accel, int64_t slots,
                     const gx_schedule *plan, const bool *is_there, gx_growth *growth)
{
    double most = (double)gx_exec_piece(prog, plan), up = 0, down = 0;
    size_t bytes[2] = {0, 0};
    int64_t kept = 0;
    for (int64_t k = 0; k < plan->load_count; k++) {
        double block = load_bytes(prog, &plan->loads[k]);
        bool is_kept = is_there != NULL && is_there[k];
        kept += is_kept;
        up += is_kept ? 0 : ceil(block / most);
        bytes[0] = (size_t)fmax((double)bytes[0], is_kept ? 0 : fmin(block, most));
    }
    for (int64_t k = 0; k < plan->flush_count; k++) {
        const gx_opnd *op = &prog->operand[plan->flushes[k].operand];
        double block = (double)gx_block_shape(op, plan->flushes[k].block).bytes;
        double tile = op->sink->is_stored ? (double)(op->sink->tile_rows * op->sink->tile_cols) *
                                                (double)gx_dtype_bytes(op->dtype)
                                          : 0; // a stored one goes down in whole tiles
        double each = fmin(block, fmax(most, tile));
        down += ceil(block / each);
        bytes[1] = (size_t)fmax((double)bytes[1], each);
    }
    const double many = 1 << 20;
    int64_t count[2] = {gx_exec_stages_up(prog->run, (int64_t)fmin(up, many)),
                        gx_exec_stages_down((int64_t)fmin(down, many))};
    size_t budget = (size_t)prog->run->ctx->config.number[GX_SET_PINNING_BUDGET];
    *growth = (gx_growth){0};
    gx_pool_foresee_stages(accel->pool, bytes, count, budget, growth);
    gx_pool_foresee(accel->pool, prog->slot_bytes, slots - kept, growth);
}
