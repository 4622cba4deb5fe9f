/*
** Device code: neighbours.  cuda_kernels.h says what each kernel does, foretell.h what may be left
** out.
**
** A sieve is a thread block's: rows stream through it, 1024 at a time, and what may be among the
** best stays in shared memory.  When that has no room for 1024 more, the count-th best value is
** found by radix selection, and what is worse by two errors is dropped; from then on few rows pass.
** A sieve that stays full (rows alike by the thousand) is vague: another backend must look.
**
** Merits are computed as nearest.h says: sixteen threads, each a lane, then the tree, by shuffles.
** Nothing is contracted there; what only foretells uses fused multiply-adds.
*/
#include "cuda_kernels.h"

#include "cuda_near.cuh"

enum { WARP = 32, SLICES = 8, THREADS = 256, STEP = 1024, EACH = STEP / THREADS };
enum { LIST_EACH = GX_NEAREST_MOST / THREADS, LAST_EACH = GX_CUDA_NEAR_LAST / THREADS };

// Numbers -----------------------------------------------------------------------------------------

/* wide: WIDE numbers that are loaded at once. */
template <class T> struct real_of;

template <> struct real_of<float> {
    typedef unsigned bits;
    typedef float4 wide;
    enum { IS_DOUBLE = 0, BITS = 32, ROOM = GX_CUDA_NEAR_ROOM, WIDE = 4 };
    static __device__ bits raw(float x)
    {
        return __float_as_uint(x);
    }
    static __device__ float cooked(bits b)
    {
        return __uint_as_float(b);
    }
};

template <> struct real_of<double> {
    typedef unsigned long long bits;
    typedef double2 wide;
    enum { IS_DOUBLE = 1, BITS = 64, ROOM = GX_CUDA_NEAR_ROOM_F64, WIDE = 2 };
    static __device__ bits raw(double x)
    {
        return (bits)__double_as_longlong(x);
    }
    static __device__ double cooked(bits b)
    {
        return __longlong_as_double((long long)b);
    }
};

template <class T> __device__ inline T seen(gx_sight how, T x, T f)
{
    if constexpr (sizeof(T) == sizeof(double)) {
        return gx_seen_f64(how, x, f);
    } else {
        return gx_seen_f32(how, x, f);
    }
}

/* Bits that are ordered as the numbers are. */
template <class T> __device__ inline typename real_of<T>::bits key_of(T x)
{
    typedef typename real_of<T>::bits bits;
    bits b = real_of<T>::raw(x), sign = (bits)1 << (real_of<T>::BITS - 1);
    return (b & sign) != 0 ? ~b : b | sign;
}

template <class T> __device__ inline T of_key(typename real_of<T>::bits key)
{
    typedef typename real_of<T>::bits bits;
    bits sign = (bits)1 << (real_of<T>::BITS - 1);
    return real_of<T>::cooked((key & sign) != 0 ? key & ~sign : ~key);
}

template <class T> __device__ inline T infinite()
{
    return (T)__longlong_as_double(0x7ff0000000000000LL);
}

// Rows --------------------------------------------------------------------------------------------

template <class T> __device__ inline T gap_term(int metric, T x, T y, T sum)
{
    T gap = x - y;
    return metric == GX_METRIC_SQUARED ? fma(gap, gap, sum) : sum + fabs(gap);
}

/* What the threads of a row come to. */
template <class T> struct slices {
    enum { ROWS = WARP * real_of<T>::WIDE };
    T sum[SLICES][GX_CUDA_FEW][ROWS], odd[SLICES][ROWS];
    double square[SLICES][ROWS];
};

/* What a thread has seen of its rows. */
template <class T, int FEW> struct own_rows {
    double square[real_of<T>::WIDE];
    bool has_any[real_of<T>::WIDE];                          /* a number that is not 0 */
    T sum[FEW + 1][real_of<T>::WIDE], odd[real_of<T>::WIDE]; /* odd: NaN where a number is none */
};

