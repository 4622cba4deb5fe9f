/*
** Device code: the few columns of a split product in pieces, which cuda_narrow_split.cu multiplies.
**
** For each step of the sum, 64 numbers: two pieces of f16 of each number, their scales, what the
** step is like, and then the numbers themselves, line by line.  All columns have one scale, which
** saves a multiplication of every sum, unless some number would then have too few bits, or the
** scale is so small or large that it times a row's is out of range: then each column has its own.
*/
#ifndef GX_CUDA_NARROW_IMAGE_CUH
#define GX_CUDA_NARROW_IMAGE_CUH

#include "cuda_kernels.h"

#include <cuda_fp16.h>

constexpr int WARP = 32, COLUMNS = GX_CUDA_SPLIT, STEP = GX_CUDA_SPLIT_STEP; // STEP of the sum
constexpr int BATCH = 16, BATCHES = STEP / BATCH;                            // an instruction's
constexpr int PIECE_BYTES = COLUMNS * STEP * 2, PLAIN_BYTES = COLUMNS * STEP * 4;
constexpr int X_BYTES = 17 << 10; // pieces of a step of x, and what follows them
static_assert(2 * STEP == 128 && X_BYTES + PLAIN_BYTES == GX_CUDA_SPLIT_IMAGE, "whole");

constexpr int TOP = 14, BIAS = 127;
constexpr uint32_t LEAST_EXPONENT = 37, MOST_EXPONENT = 217; // with the bias: 2^-90, 2^90
constexpr uint32_t LEAST_SHARED = 107, MOST_SHARED = 167;    // 2^-20, 2^40
constexpr float LEAST = 0x1p-90f, MOST = 0x1p90f, LOW_UNIT = 0x1p-11f;
constexpr uint32_t PAST_HIGH = 0x1fff; // bits that a high piece has no room for
constexpr int LOW_AFTER = 28, UNEVEN_AFTER = 21; // binades below the largest

/*
** What a step of x is like: some column; LONG: some number has more bits than a piece; GRADED:
** columns have scales of their own; ZERO: all.
*/
enum { IS_BAD = 1, IS_LOW = 2, IS_UNEVEN = 4, IS_GRADED = 8, IS_ZERO = 16, IS_LONG = 32 };

/* What follows the pieces of a step of x. */
struct step_end {
    float scale[COLUMNS];
    float shared; // scale, of all columns, unless they are graded
    int32_t flags;
    int32_t unused[2]; // copies are of sixteen bytes
};
constexpr int COPIED = 2 * PIECE_BYTES + sizeof(step_end);
static_assert(COPIED <= X_BYTES && COPIED % 16 == 0, "room");

/* s, and 1 / s, of numbers of which the largest has this exponent. */
__device__ inline float scale_of(uint32_t exponent)
{
    return __uint_as_float((exponent - TOP) << 23);
}

__device__ inline float inverse_of(uint32_t exponent)
{
    return __uint_as_float((2 * BIAS + TOP - exponent) << 23);
}

/*
** Where number k of a step of column c is, of high or low: a column's numbers are side by side, 128
** bytes, in pieces of 16 that change places so that eight columns' pieces are in all banks (the
** instructions call it a swizzle of 128 bytes).  Of a batch, thread t of four has numbers t, t + 4,
** t + 8, t + 12 (is_trans: 4 t to 4 t + 3), where the instructions want 2 t, 2 t + 1, 2 t + 8 and
** 2 t + 9.
*/
__device__ inline int place_of(bool is_trans, int c, int k)
{
    int in = k % BATCH, t = is_trans ? in / 4 : in % 4, e = is_trans ? in % 4 : in / 4;
    int piece = k / BATCH * 2 + e / 2;
    return c * 2 * STEP + (piece ^ c % 8) * 16 + (2 * t + e % 2) * 2;
}

/* Exponents in a column of a step of x. */
struct exponents {
    uint32_t top, least, smallest; // least: of what is not zero
};

/* Of one column, by a warp whose lanes have numbers `lane` and `lane` + 32. */
__device__ inline exponents exponents_of(const float x[2], int n)
{
    int lane = threadIdx.x % WARP;
    exponents e = {0, ~0u, ~0u};
#pragma unroll
    for (int q = 0; q < 2; q++) {
        uint32_t bits = __float_as_uint(x[q]) & 0x7fffffff;
        e.top = max(e.top, bits);
        e.least = bits != 0 ? min(e.least, bits) : e.least;
        e.smallest = lane + q * WARP < n ? min(e.smallest, bits) : e.smallest;
    }
    return {__reduce_max_sync(~0u, e.top) >> 23, __reduce_min_sync(~0u, e.least) >> 23,
            __reduce_min_sync(~0u, e.smallest) >> 23};
}

