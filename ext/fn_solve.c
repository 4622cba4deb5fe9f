/*
** Linear systems in SQL: gx_solve, gx_cond, gx_rcond (core/alg/alg_solve.c, core/alg/alg_cond.c;
** a sparse A, and iterative methods: core/alg/system.c).
*/
#include "exact_fn.h"
#include "gx_ext.h"

#include "../core/alg/factoring.h"
#include "../core/alg/system.h"
#include "../core/spectra/alg_eig.h"

#include <math.h>

// Options -----------------------------------------------------------------------------------------

/* Words for gx_factor_kind and gx_trans, in their order. */
#define ASSUME "assume=auto|diagonal|lower|upper|positive|general"
#define TRANS "trans=N|T|H/C"

/* A, or a stored factorisation of it. */
static bool take_operator(gx_fn *fn, gx_mat *A, gx_aux *aux, gx_solve_args *args)
{
    args->A = A;
    bool is_taken = gx_fn_factor(fn, 0, "A", GX_AUX_ANY, A, aux);
    args->aux = aux->kind == GX_AUX_NONE ? NULL : aux;
    return is_taken;
}

/*
** What A is solved as.  "factor":"cholesky": A is a triangular factor, which one its properties
** tell (else lower).  What is known of a stored factorisation need not be told.
*/
static bool take_assume(gx_fn *fn, bool has_assume, int assume, bool is_factor, gx_solve_args *args)
{
    uint32_t properties = args->A->properties;
    if (args->aux != NULL && (has_assume || is_factor)) {
        return gx_fn_fail(fn,
                          "%s is a stored factorisation: \"assume\" and \"factor\" are for "
                          "matrices",
                          args->A->label);
    }
    bool is_upper = (properties & GX_PROP_UPPER) != 0 && (properties & GX_PROP_LOWER) == 0;
    args->is_factor = is_factor;
    args->assume = !is_factor ? (gx_factor_kind)assume
                   : is_upper ? GX_FACTOR_UPPER
                              : GX_FACTOR_LOWER;
    return true;
}

// gx_solve ----------------------------------------------------------------------------------------

typedef struct solve_options {
    bool unused, has_assume, has_factor, has_precision; /* a set_offset of 0 means none */
    int trans, assume, factor, precision;
    int64_t refine;
    bool has_method, has_precond, has_tol, has_maxiter, has_restart; /* iterative methods */
    int method, precond;
    double tol;
    int64_t maxiter, restart;
    const char *x0;
    gx_exact_options exact;
} solve_options;

static const gx_option solve_keys[] = {
    {TRANS, GX_OPT_WORD, offsetof(solve_options, trans), 0},
    {ASSUME, GX_OPT_WORD, offsetof(solve_options, assume), offsetof(solve_options, has_assume)},
    {"factor=cholesky", GX_OPT_WORD, offsetof(solve_options, factor),
     offsetof(solve_options, has_factor)},
    {"refine", GX_OPT_STEPS, offsetof(solve_options, refine), 0},
    {"precision=full|mixed", GX_OPT_WORD, offsetof(solve_options, precision),
     offsetof(solve_options, has_precision)},
    {"method=auto|direct|cg|minres|gmres|lsqr", GX_OPT_WORD, offsetof(solve_options, method),
     offsetof(solve_options, has_method)},
    {"precond=auto|none|jacobi|ilu0|ic0", GX_OPT_WORD, offsetof(solve_options, precond),
     offsetof(solve_options, has_precond)},
    {"tol=(0,1)", GX_OPT_REAL, offsetof(solve_options, tol), offsetof(solve_options, has_tol)},
    {"maxiter=[1,inf]", GX_OPT_INT, offsetof(solve_options, maxiter),
     offsetof(solve_options, has_maxiter)},
    {"restart", GX_OPT_INT, offsetof(solve_options, restart), offsetof(solve_options, has_restart)},
    {"x0", GX_OPT_MATRIX, offsetof(solve_options, x0), 0},
    GX_EXACT_KEYS(solve_options),
    {NULL, GX_OPT_END, 0, 0},
};

static bool read_options(gx_fn *fn, const solve_options *opt, gx_solve_args *args)
{
    if (opt->refine != GX_OPT_STEPS_ALL && (opt->refine < 0 || opt->refine > GX_REFINE_MOST)) {
        return gx_fn_fail(fn, "\"refine\" must be true, false or 0 to %d steps, not %lld",
                          GX_REFINE_MOST, (long long)opt->refine);
    }
    if (opt->has_assume && opt->has_factor) {
        return gx_fn_fail(fn, "\"assume\" and \"factor\" exclude each other");
    }
    if (opt->has_precond || opt->has_tol || opt->has_maxiter || opt->has_restart ||
        opt->x0 != NULL) {
        return gx_fn_fail(fn,
                          "\"precond\", \"tol\", \"maxiter\", \"restart\" and \"x0\" are for "
                          "sparse matrices and iterative methods, and %s is dense: name one of "
                          "cg, minres, gmres and lsqr by \"method\"",
                          args->A->label);
    }
    args->refine = opt->refine == GX_OPT_STEPS_ALL ? GX_REFINE_MOST : opt->refine;
    args->is_mixed = opt->precision == 1;
    args->trans = (gx_trans)opt->trans;
    return take_assume(fn, opt->has_assume, opt->assume, opt->has_factor, args);
}

