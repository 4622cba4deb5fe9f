/*
** Device code: products of a large matrix with a few columns, and sums of partial results.
**
** Such a product waits for memory: the matrix is read once, sixteen bytes a load where its columns
** are aligned to that, and used for all FEW columns of x, which are in shared memory.  The sum is
** cut into parts, a thread block of 8 warps each (by the other side), whose results gx_parts adds
** up: the same bits on every run.
**
**   gx_narrow plain   a warp's lanes have 4 rows each; two warps share the columns, and their sums
**                     meet in shared memory.
**   gx_narrow dot     (is_trans) a warp has 4 columns at a time, or 2, and its lanes go down the
**                     rows, 4 each; what is loaded is for two steps later, at the end of columns
**                     for the next ones.  The lanes' sums, up to 32, meet in 31 exchanges, which
**                     leave one sum a lane.
**
** Loads that others are to overlap stand under no condition: where branches meet, what they load
** would be copied, and so waited for.  Nothing that is padding is multiplied with anything of the
** matrix: 0 times Inf is not 0.
*/
#include "cuda_element.cuh"

constexpr int WARP = 32, WARPS = 8, THREADS = WARP * WARPS;
constexpr int FOUR = 4, ROWS = FOUR * WARP; // of a lane, of a warp

/* Numbers of a column of x that there is room for. */
template <class T, int FEW>
constexpr int length = GX_CUDA_NARROW_ROOM / sizeof(T) / (FEW > 8 ? FEW : 8);

/* N numbers side by side, loaded at once. */
template <class T, int N> struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) line {
    T at[N];
};

template <class T> struct four {
    T at[FOUR];
};

/* Numbers to a load: sixteen bytes (IS_WIDE), or one. */
template <class T, bool IS_WIDE> constexpr int piece = IS_WIDE ? 16 / sizeof(T) : 1;

/* Where row e of a lane's four is: in pieces, a warp's length of them apart. */
template <class T, bool IS_WIDE> __device__ inline int offset(int lane, int e)
{
    constexpr int N = piece<T, IS_WIDE>;
    return (e / N * WARP + lane) * N + e % N;
}

__device__ inline void load_wide(const float *from, float *to)
{
    float4 e = __ldcs((const float4 *)from);
    to[0] = e.x, to[1] = e.y, to[2] = e.z, to[3] = e.w;
}

__device__ inline void load_wide(const double *from, double *to)
{
    double2 e = __ldcs((const double2 *)from);
    to[0] = e.x, to[1] = e.y;
}

/* A piece, not to be read again. */
template <class T, bool IS_WIDE> __device__ inline void load_piece(const T *from, T *to)
{
    if constexpr (IS_WIDE) {
        load_wide(from, to);
    } else {
        *to = __ldcs(from);
    }
}

/* Number k of column r of x; 0 in a column that is not there. */
template <class T> __device__ inline T from_x(const gx_cuda_narrow &p, int64_t k, int r)
{
    const T *x = (const T *)p.x;
    return r < p.few ? x[k * p.x_down + r * p.x_across] : 0;
}

// Plain -------------------------------------------------------------------------------------------

/* What a warp's lanes have of 4 rows each, before another warp's is added and after. */
template <class T, int FEW, bool IS_WIDE>
__device__ inline void put_aside(T *room, int lane, const T sum[FOUR][FEW])
{
#pragma unroll
    for (int r = 0; r < FEW; r++) {
#pragma unroll
        for (int e = 0; e < FOUR; e++) {
            room[r * ROWS + offset<T, IS_WIDE>(lane, e)] = sum[e][r];
        }
    }
}

template <class T, int FEW, bool IS_WIDE>
__device__ inline void put_out(const gx_cuda_narrow &p, const T *room, int lane, int64_t i0,
                               const T sum[FOUR][FEW])
{
    T *out = (T *)p.partial + (int64_t)blockIdx.y * p.few * p.rows + i0;
#pragma unroll
    for (int r = 0; r < FEW; r++) {
#pragma unroll
        for (int e = 0; e < FOUR; e++) {
            int at = offset<T, IS_WIDE>(lane, e);
            if (r < p.few && i0 + at < p.rows) {
                out[r * p.rows + at] = sum[e][r] + room[r * ROWS + at];
            }
        }
    }
}

