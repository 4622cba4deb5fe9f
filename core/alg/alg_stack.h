/*
** The triangle of a tall, narrow matrix in one streamed pass.
*/
#ifndef GX_ALG_STACK_H
#define GX_ALG_STACK_H

#include "../exec/pass.h"
#include "../exec/predict.h"
#include "alg_qr.h"

typedef struct gx_stack {
    const gx_mat *A, *B; /* B NULL: none                                            */
    gx_number dtype;      /* computed in                                             */
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
