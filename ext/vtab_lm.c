/*
** What a regression model says, as tables: gx_lm_terms(model), gx_lm_model(model),
** gx_lm_anova(model).  Columns are called as broom calls them.  The model may be gx_glm's.
*/
#include "table_fn.h"

#include "../core/stat/dist.h"
#include "../core/stat/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct lm_table {
    gx_mem *mem;
    void *blob; /* a copy of the model; owned */
    gx_model model;
    gx_fit fit;
    double confidence;
    char text[1000];
} lm_table;

bool gx_fn_model(gx_fn *fn, bool is_discriminant, void **copy, gx_model *model)
{
    char shown[GX_SHOWN_BYTES];
    if (sqlite3_value_type(fn->argv[0]) != SQLITE_BLOB) {
        return gx_fn_fail(fn, "model must be what %s made, not %s",
                          is_discriminant ? "gx_lda" : "gx_lm or its like",
                          gx_arg_show(fn->argv[0], shown));
    }
    size_t bytes = (size_t)sqlite3_value_bytes(fn->argv[0]);
    if (!gx_fn_check(fn, gx_mem_alloc(fn->ctx->mem, bytes, "a model", copy, &fn->err))) {
        return false;
    }
    if (bytes > 0) {
        memcpy(*copy, sqlite3_value_blob(fn->argv[0]), bytes);
    }
    return gx_fn_check(fn, gx_model_of_kind(*copy, bytes, is_discriminant, model, &fn->err));
}

static bool begin(gx_fn *fn, lm_table *t)
{
    t->mem = fn->ctx->mem;
    return gx_fn_model(fn, false, &t->blob, &t->model) &&
           gx_fn_check(fn, gx_fit_make(&t->model, t->mem, &t->fit, &fn->err));
}

/* A model as argument 0; NULL: no rows, and no blob. */
static bool begin_of(gx_fn *fn, lm_table *t, const gx_option *keys)
{
    return gx_fn_options(fn, keys, t) &&
           (sqlite3_value_type(fn->argv[0]) == SQLITE_NULL || begin(fn, t));
}

static void clear(void *state)
{
    lm_table *t = state;
    gx_fit_clear(&t->fit);
    gx_mem_free(t->mem, t->blob);
}

static double tail_of_f(double f, double df1, double df2)
{
    return df1 > 0 && df2 > 0 && f >= 0
               ? gx_dist(GX_DIST_F, GX_DIST_SF, f, (const double[]){df1, df2})
               : (double)NAN;
}

// Terms -------------------------------------------------------------------------------------------

enum { TERM, ESTIMATE, STD_ERROR, STATISTIC, P_VALUE, CI_LOW, CI_HIGH, VIF, TERM_COLUMNS };

static const gx_option terms_keys[] = {
    {"confidence=(0,1)", GX_OPT_REAL, offsetof(lm_table, confidence), 0}, {NULL, GX_OPT_END, 0, 0}};

static bool terms_begin(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    lm_table *t = state;
    (void)used;
    t->confidence = 0.95;
    bool is_sound = begin_of(fn, t, terms_keys);
    *rows = is_sound ? t->fit.columns : 0;
    return is_sound;
}

static const char *name_of(lm_table *t, int64_t column)
{
    int64_t arg, level;
    char a[24], b[24];
    gx_model_column(&t->model, column, &arg, &level);
    const char *name = arg < 0 ? "(Intercept)" : gx_model_name(&t->model, arg, -1, a);
    snprintf(t->text, sizeof t->text, "%s%s%s", name, level < 0 ? "" : "=",
             level < 0 ? "" : gx_model_name(&t->model, arg, level, b));
    return t->text;
}

/* How far the interval reaches, in standard errors. */
static double reach(const lm_table *t)
{
    double df = t->fit.inference_df, tail = (1 - t->confidence) / 2;
    return isinf(df) ? gx_dist(GX_DIST_NORMAL, GX_DIST_ISF, tail, (const double[]){0, 1})
                     : gx_dist(GX_DIST_T, GX_DIST_ISF, tail, &df);
}

