/*
** Facts about kernels that hold for every backend: names, flop counts, widths of reductions.
**
** Flops are counted as LAPACK counts them: a real multiply or add is 1, a complex multiply 6, a
** complex add 2.  Kernels that only move elements count 0.  Pure functions of their arguments.
*/
#include "backend.h"

#include <math.h>

#define NAME(backend, ID, name) [GX_##ID] = #name,
static const char *const kernel_names[GX_KERNEL_COUNT] = {GX_KERNELS_OF_ALL(NAME, )
                                                              GX_KERNELS_OF_SOME(NAME, )};

const char *gx_kernel_name(gx_kernel_id kernel)
{
    return (unsigned)kernel < GX_KERNEL_COUNT ? kernel_names[kernel] : "?";
}

int64_t gx_reduce_width(gx_reduce_kind kind, int64_t m, int64_t n)
{
    switch (kind) {
    case GX_REDUCE_SUM:
    case GX_REDUCE_SUMSQ:
        return 2;
    case GX_REDUCE_MAX_ABS:
    case GX_REDUCE_MIN:
    case GX_REDUCE_MAX:
        return 1;
    case GX_REDUCE_COL_ABS:
        return n;
    case GX_REDUCE_ROW_ABS:
        return m;
    case GX_REDUCE_COL_SUM:
        return 2 * n;
    case GX_REDUCE_ROW_SUM:
        return 2 * m;
    case GX_REDUCE_KIND_COUNT:
        break;
    }
    return 0;
}

gx_fold gx_reduce_fold(gx_reduce_kind kind)
{
    return kind == GX_REDUCE_SUM                                ? GX_FOLD_SUM
           : kind == GX_REDUCE_SUMSQ                            ? GX_FOLD_NORM
           : kind == GX_REDUCE_MIN                              ? GX_FOLD_MIN
           : kind == GX_REDUCE_MAX_ABS || kind == GX_REDUCE_MAX ? GX_FOLD_MAX
                                                                : GX_FOLD_NONE;
}

/* Multiply-adds of the kernels of LAPACK, to the two highest powers. */
static double lapack_pairs(gx_kernel_id kernel, const gx_args *args)
{
    double m = (double)args->m, n = (double)args->n, k = (double)args->k;
    bool is_left = args->side == GX_LEFT;
    double least = m < n ? m : n;
    double inner = is_left ? m : n, outer = is_left ? n : m; // of what stands beside c

    switch (kernel) {
    case GX_TRSM:
    case GX_TRMM:
        return inner * inner * outer / 2;
    case GX_POTRF:
        return n * n * n / 6;
    case GX_GETRF:
        return m * n * least - (m + n) * least * least / 2 + least * least * least / 3;
    case GX_GEQRF:
        return 2 * m * n * least - (m + n) * least * least + least * least * least * 2 / 3;
    case GX_LARFT:
        return m * k * k / 2;
    case GX_LARFB:
        return (2 * inner * k - k * k / 2) * outer;
    case GX_ORMQR:
        return (2 * inner * k - k * k) * outer;
    case GX_ORGQR:
        return 2 * m * n * k - (m + n) * k * k + k * k * k * 2 / 3;
    case GX_TPQRT:
        return m * n * n;
    case GX_TPMQRT:
        return 2 * m * n * k;
    case GX_SYEV: // divide and conquer, without deflation
        return args->wants_right ? 3 * n * n * n : n * n * n * 2 / 3;
    case GX_GEEV: // Golub & Van Loan's counts
        return args->wants_right || args->wants_left ? 12.5 * n * n * n : 5 * n * n * n;
    case GX_GEES:
        return args->wants_right ? 12.5 * n * n * n : 5 * n * n * n;
    case GX_GGES: // Golub & Van Loan
        return 33 * n * n * n;
    case GX_GEHRD:
        return n * n * n * 7 / 3;
    case GX_TRSYL:
        return m * n * (m + n) / 2;
    case GX_SYTRF:
        return n * n * n / 6;
    case GX_GEBAL: // a few rounds
        return 10 * n * n;
    case GX_UNCSD: // four bidiagonalised blocks and their vectors
        return 12 * n * n * n;
    case GX_GEQP3:
        return 2 * m * n * least - (m + n) * least * least + least * least * least * 2 / 3;
    case GX_GESDD: // by R-bidiagonalisation where vectors are wanted (Golub & Van Loan)
        return args->wants_left ? 3 * m * n * least + 10 * least * least * least
                                : 2 * m * n * least - least * least * least * 2 / 3;
    default:
        return 0;
    }
}

/* Pairs of elements that a call of GX_CIRCLE takes through a layer. */
static double gx_circle_pairs(const gx_args *args)
{
    bool is_block = args->a == NULL;
    int64_t layers = args->pivot_last - (is_block ? 0 : args->pivot_first);
    double n = (double)args->n, half = (double)((int64_t)1 << layers) / 2;
    return n * (args->c2 != NULL ? (double)args->m : (double)args->k * (double)layers * half);
}

/* Of powers of 2; half as many where one side is real. */
static double fft_flops(const gx_args *args, bool gives_complex)
{
    double lines = args->side == GX_LEFT ? (double)args->n : (double)args->m, k = (double)args->k;
    bool takes_complex = args->from == GX_DTYPE_C128 || args->from == GX_DTYPE_C64;
    return (gives_complex && takes_complex ? 5 : 2.5) * lines * k * log2(k < 2 ? 2 : k);
}

static double map_flops(const gx_args *args, bool is_complex)
{
    const gx_map_facts *row = gx_map_row(args->map);
    return is_complex ? row->complex_flops : row->flops;
}

double gx_kernel_flops(gx_kernel_id kernel, gx_number dtype, const gx_args *args)
{
    bool is_complex = gx_number_is_complex(dtype);
    double add = is_complex ? 2 : 1, mul = is_complex ? 6 : 1;
    double m = (double)args->m, n = (double)args->n, k = (double)args->k;
    switch (kernel) {
    case GX_GEMM:
        return (add + mul) * m * n * k;
    case GX_SPMM:
        return (add + mul) * m * (double)args->sparse->entries;
    case GX_WHOLE:
        return 2 * m * n * k;
    case GX_APART:
        return 3 * m * n * k;
    case GX_MERIT:
        return 2 * (double)args->nearest->count * k;
    case GX_NEAREST:
    case GX_MUTUAL:
        return (args->nearest->metric == GX_METRIC_ABSOLUTE ? 3 : 2) * m * n * k;
    case GX_PAIR:
        return (add + mul) * m * n * k * ((args->b != NULL) + (args->b2 != NULL));
    case GX_SYRK:
    case GX_HERK:
        return (add + mul) * n * (n + 1) / 2 * k;
    case GX_MAP:
        return map_flops(args, is_complex) * m * n;
    case GX_CIRCLE: // a product, a sum and a difference for two elements
        return gx_circle_pairs(args) * 3;
    case GX_FUSED:
        return gx_fused_flops(args->fused) * m * n;
    case GX_ONE_HOT:
        return 2 * m * n;
    case GX_FFT:
        return fft_flops(args, is_complex);
    case GX_GRID:
        return GX_GRID_FLOPS * m * n;
    case GX_COMBINE:
        return gx_constraints_flops(args->constraints) * m;
    case GX_REDUCE:
        return (args->reduce_kind == GX_REDUCE_SUMSQ ? 2 : 1) * add * m * n;
    default:
        break;
    }
    return (add + mul) * lapack_pairs(kernel, args); // 0 of what moves elements alone
}
