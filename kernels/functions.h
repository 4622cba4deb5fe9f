/*
** The elementwise functions of map.h on one element: one expression of real numbers each, and one
** of complex numbers where that is another.
**
** The reference, the CPU and CUDA compile this text, and NVRTC, which has no headers, once more
** while gx runs: so it is C as well as C++ and includes nothing there.  Parts of f32 come as
** doubles and are rounded once, by who stores them.  What a backend has in its own way:
**
**   LIBM(f)             the function f of libm: by itself, or for a vector (cpu_block.c)
**   z_NAME()            the function NAME of complex numbers: C's, or cuda_functions.cuh's
**   divide_with_care(), careful_magnitude(), log_gamma(), normal_quantile(), gamma_tail(),
**   beta_lower()
**
** Complex quotients and magnitudes take the short formula where every term keeps its digits, and
** the careful one where squares overflow, underflow, or meet Inf and NaN.
*/
#ifndef GX_FUNCTIONS_H
#define GX_FUNCTIONS_H

/* The functions of complex numbers that C has. */
#define GX_COMPLEX_FUNCTIONS(F)                                                                    \
    F(exp) F(log) F(sqrt) F(sin) F(cos) F(tan) F(asin) F(acos) F(atan) F(sinh) F(cosh) F(tanh)     \
    F(asinh)

#ifdef __CUDACC__
#ifndef GX_TYPES_H // NVRTC compiles this file alone
struct gx_scalar {
    double re, im;
};
#endif
#define GX_FN __device__ __forceinline__
#define GX_CALLED __device__ __noinline__ // one copy of it
#define GX_INF __longlong_as_double(0x7ff0000000000000ll)
#define GX_NAN __longlong_as_double(0x7ff8000000000000ll)

#define DECLARE(name) GX_CALLED gx_scalar z_##name(gx_scalar z);
GX_COMPLEX_FUNCTIONS(DECLARE)
#undef DECLARE
GX_CALLED gx_scalar divide_with_care(gx_scalar x, gx_scalar y);
GX_CALLED double careful_magnitude(gx_scalar x);
GX_CALLED double gamma_tail(double a, double x, bool is_upper);
GX_CALLED double beta_lower(double a, double b, double x);
#define log_gamma(a) lgamma(a)
#define normal_quantile(p) normcdfinv(p)
#else
#include "../core/base/map.h"
#include "../core/base/special.h"

#include <complex.h>
#include <math.h>
#include <string.h>

#define GX_FN static inline __attribute__((always_inline))
#define GX_CALLED static __attribute__((noinline, unused))
#define GX_INF ((double)INFINITY)
#define GX_NAN ((double)NAN)

/* A complex number as C's functions take it, and back.  clang's headers lack C11's CMPLX(). */
GX_FN double complex complex_of(gx_scalar x)
{
    double complex z;
    memcpy(&z, (double[2]){x.re, x.im}, sizeof z);
    return z;
}

GX_FN gx_scalar scalar_from(double complex z)
{
    return (gx_scalar){creal(z), cimag(z)};
}

