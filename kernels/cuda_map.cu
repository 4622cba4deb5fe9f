/*
** Device code: elementwise kernels, scaled regions, triangles, diagonals, scales, conversion.
**
** All of them wait for memory.  A block of threads is bx x by (bx down the rows, so that a warp
** touches one run of memory) and walks the matrix in steps of the grid; each thread has STEPS
** elements in flight before it stores the first.  Which of the elementwise kernels it is, is a
** branch outside the loop where that costs something, for the few operations of arithmetic; a
** function that takes longer than memory does is called, so that there is one of it in the image.
*/
#include "cuda_element.cuh"

#include <cuda_fp16.h>

constexpr int STEPS = 4;

// Elementwise -------------------------------------------------------------------------------------

/* What a walk does beside the functions of GX_MAP; CALL: the one that the call says. */
enum { FILL = GX_MAP_KIND_COUNT, COPY, CALL };

/* Any of the functions, for real and for complex elements. */
__device__ __noinline__ double any_of_real(int kind, double alpha, double beta, double a, double b,
                                           double c)
{
    return of_real(kind, alpha, beta, a, b, c);
}

__device__ __noinline__ number any_of_pair(int kind, number alpha, number beta, number a, number b,
                                           number c)
{
    return of_pair(kind, alpha, beta, a, b, c);
}

template <class T, int WHAT>
__device__ inline number element(const gx_cuda_call &p, number a, number b, number c)
{
    number alpha = {p.alpha[0], p.alpha[1]}, beta = {p.beta[0], p.beta[1]};
    if constexpr (WHAT == FILL || WHAT == COPY) {
        return WHAT == FILL ? alpha : a;
    } else if constexpr (WHAT != CALL) {
        return mapped<T>(WHAT, alpha, beta, a, b, c);
    } else if constexpr (facts<T>::is_complex) {
        return any_of_pair(p.kind, alpha, beta, a, b, c);
    } else {
        return {any_of_real(p.kind, alpha.re, beta.re, a.re, b.re, c.re), 0};
    }
}

template <class T, int WHAT, int OPERANDS> __device__ inline void walk(const gx_cuda_call &p)
{
    int64_t down = (int64_t)gridDim.x * blockDim.x;
    int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (int64_t j = (int64_t)blockIdx.y * blockDim.y + threadIdx.y; j < p.n;
         j += (int64_t)gridDim.y * blockDim.y) {
        const T *a = (const T *)p.a + j * p.lda, *b = (const T *)p.b + j * p.ldb;
        const T *b2 = (const T *)p.tau + j * p.lines;
        T *c = (T *)p.c + j * p.ldc;
        for (int64_t i0 = first; i0 < p.m; i0 += STEPS * down) {
            number x[STEPS], y[STEPS], z[STEPS];
#pragma unroll
            for (int s = 0; s < STEPS; s++) {
                int64_t i = i0 + s * down;
                x[s] = OPERANDS > 0 && i < p.m ? get(a, i) : number{0, 0};
                y[s] = OPERANDS > 1 && i < p.m ? get(b, i) : number{0, 0};
                z[s] = OPERANDS > 2 && i < p.m ? get(b2, i) : number{0, 0};
            }
#pragma unroll
            for (int s = 0; s < STEPS; s++) {
                int64_t i = i0 + s * down;
                if (i < p.m) {
                    put(c, i, element<T, WHAT>(p, x[s], y[s], z[s]));
                }
            }
        }
    }
}

template <class T> __device__ inline void map(const gx_cuda_call &p)
{
    if (p.kernel != GX_MAP) {
        return p.kernel == GX_FILL ? walk<T, FILL, 0>(p) : walk<T, COPY, 1>(p);
    }
    switch (p.kind) {
    case GX_MAP_ADD:
        return walk<T, GX_MAP_ADD, 2>(p);
    case GX_MAP_MUL:
        return walk<T, GX_MAP_MUL, 2>(p);
    case GX_MAP_DIV:
        return walk<T, GX_MAP_DIV, 2>(p);
    case GX_MAP_SCALE:
        return walk<T, GX_MAP_SCALE, 1>(p);
    case GX_MAP_CONJ:
        return walk<T, GX_MAP_CONJ, 1>(p);
    case GX_MAP_ABS:
        return walk<T, GX_MAP_ABS, 1>(p);
    default:
        return p.tau != NULL ? walk<T, CALL, 3>(p)
               : p.b != NULL ? walk<T, CALL, 2>(p)
                             : walk<T, CALL, 1>(p);
    }
}
GX_CUDA_KERNELS(gx_map, map)

