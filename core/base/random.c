/*
** Random matrices: see random.h.
**
** Generator.  Philox2x64-10 (J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as
** easy as 1, 2, 3", SC 2011): ten rounds of
**
**     (x0, x1)  ->  (high(x0 * M) ^ key ^ x1, low(x0 * M)),    key += W
**
** turn a counter of two 64-bit words and a 64-bit key into two random words.  It passes TestU01's
** BigCrush, has no state, and costs ten multiplications for two elements.
**
** Counter.  key = seed.  A real element (i, j) takes word i mod 2 of the counter
**
**     x0 = floor(i / 2) + 2^63 [normal],   x1 = j + 2^63 [complex]
**
** and a complex one is the real elements 2i (real part) and 2i + 1 (imaginary part) of that scheme.
** Uniform and normal matrices of one seed are therefore independent, and so are real and complex
** ones.
**
** Uniform.  u = floor(w / 2^11) / 2^53, x = low + (high - low) u, and where that rounds up to high,
** the largest number below.  f32 is the f64 value rounded to nearest, below high again.
**
** Normal.  p = (floor(w / 2^12) + 1/2) / 2^52, exact and symmetric about 1/2; z = the standard
** normal quantile of p by M. Wichura's algorithm AS241 (PPND16, Applied Statistics 37, 1988), about
** 1 part in 10^16; x = mean + deviation z.  |z| is at most 8.21.
**
** The same bits elsewhere.  Everything above is integer arithmetic and +, -, *, /, sqrt in
** binary64, each rounded once, in the order written: no fused multiply-add (C11 mode of gcc does
** not contract; clang is told; CUDA: -fmad=false or the __dmul_rn() family).  The logarithm that
** AS241 needs is not libm's, whose last bit differs from library to library, but minus_log() here,
** made of the same operations.
**
** Work: about 5 ns an element uniform, 12 ns normal, on one core; no memory beyond the stack.
*/
#include "random.h"

#include "random_tables.h"

#include <float.h>
#include <math.h>
#include <string.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

__extension__ typedef unsigned __int128 u128;

static const uint64_t PHILOX_M = 0xD2B74407B1CE6E93u; // from the paper
static const uint64_t PHILOX_W = 0x9E3779B97F4A7C15u; // golden ratio * 2^64
enum { PHILOX_ROUNDS = 10 };

static const uint64_t TAG = (uint64_t)1 << 63;

/* Elements made at a time: fits the first-level cache with all intermediate arrays. */
enum { BLOCK = 128 };

// The generator -----------------------------------------------------------------------------------

/* Two counters at once hide the latency of the multiplications. */
static inline void philox_pair(uint64_t x0, uint64_t x1, uint64_t y0, uint64_t y1, uint64_t key,
                               uint64_t out[4])
{
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        u128 p = (u128)x0 * PHILOX_M, q = (u128)y0 * PHILOX_M;
        x0 = (uint64_t)(p >> 64) ^ key ^ x1;
        y0 = (uint64_t)(q >> 64) ^ key ^ y1;
        x1 = (uint64_t)p;
        y1 = (uint64_t)q;
        key += PHILOX_W;
    }
    out[0] = x0;
    out[1] = x1;
    out[2] = y0;
    out[3] = y1;
}

void gx_philox(const uint64_t counter[2], uint64_t key, uint64_t out[2])
{
    uint64_t x0 = counter[0], x1 = counter[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        u128 p = (u128)x0 * PHILOX_M;
        x0 = (uint64_t)(p >> 64) ^ key ^ x1;
        x1 = (uint64_t)p;
        key += PHILOX_W;
    }
    out[0] = x0;
    out[1] = x1;
}

