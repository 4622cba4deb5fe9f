/*
** Device code: products with a sparse panel.  cuda_kernels.h says what each kernel does.
**
** Rows may be of one entry or of millions, so what is shared out is rows and entries together, as
** they follow each other: row i has its entries and one end, and part t of the panel is the items
** [t chunk, (t + 1) chunk) (D.  Merrill and M.  Garland, 2016).  A row that a border would cut
** belongs to the later part as a whole, unless it is longer than a chunk: such a row leaves a sum
** in each part that it touches, which gx_spmm_join adds up in their order.  So nothing depends on
** who is first, and a panel without long rows is written once and never looked at again.
**
** gx_spmm_gather, lines: a team of G lanes takes a part, each lane V lines (16 bytes of a column of
** b).  The team reads G indexes and values at a time, ahead of their use, and has UNROLL columns of
** b under way.  gx_spmm_line, few lines: a thread block takes a part, and gives as many lanes to a
** row as the part's rows have entries on average.
**
** Scattered, entries are added to c by atomic operations, in an order of chance.
*/
#include "cuda_kernels.h"

enum { WARP = 32, THREADS = GX_CUDA_SPARSE_THREADS, UNROLL = 8 };

// Numbers -----------------------------------------------------------------------------------------

template <class T> constexpr bool is_pair = false;
template <> constexpr bool is_pair<float2> = true;
template <> constexpr bool is_pair<double2> = true;

template <class T> __device__ inline void clear(T &x)
{
    x = T{};
}

/* sum + x y */
template <class T> __device__ inline T fma_of(T x, T y, T sum)
{
    if constexpr (is_pair<T>) {
        return {fma(x.x, y.x, fma(-x.y, y.y, sum.x)), fma(x.x, y.y, fma(x.y, y.x, sum.y))};
    } else {
        return fma(x, y, sum);
    }
}

template <class T> __device__ inline T sum_of(T x, T y)
{
    if constexpr (is_pair<T>) {
        return {x.x + y.x, x.y + y.y};
    } else {
        return x + y;
    }
}

template <class T> __device__ inline T conj_of(T x, bool is_conj)
{
    if constexpr (is_pair<T>) {
        x.y = is_conj ? -x.y : x.y;
    }
    return x;
}

template <class T> __device__ inline void scalar_of(const double *s, T &x)
{
    if constexpr (is_pair<T>) {
        x.x = s[0], x.y = s[1];
    } else {
        x = (T)s[0];
    }
}

/* From another lane of the mask's. */
template <class T> __device__ inline T lane_of(unsigned mask, T x, int lane, int width)
{
    if constexpr (is_pair<T>) {
        return {__shfl_sync(mask, x.x, lane, width), __shfl_sync(mask, x.y, lane, width)};
    } else {
        return __shfl_sync(mask, x, lane, width);
    }
}

#if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 600
/* Such devices add no doubles by themselves. */
__device__ inline void atomicAdd(double *x, double y)
{
    unsigned long long *at = (unsigned long long *)x, seen = *at, expected;
    do {
        expected = seen;
        double sum = __longlong_as_double((long long)expected) + y;
        seen = atomicCAS(at, expected, (unsigned long long)__double_as_longlong(sum));
    } while (seen != expected);
}
#endif

template <class T> __device__ inline void add_atomically(T *x, T y)
{
    if constexpr (is_pair<T>) {
        atomicAdd(&x->x, y.x);
        atomicAdd(&x->y, y.y);
    } else {
        atomicAdd(x, y);
    }
}

/* V numbers that lie side by side, in one access. */
template <class T, int V> struct alignas(V * sizeof(T)) pack {
    T x[V];
};

/* alpha times the sum, to c or on top of it. */
template <class T, int V>
__device__ inline void finish(const gx_cuda_spmm &p, T *c, const pack<T, V> &sum)
{
    pack<T, V> out;
    T alpha;
    scalar_of(p.alpha, alpha);
    if (p.is_fresh == 0) {
        out = *(const pack<T, V> *)c;
    }
#pragma unroll
    for (int v = 0; v < V; v++) {
        if (p.is_fresh != 0) {
            clear(out.x[v]);
        }
        out.x[v] = fma_of(alpha, sum.x[v], out.x[v]);
    }
    *(pack<T, V> *)c = out;
}

// Parts -------------------------------------------------------------------------------------------

/* A border between parts: the row that is next, or under way; the entry that is next. */
struct border {
    int64_t row, entry;
};

