/*
** The options of gx_eig and gx_svd: what they are called, and what they mean.
**
** `which` takes ARPACK's two letters (LM, SM, LR, SR, LI, SI; LA and SA for symmetric matrices) or
** the words that they stand for.  A matrix inside the options ("b", "start") is the name of a
** stored one or a JSON literal as a text.
*/
#include "spectra.h"

#include <math.h>
#include <string.h>

#define EIG(field) offsetof(gx_eig_options, field)
#define SVD(field) offsetof(gx_svd_options, field)

/* What the scalar function and the table share; words in the order of their enums. */
#define EIG_COMMON                                                                                 \
    {"k=[1,inf]", GX_OPT_INT, EIG(k), EIG(has_k)},                                                 \
        {"which=default|largest magnitude/LM|smallest magnitude/SM|largest real/LR/LA|"            \
         "smallest real/SR/SA|largest imaginary/LI|smallest imaginary/SI|nearest",                 \
         GX_OPT_WORD, EIG(which), 0},                                                              \
        {"sigma", GX_OPT_SCALAR, EIG(sigma), EIG(has_sigma)}, {"b", GX_OPT_NAME, EIG(b), 0},       \
        {"symmetric", GX_OPT_BOOL, EIG(is_symmetric), EIG(has_symmetric)},                         \
        {"method=auto|dense|krylov", GX_OPT_WORD, EIG(method), 0},                                 \
        {"tol=[0,1)", GX_OPT_REAL, EIG(tol), 0}, {"ncv=[1,inf]", GX_OPT_INT, EIG(ncv), 0},         \
        {"block=[1,inf]", GX_OPT_INT, EIG(block), 0},                                              \
        {"maxiter=[1,inf]", GX_OPT_INT, EIG(maxiter), 0},                                          \
        {"seed", GX_OPT_INT, EIG(seed), 0}, {"start", GX_OPT_NAME, EIG(start), 0},                 \
    {                                                                                              \
        "partial", GX_OPT_BOOL, EIG(partial), 0                                                    \
    }

#define SVD_COMMON                                                                                 \
    {"k=[1,inf]", GX_OPT_INT, SVD(k), SVD(has_k)},                                                 \
        {"which=largest/LM|smallest/SM", GX_OPT_WORD, SVD(which), 0},                              \
        GX_SVD_HOW(gx_svd_options, ),                                                              \
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
                                 {"mode=economy|full|values", GX_OPT_WORD, SVD(mode), 0},
                                 {"replace", GX_OPT_BOOL, SVD(replace), 0},
                                 {NULL, GX_OPT_END, 0, 0}};
const gx_option gx_svd_table_keys[] = {SVD_COMMON, {NULL, GX_OPT_END, 0, 0}};

// Eigenvalues -------------------------------------------------------------------------------------

static bool take_which(gx_fn *fn, const gx_eig_options *opt, gx_eig_args *args)
{
    args->method = (gx_eig_method)opt->method;
    args->which = opt->has_sigma ? GX_EIG_NEAREST : (gx_eig_which)opt->which;
    args->sigma = opt->sigma;
    if (opt->has_sigma && opt->which != GX_EIG_DEFAULT && opt->which != GX_EIG_NEAREST) {
        return gx_fn_fail(fn, "\"sigma\" asks for the eigenvalues nearest to it, \"which\" for "
                              "others: give one of them");
    }
    if (opt->which == GX_EIG_NEAREST && !opt->has_sigma) {
        return gx_fn_fail(fn, "\"which\" is \"nearest\" but there is no \"sigma\"");
    }
    return !opt->has_sigma || (isfinite(opt->sigma.re) && isfinite(opt->sigma.im)) ||
           gx_fn_fail(fn, "option \"sigma\" must be finite");
}

bool gx_eig_args_of(gx_fn *fn, const gx_eig_options *opt, const gx_mat *A, gx_mat mats[2],
                    gx_eig_args *args)
{
    *args = (gx_eig_args){.A = A,
                          .B = opt->b == NULL ? NULL : &mats[0],
                          .start = opt->start == NULL ? NULL : &mats[1],
                          .k = opt->k,
                          .tol = opt->tol,
                          .ncv = opt->ncv,
                          .block = opt->block,
                          .maxiter = opt->maxiter,
                          .seed = (uint64_t)opt->seed,
                          .allows_partial = opt->partial,
                          .is_hermitian = opt->has_symmetric && opt->is_symmetric,
                          .is_general = opt->has_symmetric && !opt->is_symmetric};
    if (!take_which(fn, opt, args)) {
        return false;
    }
    // An order that is asked for without k is the order of all.
    if (args->k == 0 && args->which != GX_EIG_DEFAULT) {
        args->k = A->rows;
    }
    return (opt->b == NULL || gx_fn_option_matrix(fn, "B", opt->b, &mats[0])) &&
           (opt->start == NULL || gx_fn_option_matrix(fn, "start", opt->start, &mats[1]));
}

// Singular values ---------------------------------------------------------------------------------

bool gx_svd_args_of(gx_fn *fn, const gx_svd_options *opt, const gx_mat *A, bool wants_vectors,
                    gx_svd_args *args)
{
    if (opt->mode == GX_SVD_VALUES && wants_vectors) {
        return gx_fn_fail(fn, "\"mode\" is \"values\" but a destination for vectors is given");
    }
    *args = (gx_svd_args){.A = A,
                          .mode = wants_vectors ? (gx_svd_mode)opt->mode : GX_SVD_VALUES,
                          .k = opt->k,
                          .is_smallest = opt->which == 1,
                          .method = (gx_svd_method)opt->method,
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

// Results -----------------------------------------------------------------------------------------

void gx_narrow_in_place(gx_number from, void *x, int64_t count, gx_number dtype)
{
    if (from != dtype) {
        for (int64_t i = 0; i < count; i++) {
            char element[2 * sizeof(double)];
            memcpy(element, gx_at(x, from, 1, i, 0), gx_number_bytes(from));
            gx_convert(from, element, 1, dtype, gx_at(x, dtype, 1, i, 0), 1, 1, 1);
        }
    }
}
