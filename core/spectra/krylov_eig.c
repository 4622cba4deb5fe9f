/*
** Few eigenvalues of a matrix of any size: block Krylov-Schur with thick restart.
**
**   Op V = V H + F C         V: n x m, F: n x f, [V F] orthonormal; H: m x m, C: f x m
**
**   expand   V := [V F]; Y = Op F (one pass); Y = V h + F' S by block Gram-Schmidt, twice;
**            H gains the rows C and the columns h; C := [0 S]; until m reaches ncv
**   Ritz     values of H; residual of a vector V y is ||C y||
**   restart  W spans the invariant subspace of H of the p wanted values, conjugate pairs kept
**            together: V := V W, H := W^H H W, C := C W
**
** (Stewart 2001; Zhou & Saad 2008 for blocks.)  For a Hermitian Op, W are eigenvectors of H and
** this is thick-restart Lanczos (Wu & Simon 2000) with full orthogonalisation, which a dense matrix
** pays many times over; else W comes from an ordered Schur form, the real one where A is real.
**
** A block of f columns finds f copies of a multiple value.  When k values have converged, the rest
** of the basis is dropped, they are locked (C := 0), and a random block looks for what was missed
** outside of them, until the k values are first again and the best of the others is known well
** enough to stand behind them, or as many steps have passed as the k values took.
**
** nearest, smallest: the same for (A - sigma B)^-1, factorised once (krylov_inverse.c); value =
** sigma + 1 / theta.  B = L L^H: for L^-1 A L^-H.
**
** I/O: a pass over A for f columns (none where it is in memory, see krylov_oper.c), and one for the
** residuals.  Memory: basis and block, n x (ncv + 2 block), and the projected problem; neither
** depends on the budget, so that in deterministic mode the bits do not either.
*/
#include "../alg/dense.h"
#include "krylov_eig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RESTARTS = 300 };

// Sizes -------------------------------------------------------------------------------------------

static gx_number dtype_of(const gx_eig_args *args)
{
    gx_number dtype = args->A->number;
    if (args->B != NULL) {
        dtype = gx_number_promote(dtype, args->B->number);
    }
    bool is_complex_shift = args->which == GX_EIG_NEAREST && args->sigma.im != 0;
    return is_complex_shift ? gx_number_promote(dtype, GX_C64) : dtype;
}

static bool is_inverse(const gx_eig_args *args)
{
    return args->which == GX_EIG_NEAREST || args->which == GX_EIG_SMALLEST_MAGNITUDE;
}

/* Blocks, basis, tolerance: from the arguments alone. */
void gx_krylov_eig_sizes(const gx_eig_args *args, gx_krylov_sizes *sizes)
{
    int64_t n = args->A->rows, k = args->k;
    // A general matrix takes a polynomial of a higher degree, hence more and narrower blocks.
    enum { WIDE = 8, NARROW = 4, FEW = 4, BLOCKS = 16, BLOCKS_GENERAL = 24 };
    // Inverses part values well, and a sparse one costs more than the basis: short steps.
    enum { SHORT = 2, BESIDE = 10 };
    bool is_short = args->A->is_sparse && is_inverse(args);
    int64_t usual = is_short ? SHORT : k >= FEW && args->is_hermitian ? WIDE : NARROW;
    int64_t block = gx_kry_chosen(args->block, usual);
    sizes->block = gx_max(1, gx_min(gx_min(block, GX_KRY_BLOCK_MOST), n));
    int64_t blocks = args->is_hermitian ? BLOCKS : BLOCKS_GENERAL;
    int64_t beside = args->is_hermitian ? 4 : 8;
    int64_t ncv = gx_max(2 * k + beside * sizes->block, blocks * sizes->block);
    ncv = is_short ? 2 * k + gx_max(BESIDE, beside * sizes->block) : ncv;
    sizes->ncv = gx_min(n, gx_kry_chosen(args->ncv, ncv));
    // Two blocks at least beside the wanted ones.
    sizes->block = gx_max(1, gx_min(sizes->block, (sizes->ncv - k) / 2));
    sizes->maxiter = gx_kry_chosen(args->maxiter, RESTARTS);
    double rounding = gx_number_is_double(dtype_of(args)) ? 1e-14 : 2e-6;
    sizes->tol = args->tol > 0 ? args->tol : rounding;
}