/* The lanes of this thread's team in the warp. */
template <int G> __device__ inline unsigned team_mask()
{
    return G == WARP ? 0xffffffffu
                     : ((1u << (G & 31)) - 1) << (threadIdx.x % WARP & ~(unsigned)(G - 1));
}

/*
** Border number `part`, found by the G lanes together: the rows whose end is among the items before
** it are those before `row`.
*/
template <int G> __device__ inline border border_of(const gx_cuda_spmm &p, int64_t part)
{
    unsigned mask = team_mask<G>(), lane = threadIdx.x % G;
    int64_t first = p.start[0], items = part * p.chunk, low = 0, high = p.rows;
    if (items >= p.rows + p.entries) {
        return {p.rows, first + p.entries};
    }
    while (low < high) {
        int64_t step = (high - low) / (G + 1) + 1, at = low + (lane + 1) * step - 1;
        bool is_before = at < high && (int64_t)p.start[at + 1] - first + at + 1 <= items;
        unsigned found = __ballot_sync(mask, is_before) & mask;
        low += __popc(found) * step;
        high = low + step - 1 < high ? low + step - 1 : high;
    }
    int64_t start = p.start[low], length = p.start[low + 1] - start;
    return {low, length <= p.chunk ? start : first + items - low};
}

template <bool WIDE> __device__ inline int64_t column_of(const gx_cuda_spmm &p, int64_t entry)
{
    return WIDE ? ((const int64_t *)p.index)[entry] : ((const int32_t *)p.index)[entry];
}

/* Sums that a part leaves: of the row that began before it; of the one that goes on behind it. */
template <class T> __device__ inline T *head_of(const gx_cuda_spmm &p, int64_t part)
{
    return (T *)p.slot + 2 * part * p.m;
}
template <class T> __device__ inline T *tail_of(const gx_cuda_spmm &p, int64_t part)
{
    return (T *)p.slot + (2 * part + 1) * p.m;
}

// Gathered, lines ---------------------------------------------------------------------------------

template <class T, int V, int G, bool WIDE> struct gathering {
    const gx_cuda_spmm &p;
    int64_t part, line; /* line: of the first of this lane's V */
    border from, to;
    bool is_open; /* the first row began in an earlier part */
    int64_t row, end, ended;
    pack<T, V> sum;

    __device__ gathering(const gx_cuda_spmm &call, int64_t number) : p(call), part(number)
    {
        line = ((int64_t)blockIdx.y * G + threadIdx.x % G) * V;
        from = border_of<G>(p, part);
        to = border_of<G>(p, part + 1);
        row = from.row;
        is_open = row < p.rows && from.entry > p.start[row];
        end = row < p.rows ? p.start[row + 1] : from.entry;
        ended = -1;
        clear_sum();
    }

    __device__ void clear_sum()
    {
#pragma unroll
        for (int v = 0; v < V; v++) {
            clear(sum.x[v]);
        }
    }

    /* The row ends here; and those behind it that have no entry. */
    __device__ void end_rows(int64_t entry)
    {
        while (row < to.row && end == entry) {
            if (is_open && row == from.row) {
                ended = row;
                if (line < p.m) {
                    *(pack<T, V> *)(head_of<T>(p, part) + line) = sum;
                }
            } else if (line < p.m) {
                finish<T, V>(p, (T *)p.c + row * p.ldc + line, sum);
            }
            clear_sum();
            row++;
            end = row < p.rows ? p.start[row + 1] : end;
        }
    }

    __device__ void run()
    {
        unsigned mask = team_mask<G>();
        int lane = threadIdx.x % G;
        int64_t at = from.entry + lane;
        int64_t next_column = 0;
        T next_value;
        clear(next_value);
        if (at < to.entry) {
            next_column = column_of<WIDE>(p, at);
            next_value = ((const T *)p.value)[at];
        }
        end_rows(from.entry);
        for (int64_t e = from.entry; e < to.entry; e += G) {
            int64_t column = next_column;
            T value = conj_of(next_value, p.is_conj != 0);
            at += G;
            if (at < to.entry) {
                next_column = column_of<WIDE>(p, at);
                next_value = ((const T *)p.value)[at];
            }
            int count = to.entry - e < G ? (int)(to.entry - e) : G;
            for (int k = 0; k < count; k += UNROLL) {
                pack<T, V> x[UNROLL];
#pragma unroll
                for (int u = 0; u < UNROLL; u++) {
                    int64_t j = WIDE ? __shfl_sync(mask, column, k + u, G)
                                     : (int64_t)__shfl_sync(mask, (int)column, k + u, G);
                    if (k + u < count && line < p.m) {
                        x[u] = *(const pack<T, V> *)((const T *)p.b + j * p.ldb + line);
                    }
                }
#pragma unroll
                for (int u = 0; u < UNROLL; u++) {
                    T w = lane_of(mask, value, k + u, G);
                    if (k + u < count) {
#pragma unroll
                        for (int v = 0; v < V; v++) {
                            sum.x[v] = fma_of(w, x[u].x[v], sum.x[v]);
                        }
                        end_rows(e + k + u + 1);
                    }
                }
            }
        }
        leave();
    }

    /* What goes on in the next part. */
    __device__ void leave()
    {
        if (row < p.rows && to.entry > p.start[row] && line < p.m) {
            bool goes_through = is_open && row == from.row;
            T *slot = goes_through ? head_of<T>(p, part) : tail_of<T>(p, part);
            *(pack<T, V> *)(slot + line) = sum;
        }
        if (threadIdx.x % G == 0 && blockIdx.y == 0) {
            p.ended[part] = ended;
        }
    }
};

