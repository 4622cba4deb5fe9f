/*
** Functions of complex numbers that C does not have, for the reference and the CPU alike.
*/
#ifndef GX_PAIRS_H
#define GX_PAIRS_H

#include "../core/base/types.h"

#include <complex.h>
#include <math.h>
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

/* a^b; whole numbers b up to 64 by multiplication, 0^b is 0 or NaN, a^0 is 1. */
static inline double complex gx_cpow(double complex a, double complex b)
{
    double n = creal(b);
    if (cimag(b) == 0 && fabs(n) <= 64 && n == rint(n)) {
        double complex product = 1, factor = a;
        for (int k = (int)fabs(n); k > 0; k /= 2) {
            product = k % 2 == 1 ? product * factor : product;
            factor = factor * factor;
        }
        return n < 0 ? 1 / product : product;
    }
    if (creal(a) == 0 && cimag(a) == 0) {
        return n > 0 ? gx_pair(0, 0) : gx_pair(NAN, NAN);
    }
    return cexp(b * clog(a));
}

/* z / |z|; 0 of 0. */
static inline double complex gx_csign(double complex z)
{
    double size = hypot(creal(z), cimag(z));
    return size == 0 ? 0 : gx_pair(creal(z) / size, cimag(z) / size);
}

#endif
