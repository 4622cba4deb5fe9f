/*
** The words everything else is written in: numbers, BLAS flags, scalars, checked size arithmetic.
*/
#ifndef GX_TYPES_H
#define GX_TYPES_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
** What is computed with: kernels are kernel[operation][number].  What elements are stored as is a
** gx_dtype (dtype.h); the numbers are dtypes, too, the floating ones of the same ids.
*/
typedef enum gx_number {
    GX_F64 = 0,  /* IEEE 754 binary64                       */
    GX_F32 = 1,  /* IEEE 754 binary32                       */
    GX_C128 = 2, /* two binary64: real part, imaginary part */
    GX_C64 = 3,  /* two binary32: real part, imaginary part */
    GX_M31 = 4,  /* whole numbers modulo 2^31 - 1: field.h  */
    GX_NUMBER_COUNT
} gx_number;

#define GX_FLOATS 4 /* the first numbers, which are floating */

/* The modulus of GX_M31; elements are 0 .. p - 1. */
#define GX_M31_P 2147483647u

typedef enum gx_trans { GX_NO_TRANS = 0, GX_TRANS, GX_CONJ_TRANS } gx_trans;
typedef enum gx_side { GX_LEFT = 0, GX_RIGHT } gx_side;
typedef enum gx_uplo { GX_LOWER = 0, GX_UPPER } gx_uplo;
typedef enum gx_diag { GX_NON_UNIT = 0, GX_UNIT } gx_diag;

/* A number that multiplies: alpha, beta.  im is ignored by real kernels. */
typedef struct gx_scalar {
    double re, im;
} gx_scalar;

#define GX_ONE ((gx_scalar){1, 0})
#define GX_MINUS_ONE ((gx_scalar){-1, 0})

