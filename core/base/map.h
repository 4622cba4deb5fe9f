/*
** The elementwise functions: the kinds of the kernel GX_MAP, a row each.
**
** A row is what everybody else is driven from: the kernel tables, the SQL functions gx_NAME
** (ext/fn_map.c), the tests of every backend.  What a kind computes is one expression a backend:
** kernels/ref.c, kernels/cpu_map.c, kernels/cuda_map.cu.
**
**   operands  1: of a.  2: of a and b
**   numbers   SQL arguments after the operands: alpha, then beta
**   keeps     properties of a that hold for c, whatever the numbers
**   flops     of one element: real, complex
**   ulps      how far any backend may be from the reference, in units of the last place of the
**             result, or of its largest term where terms cancel; of |c| for complex dtypes
**   bits      the CPU's bits on every backend but the reference (finite, away from the ends)
*/
#ifndef GX_MAP_H
#define GX_MAP_H

#include "types.h"

enum {
    GX_KEEPS_SYMMETRY = GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN,
    GX_KEEPS_SHAPE = GX_KEEPS_SYMMETRY | GX_PROP_LOWER | GX_PROP_UPPER, /* f(0) = 0            */
};

/*      kind   name   operands, numbers, keeps             flops    ulps  bits                  */
#define GX_MAPS(MAP)                                                                               \
    MAP(ADD,   add,   2, 0, 0,                    3, 14,   3, true)  /* alpha a + beta b */        \
    MAP(MUL,   mul,   2, 0, 0,                    1, 6,    2, true)  /* a b */                     \
    MAP(DIV,   div,   2, 0, 0,                    1, 12,   8, true)  /* a / b, as C does */        \
    MAP(SCALE, scale, 1, 1, GX_KEEPS_SHAPE,       1, 6,    2, true)  /* alpha a */                 \
    MAP(CONJ,  conj,  1, 0, GX_KEEPS_SHAPE,       0, 0,    0, true)                                \
    MAP(ABS,   abs,   1, 0, GX_KEEPS_SHAPE,       1, 4,    2, true)  /* imaginary part 0 */        \
    MAP(EXP,   exp,   1, 0, GX_KEEPS_SYMMETRY,    20, 60,  4, false) /* as C's exp and cexp */     \
    MAP(LOG,   log,   1, 0, GX_PROP_SYMMETRIC,    20, 60,  8, false) /* real: NaN below 0 */       \
    MAP(SQRT,  sqrt,  1, 0, GX_KEEPS_SHAPE & ~GX_PROP_HERMITIAN, 1, 10, 4, false) /* the same */

typedef enum gx_map_kind {
#define GX_MAP_ENUM(KIND, ...) GX_MAP_##KIND,
    GX_MAPS(GX_MAP_ENUM)
#undef GX_MAP_ENUM
    GX_MAP_KIND_COUNT
} gx_map_kind;

typedef struct gx_map_facts {
    const char *name;
    int operands, numbers;
    uint32_t keeps;
    double flops, complex_flops, ulps;
    bool has_bits;
} gx_map_facts;

/* The row of a kind.  Static. */
const gx_map_facts *gx_map_row(gx_map_kind kind);

#endif
