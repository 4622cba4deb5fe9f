/*
** Shared by the files of the reference backend: elements as complex doubles, and the slots of its
** kernel table.  See ref.c.
*/
#ifndef GX_REF_H
#define GX_REF_H

#include "pairs.h"
#include "slots.h"

#include <complex.h>
#include <math.h>
#include <string.h>

GX_INLINE gx_scalar load(gx_number dtype, const void *x, int64_t ld, int64_t i, int64_t j)
{
    int64_t at = j * ld + i;
    switch (dtype) {
    case GX_F64:
        return (gx_scalar){((const double *)x)[at], 0};
    case GX_F32:
        return (gx_scalar){(double)((const float *)x)[at], 0};
    case GX_C128:
        return (gx_scalar){((const double *)x)[2 * at], ((const double *)x)[2 * at + 1]};
    case GX_C64:
        return (gx_scalar){(double)((const float *)x)[2 * at],
                           (double)((const float *)x)[2 * at + 1]};
    case GX_NUMBER_COUNT:
        break;
    }
    return (gx_scalar){0, 0};
}

GX_INLINE void store(gx_number dtype, void *x, int64_t ld, int64_t i, int64_t j, gx_scalar value)
{
    int64_t at = j * ld + i;
    switch (dtype) {
    case GX_F64:
        ((double *)x)[at] = value.re;
        break;
    case GX_F32:
        ((float *)x)[at] = (float)value.re;
        break;
    case GX_C128:
        ((double *)x)[2 * at] = value.re;
        ((double *)x)[2 * at + 1] = value.im;
        break;
    case GX_C64:
        ((float *)x)[2 * at] = (float)value.re;
        ((float *)x)[2 * at + 1] = (float)value.im;
        break;
    case GX_NUMBER_COUNT:
        break;
    }
}

/* Element (i, j) of op(x). */
GX_INLINE gx_scalar load_op(gx_number dtype, gx_trans trans, const void *x, int64_t ld, int64_t i,
                            int64_t j)
{
    if (trans == GX_NO_TRANS) {
        return load(dtype, x, ld, i, j);
    }
    gx_scalar value = load(dtype, x, ld, j, i);
    if (trans == GX_CONJ_TRANS) {
        value.im = -value.im;
    }
    return value;
}

/* A scalar argument as this dtype sees it: the imaginary part is ignored by real kernels. */
GX_INLINE gx_scalar scalar_of(gx_number dtype, gx_scalar s)
{
    return (gx_scalar){s.re, gx_number_is_complex(dtype) ? s.im : 0};
}

GX_INLINE bool is_zero(gx_scalar s)
{
    return s.re == 0 && s.im == 0;
}

GX_INLINE gx_scalar add(gx_scalar x, gx_scalar y)
{
    return (gx_scalar){x.re + y.re, x.im + y.im};
}

GX_INLINE gx_scalar multiply(gx_scalar x, gx_scalar y)
{
    return (gx_scalar){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

GX_INLINE gx_scalar scale(gx_scalar s, gx_scalar x)
{
    return s.im == 0 ? (gx_scalar){s.re * x.re, s.re * x.im} : multiply(s, x);
}

/* CMPLX() of C11, which clang's headers lack. */
GX_INLINE double complex complex_of(gx_scalar x)
{
    double complex z;
    memcpy(&z, (double[2]){x.re, x.im}, sizeof z);
    return z;
}

GX_INLINE gx_scalar scalar_from(double complex z)
{
    return (gx_scalar){creal(z), cimag(z)};
}

GX_INLINE gx_scalar divide(gx_number dtype, gx_scalar x, gx_scalar y)
{
    if (!gx_number_is_complex(dtype)) {
        return (gx_scalar){x.re / y.re, 0};
    }
    return scalar_from(complex_of(x) / complex_of(y));
}

GX_INLINE double magnitude(gx_number dtype, gx_scalar x)
{
    return gx_number_is_complex(dtype) ? hypot(x.re, x.im) : fabs(x.re);
}

GX_INLINE bool in_triangle(gx_uplo uplo, int64_t i, int64_t j)
{
    return uplo == GX_LOWER ? i >= j : i <= j;
}

GX_INLINE gx_scalar conjugate(gx_scalar x)
{
    return (gx_scalar){x.re, -x.im};
}

GX_INLINE gx_scalar subtract(gx_scalar x, gx_scalar y)
{
    return (gx_scalar){x.re - y.re, x.im - y.im};
}

/* ref_map.c: elementwise functions, one by one and in programs. */
GX_SLOTS_DECLARE(gx_ref_map);
GX_SLOTS_DECLARE(gx_ref_fused);

/* ref_solve.c: triangles, Cholesky, LU. */
GX_SLOTS_DECLARE(gx_ref_triangle);
GX_SLOTS_DECLARE(gx_ref_trsm);
GX_SLOTS_DECLARE(gx_ref_trmm);
GX_SLOTS_DECLARE(gx_ref_potrf);
GX_SLOTS_DECLARE(gx_ref_getrf);
GX_SLOTS_DECLARE(gx_ref_laswp);

/* ref_qr.c: reflectors. */
GX_SLOTS_DECLARE(gx_ref_geqrf);
GX_SLOTS_DECLARE(gx_ref_larft);
GX_SLOTS_DECLARE(gx_ref_larfb);
GX_SLOTS_DECLARE(gx_ref_ormqr);
GX_SLOTS_DECLARE(gx_ref_orgqr);
GX_SLOTS_DECLARE(gx_ref_tpqrt);
GX_SLOTS_DECLARE(gx_ref_tpmqrt);

/* ref_make.c: conversion, random numbers. */
GX_SLOTS_DECLARE(gx_ref_convert);
GX_SLOTS_DECLARE(gx_ref_random);

size_t gx_ref_workspace(gx_dev *dev, gx_kernel_id kernel, gx_number dtype, const gx_args *args);

/* ref_nearest.c */
GX_SLOTS_DECLARE(gx_ref_apart);
GX_SLOTS_DECLARE(gx_ref_spmm); /* ref_sparse.c */
GX_SLOTS_DECLARE(gx_ref_merit);
GX_SLOTS_DECLARE(gx_ref_nearest);
GX_SLOTS_DECLARE(gx_ref_mutual);

#endif