template <class T, int V, int G, bool WIDE> __device__ inline void gather(const gx_cuda_spmm &p)
{
    int64_t part = (int64_t)blockIdx.x * (THREADS / G) + threadIdx.x / G;
    if (part < p.parts) { // all of a team
        gathering<T, V, G, WIDE> g(p, part);
        g.run();
    }
}

template <class T, int V> __device__ inline void gather_teams(const gx_cuda_spmm &p)
{
    switch (p.lanes) {
    case 8:
        gather<T, V, 8, false>(p);
        break;
    case 16:
        gather<T, V, 16, false>(p);
        break;
    default:
        gather<T, V, WARP, false>(p);
    }
}

template <class T> __device__ inline void gather_lines(const gx_cuda_spmm &p)
{
    if (p.is_wide != 0) {
        gather<T, 1, WARP, true>(p);
    } else if (!is_pair<T> && p.side_by_side > 1) {
        gather_teams<T, is_pair<T> ? 1 : 16 / sizeof(T)>(p);
    } else {
        gather_teams<T, 1>(p);
    }
}

// Few lines ---------------------------------------------------------------------------------------

/* The part of a thread block, found by its first two warps. */
__device__ inline void block_borders(const gx_cuda_spmm &p, border *from, border *to)
{
    __shared__ border shared[2];
    int warp = threadIdx.x / WARP;
    if (warp < 2) {
        border b = border_of<WARP>(p, (int64_t)blockIdx.x + warp);
        if (threadIdx.x % WARP == 0) {
            shared[warp] = b;
        }
    }
    __syncthreads();
    *from = shared[0];
    *to = shared[1];
}

/* The sum of `width` lanes, a power of two, in the first of them. */
template <class T> __device__ inline T fold_lanes(T sum, int width)
{
    for (int half = width / 2; half > 0; half /= 2) {
        T other = lane_of(0xffffffffu, sum, (threadIdx.x % WARP) + half, WARP);
        sum = sum_of(sum, other); // lanes behind the first half hold nothing that is used
    }
    return sum;
}

/* Entries [e, end) of a row, by the whole block: the sum in thread 0. */
template <class T>
__device__ inline T long_sum(const gx_cuda_spmm &p, int64_t e, int64_t end, int64_t line)
{
    __shared__ T shared[THREADS / WARP];
    T sum, zero;
    clear(sum);
    clear(zero);
    for (int64_t k = e + threadIdx.x; k < end; k += THREADS) {
        int64_t j = p.is_wide != 0 ? column_of<true>(p, k) : column_of<false>(p, k);
        T value = conj_of(((const T *)p.value)[k], p.is_conj != 0);
        sum = fma_of(value, ((const T *)p.b)[j * p.ldb + line], sum);
    }
    sum = fold_lanes(sum, WARP);
    if (threadIdx.x % WARP == 0) {
        shared[threadIdx.x / WARP] = sum;
    }
    __syncthreads();
    sum = threadIdx.x < THREADS / WARP ? shared[threadIdx.x] : zero;
    __syncthreads();
    return fold_lanes(sum, THREADS / WARP);
}

/* Lanes for a row: half its entries, a power of two. */
__device__ inline int lanes_for(int64_t entries, int64_t rows)
{
    int lanes = 1;
    while (lanes < WARP && 2 * lanes * rows < entries) {
        lanes *= 2;
    }
    return lanes;
}

