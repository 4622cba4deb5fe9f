/*
** Device code: products of a large f32 matrix with 17 to 64 columns by tensor cores, for Hopper.
**
** Such a product waits for memory, if the arithmetic is there: 128 flops to four bytes is more than
** f32 units do while memory brings them.  Tensor cores multiply f16, of 11 bits.  So a number a is
** taken as s (high + low / 2^11), s a power of two, high the nearest f16 to a / s and low what is
** missing of it; and the sum of high low' + low high' + high high' has what f32 products have
** (decision 047):
**
**   scales   one for a row of the matrix, or a column of x, and a step of the sum, STEP numbers:
**            the largest of them is near 2^TOP.  What is up to 2^28 smaller has 22 bits, what is
**            smaller yet has an error of 2^-51 of the largest.
**   errors   an operand's 2^-23 of it, and low low', at most 2^-22 of the product, that is left
**            out.  Where tensor cores add they cut off, always towards zero: so after one or two
**            of their steps what they have is added to a sum in f32, which rounds.
**   apart    rows of a step whose sum may depend on numbers of fewer bits are multiplied in f32,
**            number by number (multiply_apart): where small ones of the matrix may meet the large
**            ones of x and the other way round, or something is not finite or near the ends of
**            f32's range.  That is twenty times slower, for a warp's 16 rows and one step.
**
** x comes in pieces already (gx_narrow_image), a step's in one copy to shared memory.  A group of
** four warps has 64 rows of the result.  What of the matrix meets them is copied to shared memory a
** step ahead, in runs of 256 bytes; each thread takes from there what the instructions want of it.
** A thread block has as many steps as every other one, from wherever the one before it ends; what
** it has of rows whose steps several blocks share is a part, which gx_parts adds up.
*/
#include "cuda_kernels.h"

#if defined __CUDA_ARCH_FEAT_SM90_ALL || !defined __CUDA_ARCH__

#include <cuda_fp16.h>

constexpr int THREADS = GX_CUDA_SPLIT_THREADS, WARP = 32, GROUP = 4 * WARP,
              GROUPS = THREADS / GROUP, ROWS = 64;                // of a group
constexpr int COLUMNS = GX_CUDA_SPLIT, STEP = GX_CUDA_SPLIT_STEP; // STEP of the sum
constexpr int BATCH = 16, BATCHES = STEP / BATCH;                 // of it: an instruction's
constexpr int EACH = STEP / 4;                                    // a thread's of a row
constexpr int DEEP = 2, X_DEEP = 4;                               // steps in shared memory
constexpr int PIECE_BYTES = COLUMNS * STEP * 2, STEP_BYTES = ROWS * STEP * 4;
constexpr int X_BYTES = GX_CUDA_SPLIT_IMAGE;
static_assert(GROUPS * ROWS == GX_CUDA_SPLIT_ROWS && 2 * STEP == 128 &&
                  X_DEEP * X_BYTES + GROUPS * DEEP * STEP_BYTES == GX_CUDA_SPLIT_SHARED,
              "whole");

// Scales ------------------------------------------------------------------------------------------

constexpr int TOP = 14, BIAS = 127;
constexpr uint32_t LEAST_EXPONENT = 37, MOST_EXPONENT = 217; // with the bias: 2^-90, 2^90
constexpr float LEAST = 0x1p-90f, MOST = 0x1p90f, LOW_UNIT = 0x1p-11f;
constexpr int LOW_AFTER = 28, UNEVEN_AFTER = 21; // binades below the largest

/* What a step of x is like: of some column. */
enum { IS_BAD = 1, IS_LOW = 2, IS_UNEVEN = 4 };

