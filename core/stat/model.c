/*
** What a regression's model says: see model.h.
**
** Everything comes from the triangle R of [X y] = Q R (Golub & Van Loan, 5.3): with the columns
** that have estimates in front, R = [R1 c; 0 e],
**
**     b = R1^-1 c        |y - X b|^2 = |e|^2        (X'X)^-1 = R1^-1 R1^-T
**
** and the first row is the intercept's, so that what is below it are sums of squares about the
** mean.
*/
#include "model.h"

#include "small_triangle.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// The BLOB ----------------------------------------------------------------------------------------

static bool head_is_sound(const gx_model_head *h)
{
    return memcmp(h->magic, GX_MODEL_MAGIC, sizeof h->magic) == 0 && h->family >= 0 &&
           h->family < GX_FAMILIES && h->robust >= 0 && h->robust <= GX_CLUSTERED && h->args >= 0 &&
           h->args <= 1 << 20 && h->columns >= 0 && h->columns <= 1 << 15 && h->name_bytes >= 0 &&
           h->name_bytes < INT32_MAX && (h->has_intercept == 0 || h->has_intercept == 1) &&
           h->n >= 0 && h->n < 0x1p53 && h->missing >= 0 && h->missing < 0x1p53 && h->ridge >= 0;
}

int32_t gx_model_levels(const gx_model *model, int64_t arg)
{
    int32_t levels;
    memcpy(&levels, model->levels + (size_t)arg * sizeof levels, sizeof levels);
    return levels;
}

/* Columns of an argument; has_constant: the model has a column that is one already. */
static int64_t columns_of(const gx_model *model, int64_t arg, bool *has_constant)
{
    int32_t levels = gx_model_levels(model, arg);
    int64_t columns = levels == 0 ? 1 : levels < 0 ? 0 : levels - *has_constant;
    *has_constant = *has_constant || levels > 0;
    return columns;
}

/* Each argument's levels are as many names, and as many columns, as there are. */
static bool names_are_sound(const gx_model *m)
{
    bool has_constant = m->head.has_intercept != 0;
    int64_t names = 0, found = 0, columns = has_constant;
    for (int64_t a = 0; a < m->head.args; a++) {
        int32_t levels = gx_model_levels(m, a);
        if (levels < -1 || levels > 1 << 15) {
            return false;
        }
        names += 1 + gx_max(levels, 0);
        columns += columns_of(m, a, &has_constant);
    }
    for (const char *at = m->names; at < m->names_end; at++) {
        found += *at == '\0';
    }
    bool ends = m->names == m->names_end || m->names_end[-1] == '\0';
    if (m->head.family == GX_DISCRIMINANT &&
        (m->head.args < 2 || gx_model_levels(m, 0) < 1 || m->head.has_intercept)) {
        return false;
    }
    return columns == m->head.columns && ends &&
           (found == names || (found == 0 && names == m->head.args));
}

gx_code gx_model_parse(const void *blob, size_t bytes, gx_model *model, gx_err *err)
{
    const char *at = blob;
    gx_model_head *h = &model->head;
    if (bytes < sizeof *h || memcpy(h, at, sizeof *h) == NULL || !head_is_sound(h)) {
        return gx_fail(err, GX_ARG, "this is no model: gx_lm, gx_glm and their like make them");
    }
    size_t levels = ((size_t)h->args * sizeof(int32_t) + 7) / 8 * 8;
    size_t r = gx_model_triangle(h->columns + 1) * sizeof(double);
    size_t meat = h->robust == GX_CLASSIC ? 0 : gx_model_triangle(h->columns) * sizeof(double);
    model->levels = at + sizeof *h;
    model->r = model->levels + levels;
    model->meat = model->r + r;
    model->names = model->meat + meat;
    model->names_end = model->names + h->name_bytes;
    if (bytes != sizeof *h + levels + r + meat + (size_t)h->name_bytes || !names_are_sound(model)) {
        return gx_fail(err, GX_ARG, "the model is damaged");
    }
    return GX_OK;
}

