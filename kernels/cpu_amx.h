/*
** Products of f32 matrices by bf16 tile products (Intel's AMX): see cpu_amx.c, and cpu_amx_way.c
** for whether there is such a thing.
*/
#ifndef GX_CPU_AMX_H
#define GX_CPU_AMX_H

#include "../core/base/backend.h"

#if defined(__x86_64__) && defined(__linux__) && (__GNUC__ >= 11 || __clang_major__ >= 12)
#define GX_HAS_AMX /* the compiler knows it */

/* Whether the processor has the vectors that pack for it. */
bool gx_cpu_amx_has_vectors(void);
#endif

/* Who multiplies tiles: nobody, the processor, or loops that do what it does, bit for bit. */
typedef enum gx_amx_way { GX_AMX_NONE, GX_AMX_UNIT, GX_AMX_LOOPS } gx_amx_way;

/*
** Which one does in this process, decided by the first call: it asks the system for tile registers,
** for the process and for good.  The environment's GX_CPU_AMX=off spares that; =loops is for tests.
*/
gx_amx_way gx_cpu_amx_way(void);

/* Whether GEMM of these sizes, each positive, is faster so than by BLAS, and can be had. */
bool gx_cpu_amx_takes(const gx_args *args);

/*
** GEMM of f32, k > 0, alpha != 0; or of c's triangle uplo alone, where op(b) is op(a)^T.
** *is_unfit: its numbers are too large, too small or not finite, nothing has been done, and BLAS
** is to do it. GX_NOMEM: there is no room to pack.
*/
gx_code gx_cpu_amx_gemm(gx_amx_way way, const gx_args *args, bool is_triangle, bool *is_unfit,
                        gx_err *err);

#endif
