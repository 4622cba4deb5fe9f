/*
** Elements and their parts, as the loops of the CPU backend see them.
**
** A complex element is a pair of parts.  dtype and is_double are constants wherever these functions
** are inlined, so every test of them is gone after compiling.  f32 parts are worked on as doubles
** and rounded once, when they are put back.
*/
#ifndef GX_CPU_ELEMENT_H
#define GX_CPU_ELEMENT_H

#include "functions.h"
#include "slots.h"

/*
** Vectors for loops with copies for 512 bits, and with others: the compiler keeps no vector in
** registers that is longer than the processor's.  bits_: the same as integers.
*/
#define GX_DEFINE_VECTOR(real, whole, name, bytes)                                                 \
    typedef real vec_##name __attribute__((vector_size(bytes), aligned(sizeof(real)), may_alias)); \
    typedef whole bits_##name __attribute__((vector_size(bytes)));
GX_DEFINE_VECTOR(double, int64_t, f64, 64)
GX_DEFINE_VECTOR(float, int32_t, f32, 64)
GX_DEFINE_VECTOR(double, int64_t, half_f64, 32)
GX_DEFINE_VECTOR(float, int32_t, half_f32, 32)

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

#endif