void gx_model_column(const gx_model *model, int64_t j, int64_t *arg, int64_t *level)
{
    bool has_constant = model->head.has_intercept != 0;
    *arg = *level = -1;
    int64_t left = j - has_constant;
    for (int64_t a = 0; a < model->head.args && left >= 0; a++) {
        bool drops = has_constant;
        int64_t columns = columns_of(model, a, &has_constant);
        if (left < columns) {
            *arg = a;
            *level = gx_model_levels(model, a) == 0 ? -1 : left + drops;
        }
        left -= columns;
    }
}

const char *gx_model_name(const gx_model *model, int64_t arg, int64_t level, char buffer[24])
{
    const char *at = model->names;
    if (at == model->names_end) {
        snprintf(buffer, 24, "x%lld", (long long)arg + 1);
        return buffer;
    }
    int64_t skipped = level + 1;
    for (int64_t a = 0; a < arg; a++) {
        skipped += 1 + gx_max(gx_model_levels(model, a), 0);
    }
    for (; skipped > 0; skipped--) {
        at += strlen(at) + 1;
    }
    return at;
}

gx_code gx_model_of_kind(const void *blob, size_t bytes, bool is_discriminant, gx_model *model,
                         gx_err *err)
{
    GX_TRY(gx_model_parse(blob, bytes, model, err));
    if ((model->head.family == GX_DISCRIMINANT) == is_discriminant) {
        return GX_OK;
    }
    return gx_fail(err, GX_ARG,
                   is_discriminant ? "this is a model of a regression: gx_lda makes discriminants"
                                   : "this is a model of gx_lda: gx_lda_axes, gx_lda_groups and "
                                     "gx_predict say what is in it");
}

// The fit -----------------------------------------------------------------------------------------

/* A packed upper triangle into a square one. */
static void unpack(const char *packed, int64_t n, double *square, int64_t ld)
{
    for (int64_t j = 0; j < n; j++) {
        memcpy(square + j * ld, packed, (size_t)(j + 1) * sizeof *square);
        memset(square + j * ld + j + 1, 0, (size_t)(n - j - 1) * sizeof *square);
        packed += (size_t)(j + 1) * sizeof *square;
    }
}

static gx_code allocate(gx_fit *fit, gx_err *err)
{
    size_t p = (size_t)fit->columns, q = p + 1;
    size_t count = 2 * q * q + 2 * p * p + 4 * p;
    GX_TRY(gx_mem_alloc(fit->mem, count * sizeof(double) + p * sizeof(int64_t), "a model",
                        &fit->memory, err));
    fit->r = fit->memory;
    fit->inverse = fit->r + 2 * q * q; // behind the triangle is room for another
    fit->covariance = fit->inverse + p * p;
    fit->estimate = fit->covariance + p * p;
    fit->std_error = fit->estimate + p;
    fit->spread = fit->std_error + p;
    fit->kept = (int64_t *)(fit->spread + 2 * p);
    return GX_OK;
}

/* Rows sqrt(ridge) e_j under the triangle, for all columns but the intercept's. */
static void add_ridge(gx_fit *fit, const gx_model_head *head)
{
    int64_t p = fit->columns, q = p + 1, first = head->has_intercept != 0;
    double *row = fit->inverse; // not used yet
    for (int64_t j = first; j < p; j++) {
        for (int64_t k = 0; k < q; k++) {
            row[k] = k == j ? sqrt(head->ridge) : 0;
        }
        gx_triangle_fold(fit->r, q, q, row, 1, 1);
    }
}

/* The sums of squares, by the triangle as it came; original: a copy of it. */
static void add_squares(gx_fit *fit, const gx_model_head *head, const double *original)
{
    int64_t p = fit->columns, q = p + 1, first = head->has_intercept != 0;
    for (int64_t j = 0; j <= p; j++) {
        double sum = 0;
        for (int64_t i = first; i <= j; i++) {
            sum += original[i + j * q] * original[i + j * q];
        }
        *(j < p ? &fit->spread[j] : &fit->tss) = sum;
    }
    fit->rss = 0;
    for (int64_t i = head->ridge > 0 ? 0 : fit->rank; i <= p; i++) {
        double rest = head->ridge > 0 ? original[i + p * q] : fit->r[i + p * q];
        for (int64_t k = 0; k < fit->rank && head->ridge > 0; k++) {
            rest -= original[i + fit->kept[k] * q] * fit->estimate[fit->kept[k]];
        }
        fit->rss += rest * rest;
    }
}

