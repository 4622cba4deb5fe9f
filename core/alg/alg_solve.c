/*
** Linear systems, op(A) X = B, for any A and any number of columns of B.
**
**   plain    A is factored (factoring.c chooses how), and all columns are solved in one pass.
**   refined  X = solve(B), then  R = B - op(A) X;  D = solve(R);  X = X + D  while it improves.
**   mixed    the same with a factor of half the precision, which costs half the time and half the
**            memory; each step gains as many digits as the factor has left (Buttari et al. 2007;
**            LAPACK's dsgesv).  Where steps gain nothing, the full precision factors again.
**
** R is computed by the product driver in the wider of f64 (c128) and A's precision, so single
** precision systems are refined with residuals of twice their digits; double precision ones with
** residuals of the same, which repairs the growth of a poor factorisation (Skeel 1980).
**
** What is kept between the steps, X, R and D of B's size, are intermediates: in memory, or in the
** temp database.  I/O of a step: A once, the factor once, and these three.
*/
#include "factoring.h"

#include "by_parts.h"
#include "dense.h"
#include "probe.h"

#include <float.h>
#include <math.h>
#include <string.h>

gx_code gx_solve_shape(const gx_solve_args *args, int64_t *n, int64_t *cols, gx_number *dtype,
                       gx_err *err)
{
    const gx_mat *A = args->A, *B = args->B;
    if (A->rows != A->cols) {
        return gx_fail(err, GX_ARG, "%s is %lldx%lld, not square: gx_lstsq solves by least squares",
                       A->label, (long long)A->rows, (long long)A->cols);
    }
    if (B->rows != A->rows) {
        return gx_fail(err, GX_ARG, "%s is %lldx%lld but %s is %lldx%lld", A->label,
                       (long long)A->rows, (long long)A->cols, B->label, (long long)B->rows,
                       (long long)B->cols);
    }
    bool is_factor = args->is_factor || args->aux != NULL;
    if (is_factor && (args->refine > 0 || args->is_mixed)) {
        return gx_fail(err, GX_ARG,
                       "%s is a factor, and refinement needs the matrix that it is the factor of",
                       A->label);
    }
    *n = A->rows;
    *cols = B->cols;
    *dtype = gx_number_promote(A->number, B->number);
    if (args->is_mixed && !gx_number_is_double(*dtype)) {
        return gx_fail(err, GX_ARG, "\"precision\":\"mixed\" is for f64 and c128, but X is %s",
                       gx_number_name(*dtype));
    }
    return GX_OK;
}

// One step ----------------------------------------------------------------------------------------

typedef struct refinement {
    gx_run *run;
    const gx_solve_args *args;
    gx_factor *factor;
    gx_number wide; /* of X and R            */
    int64_t n, cols;
    double norm_a;  /* ||op(A)||_1           */
    double *norm_b; /* of each column, ||.||_1 */
    double *norm_x, *norm_r;
} refinement;

static void begin(const refinement *s, gx_number dtype, gx_sink *sink)
{
    gx_sink_begin_scratch(s->run, s->n, s->cols, dtype, gx_mem_available(s->run->ctx->mem) / 2,
                          sink);
}

static void source(const refinement *s, const gx_sink *sink, const char *label, gx_mat *mat)
{
    if (gx_ok(s->run)) {
        gx_sink_source(sink, label, mat);
    }
}

/* R = B - op(A) X. */
static void residual(const refinement *s, const gx_sink *X, gx_sink *R)
{
    gx_mat x;
    source(s, X, "X", &x);
    begin(s, s->wide, R);
    gx_matmul_args product = {.A = s->args->A,
                              .B = &x,
                              .C0 = s->args->B,
                              .transa = s->args->trans,
                              .alpha = GX_MINUS_ONE,
                              .beta = GX_ONE};
    if (gx_ok(s->run)) {
        gx_alg_matmul(s->run, &product, R);
    }
}

/*
** The largest backward error of a column of X: ||r|| / (||A|| ||x|| + ||b||), refined; mixed, in
** units of dsgesv's threshold: ||r|| / (sqrt(n) eps ||A|| ||x||).  NaN where X or R has one.
*/
static double judge(const refinement *s, const gx_sink *X, const gx_sink *R)
{
    gx_mat x, r;
    double unit = s->args->is_mixed ? sqrt((double)s->n) * DBL_EPSILON / 2 : 1;
    source(s, X, "X", &x);
    source(s, R, "R", &r);
    if (!gx_ok(s->run) || gx_alg_reduce(s->run, &x, GX_REDUCE_COL_ABS, s->norm_x) != GX_OK ||
        gx_alg_reduce(s->run, &r, GX_REDUCE_COL_ABS, s->norm_r) != GX_OK) {
        return NAN;
    }
    double most = 0;
    for (int64_t j = 0; j < s->cols && !isnan(most); j++) {
        double scale = s->norm_a * s->norm_x[j] + (s->args->is_mixed ? 0 : s->norm_b[j]);
        double error = s->norm_r[j] == 0 ? 0 : s->norm_r[j] / (unit * scale);
        most = isnan(error) || error > most ? error : most;
    }
    return most;
}

