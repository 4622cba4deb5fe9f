/*
** Discriminants, canonical correlations, distances: see multivariate.h.
**
** Canonical correlations (Bjorck & Golub 1973): with X = Qx Rxx and Y = Qy Ty, both centred, they
** are the singular values of Qx' Qy.  The triangle of [X Y] has Qx' Y = Rxy above Ryy, whose own
** triangle is Ty, so that Qx' Qy = Rxy Ty^-1.
**
** Discriminants: the triangle of [ones of each group, X] has the groups' means in its upper rows
** and below them the triangle T of what differs from them (Hastie, Tibshirani & Friedman, 4.3).
*/
#include "multivariate.h"

#include "../exec/pass.h"
#include "small_triangle.h"
#include "triangle_of.h"

#include <math.h>
#include <string.h>

// Discriminants -----------------------------------------------------------------------------------

static double packed_at(const gx_model *model, int64_t i, int64_t j)
{
    double value;
    memcpy(&value, model->r + (size_t)(i + j * (j + 1) / 2) * sizeof value, sizeof value);
    return value;
}

/* The axes: singular vectors of the groups' weighted means, whitened. */
static void find_axes(gx_discriminant *d, double *work)
{
    int64_t G = d->groups, p = d->columns, high = gx_max(G, p);
    double *between = work, *v = between + high * p, *s = v + p * p, *overall = s + p;
    memset(between, 0, (size_t)(high * p) * sizeof *between);
    for (int64_t j = 0; j < p; j++) {
        overall[j] = 0;
        for (int64_t g = 0; g < G; g++) {
            overall[j] += d->count[g] / d->n * d->mean[j + g * p];
        }
    }
    for (int64_t g = 0; g < G; g++) {
        for (int64_t k = 0; k < p; k++) { // whitened: T^-1 from the right
            double sum = 0;
            for (int64_t j = 0; j <= k; j++) {
                sum += (d->mean[j + g * p] - overall[j]) * d->whiten[j + k * p];
            }
            between[g + k * high] = sum * sqrt(d->count[g] / (d->n - (double)G));
        }
    }
    gx_small_svd(between, high, p, s, v);
    for (int64_t a = 0; a < d->axes; a++) {
        d->eigenvalue[a] = s[a] * s[a];
        for (int64_t j = 0; j < p; j++) {
            double sum = 0;
            for (int64_t k = j; k < p; k++) {
                sum += d->whiten[j + k * p] * v[k + a * p];
            }
            d->axis[j + a * p] = sum;
        }
    }
}

gx_code gx_discriminant_make(const gx_model *model, gx_mem *mem, gx_discriminant *d, gx_err *err)
{
    int64_t G = gx_model_levels(model, 0), p = model->head.columns - G;
    *d = (gx_discriminant){.mem = mem, .groups = G, .columns = p, .n = model->head.n};
    d->axes = gx_min(p, G - 1);
    if (G < 2 || p < 1) {
        return gx_fail(err, GX_ARG,
                       "discriminants need two groups and a column; there are %lld "
                       "and %lld",
                       (long long)G, (long long)p);
    }
    size_t sizes[] = {(size_t)G,       (size_t)(G * p),       (size_t)(p * p),
                      (size_t)d->axes, (size_t)(p * d->axes), (size_t)((p + G + 1) * (p + G + 1))};
    size_t work = (size_t)(gx_max(G, p) * p + p * p + 2 * p), total = work;
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        total += sizes[k];
    }
    GX_TRY(gx_mem_alloc(mem, total * sizeof(double), "discriminants", &d->memory, err));
    double **parts[] = {&d->count, &d->mean, &d->whiten, &d->eigenvalue, &d->axis};
    double *at = d->memory, *r;
    for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
        *parts[k] = at;
        at += sizes[k];
    }
    r = at;
    int64_t ld = G + p + 1;
    for (int64_t j = 0; j < G + p; j++) {
        for (int64_t i = 0; i <= j; i++) {
            r[i + j * ld] = packed_at(model, i, j);
        }
    }
    int64_t bad = d->n > (double)G ? gx_triangle_dependent(r, ld, G, G + p) : 0;
    if (bad >= 0) {
        return gx_fail(err, GX_NUMERIC,
                       "column %lld is constant within groups, or a linear "
                       "combination of those before it there",
                       (long long)bad + 1);
    }
    for (int64_t g = 0; g < G; g++) {
        double length = r[g + g * ld];
        d->count[g] = length * length;
        for (int64_t j = 0; j < p; j++) {
            d->mean[j + g * p] = r[g + (G + j) * ld] / length;
        }
    }
    gx_triangle_invert(r + G + G * ld, ld, p, sqrt(d->n - (double)G), d->whiten);
    find_axes(d, r + sizes[5]);
    return GX_OK;
}

