/*
** Programs: a driver's calls on blocks, written down before they run.
**
** A driver (alg_*.c) names operands, cut into a grid of blocks, and appends kernel calls on blocks
** in the order of the mathematics.  It knows no pointer, device, thread or byte.  Because the
** whole order is known before anything runs, the next use of every block is known too, and the
** program can be
**
**   costed     gx_prog_cost(): bytes, flops, cache slots, from a dry run of the very same schedule;
**   executed   gx_prog_run(): place.c.
**
** Sticky: after a failure every function does nothing and the run holds the error.
*/
#ifndef GX_PROG_H
#define GX_PROG_H

#include "../mat/mat.h"

typedef struct gx_prog gx_prog;
typedef struct gx_opnd gx_opnd;
typedef struct gx_vector gx_vector;
struct gx_accel;

/* An operand: a matrix of the program, as a grid of blocks. */
struct gx_opnd {
    const gx_mat *source; /* what its blocks are loaded from, zeros where it is smaller than
                             the operand; NULL: they start undefined                        */
    gx_sink *sink;        /* where finished blocks go; NULL: nowhere                     */
    gx_number dtype;       /* of its blocks in memory                                     */
    int64_t rows, cols;   /* elements                                                    */
    int64_t block_rows,
        block_cols;               /* elements of a full block                                    */
    int64_t grid_rows, grid_cols; /* blocks                                                      */
    int32_t first;                /* number of block (0, 0); column-major from there             */
    bool is_below;                /* see gx_prog_again_below()                                   */
};

/* A rectangle within a block: rows x cols elements from (row, col). */
typedef struct gx_part {
    int64_t row, col, rows, cols; /* rows == 0: the whole block */
} gx_part;

/* Block (i, j) of an operand, or a part of it.  m == NULL: no operand. */
typedef struct gx_block {
    const gx_opnd *m;
    int64_t i, j;
    gx_part part;
} gx_block;

static inline gx_block gx_blk(const gx_opnd *m, int64_t i, int64_t j)
{
    return (gx_block){.m = m, .i = i, .j = j};
}

/* rows, cols > 0.  Residency, reading and writing are the whole block's all the same. */
static inline gx_block gx_blk_part(const gx_opnd *m, int64_t i, int64_t j, int64_t row, int64_t col,
                                   int64_t rows, int64_t cols)
{
    return (gx_block){.m = m, .i = i, .j = j, .part = {row, col, rows, cols}};
}

/*
** One kernel call.  Sizes come from the blocks (or parts): c's for m and n (those of c2 for TPQRT
** and TPMQRT, of a for LARFT), op(a)'s columns for k (reflectors: a's columns).
*/
typedef struct gx_call {
    gx_kernel_id kernel; /* GX_KERNEL_COUNT: no kernel, only bring block c in (a copy)         */
    gx_trans transa, transb;
    gx_side side;
    gx_uplo uplo;
    gx_diag diag;
    gx_dtype half;    /* GEMM: see gx_args                                                 */
    bool is_backward; /* LASWP                                                             */
    bool is_pentagon; /* LARFT                                                             */
    gx_scalar alpha, beta;
    gx_block a, b, c;
    gx_block c2;  /* TPQRT, TPMQRT, which have no b: read and written, as c is                 */
    bool keeps_c; /* the kernel reads what c holds (beta != 0, in place); else c is only written */

    /* What only some kernels look at.  Memory is the driver's, and outlives the program. */
    gx_vector *tau; /* elements tau_at .. of it: IN or OUT as the kernel says */
    int64_t tau_at;
    int64_t *pivots;                 /* GETRF, LASWP: host memory                              */
    int64_t pivot_first, pivot_last; /* LASWP, CIRCLE                                          */
    int64_t row_offset;              /* the same                                               */
    int64_t reflectors;              /* ORGQR: k; 0 = as said above                            */
    int64_t info_base;               /* POTRF, GETRF: added to a kernel's info                 */
    gx_map_kind map;                 /* MAP                                                    */
    const gx_constraints *constraints; /* COMBINE; the driver's, and outlives the program      */
    gx_reduce_kind reduce_kind;      /* REDUCE, whose c is its a                               */
    double *reduce;                  /* REDUCE: OUT, host memory; FUSED: the outputs' folds, one
                                        after the other                                       */
    const gx_block *more;            /* FUSED, whose a, b are its inputs 0, 1 and whose c is its
                                        first output that is no fold: inputs 2 ..., then outputs */
} gx_call;

