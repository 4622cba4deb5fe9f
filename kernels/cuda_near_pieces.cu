/*
** Device code: rows and queries for products by tensor cores that foretell merits of f32.
**
** Tensor cores multiply f16, of 11 bits, many times as fast as f32 units multiply f32.  So a number
** is high + low, high the nearest f16 and low the f16 of what is missing, and x . y is the sum of
** high high', low high' and high low': one product of rows three times as long,
**
**   of a row      high  low   high
**   of a query    high' high' low'
**
** Where all numbers of rows are those of f16, bf16 or of bytes, as the caller says, low is 0, and
** is left out with the high' that it meets.
**
** Rows and queries are multiplied by powers of two, by which the values are divided when they are
** looked at: the largest number of each is then 2^14 or a little more.
**
** Why foretell.h's bounds hold, in units of |x| |y|:
**
**   pieces   high + low is within 2^-22 of a number, on both sides, and low low', which is left
**            out, is 2^-22 at most; of a number that is less than 2^-17 of the largest low may be
**            below f16's normal range, and is wrong by 2^-39 of the largest: 2^-32 for 2^14 numbers
**   sums     tensor cores add sixteen products to a sum at a time and cut off what is less than
**            2^-25 of the largest of these: 3 k / 16 times 17 2^-25, 0.8 k 2^-23
**
** With two roundings of the values that is less than (k + 8) 2^-23, which gx_unit_of() allows.
*/
#include "cuda_near.cuh"

#include <cuda_fp16.h>

enum { WARP = 32, SLICES = GX_CUDA_NEAR_SLICES, THREADS = 256 };

/* The power of two that brings a number to 2^14 or a little more; of what is extreme any. */
__device__ inline float scale_of(float most)
{
    const int TOP = 14, LIMIT = 100;
    int exponent = (int)(__float_as_uint(most) >> 23) - 127;
    exponent = exponent > LIMIT ? LIMIT : exponent < -LIMIT ? -LIMIT : exponent;
    return __uint_as_float((unsigned)(TOP - exponent + 127) << 23);
}

__device__ inline void split(float x, __half &high, __half &low)
{
    high = __float2half_rn(x);
    low = __float2half_rn(x - __half2float(high));
}

/* Number l of row i; *wide: without the shift. */
__device__ inline float number_of(const gx_cuda_near &p, int64_t i, int64_t l, double &wide)
{
    float x = ((const float *)p.a)[p.i0 + i + l * p.lda];
    wide = (double)x;
    if (p.is_shifted != 0) {
        wide -= (double)((const float *)p.shift)[l];
    }
    return x;
}

/*
** A warp is 32 rows; SLICES of them share the columns.  Numbers are read once more, from a cache:
** that is why a few large thread blocks have few rows on the way.
*/
__device__ inline void near_pieces(const gx_cuda_near &p)
{
    __shared__ float most[SLICES][WARP], odd[SLICES][WARP];
    __shared__ double square[SLICES][WARP];
    int64_t i = (int64_t)blockIdx.x * WARP + threadIdx.x, from = i < p.rows ? i : 0;
    int t = threadIdx.x, slice = threadIdx.y;
    float own_most = 0, own_odd = 0;
    double own_square = 0, wide;
#pragma unroll 8
    for (int64_t l = slice; l < p.k; l += SLICES) {
        own_odd += number_of(p, from, l, wide) * 0.0f;
        own_square = __fma_rn(wide, wide, own_square);
        own_most = fmaxf(own_most, fabsf((float)wide));
    }
    most[slice][t] = own_most;
    odd[slice][t] = own_odd;
    square[slice][t] = own_square;
    __syncthreads();
    for (int s = 0; s < SLICES; s++) {
        own_most = fmaxf(own_most, most[s][t]);
    }
    bool is_row = i < p.rows;
    float scale = scale_of(own_most);
    __half *piece = (__half *)p.pieces + i;
    int64_t next = p.deep * p.ldp;
#pragma unroll 8
    for (int64_t l = slice; l < p.deep && is_row; l += SLICES) {
        __half high, low;
        if (l < p.k) {
            number_of(p, i, l, wide);
        }
        split(l < p.k ? (float)wide * scale : 0.0f, high, low);
        piece[l * p.ldp] = high;
        piece[l * p.ldp + (p.parts - 1) * next] = high;
        if (p.parts == 3) {
            piece[l * p.ldp + next] = low;
        }
    }
    if (slice > 0) {
        return;
    }
    for (int s = 1; s < SLICES; s++) {
        own_odd += odd[s][t];
        own_square += square[s][t];
    }
    double longest = 0;
    if (is_row) {
        p.row_scale[i] = 1 / scale;
        longest = keep_row<float>(p, i, own_odd, own_square);
    }
    keep_longest(p, longest);
}

/* A thread block a query. */
__device__ inline void near_image(const gx_cuda_near &p)
{
    __shared__ float most[THREADS / WARP];
    int64_t j = blockIdx.x;
    const float *b = (const float *)p.b + j * p.ldb;
    float own = 0;
    for (int64_t l = threadIdx.x; l < p.k; l += THREADS) {
        own = fmaxf(own, fabsf(b[l]));
    }
    for (int step = WARP / 2; step > 0; step /= 2) {
        own = fmaxf(own, __shfl_xor_sync(~0u, own, step));
    }
    if (threadIdx.x % WARP == 0) {
        most[threadIdx.x / WARP] = own;
    }
    __syncthreads();
    for (int w = 0; w < THREADS / WARP; w++) {
        own = fmaxf(own, most[w]);
    }
    float scale = scale_of(own);
    __half *piece = (__half *)p.image + j * p.parts * p.deep;
    for (int64_t l = threadIdx.x; l < p.deep; l += THREADS) {
        __half high, low;
        split(l < p.k ? b[l] * scale : 0.0f, high, low);
        piece[l] = high;
        piece[l + (p.parts - 2) * p.deep] = high;
        piece[l + (p.parts - 1) * p.deep] = low;
    }
    if (threadIdx.x == 0) {
        p.b_scale[j] = 1 / scale;
    }
}

// By name -----------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(WARP *SLICES)
    gx_near_pieces_f32(const GX_GRID_CONSTANT gx_cuda_near p)
{
    near_pieces(p);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gx_near_image_f32(const GX_GRID_CONSTANT gx_cuda_near p)
{
    near_image(p);
}
