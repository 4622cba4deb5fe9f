/*
** Device code: products of a large matrix with a few columns, c = op(a) b, a read once.
**
** Such a product is as fast as a is read: what counts is that enough reads are under way at every
** moment, and that b and the sums cost no traffic worth naming.  A thread block has a part of c for
** a part (chunk) of the inner dimension; the chunks' sums go to `partial`, [chunk][column][row],
** and gx_narrow_end adds them in order, so that the bits are the same on every run and device.
**
**   gx_narrow     op(a) = a: a thread has ROWS rows of a warp's runs, a sum for each column of b in
**                 registers; b's rows stand in shared memory, where a warp reads one at a time
**   gx_narrow_t   op(a) = a^T, a^H: a warp has a few columns of a and runs down them, each lane a
**                 row at a time; its sums are added across the lanes at the end
**
** Sums are made by fma() (the build forbids the compiler to contract), f32 in f32.  The width of b
** is rounded up to 1, 2, 4, 8, 16, one kernel each, because the sums of the widest would take the
** registers that the narrow ones need for reads.
*/
#include "cuda_element.cuh"

constexpr int THREADS = 128, WARP = 32, WARPS = THREADS / WARP;
constexpr int DEPTH = GX_CUDA_NARROW_DEPTH; // of a piece of b in shared memory

/* ---- numbers -------------------------------------------------------------------------------- */

__device__ inline void add_product(double &sum, double a, double b)
{
    sum = fma(a, b, sum);
}

__device__ inline void add_product(float &sum, float a, float b)
{
    sum = fmaf(a, b, sum);
}

template <class T> __device__ inline void add_complex(T &sum, T a, T b)
{
    add_product(sum.x, a.x, b.x);
    add_product(sum.x, -a.y, b.y);
    add_product(sum.y, a.x, b.y);
    add_product(sum.y, a.y, b.x);
}

__device__ inline void add_product(double2 &sum, double2 a, double2 b)
{
    add_complex(sum, a, b);
}

__device__ inline void add_product(float2 &sum, float2 a, float2 b)
{
    add_complex(sum, a, b);
}

__device__ inline double conj_if(bool, double x)
{
    return x;
}

__device__ inline float conj_if(bool, float x)
{
    return x;
}

__device__ inline double2 conj_if(bool is_conj, double2 x)
{
    return make_double2(x.x, is_conj ? -x.y : x.y);
}

__device__ inline float2 conj_if(bool is_conj, float2 x)
{
    return make_float2(x.x, is_conj ? -x.y : x.y);
}

__device__ inline double from_lane(double x, int lanes)
{
    return x + __shfl_xor_sync(0xffffffffu, x, lanes);
}

__device__ inline float from_lane(float x, int lanes)
{
    return x + __shfl_xor_sync(0xffffffffu, x, lanes);
}

__device__ inline double2 from_lane(double2 x, int lanes)
{
    return make_double2(from_lane(x.x, lanes), from_lane(x.y, lanes));
}

__device__ inline float2 from_lane(float2 x, int lanes)
{
    return make_float2(from_lane(x.x, lanes), from_lane(x.y, lanes));
}

/* This block's part of the inner dimension: whole pieces of b, but for the last. */
__device__ inline void part_of(const gx_cuda_call &p, int64_t *from, int64_t *to)
{
    int64_t pieces = (p.lines + DEPTH - 1) / DEPTH;
    int64_t each = (pieces + p.chunks - 1) / p.chunks * DEPTH;
    *from = (int64_t)blockIdx.y * each;
    *to = *from + each < p.lines ? *from + each : p.lines;
}

/* ---- c = a b -------------------------------------------------------------------------------- */

