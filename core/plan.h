/*
** The planner: how an operation is cut.  Pure functions of shapes, budgets and the machine's facts.
**
** Everything that is a choice is made here and nowhere else: block sizes, the part of the result
** that stays in memory, lookahead, pieces.  Drivers execute plans; backends decide nothing.
*/
#ifndef GX_PLAN_H
#define GX_PLAN_H

#include "alg.h"
#include "prog.h"

/* How a product is cut.  All in elements unless said otherwise. */
typedef struct gx_matmul_plan {
    int64_t m, n, k;
    gx_dtype dtype;
    bool is_syrk;                      /* op(B) is op(A)^T or ^H of the same source          */
    bool is_hermitian;                 /* ... conjugated: herk                               */
    int64_t block_m, block_n, block_k; /* a block of C, A, B                         */
    int64_t super_m, super_n;          /* blocks of C resident at a time, as a rectangle     */
    bool is_snake;                     /* k runs back and forth, so that panels survive      */
    gx_cut cut;
    int64_t lookahead; /* calls                                              */
} gx_matmul_plan;

/* C's tile shape is that of the sink, or of one it would have. */
void gx_plan_matmul(gx_run *run, const gx_matmul_args *args, int64_t tile_m, int64_t tile_n,
                    gx_matmul_plan *plan);

/*
** Reads of a product with this plan's rectangle, in bytes, if nothing survived from one rectangle
** to the next; the dry run of the program (gx_prog_cost) is exact.
*/
double gx_plan_matmul_reads(const gx_matmul_plan *plan, int64_t super_m, int64_t super_n);

/* Calls of its program, at most. */
int64_t gx_plan_matmul_calls(const gx_matmul_plan *plan);

/* The program of a product (alg_matmul.c); NULL when the run has failed.  Freed by the caller. */
gx_prog *gx_matmul_program(gx_run *run, const gx_matmul_args *args, const gx_matmul_plan *plan,
                           gx_sink *C);

/* Seconds a program takes on the host.  edge: smallest side of its blocks, in elements. */
double gx_plan_seconds(gx_run *run, const gx_cost *cost, gx_dtype dtype, int64_t edge);

#endif