/*
** New = X + op(A)^-1 R.  R goes to the factor scaled to 1, where a correction in single precision
** cannot underflow.
*/
static void correct(const refinement *s, const gx_sink *X, const gx_sink *R, gx_sink *New)
{
    gx_run *run = s->run;
    gx_mat x, r, scaled_r, d;
    gx_sink scaled = {0}, D = {0};
    double largest = 0;
    source(s, X, "X", &x);
    source(s, R, "R", &r);
    if (gx_ok(run)) {
        gx_alg_norm(run, &r, 'M', &largest);
    }
    double unit = largest > 0 && isfinite(largest) ? largest : 1;
    begin(s, s->wide, &scaled);
    if (gx_ok(run)) {
        gx_alg_map1(run, GX_MAP_SCALE, (gx_scalar){1 / unit, 0}, &r, &scaled);
    }
    source(s, &scaled, "R", &scaled_r);
    begin(s, s->factor->dtype, &D);
    if (gx_ok(run)) {
        gx_factor_solve(s->factor, s->args->trans, &scaled_r, &D);
    }
    source(s, &D, "D", &d);
    begin(s, s->wide, New);
    if (gx_ok(run)) {
        gx_alg_map2(run, GX_MAP_ADD, GX_ONE, &x, (gx_scalar){unit, 0}, &d, New);
    }
    gx_sink_drop(&D);
    gx_sink_drop(&scaled);
}

// The loop ----------------------------------------------------------------------------------------

/*
** From the first X on, at most so many steps; *X is replaced by the better one each time.
** Returns whether the last X meets the threshold of mixed precision.
*/
static bool improve(const refinement *s, int64_t most, gx_sink *X)
{
    gx_run *run = s->run;
    gx_sink R = {0};
    residual(s, X, &R);
    double error = judge(s, X, &R);
    bool is_done = s->args->is_mixed && error <= 1;
    bool gains = error > 0;
    for (int64_t step = 0; step < most && gains && !is_done && gx_ok(run); step++) {
        gx_sink New = {0}, NewR = {0};
        correct(s, X, &R, &New);
        residual(s, &New, &NewR);
        double now = judge(s, &New, &NewR);
        gx_stats_add(&run->ctx->stats, GX_STAT_REFINEMENTS, 1);
        bool is_better = now < error;
        gains = is_better && now <= error / 2 && now > 0;
        gx_sink_drop(is_better ? &R : &NewR);
        gx_sink_drop(is_better ? X : &New);
        if (is_better) {
            *X = New;
            R = NewR;
            error = now;
        }
        is_done = s->args->is_mixed && error <= 1;
    }
    gx_sink_drop(&R);
    return is_done;
}

/* The norms that errors are measured by. */
static bool measure(refinement *s)
{
    gx_run *run = s->run;
    if (gx_dense_alloc(run, GX_F64, s->cols, 3, "norms of columns", &s->norm_b) != GX_OK) {
        return false;
    }
    s->norm_x = s->norm_b + s->cols;
    s->norm_r = s->norm_x + s->cols;
    gx_alg_norm(run, s->args->A, s->args->trans == GX_NO_TRANS ? '1' : 'I', &s->norm_a);
    gx_alg_reduce(run, s->args->B, GX_REDUCE_COL_ABS, s->norm_b);
    return gx_ok(run);
}

/* The first X, in the precision that it is refined in. */
static void start(const refinement *s, gx_sink *X)
{
    if (s->factor->dtype == s->wide) {
        begin(s, s->wide, X);
        gx_factor_solve(s->factor, s->args->trans, s->args->B, X);
        return;
    }
    gx_sink first = {0};
    gx_mat x;
    begin(s, s->wide, X);
    begin(s, s->factor->dtype, &first);
    gx_factor_solve(s->factor, s->args->trans, s->args->B, &first);
    source(s, &first, "X", &x);
    if (gx_ok(s->run)) {
        gx_copy_to_sink(s->run, &x, X);
    }
    gx_sink_drop(&first);
}

/*
** Solve and refine with the factor.  false: mixed precision has not converged, and X is as it was.
*/
static bool solve_refined(gx_run *run, const gx_solve_args *args, gx_factor *factor, int64_t most,
                          gx_sink *X)
{
    refinement s = {.run = run,
                    .args = args,
                    .factor = factor,
                    .wide = gx_number_promote(X->number, GX_F64),
                    .n = X->rows,
                    .cols = X->cols};
    gx_sink better = {0};
    gx_mat x;
    bool is_done = false;
    if (measure(&s)) {
        start(&s, &better);
        is_done = improve(&s, most, &better) || !args->is_mixed;
    }
    if (is_done && gx_ok(run)) {
        gx_sink_source(&better, "X", &x);
        gx_copy_to_sink(run, &x, X);
    }
    gx_sink_drop(&better);
    gx_mem_free(run->ctx->mem, s.norm_b);
    return is_done;
}

