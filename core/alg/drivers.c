/*
** The drivers that composites hand their parts to: by_parts.h.
*/
#include "by_parts.h"

const gx_drivers gx_drivers_all = {
    .multiply = gx_alg_matmul,
    .solve = gx_alg_solve,
    .determinant = gx_alg_determinant,
    .norm = gx_alg_norm,
};
