/*
** The options of gx_eig and gx_svd: what they are called, and what they mean.
**
** `which` takes ARPACK's two letters (LM, SM, LR, SR, LI, SI; LA and SA for symmetric matrices) or
** the words that they stand for.  A matrix inside the options ("b", "start") is the name of a
** stored one or a JSON literal as a text.
*/
#include "spectra.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define EIG(field) offsetof(gx_eig_options, field)
#define SVD(field) offsetof(gx_svd_options, field)

/* What the scalar function and the table share. */
#define EIG_COMMON                                                                                 \
    {"k", GX_OPT_INT, EIG(k), EIG(has_k)}, {"which", GX_OPT_TEXT, EIG(which), 0},                  \
        {"sigma", GX_OPT_SCALAR, EIG(sigma), EIG(has_sigma)}, {"b", GX_OPT_NAME, EIG(b), 0},       \
        {"symmetric", GX_OPT_BOOL, EIG(is_symmetric), EIG(has_symmetric)},                         \
        {"method", GX_OPT_TEXT, EIG(method), 0}, {"tol", GX_OPT_REAL, EIG(tol), 0},                \
        {"ncv", GX_OPT_INT, EIG(ncv), EIG(has_ncv)},                                               \
        {"block", GX_OPT_INT, EIG(block), EIG(has_block)},                                         \
        {"maxiter", GX_OPT_INT, EIG(maxiter), EIG(has_maxiter)},                                   \
        {"seed", GX_OPT_INT, EIG(seed), EIG(has_seed)}, {"start", GX_OPT_NAME, EIG(start), 0},     \
    {                                                                                              \
        "partial", GX_OPT_BOOL, EIG(partial), 0                                                    \
    }

#define SVD_COMMON                                                                                 \
    {"k", GX_OPT_INT, SVD(k), SVD(has_k)}, {"which", GX_OPT_TEXT, SVD(which), 0},                  \
        {"method", GX_OPT_TEXT, SVD(method), 0}, {"tol", GX_OPT_REAL, SVD(tol), 0},                \
        {"ncv", GX_OPT_INT, SVD(ncv), 0}, {"block", GX_OPT_INT, SVD(block), 0},                    \
        {"maxiter", GX_OPT_INT, SVD(maxiter), 0},                                                  \
        {"power", GX_OPT_INT, SVD(power), SVD(has_power)},                                         \
        {"oversample", GX_OPT_INT, SVD(oversample), SVD(has_oversample)},                          \
        {"seed", GX_OPT_INT, SVD(seed), 0},                                                        \
    {                                                                                              \
        "partial", GX_OPT_BOOL, SVD(partial), 0                                                    \
    }

const gx_option gx_eig_keys[] = {EIG_COMMON,
                                 {"left", GX_OPT_NAME, EIG(left.name), 0},
                                 {"replace", GX_OPT_BOOL, EIG(replace), 0},
                                 {NULL, GX_OPT_END, 0, 0}};
const gx_option gx_eigvals_keys[] = {
    EIG_COMMON, {"replace", GX_OPT_BOOL, EIG(replace), 0}, {NULL, GX_OPT_END, 0, 0}};
const gx_option gx_eig_table_keys[] = {
    EIG_COMMON, {"left", GX_OPT_BOOL, EIG(wants_left), 0}, {NULL, GX_OPT_END, 0, 0}};
const gx_option gx_svd_keys[] = {SVD_COMMON,
                                 {"mode", GX_OPT_TEXT, SVD(mode), 0},
                                 {"replace", GX_OPT_BOOL, SVD(replace), 0},
                                 {NULL, GX_OPT_END, 0, 0}};
const gx_option gx_svd_table_keys[] = {SVD_COMMON, {NULL, GX_OPT_END, 0, 0}};

// Words -------------------------------------------------------------------------------------------

typedef struct word {
    const char *name;
    int value;
} word;