// Regions and triangles ---------------------------------------------------------------------------

template <class T> __device__ inline void region(const gx_cuda_call &p)
{
    number beta = {p.beta[0], p.beta[1]};
    bool is_zero = beta.re == 0 && (!facts<T>::is_complex || beta.im == 0);
    T *c = (T *)p.c;
    for_each(p.m, p.n, [&](int64_t i, int64_t j) {
        bool is_inside = p.part == GX_CUDA_ALL || in_triangle(p.uplo, i, j);
        if (p.part == GX_CUDA_DIAGONAL ? i != j : !is_inside) {
            return;
        }
        int64_t at = j * p.ldc + i;
        number value = {0, 0};
        if (!is_zero || p.part == GX_CUDA_DIAGONAL) {
            value = get(c, at);
            value = p.part == GX_CUDA_DIAGONAL ? value : scaled<T>(beta, value);
        }
        if (i == j && p.part >= GX_CUDA_REAL_DIAGONAL) {
            value.im = 0;
        }
        put(c, at, value);
    });
}
GX_CUDA_KERNELS(gx_region, region)

template <class T> __device__ inline void triangle(const gx_cuda_call &p)
{
    const T *a = (const T *)p.a;
    T *c = (T *)p.c;
    for_each(p.m, p.n, [&](int64_t i, int64_t j) {
        number value = {0, 0};
        bool is_one = i == j && (p.diag == GX_UNIT || p.part == GX_CUDA_IDENTITY);
        if (is_one) {
            value.re = 1;
        } else if (p.part != GX_CUDA_IDENTITY && in_triangle(p.uplo, i, j)) {
            value = get(a, j * p.lda + i);
        } else if (p.part == GX_CUDA_TRIANGLE) {
            return;
        }
        put(c, j * p.ldc + i, value);
    });
}
GX_CUDA_KERNELS(gx_triangle, triangle)

template <class T> __device__ inline void larft(const gx_cuda_call &p)
{
    const T *tau = (const T *)p.tau;
    T *b = (T *)p.b, *c = (T *)p.c;
    for_each(p.n, p.n, [&](int64_t i, int64_t j) {
        number value = {0, 0};
        if (i == j) {
            value = get(tau, i);
        } else if (i < j) {
            number t = get(tau, i), g = get(b, j * p.ldb + i);
            put(b, j * p.ldb + i, facts<T>::is_complex ? times(t, g) : number{t.re * g.re, 0});
        }
        put(c, j * p.ldc + i, value);
    });
}
GX_CUDA_KERNELS(gx_larft, larft)

// Cholesky factors, scales ------------------------------------------------------------------------