int64_t gx_krylov_eig_kept(int64_t k, int64_t m, int64_t ncv, int64_t block)
{
    return gx_max(1, gx_min(gx_max(k + 1, m / 2), gx_max(k, ncv - block - 1)));
}

static size_t work_bytes(const gx_eig_args *args, gx_number dtype, const gx_krylov_sizes *s)
{
    double n = (double)args->A->rows, ncv = (double)s->ncv, b = (double)s->block;
    double bytes = n * (ncv + 2 * b) * (double)gx_number_bytes(dtype);
    bytes += (double)gx_ortho_work(dtype, args->A->rows, s->ncv, s->block) *
             (double)gx_number_bytes(dtype);
    bytes += (ncv + b) * (ncv + b) * 16 * 8 + n * (double)args->k * 16 * 2;
    return bytes < 1e18 ? (size_t)bytes : SIZE_MAX / 4;
}

size_t gx_krylov_eig_bytes(const gx_eig_args *args)
{
    gx_krylov_sizes sizes;
    gx_krylov_eig_sizes(args, &sizes);
    gx_number dtype = dtype_of(args);
    double bytes =
        (double)work_bytes(args, dtype, &sizes) + (double)gx_oper_floor_bytes(args->A, dtype);
    return bytes < 1e18 ? (size_t)bytes : SIZE_MAX / 4;
}

// Begin, end --------------------------------------------------------------------------------------

static gx_code check(gx_run *run, const gx_eig_args *args)
{
    int64_t n = args->A->rows;
    if (gx_kry_check_sizes(run, n, args->k, args->ncv, args->block) != GX_OK) {
        return run->err.code;
    }
    if (args->start != NULL && args->start->rows != n) {
        return gx_run_failf(run, GX_ARG,
                            "the start is %lldx%lld but %s is %lldx%lld: it must have %lld rows",
                            (long long)args->start->rows, (long long)args->start->cols,
                            args->A->label, (long long)n, (long long)n, (long long)n);
    }
    if (args->start != NULL && gx_number_is_complex(args->start->number) &&
        !gx_number_is_complex(dtype_of(args))) {
        return gx_run_failf(run, GX_ARG, "the start is complex but %s is real", args->A->label);
    }
    if (args->B != NULL && !args->is_hermitian) {
        return gx_run_failf(run, GX_ARG, "%s must be Hermitian where a b is given", args->A->label);
    }
    return GX_OK;
}

static void reserve(gx_kry *s)
{
    gx_run *run = s->run;
    int64_t M = s->ld, n = s->n, b = s->block;
    s->V = gx_dense_take(run, s->dtype, n, s->ncv + 2 * b, "the Krylov basis");
    s->ortho.work =
        gx_dense_take(run, s->dtype, gx_ortho_work(s->dtype, n, M, b), 1, "inner products");
    s->H = gx_dense_take(run, s->wide, M, M, "the projected matrix");
    s->C = gx_dense_take(run, s->wide, b, M, "the projected matrix");
    s->h = gx_dense_take(run, s->wide, M, b, "the projected matrix");
    s->s = gx_dense_take(run, s->wide, b, b, "the projected matrix");
    s->T = gx_dense_take(run, s->wide, M, M, "a Schur form");
    s->Q = gx_dense_take(run, s->wide, M, M, "a Schur form");
    s->vectors = gx_dense_take(run, GX_C128, M, M, "Ritz vectors");
    s->theta = gx_dense_take(run, GX_C128, M, 1, "Ritz values");
    s->value = gx_dense_take(run, GX_C128, M, 1, "Ritz values");
    s->residual = gx_dense_take(run, GX_F64, M, 1, "residuals");
    s->order = gx_dense_take(run, GX_F64, M, 1, "an order");
    s->joined = gx_dense_take(run, GX_F64, M, 1, "an order");
    s->is_wanted = gx_dense_take(run, GX_F64, M, 1, "an order");
    s->W = gx_dense_take(run, s->wide, M, M, "a rotation");
    s->small = gx_dense_take(run, s->wide, M, M, "a rotation");
    s->locked = gx_dense_take(run, GX_C128, s->k, 1, "eigenvalues");
}

