/*
** Device code: products of doubles by residues.  See gx_cuda_residues in cuda_kernels.h.
**
** Three scalings by powers of 2 make whole numbers of the operands: one for each row of op(a), one
** for each column of op(b), and one for each step of the sum, which is taken from one operand and
** given to the other, so that neither loses what is small beside its other elements only because
** the other operand has large ones there.
*/
#include "cuda_kernels.h"

constexpr int TILE = 32, ROWS = 8, DOWN = 4 * TILE, PLANES = GX_CUDA_RESIDUES;

/* Exponents: of zero, of what is not finite; the largest of a scaled operand's. */
constexpr int NOTHING = -(1 << 20), INFINITE = 1 << 20, MOST = 55;

__device__ inline int exponent_of(double x)
{
    return !isfinite(x) ? INFINITE : x == 0 ? NOTHING : ilogb(x);
}

/* What op(a) is multiplied by in step l, as an exponent; op(b) is divided by it. */
__device__ inline int balance(const gx_cuda_residues &p, int64_t l)
{
    int a = p.inner[l], b = p.inner[p.steps + l];
    bool is_plain = a > NOTHING && a < INFINITE && b > NOTHING && b < INFINITE;
    return is_plain ? (b - a) >> 1 : 0;
}

__device__ inline int exponent_in_step(const gx_cuda_residues &p, int64_t l)
{
    return p.is_b ? -balance(p, l) : balance(p, l);
}

/* Element (l, j) of the operand: step l of the sum of its column j. */
__device__ inline double element(const gx_cuda_residues &p, int64_t l, int64_t j)
{
    return p.is_turned ? p.x[j + l * p.ldx] : p.x[l + j * p.ldx];
}

extern "C" __global__ void gx_residues_begin(const GX_GRID_CONSTANT gx_cuda_residues p)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.n;
         i += (int64_t)gridDim.x * blockDim.x) {
        p.inner[i] = NOTHING;
    }
}

/*
** The largest exponents of the operand's steps (is_inner), into inner, or of its columns, with the
** steps' own, into outer.  k x n elements.
*/
extern "C" __global__ void gx_residues_scan(const GX_GRID_CONSTANT gx_cuda_residues p)
{
    int *of_steps = p.inner + (p.is_b ? p.steps : 0);
    int64_t rows = p.is_turned ? p.n : p.k, cols = p.is_turned ? p.k : p.n; // as they are stored
    bool is_down = p.is_turned == p.is_inner; // a largest one for each stored column
    for (int64_t j0 = (int64_t)blockIdx.y * TILE; j0 < cols; j0 += (int64_t)gridDim.y * TILE) {
        for (int64_t i0 = (int64_t)blockIdx.x * TILE; i0 < rows; i0 += (int64_t)gridDim.x * TILE) {
            int64_t i = i0 + threadIdx.x;
            int of_row = NOTHING;
            for (int64_t j = j0 + threadIdx.y; j < j0 + TILE && j < cols; j += ROWS) {
                int e = NOTHING;
                if (i < rows) {
                    e = exponent_of(p.x[i + j * p.ldx]);
                    if (!p.is_inner && e > NOTHING && e < INFINITE) {
                        e += exponent_in_step(p, p.is_turned ? j : i);
                    }
                }
                if (is_down) {
                    for (int apart = TILE / 2; apart > 0; apart /= 2) {
                        e = max(e, __shfl_xor_sync(~0u, e, apart));
                    }
                    if (threadIdx.x == 0 && e > NOTHING) {
                        atomicMax(p.is_inner ? &of_steps[j] : &p.outer[j], e);
                    }
                }
                of_row = max(of_row, e);
            }
            if (!is_down && of_row > NOTHING) {
                atomicMax(p.is_inner ? &of_steps[i] : &p.outer[i], of_row);
            }
        }
    }
}

// Planes ------------------------------------------------------------------------------------------

constexpr int MODULI[PLANES] = {GX_CUDA_MODULI_LIST};

/* hi 2^28 + lo, lo below 2^28 and not negative, to the nearest to 0: -m/2 to (m - 1)/2. */
template <int M> __device__ inline uint32_t residue(int32_t hi, int32_t lo)
{
    constexpr int SHIFT = (1 << 28) % M;
    int r = (hi % M * SHIFT + lo % M) % M;
    r += r < -(M / 2) ? M : 0;
    r -= r > (M - 1) / 2 ? M : 0;
    return (uint32_t)r & 0xFF;
}

template <int Q>
__device__ inline void put_planes(const int32_t hi[4], const int32_t lo[4], char *to, int64_t plane)
{
    if constexpr (Q < PLANES) {
        constexpr int M = MODULI[Q];
        *(uint32_t *)to = residue<M>(hi[0], lo[0]) | residue<M>(hi[1], lo[1]) << 8 |
                          residue<M>(hi[2], lo[2]) << 16 | residue<M>(hi[3], lo[3]) << 24;
        put_planes<Q + 1>(hi, lo, to + plane, plane);
    }
}

/* The operand's element as a whole number below 2^56 in size; of columns that are not finite 0. */
__device__ inline long long whole_of(const gx_cuda_residues &p, int64_t l, int64_t j)
{
    if (l >= p.k || j >= p.n || p.outer[j] >= INFINITE || p.outer[j] <= NOTHING) {
        return 0;
    }
    return __double2ll_rn(scalbn(element(p, l, j), MOST - p.outer[j] + exponent_in_step(p, l)));
}

