/*
** Device code: reductions, in two stages.
**
** The first stage leaves `chunks` partial results for every line (one line where the whole block is
** folded), the second folds those.  How the elements are shared out depends on the block's shape
** alone, lanes are added in a fixed tree, and there are no atomics: the same bits on every run and
** every device.  Parts are added up as doubles, in runs of RUN elements whose sums are added to the
** lane's total, so that the error grows with RUN + count / (lanes RUN), not with the count.
**
** Sums of squares are Blue's (J. Blue, "A portable Fortran program to find the Euclidean norm of a
** vector", ACM TOMS 4, 1978, with the constants of LAPACK 3.10): squares of numbers that would
** overflow, of those that would vanish, and of the others are added up apart, the first two scaled.
** Two loads of an element are never needed.
**
** Stage 1 shares the work out like this (256 threads a block, 8 warps):
**   whole    a block of threads takes pieces of 1024 rows x 8 columns, one warp a column, and goes
**            on `chunks` pieces further; a block without gaps between its columns is seen as
**            columns of 1024
**   columns  a warp takes one chunk of one column
**   rows     a thread takes one chunk of columns of one row
*/
#include "cuda_element.cuh"

constexpr int WARP = 32, WARPS = 8, PIECE = 1024, RUN = 64;

// What is folded ----------------------------------------------------------------------------------

struct triple {
    double x, y, z;
};

/* Blue's constants for doubles: beyond BIG and below SMALL squares are scaled. */
constexpr double BIG = 0x1p486, SMALL = 0x1p-511, BIG_SCALE = 0x1p-538, SMALL_SCALE = 0x1p537;

__device__ inline double larger(double x, double y)
{
    return y > x || isnan(y) ? y : x;
}

__device__ inline double smaller(double x, double y)
{
    return y < x || isnan(y) ? y : x;
}

__device__ inline triple neutral(int kind)
{
    double x = kind == GX_REDUCE_MIN ? INFINITY : kind == GX_REDUCE_MAX ? -INFINITY : 0;
    return {x, 0, 0};
}

__device__ inline triple fold(int kind, triple s, triple t)
{
    switch (kind) {
    case GX_REDUCE_MAX_ABS:
    case GX_REDUCE_MAX:
        return {larger(s.x, t.x), 0, 0};
    case GX_REDUCE_MIN:
        return {smaller(s.x, t.x), 0, 0};
    default:
        return {s.x + t.x, s.y + t.y, s.z + t.z};
    }
}

__device__ inline void add_square(triple *s, double part)
{
    double x = fabs(part);
    if (x > BIG) {
        s->x += (x * BIG_SCALE) * (x * BIG_SCALE);
    } else if (x < SMALL) {
        s->z += (x * SMALL_SCALE) * (x * SMALL_SCALE);
    } else {
        s->y += x * x; // NaN comes here
    }
}

/* One element as something that fold() takes. */
template <class T> __device__ inline triple term(int kind, number e)
{
    triple s = {0, 0, 0};
    switch (kind) {
    case GX_REDUCE_SUMSQ:
        add_square(&s, e.re);
        if (facts<T>::is_complex) {
            add_square(&s, e.im);
        }
        return s;
    case GX_REDUCE_MAX_ABS:
    case GX_REDUCE_COL_ABS:
    case GX_REDUCE_ROW_ABS:
        return {magnitude<T>(e), 0, 0};
    case GX_REDUCE_MIN:
    case GX_REDUCE_MAX:
        return {e.re, 0, 0};
    default:
        return {e.re, e.im, 0};
    }
}

/* A lane's total: a run of terms, and the sum of the runs before it. */
struct lane {
    triple run, total;
    int count;
};

__device__ inline lane lane_of(int kind)
{
    return {neutral(kind), neutral(kind), 0};
}

__device__ inline void lane_add(int kind, lane *s, triple t)
{
    s->run = fold(kind, s->run, t);
    if (++s->count == RUN) {
        s->total = fold(kind, s->total, s->run);
        s->run = neutral(kind);
        s->count = 0;
    }
}