static void end(gx_kry *s)
{
    void *owned[] = {s->V, s->ortho.work, s->H,      s->C,        s->h,     s->s,
                     s->T, s->Q,          s->theta,  s->value,    s->order, s->residual,
                     s->W, s->small,      s->locked, s->joined,   s->vectors, s->is_wanted};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        gx_mem_free(s->run->ctx->mem, owned[i]);
    }
    gx_oper_end(&s->transformed);
    gx_oper_end(&s->matrix);
}

/* A, or what is made of it. */
static void begin_operator(gx_kry *s)
{
    const gx_eig_args *args = s->args;
    s->op = &s->matrix;
    double dense = gx_oper_transformed_bytes(s->n, s->dtype, args->B != NULL, s->is_inverse);
    size_t keep = (size_t)(s->n * s->k) * 32 + (256 << 10);
    if (gx_oper_begin(s->run, args->A, s->dtype, args->is_hermitian,
                      s->is_inverse ? SIZE_MAX / 4 : (size_t)dense + keep, &s->matrix) != GX_OK) {
        return;
    }
    if (s->is_inverse || args->B != NULL) {
        gx_scalar sigma = args->which == GX_EIG_NEAREST ? args->sigma : (gx_scalar){0, 0};
        s->op = &s->transformed;
        if (args->A->is_sparse) {
            gx_oper_begin_sparse_inverse(s->run, &s->matrix, sigma, &s->transformed);
            return;
        }
        gx_oper_begin_transformed(s->run, &s->matrix, args->B, s->is_inverse, sigma, keep,
                                  &s->transformed);
    }
}

static void begin(gx_kry *s)
{
    const gx_eig_args *args = s->args;
    gx_krylov_sizes sizes;
    gx_krylov_eig_sizes(args, &sizes);
    s->n = args->A->rows;
    s->k = args->k;
    s->block = sizes.block;
    s->ncv = sizes.ncv;
    s->maxiter = sizes.maxiter;
    s->which = args->which;
    s->dtype = dtype_of(args);
    s->wide = gx_number_wide(s->dtype);
    s->is_real = s->wide == GX_F64;
    s->is_inverse = is_inverse(args);
    s->is_hermitian = args->is_hermitian && (!s->is_inverse || args->sigma.im == 0);
    s->ld = s->ncv + s->block;
    s->tol = sizes.tol;
    char what[64];
    snprintf(what, sizeof what, "%lld eigenvalues with a basis of %lld", (long long)s->k,
             (long long)s->ncv);
    if (gx_dense_fits(s->run, gx_krylov_eig_bytes(args), what, args->A,
                      "ask for fewer or a smaller ncv, or raise it with "
                      "gx_config('memory_limit', ...)") != GX_OK) {
        return;
    }
    s->ortho = (gx_ortho){.run = s->run, .dtype = s->dtype, .n = s->n, .seed = args->seed};
    reserve(s);
    begin_operator(s);
    gx_kry_start(s);
}

// The loop ----------------------------------------------------------------------------------------

/*
** Can the k values be locked: is what C couples to their span rounding?  The vectors of a Schur
** form span what nearly parallel eigenvectors do, whose own residuals say less.
*/
static bool can_lock(gx_kry *s)
{
    int64_t m = s->m, p = s->k, b = s->block;
    double sum = 0, eps = gx_number_eps(s->dtype);
    if (s->is_hermitian || s->f == 0) {
        return true;
    }
    while (gx_kry_splits_pair(s, p)) {
        p++;
    }
    size_t bytes = (size_t)(m * m) * gx_number_bytes(s->wide);
    void *T = s->T, *Q = s->Q;
    memcpy(s->W, T, bytes);
    memcpy(s->small, Q, bytes);
    s->T = s->W;
    s->Q = s->small;
    p = gx_kry_order_span(s, p);
    gx_dense_gemm(s->run, s->wide, GX_NO_TRANS, GX_NO_TRANS, s->f, p, m, 1, s->C, b, s->Q, m, 0,
                  s->W, s->f);
    s->T = T;
    s->Q = Q;
    for (int64_t j = 0; j < p && gx_ok(s->run); j++) {
        sum = hypot(sum, gx_kry_norm(s->wide, gx_at(s->W, s->wide, s->f, 0, j), s->f));
    }
    const double ROUNDINGS = 16;
    return p >= s->k && sum <= fmax(s->tol, ROUNDINGS * eps * sqrt((double)p)) * s->largest;
}

