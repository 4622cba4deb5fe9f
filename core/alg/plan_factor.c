/*
** The planner of factorisations and triangular solves: see plan.h.
**
** Cholesky is left-looking over square blocks of one edge.  A rectangle of super_m x super_n blocks
** of the factor stays in memory while the finished columns to its left pass by,
**
**     F[i,j] = A[i,j] - sum F[i,k] F[j,k]^H over k < j0,      then the rectangle itself,
**
** and three shapes of it are worth anything:
**
**   all fits      one block after the other, column by column: each is read and written while
**                 others compute; nothing is read twice
**   panel-left    one block column, from the diagonal to the bottom: n^4/(6 S) words are read
**                 again, fewer by what the cache keeps (all but a few at S = n^2/4)
**   block-left    the rectangle that reads least by count, about a square of S words:
**                 n^3/(3 sqrt(S)) words (Beaumont, Eyraud-Dubois, Verite & Langou 2022 give the
**                 bound n^3/(3 sqrt(2 S)))
**
** Where the triangle is not much larger than the cache, what the cache keeps decides: panel-left
** and block-left are both scheduled (unless there are too many calls), and the one that reads less
** is taken.
**
** Triangular solves and products: X stays in memory, as many strips of right-hand sides as fit; A
** passes by, once for all of them.  Where not one strip fits, a rectangle of X does, as in a
** product.
**
** Deterministic mode: a block is one tile (of a triangle, what divides the result's tile), pieces
** have a fixed size, and the order in which a block is changed does not depend on the rectangle.
*/
#include "plan.h"

#include <math.h>
#include <string.h>

/* Blocks along a side up to which shapes are tried by scheduling them: 45 000 calls, some 20 ms. */
static const int64_t DRY_RUN_GRID = 64;

/* Slots of so many elements beside a program; at least the three that a call needs. */
static int64_t count_slots(gx_run *run, int64_t elements, gx_number dtype, int64_t calls,
                           int64_t blocks)
{
    size_t overhead = gx_plan_reserve(run, gx_prog_overhead(calls, blocks));
    size_t slot_bytes = (size_t)gx_max(1, elements) * gx_number_bytes(dtype);
    return gx_max(3, gx_plan_slots(run, slot_bytes, overhead));
}

// Cholesky ----------------------------------------------------------------------------------------

/* Blocks of the factor that are read again, if nothing survived from rectangle to rectangle. */
static double blocks_again(int64_t grid, int64_t super_m, int64_t super_n)
{
    double blocks = 0;
    for (int64_t j0 = 0; j0 < grid; j0 += super_n) {
        int64_t wide = gx_min(super_n, grid - j0), high = grid - j0;
        int64_t others = gx_ceil_div(high, super_m) - 1;
        blocks += (double)high * (double)j0 +
                  (double)others * ((double)wide * (double)j0 + (double)(wide * (wide + 1)) / 2);
    }
    return blocks;
}

/* The rectangle that reads least by count. */
static void choose_rectangle(gx_cholesky_plan *plan, int64_t grid, int64_t slots)
{
    double best = -1;
    for (int64_t q = 1; q <= grid && q < slots; q++) {
        int64_t p = gx_min(grid, (slots - 1) / q);
        while (p > 0 && p * q + gx_min(p, q) + 1 > slots) {
            p--;
        }
        if (p == 0) {
            break;
        }
        double blocks = blocks_again(grid, p, q);
        if (best < 0 || blocks < best) {
            best = blocks;
            plan->super_m = p;
            plan->super_n = q;
        }
    }
}

/* Loads of the program with this plan; 0 when the run has failed. */
static double dry_run(gx_run *run, const gx_mat *A, gx_cholesky_plan *plan)
{
    gx_sink F = {.run = run,
                 .rows = plan->n,
                 .cols = plan->n,
                 .number = plan->dtype,
                 .tile_rows = plan->block,
                 .tile_cols = plan->block,
                 .is_stored = true};
    gx_cost cost = {0};
    gx_prog *prog = gx_cholesky_program(run, A, plan, &F);
    if (prog != NULL) {
        gx_prog_cost(prog, &cost);
    }
    gx_prog_free(prog);
    const double SPILL = 100; // a tile that is written twice
    return (double)cost.loads + SPILL * (double)cost.spills;
}

void gx_plan_cholesky(gx_run *run, const gx_mat *A, gx_uplo uplo, int64_t tile,
                      gx_cholesky_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->n = A->rows;
    plan->dtype = A->number;
    plan->uplo = uplo;
    bool is_fixed = gx_plan_is_fixed(run);
    int64_t wanted = is_fixed ? 1 : gx_plan_edge(run, gx_number_bytes(A->number), A->rows, NULL);
    plan->block = gx_plan_whole_tiles(wanted, tile, A->rows);
    plan->cut = gx_plan_cut(run);
    plan->is_snake = !is_fixed;
    int64_t grid = gx_ceil_div(plan->n, plan->block), edge = gx_min(plan->block, plan->n);
    double calls =
        (double)grid * (double)(grid + 1) * (double)(grid + 2) / 6 + (double)(grid * grid);
    int64_t slots = count_slots(run, edge * edge, plan->dtype,
                                (int64_t)fmin(calls, (double)INT32_MAX), grid * grid);
    // Beside the triangle, the zeros of one block column.
    plan->is_in_memory = (double)slots >= (double)grid * (double)(grid + 3) / 2;
    plan->super_m = plan->super_n = 1;
    if (plan->is_in_memory) {
        plan->lookahead = INT32_MAX / 2;
        return;
    }
    plan->lookahead = gx_plan_lookahead(run);
    choose_rectangle(plan, grid, slots);
    plan->is_panel = plan->super_m >= grid;
    if (grid <= DRY_RUN_GRID && grid * (grid + 1) / 2 <= 4 * slots) {
        gx_cholesky_plan panel = *plan;
        panel.super_m = grid;
        panel.super_n = 1;
        panel.is_panel = true;
        if (dry_run(run, A, &panel) < dry_run(run, A, plan)) {
            *plan = panel;
        }
    }
}

