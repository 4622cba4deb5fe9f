/*
** Elements as the device code sees them: a number is a pair of doubles, whatever the dtype.
**
** f32 parts are worked on as doubles and rounded once, in the formulas and the order of
** kernels/cpu_map.c, and nothing is contracted (-fmad=false): the results have the CPU's bits.
*/
#ifndef GX_CUDA_ELEMENT_CUH
#define GX_CUDA_ELEMENT_CUH

#include "cuda_kernels.h"

struct number {
    double re, im;
};

// Loading and storing -----------------------------------------------------------------------------

__device__ inline number get(const double *x, int64_t at)
{
    return {x[at], 0};
}

__device__ inline number get(const float *x, int64_t at)
{
    return {(double)x[at], 0};
}

__device__ inline number get(const double2 *x, int64_t at)
{
    double2 e = x[at];
    return {e.x, e.y};
}

__device__ inline number get(const float2 *x, int64_t at)
{
    float2 e = x[at];
    return {(double)e.x, (double)e.y};
}

__device__ inline void put(double *x, int64_t at, number value)
{
    x[at] = value.re;
}

__device__ inline void put(float *x, int64_t at, number value)
{
    x[at] = (float)value.re;
}

__device__ inline void put(double2 *x, int64_t at, number value)
{
    x[at] = make_double2(value.re, value.im);
}

__device__ inline void put(float2 *x, int64_t at, number value)
{
    x[at] = make_float2((float)value.re, (float)value.im);
}

template <class T> struct facts;
template <> struct facts<double> {
    static constexpr bool is_complex = false;
};
template <> struct facts<float> {
    static constexpr bool is_complex = false;
};
template <> struct facts<double2> {
    static constexpr bool is_complex = true;
};
template <> struct facts<float2> {
    static constexpr bool is_complex = true;
};

// Arithmetic --------------------------------------------------------------------------------------

__device__ inline number times(number x, number y)
{
    return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

/* s x with a scalar: part by part where s is real, so that an Inf in one part stays there. */
template <class T> __device__ inline number scaled(number s, number x)
{
    if (!facts<T>::is_complex || s.im == 0) {
        return {s.re * x.re, s.re * x.im};
    }
    return times(s, x);
}

/* |x| where squares of the parts overflow or lose bits: by way of scaled ones. */
__device__ __noinline__ inline double careful_magnitude(number x)
{
    if (isinf(x.re) || isinf(x.im)) {
        return INFINITY;
    }
    bool is_tiny = fabs(x.re) < 1 && fabs(x.im) < 1;
    double scale = is_tiny ? 0x1p600 : 0x1p-600, back = is_tiny ? 0x1p-600 : 0x1p600;
    double re = x.re * scale, im = x.im * scale;
    return sqrt(re * re + im * im) * back;
}

template <class T> __device__ inline double magnitude(number x)
{
    if (!facts<T>::is_complex) {
        return fabs(x.re);
    }
    double s = x.re * x.re + x.im * x.im;
    return s > 0x1p-900 && s < INFINITY ? sqrt(s) : careful_magnitude(x);
}

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
