/*
** Device code: products of a large matrix with a few columns, and sums of partial results.
**
** Such a product waits for memory: the matrix is read once, sixteen bytes a load where its columns
** are aligned to that, and used for all FEW columns of x, which are in shared memory.  The sum is
** cut into parts, a thread block of 8 warps each (by the other side), whose results gx_parts adds
** up: the same bits on every run.
**
**   gx_narrow plain   a warp's lanes have 4 rows each; two warps share the columns, and their sums
**                     meet in shared memory.
**   gx_narrow dot     (is_trans) a warp has 4 columns at a time and its lanes go down the rows;
**                     the lanes' 4 FEW sums meet in 31 exchanges, which leave one sum a lane.
**
** Nothing that is padding is multiplied with anything of the matrix: 0 times Inf is not 0.
*/
#include "cuda_element.cuh"

constexpr int WARP = 32, WARPS = 8, THREADS = WARP * WARPS, ROWS = 4 * WARP;
constexpr int AHEAD = 8; // columns whose loads are under way
constexpr int ROOM = 8192;

/* FEW numbers side by side, loaded at once. */
template <int FEW> struct alignas(FEW < 4 ? 4 * FEW : 16) line {
    float at[FEW];
};

struct four {
    float at[4];
};

/* Elements of a column from `at` on: side by side (V 4), or a warp apart (V 1). */
template <int V> __device__ inline four load(const float *column, const int64_t at[4])
{
    if constexpr (V == 4) {
        float4 e = __ldcs((const float4 *)(column + at[0]));
        return {e.x, e.y, e.z, e.w};
    } else {
        return {__ldcs(column + at[0]), __ldcs(column + at[1]), __ldcs(column + at[2]),
                __ldcs(column + at[3])};
    }
}

template <int V> __device__ inline int offset(int lane, int e)
{
    return V == 4 ? 4 * lane + e : lane + WARP * e;
}

/* Number k of column r of x; 0 in a column that is not there. */
__device__ inline float from_x(const gx_cuda_narrow &p, int64_t k, int r)
{
    const float *x = (const float *)p.x;
    return r < p.few ? x[k * p.x_down + r * p.x_across] : 0;
}

// Plain -------------------------------------------------------------------------------------------

/* What a warp's lanes have of 4 rows each, before another warp's is added and after. */
template <int FEW, int V>
__device__ inline void put_aside(float *room, int lane, const float sum[4][FEW])
{
#pragma unroll
    for (int r = 0; r < FEW; r++) {
        if constexpr (V == 4) {
            float4 e = {sum[0][r], sum[1][r], sum[2][r], sum[3][r]};
            *(float4 *)(room + r * ROWS + 4 * lane) = e;
        } else {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                room[r * ROWS + offset<V>(lane, e)] = sum[e][r];
            }
        }
    }
}

template <int FEW, int V>
__device__ inline void put_out(const gx_cuda_narrow &p, const float *room, int lane, int64_t i0,
                               const float sum[4][FEW])
{
    float *out = (float *)p.partial + (int64_t)blockIdx.y * p.few * p.rows + i0;
#pragma unroll
    for (int r = 0; r < FEW; r++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int at = offset<V>(lane, e);
            if (r < p.few && i0 + at < p.rows) {
                out[r * p.rows + at] = sum[e][r] + room[r * ROWS + at];
            }
        }
    }
}

