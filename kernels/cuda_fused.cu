/*
** Device code: fused programs, step by step, and folds along lines.
**
** The interpreter goes through the program once for each element, with the results in a thread's
** own memory; all threads of a warp take the same branch.  It is there at once, and where NVRTC is
** not; a program that is run for long is compiled instead (cuda_fused.c).
**
** A fold along rows has a thread for each row, so that neighbours read neighbours; one down columns
** a block of threads for each.  A norm is kept as scale^2 ssq.
*/
#include "cuda_element.cuh"

#include "cuda_fold.cuh"
#include "cuda_fused.cuh"

// Programs ----------------------------------------------------------------------------------------

template <class T>
__device__ inline number value_of(const gx_cuda_fused &p, const number *result, int value,
                                  long long i, long long j)
{
    if (value < GX_FUSED_CONSTANT) {
        return input<T>(p, value, i, j);
    }
    return value < GX_FUSED_RESULT ? constant<T>(p, value - GX_FUSED_CONSTANT)
                                   : result[p.step[value - GX_FUSED_RESULT].dst];
}

template <class T> __device__ inline void fused(const gx_cuda_fused &p)
{
    lane folded[GX_CUDA_FUSED_OUTPUTS];
    for (int k = 0; k < p.outputs; k++) {
        folded[k] = lane_of(p.fold[k] - 1);
    }
    for_elements(p.m, p.n, [&](long long i, long long j) {
        number result[GX_FUSED_REGISTERS];
        for (int s = 0; s < p.steps; s++) {
            const gx_cuda_step &code = p.step[s];
            number x[3] = {{0, 0}, {0, 0}, {0, 0}};
#pragma unroll
            for (int k = 0; k < 3; k++) {
                if (k < code.operands) {
                    x[k] = value_of<T>(p, result, code.from[k], i, j);
                }
            }
            result[code.dst] = stepped<T>(p, code.map, s, x[0], x[1], x[2]);
        }
        for (int k = 0; k < p.outputs; k++) {
            number x = value_of<T>(p, result, p.value[k], i, j);
            if (p.fold[k] == 0) {
                output<T>(p, k, i, j, x);
            } else {
                lane_add(p.fold[k] - 1, &folded[k], term<T>(p.fold[k] - 1, x));
            }
        }
    });
    for (int k = 0; k < p.outputs; k++) {
        if (p.fold[k] != 0) {
            leave_part(p.fold[k] - 1, &folded[k], (double *)p.out[k].data);
        }
    }
}

extern "C" __global__ void gx_fused_f64(const __grid_constant__ gx_cuda_fused p)
{
    fused<double>(p);
}

extern "C" __global__ void gx_fused_f32(const __grid_constant__ gx_cuda_fused p)
{
    fused<float>(p);
}

extern "C" __global__ void gx_fused_c128(const __grid_constant__ gx_cuda_fused p)
{
    fused<double2>(p);
}

extern "C" __global__ void gx_fused_c64(const __grid_constant__ gx_cuda_fused p)
{
    fused<float2>(p);
}

// Folds -------------------------------------------------------------------------------------------

/* What a line comes to, as gx_fold_add() has it: re, im; scale, ssq; the extreme. */
__device__ inline number nothing(int fold)
{
    return fold == GX_FOLD_SUM    ? number{0, 0}
           : fold == GX_FOLD_NORM ? number{1, 0}
           : fold == GX_FOLD_MIN  ? number{GX_INF, 0}
                                  : number{-GX_INF, 0};
}

__device__ inline number squares(number x, number y)
{
    if (y.im == 0) {
        return x;
    }
    if (x.im == 0 || is_nan(y.im)) {
        return is_nan(x.im) ? x : y;
    }
    if (x.re < y.re) {
        double ratio = x.re / y.re;
        return {y.re, y.im + x.im * ratio * ratio};
    }
    double ratio = y.re / x.re;
    return {x.re, x.im + y.im * ratio * ratio};
}

__device__ inline number together(int fold, number x, number y)
{
    switch (fold) {
    case GX_FOLD_SUM:
        return {x.re + y.re, x.im + y.im};
    case GX_FOLD_NORM:
        return squares(x, y);
    case GX_FOLD_MIN:
        return is_nan(y.re) || y.re < x.re ? y : x;
    default:
        return is_nan(y.re) || y.re > x.re ? y : x;
    }
}

/* One element as a line of its own. */
template <class T> __device__ inline number alone(int fold, number x)
{
    if (fold != GX_FOLD_NORM) {
        return x;
    }
    bool has_nan = is_nan(x.re) || is_nan(x.im);
    double size = has_nan ? GX_NAN : magnitude<T>(x);
    return size > 0 && size < GX_INF ? number{size, 1} : number{1, size};
}

__device__ inline void leave(int fold, double *out, long long line, number x)
{
    if (fold == GX_FOLD_SUM || fold == GX_FOLD_NORM) {
        out[2 * line] = x.re;
        out[2 * line + 1] = x.im;
    } else {
        out[line] = x.re;
    }
}

template <class T> __device__ inline void fold_lines(const gx_cuda_call &p)
{
    const T *a = (const T *)p.a;
    if (p.part == GX_FOLD_OF_ROWS) {
        for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < p.m;
             i += (long long)gridDim.x * blockDim.x) {
            number x = nothing(p.kind);
            for (long long j = 0; j < p.n; j++) {
                x = together(p.kind, x, alone<T>(p.kind, get(a, j * p.lda + i)));
            }
            leave(p.kind, p.out, i, x);
        }
        return;
    }
    __shared__ number all[256];
    for (long long j = blockIdx.x; j < p.n; j += gridDim.x) {
        number x = nothing(p.kind);
        for (long long i = threadIdx.x; i < p.m; i += blockDim.x) {
            x = together(p.kind, x, alone<T>(p.kind, get(a, j * p.lda + i)));
        }
        all[threadIdx.x] = x;
        for (int half = blockDim.x / 2; half > 0; half /= 2) {
            __syncthreads();
            if (threadIdx.x < half) {
                all[threadIdx.x] = together(p.kind, all[threadIdx.x], all[threadIdx.x + half]);
            }
        }
        if (threadIdx.x == 0) {
            leave(p.kind, p.out, j, all[0]);
        }
        __syncthreads();
    }
}
GX_CUDA_KERNELS(gx_fold, fold_lines)
