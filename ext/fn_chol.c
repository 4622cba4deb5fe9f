/*
** Cholesky factors, triangular solves and products, and symmetric products in SQL.
**
** Each function reads its arguments, lets core/alg/alg_chol.c, alg_tri.c or alg_matmul.c do the
** mathematics into a sink, and returns the stored name or the value.
*/
#include "gx_ext.h"

#include "../core/alg/alg.h"

// gx_cholesky -------------------------------------------------------------------------------------

typedef struct cholesky_options {
    bool upper, check;
} cholesky_options;

static const gx_option cholesky_keys[] = {
    {"upper", GX_OPT_BOOL, offsetof(cholesky_options, upper), 0},
    {"check", GX_OPT_BOOL, offsetof(cholesky_options, check), 0},
    {NULL, GX_OPT_END, 0, 0}};

static void cholesky(gx_fn *fn)
{
    cholesky_options opt = {0};
    gx_mat A;
    if (!gx_fn_options(fn, cholesky_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_is_square(fn, &A)) {
        return;
    }
    if (opt.check && gx_alg_refuse_asymmetric(&fn->run, &A) != GX_OK) {
        return;
    }
    gx_sink F;
    gx_sink_begin(&fn->run, &fn->dest, A.rows, A.cols, A.number,
                  opt.upper ? GX_PROP_UPPER : GX_PROP_LOWER, 0, 0, &F);
    gx_alg_cholesky(&fn->run, &A, opt.upper ? GX_UPPER : GX_LOWER, &F);
    gx_fn_result_sink(fn, &F);
}

// gx_trsm, gx_trmm --------------------------------------------------------------------------------

typedef struct tri_options {
    gx_scalar alpha; /* first: a set_offset of 0 means none */
    bool upper, has_upper, lower, has_lower, has_uplo, trans, conj, unit;
    int side, uplo;
} tri_options;

static const gx_option tri_keys[] = {
    {"side=left/l|right/r", GX_OPT_WORD, offsetof(tri_options, side), 0},
    {"uplo=lower/l|upper/u", GX_OPT_WORD, offsetof(tri_options, uplo),
     offsetof(tri_options, has_uplo)},
    {"lower", GX_OPT_BOOL, offsetof(tri_options, lower), offsetof(tri_options, has_lower)},
    {"upper", GX_OPT_BOOL, offsetof(tri_options, upper), offsetof(tri_options, has_upper)},
    {"trans", GX_OPT_BOOL, offsetof(tri_options, trans), 0},
    {"conj", GX_OPT_BOOL, offsetof(tri_options, conj), 0},
    {"unit", GX_OPT_BOOL, offsetof(tri_options, unit), 0},
    {"alpha", GX_OPT_SCALAR, offsetof(tri_options, alpha), 0},
    {NULL, GX_OPT_END, 0, 0}};

/* What the options say of the triangle, else what A's properties say. */
static bool find_uplo(gx_fn *fn, const tri_options *opt, const gx_mat *A, gx_uplo *uplo)
{
    bool says[2] = {(opt->has_lower && opt->lower) || (opt->has_upper && !opt->upper),
                    (opt->has_upper && opt->upper) || (opt->has_lower && !opt->lower)};
    if (opt->has_uplo) {
        says[opt->uplo] = true;
    }
    if (says[GX_LOWER] && says[GX_UPPER]) {
        return gx_fn_fail(fn, "options say both that %s is lower and that it is upper triangular",
                          A->label);
    }
    if (!says[GX_LOWER] && !says[GX_UPPER]) {
        says[GX_LOWER] = (A->properties & GX_PROP_LOWER) != 0;
        says[GX_UPPER] = (A->properties & GX_PROP_UPPER) != 0;
    }
    *uplo = says[GX_LOWER] ? GX_LOWER : GX_UPPER;
    return says[GX_LOWER] || says[GX_UPPER] ||
           gx_fn_fail(fn,
                      "%s is not known to be triangular: say \"uplo\":\"lower\" or "
                      "\"uplo\":\"upper\"",
                      A->label);
}

static bool tri_args_of(gx_fn *fn, const tri_options *opt, const gx_mat *A, const gx_mat *B,
                        gx_tri_args *args)
{
    *args = (gx_tri_args){.A = A,
                          .B = B,
                          .side = (gx_side)opt->side,
                          .diag = opt->unit ? GX_UNIT : GX_NON_UNIT,
                          .alpha = opt->alpha};
    if (opt->conj) {
        args->trans = gx_adjoint(A->number);
    } else if (opt->trans) {
        args->trans = GX_TRANS;
    }
    return find_uplo(fn, opt, A, &args->uplo);
}

/* gx_trsm(A, B[, destination][, options]) and gx_trmm */
static void triangular(gx_fn *fn)
{
    tri_options opt = {.alpha = {1, 0}};
    gx_mat A, B;
    gx_tri_args args;
    gx_number dtype;
    if (!gx_fn_options(fn, tri_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_matrix(fn, 1, "B", &B) || !tri_args_of(fn, &opt, &A, &B, &args) ||
        !gx_fn_check(fn, gx_tri_shape(&args, &dtype, &fn->err))) {
        return;
    }
    gx_sink X;
    gx_sink_begin(&fn->run, &fn->dest, B.rows, B.cols, dtype, 0, 0, 0, &X);
    if (fn->def->variant == 0) {
        gx_alg_trsm(&fn->run, &args, &X);
    } else {
        gx_alg_trmm(&fn->run, &args, &X);
    }
    gx_fn_result_sink(fn, &X);
}

// gx_syrk -----------------------------------------------------------------------------------------

typedef struct syrk_options {
    bool trans, conj;
    gx_scalar alpha;
} syrk_options;

static const gx_option syrk_keys[] = {
    {"trans", GX_OPT_BOOL, offsetof(syrk_options, trans), 0},
    {"conj", GX_OPT_BOOL, offsetof(syrk_options, conj), 0},
    {"alpha", GX_OPT_SCALAR, offsetof(syrk_options, alpha), 0},
    {NULL, GX_OPT_END, 0, 0}};

static void syrk(gx_fn *fn)
{
    syrk_options opt = {.alpha = {1, 0}};
    gx_mat A;
    if (!gx_fn_options(fn, syrk_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A)) {
        return;
    }
    bool is_complex = gx_number_is_complex(A.number);
    if (opt.conj && opt.alpha.im != 0) {
        gx_fn_fail(fn, "alpha has an imaginary part, but a Hermitian product needs a real factor");
        return;
    }
    gx_trans trans = is_complex && opt.conj ? GX_CONJ_TRANS : GX_TRANS;
    gx_matmul_args args = {.A = &A, .B = &A, .alpha = opt.alpha};
    *(opt.trans ? &args.transa : &args.transb) = trans;
    int64_t n = opt.trans ? A.cols : A.rows;
    gx_number dtype = opt.alpha.im != 0 ? gx_number_promote(A.number, GX_C64) : A.number;
    uint32_t properties = !gx_number_is_complex(dtype) ? GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN
                          : trans == GX_CONJ_TRANS    ? GX_PROP_HERMITIAN
                                                      : GX_PROP_SYMMETRIC;
    gx_sink C;
    gx_sink_begin(&fn->run, &fn->dest, n, n, dtype, properties, 0, 0, &C);
    gx_alg_matmul(&fn->run, &args, &C);
    gx_fn_result_sink(fn, &C);
}

const gx_function gx_functions_chol[] = {{"gx_cholesky", 1, 3, GX_MADE(1), cholesky, 0},
                                             {"gx_trsm", 2, 4, GX_MADE(2), triangular, 0},
                                             {"gx_trmm", 2, 4, GX_MADE(2), triangular, 1},
                                             {"gx_syrk", 1, 3, GX_MADE(1), syrk, 0},
                                             {.name = NULL}};