template <class T> __device__ inline void gather_line(const gx_cuda_spmm &p)
{
    border from, to;
    block_borders(p, &from, &to);
    int64_t line = blockIdx.y, row = from.row, e = from.entry;
    bool is_open = row < p.rows && e > p.start[row];
    int64_t ended = -1;
    if (is_open) { // of a long row: the part that is here
        int64_t end = row < to.row ? (int64_t)p.start[row + 1] : to.entry;
        T sum = long_sum<T>(p, e, end, line);
        if (threadIdx.x == 0) {
            head_of<T>(p, blockIdx.x)[line] = sum;
        }
        ended = row < to.row ? row : -1;
        e = end;
        row++;
    }
    int64_t rows = to.row - row;
    int64_t last = rows > 0 ? p.start[to.row] : e;
    int lanes = rows > 0 ? lanes_for(last - e, rows) : 1, lane = threadIdx.x % lanes;
    for (int64_t r = 0; r < rows; r += THREADS / lanes) { // together: shuffles are the warp's
        int64_t i = row + r + threadIdx.x / lanes;
        bool is_mine = i < to.row;
        int64_t end = is_mine ? p.start[i + 1] : 0;
        T sum;
        clear(sum);
        for (int64_t k = is_mine ? (int64_t)p.start[i] + lane : 0; k < end; k += lanes) {
            int64_t j = p.is_wide != 0 ? column_of<true>(p, k) : column_of<false>(p, k);
            T value = conj_of(((const T *)p.value)[k], p.is_conj != 0);
            sum = fma_of(value, ((const T *)p.b)[j * p.ldb + line], sum);
        }
        sum = fold_lanes(sum, lanes);
        if (is_mine && lane == 0) {
            pack<T, 1> out;
            out.x[0] = sum;
            finish<T, 1>(p, (T *)p.c + i * p.ldc + line, out);
        }
    }
    bool has_tail = to.row < p.rows && to.entry > p.start[to.row];
    if (has_tail && !(is_open && to.row == from.row)) {
        T sum = long_sum<T>(p, p.start[to.row], to.entry, line);
        if (threadIdx.x == 0) {
            tail_of<T>(p, blockIdx.x)[line] = sum;
        }
    }
    if (threadIdx.x == 0 && line == 0) {
        p.ended[blockIdx.x] = ended;
    }
}

// Long rows ---------------------------------------------------------------------------------------

/*
** The row that ends in `part` and began in an earlier one, by a warp: `lines` lanes side by side, a
** power of two, have a line each, and WARP / lines strands share the parts.
*/
template <class T> __device__ inline void join_row(const gx_cuda_spmm &p, int64_t part, int64_t row)
{
    int lane = threadIdx.x % WARP, lines = 1;
    while (lines < WARP && lines < p.m) {
        lines *= 2;
    }
    int64_t first = ((int64_t)p.start[row] - p.start[0] + row) / p.chunk;
    int strand = lane / lines, strands = WARP / lines;
    for (int64_t base = 0; base < p.m; base += lines) {
        int64_t line = base + lane % lines;
        pack<T, 1> sum;
        clear(sum.x[0]);
        if (line < p.m) {
#pragma unroll 8
            for (int64_t k = first + strand; k <= part; k += strands) {
                T x = (k == first ? tail_of<T>(p, k) : head_of<T>(p, k))[line];
                sum.x[0] = sum_of(sum.x[0], x);
            }
        }
        for (int half = WARP / 2; half >= lines; half /= 2) {
            sum.x[0] = sum_of(sum.x[0], lane_of(0xffffffffu, sum.x[0], lane + half, WARP));
        }
        if (lane < lines && line < p.m) {
            finish<T, 1>(p, (T *)p.c + row * p.ldc + line, sum);
        }
    }
}

template <class T> __device__ inline void join(const gx_cuda_spmm &p)
{
    int64_t mine = (int64_t)blockIdx.x * THREADS + threadIdx.x, warp = mine - threadIdx.x % WARP;
    int64_t row = mine < p.parts ? p.ended[mine] : -1;
    unsigned found = __ballot_sync(0xffffffffu, row >= 0);
    while (found != 0) {
        int lane = __ffs(found) - 1;
        join_row<T>(p, warp + lane, __shfl_sync(0xffffffffu, row, lane));
        found &= found - 1;
    }
}

// Scattered ---------------------------------------------------------------------------------------

