/*
** Triangles: rows folded under one, what solves it, its inverse and singular values.  See
** small_triangle.h.
**
** A reflector H = I - tau [1; v] [1; v]' takes [R_jj; block column j] to [beta; 0] (Golub & Van
** Loan, 5.1; LAPACK's dlarfg).  R is zero below its diagonal, so rows of R but j have no part in
** it.
*/
#include "small_triangle.h"

#include <math.h>
#include <string.h>

/* What is left of a column, relatively, once those before it have explained the rest. */
static const double DEPENDENT = 1e-13;

double gx_small_dot(const double *a, const double *b, int64_t n)
{
    enum { LANES = 8 };
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int l = 0; l < LANES; l++) {
            lane[l] += a[i + l] * b[i + l];
        }
    }
    for (; i < n; i++) {
        sum += a[i] * b[i];
    }
    for (int l = 0; l < LANES; l++) {
        sum += lane[l];
    }
    return sum;
}

/* The Euclidean norm, of numbers near the ends of the range too. */
static double norm(const double *x, int64_t n)
{
    double squares = gx_small_dot(x, x, n), most = 0;
    if (squares > 1e-280 && squares < 1e300) {
        return sqrt(squares);
    }
    for (int64_t i = 0; i < n; i++) {
        most = x[i] != x[i] ? x[i] : fmax(most, fabs(x[i]));
    }
    squares = 0;
    for (int64_t i = 0; i < n && most > 0 && most < HUGE_VAL; i++) {
        squares += (x[i] / most) * (x[i] / most);
    }
    return most > 0 && most < HUGE_VAL ? most * sqrt(squares) : most;
}

/* v becomes the reflector's; *head beta.  0: there is nothing to reflect. */
static double reflector(double *head, double *v, int64_t n)
{
    double length = norm(v, n);
    if (length == 0) {
        return 0;
    }
    double alpha = *head, beta = -copysign(hypot(alpha, length), alpha), first = alpha - beta;
    for (int64_t i = 0; i < n; i++) {
        v[i] /= first;
    }
    *head = beta;
    return -first / beta;
}

static void reflect(double tau, const double *v, int64_t n, double *head, double *x)
{
    double share = tau * (*head + gx_small_dot(v, x, n));
    *head -= share;
    for (int64_t i = 0; i < n; i++) {
        x[i] -= share * v[i];
    }
}

void gx_triangle_fold(double *r, int64_t ldr, int64_t cols, double *block, int64_t ld, int64_t rows)
{
    for (int64_t j = 0; j < cols; j++) {
        double *v = block + j * ld, tau = reflector(&r[j + j * ldr], v, rows);
        for (int64_t k = j + 1; k < cols && tau != 0; k++) {
            reflect(tau, v, rows, &r[j + k * ldr], block + k * ld);
        }
    }
}

int64_t gx_triangle_solve(double *r, int64_t ldr, int64_t columns, int64_t *kept, double *estimate)
{
    int64_t rank = 0;
    for (int64_t j = 0; j < columns; j++) {
        double *column = r + j * ldr, rest = norm(column + rank, j - rank + 1);
        estimate[j] = NAN;
        if (!(rest > DEPENDENT * hypot(norm(column, rank), rest))) {
            continue;
        }
        double tau = reflector(&column[rank], column + rank + 1, j - rank);
        for (int64_t k = j + 1; k <= columns && tau != 0; k++) {
            reflect(tau, column + rank + 1, j - rank, &r[rank + k * ldr], &r[rank + 1 + k * ldr]);
        }
        kept[rank++] = j;
    }
    for (int64_t i = rank - 1; i >= 0; i--) {
        double sum = r[i + columns * ldr];
        for (int64_t k = i + 1; k < rank; k++) {
            sum -= r[i + kept[k] * ldr] * estimate[kept[k]];
        }
        estimate[kept[i]] = sum / r[i + kept[i] * ldr];
    }
    return rank;
}

int64_t gx_triangle_dependent(const double *r, int64_t ldr, int64_t first, int64_t end)
{
    for (int64_t j = first; j < end; j++) {
        const double *column = r + j * ldr;
        if (!(fabs(column[j]) > DEPENDENT * norm(column, j + 1))) {
            return j - first;
        }
    }
    return -1;
}

void gx_triangle_invert(const double *r, int64_t ldr, int64_t n, double factor, double *out)
{
    memset(out, 0, (size_t)(n * n) * sizeof *out);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = j; i >= 0; i--) {
            double sum = i == j ? factor : 0;
            for (int64_t k = i + 1; k <= j; k++) {
                sum -= r[i + k * ldr] * out[k + j * n];
            }
            out[i + j * n] = sum / r[i + i * ldr];
        }
    }
}

// Singular values ---------------------------------------------------------------------------------

static void turn(double *a, double *b, int64_t n, double c, double s)
{
    for (int64_t i = 0; i < n; i++) {
        double x = a[i];
        a[i] = c * x - s * b[i];
        b[i] = s * x + c * b[i];
    }
}

static void swap(double *a, double *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double x = a[i];
        a[i] = b[i];
        b[i] = x;
    }
}

/* Columns i and j, and v's, made orthogonal; whether they were not. */
static bool make_orthogonal(double *a, int64_t m, double *v, int64_t n, int64_t i, int64_t j)
{
    double *x = a + i * m, *y = a + j * m;
    double xx = gx_small_dot(x, x, m), yy = gx_small_dot(y, y, m), xy = gx_small_dot(x, y, m);
    if (!(fabs(xy) > 1e-15 * sqrt(xx) * sqrt(yy))) {
        return false;
    }
    double zeta = (yy - xx) / (2 * xy);
    double t = copysign(1, zeta) / (fabs(zeta) + hypot(1, zeta)), c = 1 / hypot(1, t);
    turn(x, y, m, c, c * t);
    if (v != NULL) {
        turn(v + i * n, v + j * n, n, c, c * t);
    }
    return true;
}

void gx_small_svd(double *a, int64_t m, int64_t n, double *s, double *v)
{
    enum { SWEEPS = 60 };
    for (int64_t k = 0; k < n * n && v != NULL; k++) {
        v[k] = k % (n + 1) == 0;
    }
    bool turns = true;
    for (int sweep = 0; sweep < SWEEPS && turns; sweep++) {
        turns = false;
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = i + 1; j < n; j++) {
                turns = make_orthogonal(a, m, v, n, i, j) || turns;
            }
        }
    }
    for (int64_t k = 0; k < n; k++) {
        s[k] = sqrt(gx_small_dot(a + k * m, a + k * m, m));
    }
    for (int64_t k = 0; k < n; k++) {
        int64_t most = k;
        for (int64_t j = k + 1; j < n; j++) {
            most = s[j] > s[most] ? j : most;
        }
        if (most != k) {
            swap(&s[k], &s[most], 1);
            swap(a + k * m, a + most * m, m);
            if (v != NULL) {
                swap(v + k * n, v + most * n, n);
            }
        }
    }
}
