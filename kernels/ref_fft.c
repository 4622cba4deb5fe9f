/*
** The reference backend: Fourier transforms.  See ref.c for the manner.
**
** A line is read as a whole line of complex numbers, transformed out of place and written.  A
** transform of n = p m, p the least prime factor, is p transforms of m of every p-th number, and a
** sum of p terms for each result: of a prime it is the definition.  `work` has the n roots of 1 and
** three lines.
*/
#include "ref.h"

size_t gx_ref_fft_bytes(const gx_args *args)
{
    return (size_t)args->k * 4 * sizeof(gx_scalar);
}

/* y = the transform of x[0], x[step], ...; root: the step n roots of 1; room: n numbers. */
static void transform(const gx_scalar *x, int64_t step, int64_t n, const gx_scalar *root,
                      gx_scalar *room, gx_scalar *y)
{
    if (n == 1) {
        *y = *x;
        return;
    }
    int64_t p = gx_least_factor(n), m = n / p;
    for (int64_t q = 0; q < p; q++) {
        transform(x + q * step, step * p, m, root, room, y + q * m);
    }
    for (int64_t k = 0; k < n; k++) {
        room[k] = (gx_scalar){0, 0};
        for (int64_t q = 0; q < p; q++) {
            room[k] = add(room[k], times(root[q * k % n * step], y[q * m + k % m]));
        }
    }
    memcpy(y, room, (size_t)n * sizeof *y);
}

/* The numbers of a line: all of them, or the first half, which the conjugates follow. */
static void read_line(const gx_args *p, bool is_half, int64_t line, gx_scalar *x)
{
    bool is_column = p->side == GX_LEFT;
    for (int64_t i = 0; i < (is_half ? p->k / 2 + 1 : p->k); i++) {
        const void *at =
            gx_dtype_at(p->a, p->from, p->lda, is_column ? i : line, is_column ? line : i);
        x[i] = gx_dtype_get(p->from, at);
        if (is_half) {
            x[i].im = 2 * i % p->k == 0 ? 0 : x[i].im;
            x[(p->k - i) % p->k] = (gx_scalar){x[i].re, -x[i].im};
        }
    }
}

GX_LOOP(fft)
{
    gx_scalar *root = p->work, *x = root + p->k, *y = x + p->k, *room = y + p->k;
    bool is_column = p->side == GX_LEFT, is_half = !gx_number_is_complex(dtype);
    double sign = p->is_backward ? 1 : -1;
    for (int64_t i = 0; i < p->k; i++) {
        long double angle = 6.283185307179586476925286766559L * (long double)i / (long double)p->k;
        root[i] = (gx_scalar){(double)cosl(angle), sign * (double)sinl(angle)};
    }
    for (int64_t line = 0; line < (is_column ? p->n : p->m); line++) {
        read_line(p, is_half, line, x);
        transform(x, 1, p->k, root, room, y);
        for (int64_t i = 0; i < (is_column ? p->m : p->n); i++) {
            store(dtype, p->c, p->ldc, is_column ? i : line, is_column ? line : i, y[i]);
        }
    }
    return GX_OK;
}
GX_SLOTS_DEFINE(, gx_ref_fft, fft)
