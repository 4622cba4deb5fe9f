/*
** Device code: fused programs, step by step, and folds along lines.
**
** The interpreter goes through the program once for each element, with the results in a thread's
** own memory; all threads of a warp take the same branch.  It is there at once, and where NVRTC is
** not; a program that is run for long is compiled instead (cuda_fused.c).
**
** A fold along rows has a thread for each row, so that neighbours read neighbours; one down columns
** a block of threads for each.
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
    for_each(p.m, p.n, [&](long long i, long long j) {
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

GX_CUDA_KERNELS_OF(gx_fused, fused, gx_cuda_fused)

// Folds -------------------------------------------------------------------------------------------

/* What a line comes to, as gx_fold_add() has it: re, im; scale, ssq; the extreme. */
__device__ inline void leave(int kind, double *out, long long line, triple t)
{
    if (kind == GX_REDUCE_SUMSQ) {
        join_squares(t, &out[2 * line], &out[2 * line + 1]);
    } else if (kind == GX_REDUCE_SUM) {
        out[2 * line] = t.x;
        out[2 * line + 1] = t.y;
    } else {
        out[line] = t.x;
    }
}

template <class T> __device__ inline void fold_lines(const gx_cuda_call &p)
{
    const T *a = (const T *)p.a;
    if (p.part == GX_FOLD_OF_ROWS) {
        for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < p.m;
             i += (long long)gridDim.x * blockDim.x) {
            lane s = lane_of(p.kind);
            for (long long j = 0; j < p.n; j++) {
                lane_add(p.kind, &s, term<T>(p.kind, get(a, j * p.lda + i)));
            }
            leave(p.kind, p.out, i, lane_end(p.kind, &s));
        }
        return;
    }
    for (long long j = blockIdx.x; j < p.n; j += gridDim.x) {
        lane s = lane_of(p.kind);
        for (long long i = threadIdx.x; i < p.m; i += blockDim.x) {
            lane_add(p.kind, &s, term<T>(p.kind, get(a, j * p.lda + i)));
        }
        triple t = block_fold(p.kind, lane_end(p.kind, &s));
        if (threadIdx.x == 0) {
            leave(p.kind, p.out, j, t);
        }
    }
}
GX_CUDA_KERNELS(gx_fold, fold_lines)
