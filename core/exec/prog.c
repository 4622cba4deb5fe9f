/*
** Writing a program down: see prog.h.
**
** A step is 36 bytes: block numbers and, once scheduled, cache slots; what repeats (kernel, flags,
** scalars) is a "kind", of which a program has few.  Programs of a million calls are thus 36 MB.
*/
#include "../device/accel.h"
#include "../mat/stream.h"
#include "../run/call.h"
#include "prog_int.h"

#include <assert.h>
#include <string.h>

/* What a program keeps free of the governor's rest for helper threads and the like. */
static const size_t RESERVE_BYTES = 64 << 10;

/* Blocks are loaded this many calls ahead unless the driver says otherwise. */
static const int64_t LOOKAHEAD = 4;

/* For the places past the third of one FUSED step more. */
static bool make_more_room(gx_prog *prog)
{
    gx_err err = {0};
    void *more = prog->more;
    int64_t capacity = gx_max(2 * prog->more_capacity, (int64_t)16 * prog->more_places);
    if (prog->more_count + prog->more_places > prog->more_capacity &&
        gx_mem_realloc(prog->run->ctx->mem, (size_t)capacity * sizeof *prog->more,
                       "the list of block operations", &more, &err) == GX_OK) {
        prog->more = more;
        prog->more_capacity = capacity;
    }
    return gx_run_fail(prog->run, &err) == GX_OK;
}

