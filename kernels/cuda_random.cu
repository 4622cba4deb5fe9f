/*
** Device code: random numbers, the same bits as core/base/random.c makes.
**
** A thread turns one counter of Philox2x64-10 into two numbers of a column.  Formulas, constants
** and the order of operations are those of random.c, which names their sources; nothing is
** contracted (-fmad=false), and the square root and the quotients are correctly rounded.
*/
#include "cuda_element.cuh"

#include "../core/base/random_tables.h"

constexpr uint64_t PHILOX_M = 0xD2B74407B1CE6E93u, PHILOX_W = 0x9E3779B97F4A7C15u;
constexpr uint64_t TAG = (uint64_t)1 << 63;
constexpr int PHILOX_ROUNDS = 10;
constexpr int NORMAL = 1; // GX_RANDOM_NORMAL

// Normal ------------------------------------------------------------------------------------------

__device__ inline double minus_log(double p)
{
    constexpr double LN2_HEAD = 0x1.62e42feep-1, LN2_TAIL = 0x1.a39ef35793c76p-33;
    int64_t bits = __double_as_longlong(p);
    double k = (double)((int)(bits >> 52) - 1023);
    double m = __longlong_as_double((bits & 0xFFFFFFFFFFFFFll) | 0x3FF0000000000000ll);
    double is_high = m > 0x1.6a09e667f3bcdp0 ? 1.0 : 0.0;
    m *= 1.0 - 0.5 * is_high;
    k += is_high;
    double s = (m - 1.0) / (m + 1.0), t = s * s, sum = series[SERIES - 1];
    for (int c = SERIES - 2; c >= 0; c--) {
        sum = sum * t + series[c];
    }
    double twice = 2.0 * s;
    return -(k * LN2_HEAD + (twice + (twice * (t * sum) + k * LN2_TAIL)));
}

__device__ inline double quantile(uint64_t word)
{
    double f = __longlong_as_double((long long)(word >> 12 | 0x3FF0000000000000u));
    double q = (f - 1.0 + 0x1p-53) - 0.5;
    if (fabs(q) <= 0.425) {
        double r = 0.425 * 0.425 - q * q;
        return q * horner(central_a, r) / horner(central_b, r);
    }
    double r = sqrt(minus_log(0.5 - fabs(q))), far = r - 5.0, x = r - 1.6;
    return far > 0 ? copysign(horner(far_e, far) / horner(far_f, far), q)
                   : copysign(horner(middle_c, x) / horner(middle_d, x), q);
}

// Matrices ----------------------------------------------------------------------------------------

__device__ inline double number_of(const gx_cuda_random &p, uint64_t word)
{
    double value;
    if (p.kind == NORMAL) {
        value = quantile(word);
        if (p.offset != 0 || p.scale != 1) {
            value = p.offset + p.scale * value;
        }
    } else {
        double u = (double)(int64_t)(word >> 11) * 0x1p-53;
        value = p.offset + p.scale * u;
        value = value < p.largest ? value : p.largest;
    }
    return p.dtype == GX_F64 || p.dtype == GX_C128 ? value : (double)(float)value;
}

/* Number e of column j (a complex element is two of them) to where it belongs. */
__device__ inline void put_number(const gx_cuda_random &p, int64_t e, int64_t j, double value)
{
    bool is_complex = p.to == GX_C128 || p.to == GX_C64;
    bool is_pair = p.dtype == GX_C128 || p.dtype == GX_C64, is_double = p.to <= 2 && p.to != GX_F32;
    int64_t parts = is_complex ? 2 : 1;
    int64_t at = parts * j * p.ldc + (is_complex && !is_pair ? 2 * e : e);
    for (int64_t q = 0; q < (is_complex && !is_pair ? 2 : 1); q++) {
        double part = q == 0 ? value : 0;
        if (is_double) {
            ((double *)p.c)[at + q] = part;
        } else {
            ((float *)p.c)[at + q] = (float)part;
        }
    }
}

extern "C" __global__ void gx_random(const GX_GRID_CONSTANT gx_cuda_random p)
{
    bool is_pair = p.dtype == GX_C128 || p.dtype == GX_C64;
    int64_t parts = is_pair ? 2 : 1, e0 = p.i0 * parts, e1 = e0 + p.m * parts;
    uint64_t tag0 = p.kind == NORMAL ? TAG : 0, tag1 = is_pair ? TAG : 0;
    for (int64_t j = blockIdx.y; j < p.n; j += gridDim.y) {
        for (int64_t h = e0 / 2 + (int64_t)blockIdx.x * blockDim.x + threadIdx.x; 2 * h < e1;
             h += (int64_t)gridDim.x * blockDim.x) {
            uint64_t x0 = (uint64_t)h | tag0, x1 = (uint64_t)(p.j0 + j) | tag1, key = p.seed;
            for (int round = 0; round < PHILOX_ROUNDS; round++) {
                uint64_t high = __umul64hi(x0, PHILOX_M), low = x0 * PHILOX_M;
                x0 = high ^ key ^ x1;
                x1 = low;
                key += PHILOX_W;
            }
            uint64_t word[2] = {x0, x1};
            for (int q = 0; q < 2; q++) {
                int64_t e = 2 * h + q;
                if (e >= e0 && e < e1) {
                    put_number(p, e - e0, j, number_of(p, word[q]));
                }
            }
        }
    }
}
