/*
** Sparse linear systems: op(A) X = B for a sparse A and a dense B, and least squares.
*/
#ifndef GX_SYSTEM_H
#define GX_SYSTEM_H

#include "factoring.h"
#include "iterate.h"

typedef enum gx_system_method {
    GX_SYSTEM_AUTO =
        0, /* direct where SuiteSparse is installed and memory allows, else iterative */
    GX_SYSTEM_DIRECT,
    GX_SYSTEM_CG,
    GX_SYSTEM_MINRES,
    GX_SYSTEM_GMRES,
    GX_SYSTEM_LSQR
} gx_system_method;

typedef struct gx_system_args {
    const gx_mat *A, *B;
    const gx_mat *x0; /* the first guess, as large as X; NULL: zeros         */
    gx_trans trans;
    gx_factor_kind assume; /* AUTO, CHOLESKY or LU                                */
    gx_system_method method;
    gx_precond_kind precond;
    double tol;      /* 0: the default                                      */
    int64_t most;    /* iterations of a column; 0: the default              */
    int64_t restart; /* of gmres; 0: the default                            */
} gx_system_args;

/* Shape and dtype of X; GX_ARG where shapes do not fit or options do not go together. */
gx_code gx_system_shape(const gx_system_args *args, int64_t *rows, int64_t *cols, gx_number *dtype,
                        gx_err *err);

/*
** X, a sink of that shape and dtype.  All is computed in f64 or c128, with A, B and X in memory.
**
** AUTO    by what A is known or found to be: positive definite by CHOLMOD, else UMFPACK; where
**         that is not installed or does not fit memory_limit, which gx_stats tells, by cg, minres
**         or gmres.
** direct  the residual of each column is checked as the setting 'probe' says (probe.h).
** others  see iterate.h.
*/
gx_code gx_alg_system(gx_run *run, const gx_system_args *args, gx_sink *X);

#endif
