/*
** Which blocks of a program are in device memory already, from earlier calls.
**
** The executor claims them (exec_device.c) and the planner asks for them beforehand: a block that
** is there is neither read nor copied.  Both go by the same key: database and its state, matrix,
** generation, rectangle, dtype (pool.h).
*/
#include "accel.h"
#include "exec_int.h"

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
    block_shape shape = gx_block_shape(op, block);
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
                        const schedule *plan)
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
        const load *item = &plan->loads[k];
        gx_block_key key;
        is_there[k] =
            !item->is_spilled &&
            gx_exec_block_key(prog, item->operand, item->block, stamp[item->operand], &key) &&
            gx_pool_holds(accel->pool, &key, prog->slot_bytes);
    }
    return is_there;
}