/* The k values are locked, the rest of the basis goes, and a random block begins. */
static void lock(gx_kry *s)
{
    for (int64_t i = 0; i < s->k; i++) {
        s->locked[i] = s->value[s->order[i]];
    }
    s->is_locked = true;
    s->steps_found = s->steps;
    gx_kry_restart(s, s->k);
    s->f = gx_min(s->block, s->n - s->m);
    if (gx_ok(s->run) && s->f > 0) {
        memset(s->C, 0, (size_t)(s->block * s->m) * gx_number_bytes(s->wide));
        gx_ortho_block(&s->ortho, s->V, s->m, gx_kry_column(s, s->m), 0, s->f, NULL, 0, NULL, 0);
    }
}

static double key_of(const gx_kry *s, gx_scalar value)
{
    gx_scalar sigma = s->which == GX_EIG_NEAREST ? s->args->sigma : (gx_scalar){0, 0};
    return gx_eig_key(s->which, sigma, value);
}

/* Are the first k those that were locked?  Of equals either may come first. */
static bool is_same(const gx_kry *s)
{
    bool same = s->converged >= s->k;
    for (int64_t i = 0; i < s->k && same; i++) {
        gx_scalar a = s->locked[i], b = s->value[s->order[i]];
        double scale = s->is_inverse ? hypot(a.re, a.im) : s->largest;
        same = fabs(key_of(s, a) - key_of(s, b)) <= fmax(100 * s->tol, 1e-9) * scale;
    }
    return same;
}

/*
** Is the best of the others known well enough to stand behind the k-th: is its residual smaller
** than its distance?  A missed copy would be found no later than the k values were, so that as many
** steps as they took are enough without that.
*/
static bool is_apart(const gx_kry *s)
{
    int64_t next = gx_kry_splits_pair(s, s->k) ? s->k + 1 : s->k;
    if (next >= s->m || gx_kry_has_converged(s, next)) {
        return true;
    }
    gx_scalar last = s->theta[s->order[s->k - 1]], other = s->theta[s->order[next]];
    double gap = key_of(s, other) - key_of(s, last);
    if (s->is_inverse) {
        gap = hypot(last.re, last.im) - hypot(other.re, other.im);
    }
    return s->residual[next] <= gap || s->steps >= 2 * s->steps_found;
}

/*
** Restarts until the k values have converged, and again with a random block until none can have
** been missed, or maxiter is over.
*/
static void iterate(gx_kry *s)
{
    for (int64_t step = 0; gx_ok(s->run); step++) {
        gx_kry_expand(s, s->is_locked ? gx_min(s->ncv, s->m + GX_KRYLOV_CHECK_STEPS * s->block)
                                      : s->ncv);
        if (gx_ok(s->run)) {
            gx_kry_find_ritz(s);
        }
        if (!gx_ok(s->run)) {
            return;
        }
        s->is_sure = s->f == 0 || (s->is_locked && is_same(s) && is_apart(s));
        if (s->is_sure || step >= s->maxiter) {
            return;
        }
        if (s->converged >= s->k && !(s->is_locked && is_same(s)) && can_lock(s)) {
            lock(s);
        } else if (s->m + s->f > s->ncv) {
            gx_kry_restart(s, gx_krylov_eig_kept(s->k, s->m, s->ncv, s->block));
        } else if (s->is_locked) {
            step--; // the basis is not full yet
        }
    }
}

gx_code gx_kry_find_right(gx_run *run, const gx_eig_args *args, gx_eig_result *result)
{
    gx_kry s = {.run = run, .args = args, .result = result};
    if (!gx_ok(run) || check(run, args) != GX_OK) {
        return run->err.code;
    }
    begin(&s);
    if (gx_ok(run)) {
        iterate(&s);
    }
    if (gx_ok(run)) {
        gx_kry_give(&s);
    }
    end(&s);
    return gx_ok(run) ? GX_OK : run->err.code;
}