/*
** The thread's columns of its rows, from row i on.  IS_PLAIN: all of them are there and aligned, of
** products without a shift: then many loads are under way at the same time.
*/
template <class T, int FEW, bool IS_PLAIN>
__device__ inline void look_at_columns(const gx_cuda_near &p, int64_t i, own_rows<T, FEW> &own)
{
    constexpr int WIDE = real_of<T>::WIDE;
    typedef typename real_of<T>::wide wide_load;
    const T *a = (const T *)p.a + p.i0, *b = (const T *)p.b, *shift = (const T *)p.shift;
    T *shifted = (T *)p.shifted;
#pragma unroll 8
    for (int64_t l = threadIdx.y; l < p.k; l += SLICES) {
        alignas(16) T x[WIDE];
        if (IS_PLAIN) {
            *(wide_load *)x = __ldg((const wide_load *)(a + i + l * p.lda));
        }
#pragma unroll
        for (int v = 0; v < WIDE; v++) {
            if (!IS_PLAIN) {
                x[v] = a[(i + v < p.rows ? i + v : p.rows - 1) + l * p.lda];
            }
            own.odd[v] += x[v] * (T)0;
            double wide = x[v];
            if (!IS_PLAIN && p.is_shifted != 0) {
                wide -= (double)shift[l];
                if (i + v < p.rows) {
                    shifted[l * p.rows + i + v] = (T)wide;
                }
            }
            own.square[v] = __fma_rn(wide, wide, own.square[v]);
            own.has_any[v] = own.has_any[v] || (IS_PLAIN ? x[v] != 0 : wide != 0);
        }
#pragma unroll
        for (int q = 0; q < FEW; q++) {
            T y = b[l + q * p.ldb];
#pragma unroll
            for (int v = 0; v < WIDE; v++) {
                own.sum[q][v] = !IS_PLAIN && p.has_gaps != 0
                                    ? gap_term(p.metric, x[v], y, own.sum[q][v])
                                    : fma(x[v], y, own.sum[q][v]);
            }
        }
    }
}

/*
** A thread has some rows next to each other, a warp those of its threads; SLICES of them share the
** columns.
*/
template <class T, int FEW> __device__ inline void look_at_rows(const gx_cuda_near &p, slices<T> &s)
{
    constexpr int WIDE = real_of<T>::WIDE;
    int64_t first = (int64_t)blockIdx.x * (WARP * WIDE);
    int mine = threadIdx.x * WIDE;
    uintptr_t start = (uintptr_t)((const T *)p.a + p.i0 + first);
    bool is_plain = start % (sizeof(T) * WIDE) == 0 && p.lda % WIDE == 0 &&
                    first + WARP * WIDE <= p.rows && p.is_shifted == 0 && p.has_gaps == 0;
    own_rows<T, FEW> own = {};
    if (is_plain) {
        look_at_columns<T, FEW, true>(p, first + mine, own);
    } else {
        look_at_columns<T, FEW, false>(p, first + mine, own);
    }
    for (int v = 0; v < WIDE; v++) {
        for (int q = 0; q < FEW; q++) {
            s.sum[threadIdx.y][q][mine + v] = own.sum[q][v];
        }
        s.odd[threadIdx.y][mine + v] = own.odd[v];
        bool is_small = own.square[v] == 0 && own.has_any[v]; // small, not zeros
        s.square[threadIdx.y][mine + v] = is_small ? 0x1p-1074 : own.square[v];
    }
    __syncthreads();
    int t = threadIdx.x + WARP * threadIdx.y; // a row each
    int64_t i = first + t;
    double longest = 0;
    if (t < WARP * WIDE && i < p.rows) {
        double square = s.square[0][t];
        T odd = s.odd[0][t];
        for (int u = 1; u < SLICES; u++) {
            square += s.square[u][t];
            odd += s.odd[u][t];
        }
        for (int q = 0; q < FEW; q++) {
            T value = s.sum[0][q][t];
            for (int u = 1; u < SLICES; u++) {
                value += s.sum[u][q][t];
            }
            ((T *)p.value)[i + q * p.ldv] = value;
        }
        longest = keep_row<T>(p, i, odd, square);
    }
    keep_longest(p, longest);
}

