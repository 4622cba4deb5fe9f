/*
** Device code: whole numbers modulo a prime below 2^31, and their residues modulo ten bytes, of
** which tensor cores make products.  See gx_cuda_field in cuda_kernels.h.
*/
#include "cuda_m31.cuh"

constexpr int TILE = 32, ROWS = 8, DOWN = 4 * TILE;

// Elements ----------------------------------------------------------------------------------------

/* gx_field_map() of field.h. */
__device__ inline uint32_t map_of(int kind, uint32_t alpha, uint32_t beta, uint32_t a, uint32_t b,
                                 uint32_t c)
{
    switch (kind) {
    case GX_MAP_ADD:
        return plus(times(alpha, a), times(beta, b));
    case GX_MAP_MUL:
        return times(a, b);
    case GX_MAP_SCALE:
        return times(alpha, a);
    case GX_MAP_SQUARE:
        return times(a, a);
    case GX_MAP_POW:
        return power(a, b);
    case GX_MAP_WHERE:
        return a != 0 ? b : c;
    case GX_MAP_EQUAL:
        return a == b;
    case GX_MAP_NOT_EQUAL:
        return a != b;
    case GX_MAP_LOGICAL_AND:
        return a != 0 && b != 0;
    case GX_MAP_LOGICAL_OR:
        return a != 0 || b != 0;
    case GX_MAP_LOGICAL_XOR:
        return (a != 0) != (b != 0);
    default: // GX_MAP_LOGICAL_NOT
        return a == 0;
    }
}

/* Operands that the kind does not have are NULL. */
extern "C" __global__ void gx_field_map(const GX_GRID_CONSTANT gx_cuda_field p)
{
    for (int64_t j0 = (int64_t)blockIdx.y * TILE; j0 < p.n; j0 += (int64_t)gridDim.y * TILE) {
        for (int64_t j = j0 + threadIdx.y; j < j0 + TILE && j < p.n; j += ROWS) {
            for (int64_t i = (int64_t)blockIdx.x * TILE + threadIdx.x; i < p.m;
                 i += (int64_t)gridDim.x * TILE) {
                uint32_t a = p.a != nullptr ? p.a[i + j * p.lda] : 0;
                uint32_t b = p.b != nullptr ? p.b[i + j * p.ldb] : 0;
                uint32_t c = p.b2 != nullptr ? p.b2[i + j * p.ldb2] : 0;
                p.c[i + j * p.ldc] = p.kernel == GX_FILL   ? p.alpha
                                     : p.kernel == GX_COPY
                                         ? a
                                         : map_of(p.kind, p.alpha, p.beta, a, b, c);
            }
        }
    }
}

extern "C" __global__ void gx_field_transpose(const GX_GRID_CONSTANT gx_cuda_field p)
{
    __shared__ uint32_t tile[TILE][TILE + 1];
    for (int64_t j0 = (int64_t)blockIdx.y * TILE; j0 < p.n; j0 += (int64_t)gridDim.y * TILE) {
        for (int64_t i0 = (int64_t)blockIdx.x * TILE; i0 < p.m; i0 += (int64_t)gridDim.x * TILE) {
            for (int y = threadIdx.y; y < TILE; y += ROWS) {
                if (j0 + threadIdx.x < p.n && i0 + y < p.m) {
                    tile[y][threadIdx.x] = p.a[j0 + threadIdx.x + (i0 + y) * p.lda];
                }
            }
            __syncthreads();
            for (int y = threadIdx.y; y < TILE; y += ROWS) {
                if (i0 + threadIdx.x < p.m && j0 + y < p.n) {
                    p.c[i0 + threadIdx.x + (j0 + y) * p.ldc] = tile[threadIdx.x][y];
                }
            }
            __syncthreads();
        }
    }
}

// Residues ----------------------------------------------------------------------------------------

constexpr int MODULI[GX_CUDA_RESIDUES] = {GX_CUDA_MODULI_LIST};

/* To the nearest to 0: from -m/2 to (m - 1)/2. */
template <int M> __device__ inline uint32_t residue(int32_t x)
{
    int r = x % M;
    r += r < -(M / 2) ? M : 0;
    r -= r > (M - 1) / 2 ? M : 0;
    return (uint32_t)r & 0xFF;
}

template <int Q> __device__ inline void put_planes(const int32_t x[4], char *to, int64_t plane)
{
    if constexpr (Q < GX_CUDA_PLANES) {
        constexpr int M = MODULI[Q];
        *(uint32_t *)to = residue<M>(x[0]) | residue<M>(x[1]) << 8 | residue<M>(x[2]) << 16 |
                          residue<M>(x[3]) << 24;
        put_planes<Q + 1>(x, to + plane, plane);
    }
}

