/*
** What the plans of eigenvalues and of singular values share (plan_passes.c): inside.
*/
#ifndef GX_PLAN_SPECTRUM_INT_H
#define GX_PLAN_SPECTRUM_INT_H

#include "plan_spectrum.h"

/* What decides how many block steps a Krylov driver takes. */
typedef struct gx_search {
    enum {
        GX_SEARCH_END,   /* one end of a Hermitian spectrum */
        GX_SEARCH_ENDS,  /* both: the largest magnitudes    */
        GX_SEARCH_SIGMA, /* singular values                 */
        GX_SEARCH_DISC   /* a general matrix                */
    } shape;
    int64_t n, k;             /* values there are; wanted                                  */
    double ratio;             /* SIGMA: the shorter side by the longer; else 0             */
    int64_t ncv, block, kept; /* columns of the basis, of a block, kept at a restart       */
    int64_t maxiter;
    double tol;
} gx_search;

/*
** Passes over A until all have converged: those of the latest such search, known by its key, else
** as if A's spectrum were that of a random matrix.
*/
gx_foretold gx_foretell_passes(gx_run *run, uint64_t key, const gx_search *search);

/*
** The cost of plan->told's passes over A.  A pass is as fast as memory, or as the flops where they
** take longer.  is_coupled: what A makes of a block has something of all of the basis.
*/
void gx_plan_passes(gx_run *run, const gx_mat *A, bool is_coupled, gx_spectrum_plan *plan);

/* The cost of one dense call, on A as it is. */
void gx_plan_dense(gx_run *run, const gx_mat *A, gx_kernel_id kernel, const gx_args *call,
                   gx_spectrum_plan *plan);

#endif