static double p_of(const lm_table *t, double statistic)
{
    double df = t->fit.inference_df, x = fabs(statistic);
    return isinf(df) ? 2 * gx_dist(GX_DIST_NORMAL, GX_DIST_SF, x, (const double[]){0, 1})
                     : 2 * gx_dist(GX_DIST_T, GX_DIST_SF, x, &df);
}

/* Squared error times the column's spread, in units of the variance: what the others cost it. */
static double vif_of(const lm_table *t, int64_t column)
{
    const gx_fit *f = &t->fit;
    if (t->model.head.has_intercept && column == 0) {
        return NAN;
    }
    for (int64_t k = 0; k < f->rank; k++) {
        double sum = 0;
        for (int64_t j = k; j < f->rank && f->kept[k] == column; j++) {
            sum += f->inverse[k + j * f->rank] * f->inverse[k + j * f->rank];
        }
        if (f->kept[k] == column) {
            return sum * f->spread[column];
        }
    }
    return NAN;
}

static gx_cell terms_cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    lm_table *t = state;
    (void)ctx;
    double estimate = t->fit.estimate[row], error = t->fit.std_error[row];
    double statistic = error == 0 ? (double)NAN : estimate / error;
    switch (column) {
    case TERM:
        return gx_cell_text(name_of(t, row), -1);
    case ESTIMATE:
        return gx_cell_number(estimate);
    case STD_ERROR:
        return gx_cell_number(error);
    case STATISTIC:
        return gx_cell_number(statistic);
    case P_VALUE:
        return gx_cell_number(isnan(statistic) ? (double)NAN : p_of(t, statistic));
    case VIF:
        return gx_cell_number(vif_of(t, row));
    default:
        return gx_cell_number(
            isnan(error) ? (double)NAN : estimate + (column == CI_LOW ? -1 : 1) * reach(t) * error);
    }
}

// The model ---------------------------------------------------------------------------------------

enum {
    N,
    N_MISSING,
    DF,
    R2,
    ADJ_R2,
    SIGMA,
    F,
    MODEL_P,
    LOGLIK,
    AIC,
    BIC,
    COND,
    DEVIANCE,
    NULL_DEVIANCE,
    PSEUDO_R2,
    ITERATIONS,
    NOTE,
    MODEL_COLUMNS
};

static const double LOG_2PI = 1.83787706640934548356;

static double loglik_of(const lm_table *t)
{
    const gx_model_head *h = &t->model.head;
    return h->family != GX_GAUSSIAN
               ? h->loglik
               : -0.5 * h->n * (LOG_2PI + log(t->fit.rss / h->n) + 1) + 0.5 * h->log_weights;
}

/* Whether what is left over is rounding alone. */
static bool is_perfect(const gx_fit *f)
{
    return f->df > 0 && f->rss <= 1e-26 * f->tss;
}

/* What one has to know before one believes the numbers. */
static const char *note_of(lm_table *t)
{
    const gx_model_head *h = &t->model.head;
    gx_fit *f = &t->fit;
    double condition = gx_fit_condition(f, true);
    *t->text = '\0';
    if (!h->has_converged) {
        snprintf(t->text, sizeof t->text,
                 "the steps did not converge: there may be no finite estimates");
    } else if (h->family == GX_LOGIT || h->family == GX_PROBIT) {
        if (h->eta > (h->family == GX_LOGIT ? 20 : 6)) {
            snprintf(t->text, sizeof t->text,
                     "fitted probabilities of 0 or 1: terms separate y, and their estimates "
                     "have no finite value");
        }
    } else if (f->rank < f->columns) {
        int64_t left = 0;
        for (int64_t j = f->columns - 1; j >= 0; j--) {
            left = isnan(f->estimate[j]) ? j : left;
        }
        char term[400];
        snprintf(term, sizeof term, "%.390s", name_of(t, left));
        snprintf(t->text, sizeof t->text,
                 "%lld of %lld terms are linear combinations of those before them and have no "
                 "estimate, the first is %s",
                 (long long)(f->columns - f->rank), (long long)f->columns, term);
    } else if (f->df <= 0) {
        snprintf(t->text, sizeof t->text,
                 "there are no more rows than terms: no errors can be told");
    } else if (f->tss == 0 && h->family == GX_GAUSSIAN) {
        snprintf(t->text, sizeof t->text, "y is constant");
    } else if (is_perfect(f) && h->family == GX_GAUSSIAN) {
        snprintf(t->text, sizeof t->text,
                 "the fit is perfect but for rounding: errors and p values mean nothing");
    } else if (condition > 1e7) {
        snprintf(t->text, sizeof t->text,
                 "columns are nearly dependent (condition %.0e when scaled): about %d digits of "
                 "the estimates are sure",
                 condition, (int)fmax(0, 16 - log10(condition)));
    }
    return *t->text == '\0' ? NULL : t->text;
}

