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
** A's blocks follow A's tiles and X's blocks X's (a tall, narrow X has tall ones); a call works on
** the part of each that the other one leaves.
*/
#include "../exec/prog.h"
#include "alg.h"
#include "plan.h"

static bool is_zero(gx_scalar x, gx_number dtype)
{
    return x.re == 0 && (x.im == 0 || !gx_number_is_complex(dtype));
}

// Sweeps ------------------------------------------------------------------------------------------

/*
** A is n x n in square blocks.  X has n rows (side LEFT) or n columns (RIGHT), in blocks of any
** size.  Its blocks along the other side are strips, which do not depend on one another.
*/
typedef struct sweep {
    gx_prog *prog;
    const gx_opnd *A, *X; /* X: in place; holds B when the sweep begins               */
    gx_side side;
    gx_uplo uplo; /* of A as it is stored                                    */
    gx_trans trans;
    gx_diag diag;
    gx_scalar alpha;
    int64_t super; /* X's blocks along the triangle that stay in memory, >= 1 */
} sweep;

/*
** What the loops need to know of a sweep.  The triangle's side is cut where a block of A or of X
** ends, so that a call has one block of each: its pieces are spans.  A place is a position between
** two elements; in the order of the solve the side begins at start and ends at stop.
*/
typedef struct order {
    const sweep *s;
    int64_t n, edge_a, edge_x; /* the side, A's and X's blocks along it */
    int64_t groups;            /* of X's blocks, super at a time        */
    bool is_ascending;
    int64_t start, stop; /* 0 and n, or n and 0                   */
    int64_t first, last; /* strips                                */
} order;

typedef struct span {
    int64_t low, high; /* elements [low, high) */
} span;

static order order_of(const sweep *s, int64_t first, int64_t last)
{
    bool is_left = s->side == GX_LEFT;
    bool is_lower = (s->uplo == GX_LOWER) == (s->trans == GX_NO_TRANS); // op(A)
    order o = {.s = s,
               .n = s->A->rows,
               .edge_a = s->A->block_rows,
               .edge_x = is_left ? s->X->block_rows : s->X->block_cols,
               .groups = gx_ceil_div(is_left ? s->X->grid_rows : s->X->grid_cols, s->super),
               .is_ascending = is_lower == is_left,
               .first = first,
               .last = last};
    o.start = o.is_ascending ? 0 : o.n;
    o.stop = o.n - o.start;
    return o;
}

/* The span that begins at low, that ends at high. */
static span span_up(const order *o, int64_t low)
{
    int64_t a = (low / o->edge_a + 1) * o->edge_a, x = (low / o->edge_x + 1) * o->edge_x;
    return (span){low, gx_min(o->n, gx_min(a, x))};
}

static span span_down(const order *o, int64_t high)
{
    int64_t a = (high - 1) / o->edge_a * o->edge_a, x = (high - 1) / o->edge_x * o->edge_x;
    return (span){gx_max(a, x), high};
}

/* The span after a place and the one before it, in the order of the solve; *place moves past it. */
static span step_on(const order *o, int64_t *place)
{
    span t = o->is_ascending ? span_up(o, *place) : span_down(o, *place);
    *place = o->is_ascending ? t.high : t.low;
    return t;
}

static span step_back(const order *o, int64_t *place)
{
    span t = o->is_ascending ? span_down(o, *place) : span_up(o, *place);
    *place = o->is_ascending ? t.low : t.high;
    return t;
}

/* Where a span begins, in the order of the solve. */
static int64_t begin_of(const order *o, span t)
{
    return o->is_ascending ? t.low : t.high;
}

/* The places where group g begins and ends. */
static void bounds(const order *o, int64_t g, int64_t *from, int64_t *to)
{
    int64_t step = o->edge_x * o->s->super;
    int64_t low = (o->is_ascending ? g : o->groups - 1 - g) * step;
    int64_t high = gx_min(o->n, low + step);
    *from = o->is_ascending ? low : high;
    *to = o->is_ascending ? high : low;
}

