/*
** Functions of complex numbers that C does not have, for the reference and the CPU alike.
*/
#ifndef GX_PAIRS_H
#define GX_PAIRS_H

#include "../core/base/types.h"

#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* CMPLX() of C11, which clang's headers lack. */
static inline double complex gx_pair(double re, double im)
{
    double complex z;
    memcpy(&z, (double[2]){re, im}, sizeof z);
    return z;
}

/* e^z - 1 without cancellation where z is small. */
static inline double complex gx_cexpm1(double complex z)
{
    double x = creal(z), y = cimag(z), half = sin(y / 2);
    return gx_pair(expm1(x) * cos(y) - 2 * half * half, y == 0 ? y : exp(x) * sin(y));
}

/* log(1 + z) without cancellation where z is small: |1 + z|^2 - 1 = x (2 + x) + y^2. */
static inline double complex gx_clog1p(double complex z)
{
    double x = creal(z), y = cimag(z);
    if (fabs(x) < 0.5 && fabs(y) < 0.5) {
        return gx_pair(0.5 * log1p(x * (2 + x) + y * y), atan2(y, 1 + x));
    }
    return clog(gx_pair(1 + x, y));
}

/*
** a^b; whole numbers b up to 64 by multiplication, a^0 is 1, a^1 is a.  0^b is 0 where b's real
** part is positive, else NaN in both parts, as in NumPy.
*/
static inline double complex gx_cpow(double complex a, double complex b)
{
    double n = creal(b);
    bool is_whole = cimag(b) == 0 && fabs(n) <= 64 && n == rint(n);
    if (creal(a) == 0 && cimag(a) == 0 && !(is_whole && n == 0)) {
        return n > 0 ? gx_pair(0, 0) : gx_pair(NAN, NAN);
    }
    if (is_whole) {
        double complex product = 1, factor = a;
        bool is_first = true;
        for (int k = (int)fabs(n); k > 0; k /= 2, factor = factor * factor) {
            if (k % 2 == 1) {
                product = is_first ? factor : product * factor;
                is_first = false;
            }
        }
        return n < 0 ? 1 / product : product;
    }
    return cexp(b * clog(a));
}

/*
** z / |z|; 0 of 0.  Of a number with one infinite part the direction of that: 1, -1, i or -i.  Two
** infinite parts, or a NaN, have no direction: NaN in both parts.  |z| is taken of z / 4 or 2^600 z
** where it overflows, or has few digits.
*/
static inline double complex gx_csign(double complex z)
{
    double x = creal(z), y = cimag(z);
    if (isnan(x) || isnan(y) || (isinf(x) && isinf(y))) {
        return gx_pair(NAN, NAN);
    }
    if (isinf(x) || isinf(y)) {
        return isinf(x) ? gx_pair(copysign(1, x), 0) : gx_pair(0, copysign(1, y));
    }
    double size = hypot(x, y), unit = isinf(size) ? 0.25 : size < 0x1p-500 ? 0x1p600 : 1;
    size = unit == 1 ? size : hypot(x * unit, y * unit);
    return size == 0 ? 0 : gx_pair(x * unit / size, y * unit / size);
}

#endif
