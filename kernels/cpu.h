/*
** Shared by the files of the CPU backend: the slots of its kernel table, and the gate of
** OpenBLAS's threads.
*/
#ifndef GX_CPU_H
#define GX_CPU_H

#include "slots.h"

#include <string.h>

/*
** Slots with copies of a loop for the vectors of a processor, chosen at each call. (The compiler's
** target_clones would do it in one word, but exports its symbols.)
**
** GX_SIMD_SLOTS_DEFINE: GX_SLOTS_DEFINE with a copy for AVX2; GX_SIMD_REAL_SLOTS_DEFINE: of real
** numbers alone.  GX_WIDE_SLOTS_DEFINE: that copy is
** of the loop `wide`.  GX_FMA_SLOT: one slot, with copies for AVX2 and for AVX-512, both with fused
** multiply-adds where the Makefile lets the compiler make them; `wide` is the loop for AVX-512.
** GX_FMA_SLOTS_DEFINE: such slots of all numbers.
** GX_WIDTHS_SLOT: the same with a loop for each.
*/
#ifdef __x86_64__
#define GX_SIMD_COPY(name, suffix, dtype, words, loop, ...)                                        \
    static __attribute__((__VA_ARGS__))                                                            \
    gx_code name##_##suffix##_##words(const gx_args *args, gx_err *err)                            \
    {                                                                                              \
        return loop(dtype, args, err);                                                             \
    }
#define GX_WIDE_SLOT(name, suffix, dtype, wide, loop)                                              \
    GX_SIMD_COPY(name, suffix, dtype, avx2, wide, target("avx2"), noinline)                        \
    GX_SIMD_COPY(name, suffix, dtype, base, loop, noinline)                                        \
    GX_SLOT_PROTOTYPE(name, suffix)                                                                \
    {                                                                                              \
        (void)dev;                                                                                 \
        (void)queue;                                                                               \
        return __builtin_cpu_supports("avx2") ? name##_##suffix##_avx2(args, err)                  \
                                              : name##_##suffix##_base(args, err);                 \
    }
#define GX_WIDE_SLOTS_DEFINE(name, wide, loop)                                                     \
    GX_WIDE_SLOT(name, f64, GX_F64, wide, loop)                                                    \
    GX_WIDE_SLOT(name, f32, GX_F32, wide, loop)                                                    \
    GX_WIDE_SLOT(name, c128, GX_C128, wide, loop)                                                  \
    GX_WIDE_SLOT(name, c64, GX_C64, wide, loop)
#define GX_SIMD_REAL_SLOTS_DEFINE(name, loop)                                                      \
    GX_WIDE_SLOT(name, f64, GX_F64, loop, loop)                                                    \
    GX_WIDE_SLOT(name, f32, GX_F32, loop, loop)
#define GX_WIDTHS_SLOT(name, suffix, dtype, wide, half, loop)                                      \
    GX_SIMD_COPY(name, suffix, dtype, avx512, wide, target("avx512f,avx512dq,avx512vl"), noinline) \
    GX_SIMD_COPY(name, suffix, dtype, avx2, half, target("avx2,fma"), noinline)                    \
    GX_SIMD_COPY(name, suffix, dtype, base, loop, noinline)                                        \
    GX_SLOT_PROTOTYPE(name, suffix)                                                                \
    {                                                                                              \
        (void)dev;                                                                                 \
        (void)queue;                                                                               \
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&             \
            __builtin_cpu_supports("avx512vl")) {                                                  \
            return name##_##suffix##_avx512(args, err);                                            \
        }                                                                                          \
        bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");           \
        return has_avx2 ? name##_##suffix##_avx2(args, err) : name##_##suffix##_base(args, err);   \
    }
#else
#define GX_WIDE_SLOTS_DEFINE(name, wide, loop) GX_SLOTS_DEFINE(, name, loop)
#define GX_SIMD_REAL_SLOTS_DEFINE(name, loop) GX_REAL_SLOTS_DEFINE(name, loop)
#define GX_WIDTHS_SLOT(name, suffix, dtype, wide, half, loop)                                      \
    GX_SLOT_DEFINE(, name, suffix, dtype, loop)
#endif
#define GX_FMA_SLOT(name, suffix, dtype, wide, loop)                                               \
    GX_WIDTHS_SLOT(name, suffix, dtype, wide, loop, loop)
#define GX_SIMD_SLOTS_DEFINE(name, loop) GX_WIDE_SLOTS_DEFINE(name, loop, loop)
#define GX_FMA_SLOTS_DEFINE(name, loop)                                                            \
    GX_FMA_SLOT(name, f64, GX_F64, loop, loop)                                                     \
    GX_FMA_SLOT(name, f32, GX_F32, loop, loop)                                                     \
    GX_FMA_SLOT(name, c128, GX_C128, loop, loop)                                                   \
    GX_FMA_SLOT(name, c64, GX_C64, loop, loop)

