/*
** Real Schur forms of the projected matrix: order, and eigenvectors.
**
**   H = Q T Q^T, T upper triangular but for a 2 x 2 block on the diagonal for each conjugate pair
**
** A span of the first p columns of Q is invariant and real wherever it does not part a block, and
** so it is what is kept at a restart.  A complex Schur form of a real matrix would not do: where
** values are ill-conditioned, its rounding leaves no set of them that is closed under conjugation.
**
** Neighbouring blocks exchange places by an orthogonal similarity (Bai & Demmel 1993, LAPACK's
** dlaexc):
**
**   T11 X - X T22 = T12, so that  [T11 T12; 0 T22] [-X; I] = [-X; I] T22,  [-X; I] = G [R; 0]
**
** and G^T T G has T22's values first.  What G^T T G leaves below its diagonal blocks is rounding's,
** or else the two are too close to be parted and stay where they are.  Vectors are solved for from
** the bottom up, with 2 x 2 systems where T has blocks.  Work O(m) an exchange, O(m^2) a vector.
*/
#include "../alg/dense.h"
#include "krylov.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Element (i, j), the leading dimension being m. */
#define AT(x, i, j) ((x)[(j)*m + (i)])

/* Rows of the block that begins at i. */
static int64_t block_size(int64_t m, const double *T, int64_t i)
{
    return i + 1 < m && AT(T, i + 1, i) != 0 ? 2 : 1;
}

// Exchanges ---------------------------------------------------------------------------------------

/* x = A^-1 x, A count x count, leading dimension 4, complete pivoting; small: the least pivot. */
static void solve_small(double *a, double *x, int64_t count, double small)
{
    int64_t column[4] = {0, 1, 2, 3};
    for (int64_t k = 0; k < count; k++) {
        int64_t p = k, q = k;
        for (int64_t j = k; j < count; j++) {
            for (int64_t i = k; i < count; i++) {
                bool is_larger = fabs(a[4 * j + i]) > fabs(a[4 * q + p]);
                p = is_larger ? i : p;
                q = is_larger ? j : q;
            }
        }
        for (int64_t i = 0; i < count; i++) {
            double t = a[4 * i + k];
            a[4 * i + k] = a[4 * i + p];
            a[4 * i + p] = t;
        }
        for (int64_t i = 0; i < count; i++) {
            double t = a[4 * k + i];
            a[4 * k + i] = a[4 * q + i];
            a[4 * q + i] = t;
        }
        double t = x[k];
        x[k] = x[p];
        x[p] = t;
        int64_t old = column[k];
        column[k] = column[q];
        column[q] = old;
        a[5 * k] = fabs(a[5 * k]) < small ? small : a[5 * k];
        for (int64_t i = k + 1; i < count; i++) {
            double f = a[4 * k + i] / a[5 * k];
            for (int64_t j = k + 1; j < count; j++) {
                a[4 * j + i] -= f * a[4 * j + k];
            }
            x[i] -= f * x[k];
        }
    }
    double y[4];
    for (int64_t k = count - 1; k >= 0; k--) {
        for (int64_t j = k + 1; j < count; j++) {
            x[k] -= a[4 * j + k] * y[j];
        }
        y[k] = x[k] / a[5 * k];
    }
    for (int64_t k = 0; k < count; k++) {
        x[column[k]] = y[k];
    }
}

/* X (p x q) of T11 X - X T22 = T12 for the blocks at i, of p and q rows. */
static void solve_sylvester(int64_t m, const double *T, int64_t i, int64_t p, int64_t q, double *X)
{
    double a[16] = {0}, largest = 0;
    int64_t k = i + p, count = p * q;
    for (int64_t c = 0; c < q; c++) { // unknown (r, c) has the number c p + r
        for (int64_t r = 0; r < p; r++) {
            int64_t row = c * p + r;
            for (int64_t l = 0; l < p; l++) {
                a[4 * (c * p + l) + row] += AT(T, i + r, i + l);
            }
            for (int64_t l = 0; l < q; l++) {
                a[4 * (l * p + r) + row] -= AT(T, k + l, k + c);
            }
            X[row] = AT(T, i + r, k + c);
        }
    }
    for (int64_t j = 0; j < 16; j++) {
        largest = fmax(largest, fabs(a[j]));
    }
    solve_small(a, X, count, fmax(DBL_EPSILON * largest, DBL_MIN / DBL_EPSILON));
}

typedef struct reflector {
    double v[4], tau; /* I - tau v v^T */
} reflector;

