/*
** Algebra in SQL: products, transposes, sums, norms.
**
** Each function reads its arguments, lets core/alg*.c do the mathematics into a sink, and returns
** the stored name or the value.
*/
#include "exact_fn.h"

#include "../core/alg/alg.h"
#include "../core/alg/dense.h"
#include "../core/alg/sparse_alg.h"
#include "../core/alg/spmm.h"
#include "../core/spectra/alg_eig.h"

#include <string.h>

// gx_matmul ---------------------------------------------------------------------------------------

typedef struct matmul_options {
    bool transa, transb, conja, conjb;
    gx_scalar alpha, beta;
    gx_exact_options exact;
} matmul_options;

static const gx_option matmul_keys[] = {
    {"transa", GX_OPT_BOOL, offsetof(matmul_options, transa), 0},
    {"transb", GX_OPT_BOOL, offsetof(matmul_options, transb), 0},
    {"conja", GX_OPT_BOOL, offsetof(matmul_options, conja), 0},
    {"conjb", GX_OPT_BOOL, offsetof(matmul_options, conjb), 0},
    {"alpha", GX_OPT_SCALAR, offsetof(matmul_options, alpha), 0},
    {"beta", GX_OPT_SCALAR, offsetof(matmul_options, beta), 0},
    GX_EXACT_KEYS(matmul_options),
    {NULL, GX_OPT_END, 0, 0}};

/* "conja" is the conjugate transpose; for real matrices it is the transpose. */
static gx_trans trans_of(bool is_transposed, bool is_conjugated, const gx_mat *X)
{
    if (is_conjugated) {
        return gx_adjoint(X->number);
    }
    return is_transposed ? GX_TRANS : GX_NO_TRANS;
}

/* beta accumulates into the destination, which must then exist; its name is the third argument. */
static bool find_accumulator(gx_fn *fn, const matmul_options *opt, gx_mat *C0, gx_matmul_args *args)
{
    if (opt->beta.re == 0 && opt->beta.im == 0) {
        return true;
    }
    if (!gx_fn_has(fn, 2)) {
        return gx_fn_fail(fn, "\"beta\" needs a destination to accumulate into");
    }
    args->C0 = C0;
    return gx_fn_matrix(fn, 2, "destination", C0);
}

static bool is_symmetric_product(const gx_matmul_args *args)
{
    const gx_mat *A = args->A, *B = args->B;
    bool is_same = A->kind == B->kind && gx_mat_is_tiled(A) && A->meta.id == B->meta.id &&
                   strcmp(A->meta.schema, B->meta.schema) == 0;
    return is_same && args->C0 == NULL && args->alpha.im == 0 &&
           (args->transa == GX_NO_TRANS) != (args->transb == GX_NO_TRANS);
}

/* A A^T is symmetric, A A^H Hermitian. */
static uint32_t product_properties(const gx_matmul_args *args, gx_number dtype)
{
    if (!is_symmetric_product(args)) {
        return 0;
    }
    if (!gx_number_is_complex(dtype)) {
        return GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN;
    }
    bool is_conjugated = args->transa == GX_CONJ_TRANS || args->transb == GX_CONJ_TRANS;
    return is_conjugated ? GX_PROP_HERMITIAN : GX_PROP_SYMMETRIC;
}

/* Shapes that do not fit, and the option or function that would make them fit. */
static void fail_shape(gx_fn *fn, const gx_matmul_args *args, const gx_err *err)
{
    const char *hint = "";
    bool is_number = args->A->rows * args->A->cols == 1 || args->B->rows * args->B->cols == 1;
    if (args->transa == GX_NO_TRANS && args->transb == GX_NO_TRANS) {
        hint = is_number                        ? "; gx_scale multiplies by a number"
               : args->A->cols == args->B->cols ? "; '{\"transb\":true}' takes B transposed"
               : args->A->rows == args->B->rows ? "; '{\"transa\":true}' takes A transposed"
                                                : "";
    }
    gx_run_failf(&fn->run, err->code, "%s%s", err->text, hint);
}