template <class T> __device__ inline void near_rows(const gx_cuda_near &p)
{
    __shared__ slices<T> s;
    switch (p.few) {
    case 0:
        look_at_rows<T, 0>(p, s);
        break;
    case 1:
        look_at_rows<T, 1>(p, s);
        break;
    case 2:
        look_at_rows<T, 2>(p, s);
        break;
    case 3:
        look_at_rows<T, 3>(p, s);
        break;
    default:
        look_at_rows<T, GX_CUDA_FEW>(p, s);
        break;
    }
}

// Sums of differences -----------------------------------------------------------------------------

/*
** Tiles of 64 rows and 64 queries, 16 numbers at a time; a thread has 4 x 4 of them.  Numbers come
** from memory as they lie there: a query's one after the other, or, turned, one of each query.
*/
template <class T, bool IS_SQUARED> __device__ inline void near_gaps(const gx_cuda_near &p)
{
    enum { TILE = 64, DEEP = 16, OWN = 4 };
    __shared__ T x[DEEP][TILE], y[DEEP][TILE + 1];
    int t = threadIdx.x, ti = t % (TILE / OWN), tj = t / (TILE / OWN);
    int64_t i0 = (int64_t)blockIdx.x * TILE, j0 = (int64_t)blockIdx.y * TILE;
    int64_t step_j = p.is_turned ? 1 : p.ldb, step_l = p.is_turned ? p.ldb : 1;
    const T *a = (const T *)p.a + p.i0, *b = (const T *)p.b;
    T sum[OWN][OWN] = {};
    for (int64_t l0 = 0; l0 < p.k; l0 += DEEP) {
        for (int e = t; e < TILE * DEEP; e += THREADS) {
            int i = e % TILE, l = e / TILE;
            int j = p.is_turned ? i : e / DEEP, lb = p.is_turned ? l : e % DEEP;
            bool is_row = i0 + i < p.rows && l0 + l < p.k, is_query = j0 + j < p.n && l0 + lb < p.k;
            x[l][i] = is_row ? a[(l0 + l) * p.lda + i0 + i] : (T)0;
            y[lb][j] = is_query ? b[(j0 + j) * step_j + (l0 + lb) * step_l] : (T)0;
        }
        __syncthreads();
#pragma unroll
        for (int l = 0; l < DEEP; l++) {
#pragma unroll
            for (int u = 0; u < OWN; u++) {
#pragma unroll
                for (int v = 0; v < OWN; v++) {
                    T gap = x[l][ti + u * (TILE / OWN)] - y[l][tj * OWN + v];
                    sum[u][v] += IS_SQUARED ? gap * gap : (T)fabs(gap);
                }
            }
        }
        __syncthreads();
    }
    for (int v = 0; v < OWN; v++) {
        for (int u = 0; u < OWN; u++) {
            int64_t i = i0 + ti + u * (TILE / OWN), j = j0 + tj * OWN + v;
            if (i < p.rows && j < p.n) {
                T *to = (T *)p.value + i + j * p.ldv;
                *to = (p.adds ? *to : (T)0) + sum[u][v];
            }
        }
    }
}

template <class T> __device__ inline void near_apart(const gx_cuda_near &p)
{
    if (p.metric == GX_METRIC_SQUARED) {
        near_gaps<T, true>(p);
    } else {
        near_gaps<T, false>(p);
    }
}

// The sieve ---------------------------------------------------------------------------------------

template <class T> struct sieve {
    union {
        T value[real_of<T>::ROOM];
        double merit[GX_CUDA_NEAR_LAST]; /* at the end */
    };
    int row[real_of<T>::ROOM];
    unsigned bin[256];
    unsigned digit, rest;
    int count, kept;
};

