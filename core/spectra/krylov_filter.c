/*
** Chebyshev-filtered block Lanczos: many eigenvalues at an end of a Hermitian spectrum in a basis
** that is hardly wider than they are many.
**
**   p(A) = T_d((A - c I) / e) / T_d(t_1),   damped: c - e .. c + e,   t_1 = (first - c) / e
**
** T_d is at most 1 in magnitude on the damped interval, which holds what is not wanted, and grows
** like cosh(d acosh t) outside of it: what is wanted is spread, what is not shrinks to a cluster at
** zero.  Thick-restart Lanczos (krylov_eig.c) then runs on p(A) instead of A, and needs hardly more
** columns than there are wanted values, where plain Lanczos wants twice as many; the work on the
** basis shrinks with its square.  Passes are about as many: d over A for each block, but fewer
** blocks.  So it is chosen where a twentieth to a fifth of the values is wanted, or by name.
**
**   bounds   a few block steps with A: Ritz values are nodes, and what their vectors have of the
**            random starting block are weights, of the density of the spectrum (stochastic Lanczos
**            quadrature); Ritz values +- residuals bound the spectrum
**   cut      where by that density somewhat more than k values lie beyond
**   degree   even, such that p goes from 1 to less than 1 / SPREAD: more would cost digits
**   values   by Rayleigh-Ritz with A in the span of the k vectors
**
** p is monotonic beyond the cut, so that the k largest values of p(A) are the wanted ones if the
** k-th is beyond it; if it is not, there is another cut, and the search begins again (with A itself
** after CUTS_MOST).  "LM": the damped interval is -cut .. cut, and an even p takes both ends.
**
** (Zhou & Saad 2007; Fang & Saad 2012; Lin, Saad & Yang 2016.)  Memory: two blocks of vectors.
** I/O: d passes a step, and k / 64 passes for the values.
*/
#include "../alg/dense.h"
#include "krylov_eig_int.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Block steps of the bounds, and values of p that are not damped. */
enum { BOUND_STEPS = 12, DEGREE_MOST = 60, CUTS_MOST = 8 };
static const double SPREAD = 300;

typedef struct filter {
    gx_oper op; /* must be first: it is what the driver sees       */
    gx_oper *inner;
    gx_eig_which which;
    void *work;           /* 2 n x block                                         */
    double lo, hi;        /* bounds of the spectrum                              */
    double cut;           /* by rank: what is wanted is above it                 */
    double centre, half;  /* the damped interval                                 */
    double first;         /* t_1                                                 */
    int degree;           /* even                                                */
    int cuts;             /* so far                                              */
    double want;          /* values beyond the cut, as it was chosen             */
    int64_t count;        /* nodes                                               */
    double *node, *share; /* by descending rank, and how many values they are    */
} filter;

void gx_kry_free_filter(gx_kry *s)
{
    filter *f = s->filter;
    if (f != NULL) {
        gx_mem_free(s->run->ctx->mem, f->work);
        gx_mem_free(s->run->ctx->mem, f->node);
        gx_mem_free(s->run->ctx->mem, f);
    }
    s->filter = NULL;
}

/* Larger is wanted more. */
static double rank_of(gx_eig_which which, double value)
{
    return which == GX_EIG_SMALLEST_REAL  ? -value
           : which == GX_EIG_LARGEST_REAL ? value
                                          : fabs(value);
}

bool gx_kry_can_filter(const gx_eig_args *args)
{
    return args->is_hermitian &&
           (args->which == GX_EIG_LARGEST_REAL || args->which == GX_EIG_SMALLEST_REAL ||
            args->which == GX_EIG_LARGEST_MAGNITUDE);
}

/* ---- p(A) x ---------------------------------------------------------------------------------- */

/* y = a (y - c x) + b z, z NULL: nothing; count reals of dtype's precision. */
static void combine(gx_dtype dtype, int64_t count, double a, double c, const void *x, double b,
                    const void *z, void *y)
{
    if (gx_dtype_is_double(dtype)) {
        const double *xd = x, *zd = z;
        double *yd = y;
        for (int64_t i = 0; i < count; i++) {
            yd[i] = a * (yd[i] - c * xd[i]) + (zd == NULL ? 0 : b * zd[i]);
        }
        return;
    }
    const float *xf = x, *zf = z;
    float *yf = y;
    for (int64_t i = 0; i < count; i++) {
        double old = zf == NULL ? 0 : b * (double)zf[i];
        yf[i] = (float)(a * ((double)yf[i] - c * (double)xf[i]) + old);
    }
}

