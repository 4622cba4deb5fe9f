/*
** Elementwise functions of the CPU backend: one expression of real numbers each, and one of complex
** numbers where that is another.
**
** The loop around them is written once, and compiled for each function because the kind is a
** constant in it; and all that three times, for AVX-512, AVX2 and neither.  Expressions without a
** branch, and libm's functions as gx_v_NAME, are vectorised.  Every part passes through get() and
** put() as a double, so an f32 result is rounded once and equals the reference's.  Sums, products,
** quotients, roots and choices are made of floats at once, twice as many a vector: a double has
** more than twice the digits of a float, so what it would be rounded to twice is the same.
**
** A complex run is seen as twice as many real parts where the function works part by part, else as
** pairs.  Complex quotients and magnitudes take the short formula where it is safe and C's own,
** which scales, where it overflows, underflows, or meets Inf and NaN.
**
** libm's and libmvec's results differ in the last place, so the lanes at the end of a run must not
** fall to another one: what is left after whole UNITs is computed in one of its own.
*/
#include "cpu_block.h"

#include "cpu_element.h"
#include "cpu_vector.h"
#include "pairs.h"

#ifdef __clang__
#define IN_STEP _Pragma("clang loop vectorize(assume_safety)")
#pragma clang diagnostic ignored "-Wpass-failed" // functions of the library go one by one
#define WIDE(isa) target(isa), min_vector_width(512)
#else
#define IN_STEP _Pragma("GCC ivdep")
#define WIDE(isa) target(isa ",prefer-vector-width=512")
#endif

enum { UNIT = 32 }; // elements: whole vectors of every size

// Functions ---------------------------------------------------------------------------------------

