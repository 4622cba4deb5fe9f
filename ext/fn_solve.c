/*
** Linear systems in SQL: gx_solve, gx_cond, gx_rcond (core/alg/alg_solve.c, core/alg/alg_cond.c;
** a sparse A: core/alg/system.c).
*/
#include "gx_ext.h"

#include "../core/alg/factoring.h"
#include "../core/alg/system.h"
#include "../core/spectra/alg_eig.h"

#include <math.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

// Options -----------------------------------------------------------------------------------------

/* "assume" and "factor": words for gx_factor_kind. */
static bool parse_assume(gx_fn *fn, const char *word, gx_factor_kind *kind)
{
    static const struct {
        const char *word;
        gx_factor_kind kind;
    } words[] = {{"auto", GX_FACTOR_AUTO},         {"general", GX_FACTOR_LU},
                 {"positive", GX_FACTOR_CHOLESKY}, {"lower", GX_FACTOR_LOWER},
                 {"upper", GX_FACTOR_UPPER},       {"diagonal", GX_FACTOR_DIAGONAL}};
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        if (strcmp(word, words[k].word) == 0) {
            *kind = words[k].kind;
            return true;
        }
    }
    return gx_fn_fail(fn,
                      "\"assume\" is '%s' but must be one of auto, general, positive, lower, "
                      "upper, diagonal",
                      word);
}

/* A, or a stored factorisation of it. */
static bool take_operator(gx_fn *fn, gx_mat *A, gx_aux *aux, gx_solve_args *args)
{
    args->A = A;
    if (!gx_fn_factor(fn, 0, "A", A, aux)) {
        return false;
    }
    args->aux = aux->kind == GX_AUX_NONE ? NULL : aux;
    return true;
}

/* What is known of a stored factorisation need not be told. */
static bool check_told(gx_fn *fn, const gx_solve_args *args, bool is_told)
{
    return args->aux == NULL || !is_told ||
           gx_fn_fail(fn,
                      "%s is a stored factorisation: \"assume\" and \"factor\" are for matrices",
                      args->A->label);
}

/* "N", "T", "H" as in LAPACK. */
static bool parse_trans(gx_fn *fn, const char *word, gx_trans *trans)
{
    if (sqlite3_stricmp(word, "n") == 0) {
        *trans = GX_NO_TRANS;
    } else if (sqlite3_stricmp(word, "t") == 0) {
        *trans = GX_TRANS;
    } else if (sqlite3_stricmp(word, "h") == 0 || sqlite3_stricmp(word, "c") == 0) {
        *trans = GX_CONJ_TRANS;
    } else {
        return gx_fn_fail(fn, "\"trans\" is '%s' but must be one of N, T, H", word);
    }
    return true;
}

/* "factor":"cholesky": A is a triangular factor, which one its properties tell (else lower). */
static bool parse_factor(gx_fn *fn, const char *word, const gx_mat *A, gx_solve_args *args)
{
    if (strcmp(word, "cholesky") != 0) {
        return gx_fn_fail(fn, "\"factor\" is '%s' but must be cholesky", word);
    }
    args->is_factor = true;
    bool is_upper = (A->properties & GX_PROP_UPPER) != 0 && (A->properties & GX_PROP_LOWER) == 0;
    args->assume = is_upper ? GX_FACTOR_UPPER : GX_FACTOR_LOWER;
    return true;
}

// gx_solve ----------------------------------------------------------------------------------------

typedef struct solve_options {
    gx_dest dest; /* first: a set_offset of 0 means none */
    bool has_trans, has_assume, has_factor, has_precision;
    char trans[64], assume[64], factor[64], precision[64];
    int64_t refine;
    bool has_method, has_precond, has_tol, has_maxiter, has_restart; /* of a sparse A */
    char method[64], precond[64];
    double tol;
    int64_t maxiter, restart;
    const char *x0;
} solve_options;

static const gx_option solve_keys[] = {
    {"trans", GX_OPT_TEXT, offsetof(solve_options, trans), offsetof(solve_options, has_trans)},
    {"assume", GX_OPT_TEXT, offsetof(solve_options, assume), offsetof(solve_options, has_assume)},
    {"factor", GX_OPT_TEXT, offsetof(solve_options, factor), offsetof(solve_options, has_factor)},
    {"refine", GX_OPT_STEPS, offsetof(solve_options, refine), 0},
    {"precision", GX_OPT_TEXT, offsetof(solve_options, precision),
     offsetof(solve_options, has_precision)},
    {"method", GX_OPT_TEXT, offsetof(solve_options, method), offsetof(solve_options, has_method)},
    {"precond", GX_OPT_TEXT, offsetof(solve_options, precond),
     offsetof(solve_options, has_precond)},
    {"tol", GX_OPT_REAL, offsetof(solve_options, tol), offsetof(solve_options, has_tol)},
    {"maxiter", GX_OPT_INT, offsetof(solve_options, maxiter), offsetof(solve_options, has_maxiter)},
    {"restart", GX_OPT_INT, offsetof(solve_options, restart), offsetof(solve_options, has_restart)},
    {"x0", GX_OPT_MATRIX, offsetof(solve_options, x0), 0},
    GX_DEST_KEYS(solve_options, dest),
    {NULL, GX_OPT_END, 0, 0},
};