// Triangles ---------------------------------------------------------------------------------------

/* The largest divisor of length that is at most `most`. */
static int64_t divisor(int64_t length, int64_t most)
{
    int64_t best = 1;
    for (int64_t d = 1; d <= length / d; d++) {
        if (length % d == 0) {
            best = d <= most ? gx_max(best, d) : best;
            best = length / d <= most ? gx_max(best, length / d) : best;
        }
    }
    return best;
}

/* Blocks read with super x strip of X in memory, if nothing else survived. */
static double tri_blocks(const gx_tri_plan *plan, int64_t super, int64_t strip)
{
    double grid = (double)gx_ceil_div(plan->n, plan->block_n);
    double lines = (double)gx_ceil_div(plan->lines, plan->block_line);
    double passes = ceil(lines / (double)strip), groups = ceil(grid / (double)super);
    double per_block = (double)plan->block_n / (double)plan->edge; // A's blocks in one of X's
    double triangle = grid * per_block * (grid * per_block + 1) / 2;
    double sides = (double)(plan->edge * plan->edge) / (double)(plan->block_n * plan->block_line);
    double again = lines * (double)super * groups * (groups - 1) / 2;
    // With two sweeps what does not stay is also written and read in between.
    double between = groups > 1 && plan->sweeps > 1 ? 2 * lines * grid : 0;
    return (double)plan->sweeps * (triangle * passes * sides + again) + between;
}

static void choose_strips(gx_tri_plan *plan, int64_t slots)
{
    int64_t grid = gx_max(1, gx_ceil_div(plan->n, plan->block_n));
    int64_t lines = gx_max(1, gx_ceil_div(plan->lines, plan->block_line));
    double best = -1;
    for (int64_t p = grid; p > 0; p--) {
        int64_t q = p == grid ? (slots - 2) / p : (slots - 1) / (p + 1);
        if (q < 1) {
            continue;
        }
        q = gx_min(q, lines);
        q = gx_ceil_div(lines, gx_ceil_div(lines, q));
        double blocks = tri_blocks(plan, p, q);
        if (best < 0 || blocks < best) {
            best = blocks;
            plan->super = p;
            plan->strip = q;
        }
    }
    // A whole strip in memory: one block row after the other, each finished for good.
    plan->super = plan->super == grid ? 1 : plan->super;
}

/*
** A's blocks are whole tiles of A (or parts of one that is large), so that each is read without
** its neighbours; X's are whole tiles of X.
*/
static void choose_tri_blocks(gx_run *run, const gx_mat *A, int64_t tile_n, int64_t tile_line,
                              gx_tri_plan *plan)
{
    int64_t tile = gx_max(1, A->tile_rows), n = gx_max(1, plan->n);
    bool is_fixed = gx_plan_is_fixed(run);
    int64_t edge = is_fixed ? tile : gx_plan_edge(run, gx_number_bytes(plan->dtype), n, NULL);
    plan->block_n = gx_plan_whole_tiles(is_fixed ? 1 : edge, tile_n, n);
    plan->block_line = gx_plan_whole_tiles(is_fixed ? 1 : edge, tile_line, plan->lines);
    plan->edge =
        gx_min(n, tile > 2 * edge ? divisor(tile, edge) : gx_plan_whole_tiles(edge, tile, n));
    if (plan->edge < gx_min(n, edge) / 4) {
        plan->edge = gx_min(n, edge);
    }
}

int64_t gx_plan_tri_calls(const gx_tri_plan *plan)
{
    // The side is cut where a block of A or of X ends.
    double spans = (double)(gx_ceil_div(plan->n, plan->edge) + gx_ceil_div(plan->n, plan->block_n));
    spans -= plan->block_n % plan->edge == 0 ? (double)gx_ceil_div(plan->n, plan->block_n) : 1;
    double calls = (double)plan->sweeps * spans * (spans + 1) / 2 *
                   (double)gx_ceil_div(plan->lines, plan->block_line);
    return (int64_t)fmin(calls, (double)INT32_MAX);
}

void gx_plan_tri(gx_run *run, const gx_mat *A, int64_t lines, gx_number dtype, int64_t tile_n,
                 int64_t tile_line, int64_t sweeps, gx_tri_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->n = A->rows;
    plan->lines = lines;
    plan->dtype = dtype;
    plan->sweeps = sweeps;
    plan->cut = gx_plan_cut(run);
    choose_tri_blocks(run, A, tile_n, tile_line, plan);
    int64_t grid_a = gx_ceil_div(plan->n, plan->edge);
    int64_t grid = gx_ceil_div(plan->n, plan->block_n);
    int64_t grid_line = gx_ceil_div(lines, plan->block_line);
    double triangle = (double)grid_a * (double)(grid_a + 1) / 2;
    int64_t largest = gx_max(plan->edge * plan->edge,
                             gx_min(plan->block_n, plan->n) * gx_min(plan->block_line, lines));
    int64_t slots = count_slots(run, largest, dtype, gx_plan_tri_calls(plan),
                                grid_a * grid_a + grid * grid_line);
    if (triangle + (double)grid * (double)grid_line <= (double)slots) {
        plan->super = plan->strip = 1;
        plan->lookahead = INT32_MAX / 2;
    } else {
        choose_strips(plan, slots);
        plan->lookahead = gx_plan_lookahead(run);
    }
}
