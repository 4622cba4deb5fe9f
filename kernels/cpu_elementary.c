/*
** exp, sin, cos, tan and asin of vectors of doubles.  See cpu_vector.h.
**
**   exp    x = n log 2 + r, |r| <= log(2) / 2: e^r by its series to r^13, times 2^n in two factors,
**          so that a result below the normal numbers is rounded once
**   sin    x = n pi / 2 + high + low, pi / 2 in pieces of 33 bits, so that the products with n are
**          exact (Cody & Waite 1980); polynomials on [-pi / 4, pi / 4]
**   tan    sine over cosine, or - cosine over sine, each as the sum of two numbers; the quotient is
**          corrected by what it leaves
**   asin   x + x^3 R(x^2) up to 1/2, above it pi / 2 - 2 asin(sqrt((1 - x) / 2)), the root as the
**          sum of two numbers
**
** The polynomials of sin, cos and asin are those of fdlibm (Sun Microsystems 1993).  Angles beyond
** 2^20, those within 2^-12 of a multiple of pi / 2 that is not 0, Inf and NaN are libm's, lane by
** lane.  Measured: at most 0.95 units in the last place.
**
** A function is written once, for vectors of `real` with their `bits`, and compiled for three
** widths.  Products and sums may be contracted: where a difference must be exact, it is so either
** way.
*/
#include "cpu_vector.h"

#ifdef GX_VECTORS

#include <immintrin.h>
#include <stdint.h>

typedef int64_t bits_b __attribute__((vector_size(16)));
typedef int64_t bits_d __attribute__((vector_size(32)));
typedef int64_t bits_e __attribute__((vector_size(64)));

#define INLINE static inline __attribute__((always_inline))

/* Added to a number below 2^51 it leaves its nearest whole number in the last bits. */
#define MAGIC 0x1.8p52

/* a where the mask is set, else b. */
#define PICK(letter, mask, a, b) (((bits_##letter)(a) & (mask)) | ((bits_##letter)(b) & ~(mask)))

#define ROOT_b(x) _mm_sqrt_pd(x)
#define ROOT_d(x) _mm256_sqrt_pd(x)
#define ROOT_e(x) _mm512_sqrt_pd(x)

/* Is a lane of the mask set? */
#define ANY_b(mask) (_mm_movemask_pd((__m128d)(mask)) != 0)
#define ANY_d(mask) (_mm256_movemask_pd((__m256d)(mask)) != 0)
#define ANY_e(mask) (_mm512_test_epi64_mask((__m512i)(mask), (__m512i)(mask)) != 0)

/* c - a b, rounded once; without FMA the product is taken in halves (Dekker 1971). */
#define LEFT_d(a, b, c) _mm256_fnmadd_pd(a, b, c)
#define LEFT_e(a, b, c) _mm512_fnmadd_pd(a, b, c)
#define LEFT_b(a, b, c) left_by_halves(a, b, c)

INLINE gx_two left_by_halves(gx_two a, gx_two b, gx_two c)
{
    const double SPLIT = 0x1p27 + 1;
    gx_two at = a * SPLIT, bt = b * SPLIT, product = a * b;
    gx_two a1 = at - (at - a), b1 = bt - (bt - b), a2 = a - a1, b2 = b - b1;
    gx_two error = ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2;
    return (c - product) - error;
}

// The exponential ---------------------------------------------------------------------------------

#define DEFINE_EXP(letter, real, isa)                                                              \
    isa INLINE real exponential_##letter(real x)                                                   \
    {                                                                                              \
        const double TOO_LARGE = 0x1.62e42fefa39efp9, TOO_SMALL = -0x1.74910d52d3052p9;            \
        real none = {0}, t = x * 0x1.71547652b82fep0 + MAGIC, n = t - MAGIC;                       \
        real high = x - n * 0x1.62e42feep-1, low = n * 0x1.a39ef35793c76p-33;                      \
        real r = high - low, rest = (high - r) - low;                                              \
        real p = r * 0x1.6124613a86d09p-33 + 0x1.1eed8eff8d898p-29;                                \
        p = p * r + 0x1.ae64567f544e4p-26;                                                         \
        p = p * r + 0x1.27e4fb7789f5cp-22;                                                         \
        p = p * r + 0x1.71de3a556c734p-19;                                                         \
        p = p * r + 0x1.a01a01a01a01ap-16;                                                         \
        p = p * r + 0x1.a01a01a01a01ap-13;                                                         \
        p = p * r + 0x1.6c16c16c16c17p-10;                                                         \
        p = p * r + 0x1.1111111111111p-7;                                                          \
        p = p * r + 0x1.5555555555555p-5;                                                          \
        p = p * r + 0x1.5555555555555p-3;                                                          \
        p = p * r + 0.5;                                                                           \
        real y = 1 + (r + (r * r * p + rest));                                                     \
        bits_##letter power = (bits_##letter)t - (bits_##letter)(none + MAGIC), half = power >> 1; \
        y = y * (real)((half + 1023) << 52) * (real)((power - half + 1023) << 52);                 \
        y = (real)PICK(letter, x > TOO_LARGE, none + (double)INFINITY, y);                         \
        y = (real)PICK(letter, x < TOO_SMALL, none, y);                                            \
        return (real)PICK(letter, x != x, x, y);                                                   \
    }