/* Rows i and columns j of an operand, which lie in one block. */
static gx_block cut_out(const gx_opnd *m, span i, span j)
{
    int64_t bi = i.low / m->block_rows, bj = j.low / m->block_cols;
    int64_t i0 = bi * m->block_rows, j0 = bj * m->block_cols;
    int64_t rows = gx_min(m->block_rows, m->rows - i0), cols = gx_min(m->block_cols, m->cols - j0);
    if (i.high - i.low == rows && j.high - j.low == cols) {
        return gx_blk(m, bi, bj);
    }
    return gx_blk_part(m, bi, bj, i.low - i0, j.low - j0, i.high - i.low, j.high - j.low);
}

/* op(A)[t,u] (from the right: op(A)[u,t]) as it is stored. */
static gx_block triangle_at(const order *o, span t, span u)
{
    bool is_straight = (o->s->side == GX_LEFT) == (o->s->trans == GX_NO_TRANS);
    return is_straight ? cut_out(o->s->A, t, u) : cut_out(o->s->A, u, t);
}

/* X[t] of a strip. */
static gx_block unknown_at(const order *o, span t, int64_t strip)
{
    const gx_opnd *X = o->s->X;
    bool is_left = o->s->side == GX_LEFT;
    int64_t wide = is_left ? X->block_cols : X->block_rows, end = is_left ? X->cols : X->rows;
    span across = {strip * wide, gx_min(end, (strip + 1) * wide)};
    return is_left ? cut_out(X, t, across) : cut_out(X, across, t);
}

/* X[t] = alpha op(A)[t,u] X[u] + beta X[t]. */
static void update(const order *o, span t, span u, gx_scalar alpha, gx_scalar beta)
{
    const sweep *s = o->s;
    bool is_left = s->side == GX_LEFT;
    for (int64_t strip = o->first; strip < o->last; strip++) {
        gx_block triangle = triangle_at(o, t, u), other = unknown_at(o, u, strip);
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
static void on_diagonal(const order *o, gx_kernel_id kernel, span t, gx_scalar alpha)
{
    const sweep *s = o->s;
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

/* The unknowns from one place to another, when all before are known. */
static void solve_group(const order *o, int64_t from, int64_t to)
{
    for (int64_t before = o->start; before != from;) {
        gx_scalar beta = before == o->start ? o->s->alpha : GX_ONE;
        span u = step_on(o, &before);
        for (int64_t place = from; place != to;) {
            update(o, step_on(o, &place), u, GX_MINUS_ONE, beta);
        }
    }
    for (int64_t place = from; place != to;) {
        span t = step_on(o, &place);
        for (int64_t before = from; before != begin_of(o, t);) {
            gx_scalar beta = before == o->start ? o->s->alpha : GX_ONE;
            span u = step_on(o, &before);
            update(o, t, u, GX_MINUS_ONE, beta);
        }
        on_diagonal(o, GX_TRSM, t, begin_of(o, t) == o->start ? o->s->alpha : GX_ONE);
    }
}

static void multiply_group(const order *o, int64_t from, int64_t to)
{
    for (int64_t place = to; place != from;) {
        span t = step_back(o, &place);
        on_diagonal(o, GX_TRMM, t, o->s->alpha);
        for (int64_t before = begin_of(o, t); before != from;) {
            update(o, t, step_back(o, &before), o->s->alpha, GX_ONE);
        }
    }
    for (int64_t before = from; before != o->start;) {
        span u = step_back(o, &before);
        for (int64_t place = from; place != to;) {
            update(o, step_on(o, &place), u, o->s->alpha, GX_ONE);
        }
    }
}

/* Append X := alpha op(A)^-1 X (LEFT), alpha X op(A)^-1 (RIGHT) of strips first .. last - 1. */
static void solve(const sweep *s, int64_t first, int64_t last)
{
    order o = order_of(s, first, last);
    int64_t from, to;
    if (is_zero(s->alpha, s->X->dtype)) {
        fill(&o);
        return;
    }
    for (int64_t g = 0; g < o.groups; g++) {
        bounds(&o, g, &from, &to);
        solve_group(&o, from, to);
    }
}

/* Append X := alpha op(A) X, alpha X op(A), likewise. */
static void multiply(const sweep *s, int64_t first, int64_t last)
{
    order o = order_of(s, first, last);
    int64_t from, to;
    if (is_zero(s->alpha, s->X->dtype)) {
        fill(&o);
        return;
    }
    for (int64_t g = o.groups - 1; g >= 0; g--) {
        bounds(&o, g, &from, &to);
        multiply_group(&o, from, to);
    }
}

// Drivers -----------------------------------------------------------------------------------------

gx_code gx_tri_shape(const gx_tri_args *args, gx_number *dtype, gx_err *err)
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
    *dtype = gx_number_promote(A->number, B->number);
    if (args->alpha.im != 0) {
        *dtype = gx_number_promote(*dtype, GX_C64);
    }
    return GX_OK;
}

/* A sweep over all of X, or two of them. */
typedef struct sweeps {
    sweep sweep[2];
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
                multiply(&w->sweep[k], first, last);
            } else {
                solve(&w->sweep[k], first, last);
            }
        }
    }
}

