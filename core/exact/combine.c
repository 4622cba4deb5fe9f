/*
** Constraints: see combine.h.
**
** A program of one call a block of rows, which also has the next block, for rows whose next one is
** there.  A block is thus used by two calls in a row, and read once.
*/
#include "combine.h"

#include "../alg/plan.h"

/* Bytes of a block on the host, on a device. */
static const int64_t HOST_BYTES = 4 << 20, DEVICE_BYTES = 64 << 20;

/* Blocks in memory at the same time: two of a call, its result, one on its way, one to spare. */
enum { BLOCKS = 5 };

/* What a row takes in a block. */
static int64_t row_bytes(const gx_mat *A, int width)
{
    return gx_max(gx_max(A->cols, width), 1) * (int64_t)sizeof(uint32_t);
}

int64_t gx_combine_tile_rows(const gx_run *run, const gx_mat *A, int width)
{
    int64_t tile = gx_max(1, gx_min(A->tile_rows, A->rows));
    int64_t most = run->ctx->config.number[GX_SET_TILE_BYTES] / row_bytes(A, width);
    return gx_max(1, gx_min(A->rows, gx_max(1, most / tile) * tile));
}

typedef struct combining {
    const gx_mat *A;
    const gx_constraints *p;
    gx_sink *C;
} combining;

/*
** Whole tiles of the result; the last block has all rows that are the next ones of the one before
** it.
*/
static int64_t choose_rows(const gx_run *run, const combining *x)
{
    int64_t rows = x->A->rows, tile = x->C->tile_rows;
    int64_t row = row_bytes(x->A, x->p->width);
    int64_t bytes = run->target != NULL ? DEVICE_BYTES : HOST_BYTES;
    int64_t most = (int64_t)(gx_plan_memory(run) / BLOCKS);
    int64_t chosen = gx_plan_whole_tiles(gx_max(1, gx_min(bytes, most) / row), tile, rows);
    while (chosen < rows && rows % chosen != 0 && rows % chosen < x->p->next) {
        chosen += tile;
    }
    return gx_min(chosen, rows);
}

static gx_prog *write_down(gx_run *run, void *arg)
{
    const combining *x = arg;
    gx_prog *prog;
    int64_t rows = choose_rows(run, x), blocks = gx_ceil_div(x->A->rows, rows);
    if (gx_prog_create(run, blocks, &prog) != GX_OK) {
        return NULL;
    }
    const gx_opnd *A = gx_prog_operand(prog, x->A, NULL, GX_M31, x->A->rows, x->A->cols, rows,
                                       gx_max(1, x->A->cols));
    const gx_opnd *C =
        gx_prog_operand(prog, NULL, x->C, GX_M31, x->A->rows, x->p->width, rows, x->p->width);
    for (int64_t i = 0; i < blocks && gx_ok(run); i++) {
        gx_call call = {.kernel = GX_COMBINE,
                        .constraints = x->p,
                        .a = gx_blk(A, i, 0),
                        .b = gx_blk(A, (i + 1) % blocks, 0),
                        .c = gx_blk(C, i, 0)};
        gx_prog_call(prog, &call);
    }
    if (!gx_ok(run)) {
        gx_prog_free(prog);
        return NULL;
    }
    return prog;
}

gx_code gx_alg_combine(gx_run *run, const gx_mat *A, const gx_constraints *p, gx_sink *C)
{
    combining x = {.A = A, .p = p, .C = C};
    if (!gx_ok(run) || A->rows == 0) {
        return run->err.code;
    }
    return gx_place_run(run, gx_constraints_flops(p) * (double)A->rows, GX_M31, write_down, &x);
}
