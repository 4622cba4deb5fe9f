/*
** The table of dtypes, made of dtype.def: see dtype.h.
**
** Each row that is only stored has two loops of its own, which the compiler vectorises: for AVX2
** and for any processor.  They round as the processor does, to the nearest even number.  f16 goes
** through double on its way back, which holds all that it comes from, so that it is rounded once.
*/
#include "dtype.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#define GX_COMPUTED(id, NAME, ...)                                                                 \
    static_assert((int)GX_DTYPE_##NAME == (int)GX_##NAME, "a number has the id of its dtype");
#define GX_WIDENED(id, NAME, ...) static_assert((id) >= GX_FLOATS, "numbers come first");
#define GX_FIELD GX_WIDENED
#include "dtype.def"
#undef GX_COMPUTED
#undef GX_WIDENED
#undef GX_FIELD

// One loop a row ----------------------------------------------------------------------------------

/* To the nearest even whole number, inline; what is infinite at most is not rounded here. */
static inline double rounded(double x, double most)
{
    const double UNIT_IS_1 = 0x1.8p52;
    return isinf(most) || !(fabs(x) < 0x1p51) ? x : x + UNIT_IS_1 - UNIT_IS_1;
}

static inline bool is_held(double x, double least, double most)
{
    return (x >= least && x <= most) || (isinf(most) && isnan(x));
}

// f16: IEEE binary16 ------------------------------------------------------------------------------

static inline float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Without branches, so that loops of it are vectorised; subnormals by a subtraction. */
static inline float half_value(uint16_t half)
{
    uint32_t w = (uint32_t)half << 16, sign = w & 0x80000000, twice = w + w;
    float normal = float_of((twice >> 4) + (0xE0u << 23)) * 0x1p-112f;
    float subnormal = float_of((twice >> 17) | (126u << 23)) - 0.5f;
    uint32_t is_small = -(uint32_t)(twice < 1u << 27); // all of its bits
    return float_of(sign | (bits_of(subnormal) & is_small) | (bits_of(normal) & ~is_small));
}

/*
** The nearest half.  First a float whose last bit says whether more is behind it, so that a double
** is rounded once; then the sum with a power of two rounds where a half ends.
*/
static inline uint16_t half_bits(double x)
{
    float cut = (float)x;
    uint32_t w = bits_of(cut);
    bool is_cut = (double)cut != x && !isnan(x);
    w = is_cut ? (w - (fabs((double)cut) > fabs(x))) | 1 : w;
    uint32_t twice = w + w, sign = w & 0x80000000, exponent = twice & 0xFF000000;
    uint32_t bias = exponent < 0x71000000 ? 0x71000000 : exponent;
    float base = fabsf(float_of(w)) * 0x1p112f * 0x1p-110f;
    uint32_t bits = bits_of(float_of((bias >> 1) + 0x07800000) + base);
    uint32_t number = ((bits >> 13) & 0x7C00) + (bits & 0x0FFF);
    return (uint16_t)(sign >> 16 | (twice > 0xFF000000 ? 0x7E00 : number));
}

// bf16: the upper half of a binary32 --------------------------------------------------------------

static inline float brain_value(uint16_t upper)
{
    return float_of((uint32_t)upper << 16);
}

/* Rounded once: a float whose last bit says whether more is behind it, as in half_bits(). */
static inline uint16_t brain_bits(double x)
{
    float cut = (float)x;
    uint32_t w = bits_of(cut);
    bool is_cut = (double)cut != x && !isnan(x) && !isinf(cut);
    w = is_cut ? (w - (fabs((double)cut) > fabs(x))) | 1 : w;
    return (uint16_t)(isnan(x) ? (w >> 16) | 0x40 : (w + 0x7FFF + (w >> 16 & 1)) >> 16);
}

// Whole numbers -----------------------------------------------------------------------------------

/* Whatever lies there is true or false. */
static inline float truth_value(uint8_t x)
{
    return x != 0;
}

/* Half units are there up to 2^52. */
static inline int64_t whole_of(double x)
{
    return (int64_t)rint(x);
}

int64_t gx_dtype_inexact(gx_dtype dtype, const void *from, int64_t count)
{
    const int64_t *x = from;
    const double LIMIT = 0x1p63;
    for (int64_t p = 0; p < count && dtype == GX_DTYPE_I64; p++) {
        double y = (double)x[p];
        if (y >= LIMIT || (int64_t)y != x[p]) {
            return p;
        }
    }
    return -1;
}

bool gx_dtype_is_sound(gx_dtype dtype, const void *from, int64_t count)
{
    const uint32_t *x = from;
    bool is_sound = true;
    for (int64_t k = 0; k < count && dtype == GX_DTYPE_M31; k++) {
        is_sound &= x[k] < GX_M31_P;
    }
    return is_sound;
}

typedef double number_F64;
typedef float number_F32;

#define GX_COMPUTED(id, NAME, ...)
#define GX_FIELD(id, NAME, ...)
#define GX_WIDENED(id, NAME, name, numpy, npy, type, number, least, most, widen, narrow)           \
    static inline void widen_all_##NAME(const void *from, int64_t count, void *to)                 \
    {                                                                                              \
        const type *x = from;                                                                      \
        number_##number *y = to;                                                                   \
        for (int64_t p = 0; p < count; p++) {                                                      \
            y[p] = widen(x[p]);                                                                    \
        }                                                                                          \
    }                                                                                              \
    static inline int64_t narrow_all_##NAME(const double *from, int64_t count, bool saturate,      \
                                            void *to)                                              \
    {                                                                                              \
        type *y = to;                                                                              \
        bool is_all = true;                                                                        \
        for (int64_t p = 0; p < count; p++) {                                                      \
            double x = rounded(from[p], most);                                                     \
            bool is = is_held(x, least, most);                                                     \
            is_all &= is;                                                                          \
            y[p] = narrow(is ? x : x > most ? most : least);                                       \
        }                                                                                          \
        for (int64_t p = 0; p < count && !is_all; p++) {                                           \
            double x = rounded(from[p], most);                                                     \
            if (!is_held(x, least, most) && (isnan(x) || !saturate)) {                             \
                return p;                                                                          \
            }                                                                                      \
        }                                                                                          \
        return -1;                                                                                 \
    }                                                                                              \
    GX_COPIES(NAME, base, inline)                                                                  \
    GX_COPIES(NAME, avx2, GX_AVX2)