template <class T, int FEW>
__device__ inline void add_column(const four<T> &v, const line<T, FEW> &x, T sum[FOUR][FEW])
{
#pragma unroll
    for (int e = 0; e < FOUR; e++) {
#pragma unroll
        for (int r = 0; r < FEW; r++) {
            sum[e][r] = fma(v.at[e], x.at[r], sum[e][r]);
        }
    }
}

/* Four warps have rows of their own, two share the columns. */
template <class T, int FEW, bool IS_WIDE>
__device__ inline void plain(const gx_cuda_narrow &p, T *room)
{
    constexpr int GROUPS = WARPS / 2, N = piece<T, IS_WIDE>;
    constexpr int AHEAD = 32 / sizeof(T); // columns whose loads are under way
    int lane = threadIdx.x % WARP, group = threadIdx.x / WARP % GROUPS;
    bool is_second = threadIdx.x / WARP >= GROUPS;
    int64_t i0 = ((int64_t)blockIdx.x * GROUPS + group) * ROWS, k0 = blockIdx.y * p.chunk;
    int n = (int)min(p.chunk, p.cols - k0);
    for (int k = threadIdx.x; k < n; k += THREADS) {
        line<T, FEW> xs;
#pragma unroll
        for (int r = 0; r < FEW; r++) {
            xs.at[r] = from_x<T>(p, k0 + k, r);
        }
        ((line<T, FEW> *)room)[k] = xs;
    }
    __syncthreads();
    int64_t at[FOUR / N]; // rows past the end read the last ones again, and are dropped
#pragma unroll
    for (int e = 0; e < FOUR; e += N) {
        at[e / N] = min(i0 + offset<T, IS_WIDE>(lane, e), p.rows - N);
    }
    const line<T, FEW> *x = (const line<T, FEW> *)room;
    int half = (n / 2 + AHEAD - 1) / AHEAD * AHEAD, k = is_second ? min(half, n) : 0;
    int end = is_second ? n : min(half, n);
    const T *s = (const T *)p.s + (k0 + k) * p.lds;
    T sum[FOUR][FEW] = {};
    auto load = [&]() {
        four<T> v;
#pragma unroll
        for (int e = 0; e < FOUR; e += N) {
            load_piece<T, IS_WIDE>(s + at[e / N], v.at + e);
        }
        s += p.lds;
        return v;
    };
    for (; k + AHEAD <= end; k += AHEAD) {
        four<T> v[AHEAD];
#pragma unroll
        for (int c = 0; c < AHEAD; c++) {
            v[c] = load();
        }
#pragma unroll
        for (int c = 0; c < AHEAD; c++) {
            add_column<T, FEW>(v[c], x[k + c], sum);
        }
    }
    for (; k < end; k++) {
        add_column<T, FEW>(load(), x[k], sum);
    }
    __syncthreads(); // nobody needs x any more
    T *aside = room + group * FEW * ROWS;
    if (is_second) {
        put_aside<T, FEW, IS_WIDE>(aside, lane, sum);
    }
    __syncthreads();
    if (!is_second) {
        put_out<T, FEW, IS_WIDE>(p, aside, lane, i0, sum);
    }
}

// Dot ---------------------------------------------------------------------------------------------

/* Half of the sums change sides, between lanes APART: known sizes alone keep them in registers. */
template <int HALF, int APART, class T> __device__ inline void meet_halves(T *sum, int lane)
{
    if constexpr (HALF > 0) {
        bool is_upper = (lane & APART) != 0;
#pragma unroll
        for (int i = 0; i < HALF; i++) {
            T low = sum[i], high = sum[i + HALF], keep = is_upper ? high : low;
            sum[i] = keep + __shfl_xor_sync(~0u, is_upper ? low : high, APART);
        }
    } else {
        sum[0] += __shfl_xor_sync(~0u, sum[0], APART);
    }
    if constexpr (APART > 1) {
        meet_halves<HALF / 2, APART / 2>(sum, lane);
    }
}