static bool read_options(gx_fn *fn, const solve_options *opt, gx_solve_args *args)
{
    if (opt->has_precision && strcmp(opt->precision, "mixed") != 0 &&
        strcmp(opt->precision, "full") != 0) {
        return gx_fn_fail(fn, "\"precision\" is '%s' but must be mixed or full", opt->precision);
    }
    if (opt->refine != GX_OPT_STEPS_ALL && (opt->refine < 0 || opt->refine > GX_REFINE_MOST)) {
        return gx_fn_fail(fn, "\"refine\" must be true, false or 0 to %d steps, not %lld",
                          GX_REFINE_MOST, (long long)opt->refine);
    }
    if (opt->has_assume && opt->has_factor) {
        return gx_fn_fail(fn, "\"assume\" and \"factor\" exclude each other");
    }
    if (opt->has_method || opt->has_precond || opt->has_tol || opt->has_maxiter ||
        opt->has_restart || opt->x0 != NULL) {
        return gx_fn_fail(fn,
                          "\"method\", \"precond\", \"tol\", \"maxiter\", \"restart\" and "
                          "\"x0\" are for sparse matrices, and %s is dense",
                          args->A->label);
    }
    args->refine = opt->refine == GX_OPT_STEPS_ALL ? GX_REFINE_MOST : opt->refine;
    args->is_mixed = opt->has_precision && strcmp(opt->precision, "mixed") == 0;
    return check_told(fn, args, opt->has_assume || opt->has_factor) &&
           (!opt->has_trans || parse_trans(fn, opt->trans, &args->trans)) &&
           (!opt->has_assume || parse_assume(fn, opt->assume, &args->assume)) &&
           (!opt->has_factor || parse_factor(fn, opt->factor, args->A, args));
}

static bool check_sparse_numbers(gx_fn *fn, const solve_options *opt)
{
    if (opt->has_tol && !(opt->tol > 0 && opt->tol < 1)) {
        return gx_fn_fail(fn, "\"tol\" must be above 0 and below 1, not %g", opt->tol);
    }
    if (opt->has_maxiter && opt->maxiter < 1) {
        return gx_fn_fail(fn, "\"maxiter\" must be 1 or more, not %lld", (long long)opt->maxiter);
    }
    return !opt->has_restart || (opt->restart >= 1 && opt->restart <= GX_ITERATE_RESTART_MOST) ||
           gx_fn_fail(fn, "\"restart\" must be 1 to %d, not %lld", GX_ITERATE_RESTART_MOST,
                      (long long)opt->restart);
}

/* The options of a sparse A. */
static bool read_sparse_options(gx_fn *fn, const solve_options *opt, gx_mat *x0,
                                gx_system_args *args)
{
    args->tol = opt->tol;
    args->most = opt->maxiter;
    args->restart = opt->restart;
    if (opt->has_factor || opt->has_precision || opt->refine != 0) {
        return gx_fn_fail(fn,
                          "\"factor\", \"precision\" and \"refine\" are for dense matrices, and "
                          "%s is sparse",
                          args->A->label);
    }
    if (opt->has_method && !gx_system_method_of(opt->method, &args->method)) {
        return gx_fn_fail(fn,
                          "\"method\" is '%s' but must be one of auto, direct, cg, minres, gmres, "
                          "lsqr",
                          opt->method);
    }
    if (opt->has_precond && !gx_precond_of(opt->precond, &args->precond)) {
        return gx_fn_fail(fn,
                          "\"precond\" is '%s' but must be one of auto, none, jacobi, ilu0, ic0",
                          opt->precond);
    }
    if (!check_sparse_numbers(fn, opt) ||
        (opt->has_trans && !parse_trans(fn, opt->trans, &args->trans)) ||
        (opt->has_assume && !parse_assume(fn, opt->assume, &args->assume))) {
        return false;
    }
    if (args->assume != GX_FACTOR_AUTO && args->assume != GX_FACTOR_LU &&
        args->assume != GX_FACTOR_CHOLESKY) {
        return gx_fn_fail(fn,
                          "\"assume\" is '%s' but of a sparse matrix must be one of auto, "
                          "general, positive",
                          opt->assume);
    }
    if (opt->x0 != NULL) {
        args->x0 = x0;
        return gx_fn_option_matrix(fn, "x0", opt->x0, x0);
    }
    return true;
}

