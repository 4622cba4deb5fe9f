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
#include <math.h>

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

// Routines with work space, which thread inside ---------------------------------------------------

enum { LAYOUT = LAPACK_COL_MAJOR };

/* The work space of one call, cut into its three parts. */
typedef struct space {
    int64_t reals, integers, elements;
    char *real, *element;
    lapack_int *integer;
    size_t bytes;
} space;

GX_INLINE space lay_out(gx_number dtype, void *work, int64_t reals, int64_t integers,
                        int64_t elements)
{
    space s = {.reals = reals, .integers = integers, .elements = elements};
    size_t real_bytes = gx_whole_lines((size_t)reals * (gx_number_is_double(dtype) ? 8 : 4));
    size_t integer_bytes = gx_whole_lines((size_t)integers * sizeof(lapack_int));
    s.bytes = real_bytes + integer_bytes + (size_t)elements * gx_number_bytes(dtype);
    s.real = work;
    s.integer = work == NULL ? NULL : (void *)(s.real + real_bytes);
    s.element = work == NULL ? NULL : s.real + real_bytes + integer_bytes;
    return s;
}

/* LAPACK's answer to a query, in elements: the first number of an element of dtype, rounded up. */
GX_INLINE int64_t answer_of(gx_number dtype, const void *answer)
{
    double number = gx_number_get(gx_number_real(dtype), answer, 0).re;
    return (int64_t)number + (int64_t)(number / (1 << 20)) + 64; // f32 has 24 bits
}

/* One call of LAPACK, for gx_cpu_wide(). */
typedef struct lapack_call {
    gx_number dtype;
    const gx_args *args;
    const space *space;
    lapack_int info;
} lapack_call;

/* Run it; *p->info is 0 where it is good. */
GX_INLINE gx_code run_wide(gx_cpu_call routine, gx_number dtype, const gx_args *p, const space *s,
                           gx_err *err)
{
    lapack_call call = {.dtype = dtype, .args = p, .space = s};
    int64_t order = p->m > 0 ? gx_min(p->m, p->n) : p->n;
    GX_TRY(gx_cpu_wide(p, order, routine, &call, err));
    *p->info = call.info < 0 ? 1 : call.info;
    return GX_OK;
}

/* What every slot does before LAPACK; true where there is nothing left. */
GX_INLINE bool is_answered(const gx_args *p, gx_code *code, gx_err *err)
{
    *p->info = 0;
    *code = GX_OK;
    if (p->n > 0 && !fits_lapack(p)) {
        *code = past_lapack(p, err);
        return true;
    }
    return p->n <= 0;
}

/* Pointers and leading dimensions for a query; wants_*, sizes and dtype decide. */
GX_INLINE gx_args sizes_of(const gx_args *p)
{
    gx_args sizes = *p;
    sizes.c = sizes.values = sizes.left = sizes.right = NULL;
    sizes.ldc = sizes.ldleft = sizes.ldright = gx_max(gx_max(p->m, p->n), 1);
    return sizes;
}

/* Does a value re + i im, of b = 1 or of the pair that b is of, come first? */
GX_INLINE bool comes_first(gx_sort sort, double re, double im, double b)
{
    bool is_finite = b != 0;
    return sort == GX_SORT_LEFT     ? is_finite && re < 0
           : sort == GX_SORT_RIGHT  ? is_finite && re >= 0
           : sort == GX_SORT_INSIDE ? is_finite && hypot(re, im) <= b
                                    : hypot(re, im) > b;
}

/* What does not fit LAPACK's integers, in plain loops. */
GX_INLINE gx_code by_reference(gx_kernel_id kernel, gx_number dtype, const gx_args *p, gx_err *err)
{
    return gx_backend_ref.kernel[kernel][dtype](NULL, NULL, p, err);
}

#endif
