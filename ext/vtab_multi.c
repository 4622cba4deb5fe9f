/*
** Several variables at once: the tables gx_cca(X, Y), gx_factor(X, k), gx_lda_axes(model) and
** gx_lda_groups(model), and gx_mahalanobis(X, Y).  The mathematics is in
** core/stat/multivariate.h.
*/
#include "table_fn.h"

#include "../core/stat/dist.h"
#include "../core/stat/multivariate.h"
#include "../core/stat/triangle_of.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double tail_of_chi2(double statistic, double df)
{
    return df > 0 ? gx_dist(GX_DIST_CHI2, GX_DIST_SF, fmax(0, statistic), &df) : (double)NAN;
}

// Canonical correlations --------------------------------------------------------------------------

typedef struct cca_table {
    gx_mem *mem;
    gx_canonical c;
    double n;
} cca_table;

static bool cca_begin(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    cca_table *t = state;
    gx_mat X, Y;
    double *r = NULL;
    int64_t cols;
    (void)used;
    t->mem = fn->ctx->mem;
    if (!gx_fn_matrix(fn, 0, "X", &X) || !gx_fn_matrix(fn, 1, "Y", &Y) ||
        !gx_fn_is_ordered(fn, &X) || !gx_fn_is_ordered(fn, &Y)) {
        return false;
    }
    t->n = (double)X.rows;
    if (X.cols == 0 || Y.cols == 0) {
        return gx_fn_fail(fn, "%s has no columns", X.cols == 0 ? "X" : "Y");
    }
    if (X.rows <= X.cols + Y.cols) {
        return gx_fn_fail(fn, "there are %lld rows for %lld columns: every correlation would be 1",
                          (long long)X.rows, (long long)(X.cols + Y.cols));
    }
    if (gx_triangle_of(&fn->run, &X, &Y, true, &r, &cols) == GX_OK) {
        gx_fn_check(fn, gx_canonical_make(t->mem, r, X.cols, Y.cols, t->n, &t->c, &fn->err));
    }
    gx_mem_free(t->mem, r);
    *rows = t->c.axes;
    return gx_ok(&fn->run);
}

/* Bartlett's: that this correlation and those behind it are 0. */
static double cca_statistic(const cca_table *t, int64_t row)
{
    double sum = 0;
    for (int64_t a = row; a < t->c.axes; a++) {
        sum += log1p(-t->c.correlation[a] * t->c.correlation[a]);
    }
    return -(t->n - 1 - (double)(t->c.p + t->c.q + 1) / 2) * sum;
}

static gx_cell cca_cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    const cca_table *t = state;
    const gx_canonical *c = &t->c;
    double df = (double)((c->p - row) * (c->q - row));
    (void)ctx;
    switch (column) {
    case 0:
        return gx_cell_int(row + 1);
    case 1:
        return gx_cell_real(c->correlation[row]);
    case 2:
        return gx_cell_number(cca_statistic(t, row));
    case 3:
        return gx_cell_int((int64_t)df);
    case 4:
        return gx_cell_number(tail_of_chi2(cca_statistic(t, row), df));
    case 5:
        return gx_cell_vector(GX_F64, c->p, c->x + row * c->p, 1);
    default:
        return gx_cell_vector(GX_F64, c->q, c->y + row * c->q, 1);
    }
}

static void cca_clear(void *state)
{
    cca_table *t = state;
    gx_mem_free(t->mem, t->c.memory);
}

const gx_table_fn gx_table_cca = {
    .def = {"gx_cca", 2, 2, 0, NULL, 0},
    .shape = "CREATE TABLE x(axis INTEGER, correlation REAL, statistic REAL, df INTEGER, "
             "p_value REAL, x_coef, y_coef, of_x HIDDEN, of_y HIDDEN)",
    .columns = 7,
    .state_bytes = sizeof(cca_table),
    .begin = cca_begin,
    .cell = cca_cell,
    .clear = cca_clear};

// Factors -----------------------------------------------------------------------------------------

typedef struct factor_table {
    gx_mem *mem;
    gx_factors f;
    int rotation;
} factor_table;

enum { VARIMAX, UNTURNED };

static const gx_option factor_keys[] = {
    {"rotation=varimax|none", GX_OPT_WORD, offsetof(factor_table, rotation), 0},
    {NULL, GX_OPT_END, 0, 0}};

static bool factor_begin(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    factor_table *t = state;
    gx_mat X;
    double *r = NULL;
    int64_t cols, k;
    (void)used;
    t->mem = fn->ctx->mem;
    if (!gx_fn_options(fn, factor_keys, t) || !gx_fn_matrix(fn, 0, "X", &X) ||
        !gx_fn_is_ordered(fn, &X) || !gx_fn_int(fn, 1, "k", &k)) {
        return false;
    }
    if (k < 1 || k > X.cols || gx_factors_df(X.cols, k) < 0) {
        return gx_fn_fail(fn, "%lld columns do not tell %lld factors", (long long)X.cols,
                          (long long)k);
    }
    if (gx_triangle_of(&fn->run, &X, NULL, true, &r, &cols) == GX_OK) {
        gx_fn_check(fn, gx_factors_make(t->mem, r, X.cols, k, (double)X.rows,
                                        t->rotation == VARIMAX, &t->f, &fn->err));
    }
    gx_mem_free(t->mem, r);
    *rows = t->f.columns;
    return gx_ok(&fn->run);
}

