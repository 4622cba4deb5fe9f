/*
** Functions of an upper triangular complex matrix T, which the Schur form of any matrix leaves.
**
**   root       U^2 = T, column by column from the diagonal up (Bjorck & Hammarling 1983):
**              u_ij = (t_ij - sum u_ik u_kj) / (u_ii + u_jj)
**   log        inverse scaling and squaring (Kenney & Laub 1989; Higham 2008, 11.5): roots are
**              taken until X = T^(1/2^s) - I is small, then log T = 2^s sum w_j (I + x_j X)^-1 X,
**              the Pade approximant [7/7] by its partial fractions (Gauss-Legendre nodes)
**   power p    -1 < p < 1: the same roots, then the Pade approximant [7/7] of (I - X)^p by its
**              continued fraction, squared s times (Higham & Lin 2011)
**
**   sign       U^2 = I and U T = T U, from the diagonal up (Higham 2008, 5.2): by the first where
**              u_ii = u_jj, u_ij = -sum u_ik u_kj / 2 u_ii, else by the second
**
** The diagonal and the elements above it of what is found are set to those that the scalar function
** gives for 2 x 2 matrices (Higham 2008, 11.28; Higham & Lin 2011, 5.5), and X's diagonal is
** computed without the cancellation of t^(1/2^s) - 1 (Al-Mohy & Higham 2012).  Work: n^3 / 3
** complex multiply-adds for each root and approximant's solve.
**
** The roots are those of T / 2^e, whose eigenvalues lie around 1: what T's unit is does not matter.
** log T = log(T / 2^e) + e log 2 I, and T^p = 2^(e p) (T / 2^e)^p.
*/
#include "funm_matrix.h"

#include "../alg/dense.h"

#include <complex.h>
#include <limits.h>
#include <math.h>
#include <string.h>

/* The largest ||X||_1 for [7/7] of the logarithm and of the power, in double precision. */
static const double LOG_THETA = 2.64e-1, POWER_THETA = 2.79e-1;

enum { DEGREE = 7, ROOTS_MOST = 120 };

/* Element (i, j), the leading dimension being n. */
#define AT(x, i, j) ((x)[(j)*n + (i)])

static double complex number_of(gx_scalar x)
{
    double complex z;
    memcpy(&z, &x, sizeof z);
    return z;
}

static gx_scalar scalar_of(double complex z)
{
    return (gx_scalar){creal(z), cimag(z)};
}

// Roots -------------------------------------------------------------------------------------------

/*
** Column j: w starts as T's column, and loses u_ij times U's column i as soon as u_ij is known.
** false: u_ii + u_jj is zero and something is to be divided by it.
*/
static bool root_column(gx_scalar *t, int64_t n, int64_t j)
{
    gx_scalar *w = &AT(t, 0, j);
    w[j] = scalar_of(csqrt(number_of(w[j])));
    for (int64_t i = j - 1; i >= 0; i--) {
        double complex sum = number_of(AT(t, i, i)) + number_of(w[j]);
        double complex x = number_of(w[i]);
        if (sum == 0 && x != 0) {
            return false;
        }
        x = sum == 0 ? 0 : x / sum;
        w[i] = scalar_of(x);
        double re = creal(x), im = cimag(x);
        const gx_scalar *u = &AT(t, 0, i);
        for (int64_t k = 0; k < i; k++) {
            w[k].re -= u[k].re * re - u[k].im * im;
            w[k].im -= u[k].re * im + u[k].im * re;
        }
    }
    return true;
}

void gx_funm_root_of_triangle(const gx_funm_work *w, gx_scalar *t)
{
    for (int64_t j = 0; j < w->n && gx_ok(w->run); j++) {
        if (!root_column(t, w->n, j)) {
            gx_run_failf(w->run, GX_NUMERIC, "%s is singular and has no square root", w->label);
        }
        gx_run_poll(w->run);
    }
}

// Sign --------------------------------------------------------------------------------------------

