/*
** Elementwise kernels of the CPU backend: fill, copy, conj, add, mul, div, scale, abs.
**
** A block is walked column by column (as one long column where nothing lies between them).  A
** complex column is seen as twice as many parts where the operation works part by part, else as
** pairs.  Every part passes through get() and put() as a double, so an f32 result is rounded once
** and equals the reference's; all of these loops wait for memory, not for arithmetic.
**
** In place is allowed: element i of the result depends on element i of the operands only, which the
** IN_STEP in front of a loop tells the compiler so that it need not test for overlap.
**
** Complex quotients and magnitudes take the short formula where it is safe and C's own, which
** scales, where it overflows, underflows, or meets Inf and NaN.
*/
#include "cpu.h"
#include "cpu_element.h"

#include <complex.h>
#include <string.h>

#ifdef __clang__
#define IN_STEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define IN_STEP _Pragma("GCC ivdep")
#endif

// One column --------------------------------------------------------------------------------------

GX_INLINE void fill_column(gx_dtype dtype, int64_t m, gx_scalar alpha, void *c)
{
    bool d = has_doubles(dtype);
    for (int64_t i = 0; i < m; i++) {
        if (has_pairs(dtype)) {
            put(d, c, 2 * i, alpha.re);
            put(d, c, 2 * i + 1, alpha.im);
        } else {
            put(d, c, i, alpha.re);
        }
    }
}

GX_INLINE void conj_column(gx_dtype dtype, int64_t m, const void *a, void *c)
{
    bool d = has_doubles(dtype);
    IN_STEP
    for (int64_t i = 0; i < m; i++) {
        put(d, c, 2 * i, get(d, a, 2 * i));
        put(d, c, 2 * i + 1, -get(d, a, 2 * i + 1));
    }
}

/* Real scalars act on each part alone. */
GX_INLINE void scale_parts(bool d, int64_t parts, double alpha, const void *a, void *c)
{
    IN_STEP
    for (int64_t i = 0; i < parts; i++) {
        put(d, c, i, alpha * get(d, a, i));
    }
}

GX_INLINE void add_parts(bool d, int64_t parts, double alpha, const void *a, double beta,
                         const void *b, void *c)
{
    IN_STEP
    for (int64_t i = 0; i < parts; i++) {
        put(d, c, i, alpha * get(d, a, i) + beta * get(d, b, i));
    }
}

GX_INLINE void scale_column(gx_dtype dtype, int64_t m, gx_scalar alpha, const void *a, void *c)
{
    bool d = has_doubles(dtype);
    if (!has_pairs(dtype) || alpha.im == 0) {
        scale_parts(d, has_pairs(dtype) ? 2 * m : m, alpha.re, a, c);
        return;
    }
    IN_STEP
    for (int64_t i = 0; i < m; i++) {
        put_pair(d, c, i, times(alpha, get_pair(d, a, i)));
    }
}

GX_INLINE void add_column(gx_dtype dtype, int64_t m, gx_scalar alpha, const void *a, gx_scalar beta,
                          const void *b, void *c)
{
    bool d = has_doubles(dtype);
    if (!has_pairs(dtype) || (alpha.im == 0 && beta.im == 0)) {
        add_parts(d, has_pairs(dtype) ? 2 * m : m, alpha.re, a, beta.re, b, c);
        return;
    }
    IN_STEP
    for (int64_t i = 0; i < m; i++) {
        gx_scalar x = scaled(alpha, get_pair(d, a, i)), y = scaled(beta, get_pair(d, b, i));
        put_pair(d, c, i, (gx_scalar){x.re + y.re, x.im + y.im});
    }
}

GX_INLINE void mul_column(gx_dtype dtype, int64_t m, const void *a, const void *b, void *c)
{
    bool d = has_doubles(dtype);
    if (has_pairs(dtype)) {
        IN_STEP
        for (int64_t i = 0; i < m; i++) {
            put_pair(d, c, i, times(get_pair(d, a, i), get_pair(d, b, i)));
        }
    } else {
        IN_STEP
        for (int64_t i = 0; i < m; i++) {
            put(d, c, i, get(d, a, i) * get(d, b, i));
        }
    }
}

/* x / y by C's division, which scales and knows Inf and 0 (Annex G). */
static gx_scalar divide_with_care(gx_scalar x, gx_scalar y)
{
    double complex z, w;
    memcpy(&z, (double[2]){x.re, x.im}, sizeof z);
    memcpy(&w, (double[2]){y.re, y.im}, sizeof w);
    z /= w;
    return (gx_scalar){creal(z), cimag(z)};
}

