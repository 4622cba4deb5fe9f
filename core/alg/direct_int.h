/*
** Sparse factorisations: inside.  What direct.c and the files of the two libraries share.
*/
#ifndef GX_DIRECT_INT_H
#define GX_DIRECT_INT_H

#include "direct.h"

/* *library is of dlopen(); GX_UNSUPPORTED names the package. */
gx_code gx_direct_open(gx_run *run, gx_direct_kind kind, void **library, gx_err *err);

/* A function of a library: its name and the pointer that it fills. */
typedef struct gx_direct_symbol {
    const char *name;
    void *place; /* of a function pointer */
} gx_direct_symbol;

/* All of them; GX_UNSUPPORTED names the first that is missing. */
gx_code gx_direct_bind(void *library, const gx_direct_symbol *symbols, gx_err *err);

/* So many bytes more of the budget for SuiteSparse's own, given back by gx_direct_clear(). */
gx_code gx_direct_reserve(gx_direct *F, double bytes, gx_err *err);

/* Factor F->A; F->state and all in it are freed by the third, whatever the first returned. */
gx_code gx_umfpack_make(gx_direct *F, gx_err *err);
gx_code gx_umfpack_solve(gx_direct *F, bool is_transposed, int64_t cols, const double *b,
                         double *x);
void gx_umfpack_clear(gx_direct *F);

gx_code gx_cholmod_make(gx_direct *F, gx_err *err);
gx_code gx_cholmod_solve(gx_direct *F, int64_t cols, const double *b, double *x);
void gx_cholmod_clear(gx_direct *F);

#endif
