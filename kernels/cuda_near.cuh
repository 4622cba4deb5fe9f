/*
** Device code: what neighbours keep of a row, however it is multiplied (cuda_nearest.cu,
** cuda_near_pieces.cu).
*/
#ifndef GX_CUDA_NEAR_CUH
#define GX_CUDA_NEAR_CUH

#include "cuda_kernels.h"

#include "foretell.h"

/* What is known of row i: odd is NaN where a number is none. */
template <class T>
__device__ inline void keep_row(const gx_cuda_near &p, int64_t i, T odd, double square)
{
    if (!(odd == 0)) {
        atomicMax(&p.state->bad, (uint32_t)(INT32_MAX - (p.i0 + i)));
    } else if (p.has_gaps == 0) {
        if (gx_is_extreme_square(sizeof(T) == sizeof(double), square)) {
            atomicMax(&p.state->vague, 1u);
        }
        ((T *)p.factor)[i] = (T)(p.metric != GX_METRIC_COSINE ? square
                                 : square == 0                ? 0
                                                              : 1 / sqrt(square));
        // Of numbers that are not negative the bits are ordered.
        atomicMax((unsigned long long *)&p.state->longest,
                  (unsigned long long)__double_as_longlong(square));
    }
}

#endif
