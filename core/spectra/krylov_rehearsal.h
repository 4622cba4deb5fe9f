/*
** The passes over A that a Krylov driver will take, foretold by running it on a small model.
*/
#ifndef GX_KRYLOV_REHEARSAL_H
#define GX_KRYLOV_REHEARSAL_H

#include "alg_eig.h"

typedef struct gx_foretold {
    int64_t passes;
    const char *how; /* it is known, in words after "17 passes": static */
} gx_foretold;

/*
** args as for gx_eig_krylov() and gx_svd_krylov().  The passes: as many as the connection's latest
** call with these arguments made, if the stored A has not changed since; else those that the driver
** takes where A's spectrum is that of a random matrix, fewer where its values fall faster.  Nothing
** of A is read.
*/
gx_code gx_foretell_eig(gx_run *run, const gx_eig_args *args, gx_foretold *told);
gx_code gx_foretell_svd(gx_run *run, const gx_svd_args *args, gx_foretold *told);

/* A call has made so many passes. */
void gx_passes_note_eig(gx_run *run, const gx_eig_args *args, int64_t passes);
void gx_passes_note_svd(gx_run *run, const gx_svd_args *args, int64_t passes);

#endif