/* A complex number as C's functions take it, and back. */
GX_INLINE double complex complex_of(gx_scalar x)
{
    return gx_pair(x.re, x.im);
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

static double remainder_of(double a, double b)
{
    double r = fmod(a, b);
    return r == 0 ? copysign(0, b) : (r < 0) != (b < 0) ? r + b : r;
}

/* NaN where one of them is. */
GX_INLINE double larger_of(double a, double b)
{
    return a != a || a > b ? a : b;
}

GX_INLINE double smaller_of(double a, double b)
{
    return a != a || a < b ? a : b;
}

/* of e^-|a|, which does not overflow. */
GX_INLINE double sigmoid_of(double a)
{
    double e = gx_v_exp(-fabs(a)), share = 1 / (1 + e);
    return a < 0 ? e * share : share;
}

GX_INLINE double softplus_of(double a)
{
    double e = gx_v_log1p(gx_v_exp(-fabs(a)));
    return (a > 0 ? a : 0) + e;
}

GX_INLINE double gelu_of(double a)
{
    double x = a < -40 ? -40 : a; // where it is -0 already, so that -Inf times 0 is
    return 0.5 * x * gx_v_erfc(-x * 0.70710678118654752440);
}

static double log_gamma_of(double a)
{
    int sign;
    return lgamma_r(a, &sign);
}

#define OF(KIND, expression)                                                                       \
    case GX_MAP_##KIND:                                                                            \
        return expression;

/* What is 1 or 0, of real numbers. */
GX_INLINE double test_of(gx_map_kind kind, double a, double b)
{
    switch (kind) {
        OF(ISNAN, a != a)
        OF(ISINF, fabs(a) == INFINITY)
        OF(ISFINITE, fabs(a) < INFINITY)
        OF(EQUAL, a == b)
        OF(NOT_EQUAL, a != b)
        OF(LESS, a < b)
        OF(LESS_EQUAL, a <= b)
        OF(GREATER, a > b)
        OF(GREATER_EQUAL, a >= b)
        OF(LOGICAL_AND, (a != 0) & (b != 0))
        OF(LOGICAL_OR, (a != 0) | (b != 0))
        OF(LOGICAL_XOR, (a != 0) != (b != 0))
        OF(LOGICAL_NOT, a == 0)
    default:
        return NAN;
    }
}

/* f of real numbers. */
GX_INLINE double of_real(gx_map_kind kind, double alpha, double beta, double a, double b, double c)
{
    switch (kind) {
        OF(ADD, alpha * a + beta * b)
        OF(MUL, a * b)
        OF(DIV, a / b)
        OF(SCALE, alpha * a)
        OF(CONJ, a)
        OF(ABS, fabs(a))
        OF(REAL, a)
        OF(IMAG, 0)
        OF(ARG, a != a ? a : copysign(1, a) < 0 ? 3.14159265358979323846 : 0)
        OF(SQUARE, a * a)
        OF(RECIPROCAL, 1 / a)
        OF(SQRT, sqrt(a))
        OF(CBRT, gx_v_cbrt(a))
        OF(POW, gx_v_pow(a, b))
        OF(HYPOT, gx_v_hypot(a, b))
        OF(MOD, remainder_of(a, b))
        OF(EXP, gx_v_exp(a))
        OF(EXPM1, gx_v_expm1(a))
        OF(LOG, gx_v_log(a))
        OF(LOG1P, gx_v_log1p(a))
        OF(LOG2, gx_v_log2(a))
        OF(LOG10, gx_v_log10(a))
        OF(SIN, gx_v_sin(a))
        OF(COS, gx_v_cos(a))
        OF(TAN, gx_v_tan(a))
        OF(ASIN, gx_v_asin(a))
        OF(ACOS, gx_v_acos(a))
        OF(ATAN, gx_v_atan(a))
        OF(ATAN2, gx_v_atan2(a, b))
        OF(SINH, gx_v_sinh(a))
        OF(COSH, gx_v_cosh(a))
        OF(TANH, gx_v_tanh(a))
        OF(ASINH, gx_v_asinh(a))
        OF(ERF, gx_v_erf(a))
        OF(ERFC, gx_v_erfc(a))
        OF(GAMMA, tgamma(a))
        OF(LGAMMA, log_gamma_of(a))
        OF(FLOOR, floor(a))
        OF(CEIL, ceil(a))
        OF(ROUND, rint(a))
        OF(TRUNC, trunc(a))
        OF(SIGN, a > 0 ? 1 : a < 0 ? -1 : a == 0 ? 0 : a)
        OF(MAXIMUM, larger_of(a, b))
        OF(MINIMUM, smaller_of(a, b))
        OF(CLIP, smaller_of(larger_of(a, b), c))
        OF(WHERE, a != 0 ? b : c)
        OF(RELU, a != a || a > 0 ? a : 0)
        OF(SIGMOID, sigmoid_of(a))
        OF(SOFTPLUS, softplus_of(a))
        OF(GELU, gelu_of(a))
    default:
        return test_of(kind, a, b);
    }
}

/* f of floats, where it is what a double rounded to one is: where is_single() says so. */
GX_INLINE float of_single(gx_map_kind kind, float alpha, float beta, float a, float b, float c)
{
    switch (kind) {
        OF(ADD, alpha * a + beta * b)
        OF(MUL, a * b)
        OF(DIV, a / b)
        OF(SCALE, alpha * a)
        OF(ABS, fabsf(a))
        OF(SQUARE, a * a)
        OF(RECIPROCAL, 1 / a)
        OF(SQRT, sqrtf(a))
        OF(MAXIMUM, a != a || a > b ? a : b)
        OF(MINIMUM, a != a || a < b ? a : b)
        OF(WHERE, a != 0 ? b : c)
        OF(RELU, a != a || a > 0 ? a : 0)
        OF(LESS, a < b)
        OF(LESS_EQUAL, a <= b)
        OF(GREATER, a > b)
        OF(GREATER_EQUAL, a >= b)
    default:
        return NAN;
    }
}

GX_INLINE bool is_single(gx_map_kind kind, double alpha, double beta)
{
    switch (kind) {
        OF(ADD, fabs(alpha) == 1 && fabs(beta) == 1)
        OF(SCALE, alpha == (double)(float)alpha)
    case GX_MAP_MUL:
    case GX_MAP_DIV:
    case GX_MAP_ABS:
    case GX_MAP_SQUARE:
    case GX_MAP_RECIPROCAL:
    case GX_MAP_SQRT:
    case GX_MAP_MAXIMUM:
    case GX_MAP_MINIMUM:
    case GX_MAP_WHERE:
    case GX_MAP_RELU:
    case GX_MAP_LESS:
    case GX_MAP_LESS_EQUAL:
    case GX_MAP_GREATER:
    case GX_MAP_GREATER_EQUAL:
        return true;
    default:
        return false;
    }
}

/* f of complex numbers, by C's functions. */
static double complex by_library(gx_map_kind kind, double complex a, double complex b)
{
    switch (kind) {
        OF(ARG, carg(a))
        OF(SQRT, csqrt(a))
        OF(POW, gx_cpow(a, b))
        OF(EXP, cexp(a))
        OF(EXPM1, gx_cexpm1(a))
        OF(LOG, clog(a))
        OF(LOG1P, gx_clog1p(a))
        OF(LOG2, clog(a) * 1.44269504088896340736)
        OF(LOG10, clog(a) * 0.43429448190325182765)
        OF(SIN, csin(a))
        OF(COS, ccos(a))
        OF(TAN, ctan(a))
        OF(ASIN, casin(a))
        OF(ACOS, cacos(a))
        OF(ATAN, catan(a))
        OF(SINH, csinh(a))
        OF(COSH, ccosh(a))
        OF(TANH, ctanh(a))
        OF(ASINH, casinh(a))
        OF(SIGN, gx_csign(a))
    default:
        return NAN;
    }
}

GX_INLINE int is_set(gx_scalar x)
{
    return (x.re != 0) | (x.im != 0);
}

#define NUMBER(x) ((gx_scalar){(x), 0})

/* f of complex numbers. */
GX_INLINE gx_scalar of_pair(gx_map_kind kind, gx_scalar alpha, gx_scalar beta, gx_scalar a,
                            gx_scalar b, gx_scalar c)
{
    gx_scalar x = scaled(alpha, a), y = scaled(beta, b);
    switch (kind) {
        OF(ADD, ((gx_scalar){x.re + y.re, x.im + y.im}))
        OF(MUL, times(a, b))
        OF(DIV, divide(a, b))
        OF(SCALE, x)
        OF(CONJ, ((gx_scalar){a.re, -a.im}))
        OF(ABS, NUMBER(magnitude(a)))
        OF(REAL, NUMBER(a.re))
        OF(IMAG, NUMBER(a.im))
        OF(SQUARE, times(a, a))
        OF(RECIPROCAL, divide(NUMBER(1), a))
        OF(WHERE, is_set(a) ? b : c)
        OF(ISNAN, NUMBER((a.re != a.re) | (a.im != a.im)))
        OF(ISINF, NUMBER((fabs(a.re) == INFINITY) | (fabs(a.im) == INFINITY)))
        OF(ISFINITE, NUMBER((fabs(a.re) < INFINITY) & (fabs(a.im) < INFINITY)))
        OF(EQUAL, NUMBER((a.re == b.re) & (a.im == b.im)))
        OF(NOT_EQUAL, NUMBER((a.re != b.re) | (a.im != b.im)))
        OF(LOGICAL_AND, NUMBER(is_set(a) & is_set(b)))
        OF(LOGICAL_OR, NUMBER(is_set(a) | is_set(b)))
        OF(LOGICAL_XOR, NUMBER(is_set(a) != is_set(b)))
        OF(LOGICAL_NOT, NUMBER(!is_set(a)))
    default:
        return scalar_from(by_library(kind, complex_of(a), complex_of(b)));
    }
}

/* Real scalars act on each part alone. */
GX_INLINE bool is_by_parts(gx_map_kind kind, gx_scalar alpha, gx_scalar beta)
{
    return alpha.im == 0 && (kind == GX_MAP_SCALE || (kind == GX_MAP_ADD && beta.im == 0));
}

// Runs --------------------------------------------------------------------------------------------

/* A run of elements: what the function needs beside its kind. */
typedef struct run {
    int64_t count;
    gx_scalar alpha, beta;
    const void *from[3];
    void *dst;
} run;

GX_INLINE void over_parts(gx_map_kind kind, int operands, bool d, int64_t count, const run *r)
{
    const void *a = r->from[0], *b = r->from[1], *c = r->from[2];
    double alpha = r->alpha.re, beta = r->beta.re;
    void *dst = r->dst;
    IN_STEP
    for (int64_t i = 0; i < count; i++) {
        double x = get(d, a, i), y = operands > 1 ? get(d, b, i) : 0;
        put(d, dst, i, of_real(kind, alpha, beta, x, y, operands > 2 ? get(d, c, i) : 0));
    }
}

GX_INLINE void over_singles(gx_map_kind kind, int operands, int64_t count, const run *r)
{
    const float *a = r->from[0], *b = r->from[1], *c = r->from[2];
    float alpha = (float)r->alpha.re, beta = (float)r->beta.re, *dst = r->dst;
    IN_STEP
    for (int64_t i = 0; i < count; i++) {
        float y = operands > 1 ? b[i] : 0;
        dst[i] = of_single(kind, alpha, beta, a[i], y, operands > 2 ? c[i] : 0);
    }
}

GX_INLINE void over_pairs(gx_map_kind kind, int operands, bool d, const run *r)
{
    const void *a = r->from[0], *b = r->from[1], *c = r->from[2];
    gx_scalar alpha = r->alpha, beta = r->beta, none = {0, 0};
    void *dst = r->dst;
    int64_t count = r->count;
    IN_STEP
    for (int64_t i = 0; i < count; i++) {
        gx_scalar y = operands > 1 ? get_pair(d, b, i) : none;
        gx_scalar z = operands > 2 ? get_pair(d, c, i) : none;
        put_pair(d, dst, i, of_pair(kind, alpha, beta, get_pair(d, a, i), y, z));
    }
}

GX_INLINE void over_run(gx_map_kind kind, int operands, gx_map_dtypes dtypes, gx_number dtype,
                        const run *r)
{
    bool d = has_doubles(dtype);
    if (dtype == GX_F32 && is_single(kind, r->alpha.re, r->beta.re)) {
        over_singles(kind, operands, r->count, r);
    } else if (!has_pairs(dtype)) {
        over_parts(kind, operands, d, r->count, r);
    } else if (is_by_parts(kind, r->alpha, r->beta)) {
        over_parts(kind, operands, d, 2 * r->count, r);
    } else if (dtypes != GX_MAP_REAL_ONLY) {
        over_pairs(kind, operands, d, r);
    }
}

GX_INLINE void over_any(gx_map_kind kind, gx_number dtype, const run *r)
{
#define CASE(KIND, name, operands, numbers, keeps, dtypes, ...)                                    \
    case GX_MAP_##KIND:                                                                            \
        over_run(GX_MAP_##KIND, operands, GX_MAP_##dtypes, dtype, r);                              \
        break;
    switch (kind) {
        GX_MAPS(CASE)
    case GX_MAP_KIND_COUNT:
        break;
    }
#undef CASE
}

// For the processor -------------------------------------------------------------------------------

#define COMPILED(suffix, dtype, isa, attribute)                                                    \
    attribute static void run_##suffix##_##isa(gx_map_kind kind, const run *r)                     \
    {                                                                                              \
        over_any(kind, dtype, r);                                                                  \
    }
#define COMPILE_REAL(isa, attribute)                                                               \
    COMPILED(f64, GX_F64, isa, attribute)                                                          \
    COMPILED(f32, GX_F32, isa, attribute)
#define COMPILE(isa, attribute)                                                                    \
    COMPILE_REAL(isa, attribute)                                                                   \
    COMPILED(c128, GX_C128, isa, attribute)                                                        \
    COMPILED(c64, GX_C64, isa, attribute)
#define COMPILED_FOR(real, pairs)                                                                  \
    {                                                                                              \
        [GX_F64] = run_f64_##real, [GX_F32] = run_f32_##real, [GX_C128] = run_c128_##pairs,        \
        [GX_C64] = run_c64_##pairs                                                                 \
    }

typedef void (*compiled)(gx_map_kind, const run *);

COMPILE(base, __attribute__((noinline)))
static const compiled on_base[] = COMPILED_FOR(base, base);
#ifdef __x86_64__
COMPILE(avx2, __attribute__((target("avx2"), noinline)))
static const compiled on_avx2[] = COMPILED_FOR(avx2, avx2);

/* Of pairs gcc 12 makes fused multiply-adds where the processor has them, whatever it is told. */
COMPILE_REAL(avx512, __attribute__((WIDE("avx512f,avx512dq,avx512vl"), noinline)))
static const compiled on_avx512[] = COMPILED_FOR(avx512, avx2);
#endif

static void run_it(gx_map_kind kind, gx_number dtype, const run *r)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        on_avx512[dtype](kind, r);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        on_avx2[dtype](kind, r);
        return;
    }
#endif
    on_base[dtype](kind, r);
}

