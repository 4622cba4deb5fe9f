/*
** Elementwise kernels of the CPU backend: fill, copy, and the functions of GX_MAP.
**
** A function is one expression of real numbers and one of complex ones; the loop around it is
** written once, and compiled for each function because the kind is a constant in it.  A block is
** walked column by column (as one long column where nothing lies between them).  A complex column
** is seen as twice as many real parts where the function works part by part, else as pairs.  Every
** part passes through get() and put() as a double, so an f32 result is rounded once and equals the
** reference's.
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

// Functions ---------------------------------------------------------------------------------------

/* A complex number as C's functions take it, and back. */
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

/* x / y by C's division, which scales and knows Inf and 0 (Annex G). */
static gx_scalar divide_with_care(gx_scalar x, gx_scalar y)
{
    return scalar_from(complex_of(x) / complex_of(y));
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

/* f of real numbers. */
GX_INLINE double of_real(gx_map_kind kind, double alpha, double beta, double a, double b)
{
    switch (kind) {
    case GX_MAP_ADD:
        return alpha * a + beta * b;
    case GX_MAP_MUL:
        return a * b;
    case GX_MAP_DIV:
        return a / b;
    case GX_MAP_SCALE:
        return alpha * a;
    case GX_MAP_CONJ:
        return a;
    case GX_MAP_ABS:
        return fabs(a);
    case GX_MAP_EXP:
        return exp(a);
    case GX_MAP_LOG:
        return log(a);
    case GX_MAP_SQRT:
        return sqrt(a);
    case GX_MAP_KIND_COUNT:
        break;
    }
    return NAN;
}

/* f of complex numbers. */
GX_INLINE gx_scalar of_pair(gx_map_kind kind, gx_scalar alpha, gx_scalar beta, gx_scalar a,
                            gx_scalar b)
{
    switch (kind) {
    case GX_MAP_ADD: {
        gx_scalar x = scaled(alpha, a), y = scaled(beta, b);
        return (gx_scalar){x.re + y.re, x.im + y.im};
    }
    case GX_MAP_MUL:
        return times(a, b);
    case GX_MAP_DIV:
        return divide(a, b);
    case GX_MAP_SCALE:
        return times(alpha, a);
    case GX_MAP_CONJ:
        return (gx_scalar){a.re, -a.im};
    case GX_MAP_ABS:
        return (gx_scalar){magnitude(a), 0};
    case GX_MAP_EXP:
        return scalar_from(cexp(complex_of(a)));
    case GX_MAP_LOG:
        return scalar_from(clog(complex_of(a)));
    case GX_MAP_SQRT:
        return scalar_from(csqrt(complex_of(a)));
    case GX_MAP_KIND_COUNT:
        break;
    }
    return (gx_scalar){NAN, NAN};
}

/* Real scalars act on each part alone. */
GX_INLINE bool is_by_parts(gx_map_kind kind, const gx_args *p)
{
    return p->alpha.im == 0 &&
           (kind == GX_MAP_SCALE || (kind == GX_MAP_ADD && p->beta.im == 0));
}

// One column --------------------------------------------------------------------------------------

/* What a walk does beside the functions. */
enum { FILL = GX_MAP_KIND_COUNT, COPY };

GX_INLINE void fill_column(gx_dtype dtype, int64_t m, gx_scalar alpha, void *c)
{
    bool d = has_doubles(dtype);
    for (int64_t i = 0; i < m; i++) {
        if (has_pairs(dtype)) {
            put_pair(d, c, i, alpha);
        } else {
            put(d, c, i, alpha.re);
        }
    }
}

GX_INLINE void map_column(int what, int operands, gx_dtype dtype, const gx_args *p, int64_t m,
                          const void *a, const void *b, void *c)
{
    bool d = has_doubles(dtype);
    gx_map_kind kind = (gx_map_kind)what;
    if (what == FILL) {
        fill_column(dtype, m, p->alpha, c);
    } else if (what == COPY || (kind == GX_MAP_CONJ && !has_pairs(dtype))) {
        if (a != c) {
            memmove(c, a, (size_t)m * bytes_of(dtype));
        }
    } else if (!has_pairs(dtype) || is_by_parts(kind, p)) {
        int64_t parts = has_pairs(dtype) ? 2 * m : m;
        double alpha = p->alpha.re, beta = p->beta.re;
        IN_STEP
        for (int64_t i = 0; i < parts; i++) {
            put(d, c, i, of_real(kind, alpha, beta, get(d, a, i), operands > 1 ? get(d, b, i) : 0));
        }
    } else {
        gx_scalar alpha = p->alpha, beta = p->beta, none = {0, 0};
        IN_STEP
        for (int64_t i = 0; i < m; i++) {
            gx_scalar y = operands > 1 ? get_pair(d, b, i) : none;
            put_pair(d, c, i, of_pair(kind, alpha, beta, get_pair(d, a, i), y));
        }
    }
}

// Whole blocks ------------------------------------------------------------------------------------

/* operands: how many of a, b are read. */
GX_INLINE gx_code walk(int what, int operands, gx_dtype dtype, const gx_args *p)
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
        map_column(what, operands, dtype, p, m, a, b, c);
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

GX_INLINE gx_code fill(gx_dtype dtype, const gx_args *p, gx_err *err)
{
    (void)err;
    return walk(FILL, 0, dtype, p);
}
GX_SIMD_SLOTS_DEFINE(gx_cpu_fill, fill)

GX_INLINE gx_code copy(gx_dtype dtype, const gx_args *p, gx_err *err)
{
    (void)err;
    return walk(COPY, 1, dtype, p);
}
GX_SIMD_SLOTS_DEFINE(gx_cpu_copy, copy)

GX_INLINE gx_code map(gx_dtype dtype, const gx_args *p, gx_err *err)
{
#define CASE(KIND, name, operands, ...)                                                            \
    case GX_MAP_##KIND:                                                                            \
        return walk(GX_MAP_##KIND, operands, dtype, p);
    switch (p->map) {
        GX_MAPS(CASE)
    case GX_MAP_KIND_COUNT:
        break;
    }
#undef CASE
    return gx_fail(err, GX_UNSUPPORTED, "no elementwise function %d", (int)p->map);
}
GX_SIMD_SLOTS_DEFINE(gx_cpu_map, map)