/* Element (l, j) of op(a) times alpha, between -p/2 and p/2; 0 beyond. */
__device__ inline int32_t element(const gx_cuda_field &p, int64_t l, int64_t j)
{
    if (l >= p.rows || j >= p.cols) {
        return 0;
    }
    uint32_t x = p.is_turned ? p.a[j + l * p.lda] : p.a[l + j * p.lda];
    if (p.alpha != 1) {
        x = (uint32_t)((uint64_t)x * p.alpha % p.p);
    }
    return (int32_t)x - (x > p.p / 2 ? (int32_t)p.p : 0);
}

extern "C" __global__ void gx_field_pack(const GX_GRID_CONSTANT gx_cuda_field p)
{
    __shared__ int32_t tile[TILE][DOWN + 1];
    for (int64_t j0 = (int64_t)blockIdx.y * TILE; j0 < p.n; j0 += (int64_t)gridDim.y * TILE) {
        for (int64_t l0 = (int64_t)blockIdx.x * DOWN; l0 < p.m; l0 += (int64_t)gridDim.x * DOWN) {
            for (int y = threadIdx.y; p.is_turned && y < DOWN; y += ROWS) {
                tile[threadIdx.x][y] = element(p, l0 + y, j0 + threadIdx.x);
            }
            for (int y = threadIdx.y; !p.is_turned && y < TILE; y += ROWS) {
                for (int l = threadIdx.x; l < DOWN; l += TILE) {
                    tile[y][l] = element(p, l0 + l, j0 + y);
                }
            }
            __syncthreads();
            int l = 4 * threadIdx.x;
            for (int y = threadIdx.y; y < TILE; y += ROWS) {
                if (l0 + l < p.m && j0 + y < p.n) {
                    const int32_t x[4] = {tile[y][l], tile[y][l + 1], tile[y][l + 2],
                                          tile[y][l + 3]};
                    put_planes<0>(x, (char *)p.planes + (l0 + l) + (j0 + y) * p.ldp, p.plane);
                }
            }
            __syncthreads();
        }
    }
}

/* The product of the moduli but one, modulo something. */
constexpr uint64_t others(int but, uint64_t modulo)
{
    uint64_t product = 1 % modulo;
    for (int q = 0; q < GX_CUDA_PLANES; q++) {
        product = q == but ? product : product * (uint64_t)MODULI[q] % modulo;
    }
    return product;
}

/* x with x others(q) = 1 modulo modulus q. */
constexpr int inverse_of(int q)
{
    int x = 1;
    while ((uint64_t)x * others(q, (uint64_t)MODULI[q]) % (uint64_t)MODULI[q] != 1) {
        x++;
    }
    return x;
}

template <int Q> struct inverse {
    static constexpr int value = inverse_of(Q);
};

/* The sum of y[q] M / m[q] modulo p, and of y[q] / m[q]: how often M is in it. */
template <int Q>
__device__ inline void add_planes(const int32_t *from, int64_t plane, const uint32_t *weight,
                                  uint64_t &sum, double &often)
{
    if constexpr (Q < GX_CUDA_PLANES) {
        constexpr int M = MODULI[Q], INVERSE = inverse<Q>::value;
        int r = *from % M;
        uint32_t y = (uint32_t)(r < 0 ? r + M : r) * INVERSE % M;
        sum += (uint64_t)y * weight[Q];
        often += (double)y * (1.0 / M);
        add_planes<Q + 1>(from + plane, plane, weight, sum, often);
    }
}

extern "C" __global__ void gx_field_join(const GX_GRID_CONSTANT gx_cuda_field p)
{
    __shared__ uint32_t weight[GX_CUDA_PLANES + 1]; // M / m[q] modulo p; the last: -M
    int thread = threadIdx.x + TILE * threadIdx.y;
    if (thread <= GX_CUDA_PLANES) {
        uint64_t product = 1;
        for (int q = 0; q < GX_CUDA_PLANES; q++) {
            const int moduli[GX_CUDA_RESIDUES] = {GX_CUDA_MODULI_LIST};
            product = q == thread ? product : product * (uint64_t)moduli[q] % p.p;
        }
        product %= p.p;
        weight[thread] = (uint32_t)(thread < GX_CUDA_PLANES ? product : p.p - product);
    }
    __syncthreads();
    for (int64_t j0 = (int64_t)blockIdx.y * TILE; j0 < p.n; j0 += (int64_t)gridDim.y * TILE) {
        for (int64_t j = j0 + threadIdx.y; j < j0 + TILE && j < p.n; j += ROWS) {
            for (int64_t i = (int64_t)blockIdx.x * TILE + threadIdx.x; i < p.m;
                 i += (int64_t)gridDim.x * TILE) {
                uint64_t sum = 0;
                double often = 0;
                add_planes<0>((const int32_t *)p.planes + i + j * p.ldp, p.plane, weight, sum,
                              often);
                sum += (uint64_t)rint(often) * weight[GX_CUDA_PLANES];
                uint32_t *c = p.c + i + j * p.ldc;
                if (p.beta != 0) {
                    sum += (uint64_t)*c * p.beta % p.p;
                }
                *c = (uint32_t)(sum % p.p);
            }
        }
    }
}
