/*
** Device code: circle transforms modulo 2^31 - 1 (core/base/circle.h).
**
** A pass takes each element through up to twelve layers while it is in shared memory: the lowest
** layers in tiles of elements that are next to each other, the others in tiles of runs of 32.  So
** 2^26 elements go through the device's memory three times.
*/
#include "cuda_kernels.h"


constexpr uint32_t P31 = 2147483647u;
constexpr int TILE = GX_CUDA_CIRCLE_TILE, RUN_LOG = 5, GROUP = 16;
static_assert(GX_CUDA_CIRCLE_RUN == 1 << RUN_LOG, "its logarithm");

__device__ inline uint32_t times(uint32_t a, uint32_t b)
{
    uint64_t x = (uint64_t)a * b;
    uint32_t sum = (uint32_t)(x & P31) + (uint32_t)(x >> 31);
    return min(sum, sum - P31);
}

__device__ inline uint32_t plus(uint32_t a, uint32_t b)
{
    uint32_t sum = a + b;
    return min(sum, sum - P31);
}

__device__ inline uint32_t minus(uint32_t a, uint32_t b)
{
    uint32_t rest = a - b;
    return min(rest, rest + P31);
}

__device__ inline int64_t layer_at(int log, int i)
{
    return ((int64_t)1 << log) - ((int64_t)1 << (log - i));
}

// Twiddles ----------------------------------------------------------------------------------------

/* The point with even number 2 h is g times the powers of order 2^(2 + j) for the bits j of h. */
extern "C" __global__ void gx_circle_first(const __grid_constant__ gx_cuda_circle p)
{
    int64_t count = p.log >= 2 ? (int64_t)1 << (p.log - 2) : 0;
    int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (p.log == 1 && thread == 0) {
        p.t[0] = P31 - 1;
    }
    for (int64_t h = thread; h < count; h += (int64_t)gridDim.x * blockDim.x) {
        uint32_t x = p.x[p.log + 1], y = p.y[p.log + 1];
        for (int j = 0; j < p.log - 2; j++) {
            if (h >> j & 1) {
                uint32_t a = p.x[2 + j], b = p.y[2 + j];
                uint32_t next = minus(times(x, a), times(y, b));
                y = plus(times(x, b), times(y, a));
                x = next;
            }
        }
        p.t[2 * h] = y;
        p.t[2 * h + 1] = y == 0 ? 0 : P31 - y;
        p.t[layer_at(p.log, 1) + h] = x;
    }
}

/* Twiddle h of layer i is 2 t^2 - 1, i - 1 times, of number h 2^(i - 1) of layer 1. */
extern "C" __global__ void gx_circle_up(const __grid_constant__ gx_cuda_circle p)
{
    int64_t first = layer_at(p.log, 2), end = ((int64_t)1 << p.log) - 1;
    for (int64_t at = first + (int64_t)blockIdx.x * blockDim.x + threadIdx.x; at < end && p.log > 2;
         at += (int64_t)gridDim.x * blockDim.x) {
        int left = 63 - __clzll(((int64_t)1 << p.log) - 1 - at); // layers above, of this one
        int i = p.log - 1 - left;
        int64_t h = at - layer_at(p.log, i);
        uint32_t t = p.t[layer_at(p.log, 1) + (h << (i - 1))];
        for (int k = 1; k < i; k++) {
            uint32_t square = times(t, t);
            t = minus(plus(square, square), 1);
        }
        p.t[at] = t;
    }
}

/* GROUP of them by one power: their products from the left, and back. */
extern "C" __global__ void gx_circle_invert(const __grid_constant__ gx_cuda_circle p)
{
    int64_t end = ((int64_t)1 << p.log) - 1, threads = (int64_t)gridDim.x * blockDim.x;
    int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (int64_t base = 0; base < end; base += GROUP * threads) {
        uint32_t t[GROUP], left[GROUP], product = 1;
        for (int k = 0; k < GROUP; k++) {
            int64_t at = base + k * threads + thread;
            t[k] = at < end ? p.t[at] : 1;
            left[k] = product;
            product = times(product, t[k]);
        }
        uint32_t power = product, inverse = 1;
        for (uint32_t exponent = P31 - 2; exponent > 0; exponent >>= 1) {
            inverse = exponent & 1 ? times(inverse, power) : inverse;
            power = times(power, power);
        }
        for (int k = GROUP - 1; k >= 0; k--) {
            int64_t at = base + k * threads + thread;
            if (at < end) {
                p.t[at] = times(inverse, left[k]);
            }
            inverse = times(inverse, t[k]);
        }
    }
}

// Passes ------------------------------------------------------------------------------------------

/* Layer `layer` of a tile's, whose runs are of 2^run elements; block: the bits above the tile's. */
__device__ inline void pass_layer(uint32_t *tile, const gx_cuda_circle &p, int layer, int run,
                                  int64_t block)
{
    const uint32_t *t = p.t + layer_at(p.log, p.first + layer) + (block << (p.count - 1 - layer));
    for (int b = threadIdx.x; b < 1 << (p.count - 1 + run); b += blockDim.x) {
        int lane = b & ((1 << run) - 1), q = b >> run;
        int j = q & ((1 << layer) - 1), g = q >> layer;
        uint32_t *x = tile + (((g << (layer + 1)) + j) << run) + lane;
        uint32_t *y = x + (1 << (layer + run));
        uint32_t by = t[g], u = *x, v = p.is_back ? *y : times(*y, by), rest = minus(u, v);
        *x = plus(u, v);
        *y = p.is_back ? times(rest, by) : rest;
    }
}

extern "C" __global__ void gx_circle_pass(const __grid_constant__ gx_cuda_circle p)
{
    __shared__ uint32_t tile[TILE];
    int run = p.first == 0 ? 0 : RUN_LOG, size = 1 << (p.count + run);
    int64_t chunks = p.first == 0 ? 1 : (int64_t)1 << (p.first - run);
    int64_t block = (int64_t)blockIdx.x / chunks, chunk = (int64_t)blockIdx.x % chunks;
    int64_t base = (block << (p.first + p.count)) + (chunk << run);
    for (int64_t column = blockIdx.y; column < p.n; column += gridDim.y) {
        uint32_t *c = p.c + column * p.ldc + base;
        for (int e = threadIdx.x; e < size; e += blockDim.x) {
            tile[e] = c[((int64_t)(e >> run) << p.first) + (e & ((1 << run) - 1))];
        }
        for (int k = 0; k < p.count; k++) {
            __syncthreads();
            pass_layer(tile, p, p.is_back ? k : p.count - 1 - k, run, block);
        }
        __syncthreads();
        for (int e = threadIdx.x; e < size; e += blockDim.x) {
            uint32_t x = p.scale == 1 ? tile[e] : times(tile[e], p.scale);
            c[((int64_t)(e >> run) << p.first) + (e & ((1 << run) - 1))] = x;
        }
        __syncthreads();
    }
}
