/*
** Block Krylov-Schur: the projected problem.  See krylov_eig.c.
**
** Ritz values are those of H, in the order that is asked for; the residual of a vector V y is
** ||C y||.  Hermitian: eigenvectors of H; else a Schur form.  Work O(m^3) a restart, m the columns
** of the basis.
*/
#include "krylov_eig_int.h"
#include "dense.h"

#include <float.h>
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

/* Q = eigenvectors of H's lower triangle, in c128. */
static void solve_hermitian(gx_kry *s)
{
    int64_t m = s->m;
    for (int64_t j = 0; j < m; j++) {
        memcpy(gx_at(s->W, s->wide, m, 0, j), gx_kry_h_at(s, s->H, 0, j),
               (size_t)m * gx_kry_wide_bytes(s));
    }
    gx_args args = {.uplo = GX_LOWER,
                    .m = m,
                    .n = m,
                    .c = s->W,
                    .ldc = m,
                    .values = s->residual, // for a moment
                    .wants_right = true};
    if (gx_dense_call(s->run, GX_SYEV, s->wide, &args) == GX_OK) {
        gx_convert(s->wide, s->W, m, GX_C128, s->Q, m, m, m);
        for (int64_t i = 0; i < m; i++) {
            s->theta[i] = (gx_scalar){s->residual[i], 0};
        }
    }
}

static void solve_general(gx_kry *s)
{
    int64_t m = s->m;
    for (int64_t j = 0; j < m; j++) {
        gx_convert(s->wide, gx_kry_h_at(s, s->H, 0, j), m, GX_C128, s->T + j * m, m, m, 1);
    }
    gx_small_schur(s->run, m, s->T, s->Q, s->theta);
    for (int64_t i = 0; i < m && gx_ok(s->run); i++) {
        s->theta[i] = s->T[i * m + i];
        // Rounding parts what is real, or a pair, by its size times eps.
        if (s->is_real && fabs(s->theta[i].im) <= 1e-14 * hypot(s->theta[i].re, s->theta[i].im)) {
            s->theta[i].im = 0;
        }
    }
}

/* x = Q y of T's i-th eigenvector, or the i-th column of Q. */
void gx_kry_ritz_vector(const gx_kry *s, int64_t i, gx_scalar *x)
{
    int64_t m = s->m;
    if (s->is_hermitian) {
        memcpy(x, s->Q + i * m, (size_t)m * sizeof *x);
        return;
    }
    gx_small_vector(m, s->T, i, s->y);
    for (int64_t r = 0; r < m; r++) {
        gx_scalar sum = {0, 0};
        for (int64_t c = 0; c <= i; c++) {
            gx_scalar q = s->Q[c * m + r], y = s->y[c];
            sum.re += q.re * y.re - q.im * y.im;
            sum.im += q.re * y.im + q.im * y.re;
        }
        x[r] = sum;
    }
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
    double scale = s->is_inverse ? hypot(theta.re, theta.im) : s->largest;
    double rounding = 8 * (gx_dtype_is_double(s->dtype) ? DBL_EPSILON : (double)FLT_EPSILON);
    return s->f == 0 || s->residual[i] <= fmax(s->tol * scale, rounding * s->largest);
}

/* Of a pair, whose distances from sigma differ by rounding, the positive imaginary part first. */
static void order_pairs(gx_kry *s)
{
    for (int64_t i = 0; i + 1 < s->m && s->is_real && !s->is_hermitian; i++) {
        gx_scalar a = s->value[s->order[i]], b = s->value[s->order[i + 1]];
        bool is_pair = hypot(a.re - b.re, a.im + b.im) <= 1e-10 * hypot(a.re, a.im);
        if (is_pair && a.im != 0) {
            int64_t first = s->order[i];
            s->order[i] = a.im > 0 ? first : s->order[i + 1];
            s->order[i + 1] = a.im > 0 ? s->order[i + 1] : first;
            gx_scalar up = s->value[s->order[i]];
            s->value[s->order[i + 1]] = (gx_scalar){up.re, -up.im};
            i++;
        }
    }
}

/* Values, their order, residuals of the first k, and how many of them have converged. */
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
    gx_eig_sort_order(s->value, s->m, s->args->which, sigma, s->is_hermitian, false, s->order);
    order_pairs(s);
    s->converged = 0;
    gx_scalar *x = (gx_scalar *)(void *)s->small; // at least m of them: m x m doubles, m > 1
    gx_scalar one[2];
    x = s->m < 2 ? one : x;
    for (int64_t i = 0; i < gx_min(s->k, s->m); i++) {
        gx_kry_ritz_vector(s, s->order[i], x);
        s->residual[i] = residual_of(s, x);
        s->converged += gx_kry_has_converged(s, i) ? 1 : 0;
    }
}
