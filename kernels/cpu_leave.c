/*
** Where LAPACK in gx.so's private OpenBLAS can be left (ld --wrap; see the Makefile and
** docs/decisions/021).  No part of libgx.a: there the library is the application's.
**
** Whole-matrix calls of LAPACK last seconds, and its routines know no way out.  They do
** nearly all of their work in the routines below, called by their Fortran names on the caller's
** thread: each of those calls passes here first and looks whether the call is to be left
** (gx_cpu_look(), cpu_gate.c).  It is left by longjmp() before the routine has begun, so what lies
** between is frames of Fortran (LAPACK: no lock, no heap, no SAVE) and of LAPACKE's "work"
** variants, never one of OpenBLAS, which has locks and buffers; its threads run its kernels, not
** these.
**
** Fortran passes everything by address, and behind it the lengths of texts: so each argument is a
** word here, whatever it is.  Routines in C (all but la*) do not look at the lengths.
*/
#include "cpu.h"

typedef const void *word;

#define GX_WRAP(name, declared, passed)                                                            \
    void __real_##name declared;                                                                   \
    void __wrap_##name declared;                                                                   \
    void __wrap_##name declared                                                                    \
    {                                                                                              \
        gx_cpu_look();                                                                             \
        __real_##name passed;                                                                      \
    }

#define GX_WRAP_8(name)                                                                            \
    GX_WRAP(name, (word a, word b, word c, word d, word e, word f, word g, word h),                \
            (a, b, c, d, e, f, g, h))
#define GX_WRAP_9(name)                                                                            \
    GX_WRAP(name, (word a, word b, word c, word d, word e, word f, word g, word h, word i),        \
            (a, b, c, d, e, f, g, h, i))
#define GX_WRAP_10(name)                                                                           \
    GX_WRAP(name,                                                                                  \
            (word a, word b, word c, word d, word e, word f, word g, word h, word i, word j),      \
            (a, b, c, d, e, f, g, h, i, j))
#define GX_WRAP_11(name)                                                                           \
    GX_WRAP(                                                                                       \
        name,                                                                                      \
        (word a, word b, word c, word d, word e, word f, word g, word h, word i, word j, word k),  \
        (a, b, c, d, e, f, g, h, i, j, k))
#define GX_WRAP_12(name)                                                                           \
    GX_WRAP(name,                                                                                  \
            (word a, word b, word c, word d, word e, word f, word g, word h, word i, word j,       \
             word k, word l),                                                                      \
            (a, b, c, d, e, f, g, h, i, j, k, l))
#define GX_WRAP_13(name)                                                                           \
    GX_WRAP(name,                                                                                  \
            (word a, word b, word c, word d, word e, word f, word g, word h, word i, word j,       \
             word k, word l, word m),                                                              \
            (a, b, c, d, e, f, g, h, i, j, k, l, m))
#define GX_WRAP_20(name)                                                                           \
    GX_WRAP(name,                                                                                  \
            (word a, word b, word c, word d, word e, word f, word g, word h, word i, word j,       \
             word k, word l, word m, word n, word o, word p, word q, word r, word s, word t),      \
            (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t))

/* Number of words, name.  The Makefile reads these lines: one routine a line. */
#define WRAP(words, name) GX_WRAP_##words(name)

// Products: panels and updates of every reduction, the vectors of divide and conquer.
WRAP(13, dgemm_)
WRAP(13, sgemm_)
WRAP(13, zgemm_)
WRAP(13, cgemm_)
WRAP(11, dgemv_)
WRAP(11, sgemv_)
WRAP(11, zgemv_)
WRAP(11, cgemv_)
WRAP(10, dsymv_)
WRAP(10, ssymv_)
WRAP(10, zhemv_)
WRAP(10, chemv_)
WRAP(12, dsyr2k_)
WRAP(12, ssyr2k_)
WRAP(12, zher2k_)
WRAP(12, cher2k_)
WRAP(11, dtrmm_)
WRAP(11, strmm_)
WRAP(11, ztrmm_)
WRAP(11, ctrmm_)

// One root of a secular equation, one sweep of rotations, one of dqds: what lies between products.
WRAP(8, dlaed4_)
WRAP(8, slaed4_)
WRAP(9, dlasd4_)
WRAP(9, slasd4_)
WRAP(20, dlasq3_)
WRAP(20, slasq3_)
WRAP(12, dlasr_)
WRAP(12, slasr_)
WRAP(12, zlasr_)
WRAP(12, clasr_)
