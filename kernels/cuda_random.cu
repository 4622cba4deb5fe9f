/*
** Device code: random numbers, the same bits as core/base/random.c makes.
**
** A thread turns one counter of Philox2x64-10 into two numbers of a column.  Formulas, constants
** and the order of operations are those of random.c, which names their sources; nothing is
** contracted (-fmad=false), and the square root and the quotients are correctly rounded.
*/
#include "cuda_element.cuh"

constexpr uint64_t PHILOX_M = 0xD2B74407B1CE6E93u, PHILOX_W = 0x9E3779B97F4A7C15u;
constexpr uint64_t TAG = (uint64_t)1 << 63;
constexpr int PHILOX_ROUNDS = 10, SERIES = 12;
constexpr int NORMAL = 1; // GX_RANDOM_NORMAL

__constant__ double central_a[8] = {3.3871328727963666080e0, 1.3314166789178437745e2,
                                    1.9715909503065514427e3, 1.3731693765509461125e4,
                                    4.5921953931549871457e4, 6.7265770927008700853e4,
                                    3.3430575583588128105e4, 2.5090809287301226727e3};
__constant__ double central_b[8] = {1.0,
                                    4.2313330701600911252e1,
                                    6.8718700749205790830e2,
                                    5.3941960214247511077e3,
                                    2.1213794301586595867e4,
                                    3.9307895800092710610e4,
                                    2.8729085735721942674e4,
                                    5.2264952788528545610e3};
__constant__ double middle_c[8] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                   5.76949722146069140550e0,  3.64784832476320460504e0,
                                   1.27045825245236838258e0,  2.41780725177450611770e-1,
                                   2.27238449892691845833e-2, 7.74545014278341407640e-4};
__constant__ double middle_d[8] = {1.0,
                                   2.05319162663775882187e0,
                                   1.67638483018380384940e0,
                                   6.89767334985100004550e-1,
                                   1.48103976427480074590e-1,
                                   1.51986665636164571966e-2,
                                   5.47593808499534494600e-4,
                                   1.05075007164441684324e-9};
__constant__ double far_e[8] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                1.78482653991729133580e0,  2.96560571828504891230e-1,
                                2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                2.71155556874348757815e-5, 2.01033439929228813265e-7};
__constant__ double far_f[8] = {1.0,
                                5.99832206555887937690e-1,
                                1.36929880922735805310e-1,
                                1.48753612908506148525e-2,
                                7.86869131145613259100e-4,
                                1.84631831751005468180e-5,
                                1.42151175831644588870e-7,
                                2.04426310338993978564e-15};
__constant__ double series[SERIES] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11, 1.0 / 13,
                                      1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23, 1.0 / 25};

// Normal ------------------------------------------------------------------------------------------

__device__ inline double horner(const double c[8], double r)
{
    return ((((((c[7] * r + c[6]) * r + c[5]) * r + c[4]) * r + c[3]) * r + c[2]) * r + c[1]) * r +
           c[0];
}

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

extern "C" __global__ void gx_random(const __grid_constant__ gx_cuda_random p)
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
