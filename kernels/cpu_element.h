/*
** Elements and their parts, as the loops of the CPU backend see them.
**
** A complex element is a pair of parts.  dtype and is_double are constants wherever these functions
** are inlined, so every test of them is gone after compiling.  f32 parts are worked on as doubles
** and rounded once, when they are put back.
*/
#ifndef GX_CPU_ELEMENT_H
#define GX_CPU_ELEMENT_H

#include "slots.h"

#include <math.h>

GX_INLINE bool has_doubles(gx_number dtype)
{
    return dtype == GX_F64 || dtype == GX_C128;
}

GX_INLINE bool has_pairs(gx_number dtype)
{
    return dtype == GX_C128 || dtype == GX_C64;
}

/* gx_number_bytes(), foldable. */
GX_INLINE size_t bytes_of(gx_number dtype)
{
    return (size_t)(has_doubles(dtype) ? 8 : 4) * (has_pairs(dtype) ? 2 : 1);
}

GX_INLINE double get(bool is_double, const void *x, int64_t i)
{
    return is_double ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

GX_INLINE void put(bool is_double, void *x, int64_t i, double value)
{
    if (is_double) {
        ((double *)x)[i] = value;
    } else {
        ((float *)x)[i] = (float)value;
    }
}

GX_INLINE gx_scalar get_pair(bool is_double, const void *x, int64_t i)
{
    return (gx_scalar){get(is_double, x, 2 * i), get(is_double, x, 2 * i + 1)};
}

GX_INLINE void put_pair(bool is_double, void *x, int64_t i, gx_scalar value)
{
    put(is_double, x, 2 * i, value.re);
    put(is_double, x, 2 * i + 1, value.im);
}

GX_INLINE gx_scalar times(gx_scalar x, gx_scalar y)
{
    return (gx_scalar){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

/* s x with a scalar: part by part where s is real, so that an Inf in one part stays there. */
GX_INLINE gx_scalar scaled(gx_scalar s, gx_scalar x)
{
    return s.im == 0 ? (gx_scalar){s.re * x.re, s.re * x.im} : times(s, x);
}

/* |x|: the short formula where the squares keep all their digits, else hypot(). */
GX_INLINE double magnitude(gx_scalar x)
{
    double s = x.re * x.re + x.im * x.im;
    return s > 0x1p-900 && s < INFINITY ? sqrt(s) : hypot(x.re, x.im);
}

#endif