/* The words of BLOCK elements from the even element e of column j. */
static void make_words(const gx_random *random, int64_t e, int64_t j, uint64_t word[BLOCK])
{
    uint64_t x0 = (uint64_t)e / 2 | (random->kind == GX_RANDOM_NORMAL ? TAG : 0);
    uint64_t x1 = (uint64_t)j | (gx_number_is_complex(random->dtype) ? TAG : 0);
    for (int l = 0; l < BLOCK; l += 4, x0 += 2) {
        philox_pair(x0, x1, x0 + 1, x1, random->seed, word + l);
    }
}

// Uniform -----------------------------------------------------------------------------------------

static void make_uniform(const gx_random *random, const uint64_t word[BLOCK], double x[BLOCK])
{
    for (int l = 0; l < BLOCK; l++) {
        double u = (double)(int64_t)(word[l] >> 11) * 0x1p-53;
        double value = random->offset + random->scale * u;
        x[l] = value < random->largest ? value : random->largest;
    }
}

// Normal ------------------------------------------------------------------------------------------

static const double CENTRAL_MAX = 0.425;

/* Tails are worked on in groups: straight loops that the compiler turns into vector code. */
enum { GROUP = 8 };

/*
** -log(p), 2^-53 <= p < 1/2, to about 1e-16: p = 2^k m with m in [sqrt(1/2), sqrt(2)), and
** log m = 2 atanh(s) = 2s + 2s (s^2/3 + s^4/5 + ...), s = (m - 1) / (m + 1).
** ln 2 is split so that k times its head is exact.
*/
static inline void minus_log(const double p[GROUP], double out[GROUP])
{
    static const double LN2_HEAD = 0x1.62e42feep-1, LN2_TAIL = 0x1.a39ef35793c76p-33;
    double k[GROUP], m[GROUP], s[GROUP], t[GROUP], sum[GROUP];
    for (int l = 0; l < GROUP; l++) {
        uint64_t bits;
        memcpy(&bits, &p[l], sizeof bits);
        k[l] = (double)((int)(bits >> 52) - 1023);
        bits = (bits & 0xFFFFFFFFFFFFFu) | 0x3FF0000000000000u;
        memcpy(&m[l], &bits, sizeof bits);
        double is_high = m[l] > 0x1.6a09e667f3bcdp0 ? 1.0 : 0.0; // sqrt(2)
        m[l] *= 1.0 - 0.5 * is_high;
        k[l] += is_high;
    }
    for (int l = 0; l < GROUP; l++) {
        s[l] = (m[l] - 1.0) / (m[l] + 1.0);
        t[l] = s[l] * s[l];
        sum[l] = series[SERIES - 1];
    }
    for (int c = SERIES - 2; c >= 0; c--) {
        for (int l = 0; l < GROUP; l++) {
            sum[l] = sum[l] * t[l] + series[c];
        }
    }
    for (int l = 0; l < GROUP; l++) {
        double twice = 2.0 * s[l];
        out[l] = -(k[l] * LN2_HEAD + (twice + (twice * (t[l] * sum[l]) + k[l] * LN2_TAIL)));
    }
}

/* The quantiles where |q| = |p - 1/2| > 0.425. */
static inline void tail_quantiles(const double q[GROUP], double z[GROUP])
{
    double p[GROUP], r[GROUP], far[GROUP];
    for (int l = 0; l < GROUP; l++) {
        p[l] = 0.5 - fabs(q[l]); // exact: the smaller of p and 1 - p
    }
    minus_log(p, r);
    for (int l = 0; l < GROUP; l++) {
        r[l] = sqrt(r[l]);
        far[l] = r[l] - 5.0;
    }
    for (int l = 0; l < GROUP; l++) {
        double x = r[l] - 1.6;
        z[l] = copysign(horner(middle_c, x) / horner(middle_d, x), q[l]);
    }
    for (int l = 0; l < GROUP; l++) {
        if (far[l] > 0) {
            z[l] = copysign(horner(far_e, far[l]) / horner(far_f, far[l]), q[l]);
        }
    }
}

