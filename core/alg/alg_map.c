/*
** Elementwise operations, copies and transposes: each block of the result comes from the same
** block of the operands (for a transpose, the mirrored one).
**
** One pass: every operand tile is read once, every result tile written once.  Minimum memory: two
** blocks (three with two operands).  The work is bound by the database; the kernels only keep up.
*/
#include "../exec/place.h"
#include "alg.h"

static int64_t lookahead(const gx_run *run)
{
    return gx_max(4, 2 * run->ctx->config.number[GX_SET_READERS]);
}

/* Results without a tile (0 x n) still need a block size. */
static int64_t block_rows(const gx_sink *C)
{
    return gx_max(1, C->tile_rows);
}

static int64_t block_cols(const gx_sink *C)
{
    return gx_max(1, C->tile_cols);
}

static int64_t blocks_of(const gx_sink *C)
{
    return gx_ceil_div(C->rows, block_rows(C)) * gx_ceil_div(C->cols, block_cols(C));
}

static const gx_opnd *operand_like(gx_prog *prog, const gx_mat *source, gx_sink *sink,
                                   const gx_sink *C)
{
    return gx_prog_operand(prog, source, sink, C->dtype, C->rows, C->cols, block_rows(C),
                           block_cols(C));
}

static gx_code finish(gx_run *run, gx_prog *prog)
{
    gx_prog_run(prog);
    gx_prog_free(prog);
    return gx_ok(run) ? GX_OK : run->err.code;
}

/* C starts as A, then one kernel in place on each block; GX_KERNEL_COUNT: a copy. */
static gx_code map_in_place(gx_run *run, const gx_call *kernel, const gx_mat *A, const gx_mat *B,
                            gx_sink *C)
{
    gx_prog *prog;
    if (!gx_ok(run) || gx_prog_create(run, blocks_of(C), &prog) != GX_OK) {
        return run->err.code; // C is not begun in a run that has failed
    }
    gx_prog_lookahead(prog, lookahead(run));
    const gx_opnd *c = operand_like(prog, A, C, C);
    const gx_opnd *b = B == NULL ? NULL : operand_like(prog, B, NULL, C);
    for (int64_t j = 0; j < c->grid_cols && gx_ok(run); j++) {
        for (int64_t i = 0; i < c->grid_rows; i++) {
            gx_call call = *kernel;
            call.c = gx_blk(c, i, j);
            call.keeps_c = true;
            if (kernel->kernel != GX_KERNEL_COUNT) {
                call.a = call.c;
            }
            if (b != NULL) {
                call.b = gx_blk(b, i, j);
            }
            gx_prog_call(prog, &call);
        }
    }
    return finish(run, prog);
}

gx_code gx_alg_map1(gx_run *run, gx_map_kind kind, gx_scalar alpha, const gx_mat *A, gx_sink *C)
{
    gx_call call = {.kernel = GX_MAP, .map = kind, .alpha = alpha};
    return map_in_place(run, &call, A, NULL, C);
}

gx_code gx_alg_map2(gx_run *run, gx_map_kind kind, gx_scalar alpha, const gx_mat *A, gx_scalar beta,
                    const gx_mat *B, gx_sink *C)
{
    gx_mat wide_a, wide_b;
    if (A->rows != C->rows || A->cols != C->cols) {
        gx_mat_broadcast(&wide_a, A, C->rows, C->cols);
        A = &wide_a;
    }
    if (B->rows != C->rows || B->cols != C->cols) {
        gx_mat_broadcast(&wide_b, B, C->rows, C->cols);
        B = &wide_b;
    }
    gx_call call = {.kernel = GX_MAP, .map = kind, .alpha = alpha, .beta = beta};
    return map_in_place(run, &call, A, B, C);
}

gx_code gx_copy_to_sink(gx_run *run, const gx_mat *src, gx_sink *sink)
{
    return map_in_place(run, &(gx_call){.kernel = GX_KERNEL_COUNT}, src, NULL, sink);
}

gx_code gx_alg_transpose(gx_run *run, const gx_mat *A, gx_trans trans, gx_sink *C)
{
    gx_prog *prog;
    if (!gx_ok(run) || gx_prog_create(run, blocks_of(C), &prog) != GX_OK) {
        return run->err.code; // C is not begun in a run that has failed
    }
    gx_prog_lookahead(prog, lookahead(run));
    const gx_opnd *c = operand_like(prog, NULL, C, C);
    const gx_opnd *a =
        gx_prog_operand(prog, A, NULL, C->dtype, A->rows, A->cols, block_cols(C), block_rows(C));
    for (int64_t j = 0; j < c->grid_cols && gx_ok(run); j++) {
        for (int64_t i = 0; i < c->grid_rows; i++) {
            gx_prog_call(prog, &(gx_call){.kernel = GX_TRANSPOSE,
                                          .transa = trans,
                                          .a = gx_blk(a, j, i),
                                          .c = gx_blk(c, i, j)});
        }
    }
    return finish(run, prog);
}
