/*
** Device code: constraints (core/base/constraints.h).
**
** All threads go through the same steps, each for some rows, so that what a step costs beside its
** arithmetic is shared by them; neighbours read neighbouring rows of a column.  Products with a
** power stay 64 bits wide in the sums, three of them before the highest bits are folded down.
*/
#include "cuda_m31.cuh"

constexpr int THREADS = GX_CUDA_COMBINE_THREADS, ROWS = GX_CUDA_COMBINE_ROWS;
constexpr int LANES = THREADS * ROWS;

/*
** Where a thread's rows are, of column 0: now[k] and next[k], the latter in b for bits of in_b.  Of
** a whole block whose next rows are all in a the first ones are enough.
*/
struct places {
    const uint32_t *now[ROWS], *next[ROWS];
    int in_b;
};

__device__ inline places places_of(const gx_cuda_combine &p, int64_t i0)
{
    places at = {};
#pragma unroll
    for (int k = 0; k < ROWS; k++) {
        int64_t row = p.first + min(i0 + k * THREADS, p.m - 1), next = row + p.next;
        at.now[k] = p.a + row;
        at.next[k] = next < p.rows ? p.a + next : p.b + (next - p.rows);
        at.in_b |= next < p.rows ? 0 : 1 << k;
    }
    return at;
}

template <bool IS_WHOLE>
__device__ inline void fetch(const gx_cuda_combine &p, const places &at, const uint32_t *room,
                             uint32_t from, uint32_t number, uint32_t x[ROWS])
{
    uint32_t kind = from >> GX_CONSTRAINT_KIND, index = from & ((1u << GX_CONSTRAINT_KIND) - 1);
    if (kind <= GX_CONSTRAINT_NEXT) {
        bool is_next = kind == GX_CONSTRAINT_NEXT;
        int64_t in_a = index * p.lda, in_b = index * p.ldb;
        const uint32_t *first = (is_next ? at.next[0] : at.now[0]) + in_a;
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            if (IS_WHOLE) {
                x[k] = __ldg(first + k * THREADS);
            } else if (is_next) {
                x[k] = __ldg(at.next[k] + (at.in_b >> k & 1 ? in_b : in_a));
            } else {
                x[k] = __ldg(at.now[k] + in_a);
            }
        }
    } else if (kind == GX_CONSTRAINT_REGISTER) {
        const uint32_t *r = room + index * LANES;
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            x[k] = r[k * THREADS];
        }
    } else {
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            x[k] = number;
        }
    }
}

/* A 64-bit number as a smaller one that is the same modulo 2^31 - 1. */
__device__ inline uint64_t fold(uint64_t x)
{
    return (x & P31) + (x >> 31);
}

/* sum += x times a power; is_third: the sums have had two more already. */
template <int W>
__device__ inline void take(uint4 power, const uint32_t x[ROWS], bool is_third,
                            uint64_t sum[W][ROWS])
{
    const uint32_t t[GX_CONSTRAINT_WIDTH] = {power.x, power.y, power.z, power.w};
#pragma unroll
    for (int w = 0; w < W; w++) {
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            sum[w][k] += (uint64_t)x[k] * t[w];
        }
    }
    if (is_third) {
#pragma unroll
        for (int e = 0; e < W * ROWS; e++) {
            sum[e / ROWS][e % ROWS] = fold(sum[e / ROWS][e % ROWS]);
        }
    }
}

/* x = x op b; each step of a warp is one branch. */
__device__ inline void compute(uint32_t op, uint32_t x[ROWS], const uint32_t b[ROWS])
{
    if (op == GX_CONSTRAINT_MUL) {
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            x[k] = times(x[k], b[k]);
        }
    } else if (op == GX_CONSTRAINT_ADD) {
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            x[k] = plus(x[k], b[k]);
        }
    } else {
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            x[k] = minus(x[k], b[k]);
        }
    }
}

/*
** The steps of a thread's rows from i0 on.  x: the last step's result, which the next one mostly
** wants first, and which then does not wait for shared memory.
*/
template <int W, bool IS_WHOLE>
__device__ inline void combine_rows(const gx_cuda_combine &p, int64_t i0, uint32_t *room)
{
    const uint4 *step = (const uint4 *)p.step, *power = (const uint4 *)p.power;
    places at = places_of(p, i0);
    uint64_t sum[W][ROWS] = {};
    uint4 code = __ldg(step);
    uint32_t x[ROWS] = {}, there = ~0u; // x is the value `there`
    int taken = 0;
    for (int s = 1; s <= p.steps; s++) {
        uint4 now = code;
        code = __ldg(step + (s < p.steps ? s : 0));
        uint32_t op = now.x & 0xffff;
        if (now.y != there) {
            fetch<IS_WHOLE>(p, at, room, now.y, now.w, x);
        }
        if (op == GX_CONSTRAINT_TAKE) {
            taken = taken == 2 ? 0 : taken + 1;
            take<W>(__ldg(power + now.z), x, taken == 0, sum);
            there = now.y >> GX_CONSTRAINT_KIND == GX_CONSTRAINT_NUMBER ? ~0u : now.y;
            continue;
        }
        uint32_t b[ROWS], *c = room + (now.x >> 16) * LANES;
        fetch<IS_WHOLE>(p, at, room, now.z, now.w, b);
        compute(op, x, b);
        there = (uint32_t)GX_CONSTRAINT_REGISTER << GX_CONSTRAINT_KIND | now.x >> 16;
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            c[k * THREADS] = x[k];
        }
    }
#pragma unroll
    for (int k = 0; k < ROWS; k++) {
        for (int w = 0; w < W && i0 + k * THREADS < p.m; w++) {
            uint64_t y = fold(fold(sum[w][k]));
            p.c[w * p.ldc + i0 + k * THREADS] = plus((uint32_t)(y & P31), (uint32_t)(y >> 31));
        }
    }
}

template <int W> __device__ inline void combine(const gx_cuda_combine &p)
{
    extern __shared__ uint32_t room[];
    for (int64_t i = (int64_t)blockIdx.x * LANES; i < p.m; i += (int64_t)gridDim.x * LANES) {
        bool is_whole = i + LANES <= p.m && p.first + i + LANES + p.next <= p.rows;
        if (is_whole) {
            combine_rows<W, true>(p, i + threadIdx.x, room + threadIdx.x);
        } else {
            combine_rows<W, false>(p, i + threadIdx.x, room + threadIdx.x);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gx_combine(const GX_GRID_CONSTANT gx_cuda_combine p)
{
    if (p.width == 1) {
        combine<1>(p);
    } else if (p.width == 2) {
        combine<2>(p);
    } else {
        combine<GX_CONSTRAINT_WIDTH>(p);
    }
}
