/*
** Few eigenvalues of a matrix of any size: the Krylov driver behind gx_alg_eig().  krylov_left.c
** runs it: krylov_eig.c has sizes and the loop, krylov_step.c the basis and the projected problem,
** krylov_give.c the result.
*/
#ifndef GX_KRYLOV_EIG_H
#define GX_KRYLOV_EIG_H

#include "spectrum_int.h"
#include "krylov.h"

/* Steps of the random block that looks for missed values. */
enum { GX_KRYLOV_CHECK_STEPS = 8 };

typedef struct gx_krylov_sizes {
    int64_t block, ncv, maxiter;
    double tol;
} gx_krylov_sizes;

/* What is chosen where the arguments are silent; no choice depends on the budget. */
void gx_krylov_eig_sizes(const gx_eig_args *args, gx_krylov_sizes *sizes);

/* Of a basis of m columns, those that a restart keeps. */
int64_t gx_krylov_eig_kept(int64_t k, int64_t m, int64_t ncv, int64_t block);

/* Bytes that it needs at least. */
size_t gx_krylov_eig_bytes(const gx_eig_args *args);

/*
** args have been checked as for gx_eig_dense(); k in 1 .. n.  Refuses further: an ncv or block out
** of range, a start of another height, too little memory for the basis, a B that is not positive
** definite.  GX_NUMERIC where not all converge, unless allows_partial.
*/
gx_code gx_eig_krylov(gx_run *run, const gx_eig_args *args, gx_eig_result *result);

// Inside: one run ---------------------------------------------------------------------------------

typedef struct gx_kry {
    gx_run *run;
    const gx_eig_args *args;
    gx_eig_result *result;
    gx_oper matrix, transformed;
    gx_eig_which which; /* of op's values, turned back where it is an inverse              */
    gx_oper *op;        /* of the two                                                */
    gx_ortho ortho;
    gx_number dtype, wide;
    int64_t n, k, block, ncv, maxiter;
    double tol;
    bool is_hermitian, is_inverse, is_real;
    void *V;             /* n x (ncv + 2 block): basis, F, and what comes next     */
    int64_t m, f;        /* columns of the basis, of F                             */
    int64_t coupled;     /* Hermitian: A F has but rounding of the columns before  */
    int64_t ld;          /* of H and C                                             */
    void *H, *C, *h, *s; /* wide; h: ld x block, s: block x block                  */
    void *T, *Q;         /* m x m, wide: H's Schur form; not of a Hermitian one            */
    gx_scalar *vectors;  /* m x m: eigenvectors of H, of length 1                          */
    gx_scalar *theta;    /* m: values of Op, down T's diagonal                             */
    gx_scalar *value;    /* m: those of A                                                  */
    double *residual;    /* m: of the wanted ones, in their order                          */
    int64_t *order;      /* m; the two of a conjugate pair stand side by side              */
    int64_t *joined;     /* m                                                              */
    bool *is_wanted;     /* m: kept at a restart                                           */
    double *W;           /* m x m wide: a restart's basis                                  */
    double *small;       /* m x m wide                                                     */
    int64_t converged;   /* of the first k                                                 */
    double largest;      /* ||Op||, as far as it is known                                  */
    gx_scalar *locked;   /* k: values when they converged                                  */
    bool is_locked;      /* they have been, and a random block looks for missed ones       */
    bool is_sure;        /* none has been missed                                           */
    int64_t steps;       /* blocks that the basis has gained so far                        */
    int64_t steps_found; /* and had gained when they were locked                             */
} gx_kry;

/* Column j of the basis, of dtype. */
void *gx_kry_column(const gx_kry *s, int64_t j);

/*
** Values and vectors of H, its Schur form, values of A, their order, residuals of the first k + 2,
** how many of k have converged.
*/
void gx_kry_find_ritz(gx_kry *s);

/* Is the residual of the i-th in the order small enough? */
bool gx_kry_has_converged(const gx_kry *s, int64_t i);

/* s->result from what has converged; refuses where that is too little. */
void gx_kry_give(gx_kry *s);

/* F = the start's columns and random ones, of no basis. */
void gx_kry_start(gx_kry *s);

/* Passes until the basis has `most` columns; blocks are cut so that it never has more. */
void gx_kry_expand(gx_kry *s, int64_t most);

/* Does place p of the order stand between the two of a conjugate pair? */
bool gx_kry_splits_pair(const gx_kry *s, int64_t p);

/* The first p values to the front of T; how many there are, fewer where some cannot be parted. */
int64_t gx_kry_order_span(gx_kry *s, int64_t p);

/* The basis becomes the p wanted vectors; one more where that would part a pair. */
void gx_kry_restart(gx_kry *s, int64_t p);

/* args have been checked as for gx_eig_krylov(): right pairs, or values alone. */
gx_code gx_kry_find_right(gx_run *run, const gx_eig_args *args, gx_eig_result *result);

#endif