#define DEFINE(name)                                                                               \
    GX_CALLED gx_scalar z_##name(gx_scalar z)                                                      \
    {                                                                                              \
        return scalar_from(c##name(complex_of(z)));                                                \
    }
GX_COMPLEX_FUNCTIONS(DEFINE)
#undef DEFINE

/* By C's division, which scales and knows Inf and 0 (Annex G). */
GX_CALLED gx_scalar divide_with_care(gx_scalar x, gx_scalar y)
{
    return scalar_from(complex_of(x) / complex_of(y));
}

GX_FN double careful_magnitude(gx_scalar x)
{
    return hypot(x.re, x.im);
}

GX_CALLED double log_gamma(double a)
{
    int sign;
    return lgamma_r(a, &sign);
}

GX_CALLED double normal_quantile(double p)
{
    return p >= 0 && p <= 1 ? gx_normal_quantile(p) : GX_NAN;
}

/* Of a, x > 0 and finite, in (0, 1); so on a device too. */
GX_CALLED double gamma_tail(double a, double x, bool is_upper)
{
    gx_tails t = gx_gamma_tails(a, x);
    return (double)(is_upper ? t.upper : t.lower);
}

GX_CALLED double beta_lower(double a, double b, double x)
{
    return (double)gx_beta_tails(a, b, x, 1 - (long double)x).lower;
}
#endif

#ifndef LIBM
#define LIBM(name) name
#endif

// Arithmetic of complex numbers -------------------------------------------------------------------

GX_FN gx_scalar as_scalar(double re, double im)
{
    gx_scalar z = {re, im};
    return z;
}

GX_FN gx_scalar add(gx_scalar x, gx_scalar y)
{
    return as_scalar(x.re + y.re, x.im + y.im);
}

GX_FN gx_scalar conjugate(gx_scalar x)
{
    return as_scalar(x.re, -x.im);
}

GX_FN gx_scalar times(gx_scalar x, gx_scalar y)
{
    return as_scalar(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re);
}

/* s x with a scalar: part by part where s is real, so that an Inf in one part stays there. */
GX_FN gx_scalar scaled(gx_scalar s, gx_scalar x)
{
    return s.im == 0 ? as_scalar(s.re * x.re, s.re * x.im) : times(s, x);
}

GX_FN double magnitude(gx_scalar x)
{
    double s = x.re * x.re + x.im * x.im;
    return s > 0x1p-900 && s < GX_INF ? sqrt(s) : careful_magnitude(x);
}

/* x conj(y) / |y|^2 where |y|^2 and the products keep all their digits. */
GX_FN gx_scalar divided(gx_scalar x, gx_scalar y)
{
    double yy = y.re * y.re + y.im * y.im, xx = x.re * x.re + x.im * x.im;
    if (!(yy > 0x1p-500 && yy < 0x1p500 && xx > 0x1p-500 && xx < 0x1p500)) {
        return divide_with_care(x, y);
    }
    gx_scalar z = times(x, conjugate(y));
    return as_scalar(z.re / yy, z.im / yy);
}

GX_FN int is_set(gx_scalar x)
{
    return (x.re != 0) | (x.im != 0);
}

// Functions that need more than an expression -----------------------------------------------------

GX_CALLED double remainder_of(double a, double b)
{
    double r = fmod(a, b);
    return r == 0 ? copysign(0.0, b) : (r < 0) != (b < 0) ? r + b : r;
}

/* NaN where a or the bound is. */
GX_FN double clipped(double a, double least, double most)
{
    double x = a != a || a > least ? a : least;
    return x != x || x < most ? x : most;
}

/* of e^-|a|, which does not overflow. */
GX_FN double sigmoid_of(double a)
{
    double e = LIBM(exp)(-fabs(a)), share = 1 / (1 + e);
    return a < 0 ? e * share : share;
}

GX_FN double softplus_of(double a)
{
    double e = LIBM(log1p)(LIBM(exp)(-fabs(a)));
    return (a > 0 ? a : 0) + e;
}

GX_FN double gelu_of(double a)
{
    double x = a < -40 ? -40 : a; // where it is -0 already, so that -Inf times 0 is
    return 0.5 * x * LIBM(erfc)(-x * 0.70710678118654752440);
}

/* erfc(-a / sqrt(2)) / 2; a far a keeps the digits that the quotient's rounding would take. */
GX_FN double normal_cdf(double a)
{
    double x = a < -40 ? -40 : a > 40 ? 40 : a, head = (double)(float)x, rest = x - head;
    double exact = head * 0.7071067690849304,
           more = rest * 0.70710678118654752440 + head * 1.2101617104478969e-8;
    double sum = exact + more, lost = exact - sum + more;
    return 0.5 * LIBM(erfc)(-sum) * (1 + lost * (sqrt(sum * sum + 1.3) - sum));
}

/* P(a, x), or Q; as SciPy, the limits for a = 0 and what is infinite. */
GX_CALLED double incomplete_gamma(double a, double x, bool is_upper)
{
    if (!(a >= 0 && x >= 0) || (a == 0 && x == 0) || (a == GX_INF && x == GX_INF)) {
        return GX_NAN;
    }
    if (a == 0 || x == 0 || a == GX_INF || x == GX_INF) {
        return (a == 0 || x == GX_INF) != is_upper;
    }
    return gamma_tail(a, x, is_upper);
}

GX_CALLED double incomplete_beta(double a, double b, double x)
{
    bool is_first = a == 0 || b == GX_INF, is_last = b == 0 || a == GX_INF; // all is at 0, at 1
    if (!(a >= 0 && b >= 0 && x >= 0 && x <= 1) || (is_first && is_last)) {
        return GX_NAN;
    }
    if (is_first || is_last) {
        return is_first ? (x > 0 ? 1 : GX_NAN) : (x < 1 ? 0 : GX_NAN);
    }
    return x == 0 ? 0 : x == 1 ? 1 : beta_lower(a, b, x);
}

/* e^z - 1 without cancellation where z is small. */
GX_CALLED gx_scalar z_expm1(gx_scalar z)
{
    double half = sin(z.im / 2);
    return as_scalar(expm1(z.re) * cos(z.im) - 2 * half * half,
                   z.im == 0 ? z.im : exp(z.re) * sin(z.im));
}

/* log(1 + z) without cancellation where z is small: |1 + z|^2 - 1 = x (2 + x) + y^2. */
GX_CALLED gx_scalar z_log1p(gx_scalar z)
{
    if (fabs(z.re) < 0.5 && fabs(z.im) < 0.5) {
        return as_scalar(0.5 * log1p(z.re * (2 + z.re) + z.im * z.im), atan2(z.im, 1 + z.re));
    }
    return z_log(as_scalar(1 + z.re, z.im));
}

/*
** a^b; whole numbers b up to 64 by multiplication, a^0 is 1, a^1 is a.  0^b is 0 where b's real
** part is positive, else NaN in both parts, as in NumPy.
*/
GX_CALLED gx_scalar z_pow(gx_scalar a, gx_scalar b)
{
    double n = b.re;
    bool is_whole = b.im == 0 && fabs(n) <= 64 && n == rint(n);
    if (!is_set(a) && !(is_whole && n == 0)) {
        return n > 0 ? as_scalar(0, 0) : as_scalar(GX_NAN, GX_NAN);
    }
    if (is_whole) {
        gx_scalar product = as_scalar(1, 0), factor = a;
        bool is_first = true;
        for (int k = (int)fabs(n); k > 0; k /= 2, factor = times(factor, factor)) {
            if (k % 2 == 1) {
                product = is_first ? factor : times(product, factor);
                is_first = false;
            }
        }
        return n < 0 ? divided(as_scalar(1, 0), product) : product;
    }
    return z_exp(times(b, z_log(a)));
}

/*
** z / |z|; 0 of 0.  Of a number with one infinite part the direction of that: 1, -1, i or -i.  Two
** infinite parts, or a NaN, have no direction: NaN in both parts.  |z| is taken of z / 4 or 2^600 z
** where it overflows, or has few digits.
*/
GX_CALLED gx_scalar direction(gx_scalar z)
{
    bool is_far = fabs(z.re) == GX_INF, is_high = fabs(z.im) == GX_INF;
    if (z.re != z.re || z.im != z.im || (is_far && is_high)) {
        return as_scalar(GX_NAN, GX_NAN);
    }
    if (is_far || is_high) {
        return is_far ? as_scalar(copysign(1.0, z.re), 0) : as_scalar(0, copysign(1.0, z.im));
    }
    double size = hypot(z.re, z.im), unit = size == GX_INF ? 0.25 : size < 0x1p-500 ? 0x1p600 : 1;
    size = unit == 1 ? size : hypot(z.re * unit, z.im * unit);
    return size == 0 ? as_scalar(0, 0) : as_scalar(z.re * unit / size, z.im * unit / size);
}

// The table ---------------------------------------------------------------------------------------

/*
** Of real numbers: those that, of floats, a float holds as well as a double rounded to one does
** (sums and multiples: of some scalars), and the others.  Without a branch a loop is vectorised.
*/
#define GX_EXACT_EXPRESSIONS(OF)                                                                   \
    OF(ADD, alpha * a + beta * b)                                                                  \
    OF(MUL, a * b)                                                                                 \
    OF(DIV, a / b)                                                                                 \
    OF(SCALE, alpha * a)                                                                           \
    OF(ABS, fabs(a))                                                                               \
    OF(SQUARE, a * a)                                                                              \
    OF(RECIPROCAL, 1 / a)                                                                          \
    OF(SQRT, sqrt(a))                                                                              \
    OF(MAXIMUM, a != a || a > b ? a : b)                                                           \
    OF(MINIMUM, a != a || a < b ? a : b)                                                           \
    OF(WHERE, a != 0 ? b : c)                                                                      \
    OF(RELU, a != a || a > 0 ? a : 0)                                                              \
    OF(LESS, a < b)                                                                                \
    OF(LESS_EQUAL, a <= b)                                                                         \
    OF(GREATER, a > b)                                                                             \
    OF(GREATER_EQUAL, a >= b)

#define OF(KIND, expression)                                                                       \
    case GX_MAP_##KIND:                                                                            \
        return expression;

GX_FN double of_real(int kind, double alpha, double beta, double a, double b, double c)
{
    switch (kind) {
        GX_EXACT_EXPRESSIONS(OF)
        OF(CONJ, a)
        OF(REAL, a)
        OF(IMAG, 0)
        OF(ARG, a != a ? a : copysign(1.0, a) < 0 ? 3.14159265358979323846 : 0)
        OF(CBRT, LIBM(cbrt)(a))
        OF(POW, LIBM(pow)(a, b))
        OF(HYPOT, LIBM(hypot)(a, b))
        OF(MOD, remainder_of(a, b))
        OF(EXP, LIBM(exp)(a))
        OF(EXPM1, LIBM(expm1)(a))
        OF(LOG, LIBM(log)(a))
        OF(LOG1P, LIBM(log1p)(a))
        OF(LOG2, LIBM(log2)(a))
        OF(LOG10, LIBM(log10)(a))
        OF(SIN, LIBM(sin)(a))
        OF(COS, LIBM(cos)(a))
        OF(TAN, LIBM(tan)(a))
        OF(ASIN, LIBM(asin)(a))
        OF(ACOS, LIBM(acos)(a))
        OF(ATAN, LIBM(atan)(a))
        OF(ATAN2, LIBM(atan2)(a, b))
        OF(SINH, LIBM(sinh)(a))
        OF(COSH, LIBM(cosh)(a))
        OF(TANH, LIBM(tanh)(a))
        OF(ASINH, LIBM(asinh)(a))
        OF(ERF, LIBM(erf)(a))
        OF(ERFC, LIBM(erfc)(a))
        OF(GAMMA, tgamma(a))
        OF(LGAMMA, log_gamma(a))
        OF(FLOOR, floor(a))
        OF(CEIL, ceil(a))
        OF(ROUND, rint(a))
        OF(TRUNC, trunc(a))
        OF(SIGN, a > 0 ? 1 : a < 0 ? -1 : a == 0 ? 0 : a)
        OF(CLIP, clipped(a, b, c))
        OF(ISNAN, a != a)
        OF(ISINF, fabs(a) == GX_INF)
        OF(ISFINITE, fabs(a) < GX_INF)
        OF(EQUAL, a == b)
        OF(NOT_EQUAL, a != b)
        OF(LOGICAL_AND, (a != 0) & (b != 0))
        OF(LOGICAL_OR, (a != 0) | (b != 0))
        OF(LOGICAL_XOR, (a != 0) != (b != 0))
        OF(LOGICAL_NOT, a == 0)
        OF(SIGMOID, sigmoid_of(a))
        OF(SOFTPLUS, softplus_of(a))
        OF(GELU, gelu_of(a))
        OF(NDTR, normal_cdf(a))
        OF(NDTRI, normal_quantile(a))
        OF(GAMMAINC, incomplete_gamma(a, b, false))
        OF(GAMMAINCC, incomplete_gamma(a, b, true))
        OF(BETAINC, incomplete_beta(a, b, c))
    }
    return GX_NAN;
}

#define ONLY(x) as_scalar((x), 0)

/* Of complex numbers: the kinds that have a meaning there. */
GX_FN gx_scalar of_pair(int kind, gx_scalar alpha, gx_scalar beta, gx_scalar a, gx_scalar b,
                        gx_scalar c)
{
    switch (kind) {
        OF(ADD, add(scaled(alpha, a), scaled(beta, b)))
        OF(MUL, times(a, b))
        OF(DIV, divided(a, b))
        OF(SCALE, scaled(alpha, a))
        OF(CONJ, conjugate(a))
        OF(ABS, ONLY(magnitude(a)))
        OF(REAL, ONLY(a.re))
        OF(IMAG, ONLY(a.im))
        OF(ARG, ONLY(atan2(a.im, a.re)))
        OF(SQUARE, times(a, a))
        OF(RECIPROCAL, divided(ONLY(1), a))
        OF(SQRT, z_sqrt(a))
        OF(POW, z_pow(a, b))
        OF(EXP, z_exp(a))
        OF(EXPM1, z_expm1(a))
        OF(LOG, z_log(a))
        OF(LOG1P, z_log1p(a))
        OF(LOG2, scaled(ONLY(1.44269504088896340736), z_log(a)))
        OF(LOG10, scaled(ONLY(0.43429448190325182765), z_log(a)))
        OF(SIN, z_sin(a))
        OF(COS, z_cos(a))
        OF(TAN, z_tan(a))
        OF(ASIN, z_asin(a))
        OF(ACOS, z_acos(a))
        OF(ATAN, z_atan(a))
        OF(SINH, z_sinh(a))
        OF(COSH, z_cosh(a))
        OF(TANH, z_tanh(a))
        OF(ASINH, z_asinh(a))
        OF(SIGN, direction(a))
        OF(WHERE, is_set(a) ? b : c)
        OF(ISNAN, ONLY((a.re != a.re) | (a.im != a.im)))
        OF(ISINF, ONLY((fabs(a.re) == GX_INF) | (fabs(a.im) == GX_INF)))
        OF(ISFINITE, ONLY((fabs(a.re) < GX_INF) & (fabs(a.im) < GX_INF)))
        OF(EQUAL, ONLY((a.re == b.re) & (a.im == b.im)))
        OF(NOT_EQUAL, ONLY((a.re != b.re) | (a.im != b.im)))
        OF(LOGICAL_AND, ONLY(is_set(a) & is_set(b)))
        OF(LOGICAL_OR, ONLY(is_set(a) | is_set(b)))
        OF(LOGICAL_XOR, ONLY(is_set(a) != is_set(b)))
        OF(LOGICAL_NOT, ONLY(!is_set(a)))
    }
    return as_scalar(GX_NAN, GX_NAN);
}
#undef OF
#undef ONLY

#endif