void gx_discriminant_clear(gx_discriminant *d)
{
    gx_mem_free(d->mem, d->memory);
    d->memory = NULL;
}

int64_t gx_discriminant_group(const gx_discriminant *d, const double *x, double *work)
{
    int64_t best = 0, p = d->columns;
    double most = -HUGE_VAL;
    for (int64_t g = 0; g < d->groups; g++) {
        double score = log(d->count[g]);
        for (int64_t j = 0; j < p; j++) {
            work[j] = x[j] - d->mean[j + g * p];
        }
        for (int64_t k = 0; k < p; k++) {
            double z = gx_small_dot(work, d->whiten + k * p, k + 1);
            score -= 0.5 * z * z;
        }
        best = score > most ? g : best;
        most = fmax(most, score);
    }
    return best;
}

// Canonical correlations --------------------------------------------------------------------------

gx_code gx_canonical_make(gx_mem *mem, const double *r, int64_t p, int64_t q, double n,
                          gx_canonical *c, gx_err *err)
{
    int64_t ld = 1 + p + q, high = gx_max(p, q), axes = gx_min(p, q);
    *c = (gx_canonical){.axes = axes, .p = p, .q = q};
    int64_t bad = gx_triangle_dependent(r, ld, 1, 1 + p);
    if (bad >= 0) {
        return gx_fail(err, GX_NUMERIC,
                       "column %lld of X is constant, or depends on those before "
                       "it",
                       (long long)bad + 1);
    }
    size_t rows = (size_t)(p + q), Q = (size_t)q, P = (size_t)p, H = (size_t)high, A = (size_t)axes;
    size_t total = A + P * A + Q * A + rows * Q + 2 * Q * Q + P * P + H * Q + Q * Q + Q;
    GX_TRY(gx_mem_calloc(mem, total * sizeof(double), "canonical correlations", &c->memory, err));
    c->correlation = c->memory;
    c->x = c->correlation + A;
    c->y = c->x + P * A;
    double *block = c->y + Q * A, *ty = block + rows * Q, *ty_inverse = ty + Q * Q;
    double *tx_inverse = ty_inverse + Q * Q, *m = tx_inverse + P * P, *v = m + H * Q,
           *s = v + Q * Q;
    for (int64_t j = 0; j < q; j++) {
        memcpy(block + j * (p + q), r + 1 + (1 + p + j) * ld, (size_t)(p + q) * sizeof *block);
    }
    gx_triangle_fold(ty, q, q, block, p + q, p + q);
    bad = gx_triangle_dependent(ty, q, 0, q);
    if (bad >= 0) {
        return gx_fail(err, GX_NUMERIC,
                       "column %lld of Y is constant, or depends on those before "
                       "it",
                       (long long)bad + 1);
    }
    double unit = sqrt(n - 1);
    gx_triangle_invert(ty, q, q, 1, ty_inverse);
    gx_triangle_invert(r + 1 + ld, ld, p, unit, tx_inverse);
    for (int64_t k = 0; k < q; k++) { // Qx' Qy, with rows of zeros below where it is wide
        for (int64_t i = 0; i < p; i++) {
            double sum = 0;
            for (int64_t j = 0; j <= k; j++) {
                sum += r[1 + i + (1 + p + j) * ld] * ty_inverse[j + k * q];
            }
            m[i + k * high] = sum;
        }
    }
    gx_small_svd(m, high, q, s, v);
    for (int64_t a = 0; a < axes; a++) {
        c->correlation[a] = fmin(1, s[a]);
        for (int64_t i = 0; i < p && s[a] > 0; i++) {
            double sum = 0;
            for (int64_t k = i; k < p; k++) {
                sum += tx_inverse[i + k * p] * m[k + a * high] / s[a];
            }
            c->x[i + a * p] = sum;
        }
        for (int64_t j = 0; j < q; j++) {
            double sum = 0;
            for (int64_t k = j; k < q; k++) {
                sum += ty_inverse[j + k * q] * v[k + a * q];
            }
            c->y[j + a * q] = sum * unit;
        }
    }
    return GX_OK;
}

// Distances ---------------------------------------------------------------------------------------

typedef struct distances {
    const gx_mat *Y;
    const double *mean, *whiten; /* p; p x p */
    int64_t height;
    double *out;
} distances;

