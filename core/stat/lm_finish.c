/*
** From the triangle to the model: columns in the model's order, robust errors, generalised models.
**
** A general family takes steps of weighted least squares (lm_pass.c) until the deviance changes no
** more, each one pass over the rows; a step that makes the deviance larger is halved.
*/
#include "lm_int.h"

#include "small_triangle.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The most columns: as many as R has, and the intercept. */
typedef struct order {
    int64_t count;    /* columns of the model, y behind them */
    int64_t *of;      /* column of the model -> column of R  */
    int32_t *sorted;  /* levels of all categories, one after the other */
    int32_t *levels;  /* [args] as in the BLOB               */
    bool is_identity; /* R is the model's as it is           */
} order;

static gx_code put_in_order(const gx_lm *lm, order *o, gx_err *err)
{
    int64_t levels = 0, at = 0;
    for (int a = 0; a < lm->count; a++) {
        levels += lm->arg[a].role == GX_LM_CATEGORY ? lm->arg[a].levels.count : 0;
    }
    size_t columns = (size_t)lm->cols, args = (size_t)lm->count;
    GX_TRY(gx_mem_alloc(lm->mem, columns * sizeof *o->of + ((size_t)levels + args) * 4,
                        "a regression", &o->of, err));
    o->sorted = (int32_t *)(o->of + columns);
    o->levels = o->sorted + levels;
    o->is_identity = true;
    if (!lm->spec.no_intercept) {
        o->of[at++] = 0;
    }
    bool has_constant = !lm->spec.no_intercept;
    int32_t *sorted = o->sorted;
    for (int a = 0; a < lm->count; a++) {
        const gx_lm_arg *arg = &lm->arg[a];
        o->levels[a] = arg->role == GX_LM_NUMBER ? 0 : -1;
        if (arg->role == GX_LM_NUMBER) {
            o->of[at++] = arg->place;
        } else if (arg->role == GX_LM_CATEGORY) {
            o->is_identity = false;
            o->levels[a] = (int32_t)arg->levels.count;
            gx_levels_sort(&arg->levels, sorted);
            for (int64_t k = has_constant; k < arg->levels.count; k++) {
                o->of[at++] = arg->places[sorted[k]];
            }
            has_constant = has_constant || arg->levels.count > 0;
            sorted += arg->levels.count;
        }
    }
    o->count = at;
    o->of[at] = lm->y; // a column of R is left out, or there is room: y is one of its columns
    return GX_OK;
}

/* The triangle of the model's columns and y, packed. */
static gx_code put_triangle(gx_lm *lm, const order *o, double *packed, gx_err *err)
{
    int64_t q = o->count + 1;
    const double *r = lm->r;
    int64_t ld = lm->cap;
    double *memory = NULL;
    if (!o->is_identity) {
        GX_TRY(gx_mem_calloc(lm->mem, (size_t)(q * q + q * lm->cols) * sizeof *memory,
                             "a regression", &memory, err));
        double *moved = memory + q * q;
        for (int64_t j = 0; j < q; j++) {
            memcpy(moved + j * lm->cols, lm->r + o->of[j] * lm->cap,
                   (size_t)lm->cols * sizeof *moved);
        }
        gx_triangle_fold(memory, q, q, moved, lm->cols, lm->cols);
        r = memory;
        ld = q;
    }
    bool is_finite = true;
    for (int64_t j = 0; j < q; j++) {
        for (int64_t i = 0; i <= j; i++) {
            is_finite = is_finite && isfinite(r[i + j * ld]);
            *packed++ = r[i + j * ld];
        }
    }
    gx_mem_free(lm->mem, memory);
    return is_finite
               ? GX_OK
               : gx_fail(err, GX_NUMERIC, "there are numbers that are NaN, infinite or too large");
}

// The BLOB ----------------------------------------------------------------------------------------

static size_t add_name(char *to, const char *name)
{
    size_t bytes = strlen(name) + 1;
    if (to != NULL) {
        memcpy(to, name, bytes);
    }
    return bytes;
}

