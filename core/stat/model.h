/*
** A regression model as a BLOB, and what it says.
**
** The BLOB has the triangle R of [X y] (of a generalised model: of the last step's weighted working
** response), the names, and a few sums.  Everything else is worked out by whoever asks, so that a
** model of a group of ten rows costs little more than their sums.  A BLOB may come from anywhere:
** gx_model_parse() takes only what is whole.
**
**     gx_model_head
**     int32 levels[args]          0: a number; L: a category of L levels; -1: no term
**     (to a multiple of 8 bytes)
**     double R[]                  upper triangle by columns: columns + 1 of them
**     double meat[]               of robust errors: upper triangle of columns x columns
**     names                       of arguments and their levels, each ended by a NUL, args of them
*/
#ifndef GX_MODEL_H
#define GX_MODEL_H

#include "../base/mem.h"

/* GX_DISCRIMINANT: the triangle of a regression, of which gx_lda's discriminants are made. */
typedef enum gx_family {
    GX_GAUSSIAN,
    GX_LOGIT,
    GX_PROBIT,
    GX_POISSON,
    GX_DISCRIMINANT,
    GX_FAMILIES
} gx_family;

/* Standard errors that hold where variances differ (MacKinnon & White 1985), or within clusters. */
typedef enum gx_robust { GX_CLASSIC, GX_HC0, GX_HC1, GX_HC2, GX_HC3, GX_CLUSTERED } gx_robust;
#define GX_ROBUST_WORDS "none|HC0|HC1|HC2|HC3"

typedef struct gx_model_head {
    char magic[8]; /* GX_MODEL_MAGIC */
    int32_t family, robust;
    int32_t args, columns; /* of the call; of X */
    int32_t has_intercept, is_weighted;
    int32_t has_converged, iterations; /* generalised */
    int64_t name_bytes;
    double n, missing, clusters, log_weights, ridge;
    double deviance, null_deviance, loglik; /* generalised                           */
    double eta;                             /* the same: the largest |linear predictor| */
} gx_model_head;

#define GX_MODEL_MAGIC "gxmodel1"

static inline size_t gx_model_triangle(int64_t columns)
{
    return (size_t)columns * (size_t)(columns + 1) / 2;
}

/* A BLOB that was looked at: pointers into it, which need not be aligned. */
typedef struct gx_model {
    gx_model_head head;
    const char *levels, *r, *meat, *names, *names_end;
} gx_model;

/* GX_ARG: no model, or a damaged one. */
gx_code gx_model_parse(const void *blob, size_t bytes, gx_model *model, gx_err *err);

/* The same, but GX_ARG where whether it is one of gx_lda is not as said. */
gx_code gx_model_of_kind(const void *blob, size_t bytes, bool is_discriminant, gx_model *model,
                         gx_err *err);

/* levels[args]; the names begin at model->names. */
int32_t gx_model_levels(const gx_model *model, int64_t arg);

/*
** What it comes to.  Columns that are linear combinations of those before them have no estimate
** (NaN), as in R.
*/
typedef struct gx_fit {
    gx_mem *mem;
    int64_t columns, rank;
    double *memory;      /* owned                                                          */
    double *r;           /* rank x columns + 1 (leading dimension columns + 1)             */
    double *inverse;     /* of R's first rank columns that have estimates: rank x rank     */
    int64_t *kept;       /* the columns that have one                                      */
    double *estimate;    /* columns: NaN where there is none                               */
    double *std_error;   /* columns                                                        */
    double *spread;      /* columns: sums of squares about the mean (no intercept: about 0) */
    double rss, tss;     /* sums of squares: residual; about the mean, or about 0          */
    double df;           /* n - rank                                                       */
    double inference_df; /* of t statistics; Inf: normal                                 */
    double dispersion;   /* the residual variance; 1 of families that have none          */
    double *covariance;  /* rank x rank, robust or not                                   */
} gx_fit;

gx_code gx_fit_make(const gx_model *model, gx_mem *mem, gx_fit *fit, gx_err *err);

/* Rank, kept and estimates alone. */
gx_code gx_fit_estimates(const gx_model *model, gx_mem *mem, gx_fit *fit, gx_err *err);
void gx_fit_clear(gx_fit *fit);

/*
** The condition number of X's columns that have estimates (2-norm, one-sided Jacobi); is_scaled: of
** these columns divided by their lengths, which tells how far rounding has grown.
*/
double gx_fit_condition(gx_fit *fit, bool is_scaled);

/* Wald's F statistic of all terms but the intercept, and its first degrees of freedom. */
double gx_fit_f(const gx_fit *fit, const gx_model *model, double *df);

/*
** Column j of X: the argument, and its level; -1 and -1: the intercept; level -1: of a number.
** And the text of either: the argument's name (buffer: room for "x12"), a level's.
*/
void gx_model_column(const gx_model *model, int64_t j, int64_t *arg, int64_t *level);
const char *gx_model_name(const gx_model *model, int64_t arg, int64_t level, char buffer[24]);

/* mu of eta, the linear predictor. */
double gx_family_mean(gx_family family, double eta);

#endif
