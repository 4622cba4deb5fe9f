/*
** libm's functions of doubles, for loops that the compiler vectorises: gx_v_NAME() is NAME(), and
** in a vectorised loop a call for all lanes at once.  See cpu_vector.c.
*/
#ifndef GX_CPU_VECTOR_H
#define GX_CPU_VECTOR_H

#include <math.h>

/* As libm and libmvec name them: of one argument, of two. */
#define GX_VECTOR_1(F)                                                                             \
    F(exp)                                                                                         \
    F(expm1)                                                                                       \
    F(log) F(log1p) F(log2) F(log10) F(cbrt) F(sin) F(cos) F(tan) F(asin) F(acos) F(atan) F(sinh)  \
        F(cosh) F(tanh) F(asinh) F(erf) F(erfc)
#define GX_VECTOR_2(F) F(pow) F(atan2) F(hypot)

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define GX_VECTORS
#ifndef GX_LANES // cpu_vector.c, which makes them, has it empty
#define GX_LANES __attribute__((simd("notinbranch"), const, nothrow))
#endif
#define GX_VECTOR_DECLARE_1(name) GX_LANES double gx_v_##name(double x);
#define GX_VECTOR_DECLARE_2(name) GX_LANES double gx_v_##name(double x, double y);
#else
#define GX_VECTOR_DECLARE_1(name)                                                                  \
    static inline double gx_v_##name(double x)                                                     \
    {                                                                                              \
        return name(x);                                                                            \
    }
#define GX_VECTOR_DECLARE_2(name)                                                                  \
    static inline double gx_v_##name(double x, double y)                                           \
    {                                                                                              \
        return name(x, y);                                                                         \
    }
#endif
GX_VECTOR_1(GX_VECTOR_DECLARE_1)
GX_VECTOR_2(GX_VECTOR_DECLARE_2)

/*
** Vector functions of our own (cpu_elementary.c): exp, sin, cos, tan and asin within one unit in
** the last place, where libmvec is up to 3.5 from the truth.  Letters as in cpu_vector.c: b, two
** doubles (SSE2); d, four (AVX2 with FMA); e, eight (AVX-512).
*/
#ifdef GX_VECTORS
typedef double gx_two __attribute__((vector_size(16)));
typedef double gx_four __attribute__((vector_size(32)));
typedef double gx_eight __attribute__((vector_size(64)));

#define GX_ELEMENTARY(F) F(exp) F(sin) F(cos) F(tan) F(asin)

#define GX_ELEMENTARY_DECLARE(name)                                                                \
    gx_two gx_own_##name##_b(gx_two x);                                                            \
    __attribute__((target("avx2,fma"))) gx_four gx_own_##name##_d(gx_four x);                      \
    __attribute__((target("avx512f"))) gx_eight gx_own_##name##_e(gx_eight x);
GX_ELEMENTARY(GX_ELEMENTARY_DECLARE)
#endif

/* Before the first of them, on any thread: looks for libmvec. */
void gx_vector_open(void);

/* Lane by lane from here on, as where there is no libmvec; or libmvec again.  For tests. */
void gx_vector_use(int is_libmvec);

#endif
