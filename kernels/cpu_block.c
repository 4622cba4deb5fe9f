/*
** The elementwise functions (functions.h) over runs of elements, on the CPU.
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
#define LIBM(name) gx_v_##name // functions.h
#include "cpu_vector.h"

#include "cpu.h"
#include "cpu_element.h"

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

#define OF(KIND, expression)                                                                       \
    case GX_MAP_##KIND:                                                                            \
        return (float)(expression);

/* f of floats, where it is what a double rounded to one is: where is_single() says so. */
GX_INLINE float of_single(gx_map_kind kind, float alpha, float beta, float a, float b, float c)
{
    switch (kind) {
        GX_EXACT_EXPRESSIONS(OF)
    default:
        return NAN;
    }
}

GX_INLINE bool is_single(gx_map_kind kind, double alpha, double beta)
{
#define YES(KIND, expression) case GX_MAP_##KIND:
    switch (kind) {
        GX_EXACT_EXPRESSIONS(YES)
        return kind == GX_MAP_ADD     ? fabs(alpha) == 1 && fabs(beta) == 1
               : kind == GX_MAP_SCALE ? alpha == (double)(float)alpha
                                      : true;
    default:
        return false;
    }
#undef YES
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
    bool d = gx_number_is_double(dtype);
    if (dtype == GX_F32 && is_single(kind, r->alpha.re, r->beta.re)) {
        over_singles(kind, operands, r->count, r);
    } else if (!gx_number_is_complex(dtype)) {
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
    size_t bytes = gx_number_bytes(dtype), rest = (size_t)(r->count - done) * bytes;
    run unit = {.count = UNIT, .alpha = r->alpha, .beta = r->beta, .dst = result};
    for (int k = 0; k < gx_map_row(kind)->operands; k++) {
        for (int i = 0; i < (gx_number_is_complex(dtype) ? 2 * UNIT : UNIT); i++) {
            put(gx_number_is_double(dtype), room[k], i, 1);
        }
        memcpy(room[k], (const char *)r->from[k] + (size_t)done * bytes, rest);
        unit.from[k] = room[k];
    }
    run_it(kind, dtype, &unit);
    memcpy((char *)r->dst + (size_t)done * bytes, result, rest);
}

gx_code gx_cpu_block(gx_map_kind kind, gx_number dtype, int64_t count, gx_scalar alpha,
                     gx_scalar beta, const void *const from[3], void *dst, gx_err *err)
{
    if (dtype == GX_M31) {
        return gx_cpu_field_block(kind, count, alpha, beta, from, dst, err);
    }
    run r = {count, alpha, beta, {from[0], from[1], from[2]}, dst};
    bool is_anywhere = gx_map_row(kind)->has_bits || gx_number_is_complex(dtype);
    r.count = is_anywhere ? count : count / UNIT * UNIT;
    if (r.count > 0) {
        run_it(kind, dtype, &r);
    }
    if (r.count < count) {
        int64_t done = r.count;
        r.count = count;
        run_rest(kind, dtype, &r, done);
    }
    return GX_OK;
}

void gx_cpu_block_open(void)
{
    gx_vector_open();
}
