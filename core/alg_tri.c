/*
** Triangular solves and products, and the solve with a Cholesky factor.
**
**   solve       X[t] = (alpha B[t] - sum op(A)[t,u] X[u]) by op(A)[t,t]^-1     u before t
**   multiply    X[t] = alpha (op(A)[t,t] B[t] + sum op(A)[t,u] B[u])           u before t
**
** "Before" is the order in which a solve finds its unknowns: ascending where op(A) is lower (from
** the left), descending where it is upper, the other way round from the right.  A product runs the
** same loops from the last row to the first, so it too works in place: what it reads is still B.
** Solves add up u ascending, products descending, however X is grouped: deterministic mode.
** Everything is written once for the left side; from the right X's blocks are columns.
**
** Work n^2 flops a right-hand side (twice with a Cholesky factor).  X stays in memory, a strip of
** right-hand sides at a time where all of it does not fit, and A's triangle passes by once a strip.
** Each tile of X is written once.  Where not one strip fits, `super` of its blocks stay, and the
** finished ones are read again; then the second of two sweeps finds what the first has written.
** Minimum memory: three blocks.
**
** X's blocks may be taller than A's (a tall, narrow X has tall tiles): calls then work on parts.
*/
#include "alg_tri.h"
#include "alg.h"
#include "plan.h"

static const gx_scalar ONE = {1, 0};

static bool is_zero(gx_scalar x, gx_dtype dtype)
{
    return x.re == 0 && (x.im == 0 || !gx_dtype_is_complex(dtype));
}

/* ---- sweeps ---------------------------------------------------------------------------------- */

/* What the loops need to know of a sweep.  t, u: A's block rows in the order of the solve. */
typedef struct order {
    const gx_sweep *s;
    int64_t count;     /* of A's blocks along its side             */
    int64_t per_block; /* of these in one block of X               */
    int64_t groups;    /* of X's blocks, super at a time           */
    bool is_ascending;
    int64_t first, last; /* strips                                  */
} order;

static order order_of(const gx_sweep *s, int64_t first, int64_t last)
{
    bool is_left = s->side == GX_LEFT;
    bool is_lower = (s->uplo == GX_LOWER) == (s->trans == GX_NO_TRANS); // op(A)
    int64_t along = is_left ? s->X->block_rows : s->X->block_cols;
    int64_t grid = is_left ? s->X->grid_rows : s->X->grid_cols;
    order o = {.s = s,
               .count = s->A->grid_rows,
               .per_block = gx_ceil_div(along, s->A->block_rows),
               .groups = gx_ceil_div(grid, s->super),
               .is_ascending = is_lower == is_left,
               .first = first,
               .last = last};
    return o;
}

/* Group g holds t in [*t0, *t1). */
static void bounds(const order *o, int64_t g, int64_t *t0, int64_t *t1)
{
    int64_t step = o->per_block * o->s->super;
    int64_t low = (o->is_ascending ? g : o->groups - 1 - g) * step;
    int64_t high = gx_min(o->count, low + step);
    *t0 = o->is_ascending ? low : o->count - high;
    *t1 = o->is_ascending ? high : o->count - low;
}

static int64_t place(const order *o, int64_t t)
{
    return o->is_ascending ? t : o->count - 1 - t;
}

/* op(A)[t,u] (from the right: op(A)[u,t]) as the block that is stored. */
static gx_block triangle_at(const order *o, int64_t t, int64_t u)
{
    int64_t i = place(o, t), j = place(o, u);
    bool is_straight = (o->s->side == GX_LEFT) == (o->s->trans == GX_NO_TRANS);
    return is_straight ? gx_blk(o->s->A, i, j) : gx_blk(o->s->A, j, i);
}

/* X[t] of a strip. */
static gx_block unknown_at(const order *o, int64_t t, int64_t strip)
{
    const gx_opnd *X = o->s->X;
    bool is_left = o->s->side == GX_LEFT;
    int64_t i = place(o, t), edge = o->s->A->block_rows;
    int64_t block = i / o->per_block, from = i % o->per_block * edge;
    int64_t size = gx_min(edge, o->s->A->rows - i * edge);
    gx_block b = is_left ? gx_blk(X, block, strip) : gx_blk(X, strip, block);
    if (o->per_block > 1) {
        int64_t across = is_left ? gx_min(X->block_cols, X->cols - strip * X->block_cols)
                                 : gx_min(X->block_rows, X->rows - strip * X->block_rows);
        b.part = is_left ? (gx_part){from, 0, size, across} : (gx_part){0, from, across, size};
    }
    return b;
}