/* A team of p.lanes lanes a part, a lane a line. */
template <class T, int G> __device__ inline void scatter(const gx_cuda_spmm &p)
{
    int64_t part = (int64_t)blockIdx.x * (THREADS / G) + threadIdx.x / G;
    int64_t line = (int64_t)blockIdx.y * G + threadIdx.x % G;
    if (part >= p.parts) { // all of a team
        return;
    }
    unsigned mask = team_mask<G>();
    int lane = threadIdx.x % G;
    border from = border_of<G>(p, part), to = border_of<G>(p, part + 1);
    int64_t row = from.row, end = row < p.rows ? p.start[row + 1] : from.entry, seen = -1;
    T x, alpha, zero;
    clear(x);
    clear(zero);
    scalar_of(p.alpha, alpha);
    for (int64_t e = from.entry; e < to.entry; e += G) {
        int64_t at = e + lane, column = 0;
        T value = zero;
        if (at < to.entry) {
            column = p.is_wide != 0 ? column_of<true>(p, at) : column_of<false>(p, at);
            value = ((const T *)p.value)[at];
        }
        int count = to.entry - e < G ? (int)(to.entry - e) : G;
        for (int k = 0; k < count; k++) {
            int64_t j = __shfl_sync(mask, column, k, G);
            T w = lane_of(mask, value, k, G);
            while (end <= e + k) { // there is an entry: a row that has it
                row++;
                end = p.start[row + 1];
            }
            if (line < p.m) {
                if (seen != row) {
                    x = fma_of(alpha, ((const T *)p.b)[row * p.ldb + line], zero);
                    seen = row;
                }
                add_atomically((T *)p.c + j * p.ldc + line, fma_of(w, x, zero));
            }
        }
    }
}

template <class T> __device__ inline void scatter_lines(const gx_cuda_spmm &p)
{
    switch (p.lanes) {
    case 8:
        scatter<T, 8>(p);
        break;
    case 16:
        scatter<T, 16>(p);
        break;
    default:
        scatter<T, WARP>(p);
    }
}

/* Few lines: a thread block a part, a row's entries side by side. */
template <class T> __device__ inline void scatter_line(const gx_cuda_spmm &p)
{
    border from, to;
    block_borders(p, &from, &to);
    int64_t line = blockIdx.y;
    bool has_tail = to.row < p.rows && to.entry > p.start[to.row];
    int64_t rows = to.row - from.row + has_tail;
    int lanes = rows > 0 ? lanes_for(to.entry - from.entry, rows) : 1;
    T alpha, zero;
    clear(zero);
    scalar_of(p.alpha, alpha);
    // A single row, or a few long ones, are for all threads.
    int width = rows * lanes < THREADS && lanes == WARP ? THREADS : lanes;
    for (int64_t r = threadIdx.x / width; r < rows; r += THREADS / width) {
        int64_t i = from.row + r, k = p.start[i], end = p.start[i + 1];
        k = k < from.entry ? from.entry : k;
        end = end > to.entry ? to.entry : end;
        T x = fma_of(alpha, ((const T *)p.b)[i * p.ldb + line], zero);
        for (k += threadIdx.x % width; k < end; k += width) {
            int64_t j = p.is_wide != 0 ? column_of<true>(p, k) : column_of<false>(p, k);
            add_atomically((T *)p.c + j * p.ldc + line,
                           fma_of(((const T *)p.value)[k], x, zero));
        }
    }
}

// The kernels -------------------------------------------------------------------------------------

#define SPMM_KERNEL(NAME, BODY, SUFFIX, T)                                                         \
    extern "C" __global__ void __launch_bounds__(THREADS)                                          \
        NAME##_##SUFFIX(const GX_GRID_CONSTANT gx_cuda_spmm p)                                    \
    {                                                                                              \
        BODY<T>(p);                                                                                \
    }
#define SPMM_KERNELS(NAME, BODY)                                                                   \
    SPMM_KERNEL(NAME, BODY, f64, double)                                                           \
    SPMM_KERNEL(NAME, BODY, f32, float)                                                            \
    SPMM_KERNEL(NAME, BODY, c128, double2)                                                         \
    SPMM_KERNEL(NAME, BODY, c64, float2)

SPMM_KERNELS(gx_spmm_gather, gather_lines)
SPMM_KERNELS(gx_spmm_line, gather_line)
SPMM_KERNELS(gx_spmm_join, join)
SPMM_KERNELS(gx_spmm_scatter, scatter_lines)
SPMM_KERNELS(gx_spmm_scatter_line, scatter_line)
