/*
** The parts of a fused program's kernel: what the interpreter (cuda_fused.cu) does step by step,
** and what the text for NVRTC (cuda_fused.c) is put together from.  It includes nothing: the struct
** (cuda_fused.h) and the functions (cuda_functions.cuh) come before it.
*/
#ifndef GX_CUDA_FUSED_CUH
#define GX_CUDA_FUSED_CUH

/* As the dtype holds it. */
template <class T> __device__ __forceinline__ number rounded(number x)
{
    if (sizeof(T) == (facts<T>::is_complex ? 16 : 8)) {
        return x;
    }
    return {(double)(float)x.re, (double)(float)x.im};
}

template <class T>
__device__ __forceinline__ number input(const gx_cuda_fused &p, int k, long long i, long long j)
{
    return get((const T *)p.in[k].data, i * p.in[k].row + j * p.in[k].col);
}

template <class T> __device__ __forceinline__ number constant(const gx_cuda_fused &p, int k)
{
    number x = rounded<T>({p.constant[k][0], p.constant[k][1]});
    return {x.re, facts<T>::is_complex ? x.im : 0};
}

/* Step s, whose function is `map`. */
template <class T>
__device__ __forceinline__ number stepped(const gx_cuda_fused &p, int map, int s, number a,
                                          number b, number c)
{
    const gx_cuda_step &code = p.step[s];
    return rounded<T>(mapped<T>(map, {code.alpha[0], code.alpha[1]}, {code.beta[0], code.beta[1]},
                                a, b, c));
}

template <class T>
__device__ __forceinline__ void output(const gx_cuda_fused &p, int k, long long i, long long j,
                                       number x)
{
    long long at = i * p.out[k].row + j * p.out[k].col;
    if (!facts<T>::is_complex || !p.is_real[k]) {
        put((T *)p.out[k].data, at, x);
    } else if (sizeof(T) == 16) {
        put((double *)p.out[k].data, at, x);
    } else {
        put((float *)p.out[k].data, at, x);
    }
}

/*
** f(in, q, i, j) for every element of the block, as for_each(), with element q of a batch: its inputs are in[k][q].  All inputs of a
** batch are loaded before f is called for the first of them.
*/
template <class T, int INPUTS, int BATCH, class F>
__device__ __forceinline__ void for_batches(const gx_cuda_fused &p, F f)
{
    long long down = (long long)gridDim.x * blockDim.x;
    for (long long j = (long long)blockIdx.y * blockDim.y + threadIdx.y; j < p.n;
         j += (long long)gridDim.y * blockDim.y) {
        for (long long i0 = (long long)blockIdx.x * blockDim.x + threadIdx.x; i0 < p.m;
             i0 += BATCH * down) {
            number in[INPUTS > 0 ? INPUTS : 1][BATCH];
#pragma unroll
            for (int k = 0; k < INPUTS; k++) {
#pragma unroll
                for (int q = 0; q < BATCH; q++) {
                    long long i = i0 + q * down;
                    in[k][q] = i < p.m ? input<T>(p, k, i, j) : number{0, 0};
                }
            }
#pragma unroll
            for (int q = 0; q < BATCH; q++) {
                if (i0 + q * down < p.m) {
                    f(in, q, i0 + q * down, j);
                }
            }
        }
    }
}

#endif