static const word whiches[] = {{"largest magnitude", GX_EIG_LARGEST_MAGNITUDE},
                               {"smallest magnitude", GX_EIG_SMALLEST_MAGNITUDE},
                               {"largest real", GX_EIG_LARGEST_REAL},
                               {"smallest real", GX_EIG_SMALLEST_REAL},
                               {"largest imaginary", GX_EIG_LARGEST_IMAG},
                               {"smallest imaginary", GX_EIG_SMALLEST_IMAG},
                               {"nearest", GX_EIG_NEAREST},
                               {"LM", GX_EIG_LARGEST_MAGNITUDE},
                               {"SM", GX_EIG_SMALLEST_MAGNITUDE},
                               {"LR", GX_EIG_LARGEST_REAL},
                               {"SR", GX_EIG_SMALLEST_REAL},
                               {"LI", GX_EIG_LARGEST_IMAG},
                               {"SI", GX_EIG_SMALLEST_IMAG},
                               {"LA", GX_EIG_LARGEST_REAL},
                               {"SA", GX_EIG_SMALLEST_REAL},
                               {NULL, 0}};
static const word eig_methods[] = {{"auto", GX_METHOD_AUTO},
                                   {"dense", GX_METHOD_DENSE},
                                   {"krylov", GX_METHOD_KRYLOV},
                                   {NULL, 0}};
static const word svd_methods[] = {{"auto", GX_SVD_AUTO},
                                   {"dense", GX_SVD_DENSE},
                                   {"krylov", GX_SVD_KRYLOV},
                                   {"randomized", GX_SVD_RANDOMIZED},
                                   {NULL, 0}};
static const word svd_whiches[] = {
    {"largest", false}, {"smallest", true}, {"LM", false}, {"SM", true}, {NULL, 0}};
static const word modes[] = {
    {"economy", GX_SVD_ECONOMY}, {"full", GX_SVD_FULL}, {"values", GX_SVD_VALUES}, {NULL, 0}};

/* The value of a word; "" leaves it as it is. */
static bool take_word(gx_fn *fn, const char *key, const word *words, const char *text, int *value)
{
    char known[400];
    size_t n = 0;
    for (const word *w = words; w->name != NULL; w++) {
        if (text[0] == '\0' || sqlite3_stricmp(w->name, text) == 0) {
            *value = text[0] == '\0' ? *value : w->value;
            return true;
        }
        n += (size_t)snprintf(known + n, sizeof known - n, "%s\"%s\"", n == 0 ? "" : ", ", w->name);
    }
    return gx_fn_fail(fn, "option \"%s\" is \"%s\" but must be one of %s", key, text, known);
}

static bool take_count(gx_fn *fn, const char *key, int64_t count, int64_t least)
{
    return count >= least || gx_fn_fail(fn, "option \"%s\" is %lld but must be at least %lld", key,
                                        (long long)count, (long long)least);
}

static bool take_tol(gx_fn *fn, double tol)
{
    return (tol >= 0 && tol < 1) ||
           gx_fn_fail(fn, "option \"tol\" is %g but must be at least 0 and below 1", tol);
}

// Eigenvalues -------------------------------------------------------------------------------------

static bool take_which(gx_fn *fn, const gx_eig_options *opt, gx_eig_args *args)
{
    int which = GX_EIG_DEFAULT, method = GX_METHOD_AUTO;
    if (!take_word(fn, "which", whiches, opt->which, &which) ||
        !take_word(fn, "method", eig_methods, opt->method, &method)) {
        return false;
    }
    args->method = (gx_eig_method)method;
    args->which = (gx_eig_which)which;
    args->sigma = opt->sigma;
    if (opt->has_sigma && which != GX_EIG_DEFAULT && which != GX_EIG_NEAREST) {
        return gx_fn_fail(fn, "\"sigma\" asks for the eigenvalues nearest to it, \"which\" for "
                              "others: give one of them");
    }
    if (which == GX_EIG_NEAREST && !opt->has_sigma) {
        return gx_fn_fail(fn, "\"which\" is \"nearest\" but there is no \"sigma\"");
    }
    if (opt->has_sigma && !(isfinite(opt->sigma.re) && isfinite(opt->sigma.im))) {
        return gx_fn_fail(fn, "option \"sigma\" must be finite");
    }
    args->which = opt->has_sigma ? GX_EIG_NEAREST : args->which;
    return true;
}

