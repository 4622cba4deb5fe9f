/*
** Least squares, rank and pseudo-inverse, on QR.
**
**   m >= n   A = Q R;    X = R^+ (Q^H B)            TSQR: A and B are read once, together
**   m < n    A^H = Q R;  X = Q (R^H)^+ B            the solution of minimum norm
**
**   pinv     A = Q R (tall): A^+ = (Q (R^+)^H)^H;  A^H = Q R (wide): A^+ = Q (R^+)^H
**   rank     singular values of R are those of A
**
** Where R has full rank R^+ is a triangular solve; else it is V S^+ U^H of R's SVD with the small
** singular values taken as 0 (small_r.c), which gives the minimum-norm solution of the truncated
** problem (Golub & Van Loan, 5.5).
**
** Memory: R (min(m, n)^2), what TSQR or the panels want, and the right-hand sides' min(m, n) rows;
** these go in groups of columns where they are many, one pass over A each.  Q is kept (m < n,
** pinv) in the temp database where it does not fit.  Where R itself does not fit least squares
** solve with the stored triangle: its diagonal may show that the rank is not full, never that it
** is.
*/
#include "../mat/simple.h"
#include "alg_qr.h"
#include "dense.h"
#include "small_r.h"

#include <math.h>
#include <string.h>

double gx_rank_rcond(gx_number dtype, int64_t m, int64_t n)
{
    double eps = gx_number_eps(dtype);
    return fmin(eps * (double)gx_max(1, gx_max(m, n)), sqrt(eps));
}

/* Every element of X is 0. */
static gx_code write_zeros(gx_run *run, gx_sink *X)
{
    gx_mat zero;
    static const gx_constant none = {{0, 0}};
    gx_mat_generated(&zero, "zeros", X->number, X->rows, X->cols, gx_constant_generate, &none);
    return gx_copy_to_sink(run, &zero, X);
}

// A factored tall matrix --------------------------------------------------------------------------

/* T = Q R, rows x cols, rows >= cols, with Q to be applied. */
typedef struct tall {
    gx_run *run;
    bool is_tree;
    gx_sink F;     /* panels: packed; tree: V */
    gx_mat source; /* of F                    */
    void *tau;
    gx_tsqr_plan plan; /* tree                    */
    bool has_r;        /* R fits into memory: r   */
    gx_small_r r;
} tall;

/* What is kept free for R, its rank and its inverse when an intermediate asks for memory. */
static size_t triangle_bytes(int64_t n, gx_number dtype)
{
    size_t bytes = 0;
    return gx_matrix_bytes(n, n, dtype, &bytes) && bytes < SIZE_MAX / 8 ? 4 * bytes : SIZE_MAX / 2;
}

/* R and what its rank wants: R^-1, and slack for the kernels. */
static bool triangle_fits(gx_run *run, int64_t n, gx_number dtype)
{
    size_t bytes;
    return gx_matrix_bytes(n, n, dtype, &bytes) && bytes < gx_mem_available(run->ctx->mem) / 3;
}

static void tall_clear(tall *t)
{
    gx_small_r_clear(&t->r);
    gx_mem_free(t->run->ctx->mem, t->tau);
    gx_sink_drop(&t->F);
}

static gx_code factor_tree(tall *t, const gx_mat *T)
{
    gx_run *run = t->run;
    gx_sink R;
    gx_mat r;
    gx_number dtype = t->F.number;
    t->has_r = true;
    gx_sink_begin_scratch(run, T->cols, T->cols, dtype, 0, &R);
    gx_plan_tsqr(run, T->rows, T->cols, T->cols, dtype, &t->plan);
    if (gx_dense_alloc(run, dtype, t->plan.blocks * T->cols, 1, "scalars of reflectors", &t->tau) ==
        GX_OK) {
        gx_tsqr_args args = {.A = T, .R = &R, .V = &t->F, .tau = t->tau};
        gx_alg_tsqr(run, &args, &t->plan);
        gx_sink_source(&R, T->label, &r);
        gx_small_r_take(run, &r, T->cols, dtype, &t->r);
    }
    gx_sink_drop(&R);
    return run->err.code;
}