/* Of every kind of number, and of real ones. */
#define GX_CPU_KERNELS(KERNEL)                                                                     \
    GX_KERNELS_OF_ALL(KERNEL, cpu)                                                                 \
    KERNEL(cpu, PAIR, pair)                                                                        \
    KERNEL(cpu, SYEV, syev)                                                                        \
    KERNEL(cpu, GEEV, geev)                                                                        \
    KERNEL(cpu, GEES, gees)                                                                        \
    KERNEL(cpu, TREXC, trexc)                                                                      \
    KERNEL(cpu, GESDD, gesdd)                                                                      \
    KERNEL(cpu, GGES, gges)                                                                        \
    KERNEL(cpu, GEHRD, gehrd)                                                                      \
    KERNEL(cpu, TRSYL, trsyl)                                                                      \
    KERNEL(cpu, SYTRF, sytrf)                                                                      \
    KERNEL(cpu, GEBAL, gebal)                                                                      \
    KERNEL(cpu, UNCSD, uncsd)                                                                      \
    KERNEL(cpu, GEQP3, geqp3)
#define GX_CPU_REAL_KERNELS(KERNEL)                                                                \
    KERNEL(cpu, APART, apart)                                                                      \
    KERNEL(cpu, MERIT, merit)                                                                      \
    KERNEL(cpu, NEAREST, nearest)                                                                  \
    KERNEL(cpu, MUTUAL, mutual)
GX_CPU_KERNELS(GX_KERNEL_DECLARE)
GX_CPU_REAL_KERNELS(GX_REAL_DECLARE)
GX_KERNELS_OF_FIELD(GX_FIELD_DECLARE, cpu)
GX_SLOT_PROTOTYPE(gx_cpu_whole, f32);

/* Hands out `bytes` of work to *ptr, a pointer; with no work, adds up. */
static inline size_t gx_take(char *work, size_t used, size_t bytes, void *ptr)
{
    if (work != NULL) {
        memcpy(ptr, &(char *){work + used}, sizeof(char *));
    }
    return used + gx_whole_lines(bytes);
}

/* Bytes of args->work; of spectra 0 for other kernels. */
size_t gx_cpu_fused_bytes(const gx_args *args);
size_t gx_cpu_field_gemm_bytes(const gx_args *args);
size_t gx_cpu_nearest_bytes(gx_number dtype, const gx_args *args);
size_t gx_cpu_mutual_bytes(gx_number dtype, const gx_args *args);
size_t gx_cpu_spectrum_bytes(gx_kernel_id kernel, gx_number dtype, const gx_args *args);
size_t gx_cpu_decomposition_bytes(gx_kernel_id kernel, gx_number dtype, const gx_args *args);
/*
** An elementwise function over a run of elements (cpu_block.c): dst = f(from[0], from[1], from[2])
** for count elements next to each other; dst may be one of them.  An element's bits depend neither
** on count nor on its place.  gx_cpu_block_open() comes first.  GX_NUMERIC: a division by zero
** of GX_M31, whose loops are gx_cpu_field_block() (cpu_field.c).
*/
gx_code gx_cpu_block(gx_map_kind kind, gx_number dtype, int64_t count, gx_scalar alpha,
                     gx_scalar beta, const void *const from[3], void *dst, gx_err *err);
gx_code gx_cpu_field_block(gx_map_kind kind, int64_t count, gx_scalar alpha, gx_scalar beta,
                           const void *const from[3], void *dst, gx_err *err);
void gx_cpu_block_open(void);

size_t gx_cpu_workspace(gx_dev *dev, gx_kernel_id kernel, gx_number dtype, const gx_args *args);

/*
** The gate of OpenBLAS.  Its thread count is one number for the process, and 1 except inside a wide
** section: gx spreads its own pieces over its own threads.
**
** Narrow sections (a single-threaded BLAS call) run concurrently with each other; a wide one, for
** what threads inside (LAPACK's eigensolvers), runs alone: it waits for the narrow ones that have
** begun, and later ones wait for it.  gx_cpu_narrow_begin() and _end() are paired on one thread.
*/
void gx_cpu_gate_open(void); /* once for the process, before any section; harmless again */
gx_code gx_cpu_narrow_begin(gx_err *err); /* GX_NOMEM: then there is nothing to end */
void gx_cpu_narrow_end(void);

/*
** call(arg) in a wide section of args->threads threads; of one where the matrix's order is small.
** args->poll (may be NULL) is asked while the section waits, and now and then while call() is in
** LAPACK: its failure is returned, and then call() has been left somewhere in the middle.  So it
** holds nothing that must be given back, and what it was writing is worthless.
*/
typedef void (*gx_cpu_call)(void *arg);
gx_code gx_cpu_wide(const gx_args *args, int64_t order, gx_cpu_call call, void *arg, gx_err *err);

/* The count itself: as many as can be had of it.  Inside of the gate. */
void gx_cpu_set_threads(int count);

/*
** Have a buffer of OpenBLAS's (128 MiB of address space) at hand for each of so many callers,
** beside those of its threads.  false: there is no room.
*/
bool gx_cpu_have_buffers(int callers);

/* LAPACK passes here (cpu_leave.c).  Outside of a wide section, and on other threads: nothing. */
void gx_cpu_look(void);

/*
** Whether f32 products go to the processor's matrix unit (cpu_amx.c), in words; asks nobody.
** Static.
*/
const char *gx_cpu_amx_state(void);

/*
** What the BLAS is and was built with, as it says itself: "OpenBLAS 0.3.21 ... Haswell".  Static.
*/
const char *gx_cpu_blas_config(void);

#endif
