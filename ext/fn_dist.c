/*
** Probability distributions in SQL: gx_pdf, gx_cdf, gx_sf, gx_ppf, gx_isf of a distribution's
** name, a number or a matrix, and the distribution's parameters.
**
** They depend on their values alone, so that a schema may use them: a matrix is a value or written
** out, never a name.
*/
#include "gx_ext.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define WORD(kind, name, ...) "|" name
#define NAME(kind, name, ...) name,
#define MOST(kind, name, parameters, ...) parameters,
#define OPTIONAL(kind, name, parameters, optional, ...) optional,
#define PARAMETERS(kind, name, parameters, optional, names) names,
static const char words[] = GX_DISTS(WORD);
static const char *const name_of[] = {GX_DISTS(NAME)}, *const parameters_of[] = {
                                                           GX_DISTS(PARAMETERS)};
static const int most_of[] = {GX_DISTS(MOST)}, optional_of[] = {GX_DISTS(OPTIONAL)};

/* A call: of which distribution, of what, with which parameters. */
typedef struct request {
    gx_dist_kind kind;
    gx_dist_of of;
    double with[3];
} request;

/* The name of parameter k: of "mean, sd". */
static void parameter_name(gx_dist_kind kind, int k, char name[GX_NAME_MAX])
{
    const char *from = parameters_of[kind];
    for (; k > 0; k--) {
        from = strchr(from, ',') + 2;
    }
    snprintf(name, GX_NAME_MAX, "%.*s", (int)strcspn(from, ","), from);
}

gx_code gx_arg_dist(sqlite3_value *name, int count, sqlite3_value **values, gx_dist_kind *kind,
                    double parameters[3], gx_err *err)
{
    static const double left_out[3] = {0, 1, 1};
    char label[GX_NAME_MAX], shown[GX_SHOWN_BYTES], few[24] = "", list[GX_WORDS_BYTES];
    const char *text = (const char *)sqlite3_value_text(name);
    int which = text == NULL ? -1 : gx_word_of(words + 1, text);
    if (which < 0) {
        return gx_fail(err, GX_ARG, "the distribution must be %s, not %s",
                       gx_words_list(words + 1, list), gx_arg_show(name, shown));
    }
    *kind = (gx_dist_kind)which;
    memcpy(parameters, left_out, sizeof left_out);
    int most = most_of[*kind], least = most - optional_of[*kind];
    if (count < least || count > most) {
        snprintf(few, sizeof few, "%d to ", least);
        return gx_fail(err, GX_ARG, "%s takes %s%d parameter%s (%s), not %d", name_of[*kind],
                       least < most ? few : "", most, most == 1 ? "" : "s", parameters_of[*kind],
                       count);
    }
    for (int k = 0; k < count; k++) {
        parameter_name(*kind, k, label);
        GX_TRY(gx_arg_number(values[k], label, &parameters[k], err));
    }
    const char *must = gx_dist_refuses(*kind, parameters, &which);
    if (must != NULL) {
        parameter_name(*kind, which, label);
        return gx_fail(err, GX_ARG, "%s of %s is %s but must be %s", label, name_of[*kind],
                       gx_arg_show(values[which], shown), must);
    }
    return GX_OK;
}

static void of_number(gx_fn *fn, const request *r)
{
    char shown[GX_SHOWN_BYTES];
    double x;
    if (!gx_fn_real(fn, 1, "x", &x)) {
        return;
    }
    if (r->of >= GX_DIST_QUANTILE && (x < 0 || x > 1)) {
        gx_fn_fail(fn, "the probability is %s but must be from 0 to 1",
                   gx_arg_show(fn->argv[1], shown));
        return;
    }
    gx_fn_result_scalar(fn, (gx_scalar){gx_dist(r->kind, r->of, x, r->with), 0}, false);
}

/* Element by element, in x's dtype; what is no probability where one is meant gives NaN. */
static void of_matrix(gx_fn *fn, const request *r)
{
    gx_mat X;
    gx_value_buf buf;
    gx_mem *mem = fn->ctx->mem;
    if (!gx_fn_matrix(fn, 1, "x", &X)) {
        return;
    }
    if (gx_number_is_complex(X.number)) {
        gx_fn_fail(fn, "x is complex, and distributions are of real numbers");
        return;
    }
    if (!gx_fn_check(fn,
                     gx_value_buf_create(mem, gx_dtype_of(X.number), X.rows, X.cols,
                                         gx_store_length_limit(fn->ctx->store), &buf, &fn->err))) {
        return;
    }
    gx_fn_check(fn, gx_mat_read(&fn->run, &X, NULL, 0, 0, X.rows, X.cols, X.number, buf.data,
                                gx_max(X.rows, 1), &fn->err));
    for (int64_t k = 0; k < X.rows * X.cols && gx_ok(&fn->run); k++) {
        double x = gx_number_get(X.number, buf.data, k).re;
        gx_number_put(X.number, buf.data, k, (gx_scalar){gx_dist(r->kind, r->of, x, r->with), 0});
        if (k % 256 == 255) {
            gx_run_poll(&fn->run);
        }
    }
    if (gx_ok(&fn->run)) {
        gx_result_value(fn->sql, mem, &buf);
    } else {
        gx_value_buf_free(mem, &buf);
    }
}

static void distribution(gx_fn *fn)
{
    request r = {.of = (gx_dist_of)fn->def->variant};
    if (!gx_fn_has(fn, 0)) {
        gx_fn_fail(fn, "the distribution is NULL");
        return;
    }
    for (int k = 1; k < fn->argc; k++) {
        if (!gx_fn_has(fn, k)) {
            return; // of NULL, NULL
        }
    }
    if (!gx_fn_check(
            fn, gx_arg_dist(fn->argv[0], fn->argc - 2, fn->argv + 2, &r.kind, r.with, &fn->err))) {
        return;
    }
    if (sqlite3_value_type(fn->argv[1]) == SQLITE_BLOB || gx_arg_begins(fn->argv[1], '[')) {
        of_matrix(fn, &r);
    } else {
        of_number(fn, &r);
    }
}

const gx_function gx_functions_dist[] = {{"gx_pdf", 2, 5, GX_PURE, distribution, GX_DIST_PDF},
                                         {"gx_cdf", 2, 5, GX_PURE, distribution, GX_DIST_CDF},
                                         {"gx_sf", 2, 5, GX_PURE, distribution, GX_DIST_SF},
                                         {"gx_ppf", 2, 5, GX_PURE, distribution, GX_DIST_QUANTILE},
                                         {"gx_isf", 2, 5, GX_PURE, distribution, GX_DIST_ISF},
                                         {.name = NULL}};
