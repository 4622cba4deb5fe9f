/*
** Functions of matrices: inside.  What funm.c (choice, Hermitian matrices), funm_schur.c
** (triangular matrices) and funm_expm.c (exponential, whole powers) share.
*/
#ifndef GX_FUNM_MATRIX_H
#define GX_FUNM_MATRIX_H

#include "../mat/mat.h"

/* What one evaluation works on: matrices of n x n, leading dimension max(n, 1). */
typedef struct gx_funm_work {
    gx_run *run;
    const char *label; /* of A, for messages         */
    int64_t n;
    gx_number dtype; /* GX_F64 or GX_C128          */
} gx_funm_work;

void *gx_funm_matrix(const gx_funm_work *w); /* undefined contents; NULL: the run has failed */
void gx_funm_free(const gx_funm_work *w, void *x);
void gx_funm_copy(const gx_funm_work *w, const void *from, void *to);
void gx_funm_unit(const gx_funm_work *w, void *x);

/* Of a kernel call on such matrices: sizes and leading dimensions. */
gx_args gx_funm_square_args(const gx_funm_work *w);

/* c = alpha op(a) op(b) + beta c. */
void gx_funm_multiply(const gx_funm_work *w, double alpha, gx_trans transa, const void *a,
                      gx_trans transb, const void *b, double beta, void *c);

/* c = alpha a + beta b; c may be one of them. */
void gx_funm_add(const gx_funm_work *w, double alpha, const void *a, double beta, const void *b,
                 void *c);

double gx_funm_norm1(const gx_funm_work *w, const void *x);

/* x = a^-1 x, by another matrix.  GX_NUMERIC "LABEL is singular: WHY" where a pivot is zero. */
void gx_funm_solve(const gx_funm_work *w, const void *a, void *x, const char *why);

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