/* One operand is sparse, or both are. */
static void sparse_product(gx_fn *fn, const gx_matmul_args *args, int64_t m, int64_t n,
                           gx_number dtype)
{
    gx_sink C;
    if (args->C0 != NULL) {
        gx_fn_fail(fn, "\"beta\" is for dense matrices: gx_add adds a product with a sparse one");
        return;
    }
    if (args->A->is_sparse && args->B->is_sparse) {
        if (args->transa != GX_NO_TRANS || args->transb != GX_NO_TRANS) {
            gx_fn_fail(fn, "both operands are sparse: gx_transpose gives a transposed one");
            return;
        }
        gx_alg_spgemm(&fn->run, args->alpha, args->A, args->B, dtype, &fn->dest, &C);
        gx_fn_result_sink(fn, &C);
        return;
    }
    const gx_spmm_args sparse = {.A = args->A,
                                 .B = args->B,
                                 .transa = args->transa,
                                 .transb = args->transb,
                                 .alpha = args->alpha};
    fn->run.planned_as = GX_SPMM_NAME;
    gx_alg_spmm(&fn->run, &sparse, m, n, dtype, &fn->dest, &C);
    gx_fn_result_sink(fn, &C);
}

static void matmul(gx_fn *fn)
{
    matmul_options opt = {.alpha = {1, 0}};
    gx_mat A, B, C0;
    if (!gx_fn_options(fn, matmul_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_matrix(fn, 1, "B", &B)) {
        return;
    }
    gx_matmul_args args = {.A = &A,
                           .B = &B,
                           .alpha = opt.alpha,
                           .beta = opt.beta,
                           .transa = trans_of(opt.transa, opt.conja, &A),
                           .transb = trans_of(opt.transb, opt.conjb, &B)};
    if (!find_accumulator(fn, &opt, &C0, &args)) {
        return;
    }
    int64_t m, n;
    gx_number dtype;
    if (gx_matmul_shape(&args, &m, &n, &dtype, &fn->err) != GX_OK) {
        fail_shape(fn, &args, &fn->err);
        return;
    }
    if (opt.exact.has_mod || opt.exact.is_exact) {
        if (args.C0 != NULL || opt.alpha.re != 1 || opt.alpha.im != 0) {
            gx_fn_fail(fn, "\"mod\" and \"exact\" go without \"alpha\" and \"beta\"");
        }
        gx_exact_fn_matmul(fn, &opt.exact, &A, args.transa, &B, args.transb);
        return;
    }
    if (dtype == GX_M31 && (!gx_is_of_field(opt.alpha) || !gx_is_of_field(opt.beta))) {
        gx_fn_fail(fn, "\"alpha\" and \"beta\" of m31 must be whole numbers");
        return;
    }
    fn->dest.replace |= args.C0 != NULL;
    gx_sink C;
    if (A.is_sparse || B.is_sparse) {
        sparse_product(fn, &args, m, n, dtype);
        return;
    }
    gx_sink_begin(&fn->run, &fn->dest, m, n, dtype, product_properties(&args, dtype), 0, 0, &C);
    gx_alg_matmul(&fn->run, &args, &C);
    gx_fn_result_sink(fn, &C);
}

// gx_transpose ------------------------------------------------------------------------------------

static const gx_option transpose_keys[] = {{"conj", GX_OPT_BOOL, 0, 0}, {NULL, GX_OPT_END, 0, 0}};

static uint32_t transposed_properties(uint32_t properties)
{
    uint32_t kept = properties & (GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN | GX_PROP_POSITIVE |
                                  GX_PROP_UNIT | GX_PROP_ORTHOGONAL);
    kept |= (properties & GX_PROP_LOWER) != 0 ? GX_PROP_UPPER : 0;
    kept |= (properties & GX_PROP_UPPER) != 0 ? GX_PROP_LOWER : 0;
    return kept;
}

static void transpose(gx_fn *fn)
{
    bool is_conjugated = false;
    gx_mat A;
    if (!gx_fn_options(fn, transpose_keys, &is_conjugated) || !gx_fn_matrix(fn, 0, "A", &A)) {
        return;
    }
    gx_sink C;
    gx_trans op = trans_of(true, is_conjugated, &A);
    uint32_t properties = transposed_properties(A.properties);
    if (A.is_sparse) {
        gx_sparse_transpose(&fn->run, &A, op, &fn->dest, properties, &C);
    } else {
        gx_sink_begin(&fn->run, &fn->dest, A.cols, A.rows, A.number, properties, 0, 0, &C);
        gx_alg_transpose(&fn->run, &A, op, &C);
    }
    gx_fn_result_sink(fn, &C);
}

// Numbers out of matrices -------------------------------------------------------------------------

/* The letters by which gx_alg_norm() knows the kinds, in the order of NORMS. */
static const char norm_kinds[] = {'F', '1', '2', 'I', 'M', 'N'};
#define NORMS "fro/f/frobenius|1/one|2/two|inf/i|max/m|nuc/nuclear"

static void norm(gx_fn *fn)
{
    gx_mat A;
    int word = 0;
    double value = 0;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_word(fn, 1, "kind", NORMS, &word)) {
        return;
    }
    char kind = norm_kinds[word];
    if (kind != '2' && kind != 'N') {
        gx_alg_norm(&fn->run, &A, kind, &value);
    } else if (A.is_sparse) {
        gx_fn_refuse_sparse(fn, &A);
    } else {
        gx_alg_singular_norm(&fn->run, &A, kind == 'N', &value);
    }
    gx_fn_result_scalar(fn, (gx_scalar){value, 0}, false);
}