static gx_code factor_panels(tall *t, const gx_mat *T)
{
    gx_run *run = t->run;
    gx_mat named;
    if (gx_dense_alloc(run, t->F.number, T->cols, 1, "scalars of reflectors", &t->tau) == GX_OK) {
        gx_alg_qr(run, T, &t->F, t->tau);
        gx_sink_source(&t->F, T->label, &named);
        t->has_r = triangle_fits(run, T->cols, t->F.number);
        if (t->has_r) {
            gx_small_r_take(run, &named, T->cols, t->F.number, &t->r);
        }
    }
    return run->err.code;
}

/*
** Factor T, which has at least as many rows as columns.  Cleared by the caller in any case.
** may_be_tree: Q will be applied, never Q^H.
*/
static gx_code tall_factor(gx_run *run, const gx_mat *T, gx_number dtype, bool may_be_tree, tall *t)
{
    int64_t tile_rows, tile_cols;
    memset(t, 0, sizeof *t);
    t->run = run;
    if (!gx_ok(run)) {
        return run->err.code;
    }
    t->is_tree = may_be_tree && gx_plan_prefers_tsqr(run, T->rows, T->cols, dtype);
    if (t->is_tree) {
        gx_plan_q_tiles(run, T->rows, T->cols, T->cols, dtype, &tile_rows, &tile_cols);
    } else {
        gx_plan_panel_tiles(run, T->rows, T->cols, T->cols, dtype, &tile_rows, &tile_cols);
    }
    if (gx_qr_begin_scratch(run, T->rows, T->cols, dtype, tile_rows, tile_cols,
                            triangle_bytes(T->cols, dtype), &t->F) != GX_OK) {
        return run->err.code;
    }
    gx_code code = t->is_tree ? factor_tree(t, T) : factor_panels(t, T);
    gx_sink_source(&t->F, T->label, &t->source);
    return code;
}

static gx_code refuse_svd(tall *t)
{
    long long n = (long long)t->F.cols;
    return gx_run_failf(t->run, GX_BUDGET,
                        "the singular values of R (%lldx%lld) take more than memory_limit "
                        "allows: raise it with gx_config('memory_limit', ...)",
                        n, n);
}

/* For what needs the singular values of R. */
static gx_code need_triangle(tall *t)
{
    return !gx_ok(t->run) || t->has_r ? t->run->err.code : refuse_svd(t);
}

/* Y = Q X, X with as many rows as T has columns. */
static gx_code tall_apply(tall *t, const gx_mat *X, gx_sink *Y)
{
    if (!gx_ok(t->run)) {
        return t->run->err.code;
    }
    if (t->is_tree) {
        return gx_alg_tsqr_apply(t->run, &t->source, t->tau, &t->plan, X, Y);
    }
    return gx_alg_qr_apply(t->run, &t->source, t->tau, t->source.cols, GX_NO_TRANS, X, Y);
}

// Least squares -----------------------------------------------------------------------------------

gx_code gx_lstsq_shape(const gx_lstsq_args *args, int64_t *rows, int64_t *cols, gx_number *dtype,
                       gx_err *err)
{
    const gx_mat *A = args->A, *B = args->B;
    if (A->rows != B->rows) {
        return gx_fail(err, GX_ARG, "%s is %lldx%lld but %s is %lldx%lld", A->label,
                       (long long)A->rows, (long long)A->cols, B->label, (long long)B->rows,
                       (long long)B->cols);
    }
    if (args->is_factored && A->rows < A->cols) {
        return gx_fail(err, GX_ARG,
                       "%s is the QR of a %lldx%lld matrix, which has no minimum-norm solution in "
                       "it: give the matrix itself",
                       A->label, (long long)A->rows, (long long)A->cols);
    }
    *rows = A->cols;
    *cols = B->cols;
    *dtype = gx_number_promote(A->number, B->number);
    if (args->is_factored && *dtype != A->number) {
        return gx_fail(err, GX_ARG, "%s is a factorisation in %s but %s is %s", A->label,
                       gx_number_name(A->number), B->label, gx_number_name(B->number));
    }
    return GX_OK;
}