/* X[t] = alpha op(A)[t,u] X[u] + beta X[t]. */
static void update(const order *o, int64_t t, int64_t u, gx_scalar alpha, gx_scalar beta)
{
    const gx_sweep *s = o->s;
    for (int64_t strip = o->first; strip < o->last; strip++) {
        gx_block triangle = triangle_at(o, t, u), other = unknown_at(o, u, strip);
        bool is_left = s->side == GX_LEFT;
        gx_prog_call(s->prog, &(gx_call){.kernel = GX_GEMM,
                                         .transa = is_left ? s->trans : GX_NO_TRANS,
                                         .transb = is_left ? GX_NO_TRANS : s->trans,
                                         .alpha = alpha,
                                         .beta = beta,
                                         .a = is_left ? triangle : other,
                                         .b = is_left ? other : triangle,
                                         .c = unknown_at(o, t, strip),
                                         .keeps_c = true});
    }
}

/* X[t] = alpha op(A)[t,t]^-1 X[t] (TRSM), alpha op(A)[t,t] X[t] (TRMM). */
static void on_diagonal(const order *o, gx_kernel_id kernel, int64_t t, gx_scalar alpha)
{
    const gx_sweep *s = o->s;
    for (int64_t strip = o->first; strip < o->last; strip++) {
        gx_prog_call(s->prog, &(gx_call){.kernel = kernel,
                                         .side = s->side,
                                         .uplo = s->uplo,
                                         .transa = s->trans,
                                         .diag = s->diag,
                                         .alpha = alpha,
                                         .a = triangle_at(o, t, t),
                                         .c = unknown_at(o, t, strip),
                                         .keeps_c = true});
    }
}

/* alpha = 0: nothing is read. */
static void fill(const order *o)
{
    const gx_opnd *X = o->s->X;
    bool is_left = o->s->side == GX_LEFT;
    int64_t grid = is_left ? X->grid_rows : X->grid_cols;
    for (int64_t strip = o->first; strip < o->last; strip++) {
        for (int64_t i = 0; i < grid; i++) {
            gx_block c = is_left ? gx_blk(X, i, strip) : gx_blk(X, strip, i);
            gx_prog_call(o->s->prog, &(gx_call){.kernel = GX_FILL, .c = c});
        }
    }
}

static void solve_group(const order *o, int64_t t0, int64_t t1)
{
    const gx_scalar MINUS_ONE = {-1, 0};
    for (int64_t u = 0; u < t0; u++) {
        for (int64_t t = t0; t < t1; t++) {
            update(o, t, u, MINUS_ONE, u == 0 ? o->s->alpha : ONE);
        }
    }
    for (int64_t t = t0; t < t1; t++) {
        for (int64_t u = t0; u < t; u++) {
            update(o, t, u, MINUS_ONE, u == 0 ? o->s->alpha : ONE);
        }
        on_diagonal(o, GX_TRSM, t, t == 0 ? o->s->alpha : ONE);
    }
}

static void multiply_group(const order *o, int64_t t0, int64_t t1)
{
    for (int64_t t = t1 - 1; t >= t0; t--) {
        on_diagonal(o, GX_TRMM, t, o->s->alpha);
        for (int64_t u = t - 1; u >= t0; u--) {
            update(o, t, u, o->s->alpha, ONE);
        }
    }
    for (int64_t u = t0 - 1; u >= 0; u--) {
        for (int64_t t = t0; t < t1; t++) {
            update(o, t, u, o->s->alpha, ONE);
        }
    }
}

void gx_sweep_solve(const gx_sweep *sweep, int64_t first, int64_t last)
{
    order o = order_of(sweep, first, last);
    int64_t t0, t1;
    if (is_zero(sweep->alpha, sweep->X->dtype)) {
        fill(&o);
        return;
    }
    for (int64_t g = 0; g < o.groups; g++) {
        bounds(&o, g, &t0, &t1);
        solve_group(&o, t0, t1);
    }
}

void gx_sweep_multiply(const gx_sweep *sweep, int64_t first, int64_t last)
{
    order o = order_of(sweep, first, last);
    int64_t t0, t1;
    if (is_zero(sweep->alpha, sweep->X->dtype)) {
        fill(&o);
        return;
    }
    for (int64_t g = o.groups - 1; g >= 0; g--) {
        bounds(&o, g, &t0, &t1);
        multiply_group(&o, t0, t1);
    }
}

/* ---- drivers --------------------------------------------------------------------------------- */

gx_code gx_tri_shape(const gx_tri_args *args, gx_dtype *dtype, gx_err *err)
{
    const gx_mat *A = args->A, *B = args->B;
    int64_t side = args->side == GX_LEFT ? B->rows : B->cols;
    if (A->rows != A->cols) {
        return gx_fail(err, GX_ARG, "%s is %lldx%lld but must be square", A->label,
                       (long long)A->rows, (long long)A->cols);
    }
    if (A->rows != side) {
        return gx_fail(err, GX_ARG, "%s is %lldx%lld but %s is %lldx%lld", A->label,
                       (long long)A->rows, (long long)A->cols, B->label, (long long)B->rows,
                       (long long)B->cols);
    }
    *dtype = gx_dtype_promote(A->dtype, B->dtype);
    if (args->alpha.im != 0) {
        *dtype = gx_dtype_promote(*dtype, GX_C64);
    }
    return GX_OK;
}