/* x -= y z: the first k elements of a column. */
static void subtract(gx_scalar *x, const gx_scalar *y, gx_scalar z, int64_t k)
{
    for (int64_t i = 0; i < k; i++) {
        x[i].re -= y[i].re * z.re - y[i].im * z.im;
        x[i].im -= y[i].re * z.im + y[i].im * z.re;
    }
}

/*
** Column j of U, and T's as it was; square, mixed: two columns of work, which become
** -sum u_ik u_kj and sum t_ik u_kj - u_ik t_kj, with the opposite sign.
*/
static void sign_column(const gx_scalar *t, gx_scalar *u, int64_t n, int64_t j, gx_scalar *square,
                        gx_scalar *mixed)
{
    const gx_scalar zero = {0, 0};
    double of_j = AT(t, j, j).re > 0 ? 1 : -1;
    for (int64_t i = 0; i < j; i++) {
        square[i] = mixed[i] = zero;
    }
    AT(u, j, j) = (gx_scalar){of_j, 0};
    for (int64_t i = j - 1; i >= 0; i--) {
        double of_i = AT(u, i, i).re;
        double complex x = number_of(square[i]) / (2 * of_i);
        if (of_i != of_j) {
            x = (number_of(AT(t, i, j)) * (of_i - of_j) - number_of(mixed[i])) /
                (number_of(AT(t, i, i)) - number_of(AT(t, j, j)));
        }
        gx_scalar found = scalar_of(x), back = scalar_of(-x);
        AT(u, i, j) = found;
        subtract(square, &AT(u, 0, i), found, i);
        subtract(mixed, &AT(u, 0, i), AT(t, i, j), i);
        subtract(mixed, &AT(t, 0, i), back, i);
    }
}

void gx_funm_sign_of_triangle(const gx_funm_work *w, gx_scalar *t)
{
    int64_t n = w->n;
    gx_scalar *u = gx_funm_matrix(w);
    gx_scalar *work = gx_dense_take(w->run, GX_C128, gx_max(1, n), 2, "columns");
    if (gx_ok(w->run)) {
        memset(u, 0, (size_t)(n * n) * sizeof *u);
        for (int64_t j = 0; j < n && gx_run_poll(w->run) == GX_OK; j++) {
            sign_column(t, u, n, j, work, work + n);
        }
        gx_funm_copy(w, u, t);
    }
    gx_funm_free(w, u);
    gx_mem_free(w->run->ctx->mem, work);
}

/* z^(1/2^s) - 1 = expm1(log(z) / 2^s). */
static double complex root_less_one(gx_scalar z, int s)
{
    double complex l = clog(number_of(z));
    double a = ldexp(creal(l), -s), b = ldexp(cimag(l), -s), half = sin(b / 2);
    double re = expm1(a) * cos(b) - 2 * half * half, im = exp(a) * sin(b);
    return number_of((gx_scalar){re, im});
}

/* The e of T / 2^e: the largest and the least eigenvalue are as far from 1 as each other. */
static int scale_of(const gx_scalar *diagonal, int64_t n)
{
    int most = INT_MIN, least = INT_MAX;
    for (int64_t i = 0; i < n; i++) {
        int e = 0;
        frexp(fmax(fabs(diagonal[i].re), fabs(diagonal[i].im)), &e);
        most = e > most ? e : most;
        least = e < least ? e : least;
    }
    return n == 0 ? 0 : least + (most - least) / 2;
}

/* x = 2^e x: `count` numbers. */
static void scale(gx_scalar *x, int64_t count, int e)
{
    for (int64_t i = 0; i < count && e != 0; i++) {
        x[i] = (gx_scalar){ldexp(x[i].re, e), ldexp(x[i].im, e)};
    }
}