void gx_lstsq_tiles(gx_run *run, const gx_lstsq_args *args, int64_t *tile_rows, int64_t *tile_cols)
{
    const gx_mat *A = args->A;
    gx_number dtype = gx_number_promote(A->number, args->B->number);
    *tile_rows = *tile_cols = 0;
    if (A->rows < A->cols) {
        gx_plan_q_tiles(run, A->cols, A->rows, args->B->cols, dtype, tile_rows, tile_cols);
    }
}

/* One least-squares call. */
typedef struct problem {
    gx_run *run;
    const gx_lstsq_args *args;
    gx_lstsq_result *result;
    gx_sink *X;
    gx_number dtype;
    double rcond;
    bool is_ranked; /* result has rank and rcond */
} problem;

static void note_rank(problem *p, const gx_small_r *r)
{
    int64_t most = gx_min(p->args->A->rows, p->args->A->cols);
    p->result->rank = r->rank;
    p->result->rcond = r->rcond;
    if (!p->is_ranked && r->rank < most) {
        gx_stats_note(&p->run->ctx->stats,
                      "%s: %.64s is rank-deficient (rank %lld of %lld); the solution of minimum "
                      "norm was given",
                      p->run->label, p->args->A->label, (long long)r->rank, (long long)most);
    }
    p->is_ranked = true;
}

/* The least and the largest magnitude on a diagonal; NaN counts as the largest. */
typedef struct range {
    double least, most;
} range;

static gx_code widen(void *arg, int64_t i, gx_scalar x, gx_err *err)
{
    range *r = arg;
    double size = hypot(x.re, x.im);
    (void)i, (void)err;
    r->least = size < r->least ? size : r->least;
    r->most = size > r->most || isnan(size) ? size : r->most;
    return GX_OK;
}

/* Refuse what the diagonal of R shows to be deficient: for where the SVD of R does not fit. */
static gx_code look_at_diagonal(problem *p, const gx_mat *F)
{
    gx_run *run = p->run;
    int64_t n = gx_min(F->rows, F->cols);
    range size = {.least = (double)INFINITY};
    GX_TRY(gx_alg_each_diagonal(run, F, 0, n, widen, &size));
    p->result->rank = -1;
    p->result->rcond = (double)NAN;
    if (!isfinite(size.most)) {
        return gx_run_failf(run, GX_NUMERIC, "%s has NaN or Inf", p->args->A->label);
    }
    if (!(size.least > p->rcond * size.most)) {
        return gx_run_failf(run, GX_NUMERIC,
                            "%s is rank-deficient (R's diagonal has %g beside %g), and the SVD of "
                            "R (%lldx%lld) takes more than memory_limit allows",
                            p->args->A->label, size.least, size.most, (long long)n, (long long)n);
    }
    return GX_OK;
}

/* The rank by R. */
static gx_code find_rank(problem *p, gx_small_r *r)
{
    bool is_known;
    GX_TRY(gx_small_r_rank(r, p->rcond, p->args->wants_rcond, &is_known));
    if (!is_known) {
        gx_mat R;
        gx_mat_value(&R, p->args->A->label, r->dtype, r->n, r->n, r->r, r->n);
        return look_at_diagonal(p, &R);
    }
    note_rank(p, r);
    return GX_OK;
}

/* Rank by R, and C = Q^H B becomes the solution: columns j0 .. of X. */
static gx_code solve_top(problem *p, gx_small_r *r, gx_sink *C, int64_t j0, double rest)
{
    double dropped = 0;
    gx_err err = {0};
    GX_TRY(find_rank(p, r));
    GX_TRY(gx_small_r_solve(r, GX_NO_TRANS, C->value.data, C->cols, &dropped));
    gx_sink_write(p->X, 0, j0, C->rows, C->cols, C->value.data, gx_max(1, C->rows), &err);
    p->result->residual = hypot(p->result->residual, hypot(rest, dropped));
    return gx_run_fail(p->run, &err);
}

/* Columns of Y that go together: whole tiles, a quarter of what is free. */
static int64_t rhs_group(const problem *p, const gx_sink *Y)
{
    int64_t n = Y->rows, cols = Y->cols, tile = gx_max(1, Y->tile_cols);
    size_t most = gx_mem_available(p->run->ctx->mem) / 4, bytes;
    while (cols > tile && (!gx_matrix_bytes(n, cols, p->dtype, &bytes) || bytes > most)) {
        cols = gx_max(tile, cols / 2 / tile * tile);
    }
    return cols;
}