// Angles ------------------------------------------------------------------------------------------

/* The angle is turns pi / 2 + high + low; is_hard: libm has it. */
#define DEFINE_ANGLE(letter, real, isa)                                                            \
    typedef struct angle_##letter {                                                                \
        real high, low;                                                                            \
        bits_##letter turns, is_hard;                                                              \
    } angle_##letter;                                                                              \
    isa INLINE angle_##letter reduced_##letter(real x)                                             \
    {                                                                                              \
        real none = {0}, t = x * 0x1.45f306dc9c883p-1 + MAGIC, n = t - MAGIC;                      \
        real a = x - n * 0x1.921fb544p0, w = n * 0x1.0b4611a6p-34, b = a - w;                      \
        real rest = n * 0x1.3198a2e037073p-69 - ((a - b) - w), high = b - rest;                    \
        bits_##letter is_near = (high < 0x1p-12) & (high > -0x1p-12) & (n != 0);                   \
        return (angle_##letter){.high = high,                                                      \
                                .low = (b - high) - rest,                                          \
                                .turns = (bits_##letter)t - (bits_##letter)(none + MAGIC),         \
                                .is_hard = is_near | ~((x < 0x1p20) & (x > -0x1p20))};             \
    }

/* The sine is *head + what is returned, and so is the cosine. */
#define DEFINE_WAVES(letter, real, isa)                                                            \
    isa INLINE real sine_##letter(const angle_##letter *g, real *head)                             \
    {                                                                                              \
        real y = g->high, z = y * y, v = z * y;                                                    \
        real r = z * 1.58969099521155010221e-10 - 2.50507602534068634195e-08;                      \
        r = z * (z * r + 2.75573137070700676789e-06) - 1.98412698298579493134e-04;                 \
        r = z * r + 8.33333333332248946124e-03;                                                    \
        *head = y;                                                                                 \
        return v * -1.66666666666666324348e-01 - (z * (0.5 * g->low - v * r) - g->low);            \
    }                                                                                              \
    isa INLINE real cosine_##letter(const angle_##letter *g, real *head)                           \
    {                                                                                              \
        real y = g->high, z = y * y, half = 0.5 * z;                                               \
        real r = z * -1.13596475577881948265e-11 + 2.08757232129817482790e-09;                     \
        r = z * (z * r - 2.75573143513906633035e-07) + 2.48015872894767294178e-05;                 \
        r = z * (z * r - 1.38888888888741095749e-03) + 4.16666666666666019037e-02;                 \
        *head = 1 - half;                                                                          \
        return ((1 - *head) - half) + (z * z * r - y * g->low);                                    \
    }                                                                                              \
    isa INLINE real wave_##letter(const angle_##letter *g, bits_##letter turns)                    \
    {                                                                                              \
        real s, c, rest = sine_##letter(g, &s);                                                    \
        s = (real)PICK(letter, s == 0, s, s + rest); /* -0 stays */                                \
        rest = cosine_##letter(g, &c);                                                             \
        c = c + rest;                                                                              \
        bits_##letter y = PICK(letter, (turns & 1) != 0, c, s);                                    \
        return (real)(y ^ ((turns & 2) << 62));                                                    \
    }                                                                                              \
    isa INLINE real tangent_##letter(const angle_##letter *g)                                      \
    {                                                                                              \
        real s, c, sl = sine_##letter(g, &s), cl = cosine_##letter(g, &c), sh = s + sl;            \
        real ch = c + cl;                                                                          \
        bits_##letter is_odd = (g->turns & 1) != 0;                                                \
        sl = (s - sh) + sl;                                                                        \
        cl = (c - ch) + cl;                                                                        \
        real over = (real)PICK(letter, is_odd, -ch, sh), ol = (real)PICK(letter, is_odd, -cl, sl); \
        real under = (real)PICK(letter, is_odd, sh, ch), ul = (real)PICK(letter, is_odd, sl, cl);  \
        real inverse = 1 / under, q = over * inverse;                                              \
        real y = q + (LEFT_##letter(q, under, over) + (ol - q * ul)) * inverse;                    \
        return (real)PICK(letter, (g->high == 0) | (g->is_hard != 0), g->high, y);                 \
    }

// The arc sine ------------------------------------------------------------------------------------

#define DEFINE_ASIN(letter, real, isa)                                                             \
    isa INLINE real arc_sine_##letter(real x)                                                      \
    {                                                                                              \
        const double QUARTER = 0x1.921fb54442d18p-1, LOW = 0x1.1a62633145c07p-54;                  \
        real none = {0}, size = (real)((bits_##letter)x & INT64_MAX);                              \
        bits_##letter sign = (bits_##letter)x & INT64_MIN, is_large = size >= 0.5;                 \
        real z = (real)PICK(letter, is_large, (1 - size) * 0.5, size * size);                      \
        real p = z * 3.47933107596021167570e-05 + 7.91534994289814532176e-04;                      \
        p = z * (z * p - 4.00555345006794114027e-02) + 2.01212532134862925881e-01;                 \
        p = z * (z * (z * p - 3.25565818622400915405e-01) + 1.66666666666666657415e-01);           \
        real q = z * 7.70381505559019352791e-02 - 6.88283971605453293030e-01;                      \
        q = z * (z * (z * q + 2.02094576023350569471e+00) - 2.40339491173441421878e+00) + 1;       \
        real r = p / q, root = (real)ROOT_##letter(z);                                             \
        real head = (real)((bits_##letter)root & ~INT64_C(0xffffffff));                            \
        real rest = (z - head * head) / (root + head);                                             \
        real far = QUARTER - ((2 * root * r - (LOW - 2 * rest)) - (QUARTER - 2 * head));           \
        far = (real)PICK(letter, size == 1, none + 2 * QUARTER, far);                              \
        return (real)(PICK(letter, is_large, far, size + size * r) | sign);                        \
    }

// The functions -----------------------------------------------------------------------------------

/* y with libm's f(x) where is_hard is set. */
#define MEND(letter, lanes, f, x, y, is_hard)                                                      \
    for (int k = 0; k < lanes && ANY_##letter(is_hard); k++) {                                     \
        if (is_hard[k] != 0) {                                                                     \
            y[k] = f(x[k]);                                                                        \
        }                                                                                          \
    }

#define DEFINE_ON_ANGLE(letter, lanes, real, isa, name, value)                                     \
    isa real gx_own_##name##_##letter(real x)                                                      \
    {                                                                                              \
        angle_##letter g = reduced_##letter(x);                                                    \
        real y = value;                                                                            \
        MEND(letter, lanes, name, x, y, g.is_hard)                                                 \
        return y;                                                                                  \
    }

#define DEFINE(letter, lanes, real, isa)                                                           \
    DEFINE_EXP(letter, real, isa)                                                                  \
    DEFINE_ANGLE(letter, real, isa)                                                                \
    DEFINE_WAVES(letter, real, isa)                                                                \
    DEFINE_ASIN(letter, real, isa)                                                                 \
    isa real gx_own_exp_##letter(real x)                                                           \
    {                                                                                              \
        return exponential_##letter(x);                                                            \
    }                                                                                              \
    isa real gx_own_asin_##letter(real x)                                                          \
    {                                                                                              \
        return arc_sine_##letter(x);                                                               \
    }                                                                                              \
    DEFINE_ON_ANGLE(letter, lanes, real, isa, sin, wave_##letter(&g, g.turns))                     \
    DEFINE_ON_ANGLE(letter, lanes, real, isa, cos, wave_##letter(&g, g.turns + 1))                 \
    DEFINE_ON_ANGLE(letter, lanes, real, isa, tan, tangent_##letter(&g))

DEFINE(b, 2, gx_two, )
DEFINE(d, 4, gx_four, __attribute__((target("avx2,fma"))))
DEFINE(e, 8, gx_eight, __attribute__((target("avx512f"))))

#endif
