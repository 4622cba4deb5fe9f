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

#include "../device/devcall.h"
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
    gx_number dtype;   /* of the factor and of what is solved with it                    */
    bool is_factor;    /* A is a Cholesky factor: kind LOWER or UPPER                    */
    const gx_aux *aux; /* A is a stored factorisation, and this its pivots or tau; else NULL */
    int64_t cols;      /* right-hand sides to come: the factor may lie on a device; 0: not there */
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
    bool is_there;     /* on a device, where mat's data lie (factor_device.c)     */
    gx_devcall on;
    gx_err fault;            /* the device's first failure                                  */
    const gx_mat *A;         /* of a factor there: borrowed, to be factored again ...       */
    gx_factor_choice choice; /* ... on the host, where the device fails                     */
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

/*
** factor_device.c.  make: true: the factor is there, or the run has failed; false: it is the
** host's turn, as it is where solve says so, which has then left the device.  clear: any factor.
*/
bool gx_factor_make_there(gx_factor *factor, const gx_mat *A, int64_t cols, bool is_guess);
bool gx_factor_solve_there(gx_factor *factor, gx_trans trans, const gx_mat *B, gx_sink *X);
void gx_factor_clear_there(gx_factor *factor);

/* Its buffers there: the factor, right-hand sides, its diagonal, the kernels' own. */
enum { GX_FACTOR_ITSELF, GX_FACTOR_COLUMNS, GX_FACTOR_DIAGONAL_ROW, GX_FACTOR_WORK };

/* factor_apply.c.  A kernel call where the factor is; x = op(A)^-1 x, x (n x cols) there, too. */
void gx_factor_call(gx_factor *factor, gx_kernel_id kernel, const gx_args *args);
void gx_factor_apply(gx_factor *factor, gx_trans trans, void *x, int64_t cols);

/* Has A, Hermitian, a Cholesky factorisation?  Whatever it computes is thrown away. */
gx_code gx_factor_try_cholesky(gx_run *run, const gx_mat *A, bool *is_positive);

// Systems: op(A) X = B, with refinement, and the condition of A -----------------------------------

enum { GX_REFINE_MOST = 10, GX_MIXED_MOST = 30 };

typedef struct gx_solve_args {
    const gx_mat *A, *B;
    gx_trans trans;
    gx_factor_kind assume;
    bool is_factor;    /* A is a Cholesky factor: assume is LOWER or UPPER */
    const gx_aux *aux; /* A is a stored factorisation; else NULL           */
    int64_t refine;    /* at most so many steps of iterative refinement; 0: none */
    bool is_mixed;     /* factor in half the precision, refine to the full one */
} gx_solve_args;

/*
** Shape and dtype of X; GX_ARG where A is not square, B does not fit, options do not go together.
*/
gx_code gx_solve_shape(const gx_solve_args *args, int64_t *n, int64_t *cols, gx_number *dtype,
                       gx_err *err);

/*
** X = op(A)^-1 B.  Factors as gx_factor_make() chooses, solves all columns of B in one pass over
** the factor.  X is a sink of the shape and dtype above.
**
** refine  Each step computes R = B - op(A) X, solves op(A) D = R with the same factor, X += D; f64
**         and c128 in that precision, f32 and c64 with X and R in double.  Stops when the
**         worst column's backward error ||r||_1 / (||A||_1 ||x||_1 + ||b||_1) is not halved any
**         more, and keeps the better X.
** mixed   The factor is f32 (c64); steps until every column has ||r||_1 <= sqrt(n) eps ||A||_1
**         ||x||_1 (LAPACK's dsgesv), at most GX_MIXED_MOST; where that fails, or the f32
**         factorisation does, the full precision is used, which gx_stats tells.
*/
gx_code gx_alg_solve(gx_run *run, const gx_solve_args *args, gx_sink *X);

/*
** Estimate of ||A^-1||_1 (infinity: of A^H's) by Higham's method, at most 11 solves with the
** factor.
*/
gx_code gx_alg_inverse_norm(gx_factor *factor, bool is_infinity, double *norm);

#endif
