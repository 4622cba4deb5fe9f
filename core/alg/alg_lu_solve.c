/*
** Solving with an LU factorisation, op(A) X = B, P A = L U.
**
** Forward and backward substitution, panel by panel, with the exchanges of each panel made where
** its turn is, because L is stored so (docs/format.md).  Panel k begins at row r, x[k] is its rows
** of X, and F[i,k] are blocks of rows:
**
**   A X = B                                     A^T X = B (A^H: conjugated)
**   for k up:    exchange rows of X by panel k   for k up:    x[k] -= sum F[i,k]^T x[i], i above
**                x[k] = L[k,k]^-1 x[k]                        x[k] = U[k,k]^-T x[k]
**                x[i] -= F[i,k] x[k], i below    for k down:  x[k] -= sum F[i,k]^T x[i], i below
**   for k down:  x[k] = U[k,k]^-1 x[k]                        x[k] = L[k,k]^-T x[k]
**                x[i] -= F[i,k] x[k], i above                 exchange back by panel k
**
** What is below the diagonal is read in one sweep and what is above in the other, so a tile is read
** once, one on the diagonal twice.  X stays in memory, in strips of columns that are as high as it
** is (exchanges reach from end to end), and all strips that are there use a block of F before the
** next comes by.  Where not all strips fit, F passes by again for the rest.
**
** The result's tiles are written once, whole strips of them.  Where memory does not hold a strip of
** a tile's width, narrower strips go through an intermediate.
**
** Work 2 n^2 flops a right-hand side.  Minimum memory: one column of X and one block of F, which is
** divided until it fits.
*/
#include "alg_lu.h"

#include "dense.h"

/* How a solve is cut. */
typedef struct solve_plan {
    int64_t n, lines; /* of X */
    int64_t width;    /* columns of a block of F: a panel, or a whole part of one          */
    int64_t height;   /* rows of a block of F, a multiple of width                         */
    int64_t strip;    /* columns of a block of X                                           */
    int64_t together; /* strips that stay in memory                                        */
    bool is_narrow;   /* a strip is narrower than the result's tiles: by an intermediate   */
} solve_plan;

typedef struct solve {
    gx_prog *prog;
    const solve_plan *plan;
    const gx_aux *aux;
    gx_trans trans;
    const gx_opnd *F, *X;
    int64_t first, last; /* strips that are being solved */
} solve;

// The program -------------------------------------------------------------------------------------

static int64_t width_of(const solve *s, int64_t k)
{
    return gx_min(s->plan->width, s->plan->n - k * s->plan->width);
}

/* Rows [row, row + rows) of a strip. */
static gx_block unknown(const solve *s, int64_t strip, int64_t row, int64_t rows)
{
    int64_t c = s->plan->strip;
    return gx_blk_part(s->X, 0, strip, row, 0, rows, gx_min(c, s->plan->lines - strip * c));
}

/* Rows [row, row + rows) of block column k of F, which are in one block. */
static gx_block piece(const solve *s, int64_t k, int64_t row, int64_t rows)
{
    int64_t i = row / s->plan->height;
    return gx_blk_part(s->F, i, k, row - i * s->plan->height, 0, rows, width_of(s, k));
}

static void substitute(const solve *s, int64_t k, gx_uplo uplo)
{
    int64_t row = k * s->plan->width, rows = width_of(s, k);
    for (int64_t strip = s->first; strip < s->last; strip++) {
        gx_prog_call(s->prog, &(gx_call){.kernel = GX_TRSM,
                                         .side = GX_LEFT,
                                         .uplo = uplo,
                                         .transa = s->trans,
                                         .diag = uplo == GX_LOWER ? GX_UNIT : GX_NON_UNIT,
                                         .alpha = GX_ONE,
                                         .a = piece(s, k, row, rows),
                                         .c = unknown(s, strip, row, rows),
                                         .keeps_c = true});
    }
}

/* x[i] -= F[i,k] x[k], or x[k] -= F[i,k]^T x[i], for the rows of one block. */
static void update(const solve *s, int64_t k, int64_t row, int64_t rows)
{
    int64_t own = k * s->plan->width, wide = width_of(s, k);
    bool is_plain = s->trans == GX_NO_TRANS;
    for (int64_t strip = s->first; strip < s->last; strip++) {
        gx_block here = unknown(s, strip, own, wide), there = unknown(s, strip, row, rows);
        gx_prog_call(s->prog, &(gx_call){.kernel = GX_GEMM,
                                         .transa = s->trans,
                                         .alpha = GX_MINUS_ONE,
                                         .beta = GX_ONE,
                                         .a = piece(s, k, row, rows),
                                         .b = is_plain ? here : there,
                                         .c = is_plain ? there : here,
                                         .keeps_c = true});
    }
}

