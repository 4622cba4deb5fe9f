/*
** A matrix ready to be solved with: a factor of it, or itself where it is a triangle or a diagonal.
**
**     gx_factor F;
**     gx_factor_make(run, &A, &choice, &F);        chooses, factors
**     gx_factor_solve(&F, GX_NO_TRANS, &B, &X);    any number of times
**     gx_factor_clear(&F);                         on every path; leaves nothing behind
*/
#ifndef GX_FACTORING_H
#define GX_FACTORING_H

#include "../store/aux_data.h"
#include "alg.h"

/* What A is solved as. */
typedef enum gx_factor_kind {
    GX_FACTOR_AUTO = 0, /* in a choice: by A's properties, or by looking (gx_factor_make) */
    GX_FACTOR_DIAGONAL, /* division by the diagonal                      */
    GX_FACTOR_LOWER,    /* triangular solve with A itself                */
    GX_FACTOR_UPPER,
    GX_FACTOR_CHOLESKY, /* A = L L^H                                     */
    GX_FACTOR_LU,       /* P A = L U                                     */
    GX_FACTOR_QR        /* A = Q R; only as a stored factorisation       */
} gx_factor_kind;

typedef struct gx_factor_choice {
    gx_factor_kind kind;
    gx_number dtype;    /* of the factor and of what is solved with it                    */
    bool is_factor;    /* A is a Cholesky factor: kind LOWER or UPPER                    */
    const gx_aux *aux; /* A is a stored factorisation, and this its pivots or tau; else NULL */
} gx_factor_choice;

typedef struct gx_factor {
    gx_run *run;
    gx_factor_kind kind;
    gx_number dtype;
    int64_t n;
    gx_uplo uplo;
    gx_diag diag;
    char label[GX_NAME_MAX + 1]; /* A's                                         */
    void *memory;                /* the whole factor, or the diagonal, when it is resident  */
    int64_t *pivots;             /* of a resident LU; owned                                 */
    bool is_resident;
    gx_sink scratch;   /* else the factor, an intermediate ...                    */
    gx_aux own_aux;    /* ... of LU                                               */
    const gx_aux *aux; /* of LU and QR: own_aux, or that of a stored factorisation */
    const void *tau;   /* of QR: aux's, in the dtype                              */
    gx_mat mat;        /* whatever holds the factor, or the triangle, as a source */
} gx_factor;

/*
** AUTO: by the properties of A: diagonal, lower, upper, positive, else LU.  A value in memory has
** no properties: it is looked at, and solved as a diagonal or triangle where it is one, by Cholesky
** where it is Hermitian with a positive diagonal and the factorisation succeeds, else by LU.
** A must be square and outlive the factor.  Fails the run with GX_NUMERIC where A is singular
** (which pivot) or, asked for Cholesky, not positive definite (which minor).
** *factor must be cleared whatever this returns.
*/
gx_code gx_factor_make(gx_run *run, const gx_mat *A, const gx_factor_choice *choice,
                       gx_factor *factor);

/* What AUTO means for A by its properties alone; why: in words, static. */
gx_factor_kind gx_factor_choose(const gx_mat *A, const char **why);

/* X = op(A)^-1 B.  X's dtype is the factor's; the caller has begun it and ends it. */
gx_code gx_factor_solve(gx_factor *factor, gx_trans trans, const gx_mat *B, gx_sink *X);

void gx_factor_clear(gx_factor *factor); /* a cleared one is a no-op */

/* Has A, Hermitian, a Cholesky factorisation?  Whatever it computes is thrown away. */
gx_code gx_factor_try_cholesky(gx_run *run, const gx_mat *A, bool *is_positive);

// Inside: the drivers' half (factoring_large.c) ---------------------------------------------------

/* Triangles: A itself.  CHOLESKY, LU: an intermediate; false: A is not positive definite. */
bool gx_factor_large_make(gx_factor *factor, const gx_mat *A);
void gx_factor_large_solve(gx_factor *factor, gx_trans trans, const gx_mat *B, gx_sink *X);

#endif