/*
** One pass over T, at least as high as wide, and B beside it (NULL: none): r is R, C is begun and
** becomes the first rows of Q^H B, and *rest the norm of what lies below them (NULL: not wanted).
** *is_done false: it does not fit, and nothing was done.  r and C are to be cleared in any case.
*/
static gx_code one_pass(gx_run *run, const gx_mat *T, const gx_mat *B, gx_number dtype,
                        gx_small_r *r, gx_sink *C, double *rest, bool *is_done)
{
    int64_t n = T->cols, p = B == NULL ? 0 : B->cols;
    gx_sink R = {0}, E = {0};
    gx_mat source;
    gx_tsqr_plan plan = {0};
    if (B != NULL) { // intermediates end in the opposite order of their beginnings
        gx_sink_begin_scratch(run, n, p, dtype, 0, C);
    }
    gx_sink_begin_scratch(run, n, n, dtype, 0, &R);
    if (rest != NULL) {
        gx_sink_begin_scratch(run, GX_TSQR_STRIP, p, dtype, 0, &E);
    }
    if (gx_ok(run)) {
        gx_plan_tsqr(run, T->rows, n, p, dtype, &plan);
    }
    *is_done = plan.is_possible && !R.is_stored && !C->is_stored && !E.is_stored;
    if (gx_ok(run) && *is_done) {
        gx_tsqr_args args = {.A = T, .B = B, .R = &R};
        args.C = B == NULL ? NULL : C;
        args.E = rest == NULL ? NULL : &E;
        gx_alg_tsqr(run, &args, &plan);
        gx_sink_source(&R, T->label, &source);
        gx_small_r_take(run, &source, n, dtype, r);
        if (rest != NULL && gx_ok(run)) {
            *rest = gx_small_norm(dtype, E.value.data, GX_TSQR_STRIP, GX_TSQR_STRIP, p);
        }
    }
    gx_sink_drop(&E);
    gx_sink_drop(&R); // the SVD of r may want the memory
    return run->err.code;
}

/* The same with some columns of B, which becomes the solution. */
static gx_code pass_by_tsqr(problem *p, int64_t j0, int64_t cols, bool *is_done)
{
    gx_sink C = {0};
    gx_mat B;
    gx_small_r r = {0};
    double rest = 0;
    gx_mat_view(&B, p->args->B, GX_NO_TRANS, 0, j0, p->args->A->rows, cols);
    one_pass(p->run, p->args->A, &B, p->dtype, &r, &C, p->args->wants_residual ? &rest : NULL,
             is_done);
    if (gx_ok(p->run) && *is_done) {
        solve_top(p, &r, &C, j0, rest);
    }
    gx_small_r_clear(&r);
    gx_sink_drop(&C);
    return p->run->err.code;
}

/* Columns j0 .. of Y = R^+ B, or of (R^H)^+ B, some at a time. */
static gx_code solve_groups(problem *p, gx_small_r *r, gx_trans trans, const gx_mat *B, gx_sink *Y,
                            int64_t j0)
{
    gx_run *run = p->run;
    void *top = NULL;
    int64_t n = r->n, group = gx_min(rhs_group(p, Y), B->cols);
    gx_dense_alloc(run, p->dtype, n, group, "right-hand sides", &top);
    for (int64_t j = 0; j < B->cols && gx_ok(run); j += group) {
        gx_mat part;
        gx_err err = {0};
        double dropped = 0;
        int64_t cols = gx_min(group, B->cols - j);
        gx_mat_view(&part, B, GX_NO_TRANS, 0, j, n, cols);
        if (gx_dense_load(run, &part, p->dtype, top, n) == GX_OK &&
            gx_small_r_solve(r, trans, top, cols, &dropped) == GX_OK) {
            gx_sink_write(Y, 0, j0 + j, n, cols, top, n, &err);
            p->result->residual = hypot(p->result->residual, dropped);
        }
        gx_run_fail(run, &err);
    }
    gx_mem_free(run->ctx->mem, top);
    return run->err.code;
}