/* x conj(y) / |y|^2 where |y|^2 and the products keep all their digits, else with care. */
GX_INLINE gx_scalar divide(gx_scalar x, gx_scalar y)
{
    double yy = y.re * y.re + y.im * y.im, xx = x.re * x.re + x.im * x.im;
    bool is_safe = yy > 0x1p-500 && yy < 0x1p500 && xx > 0x1p-500 && xx < 0x1p500;
    if (!is_safe) {
        return divide_with_care(x, y);
    }
    gx_scalar z = times(x, (gx_scalar){y.re, -y.im});
    return (gx_scalar){z.re / yy, z.im / yy};
}

GX_INLINE void div_column(gx_dtype dtype, int64_t m, const void *a, const void *b, void *c)
{
    bool d = has_doubles(dtype);
    if (has_pairs(dtype)) {
        for (int64_t i = 0; i < m; i++) {
            put_pair(d, c, i, divide(get_pair(d, a, i), get_pair(d, b, i)));
        }
    } else {
        IN_STEP
        for (int64_t i = 0; i < m; i++) {
            put(d, c, i, get(d, a, i) / get(d, b, i));
        }
    }
}

GX_INLINE void abs_column(gx_dtype dtype, int64_t m, const void *a, void *c)
{
    bool d = has_doubles(dtype);
    if (has_pairs(dtype)) {
        for (int64_t i = 0; i < m; i++) {
            put_pair(d, c, i, (gx_scalar){magnitude(get_pair(d, a, i)), 0});
        }
    } else {
        IN_STEP
        for (int64_t i = 0; i < m; i++) {
            put(d, c, i, fabs(get(d, a, i)));
        }
    }
}

// Whole blocks ------------------------------------------------------------------------------------

GX_INLINE void map_column(gx_kernel_id kernel, gx_dtype dtype, const gx_args *p, int64_t m,
                          const void *a, const void *b, void *c)
{
    switch (kernel) {
    case GX_FILL:
        fill_column(dtype, m, p->alpha, c);
        break;
    case GX_CONJ:
        conj_column(dtype, m, a, c);
        break;
    case GX_ADD:
        add_column(dtype, m, p->alpha, a, p->beta, b, c);
        break;
    case GX_MUL:
        mul_column(dtype, m, a, b, c);
        break;
    case GX_DIV:
        div_column(dtype, m, a, b, c);
        break;
    case GX_SCALE:
        scale_column(dtype, m, p->alpha, a, c);
        break;
    case GX_ABS:
        abs_column(dtype, m, a, c);
        break;
    default: // GX_COPY; in place there is nothing to do
        if (a != c) {
            memmove(c, a, (size_t)m * bytes_of(dtype));
        }
    }
}

/* operands: how many of a, b the kernel reads. */
GX_INLINE gx_code map(gx_kernel_id kernel, int operands, gx_dtype dtype, const gx_args *p)
{
    int64_t m = p->m, n = p->n;
    if (m <= 0 || n <= 0) {
        return GX_OK;
    }
    if (p->ldc == m && (operands < 1 || p->lda == m) && (operands < 2 || p->ldb == m)) {
        m *= n; // nothing lies between the columns
        n = 1;
    }
    size_t bytes = bytes_of(dtype);
    const char *a = p->a, *b = p->b;
    char *c = p->c;
    for (int64_t j = 0; j < n; j++) {
        map_column(kernel, dtype, p, m, a, b, c);
        c += (size_t)p->ldc * bytes;
        if (operands > 0) {
            a += (size_t)p->lda * bytes;
        }
        if (operands > 1) {
            b += (size_t)p->ldb * bytes;
        }
    }
    return GX_OK;
}

#define MAP_SLOTS(name, kernel, operands)                                                          \
    GX_INLINE gx_code map_##name(gx_dtype dtype, const gx_args *p, gx_err *err)                    \
    {                                                                                              \
        (void)err;                                                                                 \
        return map(kernel, operands, dtype, p);                                                    \
    }                                                                                              \
    GX_SIMD_SLOTS_DEFINE(gx_cpu_##name, map_##name)

MAP_SLOTS(fill, GX_FILL, 0)
MAP_SLOTS(copy, GX_COPY, 1)
MAP_SLOTS(add, GX_ADD, 2)
MAP_SLOTS(mul, GX_MUL, 2)
MAP_SLOTS(div, GX_DIV, 2)
MAP_SLOTS(scale, GX_SCALE, 1)
MAP_SLOTS(abs, GX_ABS, 1)

/* A real matrix is its own conjugate. */
GX_INLINE gx_code conjugate(gx_dtype dtype, const gx_args *p, gx_err *err)
{
    (void)err;
    return map(has_pairs(dtype) ? GX_CONJ : GX_COPY, 1, dtype, p);
}
GX_SIMD_SLOTS_DEFINE(gx_cpu_conj, conjugate)