/*
** t = X = T^(1/2^s) - I with ||X||_1 <= theta; diagonal: T's, before.  Returns s.
*/
static int take_roots(const gx_funm_work *w, gx_scalar *t, const gx_scalar *diagonal, double theta)
{
    int64_t n = w->n;
    int s = 0;
    for (; s < ROOTS_MOST && gx_ok(w->run); s++) {
        for (int64_t i = 0; i < n; i++) {
            AT(t, i, i).re -= 1;
        }
        double norm = gx_funm_norm1(w, t);
        for (int64_t i = 0; i < n; i++) {
            AT(t, i, i).re += 1;
        }
        if (norm <= theta) {
            break;
        }
        gx_funm_root_of_triangle(w, t);
    }
    for (int64_t i = 0; i < n && gx_ok(w->run); i++) {
        AT(t, i, i) = scalar_of(root_less_one(diagonal[i], s));
    }
    if (s == ROOTS_MOST) {
        gx_run_failf(w->run, GX_NUMERIC, "the roots of %s do not approach the unit matrix",
                     w->label);
    }
    return s;
}

/* c = (upper triangle of a)^-1 c. */
static void solve_triangle(const gx_funm_work *w, const void *a, void *c)
{
    gx_dense_triangle(w->run, GX_TRSM, GX_C128, GX_UPPER, GX_NO_TRANS, GX_NON_UNIT, w->n, a, w->n,
                      c);
}

static void add_to_diagonal(const gx_funm_work *w, gx_scalar *x, double value)
{
    for (int64_t i = 0; i < w->n; i++) {
        x[i * w->n + i].re += value;
    }
}

/* T's diagonal, n numbers, and behind it the n - 1 above it. */
static gx_scalar *save_diagonals(const gx_funm_work *w, const gx_scalar *t)
{
    gx_scalar *saved = gx_dense_take(w->run, GX_C128, 2, w->n, "diagonals");
    for (int64_t i = 0; i < w->n && saved != NULL; i++) {
        saved[i] = t[i * w->n + i];
        saved[w->n + i] = i + 1 < w->n ? t[(i + 1) * w->n + i] : (gx_scalar){0, 0};
    }
    return saved;
}

/*
** (log y - log x) / 2.  Close numbers have it from the area tangent, which does not cancel, and
** from the unwinding number, which says whether the negative axis lies between them.  Numbers that
** are not close have the difference of the logarithms as it is: there the tangent has branches of
** its own, and a pole where y = -x.
*/
static double complex half_difference(double complex x, double complex y)
{
    const double PI = 3.14159265358979323846;
    double complex difference = clog(y) - clog(x);
    if (cabs(y - x) > cabs(y + x) / 2) {
        return difference / 2;
    }
    double turns = ceil((cimag(difference) - PI) / (2 * PI));
    return catanh((y - x) / (y + x)) + number_of((gx_scalar){0, PI * turns});
}

/* The divided difference (f(y) - f(x)) / (y - x) of f = log, or of f = z^p (is_power). */
static double complex divided(double complex x, double complex y, bool is_power, double p)
{
    if (x == y) {
        return is_power ? p * cexp((p - 1) * clog(x)) : 1 / x;
    }
    double complex half = half_difference(x, y);
    double complex middle = p / 2 * (clog(x) + clog(y));
    return (is_power ? cexp(middle) * 2 * csinh(p * half) : 2 * half) / (y - x);
}

/* What the 2 x 2 matrices on the diagonal of T give, into f. */
static void set_diagonals(const gx_funm_work *w, const gx_scalar *saved, bool is_power, double p,
                          gx_scalar *f)
{
    int64_t n = w->n;
    for (int64_t i = 0; i < n; i++) {
        double complex x = number_of(saved[i]), l = clog(x);
        AT(f, i, i) = scalar_of(is_power ? cexp(p * l) : l);
        if (i + 1 < n) {
            double complex d = divided(x, number_of(saved[i + 1]), is_power, p);
            AT(f, i, i + 1) = scalar_of(number_of(saved[n + i]) * d);
        }
    }
}

// The logarithm -----------------------------------------------------------------------------------

/* Nodes and weights of Gauss-Legendre's rule with 7 points, on [0, 1]. */
static const double nodes[DEGREE] = {
    0.025446043828620737737, 0.12923440720030278007, 0.29707742431130141655, 0.5,
    0.70292257568869858345,  0.87076559279969721993, 0.97455395617137926226};