/* A row of the columns' sums (axis 0), a column of the rows', over divisor. */
static void sums_along(gx_fn *fn, const gx_mat *A, int64_t axis, double divisor)
{
    gx_sink C;
    int64_t rows = axis == 0 ? 1 : A->rows, cols = axis == 0 ? A->cols : 1;
    bool is_field = A->number == GX_M31;
    gx_number number = is_field ? GX_M31 : gx_number_wide(A->number);
    double *sums = is_field ? gx_fn_alloc(fn, (size_t)(rows * cols) * sizeof *sums, "sums") : NULL;
    gx_sink_begin(&fn->run, NULL, rows, cols, number, 0, 0, 0, &C);
    gx_alg_sums(&fn->run, A, axis == 1, divisor, is_field ? sums : C.value.data);
    if (is_field && gx_ok(&fn->run)) { // below 2^53
        gx_convert(GX_F64, sums, gx_max(rows, 1), GX_M31, C.value.data, gx_max(rows, 1), rows,
                   cols);
    }
    gx_fn_result_sink(fn, &C);
}

/* gx_sum, gx_mean */
static void sum_or_mean(gx_fn *fn)
{
    bool is_mean = fn->def->variant == 1;
    gx_mat A;
    int64_t axis = -1;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_axis(fn, 1, &axis)) {
        return;
    }
    double count = axis == 0   ? (double)A.rows
                   : axis == 1 ? (double)A.cols
                               : (double)A.rows * (double)A.cols;
    if (axis >= 0) {
        sums_along(fn, &A, axis, is_mean ? count : 1);
        return;
    }
    double out[2] = {0, 0};
    gx_alg_reduce(&fn->run, &A, GX_REDUCE_SUM, out);
    gx_scalar value = {is_mean ? out[0] / count : out[0], is_mean ? out[1] / count : out[1]};
    value.re = A.number == GX_M31 ? gx_m31_of(value.re) : value.re;
    gx_fn_result_scalar(fn, value, gx_number_is_complex(A.number));
}

