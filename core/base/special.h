/*
** Incomplete gamma and beta functions, the normal integral, and their inverses, in long double.
**
** Both tails come from one call, each with its own digits: the smaller one is computed as such.
** Where long double has 64 bits or more, relative errors are some 1e-16 for shapes from 0 to 1e5
** and tails down to 1e-300, and at most 3e-15 for shapes to 1e7: the tail is exp(-deviance), and
** the deviance is a difference of numbers of the size of the shapes.  Shapes may be any positive
** numbers: errors grow with their root.  A call takes some 0.2 to 3 us, an inverse 10 us.
*/
#ifndef GX_SPECIAL_H
#define GX_SPECIAL_H

typedef struct gx_tails {
    long double lower, upper; /* their sum is 1 */
} gx_tails;

/* x^k e^-x / Gamma(k + 1): k >= 0, whole or not, x >= 0. */
long double gx_poisson_mass(long double k, long double x);

/* x^a y^b Gamma(a + b + 1) / (Gamma(a + 1) Gamma(b + 1)): a, b >= 0, x + y = 1, both exact. */
long double gx_binomial_mass(long double a, long double b, long double x, long double y);

/* P(Z <= z), P(Z > z). */
gx_tails gx_normal_tails(long double z);

/* Where P(Z <= z) is p, in [0, 1], to about 1e-15 of z. */
double gx_normal_quantile(double p);

/*
** The logarithm of gamma, continued from the positive numbers with a cut along the negative ones:
** z, 2 doubles, becomes it.  Its error is some 1e-15, or that times itself where it is large.  Inf
** at 0, -1, -2 ...; NaN where the real part is below -10^5.
*/
void gx_log_gamma(double z[2]);


/* P(a, x) and Q(a, x): a > 0, x >= 0. */
gx_tails gx_gamma_tails(long double a, long double x);

/* I_x(a, b) and 1 - I_x(a, b): a, b > 0, x + y = 1, both exact. */
gx_tails gx_beta_tails(long double a, long double b, long double x, long double y);

/* Where the tails are those given, of which one may be 0: then the end of the range.  Of the beta
** function, 1 - x is *y. */
long double gx_normal_inverse(gx_tails tails);
long double gx_gamma_inverse(long double a, gx_tails tails);
long double gx_beta_inverse(long double a, long double b, gx_tails tails, long double *y);

#endif