__device__ inline triple lane_end(int kind, const lane *s)
{
    return fold(kind, s->total, s->run);
}

__device__ inline triple shuffled(triple s, int distance)
{
    return {__shfl_down_sync(~0u, s.x, distance), __shfl_down_sync(~0u, s.y, distance),
            __shfl_down_sync(~0u, s.z, distance)};
}

/* In lane 0: the fold of the warp's lanes. */
__device__ inline triple warp_fold(int kind, triple s)
{
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        s = fold(kind, s, shuffled(s, distance));
    }
    return s;
}

/* In thread 0: the fold of the block's warps. */
__device__ inline triple block_fold(int kind, triple s)
{
    __shared__ triple parts[WARPS];
    s = warp_fold(kind, s);
    if (threadIdx.x % WARP == 0) {
        parts[threadIdx.x / WARP] = s;
    }
    __syncthreads();
    s = threadIdx.x < WARPS ? parts[threadIdx.x] : neutral(kind);
    return threadIdx.x < WARP ? warp_fold(kind, s) : s;
}

// The first stage ---------------------------------------------------------------------------------

/* Rows i0 .. i1 - 1 of a column, the warp's lanes one after the other. */
template <class T>
__device__ inline void add_column(int kind, lane *s, const T *column, int64_t i0, int64_t i1)
{
    constexpr int STEPS = 4;
    for (int64_t i = i0 + threadIdx.x % WARP; i < i1; i += STEPS * WARP) {
        number e[STEPS];
#pragma unroll
        for (int q = 0; q < STEPS; q++) {
            e[q] = i + q * WARP < i1 ? get(column, i + q * WARP) : number{0, 0};
        }
#pragma unroll
        for (int q = 0; q < STEPS; q++) {
            if (i + q * WARP < i1) {
                lane_add(kind, s, term<T>(kind, e[q]));
            }
        }
    }
}

template <class T> __device__ inline void reduce_all(const gx_cuda_call &p)
{
    const T *a = (const T *)p.a;
    int64_t m = p.m, n = p.n, lda = p.lda, count = p.m * p.n;
    bool is_flat = lda == m || n == 1;
    if (is_flat) {
        m = lda = PIECE;
        n = (count + PIECE - 1) / PIECE;
    }
    int64_t down = (m + PIECE - 1) / PIECE, pieces = down * ((n + WARPS - 1) / WARPS);
    lane s = lane_of(p.kind);
    for (int64_t piece = blockIdx.x; piece < pieces; piece += p.chunks) {
        int64_t j = piece / down * WARPS + threadIdx.x / WARP, i0 = piece % down * PIECE;
        if (j < n) {
            int64_t i1 = i0 + PIECE < m ? i0 + PIECE : m;
            if (is_flat && j == n - 1) {
                i1 = count - j * PIECE;
            }
            add_column(p.kind, &s, a + j * lda, i0, i1);
        }
    }
    triple t = block_fold(p.kind, lane_end(p.kind, &s));
    if (threadIdx.x == 0) {
        double *out = p.partial + 3 * (int64_t)blockIdx.x;
        out[0] = t.x;
        out[1] = t.y;
        out[2] = t.z;
    }
}

/* Result `at` of the lines: one double of magnitudes, two of sums. */
__device__ inline void put_line(const gx_cuda_call &p, double *to, int64_t at, triple t)
{
    if (p.kind == GX_REDUCE_COL_ABS || p.kind == GX_REDUCE_ROW_ABS) {
        to[at] = t.x;
    } else {
        to[2 * at] = t.x;
        to[2 * at + 1] = t.y;
    }
}

template <class T> __device__ inline void reduce_columns(const gx_cuda_call &p)
{
    int64_t length = (p.m + p.chunks - 1) / p.chunks;
    int64_t warps = (int64_t)gridDim.x * WARPS, tasks = p.chunks * p.lines;
    for (int64_t task = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP; task < tasks;
         task += warps) {
        int64_t chunk = task / p.lines, j = task % p.lines, i0 = chunk * length;
        lane s = lane_of(p.kind);
        add_column(p.kind, &s, (const T *)p.a + j * p.lda, i0,
                   i0 + length < p.m ? i0 + length : p.m);
        triple t = warp_fold(p.kind, lane_end(p.kind, &s));
        if (threadIdx.x % WARP == 0) {
            put_line(p, p.partial, task, t);
        }
    }
}

