/*
** Elementwise functions in SQL: gx_NAME of one or two operands for each row of core/base/map.h,
** with its numbers behind them; and gx_sub, gx_neg, which are rows with other scalars.
*/
#include "gx_ext.h"

#include "../core/alg/alg.h"

typedef struct map_options {
    gx_dest dest; /* first: a set_offset of 0 means none */
    bool replace;
} map_options;

static const gx_option map_keys[] = {{"replace", GX_OPT_BOOL, offsetof(map_options, replace), 0},
                                     {NULL, GX_OPT_END, 0, 0}};

/* The shape two operands broadcast to, as in NumPy: equal, or one of them 1. */
static bool broadcast_size(int64_t a, int64_t b, int64_t *size)
{
    *size = a == 1 ? b : a;
    return a == b || a == 1 || b == 1;
}

static void map2(gx_fn *fn, gx_map_kind kind, gx_scalar alpha, gx_scalar beta)
{
    map_options opt = {0};
    gx_mat A, B;
    if (!gx_fn_options(fn, map_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_matrix(fn, 1, "B", &B) || !gx_fn_dest(fn, 2, &opt.dest)) {
        return;
    }
    int64_t m, n;
    if (!broadcast_size(A.rows, B.rows, &m) || !broadcast_size(A.cols, B.cols, &n)) {
        gx_fn_fail(fn, "%s is %lldx%lld but %s is %lldx%lld", A.label, (long long)A.rows,
                   (long long)A.cols, B.label, (long long)B.rows, (long long)B.cols);
        return;
    }
    opt.dest.replace = opt.replace;
    gx_sink C;
    gx_sink_begin(&fn->run, &opt.dest, m, n, gx_dtype_promote(A.dtype, B.dtype), 0, 0, 0, &C);
    gx_alg_map2(&fn->run, kind, alpha, &A, beta, &B, &C);
    gx_fn_result_sink(fn, &C);
}

/* One operand; numbers: SQL arguments behind it, at most alpha. */
static void map1(gx_fn *fn, gx_map_kind kind, int numbers, gx_scalar alpha)
{
    map_options opt = {0};
    gx_mat A;
    if (!gx_fn_options(fn, map_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A) ||
        (numbers > 0 && !gx_fn_scalar(fn, 1, "alpha", &alpha)) ||
        !gx_fn_dest(fn, 1 + numbers, &opt.dest)) {
        return;
    }
    uint32_t keeps = gx_map_row(kind)->keeps;
    gx_dtype dtype = A.dtype;
    if (!gx_dtype_is_complex(dtype) && (keeps & GX_PROP_SYMMETRIC) != 0) {
        keeps |= GX_PROP_HERMITIAN; // the same of real matrices
    }
    if (alpha.im != 0) {
        dtype = gx_dtype_promote(dtype, GX_C64);
        keeps &= ~(uint32_t)GX_PROP_HERMITIAN;
    }
    opt.dest.replace = opt.replace;
    gx_sink C;
    gx_sink_begin(&fn->run, &opt.dest, A.rows, A.cols, dtype, A.properties & keeps, 0, 0, &C);
    gx_alg_map1(&fn->run, kind, alpha, &A, &C);
    gx_fn_result_sink(fn, &C);
}

static const gx_scalar ONE = {1, 0}, MINUS_ONE = {-1, 0};

static void map_sub(gx_fn *fn)
{
    map2(fn, GX_MAP_ADD, ONE, MINUS_ONE);
}

static void map_neg(gx_fn *fn)
{
    map1(fn, GX_MAP_SCALE, 0, MINUS_ONE);
}

/* A body map_NAME() for each row. */
static void map_row(gx_fn *fn, gx_map_kind kind)
{
    const gx_map_facts *row = gx_map_row(kind);
    if (row->operands == 2) {
        map2(fn, kind, ONE, ONE);
    } else {
        map1(fn, kind, row->numbers, ONE);
    }
}

#define BODY(KIND, name, ...)                                                                      \
    static void map_##name(gx_fn *fn)                                                              \
    {                                                                                              \
        map_row(fn, GX_MAP_##KIND);                                                                \
    }
GX_MAPS(BODY)

/* Behind operands and numbers: a destination and options. */
#define ROW(KIND, name, operands, numbers, ...)                                                    \
    {"gx_" #name, (operands) + (numbers), (operands) + (numbers) + 2, false, map_##name},

const gx_function gx_functions_map[] = {GX_MAPS(ROW){"gx_sub", 2, 4, false, map_sub},
                                        {"gx_neg", 1, 3, false, map_neg},
                                        {NULL, 0, 0, false, NULL}};
