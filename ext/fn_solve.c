/*
** Linear systems in SQL: gx_solve, gx_cond, gx_rcond (core/alg_solve.c, core/alg_cond.c).
*/
#include "gx_ext.h"

#include "../core/solve.h"

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
} solve_options;

static const gx_option solve_keys[] = {
    {"trans", GX_OPT_TEXT, offsetof(solve_options, trans), offsetof(solve_options, has_trans)},
    {"assume", GX_OPT_TEXT, offsetof(solve_options, assume), offsetof(solve_options, has_assume)},
    {"factor", GX_OPT_TEXT, offsetof(solve_options, factor), offsetof(solve_options, has_factor)},
    {"refine", GX_OPT_STEPS, offsetof(solve_options, refine), 0},
    {"precision", GX_OPT_TEXT, offsetof(solve_options, precision),
     offsetof(solve_options, has_precision)},
    {"replace", GX_OPT_BOOL, offsetof(solve_options, dest.replace), 0},
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
    args->refine = opt->refine == GX_OPT_STEPS_ALL ? GX_REFINE_MOST : opt->refine;
    args->is_mixed = opt->has_precision && strcmp(opt->precision, "mixed") == 0;
    return (!opt->has_trans || parse_trans(fn, opt->trans, &args->trans)) &&
           (!opt->has_assume || parse_assume(fn, opt->assume, &args->assume)) &&
           (!opt->has_factor || parse_factor(fn, opt->factor, args->A, args));
}

/* gx_solve(A, B[, destination][, options]) */
static void solve(gx_fn *fn)
{
    solve_options opt = {.dest = {0}};
    gx_mat A, B;
    gx_solve_args args = {.A = &A, .B = &B};
    if (!gx_fn_options(fn, solve_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_matrix(fn, 1, "B", &B) || !gx_fn_dest(fn, 2, &opt.dest) ||
        !read_options(fn, &opt, &args)) {
        return;
    }
    int64_t n, cols;
    gx_dtype dtype;
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

/* ||A||; a factor has to be told it. */
static bool find_norm(gx_fn *fn, const cond_options *opt, const gx_solve_args *args, bool is_inf,
                      double *norm)
{
    const gx_mat *A = args->A;
    if (opt->has_norm) {
        *norm = opt->norm;
        return (*norm >= 0 && isfinite(*norm)) ||
               gx_fn_fail(fn, "\"norm\" must be 0 or more and finite, not %g", *norm);
    }
    if (args->is_factor) {
        return gx_fn_fail(fn,
                          "%s is a factor: give the norm of the matrix it is the factor of, "
                          "'{\"norm\":...}'",
                          A->label);
    }
    if (gx_alg_norm(&fn->run, A, is_inf ? 'I' : '1', norm) != GX_OK) {
        return false;
    }
    return isfinite(*norm) || gx_fn_fail(fn, "%s has elements that are not finite", A->label);
}

/* 1 / (||A|| ||A^-1||): 0 for a singular A, infinity for an empty one. */
static bool reciprocal(gx_fn *fn, const cond_options *opt, const gx_mat *A, bool is_inf,
                       double *rcond)
{
    gx_solve_args args = {.A = A};
    double norm, inverse = 0;
    if ((opt->has_assume && !parse_assume(fn, opt->assume, &args.assume)) ||
        (opt->has_factor && !parse_factor(fn, opt->factor, A, &args))) {
        return false;
    }
    if (A->rows != A->cols) {
        return gx_fn_fail(fn,
                          "%s is %lldx%lld, but only a square matrix has a condition number of "
                          "this kind",
                          A->label, (long long)A->rows, (long long)A->cols);
    }
    if (!find_norm(fn, opt, &args, is_inf, &norm)) {
        return false;
    }
    gx_factor_choice choice = {.kind = args.assume, .dtype = A->dtype, .is_factor = args.is_factor};
    gx_factor factor;
    gx_factor_make(&fn->run, A, &choice, &factor);
    bool is_singular = choice.kind != GX_FACTOR_CHOLESKY && gx_run_forgive(&fn->run, GX_NUMERIC);
    if (!is_singular) {
        gx_alg_inverse_norm(&factor, is_inf, &inverse);
    }
    gx_factor_clear(&factor);
    double product = norm * inverse;
    *rcond = A->rows == 0 ? (double)INFINITY : is_singular || !(product > 0) ? 0 : 1 / product;
    return gx_ok(&fn->run);
}

/* kind: 1 (default) or 'inf'. */
static bool parse_kind(gx_fn *fn, int index, bool *is_inf)
{
    *is_inf = false;
    if (!gx_fn_has(fn, index)) {
        return true;
    }
    const char *text = (const char *)sqlite3_value_text(fn->argv[index]);
    if (text != NULL && (strcmp(text, "1") == 0 || sqlite3_stricmp(text, "one") == 0)) {
        return true;
    }
    if (text != NULL && sqlite3_stricmp(text, "inf") == 0) {
        *is_inf = true;
        return true;
    }
    return gx_fn_fail(fn, "kind is '%s' but must be one of 1, 'inf'", text == NULL ? "" : text);
}

static void condition(gx_fn *fn, bool is_reciprocal)
{
    cond_options opt = {0};
    gx_mat A;
    bool is_inf;
    double rcond = 0;
    if (gx_fn_options(fn, cond_keys, &opt) && gx_fn_matrix(fn, 0, "A", &A) &&
        parse_kind(fn, 1, &is_inf) && reciprocal(fn, &opt, &A, is_inf, &rcond)) {
        double value = is_reciprocal ? rcond : 1 / rcond;
        gx_fn_result_scalar(fn, (gx_scalar){value, 0}, false);
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
