/*
** gx_plan: an expression and its candidates, shared by vtab_plan.c (parsing, the table) and
** plan_steps.c (what each operation would do).
*/
#ifndef GX_PLAN_ROW_H
#define GX_PLAN_ROW_H

#include "gx_ext.h"
#include "spectra.h"

#include "../core/alg/plan.h"

/* One row of the table. */
typedef struct plan_row {
    char device[96], driver[32], detail[160], block[64];
    char shares[512]; /* "": one device, or the host */
    gx_cost cost;
    gx_terms terms;
    bool is_chosen; /* svd, eig on a device: it would be the place */
} plan_row;

typedef struct operand {
    char name[2 * GX_NAME_MAX + 2];
    gx_trans trans;
    gx_mat mat;
} operand;

/* One operation on one or two stored matrices. */
typedef enum plan_op {
    PLAN_PRODUCT,
    PLAN_MAP, /* + - * / */
    PLAN_TRANSPOSE,
    PLAN_NORM,
    PLAN_SUM,
    PLAN_CHOLESKY,
    PLAN_LU,
    PLAN_QR,
    PLAN_SOLVE,
    PLAN_LSTSQ,
    PLAN_INVERSE,
    PLAN_DET,
    PLAN_SVD,
    PLAN_EIG,
    PLAN_COV,
    PLAN_CORR,
    PLAN_PCA,
    PLAN_TOPK,
    PLAN_KNN
} plan_op;

typedef struct expression {
    const char *at; /* what is left of the text */
    operand a, b;
    bool has_b;
    int64_t k; /* svd, eig, pca, topk, knn: how many; 0: all */
    plan_op op;
    gx_eig_options eig_options; /* eig */
    gx_eig_args eig;
    gx_mat mats[2];             /* what eig.B and eig.start point to */
    gx_svd_options svd_options; /* svd */
    gx_svd_args svd;
} expression;

/* What gx_topk would do along the lines that it chooses unasked (vtab_topk.c). */
void gx_topk_predict(gx_run *run, const gx_mat *A, int64_t k, gx_cost *cost, gx_terms *terms);

/* Fill the row; a failure is the run's. */
void gx_plan_expression(gx_run *run, expression *e, plan_row *row);

#endif
