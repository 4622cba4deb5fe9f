/*
** Writing a program down: see prog.h.
**
** A step is 32 bytes: block numbers and, once scheduled, cache slots; what repeats (kernel, flags,
** scalars) is a "kind", of which a program has few.  Programs of a million calls are thus 32 MB.
*/
#include "prog_int.h"

#include <assert.h>
#include <string.h>

/* What a program keeps free of the governor's rest for helper threads and the like. */
static const size_t RESERVE_BYTES = 64 << 10;

/* Blocks are loaded this many calls ahead unless the driver says otherwise. */
static const int64_t LOOKAHEAD = 4;

static bool make_room(gx_prog *prog, int64_t calls)
{
    gx_err err = {0};
    void *steps = prog->steps;
    if (calls > INT32_MAX) {
        gx_fail(&err, GX_TOOBIG, "more than %d block operations", INT32_MAX);
    } else if (gx_mem_realloc(prog->run->ctx->mem, (size_t)calls * sizeof(step),
                              "the list of block operations", &steps, &err) == GX_OK) {
        prog->steps = steps;
        prog->step_capacity = calls;
        return true;
    }
    gx_run_fail(prog->run, &err);
    return false;
}

gx_code gx_prog_create(gx_run *run, int64_t calls, gx_prog **prog)
{
    *prog = NULL;
    if (!gx_ok(run)) {
        return run->err.code;
    }
    gx_err err = {0};
    void *memory;
    if (gx_mem_calloc(run->ctx->mem, sizeof **prog, "a program", &memory, &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    gx_prog *made = memory;
    made->run = run;
    made->lookahead = LOOKAHEAD;
    if (!make_room(made, gx_max(1, calls))) {
        gx_prog_free(made);
        return run->err.code;
    }
    *prog = made;
    return GX_OK;
}

size_t gx_prog_overhead(int64_t calls, int64_t blocks)
{
    // A call has at most two loads (a third reads what was spilled); a growing list exists twice.
    const size_t LOADS = 2 * 3 / 2 * sizeof(load);
    const size_t SIMULATION = 3 * sizeof(int32_t);
    const size_t BLOCK = 16;
    return RESERVE_BYTES + (size_t)calls * (sizeof(step) + LOADS + SIMULATION) +
           (size_t)blocks * BLOCK;
}

void gx_prog_free(gx_prog *prog)
{
    if (prog != NULL) {
        gx_mem_free(prog->run->ctx->mem, prog->steps);
        gx_mem_free(prog->run->ctx->mem, prog);
    }
}

const gx_opnd *gx_prog_operand(gx_prog *prog, const gx_mat *source, gx_sink *sink, gx_dtype dtype,
                               int64_t rows, int64_t cols, int64_t block_rows, int64_t block_cols)
{
    assert(prog->operands < GX_PROG_OPERANDS && block_rows > 0 && block_cols > 0);
    gx_opnd *operand = &prog->operand[prog->operands];
    bool is_empty = rows == 0 || cols == 0; // then one side may be of any length: no blocks
    int64_t grid_rows = is_empty ? 0 : gx_ceil_div(rows, block_rows);
    int64_t grid_cols = is_empty ? 0 : gx_ceil_div(cols, block_cols);
    int64_t blocks;
    size_t bytes;
    if (!gx_mul_i64(grid_rows, grid_cols, &blocks) || blocks > INT32_MAX - prog->blocks ||
        !gx_matrix_bytes(gx_min(rows, block_rows), gx_min(cols, block_cols), dtype, &bytes)) {
        gx_run_failf(prog->run, GX_TOOBIG,
                     "%lld x %lld in blocks of %lld x %lld is too many blocks", (long long)rows,
                     (long long)cols, (long long)block_rows, (long long)block_cols);
        return operand;
    }
    *operand = (gx_opnd){.source = source,
                         .sink = sink,
                         .dtype = dtype,
                         .rows = rows,
                         .cols = cols,
                         .block_rows = block_rows,
                         .block_cols = block_cols,
                         .grid_rows = grid_rows,
                         .grid_cols = grid_cols,
                         .first = prog->blocks};
    prog->operands++;
    prog->blocks += (int32_t)blocks;
    bytes = (bytes + 63) / 64 * 64;
    prog->slot_bytes = bytes > prog->slot_bytes ? bytes : prog->slot_bytes;
    return operand;
}

static bool same_kind(const call_kind *kind, const gx_call *call)
{
    return kind->kernel == call->kernel && kind->transa == call->transa &&
           kind->transb == call->transb && kind->uplo == call->uplo &&
           kind->alpha.re == call->alpha.re && kind->alpha.im == call->alpha.im &&
           kind->beta.re == call->beta.re && kind->beta.im == call->beta.im &&
           kind->keeps_c == call->keeps_c;
}

static int16_t find_kind(gx_prog *prog, const gx_call *call)
{
    for (int k = 0; k < prog->kinds; k++) {
        if (same_kind(&prog->kind[k], call)) {
            return (int16_t)k;
        }
    }
    assert(prog->kinds < GX_CALL_KINDS);
    prog->kind[prog->kinds] = (call_kind){.kernel = call->kernel,
                                          .transa = call->transa,
                                          .transb = call->transb,
                                          .uplo = call->uplo,
                                          .alpha = call->alpha,
                                          .beta = call->beta,
                                          .keeps_c = call->keeps_c};
    return (int16_t)prog->kinds++;
}

void gx_prog_call(gx_prog *prog, const gx_call *call)
{
    if (!gx_ok(prog->run) ||
        (prog->step_count == prog->step_capacity && !make_room(prog, 2 * prog->step_capacity))) {
        return;
    }
    step *st = &prog->steps[prog->step_count];
    const gx_block *block[3] = {&call->a, &call->b, &call->c};
    for (int p = 0; p < 3; p++) {
        const gx_opnd *m = block[p]->m;
        assert(m == NULL || (block[p]->i < m->grid_rows && block[p]->j < m->grid_cols));
        st->slot[p] = GX_NO_SLOT;
        st->operand[p] = (int8_t)(m == NULL ? -1 : m - prog->operand);
        st->block[p] = m == NULL ? GX_NO_BLOCK
                                 : m->first + (int32_t)(block[p]->j * m->grid_rows + block[p]->i);
    }
    st->kind = find_kind(prog, call);
    prog->step_count++;
    if (call->kernel != GX_KERNEL_COUNT) {
        gx_args args;
        gx_step_args(prog, st, NULL, &args);
        prog->flops += gx_kernel_flops(call->kernel, call->c.m->dtype, &args);
    }
}

void gx_prog_cut(gx_prog *prog, const gx_cut *cut)
{
    prog->cut = *cut;
}

void gx_prog_lookahead(gx_prog *prog, int64_t steps)
{
    prog->lookahead = steps;
}

void gx_prog_cache(gx_prog *prog, size_t bytes)
{
    prog->cache_bytes = bytes;
}

block_shape gx_block_shape(const gx_opnd *operand, int32_t block)
{
    int64_t number = block - operand->first;
    int64_t bi = number % operand->grid_rows, bj = number / operand->grid_rows;
    block_shape shape = {.i0 = bi * operand->block_rows, .j0 = bj * operand->block_cols};
    shape.m = gx_min(operand->block_rows, operand->rows - shape.i0);
    shape.n = gx_min(operand->block_cols, operand->cols - shape.j0);
    shape.bytes = (size_t)(shape.m * shape.n) * gx_dtype_bytes(operand->dtype);
    return shape;
}

/* The inner dimension of a product: columns of op(a). */
static int64_t inner_size(const call_kind *kind, const block_shape *a)
{
    return kind->transa == GX_NO_TRANS ? a->n : a->m;
}

void gx_step_args(const gx_prog *prog, const step *st, char *base, gx_args *args)
{
    const call_kind *kind = &prog->kind[st->kind];
    block_shape shape[3] = {{0}};
    void *pointer[3] = {NULL};
    for (int p = 0; p < 3; p++) {
        if (st->block[p] != GX_NO_BLOCK) {
            shape[p] = gx_block_shape(&prog->operand[st->operand[p]], st->block[p]);
            if (base != NULL) {
                pointer[p] = base + (size_t)st->slot[p] * prog->slot_bytes;
            }
        }
    }
    *args = (gx_args){.transa = kind->transa,
                      .transb = kind->transb,
                      .uplo = kind->uplo,
                      .m = shape[2].m,
                      .n = shape[2].n,
                      .k = inner_size(kind, &shape[0]),
                      .alpha = kind->alpha,
                      .beta = kind->beta,
                      .a = pointer[0],
                      .lda = gx_max(1, shape[0].m),
                      .b = pointer[1],
                      .ldb = gx_max(1, shape[1].m),
                      .c = pointer[2],
                      .ldc = gx_max(1, shape[2].m)};
}

/* The largest number of different blocks in one step. */
static int64_t widest_step(const gx_prog *prog)
{
    int64_t widest = 0;
    for (int64_t t = 0; t < prog->step_count; t++) {
        const int32_t *b = prog->steps[t].block;
        int64_t width = 0;
        for (int p = 0; p < 3; p++) {
            bool is_new = b[p] != GX_NO_BLOCK;
            for (int q = 0; q < p; q++) {
                is_new = is_new && b[q] != b[p];
            }
            width += is_new;
        }
        widest = gx_max(widest, width);
    }
    return widest;
}

/* A result whose blocks hold several tiles needs one more tile to pack them (sink.c). */
static size_t packing_bytes(const gx_prog *prog)
{
    size_t most = 0;
    for (int k = 0; k < prog->operands; k++) {
        const gx_opnd *op = &prog->operand[k];
        if (op->sink != NULL && op->sink->is_stored && op->block_rows != op->sink->tile_rows &&
            op->grid_rows * op->grid_cols > 0) {
            size_t bytes =
                (size_t)(op->sink->tile_rows * op->sink->tile_cols) * gx_dtype_bytes(op->dtype);
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

int64_t gx_prog_slots(gx_prog *prog)
{
    if (prog->slot_bytes == 0 || prog->step_count == 0) {
        return 1;
    }
    size_t reserve = RESERVE_BYTES + packing_bytes(prog);
    size_t available = gx_mem_available(prog->run->ctx->mem);
    size_t cache = available > reserve ? available - reserve : 0;
    if (prog->cache_bytes > 0 && prog->cache_bytes < cache) {
        cache = prog->cache_bytes;
    }
    int64_t slots = (int64_t)gx_min((int64_t)(cache / prog->slot_bytes), prog->blocks);
    int64_t needed = widest_step(prog);
    if (slots < needed) {
        gx_run_failf(
            prog->run, GX_BUDGET,
            "needs %lld blocks of %zu bytes in memory but memory_limit leaves room for %lld: "
            "raise it with gx_config('memory_limit', ...)",
            (long long)needed, prog->slot_bytes, (long long)slots);
        return 0;
    }
    return slots;
}