/* The `rest`-th largest of the first n values. */
template <class T> __device__ inline T nth_best(sieve<T> &s, int n, unsigned rest)
{
    typedef typename real_of<T>::bits bits;
    bits prefix = 0, mask = 0;
    for (int at = real_of<T>::BITS - 8; at >= 0; at -= 8) {
        s.bin[threadIdx.x] = 0;
        __syncthreads();
        for (int e = threadIdx.x; e < n; e += THREADS) {
            bits key = key_of<T>(s.value[e]);
            if ((key & mask) == prefix) {
                atomicAdd(&s.bin[(unsigned)(key >> at) & 255], 1u);
            }
        }
        __syncthreads();
        if (threadIdx.x < WARP) { // eight bins a thread, from the top
            unsigned own = 0, all;
            int top = 255 - 8 * (int)threadIdx.x;
            for (int q = 0; q < 8; q++) {
                own += s.bin[top - q];
            }
            all = own;
            for (int step = 1; step < WARP; step *= 2) {
                unsigned other = __shfl_up_sync(~0u, all, step);
                all += threadIdx.x >= (unsigned)step ? other : 0;
            }
            unsigned before = all - own;
            if (before < rest && rest <= all) {
                int digit = top;
                while (before + s.bin[digit] < rest) {
                    before += s.bin[digit--];
                }
                s.digit = (unsigned)digit;
                s.rest = rest - before;
            }
        }
        __syncthreads();
        prefix |= (bits)s.digit << at;
        mask |= (bits)255 << at;
        rest = s.rest;
    }
    return of_key<T>(prefix);
}

/* What can be among the `wanted` best stays; `least` rises to what later rows need. */
template <class T>
__device__ inline void thin_out(sieve<T> &s, int wanted, const gx_errors &e, double &least)
{
    int n = s.count;
    if (n <= wanted) {
        return;
    }
    double other = (double)nth_best<T>(s, n, (unsigned)wanted);
    if (!isfinite(other)) { // rows that are no numbers here tell nothing of others
        return;
    }
    least = fmax(least, gx_lowered(gx_lowered(other, &e), &e));
    if (threadIdx.x == 0) {
        s.kept = 0;
    }
    for (int from = 0; from < n; from += THREADS) { // what is read first goes no further back
        int at = from + (int)threadIdx.x;
        T value = at < n ? s.value[at] : (T)0;
        int row = at < n ? s.row[at] : 0;
        __syncthreads();
        if (at < n && (double)value >= least) {
            int to = atomicAdd(&s.kept, 1);
            s.value[to] = value;
            s.row[to] = row;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        s.count = s.kept;
    }
    __syncthreads();
}

/* Entries that are wanted go behind the others; there is room. */
template <class T> __device__ inline void append(sieve<T> &s, bool is_wanted, T value, int row)
{
    unsigned wanted = __ballot_sync(~0u, is_wanted), lane = threadIdx.x % WARP;
    if (wanted != 0) { // the same for all of a warp
        int first = 0;
        if (lane == 0) {
            first = atomicAdd(&s.count, (int)__popc(wanted));
        }
        first = __shfl_sync(~0u, first, 0);
        if (is_wanted) {
            int to = first + (int)__popc(wanted & ((1u << lane) - 1));
            s.value[to] = value;
            s.row[to] = row;
        }
    }
}

/* Query j: what its list asks for, foretold; how values are seen and what they are wrong by. */
template <class T>
__device__ inline double foresee(const gx_cuda_near &p, int64_t j, gx_sight *how, gx_errors *e)
{
    double bound = p.goes_on != 0 ? p.merit[(j + 1) * p.count - 1] : -infinite<double>();
    gx_prospect q = {(gx_metric)p.metric, p.has_gaps != 0,
                     (double)p.k,         gx_unit_of(real_of<T>::IS_DOUBLE, p.k),
                     p.length[j],         0};
    q.longest = sqrt(p.state->longest) * (1 + q.unit);
    return gx_foretell(&q, bound, how, e);
}

/* How many may be kept where a query's own row is not for it. */
__device__ inline int wanted_of(const gx_cuda_near &p)
{
    return (int)p.count + (p.self != GX_NO_SELF ? 1 : 0);
}

/* Room for another step; false: the sieve stays full. */
template <class T>
__device__ inline bool make_room(sieve<T> &s, int wanted, const gx_errors &e, double &least)
{
    __syncthreads();
    int count = s.count;
    __syncthreads();
    if (count <= real_of<T>::ROOM - STEP) {
        return true;
    }
    thin_out<T>(s, wanted, e, least);
    count = s.count;
    __syncthreads();
    return count <= real_of<T>::ROOM - STEP;
}

template <class T> __device__ inline void start(sieve<T> &s, int count)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        s.count = count;
    }
    __syncthreads();
}