/* A sweep over all of X, or two of them. */
typedef struct sweeps {
    gx_sweep sweep[2];
    int count;
    bool multiplies;
} sweeps;

static void write_down(const sweeps *w, const gx_tri_plan *plan)
{
    const gx_opnd *X = w->sweep[0].X;
    int64_t strips = w->sweep[0].side == GX_LEFT ? X->grid_cols : X->grid_rows;
    for (int64_t first = 0; first < strips; first += plan->strip) {
        int64_t last = gx_min(strips, first + plan->strip);
        for (int k = 0; k < w->count; k++) {
            if (w->multiplies) {
                gx_sweep_multiply(&w->sweep[k], first, last);
            } else {
                gx_sweep_solve(&w->sweep[k], first, last);
            }
        }
    }
}

/* X of B by the sweeps, whose prog, A, X and super are filled in here. */
static gx_code run_sweeps(gx_run *run, const gx_mat *A, const gx_mat *B, sweeps *w, gx_sink *X)
{
    gx_tri_plan plan;
    gx_prog *prog;
    bool is_left = w->sweep[0].side == GX_LEFT;
    gx_plan_tri(run, A, is_left ? B->cols : B->rows, X->dtype,
                is_left ? X->tile_rows : X->tile_cols, is_left ? X->tile_cols : X->tile_rows,
                w->count, &plan);
    int64_t grid = gx_ceil_div(plan.n, plan.edge), lines = gx_ceil_div(plan.lines, plan.block_line);
    if (gx_prog_create(run, w->count * grid * (grid + 1) / 2 * lines, &prog) != GX_OK) {
        return run->err.code;
    }
    const gx_opnd *a =
        gx_prog_operand(prog, A, NULL, X->dtype, A->rows, A->cols, plan.edge, plan.edge);
    const gx_opnd *x = gx_prog_operand(prog, B, X, X->dtype, X->rows, X->cols,
                                       is_left ? plan.block_n : plan.block_line,
                                       is_left ? plan.block_line : plan.block_n);
    for (int k = 0; k < w->count; k++) {
        w->sweep[k].prog = prog;
        w->sweep[k].A = a;
        w->sweep[k].X = x;
        w->sweep[k].super = plan.super;
    }
    gx_prog_cut(prog, &plan.cut);
    gx_prog_lookahead(prog, plan.lookahead);
    if (gx_ok(run)) {
        write_down(w, &plan);
    }
    gx_prog_run(prog);
    gx_prog_free(prog);
    return gx_ok(run) ? GX_OK : run->err.code;
}

static gx_code run_one(gx_run *run, const gx_tri_args *args, bool multiplies, gx_sink *X)
{
    sweeps w = {.sweep = {{.side = args->side,
                           .uplo = args->uplo,
                           .trans = args->trans,
                           .diag = args->diag,
                           .alpha = args->alpha}},
                .count = 1,
                .multiplies = multiplies};
    gx_err err = {0};
    gx_dtype dtype;
    if (!gx_ok(run) || gx_tri_shape(args, &dtype, &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    if (!multiplies && args->diag == GX_NON_UNIT && !is_zero(args->alpha, X->dtype) &&
        gx_alg_refuse_zero_pivot(run, args->A) != GX_OK) {
        return run->err.code;
    }
    return run_sweeps(run, args->A, args->B, &w, X);
}

gx_code gx_alg_trsm(gx_run *run, const gx_tri_args *args, gx_sink *X)
{
    return run_one(run, args, false, X);
}

gx_code gx_alg_trmm(gx_run *run, const gx_tri_args *args, gx_sink *X)
{
    return run_one(run, args, true, X);
}

gx_code gx_alg_cholesky_solve(gx_run *run, const gx_mat *F, gx_uplo uplo, const gx_mat *B,
                              gx_sink *X)
{
    bool is_lower = uplo == GX_LOWER;
    gx_sweep down = {.uplo = uplo, .trans = is_lower ? GX_NO_TRANS : GX_CONJ_TRANS, .alpha = ONE};
    gx_sweep up = {.uplo = uplo, .trans = is_lower ? GX_CONJ_TRANS : GX_NO_TRANS, .alpha = ONE};
    sweeps w = {.sweep = {down, up}, .count = 2};
    gx_tri_args args = {.A = F, .B = B, .uplo = uplo, .alpha = ONE};
    gx_err err = {0};
    gx_dtype dtype;
    if (!gx_ok(run) || gx_tri_shape(&args, &dtype, &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    if (gx_alg_refuse_zero_pivot(run, F) != GX_OK) {
        return run->err.code;
    }
    return run_sweeps(run, F, B, &w, X);
}
