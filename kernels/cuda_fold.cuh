/*
** Device code: folding numbers, one to a thread, in an order that does not change: what reductions
** (cuda_reduce.cu) and fused programs with folds, interpreted and compiled, have in common.  It
** includes nothing: the functions (cuda_functions.cuh) and gx_reduce_kind come before it.
**
** Parts are added up as doubles, in runs of FOLD_RUN elements whose sums are added to the lane's
** total, so that the error grows with FOLD_RUN + count / (lanes FOLD_RUN), not with the count.
** Lanes are added in a fixed tree, and there are no atomics: the same bits on every run.
**
** Sums of squares are Blue's (J. Blue, "A portable Fortran program to find the Euclidean norm of a
** vector", ACM TOMS 4, 1978, with the constants of LAPACK 3.10): squares of numbers that would
** overflow, of those that would vanish, and of the others are added up apart, the first two scaled.
** Two loads of an element are never needed.
*/
#ifndef GX_CUDA_FOLD_CUH
#define GX_CUDA_FOLD_CUH

enum { FOLD_RUN = 64, FOLD_WARP = 32, FOLD_WARPS = 8 };

struct triple {
    double x, y, z;
};

/* Blue's constants for doubles: beyond BIG and below SMALL squares are scaled. */
constexpr double BIG = 0x1p486, SMALL = 0x1p-511, BIG_SCALE = 0x1p-538, SMALL_SCALE = 0x1p537;

__device__ inline double larger(double x, double y)
{
    return y > x || is_nan(y) ? y : x;
}

__device__ inline double smaller(double x, double y)
{
    return y < x || is_nan(y) ? y : x;
}

__device__ inline triple neutral(int kind)
{
    double x = kind == GX_REDUCE_MIN ? GX_INF : kind == GX_REDUCE_MAX ? -GX_INF : 0;
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
    double x = part < 0 ? -part : part;
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
    if (++s->count == FOLD_RUN) {
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
    for (int distance = FOLD_WARP / 2; distance > 0; distance /= 2) {
        s = fold(kind, s, shuffled(s, distance));
    }
    return s;
}

/* In thread 0: the fold of the block's warps, at most FOLD_WARPS, whole ones. */
__device__ inline triple block_fold(int kind, triple s)
{
    __shared__ triple parts[FOLD_WARPS];
    int thread = threadIdx.y * blockDim.x + threadIdx.x;
    int warps = blockDim.x * blockDim.y / FOLD_WARP;
    s = warp_fold(kind, s);
    __syncthreads(); // what is there may be of a fold before
    if (thread % FOLD_WARP == 0) {
        parts[thread / FOLD_WARP] = s;
    }
    __syncthreads();
    s = thread < warps ? parts[thread] : neutral(kind);
    return thread < FOLD_WARP ? warp_fold(kind, s) : s;
}

/* What a block of threads comes to, as its three doubles of the partial results. */
__device__ inline void leave_part(int kind, const lane *s, double *partial)
{
    triple t = block_fold(kind, lane_end(kind, s));
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        double *out = partial + 3 * ((long long)blockIdx.y * gridDim.x + blockIdx.x);
        out[0] = t.x;
        out[1] = t.y;
        out[2] = t.z;
    }
}

#endif