/* Names into to, NULL: how long they are; 0: numbers alone, and without names. */
static size_t put_names(const gx_lm *lm, const order *o, const char *const *names, char *to)
{
    size_t bytes = 0;
    const int32_t *sorted = o->sorted;
    if (names == NULL && o->is_identity) {
        return 0;
    }
    for (int a = 0; a < lm->count; a++) {
        char usual[24];
        snprintf(usual, sizeof usual, "x%d", a + 1);
        bytes += add_name(to == NULL ? NULL : to + bytes, names == NULL ? usual : names[a]);
        for (int32_t k = 0; k < o->levels[a]; k++) {
            bytes += add_name(to == NULL ? NULL : to + bytes,
                              gx_levels_text(&lm->arg[a].levels, *sorted++));
        }
    }
    return bytes;
}

/* What is in a BLOB that was just made. */
typedef struct parts {
    void *blob;
    size_t bytes;
    double *r, *meat;
} parts;

static gx_code make_blob(const gx_lm *lm, const order *o, const char *const *names, parts *out,
                         gx_err *err)
{
    bool has_meat = lm->spec.robust != GX_CLASSIC;
    size_t levels = ((size_t)lm->count * 4 + 7) / 8 * 8, name_bytes = put_names(lm, o, names, NULL);
    size_t r = gx_model_triangle(o->count + 1), meat = has_meat ? gx_model_triangle(o->count) : 0;
    out->bytes = sizeof(gx_model_head) + levels + (r + meat) * sizeof(double) + name_bytes;
    GX_TRY(gx_mem_calloc(lm->mem, out->bytes, "a model", &out->blob, err));
    *(gx_model_head *)out->blob = (gx_model_head){
        .magic = GX_MODEL_MAGIC,
        .family = lm->spec.is_discriminant ? GX_DISCRIMINANT : (int32_t)lm->spec.family,
        .args = lm->count,
        .columns = (int32_t)o->count,
        .has_intercept = !lm->spec.no_intercept,
        .is_weighted = lm->weight >= 0,
        .has_converged = 1,
        .name_bytes = (int64_t)name_bytes,
        .n = (double)lm->n,
        .missing = (double)lm->missing,
        .clusters = lm->cluster < 0 ? 0 : (double)lm->arg[lm->cluster].levels.count,
        .log_weights = lm->log_weights,
        .ridge = lm->spec.ridge,
    };
    char *at = (char *)out->blob + sizeof(gx_model_head);
    memcpy(at, o->levels, (size_t)lm->count * 4);
    out->r = (double *)(at + levels);
    out->meat = out->r + r;
    put_names(lm, o, names, (char *)(out->meat + meat));
    return GX_OK;
}

/* The fit of a BLOB as it is, without robust errors, or its estimates alone. */
static gx_code fit_blob(const gx_lm *lm, const parts *made, bool is_whole, gx_fit *fit, gx_err *err)
{
    const gx_model_head *head = made->blob;
    const char *levels = (const char *)made->blob + sizeof *head;
    const gx_model plain = {.head = *head, .levels = levels, .r = (const char *)made->r};
    return is_whole ? gx_fit_make(&plain, lm->mem, fit, err)
                    : gx_fit_estimates(&plain, lm->mem, fit, err);
}

/* Estimates by columns of R, those that have none 0. */
static void spread_out(const gx_lm *lm, const order *o, const double *estimate, double *to)
{
    memset(to, 0, (size_t)lm->cols * sizeof *to);
    for (int64_t j = 0; j < o->count; j++) {
        to[o->of[j]] = isnan(estimate[j]) ? 0 : estimate[j];
    }
}

// Robust errors -----------------------------------------------------------------------------------

