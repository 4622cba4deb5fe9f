/*
** The small problems of Krylov methods: Schur forms of the projected matrix, in memory.  Those of
** real matrices are in krylov_real.c.
**
** Reordering moves one value up by exchanges of neighbours, each a rotation (Bai & Demmel 1993,
** LAPACK's ztrexc): O(m) an exchange.
*/
#include "../alg/dense.h"
#include "krylov.h"

#include <float.h>
#include <math.h>
#include <string.h>

gx_scalar gx_small_times(gx_scalar a, gx_scalar b)
{
    return (gx_scalar){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static gx_scalar minus(gx_scalar a, gx_scalar b)
{
    return (gx_scalar){a.re - b.re, a.im - b.im};
}

static gx_scalar conjugate(gx_scalar a)
{
    return (gx_scalar){a.re, -a.im};
}

static double magnitude(gx_scalar a)
{
    return hypot(a.re, a.im);
}

gx_scalar gx_small_divided(gx_scalar a, gx_scalar b)
{
    double size = magnitude(b);
    gx_scalar q = gx_small_times(a, (gx_scalar){b.re / size, -b.im / size});
    return (gx_scalar){q.re / size, q.im / size};
}

gx_code gx_small_schur(gx_run *run, gx_number dtype, int64_t m, void *T, void *Q, gx_scalar *values)
{
    gx_args args = {.m = m,
                    .n = m,
                    .c = T,
                    .ldc = gx_max(1, m),
                    .values = values,
                    .right = Q,
                    .ldright = gx_max(1, m),
                    .wants_right = true};
    return gx_dense_call(run, GX_GEES, dtype, &args);
}

/* x' = c x + s y, y' = c y - conj(s) x for count pairs. */
static void rotate(gx_scalar *x, gx_scalar *y, int64_t count, int64_t stride, double c, gx_scalar s)
{
    for (int64_t i = 0; i < count; i++) {
        gx_scalar a = x[i * stride], b = y[i * stride];
        gx_scalar sb = gx_small_times(s, b), sa = gx_small_times(conjugate(s), a);
        x[i * stride] = (gx_scalar){c * a.re + sb.re, c * a.im + sb.im};
        y[i * stride] = (gx_scalar){c * b.re - sa.re, c * b.im - sa.im};
    }
}

/* Exchange the diagonal elements k and k + 1. */
static void exchange(int64_t m, gx_scalar *T, gx_scalar *Q, int64_t k)
{
    gx_scalar t11 = T[k * m + k], t22 = T[(k + 1) * m + k + 1];
    gx_scalar f = T[(k + 1) * m + k], g = minus(t22, t11);
    double size = magnitude(f), r = hypot(size, magnitude(g));
    double c = 1;
    gx_scalar s = {0, 0};
    if (r > 0 && size == 0) {
        c = 0;
        s = (gx_scalar){g.re / r, -g.im / r};
    } else if (r > 0) {
        c = size / r;
        s = gx_small_times((gx_scalar){f.re / size, f.im / size}, (gx_scalar){g.re / r, -g.im / r});
    }
    if (k + 2 < m) {
        rotate(&T[(k + 2) * m + k], &T[(k + 2) * m + k + 1], m - k - 2, m, c, s);
    }
    rotate(&T[k * m], &T[(k + 1) * m], k, 1, c, conjugate(s));
    T[k * m + k] = t22;
    T[(k + 1) * m + k + 1] = t11;
    rotate(&Q[k * m], &Q[(k + 1) * m], m, 1, c, conjugate(s));
}

void gx_small_reorder(int64_t m, gx_scalar *T, gx_scalar *Q, const int64_t *order, int64_t p)
{
    for (int64_t i = 0; i < p; i++) {
        // Values before it in the old order that have been moved up already push it down.
        int64_t from = order[i];
        for (int64_t l = 0; l < i; l++) {
            from += order[l] > order[i] ? 1 : 0;
        }
        for (int64_t k = from - 1; k >= i; k--) {
            exchange(m, T, Q, k);
        }
    }
}

void gx_small_vector(int64_t m, const gx_scalar *T, int64_t i, gx_scalar *y)
{
    double norm = 0, largest = 0;
    for (int64_t k = 0; k < m * m; k++) {
        largest = fmax(largest, magnitude(T[k]));
    }
    double smallest = fmax(DBL_EPSILON * largest, DBL_MIN / DBL_EPSILON);
    memset(y, 0, (size_t)m * sizeof *y);
    y[i] = (gx_scalar){1, 0};
    for (int64_t r = i - 1; r >= 0; r--) {
        gx_scalar sum = {0, 0};
        for (int64_t k = r + 1; k <= i; k++) {
            sum = minus(sum, gx_small_times(T[k * m + r], y[k]));
        }
        gx_scalar pivot = minus(T[r * m + r], T[i * m + i]);
        if (magnitude(pivot) < smallest) {
            pivot = (gx_scalar){smallest, 0};
        }
        y[r] = gx_small_divided(sum, pivot);
        double size = magnitude(y[r]);
        for (int64_t k = r; k <= i && size > 1e100; k++) { // far from overflow
            y[k] = (gx_scalar){y[k].re / size, y[k].im / size};
        }
    }
    for (int64_t r = 0; r <= i; r++) {
        norm = hypot(norm, magnitude(y[r]));
    }
    for (int64_t r = 0; r <= i; r++) {
        y[r] = (gx_scalar){y[r].re / norm, y[r].im / norm};
    }
}
