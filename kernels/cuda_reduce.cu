/*
** Device code: reductions, in two stages.
**
** The first stage leaves `chunks` partial results for every line (one line where the whole block is
** folded), the second folds those (cuda_fold.cuh).  How the elements are shared out depends on the
** block's shape alone: the same bits on every run and every device.
**
** Stage 1 shares the work out like this (256 threads a block, 8 warps):
**   whole    a block of threads takes pieces of 1024 rows x 8 columns, one warp a column, and goes
**            on `chunks` pieces further; a block without gaps between its columns is seen as
**            columns of 1024
**   columns  a warp takes one chunk of one column
**   rows     a thread takes one chunk of columns of one row
*/
#include "cuda_element.cuh"

#include "cuda_fold.cuh"

constexpr int WARP = 32, WARPS = 8, PIECE = 1024;

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
    leave_part(p.kind, &s, p.partial);
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

extern "C" __global__ void gx_reduce_end(const GX_GRID_CONSTANT gx_cuda_call p)
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