bool gx_eig_args_of(gx_fn *fn, const gx_eig_options *opt, const gx_mat *A, gx_mat mats[2],
                    gx_eig_args *args)
{
    *args = (gx_eig_args){.A = A,
                          .k = opt->k,
                          .tol = opt->tol,
                          .ncv = opt->ncv,
                          .block = opt->block,
                          .maxiter = opt->maxiter,
                          .seed = (uint64_t)opt->seed,
                          .allows_partial = opt->partial,
                          .is_hermitian = opt->has_symmetric && opt->is_symmetric,
                          .is_general = opt->has_symmetric && !opt->is_symmetric};
    if (!take_which(fn, opt, args) || (opt->has_k && !take_count(fn, "k", opt->k, 1)) ||
        !take_tol(fn, opt->tol) || (opt->has_ncv && !take_count(fn, "ncv", opt->ncv, 1)) ||
        (opt->has_block && !take_count(fn, "block", opt->block, 1)) ||
        (opt->has_maxiter && !take_count(fn, "maxiter", opt->maxiter, 1))) {
        return false;
    }
    // An order that is asked for without k is the order of all.
    if (args->k == 0 && args->which != GX_EIG_DEFAULT) {
        args->k = A->rows;
    }
    if (opt->b != NULL) {
        if (!gx_fn_option_matrix(fn, "B", opt->b, &mats[0])) {
            return false;
        }
        args->B = &mats[0];
    }
    if (opt->start != NULL) {
        if (!gx_fn_option_matrix(fn, "start", opt->start, &mats[1])) {
            return false;
        }
        args->start = &mats[1];
    }
    return true;
}

// Singular values ---------------------------------------------------------------------------------

bool gx_svd_args_of(gx_fn *fn, const gx_svd_options *opt, const gx_mat *A, bool wants_vectors,
                    gx_svd_args *args)
{
    int mode = wants_vectors ? GX_SVD_ECONOMY : GX_SVD_VALUES, method = GX_SVD_AUTO, which = false;
    if (!take_word(fn, "mode", modes, opt->mode, &mode) ||
        !take_word(fn, "which", svd_whiches, opt->which, &which) ||
        !take_word(fn, "method", svd_methods, opt->method, &method) ||
        (opt->has_k && !take_count(fn, "k", opt->k, 1)) || !take_tol(fn, opt->tol) ||
        !take_count(fn, "ncv", opt->ncv, 0) || !take_count(fn, "block", opt->block, 0) ||
        !take_count(fn, "maxiter", opt->maxiter, 0) || !take_count(fn, "power", opt->power, 0) ||
        !take_count(fn, "oversample", opt->oversample, 0)) {
        return false;
    }
    if (mode == GX_SVD_VALUES && wants_vectors) {
        return gx_fn_fail(fn, "\"mode\" is \"values\" but a destination for vectors is given");
    }
    *args = (gx_svd_args){.A = A,
                          .mode = wants_vectors ? (gx_svd_mode)mode : GX_SVD_VALUES,
                          .k = opt->k,
                          .is_smallest = which,
                          .method = (gx_svd_method)method,
                          .power = opt->has_power ? opt->power : -1,
                          .oversample = opt->has_oversample ? opt->oversample : -1,
                          .tol = opt->tol,
                          .ncv = opt->ncv,
                          .block = opt->block,
                          .maxiter = opt->maxiter,
                          .seed = (uint64_t)opt->seed,
                          .allows_partial = opt->partial};
    return true;
}