// Checking ----------------------------------------------------------------------------------------

/* Flops of the factorisation and of the solves. */
static double flops_of(const gx_factor *factor, int64_t cols)
{
    double n = (double)factor->n, unit = gx_number_is_complex(factor->dtype) ? 4 : 1;
    double cube = factor->kind == GX_FACTOR_CHOLESKY ? n * n * n / 3
                  : factor->kind == GX_FACTOR_LU     ? 2 * n * n * n / 3
                                                     : 0;
    return unit * (cube + 2 * n * n * (double)cols);
}

/* X against A and B (probe.c); of a factor A is not known. */
static void check_solution(gx_run *run, const gx_solve_args *args, const gx_factor *factor,
                           const gx_sink *X)
{
    gx_probe_part part = factor->kind == GX_FACTOR_CHOLESKY ? GX_PART_HERMITIAN
                         : factor->kind == GX_FACTOR_UPPER  ? GX_PART_UPPER
                         : factor->kind != GX_FACTOR_LOWER  ? GX_PART_WHOLE
                         : factor->diag == GX_UNIT          ? GX_PART_LOWER_UNIT
                                                            : GX_PART_LOWER;
    bool is_conjugated =
        part == GX_PART_HERMITIAN && args->trans == GX_TRANS && gx_number_is_complex(factor->dtype);
    bool is_known = gx_ok(run) && !args->is_factor && args->aux == NULL && !is_conjugated &&
                    factor->kind != GX_FACTOR_DIAGONAL;
    double n = (double)X->rows, elements = n * n + 2 * n * (double)X->cols;
    double bytes = elements * (double)gx_number_bytes(X->number);
    gx_mat x;
    if (is_known &&
        gx_probe_is_due(run, X->number, flops_of(factor, X->cols), bytes, elements, bytes)) {
        gx_sink_source(X, "X", &x);
        gx_probe_solve(run, args->A, part, args->trans, &x, args->B);
    }
}

// Solving -----------------------------------------------------------------------------------------

static gx_number half_of(gx_number dtype)
{
    return dtype == GX_C128 ? GX_C64 : GX_F32;
}

/*
** false: X is still to be computed.  A factorisation that fails in single precision may well
** succeed in double.
*/
static bool solve_mixed(gx_run *run, const gx_solve_args *args, gx_sink *X)
{
    gx_factor_choice choice = {.kind = args->assume, .dtype = half_of(X->number), .cols = X->cols};
    gx_factor factor;
    bool is_done = false;
    gx_factor_make(run, args->A, &choice, &factor);
    bool is_failed = gx_run_forgive(run, GX_NUMERIC);
    if (gx_ok(run) && !is_failed) {
        is_done = solve_refined(run, args, &factor, GX_MIXED_MOST, X);
    }
    gx_factor_clear(&factor);
    if (!is_done && gx_ok(run)) {
        gx_stats_note(&run->ctx->stats, "mixed precision: %s; solved in %s",
                      is_failed ? "the single precision factorisation failed"
                                : "refinement stagnated",
                      gx_number_name(X->number));
    }
    return is_done;
}

gx_code gx_alg_solve(gx_run *run, const gx_solve_args *args, gx_sink *X)
{
    if (!gx_ok(run)) {
        return run->err.code;
    }
    bool is_empty = X->rows == 0 || X->cols == 0;
    bool is_plain = !args->is_factor && args->aux == NULL && args->refine == 0 && !args->is_mixed &&
                    args->assume == GX_FACTOR_AUTO;
    if (is_plain && !is_empty && gx_parts_solve(run, args, X)) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    if (args->is_mixed && !is_empty && (solve_mixed(run, args, X) || !gx_ok(run))) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    gx_factor_choice choice = {.kind = args->assume,
                               .dtype = X->number,
                               .is_factor = args->is_factor,
                               .aux = args->aux,
                               .cols = X->cols};
    gx_factor factor;
    gx_factor_make(run, args->A, &choice, &factor);
    if (args->refine > 0 && !is_empty && gx_ok(run)) {
        gx_solve_args plain = *args;
        plain.is_mixed = false;
        solve_refined(run, &plain, &factor, args->refine, X);
    } else {
        gx_factor_solve(&factor, args->trans, args->B, X);
    }
    check_solution(run, args, &factor, X);
    gx_factor_clear(&factor);
    return gx_ok(run) ? GX_OK : run->err.code;
}