/* The norm of what is below the top of Q^H B. */
static gx_code norm_below(problem *p, const gx_mat *C, int64_t top, double *norm)
{
    gx_mat below;
    *norm = 0;
    if (!p->args->wants_residual || C->rows == top) {
        return GX_OK;
    }
    gx_mat_view(&below, C, GX_NO_TRANS, top, 0, C->rows - top, C->cols);
    return gx_alg_norm(p->run, &below, 'F', norm);
}

/* X = R^-1 B or R^-H B with the stored triangle of a packed F that does not fit into memory. */
static gx_code solve_triangle(gx_run *run, const gx_mat *F, gx_trans trans, const gx_mat *B,
                              gx_sink *X)
{
    gx_mat R;
    gx_mat_view(&R, F, GX_NO_TRANS, 0, 0, F->cols, F->cols);
    gx_tri_args args = {
        .A = &R, .B = B, .side = GX_LEFT, .uplo = GX_UPPER, .trans = trans, .alpha = {1, 0}};
    return gx_alg_trsm(run, &args, X);
}

/* The rank by r, or, where it is NULL, as far as the diagonal of the stored triangle shows it. */
static gx_code rank_by(problem *p, gx_small_r *r, const gx_mat *F)
{
    return r != NULL ? find_rank(p, r) : look_at_diagonal(p, F);
}

/* Columns j0 .. of X = R^+ (Q^H B) with the packed F of A, m >= n; r NULL: of all columns. */
static gx_code pass_by_factor(problem *p, const gx_mat *F, const void *tau, gx_small_r *r,
                              int64_t j0, int64_t cols)
{
    gx_run *run = p->run;
    int64_t m = F->rows, n = F->cols, tile_rows, tile_cols;
    gx_sink C = {0};
    gx_mat B, c, head;
    double rest = 0;
    gx_mat_view(&B, p->args->B, GX_NO_TRANS, 0, j0, m, cols);
    gx_plan_panel_tiles(run, m, cols, n, p->dtype, &tile_rows, &tile_cols);
    if (rank_by(p, r, F) == GX_OK &&
        gx_qr_begin_scratch(run, m, cols, p->dtype, tile_rows, tile_cols, 0, &C) == GX_OK &&
        gx_alg_qr_apply(run, F, tau, n, GX_CONJ_TRANS, &B, &C) == GX_OK) {
        gx_sink_source(&C, "Q^H B", &c);
        gx_mat_view(&head, &c, GX_NO_TRANS, 0, 0, n, cols);
        norm_below(p, &c, n, &rest);
        p->result->residual = hypot(p->result->residual, rest);
        if (r != NULL) {
            solve_groups(p, r, GX_NO_TRANS, &head, p->X, j0);
        } else if (gx_ok(run)) {
            solve_triangle(run, F, GX_NO_TRANS, &head, p->X);
        }
    }
    gx_sink_drop(&C);
    return run->err.code;
}

// Least squares by cases --------------------------------------------------------------------------

/* With the packed F of A, m >= n; r: its triangle, NULL where that does not fit into memory. */
static gx_code solve_with_factor(problem *p, const gx_mat *F, const void *tau, gx_small_r *r)
{
    int64_t cols = p->X->cols, group = r == NULL ? cols : rhs_group(p, p->X);
    for (int64_t j = 0; j < cols && gx_ok(p->run); j += group) {
        pass_by_factor(p, F, tau, r, j, gx_min(group, cols - j));
    }
    return p->run->err.code;
}

/* m >= n. */
static gx_code solve_tall(problem *p)
{
    int64_t group = rhs_group(p, p->X);
    bool is_done = true;
    for (int64_t j = 0; j < p->X->cols && gx_ok(p->run) && is_done; j += group) {
        pass_by_tsqr(p, j, gx_min(group, p->X->cols - j), &is_done);
    }
    if (is_done || !gx_ok(p->run)) {
        return p->run->err.code;
    }
    tall t;
    if (tall_factor(p->run, p->args->A, p->dtype, false, &t) == GX_OK) {
        solve_with_factor(p, &t.source, t.tau, t.has_r ? &t.r : NULL);
    }
    tall_clear(&t);
    return p->run->err.code;
}