/* Four warps have rows of their own, two share the columns. */
template <int FEW, int V> __device__ inline void plain(const gx_cuda_narrow &p, float *room)
{
    constexpr int GROUPS = WARPS / 2;
    int lane = threadIdx.x % WARP, group = threadIdx.x / WARP % GROUPS;
    bool is_second = threadIdx.x / WARP >= GROUPS;
    int64_t i0 = ((int64_t)blockIdx.x * GROUPS + group) * ROWS, k0 = blockIdx.y * p.chunk;
    int n = (int)min(p.chunk, p.cols - k0);
    for (int k = threadIdx.x; k < n; k += THREADS) {
        line<FEW> xs;
#pragma unroll
        for (int r = 0; r < FEW; r++) {
            xs.at[r] = from_x(p, k0 + k, r);
        }
        ((line<FEW> *)room)[k] = xs;
    }
    __syncthreads();
    int64_t at[4]; // rows past the end read the last ones again, and are dropped
    for (int e = 0; e < 4; e++) {
        int64_t last = V == 4 ? p.rows - 4 + e : p.rows - 1;
        at[e] = min(i0 + offset<V>(lane, e), last);
    }
    const line<FEW> *x = (const line<FEW> *)room;
    int half = (n / 2 + AHEAD - 1) / AHEAD * AHEAD, k = is_second ? min(half, n) : 0;
    int end = is_second ? n : min(half, n);
    const float *s = (const float *)p.s + (k0 + k) * p.lds;
    float sum[4][FEW] = {};
    for (; k + AHEAD <= end; k += AHEAD) {
        four v[AHEAD];
#pragma unroll
        for (int c = 0; c < AHEAD; c++) {
            v[c] = load<V>(s, at);
            s += p.lds;
        }
#pragma unroll
        for (int c = 0; c < AHEAD; c++) {
            line<FEW> xs = x[k + c];
#pragma unroll
            for (int e = 0; e < 4; e++) {
#pragma unroll
                for (int r = 0; r < FEW; r++) {
                    sum[e][r] = fmaf(v[c].at[e], xs.at[r], sum[e][r]);
                }
            }
        }
    }
    for (; k < end; k++, s += p.lds) {
        four v = load<V>(s, at);
        line<FEW> xs = x[k];
#pragma unroll
        for (int e = 0; e < 4; e++) {
#pragma unroll
            for (int r = 0; r < FEW; r++) {
                sum[e][r] = fmaf(v.at[e], xs.at[r], sum[e][r]);
            }
        }
    }
    __syncthreads(); // nobody needs x any more
    if (is_second) {
        put_aside<FEW, V>(room + group * FEW * ROWS, lane, sum);
    }
    __syncthreads();
    if (!is_second) {
        put_out<FEW, V>(p, room + group * FEW * ROWS, lane, i0, sum);
    }
}

// Dot ---------------------------------------------------------------------------------------------

/* Half of the sums change sides, between lanes APART: known sizes alone keep them in registers. */
template <int HALF, int APART> __device__ inline void meet_halves(float *sum, int lane)
{
    if constexpr (HALF > 0) {
        bool is_upper = (lane & APART) != 0;
#pragma unroll
        for (int i = 0; i < HALF; i++) {
            float low = sum[i], high = sum[i + HALF];
            float keep = is_upper ? high : low;
            sum[i] = keep + __shfl_xor_sync(~0u, is_upper ? low : high, APART);
        }
    } else {
        sum[0] += __shfl_xor_sync(~0u, sum[0], APART);
    }
    if constexpr (APART > 1) {
        meet_halves<HALF / 2, APART / 2>(sum, lane);
    }
}

/* Of COUNT sums in each lane: lane l has the warp's sum number l / (32 / COUNT). */
template <int COUNT> __device__ inline float meet(float *sum, int lane)
{
    meet_halves<COUNT / 2, WARP / 2>(sum, lane);
    return sum[0];
}