static void invert(gx_fit *fit)
{
    int64_t rank = fit->rank, q = fit->columns + 1;
    memset(fit->inverse, 0, (size_t)(fit->columns * fit->columns) * sizeof *fit->inverse);
    for (int64_t j = 0; j < rank; j++) {
        double *x = fit->inverse + j * rank;
        for (int64_t i = j; i >= 0; i--) {
            double sum = i == j;
            for (int64_t k = i + 1; k <= j; k++) {
                sum -= fit->r[i + fit->kept[k] * q] * x[k];
            }
            x[i] = sum / fit->r[i + fit->kept[i] * q];
        }
    }
}

/* out = T T' for the upper triangular inverse T, times the dispersion. */
static void classic_covariance(gx_fit *fit)
{
    int64_t rank = fit->rank;
    for (int64_t i = 0; i < rank; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0;
            for (int64_t k = i; k < rank; k++) {
                sum += fit->inverse[i + k * rank] * fit->inverse[j + k * rank];
            }
            fit->covariance[i + j * rank] = fit->covariance[j + i * rank] = sum * fit->dispersion;
        }
    }
}

static double packed_at(const char *packed, int64_t i, int64_t j)
{
    double value;
    size_t at = (size_t)(gx_min(i, j) + gx_max(i, j) * (gx_max(i, j) + 1) / 2);
    memcpy(&value, packed + at * sizeof value, sizeof value);
    return value;
}

/* The sandwich B M B, B = (X'X)^-1 (White 1980). */
static gx_code robust_covariance(gx_fit *fit, const gx_model *model, gx_err *err)
{
    int64_t rank = fit->rank;
    double *half;
    fit->dispersion = 1;
    classic_covariance(fit);
    GX_TRY(gx_mem_alloc(fit->mem, (size_t)(rank * rank) * sizeof *half, "a model", &half, err));
    for (int64_t i = 0; i < rank; i++) {
        for (int64_t j = 0; j < rank; j++) {
            double sum = 0;
            for (int64_t k = 0; k < rank; k++) {
                sum += packed_at(model->meat, fit->kept[i], fit->kept[k]) *
                       fit->covariance[k + j * rank];
            }
            half[i + j * rank] = sum;
        }
    }
    // B is symmetric, and the product is taken row by row of B, each done with before it is lost.
    for (int64_t i = 0; i < rank; i++) {
        double *row = fit->r + (fit->columns + 1) * (fit->columns + 1); // the room behind r
        for (int64_t j = 0; j < rank; j++) {
            double sum = 0;
            for (int64_t k = 0; k < rank; k++) {
                sum += fit->covariance[i + k * rank] * half[k + j * rank];
            }
            row[j] = sum;
        }
        for (int64_t j = 0; j < rank; j++) {
            fit->covariance[i + j * rank] = row[j];
        }
    }
    gx_mem_free(fit->mem, half);
    return GX_OK;
}

gx_code gx_fit_estimates(const gx_model *model, gx_mem *mem, gx_fit *fit, gx_err *err)
{
    const gx_model_head *head = &model->head;
    int64_t p = head->columns, q = p + 1;
    *fit = (gx_fit){.mem = mem, .columns = p};
    GX_TRY(allocate(fit, err));
    unpack(model->r, q, fit->r, q);
    if (head->ridge > 0) {
        add_ridge(fit, head);
    }
    fit->rank = gx_triangle_solve(fit->r, q, p, fit->kept, fit->estimate);
    return GX_OK;
}