/* The options of a sparse A, or of an iterative method. */
static bool read_system_options(gx_fn *fn, const solve_options *opt, gx_mat *x0,
                                gx_system_args *args)
{
    bool is_sparse = args->A->is_sparse;
    args->tol = opt->tol;
    args->most = opt->maxiter;
    args->restart = opt->restart;
    args->method = (gx_system_method)opt->method;
    args->precond = (gx_precond_kind)opt->precond;
    args->trans = (gx_trans)opt->trans;
    args->assume = (gx_factor_kind)opt->assume;
    if (opt->has_factor || opt->has_precision || opt->refine != 0) {
        const char *words = "\"factor\", \"precision\" and \"refine\" are for dense matrices";
        return is_sparse ? gx_fn_fail(fn, "%s, and %s is sparse", words, args->A->label)
                         : gx_fn_fail(fn, "%s that are factored, not for iterative methods", words);
    }
    if (opt->has_restart && (opt->restart < 1 || opt->restart > GX_ITERATE_RESTART_MOST)) {
        return gx_fn_fail(fn, "\"restart\" must be 1 to %d, not %lld", GX_ITERATE_RESTART_MOST,
                          (long long)opt->restart);
    }
    if (args->assume != GX_FACTOR_AUTO && args->assume != GX_FACTOR_LU &&
        args->assume != GX_FACTOR_CHOLESKY) {
        return gx_fn_fail(fn, "\"assume\" of %s must be one of auto, general, positive",
                          is_sparse ? "a sparse matrix" : "an iterative method");
    }
    args->x0 = opt->x0 == NULL ? NULL : x0;
    return opt->x0 == NULL || gx_fn_option_matrix(fn, "x0", opt->x0, x0);
}

static void solve_system(gx_fn *fn, const solve_options *opt, const gx_mat *A, const gx_mat *B)
{
    gx_system_args args = {.A = A, .B = B};
    gx_mat x0;
    int64_t n, cols;
    gx_number dtype;
    gx_sink X;
    if (!read_system_options(fn, opt, &x0, &args) ||
        !gx_fn_check(fn, gx_system_shape(&args, &n, &cols, &dtype, &fn->err))) {
        return;
    }
    gx_sink_begin(&fn->run, &fn->dest, n, cols, dtype, 0, 0, 0, &X);
    gx_alg_system(&fn->run, &args, &X);
    gx_fn_result_sink(fn, &X);
}

/* gx_solve(A, B[, destination][, options]) */
static void solve(gx_fn *fn)
{
    solve_options opt = {0};
    gx_mat A, B;
    gx_aux aux;
    gx_solve_args args = {.B = &B};
    int64_t n, cols;
    gx_number dtype;
    gx_sink X;
    if (!gx_fn_options(fn, solve_keys, &opt) || !take_operator(fn, &A, &aux, &args) ||
        !gx_fn_matrix(fn, 1, "B", &B)) {
        return;
    }
    if (aux.kind == GX_AUX_NONE && gx_fn_is_exact(&opt.exact, &A, &B)) {
        if (opt.trans != 0) {
            gx_fn_fail(fn, "exact systems are of A as it is (gx_transpose)");
        }
        gx_exact_fn_solve(fn, &opt.exact, &A, &B);
        return;
    }
    bool is_iterative = opt.method > GX_SYSTEM_DIRECT;
    if (is_iterative && aux.kind != GX_AUX_NONE) {
        gx_fn_fail(fn, "%s is a stored factorisation: \"method\" is for matrices", A.label);
        return;
    }
    if (A.is_sparse || is_iterative) {
        solve_system(fn, &opt, &A, &B);
        return;
    }
    if (!read_options(fn, &opt, &args) ||
        !gx_fn_check(fn, gx_solve_shape(&args, &n, &cols, &dtype, &fn->err))) {
        return;
    }
    gx_sink_begin(&fn->run, &fn->dest, n, cols, dtype, 0, 0, 0, &X);
    gx_alg_solve(&fn->run, &args, &X);
    gx_fn_result_sink(fn, &X);
}

// The condition -----------------------------------------------------------------------------------

typedef struct cond_options {
    int assume, factor; /* first: a set_offset of 0 means none */
    bool has_norm, has_assume, has_factor;
    double norm;
} cond_options;