/* A step of a column; the next one is on its way while this one is looked at. */
template <class T>
__device__ inline void load_step(const T *value, int64_t i0, int64_t end, T *step)
{
#pragma unroll
    for (int c = 0; c < EACH; c++) {
        int64_t i = i0 + c * THREADS + threadIdx.x;
        step[c] = i < end ? value[i] : (T)0;
    }
}

template <class T> __device__ inline void near_select(const gx_cuda_near &p)
{
    __shared__ sieve<T> s;
    int64_t j = blockIdx.x, lane = blockIdx.y;
    int64_t slot = j * p.lanes + lane, width = (p.rows + p.lanes - 1) / p.lanes;
    int64_t end = (lane + 1) * width < p.rows ? (lane + 1) * width : p.rows;
    int wanted = wanted_of(p);
    const T *value = (const T *)p.value + j * p.ldv, *factor = (const T *)p.factor;
    T *held_value = (T *)p.held_value + slot * real_of<T>::ROOM;
    int32_t *held_row = p.held_row + slot * real_of<T>::ROOM;
    gx_sight how;
    gx_errors e;
    double least = foresee<T>(p, j, &how, &e);
    bool is_vague = gx_is_extreme_length(real_of<T>::IS_DOUBLE, p.length[j]);
    int before = p.i0 > 0 ? p.held[slot] : 0;
    if (p.i0 > 0) {
        least = fmax(least, p.held_least[slot]);
        for (int t = threadIdx.x; t < before; t += THREADS) {
            s.value[t] = held_value[t];
            s.row[t] = held_row[t];
        }
    }
    start<T>(s, before);
    bool has_factor = p.has_gaps == 0;
    T b_scale = p.row_scale != NULL ? (T)p.b_scale[j] : (T)1;
    T v[EACH], ahead[EACH];
    load_step<T>(value, lane * width, end, ahead);
    for (int64_t i0 = lane * width; i0 < end && !is_vague; i0 += STEP) {
        T bound = (T)least; // errors are generous: it may be rounded
        bool is_wanted[EACH], any = false;
#pragma unroll
        for (int c = 0; c < EACH; c++) {
            v[c] = ahead[c];
        }
        load_step<T>(value, i0 + STEP, end, ahead);
#pragma unroll
        for (int c = 0; c < EACH; c++) {
            int64_t i = i0 + c * THREADS + threadIdx.x;
            T scale = p.row_scale != NULL && i < end ? (T)p.row_scale[i] : (T)1;
            T own = has_factor && i < end ? factor[i] : (T)1;
            v[c] = seen<T>(how, v[c] * scale * b_scale, own);
            is_wanted[c] = i < end && (!(v[c] < bound) || v[c] == -infinite<T>());
            any = any || is_wanted[c];
        }
        if (__syncthreads_or(any) != 0) {
#pragma unroll
            for (int c = 0; c < EACH; c++) {
                T known = isfinite(v[c]) ? v[c] : infinite<T>();
                append<T>(s, is_wanted[c], known,
                          (int)(p.i0 + i0 + c * THREADS + (int)threadIdx.x));
            }
            is_vague = !make_room<T>(s, wanted, e, least);
        }
    }
    thin_out<T>(s, wanted, e, least);
    if (is_vague && threadIdx.x == 0) {
        atomicMax(&p.state->vague, 1u);
    }
    for (int t = threadIdx.x; t < s.count; t += THREADS) {
        held_value[t] = s.value[t];
        held_row[t] = s.row[t];
    }
    if (threadIdx.x == 0) {
        p.held[slot] = s.count;
        p.held_least[slot] = least;
    }
}

