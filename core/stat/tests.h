/*
** Tests of hypotheses: from a sample to a statistic, its p-value and what else the test has.
**
** The statistics, and the choice between an exact and an approximate distribution, are those of
** SciPy (scipy.stats), so that results can be compared; where they are not, the function says why.
** Groups are taken in the order of their labels.
**
** A number that does not exist is NaN, and `note` says why: samples that are too small or constant
** are facts of the data, and a query over many groups goes on.  What no p-value could be true of
** fails: numbers past a double's range, wrong totals.
*/
#ifndef GX_TESTS_H
#define GX_TESTS_H

#include "dist.h"
#include "sample.h"

typedef enum gx_alternative { GX_TWO_SIDED, GX_LESS, GX_GREATER } gx_alternative;
typedef enum gx_correlation { GX_PEARSON, GX_SPEARMAN, GX_KENDALL } gx_correlation;

/* What options and arguments say. */
typedef struct gx_test_options {
    int alternative;   /* gx_alternative: of the first group against the second, of x against y */
    int coefficient;   /* gx_correlation                                                        */
    int from_mean;     /* levene: deviations from the mean, not the median                      */
    double mu;         /* of the mean, or the difference, under the hypothesis                  */
    double confidence; /* of the interval                                                       */
    bool equal_var;    /* t: one variance for both groups                                       */
    bool paired;       /* t: differences x - y                                                  */
    bool has_groups;   /* t: of two groups, else of one sample                                  */
    bool correction;   /* for continuity                                                        */
    int64_t ddof;      /* chi2_gof: parameters that were estimated from the observed counts     */
    gx_dist_kind dist; /* ks: what x is compared with, where `parameters` is not 0              */
    int parameters;
    double parameter[3];
} gx_test_options;

enum { GX_TEST_OWN = 4 };

typedef struct gx_test {
    double statistic, df, p_value, effect, ci_low, ci_high; /* NaN: there is none            */
    const char *method, *note;                              /* static; note NULL: all exists */
    struct {
        const char *key;
        double value;
        bool is_count;
    } own[GX_TEST_OWN]; /* what this test has beside these */
    int owns;
    bool has_groups; /* two, the first of which `alternative` and the sign of the effect go by */
} gx_test;

typedef gx_code gx_test_fn(gx_sample *s, const gx_test_options *opt, gx_test *out, gx_err *err);

/* Moments: s->all without groups (paired: of the differences), else those of one or two groups. */
gx_test_fn gx_test_t;
gx_test_fn gx_test_anova;       /* moments by group                              */
gx_test_fn gx_test_jarque_bera; /* four moments in s->all                        */
gx_test_fn gx_test_levene;      /* rows: x and the index of its group            */

gx_test_fn gx_test_chi2;     /* s->group, s->column, s->cells                    */
gx_test_fn gx_test_chi2_gof; /* rows: observed, and expected or all NaN           */

/* pearson: moments of s->all and s->other, s->cross; else rows of x and y. */
gx_test_fn gx_test_corr;

/* Rows: x, and the index of its group where there are groups.  They are sorted and replaced. */
gx_test_fn gx_test_mann_whitney, gx_test_kruskal;
gx_test_fn gx_test_wilcoxon; /* differences                                      */
gx_test_fn gx_test_ks, gx_test_shapiro;

// Shared by the files of tests --------------------------------------------------------------------

/* The p-value of a statistic whose distribution is symmetric about 0: normal, t. */
double gx_test_p(gx_dist_kind dist, const double *parameters, double statistic, int alternative);

void gx_test_own(gx_test *out, const char *key, double value);
void gx_test_count(gx_test *out, const char *key, int64_t count);

/* Fails where the squares of numbers that differ vanish, or are infinite. */
gx_code gx_test_squares(const gx_moments *of, gx_err *err);

/* Without a p-value, for that reason; GX_OK. */
gx_code gx_test_without(gx_test *out, const char *note);

/* The groups in the order of their labels: order[k] is the index of the k-th, at most two. */
void gx_test_order(const gx_sample *s, int64_t order[2]);

/* P(D > d) of Kolmogorov's two-sided statistic of n numbers, and of the one-sided one. */
gx_code gx_kolmogorov_sf(const gx_sample *s, int64_t n, double d, double *p, gx_err *err);
double gx_smirnov_sf(int64_t n, double d);

#endif
