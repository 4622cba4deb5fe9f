/*
** Facts about kernels that hold for every backend: names, flop counts, widths of reductions.
**
** Flops are counted as LAPACK counts them: a real multiply or add is 1, a complex multiply 6, a
** complex add
** 2.  Kernels that only move elements count 0.  Pure functions of their arguments.
*/
#include "backend.h"

static const char *const kernel_names[GX_KERNEL_COUNT] = {
    [GX_GEMM] = "gemm",
    [GX_SYRK] = "syrk",
    [GX_HERK] = "herk",
    [GX_FILL] = "fill",
    [GX_COPY] = "copy",
    [GX_TRANSPOSE] = "transpose",
    [GX_CONJ] = "conj",
    [GX_ADD] = "add",
    [GX_MUL] = "mul",
    [GX_DIV] = "div",
    [GX_SCALE] = "scale",
    [GX_ABS] = "abs",
    [GX_SYMMETRIZE] = "symmetrize",
    [GX_REDUCE] = "reduce",
};

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

double gx_kernel_flops(gx_kernel_id kernel, gx_dtype dtype, const gx_args *args)
{
    bool is_complex = gx_dtype_is_complex(dtype);
    double add = is_complex ? 2 : 1, mul = is_complex ? 6 : 1;
    double m = (double)args->m, n = (double)args->n, k = (double)args->k;

    switch (kernel) {
    case GX_GEMM:
        return (add + mul) * m * n * k;
    case GX_SYRK:
    case GX_HERK:
        return (add + mul) * n * (n + 1) / 2 * k;
    case GX_ADD:
        return (2 * mul + add) * m * n;
    case GX_MUL:
    case GX_SCALE:
        return mul * m * n;
    case GX_DIV:
        return (is_complex ? 2 * mul : 1) * m * n; // a * conj(b), |b|^2 and two divisions: about 12
    case GX_ABS:
        return (is_complex ? 4 : 1) * m * n; // two squares, a sum, a root
    case GX_REDUCE:
        return (args->reduce_kind == GX_REDUCE_SUMSQ ? 2 : 1) * add * m * n;
    case GX_FILL:
    case GX_COPY:
    case GX_TRANSPOSE:
    case GX_CONJ:
    case GX_SYMMETRIZE:
    case GX_KERNEL_COUNT:
        break;
    }
    return 0;
}