/* Of least squares alone. */
static double gaussian_number(lm_table *t, int column)
{
    const gx_model_head *h = &t->model.head;
    gx_fit *f = &t->fit;
    double r2 = f->tss > 0 ? 1 - f->rss / f->tss : (double)NAN, df1 = 0, value;
    double total = h->n - (h->has_intercept ? 1 : 0);
    switch (column) {
    case R2:
        return r2;
    case ADJ_R2:
        return f->df > 0 ? 1 - (1 - r2) * total / f->df : (double)NAN;
    case SIGMA:
        return sqrt(f->dispersion);
    case F:
    case MODEL_P:
        value = h->ridge == 0 ? gx_fit_f(f, &t->model, &df1) : (double)NAN;
        value = df1 > 0 && f->inference_df > 0 ? value : (double)NAN;
        return column == F ? value : tail_of_f(value, df1, f->inference_df);
    default:
        return NAN;
    }
}

/* Of generalised models alone. */
static double general_number(const lm_table *t, int column)
{
    const gx_model_head *h = &t->model.head;
    double best = h->loglik + h->deviance / 2;
    switch (column) {
    case DEVIANCE:
        return h->deviance;
    case NULL_DEVIANCE:
        return h->null_deviance;
    case PSEUDO_R2: /* McFadden's */
        return 1 - h->loglik / (best - h->null_deviance / 2);
    case ITERATIONS:
        return h->iterations;
    default:
        return NAN;
    }
}

static bool model_begin(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    (void)used;
    bool is_sound = begin_of(fn, state, NULL);
    *rows = is_sound && ((lm_table *)state)->blob != NULL;
    return is_sound;
}

static gx_cell model_cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    lm_table *t = state;
    const gx_model_head *h = &t->model.head;
    double parameters = (double)t->fit.rank;
    (void)ctx, (void)row;
    switch (column) {
    case N:
        return gx_cell_int((int64_t)h->n);
    case N_MISSING:
        return gx_cell_int((int64_t)h->missing);
    case DF:
        return gx_cell_int((int64_t)t->fit.df);
    case LOGLIK:
        return gx_cell_number(loglik_of(t));
    case AIC:
        return gx_cell_number(2 * parameters - 2 * loglik_of(t));
    case BIC:
        return gx_cell_number(log(h->n) * parameters - 2 * loglik_of(t));
    case COND:
        return gx_cell_number(gx_fit_condition(&t->fit, false));
    case NOTE:
        return gx_cell_text(note_of(t), -1);
    default:
        return gx_cell_number(h->family == GX_GAUSSIAN ? gaussian_number(t, column)
                                                       : general_number(t, column));
    }
}

// Analysis of variance ----------------------------------------------------------------------------

enum { A_TERM, A_DF, SUM_SQ, MEAN_SQ, A_STATISTIC, A_P_VALUE, ANOVA_COLUMNS };

