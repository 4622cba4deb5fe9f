/*
** Device code: what moves elements about: transposes, mirrored triangles, exchanged rows, pivots,
** eigenvectors of conjugate pairs.
**
** A transpose goes through shared memory in tiles of 32 x 32, a column too many so that a warp's
** accesses fall into different banks; both sides of the copy are then runs of memory.  A thread
** block of 32 x 8 walks the tiles in steps of the grid.
**
** Exchanges of rows come as one permutation of up to GX_CUDA_ROWS rows, composed on the host: a
** thread holds one row's element, all have read before any writes, and the columns go round the
** grid.  An element costs a memory sector of 32 bytes each way.
*/
#include "cuda_element.cuh"

constexpr int TILE = 32, ROWS = 8;

// Transposes --------------------------------------------------------------------------------------

/* The tile of a at rows i0 and columns j0, a being m x n, into the shared one. */
template <class T>
__device__ inline void load_tile(T tile[TILE][TILE + 1], const T *a, int64_t lda, int64_t i0,
                                 int64_t j0, int64_t m, int64_t n)
{
    int64_t i = i0 + threadIdx.x;
    for (int y = threadIdx.y; y < TILE; y += ROWS) {
        if (i < m && j0 + y < n) {
            tile[y][threadIdx.x] = a[(j0 + y) * lda + i];
        }
    }
}

template <class T> __device__ inline void put_conj(T *c, int64_t at, T value, bool is_conj)
{
    number x = get(&value, 0);
    put(c, at, number{x.re, is_conj ? -x.im : x.im});
}

/* Tiles of c, m x n, from the transposed tiles of a. */
template <class T> __device__ inline void transpose(const gx_cuda_call &p)
{
    __shared__ T tile[TILE][TILE + 1];
    const T *a = (const T *)p.a;
    T *c = (T *)p.c;
    for (int64_t j0 = (int64_t)blockIdx.y * TILE; j0 < p.n; j0 += (int64_t)gridDim.y * TILE) {
        for (int64_t i0 = (int64_t)blockIdx.x * TILE; i0 < p.m; i0 += (int64_t)gridDim.x * TILE) {
            load_tile(tile, a, p.lda, j0, i0, p.n, p.m);
            __syncthreads();
            int64_t i = i0 + threadIdx.x;
            for (int y = threadIdx.y; y < TILE; y += ROWS) {
                if (i < p.m && j0 + y < p.n) {
                    put_conj(c, (j0 + y) * p.ldc + i, tile[threadIdx.x][y],
                             p.trans == GX_CONJ_TRANS);
                }
            }
            __syncthreads();
        }
    }
}
GX_CUDA_KERNELS(gx_transpose, transpose)

/* Tiles on and off the diagonal of the triangle, each onto its mirror image. */
template <class T> __device__ inline void symmetrize(const gx_cuda_call &p)
{
    __shared__ T tile[TILE][TILE + 1];
    T *c = (T *)p.c;
    bool is_lower = p.uplo == GX_LOWER;
    for (int64_t j0 = (int64_t)blockIdx.y * TILE; j0 < p.n; j0 += (int64_t)gridDim.y * TILE) {
        for (int64_t i0 = (int64_t)blockIdx.x * TILE; i0 < p.n; i0 += (int64_t)gridDim.x * TILE) {
            if (is_lower ? i0 < j0 : i0 > j0) {
                continue; // the same for all threads of the block
            }
            load_tile(tile, (const T *)c, p.ldc, i0, j0, p.n, p.n);
            __syncthreads();
            int64_t j = j0 + threadIdx.x; // element (i, j) of the triangle goes to (j, i)
            for (int y = threadIdx.y; y < TILE; y += ROWS) {
                int64_t i = i0 + y;
                if (i < p.n && j < p.n && i != j && in_triangle(p.uplo, i, j)) {
                    put_conj(c, i * p.ldc + j, tile[threadIdx.x][y], p.trans == GX_CONJ_TRANS);
                }
            }
            __syncthreads();
        }
    }
}
GX_CUDA_KERNELS(gx_symmetrize, symmetrize)

// Conjugate pairs ---------------------------------------------------------------------------------

/* Of T real: complex columns of c from LAPACK's real ones. */
template <class T> __device__ inline void pairs(const gx_cuda_call &p)
{
    if constexpr (!facts<T>::is_complex) {
        const T *v = (const T *)p.a, *values = (const T *)p.tau;
        T *c = (T *)p.c;
        for (int64_t j = (int64_t)blockIdx.y * blockDim.y + threadIdx.y; j < p.n;
             j += (int64_t)gridDim.y * blockDim.y) {
            T im = values[2 * j + 1];
            int64_t first = im < 0 && j > 0 ? j - 1 : j;
            bool is_pair = im != 0 && first + 1 < p.n;
            for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.m;
                 i += (int64_t)gridDim.x * blockDim.x) {
                T part = is_pair ? v[(first + 1) * p.lda + i] : T(0);
                c[2 * (j * p.ldc + i)] = v[first * p.lda + i];
                c[2 * (j * p.ldc + i) + 1] = im < 0 ? -part : part;
            }
        }
    }
}
GX_CUDA_KERNELS(gx_pairs, pairs)

// Rows --------------------------------------------------------------------------------------------

template <class T> __device__ inline void move_rows(const gx_cuda_rows &p)
{
    int64_t i = threadIdx.x;
    T *c = (T *)p.c;
    bool is_mine = i < p.count;
    int64_t source = is_mine ? p.source[i] : 0, target = is_mine ? p.target[i] : 0;
    for (int64_t j = blockIdx.x; j < p.n; j += gridDim.x) {
        T value{};
        if (is_mine) {
            value = c[j * p.ldc + source];
        }
        __syncthreads(); // all of this column has been read
        if (is_mine) {
            c[j * p.ldc + target] = value;
        }
    }
}

GX_CUDA_KERNELS_OF(gx_rows, move_rows, gx_cuda_rows)

extern "C" __global__ void gx_pivots(const GX_GRID_CONSTANT gx_cuda_call p)
{
    int64_t *pivots = (int64_t *)p.c;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.n;
         i += (int64_t)gridDim.x * blockDim.x) {
        pivots[i] -= 1;
    }
}
