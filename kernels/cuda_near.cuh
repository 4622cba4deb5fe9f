/*
** Device code: what neighbours keep of a row, however it is multiplied (cuda_nearest.cu,
** cuda_near_pieces.cu).
*/
#ifndef GX_CUDA_NEAR_CUH
#define GX_CUDA_NEAR_CUH

#include "cuda_kernels.h"

#include "foretell.h"

/*
** What is known of row i: odd is NaN where a number is none.  The square of its length, which
** keep_longest() wants; else 0.
*/
template <class T>
__device__ inline double keep_row(const gx_cuda_near &p, int64_t i, T odd, double square)
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
        return square;
    }
    return 0;
}

/*
** The largest square of those of a whole warp's rows, none of which is negative, into the state:
** one access for all of them, since those to one place wait for each other.
*/
__device__ inline void keep_longest(const gx_cuda_near &p, double square)
{
    for (int apart = 16; apart > 0; apart /= 2) {
        square = fmax(square, __shfl_xor_sync(~0u, square, apart));
    }
    if (threadIdx.x % 32 == 0 && square > 0) { // then the bits are ordered, too
        atomicMax((unsigned long long *)&p.state->longest,
                  (unsigned long long)__double_as_longlong(square));
    }
}

#endif
