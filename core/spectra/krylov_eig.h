/*
** Few eigenvalues of a matrix of any size: the Krylov driver behind gx_alg_eig().
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

#endif