template <class T, int N> __device__ inline void down_rows(const gx_cuda_call &p)
{
    constexpr int FULL = 16 / (int)sizeof(T), ROWS = N > 8 && FULL > 1 ? FULL / 2 : FULL;
    constexpr int AHEAD = (N > 2 ? 64 : 128) / (ROWS * (int)sizeof(T));
    __shared__ alignas(16) T x[DEPTH][N];
    const T *b = (const T *)p.b;
    int64_t row = (int64_t)blockIdx.x * (THREADS * ROWS) + threadIdx.x, from, to;
    part_of(p, &from, &to);
    const T *a[ROWS];
    T sum[ROWS][N];
#pragma unroll
    for (int r = 0; r < ROWS; r++) { // rows that are not there read the last one
        int64_t i = row + r * THREADS < p.m ? row + r * THREADS : p.m - 1;
        a[r] = (const T *)p.a + from * p.lda + i;
#pragma unroll
        for (int c = 0; c < N; c++) {
            sum[r][c] = T{};
        }
    }
    for (int64_t k = from; k < to; k += DEPTH) {
        int count = to - k < DEPTH ? (int)(to - k) : DEPTH, j = 0;
        __syncthreads();
        for (int e = threadIdx.x; e < DEPTH * N; e += THREADS) {
            int q = e % DEPTH, c = e / DEPTH;
            x[q][c] = q < count && c < p.n ? b[c * p.ldb + k + q] : T{};
        }
        __syncthreads();
        for (; j + AHEAD <= count; j += AHEAD) {
            T value[AHEAD][ROWS];
#pragma unroll
            for (int q = 0; q < AHEAD; q++) {
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    value[q][r] = __ldcs(a[r]);
                    a[r] += p.lda;
                }
            }
#pragma unroll
            for (int q = 0; q < AHEAD; q++) {
#pragma unroll
                for (int c = 0; c < N; c++) {
                    T factor = x[j + q][c];
#pragma unroll
                    for (int r = 0; r < ROWS; r++) {
                        add_product(sum[r][c], value[q][r], factor);
                    }
                }
            }
        }
        for (; j < count; j++) {
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                T value = __ldcs(a[r]);
                a[r] += p.lda;
#pragma unroll
                for (int c = 0; c < N; c++) {
                    add_product(sum[r][c], value, x[j][c]);
                }
            }
        }
    }
    T *out = (T *)(void *)p.partial + (int64_t)blockIdx.y * p.n * p.m;
#pragma unroll
    for (int c = 0; c < N; c++) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (c < p.n && row + r * THREADS < p.m) {
                out[c * p.m + row + r * THREADS] = sum[r][c];
            }
        }
    }
}

/* ---- c = a^T b, a^H b ----------------------------------------------------------------------- */

/* One row of the warp's columns: the products with row q of the piece. */
template <class T, int N, int COLS>
__device__ inline void add_row(T (&sum)[COLS][N], const T (&value)[COLS], const T (*x)[DEPTH],
                               int q)
{
#pragma unroll
    for (int c = 0; c < N; c++) {
        T factor = x[c][q];
#pragma unroll
        for (int w = 0; w < COLS; w++) {
            add_product(sum[w][c], value[w], factor);
        }
    }
}