static void solve_sparse(gx_fn *fn, const solve_options *opt, const gx_mat *A, const gx_mat *B)
{
    gx_system_args args = {.A = A, .B = B};
    gx_mat x0;
    int64_t n, cols;
    gx_number dtype;
    gx_err err = {0};
    gx_sink X;
    if (!read_sparse_options(fn, opt, &x0, &args)) {
        return;
    }
    if (gx_system_shape(&args, &n, &cols, &dtype, &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return;
    }
    gx_sink_begin(&fn->run, &opt->dest, n, cols, dtype, 0, 0, 0, &X);
    gx_alg_system(&fn->run, &args, &X);
    gx_fn_result_sink(fn, &X);
}

/* gx_solve(A, B[, destination][, options]) */
static void solve(gx_fn *fn)
{
    solve_options opt = {.dest = {0}};
    gx_mat A, B;
    gx_aux aux;
    gx_solve_args args = {.B = &B};
    if (!gx_fn_options(fn, solve_keys, &opt) || !take_operator(fn, &A, &aux, &args) ||
        !gx_fn_matrix(fn, 1, "B", &B) || !gx_fn_dest(fn, 2, &opt.dest)) {
        return;
    }
    if (A.is_sparse) {
        solve_sparse(fn, &opt, &A, &B);
        return;
    }
    if (!read_options(fn, &opt, &args)) {
        return;
    }
    int64_t n, cols;
    gx_number dtype;
    gx_err err = {0};
    gx_sink X;
    if (gx_solve_shape(&args, &n, &cols, &dtype, &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return;
    }
    gx_sink_begin(&fn->run, &opt.dest, n, cols, dtype, 0, 0, 0, &X);
    gx_alg_solve(&fn->run, &args, &X);
    gx_fn_result_sink(fn, &X);
}

// The condition -----------------------------------------------------------------------------------

typedef struct cond_options {
    int unused; /* a set_offset of 0 means none */
    bool has_norm, has_assume, has_factor;
    double norm;
    char assume[64], factor[64];
} cond_options;

static const gx_option cond_keys[] = {
    {"norm", GX_OPT_REAL, offsetof(cond_options, norm), offsetof(cond_options, has_norm)},
    {"assume", GX_OPT_TEXT, offsetof(cond_options, assume), offsetof(cond_options, has_assume)},
    {"factor", GX_OPT_TEXT, offsetof(cond_options, factor), offsetof(cond_options, has_factor)},
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
        return (*norm >= 0 && isfinite(*norm)) ||
               gx_fn_fail(fn, "\"norm\" must be 0 or more and finite, not %g", *norm);
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
    if (!check_told(fn, args, opt->has_assume || opt->has_factor) ||
        (opt->has_assume && !parse_assume(fn, opt->assume, &args->assume)) ||
        (opt->has_factor && !parse_factor(fn, opt->factor, A, args))) {
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

/* kind: 1 (default), 2 or 'inf'. */
static bool parse_kind(gx_fn *fn, int index, cond_kind *kind)
{
    static const struct {
        const char *word;
        cond_kind kind;
    } words[] = {
        {"1", COND_ONE}, {"one", COND_ONE}, {"inf", COND_INF}, {"2", COND_TWO}, {"two", COND_TWO}};
    *kind = COND_ONE;
    if (!gx_fn_has(fn, index)) {
        return true;
    }
    const char *text = (const char *)sqlite3_value_text(fn->argv[index]);
    for (size_t k = 0; text != NULL && k < sizeof words / sizeof words[0]; k++) {
        if (sqlite3_stricmp(text, words[k].word) == 0) {
            *kind = words[k].kind;
            return true;
        }
    }
    return gx_fn_fail(fn, "kind is '%.40s' but must be one of 1, 2, 'inf'",
                      text == NULL ? "" : text);
}

static void condition(gx_fn *fn, bool is_reciprocal)
{
    cond_options opt = {0};
    gx_mat A;
    gx_aux aux;
    gx_solve_args args = {.A = NULL};
    cond_kind kind;
    double rcond = 0;
    if (!gx_fn_options(fn, cond_keys, &opt) || !take_operator(fn, &A, &aux, &args) ||
        !parse_kind(fn, 1, &kind)) {
        return;
    }
    bool is_found = kind == COND_TWO ? by_singular_values(fn, &opt, &args, &rcond)
                                     : by_solves(fn, &opt, &args, kind, &rcond);
    if (is_found) {
        gx_fn_result_scalar(fn, (gx_scalar){is_reciprocal ? rcond : 1 / rcond, 0}, false);
    }
}

/* gx_cond(A[, kind][, options]) */
static void cond(gx_fn *fn)
{
    condition(fn, false);
}

/* gx_rcond(A[, kind][, options]) */
static void rcond(gx_fn *fn)
{
    condition(fn, true);
}

const gx_function gx_functions_solve[] = {
    {"gx_solve", 2, 4, false, solve},
    {"gx_cond", 1, 3, false, cond},
    {"gx_rcond", 1, 3, false, rcond},
    {NULL, 0, 0, false, NULL},
};