/* What follows the pieces of a step of x. */
struct step_end {
    float scale[COLUMNS];
    int32_t flags;
    int32_t unused[3]; // copies are of sixteen bytes
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

// The few columns ---------------------------------------------------------------------------------

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

/* One column of a step of x, by a warp whose lanes have numbers `lane` and `lane` + 32. */
__device__ inline void put_column(const gx_cuda_narrow &p, char *step, int c, const float x[2],
                                  int n, int *flags)
{
    int lane = threadIdx.x % WARP, found = 0;
    uint32_t top = 0, least = ~0u, smallest = ~0u; // least: of what is not zero
#pragma unroll
    for (int q = 0; q < 2; q++) {
        uint32_t bits = __float_as_uint(x[q]) & 0x7fffffff;
        bool is_there = c < p.few && lane + q * WARP < n;
        top = max(top, bits);
        least = bits != 0 ? min(least, bits) : least;
        smallest = is_there ? min(smallest, bits) : smallest;
    }
    top = __reduce_max_sync(~0u, top) >> 23;
    least = __reduce_min_sync(~0u, least) >> 23;
    smallest = __reduce_min_sync(~0u, smallest) >> 23;
    bool is_zero = least == ~0u >> 23;
    if (!is_zero) {
        bool is_bad = top > MOST_EXPONENT || top < LEAST_EXPONENT;
        found = (is_bad ? IS_BAD : 0) | (least + LOW_AFTER < top ? IS_LOW : 0) |
                (smallest + UNEVEN_AFTER < top ? IS_UNEVEN : 0);
    }
    uint32_t exponent = found & IS_BAD || is_zero ? BIAS : top;
    step_end *end = (step_end *)(step + 2 * PIECE_BYTES);
    if (lane == 0) {
        end->scale[c] = scale_of(exponent);
        if (found != 0) {
            atomicOr(flags, found);
        }
    }
#pragma unroll
    for (int q = 0; q < 2; q++) {
        float v = found & IS_BAD ? 0 : x[q] * inverse_of(exponent);
        __half high = __float2half_rn(v);
        char *to = step + place_of(p.is_trans, c, lane + q * WARP);
        *(__half *)to = high;
        *(__half *)(to + PIECE_BYTES) = __float2half_rn((v - __half2float(high)) / LOW_UNIT);
    }
}

/* A thread block a step, of 8 warps; what is past an end is zeros. */
extern "C" __global__ void __launch_bounds__(256)
    gx_narrow_image_f32(const __grid_constant__ gx_cuda_narrow p)
{
    constexpr int WARPS = 8, COUNT = COLUMNS / WARPS;
    static_assert(STEP == 2 * WARP, "two numbers a lane");
    __shared__ int flags;
    int64_t k0 = (int64_t)blockIdx.x * STEP;
    int n = (int)min((int64_t)STEP, (p.is_trans ? p.rows : p.cols) - k0);
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    char *step = (char *)p.image + (int64_t)blockIdx.x * X_BYTES;
    if (threadIdx.x == 0) {
        flags = 0;
    }
    __syncthreads();
    float x[COUNT][2];
#pragma unroll
    for (int i = 0; i < 2 * COUNT; i++) {
        int c = warp + i / 2 * WARPS, k = lane + i % 2 * WARP;
        const float *from = (const float *)p.x + (k0 + k) * p.x_down + c * p.x_across;
        x[i / 2][i % 2] = c < p.few && k < n ? *from : 0;
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        put_column(p, step, warp + i * WARPS, x[i], n, &flags);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        ((step_end *)(step + 2 * PIECE_BYTES))->flags = flags;
    }
}

// Barriers ----------------------------------------------------------------------------------------

__device__ inline uint32_t in_shared(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ inline void barrier_init(uint64_t *barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(in_shared(barrier)), "r"(count)
                 : "memory");
}

__device__ inline void barrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(in_shared(barrier)) : "memory");
}

__device__ inline void barrier_wait(uint64_t *barrier, int parity)
{
    asm volatile("{\n.reg .pred p;\nAGAIN:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra AGAIN;\n}" ::"r"(
                     in_shared(barrier)),
                 "r"(parity)
                 : "memory");
}

