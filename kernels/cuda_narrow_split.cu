/*
** Device code: products of a large f32 matrix with 17 to 64 columns by tensor cores, for Hopper.
**
** Such a product waits for memory, if the arithmetic is there: 128 flops to four bytes is more than
** f32 units do while memory brings them.  Tensor cores multiply f16, of 11 bits.  So a number a is
** taken as s (high + low / 2^11), s a power of two, high the nearest f16 to a / s and low what is
** missing of it; and the sum of high low' + low high' + high high' has what f32 products have
** (decision 047):
**
**   scales   one for a row of the matrix and a step of the sum, STEP numbers, another for a step of
**            x: the largest number is near 2^TOP.  What is up to 2^28 smaller has 22 bits, what is
**            smaller yet has an error of 2^-51 of the largest.  Where columns of x differ so much
**            that some number would, each has a scale of its own (IS_GRADED).
**   errors   an operand's 2^-23 of it, and low low', at most 2^-22 of the product, that is left
**            out.  Where tensor cores add they cut off, always towards zero: so what a step comes
**            to is added to a sum in f32, which rounds, and what was cut off on average is
**            given back.
**   in f32   A group's rows and a step are multiplied in f32, number by number (multiply_plain),
**            where a sum may depend on numbers of fewer bits: small ones of the matrix may meet the
**            large ones of x or the other way round; or something is not finite or near the ends of
**            f32's range.  That takes three times as long, as sgemm does.
**
** x comes in pieces already (cuda_narrow_image.cuh), a step's in one copy to shared memory.  A
** group of four warps has 64 rows of the result.  What of the matrix meets them is copied to shared
** memory a step ahead, in runs of 256 bytes; each thread takes from there what the instructions
** want of it.  A thread block has as many steps as every other one, from wherever the one before it
** ends; what it has of rows whose steps several blocks share is a part, which gx_parts adds up.
*/
#include "cuda_kernels.h"

#if defined __CUDA_ARCH_FEAT_SM90_ALL || !defined __CUDA_ARCH__

#include "cuda_narrow_image.cuh"

#include <float.h>

constexpr int THREADS = GX_CUDA_SPLIT_THREADS, GROUP = 4 * WARP, GROUPS = THREADS / GROUP;
constexpr int ROWS = 64;                                  // of a group
constexpr int EACH = STEP / 4;                            // a thread's of a row
constexpr int DEEP = 2, X_DEEP = 4, X_AHEAD = X_DEEP - 2; // steps in shared memory
constexpr int CHUNK = 16;                                 // lines of x as it is
constexpr int STEP_BYTES = ROWS * STEP * 4, CHUNK_BYTES = CHUNK * COLUMNS * 4;
constexpr int GROUP_BYTES = DEEP * STEP_BYTES + CHUNK_BYTES;
static_assert(GROUPS * ROWS == GX_CUDA_SPLIT_ROWS && CHUNK_BYTES == 2 * 16 * GROUP &&
                  X_DEEP * X_BYTES + GROUPS * GROUP_BYTES == GX_CUDA_SPLIT_SHARED,
              "whole");

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

/* The four warps of a group meet. */
__device__ inline void group_wait()
{
    asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.x / GROUP + 1), "n"(GROUP) : "memory");
}

/* They meet; is it so of any thread? */
__device__ inline bool group_any(bool is)
{
    int any;
    asm volatile("{\n.reg .pred p, q;\nsetp.ne.b32 p, %1, 0;\nbar.red.or.pred q, %2, %3, p;\n"
                 "selp.b32 %0, 1, 0, q;\n}"
                 : "=r"(any)
                 : "r"((int)is), "r"(threadIdx.x / GROUP + 1), "n"(GROUP)
                 : "memory");
    return any != 0;
}

/* Step `which` of x, fetched for the thread block's i-th, to where the one X_DEEP before it was. */
__device__ inline void fetch_x(const gx_cuda_narrow &p, char *room, uint64_t *full,
                               uint64_t *empty, int i, int which)
{
    int slot = i % X_DEEP;
    if (i >= X_DEEP) {
        barrier_wait(empty + slot, (i / X_DEEP - 1) % 2);
    }
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                     in_shared(full + slot)),
                 "r"(COPIED)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(in_shared(room + slot * X_BYTES)),
                 "l"((const char *)p.image + (int64_t)which * GX_CUDA_SPLIT_IMAGE), "r"(COPIED),
                 "r"(in_shared(full + slot))
                 : "memory");
}

