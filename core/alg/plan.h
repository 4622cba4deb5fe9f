/*
** The planner: how an operation is cut.  Pure functions of shapes, budgets and the machine's facts.
**
** Everything that is a choice is made here and nowhere else: block sizes, the part of the result
** that stays in memory, lookahead, pieces.  Drivers execute plans; backends decide nothing.
*/
#ifndef GX_PLAN_H
#define GX_PLAN_H

#include "../exec/place.h"
#include "alg.h"

/* How a product is cut.  All in elements unless said otherwise. */
typedef struct gx_matmul_plan {
    int64_t m, n, k;
    gx_number dtype;
    bool is_syrk;                      /* op(B) is op(A)^T or ^H of the same source          */
    bool is_hermitian;                 /* ... conjugated: herk                               */
    int64_t block_m, block_n, block_k; /* a block of C, A, B                         */
    int64_t super_m, super_n;          /* blocks of C resident at a time, as a rectangle     */
    bool is_snake;                     /* k runs back and forth, so that panels survive      */
    bool is_gathered;                  /* C is one block, copied together from such blocks   */
    bool is_held;                      /* on a device that has all blocks at once             */
    int64_t joined; /* blocks that a step after the product takes; 0: there is none          */
    gx_cut cut;
    int64_t lookahead; /* calls                                              */
} gx_matmul_plan;

/* alpha op(A) op(A)^T, or ^H (is_hermitian), without a C0: half the flops. */
bool gx_plan_is_gram(const gx_matmul_args *args, gx_number dtype, bool *is_hermitian);

/* C's tile shape is that of the sink, or of one it would have. */
void gx_plan_matmul(gx_run *run, const gx_matmul_args *args, int64_t tile_m, int64_t tile_n,
                    gx_matmul_plan *plan);

/*
** The same where C's blocks need not be whole tiles: each goes to its place in memory when it is
** finished, while others are multiplied, unless all of C is so small that it had better be one.
*/
void gx_plan_matmul_result(const gx_sink *C, gx_matmul_plan *plan);

/* Calls of its program, at most. */
int64_t gx_plan_matmul_calls(const gx_matmul_plan *plan);

/* The memory that blocks may take where the program is to run: the device's, or the host's. */
size_t gx_plan_memory(const gx_run *run);

/*
** What a program keeps free of that beside its blocks: on the host so many bytes, on a device what
** its kernels want there and its buffers' sizes waste.
*/
size_t gx_plan_reserve(const gx_run *run, size_t host_bytes);

// What the planners share -------------------------------------------------------------------------

/* Deterministic mode: nothing may depend on memory or on threads. */
bool gx_plan_is_fixed(const gx_run *run);

/* Pieces of a kernel call; of a fixed size in deterministic mode. */
gx_cut gx_plan_cut(const gx_run *run);

/* Calls that are read ahead where not everything is in memory. */
int64_t gx_plan_lookahead(const gx_run *run);

/* Blocks of so many bytes that fit beside what the program keeps free. */
int64_t gx_plan_slots(const gx_run *run, size_t block_bytes, size_t kept);

/*
** The target edge of blocks where the run is planning for.  On the host for its threads within its
** memory, and `wide`, where that is not NULL, for blocks that grow to the right first: a block one
** tile high is contiguous in its tiles, so it is read and written without being copied.  On a
** device: large enough for its full rate, several along a side of `most` elements, so that copies
** and kernels overlap, and enough of them in its memory.
*/
int64_t gx_plan_edge(const gx_run *run, size_t element, int64_t most, int64_t *wide);

/* The multiple of the tile nearest below the edge, at least one tile, not past the side. */
int64_t gx_plan_whole_tiles(int64_t edge, int64_t tile, int64_t side);

/* The program of a product (alg_matmul.c); NULL when the run has failed.  Freed by the caller. */
gx_prog *gx_matmul_program(gx_run *run, const gx_matmul_args *args, const gx_matmul_plan *plan,
                           gx_sink *C);

/* How a Cholesky factorisation is cut (plan_factor.c).  In blocks unless said otherwise. */
typedef struct gx_cholesky_plan {
    int64_t n; /* elements */
    gx_number dtype;
    gx_uplo uplo;
    int64_t block;            /* edge of a block, elements                                      */
    int64_t super_m, super_n; /* the rectangle of the factor that stays in memory               */
    bool is_panel;            /* super_m reaches the bottom: panel-left, else block-left        */
    bool is_in_memory;        /* everything fits                                                */
    bool is_snake;            /* what is subtracted runs back and forth, so that blocks survive */
    gx_cut cut;
    int64_t lookahead; /* calls */
    gx_mat mirror;     /* UPPER: A^H, a view of A; so the plan outlives its program */
} gx_cholesky_plan;

/* tile: edge of the sink's tiles, which are square. */
void gx_plan_cholesky(gx_run *run, const gx_mat *A, gx_uplo uplo, int64_t tile,
                      gx_cholesky_plan *plan);

/* Its program (chol_program.c); NULL when the run has failed.  Freed by the caller. */
gx_prog *gx_cholesky_program(gx_run *run, const gx_mat *A, gx_cholesky_plan *plan, gx_sink *F);

/* How a triangular solve or product is cut: A n x n, X with `lines` right-hand sides. */
typedef struct gx_tri_plan {
    int64_t n, lines; /* elements */
    gx_number dtype;
    int64_t edge;                /* of A's blocks, elements                                    */
    int64_t block_n, block_line; /* of X's blocks, along the triangle and across, elements     */
    int64_t super;               /* X's blocks along the triangle that stay in memory ...      */
    int64_t strip;               /* ... and across                                             */
    int64_t sweeps;              /* over A: 2 for a Cholesky factor                            */
    gx_cut cut;
    int64_t lookahead; /* calls */
} gx_tri_plan;

/* tile_n, tile_line: the sink's tile, along A's side and across. */
void gx_plan_tri(gx_run *run, const gx_mat *A, int64_t lines, gx_number dtype, int64_t tile_n,
                 int64_t tile_line, int64_t sweeps, gx_tri_plan *plan);

/* Calls of its program, at most. */
int64_t gx_plan_tri_calls(const gx_tri_plan *plan);

#endif