/* A is a packed factorisation. */
static gx_code solve_factored(problem *p)
{
    gx_small_r r;
    if (!triangle_fits(p->run, p->args->A->cols, p->dtype)) {
        return solve_with_factor(p, p->args->A, p->args->tau, NULL);
    }
    if (gx_small_r_take(p->run, p->args->A, p->args->A->cols, p->dtype, &r) == GX_OK) {
        solve_with_factor(p, p->args->A, p->args->tau, &r);
    }
    gx_small_r_clear(&r);
    return p->run->err.code;
}

/* m < n: y = (R^H)^+ B, X = Q y. */
static gx_code solve_wide(problem *p)
{
    const size_t NOT_IN_MEMORY = SIZE_MAX / 4;
    gx_run *run = p->run;
    const gx_mat *A = p->args->A;
    gx_mat adjoint, y;
    gx_sink Y = {0};
    tall t;
    gx_mat_view(&adjoint, A, GX_CONJ_TRANS, 0, 0, A->cols, A->rows);
    if (tall_factor(run, &adjoint, p->dtype, true, &t) == GX_OK &&
        rank_by(p, t.has_r ? &t.r : NULL, &t.source) == GX_OK &&
        gx_qr_begin_scratch(run, A->rows, p->X->cols, p->dtype, 0, 0, t.has_r ? 0 : NOT_IN_MEMORY,
                            &Y) == GX_OK) {
        if (t.has_r) {
            solve_groups(p, &t.r, GX_CONJ_TRANS, p->args->B, &Y, 0);
        } else {
            solve_triangle(run, &t.source, GX_CONJ_TRANS, p->args->B, &Y);
        }
        gx_sink_source(&Y, "y", &y);
        tall_apply(&t, &y, p->X);
    }
    gx_sink_drop(&Y);
    tall_clear(&t);
    return run->err.code;
}

/* 0 rows, 0 columns or no right-hand side: X is 0, the residual B. */
static gx_code solve_empty(problem *p)
{
    gx_run *run = p->run;
    const gx_mat *A = p->args->A;
    if (A->rows > 0 && A->cols > 0) {
        gx_alg_rank(run, A, -1, &p->result->rank);
    } else if (p->args->wants_residual && p->args->B->rows > 0 && p->args->B->cols > 0) {
        gx_alg_norm(run, p->args->B, 'F', &p->result->residual);
    }
    return write_zeros(run, p->X);
}

gx_code gx_alg_lstsq(gx_run *run, const gx_lstsq_args *args, gx_sink *X, gx_lstsq_result *result)
{
    const gx_mat *A = args->A;
    *result = (gx_lstsq_result){0};
    if (!gx_ok(run)) {
        return run->err.code;
    }
    problem p = {.run = run, .args = args, .result = result, .X = X, .dtype = X->number};
    p.rcond = args->rcond < 0 ? gx_rank_rcond(X->number, A->rows, A->cols) : args->rcond;
    if (A->rows == 0 || A->cols == 0 || X->cols == 0) {
        solve_empty(&p);
    } else if (args->is_factored) {
        solve_factored(&p);
    } else if (A->rows >= A->cols) {
        solve_tall(&p);
    } else {
        solve_wide(&p);
    }
    if (!args->wants_residual) {
        result->residual = (double)NAN;
    }
    return run->err.code;
}

// Rank --------------------------------------------------------------------------------------------

/* R of a tall T in one pass, or by panels where three row blocks do not fit. */
static gx_code triangle_of(gx_run *run, const gx_mat *T, gx_small_r *r)
{
    gx_sink none = {0};
    bool is_done;
    if (one_pass(run, T, NULL, T->number, r, &none, NULL, &is_done) != GX_OK || is_done) {
        return run->err.code;
    }
    tall t;
    if (tall_factor(run, T, T->number, false, &t) == GX_OK && need_triangle(&t) == GX_OK) {
        *r = t.r; // moved
        memset(&t.r, 0, sizeof t.r);
    }
    tall_clear(&t);
    return run->err.code;
}