/* One column of a step of x, whose largest number would have this exponent. */
__device__ inline void put_column(const gx_cuda_narrow &p, char *step, int c, const float x[2],
                                  uint32_t exponent, bool is_bad)
{
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int q = 0; q < 2; q++) {
        float v = is_bad ? 0 : x[q] * inverse_of(exponent);
        __half high = __float2half_rn(v);
        char *to = step + place_of(p.is_trans, c, lane + q * WARP);
        *(__half *)to = high;
        *(__half *)(to + PIECE_BYTES) = __float2half_rn((v - __half2float(high)) / LOW_UNIT);
    }
    if (lane == 0) {
        ((step_end *)(step + 2 * PIECE_BYTES))->scale[c] = scale_of(exponent);
    }
}

/* A thread block a step, of 8 warps; what is past an end is zeros. */
extern "C" __global__ void __launch_bounds__(256)
    gx_narrow_image_f32(const GX_GRID_CONSTANT gx_cuda_narrow p)
{
    constexpr int WARPS = 8, COUNT = COLUMNS / WARPS, LINE = COLUMNS + 1;
    static_assert(STEP == 2 * WARP, "two numbers a lane");
    __shared__ uint32_t flags, top, least;
    __shared__ float plain[STEP * LINE];
    __shared__ __align__(16) char step[COPIED];
    step_end *end = (step_end *)(step + 2 * PIECE_BYTES);
    int64_t k0 = (int64_t)blockIdx.x * STEP;
    int n = (int)min((int64_t)STEP, (p.is_trans ? p.rows : p.cols) - k0);
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    if (threadIdx.x == 0) {
        flags = 0, top = 0, least = ~0u;
    }
    __syncthreads();
    float x[COUNT][2];
    exponents has[COUNT];
#pragma unroll
    for (int i = 0; i < 2 * COUNT; i++) {
        int c = warp + i / 2 * WARPS, k = lane + i % 2 * WARP;
        const float *from = (const float *)p.x + (k0 + k) * p.x_down + c * p.x_across;
        x[i / 2][i % 2] = c < p.few && k < n ? *from : 0;
    }
    uint32_t found = 0;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        int c = warp + i * WARPS;
        exponents &e = has[i];
        e = exponents_of(x[i], n);
        if (e.least <= e.top) { // it is not all zeros
            found |= (e.top > MOST_EXPONENT || e.top < LEAST_EXPONENT ? IS_BAD : 0) |
                     (e.least + LOW_AFTER < e.top ? IS_LOW : 0) |
                     (e.smallest + UNEVEN_AFTER < e.top ? IS_UNEVEN : 0);
            uint32_t bits = __float_as_uint(x[i][0]) | __float_as_uint(x[i][1]);
            found |= __any_sync(~0u, (bits & PAST_HIGH) != 0) ? IS_LONG : 0;
            if (lane == 0) {
                atomicMax(&top, e.top);
                atomicMin(&least, e.least);
            }
        }
        plain[lane * LINE + c] = x[i][0];
        plain[(lane + WARP) * LINE + c] = x[i][1];
    }
    if (lane == 0 && found != 0) {
        atomicOr(&flags, found);
    }
    __syncthreads();
    bool is_zero = least > top;
    bool is_graded =
        !is_zero && (least + LOW_AFTER < top || top < LEAST_SHARED || top > MOST_SHARED);
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const exponents &e = has[i];
        bool is_bad = e.top > MOST_EXPONENT || e.top < LEAST_EXPONENT;
        uint32_t own = is_bad ? BIAS : e.top;
        put_column(p, step, warp + i * WARPS, x[i], is_zero ? BIAS : is_graded ? own : top,
                   is_graded && is_bad);
    }
    if (threadIdx.x == 0) {
        end->shared = scale_of(is_zero || is_graded ? BIAS : top);
        end->flags = flags | (is_graded ? IS_GRADED : 0) | (is_zero ? IS_ZERO : 0);
    }
    __syncthreads();
    char *image = (char *)p.image + (int64_t)blockIdx.x * GX_CUDA_SPLIT_IMAGE;
    for (int i = threadIdx.x; i < COPIED / 16; i += 256) {
        ((float4 *)image)[i] = ((const float4 *)step)[i];
    }
    for (int i = threadIdx.x; i < STEP * COLUMNS / 4; i += 256) {
        const float *from = plain + i / (COLUMNS / 4) * LINE + i % (COLUMNS / 4) * 4;
        ((float4 *)(image + X_BYTES))[i] = make_float4(from[0], from[1], from[2], from[3]);
    }
}

#endif