/* Of COUNT sums in each lane: lane l has the warp's sum number l / (32 / COUNT). */
template <int COUNT, class T> __device__ inline T meet(T *sum, int lane)
{
    meet_halves<COUNT / 2, WARP / 2>(sum, lane);
    return sum[0];
}

/* Columns of s that a warp multiplies at a time, of its thread block's, which end before `end`. */
template <class T, int COLUMNS> struct columns {
    const T *s[COLUMNS];

    /* From row k0 on; past the end the last one again, which is dropped. */
    __device__ inline void begin(const gx_cuda_narrow &p, int64_t first, int64_t end, int64_t k0)
    {
#pragma unroll
        for (int q = 0; q < COLUMNS; q++) {
            s[q] = (const T *)p.s + min(first + q, end - 1) * p.lds + k0;
        }
    }
};

/* v's columns times x, of which room has rows from `at` on. */
template <class T, int FEW, int COLUMNS, bool IS_WIDE>
__device__ inline void add_step(const four<T> v[COLUMNS], const T *room, int lane, T *sum)
{
    constexpr int LENGTH = length<T, FEW>, N = piece<T, IS_WIDE>;
#pragma unroll
    for (int r = 0; r < FEW; r++) {
#pragma unroll
        for (int e = 0; e < FOUR; e += N) {
            line<T, N> x =
                *(const line<T, N> *)(room + r * LENGTH + offset<T, IS_WIDE>(lane, e));
#pragma unroll
            for (int i = 0; i < N; i++) {
#pragma unroll
                for (int q = 0; q < COLUMNS; q++) {
                    sum[q * FEW + r] = fma(v[q].at[e + i], x.at[i], sum[q * FEW + r]);
                }
            }
        }
    }
}

template <class T, int FEW, bool IS_WIDE>
__device__ inline void dot(const gx_cuda_narrow &p, T *room)
{
    constexpr int COLUMNS = FEW > 8 ? 2 : 4, STEPS = 2, LENGTH = length<T, FEW>;
    constexpr int COUNT = COLUMNS * FEW, N = piece<T, IS_WIDE>;
    static_assert(STEPS * ROWS == GX_CUDA_NARROW_STEP, "of a chunk");
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int64_t k0 = blockIdx.y * p.chunk, end = min((blockIdx.x + 1) * p.span, p.cols);
    int n = (int)min(p.chunk, p.rows - k0), full = n / (STEPS * ROWS) * (STEPS * ROWS);
    int64_t c = blockIdx.x * p.span + warp * COLUMNS, ahead = c; // whose loads are under way
    columns<T, COLUMNS> next;
    four<T> v[STEPS][COLUMNS];
    auto load = [&](four<T> *to) {
#pragma unroll
        for (int q = 0; q < COLUMNS; q++) {
#pragma unroll
            for (int e = 0; e < FOUR; e += N) {
                load_piece<T, IS_WIDE>(next.s[q] + offset<T, IS_WIDE>(lane, e), to[q].at + e);
            }
            next.s[q] += ROWS;
        }
    };
    next.begin(p, c, end, k0);
    if (full > 0) {
#pragma unroll
        for (int t = 0; t < STEPS; t++) {
            load(v[t]);
        }
    }
    for (int k = threadIdx.x; k < (n + ROWS - 1) / ROWS * ROWS; k += THREADS) {
#pragma unroll
        for (int r = 0; r < FEW; r++) {
            room[r * LENGTH + k] = k < n ? from_x<T>(p, k0 + k, r) : 0;
        }
    }
    __syncthreads();
    for (; c < end; c += WARPS * COLUMNS) {
        T sum[COUNT] = {};
#pragma unroll 1
        for (int i = 0; i < full; i += STEPS * ROWS) {
            if (i + STEPS * ROWS == full) { // the end of these columns is under way already
                ahead = ahead + WARPS * COLUMNS < end ? ahead + WARPS * COLUMNS : ahead;
                next.begin(p, ahead, end, k0);
            }
#pragma unroll
            for (int t = 0; t < STEPS; t++) {
                add_step<T, FEW, COLUMNS, IS_WIDE>(v[t], room + i + t * ROWS, lane, sum);
                load(v[t]);
            }
        }
        columns<T, COLUMNS> here;
        here.begin(p, c, end, k0);
#pragma unroll 1
        for (int i = full; i < n; i += ROWS) {
            four<T> u[COLUMNS] = {};
#pragma unroll
            for (int q = 0; q < COLUMNS; q++) {
#pragma unroll
                for (int e = 0; e < FOUR; e += N) {
                    int row = i + offset<T, IS_WIDE>(lane, e);
                    if (row < n) {
                        load_piece<T, IS_WIDE>(here.s[q] + row, u[q].at + e);
                    }
                }
            }
            add_step<T, FEW, COLUMNS, IS_WIDE>(u, room + i, lane, sum);
        }
        T total = meet<COUNT>(sum, lane);
        int which = lane / (WARP / COUNT), q = which / FEW, r = which % FEW;
        if (lane % (WARP / COUNT) == 0 && c + q < end && r < p.few) {
            ((T *)p.partial)[((int64_t)blockIdx.y * p.few + r) * p.cols + c + q] = total;
        }
    }
}

