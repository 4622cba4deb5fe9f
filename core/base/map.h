/*
** The elementwise functions: the kinds of the kernel GX_MAP and the steps of fused programs
** (fused.h), a row each.
**
** A row is what everybody else is driven from: the kernel tables, the SQL functions gx_NAME
** (ext/fn_map.c), the tests of every backend.  What a kind computes is one expression in
** kernels/functions.h, two where complex numbers need another.
**
**   operands  of a, b, c
**   numbers   SQL arguments after the operands: alpha, then beta
**   keeps     properties of a that hold for the result, whatever the numbers
**   dtypes    ANY: the result is of the operands' dtype.  TO_REAL: of complex operands real.
**             REAL_ONLY: complex ones are refused
**   flops     of one element: real, complex
**   ulps      how far any backend may be from the reference, in units of the last place of the
**             result, or of its largest term where terms cancel; of |c| for complex dtypes
**   bits      the CPU's bits on every backend but the reference (finite, away from the ends)
*/
#ifndef GX_MAP_H
#define GX_MAP_H

#include "err.h"
#include "types.h"

enum {
    GX_KEEPS_PLAIN = GX_PROP_SYMMETRIC,
    GX_KEEPS_SYMMETRY = GX_KEEPS_PLAIN | GX_PROP_HERMITIAN,    /* f(conj z) = conj f(z)      */
    GX_KEEPS_ZEROS = GX_KEEPS_PLAIN | GX_PROP_LOWER | GX_PROP_UPPER, /* f(0) = 0             */
    GX_KEEPS_SHAPE = GX_KEEPS_SYMMETRY | GX_KEEPS_ZEROS
};

typedef enum gx_map_dtypes { GX_MAP_ANY, GX_MAP_TO_REAL, GX_MAP_REAL_ONLY } gx_map_dtypes;

