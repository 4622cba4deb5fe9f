/*
** The norm of an inverse without the inverse: Higham's estimator, as in LAPACK's lacn2.
**
** ||M||_1 is the largest ||M x||_1 over the unit ball, a convex function whose largest value is at
** a unit vector e_j.  From x = 1/n on, each step goes uphill: y = M x, the subgradient M^H sign(y)
** names the next e_j, until none is better or five have been tried.  At last a vector of
** alternating signs catches the matrices that fool the walk.  Here M = A^-1, so each product is a
** solve with the factor, or with its conjugate transpose.
**
** Work: 4 to 11 solves of one column.  I/O: the factor as often.  Memory: three columns.  The
** estimate is a lower bound, hardly ever below a third of the norm.
**
** Higham, "FORTRAN codes for estimating the one-norm of a real or complex matrix", ACM TOMS 14,
** 1988.
*/
#include "dense.h"
#include "factoring.h"

#include <math.h>
#include <string.h>

enum { ITERATIONS_MOST = 5 };

typedef struct walk {
    gx_factor *factor;
    gx_run *run;
    gx_number wide; /* f64 or c128                    */
    int64_t n;
    int64_t step; /* doubles of an element          */
    double *x;    /* the vector; n elements of wide */
    double *sign; /* signs of the latest M x        */
    gx_trans forward, backward;
} walk;

/* x = op(A)^-1 x. */
static void apply(walk *w, gx_trans trans)
{
    gx_mat b;
    gx_sink X = {0};
    gx_mat_value(&b, "x", w->wide, w->n, 1, w->x, w->n);
    gx_sink_begin_scratch(w->run, w->n, 1, w->factor->dtype, 0, &X);
    gx_factor_solve(w->factor, trans, &b, &X);
    if (gx_ok(w->run)) {
        gx_sink_source(&X, "x", &b);
        gx_dense_load(w->run, &b, w->wide, w->x, w->n);
    }
    gx_sink_drop(&X);
    gx_run_poll(w->run);
}

static double absolute(const walk *w, int64_t i)
{
    return w->step == 1 ? fabs(w->x[i]) : hypot(w->x[2 * i], w->x[2 * i + 1]);
}

static double sum(const walk *w)
{
    double total = 0;
    for (int64_t i = 0; i < w->n; i++) {
        total += absolute(w, i);
    }
    return total;
}

static int64_t largest(const walk *w)
{
    int64_t at = 0;
    for (int64_t i = 1; i < w->n; i++) {
        at = absolute(w, i) > absolute(w, at) ? i : at;
    }
    return at;
}

/* x = sign(x), which is also kept; false where a real vector's signs are those of the last time. */
static bool take_signs(walk *w)
{
    bool is_new = w->step == 2;
    for (int64_t i = 0; i < w->n; i++) {
        if (w->step == 1) {
            double sign = w->x[i] < 0 ? -1 : 1;
            is_new = is_new || sign != w->sign[i];
            w->sign[i] = sign;
            w->x[i] = sign;
        } else {
            double size = absolute(w, i);
            w->x[2 * i] = size > 0 ? w->x[2 * i] / size : 1;
            w->x[2 * i + 1] = size > 0 ? w->x[2 * i + 1] / size : 0;
        }
    }
    return is_new;
}

static void set_unit(walk *w, int64_t at)
{
    memset(w->x, 0, (size_t)(w->n * w->step) * sizeof(double));
    w->x[at * w->step] = 1;
}

/* The walk from the middle over at most five corners. */
static double climb(walk *w)
{
    for (int64_t i = 0; i < w->n; i++) {
        w->x[i * w->step] = 1 / (double)w->n;
    }
    apply(w, w->forward);
    double best = sum(w);
    if (w->n == 1 || !gx_ok(w->run)) {
        return best;
    }
    take_signs(w);
    apply(w, w->backward);
    int64_t at = largest(w);
    for (int iteration = 2; iteration <= ITERATIONS_MOST && gx_ok(w->run); iteration++) {
        set_unit(w, at);
        apply(w, w->forward);
        double now = sum(w);
        bool is_better = now > best;
        best = isnan(now) || now > best ? now : best;
        if (!take_signs(w) || !is_better) {
            break;
        }
        apply(w, w->backward);
        int64_t next = largest(w);
        if (absolute(w, at) == absolute(w, next)) {
            break;
        }
        at = next;
    }
    return best;
}

/* ||A^-1 x||_1 of x = 1, -(1 + 1/(n-1)), 1 + 2/(n-1), ... is at most 3n/2 times the norm. */
static double alternate(walk *w)
{
    memset(w->x, 0, (size_t)(w->n * w->step) * sizeof(double));
    for (int64_t i = 0; i < w->n; i++) {
        double size = 1 + (double)i / (double)(w->n - 1);
        w->x[i * w->step] = i % 2 == 0 ? size : -size;
    }
    apply(w, w->forward);
    return 2 * sum(w) / (3 * (double)w->n);
}

gx_code gx_alg_inverse_norm(gx_factor *factor, bool is_infinity, double *norm)
{
    gx_run *run = factor->run;
    bool is_complex = gx_number_is_complex(factor->dtype);
    gx_trans adjoint = is_complex ? GX_CONJ_TRANS : GX_TRANS;
    walk w = {.factor = factor,
              .run = run,
              .wide = is_complex ? GX_C128 : GX_F64,
              .n = factor->n,
              .step = is_complex ? 2 : 1,
              .forward = is_infinity ? adjoint : GX_NO_TRANS,
              .backward = is_infinity ? GX_NO_TRANS : adjoint};
    *norm = 0;
    if (!gx_ok(run) || w.n == 0) {
        return run->err.code;
    }
    gx_err err = {0};
    size_t bytes = (size_t)(w.n * w.step) * sizeof(double);
    if (gx_mem_calloc(run->ctx->mem, bytes, "a vector", &w.x, &err) == GX_OK &&
        gx_mem_calloc(run->ctx->mem, (size_t)w.n * sizeof(double), "signs", &w.sign, &err) ==
            GX_OK) {
        double best = climb(&w);
        if (w.n > 1 && gx_ok(run) && isfinite(best)) {
            best = fmax(best, alternate(&w));
        }
        *norm = isfinite(best) ? best : (double)INFINITY;
    }
    gx_run_fail(run, &err);
    gx_mem_free(run->ctx->mem, w.x);
    gx_mem_free(run->ctx->mem, w.sign);
    return gx_ok(run) ? GX_OK : run->err.code;
}
