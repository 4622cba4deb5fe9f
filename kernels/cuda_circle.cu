/*
** Device code: circle transforms modulo 2^31 - 1 (core/base/circle.h).
**
** A pass takes each element through up to twelve layers while it is in shared memory: the lowest
** layers in tiles of elements that are next to each other, the others in tiles of runs of 32.  So
** 2^26 elements go through the device's memory three times.
*/
#include "cuda_m31.cuh"

constexpr int TILE = GX_CUDA_CIRCLE_TILE, RUN_LOG = 5, GROUP = 16;
static_assert(GX_CUDA_CIRCLE_RUN == 1 << RUN_LOG && GX_CUDA_CIRCLE_THREADS == 1 << 8, "logarithms");

__device__ inline int64_t layer_at(int log, int i)
{
    return ((int64_t)1 << log) - ((int64_t)1 << (log - i));
}

// Twiddles ----------------------------------------------------------------------------------------

struct point {
    uint32_t x, y;
};

__device__ inline point both(point a, uint32_t x, uint32_t y)
{
    return {minus(times(a.x, x), times(a.y, y)), plus(times(a.x, y), times(a.y, x))};
}

/*
** The point with even number 2 h is g times the powers of order 2^(2 + j) for the bits j of h: the
** lowest eight are the thread's, the others the same for all threads of a block.  Blocks of a
** larger transform have at least so many points.
*/
extern "C" __global__ void gx_circle_first(const GX_GRID_CONSTANT gx_cuda_circle p)
{
    int64_t count = p.log >= 2 ? (int64_t)1 << (p.log - 2) : 0, before = p.block * count;
    point low = {p.x[p.whole + 1], p.y[p.whole + 1]};
    for (int j = 0; j < 8 && j < p.log - 2; j++) {
        low = threadIdx.x >> j & 1 ? both(low, p.x[2 + j], p.y[2 + j]) : low;
    }
    if (p.log == 1 && blockIdx.x == 0 && threadIdx.x == 0) {
        p.t[0] = P31 - 1;
    }
    for (int64_t high = blockIdx.x; high << 8 < count; high += gridDim.x) {
        int64_t h = (high << 8) + threadIdx.x;
        point q = low;
        int64_t bits = high + (before >> 8);
        for (int j = 0; bits >> j != 0; j++) {
            if (bits >> j & 1) {
                q = both(q, p.x[10 + j], p.y[10 + j]);
            }
        }
        if (h < count) {
            p.t[2 * h] = q.y;
            p.t[2 * h + 1] = q.y == 0 ? 0 : P31 - q.y;
            p.t[layer_at(p.log, 1) + h] = q.x;
        }
    }
}

/* Twiddle h of layer i is 2 t^2 - 1, i - 1 times, of number h 2^(i - 1) of layer 1. */
extern "C" __global__ void gx_circle_up(const GX_GRID_CONSTANT gx_cuda_circle p)
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
extern "C" __global__ void gx_circle_invert(const GX_GRID_CONSTANT gx_cuda_circle p)
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
        uint32_t inverse = power(product, P31 - 2);
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

__device__ inline void pair(bool is_back, uint32_t &x, uint32_t &y, uint32_t by)
{
    uint32_t v = is_back ? y : times(y, by), rest = minus(x, v);
    x = plus(x, v);
    y = is_back ? times(rest, by) : rest;
}

/*
** Layers `layer` and the next (is_two) of a tile's, whose runs are of 2^run elements; block: the
** bits above the tile's.
*/
template <bool IS_BACK, bool IS_TWO>
__device__ inline void pass_layers(uint32_t *tile, const gx_cuda_circle &p, int layer, int run,
                                   int64_t block)
{
    constexpr int LAYERS = IS_TWO ? 2 : 1;
    const uint32_t *near =
        p.t + layer_at(p.log, p.first + layer) + (block << (p.count - 1 - layer));
    const uint32_t *far = p.t + layer_at(p.log, p.first + layer + 1) +
                          (block << (p.count - 2 - layer >= 0 ? p.count - 2 - layer : 0));
    int apart = 1 << (layer + run);
    for (int b = threadIdx.x; b < 1 << (p.count - LAYERS + run); b += blockDim.x) {
        int lane = b & ((1 << run) - 1), q = b >> run;
        int j = q & ((1 << layer) - 1), g = q >> layer;
        uint32_t *x = tile + (((g << (layer + LAYERS)) + j) << run) + lane;
        uint32_t u = x[0], v = x[apart];
        if (!IS_TWO) {
            pair(IS_BACK, u, v, near[g]);
            x[0] = u;
            x[apart] = v;
            continue;
        }
        uint32_t w = x[2 * apart], z = x[3 * apart], t = far[g];
        if (!IS_BACK) {
            pair(false, u, w, t);
            pair(false, v, z, t);
        }
        pair(IS_BACK, u, v, near[2 * g]);
        pair(IS_BACK, w, z, near[2 * g + 1]);
        if (IS_BACK) {
            pair(true, u, w, t);
            pair(true, v, z, t);
        }
        x[0] = u;
        x[apart] = v;
        x[2 * apart] = w;
        x[3 * apart] = z;
    }
}

template <bool IS_BACK>
__device__ inline void pass_all(uint32_t *tile, const gx_cuda_circle &p, int run, int64_t block)
{
    for (int done = 0; done < p.count;) {
        bool is_two = done + 2 <= p.count;
        int layers = is_two ? 2 : 1, layer = IS_BACK ? done : p.count - done - layers;
        __syncthreads();
        if (is_two) {
            pass_layers<IS_BACK, true>(tile, p, layer, run, block);
        } else {
            pass_layers<IS_BACK, false>(tile, p, layer, run, block);
        }
        done += layers;
    }
}

extern "C" __global__ void gx_circle_pass(const GX_GRID_CONSTANT gx_cuda_circle p)
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
        if (p.is_back) {
            pass_all<true>(tile, p, run, block);
        } else {
            pass_all<false>(tile, p, run, block);
        }
        __syncthreads();
        for (int e = threadIdx.x; e < size; e += blockDim.x) {
            uint32_t x = p.scale == 1 ? tile[e] : times(tile[e], p.scale);
            c[((int64_t)(e >> run) << p.first) + (e & ((1 << run) - 1))] = x;
        }
        __syncthreads();
    }
}

extern "C" __global__ void gx_circle_pair(const GX_GRID_CONSTANT gx_cuda_circle p)
{
    for (int64_t j = blockIdx.y; j < p.n; j += gridDim.y) {
        for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.m;
             i += (int64_t)gridDim.x * blockDim.x) {
            uint32_t x = p.c[j * p.ldc + i], y = p.c2[j * p.ldc2 + i];
            pair(p.is_back, x, y, p.scale);
            p.c[j * p.ldc + i] = x;
            p.c2[j * p.ldc2 + i] = y;
        }
    }
}