static gx_cell factor_cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    const factor_table *t = state;
    const gx_factors *f = &t->f;
    (void)ctx;
    switch (column) {
    case 0:
        return gx_cell_int(row + 1);
    case 1:
        return gx_cell_vector(GX_F64, f->factors, f->loading + row, f->columns);
    case 2:
        return gx_cell_real(1 - f->unique[row]);
    case 3:
        return gx_cell_real(f->unique[row]);
    case 4:
        return f->df > 0 ? gx_cell_real(f->statistic) : (gx_cell){0};
    case 5:
        return gx_cell_int((int64_t)f->df);
    default:
        return gx_cell_number(tail_of_chi2(f->statistic, f->df));
    }
}

static void factor_clear(void *state)
{
    factor_table *t = state;
    gx_mem_free(t->mem, t->f.memory);
}

const gx_table_fn gx_table_factor = {
    .def = {"gx_factor", 2, 3, 0, NULL, 0},
    .shape = "CREATE TABLE x(variable INTEGER, loadings, communality REAL, uniqueness REAL, "
             "statistic REAL, df INTEGER, p_value REAL, of_x HIDDEN, k HIDDEN, options HIDDEN)",
    .columns = 7,
    .state_bytes = sizeof(factor_table),
    .begin = factor_begin,
    .cell = factor_cell,
    .clear = factor_clear};

// Discriminants -----------------------------------------------------------------------------------

typedef struct lda_table {
    gx_mem *mem;
    void *blob; /* a copy of the model; owned */
    gx_model model;
    gx_discriminant d;
    char name[24];
} lda_table;

static bool lda_begin(gx_fn *fn, lda_table *t)
{
    t->mem = fn->ctx->mem;
    return sqlite3_value_type(fn->argv[0]) == SQLITE_NULL ||
           (gx_fn_model(fn, true, &t->blob, &t->model) &&
            gx_fn_check(fn, gx_discriminant_make(&t->model, t->mem, &t->d, &fn->err)));
}

static bool axes_begin(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    lda_table *t = state;
    (void)used;
    bool is_sound = lda_begin(fn, t);
    *rows = t->d.axes;
    return is_sound;
}

static bool groups_begin(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    lda_table *t = state;
    (void)used;
    bool is_sound = lda_begin(fn, t);
    *rows = t->d.groups;
    return is_sound;
}

static gx_cell axes_cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    const lda_table *t = state;
    const gx_discriminant *d = &t->d;
    double sum = 0;
    (void)ctx;
    for (int64_t a = 0; a < d->axes; a++) {
        sum += d->eigenvalue[a];
    }
    switch (column) {
    case 0:
        return gx_cell_int(row + 1);
    case 1:
        return gx_cell_real(d->eigenvalue[row]);
    case 2:
        return sum > 0 ? gx_cell_real(d->eigenvalue[row] / sum) : (gx_cell){0};
    default:
        return gx_cell_vector(GX_F64, d->columns, d->axis + row * d->columns, 1);
    }
}

static gx_cell groups_cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    lda_table *t = state;
    const gx_discriminant *d = &t->d;
    (void)ctx;
    switch (column) {
    case 0:
        return gx_cell_text(gx_model_name(&t->model, 0, row, t->name), -1);
    case 1:
        return gx_cell_int((int64_t)llround(d->count[row]));
    case 2:
        return gx_cell_real(d->count[row] / d->n);
    default:
        return gx_cell_vector(GX_F64, d->columns, d->mean + row * d->columns, 1);
    }
}

static void lda_clear(void *state)
{
    lda_table *t = state;
    if (t->d.memory != NULL) {
        gx_discriminant_clear(&t->d);
    }
    gx_mem_free(t->mem, t->blob);
}

const gx_table_fn gx_table_lda_axes = {
    .def = {"gx_lda_axes", 1, 1, GX_PURE, NULL, 0},
    .shape = "CREATE TABLE x(axis INTEGER, eigenvalue REAL, ratio REAL, coef, from_model HIDDEN)",
    .columns = 4,
    .state_bytes = sizeof(lda_table),
    .begin = axes_begin,
    .cell = axes_cell,
    .clear = lda_clear};

const gx_table_fn gx_table_lda_groups = {
    .def = {"gx_lda_groups", 1, 1, GX_PURE, NULL, 0},
    .shape = "CREATE TABLE x(label TEXT, n INTEGER, prior REAL, mean, from_model HIDDEN)",
    .columns = 4,
    .state_bytes = sizeof(lda_table),
    .begin = groups_begin,
    .cell = groups_cell,
    .clear = lda_clear};

// Distances ---------------------------------------------------------------------------------------

/* gx_mahalanobis(X, Y[, destination][, options]): of Y's rows from X's mean, in X's covariance */
static void mahalanobis(gx_fn *fn)
{
    gx_mat X, Y;
    gx_sink C;
    if (gx_fn_options(fn, NULL, NULL) && gx_fn_matrix(fn, 0, "X", &X) &&
        gx_fn_matrix(fn, 1, "Y", &Y) && gx_fn_is_ordered(fn, &X) && gx_fn_is_ordered(fn, &Y)) {
        gx_mahalanobis(&fn->run, &X, &Y, &fn->dest, &C);
        gx_fn_result_sink(fn, &C);
    }
}

const gx_function gx_functions_multi[] = {
    {"gx_mahalanobis", 2, 4, GX_MADE(2), mahalanobis, 0},
    {.name = NULL},
};
