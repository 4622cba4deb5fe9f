/*
** How operations are computed: a function for each name in the last column but one of GX_OPS.
**
** It reads the node's inputs and puts its results (values.h); a failure is the run's.
*/
#pragma once

#include "../fft/fft.h"
#include "ops.h"

#define GX_LOWERS(LOWER)                                                                           \
    LOWER(number)                                                                                  \
    LOWER(literal)                                                                                 \
    LOWER(map) LOWER(fused) LOWER(cast) LOWER(slice) LOWER(matmul) LOWER(transpose) LOWER(eye)     \
        LOWER(filled) LOWER(random) LOWER(ramp) LOWER(reduce) LOWER(norm) LOWER(trace)             \
            LOWER(trace_product) LOWER(diag) LOWER(arrange) LOWER(formed) LOWER(topk) LOWER(take)  \
                LOWER(stack) LOWER(kron) LOWER(along) LOWER(solve) LOWER(lstsq) LOWER(inverse)     \
                    LOWER(pinv) LOWER(det) LOWER(rank) LOWER(cholesky) LOWER(lu) LOWER(qr)         \
                        LOWER(eig) LOWER(svd) LOWER(decomp) LOWER(equation) LOWER(funm) LOWER(cov) \
                            LOWER(grid) LOWER(fft) LOWER(fftfreq) LOWER(require) LOWER(loggamma)   \
                                LOWER(bands) LOWER(solve_banded) LOWER(distance)

#define GX_LOWER_DECLARE(NAME) void gx_lower_##NAME(struct gx_exec *x, const gx_node *node);
GX_LOWERS(GX_LOWER_DECLARE)
#undef GX_LOWER_DECLARE

/* What a node of a transform was told. */
gx_fft_args gx_fft_args_of(const gx_node *node);

/* solve, inverse, det, rank and lu of m31.  false: the node is of other numbers. */
bool gx_lower_exact(struct gx_exec *x, const gx_node *node);