/* The rows below block (k, k), block after block: down, or up to it. */
static void update_below(const solve *s, int64_t k, bool is_down)
{
    int64_t h = s->plan->height, first = k * s->plan->width + width_of(s, k);
    int64_t i0 = first / h, count = gx_ceil_div(s->plan->n, h) - i0;
    for (int64_t q = 0; q < count; q++) {
        int64_t i = is_down ? i0 + q : i0 + count - 1 - q;
        int64_t row = gx_max(first, i * h), end = gx_min(s->plan->n, (i + 1) * h);
        if (end > row) {
            update(s, k, row, end - row);
        }
    }
}

/* The rows above, likewise. */
static void update_above(const solve *s, int64_t k, bool is_down)
{
    int64_t h = s->plan->height, last = k * s->plan->width, count = gx_ceil_div(last, h);
    for (int64_t q = 0; q < count; q++) {
        int64_t i = is_down ? q : count - 1 - q;
        update(s, k, i * h, gx_min(last, (i + 1) * h) - i * h);
    }
}

/* By the pivots of the panel that block column k begins; nothing where it is within one. */
static void exchange(const solve *s, int64_t k, bool is_backward)
{
    int64_t row = k * s->plan->width;
    if (row % s->aux->panel != 0) {
        return;
    }
    for (int64_t strip = s->first; strip < s->last; strip++) {
        gx_prog_call(s->prog, &(gx_call){.kernel = GX_LASWP,
                                         .c = gx_blk(s->X, 0, strip),
                                         .keeps_c = true,
                                         .pivots = s->aux->pivots,
                                         .pivot_first = row,
                                         .pivot_last = gx_min(s->plan->n, row + s->aux->panel),
                                         .is_backward = is_backward});
    }
}

static void solve_strips(const solve *s)
{
    int64_t count = gx_ceil_div(s->plan->n, s->plan->width);
    bool is_plain = s->trans == GX_NO_TRANS;
    for (int64_t k = 0; k < count; k++) {
        if (is_plain) {
            exchange(s, k, false);
            substitute(s, k, GX_LOWER);
            update_below(s, k, true);
        } else {
            update_above(s, k, true);
            substitute(s, k, GX_UPPER);
        }
    }
    for (int64_t k = count - 1; k >= 0; k--) {
        if (is_plain) {
            substitute(s, k, GX_UPPER);
            update_above(s, k, false);
        } else {
            update_below(s, k, false);
            substitute(s, k, GX_LOWER);
            exchange(s, k, true);
        }
    }
}

// How it is cut -----------------------------------------------------------------------------------

/* Calls of a program for so many strips. */
static int64_t count_calls(const solve_plan *plan, int64_t strips)
{
    int64_t columns = gx_ceil_div(plan->n, plan->width);
    int64_t rows = gx_ceil_div(plan->n, plan->height);
    return strips * columns * (rows + 5);
}

static int64_t slot_elements(const solve_plan *plan)
{
    return gx_max(plan->n * gx_min(plan->strip, plan->lines),
                  gx_min(plan->n, plan->height) * gx_min(plan->n, plan->width));
}

/* What a triangular solve wants beside its blocks. */
static size_t workspace_bytes(gx_run *run, const solve_plan *plan, gx_number dtype)
{
    gx_args args = {.m = gx_min(plan->n, plan->width),
                    .n = gx_min(plan->strip, plan->lines),
                    .lda = plan->n,
                    .ldc = plan->n};
    return gx_dense_call_bytes(run, GX_TRSM, dtype, &args);
}

/* Blocks that the cache holds beside a program for so many strips. */
static int64_t count_slots(gx_run *run, const solve_plan *plan, const gx_sink *X, int64_t strips)
{
    int64_t calls = count_calls(plan, strips);
    int64_t blocks = gx_ceil_div(plan->n, plan->width) * gx_ceil_div(plan->n, plan->height) +
                     gx_ceil_div(plan->lines, plan->strip);
    size_t element = gx_number_bytes(X->number);
    size_t tile = X->is_stored ? (size_t)(X->tile_rows * X->tile_cols) * element : 0;
    size_t overhead = gx_prog_overhead(calls, blocks) + gx_prog_parts_overhead(calls) + tile +
                      workspace_bytes(run, plan, X->number);
    size_t available = gx_mem_available(run->ctx->mem);
    return available > overhead ? (int64_t)((available - overhead) / element) / slot_elements(plan)
                                : 0;
}

/* Half of the larger block, or the nearest to it; false when both are single columns. */
static bool shrink(solve_plan *plan)
{
    int64_t strip = plan->n * plan->strip, block = plan->height * plan->width;
    bool is_high = plan->height > plan->width, is_wide = plan->width > 1;
    if (plan->strip > 1 && (strip >= block || !(is_high || is_wide))) {
        plan->strip = gx_ceil_div(plan->strip, 2);
    } else if (is_high) {
        plan->height = gx_max(1, plan->height / plan->width / 2) * plan->width;
    } else if (is_wide) { // parts of a panel begin where it does
        plan->height = plan->width /= gx_least_factor(plan->width);
    } else {
        return false;
    }
    return true;
}

