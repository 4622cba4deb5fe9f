/*
** Programs: a driver's calls on blocks, written down before they run.
**
** A driver (alg_*.c) names operands, cut into a grid of blocks, and appends kernel calls on blocks
** in the order of the mathematics.  It knows no pointer, device, thread or byte.  Because the
** whole order is known before anything runs, the next use of every block is known too, and the
** program can be
**
**   costed     gx_prog_cost(): bytes, flops, cache slots, from a dry run of the very same schedule;
**   executed   gx_prog_run(): exec.c.
**
** Sticky: after a failure every function does nothing and the run holds the error.
*/
#ifndef GX_PROG_H
#define GX_PROG_H

#include "mat.h"

typedef struct gx_prog gx_prog;
typedef struct gx_opnd gx_opnd;

/* An operand: a matrix of the program, as a grid of blocks. */
struct gx_opnd {
    const gx_mat *source; /* what its blocks are loaded from; NULL: they start undefined */
    gx_sink *sink;        /* where finished blocks go; NULL: nowhere                     */
    gx_dtype dtype;       /* of its blocks in memory                                     */
    int64_t rows, cols;   /* elements                                                    */
    int64_t block_rows,
        block_cols;               /* elements of a full block                                    */
    int64_t grid_rows, grid_cols; /* blocks                                                      */
    int32_t first;                /* number of block (0, 0); column-major from there             */
};

/* Block (i, j) of an operand.  m == NULL: no operand. */
typedef struct gx_block {
    const gx_opnd *m;
    int64_t i, j;
} gx_block;

static inline gx_block gx_blk(const gx_opnd *m, int64_t i, int64_t j)
{
    return (gx_block){m, i, j};
}

/* One kernel call.  Sizes come from the blocks. */
typedef struct gx_call {
    gx_kernel_id kernel; /* GX_KERNEL_COUNT: no kernel, only bring block c in (a copy)         */
    gx_trans transa, transb;
    gx_uplo uplo;
    gx_scalar alpha, beta;
    gx_block a, b, c;
    bool keeps_c; /* the kernel reads what c holds (beta != 0, in place); else c is only written */
} gx_call;

/*
** calls: how many are expected; more are possible.  *prog is NULL on failure (the run has failed).
*/
gx_code gx_prog_create(gx_run *run, int64_t calls, gx_prog **prog);
void gx_prog_free(gx_prog *prog); /* NULL is a no-op */

/*
** Blocks of block_rows x block_cols.  With a sink they must be multiples of its tiles (or the
** whole).
*/
const gx_opnd *gx_prog_operand(gx_prog *prog, const gx_mat *source, gx_sink *sink, gx_dtype dtype,
                               int64_t rows, int64_t cols, int64_t block_rows, int64_t block_cols);

/*
** Append a call.  A block of a sink is finished, and will be written, after the last call that
** writes it.
*/
void gx_prog_call(gx_prog *prog, const gx_call *call);

/* How kernel calls are cut into pieces for the team (deterministic mode fixes it). */
void gx_prog_cut(gx_prog *prog, const gx_cut *cut);

/* How many calls ahead blocks are loaded; 0 = only when needed. */
void gx_prog_lookahead(gx_prog *prog, int64_t steps);

/*
** The most bytes the block cache may take; by default what the governor has left, less a reserve.
*/
void gx_prog_cache(gx_prog *prog, size_t bytes);

/* Bytes that a program of so many calls on so many blocks takes beside its cache, at its peak. */
size_t gx_prog_overhead(int64_t calls, int64_t blocks);

typedef struct gx_cost {
    double flops;
    double bytes_read;    /* loads from stored sources          */
    double bytes_written; /* stored results                     */
    int64_t loads, hits;  /* blocks loaded, uses found in cache */
    int64_t spills;       /* unfinished blocks written and read again */
    int64_t slots;        /* of the block cache                 */
    size_t slot_bytes;
    int64_t calls;
} gx_cost;

/* Dry run: the schedule's cost.  Nothing is read, allocated for blocks, or computed. */
gx_code gx_prog_cost(gx_prog *prog, gx_cost *cost);

/* Execute.  Returns the run's code. */
gx_code gx_prog_run(gx_prog *prog);

#endif