// Merits ------------------------------------------------------------------------------------------

__device__ inline double tree_of(double lane, unsigned threads)
{
    for (int half = GX_MERIT_LANES / 2; half > 0; half /= 2) {
        lane += __shfl_down_sync(threads, lane, half, GX_MERIT_LANES);
    }
    return lane;
}

/* The largest |x| of a half of a warp, NaN where there is one; in all of its threads. */
__device__ inline double most_of(double most, unsigned half)
{
    for (int step = GX_MERIT_LANES / 2; step > 0; step /= 2) {
        double other = __shfl_xor_sync(half, most, step, GX_MERIT_LANES);
        most = other > most || other != other ? other : most;
    }
    return most;
}

/* COSINE of rows whose squares are not plain, as gx_merit_scaled(); the other half may not come. */
template <class T>
__device__ __noinline__ double scaled_cosine(const gx_cuda_near &p, const T *a, const double *query)
{
    unsigned half = 0xffffu << (threadIdx.x & 16);
    double most_x = 0, most_y = 0, both = 0, own = 0, other = 0;
    for (int64_t l = threadIdx.x % GX_MERIT_LANES; l < p.k; l += GX_MERIT_LANES) {
        double x = fabs((double)a[l * p.lda]), y = fabs(query[l]);
        most_x = x > most_x || x != x ? x : most_x;
        most_y = y > most_y || y != y ? y : most_y;
    }
    most_x = most_of(most_x, half);
    most_y = most_of(most_y, half);
    if (most_x == 0 || most_y == 0) {
        return 0;
    }
    int of_x, of_y;
    frexp(most_x, &of_x);
    frexp(most_y, &of_y);
    for (int64_t l = threadIdx.x % GX_MERIT_LANES; l < p.k; l += GX_MERIT_LANES) {
        double x = ldexp((double)a[l * p.lda], -of_x), y = ldexp(query[l], -of_y);
        both += x * y;
        own += x * x;
        other += y * y;
    }
    both = tree_of(both, half);
    own = tree_of(own, half);
    other = tree_of(other, half);
    return both / sqrt(own * other);
}

/* Of row i and query j, by the sixteen threads of a half of a warp: in the first of them. */
template <class T> __device__ inline double merit_of(const gx_cuda_near &p, int64_t i, int64_t j)
{
    const T *a = (const T *)p.a + i;
    const double *query = p.query + j * p.k;
    double sum = 0, own = 0;
    bool is_cosine = p.metric == GX_METRIC_COSINE;
#pragma unroll 4
    for (int64_t l = threadIdx.x % GX_MERIT_LANES; l < p.k; l += GX_MERIT_LANES) {
        double x = (double)a[l * p.lda], y = query[l], gap = x - y;
        sum += p.metric == GX_METRIC_SQUARED    ? gap * gap
               : p.metric == GX_METRIC_ABSOLUTE ? fabs(gap)
                                                : x * y;
        own += is_cosine ? x * x : 0;
    }
    sum = tree_of(sum, ~0u);
    own = tree_of(own, ~0u);
    if (is_cosine) {
        double other = p.square[j];
        own = __shfl_sync(~0u, own, 0, GX_MERIT_LANES);
        bool is_plain = gx_merit_is_plain(own) && gx_merit_is_plain(other);
        return is_plain ? sum / sqrt(own * other) : scaled_cosine<T>(p, a, query);
    }
    return p.metric == GX_METRIC_DOT ? sum : -sum;
}