/* The three-term recurrence, scaled so that p(first) = 1 at every degree: nothing overflows. */
static gx_code apply_filter(gx_oper *op, bool is_adjoint, const void *x, int64_t cols, void *y)
{
    filter *f = (filter *)(void *)op;
    gx_run *run = op->run;
    int64_t count = op->n * cols * (gx_dtype_is_complex(op->dtype) ? 2 : 1);
    size_t bytes = (size_t)(op->n * cols) * gx_dtype_bytes(op->dtype);
    const void *before = x;
    void *older = NULL; // the same, where it is ours
    void *now = f->work, *next = (char *)f->work + bytes, *spare = y;
    double first = 1 / f->first, sigma = first;
    if (!gx_ok(run) || f->inner->apply(f->inner, is_adjoint, x, cols, now) != GX_OK) {
        return run->err.code;
    }
    combine(op->dtype, count, sigma / f->half, f->centre, x, 0, NULL, now);
    for (int i = 2; i <= f->degree && gx_ok(run); i++) {
        double after = 1 / (2 / first - sigma);
        if (f->inner->apply(f->inner, is_adjoint, now, cols, next) == GX_OK) {
            combine(op->dtype, count, 2 * after / f->half, f->centre, now, -sigma * after, before,
                    next);
        }
        void *freed = older == NULL ? spare : older;
        before = older = now;
        now = next;
        next = freed;
        sigma = after;
    }
    if (gx_ok(run) && now != y) {
        memcpy(y, now, bytes);
    }
    op->passes++;
    return gx_ok(run) ? GX_OK : run->err.code;
}

/* ---- cut and degree -------------------------------------------------------------------------- */

/* The rank beyond which `want` values lie, by the density. */
static double cut_for(const filter *f, double want)
{
    double above = 0, rank = fmax(rank_of(f->which, f->lo), rank_of(f->which, f->hi));
    for (int64_t i = 0; i < f->count; i++) {
        double here = rank_of(f->which, f->node[i]), middle = above + f->share[i] / 2;
        double before = i == 0 ? 0 : above - f->share[i - 1] / 2;
        if (middle >= want) {
            return rank + (here - rank) * (want - before) / fmax(middle - before, DBL_MIN);
        }
        above += f->share[i];
        rank = here;
    }
    return rank;
}

/*
** The damped interval and the degree.  false: there is no such interval, or what is wanted stands
** so far from it that Lanczos needs no filter.
*/
static bool set_cut(filter *f)
{
    double lo = f->lo, hi = f->hi, first = hi;
    f->cut = cut_for(f, f->want);
    bool wants_low = f->which != GX_EIG_LARGEST_REAL && lo < -f->cut;
    bool wants_high = f->which != GX_EIG_SMALLEST_REAL && hi > f->cut;
    first = wants_low && wants_high ? fmax(-lo, hi) : wants_low ? lo : hi;
    lo = wants_low ? -f->cut : lo;
    hi = wants_high ? f->cut : hi;
    f->centre = (lo + hi) / 2;
    f->half = (hi - lo) / 2;
    double size = fmax(fabs(f->lo), fabs(f->hi));
    f->first = f->half > 1e-6 * size ? (first - f->centre) / f->half : 0;
    if (!(fabs(f->first) > 1 + 1e-6) || !(2 * f->first * f->first - 1 < 2 * SPREAD)) {
        return false;
    }
    int degree = (int)ceil(fmin(acosh(SPREAD) / acosh(fabs(f->first)), DEGREE_MOST));
    degree += degree % 2;
    f->degree = degree < 2 ? 2 : degree;
    f->cuts++;
    return true;
}