template <int FEW, int V> __device__ inline void dot(const gx_cuda_narrow &p, float *room)
{
    constexpr int COLUMNS = 4, LENGTH = ROOM / 8, COUNT = COLUMNS * FEW;
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int64_t k0 = blockIdx.y * p.chunk, c0 = blockIdx.x * p.span;
    int64_t c1 = min(c0 + p.span, p.cols);
    int n = (int)min(p.chunk, p.rows - k0), padded = (n + ROWS - 1) / ROWS * ROWS;
    if (V == 4 && p.is_even) { // as s is: n is a multiple of four
        for (int k = 4 * threadIdx.x; k < padded; k += 4 * THREADS) {
#pragma unroll
            for (int r = 0; r < FEW; r++) {
                const float *x = (const float *)p.x + r * p.x_across + k0 + k;
                float4 none = {0, 0, 0, 0};
                *(float4 *)(room + r * LENGTH + k) =
                    k < n && r < p.few ? *(const float4 *)x : none;
            }
        }
    } else {
        for (int k = threadIdx.x; k < padded; k += THREADS) {
#pragma unroll
            for (int r = 0; r < FEW; r++) {
                room[r * LENGTH + k] = k < n ? from_x(p, k0 + k, r) : 0;
            }
        }
    }
    __syncthreads();
    for (int64_t c = c0 + warp * COLUMNS; c < c1; c += WARPS * COLUMNS) {
        const float *s[COLUMNS]; // columns past the end are the last one again, and dropped
#pragma unroll
        for (int q = 0; q < COLUMNS; q++) {
            s[q] = (const float *)p.s + min(c + q, c1 - 1) * p.lds + k0;
        }
        float sum[COUNT] = {};
#pragma unroll 2
        for (int i = 0; i < padded; i += ROWS) {
            int64_t at[4];
            bool is_there[4];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                at[e] = i + offset<V>(lane, e);
                is_there[e] = at[e] < n;
                at[e] = V == 4 || is_there[e] ? at[e] : 0;
            }
            four v[COLUMNS];
#pragma unroll
            for (int q = 0; q < COLUMNS; q++) {
                v[q] = V == 1 || is_there[0] ? load<V>(s[q], at) : four{};
            }
#pragma unroll
            for (int r = 0; r < FEW; r++) {
                four x;
                if constexpr (V == 4) {
                    float4 e = *(const float4 *)(room + r * LENGTH + i + 4 * lane);
                    x = {e.x, e.y, e.z, e.w};
                } else {
                    for (int e = 0; e < 4; e++) {
                        x.at[e] = room[r * LENGTH + i + offset<V>(lane, e)];
                    }
                }
#pragma unroll
                for (int q = 0; q < COLUMNS; q++) {
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        float a = V == 1 && !is_there[e] ? 0 : v[q].at[e];
                        sum[q * FEW + r] = fmaf(a, x.at[e], sum[q * FEW + r]);
                    }
                }
            }
        }
        float total = meet<COUNT>(sum, lane);
        int which = lane / (WARP / COUNT), q = which / FEW, r = which % FEW;
        if (lane % (WARP / COUNT) == 0 && c + q < c1 && r < p.few) {
            ((float *)p.partial)[((int64_t)blockIdx.y * p.few + r) * p.cols + c + q] = total;
        }
    }
}

template <int FEW> __device__ inline void narrow(const gx_cuda_narrow &p, float *room)
{
    if (p.is_trans) {
        p.is_aligned ? dot<FEW, 4>(p, room) : dot<FEW, 1>(p, room);
    } else {
        p.is_aligned ? plain<FEW, 4>(p, room) : plain<FEW, 1>(p, room);
    }
}

extern "C" __global__ void __launch_bounds__(256, 2)
    gx_narrow(const __grid_constant__ gx_cuda_narrow p)
{
    __shared__ __align__(16) float room[ROOM];
    if (p.few == 1) {
        narrow<1>(p, room);
    } else if (p.few == 2) {
        narrow<2>(p, room);
    } else if (p.few <= 4) {
        narrow<4>(p, room);
    } else {
        narrow<8>(p, room);
    }
}

// Sums of parts -----------------------------------------------------------------------------------

template <class T> __device__ inline void parts(const gx_cuda_call &p)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    number alpha = {p.alpha[0], p.alpha[1]}, beta = {p.beta[0], p.beta[1]};
    for (int64_t j = blockIdx.y; j < p.n && i < p.m; j += gridDim.y) {
        if (p.part != GX_CUDA_ALL && !in_triangle(p.uplo, i, j)) {
            continue;
        }
        number sum = {0, 0};
#pragma unroll 8
        for (int64_t t = 0; t < p.chunks; t++) {
            number x = get((const T *)p.a + t * p.lines, j * p.lda + i);
            sum = {sum.re + x.re, sum.im + x.im};
        }
        int64_t at = p.trans == GX_NO_TRANS ? j * p.ldc + i : i * p.ldc + j;
        sum = scaled<T>(alpha, sum);
        if (beta.re != 0 || beta.im != 0) {
            number c = scaled<T>(beta, get((const T *)p.c, at));
            sum = {sum.re + c.re, sum.im + c.im};
        }
        if (p.part == GX_CUDA_REAL_DIAGONAL && i == j) {
            sum.im = 0;
        }
        put((T *)p.c, at, sum);
    }
}
GX_CUDA_KERNELS(gx_parts, parts)