// clang-format off
/*      kind   name   operands, numbers, keeps      dtypes     flops    ulps  bits             */
#define GX_MAPS(MAP)                                                                               \
    MAP(ADD,   add,   2, 0, 0,                 ANY, 3, 14,   3, true)  /* alpha a + beta b */      \
    MAP(MUL,   mul,   2, 0, 0,                 ANY, 1, 6,    2, true)  /* a b */                   \
    MAP(DIV,   div,   2, 0, 0,                 ANY, 1, 12,   8, true)  /* a / b, as C does */      \
    MAP(SCALE, scale, 1, 1, GX_KEEPS_SHAPE,    ANY, 1, 6,    2, true)  /* alpha a */               \
    MAP(CONJ,  conj,  1, 0, GX_KEEPS_SHAPE,    ANY, 0, 0,    0, true)                              \
    MAP(ABS,   abs,   1, 0, GX_KEEPS_SHAPE,    TO_REAL, 1, 4, 2, true)                             \
    MAP(REAL,  real,  1, 0, GX_KEEPS_SHAPE,    TO_REAL, 0, 0, 0, true)                             \
    MAP(IMAG,  imag,  1, 0, GX_KEEPS_ZEROS,    TO_REAL, 0, 0, 0, true)                             \
    MAP(ARG,   arg,   1, 0, GX_KEEPS_PLAIN,    TO_REAL, 20, 20, 4, false) /* in [-pi, pi] */       \
    MAP(SQUARE, square, 1, 0, GX_KEEPS_SHAPE,  ANY, 1, 6,    2, true)                              \
    MAP(RECIPROCAL, reciprocal, 1, 0, GX_KEEPS_SYMMETRY, ANY, 1, 12, 8, true)                      \
    MAP(SQRT,  sqrt,  1, 0, GX_KEEPS_ZEROS,    ANY, 1, 10,   4, false) /* as C's csqrt */          \
    MAP(CBRT,  cbrt,  1, 0, GX_KEEPS_SHAPE,    REAL_ONLY, 20, 0, 4, false)                         \
    MAP(POW,   pow,   2, 0, 0,                 ANY, 40, 120, 64, false) /* real: NaN of (-8)^.3 */ \
    MAP(HYPOT, hypot, 2, 0, 0,                 REAL_ONLY, 8, 0, 4, false)                          \
    MAP(MOD,   mod,   2, 0, 0,                 REAL_ONLY, 8, 0, 0, false) /* of b's sign */ \
    MAP(EXP,   exp,   1, 0, GX_KEEPS_SYMMETRY, ANY, 20, 60,  4, false) /* as C's exp and cexp */   \
    MAP(EXPM1, expm1, 1, 0, GX_KEEPS_SHAPE,    ANY, 20, 80,  8, false)                             \
    MAP(LOG,   log,   1, 0, GX_KEEPS_PLAIN,    ANY, 20, 60,  8, false) /* real: NaN below 0 */     \
    MAP(LOG1P, log1p, 1, 0, GX_KEEPS_ZEROS,    ANY, 20, 60,  16, false)                            \
    MAP(LOG2,  log2,  1, 0, GX_KEEPS_PLAIN,    ANY, 20, 60,  8, false)                             \
    MAP(LOG10, log10, 1, 0, GX_KEEPS_PLAIN,    ANY, 20, 60,  8, false)                             \
    MAP(SIN,   sin,   1, 0, GX_KEEPS_SHAPE,    ANY, 20, 80,  8, false)                             \
    MAP(COS,   cos,   1, 0, GX_KEEPS_SYMMETRY, ANY, 20, 80,  8, false)                             \
    MAP(TAN,   tan,   1, 0, GX_KEEPS_SHAPE,    ANY, 30, 80,  16, false)                            \
    MAP(ASIN,  asin,  1, 0, GX_KEEPS_ZEROS,    ANY, 20, 80,  16, false) /* real: NaN beyond 1 */   \
    MAP(ACOS,  acos,  1, 0, GX_KEEPS_PLAIN,    ANY, 20, 80,  16, false)                            \
    MAP(ATAN,  atan,  1, 0, GX_KEEPS_ZEROS,    ANY, 20, 80,  16, false)                            \
    MAP(ATAN2, atan2, 2, 0, 0,                 REAL_ONLY, 30, 0, 4, false) /* angle of (b, a) */   \
    MAP(SINH,  sinh,  1, 0, GX_KEEPS_SHAPE,    ANY, 30, 80,  8, false)                             \
    MAP(COSH,  cosh,  1, 0, GX_KEEPS_SYMMETRY, ANY, 30, 80,  8, false)                             \
    MAP(TANH,  tanh,  1, 0, GX_KEEPS_SHAPE,    ANY, 30, 80,  16, false)                            \
    MAP(ASINH, asinh, 1, 0, GX_KEEPS_ZEROS,    ANY, 30, 80,  16, false)                            \
    MAP(ERF,   erf,   1, 0, GX_KEEPS_SHAPE,    REAL_ONLY, 30, 0, 4, false)                         \
    MAP(ERFC,  erfc,  1, 0, GX_KEEPS_SYMMETRY, REAL_ONLY, 30, 0, 8, false)                         \
    MAP(GAMMA, gamma, 1, 0, GX_KEEPS_SYMMETRY, REAL_ONLY, 60, 0, 16, false)                        \
    MAP(LGAMMA, lgamma, 1, 0, GX_KEEPS_SYMMETRY, REAL_ONLY, 60, 0, 16, false) /* log |gamma| */    \
    MAP(FLOOR, floor, 1, 0, GX_KEEPS_SHAPE,    REAL_ONLY, 1, 0, 0, true)                           \
    MAP(CEIL,  ceil,  1, 0, GX_KEEPS_SHAPE,    REAL_ONLY, 1, 0, 0, true)                           \
    MAP(ROUND, round, 1, 0, GX_KEEPS_SHAPE,    REAL_ONLY, 1, 0, 0, true) /* halves to even */      \
    MAP(TRUNC, trunc, 1, 0, GX_KEEPS_SHAPE,    REAL_ONLY, 1, 0, 0, true)                           \
    MAP(SIGN,  sign,  1, 0, GX_KEEPS_SHAPE,    ANY, 2, 16,   8, false) /* complex: a / |a| */      \
    MAP(MAXIMUM, maximum, 2, 0, 0,             REAL_ONLY, 1, 0, 0, true) /* NaN where one is */    \
    MAP(MINIMUM, minimum, 2, 0, 0,             REAL_ONLY, 1, 0, 0, true)                           \
    MAP(CLIP,  clip,  3, 0, 0,                 REAL_ONLY, 2, 0, 0, true) /* least, most: b, c */   \
    MAP(WHERE, where, 3, 0, 0,                 ANY, 1, 1,    0, true) /* b where a != 0, else c */ \
    MAP(ISNAN, isnan, 1, 0, GX_KEEPS_SHAPE,    TO_REAL, 1, 2, 0, true) /* 1 or 0, as below */  \
    MAP(ISINF, isinf, 1, 0, GX_KEEPS_SHAPE,    TO_REAL, 1, 2, 0, true)                             \
    MAP(ISFINITE, isfinite, 1, 0, GX_KEEPS_SYMMETRY, TO_REAL, 1, 2, 0, true)                       \
    MAP(EQUAL, equal, 2, 0, 0,                 TO_REAL, 1, 2, 0, true)                             \
    MAP(NOT_EQUAL, not_equal, 2, 0, 0,         TO_REAL, 1, 2, 0, true)                             \
    MAP(LESS,  less,  2, 0, 0,                 REAL_ONLY, 1, 0, 0, true)                           \
    MAP(LESS_EQUAL, less_equal, 2, 0, 0,       REAL_ONLY, 1, 0, 0, true)                           \
    MAP(GREATER, greater, 2, 0, 0,             REAL_ONLY, 1, 0, 0, true)                           \
    MAP(GREATER_EQUAL, greater_equal, 2, 0, 0, REAL_ONLY, 1, 0, 0, true)                           \
    MAP(LOGICAL_AND, logical_and, 2, 0, 0,     TO_REAL, 1, 2, 0, true)                             \
    MAP(LOGICAL_OR, logical_or, 2, 0, 0,       TO_REAL, 1, 2, 0, true)                             \
    MAP(LOGICAL_XOR, logical_xor, 2, 0, 0,     TO_REAL, 1, 2, 0, true)                             \
    MAP(LOGICAL_NOT, logical_not, 1, 0, GX_KEEPS_SYMMETRY, TO_REAL, 1, 2, 0, true)                 \
    MAP(RELU,  relu,  1, 0, GX_KEEPS_SHAPE,    REAL_ONLY, 1, 0, 0, true)                           \
    MAP(SIGMOID, sigmoid, 1, 0, GX_KEEPS_SYMMETRY, REAL_ONLY, 25, 0, 8, false)                     \
    MAP(SOFTPLUS, softplus, 1, 0, GX_KEEPS_SYMMETRY, REAL_ONLY, 45, 0, 8, false)                   \
    MAP(GELU,  gelu,  1, 0, GX_KEEPS_SHAPE,    REAL_ONLY, 35, 0, 8, false) /* a Phi(a) */          \
    MAP(NDTR,  ndtr,  1, 0, GX_KEEPS_SYMMETRY, REAL_ONLY, 40, 0, 8, false) /* Phi(a) */            \
    MAP(NDTRI, ndtri, 1, 0, GX_KEEPS_SYMMETRY, REAL_ONLY, 60, 0, 16, false) /* where that is a */  \
    MAP(GAMMAINC, gammainc, 2, 0, 0,           REAL_ONLY, 400, 0, 4096, false) /* P(a, b) */       \
    MAP(GAMMAINCC, gammaincc, 2, 0, 0,         REAL_ONLY, 400, 0, 4096, false) /* Q(a, b) */       \
    MAP(BETAINC, betainc, 3, 0, 0,             REAL_ONLY, 800, 0, 4096, false) /* I of c */
