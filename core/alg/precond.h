/*
** Preconditioners of sparse real systems: z = M^-1 r, M near A and cheap to solve with.
*/
#ifndef GX_PRECOND_H
#define GX_PRECOND_H

#include "whole.h"

typedef enum gx_precond_kind {
    GX_PRECOND_AUTO = 0, /* in a choice: what suits the method                             */
    GX_PRECOND_NONE,     /* M = I                                                          */
    GX_PRECOND_JACOBI,   /* M = |diagonal|, where that is not 0; for lsqr: column norms    */
    GX_PRECOND_ILU0,     /* M = L U with the entries of A                                  */
    GX_PRECOND_IC0       /* M = L L^T with the entries of A's lower triangle               */
} gx_precond_kind;

typedef struct gx_precond {
    gx_precond_kind kind;
    gx_mem *mem;
    const gx_whole *A; /* borrowed                                                       */
    double *inverse;   /* JACOBI: of M's diagonal                                        */
    int64_t *diagonal; /* ILU0: entry number of each row's; IC0: row starts, in place of A's */
    int32_t *index;    /* IC0                                                            */
    double *value;     /* ILU0, IC0: of L and U, of L                                    */
} gx_precond;

/*
** A real and, but for columns' norms (is_by_column), square.  GX_NUMERIC: an incomplete
** factorisation breaks down at a row, which is named.  *M is to be cleared.
*/
gx_code gx_precond_make(gx_run *run, gx_precond_kind kind, const gx_whole *A, bool is_by_column,
                        gx_precond *M);

/* z = M^-1 r; z may be r.  NONE and JACOBI: M->inverse says all, and this is not called. */
void gx_precond_apply(const gx_precond *M, const double *r, double *z);
void gx_precond_clear(gx_precond *M);

#endif