extern "C" __global__ void gx_residues_pack(const GX_GRID_CONSTANT gx_cuda_residues p)
{
    __shared__ long long tile[TILE][DOWN + 1];
    for (int64_t j0 = (int64_t)blockIdx.y * TILE; j0 < p.cols; j0 += (int64_t)gridDim.y * TILE) {
        for (int64_t l0 = (int64_t)blockIdx.x * DOWN; l0 < p.rows;
             l0 += (int64_t)gridDim.x * DOWN) {
            for (int y = threadIdx.y; p.is_turned && y < DOWN; y += ROWS) {
                tile[threadIdx.x][y] = whole_of(p, l0 + y, j0 + threadIdx.x);
            }
            for (int y = threadIdx.y; !p.is_turned && y < TILE; y += ROWS) {
                for (int l = threadIdx.x; l < DOWN; l += TILE) {
                    tile[y][l] = whole_of(p, l0 + l, j0 + y);
                }
            }
            __syncthreads();
            int l = 4 * threadIdx.x;
            for (int y = threadIdx.y; y < TILE; y += ROWS) {
                if (l0 + l < p.rows && j0 + y < p.cols) {
                    int32_t hi[4], lo[4];
                    for (int q = 0; q < 4; q++) {
                        hi[q] = (int32_t)(tile[y][l + q] >> 28);
                        lo[q] = (int32_t)(tile[y][l + q] & ((1 << 28) - 1));
                    }
                    put_planes<0>(hi, lo, (char *)p.planes + (l0 + l) + (j0 + y) * p.ldp, p.plane);
                }
            }
            __syncthreads();
        }
    }
}

// The product -------------------------------------------------------------------------------------

typedef unsigned __int128 wide;

/* The product of all moduli, but one. */
constexpr wide product_but(int but)
{
    wide product = 1;
    for (int q = 0; q < PLANES; q++) {
        product *= q == but ? 1 : (wide)MODULI[q];
    }
    return product;
}

constexpr int inverse_of(int q)
{
    int x = 1, rest = (int)(product_but(q) % (wide)MODULI[q]);
    while (x * rest % MODULI[q] != 1) {
        x++;
    }
    return x;
}

/* A constant of 128 bits in two halves. */
template <int Q> struct weight {
    static constexpr int inverse = Q < PLANES ? inverse_of(Q < PLANES ? Q : 0) : 0;
    static constexpr uint64_t low = (uint64_t)product_but(Q);
    static constexpr uint64_t high = (uint64_t)(product_but(Q) >> 64);
};

/* The sum of y[q] M / m[q] modulo 2^128, and of y[q] / m[q]: how often M is in it. */
template <int Q>
__device__ inline void add_planes(const int32_t *from, int64_t plane, wide &sum, double &often)
{
    if constexpr (Q < PLANES) {
        constexpr int M = MODULI[Q];
        int r = *from % M;
        uint32_t y = (uint32_t)(r < 0 ? r + M : r) * weight<Q>::inverse % M;
        sum += (wide)y * ((wide)weight<Q>::high << 64 | weight<Q>::low);
        often += (double)y * (1.0 / M);
        add_planes<Q + 1>(from + plane, plane, sum, often);
    }
}

/* An element of the product whose row or column is not finite, as it is. */
__device__ inline double plain(const gx_cuda_residues &p, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t l = 0; l < p.k; l++) {
        double a = p.is_turned ? p.x[i + l * p.ldx] : p.x[l + i * p.ldx];
        sum += a * (p.is_b ? p.y[j + l * p.ldy] : p.y[l + j * p.ldy]);
    }
    return sum;
}

extern "C" __global__ void gx_residues_join(const GX_GRID_CONSTANT gx_cuda_residues p)
{
    const int *of_rows = p.outer, *of_cols = p.outer + p.cols;
    for (int64_t j0 = (int64_t)blockIdx.y * TILE; j0 < p.n; j0 += (int64_t)gridDim.y * TILE) {
        for (int64_t j = j0 + threadIdx.y; j < j0 + TILE && j < p.n; j += ROWS) {
            for (int64_t i = (int64_t)blockIdx.x * TILE + threadIdx.x; i < p.m;
                 i += (int64_t)gridDim.x * TILE) {
                double x, often = 0, *c = p.c + i + j * p.ldc;
                if (of_rows[i] >= INFINITE || of_cols[j] >= INFINITE) {
                    x = plain(p, i, j);
                } else {
                    wide sum = 0;
                    add_planes<0>((const int32_t *)p.planes + i + j * p.ldp, p.plane, sum, often);
                    sum -= (wide)(uint64_t)rint(often) *
                           ((wide)weight<PLANES>::high << 64 | weight<PLANES>::low);
                    x = (double)(long long)(sum >> 64) * 0x1p64 + (double)(uint64_t)sum;
                    x = scalbn(x, of_rows[i] + of_cols[j] - 2 * MOST);
                }
                *c = p.alpha * x + (p.beta == 0 ? 0 : p.beta * *c);
            }
        }
    }
}