static const double weights[DEGREE] = {
    0.064742483084434846635, 0.13985269574463833395, 0.19091502525255947248, 0.20897959183673469388,
    0.19091502525255947248,  0.13985269574463833395, 0.064742483084434846635};

void gx_funm_log_of_triangle(const gx_funm_work *w, gx_scalar *t)
{
    gx_scalar *diagonal = save_diagonals(w, t);
    int e = gx_ok(w->run) ? scale_of(diagonal, w->n) : 0;
    scale(t, w->n * w->n, -e);
    gx_scalar *scaled = save_diagonals(w, t);
    void *sum = gx_funm_matrix(w), *term = gx_funm_matrix(w), *left = gx_funm_matrix(w);
    int s = gx_ok(w->run) ? take_roots(w, t, scaled, LOG_THETA) : 0;
    for (int j = 0; j < DEGREE && gx_ok(w->run); j++) {
        gx_funm_add(w, nodes[j], t, 0, t, left);
        add_to_diagonal(w, left, 1);
        gx_funm_copy(w, t, term);
        solve_triangle(w, left, term);
        gx_funm_add(w, ldexp(weights[j], s), term, j == 0 ? 0 : 1, j == 0 ? term : sum, sum);
    }
    if (gx_ok(w->run)) {
        gx_funm_copy(w, sum, t);
        set_diagonals(w, diagonal, false, 0, t);
    }
    gx_funm_free(w, sum);
    gx_funm_free(w, term);
    gx_funm_free(w, left);
    gx_mem_free(w->run->ctx->mem, diagonal);
    gx_mem_free(w->run->ctx->mem, scaled);
}

// Powers ------------------------------------------------------------------------------------------

/* Coefficient c_i of the continued fraction of (1 - x)^p: 1 + c_1 x / (1 + c_2 x / (1 + ...)). */
static double fraction_of(int i, double p)
{
    int j = i / 2;
    if (i == 1) {
        return -p;
    }
    return i % 2 == 0 ? (-j + p) / (2 * (2 * j - 1)) : (-j - p) / (2 * (2 * j + 1));
}

/* y = (I - x)^p, x small and not kept; left: room. */
static void approximate_power(const gx_funm_work *w, const gx_scalar *x, double p, gx_scalar *y,
                              gx_scalar *left)
{
    gx_funm_add(w, fraction_of(2 * DEGREE, p), x, 0, x, y);
    for (int i = 2 * DEGREE - 1; i >= 1 && gx_ok(w->run); i--) {
        gx_funm_copy(w, y, left);
        add_to_diagonal(w, left, 1);
        gx_funm_add(w, fraction_of(i, p), x, 0, x, y);
        solve_triangle(w, left, y);
    }
    add_to_diagonal(w, y, 1);
}

void gx_funm_power_of_triangle(const gx_funm_work *w, gx_scalar *t, double p)
{
    gx_scalar *diagonal = save_diagonals(w, t);
    int e = gx_ok(w->run) ? scale_of(diagonal, w->n) : 0;
    scale(diagonal, gx_ok(w->run) ? 2 * w->n : 0, -e);
    scale(t, w->n * w->n, -e);
    gx_scalar *y = gx_funm_matrix(w), *left = gx_funm_matrix(w);
    int s = gx_ok(w->run) ? take_roots(w, t, diagonal, POWER_THETA) : 0;
    if (gx_ok(w->run)) {
        gx_funm_add(w, -1, t, 0, t, t); // T^(1/2^s) = I - X
        approximate_power(w, t, p, y, left);
    }
    for (int step = 0; step <= s && gx_ok(w->run); step++) {
        if (step > 0) {
            gx_funm_multiply(w, 1, GX_NO_TRANS, y, GX_NO_TRANS, y, 0, left);
            gx_funm_copy(w, left, y);
        }
        set_diagonals(w, diagonal, true, ldexp(p, step - s), y);
    }
    gx_funm_add(w, exp2(e * p), y, 0, y, t);
    gx_funm_free(w, y);
    gx_funm_free(w, left);
    gx_mem_free(w->run->ctx->mem, diagonal);
}