/* One block of threads goes down the diagonal. */
template <class T> __device__ inline void definite(const gx_cuda_call &p)
{
    constexpr int NONE = 0x7fffffff;
    __shared__ int first;
    T *c = (T *)p.c;
    int32_t *info = (int32_t *)p.b;
    if (threadIdx.x == 0) {
        first = NONE;
    }
    __syncthreads();
    for (int64_t j = threadIdx.x; j < p.n; j += blockDim.x) {
        number d = get(c, j * p.ldc + j);
        if (!(d.re > 0)) {
            atomicMin(&first, (int)j + 1);
            break;
        }
        if (p.kind == 1) {
            put(c, 0, number{sqrt(d.re), 0});
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        int before = p.kind == 1 ? 0 : *info;
        *info = first != NONE && (before == 0 || before > first) ? first : before;
    }
}
GX_CUDA_KERNELS(gx_definite, definite)

template <class T> __device__ inline void poison(const gx_cuda_call &p)
{
    T *c = (T *)p.c;
    double measured = *(const double *)p.a;
    if (!isnan(measured)) {
        return;
    }
    for_each(p.m, p.n, [&](int64_t i, int64_t j) {
        put(c, j * p.ldc + i, number{measured, facts<T>::is_complex ? measured : 0});
        *(int32_t *)p.b = 0;
    });
}
GX_CUDA_KERNELS(gx_poison, poison)

/* The power of two by which a matrix of such a size is multiplied. */
template <class T> __device__ inline int exponent_for(double largest)
{
    constexpr bool is_double = sizeof(T) == (facts<T>::is_complex ? 2 : 1) * sizeof(double);
    constexpr double limit = is_double ? 0x1p485 : 0x1p51;
    if (!(largest > 0) || (largest >= 1 / limit && largest <= limit)) {
        return 0;
    }
    if (isinf(largest)) { // the magnitude of finite parts, or an Inf, which stays
        return is_double ? -1023 : 0;
    }
    return -ilogb(largest);
}

template <class T> __device__ inline void rescale(const gx_cuda_call &p)
{
    int k = exponent_for<T>(*(const double *)p.a);
    T *c = (T *)p.c;
    if (k == 0) {
        return;
    }
    k = p.kind == 1 ? -k : k;
    for_each(p.m, p.n, [&](int64_t i, int64_t j) {
        number x = get(c, j * p.ldc + i);
        put(c, j * p.ldc + i, number{scalbn(x.re, k), scalbn(x.im, k)});
    });
}
GX_CUDA_KERNELS(gx_rescale, rescale)

// Conversion --------------------------------------------------------------------------------------

__device__ inline float half_value(uint16_t half)
{
    return __half2float(__ushort_as_half(half));
}

__device__ inline float brain_value(uint16_t upper)
{
    return __uint_as_float((uint32_t)upper << 16);
}

__device__ inline float truth_value(uint8_t x)
{
    return x != 0;
}

/* Of any stored dtype: a row of dtype.def that is widened is a case of its own. */
__device__ inline number get_any(int dtype, const void *x, int64_t at)
{
    switch (dtype) {
#define GX_COMPUTED(id, NAME, ...)
#define GX_FIELD GX_COMPUTED
#define GX_WIDENED(id, NAME, name, numpy, npy, type, computed, least, most, widen, narrow)         \
    case id:                                                                                       \
        return number{(double)widen(((const type *)x)[at]), 0};
#include "../core/base/dtype.def"
#undef GX_COMPUTED
#undef GX_WIDENED
#undef GX_FIELD
    case GX_F64:
        return get((const double *)x, at);
    case GX_F32:
        return get((const float *)x, at);
    case GX_C128:
        return get((const double2 *)x, at);
    default:
        return get((const float2 *)x, at);
    }
}

__device__ inline void put_any(int dtype, void *x, int64_t at, number value)
{
    switch (dtype) {
    case GX_F64:
        return put((double *)x, at, value);
    case GX_F32:
        return put((float *)x, at, value);
    case GX_C128:
        return put((double2 *)x, at, value);
    default:
        return put((float2 *)x, at, value);
    }
}

extern "C" __global__ void gx_convert(const GX_GRID_CONSTANT gx_cuda_call p)
{
    for_each(p.m, p.n, [&](int64_t i, int64_t j) {
        put_any(p.to, p.c, j * p.ldc + i, get_any(p.from, p.a, j * p.lda + i));
    });
}

extern "C" __global__ void gx_halve(const GX_GRID_CONSTANT gx_cuda_call p)
{
    for_each(p.m, p.n, [&](int64_t i, int64_t j) {
        float x = ((const float *)p.a)[j * p.lda + i];
        ((uint16_t *)p.c)[j * p.ldc + i] = p.to == GX_DTYPE_F16
                                               ? __half_as_ushort(__float2half_rn(x))
                                               : (uint16_t)(__float_as_uint(x) >> 16);
    });
}

/* Threads next to each other have rows next to each other. */
extern "C" __global__ void gx_one_hot(const GX_GRID_CONSTANT gx_cuda_call p)
{
    const double *b = (const double *)p.b;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < p.m;
         i += (long long)gridDim.x * blockDim.x) {
        double *c = (double *)p.c + i, least = c[0] + b[0];
        long long at = 0;
#pragma unroll 8
        for (long long j = 1; j < p.n; j++) {
            double x = c[j * p.ldc] + b[j * p.ldb];
            at = x < least ? j : at;
            least = x < least ? x : least;
        }
#pragma unroll 8
        for (long long j = 0; j < p.n; j++) {
            c[j * p.ldc] = j == at;
        }
    }
}
