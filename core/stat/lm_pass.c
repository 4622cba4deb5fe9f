/*
** What is done with blocks of rows of a regression, and passes over all of them.  See lm_int.h.
**
** A generalised model is a row of least squares (McCullagh & Nelder 1989, 2.5): with the mean
** mu(eta), its derivative mu' and the variance V(mu) of a row, a step solves for the working
** response z = eta + (y - mu) / mu' with weights w mu'^2 / V(mu).
*/
#include "lm_int.h"

#include "../exec/pass.h"
#include "small_triangle.h"

#include <math.h>
#include <string.h>

/* What a row comes to at a mean. */
typedef struct mean_of_row {
    double eta, mu, slope, variance;
    double loglik;    /* of y at mu, but for what no mean changes: in `constant` */
    double saturated; /* of y at y, the same                                     */
    double constant;
} mean_of_row;

static double y_log(double y, double x)
{
    return y == 0 ? 0 : y * log(x);
}

static double log_normal_tail(double z) /* log of P(Z <= z) */
{
    return log(0.5 * erfc(-z * 0.70710678118654752440));
}

static mean_of_row at_mean(gx_family family, double y, double eta)
{
    static const double root_2pi = 2.50662827463100050242;
    mean_of_row m = {.eta = eta, .mu = gx_family_mean(family, eta)};
    m.saturated = y_log(y, y) + (family == GX_POISSON ? -y : y_log(1 - y, 1 - y));
    if (family == GX_POISSON) {
        m.slope = m.variance = m.mu;
        m.loglik = y * eta - m.mu;
        m.constant = -lgamma(y + 1);
    } else if (family == GX_LOGIT) {
        double small = exp(-fabs(eta)); // mu (1 - mu) without taking mu from 1
        m.slope = m.variance = small / ((1 + small) * (1 + small));
        m.loglik = y * eta - (fmax(eta, 0) + log1p(small));
    } else {
        double up = gx_family_mean(family, -eta);
        m.slope = exp(-0.5 * eta * eta) / root_2pi;
        m.variance = m.mu * up;
        m.loglik = (y == 0 ? 0 : y * log_normal_tail(eta)) +
                   (y == 1 ? 0 : (1 - y) * log_normal_tail(-eta));
    }
    return m;
}

/* Where a first step begins: near y itself, inside the range. */
static double first_eta(gx_family family, double y)
{
    double mu = (y + 0.5) / 2;
    switch (family) {
    case GX_LOGIT:
        return log(mu / (1 - mu));
    case GX_PROBIT: // a normal quantile, near enough to begin with
        return 0.6 * log(mu / (1 - mu));
    default:
        return log(y + 0.5);
    }
}

static void linear_predictor(const gx_lm_job *job, const double *block, int64_t rows, double *eta)
{
    memset(eta, 0, (size_t)rows * sizeof *eta);
    for (int64_t j = 0; j < job->lm->cols; j++) {
        double b = job->estimate[j];
        for (int64_t i = 0; i < rows && b != 0; i++) {
            eta[i] += b * block[i + j * GX_LM_LD];
        }
    }
}

/* z into y's column, sqrt of the step's weights into the weights'. */
static void working_response(const gx_lm_job *job, double *block, int64_t rows, gx_lm_sums *sums)
{
    const gx_family family = job->lm->spec.family;
    double eta[GX_LM_BLOCK], *y = block + job->lm->y * GX_LM_LD;
    double *weights = block + job->lm->cols * GX_LM_LD;
    if (job->estimate != NULL) {
        linear_predictor(job, block, rows, eta);
    }
    for (int64_t i = 0; i < rows; i++) {
        double w = weights[i];
        double at = job->estimate != NULL ? eta[i] : first_eta(family, y[i]);
        mean_of_row m = at_mean(family, y[i], at);
        sums->deviance += 2 * w * (m.saturated - m.loglik);
        sums->loglik += w * (m.loglik + m.constant);
        sums->weight += w;
        sums->weighted_y += w * y[i];
        sums->saturated += w * m.saturated;
        sums->eta = fmax(sums->eta, fabs(at));
        bool is_flat = !(m.slope > 1e-300) || !(m.variance > 1e-300);
        y[i] = is_flat ? at : at + (y[i] - m.mu) / m.slope;
        weights[i] = is_flat ? 0 : sqrt(w * (m.slope / m.variance) * m.slope);
    }
}

/* Each row's e x into the sums of its cluster. */
static void add_to_clusters(const gx_lm_job *job, const double *block, int64_t rows,
                            const double *e)
{
    const double *clusters = block + (job->lm->cols + 1) * GX_LM_LD;
    int64_t columns = job->fit->columns;
    for (int64_t j = 0; j < columns; j++) {
        const double *x = block + job->of[j] * GX_LM_LD;
        for (int64_t i = 0; i < rows; i++) {
            job->clusters[(int64_t)clusters[i] * columns + j] += e[i] * x[i];
        }
    }
}

