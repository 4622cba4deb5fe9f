/*
** How a loop written once fills the four dtype slots of the kernel table.
**
** A slot carries no dtype, so each needs a function of its own.  The loop is a static inline
** gx_code NAME(gx_number dtype, const gx_args *args, gx_err *err) whose dtype is a constant once
** it is inlined into the four functions NAME_f64, NAME_f32, NAME_c128, NAME_c64 that
** GX_SLOTS_DEFINE makes: the compiler then folds every test of the dtype away and vectorises what
** is left.
**
**     static inline gx_code fill(gx_number dtype, const gx_args *args, gx_err *err) { ... }
**     GX_SLOTS_DEFINE(, gx_ref_fill, fill)
**     ...  [GX_FILL] = GX_SLOTS(gx_ref_fill)
*/
#ifndef GX_SLOTS_H
#define GX_SLOTS_H

#include "../core/base/backend.h"

/* Forces the loop into its four slots. */
#define GX_INLINE static inline __attribute__((always_inline))

/* A loop that cannot fail; what it has no use for it need not name. */
#define GX_UNUSED __attribute__((unused))
#define GX_LOOP(name)                                                                              \
    GX_INLINE gx_code name(GX_UNUSED gx_number dtype, const gx_args *p, GX_UNUSED gx_err *err)

/* Element (i, j) as a pair, real or complex. */
GX_INLINE gx_scalar load(gx_number dtype, const void *x, int64_t ld, int64_t i, int64_t j)
{
    return gx_number_get(dtype, x, j * ld + i);
}

GX_INLINE void store(gx_number dtype, void *x, int64_t ld, int64_t i, int64_t j, gx_scalar value)
{
    gx_number_put(dtype, x, j * ld + i, value);
}

/* A scalar argument as this dtype sees it: the imaginary part is ignored by real kernels. */
GX_INLINE gx_scalar scalar_of(gx_number dtype, gx_scalar s)
{
    return (gx_scalar){s.re, gx_number_is_complex(dtype) ? s.im : 0};
}

GX_INLINE bool is_zero(gx_scalar s)
{
    return s.re == 0 && s.im == 0;
}

#define GX_SLOT_PROTOTYPE(name, suffix)                                                            \
    gx_code name##_##suffix(gx_dev *dev, gx_queue *queue, const gx_args *args, gx_err *err)

/* Prototypes of the four slots, for a header. */
#define GX_SLOTS_DECLARE(name)                                                                     \
    GX_SLOT_PROTOTYPE(name, f64);                                                                  \
    GX_SLOT_PROTOTYPE(name, f32);                                                                  \
    GX_SLOT_PROTOTYPE(name, c128);                                                                 \
    GX_SLOT_PROTOTYPE(name, c64)

#define GX_SLOT_DEFINE(prefix, name, suffix, dtype, loop)                                          \
    prefix GX_SLOT_PROTOTYPE(name, suffix)                                                         \
    {                                                                                              \
        (void)dev;                                                                                 \
        (void)queue;                                                                               \
        return loop(dtype, args, err);                                                             \
    }

/* The four slots name_f64 ... of a loop; prefix: static, or attributes. */
#define GX_SLOTS_DEFINE(prefix, name, loop)                                                        \
    GX_SLOT_DEFINE(prefix, name, f64, GX_F64, loop)                                                \
    GX_SLOT_DEFINE(prefix, name, f32, GX_F32, loop)                                                \
    GX_SLOT_DEFINE(prefix, name, c128, GX_C128, loop)                                              \
    GX_SLOT_DEFINE(prefix, name, c64, GX_C64, loop)

/* The two of a loop over real numbers alone. */
#define GX_REAL_SLOTS_DEFINE(name, loop)                                                           \
    GX_SLOT_DEFINE(, name, f64, GX_F64, loop)                                                      \
    GX_SLOT_DEFINE(, name, f32, GX_F32, loop)

/* The slot of whole numbers modulo 2^31 - 1, which few loops have. */
#define GX_FIELD_SLOT_DEFINE(name, loop) GX_SLOT_DEFINE(, name, m31, GX_M31, loop)

/* The row of the kernel table. */
#define GX_SLOTS(name)                                                                             \
    {                                                                                              \
        [GX_F64] = name##_f64, [GX_F32] = name##_f32, [GX_C128] = name##_c128,                     \
        [GX_C64] = name##_c64                                                                      \
    }

/* Of a list such as GX_KERNELS_OF_ALL: the prototypes, the rows; the same of real numbers alone. */
#define GX_KERNEL_DECLARE(backend, ID, name) GX_SLOTS_DECLARE(gx_##backend##_##name);
#define GX_KERNEL_ROW(backend, ID, name) [GX_##ID] = GX_SLOTS(gx_##backend##_##name),
#define GX_REAL_DECLARE(backend, ID, name)                                                         \
    GX_SLOT_PROTOTYPE(gx_##backend##_##name, f64);                                                 \
    GX_SLOT_PROTOTYPE(gx_##backend##_##name, f32);
#define GX_REAL_ROW(backend, ID, name)                                                             \
    [GX_##ID] = {[GX_F64] = gx_##backend##_##name##_f64, [GX_F32] = gx_##backend##_##name##_f32},

/* The kernels of GX_M31. */
#define GX_KERNELS_OF_FIELD(KERNEL, backend)                                                       \
    KERNEL(backend, GEMM, gemm) KERNEL(backend, FILL, fill) KERNEL(backend, COPY, copy)            \
    KERNEL(backend, TRANSPOSE, transpose) KERNEL(backend, MAP, map)                                \
    KERNEL(backend, SYMMETRIZE, symmetrize) KERNEL(backend, REDUCE, reduce)                        \
    KERNEL(backend, TRIANGLE, triangle) KERNEL(backend, FUSED, fused)                              \
    KERNEL(backend, CIRCLE, circle) KERNEL(backend, COMBINE, combine)
#define GX_FIELD_DECLARE(backend, ID, name) GX_SLOT_PROTOTYPE(gx_##backend##_##name, m31);
#define GX_FIELD_ROW(backend, ID, name) [GX_##ID][GX_M31] = gx_##backend##_##name##_m31,

/* What the backends of the host have in common (ref.c). */
int gx_host_count(void);
gx_code gx_host_open(const char *name, int ordinal, gx_dev **dev, gx_err *err);
void gx_host_close(gx_dev *dev);
gx_code gx_host_info(gx_dev *dev, gx_dev_info *info, gx_err *err);

#endif