static gx_code measure(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                       gx_err *err)
{
    const distances *d = arg;
    int64_t p = d->Y->cols, row0 = unit * d->height, rows = gx_min(d->height, d->Y->rows - row0);
    double *x = work, *z = x + p * d->height, *out = part;
    GX_TRY(gx_pass_read(thread, d->Y, row0, 0, rows, p, GX_F64, x, d->height, err));
    memset(out, 0, (size_t)rows * sizeof *out);
    for (int64_t k = 0; k < p; k++) {
        memset(z, 0, (size_t)rows * sizeof *z);
        for (int64_t j = 0; j <= k; j++) {
            double b = d->whiten[j + k * p], mean = d->mean[j];
            for (int64_t i = 0; i < rows; i++) {
                z[i] += (x[i + j * d->height] - mean) * b;
            }
        }
        for (int64_t i = 0; i < rows; i++) {
            out[i] += z[i] * z[i];
        }
    }
    return GX_OK;
}

static gx_code take_distances(void *arg, int64_t unit, void *part, gx_err *err)
{
    const distances *d = arg;
    const double *squares = part;
    int64_t row0 = unit * d->height, rows = gx_min(d->height, d->Y->rows - row0);
    (void)err;
    for (int64_t i = 0; i < rows; i++) {
        d->out[row0 + i] = sqrt(squares[i]);
    }
    return GX_OK;
}

static gx_code measure_all(gx_run *run, const distances *d)
{
    const gx_mat *Y = d->Y;
    const gx_mat *sources[] = {Y};
    double p = (double)Y->cols;
    const gx_pass pass = {.sources = sources,
                          .source_count = 1,
                          .units = (Y->rows + d->height - 1) / d->height,
                          .bytes = (double)Y->rows * p * 8,
                          .flops = (double)Y->rows * p * p * 2,
                          .work_bytes = (size_t)((Y->cols + 1) * d->height) * sizeof(double),
                          .part_bytes = (size_t)d->height * sizeof(double),
                          .work = measure,
                          .fold = take_distances,
                          .arg = (void *)d};
    return gx_pass_run(run, &pass);
}

gx_code gx_mahalanobis(gx_run *run, const gx_mat *X, const gx_mat *Y, const gx_dest *dest,
                       gx_sink *C)
{
    enum { STRIP_BYTES = 1 << 20, VALUE_ROWS = 4096 };
    double *r = NULL, *memory = NULL;
    int64_t p = X->cols, cols;
    if (p == 0) {
        gx_run_failf(run, GX_ARG, "X has no columns");
    } else if (Y->cols != p) {
        gx_run_failf(run, GX_ARG, "X has %lld columns, and Y has %lld", (long long)p,
                     (long long)Y->cols);
    } else if (gx_triangle_of(run, X, NULL, true, &r, &cols) == GX_OK) {
        int64_t bad = gx_triangle_dependent(r, cols, 1, 1 + p), n = gx_max(1, Y->rows);
        if (bad >= 0 || X->rows < 2) {
            gx_run_failf(run, GX_NUMERIC,
                         "column %lld of X is constant, or depends on those before it: its "
                         "covariance has no inverse",
                         (long long)bad + 1);
        }
        memory = gx_run_alloc(run, (size_t)(p * p + p + n) * sizeof *memory, "distances");
    }
    if (gx_ok(run)) {
        int64_t tile = gx_mat_is_tiled(Y) ? Y->tile_rows : VALUE_ROWS;
        int64_t most = gx_max(1, STRIP_BYTES / 8 / gx_max(1, p));
        distances d = {.Y = Y, .mean = memory, .whiten = memory + p, .out = memory + p + p * p};
        d.height = gx_max(1, gx_min(Y->rows, tile > most ? tile : most / tile * tile));
        for (int64_t j = 0; j < p; j++) {
            memory[j] = r[(1 + j) * cols] / r[0];
        }
        gx_triangle_invert(r + 1 + cols, cols, p, sqrt((double)X->rows - 1), memory + p);
        measure_all(run, &d);
    }
    gx_mem_free(run->ctx->mem, r);
    gx_sink_begin(run, dest, Y->rows, 1, GX_F64, 0, 0, 0, C);
    if (gx_ok(run)) {
        gx_mat column;
        gx_mat_value(&column, "distances", GX_F64, Y->rows, 1, memory + p + p * p,
                     gx_max(1, Y->rows));
        gx_copy_to_sink(run, &column, C);
    }
    gx_mem_free(run->ctx->mem, memory);
    return run->err.code;
}