/* The elements behind the last whole UNIT: in one that is filled up with ones. */
static void run_rest(gx_map_kind kind, gx_number dtype, const run *r, int64_t done)
{
    double room[3][2 * UNIT], result[2 * UNIT];
    size_t bytes = bytes_of(dtype), rest = (size_t)(r->count - done) * bytes;
    run unit = {.count = UNIT, .alpha = r->alpha, .beta = r->beta, .dst = result};
    for (int k = 0; k < gx_map_row(kind)->operands; k++) {
        for (int i = 0; i < (has_pairs(dtype) ? 2 * UNIT : UNIT); i++) {
            put(has_doubles(dtype), room[k], i, 1);
        }
        memcpy(room[k], (const char *)r->from[k] + (size_t)done * bytes, rest);
        unit.from[k] = room[k];
    }
    run_it(kind, dtype, &unit);
    memcpy((char *)r->dst + (size_t)done * bytes, result, rest);
}

void gx_cpu_block(gx_map_kind kind, gx_number dtype, int64_t count, gx_scalar alpha, gx_scalar beta,
                  const void *const from[3], void *dst)
{
    run r = {count, alpha, beta, {from[0], from[1], from[2]}, dst};
    bool is_anywhere = gx_map_row(kind)->has_bits || has_pairs(dtype);
    r.count = is_anywhere ? count : count / UNIT * UNIT;
    if (r.count > 0) {
        run_it(kind, dtype, &r);
    }
    if (r.count < count) {
        int64_t done = r.count;
        r.count = count;
        run_rest(kind, dtype, &r, done);
    }
}

void gx_cpu_block_open(void)
{
    gx_vector_open();
}