template <class T> __device__ inline void near_merit(const gx_cuda_near &p)
{
    int64_t pairs = (int64_t)gridDim.x * (THREADS / GX_MERIT_LANES);
    int64_t first = (int64_t)blockIdx.x * (THREADS / GX_MERIT_LANES);
    int own = threadIdx.x / GX_MERIT_LANES;
    for (int64_t e0 = first; e0 < p.n; e0 += pairs) { // all of a block go on together
        int64_t e = e0 + own < p.n ? e0 + own : p.n - 1;
        double merit = merit_of<T>(p, p.row[e], p.column[e]);
        if (threadIdx.x % GX_MERIT_LANES == 0 && e0 + own < p.n) {
            p.merit[e] = merit;
        }
    }
}

// The end -----------------------------------------------------------------------------------------

__device__ inline bool is_better(double a, int64_t a_row, double b, int64_t b_row)
{
    return a > b || (a == b && a_row < b_row);
}

/* The best first; n entries of merit and row, padded to a power of two. */
template <class T> __device__ inline void sort_merits(sieve<T> &s, int n)
{
    int all = 1;
    while (all < n) {
        all *= 2;
    }
    for (int t = n + (int)threadIdx.x; t < all; t += THREADS) {
        s.merit[t] = -infinite<double>();
        s.row[t] = INT32_MAX;
    }
    __syncthreads();
    for (int size = 2; size <= all; size *= 2) {
        for (int step = size / 2; step > 0; step /= 2) {
            for (int t = threadIdx.x; t < all; t += THREADS) {
                int u = t ^ step;
                bool is_turned = (t & size) != 0;
                if (u > t && is_better(s.merit[u], s.row[u], s.merit[t], s.row[t]) != is_turned) {
                    double merit = s.merit[t];
                    int row = s.row[t];
                    s.merit[t] = s.merit[u];
                    s.row[t] = s.row[u];
                    s.merit[u] = merit;
                    s.row[u] = row;
                }
            }
            __syncthreads();
        }
    }
}