#define GX_COPIES(NAME, words, ...)                                                                \
    static __VA_ARGS__ void widen_##NAME##_##words(const void *from, int64_t count, void *to)      \
    {                                                                                              \
        widen_all_##NAME(from, count, to);                                                         \
    }                                                                                              \
    static __VA_ARGS__ int64_t narrow_##NAME##_##words(const double *from, int64_t count,          \
                                                       bool saturate, void *to)                    \
    {                                                                                              \
        return narrow_all_##NAME(from, count, saturate, to);                                       \
    }
#ifdef __x86_64__
#define GX_AVX2 __attribute__((target("avx2,f16c"), noinline))
#define GX_AVX2_CALL __attribute__((target("avx2,f16c"), always_inline))
#else
#define GX_AVX2 inline
#endif
#include "dtype.def"
#undef GX_COMPUTED
#undef GX_FIELD
#undef GX_WIDENED

static bool has_avx2(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
#else
    return false;
#endif
}

// The table ---------------------------------------------------------------------------------------

static const struct {
    const char *name, *numpy, *npy, *range;
    uint8_t bytes, alignment;
    gx_number number;
    bool is_whole;
    void (*widen[2])(const void *from, int64_t count, void *to); /* for any processor, for AVX2 */
    int64_t (*narrow[2])(const double *from, int64_t count, bool saturate, void *to);
} dtypes[GX_DTYPE_COUNT] = {
#define GX_COMPUTED(id, NAME, name, numpy, npy, type)                                              \
    [id] = {name, numpy, npy, "", sizeof(type), _Alignof(type), GX_##NAME, false, {NULL}, {NULL}},
#define GX_FIELD(id, NAME, name, numpy, npy, type)                                                 \
    [id] = {name,         numpy,          npy,       "whole numbers modulo 2^31 - 1",              \
            sizeof(type), _Alignof(type), GX_##NAME, true,                                         \
            {NULL},       {NULL}},
#define GX_WIDENED(id, NAME, name, numpy, npy, type, number, least, most, widen, narrow)           \
    [id] = {name,         numpy,          npy,         #least " to " #most,                        \
            sizeof(type), _Alignof(type), GX_##number, (most) < INFINITY,                          \
            {widen_##NAME##_base, widen_##NAME##_avx2},                                            \
            {narrow_##NAME##_base, narrow_##NAME##_avx2}},
#include "dtype.def"
#undef GX_COMPUTED
#undef GX_WIDENED
#undef GX_FIELD
};

gx_number gx_dtype_number(gx_dtype dtype)
{
    return dtypes[dtype].number;
}

size_t gx_dtype_bytes(gx_dtype dtype)
{
    return dtypes[dtype].bytes;
}

size_t gx_dtype_alignment(gx_dtype dtype)
{
    return dtypes[dtype].alignment;
}

/* Numbers of at most eight bits, which f16 and bf16 have. */
static bool is_short(gx_dtype dtype)
{
    return dtype == GX_DTYPE_BOOL || dtype == GX_DTYPE_I8 || dtype == GX_DTYPE_U8;
}

gx_dtype gx_dtype_half(gx_dtype a, gx_dtype b)
{
    gx_dtype half = a == GX_DTYPE_F16 || b == GX_DTYPE_F16 ? GX_DTYPE_F16 : GX_DTYPE_BF16;
    bool is_half = (a == half || is_short(a)) && (b == half || is_short(b));
    return is_half ? half : GX_DTYPE_F64;
}

const char *gx_dtype_name(gx_dtype dtype)
{
    return (unsigned)dtype < GX_DTYPE_COUNT ? dtypes[dtype].name : "?";
}

const char *gx_dtype_npy(gx_dtype dtype)
{
    return dtypes[dtype].npy;
}

bool gx_dtype_is_whole(gx_dtype dtype)
{
    return dtypes[dtype].is_whole;
}

const char *gx_dtype_range(gx_dtype dtype)
{
    return dtypes[dtype].range;
}

bool gx_dtype_parse(const char *name, gx_dtype *dtype)
{
    for (unsigned d = 0; d < GX_DTYPE_COUNT; d++) {
        if (strcmp(name, dtypes[d].name) == 0 || strcmp(name, dtypes[d].numpy) == 0) {
            *dtype = (gx_dtype)d;
            return true;
        }
    }
    return false;
}

bool gx_dtype_of_npy(const char *name, size_t length, gx_dtype *dtype)
{
    for (unsigned d = 0; d < GX_DTYPE_COUNT; d++) {
        if (strlen(dtypes[d].npy) == length && memcmp(name, dtypes[d].npy, length) == 0) {
            *dtype = (gx_dtype)d;
            return true;
        }
    }
    return false;
}

const char *gx_dtype_names(void)
{
    static const char names[] =
#define GX_COMPUTED(id, NAME, name, ...) ", " name
#define GX_WIDENED GX_COMPUTED
#define GX_FIELD GX_COMPUTED
#include "dtype.def"
#undef GX_COMPUTED
#undef GX_WIDENED
#undef GX_FIELD
        ;
    return names + 2;
}

bool gx_dtype_matrix_bytes(int64_t rows, int64_t cols, gx_dtype dtype, size_t *bytes)
{
    return gx_elements_bytes(rows, cols, gx_dtype_bytes(dtype), bytes);
}

gx_code gx_dtype_takes(gx_dtype dtype, gx_number number, const char *label, gx_err *err)
{
    if (!gx_number_is_complex(number) || gx_number_is_complex(dtypes[dtype].number)) {
        return GX_OK;
    }
    return gx_fail(err, GX_ARG, "%s is %s and %s would lose the imaginary part", label,
                   gx_number_name(number), gx_dtype_name(dtype));
}

gx_scalar gx_dtype_get(gx_dtype dtype, const void *at)
{
    _Alignas(16) char element[16], number[16];
    memcpy(element, at, dtypes[dtype].bytes);
    if (gx_dtype_is_number(dtype)) {
        return gx_number_get(dtypes[dtype].number, element, 0);
    }
    gx_dtype_widen(dtype, element, 1, number);
    return gx_number_get(dtypes[dtype].number, number, 0);
}

void gx_dtype_row(gx_dtype dtype, const void *at, int64_t ld, int64_t count, double *to)
{
    enum { PIECE = 64 };
    const size_t bytes = dtypes[dtype].bytes, step = (size_t)ld * bytes;
    const char *from = at;
    _Alignas(16) char element[PIECE * 8];
    double wide[PIECE];
    float narrow[PIECE];
    const bool is_double = gx_number_is_double(dtypes[dtype].number);
    assert(bytes <= 8 && !gx_dtype_is_number(dtype));
    for (int64_t l = 0; l < count; l += PIECE) {
        int64_t piece = count - l < PIECE ? count - l : PIECE;
        for (int64_t k = 0; k < piece; k++, from += step) {
            if (bytes == 1) { // copies whose length the compiler knows are no calls
                element[k] = *from;
            } else if (bytes == 2) {
                memcpy(element + 2 * k, from, 2);
            } else {
                memcpy(element + (size_t)k * bytes, from, bytes);
            }
        }
        gx_dtype_widen(dtype, element, piece, is_double ? (void *)wide : narrow);
        for (int64_t k = 0; k < piece; k++) {
            to[l + k] = is_double ? wide[k] : (double)narrow[k];
        }
    }
}

#ifdef __x86_64__
/* Eight elements, at once. */
static inline GX_AVX2_CALL __m256 eight_of(gx_dtype dtype, const char *from)
{
    const __m128i *at = (const void *)from;
    switch (dtype) {
    case GX_DTYPE_F16:
        return _mm256_cvtph_ps(_mm_loadu_si128(at));
    case GX_DTYPE_I8:
        return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(at)));
    default:
        return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(at)));
    }
}