static void make_quantiles(const uint64_t word[BLOCK], double z[BLOCK])
{
    double q[BLOCK], tail_q[BLOCK + GROUP], tail_z[GROUP];
    int tail[BLOCK], tails = 0;

    // q = p - 1/2, exact at each step: the top 52 bits as a number in [1, 2), less 3/2 - 2^-53.
    for (int l = 0; l < BLOCK; l++) {
        uint64_t bits = word[l] >> 12 | 0x3FF0000000000000u;
        double f;
        memcpy(&f, &bits, sizeof f);
        q[l] = (f - 1.0 + 0x1p-53) - 0.5;
    }

    // The central formula for all.
    for (int l = 0; l < BLOCK; l++) {
        double r = CENTRAL_MAX * CENTRAL_MAX - q[l] * q[l];
        z[l] = q[l] * horner(central_a, r) / horner(central_b, r);
    }

    // The 15 % outside are gathered and done again.
    for (int l = 0; l < BLOCK; l++) {
        tail[tails] = l;
        tail_q[tails] = q[l];
        tails += fabs(q[l]) > CENTRAL_MAX;
    }
    for (int l = 0; l < GROUP; l++) {
        tail_q[tails + l] = CENTRAL_MAX; // fills up the last group
    }
    for (int t = 0; t < tails; t += GROUP) {
        tail_quantiles(tail_q + t, tail_z);
        for (int l = 0; l < GROUP && t + l < tails; l++) {
            z[tail[t + l]] = tail_z[l];
        }
    }
}

double gx_random_normal_of(uint64_t word)
{
    uint64_t words[BLOCK];
    double z[BLOCK];
    for (int l = 0; l < BLOCK; l++) {
        words[l] = word;
    }
    make_quantiles(words, z);
    return z[0];
}

static void make_normal(const gx_random *random, const uint64_t word[BLOCK], double x[BLOCK])
{
    make_quantiles(word, x);
    if (random->offset != 0 || random->scale != 1) {
        for (int l = 0; l < BLOCK; l++) {
            x[l] = random->offset + random->scale * x[l];
        }
    }
}

// Matrices ----------------------------------------------------------------------------------------

/* count numbers of a column, re and im alternating when dtype is complex, into dst. */
static void put_plain(const double *x, int64_t count, bool is_double, void *dst)
{
    if (is_double) {
        memcpy(dst, x, (size_t)count * sizeof *x);
        return;
    }
    float *out = dst;
    for (int64_t l = 0; l < count; l++) {
        out[l] = (float)x[l];
    }
}

/* count real numbers into a complex column. */
static void put_real_as_complex(const double *x, int64_t count, bool is_double, void *dst)
{
    double *out = dst;
    float *out_single = dst;
    for (int64_t l = 0; l < count; l++) {
        if (is_double) {
            out[2 * l] = x[l];
            out[2 * l + 1] = 0;
        } else {
            out_single[2 * l] = (float)x[l];
            out_single[2 * l + 1] = 0;
        }
    }
}

/* BLOCK words as numbers of random's precision. */
static void make_numbers(const gx_random *random, const uint64_t word[BLOCK], double x[BLOCK])
{
    if (random->kind == GX_RANDOM_NORMAL) {
        make_normal(random, word, x);
    } else {
        make_uniform(random, word, x);
    }
    if (!gx_number_is_double(random->dtype)) {
        for (int l = 0; l < BLOCK; l++) {
            x[l] = (float)x[l];
        }
    }
}

