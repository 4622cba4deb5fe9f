/*
** Shared by the files of the reference backend: elements as complex doubles, and the slots of its
** kernel table.  See ref.c.
*/
#ifndef GX_REF_H
#define GX_REF_H

#include "../core/base/field.h"
#include "functions.h"
#include "slots.h"

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

GX_INLINE gx_scalar quotient(gx_number dtype, gx_scalar x, gx_scalar y)
{
    return gx_number_is_complex(dtype) ? divide_with_care(x, y) : (gx_scalar){x.re / y.re, 0};
}

GX_INLINE double magnitude_of(gx_number dtype, gx_scalar x)
{
    return gx_number_is_complex(dtype) ? careful_magnitude(x) : fabs(x.re);
}

GX_INLINE bool in_triangle(gx_uplo uplo, int64_t i, int64_t j)
{
    return uplo == GX_LOWER ? i >= j : i <= j;
}

/* Of every kind of number, and of real ones. */
#define GX_REF_KERNELS(KERNEL)                                                                     \
    GX_KERNELS_OF_ALL(KERNEL, ref)                                                                 \
    KERNEL(ref, PAIR, pair)                                                                        \
    KERNEL(ref, CONVERT, convert)                                                                  \
    KERNEL(ref, RANDOM, random)                                                                    \
    KERNEL(ref, FFT, fft)
#define GX_REF_REAL_KERNELS(KERNEL)                                                                \
    KERNEL(ref, APART, apart)                                                                      \
    KERNEL(ref, MERIT, merit)                                                                      \
    KERNEL(ref, NEAREST, nearest)                                                                  \
    KERNEL(ref, MUTUAL, mutual)
GX_REF_KERNELS(GX_KERNEL_DECLARE)
GX_REF_REAL_KERNELS(GX_REAL_DECLARE)
GX_KERNELS_OF_FIELD(GX_FIELD_DECLARE, ref)
GX_SLOT_PROTOTYPE(gx_ref_whole, f32);
GX_SLOT_PROTOTYPE(gx_ref_hamming, f32);
GX_SLOT_PROTOTYPE(gx_ref_one_hot, f64);
GX_SLOT_PROTOTYPE(gx_ref_grid, f64);

size_t gx_ref_fft_bytes(const gx_args *args); /* of args->work */
size_t gx_ref_grid_bytes(const gx_args *args);
size_t gx_ref_workspace(gx_dev *dev, gx_kernel_id kernel, gx_number dtype, const gx_args *args);

#endif
