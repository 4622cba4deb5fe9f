/*
** Inside gx_team_call(), lowest first: team_cut.c cuts one kernel call into pieces; team_solve.c,
** then team_qr.c break the call of a factorisation down into such calls; team_call.c chooses.
*/
#ifndef GX_TEAM_INT_H
#define GX_TEAM_INT_H

#include "team.h"

/* What all calls that one call is broken down into have in common. */
typedef struct gx_job {
    gx_team *team; /* may be NULL */
    const gx_backend *backend;
    gx_dev *dev;
    gx_number dtype;
    const gx_cut *cut; /* may be NULL */
} gx_job;

/* The kernel itself; GX_UNSUPPORTED where the backend has none. */
gx_code gx_job_kernel(const gx_job *job, gx_kernel_id kernel, gx_kernel *run, gx_err *err);

/*
** team_cut.c: the call cut into cells of its result.  Triangles past the leaf, factorisations and
** whole-matrix calls have entries of their own.
*/
gx_code gx_job_call(const gx_job *job, gx_kernel_id kernel, const gx_args *args, gx_err *err);

/* FUSED, without folds, cut in the same way. */
gx_code gx_job_fused(const gx_job *job, const gx_args *args, gx_err *err);

/* One kernel call on the caller's thread, with the memory that it wants; polls before. */
gx_code gx_job_whole(const gx_job *job, gx_kernel_id kernel, const gx_args *args, gx_err *err);

/* The longest side of a triangle that TRSM and TRMM take as one kernel call. */
enum { GX_TRIANGLE_LEAF = 256 };

/* team_solve.c: TRSM and TRMM of any size, POTRF, GETRF. */
gx_code gx_job_triangular(const gx_job *job, gx_kernel_id kernel, const gx_args *args, gx_err *err);
gx_code gx_job_potrf(const gx_job *job, const gx_args *args, gx_err *err);
gx_code gx_job_getrf(const gx_job *job, const gx_args *args, gx_err *err);

/* team_qr.c: GEQRF, LARFT, LARFB, ORMQR, ORGQR, TPQRT, TPMQRT. */
gx_code gx_job_reflectors(const gx_job *job, gx_kernel_id kernel, const gx_args *args, gx_err *err);

/*
** Who computes it for a host backend: itself, or the CPU backend the spectra that the reference
** backend leaves to LAPACK.
*/
const gx_backend *gx_team_backend(const gx_backend *backend, gx_kernel_id kernel, gx_number dtype);

#endif