/* Takes x to a multiple of the first axis. */
static reflector reflector_of(const double *x, int64_t count)
{
    reflector r = {{0}, 0};
    double norm = 0;
    for (int64_t i = 0; i < count; i++) {
        norm = hypot(norm, x[i]);
        r.v[i] = x[i];
    }
    r.v[0] += copysign(norm, x[0]);
    double square = 0;
    for (int64_t i = 0; i < count && norm > 0; i++) {
        r.v[i] /= norm;
        square += r.v[i] * r.v[i];
    }
    r.tau = square > 0 ? 2 / square : 0;
    return r;
}

/* A line of count elements, stride apart. */
static void reflect(const reflector *r, double *x, int64_t count, int64_t stride)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += r->v[i] * x[i * stride];
    }
    for (int64_t i = 0; i < count; i++) {
        x[i * stride] -= r->tau * sum * r->v[i];
    }
}

/* G, as q reflectors, the l-th of rows l .. p + q - 1, of [-X; I]. */
static void factor_span(const double *X, int64_t p, int64_t q, reflector *g)
{
    double a[2][4] = {{0}};
    int64_t count = p + q;
    for (int64_t c = 0; c < q; c++) {
        for (int64_t r = 0; r < p; r++) {
            a[c][r] = -X[c * p + r];
        }
        a[c][p + c] = 1;
    }
    for (int64_t l = 0; l < q; l++) {
        g[l] = reflector_of(a[l] + l, count - l);
        for (int64_t c = l + 1; c < q; c++) {
            reflect(&g[l], a[c] + l, count - l, 1);
        }
    }
}

/* G^T T G on columns first .. end - 1 and the first `rows` rows; ld: the leading dimension. */
static void turn(const reflector *g, int64_t q, double *T, int64_t ld, int64_t i, int64_t count,
                 int64_t first, int64_t end, int64_t rows)
{
    for (int64_t l = 0; l < q; l++) {
        for (int64_t j = first; j < end; j++) {
            reflect(&g[l], T + j * ld + i + l, count - l, 1);
        }
        for (int64_t r = 0; r < rows; r++) {
            reflect(&g[l], T + (i + l) * ld + r, count - l, ld);
        }
    }
}

/*
** Exchange the blocks at i and behind it.  false: they are too close, and stay.  Tried on a copy of
** the two first.
*/
static bool exchange(int64_t m, double *T, double *Q, int64_t i)
{
    int64_t p = block_size(m, T, i), q = block_size(m, T, i + p), count = p + q;
    double X[4], local[16] = {0}, size = 0, below = 0;
    reflector g[2];
    for (int64_t c = 0; c < count; c++) {
        for (int64_t r = 0; r < count; r++) {
            local[4 * c + r] = AT(T, i + r, i + c);
            size = fmax(size, fabs(local[4 * c + r]));
        }
    }
    solve_sylvester(m, T, i, p, q, X);
    factor_span(X, p, q, g);
    turn(g, q, local, 4, 0, count, 0, count, count);
    for (int64_t c = 0; c < q; c++) {
        for (int64_t r = q; r < count; r++) {
            below = fmax(below, fabs(local[4 * c + r]));
        }
    }
    const double ROUNDINGS = 20;
    if (!(below <= ROUNDINGS * DBL_EPSILON * size)) {
        return false;
    }
    turn(g, q, T, m, i, count, i, m, i + count);
    for (int64_t l = 0; l < q; l++) {
        for (int64_t r = 0; r < m; r++) {
            reflect(&g[l], &AT(Q, r, i + l), count - l, m);
        }
    }
    for (int64_t c = 0; c < q; c++) {
        for (int64_t r = q; r < count; r++) {
            AT(T, i + r, i + c) = 0;
        }
    }
    return true;
}

int64_t gx_small_real_gather(int64_t m, double *T, double *Q, const bool *is_wanted)
{
    int64_t front = 0;
    for (int64_t i = 0; i < m;) {
        int64_t size = block_size(m, T, i), at = i;
        while (is_wanted[i] && at > front) {
            int64_t before = at - 1;
            before -= before > front && AT(T, before, before - 1) != 0 ? 1 : 0;
            if (!exchange(m, T, Q, before)) {
                break;
            }
            at = before;
        }
        front += is_wanted[i] && at == front ? size : 0;
        i += size;
    }
    return front;
}

// Vectors -----------------------------------------------------------------------------------------

/* -(row r of T) y over the columns from `first` to `last`. */
static gx_scalar row_times(int64_t m, const double *T, int64_t r, int64_t first, int64_t last,
                           const gx_scalar *y)
{
    gx_scalar sum = {0, 0};
    for (int64_t k = first; k <= last; k++) {
        sum.re -= AT(T, r, k) * y[k].re;
        sum.im -= AT(T, r, k) * y[k].im;
    }
    return sum;
}