static bool make_room(gx_prog *prog, int64_t calls)
{
    gx_err err = {0};
    void *steps = prog->steps;
    if (calls > INT32_MAX) {
        gx_fail(&err, GX_TOOBIG, "more than %d block operations", INT32_MAX);
    } else if (gx_mem_realloc(prog->run->ctx->mem, (size_t)calls * sizeof(gx_step),
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
    gx_prog *made = gx_run_calloc(run, sizeof *made, "a program");
    if (made == NULL) {
        return run->err.code;
    }
    made->run = run;
    made->lookahead = LOOKAHEAD;
    made->devices = 1;
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
    const size_t LOADS = 2 * 3 / 2 * sizeof(gx_load);
    const size_t SIMULATION = 3 * sizeof(int32_t);
    const size_t BLOCK = 24;
    return RESERVE_BYTES + sizeof(gx_prog) +
           (size_t)calls * (sizeof(gx_step) + LOADS + SIMULATION) + (size_t)blocks * BLOCK;
}

size_t gx_prog_fused_overhead(int64_t calls, const gx_fused *fused)
{
    size_t places = 2 * (size_t)(fused->inputs + fused->outputs) * sizeof(gx_place);
    return (size_t)calls * (sizeof(gx_call_extra) + places);
}

size_t gx_prog_parts_overhead(int64_t calls)
{
    return (size_t)calls * sizeof(gx_call_extra);
}

void gx_prog_free(gx_prog *prog)
{
    if (prog != NULL) {
        gx_mem_free(prog->run->ctx->mem, prog->steps);
        gx_mem_free(prog->run->ctx->mem, prog->more);
        gx_mem_free(prog->run->ctx->mem, prog->extra);
        gx_mem_free(prog->run->ctx->mem, prog);
    }
}

const gx_opnd *gx_prog_operand(gx_prog *prog, const gx_mat *source, gx_sink *sink, gx_number dtype,
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
    bytes = gx_whole_lines(bytes);
    prog->slot_bytes = bytes > prog->slot_bytes ? bytes : prog->slot_bytes;
    return operand;
}

void gx_prog_again_below(gx_prog *prog, const gx_opnd *operand)
{
    prog->operand[operand - prog->operand].is_below = true;
}

static bool same_kind(const gx_call_kind *kind, const gx_call *call)
{
    return kind->kernel == call->kernel && kind->transa == call->transa &&
           kind->transb == call->transb && kind->side == call->side && kind->uplo == call->uplo &&
           kind->diag == call->diag && kind->map == call->map && kind->alpha.re == call->alpha.re &&
           kind->alpha.im == call->alpha.im && kind->beta.re == call->beta.re &&
           kind->beta.im == call->beta.im && kind->keeps_c == call->keeps_c &&
           kind->is_backward == call->is_backward && kind->is_pentagon == call->is_pentagon &&
           kind->constraints == call->constraints && kind->half == call->half &&
           kind->has_c2 == (call->c2.m != NULL);
}

static int16_t find_kind(gx_prog *prog, const gx_call *call)
{
    for (int k = 0; k < prog->kinds; k++) {
        if (same_kind(&prog->kind[k], call)) {
            return (int16_t)k;
        }
    }
    assert(prog->kinds < GX_CALL_KINDS);
    prog->kind[prog->kinds] = (gx_call_kind){.kernel = call->kernel,
                                             .transa = call->transa,
                                             .transb = call->transb,
                                             .side = call->side,
                                             .uplo = call->uplo,
                                             .diag = call->diag,
                                             .map = call->map,
                                             .half = call->half,
                                             .constraints = call->constraints,
                                             .alpha = call->alpha,
                                             .beta = call->beta,
                                             .keeps_c = call->keeps_c,
                                             .is_backward = call->is_backward,
                                             .is_pentagon = call->is_pentagon,
                                             .has_c2 = call->c2.m != NULL};
    return (int16_t)prog->kinds++;
}

void gx_prog_expect_parts(gx_prog *prog, int64_t calls)
{
    gx_err err = {0};
    void *extra = prog->extra;
    if (calls <= prog->extra_capacity || !gx_ok(prog->run)) {
        return;
    }
    if (gx_mem_realloc(prog->run->ctx->mem, (size_t)calls * sizeof *prog->extra,
                       "the list of block operations", &extra, &err) != GX_OK) {
        gx_run_fail(prog->run, &err);
        return;
    }
    prog->extra = extra;
    prog->extra_capacity = calls;
}

static bool has_extra(const gx_call *call, const gx_block *block[3])
{
    return block[0]->part.rows > 0 || block[1]->part.rows > 0 || block[2]->part.rows > 0 ||
           call->tau != NULL || call->pivots != NULL || call->reflectors > 0 ||
           call->info_base != 0 || call->row_offset != 0 || call->reduce != NULL ||
           call->more != NULL;
}

/* Index of the call's extra, -1 when it needs none or there is no memory (the run has failed). */
static int32_t add_extra(gx_prog *prog, const gx_call *call, const gx_block *block[3])
{
    if (!has_extra(call, block)) {
        return -1;
    }
    if (prog->extra_count == prog->extra_capacity) {
        gx_prog_expect_parts(prog, gx_max(16, 2 * prog->extra_capacity));
        if (!gx_ok(prog->run)) {
            return -1;
        }
    }
    prog->extra[prog->extra_count] =
        (gx_call_extra){.part = {block[0]->part, block[1]->part, block[2]->part},
                        .tau = call->tau,
                        .tau_at = call->tau_at,
                        .pivots = call->pivots,
                        .pivot_first = call->pivot_first,
                        .pivot_last = call->pivot_last,
                        .row_offset = call->row_offset,
                        .reflectors = call->reflectors,
                        .info_base = call->info_base,
                        .reduce_kind = call->reduce_kind,
                        .reduce = call->reduce,
                        .more = prog->more_count};
    return (int32_t)prog->extra_count++;
}

/*
** What kernels of factorisations want beside their blocks is kept free of the cache; and what each
** thread of a team wants for a fused program.
*/
static void note_workspace(gx_prog *prog, const gx_step *st, const gx_args *args)
{
    const gx_backend *backend;
    gx_dev *dev;
    if (gx_run_device(prog->run, &backend, &dev) == GX_OK) {
        bool is_fused = gx_step_is_fused(prog, st);
        size_t bytes = gx_team_call_bytes(backend, dev, prog->kind[st->kind].kernel,
                                          gx_step_dtype(prog, st), args);
        bytes *= is_fused ? (size_t)prog->run->ctx->config.number[GX_SET_THREADS] : 1;
        prog->workspace_bytes = bytes > prog->workspace_bytes ? bytes : prog->workspace_bytes;
    }
}

void gx_prog_fuse(gx_prog *prog, const gx_fused *fused)
{
    int matrices = 0;
    assert(prog->step_count == 0);
    for (int k = 0; k < fused->outputs; k++) {
        matrices += fused->output[k].fold == GX_FOLD_NONE;
    }
    prog->fused = fused;
    prog->more_places = (int)(gx_max(fused->inputs - 2, 0) + gx_max(matrices - 1, 0));
}

static int32_t number_of(const gx_block *block)
{
    const gx_opnd *m = block->m;
    assert(m == NULL || (block->i < m->grid_rows && block->j < m->grid_cols));
    return m == NULL ? GX_NO_BLOCK : m->first + (int32_t)(block->j * m->grid_rows + block->i);
}

void gx_prog_call(gx_prog *prog, const gx_call *call)
{
    if (!gx_ok(prog->run) ||
        (prog->step_count == prog->step_capacity && !make_room(prog, 2 * prog->step_capacity))) {
        return;
    }
    gx_step *st = &prog->steps[prog->step_count];
    const gx_block *block[3] = {&call->a, call->c2.m != NULL ? &call->c2 : &call->b, &call->c};
    assert(call->c2.m == NULL || call->b.m == NULL);
    for (int p = 0; p < 3; p++) {
        const gx_opnd *m = block[p]->m;
        st->slot[p] = GX_NO_SLOT;
        st->operand[p] = (int8_t)(m == NULL ? -1 : m - prog->operand);
        st->block[p] = number_of(block[p]);
    }
    st->device = 0;
    st->kind = find_kind(prog, call);
    if (call->kernel == GX_FUSED && !make_more_room(prog)) {
        return;
    }
    st->extra = add_extra(prog, call, block);
    if (!gx_ok(prog->run)) {
        return;
    }
    for (int p = 3; p < gx_step_places(prog, st); p++) {
        const gx_block *more = &call->more[p - 3];
        *gx_step_more(prog, st, p) = (gx_place){.block = number_of(more),
                                                .slot = GX_NO_SLOT,
                                                .operand = (int8_t)(more->m - prog->operand)};
    }
    prog->more_count += gx_step_places(prog, st) - 3;
    prog->step_count++;
    if (call->kernel != GX_KERNEL_COUNT) {
        gx_args args;
        gx_step_args(prog, st, NULL, NULL, &args);
        prog->flops += gx_kernel_flops(call->kernel, gx_step_dtype(prog, st), &args);
        if (call->kernel >= GX_TRIANGLE) {
            note_workspace(prog, st, &args);
        }
    }
}

gx_vector *gx_prog_vector(gx_prog *prog, gx_number dtype, void *data, int64_t count)
{
    assert(prog->vectors < GX_PROG_VECTORS);
    gx_vector *vector = &prog->vector[prog->vectors++];
    *vector = (gx_vector){.dtype = dtype, .count = count, .data = data, .device = data};
    return vector;
}

void gx_prog_on_info(gx_prog *prog, gx_info_fn fn, void *arg)
{
    prog->on_info = fn;
    prog->on_info_arg = arg;
}

void gx_prog_cut(gx_prog *prog, const gx_cut *cut)
{
    prog->cut = *cut;
}

void gx_prog_lookahead(gx_prog *prog, int64_t steps)
{
    prog->lookahead = steps;
}

gx_extent gx_block_shape(const gx_opnd *operand, int32_t block)
{
    int64_t number = block - operand->first;
    int64_t bi = number % operand->grid_rows, bj = number / operand->grid_rows;
    gx_extent shape = {.i0 = bi * operand->block_rows, .j0 = bj * operand->block_cols};
    shape.m = gx_min(operand->block_rows, operand->rows - shape.i0);
    shape.n = gx_min(operand->block_cols, operand->cols - shape.j0);
    shape.bytes = (size_t)(shape.m * shape.n) * gx_number_bytes(operand->dtype);
    return shape;
}

/* What a kernel sees of a block. */
typedef struct seen {
    int64_t m, n, ld;
    void *data;
} seen;

static seen see(const gx_prog *prog, const gx_step *st, int p, char *base, void *const *place)
{
    gx_place at = gx_step_place(prog, st, p);
    if (at.block == GX_NO_BLOCK) {
        return (seen){.ld = 1};
    }
    const gx_opnd *op = &prog->operand[at.operand];
    gx_extent shape = gx_block_shape(op, at.block);
    seen s = {.m = shape.m, .n = shape.n, .ld = gx_max(1, shape.m)};
    s.data = place != NULL  ? place[at.slot]
             : base != NULL ? base + (size_t)at.slot * prog->slot_bytes
                            : NULL;
    const gx_part *part = st->extra < 0 || p > 2 ? NULL : &prog->extra[st->extra].part[p];
    if (part != NULL && part->rows > 0) {
        assert(part->row + part->rows <= s.m && part->col + part->cols <= s.n);
        s.m = part->rows;
        s.n = part->cols;
        s.data = s.data == NULL ? NULL : gx_at(s.data, op->dtype, s.ld, part->row, part->col);
    }
    return s;
}

static void take_extra(const gx_call_extra *extra, gx_args *args)
{
    if (extra->tau != NULL) {
        args->tau = gx_at(extra->tau->device, extra->tau->dtype, 1, extra->tau_at, 0);
    }
    args->pivots = extra->pivots;
    args->pivot_first = extra->pivot_first;
    args->pivot_last = extra->pivot_last;
    args->row_offset = extra->row_offset;
    args->reduce_kind = extra->reduce_kind;
    args->reduce = extra->reduce;
    if (extra->reflectors > 0) {
        args->k = extra->reflectors;
    }
}

/* A fused program's: m x n is the largest of its blocks, the others spread. */
static void fused_args(gx_prog *prog, const gx_step *st, char *base, void *const *place,
                       gx_args *args)
{
    const gx_fused *f = prog->fused;
    *args = (gx_args){.fused = f, .in = prog->in, .out = prog->out, .fold = prog->fold};
    for (int p = 0; p < gx_step_places(prog, st); p++) {
        seen s = see(prog, st, p, base, place);
        args->m = gx_max(args->m, s.m);
        args->n = gx_max(args->n, s.n);
    }
    for (int k = 0; k < f->inputs; k++) {
        seen s = see(prog, st, k < 2 ? k : k + 1, base, place);
        prog->in[k] = (gx_fused_place){.data = s.data,
                                       .row = s.m == 1 && args->m > 1 ? 0 : 1,
                                       .col = s.n == 1 && args->n > 1 ? 0 : s.ld};
    }
    double *fold = st->extra < 0 ? NULL : prog->extra[st->extra].reduce;
    int next = 2;
    for (int k = 0; k < f->outputs; k++) {
        gx_fold_of of = (gx_fold_of)f->output[k].fold_of;
        prog->fold[k] = fold;
        if (f->output[k].fold != GX_FOLD_NONE) {
            fold += gx_fold_doubles((gx_fold)f->output[k].fold, of, args->m, args->n);
            continue;
        }
        seen s = see(prog, st, next, base, place);
        prog->out[k] = (gx_fused_place){.data = s.data, .row = 1, .col = s.ld};
        next = next == 2 ? (int)gx_max(f->inputs, 2) + 1 : next + 1;
    }
}

void gx_step_args(gx_prog *prog, const gx_step *st, char *base, void *const *place, gx_args *args)
{
    if (gx_step_is_fused(prog, st)) {
        fused_args(prog, st, base, place, args);
        return;
    }
    const gx_call_kind *kind = &prog->kind[st->kind];
    seen a = see(prog, st, 0, base, place), b = see(prog, st, 1, base, place);
    seen c = see(prog, st, 2, base, place);
    *args = (gx_args){.transa = kind->transa,
                      .transb = kind->transb,
                      .side = kind->side,
                      .uplo = kind->uplo,
                      .diag = kind->diag,
                      .map = kind->map,
                      .half = kind->half,
                      .is_backward = kind->is_backward,
                      .is_pentagon = kind->is_pentagon,
                      .m = c.m,
                      .n = c.n,
                      .k = kind->transa == GX_NO_TRANS ? a.n : a.m,
                      .alpha = kind->alpha,
                      .beta = kind->beta,
                      .a = a.data,
                      .lda = a.ld,
                      .c = c.data,
                      .ldc = c.ld};
    if (kind->has_c2) {
        args->m = b.m;
        args->n = b.n;
        args->c2 = b.data;
        args->ldc2 = b.ld;
    } else {
        args->b = b.data;
        args->ldb = b.ld;
    }
    switch (kind->kernel) {
    case GX_CIRCLE:
        args->k = args->ldb = 1;
        break;
    case GX_COMBINE:
        args->k = a.m;
        args->constraints = kind->constraints;
        break;
    case GX_LARFT:
        args->m = a.m;
        args->k = a.n;
        break;
    case GX_LARFB:
    case GX_ORMQR:
    case GX_TPMQRT:
        args->k = a.n;
        break;
    default:
        break;
    }
    if (st->extra >= 0) {
        take_extra(&prog->extra[st->extra], args);
    }
}

/* The largest number of different blocks in one step. */
static int64_t widest_step(const gx_prog *prog)
{
    int64_t widest = 0;
    for (int64_t t = 0; t < prog->step_count; t++) {
        const gx_step *st = &prog->steps[t];
        int64_t width = 0;
        for (int p = 0; p < gx_step_places(prog, st); p++) {
            int32_t block = gx_step_place(prog, st, p).block;
            bool is_new = block != GX_NO_BLOCK;
            for (int q = 0; q < p; q++) {
                is_new = is_new && gx_step_place(prog, st, q).block != block;
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
                (size_t)(op->sink->tile_rows * op->sink->tile_cols) * gx_number_bytes(op->dtype);
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

/* What an operand's blocks take, each in a buffer of its own. */
static double own_bytes(const gx_opnd *op)
{
    double sum = 0;
    for (int corner = 0; corner < 4; corner++) { // inside, last row, last column, last block
        int64_t i = corner % 2 == 0 ? 0 : op->grid_rows - 1;
        int64_t j = corner / 2 == 0 ? 0 : op->grid_cols - 1;
        int64_t rows = corner % 2 == 0 ? op->grid_rows - 1 : 1;
        int64_t cols = corner / 2 == 0 ? op->grid_cols - 1 : 1;
        if (rows > 0 && cols > 0 && op->grid_rows > 0 && op->grid_cols > 0) {
            int32_t block = op->first + (int32_t)(i + j * op->grid_rows);
            size_t bytes = gx_pool_rounded(gx_block_shape(op, block).bytes);
            sum += (double)(rows * cols) * (double)bytes;
        }
    }
    return sum;
}

bool gx_prog_fits(const gx_prog *prog, size_t device_bytes)
{
    double sum = 0;
    for (int k = 0; k < prog->operands; k++) {
        sum += own_bytes(&prog->operand[k]);
    }
    return prog->devices == 1 && sum <= (double)device_bytes;
}

int64_t gx_prog_slots_within(const gx_prog *prog, size_t device_bytes)
{
    if (gx_prog_fits(prog, device_bytes)) {
        return prog->blocks;
    }
    size_t slot_bytes = gx_pool_rounded(prog->slot_bytes);
    int64_t slots = (int64_t)gx_min((int64_t)(device_bytes / slot_bytes), prog->blocks);
    int64_t needed = gx_min(prog->blocks, widest_step(prog));
    return slots < needed ? 0 : slots;
}

bool gx_prog_slots_on(const gx_prog *prog, const size_t bytes[], gx_slots *slots)
{
    *slots = (gx_slots){.devices = prog->devices};
    for (int d = 0; d < prog->devices; d++) {
        int64_t count = gx_prog_slots_within(prog, bytes[d]);
        if (count == 0 || count > INT32_MAX - slots->first[d]) {
            return false;
        }
        slots->first[d + 1] = slots->first[d] + (int32_t)count;
    }
    return true;
}

/* The readers of helpers that the reserve has no room for. */
static size_t readers_bytes(const gx_prog *prog)
{
    enum { IN_RESERVE = 4, THREAD_BYTES = 1 << 10 }; // beside its reader
    int64_t readers = prog->run->ctx->config.number[GX_SET_READERS];
    return (size_t)gx_max(readers - IN_RESERVE, 0) * (gx_reader_bytes() + THREAD_BYTES);
}

static int64_t slots_beside(const gx_prog *prog, size_t available, size_t reserve)
{
    size_t cache = available > reserve ? available - reserve : 0;
    return gx_min((int64_t)(cache / prog->slot_bytes), prog->blocks);
}

int64_t gx_prog_slots(gx_prog *prog)
{
    if (prog->slot_bytes == 0 || prog->step_count == 0) {
        return 1;
    }
    size_t available = gx_mem_available(prog->run->ctx->mem);
    size_t spare = gx_min(RESERVE_BYTES, available / 4);
    size_t reserve = spare + packing_bytes(prog) + prog->workspace_bytes;
    int64_t needed = widest_step(prog);
    int64_t slots = slots_beside(prog, available, reserve + readers_bytes(prog));
    if (slots < needed) { // blocks come before helpers
        slots = slots_beside(prog, available, reserve);
    }
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

// What the planner asks ---------------------------------------------------------------------------

gx_run *gx_prog_runner(const gx_prog *prog)
{
    return prog->run;
}

int64_t gx_prog_calls(const gx_prog *prog)
{
    return prog->step_count;
}

double gx_prog_flops(const gx_prog *prog)
{
    return prog->flops;
}

gx_number gx_prog_dtype(const gx_prog *prog)
{
    return prog->operand[0].dtype;
}

bool gx_prog_is_offered(const gx_prog *prog, const gx_accel *accel, const char **missing)
{
    for (int64_t t = 0; t < prog->step_count; t++) {
        const gx_step *st = &prog->steps[t];
        gx_kernel_id kernel = prog->kind[st->kind].kernel;
        if (!gx_accel_offers(accel, kernel, gx_step_dtype(prog, st))) {
            *missing = gx_kernel_name(kernel);
            return false;
        }
    }
    return true;
}

bool gx_prog_is_small(const gx_prog *prog)
{
    return prog->flops < GX_TEAM_FLOPS &&
           (double)prog->blocks * (double)prog->slot_bytes < GX_STREAM_LEAST_BYTES;
}
