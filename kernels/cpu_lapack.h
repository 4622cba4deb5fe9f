/*
** Shared by the CPU backend's factorisations: LAPACK's routines by dtype, and what fits them.
**
** LAPACKE's "work" variants are used: they call LAPACK as it is, without a search for NaN and
** without allocating.  Their integers have 32 bits: a block with a longer side or leading dimension
** has the reference backend do it: slow, but right.
*/
#ifndef GX_CPU_LAPACK_H
#define GX_CPU_LAPACK_H

#include "cpu.h"
#include "cpu_element.h"

#include <cblas.h>
#include <lapacke.h>

/* Sides up to which products of two of them, computed in 64 bits, and work sizes are safe. */
enum { GX_LAPACK_SIDE_MAX = 1 << 30 };

/* Columns of one block of reflectors: LAPACK's own choice for geqrf and ormqr. */
enum { GX_LAPACK_BLOCK = 32 };

/* LAPACKE_dNAME(...) and its three kin; their integer result. */
#define GX_LAPACK(dtype, name, ...) GX_LAPACK2(dtype, name, (__VA_ARGS__), name, (__VA_ARGS__))

/* Where the complex kin have another name or other arguments, which are in parentheses. */
#define GX_LAPACK2(dtype, real, real_arguments, complex, complex_arguments)                        \
    ((dtype) == GX_F64    ? LAPACKE_d##real real_arguments                                         \
     : (dtype) == GX_F32  ? LAPACKE_s##real real_arguments                                         \
     : (dtype) == GX_C128 ? LAPACKE_z##complex complex_arguments                                   \
                          : LAPACKE_c##complex complex_arguments)

GX_INLINE bool fits_lapack(const gx_args *p)
{
    int64_t side = gx_max(p->m, gx_max(p->n, p->k));
    int64_t ld = gx_max(gx_max(p->lda, p->ldb), gx_max(p->ldc, p->ldc2));
    ld = gx_max(ld, 2 * gx_max(p->ldleft, p->ldright)); // twice: geev's real columns
    return side <= GX_LAPACK_SIDE_MAX && ld <= INT32_MAX;
}

/* A leading dimension as LAPACK wants it, at least 1. */
GX_INLINE lapack_int ld_of(int64_t ld)
{
    return (lapack_int)gx_max(ld, 1);
}

/* The transpose of op(Q) as LAPACK calls it: 'T' for real reflectors, 'C' for complex ones. */
GX_INLINE char trans_of(gx_number dtype, gx_trans trans)
{
    return trans == GX_NO_TRANS ? 'N' : gx_number_is_complex(dtype) ? 'C' : 'T';
}

/* The answer to a spectrum of what does not fit LAPACK's integers. */
GX_INLINE gx_code past_lapack(const gx_args *p, gx_err *err)
{
    return gx_fail(err, GX_UNSUPPORTED,
                   "a %lldx%lld matrix is past LAPACK's 32-bit integers: ask for k of them",
                   (long long)p->m, (long long)p->n);
}

/* What does not fit LAPACK's integers, in plain loops. */
GX_INLINE gx_code by_reference(gx_kernel_id kernel, gx_number dtype, const gx_args *p, gx_err *err)
{
    return gx_backend_ref.kernel[kernel][dtype](NULL, NULL, p, err);
}

#endif
