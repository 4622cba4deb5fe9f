/*
** gx_plan: an expression and its candidates, shared by vtab_plan.c (what is asked, the table) and
** plan_steps.c (what each operation would do).
*/
#ifndef GX_PLAN_ROW_H
#define GX_PLAN_ROW_H

#include "gx_ext.h"
#include "spectra.h"

#include "../core/alg/plan.h"

/* One row of the table. */
typedef struct plan_row {
    char device[96], driver[32], detail[256], block[64];
    char shares[288]; /* "": one device, or the host */
    gx_cost cost;
    gx_terms terms;
    bool is_chosen;
    bool is_step; /* of a program: of its cost only what it writes and its flops are known */
} plan_row;

typedef struct operand {
    const char *name; /* of the expression's tree */
    gx_trans trans;
    gx_mat mat;
} operand;

typedef struct expression expression;

/* What an operation takes, and who plans it. */
typedef struct plan_rule {
    const char *word;     /* as gx_eval's grammar names it: "matmul" is A @ B */
    const char *function; /* whose calls it is learnt from                    */
    const char *driver;   /* of the passes: what does it                      */
    int matrices;
    enum { NO_COUNT, MAY_COUNT, MUST_COUNT } counts; /* "topk(A, 10)"          */
    bool takes_transposed, may_leave_host;
    const gx_option *options; /* NULL: none                                    */
    void (*plan)(gx_run *run, expression *e, plan_row *row); /* a failure is the run's */
} plan_rule;

/* One operation on one or two stored matrices. */
struct expression {
    const plan_rule *rule;
    operand a, b;
    int64_t k;                  /* svd, eig, pca, topk, knn: how many; 0: all */
    gx_eig_options eig_options; /* eig */
    gx_eig_args eig;
    gx_mat mats[2];             /* what eig.B and eig.start point to */
    gx_svd_options svd_options; /* svd */
    gx_svd_args svd;
};

/* NULL: there is no such operation. */
const plan_rule *gx_plan_rule(const char *word);

/* What gx_topk would do along the lines that it chooses unasked (vtab_topk.c). */
void gx_topk_predict(gx_run *run, const gx_mat *A, int64_t k, gx_cost *cost, gx_terms *terms);

/* The candidates, the chosen one first; returns how many.  A failure is the run's. */
int gx_plan_expression(gx_run *run, expression *e, plan_row row[2]);

#endif
