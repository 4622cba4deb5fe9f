/*
** Regressions of rows: from rows to a model, which is a BLOB.
**
** A row is the response y and arguments x1, ..., xk, each of them a number, or a category, whose
** levels become columns of zeros and ones, or the row's weight, or the cluster it belongs to.  The
** design matrix X has a column of ones (unless told), one for each number, and one for each level
** of a category but the first.
**
** Least squares are never taken by the normal equations: rows are folded, a block at a time, into
** the triangle R of [X y] = Q R by Householder's reflectors (Golub & Van Loan, 5.2), which is all
** that estimates, errors, sums of squares and the condition number need.
*/
#ifndef GX_LM_H
#define GX_LM_H

#include "../mat/mat.h"
#include "levels.h"
#include "model.h"

enum { GX_LM_ARGS = 1000, GX_LM_COLUMNS = 2000 };

typedef enum gx_lm_role {
    GX_LM_NUMBER,
    GX_LM_CATEGORY,
    GX_LM_WEIGHT, /* positive; 0: the row does not count */
    GX_LM_CLUSTER
} gx_lm_role;

typedef struct gx_lm_arg {
    gx_lm_role role;
    int64_t place;    /* NUMBER: its column of R                        */
    gx_levels levels; /* CATEGORY, CLUSTER                              */
    int32_t *places;  /* CATEGORY: the column of R of each level; owned */
    int64_t places_room;
} gx_lm_arg;

/* What is asked for; zeros: least squares with an intercept. */
typedef struct gx_lm_spec {
    gx_family family;
    bool no_intercept, is_window; /* window: rows leave again, gx_lm_drop() */
    bool is_discriminant;         /* the model is called one of gx_lda      */
    gx_robust robust;
    double ridge; /* added to the diagonal of X'X but for the intercept's */
} gx_lm_spec;

/* The state of one group. */
typedef struct gx_lm {
    gx_mem *mem;
    gx_lm_spec spec;
    int count;                 /* of arguments                                                  */
    gx_lm_arg *arg;            /* owned                                                         */
    int weight, cluster;       /* which argument is it; -1: none                                */
    bool keeps_rows;           /* they are gone through more than once, or may leave            */
    int64_t n, missing;        /* rows that count; that had NULLs (the caller's to count)       */
    double *rows;              /* those not folded yet, or kept: y, x1, ... of each; owned      */
    int64_t first, fill, room; /* of these rows: the first that has not left, the end      */
    double *r;                 /* the triangle, cap x cap, by columns; owned                    */
    int64_t cols, cap;         /* columns of R: the ones, numbers, y, levels as they come; room */
    int64_t y;                 /* which column is y                                             */
    double *block;             /* a block of rows; owned                                        */
    int64_t block_cols;        /* that it has room for                                          */
    bool has_triangle;         /* r is the triangle of all rows                                 */
    double log_weights;        /* the sum of their logarithms                                   */
    gx_run *run;               /* asked after each block of kept rows, for interrupts; or NULL  */
    const struct gx_lm_stored *stored; /* the rows are in matrices; NULL: they come       */
} gx_lm;

/* roles: of count arguments.  GX_ARG: too many. */
gx_code gx_lm_begin(gx_lm *lm, gx_mem *mem, const gx_lm_spec *spec, int count,
                    const gx_lm_role *roles, gx_err *err);
void gx_lm_clear(gx_lm *lm);

/* The number that stands for a level of argument a in rows. */
gx_code gx_lm_level(gx_lm *lm, int a, const char *text, size_t bytes, double *number, gx_err *err);

/* A row: y, x1, ..., xk, all finite.  And the first row that was added and kept leaves. */
gx_code gx_lm_add(gx_lm *lm, const double *row, gx_err *err);
void gx_lm_drop(gx_lm *lm);

/*
** The model of the rows so far, as a BLOB that the caller frees with gx_mem_free(); *blob NULL: no
** row counts.  names: of the arguments, NULL: x1, x2, ...  GX_NUMERIC: numbers overflow.
*/
gx_code gx_lm_finish(gx_lm *lm, const char *const *names, void **blob, size_t *bytes, gx_err *err);

/*
** The same of stored matrices of any size: y is a column, the columns of X are x1, ..., xk, weights
** a column or NULL.  GX_ARG: shapes that do not fit, complex numbers.
*/
gx_code gx_lm_matrices(gx_run *run, const gx_lm_spec *spec, const gx_mat *X, const gx_mat *y,
                       const gx_mat *weights, const char *const *names, void **blob, size_t *bytes);

#endif