/*
** (T - value I) y = b for rows r, r + 1, by elimination with complete pivoting (Cramer's rule would
** not be stable where the block has the same value); a pivot below small becomes small.
*/
static void solve_pair(int64_t m, const double *T, int64_t r, gx_scalar value, double small,
                       const gx_scalar b[2], gx_scalar *y)
{
    gx_scalar a[2][2] = {{{AT(T, r, r) - value.re, -value.im}, {AT(T, r, r + 1), 0}},
                         {{AT(T, r + 1, r), 0}, {AT(T, r + 1, r + 1) - value.re, -value.im}}};
    int p = 0, q = 0; // row and column of the first pivot
    for (int i = 0; i < 4; i++) {
        gx_scalar x = a[i / 2][i % 2], best = a[p][q];
        if (hypot(x.re, x.im) > hypot(best.re, best.im)) {
            p = i / 2;
            q = i % 2;
        }
    }
    gx_scalar first = a[p][q], factor = gx_small_divided(a[1 - p][q], first);
    gx_scalar up = a[p][1 - q], taken = gx_small_times(factor, up),
              loss = gx_small_times(factor, b[p]);
    gx_scalar second = {a[1 - p][1 - q].re - taken.re, a[1 - p][1 - q].im - taken.im};
    if (hypot(second.re, second.im) < small) {
        second = (gx_scalar){small, 0};
    }
    gx_scalar z =
        gx_small_divided((gx_scalar){b[1 - p].re - loss.re, b[1 - p].im - loss.im}, second);
    gx_scalar uz = gx_small_times(up, z);
    y[1 - q] = z;
    y[q] = gx_small_divided((gx_scalar){b[p].re - uz.re, b[p].im - uz.im}, first);
}

/* Far from overflow: the elements from r to last, of which some are very large. */
static void shrink(gx_scalar *y, int64_t r, int64_t last)
{
    double size = 0;
    for (int64_t k = r; k <= r + 1 && k <= last; k++) {
        size = fmax(size, hypot(y[k].re, y[k].im));
    }
    for (int64_t k = r; k <= last && size > 1e100; k++) {
        y[k] = (gx_scalar){y[k].re / size, y[k].im / size};
    }
}

void gx_small_real_vector(int64_t m, const double *T, const gx_scalar *values, int64_t i,
                          gx_scalar *y)
{
    gx_scalar value = values[i];
    bool is_second = value.im < 0; // the conjugate of the vector of i - 1
    int64_t first = is_second ? i - 1 : i, last = first + (value.im != 0 ? 1 : 0);
    double largest = 0, norm = 0;
    value.im = fabs(value.im);
    for (int64_t k = 0; k < m * m; k++) {
        largest = fmax(largest, fabs(T[k]));
    }
    double small = fmax(DBL_EPSILON * largest, DBL_MIN / DBL_EPSILON);
    memset(y, 0, (size_t)m * sizeof *y);
    y[first] = (gx_scalar){1, 0};
    if (last > first) { // (T - value I) (y_first, y_last) = 0, from its row of the larger element
        double up = AT(T, first, last), down = AT(T, last, first);
        gx_scalar a = {AT(T, first, first) - value.re, -value.im};
        gx_scalar d = {AT(T, last, last) - value.re, -value.im};
        bool is_upper = fabs(up) >= fabs(down);
        y[first] = is_upper ? (gx_scalar){up, 0} : (gx_scalar){-d.re, -d.im};
        y[last] = is_upper ? (gx_scalar){-a.re, -a.im} : (gx_scalar){down, 0};
    }
    for (int64_t r = first - 1; r >= 0; r--) {
        bool is_pair = r > 0 && AT(T, r, r - 1) != 0;
        r -= is_pair ? 1 : 0;
        int64_t next = r + (is_pair ? 2 : 1);
        gx_scalar b[2] = {row_times(m, T, r, next, last, y)};
        if (is_pair) {
            b[1] = row_times(m, T, r + 1, next, last, y);
            solve_pair(m, T, r, value, small, b, y + r);
        } else {
            gx_scalar pivot = {AT(T, r, r) - value.re, -value.im};
            bool is_small = hypot(pivot.re, pivot.im) < small;
            y[r] = gx_small_divided(b[0], is_small ? (gx_scalar){small, 0} : pivot);
        }
        shrink(y, r, last);
    }
    for (int64_t r = 0; r <= last; r++) {
        norm = hypot(norm, hypot(y[r].re, y[r].im));
    }
    for (int64_t r = 0; r <= last; r++) {
        y[r] = (gx_scalar){y[r].re / norm, (is_second ? -y[r].im : y[r].im) / norm};
    }
}