static inline size_t gx_round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static inline gx_scalar gx_scalar_times(gx_scalar a, gx_scalar b)
{
    return (gx_scalar){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static inline gx_scalar gx_scalar_plus(gx_scalar a, gx_scalar b)
{
    return (gx_scalar){a.re + b.re, a.im + b.im};
}

static inline gx_scalar gx_scalar_minus(gx_scalar a, gx_scalar b)
{
    return (gx_scalar){a.re - b.re, a.im - b.im};
}

/* Properties of a matrix, as bits of gx_meta.properties.  Part of the file format. */
enum {
    GX_PROP_SYMMETRIC = 1 << 0,  /* A = A^T (real) or A = A^T, not conjugated (complex) */
    GX_PROP_HERMITIAN = 1 << 1,  /* A = A^H; set together with SYMMETRIC for real dtypes */
    GX_PROP_POSITIVE = 1 << 2,   /* Hermitian positive definite */
    GX_PROP_LOWER = 1 << 3,      /* zero above the diagonal */
    GX_PROP_UPPER = 1 << 4,      /* zero below the diagonal */
    GX_PROP_UNIT = 1 << 5,       /* ones on the diagonal */
    GX_PROP_ORTHOGONAL = 1 << 6, /* A^H A = I */

    /* Not a property of A but what the elements are: aux_data.h.  At most one of them. */
    GX_PROP_LU = 1 << 7, /* an LU factorisation, L below the diagonal and U, with pivots */
    GX_PROP_QR = 1 << 8, /* a QR factorisation, reflectors below the diagonal and R, with tau */
    GX_PROP_FACTOR = GX_PROP_LU | GX_PROP_QR,

    /* The elements are codes of another matrix's, or packed bits: gx_meta_code_bits() and
       gx_meta_is_bits() of store.h.  Two bits behind it say which, three how many codes of a row's
       last byte are none. */
    GX_PROP_QUANTIZED = 1 << 9,
    GX_PROP_CODES_AT = 10,
    GX_PROP_BITS = GX_PROP_QUANTIZED | 3 << GX_PROP_CODES_AT,
    GX_PROP_UNUSED_AT = 12
};

enum { GX_PROPERTIES_MAX = 96 }; /* bytes of any text of gx_properties_text(), NUL included */

/* The names of the bits as "symmetric,hermitian,positive", "" for none; returns text. */
const char *gx_properties_text(uint32_t properties, char text[GX_PROPERTIES_MAX]);

/*
** symmetric, hermitian, positive, lower, upper, unit, orthogonal to its bit; false when unknown.
** What makes a matrix a factorisation (lu, qr) is shown, but not for anyone to set.
*/
bool gx_property_parse(const char *name, uint32_t *bit);

/* "f64", "f32", "c128", "c64", "m31"; "?" for anything else.  Static string. */
const char *gx_number_name(gx_number dtype);

/* In loops of a constant dtype they are constants. */
static inline bool gx_number_is_complex(gx_number dtype)
{
    return dtype == GX_C128 || dtype == GX_C64;
}

static inline bool gx_number_is_double(gx_number dtype) /* 64-bit reals */
{
    return dtype == GX_F64 || dtype == GX_C128;
}

static inline size_t gx_number_bytes(gx_number dtype) /* of an element */
{
    return (size_t)(gx_number_is_double(dtype) ? 8 : 4) * (gx_number_is_complex(dtype) ? 2 : 1);
}

double gx_number_eps(gx_number dtype);     /* from 1 to the next number: 2^-52 or 2^-23 */
double gx_number_least(gx_number dtype);   /* the smallest that is not subnormal: 2^-1022, 2^-126 */

/*
** The number that holds both without loss, as NumPy promotes: f32+f64 -> f64, f64+c64 -> c128.
** With m31 it is m31, which whole numbers are taken to.
*/
gx_number gx_number_promote(gx_number a, gx_number b);
gx_number gx_number_wide(gx_number dtype); /* the same in doubles: F64, C128         */
gx_number gx_number_real(gx_number dtype); /* of its magnitudes: F64, F32            */
gx_trans gx_adjoint(gx_number dtype);    /* what A^H is: TRANS, CONJ_TRANS         */

/* Checked arithmetic on sizes and counts.  false on overflow, *out is then unchanged. */
bool gx_mul_size(size_t a, size_t b, size_t *out);
bool gx_mul_i64(int64_t a, int64_t b, int64_t *out); /* for a, b >= 0 */

/*
** What a matrix may be.  All that comes in or is begun passes gx_matrix_bytes(): so a side, and
** what is counted along one, can be multiplied by anything below 2^23 without a check, and the
** bytes of a matrix by 128.  A product of two sides, of an empty matrix too, needs one.
*/
#define GX_SIDE_MAX ((int64_t)1 << 40)
#define GX_BYTES_MAX ((size_t)1 << 56)
#define GX_SIZES_TEXT "a matrix has at most 2^40 rows, 2^40 columns and 2^56 bytes"

/*
** rows * cols * element size, at most GX_BYTES_MAX.  false when a side is negative or longer than
** GX_SIDE_MAX, or the product too large: *bytes is then SIZE_MAX / 16, which no allocation gets.
*/
bool gx_matrix_bytes(int64_t rows, int64_t cols, gx_number dtype, size_t *bytes);
bool gx_elements_bytes(int64_t rows, int64_t cols, size_t element, size_t *bytes); /* of so many */

/* Address of element (i, j) of a column-major matrix with leading dimension ld (in elements). */
static inline void *gx_at(const void *base, gx_number dtype, int64_t ld, int64_t i, int64_t j)
{
    return (char *)(uintptr_t)base + ((size_t)(j * ld + i)) * gx_number_bytes(dtype);
}

/* Element k of numbers that lie together, as a complex one; what a real number gets has no im. */
static inline gx_scalar gx_number_get(gx_number number, const void *x, int64_t k)
{
    const double *d = (const double *)x;
    const float *f = (const float *)x;
    switch (number) {
    case GX_M31:
        return (gx_scalar){(double)((const uint32_t *)x)[k], 0};
    case GX_F64:
        return (gx_scalar){d[k], 0};
    case GX_F32:
        return (gx_scalar){(double)f[k], 0};
    case GX_C128:
        return (gx_scalar){d[2 * k], d[2 * k + 1]};
    default:
        return (gx_scalar){(double)f[2 * k], (double)f[2 * k + 1]};
    }
}

/* The element of GX_M31 that a whole double stands for; of another one its floor does. */
static inline uint32_t gx_m31_of(double x)
{
    double rest = fmod(floor(x), GX_M31_P);
    return (uint32_t)(rest < 0 ? rest + GX_M31_P : rest >= 0 ? rest : 0);
}

static inline void gx_number_put(gx_number number, void *x, int64_t k, gx_scalar value)
{
    double *d = (double *)x;
    float *f = (float *)x;
    switch (number) {
    case GX_M31:
        ((uint32_t *)x)[k] = gx_m31_of(value.re);
        break;
    case GX_F64:
        d[k] = value.re;
        break;
    case GX_F32:
        f[k] = (float)value.re;
        break;
    case GX_C128:
        d[2 * k] = value.re, d[2 * k + 1] = value.im;
        break;
    default:
        f[2 * k] = (float)value.re, f[2 * k + 1] = (float)value.im;
    }
}

static inline uint64_t gx_bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline int64_t gx_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t gx_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Bytes rounded up to whole lines of the cache. */
static inline size_t gx_whole_lines(size_t bytes)
{
    return gx_round_up(bytes, 64);
}

/* ceil(a / b) for a >= 0, b > 0. */
static inline int64_t gx_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* The smallest divisor of n past 1; n > 1. */
static inline int64_t gx_least_factor(int64_t n)
{
    for (int64_t d = 2; d * d <= n; d++) {
        if (n % d == 0) {
            return d;
        }
    }
    return n;
}

/* The root of a node's tree, which is its own parent; the way there is halved. */
static inline int64_t gx_root_of(int64_t *parent, int64_t i)
{
    while (parent[i] != i) {
        parent[i] = parent[parent[i]];
        i = parent[i];
    }
    return i;
}

/*
** Moves `low` to the first number of [low, high) for which is_before, an expression in `middle`
** that is true up to there and false from there on, does not hold; to `high` where it always does.
*/
#define GX_BISECT(low, high, middle, is_before)                                                    \
    for (int64_t gx_past = (high), middle; low < gx_past;) {                                       \
        middle = low + (gx_past - low) / 2;                                                        \
        if (is_before) {                                                                           \
            low = middle + 1;                                                                      \
        } else {                                                                                   \
            gx_past = middle;                                                                      \
        }                                                                                          \
    }

#endif