/* An argument's terms together, in the order of the call, and what is left over. */
static bool anova_begin(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    lm_table *t = state;
    (void)used;
    *rows = 0;
    if (!begin_of(fn, t, NULL) || t->blob == NULL) {
        return gx_ok(&fn->run);
    }
    const gx_model_head *h = &t->model.head;
    if (h->family != GX_GAUSSIAN || h->robust != GX_CLASSIC || h->ridge > 0) {
        return gx_fn_fail(fn, "the analysis of variance is one of plain least squares: no robust "
                              "errors, no ridge, no other family");
    }
    for (int64_t a = 0; a < h->args; a++) {
        *rows += gx_model_levels(&t->model, a) >= 0;
    }
    *rows += 1;
    return true;
}

/* Which argument row k is of; -1: the residuals. */
static int64_t argument_of(const lm_table *t, int64_t row)
{
    for (int64_t a = 0; a < t->model.head.args; a++) {
        row -= gx_model_levels(&t->model, a) >= 0;
        if (row < 0) {
            return a;
        }
    }
    return -1;
}

static gx_cell anova_cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    lm_table *t = state;
    const gx_fit *f = &t->fit;
    int64_t arg = argument_of(t, row);
    double df = arg < 0 ? f->df : 0, sum = arg < 0 ? f->rss : 0;
    char name[24];
    (void)ctx;
    for (int64_t k = 0; k < f->rank && arg >= 0; k++) {
        int64_t of, level;
        gx_model_column(&t->model, f->kept[k], &of, &level);
        double c = f->r[k + f->columns * (f->columns + 1)];
        df += of == arg;
        sum += of == arg ? c * c : 0;
    }
    double mean = df > 0 ? sum / df : (double)NAN;
    double statistic = arg < 0 || f->df <= 0 ? (double)NAN : mean / f->dispersion;
    switch (column) {
    case A_TERM:
        snprintf(t->text, sizeof t->text, "%s",
                 arg < 0 ? "Residuals" : gx_model_name(&t->model, arg, -1, name));
        return gx_cell_text(t->text, -1);
    case A_DF:
        return gx_cell_int((int64_t)df);
    case SUM_SQ:
        return gx_cell_real(sum);
    case MEAN_SQ:
        return gx_cell_number(mean);
    case A_STATISTIC:
        return gx_cell_number(statistic);
    default:
        return gx_cell_number(isnan(statistic) ? (double)NAN : tail_of_f(statistic, df, f->df));
    }
}

// The tables --------------------------------------------------------------------------------------

const gx_table_fn gx_table_lm_terms = {
    .def = {"gx_lm_terms", 1, 2, GX_PURE, NULL, 0},
    .shape =
        "CREATE TABLE x(term TEXT, estimate REAL, std_error REAL, statistic REAL, "
        "p_value REAL, ci_low REAL, ci_high REAL, vif REAL, from_model HIDDEN, options HIDDEN)",
    .columns = TERM_COLUMNS,
    .state_bytes = sizeof(lm_table),
    .begin = terms_begin,
    .cell = terms_cell,
    .clear = clear};

const gx_table_fn gx_table_lm_model = {
    .def = {"gx_lm_model", 1, 1, GX_PURE, NULL, 0},
    .shape = "CREATE TABLE x(n INTEGER, n_missing INTEGER, df INTEGER, r2 REAL, adj_r2 REAL, "
             "sigma REAL, f REAL, p_value REAL, loglik REAL, aic REAL, bic REAL, cond REAL, "
             "deviance REAL, null_deviance REAL, pseudo_r2 REAL, iterations INTEGER, note TEXT, "
             "from_model HIDDEN)",
    .columns = MODEL_COLUMNS,
    .state_bytes = sizeof(lm_table),
    .begin = model_begin,
    .cell = model_cell,
    .clear = clear};

const gx_table_fn gx_table_lm_anova = {
    .def = {"gx_lm_anova", 1, 1, GX_PURE, NULL, 0},
    .shape = "CREATE TABLE x(term TEXT, df INTEGER, sum_sq REAL, mean_sq REAL, statistic REAL, "
             "p_value REAL, from_model HIDDEN)",
    .columns = ANOVA_COLUMNS,
    .state_bytes = sizeof(lm_table),
    .begin = anova_begin,
    .cell = anova_cell,
    .clear = clear};
