/*
** Several variables at once: discriminants, canonical correlations, factors, distances.
**
** All of it comes from one triangle: R of [1 X] or [1 X Y] = Q R, whose first row has the means,
** and whose rest is the triangle T of the centred columns: their covariance is T'T / (n - 1).
*/
#ifndef GX_MULTIVARIATE_H
#define GX_MULTIVARIATE_H

#include "../mat/mat.h"
#include "model.h"

/* Linear discriminants of a model of gx_lda: groups of columns of ones, then the numbers. */
typedef struct gx_discriminant {
    gx_mem *mem;
    int64_t groups, columns, axes;
    double n;
    double *memory;     /* owned                                                           */
    double *count;      /* of each group                                                   */
    double *mean;       /* groups x columns, each group's side by side (leading: columns)   */
    double *whiten;     /* T^-1 sqrt(n - groups): columns x columns, upper                 */
    double *eigenvalue; /* of each axis, descending: between over within                   */
    double *axis;       /* columns x axes: variance 1 within groups                        */
} gx_discriminant;

/* GX_ARG: another model; GX_NUMERIC in words: columns that depend on others, too few rows. */
gx_code gx_discriminant_make(const gx_model *model, gx_mem *mem, gx_discriminant *d, gx_err *err);
void gx_discriminant_clear(gx_discriminant *d);

/* The group of x (columns numbers), by Bayes' rule with normal densities of one covariance. */
int64_t gx_discriminant_group(const gx_discriminant *d, const double *x, double *work);

/*
** Canonical correlations of p and q columns by their triangle (1 + p + q columns, n rows): the
** correlations, min(p, q), descending; x (p x that) and y (q x that): the variates' coefficients,
** variance 1.  Work and results within one block, *memory, the caller's to free.
*/
typedef struct gx_canonical {
    int64_t axes, p, q;
    double *correlation, *x, *y, *memory;
} gx_canonical;
gx_code gx_canonical_make(gx_mem *mem, const double *r, int64_t p, int64_t q, double n,
                          gx_canonical *c, gx_err *err);

/*
** Maximum likelihood factors (Joreskog 1967) of the correlations of p columns, by the triangle of
** [1 X]: loading p x k, each factor's side by side, turned by varimax where asked for; unique: the
** p variances that no factor explains.  GX_NUMERIC: no convergence, a constant column.
*/
typedef struct gx_factors {
    int64_t columns, factors;
    double *loading, *unique, *memory; /* memory: the caller's to free */
    double statistic, df;              /* chi-squared of k factors being enough */
} gx_factors;

/* Degrees of freedom that are left; negative: the columns do not tell so many factors. */
double gx_factors_df(int64_t columns, int64_t factors);

/* columns tell the factors. */
gx_code gx_factors_make(gx_mem *mem, const double *r, int64_t columns, int64_t factors, double n,
                        bool is_turned, gx_factors *f, gx_err *err);

/* The distances of Y's rows from the mean of X in X's covariance, as a column into the sink. */
gx_code gx_mahalanobis(gx_run *run, const gx_mat *X, const gx_mat *Y, const gx_dest *dest,
                       gx_sink *C);

#endif