static const gx_option cond_keys[] = {
    {"norm=[0,inf)", GX_OPT_REAL, offsetof(cond_options, norm), offsetof(cond_options, has_norm)},
    {ASSUME, GX_OPT_WORD, offsetof(cond_options, assume), offsetof(cond_options, has_assume)},
    {"factor=cholesky", GX_OPT_WORD, offsetof(cond_options, factor),
     offsetof(cond_options, has_factor)},
    {NULL, GX_OPT_END, 0, 0},
};

typedef enum cond_kind { COND_ONE, COND_INF, COND_TWO } cond_kind;

/* ||A||; a factor has to be told it, but for what an LU factorisation remembers. */
static bool find_norm(gx_fn *fn, const cond_options *opt, const gx_solve_args *args, cond_kind kind,
                      double *norm)
{
    const gx_mat *A = args->A;
    *norm = args->aux != NULL && kind == COND_ONE ? args->aux->norm1 : (double)NAN;
    if (opt->has_norm) {
        *norm = opt->norm;
        return true;
    }
    if ((args->is_factor || args->aux != NULL) && isnan(*norm)) {
        return gx_fn_fail(fn,
                          "%s is a factor: give the norm of the matrix it is the factor of, "
                          "'{\"norm\":...}'",
                          A->label);
    }
    if (args->aux == NULL &&
        gx_alg_norm(&fn->run, A, kind == COND_INF ? 'I' : '1', norm) != GX_OK) {
        return false;
    }
    return isfinite(*norm) || gx_fn_fail(fn, "%s has elements that are not finite", A->label);
}

/* Largest by smallest singular value, of a matrix of any shape. */
static bool by_singular_values(gx_fn *fn, const cond_options *opt, const gx_solve_args *args,
                               double *rcond)
{
    const gx_mat *A = args->A;
    if (args->aux != NULL || opt->has_factor || opt->has_norm || opt->has_assume) {
        return gx_fn_fail(fn, "kind 2 is by singular values: it takes the matrix itself and no "
                              "options");
    }
    return gx_alg_singular_ratio(&fn->run, A, rcond) == GX_OK;
}

/* 1 / (||A|| ||A^-1||): 0 for a singular A, infinity for an empty one. */
static bool by_solves(gx_fn *fn, const cond_options *opt, gx_solve_args *args, cond_kind kind,
                      double *rcond)
{
    const gx_mat *A = args->A;
    double norm, inverse = 0;
    if (!take_assume(fn, opt->has_assume, opt->assume, opt->has_factor, args)) {
        return false;
    }
    if (A->rows != A->cols) {
        return gx_fn_fail(
            fn,
            "%s is %lldx%lld, but only a square matrix has a condition number of this "
            "kind (kind 2: any)",
            A->label, (long long)A->rows, (long long)A->cols);
    }
    if (!find_norm(fn, opt, args, kind, &norm)) {
        return false;
    }
    gx_factor_choice choice = {
        .kind = args->assume, .dtype = A->number, .is_factor = args->is_factor, .aux = args->aux};
    gx_factor factor;
    gx_factor_make(&fn->run, A, &choice, &factor);
    // A singular matrix has a condition number; one that is not what was said of it has none.
    bool may_be_singular = factor.kind != GX_FACTOR_CHOLESKY;
    bool is_singular = may_be_singular && gx_run_forgive(&fn->run, GX_NUMERIC);
    if (!is_singular) {
        gx_alg_inverse_norm(&factor, kind == COND_INF, &inverse);
    }
    gx_factor_clear(&factor);
    is_singular = is_singular || (may_be_singular && gx_run_forgive(&fn->run, GX_NUMERIC));
    double product = norm * inverse;
    *rcond = A->rows == 0 ? (double)INFINITY : is_singular || !(product > 0) ? 0 : 1 / product;
    return gx_ok(&fn->run);
}

/* gx_cond(A[, kind][, options]), or its reciprocal */
static void condition(gx_fn *fn)
{
    cond_options opt = {0};
    gx_mat A;
    gx_aux aux;
    gx_solve_args args = {.A = NULL};
    int word = COND_ONE;
    double rcond = 0;
    if (!gx_fn_options(fn, cond_keys, &opt) || !take_operator(fn, &A, &aux, &args) ||
        !gx_fn_word(fn, 1, "kind", "1/one|inf|2/two", &word)) {
        return;
    }
    cond_kind kind = (cond_kind)word;
    bool is_found = kind == COND_TWO ? by_singular_values(fn, &opt, &args, &rcond)
                                     : by_solves(fn, &opt, &args, kind, &rcond);
    if (is_found) {
        gx_fn_result_scalar(fn, (gx_scalar){fn->def->variant == 0 ? 1 / rcond : rcond, 0}, false);
    }
}

const gx_function gx_functions_solve[] = {
    {"gx_solve", 2, 4, GX_MADE(2) | GX_SPARSE(0) | GX_EXACT, solve, 0},
    {"gx_cond", 1, 3, 0, condition, 0},
    {"gx_rcond", 1, 3, 0, condition, 1},
    {.name = NULL},
};