/* The rows' leverages, squared lengths of Q's rows, Q = X R^-1. */
static void find_leverages(const gx_lm_job *job, const double *block, int64_t rows, double *h)
{
    const gx_fit *fit = job->fit;
    memset(h, 0, (size_t)rows * sizeof *h);
    for (int64_t k = 0; k < fit->rank; k++) {
        double q[GX_LM_BLOCK] = {0};
        for (int64_t j = 0; j <= k; j++) {
            const double *x = block + job->of[fit->kept[j]] * GX_LM_LD;
            double b = fit->inverse[j + k * fit->rank];
            for (int64_t i = 0; i < rows; i++) {
                q[i] += b * x[i];
            }
        }
        for (int64_t i = 0; i < rows; i++) {
            h[i] += q[i] * q[i];
        }
    }
}

/* e^2 x x' of each row into out, or e x into the sums of its cluster. */
static void add_meat(const gx_lm_job *job, const double *block, int64_t rows, double *out,
                     int64_t ld)
{
    const gx_lm *lm = job->lm;
    gx_robust robust = lm->spec.robust;
    double e[GX_LM_BLOCK], h[GX_LM_BLOCK], share[GX_LM_BLOCK];
    linear_predictor(job, block, rows, e);
    for (int64_t i = 0; i < rows; i++) {
        e[i] = block[i + lm->y * GX_LM_LD] - e[i];
    }
    if (robust == GX_CLUSTERED) {
        add_to_clusters(job, block, rows, e);
        return;
    }
    if (robust >= GX_HC2) {
        find_leverages(job, block, rows, h);
    }
    for (int64_t i = 0; i < rows; i++) {
        double left = robust >= GX_HC2 ? 1 - h[i] : 1;
        share[i] = e[i] * e[i] / (robust == GX_HC3 ? left * left : left);
    }
    for (int64_t j = 0; j < job->fit->columns; j++) {
        const double *x = block + job->of[j] * GX_LM_LD;
        double scaled[GX_LM_BLOCK];
        for (int64_t i = 0; i < rows; i++) {
            scaled[i] = share[i] * x[i];
        }
        for (int64_t k = 0; k <= j; k++) {
            out[k + j * ld] += gx_small_dot(scaled, block + job->of[k] * GX_LM_LD, rows);
        }
    }
}

/*
** A block: the columns of R, then weights (1 where there are none), then the number of the cluster;
** GX_LM_LD apart, overwritten.  out: the triangle or the meat (cols x cols, or columns x columns of
** the model), added to.
*/
static void work_on_block(const gx_lm_job *job, double *block, int64_t rows, double *out,
                          int64_t ld, gx_lm_sums *sums)
{
    const gx_lm *lm = job->lm;
    double *weights = block + lm->cols * GX_LM_LD;
    bool is_scaled = lm->weight >= 0 || job->what == GX_LM_STEP;
    if (job->what == GX_LM_STEP) {
        working_response(job, block, rows, sums);
    }
    for (int64_t i = 0; i < rows && lm->weight >= 0 && job->what != GX_LM_STEP; i++) {
        weights[i] = sqrt(weights[i]);
    }
    for (int64_t j = 0; j < lm->cols && is_scaled; j++) {
        for (int64_t i = 0; i < rows; i++) {
            block[i + j * GX_LM_LD] *= weights[i];
        }
    }
    if (job->what == GX_LM_MEAT) {
        add_meat(job, block, rows, out, ld);
    } else {
        gx_triangle_fold(out, ld, lm->cols, block, GX_LM_LD, rows);
    }
}

// Rows into blocks --------------------------------------------------------------------------------

gx_code gx_lm_room(gx_lm *lm, gx_err *err)
{
    if (lm->cols > lm->cap) {
        int64_t cap = lm->cap == 0 ? lm->cols : lm->cols + lm->cols / 2;
        double *fresh;
        GX_TRY(gx_mem_calloc(lm->mem, (size_t)(cap * cap) * sizeof *fresh, "a regression", &fresh,
                             err));
        for (int64_t j = 0; j < lm->cap; j++) {
            memcpy(fresh + j * cap, lm->r + j * lm->cap, (size_t)lm->cap * sizeof *fresh);
        }
        gx_mem_free(lm->mem, lm->r);
        lm->r = fresh;
        lm->cap = cap;
    }
    if (lm->cap + 2 > lm->block_cols) {
        gx_mem_free(lm->mem, lm->block);
        lm->block = NULL;
        GX_TRY(gx_mem_alloc(lm->mem, (size_t)(lm->cap + 2) * GX_LM_LD * sizeof *lm->block,
                            "a regression", &lm->block, err));
        lm->block_cols = lm->cap + 2;
    }
    return GX_OK;
}