template <class T, int N> __device__ inline void down_columns(const gx_cuda_call &p)
{
    constexpr int FIT = 64 / (N * (int)(sizeof(T) / 4)), COLS = FIT > 4 ? 4 : FIT < 1 ? 1 : FIT;
    constexpr int AHEAD = 2;
    static_assert(DEPTH % (AHEAD * WARP) == 0, "a piece is whole rounds of a warp");
    __shared__ alignas(16) T x[N][DEPTH];
    const T *b = (const T *)p.b;
    int lane = threadIdx.x % WARP;
    int64_t col = ((int64_t)blockIdx.x * WARPS + threadIdx.x / WARP) * COLS, from, to;
    part_of(p, &from, &to);
    bool is_conj = p.trans == GX_CONJ_TRANS;
    const T *a[COLS];
    T sum[COLS][N];
#pragma unroll
    for (int w = 0; w < COLS; w++) {
        a[w] = (const T *)p.a + (col + w < p.m ? col + w : p.m - 1) * p.lda + lane;
#pragma unroll
        for (int c = 0; c < N; c++) {
            sum[w][c] = T{};
        }
    }
    for (int64_t k = from; k < to; k += DEPTH) {
        int count = to - k < DEPTH ? (int)(to - k) : DEPTH;
        __syncthreads();
        for (int e = threadIdx.x; e < DEPTH * N; e += THREADS) {
            int q = e % DEPTH, c = e / DEPTH;
            x[c][q] = q < count && c < p.n ? b[c * p.ldb + k + q] : T{};
        }
        __syncthreads();
        for (int q = 0; q < DEPTH; q += AHEAD * WARP) {
            T value[AHEAD][COLS];
#pragma unroll
            for (int h = 0; h < AHEAD; h++) {
#pragma unroll
                for (int w = 0; w < COLS; w++) {
                    int at = q + h * WARP;
                    value[h][w] = at + lane < count ? conj_if(is_conj, __ldcs(a[w] + k + at)) : T{};
                }
            }
#pragma unroll
            for (int h = 0; h < AHEAD; h++) {
                add_row<T, N, COLS>(sum, value[h], x, q + h * WARP + lane);
            }
        }
    }
    T *out = (T *)(void *)p.partial + (int64_t)blockIdx.y * p.n * p.m;
#pragma unroll
    for (int w = 0; w < COLS; w++) {
#pragma unroll
        for (int c = 0; c < N; c++) {
#pragma unroll
            for (int lanes = WARP / 2; lanes > 0; lanes /= 2) {
                sum[w][c] = from_lane(sum[w][c], lanes);
            }
            if (lane == 0 && c < p.n && col + w < p.m) {
                out[c * p.m + col + w] = sum[w][c];
            }
        }
    }
}

#define NARROW(N, SUFFIX, T)                                                                       \
    extern "C" __global__ void __launch_bounds__(THREADS)                                          \
        gx_narrow##N##_##SUFFIX(const __grid_constant__ gx_cuda_call p)                            \
    {                                                                                              \
        down_rows<T, N>(p);                                                                        \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS)                                          \
        gx_narrow_t##N##_##SUFFIX(const __grid_constant__ gx_cuda_call p)                          \
    {                                                                                              \
        down_columns<T, N>(p);                                                                     \
    }
#define NARROWS(SUFFIX, T)                                                                         \
    NARROW(1, SUFFIX, T)                                                                           \
    NARROW(2, SUFFIX, T)                                                                           \
    NARROW(4, SUFFIX, T)                                                                           \
    NARROW(8, SUFFIX, T)                                                                           \
    NARROW(16, SUFFIX, T)
NARROWS(f64, double)
NARROWS(f32, float)
NARROWS(c128, double2)
NARROWS(c64, float2)

/* ---- the chunks' sums ----------------------------------------------------------------------- */

/* c = alpha (sum of the chunks) + beta c, m x n. */
template <class T> __device__ inline void narrow_end(const gx_cuda_call &p)
{
    const T *partial = (const T *)(void *)p.partial;
    T *c = (T *)p.c;
    for (int64_t j = blockIdx.y; j < p.n; j += gridDim.y) {
        for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.m;
             i += (int64_t)gridDim.x * blockDim.x) {
            number sum = {0, 0};
            for (int64_t s = 0; s < p.chunks; s++) {
                number x = get(partial, (s * p.n + j) * p.m + i);
                sum.re += x.re;
                sum.im += x.im;
            }
            number value = scaled<T>({p.alpha[0], p.alpha[1]}, sum);
            if (p.beta[0] != 0 || (facts<T>::is_complex && p.beta[1] != 0)) {
                number old = scaled<T>({p.beta[0], p.beta[1]}, get(c, j * p.ldc + i));
                value.re += old.re;
                value.im += old.im;
            }
            put(c, j * p.ldc + i, value);
        }
    }
}
GX_CUDA_KERNELS(gx_narrow_end, narrow_end)
