/*
** Generators of simple matrices: constants, identities, diagonals, ramps.  Each gx_*_generate is a
** gx_generate (mat.h) whose arg is the struct above it.
*/
#ifndef GX_SIMPLE_H
#define GX_SIMPLE_H

#include "../base/types.h"
#include "../run/run.h"

/* Every element is the value. */
typedef struct gx_constant {
    gx_scalar value;
} gx_constant;

void gx_constant_generate(const void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n,
                          gx_number dtype, void *dst, int64_t ld);

/*
** Diagonal number offset (j - i = offset; above the main one when positive) holds the elements,
** all else is 0.  data NULL: ones.
*/
typedef struct gx_diagonal {
    int64_t offset;
    gx_number dtype;   /* of data                                                        */
    const void *data; /* element k stands at (k - min(0, offset), k + max(0, offset))   */
} gx_diagonal;

void gx_diagonal_generate(const void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n,
                          gx_number dtype, void *dst, int64_t ld);

/* A column: start + i step, the last of count elements being last (when count > 1). */
typedef struct gx_ramp {
    double start, step, last;
    int64_t count;
} gx_ramp;

void gx_ramp_generate(const void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n,
                      gx_number dtype, void *dst, int64_t ld);

/* Elements on diagonal number offset of a rows x cols matrix; 0 when it lies outside. */
int64_t gx_diagonal_count(int64_t rows, int64_t cols, int64_t offset);

#endif