/* Rows that lie one after the other into a block. */
static void expand(const gx_lm *lm, const double *rows, int64_t count, double *block)
{
    const int64_t width = lm->count + 1;
    double *weights = block + lm->cols * GX_LM_LD, *clusters = weights + GX_LM_LD;
    for (int64_t i = 0; i < count; i++) {
        block[i] = 1; // the intercept, or to be overwritten
        block[i + lm->y * GX_LM_LD] = rows[i * width];
        weights[i] = 1;
    }
    for (int64_t j = lm->y + 1; j < lm->cols; j++) {
        memset(block + j * GX_LM_LD, 0, (size_t)count * sizeof *block);
    }
    for (int a = 0; a < lm->count; a++) {
        const gx_lm_arg *arg = &lm->arg[a];
        const double *from = rows + 1 + a;
        double *to = arg->role == GX_LM_NUMBER   ? block + arg->place * GX_LM_LD
                     : arg->role == GX_LM_WEIGHT ? weights
                                                 : clusters;
        for (int64_t i = 0; i < count && arg->role != GX_LM_CATEGORY; i++) {
            to[i] = from[i * width];
        }
        for (int64_t i = 0; i < count && arg->role == GX_LM_CATEGORY; i++) {
            block[i + arg->places[(int64_t)from[i * width]] * GX_LM_LD] = 1;
        }
    }
}

gx_code gx_lm_response(gx_family family, const double *y, int64_t count, gx_err *err)
{
    for (int64_t i = 0; i < count && family != GX_GAUSSIAN; i++) {
        if (!(y[i] >= 0) || (family != GX_POISSON && y[i] > 1)) {
            return gx_fail(err, GX_ARG, "y must be %s here, not %g",
                           family == GX_POISSON ? "at least 0" : "between 0 and 1", y[i]);
        }
    }
    return GX_OK;
}

// Stored matrices ---------------------------------------------------------------------------------

typedef struct stored_pass {
    const gx_lm *lm;
    const gx_lm_job *job;
    const gx_lm_stored *from;
    int64_t height, size; /* rows of a unit; of what is added to, columns and leading dimension */
    double *out;
    int64_t ld;
    gx_lm_sums *sums;
} stored_pass;

static void add_sums(gx_lm_sums *to, const gx_lm_sums *from)
{
    to->deviance += from->deviance;
    to->loglik += from->loglik;
    to->weight += from->weight;
    to->weighted_y += from->weighted_y;
    to->saturated += from->saturated;
    to->eta = fmax(to->eta, from->eta);
    to->rows += from->rows;
    to->log_weights += from->log_weights;
}

/* What no row of numbers may have; which are finite. */
static gx_code check(const gx_lm *lm, const double *block, int64_t rows, int64_t row0, gx_err *err)
{
    for (int64_t j = 0; j <= lm->cols; j++) {
        for (int64_t i = 0; i < rows; i++) {
            double x = block[i + j * GX_LM_LD];
            if (!isfinite(x) || (j == lm->cols && x < 0)) {
                return gx_fail(err, GX_ARG, "row %lld has %s", (long long)(row0 + i),
                               isnan(x)        ? "NaN: there is nothing to compute with"
                               : j == lm->cols ? "a weight that is negative or infinite"
                                               : "an infinite number");
            }
        }
    }
    return gx_lm_response(lm->spec.family, block + lm->y * GX_LM_LD, rows, err);
}

static void count_rows(const double *weights, int64_t count, gx_lm_sums *sums)
{
    for (int64_t k = 0; k < count; k++) {
        double w = weights[k];
        sums->rows += w > 0;
        sums->log_weights += w > 0 && w != 1 ? log(w) : 0;
    }
}

/* count rows of a strip as the columns of [X y] and their weights. */
static void fill_block(const stored_pass *p, const double *strip, const double *y,
                       const double *weights, int64_t count, double *block)
{
    const gx_lm *lm = p->lm;
    int64_t first = lm->spec.no_intercept ? 0 : 1;
    for (int64_t k = 0; k < count; k++) {
        block[k] = 1;
        block[k + lm->cols * GX_LM_LD] = p->from->weights == NULL ? 1 : weights[k];
    }
    for (int64_t j = 0; j < p->from->X->cols; j++) {
        memcpy(block + (first + j) * GX_LM_LD, strip + j * p->height,
               (size_t)count * sizeof *block);
    }
    memcpy(block + lm->y * GX_LM_LD, y, (size_t)count * sizeof *block);
}

