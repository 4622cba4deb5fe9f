/*
** Products with few columns (or rows), and the triangle of a narrow matrix: the large operand is
** streamed, each tile read once.
*/
#ifndef GX_NARROW_H
#define GX_NARROW_H

#include "../exec/pass.h"
#include "../exec/predict.h"
#include "alg.h"
#include "alg_qr.h"

/*
** Y = op(S) X, S streamed.  Where A is the narrow operand S is B and Y is C^T.  A source times its
** own transpose (is_gram) has no X.
*/
typedef struct gx_narrow {
    const gx_matmul_args *args;
    const gx_mat *S;
    gx_mat x;      /* X as a source                                                 */
    bool is_trans; /* op(S) is S^T or S^H                                           */
    bool flips;    /* ... but the other of the two, or conj(S): X and Y conjugated  */
    bool conj_x;   /* X is the conjugate of x                                       */
    bool is_left;  /* Y = C^T                                                       */
    bool is_gram, is_hermitian;
    gx_number dtype;
    int64_t p, q, k;              /* op(S) is p x q, X q x k                           */
    int64_t tile_rows, tile_cols; /* of S                                           */
    int64_t strip, per_strip;     /* rows of Y that a tile gives; tiles that share them */
    int64_t chunk_rows, chunk_cols;
    bool is_fixed;         /* deterministic: kernels whose bits do not depend on k */
    bool holds_x, holds_y; /* in memory; else X by each unit, Y in a window     */
    bool is_direct;        /* Y is the result's own memory                      */
    int64_t window;        /* rows of Y, where it is not held; 0: parts are written as they are */
} gx_narrow;

/*
** Is this the way for the product on the host?  By shapes alone, but for memory that would not hold
** three tiles.  C: what the result goes to; need not be begun.
*/
bool gx_narrow_plan(gx_run *run, const gx_matmul_args *args, const gx_sink *C, gx_narrow *plan);

/* What it reads, writes and computes, and how long that takes. */
void gx_narrow_predict(gx_run *run, const gx_narrow *plan, const gx_sink *C, gx_cost *cost,
                       gx_terms *terms);

gx_code gx_narrow_run(gx_run *run, const gx_narrow *plan, gx_sink *C);

// The triangle of a tall, narrow matrix in one streamed pass (alg_stack.c) ------------------------

typedef struct gx_stack {
    const gx_mat *A, *B; /* B NULL: none                                            */
    gx_number dtype;     /* computed in                                             */
    int64_t cols;        /* of [A B]                                                */
    int64_t height;      /* rows of a unit                                          */
    int64_t panel;       /* rows that are factored together                         */
    bool is_piecewise;   /* a unit's rows are read as they are stored, and then cut */
    double flops;
    const gx_backend *backend;
    gx_dev *dev;
} gx_stack;

/* Is this the way for [A B] on the host?  Narrow, tall, and one thread's memory is free. */
bool gx_stack_plan(gx_run *run, const gx_mat *A, const gx_mat *B, gx_number dtype, gx_stack *plan);

void gx_stack_predict(gx_run *run, const gx_stack *plan, gx_cost *cost, gx_terms *terms);

/*
** What the triangle of [A B] takes on the host, B perhaps NULL, of which so many bytes are read: as
** a pass, or as the tree's program, which plan has; plan->height becomes the rows of a unit.
*/
void gx_tsqr_foresee(gx_run *run, const gx_mat *A, const gx_mat *B, gx_number dtype, double bytes,
                     gx_tsqr_plan *plan, gx_cost *cost, gx_terms *terms);

/* r: cols x cols elements (rounded up to 64 bytes), R in the upper triangle, zeros below. */
gx_code gx_stack_run(gx_run *run, const gx_stack *plan, void *r);

#endif