/* Numbers e0 .. e0 + count - 1 of column j into dst, which holds elements of dtype. */
static void make_column(const gx_random *random, int64_t e0, int64_t count, int64_t j,
                        gx_number dtype, void *dst)
{
    bool is_widened = gx_number_is_complex(dtype) && !gx_number_is_complex(random->dtype);
    size_t number_bytes = gx_number_is_double(dtype) ? sizeof(double) : sizeof(float);
    if (is_widened) {
        number_bytes *= 2;
    }
    for (int64_t e = e0 & ~(int64_t)1; e < e0 + count; e += BLOCK) {
        uint64_t word[BLOCK];
        double x[BLOCK];
        make_words(random, e, j, word);
        make_numbers(random, word, x);
        int64_t first = gx_max(e, e0), last = gx_min(e + BLOCK, e0 + count);
        void *out = (char *)dst + (size_t)(first - e0) * number_bytes;
        if (is_widened) {
            put_real_as_complex(x + (first - e), last - first, gx_number_is_double(dtype), out);
        } else {
            put_plain(x + (first - e), last - first, gx_number_is_double(dtype), out);
        }
    }
}

void gx_random_generate(const void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n,
                        gx_number dtype, void *dst, int64_t ld)
{
    const gx_random *random = arg;
    int64_t parts = gx_number_is_complex(random->dtype) ? 2 : 1;
    for (int64_t j = 0; j < n; j++) {
        make_column(random, i0 * parts, m * parts, j0 + j, dtype, gx_at(dst, dtype, ld, 0, j));
    }
}

void gx_random_singles(const gx_random *random, int count, const int64_t *i, const int64_t *j,
                       double *x)
{
    bool is_complex = gx_number_is_complex(random->dtype);
    uint64_t tag0 = random->kind == GX_RANDOM_NORMAL ? TAG : 0, tag1 = is_complex ? TAG : 0;
    uint64_t word[BLOCK] = {0}, out[4];
    double numbers[BLOCK];
    for (int k = 0; k < count; k += 2) {
        int other = k + 1 < count ? k + 1 : k;
        uint64_t x0 = (uint64_t)i[k], y0 = (uint64_t)i[other];
        uint64_t x1 = (uint64_t)j[k] | tag1, y1 = (uint64_t)j[other] | tag1;
        philox_pair((is_complex ? x0 : x0 / 2) | tag0, x1, (is_complex ? y0 : y0 / 2) | tag0, y1,
                    random->seed, out);
        if (is_complex) {
            memcpy(word + 2 * k, out, sizeof out);
        } else {
            word[k] = out[x0 % 2];
            word[k + 1] = out[2 + y0 % 2];
        }
    }
    make_numbers(random, word, numbers);
    memcpy(x, numbers, (size_t)(is_complex ? 2 * count : count) * sizeof *x);
}

// Parameters --------------------------------------------------------------------------------------

/* The largest number of the precision below high, not below low: f32 may have none in between. */
static double largest_below(double high, double low, bool is_double)
{
    if (low == high) {
        return low;
    }
    if (is_double) {
        return nextafter(high, -DBL_MAX);
    }
    float top = (float)high;
    if (top >= high) {
        top = nextafterf(top, -FLT_MAX);
    }
    return fmax(top, (float)low);
}

gx_code gx_random_init(gx_random *random, gx_random_kind kind, gx_number dtype, int64_t seed,
                       double a, double b, gx_err *err)
{
    bool is_normal = kind == GX_RANDOM_NORMAL;
    if (!isfinite(a) || !isfinite(b)) {
        return gx_fail(err, GX_ARG, "%s %g and %s %g must be finite", is_normal ? "mean" : "low", a,
                       is_normal ? "std" : "high", b);
    }
    if (is_normal && b < 0) {
        return gx_fail(err, GX_ARG, "std is %g but must not be negative", b);
    }
    if (!is_normal && a > b) {
        return gx_fail(err, GX_ARG, "low is %g but high is %g", a, b);
    }
    if (!is_normal && !isfinite(b - a)) {
        return gx_fail(err, GX_ARG, "the range from low %g to high %g overflows", a, b);
    }
    *random = (gx_random){
        .kind = kind,
        .dtype = dtype,
        .seed = (uint64_t)seed,
        .offset = a,
        .scale = is_normal ? b : b - a,
        .largest = is_normal ? 0 : largest_below(b, a, gx_number_is_double(dtype)),
    };
    return GX_OK;
}