/* How many of n entries, the best first, are better than one: row + add are their numbers. */
template <class R>
__device__ inline int better_than(const double *merit, const R *row, int64_t add, int n, double x,
                                  int64_t x_row)
{
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (is_better(merit[middle], (int64_t)row[middle] + add, x, x_row)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The n entries of the sieve, the best first, join the list of query j. */
template <class T>
__device__ inline void join_list(const gx_cuda_near &p, sieve<T> &s, int64_t j, int n)
{
    double *merit = p.merit + j * p.count, kept[LIST_EACH];
    int64_t *index = p.index + j * p.count, kept_index[LIST_EACH];
    int place[LIST_EACH], own_place[LAST_EACH], count = (int)p.count;
    int old = p.goes_on != 0 ? count : 0;
#pragma unroll
    for (int c = 0; c < LIST_EACH; c++) {
        int t = c * THREADS + (int)threadIdx.x;
        place[c] = count;
        if (t < old) {
            kept[c] = merit[t];
            kept_index[c] = index[t];
            place[c] = t + better_than(s.merit, s.row, p.first_index, n, kept[c], kept_index[c]);
        }
    }
#pragma unroll
    for (int c = 0; c < LAST_EACH; c++) {
        int t = c * THREADS + (int)threadIdx.x;
        own_place[c] = t >= n ? count
                              : t + better_than(merit, index, 0, old, s.merit[t],
                                                (int64_t)s.row[t] + p.first_index);
    }
    __syncthreads(); // all of the old list has been read
#pragma unroll
    for (int c = 0; c < LIST_EACH; c++) {
        if (place[c] < count) {
            merit[place[c]] = kept[c];
            index[place[c]] = kept_index[c];
        }
    }
#pragma unroll
    for (int c = 0; c < LAST_EACH; c++) {
        if (own_place[c] < count) {
            int t = c * THREADS + (int)threadIdx.x;
            merit[own_place[c]] = s.merit[t];
            index[own_place[c]] = (int64_t)s.row[t] + p.first_index;
        }
    }
    for (int t = n + (int)threadIdx.x; t < count && old == 0; t += THREADS) {
        merit[t] = -infinite<double>();
        index[t] = INT64_MAX;
    }
}

/* What the lanes hold, through one sieve. */
template <class T>
__device__ inline bool gather(const gx_cuda_near &p, sieve<T> &s, int64_t j, const gx_errors &e,
                              double &least)
{
    int wanted = wanted_of(p), each = 1, most = 0;
    const int32_t *held = p.held + j * p.lanes;
    for (int g = 0; g < p.lanes; g++) {
        most = held[g] > most ? held[g] : most;
        least = fmax(least, p.held_least[j * p.lanes + g]);
    }
    while (each < most) {
        each *= 2;
    }
    start<T>(s, 0);
    for (int64_t t0 = 0; t0 < (int64_t)p.lanes * each; t0 += STEP) {
#pragma unroll
        for (int c = 0; c < EACH; c++) {
            int64_t t = t0 + c * THREADS + threadIdx.x, g = t / each, at = t % each;
            bool is_there = g < p.lanes && at < held[g < p.lanes ? g : 0];
            int64_t from = (j * p.lanes + (is_there ? g : 0)) * real_of<T>::ROOM + at;
            T value = is_there ? ((const T *)p.held_value)[from] : (T)0;
            is_there = is_there && (double)value >= least;
            append<T>(s, is_there, value, is_there ? p.held_row[from] : 0);
        }
        if (!make_room<T>(s, wanted, e, least)) {
            return false;
        }
    }
    thin_out<T>(s, wanted, e, least);
    int count = s.count;
    __syncthreads();
    return count <= GX_CUDA_NEAR_LAST;
}

template <class T> __device__ inline void near_finish(const gx_cuda_near &p)
{
    __shared__ sieve<T> s;
    int64_t j = blockIdx.x;
    gx_sight how;
    gx_errors e;
    if (p.state->bad != 0) {
        if (j == 0 && threadIdx.x == 0) {
            p.state->outcome = INT32_MAX - (int32_t)p.state->bad + 1;
        }
        return;
    }
    double least = foresee<T>(p, j, &how, &e);
    bool is_vague = p.state->vague != 0 || !gather<T>(p, s, j, e, least);
    if (is_vague) {
        if (threadIdx.x == 0) {
            p.state->outcome = -1;
        }
        return;
    }
    int n = s.count, half = threadIdx.x / GX_MERIT_LANES;
    for (int c0 = 0; c0 < n; c0 += THREADS / GX_MERIT_LANES) {
        int c = c0 + half < n ? c0 + half : n - 1, row = s.row[c];
        bool is_own = p.self != GX_NO_SELF && p.first_index + row == p.self + j;
        double merit = merit_of<T>(p, row, j);
        if (threadIdx.x % GX_MERIT_LANES == 0 && c0 + half < n) {
            s.merit[c] = is_own ? -infinite<double>() : merit; // of the values none is needed now
        }
        __syncthreads();
        if (threadIdx.x % GX_MERIT_LANES == 0 && c0 + half < n && is_own) {
            s.row[c] = INT32_MAX;
        }
    }
    sort_merits<T>(s, n);
    bool has_own = n > 0 && s.row[n - 1] == INT32_MAX; // it is the last
    join_list<T>(p, s, j, has_own ? n - 1 : n);
}

// By name -----------------------------------------------------------------------------------------

#define NEAR_KERNEL(NAME, BODY, SUFFIX, T)                                                         \
    extern "C" __global__ void __launch_bounds__(THREADS)                                          \
        NAME##_##SUFFIX(const GX_GRID_CONSTANT gx_cuda_near p)                                    \
    {                                                                                              \
        BODY<T>(p);                                                                                \
    }
#define NEAR_KERNELS(NAME, BODY)                                                                   \
    NEAR_KERNEL(NAME, BODY, f64, double)                                                           \
    NEAR_KERNEL(NAME, BODY, f32, float)

NEAR_KERNELS(gx_near_rows, near_rows)
NEAR_KERNELS(gx_near_apart, near_apart)
NEAR_KERNELS(gx_near_select, near_select)
NEAR_KERNELS(gx_near_finish, near_finish)
NEAR_KERNELS(gx_near_merit, near_merit)