/*
** Blocks of F are whole tiles and strips a good width for gemm, in whole tiles, unless four of them
** do not fit; then the larger one is halved until they do.
*/
static void make_plan(gx_run *run, const gx_mat *F, const gx_aux *aux, const gx_sink *X,
                      solve_plan *plan)
{
    const int64_t WIDE = 128, ENOUGH = 4, LEAST = 2; // gemm's rate hardly grows from 128 columns
    bool is_fixed = run->ctx->config.number[GX_SET_DETERMINISTIC] != 0;
    int64_t unit = X->is_stored ? X->tile_cols : 1;
    *plan = (solve_plan){.n = F->rows, .lines = X->cols, .width = aux->panel};
    plan->height = gx_max(1, F->tile_rows / aux->panel) * aux->panel;
    plan->strip = gx_min(plan->lines, gx_ceil_div(gx_min(WIDE, plan->lines), unit) * unit);
    int64_t slots = count_slots(run, plan, X, 1);
    solve_plan smaller = *plan;
    while (!is_fixed && slots < ENOUGH && shrink(&smaller)) {
        int64_t more = count_slots(run, &smaller, X, 1);
        if (more <= slots && slots >= LEAST) {
            break; // the longer list of calls has taken what the blocks gave
        }
        *plan = smaller;
        slots = more;
    }
    plan->is_narrow = plan->strip < plan->lines && plan->strip % unit != 0;
    // Beside the strips: the block of F that is used and the ones that come.
    int64_t most = gx_ceil_div(plan->lines, plan->strip);
    plan->together = gx_max(1, gx_min(most, count_slots(run, plan, X, 1) - 3));
    while (plan->together > 1 && count_slots(run, plan, X, plan->together) < plan->together + 3) {
        plan->together--;
    }
}

// The driver --------------------------------------------------------------------------------------

static gx_code check(gx_run *run, const gx_mat *F, const gx_aux *aux, const gx_mat *B)
{
    GX_TRY(gx_alg_need_square(run, F));
    if (B->rows != F->rows) {
        return gx_run_failf(run, GX_ARG, "%s is %lldx%lld but %s is %lldx%lld", F->label,
                            (long long)F->rows, (long long)F->cols, B->label, (long long)B->rows,
                            (long long)B->cols);
    }
    if (aux->info > 0) {
        return gx_run_failf(run, GX_NUMERIC, "%s is singular (pivot %lld is exactly zero)",
                            F->label, (long long)aux->info);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

/* Strips [first, last): a program of their own, so that its list of calls stays short. */
static void solve_group(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_trans trans,
                        const gx_mat *B, const solve_plan *plan, int64_t first, int64_t last,
                        gx_sink *X)
{
    solve s = {.plan = plan, .aux = aux, .trans = trans, .first = first, .last = last};
    int64_t calls = count_calls(plan, last - first);
    if (gx_prog_create(run, calls, &s.prog) != GX_OK) {
        return;
    }
    gx_prog_expect_parts(s.prog, calls);
    s.F = gx_prog_operand(s.prog, F, NULL, X->number, plan->n, plan->n, plan->height, plan->width);
    s.X = gx_prog_operand(s.prog, B, X, X->number, plan->n, plan->lines, plan->n, plan->strip);
    gx_cut cut = gx_plan_cut(run);
    gx_prog_cut(s.prog, &cut);
    gx_prog_lookahead(s.prog, 2 * plan->together + 4);
    if (gx_ok(run)) {
        solve_strips(&s);
    }
    gx_prog_run(s.prog);
    gx_prog_free(s.prog);
}

static void solve_into(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_trans trans,
                       const gx_mat *B, const solve_plan *plan, gx_sink *X)
{
    int64_t strips = gx_ceil_div(plan->lines, plan->strip);
    for (int64_t first = 0; first < strips && gx_ok(run); first += plan->together) {
        int64_t last = gx_min(first + plan->together, strips);
        solve_group(run, F, aux, trans, B, plan, first, last, X);
    }
}

gx_code gx_alg_lu_solve(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_trans trans,
                        const gx_mat *B, gx_sink *X)
{
    if (!gx_ok(run) || check(run, F, aux, B) != GX_OK || F->rows == 0 || B->cols == 0) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    solve_plan plan;
    make_plan(run, F, aux, X, &plan);
    if (!plan.is_narrow) {
        solve_into(run, F, aux, trans, B, &plan, X);
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    gx_sink narrow;
    gx_mat solved;
    size_t bytes = 0;
    gx_matrix_bytes(X->rows, X->cols, X->number, &bytes);
    gx_sink_begin_scratch_tiles(run, X->rows, X->cols, X->number, 8 * bytes,
                                gx_min(X->rows, X->tile_rows), plan.strip, &narrow);
    if (gx_ok(run)) {
        solve_into(run, F, aux, trans, B, &plan, &narrow);
    }
    if (gx_ok(run)) {
        gx_sink_source(&narrow, "X", &solved);
        gx_copy_to_sink(run, &solved, X);
    }
    gx_sink_drop(&narrow);
    return gx_ok(run) ? GX_OK : run->err.code;
}