/* Steps of x in a ring in shared memory: one thread fetches them, all warps give them back. */
struct ring_of_x {
    char *room;
    uint64_t *full, *empty;
    const char *image;
    int steps, next, count, total; // of a row's sum; what is fetched next of them; of the block's

    /* The next step, to where the one X_DEEP before it was. */
    __device__ inline void fetch()
    {
        if (count < total) {
            int slot = count % X_DEEP;
            if (count >= X_DEEP) {
                barrier_wait(empty + slot, (count / X_DEEP - 1) % 2);
            }
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                             in_shared(full + slot)),
                         "r"(COPIED)
                         : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                         "[%0], [%1], %2, [%3];" ::"r"(in_shared(room + slot * X_BYTES)),
                         "l"(image + (int64_t)next * X_BYTES), "r"(COPIED),
                         "r"(in_shared(full + slot))
                         : "memory");
            next = next + 1 < steps ? next + 1 : 0;
        }
        count++;
    }
};

// The matrix --------------------------------------------------------------------------------------

/*
** A group's steps of the matrix in a ring in shared memory, 64 rows of the result by STEP numbers:
** column after column (plain), or row of the result after row (is_trans), 256 bytes each, in pieces
** of 16 that change places so that reading is from all banks.
*/
template <bool IS_TRANS> struct ring {
    static constexpr int LINES = 64, LINE = 256, PIECES = LINE / 16, APART = GROUP / PIECES;
    static constexpr int COUNT = LINES / APART; // pieces of a thread

    const float *from; /* of a thread, of the next step: its first piece       */
    uint32_t to;
    int row, k, line, piece, slot;
    int64_t ahead; /* numbers from a step to the next one */

    __device__ static inline int place(int line, int piece)
    {
        return line * LINE + (IS_TRANS ? piece ^ line % 2 << 2 : piece ^ line % 4 << 1) * 16;
    }

    __device__ inline ring(const gx_cuda_narrow &p, int first_row, int first_k, const char *room)
    {
        int id = threadIdx.x % GROUP;
        row = first_row, k = first_k, line = id / PIECES, piece = id % PIECES, slot = 0;
        to = in_shared(room) + place(line, piece); // the same place in each of a thread's lines
        ahead = IS_TRANS ? STEP : STEP * p.lds;
        begin(p);
    }

    __device__ inline void begin(const gx_cuda_narrow &p)
    {
        int64_t column = IS_TRANS ? row + line : k + line, first = IS_TRANS ? k : row;
        from = (const float *)p.s + column * p.lds + first + piece * 4;
    }

    /* N numbers at once. */
    template <int N>
    __device__ inline void copy_inside(const gx_cuda_narrow &p, uint32_t into, uint64_t policy)
    {
        const float *at = from;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
#pragma unroll
            for (int e = 0; e < 4; e += N) {
                uint32_t here = into + i * APART * LINE + 4 * e;
                if constexpr (N == 4) {
                    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::
                                     "r"(here),
                                 "l"(at), "l"(policy)
                                 : "memory");
                } else {
                    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(here), "l"(at + e)
                                 : "memory");
                }
            }
            at += APART * p.lds;
        }
    }

    /* What is past an end is zeros. */
    __device__ inline void copy_edge(const gx_cuda_narrow &p, uint32_t into, int lines, int numbers)
    {
#pragma unroll 1
        for (int i = 0; i < COUNT; i++) {
            int left = i * APART + line < lines ? numbers - piece * 4 : 0;
            const float *at = from + i * APART * p.lds;
            for (int e = 0; e < 4 && !p.is_aligned; e++) {
                asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(into + 4 * e),
                             "l"(e < left ? at + e : (const float *)p.s), "r"(e < left ? 4 : 0)
                             : "memory");
            }
            if (p.is_aligned) {
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(into),
                             "l"(left > 0 ? at : (const float *)p.s),
                             "r"(left > 0 ? 4 * min(left, 4) : 0)
                             : "memory");
            }
            into += APART * LINE;
        }
    }

    /* The next step is under way, if there is one. */
    __device__ inline void copy(const gx_cuda_narrow &p, uint64_t policy, bool is_there)
    {
        if (is_there) {
            int side = (int)(IS_TRANS ? p.cols : p.rows), end = (int)(IS_TRANS ? p.rows : p.cols);
            uint32_t into = to + slot * STEP_BYTES;
            if (row + ROWS > side || k + STEP > end) {
                int rows = side - row, numbers = end - k;
                copy_edge(p, into, IS_TRANS ? rows : numbers, IS_TRANS ? numbers : rows);
            } else if (p.is_aligned) {
                copy_inside<4>(p, into, policy);
            } else {
                copy_inside<1>(p, into, policy);
            }
            slot = slot + 1 < DEEP ? slot + 1 : 0;
            k += STEP, from += ahead;
            if (k >= end) {
                k = 0, row += GX_CUDA_SPLIT_ROWS;
                begin(p);
            }
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    }

    /* Number k of a row of the group's. */
    __device__ static inline float get(const char *step, int row, int k)
    {
        int line = IS_TRANS ? row : k, in = IS_TRANS ? k : row;
        return *(const float *)(step + place(line, in / 4) + in % 4 * 4);
    }

    /* A thread's two rows, of its warp's 16. */
    __device__ static inline int first_row()
    {
        int g = threadIdx.x % WARP / 4;
        return (int)threadIdx.x % GROUP / WARP * 16 + (IS_TRANS ? g : 2 * g);
    }
    static constexpr int OTHER = IS_TRANS ? 8 : 1; // row, from the first one on

    __device__ static inline void take(const char *step, float v[2][EACH])
    {
        int t = threadIdx.x % 4, first = first_row();
#pragma unroll
        for (int e = 0; e < EACH; e += IS_TRANS ? 4 : 1) {
            if constexpr (IS_TRANS) {
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    float4 four = *(const float4 *)(step + place(first + r * OTHER, e + t));
                    v[r][e] = four.x, v[r][e + 1] = four.y;
                    v[r][e + 2] = four.z, v[r][e + 3] = four.w;
                }
            } else {
                float2 two = *(const float2 *)(step + place(4 * e + t, first / 4) + first % 4 * 4);
                v[0][e] = two.x, v[1][e] = two.y;
            }
        }
    }
};

