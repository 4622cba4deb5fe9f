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
**     GX_SLOTS_DEFINE(static, fill, fill)
**     ...  [GX_FILL] = GX_SLOTS(fill)
*/
#ifndef GX_SLOTS_H
#define GX_SLOTS_H

#include "../core/base/backend.h"

/* Forces the loop into its four slots. */
#define GX_INLINE static inline __attribute__((always_inline))

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

/* The row of the kernel table. */
#define GX_SLOTS(name)                                                                             \
    {                                                                                              \
        [GX_F64] = name##_f64, [GX_F32] = name##_f32, [GX_C128] = name##_c128,                     \
        [GX_C64] = name##_c64                                                                      \
    }

#endif