gx_code gx_alg_rank(gx_run *run, const gx_mat *A, double tol, int64_t *rank)
{
    gx_mat T;
    gx_small_r r = {0};
    *rank = 0;
    if (!gx_ok(run) || A->rows == 0 || A->cols == 0) {
        return run->err.code;
    }
    bool is_tall = A->rows >= A->cols;
    gx_mat_view(&T, A, is_tall ? GX_NO_TRANS : GX_CONJ_TRANS, 0, 0, gx_max(A->rows, A->cols),
                gx_min(A->rows, A->cols));
    if (triangle_of(run, &T, &r) == GX_OK && gx_small_r_sigma(&r) == GX_OK) {
        double least = tol < 0 ? r.sigma[0] * gx_rank_rcond(A->number, A->rows, A->cols) : tol;
        while (*rank < r.n && r.sigma[*rank] > least) {
            ++*rank;
        }
    }
    gx_small_r_clear(&r);
    return run->err.code;
}

// Pseudo-inverse ----------------------------------------------------------------------------------

/* Y = Q (R^+)^H, T's shape: the adjoint of T's pseudo-inverse. */
static gx_code adjoint_inverse(gx_run *run, tall *t, double rcond, gx_sink *Y, int64_t *rank)
{
    void *w;
    int64_t n = t->r.n;
    gx_mat W;
    gx_diagonal ones = {.dtype = Y->number};
    bool is_known;
    if (gx_small_r_rank(&t->r, rcond, false, &is_known) != GX_OK ||
        (!is_known && refuse_svd(t) != GX_OK) ||
        gx_dense_alloc(run, Y->number, n, n, "the inverse of R", &w) != GX_OK) {
        return run->err.code;
    }
    *rank = t->r.rank;
    gx_diagonal_generate(&ones, 0, 0, n, n, Y->number, w, n);
    if (gx_small_r_solve(&t->r, GX_CONJ_TRANS, w, n, NULL) == GX_OK) {
        gx_mat_value(&W, "W", Y->number, n, n, w, n);
        tall_apply(t, &W, Y);
    }
    gx_mem_free(run->ctx->mem, w);
    return run->err.code;
}

gx_code gx_alg_pinv(gx_run *run, const gx_mat *A, double rcond, gx_sink *P, int64_t *rank)
{
    bool is_wide = A->rows < A->cols;
    gx_mat T, y;
    gx_sink Y = {0};
    tall t;
    *rank = 0;
    if (!gx_ok(run) || A->rows == 0 || A->cols == 0) {
        return run->err.code;
    }
    rcond = rcond < 0 ? gx_rank_rcond(P->number, A->rows, A->cols) : rcond;
    gx_mat_view(&T, A, is_wide ? GX_CONJ_TRANS : GX_NO_TRANS, 0, 0, gx_max(A->rows, A->cols),
                gx_min(A->rows, A->cols));
    if (!is_wide) { // intermediates end in the opposite order of their beginnings
        int64_t tile_rows, tile_cols;
        gx_plan_q_tiles(run, T.rows, T.cols, T.cols, P->number, &tile_rows, &tile_cols);
        gx_qr_begin_scratch(run, T.rows, T.cols, P->number, tile_rows, tile_cols,
                            triangle_bytes(T.cols, P->number), &Y);
    }
    if (tall_factor(run, &T, P->number, true, &t) == GX_OK && need_triangle(&t) == GX_OK) {
        adjoint_inverse(run, &t, rcond, is_wide ? P : &Y, rank);
    }
    tall_clear(&t);
    if (!is_wide && gx_ok(run)) {
        gx_sink_source(&Y, "Y", &y);
        gx_alg_transpose(run, &y, GX_CONJ_TRANS, P);
    }
    gx_sink_drop(&Y);
    return run->err.code;
}

void gx_pinv_tiles(gx_run *run, const gx_mat *A, int64_t *tile_rows, int64_t *tile_cols)
{
    *tile_rows = *tile_cols = 0;
    if (A->rows < A->cols) {
        gx_plan_q_tiles(run, A->cols, A->rows, A->rows, A->number, tile_rows, tile_cols);
    }
}