/* What the compiler's loops do more slowly: all is loaded before anything is stored. */
static inline GX_AVX2_CALL void widen_eights(gx_dtype dtype, const void *from, int64_t count,
                                             void *to)
{
    const char *x = from;
    float *y = to;
    size_t step = dtype == GX_DTYPE_F16 ? 16 : 8;
    int64_t p = 0;
    for (; p + 32 <= count; p += 32, x += 4 * step) {
        __m256 a = eight_of(dtype, x), b = eight_of(dtype, x + step);
        __m256 c = eight_of(dtype, x + 2 * step), d = eight_of(dtype, x + 3 * step);
        _mm256_storeu_ps(y + p, a);
        _mm256_storeu_ps(y + p + 8, b);
        _mm256_storeu_ps(y + p + 16, c);
        _mm256_storeu_ps(y + p + 24, d);
    }
    dtypes[dtype].widen[0](x, count - p, y + p);
}

#define GX_EIGHTS(NAME)                                                                            \
    static GX_AVX2 void widen_eights_##NAME(const void *from, int64_t count, void *to)             \
    {                                                                                              \
        widen_eights(GX_DTYPE_##NAME, from, count, to);                                            \
    }
GX_EIGHTS(F16)
GX_EIGHTS(I8)
GX_EIGHTS(U8)

/* false: it has no loop of its own. */
static bool widen_here(gx_dtype dtype, const void *from, int64_t count, void *to)
{
    void (*widen)(const void *from, int64_t count, void *to) =
        dtype == GX_DTYPE_F16  ? widen_eights_F16
        : dtype == GX_DTYPE_I8 ? widen_eights_I8
        : dtype == GX_DTYPE_U8 ? widen_eights_U8
                               : NULL;
    if (widen != NULL) {
        widen(from, count, to);
    }
    return widen != NULL;
}
#else
static bool widen_here(gx_dtype dtype, const void *from, int64_t count, void *to)
{
    (void)dtype, (void)from, (void)count, (void)to;
    return false;
}
#endif

void gx_dtype_widen(gx_dtype dtype, const void *from, int64_t count, void *to)
{
    bool is_fast = has_avx2();
    if (!is_fast || !widen_here(dtype, from, count, to)) {
        dtypes[dtype].widen[is_fast](from, count, to);
    }
}

int64_t gx_dtype_narrow(gx_dtype dtype, const double *from, int64_t count, bool saturate, void *to)
{
    return dtypes[dtype].narrow[has_avx2()](from, count, saturate, to);
}
