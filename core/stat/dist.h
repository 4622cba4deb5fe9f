/*
** Probability distributions: density, cumulative probability, upper tail and their inverses.
**
** Every result is within 1e-13 of the exact one, relatively, in the tails too (measured: 3e-15 for
** shapes up to 1e7 and probabilities down to 1e-300).  There are two exceptions.  Below 2.2e-308 a
** double has fewer digits.  And a quantile of the normal distribution that is near 0 though the
** mean is not is a difference, exact to 1e-19 of the mean.  Quantiles of whole numbers are the
** exact inverse of what GX_DIST_CDF and GX_DIST_SF give.  All of it holds where long double has 64
** bits, not in valgrind.
**
** A parameter that the distribution does not allow, or an argument that is NaN, gives NaN, and so
** does a probability outside [0, 1] of which a quantile is asked.
*/
#ifndef GX_DIST_H
#define GX_DIST_H

#include "../base/types.h"

/*
** A row each: enum, name in SQL, number of parameters (at most 3), how many of them may be left
** out, their names.  What is left out is 0 for a location and 1 for a scale.
*/
#define GX_DISTS(DIST)                                                                             \
    DIST(NORMAL, "normal", 2, 2, "mean, sd")                                                       \
    DIST(T, "t", 1, 0, "df")                                                                       \
    DIST(CHI2, "chi2", 1, 0, "df")                                                                 \
    DIST(F, "f", 2, 0, "df1, df2")                                                                 \
    DIST(BETA, "beta", 2, 0, "a, b")                                                               \
    DIST(GAMMA, "gamma", 2, 1, "shape, scale")                                                     \
    DIST(BINOMIAL, "binomial", 2, 0, "n, p")                                                       \
    DIST(POISSON, "poisson", 1, 0, "mean")

#define GX_DIST_ENUM(kind, name, parameters, optional, names) GX_DIST_##kind,
typedef enum gx_dist_kind { GX_DISTS(GX_DIST_ENUM) GX_DIST_COUNT } gx_dist_kind;

typedef enum gx_dist_of {
    GX_DIST_PDF,      /* density, or probability of the whole number x */
    GX_DIST_CDF,      /* P(X <= x)                                     */
    GX_DIST_SF,       /* P(X > x)                                      */
    GX_DIST_QUANTILE, /* the least x with P(X <= x) >= the argument    */
    GX_DIST_ISF       /* the least x with P(X > x) <= the argument     */
} gx_dist_of;

/* parameters: all of the distribution's, in the order of its row. */
double gx_dist(gx_dist_kind kind, gx_dist_of of, double x, const double *parameters);

/* NULL where the distribution allows them; else what parameter *which must be: "from 0 to 1". */
const char *gx_dist_refuses(gx_dist_kind kind, const double *parameters, int *which);

#endif