template <int FEW> __device__ inline void narrow(const gx_cuda_narrow &p, float *room)
{
    if (p.is_trans) {
        p.is_aligned ? dot<float, FEW, true>(p, room) : dot<float, FEW, false>(p, room);
    } else {
        p.is_aligned ? plain<float, FEW, true>(p, room) : plain<float, FEW, false>(p, room);
    }
}

template <int FEW> __device__ inline void narrow(const gx_cuda_narrow &p, double *room)
{
    p.is_aligned ? plain<double, FEW, true>(p, room) : plain<double, FEW, false>(p, room);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    gx_narrow_f32(const GX_GRID_CONSTANT gx_cuda_narrow p)
{
    __shared__ __align__(16) float room[GX_CUDA_NARROW_ROOM / sizeof(float)];
    if (p.few == 1) {
        narrow<1>(p, room);
    } else if (p.few == 2) {
        narrow<2>(p, room);
    } else if (p.few <= 4) {
        narrow<4>(p, room);
    } else if (p.few <= 8) {
        narrow<8>(p, room);
    } else {
        narrow<16>(p, room);
    }
}

/* Plain, of 8 columns at most. */
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    gx_narrow_f64(const GX_GRID_CONSTANT gx_cuda_narrow p)
{
    __shared__ __align__(16) double room[GX_CUDA_NARROW_ROOM / sizeof(double)];
    if (p.few <= 2) {
        narrow<2>(p, room);
    } else if (p.few <= 4) {
        narrow<4>(p, room);
    } else {
        narrow<8>(p, room);
    }
}

// Sums of parts -----------------------------------------------------------------------------------

template <class T> __device__ inline void parts(const gx_cuda_call &p)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    number alpha = {p.alpha[0], p.alpha[1]}, beta = {p.beta[0], p.beta[1]};
    for (int64_t j = blockIdx.y; j < p.n && i < p.m; j += gridDim.y) {
        if (p.part != GX_CUDA_ALL && !in_triangle(p.uplo, i, j)) {
            continue;
        }
        number sum = {0, 0};
#pragma unroll 8
        for (int64_t t = 0; t < p.chunks; t++) {
            number x = get((const T *)p.a + t * p.lines, j * p.lda + i);
            sum = add(sum, x);
        }
        int64_t at = p.trans == GX_NO_TRANS ? j * p.ldc + i : i * p.ldc + j;
        sum = scaled<T>(alpha, sum);
        if (beta.re != 0 || beta.im != 0) {
            sum = add(sum, scaled<T>(beta, get((const T *)p.c, at)));
        }
        if (p.part == GX_CUDA_REAL_DIAGONAL && i == j) {
            sum.im = 0;
        }
        put((T *)p.c, at, sum);
    }
}
GX_CUDA_KERNELS(gx_parts, parts)
