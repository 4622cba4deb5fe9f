/*
** Shared by the files of the CPU backend: the slots of its kernel table, and the gate of OpenBLAS's threads.
*/
#ifndef GX_CPU_H
#define GX_CPU_H

#include "slots.h"

/*
** A copy of the loop for processors with AVX2, chosen when gx is loaded; elsewhere the loop as it is.
** (AVX-512 copies measured no faster: these loops wait for memory.)
*/
#if defined(__x86_64__) && defined(__gnu_linux__)
#define GX_SIMD __attribute__((target_clones("avx2", "default")))
#else
#define GX_SIMD
#endif

/* cpu_blas.c: products by OpenBLAS, tiny ones by a loop. */
GX_SLOTS_DECLARE(gx_cpu_gemm);
GX_SLOTS_DECLARE(gx_cpu_syrk);
GX_SLOTS_DECLARE(gx_cpu_herk);

/* cpu_map.c: elementwise. */
GX_SLOTS_DECLARE(gx_cpu_fill);
GX_SLOTS_DECLARE(gx_cpu_copy);
GX_SLOTS_DECLARE(gx_cpu_conj);
GX_SLOTS_DECLARE(gx_cpu_add);
GX_SLOTS_DECLARE(gx_cpu_mul);
GX_SLOTS_DECLARE(gx_cpu_div);
GX_SLOTS_DECLARE(gx_cpu_scale);
GX_SLOTS_DECLARE(gx_cpu_abs);

/* cpu_transpose.c: transposes and mirrored triangles. */
GX_SLOTS_DECLARE(gx_cpu_transpose);
GX_SLOTS_DECLARE(gx_cpu_symmetrize);

/* cpu_reduce.c: sums, norms, extremes. */
GX_SLOTS_DECLARE(gx_cpu_reduce);

/*
** The gate of OpenBLAS.  Its thread count is one number for the process, and 1 except inside a wide
** section: gx spreads its own pieces over its own threads.  A routine that threads inside (an eigensolver
** of LAPACK) is called between wide_begin() and wide_end(), which set the count and give it back.
**
** Narrow sections (a single-threaded BLAS call) run concurrently with each other; a wide one runs alone:
** it waits for the narrow ones that have begun, and later ones wait for it.  Sections do not nest.
** threads: at least 1.  Must be paired on the same thread.
*/
void gx_cpu_wide_begin(int threads);
void gx_cpu_wide_end(void);
void gx_cpu_narrow_begin(void);
void gx_cpu_narrow_end(void);

/* What the BLAS is and was built with, as it says itself: "OpenBLAS 0.3.21 ... Haswell".  Static. */
const char *gx_cpu_blas_config(void);

#endif