static gx_code work(void *arg, int64_t unit, gx_pass_thread *thread, void *memory, void *part,
                    gx_err *err)
{
    const stored_pass *p = arg;
    const gx_lm *lm = p->lm;
    int64_t row0 = unit * p->height, rows = gx_min(p->height, p->from->X->rows - row0);
    int64_t columns = p->from->X->cols;
    double *strip = memory, *y = strip + columns * p->height, *weights = y + p->height;
    double *block = weights + p->height, *out = part;
    gx_lm_sums *sums = (gx_lm_sums *)(out + p->size * p->size);
    memset(part, 0, (size_t)(p->size * p->size) * sizeof *out + sizeof *sums);
    GX_TRY(gx_pass_read(thread, p->from->X, row0, 0, rows, columns, GX_F64, strip, p->height, err));
    GX_TRY(gx_pass_read(thread, p->from->y, row0, 0, rows, 1, GX_F64, y, p->height, err));
    if (p->from->weights != NULL) {
        GX_TRY(gx_pass_read(thread, p->from->weights, row0, 0, rows, 1, GX_F64, weights, p->height,
                            err));
    }
    for (int64_t i = 0; i < rows; i += GX_LM_BLOCK) {
        int64_t count = gx_min(GX_LM_BLOCK, rows - i);
        fill_block(p, strip + i, y + i, weights + i, count, block);
        GX_TRY(check(lm, block, count, row0 + i, err));
        count_rows(block + lm->cols * GX_LM_LD, count, sums);
        work_on_block(p->job, block, count, out, p->size, sums);
    }
    return GX_OK;
}

static gx_code fold(void *arg, int64_t unit, void *part, gx_err *err)
{
    const stored_pass *p = arg;
    double *out = part;
    (void)unit, (void)err;
    add_sums(p->sums, (const gx_lm_sums *)(out + p->size * p->size));
    if (p->job->what != GX_LM_MEAT) {
        gx_triangle_fold(p->out, p->ld, p->size, out, p->size, p->size);
        return GX_OK;
    }
    for (int64_t j = 0; j < p->size; j++) {
        for (int64_t i = 0; i <= j; i++) {
            p->out[i + j * p->ld] += out[i + j * p->size];
        }
    }
    return GX_OK;
}

static gx_code stored_all(gx_lm *lm, const gx_lm_job *job, double *out, int64_t ld,
                          gx_lm_sums *sums, gx_err *err)
{
    enum { STRIP_BYTES = 4 << 20, VALUE_ROWS = 4096 };
    const gx_lm_stored *from = lm->stored;
    const gx_mat *X = from->X;
    int64_t width = X->cols + 2, most = STRIP_BYTES / 8 / width;
    int64_t tile = gx_mat_is_tiled(X) ? X->tile_rows : VALUE_ROWS;
    stored_pass p = {.lm = lm, .job = job, .from = from, .out = out, .ld = ld, .sums = sums};
    p.height = gx_max(1, gx_min(X->rows, tile > most ? tile : most / tile * tile));
    p.size = job->what == GX_LM_MEAT ? job->fit->columns : lm->cols;
    const gx_mat *sources[] = {X, from->y, from->weights};
    size_t block = (size_t)(lm->cols + 2) * GX_LM_LD;
    const gx_pass pass = {
        .sources = sources,
        .source_count = 3,
        .units = (X->rows + p.height - 1) / p.height,
        .bytes = (double)X->rows * (double)width * 8,
        .flops = 2.0 * (double)X->rows * (double)width * (double)width,
        .work_bytes = ((size_t)(width * p.height) + block) * sizeof(double),
        .part_bytes = (size_t)(p.size * p.size) * sizeof(double) + sizeof(gx_lm_sums),
        .work = work,
        .fold = fold,
        .arg = &p,
    };
    if (gx_pass_run(from->run, &pass) != GX_OK) {
        return gx_fail(err, from->run->err.code, "%s", from->run->err.text);
    }
    return GX_OK;
}

gx_code gx_lm_all(gx_lm *lm, const gx_lm_job *job, double *out, int64_t ld, gx_lm_sums *sums,
                  gx_err *err)
{
    if (lm->stored != NULL) {
        return stored_all(lm, job, out, ld, sums, err);
    }
    for (int64_t i = lm->first; i < lm->fill; i += GX_LM_BLOCK) {
        int64_t count = gx_min(GX_LM_BLOCK, lm->fill - i);
        expand(lm, lm->rows + i * (lm->count + 1), count, lm->block);
        work_on_block(job, lm->block, count, out, ld, sums);
        if (lm->run != NULL && gx_run_poll(lm->run) != GX_OK) {
            return gx_fail(err, lm->run->err.code, "%s", lm->run->err.text);
        }
    }
    return GX_OK;
}