__device__ inline float2 load_two(uint32_t shared)
{
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                 : "=f"(v.x), "=f"(v.y)
                 : "r"(shared)
                 : "memory");
    return v;
}

__device__ inline void store_four(uint32_t shared, float4 v)
{
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "f"(v.x), "f"(v.y),
                 "f"(v.z), "f"(v.w)
                 : "memory");
}

__device__ inline float4 load_four(uint32_t shared)
{
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(shared)
                 : "memory");
    return v;
}

// The matrix --------------------------------------------------------------------------------------

/*
** A group's steps of the matrix in shared memory, 64 rows of the result by STEP numbers: column
** after column (plain), or row of the result after row (is_trans), 256 bytes each, in pieces of 16
** that change places so that reading is from all banks.
*/
template <bool IS_TRANS> struct step_of_s {
    static constexpr int LINES = 64, LINE = 256, PIECES = LINE / 16, APART = GROUP / PIECES;
    static constexpr int COUNT = LINES / APART; // pieces of a thread

    __device__ static inline int place(int line, int piece)
    {
        return line * LINE + (IS_TRANS ? piece ^ line % 2 << 2 : piece ^ line % 4 << 1) * 16;
    }

    /* N numbers at once. */
    template <int N>
    __device__ static inline void copy_inside(const float *from, int64_t lds, uint32_t to)
    {
        uint64_t policy;
        asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
#pragma unroll
            for (int e = 0; e < 4; e += N) {
                uint32_t here = to + i * APART * LINE + 4 * e;
                if constexpr (N == 4) {
                    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::
                                     "r"(here),
                                 "l"(from), "l"(policy)
                                 : "memory");
                } else {
                    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(here),
                                 "l"(from + e)
                                 : "memory");
                }
            }
            from += APART * lds;
        }
    }

    /* What is past an end is zeros. */
    __device__ static inline void copy_edge(const gx_cuda_narrow &p, const float *from, uint32_t to,
                                            int lines, int numbers)
    {
#pragma unroll 1
        for (int i = 0; i < COUNT; i++) {
            int left = lines > 0 ? numbers : 0;
            for (int e = 0; e < 4 && !p.is_aligned; e++) {
                asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to + 4 * e),
                             "l"(e < left ? from + e : (const float *)p.s), "r"(e < left ? 4 : 0)
                             : "memory");
            }
            if (p.is_aligned) {
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
                             "l"(left > 0 ? from : (const float *)p.s),
                             "r"(left > 0 ? 4 * min(left, 4) : 0)
                             : "memory");
            }
            from += APART * p.lds, to += APART * LINE, lines -= APART;
        }
    }

    /* Rows of the result `row` on, numbers k on, are under way to `room`. */
    __device__ static inline void copy(const gx_cuda_narrow &p, uint32_t room, int row, int k)
    {
        int side = (int)(IS_TRANS ? p.cols : p.rows), end = (int)(IS_TRANS ? p.rows : p.cols);
        int line = (int)threadIdx.x % GROUP / PIECES, piece = threadIdx.x % PIECES;
        int64_t column = (IS_TRANS ? row : k) + line, first = IS_TRANS ? k : row;
        const float *from = (const float *)p.s + column * p.lds + first + piece * 4;
        uint32_t to = room + place(line, piece); // the same in each of its lines
        if (row + ROWS > side || k + STEP > end) {
            int rows = side - row, numbers = end - k;
            copy_edge(p, from, to, (IS_TRANS ? rows : numbers) - line,
                      (IS_TRANS ? numbers : rows) - piece * 4);
        } else if (p.is_aligned) {
            copy_inside<4>(from, p.lds, to);
        } else {
            copy_inside<1>(from, p.lds, to);
        }
    }

    /* A thread's two rows, of its warp's 16. */
    __device__ static inline int first_row()
    {
        int g = threadIdx.x % WARP / 4;
        return (int)threadIdx.x % GROUP / WARP * 16 + (IS_TRANS ? g : 2 * g);
    }
    static constexpr int OTHER = IS_TRANS ? 8 : 1; // row, from the first one on

    /* Where a thread's numbers begin: of the first row; plain of both. */
    __device__ static inline uint32_t place_of_rows()
    {
        int t = threadIdx.x % 4, first = first_row();
        return IS_TRANS ? place(first, t) : place(t, first / 4) + first % 4 * 4;
    }

    __device__ static inline void take(uint32_t at, float v[2][EACH])
    {
        if constexpr (IS_TRANS) {
#pragma unroll
            for (int e = 0; e < EACH; e += 4) {
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    float4 four = load_four((at ^ e * 16) + r * OTHER * LINE);
                    v[r][e] = four.x, v[r][e + 1] = four.y;
                    v[r][e + 2] = four.z, v[r][e + 3] = four.w;
                }
            }
        } else {
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                float2 two = load_two(at + e * 4 * LINE);
                v[0][e] = two.x, v[1][e] = two.y;
            }
        }
    }

    /* Numbers k and k + 1, k even, of 8 rows, `row` on (IS_TRANS: every fourth). */
    static constexpr int EVERY = IS_TRANS ? 4 : 1;

    __device__ static inline void take_two(uint32_t step, int row, int k, float v[2][8])
    {
#pragma unroll
        for (int e = 0; e < (IS_TRANS ? 8 : 4); e++) {
            if constexpr (IS_TRANS) {
                float2 two = load_two(step + place(row + EVERY * e, k / 4) + k % 4 * 4);
                v[0][e] = two.x, v[1][e] = two.y;
            } else {
                float4 four = load_four(step + place(k + e / 2, row / 4 + e % 2));
                float *to = v[e / 2] + e % 2 * 4;
                to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
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

/* Not finite, or near the ends of f32's range, which does not matter to zeros. */
__device__ inline bool is_bad(float most, int flags)
{
    return flags & IS_ZERO ? !(most <= FLT_MAX) : most != 0 && !(most > LEAST && most < MOST);
}

/* Some number is so small beside the largest that the row is to be looked at. */
__device__ inline bool is_odd(const float v[EACH], float most)
{
    float uneven = most * 0x1p-22f; // UNEVEN_AFTER binades, and one
    bool is_any = false;
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
    return (is_low && (flags & IS_UNEVEN) != 0) || (is_uneven && (flags & IS_LOW) != 0);
}

/* Two rows of a step, as instructions want them, and their scales. */
struct pieces {
    float v[2][EACH], scale[2], inverse[2];
    uint32_t high[EACH], low[EACH];
    float most[2];

    /* Rows as they are; true: pieces will not do for the group's with this step of x. */
    template <bool IS_TRANS> __device__ inline bool take(uint32_t at, int flags)
    {
        step_of_s<IS_TRANS>::take(at, v);
        most[0] = largest(v[0]), most[1] = largest(v[1]);
        bool is_any = is_bad(most[0], flags) || is_bad(most[1], flags);
        if (flags & (IS_BAD | IS_LOW | IS_UNEVEN)) {
            bool is_one = is_odd(v[0], most[0]) || is_odd(v[1], most[1]);
            if (__any_sync(~0u, is_one)) {
                is_any = is_any || is_apart(v[0], most[0], flags) || is_apart(v[1], most[1], flags);
            }
            is_any = is_any || (flags & IS_BAD) != 0;
        }
        return group_any(is_any);
    }

    __device__ inline void split()
    {
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

/* Registers are the tensor cores' from now on; they are done with all that they were given. */
__device__ inline void multiply_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void multiply_end()
{
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}

/* sum += part, of two rows by columns, times its scales. */
__device__ inline void gather(float (&sum)[32], const float (&part)[32], const float scale[2],
                              const step_end *x, bool is_graded)
{
    if (!is_graded) {
        float row[2] = {scale[0] * x->shared, scale[1] * x->shared};
#pragma unroll
        for (int e = 0; e < 32; e++) {
            sum[e] = fmaf(part[e], row[e % 4 / 2], sum[e]);
        }
        return;
    }
#pragma unroll
    for (int c = 0; c < COLUMNS / 8; c++) {
        float2 two = *(const float2 *)(x->scale + 8 * c + 2 * (threadIdx.x % 4));
#pragma unroll
        for (int e = 0; e < 4; e++) {
            float &s = sum[4 * c + e];
            s = fmaf(part[4 * c + e] * scale[e / 2], e % 2 == 0 ? two.x : two.y, s);
        }
    }
}

/* What the tensor cores were given, or gave, is in these registers until here. */
__device__ inline void hold(const uint32_t (&a)[EACH])
{
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        asm volatile("" ::"r"(a[e]));
    }
}

__device__ inline void hold(float (&part)[32])
{
#pragma unroll
    for (int e = 0; e < 32; e++) {
        asm volatile("" : "+f"(part[e]));
    }
}

/*
** What tensor cores cut off of a step's sum of positive numbers: one and a half units of its last
** place on average, so one and two in turn.  Nothing where one side is its high pieces alone: such
** sums, of whole numbers, may be exact.
*/
__device__ inline void give_back(pieces &a, int step, int flags)
{
    uint32_t low[2] = {};
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        low[e % 2] |= a.low[e];
    }
    float more = step % 2 == 0 ? 0x1.000004p0f : 0x1.000002p0f;
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        uint32_t of_row = __ballot_sync(~0u, low[r] != 0) >> lane / 4 * 4 & 15;
        a.scale[r] *= of_row != 0 && (flags & IS_LONG) != 0 ? more : 1;
    }
}

/* sum += a's rows times a step of x, the small products first. */
__device__ inline void multiply_step(float (&sum)[32], pieces &a, const char *room, int step)
{
    float part[32];
    uint64_t high = describe(room), low = describe(room + PIECE_BYTES);
    const step_end *x = (const step_end *)(room + 2 * PIECE_BYTES);
    multiply_begin();
#pragma unroll
    for (int b = 0; b < BATCHES; b++) { // a batch of x: 32 bytes
        multiply(part, a.low + 4 * b, high + 2 * b, b > 0);
        multiply(part, a.high + 4 * b, low + 2 * b, true);
    }
    multiply_end();
    hold(part), hold(a.low);
#pragma unroll
    for (int e = 0; e < 32; e++) {
        part[e] *= LOW_UNIT;
    }
    hold(part);
    multiply_begin();
#pragma unroll
    for (int b = 0; b < BATCHES; b++) {
        multiply(part, a.high + 4 * b, high + 2 * b, true);
    }
    give_back(a, step, x->flags);
    multiply_end();
    hold(part), hold(a.high);
    gather(sum, part, a.scale, x, (x->flags & IS_GRADED) != 0);
}

// In f32 ------------------------------------------------------------------------------------------

/*
** sum += the group's rows times a step of x, number by number: a thread has 8 rows by 4 columns,
** and its sums reach those who have them where the step was.  x comes CHUNK lines at a time.
*/
template <bool IS_TRANS>
__device__ inline void multiply_plain(uint32_t step, uint32_t chunk, const float *x,
                                      float (&sum)[32])
{
    using rows = step_of_s<IS_TRANS>;
    constexpr int LINE = COLUMNS * 4;
    int id = threadIdx.x % GROUP, lane = id % WARP, warp = id / WARP;
    int row = warp / 2 * WARP + lane / 8 * (IS_TRANS ? 1 : 8), c = warp % 2 * WARP + lane % 8 * 4;
    const float4 *from = (const float4 *)x + id;
    float4 next[2] = {__ldg(from), __ldg(from + GROUP)};
    float part[8][4] = {};
#pragma unroll 1
    for (int k0 = 0; k0 < STEP; k0 += CHUNK) {
        group_wait();
        store_four(chunk + id * 16, next[0]);
        store_four(chunk + (id + GROUP) * 16, next[1]);
        group_wait();
        if (k0 + CHUNK < STEP) {
            from += 2 * GROUP;
            next[0] = __ldg(from), next[1] = __ldg(from + GROUP);
        }
#pragma unroll 2
        for (int k = 0; k < CHUNK; k += 2) {
            float v[2][8];
            rows::take_two(step, row, k0 + k, v);
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float4 y = load_four(chunk + (k + e) * LINE + c * 4);
#pragma unroll
                for (int r = 0; r < 8; r++) {
                    part[r][0] = fmaf(v[e][r], y.x, part[r][0]);
                    part[r][1] = fmaf(v[e][r], y.y, part[r][1]);
                    part[r][2] = fmaf(v[e][r], y.z, part[r][2]);
                    part[r][3] = fmaf(v[e][r], y.w, part[r][3]);
                }
            }
        }
    }
    auto place = [&](int i, int j) { return step + i * LINE + (4 * j ^ i % 8 * 32); };
    group_wait();
#pragma unroll
    for (int r = 0; r < 8; r++) {
        const float *p = part[r];
        store_four(place(row + rows::EVERY * r, c), make_float4(p[0], p[1], p[2], p[3]));
    }
    group_wait();
    int first = rows::first_row();
#pragma unroll
    for (int e = 0; e < 16; e++) {
        int r = e % 2;
        float2 two = load_two(place(first + r * rows::OTHER, e / 2 * 8 + 2 * (id % 4)));
        sum[e / 2 * 4 + 2 * r] += two.x, sum[e / 2 * 4 + 2 * r + 1] += two.y;
    }
}

// The whole ---------------------------------------------------------------------------------------

/* A warp's 16 rows of a part, from `row` on; after the last steps zeros in the parts behind. */
template <bool IS_TRANS>
__device__ inline void put_out(const gx_cuda_narrow &p, int64_t part, int row, bool is_last,
                               float sum[32])
{
    int t = threadIdx.x % 4;
    int64_t side = IS_TRANS ? p.cols : p.rows;
    int64_t i = row + step_of_s<IS_TRANS>::first_row(), other = i + step_of_s<IS_TRANS>::OTHER;
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
    int64_t begin = blockIdx.x * p.chunk;
    int steps = (int)((k + STEP - 1) / STEP), group = threadIdx.x / GROUP;
    int64_t all = (side + GX_CUDA_SPLIT_ROWS - 1) / GX_CUDA_SPLIT_ROWS * steps;
    int count = (int)min(p.chunk, all - begin), across = (int)(begin / steps);
    int at = (int)(begin - (int64_t)across * steps);
    int row = across * GX_CUDA_SPLIT_ROWS + group * ROWS;
    uint32_t mine = in_shared(room + X_DEEP * X_BYTES + group * GROUP_BYTES);
    for (int i = 0; i < min(count, X_AHEAD) && threadIdx.x == 0; i++) {
        fetch_x(p, room, full, empty, i, (at + i) % steps);
    }
    step_of_s<IS_TRANS>::copy(p, mine, row, at * STEP);
    asm volatile("cp.async.commit_group;" ::: "memory");
    uint32_t place = step_of_s<IS_TRANS>::place_of_rows();
    float sum[32] = {};
#pragma unroll 1
    for (int i = 0; i < count; i++) {
        if (threadIdx.x == 0 && i + X_AHEAD < count) { // who is behind by two is not waited for
            fetch_x(p, room, full, empty, i + X_AHEAD, (at + X_AHEAD) % steps);
        }
        __syncwarp();
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        group_wait();
        bool is_last = at + 1 == steps;
        if (i + 1 < count) {
            step_of_s<IS_TRANS>::copy(p, mine + (i + 1) % DEEP * STEP_BYTES,
                                      is_last ? row + GX_CUDA_SPLIT_ROWS : row,
                                      is_last ? 0 : (at + 1) * STEP);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        const char *x_step = room + i % X_DEEP * X_BYTES;
        barrier_wait(full + i % X_DEEP, i / X_DEEP % 2);
        pieces a;
        int flags = ((const step_end *)(x_step + 2 * PIECE_BYTES))->flags;
        uint32_t step = mine + i % DEEP * STEP_BYTES;
        if (!a.take<IS_TRANS>(step + place, flags)) {
            a.split();
            multiply_step(sum, a, x_step, at);
        } else {
            const char *image = (const char *)p.image + (int64_t)at * GX_CUDA_SPLIT_IMAGE;
            multiply_plain<IS_TRANS>(step, mine + DEEP * STEP_BYTES,
                                     (const float *)(image + X_BYTES), sum);
        }
        __syncwarp();
        if (threadIdx.x % WARP == 0) {
            barrier_arrive(empty + i % X_DEEP);
        }
        at++;
        if (is_last || i + 1 == count) {
            int across = row / GX_CUDA_SPLIT_ROWS;
            int64_t part = blockIdx.x - (int64_t)across * steps / p.chunk;
            put_out<IS_TRANS>(p, part, row, is_last, sum);
            row += GX_CUDA_SPLIT_ROWS, at = 0;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    gx_narrow_split_f32(const GX_GRID_CONSTANT gx_cuda_narrow p)
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
