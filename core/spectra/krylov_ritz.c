/*
** Block Krylov-Schur: the projected problem.  See krylov_eig.c.
**
** Ritz values are those of H, in the order that is asked for; the residual of a vector V y is
** ||C y||.  Hermitian: eigenvectors of H; else a Schur form.  Work O(m^3) a restart, m the columns
** of the basis.
*/
#include "../alg/dense.h"
#include "krylov_eig_int.h"

#include <math.h>
#include <string.h>

static gx_scalar back(const gx_kry *s, gx_scalar theta)
{
    if (!s->is_inverse) {
        return theta;
    }
    gx_scalar sigma = s->op->sigma;
    double size = hypot(theta.re, theta.im);
    if (size == 0) {
        return (gx_scalar){(double)INFINITY, 0};
    }
    return (gx_scalar){sigma.re + theta.re / size / size, sigma.im - theta.im / size / size};
}

/* The eigenvectors of H's lower triangle. */
static void solve_hermitian(gx_kry *s)
{
    int64_t m = s->m;
    gx_convert(s->wide, s->H, s->ld, s->wide, s->W, m, m, m);
    gx_args args = {.uplo = GX_LOWER,
                    .m = m,
                    .n = m,
                    .c = s->W,
                    .ldc = m,
                    .values = s->residual, // for a moment
                    .wants_right = true};
    if (gx_dense_call(s->run, GX_SYEV, s->wide, &args) == GX_OK) {
        gx_convert(s->wide, s->W, m, GX_C128, s->vectors, m, m, m);
        for (int64_t i = 0; i < m; i++) {
            s->theta[i] = (gx_scalar){s->residual[i], 0};
        }
    }
}

static void solve_general(gx_kry *s)
{
    int64_t m = s->m;
    gx_convert(s->wide, s->H, s->ld, s->wide, s->T, m, m, m);
    gx_args args = {.m = m, .n = m, .c = s->T, .values = s->theta, .right = s->Q};
    args.left = s->vectors;
    args.ldc = args.ldleft = args.ldright = gx_max(1, m);
    args.wants_left = args.wants_right = true;
    gx_dense_call(s->run, GX_GEES, s->wide, &args);
}

/*
** Of a real H it is the real Schur form: a span of the first columns of Q is invariant and real
** wherever it does not part a conjugate pair.  A complex form would not do: where values are
** ill-conditioned, its rounding leaves no set of them that is closed under conjugation.
*/
int64_t gx_kry_order_span(gx_kry *s, int64_t p)
{
    int64_t m = s->m, front = 0;
    memset(s->is_wanted, 0, (size_t)m * sizeof *s->is_wanted);
    for (int64_t j = 0; j < p; j++) {
        s->is_wanted[s->order[j]] = true;
    }
    for (int64_t i = 0, size; i < m && gx_ok(s->run); i += size) {
        bool is_pair = s->is_real && i + 1 < m && *(double *)gx_at(s->T, s->wide, m, i + 1, i) != 0;
        size = is_pair ? 2 : 1;
        int64_t at = i;
        gx_args args = {.n = m, .c = s->T, .ldc = m, .right = s->Q, .ldright = m, .pivots = &at};
        args.pivot_first = i;
        args.pivot_last = front;
        if (s->is_wanted[i] && i > front) {
            gx_dense_call(s->run, GX_TREXC, s->wide, &args);
        }
        front += s->is_wanted[i] && at == front ? size : 0;
    }
    return front;
}

/* ||C x||. */
static double residual_of(const gx_kry *s, const gx_scalar *x)
{
    double sum = 0;
    int64_t parts = s->wide == GX_C128 ? 2 : 1;
    for (int64_t i = 0; i < s->f; i++) {
        gx_scalar r = {0, 0};
        for (int64_t j = 0; j < s->m; j++) {
            const double *c = gx_at(s->C, s->wide, s->block, i, j);
            double im = parts == 2 ? c[1] : 0;
            r.re += c[0] * x[j].re - im * x[j].im;
            r.im += c[0] * x[j].im + im * x[j].re;
        }
        sum = hypot(sum, hypot(r.re, r.im));
    }
    return sum;
}

bool gx_kry_has_converged(const gx_kry *s, int64_t i)
{
    gx_scalar theta = s->theta[s->order[i]];
    bool is_relative = s->is_inverse || !s->is_hermitian;
    double scale = is_relative ? hypot(theta.re, theta.im) : s->largest;
    double rounding = 8 * gx_number_eps(s->dtype);
    return s->f == 0 || s->residual[i] <= fmax(s->tol * scale, rounding * s->largest);
}

/*
** The order with the two of a pair side by side, the positive imaginary part first, even where
** other pairs have the same place.  marks: m flags.
*/
static void join_pairs(const gx_kry *s, bool *is_placed, int64_t *joined)
{
    int64_t count = 0;
    memset(is_placed, 0, (size_t)s->m * sizeof *is_placed);
    for (int64_t p = 0; p < s->m; p++) {
        int64_t i = s->order[p];
        i -= s->theta[i].im < 0 ? 1 : 0; // where T's block begins
        if (!is_placed[i]) {
            bool is_flipped = s->value[i].im < 0; // by the inversion
            joined[count++] = is_flipped ? i + 1 : i;
            is_placed[i] = true;
            if (s->theta[i].im != 0) {
                joined[count++] = is_flipped ? i : i + 1;
            }
        }
    }
    memcpy(s->order, joined, (size_t)s->m * sizeof *joined);
}

/* Values, their order, residuals of the first k + 2, and how many of them have converged. */
void gx_kry_find_ritz(gx_kry *s)
{
    if (s->is_hermitian) {
        solve_hermitian(s);
    } else {
        solve_general(s);
    }
    if (!gx_ok(s->run)) {
        return;
    }
    double largest = 0;
    for (int64_t i = 0; i < s->m; i++) {
        s->value[i] = back(s, s->theta[i]);
        largest = fmax(largest, hypot(s->theta[i].re, s->theta[i].im));
    }
    s->largest = s->is_hermitian ? largest : fmax(largest, s->ortho.norm);
    gx_scalar sigma = s->args->which == GX_EIG_NEAREST ? s->args->sigma : (gx_scalar){0, 0};
    gx_eig_sort_order(s->value, s->m, s->which, sigma, s->is_hermitian, false, s->order);
    if (s->is_real && !s->is_hermitian) {
        join_pairs(s, s->is_wanted, s->joined);
    }
    s->converged = 0;
    for (int64_t i = 0; i < gx_min(s->k + 2, s->m); i++) { // and the pair behind them
        s->residual[i] = residual_of(s, s->vectors + s->order[i] * s->m);
        s->converged += i < s->k && gx_kry_has_converged(s, i) ? 1 : 0;
    }
}