// Rows of a step ----------------------------------------------------------------------------------

/* The larger of two magnitudes; NaN if one is. */
__device__ inline float larger(float a, float b)
{
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(fabsf(a)), "f"(fabsf(b)));
    return c;
}

/* The largest magnitude of a row of the step: four threads side by side have it. */
__device__ inline float largest(const float v[EACH])
{
    float m[4] = {v[0], v[1], v[2], v[3]};
#pragma unroll
    for (int e = 4; e < EACH; e++) {
        m[e % 4] = larger(m[e % 4], v[e]);
    }
    float most = larger(larger(m[0], m[1]), larger(m[2], m[3]));
    most = larger(most, __shfl_xor_sync(~0u, most, 1));
    return larger(most, __shfl_xor_sync(~0u, most, 2));
}

/* Some number is so small beside the largest that the row is to be looked at, or all may be 0. */
__device__ inline bool is_odd(const float v[EACH], float most)
{
    bool is_any = most != 0 && !(most > LEAST && most < MOST);
    float uneven = most * 0x1p-22f; // UNEVEN_AFTER binades, and one
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        is_any = is_any || fabsf(v[e]) < uneven;
    }
    return is_any;
}

/* The row's sum with this step of x may depend on numbers that pieces have too few bits of. */
__device__ inline bool is_apart(const float v[EACH], float most, int flags)
{
    float uneven = most * 0x1p-22f, low = most * 0x1p-29f; // LOW_AFTER binades, and one
    bool is_uneven = false, is_low = false;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        float magnitude = fabsf(v[e]);
        is_uneven = is_uneven || magnitude < uneven;
        is_low = is_low || (magnitude < low && magnitude != 0);
    }
    bool is_bad = most != 0 && !(most > LEAST && most < MOST);
    bool is_mine = is_bad || (flags & IS_BAD) != 0 || (is_low && (flags & IS_UNEVEN) != 0) ||
                   (is_uneven && (flags & IS_LOW) != 0);
    return (__ballot_sync(~0u, is_mine) & 15u << (threadIdx.x & WARP - 4)) != 0;
}

