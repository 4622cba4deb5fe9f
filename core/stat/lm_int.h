/*
** Private to core/stat: passes over the rows of a regression (lm.c, lm_pass.c, lm_finish.c).
*/
#ifndef GX_LM_INT_H
#define GX_LM_INT_H

#include "lm.h"

enum { GX_LM_BLOCK = 256, GX_LM_LD = GX_LM_BLOCK + 8 }; /* rows of a block; between its columns */

/* What is done with each block of rows. */
typedef enum gx_lm_what {
    GX_LM_FOLD, /* under the triangle                                            */
    GX_LM_STEP, /* the same of the weighted working response of a general family */
    GX_LM_MEAT, /* add up e^2 x x' of robust errors                               */
} gx_lm_what;

/* Sums over rows. */
typedef struct gx_lm_sums {
    double deviance, loglik;              /* with the estimates that the step began with */
    double weight, weighted_y, saturated; /* sums of w, w y, w times the best log-likelihood */
    double eta;                           /* the largest |linear predictor|                   */
    double rows, log_weights;             /* of stored matrices: rows that count, with weight */
} gx_lm_sums;

/* Rows that are stored: of X, y and weights (NULL: ones). */
typedef struct gx_lm_stored {
    gx_run *run;
    const gx_mat *X, *y, *weights;
} gx_lm_stored;

/* Estimates by columns of R as rows come (y's is not used), and what MEAT wants. */
typedef struct gx_lm_job {
    gx_lm_what what;
    const struct gx_lm *lm;
    const double *estimate; /* NULL: a step begins from y itself                       */
    const gx_fit *fit;      /* MEAT                                                    */
    const int64_t *of;      /* MEAT: column of the model -> column of R                */
    double *clusters;       /* MEAT, clustered: columns of the model for each cluster  */
} gx_lm_job;

/* All rows: those that are kept, or the stored matrices'. */
gx_code gx_lm_all(gx_lm *lm, const gx_lm_job *job, double *out, int64_t ld, gx_lm_sums *sums,
                  gx_err *err);

/* Room for the triangle, and for a block. */
gx_code gx_lm_room(gx_lm *lm, gx_err *err);

/* Is each response one that the family can have?  GX_ARG in words. */
gx_code gx_lm_response(gx_family family, const double *y, int64_t count, gx_err *err);

#endif