double gx_kry_filter_damped(const gx_kry *s)
{
    const filter *f = s->filter;
    return 1 / cosh(f->degree * acosh(fabs(f->first)));
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* Nodes by descending rank: a few dozen. */
static void sort_nodes(filter *f)
{
    for (int64_t i = 1; i < f->count; i++) {
        double node = f->node[i], share = f->share[i];
        int64_t j = i;
        for (; j > 0 && rank_of(f->which, f->node[j - 1]) < rank_of(f->which, node); j--) {
            f->node[j] = f->node[j - 1];
            f->share[j] = f->share[j - 1];
        }
        f->node[j] = node;
        f->share[j] = share;
    }
}

/* From a basis whose first `begun` columns are random, and its Ritz values. */
static void measure(gx_kry *s, filter *f, int64_t begun)
{
    const gx_scalar *Q = s->Q;
    f->count = s->m;
    for (int64_t i = 0; i < s->m; i++) {
        double weight = 0, value = s->theta[i].re;
        for (int64_t r = 0; r < begun; r++) {
            gx_scalar q = Q[i * s->m + r];
            weight += q.re * q.re + q.im * q.im;
        }
        f->node[i] = value;
        f->share[i] = weight * (double)s->n / (double)begun;
        gx_kry_ritz_vector(s, i, s->x);
        double residual = gx_kry_residual_of(s, s->x);
        f->lo = i == 0 ? value - residual : fmin(f->lo, value - residual);
        f->hi = i == 0 ? value + residual : fmax(f->hi, value + residual);
    }
    sort_nodes(f);
}

/* The search begins, with p(A) or with A. */
static void search(gx_kry *s, filter *f, bool is_filtered)
{
    s->is_filtered = is_filtered;
    s->op = is_filtered ? &f->op : f->inner;
    s->which = is_filtered ? GX_EIG_LARGEST_REAL : f->which; // of p
    s->is_locked = s->is_sure = false;
    s->ortho.norm = 0;
    s->steps = 0;
    gx_kry_start(s);
}

void gx_kry_begin_filter(gx_kry *s)
{
    int64_t begun = s->f, most = gx_min(s->ncv, BOUND_STEPS * s->block);
    void *memory = NULL, *work = NULL, *nodes = NULL;
    gx_err err = {0};
    gx_kry_expand(s, most);
    if (gx_ok(s->run)) {
        gx_kry_find_ritz(s);
    }
    if (!gx_ok(s->run) || s->f == 0) { // the basis is the whole space: nothing is left to do
        return;
    }
    gx_mem_calloc(s->run->ctx->mem, sizeof(filter), "a filter", &memory, &err);
    gx_run_fail(s->run, &err);
    s->filter = memory;
    gx_dense_alloc(s->run, s->dtype, 2 * s->n * s->block, "a filter's vectors", &work);
    gx_dense_alloc(s->run, GX_F64, 2 * s->m, "a density", &nodes);
    if (!gx_ok(s->run)) {
        gx_mem_free(s->run->ctx->mem, work);
        gx_mem_free(s->run->ctx->mem, nodes);
        return;
    }
    filter *f = memory;
    *f = (filter){
        .op = {.run = s->run, .m = s->n, .n = s->n, .dtype = s->dtype, .apply = apply_filter},
        .inner = s->op,
        .which = s->args->which,
        .work = work,
        .node = nodes,
        .share = (double *)nodes + s->m,
        .want = 1.25 * (double)s->k + (double)s->block};
    measure(s, f, begun);
    if (set_cut(f)) {
        search(s, f, true);
    } else {
        gx_kry_free_filter(s);
    }
}

/* ---- from p(A) back to A --------------------------------------------------------------------- */

/* H = X^H A X of the basis's m columns, which are X; what is behind them is overwritten. */
static void project(gx_kry *s)
{
    int64_t m = s->m, room = s->ncv + 2 * s->block - m;
    int64_t width = gx_min(gx_min(GX_KRY_BLOCK_MOST, room), s->ld);
    gx_trans adjoint = gx_dtype_is_complex(s->dtype) ? GX_CONJ_TRANS : GX_TRANS;
    void *ax = gx_kry_column(s, m);
    for (int64_t j = 0; j < m && gx_ok(s->run); j += width) {
        int64_t cols = gx_min(width, m - j);
        s->op->apply(s->op, false, gx_kry_column(s, j), cols, ax);
        gx_kry_gemm(s->run, s->dtype, adjoint, GX_NO_TRANS, m, cols, s->n, 1, s->V, s->n, ax, s->n,
                    0, s->small, m);
        if (gx_ok(s->run)) {
            gx_convert(s->dtype, s->small, m, s->wide, gx_kry_h_at(s, s->H, 0, j), s->ld, m, cols);
        }
    }
}

/* Another cut, since only `beyond` values were beyond this one; at last none. */
static void move_cut(gx_kry *s, filter *f, int64_t beyond)
{
    double missing = (double)s->k / (double)gx_max(beyond, 1);
    f->want = fmin(f->want * fmin(1.1 * missing, 2) + (double)s->block, (double)s->n);
    search(s, f, f->cuts < CUTS_MOST && set_cut(f));
}

bool gx_kry_recut(gx_kry *s)
{
    const double CLEAR = 1.5; // of what p makes of the damped ones
    double least = CLEAR * gx_kry_filter_damped(s);
    int64_t beyond = 0;
    for (int64_t i = 0; i < gx_min(s->k, s->m); i++) {
        beyond += s->theta[s->order[i]].re > least ? 1 : 0;
    }
    if (beyond < s->k) {
        move_cut(s, s->filter, beyond);
    }
    return beyond < s->k;
}

bool gx_kry_end_filter(gx_kry *s)
{
    filter *f = s->filter;
    if (!s->is_filtered || (s->converged < s->k && !s->args->allows_partial)) {
        return true;
    }
    int64_t count = gx_kry_take_converged(s);
    gx_kry_restart(s, count);
    s->op = f->inner;
    s->which = s->args->which;
    s->is_filtered = false;
    project(s);
    s->f = 0;
    if (!gx_ok(s->run) || count == 0) {
        return true;
    }
    gx_kry_find_ritz(s);
    int64_t beyond = 0;
    for (int64_t i = 0; i < count && gx_ok(s->run); i++) {
        double value = s->value[s->order[i]].re;
        beyond += rank_of(f->which, value) > f->cut ? 1 : 0;
        f->lo = fmin(f->lo, value);
        f->hi = fmax(f->hi, value);
    }
    if (gx_ok(s->run) && beyond < count) {
        move_cut(s, f, beyond);
        return false;
    }
    return true;
}