/* Of a thread's two rows those that are to be: f32 products, number by number, k0 on. */
template <bool IS_TRANS>
__device__ inline void multiply_apart(const gx_cuda_narrow &p, const char *step, int k0,
                                      const bool is_wanted[2], float sum[32])
{
    int n = min(STEP, (int)(IS_TRANS ? p.rows : p.cols) - k0), t = threadIdx.x % 4;
    int first = ring<IS_TRANS>::first_row();
    const float *x = (const float *)p.x + k0 * p.x_down;
#pragma unroll 1
    for (int k = 0; k < n; k++) {
        float v = ring<IS_TRANS>::get(step, first, k);
        float other = ring<IS_TRANS>::get(step, first + ring<IS_TRANS>::OTHER, k);
#pragma unroll
        for (int e = 0; e < 16; e++) {
            int c = e / 2 * 8 + 2 * t + e % 2, at = e / 2 * 4 + e % 2;
            if (c < p.few) { // 0 times Inf is not 0
                float y = __ldg(x + c * p.x_across);
                sum[at] = is_wanted[0] ? fmaf(v, y, sum[at]) : sum[at];
                sum[at + 2] = is_wanted[1] ? fmaf(other, y, sum[at + 2]) : sum[at + 2];
            }
        }
        x += p.x_down;
    }
}

/* Two rows of a step, as instructions want them, and their scales. */
struct pieces {
    float v[2][EACH], scale[2], inverse[2];
    uint32_t high[EACH], low[EACH];

    /* What is taken apart is zeros afterwards. */
    template <bool IS_TRANS>
    __device__ inline void take(const gx_cuda_narrow &p, const char *step, int flags, int k0,
                                float sum[32])
    {
        ring<IS_TRANS>::take(step, v);
        float most[2] = {largest(v[0]), largest(v[1])};
        bool is_any = (flags & IS_BAD) != 0 || is_odd(v[0], most[0]) || is_odd(v[1], most[1]);
        if (__any_sync(~0u, is_any)) {
            bool are[2] = {is_apart(v[0], most[0], flags), is_apart(v[1], most[1], flags)};
            if (__any_sync(~0u, are[0] || are[1])) {
                multiply_apart<IS_TRANS>(p, step, k0, are, sum);
#pragma unroll
                for (int e = 0; e < 2 * EACH; e++) {
                    v[e % 2][e / 2] = are[e % 2] ? 0 : v[e % 2][e / 2];
                }
                most[0] = are[0] ? 1 : most[0], most[1] = are[1] ? 1 : most[1];
            }
        }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            uint32_t exponent = __float_as_uint(fmaxf(most[r], LEAST)) >> 23;
            scale[r] = scale_of(exponent), inverse[r] = inverse_of(exponent);
        }
#pragma unroll
        for (int b = 0; b < BATCHES; b++) {
            split(b);
        }
    }

    __device__ inline void split_two(int r, int from, int to)
    {
        float a = v[r][from] * inverse[r], b = v[r][from + 1] * inverse[r];
        __half2 two = __floats2half2_rn(a, b);
        float2 back = __half22float2(two);
        __half2 rest = __floats2half2_rn((a - back.x) * 2048.0f, (b - back.y) * 2048.0f);
        high[to] = *(uint32_t *)&two;
        low[to] = *(uint32_t *)&rest;
    }

    /* Batch b: rows one and two, k = 2 t and 2 t + 1; the same, k = 2 t + 8 and 2 t + 9. */
    __device__ inline void split(int b)
    {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            split_two(e % 2, 4 * b + e / 2 * 2, 4 * b + e);
        }
    }
};

