/*
** Triangles of regressions: rows folded under one, and what solves it.  See model.h.
**
** A reflector H = I - tau [1; v] [1; v]' takes [R_jj; block column j] to [beta; 0] (Golub & Van
** Loan, 5.1; LAPACK's dlarfg).  R is zero below its diagonal, so rows of R but j have no part in
** it.
*/
#include "model.h"

#include <math.h>

/* What is left of a column, relatively, once those before it have explained the rest. */
static const double DEPENDENT = 1e-13;

static double dot(const double *a, const double *b, int64_t n)
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
    double squares = dot(x, x, n), most = 0;
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
    double share = tau * (*head + dot(v, x, n));
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
