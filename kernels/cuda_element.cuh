/*
** What the device code has in common: elements and functions of them (cuda_functions.cuh), triangles,
** and a kernel for each dtype.
*/
#ifndef GX_CUDA_ELEMENT_CUH
#define GX_CUDA_ELEMENT_CUH

#include "cuda_kernels.h"

#include "cuda_functions.cuh"

/* The part of x that counts towards triangle uplo. */
__device__ inline bool in_triangle(int uplo, int64_t i, int64_t j)
{
    return uplo == GX_LOWER ? i >= j : i <= j;
}

/* The four kernels NAME_f64 ... of a template BODY<T>(const gx_cuda_call &). */
#define GX_CUDA_KERNELS(NAME, BODY)                                                                \
    extern "C" __global__ void NAME##_f64(const __grid_constant__ gx_cuda_call p)                  \
    {                                                                                              \
        BODY<double>(p);                                                                           \
    }                                                                                              \
    extern "C" __global__ void NAME##_f32(const __grid_constant__ gx_cuda_call p)                  \
    {                                                                                              \
        BODY<float>(p);                                                                            \
    }                                                                                              \
    extern "C" __global__ void NAME##_c128(const __grid_constant__ gx_cuda_call p)                 \
    {                                                                                              \
        BODY<double2>(p);                                                                          \
    }                                                                                              \
    extern "C" __global__ void NAME##_c64(const __grid_constant__ gx_cuda_call p)                  \
    {                                                                                              \
        BODY<float2>(p);                                                                           \
    }

#endif