// Tensor cores ------------------------------------------------------------------------------------

/* A piece of a step of x in shared memory: eight columns are 1024 bytes, swizzled in 128. */
__device__ inline uint64_t describe(const char *x)
{
    uint64_t at = __cvta_generic_to_shared(x);
    return (at & 0x3ffff) >> 4 | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 |
           (uint64_t)1 << 62;
}

/* sum = (is_more: sum +) a times the 16 numbers of each of 64 columns at x. */
__device__ inline void multiply(float (&s)[32], const uint32_t a[4], uint64_t x, bool is_more)
{
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, "
        "%9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, "
        "%27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}"
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]),
          "+f"(s[7]), "+f"(s[8]), "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]),
          "+f"(s[14]), "+f"(s[15]), "+f"(s[16]), "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]),
          "+f"(s[21]), "+f"(s[22]), "+f"(s[23]), "+f"(s[24]), "+f"(s[25]), "+f"(s[26]), "+f"(s[27]),
          "+f"(s[28]), "+f"(s[29]), "+f"(s[30]), "+f"(s[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(x), "r"((int)is_more));
}

/* Registers are the tensor cores' from now on; what they were given is a group; it is done. */
__device__ inline void multiply_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void multiply_go()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

__device__ inline void multiply_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

/* sum += part, of two rows by columns, times its scales and `unit`. */
__device__ inline void gather(float (&sum)[32], const float (&part)[32], const float scale[2],
                              float unit, const float *x_scale)
{
    float row[2] = {scale[0] * unit, scale[1] * unit};
#pragma unroll
    for (int c = 0; c < COLUMNS / 8; c++) {
        float2 two = *(const float2 *)(x_scale + 8 * c);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            float &s = sum[4 * c + e];
            s = fmaf(part[4 * c + e] * row[e / 2], e % 2 == 0 ? two.x : two.y, s);
        }
    }
}

/* The tensor cores are done with the registers of a: nothing else was put there meanwhile. */
__device__ inline void hold(const uint32_t (&a)[EACH])
{
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        asm volatile("" ::"r"(a[e]));
    }
}

/*
** sum += a's rows times a step of x.  The small products are summed over the whole step; of the
** others 16, 16 and 32: their errors are then sgemm's.
*/
__device__ inline void multiply_step(float (&sum)[32], pieces &a, const char *step)
{
    float part[32];
    uint64_t high = describe(step), low = describe(step + PIECE_BYTES);
    const float *x_scale =
        ((const step_end *)(step + 2 * PIECE_BYTES))->scale + 2 * (threadIdx.x % 4);
    multiply_begin();
#pragma unroll
    for (int b = 0; b < BATCHES; b++) { // a batch of x: 32 bytes
        multiply(part, a.low + 4 * b, high + 2 * b, b > 0);
        multiply(part, a.high + 4 * b, low + 2 * b, true);
    }
    multiply_go();
    multiply_wait();
    hold(a.low);
    gather(sum, part, a.scale, LOW_UNIT, x_scale);
#pragma unroll
    for (int b = 0; b < BATCHES; b++) {
        bool is_first = b < BATCHES - 1, is_last = b != BATCHES - 2;
        if (is_first) {
            multiply_begin();
        }
        multiply(part, a.high + 4 * b, high + 2 * b, !is_first);
        if (is_last) {
            multiply_go();
            multiply_wait();
            gather(sum, part, a.scale, 1, x_scale);
        }
    }
    hold(a.high);
}

// The whole ---------------------------------------------------------------------------------------