// clang-format on

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
    gx_map_dtypes dtypes;
    double flops, complex_flops, ulps;
    bool has_bits;
} gx_map_facts;

/* Does it mean something of whole numbers modulo p (GX_M31)?  A constant of a constant. */
#define gx_map_is_of_field(kind)                                                                   \
    ((kind) <= GX_MAP_SCALE || (kind) == GX_MAP_SQUARE || (kind) == GX_MAP_RECIPROCAL ||           \
     (kind) == GX_MAP_POW || (kind) == GX_MAP_WHERE || (kind) == GX_MAP_EQUAL ||                   \
     (kind) == GX_MAP_NOT_EQUAL || ((kind) >= GX_MAP_LOGICAL_AND && (kind) <= GX_MAP_LOGICAL_NOT))

/* The row of a kind.  Static. */
const gx_map_facts *gx_map_row(gx_map_kind kind);

/*
** The dtype of the result, of operands of that dtype (promoted to one); GX_ARG "floor is of real
** numbers, not of c128".
*/
gx_code gx_map_dtype(gx_map_kind kind, gx_number operands, gx_number *result, gx_err *err);

/* Comparisons, logic, and what asks after a kind of number: each element is 1 or 0. */
static inline bool gx_map_is_truth(gx_map_kind kind)
{
    return kind >= GX_MAP_ISNAN && kind <= GX_MAP_LOGICAL_NOT;
}

#endif
