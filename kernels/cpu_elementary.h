/*
** Vector functions of our own, for cpu_vector.c: exp, sin, cos, tan and asin within one unit in the
** last place, where libmvec is up to 3.5 from the truth.  Letters as in cpu_vector.c: b, two
** doubles (SSE2); d, four (AVX2 with FMA); e, eight (AVX-512).
*/
#ifndef GX_CPU_ELEMENTARY_H
#define GX_CPU_ELEMENTARY_H

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
