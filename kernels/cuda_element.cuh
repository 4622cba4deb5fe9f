/*
** What the device code has in common: elements and functions of them (functions.h), triangles,
** and a kernel for each dtype.
*/
#ifndef GX_CUDA_ELEMENT_CUH
#define GX_CUDA_ELEMENT_CUH

#include "cuda_kernels.h"

#include "functions.h"

#include "cuda_functions.cuh"

/* The part of x that counts towards triangle uplo. */
__device__ inline bool in_triangle(int uplo, int64_t i, int64_t j)
{
    return uplo == GX_LOWER ? i >= j : i <= j;
}

/* The four kernels NAME_f64 ... of a template BODY<T>(const gx_cuda_call &), or another struct. */
#define GX_CUDA_KERNEL(NAME, BODY, SUFFIX, T, CALL)                                                \
    extern "C" __global__ void NAME##_##SUFFIX(const GX_GRID_CONSTANT CALL p)                     \
    {                                                                                              \
        BODY<T>(p);                                                                                \
    }
#define GX_CUDA_KERNELS_OF(NAME, BODY, CALL)                                                       \
    GX_CUDA_KERNEL(NAME, BODY, f64, double, CALL)                                                  \
    GX_CUDA_KERNEL(NAME, BODY, f32, float, CALL)                                                   \
    GX_CUDA_KERNEL(NAME, BODY, c128, double2, CALL)                                                \
    GX_CUDA_KERNEL(NAME, BODY, c64, float2, CALL)
#define GX_CUDA_KERNELS(NAME, BODY) GX_CUDA_KERNELS_OF(NAME, BODY, gx_cuda_call)

#endif
