/*
** Device code: sums, differences and products modulo 2^31 - 1, as field.h of the core has them.
*/
#ifndef GX_CUDA_M31_CUH
#define GX_CUDA_M31_CUH

#include "cuda_kernels.h"

constexpr uint32_t P31 = GX_M31_P;

__device__ inline uint32_t plus(uint32_t a, uint32_t b)
{
    uint32_t sum = a + b;
    return min(sum, sum - P31);
}

__device__ inline uint32_t minus(uint32_t a, uint32_t b)
{
    uint32_t rest = a - b;
    return min(rest, rest + P31);
}

__device__ inline uint32_t times(uint32_t a, uint32_t b)
{
    uint64_t product = (uint64_t)a * b;
    return plus((uint32_t)(product & P31), (uint32_t)(product >> 31));
}

__device__ inline uint32_t power(uint32_t a, uint32_t exponent)
{
    uint32_t result = 1;
    for (; exponent > 0; exponent >>= 1) {
        result = exponent & 1 ? times(result, a) : result;
        a = times(a, a);
    }
    return result;
}

#endif