/* The sums of clusters into the meat, with the usual correction for few of them. */
static double add_clusters(const gx_lm *lm, const gx_fit *fit, const double *sums, double *meat)
{
    double G = 0;
    for (int64_t g = 0; g < lm->arg[lm->cluster].levels.count; g++) {
        const double *u = sums + g * fit->columns;
        G += 1;
        for (int64_t j = 0; j < fit->columns; j++) {
            for (int64_t k = 0; k <= j; k++) {
                meat[k + j * fit->columns] += u[k] * u[j];
            }
        }
    }
    return G / (G - 1) * (double)(lm->n - 1) / fit->df;
}

static gx_code add_robust(gx_lm *lm, const order *o, const parts *made, gx_err *err)
{
    gx_fit fit;
    gx_code rc = fit_blob(lm, made, true, &fit, err);
    int64_t p = o->count;
    size_t clusters = lm->cluster < 0 ? 0 : (size_t)lm->arg[lm->cluster].levels.count * (size_t)p;
    double *meat = NULL;
    if (rc == GX_OK) {
        rc = gx_mem_calloc(lm->mem, ((size_t)(p * p + lm->cols) + clusters) * sizeof *meat,
                           "robust errors", &meat, err);
    }
    if (rc == GX_OK) {
        double *estimate = meat + p * p, factor = 1;
        gx_lm_sums sums = {0};
        spread_out(lm, o, fit.estimate, estimate);
        const gx_lm_job job = {.what = GX_LM_MEAT,
                               .lm = lm,
                               .estimate = estimate,
                               .fit = &fit,
                               .of = o->of,
                               .clusters = estimate + lm->cols};
        rc = gx_lm_all(lm, &job, meat, p, &sums, err);
        if (lm->spec.robust == GX_CLUSTERED) {
            factor = add_clusters(lm, &fit, job.clusters, meat);
        } else if (lm->spec.robust == GX_HC1) {
            factor = (double)lm->n / fit.df;
        }
        double *packed = made->meat;
        for (int64_t j = 0; j < p; j++) {
            for (int64_t i = 0; i <= j; i++) {
                *packed++ = factor * meat[i + j * p];
            }
        }
        ((gx_model_head *)made->blob)->robust = (int32_t)lm->spec.robust;
    }
    gx_mem_free(lm->mem, meat);
    gx_fit_clear(&fit);
    return rc;
}

// Generalised models ------------------------------------------------------------------------------

/* Of the mean of y alone. */
static double null_deviance(const gx_lm *lm, const gx_lm_sums *s)
{
    double mean = s->weighted_y / s->weight, y = s->weighted_y, rest = s->weight - y;
    double up = y == 0 ? 0 : y * log(mean);
    if (lm->spec.family == GX_POISSON) {
        return 2 * (s->saturated - (up - y));
    }
    return 2 * (s->saturated - up - (rest == 0 ? 0 : rest * log1p(-mean)));
}

/* Does a step change the estimates by rounding alone? */
static bool is_still(const double *from, const double *to, size_t count)
{
    double change = 0, most = 0;
    for (size_t j = 0; j < count; j++) {
        change = fmax(change, fabs(to[j] - from[j]));
        most = fmax(most, fabs(to[j]));
    }
    return change <= 1e-11 * most;
}

/* One step from the estimates (by columns of R; NULL: from y) to those in next. */
static gx_code step(gx_lm *lm, const order *o, const parts *made, const double *from, double *next,
                    gx_lm_sums *sums, gx_err *err)
{
    const gx_lm_job job = {.what = GX_LM_STEP, .lm = lm, .estimate = from};
    gx_fit fit;
    *sums = (gx_lm_sums){0};
    memset(lm->r, 0, (size_t)(lm->cap * lm->cap) * sizeof *lm->r);
    GX_TRY(gx_lm_all(lm, &job, lm->r, lm->cap, sums, err));
    GX_TRY(put_triangle(lm, o, made->r, err));
    gx_code rc = fit_blob(lm, made, false, &fit, err);
    if (rc == GX_OK) {
        spread_out(lm, o, fit.estimate, next);
    }
    gx_fit_clear(&fit);
    return rc;
}