gx_code gx_fit_make(const gx_model *model, gx_mem *mem, gx_fit *fit, gx_err *err)
{
    const gx_model_head *head = &model->head;
    int64_t p = head->columns, q = p + 1;
    GX_TRY(gx_fit_estimates(model, mem, fit, err));
    double *original = fit->r + q * q;
    unpack(model->r, q, original, q);
    add_squares(fit, head, original);
    invert(fit);
    fit->df = head->n - (double)fit->rank;
    fit->inference_df = head->robust == GX_CLUSTERED ? head->clusters - 1 : fit->df;
    fit->inference_df = head->family == GX_GAUSSIAN ? fit->inference_df : HUGE_VAL;
    double residual = fit->df > 0 ? fit->rss / fit->df : NAN;
    fit->dispersion = head->family == GX_GAUSSIAN ? residual : 1;
    gx_code rc = GX_OK;
    if (head->robust == GX_CLASSIC) {
        classic_covariance(fit);
    } else {
        rc = robust_covariance(fit, model, err);
        fit->dispersion = head->family == GX_GAUSSIAN ? residual : 1;
    }
    for (int64_t j = 0; j < p; j++) {
        fit->std_error[j] = NAN;
    }
    for (int64_t k = 0; k < fit->rank; k++) {
        double variance = fit->covariance[k + k * fit->rank];
        bool is_known = head->ridge == 0 && fit->inference_df > 0;
        fit->std_error[fit->kept[k]] = is_known ? sqrt(variance) : NAN;
    }
    return rc;
}

void gx_fit_clear(gx_fit *fit)
{
    gx_mem_free(fit->mem, fit->memory);
    fit->memory = NULL;
}

// What is asked of it -----------------------------------------------------------------------------

double gx_fit_condition(gx_fit *fit, bool is_scaled)
{
    int64_t n = fit->rank, q = fit->columns + 1;
    double *a = fit->r + q * q, *s = a + n * n; // the room behind r
    for (int64_t k = 0; k < n; k++) {
        double squares = 0;
        for (int64_t i = 0; i < n; i++) {
            a[i + k * n] = i <= k ? fit->r[i + fit->kept[k] * q] : 0;
            squares += a[i + k * n] * a[i + k * n];
        }
        for (int64_t i = 0; i < n && is_scaled; i++) {
            a[i + k * n] /= sqrt(squares);
        }
    }
    gx_small_svd(a, n, n, s, NULL);
    return n == 0 ? NAN : s[0] / s[n - 1];
}

double gx_fit_f(const gx_fit *fit, const gx_model *model, double *df)
{
    int64_t first = model->head.has_intercept && fit->rank > 0 && fit->kept[0] == 0;
    int64_t count = fit->rank - first, ld = fit->rank;
    *df = (double)count;
    if (model->head.robust == GX_CLASSIC) {
        double explained = 0;
        for (int64_t i = first; i < fit->rank; i++) {
            double c = fit->r[i + fit->columns * (fit->columns + 1)];
            explained += c * c;
        }
        return explained / *df / fit->dispersion;
    }
    // b' V^-1 b by the Cholesky factor of V, in the room behind r.
    double *L = fit->r + (fit->columns + 1) * (fit->columns + 1), sum = 0;
    double *z = L + count * count;
    for (int64_t i = 0; i < count; i++) {
        z[i] = fit->estimate[fit->kept[first + i]];
        for (int64_t j = 0; j <= i; j++) {
            double value = fit->covariance[first + i + (first + j) * ld];
            for (int64_t k = 0; k < j; k++) {
                value -= L[i + k * count] * L[j + k * count];
            }
            L[i + j * count] = i == j ? sqrt(value) : value / L[j + j * count];
        }
        for (int64_t k = 0; k < i; k++) {
            z[i] -= L[i + k * count] * z[k];
        }
        z[i] /= L[i + i * count];
        sum += z[i] * z[i];
    }
    return sum / *df;
}

double gx_family_mean(gx_family family, double eta)
{
    switch (family) {
    case GX_LOGIT:
        return 1 / (1 + exp(-eta));
    case GX_PROBIT:
        return 0.5 * erfc(-eta * 0.70710678118654752440);
    case GX_POISSON:
        return exp(eta);
    default:
        return eta;
    }
}