/* A warp's 16 rows of a part, from `row` on; after the last steps zeros in the parts behind. */
template <bool IS_TRANS>
__device__ inline void put_out(const gx_cuda_narrow &p, int64_t part, int row, bool is_last,
                               float sum[32])
{
    int t = threadIdx.x % 4;
    int64_t side = IS_TRANS ? p.cols : p.rows;
    int64_t i = row + ring<IS_TRANS>::first_row(), other = i + ring<IS_TRANS>::OTHER;
    int64_t end = is_last ? p.parts : part + 1;
#pragma unroll 1
    for (; part < end; part++) {
        float *out = (float *)p.partial + part * p.few * side;
#pragma unroll
        for (int e = 0; e < 16; e++) {
            int r = e / 2 * 8 + 2 * t + e % 2, from = e / 2 * 4 + e % 2;
            if (r < p.few && i < side) {
                out[r * side + i] = sum[from];
            }
            if (r < p.few && other < side) {
                out[r * side + other] = sum[from + 2];
            }
            sum[from] = 0, sum[from + 2] = 0;
        }
    }
}

/* Shared memory: X_DEEP steps of x, then each group's ring. */
template <bool IS_TRANS>
__device__ inline void narrow(const gx_cuda_narrow &p, char *room, uint64_t *full, uint64_t *empty)
{
    int64_t side = IS_TRANS ? p.cols : p.rows, k = IS_TRANS ? p.rows : p.cols;
    int64_t steps = (k + STEP - 1) / STEP, begin = blockIdx.x * p.chunk;
    int64_t all = (side + GX_CUDA_SPLIT_ROWS - 1) / GX_CUDA_SPLIT_ROWS * steps;
    int count = (int)min(p.chunk, all - begin), group = threadIdx.x / GROUP;
    int64_t across = begin / steps;
    int at = (int)(begin - across * steps);
    int row = (int)across * GX_CUDA_SPLIT_ROWS + group * ROWS;
    char *mine = room + X_DEEP * X_BYTES + group * DEEP * STEP_BYTES;
    uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    ring_of_x x = {room, full, empty, (const char *)p.image, (int)steps, at, 0, count};
    for (int i = 0; i < X_DEEP - 2 && threadIdx.x == 0; i++) {
        x.fetch();
    }
    ring<IS_TRANS> ahead(p, row, at * STEP, mine);
    for (int i = 0; i < DEEP - 1; i++) {
        ahead.copy(p, policy, i < count);
    }
    float sum[32] = {};
#pragma unroll 1
    for (int i = 0; i < count; i++) {
        if (threadIdx.x == 0) {
            x.fetch(); // for two steps on: who is behind is not waited for
        }
        __syncwarp();
        asm volatile("cp.async.wait_group %0;" ::"n"(DEEP - 2) : "memory");
        asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(GROUP) : "memory");
        ahead.copy(p, policy, i + DEEP - 1 < count);
        const char *x_step = room + i % X_DEEP * X_BYTES;
        barrier_wait(full + i % X_DEEP, i / X_DEEP % 2);
        pieces a;
        int flags = ((const step_end *)(x_step + 2 * PIECE_BYTES))->flags;
        a.take<IS_TRANS>(p, mine + i % DEEP * STEP_BYTES, flags, at * STEP, sum);
        multiply_step(sum, a, x_step);
        __syncwarp();
        if (threadIdx.x % WARP == 0) {
            barrier_arrive(empty + i % X_DEEP);
        }
        at++;
        if (at == steps || i + 1 == count) {
            int64_t part = blockIdx.x - across * steps / p.chunk;
            put_out<IS_TRANS>(p, part, row, at == steps, sum);
            across++, row += GX_CUDA_SPLIT_ROWS, at = 0;
        }
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    gx_narrow_split_f32(const __grid_constant__ gx_cuda_narrow p)
{
    extern __shared__ __align__(1024) char room[];
    __shared__ uint64_t full[X_DEEP], empty[X_DEEP];
    if (threadIdx.x == 0) {
        for (int i = 0; i < X_DEEP; i++) {
            barrier_init(full + i, 1);
            barrier_init(empty + i, THREADS / WARP);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (p.is_trans) {
        narrow<true>(p, room, full, empty);
    } else {
        narrow<false>(p, room, full, empty);
    }
}

#else

/* There are no such instructions: who asks for the kernels finds none. */
extern "C" __global__ void gx_narrow_split_none()
{
}

#endif