/* What build_sweeps() is told. */
typedef struct build_args {
    const gx_mat *A, *B;
    sweeps *w; /* its prog, A, X and super are filled in */
    gx_sink *X;
} build_args;

static gx_prog *build_sweeps(gx_run *run, void *arg)
{
    const build_args *args = arg;
    const gx_mat *A = args->A, *B = args->B;
    sweeps *w = args->w;
    gx_sink *X = args->X;
    gx_tri_plan plan;
    gx_prog *prog;
    bool is_left = w->sweep[0].side == GX_LEFT;
    gx_plan_tri(run, A, is_left ? B->cols : B->rows, X->number,
                is_left ? X->tile_rows : X->tile_cols, is_left ? X->tile_cols : X->tile_rows,
                w->count, &plan);
    if (gx_prog_create(run, gx_plan_tri_calls(&plan), &prog) != GX_OK) {
        return NULL;
    }
    const gx_opnd *a =
        gx_prog_operand(prog, A, NULL, X->number, A->rows, A->cols, plan.edge, plan.edge);
    const gx_opnd *x = gx_prog_operand(prog, B, X, X->number, X->rows, X->cols,
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
    return prog;
}

/* X of B by the sweeps. */
static gx_code run_sweeps(gx_run *run, const gx_mat *A, const gx_mat *B, sweeps *w, gx_sink *X)
{
    gx_args size = {.side = w->sweep[0].side, .m = X->rows, .n = X->cols};
    double flops = (double)w->count * gx_kernel_flops(GX_TRSM, X->number, &size);
    return gx_place_run(run, flops, X->number, build_sweeps, &(build_args){A, B, w, X});
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
    gx_number dtype;
    if (!gx_ok(run) || gx_tri_shape(args, &dtype, &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    if (!multiplies && args->diag == GX_NON_UNIT && !is_zero(args->alpha, X->number) &&
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
    sweep down = {.uplo = uplo, .trans = is_lower ? GX_NO_TRANS : GX_CONJ_TRANS, .alpha = GX_ONE};
    sweep up = {.uplo = uplo, .trans = is_lower ? GX_CONJ_TRANS : GX_NO_TRANS, .alpha = GX_ONE};
    sweeps w = {.sweep = {down, up}, .count = 2};
    gx_tri_args args = {.A = F, .B = B, .uplo = uplo, .alpha = GX_ONE};
    gx_err err = {0};
    gx_number dtype;
    if (!gx_ok(run) || gx_tri_shape(&args, &dtype, &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    if (gx_alg_refuse_zero_pivot(run, F) != GX_OK) {
        return run->err.code;
    }
    return run_sweeps(run, F, B, &w, X);
}
