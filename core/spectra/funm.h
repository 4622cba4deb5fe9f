/*
** Functions of a square matrix: f(A) in the sense of its Schur or Jordan form (Higham, Functions of
** Matrices, SIAM 2008).
**
** gx_alg_funm() is the driver; the rest is what funm.c (choice, Hermitian matrices), funm_schur.c
** (triangular matrices) and funm_expm.c (exponential, whole powers) share.
*/
#ifndef GX_FUNM_H
#define GX_FUNM_H

#include "../mat/mat.h"

typedef enum gx_funm { GX_FUNM_SQRT, GX_FUNM_EXP, GX_FUNM_LOG, GX_FUNM_POWER } gx_funm;

typedef struct gx_funm_args {
    const gx_mat *A;
    gx_funm function;
    double power; /* POWER */
} gx_funm_args;

/*
** f(A), n x n, leading dimension n, in the governor's memory: the caller frees `data`.  dtype: A's,
** or its complex one where A is real and f(A) is not.  properties: SYMMETRIC, HERMITIAN where f(A)
** is so to the bit.
*/
typedef struct gx_funm_result {
    gx_dtype dtype;
    void *data;
    uint32_t properties;
} gx_funm_result;

/*
** Refuses, in words: A not square, NaN or Inf, a logarithm or a negative power of a singular
** matrix, a square root that does not exist, more memory than there is.  Memory: about eight
** matrices of n^2 complex doubles at most.
*/
gx_code gx_alg_funm(gx_run *run, const gx_funm_args *args, gx_funm_result *result);

/* ---- inside --------------------------------------------------------------------------------- */

/* What one evaluation works on: matrices of n x n, leading dimension max(n, 1). */
typedef struct gx_funm_work {
    gx_run *run;
    const char *label; /* of A, for messages         */
    int64_t n;
    gx_dtype dtype; /* GX_F64 or GX_C128          */
} gx_funm_work;

void *gx_funm_matrix(const gx_funm_work *w); /* undefined contents; NULL: the run has failed */
void gx_funm_free(const gx_funm_work *w, void *x);
void gx_funm_copy(const gx_funm_work *w, const void *from, void *to);
void gx_funm_unit(const gx_funm_work *w, void *x);

/* c = alpha op(a) op(b) + beta c. */
void gx_funm_multiply(const gx_funm_work *w, double alpha, gx_trans transa, const void *a,
                      gx_trans transb, const void *b, double beta, void *c);

/* c = alpha a + beta b; c may be one of them. */
void gx_funm_add(const gx_funm_work *w, double alpha, const void *a, double beta, const void *b,
                 void *c);

double gx_funm_norm1(const gx_funm_work *w, const void *x);

/* x = a^-1 x; a becomes its LU.  GX_NUMERIC "LABEL is singular: WHY" where a pivot is zero. */
void gx_funm_solve(const gx_funm_work *w, void *a, void *x, const char *why);

/* funm_expm.c: a becomes its exponential, its p-th power (any whole p). */
void gx_funm_exponential(const gx_funm_work *w, void *a);
void gx_funm_whole_power(const gx_funm_work *w, void *a, int64_t p);

/*
** funm_schur.c, complex: t, upper triangular, becomes its square root, logarithm, power (-1 < p <
** 1).
*/
void gx_funm_root_of_triangle(const gx_funm_work *w, gx_scalar *t);
void gx_funm_log_of_triangle(const gx_funm_work *w, gx_scalar *t);
void gx_funm_power_of_triangle(const gx_funm_work *w, gx_scalar *t, double p);

#endif