/*
** calls: how many are expected; more are possible.  *prog is NULL on failure (the run has failed).
*/
gx_code gx_prog_create(gx_run *run, int64_t calls, gx_prog **prog);
void gx_prog_free(gx_prog *prog); /* NULL is a no-op */

/*
** How many of the calls have parts, pivots or the like: room for them is made at once, where a list
** that grows exists twice while it does.
*/
void gx_prog_expect_parts(gx_prog *prog, int64_t calls);

/*
** Blocks of block_rows x block_cols.  With a sink they must be multiples of its tiles (or the
** whole).
*/
const gx_opnd *gx_prog_operand(gx_prog *prog, const gx_mat *source, gx_sink *sink, gx_number dtype,
                               int64_t rows, int64_t cols, int64_t block_rows, int64_t block_cols);

/*
** Finished blocks of the operand that are read again, from their sink, are wanted from the diagonal
** down only: rows above that of the block's first column are not read and are undefined then.
*/
void gx_prog_again_below(gx_prog *prog, const gx_opnd *operand);

/*
** The FUSED calls are all of this program, which outlives it.  Its blocks are those of the same
** elements; an input's with a single row or column spreads, and one may be the output's (keeps_c
** then).  On the host without folds.  Before the first call.
*/
void gx_prog_fuse(gx_prog *prog, const gx_fused *fused);

/*
** Append a call.  A block of a sink is finished, and will be written, after the last call that
** writes it.
*/
void gx_prog_call(gx_prog *prog, const gx_call *call);

/*
** A vector that stays in memory while the program runs, as a device needs it: the scalars of
** reflectors.  data: count elements of dtype, the caller's; what the program computes is there when
** it has run.  At most GX_PROG_VECTORS.
*/
enum { GX_PROG_VECTORS = 4 };
gx_vector *gx_prog_vector(gx_prog *prog, gx_number dtype, void *data, int64_t count);

/*
** What to do when POTRF or GETRF report: info is the kernel's (> 0) plus the call's info_base.
** Called in the order of the steps, by the thread that computes.  A failure ends the program.
** Without one, info is passed over.
*/
typedef gx_code (*gx_info_fn)(void *arg, int64_t info, gx_err *err);
void gx_prog_on_info(gx_prog *prog, gx_info_fn fn, void *arg);

/* How kernel calls are cut into pieces for the team (deterministic mode fixes it). */
void gx_prog_cut(gx_prog *prog, const gx_cut *cut);

/* How many calls ahead blocks are loaded; 0 = only when needed. */
void gx_prog_lookahead(gx_prog *prog, int64_t steps);

/* Bytes that a program of so many calls on so many blocks takes beside its cache, at its peak. */
size_t gx_prog_overhead(int64_t calls, int64_t blocks);

/* What calls with parts take more, when they were expected. */
size_t gx_prog_parts_overhead(int64_t calls);

/* What so many FUSED calls take more. */
size_t gx_prog_fused_overhead(int64_t calls, const gx_fused *fused);

typedef struct gx_cost {
    double flops;
    double bytes_read;    /* loads from stored sources          */
    double bytes_written; /* stored results                     */
    double bytes_up;      /* all blocks loaded                  */
    double bytes_down;    /* all blocks flushed                 */
    double compute_s;     /* of kernels, where it is known otherwise than by flops; else 0  */
    int64_t loads, hits;  /* blocks loaded, uses found in cache */
    int64_t spills;       /* unfinished blocks written and read again */
    int64_t slots;        /* of the block cache                 */
    size_t slot_bytes;
    int64_t calls;
} gx_cost;

/*
** Dry run where the run is planning for: the schedule's cost.  Nothing is read, allocated for
** blocks, or computed.  slots is 0 where a device's memory is too little.
*/
gx_code gx_prog_cost(gx_prog *prog, gx_cost *cost);

/*
** Whether the run's device (accel.h) offers every kernel of the program; else *missing is the name
** of one it does not.
*/
bool gx_prog_is_offered(const gx_prog *prog, const struct gx_accel *accel, const char **missing);

/* What it was created with; calls appended and their flops so far. */
gx_run *gx_prog_runner(const gx_prog *prog);
int64_t gx_prog_calls(const gx_prog *prog);
double gx_prog_flops(const gx_prog *prog);

/* The first operand's dtype. */
gx_number gx_prog_dtype(const gx_prog *prog);

#endif