static gx_code iterate(gx_lm *lm, const order *o, const parts *made, gx_err *err)
{
    enum { STEPS = 100, HALVINGS = 20 };
    gx_model_head *head = made->blob;
    size_t cols = (size_t)lm->cols;
    double *at, before = HUGE_VAL;
    gx_lm_sums sums;
    GX_TRY(gx_mem_alloc(lm->mem, 3 * cols * sizeof *at, "a regression", &at, err));
    double *next = at + cols, *last = next + cols;
    gx_code rc = step(lm, o, made, NULL, next, &sums, err);
    head->has_converged = 0;
    for (int halvings = 0; rc == GX_OK && head->iterations < STEPS && !head->has_converged;) {
        memcpy(last, at, cols * sizeof *at);
        memcpy(at, next, cols * sizeof *at);
        rc = step(lm, o, made, at, next, &sums, err);
        head->iterations++;
        if (rc == GX_OK && !(sums.deviance <= before + 1e-7 * (fabs(before) + 0.1)) &&
            before < HUGE_VAL && halvings++ < HALVINGS) {
            for (size_t j = 0; j < cols; j++) { // back half of the way
                next[j] = 0.5 * (at[j] + last[j]);
            }
            memcpy(at, last, cols * sizeof *at);
            continue;
        }
        halvings = 0;
        head->has_converged = fabs(sums.deviance - before) <= 1e-11 * (fabs(sums.deviance) + 0.1) &&
                              is_still(at, next, cols);
        before = sums.deviance;
    }
    gx_mem_free(lm->mem, at);
    head->deviance = sums.deviance;
    head->loglik = sums.loglik;
    head->null_deviance = null_deviance(lm, &sums);
    head->eta = sums.eta;
    if (lm->stored != NULL) {
        head->n = sums.rows;
    }
    return rc;
}

// The model ---------------------------------------------------------------------------------------

/* Rows that still wait, or all of them again, under the triangle. */
static gx_code fold_all(gx_lm *lm, gx_err *err)
{
    const gx_lm_job job = {.what = GX_LM_FOLD, .lm = lm};
    gx_lm_sums sums = {0};
    if (lm->keeps_rows || lm->stored != NULL) {
        memset(lm->r, 0, (size_t)(lm->cap * lm->cap) * sizeof *lm->r);
    }
    GX_TRY(gx_lm_all(lm, &job, lm->r, lm->cap, &sums, err));
    lm->fill = lm->keeps_rows ? lm->fill : 0;
    if (lm->stored != NULL) {
        lm->n = (int64_t)sums.rows;
        lm->log_weights = sums.log_weights;
    }
    return GX_OK;
}

gx_code gx_lm_finish(gx_lm *lm, const char *const *names, void **blob, size_t *bytes, gx_err *err)
{
    *blob = NULL;
    if (lm->n == 0) {
        return GX_OK;
    }
    order o = {0};
    parts made = {0};
    GX_TRY(gx_lm_room(lm, err));
    if (lm->spec.family == GX_GAUSSIAN && !lm->has_triangle) {
        GX_TRY(fold_all(lm, err));
    }
    gx_code rc = put_in_order(lm, &o, err);
    rc = rc == GX_OK ? make_blob(lm, &o, names, &made, err) : rc;
    if (rc == GX_OK && lm->spec.family != GX_GAUSSIAN) {
        rc = iterate(lm, &o, &made, err);
    } else if (rc == GX_OK) {
        rc = put_triangle(lm, &o, made.r, err);
    }
    if (rc == GX_OK && lm->spec.robust != GX_CLASSIC) {
        rc = add_robust(lm, &o, &made, err);
    }
    gx_mem_free(lm->mem, o.of);
    if (rc != GX_OK) {
        gx_mem_free(lm->mem, made.blob);
        return rc;
    }
    *blob = made.blob;
    *bytes = made.bytes;
    return GX_OK;
}