template <class T> __device__ inline void reduce_rows(const gx_cuda_call &p)
{
    int64_t length = (p.n + p.chunks - 1) / p.chunks;
    for (int64_t chunk = blockIdx.y; chunk < p.chunks; chunk += gridDim.y) {
        int64_t j0 = chunk * length, j1 = j0 + length < p.n ? j0 + length : p.n;
        for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.lines;
             i += (int64_t)gridDim.x * blockDim.x) {
            lane s = lane_of(p.kind);
            for (int64_t j = j0; j < j1; j++) {
                lane_add(p.kind, &s, term<T>(p.kind, get((const T *)p.a, j * p.lda + i)));
            }
            put_line(p, p.partial, chunk * p.lines + i, lane_end(p.kind, &s));
        }
    }
}

template <class T> __device__ inline void reduce(const gx_cuda_call &p)
{
    switch (p.kind) {
    case GX_REDUCE_COL_ABS:
    case GX_REDUCE_COL_SUM:
        return reduce_columns<T>(p);
    case GX_REDUCE_ROW_ABS:
    case GX_REDUCE_ROW_SUM:
        return reduce_rows<T>(p);
    default:
        return reduce_all<T>(p);
    }
}
GX_CUDA_KERNELS(gx_reduce, reduce)

// The second stage --------------------------------------------------------------------------------

/* Blue's three sums as scale^2 ssq, as LAPACK's dnrm2 joins them. */
__device__ inline void join_squares(triple s, double *scale, double *ssq)
{
    *scale = 1;
    *ssq = s.y;
    if (s.x > 0 || isnan(s.x)) {
        bool is_felt = s.y > 0 || isnan(s.y);
        *scale = 1 / BIG_SCALE;
        *ssq = is_felt ? s.x + (s.y * BIG_SCALE) * BIG_SCALE : s.x;
    } else if (s.z > 0 && !(s.y > 0 || isnan(s.y))) {
        *scale = 1 / SMALL_SCALE;
        *ssq = s.z;
    } else if (s.z > 0) {
        *ssq = s.y + (s.z / SMALL_SCALE) / SMALL_SCALE;
    }
}

__device__ inline void end_all(const gx_cuda_call &p)
{
    lane s = lane_of(p.kind);
    for (int64_t q = threadIdx.x; q < p.chunks; q += blockDim.x) {
        lane_add(p.kind, &s, {p.partial[3 * q], p.partial[3 * q + 1], p.partial[3 * q + 2]});
    }
    triple t = block_fold(p.kind, lane_end(p.kind, &s));
    if (threadIdx.x != 0) {
        return;
    }
    if (p.kind == GX_REDUCE_SUMSQ) {
        join_squares(t, &p.out[0], &p.out[1]);
        return;
    }
    p.out[0] = t.x;
    if (p.kind == GX_REDUCE_SUM) {
        p.out[1] = t.y;
    }
}

extern "C" __global__ void gx_reduce_end(const __grid_constant__ gx_cuda_call p)
{
    if (p.kind < GX_REDUCE_COL_ABS) {
        end_all(p);
        return;
    }
    bool is_abs = p.kind == GX_REDUCE_COL_ABS || p.kind == GX_REDUCE_ROW_ABS;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.lines;
         i += (int64_t)gridDim.x * blockDim.x) {
        lane s = lane_of(p.kind);
        for (int64_t q = 0; q < p.chunks; q++) {
            int64_t at = q * p.lines + i;
            triple t = {p.partial[is_abs ? at : 2 * at], is_abs ? 0 : p.partial[2 * at + 1], 0};
            lane_add(p.kind, &s, t);
        }
        put_line(p, p.out, i, lane_end(p.kind, &s));
    }
}