void gx_fn_sparse_extremes(gx_fn *fn, const gx_mat *A, bool is_max, int64_t axis,
                           const gx_dest *dest, bool has_places)
{
    int64_t rows = axis == 1 ? A->rows : 1, cols = axis == 0 ? A->cols : 1, count = rows * cols;
    gx_number dtype = has_places ? GX_F64 : A->number;
    double *out = gx_fn_alloc(fn, (size_t)gx_max(1, count) * 2 * sizeof(double), "extremes");
    if (out == NULL) {
        return;
    }
    double *given = out + gx_max(1, count); // as doubles, then in the dtype
    gx_sparse_extremes(&fn->run, A, is_max, axis, has_places ? NULL : out, has_places ? out : NULL);
    if (axis < 0 && (dest == NULL || dest->name == NULL)) {
        gx_fn_result_scalar(fn, (gx_scalar){out[0], 0}, false);
    } else {
        gx_sink C;
        gx_sink_begin(&fn->run, dest, rows, cols, dtype, 0, 0, 0, &C);
        if (gx_ok(&fn->run)) {
            gx_convert(GX_F64, out, gx_max(1, rows), dtype, given, gx_max(1, rows), rows, cols);
            gx_dense_write(&fn->run, &C, given, gx_max(1, rows));
        }
        gx_fn_result_sink(fn, &C);
    }
}

/* Of each column (axis 0) or row (axis 1); NaN where there is one. */
static void extremes_along(gx_fn *fn, const gx_mat *A, bool is_max, int64_t axis)
{
    if (A->is_sparse) {
        gx_fn_sparse_extremes(fn, A, is_max, axis, NULL, false);
        return;
    }
    gx_fused f;
    gx_fused_begin(&f, A->number);
    gx_fused_output(&f, gx_fused_input(&f), is_max ? GX_FOLD_MAX : GX_FOLD_MIN,
                    axis == 0 ? GX_FOLD_OF_COLS : GX_FOLD_OF_ROWS);
    gx_sink C, *sinks = &C;
    gx_sink_begin(&fn->run, NULL, axis == 0 ? 1 : A->rows, axis == 0 ? A->cols : 1, A->number, 0, 0,
                  0, &C);
    if (gx_fused_end(&f)) {
        gx_alg_fused(&fn->run, &f, A->rows, A->cols, &A, &sinks);
    }
    gx_fn_result_sink(fn, &C);
}

/* gx_min, gx_max */
static void extreme(gx_fn *fn)
{
    bool is_max = fn->def->variant == 1;
    gx_mat A;
    int64_t axis = -1;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_axis(fn, 1, &axis) || !gx_fn_is_ordered(fn, &A)) {
        return;
    }
    if ((A.rows == 0 && axis != 1) || (A.cols == 0 && axis != 0)) {
        gx_fn_fail(fn, "%s is %lldx%lld: without elements there is no smallest and no largest one",
                   A.label, (long long)A.rows, (long long)A.cols);
        return;
    }
    if (axis >= 0) {
        extremes_along(fn, &A, is_max, axis);
        return;
    }
    double out = 0;
    gx_alg_reduce(&fn->run, &A, is_max ? GX_REDUCE_MAX : GX_REDUCE_MIN, &out);
    gx_fn_result_scalar(fn, (gx_scalar){out, 0}, false);
}

static void trace(gx_fn *fn)
{
    gx_mat A;
    gx_scalar value;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_matrix(fn, 0, "A", &A)) {
        return;
    }
    gx_alg_trace(&fn->run, &A, &value);
    value.re = A.number == GX_M31 ? gx_m31_of(value.re) : value.re;
    gx_fn_result_scalar(fn, value, gx_number_is_complex(A.number));
}

const gx_function gx_functions_algebra[] = {
    {"gx_matmul", 2, 4, GX_MADE(2) | GX_SPARSE(0) | GX_SPARSE(1) | GX_EXACT, matmul, 0},
    {"gx_transpose", 1, 3, GX_MADE(1) | GX_SPARSE(0) | GX_EXACT, transpose, 0},
    {"gx_norm", 1, 2, GX_SPARSE(0), norm, 0},
    {"gx_sum", 1, 2, GX_SPARSE(0) | GX_EXACT, sum_or_mean, 0},
    {"gx_mean", 1, 2, GX_SPARSE(0), sum_or_mean, 1},
    {"gx_min", 1, 2, GX_SPARSE(0), extreme, 0},
    {"gx_max", 1, 2, GX_SPARSE(0), extreme, 1},
    {"gx_trace", 1, 1, GX_SPARSE(0) | GX_EXACT, trace, 0},
    {.name = NULL}};
